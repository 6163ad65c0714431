// Forces that depend on poses or are given by tapes: values and first derivatives in local variables, and the second
// derivatives of mu . F (KERNELS 8.4, 8.5). Damping and config forces are diagonal or constant and live in forces.hpp.
#pragma once
#include "potential.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// Rows: local forced variables. lg: F (rows); with order >= 1 lh: F_q (rows x n), lt: F_v (rows x n), fu: F_u (rows x nin).
template <class T> struct LocalForce {
  T *f, *fq, *fv, *fu;
  int rows, nin;
  const int* row_q;
  const int* inputs;
  int input_store[6];
};

// change of distance x: x_i = s_i / x; derivatives of x itself in w.lg, w.lh (, w.lt along delta)
template <class T> DAL_INLINE T distance(Work<T>& w, const Element& e, const Poses<T>& P, int order, const T* delta) {
  T s = half_square(w, e, P, order, delta);
  T x = sqrt_(s + s), ix = T(1.0) / x, ix2 = ix * ix;
  chain_rule(w, e.n, e.n, order, ix, -(ix * ix2), T(3.0) * ix * ix2 * ix2, delta);
  return x;
}

// world wrench about the reference point in internal axes for components (force 3, torque 3) in the element's axes
template <class T> DAL_INLINE V6<T> wrench_at(const Work<T>& w, const Element& e, const Poses<T>& P, const V3<T>& f, const V3<T>& t) {
  const ModelData& M = *w.M;
  int axes = int(e.par[6]);
  const Site& site = M.sites[e.site_a];
  if (axes == 0) {  // body axes at the frame's origin
    M3<T> R = mul_const(site_rotation(M, site, P), site.R);
    V3<T> fw = mul(R, f);
    return {mul(R, t) + cross(site_position(M, site, P), fw), fw};
  }
  V3<T> fw = mul(P.R[0], f), tw = mul(P.R[0], t);
  if (axes == 1) return {tw + cross(site_position(M, site, P), fw), fw};  // world axes at the frame's origin
  return {tw + cross(P.p[0], fw), fw};                                     // world axes, moment about the world origin
}

// Q_i and dQ_i/dq_k for one wrench; Q into g, derivatives into dg (if not null)
template <class T> DAL_INLINE void wrench_rows(Work<T>& w, const Element& e, const Poses<T>& P, const V3<T>& f, const V3<T>& t, T* g, T* dg) {
  const ModelData& M = *w.M;
  int n = e.n, axes = int(e.par[6]);
  const int* lj = M.local_joint.data() + e.vars;
  V6<T> W = wrench_at(w, e, P, f, t);
  for (int i = 0; i < n; ++i) g[i] = dot(joint_twist(M.joints[lj[i] - 1], lj[i], P), W);
  if (!dg) return;
  V3<T> tw = axes == 1 ? mul(P.R[0], t) : zero3<T>();
  if (axes == 1) site_first(w, e, P);
  for (int i = 0; i < n; ++i) {
    V6<T> Si = joint_twist(M.joints[lj[i] - 1], lj[i], P);
    for (int k = 0; k < n; ++k) {
      T x = T(0.0);
      if (axes == 0) {
        if (i < k) x = dot(crossm(Si, joint_twist(M.joints[lj[k] - 1], lj[k], P)), W);
      } else if (axes == 1) {
        int a = i < k ? i : k, b = i < k ? k : i;
        x = dot(W.v, cross(w.wv[a], w.di[b]));
        if (k < i) x += dot(tw, cross(w.wv[k], w.wv[i]));
      } else if (k < i) {
        x = dot(crossm(joint_twist(M.joints[lj[k] - 1], lj[k], P), Si), W);
      }
      dg[i * n + k] = x;
    }
  }
}

template <class T> DAL_INLINE void wrench_components(const Work<T>& w, const Element& e, V3<T>& f, V3<T>& t) {
  T x[6];
  for (int c = 0; c < 6; ++c) x[c] = e.input[c] >= 0 ? w.u[e.input[c]] : T(e.par[c]);
  f = {x[0], x[1], x[2]};
  t = {x[3], x[4], x[5]};
}
template <class T> DAL_INLINE void unit_component(int c, V3<T>& f, V3<T>& t) {
  T x[6];
  for (int i = 0; i < 6; ++i) x[i] = T(i == c ? 1.0 : 0.0);
  f = {x[0], x[1], x[2]};
  t = {x[3], x[4], x[5]};
}

