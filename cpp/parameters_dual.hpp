// Derivatives of the step by the numbers of the model (docs/kernels.md 20), after prepare() of a solved step. The
// equations of the step are r = p_k + D1 Ld + F- - C0' lambda = 0 and h(q_k+1) = 0, and p_k+1 = D2 Ld + F+; so with
// (mu, nu) of adjoint() the gradient of z_q.q_k+1 + z_p.p_k+1 + z_l.lambda by a number c of the model is
//
//   mu.r_c + nu.h_c + z_p.(p_k+1)_c = d/de [ dt L_c along (mu, z_p) ] + dt (delta.F)_c - lambda.(h_c(q_k) along mu) +
//   nu.h_c(q_k+1)
//
// The derivatives L_c and h_c by all numbers at once are simple sums: (momentum, gravity wrench) of what hangs on a
// joint for its base, quadratic forms of the velocity for the inertia of a body, own formulas for elements, wrenches on
// their sites. One evaluation with dual numbers, whose parts are along (mu, z_p), makes the mixed derivatives of them;
// its cost does not depend on how many numbers there are.
#pragma once
#include "parameters.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// true if every kind of element in the model knows its derivatives by numbers
inline bool knows_numbers(const ModelData& M) {
  bool ok = true;
  for (const Element& e : M.potentials)
    ok = ok && as_potential(e, [](auto kind) {
      return requires(Work<Dual>& w, const Element& e, const Dual* q, const Poses<Dual>& P, NumberSums<Dual>& g) {
        kind.by_numbers(w, e, q, P, *q, g);
      };
    });
  for (int c = 0; ok && c < M.nc; ++c) {
    auto knows = [](auto kind) {
      return requires(Work<Dual>& w, const Element& e, const Dual* q, const Poses<Dual>& P, NumberSums<Dual>& g) {
        kind.by_numbers(w, e, q, P, *q, g);
      };
    };
    ok = c < M.nh ? as_constraint(M.constraints[c], knows) : as_velocity(M.constraints[c], knows);
  }
  for (const Element& e : M.forces)
    ok = ok && as_force(e, [](auto kind) {
      return requires(Work<double>& w, const Work<Dual>& d, const Element& e, const double* x, NumberSums<Dual>& g) {
        kind.by_numbers(w, d, e, x, false, g);
      };
    });
  return ok;
}

// joint bases: the wrench on all that a joint carries, by a twist of its base on the parent; and the pitch of a screw
// that has turned by q. `extra`: a wrench on the whole subtree that is not in g.wrench.
template <class T>
DAL_INLINE void add_on_base(const Work<T>& w, NumberSums<T>& g, int j, const T* q, const Poses<T>& P,
                            const V6<T>& extra) {
  const ModelData& M = *w.M;
  const Joint& J = M.joints[j];
  const V6<T> W = g.wrench[j + 1] + extra;
  T* out = g.out + NumberLayout::kJoint * j;
  add_by_twist(out, P.R[parent_rot<T>(M, J)], P.p[J.parent], W);
  if (J.slot >= 0) out[6] += q[J.q] * dot(P.a[j + 1], W.v);
  g.wrench[J.parent] += g.wrench[j + 1];
}

template <class T> DAL_INLINE void clear_wrenches(const Work<T>& w, NumberSums<T>& g) {
  for (int i = 0; i <= w.M->nj; ++i) g.wrench[i] = zero6<T>();
}

