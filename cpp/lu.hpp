// Dense LU with row exchanges, for matrices without a structure that is worth keeping (the stages of a Gauss step).
//
// Matrices are stored by columns, padded to whole registers: entry (i, k) of A at A[k * lu_stride(n) + i]; what is
// below row n must be zero, and stays zero. Vectors that are solved in place have lu_stride(n) entries.
#pragma once
#include "lanes.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr double kOwnPivot = 0.1, kLeastPivot = 1e-300;
constexpr int lu_stride(int n) { return (n + kWidth - 1) / kWidth * kWidth; }

// the entries of a register after, and before, entry `at`
DAL_INLINE Vec after(int at, Vec x) {
  IVec place;
  for (int l = 0; l < kWidth; ++l) place[l] = l;
  return keep(place > at, x);
}
DAL_INLINE Vec before(int at, Vec x) {
  IVec place;
  for (int l = 0; l < kWidth; ++l) place[l] = l;
  return keep(place < at, x);
}

// the largest of the entries, which are not negative
DAL_INLINE double largest(Vec x) {
  double most = x[0];
#pragma GCC unroll 8
  for (int l = 1; l < kWidth; ++l) most = x[l] > most ? x[l] : most;
  return most;
}
DAL_INLINE Vec magnitude(Vec x) { return x < 0 ? -x : x; }

// A <- its factors: U above the diagonal, the multipliers of L below, inverse pivots on it; row k was exchanged with
// row pivot[k]: that of the largest entry where the own one is less than a tenth of it. False where a pivot vanishes.
inline bool lu_factor(double* A, int* pivot, int n) {
  const int ld = lu_stride(n);
  for (int k = 0; k < n; ++k) {
    double* column = A + size_t(k) * ld;
    const int first = k & -kWidth;
    Vec sizes = after(k - first, magnitude(load(column + first)));
    for (int c = first + kWidth; c < n; c += kWidth) {
      const Vec more = magnitude(load(column + c));
      sizes = more > sizes ? more : sizes;
    }
    pivot[k] = k;
    if (!(__builtin_fabs(column[k]) >= kOwnPivot * largest(sizes))) {
      for (int i = k + 1; i < n; ++i)
        if (__builtin_fabs(column[i]) > __builtin_fabs(column[pivot[k]])) pivot[k] = i;
      for (int j = 0; j < n; ++j) {
        double* other = A + size_t(j) * ld;
        const double t = other[k];
        other[k] = other[pivot[k]];
        other[pivot[k]] = t;
      }
    }
    if (!(__builtin_fabs(column[k]) > kLeastPivot)) return false;
    const double inverse = 1 / column[k];
    const Vec own = load(column + first), scaled = after(k - first, own * splat(inverse));
    store(column + first, before(k - first, own) + scaled);
    for (int c = first + kWidth; c < n; c += kWidth) store(column + c, load(column + c) * splat(inverse));
    for (int j = k + 1; j < n; ++j) {
      double* other = A + size_t(j) * ld;
      const Vec f = splat(other[k]);
      store(other + first, load(other + first) - scaled * f);
      for (int c = first + kWidth; c < n; c += kWidth) store(other + c, load(other + c) - load(column + c) * f);
    }
    column[k] = inverse;
  }
  return true;
}

// x <- L^-1 x (or U^-1 x): the entries of one register at a time, then what they do to the others
template <bool LOWER> DAL_INLINE void lu_sweep(const double* A, int n, double* x) {
  const int ld = lu_stride(n), last = (n - 1) & -kWidth;
  for (int step = 0; step <= last; step += kWidth) {
    const int from = LOWER ? step : last - step;
    const double* block = A + size_t(from) * ld;
    const int count = n - from < kWidth ? n - from : kWidth;
    Vec own = load(x + from);
#pragma GCC unroll 8
    for (int l = 0; l < kWidth; ++l) {
      const int k = LOWER ? l : kWidth - 1 - l;
      if (k >= count) continue;
      const Vec column = load(block + k * ld + from);
      if (LOWER) {
        own -= after(k, column) * splat(own[k]);
      } else {
        const double y = own[k] * column[k];
        own[k] = y;
        own -= before(k, column) * splat(y);
      }
    }
    store(x + from, own);
    for (int c = LOWER ? from + kWidth : 0; c < (LOWER ? n : from); c += kWidth) {
      Vec rest = load(x + c);
#pragma GCC unroll 8
      for (int k = 0; k < kWidth; ++k)
        if (k < count) rest -= load(block + k * ld + c) * splat(own[k]);
      store(x + c, rest);
    }
  }
}

// x (lu_stride(n)) <- A^-1 x
inline void lu_solve(const double* A, const int* pivot, int n, double* x) {
  for (int k = 0; k < n; ++k) {
    const double t = x[k];
    x[k] = x[pivot[k]];
    x[pivot[k]] = t;
  }
  lu_sweep<true>(A, n, x);
  lu_sweep<false>(A, n, x);
}

// X (n, columns; row stride ld) <- A^-1 X
inline void lu_solve(const double* A, const int* pivot, int n, double* X, int columns, int ld) {
  const int stride = lu_stride(n);
  auto entry = [&](int i, int k) { return A[size_t(k) * stride + i]; };
  for (int k = 0; k < n; ++k)
    if (pivot[k] != k)
      for (int c = 0; c < columns; ++c) {
        const double t = X[k * ld + c];
        X[k * ld + c] = X[pivot[k] * ld + c];
        X[pivot[k] * ld + c] = t;
      }
  for (int i = 1; i < n; ++i)
    for (int k = 0; k < i; ++k)
      for (int c = 0; c < columns; ++c) X[i * ld + c] -= entry(i, k) * X[k * ld + c];
  for (int i = n - 1; i >= 0; --i) {
    for (int k = i + 1; k < n; ++k)
      for (int c = 0; c < columns; ++c) X[i * ld + c] -= entry(i, k) * X[k * ld + c];
    for (int c = 0; c < columns; ++c) X[i * ld + c] *= entry(i, i);
  }
}

// x (n) <- A^-T x
inline void lu_solve_transposed(const double* A, const int* pivot, int n, double* x) {
  const int ld = lu_stride(n);
  for (int k = 0; k < n; ++k) {
    const double* column = A + size_t(k) * ld;
    for (int i = 0; i < k; ++i) x[k] -= column[i] * x[i];
    x[k] *= column[k];
  }
  for (int k = n - 1; k >= 0; --k) {
    const double* column = A + size_t(k) * ld;
    for (int i = k + 1; i < n; ++i) x[k] -= column[i] * x[i];
  }
  for (int k = n - 1; k >= 0; --k)
    if (pivot[k] != k) {
      const double t = x[k];
      x[k] = x[pivot[k]];
      x[pivot[k]] = t;
    }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
