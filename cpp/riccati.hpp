// The time-varying affine linear-quadratic problem by one backward Riccati sweep.
//
//   minimize   sum_k  1/2 x'Qx + x'Su + 1/2 u'Ru + q'x + r'u   +   1/2 x_N'Qf x_N + qf'x_N
//   subject to x_{k+1} = A_k x_k + B_k u_k + c_k
//
// Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 4.5 (eqs 31-33); with S, q, r, c
// absent this is the LQR of Johnson, Schultz, Murphey, Structured linearization, eq. 36: K = [R + B'PB]^-1 B'PA.
// Result: u_k = -K_k x_k - k_k and the cost to go 1/2 x'P_k x + p_k'x + s_k.
//
// Contract: row-major arrays, time first; raw pointers, no allocation, no exceptions; the caller gives `work` of
// riccati_workspace(n, m) doubles. Only the lower triangles of Q, R, Qf are read. Every per-step array has a stride in
// doubles from step to step, 0 for one that is constant in time; c, S, q, r, qf may be null (zero). Q, R, Qf may come
// in parts: Q2, R2, Qf2 (with the strides of Q and R) and constant diagonals Qd, Rd are added where they are not null.
// Never divides by a pivot that is not safely positive: it stops there and says so, later steps are complete.
#pragma once

#include "gemm.hpp"

namespace dalembert {

struct RiccatiProblem {
  int states = 0, inputs = 0, steps = 0;
  const double *A = nullptr, *B = nullptr, *c = nullptr;                              // (n, n) (n, m) (n)
  const double *Q = nullptr, *S = nullptr, *R = nullptr, *q = nullptr, *r = nullptr;  // (n, n) (n, m) (m, m) (n) (m)
  const double *Qf = nullptr, *qf = nullptr;                                          // (n, n) (n)
  const double *Q2 = nullptr, *R2 = nullptr, *Qf2 = nullptr, *Qd = nullptr, *Rd = nullptr;  // (n, n) (m, m) (n) (m)
  std::ptrdiff_t A_stride = 0, B_stride = 0, c_stride = 0, Q_stride = 0, S_stride = 0, R_stride = 0, q_stride = 0,
                 r_stride = 0;
  double regularization = 0.0;    // the problem is solved with R + regularization * 1
  bool (*look)(void*) = nullptr;  // asked now and then; true: to be given up (results are not complete)
  void* looker = nullptr;
};

struct RiccatiSolution {
  double* K = nullptr;     // (N, m, n), required
  double* k = nullptr;     // (N, m), required
  double* P = nullptr;     // (N + 1, n, n) or null
  double* p = nullptr;     // (N + 1, n) or null
  int failed_step = -1;    // the step whose R + B'PB is not positive definite, -1 if none
  int failed_input = -1;   // the pivot of that step at which the factorization stopped
  double min_pivot = 0.0;  // smallest pivot of all steps, relative to its diagonal entry (the bad one on failure)
  int min_pivot_step = -1;
  double constant = 0.0;  // s_0: the optimal cost from x_0 = 0
};

namespace DALEMBERT_ARCH {

constexpr int RICCATI_SMALL = 4;

// Doubles needed by riccati(n, m).
constexpr std::size_t riccati_workspace(int n, int m) {
  const std::size_t a = n, b = m, ld = gemm_round(n + m + 1, GEMM_WIDTH), ldp = gemm_round(n, GEMM_WIDTH);
  const std::size_t product = gemm_workspace(n > m ? n : m, n > m ? n : m, n > m ? n : m);
  const std::size_t small = 3 * a * a + 2 * a * b + b * b + 3 * a + 2 * b + product;
  const std::size_t wide = a * (ldp + 2 * ld) + (a + b) * ld + b * b + b * ld + 3 * a + 3 * b;
  return small > wide ? small : wide;
}

// Cholesky factor of the lower triangle in place. Returns the index of the first pivot that is not safely positive
// (relative to its diagonal entry), or -1; `least` is the smallest relative pivot met.
inline int cholesky(int n, double* a, std::ptrdiff_t lda, double* least) {
  const double floor = 4.0 * 2.220446049250313e-16 * (n > 0 ? n : 1);
  for (int j = 0; j < n; ++j) {
    double* row = a + j * lda;
    const double diagonal = row[j];
    double pivot = diagonal;
    for (int k = 0; k < j; ++k) pivot -= row[k] * row[k];
    const double relative = diagonal > 0.0 ? pivot / diagonal : (pivot == pivot ? -1.0 : pivot);
    if (!(relative >= *least)) *least = relative;
    if (!(relative > floor)) return j;
    const double root = __builtin_sqrt(pivot);
    row[j] = root;
    const double inverse = 1.0 / root;
    for (int i = j + 1; i < n; ++i) {
      double* other = a + i * lda;
      double s = other[j];
      for (int k = 0; k < j; ++k) s -= other[k] * row[k];
      other[j] = s * inverse;
    }
  }
  return -1;
}

// One block of columns of L^-1 X (or L^-T X): a row lives in registers while the rows it depends on are subtracted.
template <int vectors, bool transposed>
inline void solve_block(int n, const double* l, std::ptrdiff_t ldl, double* x, std::ptrdiff_t ldx) {
  for (int t = 0; t < n; ++t) {
    const int i = transposed ? n - 1 - t : t;
    gemm_vec row[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) row[v] = *reinterpret_cast<const gemm_vec*>(x + i * ldx + v * GEMM_WIDTH);
    for (int h = 0; h < t; ++h) {
      const int j = transposed ? n - 1 - h : h;
      const double f = transposed ? l[j * ldl + i] : l[i * ldl + j];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) row[v] -= f * *reinterpret_cast<const gemm_vec*>(x + j * ldx + v * GEMM_WIDTH);
    }
    const double d = 1.0 / l[i * ldl + i];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) *reinterpret_cast<gemm_vec*>(x + i * ldx + v * GEMM_WIDTH) = row[v] * d;
  }
}

