// Sums over elements: potential gradients, generalized forces, their first and second derivatives, constraint rows.
#pragma once
#include "velocities.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// L_q -= V_q for all potentials (besides uniform gravity), and their sum
//
// reads kin.mid, q; writes first.Lq, first.potential; scratch: local
template <class T> void subtract_potentials(Work<T>& w, const T* q) {
  const ModelData& M = *w.M;
  w.first.potential = T(0.0);
  for (const Element& e : M.potentials) {
    w.first.potential += potential(w, e, q, w.kin.mid, 1, (const T*)nullptr);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < e.n; ++i) w.first.Lq[lv[i]] -= w.local.gradient[i];
  }
}

// generalized force on dynamic variables into w.first.F
//
// reads kin.mid, q, v, step.u; writes first.F; scratch: local
template <class T> void generalized_force(Work<T>& w, const T* q, const T* v) {
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nd; ++i) w.first.F[i] = M.has_damping ? -(T(M.damping[i]) * v[i]) : T(0.0);
  for (size_t i = 0; i < M.force_v.size(); ++i) w.first.F[M.force_v[i]] += T(M.force_gear[i]) * w.step.u[M.force_u[i]];
  LocalForce<T> lf;
  for (const Element& e : M.forces) {
    force(w, e, q, v, w.kin.mid, 0, lf);
    for (int i = 0; i < lf.rows; ++i)
      if (lf.row_v[i] < M.nd) w.first.F[lf.row_v[i]] += lf.f[i];
  }
}

// dense F_q, F_v (nd x nv) and F_u (nd x nu)
//
// reads kin.mid, q, v, step.u; writes lin.Fq, Fv, Fu; scratch: local
template <class T> void force_jacobian(Work<T>& w, const T* q, const T* v) {
  const ModelData& M = *w.M;
  if (M.full_forces)
    for (int i = 0; i < M.nd * M.nv; ++i) {
      w.lin.Fq[i] = T(0.0);
      w.lin.Fv[i] = T(0.0);
    }  // else zero from the start, but for damping, whose places are written again
  else if (M.has_damping)
    for (int i = 0; i < M.nd; ++i) w.lin.Fq[i * M.nv + i] = T(0.0);
  for (int i = 0; i < M.nd * M.nu; ++i) w.lin.Fu[i] = T(0.0);
  if (M.has_damping)
    for (int i = 0; i < M.nd; ++i) w.lin.Fv[i * M.nv + i] = T(-M.damping[i]);
  for (size_t i = 0; i < M.force_v.size(); ++i) w.lin.Fu[M.force_v[i] * M.nu + M.force_u[i]] += T(M.force_gear[i]);
  LocalForce<T> lf;
  for (const Element& e : M.forces) {
    force(w, e, q, v, w.kin.mid, 1, lf);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < lf.rows; ++i) {
      int r = lf.row_v[i];
      if (r >= M.nd) continue;
      for (int k = 0; k < e.n; ++k) {
        w.lin.Fq[r * M.nv + lv[k]] += lf.fq[i * e.n + k];
        w.lin.Fv[r * M.nv + lv[k]] += lf.fv[i * e.n + k];
      }
      for (int k = 0; k < lf.nin; ++k) w.lin.Fu[r * M.nu + lf.inputs[k]] += lf.fu[i * lf.nin + k];
    }
  }
}

