// Derivatives of the one-step map w = (q_k, p_k, u_k, rho_k+1) -> (q_k+1, p_k+1, lambda_k): first order, adjoint, second order contracted with
// a costate (Structured linearization, eqs 8-27, 31-32, in the factored form of KERNELS sections 11, 12).
#pragma once
#include "del.hpp"
#include "gemm.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> DAL_INLINE void axpy(T* __restrict y, const T a, const T* __restrict x, int n) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}

// Y = scale A X for `rows` rows of A (row stride lda) and the nd rows of X; Y and X have row stride ld. By the sparse pattern of A, or as a dense
// product where that is nearly full (a chain). `room`: scratch for the latter.
struct Pattern {
  const std::vector<int>&idx, &off, &counts;
};
template <class T> void sparse_times(const Work<T>& w, T* Y, int rows, int ld, int columns, const T* A, int lda, const Pattern& p, const T* X, T scale, T* room) {
  int nq = w.M->nq, nd = w.M->nd;
  if constexpr (std::is_same_v<T, double>)
    if (nd == nq && nd >= 16 && 4 * p.idx.size() > 3 * size_t(nq) * nq) {
      gemm(rows, columns, nd, scale, A, lda, 1, X, ld, 1, 0.0, Y, ld, room);
      return;
    }
  gather_indexed(Y, ld, rows, columns, A, lda, p.idx.data(), p.off.data(), p.counts.data(), X, scale);
}
DAL_INLINE Pattern pattern(const ModelData& M) { return {M.nbr, M.nbr_off, M.nbr_dyn}; }
DAL_INLINE Pattern pattern_without_constraints(const ModelData& M) { return {M.lnbr, M.lnbr_off, M.lnbr_dyn}; }

// Everything about the point (w.x, w.y, w.u, w.lam; C0, C1 included) that linearizations need; `fresh`: w.mid etc. already belong to it.
// second_order keeps per-body blocks. Returns a mask of lanes with usable pivots.
template <class T> MaskOf<T> prepare(Work<T>& w, const StepOptions& o, T dt, bool fresh, bool second_order) {
  Slots<T> s = slots<T>(o, dt);
  if (!fresh) residual(w, o, dt);
  composites(w, second_order);
  generators(w, s, second_order);
  second(w, w.E, true);
  w.use_packed = true;
  elements_to_newton(w, w.q, w.v, s, dt * T(o.minus));
  MaskOf<T> ok = factor(w);
  w.use_packed = false;
  if (!w.M->potentials.empty()) potentials_second(w, w.q, s, w.E);
  force_jacobian(w, w.q, w.v);
  return ok;
}

// dt times the derivative of p_k+1 (row i) by the time step at fixed q_k, q_k+1: dt itself, and v = (y - x)/dt, a direction with dq = 0, dv = -v/dt.
// by_x, by_y (nq): dt times its derivatives by q_k and q_k+1
template <class T> DAL_INLINE T momentum_by_dt(const Work<T>& w, const StepOptions& o, T dt, int i, const T* by_x, const T* by_y) {
  const T w1 = T(1 - o.alpha), w2 = T(o.alpha);
  T t = dt * (w2 * w.Lq[i] + T(o.plus) * w.Fgen[i]);
  for (int k = 0; k < w.M->nq; ++k) t += (by_x[k] * w2 - by_y[k] * w1) * w.v[k];
  return t;
}

// first column of the reduced first order, a whole tile: q_k begins at 0, p_k at nq
DAL_INLINE int first_reduced(const Work<double>& w) { return w.M->nq / kTile * kTile; }

