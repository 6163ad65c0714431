// Simulations, batches of them, closed loops: converts and checks, starts threads; computes nothing.
#include <algorithm>
#include <chrono>
#include "calls.hpp"
#include "guard.hpp"
#include "threads.hpp"

namespace dalembert {
namespace {

// Steps of one rollout in blocks of some milliseconds, so that signals are seen; calls after(steps done) with every
// block. Without the GIL.
template <class F>
RolloutStatus in_blocks(Core& core, Scratch* s, const Options& o, const Rollout& r, Pulse& pulse, F after) {
  RolloutStatus st;
  int block = r.adapt > 0 ? 1 : 64 / std::min(64, std::max(1, core.model().nq)), done = 0;
  while (done < r.steps && st.status == 0 && !st.stopped) {
    auto begin = std::chrono::steady_clock::now();
    st = core.table().rollout(s, o, r, done, std::min(r.steps - done, block) + done, done > 0);
    done = st.steps;
    double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (sec < 0.01 && block < (1 << 20)) block *= 2;
    if (sec > 0.04 && block > 1) block /= 2;
    after(done);
    if (done < r.steps && !st.stopped && pulse())
      break;  // what is complete is not interrupted: the interpreter raises it
  }
  return st;
}

// prescribed values of `count` runs: at the ends of the steps, or of all their parts. Sets `by_part`.
const double* path(const OptArray& Rho, size_t count, size_t steps, size_t nqk, const Options& o, bool* by_part) {
  *by_part = Rho && o.parts->count > 1 && Rho->size() == count * steps * o.parts->count * nqk && nqk * steps > 0;
  return sized(Rho, count * steps * (*by_part ? o.parts->count : 1) * nqk, "kinematic");
}

// The first steps of a motion cannot be judged when they are made: they are as good as the first that can.
void judge_first(double* checks, size_t rows) {
  auto take = [&](size_t row, size_t from, int column) {
    double &a = checks[row * kChecks + column], b = checks[from * kChecks + column];
    if (a < b) a = b;
  };
  if (rows > 1) take(0, 1, 0);
  if (rows > 2)
    for (size_t row : {1, 0}) take(row, 2, 1);
}

// the largest jump of energy and the largest local error of all rows
nb::tuple largest(const double* checks, size_t rows) {
  double jump = 0, error = 0;
  for (size_t i = 0; i < rows; ++i, checks += kChecks) {
    if (!(checks[0] <= jump)) jump = checks[0];
    if (!(checks[1] <= error)) error = checks[1];
  }
  return nb::make_tuple(jump, error);
}

// Inputs of a rollout by a Python function of (t, State), asked once per step; the GIL is held. What it returns is
// taken as it is (numbers (nu) of a model without prescribed variables) or as `convert(k, returned, q)` makes (u, next
// rho or None) of it. What it raises ends the rollout and is kept.
class Policy {
 public:
  // given: (function, convert, Stepper, times (N + 1), first State); held: prescribed variables rest where nothing is
  // said
  Policy(const nb::tuple& given, const Rollout& r, double* U, double* Rho, size_t rho_row, bool held, const Sizes& z)
      : policy_(given[0]),
        convert_(given[1]),
        stepper_(nb::cast<const Stepper&>(nb::object(given[2]))),
        t_(nb::cast<Array>(nb::object(given[3]))),
        r_(r),
        U_(U),
        Rho_(Rho),
        rho_row_(rho_row),
        held_(held),
        z_(z),
        state_(given[4]) {
    sized(t_, size_t(r.steps) + 1, "t");
  }
  // asks for the inputs of step k; true ends the rollout
  bool ask(int k) {
    try {
      const size_t row = size_t(k), before = row - 1;
      if (k > 0)
        state_ = stepper_.state(t_.data()[row], r_.Q + row * z_.nq, r_.P + row * z_.nd,
                                z_.nc ? r_.Lam + before * z_.nc : nullptr, z_.nk ? r_.Vrho + row * z_.nk : nullptr);
      answer(row);
      return false;
    } catch (nb::python_error& error) { raised_ = nb::borrow(error.value()); } catch (const std::exception& error) {
      raised_ = nb::borrow(PyExc_ValueError)(error.what());
    }
    return true;
  }
  static bool look(void* self, int k) {
    Policy& p = *static_cast<Policy*>(self);
    return k + 1 < p.r_.steps && p.ask(k + 1);
  }
  nb::object raised() const { return raised_; }

