// follower - profile(driver) with a spline as profile; local variables: driver, follower.
#pragma once
#include "constraint.hpp"
#include "number_sums.hpp"
#include "spline.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Cam : LocalConstraint<Cam> {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int order, const T* delta, T* size) {
    const ModelData& M = *w.M;
    const int* lq = M.local_q.data() + e.vars;
    T y[4], area;
    spline_at(M.splines[e.spline], q[lq[0]], y, area);
    w.local.gradient[0] = -y[1];
    w.local.gradient[1] = T(1.0);
    for (int i = 0; i < 4; ++i) w.local.hessian[i] = w.local.third[i] = T(0.0);
    w.local.hessian[0] = -y[2];
    if (order >= 3) w.local.third[0] = -(y[3] * delta[0]);
    *size = fabs_(y[0]) + fabs_(q[lq[1]]);
    return q[lq[1]] - y[0];
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T* q, const Poses<T>&, const T& weight, NumberSums<T>& g) {
    const SplineTable& s = w.M->splines[e.spline];
    const T x = q[w.M->local_q[e.vars]];
    const int piece = spline_piece(s, value_of(x));
    T *c = g.out + g.layout->spline[e.spline] + 6 * piece, power = -weight;
    for (int j = 0; j < 6; ++j) {
      c[j] += power;
      power *= x - T(s.ends[piece]);
    }
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
