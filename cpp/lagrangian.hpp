// L = T - V(gravity): gradient in O(n), second derivatives in O(pairs), third derivatives contracted with a direction
// in O(pairs) (docs/kernels.md 3-7). Slots: a derivative slot i stands for a_i d/dq + b_i d/dv. The discrete
// Lagrangian uses (dt w_i, s_i) for x and y, the continuous one (1, 0) and (0, 1) for q and v; the same code serves
// both.
#pragma once
#include "side.hpp"
#include "tree.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> struct Slots {
  T a1, b1, a2, b2;
};

// L_q of a massive joint without elements: of inertia and gravity
//
// reads twists, comp.H, comp.c
template <class T> DAL_INLINE T slope_of_tree(const Work<T>& w, int j) {
  const int n = w.M->joints[j].node;
  const V3<T>& c = w.comp.c[n];
  const V6<T>& S = w.twists.S[j];
  const T lift = S.v.z * T(w.M->nodes[n].mass) + (S.w.x * c.y - S.w.y * c.x);
  return dot(w.twists.B[j], w.comp.H[n]) + T(w.M->gz) * lift;
}

// S, V, B of the massive joints, composite momenta, L_q and L_v (sections 2, 3, 5). Needs w.kin.mid at q and w.kin.v.
//
// reads kin.mid, kin.v; writes twists, comp.H, comp.c, first.Lq, first.Lv
template <class T> void gradient(Work<T>& w) {
  const ModelData& M = *w.M;
  const Poses<T>& P = w.kin.mid;
  // outward: twists and velocities. Along a chain the velocity stays in registers: what was just written is not read
  V6<T> Vp = zero6<T>();
  w.twists.V[0] = Vp;
  for (int j = 0, at = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    if (J.parent != at) Vp = w.twists.V[J.parent];
    at = j + 1;
    T vj = w.kin.v[J.v];
    const V3<T>& a = P.a[j + 1];
    if (!J.turns()) {
      w.twists.S[j] = {zero3<T>(), a};
      w.twists.B[j] = {zero3<T>(), cross(Vp.w, a)};
      Vp.v += a * vj;
    } else {
      V6<T> S = joint_twist(J, j + 1, P);
      w.twists.S[j] = S;
      w.twists.B[j] = crossm(Vp, S);
      Vp += S * vj;
    }
    w.twists.V[at] = Vp;
  }
  // momentum of every body about the reference point
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    if (N.body == 0) {
      w.comp.H[n] = zero6<T>();
      w.comp.c[n] = zero3<T>();
      continue;
    }
    const Joint& J = M.joints[N.joint - 1];
    const M3<T>& R = P.R[J.rot];
    const V3<T>& p = P.p[N.joint];
    const V6<T>& V = w.twists.V[N.joint];
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
    w.comp.H[n] = {n0 + cross(p, l), l};
    w.comp.c[n] = p * T(N.m) + cl;
  }
  // inward: composites, in registers along a chain
  V6<T> H = zero6<T>();
  V3<T> c = zero3<T>();
  for (int n = M.nn - 1, at = -1; n >= 0; --n) {
    if (n != at) H = w.comp.H[n], c = w.comp.c[n];
    at = M.nodes[n].parent;
    if (at < 0) continue;
    H += w.comp.H[at];
    c += w.comp.c[at];
    w.comp.H[at] = H;
    w.comp.c[at] = c;
  }
  for (int i = 0; i < M.nv; ++i) {
    w.first.Lq[i] = T(0.0);
    w.first.Lv[i] = T(0.0);
  }
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    w.first.Lv[J.v] = dot(w.twists.S[j], w.comp.H[J.node]);
    w.first.Lq[J.v] = slope_of_tree(w, j);
  }
}

