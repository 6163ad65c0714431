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

// Everything about the point (w.x, w.y, w.u, w.lam; C0, C1 included) that linearizations need; `fresh`: w.mid etc. already belong to it.
// second_order keeps per-body blocks. Returns a mask of lanes with usable pivots.
template <class T> MaskOf<T> prepare(Work<T>& w, const StepOptions& o, T dt, bool fresh, bool second_order) {
  Slots<T> s = slots<T>(o, dt);
  if (!fresh) residual(w, o, dt);
  w.use_packed = true;
  composites(w, second_order);
  generators(w, s);
  assemble_packed(w);
  elements_to_newton(w, w.q, w.v, s, dt * T(o.minus));
  MaskOf<T> ok = factor(w);
  w.use_packed = false;
  second(w, w.E);
  if (!w.M->potentials.empty()) potentials_second(w, w.q, s, w.E);
  force_jacobian(w, w.q, w.v);
  return ok;
}

// d(q_k+1)/dw into w.Z (nd x nw, row stride ld), dp/dw into w.Pw, dlambda/dw into w.Lw; X = N^-1 C0^T stays in the last nc columns of w.Z.
// with_dt: one more column after rho, the derivative by the time step. After prepare().
template <class T> void first_order(Work<T>& w, const StepOptions& o, T dt, bool with_dt) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nk = M.nk, nu = M.nu, nc = M.nc;
  int nw = w.nw + (with_dt ? 1 : 0), ld = nw + nc;
  Slots<T> s = slots<T>(o, dt);
  T f = dt * T(o.minus), g = dt * T(o.plus), w1 = T(1 - o.alpha), w2 = T(o.alpha);
  T* Z = w.Z;
  // curvature of the constraints at q_k, weighted by the multipliers
  T* D = w.TW;
  if (nc) {
    for (int i = 0; i < nq * nq; ++i) D[i] = T(0.0);
    constraint_hessian(w, w.x, w.start, w.lam, D);
  }
  // right-hand sides -dt R1_w, and C0^T
  for (int i = 0; i < nd; ++i) {
    T* z = Z + size_t(i) * ld;
    const T *e11 = w.E.h11 + i * nq, *e12 = w.E.h12 + i * nq, *fq = w.Fq + i * nq, *fv = w.Fv + i * nq;
    for (int k = 0; k < nq; ++k) z[k] = -(e11[k] + f * (s.a1 * fq[k] + s.b1 * fv[k]));
    if (nc) for (int k = 0; k < nq; ++k) z[k] += dt * D[i * nq + k];
    for (int k = nq; k < nw; ++k) z[k] = T(0.0);
    z[nq + i] = -dt;
    for (int k = 0; k < nu; ++k) z[nq + nd + k] = -(dt * f * w.Fu[i * nu + k]);
    for (int k = 0; k < nk; ++k) z[nq + nd + nu + k] = -(e12[nd + k] + f * (s.a2 * fq[nd + k] + s.b2 * fv[nd + k]));
    if (with_dt) {  // explicit dt plus v = (y - x)/dt: a direction with dq = 0, dv = -v/dt
      T t = dt * (w1 * w.Lq[i] + T(o.minus) * w.Fgen[i]);
      for (int k = 0; k < nq; ++k) {
        T a = e11[k] + f * (s.a1 * fq[k] + s.b1 * fv[k]), b = e12[k] + f * (s.a2 * fq[k] + s.b2 * fv[k]);
        t += (a * w2 - b * w1) * w.v[k];
      }
      z[nw - 1] = -t;
    }
    for (int c = 0; c < nc; ++c) z[nw + c] = w.C0[c * nq + i];
  }
  solve(w, Z, ld, ld);
  // multipliers: (C1 X) (dt Lam) = -(C1 Z + R2)
  if (nc) {
    for (int c = 0; c < nc; ++c) {
      T *l = w.Lw + size_t(c) * ld, *s1 = w.S1 + c * nc;
      for (int k = 0; k < ld; ++k) l[k] = T(0.0);
      const T* row = w.C1 + c * nq;
      const Element& e = M.constraints[c];
      int n = 0;
      for (int t = 0; t < e.n; ++t) {
        int i = M.local_q[e.vars + t];
        if (i < nd) { w.gc[n] = row[i]; w.gp[n++] = Z + size_t(i) * ld; }
      }
      gather(l, w.gc, w.gp, n, ld);
      for (int k = 0; k < nc; ++k) s1[k] = l[nw + k];
      for (int k = 0; k < nk; ++k) l[nq + nd + nu + k] += row[nd + k];
      for (int k = 0; k < nw; ++k) l[k] = -l[k];
    }
    schur_solve(w, w.S1, w.Lw, nw, ld, false);
    for (int i = 0; i < nd; ++i) {
      T* z = Z + size_t(i) * ld;
      for (int c = 0; c < nc; ++c) { w.gc[c] = z[nw + c]; w.gp[c] = w.Lw + size_t(c) * ld; }
      gather(z, w.gc, w.gp, nc, nw);
    }
    T idt = T(1.0) / dt;
    for (int c = 0; c < nc; ++c) for (int k = 0; k < nw; ++k) w.Lw[size_t(c) * ld + k] = w.Lw[size_t(c) * ld + k] * idt;
  }
  // momentum: dt dp = (E21 + dt D1F+) dq_k + (E22 + dt D2F+) dq_k+1 + dt D3F+ du
  T idt = T(1.0) / dt;
  for (int i = 0; i < nd; ++i) {
    T* p = w.Pw + size_t(i) * ld;
    const T *e22 = w.E.h22 + i * nq, *fq = w.Fq + i * nq, *fv = w.Fv + i * nq;
    for (int k = 0; k < nw; ++k) p[k] = T(0.0);
    int n = 0;
    for (int t = M.nbr_off[i]; t < M.nbr_off[i + 1]; ++t) {
      int k = M.nbr[t];
      T m2 = e22[k] + g * (s.a2 * fq[k] + s.b2 * fv[k]);
      if (k >= nd) { p[nq + nd + nu + k - nd] += m2; continue; }
      if constexpr (Traits<T>::width == 1) if (value_of(m2) == 0) continue;
      w.gc[n] = m2;
      w.gp[n++] = Z + size_t(k) * ld;
    }
    gather(p, w.gc, w.gp, n, nw);
    for (int k = 0; k < nq; ++k) p[k] += w.E.h12[k * nq + i] + g * (s.a1 * fq[k] + s.b1 * fv[k]);
    for (int k = 0; k < nu; ++k) p[nq + nd + k] += dt * g * w.Fu[i * nu + k];
    if (with_dt) {
      T t = dt * (w2 * w.Lq[i] + T(o.plus) * w.Fgen[i]);
      for (int k = 0; k < nq; ++k) {
        T a = w.E.h12[k * nq + i] + g * (s.a1 * fq[k] + s.b1 * fv[k]), b = e22[k] + g * (s.a2 * fq[k] + s.b2 * fv[k]);
        t += (a * w2 - b * w1) * w.v[k];
      }
      p[nw - 1] += t;
    }
    for (int k = 0; k < nw; ++k) p[k] = p[k] * idt;
  }
}

