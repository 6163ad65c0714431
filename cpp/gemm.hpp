// Dense matrix products, row-major: C = alpha op(A) op(B) + beta C, full or lower triangle only.
//
// Contract: raw pointers, no allocation, no exceptions; the caller gives `work` of gemm_workspace(m, n, k) doubles.
// op is expressed by strides: element (i, k) of op(A) is a[i * a_row + k * a_col], so a transpose is a swap of strides.
// The inner product runs on packed strips (MR rows of A, NR columns of B, zero padded), so that there is one
// micro-kernel without edge cases: MR x NR accumulators in registers, one broadcast per row, two loads per column pair.
//
// The header is compiled once per instruction set: DALEMBERT_ARCH names the namespace, and nothing here may call
// inline functions of the standard library (the linker would merge them across instruction sets).
#pragma once

#include <cstddef>
#include <cstring>

#include "compiler.hpp"

#ifndef DALEMBERT_ARCH
#define DALEMBERT_ARCH generic
#endif

namespace dalembert {
namespace DALEMBERT_ARCH {

#if defined(__AVX512F__)
constexpr int GEMM_WIDTH = 8, GEMM_MR = 10;
#elif defined(__AVX__)
constexpr int GEMM_WIDTH = 4, GEMM_MR = 6;
#else
constexpr int GEMM_WIDTH = 2, GEMM_MR = 6;
#endif
constexpr int GEMM_NR = 2 * GEMM_WIDTH;
constexpr int GEMM_PLAIN = 100;  // products of a pendulum's size are not worth the packing
constexpr int GEMM_KC = 256;     // depth of a packed block: a strip of B stays in the first-level cache

typedef double gemm_vec __attribute__((vector_size(GEMM_WIDTH * 8), aligned(8), may_alias));

enum class Part { full, lower };

constexpr int gemm_round(int n, int unit) { return (n + unit - 1) / unit * unit; }

// Doubles needed by gemm(m, n, k).
constexpr std::size_t gemm_workspace(int m, int n, int k) {
  const std::size_t depth = k < GEMM_KC ? k : GEMM_KC;
  (void)n;
  return depth * (gemm_round(m, GEMM_MR) + GEMM_NR) + GEMM_MR * GEMM_NR;
}

// tile (MR x NR) = sum over k of a strip column times a strip row, both packed.
inline void gemm_tile(int depth, const double* __restrict a, const double* __restrict b, double* __restrict tile) {
  gemm_vec acc[GEMM_MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < GEMM_MR; ++i) acc[i][0] = acc[i][1] = gemm_vec{};
  for (int k = 0; k < depth; ++k) {
    const gemm_vec b0 = *reinterpret_cast<const gemm_vec*>(b);
    const gemm_vec b1 = *reinterpret_cast<const gemm_vec*>(b + GEMM_WIDTH);
#pragma GCC unroll 16
    for (int i = 0; i < GEMM_MR; ++i) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
    a += GEMM_MR;
    b += GEMM_NR;
  }
#pragma GCC unroll 16
  for (int i = 0; i < GEMM_MR; ++i) {
    *reinterpret_cast<gemm_vec*>(tile + i * GEMM_NR) = acc[i][0];
    *reinterpret_cast<gemm_vec*>(tile + i * GEMM_NR + GEMM_WIDTH) = acc[i][1];
  }
}

// `unit` lines of length `depth` interleaved, missing lines zero: out[k * unit + i] = x[i * line + k * along].
template <int unit>
inline void gemm_pack(int lines, int depth, const double* x, std::ptrdiff_t line, std::ptrdiff_t along, double* out) {
  if (lines == unit && line == 1) {
    for (int k = 0; k < depth; ++k) std::memcpy(out + k * unit, x + k * along, unit * sizeof(double));
    return;
  }
  for (int i = 0; i < lines; ++i)
    for (int k = 0; k < depth; ++k) out[k * unit + i] = x[i * line + k * along];
  for (int i = lines; i < unit; ++i)
    for (int k = 0; k < depth; ++k) out[k * unit + i] = 0.0;
}

// C (m x n, row stride ldc) = alpha op(A) (m x k) op(B) (k x n) + beta C. beta = 0 never reads C.
// Part::lower computes the entries j <= i (whole tiles are skipped above the diagonal, nothing is written there).
inline void gemm(int m, int n, int k, double alpha, const double* a, std::ptrdiff_t a_row, std::ptrdiff_t a_col,
                 const double* b, std::ptrdiff_t b_row, std::ptrdiff_t b_col, double beta, double* c,
                 std::ptrdiff_t ldc, double* work, Part part = Part::full) {
  if (k <= 0) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < (part == Part::lower && i + 1 < n ? i + 1 : n); ++j)
        c[i * ldc + j] = beta == 0.0 ? 0.0 : beta * c[i * ldc + j];
    return;
  }
  if (m * n * k <= GEMM_PLAIN) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < (part == Part::lower && i + 1 < n ? i + 1 : n); ++j) {
        double sum = 0.0;
        for (int l = 0; l < k; ++l) sum += a[i * a_row + l * a_col] * b[l * b_row + j * b_col];
        c[i * ldc + j] = beta == 0.0 ? alpha * sum : alpha * sum + beta * c[i * ldc + j];
      }
    return;
  }
  const int strips = gemm_round(m, GEMM_MR) / GEMM_MR;
  double* tile = work;
  double* pack_b = tile + GEMM_MR * GEMM_NR;
  for (int k0 = 0; k0 < k; k0 += GEMM_KC) {
    const int depth = k - k0 < GEMM_KC ? k - k0 : GEMM_KC;
    double* pack_a = pack_b + static_cast<std::size_t>(depth) * GEMM_NR;
    const double scale = k0 == 0 ? beta : 1.0;
    // all strips of A once, then one strip of B at a time
    for (int s = 0; s < strips; ++s) {
      const int i0 = s * GEMM_MR, rows = m - i0 < GEMM_MR ? m - i0 : GEMM_MR;
      gemm_pack<GEMM_MR>(rows, depth, a + i0 * a_row + k0 * a_col, a_row, a_col,
                         pack_a + static_cast<std::size_t>(s) * depth * GEMM_MR);
    }
    for (int j0 = 0; j0 < n; j0 += GEMM_NR) {
      const int columns = n - j0 < GEMM_NR ? n - j0 : GEMM_NR;
      gemm_pack<GEMM_NR>(columns, depth, b + k0 * b_row + j0 * b_col, b_col, b_row, pack_b);
      for (int s = part == Part::lower ? j0 / GEMM_MR : 0; s < strips; ++s) {
        const int i0 = s * GEMM_MR, rows = m - i0 < GEMM_MR ? m - i0 : GEMM_MR;
        gemm_tile(depth, pack_a + static_cast<std::size_t>(s) * depth * GEMM_MR, pack_b, tile);
        const bool whole = columns == GEMM_NR && (part == Part::full || i0 >= j0 + GEMM_NR - 1);
        for (int i = 0; i < rows; ++i) {
          double* __restrict row = c + (i0 + i) * ldc + j0;
          const double* __restrict from = tile + i * GEMM_NR;
          if (whole) {
            for (int h = 0; h < 2; ++h) {
              gemm_vec* to = reinterpret_cast<gemm_vec*>(row + h * GEMM_WIDTH);
              const gemm_vec x = *reinterpret_cast<const gemm_vec*>(from + h * GEMM_WIDTH) * alpha;
              *to = scale == 0.0 ? x : x + *to * scale;
            }
            continue;
          }
          const int diagonal = i0 + i - j0 + 1;
          const int end = part == Part::full || diagonal > columns ? columns : diagonal;
          for (int j = 0; j < end; ++j) row[j] = scale == 0.0 ? alpha * from[j] : alpha * from[j] + scale * row[j];
        }
      }
    }
  }
}

