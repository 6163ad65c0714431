// L = T - V(gravity): gradient in O(n), second derivatives in O(pairs), third derivatives contracted with a direction in O(pairs)
// (KERNELS sections 3-7). Slots: a derivative slot i stands for a_i d/dq + b_i d/dv. The discrete Lagrangian uses
// (dt w_i, s_i) for x and y, the continuous one (1, 0) and (0, 1) for q and v; the same code serves both.
#pragma once
#include "gemm.hpp"
#include "tree.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> struct Slots {
  T a1, b1, a2, b2;
};

// S, V, B of the massive joints, composite momenta, L_q and L_v (sections 2, 3, 5). Needs w.mid at q and w.v.
template <class T> void gradient(Work<T>& w) {
  const ModelData& M = *w.M;
  const Poses<T>& P = w.mid;
  // outward: twists and velocities
  w.V[0] = zero6<T>();
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    const V6<T>& Vp = w.V[J.parent];
    T vj = w.v[J.q];
    const V3<T>& a = P.a[j + 1];
    if (J.kind < 3) {
      w.S[j] = {zero3<T>(), a};
      w.B[j] = {zero3<T>(), cross(Vp.w, a)};
      w.V[j + 1] = {Vp.w, Vp.v + a * vj};
    } else {
      V6<T> S = joint_twist(J, j + 1, P);
      w.S[j] = S;
      w.B[j] = crossm(Vp, S);
      w.V[j + 1] = Vp + S * vj;
    }
  }
  // momentum of every body about the reference point
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    if (N.body == 0) {
      w.H[n] = zero6<T>();
      w.c[n] = zero3<T>();
      continue;
    }
    const Joint& J = M.joints[N.joint - 1];
    const M3<T>& R = P.R[J.rot];
    const V3<T>& p = P.p[N.joint];
    const V6<T>& V = w.V[N.joint];
    V3<T> vo = V.v + cross(V.w, p);
    V3<T> cl = mul(R, vec3<T>(N.c));
    V3<T> l = vo * T(N.m) + cross(V.w, cl);
    V3<T> n0 = cross(cl, vo);
    if (N.body >= 2) {
      V3<T> wl = tmul(R, V.w);
      V3<T> k;
      if (N.body == 2) k = {wl.x * T(N.I[0]), wl.y * T(N.I[1]), wl.z * T(N.I[2])};
      else k = mul(S3<T>{T(N.I[0]), T(N.I[1]), T(N.I[2]), T(N.I[3]), T(N.I[4]), T(N.I[5])}, wl);
      n0 += mul(R, k);
    }
    w.H[n] = {n0 + cross(p, l), l};
    w.c[n] = p * T(N.m) + cl;
  }
  // inward: composites
  for (int n = M.nn - 1; n >= 0; --n) {
    int up = M.nodes[n].parent;
    if (up >= 0) { w.H[up] += w.H[n]; w.c[up] += w.c[n]; }
  }
  for (int i = 0; i < M.nq; ++i) { w.Lq[i] = T(0.0); w.Lv[i] = T(0.0); }
  T gz = T(M.gz);
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    const V6<T>& H = w.H[J.node];
    const V3<T>& c = w.c[J.node];
    const V6<T>& S = w.S[j];
    T flz = S.v.z * T(M.nodes[J.node].mass) + (S.w.x * c.y - S.w.y * c.x);
    w.Lv[J.q] = dot(S, H);
    w.Lq[J.q] = dot(w.B[j], H) + gz * flz;
  }
}

// kinetic energy and the potential of uniform gravity; after gradient()
template <class T> void energies(const Work<T>& w, T& kinetic, T& gravity) {
  const ModelData& M = *w.M;
  T t = T(0.0);
  for (int j = 0; j < M.nm; ++j) t += w.Lv[M.joints[j].q] * w.v[M.joints[j].q];
  kinetic = T(0.5) * t;
  T g = T(0.0);
  V3<T> gw = {T(M.Rg[2]) * T(M.gz), T(M.Rg[5]) * T(M.gz), T(M.Rg[8]) * T(M.gz)};  // gravity in world axes
  for (int n = 0; n < M.nn; ++n)
    if (M.nodes[n].parent < 0) g -= w.c[n].z * T(M.gz) + T(M.nodes[n].mass) * dot(gw, w.ref);
  gravity = g;
}