// Adjoint of the step: costates zq, zp (nd) and zl (nc, may be null) -> w.mu, w.nu; needs prepare(). X = N^-1 C0^T is solved for here when
// `X` is null, otherwise taken from there (row stride ld).
template <class T> void adjoint(Work<T>& w, const StepOptions& o, T dt, const T* zq, const T* zp, const T* zl, const T* X, int ld) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nc = M.nc;
  Slots<T> s = slots<T>(o, dt);
  T g = dt * T(o.plus), idt = T(1.0) / dt;
  // g = z_q + (D2D2Ld + D2F+)^T z_p
  for (int k = 0; k < nd; ++k) {
    T t = T(0.0);
    for (int a = M.nbr_off[k]; a < M.nbr_off[k + 1]; ++a) {
      int i = M.nbr[a];
      if (i < nd) t += (w.E.h22[i * nq + k] + g * (s.a2 * w.Fq[i * nq + k] + s.b2 * w.Fv[i * nq + k])) * zp[i];
    }
    w.g[k] = zq[k] + t * idt;
  }
  if (nc) {
    if (!X) {
      ld = nc;
      for (int i = 0; i < nd; ++i) for (int c = 0; c < nc; ++c) w.Z[i * nc + c] = w.C0[c * nq + i];
      solve(w, w.Z, nc, nc);
      for (int c = 0; c < nc; ++c)
        for (int k = 0; k < nc; ++k) {
          T t = T(0.0);
          for (int i = 0; i < nd; ++i) t += w.C1[c * nq + i] * w.Z[i * nc + k];
          w.S1[c * nc + k] = t;
        }
      X = w.Z;
    }
    for (int c = 0; c < nc; ++c) {
      T t = zl ? zl[c] * idt : T(0.0);
      for (int i = 0; i < nd; ++i) t += X[size_t(i) * ld + c] * w.g[i];
      w.nu[c] = -t;
    }
    schur_solve(w, w.S1, w.nu, 1, 1, true);
    for (int c = 0; c < nc; ++c) for (int i = 0; i < nd; ++i) w.g[i] += w.C1[c * nq + i] * w.nu[c];
  }
  for (int i = 0; i < nd; ++i) w.mu[i] = w.g[i];
  for (int i = nd; i < nq; ++i) w.mu[i] = T(0.0);
  solve<T, true>(w, w.mu, 1, 1);
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
    constraint_hessian(w, w.x, w.start, w.lam, D);
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

