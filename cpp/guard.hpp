// What a rollout looks at after every step: gaps of limits and contacts, contacts that are held, simple events.
//
// Contract. Step k leads from row k of Q, P to row k + 1. It is stopped after the first step in which
//   a gap  phi_i = scale_i h_i(q)  that is not held is below -kTouch at the end, or may have closed in between: it
//   falls
//          at the start, rises at the end, and Hermite's cubic through both ends comes near or below zero;
//   a contact that is held pulls: the multiplier of its row is negative at one of the ends; prescribed velocities
//          change from the step before to this one as if by an acceleration that lasts for the step;
//   the number sign (x(q) - level) of an event that stops has passed zero; all of them are kept, (rows, crossings).
// Where exactly this happens, and what follows, is for the caller to find out. The rates of gaps need velocities, which
// cost half a step: they are asked for only where a gap is not larger than kNear times its last two changes (a gap that
// turns within a step changes about as much in the step before it). While contacts are held, momenta become those of
// the velocities along the constraints.
#pragma once
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include "core.hpp"
#include "elements/all.hpp"

namespace dalembert {

constexpr double kTouch = 1e-12;  // of a gap (rad or m) that is closed
constexpr double kNear = 4;
constexpr int kShares = 9;  // of a step, at which the cubic is looked at

struct Guard {
  struct Crossing {      // a number that events look at: positive before it
    int frame, place;    // component of a frame's position, or (frame < 0) of q
    double sign, level;  // sign (x - level)
    bool either, stops;  // passages both ways count; they stop
  };
  Core* gaps = nullptr;       // its constraints are the gaps
  std::vector<double> scale;  // (gaps)
  std::vector<int> held;      // gaps that are constraints of the steps,
  int pressed = 0;            // from this row on
  std::vector<double> rate;   // prescribed velocities before the first step; empty: those of the first step
  std::vector<Crossing> crossings;
};

// a Hermite cubic on [0, 1], positive at both ends, that falls at first and comes near or below zero
inline bool may_return(double a, double b, double down, double up) {
  if (!(down < 0 && up > 0 && a > kTouch && b > -kTouch)) return false;
  double least = HUGE_VAL;
  for (int i = 1; i <= kShares; ++i) {
    const double s = double(i) / (kShares + 1), r = 1 - s;
    least = std::min(least, a * (1 + 2 * s) * r * r + b * s * s * (3 - 2 * s) + s * r * (down * r - up * s));
  }
  return least < 0.05 * (up - down);
}

// One rollout under a guard.
class Watchman {
 public:
  bool touched = false;  // a gap or a contact was why it stopped

  // crossed: (steps + 1, crossings)
  Watchman(const Guard& guard, Core& core, const Rollout& rollout, double* crossed)
      : g_(guard),
        M_(core.model()),
        k_(core.table()),
        r_(rollout),
        crossed_(crossed),
        here_(core),
        n_(guard.scale.size()) {
    if (!g_.rate.empty() && g_.rate.size() != size_t(M_.nk))
      throw std::invalid_argument("one rate per prescribed velocity");
    if (g_.gaps) sort_gaps(g_.gaps->model());
    for (std::vector<double>* x : {&gap_, &before_, &moved_, &down_, &rate_, &h_}) x->assign(n_, 0.0);
    jacobian_.assign(n_ * M_.nv + 1, 0.0);
    for (std::vector<double>* x : {&v_, &acc_, &slope_, &momentum_}) x->assign(M_.nv + 1, 0.0);
    lam_.assign(M_.nc + 1, 0.0);
    poses_.assign(16 * M_.nf + 1, 0.0);
    for (const Guard::Crossing& c : g_.crossings) frames_ = frames_ || c.frame >= 0;
    if (!g_.crossings.empty()) cross(0);
    if (n_) measure(0);
  }

  // whether to stop after step k
  static bool look(void* self, int k) { return static_cast<Watchman*>(self)->after(k); }

 private:
  const double* q(int k) const { return r_.Q + size_t(k) * M_.nq; }
  double* p(int k) const { return r_.P + size_t(k) * M_.nd; }

  // limits are numbers of q; other gaps are left to the core
  void sort_gaps(const ModelData& rows) {
    std::vector<bool> open(n_, true);
    for (int i : g_.held) open[i] = false;
    for (size_t i = 0; i < n_; ++i) {
      const Element& e = rows.constraints[i];
      if (open[i]) open_.push_back(int(i));
      if (e.kind == ElementKind::LinearRelation && e.n == 1)
        limits_.push_back({int(i), rows.local_q[e.vars], rows.relation[int(e.par[1])], e.par[0]});
    }
    rows_.emplace(*g_.gaps);
  }

