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
constexpr int GEMM_KC = 256;  // depth of a packed block: a strip of B stays in the first-level cache

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
                    for (int j = 0; j < end; ++j)
                        row[j] = scale == 0.0 ? alpha * from[j] : alpha * from[j] + scale * row[j];
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

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
