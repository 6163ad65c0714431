// The Newton matrix with its constraints, K = [N -C0^T; C1 0], as one sparse matrix with an order and a pattern that
// are found once per model (loops_plan.hpp): for wide mechanisms (nets), whose fronts would be large. Rows are
// eliminated one after the other into a dense row; the last unknowns, among which everything is full, are a dense
// block.
#pragma once
#include "forces.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// entries of Dh by local variable: R (as local_v) from the wrenches of the constraints and the twists of the joints
//
// reads wrench, S; writes R
inline void rows_of_wrenches(const ModelData& M, const double* wrench, const V6<double>* S, double* R) {
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    V6<double> x[3];
    for (int s = 0; s < 3; ++s) x[s] = {three(wrench + 18 * c + 6 * s), three(wrench + 18 * c + 6 * s + 3)};
    for (int i = 0, n = moving(e); i < n; ++i) {
      const int flag = M.path_flag[e.vars + i];
      V6<double> f = zero6<double>();
      for (int s = 0; s < 3; ++s)
        if (flag >> s & 1) f += x[s];
      R[e.vars + i] = dot(f, S[M.local_joint[e.vars + i] - 1]);
    }
  }
}

// False where a pivot is not sound.
//
// reads gen, newton.diagonal, loops.start, end, S0, S1; writes loops.L, U, inverse; scratch: loops.row, R0, R1
inline bool condensed_factor(Work<double>& w) {
  const ModelData& M = *w.M;
  const CondensedPlan& plan = M.loops.condensed;
  const int n = int(plan.unknown.size()), first_dense = plan.dense;
  rows_of_wrenches(M, w.loops.start, w.loops.S0, w.loops.R0);
  rows_of_wrenches(M, w.loops.end, w.loops.S1, w.loops.R1);
  double *row = w.loops.row, *inverse = w.loops.inverse;
  auto product = [](const double* a, const double* b) __attribute__((always_inline)) {
    Eight<double> x, y;
    x.read(a);
    y.read(b);
    return x.dot(y);
  };
  for (int i = 0; i < n; ++i) {
    for (int t = plan.entry_offset[i]; t < plan.entry_offset[i + 1]; ++t) {
      const CondensedEntry& e = plan.entries[t];
      double x;
      switch (e.kind) {
        case CondensedEntry::upper: x = product(w.gen.P1j + 8 * e.a, w.gen.Q2j + 8 * e.b); break;
        case CondensedEntry::lower: x = product(w.gen.Q1j + 8 * e.a, w.gen.P2j + 8 * e.b); break;
        case CondensedEntry::diagonal:
          x = product(w.gen.P1j + 8 * e.a, w.gen.Q2j + 8 * e.a) + w.newton.diagonal[e.b];
          break;
        case CondensedEntry::column: x = -w.loops.R0[e.a]; break;
        default: x = w.loops.R1[e.a];
      }
      row[e.at] = x;
    }
    // rows above: first those with a list of their entries, then the dense ones
    double size = 0;
    for (int t = plan.lower_offset[i]; t < plan.lower_offset[i + 1]; ++t) {
      const int k = plan.lower[t];
      const double f = row[k] * inverse[k];
      row[k] = 0;
      w.loops.L[t] = f;
      const int begin = plan.upper_offset[k], count = plan.upper_offset[k + 1] - begin;
      const double* __restrict u = w.loops.U + begin;
      size += __builtin_fabs(f * u[plan.meets[t]]);
      if (k >= first_dense) {
        double* __restrict y = row + k + 1;
        for (int s = 0; s < count; ++s) y[s] -= f * u[s];
      } else {
        const int* __restrict at = plan.upper.data() + begin;
        for (int s = 0; s < count; ++s) row[at[s]] -= f * u[s];
      }
    }
    const double D = row[i];
    row[i] = 0;
    if (!(__builtin_fabs(D) > (plan.unknown[i] < M.nd ? 1e-13 : 1e-10) * size) || D == 0) {
      for (int k = 0; k < n; ++k) row[k] = 0;
      return false;
    }
    inverse[i] = 1 / D;
    for (int t = plan.upper_offset[i]; t < plan.upper_offset[i + 1]; ++t) {
      w.loops.U[t] = row[plan.upper[t]];
      row[plan.upper[t]] = 0;
    }
  }
  return true;
}

