// The one-step map and its derivatives: converts and checks; computes nothing.
#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include "calls.hpp"
#include "threads.hpp"
#include "tied.hpp"

namespace dalembert {
namespace {

double cpu_seconds() {  // of this thread: a busy machine must not spoil a timing
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// the first step that failed, and why
struct Failure {
  explicit Failure(int steps) : at(steps) {}
  void add(int step, int status) {
    std::lock_guard<std::mutex> lock(mutex);
    if (step < at) at = step, code = status;
  }
  std::atomic<int> at;
  int code = 0;
  std::mutex mutex;
};

// steps that take some milliseconds
int at_a_time(size_t ndx) { return std::max(1, int(std::min<size_t>(64, 2000 / (ndx + 1)))); }

nb::tuple linearize_trajectory(Core& core, const Options& o, const Array& X, const Array& U, const Array& dt,
                               const OptArray& Lam, int threads) {
  const ModelData& M = core.model();
  Sizes z(M);
  int steps = int(dt.size());
  sized(X, size_t(steps + 1) * z.nx, "X");
  sized(U, size_t(steps) * z.nU, "U");
  const double* lam0 = sized(Lam, size_t(steps) * z.nc, "lam");
  double *A, *B;
  nb::object aa = make_array({size_t(steps), z.ndx, z.ndx}, &A), ab = make_array({size_t(steps), z.ndx, z.nW}, &B);
  Failure bad(steps);
  Pulse pulse;
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    parallel(steps, threads, at_a_time(z.ndx), pulse, [&](auto turn) {
      Lease s(core);
      std::vector<double> y(z.nq + 1), lam(z.nc + 1);
      for (auto range = turn(); range.first < range.second; range = turn())
        for (int i = range.first; i < range.second && i < bad.at; ++i) {
          const double *x = X.data() + i * z.nx, *u = U.data() + i * z.nU;
          std::memcpy(y.data(), x + z.nx, (z.nq - z.nqk) * sizeof(double));
          std::memcpy(y.data() + z.nq - z.nqk, u + z.nu, z.nqk * sizeof(double));
          if (lam0) std::memcpy(lam.data(), lam0 + i * z.nc, z.nc * sizeof(double));
          else if (o.stop > 0)
            std::fill(lam.begin(), lam.end(), 0.0);  // no step's end may depend on the steps before it
          int st = k.linearize(s, o, dt.data()[i], x, x + z.nq, u, y.data(), lam.data(), Given::guess,
                               A + i * z.ndx * z.ndx, B + i * z.ndx * z.nW);
          if (st) {
            bad.add(i, st);
            break;
          }
        }
    });
  }
  pulse.raise();
  return nb::make_tuple(aa, ab, int(bad.at), bad.code);
}

nb::tuple second_order_trajectory(Core& core, const Options& o, const Array& X, const Array& U, const Array& dt,
                                  const Array& Zc, int threads) {
  const ModelData& M = core.model();
  Sizes z(M);
  int steps = int(dt.size());
  sized(X, size_t(steps + 1) * z.nx, "X");
  sized(U, size_t(steps) * z.nU, "U");
  sized(Zc, size_t(steps) * z.ndx, "Z");
  double *xx, *xu, *uu;
  nb::object a1 = make_array({size_t(steps), z.ndx, z.ndx}, &xx), a2 = make_array({size_t(steps), z.ndx, z.nW}, &xu),
             a3 = make_array({size_t(steps), z.nW, z.nW}, &uu);
  Failure bad(steps);
  Pulse pulse;
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    parallel(steps, threads, at_a_time(z.ndx), pulse, [&](auto turn) {
      Lease s(core);
      std::vector<double> y(z.nq + 1), lam(z.nc + 1), zc(2 * z.nd + z.nc + 1), H(z.nw * z.nw + 1);
      for (auto range = turn(); range.first < range.second; range = turn())
        for (int i = range.first; i < range.second && i < bad.at; ++i) {
          const double *x = X.data() + i * z.nx, *u = U.data() + i * z.nU, *c = Zc.data() + i * z.ndx;
          std::memcpy(y.data(), x + z.nx, (z.nq - z.nqk) * sizeof(double));
          std::memcpy(y.data() + z.nq - z.nqk, u + z.nu, z.nqk * sizeof(double));
          std::memcpy(zc.data(), c, z.nd * sizeof(double));
          std::memcpy(zc.data() + z.nd, c + z.nv, z.nd * sizeof(double));
          if (o.stop > 0) std::fill(lam.begin(), lam.end(), 0.0);
          int st = k.second_order(s, o, dt.data()[i], x, x + z.nq, u, y.data(), lam.data(), Given::guess, 1, zc.data(),
                                  H.data());
          if (st) {
            bad.add(i, st);
            break;
          }
          size_t ns = z.nv + z.nd;
          for (size_t r = 0; r < ns; ++r) {
            std::memcpy(xx + (i * z.ndx + r) * z.ndx, &H[r * z.nw], ns * sizeof(double));
            std::memcpy(xu + (i * z.ndx + r) * z.nW, &H[r * z.nw + ns], z.nW * sizeof(double));
          }
          for (size_t r = 0; r < z.nW; ++r)
            std::memcpy(uu + (i * z.nW + r) * z.nW, &H[(ns + r) * z.nw + ns], z.nW * sizeof(double));
        }
    });
  }
  pulse.raise();
  return nb::make_tuple(a1, a2, a3, int(bad.at), bad.code);
}

}  // namespace

