// A filter whose estimates stay on holonomic constraints h(q) = 0 (integrate/reachable.py says what the spaces are):
// the state brought back to them, and perturbations taken along them. For models without balls and constraints that are
// independent; anything else fails, and Python does it with singular values.
//
//   C = Dh by the dynamic q,   onto q: 1 - C+ Dh (prescribed variables stay),   onto p: 1 - C+ C
//   what a step leaves: dq -> (1 - Dh+ Dh) dq,   dp -> (1 - C+ C) (dp - S dq),   S = d(C' nu)/dq, nu the gauge of p
#pragma once
#include <cmath>
#include "calls.hpp"

namespace dalembert {

// The rows of a matrix (m, n) as L Q with orthonormal rows Q: Gram-Schmidt, twice
struct Rows {
  size_t m, n;
  std::vector<double> L, Q;
  Rows(size_t rows, size_t columns) : m(rows), n(columns), L(rows * rows), Q(rows * columns) {}
  // row i of the matrix begins at M + i stride; false: they are not independent (by 1e-6 of their length)
  bool factor(const double* M, size_t stride) {
    std::fill(L.begin(), L.end(), 0.0);
    for (size_t i = 0; i < m; ++i) {
      double* q = &Q[i * n];
      double length = 0, rest = 0;
      for (size_t j = 0; j < n; ++j) q[j] = M[i * stride + j], length += q[j] * q[j];
      for (int pass = 0; pass < 2; ++pass)
        for (size_t c = 0; c < i; ++c) {
          double t = 0;
          for (size_t j = 0; j < n; ++j) t += Q[c * n + j] * q[j];
          for (size_t j = 0; j < n; ++j) q[j] -= t * Q[c * n + j];
          L[i * m + c] += t;
        }
      for (size_t j = 0; j < n; ++j) rest += q[j] * q[j];
      if (!(rest > 1e-12 * length)) return false;
      rest = std::sqrt(rest);
      L[i * m + i] = rest;
      for (size_t j = 0; j < n; ++j) q[j] /= rest;
    }
    return true;
  }
  // y (m) <- L^-1 y, then (n) Q' y is the shortest solution of M x = y
  void forward(double* y) const {
    for (size_t i = 0; i < m; ++i) {
      for (size_t c = 0; c < i; ++c) y[i] -= L[i * m + c] * y[c];
      y[i] /= L[i * m + i];
    }
  }
  // y (m) <- L^-T y
  void backward(double* y) const {
    for (size_t i = m; i-- > 0;) {
      for (size_t c = i + 1; c < m; ++c) y[i] -= L[c * m + i] * y[c];
      y[i] /= L[i * m + i];
    }
  }
  // X (n, columns; row stride ld) <- X - Q' (Q X)
  void across(double* X, size_t columns, size_t ld, double* room) const {
    for (size_t i = 0; i < m; ++i) {
      const double* q = &Q[i * n];
      for (size_t c = 0; c < columns; ++c) room[c] = 0;
      for (size_t j = 0; j < n; ++j)
        for (size_t c = 0; c < columns; ++c) room[c] += q[j] * X[j * ld + c];
      for (size_t j = 0; j < n; ++j)
        for (size_t c = 0; c < columns; ++c) X[j * ld + c] -= q[j] * room[c];
    }
  }
};

class Tied {
 public:
  explicit Tied(const OneCall& call)
      : call_(call),
        z_(call.sizes()),
        h_(z_.nc + 1),
        D_(z_.nc * z_.nv + 1),
        S_(z_.nv * z_.nv + 1),
        v_(z_.nv),
        Lq_(z_.nv),
        Lv_(z_.nv),
        room_(z_.ndx + z_.nv * z_.nv + z_.nc * z_.nv),
        dynamic_(z_.nc, z_.nd),
        all_(z_.nc, z_.nv) {}
  static bool knows(const ModelData& M) { return M.flat && M.nc > 0 && M.nh == M.nc; }

