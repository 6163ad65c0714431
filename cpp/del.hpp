// The step: forced, constrained discrete Euler-Lagrange equations in position-momentum form (Johnson, Schultz, Murphey,
// Structured linearization of discrete mechanical systems, eqs 2, 28; docs/kernels.md 9):
//   p_k + D1 Ld(q_k, q_k+1) + F- - Dh(q_k)^T lambda = 0,  h(q_k+1) = 0,  p_k+1 = D2 Ld + F+,
// and velocity constraints beside h (velocities.hpp).
#pragma once
#include "free_bodies.hpp"
#include "loops.hpp"
#include "small.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr double kLargest = 1e290;   // numbers above it count as not finite
constexpr double kSingular = 1e300;  // the error of a step whose matrix is singular

struct StepOptions {
  double alpha = 0.5;              // generalized midpoint
  double minus = 0.5, plus = 0.5;  // shares of the force in F- and F+
  double tolerance = 1e-14;        // residual relative to |p|, |L_v|, dt |L_q|
  double h_tolerance = 1e-14;      // constraints relative to their size
  int max_iterations = 40;
  bool plain = false;  // dense KKT matrix, full Newton: the baseline of the benchmarks
  bool rescue = true;  // where no solution is found: look where shorter steps lead
  // 0: to the tolerances above. Otherwise as trep ends a step: full Newton steps from the given guess until the
  // Euclidean norm of the residual is below `stop` and every |h_c| below h_stop[c] (the last serves all that follow);
  // what is left is not added to p
  double stop = 0;
  const double* h_stop = nullptr;
  int h_count = 0;
  StepOptions without_stop() const {
    StepOptions out = *this;
    out.stop = 0;
    return out;
  }
  // an iteration that stagnates (rounding) is accepted within this many tolerances: a relative residual of 1e-10
  double slack() const { return tolerance < 1e-14 ? 1e4 : tolerance < 1e-11 ? 1e-10 / tolerance : 10; }
};

template <class T> DAL_INLINE Slots<T> slots(const StepOptions& o, T dt) {
  return {dt * T(1 - o.alpha), T(-1.0), dt * T(o.alpha), T(1.0)};
}

// dt (L_psi + F) of a ball: what acts on it, along body axes
template <class T> DAL_INLINE V3<T> ball_push(const Work<T>& w, int v, const T& dt, const BallMap<T>& m) {
  return chart_gradient(m.phi, (three(w.first.Lq + v) + three(w.first.F + v)) * dt, three(w.first.Lv + v));
}

// r = p + A dt (L_psi + F) - D L_f' of the balls (13.2)
//
// reads step.p, first, balls; writes step.r
template <class T> DAL_APART void ball_residual(Work<T>& w, const T& dt) {
  for (size_t i = 0; i < w.M->balls.size(); ++i) {
    const int v = w.M->balls[i].v;
    const BallMap<T>& m = w.balls[i];
    if (v < w.M->nd)
      put_three(w.step.r + v, three(w.step.p + v) + m.A * ball_push(w, v, dt, m) - m.D * three(w.first.Lv + v));
  }
}
// p_k+1 of the balls: A^T dt (L_psi + F) + D^T L_f' + exp(-phi) left r
//
// reads step.r, first, balls; writes step.p_next
template <class T> DAL_APART void ball_momentum(Work<T>& w, const T& dt, const T& left) {
  for (size_t i = 0; i < w.M->balls.size(); ++i) {
    const int v = w.M->balls[i].v;
    const BallMap<T>& m = w.balls[i];
    if (v < w.M->nd)
      put_three(w.step.p_next + v, transposed(m.A) * ball_push(w, v, dt, m) + transposed(m.D) * three(w.first.Lv + v) +
                                       turned_back(m, three(w.step.r + v)) * left);
  }
}

// everything at the midpoint of w.step.x and w.step.y: L_q, L_v, F, the residual w.step.r; returns its scale
//
// reads step.x, y, p, u, con.lam, con.C0; writes kin, twists, comp.H, comp.c, first, step.r
template <class T> T residual(Work<T>& w, const StepOptions& o, T dt) {
  const ModelData& M = *w.M;
  midpoint(w, o.alpha, dt);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  if (!M.potentials.empty()) subtract_potentials(w, w.kin.q);
  generalized_force(w, w.kin.q, w.kin.v);
  T scale = T(1e-250), dw1 = dt * T(1 - o.alpha), f = dt * T(o.minus);
  for (int i = 0; i < M.nd; ++i) {  // one by one, as L_q and L_v were written a moment ago
    T g = dw1 * w.first.Lq[i], s = f * w.first.F[i];
    w.step.r[i] = w.step.p[i] + g - w.first.Lv[i] + s;
    scale = larger(scale, fabs_(w.step.p[i]) + fabs_(w.first.Lv[i]) + fabs_(g) + fabs_(s));
  }
  if (!M.flat) ball_residual(w, dt);
  if constexpr (std::is_same_v<T, double>)
    if (w.loops.on) return larger(scale, subtract_multipliers(w));
  for (int c = 0; c < M.nc; ++c) {
    const T* row = w.con.C0 + c * M.nv;
    scale = largest(scale, M.nd, [&]<class L>(L, int i) {
      const L t = read_as<L>(row + i) * L(w.con.lam[c]);
      put_side(w.step.r + i, read_as<L>(w.step.r + i) - t);
      return fabs_(t);
    });
  }
  return scale;
}