// second moment of one body about the reference point; first: its first moment
template <class T> DAL_INLINE S3<T> body_moment(const ModelData& M, const Node& N, const Poses<T>& P, V3<T>* first = nullptr) {
  const M3<T>& R = P.R[M.joints[N.joint - 1].rot];
  const V3<T>& p = P.p[N.joint];
  V3<T> mp = p * T(N.m), cl = mul(R, vec3<T>(N.c));
  if (first) *first = mp + cl;
  // m (|p|^2 1 - p p^T) + 2 (p.cl) 1 - p cl^T - cl p^T  =  s 1 - (p e^T + e p^T)/2 with e = m p + 2 cl
  V3<T> e = mp + cl + cl;
  T s = dot(p, e);
  S3<T> o = sym_outer(p, e);
  T hf = T(0.5);
  S3<T> I = {s - hf * o.xx, s - hf * o.yy, s - hf * o.zz, -hf * o.xy, -hf * o.xz, -hf * o.yz};
  if (N.body == 2) {
    for (int k = 0; k < 3; ++k) {
      const V3<T>& a = R.c[k];
      V3<T> b = a * T(N.I[k]);
      I.xx += a.x * b.x; I.yy += a.y * b.y; I.zz += a.z * b.z;
      I.xy += a.x * b.y; I.xz += a.x * b.z; I.yz += a.y * b.z;
    }
  } else if (N.body == 3) {
    S3<T> L = {T(N.I[0]), T(N.I[1]), T(N.I[2]), T(N.I[3]), T(N.I[4]), T(N.I[5])};
    // columns of R L, then (R L) R^T
    V3<T> b0 = R.c[0] * L.xx + R.c[1] * L.xy + R.c[2] * L.xz;
    V3<T> b1 = R.c[0] * L.xy + R.c[1] * L.yy + R.c[2] * L.yz;
    V3<T> b2 = R.c[0] * L.xz + R.c[1] * L.yz + R.c[2] * L.zz;
    I.xx += b0.x * R.c[0].x + b1.x * R.c[1].x + b2.x * R.c[2].x;
    I.yy += b0.y * R.c[0].y + b1.y * R.c[1].y + b2.y * R.c[2].y;
    I.zz += b0.z * R.c[0].z + b1.z * R.c[1].z + b2.z * R.c[2].z;
    I.xy += b0.x * R.c[0].y + b1.x * R.c[1].y + b2.x * R.c[2].y;
    I.xz += b0.x * R.c[0].z + b1.x * R.c[1].z + b2.x * R.c[2].z;
    I.yz += b0.y * R.c[0].z + b1.y * R.c[1].z + b2.y * R.c[2].z;
  }
  return I;
}

// The maps of one composite from twists to wrenches, by columns of eight (the lanes of a generator): S -> IC S, then S -> S x* H, whose rows 6
// and 7 are the ones of -IC S that gravity needs. Writes what is not constant (Work::init does that).
DAL_INLINE void write_columns(double* C, const Inertia<double>& J, const V6<double>& H) {
  const V3<double>&c = J.c, &n = H.w, &l = H.v;
  const S3<double>& I = J.I;
  C[0] = I.xx; C[1] = I.xy; C[2] = I.xz; C[4] = -c.z; C[5] = c.y;
  C[8] = I.xy; C[9] = I.yy; C[10] = I.yz; C[11] = c.z; C[13] = -c.x;
  C[16] = I.xz; C[17] = I.yz; C[18] = I.zz; C[19] = -c.y; C[20] = c.x;
  C[25] = c.z; C[26] = -c.y;
  C[32] = -c.z; C[34] = c.x;
  C[40] = c.y; C[41] = -c.x;
  double* X = C + 48;
  X[1] = -n.z; X[2] = n.y; X[4] = -l.z; X[5] = l.y; X[7] = c.z;
  X[8] = n.z; X[10] = -n.x; X[11] = l.z; X[13] = -l.x; X[14] = -c.z;
  X[16] = -n.y; X[17] = n.x; X[19] = -l.y; X[20] = l.x; X[22] = c.y; X[23] = -c.x;
  X[25] = -l.z; X[26] = l.y;
  X[32] = l.z; X[34] = -l.x;
  X[40] = -l.y; X[41] = l.x;
}

