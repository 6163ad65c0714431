// Batched extended Kalman filters: many trials of one record, kWidth of them side by side in SIMD lanes.
//
// Every trial: mean and covariance predicted through the one-step map and its exact linearization (variational), or
// through one explicit Euler step of the continuous dynamics (for comparison); then a linear measurement z = C x +
// noise in Joseph form,
//   K = P C'(C P C' + R)^-1,  P = (1 - K C) P (1 - K C)' + K R K'.
// Schultz, Murphey, Embedded control synthesis using one-step methods in discrete mechanics, section IV: with `nominal`
// the predicted mean is the reference itself (plus the given noise), so that only the linearizations are compared (Fig.
// 3).
//
// Contract: row-major arrays, trial first, then time. A trial fails alone: status says at which step, its error stays
// NaN from there.
#pragma once
#include "composition.hpp"
#include "dynamics.hpp"
#include "ekf_problem.hpp"

namespace dalembert {

namespace DALEMBERT_ARCH {

// One group of lanes: its scratch and its walk through the record.
struct EkfGroup {
  typedef Lanes T;
  const EkfProblem& e;
  const ModelData& M;
  Work<Lanes> w;
  Work<double> one;  // a lane whose Newton iteration needs the careful solver
  StepOptions o;
  int nq, nd, nk, nx, nz, wide;
  Lanes *x, *ahead, *next, *P, *A, *AP, *G, *S, *K, *Y, *inn, *inc, *acc, *dacc, *dlam;
  char* block = nullptr;
  bool ok = false;  // there was memory

  explicit EkfGroup(const EkfProblem& problem) : e(problem), M(*problem.model) {
    ok = w.init(M, true) && one.init(M, false);
    if (!ok) return;
    o.alpha = e.alpha;
    o.minus = e.minus;
    o.plus = e.plus;
    o.tolerance = e.tolerance;
    o.h_tolerance = e.h_tolerance;
    o.max_iterations = e.max_iterations;
    nq = M.nq;
    nd = M.nd;
    nk = M.nk;
    nx = nq + nd + nk;
    nz = e.nz;
    wide = 2 * nq + M.nu + nk;
    size_t sizes[] = {size_t(nx),      size_t(nx),      size_t(nx),      size_t(nx) * nx,   size_t(nx) * nx,
                      size_t(nx) * nx, size_t(nx) * nz, size_t(nz) * nz, size_t(nx) * nz,   size_t(nz),
                      size_t(nz),      size_t(nd),      size_t(nq),      size_t(nd) * wide, size_t(M.nc) * wide};
    Lanes** places[] = {&x, &ahead, &next, &P, &A, &AP, &G, &S, &K, &Y, &inn, &inc, &acc, &dacc, &dlam};
    size_t total = 0;
    for (size_t s : sizes) total += s + 1;
    block = static_cast<char*>(std::aligned_alloc(64, (total * sizeof(Lanes) + 63) / 64 * 64));
    ok = block != nullptr;
    if (!ok) return;
    std::memset(block, 0, (total * sizeof(Lanes) + 63) / 64 * 64);
    Lanes* at = reinterpret_cast<Lanes*>(block);
    for (int i = 0; i < 15; ++i) {
      *places[i] = at;
      at += sizes[i] + 1;
    }
  }
  EkfGroup(const EkfGroup&) = delete;
  EkfGroup& operator=(const EkfGroup&) = delete;
  ~EkfGroup() { std::free(block); }

