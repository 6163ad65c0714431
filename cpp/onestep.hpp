// Derivatives of the one-step map w = (q_k, p_k, u_k, rho_k+1) -> (q_k+1, p_k+1, lambda_k): first order, adjoint,
// second order contracted with a costate (Structured linearization, eqs 8-27, 31-32, in the factored form of
// docs/kernels.md 11, 12).
#pragma once
#include "del.hpp"
#include "gemm.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// second order of what turns or rolls, in ball_second.hpp (engine_dual.cpp)
void ball_third(Work<double>& w, Work<Dual>& d, const StepOptions& o, double dt, const double* mu, const double* zp,
                double* rows);
void velocity_second(Work<double>& w, Work<Dual>& d, const StepOptions& o, double dt, double* rows);
void ball_forces_second(Work<double>& w, Work<Dual>& d, const StepOptions& o, double dt, const double* mu,
                        const double* zp);

template <class T> DAL_INLINE void axpy(T* __restrict y, const T a, const T* __restrict x, int n) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}

// Y = scale A X for `rows` rows of A (row stride lda) and the nd rows of X; Y and X have row stride ld. By the sparse
// pattern of A, or as a dense product where that is nearly full (a chain). `room`: scratch for the latter.
struct Pattern {
  const std::vector<int>&idx, &off, &counts;
};
template <class T>
void sparse_times(const Work<T>& w, T* Y, int rows, int ld, int columns, const T* A, int lda, const Pattern& p,
                  const T* X, T scale, T* room) {
  int nv = w.M->nv, nd = w.M->nd;
  if constexpr (std::is_same_v<T, double>)
    if (nd == nv && nd >= 16 && 4 * p.idx.size() > 3 * size_t(nv) * nv) {
      gemm(rows, columns, nd, scale, A, lda, 1, X, ld, 1, 0.0, Y, ld, room);
      return;
    }
  gather_indexed(Y, ld, rows, columns, A, lda, p.idx.data(), p.off.data(), p.counts.data(), X, scale);
}
DAL_INLINE Pattern pattern(const ModelData& M) { return {M.pattern, M.pattern_offset, M.pattern_dynamic}; }
DAL_INLINE Pattern pattern_without_constraints(const ModelData& M) {
  return {M.free_pattern, M.free_pattern_offset, M.free_pattern_dynamic};
}

// Everything about the point (w.step.x, w.step.y, w.step.u, w.con.lam; C0, C1 included) that linearizations need;
// `fresh`: w.kin.mid etc. already belong to it. second_order keeps per-body blocks. only_first: nothing but
// first_order() of all columns follows, which then may use other factors. Returns a mask of lanes with usable pivots.
//
// reads step, con (and, if fresh, what residual() writes); writes comp, gen, newton, lin.E, lin.Fx .. Gu
template <class T>
MaskOf<T> prepare(Work<T>& w, const StepOptions& o, T dt, bool fresh, bool second_order, bool only_first = false) {
  Slots<T> s = slots<T>(o, dt);
  if constexpr (std::is_same_v<T, double>) use_dense_rows(w, true);
  if (!fresh) residual(w, o, dt);
  if (w.M->nh < w.M->nc) velocity_rows(w, s);
  composites(w, second_order);
  w.loops.factored = false;
  if constexpr (std::is_same_v<T, double>)
    if (only_first && w.M->loops.used) {
      start_loops(w);
      constraint_wrenches(w, w.step.y, w.kin.end, w.con.h, w.con.size, w.loops.end);
      generators_by_joint(w, s);
      elements_to_newton(w, w.kin.q, w.kin.v, s, dt * o.minus);
      w.loops.on = false;  // rows are there already
      w.loops.factored = loop_factor(w);
    }
  generators(w, s, second_order);
  if (!w.M->flat) ball_generators(w, dt, false, true);
  second(w, w.lin.E, true);
  if (!w.M->flat) {
    ball_blocks_to_dense(w, w.lin.E);
    ball_blocks_to_packed(w);
  }
  w.newton.use_packed = true;
  elements_to_newton(w, w.kin.q, w.kin.v, s, dt * T(o.minus));
  MaskOf<T> ok = w.loops.factored ? le(T(0.0), T(1.0)) : factor(w);
  w.newton.use_packed = false;
  if (!w.M->potentials.empty()) potentials_by_ends(w, w.kin.q, s, w.lin.E);
  force_jacobian(w, w.kin.q, w.kin.v);
  if (w.M->full_forces || w.M->has_damping || !w.M->flat) force_slots(w, s, dt);
  return ok;
}

