// Continuous forced, constrained Euler-Lagrange equations (Johnson, Murphey, Scalable variational integrators, eqs 28,
// 36):
//   d/dt L_v - L_q = F + Dh^T lambda,  h(q) = 0 differentiated twice; accelerations, multipliers and their exact
//   derivatives.
#pragma once
#include "onestep.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// at w.kin.q, w.kin.v, w.step.u: gradient of L, forces, composites (bodies kept)
//
// reads kin.q, kin.v, step.u; writes kin.mid, twists, comp, first
template <class T> void at_state(Work<T>& w) {
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  subtract_potentials(w, w.kin.q);
  generalized_force(w, w.kin.q, w.kin.v);
  composites(w, true);
}

// factored mass matrix of the dynamic variables (packed); after composites()
//
// reads twists, comp; writes gen, newton
template <class T> MaskOf<T> mass_factor(Work<T>& w) {
  generators(w, Slots<T>{T(0.0), T(1.0), T(0.0), T(1.0)});
  assemble_packed(w);
  return factor(w);
}

// r (nd): momentum without that of the prescribed motion -> velocity along the constraints, without the mass matrix
// (docs/kernels.md 10); after composites(). False where this does not serve, and r is as it was.
//
// reads kin.q, v, mid, twists, comp; writes r, gen, newton, balls, loops, con.h, size, dlam; scratch: step.dy
inline bool velocity_by_joint(Work<double>& w, double* r) {
  const ModelData& M = *w.M;
  const bool chain = M.chain_solver && M.nc == 0;
  if (!chain && !M.loops.used) return false;
  generators_by_joint(w, Slots<double>{0, 1, 0, 1});
  for (int i = 0; i < M.nd; ++i) w.newton.diagonal[i] = 0;
  if (chain) {
    for (size_t b = 0; b < M.balls.size(); ++b) {  // a ball's own block: three hinges that carry the same
      if (M.balls[b].v >= M.nd) continue;
      const int j = M.dyn_joint[M.balls[b].v];
      Eight<double> P, Q;
      for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 3; ++k) {
          P.read(w.gen.P1j + 8 * (j + i));
          Q.read(w.gen.Q2j + 8 * (j + k));
          w.balls[b].N(i, k) = P.dot(Q);
        }
    }
    if (!chain_factor(w)) return false;
    chain_solve(w, r, 1);
    return true;
  }
  constraint_wrenches(w, w.kin.q, w.kin.mid, w.con.h, w.con.size, w.loops.start);
  std::memcpy(w.loops.end, w.loops.start, 18 * M.nc * sizeof(double));
  loop_twists(M, w.kin.mid, w.loops.S0);
  loop_twists(M, w.kin.mid, w.loops.S1);
  loop_generators(w);
  if (!factor_fronts(w)) return false;
  V6<double>* moved = w.loops.push;  // poses by the prescribed motion
  moved[0] = zero6<double>();
  for (int j : M.constraint_joints) {
    const int v = M.joints[j].v;
    moved[j + 1] = moved[M.joints[j].parent];
    if (v >= M.nd) moved[j + 1] += w.loops.S0[j] * w.kin.v[v];
  }
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const double* x = w.loops.start + 18 * c;
    double rate = 0;
    for (int s = 0; s < (e.site_c < 0 ? 2 : 3); ++s)
      rate += dot(V6<double>{three(x + 6 * s), three(x + 6 * s + 3)}, moved[pose_of_site(M, e, s)]);
    if (e.length_var >= 0) {
      const int at = e.vars + e.length_var;
      rate -= 2 * w.kin.q[M.local_q[at]] * w.kin.v[M.local_v[at]];
    }
    w.con.dlam[c] = -rate;
  }
  loop_solve<1>(w, r, w.con.dlam);
  return true;
}

