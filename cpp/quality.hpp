// How good the steps of a motion are: energy that appears from nowhere, and an estimate of the local error
// (docs/kernels.md 22).
//
// Contract. Between the middles of two steps one after the other (or of two parts of a composed step) the energy
//   E = v_d . L_v - L = T + V without prescribed joints
// changes by the work done at the configuration between them: of the impulses of the forces, of the prescribed motion,
// and of the constraints against it,
//   W = v_d . I - v_k . (impulse of L_q)_k - (L_v)_k . dv_k + lambda . C0_k v_k,   v: mean of both, dv: difference.
// E - (sum of W) is the balance. It stands still in exact motions; in discrete ones it wavers by the third power of dt
// (not at all for quadratic Lagrangians). The mean of the balance over the parts of a step, weighted with their
// lengths, is that of the step: the cubes of the lengths sum to zero, so the second order drops out where the method's
// does.
//   jump  = |change of the balance from step to step| / D
//   error = 2 ((strain / 2 D)^(1/2) / 12)^(order/2), or what is left of the last one's: nine tenths
//   D     = max T + |dV| + |W| + 1e-3 (largest T so far) + rounding of the energies,
// strain: the largest of four kinetic energies of what changes from step to step,
//   d2v . N d2v,  (d2v . g)^2 / d2v . N d2v,  (z . g)^2 / z . N z,  d3v . N d3v / 4.
// d2v, d3v: second and third differences of the velocities; g: dt times the change of L_q + F; z: g over the diagonal
// of N. All four are the same, up to small factors, for an oscillator of frequency w with short steps, where the error
// is (w dt)^2 / 12 and that of the step (w dt)^3 / 12; but velocities may stand still where forces change (those of the
// joints against each other), and the other way round. N is the Newton matrix of the step: for short steps it is the
// mass matrix, and where a step holds many turns of a stiff mode, which hardly shows in the velocities, d3v . N d3v is
// the energy of the mode. The second and third are the most of g . N^-1 g that the two directions show, without a
// solve. The first three meet N without what elements add off its diagonal; the last with all of it, for nothing: d3v
// is Newton's first direction from a guess that is extrapolated from four configurations, N d3v its residual. (So it is
// known after four steps of equal length, of order 2.) What inputs do may jump, and is taken out of g, N d2v and N d3v.
// Not known (0) are both in the first step of a motion, the error in the second and where prescribed velocities jump,
// the jump between steps of different lengths: the energy of middles depends on them. Twice: a step of order 2 is wrong
// by dt^3 (f'f'f / 8 - z''' / 24), the strain tells the larger of both. What is left of the last: differences pass
// through zero where errors do not. Where all is calm the first three of the four are looked at in every fourth step
// only, or when the last one rises.
//
// Uses what residual() has left at the solution (w.kin.v, w.first, w.comp.c, w.con.C0, w.con.lam), and what Newton's
// iteration has left of its matrix: costs a few dozen multiply-adds per velocity component.
#pragma once
#include "del.hpp"
#include "parts.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr double kRestShare = 1e-3;    // of the largest kinetic energy so far: motions nearly at rest
constexpr double kKink = 0.2;          // second difference of prescribed velocities over their sum: they jump
constexpr double kSameLength = 0.1;    // relative difference of two steps that are compared
constexpr double kRoundShare = 1e-11;  // of the energies: their rounding
constexpr double kLittle = 1e-6;       // of the energies: where less moves, their rounding is looked at in every step
constexpr double kJumpLimit = 0.01, kErrorLimit = 0.03;  // where a step is no longer good
constexpr double kMostError = 1e6;                       // said where a step has no finite estimate
constexpr double kLeft = 0.9;                            // of an estimate after one more step
constexpr double kCalm = 0.003, kPause = 3;              // below this error and jump the strain waits for so many steps
constexpr double kRise = 1.1;                            // of the error since then: it is looked at at once
constexpr double kWorse = 1.1;                           // by this the worst step so far is exceeded by a new one