// dt times the derivative of p_k+1 (row i) by the time step at fixed q_k, q_k+1: dt itself, and v = (y - x)/dt, a
// direction with dq = 0, dv = -v/dt. by_x, by_y (nv): dt times its derivatives by q_k and q_k+1
template <class T>
DAL_INLINE T momentum_by_dt(const Work<T>& w, const StepOptions& o, T dt, int i, const T* by_x, const T* by_y) {
  const T w1 = T(1 - o.alpha), w2 = T(o.alpha);
  T t = dt * (w2 * w.first.Lq[i] + T(o.plus) * w.first.F[i]);
  for (int k = 0; k < w.M->nv; ++k) t += (by_x[k] * w2 - by_y[k] * w1) * w.kin.v[k];
  return w.M->flat ? t : t + ball_by_dt(w, dt, i, true);
}

// first column of the reduced first order, a whole tile: q_k begins at 0, p_k at nv
DAL_INLINE int first_reduced(const Work<double>& w) { return w.M->nv / kTile * kTile; }

// d(q_k+1)/dw into w.lin.Z (nd rows), dp/dw into w.lin.P, dlambda/dw into w.lin.L, all with row stride
// w.stride(with_dt); X = N^-1 C0^T stays in w.lin.Z from w.x_column(with_dt) on. with_dt: one more column after rho,
// the derivative by the time step. After prepare(). reduced (double only): what second_contracted() needs. q_k enters
// the step only beside p_k, in p_k + D1 Ld + F- - Dh^T lambda, so its columns are those of p_k times the derivative of
// that sum by q_k, whose transpose goes to w.lin.Rt; the columns of q_k are left out, w.lin.P is left alone.
//
// reads lin.E, Fx .. Gu, newton, con, first, kin.v; writes lin.Z, P, L, Rt, con.schur; scratch: lin.T_, S, tmp, mu,
// lists
template <class T> void first_order(Work<T>& w, const StepOptions& o, T dt, bool with_dt, bool reduced = false) {
  const ModelData& M = *w.M;
  int nv = M.nv, nd = M.nd, nk = M.nk, nu = M.nu, nc = M.nc;
  int nw = w.nw + (with_dt ? 1 : 0), ld = w.stride(with_dt), xc = w.x_column(with_dt), rho = nv + nd + nu;
  bool forced = M.full_forces, damped = M.has_damping && !forced;
  T f = dt * T(o.minus), g = dt * T(o.plus), w1 = T(1 - o.alpha), w2 = T(o.alpha), idt = T(1.0) / dt;
  T* Z = w.lin.Z;
  // right-hand sides -dt R1_w, and C0^T
  for (int i = 0; i < nd; ++i) {
    T* z = Z + size_t(i) * ld;
    const T *e11 = w.lin.E.h11 + i * nv, *e12 = w.lin.E.h12 + i * nv, *fx = w.lin.Fx + i * nv, *fy = w.lin.Fy + i * nv;
    for (int k = 0; k < nv; ++k) z[k] = -e11[k];
    for (int k = nv; k < ld; ++k) z[k] = T(0.0);
    z[nv + i] = -dt;
    for (int k = 0; k < nu; ++k) z[nv + nd + k] = -(dt * f * w.lin.Fu[i * nu + k]);
    for (int k = 0; k < nk; ++k) z[rho + k] = -e12[nd + k];
    if (damped) z[i] -= f * fx[i];
    if (forced) {
      for (int k = 0; k < nv; ++k) z[k] -= f * fx[k];
      for (int k = 0; k < nk; ++k) z[rho + k] -= f * fy[nd + k];
    }
    if (with_dt) {  // explicit dt plus v = (y - x)/dt: a direction with dq = 0, dv = -v/dt
      T t = dt * (w1 * w.first.Lq[i] + T(o.minus) * w.first.F[i]);
      for (int k = 0; k < nv; ++k) {
        T a = e11[k] + f * fx[k], b = e12[k] + f * fy[k];
        t += (a * w2 - b * w1) * w.kin.v[k];
      }
      if (!M.flat) t += ball_by_dt(w, dt, i, false);
      z[nw - 1] = -t;
    }
    for (int c = 0; c < nc; ++c) z[xc + c] = w.con.C0[c * nv + i];
  }
  if (nc) impulse_slope(w, dt, Z, ld, nd);
  int c0 = 0;  // the first column
  if constexpr (std::is_same_v<T, double>)
    if (reduced) {
      c0 = first_reduced(w);
      take_transposed<false>(w.lin.Rt, padded(nd), Z, ld, nv, nd, -idt);
      for (int i = 0; i < nd; ++i)
        for (int k = c0; k < nv; ++k) Z[size_t(i) * ld + k] = 0;
    }
  bool solved = false;
  if constexpr (std::is_same_v<T, double>)
    if ((solved = w.loops.factored)) {
      for (int c = 0; c < nc; ++c) {
        double* l = w.lin.L + size_t(c) * ld;
        for (int k = 0; k < ld; ++k) l[k] = 0;
        for (int k = 0; k < nk; ++k) l[rho + k] = w.con.C1[c * nv + nd + k];
      }
      loop_columns(w, dt, Z, w.lin.L, ld, nw);
    }
  if (!solved) solve(w, Z + c0, (nc ? ld : xc) - c0, ld);
  // multipliers: (C1 X) Lam = -(C1 Z + R2)/dt
  Lists<T> lists{w};
  if (nc && !solved) {
    for (int c = 0; c < nc; ++c) {
      const Element& e = M.constraints[c];
      for (int t = 0; t < e.n; ++t) {
        int i = M.local_v[e.vars + t];
        if (i < nd) lists.add(w.con.C1[c * nv + i], Z + size_t(i) * ld + c0);
      }
      lists.end_row();
    }
    gather<false>(w, w.lin.L + c0, ld, nc, ld - c0, -idt);
    for (int c = 0; c < nc; ++c) {
      T* l = w.lin.L + size_t(c) * ld;
      for (int k = 0; k < nc; ++k) w.con.schur[c * nc + k] = -(dt * l[xc + k]);
      for (int k = 0; k < nk; ++k) l[rho + k] -= w.con.C1[c * nv + nd + k] * idt;
    }
    for (int c = M.nh; c < nc; ++c) {  // these depend on q_k, too, and on dt
      T* l = w.lin.L + size_t(c) * ld;
      const T* by_x = w.con.Cx + (c - M.nh) * nv;
      for (int k = 0; k < nv; ++k) l[k] -= by_x[k] * idt;
      if (with_dt) l[nw - 1] -= w.con.b_mid[c] * idt;
    }
    schur_solve(w, w.con.schur, w.lin.L + c0, nw - c0, ld, false);
    lists.restart();
    for (int i = 0; i < nd; ++i) {
      for (int c = 0; c < nc; ++c) lists.add(dt * Z[size_t(i) * ld + xc + c], w.lin.L + size_t(c) * ld + c0);
      lists.end_row();
    }
    gather<true>(w, Z + c0, ld, nd, xc - c0);
  }
  if (reduced) return;
  // dt dp = (E21 + dt D1F+) dq_k + (E22 + dt D2F+) dq_k+1 + dt D3F+ du
  const T* J2 = w.lin.E.h22;
  if (forced || damped) {
    J2 = w.lin.T_;
    for (int i = 0; i < nd * nv; ++i) w.lin.T_[i] = w.lin.E.h22[i];
    if (damped)
      for (int i = 0; i < nd; ++i) w.lin.T_[i * nv + i] += g * w.lin.Gy[i * nv + i];
    if (forced)
      for (int i = 0; i < nd * nv; ++i) w.lin.T_[i] += g * w.lin.Gy[i];
  }
  sparse_times(w, w.lin.P, nd, ld, xc, J2, nv, pattern_without_constraints(M), (const T*)Z, idt, w.lin.S);
  bool dense = 2 * M.free_pattern.size() > size_t(nv) * nv;  // a chain: columns of h12 by blocks, else entry by entry
  if constexpr (std::is_same_v<T, double>)
    if (dense) add_transposed(w.lin.P, ld, w.lin.E.h12, nv, nd, nv, idt);
  for (int i = 0; i < nd; ++i) {
    T* p = w.lin.P + size_t(i) * ld;
    const T *gx = w.lin.Gx + i * nv, *gy = w.lin.Gy + i * nv;
    if (!dense || !std::is_same_v<T, double>)
      for (int t = M.free_pattern_offset[i]; t < M.free_pattern_offset[i + 1]; ++t)
        p[M.free_pattern[t]] += w.lin.E.h12[M.free_pattern[t] * nv + i] * idt;
    for (int t = M.free_pattern_offset[i] + M.free_pattern_dynamic[i]; t < M.free_pattern_offset[i + 1]; ++t)
      p[rho + M.free_pattern[t] - nd] += J2[i * nv + M.free_pattern[t]] * idt;
    if (damped) p[i] += T(o.plus) * gx[i];
    if (forced)
      for (int k = 0; k < nv; ++k) p[k] += T(o.plus) * gx[k];
    for (int k = 0; k < nu; ++k) p[nv + nd + k] += g * w.lin.Gu[i * nu + k];
    if (with_dt) {
      T *a = w.lin.tmp, *b = w.lin.mu;
      for (int k = 0; k < nv; ++k) {
        a[k] = w.lin.E.h12[k * nv + i] + g * gx[k];
        b[k] = w.lin.E.h22[i * nv + k] + g * gy[k];
      }
      p[nw - 1] += momentum_by_dt(w, o, dt, i, a, b) * idt;
    }
  }
}

