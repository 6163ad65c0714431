// Products of the derivatives of a step with one vector, without matrices (docs/kernels.md 11.1): A x + B u and A^T z,
// B^T z in O(n) for trees and for loops that are local, of models of hinges and sliders with constraints on positions.
// What second derivatives do to a vector follows from the generators by two sweeps, the rest are solves with the
// factors of the step.
#pragma once
#include "onestep.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

DAL_INLINE bool has_products(const ModelData& M) { return M.flat && M.nh == M.nc; }

// The Newton matrix of a solved step, factored, and generators joint after joint. fresh: what evaluate() leaves belongs
// to the step. Returns usable pivots.
//
// reads step, con; writes as evaluate() and newton_matrix()
inline bool prepare_products(Work<double>& w, const StepOptions& o, double dt, bool fresh) {
  if (!fresh) {
    if (w.M->loops.used) start_loops(w);
    w.step.floor = 0;
    evaluate(w, o, dt);
  }
  const bool ok = newton_matrix(w, o, dt);
  if (!w.M->chain_solver && !w.loops.on) generators_by_joint(w, slots<double>(o, dt));
  return ok;
}

// out1, out2 (nv) = E11 x + E12 y, E21 x + E22 y of the tree, E as in (6.1): sums of Q inward, of P outward
//
// reads gen.P1j .. Q2j, x, y; writes out1, out2; scratch: lin.sweep
template <bool FIRST, bool SECOND>
void tree_product(const Work<double>& w, const double* x, const double* y, double* out1, double* out2) {
  const ModelData& M = *w.M;
  double* sums = w.lin.sweep;  // by pose
  for (int i = 0; i < 8 * (M.nm + 1); ++i) sums[i] = 0;
  for (int i = 0; i < M.nv; ++i) {
    if (FIRST) out1[i] = 0;
    if (SECOND) out2[i] = 0;
  }
  const double *P1 = w.gen.P1j, *P2 = w.gen.P2j, *Q1 = w.gen.Q1j, *Q2 = w.gen.Q2j;
  Eight<double> f, a;
  for (int j = M.nm - 1; j >= 0; --j) {
    const int v = M.joints[j].v;
    double* up = sums + 8 * M.joints[j].parent;
    f.read(sums + 8 * (j + 1));
    f.add(x[v], Q1 + 8 * j);
    f.add(y[v], Q2 + 8 * j);
    if (FIRST) a.read(P1 + 8 * j), out1[v] = a.dot(f);
    if (SECOND) a.read(P2 + 8 * j), out2[v] = a.dot(f);
    f.add(1.0, up);
    f.write(up);
  }
  for (int l = 0; l < 8; ++l) sums[l] = 0;
  for (int j = 0; j < M.nm; ++j) {
    const int v = M.joints[j].v;
    f.read(sums + 8 * M.joints[j].parent);
    if (FIRST) a.read(Q1 + 8 * j), out1[v] += a.dot(f);
    if (SECOND) a.read(Q2 + 8 * j), out2[v] += a.dot(f);
    f.add(x[v], P1 + 8 * j);
    f.add(y[v], P2 + 8 * j);
    f.write(sums + 8 * (j + 1));
  }
}

// the same of the potentials, added: -a_i V_qq (a_1 x + a_2 y)
//
// reads kin, x, y; writes out1, out2; scratch: local
inline void potential_product(Work<double>& w, const Slots<double>& s, const double* x, const double* y, double* out1,
                              double* out2) {
  const ModelData& M = *w.M;
  for (const Element& e : M.potentials) {
    potential(w, e, w.kin.q, w.kin.mid, 2, (const double*)nullptr);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < e.n; ++i) {
      double t = 0;
      for (int k = 0; k < e.n; ++k) t += w.local.hessian[i * e.n + k] * (s.a1 * x[lv[k]] + s.a2 * y[lv[k]]);
      out1[lv[i]] -= s.a1 * t;
      out2[lv[i]] -= s.a2 * t;
    }
  }
}

