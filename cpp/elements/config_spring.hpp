// Spring on one variable: k/2 (q - q0)^2. Numbers: k, q0.
#pragma once
#include "../work.hpp"

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
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
