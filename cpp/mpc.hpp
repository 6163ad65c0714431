// Predictive control of a model: real-time iterations of an LQ problem along a plan that may have gaps, in two phases.
//
//   prepare   shift the plan by a step, take all its steps with A and B (trajopt.hpp), weights and slopes of the cost
//             1/2 e'Qe + 1/2 (u - ud)'R(u - ud), e = difference(xd, x), a barrier for bounds on inputs, one Riccati
//             sweep
//   respond   the measured state enters as dx_0: the LQ problem's motion, inputs clipped inside their bounds, is the
//   new plan
//
// Diehl, Bock, Schloeder, A real-time iteration scheme for nonlinear optimization in optimal feedback control; the
// bounds by one step of a primal-dual interior point per call, at a fixed small mu, with shifted multipliers.
// Everything is allocated when a Plan is made.
#pragma once
#include <cmath>
#include <vector>
#include "trajopt.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// J (3, 3) of d -> log(exp(phi) exp(d)) at 0: the inverse of the right Jacobian of the rotation vector phi
inline void log_jacobian(const double* phi, double* J) {
  const double s = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2], angle = std::sqrt(s);
  const double b = s < 1e-6 ? 1.0 / 12 + s / 720
                            : (1.0 - 0.5 * angle * std::cos(0.5 * angle) / std::sin(0.5 * angle)) / s;
  const double x[9] = {0, -phi[2], phi[1], phi[2], 0, -phi[0], -phi[1], phi[0], 0};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) J[3 * i + j] = (i == j ? 1.0 - b * s : 0.0) + 0.5 * x[3 * i + j] + b * phi[i] * phi[j];
}

struct PlanWeights {      // row-major; strides in doubles from step to step, 0 for constant ones
  std::vector<double> Q;  // (N + 1 or 1, ndx, ndx), the last one for the final state is Qf
  std::vector<double> Qf, R;
  std::ptrdiff_t Q_stride = 0, R_stride = 0;
};

class Plan {
 public:
  Plan(Core& core, const Options& o, std::vector<double> dt, PlanWeights weights, std::vector<double> low,
       std::vector<double> high, double mu)
      : core_(core),
        o_(o),
        M_(core.model()),
        z_(M_),
        N_(int(dt.size())),
        dt_(std::move(dt)),
        w_(std::move(weights)),
        low_(std::move(low)),
        high_(std::move(high)),
        mu_(mu),
        b_(z_) {
    const size_t N = N_, n = z_.ndx, m = z_.nU;
    bounded_ = false;
    for (size_t j = 0; j < m; ++j) bounded_ |= std::isfinite(low_[j]) || std::isfinite(high_[j]);
    auto size = [](std::vector<double>& v, size_t count) { v.assign(count + 8, 0.0); };
    size(X, (N + 1) * z_.nx);
    size(U, N * m);
    size(Xd, (N + 1) * z_.nx);
    size(Ud, N * m);
    size(F_, z_.nx);
    size(A_, N * n * n);
    size(B_, N * n * m);
    size(c_, N * n);
    size(q_, (N + 1) * n);
    size(r_, N * m);
    size(R_, N * m * m);
    if (!M_.flat) size(Q_, (N + 1) * n * n);
    size(K, N * m * n);
    size(k_, N * m);
    size(dX_, (N + 1) * n);
    size(dU_, N * m);
    size(zl_, N * m);
    size(zh_, N * m);
    size(e_, n);
    size(g_, n);
    size(work_, core.table().riccati_workspace(int(n), int(m)));
    size(turn_, 3 * n + 9);
  }

  std::vector<double> X, U, Xd, Ud, K;  // the plan, its reference, its gains (N, nU, ndx)
  double change = 0, gap = 0;           // largest change of an input and largest gap in the last iteration

  // multipliers of the barrier that fit the inputs; inputs a little inside their bounds
  void begin() {
    for (int i = 0; i < N_; ++i) inside(i);
    prepared_ = false;
  }
  int steps() const { return N_; }
  const Sizes& sizes() const { return z_; }