// Adjoint of the step: costates zq, zp (nd) and zl (nc, may be null) -> w.lin.mu, w.lin.nu; needs prepare(). With
// `have_first` first_order() was called too, and w.lin.Z, w.lin.L are used instead of solving again.
//
// reads lin (E, forces, and Z, L after first_order()), newton, con; writes lin.mu, lin.nu, lin.g
inline void adjoint(Work<double>& w, const StepOptions& o, double dt, const double* zq, const double* zp,
                    const double* zl, bool have_first) {
  const ModelData& M = *w.M;
  int nv = M.nv, nd = M.nd, nc = M.nc, ld = have_first ? w.stride() : nc;
  const double* X = have_first ? w.lin.Z + w.x_column() : w.lin.Z;  // N^-1 C0^T
  double g = dt * o.plus, idt = 1 / dt;
  // g = z_q + (D2D2Ld + D2F+)^T z_p; D2D2Ld is symmetric
  for (int k = 0; k < nd; ++k) {
    double t = 0.0;
    const double* row = w.lin.E.h22 + k * nv;
    for (int a = M.free_pattern_offset[k], end = a + M.free_pattern_dynamic[k]; a < end; ++a)
      t += row[M.free_pattern[a]] * zp[M.free_pattern[a]];
    if (M.has_damping || M.full_forces)
      for (int a = M.free_pattern_offset[k], end = a + M.free_pattern_dynamic[k]; a < end; ++a) {
        int i = M.free_pattern[a];
        t += g * w.lin.Gy[i * nv + k] * zp[i];
      }
    w.lin.g[k] = zq[k] + t * idt;
  }
  if (nc) {
    if (!have_first) {
      for (int i = 0; i < nd; ++i)
        for (int c = 0; c < nc; ++c) w.lin.Z[i * nc + c] = w.con.C0[c * nv + i];
      solve(w, w.lin.Z, nc, nc);
      for (int c = 0; c < nc; ++c)
        for (int k = 0; k < nc; ++k) {
          double t = 0.0;
          for (int i = 0; i < nd; ++i) t += w.con.C1[c * nv + i] * w.lin.Z[i * nc + k];
          w.con.schur[c * nc + k] = t;
        }
    }
    for (int c = 0; c < nc; ++c) w.lin.nu[c] = zl ? -(zl[c] * idt) : 0.0;
    for (int i = 0; i < nd; ++i)
      for (int c = 0; c < nc; ++c) w.lin.nu[c] -= X[size_t(i) * ld + c] * w.lin.g[i];
    schur_solve(w, w.con.schur, w.lin.nu, 1, 1, true);
  }
  for (int i = nd; i < nv; ++i) w.lin.mu[i] = 0.0;
  if (have_first) {  // mu is the gradient by p_k
    gemv_t(nd, nd, 1.0, w.lin.Z + nv, ld, w.lin.g, 0.0, w.lin.mu);
    if (zl) gemv_t(nc, nd, 1.0, w.lin.L + nv, ld, zl, 1.0, w.lin.mu);
    return;
  }
  for (int c = 0; c < nc; ++c)
    for (int i = 0; i < nd; ++i) w.lin.g[i] += w.con.C1[c * nv + i] * w.lin.nu[c];
  for (int i = 0; i < nd; ++i) w.lin.mu[i] = w.lin.g[i];
  solve<double, true>(w, w.lin.mu, 1, 1);
  for (int i = 0; i < nd; ++i) w.lin.mu[i] = -(dt * w.lin.mu[i]);
}