// Jacobians of the forces by the slots of a step, a_i F_q + b_i F_v, in the place of F_q and F_v; with balls by their
// ends, F- and F+ apart: rows of a ball are A Q and A^T Q instead of Q/2. After force_jacobian().
//
// reads lin.Fq, Fv, Fu, balls, step.u; writes lin.Fx, Fy, Gx, Gy, Fu, Gu, balls (T)
template <class T> DAL_APART void force_slots(Work<T>& w, const Slots<T>& s, const T& dt) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nu = M.nu;
  T *Fx = w.lin.Fx, *Fy = w.lin.Fy;
  auto slot = [&](int i) {
    const T q = Fx[i], v = Fy[i];
    Fx[i] = s.a1 * q + s.b1 * v;
    Fy[i] = s.a2 * q + s.b2 * v;
  };
  for (const Ball& b : M.balls)  // below
    for (int c = 0; c < 3 && b.v < nd && M.has_damping; ++c) Fy[(b.v + c) * (nv + 1)] += T(M.damping[b.v + c]);
  if (M.full_forces)
    for (int i = 0; i < nd * nv; ++i) slot(i);
  else if (M.has_damping)
    for (int i = 0; i < nd; ++i) slot(i * nv + i);
  if (M.flat) return;
  for (size_t i = 0; i < M.balls.size(); ++i) {  // columns
    const int v = M.balls[i].v, at[3] = {v, v + 1, v + 2};
    const BallMap<T>& m = w.balls[i];
    for (int r = 0; r < nd; ++r) {
      T x[3], y[3];
      for (int e = 0; e < 3; ++e) {
        x[e] = y[e] = T(0.0);
        for (int c = 0; c < 3; ++c) {
          x[e] += Fx[r * nv + at[c]] * m.x1(c, e) + Fy[r * nv + at[c]] * m.x2(c, e);
          y[e] += Fx[r * nv + at[c]] * m.y1(c, e) + Fy[r * nv + at[c]] * m.y2(c, e);
        }
      }
      for (int e = 0; e < 3; ++e) {
        Fx[r * nv + at[e]] = x[e];
        Fy[r * nv + at[e]] = y[e];
      }
    }
  }
  for (int i = 0; i < nd * nv; ++i) {
    w.lin.Gx[i] = Fx[i];
    w.lin.Gy[i] = Fy[i];
  }
  for (int i = 0; i < nd * nu; ++i) w.lin.Gu[i] = w.lin.Fu[i];
  for (size_t i = 0; i < M.balls.size(); ++i) {  // rows, and torques along body axes
    const Ball& b = M.balls[i];
    BallMap<T>& m = w.balls[i];
    m.T11 = m.T12 = m.T21 = m.T22 = zero33<T>();
    if (b.v >= nd) continue;
    const Mat3<T> L = m.A * T(2.0), R = transposed(L), D = damping_of<T>(M, b), Dt = transposed(m.D);
    const V3<T> t = body_torque(w, b, dt);
    const T two = T(2.0), half = T(0.5);
    const Mat3<T> S = slope_of_A(m, t, 1.0), S2 = slope_of_A(m, t, -1.0);
    m.T11 = zero33<T>() - S * Dt - cross_matrix(m.A * t) * half;
    m.T12 = S * m.D;
    m.T21 = S2 * Dt;
    m.T22 = zero33<T>() - S2 * m.D - cross_matrix(transposed(m.A) * t) * half;
    const int at[3] = {0, 1, 2};
    auto rows = [&](T* F, int n, const Mat3<T>& by) { turn_rows(F + size_t(b.v) * n, n, at, by); };
    rows(Fx, nv, L);
    rows(Fy, nv, L);
    rows(w.lin.Gx, nv, R);
    rows(w.lin.Gy, nv, R);
    rows(w.lin.Fu, nu, L);
    rows(w.lin.Gu, nu, R);
    auto own = [&](T* F, const Mat3<T>& x) {
      for (int c = 0; c < 3; ++c)
        for (int e = 0; e < 3; ++e) F[(b.v + c) * nv + b.v + e] += x(c, e);
    };
    own(Fx, m.T11 * two + L * (D * Dt));
    own(Fy, m.T12 * two - L * (D * m.D));
    own(w.lin.Gx, m.T21 * two + R * (D * Dt));
    own(w.lin.Gy, m.T22 * two - R * (D * m.D));
  }
}

