// n . (p_a - p_b) with n fixed in the joint frame of site c: points that coincide along a direction, a point in a plane
// (KERNELS section 8). Numbers: n in that joint's axes.
#pragma once
#include "constraint.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Direction : LocalConstraint<Direction> {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta, T* size) {
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
    V3<T> pa = site_position(M, M.sites[e.site_a], P), pb = site_position(M, M.sites[e.site_b], P);
    *size = fabs_(pa.x) + fabs_(pa.y) + fabs_(pa.z) + fabs_(pb.x) + fabs_(pb.y) + fabs_(pb.z);
    return dot(nv, d);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