// derivative of L_v along (w.along.dq, w.along.dv), into out (nv): one outward and one inward sweep
//
// reads along.dq, dv, twists, comp; writes out, along
template <class T> void velocity_gradient_along(Work<T>& w, T* out) {
  const ModelData& M = *w.M;
  twists_along(w);
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    w.along.dH[n] = N.body == 0 ? zero6<T>()
                                : crossf(w.along.eta[N.joint].t, w.comp.body_momentum[n]) +
                                      mul(w.comp.body[n], w.along.xi[N.joint].t);
  }
  for (int n = M.nn - 1; n >= 0; --n)
    if (M.nodes[n].parent >= 0) w.along.dH[M.nodes[n].parent] += w.along.dH[n];
  for (int i = 0; i < M.nv; ++i) out[i] = T(0.0);
  for (int j = 0; j < M.nm; ++j) {
    int n = M.joints[j].node;
    out[M.joints[j].v] = dot(crossm(w.along.eta[M.joints[j].parent].t, w.twists.S[j]), w.comp.H[n]) +
                         dot(w.twists.S[j], w.along.dH[n]);
  }
}

// acc (nv: dynamic part computed, kinematic part given), lam (nc). Returns usable pivots. X = M^-1 C^T stays in w.lin.Z
// (stride nc + 1).
//
// reads kin.q, kin.v, step.u; writes acc, lam, con, step.r, newton, lin.Z; scratch: along, lin.tmp, local
template <class T> MaskOf<T> acceleration(Work<T>& w, T* acc, T* lam) {
  const ModelData& M = *w.M;
  int nd = M.nd, nv = M.nv, nc = M.nc, ld = nc + 1;
  at_state(w);
  for (int i = 0; i < nv; ++i) {
    w.along.dq[i] = w.kin.v[i];
    w.along.dv[i] = i < nd ? T(0.0) : acc[i];
  }
  velocity_gradient_along(w, w.lin.tmp);
  for (int i = 0; i < nd; ++i) w.step.r[i] = w.first.Lq[i] + w.first.F[i] - w.lin.tmp[i];
  MaskOf<T> ok = mass_factor(w);
  T size;
  if (nc) {
    constraint_rows(w, w.kin.q, w.kin.mid, w.con.h, w.con.size, w.con.C1);
    if (M.nh < nc) velocity_directions(w, w.kin.q, w.kin.mid, w.con.C1);
    // gamma = v D2h v + C_k acc_k; of velocity constraints v a_q v + b_q v + a_k acc_k
    for (int c = 0; c < nc; ++c) {
      const Element& e = M.constraints[c];
      const int* lv = M.local_v.data() + e.vars;
      T g = T(0.0);
      if (c < M.nh) {
        constraint(w, e, w.kin.q, w.kin.mid, 2, (const T*)nullptr, &size);
      } else {
        as_velocity(e, [&](auto kind) { kind.value(w, e, nullptr, w.kin.q, w.kin.mid, 2); });
        for (int i = 0; i < e.n; ++i) g += w.local.a[i] * w.kin.v[lv[i]];
      }
      for (int i = 0; i < e.n; ++i) {
        for (int k = 0; k < e.n; ++k) g += w.local.hessian[i * e.n + k] * w.kin.v[lv[i]] * w.kin.v[lv[k]];
        if (lv[i] >= nd) g += w.local.gradient[i] * acc[lv[i]];
      }
      lam[c] = -g;
    }
  }
  T* X = w.lin.Z;
  for (int i = 0; i < nd; ++i) {
    for (int c = 0; c < nc; ++c) X[i * ld + c] = w.con.C1[c * nv + i];
    X[i * ld + nc] = w.step.r[i];
  }
  solve(w, X, ld, ld);
  if (nc) {
    for (int c = 0; c < nc; ++c) {
      T* s = w.con.schur + c * nc;
      for (int k = 0; k < nc; ++k) s[k] = T(0.0);
      for (int i = 0; i < nd; ++i) {
        T a = w.con.C1[c * nv + i];
        for (int k = 0; k < nc; ++k) s[k] += a * X[i * ld + k];
        lam[c] -= a * X[i * ld + nc];
      }
    }
    schur_solve(w, w.con.schur, lam, 1, 1, false);
  }
  for (int i = 0; i < nd; ++i) {
    T t = X[i * ld + nc];
    for (int c = 0; c < nc; ++c) t += X[i * ld + c] * lam[c];
    acc[i] = t;
  }
  return ok;
}