// composite inertias (4.1); after gradient(). keep_bodies also stores per-body blocks for the third derivatives.
template <class T> void composites(Work<T>& w, bool keep_bodies) {
  const ModelData& M = *w.M;
  const S3<T> none = {T(0.0), T(0.0), T(0.0), T(0.0), T(0.0), T(0.0)};
  for (int n = 0; n < M.nn; ++n) w.IC[n] = {T(M.nodes[n].mass), w.c[n], none};
  for (int n = M.nn - 1; n >= 0; --n) {
    const Node& N = M.nodes[n];
    V3<T> first = zero3<T>();
    S3<T> I = none;
    if (N.body != 0) I = body_moment(M, N, w.mid, &first);
    if (keep_bodies) {
      w.body[n] = {T(N.m), first, I};
      w.hbody[n] = N.body == 0 ? zero6<T>() : mul(w.body[n], w.V[N.joint]);
    }
    I += w.IC[n].I;
    w.IC[n].I = I;
    if (N.parent >= 0) w.IC[N.parent].I += I;
    if constexpr (std::is_same_v<T, double>) if (N.shared) write_columns(w.columns + 96 * n, w.IC[n], w.H[n]);
  }
}

// lanes 6 and 7 of (S, 0, 0) and (B, gz S.w.y, -gz S.w.x), read from arrays of six
DAL_INLINE void gravity_lanes(Eight<double>& S, Eight<double>& B, double gz) {
#if defined(__AVX512F__)
  const IVec six = {-1, -1, -1, -1, -1, -1, 0, 0};
  B.x[0] = keep(six, B.x[0]) + __builtin_shuffle(S.x[0], IVec{0, 0, 0, 0, 0, 0, 1, 0}) * Vec{0, 0, 0, 0, 0, 0, gz, -gz};
  S.x[0] = keep(six, S.x[0]);
#elif defined(__AVX__)
  B.x[1] = __builtin_shuffle(B.x[1], S.x[0] * Vec{-gz, gz, 0, 0}, IVec{0, 1, 5, 4});
  S.x[1] = __builtin_shuffle(S.x[1], Vec{}, IVec{0, 1, 4, 4});
#else
  B.x[3] = __builtin_shuffle(S.x[0], IVec{1, 0}) * Vec{gz, -gz};
  S.x[3] = Vec{};
#endif
}
template <class T> DAL_INLINE void left_generators(T* P1, T* P2, const V6<T>& S, const V6<T>& B, const Slots<T>& s, T gz) {
  if constexpr (std::is_same_v<T, double>) {
    Eight<double> x, y;
    x.read(&S.w.x);
    y.read(&B.w.x);
    gravity_lanes(x, y, gz);
    x.combine(s.b1, s.a1, y).write(P1);
    x.combine(s.b2, s.a2, y).write(P2);
  } else {
    write6(P1, B * s.a1 + S * s.b1);
    write6(P2, B * s.a2 + S * s.b2);
    T gy = gz * S.w.y, gx = -(gz * S.w.x);
    P1[6] = s.a1 * gy; P1[7] = s.a1 * gx;
    P2[6] = s.a2 * gy; P2[7] = s.a2 * gx;
  }
}
template <class T> DAL_INLINE void right_generators(T* Q1, T* Q2, const V6<T>& F, const V6<T>& G, const Slots<T>& s) {
  write6(Q1, G * s.a1 + F * s.b1);
  write6(Q2, G * s.a2 + F * s.b2);
  Q1[6] = -(s.a1 * F.v.x); Q1[7] = -(s.a1 * F.v.y);
  Q2[6] = -(s.a2 * F.v.x); Q2[7] = -(s.a2 * F.v.y);
}
// y += sum_k C_k x[k], for six columns of eight
DAL_INLINE void add_columns(Eight<double>& y, const double* C, const V6<double>& x) {
  const double t[6] = {x.w.x, x.w.y, x.w.z, x.v.x, x.v.y, x.v.z};
#pragma GCC unroll 6
  for (int k = 0; k < 6; ++k) y.add(t[k], C + 8 * k);
}