void bind_stepper(nb::module_& m) {
  nb::class_<Stepper>(m, "Stepper")
      .def(nb::init<nb::object, const Options&, nb::object, nb::object, nb::object, nb::object>(), nb::arg("core"),
           nb::arg("options"), nb::arg("state"), nb::arg("model"), nb::arg("at_rest"), nb::arg("no_lam"))
      .def_prop_ro("ties", [](const Stepper& s) { return Tied::knows(s.call().core().model()); })
      .def("step", &Stepper::step, nb::arg("state").none(), nb::arg("u").none(), nb::arg("dt"))
      .def("linearize", &Stepper::linearize, nb::arg("state").none(), nb::arg("u").none(), nb::arg("dt"))
      .def("push", &Stepper::push, nb::arg("x").none(), nb::arg("u").none(), nb::arg("dt"), nb::arg("dx").none(),
           nb::arg("du").none())
      .def("pull", &Stepper::pull, nb::arg("x").none(), nb::arg("u").none(), nb::arg("dt"), nb::arg("z").none())
      .def("advance", &Stepper::advance, nb::arg("x").none(), nb::arg("u").none(), nb::arg("dt"),
           nb::arg("guess").none(), nb::arg("derive"));
}

void bind_steps(nb::class_<Core>& c) {
  c.def("step",
        [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& guess,
           const Array& lam) {
    const Sizes z(c.model());
    sized(x, z.nq, "q");
    sized(p, z.nd, "p");
    sized(u, z.nu, "u");
    double *y, *l, *p_next, error = 0;
    int iterations = 0;
    nb::object aq = make_array({z.nq}, &y), al = make_array({z.nc}, &l), ap = make_array({z.nd}, &p_next);
    std::memcpy(y, sized(guess, z.nq, "guess"), z.nq * sizeof(double));
    std::memcpy(l, sized(lam, z.nc, "lam"), z.nc * sizeof(double));
    Lease s(c);
    const int status = c.table().step(s, o, dt, x.data(), p.data(), u.data(), y, l, p_next, &iterations, &error);
    return nb::make_tuple(aq, ap, al, iterations, status, error);
  })
      .def("linearize_trajectory", &linearize_trajectory, nb::arg("options"), nb::arg("X"), nb::arg("U"), nb::arg("dt"),
           nb::arg("lam").none(), nb::arg("threads"))
      .def("second_order_trajectory", &second_order_trajectory)
      .def("derivatives",
           [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y,
              const Array& lam, bool with_dt) {
    Sizes z(c.model());
    sized(x, z.nq, "q");
    sized(p, z.nd, "p");
    sized(u, z.nu, "u");
    sized(y, z.nq, "next q");
    sized(lam, z.nc, "lam");
    size_t nw = z.nw + with_dt;
    double *Y, *P, *L;
    nb::object a = make_array({z.nd, nw}, &Y), b = make_array({z.nd, nw}, &P), l = make_array({z.nc, nw}, &L);
    Lease s(c);
    End end(y, lam);
    int status = c.table().derivatives(s, o, dt, x.data(), p.data(), u.data(), end.y.data(), end.lam.data(), Y, P, L,
                                       with_dt);
    return nb::make_tuple(a, b, l, status == 0);
  })
      .def("adjoint",
           [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y,
              const Array& lam, const Array& zq, const Array& zp, const Array& zl) {
    Sizes z(c.model());
    sized(x, z.nq, "q");
    sized(p, z.nd, "p");
    sized(u, z.nu, "u");
    sized(y, z.nq, "next q");
    sized(lam, z.nc, "lam");
    sized(zq, z.nd, "zq");
    sized(zp, z.nd, "zp");
    sized(zl, z.nc, "zl");
    double* g;
    nb::object a = make_array({z.nw}, &g);
    Lease s(c);
    End end(y, lam);
    int status = c.table().adjoint(s, o, dt, x.data(), p.data(), u.data(), end.y.data(), end.lam.data(),
                                   Given::solution, zq.data(), zp.data(), zl.data(), g);
    return nb::make_tuple(a, status == 0);
  })
      .def("second_order",
           [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y,
              const Array& lam, const Array& Zc) {
    Sizes z(c.model());
    sized(x, z.nq, "q");
    sized(p, z.nd, "p");
    sized(u, z.nu, "u");
    sized(y, z.nq, "next q");
    sized(lam, z.nc, "lam");
    size_t len = 2 * z.nd + z.nc, count = len ? Zc.size() / len : 0;
    sized(Zc, count * len, "costates");
    double* H;
    nb::object a = make_array({count, z.nw, z.nw}, &H);
    Lease s(c);
    nb::gil_scoped_release nogil;
    End end(y, lam);
    int status = c.table().second_order(s, o, dt, x.data(), p.data(), u.data(), end.y.data(), end.lam.data(),
                                        Given::solution, int(count), Zc.data(), H);
    nb::gil_scoped_acquire gil;
    return nb::make_tuple(a, status == 0);
  })
      // repeats one kernel on the same point, for the benchmarks: CPU seconds per call
      .def("time", [](Core& c, const std::string& what, const Options& o, double dt, const Array& x, const Array& p,
                      const Array& u, const Array& y, const Array& lam, int repeats) {
    Sizes z(c.model());
    sized(x, z.nq, "q");
    sized(p, z.nd, "p");
    sized(u, z.nu, "u");
    sized(y, z.nq, "next q");
    sized(lam, z.nc, "lam");
    size_t nz = 2 * z.nd + z.nc;
    std::vector<double> a_((what == "tensors" ? nz : 1) * z.nw * z.nw + z.ndx * z.ndx + 9),
        b_(z.nw * z.nw + z.ndx * z.nW + 9), d_(z.nw * z.nw + 9), v(z.nv + 1), zc(nz + 1, 1.0), unit(nz * nz + z.nw + 1);
    double *a = aligned(a_.data()), *b = aligned(b_.data()), *d = aligned(d_.data());  // as make_array does
    for (size_t i = 0; i < nz; ++i) unit[i * nz + i] = 1.0;
    for (size_t i = 0; i < std::min(z.nq, z.nv); ++i) v[i] = (y.data()[i] - x.data()[i]) / dt;
    Lease s(c);
    const KernelTable& k = c.table();
    nb::gil_scoped_release nogil;
    End end(y, lam);
    double *yy = end.y.data(), *ll = end.lam.data();
    bool after = what.ends_with("_after_step");  // what the step has computed is still there
    Given given = after ? Given::just_solved : Given::solution;
    if (after) {
      std::vector<double> pn(z.nd + 1);
      int its;
      double err;
      k.step(s, o, dt, x.data(), p.data(), u.data(), yy, ll, pn.data(), &its, &err);
    }
    double t0 = cpu_seconds();
    for (int i = 0; i < repeats; ++i) {
      if (what == "first") k.first(s, x.data(), v.data(), a, b);
      else if (what == "generators") k.generators(s, x.data(), v.data());
      else if (what == "second") k.second(s, x.data(), v.data(), a, b, d);
      else if (what == "third") k.third(s, x.data(), v.data(), v.data(), v.data(), a, b, d);
      else if (what.starts_with("linearize")) k.linearize(s, o, dt, x.data(), p.data(), u.data(), yy, ll, given, a, b);
      else if (what.starts_with("push")) k.push(s, o, dt, x.data(), p.data(), u.data(), yy, ll, given, unit.data(), a);
      else if (what.starts_with("adjoint"))
        k.adjoint(s, o, dt, x.data(), p.data(), u.data(), yy, ll, given, zc.data(), zc.data() + z.nd,
                  zc.data() + 2 * z.nd, a);
      else if (what.starts_with("second_order"))
        k.second_order(s, o, dt, x.data(), p.data(), u.data(), yy, ll, given, 1, zc.data(), a);
      else if (what == "tensors")
        k.second_order(s, o, dt, x.data(), p.data(), u.data(), yy, ll, Given::solution, int(nz), unit.data(), a);
    }
    return (cpu_seconds() - t0) / repeats;
  });
}

}  // namespace dalembert
