// Extended Kalman filters: dalembert._core.Kalman takes the steps and updates of one, dalembert._core.ekf filters many
// records side by side. Converts and checks; computes nothing but innovations.
#include <nanobind/stl/tuple.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include "calls.hpp"
#include "ekf_problem.hpp"
#include "threads.hpp"
#include "tied.hpp"

namespace dalembert {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool all_finite(const double* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += 0 * x[i];
  return sum == 0;
}

// A filter of the steps of an integrator (or of any map, for the updates alone: without a Stepper). What it cannot do
// (a sensor that it does not know, arrays that have to be converted, a number that is not finite, a step or an update
// that fails) gives None: Python finds out and says it.
class Kalman {
 public:
  // tied: estimates stay on the constraints; n: tangent components; C (nz, nx): linear rows of the sensor, or None for
  // a sensor that is a function in Python; programs (first row, code, constants, work, entries): entries of q as tapes,
  // with their derivatives by q row by row; limits (nz + 1) of the squared length of an innovation by the number of its
  // entries; Q (n, n) or (N, n, n), dt (1) or (N): one for every step
  Kalman(const nb::object& stepper, bool tied, const nb::object& estimate, int n, const OptArray& C,
         const nb::list& programs, const Array& R, std::vector<int> angles, const Array& limits, const Array& Q,
         const Array& dt)
      : owner_(stepper),
        stepper_(stepper.is_none() ? nullptr : &nb::cast<const Stepper&>(stepper)),
        estimates_(estimate, {"mean", "covariance", "innovation", "distance", "accepted"}),
        table_(kernels()),
        tied_(tied && stepper_),
        n_(size_t(n)),
        nx_(stepper_ ? stepper_->call().sizes().nx : n_),
        nz_(limits.size() - 1),
        R_(R.data(), R.data() + R.size()),
        limits_(limits.data(), limits.data() + limits.size()),
        Q_(Q.data(), Q.data() + Q.size()),
        dt_(dt.data(), dt.data() + dt.size()),
        angles_(std::move(angles)),
        room_(table_.kalman_room(n, int(nz_))) {
    sized(R, nz_ * nz_, "R");
    if (tied_ && !Tied::knows(stepper_->call().core().model()))
      throw nb::value_error("these constraints are not known");
    if (Q_.size() % (n_ * n_) || Q_.empty()) throw nb::value_error("Q must be (n, n) or (N, n, n)");
    if (!C) return;
    C_.assign(C->data(), C->data() + C->size());
    sized(*C, nz_ * nx_, "C");
    for (nb::handle p : programs) {
      const auto [row, code, constants, work, entries] =
          nb::cast<std::tuple<int, nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>, Array, int, int>>(p);
      if (!stepper_) throw nb::value_error("programs need an integrator");
      const size_t nq = stepper_->call().sizes().nq;
      programs_.push_back({size_t(row), size_t(entries), Tape{work, int(nq), int(entries * (1 + nq)), {}, {}}});
      Tape& t = programs_.back().tape;
      t.code.assign(code.data(), code.data() + code.size());
      t.constants.assign(constants.data(), constants.data() + constants.size());
      tape_room_ = std::max({tape_room_, size_t(work) + size_t(t.n_out) + 2});
    }
    known_ = true;
  }

  // the Estimate after step k under u (nu)
  nb::object predict(nb::handle estimate, nb::handle u, nb::handle k) {
    const double *x, *P;
    nb::object keep[2];
    if (!stepper_ || !read(estimate, keep, &x, &P) || !PyLong_CheckExact(k.ptr())) return nb::none();
    const double* w = plain(u.ptr(), stepper_->call().sizes().nU, true);
    const long step = PyLong_AsLong(k.ptr());
    if (!w || step < 0) return PyErr_Clear(), nb::none();
    const size_t many = std::max(Q_.size() / (n_ * n_), dt_.size());
    if (many > 1 && size_t(step) >= many) return nb::none();
    double *next, *Pn;
    nb::object mean = make_array({nx_}, &next), cov = make_array({n_, n_}, &Pn);
    Room room(*this);
    if (!advance(room, x, P, w, size_t(step), length(size_t(step)), 1.0, next, Pn, room.cross)) return nb::none();
    return estimates_.make({mean, cov, nb::none(), nan_, nb::none()});
  }

