// Gauss steps: s stages at the Gauss points of a step, order 2s (docs/kernels.md 21). They are the Galerkin variational
// integrators of degree s, so symplectic, symmetric, and momenta of symmetries are kept. For models without constraints
// and balls.
//
// Unknowns are the velocities V_i of the stages; with G = L_q + F, the forces included,
//   Q_i = q_k + h sum_j a_ij V_j,  P_i = L_v(Q_i, V_i),  G_i = G(Q_i, V_i, u)                             (21.1)
//   r_i = P_i - p_k - h sum_j a_ij G_j = 0,  q_k+1 = q_k + h sum b_i V_i,  p_k+1 = p_k + h sum b_i G_i     (21.2)
//   K_ij = delta_ij L_vv,i + h a_ij (L_vq,i - G_v,j) - h^2 sum_l a_il a_lj G_q,l = dr_i/dV_j               (21.3)
// Prescribed variables move on straight lines between the ends of the step.
#pragma once
#include "lu.hpp"
#include "onestep.hpp"
#include "quality.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr int kMostStages = 4;
constexpr double kSlowRate = 0.3;   // Newton's matrix is made anew where the residual falls by less per sweep
constexpr double kFirstRate = 0.1;  // what is expected before there is a step to learn from
constexpr double kSmallestRate = 1e-3;
constexpr int kMostChanges = 8;     // from which Broyden's update learns
constexpr double kMostAhead = 0.8;  // share of a change that may be left for the update to multiply it

// nodes c, weights b, a_ij = integral of the j-th Lagrange polynomial from 0 to c_i
struct GaussRule {
  int s;
  double a[kMostStages][kMostStages], b[kMostStages], c[kMostStages];
  double ahead[kMostStages][kMostStages];    // the polynomial of the velocities of the last step, at c_i of this one
  double far[kMostStages][2 * kMostStages];  // that of the last two steps
  double top[kMostStages];                   // sum top_i V_i: the (s-1)-th derivative of that polynomial
  double error;                              // of an oscillator: that of the step is error (w h)^(2s + 1)

  explicit GaussRule(int stages) : s(stages) {
    const double inner = __builtin_sqrt(3.0 / 7 - 2.0 / 7 * __builtin_sqrt(1.2)),
                 outer = __builtin_sqrt(3.0 / 7 + 2.0 / 7 * __builtin_sqrt(1.2));
    const double two[] = {-__builtin_sqrt(1.0 / 3), __builtin_sqrt(1.0 / 3)},
                 three[] = {-__builtin_sqrt(0.6), 0, __builtin_sqrt(0.6)}, four[] = {-outer, -inner, inner, outer};
    const double* x = s == 2 ? two : s == 3 ? three : four;
    for (int i = 0; i < s; ++i) c[i] = 0.5 + 0.5 * x[i];
    double factorial = 1;  // (s - 1)!
    for (int i = 1; i < s; ++i) factorial *= i;
    for (int j = 0; j < s; ++j) {
      double l[kMostStages] = {1}, below = 1;  // coefficients of the Lagrange polynomial
      for (int k = 0, degree = 0; k < s; ++k) {
        if (k == j) continue;
        below *= c[j] - c[k];
        for (int d = ++degree; d >= 0; --d) l[d] = (d ? l[d - 1] : 0) - c[k] * (d < degree ? l[d] : 0);
      }
      auto integral = [&](double t) {
        double sum = 0;
        for (int d = s - 1; d >= 0; --d) sum = sum * t + l[d] / (d + 1);
        return sum * t / below;
      };
      for (int i = 0; i < s; ++i) a[i][j] = integral(c[i]);
      b[j] = integral(1);
      top[j] = factorial / below;
    }
    double past[2 * kMostStages];  // where the stages of the last two steps are, in steps from the start of this one
    for (int j = 0; j < s; ++j) past[j] = c[j] - 2, past[s + j] = c[j] - 1;
    auto carried = [&](const double* at, int count, int j, double t) {
      double product = 1;
      for (int k = 0; k < count; ++k)
        if (k != j) product *= (t - at[k]) / (at[j] - at[k]);
      return product;
    };
    for (int i = 0; i < s; ++i) {
      for (int j = 0; j < s; ++j) ahead[i][j] = carried(past + s, s, j, c[i]);
      for (int j = 0; j < 2 * s; ++j) far[i][j] = carried(past, 2 * s, j, c[i]);
    }
    error = s == 2 ? 1.0 / 720 : s == 3 ? 1.0 / 100800 : 1.0 / 25401600;
  }
};

inline const GaussRule& gauss_rule(int stages) {
  static const GaussRule rules[] = {GaussRule(2), GaussRule(3), GaussRule(4)};
  return rules[stages - 2];
}

