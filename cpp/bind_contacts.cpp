// Guards of rollouts: converts and checks; computes nothing.
#include <nanobind/stl/tuple.h>
#include "guard.hpp"

namespace dalembert {
namespace {

using Crossing = std::tuple<int, int, double, double, bool, bool>;

void make_guard(Guard* g, Core* gaps, const Array& scale, const std::vector<int>& held, int pressed,
                const std::vector<Crossing>& crossings, const std::vector<double>& rate) {
  Guard out;
  out.gaps = gaps;
  out.scale.assign(scale.data(), scale.data() + scale.size());
  if (size_t(gaps ? gaps->model().nh : 0) != scale.size()) throw nb::value_error("one scale per gap is needed");
  for (int i : held)
    if (i < 0 || size_t(i) >= scale.size()) throw nb::value_error("no such gap");
  out.held = held;
  out.pressed = pressed;
  out.rate = rate;
  for (auto [frame, place, sign, level, either, stops] : crossings) {
    if (place < 0 || (frame >= 0 && place > 2)) throw nb::value_error("no such component");
    out.crossings.push_back({frame, place, sign, level, either, stops});
  }
  new (g) Guard(std::move(out));
}

}  // namespace

void bind_contacts(nb::module_& m) {
  nb::class_<Guard>(
      m, "Guard",
      "What ends a rollout: gaps (the constraints of a core, times `scale`) that close, those `held` (from "
      "the constraint `pressed` on) that pull, and crossings (frame or -1, component, sign, level, both "
      "ways, stops). `rate`: prescribed velocities before the first step, or none.")
      .def("__init__", &make_guard, nb::arg("gaps").none(), nb::arg("scale"), nb::arg("held"), nb::arg("pressed"),
           nb::arg("crossings"), nb::arg("rate") = std::vector<double>(), nb::keep_alive<1, 2>());
}

}  // namespace dalembert