  // the Estimate after a measurement z (nz), NaN where an entry is missing
  nb::object update(nb::handle estimate, nb::handle z) {
    const double *x, *P;
    nb::object keep[2];
    const double* values = known_ ? plain(z.ptr(), nz_, false) : nullptr;
    if (!values || !read(estimate, keep, &x, &P)) return nb::none();
    Room room(*this);
    double *e, *next, *Pn, distance = kNaN;
    nb::object innovation = make_array({nz_}, &e);
    expected(room, x);
    subtract(values, room.h, e);
    for (size_t i = 0; i < nz_; ++i)
      if (std::isinf(e[i])) return nb::none();
    nb::object mean = make_array({nx_}, &next), cov = make_array({n_, n_}, &Pn);
    const int status = correct(room, x, P, e, &distance, next, Pn);
    if (status > 2) return nb::none();
    if (status == 0) return estimates_.make({mean, cov, innovation, nb::float_(distance), true_});
    if (status == 1) return estimates_.make({keep[0], keep[1], innovation, nb::float_(distance), false_});
    return estimates_.make({keep[0], keep[1], innovation, nan_, nb::none()});
  }

  // of an innovation e (nz), NaN where missing, of a sensor with the derivative H (nz, n) and a covariance P (n, n):
  // (squared length, correction (n), new P (n, n)), the last two None where it is refused; None where there is no gain
  nb::object gain(const Array& P, const Array& e, const Array& H) {
    sized(P, n_ * n_, "P");
    sized(e, nz_, "innovation");
    sized(H, nz_ * n_, "H");
    Room room(*this);
    std::memcpy(room.H, H.data(), nz_ * n_ * sizeof(double));
    double *dx, *Pn, distance = kNaN;
    nb::object move = make_array({n_}, &dx), cov = make_array({n_, n_}, &Pn);
    const int status = solve(room, P.data(), e.data(), &distance, dx, Pn);
    if (status == 3) return nb::none();
    if (status) return nb::make_tuple(distance, nb::none(), nb::none());
    return nb::make_tuple(distance, move, cov);
  }

  // A record: from the mean x0 and P0 before the first measurement, inputs U (N, nu), measurements Z (N + 1, nz),
  // lengths dt (N) of steps that are not the usual ones (None: they are). All that Filtered has, or None.
  nb::object run(const Array& x0, const Array& P0, const Array& U, const Array& Z, const OptArray& dt) {
    if (!stepper_ || !known_) return nb::none();
    const Sizes& z = stepper_->call().sizes();
    const size_t N = z.nU ? U.size() / z.nU : Z.size() / std::max<size_t>(nz_, 1) - 1, nn = n_ * n_;
    sized(x0, nx_, "mean");
    sized(P0, nn, "covariance");
    sized(U, N * z.nU, "U");
    sized(Z, (N + 1) * nz_, "Z");
    sized(dt, N, "dt");
    const size_t many = std::max(Q_.size() / nn, dt_.size());
    if (many > 1 && N > many) return nb::none();
    double *X, *P, *Xp, *Pp, *cross, *e, *distance, *used;
    nb::object aX = make_array({N + 1, nx_}, &X), aP = make_array({N + 1, n_, n_}, &P),
               aXp = make_array({N + 1, nx_}, &Xp), aPp = make_array({N + 1, n_, n_}, &Pp),
               across = make_array({N, n_, n_}, &cross), ae = make_array({N + 1, nz_}, &e),
               ad = make_array({N + 1}, &distance), au = make_array({N + 1}, &used);
    std::memcpy(Xp, x0.data(), nx_ * sizeof(double));
    std::memcpy(Pp, P0.data(), nn * sizeof(double));
    Room room(*this);
    Pulse pulse;
    bool good = true;
    {
      nb::gil_scoped_release nogil;
      for (size_t k = 0; k <= N && good; ++k) {
        double *x = Xp + k * nx_, *p = Pp + k * nn;
        if (k > 0) {
          const size_t i = k - 1;
          const double h = dt ? dt->data()[i] : length(i);
          good = advance(room, X + i * nx_, P + i * nn, U.data() + i * z.nU, i, h, h / length(i), x, p, cross + i * nn);
          if (!good) break;
        }
        expected(room, x);
        subtract(Z.data() + k * nz_, room.h, e + k * nz_);
        for (size_t i = 0; i < nz_; ++i) good = good && !std::isinf(e[k * nz_ + i]);
        distance[k] = kNaN;
        const int status = good ? correct(room, x, p, e + k * nz_, distance + k, X + k * nx_, P + k * nn) : 3;
        good = status < 3;
        used[k] = status == 0;
        if (status) {
          std::memcpy(X + k * nx_, x, nx_ * sizeof(double));
          std::memcpy(P + k * nn, p, nn * sizeof(double));
        }
        if (k % 16 == 0 && pulse()) break;
      }
    }
    pulse.raise();
    if (!good) return nb::none();
    return nb::make_tuple(aX, aP, aXp, aPp, across, ae, ad, au);
  }