// P_i, Q_i of every massive joint (section 6); after composites()
template <class T> void generators(Work<T>& w, const Slots<T>& s) {
  const ModelData& M = *w.M;
  T gz = T(M.gz);
  for (int j = M.nm - 1; j >= 0; --j) {  // what was written last is read last
    int n = M.joints[j].node;
    const V6<T>&S = w.S[j], &B = w.B[j];
    T *Q1 = w.Q1 + 8 * j, *Q2 = w.Q2 + 8 * j;
    left_generators(w.P1 + 8 * j, w.P2 + 8 * j, S, B, s, gz);
    if constexpr (std::is_same_v<T, double>)
      if (M.nodes[n].shared) {
        const double* C = w.columns + 96 * n;
        Eight<double> F{}, G{};
        add_columns(F, C, S);
        add_columns(G, C, B);
        add_columns(G, C + 48, S);
        F.combine(s.b1, s.a1, G).write(Q1);
        F.combine(s.b2, s.a2, G).write(Q2);
        continue;
      }
    right_generators(Q1, Q2, mul(w.IC[n], S), mul(w.IC[n], B) + crossf(S, w.H[n]), s);
  }
}

// ---- Rows of second derivatives: products of the generators P of the ancestors of a joint with its Q (6.1)

// generators of all joints by lanes, to[l][j] = P[j][l], so that the products are multiply-adds over joints
template <class T> DAL_INLINE void by_lanes(const ModelData& M, const T* P, T* to) {
  if constexpr (std::is_same_v<T, double>)
    for (int j = (M.nm - 1) / 4 * 4; j >= 0; j -= 4) take_transposed<false>(to + j, padded(M.nm + 1), P + 8 * j, 8, 8, 4);
}

constexpr int kBlock = kWidth > 4 ? 8 : 4;  // joints side by side
DAL_INLINE const RowPlan& row_plan(const ModelData& M) { return kBlock == 8 ? M.rows8 : M.rows4; }

enum class Rows { mixed, all, along };  // P1.Q2 and P2.Q1; also P1.Q1 and P2.Q2; all of them differentiated along a direction: P.dQ + dP.Q
template <class T> struct FourRows {
  T *r11, *r22, *r12, *r21;  // by joint
};
template <class T> DAL_INLINE FourRows<T> row_space(const Work<T>& w, int k) {
  int stride = padded(w.M->nm + 1);
  T* r = w.row + 4 * k * stride;
  return {r, r + stride, r + 2 * stride, r + 3 * stride};
}

