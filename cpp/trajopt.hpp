// Steps of a motion that may have gaps, for trajectory optimization: states X (N+1, nx) and inputs U (N, nU) are both
// unknowns, step k leads from x_k to f(x_k, u_k), and the gap is c_k = difference(x_k+1, f(x_k, u_k)).
//
//   shoot   all steps, each from its own state; with their A and B, for which no step is solved again
//   follow  the motion that a linear-quadratic problem around (X, U) proposes: its feedback, rolled out through the
//   steps, with a
//           share of every gap left open. Without gaps this is the projection operator with those gains.
//
// Contract: row-major arrays, time first; work is a Scratch of the core and a Buffers made once; nothing is allocated
// here.
#pragma once
#include "configuration.hpp"
#include "core.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// x = (q, p, v_rho); its variations (dq, dp, dv_rho)
inline void state_retract(const ModelData& M, const double* x, const double* dx, double scale, double* out) {
  double turn[3];
  for_components(M, 0, M.nv, [&](int k, int i) { out[k] = x[k] + scale * dx[i]; }, [&](int k, int i) {
    for (int a = 0; a < 3; ++a) turn[a] = scale * dx[i + a];
    turn_by(x + k, turn, out + k);
  });
  for (int i = 0; i < M.nd + M.nk; ++i) out[M.nq + i] = x[M.nq + i] + scale * dx[M.nv + i];
}
inline void state_difference(const ModelData& M, const double* x0, const double* x1, double* out) {
  difference(M, x0, x1, out, 0, M.nv);
  for (int i = 0; i < M.nd + M.nk; ++i) out[M.nv + i] = x1[M.nq + i] - x0[M.nq + i];
}

struct StepBuffers {
  std::vector<double> y, lam, dx, at, H;  // H: for second order, sized by who needs it
  static constexpr int kDifferences = 3;
  static constexpr double kNear = 0.3;  // rad or m
  std::vector<double> off, next;        // of `follow`
  explicit StepBuffers(const Sizes& z)
      : y(z.nq + 1), lam(z.nc + 1), dx(z.ndx + 1), at(z.nx + 1), off(kDifferences * z.ndx + 1), next(z.ndx + 1) {}
};

// inputs: x (nx), u (nU), guess (nx) of the end. output: next (nx). Returns the status of the step; Newton starts once
// more from x where the guess leads nowhere
inline int one_step(const KernelTable& k, Scratch* s, const Options& o, const Sizes& z, double dt, const double* x,
                    const double* u, const double* guess, StepBuffers& b, double* next) {
  int status = 0;
  const double* from = guess;
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::memcpy(b.y.data(), from, (z.nq - z.nqk) * sizeof(double));
    std::memcpy(b.y.data() + z.nq - z.nqk, u + z.nu, z.nqk * sizeof(double));
    std::fill(b.lam.begin(), b.lam.end(), 0.0);
    int iterations;
    double error;
    status = k.step(s, o, dt, x, x + z.nq, u, b.y.data(), b.lam.data(), next + z.nq, &iterations, &error);
    if (status == 0) break;
    from = x;
  }
  if (status) return status;
  std::memcpy(next, b.y.data(), z.nq * sizeof(double));
  for (size_t i = 0; i < z.nk; ++i) next[z.nq + z.nd + i] = (u[z.nu + i] - x[z.nq - z.nqk + i]) / dt;
  return 0;
}

struct Follow {
  const double *X, *U, *dX, *dU, *K, *c;  // around what, the LQ problem's own motion and gains, gaps (or null)
  const double *low, *high;               // (N, nU) what inputs are clipped to, or null
  const double* dt;
  int steps;
  double share;           // of the way
  double* Lam = nullptr;  // (N, nc) if not null: multipliers of the steps
};

// outputs: Xn (N+1, nx), Un (N, nU), F (N, nx) the ends of the steps. Returns the number of steps done; `status` of the
// one that failed
inline int follow(const KernelTable& k, Scratch* s, const Options& o, const ModelData& M, const Follow& f,
                  StepBuffers& b, double* Xn, double* Un, double* F, int from, int to, int* status) {
  const Sizes z(M);
  if (from == 0) state_retract(M, f.X, f.dX, f.share, Xn);
  for (int i = from; i < to; ++i) {
    const double* x = Xn + i * z.nx;
    double *u = Un + i * z.nU, *end = F + i * z.nx;
    // the law of the LQ problem
    state_retract(M, f.X + i * z.nx, f.dX + i * z.ndx, f.share, b.at.data());
    state_difference(M, b.at.data(), x, b.dx.data());
    const double* K = f.K + i * z.nU * z.ndx;
    for (size_t j = 0; j < z.nU; ++j) {
      double t = f.U[i * z.nU + j] + f.share * f.dU[i * z.nU + j];
      for (size_t h = 0; h < z.ndx; ++h) t -= K[j * z.ndx + h] * b.dx[h];
      if (f.low) t = std::min(std::max(t, f.low[i * z.nU + j]), f.high[i * z.nU + j]);
      u[j] = t;
    }
    // the step, from where the LQ problem expects its end, as far off as the last states say (by backward differences);
    // then what is left of the gap
    bool near = true;  // far off, looking back says nothing
    for (size_t h = 0; h < z.ndx; ++h) {
      double difference = b.dx[h], off = difference;
      for (int order = 0; order < b.kDifferences; ++order) {
        double& last = b.off[order * z.ndx + h];
        const double higher = difference - last;
        last = difference;
        difference = higher;
        if (i > order) off += difference;
      }
      near = near && (h >= z.nv || std::fabs(off) < b.kNear);
      b.next[h] = f.share * f.dX[(i + 1) * z.ndx + h] + off + (f.c ? (1.0 - f.share) * f.c[i * z.ndx + h] : 0.0);
    }
    if (!near)
      for (size_t h = 0; h < z.ndx; ++h) b.next[h] = f.share * f.dX[(i + 1) * z.ndx + h];
    state_retract(M, f.X + (i + 1) * z.nx, b.next.data(), 1.0, b.at.data());
    *status = one_step(k, s, o, z, f.dt[i], x, u, b.at.data(), b, end);
    if (*status) return i;
    if (f.Lam) std::memcpy(f.Lam + i * z.nc, b.lam.data(), z.nc * sizeof(double));
    if (f.c) state_retract(M, end, f.c + i * z.ndx, f.share - 1.0, Xn + (i + 1) * z.nx);
    else std::memcpy(Xn + (i + 1) * z.nx, end, z.nx * sizeof(double));
  }
  return to;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