// F (nd) = F_q (a_1 x + a_2 y) + F_v (b_1 x + b_2 y) + dt F_u du of the forces; du may be null
//
// reads kin, step.u, x, y, du; writes F; scratch: local
inline void force_change(Work<double>& w, const Slots<double>& s, double dt, const double* x, const double* y,
                         const double* du, double* F) {
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nd; ++i) F[i] = M.has_damping ? -M.damping[i] * (s.b1 * x[i] + s.b2 * y[i]) : 0.0;
  if (du)
    for (size_t i = 0; i < M.force_v.size(); ++i) F[M.force_v[i]] += dt * M.force_gear[i] * du[M.force_u[i]];
  LocalForce<double> lf;
  for (const Element& e : M.forces) {
    force(w, e, w.kin.q, w.kin.v, w.kin.mid, 1, lf);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < lf.rows; ++i) {
      if (lf.row_v[i] >= M.nd) continue;
      double t = 0;
      for (int k = 0; k < e.n; ++k)
        t += lf.fq[i * e.n + k] * (s.a1 * x[lv[k]] + s.a2 * y[lv[k]]) +
             lf.fv[i * e.n + k] * (s.b1 * x[lv[k]] + s.b2 * y[lv[k]]);
      for (int k = 0; du && k < lf.nin; ++k) t += dt * lf.fu[i * lf.nin + k] * du[lf.inputs[k]];
      F[lf.row_v[i]] += t;
    }
  }
}

// its transpose, added: out1, out2 (nv) by the slots, by_u (nu; may be null) F_u^T m, for m (nd)
//
// reads kin, step.u, m; writes out1, out2, by_u; scratch: local
inline void force_pull(Work<double>& w, const Slots<double>& s, const double* m, double* out1, double* out2,
                       double* by_u) {
  const ModelData& M = *w.M;
  if (M.has_damping)
    for (int i = 0; i < M.nd; ++i) {
      out1[i] -= s.b1 * M.damping[i] * m[i];
      out2[i] -= s.b2 * M.damping[i] * m[i];
    }
  if (by_u)
    for (size_t i = 0; i < M.force_v.size(); ++i) by_u[M.force_u[i]] += M.force_gear[i] * m[M.force_v[i]];
  LocalForce<double> lf;
  for (const Element& e : M.forces) {
    force(w, e, w.kin.q, w.kin.v, w.kin.mid, 1, lf);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < lf.rows; ++i) {
      if (lf.row_v[i] >= M.nd) continue;
      const double t = m[lf.row_v[i]];
      for (int k = 0; k < e.n; ++k) {
        const double q = lf.fq[i * e.n + k] * t, v = lf.fv[i * e.n + k] * t;
        out1[lv[k]] += s.a1 * q + s.b1 * v;
        out2[lv[k]] += s.a2 * q + s.b2 * v;
      }
      for (int k = 0; by_u && k < lf.nin; ++k) by_u[lf.inputs[k]] += lf.fu[i * lf.nin + k] * t;
    }
  }
}

