// The default optimizer: Newton's method on curves that may have gaps, with an interior point for bounds and
// constraints.
//
// Unknowns are states X, inputs U and costates z; the gaps c_k = difference(x_k+1, f(x_k, u_k)) are closed on the way.
// Every iteration solves one LQ problem (riccati.hpp) around the curve, min 1/2 d'(H + delta D)d + b'd with
// dx_k+1 = A dx_k + B du_k + c_k, where H is the second derivative of the Lagrangian (newton) or of the cost alone
// (gauss-newton). Its solution can be followed in two ways:
//
//   roll    u = U + a dU - K (x - X - a dX) through the steps, leaving (1 - a) c open, K the gains of this LQ problem:
//           without gaps this is the projection operator of Schultz, Johnson, Murphey with those gains,
//   linear  X + a dX, U + a dU: opens gaps instead of following the steps.
//
// Gauss-Newton is used while it contracts, near the optimum only where it does so as Newton would, also slowly where
// Newton's model has no minimum, and where that must be regularized so strongly that Gauss-Newton wins more. The first
// step is linear where it promises much more than the roll, gaps weighed by their costates, or leads to a straight line
// between the ends of the linear one where that promises more still: problems far from their optimum are solved along
// curves that no motion could take. delta grows where a step is shortened or wins less than its model promised, and
// falls again.
//
// What a problem is stands in shooting_problem.hpp, what bounds and constraints bring in interior.hpp.
//
// Contract: row-major arrays, time first; X (N+1, nx), U (N, m), gaps c (N, n), costates z (N+1, n), gains K (N, m, n).
// Curves and proposals live in pools that grow in the first iterations; afterwards nothing is allocated here.
#pragma once
#include <cstdio>
#include <memory>
#include "interior.hpp"

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

class Shooting {
 public:
  enum class Kind { gauss, newton, downward };
  struct Proposal {  // solution of an LQ problem; slope and curvature of cost and barrier along it; moves of the slacks
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

  explicit Shooting(std::unique_ptr<Problem> problem, const KernelTable& table)
      : own_(std::move(problem)),
        problem_(*own_),
        table_(table),
        N_(problem_.N),
        n_(problem_.n),
        m_(problem_.m),
        inside_(problem_) {
    const size_t N = N_, n = n_, m = m_;
    auto size = [](std::vector<double>& v, size_t count) { v.assign(count + 8, 0.0); };
    for (auto* v : {&lx_, &bx_, &gx_, &p_, &costates, &zs_}) size(*v, (N + 1) * n);
    for (auto* v : {&lu_, &bu_, &gu_, &k_}) size(*v, N * m);
    for (auto* v : {&xx_, &P_, &Qc_}) size(*v, (N + 1) * n * n);
    for (auto* v : {&uu_, &Rc_}) size(*v, N * m * m);
    for (auto* v : {&xu_, &Sc_, &B_, &gains}) size(*v, N * n * m);
    size(A_, N * n * n);
    size(start_, n);
    size(dQ_, n);
    size(dR_, m);
    size(row_, std::max(n, m) * 4);
    size(work_, table.riccati_workspace(int(n), int(m)));
    if (inside_.any()) {
      size(Qb_, (N + 1) * n * n);
      size(Rb_, N * m * m);
    }
  }

  Shooting(const Shooting&) = delete;

  std::vector<double> costates, gains;
  bool known = false, steered = false;  // whether there are costates and gains
  bool gave_up = false;
  double slope = NAN, error = INFINITY;
  const Curve& curve() const { return *curve_; }
  const Problem& problem() const { return problem_; }
  const Interior& inside() const { return inside_; }
  double gap() const { return curve_->open ? largest(curve_->c.data(), N_ * n_) : 0.0; }