 private:
  struct Program {
    size_t row, entries;
    Tape tape;
  };
  // what a call computes with
  struct Room {
    std::vector<double> all;
    double *C, *H, *h, *Hr, *Rr, *er, *dx, *A, *B, *cross, *noise, *lam, *tape, *work;
    std::optional<Tied> tied;
    explicit Room(const Kalman& f) {
      const size_t n = f.n_, nz = f.nz_, m = f.stepper_ ? f.stepper_->call().sizes().nW : 0,
                   nc = f.stepper_ ? f.stepper_->call().sizes().nc : 0;
      const size_t sizes[] = {nz * f.nx_, nz * n, nz,    nz * n, nz * nz, nz,           n,
                              n * n,      n * m,  n * n, n * n,  nc + 1,  f.tape_room_, f.room_};
      double** const places[] = {&C, &H, &h, &Hr, &Rr, &er, &dx, &A, &B, &cross, &noise, &lam, &tape, &work};
      size_t total = 0, i = 0;
      for (size_t s : sizes) total += (s + 7) / 8 * 8;
      all.resize(total + 8);
      double* at = all.data();
      for (size_t s : sizes) {
        *places[i++] = at;
        at += (s + 7) / 8 * 8;
      }
      std::copy(f.C_.begin(), f.C_.end(), C);
      if (f.tied_) tied.emplace(f.stepper_->call());
    }
  };

  double length(size_t k) const { return dt_[dt_.size() == 1 ? 0 : k]; }

  bool read(nb::handle estimate, nb::object* keep, const double** x, const double** P) const {
    if (!estimates_.made(estimate)) return false;
    keep[0] = estimates_.get(estimate, 0);
    keep[1] = estimates_.get(estimate, 1);
    *x = plain(keep[0].ptr(), nx_, true);
    *P = plain(keep[1].ptr());
    if (!*x || !*P) return false;
    const NumpyHead& a = head_of(keep[1].ptr());
    return a.ndim == 2 && a.shape[0] == Py_ssize_t(n_) && a.shape[1] == Py_ssize_t(n_);
  }

  // mean and covariance after step k of length h, Q taken `scale` times; false: no solution, or not finite
  bool advance(Room& r, const double* x, const double* P, const double* u, size_t k, double h, double scale,
               double* next, double* Pn, double* cross) const {
    const OneCall& call = stepper_->call();
    const Sizes& z = call.sizes();
    Lease lease(call.core());
    std::memset(r.A, 0, n_ * n_ * sizeof(double));
    std::memset(r.B, 0, n_ * z.nW * sizeof(double));
    if (call.advance(lease, h, x, u, nullptr, r.lam, next, r.A, r.B)) return false;
    const double* Q = Q_.data() + (Q_.size() == n_ * n_ ? 0 : k * n_ * n_);
    if (tied_) {
      if (!r.tied->prepare(lease, next) || !r.tied->after_step(lease, next, r.A)) return false;
      for (size_t i = 0; i < n_ * n_; ++i) r.noise[i] = scale * Q[i];
      r.tied->along(r.noise);
      if (!r.tied->settle(lease, next)) return false;
      Q = r.noise;
      scale = 1;
    }
    table_.kalman_predict(int(n_), r.A, P, Q, scale, Pn, cross, r.work);
    return all_finite(next, nx_) && all_finite(Pn, n_ * n_);
  }

  // what the sensor shows at x: r.h, and its derivative r.H by tangent components
  void expected(Room& r, const double* x) const {
    for (size_t i = 0; i < nz_; ++i) {
      double t = 0;
      for (size_t j = 0; j < nx_; ++j) t += C_[i * nx_ + j] * x[j];
      r.h[i] = t;
    }
    for (const Program& p : programs_) {
      const size_t nq = size_t(p.tape.n_in);
      double* out = r.tape + p.tape.n_work;
      table_.tape(p.tape, x, r.tape, out);
      for (size_t i = 0; i < p.entries; ++i) {
        r.h[p.row + i] = out[i];
        std::memcpy(r.C + (p.row + i) * nx_, out + p.entries + i * nq, nq * sizeof(double));
      }
    }
    if (stepper_) table_.kalman_slope(stepper_->call().core().model(), int(nz_), r.C, x, r.H);
    else std::memcpy(r.H, r.C, nz_ * n_ * sizeof(double));
  }

