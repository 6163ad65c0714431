// 3-vectors, rotations, twists, wrenches and inertias: fixed size, no allocation (docs/kernels.md 0).
// Twists are (angular; linear), wrenches (moment; force), all about one reference point in one inertial frame.
#pragma once
#include "lanes.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> struct V3 {
  T x, y, z;
};
template <class T> DAL_INLINE V3<T> operator+(const V3<T>& a, const V3<T>& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class T> DAL_INLINE V3<T> operator-(const V3<T>& a, const V3<T>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T> DAL_INLINE V3<T> operator-(const V3<T>& a) { return {-a.x, -a.y, -a.z}; }
template <class T> DAL_INLINE V3<T> operator*(const V3<T>& a, T s) { return {a.x * s, a.y * s, a.z * s}; }
template <class T> DAL_INLINE void operator+=(V3<T>& a, const V3<T>& b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
}
template <class T> DAL_INLINE void operator-=(V3<T>& a, const V3<T>& b) {
  a.x -= b.x;
  a.y -= b.y;
  a.z -= b.z;
}
template <class T> DAL_INLINE T dot(const V3<T>& a, const V3<T>& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
template <class T> DAL_INLINE V3<T> cross(const V3<T>& a, const V3<T>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T> DAL_INLINE V3<T> zero3() { return {T(0.0), T(0.0), T(0.0)}; }
template <class T> DAL_INLINE V3<T> vec3(const double* p) { return {T(p[0]), T(p[1]), T(p[2])}; }

// rotation by columns: c[k] is the k-th axis in inertial coordinates
template <class T> struct M3 {
  V3<T> c[3];
};
template <class T> DAL_INLINE V3<T> mul(const M3<T>& R, const V3<T>& a) {
  return R.c[0] * a.x + R.c[1] * a.y + R.c[2] * a.z;
}
template <class T> DAL_INLINE V3<T> tmul(const M3<T>& R, const V3<T>& a) {
  return {dot(R.c[0], a), dot(R.c[1], a), dot(R.c[2], a)};
}
// R times a constant rotation stored by columns (9 doubles)
template <class T> DAL_INLINE M3<T> mul_const(const M3<T>& R, const double* k) {
  M3<T> out;
  for (int i = 0; i < 3; ++i) out.c[i] = R.c[0] * T(k[3 * i]) + R.c[1] * T(k[3 * i + 1]) + R.c[2] * T(k[3 * i + 2]);
  return out;
}

template <class T> struct V6 {
  V3<T> w, v;  // angular / moment, linear / force
};
template <class T> DAL_INLINE V6<T> operator+(const V6<T>& a, const V6<T>& b) { return {a.w + b.w, a.v + b.v}; }
template <class T> DAL_INLINE V6<T> operator-(const V6<T>& a, const V6<T>& b) { return {a.w - b.w, a.v - b.v}; }
template <class T> DAL_INLINE V6<T> operator*(const V6<T>& a, T s) { return {a.w * s, a.v * s}; }
template <class T> DAL_INLINE void operator+=(V6<T>& a, const V6<T>& b) {
  a.w += b.w;
  a.v += b.v;
}
template <class T> DAL_INLINE T dot(const V6<T>& a, const V6<T>& b) { return dot(a.w, b.w) + dot(a.v, b.v); }
template <class T> struct Padded6 {  // a row of eight
  V6<T> t;
  T none[2];
};
template <class T> DAL_INLINE V6<T> zero6() { return {zero3<T>(), zero3<T>()}; }
// motion x motion
template <class T> DAL_INLINE V6<T> crossm(const V6<T>& a, const V6<T>& b) {
  return {cross(a.w, b.w), cross(a.w, b.v) + cross(a.v, b.w)};
}
// motion x* force
template <class T> DAL_INLINE V6<T> crossf(const V6<T>& a, const V6<T>& f) {
  return {cross(a.w, f.w) + cross(a.v, f.v), cross(a.w, f.v)};
}

// symmetric 3x3
template <class T> struct S3 {
  T xx, yy, zz, xy, xz, yz;
};
template <class T> DAL_INLINE V3<T> mul(const S3<T>& I, const V3<T>& a) {
  return {I.xx * a.x + I.xy * a.y + I.xz * a.z, I.xy * a.x + I.yy * a.y + I.yz * a.z,
          I.xz * a.x + I.yz * a.y + I.zz * a.z};
}
template <class T> DAL_INLINE void operator+=(S3<T>& a, const S3<T>& b) {
  a.xx += b.xx;
  a.yy += b.yy;
  a.zz += b.zz;
  a.xy += b.xy;
  a.xz += b.xz;
  a.yz += b.yz;
}
// a b^T + b a^T
template <class T> DAL_INLINE S3<T> sym_outer(const V3<T>& a, const V3<T>& b) {
  return {T(2.0) * a.x * b.x,    T(2.0) * a.y * b.y,    T(2.0) * a.z * b.z,
          a.x * b.y + a.y * b.x, a.x * b.z + a.z * b.x, a.y * b.z + a.z * b.y};
}

// inertia of a rigid body about the reference point: mass (a constant), first moment, second moment
template <class T> struct Inertia {
  T m;
  V3<T> c;
  S3<T> I;
};
template <class T> DAL_INLINE V6<T> mul(const V3<T>& c, const S3<T>& I, const V6<T>& a) {
  return {mul(I, a.w) + cross(c, a.v), cross(a.w, c)};
}
template <class T> DAL_INLINE V6<T> mul(const Inertia<T>& J, const V6<T>& a) {
  return {mul(J.I, a.w) + cross(J.c, a.v), a.v * J.m + cross(a.w, J.c)};
}
template <class T> DAL_INLINE void operator+=(Inertia<T>& a, const Inertia<T>& b) {
  a.m += b.m;
  a.c += b.c;
  a.I += b.I;
}
// rigid transport of an inertia by a twist (docs/kernels.md 7.5)
template <class T> DAL_INLINE Inertia<T> transport(const V6<T>& e, const Inertia<T>& J) {
  Inertia<T> d;
  d.m = T(0.0);
  d.c = cross(e.w, J.c) + e.v * J.m;
  // A = [w]x I, columns of I crossed; dI = A + A^T + 2 (c.v) 1 - c v^T - v c^T
  V3<T> a0 = cross(e.w, V3<T>{J.I.xx, J.I.xy, J.I.xz});
  V3<T> a1 = cross(e.w, V3<T>{J.I.xy, J.I.yy, J.I.yz});
  V3<T> a2 = cross(e.w, V3<T>{J.I.xz, J.I.yz, J.I.zz});
  T t = T(2.0) * dot(J.c, e.v);
  S3<T> o = sym_outer(J.c, e.v);
  d.I = {T(2.0) * a0.x + t - o.xx, T(2.0) * a1.y + t - o.yy, T(2.0) * a2.z + t - o.zz,
         a1.x + a0.y - o.xy,       a2.x + a0.z - o.xz,       a2.y + a1.z - o.yz};
  return d;
}

// ---- 3x3 matrices by rows
template <class T> struct Mat3 {
  T m[9];
  DAL_INLINE T& operator()(int i, int k) { return m[3 * i + k]; }
  DAL_INLINE const T& operator()(int i, int k) const { return m[3 * i + k]; }
};
template <class T> DAL_INLINE Mat3<T> operator*(const Mat3<T>& a, const Mat3<T>& b) {
  Mat3<T> c;
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i)
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k) c(i, k) = a(i, 0) * b(0, k) + a(i, 1) * b(1, k) + a(i, 2) * b(2, k);
  return c;
}
template <class T> DAL_INLINE V3<T> operator*(const Mat3<T>& a, const V3<T>& b) {
  return {a(0, 0) * b.x + a(0, 1) * b.y + a(0, 2) * b.z, a(1, 0) * b.x + a(1, 1) * b.y + a(1, 2) * b.z,
          a(2, 0) * b.x + a(2, 1) * b.y + a(2, 2) * b.z};
}
template <class T> DAL_INLINE Mat3<T> operator+(const Mat3<T>& a, const Mat3<T>& b) {
  Mat3<T> c;
  for (int i = 0; i < 9; ++i) c.m[i] = a.m[i] + b.m[i];
  return c;
}
template <class T> DAL_INLINE Mat3<T> operator-(const Mat3<T>& a, const Mat3<T>& b) {
  Mat3<T> c;
  for (int i = 0; i < 9; ++i) c.m[i] = a.m[i] - b.m[i];
  return c;
}
template <class T> DAL_INLINE Mat3<T> operator*(const Mat3<T>& a, const T& s) {
  Mat3<T> c;
  for (int i = 0; i < 9; ++i) c.m[i] = a.m[i] * s;
  return c;
}
template <class T> DAL_INLINE Mat3<T> transposed(const Mat3<T>& a) {
  return {{a.m[0], a.m[3], a.m[6], a.m[1], a.m[4], a.m[7], a.m[2], a.m[5], a.m[8]}};
}
template <class T> DAL_INLINE Mat3<T> identity3() {
  const T o = T(1.0), z = T(0.0);
  return {{o, z, z, z, o, z, z, z, o}};
}
template <class T> DAL_INLINE Mat3<T> zero33() {
  const T z = T(0.0);
  return {{z, z, z, z, z, z, z, z, z}};
}
// a x .
template <class T> DAL_INLINE Mat3<T> cross_matrix(const V3<T>& a) {
  const T z = T(0.0);
  return {{z, -a.z, a.y, a.z, z, -a.x, -a.y, a.x, z}};
}
template <class T> DAL_INLINE Mat3<T> outer(const V3<T>& a, const V3<T>& b) {
  return {{a.x * b.x, a.x * b.y, a.x * b.z, a.y * b.x, a.y * b.y, a.y * b.z, a.z * b.x, a.z * b.y, a.z * b.z}};
}
template <class T> DAL_INLINE V3<T> three(const T* p) { return {p[0], p[1], p[2]}; }
template <class T> DAL_INLINE void put_three(T* p, const V3<T>& a) {
  p[0] = a.x;
  p[1] = a.y;
  p[2] = a.z;
}

// eight lanes: a generator (docs/kernels.md 6)
template <class T> struct Eight {
  T x[8];
  DAL_INLINE void clear() {
    for (T& y : x) y = T(0.0);
  }
  DAL_INLINE void read(const T* p) {
    for (int l = 0; l < 8; ++l) x[l] = p[l];
  }
  DAL_INLINE void write(T* p) const {
    for (int l = 0; l < 8; ++l) p[l] = x[l];
  }
  DAL_INLINE void gather(const T* p, int stride) {
    for (int l = 0; l < 8; ++l) x[l] = p[l * stride];
  }
  DAL_INLINE void add(const T a, const Eight& o) {
    for (int l = 0; l < 8; ++l) x[l] += a * o.x[l];
  }
  DAL_INLINE void add_products(const Eight& a, const Eight& b) {
    for (int l = 0; l < 8; ++l) x[l] += a.x[l] * b.x[l];
  }
  DAL_INLINE Eight times(const T a) const {
    Eight y;
    for (int l = 0; l < 8; ++l) y.x[l] = a * x[l];
    return y;
  }
  DAL_INLINE T total() const {
    T s = x[0];
    for (int l = 1; l < 8; ++l) s += x[l];
    return s;
  }
  DAL_INLINE T dot(const Eight& o) const {
    T s = x[0] * o.x[0];
    for (int l = 1; l < 8; ++l) s += x[l] * o.x[l];
    return s;
  }
};
template <> struct Eight<double> {
  static constexpr int n = 8 / kWidth;
  Vec x[n];
  DAL_INLINE void clear() {
    for (Vec& y : x) y = splat(0);
  }
  DAL_INLINE void read(const double* p) {
    for (int i = 0; i < n; ++i) x[i] = load(p + i * kWidth);
  }
  DAL_INLINE void write(double* p) const {
    for (int i = 0; i < n; ++i) store(p + i * kWidth, x[i]);
  }
  DAL_INLINE void gather(const double* p, int stride) {
    for (int i = 0; i < n; ++i) x[i] = from_apart(p + i * kWidth * stride, stride);
  }
  DAL_INLINE void add(double a, const Eight& o) {
    for (int i = 0; i < n; ++i) x[i] += splat(a) * o.x[i];
  }
  DAL_INLINE void add_products(const Eight& a, const Eight& b) {
    for (int i = 0; i < n; ++i) x[i] += a.x[i] * b.x[i];
  }
  DAL_INLINE Eight times(double a) const {
    Eight y;
    for (int i = 0; i < n; ++i) y.x[i] = splat(a) * x[i];
    return y;
  }
  DAL_INLINE double total() const {
    Vec s = x[0];
    for (int i = 1; i < n; ++i) s += x[i];
    return sum(s);
  }
  DAL_INLINE void add(double a, const double* p) {
    for (int i = 0; i < n; ++i) x[i] += splat(a) * load(p + i * kWidth);
  }
  DAL_INLINE Eight combine(double a, double b, const Eight& o) const {
    Eight y;
    for (int i = 0; i < n; ++i) y.x[i] = splat(a) * x[i] + splat(b) * o.x[i];
    return y;
  }
  DAL_INLINE double dot(const Eight& o) const {
    Vec s = x[0] * o.x[0];
    for (int i = 1; i < n; ++i) s += x[i] * o.x[i];
    return sum(s);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