  // Returns 0, or the status of a step that failed (as it is), or -1 where the sweep fails
  int prepare(bool shift) {
    const size_t n = z_.ndx, m = z_.nU, nx = z_.nx;
    if (shift) this->shift();
    const KernelTable& k = core_.table();
    gap = 0;
    {
      Lease s(core_);
      // only entries that can differ from zero are written: A and B stay zero elsewhere
      for (int i = 0; i < N_; ++i) {
        const double *x = &X[i * nx], *u = &U[i * m];
        double *A = &A_[i * n * n], *B = &B_[i * n * m], *c = &c_[i * n];
        int status = one_step(k, s, o_, z_, dt_[i], x, u, x + nx, b_, F_.data());
        if (status) return status;
        state_difference(M_, x + nx, F_.data(), c);
        if (!M_.flat) {
          std::fill(A, A + n * n, 0.0);
          std::fill(B, B + n * m, 0.0);
        }
        status = k.linearize(s, o_, dt_[i], x, x + z_.nq, u, b_.y.data(), b_.lam.data(), Given::just_solved, A, B);
        if (status) return status;
        if (!M_.flat) turn_rows(c, A, B);
        for (size_t h = 0; h < n; ++h) gap = std::max(gap, std::fabs(c[h]));
      }
    }
    for (int i = 0; i < N_; ++i) weigh(i);
    weigh(N_);
    RiccatiProblem p;
    p.states = int(n);
    p.inputs = int(m);
    p.steps = N_;
    p.A = A_.data();
    p.A_stride = std::ptrdiff_t(n * n);
    p.B = B_.data();
    p.B_stride = std::ptrdiff_t(n * m);
    p.c = c_.data();
    p.c_stride = std::ptrdiff_t(n);
    p.q = q_.data();
    p.q_stride = std::ptrdiff_t(n);
    p.qf = &q_[N_ * n];
    p.r = r_.data();
    p.r_stride = std::ptrdiff_t(m);
    p.Q = M_.flat ? w_.Q.data() : Q_.data();
    p.Q_stride = M_.flat ? w_.Q_stride : std::ptrdiff_t(n * n);
    p.Qf = M_.flat ? w_.Qf.data() : &Q_[N_ * n * n];
    p.R = bounded_ ? R_.data() : w_.R.data();
    p.R_stride = bounded_ ? std::ptrdiff_t(m * m) : w_.R_stride;
    RiccatiSolution s;
    s.K = K.data();
    s.k = k_.data();
    if (!k.riccati(p, s, work_.data())) return -1;
    prepared_ = true;
    return 0;
  }

  // x (nx) measured; u (nU) to apply. False: the new plan is not finite, and the plan stays as it was
  bool respond(const double* x, double* u) {
    const size_t n = z_.ndx, m = z_.nU, nx = z_.nx;
    state_difference(M_, X.data(), x, dX_.data());
    change = 0;
    bool good = prepared_;
    for (int i = 0; i < N_ && good; ++i) {
      double *dx = &dX_[i * n], *du = &dU_[i * m], *next = dx + n;
      const double *Ki = &K[i * m * n], *A = &A_[i * n * n], *B = &B_[i * n * m];
      for (size_t j = 0; j < m; ++j) {
        double t = -k_[i * m + j];
        for (size_t h = 0; h < n; ++h) t -= Ki[j * n + h] * dx[h];
        const double at = U[i * m + j];
        if (std::isfinite(low_[j])) t = std::max(t, 0.99 * (low_[j] - at));
        if (std::isfinite(high_[j])) t = std::min(t, 0.99 * (high_[j] - at));
        du[j] = t;
        change = std::max(change, std::fabs(t));
      }
      for (size_t h = 0; h < n; ++h) {
        double t = c_[i * n + h];
        const double *a = A + h * n, *b = B + h * m;
        for (size_t g = 0; g < n; ++g) t += a[g] * dx[g];
        for (size_t j = 0; j < m; ++j) t += b[j] * du[j];
        next[h] = t;
        good = good && std::isfinite(t) && std::fabs(t) < 1e12;
      }
    }
    prepared_ = false;
    if (!good) return false;
    for (int i = 0; i < N_; ++i) {
      multipliers(i);
      for (size_t j = 0; j < m; ++j) U[i * m + j] += dU_[i * m + j];
    }
    std::memcpy(X.data(), x, nx * sizeof(double));
    for (int i = 1; i <= N_; ++i) state_retract(M_, &X[i * nx], &dX_[i * n], 1.0, &X[i * nx]);
    std::memcpy(u, U.data(), m * sizeof(double));
    return true;
  }

 private:
  void shift() {
    const size_t m = z_.nU, nx = z_.nx;
    std::memmove(X.data(), &X[nx], N_ * nx * sizeof(double));  // the last state stays, and with it a gap
    std::memmove(U.data(), &U[m], (N_ - 1) * m * sizeof(double));
    std::memmove(zl_.data(), &zl_[m], (N_ - 1) * m * sizeof(double));
    std::memmove(zh_.data(), &zh_[m], (N_ - 1) * m * sizeof(double));
  }

  void inside(int i) {
    const size_t m = z_.nU;
    for (size_t j = 0; j < m; ++j) {
      double& u = U[i * m + j];
      const double width = high_[j] - low_[j], pad = std::isfinite(width) ? 1e-2 * width : 1e-2;
      u = std::min(std::max(u, low_[j] + pad), high_[j] - pad);
      zl_[i * m + j] = std::isfinite(low_[j]) ? mu_ / (u - low_[j]) : 0.0;
      zh_[i * m + j] = std::isfinite(high_[j]) ? mu_ / (high_[j] - u) : 0.0;
    }
  }