  // z - h, angles within half a turn
  void subtract(const double* z, const double* h, double* e) const {
    const double pi = 3.141592653589793, turn = 2 * pi;
    for (size_t i = 0; i < nz_; ++i) e[i] = z[i] - h[i];
    for (int i : angles_) {
      double t = std::fmod(pi - e[i], turn);
      if (t < 0) t += turn;
      e[i] = pi - t;
    }
  }

  // the correction by the innovation e, derivative in r.H: 0, 1: refused, 2: nothing was measured, 3: there is no gain
  int solve(Room& r, const double* P, const double* e, double* distance, double* dx, double* Pn) const {
    size_t m = 0;
    for (size_t i = 0; i < nz_; ++i) m += !std::isnan(e[i]);
    if (m == 0) return 2;
    const double *H = r.H, *R = R_.data(), *er = e;
    if (m < nz_) {
      size_t row = 0;
      for (size_t i = 0; i < nz_; ++i) {
        if (std::isnan(e[i])) continue;
        std::memcpy(r.Hr + row * n_, r.H + i * n_, n_ * sizeof(double));
        size_t column = 0;
        for (size_t j = 0; j < nz_; ++j)
          if (!std::isnan(e[j])) r.Rr[row * m + column++] = R_[i * nz_ + j];
        r.er[row++] = e[i];
      }
      H = r.Hr;
      R = r.Rr;
      er = r.er;
    }
    const int status = table_.kalman_update(int(n_), int(m), H, er, R, limits_[m], P, distance, dx, Pn, r.work);
    return status == 2 ? 3 : status;
  }
  // the same, and the state moved by it
  int correct(Room& r, const double* x, const double* P, const double* e, double* distance, double* next,
              double* Pn) const {
    if (const int status = solve(r, P, e, distance, r.dx, Pn)) return status;
    if (!stepper_)
      for (size_t i = 0; i < n_; ++i) next[i] = x[i] + r.dx[i];
    else if (!table_.kalman_move(stepper_->call().core().model(), x, r.dx, next, Pn)) return 3;
    if (tied_) {
      Lease lease(stepper_->call().core());
      if (!r.tied->settle(lease, next) || !r.tied->prepare(lease, next)) return 3;
      r.tied->along(Pn);
    }
    return all_finite(next, nx_) && all_finite(Pn, n_ * n_) ? 0 : 3;
  }

  nb::object owner_;
  const Stepper* stepper_;
  Slots estimates_;
  const KernelTable& table_;
  const bool tied_;
  const size_t n_, nx_, nz_;
  const std::vector<double> R_, limits_, Q_, dt_;
  const std::vector<int> angles_;
  std::vector<double> C_;
  std::vector<Program> programs_;
  size_t tape_room_ = 0, room_;
  bool known_ = false;  // the sensor is known here
  nb::object nan_ = nb::float_(kNaN), true_ = nb::bool_(true), false_ = nb::bool_(false);
};

}  // namespace

