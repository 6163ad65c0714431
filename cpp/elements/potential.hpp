// Potentials other than uniform gravity: value, gradient, Hessian, third derivative along a direction, in local variables.
#pragma once
#include "site.hpp"
#include "spline.hpp"
#include "tape.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// order 0..3; results in w.lg, w.lh, w.lt. delta: local direction (order 3). Returns V.
template <class T> T potential(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, int order, const T* delta) {
  const ModelData& M = *w.M;
  const int* lq = M.local_q.data() + e.vars;
  int n = e.n;
  switch (e.kind) {
    case ElementKind::LinearSpring: {  // k/2 (x - x0)^2 with x = sqrt(2 s)
      T s = half_square(w, e, P, order, delta);
      T k = T(e.par[0]), x0 = T(e.par[1]);
      if (e.par[1] == 0.0) {
        chain_rule(w, n, n, order, k, T(0.0), T(0.0), delta);
        return k * s;
      }
      T x = sqrt_(s + s), ix = T(1.0) / x, ix2 = ix * ix;
      T f2 = k * x0 * ix2 * ix;
      chain_rule(w, n, n, order, k - k * x0 * ix, f2, T(-3.0) * f2 * ix2, delta);
      return T(0.5) * k * (x - x0) * (x - x0);
    }
    case ElementKind::PointGravity: {  // -k / x
      T s = half_square(w, e, P, order, delta);
      T k = T(e.par[0]), ix = T(1.0) / sqrt_(s + s), ix2 = ix * ix, f1 = k * ix * ix2;
      chain_rule(w, n, n, order, f1, T(-3.0) * f1 * ix2, T(15.0) * f1 * ix2 * ix2, delta);
      return -(k * ix);
    }
    case ElementKind::SiteField: {  // -f . p, f constant (world axes): gravity on chosen masses
      V3<T> f = mul(P.R[0], vec3<T>(e.par));
      V3<T> p = site_first(w, e, P);
      for (int i = 0; i < n; ++i) w.lg[i] = -dot(f, w.di[i]);
      if (order >= 2) {
        site_second(w, e);
        for (int i = 0; i < n; ++i) for (int k = i; k < n; ++k) w.lh[i * n + k] = w.lh[k * n + i] = -dot(f, w.dij[i * n + k]);
      }
      if (order >= 3) {
        axes_along(w, e, delta);
        site_third(w, e, delta);
        for (int i = 0; i < n; ++i) for (int k = i; k < n; ++k) w.lt[i * n + k] = w.lt[k * n + i] = -dot(f, w.ddij[i * n + k]);
      }
      return -(dot(f, p) + dot(vec3<T>(e.par), w.ref));
    }
    case ElementKind::ConfigSpring: {
      T x = q[lq[0]] - T(e.par[1]), k = T(e.par[0]);
      w.lg[0] = k * x;
      w.lh[0] = k;
      w.lt[0] = T(0.0);
      return T(0.5) * k * x * x;
    }
    case ElementKind::SplineSpring: {  // force y(a q + b); V = -1/a times its integral
      T a = T(e.par[0]), y[4], area;
      spline_at(M.splines[e.spline], a * q[lq[0]] + T(e.par[1]), y, area);
      w.lg[0] = -y[0];
      w.lh[0] = -(a * y[1]);
      if (order >= 3) w.lt[0] = -(a * a * y[2] * delta[0]);
      return -(area / a);
    }
    case ElementKind::TapePotential: return tape_scalar(w, e, q, order, delta);
    default: return T(0.0);
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
