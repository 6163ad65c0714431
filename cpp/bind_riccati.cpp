// dalembert._core.riccati: checks shapes, releases the GIL, calls the kernel; computes nothing.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels.hpp"
#include "riccati.hpp"
#include "threads.hpp"

namespace dalembert {

namespace nb = nanobind;

namespace {

using Array = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

[[noreturn]] void wrong(const char* name, const Array& array, const std::string& wanted) {
  std::string shape = "(";
  for (std::size_t i = 0; i < array.ndim(); ++i) shape += (i ? ", " : "") + std::to_string(array.shape(i));
  throw nb::value_error((std::string(name) + " has shape " + shape + "), but " + wanted + " is needed").c_str());
}

// A per-step array (steps, rows[, columns]), or one without the time axis that holds for all steps (stride 0).
std::ptrdiff_t stride(const char* name, const Array& array, std::size_t steps, std::size_t rows, std::size_t columns) {
  const bool matrix = columns != 0;
  const std::size_t rank = matrix ? 2 : 1;
  const std::size_t skip = array.ndim() == rank + 1 ? 1 : 0;
  bool good = array.ndim() == rank + skip && array.shape(skip) == rows && (!matrix || array.shape(skip + 1) == columns);
  if (skip) good = good && array.shape(0) == steps;
  if (!good) {
    const std::string one = std::to_string(rows) + (matrix ? ", " + std::to_string(columns) : "");
    wrong(name, array, "(" + std::to_string(steps) + ", " + one + ") or (" + one + ")");
  }
  return skip ? static_cast<std::ptrdiff_t>(rows * (matrix ? columns : 1)) : 0;
}

nb::ndarray<nb::numpy, double> give(std::unique_ptr<double[]> data, std::initializer_list<std::size_t> shape) {
  double* raw = data.release();
  nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<double*>(p); });
  return nb::ndarray<nb::numpy, double>(raw, shape, owner);
}

nb::tuple solve(const Array& A, const Array& B, const Array& Q, const Array& R, const Array& Qf, int steps,
                const std::optional<Array>& S, const std::optional<Array>& q, const std::optional<Array>& r,
                const std::optional<Array>& qf, const std::optional<Array>& c, double regularization, bool cost_to_go) {
  if (B.ndim() < 2) wrong("B", B, "(steps, n, m) or (n, m)");
  if (steps < 0) throw nb::value_error("steps must not be negative");
  const std::size_t n = B.shape(B.ndim() - 2), m = B.shape(B.ndim() - 1), N = steps;
  if (n == 0 || m == 0) wrong("B", B, "at least one state and one input");
  if (n > 20000 || m > 20000) wrong("B", B, "at most 20000 states and inputs");

  dalembert::RiccatiProblem problem;
  problem.states = static_cast<int>(n);
  problem.inputs = static_cast<int>(m);
  problem.steps = steps;
  problem.regularization = regularization;
  problem.A = A.data();
  problem.A_stride = stride("A", A, N, n, n);
  problem.B = B.data();
  problem.B_stride = stride("B", B, N, n, m);
  problem.Q = Q.data();
  problem.Q_stride = stride("Q", Q, N, n, n);
  problem.R = R.data();
  problem.R_stride = stride("R", R, N, m, m);
  if (Qf.ndim() != 2 || Qf.shape(0) != n || Qf.shape(1) != n) wrong("Qf", Qf, "(n, n)");
  problem.Qf = Qf.data();
  if (S) problem.S = S->data(), problem.S_stride = stride("S", *S, N, n, m);
  if (q) problem.q = q->data(), problem.q_stride = stride("q", *q, N, n, 0);
  if (r) problem.r = r->data(), problem.r_stride = stride("r", *r, N, m, 0);
  if (c) problem.c = c->data(), problem.c_stride = stride("c", *c, N, n, 0);
  if (qf) {
    if (qf->ndim() != 1 || qf->shape(0) != n) wrong("qf", *qf, "(n)");
    problem.qf = qf->data();
  }

  // zero filled: steps before a failed one are zero, not garbage
  auto K = std::make_unique<double[]>(N * m * n);
  auto k = std::make_unique<double[]>(N * m);
  auto P = cost_to_go ? std::make_unique<double[]>((N + 1) * n * n) : nullptr;
  auto p = cost_to_go ? std::make_unique<double[]>((N + 1) * n) : nullptr;
  dalembert::RiccatiSolution solution;
  solution.K = K.get();
  solution.k = k.get();
  solution.P = P.get();
  solution.p = p.get();
  Pulse pulse;
  problem.look = Pulse::look;
  problem.looker = &pulse;
  {
    nb::gil_scoped_release release;
    const auto& table = dalembert::kernels();
    std::unique_ptr<double[]> work(new double[table.riccati_workspace(problem.states, problem.inputs)]);
    table.riccati(problem, solution, work.get());
  }
  pulse.raise();
  nb::dict status;
  status["failed_step"] = solution.failed_step;
  status["failed_input"] = solution.failed_input;
  status["min_pivot"] = solution.min_pivot;
  status["min_pivot_step"] = solution.min_pivot_step;
  status["constant"] = solution.constant;
  nb::object to_go = cost_to_go ? nb::cast(give(std::move(P), {N + 1, n, n})) : nb::none();
  nb::object gradient = cost_to_go ? nb::cast(give(std::move(p), {N + 1, n})) : nb::none();
  return nb::make_tuple(give(std::move(K), {N, m, n}), give(std::move(k), {N, m}), to_go, gradient, status);
}

