// Continuous forced, constrained Euler-Lagrange equations (Johnson, Murphey, Scalable variational integrators, eqs 28, 36):
//   d/dt L_v - L_q = F + Dh^T lambda,  h(q) = 0 differentiated twice; accelerations, multipliers and their exact derivatives.
#pragma once
#include "onestep.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// at w.q, w.v, w.u: gradient of L, forces, composites (bodies kept)
template <class T> void at_state(Work<T>& w) {
  poses(w, w.q, w.mid);
  gradient(w);
  subtract_potentials(w, w.q);
  generalized_force(w, w.q, w.v);
  composites(w, true);
}

// factored mass matrix of the dynamic variables (packed); after composites()
template <class T> MaskOf<T> mass_factor(Work<T>& w) {
  generators(w, Slots<T>{T(0.0), T(1.0), T(0.0), T(1.0)});
  assemble_packed(w);
  return factor(w);
}

// derivative of L_v along (w.dq, w.dv), into out (nq): one outward and one inward sweep
template <class T> void velocity_gradient_along(Work<T>& w, T* out) {
  const ModelData& M = *w.M;
  twists_along(w);
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    w.dH[n] = N.body == 0 ? zero6<T>() : crossf(w.eta[N.joint].t, w.hbody[n]) + mul(w.body[n], w.xi[N.joint].t);
  }
  for (int n = M.nn - 1; n >= 0; --n) if (M.nodes[n].parent >= 0) w.dH[M.nodes[n].parent] += w.dH[n];
  for (int i = 0; i < M.nq; ++i) out[i] = T(0.0);
  for (int j = 0; j < M.nm; ++j) {
    int n = M.joints[j].node;
    out[M.joints[j].q] = dot(crossm(w.eta[M.joints[j].parent].t, w.S[j]), w.H[n]) + dot(w.S[j], w.dH[n]);
  }
}

// acc (nq: dynamic part computed, kinematic part given), lam (nc). Returns usable pivots. X = M^-1 C^T stays in w.Z (stride nc + 1).
template <class T> MaskOf<T> acceleration(Work<T>& w, T* acc, T* lam) {
  const ModelData& M = *w.M;
  int nd = M.nd, nq = M.nq, nc = M.nc, ld = nc + 1;
  at_state(w);
  for (int i = 0; i < nq; ++i) { w.dq[i] = w.v[i]; w.dv[i] = i < nd ? T(0.0) : acc[i]; }
  velocity_gradient_along(w, w.tmp);
  for (int i = 0; i < nd; ++i) w.r[i] = w.Lq[i] + w.Fgen[i] - w.tmp[i];
  MaskOf<T> ok = mass_factor(w);
  T size;
  if (nc) {
    constraint_rows(w, w.q, w.mid, w.h, w.hscale, w.C1);
    // gamma = v D2h v + C_k acc_k
    for (int c = 0; c < nc; ++c) {
      const Element& e = M.constraints[c];
      const int* lq = M.local_q.data() + e.vars;
      constraint(w, e, w.q, w.mid, 2, (const T*)nullptr, &size);
      T g = T(0.0);
      for (int i = 0; i < e.n; ++i) {
        for (int k = 0; k < e.n; ++k) g += w.lh[i * e.n + k] * w.v[lq[i]] * w.v[lq[k]];
        if (lq[i] >= nd) g += w.lg[i] * acc[lq[i]];
      }
      lam[c] = -g;
    }
  }
  T* X = w.Z;
  for (int i = 0; i < nd; ++i) {
    for (int c = 0; c < nc; ++c) X[i * ld + c] = w.C1[c * nq + i];
    X[i * ld + nc] = w.r[i];
  }
  solve(w, X, ld, ld);
  if (nc) {
    for (int c = 0; c < nc; ++c) {
      T* s = w.S1 + c * nc;
      for (int k = 0; k < nc; ++k) s[k] = T(0.0);
      for (int i = 0; i < nd; ++i) {
        T a = w.C1[c * nq + i];
        for (int k = 0; k < nc; ++k) s[k] += a * X[i * ld + k];
        lam[c] -= a * X[i * ld + nc];
      }
    }
    schur_solve(w, w.S1, lam, 1, 1, false);
  }
  for (int i = 0; i < nd; ++i) {
    T t = X[i * ld + nc];
    for (int c = 0; c < nc; ++c) t += X[i * ld + c] * lam[c];
    acc[i] = t;
  }
  return ok;
}

