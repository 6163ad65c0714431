// dalembert._core.ekf: checks sizes, starts threads, calls the kernel; computes nothing.
#include <algorithm>
#include <limits>
#include <memory>
#include "core.hpp"
#include "ekf_problem.hpp"
#include "threads.hpp"

namespace dalembert {

void bind_ekf(nb::module_& m) {
  using namespace nb::literals;
  m.def("ekf",
        [](Core& core, const Options& o, bool euler, bool nominal, const Array& dt, const Array& X, const Array& U,
           const Array& start, const Array& Z, const std::optional<Array>& W, const Array& C, const Array& P0,
           const Array& Q, const Array& R, const std::optional<Array>& gate, const Array& weight, int threads,
           bool keep) {
    const ModelData& M = core.model();
    const KernelTable& table = core.table();
    const std::size_t nx = M.nq + M.nd + M.nk, nU = M.nu + M.nk, N = dt.size();
    auto need = [](const Array& a, std::size_t n, const char* name) {
      if (a.size() != n)
        throw nb::value_error(
            (std::string(name) + " has " + std::to_string(a.size()) + " numbers, " + std::to_string(n) + " are needed")
                .c_str());
      return a.data();
    };
    if (nx == 0) throw nb::value_error("the model has no variables");
    if (!M.flat) throw nb::value_error("batches of filters in the core are for models without balls");
    const std::size_t nz = C.size() / nx, trials = start.size() / nx;
    if (nz == 0 || nz > 64) throw nb::value_error("between 1 and 64 measured entries are needed");
    EkfProblem e;
    e.model = &M;
    e.alpha = o.alpha;
    e.minus = o.minus;
    e.plus = o.plus;
    e.tolerance = o.tolerance;
    e.h_tolerance = o.h_tolerance;
    e.max_iterations = o.max_iterations;
    e.parts = o.parts;
    e.euler = euler;
    e.nominal = nominal;
    e.steps = static_cast<int>(N);
    e.trials = static_cast<int>(trials);
    e.nz = static_cast<int>(nz);
    e.dt = dt.data();
    e.X = need(X, (N + 1) * nx, "X");
    e.U = need(U, N * nU, "U");
    e.start = need(start, trials * nx, "start");
    e.Z = need(Z, trials * (N + 1) * nz, "Z");
    e.W = W ? need(*W, trials * N * nx, "W") : nullptr;
    e.C = need(C, nz * nx, "C");
    e.P0 = need(P0, nx * nx, "P0");
    e.Q = need(Q, nx * nx, "Q");
    e.R = need(R, nz * nz, "R");
    e.gate = gate ? need(*gate, nz + 1, "gate") : nullptr;
    e.weight = need(weight, nx, "weight");
    // NaN marks what a failed trial did not reach
    auto room = [](std::size_t n, double value) {
      std::unique_ptr<double[]> p(new double[n + 1]);
      for (std::size_t i = 0; i < n; ++i) p[i] = value;
      return p;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    auto error = room(trials * (N + 1), nan), mean = room(keep ? trials * (N + 1) * nx : 0, nan),
         P = room(trials * nx * nx, 0.0);
    std::unique_ptr<int[]> status(new int[trials + 1]()), refused(new int[trials + 1]());
    e.error = error.get();
    e.mean = keep ? mean.get() : nullptr;
    e.P = P.get();
    e.status = status.get();
    e.refused = refused.get();
    volatile bool stop = false;
    e.stop = &stop;
    const int width = 4 * table.width, groups = static_cast<int>((trials + width - 1) / width);  // lanes are full
    Pulse pulse;
    watched(groups, threads, stop, pulse, [&](int g) {
      if (!table.ekf(e, g * width, std::min<int>((g + 1) * width, e.trials))) throw std::bad_alloc();
    });
    pulse.raise();
    auto give = [](auto p, std::vector<std::size_t> shape) {
      using E = std::remove_reference_t<decltype(p[0])>;
      E* raw = p.release();
      nb::capsule owner(raw, [](void* x) noexcept { delete[] static_cast<E*>(x); });
      return nb::cast(nb::ndarray<nb::numpy, E>(raw, shape.size(), shape.data(), owner));
    };
    nb::object means = keep ? give(std::move(mean), {trials, N + 1, nx}) : nb::none();
    return nb::make_tuple(give(std::move(error), {trials, N + 1}), means, give(std::move(P), {trials, nx, nx}),
                          give(std::move(status), {trials}), give(std::move(refused), {trials}));
  },
        "core"_a, "options"_a, "euler"_a, "nominal"_a, "dt"_a, "X"_a, "U"_a, "start"_a, "Z"_a, "W"_a.none(), "C"_a,
        "P0"_a, "Q"_a, "R"_a, "gate"_a.none(), "weight"_a, "threads"_a, "keep"_a,
        "Many trials of an extended Kalman filter: (errors, means or None, last covariances, status, refused).");
}

}  // namespace dalembert
