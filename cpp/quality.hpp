// How good the steps of a motion are: energy that appears from nowhere, and an estimate of the local error.
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
//   error = (|d2v . d2L_v| / 2 D)^(1/2) / 12, to the power order/2
//   D     = max T + |dV| + |W| + 1e-3 (largest T so far) + rounding of the energies,
// d2: second differences from step to step; of the momenta L_v without what inputs do, which may jump. For an
// oscillator of frequency w the error is (w dt)^2 / 12, where that of the step is (w dt)^3 / 12. Stiff modes with many
// turns in a step hardly show in the velocities of middles, but their forces shake the momenta at the ends, by
// g = dt (change of L_q + F) / 4 from their mean: 16 (d2v . g)^2 / |d2v . d2L_v|, the same for slow motions and at most
// 16 g . M^-1 g, takes the place of d2v . d2L_v where it is larger. Not known (0) are both
// in the first step of a motion, the error in the second and where prescribed velocities jump, the jump between steps
// of different lengths: the energy of middles depends on them.
//
// Uses only what residual() has left at the solution: w.kin.v, w.first, w.comp.c, and w.con.C0, w.con.lam. Costs a few
// multiply-adds per velocity component.
#pragma once
#include "del.hpp"
#include "parts.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr double kRestShare = 1e-3;    // of the largest kinetic energy so far: motions nearly at rest
constexpr double kKink = 0.2;          // second difference of prescribed velocities over their sum: they jump
constexpr double kSameLength = 0.1;    // relative difference of two steps that are compared
constexpr double kRoundShare = 1e-11;  // of the energies: their rounding
constexpr double kJumpLimit = 0.01, kErrorLimit = 0.05;  // where a step is no longer good

// one middle of a step
template <class T> struct Middle {
  T kinetic, potential, energy;
  T size;       // what the rounding of the energy is relative to
  T *v, *F;     // velocity (nv), forces (nd)
  T *G, *kick;  // L_q + F (nd), and what in F is due to inputs that have jumped since the last middle (nd)
  T *Lq, *Lv;   // Lq of the prescribed components (nk), Lv of all (nv)
};

// what is said of a step
template <class T> struct Verdict {
  T jump, error;  // 0 where not known
  T balance;      // energy minus work since the first step
  T variable;     // component that changes most in the worst step so far
};