// What elements add to the Newton matrix: -a1 a2 V_qq + f (a2 F_q + b2 F_v); with the O(n) solver only diagonals occur
//
// reads kin.mid, q, v, step.u; adds to newton.diagonal, or newton.lower and upper; scratch: local
template <class T> void elements_to_newton(Work<T>& w, const T* q, const T* v, const Slots<T>& s, const T& f) {
  const ModelData& M = *w.M;
  const bool chain = by_joint(w);
  if (chain)
    for (int i = 0; i < M.nd; ++i) w.newton.diagonal[i] = T(0.0);
  if (M.has_damping)
    for (int i = 0; i < M.nd; ++i) {
      if (!M.flat && M.v_q[i] < 0) continue;  // a ball's own block has it
      T x = -(f * s.b2 * T(M.damping[i]));
      if (chain) w.newton.diagonal[i] += x;
      else w.newton.lower[M.elim_row[i] + M.elim_depth[i]] += x;
    }
  T c = -(s.a1 * s.a2);
  for (const Element& e : M.potentials) {
    potential(w, e, q, w.kin.mid, 2, (const T*)nullptr);
    const int* lv = M.local_v.data() + e.vars;
    if (chain) {
      for (int i = 0; i < e.n; ++i)
        if (lv[i] < M.nd) w.newton.diagonal[lv[i]] += c * w.local.hessian[i * e.n + i];
      continue;
    }
    if (e.balls) hessian_by_ends(w, e, w.local.hessian, End::x, End::y);
    for (int i = 0; i < e.n; ++i)
      for (int k = 0; k < e.n; ++k)
        if (lv[i] < M.nd && lv[k] < M.nd) packed_add(w, lv[i], lv[k], c * w.local.hessian[i * e.n + k]);
  }
  LocalForce<T> lf;
  for (const Element& e : M.forces) {
    force(w, e, q, v, w.kin.mid, 1, lf);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < lf.rows * e.n; ++i) {  // by the second slot, and by the first where a ball needs it
      const T q = lf.fq[i], v = lf.fv[i];
      lf.fq[i] = s.a2 * q + s.b2 * v;
      if (e.balls) lf.fv[i] = s.a1 * q + s.b1 * v;
    }
    if (e.balls) force_by_ends(w, e, lf.fq, lf.fv, lf.rows);
    for (int i = 0; i < lf.rows; ++i)
      for (int k = 0; k < e.n; ++k) {
        if (lf.row_v[i] >= M.nd || lv[k] >= M.nd) continue;
        packed_add(w, lf.row_v[i], lv[k], f * lf.fq[i * e.n + k]);
      }
  }
}

// h, its sizes and the dense Jacobian C (nc x nv) of the holonomic constraints at q; poses of the constraint joints
// must be in P. `size` is what |h| is judged against: the terms of h, which may all vanish (a loop that closes at its
// own root), and what the rounding of q, and of sines and cosines, does to h: kRoundingShare of it, so that the
// tolerance never asks for less than a few units in the last place. Coordinates below kSmallest (rad or m) are judged
// as if they were that large: a joint at its stop at zero is no joint of infinite accuracy.
constexpr double kRoundingShare = 0.1, kSmallest = 1e-3;
// reads q, P; writes h, size, C; scratch: local
template <class T> void constraint_rows(Work<T>& w, const T* q, const Poses<T>& P, T* h, T* size, T* C) {
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nh * M.nv; ++i) C[i] = T(0.0);
  for (int c = 0; c < M.nh; ++c) {
    const Element& e = M.constraints[c];
    h[c] = constraint(w, e, q, P, 1, (const T*)nullptr, &size[c]);
    const int *lv = M.local_v.data() + e.vars, *lq = M.local_q.data() + e.vars;
    const double* turn = M.local_turn.data() + e.vars;
    T rounding = T(0.0);
    for (int i = 0; i < e.n; ++i) {
      const T g = w.local.gradient[i];
      C[c * M.nv + lv[i]] += g;
      rounding += fabs_(g) * ((lq[i] < 0 ? T(0.0) : fabs_(q[lq[i]])) + T(turn[i] + kSmallest));
    }
    size[c] += T(kRoundingShare) * rounding;
  }
}

// poses and Dh at q_k, before a step
//
// reads step.x; writes kin.start, con.h, size, C0
template <class T> void start_constraints(Work<T>& w) {
  if (!w.M->nc) return;
  constraint_poses(w, w.step.x, w.kin.start);
  if (std::is_same_v<T, double> && w.M->loops.used) {  // the step makes what it needs of the poses
    w.loops.on = true;
    return;
  }
  constraint_rows(w, w.step.x, w.kin.start, w.con.h, w.con.size, w.con.C0);
  if (w.M->nh < w.M->nc) velocity_directions(w, w.step.x, w.kin.start, w.con.C0);
}
// the same at q_k+1, into w.con.C1, of the holonomic ones; and w.con.C0, where start_constraints() has left it to the
// step
//
// reads step.y; writes kin.end, con.h, size, C1
template <class T> void end_constraints(Work<T>& w) {
  if (!w.M->nc) return;
  constraint_poses(w, w.step.y, w.kin.end);
  if (w.loops.on) constraint_rows(w, w.step.x, w.kin.start, w.con.h, w.con.size, w.con.C0);
  w.loops.on = false;
  constraint_rows(w, w.step.y, w.kin.end, w.con.h, w.con.size, w.con.C1);
}
// after a step: what belongs to q_k+1 becomes the next step's q_k (poses are used only through differences, so a new
// reference point is fine)
//
// swaps con.C0, C1 and kin.start, end; writes con.b
template <class T> void advance_constraints(Work<T>& w) {
  T* c = w.con.C0;
  w.con.C0 = w.con.C1;
  w.con.C1 = c;
  Poses<T> p = w.kin.start;
  w.kin.start = w.kin.end;
  w.kin.end = p;
  if (w.M->nh < w.M->nc) velocity_directions(w, w.step.x, w.kin.start, w.con.C0);
}

