// Holonomic constraints, one row each: value, gradient, Hessian, third derivative along a direction, in local variables.
#pragma once
#include "potential.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// n . d with n fixed in a frame (KERNELS section 8, point-to-point and point-on-plane)
template <class T> T direction(Work<T>& w, const Element& e, const Poses<T>& P, int order, const T* delta) {
  const ModelData& M = *w.M;
  const unsigned char *anc = M.anc.data() + e.pair, *flag = M.path_flag.data() + e.vars;
  int n = e.n;
  V3<T> d = site_first(w, e, P);
  V3<T> nv = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(e.par));
  V3<T>*ni = w.ua, *dn = w.ub;
  for (int i = 0; i < n; ++i) {
    ni[i] = flag[i] & 4 ? cross(w.wv[i], nv) : zero3<T>();
    w.lg[i] = dot(ni[i], d) + dot(nv, w.di[i]);
  }
  if (order >= 2) {
    site_second(w, e);
    for (int i = 0; i < n; ++i)
      for (int k = i; k < n; ++k) {
        V3<T> nik = anc[i * n + k] && (flag[k] & 4) ? cross(w.wv[i], ni[k]) : zero3<T>();
        T x = dot(nik, d) + dot(ni[i], w.di[k]) + dot(ni[k], w.di[i]) + dot(nv, w.dij[i * n + k]);
        w.lh[i * n + k] = x;
        w.lh[k * n + i] = x;
      }
  }
  if (order >= 3) {
    axes_along(w, e, delta);
    V3<T> dd = site_third(w, e, delta);
    V3<T> dnv = zero3<T>();
    for (int i = 0; i < n; ++i) dnv += ni[i] * delta[i];
    for (int i = 0; i < n; ++i) dn[i] = flag[i] & 4 ? cross(w.dw[i], nv) + cross(w.wv[i], dnv) : zero3<T>();
    for (int i = 0; i < n; ++i)
      for (int k = i; k < n; ++k) {
        V3<T> nik = zero3<T>(), dnik = zero3<T>();
        if (anc[i * n + k] && (flag[k] & 4)) {
          nik = cross(w.wv[i], ni[k]);
          dnik = cross(w.dw[i], ni[k]) + cross(w.wv[i], dn[k]);
        }
        T x = dot(dnik, d) + dot(nik, dd) + dot(dn[i], w.di[k]) + dot(ni[i], w.ddi[k]) + dot(dn[k], w.di[i]) +
              dot(ni[k], w.ddi[i]) + dot(dnv, w.dij[i * n + k]) + dot(nv, w.ddij[i * n + k]);
        w.lt[i * n + k] = x;
        w.lt[k * n + i] = x;
      }
  }
  return dot(nv, d);
}

// order 1..3; results in w.lg, w.lh, w.lt; returns h. `size` receives the magnitude against which |h| is judged.
template <class T> T constraint(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, int order, const T* delta, T* size) {
  const ModelData& M = *w.M;
  const int* lq = M.local_q.data() + e.vars;
  int n = e.n;
  switch (e.kind) {
    case ElementKind::Distance: {  // 2 s - L^2
      T s = half_square(w, e, P, order, delta);
      int m = moving(e);
      for (int i = 0; i < m; ++i) w.lg[i] = T(2.0) * w.lg[i];
      if (order >= 2) for (int i = 0; i < m; ++i) for (int k = 0; k < m; ++k) w.lh[i * n + k] = T(2.0) * w.lh[i * n + k];
      if (order >= 3) for (int i = 0; i < m; ++i) for (int k = 0; k < m; ++k) w.lt[i * n + k] = T(2.0) * w.lt[i * n + k];
      T L = T(e.par[0]);
      if (e.length_var >= 0) {
        L = q[lq[m]];
        w.lg[m] = T(-2.0) * L;
        if (order >= 2) { for (int i = 0; i < n; ++i) { w.lh[i * n + m] = T(0.0); w.lh[m * n + i] = T(0.0); } w.lh[m * n + m] = T(-2.0); }
        if (order >= 3) for (int i = 0; i < n; ++i) { w.lt[i * n + m] = T(0.0); w.lt[m * n + i] = T(0.0); }
      }
      *size = T(2.0) * s + L * L;
      return T(2.0) * s - L * L;
    }
    case ElementKind::Direction: {
      T h = direction(w, e, P, order, delta);
      V3<T> pa = site_position(M, M.sites[e.site_a], P), pb = site_position(M, M.sites[e.site_b], P);
      *size = fabs_(pa.x) + fabs_(pa.y) + fabs_(pa.z) + fabs_(pb.x) + fabs_(pb.y) + fabs_(pb.z);
      return h;
    }
    case ElementKind::LinearRelation: {
      const double* k = M.relation.data() + int(e.par[1]);
      T h = T(-e.par[0]), sz = T(__builtin_fabs(e.par[0]));
      for (int i = 0; i < n; ++i) {
        T t = T(k[i]) * q[lq[i]];
        h += t;
        sz += fabs_(t);
        w.lg[i] = T(k[i]);
      }
      if (order >= 2) for (int i = 0; i < n * n; ++i) { w.lh[i] = T(0.0); w.lt[i] = T(0.0); }
      *size = sz;
      return h;
    }
    case ElementKind::Cam: {  // follower - profile(driver); local variables: driver, follower
      T y[4], area;
      spline_at(M.splines[e.spline], q[lq[0]], y, area);
      w.lg[0] = -y[1];
      w.lg[1] = T(1.0);
      for (int i = 0; i < 4; ++i) { w.lh[i] = T(0.0); w.lt[i] = T(0.0); }
      w.lh[0] = -y[2];
      if (order >= 3) w.lt[0] = -(y[3] * delta[0]);
      *size = fabs_(y[0]) + fabs_(q[lq[1]]);
      return q[lq[1]] - y[0];
    }
    case ElementKind::TapeConstraint: {
      T h = tape_scalar(w, e, q, order < 2 ? 1 : order, delta);
      T sz = T(1.0);
      for (int i = 0; i < n; ++i) sz += fabs_(w.lg[i] * q[lq[i]]);
      *size = sz;
      return h;
    }
    default: *size = T(1.0); return T(0.0);
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