// p_k+1 into w.step.p_next; true where it, q_k+1 and lambda are finite: nothing else may leave a step as its result
//
// reads first, step.r, step.y, con.lam; writes step.p_next
template <class T> DAL_INLINE MaskOf<T> next_momentum(Work<T>& w, const StepOptions& o, T dt) {
  const T a = dt * T(o.alpha), f = dt * T(o.plus), most = T(kLargest);
  // the residual left over goes into p: the momentum balance then holds to rounding, whatever the tolerance (and p
  // gains an order)
  const T left = T(o.stop > 0 ? 0.0 : 1.0);
  MaskOf<T> ok = le(T(0.0), most);
  for (int i = 0; i < w.M->nd; ++i)
    w.step.p_next[i] = a * w.first.Lq[i] + w.first.Lv[i] + f * w.first.F[i] + left * w.step.r[i];
  if (!w.M->flat) ball_momentum(w, dt, left);
  for (int i = 0; i < w.M->nd; ++i) ok = ok & le(fabs_(w.step.p_next[i]), most);
  for (int i = 0; i < w.M->nqd; ++i) ok = ok & le(fabs_(w.step.y[i]), most);
  for (int c = 0; c < w.M->nc; ++c) ok = ok & le(fabs_(w.con.lam[c]), most);
  return ok;
}

// The residual cannot be resolved below N/dt times the rounding of q (small steps, long chains): from the diagonal of
// N, before it is factored
//
// reads gen or newton.lower, step.x, step.y; writes step.floor
template <class T> void set_floor(Work<T>& w, T dt) {
  const ModelData& M = *w.M;
  const bool chain = by_joint(w);
  T f = T(0.0);
  for (int i = 0; i < M.nd; ++i) {
    T d;
    if (chain && M.v_q[i] < 0) {
      const int ball = -1 - M.v_q[i], c = i - M.balls[ball].v;
      d = w.balls[ball].N(c, c);
    } else if (chain) {
      Eight<T> a, b;
      a.read(w.gen.P1j + 8 * M.dyn_joint[i]);
      b.read(w.gen.Q2j + 8 * M.dyn_joint[i]);
      d = w.newton.diagonal[i] + a.dot(b);
    } else {
      d = w.newton.lower[M.elim_row[i] + M.elim_depth[i]];
    }
    f = larger(f, fabs_(d) * (reach(M, w.step.x, i) + reach(M, w.step.y, i)));
  }
  w.step.floor = f * (T(1.1e-16) / fabs_(dt));
}

// dt D2D1 Ld of the tree, packed
//
// reads twists, comp, balls; writes gen, newton.lower, upper, balls
template <class T> void step_matrix(Work<T>& w, const Slots<T>& s, const T& dt) {
  generators(w, s);
  if (!w.M->flat) ball_generators(w, dt, false, false);
  assemble_packed(w);
  if (!w.M->flat) ball_blocks_to_packed(w);
}

// Newton matrix at the current midpoint, factored; true where the pivots are usable
//
// small: for small_direction()
//
// reads kin, twists, comp.H, comp.c; writes comp.IC, gen, newton, step.floor; scratch: local
template <class T> MaskOf<T> newton_matrix(Work<T>& w, const StepOptions& o, T dt, bool small = false) {
  Slots<T> s = slots<T>(o, dt);
  composites(w, false);
  if (by_joint(w)) {
    generators_by_joint(w, s);
    if (!w.M->flat) ball_generators(w, dt, true, false);
    elements_to_newton(w, w.kin.q, w.kin.v, s, dt * T(o.minus));
    set_floor(w, dt);
    if constexpr (std::is_same_v<T, double>)
      if (w.loops.on) {
        if (loop_factor(w)) return true;
        use_dense_rows(w, true);
      }
    if (w.M->chain_solver) return chain_factor(w);
  }
  step_matrix(w, s, dt);
  elements_to_newton(w, w.kin.q, w.kin.v, s, dt * T(o.minus));
  set_floor(w, dt);
  if constexpr (std::is_same_v<T, double>)
    if (small) return small_factor(w);
  return factor(w);
}

// reads newton; writes X
template <class T> DAL_INLINE void newton_solve(Work<T>& w, T* X, int nr, int ld) {
  if (w.M->chain_solver && !w.newton.use_packed)
    for (int c = 0; c < nr; ++c) chain_solve(w, X + c, ld);
  else solve(w, X, nr, ld);
}