// potential of uniform gravity, of all bodies at the reference point
//
// reads kin.reference
template <class T> DAL_INLINE T gravity_of_reference(const Work<T>& w) {
  const ModelData& M = *w.M;
  const V3<T> g = {T(M.Rg[2] * M.gz), T(M.Rg[5] * M.gz), T(M.Rg[8] * M.gz)};  // gravity in world axes
  T mass = T(0.0);
  for (int n : M.root_nodes) mass += T(M.nodes[n].mass);
  return -(mass * dot(g, w.kin.reference));
}

// kinetic energy and the potential of uniform gravity; after gradient()
//
// reads first.Lv, kin.v, comp.c, kin.reference; writes its results
template <class T> void energies(const Work<T>& w, T& kinetic, T& gravity) {
  const ModelData& M = *w.M;
  T t = T(0.0);
  for (int j = 0; j < M.nm; ++j) t += w.first.Lv[M.joints[j].v] * w.kin.v[M.joints[j].v];
  kinetic = T(0.5) * t;
  T g = gravity_of_reference(w);
  for (int n : M.root_nodes) g -= w.comp.c[n].z * T(M.gz);
  gravity = g;
}

// second moment of one body about the reference point; first: its first moment
template <class T>
DAL_INLINE S3<T> body_moment(const ModelData& M, const Node& N, const Poses<T>& P, V3<T>* first = nullptr) {
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
      I.xx += a.x * b.x;
      I.yy += a.y * b.y;
      I.zz += a.z * b.z;
      I.xy += a.x * b.y;
      I.xz += a.x * b.z;
      I.yz += a.y * b.z;
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

// composite inertias (4.1); after gradient(). keep_bodies also stores per-body blocks for the third derivatives.
//
// reads kin.mid, comp.c, twists.V; writes comp.IC, and comp.body, comp.body_momentum if asked for
template <class T> void composites(Work<T>& w, bool keep_bodies) {
  const ModelData& M = *w.M;
  const S3<T> none = {T(0.0), T(0.0), T(0.0), T(0.0), T(0.0), T(0.0)};
  for (int n = 0; n < M.nn; ++n) w.comp.IC[n] = {T(M.nodes[n].mass), w.comp.c[n], none};
  S3<T> below = none;  // of the nodes under this one; along a chain in registers
  for (int n = M.nn - 1, at = -1; n >= 0; --n) {
    const Node& N = M.nodes[n];
    V3<T> first = zero3<T>();
    S3<T> I = none;
    if (N.body != 0) I = body_moment(M, N, w.kin.mid, &first);
    if (keep_bodies) {
      w.comp.body[n] = {T(N.m), first, I};
      w.comp.body_momentum[n] = N.body == 0 ? zero6<T>() : mul(w.comp.body[n], w.twists.V[N.joint]);
    }
    if (n != at) below = w.comp.IC[n].I;
    I += below;
    w.comp.IC[n].I = I;
    at = N.parent;
    if (at < 0) continue;
    below = w.comp.IC[at].I;
    below += I;
    w.comp.IC[at].I = below;
  }
}

// ---- Generators (section 6), for several joints side by side

// a_i (y, y6, y7) + b_i (x, 0, 0) for both slots, entries `step` apart
template <class T, class L>
DAL_INLINE void put_generators(T* P1, T* P2, int step, const V6<L>& x, const V6<L>& y, const L& y6, const L& y7,
                               const Slots<T>& s) {
  const L a1 = L(s.a1), b1 = L(s.b1), a2 = L(s.a2), b2 = L(s.b2);
  const L X[8] = {x.w.x, x.w.y, x.w.z, x.v.x, x.v.y, x.v.z, L(0.0), L(0.0)},
          Y[8] = {y.w.x, y.w.y, y.w.z, y.v.x, y.v.y, y.v.z, y6, y7};
  constexpr int some = std::is_same_v<L, double> ? 8 : 6;  // entries to which X is added; zeros too where the eight
                                                           // entries of one joint fill registers
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) put_side(P1 + l * step, l < some ? Y[l] * a1 + X[l] * b1 : Y[l] * a1);
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) put_side(P2 + l * step, l < some ? Y[l] * a2 + X[l] * b2 : Y[l] * a2);
}
template <class T, class L>
DAL_INLINE void left_generators(T* P1, T* P2, int step, const V6<L>& S, const V6<L>& B, const Slots<T>& s,
                                const L& gz) {
  put_generators(P1, P2, step, S, B, gz * S.w.y, -(gz * S.w.x), s);
}
template <class T, class L>
DAL_INLINE void right_generators(T* Q1, T* Q2, int step, const V6<L>& F, const V6<L>& G, const Slots<T>& s) {
  put_generators(Q1, Q2, step, F, G, -F.v.x, -F.v.y, s);
}

