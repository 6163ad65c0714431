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
template <class T> DAL_INLINE void normalize(T* a) {
  const T s = T(1.0) / sqrt_(a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3]);
  for (int i = 0; i < 4; ++i) a[i] *= s;
}
// out = q exp(phi), normalized; phi: rotation vector in body axes
template <class T> DAL_INLINE void turn_by(const T* q, const T* phi, T* out) {
  const T s = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2], half = T(0.5) * sqrt_(s + T(1e-300));
  T sine, cosine;
  sincos_array(&half, &sine, &cosine, 1);
  const T f = select(lt(s, T(1e-8)), T(0.5) - s * T(1.0 / 48), T(0.5) * sine / half);
  const T e[4] = {cosine, f * phi[0], f * phi[1], f * phi[2]};
  quaternion_product(q, e, out);
  normalize(out);
}
// phi = log(q0^-1 q1), the shorter way
template <class T> DAL_INLINE void turn_between(const T* q0, const T* q1, T* phi) {
  const T back[4] = {q0[0], -q0[1], -q0[2], -q0[3]};
  T d[4];
  quaternion_product(back, q1, d);
  const T sign = select(lt(d[0], T(0.0)), T(-1.0), T(1.0)), w = d[0] * sign;
  const T s = d[1] * d[1] + d[2] * d[2] + d[3] * d[3], n = sqrt_(s + T(1e-300));
  const T f = sign * select(lt(s, T(1e-8)), (T(2.0) - s * T(2.0 / 3) / (w * w)) / w, T(2.0) * atan2_(n, w) / n);
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
