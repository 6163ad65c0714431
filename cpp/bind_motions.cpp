// Batches of motions and their derivatives, for Python and as handlers of XLA: converts and checks; computes nothing.
#include <string>
#include "environments.hpp"
#include "xla.hpp"

namespace dalembert {
namespace {

nb::object trouble(const Trouble& t) {
  if (t.motion < 0) return nb::none();
  return nb::make_tuple(t.motion, t.step, t.status, t.error);
}

// as many steps from `first` as fit
void check_range(const Motions& m, int first, int count) {
  if (first < 0 || count < 1 || first + count > m.steps())
    throw nb::value_error("steps outside of those that are defined");
}

nb::tuple roll(const Motions& m, int first, int count, const Array& x0, const Array& U, int threads) {
  check_range(m, first, count);
  const Sizes& z = m.sizes();
  const int n = int(x0.size() / z.nx);
  sized(U, size_t(n) * count * z.nU, "U");
  double* X;
  nb::object out = make_array({size_t(n), size_t(count) + 1, z.nx}, &X);
  Trouble t;
  {
    nb::gil_scoped_release nogil;
    t = m.roll(n, first, count, x0.data(), U.data(), X, threads);
  }
  return nb::make_tuple(out, trouble(t));
}

nb::tuple push(const Motions& m, int first, int count, const Array& X, const Array& U, const Array& S, const Array& dU,
               int threads) {
  check_range(m, first, count);
  const Sizes& z = m.sizes();
  const int n = int(X.size() / ((count + 1) * z.nx));
  sized(S, size_t(n) * (count + 1) * z.nx, "S");
  sized(U, size_t(n) * count * z.nU, "U");
  sized(dU, size_t(n) * count * z.nU, "dU");
  double* dX;
  nb::object out = make_array({size_t(n), size_t(count) + 1, z.nx}, &dX);
  Trouble t;
  {
    nb::gil_scoped_release nogil;
    t = m.push(n, first, count, X.data(), U.data(), S.data(), dU.data(), dX, threads);
  }
  return nb::make_tuple(out, trouble(t));
}

nb::tuple pull(const Motions& m, int first, int count, const Array& X, const Array& U, const Array& G, int threads) {
  check_range(m, first, count);
  const Sizes& z = m.sizes();
  const int n = int(X.size() / ((count + 1) * z.nx));
  sized(G, size_t(n) * (count + 1) * z.nx, "G");
  sized(U, size_t(n) * count * z.nU, "U");
  double *Z, *gU;
  nb::object out = make_array({size_t(n), size_t(count) + 1, z.nx}, &Z),
             ins = make_array({size_t(n), size_t(count), z.nU}, &gU);
  Trouble t;
  {
    nb::gil_scoped_release nogil;
    t = m.pull(n, first, count, X.data(), U.data(), G.data(), Z, gU, threads);
  }
  return nb::make_tuple(out, ins, trouble(t));
}

nb::tuple kick(const Motions& m, int first, int count, const Array& X, const Array& U, const Array& Z, const Array& dX,
               const Array& dU, int threads) {
  check_range(m, first, count);
  const Sizes& z = m.sizes();
  const int n = int(X.size() / ((count + 1) * z.nx));
  sized(Z, size_t(n) * (count + 1) * z.nx, "Z");
  sized(dX, size_t(n) * (count + 1) * z.nx, "dX");
  sized(U, size_t(n) * count * z.nU, "U");
  sized(dU, size_t(n) * count * z.nU, "dU");
  double *hX, *hU;
  nb::object out = make_array({size_t(n), size_t(count) + 1, z.nx}, &hX),
             ins = make_array({size_t(n), size_t(count), z.nU}, &hU);
  Trouble t;
  {
    nb::gil_scoped_release nogil;
    t = m.kick(n, first, count, X.data(), U.data(), Z.data(), dX.data(), dU.data(), hX, hU, threads);
  }
  return nb::make_tuple(out, ins, trouble(t));
}

// ---- environments

void make_environments(Environments* self, const Motions& m, int n, int steps, const Array& least, const Array& largest,
                       int threads) {
  if (n < 1) throw nb::value_error("at least one environment");
  if (least.size()) sized(least, m.sizes().nx, "least"), sized(largest, m.sizes().nx, "largest");
  auto numbers = [](const Array& a) { return std::vector<double>(a.data(), a.data() + a.size()); };
  new (self) Environments(m, n, steps, numbers(least), numbers(largest), threads);
}

nb::object states(const Environments& e) {
  double* x;
  nb::object out = make_array({e.size(), e.sizes().nx}, &x);
  std::copy_n(e.states(), e.size() * e.sizes().nx, x);
  return out;
}

nb::tuple step_environments(Environments& e, const Array& u, const Array& starts, double reward) {
  sized(u, e.size() * e.sizes().nU, "actions");
  sized(starts, e.due() * e.sizes().nx, "starts");
  double* rewards;
  bool *over, *truncated, *failed;
  nb::object all = make_array({e.size()}, &rewards), ends = make_flags(e.size(), &over),
             cuts = make_flags(e.size(), &truncated), lost = nb::none();
  {
    nb::gil_scoped_release nogil;
    e.step(u.data(), starts.data(), reward, rewards, over, truncated);
  }
  if (std::count(e.failed().begin(), e.failed().end(), 1)) {
    lost = make_flags(e.size(), &failed);
    std::copy(e.failed().begin(), e.failed().end(), failed);
  }
  return nb::make_tuple(states(e), all, ends, cuts, lost);
}

// ---- handlers of XLA: buffers as above with any leading axes; attributes motions (address), first, count, threads

xla::Error* fail(const xla::Call* call, const std::string& message, int code = xla::kInvalid) {
  xla::ErrorArguments a{sizeof(xla::ErrorArguments), nullptr, message.c_str(), code};
  return call->api->make_error(&a);
}

bool asks_for_metadata(const xla::Call* call) {
  const xla::Extension* e = call->extension;
  if (!e || e->type != 1) return false;
  xla::Metadata* m = reinterpret_cast<const xla::MetadataExtension*>(e)->metadata;
  m->version.major = call->api->version.major;  // layouts are checked when the handlers are registered
  m->version.minor = call->api->version.minor;
  m->traits = 0;
  return true;
}

struct Request {
  const Motions* motions = nullptr;
  int first = 0, count = 0, threads = 1, n = 0;
  const double* in[5] = {};
  double* out[2] = {};