// d(q_k+1)/dw into w.Z (nd rows), dp/dw into w.Pw, dlambda/dw into w.Lw, all with row stride w.stride(with_dt); X = N^-1 C0^T stays in w.Z
// from w.x_column(with_dt) on. with_dt: one more column after rho, the derivative by the time step. After prepare().
// reduced (double only): what second_contracted() needs. q_k enters the step only beside p_k, in p_k + D1 Ld + F- - Dh^T lambda, so its columns are those
// of p_k times the derivative of that sum by q_k, whose transpose goes to w.Rt; the columns of q_k are left out, w.Pw is left alone.
template <class T> void first_order(Work<T>& w, const StepOptions& o, T dt, bool with_dt, bool reduced = false) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nk = M.nk, nu = M.nu, nc = M.nc;
  int nw = w.nw + (with_dt ? 1 : 0), ld = w.stride(with_dt), xc = w.x_column(with_dt), rho = nq + nd + nu;
  bool forced = !M.forces.empty(), damped = M.has_damping && !forced;
  Slots<T> s = slots<T>(o, dt);
  T f = dt * T(o.minus), g = dt * T(o.plus), w1 = T(1 - o.alpha), w2 = T(o.alpha), idt = T(1.0) / dt;
  T* Z = w.Z;
  // right-hand sides -dt R1_w, and C0^T
  for (int i = 0; i < nd; ++i) {
    T* z = Z + size_t(i) * ld;
    const T *e11 = w.E.h11 + i * nq, *e12 = w.E.h12 + i * nq, *fq = w.Fq + i * nq, *fv = w.Fv + i * nq;
    for (int k = 0; k < nq; ++k) z[k] = -e11[k];
    for (int k = nq; k < ld; ++k) z[k] = T(0.0);
    z[nq + i] = -dt;
    for (int k = 0; k < nu; ++k) z[nq + nd + k] = -(dt * f * w.Fu[i * nu + k]);
    for (int k = 0; k < nk; ++k) z[rho + k] = -e12[nd + k];
    if (damped) z[i] -= f * s.b1 * fv[i];
    if (forced) {
      for (int k = 0; k < nq; ++k) z[k] -= f * (s.a1 * fq[k] + s.b1 * fv[k]);
      for (int k = 0; k < nk; ++k) z[rho + k] -= f * (s.a2 * fq[nd + k] + s.b2 * fv[nd + k]);
    }
    if (with_dt) {  // explicit dt plus v = (y - x)/dt: a direction with dq = 0, dv = -v/dt
      T t = dt * (w1 * w.Lq[i] + T(o.minus) * w.Fgen[i]);
      for (int k = 0; k < nq; ++k) {
        T a = e11[k] + f * (s.a1 * fq[k] + s.b1 * fv[k]), b = e12[k] + f * (s.a2 * fq[k] + s.b2 * fv[k]);
        t += (a * w2 - b * w1) * w.v[k];
      }
      z[nw - 1] = -t;
    }
    for (int c = 0; c < nc; ++c) z[xc + c] = w.C0[c * nq + i];
  }
  if (nc) constraint_hessian(w, w.x, w.start, w.lam, dt, Z, ld, nd);
  int c0 = 0;  // the first column
  if constexpr (std::is_same_v<T, double>)
    if (reduced) {
      c0 = first_reduced(w);
      take_transposed<false>(w.Rt, padded(nd), Z, ld, nq, nd, -idt);
      for (int i = 0; i < nd; ++i) for (int k = c0; k < nq; ++k) Z[size_t(i) * ld + k] = 0;
    }
  solve(w, Z + c0, (nc ? ld : xc) - c0, ld);
  // multipliers: (C1 X) Lam = -(C1 Z + R2)/dt
  Lists<T> lists{w};
  if (nc) {
    for (int c = 0; c < nc; ++c) {
      const Element& e = M.constraints[c];
      for (int t = 0; t < e.n; ++t) {
        int i = M.local_q[e.vars + t];
        if (i < nd) lists.add(w.C1[c * nq + i], Z + size_t(i) * ld + c0);
      }
      lists.end_row();
    }
    gather<false>(w, w.Lw + c0, ld, nc, ld - c0, -idt);
    for (int c = 0; c < nc; ++c) {
      T* l = w.Lw + size_t(c) * ld;
      for (int k = 0; k < nc; ++k) w.S1[c * nc + k] = -(dt * l[xc + k]);
      for (int k = 0; k < nk; ++k) l[rho + k] -= w.C1[c * nq + nd + k] * idt;
    }
    schur_solve(w, w.S1, w.Lw + c0, nw - c0, ld, false);
    lists.restart();
    for (int i = 0; i < nd; ++i) {
      for (int c = 0; c < nc; ++c) lists.add(dt * Z[size_t(i) * ld + xc + c], w.Lw + size_t(c) * ld + c0);
      lists.end_row();
    }
    gather<true>(w, Z + c0, ld, nd, xc - c0);
  }
  if (reduced) return;
  // dt dp = (E21 + dt D1F+) dq_k + (E22 + dt D2F+) dq_k+1 + dt D3F+ du
  const T* J2 = w.E.h22;
  if (forced || damped) {
    J2 = w.TW;
    for (int i = 0; i < nd * nq; ++i) w.TW[i] = w.E.h22[i];
    if (damped) for (int i = 0; i < nd; ++i) w.TW[i * nq + i] += g * s.b2 * w.Fv[i * nq + i];
    if (forced) for (int i = 0; i < nd * nq; ++i) w.TW[i] += g * (s.a2 * w.Fq[i] + s.b2 * w.Fv[i]);
  }
  sparse_times(w, w.Pw, nd, ld, xc, J2, nq, pattern_without_constraints(M), (const T*)Z, idt, w.HS);
  bool dense = 2 * M.lnbr.size() > size_t(nq) * nq;  // a chain: columns of h12 by blocks, else entry by entry
  if constexpr (std::is_same_v<T, double>) if (dense) add_transposed(w.Pw, ld, w.E.h12, nq, nd, nq, idt);
  for (int i = 0; i < nd; ++i) {
    T* p = w.Pw + size_t(i) * ld;
    const T *fq = w.Fq + i * nq, *fv = w.Fv + i * nq;
    if (!dense || !std::is_same_v<T, double>)
      for (int t = M.lnbr_off[i]; t < M.lnbr_off[i + 1]; ++t) p[M.lnbr[t]] += w.E.h12[M.lnbr[t] * nq + i] * idt;
    for (int t = M.lnbr_off[i] + M.lnbr_dyn[i]; t < M.lnbr_off[i + 1]; ++t) p[rho + M.lnbr[t] - nd] += J2[i * nq + M.lnbr[t]] * idt;
    if (damped) p[i] += T(o.plus) * s.b1 * fv[i];
    if (forced) for (int k = 0; k < nq; ++k) p[k] += T(o.plus) * (s.a1 * fq[k] + s.b1 * fv[k]);
    for (int k = 0; k < nu; ++k) p[nq + nd + k] += g * w.Fu[i * nu + k];
    if (with_dt) {
      T *a = w.tmp, *b = w.mu;
      for (int k = 0; k < nq; ++k) {
        a[k] = w.E.h12[k * nq + i] + g * (s.a1 * fq[k] + s.b1 * fv[k]);
        b[k] = w.E.h22[i * nq + k] + g * (s.a2 * fq[k] + s.b2 * fv[k]);
      }
      p[nw - 1] += momentum_by_dt(w, o, dt, i, a, b) * idt;
    }
  }
}

