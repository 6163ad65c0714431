// Spring on one variable: k/2 (q - q0)^2. Numbers: k, q0.
#pragma once
#include "../work.hpp"
#include "number_sums.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct ConfigSpring {
  template <class T> static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int, const T*) {
    T x = q[w.M->local_q[e.vars]] - T(e.par[1]), k = T(e.par[0]);
    w.local.gradient[0] = k * x;
    w.local.hessian[0] = k;
    w.local.third[0] = T(0.0);
    return T(0.5) * k * x * x;
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T* q, const Poses<T>&, const T& weight, NumberSums<T>& g) {
    const T x = q[w.M->local_q[e.vars]] - T(e.par[1]);
    g.own[0] += weight * T(0.5) * x * x;
    g.own[1] -= weight * T(e.par[0]) * x;
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
