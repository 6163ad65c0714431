// A user's velocity constraint a(q) v + b(q) = 0: a tape.
#pragma once
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct TapeVelocity {
  // a into w.local.gradient; order 2: da_i/dq_k into w.local.hessian, db/dq into w.local.a. Returns b.
  template <class T>
  static T value(Work<T>& w, const Element& e, const Element*, const T* q, const Poses<T>&, int order) {
    const ModelData& M = *w.M;
    const int n = e.n;
    tape_variables(w, e, q);
    tape_turns(w, e, q, n);
    run_tape(M.tapes[e.tape[order >= 2 ? 1 : 0]], w.local.tape_in, w.local.tape_work, w.local.tape_out);
    const T* out = w.local.tape_out;
    for (int i = 0; i < n; ++i) w.local.gradient[i] = out[1 + i];
    for (int i = 0; order >= 2 && i < n; ++i) {
      w.local.a[i] = out[1 + n + i];
      for (int k = 0; k < n; ++k) w.local.hessian[i * n + k] = out[1 + 2 * n + i * n + k];
    }
    return out[0];
  }

  // a into w.local.gradient, the derivative of a v + b (v of all variables held) by q into w.local.a. Returns b.
  template <class T>
  static T rate(Work<T>& w, const Element& e, const Element*, const T* q, const T* v, const Poses<T>& P) {
    const T b = value(w, e, nullptr, q, P, 2);
    const int *lv = w.M->local_v.data() + e.vars, n = e.n;
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k) w.local.a[k] += w.local.hessian[i * n + k] * v[lv[i]];
    return b;
  }

  template <class T>
  static void by_numbers(Work<T>&, const Element&, const T*, const Poses<T>&, const T&, NumberSums<T>&) {}
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
