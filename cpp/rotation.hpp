// Ball joints in a step (docs/kernels.md 13). A ball is three hinges about x, y, z, one after the other, whose angles f
// are measured from where the ball is evaluated: a chart with its centre there, so that every other kernel sees plain
// hinges at angle zero, whose velocities are the body's. What a step moves are its ends, R_k exp(x) and R_k+1 exp(y).
// This file has the map g from (x, y) to (f, dt f') at the middle of the geodesic, R_m = R_k exp(phi/2), f' = phi/dt:
//
//   exp(psi) = exp(-phi/2) exp(x) exp(phi'/2),  phi' = log(exp(-x) exp(phi) exp(y)),  f = chart(psi),  E(f) f' =
//   phi'/dt
//
// its first derivatives, and its second ones contracted with the derivatives of L: with them second derivatives of
// L(g(x, y)) follow by the chain rule. Ends are seen in the charts exp(x), exp(y): momenta are then canonical, and
// everything built on Ld (linearization, adjoints, composition) is as for plain coordinates. On the way out to_body()
// turns canonical momenta into components along body axes.
#pragma once
#include "configuration.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// ---- Functions of s = |phi|^2, and their derivatives by s. t = tan(|phi|/4)/|phi|, c = (1 - h cot h)/s, h = |phi|/2.
// coefficients of (1 - h cot h)/(4 h^2) in s = 4 h^2: |B_2k|/(2k)!, and of tan(x)/(4 x) in x^2 = s/16
constexpr double kCot[] = {1.0 / 12,
                           1.0 / 720,
                           1.0 / 30240,
                           1.0 / 1209600,
                           1.0 / 47900160,
                           691.0 / 1307674368000,
                           1.0 / 74724249600,
                           3617.0 / 10670622842880000,
                           8.5860620562778445641e-15,
                           2.1748686985580618731e-16,
                           5.5090028283602295153e-18};
constexpr double kTan[] = {1.0,
                           1.0 / 3,
                           2.0 / 15,
                           17.0 / 315,
                           62.0 / 2835,
                           1382.0 / 155925,
                           21844.0 / 6081075,
                           929569.0 / 638512875,
                           6404582.0 / 10854718875,
                           443861162.0 / 1856156927625.0,
                           9.6915379569294503256e-05,
                           3.9278323883316834053e-05};
template <int N> struct Slope {
  double k[N - 1];
};
template <int N> constexpr Slope<N> slope(const double (&k)[N]) {
  Slope<N> out{};
  for (int i = 1; i < N; ++i) out.k[i - 1] = i * k[i];
  return out;
}
constexpr auto kCotSlope = slope(kCot);
constexpr auto kTanSlope = slope(kTan);

// from s, the cosine of half the angle and the square of its sine
template <class T> DAL_INLINE TurnFactors<T> turn_factors(const T& s, const T& cosine, const T& sine2) {
  const T x = s * T(1.0 / 16);
  TurnFactors<T> f;
  auto series = [&](auto few) __attribute__((always_inline)) {
    constexpr int n = decltype(few)::value ? 6 : 0;
    f.t = T(0.25) * polynomial<n ? n : 12>(kTan, x);
    f.dt = T(1.0 / 64) * polynomial<n ? n : 11>(kTanSlope.k, x);
    f.c = polynomial<n ? n : 11>(kCot, s);
    f.dc = polynomial<n ? n : 10>(kCotSlope.k, s);
  };
  if (below(s, kTinyTurn)) {
    series(std::true_type());
    return f;
  }
  if (below(s, kSmallTurn)) {
    series(std::false_type());
    return f;
  }
  const auto small = lt(s, T(kSmallTurn));
  const T big = select(small, T(1.0), s), h2 = T(0.25) * big, h = sqrt_(h2), sine = sqrt_(select(small, T(1.0), sine2)),
          cot = cosine / sine, tan = sine / (T(1.0) + cosine);
  const T t = tan / (T(2.0) * h), c = (T(1.0) - h * cot) / big;
  const TurnFactors<T> closed = {t, ((T(1.0) + tan * tan) * T(0.25) - t) / (T(2.0) * big), c,
                                 // d/ds = 1/(8 h) d/dh
                                 ((h * (T(1.0) + cot * cot) - cot) / (T(8.0) * h) - c) / big};
  if constexpr (Traits<T>::width == 1) return closed;
  series(std::false_type());
  return {select(small, f.t, closed.t), select(small, f.dt, closed.dt), select(small, f.c, closed.c),
          select(small, f.dc, closed.dc)};
}

// D of (13.1), with s = |phi|^2: 1 + [phi]x/2 + c (phi phi^T - s 1)
template <class T> DAL_INLINE Mat3<T> inverse_jacobian(const V3<T>& phi, const T& s, const T& c) {
  const V3<T> a = phi * c, h = phi * T(0.5);
  const T d = T(1.0) - c * s, xy = a.x * phi.y, xz = a.x * phi.z, yz = a.y * phi.z;
  return {
      {d + a.x * phi.x, xy - h.z, xz + h.y, xy + h.z, d + a.y * phi.y, yz - h.x, xz - h.y, yz + h.x, d + a.z * phi.z}};
}
template <class T> DAL_INLINE Mat3<T> turn_slope(const V3<T>& phi) {
  const T s = dot(phi, phi), half = T(0.5) * sqrt_(s + T(1e-300));
  T sine, cosine;
  sincos_array(&half, &sine, &cosine, 1);
  return inverse_jacobian(phi, s, turn_factors(s, cosine, sine * sine).c);
}

