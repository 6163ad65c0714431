// Distance of two sites: 2 s - L^2, with a constant length (number: L) or the last local variable as length.
#pragma once
#include "constraint.hpp"
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Distance : LocalConstraint<Distance> {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, int order, const T* delta, T* size) {
    int n = e.n, m = moving(e);
    T s = half_square(w, e, P, order, delta);
    for (int i = 0; i < m; ++i) w.local.gradient[i] = T(2.0) * w.local.gradient[i];
    for (int i = 0; order >= 2 && i < m; ++i)
      for (int k = 0; k < m; ++k) w.local.hessian[i * n + k] = T(2.0) * w.local.hessian[i * n + k];
    for (int i = 0; order >= 3 && i < m; ++i)
      for (int k = 0; k < m; ++k) w.local.third[i * n + k] = T(2.0) * w.local.third[i * n + k];
    T L = T(e.par[0]);
    if (e.length_var >= 0) {
      L = q[w.M->local_q[e.vars + m]];
      w.local.gradient[m] = T(-2.0) * L;
      for (int i = 0; order >= 2 && i < n; ++i)
        w.local.hessian[i * n + m] = w.local.hessian[m * n + i] = T(i < m ? 0.0 : -2.0);
      for (int i = 0; order >= 3 && i < n; ++i) w.local.third[i * n + m] = w.local.third[m * n + i] = T(0.0);
    }
    *size = T(2.0) * s + L * L;
    return T(2.0) * s - L * L;
  }

  // without going through a local matrix
  template <class T, class Add>
  static void hessian(Work<T>& w, const Element& e, const T*, const Poses<T>& P, Add add) {
    V3<T> d = site_first(w, e, P);
    square_hessian(w, e, d, [&](int i, int k, T x) { add(i, k, T(2.0) * x); });
    if (e.length_var >= 0) add(e.n - 1, e.n - 1, T(-2.0));
  }
  template <class T, class Add>
  static void third(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T* delta, Add add, T* row) {
    V3<T> d = site_first(w, e, P);
    V3<T> dd = square_third(w, e, d, delta, [&](int i, int k, T x) { add(i, k, T(2.0) * x); });
    if (!row) return;
    const int* lv = w.M->local_v.data() + e.vars;
    for (int i = 0, m = moving(e); i < m; ++i)
      row[lv[i]] += T(2.0) * (dot(dd, w.local.d_i[i]) + dot(d, w.local.dd_i[i]));
    if (e.length_var >= 0) row[lv[e.n - 1]] += T(-2.0) * delta[e.n - 1];
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    if (e.length_var < 0) g.own[0] -= weight * T(2.0 * e.par[0]);
    add_between(w, g, e, P, site_gap(w, e, P) * (weight * T(2.0)));
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
