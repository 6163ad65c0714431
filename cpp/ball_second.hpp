// Second order of a step with balls (docs/kernels.md 13.6): third derivatives of Ld along (mu, z_p), and second ones of
// the forces contracted with it, from the first-order kernels run on duals. A dual step has its ends moved along a
// direction v, and charts that are centred there; with J its derivatives of components F_i (of D Ld, or of forces) by
// the ends,
//   D2F_i[k, v] = J'_ik - (J [v]x + [v]x^T J)_ik/2 - F.(e_i x (e_k x v) + e_k x (e_i x v))/12                  (13.6)
// on the balls of the same end. What is symmetric needs one direction, (mu, z_p) itself; forces need all.
#pragma once
#include "del.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// ends of the step of w, moved along (dx, dy) (nv, may be null), inputs along du; everything that forces need at its
// middle
//
// reads w.step, w.kin.reference; writes d.step, d.kin, d.balls but K
inline void dual_step(Work<Dual>& d, const Work<double>& w, const StepOptions& o, double dt, const double* dx,
                      const double* dy, int input) {
  const ModelData& M = *w.M;
  auto place = [&](Dual* to, const double* from, const double* by) {
    for_components(M, 0, M.nv, [&](int k, int i) { to[k] = Dual(from[k], by ? by[i] : 0); }, [&](int k, int i) {
      double turned[4] = {0, 0, 0, 0};
      const double half[4] = {0, by ? by[i] / 2 : 0, by ? by[i + 1] / 2 : 0, by ? by[i + 2] / 2 : 0};
      quaternion_product(from + k, half, turned);
      for (int c = 0; c < 4; ++c) to[k + c] = Dual(from[k + c], turned[c]);
    });
  };
  place(d.step.x, w.step.x, dx);
  place(d.step.y, w.step.y, dy);
  for (int i = 0; i < M.nu; ++i) d.step.u[i] = Dual(w.step.u[i], i == input);
  d.kin.reference = {Dual(w.kin.reference.x), Dual(w.kin.reference.y), Dual(w.kin.reference.z)};
  midpoint(d, o.alpha, Dual(dt));
  poses(d, d.kin.q, d.kin.mid);
}

// rows and columns of the balls of a matrix J (nv x nv, dual) along (row, column) (nv each): out += (J' - (J [v]x +
// [v]x^T J)/2) scale
inline void recentred(const ModelData& M, const Dual* J, const double* row, const double* column, double scale,
                      double* out) {
  const int nv = M.nv;
  for (int i = 0; i < nv * nv; ++i) out[i] += scale * J[i].d;
  for (const Ball& b : M.balls) {
    const V3<double> r = three(row + b.v) * (0.5 * scale), c = three(column + b.v) * (0.5 * scale);
    for (int k = 0; k < nv; ++k) {
      auto at = [&](int i, int j) { return J[i * nv + j].v; };
      const V3<double> x = cross(r, V3<double>{at(b.v, k), at(b.v + 1, k), at(b.v + 2, k)}),  // -[v]x^T = [v]x
          y = cross(V3<double>{at(k, b.v), at(k, b.v + 1), at(k, b.v + 2)}, c);               // row times [v]x
      out[b.v * nv + k] += x.x;
      out[(b.v + 1) * nv + k] += x.y;
      out[(b.v + 2) * nv + k] += x.z;
      out[k * nv + b.v] -= y.x;
      out[k * nv + b.v + 1] -= y.y;
      out[k * nv + b.v + 2] -= y.z;
    }
  }
}
// own blocks of the balls at one end: out += (2 (v.n) 1 - n v^T - v n^T)/12 with n (nv) the covector there
inline void add_bend(const ModelData& M, const double* n, const double* v, double* out) {
  for (const Ball& b : M.balls) {
    const double *p = n + b.v, *x = v + b.v, trace = 2 * (p[0] * x[0] + p[1] * x[1] + p[2] * x[2]);
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 3; ++k)
        out[(b.v + i) * M.nv + b.v + k] += ((i == k) * trace - p[i] * x[k] - x[i] * p[k]) / 12;
  }
}

