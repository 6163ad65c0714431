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

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
