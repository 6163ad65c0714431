// Inequalities and equalities along a curve, for the default optimizer: what a primal-dual interior point knows of
// rows low <= h(x_k, u_k) <= high (constraints.py): slacks s strictly inside, multipliers z of both sides, residuals
// r = h - s. Per row and Newton step (Wright, Nocedal, Numerical optimization, section 19.3, with slacks and
// multipliers eliminated) the LQ problem gets
//
//   Hessian  + H' Sigma H,   gradient  + H' (beta + Sigma r),
//   Sigma = z_l/(s - l) + z_h/(h - s),   beta = -mu/(s - l) + mu/(h - s),
//
// so that the Riccati kernel sees nothing but other weights. Inputs are clipped to stay strictly inside, their slack is
// the input itself. An equality is the row Sigma = 1/kSoft, beta = y: a proximal multiplier step y + (r + H dz)/kSoft.
#pragma once
#include "shooting_problem.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

class Interior {
 public:
  explicit Interior(Problem& problem) : p_(problem) {
    for (const RowGroup& g : p_.groups) entries_ += (p_.N + 1) * g.low.size();
    for (auto* v : {&s, &r, &lower, &upper, &equal, &dl_, &dh_, &w_, &sigma_, &h_}) v->assign(entries_, 0.0);
    low_.assign(p_.N * p_.m, -INFINITY);
    high_.assign(p_.N * p_.m, INFINITY);
    side_.assign(entries_, 0);
    size_t e = 0;
    for (const RowGroup& g : p_.groups) {
      clipped_ = clipped_ || g.inputs;
      for (size_t at = 0; at < g.on.size(); ++at, ++e) {
        const double low = g.low[at % g.low.size()], high = g.high[at % g.low.size()];
        rows_.push_back({low, high, g.inputs});
        if (!g.on[at]) continue;
        side_[e] = kOn;
        if (low == high) side_[e] |= kEqual;
        else side_[e] |= (std::isfinite(low) ? kLower : 0) | (std::isfinite(high) ? kUpper : 0);
        sided_ = sided_ || side_[e] & (kLower | kUpper);
      }
    }
  }

  double mu = 0;
  std::vector<double> s, r;                 // slacks and residuals of the curve
  std::vector<double> lower, upper, equal;  // multipliers: of both sides, and of equalities
  bool any() const { return entries_ > 0; }
  bool sided() const { return sided_; }
  size_t entries() const { return entries_; }
  // positive where the upper limit pushes, negative at the lower
  double multiplier(size_t e) const { return side_[e] & kEqual ? equal[e] : upper[e] - lower[e]; }

  // ---- curves

  // Bounded inputs of the curve one percent inside
  void clip(Curve& c) {
    each([&](const RowGroup& g, size_t k, size_t j, size_t e) {
      if (!g.inputs || k >= p_.N) return;
      double& u = c.U[k * p_.m + g.columns[j]];
      u = inside(e, u);
    });
  }
  // Slacks one percent inside, multipliers mu / room; inputs of the curve are clipped
  void begin(Curve& c, double barrier) {
    mu = sided_ ? barrier : 0.0;
    clip(c);
    p_.row_values(c.X.data(), c.U.data(), s.data());
    for (size_t e = 0; e < entries_; ++e) {
      s[e] = inside(e, s[e]);
      if (side_[e] & kEqual) s[e] = rows_[e].low;
      lower[e] = side_[e] & kLower ? barrier / below(e, s[e]) : 0.0;
      upper[e] = side_[e] & kUpper ? barrier / above(e, s[e]) : 0.0;
      equal[e] = 0.0;
    }
  }
  void adopt(const Curve& c) { s = c.s, r = c.r; }

  // What inputs are clipped to in a trial, so that they keep a hundredth of their room; null: nothing
  const double* low(const Curve& c) { return clip_to(c, low_, kLower, -0.99); }
  const double* high(const Curve& c) { return clip_to(c, high_, kUpper, 0.99); }

  // Barrier, slacks, residuals of a trial: a slack is the value of its row where that leaves enough room, else it goes
  // its way in the LQ problem (`moves`, or null), as far as a part of its room remains
  void trial(Curve& c, const double* moves, double step) {
    p_.row_values(c.X.data(), c.U.data(), h_.data());
    double logs = 0, product = 1;
    for (size_t e = 0; e < entries_; ++e) {
      const double h = h_[e], keep = rows_[e].inputs ? 0.005 : kRoom;  // inputs are clipped: they keep their room
      const double low = side_[e] & kLower ? rows_[e].low + keep * below(e, s[e]) : -INFINITY;
      const double high = side_[e] & kUpper ? rows_[e].high - keep * above(e, s[e]) : INFINITY;
      double t = std::min(std::max(h, low), high);
      if (moves && !rows_[e].inputs && t != h) t = std::min(std::max(s[e] + step * moves[e], low), high);
      if (side_[e] & kEqual) t = rows_[e].low;
      c.s[e] = t;
      c.r[e] = side_[e] ? h - t : 0.0;
      c.off += std::fabs(c.r[e]);
      product *= below(e, t) * above(e, t);  // one logarithm for many
      if (!(product > 1e-200 && product < 1e200)) logs += std::log(product), product = 1;
    }
    c.barrier = -mu * (logs + std::log(product));
  }
  double barrier() const {
    double logs = 0;
    for (size_t e = 0; e < entries_; ++e) logs += std::log(below(e, s[e])) + std::log(above(e, s[e]));
    return -mu * logs;
  }

  // ---- the LQ problem

