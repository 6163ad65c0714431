// What most constraints share: their second and third derivatives pass through the local matrices w.local.hessian and
// w.local.third. A constraint that can do better (Distance) or that has none (LinearRelation) says so by members of the
// same name.
#pragma once
#include "../work.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class Self> struct LocalConstraint {
  static constexpr bool linear = false;  // true: all second derivatives vanish

  // add(i, k, D2h_ik) for all i <= k
  template <class T, class Add>
  static void hessian(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, Add add) {
    T size;
    Self::value(w, e, q, P, 2, (const T*)nullptr, &size);
    for (int i = 0; i < e.n; ++i)
      for (int k = i; k < e.n; ++k) add(i, k, w.local.hessian[i * e.n + k]);
  }

  // add(i, k, D3h_ik[delta]) for all i <= k; row (may be null): row[local_v[i]] += (D2h delta)_i
  template <class T, class Add>
  static void third(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, const T* delta, Add add, T* row) {
    T size;
    Self::value(w, e, q, P, 3, delta, &size);
    for (int i = 0; i < e.n; ++i)
      for (int k = i; k < e.n; ++k) add(i, k, w.local.third[i * e.n + k]);
    if (!row) return;
    const int* lv = w.M->local_v.data() + e.vars;
    for (int i = 0; i < e.n; ++i)
      for (int k = 0; k < e.n; ++k) row[lv[i]] += w.local.hessian[i * e.n + k] * delta[k];
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