  // A and f(x) of the variational step, part by part; lanes that fail even the careful solver are cleared in `good`
  void variational(int k, IVec& good) {
    const Parts& parts = *e.parts;
    const double* u = e.U + size_t(k) * (M.nu + nk);
    const int m = nq + nd;
    for (int i = 0; i < nq; ++i) w.step.x[i] = x[i];
    for (int i = 0; i < nd; ++i) w.step.p[i] = x[nq + i];
    for (int i = 0; i < M.nu; ++i) w.step.u[i] = Lanes(u[i]);
    for (int i = 0; i < nx * nx; ++i) A[i] = Lanes(0.0);
    for (int part = 0; part < parts.count; ++part) {
      const double h = parts.count == 1 ? e.dt[k] : e.dt[k] * parts.length[part];
      for (int i = 0; i < nd; ++i) w.step.y[i] = w.step.x[i] + Lanes(parts.length[part]) * inc[i];
      for (int i = 0; i < nk; ++i) ahead[nd + i] = Lanes(u[M.nu + i]);
      on_line(M, parts, part, x, ahead, w.step.y);
      one_part(h, good);
      if (part == 0) first_part(parts.end[1]);
      else next_part(parts.end[part], parts.end[part + 1]);
      if (part + 1 == parts.count) break;
      for (int i = 0; i < nq; ++i) w.step.x[i] = w.step.y[i];
      for (int i = 0; i < nd; ++i) w.step.p[i] = w.step.p_next[i];
    }
    Lanes idt = Lanes(1.0 / e.dt[k]);
    for (int i = 0; i < nk; ++i) A[(m + i) * nx + nd + i] = -idt;
    for (int i = 0; i < nq; ++i) next[i] = w.step.y[i];
    for (int i = 0; i < nd; ++i) {
      next[nq + i] = w.step.p_next[i];
      inc[i] = w.step.y[i] - x[i];
    }
    for (int i = 0; i < nk; ++i) next[m + i] = (w.step.y[nd + i] - x[nd + i]) * idt;
  }

  // one midpoint step of length h from w.step.x, w.step.p with the guess in w.step.y, and its first order in w.lin.Z,
  // w.lin.P
  void one_part(double h, IVec& good) {
    set_reference(w, w.step.x);
    start_constraints(w);
    int iterations = 0;
    Lanes error;
    IVec done = newton(w, o, Lanes(h), &iterations, &error, ~good);
    bool fresh = true;
    for (int l = 0; l < kWidth; ++l) {
      if (done[l] || !good[l]) continue;
      fresh = false;
      if (!careful(h, l)) good[l] = 0;
    }
    if (!fresh) end_constraints(w);
    good = good & prepare(w, o, Lanes(h), fresh, false);
    if (!fresh) next_momentum(w, o, Lanes(h));
    first_order(w, o, Lanes(h), false);
  }

  // A = d(q', p')/d(q, p); rho_1 = (1 - c) rho + c rho' moves with the prescribed variables (their columns of v_rho are
  // zero)
  void first_part(double c) {
    const int ld = w.stride(), m = nq + nd, rho = m + M.nu;
    for (int i = 0; i < nd; ++i) {
      const Lanes *z = w.lin.Z + size_t(i) * ld, *p = w.lin.P + size_t(i) * ld;
      Lanes *a = A + i * nx, *b = A + (nq + i) * nx;
      for (int j = 0; j < m; ++j) {
        a[j] = z[j];
        b[j] = p[j];
      }
      for (int j = 0; c < 1 && j < nk; ++j) {
        a[nd + j] += Lanes(1 - c) * z[rho + j];
        b[nd + j] += Lanes(1 - c) * p[rho + j];
      }
    }
  }

  // A <- A of this part times A so far; the part runs from c0 to c1 on the line of the prescribed variables
  void next_part(double c0, double c1) {
    const int ld = w.stride(), m = nq + nd, rho = m + M.nu;
    for (int i = 0; i < nd; ++i)
      for (int second = 0; second < 2; ++second) {
        const Lanes* z = (second ? w.lin.P : w.lin.Z) + size_t(i) * ld;
        Lanes* out = AP + (second ? nd + i : i) * m;
        for (int j = 0; j < m; ++j) {
          Lanes t = Lanes(0.0);
          for (int l = 0; l < nd; ++l) t += z[l] * A[l * nx + j] + z[nq + l] * A[(nq + l) * nx + j];
          out[j] = t;
        }
        for (int j = 0; j < nk; ++j) out[nd + j] += Lanes(1 - c0) * z[nd + j] + Lanes(1 - c1) * z[rho + j];
      }
    for (int i = 0; i < nd; ++i)
      for (int j = 0; j < m; ++j) {
        A[i * nx + j] = AP[i * m + j];
        A[(nq + i) * nx + j] = AP[(nd + i) * m + j];
      }
  }