  bool after(int k) {
    bool stop = !g_.crossings.empty() && cross(k + 1);
    if (!g_.held.empty()) settle(k + 1, k);
    if (n_ && closes(k)) touched = true;
    for (int end = 0; end < 2 && !touched && !g_.held.empty(); ++end) touched = pulls(k + end, k);
    return stop || touched;
  }

  // numbers of the events at row k; whether one has passed zero since the row before
  bool cross(int k) {
    const size_t n = g_.crossings.size();
    if (frames_) k_.frames(here_, q(k), poses_.data());
    bool stop = false;
    for (size_t i = 0; i < n; ++i) {
      const Guard::Crossing& c = g_.crossings[i];
      const double x = c.frame < 0 ? q(k)[c.place] : poses_[16 * c.frame + 4 * c.place + 3], b = c.sign * (x - c.level);
      crossed_[k * n + i] = b;
      if (!c.stops || !k) continue;
      const double a = crossed_[(k - 1) * n + i];
      stop = stop || (a > 0 && b <= 0) || (c.either && a < 0 && b >= 0) || !std::isfinite(b);
    }
    return stop;
  }

  void measure(int k) {
    if (limits_.size() < n_) k_.constraint_values(*rows_, q(k), gap_.data());
    for (const Limit& l : limits_) gap_[l.gap] = -l.at + l.factor * q(k)[l.q];
    for (size_t i = 0; i < n_; ++i) gap_[i] *= g_.scale[i];
  }

  // velocities at row k, with those of the prescribed variables in step `step`
  void velocity(int k, int step) {
    for (int i = 0; i < M_.nk; ++i) v_[M_.nd + i] = r_.Vrho[size_t(step + 1) * M_.nk + i];
    k_.velocity(here_, q(k), p(k), v_.data());
  }

  // rates of the gaps at row k
  void rates(int k) {
    velocity(k, std::max(k - 1, 0));
    k_.constraints(*rows_, q(k), h_.data(), jacobian_.data());
    for (size_t i = 0; i < n_; ++i) {
      double t = 0;
      for (int j = 0; j < M_.nv; ++j) t += jacobian_[i * M_.nv + j] * v_[j];
      rate_[i] = g_.scale[i] * t;
    }
  }

  bool closes(int k) {
    std::swap(gap_, before_);
    measure(k + 1);
    bool found = false, near = !seen_;
    for (int i : open_) {
      const double a = before_[i], b = gap_[i], change = std::fabs(b - a);
      found = found | !(b >= -kTouch);
      near = near | (std::min(a, b) < kNear * (change + moved_[i]));
      moved_[i] = change;
    }
    seen_ = true;
    if (found || !near) return found;
    rates(k);
    std::swap(rate_, down_);
    rates(k + 1);
    const double h = r_.dt[k];
    for (int i : open_) found = found || may_return(before_[i], gap_[i], down_[i] * h, rate_[i] * h);
    return found;
  }

  // momenta at row k along the constraints
  void settle(int k, int step) {
    velocity(k, step);
    k_.first(here_, q(k), v_.data(), slope_.data(), momentum_.data());
    std::copy_n(momentum_.data(), M_.nd, p(k));
  }

  // whether a contact that is held would have to pull at row k under the inputs of a step
  bool pulls(int k, int step) {
    velocity(k, step);
    std::fill(acc_.begin(), acc_.end(), 0.0);
    const double* before = step ? r_.Vrho + size_t(step) * M_.nk : g_.rate.empty() ? nullptr : g_.rate.data();
    for (int i = 0; before && i < M_.nk; ++i) acc_[M_.nd + i] = (v_[M_.nd + i] - before[i]) / r_.dt[step];
    k_.acceleration(here_, q(k), v_.data(), r_.U ? r_.U + size_t(step) * M_.nu : nullptr, acc_.data(), lam_.data());
    for (size_t j = 0; j < g_.held.size(); ++j)
      if (!(lam_[g_.pressed + j] / g_.scale[g_.held[j]] >= 0)) return true;
    return false;
  }

  struct Limit {
    int gap, q;
    double factor, at;
  };

  const Guard& g_;
  const ModelData& M_;
  const KernelTable& k_;
  const Rollout& r_;
  double* crossed_;
  Lease here_;  // not the workspace of the rollout, which goes on where it is
  std::optional<Lease> rows_;
  size_t n_;
  std::vector<int> open_;
  std::vector<Limit> limits_;
  bool seen_ = false;  // changes of the gaps in the step before are known
  bool frames_ = false;
  std::vector<double> gap_, before_, moved_, down_, rate_, h_, jacobian_, v_, acc_, slope_, momentum_, lam_, poses_;
};

}  // namespace dalembert