// what stages leave for their derivatives, and what the next step begins with
struct GaussWork {
  double *V, *Q, *P, *G;  // of the stages: velocities (s, nd), configurations (s, nq), momenta and L_q + F (s, nd)
  double *angle, *sine, *cosine;   // of all stages
  double *r, *dV;                  // residual, Newton's change (s nd)
  double* K;                       // factors of (21.3) by columns (lu.hpp)
  int* pivot;                      // rows that were exchanged
  double *changes, *sizes;         // those made with these factors (kMostChanges, s nd), their squares
  Hessian<double> E[kMostStages];  // second derivatives of L by (q, v), nv x nv each
  double *Gq[kMostStages], *Gv[kMostStages], *Gu[kMostStages];  // of L_q + F: nd x nv, nd x nv, nd x nu
  double *last, *near, *far;  // V of the step before; where one step and two lead to (s, nd)
  double *turnedq, *turnedv;  // Gq, Gv of the dynamic variables by columns (s, nd, nd)
  double *X, *Y;              // d(Q, V)/dw of the stages (s, 2 nv, nw + 1), dV/dw (s nd, nw + 1)
  double *mu, *along;         // adjoint of (21.2) (s nd), weight of G_i (nv)
  double* point;              // velocity of a stage, and a direction (2 nv)
  Hessian<double> T;          // third derivatives along a direction, nv x nv each
  double* HX;                 // their products with X (2 nv, nw)
  double rate, h_last;        // of the step before; h_last = 0 where there is none
  int known;                  // steps of this length that ended with it, as far as two
  bool farther;               // two steps led closer to it than one
  // judgement (quality.hpp): kinetic and potential energy and power of the stages, if asked for; the mean energy of the
  // stages of the last step and its work, the balance so far
  bool judge;
  double kinetic[kMostStages], potential[kMostStages], power[kMostStages];
  double energy, work, balance, most_kinetic, most_size;
  int judged;   // steps so far
  char* block;  // the memory of all arrays

  template <class Take> void layout(const ModelData& M, int s, int nw, Take take) {
    const size_t nd = M.nd, nv = M.nv, nu = M.nu, n = s * nd, columns = nw + 1;
    take(V, n), take(Q, s * size_t(M.nq)), take(P, n), take(G, n);
    for (double** x : {&angle, &sine, &cosine}) take(*x, s * M.angles.size());
    take(r, n), take(dV, n), take(K, n * lu_stride(int(n))), take(pivot, n);
    take(changes, kMostChanges * n), take(sizes, kMostChanges);
    for (int i = 0; i < s; ++i) {
      for (double** h : {&E[i].h11, &E[i].h12, &E[i].h22}) take(*h, nv * nv);
      take(Gq[i], nd * nv), take(Gv[i], nd * nv), take(Gu[i], nd * nu);
    }
    take(last, n), take(near, n), take(far, n), take(turnedq, s * nd * nd), take(turnedv, s * nd * nd);
    take(X, s * 2 * nv * columns), take(Y, n * columns);
    take(mu, n), take(along, nv), take(point, 2 * nv);
    for (double** h : {&T.h11, &T.h12, &T.h22}) take(*h, nv * nv);
    take(HX, 2 * nv * columns);
  }
  void forget() {
    rate = kFirstRate, h_last = 0, known = 0, farther = false, judged = 0, balance = most_kinetic = most_size = 0;
  }
};

