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
    if (order < 2) return slope(w, e, P, zero3<T>(), size);
    const ModelData& M = *w.M;
    const unsigned char *anc = ancestry_of(w, e), *flag = M.path_flag.data() + e.vars;
    int n = e.n;
    V3<T> d = site_first(w, e, P);
    V3<T> nv = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(e.par));
    V3<T>*ni = w.local.vec_a, *dn = w.local.vec_b;
    for (int i = 0; i < n; ++i) {
      ni[i] = flag[i] & 4 ? cross(w.local.axis[i], nv) : zero3<T>();
      w.local.gradient[i] = dot(ni[i], d) + dot(nv, w.local.d_i[i]);
    }
    site_second(w, e);
    for (int i = 0; i < n; ++i)
      for (int k = i; k < n; ++k) {
        V3<T> nik = anc[i * n + k] && (flag[k] & 4) ? cross(w.local.axis[i], ni[k]) : zero3<T>();
        T x = dot(nik, d) + dot(ni[i], w.local.d_i[k]) + dot(ni[k], w.local.d_i[i]) + dot(nv, w.local.d_ij[i * n + k]);
        w.local.hessian[i * n + k] = x;
        w.local.hessian[k * n + i] = x;
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
    set_size(site_position(M, M.sites[e.site_a], P), site_position(M, M.sites[e.site_b], P), size);
    return dot(nv, d);
  }
  template <class T> static DAL_INLINE void set_size(const V3<T>& pa, const V3<T>& pb, T* size) {
    *size = fabs_(pa.x) + fabs_(pa.y) + fabs_(pa.z) + fabs_(pb.x) + fabs_(pb.y) + fabs_(pb.z);
  }

  // Value and gradient by products with what all joints share: what a joint with axis w at p does to n.d is
  // w.((p_a - p) x n) where it moves a, less the same where it moves b, and w.(n x d) where it turns n. more: moments
  // on axes that turn a but not n (and, with the other sign, n but not a).
  template <class T>
  static DAL_INLINE T slope(Work<T>& w, const Element& e, const Poses<T>& P, const V3<T>& more, T* size) {
    const ModelData& M = *w.M;
    const unsigned char* flag = M.path_flag.data() + e.vars;
    const int* lj = M.local_joint.data() + e.vars;
    const V3<T> pa = site_position(M, M.sites[e.site_a], P), pb = site_position(M, M.sites[e.site_b], P), d = pa - pb,
                n = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(e.par)), a_n = cross(pa, n) + more,
                b_n = cross(pb, n), n_d = cross(n, d) - more;
    for (int i = 0; i < e.n; ++i) {
      const Joint& J = M.joints[lj[i] - 1];
      const V3<T>& axis = P.a[lj[i]];
      const int f = flag[i];
      const T sign = T(double(f & 1) - double(f >> 1 & 1));
      if (!J.turns()) {
        w.local.gradient[i] = sign * dot(axis, n);
        continue;
      }
      V3<T> moment = cross(P.p[lj[i]], n) * -sign;
      if (J.pitch != 0.0) moment += n * (sign * T(J.pitch));
      if (f & 1) moment += a_n;
      if (f & 2) moment -= b_n;
      if (f & 4) moment += n_d;
      w.local.gradient[i] = dot(axis, moment);
    }
    set_size(pa, pb, size);
    return dot(n, d);
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
