// The vector d = p_a - p_b between two sites (or the position of one), with derivatives by the local variables
// (docs/kernels.md 8.1, 8.2). For i an ancestor of k (or k itself): d_ik = w_i x d_k; everything else vanishes.
#pragma once
#include "../tree.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> DAL_INLINE V3<T> point_velocity(const Joint& J, const V3<T>& a, const V3<T>& pj, const V3<T>& p) {
  if (!J.turns()) return a;
  V3<T> u = cross(a, p - pj);
  if (J.pitch != 0.0) u += a * T(J.pitch);
  return u;
}

// number of local variables that move a joint (a variable length comes last and moves none)
DAL_INLINE int moving(const Element& e) { return e.length_var >= 0 ? e.n - 1 : e.n; }

// d and d_i into w.local.d_i, axes into w.local.axis
template <class T> DAL_INLINE V3<T> site_first(Work<T>& w, const Element& e, const Poses<T>& P) {
  const ModelData& M = *w.M;
  V3<T> pa = site_position(M, M.sites[e.site_a], P);
  V3<T> pb = e.site_b < 0 ? zero3<T>() : site_position(M, M.sites[e.site_b], P);
  const int* lj = M.local_joint.data() + e.vars;
  const unsigned char* flag = M.path_flag.data() + e.vars;
  for (int i = 0, n = moving(e); i < n; ++i) {
    const Joint& J = M.joints[lj[i] - 1];
    const V3<T>&a = P.a[lj[i]], &pj = P.p[lj[i]];
    V3<T> u = zero3<T>();
    if (flag[i] & 1) u += point_velocity(J, a, pj, pa);
    if (flag[i] & 2) u -= point_velocity(J, a, pj, pb);
    w.local.d_i[i] = u;
    w.local.axis[i] = !J.turns() ? zero3<T>() : a;
  }
  return pa - pb;
}

// which local variables of an element are above which (n x n); of a long one it is made here
//
// writes local.ancestry
template <class T> DAL_APART const unsigned char* long_ancestry(const Work<T>& w, const Element& e) {
  const ModelData& M = *w.M;
  const int* at = M.local_joint.data() + e.vars;
  unsigned char* out = w.local.ancestry;
  for (int i = 0; i < e.n; ++i) {
    const int from = at[i] > 0 ? M.pose_enter[at[i]] : 1, to = at[i] > 0 ? M.pose_leave[at[i]] : 0;
    for (int k = 0; k < e.n; ++k) {
      const int x = at[k] > 0 ? M.pose_enter[at[k]] : -1;
      out[i * e.n + k] = from <= x && x < to;
    }
  }
  return out;
}
template <class T> DAL_INLINE const unsigned char* ancestry_of(const Work<T>& w, const Element& e) {
  return e.n <= kShortElement ? w.M->ancestry.data() + e.pair : long_ancestry(w, e);
}

// Local variables are ordered so that ancestors come first: only i <= k is stored, and i < k can only mean "i above k".
// d_ik into w.local.d_ij, i <= k
template <class T> DAL_INLINE void site_second(Work<T>& w, const Element& e) {
  const unsigned char* anc = ancestry_of(w, e);
  int m = moving(e), n = e.n;
  for (int i = 0; i < m; ++i)
    for (int k = i; k < m; ++k)
      w.local.d_ij[i * n + k] = anc[i * n + k] ? cross(w.local.axis[i], w.local.d_i[k]) : zero3<T>();
}

// the nearest local variable above i, -1 if none
DAL_INLINE int local_parent(const unsigned char* anc, int n, int i) {
  int k = i - 1;
  while (k >= 0 && !anc[k * n + i]) --k;
  return k;
}

// true if local variable i turns its joint (sliding joints have no axis of rotation)
DAL_INLINE bool turns(const ModelData& M, const Element& e, int i) {
  return M.joints[M.local_joint[e.vars + i] - 1].turns();
}

// change of axes along delta: Om_i = sum of w_k delta_k over k above and including i, into w.local.turn; dw_i = Om_i x
// w_i, into w.local.d_axis
template <class T> DAL_INLINE void axes_along(Work<T>& w, const Element& e, const T* delta) {
  const unsigned char* anc = ancestry_of(w, e);
  int m = moving(e), n = e.n;
  for (int i = 0; i < m; ++i) {
    int up = local_parent(anc, n, i);
    V3<T> om = up >= 0 ? w.local.turn[up] : zero3<T>();
    bool turn = turns(*w.M, e, i);
    w.local.d_axis[i] = turn ? cross(om, w.local.axis[i]) : zero3<T>();  // w_i x w_i = 0
    w.local.turn[i] = turn ? om + w.local.axis[i] * delta[i] : om;
  }
}