// X (n x columns) = L^-1 X, or L^-T X.
template <bool transposed>
inline void solve_lower(int n, int columns, const double* l, std::ptrdiff_t ldl, double* x, std::ptrdiff_t ldx) {
  int c = 0;
  for (; c + 4 * GEMM_WIDTH <= columns; c += 4 * GEMM_WIDTH) solve_block<4, transposed>(n, l, ldl, x + c, ldx);
  for (; c + GEMM_WIDTH <= columns; c += GEMM_WIDTH) solve_block<1, transposed>(n, l, ldl, x + c, ldx);
  for (; c < columns; ++c)
    for (int t = 0; t < n; ++t) {
      const int i = transposed ? n - 1 - t : t;
      double s = x[i * ldx + c];
      for (int h = 0; h < t; ++h) {
        const int j = transposed ? n - 1 - h : h;
        s -= (transposed ? l[j * ldl + i] : l[i * ldl + j]) * x[j * ldx + c];
      }
      x[i * ldx + c] = s / l[i * ldl + i];
    }
}

// to (n, n) = a + b + diag(d); b and d may be null
inline void sum_parts(int n, const double* a, const double* b, const double* d, double* to) {
  const std::size_t count = static_cast<std::size_t>(n) * n;
  if (b)
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  else std::memcpy(to, a, count * sizeof(double));
  if (d)
    for (int i = 0; i < n; ++i) to[i * n + i] += d[i];
}

