// Sensitivities of motions by parameters (docs/kernels.md 20): the columns of a step's equations, and how they go on
// with the step. All of it in doubles, with the optimizations of engine.cpp; what needs dual numbers is in
// parameters_dual.hpp.
#pragma once
#include "parameters.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// Inertias and damping enter L_q, L_v and F of the joints above a body alone, and linearly: along the body's axes, with
// velocity v and w of its joint's origin and a twist s = (s_w, s_v) there, s.(dI V) is
//   m s_v.v + c.(v x s_w + s_v x w) + I:(s_w w'),
// L_v,i of S_i, L_q,i of B_i and with the weight, m s_v.g + c.(g x s_w) of S_i. So a body has a row of ten numbers for
// every joint above it, times the factors of its parameters. Columns r_c, (p_k+1)_c (nd, links.count) into s.R, s.P.
//
// reads kin, twists, balls; writes s.R, P
inline void bodies_by_parameters(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                                 const ParameterLinks& links) {
  const ModelData& M = *w.M;
  const Poses<double>& P = w.kin.mid;
  const int nd = M.nd, nv = M.nv, n = links.count;
  s.Lq.assign(size_t(nv) * n, 0.0);
  s.Lv.assign(size_t(nv) * n, 0.0);
  s.F.assign(size_t(nv) * n, 0.0);
  s.row.resize(2 * size_t(n) + 1);
  for (size_t i = 0; i < links.slot.size(); ++i) {
    const int k = links.slot[i] - links.layout.damping;
    if (k >= 0) s.F[size_t(k) * n + links.parameter[i]] -= links.factor[i] * w.kin.v[k];
  }
  for (const ParameterLinks::Body& body : links.bodies) {
    const Node& N = M.nodes[body.node];
    const M3<double>& R = P.R[M.joints[N.joint - 1].rot];
    const V3<double>& p = P.p[N.joint];
    const V6<double>& V = w.twists.V[N.joint];
    const V3<double> v = tmul(R, V.v + cross(V.w, p)), a = tmul(R, V.w),
                     g = V3<double>{R.c[0].z, R.c[1].z, R.c[2].z} * M.gz;
    const int m = int(body.parameter.size());
    double *to_v = s.row.data(), *to_q = to_v + m;
    auto momentum = [&](const V6<double>& twist, V3<double>& sw, V3<double>& sv, double* k) {
      sw = tmul(R, twist.w), sv = tmul(R, twist.v + cross(twist.w, p));
      k[0] = dot(sv, v);
      const V3<double> c = cross(v, sw) + cross(sv, a);
      k[1] = c.x, k[2] = c.y, k[3] = c.z;
      k[4] = sw.x * a.x, k[5] = sw.y * a.y, k[6] = sw.z * a.z;
      k[7] = sw.x * a.y + sw.y * a.x, k[8] = sw.x * a.z + sw.z * a.x, k[9] = sw.y * a.z + sw.z * a.y;
    };
    for (int k = M.path_offset[N.joint - 1]; k < M.path_offset[N.joint]; ++k) {
      const int j = M.path_joint[k], r = M.joints[j].v;
      double by_v[NumberLayout::kNode], by_q[NumberLayout::kNode];
      V3<double> sw, sv;
      momentum(w.twists.B[j], sw, sv, by_q);
      momentum(w.twists.S[j], sw, sv, by_v);
      const V3<double> weight = cross(g, sw);
      by_q[0] += dot(sv, g);
      by_q[1] += weight.x, by_q[2] += weight.y, by_q[3] += weight.z;
      for (int c = 0; c < 2 * m; ++c) to_v[c] = 0;
      for (int entry = 0; entry < NumberLayout::kNode; ++entry) {
        const double *f = body.factor.data() + entry * m, fv = by_v[entry], fq = by_q[entry];
        for (int c = 0; c < m; ++c) to_v[c] += fv * f[c];
        for (int c = 0; c < m; ++c) to_q[c] += fq * f[c];
      }
      for (int c = 0; c < m; ++c) {
        s.Lv[size_t(r) * n + body.parameter[c]] += to_v[c];
        s.Lq[size_t(r) * n + body.parameter[c]] += to_q[c];
      }
    }
  }
  const double w1 = dt * (1 - o.alpha), w2 = dt * o.alpha, fm = dt * o.minus, fp = dt * o.plus;
  for (int i = 0; i < nd * n; ++i) {
    s.R[i] = w1 * s.Lq[i] - s.Lv[i] + fm * s.F[i];
    s.P[i] = w2 * s.Lq[i] + s.Lv[i] + fp * s.F[i];
  }
  for (size_t b = 0; b < M.balls.size(); ++b) {
    const int v = M.balls[b].v;
    const BallMap<double>& m = w.balls[b];
    if (v >= nd) continue;
    for (int c = 0; c < n; ++c) {
      auto column = [&](const std::vector<double>& x) {
        return V3<double>{x[size_t(v) * n + c], x[size_t(v + 1) * n + c], x[size_t(v + 2) * n + c]};
      };
      auto put = [&](std::vector<double>& x, const V3<double>& y) {
        x[size_t(v) * n + c] = y.x;
        x[size_t(v + 1) * n + c] = y.y;
        x[size_t(v + 2) * n + c] = y.z;
      };
      const V3<double> Lv = column(s.Lv), push = chart_gradient(m.phi, (column(s.Lq) + column(s.F)) * dt, Lv);
      put(s.R, m.A * push - m.D * Lv);
      put(s.P, transposed(m.A) * push + transposed(m.D) * Lv);
    }
  }
}

