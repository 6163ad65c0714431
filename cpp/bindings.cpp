// dalembert._core: the module. Its parts convert and check, compute nothing. Arrays are C-contiguous float64, checked
// for size.
#include <algorithm>
#include <stdexcept>
#include "core.hpp"
#include "elements/all.hpp"

using namespace dalembert;

static Options make_options(double alpha, double minus, double plus, double tolerance, double h_tolerance,
                            int max_iterations, bool plain, double stop, const std::vector<double>& h_stop, int order,
                            int stages) {
  Options o;
  o.alpha = alpha;
  o.minus = minus;
  o.plus = plus;
  o.tolerance = tolerance;
  o.h_tolerance = h_tolerance;
  o.max_iterations = max_iterations;
  o.plain = plain;
  o.h_stop = h_stop;
  o.parts = parts_of(order);
  if (!o.parts) throw nb::value_error("order must be 2, 4 or 6");
  if (stages < 1 || stages > 4 || (stages > 1 && order != 2))
    throw nb::value_error("stages must be 1 to 4, of order 2");
  o.stages = stages;
  if (stop > 0 && h_stop.empty()) o.h_stop.push_back(stop);
  // errors in units of these must not overflow
  if (stop > 0) o.stop = std::max(stop, 1e-100);
  for (double& h : o.h_stop) h = std::max(h, 1e-100);
  return o;
}

NB_MODULE(_core, m) {
  m.doc() = "Compiled numeric core of dalembert.";
  numpy_interface();
  nb::set_leak_warnings(false);  // models alive at exit are no leak, and a library prints nothing
  m.def("kernels", [] { return std::string(kernels().name); }, "Name of the instruction set in use.");
  m.def("width", [] { return kernels().width; }, "Rollouts carried side by side in one SIMD register.");
  m.def("set_kernels", [](const std::string& name) { return set_kernels(name.c_str()); },
        "Force an instruction set for cores made from now on ('auto' to choose).");
  m.def("parts", [](int order) {
    const Parts* parts = parts_of(order);
    if (!parts) throw nb::value_error("order must be 2, 4 or 6");
    return std::vector<double>(parts->length, parts->length + parts->count);
  }, "Lengths of the midpoint steps that make one step of this order, as fractions of it.");
  bind_riccati(m);
  nb::dict kinds, ops;
  for (const Family& f : families()) kinds[f.name] = nb::tuple(nb::cast(f.kinds));
#define DALEMBERT_X(name, operands) ops[#name] = operands;
  DALEMBERT_TAPE_OPS(DALEMBERT_X)
#undef DALEMBERT_X
  m.attr("ELEMENT_KINDS") = kinds;  // {family: kinds}
  m.attr("TAPE_OPS") = ops;         // {operation: number of operands}, numbered in this order

  nb::class_<Options>(m, "Options")
      .def("__init__",
           [](Options* o, double a, double mi, double pl, double t, double h, int n, bool p, double s,
              const std::vector<double>& hs, int order,
              int stages) { new (o) Options(make_options(a, mi, pl, t, h, n, p, s, hs, order, stages)); },
           nb::arg("alpha"), nb::arg("minus"), nb::arg("plus"), nb::arg("tolerance"), nb::arg("h_tolerance"),
           nb::arg("max_iterations"), nb::arg("plain"), nb::arg("stop") = 0.0,
           nb::arg("h_stop") = std::vector<double>(), nb::arg("order") = 2, nb::arg("stages") = 1);

  nb::class_<Core> core(m, "Core");
  core.def(nb::init<const nb::dict&>());
  bind_mechanics(core);
  bind_steps(core);
  bind_stepper(m);
  bind_contacts(m);
  bind_rollouts(core);
  bind_trajopt(core);
  bind_parameters(m, core);
  bind_ekf(m);
  bind_motions(m);
  bind_mpc(m);
  bind_shooting(m);
}