// The backward sweep of small problems, whose products are plain sums.
inline bool riccati_small(const RiccatiProblem& problem, RiccatiSolution& solution, double* work) {
  const int n = problem.states, m = problem.inputs, steps = problem.steps;
  const std::size_t nn = static_cast<std::size_t>(n) * n, nm = static_cast<std::size_t>(n) * m;
  double* P = work;    // (n, n) cost to go of the next step, full
  double* W = P + nn;  // (n, n) P A
  double* Z = W + nn;  // (n, n) the new P
  double* V = Z + nn;  // (n, m) P B
  double* Y = V + nm;  // (m, n) H, then L^-1 H
  double* G = Y + nm;  // (m, m) R + B'PB, then its factor L
  double* p = G + static_cast<std::size_t>(m) * m;
  double* g = p + n;  // p + P c
  double* f = g + n;
  double* y = f + n;  // r + B'g, then L^-1 of it
  double* room = y + 2 * m;

  solution.failed_step = solution.failed_input = solution.min_pivot_step = -1;
  solution.constant = 0.0;
  double least = 2.0;

  // cost to go of the last state
  sum_parts(n, problem.Qf, problem.Qf2, problem.Qd, P);
  mirror_lower(n, P, n);
  if (problem.qf) std::memcpy(p, problem.qf, n * sizeof(double));
  else std::memset(p, 0, n * sizeof(double));
  if (solution.P) std::memcpy(solution.P + steps * nn, P, nn * sizeof(double));
  if (solution.p) std::memcpy(solution.p + static_cast<std::size_t>(steps) * n, p, n * sizeof(double));

  for (int s = steps - 1; s >= 0; --s) {
    const double* A = problem.A + s * problem.A_stride;
    const double* B = problem.B + s * problem.B_stride;
    double* K = solution.K + s * nm;
    double* k = solution.k + static_cast<std::size_t>(s) * m;

    if (problem.look && (n > 16 || s % 32 == 0) && problem.look(problem.looker)) return false;

    // products with the cost to go
    gemm(n, n, n, 1.0, P, 1, n, A, n, 1, 0.0, W, n, room);  // P read by columns: packs faster
    gemm(n, m, n, 1.0, P, 1, n, B, m, 1, 0.0, V, m, room);

    // gradient of the next cost at x = u = 0: g = p + P c
    if (problem.c) {
      const double* c = problem.c + s * problem.c_stride;
      gemv(n, n, 1.0, P, n, c, 0.0, f);
      for (int i = 0; i < n; ++i) {
        g[i] = p[i] + f[i];
        solution.constant += c[i] * (p[i] + 0.5 * f[i]);
      }
    } else {
      std::memcpy(g, p, n * sizeof(double));
    }

    // input block G = R + reg + B'PB, cross block H = S' + B'PA, gradient y = r + B'g
    const double* R2 = problem.R2 ? problem.R2 + s * problem.R_stride : nullptr;
    sum_parts(m, problem.R + s * problem.R_stride, R2, problem.Rd, G);
    for (int i = 0; i < m; ++i) G[i * m + i] += problem.regularization;
    gemm(m, m, n, 1.0, B, 1, m, V, m, 1, 1.0, G, m, room, Part::lower);
    if (problem.S) {
      const double* S = problem.S + s * problem.S_stride;
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) Y[i * n + j] = S[j * m + i];
    }
    gemm(m, n, n, 1.0, B, 1, m, W, n, 1, problem.S ? 1.0 : 0.0, Y, n, room);
    if (problem.r) std::memcpy(y, problem.r + s * problem.r_stride, m * sizeof(double));
    gemv_t(n, m, 1.0, B, m, g, problem.r ? 1.0 : 0.0, y);

    // factor, and stop where it is not positive definite
    const double before = least;
    const int bad = cholesky(m, G, m, &least);
    if (!(least >= before)) solution.min_pivot_step = s;
    if (bad >= 0) {
      solution.failed_step = s;
      solution.failed_input = bad;
      solution.min_pivot = least;
      return false;
    }

    // gains
    solve_lower<false>(m, n, G, m, Y, n);
    solve_lower<false>(m, 1, G, m, y, 1);
    std::memcpy(K, Y, nm * sizeof(double));
    std::memcpy(k, y, m * sizeof(double));
    solve_lower<true>(m, n, G, m, K, n);
    solve_lower<true>(m, 1, G, m, k, 1);

    // cost to go: P = Q + A'PA - Y'Y, p = q + A'g - Y'y
    const double* Q2 = problem.Q2 ? problem.Q2 + s * problem.Q_stride : nullptr;
    sum_parts(n, problem.Q + s * problem.Q_stride, Q2, problem.Qd, Z);
    gemm(n, n, n, 1.0, A, 1, n, W, n, 1, 1.0, Z, n, room, Part::lower);
    gemm(n, n, m, -1.0, Y, 1, n, Y, n, 1, 1.0, Z, n, room, Part::lower);
    mirror_lower(n, Z, n);
    double* swap = P;
    P = Z;
    Z = swap;
    if (problem.q) std::memcpy(p, problem.q + s * problem.q_stride, n * sizeof(double));
    gemv_t(n, n, 1.0, A, n, g, problem.q ? 1.0 : 0.0, p);
    gemv_t(m, n, -1.0, Y, n, y, 1.0, p);
    for (int i = 0; i < m; ++i) solution.constant -= 0.5 * y[i] * y[i];
    if (solution.P) std::memcpy(solution.P + s * nn, P, nn * sizeof(double));
    if (solution.p) std::memcpy(solution.p + static_cast<std::size_t>(s) * n, p, n * sizeof(double));
  }
  solution.min_pivot = least;
  return true;
}