// derivatives of L = T - V by all numbers, added to g.out; after gradient()
//
// reads kin, twists, comp; scratch: g.wrench
template <class T> void lagrangian_by_numbers(Work<T>& w, NumberSums<T>& g) {
  const ModelData& M = *w.M;
  const Poses<T>& P = w.kin.mid;
  const T half = T(0.5), gz = T(M.gz);
  const V3<T> up = {T(0.0), T(0.0), gz}, reference = mul(P.R[0], w.kin.reference);
  clear_wrenches(w, g);
  for (size_t i = 0; i < M.potentials.size(); ++i) {
    const Element& e = M.potentials[i];
    g.own = g.out + g.layout->element[0] + NumberLayout::kElement * int(i);
    as_potential(e, [&](auto kind) {
      if constexpr (requires { kind.by_numbers(w, e, w.kin.q, P, half, g); })
        kind.by_numbers(w, e, w.kin.q, P, T(-1.0), g);
    });
  }
  // inertias: T = m v.v/2 + c.(v x w) + w.I w/2 along the body's axes, and gravity
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    if (N.body == 0) continue;
    const M3<T>& R = P.R[M.joints[N.joint - 1].rot];
    const V6<T>& V = w.twists.V[N.joint];
    const V3<T>& p = P.p[N.joint];
    const V3<T> v = tmul(R, V.v + cross(V.w, p)), o = tmul(R, V.w), c = cross(v, o), down = tmul(R, up);
    T* out = g.out + g.layout->node + NumberLayout::kNode * n;
    out[0] += half * dot(v, v) + gz * (p.z + reference.z);
    out[1] += c.x + down.x;
    out[2] += c.y + down.y;
    out[3] += c.z + down.z;
    out[4] += half * o.x * o.x;
    out[5] += half * o.y * o.y;
    out[6] += half * o.z * o.z;
    out[7] += o.x * o.y;
    out[8] += o.x * o.z;
    out[9] += o.y * o.z;
  }
  // gravity: the first moment of all, in world axes
  V3<T> moment = zero3<T>();
  for (int n = 0; n < M.nn; ++n)
    if (M.nodes[n].parent < 0) moment += tmul(P.R[0], w.comp.c[n]) + w.kin.reference * T(M.nodes[n].mass);
  T* by_g = g.out + g.layout->gravity;
  by_g[0] += moment.x;
  by_g[1] += moment.y;
  by_g[2] += moment.z;
  // joint bases: (3.2), (5.1) of a joint that stands still
  for (int j = M.nj - 1; j >= 0; --j) {
    const Joint& J = M.joints[j];
    V6<T> on_bodies = zero6<T>();
    if (j < M.nm) {
      const Node& N = M.nodes[J.node];
      on_bodies = zero6<T>() - crossf(w.twists.V[J.parent], w.comp.H[J.node]);
      on_bodies += V6<T>{cross(w.comp.c[J.node], up), up * T(N.mass)};
      if (J.slot >= 0) g.out[NumberLayout::kJoint * j + 6] += w.kin.v[J.v] * dot(P.a[j + 1], w.comp.H[J.node].v);
    }
    add_on_base(w, g, j, w.kin.q, P, on_bodies);
  }
}

// sum over the constraints first .. last of weight(c) times the derivatives of h_c (in dual parts: of those on
// velocities a v) by all numbers at q, added to g.out; poses in P
template <class T, class F>
void constraints_by_numbers(Work<T>& w, int first, int last, const T* q, const Poses<T>& P, F weight,
                            NumberSums<T>& g) {
  const ModelData& M = *w.M;
  clear_wrenches(w, g);
  for (int c = first; c < last; ++c) {
    const Element& e = M.constraints[c];
    g.own = g.out + g.layout->element[2] + NumberLayout::kElement * c;
    const T f = weight(c);
    auto add = [&](auto kind) {
      if constexpr (requires { kind.by_numbers(w, e, q, P, f, g); }) kind.by_numbers(w, e, q, P, f, g);
    };
    if (c < M.nh) as_constraint(e, add);
    else as_velocity(e, add);
  }
  for (auto j = M.constraint_joints.rbegin(); j != M.constraint_joints.rend(); ++j)
    add_on_base(w, g, *j, q, P, zero6<T>());
}