// out (nv) = d(Dh(q_k)^T lambda) along x (nv), a symmetric matrix times x: by the change of twists and wrenches where
// constraints are wrenches, else by the matrix
//
// reads step.x, kin.start, con.lam, loops.S0; writes out; scratch: lin.sweep, lin.T_
inline void impulse_product(Work<double>& w, const double* x, double* out) {
  const ModelData& M = *w.M;
  const int nv = M.nv;
  for (int i = 0; i < nv; ++i) out[i] = 0;
  if (!w.loops.on) {
    double* D = w.lin.T_;
    for (int i = 0; i < nv * nv; ++i) D[i] = 0;
    impulse_slope(w, 1.0, D, nv, nv);
    gemv_t(nv, nv, 1.0, D, nv, x, 0.0, out);
    return;
  }
  const Poses<double>& P = w.kin.start;
  V6<double>*eta = reinterpret_cast<V6<double>*>(w.lin.sweep), *push = eta + M.nj + 1, *change = push + M.nj + 1;
  eta[0] = push[0] = change[0] = zero6<double>();
  for (int j : M.constraint_joints) {
    eta[j + 1] = eta[M.joints[j].parent] + w.loops.S0[j] * x[M.joints[j].v];
    push[j + 1] = change[j + 1] = zero6<double>();
  }
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const Site &sa = M.sites[e.site_a], &sb = M.sites[e.site_b];
    const double l = w.con.lam[c];
    auto moved = [&](const Site& s, const V3<double>& p) { return cross(eta[s.pose].w, p) + eta[s.pose].v; };
    const V3<double> pa = site_position(M, sa, P), pb = site_position(M, sb, P), d = pa - pb, da = moved(sa, pa),
                     db = moved(sb, pb);
    V3<double> n, dn;
    if (e.kind == ElementKind::Direction) {
      const Site& sc = M.sites[e.site_c];
      n = mul(site_rotation(M, sc, P), vec3<double>(e.par)) * l;
      dn = cross(eta[sc.pose].w, n);
      push[sc.pose].w += cross(n, d);
      change[sc.pose].w += cross(dn, d) + cross(n, da - db);
    } else {
      n = d * (2 * l);
      dn = (da - db) * (2 * l);
      if (e.length_var >= 0) {
        const int v = M.local_v[e.vars + e.length_var];
        out[v] -= 2 * l * x[v];
      }
    }
    push[sa.pose] += V6<double>{cross(pa, n), n};
    push[sb.pose] += V6<double>{cross(n, pb), zero3<double>() - n};
    change[sa.pose] += V6<double>{cross(da, n) + cross(pa, dn), dn};
    change[sb.pose] += V6<double>{cross(dn, pb) + cross(n, db), zero3<double>() - dn};
  }
  for (size_t i = M.constraint_joints.size(); i-- > 0;) {
    const int j = M.constraint_joints[i], up = M.joints[j].parent;
    const V6<double>& S = w.loops.S0[j];
    out[M.joints[j].v] += dot(crossm(eta[up], S), push[j + 1]) + dot(S, change[j + 1]);
    push[up] += push[j + 1];
    change[up] += change[j + 1];
  }
}

// g (nc) = Dh y for y (nv), Dh at q_k or at q_k+1 (end)
//
// reads loops.start, end, S0, S1, step.x, y, con.C0, C1, y; writes g; scratch: lin.sweep
inline void rows_times(Work<double>& w, bool end, const double* y, double* g) {
  const ModelData& M = *w.M;
  if (!w.loops.on) {
    const double* C = end ? w.con.C1 : w.con.C0;
    for (int c = 0; c < M.nc; ++c) {
      g[c] = 0;
      for (int k = 0; k < M.nv; ++k) g[c] += C[c * M.nv + k] * y[k];
    }
    return;
  }
  const double *q = end ? w.step.y : w.step.x, *wrench = end ? w.loops.end : w.loops.start;
  const V6<double>* S = end ? w.loops.S1 : w.loops.S0;
  V6<double>* eta = reinterpret_cast<V6<double>*>(w.lin.sweep);
  eta[0] = zero6<double>();
  for (int j : M.constraint_joints) eta[j + 1] = eta[M.joints[j].parent] + S[j] * y[M.joints[j].v];
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const double* x = wrench + 18 * c;
    g[c] = 0;
    for (int s = 0; s < (e.site_c < 0 ? 2 : 3); ++s)
      g[c] += dot(V6<double>{three(x + 6 * s), three(x + 6 * s + 3)}, eta[pose_of_site(M, e, s)]);
    if (e.length_var >= 0) {
      const int at = e.vars + e.length_var;
      g[c] -= 2 * q[M.local_q[at]] * y[M.local_v[at]];
    }
  }
}

