// Where elements add what they know of the derivatives of an action by the numbers of the model (parameters_dual.hpp):
// by their own numbers, and by small motions of their sites as wrenches, which the tree sums inward to its joint bases.
//
// Every kind has   static void by_numbers(w, e, q, P, weight, g)   that adds weight times the derivatives of its value
// V or h to g (potentials, constraints), or, for forces,   static void by_numbers(w, d, e, delta, along_v, g)   that
// adds the derivatives of the work delta . F. Velocity constraints have that of constraints, where the dual parts of q
// and P are along a velocity: the dual parts of what they add are the derivatives of a v. A kind without it cannot be
// in a model that is differentiated by parameters.
#pragma once
#include "../numbers.hpp"
#include "../tree.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

template <class T> struct NumberSums {
  const NumberLayout* layout;
  T* out;         // layout->size
  V6<T>* wrench;  // by pose index: on what moves with that joint, about the reference point
  T* own;         // the numbers of the element at hand, in `out`
};

template <class T> DAL_INLINE void put_add(T* out, const V3<T>& x) {
  out[0] += x.x;
  out[1] += x.y;
  out[2] += x.z;
}

// a wrench as derivatives by a twist along the axes R, about p
template <class T> DAL_INLINE void add_by_twist(T* out, const M3<T>& R, const V3<T>& p, const V6<T>& W) {
  put_add(out, tmul(R, W.w - cross(p, W.v)));
  put_add(out + 3, tmul(R, W.v));
}

// a wrench on a site: on the joint that carries it, and by small motions of the site on it
template <class T>
DAL_INLINE void add_on_site(const Work<T>& w, NumberSums<T>& g, int site, const Poses<T>& P, const V6<T>& W) {
  const Site& s = w.M->sites[site];
  g.wrench[s.pose] += W;
  add_by_twist(g.out + g.layout->site + NumberLayout::kSite * site, site_rotation(*w.M, s, P), P.p[s.pose], W);
}

// a force f on site a, and -f on site b (if there is one)
template <class T>
DAL_INLINE void add_between(const Work<T>& w, NumberSums<T>& g, const Element& e, const Poses<T>& P, const V3<T>& f) {
  add_on_site(w, g, e.site_a, P, {cross(site_position(*w.M, w.M->sites[e.site_a], P), f), f});
  if (e.site_b >= 0) add_on_site(w, g, e.site_b, P, {cross(f, site_position(*w.M, w.M->sites[e.site_b], P)), -f});
}

// the vector from site b to site a
template <class T> DAL_INLINE V3<T> site_gap(const Work<T>& w, const Element& e, const Poses<T>& P) {
  return site_position(*w.M, w.M->sites[e.site_a], P) - site_position(*w.M, w.M->sites[e.site_b], P);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
