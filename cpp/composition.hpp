// Steps of order four and six: midpoint steps of the lengths length[i] dt one after the other, inputs held, prescribed
// variables on the straight line between their values at the ends of the whole step (parts.hpp). Derivatives follow
// part by part with the scratch of one part (docs/kernels.md, composed steps): with w_i = (q, p, u, rho) of part i and
// w that of the whole step, Y_i = d(q_i, p_i)/dw and M_i = dw_i/dw (made of Y_i-1 and of the straight line),
//   Y_i = D_i M_i,   z_i-1 = A_i' z_i,   H = sum_i M_i' H_i(z_i) M_i.
#pragma once
#include "parts.hpp"
#include "products.hpp"

namespace dalembert {

namespace DALEMBERT_ARCH {

// ---- Predictor: the polynomial through the last (up to four) configurations of a motion, whatever the lengths of its
// steps.
template <class T> struct History {
  static constexpr int kMost = 4;
  T* q[kMost];         // newest first; dynamic coordinates (nqd)
  double step[kMost];  // step[i]: length of the step from q[i + 1] to q[i]
  int count = 0;

  // inputs: y (nd), the configuration after a step of length dt
  DAL_INLINE void push(const T* y, int nd, double dt) {
    T* oldest = q[kMost - 1];
    for (int i = kMost - 1; i > 0; --i) {
      q[i] = q[i - 1];
      step[i] = step[i - 1];
    }
    q[0] = oldest;
    step[0] = dt;
    for (int i = 0; i < nd; ++i) oldest[i] = y[i];
    if (count < kMost) ++count;
  }

  // whether the guess of the configuration dt later is extrapolated from all rows, at equal distances
  DAL_INLINE bool even(double dt) const {
    bool equal = count == kMost;
    // differences of times are equal up to rounding
    for (int i = 0; i + 1 < kMost; ++i) equal = equal && __builtin_fabs(step[i] - dt) <= 1e-9 * __builtin_fabs(dt);
    return equal;
  }

  // outputs: y (nd), guess of the configuration dt later. Weights of unequal steps are kept for each part of a composed
  // step: they come back with the next one.
  void guess(T* y, int nd, double dt, int part = 0) {
    const T *a = q[0], *b = q[1], *c = q[2], *d = q[3];
    bool equal = true;
    for (int i = 0; i + 1 < count; ++i) equal = equal && step[i] == dt;
    if (equal) {
      const T three = T(3.0), four = T(4.0), six = T(6.0);
      if (count == 4)
        for (int i = 0; i < nd; ++i) y[i] = four * (a[i] + c[i]) - six * b[i] - d[i];
      else if (count == 3)
        for (int i = 0; i < nd; ++i) y[i] = three * (a[i] - b[i]) + c[i];
      else if (count == 2)
        for (int i = 0; i < nd; ++i) y[i] = a[i] + (a[i] - b[i]);
      else
        for (int i = 0; i < nd; ++i) y[i] = a[i];
      return;
    }
    Weights& w = weights[part];
    bool known = w.count == count && w.dt == dt;
    for (int i = 0; i + 1 < count; ++i) known = known && w.step[i] == step[i];
    if (!known) {
      double time[kMost] = {};
      for (int i = 1; i < count; ++i) time[i] = time[i - 1] - step[i - 1];
      w.make(time, count, dt);
      w.dt = dt;
      for (int i = 0; i + 1 < count; ++i) w.step[i] = step[i];
    }
    w.sum(y, nd, q);
  }

  // of the polynomial through `count` rows at the times time[i], at t; of the first rows only where all of them would
  // give weights too large to trust
  struct Weights {
    double dt = 0, step[kMost] = {}, weight[kMost + 1] = {1};
    int count = 0, rows = 0;
    void make(const double* time, int all, double t) {
      count = all, rows = 1, weight[0] = 1;
      for (; rows < count; ++rows) {
        double l[kMost + 1], size = 0;
        for (int i = 0; i <= rows; ++i) {
          l[i] = 1;
          for (int j = 0; j <= rows; ++j)
            if (j != i) l[i] *= (t - time[j]) / (time[i] - time[j]);
          size += __builtin_fabs(l[i]);
        }
        if (!(size <= 20)) break;  // times too close to each other, or far from t
        for (int i = 0; i <= rows; ++i) weight[i] = l[i];
      }
    }
    void sum(T* y, int nd, T* const* q) const {
      for (int i = 0; i < nd; ++i) y[i] = T(weight[0]) * q[0][i];
      for (int m = 1; m < rows; ++m)
        for (int i = 0; i < nd; ++i) y[i] += T(weight[m]) * q[m][i];
    }
  };
  Weights weights[kMostParts];
};

// What is systematic in the misses of those guesses: the ends of the parts of a composed step lie off one smooth curve,
// each part's by its own amount, which changes little from step to step. The guess is moved by the miss of the same
// part of the step before, where that is like the one before it; where it is very much like it, by how it goes on, too.
// Lanes do not look at numbers: they take the last miss.
template <class T> struct Misses {
  T *guess = nullptr, *by = nullptr, *change = nullptr;  // (nqd), (kMostParts, nqd)
  double length[kMostParts];                             // of the part whose miss that is; 0: none is known
  int known[kMostParts], terms[kMostParts];              // misses that were noted; 0: not used, 1: by, 2: by + change

  template <class Take> void layout(Take take, size_t nqd) {
    take(guess, nqd);
    take(by, kMostParts * nqd);
    take(change, kMostParts * nqd);
  }
  void forget() {
    for (int i = 0; i < kMostParts; ++i) length[i] = known[i] = terms[i] = 0;
  }
  // y (n): the guess by history for a part of the length h; moved
  DAL_INLINE void move(T* y, int n, const History<T>& history, int part, double h) {
    const T *miss = by + size_t(part) * n, *more = change + size_t(part) * n;
    for (int i = 0; i < n; ++i) guess[i] = y[i];
    const double whole = history.count < History<T>::kMost ? 0 : h;
    if (length[part] != whole) length[part] = whole, known[part] = terms[part] = 0;
    for (int i = 0; terms[part] > 0 && i < n; ++i) y[i] += miss[i];
    for (int i = 0; terms[part] > 1 && i < n; ++i) y[i] += more[i];
  }
  // y (n): where that part has ended
  DAL_INLINE void note(const T* y, int n, int part) {
    if (length[part] == 0) return;
    T *miss = by + size_t(part) * n, *more = change + size_t(part) * n;
    T size = T(0.0), changed = T(0.0);
    for (int i = 0; i < n; ++i) {
      const T now = y[i] - guess[i];
      more[i] = now - miss[i];
      miss[i] = now;
      size += fabs_(now);
      changed += fabs_(more[i]);
    }
    terms[part] = 1;
    if constexpr (std::is_same_v<T, double>)
      if (++known[part] > 1) terms[part] = changed < 0.3 * size ? 2 : changed < size ? 1 : 0;
  }
};

// prescribed coordinates at the end of part i: the straight line from `from` to `to`, which it reaches exactly; writes
// the kinematic ones of `out` (nq)
template <class T>
DAL_INLINE void on_line(const ModelData& M, const Parts& parts, int i, const T* from, const T* to, T* out) {
  if (i + 1 == parts.count)
    for (int k = M.nqd; k < M.nq; ++k) out[k] = to[k];
  else between(M, from, to, T(parts.end[i + 1]), out, M.nd, M.nv);
}

// ---- The parts of one step, solved and kept
struct PartStates {
  double *q, *p, *lam;  // (parts + 1, nq), (parts + 1, nd), (parts, nc)
  double* q_at(const ModelData& M, int i) const { return q + size_t(i) * M.nq; }
  double* p_at(const ModelData& M, int i) const { return p + size_t(i) * M.nd; }
  double* lam_at(const ModelData& M, int i) const { return lam + size_t(i) * M.nc; }
};

// Solves all parts from (x, p). y (nq): in the guess (x itself where there is none) with the prescribed values at the
// end, lam (nc) likewise. outputs: k (every part's state); then(i, length) after part i is solved, with w as the step
// has left it; returns the status, and in `failed` the part.
template <class F>
int solve_parts(Work<double>& w, const StepOptions& o, const Parts& parts, double dt, const double* x, const double* p,
                const double* u, const double* y, const double* lam, const PartStates& k, int* iterations,
                double* error, F then) {
  const ModelData& M = *w.M;
  const int nq = M.nq, nqd = M.nqd, nd = M.nd, nc = M.nc;
  bool have_end = false;
  for (int i = 0; i < nqd; ++i) have_end = have_end || y[i] != x[i];
  for (int i = 0; i < nq; ++i) k.q[i] = x[i];
  for (int i = 0; i < nd; ++i) k.p[i] = p[i];
  *iterations = 0;
  for (int part = 0; part < parts.count; ++part) {
    const double h = dt * parts.length[part];
    const double *q0 = k.q_at(M, part), *p0 = k.p_at(M, part);
    for (int i = 0; i < nq; ++i) w.step.x[i] = q0[i];
    for (int i = 0; i < nd; ++i) w.step.p[i] = p0[i];
    for (int i = 0; i < M.nu; ++i) w.step.u[i] = u[i];
    on_line(M, parts, part, x, y, w.step.y);
    for (int c = 0; c < nc; ++c)
      w.con.lam[c] = part == 0 ? lam[c] * parts.length[0]
                               : w.con.lam[c] * (parts.length[part] / parts.length[part - 1]);
    // guess: through the end of the step, where there is a guess of it, and the newest of the parts behind
    double* rows[History<double>::kMost];
    double time[History<double>::kMost];
    int n = 0;
    if (have_end && part + 1 < parts.count) {
      rows[1] = const_cast<double*>(y);
      time[1] = 1;
    }
    for (int back = part; back >= 0 && n < History<double>::kMost; --back) {
      if (n == 1 && have_end && part + 1 < parts.count) n = 2;
      rows[n] = k.q_at(M, back);
      time[n++] = parts.end[back];
    }
    if (n == 1 && have_end && part + 1 < parts.count) n = 2;
    if (have_end && part + 1 == parts.count)
      for (int i = 0; i < nqd; ++i) w.step.y[i] = y[i];
    else {
      History<double>::Weights all;
      all.make(time, n, parts.end[part + 1]);
      all.sum(w.step.y, nqd, rows);
    }
    normalize_balls(M, w.step.y, 0, nd);
    set_reference(w, w.step.x);
    start_constraints(w);
    int its = 0, status = step(w, o, h, &its, error);
    *iterations += its;
    if (status != StepOk) return status;
    for (int i = 0; i < nq; ++i) k.q_at(M, part + 1)[i] = w.step.y[i];
    for (int i = 0; i < nd; ++i) k.p_at(M, part + 1)[i] = w.step.p_next[i];
    for (int c = 0; c < nc; ++c) k.lam_at(M, part)[c] = w.con.lam[c];
    then(part, h);
  }
  return StepOk;
}

// a solved step into w, as load_step() does: for derivatives that come after all parts were solved. rows: with Dh at
// both ends
inline void load_part(Work<double>& w, const PartStates& k, int part, const double* u, bool rows = true) {
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nq; ++i) {
    w.step.x[i] = k.q_at(M, part)[i];
    w.step.y[i] = k.q_at(M, part + 1)[i];
  }
  for (int i = 0; i < M.nd; ++i) w.step.p[i] = k.p_at(M, part)[i];
  for (int i = 0; i < M.nu; ++i) w.step.u[i] = u[i];
  for (int c = 0; c < M.nc; ++c) w.con.lam[c] = k.lam_at(M, part)[c];
  set_reference(w, w.step.x);
  start_constraints(w);
  if (rows) end_constraints(w);
}

// ---- First order
// Yq, Yp (nd rows) and YL (nc rows): derivatives of q_i, p_i and of the part's lambda by w of the whole step, row
// stride w.stride(with_dt); S: scratch of the same shape; R (nd, nv), J1, J2 (nd, nv): scratch.
struct PartTangent {
  double *Yq, *Yp, *YL, *S, *R, *J1, *J2;
};

// unit rows: the derivatives before the first part
inline void tangent_at_start(const Work<double>& w, const PartTangent& t, bool with_dt) {
  const ModelData& M = *w.M;
  const int ld = w.stride(with_dt);
  for (size_t i = 0; i < size_t(M.nd) * ld; ++i) t.Yq[i] = t.Yp[i] = 0;
  for (int i = 0; i < M.nd; ++i) t.Yq[size_t(i) * ld + i] = t.Yp[size_t(i) * ld + M.nv + i] = 1;
}

// The first part, after first_order() of all columns: its columns of rho go to the prescribed values at both ends of
// the line.
inline void tangent_of_first(const Work<double>& w, const Parts& parts, const PartTangent& t, bool with_dt) {
  const ModelData& M = *w.M;
  const int ld = w.stride(with_dt), nw = w.nw + with_dt, rho = M.nv + M.nd + M.nu;
  const double c = parts.end[1];
  auto take = [&](double* to, const double* from, int rows) {
    for (int i = 0; i < rows; ++i) {
      double* y = to + size_t(i) * ld;
      const double* z = from + size_t(i) * ld;
      for (int k = 0; k < nw; ++k) y[k] = z[k];
      for (int k = 0; k < M.nk; ++k) {
        y[M.nd + k] += (1 - c) * z[rho + k];
        y[rho + k] = c * z[rho + k];
      }
      if (with_dt) y[nw - 1] *= parts.length[0];
    }
  };
  take(t.Yq, w.lin.Z, M.nd);
  take(t.Yp, w.lin.P, M.nd);
  if (M.nc) take(t.YL, w.lin.L, M.nc);
}

// The next part, of length h, after its reduced first_order(): what belongs to q_k follows from p_k by R (see there),
// so with
//   S = Yp + R Yq + R_kin (line at the part's start):   Yq <- Z_p S + Z_u + Z_rho (line at its end),   Yp <- (J1
//   Yq_before + J2 Yq + ...)/h.
inline void tangent_of_next(Work<double>& w, const StepOptions& o, const Parts& parts, int part, double h,
                            const PartTangent& t, bool with_dt, bool lambda) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nk = M.nk, nu = M.nu, nc = M.nc, nw = w.nw + with_dt, ld = w.stride(with_dt),
            xc = w.x_column(with_dt), rho = nv + nd + nu;
  const double begin = parts.end[part], end = parts.end[part + 1], idt = 1 / h, g = h * o.plus;
  const bool forced = M.full_forces || M.has_damping;
  // derivatives of the part's momentum balance by q_k, and of its p_k+1 by q_k and q_k+1
  take_transposed<false>(t.R, nv, w.lin.Rt, padded(nd), nd, nv);
  take_transposed<false>(t.J1, nv, w.lin.E.h12, nv, nd, nv);
  for (int i = 0; i < nd * nv; ++i) t.J2[i] = w.lin.E.h22[i];
  if (forced)
    for (int i = 0; i < nd * nv; ++i) {
      t.J1[i] += g * w.lin.Gx[i];
      t.J2[i] += g * w.lin.Gy[i];
    }
  // row (columns of w) += factor (prescribed variable k at `at` of the line)
  auto add_line = [&](double* row, int k, double factor, double at) {
    row[nd + k] += (1 - at) * factor;
    row[rho + k] += at * factor;
  };
  auto add_ends = [&](double* Y, const double* Z, int rows) {  // what of Z comes directly from u, rho and dt
    for (int i = 0; i < rows; ++i) {
      double* y = Y + size_t(i) * ld;
      const double* z = Z + size_t(i) * ld;
      for (int k = 0; k < nu; ++k) y[nv + nd + k] += z[nv + nd + k];
      for (int k = 0; k < nk; ++k) add_line(y, k, z[rho + k], end);
      if (with_dt) y[nw - 1] += parts.length[part] * z[nw - 1];
    }
  };
  sparse_times(w, t.S, nd, ld, xc, t.R, nv, pattern(M), (const double*)t.Yq, 1.0, w.lin.S);
  for (int i = 0; i < nd; ++i) {
    double* r = t.S + size_t(i) * ld;
    axpy(r, 1.0, t.Yp + size_t(i) * ld, nw);
    for (int k = 0; k < nk; ++k) add_line(r, k, t.R[i * nv + nd + k], begin);
  }
  sparse_times(w, t.Yp, nd, ld, xc, t.J1, nv, pattern_without_constraints(M), (const double*)t.Yq, idt, w.lin.S);
  gemm(nd, xc, nd, 1.0, w.lin.Z + nv, ld, 1, t.S, ld, 1, 0.0, t.Yq, ld, w.lin.S);
  add_ends(t.Yq, w.lin.Z, nd);
  if (lambda && nc) {
    gemm(nc, xc, nd, 1.0, w.lin.L + nv, ld, 1, t.S, ld, 1, 0.0, t.YL, ld, w.lin.S);
    add_ends(t.YL, w.lin.L, nc);
  }
  sparse_times(w, t.S, nd, ld, xc, t.J2, nv, pattern_without_constraints(M), (const double*)t.Yq, idt, w.lin.S);
  for (int i = 0; i < nd; ++i) {
    double* p = t.Yp + size_t(i) * ld;
    axpy(p, 1.0, t.S + size_t(i) * ld, nw);
    for (int k = 0; k < nk; ++k) {
      add_line(p, k, idt * t.J1[i * nv + nd + k], begin);
      add_line(p, k, idt * t.J2[i * nv + nd + k], end);
    }
    for (int k = 0; k < nu; ++k) p[nv + nd + k] += g * w.lin.Gu[i * nu + k];
    if (with_dt) p[nw - 1] += parts.length[part] * idt * momentum_by_dt(w, o, h, i, t.J1 + i * nv, t.J2 + i * nv);
  }
}