// the rows of the joints d, ..., d + K - 1, which follow each other in the tree and in the blocks, into row_space 0, ..., K - 1
template <Rows WHICH, int K, class T> DAL_INLINE void rows_of(const Work<T>& w, int d) {
  const ModelData& M = *w.M;
  constexpr bool all = WHICH != Rows::mixed, along = WHICH == Rows::along;
  const T *q1 = w.Q1 + 8 * d, *q2 = w.Q2 + 8 * d, *e1 = along ? w.dQ1 + 8 * d : q1, *e2 = along ? w.dQ2 + 8 * d : q2;
  if constexpr (std::is_same_v<T, double>) {
    int stride = padded(M.nm + 1);
    const RowPlan& R = row_plan(M);
    for (int t = R.off[d + K - 1]; t < R.off[d + K]; ++t)
#pragma GCC unroll 2
      for (int part = 0; part < kBlock; part += kWidth) {
        int s = R.first[t] + part;
        Vec a[K][4];
#pragma GCC unroll 2
        for (int k = 0; k < K; ++k)
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) a[k][i] = Vec{};
        auto add = [&](const double* x1, const double* x2, const double* y1, const double* y2) __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (int l = 0; l < 8; ++l) {
            const Vec u = load(x1 + s + l * stride), v = load(x2 + s + l * stride);
#pragma GCC unroll 2
            for (int k = 0; k < K; ++k) {
              const Vec x = splat(y1[8 * k + l]), y = splat(y2[8 * k + l]);
              if (all) { a[k][0] += u * x; a[k][1] += v * y; }
              a[k][2] += u * y; a[k][3] += v * x;
            }
          }
        };
        add(w.P1t, w.P2t, e1, e2);
        if (along) add(w.dP1t, w.dP2t, q1, q2);
#pragma GCC unroll 2
        for (int k = 0; k < K; ++k) {
          FourRows<T> r = row_space(w, k);
          if (all) { store(r.r11 + s, a[k][0]); store(r.r22 + s, a[k][1]); }
          store(r.r12 + s, a[k][2]); store(r.r21 + s, a[k][3]);
        }
      }
  } else {
    static_assert(K == 1);
    FourRows<T> r = row_space(w, 0);
    for (int t = M.path_off[d]; t < M.path_off[d + 1]; ++t) {
      int j = M.path_joint[t];
      T a = T(0.0), b = a, c = a, f = a;
      auto add = [&](const T* x1, const T* x2, const T* y1, const T* y2) {
        for (int l = 0; l < 8; ++l) {
          T u = x1[8 * j + l], v = x2[8 * j + l];
          if (all) { a += u * y1[l]; b += v * y2[l]; }
          c += u * y2[l]; f += v * y1[l];
        }
      };
      add(w.P1, w.P2, e1, e2);
      if (along) add(w.dP1, w.dP2, q1, q2);
      if (all) { r.r11[j] = a; r.r22[j] = b; }
      r.r12[j] = c; r.r21[j] = f;
    }
  }
}
// calls then(joint, its rows) for all massive joints; after by_lanes()
template <Rows WHICH, class T, class F> DAL_INLINE void for_rows(const Work<T>& w, F then) {
  const ModelData& M = *w.M;
  for (int d = 0; d < M.nm; ++d) {
    if constexpr (std::is_same_v<T, double>)
      if (row_plan(M).paired[d]) {
        rows_of<WHICH, 2>(w, d);
        then(d, row_space(w, 0));
        then(++d, row_space(w, 1));
        continue;
      }
    rows_of<WHICH, 1>(w, d);
    then(d, row_space(w, 0));
  }
}