// h = n . (p_a - p_b) with a direction n that nothing moves
DAL_INLINE bool along_fixed_direction(const ModelData& M, const Element& e) {
  return e.kind == ElementKind::Direction && M.sites[e.site_c].pose == 0 && e.balls == 0;
}

// The part of constraint_hessian() of constraints along fixed directions, all at once (docs/kernels.md 8.6). With u_j =
// w_j x p + v_j, what joint j does to a point p that it carries, D2h_ij = n . (w_i x u_j) for i above j or j itself.
// Summed over the points that j carries, with F = sum n, K = sum n p^T: w_i . (K^T w_j - tr K w_j + v_j x F).
//
// reads P, weight; scratch: con.moments
template <class T>
void fixed_direction_hessian(Work<T>& w, const Poses<T>& P, const T* weight, T factor, T* D, int ld, int rows) {
  const ModelData& M = *w.M;
  auto at = [&](int pose) { return w.con.moments + 12 * pose; };
  for (int j : M.constraint_joints)
    for (int l = 0; l < 12; ++l) at(j + 1)[l] = T(0.0);
  for (int c = 0; c < M.nh; ++c) {
    const Element& e = M.constraints[c];
    if (!along_fixed_direction(M, e)) continue;
    const V3<T> n = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(e.par)) * (factor * weight[c]);
    auto add = [&](const Site& site, const V3<T>& f) {
      if (!site.pose) return;
      const V3<T> p = site_position(M, site, P);
      const T nf[3] = {f.x, f.y, f.z}, pf[3] = {p.x, p.y, p.z};
      T* m = at(site.pose);
      for (int r = 0; r < 3; ++r) {
        m[r] += nf[r];
        for (int k = 0; k < 3; ++k) m[3 + 3 * r + k] += nf[r] * pf[k];
      }
    };
    add(M.sites[e.site_a], n);
    add(M.sites[e.site_b], zero3<T>() - n);
  }
  for (size_t t = M.constraint_joints.size(); t-- > 0;) {
    const int j = M.constraint_joints[t], above = M.joints[j].parent, v = M.joints[j].v;
    const V6<T> S = joint_twist(M.joints[j], j + 1, P);
    const T *m = at(j + 1), *K = m + 3, trace = K[0] + K[4] + K[8];
    const V3<T> g = V3<T>{K[0] * S.w.x + K[3] * S.w.y + K[6] * S.w.z, K[1] * S.w.x + K[4] * S.w.y + K[7] * S.w.z,
                          K[2] * S.w.x + K[5] * S.w.y + K[8] * S.w.z} -
                    S.w * trace + cross(S.v, V3<T>{m[0], m[1], m[2]});
    for (int pose = j + 1; pose; pose = M.joints[pose - 1].parent) {
      const Joint& I = M.joints[pose - 1];
      if (!I.turns()) continue;
      const T x = dot(joint_twist(I, pose, P).w, g);
      if (I.v < rows) D[size_t(I.v) * ld + v] += x;
      if (I.v != v && v < rows) D[size_t(v) * ld + I.v] += x;
    }
    if (above)
      for (int l = 0; l < 12; ++l) at(above)[l] += m[l];
  }
}