template <class T> void force(Work<T>& w, const Element& e, const T* q, const T* v, const Poses<T>& P, int order, LocalForce<T>& out) {
  const ModelData& M = *w.M;
  const int* lq = M.local_q.data() + e.vars;
  int n = e.n;
  out.rows = n;
  out.row_q = lq;
  out.nin = 0;
  out.f = w.ld;
  out.fq = w.lh;
  out.fv = w.lt;
  out.fu = nullptr;
  switch (e.kind) {
    case ElementKind::LinearDamper: {  // F_i = -c xdot x_i
      distance(w, e, P, order >= 1 ? 2 : 1, (const T*)nullptr);
      T c = T(e.par[0]), xd = T(0.0);
      for (int i = 0; i < n; ++i) xd += w.lg[i] * v[lq[i]];
      for (int i = 0; i < n; ++i) out.f[i] = -(c * xd * w.lg[i]);
      if (order >= 1) {
        for (int k = 0; k < n; ++k) {
          T t = T(0.0);
          for (int l = 0; l < n; ++l) t += w.lh[k * n + l] * v[lq[l]];
          w.lb[k] = t;
        }
        for (int i = 0; i < n; ++i)
          for (int k = 0; k < n; ++k) {
            out.fv[i * n + k] = -(c * w.lg[i] * w.lg[k]);
            out.fq[i * n + k] = -(c * (w.lh[i * n + k] * xd + w.lg[i] * w.lb[k]));
          }
      }
      break;
    }
    case ElementKind::Wrench: {
      V3<T> f, t;
      wrench_components(w, e, f, t);
      wrench_rows(w, e, P, f, t, out.f, order >= 1 ? out.fq : (T*)nullptr);
      if (order >= 1) {
        for (int i = 0; i < n * n; ++i) out.fv[i] = T(0.0);
        out.fu = (T*)w.dij;  // n x 6 scratch (dij is free here)
        for (int c = 0; c < 6; ++c)
          if (e.input[c] >= 0) out.input_store[out.nin++] = e.input[c];
        int col = 0;
        for (int c = 0; c < 6; ++c) {
          if (e.input[c] < 0) continue;
          unit_component(c, f, t);
          V6<T> W = wrench_at(w, e, P, f, t);
          for (int i = 0; i < n; ++i) out.fu[i * out.nin + col] = dot(joint_twist(M.joints[M.local_joint[e.vars + i] - 1], M.local_joint[e.vars + i], P), W);
          ++col;
        }
        out.inputs = out.input_store;
      }
      break;
    }
    case ElementKind::TapeForce: {
      tape_force(w, e, q, v, order);
      out.rows = e.nrow;
      out.row_q = M.local_q.data() + e.rows;
      out.f = w.tape_out;
      out.fq = out.f + e.nrow;
      out.fv = out.fq + e.nrow * n;
      out.fu = out.fv + e.nrow * n;
      out.nin = order >= 1 ? e.nin : 0;
      out.inputs = M.tape_inputs.data() + e.in0;
      break;
    }
    default: break;
  }
}

// Second derivatives of mu . F: hqq (n x n), hvq (rows v, columns q), hvv, hqu (n x nin), hvu, huu; returned in blocks of w.lh, strides n/nin
template <class T> struct LocalForce2 {
  T *qq, *vq, *vv, *qu, *vu, *uu;
  int nin;
  const int* inputs;
  int input_store[6];
};