// sum of a_k x_k, in four sums that the compiler can keep side by side
DAL_INLINE double dot_row(const double* a, const double* x, int n) {
  double s[4] = {0, 0, 0, 0};
  int k = 0;
  for (; k + 4 <= n; k += 4)
    for (int c = 0; c < 4; ++c) s[c] += a[k + c] * x[k + c];
  for (; k < n; ++k) s[0] += a[k] * x[k];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

// whether there are forces besides potentials
DAL_INLINE bool pushed(const ModelData& M) { return M.has_damping || !M.forces.empty() || !M.force_v.empty(); }

// where the stages are: Q_i of (21.1), and what their poses need
//
// reads step.x, y (prescribed), g.V; writes g.Q, angle, sine, cosine
inline void gauss_points(const Work<double>& w, GaussWork& g, const GaussRule& R, double h) {
  const ModelData& M = *w.M;
  const int nd = M.nd, turns = int(M.angles.size());
  for (int i = 0; i < R.s; ++i) {
    double* Q = g.Q + i * M.nq;
    for (int d = 0; d < nd; ++d) {
      double sum = 0;
      for (int j = 0; j < R.s; ++j) sum += R.a[i][j] * g.V[j * nd + d];
      Q[d] = w.step.x[d] + h * sum;
    }
    for (int d = nd; d < M.nv; ++d) Q[d] = w.step.x[d] + R.c[i] * (w.step.y[d] - w.step.x[d]);
    for (int k = 0; k < turns; ++k) g.angle[i * turns + k] = Q[M.angles[k]];
  }
  sincos_array(g.angle, g.sine, g.cosine, R.s * turns);
}

// stage i: P_i, G_i of (21.1); after gauss_points()
//
// reads step.x, y (prescribed), u, g.V, Q, sine, cosine; writes kin, first, g.P, G
inline void gauss_stage(Work<double>& w, GaussWork& g, double h, int i) {
  const ModelData& M = *w.M;
  const int nd = M.nd, turns = int(M.angles.size());
  for (int d = 0; d < M.nv; ++d) {
    w.kin.q[d] = g.Q[i * M.nq + d];
    w.kin.v[d] = d < nd ? g.V[i * nd + d] : (w.step.y[d] - w.step.x[d]) / h;
  }
  place_joints(w, w.kin.q, g.sine + i * turns, g.cosine + i * turns, w.kin.mid);
  gradient(w);
  if (!M.potentials.empty()) subtract_potentials(w, w.kin.q);
  if (pushed(M)) generalized_force(w, w.kin.q, w.kin.v);
  if (g.judge) {
    energies(w, g.kinetic[i], g.potential[i]);
    if (!M.potentials.empty()) g.potential[i] += w.first.potential;
    g.power[i] = 0;
    if (pushed(M))
      for (int d = 0; d < nd; ++d) g.power[i] += w.first.F[d] * w.kin.v[d];
    for (int d = nd; d < M.nv; ++d) {  // E = v_d . L_v - L, and what prescribed joints put in
      g.kinetic[i] -= w.first.Lv[d] * w.kin.v[d];
      g.power[i] -= w.first.Lq[d] * w.kin.v[d];
    }
  }
  for (int d = 0; d < nd; ++d) {
    g.P[i * nd + d] = w.first.Lv[d];
    g.G[i * nd + d] = pushed(M) ? w.first.Lq[d] + w.first.F[d] : w.first.Lq[d];
  }
}

// second derivatives at stage i, right after gauss_stage()
//
// reads kin, twists, comp.H; writes g.E, Gq, Gv, Gu; scratch: comp, gen, lin
inline void gauss_second(Work<double>& w, GaussWork& g, int i, bool inputs) {
  const ModelData& M = *w.M;
  const Slots<double> continuous = {1, 0, 0, 1};
  composites(w, false);
  generators(w, continuous);
  second(w, g.E[i]);
  if (!M.potentials.empty()) potentials_second(w, w.kin.q, continuous, g.E[i]);
  const int n = M.nd * M.nv;
  for (int k = 0; k < n; ++k) g.Gq[i][k] = g.E[i].h11[k];
  for (int k = 0; k < n; ++k) g.Gv[i][k] = g.E[i].h12[k];
  if (!pushed(M)) return;
  force_jacobian(w, w.kin.q, w.kin.v);
  for (int k = 0; k < n; ++k) g.Gq[i][k] += w.lin.Fq[k];
  for (int k = 0; k < n; ++k) g.Gv[i][k] += w.lin.Fv[k];
  if (inputs)
    for (int k = 0; k < M.nd * M.nu; ++k) g.Gu[i][k] = w.lin.Fu[k];
}

// factors of K (21.3)
//
// reads g.E, Gq, Gv; writes g.K, pivot; scratch: g.turnedq, turnedv
inline bool gauss_factor(const ModelData& M, GaussWork& g, const GaussRule& R, double h) {
  const int nd = M.nd, nv = M.nv, n = R.s * nd, ld = lu_stride(n);
  for (int i = 0; i < R.s; ++i) {
    take_transposed<false>(g.turnedq + i * nd * nd, nd, g.Gq[i], nv, nd, nd);
    take_transposed<false>(g.turnedv + i * nd * nd, nd, g.Gv[i], nv, nd, nd);
  }
  for (int j = 0; j < R.s; ++j)
    for (int e = 0; e < nd; ++e) {
      double* column = g.K + size_t(j * nd + e) * ld;
      const double* by_v = g.turnedv + (j * nd + e) * nd;
      for (int i = 0; i < R.s; ++i) {
        double* __restrict rows = column + i * nd;
        const double *own = g.E[i].h12 + e * nv, f = h * R.a[i][j];
        for (int d = 0; d < nd; ++d) rows[d] = f * (own[d] - by_v[d]);
        for (int l = 0; l < R.s; ++l) {
          const double *by_q = g.turnedq + (l * nd + e) * nd, through = h * h * R.a[i][l] * R.a[l][j];
          for (int d = 0; d < nd; ++d) rows[d] -= through * by_q[d];
        }
        if (i == j)
          for (int d = 0; d < nd; ++d) rows[d] += g.E[i].h22[e * nv + d];
      }
      for (int k = n; k < ld; ++k) column[k] = 0;
    }
  return lu_factor(g.K, g.pivot, n);
}

// residual (21.2) into g.r; returns the largest entry relative to what it is made of
inline double gauss_residual(const Work<double>& w, GaussWork& g, const GaussRule& R, double h) {
  const int nd = w.M->nd;
  double most = 0, size = 1e-250;
  for (int i = 0; i < R.s; ++i)
    for (int d = 0; d < nd; ++d) {
      double t = 0;
      for (int j = 0; j < R.s; ++j) t += R.a[i][j] * g.G[j * nd + d];
      const double P = g.P[i * nd + d], p = w.step.p[d];
      t = P - p - h * t;
      g.r[i * nd + d] = t;
      most = larger(most, __builtin_fabs(t));
      size = larger(size, __builtin_fabs(P) + __builtin_fabs(p) + __builtin_fabs(h * g.G[i * nd + d]));
    }
  return most / size;
}

// Newton's change of the factored matrix in g.dV -> that of the matrix which maps the changes made so far to what they
// did to the residual (Broyden's update of least change); kept, for the next
inline void gauss_learn(GaussWork& g, int n, int* made) {
  double* d = g.dV;
  auto along = [&](int k) { return dot_row(g.changes + k * n, d, n) / g.sizes[k]; };
  for (int k = 0; k + 1 < *made; ++k) axpy(d, along(k), g.changes + (k + 1) * n, n);
  if (*made) {
    const double left = along(*made - 1);
    if (!(left < kMostAhead) || *made == kMostChanges) {  // begins anew
      *made = 0;
      return;
    }
    for (int k = 0; k < n; ++k) d[k] /= 1 - left;
  }
  for (int k = 0; k < n; ++k) g.changes[*made * n + k] = d[k];
  g.sizes[(*made)++] = dot_row(d, d, n) + 1e-300;
}

// Newton's iteration from the velocities in g.V. One matrix, with Broyden's updates, serves the step while the residual
// falls fast; once the expected next residual is below the tolerance, the last change is carried to G by its
// derivatives instead of another evaluation. exact: ends with an evaluation and a fresh matrix, for derivatives.
//
// reads step.x, y (prescribed), p, u; writes g, kin, first
inline bool gauss_newton(Work<double>& w, GaussWork& g, const GaussRule& R, const StepOptions& o, double h, bool exact,
                         bool careful, int* iterations, double* error) {
  const ModelData& M = *w.M;
  const int nd = M.nd, n = R.s * nd;
  double before = 0, rate = g.rate, best = 0;
  bool fresh = false;
  int made = 0;  // changes with this matrix
  for (int sweep = 1;; ++sweep) {
    const bool anew = !fresh || careful || (sweep >= 3 && rate > kSlowRate);
    gauss_points(w, g, R, h);
    for (int i = 0; i < R.s; ++i) {
      gauss_stage(w, g, h, i);
      if (anew) gauss_second(w, g, i, false);
    }
    const double e = gauss_residual(w, g, R, h);
    *iterations = sweep;
    *error = e / o.tolerance;
    if (!(e < 1e8) || sweep > o.max_iterations) return false;
    if (careful && sweep > 1 && e > best) {  // half the change that made it worse
      for (int k = 0; k < n; ++k) g.dV[k] *= 0.5;
      for (int k = 0; k < n; ++k) g.V[k] -= g.dV[k];
      continue;
    }
    best = e;
    if (sweep > 1) rate = g.rate = larger(kSmallestRate, e < before ? e / before : 1.0);
    const bool floor = sweep > 2 && e < 1e-12 && e > 0.5 * before;
    before = e;
    if (anew) {
      if (!gauss_factor(M, g, R, h)) {
        *error = kSingular;
        return false;
      }
      fresh = true;
      made = 0;
    }
    for (int k = 0; k < n; ++k) g.dV[k] = -g.r[k];
    lu_solve(g.K, g.pivot, n, g.dV);
    gauss_learn(g, n, &made);
    for (int k = 0; k < n; ++k) g.V[k] += g.dV[k];
    if (!(e * rate <= o.tolerance || floor)) continue;
    if (exact) {
      gauss_points(w, g, R, h);
      for (int i = 0; i < R.s; ++i) {
        gauss_stage(w, g, h, i);
        gauss_second(w, g, i, true);
      }
      return gauss_factor(M, g, R, h);
    }
    // the linear finish
    for (int i = 0; i < R.s; ++i) {
      for (int k = 0; k < nd; ++k) {
        double moved = 0;
        for (int j = 0; j < R.s; ++j) moved += R.a[i][j] * g.dV[j * nd + k];
        g.along[k] = h * moved;
      }
      for (int d = 0; d < nd; ++d)
        g.G[i * nd + d] += dot_row(g.Gq[i] + d * M.nv, g.along, nd) + dot_row(g.Gv[i] + d * M.nv, g.dV + i * nd, nd);
    }
    return true;
  }
}

// velocities of the stages from the velocity and the acceleration at q_k, where the momentum tells the velocity
//
// reads step.x, y, p, u; writes g.V, kin, first; scratch: newton, gen, comp, g.E, step.dy
inline bool gauss_start(Work<double>& w, GaussWork& g, const GaussRule& R, double h) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv;
  for (int d = 0; d < nv; ++d) {
    w.kin.q[d] = w.step.x[d];
    w.kin.v[d] = d < nd ? 0 : (w.step.y[d] - w.step.x[d]) / h;
  }
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  composites(w, false);
  generators(w, Slots<double>{0, 1, 0, 1});
  assemble_packed(w);
  const bool ok = factor(w);
  for (int d = 0; d < nd; ++d) w.step.dy[d] = w.step.p[d] - w.first.Lv[d];
  solve(w, w.step.dy, 1, 1);
  for (int d = 0; d < nd; ++d) w.kin.v[d] = w.step.dy[d];
  // dP/dt = G
  gradient(w);
  if (!M.potentials.empty()) subtract_potentials(w, w.kin.q);
  if (pushed(M)) generalized_force(w, w.kin.q, w.kin.v);
  generators(w, Slots<double>{1, 0, 0, 1});
  second(w, g.E[0]);
  for (int d = 0; d < nd; ++d) {
    double t = pushed(M) ? w.first.Lq[d] + w.first.F[d] : w.first.Lq[d];
    for (int e = 0; e < nv; ++e) t -= g.E[0].h12[e * nv + d] * w.kin.v[e];
    w.step.dy[d] = t;
  }
  solve(w, w.step.dy, 1, 1);
  for (int i = 0; i < R.s; ++i)
    for (int d = 0; d < nd; ++d) g.V[i * nd + d] = w.kin.v[d] + R.c[i] * h * w.step.dy[d];
  return ok;
}

