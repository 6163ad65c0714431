// KernelTable: the numeric core behind plain pointers, compiled once per instruction set (engine*.cpp) and chosen at
// run time. Arrays are row-major doubles. "Scratch" is an opaque per-thread workspace.
#pragma once
#include <cstddef>
#include <vector>
#include "ekf_problem.hpp"
#include "model.hpp"
#include "numbers.hpp"
#include "parts.hpp"
#include "riccati.hpp"

namespace dalembert {

struct Scratch;

struct Options {
  double alpha = 0.5, minus = 0.5, plus = 0.5, tolerance = 1e-14, h_tolerance = 1e-14;
  int max_iterations = 40;
  bool plain = false;
  double stop = 0;             // see StepOptions
  std::vector<double> h_stop;  // not empty when stop > 0
  const Parts* parts = parts_of(2);
  int stages = 1;  // above 1: Gauss steps (gauss.hpp), and none of the parts
};

// what a caller of a derivative has of the step: a guess of its end, its solution, or the solution right after this
// scratch has solved it
enum class Given { guess, solution, just_solved };

struct RolloutStatus {
  int steps = 0;         // steps completed
  int status = 0;        // StepStatus of the step that failed, 0 if none
  double error = 0;      // its residual in units of the tolerance
  bool stopped = false;  // by Rollout::look
};

struct Rollout {  // one simulation; null pointers for what is absent
  int steps;
  const double* dt;       // (steps)
  const double *U, *Rho;  // (steps, nu); (steps, nk): prescribed values at the ends of the steps, or of all parts of
                          // the steps (steps * parts, nk)
  double *Q, *P, *Lam;    // (rows + 1, nq), (rows + 1, nd), (rows, nc) with rows = steps / every; rows 0 of Q, P given
  int* iterations;        // (rows)
  int every = 1;          // each n-th state is stored; 0: only the last one, in row 0
  bool rho_by_part = false;
  // feedback: u_k = Uref_k - K_k (x_k - Xref_k); U, Rho are then outputs
  const double *K = nullptr, *Xref = nullptr, *Uref = nullptr;  // (steps, nU, nX), (steps+1, nX), (steps, nU)
  double *Uout = nullptr, *Rhoout = nullptr, *Vrho = nullptr;   // outputs; Vrho (steps+1, nk) in/out row 0
  // how good the steps are (quality.hpp): (rows, kChecks) jump, error, balance, component that changes most, number of
  // (sub)steps
  double* checks = nullptr;
  bool given = false;  // Q, P hold the motion already: each step from its own row, for the checks alone
  // above 0: 2, 4, 8, ... equal parts of each step, the first whose jumps are below `adapt`; prescribed coordinates on
  // straight lines between rho_rows values per step
  double adapt = 0;
  int rho_rows = 1;
  // called after every step k, whose end is then stored in row k + 1 (with every = 1): true ends the rollout
  bool (*look)(void* looker, int k) = nullptr;
  void* looker = nullptr;
};
constexpr int kChecks = 5;

struct KernelTable {
  const char* name;
  int width;
  void (*plan)(ModelData&);  // schedules that a new model needs, found by the kernels themselves
  Scratch* (*make)(const ModelData&, bool linearization, bool lanes);
  void (*drop)(Scratch*);
  // mechanics at a point
  void (*frames)(Scratch*, const double* q, double* poses);  // (nf, 4, 4)
  void (*energy)(Scratch*, const double* q, const double* v, double* kinetic, double* potential);
  void (*first)(Scratch*, const double* q, const double* v, double* Lq, double* Lv);
  void (*generators)(Scratch*, const double* q, const double* v);  // what second derivatives are made of; for timing
  // second and third write only the entries that can differ from zero: the arrays must come in as zeros
  void (*second)(Scratch*, const double* q, const double* v, double* qq, double* qv, double* vv);
  void (*third)(Scratch*, const double* q, const double* v, const double* dq, const double* dv, double* qq, double* qv,
                double* vv);
  void (*potential)(Scratch*, const double* q, double* value, double* grad, double* hess);
  void (*constraints)(Scratch*, const double* q, double* h, double* C);
  void (*constraint_values)(Scratch*, const double* q, double* h);  // h (nh) of the holonomic ones alone
  void (*constraint_second)(Scratch*, const double* q, const double* weight, double* D);
  void (*constraint_third)(Scratch*, const double* q, const double* weight, const double* dir, double* D);
  void (*force)(Scratch*, const double* q, const double* v, const double* u, double* F);
  void (*force_first)(Scratch*, const double* q, const double* v, const double* u, double* Fq, double* Fv, double* Fu);
  void (*force_second)(Scratch*, const double* q, const double* v, const double* u, const double* m, double* qq,
                       double* qv, double* vv, double* qu, double* vu, double* uu);
  void (*momentum)(Scratch*, const double* q, const double* v, double* h6);
  void (*twists)(Scratch*, const double* q, double* S);  // (nj, 6) by joint, about the world origin, world axes
  bool (*acceleration)(Scratch*, const double* q, const double* v, const double* u, double* acc, double* lam);
  bool (*acceleration_first)(Scratch*, const double* q, const double* v, const double* u, double* acc, double* lam,
                             double* dacc, double* dlam);
  bool (*acceleration_second)(const ModelData&, const double* q, const double* v, const double* u, const double* acc_k,
                              double* d2acc, double* d2lam);
  bool (*velocity)(Scratch*, const double* q, const double* p, double* v);  // v (nq), kinematic part given
  // the step
  int (*step)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
              double* lam, double* pnext, int* iterations, double* error);
  // resume: goes on where this scratch has stopped; otherwise from row 0 of Q, P
  RolloutStatus (*rollout)(Scratch*, const Options&, const Rollout&, int from, int to, bool resume);
  void (*rollout_lanes)(Scratch*, const Options&, const Rollout*, int count, int from, int to, RolloutStatus* status,
                        const volatile bool* stop);
  // derivatives of the step from (x, p) with u to y, lambda; return the status. Parts of a composed step are solved
  // again, from the guess y. A (nX, nX), B (nX, nU) of the state x = (q, p, v_rho), u = (u, rho); only entries that can
  // differ from zero are written, so A and B must come in as zeros
  int (*linearize)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
                   double* lam, Given, double* A, double* B);
  const double* (*next_momentum)(Scratch*);  // p_k+1 (nd) of the guess that was linearized last
  int (*derivatives)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
                     double* lam, double* Y, double* P, double* L, bool with_dt);
  int (*adjoint)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
                 double* lam, Given, const double* zq, const double* zp, const double* zl, double* grad);
  // out (nd + nd + nc): change of (q', p', lambda) with that of w, dw (nw)
  int (*push)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
              double* lam, Given, const double* dw, double* out);
  // H (count, nw, nw) for count costates (count, nd + nd + nc): one preparation, many contractions
  int (*second_order)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
                      double* lam, Given, int count, const double* z, double* H);
  // linear-quadratic kernel
  bool (*riccati)(const RiccatiProblem&, RiccatiSolution&, double* work);
  std::size_t (*riccati_workspace)(int states, int inputs);
  void (*riccati_rollout)(const RiccatiProblem&, const RiccatiSolution&, const double* x0, double* X, double* U);
  bool (*ekf)(const EkfProblem&, int begin, int end);  // false: not enough memory
  // one filter (kalman.hpp)
  std::size_t (*kalman_room)(int n, int m);
  void (*kalman_predict)(int n, const double* A, const double* P, const double* Q, double scale, double* next,
                         double* cross, double* work);
  int (*kalman_update)(int n, int m, const double* H, const double* e, const double* R, double limit, const double* P,
                       double* distance, double* dx, double* next, double* work);
  void (*kalman_slope)(const ModelData&, int nz, const double* C, const double* x, double* H);
  bool (*kalman_move)(const ModelData&, const double* x, const double* dx, double* next, double* P);
  void (*tape)(const Tape&, const double* x, double* work, double* y);  // work (n_work)
  // derivatives by parameters (parameters_dual.hpp)
  bool (*parameters_known)(const ModelData&);
  // as adjoint; by (links.count): added to
  int (*adjoint_parameters)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u,
                            double* y, double* lam, const double* zq, const double* zp, const double* zl,
                            const ParameterLinks&, double* grad, double* by);
  // S (2 nd, columns), derivatives of (q, p), to those of (q', p'); SL (nc, columns) of lambda, may be null
  int (*sensitivity)(Scratch*, const Options&, double dt, const double* x, const double* p, const double* u, double* y,
                     double* lam, double* pnext, Given, const ParameterLinks&, int columns, double* S, double* SL);
  bool (*lagrangian_parameters)(Scratch*, const double* q, const double* v, const double* dq, const double* dv,
                                const ParameterLinks&, double* by);
  bool (*force_parameters)(Scratch*, const double* q, const double* v, const double* u, const ParameterLinks&,
                           double* by);
  bool (*configuration_parameters)(Scratch*, const double* q, int count, const int* frame, const ParameterLinks&,
                                   double* h, double* p);
  // H (columns, columns; lower triangle) += J'J, g (columns) += J'e of J (rows, columns); room: products_room()
  void (*add_products)(int rows, int columns, const double* J, const double* e, double* H, double* g, double* room);
  size_t (*products_room)(int rows, int columns);
};

const KernelTable& kernels();        // the best one for this machine (or as forced by set_kernels)
bool set_kernels(const char* name);  // "x86-64-v2", "x86-64-v3", "x86-64-v4", "generic"

}  // namespace dalembert
