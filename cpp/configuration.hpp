// Configurations: points of a product of lines (sliders, hinges) and rotations (balls, unit quaternions w, x, y, z). A
// configuration has nq coordinates, its velocities and variations nv components; v_q says where the coordinate of a
// component is. Nothing outside of this file adds or subtracts configurations.
#pragma once
#include "work.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// ---- unit quaternions
DAL_INLINE double atan2_(double y, double x) { return std::atan2(y, x); }
DAL_INLINE Dual atan2_(Dual y, Dual x) {
  const double r = x.v * x.v + y.v * y.v;
  return {std::atan2(y.v, x.v), (x.v * y.d - y.v * x.d) / r};
}
DAL_INLINE Lanes atan2_(Lanes y, Lanes x) {
  Lanes r;
  for (int i = 0; i < kWidth; ++i) r.v[i] = std::atan2(y.v[i], x.v[i]);
  return r;
}

// out = a b
template <class T> DAL_INLINE void quaternion_product(const T* a, const T* b, T* out) {
  const T w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
          x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
  const T y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
          z = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
  out[0] = w;
  out[1] = x;
  out[2] = y;
  out[3] = z;
}
// q a q^-1
template <class T> DAL_INLINE V3<T> turned(const T* q, const V3<T>& a) {
  const V3<T> n = {q[1], q[2], q[3]}, t = cross(n, a) * T(2.0);
  return a + t * q[0] + cross(n, t);
}
template <class T> DAL_INLINE void normalize(T* a) {
  const T s = T(1.0) / sqrt_(a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3]);
  for (int i = 0; i < 4; ++i) a[i] *= s;
}
// the first `terms` of a power series
template <int terms, class T, int N> DAL_INLINE T polynomial(const double (&k)[N], const T& x) {
  static_assert(terms <= N);
  T p = T(k[terms - 1]);
#pragma GCC unroll 16
  for (int i = terms - 2; i >= 0; --i) p = p * x + T(k[i]);
  return p;
}
template <class T, int N> DAL_INLINE T polynomial(const double (&k)[N], const T& x) { return polynomial<N>(k, x); }
// |phi|^2 below which half the terms of the series that are good for kSmallTurn will do
constexpr double kTinyTurn = 1.0 / 16, kSmallTurn = 1.0;
// Whether numbers below `bound` go by polynomials alone. Lanes never: what one takes must not depend on its neighbours.
template <class T> DAL_INLINE bool below(const T& x, double bound) {
  if constexpr (Traits<T>::width == 1) return value_of(x) < bound;
  else return false;
}
constexpr double kSinc[] = {1.0,          -1.0 / 6,        1.0 / 120,        -1.0 / 5040,
                            1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
constexpr double kCos[] = {1.0,         -1.0 / 2,       1.0 / 24,        -1.0 / 720,
                           1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200};
constexpr double kAtan[] = {1.0,       -1.0 / 3, 1.0 / 5,   -1.0 / 7, 1.0 / 9,   -1.0 / 11, 1.0 / 13,
                            -1.0 / 15, 1.0 / 17, -1.0 / 19, 1.0 / 21, -1.0 / 23, 1.0 / 25,  -1.0 / 27};

// out = q exp(phi), normalized; phi: rotation vector in body axes
template <class T> DAL_INLINE void turn_by(const T* q, const T* phi, T* out) {
  const T s = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2];
  T f, cosine;
  const T h2 = T(0.25) * s;
  if (below(s, kTinyTurn)) {
    f = T(0.5) * polynomial<5>(kSinc, h2);
    cosine = polynomial<6>(kCos, h2);
  } else if (below(s, kSmallTurn)) {
    f = T(0.5) * polynomial(kSinc, h2);
    cosine = polynomial(kCos, h2);
  } else {
    const T half = T(0.5) * sqrt_(s + T(1e-300));
    T sine;
    sincos_array(&half, &sine, &cosine, 1);
    f = select(lt(s, T(1e-8)), T(0.5) - s * T(1.0 / 48), T(0.5) * sine / half);
  }
  const T e[4] = {cosine, f * phi[0], f * phi[1], f * phi[2]};
  quaternion_product(q, e, out);
  normalize(out);
}
// f with phi = f d for the rotation vector phi of the unit quaternion (w, d), w >= 0; n2 = |d|^2
template <class T> DAL_INLINE T turn_scale(const T& w, const T& n2) {
  const T whole = T(1.0) / (T(1.0) + w), u = n2 * whole * whole;  // tan^2 of a quarter of the angle
  if (below(u, kTinyTurn / 16)) return T(4.0) * polynomial<7>(kAtan, u) * whole;
  if (below(u, kSmallTurn / 16)) return T(4.0) * polynomial(kAtan, u) * whole;
  const T n = sqrt_(n2 + T(1e-300));
  return select(lt(n2, T(1e-8)), (T(2.0) - n2 * T(2.0 / 3) / (w * w)) / w, T(2.0) * atan2_(n, w) / n);
}
// phi = log(q0^-1 q1), the shorter way
template <class T> DAL_INLINE void turn_between(const T* q0, const T* q1, T* phi) {
  const T back[4] = {q0[0], -q0[1], -q0[2], -q0[3]};
  T d[4];
  quaternion_product(back, q1, d);
  const T sign = select(lt(d[0], T(0.0)), T(-1.0), T(1.0)), w = d[0] * sign;
  const T f = sign * turn_scale(w, d[1] * d[1] + d[2] * d[2] + d[3] * d[3]);
  for (int i = 0; i < 3; ++i) phi[i] = f * d[1 + i];
}

