// Spring between two sites: k/2 (x - x0)^2 with the distance x = sqrt(2 s). Numbers: k, x0.
#pragma once
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct LinearSpring {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta) {
    T s = half_square(w, e, P, order, delta);
    T k = T(e.par[0]), x0 = T(e.par[1]);
    if (e.par[1] == 0.0) {  // k s: smooth also where the sites coincide
      chain_rule(w, e.n, e.n, order, k, T(0.0), T(0.0), delta);
      return k * s;
    }
    T x = sqrt_(s + s), ix = T(1.0) / x, ix2 = ix * ix;
    T f2 = k * x0 * ix2 * ix;
    chain_rule(w, e.n, e.n, order, k - k * x0 * ix, f2, T(-3.0) * f2 * ix2, delta);
    return T(0.5) * k * (x - x0) * (x - x0);
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    const V3<T> d = site_gap(w, e, P);
    const T k = T(e.par[0]), x0 = T(e.par[1]), x = sqrt_(dot(d, d)), gap = x - x0;
    g.own[0] += weight * T(0.5) * (e.par[1] == 0.0 ? dot(d, d) : gap * gap);
    g.own[1] -= weight * k * gap;
    add_between(w, g, e, P, d * (weight * (e.par[1] == 0.0 ? k : k - k * x0 / x)));
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