// derivatives of acc (nd x ncol) and lam (nc x ncol) by (q, v, u, kinematic accelerations); acc and lam are computed too
template <class T> MaskOf<T> acceleration_first(Work<T>& w, T* acc, T* lam, T* dacc, T* dlam) {
  const ModelData& M = *w.M;
  int nd = M.nd, nq = M.nq, nc = M.nc, nu = M.nu, nk = M.nk, ncol = 2 * nq + nu + nk, ld = ncol + nc;
  MaskOf<T> ok = acceleration(w, acc, lam);
  Slots<T> s = {T(1.0), T(0.0), T(0.0), T(1.0)};
  generators(w, s, true);
  second(w, w.E);
  potentials_second(w, w.q, s, w.E);
  for (int i = 0; i < nq; ++i) { w.dq[i] = w.v[i]; w.dv[i] = acc[i]; }
  third(w, s, w.E3);  // kinetic and gravity part only: potentials do not depend on v
  force_jacobian(w, w.q, w.v);
  T* D = w.TW;
  for (int i = 0; i < nq * nq; ++i) D[i] = T(0.0);
  if (nc) constraint_hessian(w, w.q, w.mid, lam, T(1.0), D, nq, nq);
  mass_factor(w);
  for (int i = 0; i < nd; ++i) {
    T* z = w.Z + size_t(i) * ld;
    for (int k = 0; k < nq; ++k) {
      z[k] = -(w.E3.h12[k * nq + i] - w.E.h11[i * nq + k] - w.Fq[i * nq + k] - D[i * nq + k]);
      z[nq + k] = -(w.E3.h22[i * nq + k] + w.E.h12[k * nq + i] - w.E.h12[i * nq + k] - w.Fv[i * nq + k]);
    }
    for (int k = 0; k < nu; ++k) z[2 * nq + k] = w.Fu[i * nu + k];
    for (int k = 0; k < nk; ++k) z[2 * nq + nu + k] = -w.E.h22[i * nq + nd + k];
    for (int c = 0; c < nc; ++c) z[ncol + c] = w.C1[c * nq + i];
  }
  solve(w, w.Z, ld, ld);
  T size;
  for (int c = 0; c < nc; ++c) {
    T* l = w.Lw + size_t(c) * ld;
    for (int k = 0; k < ld; ++k) l[k] = T(0.0);
    for (int i = 0; i < nd; ++i) axpy(l, w.C1[c * nq + i], w.Z + size_t(i) * ld, ld);
    for (int k = 0; k < nc; ++k) w.S1[c * nc + k] = l[ncol + k];
    const Element& e = M.constraints[c];
    const int* lq = M.local_q.data() + e.vars;
    for (int i = 0; i < e.n; ++i) w.lc[i] = w.v[lq[i]];
    constraint(w, e, w.q, w.mid, 3, w.lc, &size);
    for (int i = 0; i < e.n; ++i) {
      T kq = T(0.0), kv = T(0.0);
      for (int k = 0; k < e.n; ++k) {
        kq += w.lh[i * e.n + k] * acc[lq[k]] + w.lt[i * e.n + k] * w.lc[k];
        kv += w.lh[i * e.n + k] * w.lc[k];
      }
      l[lq[i]] += kq;
      l[nq + lq[i]] += T(2.0) * kv;
      if (lq[i] >= nd) l[2 * nq + nu + lq[i] - nd] += w.lg[i];
    }
    for (int k = 0; k < ncol; ++k) l[k] = -l[k];
  }
  if (nc) schur_solve(w, w.S1, w.Lw, ncol, ld, false);
  for (int c = 0; c < nc; ++c) for (int k = 0; k < ncol; ++k) dlam[c * ncol + k] = w.Lw[size_t(c) * ld + k];
  for (int i = 0; i < nd; ++i) {
    T* z = w.Z + size_t(i) * ld;
    for (int c = 0; c < nc; ++c) axpy(z, z[ncol + c], w.Lw + size_t(c) * ld, ncol);
    for (int k = 0; k < ncol; ++k) dacc[i * ncol + k] = z[k];
  }
  return ok;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
