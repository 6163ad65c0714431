// EkfProblem: what a batch of extended Kalman filters gets and returns (see ekf.hpp); plain pointers, no instruction
// set.
#pragma once
#include "model.hpp"
#include "parts.hpp"

namespace dalembert {

struct EkfProblem {
  const ModelData* model = nullptr;
  double alpha = 0.5, minus = 0.5, plus = 0.5, tolerance = 1e-13, h_tolerance = 1e-14;
  int max_iterations = 40;
  const Parts* parts = parts_of(2);
  bool euler = false;    // x = (q, v), u = (forces, kinematic accelerations); otherwise x = (q, p, v_rho), u = (forces,
                         // rho')
  bool nominal = false;  // predicted mean = X[k + 1] + W instead of f(mean) + W
  int steps = 0, trials = 0, nz = 0;
  const double* dt = nullptr;      // (N)
  const double* X = nullptr;       // (N + 1, nx) reference: errors are measured against it
  const double* U = nullptr;       // (N, nu + nk)
  const double* start = nullptr;   // (trials, nx) first means
  const double* Z = nullptr;       // (trials, N + 1, nz), NaN where nothing was measured
  const double* W = nullptr;       // (trials, N, nx) added to predicted means, or null
  const double* C = nullptr;       // (nz, nx)
  const double* P0 = nullptr;      // (nx, nx)
  const double* Q = nullptr;       // (nx, nx)
  const double* R = nullptr;       // (nz, nz)
  const double* gate = nullptr;    // (nz + 1) largest squared innovation by the number of entries measured, or null
  const double* weight = nullptr;  // (nx) error = sqrt(sum weight (mean - X)^2)
  double* error = nullptr;         // (trials, N + 1)
  double* mean = nullptr;          // (trials, N + 1, nx) or null
  double* P = nullptr;             // (trials, nx, nx) last covariances or null
  int* status = nullptr;           // (trials) 0, or 1 + the state at which it failed
  int* refused = nullptr;          // (trials) number of gated measurements or null
  const volatile bool* stop = nullptr;  // true: to be given up (results are not complete)
};

}  // namespace dalembert