// Third derivatives of Ld - lambda h(q_k) along (mu, zp), into w.lin.E3; rows (nc x nv) = D2h_c(q_k) mu.
//
// reads w.step, con, kin.reference; mu, zp (nv); writes w.lin.E3, rows, d
void ball_third(Work<double>& w, Work<Dual>& d, const StepOptions& o, double dt, const double* mu, const double* zp,
                double* rows) {
  const ModelData& M = *w.M;
  const int nv = M.nv;
  const Dual h = dt;
  dual_step(d, w, o, dt, mu, zp, -1);
  gradient(d);
  subtract_potentials(d, d.kin.q);
  for (int i = 0; i < M.nd; ++i) d.first.F[i] = Dual(0.0);
  composites(d, false);
  const Slots<Dual> s = slots<Dual>(o, h);
  generators(d, s);
  ball_generators(d, h, false, true, false);
  clear(M, d.lin.E);
  second(d, d.lin.E);
  ball_blocks_to_dense(d, d.lin.E);
  potentials_by_ends(d, d.kin.q, s, d.lin.E);
  double *n1 = w.lin.tmp, *n2 = n1 + nv;  // gradients at both ends
  for (int i = 0; i < nv; ++i) n1[i] = n2[i] = 0;
  for (size_t i = 0; i < M.balls.size(); ++i) {
    const int v = M.balls[i].v;
    const BallMap<Dual>& m = d.balls[i];
    const V3<Dual> b = three(d.first.Lv + v), a = chart_gradient(m.phi, three(d.first.Lq + v) * h, b),
                   x = m.A * a - m.D * b, y = transposed(m.A) * a + transposed(m.D) * b;
    put_three(n1 + v, V3<double>{x.x.v, x.y.v, x.z.v});
    put_three(n2 + v, V3<double>{y.x.v, y.y.v, y.z.v});
  }
  if (M.nc) {
    for (int c = 0; c < M.nc; ++c) d.con.lam[c] = Dual(w.con.lam[c]);
    start_constraints(d);
    constraint_hessian(d, d.step.x, d.kin.start, d.con.lam, -h, d.con.C0, d.lin.E.h11, nv, nv);
    for (int c = 0; c < M.nh; ++c) {
      for (int i = 0; i < nv; ++i) {
        rows[c * nv + i] = d.con.C0[c * nv + i].d;
        n1[i] -= w.con.lam[c] * w.con.C0[c * nv + i];
      }
      for (const Ball& b : M.balls) {
        const V3<double> turn = cross(three(w.con.C0 + c * nv + b.v), three(mu + b.v)) * 0.5;
        put_three(rows + c * nv + b.v, three(rows + c * nv + b.v) - turn);
      }
    }
  }
  clear(M, w.lin.E3);
  recentred(M, d.lin.E.h11, mu, mu, 1 / dt, w.lin.E3.h11);
  recentred(M, d.lin.E.h12, mu, zp, 1 / dt, w.lin.E3.h12);
  recentred(M, d.lin.E.h22, zp, zp, 1 / dt, w.lin.E3.h22);
  add_bend(M, n1, mu, w.lin.E3.h11);
  add_bend(M, n2, zp, w.lin.E3.h22);
}

