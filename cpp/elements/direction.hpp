// n . (p_a - p_b) with n fixed in the joint frame of site c: points that coincide along a direction, a point in a plane
// (docs/kernels.md 8). Numbers: n in that joint's axes.
#pragma once
#include "constraint.hpp"
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Direction : LocalConstraint<Direction> {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T*, const Poses<T>& P, int order, const T* delta, T* size) {
    const ModelData& M = *w.M;
    const unsigned char *anc = order < 2 ? nullptr : ancestry_of(w, e), *flag = M.path_flag.data() + e.vars;
    int n = e.n;
    V3<T> d = site_first(w, e, P);
    V3<T> nv = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(e.par));
    V3<T>*ni = w.local.vec_a, *dn = w.local.vec_b;
    for (int i = 0; i < n; ++i) {
      ni[i] = flag[i] & 4 ? cross(w.local.axis[i], nv) : zero3<T>();
      w.local.gradient[i] = dot(ni[i], d) + dot(nv, w.local.d_i[i]);
    }
    if (order >= 2) {
      site_second(w, e);
      for (int i = 0; i < n; ++i)
        for (int k = i; k < n; ++k) {
          V3<T> nik = anc[i * n + k] && (flag[k] & 4) ? cross(w.local.axis[i], ni[k]) : zero3<T>();
          T x = dot(nik, d) + dot(ni[i], w.local.d_i[k]) + dot(ni[k], w.local.d_i[i]) +
                dot(nv, w.local.d_ij[i * n + k]);
          w.local.hessian[i * n + k] = x;
          w.local.hessian[k * n + i] = x;
        }
    }
    if (order >= 3) {
      axes_along(w, e, delta);
      V3<T> dd = site_third(w, e, delta);
      V3<T> dnv = zero3<T>();
      for (int i = 0; i < n; ++i) dnv += ni[i] * delta[i];
      for (int i = 0; i < n; ++i)
        dn[i] = flag[i] & 4 ? cross(w.local.d_axis[i], nv) + cross(w.local.axis[i], dnv) : zero3<T>();
      for (int i = 0; i < n; ++i)
        for (int k = i; k < n; ++k) {
          V3<T> nik = zero3<T>(), dnik = zero3<T>();
          if (anc[i * n + k] && (flag[k] & 4)) {
            nik = cross(w.local.axis[i], ni[k]);
            dnik = cross(w.local.d_axis[i], ni[k]) + cross(w.local.axis[i], dn[k]);
          }
          T x = dot(dnik, d) + dot(nik, dd) + dot(dn[i], w.local.d_i[k]) + dot(ni[i], w.local.dd_i[k]) +
                dot(dn[k], w.local.d_i[i]) + dot(ni[k], w.local.dd_i[i]) + dot(dnv, w.local.d_ij[i * n + k]) +
                dot(nv, w.local.dd_ij[i * n + k]);
          w.local.third[i * n + k] = x;
          w.local.third[k * n + i] = x;
        }
    }
    V3<T> pa = site_position(M, M.sites[e.site_a], P), pb = site_position(M, M.sites[e.site_b], P);
    *size = fabs_(pa.x) + fabs_(pa.y) + fabs_(pa.z) + fabs_(pb.x) + fabs_(pb.y) + fabs_(pb.z);
    return dot(nv, d);
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    const M3<T>& R = site_rotation(*w.M, w.M->sites[e.site_c], P);
    const V3<T> d = site_gap(w, e, P), n = mul(R, vec3<T>(e.par)), by_n = tmul(R, d) * weight;
    put_add(g.own, by_n);
    add_between(w, g, e, P, n * weight);
    g.wrench[w.M->sites[e.site_c].pose].w += cross(n, d) * weight;  // n is given in the axes of the joint, not the site
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