  // Adds what the rows bring to gradient and Hessian; returns whether S changed
  bool model(double* bx, double* bu, double* Q, double* S, double* R) {
    for (size_t e = 0; e < entries_; ++e) {
      sigma_[e] = side_[e] & kEqual ? 1.0 / kSoft : lower[e] / below(e, s[e]) + upper[e] / above(e, s[e]);
      w_[e] = (side_[e] & kEqual ? equal[e] : beta(e)) + sigma_[e] * r[e];
      if (!side_[e]) sigma_[e] = w_[e] = 0.0;
    }
    p_.add_row_gradient(w_.data(), bx, bu);
    return p_.add_row_hessian(sigma_.data(), Q, S, R);
  }
  // Adds H'y
  void gradient(double* gx, double* gu) { p_.add_row_gradient(multipliers(), gx, gu); }
  void curvature(const Curve& c, double* Q, double* S, double* R) { p_.add_row_curvature(c, multipliers(), Q, S, R); }
  // What a step of the LQ problem makes of the slacks, r + H dz; returns how the barrier changes
  double moves(const double* dX, const double* dU, double* out) {
    p_.rows_along(dX, dU, out);
    double change = 0;
    for (size_t e = 0; e < entries_; ++e) {
      out[e] += r[e];
      if (!(side_[e] & kEqual)) change += beta(e) * out[e];
    }
    return change;
  }
  // Goes to a curve: multipliers as far as they stay positive, within a wide band around mu / room
  void advance(double step, const double* moves, const Curve& c) {
    double longest = 1.0;
    const double keep = std::max(0.99, 1.0 - mu);
    for (size_t e = 0; e < entries_; ++e) {
      const double under = below(e, s[e]), over = above(e, s[e]), ds = moves[e];
      dl_[e] = side_[e] & kLower ? mu / under - lower[e] - lower[e] / under * ds : 0.0;
      dh_[e] = side_[e] & kUpper ? mu / over - upper[e] + upper[e] / over * ds : 0.0;
      if (dl_[e] < 0) longest = std::min(longest, keep * lower[e] / -dl_[e]);
      if (dh_[e] < 0) longest = std::min(longest, keep * upper[e] / -dh_[e]);
      if (side_[e] & kEqual) equal[e] += step * ds / kSoft;
    }
    adopt(c);
    auto within = [&](double z, double room) { return std::min(std::max(z, mu / (1e10 * room)), 1e10 * mu / room); };
    for (size_t e = 0; e < entries_; ++e) {
      lower[e] = side_[e] & kLower ? within(lower[e] + longest * dl_[e], below(e, s[e])) : 0.0;
      upper[e] = side_[e] & kUpper ? within(upper[e] + longest * dh_[e], above(e, s[e])) : 0.0;
    }
  }

  // ---- convergence

  // Largest |room z - aim|
  double complementarity(double aim) const {
    double worst = 0;
    for (size_t e = 0; e < entries_; ++e) {
      if (side_[e] & kLower) worst = std::max(worst, std::fabs(below(e, s[e]) * lower[e] - aim));
      if (side_[e] & kUpper) worst = std::max(worst, std::fabs(above(e, s[e]) * upper[e] - aim));
    }
    return worst;
  }
  double residual() const { return largest(r.data(), entries_); }

 private:
  static constexpr double kRoom = 0.1;   // share of its room that a slack keeps in a step
  static constexpr double kSoft = 1e-7;  // of equalities
  static constexpr char kOn = 1, kLower = 2, kUpper = 4, kEqual = 8;
  struct Row {
    double low, high;
    bool inputs;
  };

  template <class F> void each(F body) const {
    size_t e = 0;
    for (const RowGroup& g : p_.groups)
      for (size_t k = 0; k <= p_.N; ++k)
        for (size_t j = 0; j < g.low.size(); ++j) body(g, k, j, e++);
  }
  // room, 1 where there is no limit
  double below(size_t e, double v) const { return side_[e] & kLower ? v - rows_[e].low : 1.0; }
  double above(size_t e, double v) const { return side_[e] & kUpper ? rows_[e].high - v : 1.0; }
  double beta(size_t e) const {
    return (side_[e] & kUpper ? mu / above(e, s[e]) : 0.0) - (side_[e] & kLower ? mu / below(e, s[e]) : 0.0);
  }
  double inside(size_t e, double v) const {
    const auto [low, high, inputs] = rows_[e];
    const double size = std::max(1.0, std::fabs(std::isfinite(low) ? low : high));
    const double width = std::isfinite(high - low) ? high - low : 2 * size;
    const double pad = 1e-2 * std::min(width, std::max(1.0, width));
    return std::min(std::max(v, low + pad), std::max(high - pad, low + pad));
  }
  const double* clip_to(const Curve& c, std::vector<double>& limit, char side, double share) {
    if (!clipped_) return nullptr;
    each([&](const RowGroup& g, size_t k, size_t j, size_t e) {
      if (!g.inputs || !(side_[e] & side)) return;
      const size_t i = k * p_.m + g.columns[j];
      limit[i] = c.U[i] + share * (side == kLower ? below(e, s[e]) : above(e, s[e]));
    });
    return limit.data();
  }
  const double* multipliers() {
    for (size_t e = 0; e < entries_; ++e) w_[e] = multiplier(e);
    return w_.data();
  }

  Problem& p_;
  size_t entries_ = 0;
  bool sided_ = false, clipped_ = false;
  std::vector<char> side_;
  std::vector<Row> rows_;
  std::vector<double> dl_, dh_, w_, sigma_, h_, low_, high_;
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