// P_i, Q_i of every massive joint, joint after joint; after composites()
//
// reads twists, comp; writes gen.P1j .. Q2j
template <class T> void generators_by_joint(Work<T>& w, const Slots<T>& s) {
  const ModelData& M = *w.M;
  for (int j = M.nm - 1; j >= 0; --j) {  // what was written last is read last
    int n = M.joints[j].node;
    const V6<T>&S = w.twists.S[j], &B = w.twists.B[j];
    left_generators(w.gen.P1j + 8 * j, w.gen.P2j + 8 * j, 1, S, B, s, T(M.gz));
    right_generators(w.gen.Q1j + 8 * j, w.gen.Q2j + 8 * j, 1, mul(w.comp.IC[n], S),
                     mul(w.comp.IC[n], B) + crossf(S, w.comp.H[n]), s);
  }
}
// S, B, H, IC of the joints from j on
template <class T> DAL_INLINE void pick_joints(const Work<T>& w, int j, SideOf<T>* x) {
  const int* node = w.M->side_node.data() + j;
  pick<6, T>(x, [&](int i) { return &w.twists.S[j + i].w.x; });
  pick<6, T>(x + 6, [&](int i) { return &w.twists.B[j + i].w.x; });
  pick<6, T>(x + 12, [&](int i) { return &w.comp.H[node[i]].w.x; });
  pick<10, T>(x + 18, [&](int i) { return &w.comp.IC[node[i]].m; });
}
// the same side by side. keep: what they are made of stays in w.comp.side for the third derivatives.
//
// reads twists, comp; writes gen.P1 .. Q2, and comp.side if asked for
template <class T> void generators(Work<T>& w, const Slots<T>& s, bool keep = false) {
  if constexpr (Side<T>::n == 1) {
    generators_by_joint(w, s);
  } else {
    const ModelData& M = *w.M;
    for (int j = 0; j < M.nm; j += Side<T>::n) {
      Lanes x[28];
      pick_joints(w, j, x);
      if (keep)
#pragma GCC unroll 28
        for (int l = 0; l < 28; ++l) put_side(w.comp.side + lane_of<T>(j, 28) + l * kBlock, x[l]);
      const V6<Lanes> S = as_twist(x), B = as_twist(x + 6), H = as_twist(x + 12);
      const Inertia<Lanes> IC = as_inertia(x + 18);
      const int at = lane_of<T>(j, 8);
      left_generators(w.gen.P1 + at, w.gen.P2 + at, kBlock, S, B, s, Lanes(M.gz));
      right_generators(w.gen.Q1 + at, w.gen.Q2 + at, kBlock, mul(IC, S), mul(IC, B) + crossf(S, H), s);
    }
  }
}

// ---- Rows of second derivatives: products of the generators P of the ancestors of a joint with its Q (6.1)

DAL_INLINE const RowPlan& row_plan(const ModelData& M) { return kBlock == 8 ? M.rows8 : M.rows4; }

enum class Rows {
  mixed,
  all,
  along
};  // P1.Q2 and P2.Q1; also P1.Q1 and P2.Q2; all of them differentiated along a direction: P.dQ + dP.Q
template <class T> struct FourRows {
  T *r11, *r22, *r12, *r21;  // by joint
};
template <class T> DAL_INLINE FourRows<T> row_space(const Work<T>& w, int k) {
  int stride = padded(w.M->nm + 1);
  T* r = w.gen.row + 4 * k * stride;
  return {r, r + stride, r + 2 * stride, r + 3 * stride};
}