// Velocities of the stages where the polynomials of the last step and of the last two lead; the one that came closer in
// the last step serves. g.V <- that, g.last <- g.V
inline void gauss_ahead(GaussWork& g, const GaussRule& R, int nd) {
  const int n = R.s * nd;
  for (int i = 0; i < R.s; ++i) {
    double *near = g.near + i * nd, *far = g.far + i * nd;
    for (int d = 0; d < nd; ++d) near[d] = far[d] = 0;
    for (int j = 0; j < R.s; ++j) axpy(near, R.ahead[i][j], g.V + j * nd, nd);
    if (g.known < 2) continue;
    for (int j = 0; j < R.s; ++j) {
      axpy(far, R.far[i][j], g.last + j * nd, nd);
      axpy(far, R.far[i][R.s + j], g.V + j * nd, nd);
    }
  }
  const double* guess = g.known > 1 && g.farther ? g.far : g.near;
  for (int k = 0; k < n; ++k) {
    g.last[k] = g.V[k];
    g.V[k] = guess[k];
  }
}

// what stands in g.V before a step: nothing, the stages of the step before, those of this one
enum class GaussStart { fresh, ahead, kept };

// One step: w.step.x, p, u and the prescribed part of y -> y, p_next.
//
// reads step.x, p, u, y, g.V; writes step.y, p_next, and what gauss_newton() writes
inline int gauss_step(Work<double>& w, GaussWork& g, const GaussRule& R, const StepOptions& o, double h, bool exact,
                      GaussStart start, int* iterations, double* error) {
  const ModelData& M = *w.M;
  const int nd = M.nd;
  set_reference(w, w.step.x);
  const bool follows = start == GaussStart::ahead && g.h_last > 0 && __builtin_fabs(g.h_last - h) <= 1e-9 * h;
  if (follows) {
    gauss_ahead(g, R, nd);
  } else if (start != GaussStart::kept || g.h_last != h) {
    g.rate = kFirstRate;
    g.known = 0;
    if (!gauss_start(w, g, R, h)) return StepSingular;
  }
  int more = 0;
  bool ok = gauss_newton(w, g, R, o, h, exact, false, iterations, error);
  for (int attempt = 0; attempt < 2 && !ok; ++attempt) {
    g.rate = kFirstRate;
    if (!gauss_start(w, g, R, h)) return StepSingular;
    ok = gauss_newton(w, g, R, o, h, exact, attempt > 0, &more, error);
    *iterations += more;
  }
  g.h_last = ok ? h : 0;
  if (follows && g.known > 1) {
    double near = 0, far = 0;
    for (int k = 0; k < R.s * nd; ++k) {
      near += (g.near[k] - g.V[k]) * (g.near[k] - g.V[k]);
      far += (g.far[k] - g.V[k]) * (g.far[k] - g.V[k]);
    }
    g.farther = far < near;
  }
  g.known = g.known > 1 ? 2 : g.known + 1;
  if (!ok) return *error == kSingular ? StepSingular : *error < kLargest ? StepNotConverged : StepNotFinite;
  bool finite = true;
  for (int d = 0; d < nd; ++d) {
    double v = 0, f = 0;
    for (int i = 0; i < R.s; ++i) {
      v += R.b[i] * g.V[i * nd + d];
      f += R.b[i] * g.G[i * nd + d];
    }
    w.step.y[d] = w.step.x[d] + h * v;
    w.step.p_next[d] = w.step.p[d] + h * f;
    finite = finite && __builtin_isfinite(w.step.y[d]) && __builtin_isfinite(w.step.p_next[d]);
  }
  if (!finite) return StepNotFinite;
  // a hinge that ends more than half a turn from where its stages lead cannot be: the stages are its path. But a path
  // that a step cannot resolve has many: no stage may turn by more than half a turn from the next
  for (int k : M.hinges)
    for (int i = 0; k < nd && i < R.s; ++i) {
      const double from = i ? g.Q[(i - 1) * M.nq + k] : w.step.x[k];
      if (!(__builtin_fabs(g.Q[i * M.nq + k] - from) <= kHalfTurn)) return StepWrongRoot;
    }
  return StepOk;
}

