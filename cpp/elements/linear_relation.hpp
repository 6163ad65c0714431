// sum of k_i q_i - c. Numbers: c, and where the k_i start in `relation`.
#pragma once
#include "constraint.hpp"
#include "number_sums.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct LinearRelation : LocalConstraint<LinearRelation> {
  static constexpr bool linear = true;

  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>&, int order, const T*, T* size) {
    const ModelData& M = *w.M;
    const int* lq = M.local_q.data() + e.vars;
    const double* k = M.relation.data() + int(e.par[1]);
    int n = e.n;
    T h = T(-e.par[0]), sz = T(__builtin_fabs(e.par[0]));
    for (int i = 0; i < n; ++i) {
      T t = T(k[i]) * q[lq[i]];
      h += t;
      sz += fabs_(t);
      w.local.gradient[i] = T(k[i]);
    }
    for (int i = 0; order >= 2 && i < n * n; ++i) w.local.hessian[i] = w.local.third[i] = T(0.0);
    *size = sz;
    return h;
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T* q, const Poses<T>&, const T& weight, NumberSums<T>& g) {
    const int* lq = w.M->local_q.data() + e.vars;
    g.own[0] -= weight;
    for (int i = 0; i < e.n; ++i) g.out[g.layout->relation + int(e.par[1]) + i] += weight * q[lq[i]];
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
