// What forces that depend on poses or are given by tapes return: values and first derivatives in local variables,
// and the second derivatives of mu . F (docs/kernels.md 8.4, 8.5). Damping and config forces are diagonal or constant
// and live in forces.hpp.
#pragma once
#include "../work.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// Rows: forced variables. f: F (rows); with order >= 1 fq: F_q (rows x n), fv: F_v (rows x n), fu: F_u (rows x nin).
template <class T> struct LocalForce {
  T *f, *fq, *fv, *fu;
  int rows, nin;
  const int* row_v;
  const int* inputs;
  int input_store[6];

  // rows are the local variables, no inputs, results in the scratch of w
  DAL_INLINE void start(Work<T>& w, const Element& e) {
    rows = e.n;
    row_v = w.M->local_v.data() + e.vars;
    nin = 0;
    f = w.local.d;
    fq = w.local.hessian;
    fv = w.local.third;
    fu = nullptr;
  }
};

// Second derivatives of mu . F: qq (n x n), vq (rows v, columns q), vv, qu (n x nin), vu, uu
template <class T> struct LocalForce2 {
  T *qq, *vq, *vv, *qu, *vu, *uu;
  int nin;
  const int* inputs;
  int input_store[6];

  // no inputs, results one after another in `store`
  DAL_INLINE void start(const Element& e, T* store) {
    int n = e.n;
    nin = 0;
    inputs = input_store;
    qq = store;
    vq = qq + n * n;
    vv = vq + n * n;
    qu = vv + n * n;
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
