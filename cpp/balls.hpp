// Balls in the linear algebra of a step (docs/kernels.md 13): generators, own blocks of second derivatives, and what
// elements add, from the slots of hinges to the ends x, y of the balls. Between a ball and anything else the rule for
// ancestors (6.1) holds with combined columns; inside a ball it does not, so its own 3x3 blocks are written over.
#pragma once
#include "rotation.hpp"
#include "solver.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// columns of generators: Q (8 x 3) of two slots at joints j, j + 1, j + 2; their entries are `step` apart
template <class T> struct BallColumns {
  Eight<T> a[2][3];
  DAL_INLINE void read(const T* one, const T* two, const int* at, int step) {
    for (int c = 0; c < 3; ++c) {
      if (step == 1) {
        a[0][c].read(one + at[c]);
        a[1][c].read(two + at[c]);
        continue;
      }
      T x[8], y[8];
      for (int l = 0; l < 8; ++l) {
        x[l] = one[at[c] + l * step];
        y[l] = two[at[c] + l * step];
      }
      a[0][c].read(x);
      a[1][c].read(y);
    }
  }
  // columns by x and by y instead of these by the slots, written in their place
  DAL_INLINE BallColumns combine(const BallMap<T>& m, T* one, T* two, const int* at, int step) const {
    BallColumns out;
#pragma GCC unroll 3
    for (int e = 0; e < 3; ++e) {
      Eight<T>&x = out.a[0][e], &y = out.a[1][e];
      x.clear();
      y.clear();
#pragma GCC unroll 3
      for (int c = 0; c < 3; ++c) {
        x.add(m.x1(c, e), a[0][c]);
        x.add(m.x2(c, e), a[1][c]);
        y.add(m.y1(c, e), a[0][c]);
        y.add(m.y2(c, e), a[1][c]);
      }
      if (step == 1) {
        x.write(one + at[e]);
        y.write(two + at[e]);
        continue;
      }
      T p[8], q[8];
      x.write(p);
      y.write(q);
      for (int l = 0; l < 8; ++l) {
        one[at[e] + l * step] = p[l];
        two[at[e] + l * step] = q[l];
      }
    }
    return out;
  }
};

typedef double Four __attribute__((vector_size(32)));
typedef double FourU __attribute__((vector_size(32), aligned(8)));

// The same for columns that lie side by side, entry by entry (`step` apart): rows of three times matrices. Returns the
// products of the columns of P by x and of Q by y.
inline DAL_APART Mat3<double> combine_beside(const BallMap<double>& m, double* P1, double* P2, double* Q1, double* Q2,
                                             int step) {
  Four x1[3], x2[3], y1[3], y2[3], left[8], N[3] = {};
  auto rows = [](Four* to, const Mat3<double>& a) {
    for (int c = 0; c < 3; ++c) to[c] = Four{a(c, 0), a(c, 1), a(c, 2), 0};
  };
  rows(x1, m.x1), rows(x2, m.x2), rows(y1, m.y1), rows(y2, m.y2);
  auto put = [](double* to, const Four& row) {  // what lies beside stays
    Four all = row;
    all[3] = to[3];
    *reinterpret_cast<FourU*>(to) = all;
  };
  auto combine = [&](double* one, double* two, Four& x, Four& y) __attribute__((always_inline)) {
    const double *a = one, *b = two;
    x = x1[0] * a[0] + x1[1] * a[1] + x1[2] * a[2];
    y = y1[0] * a[0] + y1[1] * a[1] + y1[2] * a[2];
    x += x2[0] * b[0] + x2[1] * b[1] + x2[2] * b[2];
    y += y2[0] * b[0] + y2[1] * b[1] + y2[2] * b[2];
    put(one, x);
    put(two, y);
  };
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) {
    Four y;
    combine(P1 + l * step, P2 + l * step, left[l], y);
  }
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) {
    Four x, y;
    combine(Q1 + l * step, Q2 + l * step, x, y);
    for (int c = 0; c < 3; ++c) N[c] += y * left[l][c];
  }
  Mat3<double> out;
  for (int c = 0; c < 3; ++c)
    for (int e = 0; e < 3; ++e) out(c, e) = N[c][e];
  return out;
}