// Adjoint of the step: costates zq, zp (nd) and zl (nc, may be null) -> w.mu, w.nu; needs prepare(). With `have_first` first_order() was called too, and
// w.Z, w.Lw are used instead of solving again.
inline void adjoint(Work<double>& w, const StepOptions& o, double dt, const double* zq, const double* zp, const double* zl, bool have_first) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nc = M.nc, ld = have_first ? w.stride() : nc;
  const double* X = have_first ? w.Z + w.x_column() : w.Z;  // N^-1 C0^T
  Slots<double> s = slots<double>(o, dt);
  double g = dt * o.plus, idt = 1 / dt;
  // g = z_q + (D2D2Ld + D2F+)^T z_p; D2D2Ld is symmetric
  for (int k = 0; k < nd; ++k) {
    double t = 0.0;
    const double* row = w.E.h22 + k * nq;
    for (int a = M.lnbr_off[k], end = a + M.lnbr_dyn[k]; a < end; ++a) t += row[M.lnbr[a]] * zp[M.lnbr[a]];
    if (M.has_damping || !M.forces.empty())
      for (int a = M.lnbr_off[k], end = a + M.lnbr_dyn[k]; a < end; ++a) {
        int i = M.lnbr[a];
        t += g * (s.a2 * w.Fq[i * nq + k] + s.b2 * w.Fv[i * nq + k]) * zp[i];
      }
    w.g[k] = zq[k] + t * idt;
  }
  if (nc) {
    if (!have_first) {
      for (int i = 0; i < nd; ++i) for (int c = 0; c < nc; ++c) w.Z[i * nc + c] = w.C0[c * nq + i];
      solve(w, w.Z, nc, nc);
      for (int c = 0; c < nc; ++c)
        for (int k = 0; k < nc; ++k) {
          double t = 0.0;
          for (int i = 0; i < nd; ++i) t += w.C1[c * nq + i] * w.Z[i * nc + k];
          w.S1[c * nc + k] = t;
        }
    }
    for (int c = 0; c < nc; ++c) w.nu[c] = zl ? -(zl[c] * idt) : 0.0;
    for (int i = 0; i < nd; ++i) for (int c = 0; c < nc; ++c) w.nu[c] -= X[size_t(i) * ld + c] * w.g[i];
    schur_solve(w, w.S1, w.nu, 1, 1, true);
  }
  for (int i = nd; i < nq; ++i) w.mu[i] = 0.0;
  if (have_first) {  // mu is the gradient by p_k
    gemv_t(nd, nd, 1.0, w.Z + nq, ld, w.g, 0.0, w.mu);
    if (zl) gemv_t(nc, nd, 1.0, w.Lw + nq, ld, zl, 1.0, w.mu);
    return;
  }
  for (int c = 0; c < nc; ++c) for (int i = 0; i < nd; ++i) w.g[i] += w.C1[c * nq + i] * w.nu[c];
  for (int i = 0; i < nd; ++i) w.mu[i] = w.g[i];
  solve<double, true>(w, w.mu, 1, 1);
  for (int i = 0; i < nd; ++i) w.mu[i] = -(dt * w.mu[i]);
}