// How good the step is that gauss_step() has just solved (quality.hpp says what is meant): the jump of the mean energy
// of the stages minus the work between the steps, whose power counts the less the further away it is, and (w h)^2s
// times the error of an oscillator, with w h from the highest derivative that the stages know: |V^(s-1) . P^(s-1)| / 2
// D = (w h)^(2s-2). With g.judge, of the last evaluation of the stages.
inline Verdict<double> gauss_verdict(const Work<double>& w, GaussWork& g, const GaussRule& R, double h) {
  const ModelData& M = *w.M;
  const int nd = M.nd;
  double energy = 0, before = 0, after = 0, kinetic = 0, low = 1e300, high = -1e300, size = 0;
  for (int i = 0; i < R.s; ++i) {
    const double T = g.kinetic[i], V = g.potential[i];
    energy += R.b[i] * (T + V);
    before += h * R.b[i] * (1 - R.c[i]) * g.power[i];
    after += h * R.b[i] * R.c[i] * g.power[i];
    kinetic = larger(kinetic, __builtin_fabs(T));
    low = V < low ? V : low;
    high = V > high ? V : high;
    size = larger(size, __builtin_fabs(T) + __builtin_fabs(V));
  }
  g.most_kinetic = larger(g.most_kinetic, kinetic);
  g.most_size = larger(g.most_size, size);
  const double D = kinetic + (high - low) + __builtin_fabs(before) + __builtin_fabs(after) +
                   kRestShare * g.most_kinetic + kRoundShare * g.most_size + 1e-300;
  double sum = 0, most = -1;
  int which = 0;
  for (int d = 0; d < nd; ++d) {
    double v = 0, p = 0;
    for (int i = 0; i < R.s; ++i) {
      v += R.top[i] * g.V[i * nd + d];
      p += R.top[i] * g.P[i * nd + d];
    }
    sum += v * p;
    if (__builtin_fabs(v * p) > most) most = __builtin_fabs(v * p), which = d;
  }
  const double ratio = __builtin_fabs(sum) / (2 * D),
               square = R.s == 2   ? ratio
                        : R.s == 3 ? __builtin_sqrt(ratio)
                                   : __builtin_cbrt(ratio);  // (w h)^2
  Verdict<double> out{0, 2 * R.error, 0, double(which), 0};  // twice, as of other steps
  for (int i = 0; i < R.s; ++i) out.error *= square;
  if (g.judged++ > 0) {
    const double change = energy - g.energy - (g.work + before);
    g.balance += change;
    out.jump = __builtin_fabs(change) / D;
    out.error = larger(out.error, out.jump);  // what moves has more harmonics than an oscillator
  }
  out.balance = g.balance;
  g.energy = energy;
  g.work = after;
  return out;
}

