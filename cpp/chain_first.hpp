// A, B of a long open chain in O(n^2) (docs/kernels.md 11): columns of the solution by the O(n) elimination, eight side
// by side, and products of the second derivatives with them by sweeps, so that no matrix but the result is formed.
#pragma once
#include "del.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr int kChainFirst = 40;  // below it matrices are faster

// every joint hangs from the one before, all are dynamic, elements give diagonals only
DAL_INLINE bool has_chain_first(const ModelData& M) {
  return M.single_chain && M.chain_solver && M.flat && M.nc == 0 && M.nk == 0 && M.forces.empty() &&
         M.nd >= kChainFirst;
}

struct Columns {  // one row of eight columns
  static constexpr int n = 8 / kWidth;
  Vec v[n];
  DAL_INLINE void clear() {
    for (Vec& x : v) x = Vec{};
  }
  DAL_INLINE void add(double a, const Columns& o) {
    const Vec f = splat(a);
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) v[i] += f * o.v[i];
  }
  DAL_INLINE void add(const Columns& o) {
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) v[i] += o.v[i];
  }
  DAL_INLINE void scale(double a) {
    const Vec f = splat(a);
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) v[i] *= f;
  }
  DAL_INLINE double& operator[](int i) { return reinterpret_cast<double*>(v)[i]; }
  DAL_INLINE void store_at(double* p) const {
    for (int i = 0; i < n; ++i) store(p + i * kWidth, v[i]);
  }
  DAL_INLINE void load_at(const double* p) {
    for (int i = 0; i < n; ++i) v[i] = load(p + i * kWidth);
  }
};

// diagonals that elements add to dt D1D1, dt D2D1 (transposed place) and dt D2D2 of Ld and the forces
struct ChainDiagonals {
  double *e11, *e21, *e22;
};

// Columns c0 .. c0 + 7 of q_k (BY_Q) or p_k: dq_k+1 in rows 0 .. n, dp_k+1 in rows n .. 2n of S (row stride ld).
// z, t: scratch (n rows of eight)
template <bool BY_Q>
void chain_columns(const Work<double>& w, double dt, const ChainDiagonals& d, int c0, double* S, int ld, double* z,
                   double* t) {
  const int n = w.M->nd, m = n - c0 < 8 ? n - c0 : 8;
  const double *P1 = w.gen.P1j, *P2 = w.gen.P2j, *Q1 = w.gen.Q1j, *Q2 = w.gen.Q2j;
  // generators of the columns' own joints, entry by entry
  Columns p1[8], q1[8];
  for (int k = 0; k < 8; ++k)
    for (int c = 0; c < 8; ++c) {
      p1[k][c] = c < m ? P1[8 * (c0 + c) + k] : 0;
      q1[k][c] = c < m ? Q1[8 * (c0 + c) + k] : 0;
    }
  // inward: right-hand side -dt D1D1 Ld or -dt, elimination (10.1)
  Columns phi[8];
  for (Columns& x : phi) x.clear();
  const int top = BY_Q ? n - 1 : (c0 + 7 < n - 1 ? c0 + 7 : n - 1);
  Columns none;
  none.clear();
  for (int j = n - 1; j > top; --j) none.store_at(z + 8 * j);
  for (int j = top; j >= 0; --j) {
    const double *p = P1 + 8 * j, *q = Q1 + 8 * j, *u = w.newton.U + 8 * j;
    Columns b;
    b.clear();
    if (!BY_Q) {
      if (j >= c0) b[j - c0] = -dt;
    } else if (j >= c0 + 8) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) b.add(-q[k], p1[k]);
    } else if (j < c0) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) b.add(-p[k], q1[k]);
    } else {
      for (int c = 0; c < m; ++c) {
        double s = j == c0 + c ? d.e11[j] : 0;
        for (int k = 0; k < 8; ++k) s += j <= c0 + c ? p[k] * q1[k][c] : q[k] * p1[k][c];
        b[c] = -s;
      }
    }
    Columns other;
    other.clear();
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      b.add(-p[k], phi[k]);
      other.add(-p[k + 4], phi[k + 4]);
    }
    b.add(other);
    b.scale(w.newton.inverse_D[j]);
    b.store_at(z + 8 * j);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      const Vec f = splat(u[k]);
      for (int i = 0; i < Columns::n; ++i) phi[k].v[i] += f * b.v[i];
    }
  }
  // outward: dq (10.2), and Q2 . xi of the joints above
  Columns xi[8];
  for (Columns& x : xi) x.clear();
  for (int j = 0; j < n; ++j) {
    const double *W = w.newton.W + 8 * j, *p = P2 + 8 * j, *q = Q2 + 8 * j;
    Columns y, other, s;
    y.load_at(z + 8 * j);
    other.clear();
    s.clear();
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      y.add(-W[k], xi[k]);
      other.add(-W[k + 4], xi[k + 4]);
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) s.add(q[k], xi[k]);
    y.add(other);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) xi[k].add(p[k], y);
    y.store_at(z + 8 * j);
    y.store_at(S + size_t(j) * ld);
    s.store_at(t + 8 * j);
  }
  // inward: dt dp = (dt D2D2 Ld) dq + (dt D1D2 Ld, of the columns of q_k)
  Columns f[8];
  for (Columns& x : f) x.clear();
  const double idt = 1 / dt;
  for (int j = n - 1; j >= 0; --j) {
    const double *p = P2 + 8 * j, *q = Q2 + 8 * j;
    Columns y, s, other;
    y.load_at(z + 8 * j);
    s.load_at(t + 8 * j);
    other.clear();
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) f[k].add(q[k], y);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      s.add(p[k], f[k]);
      other.add(p[k + 4], f[k + 4]);
    }
    s.add(other);
    s.add(d.e22[j], y);
    if (BY_Q) {
      if (j >= c0 + 8) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) s.add(q[k], p1[k]);
      } else if (j < c0) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) s.add(p[k], q1[k]);
      } else {
        for (int c = 0; c < m; ++c) {
          double e = j == c0 + c ? d.e21[j] : 0;
          for (int k = 0; k < 8; ++k) e += c0 + c <= j ? q[k] * p1[k][c] : p[k] * q1[k][c];
          s[c] += e;
        }
      }
    }
    s.scale(idt);
    s.store_at(S + size_t(n + j) * ld);
  }
}