// D (row stride ld, the first `rows` rows) += factor sum_c weight_c D2h_c(q) of the holonomic constraints. C: Dh (nc x
// nv), to have the derivatives of balls in the chart exp(x) instead of that of the three hinges, or null.
//
// reads q, P, weight, C; scratch: local, lin.tmp
template <class T>
void constraint_hessian(Work<T>& w, const T* q, const Poses<T>& P, const T* weight, T factor, const T* C, T* D, int ld,
                        int rows) {
  const ModelData& M = *w.M;
  bool fixed_directions = false;
  for (int c = 0; c < M.nh; ++c) {
    const Element& e = M.constraints[c];
    if (along_fixed_direction(M, e)) {
      fixed_directions = true;
      continue;
    }
    as_constraint(e, [&](auto kind) {
      if constexpr (!kind.linear) {
        const int* lv = M.local_v.data() + e.vars;
        T f = factor * weight[c];
        for (int i = 0; i < e.n; ++i)
          w.local.rows[i] = lv[i] < rows ? D + lv[i] * ld : w.lin.tmp;  // w.lin.tmp: not wanted
        kind.hessian(w, e, q, P, [&](int i, int k, T x) {               // i <= k, both entries
          w.local.rows[i][lv[k]] += f * x;
          if (i != k) w.local.rows[k][lv[i]] += f * x;
        });
        for (int i = 0; C && i < e.balls; ++i) {
          const BallLocal& b = M.ball_local[e.ball + i];
          const Mat3<T> bend = chart_bend(three(C + c * M.nv + M.balls[b.ball].v)) * f;
          for (int r = 0; r < 3; ++r)
            for (int k = 0; k < 3; ++k) w.local.rows[b.at[r]][lv[b.at[k]]] += bend(r, k);
        }
      }
    });
  }
  if (fixed_directions) fixed_direction_hessian(w, P, weight, factor, D, ld, rows);
}

// the same at q_k with lambda, of all constraints: how the impulse C0^T lambda changes with q_k
//
// reads step.x, kin.start, con.lam, C0; scratch: local, lin.tmp
template <class T> void impulse_slope(Work<T>& w, T factor, T* D, int ld, int rows) {
  constraint_hessian(w, w.step.x, w.kin.start, w.con.lam, factor, w.con.C0, D, ld, rows);
  if (w.M->nh < w.M->nc) velocity_slopes(w, w.step.x, w.kin.start, w.con.lam, factor, w.con.C0, D, ld, rows);
}

// D (nv x nv) += factor sum_c weight_c D3h_c(q)[dir], entries (i, k) with i <= k only; rows (nc x nv, may be null) =
// D2h_c(q) dir
//
// reads q, P, weight, dir; scratch: local
template <class T>
void constraint_third(Work<T>& w, const T* q, const Poses<T>& P, const T* weight, T factor, const T* dir, T* D,
                      T* rows) {
  const ModelData& M = *w.M;
  if (rows)
    for (int i = 0; i < M.nc * M.nv; ++i) rows[i] = T(0.0);
  for (int c = 0; c < M.nh; ++c) {
    const Element& e = M.constraints[c];
    as_constraint(e, [&](auto kind) {
      if constexpr (!kind.linear) {
        const int* lv = M.local_v.data() + e.vars;
        T f = factor * weight[c], *row = rows ? rows + c * M.nv : nullptr;
        for (int i = 0; i < e.n; ++i) w.local.c[i] = dir[lv[i]];
        auto add = [&](int i, int k, T x) {
          int a = lv[i] < lv[k] ? lv[i] : lv[k], b = lv[i] < lv[k] ? lv[k] : lv[i];
          D[a * M.nv + b] += f * x;
        };
        kind.third(w, e, q, P, (const T*)w.local.c, add, row);
      }
    });
  }
}