// ---- derivatives; after gauss_step() with exact

// d(Q_i, V_i)/dw into g.X, dV/dw into g.Y; w = (q_k, p_k, u, rho_k+1) and, with_dt, h. K dV = -dr
//
// reads g, step; writes g.X, g.Y
inline void gauss_tangent(const Work<double>& w, GaussWork& g, const GaussRule& R, double h, bool with_dt) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nu = M.nu, nk = M.nk, nw = w.nw + with_dt, rho = nv + nd + nu, s = R.s;
  auto X = [&](int i, bool rate, int d) { return g.X + (size_t(i) * 2 * nv + (rate ? nv : 0) + d) * nw; };
  // with the velocities of the stages held
  for (size_t k = 0; k < size_t(s) * 2 * nv * nw; ++k) g.X[k] = 0;
  for (int i = 0; i < s; ++i) {
    for (int d = 0; d < nd; ++d) {
      X(i, false, d)[d] = 1;
      double moved = 0;
      for (int j = 0; j < s; ++j) moved += R.a[i][j] * g.V[j * nd + d];
      if (with_dt) X(i, false, d)[nw - 1] = moved;
    }
    for (int k = 0; k < nk; ++k) {
      double *q = X(i, false, nd + k), *v = X(i, true, nd + k);
      q[nd + k] = 1 - R.c[i];
      q[rho + k] = R.c[i];
      v[nd + k] = -1 / h;
      v[rho + k] = 1 / h;
      if (with_dt) v[nw - 1] = -(w.step.y[nd + k] - w.step.x[nd + k]) / (h * h);
    }
  }
  // -dr: rows of P and of G by the stages' points
  for (int i = 0; i < s; ++i)
    for (int d = 0; d < nd; ++d) {
      double* y = g.Y + (size_t(i) * nd + d) * nw;
      for (int c = 0; c < nw; ++c) y[c] = 0;
      y[nv + d] = 1;
      for (int e = 0; e < nv; ++e) {
        const double *q = X(i, false, e), *v = X(i, true, e);
        const double by_q = g.E[i].h12[e * nv + d], by_v = g.E[i].h22[d * nv + e];
        for (int c = 0; c < nw; ++c) y[c] -= by_q * q[c] + by_v * v[c];
      }
      for (int j = 0; j < s; ++j) {
        const double f = h * R.a[i][j];
        for (int e = 0; e < nv; ++e) {
          const double *q = X(j, false, e), *v = X(j, true, e);
          const double by_q = f * g.Gq[j][d * nv + e], by_v = f * g.Gv[j][d * nv + e];
          for (int c = 0; c < nw; ++c) y[c] += by_q * q[c] + by_v * v[c];
        }
        if (pushed(M))
          for (int k = 0; k < nu; ++k) y[nv + nd + k] += f * g.Gu[j][d * nu + k];
        if (with_dt) y[nw - 1] += R.a[i][j] * g.G[j * nd + d];
      }
    }
  lu_solve(g.K, g.pivot, s * nd, g.Y, nw, nw);
  for (int i = 0; i < s; ++i)
    for (int d = 0; d < nd; ++d) {
      double *q = X(i, false, d), *v = X(i, true, d);
      for (int c = 0; c < nw; ++c) v[c] = g.Y[(size_t(i) * nd + d) * nw + c];
      for (int j = 0; j < s; ++j) axpy(q, h * R.a[i][j], g.Y + (size_t(j) * nd + d) * nw, nw);
    }
}

