// Spring on one variable with the force y(a q + b) of a spline: V = -1/a times its integral. Numbers: a, b.
#pragma once
#include "spline.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct SplineSpring {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int order, const T* delta) {
    const ModelData& M = *w.M;
    T a = T(e.par[0]), y[4], area;
    spline_at(M.splines[e.spline], a * q[M.local_q[e.vars]] + T(e.par[1]), y, area);
    w.local.gradient[0] = -y[0];
    w.local.hessian[0] = -(a * y[1]);
    if (order >= 3) w.local.third[0] = -(a * a * y[2] * delta[0]);
    return -(area / a);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
