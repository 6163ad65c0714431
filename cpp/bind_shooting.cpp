// The default optimizer: converts and checks, asks Python what a problem of Python answers; computes nothing.
#include <nanobind/stl/tuple.h>
#include "shooting.hpp"

namespace dalembert {
namespace {

using namespace DALEMBERT_ARCH;

std::vector<double> copied(const Array& a, size_t n, const char* name) {
  const double* p = sized(a, n, name);
  return {p, p + n};
}

// A problem whose answers come from Python (`Problem` of optimization/shooting.py, which says what each is). Every
// question takes the GIL; what Python raises ends the search.
class PythonProblem : public Problem {
 public:
  PythonProblem(nb::object answers, size_t N, size_t nx, size_t n, size_t m, std::vector<RowGroup> groups)
      : Problem(N, nx, n, m, std::move(groups)), o_(std::move(answers)) {
    for (const RowGroup& g : this->groups) entries_ += (N + 1) * g.low.size();
  }
  ~PythonProblem() override {
    nb::gil_scoped_acquire gil;
    o_.reset();
  }

  double cost(const double* X, const double* U) override {
    nb::gil_scoped_acquire gil;
    return nb::cast<double>(o_.attr("value")(states(X), inputs(U)));
  }
  void gradient(const Curve& c, double* lx, double* lu) override {
    nb::gil_scoped_acquire gil;
    const nb::tuple t(o_.attr("gradient")(states(c.X.data()), inputs(c.U.data())));
    take(t[0], (N + 1) * n, "gradient", lx);
    take(t[1], N * m, "gradient", lu);
  }
  bool weights(const Curve& c, double* Q, double* S, double* R) override {
    nb::gil_scoped_acquire gil;
    return take_weights(o_.attr("weights")(states(c.X.data()), inputs(c.U.data())), Q, S, R);
  }

  void retract(const double* X, const double* dX, double share, double* out) override {
    nb::gil_scoped_acquire gil;
    take(o_.attr("retract")(states(X), array(dX, {N + 1, n}), share), (N + 1) * nx, "states", out);
  }
  bool shoot(Curve& c) override {
    nb::gil_scoped_acquire gil;
    const nb::object gaps = o_.attr("gaps")(states(c.X.data()), inputs(c.U.data()));
    if (gaps.is_none()) return false;
    take(gaps, N * n, "gaps", c.c.data());
    return true;
  }
  bool roll(const Roll& law, Curve& out) override {
    nb::gil_scoped_acquire gil;
    const Curve& c = *law.from;
    return take_motion(
        o_.attr("roll")(states(c.X.data()), inputs(c.U.data()), array(law.dX, {N + 1, n}), inputs(law.dU),
                        array(law.K, {N, m, n}), law.leave ? array(c.c.data(), {N, n}) : nb::none(), law.share,
                        law.low ? inputs(law.low) : nb::none(), law.low ? inputs(law.high) : nb::none()),
        out);
  }
  bool simulate(const double* x0, const double* U, Curve& out) override {
    nb::gil_scoped_acquire gil;
    return take_motion(o_.attr("simulate")(array(x0, {nx}), inputs(U)), out);
  }
  std::string linearize(const Curve& c, double* A, double* B) override {
    nb::gil_scoped_acquire gil;
    const nb::tuple t(o_.attr("linearize")(states(c.X.data()), inputs(c.U.data()), c.open));
    take(t[0], N * n * n, "A", A);
    take(t[1], N * n * m, "B", B);
    return "";
  }
  bool second_order(const Curve& c, const double* z, double* xx, double* xu, double* uu) override {
    nb::gil_scoped_acquire gil;
    const nb::object found = o_.attr("second_order")(states(c.X.data()), inputs(c.U.data()), array(z + n, {N, n}));
    if (found.is_none()) return false;
    const nb::tuple t(found);
    take(t[0], N * n * n, "second order", xx);
    take(t[1], N * n * m, "second order", xu);
    take(t[2], N * m * m, "second order", uu);
    return true;
  }
  size_t free_start(const Curve& c, std::vector<double>& E) override {
    nb::gil_scoped_acquire gil;
    const nb::object basis = o_.attr("free_start")(array(c.X.data(), {nx}));
    if (basis.is_none()) return 0;
    const Array a = nb::cast<Array>(basis);
    E.assign(a.data(), a.data() + a.size());
    return a.size() / n;
  }

