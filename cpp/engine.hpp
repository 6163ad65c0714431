// What the files of an instruction set's build share: the scratch behind KernelTable, and what fills it. engine.cpp
// works on doubles, engine_lanes.cpp on several motions side by side, engine_dual.cpp on dual numbers.
#pragma once
#include "composition.hpp"
#include "ekf_problem.hpp"
#include "gauss.hpp"
#include "kernels.hpp"
#include "parameters.hpp"
#include "quality.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Engine {
  Work<double> d;
  Work<Lanes>* lanes = nullptr;
  Work<Dual>* dual = nullptr;              // second order of balls and of velocity constraints
  ParameterScratch* parameters = nullptr;  // made when somebody asks for derivatives by them
  History<double> history;
  History<Lanes> lane_history;
  Misses<double> misses;  // of composed steps
  Misses<Lanes> lane_misses;
  Lanes* lane_rho = nullptr;  // prescribed values at the start of a step
  Quality<double> quality;    // of the motion that rollout() follows
  Quality<Lanes> lane_quality;
  Checks checks[8];   // of each lane since its last stored state
  int spent[8] = {};  // iterations of each lane in a step
  // steps that adapt: what a step begins with
  History<double> kept_history;
  Quality<double> kept_quality;
  double *kept_p, *kept_lam;
  double share = 0;          // of the step before that its last part had
  double* buffer = nullptr;  // two states and inputs
  // composed steps: what their parts leave, derivatives by the whole step (composition.hpp)
  PartStates parts;
  PartTangent tangent;
  double *zq, *ball_rows, *pnext, *costates, *gradient, *square, *packing;
  char *block = nullptr, *lane_block = nullptr;
  GaussWork* gauss[kMostStages + 1] = {};  // by the number of stages, made when somebody asks for them
};

inline Engine* engine(Scratch* s) { return reinterpret_cast<Engine*>(s); }
inline Work<double>& work(Scratch* s) { return engine(s)->d; }

inline StepOptions options(const Options& o) {
  StepOptions out;
  out.alpha = o.alpha;
  out.minus = o.minus;
  out.plus = o.plus;
  out.tolerance = o.tolerance;
  out.h_tolerance = o.h_tolerance;
  out.max_iterations = o.max_iterations;
  out.plain = o.plain;
  out.stop = o.stop;
  out.h_stop = o.h_stop.data();
  out.h_count = int(o.h_stop.size());
  return out;
}

inline void copy(double* to, const double* from, size_t n) {
  if (to && from && n) std::memcpy(to, from, n * sizeof(double));
}

// short rows: without the call of memcpy
DAL_INLINE void copy_row(double* to, const double* from, int n) {
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) store(to + i, load(from + i));
  for (; i < n; ++i) to[i] = from[i];
}

inline Work<double>& at(Scratch* s, const double* q, const double* v, const double* u) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  copy(w.kin.q, q, M.nq);
  if (v) copy(w.kin.v, v, M.nv);
  else
    for (int i = 0; i < M.nv; ++i) w.kin.v[i] = 0;
  if (u) copy(w.step.u, u, M.nu);
  else
    for (int i = 0; i < M.nu; ++i) w.step.u[i] = 0;
  set_reference(w, w.kin.q);
  return w;
}

static constexpr Slots<double> kContinuous = {1, 0, 0, 1};

// q_k+1, p_k+1 and the constraints there become those of the next step's start
template <class T> inline void advance(Work<T>& w) {
  auto swap = [](T*& a, T*& b) {
    T* t = a;
    a = b;
    b = t;
  };
  swap(w.step.x, w.step.y);
  swap(w.step.p, w.step.p_next);
  advance_constraints(w);
}

// row of the stored states after k steps, -1 where it is not stored
inline int stored_row(const Rollout& r, int k) { return r.every == 0 ? 0 : k % r.every ? -1 : k / r.every; }

// prescribed coordinates of y (nq) at the end of part i of step k, from those of `from` (nq) at the start of the step
inline void prescribed(const ModelData& M, const Rollout& r, const Parts& parts, int k, int i, const double* Rho,
                       const double* from, double* y) {
  const int nqk = M.nq - M.nqd;
  if (!Rho) {
    copy(y + M.nqd, from + M.nqd, nqk);
    return;
  }
  const double* to = Rho + (r.rho_by_part ? size_t(k) * parts.count + i : size_t(k)) * nqk;
  if (r.rho_by_part) copy(y + M.nqd, to, nqk);
  else on_line(M, parts, i, from, to - M.nqd, y);
}

// ---- engine.cpp
int step_of_lane(Engine* e, Work<Lanes>& w, const StepOptions& o, double dt, int l, int* iterations, double* error);

// ---- engine_lanes.cpp
void rollout_lanes(Scratch* s, const Options& opt, const Rollout* r, int count, int from, int to, RolloutStatus* status,
                   const volatile bool* stop);
bool ekf_batch(const EkfProblem& problem, int begin, int end);
std::size_t kalman_room(int n, int m);
void kalman_predict(int n, const double* A, const double* P, const double* Q, double scale, double* next, double* cross,
                    double* work);
int kalman_update(int n, int m, const double* H, const double* e, const double* R, double limit, const double* P,
                  double* distance, double* dx, double* next, double* work);
void kalman_slope(const ModelData& M, int nz, const double* C, const double* x, double* H);
bool kalman_move(const ModelData& M, const double* x, const double* dx, double* next, double* P);
void tape_at(const Tape& tape, const double* x, double* work, double* y);

// ---- engine_dual.cpp
bool acceleration_second(const ModelData& M, const double* q, const double* v, const double* u, const double* acc_k,
                         double* d2acc, double* d2lam);
ParameterScratch* parameter_scratch(Engine* e);
void drop_parameters(Engine* e);
bool parameters_known(const ModelData& M);
bool lagrangian_parameters(Scratch* s, const double* q, const double* v, const double* dq, const double* dv,
                           const ParameterLinks& links, double* by);
bool configuration_parameters(Scratch* s, const double* q, int count, const int* frame, const ParameterLinks& links,
                              double* h, double* p);
// gradient by the parameters of m.(L_q + F) + n.L_v at (q, v, u), m and n (nv), added to out (links.count)
void weighted_parameters(Engine* e, const double* q, const double* v, const double* u, const double* m, const double* n,
                         const ParameterLinks& links, double* out);
bool force_parameters(Scratch* s, const double* q, const double* v, const double* u, const ParameterLinks& links,
                      double* by);

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
