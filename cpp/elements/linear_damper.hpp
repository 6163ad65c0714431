// Damper between two sites: F_i = -c xdot x_i with the distance x. Number: c.
#pragma once
#include "force.hpp"
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct LinearDamper {
  // distance x with x_i = s_i / x; its derivatives in w.local.gradient, w.local.hessian (, w.local.third along delta)
  template <class T>
  static DAL_INLINE T distance(Work<T>& w, const Element& e, const Poses<T>& P, int order, const T* delta) {
    T s = half_square(w, e, P, order, delta);
    T x = sqrt_(s + s), ix = T(1.0) / x, ix2 = ix * ix;
    chain_rule(w, e.n, e.n, order, ix, -(ix * ix2), T(3.0) * ix * ix2 * ix2, delta);
    return x;
  }

  template <class T>
  static void value(Work<T>& w, const Element& e, const T*, const T* v, const Poses<T>& P, int order,
                    LocalForce<T>& out) {
    const int* lv = w.M->local_v.data() + e.vars;
    int n = e.n;
    distance(w, e, P, order >= 1 ? 2 : 1, (const T*)nullptr);
    T c = T(e.par[0]), xd = T(0.0);
    for (int i = 0; i < n; ++i) xd += w.local.gradient[i] * v[lv[i]];
    for (int i = 0; i < n; ++i) out.f[i] = -(c * xd * w.local.gradient[i]);
    if (order >= 1) {
      for (int k = 0; k < n; ++k) {
        T t = T(0.0);
        for (int l = 0; l < n; ++l) t += w.local.hessian[k * n + l] * v[lv[l]];
        w.local.b[k] = t;
      }
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) {
          out.fv[i * n + k] = -(c * w.local.gradient[i] * w.local.gradient[k]);
          out.fq[i * n + k] = -(c * (w.local.hessian[i * n + k] * xd + w.local.gradient[i] * w.local.b[k]));
        }
    }
  }

  // mu.F = -c A B with A = x_q.v, B = x_q.mu
  template <class T>
  static void second(Work<T>& w, const Element& e, const T*, const T* v, const Poses<T>& P, const T* mu_all,
                     LocalForce2<T>& out) {
    const int* lv = w.M->local_v.data() + e.vars;
    int n = e.n;
    T *mu = w.local.c, *vl = w.local.b;
    for (int i = 0; i < n; ++i) {
      mu[i] = mu_all[lv[i]];
      vl[i] = v[lv[i]];
    }
    T c = T(e.par[0]);
    distance(w, e, P, 3, vl);  // w.local.third = A_qq
    for (int i = 0; i < n * n; ++i) out.vv[i] = w.local.third[i];
    distance(w, e, P, 3, mu);  // w.local.third = B_qq
    T A = T(0.0), B = T(0.0);
    T *Aq = w.local.d, *Bq = w.local.a;
    for (int i = 0; i < n; ++i) {
      A += w.local.gradient[i] * vl[i];
      B += w.local.gradient[i] * mu[i];
      T a = T(0.0), b = T(0.0);
      for (int k = 0; k < n; ++k) {
        a += w.local.hessian[i * n + k] * vl[k];
        b += w.local.hessian[i * n + k] * mu[k];
      }
      Aq[i] = a;
      Bq[i] = b;
    }
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k) {
        out.qq[i * n + k] = -(c *
                              (out.vv[i * n + k] * B + Aq[i] * Bq[k] + Bq[i] * Aq[k] + A * w.local.third[i * n + k]));
        out.vq[i * n + k] = -(c * (w.local.hessian[i * n + k] * B + w.local.gradient[i] * Bq[k]));
      }
    for (int i = 0; i < n * n; ++i) out.vv[i] = T(0.0);
  }

  // delta . F = -c A B with A = x_q.v, B = x_q.delta: x_q.v by a number is the change of x by the number along v
  template <class D>
  static void by_numbers(Work<double>& w, const Work<D>& d, const Element& e, const double* delta, bool along_v,
                         NumberSums<D>& g) {
    const int* lv = w.M->local_v.data() + e.vars;
    distance(w, e, w.kin.mid, 1, (const double*)nullptr);
    double A = 0, B = 0;
    for (int i = 0; i < e.n; ++i) {
      A += w.local.gradient[i] * w.kin.v[lv[i]];
      B += w.local.gradient[i] * delta[lv[i]];
    }
    const V3<D> gap = site_gap(d, e, d.kin.mid);
    add_between(d, g, e, d.kin.mid, gap * (D(-e.par[0] * (along_v ? B : A)) / sqrt_(dot(gap, gap))));
    if (!along_v) g.own[0] += D(0.0, -(A * B));
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
