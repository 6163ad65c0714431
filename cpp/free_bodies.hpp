// Bodies that nothing ties to each other, each turning about a fixed point or floating, under gravity and forces of
// inputs: a guess that is the solution. What the slides of a floating body do is linear in where they end: they take an
// impulse that is constant in the world, drop out of (13.2), and leave three equations for phi (docs/kernels.md 13).
// The step evaluates that guess as it does any other. Where no phi is found on the branch of short steps, the guess
// stays as it was.
#pragma once
#include "rotation.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// dt times what inputs do to the components v, v + 1, v + 2
DAL_INLINE V3<double> impulse_of_inputs(const Work<double>& w, int v, double dt) {
  const ModelData& M = *w.M;
  double f[3] = {0, 0, 0};
  for (size_t i = 0; i < M.force_v.size(); ++i)
    if (unsigned(M.force_v[i] - v) < 3) f[M.force_v[i] - v] += dt * M.force_gear[i] * w.step.u[M.force_u[i]];
  return three(f);
}

// One body in a step: r(phi) = p + A a - D l = 0 with l = L_w = J phi/dt + c x b and a = dt L_psi + torque = (phi x c)
// x b + dt C x g + torque
struct FreeTurn {
  Mat3<double> J;         // inertia about the centre of mass of a body that floats, about the point that others turn at
  V3<double> c, C;        // centre of mass (0 where a body does not float), first moment
  V3<double> p, torque;   // momentum, impulse of inputs along body axes
  V3<double> b0, g0;      // impulse of the mass and gravity along body axes at the start; b, g: at the middle
  bool offset;            // C is not zero
  V3<double> inverse[3];  // of dr/dy, by columns

  // one iteration of Newton's method, fresh: with a new matrix; how far it went, or -1 where this is not the branch of
  // short steps
  DAL_INLINE double improve(BallMap<double>& m, double dt, bool fresh) {
    const double s = dot(m.phi, m.phi);
    if (!(s < 4.0)) return -1;
    double half = 0.5 * sqrt_(s), sine = 0, cosine = 1;
    if (!(s < 1.0)) sincos_array(&half, &sine, &cosine, 1);
    m.by = turn_factors(s, cosine, sine * sine);
    m.A = (identity3<double>() + cross_matrix(m.phi * m.by.t)) * 0.5;
    m.D = inverse_jacobian(m.phi, s, m.by.c);
    V3<double> a = torque, l = J * m.phi * (1 / dt), b, g, e;
    if (offset) {
      b = half_turned_back(m, b0), g = half_turned_back(m, g0), e = cross(m.phi, c);
      l += cross(c, b);
      a += cross(e, b) + cross(C, g) * dt;
    }
    const V3<double> r = p + m.A * a - m.D * l;
    if (fresh) {
      Mat3<double> dl = J * m.D * (1 / dt), N = (slope_of_A(m, a, 1.0) - slope_of_D(m, l, 1.0)) * m.D;
      if (offset) {
        const Mat3<double> cx = cross_matrix(c), bx = cross_matrix(b), bA = bx * m.A;
        N = N + m.A * (bx * (cx * m.D) + cross_matrix(e) * bA + cross_matrix(C * dt) * (cross_matrix(g) * m.A));
        dl = dl + cx * bA;
      }
      N = N - m.D * dl;
      const V3<double> x = three(N.m), y = three(N.m + 3), z = three(N.m + 6), yz = cross(y, z);
      const double det = dot(x, yz);
      if (!(det * dt < 0)) return -1;
      inverse[0] = yz * (1 / det);
      inverse[1] = cross(z, x) * (1 / det);
      inverse[2] = cross(x, y) * (1 / det);
    }
    const V3<double> move = -(inverse[0] * r.x + inverse[1] * r.y + inverse[2] * r.z);
    m.phi += m.D * move;
    return sqrt_(dot(move, move));
  }
};

// One body from its guess; returns the number of iterations, 0 where they do not end.
//
// reads step.x, p, u; reads and writes step.y
inline int solve_free_body(Work<double>& w, const FreeBody& f, double dt) {
  const ModelData& M = *w.M;
  const Ball& ball = M.balls[f.ball];
  const Joint& joint = M.joints[ball.joint];
  const Node& n = M.nodes[joint.node];
  const double *x = w.step.x + ball.q, back[4] = {x[0], -x[1], -x[2], -x[3]};
  double* y = w.step.y + ball.q;
  V3<double> g = {M.Rg[2] * M.gz, M.Rg[5] * M.gz, M.Rg[8] * M.gz}, b = zero3<double>();  // axes of the parent
  if (joint.turned) g = tmul(mul_const(M3<double>{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, joint.R0), g);
  FreeTurn t;
  t.C = vec3<double>(n.c);
  t.offset = dot(t.C, t.C) > 0;
  t.J = {{n.I[0], n.I[3], n.I[4], n.I[3], n.I[1], n.I[5], n.I[4], n.I[5], n.I[2]}};
  t.p = three(w.step.p + ball.v);
  t.torque = impulse_of_inputs(w, ball.v, dt);
  t.c = zero3<double>();
  if (f.slide >= 0) {
    b = three(w.step.p + f.slide) + (g * (n.m * dt) + impulse_of_inputs(w, f.slide, dt)) * 0.5;
    t.c = t.C * (1 / n.m);
    t.J = t.J + cross_matrix(t.C) * cross_matrix(t.c);
  }
  if (t.offset) {
    t.b0 = turned(back, b);
    t.g0 = turned(back, g);
  }
  BallMap<double> m;
  turn_between(x, y, &m.phi.x);
  double before = 1e300;
  for (int i = 1; i <= 6; ++i) {
    const double moved = t.improve(m, dt, i < 3);
    if (!(moved >= 0 && moved < before)) return 0;
    before = moved;
    if (moved > 1e-8) continue;  // else the next one would be below rounding
    turn_by(x, &m.phi.x, y);
    if (f.slide < 0) return i;
    double middle[4];
    for (int c = 0; c < 4; ++c) middle[c] = x[c] + y[c];
    normalize(middle);
    const V3<double> way = b * (dt / n.m) - turned(middle, cross(m.phi, t.c));
    const int at = M.v_q[f.slide];
    put_three(w.step.y + at, three(w.step.x + at) + way);
    return i;
  }
  return 0;
}

// All of them; returns the largest number of iterations, 0 where not all were found: then the guess is as it was.
//
// reads step.x, p, u; reads and writes step.y; writes step.floor, y_kept
inline int solve_free_bodies(Work<double>& w, double dt) {
  const ModelData& M = *w.M;
  int most = 0;
  double size = 0;
  for (int i = 0; i < M.nqd; ++i) w.step.y_kept[i] = w.step.y[i];
  for (const FreeBody& f : M.free_bodies) {
    const int its = solve_free_body(w, f, dt);
    if (its == 0) {
      for (int i = 0; i < M.nqd; ++i) w.step.y[i] = w.step.y_kept[i];
      return 0;
    }
    if (its > most) most = its;
    const Node& n = M.nodes[M.joints[M.balls[f.ball].joint].node];
    for (int c = 0; c < 3; ++c) {
      size = larger(size, 2 * n.I[c]);
      if (f.slide >= 0) size = larger(size, n.m * (reach(M, w.step.x, f.slide + c) + reach(M, w.step.y, f.slide + c)));
    }
  }
  w.step.floor = size * (1.1e-16 / __builtin_fabs(dt));  // as set_floor()
  return most;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
