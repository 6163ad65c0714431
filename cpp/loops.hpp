// Steps of a tree with loops in one elimination, O(n) where loops are local (docs/kernels.md 10.2). A constraint acts
// on the poses of its sites by wrenches, so that neither the Newton matrix nor Dh is formed:
//   N y - C0^T m = b,  C1 y = g   with   z = (xi; eta), xi = sum P2 y, eta = sum S(q_k+1) y over the path of a pose,
//   o = (f; g), f = sum Q2 y, g = sum of the wrenches at q_k times m over the subtree of a pose.
// A front is a set of poses and multipliers on which the eliminated part depends: o = F z + phi. Poses are eliminated
// from the leaves, multipliers as soon as their pivot is sound. The schedule is found once per model (plan_loops) and
// replayed by front_factor and front_solve. Where a pivot fails (redundant constraints, singular configurations) the
// dense path of the step takes over.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>
#include "condensed.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// inputs: poses P of the joints that constraints see. outputs: h, size (as constraint_rows), wrench (nc x 18): of each
// constraint on the poses of its sites a, b, c; what variables without joint add to Dh is not there
//
// reads q, P; writes h, size, wrench, loops.turn, shift, length
inline void constraint_wrenches(Work<double>& w, const double* q, const Poses<double>& P, double* h, double* size,
                                double* wrench) {
  const ModelData& M = *w.M;
  auto norm = [](const V3<double>& a) { return __builtin_fabs(a.x) + __builtin_fabs(a.y) + __builtin_fabs(a.z); };
  // what the rounding of q, sines and cosines does to the poses: angles, and positions by the length of the path
  double *turn = w.loops.turn, *shift = w.loops.shift, *length = w.loops.length;
  turn[0] = shift[0] = length[0] = 0;
  for (int j : M.constraint_joints) {
    const Joint& J = M.joints[j];
    const int at = j + 1, up = J.parent;
    const double step = norm(P.p[at] - P.p[up]), reach = __builtin_fabs(q[J.q]);
    turn[at] = turn[up] + (J.turns() ? reach + 1 : 0);
    shift[at] = shift[up] + turn[up] * step + (J.turns() ? __builtin_fabs(J.pitch) * reach : reach);
    length[at] = length[up] + step;
  }
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const int top = M.loops.meet[c];
    const Site &sa = M.sites[e.site_a], &sb = M.sites[e.site_b];
    const V3<double> pa = site_position(M, sa, P), pb = site_position(M, sb, P), d = pa - pb;
    V3<double> n, m = zero3<double>();
    double sum, extra = 0;
    if (e.kind == ElementKind::Direction) {
      const Site& sc = M.sites[e.site_c];
      n = mul(site_rotation(M, sc, P), vec3<double>(e.par));
      m = cross(n, d);
      h[c] = dot(n, d);
      sum = norm(pa) + norm(pb);
      extra = norm(m) * (turn[sc.pose] - turn[top]);
    } else {
      n = d * 2.0;
      double L = e.par[0];
      if (e.length_var >= 0) {
        L = q[M.local_q[e.vars + moving(e)]];
        extra = 2 * L * L;
      }
      sum = dot(d, d) + L * L;
      h[c] = dot(d, d) - L * L;
    }
    auto rounding = [&](int pose, const V3<double>& p) {
      const double own = norm(p - P.p[pose]);
      return (shift[pose] - shift[top]) - turn[top] * (length[pose] - length[top]) + (turn[pose] - turn[top]) * own;
    };
    size[c] = sum + kRoundingShare * (norm(n) * (rounding(sa.pose, pa) + rounding(sb.pose, pb)) + extra);
    double* out = wrench + 18 * c;
    put_three(out, cross(pa, n));
    put_three(out + 3, n);
    put_three(out + 6, cross(n, pb));
    put_three(out + 9, zero3<double>() - n);
    put_three(out + 12, m);
    put_three(out + 15, zero3<double>());
  }
}