// S x = b for every lane on its own; S (nc x nc), b (nc x nr, row stride ld). Singular systems (redundant constraints)
// get the least-norm solution.
DAL_INLINE double get(const double& x, int) { return x; }
DAL_INLINE void put(double& x, int, double v) { x = v; }
DAL_INLINE double get(const Lanes& x, int l) { return x.v[l]; }
DAL_INLINE void put(Lanes& x, int l, double v) { x.v[l] = v; }
// Up to three equations by their determinants, b in place; false where rows are nearly dependent.
DAL_INLINE bool solve_few(const double* S, double* b, int n, bool transposed) {
  if (n > 3) return false;
  constexpr double small = 1e-6;  // least volume that rows of length one may span
  auto at = [&](int i, int k) { return S[transposed ? k * n + i : i * n + k]; };
  if (n == 1) {
    if (!(S[0] * S[0] > 0)) return false;
    b[0] /= S[0];
    return true;
  }
  if (n == 2) {
    const double p = at(0, 0), q = at(0, 1), r = at(1, 0), s = at(1, 1), det = p * s - q * r, x = b[0], y = b[1];
    if (!(det * det > small * small * (p * p + q * q) * (r * r + s * s))) return false;
    b[0] = (s * x - q * y) / det;
    b[1] = (p * y - r * x) / det;
    return true;
  }
  const V3<double> x = {at(0, 0), at(0, 1), at(0, 2)}, y = {at(1, 0), at(1, 1), at(1, 2)},
                   z = {at(2, 0), at(2, 1), at(2, 2)}, yz = cross(y, z);
  const double det = dot(x, yz);
  if (!(det * det > small * small * dot(x, x) * dot(y, y) * dot(z, z))) return false;
  put_three(b, (yz * b[0] + cross(z, x) * b[1] + cross(x, y) * b[2]) * (1 / det));
  return true;
}
template <class T> void schur_solve(Work<T>& w, const T* S, T* b, int nr, int ld, bool transposed) {
  int n = w.M->nc;
  if constexpr (std::is_same_v<T, double>)
    if (nr == 1 && ld == 1 && solve_few(S, b, n, transposed)) return;
  double *A = w.con.dense, *V = A + n * n, *sv = V + 2 * n * n, *B = sv + 4 * n;
  if constexpr (std::is_same_v<T, double>) {
    // many columns: look at the pivots first, so that the columns can be solved where they are
    auto matrix = [&] {
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) A[i * n + k] = S[transposed ? k * n + i : i * n + k];
    };
    if (nr >= 16) {
      matrix();
      if (dense_solve(A, n, B, 0, 0) > 1e-14) {
        matrix();
        dense_solve(A, n, b, nr, ld);
        return;
      }
    }
  }
  for (int l = 0; l < Traits<T>::width; ++l) {
    auto fill = [&] {
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) A[i * n + k] = get(S[transposed ? k * n + i : i * n + k], l);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < nr; ++j) B[i * nr + j] = get(b[size_t(i) * ld + j], l);
    };
    fill();
    double ratio = dense_solve(A, n, B, nr, nr);
    if (!(ratio > 1e-14)) {
      fill();
      least_norm(A, V, sv, n, B, nr, nr, 1e-12);
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < nr; ++j) put(b[size_t(i) * ld + j], l, B[i * nr + j]);
  }
}
inline void schur_solve(Work<Dual>& w, const Dual* S, Dual* b, int nr, int ld, bool transposed) {
  // (S + e S')^-1 (b + e b') = x + e S^-1 (b' - S' x)
  int n = w.M->nc;
  double *A = w.con.dense, *V = A + n * n, *sv = V + 2 * n * n, *B = sv + 4 * n;
  for (int pass = 0; pass < 2; ++pass) {
    auto fill = [&] {
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) A[i * n + k] = S[transposed ? k * n + i : i * n + k].v;
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < nr; ++j) {
          if (pass == 0) {
            B[i * nr + j] = b[size_t(i) * ld + j].v;
            continue;
          }
          double t = b[size_t(i) * ld + j].d;
          for (int k = 0; k < n; ++k) t -= S[transposed ? k * n + i : i * n + k].d * b[size_t(k) * ld + j].v;
          B[i * nr + j] = t;
        }
    };
    fill();
    if (!(dense_solve(A, n, B, nr, nr) > 1e-14)) {
      fill();
      least_norm(A, V, sv, n, B, nr, nr, 1e-12);
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < nr; ++j) (pass == 0 ? b[size_t(i) * ld + j].v : V[0]) = B[i * nr + j];
    if (pass == 1)
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < nr; ++j) b[size_t(i) * ld + j].d = B[i * nr + j];
  }
}

// Newton direction from the factored matrix: w.step.dy, w.con.dlam. fresh: the factors changed, so X = N^-1 C0^T must
// be redone.
//
// reads newton, step.r, con.C0, C1, h; writes step.dy, con.dlam, con.X, con.schur
template <class T> void direction_step(Work<T>& w, T dt, bool fresh) {
  const ModelData& M = *w.M;
  if constexpr (std::is_same_v<T, double>)
    if (w.loops.on) return loop_direction(w, dt);
  int nc = M.nc, ld = std::is_same_v<T, double> && nc ? row_stride(nc + 1) : nc + 1;
  T* X = w.con.X;  // columns beyond nc + 1 stay zero
  for (int i = 0; i < M.nd; ++i) {
    if (fresh)
      for (int c = 0; c < nc; ++c) X[i * ld + c] = w.con.C0[c * M.nv + i];
    X[i * ld + nc] = w.step.r[i];
  }
  if (fresh) newton_solve(w, X, M.chain_solver ? nc + 1 : ld, ld);
  else newton_solve(w, X + nc, 1, ld);
  if (nc) {
    T idt = T(1.0) / dt;
    for (int c = 0; c < nc; ++c) {
      T* s = w.con.schur + c * nc;
      const T* row = w.con.C1 + c * M.nv;
      const Element& e = M.constraints[c];
      const int* lv = M.local_v.data() + e.vars;
      auto columns = [&]<class L>(L sum, int k) {
        for (int t = 0; t < e.n; ++t)  // the row is sparse: only the constraint's own variables
          if (const int i = lv[t]; i < M.nd) sum += L(row[i]) * read_as<L>(X + i * ld + k);
        put_side(s + k, sum);
      };
      if (nc < 3)
        for (int k = 0; k <= nc; ++k) columns(T(0.0), k);
      else
        for (int k = 0; k <= nc; k += Side<T>::n) columns(SideOf<T>(T(0.0)), k);
      w.con.dlam[c] = s[nc] - w.con.h[c] * idt;  // s[nc] belongs to the next row, which comes later
    }
    schur_solve(w, w.con.schur, w.con.dlam, 1, 1, false);
  }
  for (int i = 0; i < M.nd; ++i) {
    const T* x = X + i * ld;
    T t = -x[nc];
    for (int c = 0; c < nc; ++c) t += x[c] * w.con.dlam[c];
    w.step.dy[i] = dt * t;
  }
}