// the rows of the joints d, ..., d + K - 1, which follow each other in the tree and in the blocks: calls put(k, t, s,
// four vectors in the order of FourRows) for the columns of the joints s, ..., s + kWidth - 1 of joint d + k, in the
// t-th entry of the plan
template <Rows WHICH, int K, class F> DAL_INLINE void rows_of(const Work<double>& w, int d, F put) {
  const RowPlan& R = row_plan(*w.M);
  constexpr bool all = WHICH != Rows::mixed, along = WHICH == Rows::along;
  const int own = lane_of<double>(d, 8), blocks = R.off[d + 1] - R.off[d];
  const double *q1 = w.gen.Q1 + own, *q2 = w.gen.Q2 + own, *e1 = along ? w.along.dQ1 + own : q1,
               *e2 = along ? w.along.dQ2 + own : q2;
  for (int t = R.off[d]; t < R.off[d + 1]; ++t)
#pragma GCC unroll 2
    for (int part = 0; part < kBlock; part += kWidth) {
      const int s = R.first[t] + part, at = lane_of<double>(s, 8);
      Vec a[K][4];
#pragma GCC unroll 2
      for (int k = 0; k < K; ++k)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) a[k][i] = Vec{};
      auto add = [&](const double* x1, const double* x2, const double* y1, const double* y2)
                     __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int l = 0; l < 8; ++l) {
          const Vec u = load(x1 + l * kBlock), v = load(x2 + l * kBlock);
#pragma GCC unroll 2
          for (int k = 0; k < K; ++k) {
            const Vec x = splat(y1[l * kBlock + k]), y = splat(y2[l * kBlock + k]);
            if (all) {
              a[k][0] += u * x;
              a[k][1] += v * y;
            }
            a[k][2] += u * y;
            a[k][3] += v * x;
          }
        }
      };
      add(w.gen.P1 + at, w.gen.P2 + at, opaque(e1), opaque(e2));
      if (along) add(w.along.dP1 + at, w.along.dP2 + at, opaque(q1), opaque(q2));
#pragma GCC unroll 2
      for (int k = 0; k < K; ++k) put(k, t + k * blocks, s, a[k]);
    }
}
// calls put(as above) for all massive joints, then(joint, its row_space) after each; after generators()
template <Rows WHICH, class F, class G> DAL_INLINE void for_rows(const Work<double>& w, F put, G then) {
  const ModelData& M = *w.M;
  for (int d = 0; d < M.nm; ++d)
    if (row_plan(M).paired[d]) {
      rows_of<WHICH, 2>(
          w, d, [&](int k, int t, int s, const Vec* a) __attribute__((always_inline)) { put(d + k, k, t, s, a); });
      then(d, row_space(w, 0));
      then(++d, row_space(w, 1));
    } else {
      rows_of<WHICH, 1>(w, d,
                        [&](int k, int t, int s, const Vec* a) __attribute__((always_inline)) { put(d, k, t, s, a); });
      then(d, row_space(w, 0));
    }
}
// the rows as they are, in row_space
template <Rows WHICH, class G> DAL_INLINE void for_rows(const Work<double>& w, G then) {
  for_rows<WHICH>(w, [&](int, int k, int, int s, const Vec* a) __attribute__((always_inline)) {
    const FourRows<double> r = row_space(w, k);
    if (WHICH != Rows::mixed) {
      store(r.r11 + s, a[0]);
      store(r.r22 + s, a[1]);
    }
    store(r.r12 + s, a[2]);
    store(r.r21 + s, a[3]);
  }, then);
}
template <Rows WHICH, class T, class G> DAL_INLINE void for_rows(const Work<T>& w, G then) {
  const ModelData& M = *w.M;
  constexpr bool all = WHICH != Rows::mixed, along = WHICH == Rows::along;
  const FourRows<T> r = row_space(w, 0);
  for (int d = 0; d < M.nm; ++d) {
    const int own = lane_of<T>(d, 8);
    const T *q1 = w.gen.Q1 + own, *q2 = w.gen.Q2 + own, *e1 = along ? w.along.dQ1 + own : q1,
            *e2 = along ? w.along.dQ2 + own : q2;
    for (int t = M.path_offset[d]; t < M.path_offset[d + 1]; ++t) {
      int j = M.path_joint[t], at = lane_of<T>(j, 8);
      T a = T(0.0), b = a, c = a, f = a;
      auto add = [&](const T* x1, const T* x2, const T* y1, const T* y2) {
        for (int l = 0; l < 8; ++l) {
          T u = x1[l * Side<T>::block], v = x2[l * Side<T>::block], x = y1[l * Side<T>::block],
            y = y2[l * Side<T>::block];
          if (all) {
            a += u * x;
            b += v * y;
          }
          c += u * y;
          f += v * x;
        }
      };
      add(w.gen.P1 + at, w.gen.P2 + at, e1, e2);
      if (along) add(w.along.dP1 + at, w.along.dP2 + at, q1, q2);
      if (all) {
        r.r11[j] = a;
        r.r22[j] = b;
      }
      r.r12[j] = c;
      r.r21[j] = f;
    }
    then(d, r);
  }
}

