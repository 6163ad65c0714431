// Frames -> poses, joint axes, twists: one outward sweep (docs/kernels.md 2).
#pragma once
#include "work.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// Reference point near the mechanism: an affine function of the base's sliding joints at q, constant during a step
// (docs/kernels.md 15.1)
//
// reads q (nq); writes kin.reference
template <class T> DAL_INLINE void set_reference(Work<T>& w, const T* q) {
  const ModelData& M = *w.M;
  w.kin.reference = vec3<T>(M.ref0);
  for (size_t i = 0; i < M.ref_q.size(); ++i) w.kin.reference += vec3<T>(M.ref_axis.data() + 3 * i) * q[M.ref_q[i]];
}

// reads kin.reference; writes P at pose 0
template <class T> DAL_INLINE void place_root(const Work<T>& w, const Poses<T>& P) {
  const double* g = w.M->Rg;
  const M3<T> R = {{vec3<T>(g), vec3<T>(g + 3), vec3<T>(g + 6)}};
  P.R[0] = R;
  P.p[0] = -mul(R, w.kin.reference);
}

// a column of a ball; q: its quaternion
template <class T> DAL_INLINE void place_ball(const Joint& J, int pose, const T* q, const Poses<T>& P, int parent_rot) {
  if (J.kind == JointKind::BX) {
    const M3<T>& Rp = P.R[parent_rot];
    P.p[pose] = P.p[J.parent];
    if (J.shifted) P.p[pose] += mul(Rp, vec3<T>(J.p0));
    const M3<T> R = J.turned ? mul_const(Rp, J.R0) : Rp;
    const T two = T(2.0), one = T(1.0), w = q[0], x = q[1], y = q[2], z = q[3];
    M3<T>& out = P.R[pose];
    out.c[0] = mul(R, {one - two * (y * y + z * z), two * (x * y + w * z), two * (x * z - w * y)});
    out.c[1] = mul(R, {two * (x * y - w * z), one - two * (x * x + z * z), two * (y * z + w * x)});
    out.c[2] = mul(R, {two * (x * z + w * y), two * (y * z - w * x), one - two * (x * x + y * y)});
    P.a[pose] = out.c[0];
    return;
  }
  P.p[pose] = P.p[J.parent];
  P.a[pose] = P.R[J.rot].c[J.axis()];
}

template <class T>
DAL_INLINE void place_joint(const Joint& J, int pose, const T& q, const T& s, const T& c, const Poses<T>& P,
                            int parent_rot) {
  const M3<T>& Rp = P.R[parent_rot];
  V3<T> p = P.p[J.parent];
  if (J.shifted) p += mul(Rp, vec3<T>(J.p0));
  if (!J.turns()) {  // prismatic
    V3<T> a;
    if (J.turned) {
      P.R[pose] = mul_const(Rp, J.R0);
      a = P.R[pose].c[J.axis()];
    } else {
      a = Rp.c[J.axis()];
    }
    P.a[pose] = a;
    P.p[pose] = p + a * q;
    return;
  }
  // columns one by one, as they were written: a copy of the whole matrix would wait for all of them
  const int k0 = J.axis(), k1 = k0 < 2 ? k0 + 1 : 0, k2 = k0 > 0 ? k0 - 1 : 2;
  M3<T>& out = P.R[pose];
  const M3<T>* R = &Rp;
  if (J.turned) {
    out = mul_const(Rp, J.R0);
    R = &out;
  }
  const V3<T> a = R->c[k0], x = R->c[k1], y = R->c[k2];
  out.c[k0] = a;
  out.c[k1] = x * c + y * s;
  out.c[k2] = y * c - x * s;
  P.a[pose] = a;
  if (J.pitch != 0.0) p += a * (q * T(J.pitch));
  P.p[pose] = p;
}

template <class T> DAL_INLINE int parent_rot(const ModelData& M, const Joint& J) {
  return J.parent == 0 ? 0 : M.joints[J.parent - 1].rot;
}