// gradient of z.(q_k+1 dynamic, p_k+1, lambda) by w (length nw) without forming the first-order matrices; after adjoint()
template <class T> void adjoint_gradient(Work<T>& w, const StepOptions& o, T dt, const T* zp, T* out) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nu = M.nu, nk = M.nk, nc = M.nc;
  Slots<T> s = slots<T>(o, dt);
  T f = dt * T(o.minus), g = dt * T(o.plus), idt = T(1.0) / dt;
  T* D = w.TW;
  for (int i = 0; i < nq * nq; ++i) D[i] = T(0.0);
  if (nc) {
    constraint_hessian(w, w.x, w.start, w.lam, T(1.0), D, nq, nq);
  }
  for (int k = 0; k < nq; ++k) {
    T t = T(0.0);
    for (int i = 0; i < nd; ++i) {
      T fx = s.a1 * w.Fq[i * nq + k] + s.b1 * w.Fv[i * nq + k];
      t += (w.E.h12[k * nq + i] + g * fx) * zp[i] + (w.E.h11[i * nq + k] + f * fx - dt * D[i * nq + k]) * w.mu[i];
    }
    out[k] = t * idt;
  }
  for (int i = 0; i < nd; ++i) out[nq + i] = w.mu[i];
  for (int k = 0; k < nu; ++k) {
    T t = T(0.0);
    for (int i = 0; i < nd; ++i) t += w.Fu[i * nu + k] * (g * zp[i] + f * w.mu[i]);
    out[nq + nd + k] = t;
  }
  for (int k = nd; k < nq; ++k) {
    T t = T(0.0);
    for (int i = 0; i < nd; ++i) {
      T fy = s.a2 * w.Fq[i * nq + k] + s.b2 * w.Fv[i * nq + k];
      t += (w.E.h22[i * nq + k] + g * fy) * zp[i] + (w.E.h12[i * nq + k] + f * fy) * w.mu[i];
    }
    t = t * idt;
    for (int c = 0; c < nc; ++c) t += w.C1[c * nq + k] * w.nu[c];
    out[nq + nd + nu + k - nd] = t;
  }
  (void)nk;
}