// the rows of joint d into the dense blocks, and the columns that mirror them, or, where joints and variables have the same order, rows only: mirror()
// does the columns then
template <class T> DAL_INLINE void scatter_rows(const Work<T>& w, int d, const FourRows<T>& r, const Hessian<T>& E) {
  const ModelData& M = *w.M;
  int nq = M.nq, qd = M.joints[d].q;
  T *c11 = E.h11 + size_t(qd) * nq, *c22 = E.h22 + size_t(qd) * nq, *c12 = E.h12 + size_t(qd) * nq;
  if constexpr (std::is_same_v<T, double>)
    if (M.in_order) {  // whole blocks: zero where joints are not related, anything where mirror() will write
      double* m12 = w.mixed + size_t(d) * padded(M.nm);
      const RowPlan& R = row_plan(M);
      for (int t = R.off[d]; t < R.off[d + 1]; ++t) {
        int s = R.first[t];
        const int64_t* mask = R.masks.data() + R.mask[t];
#pragma GCC unroll 2
        for (int part = 0; part < kBlock; part += kWidth) store(m12 + s + part, keep(load_mask(mask + part), load(r.r12 + s + part)));
        if (s + kBlock <= nq) {
#pragma GCC unroll 2
          for (int part = 0; part < kBlock; part += kWidth) {
            const IVec m = load_mask(mask + part);
            store(c11 + s + part, keep(m, load(r.r11 + s + part)));
            store(c22 + s + part, keep(m, load(r.r22 + s + part)));
            store(c12 + s + part, keep(m, load(r.r21 + s + part)));
          }
        } else {
          for (int i = s; i < nq; ++i) if (mask[i - s]) { c11[i] = r.r11[i]; c22[i] = r.r22[i]; c12[i] = r.r21[i]; }
        }
      }
      return;
    }
  for (int t = M.path_off[d]; t < M.path_off[d + 1]; ++t) {
    int qa = M.path_q[t], j = M.path_joint[t];
    c11[qa] = r.r11[j];
    c22[qa] = r.r22[j];
    c12[qa] = r.r21[j];
    E.h11[qa * nq + qd] = r.r11[j];
    E.h22[qa * nq + qd] = r.r22[j];
    E.h12[qa * nq + qd] = r.r12[j];
  }
}
// the upper triangles from the lower ones (h12: from w.mixed), four by four
template <class T> DAL_INLINE void mirror(const Work<T>& w, const Hessian<T>& E) {
  if constexpr (std::is_same_v<T, double>) {
    const ModelData& M = *w.M;
    if (!M.in_order) return;
    int nq = M.nq, lm = padded(M.nm);
    for (size_t t = 0; t < M.mirror.size(); t += 2) {
      int i = M.mirror[t], k = M.mirror[t + 1], from = i * nq + k, to = k * nq + i;
      take_transposed<false>(E.h11 + to, nq, E.h11 + from, nq, 4, 4);
      take_transposed<false>(E.h22 + to, nq, E.h22 + from, nq, 4, 4);
      take_transposed<false>(E.h12 + to, nq, w.mixed + i * lm + k, lm, 4, 4);
    }
    for (int i = 0; i < M.nm; ++i)  // what is left: blocks on the diagonal, and the last rows
      for (int k = i < M.nm / 4 * 4 ? i / 4 * 4 : 0; k < i; ++k) {
        E.h11[k * nq + i] = E.h11[i * nq + k];
        E.h22[k * nq + i] = E.h22[i * nq + k];
        E.h12[k * nq + i] = w.mixed[i * lm + k];
      }
  }
}

// the mixed rows of joint j into the packed Newton matrix, row d
template <class T> DAL_INLINE void pack_rows(const Work<T>& w, int j, const FourRows<T>& r) {
  const ModelData& M = *w.M;
  int d = M.joints[j].q, s = 0;
  if (d >= M.nd) return;
  T *up = w.up + M.eoff[d], *lo = w.lo + M.eoff[d];
  if (M.all_dynamic) {
    for (int t = M.path_off[j]; t < M.path_off[j + 1]; ++t, ++s) { up[s] = r.r12[M.path_joint[t]]; lo[s] = r.r21[M.path_joint[t]]; }
    return;
  }
  const int* map = M.slot_map.data() + M.slot_off[d];
  for (int t = M.path_off[j]; t < M.path_off[j + 1]; ++t)
    if (M.path_q[t] < M.nd) {
      int a = M.path_joint[t], at = M.coupled ? map[s] : s;
      up[at] = r.r12[a];
      lo[at] = r.r21[a];
      ++s;
    }
}

template <class T> DAL_INLINE void clear_packed(const Work<T>& w) {
  for (int i = 0; i < w.M->packed; ++i) { w.lo[i] = T(0.0); w.up[i] = T(0.0); }
}
template <class T> DAL_INLINE void clear(const ModelData& M, const Hessian<T>& E) {
  for (int i = 0; i < M.nq * M.nq; ++i) { E.h11[i] = T(0.0); E.h12[i] = T(0.0); E.h22[i] = T(0.0); }
}

// Dense second derivatives over all variables (6.1): writes the ancestor pairs (and zeros of other pairs of joints), so E must be zero elsewhere
// (potentials add to other entries: clear() first). After generators(). newton: also the packed Newton matrix.
template <class T> void second(Work<T>& w, const Hessian<T>& E, bool newton = false) {
  const ModelData& M = *w.M;
  if (!M.potentials.empty()) clear(M, E);
  by_lanes(M, w.P1, w.P1t);
  by_lanes(M, w.P2, w.P2t);
  if (newton && M.coupled) clear_packed(w);
  for_rows<Rows::all>(w, [&](int d, const FourRows<T>& r) {
    scatter_rows(w, d, r, E);
    if (newton) pack_rows(w, d, r);
  });
  mirror(w, E);
}