// along delta: dd (returned), d_i' into w.local.dd_i, d_ik' into w.local.dd_ij; after site_second and axes_along
template <class T> DAL_INLINE V3<T> site_third(Work<T>& w, const Element& e, const T* delta) {
  const unsigned char* anc = ancestry_of(w, e);
  int m = moving(e), n = e.n;
  V3<T> dd = zero3<T>();
  for (int i = 0; i < m; ++i) {
    dd += w.local.d_i[i] * delta[i];
    V3<T> s = zero3<T>();
    for (int k = 0; k < i; ++k) s += w.local.d_ij[k * n + i] * delta[k];
    for (int k = i; k < m; ++k) s += w.local.d_ij[i * n + k] * delta[k];
    w.local.dd_i[i] = s;
  }
  for (int i = 0; i < m; ++i)
    for (int k = i; k < m; ++k)
      w.local.dd_ij[i * n + k] = anc[i * n + k] ? cross(w.local.d_axis[i], w.local.d_i[k]) +
                                                      cross(w.local.axis[i], w.local.dd_i[k])
                                                : zero3<T>();
  return dd;
}

// Half squared distance s = d.d / 2 (docs/kernels.md 8.3). For i above k: s_ik = d_i.d_k + d.(w_i x d_k) = e_i.d_k with
// e_i = d_i + d x w_i; unrelated pairs have d_i.d_k. The third derivative is the product rule on that, with d_i' = Om_i
// x d_i + w_i x (sum of d_k delta_k below i). Rows of pairs are computed for all k at once from d_k (and d_k') by
// component: w.local.by_component holds six arrays of w.local.stride entries.
template <class T> DAL_INLINE void by_component(Work<T>& w, const V3<T>* d, int m, int first) {
  T *x = w.local.by_component + first * w.local.stride, *y = x + w.local.stride, *z = y + w.local.stride;
  for (int k = 0; k < m; ++k) {
    x[k] = d[k].x;
    y[k] = d[k].y;
    z[k] = d[k].z;
  }
}
// out[k] (+)= e . d_k for k from .. m (rounded down and up to whole vectors)
template <bool ADD, class T>
DAL_INLINE void row_of_dots(const Work<T>& w, T* out, const V3<T>& e, int first, int from, int m) {
  const T *x = w.local.by_component + first * w.local.stride, *y = x + w.local.stride, *z = y + w.local.stride;
  if constexpr (std::is_same_v<T, double>) {
    Vec ex = splat(e.x), ey = splat(e.y), ez = splat(e.z);
    for (int k = from / kWidth * kWidth; k < m; k += kWidth) {
      Vec t = ex * load(x + k) + ey * load(y + k) + ez * load(z + k);
      store(out + k, ADD ? load(out + k) + t : t);
    }
  } else {
    for (int k = from; k < m; ++k) {
      T t = e.x * x[k] + e.y * y[k] + e.z * z[k];
      out[k] = ADD ? out[k] + t : t;
    }
  }
}
// local variables below i that follow it without a gap
DAL_INLINE int below_in_row(const unsigned char* anc, int i, int m) {
  int k = i + 1;
  while (k < m && anc[k]) ++k;
  return k;
}
// put(i, k, s_ik) for all i <= k; after site_first, which returned d
template <class T, class Put> DAL_INLINE void square_hessian(Work<T>& w, const Element& e, const V3<T>& d, Put put) {
  int m = moving(e), n = e.n;
  T *above = w.local.by_component + 6 * w.local.stride, *other = above + w.local.stride;
  by_component(w, w.local.d_i, m, 0);
  const unsigned char* all = ancestry_of(w, e);
  for (int i = 0; i < m; ++i) {
    const unsigned char* anc = all + i * n;
    int run = below_in_row(anc, i, m);
    row_of_dots<false>(w, above, turns(*w.M, e, i) ? w.local.d_i[i] + cross(d, w.local.axis[i]) : w.local.d_i[i], 0, i,
                       m);
    put(i, i, above[i]);
    for (int k = i + 1; k < run; ++k) put(i, k, above[k]);
    if (run == m) continue;
    row_of_dots<false>(w, other, w.local.d_i[i], 0, run, m);
    for (int k = run; k < m; ++k) put(i, k, anc[k] ? above[k] : other[k]);
  }
}
// put(i, k, s_ik along delta) for all i <= k; d_i' stays in w.local.dd_i; returns d'
template <class T, class Put>
DAL_INLINE V3<T> square_third(Work<T>& w, const Element& e, const V3<T>& d, const T* delta, Put put) {
  int m = moving(e), n = e.n;
  const unsigned char* anc = ancestry_of(w, e);
  T *above = w.local.by_component + 6 * w.local.stride, *other = above + w.local.stride;
  axes_along(w, e, delta);  // w.local.turn, w.local.d_axis
  V3<T> dd = zero3<T>();
  for (int i = 0; i < m; ++i) {
    dd += w.local.d_i[i] * delta[i];
    w.local.vec_a[i] = zero3<T>();
  }
  for (int i = m - 1; i >= 0; --i) {  // w.local.vec_a: sum of d_k delta_k below i
    int up = local_parent(anc, n, i);
    if (up >= 0) w.local.vec_a[up] += w.local.vec_a[i] + w.local.d_i[i] * delta[i];
    w.local.dd_i[i] = cross(w.local.turn[i], w.local.d_i[i]);
    if (turns(*w.M, e, i)) w.local.dd_i[i] += cross(w.local.axis[i], w.local.vec_a[i]);
  }
  by_component(w, w.local.d_i, m, 0);
  by_component(w, w.local.dd_i, m, 3);
  for (int i = 0; i < m; ++i) {
    V3<T> a = w.local.d_i[i], b = w.local.dd_i[i], ea = a, eb = b;
    if (turns(*w.M, e, i)) {
      ea += cross(d, w.local.axis[i]);
      eb += cross(dd, w.local.axis[i]) + cross(d, w.local.d_axis[i]);
    }
    row_of_dots<false>(w, above, eb, 0, i, m);
    row_of_dots<true>(w, above, ea, 3, i, m);
    int run = below_in_row(anc + i * n, i, m);
    put(i, i, above[i]);
    for (int k = i + 1; k < run; ++k) put(i, k, above[k]);
    if (run == m) continue;
    row_of_dots<false>(w, other, b, 0, run, m);
    row_of_dots<true>(w, other, a, 3, run, m);
    for (int k = run; k < m; ++k) put(i, k, anc[i * n + k] ? above[k] : other[k]);
  }
  return dd;
}
// order 1: w.local.gradient = s_i; 2: w.local.hessian = s_ik; 3: w.local.third = s_ik along delta
template <class T>
DAL_INLINE T half_square(Work<T>& w, const Element& e, const Poses<T>& P, int order, const T* delta) {
  int m = moving(e), n = e.n;
  V3<T> d = site_first(w, e, P);
  for (int i = 0; i < m; ++i) w.local.gradient[i] = dot(d, w.local.d_i[i]);
  if (order >= 2)
    square_hessian(w, e, d, [&](int i, int k, T x) { w.local.hessian[i * n + k] = w.local.hessian[k * n + i] = x; });
  if (order >= 3)
    square_third(w, e, d, delta, [&](int i, int k, T x) { w.local.third[i * n + k] = w.local.third[k * n + i] = x; });
  return T(0.5) * dot(d, d);
}