DAL_INLINE int pose_of_site(const ModelData& M, const Element& e, int s) {
  const int site = s == 0 ? e.site_a : s == 1 ? e.site_b : e.site_c;
  return site < 0 ? 0 : M.sites[site].pose;
}

// twists of the joints that constraints see
DAL_INLINE void loop_twists(const ModelData& M, const Poses<double>& P, V6<double>* S) {
  for (int j : M.constraint_joints) S[j] = joint_twist(M.joints[j], j + 1, P);
}

// Before a step: wrenches and twists at q_k, from its poses
//
// reads step.x, kin.start; writes loops.start, S0, con.h, size
inline void start_loops(Work<double>& w) {
  constraint_wrenches(w, w.step.x, w.kin.start, w.con.h, w.con.size, w.loops.start);
  loop_twists(*w.M, w.kin.start, w.loops.S0);
  w.loops.on = true;
}

// The dense rows instead, for what is left of the step: C0, and C1 where the poses at q_k+1 are there
//
// reads step.x, y, kin.start, end; writes con.C0, C1, h, size
inline void use_dense_rows(Work<double>& w, bool end) {
  if (!w.loops.on) return;
  w.loops.on = false;
  constraint_rows(w, w.step.x, w.kin.start, w.con.h, w.con.size, w.con.C0);
  if (end) constraint_rows(w, w.step.y, w.kin.end, w.con.h, w.con.size, w.con.C1);
}

// r -= Dh(q_k)^T lambda; returns the largest term
//
// reads loops.start, S0, con.lam; writes step.r, loops.force, push
inline double subtract_multipliers(Work<double>& w) {
  const ModelData& M = *w.M;
  V6<double>* push = w.loops.push;
  double most = 0;
  for (int j : M.constraint_joints) push[j + 1] = zero6<double>();
  push[0] = zero6<double>();
  for (int k = M.nd; k < M.nv; ++k) w.loops.force[k] = 0;
  for (int c = 0; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const double *x = w.loops.start + 18 * c, l = w.con.lam[c];
    for (int s = 0; s < (e.site_c < 0 ? 2 : 3); ++s)
      push[pose_of_site(M, e, s)] += V6<double>{three(x + 6 * s), three(x + 6 * s + 3)} * l;
    if (e.length_var >= 0) {
      const int at = e.vars + e.length_var;
      w.loops.force[M.local_v[at]] -= 2 * w.step.x[M.local_q[at]] * l;
    }
  }
  for (size_t i = M.constraint_joints.size(); i-- > 0;) {
    const int j = M.constraint_joints[i], v = M.joints[j].v;
    const V6<double>&S = w.loops.S0[j], &f = push[j + 1];
    const double t = dot(S, f);
    push[M.joints[j].parent] += f;
    if (v >= M.nd) {
      w.loops.force[v] += t;
      continue;
    }
    w.step.r[v] -= t;
    most = larger(most, __builtin_fabs(S.w.x * f.w.x) + __builtin_fabs(S.w.y * f.w.y) + __builtin_fabs(S.w.z * f.w.z) +
                            __builtin_fabs(S.v.x * f.v.x) + __builtin_fabs(S.v.y * f.v.y) +
                            __builtin_fabs(S.v.z * f.v.z));
  }
  return most;
}

// ---- The elimination

// entries of a pose for every dynamic component: a = (P2; S1), c = (P1; -S0), q1 = (Q1; 0), q2 = (Q2; 0)
//
// reads gen, loops.S0, S1; writes loops.a, c, q1, q2
inline void loop_generators(Work<double>& w) {
  const ModelData& M = *w.M;
  const LoopPlan& plan = M.loops;
  const int B = plan.lanes, nx = int(plan.xi.size()), ne = int(plan.eta.size());
  for (int i = 0; i < M.nd; ++i) {
    const int j = M.dyn_joint[i], at = i * B;
    for (int l = 0; l < nx; ++l) {
      const int from = 8 * j + plan.xi[l];
      w.loops.a[at + l] = w.gen.P2j[from];
      w.loops.c[at + l] = w.gen.P1j[from];
      w.loops.q1[at + l] = w.gen.Q1j[from];
      w.loops.q2[at + l] = w.gen.Q2j[from];
    }
    const double *S0 = &w.loops.S0[j].w.x, *S1 = &w.loops.S1[j].w.x;
    for (int l = 0; l < ne; ++l) {
      w.loops.a[at + nx + l] = S1[plan.eta[l]];
      w.loops.c[at + nx + l] = -S0[plan.eta[l]];
    }
  }
}