// the transpose: out (nv) += factor Dh^T m
//
// reads as rows_times(), m; writes out; scratch: lin.sweep
inline void rows_pull(Work<double>& w, bool end, const double* m, double factor, double* out) {
  const ModelData& M = *w.M;
  if (!w.loops.on) {
    const double* C = end ? w.con.C1 : w.con.C0;
    for (int c = 0; c < M.nc; ++c)
      for (int k = 0; k < M.nv; ++k) out[k] += C[c * M.nv + k] * m[c] * factor;
    return;
  }
  const double *q = end ? w.step.y : w.step.x, *wrench = end ? w.loops.end : w.loops.start;
  const V6<double>* S = end ? w.loops.S1 : w.loops.S0;
  V6<double>* push = reinterpret_cast<V6<double>*>(w.lin.sweep);
  push[0] = zero6<double>();
  for (int j : M.constraint_joints) push[j + 1] = zero6<double>();
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const double *x = wrench + 18 * c, l = m[c] * factor;
    for (int s = 0; s < (e.site_c < 0 ? 2 : 3); ++s)
      push[pose_of_site(M, e, s)] += V6<double>{three(x + 6 * s), three(x + 6 * s + 3)} * l;
    if (e.length_var >= 0) {
      const int at = e.vars + e.length_var;
      out[M.local_v[at]] -= 2 * q[M.local_q[at]] * l;
    }
  }
  for (size_t i = M.constraint_joints.size(); i-- > 0;) {
    const int j = M.constraint_joints[i];
    out[M.joints[j].v] += dot(S[j], push[j + 1]);
    push[M.joints[j].parent] += push[j + 1];
  }
}

// Fronts lose digits that a long ladder cannot spare: what the solution of a product leaves open is solved for once
// more. N y - C0^T (dt l) = -dt r, C1 y = -h, with y (nv, prescribed entries zero) and l in step.dy, con.dlam.
//
// reads step.r, con.h, gen, newton, loops; writes step.r, dy, con.h, dlam; scratch: the vectors given (nv each)
inline void refine_direction(Work<double>& w, const StepOptions& o, double dt, double* x, double* y, double* one,
                             double* two, double* F) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nc = M.nc;
  double *l = w.lin.nu, *g = w.lin.tmp;
  for (int i = 0; i < M.nv; ++i) {
    x[i] = 0;
    y[i] = i < nd ? w.step.dy[i] : 0;
  }
  for (int c = 0; c < nc; ++c) l[c] = w.con.dlam[c];
  const Slots<double> s = slots<double>(o, dt);
  tree_product<true, false>(w, x, y, one, two);
  if (!M.potentials.empty()) potential_product(w, s, x, y, one, two);
  force_change(w, s, dt, x, y, nullptr, F);
  for (int i = 0; i < nd; ++i) one[i] = (one[i] + dt * o.minus * F[i]) / dt;
  rows_pull(w, false, l, -1.0, one);
  rows_times(w, true, y, g);
  for (int i = 0; i < nd; ++i) w.step.r[i] += one[i];
  for (int c = 0; c < nc; ++c) w.con.h[c] += g[c];
  direction_step(w, dt, false);
  for (int i = 0; i < nd; ++i) w.step.dy[i] += y[i];
  for (int c = 0; c < nc; ++c) w.con.dlam[c] += l[c];
}

