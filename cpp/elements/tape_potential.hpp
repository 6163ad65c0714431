// A user's potential: a tape.
#pragma once
#include "number_sums.hpp"
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct TapePotential {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int order, const T* delta) {
    return tape_scalar(w, e, q, order, delta);
  }

  // a tape has no numbers of the model
  template <class T>
  static void by_numbers(Work<T>&, const Element&, const T*, const Poses<T>&, const T&, NumberSums<T>&) {}
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