// u = F a for the B columns from F on (n rows, row stride n)
template <int B> DAL_INLINE void front_times(const double* F, int n, const double* a, double* u) {
  constexpr int V = B / kWidth;
  Vec av[V];
#pragma GCC unroll 8
  for (int k = 0; k < V; ++k) av[k] = load(a + k * kWidth);
  auto product = [&](int r) __attribute__((always_inline)) {
    const double* row = F + size_t(r) * n;
    Vec x = av[0] * load(row);
#pragma GCC unroll 8
    for (int k = 1; k < V; ++k) x += av[k] * load(row + k * kWidth);
    return x;
  };
#if defined(__AVX__) && !defined(__AVX512F__)
  for (int r = 0; r < n; r += 4) {  // four sums at once: n is a multiple of the width
    const Vec x0 = product(r), x1 = product(r + 1), x2 = product(r + 2), x3 = product(r + 3);
    const Vec y0 = __builtin_shufflevector(x0, x1, 0, 4, 2, 6) + __builtin_shufflevector(x0, x1, 1, 5, 3, 7),
              y1 = __builtin_shufflevector(x2, x3, 0, 4, 2, 6) + __builtin_shufflevector(x2, x3, 1, 5, 3, 7);
    store(u + r, __builtin_shufflevector(y0, y1, 0, 1, 4, 5) + __builtin_shufflevector(y0, y1, 2, 3, 6, 7));
  }
#else
  for (int r = 0; r < n; ++r) u[r] = sum(product(r));
#endif
}
// F (n x n) -= u v^T
DAL_INLINE void front_update(double* F, int n, const double* u, const double* v) {
  for (int r = 0; r < n; ++r) {
    const Vec f = splat(u[r]);
    double* row = F + size_t(r) * n;
    for (int k = 0; k < n; k += kWidth) store(row + k, load(row + k) - f * load(v + k));
  }
}
// row and column `from` of F (n x n) move to `to` (added to what is there), or vanish; B of them
template <int B> DAL_INLINE void front_merge(double* F, int n, int from, int to) {
  for (int j = 0; j < B; ++j) {
    double* x = F + size_t(from + j) * n;
    if (to >= 0) {
      double* y = F + size_t(to + j) * n;
      for (int k = 0; k < n; k += kWidth) store(y + k, load(y + k) + load(x + k));
    }
    for (int k = 0; k < n; k += kWidth) store(x + k, Vec{});
  }
  for (int r = 0; r < n; ++r)
    for (int j = 0; j < B; j += kWidth) {
      double *x = F + size_t(r) * n + from + j, *y = F + size_t(r) * n + to + j;
      if (to >= 0) store(y, load(y) + load(x));
      store(x, Vec{});
    }
}

constexpr double kSoundPivot = 1e-10;  // of a multiplier, against what was added up in it