// derivatives of delta.F by all numbers, at the middle of the step in w; the dual parts of g.out are their sum
//
// reads w.kin, step.u; writes d.kin; scratch: local, g.wrench
inline void forces_by_numbers(Work<double>& w, Work<Dual>& d, const double* delta, NumberSums<Dual>& g) {
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nd && M.has_damping; ++i) g.out[g.layout->damping + i] += Dual(0.0, -(w.kin.v[i] * delta[i]));
  for (size_t i = 0; i < M.force_v.size(); ++i)
    g.out[g.layout->gear + int(i)] += Dual(0.0, w.step.u[M.force_u[i]] * delta[M.force_v[i]]);
  if (M.forces.empty()) return;
  for (int pass = 0; pass < 2; ++pass) {  // along delta, along v
    const double* along = pass ? w.kin.v : delta;
    for (int i = 0; i < M.nv; ++i) d.step.moved[i] = Dual(0.0, along[i]);
    for (int i = 0; i < M.nq; ++i) d.kin.q[i] = Dual(w.kin.q[i]);
    integrate(M, d.kin.q, d.step.moved, d.kin.q, 0, M.nv);
    poses(d, d.kin.q, d.kin.mid);
    clear_wrenches(d, g);
    for (size_t i = 0; i < M.forces.size(); ++i) {
      const Element& e = M.forces[i];
      g.own = g.out + g.layout->element[1] + NumberLayout::kElement * int(i);
      as_force(e, [&](auto kind) {
        if constexpr (requires { kind.by_numbers(w, d, e, delta, pass == 1, g); })
          kind.by_numbers(w, d, e, delta, pass == 1, g);
      });
    }
    for (int j = M.nj - 1; j >= 0; --j) add_on_base(d, g, j, d.kin.q, d.kin.mid, zero6<Dual>());
  }
}

// dual numbers of a configuration that changes along a direction (nd)
inline void place_along(Work<Dual>& d, const double* q, const double* along, Dual* to) {
  const ModelData& M = *d.M;
  for (int i = 0; i < M.nv; ++i) d.step.moved[i] = Dual(0.0, i < M.nd ? along[i] : 0.0);
  for (int i = 0; i < M.nq; ++i) to[i] = Dual(q[i]);
  integrate(M, to, d.step.moved, to, 0, M.nd);
}
inline void start_sums(const Work<double>& w, ParameterScratch& s, const ParameterLinks& links) {
  s.g.layout = &links.layout;
  s.out.assign(links.layout.size, Dual(0.0));
  s.g.out = s.out.data();
  s.d.kin.reference = {Dual(w.kin.reference.x), Dual(w.kin.reference.y), Dual(w.kin.reference.z)};
}

// gradient of mu.r + z_p.p_k+1 by the parameters, added to out (links.count). After residual() of the step; mu, zp
// (nd).
//
// reads step, kin, con.lam, balls; writes s.d; scratch: s.g, local
void motion_by_parameters(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                          const ParameterLinks& links, const double* mu, const double* zp, double* out) {
  const ModelData& M = *w.M;
  Work<Dual>& d = s.d;
  start_sums(w, s, links);
  place_along(d, w.step.x, mu, d.step.x);
  place_along(d, w.step.y, zp, d.step.y);
  midpoint(d, o.alpha, Dual(dt));
  poses(d, d.kin.q, d.kin.mid);
  gradient(d);
  lagrangian_by_numbers(d, s.g);
  // forces work along the middle's change: minus mu + plus z_p, of balls A' mu + A z_p
  if (M.has_damping || !M.forces.empty() || !M.force_v.empty()) {
    double* delta = s.delta.data();
    for (int i = 0; i < M.nv; ++i) delta[i] = i < M.nd ? o.minus * mu[i] + o.plus * zp[i] : 0.0;
    for (size_t i = 0; i < M.balls.size(); ++i) {
      const int v = M.balls[i].v;
      const BallMap<double>& m = w.balls[i];
      if (v < M.nd) put_three(delta + v, transposed(m.A) * three(mu + v) + m.A * three(zp + v));
    }
    forces_by_numbers(w, d, delta, s.g);
  }
  links.add(s.g.out, out, [dt](const Dual& x) { return dt * x.d; });
  if (!M.nc) return;
  start_sums(w, s, links);
  constraint_poses(d, d.step.x, d.kin.start);
  constraints_by_numbers(d, 0, M.nc, d.step.x, d.kin.start, [&](int c) { return Dual(-w.con.lam[c]); }, s.g);
  links.add(s.g.out, out, [](const Dual& x) { return x.d; });
}