// The same after small_factor().
//
// reads newton.inverse, step.r, con.C0, C1, h; writes step.dy, con.dlam, newton.columns, con.schur
inline void small_direction(Work<double>& w, double dt, bool fresh) {
  const ModelData& M = *w.M;
  const int nc = M.nc, nd = M.nd;
  by_size(nd, [&](auto size) {
    constexpr int n = decltype(size)::value, vecs = (n + kWidth - 1) / kWidth;
    const double* A = w.newton.inverse;
    double *X = w.newton.columns, *x = X + nc * kSmallMatrix;
    for (int c = 0; fresh && c < nc; ++c) times_columns<n>(A, w.con.C0 + c * M.nv, X + c * kSmallMatrix);
    times_columns<n>(A, w.step.r, x);
    if (nc) {
      for (int c = 0; c < nc; ++c) {
        const double* row = w.con.C1 + c * M.nv;
        auto times = [&](const double* column) {
          double even = row[0] * column[0], odd = 0;
#pragma GCC unroll 8
          for (int i = 1; i < n; ++i) (i & 1 ? odd : even) += row[i] * column[i];
          return even + odd;
        };
        for (int k = 0; k < nc; ++k) w.con.schur[c * nc + k] = times(X + k * kSmallMatrix);
        w.con.dlam[c] = times(x) - w.con.h[c] / dt;
      }
      schur_solve(w, w.con.schur, w.con.dlam, 1, 1, false);
    }
    Vec dy[vecs];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; ++v) dy[v] = -load(x + v * kWidth);
    for (int c = 0; c < nc; ++c)
#pragma GCC unroll 4
      for (int v = 0; v < vecs; ++v) dy[v] += load(X + c * kSmallMatrix + v * kWidth) * splat(w.con.dlam[c]);
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) w.step.dy[i] = dt * dy[i / kWidth][i % kWidth];
  });
}

// The direction of Newton's iteration after newton_matrix(), or (not fresh) with the factors of an earlier one.
//
// reads and writes as velocity_rows() and direction_step()
template <class T> void next_direction(Work<T>& w, const StepOptions& o, T dt, bool fresh) {
  if (w.M->nh < w.M->nc) velocity_rows(w, slots<T>(o, dt), fresh);
  if constexpr (std::is_same_v<T, double>)
    if (is_small(w)) return small_direction(w, dt, fresh);
  direction_step(w, dt, fresh);
}

// v (nd) <- the nearest velocity in the kinetic metric with C v + b = 0, prescribed velocities in w.kin.v; after the
// mass matrix was factored. C (nc x nv), b in w.con.b. Writes w.con.X, w.con.schur, w.con.dlam.
inline void along_constraints(Work<double>& w, const double* C, double* v) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nc = M.nc, ld = row_stride(nc + 1);
  double* X = w.con.X;  // M^-1 C^T
  for (int i = 0; i < nd; ++i)
    for (int c = 0; c < ld; ++c) X[i * ld + c] = c < nc ? C[c * nv + i] : 0.0;
  solve(w, X, ld, ld);
  for (int c = 0; c < nc; ++c) {
    const double* row = C + c * nv;
    double rate = w.con.b[c], *s = w.con.schur + c * nc;
    for (int i = 0; i < nv; ++i) rate += row[i] * (i < nd ? v[i] : w.kin.v[i]);
    w.con.dlam[c] = rate;
    for (int k = 0; k < nc; ++k) s[k] = 0;
    for (int i = 0; i < nd; ++i)
      for (int k = 0; k < nc; ++k) s[k] += row[i] * X[i * ld + k];
  }
  schur_solve(w, w.con.schur, w.con.dlam, 1, 1, false);
  for (int i = 0; i < nd; ++i)
    for (int c = 0; c < nc; ++c) v[i] -= X[i * ld + c] * w.con.dlam[c];
}

// the same direction by one dense pivoted solve of the whole KKT matrix: fallback, and baseline
//
// reads kin, twists, comp.H, comp.c, step.r, con.C0, C1, h; writes step.dy, con.dlam, step.floor; scratch: comp.IC,
// gen, newton, step.kkt
inline bool dense_direction(Work<double>& w, const StepOptions& o, double dt) {
  const ModelData& M = *w.M;
  int nd = M.nd, nc = M.nc, n = nd + nc;
  bool keep = w.newton.use_packed;
  w.newton.use_packed = true;
  Slots<double> s = slots<double>(o, dt);
  if (M.nh < nc) velocity_rows(w, s);
  composites(w, false);
  step_matrix(w, s, dt);
  elements_to_newton(w, w.kin.q, w.kin.v, s, dt * o.minus);
  w.newton.use_packed = keep;
  double *K = w.step.kkt, *b = K + n * n, top = 0;
  for (int i = 0; i < n * n; ++i) K[i] = 0;
  for (int k = 0; k < nd; ++k) {
    const int* path = M.elim_path.data() + M.elim_path_offset[k];
    K[k * n + k] = w.newton.lower[M.elim_row[k] + M.elim_depth[k]];
    top = larger(top, __builtin_fabs(K[k * n + k]) * (reach(M, w.step.x, k) + reach(M, w.step.y, k)));
    for (int d = 0; d < M.elim_depth[k]; ++d) {
      K[k * n + path[d]] = w.newton.lower[M.elim_row[k] + d];
      K[path[d] * n + k] = w.newton.upper[M.elim_row[k] + d];
    }
  }
  w.step.floor = top * 2.2e-16 / __builtin_fabs(dt);
  // unknowns dy and dt dl: N dy - C0^T (dt dl) = -dt r ; C1 dy = -h
  for (int c = 0; c < nc; ++c) {
    for (int i = 0; i < nd; ++i) {
      K[i * n + nd + c] = -w.con.C0[c * M.nv + i];
      K[(nd + c) * n + i] = w.con.C1[c * M.nv + i];
    }
    b[nd + c] = -w.con.h[c];
  }
  for (int i = 0; i < nd; ++i) b[i] = -dt * w.step.r[i];
  double ratio = dense_solve(K, n, b, 1, 1);
  for (int i = 0; i < nd; ++i) w.step.dy[i] = b[i];
  for (int c = 0; c < nc; ++c) w.con.dlam[c] = b[nd + c] / dt;
  return ratio > 1e-17;
}

