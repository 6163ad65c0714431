// Velocity with which the point X of a body slides on another, along t: t . (v_a(X) - v_b(X)) (docs/kernels.md 19.2).
// X = p_a - rho N (a sphere on the plane with normal N), the lowest point of a disk with axis n, or p_a itself (rho =
// 0: a blade, a knife edge). t is fixed in the joint frame of site c, N in that of b, n in that of a. Number: where t,
// N, n, rho start in `relation`; n = 0: a sphere.
#pragma once
#include "../tree.hpp"
#include "number_sums.hpp"
#include "site.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// where a round body touches a plane, from its centre: r, and (after start) its derivative by a change of N and n
template <class T> struct Lowest {
  V3<T> N, n, m;   // m = N - (N.n) n: along the radius of a disk
  T rho, k, over;  // k = N.n, over = 1/|m|
  bool disk;
  DAL_INLINE V3<T> start(const V3<T>& normal, const V3<T>& axis, bool is_disk, T radius) {
    N = normal, n = axis, rho = radius, disk = is_disk;
    if (!disk) return N * -rho;
    k = dot(N, n);
    m = N - n * k;
    over = T(1.0) / sqrt_(dot(m, m));
    return m * -(rho * over);
  }
  DAL_INLINE V3<T> change(const V3<T>& dN, const V3<T>& dn) const {
    if (!disk) return dN * -rho;
    const V3<T> dm = dN - n * (dot(dN, n) + dot(N, dn)) - dn * k;
    return (dm - m * (dot(m, dm) * over * over)) * -(rho * over);
  }
  // g . change(dN, dn) = by_N . dN + by_n . dn
  DAL_INLINE void slopes(const V3<T>& g, V3<T>& by_N, V3<T>& by_n) const {
    by_N = g * -rho, by_n = zero3<T>();
    if (!disk) return;
    const V3<T> G = (g - m * (dot(m, g) * over * over)) * -(rho * over);
    by_N = G - n * dot(n, G);
    by_n = (N * dot(n, G) + G * k) * T(-1.0);
  }
};

