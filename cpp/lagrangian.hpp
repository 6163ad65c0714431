// L = T - V(gravity): gradient in O(n), second derivatives in O(pairs), third derivatives contracted with a direction in O(pairs)
// (KERNELS sections 3-7). Slots: a derivative slot i stands for a_i d/dq + b_i d/dv. The discrete Lagrangian uses
// (dt w_i, s_i) for x and y, the continuous one (1, 0) and (0, 1) for q and v; the same code serves both.
#pragma once
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

// inertia of one body about the reference point
template <class T> DAL_INLINE Inertia<T> body_inertia(const ModelData& M, const Node& N, const Poses<T>& P) {
  const Joint& J = M.joints[N.joint - 1];
  const M3<T>& R = P.R[J.rot];
  const V3<T>& p = P.p[N.joint];
  T m = T(N.m);
  V3<T> cl = mul(R, vec3<T>(N.c));
  Inertia<T> out;
  out.m = m;
  out.c = p * m + cl;
  // m (|p|^2 1 - p p^T) + 2 (p.cl) 1 - p cl^T - cl p^T  =  s 1 - (p e^T + e p^T)/2 with e = m p + 2 cl
  V3<T> e = p * m + cl + cl;
  T s = dot(p, e);
  S3<T> o = sym_outer(p, e);
  T hf = T(0.5);
  out.I = {s - hf * o.xx, s - hf * o.yy, s - hf * o.zz, -hf * o.xy, -hf * o.xz, -hf * o.yz};
  if (N.body == 2) {
    for (int k = 0; k < 3; ++k) {
      const V3<T>& a = R.c[k];
      V3<T> b = a * T(N.I[k]);
      out.I.xx += a.x * b.x; out.I.yy += a.y * b.y; out.I.zz += a.z * b.z;
      out.I.xy += a.x * b.y; out.I.xz += a.x * b.z; out.I.yz += a.y * b.z;
    }
  } else if (N.body == 3) {
    S3<T> L = {T(N.I[0]), T(N.I[1]), T(N.I[2]), T(N.I[3]), T(N.I[4]), T(N.I[5])};
    // columns of R L, then (R L) R^T
    V3<T> b0 = R.c[0] * L.xx + R.c[1] * L.xy + R.c[2] * L.xz;
    V3<T> b1 = R.c[0] * L.xy + R.c[1] * L.yy + R.c[2] * L.yz;
    V3<T> b2 = R.c[0] * L.xz + R.c[1] * L.yz + R.c[2] * L.zz;
    out.I.xx += b0.x * R.c[0].x + b1.x * R.c[1].x + b2.x * R.c[2].x;
    out.I.yy += b0.y * R.c[0].y + b1.y * R.c[1].y + b2.y * R.c[2].y;
    out.I.zz += b0.z * R.c[0].z + b1.z * R.c[1].z + b2.z * R.c[2].z;
    out.I.xy += b0.x * R.c[0].y + b1.x * R.c[1].y + b2.x * R.c[2].y;
    out.I.xz += b0.x * R.c[0].z + b1.x * R.c[1].z + b2.x * R.c[2].z;
    out.I.yz += b0.y * R.c[0].z + b1.y * R.c[1].z + b2.y * R.c[2].z;
  }
  return out;
}

// composite inertias and F, G (4.1); after gradient(). keep_bodies also stores per-body blocks for the third derivatives.
template <class T> void composites(Work<T>& w, bool keep_bodies) {
  const ModelData& M = *w.M;
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    if (N.body == 0) w.IC[n] = {T(0.0), zero3<T>(), {T(0.0), T(0.0), T(0.0), T(0.0), T(0.0), T(0.0)}};
    else w.IC[n] = body_inertia(M, N, w.mid);
    if (keep_bodies) {
      w.body[n] = w.IC[n];
      w.hbody[n] = N.body == 0 ? zero6<T>() : mul(w.IC[n], w.V[N.joint]);
    }
  }
  for (int n = M.nn - 1; n >= 0; --n) {
    int up = M.nodes[n].parent;
    if (up >= 0) w.IC[up] += w.IC[n];
  }
  for (int j = 0; j < M.nm; ++j) {
    int n = M.joints[j].node;
    w.F[j] = mul(w.IC[n], w.S[j]);
    w.G[j] = mul(w.IC[n], w.B[j]) + crossf(w.S[j], w.H[n]);
  }
}

