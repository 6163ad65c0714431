// Steps of a motion with gaps: converts and checks, starts threads; computes nothing.
#include <algorithm>
#include <mutex>
#include "core.hpp"
#include "threads.hpp"
#include "trajopt.hpp"

namespace dalembert {
namespace {

using namespace DALEMBERT_ARCH;

// F (N, nx), gaps (N, ndx), A, B (empty unless asked for), the first step that failed and its status
nb::tuple shoot(Core& core, const Options& o, const Array& X, const Array& U, const Array& dt, bool derive,
                int threads) {
  const ModelData& M = core.model();
  const Sizes z(M);
  const size_t steps = dt.size();
  sized(X, (steps + 1) * z.nx, "X");
  sized(U, steps * z.nU, "U");
  double *F, *c, *A, *B;
  nb::object af = make_array({steps, z.nx}, &F), ac = make_array({steps, z.ndx}, &c),
             aa = make_array({derive ? steps : 0, z.ndx, z.ndx}, &A),
             ab = make_array({derive ? steps : 0, z.ndx, z.nW}, &B);
  int bad = int(steps), code = 0;
  std::mutex mutex;
  Pulse pulse;
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    parallel(int(steps), threads, 16, pulse, [&](auto turn) {
      Lease s(core);
      StepBuffers b(z);
      for (auto range = turn(); range.first < range.second; range = turn())
        for (int i = range.first; i < range.second; ++i) {
          const double *x = X.data() + i * z.nx, *u = U.data() + i * z.nU;
          int st = one_step(k, s, o, z, dt.data()[i], x, u, x + z.nx, b, F + i * z.nx);
          if (!st) {
            state_difference(M, x + z.nx, F + i * z.nx, c + i * z.ndx);
            if (derive)
              st = k.linearize(s, o, dt.data()[i], x, x + z.nq, u, b.y.data(), b.lam.data(), Given::just_solved,
                               A + i * z.ndx * z.ndx, B + i * z.ndx * z.nW);
          }
          if (!st) continue;
          std::lock_guard<std::mutex> lock(mutex);
          if (i < bad) bad = i, code = st;
          break;
        }
    });
  }
  pulse.raise();
  return nb::make_tuple(af, ac, aa, ab, bad, code);
}

// X, U, F, gaps of the motion that an LQ problem proposes, the number of steps done and the status of the one that
// failed
nb::tuple follow_law(Core& core, const Options& o, const Array& X, const Array& U, const Array& dX, const Array& dU,
                     const Array& K, const OptArray& c, const OptArray& low, const OptArray& high, const Array& dt,
                     double share) {
  const ModelData& M = core.model();
  const Sizes z(M);
  const size_t steps = dt.size();
  Follow f;
  f.X = sized(X, (steps + 1) * z.nx, "X");
  f.U = sized(U, steps * z.nU, "U");
  f.dX = sized(dX, (steps + 1) * z.ndx, "dX");
  f.dU = sized(dU, steps * z.nU, "dU");
  f.K = sized(K, steps * z.nU * z.ndx, "K");
  f.c = sized(c, steps * z.ndx, "c");
  f.low = sized(low, steps * z.nU, "low");
  f.high = sized(high, steps * z.nU, "high");
  f.dt = dt.data();
  f.steps = int(steps);
  f.share = share;
  double *Xn, *Un, *F, *gaps;
  nb::object ax = make_array({steps + 1, z.nx}, &Xn), au = make_array({steps, z.nU}, &Un),
             af = make_array({steps, z.nx}, &F), ag = make_array({steps, z.ndx}, &gaps);
  int status = 0, done = 0;
  Pulse pulse;
  {
    Lease s(core);
    StepBuffers b(z);
    nb::gil_scoped_release nogil;
    const int block = std::max(1, 256 / std::max(1, M.nq));
    while (done < f.steps && !status) {
      done = follow(core.table(), s, o, M, f, b, Xn, Un, F, done, std::min(f.steps, done + block), &status);
      if (pulse()) break;
    }
    if (f.c)
      for (int i = 0; i < done; ++i)
        for (size_t h = 0; h < z.ndx; ++h) gaps[i * z.ndx + h] = (1.0 - share) * f.c[i * z.ndx + h];
  }
  pulse.raise();
  return nb::make_tuple(ax, au, af, ag, done, status);
}

}  // namespace

void bind_trajopt(nb::class_<Core>& c) {
  c.def("shoot", &shoot, nb::arg("options"), nb::arg("X"), nb::arg("U"), nb::arg("dt"), nb::arg("derive"),
        nb::arg("threads"))
      .def("follow", &follow_law, nb::arg("options"), nb::arg("X"), nb::arg("U"), nb::arg("dX"), nb::arg("dU"),
           nb::arg("K"), nb::arg("c").none(), nb::arg("low").none(), nb::arg("high").none(), nb::arg("dt"),
           nb::arg("share"));
}

}  // namespace dalembert