// residual and constraints at w.step.y, w.con.lam; returns the error in units of the tolerance, or of the stop
// (converged when <= 1)
//
// reads step.x, y, p, u, con.lam, con.C0, step.floor; writes what residual() writes, kin.end, con.h, size, C1 of the
// holonomic constraints (of those on velocities velocity_rows() does, where a direction is looked for),
// step.relative
template <class T> T evaluate(Work<T>& w, const StepOptions& o, T dt) {
  const ModelData& M = *w.M;
  T scale = residual(w, o, dt);
  T e = T(0.0), lim = T(o.tolerance) * scale + w.step.floor;
  for (int i = 0; i < M.nd; ++i) e = larger(e, fabs_(w.step.r[i]));
  e = e / lim;
  if (M.nc) {
    constraint_poses(w, w.step.y, w.kin.end);
    bool wrenches = false;
    if constexpr (std::is_same_v<T, double>)
      if ((wrenches = w.loops.on)) constraint_wrenches(w, w.step.y, w.kin.end, w.con.h, w.con.size, w.loops.end);
    if (!wrenches) constraint_rows(w, w.step.y, w.kin.end, w.con.h, w.con.size, w.con.C1);
    if (M.nh < M.nc) velocity_values(w, dt);
    for (int c = 0; c < M.nc; ++c) e = larger(e, fabs_(w.con.h[c]) / (T(o.h_tolerance) * w.con.size[c] + T(1e-300)));
  }
  if (!(o.stop > 0)) return e;
  w.step.relative = e;
  T sum = T(0.0);
  for (int i = 0; i < M.nd; ++i) sum += w.step.r[i] * w.step.r[i];
  e = sqrt_(sum) / T(o.stop);
  for (int c = 0; c < M.nc; ++c) e = larger(e, fabs_(w.con.h[c]) / T(o.h_stop[c < o.h_count ? c : o.h_count - 1]));
  return e;
}

// A guess that leaves twice as much of the momentum balance open as standing still would is none: where the fast modes
// of a long chain of balls are not resolved, extrapolation amplifies them, and Newton's iteration does not come back.
// True where y became x.
//
// reads first, step.p, r, con; writes step.y
template <class T> bool refuse_guess(Work<T>& w, const StepOptions& o, T dt) {
  const ModelData& M = *w.M;
  const T a = dt * T(1 - o.alpha), f = dt * T(o.minus);
  T open = T(0.0), still = T(0.0);
  for (int i = 0; i < M.nd; ++i) {
    open = larger(open, fabs_(w.step.r[i]));
    still = larger(still, fabs_(w.step.p[i]) + fabs_(a * w.first.Lq[i]) + fabs_(f * w.first.F[i]));
  }
  const MaskOf<T> bad = lt(T(2.0) * still, open);
  if (all(mask_not(bad))) return false;
  for (int i = 0; i < M.nqd; ++i) w.step.y[i] = select(bad, w.step.x[i], w.step.y[i]);
  return true;
}

// The direction that direction_step() has found from an extrapolated guess, for quality.hpp: with N dy = dt (C0^T dlam
// - r) and C1 dy = -h (where C0 does for C1), -dy . N dy / dt^2 = (r . dy + h . dlam) / dt.
//
// reads step.r, dy, kept, con.h, dlam; writes step.first_dy where it is kept, gap
template <class T> void note_direction(Work<T>& w, const T& dt) {
  T sum = T(0.0);
  const T inverse = T(1.0) / dt;
  for (int i = 0; i < w.M->nd; ++i) sum += w.step.r[i] * w.step.dy[i];
  for (int i = 0; w.step.kept && i < w.M->nd; ++i) w.step.first_dy[i] = w.step.dy[i];
  for (int c = 0; c < w.M->nc; ++c) sum += w.con.h[c] * w.con.dlam[c];
  w.step.gap = sum * inverse;
  w.step.watched = false;
  w.step.noted = true;
}