// ---- products of the sweep: all are X'Y of row-major arrays, which need no packing

// rows x 8 vectors of C (+)= or -= X'Y: X (depth, rows), Y (depth, columns)
enum class Into { set, add, subtract };
template <int rows, int vectors, Into into>
inline void turned_tile(int depth, const double* x, std::ptrdiff_t ldx, const double* y, std::ptrdiff_t ldy, double* c,
                        std::ptrdiff_t ldc) {
  gemm_vec acc[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) acc[i][v] = gemm_vec{};
  for (int k = 0; k < depth; ++k, x += ldx, y += ldy) {
    gemm_vec right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) right[v] = *reinterpret_cast<const gemm_vec*>(y + v * GEMM_WIDTH);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) acc[i][v] += x[i] * right[v];
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      gemm_vec* to = reinterpret_cast<gemm_vec*>(c + i * ldc + v * GEMM_WIDTH);
      *to = into == Into::set ? acc[i][v] : into == Into::add ? *to + acc[i][v] : *to - acc[i][v];
    }
}
template <int rows, Into into>
inline void turned_rows(int count, int vectors, int depth, const double* x, std::ptrdiff_t ldx, const double* y,
                        std::ptrdiff_t ldy, double* c, std::ptrdiff_t ldc) {
  if constexpr (rows > 1) {
    if (count < rows) return turned_rows<rows - 1, into>(count, vectors, depth, x, ldx, y, ldy, c, ldc);
  }
  if (vectors == 2) turned_tile<rows, 2, into>(depth, x, ldx, y, ldy, c, ldc);
  else turned_tile<rows, 1, into>(depth, x, ldx, y, ldy, c, ldc);
}

// C (m x n) = X'Y, += X'Y or -= X'Y. Columns of Y and C are padded to whole vectors; `lower`: what is above the
// diagonal is not complete.
template <Into into>
inline void turned_product(int m, int n, int depth, const double* x, std::ptrdiff_t ldx, const double* y,
                           std::ptrdiff_t ldy, double* c, std::ptrdiff_t ldc, Part part = Part::full) {
  for (int j = 0; j < n; j += GEMM_NR) {
    const int vectors = n - j > GEMM_WIDTH ? 2 : 1;
    int i = part == Part::lower ? j : 0;
    // strips of nearly the same height
    for (int strips = (m - i + GEMM_MR - 1) / GEMM_MR; strips > 0; --strips) {
      const int rows = (m - i + strips - 1) / strips;
      turned_rows<GEMM_MR, into>(rows, vectors, depth, x + i, ldx, y + j, ldy, c + i * ldc + j, ldc);
      i += rows;
    }
  }
}

// cholesky() by columns, which are subtracted from what is right of them: long loops without sums; room: 2 n
inline int cholesky_wide(int n, double* a, std::ptrdiff_t lda, double* least, double* room) {
  const double floor = 4.0 * 2.220446049250313e-16 * (n > 0 ? n : 1);
  double* __restrict column = room, *diagonal = room + n;
  for (int j = 0; j < n; ++j) diagonal[j] = a[j * lda + j];
  for (int j = 0; j < n; ++j) {
    const double pivot = a[j * lda + j];
    const double relative = diagonal[j] > 0.0 ? pivot / diagonal[j] : (pivot == pivot ? -1.0 : pivot);
    if (!(relative >= *least)) *least = relative;
    if (!(relative > floor)) return j;
    const double root = __builtin_sqrt(pivot), inverse = 1.0 / root;
    a[j * lda + j] = root;
    for (int i = j + 1; i < n; ++i) column[i] = a[i * lda + j] *= inverse;
    for (int i = j + 1; i < n; ++i) {
      double* __restrict row = a + i * lda;
      const double f = column[i];
      for (int k = j + 1; k <= i; ++k) row[k] -= f * column[k];
    }
  }
  return -1;
}