// the upper triangles from the lower ones (h12: from w.gen.mixed), four by four
//
// reads gen.mixed and the lower triangles of E; writes its upper ones
DAL_INLINE void mirror(const Work<double>& w, const Hessian<double>& E) {
  const ModelData& M = *w.M;
  int nv = M.nv, lm = padded(M.nm);
  for (size_t t = 0; t < M.mirror.size(); t += 2) {
    int i = M.mirror[t], k = M.mirror[t + 1], from = i * nv + k, to = k * nv + i;
    take_transposed<false>(E.h11 + to, nv, E.h11 + from, nv, 4, 4);
    take_transposed<false>(E.h22 + to, nv, E.h22 + from, nv, 4, 4);
    take_transposed<false>(E.h12 + to, nv, w.gen.mixed + i * lm + k, lm, 4, 4);
  }
  for (int i = 0; i < M.nm; ++i)  // what is left: blocks on the diagonal, and the last rows
    for (int k = i < M.mirrored ? i / 4 * 4 : 0; k < i; ++k) {
      E.h11[k * nv + i] = E.h11[i * nv + k];
      E.h22[k * nv + i] = E.h22[i * nv + k];
      E.h12[k * nv + i] = w.gen.mixed[i * lm + k];
    }
}

// All rows into the dense blocks with the columns that mirror them; then(joint, its mixed rows) after each.
template <Rows WHICH, class T, class G>
DAL_INLINE void dense_rows(const Work<T>& w, const Hessian<T>& E, bool keep_mixed, G then) {
  const ModelData& M = *w.M;
  const int nv = M.nv;
  if constexpr (std::is_same_v<T, double>)
    if (M.in_order) {  // whole blocks: zero where joints are not related, anything where mirror() will write
      const RowPlan& R = row_plan(M);
      const int lm = padded(M.nm);
      for_rows<WHICH>(w, [&](int d, int k, int t, int s, const Vec* a) __attribute__((always_inline)) {
        const int64_t* mask = R.masks.data() + R.mask[t] + (s & (kBlock - 1));
        const IVec m = load_mask(mask);
        const size_t at = size_t(d) * nv + s;
        store(w.gen.mixed + d * lm + s, keep(m, a[2]));
        if (s + kWidth <= nv) {
          store(E.h11 + at, keep(m, a[0]));
          store(E.h22 + at, keep(m, a[1]));
          store(E.h12 + at, keep(m, a[3]));
        } else {
          for (int i = 0; i < nv - s; ++i)
            if (mask[i]) {
              E.h11[at + i] = a[0][i];
              E.h22[at + i] = a[1][i];
              E.h12[at + i] = a[3][i];
            }
        }
        if (keep_mixed) {
          const FourRows<T> r = row_space(w, k);
          store(r.r12 + s, a[2]);
          store(r.r21 + s, a[3]);
        }
      }, then);
      mirror(w, E);
      return;
    }
  for_rows<WHICH>(w, [&](int d, const FourRows<T>& r) __attribute__((always_inline)) {
    const int qd = M.joints[d].v;
    T *c11 = E.h11 + size_t(qd) * nv, *c22 = E.h22 + size_t(qd) * nv, *c12 = E.h12 + size_t(qd) * nv;
    for (int t = M.path_offset[d]; t < M.path_offset[d + 1]; ++t) {
      int qa = M.path_v[t], j = M.path_joint[t];
      c11[qa] = E.h11[qa * nv + qd] = r.r11[j];
      c22[qa] = E.h22[qa * nv + qd] = r.r22[j];
      c12[qa] = r.r21[j];
      E.h12[qa * nv + qd] = r.r12[j];
    }
    then(d, r);
  });
}