// What judges a step needs its Newton matrix, and what was wrong with the guess (step.y_kept), also where
// solve_free_bodies() was given that guess.
//
// reads kin, twists, comp.H, comp.c, first, step.y, y_kept; writes as step_matrix(), and step.first_dy, gap
inline void note_free_bodies(Work<double>& w, const StepOptions& o, double dt) {
  const ModelData& M = *w.M;
  composites(w, false);
  step_matrix(w, slots(o, dt), dt);
  if (!w.step.watched) return;
  double* dy = w.step.first_dy;
  difference(M, w.step.y_kept, w.step.y, dy, 0, M.nd);
  double sum = 0;
  for (int k = 0; k < M.nd; ++k) {
    const int *path = M.elim_path.data() + M.elim_path_offset[k], at = M.elim_row[k], depth = M.elim_depth[k];
    double row = w.newton.lower[at + depth] * dy[k];
    for (int d = 0; d < depth; ++d) row += (w.newton.lower[at + d] + w.newton.upper[at + d]) * dy[path[d]];
    sum -= row * dy[k];
  }
  w.step.gap = sum / (dt * dt);
  w.step.watched = false;
  w.step.noted = true;
}

// The same for a guess that no step begins with.
//
// reads step.x, y, p, u, con; writes everything but lin and along
inline void note_guess(Work<double>& w, const StepOptions& o, double dt) {
  if (w.M->loops.used) start_loops(w);
  w.step.floor = 0;
  evaluate(w, o, dt);
  if (!w.M->flat && refuse_guess(w, o, dt)) evaluate(w, o, dt);
  if (!newton_matrix(w, o, dt, is_small(w))) return;
  next_direction(w, o, dt, true);
  note_direction(w, dt);
}

// Newton iteration from the guess in w.step.y (dynamic part), w.con.lam. On return w.step.y, w.con.lam, w.step.p_next,
// w.con.C1 belong to the solution in the converged lanes. A single rollout reuses the factors when the observed rate
// says that one more cheap iteration will do; lanes reuse them in every second iteration: a rule that does not look at
// the numbers, because decisions must not depend on neighbours. With `stop` they are always fresh.
//
// reads step.x, y, p, u, con.lam, con.C0; writes everything but lin and along
template <class T>
MaskOf<T> newton(Work<T>& w, const StepOptions& o, T dt, int* iterations, T* error, MaskOf<T> skip = MaskOf<T>{}) {
  const ModelData& M = *w.M;
  if constexpr (std::is_same_v<T, double>)
    if (M.loops.used) start_loops(w);
  T prev = T(1e300);
  double slack = o.slack();
  w.step.floor = T(0.0);
  MaskOf<T> done = skip;
  bool fresh = false;
  int before = 0;  // iterations of free bodies
  if constexpr (std::is_same_v<T, double>)
    if (!M.free_bodies.empty() && !(o.stop > 0)) before = solve_free_bodies(w, dt);
  for (int it = 0;; ++it) {
    T e = evaluate(w, o, dt);
    if constexpr (std::is_same_v<T, double>)
      if (it == 0 && before > 0 && w.step.judged) note_free_bodies(w, o, dt);
    if (it == 0 && !M.flat && refuse_guess(w, o, dt)) e = evaluate(w, o, dt);
    // at the rounding floor the error stops falling: accept within a safe distance of the tolerance
    MaskOf<T> ok = le(e, T(1.0)) | (le(o.stop > 0 ? w.step.relative : e, T(slack)) & mask_not(lt(e, T(0.5) * prev))) |
                   (lt(prev, T(0.0)) & le(e, T(kLargest)));
    done = done | ok;
    *error = e;
    *iterations = before + it;
    MaskOf<T> dead = mask_not(le(e, T(kLargest)));
    if (all(done | dead) || it >= o.max_iterations) return done & next_momentum(w, o, dt);
    if constexpr (Traits<T>::width == 1) {
      bool reuse = fresh && !(o.stop > 0) && value_of(e) < value_of(prev) &&
                   value_of(e) * (value_of(e) / value_of(prev)) * 4 <= 1;
      if (!reuse && !newton_matrix(w, o, dt, is_small(w))) {
        *error = T(kSingular);
        return false;
      }
      next_direction(w, o, dt, !reuse);
      fresh = true;
    } else {
      bool reuse = it % 2 && !(o.stop > 0);  // the same rule for every lane, whatever its neighbours do
      if (!reuse) newton_matrix(w, o, dt);
      next_direction(w, o, dt, !reuse);
    }
    if (w.step.watched) note_direction(w, dt);
    MaskOf<T> go = mask_not(done);
    T moved = T(-1.0);  // the most that a joint moves beyond what its rounding allows
    for (int i = 0; i < M.nd; ++i) {
      T step = select(go, w.step.dy[i], T(0.0));
      moved = larger(moved, fabs_(step) - T(1e-16) * (T(1e-3) + reach(M, w.step.y, i) + reach(M, w.step.x, i)));
      w.step.dy[i] = step;
    }
    integrate(M, w.step.y, w.step.dy, w.step.y, 0, M.nd);
    for (int c = 0; c < M.nc; ++c) w.con.lam[c] += select(go, w.con.dlam[c], T(0.0));
    prev = select(le(moved, T(0.0)), T(-1.0), e);  // a step below rounding: the next evaluation is final
  }
}

// y and lambda of a step, put aside and taken back
DAL_INLINE void keep_solution(Work<double>& w) {
  for (int i = 0; i < w.M->nqd; ++i) w.step.y_kept[i] = w.step.y[i];
  for (int c = 0; c < w.M->nc; ++c) w.con.lam_kept[c] = w.con.lam[c];
}
DAL_INLINE void restore_solution(Work<double>& w) {
  for (int i = 0; i < w.M->nqd; ++i) w.step.y[i] = w.step.y_kept[i];
  for (int c = 0; c < w.M->nc; ++c) w.con.lam[c] = w.con.lam_kept[c];
}