template <class T> DAL_INLINE void left_generator(T* P, const V6<T>& S, const V6<T>& B, T a, T b, T gz) {
  P[0] = a * B.w.x + b * S.w.x; P[1] = a * B.w.y + b * S.w.y; P[2] = a * B.w.z + b * S.w.z;
  P[3] = a * B.v.x + b * S.v.x; P[4] = a * B.v.y + b * S.v.y; P[5] = a * B.v.z + b * S.v.z;
  T ag = a * gz;
  P[6] = ag * S.w.y; P[7] = -(ag * S.w.x);
}
template <class T> DAL_INLINE void right_generator(T* Q, const V6<T>& F, const V6<T>& G, T a, T b) {
  Q[0] = a * G.w.x + b * F.w.x; Q[1] = a * G.w.y + b * F.w.y; Q[2] = a * G.w.z + b * F.w.z;
  Q[3] = a * G.v.x + b * F.v.x; Q[4] = a * G.v.y + b * F.v.y; Q[5] = a * G.v.z + b * F.v.z;
  Q[6] = -(a * F.v.x); Q[7] = -(a * F.v.y);
}

// P_i, Q_i of every massive joint (section 6)
template <class T> void generators(Work<T>& w, const Slots<T>& s) {
  T gz = T(w.M->gz);
  for (int j = 0; j < w.M->nm; ++j) {
    left_generator(w.P1 + 8 * j, w.S[j], w.B[j], s.a1, s.b1, gz);
    left_generator(w.P2 + 8 * j, w.S[j], w.B[j], s.a2, s.b2, gz);
    right_generator(w.Q1 + 8 * j, w.F[j], w.G[j], s.a1, s.b1);
    right_generator(w.Q2 + 8 * j, w.F[j], w.G[j], s.a2, s.b2);
  }
}

// out[s] = sum_l stack[l][s] q[l] for s < n: eight broadcast multiply-adds per vector of ancestors
template <class T> DAL_INLINE void row_dot(const T* stk, int stride, int n, const T* q, T* out) {
  for (int s = 0; s < n; ++s) {
    T a = stk[s] * q[0];
    for (int l = 1; l < 8; ++l) a += stk[l * stride + s] * q[l];
    out[s] = a;
  }
}
template <> DAL_INLINE void row_dot<double>(const double* stk, int stride, int n, const double* q, double* out) {
  for (int s = 0; s < n; s += kWidth) {
    Vec a = load(stk + s) * splat(q[0]), b = load(stk + stride + s) * splat(q[1]);
    a += load(stk + 2 * stride + s) * splat(q[2]); b += load(stk + 3 * stride + s) * splat(q[3]);
    a += load(stk + 4 * stride + s) * splat(q[4]); b += load(stk + 5 * stride + s) * splat(q[5]);
    a += load(stk + 6 * stride + s) * splat(q[6]); b += load(stk + 7 * stride + s) * splat(q[7]);
    store(out + s, a + b);
  }
}
// the four products of two stacks with two generators, n entries each; ADD: to what is there
template <bool ADD, class T> DAL_INLINE void four_rows(const T* stk1, const T* stk2, int stride, int n, const T* q1, const T* q2, T* r11, T* r22, T* r12, T* r21) {
  if constexpr (std::is_same_v<T, double>) {
    for (int s = 0; s < n; s += kWidth) {
      Vec z = Vec{}, a[2] = {ADD ? load(r11 + s) : z, z}, b[2] = {ADD ? load(r22 + s) : z, z}, c[2] = {ADD ? load(r12 + s) : z, z}, d[2] = {ADD ? load(r21 + s) : z, z};
#pragma GCC unroll 8
      for (int l = 0; l < 8; ++l) {  // two sums each: the latency of one is longer than a round
        Vec u = load(stk1 + l * stride + s), v = load(stk2 + l * stride + s), x = splat(q1[l]), y = splat(q2[l]);
        a[l & 1] += u * x; b[l & 1] += v * y; c[l & 1] += u * y; d[l & 1] += v * x;
      }
      store(r11 + s, a[0] + a[1]); store(r22 + s, b[0] + b[1]); store(r12 + s, c[0] + c[1]); store(r21 + s, d[0] + d[1]);
    }
  } else {
    for (int s = 0; s < n; ++s) {
      T z = T(0.0), a = ADD ? r11[s] : z, b = ADD ? r22[s] : z, c = ADD ? r12[s] : z, d = ADD ? r21[s] : z;
      for (int l = 0; l < 8; ++l) {
        T u = stk1[l * stride + s], v = stk2[l * stride + s];
        a += u * q1[l]; b += v * q2[l]; c += u * q2[l]; d += v * q1[l];
      }
      r11[s] = a; r22[s] = b; r12[s] = c; r21[s] = d;
    }
  }
}
template <class T> DAL_INLINE void push(T* stk, int stride, int s, const T* P) {
  for (int l = 0; l < 8; ++l) stk[l * stride + s] = P[l];
}