// The closed-loop linear trajectory of the gains.
nb::tuple rollout(const Array& A, const Array& B, const Array& K, const Array& k, const Array& x0,
                  const std::optional<Array>& c) {
  if (K.ndim() != 3) wrong("K", K, "(steps, m, n)");
  const std::size_t N = K.shape(0), m = K.shape(1), n = K.shape(2);
  if (k.ndim() != 2 || k.shape(0) != N || k.shape(1) != m) wrong("k", k, "(steps, m)");
  if (x0.ndim() != 1 || x0.shape(0) != n) wrong("x0", x0, "(n)");
  dalembert::RiccatiProblem problem;
  problem.states = static_cast<int>(n);
  problem.inputs = static_cast<int>(m);
  problem.steps = static_cast<int>(N);
  problem.A = A.data();
  problem.A_stride = stride("A", A, N, n, n);
  problem.B = B.data();
  problem.B_stride = stride("B", B, N, n, m);
  if (c) problem.c = c->data(), problem.c_stride = stride("c", *c, N, n, 0);
  dalembert::RiccatiSolution solution;
  solution.K = const_cast<double*>(K.data());  // only read
  solution.k = const_cast<double*>(k.data());
  auto X = std::make_unique<double[]>((N + 1) * n);
  auto U = std::make_unique<double[]>(N * m);
  Pulse pulse;
  problem.look = Pulse::look;
  problem.looker = &pulse;
  {
    nb::gil_scoped_release release;
    dalembert::kernels().riccati_rollout(problem, solution, x0.data(), X.get(), U.get());
  }
  pulse.raise();
  return nb::make_tuple(give(std::move(X), {N + 1, n}), give(std::move(U), {N, m}));
}

}  // namespace

void bind_riccati(nb::module_& m) {
  using namespace nb::literals;
  m.def("riccati", &solve, "A"_a, "B"_a, "Q"_a, "R"_a, "Qf"_a, "steps"_a, "S"_a = nb::none(), "q"_a = nb::none(),
        "r"_a = nb::none(), "qf"_a = nb::none(), "c"_a = nb::none(), "regularization"_a = 0.0, "cost_to_go"_a = true,
        "Backward Riccati sweep of an affine LQ problem: (K, k, P, p, status); arrays without time axis are constant.");
  m.def("riccati_rollout", &rollout, "A"_a, "B"_a, "K"_a, "k"_a, "x0"_a, "c"_a = nb::none(),
        "Trajectory (X, U) of x' = A x + B u + c with u = -K x - k.");
}

}  // namespace dalembert