// the mixed rows of joint j into the packed Newton matrix, row d
template <class T> DAL_INLINE void pack_rows(const Work<T>& w, int j, const FourRows<T>& r) {
  const ModelData& M = *w.M;
  int d = M.joints[j].v, s = 0;
  if (d >= M.nd) return;
  T *up = w.newton.upper + M.elim_row[d], *lo = w.newton.lower + M.elim_row[d];
  if (M.all_dynamic) {
    for (int t = M.path_offset[j]; t < M.path_offset[j + 1]; ++t, ++s) {
      up[s] = r.r12[M.path_joint[t]];
      lo[s] = r.r21[M.path_joint[t]];
    }
    return;
  }
  const int* map = M.slot_map.data() + M.slot_off[d];
  for (int t = M.path_offset[j]; t < M.path_offset[j + 1]; ++t)
    if (M.path_v[t] < M.nd) {
      int a = M.path_joint[t], at = M.coupled ? map[s] : s;
      up[at] = r.r12[a];
      lo[at] = r.r21[a];
      ++s;
    }
}

template <class T> DAL_INLINE void clear_packed(const Work<T>& w) {
  for (int i = 0; i < w.M->packed; ++i) {
    w.newton.lower[i] = T(0.0);
    w.newton.upper[i] = T(0.0);
  }
}
template <class T> DAL_INLINE void clear(const ModelData& M, const Hessian<T>& E) {
  for (int i = 0; i < M.nv * M.nv; ++i) {
    E.h11[i] = T(0.0);
    E.h12[i] = T(0.0);
    E.h22[i] = T(0.0);
  }
}

// Dense second derivatives over all variables (6.1): writes the ancestor pairs (and zeros of other pairs of joints), so
// E must be zero elsewhere (potentials add to other entries: clear() first). After generators(). newton: also the
// packed Newton matrix.
//
// reads gen; writes E, gen.row, gen.mixed, and newton.lower, newton.upper if asked for
template <class T> void second(Work<T>& w, const Hessian<T>& E, bool newton = false) {
  const ModelData& M = *w.M;
  if (!M.potentials.empty()) clear(M, E);
  if (newton && M.coupled) clear_packed(w);
  dense_rows<Rows::all>(w, E, newton, [&](int d, const FourRows<T>& r) {
    if (newton) pack_rows(w, d, r);
  });
}

// twists of the variation along (w.along.dq, w.along.dv): eta, xi of (7.1), (7.2), by pose index
//
// reads along.dq, along.dv, twists; writes along.eta, along.xi
template <class T> void twists_along(Work<T>& w) {
  const ModelData& M = *w.M;
  Eight<T> none{}, e, x, S, B;
  none.write(&w.along.eta[0].t.w.x);
  none.write(&w.along.xi[0].t.w.x);
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    T dq = w.along.dq[J.v], dv = w.along.dv[J.v];
    e.read(&w.along.eta[J.parent].t.w.x);
    x.read(&w.along.xi[J.parent].t.w.x);
    S.read(&w.twists.S[j].w.x);
    B.read(&w.twists.B[j].w.x);
    e.add(dq, S);
    x.add(dq, B);
    x.add(dv, S);
    e.write(&w.along.eta[j + 1].t.w.x);
    x.write(&w.along.xi[j + 1].t.w.x);
  }
}