// Change of (q_k+1, p_k+1, lambda) with the change dw of w = (q_k, p_k, u_k, rho_k+1): dy, dp (nd), dl (nc). After
// prepare_products().
//
// reads gen, newton, kin, con, loops, dw; writes dy, dp, dl, step.r, dy, con.h, dlam; scratch: lin.products, sweep, T_,
// local
inline void push_product(Work<double>& w, const StepOptions& o, double dt, const double* dw, double* dy, double* dp,
                         double* dl) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nu = M.nu, nc = M.nc;
  const Slots<double> s = slots<double>(o, dt);
  const double f = dt * o.minus, g = dt * o.plus, idt = 1 / dt;
  const double *x = dw, *b = dw + nv, *du = dw + nv + nd, *rho = du + nu;
  double *y = w.lin.products, *one = y + nv, *two = one + nv, *F = two + nv, *slope = F + nv;
  for (int i = 0; i < nv; ++i) y[i] = i < nd ? 0 : rho[i - nd];
  tree_product<true, false>(w, x, y, one, two);
  if (!M.potentials.empty()) {
    for (int i = 0; i < nv; ++i) two[i] = 0;
    potential_product(w, s, x, y, one, two);
  }
  force_change(w, s, dt, x, y, du, F);
  if (nc) impulse_product(w, x, slope);
  for (int i = 0; i < nd; ++i) w.step.r[i] = (one[i] + f * F[i]) * idt + b[i] - (nc ? slope[i] : 0.0);
  if (nc) rows_times(w, true, y, w.con.h);
  direction_step(w, dt, true);
  if (w.loops.on) {
    refine_direction(w, o, dt, F, slope, one, two, w.lin.g);
    for (int i = nd; i < nv; ++i) y[i] = rho[i - nd];
  }
  for (int i = 0; i < nd; ++i) dy[i] = y[i] = w.step.dy[i];
  for (int c = 0; c < nc; ++c) dl[c] = w.con.dlam[c];
  tree_product<false, true>(w, x, y, one, two);
  if (!M.potentials.empty()) potential_product(w, s, x, y, one, two);
  force_change(w, s, dt, x, y, du, F);
  for (int i = 0; i < nd; ++i) dp[i] = (two[i] + g * F[i]) * idt;
}