// False where a pivot is not sound.
//
// reads loops.a, c, q1, q2, start, end, newton.diagonal; writes loops.U, W, inverse; scratch: loops.F, size
template <int B> bool front_factor(Work<double>& w) {
  const ModelData& M = *w.M;
  const LoopPlan& plan = M.loops;
  const int nx = int(plan.xi.size()), ne = int(plan.eta.size());
  for (int i = 0; i < plan.matrices; ++i) w.loops.F[i] = 0;
  for (size_t t = 0; t < plan.steps.size(); ++t) {
    const FrontStep& s = plan.steps[t];
    const int n = plan.size[s.front], at = s.at;
    double *F = w.loops.F + plan.matrix[s.front], *U = w.loops.U + s.row, *W = w.loops.W + s.row,
           *size = w.loops.size + plan.vector[s.front];
    if (s.kind == FrontOp::joint) {
      const double *a = w.loops.a + s.index * B, *c = w.loops.c + s.index * B, *q1 = w.loops.q1 + s.index * B,
                   *q2 = w.loops.q2 + s.index * B;
      front_times<B>(F + at, n, a, U);
      for (int k = 0; k < n; k += kWidth) {
        Vec x{};
        for (int j = 0; j < B; ++j) x += splat(c[j]) * load(F + size_t(at + j) * n + k);
        store(W + k, x);
      }
      double own = w.newton.diagonal[s.index], other = 0;
      for (int j = 0; j < B; ++j) {
        own += c[j] * q2[j];
        other += c[j] * U[at + j];
        U[at + j] += q2[j];
        W[at + j] += q1[j];
      }
      const double D = own + other;
      if (!(__builtin_fabs(D) > 1e-12 * (__builtin_fabs(own) + __builtin_fabs(other)))) return false;
      const double inverse = 1 / D;
      w.loops.inverse[t] = inverse;
      for (int k = 0; k < n; k += kWidth) store(W + k, load(W + k) * inverse);
      front_update(F, n, U, W);
      for (int k = 0; k < n; ++k) size[k] += __builtin_fabs(U[k] * W[k]);
      if (s.to != LoopPlan::kStays) front_merge<B>(F, n, at, s.to);
    } else if (s.kind == FrontOp::add) {
      const double *x0 = w.loops.start + 18 * s.index, *x1 = w.loops.end + 18 * s.index;
      for (int site = 0; site < 3; ++site) {
        const int place = plan.place[3 * s.index + site];
        if (place < 0) continue;
        for (int l = 0; l < ne; ++l) {
          const int from = 6 * site + plan.eta[l], to = place + nx + l;
          F[size_t(at) * n + to] += x1[from];
          F[size_t(to) * n + at] += x0[from];
        }
      }
      size[at] = 0;
    } else if (s.kind == FrontOp::pivot) {
      const double D = F[size_t(at) * n + at];
      if (!(__builtin_fabs(D) > kSoundPivot * size[at])) return false;
      const double inverse = 1 / D;
      w.loops.inverse[t] = inverse;
      for (int k = 0; k < n; ++k) U[k] = F[size_t(k) * n + at];
      for (int k = 0; k < n; k += kWidth) store(W + k, load(F + size_t(at) * n + k) * splat(inverse));
      U[at] = W[at] = 0;
      front_update(F, n, U, W);
      for (int k = 0; k < n; ++k) {
        size[k] += __builtin_fabs(U[k] * W[k]);
        F[size_t(k) * n + at] = F[size_t(at) * n + k] = 0;
      }
    } else {
      const int m = plan.size[s.to], *pair = plan.moves.data() + s.index;
      double *G = w.loops.F + plan.matrix[s.to], *from = w.loops.size + plan.vector[s.to];
      for (int i = 0; i < s.at; ++i) {
        size[pair[2 * i]] = from[pair[2 * i + 1]];
        for (int k = 0; k < s.at; ++k) {
          double& x = G[size_t(pair[2 * i + 1]) * m + pair[2 * k + 1]];
          F[size_t(pair[2 * i]) * n + pair[2 * k]] = x;
          x = 0;
        }
      }
    }
  }
  return true;
}

// y (n x K) += u x
template <int K> DAL_INLINE void add_product(double* y, const double* u, int n, const Sides<K>& x) {
  if constexpr (K == 1) {
    for (int k = 0; k < n; k += kWidth) store(y + k, load(y + k) + load(u + k) * splat(x.x));
  } else {
    for (int k = 0; k < n; ++k) {
      Sides<K> s = Sides<K>::at(y + k * K);
      s.add(u[k], x);
      s.to(y + k * K);
    }
  }
}
// x -= u . y (n x K)
template <int K> DAL_INLINE void subtract_product(Sides<K>& x, const double* u, const double* y, int n) {
  if constexpr (K == 1) {
    Vec sums{};
    for (int k = 0; k < n; k += kWidth) sums += load(u + k) * load(y + k);
    x.x -= sum(sums);
  } else {
    for (int k = 0; k < n; ++k) x.add(-u[k], Sides<K>::at(y + k * K));
  }
}