// second derivatives by the slots of a ball, from its columns: P_c.Q_e for c <= e
template <class T> struct BallHessian {
  Mat3<T> h11, h12, h22;
  DAL_INLINE BallHessian(const BallColumns<T>& P, const BallColumns<T>& Q) {
    auto product = [&](int i, int c, int k, int e) { return P.a[i][c].dot(Q.a[k][e]); };
    for (int c = 0; c < 3; ++c)
      for (int e = c; e < 3; ++e) {
        h11(c, e) = h11(e, c) = product(0, c, 0, e);
        h22(c, e) = h22(e, c) = product(1, c, 1, e);
        h12(c, e) = product(0, c, 1, e);
        if (c != e) h12(e, c) = product(1, c, 0, e);
      }
  }
  // a^T h b for the slots (a1, a2) and (b1, b2)
  DAL_INLINE Mat3<T> between(const Mat3<T>& a1, const Mat3<T>& a2, const Mat3<T>& b1, const Mat3<T>& b2) const {
    return transposed(a1) * (h11 * b1 + h12 * b2) + transposed(a2) * (transposed(h12) * b1 + h22 * b2);
  }
};

// dt times the torques along body axes on a ball: damping and inputs
template <class T> DAL_INLINE V3<T> body_torque(const Work<T>& w, const Ball& b, const T& dt) {
  const ModelData& M = *w.M;
  T t[3] = {T(0.0), T(0.0), T(0.0)};
  if (b.v >= M.nd) return three(t);
  if (M.has_damping)
    for (int c = 0; c < 3; ++c) t[c] -= dt * T(M.damping[b.v + c]) * w.kin.v[b.v + c];
  for (size_t i = 0; i < M.force_v.size(); ++i)
    if (unsigned(M.force_v[i] - b.v) < 3) t[M.force_v[i] - b.v] += dt * T(M.force_gear[i]) * w.step.u[M.force_u[i]];
  return three(t);
}
template <class T> DAL_INLINE Mat3<T> damping_of(const ModelData& M, const Ball& b) {
  Mat3<T> d = zero33<T>();
  if (M.has_damping && b.v < M.nd)
    for (int c = 0; c < 3; ++c) d(c, c) = T(M.damping[b.v + c]);
  return d;
}