// third derivatives contracted with the direction (w.along.dq, w.along.dv) (section 7). After composites(keep_bodies)
// and generators(keep). `zeroed`: E is zero outside of the ancestor pairs already.
//
// reads twists, comp, gen, along.dq, along.dv; writes E, the rest of along, gen.row, gen.mixed
template <class T> void third(Work<T>& w, const Slots<T>& s, const Hessian<T>& E, bool zeroed = false) {
  using L = SideOf<T>;
  const ModelData& M = *w.M;
  twists_along(w);
  for (int n = 0; n < M.nn; ++n) {
    const Node& N = M.nodes[n];
    if (N.body == 0) {
      w.along.dH[n] = zero6<T>();
      w.along.dIC[n] = {T(0.0), zero3<T>(), {T(0.0), T(0.0), T(0.0), T(0.0), T(0.0), T(0.0)}};
      continue;
    }
    const V6<T>& eta = w.along.eta[N.joint].t;
    w.along.dH[n] = crossf(eta, w.comp.body_momentum[n]) + mul(w.comp.body[n], w.along.xi[N.joint].t);
    w.along.dIC[n] = transport(eta, w.comp.body[n]);
  }
  for (int n = M.nn - 1; n >= 0; --n) {
    int up = M.nodes[n].parent;
    if (up >= 0) {
      w.along.dH[up] += w.along.dH[n];
      w.along.dIC[up] += w.along.dIC[n];
    }
  }
  for (int j = 0; j < M.nm; j += Side<T>::n) {
    const int *node = M.side_node.data() + j, *parent = M.side_parent.data() + j;
    L x[28], y[9];
    if constexpr (Side<T>::n == 1) {
      pick_joints(w, j, x);
    } else {
#pragma GCC unroll 28
      for (int l = 0; l < 28; ++l) x[l] = get_side(w.comp.side + lane_of<T>(j, 28) + l * kBlock);
    }
    const V6<L> S = as_twist(x), B = as_twist(x + 6), H = as_twist(x + 12);
    const Inertia<L> IC = as_inertia(x + 18);
    const V6<L> eta = pick6<T>([&](int i) { return &w.along.eta[parent[i]].t.w.x; }),
                xi = pick6<T>([&](int i) { return &w.along.xi[parent[i]].t.w.x; });
    const V6<L> dS = crossm(eta, S), dB = crossm(eta, B) + crossm(xi, S);
    const int at = lane_of<T>(j, 8);
    left_generators(w.along.dP1 + at, w.along.dP2 + at, Side<T>::block, dS, dB, s, L(M.gz));
    const V6<L> dH = pick6<T>([&](int i) { return &w.along.dH[node[i]].w.x; });
    pick<9, T>(y, [&](int i) { return &w.along.dIC[node[i]].c.x; });
    const V3<L> c = {y[0], y[1], y[2]};
    const S3<L> I = {y[3], y[4], y[5], y[6], y[7], y[8]};
    right_generators(w.along.dQ1 + at, w.along.dQ2 + at, Side<T>::block, mul(c, I, S) + mul(IC, dS),
                     mul(c, I, B) + mul(IC, dB) + crossf(dS, H) + crossf(S, dH), s);
  }
  if (!zeroed) {
    // constraints add to h11 and h22 of other pairs, potentials and forces also to h12
    bool mixed = !M.potentials.empty() || !M.forces.empty();
    for (int i = 0; i < M.nv * M.nv; ++i) {
      E.h11[i] = T(0.0);
      E.h22[i] = T(0.0);
    }
    if (mixed)
      for (int i = 0; i < M.nv * M.nv; ++i) E.h12[i] = T(0.0);
  }
  dense_rows<Rows::along>(w, E, false, [](int, const FourRows<T>&) {});
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