struct Slip {
  // of what a joint does to the velocity: 1 where it moves body a, -1 for b, 0 for both
  static DAL_INLINE double sign(unsigned char flag) { return double(flag & 1) - double(flag >> 1 & 1); }
  template <class T> static DAL_INLINE V3<T> direction(const ModelData& M, const Element& e, const Poses<T>& P) {
    return mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(M.relation.data() + int(e.par[0])));
  }
  // what value() and rate() begin with: t, the point X, and how it moves
  template <class T> struct Contact {
    V3<T> t, X, pa;
    Lowest<T> low;
    const unsigned char* flag;
    const int* lj;
    bool round;
    Contact(const Work<T>& w, const Element& e, const Poses<T>& P) {
      const ModelData& M = *w.M;
      const double* c = M.relation.data() + int(e.par[0]);
      flag = M.path_flag.data() + e.vars;
      lj = M.local_joint.data() + e.vars;
      X = pa = site_position(M, M.sites[e.site_a], P);
      t = mul(site_rotation(M, M.sites[e.site_c], P), vec3<T>(c));
      round = c[9] != 0;
      const bool disk = c[6] != 0 || c[7] != 0 || c[8] != 0;
      if (round)
        X += low.start(mul(site_rotation(M, M.sites[e.site_b], P), vec3<T>(c + 3)),
                       disk ? mul(site_rotation(M, M.sites[e.site_a], P), vec3<T>(c + 6)) : zero3<T>(), disk, T(c[9]));
    }
    DAL_INLINE T sign(int i) const { return T(Slip::sign(flag[i])); }
    DAL_INLINE V3<T> moved(const Joint& J, const Poses<T>& P, int i, const V3<T>& axis) const {  // dX/dq_i
      V3<T> d = flag[i] & 1 ? point_velocity(J, P.a[lj[i]], P.p[lj[i]], pa) : zero3<T>();
      if (round)
        d += low.change(flag[i] & 2 ? cross(axis, low.N) : zero3<T>(), flag[i] & 1 ? cross(axis, low.n) : zero3<T>());
      return d;
    }
  };

  // whether two rows are of one contact, and differ in their directions t alone
  static bool same(const ModelData& M, const Element& e, const Element& o) {
    if (e.kind != o.kind || e.site_a != o.site_a || e.site_b != o.site_b || e.site_c != o.site_c) return false;
    const double *x = M.relation.data() + int(e.par[0]), *y = M.relation.data() + int(o.par[0]);
    for (int i = 3; i < 10; ++i)
      if (x[i] != y[i]) return false;
    return true;
  }

  // a into w.local.gradient, the derivative of a v (v of all variables held) by q into w.local.a. Returns b, which is
  // 0. Joints i below k turn with it: the sum of d(v_i u_i(X)) over them is w_k x V - W x u_k(X), V and W their sums of
  // v_i u_i(X) and v_i w_i. `before`: the row that was evaluated last, with nothing else since, or null; one of the
  // same contact has left everything but the products with t in the scratch.
  template <class T>
  static T rate(Work<T>& w, const Element& e, const Element* before, const T*, const T* v, const Poses<T>& P) {
    const ModelData& M = *w.M;
    const int n = e.n;
    const unsigned char* flag = M.path_flag.data() + e.vars;
    V3<T>*u = w.local.d_i, *axis = w.local.axis, *dV = w.local.vec_a, *V = w.local.dd_i;
    if (!before || !same(M, e, *before)) velocities(w, e, v, P);
    const V3<T> t = direction(M, e, P);
    for (int k = 0; k < n; ++k) {
      w.local.gradient[k] = T(sign(flag[k])) * dot(t, u[k]);
      w.local.a[k] = dot(t, dV[k]) + (flag[k] & 4 ? dot(cross(axis[k], t), V[0]) : T(0.0));
    }
    return T(0.0);
  }
  // u_i(X) into w.local.d_i, axes into w.local.axis, V into the first of w.local.dd_i, its derivatives into
  // w.local.vec_a
  template <class T> static void velocities(Work<T>& w, const Element& e, const T* v, const Poses<T>& P) {
    const ModelData& M = *w.M;
    const unsigned char* anc = ancestry_of(w, e);
    const int *lv = M.local_v.data() + e.vars, n = e.n;
    const Contact<T> c(w, e, P);
    V3<T>*u = w.local.d_i, *axis = w.local.axis, *below = w.local.vec_a, *turning = w.local.vec_b, V = zero3<T>(),
    W = zero3<T>();
    for (int i = 0; i < n; ++i) {
      const Joint& J = M.joints[c.lj[i] - 1];
      const V3<T>& a = P.a[c.lj[i]];
      u[i] = point_velocity(J, a, P.p[c.lj[i]], c.X);
      axis[i] = J.turns() ? a : zero3<T>();
      const T x = c.sign(i) * v[lv[i]];
      below[i] = turning[i] = zero3<T>();
      V += u[i] * x;
      W += axis[i] * x;
    }
    for (int i = n - 1; i >= 0; --i) {
      const int up = local_parent(anc, n, i);
      if (up < 0) continue;
      const T x = c.sign(i) * v[lv[i]];
      below[up] += below[i] + u[i] * x;
      turning[up] += turning[i] + axis[i] * x;
    }
    for (int k = 0; k < n; ++k)
      below[k] = cross(W, c.moved(M.joints[c.lj[k] - 1], P, k, axis[k])) + cross(axis[k], below[k]) -
                 cross(turning[k], u[k]);
    w.local.dd_i[0] = V;
  }

  // a into w.local.gradient; order 2: da_i/dq_k into w.local.hessian, db/dq into w.local.a. Returns b, which is 0.
  // `before` as in rate(), of order 1.
  template <class T>
  static T value(Work<T>& w, const Element& e, const Element* before, const T*, const Poses<T>& P, int order) {
    const ModelData& M = *w.M;
    if (before && order < 2 && same(M, e, *before)) {
      const unsigned char* flag = M.path_flag.data() + e.vars;
      const V3<T> t = direction(M, e, P);
      for (int i = 0; i < e.n; ++i) w.local.gradient[i] = T(sign(flag[i])) * dot(t, w.local.d_i[i]);
      return T(0.0);
    }
    const unsigned char* anc = ancestry_of(w, e);
    const Contact<T> c(w, e, P);
    const unsigned char* flag = c.flag;
    const int *lj = c.lj, n = e.n;
    const V3<T>&t = c.t, &X = c.X;
    V3<T>*u = w.local.d_i, *axis = w.local.axis, *dX = w.local.vec_a, *dt = w.local.vec_b;
    for (int i = 0; i < n; ++i) {
      const Joint& J = M.joints[lj[i] - 1];
      const V3<T>& a = P.a[lj[i]];
      u[i] = point_velocity(J, a, P.p[lj[i]], X);
      axis[i] = J.turns() ? a : zero3<T>();
      w.local.gradient[i] = c.sign(i) * dot(t, u[i]);
      if (order < 2) continue;
      dX[i] = c.moved(J, P, i, axis[i]);
      dt[i] = flag[i] & 4 ? cross(axis[i], t) : zero3<T>();
    }
    for (int i = 0; order >= 2 && i < n; ++i) {
      const Joint& J = M.joints[lj[i] - 1];
      const V3<T>&a = P.a[lj[i]], &p = P.p[lj[i]];
      const T sign = c.sign(i);
      w.local.a[i] = T(0.0);
      for (int k = 0; k < n; ++k) {
        V3<T> du = cross(axis[i], dX[k]);
        if (k != i && anc[k * n + i]) {  // k moves the joint of i
          const V3<T> turned = cross(axis[k], a);
          if (J.turns()) {
            du += cross(turned, X - p) - cross(a, point_velocity(M.joints[lj[k] - 1], P.a[lj[k]], P.p[lj[k]], p));
            if (J.pitch != 0.0) du += turned * T(J.pitch);
          } else {
            du += turned;
          }
        }
        w.local.hessian[i * n + k] = sign * (dot(dt[k], u[i]) + dot(t, du));
      }
    }
    return T(0.0);
  }

  // a v = t . (dX_a - dX_b), the points of both bodies at X along the direction of the dual numbers. What moves with
  // body a takes along its velocity there: a wrench of the force t at X that goes with the body. X, t, N and n
  // themselves move with their sites and joints, too, while the velocities of both bodies stay (docs/kernels.md 20.5).
  template <class D>
  static void by_numbers(Work<D>& w, const Element& e, const D*, const Poses<D>& P, const D& weight, NumberSums<D>& g) {
    const ModelData& M = *w.M;
    const Site &sa = M.sites[e.site_a], &sb = M.sites[e.site_b], &sc = M.sites[e.site_c];
    const M3<D>&Ra = site_rotation(M, sa, P), &Rb = site_rotation(M, sb, P), &Rc = site_rotation(M, sc, P);
    const Contact<D> c(w, e, P);
    auto fixed = [](const V3<D>& x) { return V3<D>{D(x.x.v), D(x.y.v), D(x.z.v)}; };
    auto rate = [&](const V3<D>& x) { return V3<D>{D(x.x.d), D(x.y.d), D(x.z.d)}; };
    // the same coordinates in a body, wherever it goes
    auto along = [&](const M3<D>& R, const V3<D>& x) {
      return mul(R, tmul(M3<D>{{fixed(R.c[0]), fixed(R.c[1]), fixed(R.c[2])}}, fixed(x)));
    };
    auto spin = [&](const M3<D>& R) {
      V3<D> s = zero3<D>();
      for (int i = 0; i < 3; ++i) s += cross(fixed(R.c[i]), rate(R.c[i])) * D(0.5);
      return s;
    };
    const V3<D> Xa = along(Ra, c.X - P.p[sa.pose]) + P.p[sa.pose], Xb = along(Rb, c.X - P.p[sb.pose]) + P.p[sb.pose];
    const V3<D> ta = along(Ra, c.t) * weight, tb = along(Rb, c.t) * weight;
    g.wrench[sa.pose] += V6<D>{cross(Xa, ta), ta};
    g.wrench[sb.pose] += V6<D>{cross(tb, Xb), tb * D(-1.0)};
    // all that follows is a rate: its value is the dual part
    auto put = [](const V3<D>& x) { return V3<D>{D(0.0, x.x.v), D(0.0, x.y.v), D(0.0, x.z.v)}; };
    const V3<D> u = rate(Xa - Xb), t = fixed(c.t), by_X = cross(t, spin(Ra) - spin(Rb)) * weight, p = fixed(c.pa);
    const V3<D> force = put(by_X);
    add_on_site(w, g, e.site_a, P, V6<D>{put(cross(p, by_X)), force});
    g.wrench[sc.pose].w += put(cross(t, u) * weight);
    D* own = g.out + g.layout->relation + int(e.par[0]);
    put_add(own, put(tmul(Rc, u) * weight));
    if (!c.round) return;
    V3<D> by_N, by_n;
    c.low.slopes(by_X, by_N, by_n);
    g.wrench[sb.pose].w += put(cross(c.low.N, by_N));
    put_add(own + 3, put(tmul(Rb, by_N)));
    own[9] += D(0.0, (dot(by_X, c.X - c.pa) / c.low.rho).v);
    if (!c.low.disk) return;
    g.wrench[sa.pose].w += put(cross(c.low.n, by_n));
    put_add(own + 6, put(tmul(Ra, by_n)));
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
