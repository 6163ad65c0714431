// The default optimizer for the common problems, whole: Newton's method on curves with gaps and an interior point, for
// flat states, quadratic costs and bounds on single inputs and states. The algorithm is that of
// src/dalembert/optimization/shooting.py, which says what it does and why and takes every other cost, constraint and
// map; names are the same here.
//
// Contract: row-major arrays, time first; X (N+1, n), U (N, m), gaps c (N, n), costates z (N+1, n), gains K (N, m, n).
// Curves and proposals live in pools that grow in the first iterations; afterwards nothing is allocated.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include "threads.hpp"
#include "trajopt.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// ---- counted values of a pool

template <class T> class Pool;
template <class T> class Held {
 public:
  Held() = default;
  Held(const Held& o) : pool_(o.pool_), at_(o.at_) {
    if (at_) ++at_->held;
  }
  Held(Held&& o) noexcept : pool_(o.pool_), at_(std::exchange(o.at_, nullptr)) {}
  Held& operator=(Held o) {
    std::swap(pool_, o.pool_);
    std::swap(at_, o.at_);
    return *this;
  }
  ~Held() {
    if (at_ && --at_->held == 0) pool_->free_.push_back(at_);
  }
  T* operator->() const { return at_; }
  T& operator*() const { return *at_; }
  explicit operator bool() const { return at_ != nullptr; }
  bool operator==(const Held& o) const { return at_ == o.at_; }

 private:
  friend class Pool<T>;
  Held(Pool<T>* pool, T* at) : pool_(pool), at_(at) { ++at->held; }
  Pool<T>* pool_ = nullptr;
  T* at_ = nullptr;
};