// scatter four packed rows of joint d into the dense blocks: ancestors by depth in path
template <class T> DAL_INLINE void scatter_rows(const ModelData& M, int d, const T* r11, const T* r22, const T* r12, const T* r21, const Hessian<T>& E) {
  int nq = M.nq, qd = M.joints[d].q, n = M.joints[d].depth_all;
  const int* path = M.path_q.data() + M.path_off[d];
  T *c11 = E.h11 + size_t(qd) * nq, *c22 = E.h22 + size_t(qd) * nq, *c12 = E.h12 + size_t(qd) * nq;
  for (int s = 0; s <= n; ++s) {
    int qa = path[s];
    c11[qa] = r11[s];
    c22[qa] = r22[s];
    c12[qa] = r21[s];
    E.h11[qa * nq + qd] = r11[s];
    E.h22[qa * nq + qd] = r22[s];
    E.h12[qa * nq + qd] = r12[s];
  }
}

template <class T> DAL_INLINE void clear(const ModelData& M, const Hessian<T>& E) {
  for (int i = 0; i < M.nq * M.nq; ++i) { E.h11[i] = T(0.0); E.h12[i] = T(0.0); E.h22[i] = T(0.0); }
}

// Dense second derivatives over all variables (6.1): writes the ancestor pairs only, so E must be zero elsewhere (potentials add to other
// entries: clear() first). After generators(). newton (only when M.all_dynamic): the mixed rows are left in w.up, w.lo, where they are the
// packed Newton matrix.
template <class T> void second(Work<T>& w, const Hessian<T>& E, bool newton = false) {
  const ModelData& M = *w.M;
  int stride = padded(M.nm + 1);
  if (!M.potentials.empty()) clear(M, E);
  T *r11 = w.row, *r22 = w.row + stride, *r12 = w.row + 2 * stride, *r21 = w.row + 3 * stride;
  for (int d = 0; d < M.nm; ++d) {
    int n = M.joints[d].depth_all;
    if (newton) { r12 = w.up + M.eoff[d]; r21 = w.lo + M.eoff[d]; }
    push(w.stk1, stride, n, w.P1 + 8 * d);
    push(w.stk2, stride, n, w.P2 + 8 * d);
    const T *Q1 = w.Q1 + 8 * d, *Q2 = w.Q2 + 8 * d;
    four_rows<false>(w.stk1, w.stk2, stride, n + 1, Q1, Q2, r11, r22, r12, r21);
    scatter_rows(M, d, r11, r22, r12, r21, E);
  }
}

// third derivatives contracted with the direction (w.dq, w.dv) (section 7). After composites(keep_bodies) and generators(). `zeroed`: E is zero
// outside of the ancestor pairs already.
template <class T> void third(Work<T>& w, const Slots<T>& s, const Hessian<T>& E, bool zeroed = false) {
  const ModelData& M = *w.M;
  int stride = padded(M.nm + 1);
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
  }
  for (int j = 0; j < M.nm; ++j) {
    int n = M.joints[j].node;
    w.dF[j] = mul(w.dIC[n], w.S[j]) + mul(w.IC[n], w.dS[j]);
    w.dG[j] = mul(w.dIC[n], w.B[j]) + mul(w.IC[n], w.dB[j]) + crossf(w.dS[j], w.H[n]) + crossf(w.S[j], w.dH[n]);
    left_generator(w.dP1 + 8 * j, w.dS[j], w.dB[j], s.a1, s.b1, gz);
    left_generator(w.dP2 + 8 * j, w.dS[j], w.dB[j], s.a2, s.b2, gz);
    right_generator(w.dQ1 + 8 * j, w.dF[j], w.dG[j], s.a1, s.b1);
    right_generator(w.dQ2 + 8 * j, w.dF[j], w.dG[j], s.a2, s.b2);
  }
  if (!zeroed) {
    // constraints add to h11 and h22 of other pairs, potentials and forces also to h12
    bool mixed = !M.potentials.empty() || !M.forces.empty();
    for (int i = 0; i < M.nq * M.nq; ++i) { E.h11[i] = T(0.0); E.h22[i] = T(0.0); }
    if (mixed) for (int i = 0; i < M.nq * M.nq; ++i) E.h12[i] = T(0.0);
  }
  T *r11 = w.row, *r22 = w.row + stride, *r12 = w.row + 2 * stride, *r21 = w.row + 3 * stride;
  for (int d = 0; d < M.nm; ++d) {
    int n = M.joints[d].depth_all;
    push(w.stk1, stride, n, w.P1 + 8 * d); push(w.stk2, stride, n, w.P2 + 8 * d);
    push(w.stk3, stride, n, w.dP1 + 8 * d); push(w.stk4, stride, n, w.dP2 + 8 * d);
    const T *Q1 = w.Q1 + 8 * d, *Q2 = w.Q2 + 8 * d, *dQ1 = w.dQ1 + 8 * d, *dQ2 = w.dQ2 + 8 * d;
    four_rows<false>(w.stk1, w.stk2, stride, n + 1, dQ1, dQ2, r11, r22, r12, r21);
    four_rows<true>(w.stk3, w.stk4, stride, n + 1, Q1, Q2, r11, r22, r12, r21);
    scatter_rows(M, d, r11, r22, r12, r21, E);
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
