// What the kernels derive once from a model's tree: in which blocks of joints the ancestors of each joint are
// (lagrangian.hpp, rows of second derivatives). Massive joints come in depth-first order, so all that is below a joint
// follows it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>
#include "model.hpp"

namespace dalembert {

// components of the massive ancestors of each massive joint, itself last
inline void plan_paths(ModelData& M) {
  M.path_offset.assign(1, 0);
  for (int j = 0; j < M.nm; ++j) {
    const int up = M.joints[j].parent - 1;
    if (up >= 0)
      for (int t = M.path_offset[up]; t < M.path_offset[up + 1]; ++t) M.path_v.push_back(M.path_v[t]);
    M.path_v.push_back(M.joints[j].v);
    M.path_offset.push_back(int(M.path_v.size()));
  }
}

// paths of the elimination tree, packed rows along them, and where the entries of the kinematic tree are there
inline void plan_elimination(ModelData& M, const std::vector<int>& dynamic_parent) {
  const int nd = M.nd;
  M.elim_path_offset.assign(1, 0);
  std::vector<int> below(nd + 1, 0);
  for (int k = 0; k < nd; ++k) {
    const int up = M.elim_parent[k];
    if (up >= 0) {
      for (int t = M.elim_path_offset[up]; t < M.elim_path_offset[up + 1]; ++t) M.elim_path.push_back(M.elim_path[t]);
      M.elim_path.push_back(up);
    }
    M.elim_path_offset.push_back(int(M.elim_path.size()));
    const int depth = M.elim_path_offset[k + 1] - M.elim_path_offset[k];
    M.elim_depth.push_back(depth);
    M.elim_row.push_back(M.packed);
    M.packed += (depth + 1 + 7) / 8 * 8;
    for (int t = M.elim_path_offset[k]; t < M.elim_path_offset[k + 1]; ++t) ++below[M.elim_path[t] + 1];
  }
  for (int k = 0; k < nd; ++k) below[k + 1] += below[k];
  M.elim_below_offset = below;
  M.elim_below.resize(M.elim_path.size());
  for (int k = 0; k < nd; ++k)
    for (int t = M.elim_path_offset[k]; t < M.elim_path_offset[k + 1]; ++t) M.elim_below[below[M.elim_path[t]]++] = k;
  for (int k = 0; k < nd && M.coupled; ++k) {
    M.slot_off.push_back(int(M.slot_map.size()));
    const size_t first = M.slot_map.size();
    for (int a = k; a >= 0; a = dynamic_parent[a]) M.slot_map.push_back(M.elim_depth[a]);
    std::reverse(M.slot_map.begin() + first, M.slot_map.end());
  }
  if (!M.coupled) M.slot_off.assign(nd, 0);  // the same tree: slots are depths
}

// structurally non-zero columns of each row of the second derivatives, over all variables: paths, what elements couple,
// and what constraints do
inline void plan_patterns(ModelData& M, const std::vector<int>& coupling, const std::vector<int>& coupling_offset) {
  const int nv = M.nv;
  std::vector<std::vector<int>> rows(nv);
  for (int i = 0; i < nv; ++i) rows[i].push_back(i);
  for (int j = 0; j < M.nm; ++j)
    for (int t = M.path_offset[j]; t + 1 < M.path_offset[j + 1]; ++t) {
      rows[M.path_v[t]].push_back(M.joints[j].v);
      rows[M.joints[j].v].push_back(M.path_v[t]);
    }
  auto put = [&](std::vector<int>& columns, std::vector<int>& offset, std::vector<int>& dynamic) {
    offset.assign(1, 0);
    for (std::vector<int>& r : rows) {
      std::sort(r.begin(), r.end());
      r.erase(std::unique(r.begin(), r.end()), r.end());
      columns.insert(columns.end(), r.begin(), r.end());
      offset.push_back(int(columns.size()));
      dynamic.push_back(int(std::lower_bound(r.begin(), r.end(), M.nd) - r.begin()));
    }
  };
  for (size_t c = 0; c + 1 < coupling_offset.size(); ++c)
    for (int a = coupling_offset[c]; a < coupling_offset[c + 1]; ++a)
      rows[coupling[a]].insert(rows[coupling[a]].end(), coupling.begin() + coupling_offset[c],
                               coupling.begin() + coupling_offset[c + 1]);
  put(M.free_pattern, M.free_pattern_offset, M.free_pattern_dynamic);
  // variables of a constraint are all coupled: bit by bit, because in a ladder every constraint has all that are above
  const size_t words = size_t(nv + 63) / 64;
  std::vector<uint64_t> bits(M.constraints.empty() ? 0 : words * nv), clique(words);
  for (const Element& e : M.constraints) {
    std::fill(clique.begin(), clique.end(), 0);
    auto each = [&](auto then) {
      for (int i = 0; i < e.n; ++i) then(M.local_v[e.vars + i]);
      for (int i = 0; i < e.nrow; ++i) then(M.local_v[e.rows + i]);
    };
    each([&](int a) { clique[a / 64] |= uint64_t(1) << (a % 64); });
    each([&](int a) {
      for (size_t k = 0; k < words; ++k) bits[a * words + k] |= clique[k];
    });
  }
  for (int i = 0; i < nv && !bits.empty(); ++i)
    for (int k = 0; k < nv; ++k)
      if (bits[i * words + k / 64] >> (k % 64) & 1) rows[i].push_back(k);
  put(M.pattern, M.pattern_offset, M.pattern_dynamic);
}

// of each element that is not long: which of its local variables are above which
inline void plan_ancestry(ModelData& M) {
  std::vector<int>&enter = M.pose_enter, &leave = M.pose_leave, count(M.nj + 1, 1), next(M.nj + 1, 1);
  enter.assign(M.nj + 1, 0);
  leave.assign(M.nj + 1, 0);
  for (int j = M.nj; j >= 1; --j) count[M.joints[j - 1].parent] += count[j];
  for (int j = 1; j <= M.nj; ++j) {  // numbers in preorder, whatever the order of the joints
    const int up = M.joints[j - 1].parent;
    enter[j] = enter[up] + next[up];
    next[up] += count[j];
  }
  for (int j = 0; j <= M.nj; ++j) leave[j] = enter[j] + count[j];
  for (auto* list : {&M.potentials, &M.forces, &M.constraints})
    for (Element& e : *list) {
      if (e.n > kShortElement) {
        e.pair = -1;
        continue;
      }
      e.pair = int(M.ancestry.size());
      const int* at = M.local_joint.data() + e.vars;
      for (int i = 0; i < e.n; ++i)
        for (int k = 0; k < e.n; ++k)
          M.ancestry.push_back(at[i] > 0 && at[k] > 0 && enter[at[i]] <= enter[at[k]] && enter[at[k]] < leave[at[i]]);
    }
}

// bodies on a ball, or on three slides and a ball, without children; none where anything else moves or acts
inline void plan_free_bodies(ModelData& M) {
  if (M.nk || M.has_damping || M.nm != M.nd || M.nd != M.nv) return;
  if (!M.potentials.empty() || !M.forces.empty() || !M.constraints.empty()) return;
  std::vector<FreeBody> bodies;
  int covered = 0;
  for (size_t i = 0; i < M.balls.size(); ++i) {
    const Joint& J = M.joints[M.balls[i].joint];
    const Joint& last = M.joints[M.balls[i].joint + 2];
    if (!last.leaf || last.node < 0 || M.nodes[last.node].body < 2) return;
    FreeBody f{int(i), -1};
    covered += 3;
    if (J.parent) {
      const int first = J.parent - 3;  // joint of the first slide
      if (first < 0 || M.joints[first].parent || J.turned) return;
      for (int c = 0; c < 3; ++c) {
        const Joint& S = M.joints[first + c];
        if (S.kind != JointKind(c) || S.node != last.node || (c && (S.turned || S.parent != first + c))) return;
        if (S.v != M.joints[first].v + c || S.q != M.joints[first].q + c) return;
      }
      f.slide = M.joints[first].v;
      covered += 3;
    }
    bodies.push_back(f);
  }
  if (covered == M.nd) M.free_bodies = bodies;
}

inline void plan_rows(ModelData& M) {
  for (int n = 0; n < M.nn; ++n)
    if (M.nodes[n].parent < 0) M.root_nodes.push_back(n);
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