// d(q_k+1)/dw into Yq, d(p_k+1)/dw into Yp (nd rows, stride ld); after gauss_tangent()
inline void gauss_first(const Work<double>& w, const GaussWork& g, const GaussRule& R, double h, bool with_dt,
                        double* Yq, double* Yp, int ld) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nu = M.nu, nw = w.nw + with_dt;
  for (int d = 0; d < nd; ++d) {
    double *q = Yq + size_t(d) * ld, *p = Yp + size_t(d) * ld;
    for (int c = 0; c < nw; ++c) q[c] = p[c] = 0;
    q[d] = 1;
    p[nv + d] = 1;
    for (int i = 0; i < R.s; ++i) {
      const double f = h * R.b[i];
      axpy(q, f, g.Y + (size_t(i) * nd + d) * nw, nw);
      for (int e = 0; e < nv; ++e) {
        const double* x = g.X + (size_t(i) * 2 * nv + e) * nw;
        axpy(p, f * g.Gq[i][d * nv + e], x, nw);
        axpy(p, f * g.Gv[i][d * nv + e], x + size_t(nv) * nw, nw);
      }
      if (pushed(M))
        for (int k = 0; k < nu; ++k) p[nv + nd + k] += f * g.Gu[i][d * nu + k];
      if (with_dt) {
        q[nw - 1] += R.b[i] * g.V[i * nd + d];
        p[nw - 1] += R.b[i] * g.G[i * nd + d];
      }
    }
  }
}

// Adjoint of the stages: K^T mu = -d(zq.q_k+1 + zp.p_k+1)/dV, into g.mu; and the weight of G_i in the whole,
// m_i = h (b_i zp - sum_l a_li mu_l), by gauss_weight()
inline void gauss_adjoint(const Work<double>& w, GaussWork& g, const GaussRule& R, double h, const double* zq,
                          const double* zp) {
  const int nd = w.M->nd, nv = w.M->nv;
  for (int j = 0; j < R.s; ++j)
    for (int e = 0; e < nd; ++e) {
      double t = R.b[j] * zq[e];
      for (int d = 0; d < nd; ++d) t += R.b[j] * g.Gv[j][d * nv + e] * zp[d];
      for (int i = 0; i < R.s; ++i)
        for (int d = 0; d < nd; ++d) t += h * R.b[i] * R.a[i][j] * g.Gq[i][d * nv + e] * zp[d];
      g.mu[j * nd + e] = -h * t;
    }
  lu_solve_transposed(g.K, g.pivot, R.s * nd, g.mu);
}
inline void gauss_weight(const ModelData& M, const GaussWork& g, const GaussRule& R, double h, int i, const double* zp,
                         double* m) {
  for (int d = 0; d < M.nv; ++d) m[d] = 0;
  for (int d = 0; d < M.nd; ++d) {
    double t = R.b[i] * zp[d];
    for (int l = 0; l < R.s; ++l) t -= R.a[l][i] * g.mu[l * M.nd + d];
    m[d] = h * t;
  }
}