  // an error, or null
  xla::Error* read(const xla::Call* call, int inputs, int outputs, bool state_first_is_start) {
    int64_t values[4] = {0, 0, 0, 0};
    const char* names[4] = {"motions", "first", "count", "threads"};
    for (int64_t i = 0; i < call->attributes.count; ++i) {
      const xla::Name& name = *call->attributes.names[i];
      for (int j = 0; j < 4; ++j)
        if (std::string(name.text, name.length) == names[j]) {
          const auto* s = static_cast<const xla::Scalar*>(call->attributes.values[i]);
          if (call->attributes.types[i] != xla::kScalar || s->type != xla::kInt64)
            return fail(call, "an attribute is no int64");
          values[j] = *static_cast<const int64_t*>(s->value);
        }
    }
    if (!values[0] || call->arguments.count != inputs || call->results.count != outputs)
      return fail(call, "wrong number of arguments");
    motions = reinterpret_cast<const Motions*>(values[0]);
    first = int(values[1]);
    count = int(values[2]);
    threads = int(values[3]);
    if (first < 0 || count < 1 || first + count > motions->steps())
      return fail(call, "steps outside of those that are defined");
    size_t sizes[5];
    for (int i = 0; i < inputs; ++i) {
      const auto* b = static_cast<const xla::Buffer*>(call->arguments.values[i]);
      if (b->type != xla::kFloat64) return fail(call, "float64 is needed: jax.config.update('jax_enable_x64', True)");
      sizes[i] = 1;
      for (int64_t d = 0; d < b->rank; ++d) sizes[i] *= size_t(b->dims[d]);
      in[i] = static_cast<const double*>(b->data);
    }
    for (int i = 0; i < outputs; ++i)
      out[i] = static_cast<double*>(static_cast<xla::Buffer*>(call->results.values[i])->data);
    const size_t states = motions->sizes().nx * (state_first_is_start ? 1 : size_t(count) + 1);
    n = int(sizes[0] / states);
    const size_t each_u = size_t(n) * count * motions->sizes().nU;
    if (size_t(n) * states != sizes[0] || sizes[1] != each_u)
      return fail(call, "shapes of states and inputs do not match");
    return nullptr;
  }
};

xla::Error* answer(const xla::Call* call, const Trouble& t) {
  if (t.motion < 0) return nullptr;
  return fail(call,
              "dalembert: step " + std::to_string(t.step) + " of motion " + std::to_string(t.motion) +
                  " has no solution (ConvergenceError); take shorter steps, or call System.f there to see why",
              xla::kInternal);
}

template <class F> xla::Error* handle(xla::Call* call, int inputs, int outputs, bool start, F run) {
  if (asks_for_metadata(call)) return nullptr;
  if (call->stage != xla::kExecute) return nullptr;
  Request r;
  if (xla::Error* e = r.read(call, inputs, outputs, start)) return e;
  try {
    return answer(call, run(r));
  } catch (const std::exception& e) { return fail(call, e.what(), xla::kInternal); }
}

xla::Error* xla_roll(xla::Call* call) {
  return handle(call, 2, 1, true, [](Request& r) {
    return r.motions->roll(r.n, r.first, r.count, r.in[0], r.in[1], r.out[0], r.threads);
  });
}
xla::Error* xla_push(xla::Call* call) {
  return handle(call, 4, 1, false, [](Request& r) {
    return r.motions->push(r.n, r.first, r.count, r.in[0], r.in[1], r.in[2], r.in[3], r.out[0], r.threads);
  });
}
xla::Error* xla_pull(xla::Call* call) {
  return handle(call, 3, 2, false, [](Request& r) {
    return r.motions->pull(r.n, r.first, r.count, r.in[0], r.in[1], r.in[2], r.out[0], r.out[1], r.threads);
  });
}
xla::Error* xla_kick(xla::Call* call) {
  return handle(call, 5, 2, false, [](Request& r) {
    return r.motions->kick(r.n, r.first, r.count, r.in[0], r.in[1], r.in[2], r.in[3], r.in[4], r.out[0], r.out[1],
                           r.threads);
  });
}

}  // namespace

void bind_motions(nb::module_& m) {
  nb::class_<Motions>(m, "Motions", "Motions of the steps dt of one model, and their derivatives in coordinates.")
      .def("__init__",
           [](Motions* self, Core& core, const Options& o, const Array& dt) {
    new (self) Motions(core, o, dt.data(), int(dt.size()));
  }, nb::keep_alive<1, 2>())
      .def("roll", &roll)
      .def("push", &push)
      .def("pull", &pull)
      .def("kick", &kick)
      .def_prop_ro("address", [](const Motions& self) { return reinterpret_cast<uintptr_t>(&self); });
  nb::class_<Environments>(m, "Environments", "Environments of one model that step together.")
      .def("__init__", &make_environments, nb::keep_alive<1, 2>())
      .def("begin",
           [](Environments& e, const Array& x) {
    sized(x, e.size() * e.sizes().nx, "x");
    e.begin(x.data());
  }, "Begin all episodes in the states x (n, nx).")
      .def("step", &step_environments, nb::arg("u"), nb::arg("starts"), nb::arg("reward"),
           "One step of each: (states, rewards, over, truncated, failed or None); those that ended before take "
           "`starts`.")
      .def("end",
           [](Environments& e, const nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>& over) {
    if (over.size() != e.size()) throw nb::value_error("over: one for each environment");
    e.end(over.data());
  }, "End episodes (n).")
      .def_prop_ro("states", &states)
      .def_prop_ro("due", &Environments::due);
  m.def("xla_handlers", [] {
    nb::dict found;
    auto add = [&](const char* name, xla::Error* (*f)(xla::Call*)) {
      found[name] = nb::capsule(reinterpret_cast<void*>(f), "xla._CUSTOM_CALL_TARGET");
    };
    add("roll", &xla_roll);
    add("push", &xla_push);
    add("pull", &xla_pull);
    add("kick", &xla_kick);
    return found;
  }, "Handlers for XLA's foreign-function interface, as capsules.");
}

}  // namespace dalembert