// Hessian (nw x nw) of z_q.q_k+1 + z_p.p_k+1 + z_l.lambda as functions of w (12.1). After prepare(second_order) and the reduced first_order().
// It is Wy^T T22 Wy, and G = T12 Wy - (D2h mu) dlambda/dw in the rows of q_k, G^T in its columns, T11 in both; Wy = d q_k+1/dw (unit rows for prescribed variables).
// What belongs to q_k follows from p_k by R = w.Rt^T, so only the columns from p_k on are formed: K = Wy^T T22 Wy and G there, then R^T K + G and
// R^T K R + G R + R^T G^T.
inline void second_contracted(Work<double>& w, const StepOptions& o, double dt, const double* zq, const double* zp, const double* zl, double* H) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nu = M.nu, nc = M.nc, nw = w.nw, ld = w.stride(), xc = w.x_column();
  Slots<double> s = slots<double>(o, dt);
  adjoint(w, o, dt, zq, zp, zl, true);
  // T_ij = third derivative of Ld along (dx, dy) = (mu, z_p), over dt
  double w1 = (1 - o.alpha) / dt, w2 = o.alpha / dt, idt = 1 / dt;
  for (int i = 0; i < nq; ++i) {
    double z = i < nd ? zp[i] : 0;
    w.dq[i] = w1 * w.mu[i] + w2 * z;
    w.dv[i] = (z - w.mu[i]) * idt * idt;
  }
  third(w, s, w.E3);
  if (!M.potentials.empty()) potentials_third(w, w.q, s, w.E3);
  bool inputs = !M.forces.empty();
  if (inputs) {
    double* m = w.g;
    for (int i = 0; i < nq; ++i) m[i] = i < nd ? o.plus * zp[i] + o.minus * w.mu[i] : 0;
    forces_second(w, w.q, w.v, m, s, idt, w.E3);
  }
  double* rows = w.rhs;  // D2h_c(q_k) mu
  if (nc) {
    constraint_third(w, w.x, w.start, w.lam, -1.0, w.mu, w.E3.h11, rows);
    constraint_hessian(w, w.y, w.end, w.nu, 1.0, w.E3.h22, nq, nq);
  }
  int c0 = first_reduced(w), cols = xc - c0, rho = nq + nd + nu;
  double *S = w.HS, *TW = w.TW, *Z = w.Z + c0;
  sparse_times(w, TW + c0, nq, ld, cols, w.E3.h22, nq, pattern(M), (const double*)Z, 1.0, S);
  sparse_times(w, S + c0, nq, ld, cols, w.E3.h12, nq, pattern_without_constraints(M), (const double*)Z, 1.0, S + size_t(nq) * ld);
  for (int c = 0; c < nc; ++c) {
    const Element& e = M.constraints[c];
    for (int t = 0; t < e.n; ++t) {
      int i = M.local_q[e.vars + t];
      axpy(S + size_t(i) * ld + c0, -rows[c * nq + i], w.Lw + size_t(c) * ld + c0, cols);
    }
  }
  for (int i = 0; i < nq; ++i)
    for (int t = M.lnbr_off[i] + M.lnbr_dyn[i]; t < M.lnbr_off[i + 1]; ++t) S[size_t(i) * ld + rho + M.lnbr[t] - nd] += w.E3.h12[i * nq + M.lnbr[t]];
  // K: the upper triangle of S from row nq on
  double* K = S + size_t(nq) * ld;
  product_upper(nw - nq, nd, w.Z + nq, ld, TW + nq, ld, K + nq, ld);
  add_transposed(K + rho, ld, TW + size_t(nd) * ld + nq, ld, rho - nq, nq - nd);  // prescribed rows of Wy
  for (int k = nd; k < nq; ++k) {
    double *h = S + size_t(rho + k - nd) * ld, *t = TW + size_t(k) * ld;
    for (int l = rho + k - nd; l < nw; ++l) h[l] += t[l] + TW[size_t(l - rho + nd) * ld + rho + k - nd] + w.E3.h22[k * nq + l - rho + nd];
  }
  if (inputs && nu) {
    // rows of u: Hu1^T Sq + Hu2^T Wy, and dt Huu
    for (int a = 0; a < nu; ++a) {
      double* t = w.tmp;
      int ra = nq + nd + a;
      for (int k = nq; k < nw; ++k) t[k] = 0;
      for (int i = 0; i < nq; ++i) {
        S[size_t(i) * ld + ra] += dt * w.Hu[i * nu + a];
        double x = dt * w.Hu[(nq + i) * nu + a];
        if (x == 0) continue;
        if (i < nd) axpy(t + nq, x, w.Z + size_t(i) * ld + nq, nw - nq);
        else t[rho + i - nd] += x;
      }
      for (int k = nq; k <= ra; ++k) S[size_t(k) * ld + ra] += t[k];
      for (int k = ra; k < nw; ++k) S[size_t(ra) * ld + k] += t[k];
      for (int b = a; b < nu; ++b) S[size_t(ra) * ld + nq + nd + b] += dt * dt * w.Huu[a * nu + b];
    }
  }
  // T = R^T K; V = (T/2 + G)^T by p_k; T + G in the rows of q_k; then V^T R and its transpose
  double* V = w.rhs;
  copy_symmetric(nw - nq, K + nq, ld, H + size_t(nq) * nw + nq, nw);
  copy_symmetric(nd, K + nq, ld, K + nq, ld);
  sparse_times(w, TW + c0, nq, ld, cols, w.Rt, padded(nd), pattern(M), (const double*)K + c0, 1.0, w.Pw);
  for (int i = 0; i < nq; ++i) {
    double *h = H + size_t(i) * nw, *g = S + size_t(i) * ld, *t = TW + size_t(i) * ld;
    for (int k = nq; k < nw; ++k) h[k] = g[k] + t[k];
    for (int k = nq; k < nq + nd; ++k) t[k] = g[k] + 0.5 * t[k];
  }
  take_transposed<false>(H + size_t(nq) * nw, nw, H + nq, nw, nw - nq, nq);
  take_transposed<false>(V, ld, TW + nq, ld, nd, nq);
  sparse_times(w, TW, nq, ld, padded(nq), w.Rt, padded(nd), pattern(M), (const double*)V, 1.0, w.Pw);
  fold_lower(nq, TW, ld);
  for (int i = 0; i < nq; ++i) {
    double* t = TW + size_t(i) * ld;
    t[i] *= 2;
    for (int k = i; k < nq; ++k) t[k] += w.E3.h11[i * nq + k];
  }
  copy_symmetric(nq, TW, ld, H, nw);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