template <class T> struct Quality {
  Middle<T> last, now;
  T *v[3], *L[3], *I[3];  // of the newest steps, newest first: means of v (nv), L_v, and of the inputs' forces (nd)
  T* G[2];                // the same of L_q + F (nd)
  T *u, *kicks;           // inputs of the last middle (nu), sum of all kicks (nd)
  double h_last = 0, dt[3] = {};
  T balance, mean, mean_first, mean_last, most_kinetic, most_size, scale, worst, variable;
  int middles = 0, steps = 0;
  bool elements_have_inputs = false, inputs = false, forced = false;

  // arrays of this struct, for carve() in engine.cpp
  template <class Take> void layout(const ModelData& M, Take take) {
    const size_t nv = M.nv, nd = M.nd, nk = M.nk;
    for (Middle<T>* m : {&last, &now}) {
      take(m->v, nv);
      take(m->F, nd);
      take(m->G, nd);
      take(m->kick, nd);
      take(m->Lq, nk);
      take(m->Lv, nv);
    }
    for (int i = 0; i < 3; ++i) {
      take(v[i], nv);
      take(L[i], nd);
      take(I[i], nd);
      if (i < 2) take(G[i], nd);
    }
    take(u, M.nu);
    take(kicks, nd);
    for (const Element& e : M.forces) {
      for (int i : e.input) elements_have_inputs = elements_have_inputs || (e.kind == ElementKind::Wrench && i >= 0);
      elements_have_inputs = elements_have_inputs || e.nin > 0;
    }
    inputs = elements_have_inputs || !M.force_v.empty();
    forced = inputs || M.has_damping || !M.forces.empty();
  }

  // before the first step of a motion
  void start() {
    middles = steps = 0;
    balance = mean = mean_first = mean_last = most_kinetic = most_size = scale = variable = T(0.0);
    worst = T(-1.0);
  }

  // the same state, in the arrays of this one
  void copy_from(const ModelData& M, const Quality& o) {
    auto all = [](T* to, const T* from, int n) {
      for (int i = 0; i < n; ++i) to[i] = from[i];
    };
    auto middle = [&](Middle<T>& to, const Middle<T>& from) {
      all(to.v, from.v, M.nv);
      all(to.F, from.F, M.nd);
      all(to.G, from.G, M.nd);
      all(to.kick, from.kick, M.nd);
      all(to.Lq, from.Lq, M.nk);
      all(to.Lv, from.Lv, M.nv);
      to.kinetic = from.kinetic, to.potential = from.potential, to.energy = from.energy, to.size = from.size;
    };
    middle(last, o.last);
    middle(now, o.now);
    for (int i = 0; i < 3; ++i) {
      all(v[i], o.v[i], M.nv);
      all(L[i], o.L[i], M.nd);
      all(I[i], o.I[i], M.nd);
      if (i < 2) all(G[i], o.G[i], M.nd);
      dt[i] = o.dt[i];
    }
    all(u, o.u, M.nu);
    all(kicks, o.kicks, M.nd);
    h_last = o.h_last;
    balance = o.balance, mean = o.mean, mean_first = o.mean_first, mean_last = o.mean_last;
    most_kinetic = o.most_kinetic, most_size = o.most_size, scale = o.scale;
    worst = o.worst, variable = o.variable;
    middles = o.middles, steps = o.steps;
  }

  // the middle of the step of length h that w has just solved, into `now`
  //
  // reads kin, first, comp.c, step.x, step.u
  void take_middle(Work<T>& w, double h) {
    const ModelData& M = *w.M;
    Middle<T>& m = now;
    T gravity, below = T(0.0), elements = M.potentials.empty() ? T(0.0) : w.first.potential;
    energies(w, m.kinetic, gravity);
    for (int n = 0; n < M.nn; ++n) below = larger(below, fabs_(w.comp.c[n].z));
    m.potential = gravity + elements;
    m.size = m.kinetic + fabs_(gravity) + fabs_(elements) + T(__builtin_fabs(M.gz)) * below;
    m.energy = m.kinetic + m.potential;
    for (int i = 0; i < M.nv; ++i) {
      m.v[i] = w.kin.v[i];
      m.Lv[i] = w.first.Lv[i];
    }
    // one unit in the last place of q is a velocity, too: a hundred of them are below the share of rounding
    T ulp = T(0.0);
    if (forced)
      for (int i = 0; i < M.nd; ++i) m.F[i] = w.first.F[i];
    for (int i = 0; i < M.nd; ++i) m.G[i] = forced ? w.first.Lq[i] + m.F[i] : w.first.Lq[i];
    if (elements_have_inputs) take_kick(w);
    for (int i = 0; i < M.nd; ++i) ulp += fabs_(m.Lv[i]) * reach(M, w.step.x, i);
    m.size += ulp * T(1e-3 / __builtin_fabs(h));
    for (int i = M.nd; i < M.nv; ++i) {
      m.Lq[i - M.nd] = w.first.Lq[i];
      m.energy -= m.Lv[i] * m.v[i];
    }
  }

  // What inputs do to the forces of elements is told only where they jump, by their values before.
  void take_kick(Work<T>& w) {
    const ModelData& M = *w.M;
    MaskOf<T> jumped = lt(T(0.0), T(0.0));
    for (int i = 0; middles > 0 && i < M.nu; ++i)
      jumped = jumped | lt(T(kKink) * (fabs_(u[i]) + fabs_(w.step.u[i])), fabs_(u[i] - w.step.u[i]));
    for (int i = 0; i < M.nd; ++i) now.kick[i] = T(0.0);
    if (!any(jumped)) return;
    T* held = w.step.u;
    w.step.u = u;
    generalized_force(w, w.kin.q, w.kin.v);
    w.step.u = held;
    for (int i = 0; i < M.nd; ++i) {
      now.kick[i] = select(jumped, now.F[i] - w.first.F[i], T(0.0));
      w.first.F[i] = now.F[i];
    }
  }

  // before take_middle() of lane l alone: the inputs of its last middle
  template <class All> void follow_lane(const ModelData& M, int l, const All& all) {
    middles = all.middles;
    for (int i = 0; i < M.nu; ++i) u[i] = get(all.u[i], l);
  }

  // lane l of `now` from another one
  void take_lane(const ModelData& M, int l, const Middle<double>& m) {
    put(now.kinetic, l, m.kinetic);
    put(now.potential, l, m.potential);
    put(now.energy, l, m.energy);
    put(now.size, l, m.size);
    for (int i = 0; i < M.nv; ++i) put(now.v[i], l, m.v[i]), put(now.Lv[i], l, m.Lv[i]);
    for (int i = 0; i < M.nd; ++i) put(now.F[i], l, m.F[i]), put(now.G[i], l, m.G[i]), put(now.kick[i], l, m.kick[i]);
    for (int k = 0; k < M.nk; ++k) put(now.Lq[k], l, m.Lq[k]);
  }

  // The middle in `now` belongs to part `part` of the step, of length h; w holds the constraints at its start.
  //
  // reads con.C0, b, lam, step.u
  void add_part(const Work<T>& w, const StepOptions& o, const Parts& parts, int part, double h) {
    const ModelData& M = *w.M;
    const Middle<T>&a = last, &b = now;
    const int nd = M.nd, nk = M.nk;
    if (part == 0) {
      mean = scale = T(0.0);
      for (T** x : {v, L, I}) {
        T* oldest = x[2];
        x[2] = x[1], x[1] = x[0], x[0] = oldest;
      }
      T* oldest = G[1];
      G[1] = G[0], G[0] = oldest;
      dt[2] = dt[1], dt[1] = dt[0], dt[0] = 0;
    }
    most_kinetic = larger(most_kinetic, b.kinetic);
    most_size = larger(most_size, b.size);
    if (middles > 0) {
      const T half = T(0.5), before = T(h_last * o.plus), after = T(h * o.minus);
      T work = T(0.0), driven = T(0.0);
      if (forced)
        for (int i = 0; i < nd; ++i) work += (a.v[i] + b.v[i]) * (before * a.F[i] + after * b.F[i]);
      for (int k = 0; k < nk; ++k) {
        const T mean_v = a.v[nd + k] + b.v[nd + k], dv = b.v[nd + k] - a.v[nd + k];
        driven -= mean_v * (T(h_last * o.alpha) * a.Lq[k] + T(h * (1 - o.alpha)) * b.Lq[k]) +
                  (a.Lv[nd + k] + b.Lv[nd + k]) * dv;
        if (w.loops.on) driven += T(w.loops.force[nd + k]) * mean_v;
        for (int c = 0; c < M.nc && !w.loops.on; ++c) driven += w.con.lam[c] * w.con.C0[c * M.nv + nd + k] * mean_v;
      }
      for (int c = M.nh; c < M.nc; ++c) driven += (w.con.lam[c] + w.con.lam[c]) * w.con.b[c];
      work = half * work;
      driven = half * driven;
      balance += (b.energy - a.energy) - (work + driven);
      scale = larger(scale,
                     larger(a.kinetic, b.kinetic) + fabs_(b.potential - a.potential) + fabs_(work) + fabs_(driven));
    }
    const T weight = T(parts.length[part]);
    mean += weight * balance;
    auto add = [&](T* sum, const T* x, int n) {
      if (part == 0)
        for (int i = 0; i < n; ++i) sum[i] = weight * x[i];
      else
        for (int i = 0; i < n; ++i) sum[i] += weight * x[i];
    };
    add(v[0], b.v, M.nv);
    add(L[0], b.Lv, nd);
    if (inputs && part == 0)
      for (int i = 0; i < nd; ++i) I[0][i] = T(0.0);
    add(G[0], b.G, nd);
    if (elements_have_inputs)
      for (int i = 0; i < nd; ++i) {
        kicks[i] = middles > 0 ? kicks[i] + b.kick[i] : T(0.0);
        I[0][i] += weight * kicks[i];
      }
    else
      for (size_t i = 0; i < M.force_v.size(); ++i)
        I[0][M.force_v[i]] += weight * T(M.force_gear[i]) * w.step.u[M.force_u[i]];
    if (elements_have_inputs)
      for (int i = 0; i < M.nu; ++i) u[i] = w.step.u[i];
    dt[0] += h;
    h_last = h;
    ++middles;
    Middle<T> t = last;
    last = now;
    now = t;
  }

  // after the last part of a step
  Verdict<T> end_step(const ModelData& M, const StepOptions& o, const Parts& parts) {
    const double minus = o.minus, plus = o.plus;
    if (steps == 0) mean_first = mean;
    Verdict<T> out{T(0.0), T(0.0), mean - mean_first, T(0.0)};
    if (steps++ > 0) {
      const T D = scale + T(kRestShare) * most_kinetic + T(kRoundShare) * most_size + T(1e-300);
      if (__builtin_fabs(dt[0] - dt[1]) <= kSameLength * dt[0]) out.jump = fabs_(mean - mean_last) / D;
      const bool three = steps > 2;
      const T ratio = T(three ? (dt[0] + dt[1]) / (dt[1] + dt[2]) : 0.0);
      const T h0 = T(minus * dt[0]), h1 = T(plus * dt[1]) - ratio * T(minus * dt[1]), h2 = ratio * T(plus * dt[2]);
      auto bend = [&](int i) {  // d2v of one component
        const T d = v[0][i] - v[1][i];
        return three ? d - ratio * (v[1][i] - v[2][i]) : d;
      };
      auto change = [&](int i) {  // d2v . d2L_v of one component
        const T d = bend(i);
        T l = L[0][i] - L[1][i];
        if (three) l -= ratio * (L[1][i] - L[2][i]);
        if (inputs) {
          l -= h0 * I[0][i] + h1 * I[1][i];
          if (three) l += h2 * I[2][i];
        }
        return d * l;
      };
      T sum = T(0.0), size = T(1e-300), shaken = T(0.0);
      for (int i = 0; i < M.nd; ++i) {
        const T x = change(i), g = G[0][i] - G[1][i];
        sum += x;
        size += fabs_(x);
        shaken += bend(i) * (inputs ? g - (I[0][i] - I[1][i]) : g);
      }
      if (three) {
        shaken = T(dt[0]) * shaken;
        const T once = sqrt_(larger(fabs_(sum), shaken * shaken / size) / (D + D)) * T(1.0 / 12);
        out.error = once;
        for (int n = parts.count; n > 1; n -= 4) out.error *= once;  // parts: 1, 5, 9
        T kink = T(0.0), whole = T(0.0);
        for (int i = M.nd; i < M.nv; ++i) {
          kink += fabs_(v[0][i] - v[1][i] - ratio * (v[1][i] - v[2][i]));
          whole += fabs_(v[0][i]) + fabs_(v[1][i]) + fabs_(v[2][i]);
        }
        out.error = select(lt(T(kKink) * whole, kink), T(0.0), out.error);
      }
      const T bad = larger(out.jump * T(1 / kJumpLimit), out.error * T(1 / kErrorLimit));
      const auto worse = lt(worst, bad);
      if (any(worse)) {  // seldom: only then it matters which variable it is
        T most = T(-1.0), which = T(0.0);
        for (int i = 0; i < M.nd; ++i) {
          const T y = fabs_(change(i));
          const auto more = lt(most, y);
          most = select(more, y, most);
          which = select(more, T(double(i)), which);
        }
        worst = select(worse, bad, worst);
        variable = select(worse, which, variable);
      }
    }
    out.variable = variable;
    mean_last = mean;
    return out;
  }
};

// The verdicts since the last stored state, as they are stored: the largest jump and error, the newest balance, the
// variable of the worst step, the number of steps.
struct Checks {
  double jump = 0, error = 0, balance = 0, variable = 0, count = 0, worst = -1;
  void add(double new_jump, double new_error, double new_balance, double new_variable) {
    const double a = new_jump / kJumpLimit, b = new_error / kErrorLimit, bad = a > b ? a : b;
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
