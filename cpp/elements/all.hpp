// The one list of elements, and the only place that chooses between them.
//
// An element is one file here (named like its kind) and one class in src/dalembert/model/elements. Its file defines
// a struct named like its kind, with static functions on its local variables (Element::n of them, see model.hpp)
// that leave what they compute in the scratch of w: gradient w.local.gradient (n), Hessian w.local.hessian (n x n),
// third derivative along delta w.local.third (n x n). By family:
//
//   potential:  T value(w, e, q, P, order, delta)        V, and its derivatives up to `order` (0 is as 1)
//   force:      void value(w, e, q, v, P, order, out)    F, and with order 1 its first derivatives: LocalForce
//               void second(w, e, q, v, P, mu, out)      second derivatives of mu . F: LocalForce2
//   constraint: T value(w, e, q, P, order, delta, size)  h, as for potentials; *size: the magnitude against which |h|
//                                                        is judged; the rest from LocalConstraint<Kind>
//   velocity    T value(w, e, q, P, order)               b, with a in w.local.gradient; order 2: da_i/dq_k (which is
//   constraint:                                          not symmetric) in w.local.hessian, db/dq_k in w.local.a
//               T rate(w, e, q, v, P)                    b, with a in w.local.gradient, d(a v + b)/dq_k in w.local.a
//
// q, v: all variables of the model; P: poses of the joints there; delta: the direction in local variables.
#pragma once
#include "cam.hpp"
#include "config_spring.hpp"
#include "direction.hpp"
#include "distance.hpp"
#include "height.hpp"
#include "linear_damper.hpp"
#include "linear_relation.hpp"
#include "linear_spring.hpp"
#include "point_gravity.hpp"
#include "site_field.hpp"
#include "slip.hpp"
#include "spline_spring.hpp"
#include "tape_constraint.hpp"
#include "tape_force.hpp"
#include "tape_potential.hpp"
#include "tape_velocity.hpp"
#include "torsion_spring.hpp"
#include "wrench.hpp"

#define DALEMBERT_POTENTIALS(X) \
  X(LinearSpring) X(PointGravity) X(SiteField) X(ConfigSpring) X(SplineSpring) X(TorsionSpring) X(TapePotential)
#define DALEMBERT_FORCES(X) X(LinearDamper) X(Wrench) X(TapeForce)
#define DALEMBERT_CONSTRAINTS(X) X(Distance) X(Direction) X(LinearRelation) X(Cam) X(Height) X(TapeConstraint)
#define DALEMBERT_VELOCITIES(X) X(Slip) X(TapeVelocity)

namespace dalembert {

enum class ElementKind : int {
#define DALEMBERT_X(name) name,
  DALEMBERT_POTENTIALS(DALEMBERT_X) DALEMBERT_FORCES(DALEMBERT_X) DALEMBERT_CONSTRAINTS(DALEMBERT_X)
      DALEMBERT_VELOCITIES(DALEMBERT_X)
#undef DALEMBERT_X
};

namespace DALEMBERT_ARCH {

// Each calls f with the struct of the element's kind: a switch that inlines. Kinds are checked when a model is read.
#define DALEMBERT_X(name) \
  case ElementKind::name: return f(name{});
template <class F> DAL_INLINE auto as_potential(const Element& e, F f) {
  switch (e.kind) { DALEMBERT_POTENTIALS(DALEMBERT_X) default : __builtin_unreachable(); }
}
template <class F> DAL_INLINE auto as_force(const Element& e, F f) {
  switch (e.kind) { DALEMBERT_FORCES(DALEMBERT_X) default : __builtin_unreachable(); }
}
template <class F> DAL_INLINE auto as_constraint(const Element& e, F f) {
  switch (e.kind) { DALEMBERT_CONSTRAINTS(DALEMBERT_X) default : __builtin_unreachable(); }
}
template <class F> DAL_INLINE auto as_velocity(const Element& e, F f) {
  switch (e.kind) { DALEMBERT_VELOCITIES(DALEMBERT_X) default : __builtin_unreachable(); }
}
#undef DALEMBERT_X

// order 0..3; results in w.local.gradient, w.local.hessian, w.local.third; delta: local direction (order 3). Returns V.
template <class T> T potential(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, int order, const T* delta) {
  return as_potential(e, [&](auto kind) { return kind.value(w, e, q, P, order, delta); });
}

template <class T>
void force(Work<T>& w, const Element& e, const T* q, const T* v, const Poses<T>& P, int order, LocalForce<T>& out) {
  out.start(w, e);
  as_force(e, [&](auto kind) { kind.value(w, e, q, v, P, order, out); });
}

template <class T>
void force_second(Work<T>& w, const Element& e, const T* q, const T* v, const Poses<T>& P, const T* mu, T* store,
                  LocalForce2<T>& out) {
  out.start(e, store);
  as_force(e, [&](auto kind) { kind.second(w, e, q, v, P, mu, out); });
}

// order 1..3; results in w.local.gradient, w.local.hessian, w.local.third; returns h. `size` receives the magnitude
// against which |h| is judged.
template <class T>
T constraint(Work<T>& w, const Element& e, const T* q, const Poses<T>& P, int order, const T* delta, T* size) {
  return as_constraint(e, [&](auto kind) { return kind.value(w, e, q, P, order, delta, size); });
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
