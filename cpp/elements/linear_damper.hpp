// Damper between two sites: F_i = -c xdot x_i with the distance x. Number: c.
#pragma once
#include "force.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct LinearDamper {
  // distance x with x_i = s_i / x; its derivatives in w.lg, w.lh (, w.lt along delta)
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
    const int* lq = w.M->local_q.data() + e.vars;
    int n = e.n;
    distance(w, e, P, order >= 1 ? 2 : 1, (const T*)nullptr);
    T c = T(e.par[0]), xd = T(0.0);
    for (int i = 0; i < n; ++i) xd += w.lg[i] * v[lq[i]];
    for (int i = 0; i < n; ++i) out.f[i] = -(c * xd * w.lg[i]);
    if (order >= 1) {
      for (int k = 0; k < n; ++k) {
        T t = T(0.0);
        for (int l = 0; l < n; ++l) t += w.lh[k * n + l] * v[lq[l]];
        w.lb[k] = t;
      }
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) {
          out.fv[i * n + k] = -(c * w.lg[i] * w.lg[k]);
          out.fq[i * n + k] = -(c * (w.lh[i * n + k] * xd + w.lg[i] * w.lb[k]));
        }
    }
  }

  // mu.F = -c A B with A = x_q.v, B = x_q.mu
  template <class T>
  static void second(Work<T>& w, const Element& e, const T*, const T* v, const Poses<T>& P, const T* mu_all,
                     LocalForce2<T>& out) {
    const int* lq = w.M->local_q.data() + e.vars;
    int n = e.n;
    T *mu = w.lc, *vl = w.lb;
    for (int i = 0; i < n; ++i) { mu[i] = mu_all[lq[i]]; vl[i] = v[lq[i]]; }
    T c = T(e.par[0]);
    distance(w, e, P, 3, vl);  // w.lt = A_qq
    for (int i = 0; i < n * n; ++i) out.vv[i] = w.lt[i];
    distance(w, e, P, 3, mu);  // w.lt = B_qq
    T A = T(0.0), B = T(0.0);
    T *Aq = w.ld, *Bq = w.la;
    for (int i = 0; i < n; ++i) {
      A += w.lg[i] * vl[i];
      B += w.lg[i] * mu[i];
      T a = T(0.0), b = T(0.0);
      for (int k = 0; k < n; ++k) { a += w.lh[i * n + k] * vl[k]; b += w.lh[i * n + k] * mu[k]; }
      Aq[i] = a;
      Bq[i] = b;
    }
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k) {
        out.qq[i * n + k] = -(c * (out.vv[i * n + k] * B + Aq[i] * Bq[k] + Bq[i] * Aq[k] + A * w.lt[i * n + k]));
        out.vq[i * n + k] = -(c * (w.lh[i * n + k] * B + w.lg[i] * Bq[k]));
      }
    for (int i = 0; i < n * n; ++i) out.vv[i] = T(0.0);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