  void row_values(const double* X, const double* U, double* h) override {
    nb::gil_scoped_acquire gil;
    take(o_.attr("row_values")(states(X), inputs(U)), entries_, "rows", h);
  }
  void rows_along(const double* dX, const double* dU, double* out) override {
    nb::gil_scoped_acquire gil;
    take(o_.attr("rows_along")(array(dX, {N + 1, n}), inputs(dU)), entries_, "rows", out);
  }
  void add_row_gradient(const double* w, double* gx, double* gu) override {
    nb::gil_scoped_acquire gil;
    const nb::tuple t(o_.attr("row_gradient")(array(w, {entries_})));
    add(t[0], (N + 1) * n, gx);
    add(t[1], N * m, gu);
  }
  bool add_row_hessian(const double* w, double* Q, double* S, double* R) override {
    nb::gil_scoped_acquire gil;
    return add_weights(o_.attr("row_hessian")(array(w, {entries_})), Q, S, R);
  }
  void add_row_curvature(const Curve& c, const double* y, double* Q, double* S, double* R) override {
    nb::gil_scoped_acquire gil;
    const nb::object more = o_.attr("row_curvature")(states(c.X.data()), inputs(c.U.data()), array(y, {entries_}));
    if (!more.is_none()) add_weights(more, Q, S, R);
  }

 private:
  // arrays of Python's own, which may be kept there
  static nb::object array(const double* from, std::initializer_list<size_t> shape) {
    double* p;
    size_t count = 1;
    for (size_t s : shape) count *= s;
    nb::object out = make_array(shape, &p);
    std::memcpy(p, from, count * sizeof(double));
    return out;
  }
  nb::object states(const double* X) const { return array(X, {N + 1, nx}); }
  nb::object inputs(const double* U) const { return array(U, {N, m}); }

  static void take(nb::handle from, size_t count, const char* name, double* out) {
    const Array a = nb::cast<Array>(from);
    std::memcpy(out, sized(a, count, name), count * sizeof(double));
  }
  static void add(nb::handle from, size_t count, double* out) {
    const Array a = nb::cast<Array>(from);
    const double* p = sized(a, count, "rows");
    for (size_t i = 0; i < count; ++i) out[i] += p[i];
  }
  bool take_motion(const nb::object& found, Curve& out) const {
    if (found.is_none()) return false;
    const nb::tuple t(found);
    take(t[0], (N + 1) * nx, "X", out.X.data());
    take(t[1], N * m, "U", out.U.data());
    return true;
  }
  bool take_weights(const nb::object& found, double* Q, double* S, double* R) const {
    const nb::tuple t(found);
    take(t[0], (N + 1) * n * n, "Q", Q);
    take(t[2], N * m * m, "R", R);
    if (t[1].is_none()) return false;
    take(t[1], N * n * m, "S", S);
    return true;
  }
  bool add_weights(const nb::object& found, double* Q, double* S, double* R) const {
    const nb::tuple t(found);
    add(t[0], (N + 1) * n * n, Q);
    add(t[2], N * m * m, R);
    if (t[1].is_none()) return false;
    add(t[1], N * n * m, S);
    return true;
  }