template <class T> void force_second(Work<T>& w, const Element& e, const T* q, const T* v, const Poses<T>& P, const T* mu_all, T* store, LocalForce2<T>& out) {
  const ModelData& M = *w.M;
  const int *lq = M.local_q.data() + e.vars, *lj = M.local_joint.data() + e.vars;
  int n = e.n;
  out.nin = 0;
  out.inputs = out.input_store;
  out.qq = store;
  out.vq = out.qq + n * n;
  out.vv = out.vq + n * n;
  out.qu = out.vv + n * n;
  switch (e.kind) {
    case ElementKind::LinearDamper: {  // mu.F = -c A B with A = x_q.v, B = x_q.mu
      T *mu = w.lc, *vl = w.lb;
      for (int i = 0; i < n; ++i) { mu[i] = mu_all[lq[i]]; vl[i] = v[lq[i]]; }
      T c = T(e.par[0]);
      distance(w, e, P, 3, vl);  // w.lt = A_qq
      for (int i = 0; i < n * n; ++i) out.vv[i] = w.lt[i];
      distance(w, e, P, 3, mu);  // w.lt = B_qq
      T A = T(0.0), B = T(0.0);
      T *Aq = w.ld, *Bq = w.la;
      for (int i = 0; i < n; ++i) {
        A += w.lg[i] * vl[i];
        B += w.lg[i] * mu[i];
        T a = T(0.0), b = T(0.0);
        for (int k = 0; k < n; ++k) { a += w.lh[i * n + k] * vl[k]; b += w.lh[i * n + k] * mu[k]; }
        Aq[i] = a;
        Bq[i] = b;
      }
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) {
          out.qq[i * n + k] = -(c * (out.vv[i * n + k] * B + Aq[i] * Bq[k] + Bq[i] * Aq[k] + A * w.lt[i * n + k]));
          out.vq[i * n + k] = -(c * (w.lh[i * n + k] * B + w.lg[i] * Bq[k]));
        }
      for (int i = 0; i < n * n; ++i) out.vv[i] = T(0.0);
      break;
    }
    case ElementKind::Wrench: {
      T* mu = w.lc;
      for (int i = 0; i < n; ++i) mu[i] = mu_all[lq[i]];
      for (int i = 0; i < 3 * n * n; ++i) out.qq[i] = T(0.0);
      V3<T> f, t;
      wrench_components(w, e, f, t);
      int axes = int(e.par[6]);
      V6<T> W = wrench_at(w, e, P, f, t);
      if (axes == 0) {  // ((eta_parent(l) x S_l) x S_k) . W for l <= k
        V6<T> eta = zero6<T>();
        for (int l = 0; l < n; ++l) {
          V6<T> Sl = joint_twist(M.joints[lj[l] - 1], lj[l], P), X = crossm(eta, Sl);
          for (int k = l; k < n; ++k) {
            T x = dot(crossm(X, joint_twist(M.joints[lj[k] - 1], lj[k], P)), W);
            out.qq[l * n + k] = x;
            out.qq[k * n + l] = x;
          }
          eta += Sl * mu[l];
        }
      } else if (axes == 1) {
        site_first(w, e, P);
        site_second(w, e);
        axes_along(w, e, mu);
        site_third(w, e, mu);
        V3<T> tw = mul(P.R[0], t);
        for (int k = n - 1; k >= 0; --k) {
          V3<T> sum = zero3<T>();
          for (int i = k + 1; i < n; ++i) sum += w.wv[i] * mu[i];
          V3<T> X = cross(w.wv[k], sum);
          for (int l = 0; l <= k; ++l) {
            T x = dot(W.v, w.ddij[l * n + k]) + dot(tw, cross(w.wv[l], X));
            out.qq[l * n + k] = x;
            out.qq[k * n + l] = x;
          }
        }
      } else {
        V6<T> sum = zero6<T>();
        for (int k = n - 1; k >= 0; --k) {
          V6<T> Sk = joint_twist(M.joints[lj[k] - 1], lj[k], P), X = crossm(Sk, sum);
          for (int l = 0; l <= k; ++l) {
            T x = dot(crossm(joint_twist(M.joints[lj[l] - 1], lj[l], P), X), W);
            out.qq[l * n + k] = x;
            out.qq[k * n + l] = x;
          }
          sum += Sk * mu[k];
        }
      }
      for (int c = 0; c < 6; ++c) if (e.input[c] >= 0) out.input_store[out.nin++] = e.input[c];
      out.vu = out.qu + n * 6;
      out.uu = out.vu + n * 6;
      for (int i = 0; i < 12 * n + 36; ++i) out.qu[i] = T(0.0);
      int col = 0;
      for (int c = 0; c < 6; ++c) {
        if (e.input[c] < 0) continue;
        unit_component(c, f, t);
        wrench_rows(w, e, P, f, t, w.ld, w.lt);
        for (int k = 0; k < n; ++k) {
          T x = T(0.0);
          for (int i = 0; i < n; ++i) x += mu[i] * w.lt[i * n + k];
          out.qu[k * out.nin + col] = x;
        }
        ++col;
      }
      break;
    }
    case ElementKind::TapeForce: {
      const T* H = tape_force_second(w, e, q, v, mu_all);
      int m = 2 * n + e.nin, nin = e.nin;
      out.nin = nin;
      out.inputs = M.tape_inputs.data() + e.in0;
      out.vu = out.qu + n * nin;
      out.uu = out.vu + n * nin;
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) {
          out.qq[i * n + k] = H[i * m + k];
          out.vq[i * n + k] = H[(n + i) * m + k];
          out.vv[i * n + k] = H[(n + i) * m + n + k];
        }
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < nin; ++k) {
          out.qu[i * nin + k] = H[i * m + 2 * n + k];
          out.vu[i * nin + k] = H[(n + i) * m + 2 * n + k];
        }
      for (int i = 0; i < nin; ++i)
        for (int k = 0; k < nin; ++k) out.uu[i * nin + k] = H[(2 * n + i) * m + 2 * n + k];
      break;
    }
    default: break;
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