// r_c, (p_k+1)_c (nd, links.count) and h_c (nc, links.count) into s.R, s.P, s.H
inline void columns_by_parameters(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                                  const ParameterLinks& links) {
  const ModelData& M = *w.M;
  const size_t n = links.count;
  s.R.assign(M.nd * n, 0.0);
  s.P.assign(M.nd * n, 0.0);
  s.H.assign(M.nc * n, 0.0);
  if (links.bodies_only) return bodies_by_parameters(w, s, o, dt, links);
  double* unit = s.unit.data();
  for (int i = 0; i < M.nd; ++i) {
    unit[i] = 1;
    motion_by_parameters(w, s, o, dt, links, unit, s.zero.data(), s.R.data() + i * n);
    motion_by_parameters(w, s, o, dt, links, s.zero.data(), unit, s.P.data() + i * n);
    unit[i] = 0;
  }
  for (int c = 0; c < M.nc; ++c) {
    unit[c] = 1;
    end_by_parameters(w, s, dt, links, unit, s.H.data() + c * n);
    unit[c] = 0;
  }
}

// Sensitivities of a solved step: S (2 nd, columns), derivatives of (q_k, p_k) by whatever the columns are, becomes
// that of (q_k+1, p_k+1); the first links.count columns are parameters. SL (nc, columns; may be null): of lambda. After
// prepare() and first_order() of all columns.
//
// reads lin.Z, P, L, E, Gy, con; writes S, SL; scratch: s
inline void sensitivity_of_part(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                                const ParameterLinks& links, int columns, double* S, double* SL) {
  const ModelData& M = *w.M;
  const int nd = M.nd, nv = M.nv, nc = M.nc, n = links.count, ld = w.stride(), xc = w.x_column();
  columns_by_parameters(w, s, o, dt, links);
  // what stands beside p_k: its own change, and that of the equations
  double *Sq = S, *Sp = S + size_t(nd) * columns;
  for (int i = 0; i < nd; ++i)
    for (int c = 0; c < n; ++c) Sp[size_t(i) * columns + c] += s.R[size_t(i) * n + c];
  // multipliers that answer h_c: (C1 X) Lam = -h_c/dt, dy = dt X Lam
  if (nc && n) {
    for (double& x : s.H) x = -x / dt;
    schur_solve(w, w.con.schur, s.H.data(), n, n, false);
  }
  s.S.resize(size_t(2 * nd + nc) * columns);
  s.room.resize(gemm_workspace(std::max(nd, nc), columns, 2 * nd) + 8);
  double *Y = s.S.data(), *Yp = Y + size_t(nd) * columns, *YL = Yp + size_t(nd) * columns;
  auto times = [&](const double* A, int rows, double* out) {
    if (nv == nd) return gemm(rows, columns, 2 * nd, 1.0, A, ld, 1, S, columns, 1, 0.0, out, columns, s.room.data());
    gemm(rows, columns, nd, 1.0, A, ld, 1, Sq, columns, 1, 0.0, out, columns, s.room.data());
    gemm(rows, columns, nd, 1.0, A + nv, ld, 1, Sp, columns, 1, 1.0, out, columns, s.room.data());
  };
  times(w.lin.Z, nd, Y);
  times(w.lin.P, nd, Yp);
  if (SL && nc) times(w.lin.L, nc, YL);
  for (int i = 0; i < nd; ++i)
    for (int c = 0; c < n; ++c) Yp[size_t(i) * columns + c] += s.P[size_t(i) * n + c];
  for (int c = 0; c < n && nc; ++c) {
    for (int k = 0; k < nd; ++k) {
      double dy = 0;
      for (int l = 0; l < nc; ++l) dy += w.lin.Z[size_t(k) * ld + xc + l] * s.H[size_t(l) * n + c];
      s.delta[k] = dy;
      Y[size_t(k) * columns + c] += dt * dy;
    }
    for (int i = 0; i < nd; ++i) {
      double dp = 0;
      for (int k = 0; k < nd; ++k) dp += (w.lin.E.h22[i * nv + k] + dt * o.plus * w.lin.Gy[i * nv + k]) * s.delta[k];
      Yp[size_t(i) * columns + c] += dp;
    }
    if (SL)
      for (int l = 0; l < nc; ++l) YL[size_t(l) * columns + c] += s.H[size_t(l) * n + c];
  }
  for (int i = 0; i < 2 * nd * columns; ++i) S[i] = Y[i];
  for (int i = 0; SL && i < nc * columns; ++i) SL[i] = YL[i];
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