// y (m) = alpha op(A) x + beta y for a row-major A (m x n): rows are contiguous dot products.
inline void gemv(int m, int n, double alpha, const double* a, std::ptrdiff_t lda, const double* __restrict x,
                 double beta, double* __restrict y) {
  for (int i = 0; i < m; ++i) {
    const double* __restrict row = a + i * lda;
    gemm_vec s0{}, s1{};
    int j = 0;
    for (; j + GEMM_NR <= n; j += GEMM_NR) {
      s0 += *reinterpret_cast<const gemm_vec*>(row + j) * *reinterpret_cast<const gemm_vec*>(x + j);
      s1 += *reinterpret_cast<const gemm_vec*>(row + j + GEMM_WIDTH) *
            *reinterpret_cast<const gemm_vec*>(x + j + GEMM_WIDTH);
    }
    s0 += s1;
    double sum = 0.0;
    for (int l = 0; l < GEMM_WIDTH; ++l) sum += s0[l];
    for (; j < n; ++j) sum += row[j] * x[j];
    y[i] = beta == 0.0 ? alpha * sum : alpha * sum + beta * y[i];
  }
}

// y (n) = alpha A^T x + beta y for a row-major A (m x n): sums of rows, contiguous, four rows at a time.
inline void gemv_t(int m, int n, double alpha, const double* a, std::ptrdiff_t lda, const double* __restrict x,
                   double beta, double* __restrict y) {
  for (int j = 0; j < n; ++j) y[j] = beta == 0.0 ? 0.0 : beta * y[j];
  int i = 0;
  for (; i + 4 <= m; i += 4) {
    const double* __restrict row = a + i * lda;
    const double s0 = alpha * x[i], s1 = alpha * x[i + 1], s2 = alpha * x[i + 2], s3 = alpha * x[i + 3];
    for (int j = 0; j < n; ++j)
      y[j] += (s0 * row[j] + s1 * row[j + lda]) + (s2 * row[j + 2 * lda] + s3 * row[j + 3 * lda]);
  }
  for (; i < m; ++i) {
    const double* __restrict row = a + i * lda;
    const double s = alpha * x[i];
    for (int j = 0; j < n; ++j) y[j] += s * row[j];
  }
}

