// Torsion spring between two sites: k/2 phi^2, with phi the angle of the rotation about n nearest to R = R_a^T R_b,
// less its rest. Numbers: u, w (unit vectors in site axes, (u, w, n) right-handed), k, rest.
//
// With the complex number z = C + i S, C = u_a.u_b + w_a.w_b = trace R - n.R n, S = w_a.u_b - u_a.w_b = 2 n.axial(R):
// phi = arg(z) - rest. Local variables are the rotations from site a up to the common joint and down to site b, in this
// order; w.local.axis holds -a_i on the way up and a_i on the way down (kernels.md 8.8).
#pragma once
#include "number_sums.hpp"
#include "site.hpp"
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct TorsionSpring {
  static constexpr double kUndefined = 1e-12;  // n is turned over to rounding: no angle, which must not pass for zero

  template <class T> struct Complex {
    T re, im;
  };
  template <class T> struct Pair {  // what u and w become
    V3<T> u, w;
  };
  template <class T> static DAL_INLINE Pair<T> turned(const V3<T>& a, const Pair<T>& b) {
    return {cross(a, b.u), cross(a, b.w)};
  }
  // z of a rotated pair of site b, seen from one of site a
  template <class T> static DAL_INLINE Complex<T> seen(const Pair<T>& a, const Pair<T>& b) {
    return {dot(a.u, b.u) + dot(a.w, b.w), dot(a.w, b.u) - dot(a.u, b.w)};
  }
  template <class T> static DAL_INLINE Complex<T> mul(const Complex<T>& a, const Complex<T>& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  template <class T> static DAL_INLINE Complex<T> complex(const V3<T>& v) { return {v.x, v.y}; }

  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta) {
    const ModelData& M = *w.M;
    const int* lj = M.local_joint.data() + e.vars;
    const unsigned char* flag = M.path_flag.data() + e.vars;
    int n = e.n;
    auto pair = [&](const Site& site) -> Pair<T> {
      M3<T> R = mul_const(site_rotation(M, site, P), site.R);
      return {R.c[0] * T(e.par[0]) + R.c[1] * T(e.par[1]) + R.c[2] * T(e.par[2]),
              R.c[0] * T(e.par[3]) + R.c[1] * T(e.par[4]) + R.c[2] * T(e.par[5])};
    };
    Pair<T> a = pair(M.sites[e.site_a]), b = pair(M.sites[e.site_b]);
    Complex<T> z = seen(a, b);
    T square = z.re * z.re + z.im * z.im, size = T(1.0) / square;
    Complex<T> inverse{z.re * size, -(z.im * size)};
    T k = T(e.par[6]), c = T(std::cos(e.par[7])), s = T(std::sin(e.par[7]));
    T phi = tape_op(OpATAN2, c * z.im - s * z.re, c * z.re + s * z.im);
    phi = select(lt(square, T(kUndefined * kUndefined)), T(__builtin_nan("")), phi);

    // z_i / z into w.local.d_i
    for (int i = 0; i < n; ++i) {
      w.local.axis[i] = flag[i] & 1 ? -P.a[lj[i]] : P.a[lj[i]];
      Complex<T> zi = mul(seen(a, turned(w.local.axis[i], b)), inverse);
      w.local.d_i[i] = {zi.re, zi.im, T(0.0)};
      w.local.gradient[i] = zi.im;
    }
    // z_ik / z into w.local.d_ij, i <= k; a^T [a_i] [a_k] b = ([-a_i] a)^T [a_k] b
    if (order >= 2)
      for (int i = 0; i < n; ++i) {
        Pair<T> left = turned(-w.local.axis[i], a);
        for (int j = i; j < n; ++j) {
          Complex<T> zij = mul(seen(left, turned(w.local.axis[j], b)), inverse);
          Complex<T> second = mul(complex(w.local.d_i[i]), complex(w.local.d_i[j]));
          w.local.d_ij[i * n + j] = {zij.re, zij.im, T(0.0)};
          w.local.hessian[i * n + j] = w.local.hessian[j * n + i] = zij.im - second.im;
        }
      }
    if (order >= 3) along(w, e, a, b, inverse, delta);
    chain_rule(w, n, n, order, k * phi, k, T(0.0), delta);
    return T(0.5) * k * phi * phi;
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    const ModelData& M = *w.M;
    auto pair = [&](const Site& site) -> Pair<T> {
      M3<T> R = mul_const(site_rotation(M, site, P), site.R);
      return {R.c[0] * T(e.par[0]) + R.c[1] * T(e.par[1]) + R.c[2] * T(e.par[2]),
              R.c[0] * T(e.par[3]) + R.c[1] * T(e.par[4]) + R.c[2] * T(e.par[5])};
    };
    const Pair<T> a = pair(M.sites[e.site_a]), b = pair(M.sites[e.site_b]);
    const Complex<T> z = seen(a, b);
    const T size = T(1.0) / (z.re * z.re + z.im * z.im), c = T(std::cos(e.par[7])), s = T(std::sin(e.par[7]));
    const T phi = tape_op(OpATAN2, c * z.im - s * z.re, c * z.re + s * z.im), k = T(e.par[6]);
    g.own[6] += weight * T(0.5) * phi * phi;
    g.own[7] -= weight * k * phi;
    // a turn of site b about an axis changes z by `seen` of the turned pair, and the angle by Im(dz / z)
    auto slope = [&](const V3<T>& axis) {
      const Complex<T> dz = seen(a, turned(axis, b));
      return (dz.im * z.re - dz.re * z.im) * size;
    };
    const T one = T(1.0), o = T(0.0);
    const V3<T> torque = V3<T>{slope({one, o, o}), slope({o, one, o}), slope({o, o, one})} * (weight * k * phi);
    add_on_site(w, g, e.site_b, P, {torque, zero3<T>()});
    add_on_site(w, g, e.site_a, P, {-torque, zero3<T>()});
  }

  // phi_ik along delta into w.local.third
  template <class T>
  static void along(Work<T>& w, const Element& e, const Pair<T>& a, const Pair<T>& b, const Complex<T>& inverse,
                    const T* delta) {
    int n = e.n;
    // w.local.turn: rotation along delta of all variables up to and including i; z_i' / z into w.local.dd_i; z' / z
    V3<T> sum = zero3<T>();
    Complex<T> dz{T(0.0), T(0.0)};
    for (int i = 0; i < n; ++i) {
      sum += w.local.axis[i] * delta[i];
      w.local.turn[i] = sum;
      dz.re += w.local.d_i[i].x * delta[i];
      dz.im += w.local.d_i[i].y * delta[i];
      V3<T> t = zero3<T>();
      for (int j = 0; j < i; ++j) t += w.local.d_ij[j * n + i] * delta[j];
      for (int j = i; j < n; ++j) t += w.local.d_ij[i * n + j] * delta[j];
      w.local.dd_i[i] = t;
    }
    // z_ik' : the rotation along delta stands before i, between i and k, or behind k
    for (int i = 0; i < n; ++i) {
      Pair<T> left = turned(-w.local.axis[i], a);
      Pair<T> before = turned(-w.local.axis[i], turned(-w.local.turn[i], a));
      for (int j = i; j < n; ++j) {
        Pair<T> right = turned(w.local.axis[j], b);
        Complex<T> x = seen(before, right), y = seen(left, turned(w.local.turn[j] - w.local.turn[i], right));
        Complex<T> u = seen(left, turned(w.local.axis[j], turned(sum - w.local.turn[j], b)));
        Complex<T> third = mul(Complex<T>{x.re + y.re + u.re, x.im + y.im + u.im}, inverse);
        Complex<T> zi = complex(w.local.d_i[i]), zj = complex(w.local.d_i[j]), zij = complex(w.local.d_ij[i * n + j]);
        T minus = mul(zij, dz).im + mul(complex(w.local.dd_i[i]), zj).im + mul(zi, complex(w.local.dd_i[j])).im;
        T plus = T(2.0) * mul(mul(zi, zj), dz).im;
        w.local.third[i * n + j] = w.local.third[j * n + i] = third.im - minus + plus;
      }
    }
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