// second derivatives of the potentials into the slots of E: h_ij -= a_i a_j V_qq
//
// reads kin.mid, q; adds to E; scratch: local
template <class T> void potentials_second(Work<T>& w, const T* q, const Slots<T>& s, const Hessian<T>& E) {
  const ModelData& M = *w.M;
  for (const Element& e : M.potentials) {
    potential(w, e, q, w.kin.mid, 2, (const T*)nullptr);
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < e.n; ++i)
      for (int k = 0; k < e.n; ++k) {
        int at = lv[i] * M.nv + lv[k];
        T x = w.local.hessian[i * e.n + k];
        E.h11[at] -= s.a1 * s.a1 * x;
        E.h12[at] -= s.a1 * s.a2 * x;
        E.h22[at] -= s.a2 * s.a2 * x;
      }
  }
}
// the same in a step, where balls have ends
//
// reads kin.mid, q, balls; adds to E; scratch: local
template <class T> void potentials_by_ends(Work<T>& w, const T* q, const Slots<T>& s, const Hessian<T>& E) {
  const ModelData& M = *w.M;
  if (M.flat) return potentials_second(w, q, s, E);
  for (const Element& e : M.potentials) {
    potential(w, e, q, w.kin.mid, 2, (const T*)nullptr);
    const int* lv = M.local_v.data() + e.vars;
    T *H = w.local.hessian, *kept = w.local.third;
    for (int i = 0; i < e.n * e.n; ++i) kept[i] = H[i];
    auto add = [&](T* to, End row, End column, const T& scale) {
      for (int i = 0; i < e.n * e.n; ++i) H[i] = kept[i];
      hessian_by_ends(w, e, H, row, column);
      for (int i = 0; i < e.n; ++i)
        for (int k = 0; k < e.n; ++k) to[lv[i] * M.nv + lv[k]] -= scale * H[i * e.n + k];
    };
    add(E.h11, End::x, End::x, s.a1 * s.a1);
    add(E.h12, End::x, End::y, s.a1 * s.a2);
    add(E.h22, End::y, End::y, s.a2 * s.a2);
  }
}
// third derivatives along w.along.dq
//
// reads kin.mid, q, along.dq; adds to E; scratch: local
template <class T> void potentials_third(Work<T>& w, const T* q, const Slots<T>& s, const Hessian<T>& E) {
  const ModelData& M = *w.M;
  for (const Element& e : M.potentials) {
    const int* lv = M.local_v.data() + e.vars;
    for (int i = 0; i < e.n; ++i) w.local.c[i] = w.along.dq[lv[i]];
    potential(w, e, q, w.kin.mid, 3, w.local.c);
    for (int i = 0; i < e.n; ++i)
      for (int k = 0; k < e.n; ++k) {
        int at = lv[i] * M.nv + lv[k];
        T x = w.local.third[i * e.n + k];
        E.h11[at] -= s.a1 * s.a1 * x;
        E.h12[at] -= s.a1 * s.a2 * x;
        E.h22[at] -= s.a2 * s.a2 * x;
      }
  }
}

// second derivatives of m . F (m over all variables, zero on kinematic ones) times f, added to the slots of E (scaled
// like E: slot derivatives are a_i d/dq + b_i d/dv), and the mixed ones with inputs: Hu (slot 1 rows nv, then slot 2
// rows nv; nu columns), Huu (nu x nu)
//
// reads kin.mid, q, v, step.u; adds to E; writes lin.Hu, Huu; scratch: local
template <class T>
void forces_second(Work<T>& w, const T* q, const T* v, const T* m, const Slots<T>& s, const T& f, const Hessian<T>& E) {
  const ModelData& M = *w.M;
  int nv = M.nv, nu = M.nu;
  for (int i = 0; i < 2 * nv * nu; ++i) w.lin.Hu[i] = T(0.0);
  for (int i = 0; i < nu * nu; ++i) w.lin.Huu[i] = T(0.0);
  LocalForce2<T> lf;
  for (const Element& e : M.forces) {
    force_second(w, e, q, v, w.kin.mid, m, w.local.force_second, lf);
    const int* lv = M.local_v.data() + e.vars;
    int n = e.n;
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k) {
        int at = lv[i] * nv + lv[k];
        T qq = f * lf.qq[i * n + k], vq = f * lf.vq[i * n + k], qv = f * lf.vq[k * n + i], vv = f * lf.vv[i * n + k];
        E.h11[at] += s.a1 * s.a1 * qq + s.a1 * s.b1 * (qv + vq) + s.b1 * s.b1 * vv;
        E.h12[at] += s.a1 * s.a2 * qq + s.a1 * s.b2 * qv + s.b1 * s.a2 * vq + s.b1 * s.b2 * vv;
        E.h22[at] += s.a2 * s.a2 * qq + s.a2 * s.b2 * (qv + vq) + s.b2 * s.b2 * vv;
      }
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < lf.nin; ++k) {
        T qu = f * lf.qu[i * lf.nin + k], vu = f * lf.vu[i * lf.nin + k];
        w.lin.Hu[lv[i] * nu + lf.inputs[k]] += s.a1 * qu + s.b1 * vu;
        w.lin.Hu[(nv + lv[i]) * nu + lf.inputs[k]] += s.a2 * qu + s.b2 * vu;
      }
    for (int i = 0; i < lf.nin; ++i)
      for (int k = 0; k < lf.nin; ++k) w.lin.Huu[lf.inputs[i] * nu + lf.inputs[k]] += f * lf.uu[i * lf.nin + k];
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