// gradient (nw) of zq.q_k+1 + zp.p_k+1 by w; after gauss_adjoint()
inline void gauss_gradient(const Work<double>& w, GaussWork& g, const GaussRule& R, double h, const double* zq,
                           const double* zp, double* out) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nu = M.nu, nk = M.nk, rho = nv + nd + nu;
  for (int c = 0; c < w.nw; ++c) out[c] = 0;
  for (int d = 0; d < nd; ++d) {
    out[d] = zq[d];
    out[nv + d] = zp[d];
    for (int i = 0; i < R.s; ++i) out[nv + d] -= g.mu[i * nd + d];
  }
  for (int i = 0; i < R.s; ++i) {
    gauss_weight(M, g, R, h, i, zp, g.along);
    const double* mu = g.mu + i * nd;
    for (int e = 0; e < nv; ++e) {
      double q = 0, v = 0;  // derivatives by Q_i, V_i with the stages held
      for (int d = 0; d < nd; ++d) {
        q += g.Gq[i][d * nv + e] * g.along[d] + g.E[i].h12[e * nv + d] * mu[d];
        if (e >= nd) v += g.Gv[i][d * nv + e] * g.along[d] + g.E[i].h22[d * nv + e] * mu[d];
      }
      if (e < nd) out[e] += q;
      else {
        out[e] += (1 - R.c[i]) * q - v / h;
        out[rho + e - nd] += R.c[i] * q + v / h;
      }
    }
    if (pushed(M))
      for (int k = 0; k < nu; ++k)
        for (int d = 0; d < nd; ++d) out[nv + nd + k] += g.Gu[i][d * nu + k] * g.along[d];
  }
  (void)nk;
}

// Second derivatives (nw, nw) of zq.q_k+1 + zp.p_k+1 by w: sum of X_i^T T_i X_i with T_i the second derivatives of
// m_i.G + mu_i.L_v at stage i. After gauss_tangent() and gauss_adjoint().
inline void gauss_second_order(Work<double>& w, GaussWork& g, const GaussRule& R, double h, const double* zp,
                               double* H) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nu = M.nu, nw = w.nw, at_u = nv + nd;
  const Slots<double> continuous = {1, 0, 0, 1};
  for (size_t k = 0; k < size_t(nw) * nw; ++k) H[k] = 0;
  gauss_points(w, g, R, h);
  for (int i = 0; i < R.s; ++i) {
    gauss_stage(w, g, h, i);
    composites(w, true);
    generators(w, continuous, true);
    gauss_weight(M, g, R, h, i, zp, w.along.dq);
    for (int d = 0; d < nv; ++d) w.along.dv[d] = d < nd ? g.mu[i * nd + d] : 0;
    third(w, continuous, g.T, M.potentials.empty() && M.forces.empty());
    if (!M.potentials.empty()) potentials_third(w, w.kin.q, continuous, g.T);
    if (!M.forces.empty()) {
      for (int d = 0; d < nv; ++d) w.lin.mu[d] = w.along.dq[d];
      forces_second(w, w.kin.q, w.kin.v, w.lin.mu, continuous, 1.0, g.T);
    }
    const double* X = g.X + size_t(i) * 2 * nv * nw;
    // HX = T X over (q, v)
    for (int d = 0; d < 2 * nv; ++d) {
      double* out = g.HX + size_t(d) * nw;
      for (int c = 0; c < nw; ++c) out[c] = 0;
      for (int e = 0; e < nv; ++e) {
        const double by_q = d < nv ? g.T.h11[d * nv + e] : g.T.h12[e * nv + d - nv],
                     by_v = d < nv ? g.T.h12[d * nv + e] : g.T.h22[(d - nv) * nv + e];
        axpy(out, by_q, X + size_t(e) * nw, nw);
        axpy(out, by_v, X + size_t(nv + e) * nw, nw);
      }
      if (!M.forces.empty())
        for (int k = 0; k < nu; ++k) out[at_u + k] += w.lin.Hu[d * nu + k];
    }
    for (int d = 0; d < 2 * nv; ++d)
      for (int r = 0; r < nw; ++r) axpy(H + size_t(r) * nw, X[size_t(d) * nw + r], g.HX + size_t(d) * nw, nw);
    if (M.forces.empty()) continue;
    for (int k = 0; k < nu; ++k) {
      double* row = H + size_t(at_u + k) * nw;
      for (int d = 0; d < 2 * nv; ++d) axpy(row, w.lin.Hu[d * nu + k], X + size_t(d) * nw, nw);
      for (int l = 0; l < nu; ++l) row[at_u + l] += w.lin.Huu[k * nu + l];
    }
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