// Generators of the balls by x and y in place of those by the slots, and their own blocks; after generators() of the
// step's slots. all: E11, E12, E22 too, else N alone (13.4). forces: with those in the chart (first.F).
//
// reads balls (what midpoint() writes), first, twists, comp, kin.v, step.u; writes gen (P1 .. Q2, or the same by
// joint), balls
template <bool BY_JOINT, class T> DAL_APART void ball_generators_of(Work<T>& w, const T& dt, bool all, bool forces) {
  const ModelData& M = *w.M;
  constexpr bool by_joint = BY_JOINT;
  constexpr int step = by_joint ? 1 : Side<T>::block;
  T *P1 = by_joint ? w.gen.P1j : w.gen.P1, *P2 = by_joint ? w.gen.P2j : w.gen.P2, *Q1 = by_joint ? w.gen.Q1j : w.gen.Q1,
    *Q2 = by_joint ? w.gen.Q2j : w.gen.Q2;
  for (size_t i = 0; i < M.balls.size(); ++i) {
    const Ball& b = M.balls[i];
    BallMap<T>& m = w.balls[i];
    ball_slots(m);
    const V3<T> force = b.v < M.nd && forces ? three(w.first.F + b.v) * dt : zero3<T>(),
                torque = forces ? body_torque(w, b, dt) : zero3<T>(),
                alpha = three(w.first.Lq + b.v) * dt + force - torque, beta = three(w.first.Lv + b.v);
    const bool massive = b.joint < M.nm;
    int at[3] = {0, 0, 0};
    BallColumns<T> P, Q;
    if (massive)
      for (int c = 0; c < 3; ++c) at[c] = by_joint ? 8 * (b.joint + c) : lane_of<T>(b.joint + c, 8);
    const bool beside = std::is_same_v<T, double> && massive && !all && !by_joint && at[2] == at[0] + 2;
    if (massive && !beside) {
      P.read(P1, P2, at, step);
      Q.read(Q1, Q2, at, step);
    }
    if (all) {
      ball_second(m, alpha, beta);
      m.E11 = m.K11 * dt;
      m.E12 = m.K12 * dt;
      m.E22 = m.K22 * dt;
      if (massive) {
        const BallHessian<T> H(P, Q);
        m.E11 = m.E11 + H.between(m.x1, m.x2, m.x1, m.x2);
        m.E12 = m.E12 + H.between(m.x1, m.x2, m.y1, m.y2);
        m.E22 = m.E22 + H.between(m.y1, m.y2, m.y1, m.y2);
        P.combine(m, P1, P2, at, step);
        Q.combine(m, Q1, Q2, at, step);
      }
      m.N = m.E12;
    } else {
      // of the parts of alpha, inertia and gravity have their second derivatives in the products of the columns
      V3<T> push = force - torque;
      if (!M.potentials.empty()) {
        push = alpha;
        for (int c = 0; massive && c < 3; ++c) (&push.x)[c] -= dt * slope_of_tree(w, b.joint + c);
      }
      m.N = ball_own(m, alpha, beta, push) * dt;
      if constexpr (std::is_same_v<T, double>)
        if (beside) m.N = m.N + combine_beside(m, P1 + at[0], P2 + at[0], Q1 + at[0], Q2 + at[0], step);
      if (massive && !beside) {
        const BallColumns<T> X = P.combine(m, P1, P2, at, step), Y = Q.combine(m, Q1, Q2, at, step);
#pragma GCC unroll 3
        for (int c = 0; c < 3; ++c)
#pragma GCC unroll 3
          for (int e = 0; e < 3; ++e) m.N(c, e) += X.a[0][c].dot(Y.a[1][e]);
      }
    }
    if (M.full_forces) m.N = m.N + (slope_of_A(m, torque, 1.0) - m.A * damping_of<T>(M, b)) * m.D * dt;
  }
}

template <class T>
DAL_INLINE void ball_generators(Work<T>& w, const T& dt, bool by_joint, bool all, bool forces = true) {
  if (by_joint) ball_generators_of<true>(w, dt, all, forces);
  else ball_generators_of<false>(w, dt, all, forces);
}

// own blocks into the packed Newton matrix, over what assemble_packed() has put there
//
// reads balls; writes newton.lower, upper
template <class T> void ball_blocks_to_packed(Work<T>& w) {
  const ModelData& M = *w.M;
  for (size_t i = 0; i < M.balls.size(); ++i) {
    const int v = M.balls[i].v;
    if (v >= M.nd) continue;
    for (int c = 0; c < 3; ++c)
      for (int e = 0; e < 3; ++e) {
        bool upper;
        const int at = packed_offset(M, v + c, v + e, upper);
        (upper ? w.newton.upper : w.newton.lower)[at] = w.balls[i].N(c, e);
      }
  }
}
// and into the dense blocks
//
// reads balls; writes E
template <class T> void ball_blocks_to_dense(const Work<T>& w, const Hessian<T>& E) {
  const ModelData& M = *w.M;
  for (size_t i = 0; i < M.balls.size(); ++i) {
    const BallMap<T>& m = w.balls[i];
    for (int c = 0; c < 3; ++c)
      for (int e = 0; e < 3; ++e) {
        const int at = (M.balls[i].v + c) * M.nv + M.balls[i].v + e;
        E.h11[at] = m.E11(c, e);
        E.h12[at] = m.E12(c, e);
        E.h22[at] = m.E22(c, e);
      }
  }
}

// ---- elements: from the chart in the middle to the ends

