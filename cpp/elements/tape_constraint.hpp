// A user's constraint: a tape.
#pragma once
#include "constraint.hpp"
#include "number_sums.hpp"
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct TapeConstraint : LocalConstraint<TapeConstraint> {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int order, const T* delta, T* size) {
    const int* lq = w.M->local_q.data() + e.vars;
    T h = tape_scalar(w, e, q, order < 2 ? 1 : order, delta);
    T sz = T(1.0);
    for (int i = 0; i < e.n; ++i) sz += fabs_(lq[i] < 0 ? w.local.gradient[i] : w.local.gradient[i] * q[lq[i]]);
    *size = sz;
    return h;
  }

  // a tape has no numbers of the model
  template <class T>
  static void by_numbers(Work<T>&, const Element&, const T*, const Poses<T>&, const T&, NumberSums<T>&) {}
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