  // rows of balls in A, B of the step whose gap is c: from the tangent at the end of the step to that at x_k+1
  void turn_rows(const double* c, double* A, double* B) {
    for (const Ball& ball : M_.balls) {
      if (ball.v >= M_.nd) continue;
      double* J = turn_.data();
      log_jacobian(c + ball.v, J);
      auto apply = [&](double* W, size_t columns) {
        double* row = turn_.data() + 9;
        for (size_t col = 0; col < columns; ++col) {
          for (int a = 0; a < 3; ++a) row[a] = W[(ball.v + a) * columns + col];
          for (int a = 0; a < 3; ++a)
            W[(ball.v + a) * columns + col] = J[3 * a] * row[0] + J[3 * a + 1] * row[1] + J[3 * a + 2] * row[2];
        }
      };
      apply(A, z_.ndx);
      apply(B, z_.nU);
    }
  }

  // slope and weights of node i
  void weigh(int i) {
    const size_t n = z_.ndx, m = z_.nU;
    const double* Q = i == N_ ? w_.Qf.data() : w_.Q.data() + i * w_.Q_stride;
    state_difference(M_, &Xd[i * z_.nx], &X[i * z_.nx], e_.data());
    double* q = &q_[i * n];
    gemv(int(n), int(n), 1.0, Q, int(n), e_.data(), 0.0, q);
    if (!M_.flat) {
      double* W = &Q_[i * n * n];
      std::memcpy(W, Q, n * n * sizeof(double));
      for (const Ball& ball : M_.balls) {
        if (ball.v >= M_.nd) continue;
        double J[9], t[3];
        const int v = ball.v;
        log_jacobian(e_.data() + v, J);
        for (int a = 0; a < 3; ++a) t[a] = J[a] * q[v] + J[3 + a] * q[v + 1] + J[6 + a] * q[v + 2];
        std::memcpy(q + v, t, sizeof t);
        for (size_t col = 0; col < n; ++col) {  // J' on the rows
          for (int a = 0; a < 3; ++a)
            t[a] = J[a] * W[v * n + col] + J[3 + a] * W[(v + 1) * n + col] + J[6 + a] * W[(v + 2) * n + col];
          for (int a = 0; a < 3; ++a) W[(v + a) * n + col] = t[a];
        }
        for (size_t row = 0; row < n; ++row) {  // J on the columns
          double* w = W + row * n + v;
          for (int a = 0; a < 3; ++a) t[a] = w[0] * J[a] + w[1] * J[3 + a] + w[2] * J[6 + a];
          std::memcpy(w, t, sizeof t);
        }
      }
    }
    if (i == N_) return;
    const double* R = w_.R.data() + i * w_.R_stride;
    double* r = &r_[i * m];
    for (size_t j = 0; j < m; ++j) {
      double t = 0;
      for (size_t h = 0; h < m; ++h) t += R[j * m + h] * (U[i * m + h] - Ud[i * m + h]);
      r[j] = t;
    }
    if (!bounded_) return;
    double* W = &R_[i * m * m];
    std::memcpy(W, R, m * m * sizeof(double));
    for (size_t j = 0; j < m; ++j) {
      const double u = U[i * m + j];
      if (std::isfinite(low_[j])) W[j * m + j] += zl_[i * m + j] / (u - low_[j]), r[j] -= mu_ / (u - low_[j]);
      if (std::isfinite(high_[j])) W[j * m + j] += zh_[i * m + j] / (high_[j] - u), r[j] += mu_ / (high_[j] - u);
    }
  }

  // the multipliers of step i go along with its inputs, stay positive and within a band around mu / room
  void multipliers(int i) {
    const size_t m = z_.nU;
    for (size_t j = 0; j < m; ++j) {
      const double u = U[i * m + j], du = dU_[i * m + j];
      auto advance = [&](double& z, double room, double moved) {
        z += mu_ / room - z - z / room * moved;
        const double fits = mu_ / (room + moved);
        z = std::min(std::max(z, 1e-2 * fits), 1e2 * fits);
      };
      if (std::isfinite(low_[j])) advance(zl_[i * m + j], u - low_[j], du);
      if (std::isfinite(high_[j])) advance(zh_[i * m + j], high_[j] - u, -du);
    }
  }

  Core& core_;
  const Options o_;
  const ModelData& M_;
  const Sizes z_;
  const int N_;
  const std::vector<double> dt_;
  const PlanWeights w_;
  const std::vector<double> low_, high_;
  const double mu_;
  bool bounded_ = false, prepared_ = false;
  StepBuffers b_;
  std::vector<double> F_, A_, B_, c_, q_, r_, R_, Q_, k_, dX_, dU_, zl_, zh_, e_, g_, work_, turn_;
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
