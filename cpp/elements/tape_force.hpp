// A user's generalized force: a tape.
#pragma once
#include "force.hpp"
#include "number_sums.hpp"
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct TapeForce {
  template <class T>
  static void value(Work<T>& w, const Element& e, const T* q, const T* v, const Poses<T>&, int order,
                    LocalForce<T>& out) {
    const ModelData& M = *w.M;
    int n = e.n;
    tape_force(w, e, q, v, order);
    out.rows = e.nrow;
    out.row_v = M.local_v.data() + e.rows;
    out.f = w.local.tape_out;
    out.fq = out.f + e.nrow;
    out.fv = out.fq + e.nrow * n;
    out.fu = out.fv + e.nrow * n;
    out.nin = order >= 1 ? e.nin : 0;
    out.inputs = M.tape_inputs.data() + e.in0;
  }

  template <class T>
  static void second(Work<T>& w, const Element& e, const T* q, const T* v, const Poses<T>&, const T* mu_all,
                     LocalForce2<T>& out) {
    int n = e.n;
    const T* H = tape_force_second(w, e, q, v, mu_all);
    int m = 2 * n + e.nin, nin = e.nin;
    out.nin = nin;
    out.inputs = w.M->tape_inputs.data() + e.in0;
    out.vu = out.qu + n * nin;
    out.uu = out.vu + n * nin;
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k) {
        out.qq[i * n + k] = H[i * m + k];
        out.vq[i * n + k] = H[(n + i) * m + k];
        out.vv[i * n + k] = H[(n + i) * m + n + k];
      }
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < nin; ++k) {
        out.qu[i * nin + k] = H[i * m + 2 * n + k];
        out.vu[i * nin + k] = H[(n + i) * m + 2 * n + k];
      }
    for (int i = 0; i < nin; ++i)
      for (int k = 0; k < nin; ++k) out.uu[i * nin + k] = H[(2 * n + i) * m + 2 * n + k];
  }

  // a tape has no numbers of the model
  template <class D>
  static void by_numbers(Work<double>&, const Work<D>&, const Element&, const double*, bool, NumberSums<D>&) {}
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