// poses of every joint at q, with the sines and cosines of its angles
//
// reads q (nq), sine, cosine, kin.reference; writes P
template <class T> void place_joints(const Work<T>& w, const T* q, const T* sine, const T* cosine, const Poses<T>& P) {
  const ModelData& M = *w.M;
  place_root(w, P);
  for (int j = 0; j < M.nj; ++j) {
    const Joint& J = M.joints[j];
    if (J.of_ball()) {
      place_ball(J, j + 1, q + J.q, P, parent_rot<T>(M, J));
      continue;
    }
    int t = J.slot < 0 ? 0 : J.slot;
    place_joint(J, j + 1, q[J.q], sine[t], cosine[t], P, parent_rot<T>(M, J));
  }
}

// sines and cosines of the angles q[which]
//
// reads q (nq); writes kin.sine, cosine, and kin.angle
template <class T> DAL_INLINE void turn_joints(Work<T>& w, const T* q, const std::vector<int>& which) {
  const int n = int(which.size());
  for (int i = 0; i < n; ++i) w.kin.angle[i] = q[which[i]];
  sincos_array(w.kin.angle, w.kin.sine, w.kin.cosine, n);
}
// put together in registers: a load of what single stores have just written would wait for them
DAL_INLINE void turn_joints(Work<double>& w, const double* q, const std::vector<int>& which) {
  const int n = int(which.size()), *at = which.data();
  auto turn = [&]<int... l>(int i, std::integer_sequence<int, l...>, auto&& entry) {
    Vec sine, cosine;
    sincos_vec(Vec{q[at[entry(i + l)]]...}, sine, cosine);
    store(w.kin.sine + i, sine);  // with kPad entries to spare
    store(w.kin.cosine + i, cosine);
  };
  constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) turn(i, lanes, [](int k) { return k; });
  if (i < n) turn(i, lanes, [n](int k) { return k < n ? k : n - 1; });
  for (i = 0; i < n; ++i) large_angle(q[at[i]], w.kin.sine[i], w.kin.cosine[i]);
}

// poses of every joint at q
//
// reads q (nq), kin.reference; writes P, and kin.angle, sine, cosine
template <class T> DAL_INLINE void poses(Work<T>& w, const T* q, const Poses<T>& P) {
  turn_joints(w, q, w.M->angles);
  place_joints(w, q, w.kin.sine, w.kin.cosine, P);
}

// poses of the joints that constraints see
//
// reads q (nq), kin.reference; writes P, and kin.angle, sine, cosine
template <class T> void constraint_poses(Work<T>& w, const T* q, const Poses<T>& P) {
  const ModelData& M = *w.M;
  place_root(w, P);
  turn_joints(w, q, M.constraint_angles);
  for (size_t i = 0; i < M.constraint_joints.size(); ++i) {
    int j = M.constraint_joints[i];
    const Joint& J = M.joints[j];
    if (J.of_ball()) {
      place_ball(J, j + 1, q + J.q, P, parent_rot<T>(M, J));
      continue;
    }
    int t = M.constraint_angle_slot[i] < 0 ? 0 : M.constraint_angle_slot[i];
    place_joint(J, j + 1, q[J.q], w.kin.sine[t], w.kin.cosine[t], P, parent_rot<T>(M, J));
  }
}

// unit twist of a joint (about the reference point)
template <class T> DAL_INLINE V6<T> joint_twist(const Joint& J, int pose, const Poses<T>& P) {
  const V3<T>& a = P.a[pose];
  if (!J.turns()) return {zero3<T>(), a};
  V3<T> l = cross(P.p[pose], a);
  if (J.pitch != 0.0) l += a * T(J.pitch);
  return {a, l};
}

template <class T> DAL_INLINE V3<T> site_position(const ModelData& M, const Site& s, const Poses<T>& P) {
  int rot = s.pose == 0 ? 0 : M.joints[s.pose - 1].rot;
  return P.p[s.pose] + mul(P.R[rot], vec3<T>(s.p));
}
template <class T> DAL_INLINE const M3<T>& site_rotation(const ModelData& M, const Site& s, const Poses<T>& P) {
  return P.R[s.pose == 0 ? 0 : M.joints[s.pose - 1].rot];
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