// The backward sweep with rows padded to whole vectors: [A B]'P[A B] in two products.
inline bool riccati_wide(const RiccatiProblem& problem, RiccatiSolution& solution, double* work) {
  const int n = problem.states, m = problem.inputs, steps = problem.steps, both = n + m;
  const std::size_t nn = static_cast<std::size_t>(n) * n, nm = static_cast<std::size_t>(n) * m;
  const int ld = gemm_round(both + 1, GEMM_WIDTH), ldp = gemm_round(n, GEMM_WIDTH);
  double* P = work;                                     // (n, ldp) cost to go of the next step, full
  double* E = P + static_cast<std::size_t>(n) * ldp;    // (n, ld) [A B]
  double* W = E + static_cast<std::size_t>(n) * ld;     // (n, ld) P [A B]
  double* H = W + static_cast<std::size_t>(n) * ld;     // (n + m, ld) lower: Q + A'PA; S' + B'PA, R + B'PB
  double* L = H + static_cast<std::size_t>(both) * ld;  // (m, m) factor of R + B'PB
  double* Z = L + static_cast<std::size_t>(m) * m;      // (m, ld) gains
  double* p = Z + static_cast<std::size_t>(m) * ld;
  double* g = p + n;  // p + P c
  double* f = g + n;
  double* y = f + n;  // r + B'g, then L^-1 of it
  double* room = y + m;
  double* Y = H + static_cast<std::size_t>(n) * ld;  // (m, ld) S' + B'PA, then L^-1 [of it, y]

  solution.failed_step = solution.failed_input = solution.min_pivot_step = -1;
  solution.constant = 0.0;
  double least = 2.0;
  std::memset(P, 0, (L - P) * sizeof(double));  // what pads rows is multiplied too

  // lower triangle of a + b + diag(d) to H at (i0, i0); b, d may be null
  auto put = [&](int size, const double* a, const double* b, const double* d, int i0) {
    for (int i = 0; i < size; ++i) {
      double* __restrict to = H + (i0 + i) * ld + i0;
      const double *s = a + i * size, *t = b ? b + i * size : nullptr;
      if (t)
        for (int j = 0; j <= i; ++j) to[j] = s[j] + t[j];
      else
        for (int j = 0; j <= i; ++j) to[j] = s[j];
      if (d) to[i] += d[i];
    }
  };
  // P from the lower triangle of H, and to the solution
  auto keep = [&](int at) {
    constexpr int block = 8;
    for (int i0 = 0; i0 < n; i0 += block) {
      const int rows = n - i0 < block ? n - i0 : block;
      for (int i = i0; i < i0 + rows; ++i) {
        std::memcpy(P + i * ldp, H + i * ld, (i + 1) * sizeof(double));
        for (int j = i + 1; j < i0 + rows; ++j) P[i * ldp + j] = H[j * ld + i];
      }
      if (i0 + rows < n)
        take_transposed<false>(P + i0 * ldp + i0 + rows, ldp, H + (i0 + rows) * ld + i0, ld, rows, n - i0 - rows);
    }
    if (solution.P)
      for (int i = 0; i < n; ++i) std::memcpy(solution.P + at * nn + i * n, P + i * ldp, n * sizeof(double));
    if (solution.p) std::memcpy(solution.p + static_cast<std::size_t>(at) * n, p, n * sizeof(double));
  };

  // cost to go of the last state
  put(n, problem.Qf, problem.Qf2, problem.Qd, 0);
  if (problem.qf) std::memcpy(p, problem.qf, n * sizeof(double));
  else std::memset(p, 0, n * sizeof(double));
  keep(steps);

  for (int s = steps - 1; s >= 0; --s) {
    const double* A = problem.A + s * problem.A_stride;
    const double* B = problem.B + s * problem.B_stride;
    double* K = solution.K + s * nm;
    double* k = solution.k + static_cast<std::size_t>(s) * m;

    if (problem.look && (n > 16 || s % 32 == 0) && problem.look(problem.looker)) return false;

    // weights, and what the cost to go brings
    for (int i = 0; i < n; ++i) {
      std::memcpy(E + i * ld, A + i * n, n * sizeof(double));
      std::memcpy(E + i * ld + n, B + i * m, m * sizeof(double));
    }
    put(n, problem.Q + s * problem.Q_stride, problem.Q2 ? problem.Q2 + s * problem.Q_stride : nullptr, problem.Qd, 0);
    put(m, problem.R + s * problem.R_stride, problem.R2 ? problem.R2 + s * problem.R_stride : nullptr, problem.Rd, n);
    for (int i = 0; i < m; ++i) {
      double* row = H + (n + i) * ld + n;
      row[i] += problem.regularization;
      for (int j = i + 1; j < ld - n; ++j) row[j] = 0.0;  // solved along with Y
    }
    if (problem.S) take_transposed<false>(Y, ld, problem.S + s * problem.S_stride, m, m, n);
    else
      for (int i = 0; i < m; ++i) std::memset(Y + i * ld, 0, n * sizeof(double));
    turned_product<Into::set>(n, both, n, P, ldp, E, ld, W, ld);
    turned_product<Into::add>(both, both, n, E, ld, W, ld, H, ld, Part::lower);

    // gradient of the next cost at x = u = 0: g = p + P c; y = r + B'g
    if (problem.c) {
      const double* c = problem.c + s * problem.c_stride;
      gemv(n, n, 1.0, P, ldp, c, 0.0, f);
      for (int i = 0; i < n; ++i) {
        g[i] = p[i] + f[i];
        solution.constant += c[i] * (p[i] + 0.5 * f[i]);
      }
    } else {
      std::memcpy(g, p, n * sizeof(double));
    }
    if (problem.r) std::memcpy(y, problem.r + s * problem.r_stride, m * sizeof(double));
    gemv_t(n, m, 1.0, E + n, ld, g, problem.r ? 1.0 : 0.0, y);

    // factor, and stop where it is not positive definite
    for (int i = 0; i < m; ++i) std::memcpy(L + i * m, Y + i * ld + n, (i + 1) * sizeof(double));
    const double before = least;
    const int bad = cholesky_wide(m, L, m, &least, room);
    if (!(least >= before)) solution.min_pivot_step = s;
    if (bad >= 0) {
      solution.failed_step = s;
      solution.failed_input = bad;
      solution.min_pivot = least;
      return false;
    }

    // gains: y goes along as a column of its own
    const int columns = gemm_round(n + 1, GEMM_WIDTH);
    for (int i = 0; i < m; ++i) Y[i * ld + n] = y[i];
    solve_lower<false>(m, columns, L, m, Y, ld);
    std::memcpy(Z, Y, static_cast<std::size_t>(m) * ld * sizeof(double));
    solve_lower<true>(m, columns, L, m, Z, ld);
    for (int i = 0; i < m; ++i) {
      std::memcpy(K + i * n, Z + i * ld, n * sizeof(double));
      k[i] = Z[i * ld + n];
      y[i] = Y[i * ld + n];
      solution.constant -= 0.5 * y[i] * y[i];
    }

    // cost to go: P = Q + A'PA - Y'Y, p = q + A'g - Y'y
    turned_product<Into::subtract>(n, n, m, Y, ld, Y, ld, H, ld, Part::lower);
    if (problem.q) std::memcpy(p, problem.q + s * problem.q_stride, n * sizeof(double));
    gemv_t(n, n, 1.0, E, ld, g, problem.q ? 1.0 : 0.0, p);
    gemv_t(m, n, -1.0, Y, ld, y, 1.0, p);
    keep(s);
  }
  solution.min_pivot = least;
  return true;
}