// gradient of nu.h(q_k+1), and of nu.dt (a v + b) in the middle, by the parameters, added to out; nu (nc)
void end_by_parameters(Work<double>& w, ParameterScratch& s, double dt, const ParameterLinks& links, const double* nu,
                       double* out) {
  const ModelData& M = *w.M;
  Work<Dual>& d = s.d;
  auto weight = [&](int c) { return Dual(nu[c]); };
  if (M.nh) {
    start_sums(w, s, links);
    place_along(d, w.step.y, s.zero.data(), d.step.y);
    constraint_poses(d, d.step.y, d.kin.end);
    constraints_by_numbers(d, 0, M.nh, d.step.y, d.kin.end, weight, s.g);
    links.add(s.g.out, out, [](const Dual& x) { return x.v; });
  }
  if (M.nh < M.nc && dt != 0) {
    start_sums(w, s, links);
    for (int i = 0; i < M.nv; ++i) d.step.moved[i] = Dual(0.0, w.kin.v[i]);
    for (int i = 0; i < M.nq; ++i) d.kin.q[i] = Dual(w.kin.q[i]);
    integrate(M, d.kin.q, d.step.moved, d.kin.q, 0, M.nv);
    constraint_poses(d, d.kin.q, d.kin.mid);
    constraints_by_numbers(d, M.nh, M.nc, d.kin.q, d.kin.mid, weight, s.g);
    links.add(s.g.out, out, [dt](const Dual& x) { return dt * x.d; });
  }
}