  // Start from a curve; why not, or an empty string
  std::string begin(const double* X, const double* U, Pulse& pulse) {
    Call call(*this, pulse);
    start_X_.assign(X, X + (N_ + 1) * problem_.nx);
    start_U_.assign(U, U + N_ * m_);
    CurveRef c = new_curve();
    std::copy(start_X_.begin(), start_X_.end(), c->X.begin());
    std::copy(start_U_.begin(), start_U_.end(), c->U.begin());
    const double first = problem_.cost(X, U);
    if (!std::isfinite(first)) return "cost";
    if (inside_.any()) inside_.begin(*c, first_barrier(first));
    if (!shoot(*c, nullptr, 1.0)) return "steps";
    curve_ = c;
    inside_.adopt(*c);
    return "";
  }

  // One step, or none and a status with its reason
  Report iterate(double tolerance, bool may_step, Pulse& pulse) {
    Call call(*this, pulse);
    if (!curve_->open) motion_ = curve_;
    ProposalRef gauss;
    Step rest;
    const std::string bad = point();
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
    const double gap = inside_.sided() ? inside_.complementarity(0.0) / scale : 0.0;
    error = std::max({dual, primal, gap});
    bool done = std::max(dual, primal) <= tolerance;
    if (inside_.sided()) {
      const double least = 1e-5 * tolerance;
      lower_barrier(dual, primal, scale, least);
      done = done && inside_.mu <= least && gap <= 10 * least;
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
  static constexpr double kDelta = 1e-3, kGrow = 5.0, kFall = 3.0;  // the smallest regularization that is not zero
  static constexpr double kBent = 1.0;                              // a model regularized more than this says little
  static constexpr double kNear = 1e-3;  // below this promised share of the merit Newton's step is the better one
  static constexpr int kGiveUp = 8;      // so many short steps in a row with open gaps: back to a motion
  static constexpr int kOpen = 60;       // so many iterations with open gaps
  static constexpr int kResets = 10;
  static constexpr const char* kUnsteered =
      "no feedback stabilizes the motion: the Riccati sweep overflows or no regularization helps; shorten the horizon, "
      "weigh all inputs, or give another start";

  struct Call {  // the signals of one call
    Shooting& owner;
    Call(Shooting& s, Pulse& p) : owner(s) { s.problem_.pulse = &p; }
    ~Call() { owner.problem_.pulse = nullptr; }
  };

  static Report report(const Step& s, const char* status, std::string reason) {
    return {s.method, status, std::move(reason), s.slope, s.length, s.trials, s.failed};
  }
  double first_barrier(double cost) const { return std::max(1e-2, 0.1 * std::fabs(cost) / double(N_)); }

  CurveRef new_curve() {
    return curves_.take([&](Curve& c) {
      c.X.resize((N_ + 1) * problem_.nx + 8);
      c.U.resize(N_ * m_ + 8);
      c.c.resize(N_ * n_ + 8);
      c.F.resize(N_ * problem_.nx + 8);
      c.s.resize(inside_.entries());
      c.r.resize(inside_.entries());
    });
  }
  ProposalRef new_proposal() {
    ProposalRef d = proposals_.take([&](Proposal& p) {
      p.K.resize(N_ * m_ * n_ + 8);
      p.dX.resize((N_ + 1) * n_ + 8);
      p.dU.resize(N_ * m_ + 8);
      p.z.resize((N_ + 1) * n_ + 8);
      p.moves.resize(inside_.entries());
    });
    d->moves_known = true;
    return d;
  }

  // ---- curves

  // cost, barrier and what is not closed; false: not finite. `d`: the step that leads to a trial, or null
  bool measure(Curve& c, const Proposal* d, double step) {
    c.value = problem_.cost(c.X.data(), c.U.data());
    if (!std::isfinite(c.value)) return false;
    c.off = c.barrier = 0;
    if (c.open)
      for (size_t i = 0; i < N_ * n_; ++i) c.off += std::fabs(c.c[i]);
    if (!inside_.any()) return true;
    inside_.trial(c, d && d->moves_known ? d->moves.data() : nullptr, step);
    return std::isfinite(c.merit(1.0));
  }

  // ends of all steps of a curve, its gaps and measures; false: not possible
  bool shoot(Curve& c, const Proposal* d, double step) {
    if (!problem_.shoot(c) || !finite(c.c.data(), N_ * n_)) return false;
    const double size = std::max(1.0, largest(c.X.data(), (N_ + 1) * problem_.nx));
    c.open = largest(c.c.data(), N_ * n_) > 1e-11 * size;  // less is rounding
    return measure(c, d, step);
  }

  CurveRef linear(const Proposal& d, double step) {
    CurveRef c = new_curve();
    problem_.retract(curve_->X.data(), d.dX.data(), step, c->X.data());
    const double *low = inside_.low(*curve_), *high = inside_.high(*curve_);
    for (size_t i = 0; i < N_ * m_; ++i) {
      const double u = curve_->U[i] + step * d.dU[i];
      c->U[i] = low ? std::min(std::max(u, low[i]), high[i]) : u;
    }
    return shoot(*c, &d, step) ? c : CurveRef();
  }

  // States on a straight line between the ends of another curve, the inputs of the present one; none where states are
  // not flat
  CurveRef straight(const Curve& ends) {
    if (problem_.nx != n_) return {};
    CurveRef c = new_curve();
    for (size_t k = 0; k <= N_; ++k)
      for (size_t i = 0; i < n_; ++i) {
        const double share = double(k) / double(N_);
        c->X[k * n_ + i] = (1.0 - share) * ends.X[i] + share * ends.X[N_ * n_ + i];
      }
    c->U = curve_->U;
    return shoot(*c, nullptr, 1.0) ? c : CurveRef();
  }

  CurveRef roll(const Proposal& d, double step) {
    CurveRef c = new_curve();
    return follow_law(d, step, *c, curve_->open) && measure(*c, &d, step) ? c : CurveRef();
  }

  // `leave`: a share of the gaps stays open
  bool follow_law(const Proposal& d, double step, Curve& c, bool leave) {
    const Roll law{&*curve_, d.dX.data(), d.dU.data(), d.K.data(), inside_.low(*curve_), inside_.high(*curve_),
                   step,     leave};
    if (!problem_.roll(law, c)) return false;
    if (!finite(c.X.data(), (N_ + 1) * problem_.nx) || !finite(c.U.data(), N_ * m_)) return false;
    c.open = leave && step != 1.0;
    if (c.open)
      for (size_t i = 0; i < N_ * n_; ++i) c.c[i] = (1.0 - step) * curve_->c[i];
    return true;
  }

  bool simulate(const double* x0, const double* U, Curve& c) {
    c.open = false;
    return problem_.simulate(x0, U, c) && finite(c.X.data(), (N_ + 1) * problem_.nx);
  }

  // ---- derivatives

  // A, B, gradients and weights along the curve; why not, or an empty string
  std::string point() {
    const Curve& c = *curve_;
    std::string bad = problem_.linearize(c, A_.data(), B_.data());
    if (!bad.empty()) return bad;
    if (!finite(A_.data(), N_ * n_ * n_) || !finite(B_.data(), N_ * n_ * m_))
      return "the linearization along the motion is not finite";
    problem_.gradient(c, lx_.data(), lu_.data());
    if (Dx_.empty() || !problem_.constant_weights()) {
      mixed_cost_ = problem_.weights(c, Qc_.data(), Sc_.data(), Rc_.data());
      Dx_ = typical(Qc_, N_ + 1, n_);
      Du_ = typical(Rc_, N_, m_);
    }
    with_barrier();
    return "";
  }
  // what weights W (count, n, n) are like: the largest diagonal over time without the last, no less than 1e-3 of the
  // largest
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

  // gradient b and Gauss-Newton weights Q, S, R with the rows' part, for the present mu
  void with_barrier() {
    bx_ = lx_;
    bu_ = lu_;
    Q_ = Qc_.data();
    R_ = Rc_.data();
    mixed_ = mixed_cost_;
    S_ = Sc_.data();
    if (!inside_.any()) return;
    Qb_ = Qc_;
    Rb_ = Rc_;
    if (mixed_) Sb_ = Sc_;
    else Sb_.assign(Sc_.size(), 0.0);
    mixed_ = inside_.model(bx_.data(), bu_.data(), Qb_.data(), Sb_.data(), Rb_.data()) || mixed_;
    Q_ = Qb_.data();
    S_ = Sb_.data();
    R_ = Rb_.data();
  }

  // xx, xu, uu of the steps, contracted with the costates, and of the rows; false: not to be had
  bool second() {
    const double* z = costates.data();
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
      z = zs_.data();
    }
    if (!problem_.second_order(*curve_, z, xx_.data(), xu_.data(), uu_.data())) return false;
    if (inside_.any()) {
      std::fill(&xx_[N_ * n_ * n_], &xx_[(N_ + 1) * n_ * n_], 0.0);
      inside_.curvature(*curve_, xx_.data(), xu_.data(), uu_.data());
    }
    return finite(xx_.data(), (N_ + 1) * n_ * n_) && finite(xu_.data(), N_ * n_ * m_) &&
           finite(uu_.data(), N_ * m_ * m_);
  }

  // Newton's or Gauss-Newton's quadratic model with delta D added, without its slopes
  RiccatiProblem lq(bool newton, double delta) {
    const size_t n = n_, m = m_;
    RiccatiProblem p;
    p.states = int(n);
    p.inputs = int(m);
    p.steps = int(N_);
    p.A = A_.data();
    p.A_stride = std::ptrdiff_t(n * n);
    p.B = B_.data();
    p.B_stride = p.S_stride = std::ptrdiff_t(n * m);
    p.Q_stride = p.A_stride;
    p.R_stride = std::ptrdiff_t(m * m);
    p.look = Pulse::look;
    p.looker = problem_.pulse;
    p.Q = Q_;
    p.Qf = Q_ + N_ * n * n;
    p.R = R_;
    if (newton) p.Q2 = xx_.data(), p.Qf2 = &xx_[N_ * n * n], p.R2 = uu_.data();
    if (delta > 0) {
      for (size_t i = 0; i < n; ++i) dQ_[i] = delta * Dx_[i];
      for (size_t i = 0; i < m; ++i) dR_[i] = delta * Du_[i];
      p.Qd = dQ_.data();
      p.Rd = dR_.data();
    }
    if (mixed_) p.S = S_;
    if (newton && mixed_) {
      Sm_.resize(xu_.size());
      for (size_t i = 0; i < N_ * n * m; ++i) Sm_[i] = S_[i] + xu_[i];
      p.S = Sm_.data();
    } else if (newton) {
      p.S = xu_.data();
    }
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
    const bool solved = table_.riccati(p, s, work_.data());
    problem_.look();
    if (!solved || !free_start()) return {};
    table_.riccati_rollout(p, s, start_.data(), d->dX.data(), d->dU.data());
    d->kind = kind;
    d->delta = delta;
    for (size_t k = 0; k <= N_; ++k) {
      std::memcpy(&d->z[k * n], &p_[k * n], n * sizeof(double));
      gemv(int(n), int(n), 1.0, &P_[k * n * n], int(n), &d->dX[k * n], 1.0, &d->z[k * n]);
    }
    // d'(H + delta D)d, by the optimality of d: what it is multiplied with is zero but for slopes, gaps and the start
    double bend = dot(d->z.data(), d->dX.data(), n);
    bend -= dot(bx_.data(), d->dX.data(), (N_ + 1) * n) + dot(bu_.data(), d->dU.data(), N_ * m);
    if (p.c) bend += dot(&d->z[n], p.c, N_ * n);
    if (delta > 0) {
      for (size_t i = 0; i < (N_ + 1) * n; ++i) bend -= dQ_[i % n] * d->dX[i] * d->dX[i];
      for (size_t i = 0; i < N_ * m; ++i) bend -= dR_[i % m] * d->dU[i] * d->dU[i];
    }
    d->curvature = bend;
    d->slope = dot(lx_.data(), d->dX.data(), (N_ + 1) * n) + dot(lu_.data(), d->dU.data(), N_ * m);
    if (inside_.any()) d->slope += inside_.moves(d->dX.data(), d->dU.data(), d->moves.data());
    if (!std::isfinite(d->slope) || !finite(d->z.data(), (N_ + 1) * n)) return {};
    return d;
  }

  // start_: minimum of the cost to go over the directions E in which the first state may move
  bool free_start() {
    std::fill(start_.begin(), start_.end(), 0.0);
    const size_t f = problem_.free_start(*curve_, E_);
    if (f == 0) return true;
    std::vector<double>&L = chol_, &g = rhs_;
    L.assign(f * f, 0.0);
    g.assign(f, 0.0);
    for (size_t i = 0; i < n_; ++i)
      for (size_t a = 0; a < f; ++a) {
        const double left = E_[i * f + a];
        if (left == 0) continue;
        g[a] -= left * p_[i];
        for (size_t j = 0; j < n_; ++j)
          for (size_t b = 0; b < f; ++b) L[a * f + b] += left * P_[i * n_ + j] * E_[j * f + b];
      }
    for (size_t a = 0; a < f; ++a) L[a * f + a] += 1e-12;
    double least = 2;
    if (cholesky(int(f), L.data(), std::ptrdiff_t(f), &least) >= 0) return false;
    solve_lower<false>(int(f), 1, L.data(), std::ptrdiff_t(f), g.data(), 1);
    solve_lower<true>(int(f), 1, L.data(), std::ptrdiff_t(f), g.data(), 1);
    for (size_t i = 0; i < n_; ++i) start_[i] = dot(&E_[i * f], g.data(), f);
    return true;
  }

  // The next regularization to try after delta
  double raised(double delta) const {
    return delta == 0.0 ? std::max(kDelta, delta_ / kFall) : delta * (delta_ > 0 ? kGrow : 20.0);
  }
  // The LQ problem with the least regularization from delta on that gives it a minimum
  ProposalRef regularized(bool newton, Kind kind, double delta) {
    for (; delta <= 1e12; delta = raised(delta))
      if (ProposalRef found = solve(newton, kind, delta)) return found;
    return {};
  }

  // ---- convergence

  // Scaled residuals: of stationarity, of gaps and rows, and the scale
  void kkt(double* dual, double* primal, double* scale) {
    const size_t n = n_, m = m_;
    double worst = 0, mean = 0;
    double* g = row_.data();
    gx_ = lx_;
    gu_ = lu_;
    if (inside_.any()) inside_.gradient(gx_.data(), gu_.data());
    for (size_t k = 0; k <= N_; ++k) {
      std::memcpy(g, &gx_[k * n], n * sizeof(double));
      if (k > 0)
        for (size_t i = 0; i < n; ++i) g[i] -= costates[k * n + i], mean += std::fabs(costates[k * n + i]);
      if (k < N_) gemv_t(int(n), int(n), 1.0, &A_[k * n * n], int(n), &costates[(k + 1) * n], 1.0, g);
      if (k > 0) {
        worst = std::max(worst, largest(g, n));
      } else {  // only along the directions that are free
        const size_t f = problem_.free_start(*curve_, E_);
        for (size_t a = 0; a < f; ++a) {
          double along = 0;
          for (size_t i = 0; i < n; ++i) along += E_[i * f + a] * g[i];
          worst = std::max(worst, std::fabs(along));
        }
      }
      if (k == N_) break;
      std::memcpy(g, &gu_[k * m], m * sizeof(double));
      gemv_t(int(n), int(m), 1.0, &B_[k * n * m], int(m), &costates[(k + 1) * n], 1.0, g);
      worst = std::max(worst, largest(g, m));
    }
    *scale = std::max(100.0, mean / double(N_ * n)) / 100.0;
    *dual = worst / *scale;
    *primal = std::max(gap(), inside_.residual());
  }

  // While the barrier problem is solved well enough for its mu: a smaller mu. Those of large mu lead to one minimum or
  // another and are solved better than later ones, which are only on the way
  void lower_barrier(double dual, double primal, double scale, double least) {
    bool changed = false;
    double& mu = inside_.mu;
    while (mu > least && std::max({dual, primal, inside_.complementarity(mu) / scale}) <= (mu < 0.1 ? 50 : 10) * mu) {
      mu = std::max(least, std::min(0.2 * mu, std::pow(mu, 1.5)));
      changed = true;
    }
    if (!changed) return;
    penalty_ = 0.0;
    filter_.clear();
    curve_->barrier = inside_.barrier();
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
      double left = INFINITY;  // share of the slope that the last Gauss-Newton step has left
      if (contraction_ && !filtering_) {
        if (!gauss) gauss = solve(false, Kind::gauss, 0.0);
        if (gauss) left = (std::fabs(gauss->slope) + penalty_ * curve_->off) / contraction_size_;
        const bool near = gauss && left * contraction_size_ < kNear * std::fabs(curve_->merit(penalty_));
        contracts = left < (near ? 1e-3 : contraction_length_ >= 1.0 ? 0.05 : 0.3);
      }
      contraction_ = false;
      if (contracts && gauss) {
        if (accepted(gauss_step(gauss, first))) return true;
        first = false;
      }
      if (accepted(newton_step(gauss, left))) return true;
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
      for (size_t e = 0; e < inside_.entries(); ++e) total += std::fabs(c.r[e] * inside_.multiplier(e));
      return total;
    };
    double best = weighed(*curve_);
    if (out.curve) best = std::min(best, weighed(*out.curve));
    CurveRef bold = linear(*d, 1.0);
    auto promises = [&] { return bold && bold->open && weighed(*bold) < 0.5 * best; };
    for (double share : {0.5, 0.25, 0.125}) {  // what the roll could win at most
      if (!promises() || (out.curve && out.length <= share)) break;
      if (CurveRef c = roll(*d, share)) best = std::min(best, weighed(*c));
    }
    if (promises()) {
      // swings of the LQ problem's motion may cost more than the gaps of a line to its end
      if (CurveRef line = straight(*bold); line && line->open && weighed(*line) < weighed(*bold)) bold = line;
      out.method = "open";
      out.slope = d->slope;
      out.curve = bold;
      out.proposal = d;
      out.length = 1.0;
      ++out.trials;
    }
    return out;
  }