// The next part, after first_order() of all its columns: Y <- D_i M_i. For velocity constraints, where what belongs to
// q_k does not follow from p_k.
inline void tangent_by_product(Work<double>& w, const Parts& parts, int part, const PartTangent& t, bool with_dt) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nu = M.nu, nw = w.nw + with_dt, ld = w.stride(with_dt), xc = w.x_column(with_dt),
            rho = nv + nd + nu;
  const double begin = parts.end[part], end = parts.end[part + 1];
  auto through = [&](double* to, const double* D, int rows) {
    gemm(rows, xc, nd, 1.0, D, ld, 1, t.Yq, ld, 1, 0.0, to, ld, w.lin.S);
    gemm(rows, xc, nd, 1.0, D + nv, ld, 1, t.Yp, ld, 1, 1.0, to, ld, w.lin.S);
    for (int i = 0; i < rows; ++i) {
      double* y = to + size_t(i) * ld;
      const double* d = D + size_t(i) * ld;
      for (int k = 0; k < nu; ++k) y[nv + nd + k] += d[nv + nd + k];
      for (int k = 0; k < M.nk; ++k) {
        y[nd + k] += (1 - begin) * d[nd + k] + (1 - end) * d[rho + k];
        y[rho + k] += begin * d[nd + k] + end * d[rho + k];
      }
      if (with_dt) y[nw - 1] += parts.length[part] * d[nw - 1];
    }
  };
  through(t.S, w.lin.Z, nd);
  through(w.lin.T_, w.lin.P, nd);
  if (M.nc) through(t.YL, w.lin.L, M.nc);
  for (size_t i = 0; i < size_t(nd) * ld; ++i) {
    t.Yq[i] = t.S[i];
    t.Yp[i] = w.lin.T_[i];
  }
}