  // one lane by the scalar step with all its fallbacks
  bool careful(double h, int l) {
    for (int i = 0; i < nq; ++i) one.step.x[i] = w.step.x[i].v[l];
    for (int i = 0; i < nd; ++i) {
      one.step.p[i] = w.step.p[i].v[l];
      one.step.y[i] = one.step.x[i];
    }
    for (int i = nd; i < nq; ++i) one.step.y[i] = w.step.y[i].v[l];
    for (int i = 0; i < M.nu; ++i) one.step.u[i] = w.step.u[i].v[l];
    for (int c = 0; c < M.nc; ++c) one.con.lam[c] = 0;
    set_reference(one, one.step.x);
    start_constraints(one);
    int iterations;
    double error;
    bool ok = step(one, o, h, &iterations, &error) == StepOk;
    for (int i = 0; i < nd; ++i) w.step.y[i].v[l] = ok ? one.step.y[i] : w.step.x[i].v[l];
    for (int c = 0; c < M.nc; ++c) w.con.lam[c].v[l] = ok ? one.con.lam[c] : 0.0;
    return ok;
  }

  // A and f(x) of the Euler step
  void euler(int k, IVec& good) {
    Lanes dt = Lanes(e.dt[k]);
    const double* u = e.U + size_t(k) * (M.nu + nk);
    for (int i = 0; i < nq; ++i) {
      w.kin.q[i] = x[i];
      w.kin.v[i] = x[nq + i];
    }
    for (int i = 0; i < nk; ++i) acc[nd + i] = Lanes(u[M.nu + i]);
    for (int i = 0; i < M.nu; ++i) w.step.u[i] = Lanes(u[i]);
    set_reference(w, w.kin.q);
    good = good & acceleration_first(w, acc, w.con.lam, dacc, dlam);
    for (int i = 0; i < nx * nx; ++i) A[i] = Lanes(0.0);
    for (int i = 0; i < nx; ++i) A[i * nx + i] = Lanes(1.0);
    for (int i = 0; i < nq; ++i) A[i * nx + nq + i] += dt;
    for (int i = 0; i < nd; ++i)
      for (int j = 0; j < nx; ++j) A[(nq + i) * nx + j] += dt * dacc[i * wide + j];
    for (int i = 0; i < nq; ++i) {
      next[i] = x[i] + dt * x[nq + i];
      next[nq + i] = x[nq + i] + dt * acc[i];
    }
  }

  // P = A P A' + Q, lower triangle computed, both stored
  void predict_covariance() {
    const int m = e.euler ? nx : nq + nd;  // the other columns of A are zero
    for (int i = 0; i < nx; ++i)
      for (int j = 0; j < m; ++j) {
        Lanes t = Lanes(0.0);
        for (int k = 0; k < m; ++k) t += A[i * nx + k] * P[k * nx + j];
        AP[i * nx + j] = t;
      }
    for (int i = 0; i < nx; ++i)
      for (int j = 0; j <= i; ++j) {
        Lanes t = Lanes(e.Q[i * nx + j]);
        for (int k = 0; k < m; ++k) t += AP[i * nx + k] * A[j * nx + k];
        P[i * nx + j] = t;
        P[j * nx + i] = t;
      }
  }