// K numbers side by side, one of each right-hand side; K = 1 or a multiple of the width
template <int K> struct Sides {
  Vec x[K / kWidth];
  DAL_INLINE static Sides at(const double* p) {
    Sides s;
#pragma GCC unroll 8
    for (int v = 0; v < K / kWidth; ++v) s.x[v] = load(p + v * kWidth);
    return s;
  }
  DAL_INLINE void to(double* p) const {
#pragma GCC unroll 8
    for (int v = 0; v < K / kWidth; ++v) store(p + v * kWidth, x[v]);
  }
  DAL_INLINE void add(double f, const Sides& o) {
#pragma GCC unroll 8
    for (int v = 0; v < K / kWidth; ++v) x[v] += splat(f) * o.x[v];
  }
  DAL_INLINE void scale(double f) {
#pragma GCC unroll 8
    for (int v = 0; v < K / kWidth; ++v) x[v] *= splat(f);
  }
};
template <> struct Sides<1> {
  double x;
  DAL_INLINE static Sides at(const double* p) { return {*p}; }
  DAL_INLINE void to(double* p) const { *p = x; }
  DAL_INLINE void add(double f, const Sides& o) { x += f * o.x; }
  DAL_INLINE void scale(double f) { x *= f; }
};

// K right-hand sides side by side, as front_solve
//
// reads loops.L, U, inverse; writes b, g; scratch: loops.phi
template <int K> void condensed_solve(Work<double>& w, double* b, double* g) {
  const ModelData& M = *w.M;
  const CondensedPlan& plan = M.loops.condensed;
  const int n = int(plan.unknown.size());
  double* x = w.loops.phi;
  auto place = [&](int i) {
    const int k = plan.unknown[i];
    return k < M.nd ? b + size_t(k) * K : g + size_t(k - M.nd) * K;
  };
  for (int i = 0; i < n; ++i) {
    Sides<K> s = Sides<K>::at(place(i));
    for (int t = plan.lower_offset[i]; t < plan.lower_offset[i + 1]; ++t)
      s.add(-w.loops.L[t], Sides<K>::at(x + plan.lower[t] * K));
    s.to(x + i * K);
  }
  for (int i = n - 1; i >= 0; --i) {
    Sides<K> s = Sides<K>::at(x + i * K);
    for (int t = plan.upper_offset[i]; t < plan.upper_offset[i + 1]; ++t)
      s.add(-w.loops.U[t], Sides<K>::at(x + plan.upper[t] * K));
    s.scale(w.loops.inverse[i]);
    s.to(x + i * K);
    s.to(place(i));
  }
}

// one right-hand side of the transposed matrix, in place
//
// reads loops.L, U, inverse; writes b, g; scratch: loops.phi
inline void condensed_solve_transposed(Work<double>& w, double* b, double* g) {
  const ModelData& M = *w.M;
  const CondensedPlan& plan = M.loops.condensed;
  const int n = int(plan.unknown.size());
  double* x = w.loops.phi;
  auto place = [&](int i) {
    const int k = plan.unknown[i];
    return k < M.nd ? b + k : g + (k - M.nd);
  };
  for (int i = 0; i < n; ++i) x[i] = *place(i);
  for (int i = 0; i < n; ++i) {
    x[i] *= w.loops.inverse[i];
    for (int t = plan.upper_offset[i]; t < plan.upper_offset[i + 1]; ++t) x[plan.upper[t]] -= w.loops.U[t] * x[i];
  }
  for (int i = n - 1; i >= 0; --i) {
    for (int t = plan.lower_offset[i]; t < plan.lower_offset[i + 1]; ++t) x[plan.lower[t]] -= w.loops.L[t] * x[i];
    *place(i) = x[i];
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