void bind_ekf(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Kalman>(m, "Kalman")
      .def(nb::init<const nb::object&, bool, const nb::object&, int, const OptArray&, const nb::list&, const Array&,
                    std::vector<int>, const Array&, const Array&, const Array&>(),
           "stepper"_a.none(), "tied"_a, "estimate"_a, "n"_a, "C"_a.none(), "programs"_a, "R"_a, "angles"_a, "limits"_a,
           "Q"_a, "dt"_a)
      .def("predict", &Kalman::predict, "estimate"_a.none(), "u"_a.none(), "k"_a.none())
      .def("update", &Kalman::update, "estimate"_a.none(), "z"_a.none())
      .def("gain", &Kalman::gain, "P"_a, "innovation"_a, "H"_a)
      .def("run", &Kalman::run, "mean"_a, "covariance"_a, "U"_a, "Z"_a, "dt"_a.none());
  m.def("ekf",
        [](Core& core, const Options& o, bool euler, bool nominal, const Array& dt, const Array& X, const Array& U,
           const Array& start, const Array& Z, const std::optional<Array>& W, const Array& C, const Array& P0,
           const Array& Q, const Array& R, const std::optional<Array>& gate, const Array& weight, int threads,
           bool keep) {
    const ModelData& M = core.model();
    const KernelTable& table = core.table();
    const std::size_t nx = M.nq + M.nd + M.nk, nU = M.nu + M.nk, N = dt.size();
    auto need = [](const Array& a, std::size_t n, const char* name) {
      if (a.size() != n)
        throw nb::value_error(
            (std::string(name) + " has " + std::to_string(a.size()) + " numbers, " + std::to_string(n) + " are needed")
                .c_str());
      return a.data();
    };
    if (nx == 0) throw nb::value_error("the model has no variables");
    if (!M.flat) throw nb::value_error("batches of filters in the core are for models without balls");
    const std::size_t nz = C.size() / nx, trials = start.size() / nx;
    if (nz == 0 || nz > 64) throw nb::value_error("between 1 and 64 measured entries are needed");
    EkfProblem e;
    e.model = &M;
    e.alpha = o.alpha;
    e.minus = o.minus;
    e.plus = o.plus;
    e.tolerance = o.tolerance;
    e.h_tolerance = o.h_tolerance;
    e.max_iterations = o.max_iterations;
    e.parts = o.parts;
    e.euler = euler;
    e.nominal = nominal;
    e.steps = static_cast<int>(N);
    e.trials = static_cast<int>(trials);
    e.nz = static_cast<int>(nz);
    e.dt = dt.data();
    e.X = need(X, (N + 1) * nx, "X");
    e.U = need(U, N * nU, "U");
    e.start = need(start, trials * nx, "start");
    e.Z = need(Z, trials * (N + 1) * nz, "Z");
    e.W = W ? need(*W, trials * N * nx, "W") : nullptr;
    e.C = need(C, nz * nx, "C");
    e.P0 = need(P0, nx * nx, "P0");
    e.Q = need(Q, nx * nx, "Q");
    e.R = need(R, nz * nz, "R");
    e.gate = gate ? need(*gate, nz + 1, "gate") : nullptr;
    e.weight = need(weight, nx, "weight");
    // NaN marks what a failed trial did not reach
    auto room = [](std::size_t n, double value) {
      std::unique_ptr<double[]> p(new double[n + 1]);
      for (std::size_t i = 0; i < n; ++i) p[i] = value;
      return p;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    auto error = room(trials * (N + 1), nan), mean = room(keep ? trials * (N + 1) * nx : 0, nan),
         P = room(trials * nx * nx, 0.0);
    std::unique_ptr<int[]> status(new int[trials + 1]()), refused(new int[trials + 1]());
    e.error = error.get();
    e.mean = keep ? mean.get() : nullptr;
    e.P = P.get();
    e.status = status.get();
    e.refused = refused.get();
    volatile bool stop = false;
    e.stop = &stop;
    const int width = 4 * table.width, groups = static_cast<int>((trials + width - 1) / width);  // lanes are full
    Pulse pulse;
    watched(groups, threads, stop, pulse, [&](int g) {
      if (!table.ekf(e, g * width, std::min<int>((g + 1) * width, e.trials))) throw std::bad_alloc();
    });
    pulse.raise();
    auto give = [](auto p, std::vector<std::size_t> shape) {
      using E = std::remove_reference_t<decltype(p[0])>;
      E* raw = p.release();
      nb::capsule owner(raw, [](void* x) noexcept { delete[] static_cast<E*>(x); });
      return nb::cast(nb::ndarray<nb::numpy, E>(raw, shape.size(), shape.data(), owner));
    };
    nb::object means = keep ? give(std::move(mean), {trials, N + 1, nx}) : nb::none();
    return nb::make_tuple(give(std::move(error), {trials, N + 1}), means, give(std::move(P), {trials, nx, nx}),
                          give(std::move(status), {trials}), give(std::move(refused), {trials}));
  },
        "core"_a, "options"_a, "euler"_a, "nominal"_a, "dt"_a, "X"_a, "U"_a, "start"_a, "Z"_a, "W"_a.none(), "C"_a,
        "P0"_a, "Q"_a, "R"_a, "gate"_a.none(), "weight"_a, "threads"_a, "keep"_a,
        "Many trials of an extended Kalman filter: (errors, means or None, last covariances, status, refused).");
}

}  // namespace dalembert