// what step_norms() finds, by the mass matrix as positive numbers
template <class T> struct StepNorms {
  T bend, push, power;  // d2v . N d2v, z . N z, z . g
};

// -y . N y for two changes y of the velocities: d2v = bend (nd), and z, which is g (nd) over the diagonal of N. N: the
// Newton matrix that newton() has formed last, without what elements add off its diagonal and without its part that is
// not symmetric, y_j (2 Q2_j . sum of P1_i y_i of the joints i above + D_j y_j) (docs/kernels.md 6.1, 10.1). The eight
// products of a joint are summed once, at the end, over all joints. shares: what each component adds to the first, or
// nullptr.
//
// reads gen, newton.diagonal, balls; writes shares; scratch: xi (16 (nm + 1))
template <class T> StepNorms<T> step_norms(const Work<T>& w, const T* bend, const T* g, T* xi, T* shares) {
  const ModelData& M = *w.M;
  const bool rows = M.chain_solver || M.loops.used || Side<T>::n == 1;  // joint after joint
  const bool diagonal = rows && by_joint(w);
  auto entries = [rows](const T* by_row, const T* by_side, int j) __attribute__((always_inline)) {
    Eight<T> x;
    if (rows) x.read(by_row + 8 * j);
    else x.gather(by_side + lane_of<T>(j, 8), Side<T>::block);
    return x;
  };
  StepNorms<T> out{T(0.0), T(0.0), T(0.0)};
  Eight<T> bends, pushes, up, up_z;
  bends.clear(), pushes.clear(), up.clear(), up_z.clear();
  up.write(xi), up_z.write(xi + 8);
  int node = 0;  // whose sums are in up, up_z
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    const bool ball = J.kind == JointKind::BX;
    const int first = j, last = ball ? j + 2 : j;
    if (J.parent != node) {
      up.read(xi + 16 * J.parent);
      up_z.read(xi + 16 * J.parent + 8);
    }
    Eight<T> above = up, above_z = up_z;
    above.add(T(1.0), up), above_z.add(T(1.0), up_z);  // twice
    for (j = first; j <= last && J.v < M.nd; ++j) {
      const int v = M.joints[j].v;
      const Eight<T> p = entries(w.gen.P1j, w.gen.P1, j), q = entries(w.gen.Q2j, w.gen.Q2, j);
      const BallMap<T>* m = ball ? w.balls + (-1 - M.v_q[J.v]) : nullptr;
      T D = ball ? m->N(j - first, j - first) : q.dot(p);
      if (diagonal && !ball) D += w.newton.diagonal[v];
      const T y = bend[v], z = select(lt(T(1e-300), fabs_(D)), -(g[v] / D), T(0.0));
      T own = D * y;
      for (int k = 0; ball && k < 3; ++k)
        if (k != j - first) own += m->N(j - first, k) * bend[J.v + k];
      bends.add_products(q.times(y), above);
      pushes.add_products(q.times(z), above_z);
      out.bend -= own * y;
      out.push -= D * z * z;
      out.power += z * g[v];
      if (shares) shares[v] = (q.dot(above) + own) * y;
      up.add(y, p);
      up_z.add(z, p);
    }
    j = last, node = last + 1;
    up.write(xi + 16 * node);
    up_z.write(xi + 16 * node + 8);
  }
  out.bend -= bends.total();
  out.push -= pushes.total();
  return out;
}

// one middle of a step
template <class T> struct Middle {
  T kinetic, potential, energy;
  T strain;             // in the last part of a step
  T *v, *rate;          // velocity, and its mean over the parts of the step so far (nv)
  T *F, *Lq, *Lv;       // forces (nd), L_q and L_v of the prescribed components (nk)
  T *G, *mean_G;        // L_q + F without what inputs do, and its mean over the parts (nd)
  T *kick, *mean_kick;  // forces due to inputs, of elements those due to their jumps so far; mean over the parts (nd)
};

// what is said of a step
template <class T> struct Verdict {
  T jump, error;  // 0 where not known
  T balance;      // energy minus work since the first step
  T variable;     // component that changes most in the worst step so far
  T own;          // error without what is left of the steps before
};