// gradient of z.(q_k+1 dynamic, p_k+1, lambda) by w (length nw) without forming the first-order matrices; after
// adjoint()
//
// reads lin.E, forces, mu, nu, con; writes out; scratch: lin.T_
template <class T> void adjoint_gradient(Work<T>& w, const StepOptions& o, T dt, const T* zp, T* out) {
  const ModelData& M = *w.M;
  int nv = M.nv, nd = M.nd, nu = M.nu, nk = M.nk, nc = M.nc;
  T f = dt * T(o.minus), g = dt * T(o.plus), idt = T(1.0) / dt;
  T* D = w.lin.T_;
  for (int i = 0; i < nv * nv; ++i) D[i] = T(0.0);
  if (nc) impulse_slope(w, T(1.0), D, nv, nv);
  for (int k = 0; k < nv; ++k) {
    T t = T(0.0);
    for (int i = 0; i < nd; ++i) {
      t += (w.lin.E.h12[k * nv + i] + g * w.lin.Gx[i * nv + k]) * zp[i] +
           (w.lin.E.h11[i * nv + k] + f * w.lin.Fx[i * nv + k] - dt * D[i * nv + k]) * w.lin.mu[i];
    }
    t = t * idt;
    for (int c = M.nh; c < nc; ++c) t += w.con.Cx[(c - M.nh) * nv + k] * w.lin.nu[c];
    out[k] = t;
  }
  for (int i = 0; i < nd; ++i) out[nv + i] = w.lin.mu[i];
  for (int k = 0; k < nu; ++k) {
    T t = T(0.0);
    for (int i = 0; i < nd; ++i) t += g * w.lin.Gu[i * nu + k] * zp[i] + f * w.lin.Fu[i * nu + k] * w.lin.mu[i];
    out[nv + nd + k] = t;
  }
  for (int k = nd; k < nv; ++k) {
    T t = T(0.0);
    for (int i = 0; i < nd; ++i) {
      t += (w.lin.E.h22[i * nv + k] + g * w.lin.Gy[i * nv + k]) * zp[i] +
           (w.lin.E.h12[i * nv + k] + f * w.lin.Fy[i * nv + k]) * w.lin.mu[i];
    }
    t = t * idt;
    for (int c = 0; c < nc; ++c) t += w.con.C1[c * nv + k] * w.lin.nu[c];
    out[nv + nd + nu + k - nd] = t;
  }
  (void)nk;
}

