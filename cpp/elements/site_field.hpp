// Constant force f (world axes) on one site: -f . p. Gravity on chosen masses. Numbers: f.
#pragma once
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct SiteField {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta) {
    int n = e.n;
    V3<T> f = mul(P.R[0], vec3<T>(e.par));
    V3<T> p = site_first(w, e, P);
    for (int i = 0; i < n; ++i) w.local.gradient[i] = -dot(f, w.local.d_i[i]);
    if (order >= 2) {
      site_second(w, e);
      for (int i = 0; i < n; ++i)
        for (int k = i; k < n; ++k)
          w.local.hessian[i * n + k] = w.local.hessian[k * n + i] = -dot(f, w.local.d_ij[i * n + k]);
    }
    if (order >= 3) {
      axes_along(w, e, delta);
      site_third(w, e, delta);
      for (int i = 0; i < n; ++i)
        for (int k = i; k < n; ++k)
          w.local.third[i * n + k] = w.local.third[k * n + i] = -dot(f, w.local.dd_ij[i * n + k]);
    }
    return -(dot(f, p) + dot(vec3<T>(e.par), w.kin.reference));
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    const V3<T> p = tmul(P.R[0], site_position(*w.M, w.M->sites[e.site_a], P)) + w.kin.reference;
    g.own[0] -= weight * p.x;
    g.own[1] -= weight * p.y;
    g.own[2] -= weight * p.z;
    add_between(w, g, e, P, mul(P.R[0], vec3<T>(e.par)) * -weight);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
