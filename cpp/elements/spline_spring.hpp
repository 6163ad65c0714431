// Spring on one variable with the force y(a q + b) of a spline: V = -1/a times its integral. Numbers: a, b.
#pragma once
#include "number_sums.hpp"
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

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T* q, const Poses<T>&, const T& weight, NumberSums<T>& g) {
    const ModelData& M = *w.M;
    const SplineTable& s = M.splines[e.spline];
    const T a = T(e.par[0]), x = q[M.local_q[e.vars]], at = a * x + T(e.par[1]);
    T y[4], area;
    spline_at(s, at, y, area);
    g.own[0] += weight * (area / a - y[0] * x) / a;
    g.own[1] -= weight * y[0] / a;
    // the integral is linear in the coefficients of its piece
    const int piece = spline_piece(s, value_of(at));
    T *c = g.out + g.layout->spline[e.spline] + 6 * piece, power = -(weight / a);
    g.out[g.layout->spline[e.spline] + int(s.c.size()) + piece] += power;
    const T d = at - T(s.ends[piece]);
    for (int j = 0; j < 6; ++j) {
      power *= d;
      c[j] += power / T(j + 1.0);
    }
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