// Third derivatives of Ld, and second ones of the constraints and forces, contracted with the adjoints: T11, T12, T22
// into lin.E3, by inputs into lin.Hu, Huu; lin.rhs (nc x nv): rows D(C0_c mu)/dq_k
//
// reads what second_contracted() reads; writes lin.E3, Hu, Huu, rhs, mu, nu, along; scratch: lin.T_, g, tmp, and dual
inline void second_terms(Work<double>& w, Work<Dual>* dual, const StepOptions& o, double dt, const double* zq,
                         const double* zp, const double* zl) {
  const ModelData& M = *w.M;
  int nv = M.nv, nd = M.nd, nc = M.nc;
  Slots<double> s = slots<double>(o, dt);
  adjoint(w, o, dt, zq, zp, zl, true);
  double* rows = w.lin.rhs;  // D2h_c(q_k) mu
  // T_ij = third derivative of Ld along (dx, dy) = (mu, z_p), over dt
  double w1 = (1 - o.alpha) / dt, w2 = o.alpha / dt, idt = 1 / dt;
  for (int i = 0; i < nv; ++i) {
    double z = i < nd ? zp[i] : 0;
    w.along.dq[i] = w1 * w.lin.mu[i] + w2 * z;
    w.along.dv[i] = (z - w.lin.mu[i]) * idt * idt;
  }
  bool inputs = M.full_forces;
  if (!M.flat) {
    double* z = w.along.dv;  // along the ends themselves
    for (int i = 0; i < nv; ++i) z[i] = i < nd ? zp[i] : 0;
    ball_third(w, *dual, o, dt, w.lin.mu, z, rows);
    if (inputs) ball_forces_second(w, *dual, o, dt, w.lin.mu, z);
  } else {
    third(w, s, w.lin.E3);
    if (!M.potentials.empty()) potentials_third(w, w.kin.q, s, w.lin.E3);
  }
  if (inputs && M.flat) {
    double* m = w.lin.g;
    for (int i = 0; i < nv; ++i) m[i] = i < nd ? o.plus * zp[i] + o.minus * w.lin.mu[i] : 0;
    forces_second(w, w.kin.q, w.kin.v, m, s, idt, w.lin.E3);
  }
  if (nc) {
    if (M.flat) constraint_third(w, w.step.x, w.kin.start, w.con.lam, -1.0, w.lin.mu, w.lin.E3.h11, rows);
    constraint_hessian(w, w.step.y, w.kin.end, w.lin.nu, 1.0, w.con.C1, w.lin.E3.h22, nv, nv);
  }
  if (M.nh < nc) velocity_second(w, *dual, o, dt, rows);
}