template <class T> struct Quality {
  Middle<T> middle[2], *last, *now;
  T* rate[2];        // mean velocities of the steps before (nv), newest first
  T* kick[3];        // and what inputs did in them (nd)
  T* G;              // and L_q + F (nd), of the last one
  T *bend, *shares;  // d2v, and its components' shares of its norm (nd)
  T* g;              // dt times the change of L_q + F (nd)
  T *xi, *u;         // scratch of step_norms(); inputs of the last middle (nu)
  double h_last = 0, dt[3] = {};
  T balance, mean, mean_first, mean_last, most_kinetic, most_size, scale, worst, variable, error;
  T wait;               // steps that go by before the strain is looked at again
  T kept;               // 1 where G is that of the last step, otherwise 0
  T seen;               // error when it was looked at last
  bool always = false;  // it is looked at in every step
  int middles = 0, steps = 0;
  int held = 0;  // steps with the same inputs and of the same length before this one
  bool elements_have_inputs = false, has_inputs = false;  // of the model
  bool inputs = false, forced = false;                    // in this motion
  MaskOf<T> kinked;                                       // prescribed velocities jumped in the last step
  bool little = true;                                     // moves: the rounding of the energies matters

  // arrays of this struct, for carve() in engine.cpp
  template <class Take> void layout(const ModelData& M, Take take) {
    const size_t nv = M.nv, nd = M.nd, nk = M.nk;
    last = middle, now = middle + 1;
    for (const Element& x : M.forces) {
      for (int i : x.input) elements_have_inputs = elements_have_inputs || (x.kind == ElementKind::Wrench && i >= 0);
      elements_have_inputs = elements_have_inputs || x.nin > 0;
    }
    has_inputs = elements_have_inputs || !M.force_v.empty();
    const size_t kicked = has_inputs ? nd : 0;
    for (Middle<T>& m : middle) {
      take(m.v, nv);
      take(m.rate, nv);
      take(m.F, nd);
      take(m.G, nd);
      take(m.mean_G, nd);
      take(m.Lq, nk);
      take(m.Lv, nk);
      take(m.kick, kicked);
      take(m.mean_kick, kicked);
    }
    for (T*& x : rate) take(x, nv);
    for (T*& x : kick) take(x, kicked);
    take(G, nd);
    take(g, nd);
    take(bend, nd);
    take(shares, nd);
    take(xi, 16 * (M.nm + 1));
    take(u, M.nu);
  }

  // before the first step of a motion; driven: inputs may be other than zero
  void start(const ModelData& M, bool driven, bool always_looked) {
    inputs = has_inputs && driven;
    forced = inputs || M.has_damping || !M.forces.empty();
    always = always_looked;
    middles = steps = held = 0;
    wait = kept = seen = T(0.0);
    balance = mean = mean_first = mean_last = most_kinetic = most_size = scale = variable = error = T(0.0);
    worst = T(-1.0);
    little = true;
    kinked = lt(T(0.0), T(0.0));
  }

  // the same state, in the arrays of this one
  void copy_from(const ModelData& M, const Quality& o) {
    inputs = o.inputs, forced = o.forced;
    auto all = [](T* to, const T* from, int n) {
      for (int i = 0; i < n; ++i) to[i] = from[i];
    };
    Middle<T>& to = *last;
    const Middle<T>& m = *o.last;
    to.kinetic = m.kinetic, to.potential = m.potential, to.energy = m.energy;
    all(to.v, m.v, M.nv);
    all(to.F, m.F, M.nd);
    all(to.Lq, m.Lq, M.nk);
    all(to.Lv, m.Lv, M.nk);
    if (inputs) all(to.kick, m.kick, M.nd);
    all(G, o.G, M.nd);
    for (int i = 0; i < 3; ++i) {
      if (i < 2) all(rate[i], o.rate[i], M.nv);
      if (inputs) all(kick[i], o.kick[i], M.nd);
      dt[i] = o.dt[i];
    }
    all(u, o.u, M.nu);
    h_last = o.h_last;
    balance = o.balance, mean = o.mean, mean_first = o.mean_first, mean_last = o.mean_last;
    most_kinetic = o.most_kinetic, most_size = o.most_size, scale = o.scale;
    worst = o.worst, variable = o.variable, error = o.error;
    middles = o.middles, steps = o.steps, held = o.held, little = o.little, kinked = o.kinked;
    wait = o.wait, kept = o.kept, seen = o.seen, always = o.always;
  }

  // is the strain of the next step looked at?
  MaskOf<T> looking() const { return le(wait, T(0.0)); }
  // is L_q + F kept, for this step or the next one?
  bool keeping() const { return any(le(wait, T(1.0))); }
  // lengths of the steps before the one whose last part is taken
  const double* lengths_before(const Parts& parts) const { return parts.count > 1 ? dt + 1 : dt; }

  // the middle of the part of length h, of a step of length `whole`, that w has just solved, into `now`
  //
  // reads kin, first, comp.c, step, newton; writes what solve_along() and generalized_force() write
  void take_middle(Work<T>& w, const StepOptions& o, const Parts& parts, int part, double h, double whole) {
    const ModelData& M = *w.M;
    const int nd = M.nd;
    Middle<T>& m = *now;
    const T twice = product(w.first.Lv, w.kin.v, M.nv);
    T gravity = T(0.0);
    for (int n : M.root_nodes) gravity -= w.comp.c[n].z * T(M.gz);
    if (M.gz != 0) gravity += gravity_of_reference(w);
    m.kinetic = T(0.5) * twice;
    m.potential = M.potentials.empty() ? gravity : gravity + w.first.potential;
    m.energy = m.kinetic + m.potential;
    if (little) take_size(w, h, gravity);
    for (int i = 0; i < M.nv; ++i) m.v[i] = w.kin.v[i];
    if (forced)
      for (int i = 0; i < nd; ++i) m.F[i] = w.first.F[i];
    for (int i = nd; i < M.nv; ++i) {
      m.Lq[i - nd] = w.first.Lq[i];
      m.Lv[i - nd] = w.first.Lv[i];
    }
    m.energy -= product(w.first.Lv + nd, w.kin.v + nd, M.nk);
    if (inputs) take_kick(w, part, whole);
    if (keeping()) {
      for (int i = 0; i < nd; ++i) m.G[i] = w.first.Lq[i];
      for (int i = 0; forced && i < nd; ++i) m.G[i] += inputs ? m.F[i] - m.kick[i] : m.F[i];
      if (parts.count > 1) add_mean(m.mean_G, last->mean_G, m.G, nd, parts, part);
    }
    if (parts.count > 1) {
      add_mean(m.rate, last->rate, m.v, M.nv, parts, part);
      if (inputs) add_mean(m.mean_kick, last->mean_kick, m.kick, nd, parts, part);
    }
    if (part + 1 < parts.count) return;
    m.strain = T(0.0);
    if (steps > 1) m.strain = T(0.25) * fabs_(strain_of_guess(w, o, parts));
    if (steps > 0 && any(looking())) take_strain(w, o, parts, whole);
  }

  static void add_mean(T* mean, const T* before, const T* x, int n, const Parts& parts, int part) {
    const T weight = T(parts.length[part]);
    for (int i = 0; i < n; ++i) mean[i] = part == 0 ? weight * x[i] : before[i] + weight * x[i];
  }
  static const T* mean_of(const T* x, const T* mean, const Parts& parts) { return parts.count > 1 ? mean : x; }

  // what the rounding of the energy is relative to
  void take_size(const Work<T>& w, double h, const T& gravity) {
    const ModelData& M = *w.M;
    T below = T(0.0), ulp = T(0.0);
    for (int n = 0; n < M.nn; ++n) below = larger(below, fabs_(w.comp.c[n].z));
    // one unit in the last place of q is a velocity, too: a hundred of them are below the share of rounding; where
    // nothing else moves, a few of them alone are (floor: the momentum of one)
    T far = T(0.0);
    for (int i = 0; i < M.nd; ++i) {
      const T r = reach(M, w.step.x, i);
      ulp += fabs_(w.first.Lv[i]) * r;
      far = larger(far, r);
    }
    ulp += w.step.floor * far * T(1e-13 / (1e-3 * kRoundShare));
    const T elements = M.potentials.empty() ? T(0.0) : fabs_(w.first.potential);
    most_size = larger(most_size, now->kinetic + fabs_(gravity) + elements + T(__builtin_fabs(M.gz)) * below +
                                      ulp * T(1e-3 / __builtin_fabs(h)));
  }

  // do inputs jump from the last step to this one?
  MaskOf<T> jumped(const Work<T>& w) const {
    MaskOf<T> out = lt(T(0.0), T(0.0));
    for (int i = 0; i < w.M->nu; ++i)
      out = out | lt(T(kKink) * (fabs_(u[i]) + fabs_(w.step.u[i])), fabs_(u[i] - w.step.u[i]));
    return out;
  }

  // What inputs do to the forces of elements is told only where they jump, by their values before.
  void take_kick(Work<T>& w, int part, double whole) {
    const ModelData& M = *w.M;
    if (part == 0) {
      MaskOf<T> moved = lt(T(0.0), T(0.0));
      for (int i = 0; i < M.nu; ++i) moved = moved | lt(T(0.0), fabs_(u[i] - w.step.u[i]));
      held = middles == 0 || whole != dt[0] || any(moved) ? 0 : held + 1;
      if (held == 0) wait = select(jumped(w), T(0.0), wait);
    }
    const bool after = elements_have_inputs && middles > 0;
    for (int i = 0; i < M.nd; ++i) now->kick[i] = after ? last->kick[i] : T(0.0);
    if (!elements_have_inputs) {
      for (size_t i = 0; i < M.force_v.size(); ++i)
        now->kick[M.force_v[i]] += T(M.force_gear[i]) * w.step.u[M.force_u[i]];
      return;
    }
    if (!after) return;
    const MaskOf<T> where = jumped(w);
    if (!any(where)) return;
    T* held = w.step.u;
    w.step.u = u;
    generalized_force(w, w.kin.q, w.kin.v);
    w.step.u = held;
    for (int i = 0; i < M.nd; ++i) {
      now->kick[i] += select(where, now->F[i] - w.first.F[i], T(0.0));
      w.first.F[i] = now->F[i];
    }
  }

  // what changes from the steps before, of lengths h[0], h[1], to the one that ends with m: bend, g
  void take_changes(const Middle<T>& m, const Parts& parts, int nd, double whole, const double* h) {
    const T ratio = T(steps == 1 ? 0 : (whole + h[0]) / (h[0] + h[1]));
    const T length = kept * T(2 * whole * whole / (whole + h[0]));
    const T *v = mean_of(m.v, m.rate, parts), *G_now = mean_of(m.G, m.mean_G, parts);
    for (int i = 0; i < nd; ++i) bend[i] = (v[i] - rate[0][i]) - ratio * (rate[0][i] - rate[1][i]);
    for (int i = 0; i < nd; ++i) g[i] = (G_now[i] - G[i]) * length;
  }

  // those changes by their kinetic energy
  void take_strain(const Work<T>& w, const StepOptions& o, const Parts& parts, double whole) {
    const ModelData& M = *w.M;
    const int nd = M.nd;
    const double* before = lengths_before(parts);
    take_changes(*now, parts, nd, whole, before);
    if (steps == 1) return;
    const StepNorms<T> norms = step_norms(w, bend, g, xi, (T*)nullptr);
    const T size = fabs_(norms.bend);
    T second = norms.bend, across = T(0.0);
    if (inputs && held < 3) {
      const T* k = mean_of(now->kick, now->mean_kick, parts);
      const double h0 = whole, h1 = before[0], h2 = before[1], m = o.minus, p = o.plus, share = (h0 + h1) / (h1 + h2);
      const T a0 = T(m * h0), a1 = T(p * h1 - share * m * h1), a2 = T(-share * p * h2);
      for (int i = 0; i < nd; ++i) second -= bend[i] * (a0 * k[i] + a1 * kick[0][i] + a2 * kick[1][i]);
    }
    for (int i = 0; i < nd; ++i) across += bend[i] * g[i];
    auto shown = [](const T& power, const T& norm) { return power * power / (fabs_(norm) + T(1e-300)); };
    const T most = larger(larger(now->strain, fabs_(second)),
                          larger(shown(across, size), shown(norms.power, norms.push)));
    now->strain = select(looking(), most, now->strain);
  }

  // d3v . N d3v without what inputs do, where Newton's iteration has seen it
  T strain_of_guess(const Work<T>& w, const StepOptions& o, const Parts& parts) const {
    if (!w.step.noted) return T(0.0);
    T third = w.step.gap;
    if (inputs && held < 3) {
      const T* k = mean_of(now->kick, now->mean_kick, parts);
      const double m = o.minus, p = o.plus;
      const T b0 = T(m), b1 = T(p - 2 * m), b2 = T(m - 2 * p), b3 = T(p);
      for (int i = 0; i < w.M->nd; ++i)
        third -= w.step.first_dy[i] * (b0 * k[i] + b1 * kick[0][i] + b2 * kick[1][i] + b3 * kick[2][i]);
    }
    return third;
  }

  // before take_middle() of lane l alone: what it finds from the middles before
  template <class All> void follow_lane(const ModelData& M, int l, const All& all) {
    middles = all.middles, steps = all.steps, held = all.held - 1, little = all.little, wait = get(all.wait, l);
    kept = get(all.kept, l), inputs = all.inputs, forced = all.forced;
    auto one = [&](T* to, const auto* from, int n) {
      for (int i = 0; i < n; ++i) to[i] = get(from[i], l);
    };
    most_size = get(all.most_size, l);
    one(u, all.u, M.nu);
    one(last->rate, all.last->rate, M.nv);
    for (int i = 0; i < 2; ++i) one(rate[i], all.rate[i], M.nv);
    one(G, all.G, M.nd);
    one(last->mean_G, all.last->mean_G, M.nd);
    for (int i = 0; i < 3; ++i) dt[i] = all.dt[i];
    if (!inputs) return;
    one(last->kick, all.last->kick, M.nd);
    one(last->mean_kick, all.last->mean_kick, M.nd);
    for (int i = 0; i < 3; ++i) one(kick[i], all.kick[i], M.nd);
  }

  // lane l of `now` from another one
  void take_lane(const ModelData& M, int l, const Quality<double>& one) {
    const Middle<double>& m = *one.now;
    auto all = [&](T* to, const double* from, int n) {
      for (int i = 0; i < n; ++i) put(to[i], l, from[i]);
    };
    put(most_size, l, one.most_size);
    put(now->kinetic, l, m.kinetic);
    put(now->potential, l, m.potential);
    put(now->energy, l, m.energy);
    put(now->strain, l, m.strain);
    all(now->v, m.v, M.nv);
    all(now->F, m.F, M.nd);
    all(now->Lq, m.Lq, M.nk);
    all(now->Lv, m.Lv, M.nk);
    all(now->rate, m.rate, M.nv);
    all(bend, one.bend, M.nd);
    all(g, one.g, M.nd);
    all(now->G, m.G, M.nd);
    all(now->mean_G, m.mean_G, M.nd);
    if (!inputs) return;
    all(now->kick, m.kick, M.nd);
    all(now->mean_kick, m.mean_kick, M.nd);
  }

  // The middle in `now` belongs to part `part` of the step, of length h; w holds the constraints at its start.
  //
  // reads con.C0, b, lam, step.u
  void add_part(const Work<T>& w, const StepOptions& o, const Parts& parts, int part, double h) {
    const ModelData& M = *w.M;
    const Middle<T>&a = *last, &b = *now;
    const int nd = M.nd, nk = M.nk;
    if (part == 0) {
      mean = scale = T(0.0);
      dt[2] = dt[1], dt[1] = dt[0], dt[0] = 0;
    }
    most_kinetic = larger(most_kinetic, b.kinetic);
    if (middles > 0) {
      T work = T(0.0);
      if (forced) {
        const T before = T(0.5 * h_last * o.plus), after = T(0.5 * h * o.minus);
        work += total<T>(nd, [&]<class L>(L, int i) {
          return (read_as<L>(a.v + i) + read_as<L>(b.v + i)) *
                 (L(before) * read_as<L>(a.F + i) + L(after) * read_as<L>(b.F + i));
        });
      }
      T moved = fabs_(work);
      if (nk > 0 || M.nh < M.nc) {
        const T driven = work_of_motion(w, o, h);
        work += driven;
        moved += fabs_(driven);
      }
      balance += (b.energy - a.energy) - work;
      scale = larger(scale, larger(a.kinetic, b.kinetic) + fabs_(b.potential - a.potential) + moved);
    }
    const T weight = T(parts.length[part]);
    mean += weight * balance;
    if (inputs)
      for (int i = 0; i < M.nu; ++i) u[i] = w.step.u[i];
    dt[0] += h;
    h_last = h;
    ++middles;
    Middle<T>* t = last;
    last = now;
    now = t;
  }

  // work of the prescribed motion, and of constraints that move by themselves, between the two middles
  T work_of_motion(const Work<T>& w, const StepOptions& o, double h) const {
    const ModelData& M = *w.M;
    const Middle<T>&a = *last, &b = *now;
    const int nd = M.nd;
    const T before = T(h_last * o.alpha), after = T(h * (1 - o.alpha));
    T driven = total<T>(M.nk, [&]<class L>(L, int k) {
      const L v0 = read_as<L>(a.v + nd + k), v1 = read_as<L>(b.v + nd + k);
      L push = L(before) * read_as<L>(a.Lq + k) + L(after) * read_as<L>(b.Lq + k);
      if constexpr (std::is_same_v<T, double>)
        if (w.loops.on) push -= read_as<L>(w.loops.force + nd + k);
      for (int c = 0; c < M.nc && !w.loops.on; ++c) push -= L(w.con.lam[c]) * read_as<L>(w.con.C0 + c * M.nv + nd + k);
      return -(v0 + v1) * push - (read_as<L>(a.Lv + k) + read_as<L>(b.Lv + k)) * (v1 - v0);
    });
    for (int c = M.nh; c < M.nc; ++c) driven += (w.con.lam[c] + w.con.lam[c]) * w.con.b[c];
    return T(0.5) * driven;
  }

  // after the last part of a step
  //
  // reads gen, newton.diagonal, balls
  Verdict<T> end_step(const Work<T>& w, const Parts& parts) {
    const ModelData& M = *w.M;
    if (steps == 0) mean_first = mean;
    const bool keeps = keeping();
    kept = select(le(wait, T(1.0)), T(1.0), T(0.0));
    Verdict<T> out{T(0.0), T(0.0), mean - mean_first, T(0.0), T(0.0)};
    if (steps++ > 0) {
      const T moving = scale + T(kRestShare) * most_kinetic;
      const T inverse = T(1.0) / (moving + T(kRoundShare) * most_size + T(1e-300));
      little = any(le(moving, T(kLittle) * most_size));  // also where nothing moves at all
      const bool even = __builtin_fabs(dt[0] - dt[1]) <= kSameLength * dt[0];
      if (even) out.jump = fabs_(mean - mean_last) * inverse;
      const MaskOf<T> looked = looking();
      const T left = T(kLeft) * error, square = last->strain * inverse * T(1 / (144 * 2.0));
      if (steps > 2 && (always || parts.count > 1 || any(lt(left * left, T(4.0) * square)))) {
        T once = sqrt_(square);
        once = select(le(once, T(kMostError)), once, T(kMostError));
        out.own = once + once;
        for (int n = parts.count; n > 1; n -= 4) out.own *= once;  // parts: 1, 5, 9
      }
      if (steps > 2 && M.nk > 0) {
        const MaskOf<T> kink = kinks(M, parts);
        out.own = select(kink | kinked, T(0.0), out.own);  // d3v reaches back a step more
        kinked = kink;
      }
      out.error = error = larger(out.own, left);
      seen = select(looked, error, seen);
      wait = select(le(error, T(kRise) * seen), larger(wait - T(1.0), T(0.0)), T(0.0));
      if (steps > 4 && parts.count == 1 && !always && even) {
        const T most = larger(out.jump, error);
        wait = select(looked & le(most, T(kCalm)), T(kPause), select(le(most, T(kCalm)), wait, T(0.0)));
        if (M.nk > 0) wait = select(kinked, T(0.0), wait);
      } else wait = T(0.0);
      const T bad = larger(out.jump * T(1 / kJumpLimit), out.error * T(1 / kErrorLimit));
      const auto worse = lt(T(kWorse) * worst, bad);
      if (any(worse)) {  // seldom: only then it matters which variable it is
        if (!any(looked)) take_changes(*last, parts, M.nd, dt[0], dt + 1);
        T most = T(-1.0), which = T(0.0);
        step_norms(w, bend, g, xi, shares);
        for (int i = 0; i < M.nd; ++i) {
          const T y = fabs_(shares[i]);
          const auto more = lt(most, y);
          most = select(more, y, most);
          which = select(more, T(double(i)), which);
        }
        worst = select(worse, bad, worst);
        variable = select(worse, which, variable);
      }
    }
    auto keep = [](const T* newest, T** ring, int rows, int n) {
      T* oldest = ring[rows - 1];
      for (int i = rows - 1; i > 0; --i) ring[i] = ring[i - 1];
      ring[0] = oldest;
      for (int i = 0; i < n; ++i) oldest[i] = newest[i];
    };
    keep(mean_of(last->v, last->rate, parts), rate, 2, M.nv);
    if (keeps) keep(mean_of(last->G, last->mean_G, parts), &G, 1, M.nd);
    if (inputs) keep(mean_of(last->kick, last->mean_kick, parts), kick, 3, M.nd);
    out.variable = variable;
    mean_last = mean;
    return out;
  }

  // where prescribed velocities jump
  MaskOf<T> kinks(const ModelData& M, const Parts& parts) const {
    const T ratio = T((dt[0] + dt[1]) / (dt[1] + dt[2])), *v = mean_of(last->v, last->rate, parts);
    const T *a = v + M.nd, *b = rate[0] + M.nd, *c = rate[1] + M.nd;
    const T kink = total<T>(M.nk, [&]<class L>(L, int i) {
      return fabs_(read_as<L>(a + i) - read_as<L>(b + i) - L(ratio) * (read_as<L>(b + i) - read_as<L>(c + i)));
    });
    const T whole = total<T>(M.nk, [&]<class L>(L, int i) {
      return fabs_(read_as<L>(a + i)) + fabs_(read_as<L>(b + i)) + fabs_(read_as<L>(c + i));
    });
    return lt(T(kKink) * whole, kink);
  }
};

// The verdicts since the last stored state, as they are stored: the largest jump and error, the newest balance, the
// variable of the worst step, the number of steps.
struct Checks {
  double jump = 0, error = 0, balance = 0, variable = 0, count = 0, worst = -1;
  void add(double new_jump, double new_error, double new_balance, double new_variable) {
    const double a = new_jump * (1 / kJumpLimit), b = new_error * (1 / kErrorLimit), bad = a > b ? a : b;
    if (!(bad <= worst)) worst = bad, variable = new_variable;
    if (!(new_jump <= jump)) jump = new_jump;
    if (!(new_error <= error)) error = new_error;
    balance = new_balance;
    ++count;
  }
  void store(double* row) const {  // kChecks entries
    row[0] = jump, row[1] = error, row[2] = balance, row[3] = variable, row[4] = count;
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
