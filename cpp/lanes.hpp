// Scalar types of the kernels: double, Lanes (several rollouts side by side in one native SIMD register), Dual (value
// and one directional derivative). Kernels are templates on the scalar and use only what is defined here.
#pragma once
#include <cmath>
#include <cstdint>
#include <utility>

#include "compiler.hpp"

#define DAL_INLINE inline __attribute__((always_inline))
#define DAL_APART __attribute__((noinline))  // rare work, kept out of loops that are called often

namespace dalembert {
namespace DALEMBERT_ARCH {

#if defined(__AVX512F__)
constexpr int kWidth = 8;
#elif defined(__AVX__)
constexpr int kWidth = 4;
#else
constexpr int kWidth = 2;
#endif
typedef double Vec __attribute__((vector_size(8 * kWidth)));
typedef double VecU __attribute__((vector_size(8 * kWidth), aligned(8)));  // unaligned loads and stores
typedef int64_t IVec __attribute__((vector_size(8 * kWidth)));

DAL_INLINE Vec load(const double* p) { return *reinterpret_cast<const VecU*>(p); }
DAL_INLINE void store(double* p, Vec v) { *reinterpret_cast<VecU*>(p) = v; }
// entries x(0), x(1), ..., put together in registers: a load of what single stores have just written would wait for
// them
template <class F> DAL_INLINE Vec from_each(F x) {
  return [&]<size_t... l>(std::index_sequence<l...>) { return Vec{x(l)...}; }(std::make_index_sequence<kWidth>{});
}
// put(l, entry l) for all of them
template <class F> DAL_INLINE void to_each(Vec x, F put) {
#pragma GCC unroll 8
  for (int l = 0; l < kWidth; ++l) put(l, x[l]);
}
// entries `stride` apart
DAL_INLINE Vec from_apart(const double* p, int stride) {
  return from_each([=](size_t l) { return p[l * size_t(stride)]; });
}
DAL_INLINE Vec splat(double x) { return x - Vec{}; }  // x + 0 would be an addition, because of -0

typedef int64_t IVecU __attribute__((vector_size(8 * kWidth), aligned(8)));
DAL_INLINE IVec load_mask(const int64_t* p) { return *reinterpret_cast<const IVecU*>(p); }
DAL_INLINE Vec keep(IVec mask, Vec x) { return (Vec)((IVec)x & mask); }

// the largest entry, by halves
DAL_INLINE double most(Vec x) {
#if defined(__AVX512F__)
  const auto a = __builtin_shufflevector(x, x, 0, 1, 2, 3), b = __builtin_shufflevector(x, x, 4, 5, 6, 7);
  const auto y = a > b ? a : b;
#elif defined(__AVX__)
  const auto y = x;
#endif
#if defined(__AVX__)
  const auto c = __builtin_shufflevector(y, y, 0, 1), d = __builtin_shufflevector(y, y, 2, 3);
  const auto z = c > d ? c : d;
#else
  const auto z = x;
#endif
  return z[0] > z[1] ? z[0] : z[1];
}

// sum of the entries, by halves
DAL_INLINE double sum(Vec x) {
#if defined(__AVX512F__)
  const auto y = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  const Vec y = x;
#endif
#if defined(__AVX__)
  const auto z = __builtin_shufflevector(y, y, 0, 1) + __builtin_shufflevector(y, y, 2, 3);
#else
  const Vec z = y;
#endif
  return z[0] + z[1];
}

// ---- Lanes: kWidth independent rollouts
struct Lanes {
  Vec v;
  Lanes() = default;
  DAL_INLINE Lanes(double x) : v(splat(x)) {}
  DAL_INLINE explicit Lanes(Vec x) : v(x) {}
};
DAL_INLINE Lanes operator+(Lanes a, Lanes b) { return Lanes(a.v + b.v); }
DAL_INLINE Lanes operator-(Lanes a, Lanes b) { return Lanes(a.v - b.v); }
DAL_INLINE Lanes operator*(Lanes a, Lanes b) { return Lanes(a.v * b.v); }
DAL_INLINE Lanes operator/(Lanes a, Lanes b) { return Lanes(a.v / b.v); }
DAL_INLINE Lanes operator-(Lanes a) { return Lanes(-a.v); }
DAL_INLINE Lanes& operator+=(Lanes& a, Lanes b) {
  a.v += b.v;
  return a;
}
DAL_INLINE Lanes& operator-=(Lanes& a, Lanes b) {
  a.v -= b.v;
  return a;
}
DAL_INLINE Lanes& operator*=(Lanes& a, Lanes b) {
  a.v *= b.v;
  return a;
}

// ---- Dual: exact directional derivative of any kernel
struct Dual {
  double v, d;
  Dual() = default;
  DAL_INLINE Dual(double x) : v(x), d(0) {}
  DAL_INLINE Dual(double x, double dx) : v(x), d(dx) {}
};
DAL_INLINE Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
DAL_INLINE Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
DAL_INLINE Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
DAL_INLINE Dual operator/(Dual a, Dual b) {
  double q = a.v / b.v;
  return {q, (a.d - q * b.d) / b.v};
}
DAL_INLINE Dual operator-(Dual a) { return {-a.v, -a.d}; }
DAL_INLINE Dual& operator+=(Dual& a, Dual b) {
  a = a + b;
  return a;
}
DAL_INLINE Dual& operator-=(Dual& a, Dual b) {
  a = a - b;
  return a;
}
DAL_INLINE Dual& operator*=(Dual& a, Dual b) {
  a = a * b;
  return a;
}

// ---- masks: bool for one rollout, an integer vector for lanes
template <class T> struct Traits;
template <> struct Traits<double> {
  typedef bool Mask;
  static constexpr int width = 1;
};
template <> struct Traits<Lanes> {
  typedef IVec Mask;
  static constexpr int width = kWidth;
};
template <> struct Traits<Dual> {
  typedef bool Mask;
  static constexpr int width = 1;
};
template <class T> using MaskOf = typename Traits<T>::Mask;

DAL_INLINE bool le(double a, double b) { return a <= b; }
DAL_INLINE bool le(Dual a, Dual b) { return a.v <= b.v; }
DAL_INLINE IVec le(Lanes a, Lanes b) { return a.v <= b.v; }
DAL_INLINE bool lt(double a, double b) { return a < b; }
DAL_INLINE bool lt(Dual a, Dual b) { return a.v < b.v; }
DAL_INLINE IVec lt(Lanes a, Lanes b) { return a.v < b.v; }
DAL_INLINE double select(bool m, double a, double b) { return m ? a : b; }
DAL_INLINE Dual select(bool m, Dual a, Dual b) { return m ? a : b; }
DAL_INLINE Lanes select(IVec m, Lanes a, Lanes b) { return Lanes(m ? a.v : b.v); }
DAL_INLINE bool all(bool m) { return m; }
DAL_INLINE bool any(bool m) { return m; }
DAL_INLINE bool all(IVec m) { return sum(keep(m, splat(1.0))) == kWidth; }
DAL_INLINE bool any(IVec m) { return sum(keep(m, splat(1.0))) > 0; }
DAL_INLINE bool mask_not(bool m) { return !m; }
DAL_INLINE IVec mask_not(IVec m) { return ~m; }

DAL_INLINE double fabs_(double x) { return __builtin_fabs(x); }
DAL_INLINE Dual fabs_(Dual x) { return x.v < 0 ? -x : x; }
DAL_INLINE Lanes fabs_(Lanes x) { return Lanes(keep(IVec{} + INT64_MAX, x.v)); }
DAL_INLINE double sqrt_(double x) { return __builtin_sqrt(x); }
DAL_INLINE Dual sqrt_(Dual x) {
  double r = __builtin_sqrt(x.v);
  return {r, x.d / (2 * r)};
}
DAL_INLINE Lanes sqrt_(Lanes x) {
  Lanes r;
  for (int i = 0; i < kWidth; ++i) r.v[i] = __builtin_sqrt(x.v[i]);
  return r;
}
// the larger one. NaN may get lost here: next_momentum() looks for it once, at the end of a step
template <class T> DAL_INLINE T larger(T e, T x) { return select(lt(x, e), e, x); }
DAL_INLINE double larger(double e, double x) { return e > x ? e : x; }  // one instruction
DAL_INLINE double value_of(double x) { return x; }
DAL_INLINE double value_of(Dual x) { return x.v; }

// ---- sine and cosine of an array (Cody-Waite reduction, minimax-quality Taylor kernels on |r| <= pi/4); large
// arguments by libm
DAL_INLINE void sincos_vec(Vec x, Vec& s, Vec& c) {
  const Vec magic = splat(6755399441055744.0);
  Vec k = (x * splat(0.63661977236758134308) + magic) - magic;
  Vec r = x - k * splat(1.57079632673412561417e+00);
  r = r - k * splat(6.07710050630396597660e-11);
  r = r - k * splat(2.02226624879595063154e-21);
  Vec z = r * r;
  Vec ps = splat(1.58962301576546568060e-10);
  ps = ps * z + splat(-2.50507477628578072866e-08);
  ps = ps * z + splat(2.75573136213857245213e-06);
  ps = ps * z + splat(-1.98412698295895385996e-04);
  ps = ps * z + splat(8.33333333332211858878e-03);
  ps = ps * z + splat(-1.66666666666666307295e-01);
  Vec sr = r + r * (z * ps);
  Vec pc = splat(-1.13585365213876817300e-11);
  pc = pc * z + splat(2.08757008419747316778e-09);
  pc = pc * z + splat(-2.75573141792967388112e-07);
  pc = pc * z + splat(2.48015872888517045348e-05);
  pc = pc * z + splat(-1.38888888888730564116e-03);
  pc = pc * z + splat(4.16666666666665929218e-02);
  Vec cr = splat(1.0) - (splat(0.5) * z - z * z * pc);
  Vec q = k * splat(0.25);
  Vec fl = (q - splat(0.375) + magic) - magic;  // floor of a multiple of 1/4
  Vec m = k - splat(4.0) * fl;                  // quadrant 0..3
  IVec odd = (m == splat(1.0)) | (m == splat(3.0));
  Vec s0 = odd ? cr : sr, c0 = odd ? sr : cr;
  s = (m >= splat(2.0)) ? -s0 : s0;
  IVec neg = (m == splat(1.0)) | (m == splat(2.0));
  c = neg ? -c0 : c0;
}

// where sincos_vec() is not exact
DAL_INLINE void large_angle(double x, double& s, double& c) {
  if (__builtin_fabs(x) < 1e5) return;
  s = __builtin_sin(x);
  c = __builtin_cos(x);
}

inline void sincos_array(const double* x, double* s, double* c, int n) {
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    Vec xv = load(x + i), sv, cv;
    sincos_vec(xv, sv, cv);
    store(s + i, sv);
    store(c + i, cv);
  }
  if (i < n) {
    Vec xv = splat(0.0), sv, cv;
    for (int j = i; j < n; ++j) xv[j - i] = x[j];
    sincos_vec(xv, sv, cv);
    for (int j = i; j < n; ++j) {
      s[j] = sv[j - i];
      c[j] = cv[j - i];
    }
  }
  for (int j = 0; j < n; ++j) large_angle(x[j], s[j], c[j]);
}
inline void sincos_array(const Lanes* x, Lanes* s, Lanes* c, int n) {
  sincos_array(reinterpret_cast<const double*>(x), reinterpret_cast<double*>(s), reinterpret_cast<double*>(c),
               n * kWidth);
}
inline void sincos_array(const Dual* x, Dual* s, Dual* c, int n) {
  for (int i = 0; i < n; ++i) {
    double sv = __builtin_sin(x[i].v), cv = __builtin_cos(x[i].v);
    s[i] = Dual(sv, cv * x[i].d);
    c[i] = Dual(cv, -sv * x[i].d);
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
