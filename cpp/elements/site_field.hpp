// Constant force f (world axes) on one site: -f . p. Gravity on chosen masses. Numbers: f.
#pragma once
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct SiteField {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta) {
    int n = e.n;
    V3<T> f = mul(P.R[0], vec3<T>(e.par));
    V3<T> p = site_first(w, e, P);
    for (int i = 0; i < n; ++i) w.lg[i] = -dot(f, w.di[i]);
    if (order >= 2) {
      site_second(w, e);
      for (int i = 0; i < n; ++i)
        for (int k = i; k < n; ++k) w.lh[i * n + k] = w.lh[k * n + i] = -dot(f, w.dij[i * n + k]);
    }
    if (order >= 3) {
      axes_along(w, e, delta);
      site_third(w, e, delta);
      for (int i = 0; i < n; ++i)
        for (int k = i; k < n; ++k) w.lt[i * n + k] = w.lt[k * n + i] = -dot(f, w.ddij[i * n + k]);
    }
    return -(dot(f, p) + dot(vec3<T>(e.par), w.ref));
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