// K right-hand sides side by side: b (nd x K), g (nc x K) -> y (nd x K), m (nc x K), in place. TRANSPOSED: of [N^T
// C1^T; -C0 0], for which a and c, U and W change places (W is divided by the pivot already).
//
// reads loops.a, c, U, W, inverse; writes b, g; scratch: loops.phi, z
template <int B, int K, bool TRANSPOSED = false> void front_solve(Work<double>& w, double* b, double* g) {
  using Side = Sides<K>;
  const LoopPlan& plan = w.M->loops;
  const double *inward = TRANSPOSED ? w.loops.a : w.loops.c, *outward = TRANSPOSED ? w.loops.c : w.loops.a,
               *columns = TRANSPOSED ? w.loops.W : w.loops.U, *rows = TRANSPOSED ? w.loops.U : w.loops.W;
  double* z = w.loops.z;
  // entries `from` on of phi move to `to` on, or vanish; B of them
  auto merge = [](double* phi, int from, int to) __attribute__((always_inline)) {
    for (int j = 0; j < B * K; j += kWidth) {
      const Vec x = load(phi + from * K + j);
      if (to >= 0) store(phi + to * K + j, load(phi + to * K + j) + x);
      store(phi + from * K + j, Vec{});
    }
  };
  for (int i = 0; i < plan.vectors * K; ++i) w.loops.phi[i] = 0;
  for (size_t t = 0; t < plan.steps.size(); ++t) {
    const FrontStep& s = plan.steps[t];
    const int n = plan.size[s.front], at = s.at;
    double *phi = w.loops.phi + size_t(plan.vector[s.front]) * K, *own = phi + at * K;
    if (s.kind == FrontOp::joint || s.kind == FrontOp::pivot) {
      const bool joint = s.kind == FrontOp::joint;
      Side x = Side::at((joint ? b : g) + size_t(s.index) * K);
      if (joint) subtract_product<K>(x, inward + s.index * B, own, B);
      else x.add(-1.0, Side::at(own));
      if (!TRANSPOSED) x.scale(w.loops.inverse[t]);
      x.to(z + t * K);
      add_product<K>(phi, columns + s.row, n, x);
      if (!joint) Side{}.to(own);
      else if (s.to != LoopPlan::kStays) merge(phi, at, s.to);
    } else if (s.kind == FrontOp::join) {
      const int* pair = plan.moves.data() + s.index;
      double* other = w.loops.phi + size_t(plan.vector[s.to]) * K;
      for (int e = 0; e < s.at; ++e) {
        Side::at(other + pair[2 * e + 1] * K).to(phi + pair[2 * e] * K);
        Side{}.to(other + pair[2 * e + 1] * K);
      }
    }
  }
  // back: now z of the poses and the multipliers are in phi
  for (int i = 0; i < plan.vectors * K; ++i) w.loops.phi[i] = 0;
  for (size_t t = plan.steps.size(); t-- > 0;) {
    const FrontStep& s = plan.steps[t];
    const int n = plan.size[s.front], at = s.at;
    double *phi = w.loops.phi + size_t(plan.vector[s.front]) * K, *own = phi + at * K;
    if (s.kind == FrontOp::joint || s.kind == FrontOp::pivot) {
      const bool joint = s.kind == FrontOp::joint;
      if (joint && s.to != LoopPlan::kStays)
        for (int j = 0; j < B * K; j += kWidth) store(own + j, s.to >= 0 ? load(phi + s.to * K + j) : Vec{});
      Side x = Side::at(z + t * K);
      subtract_product<K>(x, rows + s.row, phi, n);
      if (TRANSPOSED) x.scale(w.loops.inverse[t]);
      x.to((joint ? b : g) + size_t(s.index) * K);
      if (joint) add_product<K>(own, outward + s.index * B, B, x);
      else x.to(own);
    } else if (s.kind == FrontOp::add) {
      Side{}.to(own);
    } else {
      const int* pair = plan.moves.data() + s.index;
      double* other = w.loops.phi + size_t(plan.vector[s.to]) * K;
      for (int e = 0; e < s.at; ++e) {
        Side::at(phi + pair[2 * e] * K).to(other + pair[2 * e + 1] * K);
        Side{}.to(phi + pair[2 * e] * K);
      }
    }
  }
}