// M_i (nw, nw): derivatives of w_i = (q, p, u, rho) of part i by w of the whole step
inline void part_by_whole(const Work<double>& w, const Parts& parts, int part, const PartTangent& t, double* out) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nw = w.nw, ld = w.stride(), rho = nv + nd + M.nu;
  for (int i = 0; i < nw * nw; ++i) out[i] = 0;
  for (int i = 0; i < nd; ++i)
    for (int k = 0; k < nw; ++k) {
      out[size_t(i) * nw + k] = t.Yq[size_t(i) * ld + k];
      out[size_t(nv + i) * nw + k] = t.Yp[size_t(i) * ld + k];
    }
  for (int k = 0; k < M.nu; ++k) out[size_t(nv + nd + k) * nw + nv + nd + k] = 1;
  for (int k = 0; k < M.nk; ++k)
    for (int last = 0; last < 2; ++last) {
      double *row = out + size_t(last ? rho + k : nd + k) * nw, at = parts.end[part + last];
      row[nd + k] = 1 - at;
      row[rho + k] = at;
    }
}

// Costates z = (zq, zp) behind part i -> those before it, in place; out (nw) += its gradient by u and the prescribed
// values, in the columns of w. then(part, h, zp): with lin.mu, lin.nu, and the costate behind the part
template <class F>
bool costate_of_part(Work<double>& w, const StepOptions& o, const Parts& parts, int part, double h, double* zq,
                     double* zp, const double* zl, double* out, double* grad, F then) {
  const ModelData& M = *w.M;
  const int nv = M.nv, nd = M.nd, nu = M.nu, rho = nv + nd + nu;
  const bool ok = gradient_of_step(w, o, h, false, zq, zp, zl, grad);
  then(part, h, zp);
  for (int i = 0; i < nd; ++i) {
    zq[i] = grad[i];
    zp[i] = grad[nv + i];
  }
  for (int k = 0; k < nu; ++k) out[nv + nd + k] += grad[nv + nd + k];
  const double begin = parts.end[part], end = parts.end[part + 1];
  for (int k = 0; k < M.nk; ++k) {
    out[nd + k] += (1 - begin) * grad[nd + k] + (1 - end) * grad[rho + k];
    out[rho + k] += begin * grad[nd + k] + end * grad[rho + k];
  }
  return ok;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