// Upper triangle from the lower one, in blocks that stay in the first-level cache.
inline void mirror_lower(int n, double* a, std::ptrdiff_t lda) {
  constexpr int block = 16;
  for (int i0 = 0; i0 < n; i0 += block)
    for (int j0 = 0; j0 <= i0; j0 += block)
      for (int i = i0; i < n && i < i0 + block; ++i) {
        const int end = j0 + block < i ? j0 + block : i;
        for (int j = j0; j < end; ++j) a[j * lda + i] = a[i * lda + j];
      }
}

// 4 x 4 blocks turned in registers: out[r] has the r-th entries. Halves of rows are put together while they are loaded,
// so that one shuffle is left for each.
#if defined(__AVX__)
typedef double quad_vec __attribute__((vector_size(32), aligned(8), may_alias));
typedef double pair_vec __attribute__((vector_size(16), aligned(8), may_alias));
inline __attribute__((always_inline)) void turn_block(const double* x0, const double* x1, const double* x2,
                                                      const double* x3, quad_vec* out) {
#pragma GCC unroll 2
  for (int h = 0; h < 4; h += 2) {
    const quad_vec even = __builtin_shufflevector(*reinterpret_cast<const pair_vec*>(x0 + h),
                                                  *reinterpret_cast<const pair_vec*>(x2 + h), 0, 1, 2, 3);
    const quad_vec odd = __builtin_shufflevector(*reinterpret_cast<const pair_vec*>(x1 + h),
                                                 *reinterpret_cast<const pair_vec*>(x3 + h), 0, 1, 2, 3);
    out[h] = __builtin_shufflevector(even, odd, 0, 4, 2, 6);
    out[h + 1] = __builtin_shufflevector(even, odd, 1, 5, 3, 7);
  }
}
#endif