// ---- One ball in a step
// Midpoint, velocity and first derivatives.
//
// reads step.x, y; writes kin.q, kin.v of the ball, and m but K
template <class T> DAL_APART void ball_midpoint(Work<T>& w, const Ball& b, const T& idt, BallMap<T>& m) {
  const T *x = w.step.x + b.q, *y = w.step.y + b.q, back[4] = {x[0], -x[1], -x[2], -x[3]};
  T d[4], *q = w.kin.q + b.q;
  quaternion_product(back, y, d);
  const T sign = select(lt(d[0], T(0.0)), T(-1.0), T(1.0));
  for (int i = 0; i < 4; ++i) {
    d[i] *= sign;
    q[i] = x[i] + sign * y[i];  // the middle of the geodesic
  }
  normalize(q);
  const T n2 = d[1] * d[1] + d[2] * d[2] + d[3] * d[3], f = turn_scale(d[0], n2);
  m.phi = {f * d[1], f * d[2], f * d[3]};
  put_three(w.kin.v + b.v, m.phi * idt);
  const T s = dot(m.phi, m.phi), h = T(0.5);
  m.by = turn_factors(s, d[0], n2);
  const V3<T> t = m.phi * (h * m.by.t);
  m.A = {{h, -t.z, t.y, t.z, h, -t.x, -t.y, t.x, h}};
  m.D = inverse_jacobian(m.phi, s, m.by.c);
}

// Midpoint and velocity of a step.
//
// reads step.x, y; writes kin.q (nq), kin.v (nv), balls but K
template <class T> DAL_INLINE void midpoint(Work<T>& w, double alpha, T dt) {
  const ModelData& M = *w.M;
  const T w1 = T(1 - alpha), w2 = T(alpha), idt = T(1.0) / dt;
  const T *x = w.step.x, *y = w.step.y;
  T *q = w.kin.q, *v = w.kin.v;
  for_components(M, 0, M.nv, [&](int k, int i) {
    q[k] = w1 * x[k] + w2 * y[k];
    v[i] = (y[k] - x[k]) * idt;
  }, [&](int, int i) {
    const int b = -1 - M.v_q[i];
    ball_midpoint(w, M.balls[b], idt, w.balls[b]);
  });
}

// Gamma: what a turn f of the chart does to f' = E(f)^-1 phi; its columns are dE/df_c phi
template <class T> DAL_INLINE Mat3<T> chart_drag(const V3<T>& phi) {
  const T z = T(0.0);
  return {{z, z, phi.y, z, z, -phi.x, z, phi.x, z}};
}

// reads m.A, D, phi; writes m.x1 .. y2
template <class T> DAL_INLINE void ball_slots(BallMap<T>& m) {
  const Mat3<T> G = chart_drag(m.phi), At = transposed(m.A), h = (transposed(m.D) + G * At) * T(0.5),
                k = (m.D - G * m.A) * T(0.5);
  m.x1 = At + h;
  m.x2 = At - h;
  m.y1 = m.A - k;
  m.y2 = m.A + k;
}

// a.d2f, with f the angles of the three hinges as functions of x in the chart exp(x), at 0:
// f = x - (x2 x3, -x1 x3, x1 x2)/2 + ...
template <class T> DAL_INLINE Mat3<T> chart_bend(const V3<T>& a) {
  const T z = T(0.0), h = T(0.5);
  return {{z, -(a.z * h), a.y * h, -(a.z * h), z, -(a.x * h), a.y * h, -(a.x * h), z}};
}

// leftmost derivative of s = L_f.f + L_f'.(dt f')/dt by the chart alone: dt L_psi
template <class T> DAL_INLINE V3<T> chart_gradient(const V3<T>& phi, const V3<T>& a, const V3<T>& b) {
  return {a.x, a.y - phi.x * b.z, a.z - (phi.y * b.x - phi.x * b.y)};
}

// exp(-phi/2) a, components along axes that have turned by phi/2
template <class T> DAL_INLINE V3<T> half_turned_back(const BallMap<T>& m, const V3<T>& a) {
  // a - 2 (h x a - h x (h x a))/(1 + h.h) with h = t phi, of length tan(|phi|/4)
  const V3<T> h = m.phi * m.by.t, y = cross(h, a);
  return a - (y - cross(h, y)) * (T(2.0) / (T(1.0) + dot(h, h)));
}
template <class T> DAL_INLINE V3<T> turned_back(const BallMap<T>& m, const V3<T>& a) {
  return half_turned_back(m, half_turned_back(m, a));
}