// ---- configurations; all of the components from .. to

// f(q, v) for the scalar components, g(q, v) for the first components of balls
template <class F, class G> DAL_INLINE void for_components(const ModelData& M, int from, int to, F f, G g) {
  if (M.flat) {
    for (int i = from; i < to; ++i) f(i, i);
    return;
  }
  for (int i = from; i < to; ++i) {
    if (M.v_q[i] >= 0) {
      f(M.v_q[i], i);
      continue;
    }
    g(M.balls[-1 - M.v_q[i]].q, i);
    i += 2;
  }
}
// out = q moved by dv (nv); out may be q
template <class T> DAL_INLINE void integrate(const ModelData& M, const T* q, const T* dv, T* out, int from, int to) {
  for_components(M, from, to, [&](int k, int i) { out[k] = q[k] + dv[i]; },
                 [&](int k, int i) { turn_by(q + k, dv + i, out + k); });
}
// out (nv): how q0 has to be moved to become q1
template <class T> DAL_INLINE void difference(const ModelData& M, const T* q0, const T* q1, T* out, int from, int to) {
  for_components(M, from, to, [&](int k, int i) { out[i] = q1[k] - q0[k]; },
                 [&](int k, int i) { turn_between(q0 + k, q1 + k, out + i); });
}
// out: the point at the share t of the way from q0 to q1
template <class T>
DAL_INLINE void between(const ModelData& M, const T* q0, const T* q1, const T& t, T* out, int from, int to) {
  for_components(M, from, to, [&](int k, int) { out[k] = q0[k] + t * (q1[k] - q0[k]); }, [&](int k, int) {
    T phi[3];
    turn_between(q0 + k, q1 + k, phi);
    for (T& x : phi) x *= t;
    turn_by(q0 + k, phi, out + k);
  });
}
// quaternions that were extrapolated by their coordinates
template <class T> DAL_INLINE void normalize_balls(const ModelData& M, T* q, int from, int to) {
  if (M.flat) return;
  for (const Ball& b : M.balls)
    if (b.v >= from && b.v < to) normalize(q + b.q);
}
// what rounding of the coordinate of component i is relative to
template <class T> DAL_INLINE T reach(const ModelData& M, const T* q, int i) {
  return M.v_q[i] < 0 ? T(1.0) : fabs_(q[M.v_q[i]]);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
