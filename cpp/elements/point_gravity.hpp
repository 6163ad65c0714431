// Attraction of two sites: -k / x with the distance x = sqrt(2 s). Number: k.
#pragma once
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct PointGravity {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta) {
    T s = half_square(w, e, P, order, delta);
    T k = T(e.par[0]), ix = T(1.0) / sqrt_(s + s), ix2 = ix * ix, f1 = k * ix * ix2;
    chain_rule(w, e.n, e.n, order, f1, T(-3.0) * f1 * ix2, T(15.0) * f1 * ix2 * ix2, delta);
    return -(k * ix);
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    const V3<T> d = site_gap(w, e, P);
    const T ix = T(1.0) / sqrt_(dot(d, d));
    g.own[0] -= weight * ix;
    add_between(w, g, e, P, d * (weight * T(e.par[0]) * ix * ix * ix));
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