// Iterations of the dense solver that a step may make: some seconds for the longest mechanisms, no limit for others.
constexpr int kDenseUnknown = 2000000000;
inline int dense_budget(const ModelData& M) {
  const double n = M.nd + M.nc, most = 5e9 / (n * n * n + 1);
  return most < 1e9 ? 8 + int(most) : 1000000000;
}

// damped Newton with the dense pivoted solver
//
// reads and writes as newton(); keeps y and lambda in step.y_kept, con.lam_kept
inline bool damped_newton(Work<double>& w, const StepOptions& o, double dt, int* iterations, double* error) {
  const ModelData& M = *w.M;
  use_dense_rows(w, false);
  w.step.floor = 0;
  if (w.step.dense_left == kDenseUnknown) w.step.dense_left = dense_budget(M);
  double e = evaluate(w, o, dt);
  for (int it = 0; it < 4 * o.max_iterations; ++it) {
    *iterations = it;
    *error = e;
    if (e <= 1.0) return next_momentum(w, o, dt);
    if (!(e < kLargest) || (!o.plain && --w.step.dense_left < 0) || !dense_direction(w, o, dt)) return false;
    keep_solution(w);
    double t = 1.0, best = e;
    bool better = false;
    for (int cut = 0; cut < 30; ++cut, t *= 0.5) {
      for (int i = 0; i < M.nd; ++i) w.step.moved[i] = t * w.step.dy[i];
      integrate(M, w.step.y_kept, w.step.moved, w.step.y, 0, M.nd);
      for (int c = 0; c < M.nc; ++c) w.con.lam[c] = w.con.lam_kept[c] + t * w.con.dlam[c];
      double en = evaluate(w, o, dt);
      if (en < (1 - 1e-4 * t) * e) {
        best = en;
        better = true;
        break;
      }
    }
    if (!better) {
      restore_solution(w);
      e = evaluate(w, o, dt);
      return e <= o.slack() && next_momentum(w, o, dt);
    }
    e = best;
  }
  return false;
}

constexpr double kHalfTurn = 3.141592653589793;

// a ball that turns by more than two radians; cosine: of half the angle
template <class T> DAL_INLINE MaskOf<T> turns_far(const T& cosine) { return mask_not(le(T(0.292), cosine * cosine)); }

// True when a hinge turns by more than half a turn in the step: the equations have more roots, a turn apart, and this
// may be a wrong one.
inline bool turns_far(const ModelData& M, const double* x, const double* y) {
  bool far = false;
  for (const Ball& b : M.balls) {
    double c = 0;
    for (int i = b.q; i < b.q + 4; ++i) c += x[i] * y[i];
    far = far || turns_far(c);
  }
  for (int k : M.hinges) far = far || !(__builtin_fabs(y[k] - x[k]) <= kHalfTurn);
  return far;
}

// True when a joint of y is so far from where shorter steps from x have led (`reached`) that it may be of a wrong root.
// Where a hinge makes many turns in a step half a turn is little of its way: an eighth of it is near, too.
inline bool far_from(const ModelData& M, const double* reached, const double* x, const double* y) {
  if (!turns_far(M, reached, y)) return false;
  if (!M.balls.empty()) return true;
  bool far = false;
  for (int k : M.hinges) {
    const double way = __builtin_fabs(reached[k] - x[k]) / 8;
    far = far || !(__builtin_fabs(y[k] - reached[k]) <= (way > kHalfTurn ? way : kHalfTurn));
  }
  return far;
}

// A root is believed when no hinge ends more than half a turn from where the momentum at q_k would carry it, along the
// constraints and with the prescribed motion. Only looked at when a hinge turns far (a flywheel may); evaluates at q_k,
// so the midpoint quantities are restored afterwards.
//
// reads step.x, y, p, con.C0; writes as evaluate(); scratch: gen, newton, comp.IC, step.dy, step.moved
inline bool believable(Work<double>& w, const StepOptions& o, double dt) {
  const ModelData& M = *w.M;
  if (!turns_far(M, w.step.x, w.step.y)) return true;
  use_dense_rows(w, false);
  double* moved = w.step.moved;
  difference(M, w.step.x, w.step.y, moved, 0, M.nv);
  for (int i = 0; i < M.nq; ++i) w.kin.q[i] = w.step.x[i];
  for (int i = 0; i < M.nv; ++i) w.kin.v[i] = i < M.nd ? 0 : moved[i] / dt;
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  composites(w, false);
  generators(w, Slots<double>{0, 1, 0, 1});
  assemble_packed(w);
  bool ok = factor(w);
  for (int i = 0; i < M.nd; ++i) w.step.dy[i] = w.step.p[i] - w.first.Lv[i];
  solve(w, w.step.dy, 1, 1);
  if (M.nc) along_constraints(w, w.con.C0, w.step.dy);
  for (int i = 0; i < M.nd; ++i)
    if (M.joints[M.dyn_joint[i]].turns() && !(__builtin_fabs(moved[i] - dt * w.step.dy[i]) <=
                                              kHalfTurn + 1e-10 * (reach(M, w.step.x, i) + reach(M, w.step.y, i))))
      ok = false;
  evaluate(w, o, dt);
  next_momentum(w, o, dt);
  return ok;
}

// A step with `stop`; where it does not end, the guess is as it was.
inline bool stopped_step(Work<double>& w, const StepOptions& o, double dt, int* iterations, double* error) {
  keep_solution(w);
  if (newton(w, o, dt, iterations, error) && believable(w, o, dt)) return true;
  restore_solution(w);
  return false;
}