// Second derivatives of nu.c - lambda.(a(q_k) mu) of the velocity constraints by the ends, added to w.lin.E3; rows (nc
// x nv): those of a_c(q_k) mu by q_k. One direction after the other, with (13.6): nu.c is a function of both ends,
// lambda a a covector at q_k.
//
// reads w.step, con, lin.mu, nu; writes d, w.lin.E3, rows; scratch: w.lin.T_, g, tmp
void velocity_second(Work<double>& w, Work<Dual>& d, const StepOptions& o, double dt, double* rows) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nc = M.nc;
  const double *mu = w.lin.mu, *nu = w.lin.nu;
  double *D = w.lin.T_, *weight = w.lin.g;  // nc <= nd
  for (int c = M.nh; c < nc; ++c) {
    for (int i = 0; i < nv * nv; ++i) D[i] = 0;
    for (int k = 0; k < nc; ++k) weight[k] = k == c;
    velocity_slopes(w, w.step.x, w.kin.start, weight, 1.0, w.con.C0, D, nv, nv);
    for (int k = 0; k < nv; ++k) {
      rows[c * nv + k] = 0;
      for (int i = 0; i < nv; ++i) rows[c * nv + k] += mu[i] * D[i * nv + k];
    }
  }
  double *v = w.lin.tmp, *hx = v + nv, *hy = hx + nv;
  Dual* J = d.lin.T_;
  for (int dir = 0; dir < 2 * nv; ++dir) {
    const bool at_x = dir < nv;
    const int k0 = dir % nv;
    bool seen = false;
    for (int c = M.nh; c < nc && !seen; ++c)
      for (int i = 0; i < M.constraints[c].n; ++i) seen = seen || M.local_v[M.constraints[c].vars + i] == k0;
    if (!seen) continue;
    for (int i = 0; i < nv; ++i) v[i] = i == k0;
    dual_step(d, w, o, dt, at_x ? v : nullptr, at_x ? nullptr : v, -1);
    velocity_rows(d, slots<Dual>(o, Dual(dt)));
    const Ball* ball = M.v_q[k0] < 0 ? &M.balls[-1 - M.v_q[k0]] : nullptr;  // the direction turns it
    const V3<double> e = ball ? three(v + ball->v) : zero3<double>();
    for (int k = 0; k < nv; ++k) {
      Dual x = Dual(0.0), y = Dual(0.0);
      for (int c = M.nh; c < nc; ++c) {
        x += Dual(nu[c]) * d.con.Cx[(c - M.nh) * nv + k];
        y += Dual(nu[c]) * d.con.C1[c * nv + k];
      }
      hx[k] = x.d, hy[k] = y.d;
      D[k] = at_x ? x.v : y.v;  // the covector at the end that moves
    }
    if (ball) {
      double* own = (at_x ? hx : hy) + ball->v;
      put_three(own, three(own) - cross(three(D + ball->v), e) * 0.5);
    }
    if (at_x) {
      constraint_poses(d, d.step.x, d.kin.start);
      velocity_directions(d, d.step.x, d.kin.start, d.con.C0);
      for (int c = 0; c < nc; ++c) d.con.lam[c] = Dual(w.con.lam[c]);
      for (int i = 0; i < nv * nv; ++i) J[i] = Dual(0.0);
      velocity_slopes(d, d.step.x, d.kin.start, d.con.lam, Dual(-1.0), d.con.C0, J, nv, nv);
      double* along = D;  // mu J at the point itself
      for (int k = 0; k < nv; ++k) {
        Dual t = Dual(0.0);
        for (int i = 0; i < nv; ++i) t += Dual(mu[i]) * J[i * nv + k];
        hx[k] += t.d;
        along[k] = t.v;
      }
      if (ball) {
        const int b = ball->v;
        const V3<double> X = three(mu + b), moved = cross(e, X) * 0.5;
        V3<double> p = zero3<double>();
        for (int c = M.nh; c < nc; ++c) p = p - three(w.con.C0 + c * nv + b) * w.con.lam[c];
        put_three(hx + b, three(hx + b) - cross(three(along + b), e) * 0.5 -
                              (p * dot(e, X) + e * dot(p, X) - X * (2 * dot(p, e))) * (1.0 / 12));
        for (int k = 0; k < nv; ++k)
          hx[k] -= moved.x * J[b * nv + k].v + moved.y * J[(b + 1) * nv + k].v + moved.z * J[(b + 2) * nv + k].v;
      }
      for (int k = 0; k < nv; ++k) w.lin.E3.h11[k * nv + k0] += hx[k];
    } else {
      for (int k = 0; k < nv; ++k) {
        w.lin.E3.h12[k * nv + k0] += hx[k];
        w.lin.E3.h22[k * nv + k0] += hy[k];
      }
    }
  }
}

