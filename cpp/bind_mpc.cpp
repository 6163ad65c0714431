// Predictive control: converts and checks; computes nothing.
#include "mpc.hpp"

namespace dalembert {
namespace {

using namespace DALEMBERT_ARCH;

std::vector<double> copied(const Array& a) { return {a.data(), a.data() + a.size()}; }

}  // namespace

void bind_mpc(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Plan>(m, "Plan")
      .def("__init__",
           [](Plan* self, Core& core, const Options& o, const Array& dt, const Array& Q, const Array& Qf,
              const Array& R, const Array& low, const Array& high, double mu) {
    const Sizes z(core.model());
    const size_t N = dt.size(), n = z.ndx, mm = z.nU;
    if (z.nW != z.nU) throw nb::value_error("prescribed balls cannot be inputs");
    if (!(mu > 0)) throw nb::value_error("mu must be positive");
    PlanWeights w;
    w.Q = copied(Q);
    w.Q_stride = Q.ndim() == 3 ? std::ptrdiff_t(n * n) : 0;
    w.Qf = copied(Qf);
    w.R = copied(R);
    w.R_stride = R.ndim() == 3 ? std::ptrdiff_t(mm * mm) : 0;
    sized(Q, (w.Q_stride ? N : 1) * n * n, "Q");
    sized(Qf, n * n, "Qf");
    sized(R, (w.R_stride ? N : 1) * mm * mm, "R");
    sized(low, mm, "low");
    sized(high, mm, "high");
    new (self) Plan(core, o, copied(dt), std::move(w), copied(low), copied(high), mu);
  },
           "core"_a, "options"_a, "dt"_a, "Q"_a, "Qf"_a, "R"_a, "low"_a, "high"_a, "mu"_a, nb::keep_alive<1, 2>())
      .def("begin",
           [](Plan& p, const Array& X, const Array& U) {
    const Sizes& z = p.sizes();
    std::memcpy(p.X.data(), sized(X, (p.steps() + 1) * z.nx, "X"), X.size() * sizeof(double));
    std::memcpy(p.U.data(), sized(U, p.steps() * z.nU, "U"), U.size() * sizeof(double));
    p.begin();
  }, "X"_a, "U"_a, "Starts from the curve X (N+1, nx), U (N, nu).")
      .def("aim",
           [](Plan& p, const Array& X, const Array& U) {
    const Sizes& z = p.sizes();
    std::memcpy(p.Xd.data(), sized(X, (p.steps() + 1) * z.nx, "Xd"), X.size() * sizeof(double));
    std::memcpy(p.Ud.data(), sized(U, p.steps() * z.nU, "Ud"), U.size() * sizeof(double));
  }, "Xd"_a, "Ud"_a, "Sets the reference.")
      .def("prepare",
           [](Plan& p, bool shift) {
    nb::gil_scoped_release nogil;
    return p.prepare(shift);
  }, "shift"_a, "Linearizes and sweeps; 0, or why not.")
      .def("respond",
           [](Plan& p, const Array& x) {
    double* u;
    sized(x, p.sizes().nx, "x");
    nb::object out = make_array({p.sizes().nU}, &u);
    const bool good = p.respond(x.data(), u);
    return nb::make_tuple(out, good);
  }, "x"_a, "The input for the state x, and whether it is one; the plan goes on from x.")
      .def_prop_ro("X", [](Plan& p) { return given(p.X, {size_t(p.steps()) + 1, p.sizes().nx}); })
      .def_prop_ro("U", [](Plan& p) { return given(p.U, {size_t(p.steps()), p.sizes().nU}); })
      .def_prop_ro("K", [](Plan& p) { return given(p.K, {size_t(p.steps()), p.sizes().nU, p.sizes().ndx}); })
      .def_ro("change", &Plan::change)
      .def_ro("gap", &Plan::gap);
}

}  // namespace dalembert