// The factored matrix of the step; after elements_to_newton(). False where the dense path has to serve.
//
// reads gen, newton.diagonal, kin.end, loops.start, end, S0; writes loops
inline bool factor_fronts(Work<double>& w) {
  if (!w.M->loops.condensed.unknown.empty()) return condensed_factor(w);
  return w.M->loops.lanes == 8 ? front_factor<8>(w) : front_factor<16>(w);
}
inline bool loop_factor(Work<double>& w) {
  loop_twists(*w.M, w.kin.end, w.loops.S1);
  if (w.M->loops.condensed.unknown.empty()) loop_generators(w);
  return factor_fronts(w);
}
template <int K> DAL_INLINE void loop_solve(Work<double>& w, double* b, double* g) {
  if (!w.M->loops.condensed.unknown.empty()) condensed_solve<K>(w, b, g);
  else if (w.M->loops.lanes == 8) front_solve<8, K>(w, b, g);
  else front_solve<16, K>(w, b, g);
}

// [N^T C1^T; -C0 0] (y; m) = (b; g), in place
DAL_INLINE void loop_solve_transposed(Work<double>& w, double* b, double* g) {
  if (!w.M->loops.condensed.unknown.empty()) condensed_solve_transposed(w, b, g);
  else if (w.M->loops.lanes == 8) front_solve<8, 1, true>(w, b, g);
  else front_solve<16, 1, true>(w, b, g);
}

// Newton direction: N dy - C0^T (dt dlam) = -dt r, C1 dy = -h
//
// reads step.r, con.h, loops; writes step.dy, con.dlam
inline void loop_direction(Work<double>& w, double dt) {
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nd; ++i) w.step.dy[i] = -dt * w.step.r[i];
  for (int c = 0; c < M.nc; ++c) w.con.dlam[c] = -w.con.h[c];
  loop_solve<1>(w, w.step.dy, w.con.dlam);
  for (int c = 0; c < M.nc; ++c) w.con.dlam[c] /= dt;
}

// Columns of the first order: N Y - C0^T (dt L) = Z, C1 Y = -(what is in L), for `columns` columns of Z (nd rows) and L
// (nc rows) of row stride ld; Y, L in their place. After loop_factor().
//
// reads loops; writes Z, L; scratch: loops.columns
inline void loop_columns(Work<double>& w, double dt, double* Z, double* L, int ld, int columns) {
  const ModelData& M = *w.M;
  double *b = w.loops.columns, *g = b + 8 * M.nd;
  for (int k = 0; k < columns; k += 8) {
    const int n = columns - k < 8 ? columns - k : 8;
    for (int i = 0; i < M.nd; ++i)
      for (int c = 0; c < 8; ++c) b[8 * i + c] = c < n ? Z[size_t(i) * ld + k + c] : 0;
    for (int i = 0; i < M.nc; ++i)
      for (int c = 0; c < 8; ++c) g[8 * i + c] = c < n ? -L[size_t(i) * ld + k + c] : 0;
    loop_solve<8>(w, b, g);
    for (int i = 0; i < M.nd; ++i)
      for (int c = 0; c < n; ++c) Z[size_t(i) * ld + k + c] = b[8 * i + c];
    for (int i = 0; i < M.nc; ++i)
      for (int c = 0; c < n; ++c) L[size_t(i) * ld + k + c] = g[8 * i + c] / dt;
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
