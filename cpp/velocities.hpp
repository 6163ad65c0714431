// Velocity constraints a(q) v + b(q) = 0 in a step (docs/kernels.md 19.1): their multipliers push along a(q_k), and
// they hold in the middle,
//   c(q_k, q_k+1) = dt (a(q_m) v_m + b(q_m)) = 0.
// They are the rows from M.nh on of everything that constraints have.
#pragma once
#include "balls.hpp"
#include "elements/all.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// a(q) into the rows of C (nc x nv), b(q) into con.b; poses of the constraint joints must be in P
//
// reads q, P; writes C, con.b; scratch: local
template <class T> DAL_APART void velocity_directions(Work<T>& w, const T* q, const Poses<T>& P, T* C) {
  const ModelData& M = *w.M;
  const Element* before = nullptr;
  for (int c = M.nh; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    w.con.b[c] = as_velocity(e, [&](auto kind) { return kind.value(w, e, before, q, P, 1); });
    before = &e;
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < M.nv; ++i) C[c * M.nv + i] = T(0.0);
    for (int i = 0; i < e.n; ++i) C[c * M.nv + lv[i]] += w.local.gradient[i];
  }
}

// c, and what it is judged against; after residual()
//
// reads kin.q, v, mid; writes con.h, size; scratch: local
template <class T> DAL_APART void velocity_values(Work<T>& w, const T& dt) {
  const ModelData& M = *w.M;
  const Element* before = nullptr;
  for (int c = M.nh; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    const T b = as_velocity(e, [&](auto kind) { return kind.value(w, e, before, w.kin.q, w.kin.mid, 1); });
    before = &e;
    const int *lv = M.local_v.data() + e.vars, *lq = M.local_q.data() + e.vars;
    const double* turn = M.local_turn.data() + e.vars;
    const T* a = w.local.gradient;
    T rate = b, size = fabs_(b), rounding = T(0.0);
    for (int k = 0; k < e.n; ++k) {
      const T t = a[k] * w.kin.v[lv[k]];
      rate += t;
      size += fabs_(t);
      rounding += fabs_(a[k]) * ((lq[k] < 0 ? T(0.0) : fabs_(w.kin.q[lq[k]])) + T(turn[k]));
    }
    w.con.h[c] = dt * rate;
    w.con.size[c] = fabs_(dt) * size + rounding;
  }
}

// Derivatives of c by both ends, by the slots of the step (and the maps of balls, as for forces); after residual().
// slots: of the balls, are they there already? (ball_generators() makes them, too)
//
// reads kin.q, v, mid, balls; writes con.C1, Cx, b_mid; scratch: local
template <class T> DAL_APART void velocity_rows(Work<T>& w, const Slots<T>& s, bool slots = false) {
  const ModelData& M = *w.M;
  const int nv = M.nv;
  for (size_t i = 0; !slots && i < M.balls.size(); ++i) ball_slots(w.balls[i]);
  const Element* before = nullptr;
  for (int c = M.nh; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    // b is also the derivative of c by dt, with both ends held
    w.con.b_mid[c] = as_velocity(e, [&](auto kind) { return kind.rate(w, e, before, w.kin.q, w.kin.v, w.kin.mid); });
    before = &e;
    const int *lv = M.local_v.data() + e.vars, n = e.n;
    const T *a = w.local.gradient, *by_q = w.local.a;
    T *first = w.local.c, *second = w.local.d;
    for (int k = 0; k < n; ++k) {
      first[k] = s.a1 * by_q[k] + s.b1 * a[k];
      second[k] = s.a2 * by_q[k] + s.b2 * a[k];
    }
    for_balls(w, e, [&](const int* at, const BallMap<T>& m) {
      T x[3], y[3];
      for (int k = 0; k < 3; ++k) {
        x[k] = y[k] = T(0.0);
        for (int i = 0; i < 3; ++i) {
          x[k] += first[at[i]] * m.x1(i, k) + second[at[i]] * m.x2(i, k);
          y[k] += first[at[i]] * m.y1(i, k) + second[at[i]] * m.y2(i, k);
        }
      }
      for (int k = 0; k < 3; ++k) first[at[k]] = x[k], second[at[k]] = y[k];
    });
    T *C1 = w.con.C1 + c * nv, *Cx = w.con.Cx + (c - M.nh) * nv;
    for (int i = 0; i < nv; ++i) C1[i] = Cx[i] = T(0.0);
    for (int k = 0; k < n; ++k) {
      C1[lv[k]] += second[k];
      Cx[lv[k]] += first[k];
    }
  }
}

// D (row stride ld, the first `rows` rows) += factor sum_c weight_c da_c/dq: row i is how component i changes. C (nc x
// nv) as in constraint_hessian().
//
// reads q, P, weight, C; scratch: local
template <class T>
DAL_APART void velocity_slopes(Work<T>& w, const T* q, const Poses<T>& P, const T* weight, T factor, const T* C, T* D,
                               int ld, int rows) {
  const ModelData& M = *w.M;
  for (int c = M.nh; c < M.nc; ++c) {
    const Element& e = M.constraints[c];
    as_velocity(e, [&](auto kind) { kind.value(w, e, nullptr, q, P, 2); });
    const int *lv = M.local_v.data() + e.vars, n = e.n;
    const T f = factor * weight[c];
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n && lv[i] < rows; ++k) D[size_t(lv[i]) * ld + lv[k]] += f * w.local.hessian[i * n + k];
    for (int i = 0; C && i < e.balls; ++i) {
      const BallLocal& b = M.ball_local[e.ball + i];
      const Mat3<T> bend = chart_bend(three(C + c * M.nv + M.balls[b.ball].v)) * f;
      for (int r = 0; r < 3; ++r)
        for (int k = 0; k < 3 && lv[b.at[r]] < rows; ++k) D[size_t(lv[b.at[r]]) * ld + lv[b.at[k]]] += bend(r, k);
    }
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