// d(A m)/dphi and d(D m)/dphi at phi, or with sign = -1 at -phi
template <class T> DAL_INLINE Mat3<T> slope_of_A(const BallMap<T>& b, const V3<T>& m, double sign) {
  const V3<T> p = b.phi * T(sign);
  return (outer(cross(p, m), p) * (T(2.0) * b.by.dt) - cross_matrix(m) * b.by.t) * T(0.5);
}
template <class T> DAL_INLINE Mat3<T> slope_of_D(const BallMap<T>& b, const V3<T>& m, double sign) {
  const V3<T> p = b.phi * T(sign);
  Mat3<T> r = outer(p, m) - outer(m, p) * T(2.0);
  const T pm = dot(p, m);
  for (int i = 0; i < 3; ++i) r(i, i) += pm;
  return r * b.by.c + outer(cross(p, cross(p, m)), p) * (T(2.0) * b.by.dc) - cross_matrix(m) * T(0.5);
}

// N: second derivatives of s by turns of the middle (component, outer turn); its first column is zero. M, of its
// gradient by phi, has b in three places.
template <class T> DAL_INLINE Mat3<T> chart_second(const V3<T>& phi, const V3<T>& a, const V3<T>& b) {
  const T z = T(0.0), yz = b.z * phi.y;
  return {{z, b.x * phi.y - b.y * phi.x - a.z, a.y - b.z * phi.x,  //
           z, b.x * phi.x, yz - a.x,                               //
           z, yz, -(b.x * phi.x + b.y * phi.y)}};
}
// a x B, column by column
template <class T> DAL_INLINE Mat3<T> crossed(const V3<T>& a, const Mat3<T>& B) {
  Mat3<T> r;
#pragma GCC unroll 3
  for (int k = 0; k < 3; ++k) {
    r(0, k) = a.y * B(2, k) - a.z * B(1, k);
    r(1, k) = a.z * B(0, k) - a.x * B(2, k);
    r(2, k) = a.x * B(1, k) - a.y * B(0, k);
  }
  return r;
}
// N B, M B and C M'B: what products with zeros leave
template <class T> DAL_INLINE Mat3<T> bent(const Mat3<T>& N, const Mat3<T>& B) {
  Mat3<T> r;
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i)
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k) r(i, k) = N(i, 1) * B(1, k) + N(i, 2) * B(2, k);
  return r;
}
template <class T> DAL_INLINE Mat3<T> dragged(const V3<T>& b, const Mat3<T>& B) {
  Mat3<T> r;
#pragma GCC unroll 3
  for (int k = 0; k < 3; ++k) {
    r(0, k) = T(0.0);
    r(1, k) = -(b.z * B(0, k));
    r(2, k) = b.y * B(0, k) - b.x * B(1, k);
  }
  return r;
}
template <class T> DAL_INLINE Mat3<T> dragged_back(const Mat3<T>& C, const V3<T>& b, const Mat3<T>& B) {
  Mat3<T> r;
#pragma GCC unroll 3
  for (int k = 0; k < 3; ++k) {
    const T x = b.y * B(2, k) - b.z * B(1, k), y = -(b.x * B(2, k));
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) r(i, k) = C(i, 0) * x + C(i, 1) * y;
  }
  return r;
}

// What N has beside the products of the columns P by x and Q by y: as K12, where the rule for ancestors (6.1) is taken
// for all pairs of columns of a ball. alpha = dt (L_f + forces in the chart), beta = L_f'; push: the part of alpha that
// is not of inertia and gravity
template <class T>
DAL_INLINE Mat3<T> ball_own(const BallMap<T>& m, const V3<T>& alpha, const V3<T>& beta, const V3<T>& push) {
  const V3<T> a = chart_gradient(m.phi, alpha, beta);
  return m.A * (crossed(a, m.A) + dragged(push, m.A)) - m.D * crossed(beta, m.A) +
         (slope_of_A(m, a, 1.0) - slope_of_D(m, beta, 1.0)) * m.D;
}
// all three blocks in the charts of the ends
template <class T> DAL_INLINE void ball_second(BallMap<T>& m, const V3<T>& alpha, const V3<T>& beta) {
  const Mat3<T> N = chart_second(m.phi, alpha, beta);
  const V3<T> a = chart_gradient(m.phi, alpha, beta);
  const Mat3<T> At = transposed(m.A), Dt = transposed(m.D), S = slope_of_A(m, a, 1.0) - slope_of_D(m, beta, 1.0),
                R = slope_of_A(m, a, -1.0) + slope_of_D(m, beta, -1.0), NA = bent(N, m.A) + dragged(beta, m.D);
  const T h = T(0.5);
  m.K12 = m.A * NA - dragged_back(m.D, beta, m.A) + S * m.D;
  m.K11 = m.A * (bent(N, At) - dragged(beta, Dt)) - dragged_back(m.D, beta, At) - S * Dt -
          cross_matrix(m.A * a - m.D * beta) * h;
  m.K22 = At * NA + dragged_back(Dt, beta, m.A) - R * m.D - cross_matrix(At * a + Dt * beta) * h;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