// Gradient (nw) of zq.q_k+1 + zp.p_k+1 + zl.lambda by w; zl may be null. Leaves the adjoint in lin.mu, lin.nu. After
// prepare_products().
//
// reads gen, newton, kin, con, loops, zq, zp, zl; writes out, lin.mu, nu; scratch: lin.products, g, sweep, T_, con.X,
// schur, local
inline void pull_product(Work<double>& w, const StepOptions& o, double dt, const double* zq, const double* zp,
                         const double* zl, double* out) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nu = M.nu, nc = M.nc;
  const Slots<double> s = slots<double>(o, dt);
  const double f = dt * o.minus, g = dt * o.plus, idt = 1 / dt;
  double *y = w.lin.products, *one = y + nv, *two = one + nv, *m = two + nv, *slope = m + nv, *mu = w.lin.mu,
         *nu_ = w.lin.nu, *b = w.lin.g, *by_u = out + nv + nd, *rho = by_u + nu;
  for (int i = 0; i < nv; ++i) {
    y[i] = i < nd ? zp[i] : 0;
    mu[i] = 0;
    m[i] = g * y[i];
  }
  // b = z_q + (D2D2Ld + D2F+)^T z_p
  tree_product<false, true>(w, mu, y, one, two);
  if (!M.potentials.empty()) potential_product(w, s, mu, y, one, two);
  force_pull(w, s, m, one, two, nullptr);
  for (int i = 0; i < nd; ++i) b[i] = zq[i] + two[i] * idt;
  // N^T (-mu/dt) = b + C1^T nu, C0 mu = zl
  if (nc && w.loops.on) {
    for (int c = 0; c < nc; ++c) nu_[c] = zl ? zl[c] * idt : 0.0;
    double *left = slope, *g0 = w.lin.tmp, *n0 = g0 + nc;  // refined once, as in refine_direction()
    for (int i = 0; i < nd; ++i) left[i] = b[i];
    for (int c = 0; c < nc; ++c) g0[c] = nu_[c];
    loop_solve_transposed(w, b, nu_);
    for (int i = 0; i < nd; ++i) {
      mu[i] = b[i];
      one[i] = f * b[i];
    }
    for (int i = 0; i < nv; ++i) y[i] = 0;
    tree_product<false, true>(w, mu, y, m, two);
    if (!M.potentials.empty()) potential_product(w, s, mu, y, m, two);
    force_pull(w, s, one, m, two, nullptr);
    rows_pull(w, true, nu_, 1.0, two);
    rows_times(w, false, mu, n0);
    for (int i = 0; i < nd; ++i) b[i] = left[i] - two[i];
    for (int c = 0; c < nc; ++c) {
      const double rest = g0[c] + n0[c];
      g0[c] = nu_[c];
      nu_[c] = rest;
    }
    loop_solve_transposed(w, b, nu_);
    for (int i = 0; i < nd; ++i) {
      b[i] += mu[i];
      y[i] = zp[i];
      m[i] = g * zp[i];
    }
    for (int c = 0; c < nc; ++c) nu_[c] = -(nu_[c] + g0[c]);
  } else {
    if (nc) {
      const int ld = row_stride(nc + 1);
      double* X = w.con.X;
      for (int i = 0; i < nd; ++i)
        for (int c = 0; c < nc; ++c) X[i * ld + c] = w.con.C0[c * nv + i];
      newton_solve(w, X, nc, ld);
      for (int c = 0; c < nc; ++c) {
        nu_[c] = zl ? -(zl[c] * idt) : 0.0;
        for (int i = 0; i < nd; ++i) nu_[c] -= X[i * ld + c] * b[i];
        double* row = w.con.schur + c * nc;
        for (int k = 0; k < nc; ++k) row[k] = 0;
        for (int i = 0; i < nd; ++i)
          if (const double t = w.con.C1[c * nv + i]; t != 0)
            for (int k = 0; k < nc; ++k) row[k] += t * X[i * ld + k];
      }
      schur_solve(w, w.con.schur, nu_, 1, 1, true);
      for (int c = 0; c < nc; ++c)
        for (int i = 0; i < nd; ++i) b[i] += w.con.C1[c * nv + i] * nu_[c];
    }
    if (M.chain_solver) chain_solve_transposed(w, b);
    else solve<double, true>(w, b, 1, 1);
  }
  for (int i = 0; i < nd; ++i) {
    mu[i] = -(dt * b[i]);
    m[i] += f * mu[i];
  }
  tree_product<true, true>(w, mu, y, one, two);
  if (!M.potentials.empty()) potential_product(w, s, mu, y, one, two);
  for (int k = 0; k < nu; ++k) by_u[k] = 0;
  force_pull(w, s, m, one, two, by_u);
  if (nc) impulse_product(w, mu, slope);
  for (int k = 0; k < nv; ++k) out[k] = one[k] * idt - (nc ? slope[k] : 0.0);
  for (int i = 0; i < nd; ++i) out[nv + i] = mu[i];
  for (int k = nd; k < nv; ++k) two[k] *= idt;
  if (nc && nv > nd) rows_pull(w, true, nu_, 1.0, two);
  for (int k = nd; k < nv; ++k) rho[k - nd] = two[k];
}

// The same of any model, by sweeps or by matrices, canonical momenta; false where a pivot is not usable.
inline bool gradient_of_step(Work<double>& w, const StepOptions& o, double dt, bool fresh, const double* zq,
                             const double* zp, const double* zl, double* out) {
  if (has_products(*w.M)) {
    const bool ok = prepare_products(w, o, dt, fresh);
    pull_product(w, o, dt, zq, zp, zl, out);
    return ok;
  }
  const bool ok = prepare(w, o, dt, fresh, false);
  adjoint(w, o, dt, zq, zp, zl, false);
  adjoint_gradient(w, o, dt, zp, out);
  return ok;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