  nb::object o_;
  size_t entries_ = 0;
};

// groups of rows: (inputs, columns, low (rows,), high (rows,), on (N+1, rows) of 0 and 1)
std::vector<RowGroup> row_groups(const nb::list& rows, size_t N, size_t n, size_t m) {
  std::vector<RowGroup> groups;
  for (nb::handle h : rows) {
    const auto [inputs, columns, low, high, on] = nb::cast<std::tuple<bool, std::vector<int>, Array, Array, Array>>(h);
    const size_t count = low.size();
    for (int c : columns)
      if (c < 0 || size_t(c) >= (inputs ? m : n)) throw nb::value_error("there is no such column");
    const double* where = sized(on, (N + 1) * count, "on");
    groups.push_back({inputs, columns, copied(low, count, "low"), copied(high, count, "high"),
                      std::vector<char>(where, where + on.size())});
  }
  return groups;
}

std::unique_ptr<Problem> quadratic(Core& core, const Options& o, const Array& dt, const nb::list& terms,
                                   const nb::list& boxes, const std::vector<int>& free, int threads) {
  const Sizes z(core.model());
  const size_t N = dt.size(), n = z.ndx, m = z.nU;
  if (!core.model().flat) throw nb::value_error("states must be flat");
  std::vector<QuadraticTerm> costs;
  for (nb::handle h : terms) {
    const auto [w, Xd, Ud, Q, R] = nb::cast<std::tuple<double, Array, Array, Array, Array>>(h);
    const bool full_Q = Q.ndim() == 3, full_R = R.ndim() == 3;
    costs.push_back({w, copied(Xd, (N + 1) * n, "Xd"), copied(Ud, N * m, "Ud"),
                     copied(Q, (N + 1) * n * (full_Q ? n : 1), "Q"), copied(R, N * m * (full_R ? m : 1), "R"), full_Q,
                     full_R});
  }
  std::vector<RowGroup> groups = row_groups(boxes, N, n, m);
  for (const RowGroup& g : groups)
    if (g.columns.size() != g.low.size()) throw nb::value_error("a bound needs its column");
  for (int i : free)
    if (i < 0 || size_t(i) >= n) throw nb::value_error("there is no such component");
  return std::make_unique<QuadraticProblem>(core, o, copied(dt, N, "dt"), std::move(costs), std::move(groups), free,
                                            threads);
}

// body(pulse) without the GIL; signals raise
template <class F> auto run(F body) {
  Pulse pulse;
  decltype(body(pulse)) out{};
  {
    nb::gil_scoped_release nogil;
    try {
      out = body(pulse);
    } catch (const Problem::Interrupted&) {}
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
              const nb::list& boxes, const std::vector<int>& free,
              int threads) { new (self) Shooting(quadratic(core, o, dt, terms, boxes, free, threads), kernels()); },
           "core"_a, "options"_a, "dt"_a, "terms"_a, "boxes"_a, "free"_a, "threads"_a, nb::keep_alive<1, 2>(),
           "The search for a problem of the core: quadratic terms of the cost, boxes, free components of the start.")
      .def(
          "__init__",
          [](Shooting* self, nb::object problem, size_t steps, size_t nx, size_t ndx, size_t nu, const nb::list& rows) {
    auto own = std::make_unique<PythonProblem>(std::move(problem), steps, nx, ndx, nu,
                                               row_groups(rows, steps, ndx, nu));
    new (self) Shooting(std::move(own), kernels());
  }, "problem"_a, "steps"_a, "nx"_a, "ndx"_a, "nu"_a, "rows"_a, "The search for a problem that answers from Python.")
      .def("begin",
           [](Shooting& s, const Array& X, const Array& U) {
    sized(X, (s.problem().N + 1) * s.problem().nx, "X");
    sized(U, s.problem().N * s.problem().m, "U");
    return run([&](Pulse& pulse) { return s.begin(X.data(), U.data(), pulse); });
  }, "X"_a, "U"_a, "Starts from a curve; why not ('cost', 'steps'), or an empty string.")
      .def("iterate",
           [](Shooting& s, double tolerance, bool may_step) {
    const Shooting::Report r = run([&](Pulse& pulse) { return s.iterate(tolerance, may_step, pulse); });
    return nb::make_tuple(r.method, r.slope, r.length, r.trials, r.failed, r.status, r.reason);
  }, "tolerance"_a, "may_step"_a, "One iteration: (method, slope, length, trials, failed, status, reason).")
      .def("close", [](Shooting& s) { return run([&](Pulse& pulse) { return s.close(pulse); }); },
           "Makes the curve a motion.")
      .def_prop_ro("X", [](Shooting& s) { return given(s.curve().X, {s.problem().N + 1, s.problem().nx}); })
      .def_prop_ro("U", [](Shooting& s) { return given(s.curve().U, {s.problem().N, s.problem().m}); })
      .def_prop_ro("gains", [](Shooting& s) { return given(s.gains, {s.problem().N, s.problem().m, s.problem().n}); })
      .def_prop_ro("costates", [](Shooting& s) { return given(s.costates, {s.problem().N + 1, s.problem().n}); })
      .def_prop_ro("multipliers",
                   [](Shooting& s) {
    std::vector<double> y(s.inside().entries());
    for (size_t e = 0; e < y.size(); ++e) y[e] = s.inside().multiplier(e);
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