// Inertias and damping enter L_q, L_v and F of the joints above a body alone, and linearly: along the body's axes, with
// velocity v and w of its joint's origin and a twist s = (s_w, s_v) there, s.(dI V) is
//   m s_v.v + c.(v x s_w + s_v x w) + I:(s_w w'),
// L_v,i of S_i, L_q,i of B_i and with the weight, m s_v.g + c.(g x s_w) of S_i. So a body has a row of ten numbers for
// every joint above it, times the factors of its parameters. Columns r_c, (p_k+1)_c (nd, links.count) into s.R, s.P.
//
// reads kin, twists, balls; writes s.R, P
inline void bodies_by_parameters(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                                 const ParameterLinks& links) {
  const ModelData& M = *w.M;
  const Poses<double>& P = w.kin.mid;
  const int nd = M.nd, nv = M.nv, n = links.count;
  s.Lq.assign(size_t(nv) * n, 0.0);
  s.Lv.assign(size_t(nv) * n, 0.0);
  s.F.assign(size_t(nv) * n, 0.0);
  s.row.resize(2 * size_t(n) + 1);
  for (size_t i = 0; i < links.slot.size(); ++i) {
    const int k = links.slot[i] - links.layout.damping;
    if (k >= 0) s.F[size_t(k) * n + links.parameter[i]] -= links.factor[i] * w.kin.v[k];
  }
  for (const ParameterLinks::Body& body : links.bodies) {
    const Node& N = M.nodes[body.node];
    const M3<double>& R = P.R[M.joints[N.joint - 1].rot];
    const V3<double>& p = P.p[N.joint];
    const V6<double>& V = w.twists.V[N.joint];
    const V3<double> v = tmul(R, V.v + cross(V.w, p)), a = tmul(R, V.w),
                     g = V3<double>{R.c[0].z, R.c[1].z, R.c[2].z} * M.gz;
    const int m = int(body.parameter.size());
    double *to_v = s.row.data(), *to_q = to_v + m;
    auto momentum = [&](const V6<double>& twist, V3<double>& sw, V3<double>& sv, double* k) {
      sw = tmul(R, twist.w), sv = tmul(R, twist.v + cross(twist.w, p));
      k[0] = dot(sv, v);
      const V3<double> c = cross(v, sw) + cross(sv, a);
      k[1] = c.x, k[2] = c.y, k[3] = c.z;
      k[4] = sw.x * a.x, k[5] = sw.y * a.y, k[6] = sw.z * a.z;
      k[7] = sw.x * a.y + sw.y * a.x, k[8] = sw.x * a.z + sw.z * a.x, k[9] = sw.y * a.z + sw.z * a.y;
    };
    for (int k = M.path_offset[N.joint - 1]; k < M.path_offset[N.joint]; ++k) {
      const int j = M.path_joint[k], r = M.joints[j].v;
      double by_v[NumberLayout::kNode], by_q[NumberLayout::kNode];
      V3<double> sw, sv;
      momentum(w.twists.B[j], sw, sv, by_q);
      momentum(w.twists.S[j], sw, sv, by_v);
      const V3<double> weight = cross(g, sw);
      by_q[0] += dot(sv, g);
      by_q[1] += weight.x, by_q[2] += weight.y, by_q[3] += weight.z;
      for (int c = 0; c < 2 * m; ++c) to_v[c] = 0;
      for (int entry = 0; entry < NumberLayout::kNode; ++entry) {
        const double *f = body.factor.data() + entry * m, fv = by_v[entry], fq = by_q[entry];
        for (int c = 0; c < m; ++c) to_v[c] += fv * f[c];
        for (int c = 0; c < m; ++c) to_q[c] += fq * f[c];
      }
      for (int c = 0; c < m; ++c) {
        s.Lv[size_t(r) * n + body.parameter[c]] += to_v[c];
        s.Lq[size_t(r) * n + body.parameter[c]] += to_q[c];
      }
    }
  }
  const double w1 = dt * (1 - o.alpha), w2 = dt * o.alpha, fm = dt * o.minus, fp = dt * o.plus;
  for (int i = 0; i < nd * n; ++i) {
    s.R[i] = w1 * s.Lq[i] - s.Lv[i] + fm * s.F[i];
    s.P[i] = w2 * s.Lq[i] + s.Lv[i] + fp * s.F[i];
  }
  for (size_t b = 0; b < M.balls.size(); ++b) {
    const int v = M.balls[b].v;
    const BallMap<double>& m = w.balls[b];
    if (v >= nd) continue;
    for (int c = 0; c < n; ++c) {
      auto column = [&](const std::vector<double>& x) {
        return V3<double>{x[size_t(v) * n + c], x[size_t(v + 1) * n + c], x[size_t(v + 2) * n + c]};
      };
      auto put = [&](std::vector<double>& x, const V3<double>& y) {
        x[size_t(v) * n + c] = y.x;
        x[size_t(v + 1) * n + c] = y.y;
        x[size_t(v + 2) * n + c] = y.z;
      };
      const V3<double> Lv = column(s.Lv), push = chart_gradient(m.phi, (column(s.Lq) + column(s.F)) * dt, Lv);
      put(s.R, m.A * push - m.D * Lv);
      put(s.P, transposed(m.A) * push + transposed(m.D) * Lv);
    }
  }
}