// One step by Newton's method from several starts. In: w.step.x, w.step.p, w.step.u, w.con.C0 (= Dh(x)), w.step.y =
// guess with the prescribed kinematic values in place (kept in w.step.prescribed), w.con.lam = guess.
inline int direct_step(Work<double>& w, const StepOptions& o, double dt, int* iterations, double* error) {
  const ModelData& M = *w.M;
  if (o.stop > 0) {
    if (stopped_step(w, o, dt, iterations, error)) return StepOk;
    int before = *iterations, status = direct_step(w, o.without_stop(), dt, iterations, error);
    *iterations += before;
    return status;
  }
  for (int i = M.nqd; i < M.nq; ++i) w.step.prescribed[i] = w.step.y[i];
  bool wrong = false;  // a root was found, but not a believable one
  auto good = [&](bool converged) {
    if (!converged) return false;
    if (believable(w, o, dt)) return true;
    wrong = true;
    return false;
  };
  auto rest = [&] {
    for (int i = 0; i < M.nqd; ++i) w.step.y[i] = w.step.x[i];
    for (int c = 0; c < M.nc; ++c) w.con.lam[c] = 0;
  };
  if (o.plain)
    return good(damped_newton(w, o, dt, iterations, error)) ? StepOk : wrong ? StepWrongRoot : StepNotConverged;
  if (good(newton(w, o, dt, iterations, error))) return StepOk;
  // fallbacks: from rest, damped from rest, then by way of shorter steps
  int spent = *iterations, more = 0;
  rest();
  bool ok = good(newton(w, o, dt, &more, error));
  spent += more;
  if (!ok) {
    rest();
    ok = good(damped_newton(w, o, dt, &more, error));
    spent += more;
  }
  if (!ok) {
    // continuation in the length of the step: each solution starts the next, longer one
    rest();
    bool solved = false;
    for (int part = 8; part >= 1; --part) {
      double f = 1.0 / (1 << (part - 1));
      between(M, w.step.x, w.step.prescribed, f, w.step.y, M.nd, M.nv);
      solved = damped_newton(w, o, f * dt, &more, error);
      spent += more;
      if (part > 1) between(M, w.step.x, w.step.y, solved ? 2.0 : 0.0, w.step.y, 0, M.nd);
    }
    for (int i = M.nqd; i < M.nq; ++i) w.step.y[i] = w.step.prescribed[i];
    ok = good(solved);
  }
  *iterations = spent;
  if (ok) return StepOk;
  if (wrong) return StepWrongRoot;
  return *error < kLargest ? StepNotConverged : (*error == kSingular ? StepSingular : StepNotFinite);
}

// A step that direct_step() did not solve, from where `count` shorter ones lead, inputs held and prescribed values on a
// straight line. Its solution is believed when it is near (far_from()). False: all is as before.
//
// reads step.x, p, u, prescribed, con.C0; writes as direct_step()
inline bool step_by_way_of(int count, Work<double>& w, const StepOptions& o, double dt, int* iterations) {
  const ModelData& M = *w.M;
  StepState<double>& s = w.step;
  Detour<double>& d = w.detour;
  auto copy = [](double* to, const double* from, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  };
  auto begin = [&] {
    set_reference(w, s.x);
    start_constraints(w);
  };
  copy(d.from, s.x, M.nq);
  copy(d.before, s.x, M.nq);
  copy(d.p, s.p, M.nd);
  copy(d.to, s.prescribed, M.nq);
  for (int c = 0; c < M.nc; ++c) w.con.lam[c] = d.lam[c] = 0;
  bool ok = true;
  int more = 0;
  double error = 0;
  for (int i = 1; ok && i <= count; ++i) {
    between(M, d.before, s.x, 2.0, s.y, 0, M.nd);
    between(M, d.from, d.to, double(i) / count, s.y, M.nd, M.nv);
    ok = direct_step(w, o, dt / count, &more, &error) == StepOk;
    *iterations += more;
    if (!ok) break;
    for (int c = 0; c < M.nc; ++c) d.lam[c] += w.con.lam[c];
    copy(d.before, s.x, M.nq);
    copy(s.x, s.y, M.nq);
    copy(s.p, s.p_next, M.nd);
    begin();
  }
  copy(d.reached, s.x, M.nq);
  copy(s.x, d.from, M.nq);
  copy(s.p, d.p, M.nd);
  begin();
  for (int damped = 0; ok && damped < 2; ++damped) {
    copy(s.y, d.reached, M.nqd);
    copy(s.y + M.nqd, d.to + M.nqd, M.nq - M.nqd);
    copy(w.con.lam, d.lam, M.nc);
    const bool found = damped ? damped_newton(w, o, dt, &more, &error) : newton(w, o, dt, &more, &error);
    *iterations += more;
    if (found && !far_from(M, d.reached, d.from, s.y)) return true;
  }
  copy(s.prescribed + M.nqd, d.to + M.nqd, M.nq - M.nqd);
  return false;
}

// One step, in and out as in direct_step().
inline int step(Work<double>& w, const StepOptions& o, double dt, int* iterations, double* error) {
  w.step.dense_left = kDenseUnknown;
  const int status = direct_step(w, o, dt, iterations, error);
  if (status == StepOk || o.plain || !o.rescue) return status;
  for (int count : {32, 256})
    if (step_by_way_of(count, w, o.without_stop(), dt, iterations)) return StepOk;
  return status;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
