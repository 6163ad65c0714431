// What the kernels derive once from a model's tree: in which blocks of joints the ancestors of each joint are
// (lagrangian.hpp, rows of second derivatives). Massive joints come in depth-first order, so all that is below a joint
// follows it.
#pragma once
#include <algorithm>
#include <map>
#include <vector>
#include "model.hpp"

namespace dalembert {

inline void plan_rows(ModelData& M) {
  M.side_node.assign(M.nm + 8, 0);
  M.side_parent.assign(M.nm + 8, 0);
  for (int j = 0; j < M.nm; ++j) {
    M.side_node[j] = M.joints[j].node;
    M.side_parent[j] = M.joints[j].parent;
  }
  M.in_order = true;
  for (int j = 0; j < M.nm; ++j) {
    M.in_order = M.in_order && M.joints[j].v == j;
    for (int t = M.path_offset[j]; t < M.path_offset[j + 1]; ++t) M.path_joint.push_back(M.v_joint[M.path_v[t]]);
  }
  std::vector<int> last(M.nm);  // of the joints below, which follow each other
  for (int j = M.nm - 1; j >= 0; --j) {
    last[j] = std::max(last[j], j);
    int up = M.joints[j].parent - 1;
    if (up >= 0) last[up] = std::max(last[up], last[j]);
  }
  auto above = [&](int a, int j) { return a <= j && j <= last[a]; };
  M.mirrored = (M.nm + 3) / 4 * 4 <= M.nv ? M.nm : M.nm / 4 * 4;  // rows after the massive joints are zero, so a last
                                                                  // block may reach into them
  for (int i = 4; i < M.mirrored; i += 4)
    for (int k = 0; k < i; k += 4) {
      bool related = false;
      for (int t = 0; t < 16; ++t) related = related || (i + t / 4 < M.nm && above(k + t % 4, i + t / 4));
      if (related) M.mirror.insert(M.mirror.end(), {i, k});
    }
  for (int size : {4, 8}) {
    RowPlan& R = size == 4 ? M.rows4 : M.rows8;
    R.paired.resize(M.nm);
    R.off.push_back(0);
    std::map<std::vector<int64_t>, int> known;
    for (int j = 0; j < M.nm; ++j) {
      for (int t = M.path_offset[j]; t < M.path_offset[j + 1]; ++t) {
        int at = M.path_joint[t] / size * size;
        if (int(R.first.size()) > R.off[j] && R.first.back() == at) continue;
        R.first.push_back(at);
        std::vector<int64_t> mask(size, 0);
        for (int i = 0; i < size; ++i)
          if (at + i < M.nm && (above(at + i, j) || above(j, at + i))) mask[i] = -1;
        auto [found, fresh] = known.emplace(mask, int(R.masks.size()));
        if (fresh) R.masks.insert(R.masks.end(), mask.begin(), mask.end());
        R.mask.push_back(found->second);
      }
      R.off.push_back(int(R.first.size()));
      if (j > 0 && !(j > 1 && R.paired[j - 2]) && M.joints[j].parent == j &&
          R.off[j + 1] - R.off[j] == R.off[j] - R.off[j - 1])
        R.paired[j - 1] = 1;
    }
  }
}

}  // namespace dalembert