// third derivatives contracted with the direction (w.dq, w.dv) (section 7). After composites(keep_bodies) and generators(). `zeroed`: E is zero
// outside of the ancestor pairs already.
template <class T> void third(Work<T>& w, const Slots<T>& s, const Hessian<T>& E, bool zeroed = false) {
  const ModelData& M = *w.M;
  T gz = T(M.gz);
  w.eta[0] = zero6<T>();
  w.xi[0] = zero6<T>();
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    const V6<T>&ep = w.eta[J.parent], &xp = w.xi[J.parent];
    T dq = w.dq[J.q], dv = w.dv[J.q];
    w.eta[j + 1] = ep + w.S[j] * dq;
    w.xi[j + 1] = xp + w.B[j] * dq + w.S[j] * dv;
    w.dS[j] = crossm(ep, w.S[j]);
    w.dB[j] = crossm(ep, w.B[j]) + crossm(xp, w.S[j]);
  }
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    if (N.body == 0) {
      w.dH[n] = zero6<T>();
      w.dIC[n] = {T(0.0), zero3<T>(), {T(0.0), T(0.0), T(0.0), T(0.0), T(0.0), T(0.0)}};
      continue;
    }
    const V6<T>& eta = w.eta[N.joint];
    w.dH[n] = crossf(eta, w.hbody[n]) + mul(w.body[n], w.xi[N.joint]);
    w.dIC[n] = transport(eta, w.body[n]);
  }
  for (int n = M.nn - 1; n >= 0; --n) {
    int up = M.nodes[n].parent;
    if (up >= 0) { w.dH[up] += w.dH[n]; w.dIC[up] += w.dIC[n]; }
    if constexpr (std::is_same_v<T, double>) if (M.nodes[n].shared) write_columns(w.dcolumns + 96 * n, w.dIC[n], w.dH[n]);
  }
  for (int j = M.nm - 1; j >= 0; --j) {  // what was written last is read last
    int n = M.joints[j].node;
    const V6<T>&S = w.S[j], &B = w.B[j], &dS = w.dS[j], &dB = w.dB[j];
    T *Q1 = w.dQ1 + 8 * j, *Q2 = w.dQ2 + 8 * j;
    left_generators(w.dP1 + 8 * j, w.dP2 + 8 * j, dS, dB, s, gz);
    if constexpr (std::is_same_v<T, double>)
      if (M.nodes[n].shared) {
        const double *C = w.columns + 96 * n, *dC = w.dcolumns + 96 * n;
        Eight<double> F{}, G{}, X{};
        add_columns(F, dC, S);
        add_columns(G, dC, B);
        add_columns(X, dC + 48, S);
        add_columns(F, C, dS);
        add_columns(G, C, dB);
        add_columns(X, C + 48, dS);
        G.add(1.0, X);
        F.combine(s.b1, s.a1, G).write(Q1);
        F.combine(s.b2, s.a2, G).write(Q2);
        continue;
      }
    right_generators(Q1, Q2, mul(w.dIC[n], S) + mul(w.IC[n], dS),
                     mul(w.dIC[n], B) + mul(w.IC[n], dB) + crossf(dS, w.H[n]) + crossf(S, w.dH[n]), s);
  }
  if (!zeroed) {
    // constraints add to h11 and h22 of other pairs, potentials and forces also to h12
    bool mixed = !M.potentials.empty() || !M.forces.empty();
    for (int i = 0; i < M.nq * M.nq; ++i) { E.h11[i] = T(0.0); E.h22[i] = T(0.0); }
    if (mixed) for (int i = 0; i < M.nq * M.nq; ++i) E.h12[i] = T(0.0);
  }
  by_lanes(M, w.P1, w.P1t);  // these first: the others have just been written
  by_lanes(M, w.P2, w.P2t);
  by_lanes(M, w.dP1, w.dP1t);
  by_lanes(M, w.dP2, w.dP2t);
  for_rows<Rows::along>(w, [&](int d, const FourRows<T>& r) { scatter_rows(w, d, r, E); });
  mirror(w, E);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