// C (m x n, row stride ldc) += scale X^T or = scale X^T, for X (n x m, row stride ldx)
template <bool ADD>
inline __attribute__((always_inline)) void take_transposed(double* c, std::ptrdiff_t ldc, const double* x,
                                                           std::ptrdiff_t ldx, int m, int n, double scale = 1.0) {
  int i = 0;
#if defined(__AVX__)
  for (; i + 4 <= m; i += 4) {
    int j = 0;
    for (; j + 4 <= n; j += 4) {
      quad_vec t[4];
      const double* from = x + j * ldx + i;
      turn_block(from, from + ldx, from + 2 * ldx, from + 3 * ldx, t);
      for (int r = 0; r < 4; ++r) {
        quad_vec* to = reinterpret_cast<quad_vec*>(c + (i + r) * ldc + j);
        *to = ADD ? *to + scale * t[r] : scale * t[r];
      }
    }
    for (; j < n; ++j)
      for (int r = 0; r < 4; ++r)
        c[(i + r) * ldc + j] = (ADD ? c[(i + r) * ldc + j] : 0.0) + scale * x[j * ldx + i + r];
  }
#endif
  for (; i < m; ++i)
    for (int j = 0; j < n; ++j) c[i * ldc + j] = (ADD ? c[i * ldc + j] : 0.0) + scale * x[j * ldx + i];
}
inline void add_transposed(double* c, std::ptrdiff_t ldc, const double* x, std::ptrdiff_t ldx, int m, int n,
                           double scale = 1.0) {
  take_transposed<true>(c, ldc, x, ldx, m, n, scale);
}

// Upper triangle of C = A^T B (all row-major; C n x n, A and B depth x n), for operands whose rows are padded: whole
// tiles are read and written, so A, B and C must have gemm_round(n, unit) readable columns, C as many writable rows,
// and what is below the diagonal of C is lost.
inline void product_upper(int n, int depth, const double* a, std::ptrdiff_t lda, const double* b, std::ptrdiff_t ldb,
                          double* c, std::ptrdiff_t ldc) {
  for (int i0 = 0; i0 < n; i0 += GEMM_MR)
    for (int j0 = i0 / GEMM_NR * GEMM_NR; j0 < n; j0 += GEMM_NR) {
      gemm_vec acc[GEMM_MR][2];
      double* to = c + i0 * ldc + j0;
#pragma GCC unroll 16
      for (int i = 0; i < GEMM_MR; ++i)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) acc[i][h] = gemm_vec{};
      const double *x = a + i0, *y = b + j0;
      for (int k = 0; k < depth; ++k, x += lda, y += ldb) {
        const gemm_vec b0 = *reinterpret_cast<const gemm_vec*>(y),
                       b1 = *reinterpret_cast<const gemm_vec*>(y + GEMM_WIDTH);
#pragma GCC unroll 16
        for (int i = 0; i < GEMM_MR; ++i) {
          acc[i][0] += x[i] * b0;
          acc[i][1] += x[i] * b1;
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < GEMM_MR; ++i)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) *reinterpret_cast<gemm_vec*>(to + i * ldc + h * GEMM_WIDTH) = acc[i][h];
    }
}

// a[i][j] += a[j][i] for j > i
inline void fold_lower(int n, double* a, std::ptrdiff_t lda) {
  for (int i0 = 0; i0 < n; i0 += 4) {
    const int rows = n - i0 < 4 ? n - i0 : 4;
    for (int i = i0; i < i0 + rows; ++i)
      for (int j = i + 1; j < i0 + rows; ++j) a[i * lda + j] += a[j * lda + i];
    if (i0 + rows < n)
      take_transposed<true>(a + i0 * lda + i0 + rows, lda, a + (i0 + rows) * lda + i0, lda, rows, n - i0 - rows);
  }
}

// C (n x n, row stride ldc) = the symmetric matrix whose upper triangle is in A (row stride lda); C may be A
inline void copy_symmetric(int n, const double* a, std::ptrdiff_t lda, double* c, std::ptrdiff_t ldc) {
  constexpr int block = 8;
  for (int i0 = 0; i0 < n; i0 += block) {
    const int rows = n - i0 < block ? n - i0 : block;
    take_transposed<false>(c + i0 * ldc, ldc, a + i0, lda, rows, i0);
    for (int i = i0; i < i0 + rows; ++i) {
      for (int j = i0; j < i; ++j) c[i * ldc + j] = a[j * lda + i];
      int j = i;
      for (; j + GEMM_WIDTH <= n; j += GEMM_WIDTH)
        *reinterpret_cast<gemm_vec*>(c + i * ldc + j) = *reinterpret_cast<const gemm_vec*>(a + i * lda + j);
      for (; j < n; ++j) c[i * ldc + j] = a[i * lda + j];
    }
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