// A (2n x 2n), B (2n x nu) at the solved step in w; fresh: what residual() leaves belongs to it. Returns usable pivots.
//
// reads step, con (and, if fresh, what residual() writes); writes comp, gen, newton; scratch: lin
inline bool chain_first(Work<double>& w, const StepOptions& o, double dt, bool fresh, double* A, double* B) {
  const ModelData& M = *w.M;
  const int n = M.nd, nu = M.nu;
  const Slots<double> s = slots<double>(o, dt);
  if (!fresh) residual(w, o, dt);
  composites(w, false);
  generators_by_joint(w, s);
  elements_to_newton(w, w.kin.q, w.kin.v, s, dt * o.minus);
  const bool ok = chain_factor(w);
  const double f = dt * o.minus, g = dt * o.plus;
  double *stage = w.lin.Z, *z = w.lin.T_, *t = z + 8 * n;
  const ChainDiagonals d = {t + 8 * n, t + 9 * n, t + 10 * n};
  for (int i = 0; i < n; ++i) {
    const double c = M.has_damping ? -M.damping[i] : 0;
    d.e11[i] = f * s.b1 * c;
    d.e21[i] = g * s.b1 * c;
    d.e22[i] = g * s.b2 * c;
  }
  for (const Element& e : M.potentials) {
    potential(w, e, w.kin.q, w.kin.mid, 2, (const double*)nullptr);
    for (int i = 0; i < e.n; ++i) {
      const int v = M.local_v[e.vars + i];
      const double x = w.local.hessian[i * e.n + i];
      d.e11[v] -= s.a1 * s.a1 * x;
      d.e21[v] -= s.a1 * s.a2 * x;
      d.e22[v] -= s.a2 * s.a2 * x;
    }
  }
  constexpr int kStage = 32;  // columns that are written together
  for (int c0 = 0; c0 < n; c0 += kStage)
    for (int which = 0; which < 2; ++which) {
      const int width = n - c0 < kStage ? n - c0 : kStage;
      for (int c = 0; c < width; c += 8)
        if (which == 0) chain_columns<true>(w, dt, d, c0 + c, stage + c, kStage, z, t);
        else chain_columns<false>(w, dt, d, c0 + c, stage + c, kStage, z, t);
      double* out = A + which * n + c0;
      for (int r = 0; r < 2 * n; ++r)
        std::memcpy(out + size_t(r) * 2 * n, stage + size_t(r) * kStage, width * sizeof(double));
    }
  for (size_t i = 0; i < M.force_v.size(); ++i) {
    const int v = M.force_v[i], u = M.force_u[i];
    for (int r = 0; r < 2 * n; ++r) B[size_t(r) * nu + u] += f * A[size_t(r) * 2 * n + n + v];
    B[size_t(n + v) * nu + u] += g;
  }
  return ok;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
