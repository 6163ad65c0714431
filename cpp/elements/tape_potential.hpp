// A user's potential: a tape.
#pragma once
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct TapePotential {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int order, const T* delta) {
    return tape_scalar(w, e, q, order, delta);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