// f(places, map) for the balls among the local variables of an element
template <class T, class F> DAL_INLINE void for_balls(const Work<T>& w, const Element& e, F f) {
  for (int i = 0; i < e.balls; ++i) {
    const BallLocal& b = w.M->ball_local[e.ball + i];
    f(b.at, w.balls[b.ball]);
  }
}
// rows at[c] of H (n columns) <- L H
template <class T> DAL_INLINE void turn_rows(T* H, int n, const int* at, const Mat3<T>& L) {
  for (int k = 0; k < n; ++k) {
    const V3<T> x = L * V3<T>{H[at[0] * n + k], H[at[1] * n + k], H[at[2] * n + k]};
    H[at[0] * n + k] = x.x;
    H[at[1] * n + k] = x.y;
    H[at[2] * n + k] = x.z;
  }
}
// columns at[c] of H (rows x n) <- H R, or H R + G S
template <class T>
DAL_INLINE void turn_columns(T* H, int rows, int n, const int* at, const Mat3<T>& R, const T* G = nullptr,
                             const Mat3<T>* S = nullptr) {
  for (int i = 0; i < rows; ++i) {
    T *h = H + i * n, x[3];
    for (int e = 0; e < 3; ++e) {
      x[e] = T(0.0);
      for (int c = 0; c < 3; ++c) {
        x[e] += h[at[c]] * R(c, e);
        if (G) x[e] += G[i * n + at[c]] * (*S)(c, e);
      }
    }
    for (int e = 0; e < 3; ++e) h[at[e]] = x[e];
  }
}

// What a derivative by dt of D1 Ld + F- (or, plus, of D2 Ld + F+) of component i has beyond the hinge's formula: its
// share of L_f + F is A instead of 1/2, and second derivatives of the map do not belong to it.
//
// reads balls, first, kin.v
template <class T> T ball_by_dt(const Work<T>& w, const T& dt, int i, bool plus) {
  const ModelData& M = *w.M;
  if (M.v_q[i] >= 0) return T(0.0);
  const int ball = -1 - M.v_q[i], b = M.balls[ball].v;
  const BallMap<T>& m = w.balls[ball];
  const T half = T(0.5);
  const V3<T> push = three(w.first.Lq + b) + three(w.first.F + b), v = three(w.kin.v + b) * half;
  const V3<T> r = plus ? transposed(m.A) * push - (transposed(m.K12) + m.T21 - m.K22 - m.T22) * v
                       : m.A * push - (m.K11 + m.T11 - m.K12 - m.T12) * v;
  const V3<T> out = (r - push * half) * dt;
  return i == b ? out.x : i == b + 1 ? out.y : out.z;
}

enum class End { x, y };
// what stands for 1/2, the share of a hinge's ends in its middle, twice: f_x^T for rows, f_y for columns
template <class T> DAL_INLINE Mat3<T> middle_by(const BallMap<T>& m, End end, bool row) {
  return ((end == End::x) == row ? m.A : transposed(m.A)) * T(2.0);
}
// local Hessian of a function of the middle (n x n, in place) as if by the ends of hinges
template <class T> DAL_APART void hessian_by_ends(const Work<T>& w, const Element& e, T* H, End row, End column) {
  for_balls(w, e, [&](const int* at, const BallMap<T>& m) {
    turn_rows(H, e.n, at, middle_by(m, row, true));
    turn_columns(H, e.n, e.n, at, middle_by(m, column, false));
  });
}

// local Jacobian of a force (rows x n) in F- by y: second in place, from its derivatives by both slots
template <class T>
DAL_APART void force_by_ends(const Work<T>& w, const Element& e, T* second, const T* first, int rows) {
  for_balls(w, e, [&](const int* at, const BallMap<T>& m) { turn_columns(second, rows, e.n, at, m.y2, first, &m.y1); });
  for_balls(w, e, [&](const int* at, const BallMap<T>& m) { turn_rows(second, e.n, at, middle_by(m, End::x, true)); });
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