// The backward sweep. Returns false if some R + B'PB is not positive definite (see failed_step).
inline bool riccati(const RiccatiProblem& problem, RiccatiSolution& solution, double* work) {
  return problem.states > RICCATI_SMALL ? riccati_wide(problem, solution, work)
                                        : riccati_small(problem, solution, work);
}

// The optimal trajectory from x0 with the gains of the sweep: X (N + 1, n), U (N, m). Needs no workspace.
inline void riccati_rollout(const RiccatiProblem& problem, const RiccatiSolution& solution, const double* x0, double* X,
                            double* U) {
  const int n = problem.states, m = problem.inputs;
  std::memcpy(X, x0, n * sizeof(double));
  for (int s = 0; s < problem.steps; ++s) {
    if (problem.look && (n > 16 || s % 32 == 0) && problem.look(problem.looker)) return;
    const double* x = X + static_cast<std::size_t>(s) * n;
    double* next = X + static_cast<std::size_t>(s + 1) * n;
    double* u = U + static_cast<std::size_t>(s) * m;
    std::memcpy(u, solution.k + static_cast<std::size_t>(s) * m, m * sizeof(double));
    gemv(m, n, -1.0, solution.K + static_cast<std::size_t>(s) * m * n, n, x, -1.0, u);
    if (problem.c) std::memcpy(next, problem.c + s * problem.c_stride, n * sizeof(double));
    gemv(n, n, 1.0, problem.A + s * problem.A_stride, n, x, problem.c ? 1.0 : 0.0, next);
    gemv(n, m, 1.0, problem.B + s * problem.B_stride, m, u, 1.0, next);
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