// Hessian (nw x nw) of z_q.q_k+1 + z_p.p_k+1 + z_l.lambda as functions of w (12.1). After prepare(second_order) and first_order(without dt).
inline void second_contracted(Work<double>& w, const StepOptions& o, double dt, const double* zq, const double* zp, const double* zl, double* H, double* gemm_work) {
  const ModelData& M = *w.M;
  int nq = M.nq, nd = M.nd, nu = M.nu, nc = M.nc, nw = w.nw, ld = nw + nc;
  Slots<double> s = slots<double>(o, dt);
  adjoint(w, o, dt, zq, zp, zl, nc ? w.Z + nw : nullptr, ld);
  // T_ij = third derivative of Ld along (dx, dy) = (mu, z_p)
  double w1 = 1 - o.alpha, w2 = o.alpha, idt = 1 / dt;
  for (int i = 0; i < nq; ++i) {
    double z = i < nd ? zp[i] : 0;
    w.dq[i] = w1 * w.mu[i] + w2 * z;
    w.dv[i] = (z - w.mu[i]) * idt;
  }
  third(w, s, w.E3);
  if (!M.potentials.empty()) potentials_third(w, w.q, s, w.E3);
  bool inputs = !M.forces.empty();
  if (inputs) {
    double* m = w.g;
    for (int i = 0; i < nq; ++i) m[i] = i < nd ? o.plus * zp[i] + o.minus * w.mu[i] : 0;
    forces_second(w, w.q, w.v, m, s, 1.0, w.E3);
  }
  for (int i = 0; i < nq * nq; ++i) { w.E3.h11[i] *= idt; w.E3.h12[i] *= idt; w.E3.h22[i] *= idt; }
  double* rows = w.rhs;  // D2h_c(q_k) mu
  if (nc) {
    double* neg = w.dense;
    for (int c = 0; c < nc; ++c) neg[c] = -w.lam[c];
    constraint_third(w, w.x, w.start, neg, w.mu, w.E3.h11, rows);
    constraint_hessian(w, w.y, w.end, w.nu, w.E3.h22);
  }
  // Wy = d q_k+1 / dw: Z on dynamic rows, unit rows on the prescribed ones. Product T22 Wy row by row.
  int rho = nq + nd + nu;
  auto times_wy = [&](const double* A, double* out, bool kinematic) {
    for (int i = 0; i < nq; ++i) {
      double* t = out + size_t(i) * nw;
      for (int k = 0; k < nw; ++k) t[k] = 0;
      int n = 0;
      for (int a = M.nbr_off[i]; a < M.nbr_off[i + 1]; ++a) {
        int k = M.nbr[a];
        double x = A[i * nq + k];
        if (x == 0) continue;
        if (k < nd) { w.gc[n] = x; w.gp[n++] = w.Z + size_t(k) * ld; }
        else if (kinematic) t[rho + k - nd] += x;
      }
      gather(t, w.gc, w.gp, n, nw);
    }
  };
  // H = Wy^T T22 Wy: the dynamic block by one symmetric product, rows and columns of rho directly
  times_wy(w.E3.h22, w.TW, false);
  gemm(nw, nw, nd, 1.0, w.Z, 1, ld, w.TW, nw, 1, 0.0, H, nw, gemm_work, Part::lower);
  // from here on only entries (i, k) with k <= i; mirrored at the end. Column order of w: q, p, u, rho.
  for (int k = nd; k < nq; ++k) {
    const double* t = w.TW + size_t(k) * nw;
    int r = rho + k - nd;
    double* h = H + size_t(r) * nw;
    for (int i = 0; i <= r; ++i) h[i] += t[i];
    for (int l = r; l < nw; ++l) H[size_t(l) * nw + r] += t[l];
    for (int l = nd; l <= k; ++l) h[rho + l - nd] += w.E3.h22[k * nq + l];
  }
  // rows of q_k: R = T12 Wy - (D2h mu) Lam, once and transposed
  times_wy(w.E3.h12, w.Wy, true);
  for (int i = 0; i < nq; ++i) {
    int n = 0;
    for (int c = 0; c < nc; ++c)
      if (rows[c * nq + i] != 0) { w.gc[n] = -rows[c * nq + i]; w.gp[n++] = w.Lw + size_t(c) * ld; }
    gather(w.Wy + size_t(i) * nw, w.gc, w.gp, n, nw);
  }
  for (int i = 0; i < nq; ++i) {
    double* h = H + size_t(i) * nw;
    const double *r = w.Wy + size_t(i) * nw, *e = w.E3.h11 + size_t(i) * nq;
    for (int k = 0; k <= i; ++k) h[k] += r[k] + w.Wy[size_t(k) * nw + i] + e[k];
  }
  for (int i = nq; i < nw; ++i) {
    double* h = H + size_t(i) * nw;
    for (int k = 0; k < nq; ++k) h[k] += w.Wy[size_t(k) * nw + i];
  }
  if (inputs && nu) {
    // rows of u: Hu1^T Sq + Hu2^T Wy, and dt Huu
    for (int a = 0; a < nu; ++a) {
      double* t = w.tmp;
      for (int k = 0; k < nw; ++k) t[k] = 0;
      for (int i = 0; i < nq; ++i) {
        t[i] += w.Hu[i * nu + a];
        double x = w.Hu[(nq + i) * nu + a];
        if (x == 0) continue;
        if (i < nd) axpy(t, x, w.Z + size_t(i) * ld, nw);
        else t[rho + i - nd] += x;
      }
      int ra = nq + nd + a;
      for (int k = 0; k <= ra; ++k) H[size_t(ra) * nw + k] += t[k];
      for (int k = ra; k < nw; ++k) H[size_t(k) * nw + ra] += t[k];
      for (int b = 0; b <= a; ++b) H[size_t(ra) * nw + nq + nd + b] += dt * w.Huu[a * nu + b];
    }
  }
  mirror_lower(nw, H, nw);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
