// Newton matrices of few variables: inverted in registers, column by column, instead of factored along the elimination
// tree, whose lists cost more than the sums. Pivots and their order are those of factor().
#pragma once
#include "lu.hpp"
#include "solver.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> DAL_INLINE bool is_small(const Work<T>& w) {
  if constexpr (std::is_same_v<T, double>) {
    const ModelData& M = *w.M;
    return M.nd > 0 && M.nd <= kSmallMatrix && !M.chain_solver && !M.loops.used;
  } else {
    return false;
  }
}

// the columns of an N x N matrix, kSmallMatrix entries each, in place of them those of its inverse; false where a pivot
// is not usable
template <int N> DAL_INLINE bool invert_columns(double* A) {
  constexpr int vecs = (N + kWidth - 1) / kWidth;
  Vec a[N][vecs];
  IVec bad{};
#pragma GCC unroll 8
  for (int c = 0; c < N; ++c)
#pragma GCC unroll 4
    for (int v = 0; v < vecs; ++v) a[c][v] = load(A + c * kSmallMatrix + v * kWidth);
#pragma GCC unroll 8
  for (int k = N - 1; k >= 0; --k) {
    const int own = k / kWidth, lane = k % kWidth;
    const double pivot = a[k][own][lane], inverse = 1.0 / pivot;
    // relative pivot: against the entries of its column that are left
    const Vec size = splat(__builtin_fabs(pivot)), least = splat(1e-250);
#pragma GCC unroll 4
    for (int v = 0; v <= own; ++v) {
      Vec rest = magnitude(a[k][v]) * splat(1e-13);
      if (v == own) rest = before(lane, rest);
      bad |= ~(rest < size) | ~(least < size);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; ++v) a[k][v] = a[k][v] * splat(inverse);
    a[k][own][lane] = inverse;
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) {
      if (c == k) continue;
      const Vec f = splat(a[c][own][lane]);
      a[c][own][lane] = 0;
#pragma GCC unroll 4
      for (int v = 0; v < vecs; ++v) a[c][v] -= f * a[k][v];
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < N; ++c)
#pragma GCC unroll 4
    for (int v = 0; v < vecs; ++v) store(A + c * kSmallMatrix + v * kWidth, a[c][v]);
  bool ok = true;
  for (int l = 0; l < kWidth; ++l) ok = ok && bad[l] == 0;
  return ok;
}

// x <- the sum of the columns times b
template <int N> DAL_INLINE void times_columns(const double* A, const double* b, double* x) {
  constexpr int vecs = (N + kWidth - 1) / kWidth;
#pragma GCC unroll 4
  for (int v = 0; v < vecs; ++v) {
    Vec even = load(A + v * kWidth) * splat(b[0]), odd{};
#pragma GCC unroll 8
    for (int c = 1; c < N; ++c) (c & 1 ? odd : even) += load(A + c * kSmallMatrix + v * kWidth) * splat(b[c]);
    store(x + v * kWidth, even + odd);
  }
}

// f(constant n) for n = 1 .. kSmallMatrix
template <class F> DAL_INLINE auto by_size(int n, F f) {
  switch (n) {
    case 1: return f(std::integral_constant<int, 1>());
    case 2: return f(std::integral_constant<int, 2>());
    case 3: return f(std::integral_constant<int, 3>());
    case 4: return f(std::integral_constant<int, 4>());
    case 5: return f(std::integral_constant<int, 5>());
    case 6: return f(std::integral_constant<int, 6>());
    case 7: return f(std::integral_constant<int, 7>());
    default: return f(std::integral_constant<int, kSmallMatrix>());
  }
}

// reads newton.lower, upper; writes newton.inverse; returns usable pivots
inline bool small_factor(Work<double>& w) {
  const ModelData& M = *w.M;
  double* A = w.newton.inverse;
  for (int i = 0; i < M.nd * kSmallMatrix; ++i) A[i] = 0;
  for (int k = 0; k < M.nd; ++k) {
    const int *path = M.elim_path.data() + M.elim_path_offset[k], at = M.elim_row[k], depth = M.elim_depth[k];
    A[k * kSmallMatrix + k] = w.newton.lower[at + depth];
    for (int d = 0; d < depth; ++d) {
      A[path[d] * kSmallMatrix + k] = w.newton.lower[at + d];
      A[k * kSmallMatrix + path[d]] = w.newton.upper[at + d];
    }
  }
  return by_size(M.nd, [&](auto n) { return invert_columns<decltype(n)::value>(A); });
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