  // measurement of state k for all lanes; missing entries and refused measurements get a zero gain
  void update(int k, const int* trial, int lanes, IVec& good) {
    IVec have[64];
    Lanes count = Lanes(0.0);
    for (int i = 0; i < nz; ++i) {
      Lanes z;
      for (int l = 0; l < kWidth; ++l) z.v[l] = e.Z[(size_t(trial[l]) * (e.steps + 1) + k) * nz + i];
      have[i] = z.v == z.v;
      for (int j = 0; j < nx; ++j)
        if (e.C[i * nx + j] != 0.0) z -= Lanes(e.C[i * nx + j]) * x[j];
      inn[i] = select(have[i], z, Lanes(0.0));
      count += select(have[i], Lanes(1.0), Lanes(0.0));
    }
    if (!any(lt(Lanes(0.0), count))) return;
    // G = P C', S = C P C' + R
    for (int j = 0; j < nx; ++j)
      for (int i = 0; i < nz; ++i) {
        Lanes t = Lanes(0.0);
        for (int k2 = 0; k2 < nx; ++k2)
          if (e.C[i * nx + k2] != 0.0) t += P[j * nx + k2] * Lanes(e.C[i * nx + k2]);
        G[j * nz + i] = select(have[i], t, Lanes(0.0));
      }
    for (int i = 0; i < nz; ++i)
      for (int j = 0; j <= i; ++j) {
        Lanes t = Lanes(e.R[i * nz + j]);
        for (int k2 = 0; k2 < nx; ++k2)
          if (e.C[i * nx + k2] != 0.0) t += Lanes(e.C[i * nx + k2]) * G[k2 * nz + j];
        S[i * nz + j] = select(have[i] & have[j], t, Lanes(i == j ? 1.0 : 0.0));
      }
    // Cholesky of S; its reciprocal diagonal in Y
    for (int j = 0; j < nz; ++j) {
      Lanes d = S[j * nz + j];
      for (int c = 0; c < j; ++c) d -= S[j * nz + c] * S[j * nz + c];
      IVec ok = lt(Lanes(0.0), d);
      good = good & ok;
      d = sqrt_(select(ok, d, Lanes(1.0)));
      S[j * nz + j] = d;
      Y[j] = Lanes(1.0) / d;
      for (int i = j + 1; i < nz; ++i) {
        Lanes t = S[i * nz + j];
        for (int c = 0; c < j; ++c) t -= S[i * nz + c] * S[j * nz + c];
        S[i * nz + j] = t * Y[j];
      }
    }
    // squared length of the innovation, and the gate
    IVec use = lt(Lanes(0.0), count);
    if (e.gate) {
      Lanes length = Lanes(0.0), limit = Lanes(0.0), white[64];
      for (int i = 0; i < nz; ++i) {
        Lanes t = inn[i];
        for (int c = 0; c < i; ++c) t -= S[i * nz + c] * white[c];
        white[i] = t * Y[i];
        length += white[i] * white[i];
      }
      for (int n = 0; n <= nz; ++n)
        limit = select(le(count, Lanes(n + 0.5)) & lt(Lanes(n - 0.5), count), Lanes(e.gate[n]), limit);
      IVec inside = le(length, limit);
      if (e.refused)
        for (int l = 0; l < lanes; ++l)
          if (use[l] && good[l] && !inside[l]) ++e.refused[trial[l]];
      use = use & inside;
    }
    // K = G S^-1, row by row
    for (int j = 0; j < nx; ++j) {
      Lanes* g = K + j * nz;
      for (int i = 0; i < nz; ++i) {
        Lanes t = G[j * nz + i];
        for (int c = 0; c < i; ++c) t -= S[i * nz + c] * g[c];
        g[i] = t * Y[i];
      }
      for (int i = nz - 1; i >= 0; --i) {
        Lanes t = g[i];
        for (int c = i + 1; c < nz; ++c) t -= S[c * nz + i] * g[c];
        g[i] = t * Y[i];
      }
      Lanes move = Lanes(0.0);
      for (int i = 0; i < nz; ++i) {
        g[i] = select(use & have[i], g[i], Lanes(0.0));
        move += g[i] * inn[i];
      }
      x[j] += move;
    }
    // Joseph form: B = (1 - K C) P, then B (1 - K C)' + K R K' (G' is C P; where nothing was measured both G and K are
    // zero)
    for (int i = 0; i < nx; ++i)
      for (int j = 0; j < nx; ++j) {
        Lanes t = P[i * nx + j];
        for (int c = 0; c < nz; ++c) t -= K[i * nz + c] * G[j * nz + c];
        AP[i * nx + j] = t;
      }
    for (int i = 0; i < nx; ++i) {
      // row i of B C' and of K R
      for (int c = 0; c < nz; ++c) {
        Lanes t = Lanes(0.0), r = Lanes(0.0);
        for (int j = 0; j < nx; ++j)
          if (e.C[c * nx + j] != 0.0) t += AP[i * nx + j] * Lanes(e.C[c * nx + j]);
        for (int d = 0; d < nz; ++d)
          if (e.R[d * nz + c] != 0.0) r += K[i * nz + d] * Lanes(e.R[d * nz + c]);
        inn[c] = r - t;
      }
      for (int j = 0; j <= i; ++j) {
        Lanes t = AP[i * nx + j];
        for (int c = 0; c < nz; ++c) t += inn[c] * K[j * nz + c];
        A[i * nx + j] = t;
      }
    }
    for (int i = 0; i < nx; ++i)
      for (int j = 0; j <= i; ++j) P[i * nx + j] = P[j * nx + i] = A[i * nx + j];
  }

