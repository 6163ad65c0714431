// Attraction of two sites: -k / x with the distance x = sqrt(2 s). Number: k.
#pragma once
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
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