  // x (nx) to the nearest state on the constraints, its momentum that of a velocity along them
  bool settle(Scratch* s, double* x) {
    const KernelTable& k = call_.core().table();
    k.constraints(s, x, h_.data(), D_.data());
    double best = error(), largest = 0;
    for (size_t i = 0; i < z_.nc * z_.nv; ++i) largest = std::max(largest, std::fabs(D_[i]));
    const double scale = 1 + largest, tolerance = 1e-12;
    std::vector<double> from(z_.nd), step(z_.nd);
    for (int it = 0; !(best <= tolerance * scale); ++it) {
      if (it == 200 || !std::isfinite(best) || !dynamic_.factor(D_.data(), z_.nv)) return false;
      dynamic_.forward(h_.data());
      std::fill(step.begin(), step.end(), 0.0);
      for (size_t c = 0; c < z_.nc; ++c)
        for (size_t j = 0; j < z_.nd; ++j) step[j] -= h_[c] * dynamic_.Q[c * z_.nd + j];
      std::copy(x, x + z_.nd, from.begin());
      double t = 1, now = 0;
      for (;; t *= 0.5) {
        if (!(t > 1e-10)) return false;
        for (size_t j = 0; j < z_.nd; ++j) x[j] = from[j] + t * step[j];
        k.constraints(s, x, h_.data(), D_.data());
        if ((now = error()) < best * (1 - 1e-4 * t)) break;
      }
      best = now;
    }
    if (!own_momentum(s, x)) return false;
    std::copy(Lv_.begin(), Lv_.begin() + z_.nd, x + z_.nq);
    return true;
  }

  // the bases at the state x (nx), for what follows
  bool prepare(Scratch* s, const double* x) {
    call_.core().table().constraints(s, x, h_.data(), D_.data());
    return dynamic_.factor(D_.data(), z_.nv) && all_.factor(D_.data(), z_.nv);
  }
  // A (ndx, columns) <- its part along the constraints at the end x of the step, in the gauge in which it ends
  bool after_step(Scratch* s, const double* x, double* A) {
    const size_t n = z_.ndx, nd = z_.nd, nv = z_.nv;
    if (!own_momentum(s, x)) return false;
    // nu: the shortest with C' nu = p - L_v
    std::vector<double> nu(z_.nc + 1);
    for (size_t c = 0; c < z_.nc; ++c)
      for (size_t j = 0; j < nd; ++j) nu[c] += dynamic_.Q[c * nd + j] * (x[z_.nq + j] - Lv_[j]);
    dynamic_.backward(nu.data());
    std::fill(S_.begin(), S_.end(), 0.0);
    call_.core().table().constraint_second(s, x, nu.data(), S_.data());
    for (size_t i = 0; i < nd; ++i)
      for (size_t j = 0; j < nv; ++j)
        for (size_t c = 0; c < n; ++c) A[(nv + i) * n + c] -= S_[i * nv + j] * A[j * n + c];
    dynamic_.across(A + nv * n, n, n, room_.data());
    all_.across(A, n, n, room_.data());
    return true;
  }
  // P (ndx, ndx) <- onto P onto', symmetric
  void along(double* P) {
    const size_t n = z_.ndx;
    onto(P, n, 1);
    onto(P, 1, n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < i; ++j) P[i * n + j] = P[j * n + i] = 0.5 * (P[i * n + j] + P[j * n + i]);
  }

 private:
  double error() const {
    double e = 0;
    for (size_t c = 0; c < z_.nc; ++c) {
      if (!std::isfinite(h_[c])) return INFINITY;
      e = std::max(e, std::fabs(h_[c]));
    }
    return e;
  }
  // L_v of the velocity along the constraints that belongs to p
  bool own_momentum(Scratch* s, const double* x) {
    const KernelTable& k = call_.core().table();
    std::copy(x + z_.nq + z_.nd, x + z_.nx, v_.begin() + z_.nd);
    if (!k.velocity(s, x, x + z_.nq, v_.data())) return false;
    k.first(s, x, v_.data(), Lq_.data(), Lv_.data());
    return true;
  }
  // onto times the columns of X (ndx, ndx), entry (i, c) at i row + c column
  void onto(double* X, size_t row, size_t column) {
    const size_t n = z_.ndx, nd = z_.nd, nv = z_.nv;
    double* y = room_.data();
    for (size_t c = 0; c < n; ++c) {
      double* x = X + c * column;
      for (size_t i = 0; i < z_.nc; ++i) {
        double t = 0;
        for (size_t j = 0; j < nv; ++j) t += D_[i * nv + j] * x[j * row];
        y[i] = t;
      }
      dynamic_.forward(y);
      for (size_t i = 0; i < z_.nc; ++i)
        for (size_t j = 0; j < nd; ++j) x[j * row] -= y[i] * dynamic_.Q[i * nd + j];
      for (size_t i = 0; i < z_.nc; ++i) {
        double t = 0;
        for (size_t j = 0; j < nd; ++j) t += dynamic_.Q[i * nd + j] * x[(nv + j) * row];
        for (size_t j = 0; j < nd; ++j) x[(nv + j) * row] -= t * dynamic_.Q[i * nd + j];
      }
    }
  }

  const OneCall& call_;
  const Sizes& z_;
  std::vector<double> h_, D_, S_, v_, Lq_, Lv_, room_;
  Rows dynamic_, all_;
};

}  // namespace dalembert