// r_c, (p_k+1)_c (nd, links.count) and h_c (nc, links.count) into s.R, s.P, s.H
inline void columns_by_parameters(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                                  const ParameterLinks& links) {
  const ModelData& M = *w.M;
  const size_t n = links.count;
  s.R.assign(M.nd * n, 0.0);
  s.P.assign(M.nd * n, 0.0);
  s.H.assign(M.nc * n, 0.0);
  if (links.bodies_only) return bodies_by_parameters(w, s, o, dt, links);
  double* unit = s.unit.data();
  for (int i = 0; i < M.nd; ++i) {
    unit[i] = 1;
    motion_by_parameters(w, s, o, dt, links, unit, s.zero.data(), s.R.data() + i * n);
    motion_by_parameters(w, s, o, dt, links, s.zero.data(), unit, s.P.data() + i * n);
    unit[i] = 0;
  }
  for (int c = 0; c < M.nc; ++c) {
    unit[c] = 1;
    end_by_parameters(w, s, dt, links, unit, s.H.data() + c * n);
    unit[c] = 0;
  }
}

// Sensitivities of a solved step: S (2 nd, columns), derivatives of (q_k, p_k) by whatever the columns are, becomes
// that of (q_k+1, p_k+1); the first links.count columns are parameters. SL (nc, columns; may be null): of lambda. After
// prepare() and first_order() of all columns.
//
// reads lin.Z, P, L, E, Gy, con; writes S, SL; scratch: s
void sensitivity_of_part(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                         const ParameterLinks& links, int columns, double* S, double* SL) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nc = M.nc, n = links.count, ld = w.stride(), xc = w.x_column();
  columns_by_parameters(w, s, o, dt, links);
  // what stands beside p_k: its own change, and that of the equations
  double *Sq = S, *Sp = S + size_t(nd) * columns;
  for (int i = 0; i < nd; ++i)
    for (int c = 0; c < n; ++c) Sp[size_t(i) * columns + c] += s.R[size_t(i) * n + c];
  // multipliers that answer h_c: (C1 X) Lam = -h_c/dt, dy = dt X Lam
  if (nc && n) {
    for (double& x : s.H) x = -x / dt;
    schur_solve(w, w.con.schur, s.H.data(), n, n, false);
  }
  s.S.resize(size_t(2 * nd + nc) * columns);
  s.room.resize(gemm_workspace(std::max(nd, nc), columns, 2 * nd) + 8);
  double *Y = s.S.data(), *Yp = Y + size_t(nd) * columns, *YL = Yp + size_t(nd) * columns;
  auto times = [&](const double* A, int rows, double* out) {
    if (nv == nd) return gemm(rows, columns, 2 * nd, 1.0, A, ld, 1, S, columns, 1, 0.0, out, columns, s.room.data());
    gemm(rows, columns, nd, 1.0, A, ld, 1, Sq, columns, 1, 0.0, out, columns, s.room.data());
    gemm(rows, columns, nd, 1.0, A + nv, ld, 1, Sp, columns, 1, 1.0, out, columns, s.room.data());
  };
  times(w.lin.Z, nd, Y);
  times(w.lin.P, nd, Yp);
  if (SL && nc) times(w.lin.L, nc, YL);
  for (int i = 0; i < nd; ++i)
    for (int c = 0; c < n; ++c) Yp[size_t(i) * columns + c] += s.P[size_t(i) * n + c];
  for (int c = 0; c < n && nc; ++c) {
    for (int k = 0; k < nd; ++k) {
      double dy = 0;
      for (int l = 0; l < nc; ++l) dy += w.lin.Z[size_t(k) * ld + xc + l] * s.H[size_t(l) * n + c];
      s.delta[k] = dy;
      Y[size_t(k) * columns + c] += dt * dy;
    }
    for (int i = 0; i < nd; ++i) {
      double dp = 0;
      for (int k = 0; k < nd; ++k) dp += (w.lin.E.h22[i * nv + k] + dt * o.plus * w.lin.Gy[i * nv + k]) * s.delta[k];
      Yp[size_t(i) * columns + c] += dp;
    }
    if (SL)
      for (int l = 0; l < nc; ++l) YL[size_t(l) * columns + c] += s.H[size_t(l) * n + c];
  }
  for (int i = 0; i < 2 * nd * columns; ++i) S[i] = Y[i];
  for (int i = 0; SL && i < nc * columns; ++i) SL[i] = YL[i];
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