// The Hessian where q_k enters the velocity constraints beside the momentum balance, so that nothing follows from p_k:
// Wy^T T22 Wy, G = T12 Wy - (D(C0 mu)) dlambda/dw in the rows and columns of q_k, T11 in both. After second_terms() and
// first_order() of all columns.
//
// reads lin.Z, L, E3, Hu, Huu, rhs; writes H; scratch: lin.T_, S
inline void second_of_all(Work<double>& w, double dt, double* H) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nu = M.nu, nc = M.nc, nw = w.nw, ld = w.stride(), rho = nv + nd + nu;
  double *TW = w.lin.T_, *G = w.lin.S;
  const double *rows = w.lin.rhs, *Z = w.lin.Z;
  auto times_Wy = [&](double* to, const double* row) {  // to (nw) = row (nv) Wy
    for (int l = 0; l < nw; ++l) to[l] = 0;
    for (int k = 0; k < nd; ++k)
      if (row[k] != 0) axpy(to, row[k], Z + size_t(k) * ld, nw);
    for (int k = nd; k < nv; ++k) to[rho + k - nd] += row[k];
  };
  for (int i = 0; i < nv; ++i) {
    times_Wy(TW + size_t(i) * ld, w.lin.E3.h22 + size_t(i) * nv);
    times_Wy(G + size_t(i) * ld, w.lin.E3.h12 + size_t(i) * nv);
    for (int c = 0; c < nc; ++c)
      if (rows[c * nv + i] != 0) axpy(G + size_t(i) * ld, -rows[c * nv + i], w.lin.L + size_t(c) * ld, nw);
    for (int a = 0; a < nu && M.full_forces; ++a) G[size_t(i) * ld + nv + nd + a] += dt * w.lin.Hu[i * nu + a];
  }
  for (int k = 0; k < nw * nw; ++k) H[k] = 0;
  for (int i = 0; i < nv; ++i)
    for (int k = 0; k < nw; ++k) {
      const double y = i < nd ? Z[size_t(i) * ld + k] : double(k == rho + i - nd);
      if (y != 0) axpy(H + size_t(k) * nw, y, TW + size_t(i) * ld, nw);
    }
  for (int i = 0; i < nv; ++i)
    for (int k = 0; k < nw; ++k) {
      H[size_t(i) * nw + k] += G[size_t(i) * ld + k];
      H[size_t(k) * nw + i] += G[size_t(i) * ld + k];
    }
  for (int i = 0; i < nv; ++i)
    for (int k = 0; k < nv; ++k) H[size_t(i) * nw + k] += w.lin.E3.h11[i < k ? i * nv + k : k * nv + i];
  for (int a = 0; a < nu && M.full_forces; ++a) {
    const int ra = nv + nd + a;
    double* t = TW;
    for (int l = 0; l < nw; ++l) t[l] = 0;
    for (int i = 0; i < nv; ++i) {
      const double x = dt * w.lin.Hu[(nv + i) * nu + a];
      if (i < nd) axpy(t, x, Z + size_t(i) * ld, nw);
      else t[rho + i - nd] += x;
    }
    for (int l = 0; l < nw; ++l) {
      H[size_t(ra) * nw + l] += t[l];
      H[size_t(l) * nw + ra] += t[l];
    }
    for (int b = 0; b < nu; ++b)
      H[size_t(ra) * nw + nv + nd + b] += dt * dt * w.lin.Huu[(a < b ? a * nu + b : b * nu + a)];
  }
  for (int i = 0; i < nw; ++i)
    for (int k = 0; k < i; ++k)
      H[size_t(i) * nw + k] = H[size_t(k) * nw + i] = 0.5 * (H[size_t(i) * nw + k] + H[size_t(k) * nw + i]);
}

