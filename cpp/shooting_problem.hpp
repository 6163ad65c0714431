// What the default optimizer (shooting.hpp) asks of a problem, and the common problem in the core: an integrator of a
// Model with flat states, quadratic costs, bounds on single inputs and states. Every other cost, constraint and map
// answers from Python (bind_shooting.cpp).
//
// Contract: row-major arrays, time first; X (N+1, nx), U (N, m), variations dX (N+1, n), dU (N, m), A (N, n, n),
// B (N, n, m), Q (N+1, n, n), S (N, n, m), R (N, m, m). Entries of rows: group after group (N+1, rows of the group).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>
#include "threads.hpp"
#include "trajopt.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

inline double largest(const double* v, size_t count) {
  double most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, std::fabs(v[i]));
  return most;
}
inline bool finite(const double* v, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += v[i] - v[i];
  return sum == 0;  // NaN where any is not finite
}
inline double dot(const double* a, const double* b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// low <= h(x_k, u_k) <= high, equalities where both are the same; `inputs`: rows are single inputs, which are clipped
struct RowGroup {
  bool inputs = false;
  std::vector<int> columns;  // of the inputs, or of the states where rows are single components
  std::vector<double> low, high;
  std::vector<char> on;  // (N+1, rows) where they hold
};

// A trial of the search: gaps c (N, n) count only if `open`. F (N, nx), Lam (N, nc): ends and multipliers of the steps,
// where the problem keeps them. s, r: slacks and residuals of the rows
struct Curve {
  int held = 0;
  std::vector<double> X, U, c, F, Lam, s, r;
  bool open = false;
  double value = 0, barrier = 0, off = 0;
  double merit(double penalty) const { return value + barrier + penalty * off; }
};

// What a roll follows, see trajopt.hpp: a share of dX, dU at a curve under the gains K, inputs within low and high
// (null: any); `leave` the rest of the gaps open
struct Roll {
  const Curve* from;
  const double *dX, *dU, *K, *low, *high;
  double share;
  bool leave;
};

class Problem {
 public:
  struct Interrupted {};

  Problem(size_t steps, size_t nx, size_t n, size_t m, std::vector<RowGroup> groups)
      : N(steps), nx(nx), n(n), m(m), groups(std::move(groups)) {}
  virtual ~Problem() = default;
  Problem(const Problem&) = delete;

  const size_t N, nx, n, m;  // steps; coordinates of a state, components of its variation, inputs
  const std::vector<RowGroup> groups;
  Pulse* pulse = nullptr;  // of the call that asks
  void look() const {
    if ((*pulse)()) throw Interrupted{};
  }

  // ---- the cost
  virtual double cost(const double* X, const double* U) = 0;  // may be infinite or NaN
  virtual void gradient(const Curve& c, double* lx, double* lu) = 0;
  // second derivatives Q, S, R; returns whether S is not zero (else it is left alone)
  virtual bool weights(const Curve& c, double* Q, double* S, double* R) = 0;
  virtual bool constant_weights() const { return false; }

  // ---- states and steps; false: a step has no solution
  virtual void retract(const double* X, const double* dX, double share, double* out) = 0;
  virtual bool shoot(Curve& c) = 0;                    // from X, U: the ends of the steps and gaps
  virtual bool roll(const Roll& law, Curve& out) = 0;  // X, U
  virtual bool simulate(const double* x0, const double* U, Curve& out) = 0;
  // A, B to the tangents at x_k+1; why not, or an empty string
  virtual std::string linearize(const Curve& c, double* A, double* B) = 0;
  // of z_k+1 . f at the curve that was linearized last; z (N+1, n)
  virtual bool second_order(const Curve& c, const double* z, double* xx, double* xu, double* uu) = 0;
  // columns of E (n, count): how the first state may move; returns the count
  virtual size_t free_start(const Curve& c, std::vector<double>& E) = 0;

  // ---- rows h with derivative H, of the curve that was linearized last
  virtual void row_values(const double* X, const double* U, double* h) = 0;
  virtual void rows_along(const double* dX, const double* dU, double* out) = 0;        // H dz
  virtual void add_row_gradient(const double* w, double* gx, double* gu) = 0;          // += H'w
  virtual bool add_row_hessian(const double* w, double* Q, double* S, double* R) = 0;  // += H'wH; whether S changed
  virtual void add_row_curvature(const Curve&, const double* /*y*/, double*, double*, double*) {}  // += of y . h
};

// w/2 (x - xd)'Q(x - xd) + w/2 (u - ud)'R(u - ud); Q, R diagonal (N+1, n), (N, m), or full (N+1, n, n), (N, m, m)
struct QuadraticTerm {
  double weight;
  std::vector<double> Xd, Ud, Q, R;
  bool full_Q, full_R;
};

class QuadraticProblem : public Problem {
 public:
  QuadraticProblem(Core& core, const Options& o, std::vector<double> dt, std::vector<QuadraticTerm> terms,
                   std::vector<RowGroup> boxes, std::vector<int> free, int threads)
      : Problem(dt.size(), Sizes(core.model()).nx, Sizes(core.model()).ndx, Sizes(core.model()).nU, std::move(boxes)),
        core_(core),
        lease_(core),
        o_(o),
        z_(core.model()),
        threads_(threads),
        dt_(std::move(dt)),
        terms_(std::move(terms)),
        free_(std::move(free)),
        b_(z_),
        e_(std::max(n, m) + 8) {}

  // ---- the cost

  double cost(const double* X, const double* U) override {
    double total = 0;
    for (const QuadraticTerm& t : terms_) {
      double sum = 0;
      each_vector(t, X, U, [&](const double* W, bool full, size_t, size_t size, const double* e, bool) {
        if (!full)
          for (size_t i = 0; i < size; ++i) sum += W[i] * e[i] * e[i];
        else
          for (size_t i = 0; i < size; ++i) sum += e[i] * dot(W + i * size, e, size);
      });
      total += t.weight * 0.5 * sum;
    }
    return total;
  }
  void gradient(const Curve& c, double* lx, double* lu) override {
    std::fill(lx, lx + (N + 1) * n, 0.0);
    std::fill(lu, lu + N * m, 0.0);
    for (const QuadraticTerm& t : terms_)
      each_vector(t, c.X.data(), c.U.data(),
                  [&](const double* W, bool full, size_t k, size_t size, const double* e, bool input) {
        double* out = (input ? lu : lx) + k * size;
        for (size_t i = 0; i < size; ++i) out[i] += t.weight * (full ? dot(W + i * size, e, size) : W[i] * e[i]);
      });
  }
  bool weights(const Curve&, double* Q, double*, double* R) override {
    std::fill(Q, Q + (N + 1) * n * n, 0.0);
    std::fill(R, R + N * m * m, 0.0);
    auto add = [](double* to, const std::vector<double>& W, bool full, double w, size_t count, size_t size) {
      for (size_t k = 0; k < count; ++k)
        for (size_t i = 0; i < size; ++i) {
          if (full)
            for (size_t j = 0; j < size; ++j) to[(k * size + i) * size + j] += w * W[(k * size + i) * size + j];
          else to[(k * size + i) * size + i] += w * W[k * size + i];
        }
    };
    for (const QuadraticTerm& t : terms_) {
      add(Q, t.Q, t.full_Q, t.weight, N + 1, n);
      add(R, t.R, t.full_R, t.weight, N, m);
    }
    return false;
  }
  bool constant_weights() const override { return true; }

  // ---- states and steps

  void retract(const double* X, const double* dX, double share, double* out) override {
    for (size_t i = 0; i < (N + 1) * n; ++i) out[i] = X[i] + share * dX[i];
  }
  bool shoot(Curve& c) override {
    c.Lam.resize(N * z_.nc + 8);
    bool good = true;
    stages([&](Scratch* s, StepBuffers& b, int i) {
      if (one_step(core_.table(), s, o_, z_, dt_[i], &c.X[i * n], &c.U[i * m], &c.X[(i + 1) * n], b, &c.F[i * n]))
        return good = false;
      std::memcpy(&c.Lam[i * z_.nc], b.lam.data(), z_.nc * sizeof(double));
      return true;
    });
    if (good)
      for (size_t i = 0; i < N * n; ++i) c.c[i] = c.F[i] - c.X[n + i];
    return good;
  }
  bool roll(const Roll& law, Curve& out) override {
    out.Lam.resize(N * z_.nc + 8);
    Follow f;
    f.X = law.from->X.data();
    f.U = law.from->U.data();
    f.dX = law.dX;
    f.dU = law.dU;
    f.K = law.K;
    f.c = law.leave ? law.from->c.data() : nullptr;
    f.low = law.low;
    f.high = law.high;
    f.dt = dt_.data();
    f.steps = int(N);
    f.share = law.share;
    f.Lam = out.Lam.data();
    const int block = std::max(1, 1024 / int(n));
    int done = 0, status = 0;
    while (done < f.steps && !status) {
      done = follow(core_.table(), lease_, o_, core_.model(), f, b_, out.X.data(), out.U.data(), out.F.data(), done,
                    std::min(f.steps, done + block), &status);
      look();
    }
    return status == 0;
  }
  bool simulate(const double* x0, const double* U, Curve& c) override {
    c.Lam.resize(N * z_.nc + 8);
    std::memcpy(c.X.data(), x0, n * sizeof(double));
    std::memmove(c.U.data(), U, N * m * sizeof(double));
    for (size_t i = 0; i < N; ++i) {
      const double* x = &c.X[i * n];
      if (one_step(core_.table(), lease_, o_, z_, dt_[i], x, &c.U[i * m], x, b_, &c.F[i * n])) return false;
      std::memcpy(&c.Lam[i * z_.nc], b_.lam.data(), z_.nc * sizeof(double));
      std::memcpy(&c.X[(i + 1) * n], &c.F[i * n], n * sizeof(double));
      if (i % 64 == 63) look();
    }
    return true;
  }
  std::string linearize(const Curve& c, double* A, double* B) override {
    int bad = -1;
    stages([&](Scratch* s, StepBuffers& b, int i) {
      ends(c, i, b);
      const int status = core_.table().linearize(s, o_, dt_[i], &c.X[i * n], &c.X[i * n] + z_.nq, &c.U[i * m],
                                                 b.y.data(), b.lam.data(), given(), &A[i * n * n], &B[i * n * m]);
      if (status) bad = i;
      return status == 0;
    });
    return bad < 0 ? "" : "the step at k = " + std::to_string(bad) + " cannot be linearized";
  }
  bool second_order(const Curve& c, const double* z, double* xx, double* xu, double* uu) override {
    bool good = true;
    const size_t ns = z_.nv + z_.nd, nw = z_.nw;
    stages([&](Scratch* s, StepBuffers& b, int i) {
      ends(c, i, b);
      std::vector<double>& H = b.H;
      if (H.empty()) H.resize(nw * nw + 2 * z_.nd + z_.nc + 8);
      double* zc = H.data() + nw * nw;
      const double* zn = z + (i + 1) * n;
      std::memcpy(zc, zn, z_.nd * sizeof(double));
      std::memcpy(zc + z_.nd, zn + z_.nv, z_.nd * sizeof(double));
      std::fill(zc + 2 * z_.nd, zc + 2 * z_.nd + z_.nc, 0.0);
      if (core_.table().second_order(s, o_, dt_[i], &c.X[i * n], &c.X[i * n] + z_.nq, &c.U[i * m], b.y.data(),
                                     b.lam.data(), given(), 1, zc, H.data()))
        return good = false;
      for (size_t r = 0; r < ns; ++r) {  // what v_rho brings stays zero
        std::memcpy(&xx[(i * n + r) * n], &H[r * nw], ns * sizeof(double));
        std::memcpy(&xu[(i * n + r) * m], &H[r * nw + ns], m * sizeof(double));
      }
      for (size_t r = 0; r < m; ++r) std::memcpy(&uu[(i * m + r) * m], &H[(ns + r) * nw + ns], m * sizeof(double));
      return true;
    });
    return good;
  }
  size_t free_start(const Curve&, std::vector<double>& E) override {
    E.assign(n * free_.size(), 0.0);
    for (size_t j = 0; j < free_.size(); ++j) E[free_[j] * free_.size() + j] = 1.0;
    return free_.size();
  }

  // ---- rows: single inputs and states

  void row_values(const double* X, const double* U, double* h) override {
    each_row([&](const RowGroup& g, size_t k, size_t j, size_t e) {
      h[e] = !g.inputs ? X[k * n + g.columns[j]] : k < N ? U[k * m + g.columns[j]] : 0.0;
    });
  }
  void rows_along(const double* dX, const double* dU, double* out) override {
    each_row([&](const RowGroup& g, size_t k, size_t j, size_t e) {
      out[e] = !g.on[k * g.columns.size() + j] ? 0.0 : g.inputs ? dU[k * m + g.columns[j]] : dX[k * n + g.columns[j]];
    });
  }
  void add_row_gradient(const double* w, double* gx, double* gu) override {
    each_row([&](const RowGroup& g, size_t k, size_t j, size_t e) {
      if (!g.inputs) gx[k * n + g.columns[j]] += w[e];
      else if (k < N) gu[k * m + g.columns[j]] += w[e];
    });
  }
  bool add_row_hessian(const double* w, double* Q, double*, double* R) override {
    each_row([&](const RowGroup& g, size_t k, size_t j, size_t e) {
      if (!g.inputs) Q[(k * n + g.columns[j]) * n + g.columns[j]] += w[e];
      else if (k < N) R[(k * m + g.columns[j]) * m + g.columns[j]] += w[e];
    });
    return false;
  }

 private:
  // body(W, full, k, size, e, input) of all deviations e = x - xd, then u - ud
  template <class F> void each_vector(const QuadraticTerm& t, const double* X, const double* U, F body) {
    double* e = e_.data();
    const size_t qs = t.full_Q ? n * n : n, rs = t.full_R ? m * m : m;
    for (size_t k = 0; k <= N; ++k) {
      for (size_t i = 0; i < n; ++i) e[i] = X[k * n + i] - t.Xd[k * n + i];
      body(&t.Q[k * qs], t.full_Q, k, n, e, false);
    }
    for (size_t k = 0; k < N; ++k) {
      for (size_t i = 0; i < m; ++i) e[i] = U[k * m + i] - t.Ud[k * m + i];
      body(&t.R[k * rs], t.full_R, k, m, e, true);
    }
  }
  template <class F> void each_row(F body) const {
    size_t e = 0;
    for (const RowGroup& g : groups)
      for (size_t k = 0; k <= N; ++k)
        for (size_t j = 0; j < g.columns.size(); ++j) body(g, k, j, e++);
  }
  // the end of step i as the kernels want it
  void ends(const Curve& c, int i, StepBuffers& b) const {
    std::memcpy(b.y.data(), &c.F[i * n], z_.nq * sizeof(double));
    std::memcpy(b.lam.data(), &c.Lam[i * z_.nc], z_.nc * sizeof(double));
  }
  Given given() const { return o_.parts->count > 1 ? Given::guess : Given::solution; }

  // body(scratch, buffers, stage) -> go on, of all stages, on threads
  template <class F> void stages(F body) {
    if (threads_ <= 1) {
      for (int i = 0; i < int(N); ++i) {
        if (i % 64 == 63) look();
        if (!body(lease_, b_, i)) return;
      }
      return;
    }
    parallel(int(N), threads_, 16, *pulse, [&](auto turn) {
      Lease s(core_);
      StepBuffers b(z_);
      for (auto range = turn(); range.first < range.second; range = turn())
        for (int i = range.first; i < range.second; ++i)
          if (!body(s, b, i)) return;
    });
    look();
  }

  Core& core_;
  const Lease lease_;
  const Options o_;
  const Sizes z_;
  const int threads_;
  const std::vector<double> dt_;
  const std::vector<QuadraticTerm> terms_;
  const std::vector<int> free_;
  StepBuffers b_;
  std::vector<double> e_;
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
