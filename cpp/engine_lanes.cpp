// Motions side by side: the kernels of engine.cpp on vectors, for rollouts and for batches of filters.
#include "ekf.hpp"
#include "elements/tape.hpp"
#include "engine.hpp"
#include "kalman.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// count <= width rollouts side by side (same number of steps and same dt). A lane that fails to converge is finished by
// the scalar step.
void rollout_lanes(Scratch* s, const Options& opt, const Rollout* r, int count, int from, int to, RolloutStatus* status,
                   const volatile bool* stop) {
  Engine* e = engine(s);
  Work<Lanes>& w = *e->lanes;
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  const Parts& parts = *opt.parts;
  const int nq = M.nq, nqd = M.nqd, nd = M.nd, nc = M.nc;
  History<Lanes>& history = e->lane_history;
  double *y = e->buffer, *before = y + nq;  // of one lane
  const bool judged = r[0].checks;
  const Rollout* of[kWidth];  // what each lane follows; those that are left over follow the first
  IVec dead{};
  for (int l = 0; l < kWidth; ++l) of[l] = r + (l < count ? l : 0);
  for (int l = count; l < kWidth; ++l) dead[l] = -1;
  for (int l = 0; l < count; ++l) status[l] = RolloutStatus{};
  for (int i = 0; i < nq; ++i) w.step.x[i].v = from_each([&](int l) { return of[l]->Q[i]; });
  for (int i = 0; i < nd; ++i) w.step.p[i].v = from_each([&](int l) { return of[l]->P[i]; });
  for (int c = 0; c < nc; ++c) w.con.lam[c] = Lanes(0.0);
  history.count = 0;
  history.push(w.step.x, nqd, 0);
  e->lane_misses.forget();
  if (judged) {
    e->lane_quality.start(M, r[0].U, o.stop > 0);
    for (Checks& c : e->checks) c = Checks{};
  }
  set_reference(w, w.step.x);
  start_constraints(w);
  for (int k = from; k < to && !*stop; ++k) {
    Lanes* rho0 = e->lane_rho;
    for (int i = nqd; i < nq; ++i) rho0[i - nqd] = w.step.x[i];
    for (int i = 0; i < M.nu; ++i)
      w.step.u[i].v = from_each([&](int l) { return of[l]->U ? of[l]->U[size_t(k) * M.nu + i] : 0.0; });
    for (int& spent : e->spent) spent = 0;
    for (int part = 0; part < parts.count; ++part) {
      const double h = parts.count == 1 ? r[0].dt[k] : r[0].dt[k] * parts.length[part];
      for (int l = 0; nqd < nq && l < kWidth; ++l) {
        const Rollout& a = r[l < count ? l : 0];
        for (int i = nqd; i < nq; ++i) before[i] = rho0[i - nqd].v[l];
        prescribed(M, a, parts, k, part, a.Rho, before, y);
        for (int i = nqd; i < nq; ++i) w.step.y[i].v[l] = y[i];
      }
      if (o.stop > 0)
        for (int i = 0; i < nqd; ++i) w.step.y[i] = w.step.x[i];
      else history.guess(w.step.y, nqd, h, part);
      const bool composed = parts.count > 1 && !(o.stop > 0);
      if (composed) e->lane_misses.move(w.step.y, nqd, history, part, h);
      normalize_balls(M, w.step.y, 0, nd);
      set_reference(w, w.step.x);
      int iterations = 0;
      Lanes error;
      w.step.noted = false;
      w.step.kept = e->lane_quality.inputs;
      w.step.watched = judged && !(o.stop > 0) && history.even(h);
      IVec ok = newton(w, o, Lanes(h), &iterations, &error, dead);
      if (judged) e->lane_quality.take_middle(w, o, parts, part, h, r[0].dt[k]);
      // a doubtful root: the scalar step decides
      for (int i : M.hinges) ok = ok & le(fabs_(w.step.y[i] - w.step.x[i]), Lanes(kHalfTurn));
      for (const Ball& b : M.balls) {
        Lanes c(0.0);
        for (int i = b.q; i < b.q + 4; ++i) c += w.step.x[i] * w.step.y[i];
        ok = ok & mask_not(turns_far(c));
      }
      for (int& spent : e->spent) spent += iterations;
      for (int l = 0; l < count && !all(ok | dead); ++l) {
        if (dead[l] || ok[l]) continue;
        int its = 0;
        double err = 0;
        const int st = step_of_lane(e, w, o, h, l, &its, &err);
        e->spent[l] += its - iterations;
        if (st != StepOk) {
          dead[l] = -1;
          status[l].steps = k;
          status[l].status = st;
          status[l].error = err;
        } else if (judged) {
          e->quality.follow_lane(M, l, e->lane_quality);
          e->d.step.noted = w.step.noted;
          e->d.step.gap = w.step.gap.v[l];
          for (int i = 0; i < nd; ++i) e->d.step.first_dy[i] = w.step.first_dy[i].v[l];
          e->quality.take_middle(e->d, o, parts, part, h, r[0].dt[k]);
          e->lane_quality.take_lane(M, l, e->quality);
        }
        ok[l] = -1;
      }
      if (any(dead)) {  // they keep their configuration, so that nothing overflows
        for (int i = 0; i < nq; ++i) w.step.y[i] = select(dead, w.step.x[i], w.step.y[i]);
        for (int i = 0; i < nd; ++i) w.step.p_next[i] = select(dead, w.step.p[i], w.step.p_next[i]);
      }
      if (judged) e->lane_quality.add_part(w, o, parts, part, h);
      if (composed) e->lane_misses.note(w.step.y, nqd, part);
      history.push(w.step.y, nqd, h);
      advance(w);
    }
    Verdict<Lanes> found;
    if (judged) found = e->lane_quality.end_step(w, parts);
    double *q[kWidth], *p[kWidth];  // where the end of the step goes; of lanes that store none: nowhere
    bool stored = false;
    for (int l = 0; l < kWidth; ++l) {
      q[l] = p[l] = y;
      if (dead[l]) continue;  // what a failed rollout has stored ends with its last whole step
      const Rollout& a = r[l];
      status[l].steps = k + 1;
      Checks& checks = e->checks[l];
      if (judged) checks.add(found.jump.v[l], found.error.v[l], found.balance.v[l], found.variable.v[l]);
      const int row = stored_row(a, k + 1);
      if (row < 0) continue;
      stored = true;
      q[l] = a.Q + size_t(row) * nq;
      p[l] = a.P + size_t(row) * nd;
      if (a.Lam && row > 0)
        for (int c = 0; c < nc; ++c)
          a.Lam[size_t(row - 1) * nc + c] = parts.count == 1 ? w.con.lam[c].v[l]
                                                             : w.con.lam[c].v[l] / parts.length[parts.count - 1];
      if (a.iterations) a.iterations[row > 0 ? row - 1 : 0] = e->spent[l];
      if (a.checks) checks.store(a.checks + size_t(row > 0 ? row - 1 : 0) * kChecks);
      if (a.every > 0) checks = Checks{};
    }
    for (int i = 0; stored && i < nq; ++i) to_each(w.step.x[i].v, [&](int l, double x) { q[l][i] = x; });
    for (int i = 0; stored && i < nd; ++i) to_each(w.step.p[i].v, [&](int l, double x) { p[l][i] = x; });
  }
}

void tape_at(const Tape& tape, const double* x, double* work, double* y) { run_tape(tape, x, work, y); }

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