// Hessian (nw x nw) of z_q.q_k+1 + z_p.p_k+1 + z_l.lambda as functions of w (12.1). After prepare(second_order) and the
// reduced first_order(). It is Wy^T T22 Wy, and G = T12 Wy - (D2h mu) dlambda/dw in the rows of q_k, G^T in its
// columns, T11 in both; Wy = d q_k+1/dw (unit rows for prescribed variables). What belongs to q_k follows from p_k by R
// = w.lin.Rt^T, so only the columns from p_k on are formed: K = Wy^T T22 Wy and G there, then R^T K + G and R^T K R + G
// R + R^T G^T.
//
// With velocity constraints after first_order() of all columns instead.
//
// reads comp, gen, lin.Z, L, Rt, forces, con; writes H, along, lin.E3, mu, nu; scratch: lin.P, T_, S, rhs, g, tmp, and
// dual (models with balls or velocity constraints only, else null)
inline void second_contracted(Work<double>& w, Work<Dual>* dual, const StepOptions& o, double dt, const double* zq,
                              const double* zp, const double* zl, double* H) {
  const ModelData& M = *w.M;
  int nv = M.nv, nd = M.nd, nu = M.nu, nc = M.nc, nw = w.nw, ld = w.stride(), xc = w.x_column();
  second_terms(w, dual, o, dt, zq, zp, zl);
  if (M.nh < nc) return second_of_all(w, dt, H);
  const double* rows = w.lin.rhs;
  const bool inputs = M.full_forces;
  int c0 = first_reduced(w), cols = xc - c0, rho = nv + nd + nu;
  double *S = w.lin.S, *TW = w.lin.T_, *Z = w.lin.Z + c0;
  sparse_times(w, TW + c0, nv, ld, cols, w.lin.E3.h22, nv, pattern(M), (const double*)Z, 1.0, S);
  sparse_times(w, S + c0, nv, ld, cols, w.lin.E3.h12, nv, pattern_without_constraints(M), (const double*)Z, 1.0,
               S + size_t(nv) * ld);
  for (int c = 0; c < nc; ++c) {
    const Element& e = M.constraints[c];
    for (int t = 0; t < e.n; ++t) {
      int i = M.local_v[e.vars + t];
      axpy(S + size_t(i) * ld + c0, -rows[c * nv + i], w.lin.L + size_t(c) * ld + c0, cols);
    }
  }
  for (int i = 0; i < nv; ++i)
    for (int t = M.free_pattern_offset[i] + M.free_pattern_dynamic[i]; t < M.free_pattern_offset[i + 1]; ++t)
      S[size_t(i) * ld + rho + M.free_pattern[t] - nd] += w.lin.E3.h12[i * nv + M.free_pattern[t]];
  // K: the upper triangle of S from row nv on
  double* K = S + size_t(nv) * ld;
  product_upper(nw - nv, nd, w.lin.Z + nv, ld, TW + nv, ld, K + nv, ld);
  add_transposed(K + rho, ld, TW + size_t(nd) * ld + nv, ld, rho - nv, nv - nd);  // prescribed rows of Wy
  for (int k = nd; k < nv; ++k) {
    double *h = S + size_t(rho + k - nd) * ld, *t = TW + size_t(k) * ld;
    for (int l = rho + k - nd; l < nw; ++l)
      h[l] += t[l] + TW[size_t(l - rho + nd) * ld + rho + k - nd] + w.lin.E3.h22[k * nv + l - rho + nd];
  }
  if (inputs && nu) {
    // rows of u: Hu1^T Sq + Hu2^T Wy, and dt Huu
    for (int a = 0; a < nu; ++a) {
      double* t = w.lin.tmp;
      int ra = nv + nd + a;
      for (int k = nv; k < nw; ++k) t[k] = 0;
      for (int i = 0; i < nv; ++i) {
        S[size_t(i) * ld + ra] += dt * w.lin.Hu[i * nu + a];
        double x = dt * w.lin.Hu[(nv + i) * nu + a];
        if (x == 0) continue;
        if (i < nd) axpy(t + nv, x, w.lin.Z + size_t(i) * ld + nv, nw - nv);
        else t[rho + i - nd] += x;
      }
      for (int k = nv; k <= ra; ++k) S[size_t(k) * ld + ra] += t[k];
      for (int k = ra; k < nw; ++k) S[size_t(ra) * ld + k] += t[k];
      for (int b = a; b < nu; ++b) S[size_t(ra) * ld + nv + nd + b] += dt * dt * w.lin.Huu[a * nu + b];
    }
  }
  // T = R^T K; V = (T/2 + G)^T by p_k; T + G in the rows of q_k; then V^T R and its transpose
  double* V = w.lin.rhs;
  copy_symmetric(nw - nv, K + nv, ld, H + size_t(nv) * nw + nv, nw);
  copy_symmetric(nd, K + nv, ld, K + nv, ld);
  sparse_times(w, TW + c0, nv, ld, cols, w.lin.Rt, padded(nd), pattern(M), (const double*)K + c0, 1.0, w.lin.P);
  for (int i = 0; i < nv; ++i) {
    double *h = H + size_t(i) * nw, *g = S + size_t(i) * ld, *t = TW + size_t(i) * ld;
    for (int k = nv; k < nw; ++k) h[k] = g[k] + t[k];
    for (int k = nv; k < nv + nd; ++k) t[k] = g[k] + 0.5 * t[k];
  }
  take_transposed<false>(H + size_t(nv) * nw, nw, H + nv, nw, nw - nv, nv);
  take_transposed<false>(V, ld, TW + nv, ld, nd, nv);
  sparse_times(w, TW, nv, ld, padded(nv), w.lin.Rt, padded(nd), pattern(M), (const double*)V, 1.0, w.lin.P);
  fold_lower(nv, TW, ld);
  for (int i = 0; i < nv; ++i) {
    double* t = TW + size_t(i) * ld;
    t[i] *= 2;
    for (int k = i; k < nv; ++k) t[k] += w.lin.E3.h11[i * nv + k];
  }
  copy_symmetric(nv, TW, ld, H, nw);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