// Second derivatives of mu.F- + zp.F+ by the ends, added to w.lin.E3, and with inputs, into w.lin.Hu, Huu (scaled as
// forces_second() does).
//
// reads w.step, kin.reference; writes d, w.lin.Hu, Huu; scratch: w.lin.g, tmp
void ball_forces_second(Work<double>& w, Work<Dual>& d, const StepOptions& o, double dt, const double* mu,
                        const double* zp) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nu = M.nu;
  const Dual h = dt, f = dt * o.minus;
  const double idt = 1 / dt;
  double *v = w.lin.tmp, *hx = v + nv, *hy = hx + nv, *other = hy + nv;  // other: zeros
  for (int dir = 0; dir < 2 * nv + nu; ++dir) {
    const bool at_x = dir < nv, input = dir >= 2 * nv;
    const int k0 = dir % nv;
    for (int i = 0; i < nv; ++i) v[i] = other[i] = 0;
    if (!input) v[k0] = 1;
    dual_step(d, w, o, dt, at_x ? v : nullptr, !at_x && !input ? v : nullptr, input ? dir - 2 * nv : -1);
    generalized_force(d, d.kin.q, d.kin.v);
    force_jacobian(d, d.kin.q, d.kin.v);
    for (size_t i = 0; i < M.balls.size(); ++i) {
      BallMap<Dual>& m = d.balls[i];
      const int b = M.balls[i].v;
      ball_slots(m);
      const V3<Dual> force = b < nd ? three(d.first.F + b) * h - body_torque(d, M.balls[i], h) : zero3<Dual>();
      ball_second(m, force, zero3<Dual>());
    }
    force_slots(d, slots<Dual>(o, h), h);
    // rows of the components contracted with (mu, zp): derivatives of the sum by x, by y, by the inputs
    auto contract = [&](const double* a, const double* b, Dual* by_x, Dual* by_y) {
      for (int k = 0; k < nv; ++k) by_x[k] = by_y[k] = Dual(0.0);
      for (int i = 0; i < nd; ++i)
        for (int k = 0; k < nv; ++k) {
          by_x[k] += f * (Dual(a[i]) * d.lin.Fx[i * nv + k] + Dual(b[i]) * d.lin.Gx[i * nv + k]);
          by_y[k] += f * (Dual(a[i]) * d.lin.Fy[i * nv + k] + Dual(b[i]) * d.lin.Gy[i * nv + k]);
        }
      for (size_t i = 0; i < M.balls.size(); ++i) {
        const BallMap<Dual>& m = d.balls[i];
        const int at = M.balls[i].v;
        for (int r = 0; r < 3; ++r)
          for (int k = 0; k < 3; ++k) {
            by_x[at + k] += h * (Dual(a[at + r]) * m.K11(r, k) + Dual(b[at + r]) * m.K12(k, r));
            by_y[at + k] += h * (Dual(a[at + r]) * m.K12(r, k) + Dual(b[at + r]) * m.K22(r, k));
          }
      }
    };
    Dual *by_x = d.lin.g, *by_y = d.lin.mu;
    contract(mu, zp, by_x, by_y);
    for (int k = 0; k < nv; ++k) {
      hx[k] = by_x[k].d;
      hy[k] = by_y[k].d;
    }
    if (input) {
      const int a = dir - 2 * nv;
      for (int k = 0; k < nv; ++k) {
        w.lin.Hu[k * nu + a] = hx[k] * idt * idt;
        w.lin.Hu[(nv + k) * nu + a] = hy[k] * idt * idt;
      }
      for (int b = 0; b < nu; ++b) {
        Dual t = Dual(0.0);
        for (int i = 0; i < nd; ++i) t += f * (Dual(mu[i]) * d.lin.Fu[i * nu + b] + Dual(zp[i]) * d.lin.Gu[i * nu + b]);
        w.lin.Huu[b * nu + a] = t.d * idt * idt;
      }
      continue;
    }
    if (M.v_q[k0] < 0) {  // a direction that turns a ball
      const int ball = -1 - M.v_q[k0], b = M.balls[ball].v;
      const BallMap<Dual>& m = d.balls[ball];
      const V3<double> e = three(v + b);
      double* own = at_x ? hx : hy;
      const Dual* r = at_x ? by_x : by_y;
      const V3<double> turn = cross(V3<double>{r[b].v, r[b + 1].v, r[b + 2].v}, e) * 0.5;  // -J [v]x/2
      put_three(own + b, three(own + b) - turn);
      // -[v]x^T J/2: components turned by v
      const V3<double> X = three((at_x ? mu : zp) + b);
      double* moved = other;
      put_three(moved + b, cross(e, X));
      double* none = w.lin.g;
      for (int i = 0; i < nv; ++i) none[i] = 0;
      Dual *tx = d.along.dq, *ty = d.along.dv;
      contract(at_x ? moved : none, at_x ? none : moved, tx, ty);
      for (int k = 0; k < nv; ++k) {
        hx[k] -= 0.5 * tx[k].v;
        hy[k] -= 0.5 * ty[k].v;
      }
      if (b < nd) {
        const V3<Dual> Q = three(d.first.F + b) * h, n = at_x ? m.A * Q : transposed(m.A) * Q;
        const V3<double> p = {n.x.v, n.y.v, n.z.v};
        const V3<double> bend = p * dot(e, X) + e * dot(p, X) - X * (2 * dot(p, e));
        put_three(own + b, three(own + b) - bend * (dt / 12));
      }
    }
    for (int k = 0; k < nv; ++k) {
      if (at_x) {
        w.lin.E3.h11[k * nv + k0] += hx[k] * idt;
      } else {
        w.lin.E3.h12[k * nv + k0] += hx[k] * idt;
        w.lin.E3.h22[k * nv + k0] += hy[k] * idt;
      }
    }
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
