// Height of the centre of a disk or sphere above the plane that it touches: N . (p_a - p_b) - rho s with s = |N - (N.n)
// n| for a disk with axis n, 1 for a sphere (docs/kernels.md 19.2). N is fixed in the joint frame of site c, n in that
// of a. Numbers: N, n (0: a sphere), rho.
#pragma once
#include "direction.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Height : LocalConstraint<Height> {
  template <class T>
  static T value(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, int order, const T* delta, T* size) {
    const T rho = T(e.par[6]);
    const bool disk = e.par[3] != 0 || e.par[4] != 0 || e.par[5] != 0;
    if (order < 2) {
      V3<T> moment = zero3<T>();
      T s = T(1.0);
      if (disk) {  // ds/dc = -c/s, and an axis w that turns n alone changes c by w.(n x N)
        const Site &sa = w.M->sites[e.site_a], &sc = w.M->sites[e.site_c];
        const V3<T> N = mul(site_rotation(*w.M, sc, P), vec3<T>(e.par)),
                    n = mul(site_rotation(*w.M, sa, P), vec3<T>(e.par + 3));
        const T c = dot(N, n);
        s = sqrt_(T(1.0) - c * c);
        moment = cross(n, N) * (rho * c / s);
      }
      const T h = Direction::slope(w, e, P, moment, size);
      *size += rho;
      return h - rho * s;
    }
    const T h = Direction::value(w, e, q, P, order, delta, size);
    *size += rho;
    if (!disk) return h - rho;
    // c = N.n and its derivatives, by the product rule, as Direction has N.d; it has left N_i in vec_a
    const ModelData& M = *w.M;
    const unsigned char *anc = ancestry_of(w, e), *flag = M.path_flag.data() + e.vars;
    const int m = e.n;
    const V3<T> N = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(e.par)),
                n = mul(site_rotation(M, M.sites[e.site_a], P), vec3<T>(e.par + 3));
    V3<T>*axis = w.local.axis, *d_axis = w.local.d_axis, *N_i = w.local.vec_a, *n_i = w.local.dd_i,
    *dN_i = w.local.vec_b, *dn_i = w.local.turn;
    T *c_i = w.local.a, *dc_i = w.local.b;
    const T c = dot(N, n), s = sqrt_(T(1.0) - c * c), s1 = -(c / s), s2 = -(T(1.0) / (s * s * s)),
            s3 = T(3.0) * c * s2 / (s * s);
    V3<T> dN = zero3<T>(), dn = zero3<T>();
    for (int i = 0; i < m; ++i) {
      n_i[i] = flag[i] & 1 ? cross(axis[i], n) : zero3<T>();
      c_i[i] = dot(N_i[i], n) + dot(N, n_i[i]);
      if (order < 3) continue;
      dN += N_i[i] * delta[i];
      dn += n_i[i] * delta[i];
    }
    for (int i = 0; order >= 3 && i < m; ++i) {
      dN_i[i] = flag[i] & 4 ? cross(d_axis[i], N) + cross(axis[i], dN) : zero3<T>();
      dn_i[i] = flag[i] & 1 ? cross(d_axis[i], n) + cross(axis[i], dn) : zero3<T>();
      dc_i[i] = dot(dN_i[i], n) + dot(N_i[i], dn) + dot(dN, n_i[i]) + dot(N, dn_i[i]);
    }
    T dc = dot(dN, n) + dot(N, dn);
    for (int i = 0; i < m; ++i)
      for (int k = i; k < m; ++k) {
        const bool above = anc[i * m + k];
        const V3<T> N_ik = above && (flag[k] & 4) ? cross(axis[i], N_i[k]) : zero3<T>(),
                    n_ik = above && (flag[k] & 1) ? cross(axis[i], n_i[k]) : zero3<T>();
        const T c_ik = dot(N_ik, n) + dot(N_i[i], n_i[k]) + dot(N_i[k], n_i[i]) + dot(N, n_ik);
        auto add = [&](T* to, T x) {
          to[i * m + k] -= rho * x;
          if (i != k) to[k * m + i] -= rho * x;
        };
        add(w.local.hessian, s2 * c_i[i] * c_i[k] + s1 * c_ik);
        if (order < 3) continue;
        const V3<T> dN_ik = above && (flag[k] & 4) ? cross(d_axis[i], N_i[k]) + cross(axis[i], dN_i[k]) : zero3<T>(),
                    dn_ik = above && (flag[k] & 1) ? cross(d_axis[i], n_i[k]) + cross(axis[i], dn_i[k]) : zero3<T>();
        const T dc_ik = dot(dN_ik, n) + dot(N_ik, dn) + dot(dN_i[i], n_i[k]) + dot(N_i[i], dn_i[k]) +
                        dot(dN_i[k], n_i[i]) + dot(N_i[k], dn_i[i]) + dot(dN, n_ik) + dot(N, dn_ik);
        add(w.local.third,
            s3 * dc * c_i[i] * c_i[k] + s2 * (dc_i[i] * c_i[k] + c_i[i] * dc_i[k] + dc * c_ik) + s1 * dc_ik);
      }
    for (int i = 0; i < m; ++i) w.local.gradient[i] -= rho * s1 * c_i[i];
    return h - rho * s;
  }

  template <class T>
  static void by_numbers(Work<T>& w, const Element& e, const T*, const Poses<T>& P, const T& weight, NumberSums<T>& g) {
    const ModelData& M = *w.M;
    const Site &sa = M.sites[e.site_a], &sc = M.sites[e.site_c];
    const M3<T>&Ra = site_rotation(M, sa, P), &Rc = site_rotation(M, sc, P);
    const bool disk = e.par[3] != 0 || e.par[4] != 0 || e.par[5] != 0;
    const T rho = T(e.par[6]);
    const V3<T> N = mul(Rc, vec3<T>(e.par)), n = disk ? mul(Ra, vec3<T>(e.par + 3)) : zero3<T>();
    const T c = dot(N, n), s = disk ? sqrt_(T(1.0) - c * c) : T(1.0);
    const V3<T> by_N = (site_gap(w, e, P) + n * (rho * c / s)) * weight, by_n = N * (weight * rho * c / s);
    put_add(g.own, tmul(Rc, by_N));
    if (disk) put_add(g.own + 3, tmul(Ra, by_n));
    g.own[6] -= weight * s;
    add_between(w, g, e, P, N * weight);
    g.wrench[sc.pose].w += cross(N, by_N);  // N and n are given in the axes of joints, not of sites
    g.wrench[sa.pose].w += cross(n, by_n);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