// derivatives of acc (nd x ncol) and lam (nc x ncol) by (q, v, u, kinematic accelerations); acc and lam are computed
// too. Not for models with velocity constraints (Python does not ask).
//
// reads kin.q, kin.v, step.u; writes dacc, dlam, and what acceleration() writes, lin; scratch: along, local
template <class T> MaskOf<T> acceleration_first(Work<T>& w, T* acc, T* lam, T* dacc, T* dlam) {
  const ModelData& M = *w.M;
  int nd = M.nd, nv = M.nv, nc = M.nc, nu = M.nu, nk = M.nk, ncol = 2 * nv + nu + nk, ld = ncol + nc;
  MaskOf<T> ok = acceleration(w, acc, lam);
  Slots<T> s = {T(1.0), T(0.0), T(0.0), T(1.0)};
  generators(w, s, true);
  second(w, w.lin.E);
  potentials_second(w, w.kin.q, s, w.lin.E);
  for (int i = 0; i < nv; ++i) {
    w.along.dq[i] = w.kin.v[i];
    w.along.dv[i] = acc[i];
  }
  third(w, s, w.lin.E3);  // kinetic and gravity part only: potentials do not depend on v
  force_jacobian(w, w.kin.q, w.kin.v);
  T* D = w.lin.T_;
  for (int i = 0; i < nv * nv; ++i) D[i] = T(0.0);
  if (nc) constraint_hessian(w, w.kin.q, w.kin.mid, lam, T(1.0), (const T*)nullptr, D, nv, nv);
  mass_factor(w);
  for (int i = 0; i < nd; ++i) {
    T* z = w.lin.Z + size_t(i) * ld;
    for (int k = 0; k < nv; ++k) {
      z[k] = -(w.lin.E3.h12[k * nv + i] - w.lin.E.h11[i * nv + k] - w.lin.Fq[i * nv + k] - D[i * nv + k]);
      z[nv + k] = -(w.lin.E3.h22[i * nv + k] + w.lin.E.h12[k * nv + i] - w.lin.E.h12[i * nv + k] -
                    w.lin.Fv[i * nv + k]);
    }
    for (int k = 0; k < nu; ++k) z[2 * nv + k] = w.lin.Fu[i * nu + k];
    for (int k = 0; k < nk; ++k) z[2 * nv + nu + k] = -w.lin.E.h22[i * nv + nd + k];
    for (int c = 0; c < nc; ++c) z[ncol + c] = w.con.C1[c * nv + i];
  }
  solve(w, w.lin.Z, ld, ld);
  T size;
  for (int c = 0; c < nc; ++c) {
    T* l = w.lin.L + size_t(c) * ld;
    for (int k = 0; k < ld; ++k) l[k] = T(0.0);
    for (int i = 0; i < nd; ++i) axpy(l, w.con.C1[c * nv + i], w.lin.Z + size_t(i) * ld, ld);
    for (int k = 0; k < nc; ++k) w.con.schur[c * nc + k] = l[ncol + k];
    const Element& e = M.constraints[c];
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < e.n; ++i) w.local.c[i] = w.kin.v[lv[i]];
    if (c >= M.nh) continue;
    constraint(w, e, w.kin.q, w.kin.mid, 3, w.local.c, &size);
    for (int i = 0; i < e.n; ++i) {
      T kq = T(0.0), kv = T(0.0);
      for (int k = 0; k < e.n; ++k) {
        kq += w.local.hessian[i * e.n + k] * acc[lv[k]] + w.local.third[i * e.n + k] * w.local.c[k];
        kv += w.local.hessian[i * e.n + k] * w.local.c[k];
      }
      l[lv[i]] += kq;
      l[nv + lv[i]] += T(2.0) * kv;
      if (lv[i] >= nd) l[2 * nv + nu + lv[i] - nd] += w.local.gradient[i];
    }
    for (int k = 0; k < ncol; ++k) l[k] = -l[k];
  }
  if (nc) schur_solve(w, w.con.schur, w.lin.L, ncol, ld, false);
  for (int c = 0; c < nc; ++c)
    for (int k = 0; k < ncol; ++k) dlam[c * ncol + k] = w.lin.L[size_t(c) * ld + k];
  for (int i = 0; i < nd; ++i) {
    T* z = w.lin.Z + size_t(i) * ld;
    for (int c = 0; c < nc; ++c) axpy(z, z[ncol + c], w.lin.L + size_t(c) * ld, ncol);
    for (int k = 0; k < ncol; ++k) dacc[i * ncol + k] = z[k];
  }
  return ok;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
