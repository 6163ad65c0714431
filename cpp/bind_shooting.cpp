// The optimizer of the common problems: converts and checks; computes nothing.
#include <nanobind/stl/tuple.h>
#include "shooting.hpp"

namespace dalembert {
namespace {

using namespace DALEMBERT_ARCH;

std::vector<double> copied(const Array& a, size_t n, const char* name) {
  const double* p = sized(a, n, name);
  return {p, p + n};
}

// body(pulse) without the GIL; signals raise
template <class F> auto run(F body) {
  Pulse pulse;
  decltype(body(pulse)) out{};
  {
    nb::gil_scoped_release nogil;
    try {
      out = body(pulse);
    } catch (const Shooting::Interrupted&) {}
  }
  pulse.raise();
  return out;
}

}  // namespace

void bind_shooting(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Shooting>(m, "Shooting")
      .def("__init__",
           [](Shooting* self, Core& core, const Options& o, const Array& dt, const nb::list& terms,
              const nb::list& boxes, const std::vector<int>& free, int threads) {
    const Sizes z(core.model());
    const size_t N = dt.size(), n = z.ndx, mm = z.nU;
    if (!core.model().flat) throw nb::value_error("states must be flat");
    std::vector<QuadraticTerm> costs;
    for (nb::handle h : terms) {
      const auto [w, Xd, Ud, Q, R] = nb::cast<std::tuple<double, Array, Array, Array, Array>>(h);
      const bool full_Q = Q.ndim() == 3, full_R = R.ndim() == 3;
      costs.push_back({w, copied(Xd, (N + 1) * n, "Xd"), copied(Ud, N * mm, "Ud"),
                       copied(Q, (N + 1) * n * (full_Q ? n : 1), "Q"), copied(R, N * mm * (full_R ? mm : 1), "R"),
                       full_Q, full_R});
    }
    std::vector<BoxRows> rows;
    for (nb::handle h : boxes) {
      const auto [inputs, columns, low, high] = nb::cast<std::tuple<bool, std::vector<int>, Array, Array>>(h);
      for (int c : columns)
        if (c < 0 || size_t(c) >= (inputs ? mm : n)) throw nb::value_error("there is no such column");
      rows.push_back({inputs, columns, copied(low, columns.size(), "low"), copied(high, columns.size(), "high")});
    }
    for (int i : free)
      if (i < 0 || size_t(i) >= n) throw nb::value_error("there is no such component");
    new (self) Shooting(core, o, copied(dt, N, "dt"), std::move(costs), std::move(rows), free, threads);
  },
           "core"_a, "options"_a, "dt"_a, "terms"_a, "boxes"_a, "free"_a, "threads"_a, nb::keep_alive<1, 2>())
      .def("begin",
           [](Shooting& s, const Array& X, const Array& U) {
    sized(X, (s.steps() + 1) * s.sizes().nx, "X");
    sized(U, s.steps() * s.sizes().nU, "U");
    return run([&](Pulse& pulse) { return s.begin(X.data(), U.data(), pulse); });
  }, "X"_a, "U"_a, "Starts from a curve; why not ('cost', 'steps'), or an empty string.")
      .def("iterate",
           [](Shooting& s, double tolerance, bool may_step) {
    const Shooting::Report r = run([&](Pulse& pulse) { return s.iterate(tolerance, may_step, pulse); });
    return nb::make_tuple(r.method, r.slope, r.length, r.trials, r.failed, r.status, r.reason);
  }, "tolerance"_a, "may_step"_a, "One iteration: (method, slope, length, trials, failed, status, reason).")
      .def("close", [](Shooting& s) { return run([&](Pulse& pulse) { return s.close(pulse); }); },
           "Makes the curve a motion.")
      .def_prop_ro("X", [](Shooting& s) { return given(s.curve().X, {s.steps() + 1, s.sizes().nx}); })
      .def_prop_ro("U", [](Shooting& s) { return given(s.curve().U, {s.steps(), s.sizes().nU}); })
      .def_prop_ro("gains", [](Shooting& s) { return given(s.gains, {s.steps(), s.sizes().nU, s.sizes().ndx}); })
      .def_prop_ro("costates", [](Shooting& s) { return given(s.costates, {s.steps() + 1, s.sizes().ndx}); })
      .def_prop_ro("multipliers",
                   [](Shooting& s) {
    std::vector<double> y(s.zh);
    for (size_t i = 0; i < y.size(); ++i) y[i] -= s.zl[i];
    return given(y, {y.size()});
  })
      .def_prop_ro("value", [](Shooting& s) { return s.curve().value; })
      .def_prop_ro("gap", &Shooting::gap)
      .def_ro("slope", &Shooting::slope)
      .def_ro("error", &Shooting::error)
      .def_ro("known", &Shooting::known)
      .def_ro("steered", &Shooting::steered)
      .def_ro("gave_up", &Shooting::gave_up);
}

}  // namespace dalembert