 private:
  void answer(size_t k) {
    const nb::float_ t(t_.data()[k]);
    PyObject* const arguments[] = {t.ptr(), state_.ptr()};
    const nb::object out = nb::steal(PyObject_Vectorcall(policy_.ptr(), arguments, 2, nullptr));
    if (!out.is_valid()) throw nb::python_error();
    double *u = U_ + k * z_.nu, *rho = Rho_ + k * rho_row_;
    if (const double* x = z_.nk ? nullptr : plain(out.ptr(), z_.nu, true)) {
      std::memcpy(u, x, z_.nu * sizeof(double));
      return;
    }
    const nb::object both = convert_(k, out, state_.attr("q")), next = both[1];
    std::memcpy(u, sized(nb::cast<Array>(nb::object(both[0])), z_.nu, "u"), z_.nu * sizeof(double));
    if (!next.is_none()) std::memcpy(rho, sized(nb::cast<Array>(next), rho_row_, "rho"), rho_row_ * sizeof(double));
    else if (held_) std::memcpy(rho, r_.Q + (k + 1) * z_.nq - z_.nqk, z_.nqk * sizeof(double));
  }

  nb::object policy_, convert_;
  const Stepper& stepper_;
  const Array t_;
  const Rollout& r_;
  double *U_, *Rho_;
  const size_t rho_row_;
  const bool held_;
  const Sizes z_;
  nb::object state_, raised_ = nb::none();
};

// ---- a rollout in blocks, so that Ctrl-C is seen; only every n-th state is stored. With adapt, `rho_rows` prescribed
// values per step, at equal times. Without `judged` there are no checks (0 rows). The last results: whether the guard
// has seen a gap or a contact that needs care in the last step, and the numbers of its events; of a policy its inputs,
// prescribed values and what it has raised.
nb::tuple simulate(Core& core, const Options& o, const Array& q0, const Array& p0, const Array& dt, const OptArray& U,
                   const OptArray& Rho, int every, const nb::object& progress, double adapt, int rho_rows, bool judged,
                   const Guard* guard, const std::optional<nb::tuple>& policy) {
  const ModelData& M = core.model();
  Sizes z(M);
  int steps = int(dt.size());
  if (every < 1 || steps % every) throw nb::value_error("the number of steps must be a multiple of `every`");
  sized(q0, z.nq, "q");
  sized(p0, z.nd, "p");
  size_t rows = steps / every;
  double *Q, *P, *L, *I, *C;
  nb::object aq = make_array({rows + 1, z.nq}, &Q), ap = make_array({rows + 1, z.nd}, &P),
             al = make_array({rows, z.nc}, &L), ai = make_array({rows}, &I),
             ac = make_array({judged ? rows : 0, kChecks}, &C);
  std::memcpy(Q, q0.data(), z.nq * sizeof(double));
  std::memcpy(P, p0.data(), z.nd * sizeof(double));
  std::vector<int> its(rows + 1);
  Rollout r{steps, dt.data(), sized(U, size_t(steps) * z.nu, "u"), nullptr, Q, P, L, its.data(), every};
  r.checks = judged ? C : nullptr;
  r.adapt = adapt;
  if (adapt > 0) {
    if (rho_rows < 1) throw nb::value_error("rho_rows must be positive");
    r.rho_rows = rho_rows;
    r.Rho = sized(Rho, size_t(steps) * rho_rows * z.nqk, "kinematic");
  } else {
    r.Rho = path(Rho, 1, steps, z.nqk, o, &r.rho_by_part);
  }
  RolloutStatus st;
  Pulse pulse;
  std::optional<Watchman> watchman;
  std::optional<Policy> asked;
  nb::object au = nb::none(), arho = nb::none();
  std::vector<double> rates;
  double* X;
  nb::object ax = make_array({guard ? rows + 1 : 0, guard ? guard->crossings.size() : 0}, &X);
  {
    Lease s(core);
    if (guard) {
      if (every != 1 || adapt > 0) throw nb::value_error("a guard looks at every step");
      rates.resize(size_t(steps + 1) * z.nk + 1);
      r.Vrho = z.nk ? rates.data() : nullptr;
      watchman.emplace(*guard, core, r, X);
      r.look = &Watchman::look;
      r.looker = &*watchman;
    }
    bool ended = false;
    if (policy) {
      if (guard || every != 1) throw nb::value_error("a policy is asked before every step, and without a guard");
      const size_t row = z.nqk * (adapt > 0 ? rho_rows : r.rho_by_part ? o.parts->count : 1);
      double* u;
      au = make_array({size_t(steps), z.nu}, &u);
      r.U = u;
      arho = make_array({size_t(steps), row}, &u);
      if (r.Rho) std::memcpy(u, r.Rho, size_t(steps) * row * sizeof(double));
      const bool held = !r.Rho;
      if (z.nk) {
        r.Rho = u;
        rates.resize(size_t(steps + 1) * z.nk + 1);
        r.Vrho = rates.data();
      }
      asked.emplace(*policy, r, const_cast<double*>(r.U), u, row, held, z);
      r.look = &Policy::look;
      r.looker = &*asked;
      ended = steps > 0 && asked->ask(0);
    }
    std::optional<nb::gil_scoped_release> nogil;
    if (!policy) nogil.emplace();
    if (!ended)
      st = in_blocks(core, s, o, r, pulse, [&](int done) {
        if (progress.is_none()) return;
        nb::gil_scoped_acquire gil;
        progress(done);
      });
  }
  const int done = st.steps;
  pulse.look_again();
  const bool stop = pulse.keep_results();
  if (!stop) pulse.raise();
  for (size_t i = 0; i < rows; ++i) I[i] = its[i];
  if (judged && !(adapt > 0) && every == 1) judge_first(C, done);
  return nb::make_tuple(aq, ap, al, ai, done, st.status, st.error, stop, ac, largest(C, judged ? done / every : 0),
                        watchman && watchman->touched, ax, au, arho, asked ? asked->raised() : nb::none());
}

// how good the steps of a motion are that is there already: (N, kChecks), and the number of steps that could be
// solved again
nb::tuple checks(Core& core, const Options& o, const Array& Q, const Array& P, const Array& dt, const OptArray& U,
                 const OptArray& Rho) {
  Sizes z(core.model());
  const size_t steps = dt.size();
  double* C;
  nb::object ac = make_array({steps, kChecks}, &C);
  Rollout r{int(steps), dt.data(), sized(U, steps * z.nu, "u"), nullptr, nullptr, nullptr, nullptr, nullptr};
  r.Q = const_cast<double*>(sized(Q, (steps + 1) * z.nq, "q"));  // only read: the motion is given
  r.P = const_cast<double*>(sized(P, (steps + 1) * z.nd, "p"));
  r.Rho = path(Rho, 1, steps, z.nqk, o, &r.rho_by_part);
  r.checks = C;
  r.given = true;
  RolloutStatus st;
  {
    Lease s(core);
    nb::gil_scoped_release nogil;
    st = core.table().rollout(s, o, r, 0, int(steps), false);
  }
  judge_first(C, st.steps);
  return nb::make_tuple(ac, st.steps);
}

// many rollouts: (count, nq), (count, nd), U (count or 1, steps, nu), Rho (...)
nb::tuple rollouts(Core& core, const Options& o, const Array& q0, const Array& p0, const Array& dt, const OptArray& U,
                   const OptArray& Rho, bool shared_u, bool shared_rho, int threads, bool lanes, bool keep,
                   bool judged) {
  const ModelData& M = core.model();
  Sizes z(M);
  size_t count = z.nq ? q0.size() / z.nq : 0;
  int steps = int(dt.size());
  sized(q0, count * z.nq, "q");
  sized(p0, count * z.nd, "p");
  bool by_part;
  const double *u = sized(U, (shared_u ? 1 : count) * steps * z.nu, "u"),
               *rho = path(Rho, shared_rho ? 1 : count, steps, z.nqk, o, &by_part);
  size_t rows = keep ? steps + 1 : 1, rho_rows = size_t(steps) * (by_part ? o.parts->count : 1);
  const size_t check_rows = !judged ? 0 : keep ? steps : steps > 0;
  double *Q, *P, *L, *C;
  nb::object aq = make_array({count, rows, z.nq}, &Q), ap = make_array({count, rows, z.nd}, &P),
             al = make_array({count, keep ? size_t(steps) : 0, z.nc}, &L),
             ac = make_array({count, check_rows, kChecks}, &C);
  std::vector<RolloutStatus> status(count);
  volatile bool stop = false;
  Pulse pulse;
  const KernelTable& k = core.table();
  lanes = lanes && o.stages == 1;  // stages have a matrix of their own in every lane
  size_t width = lanes ? k.width : 1;
  for (size_t c = 0; c < count; ++c) {
    std::memcpy(Q + c * rows * z.nq, q0.data() + c * z.nq, z.nq * sizeof(double));
    std::memcpy(P + c * rows * z.nd, p0.data() + c * z.nd, z.nd * sizeof(double));
  }
  watched(int((count + width - 1) / width), threads, stop, pulse, [&](int g) {
    Lease s(core, lanes);
    Rollout r[8];
    int n = 0;
    for (; n < int(width) && size_t(g) * width + n < count; ++n) {
      size_t c = size_t(g) * width + n;
      r[n] = Rollout{steps,
                     dt.data(),
                     u ? u + (shared_u ? 0 : c) * steps * z.nu : nullptr,
                     rho ? rho + (shared_rho ? 0 : c) * rho_rows * z.nqk : nullptr,
                     Q + c * rows * z.nq,
                     P + c * rows * z.nd,
                     keep ? L + c * steps * z.nc : nullptr,
                     nullptr,
                     keep ? 1 : 0,
                     by_part};
      r[n].checks = judged ? C + c * check_rows * kChecks : nullptr;
    }
    RolloutStatus* st = &status[size_t(g) * width];
    if (lanes) {
      k.rollout_lanes(s, o, r, n, 0, steps, st, &stop);
      return;
    }
    const int block = 256 / std::min(256, std::max(1, M.nq));
    for (int from = 0; from < steps && !stop && st->status == 0; from += block)
      *st = k.rollout(s, o, r[0], from, from + block < steps ? from + block : steps, from > 0);
  });
  if (keep && judged)
    for (size_t c = 0; c < count; ++c) judge_first(C + c * check_rows * kChecks, status[c].steps);
  nb::list done, codes;
  for (const RolloutStatus& st : status) {
    done.append(st.steps);
    codes.append(st.status);
  }
  // interrupted: something is left to be done
  const bool complete = std::all_of(status.begin(), status.end(),
                                    [&](auto& st) { return st.steps == steps || st.status != 0; });
  if (complete || !pulse.keep_results()) pulse.raise();
  return nb::make_tuple(aq, ap, al, done, codes, !complete, ac);
}

// closed loop around a reference: u_k = Uref - K (x - Xref)
nb::tuple project(Core& core, const Options& o, const Array& x0, const Array& Xref, const Array& Uref, const Array& K,
                  const Array& dt) {
  const ModelData& M = core.model();
  Sizes z(M);
  size_t steps = dt.size();
  sized(x0, z.nx, "x0");
  sized(Xref, (steps + 1) * z.nx, "X");
  sized(Uref, steps * z.nU, "U");
  sized(K, steps * z.nU * z.ndx, "K");
  double *X, *U;
  nb::object ax = make_array({steps + 1, z.nx}, &X), au = make_array({steps, z.nU}, &U);
  std::vector<double> Q((steps + 1) * z.nq + 1), P((steps + 1) * z.nd + 1), V((steps + 1) * z.nk + 1),
      u(steps * z.nu + 1), rho(steps * z.nk + 1);
  std::memcpy(Q.data(), x0.data(), z.nq * sizeof(double));
  std::memcpy(P.data(), x0.data() + z.nq, z.nd * sizeof(double));
  std::memcpy(V.data(), x0.data() + z.nq + z.nd, z.nk * sizeof(double));
  RolloutStatus st;
  Pulse pulse;
  {
    Lease s(core);
    nb::gil_scoped_release nogil;
    Rollout r{int(steps), dt.data(), nullptr, nullptr, Q.data(), P.data(), nullptr, nullptr};
    r.K = K.data();
    r.Xref = Xref.data();
    r.Uref = Uref.data();
    r.Uout = u.data();
    r.Rhoout = rho.data();
    r.Vrho = V.data();
    st = in_blocks(core, s, o, r, pulse, [](int) {});
    for (size_t k = 0; k <= size_t(st.steps); ++k) {
      double* x = X + k * z.nx;
      std::memcpy(x, &Q[k * z.nq], z.nq * sizeof(double));
      std::memcpy(x + z.nq, &P[k * z.nd], z.nd * sizeof(double));
      std::memcpy(x + z.nq + z.nd, &V[k * z.nk], z.nk * sizeof(double));
    }
    for (size_t k = 0; k < size_t(st.steps); ++k) {
      std::memcpy(U + k * z.nU, &u[k * z.nu], z.nu * sizeof(double));
      std::memcpy(U + k * z.nU + z.nu, &rho[k * z.nk], z.nk * sizeof(double));
    }
  }
  pulse.raise();
  return nb::make_tuple(ax, au, st.steps, st.status, st.error);
}

}  // namespace

void bind_rollouts(nb::class_<Core>& c) {
  c.def("simulate", &simulate, nb::arg("options"), nb::arg("q"), nb::arg("p"), nb::arg("dt"), nb::arg("u").none(),
        nb::arg("kinematic").none(), nb::arg("every"), nb::arg("progress").none() = nb::none(), nb::arg("adapt") = 0.0,
        nb::arg("rho_rows") = 1, nb::arg("judged") = true, nb::arg("guard").none() = nb::none(),
        nb::arg("policy").none() = nb::none())
      .def("checks", &checks, nb::arg("options"), nb::arg("q"), nb::arg("p"), nb::arg("dt"), nb::arg("u").none(),
           nb::arg("kinematic").none())
      .def("rollouts", &rollouts, nb::arg("options"), nb::arg("q"), nb::arg("p"), nb::arg("dt"), nb::arg("u").none(),
           nb::arg("kinematic").none(), nb::arg("shared_u"), nb::arg("shared_rho"), nb::arg("threads"),
           nb::arg("lanes"), nb::arg("keep"), nb::arg("judged") = true)
      .def("project", &project);
}

}  // namespace dalembert
