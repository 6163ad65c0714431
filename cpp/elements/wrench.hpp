// Force and torque on a site (docs/kernels.md 8.4). Numbers: force 3, torque 3 (where an input drives them: its gear),
// axes.
#pragma once
#include "force.hpp"
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// world wrench about the reference point in internal axes for components (force 3, torque 3) in the element's axes
template <class T>
DAL_INLINE V6<T> wrench_at(const Work<T>& w, const Element& e, const Poses<T>& P, const V3<T>& f, const V3<T>& t) {
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
  return {tw + cross(P.p[0], fw), fw};                                    // world axes, moment about the world origin
}

// Q_i and dQ_i/dq_k for one wrench; Q into g, derivatives into dg (if not null)
template <class T>
DAL_INLINE void wrench_rows(Work<T>& w, const Element& e, const Poses<T>& P, const V3<T>& f, const V3<T>& t, T* g,
                            T* dg) {
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
        x = dot(W.v, cross(w.local.axis[a], w.local.d_i[b]));
        if (k < i) x += dot(tw, cross(w.local.axis[k], w.local.axis[i]));
      } else if (k < i) {
        x = dot(crossm(joint_twist(M.joints[lj[k] - 1], lj[k], P), Si), W);
      }
      dg[i * n + k] = x;
    }
  }
}

template <class T> DAL_INLINE void wrench_components(const Work<T>& w, const Element& e, V3<T>& f, V3<T>& t) {
  T x[6];
  for (int c = 0; c < 6; ++c) x[c] = e.input[c] >= 0 ? T(e.par[c]) * w.step.u[e.input[c]] : T(e.par[c]);
  f = {x[0], x[1], x[2]};
  t = {x[3], x[4], x[5]};
}
template <class T> DAL_INLINE void unit_component(int c, V3<T>& f, V3<T>& t, double size = 1.0) {
  T x[6];
  for (int i = 0; i < 6; ++i) x[i] = T(i == c ? size : 0.0);
  f = {x[0], x[1], x[2]};
  t = {x[3], x[4], x[5]};
}

struct Wrench {
  template <class T>
  static void value(Work<T>& w, const Element& e, const T*, const T*, const Poses<T>& P, int order,
                    LocalForce<T>& out) {
    const ModelData& M = *w.M;
    const int* lj = M.local_joint.data() + e.vars;
    int n = e.n;
    V3<T> f, t;
    wrench_components(w, e, f, t);
    wrench_rows(w, e, P, f, t, out.f, order >= 1 ? out.fq : (T*)nullptr);
    if (order >= 1) {
      for (int i = 0; i < n * n; ++i) out.fv[i] = T(0.0);
      out.fu = w.local.by_input;
      for (int c = 0; c < 6; ++c)
        if (e.input[c] >= 0) out.input_store[out.nin++] = e.input[c];
      int col = 0;
      for (int c = 0; c < 6; ++c) {
        if (e.input[c] < 0) continue;
        unit_component(c, f, t, e.par[c]);
        V6<T> W = wrench_at(w, e, P, f, t);
        for (int i = 0; i < n; ++i) out.fu[i * out.nin + col] = dot(joint_twist(M.joints[lj[i] - 1], lj[i], P), W);
        ++col;
      }
      out.inputs = out.input_store;
    }
  }

  template <class T>
  static void second(Work<T>& w, const Element& e, const T*, const T*, const Poses<T>& P, const T* mu_all,
                     LocalForce2<T>& out) {
    const ModelData& M = *w.M;
    const int *lv = M.local_v.data() + e.vars, *lj = M.local_joint.data() + e.vars;
    int n = e.n;
    T* mu = w.local.c;
    for (int i = 0; i < n; ++i) mu[i] = mu_all[lv[i]];
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
        for (int i = k + 1; i < n; ++i) sum += w.local.axis[i] * mu[i];
        V3<T> X = cross(w.local.axis[k], sum);
        for (int l = 0; l <= k; ++l) {
          T x = dot(W.v, w.local.dd_ij[l * n + k]) + dot(tw, cross(w.local.axis[l], X));
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
    for (int c = 0; c < 6; ++c)
      if (e.input[c] >= 0) out.input_store[out.nin++] = e.input[c];
    out.vu = out.qu + n * 6;
    out.uu = out.vu + n * 6;
    for (int i = 0; i < 12 * n + 36; ++i) out.qu[i] = T(0.0);
    int col = 0;
    for (int c = 0; c < 6; ++c) {
      if (e.input[c] < 0) continue;
      unit_component(c, f, t, e.par[c]);
      wrench_rows(w, e, P, f, t, w.local.d, w.local.third);
      for (int k = 0; k < n; ++k) {
        T x = T(0.0);
        for (int i = 0; i < n; ++i) x += mu[i] * w.local.third[i * n + k];
        out.qu[k * out.nin + col] = x;
      }
      ++col;
    }
  }

  // delta . F = eta . W with the twist eta of the frame along delta. A motion of the frame's base moves eta with it,
  // but for the part that its own base has; what else it does to eta . W is the rate of W here.
  template <class D>
  static void by_numbers(Work<double>& w, const Work<D>& d, const Element& e, const double* delta, bool along_v,
                         NumberSums<D>& g) {
    if (along_v) return;
    const ModelData& M = *w.M;
    const Poses<double>& P = w.kin.mid;
    const int *lv = M.local_v.data() + e.vars, *lj = M.local_joint.data() + e.vars, axes = int(e.par[6]);
    V6<double> eta = zero6<double>();
    for (int i = 0; i < e.n; ++i) eta += joint_twist(M.joints[lj[i] - 1], lj[i], P) * delta[lv[i]];
    V3<double> f, t;
    wrench_components(w, e, f, t);
    const V6<double> W = wrench_at(w, e, P, f, t);
    V6<double> rate = zero6<double>();  // body axes: W moves with the frame
    if (axes == 1) {
      const V3<double> p = site_position(M, M.sites[e.site_a], P);
      rate.w = cross(eta.v + cross(eta.w, p), W.v) + cross(eta.w, mul(P.R[0], t));
    } else if (axes == 2) {
      rate = crossf(eta, W);
    }
    auto both = [](double x, double dx) { return D(x, dx); };
    add_on_site(d, g, e.site_a, d.kin.mid,
                V6<D>{{both(W.w.x, rate.w.x), both(W.w.y, rate.w.y), both(W.w.z, rate.w.z)},
                      {both(W.v.x, rate.v.x), both(W.v.y, rate.v.y), both(W.v.z, rate.v.z)}});
    for (int c = 0; c < 6; ++c) {
      unit_component(c, f, t, e.input[c] >= 0 ? w.step.u[e.input[c]] : 1.0);
      g.own[c] += D(0.0, dot(eta, wrench_at(w, e, P, f, t)));
    }
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