// Turns derivatives of s into those of a function phi(s) with phi', phi'', phi''' (in place: w.local.gradient,
// w.local.hessian, w.local.third)
template <class T> DAL_INLINE void chain_rule(Work<T>& w, int m, int n, int order, T f1, T f2, T f3, const T* delta) {
  if (order >= 3) {
    T ds = T(0.0);
    for (int i = 0; i < m; ++i) ds += w.local.gradient[i] * delta[i];
    for (int i = 0; i < m; ++i) {
      T t = T(0.0);
      for (int k = 0; k < m; ++k) t += w.local.hessian[i * n + k] * delta[k];
      w.local.a[i] = t;
    }
    for (int i = 0; i < m; ++i)
      for (int k = 0; k < m; ++k)
        w.local.third[i * n + k] = f3 * ds * w.local.gradient[i] * w.local.gradient[k] +
                                   f2 * (w.local.a[i] * w.local.gradient[k] + w.local.gradient[i] * w.local.a[k] +
                                         ds * w.local.hessian[i * n + k]) +
                                   f1 * w.local.third[i * n + k];
  }
  if (order >= 2)
    for (int i = 0; i < m; ++i)
      for (int k = 0; k < m; ++k)
        w.local.hessian[i * n + k] = f2 * w.local.gradient[i] * w.local.gradient[k] + f1 * w.local.hessian[i * n + k];
  for (int i = 0; i < m; ++i) w.local.gradient[i] = f1 * w.local.gradient[i];
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