  void record(int k, const int* trial, int lanes, const IVec& good) {
    Lanes t = Lanes(0.0);
    for (int j = 0; j < nx; ++j)
      if (e.weight[j] != 0.0) {
        Lanes d = x[j] - Lanes(e.X[size_t(k) * nx + j]);
        t += Lanes(e.weight[j]) * d * d;
      }
    t = sqrt_(t);
    for (int l = 0; l < lanes; ++l) {
      if (!good[l]) continue;
      e.error[size_t(trial[l]) * (e.steps + 1) + k] = t.v[l];
      if (e.mean)
        for (int j = 0; j < nx; ++j) e.mean[(size_t(trial[l]) * (e.steps + 1) + k) * nx + j] = x[j].v[l];
    }
  }

  // trials first .. first + lanes - 1 (spare lanes repeat the last one)
  void run(int first, int lanes) {
    int trial[kWidth];
    IVec good;
    for (int l = 0; l < kWidth; ++l) {
      trial[l] = first + (l < lanes ? l : lanes - 1);
      good[l] = -1;
    }
    for (int j = 0; j < nx; ++j)
      for (int l = 0; l < kWidth; ++l) x[j].v[l] = e.start[size_t(trial[l]) * nx + j];
    for (int i = 0; i < nx * nx; ++i) P[i] = Lanes(e.P0[i]);
    for (int i = 0; i < nd; ++i) inc[i] = Lanes(e.steps > 0 && !e.euler ? e.X[nx + i] - e.X[i] : 0.0);
    for (int c = 0; c < M.nc; ++c) w.con.lam[c] = Lanes(0.0);
    update(0, trial, lanes, good);
    for (int l = 0; l < lanes; ++l)
      if (!good[l]) e.status[trial[l]] = 1;
    record(0, trial, lanes, good);
    for (int k = 0; k < e.steps && !*e.stop; ++k) {
      const IVec before = good;
      if (e.euler) euler(k, good);
      else variational(k, good);
      predict_covariance();
      for (int j = 0; j < nx; ++j) {
        Lanes t = e.nominal ? Lanes(e.X[size_t(k + 1) * nx + j]) : next[j];
        if (e.W)
          for (int l = 0; l < kWidth; ++l) t.v[l] += e.W[(size_t(trial[l]) * e.steps + k) * nx + j];
        x[j] = t;
      }
      // a lane that is not finite any more has failed; it goes on from the reference so that its neighbours are not
      // slowed down
      Lanes sum = Lanes(0.0);
      for (int j = 0; j < nx; ++j) sum += x[j] + P[j * nx + j];
      good = good & le(fabs_(sum), Lanes(1e300));
      update(k + 1, trial, lanes, good);
      for (int l = 0; l < kWidth; ++l) {
        if (good[l]) continue;
        if (before[l] && l < lanes) e.status[trial[l]] = k + 2;
        for (int j = 0; j < nx; ++j) x[j].v[l] = e.X[size_t(k + 1) * nx + j];
        for (int i = 0; i < nx * nx; ++i) P[i].v[l] = e.P0[i];
        for (int i = 0; i < nd; ++i) inc[i].v[l] = 0;
        for (int c = 0; c < M.nc; ++c) w.con.lam[c].v[l] = 0;
      }
      record(k + 1, trial, lanes, good);
    }
    if (e.P)
      for (int l = 0; l < lanes; ++l)
        for (int i = 0; i < nx * nx; ++i) e.P[size_t(trial[l]) * nx * nx + i] = P[i].v[l];
  }
};

// trials begin .. end - 1 on this thread; false where there is not enough memory. At most 64 measured entries.
bool ekf_batch(const EkfProblem& problem, int begin, int end) {
  EkfGroup group(problem);
  if (!group.ok) return false;
  for (int first = begin; first < end; first += kWidth) group.run(first, end - first < kWidth ? end - first : kWidth);
  return true;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