template <class T> class Pool {
 public:
  template <class F> Held<T> take(F make) {
    if (free_.empty()) {
      all_.push_back(std::make_unique<T>());
      make(*all_.back());
      free_.reserve(all_.size());
      free_.push_back(all_.back().get());
    }
    T* t = free_.back();
    free_.pop_back();
    return Held<T>(this, t);
  }

 private:
  friend class Held<T>;
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

// ---- the problem

// w/2 (x - xd)'Q(x - xd) + w/2 (u - ud)'R(u - ud); Q, R diagonal (N+1, n), (N, m), or full (N+1, n, n), (N, m, m)
struct QuadraticTerm {
  double weight;
  std::vector<double> Xd, Ud, Q, R;
  bool full_Q, full_R;
};

// low < v < high of single inputs (at k < N) or states (at k > 0)
struct BoxRows {
  bool inputs;
  std::vector<int> columns;
  std::vector<double> low, high;
};

class Shooting {
 public:
  struct Curve {  // a trial: gaps count only if `open`; F, Lam: ends and multipliers of its steps
    int held = 0;
    std::vector<double> X, U, c, F, Lam, s, r;
    bool open = false;
    double value = 0, barrier = 0, off = 0;
    double merit(double penalty) const { return value + barrier + penalty * off; }
  };
  enum class Kind { gauss, newton, downward };
  struct Proposal {  // solution of an LQ problem
    int held = 0;
    Kind kind = Kind::gauss;
    double delta = 0, slope = 0, curvature = 0;
    std::vector<double> K, dX, dU, z, moves;
    bool moves_known = true;
  };
  using CurveRef = Held<Curve>;
  using ProposalRef = Held<Proposal>;
  struct Step {  // what an iteration did
    const char* method = "-";
    double slope = NAN, length = 0;
    int trials = 0, failed = 0;
    CurveRef curve;
    ProposalRef proposal;
  };
  struct Report {
    const char *method, *status;  // an empty status: go on
    std::string reason;
    double slope, length;
    int trials, failed;
  };
  struct Interrupted {};

  Shooting(Core& core, const Options& o, std::vector<double> dt, std::vector<QuadraticTerm> terms,
           std::vector<BoxRows> boxes, std::vector<int> free, int threads)
      : core_(core),
        o_(o),
        M_(core.model()),
        z_(M_),
        N_(dt.size()),
        n_(z_.ndx),
        m_(z_.nU),
        threads_(threads),
        dt_(std::move(dt)),
        terms_(std::move(terms)),
        boxes_(std::move(boxes)),
        free_(std::move(free)),
        b_(z_) {
    const size_t N = N_, n = n_, m = m_;
    auto size = [](std::vector<double>& v, size_t count) { v.assign(count + 8, 0.0); };
    size(A_, N * n * n);
    size(B_, N * n * m);
    size(lx_, (N + 1) * n);
    size(lu_, N * m);
    size(bx_, (N + 1) * n);
    size(bu_, N * m);
    size(sx_, (N + 1) * n);
    size(su_, N * m);
    size(xx_, N * n * n);
    size(xu_, N * n * m);
    size(uu_, N * m * m);
    size(Qb_, (N + 1) * n * n);
    size(Rb_, N * m * m);
    size(Qm_, (N + 1) * n * n);
    size(Rm_, N * m * m);
    size(k_, N * m);
    size(P_, (N + 1) * n * n);
    size(p_, (N + 1) * n);
    size(costates, (N + 1) * n);
    size(gains, N * m * n);
    size(zs_, (N + 1) * n);
    size(start_, n);
    size(low_, N * m);
    size(high_, N * m);
    size(work_, core.table().riccati_workspace(int(n), int(m)));
    size(row_, std::max(n, m) * 4);
    weights();
    rows();
  }

  Shooting(const Shooting&) = delete;

  std::vector<double> costates, gains, zl, zh;  // zl, zh: multipliers of the bounds, box after box (N+1, columns)
  bool known = false, steered = false;          // whether there are costates and gains
  bool gave_up = false;
  double slope = NAN, error = INFINITY;
  const Curve& curve() const { return *curve_; }
  size_t steps() const { return N_; }
  const Sizes& sizes() const { return z_; }
  double gap() const { return curve_->open ? largest(curve_->c.data(), N_ * n_) : 0.0; }

  // Start from a curve; why not, or an empty string
  std::string begin(const double* X, const double* U, Pulse& pulse) {
    Call call(*this, pulse);
    start_X_.assign(X, X + (N_ + 1) * n_);
    start_U_.assign(U, U + N_ * m_);
    CurveRef c = new_curve();
    std::copy(X, X + (N_ + 1) * n_, c->X.begin());
    std::copy(U, U + N_ * m_, c->U.begin());
    const double first = cost(*c);
    if (!std::isfinite(first)) return "cost";
    if (bounded_) begin_inside(*c, std::max(1e-2, 0.1 * std::fabs(first) / double(N_)));
    if (!shoot(*c, nullptr, 1.0)) return "steps";
    curve_ = c;
    adopt_rows(*c);
    return "";
  }

  Report iterate(double tolerance, bool may_step, Pulse& pulse) {
    Call call(*this, pulse);
    if (!curve_->open) motion_ = curve_;
    ProposalRef gauss;
    Step rest;
    std::string bad = point();
    if (!bad.empty()) return {"-", "stalled", bad, slope, 0, 0, 0};
    const bool first = !known;
    if (first) {
      gauss = regularized(false, Kind::gauss, 0.0);
      if (!gauss) return {"gauss-newton", "stalled", kUnsteered, NAN, 0, 0, 0};
      costates = gauss->z;
      gains = gauss->K;
      known = steered = true;
      slope = gauss->slope;
    }
    double dual, primal, scale;
    kkt(&dual, &primal, &scale);
    const double gap = bounded_ ? complementarity(0.0) / scale : 0.0;
    error = std::max({dual, primal, gap});
    bool done = std::max(dual, primal) <= tolerance;
    if (bounded_) {
      const double least = 1e-5 * tolerance;
      lower_barrier(dual, primal, scale, least);
      done = done && mu_ <= least && gap <= 10 * least;
    }
    rest.slope = slope;
    if (done || last_digits_ > 3) return at_rest(tolerance, may_step);
    if (!may_step) return report(rest, "iterations", "the limit of iterations is reached");
    if (attempts(gauss, first, rest)) return report(rest, "", "");
    char text[160];
    if (std::fabs(rest.slope) <= 1e-11 * std::max(1.0, std::fabs(curve_->value)) && !curve_->open) {
      std::snprintf(text, sizeof text, "the slope %.3g is the rounding error of the cost", std::fabs(rest.slope));
      return report(rest, "converged", text);
    }
    if (!filtering_) {  // second attempt: linear steps and a filter
      filtering_ = true;
      filter_.clear();
      resets_ = 0;
      delta_ = penalty_ = 0.0;
      widest_ = 1e4 * std::max(1.0, curve_->off);
      rest.method = "linear";
      rest.length = 0;
      return report(rest, "", "");
    }
    if (std::isnan(rest.slope)) return report(rest, "stalled", kUnsteered);
    std::snprintf(text, sizeof text, "no step lowers the cost (%d trials, %d without a motion)", rest.trials,
                  rest.failed);
    return report(rest, "stalled", text);
  }

  // Make the curve a motion if it is none, or go back to the newest that was one
  bool close(Pulse& pulse) {
    if (!curve_->open) return true;
    Call call(*this, pulse);
    ProposalRef still = new_proposal();
    std::fill(still->dX.begin(), still->dX.end(), 0.0);
    std::fill(still->dU.begin(), still->dU.end(), 0.0);
    if (steered) still->K = gains;
    else std::fill(still->K.begin(), still->K.end(), 0.0);
    still->moves_known = false;
    CurveRef c = new_curve();
    if (follow_law(*still, 1.0, *c, false) && measure(*c, nullptr, 1.0)) {
      curve_ = c;
      return true;
    }
    if (motion_) {
      curve_ = motion_;
      return true;
    }
    c = new_curve();
    if (!simulate(start_X_.data(), start_U_.data(), *c) || !measure(*c, nullptr, 1.0)) return false;
    curve_ = c;
    return true;
  }

 private:
  static constexpr double kDelta = 1e-3, kGrow = 5.0, kFall = 3.0;
  static constexpr int kGiveUp = 8, kOpen = 60, kResets = 10;
  static constexpr double kRoom = 0.1;
  static constexpr const char* kUnsteered =
      "no feedback stabilizes the motion: the Riccati sweep overflows or no regularization helps; shorten the horizon, "
      "weigh all inputs, or give another start";

  struct Call {  // a workspace and the signals for one call
    Shooting& owner;
    Lease lease;
    Call(Shooting& s, Pulse& p) : owner(s), lease(s.core_) {
      s.scratch_ = lease;
      s.pulse_ = &p;
    }
    ~Call() { owner.scratch_ = nullptr, owner.pulse_ = nullptr; }
  };

  static double largest(const double* v, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; ++i) most = std::max(most, std::fabs(v[i]));
    return most;
  }
  static bool finite(const double* v, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += v[i] - v[i];
    return sum == 0;  // NaN where any is not finite
  }
  static double dot(const double* a, const double* b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }
  static Report report(const Step& s, const char* status, std::string reason) {
    return {s.method, status, std::move(reason), s.slope, s.length, s.trials, s.failed};
  }
  void look() {
    if ((*pulse_)()) throw Interrupted{};
  }

  CurveRef new_curve() {
    return curves_.take([&](Curve& c) {
      c.X.resize((N_ + 1) * n_ + 8);
      c.U.resize(N_ * m_ + 8);
      c.c.resize(N_ * n_ + 8);
      c.F.resize(N_ * n_ + 8);
      c.Lam.resize(N_ * z_.nc + 8);
      c.s.resize(entries_);
      c.r.resize(entries_);
    });
  }
  ProposalRef new_proposal() {
    ProposalRef d = proposals_.take([&](Proposal& p) {
      p.K.resize(N_ * m_ * n_ + 8);
      p.dX.resize((N_ + 1) * n_ + 8);
      p.dU.resize(N_ * m_ + 8);
      p.z.resize((N_ + 1) * n_ + 8);
      p.moves.resize(entries_);
    });
    d->moves_known = true;
    return d;
  }

  // ---- weights and rows, once

  // Qb, Rb: second derivatives of the cost, full; Dx, Du what they are like
  void weights() {
    auto add = [](std::vector<double>& to, const std::vector<double>& W, bool full, double w, size_t count, size_t n) {
      for (size_t k = 0; k < count; ++k)
        for (size_t i = 0; i < n; ++i) {
          if (full)
            for (size_t j = 0; j < n; ++j) to[(k * n + i) * n + j] += w * W[(k * n + i) * n + j];
          else to[(k * n + i) * n + i] += w * W[k * n + i];
        }
    };
    for (const QuadraticTerm& t : terms_) {
      add(Qb_, t.Q, t.full_Q, t.weight, N_ + 1, n_);
      add(Rb_, t.R, t.full_R, t.weight, N_, m_);
    }
    Dx_ = typical(Qb_, N_ + 1, n_);
    Du_ = typical(Rb_, N_, m_);
  }
  static std::vector<double> typical(const std::vector<double>& W, size_t count, size_t n) {
    std::vector<double> d(n, 0.0);
    const size_t stages = count > 1 ? count - 1 : 1;
    for (size_t k = 0; k < stages; ++k)
      for (size_t i = 0; i < n; ++i) d[i] = std::max(d[i], std::fabs(W[(k * n + i) * n + i]));
    double most = largest(d.data(), n);
    if (!(most > 0)) {
      for (size_t i = 0; i < n; ++i) d[i] = std::fabs(W[((count - 1) * n + i) * n + i]) / double(count);
      most = largest(d.data(), n);
    }
    for (double& v : d) v = std::max(v, 1e-3 * most);
    return d;
  }

  // entry of row j of a box at node k: box.at + k * columns + j
  void rows() {
    entries_ = 0;
    for (const BoxRows& b : boxes_) entries_ += (N_ + 1) * b.columns.size();
    bounded_ = entries_ > 0;
    lower_.assign(entries_, 0);
    upper_.assign(entries_, 0);
    on_.assign(entries_, 0);
    lo_.assign(entries_, -INFINITY);
    hi_.assign(entries_, INFINITY);
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      on_[e] = b.inputs ? k < N_ : k > 0;
      lo_[e] = b.low[j];
      hi_[e] = b.high[j];
      lower_[e] = on_[e] && std::isfinite(b.low[j]);
      upper_[e] = on_[e] && std::isfinite(b.high[j]);
      input_row_ = input_row_ || b.inputs;
    });
    s_.assign(entries_, 0.0);
    r_.assign(entries_, 0.0);
    zl.assign(entries_, 0.0);
    zh.assign(entries_, 0.0);
    dl_.assign(entries_, 0.0);
    dh_.assign(entries_, 0.0);
  }
  template <class F> void each_entry(F f) const {
    size_t e = 0;
    for (const BoxRows& b : boxes_)
      for (size_t k = 0; k <= N_; ++k)
        for (size_t j = 0; j < b.columns.size(); ++j) f(b, k, j, e++);
  }
  double below(size_t e, double s) const { return lower_[e] ? s - lo_[e] : 1.0; }
  double above(size_t e, double s) const { return upper_[e] ? hi_[e] - s : 1.0; }
  double row_value(const Curve& c, const BoxRows& b, size_t k, size_t j) const {
    if (!b.inputs) return c.X[k * n_ + b.columns[j]];
    return k < N_ ? c.U[k * m_ + b.columns[j]] : 0.0;
  }

  // ---- curves

  double cost(const Curve& c) const {
    double total = 0;
    for (const QuadraticTerm& t : terms_) {
      double sum = 0;
      auto add = [&](const double* v, const double* d, const double* W, bool full, size_t n) {
        double* e = row_.data();
        for (size_t i = 0; i < n; ++i) e[i] = v[i] - d[i];
        if (!full) {
          for (size_t i = 0; i < n; ++i) sum += W[i] * e[i] * e[i];
        } else {
          for (size_t i = 0; i < n; ++i) sum += e[i] * dot(W + i * n, e, n);
        }
      };
      const size_t qs = t.full_Q ? n_ * n_ : n_, rs = t.full_R ? m_ * m_ : m_;
      for (size_t k = 0; k <= N_; ++k) add(&c.X[k * n_], &t.Xd[k * n_], &t.Q[k * qs], t.full_Q, n_);
      for (size_t k = 0; k < N_; ++k) add(&c.U[k * m_], &t.Ud[k * m_], &t.R[k * rs], t.full_R, m_);
      total += t.weight * 0.5 * sum;
    }
    return total;
  }
  void gradient(const Curve& c) {
    std::fill(lx_.begin(), lx_.end(), 0.0);
    std::fill(lu_.begin(), lu_.end(), 0.0);
    for (const QuadraticTerm& t : terms_) {
      auto add = [&](const double* v, const double* d, const double* W, bool full, size_t n, double* out) {
        double* e = row_.data();
        for (size_t i = 0; i < n; ++i) e[i] = v[i] - d[i];
        for (size_t i = 0; i < n; ++i) out[i] += t.weight * (full ? dot(W + i * n, e, n) : W[i] * e[i]);
      };
      const size_t qs = t.full_Q ? n_ * n_ : n_, rs = t.full_R ? m_ * m_ : m_;
      for (size_t k = 0; k <= N_; ++k) add(&c.X[k * n_], &t.Xd[k * n_], &t.Q[k * qs], t.full_Q, n_, &lx_[k * n_]);
      for (size_t k = 0; k < N_; ++k) add(&c.U[k * m_], &t.Ud[k * m_], &t.R[k * rs], t.full_R, m_, &lu_[k * m_]);
    }
  }

  // cost, barrier and what is not closed; false: not finite. `d`: the step that leads to a trial, or null
  bool measure(Curve& c, const Proposal* d, double step) {
    c.value = cost(c);
    if (!std::isfinite(c.value)) return false;
    c.off = c.barrier = 0;
    if (c.open)
      for (size_t i = 0; i < N_ * n_; ++i) c.off += std::fabs(c.c[i]);
    if (!bounded_) return true;
    const bool moving = d && d->moves_known;
    double logs = 0, product = 1;
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      // a slack is the value of its row where that leaves enough room, else it goes its way in the LQ problem
      const double h = row_value(c, b, k, j), keep = b.inputs ? 0.005 : kRoom;
      const double low = lower_[e] ? lo_[e] + keep * below(e, s_[e]) : -INFINITY;
      const double high = upper_[e] ? hi_[e] - keep * above(e, s_[e]) : INFINITY;
      double s = std::min(std::max(h, low), high);
      if (moving && !b.inputs && s != h) s = std::min(std::max(s_[e] + step * d->moves[e], low), high);
      c.s[e] = s;
      c.r[e] = on_[e] ? h - s : 0.0;
      c.off += std::fabs(c.r[e]);
      product *= below(e, s) * above(e, s);  // one logarithm for many
      if (!(product > 1e-200 && product < 1e200)) logs += std::log(product), product = 1;
    });
    c.barrier = -mu_ * (logs + std::log(product));
    return std::isfinite(c.merit(1.0));
  }

  // ends of all steps of a curve, its gaps and measures; false: not possible
  bool shoot(Curve& c, const Proposal* d, double step) {
    bool good = true;
    stages([&](Scratch* s, StepBuffers& b, int i) {
      if (one_step(core_.table(), s, o_, z_, dt_[i], &c.X[i * n_], &c.U[i * m_], &c.X[(i + 1) * n_], b, &c.F[i * n_]))
        return good = false;
      std::memcpy(&c.Lam[i * z_.nc], b.lam.data(), z_.nc * sizeof(double));
      return true;
    });
    if (!good) return false;
    for (size_t i = 0; i < N_ * n_; ++i) c.c[i] = c.F[i] - c.X[n_ + i];
    if (!finite(c.c.data(), N_ * n_)) return false;
    c.open = largest(c.c.data(), N_ * n_) > 1e-11 * std::max(1.0, largest(c.X.data(), (N_ + 1) * n_));
    return measure(c, d, step);
  }

  // body(scratch, buffers, stage) -> go on, of all stages, on threads
  template <class F> void stages(F body) {
    if (threads_ <= 1) {
      for (int i = 0; i < int(N_); ++i) {
        if (i % 64 == 63) look();
        if (!body(scratch_, b_, i)) return;
      }
      return;
    }
    parallel(int(N_), threads_, 16, *pulse_, [&](auto turn) {
      Lease s(core_);
      StepBuffers b(z_);
      for (auto range = turn(); range.first < range.second; range = turn())
        for (int i = range.first; i < range.second; ++i)
          if (!body(s, b, i)) return;
    });
    look();
  }

  CurveRef linear(const Proposal& d, double step) {
    CurveRef c = new_curve();
    for (size_t i = 0; i < (N_ + 1) * n_; ++i) c->X[i] = curve_->X[i] + step * d.dX[i];
    limits();
    for (size_t i = 0; i < N_ * m_; ++i) {
      const double u = curve_->U[i] + step * d.dU[i];
      c->U[i] = input_row_ ? std::min(std::max(u, low_[i]), high_[i]) : u;
    }
    return shoot(*c, &d, step) ? c : CurveRef();
  }

  CurveRef roll(const Proposal& d, double step) {
    CurveRef c = new_curve();
    return follow_law(d, step, *c, curve_->open) && measure(*c, &d, step) ? c : CurveRef();
  }

  // `leave`: a share of the gaps stays open
  bool follow_law(const Proposal& d, double step, Curve& c, bool leave) {
    limits();
    Follow f;
    f.X = curve_->X.data();
    f.U = curve_->U.data();
    f.dX = d.dX.data();
    f.dU = d.dU.data();
    f.K = d.K.data();
    f.c = leave ? curve_->c.data() : nullptr;
    f.low = input_row_ ? low_.data() : nullptr;
    f.high = input_row_ ? high_.data() : nullptr;
    f.dt = dt_.data();
    f.steps = int(N_);
    f.share = step;
    f.Lam = c.Lam.data();
    const int block = std::max(1, 1024 / int(n_));
    int done = 0, status = 0;
    while (done < f.steps && !status) {
      done = follow(core_.table(), scratch_, o_, M_, f, b_, c.X.data(), c.U.data(), c.F.data(), done,
                    std::min(f.steps, done + block), &status);
      look();
    }
    if (status || !finite(c.X.data(), (N_ + 1) * n_) || !finite(c.U.data(), N_ * m_)) return false;
    c.open = leave && step != 1.0;
    if (c.open)
      for (size_t i = 0; i < N_ * n_; ++i) c.c[i] = (1.0 - step) * curve_->c[i];
    return true;
  }

  bool simulate(const double* X0, const double* U, Curve& c) {
    std::memcpy(c.X.data(), X0, n_ * sizeof(double));
    std::copy(U, U + N_ * m_, c.U.begin());
    for (size_t i = 0; i < N_; ++i) {
      if (one_step(core_.table(), scratch_, o_, z_, dt_[i], &c.X[i * n_], &c.U[i * m_], &c.X[i * n_], b_, &c.F[i * n_]))
        return false;
      std::memcpy(&c.Lam[i * z_.nc], b_.lam.data(), z_.nc * sizeof(double));
      std::memcpy(&c.X[(i + 1) * n_], &c.F[i * n_], n_ * sizeof(double));
    }
    c.open = false;
    return finite(c.X.data(), (N_ + 1) * n_);
  }

  // ---- the interior point

  void begin_inside(Curve& c, double mu) {
    mu_ = mu;
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      const double low = b.low[j], high = b.high[j];
      const double size = std::max(1.0, std::fabs(std::isfinite(low) ? low : high));
      const double width = std::isfinite(high - low) ? high - low : 2 * size;
      const double pad = 1e-2 * std::min(width, std::max(1.0, width));
      const double s = std::min(std::max(row_value(c, b, k, j), low + pad), std::max(high - pad, low + pad));
      if (b.inputs && k < N_) c.U[k * m_ + b.columns[j]] = s;
      s_[e] = s;
      zl[e] = lower_[e] ? mu / below(e, s) : 0.0;
      zh[e] = upper_[e] ? mu / above(e, s) : 0.0;
    });
  }
  void adopt_rows(const Curve& c) {
    if (bounded_) s_ = c.s, r_ = c.r;
  }
  // what inputs are clipped to in a trial, so that they keep a hundredth of their room
  void limits() {
    if (!input_row_) return;
    std::fill(low_.begin(), low_.end(), -INFINITY);
    std::fill(high_.begin(), high_.end(), INFINITY);
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      if (!b.inputs || k >= N_) return;
      const size_t i = k * m_ + b.columns[j];
      if (lower_[e]) low_[i] = curve_->U[i] - 0.99 * below(e, s_[e]);
      if (upper_[e]) high_[i] = curve_->U[i] + 0.99 * above(e, s_[e]);
    });
  }
  double beta(size_t e) const {
    return (upper_[e] ? mu_ / above(e, s_[e]) : 0.0) - (lower_[e] ? mu_ / below(e, s_[e]) : 0.0);
  }
  // bx, bu: gradient with the barrier; sx, su: its diagonal second derivatives
  void with_barrier() {
    bx_ = lx_;
    bu_ = lu_;
    if (!bounded_) return;
    std::fill(sx_.begin(), sx_.end(), 0.0);
    std::fill(su_.begin(), su_.end(), 0.0);
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      if (!on_[e]) return;
      const double sigma = zl[e] / below(e, s_[e]) + zh[e] / above(e, s_[e]), g = beta(e) + sigma * r_[e];
      if (b.inputs) bu_[k * m_ + b.columns[j]] += g, su_[k * m_ + b.columns[j]] += sigma;
      else bx_[k * n_ + b.columns[j]] += g, sx_[k * n_ + b.columns[j]] += sigma;
    });
  }
  // moves of the slacks along d, r + H dz; returns how the barrier changes
  double set_moves(Proposal& d) const {
    double change = 0;
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      double v = 0;
      if (on_[e]) v = b.inputs ? d.dU[k * m_ + b.columns[j]] : d.dX[k * n_ + b.columns[j]];
      d.moves[e] = v + r_[e];
      if (on_[e]) change += beta(e) * d.moves[e];
    });
    return change;
  }
  double complementarity(double mu) const {
    double worst = 0;
    for (size_t e = 0; e < entries_; ++e) {
      if (lower_[e]) worst = std::max(worst, std::fabs((s_[e] - lo_[e]) * zl[e] - mu));
      if (upper_[e]) worst = std::max(worst, std::fabs((hi_[e] - s_[e]) * zh[e] - mu));
    }
    return worst;
  }
  double barrier() const {
    double logs = 0;
    for (size_t e = 0; e < entries_; ++e) logs += std::log(below(e, s_[e])) + std::log(above(e, s_[e]));
    return -mu_ * logs;
  }
  // multipliers go as far as they stay positive, and stay within a wide band around mu / room
  void advance_rows(const Proposal& d, const Curve& c) {
    double longest = 1.0;
    const double keep = std::max(0.99, 1.0 - mu_);
    for (size_t e = 0; e < entries_; ++e) {
      const double lowroom = below(e, s_[e]), highroom = above(e, s_[e]), ds = d.moves[e];
      dl_[e] = lower_[e] ? mu_ / lowroom - zl[e] - zl[e] / lowroom * ds : 0.0;
      dh_[e] = upper_[e] ? mu_ / highroom - zh[e] + zh[e] / highroom * ds : 0.0;
      if (dl_[e] < 0) longest = std::min(longest, keep * zl[e] / -dl_[e]);
      if (dh_[e] < 0) longest = std::min(longest, keep * zh[e] / -dh_[e]);
    }
    adopt_rows(c);
    for (size_t e = 0; e < entries_; ++e) {
      auto within = [&](double z, double room) {
        return std::min(std::max(z, mu_ / (1e10 * room)), 1e10 * mu_ / room);
      };
      zl[e] = lower_[e] ? within(zl[e] + longest * dl_[e], below(e, s_[e])) : 0.0;
      zh[e] = upper_[e] ? within(zh[e] + longest * dh_[e], above(e, s_[e])) : 0.0;
    }
  }

  // ---- derivatives

  // A, B, gradients along the curve; why not, or an empty string
  std::string point() {
    Curve& c = *curve_;
    int bad = -1;
    stages([&](Scratch* s, StepBuffers& b, int i) {
      ends(c, i, b);
      const int status = core_.table().linearize(s, o_, dt_[i], &c.X[i * n_], &c.X[i * n_] + z_.nq, &c.U[i * m_],
                                                 b.y.data(), b.lam.data(), given(), &A_[i * n_ * n_], &B_[i * n_ * m_]);
      if (status) bad = i;
      return status == 0;
    });
    if (bad >= 0) return "the step at k = " + std::to_string(bad) + " cannot be linearized";
    if (!finite(A_.data(), N_ * n_ * n_) || !finite(B_.data(), N_ * n_ * m_))
      return "the linearization along the motion is not finite";
    gradient(c);
    with_barrier();
    return "";
  }
  // the end of step i as the kernels want it
  void ends(const Curve& c, int i, StepBuffers& b) const {
    std::memcpy(b.y.data(), &c.F[i * n_], z_.nq * sizeof(double));
    std::memcpy(b.lam.data(), &c.Lam[i * z_.nc], z_.nc * sizeof(double));
  }
  Given given() const { return o_.parts->count > 1 ? Given::guess : Given::solution; }

  // xx, xu, uu of the steps, contracted with the costates; false: not to be had
  bool second() {
    const Curve& c = *curve_;
    const double* zs = costates.data();
    if (closed_loop_costate_ && steered) {  // z_k = bx - K'bu + (A - B K)'z_k+1
      std::memcpy(&zs_[N_ * n_], &bx_[N_ * n_], n_ * sizeof(double));
      for (int k = int(N_) - 1; k >= 0; --k) {
        const double* next = &zs_[(k + 1) * n_];
        double *out = &zs_[k * n_], *g = row_.data();
        std::memcpy(out, &bx_[k * n_], n_ * sizeof(double));
        std::memcpy(g, &bu_[k * m_], m_ * sizeof(double));
        gemv_t(int(n_), int(m_), 1.0, &B_[k * n_ * m_], int(m_), next, 1.0, g);
        gemv_t(int(n_), int(n_), 1.0, &A_[k * n_ * n_], int(n_), next, 1.0, out);
        gemv_t(int(m_), int(n_), -1.0, &gains[k * m_ * n_], int(n_), g, 1.0, out);
      }
      zs = zs_.data();
    }
    bool good = true;
    const size_t ns = z_.nv + z_.nd, nw = z_.nw;
    stages([&](Scratch* s, StepBuffers& b, int i) {
      ends(c, i, b);
      std::vector<double>& H = b.H;
      if (H.empty()) H.resize(nw * nw + 2 * z_.nd + z_.nc + 8);
      double* zc = H.data() + nw * nw;
      const double* zn = zs + (i + 1) * n_;
      std::memcpy(zc, zn, z_.nd * sizeof(double));
      std::memcpy(zc + z_.nd, zn + z_.nv, z_.nd * sizeof(double));
      std::fill(zc + 2 * z_.nd, zc + 2 * z_.nd + z_.nc, 0.0);
      if (core_.table().second_order(s, o_, dt_[i], &c.X[i * n_], &c.X[i * n_] + z_.nq, &c.U[i * m_], b.y.data(),
                                     b.lam.data(), given(), 1, zc, H.data()))
        return good = false;
      for (size_t r = 0; r < ns; ++r) {
        std::memcpy(&xx_[(i * n_ + r) * n_], &H[r * nw], ns * sizeof(double));
        std::memcpy(&xu_[(i * n_ + r) * m_], &H[r * nw + ns], m_ * sizeof(double));
      }
      for (size_t r = 0; r < m_; ++r) std::memcpy(&uu_[(i * m_ + r) * m_], &H[(ns + r) * nw + ns], m_ * sizeof(double));
      return true;
    });
    return good && finite(xx_.data(), N_ * n_ * n_) && finite(xu_.data(), N_ * n_ * m_) &&
           finite(uu_.data(), N_ * m_ * m_);
  }

  RiccatiProblem lq(bool newton, double delta) {
    const size_t n = n_, m = m_;
    RiccatiProblem p;
    p.states = int(n);
    p.inputs = int(m);
    p.steps = int(N_);
    p.A = A_.data();
    p.A_stride = std::ptrdiff_t(n * n);
    p.B = B_.data();
    p.B_stride = std::ptrdiff_t(n * m);
    p.Q_stride = p.A_stride;
    p.R_stride = std::ptrdiff_t(m * m);
    if (newton) p.S = xu_.data(), p.S_stride = p.B_stride;
    p.look = Pulse::look;
    p.looker = pulse_;
    const double *Q = Qb_.data(), *R = Rb_.data();
    if (newton || delta > 0 || bounded_) {
      for (size_t k = 0; k <= N_; ++k) {
        double* to = &Qm_[k * n * n];
        const double *from = Q + k * n * n, *more = &xx_[k * n * n];
        if (newton && k < N_)
          for (size_t i = 0; i < n * n; ++i) to[i] = from[i] + more[i];
        else std::memcpy(to, from, n * n * sizeof(double));
        for (size_t i = 0; i < n; ++i) to[i * n + i] += delta * Dx_[i] + sx_[k * n + i];
      }
      for (size_t k = 0; k < N_; ++k) {
        double* to = &Rm_[k * m * m];
        const double *from = R + k * m * m, *more = &uu_[k * m * m];
        for (size_t i = 0; i < m * m; ++i) to[i] = from[i] + (newton ? more[i] : 0.0);
        for (size_t i = 0; i < m; ++i) to[i * m + i] += delta * Du_[i] + su_[k * m + i];
      }
      Q = Qm_.data();
      R = Rm_.data();
    }
    p.Q = Q;
    p.Qf = Q + N_ * n * n;
    p.R = R;
    return p;
  }

  // The LQ problem with delta D added; none where it has no minimum
  ProposalRef solve(bool newton, Kind kind, double delta) {
    const size_t n = n_, m = m_;
    RiccatiProblem p = lq(newton, delta);
    p.q = bx_.data();
    p.q_stride = std::ptrdiff_t(n);
    p.qf = &bx_[N_ * n];
    p.r = bu_.data();
    p.r_stride = std::ptrdiff_t(m);
    if (curve_->open) p.c = curve_->c.data(), p.c_stride = std::ptrdiff_t(n);
    ProposalRef d = new_proposal();
    RiccatiSolution s;
    s.K = d->K.data();
    s.k = k_.data();
    s.P = P_.data();
    s.p = p_.data();
    const bool solved = core_.table().riccati(p, s, work_.data());
    look();
    if (!solved) return {};
    std::fill(start_.begin(), start_.end(), 0.0);
    if (!free_.empty() && !free_start()) return {};
    core_.table().riccati_rollout(p, s, start_.data(), d->dX.data(), d->dU.data());
    d->kind = kind;
    d->delta = delta;
    double bend = 0;
    double* t = row_.data();
    for (size_t k = 0; k <= N_; ++k) {
      const double *dx = &d->dX[k * n], *Q = p.Q + k * n * n;
      std::memcpy(&d->z[k * n], &p_[k * n], n * sizeof(double));
      gemv(int(n), int(n), 1.0, &P_[k * n * n], int(n), dx, 1.0, &d->z[k * n]);
      gemv(int(n), int(n), 1.0, Q, int(n), dx, 0.0, t);
      bend += dot(dx, t, n);
      if (delta > 0)
        for (size_t i = 0; i < n; ++i) bend -= delta * Dx_[i] * dx[i] * dx[i];
      if (k == N_) break;
      const double* du = &d->dU[k * m];
      gemv(int(m), int(m), 1.0, p.R + k * m * m, int(m), du, 0.0, t);
      bend += dot(du, t, m);
      if (delta > 0)
        for (size_t i = 0; i < m; ++i) bend -= delta * Du_[i] * du[i] * du[i];
      if (newton) {
        gemv(int(n), int(m), 1.0, &xu_[k * n * m], int(m), du, 0.0, t);
        bend += 2 * dot(dx, t, n);
      }
    }
    d->curvature = bend;
    d->slope = dot(lx_.data(), d->dX.data(), (N_ + 1) * n) + dot(lu_.data(), d->dU.data(), N_ * m) + set_moves(*d);
    if (!std::isfinite(d->slope) || !finite(d->z.data(), (N_ + 1) * n)) return {};
    return d;
  }

  // start_: minimum over the free components of the first state
  bool free_start() {
    const size_t f = free_.size();
    std::vector<double>&L = chol_, &g = rhs_;
    L.resize(f * f);
    g.resize(f);
    for (size_t i = 0; i < f; ++i) {
      g[i] = -p_[free_[i]];
      for (size_t j = 0; j < f; ++j) L[i * f + j] = P_[free_[i] * n_ + free_[j]] + (i == j ? 1e-12 : 0.0);
    }
    double least = 2;
    if (cholesky(int(f), L.data(), std::ptrdiff_t(f), &least) >= 0) return false;
    solve_lower<false>(int(f), 1, L.data(), std::ptrdiff_t(f), g.data(), 1);
    solve_lower<true>(int(f), 1, L.data(), std::ptrdiff_t(f), g.data(), 1);
    for (size_t i = 0; i < f; ++i) start_[free_[i]] = g[i];
    return true;
  }

  ProposalRef regularized(bool newton, Kind kind, double delta) {
    ProposalRef found = solve(newton, kind, delta);
    while (!found) {
      delta = delta == 0.0 ? std::max(kDelta, delta_ / kFall) : delta * (delta_ > 0 ? kGrow : 20.0);
      if (delta > 1e12) return {};
      found = solve(newton, kind, delta);
    }
    return found;
  }

  // ---- convergence

  // Scaled residuals: of stationarity, of gaps and bounds, and the scale
  void kkt(double* dual, double* primal, double* scale) {
    const size_t n = n_, m = m_;
    double worst = 0, mean = 0;
    double* g = row_.data();
    // slopes with the multipliers of the bounds
    std::vector<double>&gx = gx_, &gu = gu_;
    gx = lx_;
    gu = lu_;
    each_entry([&](const BoxRows& b, size_t k, size_t j, size_t e) {
      const double y = zh[e] - zl[e];
      if (b.inputs) {
        if (k < N_) gu[k * m + b.columns[j]] += y;
      } else {
        gx[k * n + b.columns[j]] += y;
      }
    });
    for (size_t k = 0; k <= N_; ++k) {
      std::memcpy(g, &gx[k * n], n * sizeof(double));
      if (k > 0)
        for (size_t i = 0; i < n; ++i) g[i] -= costates[k * n + i], mean += std::fabs(costates[k * n + i]);
      if (k < N_) gemv_t(int(n), int(n), 1.0, &A_[k * n * n], int(n), &costates[(k + 1) * n], 1.0, g);
      if (k > 0) {
        worst = std::max(worst, largest(g, n));
      } else {
        for (int i : free_) worst = std::max(worst, std::fabs(g[i]));
      }
      if (k == N_) break;
      std::memcpy(g, &gu[k * m], m * sizeof(double));
      gemv_t(int(n), int(m), 1.0, &B_[k * n * m], int(m), &costates[(k + 1) * n], 1.0, g);
      worst = std::max(worst, largest(g, m));
    }
    *scale = std::max(100.0, mean / double(N_ * n)) / 100.0;
    *dual = worst / *scale;
    *primal = std::max(gap(), largest(r_.data(), entries_));
  }

  void lower_barrier(double dual, double primal, double scale, double least) {
    bool changed = false;
    while (mu_ > least && std::max({dual, primal, complementarity(mu_) / scale}) <= 10 * mu_) {
      mu_ = std::max(least, std::min(0.2 * mu_, std::pow(mu_, 1.5)));
      changed = true;
    }
    if (!changed) return;
    penalty_ = 0.0;
    filter_.clear();
    curve_->barrier = barrier();
    with_barrier();
  }

  // ---- one iteration

  // Steps until one is accepted and taken; afterwards resets to Gauss-Newton's gains and costates. `rest`: the last one
  bool attempts(ProposalRef gauss, bool first, Step& rest) {
    auto accepted = [&](Step step) {
      rest = std::move(step);
      if (!rest.curve || !rest.proposal) return false;
      take(rest);
      return true;
    };
    for (;;) {
      bool contracts = first;
      if (contraction_ && !filtering_) {
        if (!gauss) gauss = solve(false, Kind::gauss, 0.0);
        if (gauss)
          contracts = std::fabs(gauss->slope) + penalty_ * curve_->off <
                      (contraction_length_ >= 1.0 ? 0.05 : 0.3) * contraction_size_;
      }
      contraction_ = false;
      if (contracts && gauss) {
        if (accepted(gauss_step(gauss, first))) return true;
        first = false;
      }
      const bool newton = second();
      if (accepted(newton_step(newton, gauss))) return true;
      // nothing helped: begin anew from Gauss-Newton's gains and costates, the other costate in second order
      if (resets_ >= kResets) return false;
      ++resets_;
      delta_ = penalty_ = 0.0;
      closed_loop_costate_ = !closed_loop_costate_;
      gauss = solve(false, Kind::gauss, 0.0);
      if (!gauss) {
        rest.slope = NAN;
        return false;
      }
      gains = gauss->K;
      costates = gauss->z;
      filter_.clear();
    }
  }

  // Gauss-Newton; the first step may open gaps
  Step gauss_step(const ProposalRef& d, bool first) {
    Step out = search(d, 0);
    if (!first || filtering_) return out;
    auto weighed = [&](const Curve& c) {
      double total = c.value + c.barrier;
      if (c.open)
        for (size_t i = 0; i < N_ * n_; ++i) total += std::fabs(c.c[i] * d->z[n_ + i]);
      for (size_t e = 0; e < entries_; ++e) total += std::fabs(c.r[e] * (zh[e] - zl[e]));
      return total;
    };
    double best = weighed(*curve_);
    if (out.curve) best = std::min(best, weighed(*out.curve));
    for (double share : {0.5, 0.25, 0.125}) {  // what the roll could win at most
      if (out.curve && out.length <= share) break;
      if (CurveRef c = roll(*d, share)) best = std::min(best, weighed(*c));
    }
    CurveRef bold = linear(*d, 1.0);
    if (bold && weighed(*bold) < 0.5 * best && bold->open) {
      out.method = "open";
      out.slope = d->slope;
      out.curve = bold;
      out.proposal = d;
      out.length = 1.0;
      ++out.trials;
    }
    return out;
  }

  Step newton_step(bool newton, ProposalRef& gauss) {
    double delta = delta_ >= kDelta ? delta_ : 0.0;
    Step total;
    total.method = "newton";
    for (int attempt = 0; attempt < 40; ++attempt) {
      ProposalRef d = regularized(newton, Kind::newton, delta);
      if (!d) break;
      Step step = search(d, 0);
      total.trials += step.trials;
      total.failed += step.failed;
      total.slope = d->slope;
      const bool closed = !curve_->open;
      if (step.curve && closed && !filtering_) shorter_delta(newton, step);
      const bool bad = !step.curve || step.length < 0.3 || d->delta > 1.0;
      if (attempt == 0 && closed && bad && !filtering_) {
        if (!gauss) gauss = solve(false, Kind::gauss, 0.0);
        if (gauss) {
          Step other = search(gauss, 4);
          total.trials += other.trials;
          total.failed += other.failed;
          if (other.curve && (!step.curve || other.curve->merit(penalty_) < step.curve->merit(penalty_)))
            step = std::move(other);
        }
      }
      if (step.curve) {
        step.trials = total.trials;
        step.failed = total.failed;
        if (d->delta > 1e4 && step.proposal == d && resets_ < kResets) break;  // no Newton step any more
        return step;
      }
      delta = d->delta == 0.0 ? std::max(kDelta, delta_ / kFall) : d->delta * kGrow;
      if (delta > 1e10) break;
    }
    return total;
  }

  // A full step with regularization: less of it, as long as that wins more
  void shorter_delta(bool newton, Step& step) {
    while (step.proposal && step.curve && step.length >= 1.0 && step.proposal->delta > 0) {
      const double delta = step.proposal->delta / kFall;
      ProposalRef d = solve(newton, Kind::newton, delta >= kDelta ? delta : 0.0);
      if (!d) break;
      CurveRef c = roll(*d, 1.0);
      ++step.trials;
      if (!c || !(c->merit(penalty_) < step.curve->merit(penalty_))) break;
      step.curve = c;
      step.proposal = d;
      step.length = 1.0;
      step.slope = d->slope;
    }
  }

  CurveRef try_step(const Proposal& d, double length) { return filtering_ ? linear(d, length) : roll(d, length); }

  // Halve the step until the merit falls enough; double a full step while that wins more, if the parabola through
  // merit, slope and the full step's merit says that it wins (at two thirds of the slope), or nearly so
  Step search(const ProposalRef& d, int limit) {
    const Curve& c = *curve_;
    Step out;
    out.method = d->kind == Kind::newton ? "newton" : "gauss-newton";
    out.slope = d->slope;
    if (c.off > 0.0) penalty_ = std::max(penalty_, (d->slope + 0.5 * std::max(d->curvature, 0.0)) / (0.9 * c.off));
    const double fall = d->slope - penalty_ * c.off, now = c.merit(penalty_);
    if (std::fabs(d->slope) + penalty_ * c.off < 1e-13 * std::max(1.0, std::fabs(now))) {
      // less than can be seen in the cost: believe the model
      if (CurveRef next = try_step(*d, 1.0)) {
        ++last_digits_;
        out.curve = next;
        out.proposal = d;
        out.length = 1.0;
        out.trials = 1;
        return out;
      }
    }
    double length = 1.0;
    const int most = limit ? limit : c.open ? 25 : 12;
    for (int i = 0; i < most; ++i) {
      ++out.trials;
      CurveRef next = try_step(*d, length);
      if (!next) {
        ++out.failed;
      } else if (accepts(*next, *d, length, fall, now)) {
        out.curve = next;
        out.proposal = d;
        out.length = length;
        break;
      }
      length *= 0.5;
    }
    if (!filtering_ && !c.open && out.curve && now - out.curve->merit(penalty_) > -0.6 * fall)
      while (1.0 <= out.length && out.length < 64) {
        CurveRef next = roll(*d, 2 * out.length);
        ++out.trials;
        if (!next || !(next->merit(penalty_) < out.curve->merit(penalty_))) break;
        out.curve = next;
        out.length *= 2;
      }
    return out;
  }

  bool accepts(const Curve& next, const Proposal& d, double length, double fall, double now) {
    if (!filtering_) return next.merit(penalty_) <= now + 1e-4 * length * fall + 1e-12 * std::fabs(now);
    // the filter: not worse than any point before in both cost and gaps, and better than here in one of them
    const Curve& c = *curve_;
    const double cost = next.value + next.barrier, here = c.value + c.barrier;
    if (next.off > widest_) return false;
    for (const auto& [off, value] : filter_)
      if (next.off >= off && cost >= value) return false;
    if (d.slope < 0 && length * std::pow(-d.slope, 2.3) > std::pow(c.off, 1.1) && c.off <= 1e-8 * widest_)
      return cost <= here + 1e-4 * length * d.slope + 1e-12 * std::fabs(here);
    if (next.off <= (1 - 1e-5) * c.off || cost <= here - 1e-5 * c.off) {
      filter_.emplace_back((1 - 1e-5) * c.off, here - 1e-5 * c.off);
      return true;
    }
    return false;
  }

  // Go to the new curve; regularization by how well the model predicted it
  void take(const Step& step) {
    const ProposalRef d = step.proposal;
    const CurveRef next = step.curve, c = curve_;
    slope = d->slope;
    gains = d->K;
    const double a = std::min(step.length, 1.0);
    if (d->kind == Kind::newton) {
      const double fall = d->slope - penalty_ * c->off;
      const double promised = -(step.length * fall + 0.5 * step.length * step.length * d->curvature);
      const double ratio = (c->merit(penalty_) - next->merit(penalty_)) / std::max(promised, 1e-300);
      if (step.length < 0.3 || ratio < 0.1) delta_ = std::max({delta_, d->delta, kDelta}) * kGrow;
      else if (step.length >= 1.0 && ratio > 0.3) delta_ = d->delta / kFall;
      else delta_ = d->delta;
      if (delta_ < 0.99 * kDelta) delta_ = 0.0;
    } else {
      contraction_ = std::strcmp(step.method, "open") != 0;
      contraction_size_ = std::fabs(d->slope) + penalty_ * c->off;
      contraction_length_ = step.length;
      if (step.length >= 1.0) delta_ = 0.0;  // what held Newton back lies behind
    }
    newton_ = d->kind == Kind::newton && d->delta == 0.0;
    if (bounded_) advance_rows(*d, *next);
    for (size_t i = 0; i < (N_ + 1) * n_; ++i) costates[i] += a * (d->z[i] - costates[i]);
    curve_ = next;
    // gaps that do not close
    open_ = next->open ? open_ + 1 : 0;
    short_ = next->open && step.length < 0.05 ? short_ + 1 : 0;
    if ((short_ >= kGiveUp || open_ >= kOpen) && !gave_up) give_up();
  }

  // The motion of the inputs of the start, instead of a curve whose gaps do not close
  void give_up() {
    short_ = open_ = 0;
    CurveRef c = new_curve();
    std::copy(start_X_.begin(), start_X_.end(), c->X.begin());
    std::copy(start_U_.begin(), start_U_.end(), c->U.begin());
    if (bounded_) {  // inputs inside
      each_entry([&](const BoxRows& b, size_t k, size_t j, size_t) {
        if (!b.inputs || k >= N_) return;
        const double low = b.low[j], high = b.high[j];
        const double size = std::max(1.0, std::fabs(std::isfinite(low) ? low : high));
        const double width = std::isfinite(high - low) ? high - low : 2 * size;
        const double pad = 1e-2 * std::min(width, std::max(1.0, width));
        double& u = c->U[k * m_ + b.columns[j]];
        u = std::min(std::max(u, low + pad), std::max(high - pad, low + pad));
      });
    }
    std::vector<double> U(c->U.begin(), c->U.begin() + N_ * m_);
    if (!simulate(start_X_.data(), U.data(), *c)) return;
    gave_up = true;
    if (bounded_) begin_inside(*c, std::max(1e-2, 0.1 * std::fabs(cost(*c)) / double(N_)));
    if (!measure(*c, nullptr, 1.0)) return;
    curve_ = c;
    delta_ = penalty_ = 0.0;
    adopt_rows(*c);
  }

  // ---- the end

  // A curve without slope: a minimum, unless some direction bends downwards, which is then followed
  Report at_rest(double tolerance, bool may_step) {
    Step rest;
    rest.slope = slope;
    char text[200];
    if (last_digits_ > 3)
      std::snprintf(text, sizeof text, "the scaled KKT error %.3g is all that rounding of the cost lets see", error);
    else std::snprintf(text, sizeof text, "the scaled KKT error %.3g is below %g", error, tolerance);
    const std::string said = text;
    if (newton_ || !second()) return report(rest, "converged", said);
    if (ProposalRef d = solve(true, Kind::newton, 0.0)) {
      gains = d->K;
      return report(rest, "converged", said);
    }
    ProposalRef down = downward();
    if (!down) return report(rest, "converged", said);
    if (!may_step)
      return report(rest, "saddle", "no slope, but a direction in which the cost falls: a saddle or a maximum");
    Step step;
    step.method = "downward";
    step.slope = 0.0;
    const double now = curve_->merit(penalty_);
    CurveRef best;
    for (int j = 0; j < 20 && !best; j += 2) {
      const double length = std::ldexp(1.0, -j);
      for (double side : {length, -length}) {
        CurveRef c = roll(*down, side);
        ++step.trials;
        if (c && c->merit(penalty_) < now - 10 * tolerance && (!best || c->merit(penalty_) < best->merit(penalty_))) {
          best = c;
          step.length = length;
        }
      }
    }
    if (!best)
      return report(rest, "saddle",
                    said + ", but in some direction the cost bends downwards, too little to be followed");
    curve_ = best;
    delta_ = 0.0;
    known = false;
    adopt_rows(*best);
    last_digits_ = 0;
    contraction_ = false;
    return report(step, "", "");
  }

  // A tangent motion along which the Newton model bends downwards: the bad direction of the input where the backward
  // sweep stops, with the feedback of the sweep after it
  ProposalRef downward() {
    const size_t n = n_, m = m_;
    RiccatiProblem p = lq(true, 0.0);
    ProposalRef d = new_proposal();
    std::fill(d->K.begin(), d->K.end(), 0.0);
    std::fill(k_.begin(), k_.end(), 0.0);
    RiccatiSolution s;
    s.K = d->K.data();
    s.k = k_.data();
    s.P = P_.data();
    s.p = p_.data();
    core_.table().riccati(p, s, work_.data());
    look();
    const int at = s.failed_step;
    if (at < 0) return {};
    // G = R + B'PB there
    std::vector<double> G(p.R + at * m * m, p.R + (at + 1) * m * m), PB(n * m), push(m);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < m; ++j)
        for (size_t h = 0; h < n; ++h) PB[i * m + j] += P_[((at + 1) * n + i) * n + h] * B_[(at * n + h) * m + j];
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < m; ++j)
        for (size_t h = 0; h < n; ++h) G[i * m + j] += B_[(at * n + h) * m + i] * PB[h * m + j];
    if (!lowest(m, G, push)) return {};
    for (size_t j = 0; j < m; ++j) k_[at * m + j] = -push[j];
    std::fill(start_.begin(), start_.end(), 0.0);
    core_.table().riccati_rollout(p, s, start_.data(), d->dX.data(), d->dU.data());
    const double size = largest(d->dX.data(), (N_ + 1) * n);
    if (!finite(d->dX.data(), (N_ + 1) * n) || !finite(d->dU.data(), N_ * m) || !(size > 0)) return {};
    for (size_t i = 0; i < (N_ + 1) * n; ++i) d->dX[i] /= size;
    for (size_t i = 0; i < N_ * m; ++i) d->dU[i] /= size;
    if (steered) d->K = gains;
    else std::fill(d->K.begin(), d->K.end(), 0.0);
    std::fill(d->z.begin(), d->z.end(), 0.0);
    d->kind = Kind::downward;
    d->delta = d->slope = 0;
    d->curvature = -1;
    d->moves_known = false;
    return d;
  }

  // Eigenvector of the lowest eigenvalue of the symmetric part of G (m, m), by Jacobi rotations; false unless that is
  // clearly negative
  static bool lowest(size_t m, std::vector<double>& G, std::vector<double>& v) {
    std::vector<double> V(m * m, 0.0);
    for (size_t i = 0; i < m; ++i) {
      V[i * m + i] = 1;
      for (size_t j = 0; j < i; ++j) G[i * m + j] = G[j * m + i] = 0.5 * (G[i * m + j] + G[j * m + i]);
    }
    for (int sweep = 0; sweep < 30; ++sweep)
      for (size_t a = 0; a < m; ++a)
        for (size_t b = a + 1; b < m; ++b) {
          if (G[a * m + b] == 0) continue;
          const double theta = (G[b * m + b] - G[a * m + a]) / (2 * G[a * m + b]);
          const double t = (theta >= 0 ? 1.0 : -1.0) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
          const double c = 1 / std::sqrt(t * t + 1), s = t * c;
          for (size_t i = 0; i < m; ++i) {
            const double x = G[i * m + a], y = G[i * m + b];
            G[i * m + a] = c * x - s * y;
            G[i * m + b] = s * x + c * y;
          }
          for (size_t i = 0; i < m; ++i) {
            const double x = G[a * m + i], y = G[b * m + i];
            G[a * m + i] = c * x - s * y;
            G[b * m + i] = s * x + c * y;
          }
          for (size_t i = 0; i < m; ++i) {
            const double x = V[i * m + a], y = V[i * m + b];
            V[i * m + a] = c * x - s * y;
            V[i * m + b] = s * x + c * y;
          }
        }
    size_t at = 0;
    double most = 0;
    for (size_t i = 0; i < m; ++i) {
      if (G[i * m + i] < G[at * m + at]) at = i;
      most = std::max(most, std::fabs(G[i * m + i]));
    }
    if (!(G[at * m + at] < -1e-8 * most)) return false;  // flat within rounding
    for (size_t i = 0; i < m; ++i) v[i] = V[i * m + at];
    return true;
  }

  Core& core_;
  const Options o_;
  const ModelData& M_;
  const Sizes z_;
  const size_t N_, n_, m_;
  const int threads_;
  const std::vector<double> dt_;
  const std::vector<QuadraticTerm> terms_;
  const std::vector<BoxRows> boxes_;
  const std::vector<int> free_;
  StepBuffers b_;
  Scratch* scratch_ = nullptr;
  Pulse* pulse_ = nullptr;
  Pool<Curve> curves_;
  Pool<Proposal> proposals_;
  CurveRef curve_, motion_;
  std::vector<double> start_X_, start_U_;
  // derivatives: A, B; gradient of the cost, with the barrier, with multipliers; diagonals of the barrier; second order
  std::vector<double> A_, B_, lx_, lu_, bx_, bu_, gx_, gu_, sx_, su_, xx_, xu_, uu_, Dx_, Du_;
  std::vector<double> Qb_, Rb_, Qm_, Rm_, k_, P_, p_, zs_, start_, work_, chol_, rhs_;
  mutable std::vector<double> row_;
  // rows: which sides have limits, slacks, residuals, steps of the multipliers; what inputs are clipped to
  size_t entries_ = 0;
  bool bounded_ = false, input_row_ = false;
  std::vector<char> lower_, upper_, on_;
  std::vector<double> lo_, hi_, s_, r_, dl_, dh_, low_, high_;
  double mu_ = 0, penalty_ = 0, delta_ = 0, contraction_size_ = 0, contraction_length_ = 0, widest_ = INFINITY;
  bool contraction_ = false, closed_loop_costate_ = false, newton_ = false, filtering_ = false;
  int resets_ = 0, short_ = 0, open_ = 0, last_digits_ = 0;
  std::vector<std::pair<double, double>> filter_;
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