  // Newton, or Gauss-Newton where it wins more. `left`: of the slope by the last Gauss-Newton step
  Step newton_step(ProposalRef& gauss, double left) {
    double delta = delta_ >= kDelta ? delta_ : 0.0;
    Step total, other;
    total.method = "newton";
    auto count = [&](const Step& step) {
      total.trials += step.trials;
      total.failed += step.failed;
    };
    auto counted = [&](Step step) {
      step.trials = total.trials;
      step.failed = total.failed;
      return step;
    };
    bool tried = false;
    auto try_gauss = [&] {
      if (tried) return;
      tried = true;
      if (!gauss) gauss = solve(false, Kind::gauss, 0.0);
      if (!gauss) return;
      other = search(gauss, 4);
      count(other);
    };
    const bool choice = !curve_->open && !filtering_;
    // Slow contraction: after a full step any, after a part of one what the model says, (1 - length)^2. Then a bent
    // Newton model is not worth the search
    const double rest = 1.0 - std::min(contraction_length_, 1.0);
    const bool contracts = choice && 1.0 - left > (rest > 0 ? 0.95 * (1.0 - rest * rest) : 0.1);
    auto gauss_will_do = [&] {
      try_gauss();
      return other.curve && other.length >= (rest > 0 ? 0.25 : 1.0);
    };
    if (contracts && delta > kBent && gauss_will_do()) return counted(other);
    const bool newton = second();
    for (int attempt = 0; attempt < 40; ++attempt) {
      ProposalRef d = solve(newton, Kind::newton, delta);
      if (!d && attempt == 0 && contracts && gauss_will_do()) return counted(other);
      if (!d) d = regularized(newton, Kind::newton, raised(delta));
      if (!d) break;
      Step step = search(d, 0);
      count(step);
      total.slope = d->slope;
      if (step.curve && choice) shorter_delta(newton, step);
      if (attempt == 0 && choice && (!step.curve || step.length < 0.3 || d->delta > kBent)) {
        try_gauss();
        if (other.curve && (!step.curve || other.curve->merit(penalty_) < step.curve->merit(penalty_))) step = other;
      }
      if (step.curve) {
        if (d->delta > 1e4 && step.proposal == d && resets_ < kResets) break;  // no Newton step any more
        return counted(step);
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

  // Halve the step until the merit falls enough. Double a full step while that wins more and a parabola says so, or
  // nearly: at first the one through merit, slope and the full step's merit (which wins two thirds of the slope then),
  // later the one through the last three merits (the step wins 1.6 times what half of it wins)
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
    if (filtering_ || c.open || !out.curve) return out;
    double won = now - out.curve->merit(penalty_);
    bool wins = won > -0.6 * fall;
    while (wins && 1.0 <= out.length && out.length < 64) {
      CurveRef next = roll(*d, 2 * out.length);
      ++out.trials;
      if (!next || !(next->merit(penalty_) < out.curve->merit(penalty_))) break;
      out.curve = next;
      out.length *= 2;
      const double half = std::exchange(won, now - next->merit(penalty_));
      wins = won > 1.5 * half;
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
    if (inside_.any()) inside_.advance(a, d->moves.data(), *next);
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
    std::copy(start_U_.begin(), start_U_.end(), c->U.begin());
    inside_.clip(*c);
    if (!simulate(start_X_.data(), c->U.data(), *c)) return;
    gave_up = true;
    if (inside_.any()) inside_.begin(*c, first_barrier(problem_.cost(c->X.data(), c->U.data())));
    if (!measure(*c, nullptr, 1.0)) return;
    curve_ = c;
    delta_ = penalty_ = 0.0;
    inside_.adopt(*c);
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
    inside_.adopt(*best);
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
    table_.riccati(p, s, work_.data());
    problem_.look();
    const int at = s.failed_step;
    if (at < 0) return {};
    // G = R + B'PB there
    std::vector<double> G(m * m), PB(n * m), push(m);
    for (size_t i = 0; i < m * m; ++i) G[i] = p.R[at * m * m + i] + p.R2[at * m * m + i];
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < m; ++j)
        for (size_t h = 0; h < n; ++h) PB[i * m + j] += P_[((at + 1) * n + i) * n + h] * B_[(at * n + h) * m + j];
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < m; ++j)
        for (size_t h = 0; h < n; ++h) G[i * m + j] += B_[(at * n + h) * m + i] * PB[h * m + j];
    if (!lowest(m, G, push)) return {};
    for (size_t j = 0; j < m; ++j) k_[at * m + j] = -push[j];
    std::fill(start_.begin(), start_.end(), 0.0);
    table_.riccati_rollout(p, s, start_.data(), d->dX.data(), d->dU.data());
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

  const std::unique_ptr<Problem> own_;
  Problem& problem_;
  const KernelTable& table_;
  const size_t N_, n_, m_;
  Interior inside_;
  Pool<Curve> curves_;
  Pool<Proposal> proposals_;
  CurveRef curve_, motion_;  // motion_: the newest curve without gaps
  std::vector<double> start_X_, start_U_;
  // A, B; gradient of the cost, with the barrier, with multipliers; second order of the steps and rows
  std::vector<double> A_, B_, lx_, lu_, bx_, bu_, gx_, gu_, xx_, xu_, uu_;
  // weights of the cost, with the rows' part; Q_, S_, R_: of Gauss-Newton; D: what weights are like; d: delta D
  std::vector<double> Qc_, Sc_, Rc_, Qb_, Sb_, Rb_, Sm_, Dx_, Du_, dQ_, dR_;
  const double *Q_ = nullptr, *S_ = nullptr, *R_ = nullptr;
  bool mixed_cost_ = false, mixed_ = false;  // whether S is not zero
  std::vector<double> k_, P_, p_, zs_, start_, E_, work_, chol_, rhs_, row_;
  double penalty_ = 0, delta_ = 0, contraction_size_ = 0, contraction_length_ = 0, widest_ = INFINITY;
  bool contraction_ = false, closed_loop_costate_ = false, filtering_ = false;
  bool newton_ = false;  // the last step was Newton's, without regularization
  int resets_ = 0, short_ = 0, open_ = 0, last_digits_ = 0;
  std::vector<std::pair<double, double>> filter_;
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
