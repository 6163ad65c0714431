// What the files of bindings share: arrays, a model with its kernels and a pool of workspaces.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>
#include "kernels.hpp"
#include "numpy.hpp"
#include "read_model.hpp"

namespace dalembert {

namespace nb = nanobind;
using OptArray = std::optional<Array>;

// make_array (numpy.hpp) with numbers in it
inline nb::object given(const std::vector<double>& v, std::initializer_list<size_t> shape) {
  double* p;
  size_t n = 1;
  for (size_t s : shape) n *= s;
  nb::object out = make_array(shape, &p);
  std::memcpy(p, v.data(), n * sizeof(double));
  return out;
}

inline const double* sized(const Array& a, size_t n, const char* name) {
  if (a.size() != n)
    throw nb::value_error(
        (std::string(name) + " has " + std::to_string(a.size()) + " numbers, " + std::to_string(n) + " are needed")
            .c_str());
  return a.data();
}
inline const double* sized(const std::optional<Array>& a, size_t n, const char* name) {
  return a ? sized(*a, n, name) : nullptr;
}

class Core {
 public:
  explicit Core(const nb::dict& description) : table_(kernels()), M(planned(read_model(description), table_)) {}
  // with the plan that the model has
  explicit Core(ModelData&& model) : table_(kernels()), M(std::move(model)) {}
  ~Core() {
    for (auto& list : free_)
      for (Scratch* s : list) table_.drop(s);
  }
  Core(const Core&) = delete;

  const ModelData& model() const { return M; }
  const KernelTable& table() const { return table_; }

  Scratch* take(bool lanes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto& list = free_[lanes];
      if (!list.empty()) {
        Scratch* s = list.back();
        list.pop_back();
        return s;
      }
    }
    Scratch* s = table_.make(M, true, lanes);
    if (!s) throw std::bad_alloc();
    return s;
  }
  void give(Scratch* s, bool lanes) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_[lanes].push_back(s);
  }

 private:
  static ModelData planned(ModelData M, const KernelTable& table) {
    table.plan(M);
    return M;
  }
  const KernelTable& table_;
  const ModelData M;
  std::mutex mutex_;
  std::vector<Scratch*> free_[2];
};

// the end of a step, which the kernels of composed steps solve again
struct End {
  std::vector<double> y, lam;
  End(const Array& y0, const Array& lam0)
      : y(y0.data(), y0.data() + y0.size()), lam(lam0.data(), lam0.data() + lam0.size()) {
    y.push_back(0);
    lam.push_back(0);
  }
};

struct Lease {
  Core& core;
  bool lanes;
  Scratch* s;
  explicit Lease(Core& c, bool l = false) : core(c), lanes(l), s(c.take(l)) {}
  ~Lease() { core.give(s, lanes); }
  operator Scratch*() const { return s; }
};

// nx: coordinates of x = (q, p, v_rho); ndx: of its variations; nU: of u = (inputs, next prescribed coordinates), nW:
// of its variations; nw: of w = (dq, dp, du, drho)
struct Sizes {
  size_t nq, nv, nd, nk, nqk, nu, nc, nx, ndx, nU, nW, nw;
  explicit Sizes(const ModelData& M)
      : nq(M.nq),
        nv(M.nv),
        nd(M.nd),
        nk(M.nk),
        nqk(M.nq - M.nqd),
        nu(M.nu),
        nc(M.nc),
        nx(M.nq + M.nd + M.nk),
        ndx(M.nv + M.nd + M.nk),
        nU(M.nu + nqk),
        nW(M.nu + M.nk),
        nw(M.nv + M.nd + M.nu + M.nk) {}
};

void bind_riccati(nb::module_& m);
void bind_ekf(nb::module_& m);
void bind_motions(nb::module_& m);
void bind_mechanics(nb::class_<Core>& c);
void bind_steps(nb::class_<Core>& c);
void bind_stepper(nb::module_& m);
void bind_rollouts(nb::class_<Core>& c);
void bind_contacts(nb::module_& m);
void bind_trajopt(nb::class_<Core>& c);
void bind_parameters(nb::module_& m, nb::class_<Core>& c);
void bind_mpc(nb::module_& m);
void bind_shooting(nb::module_& m);

}  // namespace dalembert
