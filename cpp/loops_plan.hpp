// The schedule of loops.hpp: which pose is eliminated when, and after which of them a multiplier has a sound pivot.
// Found once per model by eliminating at a configuration drawn at random (the same for all runs), where only what holds
// by the structure of the model vanishes.
#pragma once
#include <iterator>
#include "del.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

class LoopPlanner {
 public:
  explicit LoopPlanner(ModelData& model) : M(model), plan(model.loops) {}

  // sets M.loops; `used` stays false where another way is faster, or the only one
  void run() {
    if (!possible()) return;
    find_meets();
    plan.used = true;  // for the layout of the workspace
    plan.lanes = 16;
    plan.xi = {0, 1, 2, 3, 4, 5, 6, 7};
    plan.eta = {0, 1, 2, 3, 4, 5};
    if (!w.init(M, false)) {
      plan = LoopPlan{};
      return;
    }
    evaluate_somewhere();
    find_lanes();
    loop_generators(w);
    const std::vector<int> meet = plan.meet;
    const double limit = dense_time();
    double best = 1e300;
    const LoopPlan begun = plan;
    LoopPlan eager;
    if (eliminate(false)) {
      finish();
      best = kFrontTime * plan.work;
      eager = plan;
    }
    plan = begun;
    if (eliminate(true) && (finish(), kFrontTime * plan.work < kPatience * best)) best = kFrontTime * plan.work;
    else plan = eager;
    if (best > 0.5 * limit || best > kFrontTime * 4e6) {
      CondensedPlan whole;
      const double time = condense(whole);
      if (time > 0 && time < best) {
        plan = LoopPlan{};
        plan.used = true;
        plan.lanes = 8;
        plan.meet = meet;
        plan.condensed = whole;
        best = time;
      }
    }
    if (!(best < limit)) plan = LoopPlan{};
  }

 private:
  struct Front {
    std::vector<int> poses, multipliers;  // dynamic component, constraint; -1 where free
    std::vector<double> F, size;          // (poses and multipliers)^2; what was added up in the pivots of multipliers
    int most_poses = 0, most_multipliers = 0;
  };
  static constexpr int kMostPoses = 8, kMostMultipliers = 24;
  static constexpr double kSound = 0.01, kLastResort = 1e-6;
  static constexpr double kPatience = 2;  // what a schedule may cost more that no configuration spoils

  ModelData& M;
  LoopPlan& plan;
  Work<double> w;
  std::vector<Front> fronts;
  std::vector<int> spare;                          // numbers of fronts that are free
  std::vector<int> front_of, parent;               // of each dynamic component: its front (-1), the dynamic one above
  std::vector<int> anchors;                        // 3 per constraint: dynamic component that carries the site, -1
  std::vector<std::vector<int>> touching, around;  // of each: constraints with a site on it; whose loop it is part of
  std::vector<int> open;                           // of each constraint: components of its loop not yet eliminated
  std::vector<char> added;

  bool possible() const {
    if (M.nc < 1 || int(M.constraints.size()) != M.nc || !M.flat || M.coupled || !M.forces.empty()) return false;
    for (const Element& e : M.potentials)
      if (e.n > 1) return false;
    for (int i = 0; i < M.nd; ++i)
      if (M.dyn_joint[i] < 0 || M.dyn_joint[i] >= M.nm) return false;
    for (const Element& e : M.constraints) {
      if (e.kind != ElementKind::Direction && e.kind != ElementKind::Distance) return false;
      if (e.length_var >= 0 && M.local_v[e.vars + e.length_var] < M.nd) return false;
    }
    return true;
  }

  int up(int pose) const { return M.joints[pose - 1].parent; }
  void find_meets() {
    std::vector<int> depth(M.nj + 1, 0);
    for (int j = 0; j < M.nj; ++j) depth[j + 1] = depth[M.joints[j].parent] + 1;
    auto meet = [&](int a, int b) {
      while (a != b) (depth[a] >= depth[b] ? a : b) = up(depth[a] >= depth[b] ? a : b);
      return a;
    };
    for (const Element& e : M.constraints) {
      int top = meet(pose_of_site(M, e, 0), pose_of_site(M, e, 1));
      plan.meet.push_back(e.site_c >= 0 && M.sites[e.site_c].pose ? meet(top, pose_of_site(M, e, 2)) : top);
    }
  }

  void evaluate_somewhere() {
    uint64_t state = 88172645463325252ull;
    auto draw = [&] {  // xorshift
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      return double(state >> 11) / double(1ull << 52) - 1;
    };
    const double dt = 0.01, slow = 1e-6;  // a pivot that only the motion keeps from zero is not sound
    for (int i = 0; i < M.nq; ++i) {
      w.step.x[i] = draw();
      w.step.y[i] = w.step.x[i] + slow * dt * draw();
    }
    set_reference(w, w.step.x);
    constraint_poses(w, w.step.x, w.kin.start);
    constraint_poses(w, w.step.y, w.kin.end);
    start_loops(w);
    constraint_wrenches(w, w.step.y, w.kin.end, w.con.h, w.con.size, w.loops.end);
    loop_twists(M, w.kin.end, w.loops.S1);
    const StepOptions o;
    residual(w, o, dt);
    composites(w, false);
    const Slots<double> s = slots<double>(o, dt);
    generators_by_joint(w, s);
    elements_to_newton(w, w.kin.q, w.kin.v, s, dt * o.minus);
  }
  void find_lanes() {
    bool x[8] = {}, e[6] = {};
    for (int i = 0; i < M.nd; ++i) {
      const int j = M.dyn_joint[i];
      for (int l = 0; l < 8; ++l) x[l] = x[l] || w.gen.P1j[8 * j + l] != 0 || w.gen.P2j[8 * j + l] != 0;
      for (int l = 0; l < 6; ++l) e[l] = e[l] || (&w.loops.S0[j].w.x)[l] != 0 || (&w.loops.S1[j].w.x)[l] != 0;
    }
    plan.xi.clear();
    plan.eta.clear();
    for (int l = 0; l < 8; ++l)
      if (x[l]) plan.xi.push_back(l);
    for (int l = 0; l < 6; ++l)
      if (e[l]) plan.eta.push_back(l);
    plan.lanes = plan.xi.size() + plan.eta.size() <= 8 ? 8 : 16;
  }

  // ---- fronts
  int entries(const Front& f) const { return int(f.poses.size()) * plan.lanes + int(f.multipliers.size()); }
  int entry(const Front& f, int multiplier) const { return int(f.poses.size()) * plan.lanes + multiplier; }
  static int find(const std::vector<int>& list, int x) {
    return int(std::find(list.begin(), list.end(), x) - list.begin());
  }
  // room for one more pose or multiplier: its number
  int take(Front& f, std::vector<int>& list, int what) {
    int at = find(list, -1);
    if (at < int(list.size())) {
      list[at] = what;
      return at;
    }
    const int old = entries(f), first = int(f.poses.size()) * plan.lanes;
    list.push_back(what);
    const int n = entries(f), shift = int(f.poses.size()) * plan.lanes - first;
    std::vector<double> G(size_t(n) * n, 0.0);
    auto moved = [&](int i) { return i < first ? i : i + shift; };
    for (int i = 0; i < old; ++i)
      for (int k = 0; k < old; ++k) G[size_t(moved(i)) * n + moved(k)] = f.F[size_t(i) * old + k];
    f.F.swap(G);
    f.size.resize(f.multipliers.size(), 0.0);
    f.most_poses = std::max(f.most_poses, int(f.poses.size()));
    f.most_multipliers = std::max(f.most_multipliers, int(f.multipliers.size()));
    return at;
  }
  // the front of a dynamic component, made where there is none
  int front(int i) {
    if (front_of[i] >= 0) return front_of[i];
    if (spare.empty()) {
      spare.push_back(int(fronts.size()));
      fronts.emplace_back();
    }
    front_of[i] = spare.back();
    spare.pop_back();
    take(fronts[front_of[i]], fronts[front_of[i]].poses, i);
    return front_of[i];
  }
  void emit(FrontOp kind, int f, int index, int at, int to) { plan.steps.push_back({kind, f, index, at, to, 0}); }
  int join(int a, int b) {
    if (a == b) return a;
    const int first = int(plan.moves.size());
    Front &f = fronts[a], &g = fronts[b];
    std::vector<int> to, from;
    for (size_t i = 0; i < g.poses.size(); ++i)
      if (g.poses[i] >= 0) {
        const int at = take(f, f.poses, g.poses[i]);
        front_of[g.poses[i]] = a;
        plan.moves.insert(plan.moves.end(), {at, int(i)});
      }
    const int poses = (int(plan.moves.size()) - first) / 2;
    for (size_t i = 0; i < g.multipliers.size(); ++i)
      if (g.multipliers[i] >= 0) {
        const int at = take(f, f.multipliers, g.multipliers[i]);
        f.size[at] = g.size[i];
        plan.moves.insert(plan.moves.end(), {at, int(i)});
      }
    for (int i = first; i < int(plan.moves.size()); i += 2)
      for (int l = 0; l < (i < first + 2 * poses ? plan.lanes : 1); ++l) {
        const bool pose = i < first + 2 * poses;
        to.push_back(pose ? plan.moves[i] * plan.lanes + l : entry(f, plan.moves[i]));
        from.push_back(pose ? plan.moves[i + 1] * plan.lanes + l : entry(g, plan.moves[i + 1]));
      }
    const int n = entries(f), m = entries(g);
    for (size_t i = 0; i < to.size(); ++i)
      for (size_t k = 0; k < to.size(); ++k) f.F[size_t(to[i]) * n + to[k]] = g.F[size_t(from[i]) * m + from[k]];
    emit(FrontOp::join, a, first, poses, b);  // `at`, pairs and what they stand for: finish()
    g.poses.assign(g.poses.size(), -1);
    g.multipliers.assign(g.multipliers.size(), -1);
    std::fill(g.F.begin(), g.F.end(), 0.0);
    spare.push_back(b);
    return a;
  }
  static void update(std::vector<double>& F, int n, const std::vector<double>& U, const std::vector<double>& W,
                     double inverse) {
    for (int r = 0; r < n; ++r)
      for (int k = 0; k < n; ++k) F[size_t(r) * n + k] -= U[r] * W[k] * inverse;
  }

  // ---- the elimination
  int cost(int i) const {  // poses of the front after the elimination of component i
    std::vector<int> members;
    auto add = [&](int k) {
      if (k < 0) return;
      if (front_of[k] < 0) members.push_back(k);
      else
        for (int p : fronts[front_of[k]].poses)
          if (p >= 0) members.push_back(p);
    };
    add(i);
    add(parent[i]);
    for (int c : touching[i])
      if (!added[c])
        for (int s = 0; s < 3; ++s) add(anchors[3 * c + s]);
    std::sort(members.begin(), members.end());
    return int(std::unique(members.begin(), members.end()) - members.begin()) - 1;
  }
  // Patient: a multiplier waits until its loop is eliminated. Its pivot is then positive in every configuration where
  // the constraints are independent; before, it can vanish in some (a parallelogram), though not where the plan is
  // made.
  bool eliminate(bool patient) {
    const int nd = M.nd, B = plan.lanes, nx = int(plan.xi.size()), ne = int(plan.eta.size());
    auto dynamic = [&](int pose) {
      while (pose && M.joints[pose - 1].v >= nd) pose = up(pose);
      return pose ? M.joints[pose - 1].v : -1;
    };
    fronts.clear();
    spare.clear();
    parent.clear();
    anchors.clear();
    front_of.assign(nd, -1);
    touching.assign(nd, {});
    around.assign(nd, {});
    open.assign(M.nc, 0);
    added.assign(M.nc, 0);
    std::vector<int> below(nd, 0), ready;
    for (int i = 0; i < nd; ++i) {
      parent.push_back(dynamic(M.joints[M.dyn_joint[i]].parent));
      if (parent[i] >= 0) ++below[parent[i]];
    }
    for (int c = 0; c < M.nc; ++c)
      for (int s = 0; s < 3; ++s) {
        const Element& e = M.constraints[c];
        const int a = s == 2 && e.kind != ElementKind::Direction ? -1 : dynamic(pose_of_site(M, e, s));
        anchors.push_back(a);
        plan.place.push_back(-1);
        if (a >= 0 && (touching[a].empty() || touching[a].back() != c)) touching[a].push_back(c);
        for (int pose = pose_of_site(M, e, s); patient && pose && pose != plan.meet[c]; pose = up(pose)) {
          const int i = M.joints[pose - 1].v;
          if (i >= nd || (!around[i].empty() && around[i].back() == c)) continue;
          around[i].push_back(c);
          ++open[c];
        }
      }
    for (int c = 0; c < M.nc; ++c)
      if (anchors[3 * c] < 0 && anchors[3 * c + 1] < 0 && anchors[3 * c + 2] < 0) return false;  // holds or never does
    for (int i = 0; i < nd; ++i)
      if (!below[i]) ready.push_back(i);
    while (!ready.empty()) {
      size_t best = 0;
      int least = 1 << 30;
      for (size_t r = 0; r < ready.size(); ++r) {
        const int x = cost(ready[r]);
        if (x < least || (x == least && ready[r] > ready[best])) least = x, best = r;
      }
      if (least + 1 > kMostPoses) return false;
      const int i = ready[best];
      ready.erase(ready.begin() + best);
      int f = front(i);
      for (int c : touching[i]) {
        if (added[c]) continue;
        added[c] = 1;
        for (int s = 0; s < 3; ++s)
          if (anchors[3 * c + s] >= 0) f = join(f, front(anchors[3 * c + s]));
        Front& F = fronts[f];
        const int m = take(F, F.multipliers, c), n = entries(F), at = entry(F, m);
        if (int(F.multipliers.size()) > kMostMultipliers) return false;
        F.size[m] = 0;
        for (int s = 0; s < 3; ++s) {
          if (anchors[3 * c + s] < 0) continue;
          const int place = plan.place[3 * c + s] = find(F.poses, anchors[3 * c + s]);
          for (int l = 0; l < ne; ++l) {
            const int to = place * B + nx + l, from = 18 * c + 6 * s + plan.eta[l];
            F.F[size_t(at) * n + to] += w.loops.end[from];
            F.F[size_t(to) * n + at] += w.loops.start[from];
          }
        }
        emit(FrontOp::add, f, c, m, 0);
      }
      const int above = parent[i];
      if (above >= 0 && front_of[above] >= 0) f = join(f, front_of[above]);
      Front& F = fronts[f];
      const int n = entries(F), slot = find(F.poses, i), at = slot * B;
      std::vector<double> U(n, 0.0), W(n, 0.0);
      const double *a = w.loops.a + i * B, *c = w.loops.c + i * B;
      double D = w.newton.diagonal[i];
      for (int k = 0; k < n; ++k)
        for (int j = 0; j < B; ++j) {
          U[k] += F.F[size_t(k) * n + at + j] * a[j];
          W[k] += F.F[size_t(at + j) * n + k] * c[j];
        }
      for (int j = 0; j < B; ++j) {
        U[at + j] += w.loops.q2[i * B + j];
        W[at + j] += w.loops.q1[i * B + j];
        D += c[j] * U[at + j];
      }
      if (!(__builtin_fabs(D) > 0)) return false;
      update(F.F, n, U, W, 1 / D);
      for (size_t m = 0; m < F.multipliers.size(); ++m)
        F.size[m] += __builtin_fabs(U[entry(F, int(m))] * W[entry(F, int(m))] / D);
      front_of[i] = -1;
      int to = LoopPlan::kStays;
      if (above < 0) to = LoopPlan::kLeaves;
      else if (front_of[above] >= 0) to = find(F.poses, above);
      if (to == LoopPlan::kStays) {
        F.poses[slot] = above;
        front_of[above] = f;
      } else {
        for (int j = 0; j < B; ++j)
          for (int k = 0; k < n; ++k) {
            if (to >= 0) F.F[size_t(to * B + j) * n + k] += F.F[size_t(at + j) * n + k];
            F.F[size_t(at + j) * n + k] = 0;
          }
        for (int j = 0; j < B; ++j)
          for (int k = 0; k < n; ++k) {
            if (to >= 0) F.F[size_t(k) * n + to * B + j] += F.F[size_t(k) * n + at + j];
            F.F[size_t(k) * n + at + j] = 0;
          }
        F.poses[slot] = -1;
      }
      emit(FrontOp::joint, f, i, slot, to);
      for (int c : around[i]) --open[c];
      pivots(f, kSound);
      bool empty = true;
      for (int p : F.poses) empty = empty && p < 0;
      if (empty) {
        pivots(f, kLastResort);
        for (int m : F.multipliers)
          if (m >= 0) return false;  // redundant
        spare.push_back(f);
      }
      if (above >= 0 && --below[above] == 0) ready.push_back(above);
    }
    return true;
  }
  void pivots(int f, double sound) {
    Front& F = fronts[f];
    const int n = entries(F);
    for (;;) {
      int best = -1;
      double most = sound;
      for (size_t m = 0; m < F.multipliers.size(); ++m) {
        const int at = entry(F, int(m));
        if (F.multipliers[m] < 0 || !(F.size[m] > 0) || open[F.multipliers[m]] > 0) continue;
        const double ratio = __builtin_fabs(F.F[size_t(at) * n + at]) / F.size[m];
        if (ratio >= most) most = ratio, best = int(m);
      }
      if (best < 0) return;
      const int at = entry(F, best);
      const double inverse = 1 / F.F[size_t(at) * n + at];
      std::vector<double> U(n), W(n);
      for (int k = 0; k < n; ++k) {
        U[k] = F.F[size_t(k) * n + at];
        W[k] = F.F[size_t(at) * n + k];
      }
      update(F.F, n, U, W, inverse);
      for (size_t m = 0; m < F.multipliers.size(); ++m)
        F.size[m] += __builtin_fabs(U[entry(F, int(m))] * W[entry(F, int(m))] * inverse);
      for (int k = 0; k < n; ++k) F.F[size_t(k) * n + at] = F.F[size_t(at) * n + k] = 0;
      emit(FrontOp::pivot, f, F.multipliers[best], best, 0);
      F.multipliers[best] = -1;
    }
  }

  // numbers of poses and multipliers become entries
  void finish() {
    const int B = plan.lanes;
    for (const Front& f : fronts) {
      const int n = (f.most_poses * B + f.most_multipliers + kWidth - 1) / kWidth * kWidth;
      plan.size.push_back(n);
      plan.matrix.push_back(plan.matrices);
      plan.vector.push_back(plan.vectors);
      plan.matrices += n * n;
      plan.vectors += n;
    }
    std::vector<int> moves;
    for (int& p : plan.place) p = p < 0 ? -1 : p * B;
    for (size_t t = 0; t < plan.steps.size(); ++t) {
      FrontStep& s = plan.steps[t];
      auto multiplier = [&](int f, int m) { return fronts[f].most_poses * B + m; };
      const int n = plan.size[s.front];
      if (s.kind == FrontOp::joint) {
        s.at *= B;
        if (s.to >= 0) s.to *= B;
        plan.work += double(n) * n + 2.0 * n * B;
      } else if (s.kind == FrontOp::join) {
        int end = int(plan.moves.size());
        for (size_t k = t + 1; k < plan.steps.size(); ++k)
          if (plan.steps[k].kind == FrontOp::join) {
            end = plan.steps[k].index;
            break;
          }
        const int first = s.index, poses = s.at;
        s.index = int(moves.size());
        for (int i = first; i < end; i += 2) {
          const bool pose = i < first + 2 * poses;
          for (int l = 0; l < (pose ? B : 1); ++l) {
            moves.push_back(pose ? plan.moves[i] * B + l : multiplier(s.front, plan.moves[i]));
            moves.push_back(pose ? plan.moves[i + 1] * B + l : multiplier(s.to, plan.moves[i + 1]));
          }
        }
        s.at = (int(moves.size()) - s.index) / 2;
        plan.work += double(s.at) * s.at;
      } else {
        s.at = multiplier(s.front, s.at);
        if (s.kind == FrontOp::pivot) plan.work += double(n) * n;
      }
      if (s.kind == FrontOp::joint || s.kind == FrontOp::pivot) {
        s.row = plan.rows;
        plan.rows += n;
      }
    }
    plan.moves.swap(moves);
  }

  // ---- the whole matrix: the unknown of least degree next, multipliers as soon as their pivot is sound. Returns the
  // nanoseconds of a factorization, roughly, 0 where there is none.
  double condense(CondensedPlan& out) const {
    const int nd = M.nd, n = nd + M.nc;
    if (n > 4000) return 0;
    std::vector<double> K(size_t(n) * n, 0.0), size(n, 0.0);
    std::vector<std::vector<int>> near(n);
    std::vector<std::vector<CondensedEntry>> rows(n);
    auto put = [&](int i, int k, int kind, int a, int b, double x) {
      rows[i].push_back({k, kind, a, b});
      K[size_t(i) * n + k] = x;
      if (i != k) near[i].push_back(k);
    };
    auto product = [&](const double* a, const double* b) {
      double t = 0;
      for (int l = 0; l < 8; ++l) t += a[l] * b[l];
      return t;
    };
    for (int k = 0; k < nd; ++k) {
      const int d = M.dyn_joint[k];
      put(k, k, CondensedEntry::diagonal, d, k, product(w.gen.P1j + 8 * d, w.gen.Q2j + 8 * d) + w.newton.diagonal[k]);
      for (int t = M.elim_path_offset[k]; t < M.elim_path_offset[k + 1]; ++t) {
        const int i = M.elim_path[t], a = M.dyn_joint[i];
        put(i, k, CondensedEntry::upper, a, d, product(w.gen.P1j + 8 * a, w.gen.Q2j + 8 * d));
        put(k, i, CondensedEntry::lower, d, a, product(w.gen.Q1j + 8 * d, w.gen.P2j + 8 * a));
      }
    }
    std::vector<double> R0(M.local_v.size()), R1(M.local_v.size());
    rows_of_wrenches(M, w.loops.start, w.loops.S0, R0.data());
    rows_of_wrenches(M, w.loops.end, w.loops.S1, R1.data());
    for (int c = 0; c < M.nc; ++c) {
      const Element& e = M.constraints[c];
      for (int t = e.vars; t < e.vars + moving(e); ++t) {
        const int v = M.local_v[t];
        if (v >= nd || (R0[t] == 0 && R1[t] == 0)) continue;  // vanishes by structure
        put(v, nd + c, CondensedEntry::column, t, 0, -R0[t]);
        put(nd + c, v, CondensedEntry::row, t, 0, R1[t]);
      }
    }
    for (auto& list : near) std::sort(list.begin(), list.end());
    std::vector<int> position(n, -1);
    std::vector<std::vector<int>> later(n);  // of each position: unknowns that it is coupled to and that come later
    double work = 0;
    for (int step = 0; step < n; ++step) {
      int best = -1;
      for (int i = 0; i < n; ++i) {
        if (position[i] >= 0 || (best >= 0 && near[i].size() >= near[best].size())) continue;
        const double D = __builtin_fabs(K[size_t(i) * n + i]);
        if (i >= nd && !(size[i] > 0 && D >= kSound * size[i])) continue;
        best = i;
      }
      if (best < 0) {  // only multipliers with poor pivots are left: the best of them
        double most = kLastResort;
        for (int i = 0; i < n; ++i)
          if (position[i] < 0 && size[i] > 0 && __builtin_fabs(K[size_t(i) * n + i]) / size[i] > most)
            most = __builtin_fabs(K[size_t(i) * n + i]) / size[i], best = i;
        if (best < 0) return 0;  // redundant
      }
      const double D = K[size_t(best) * n + best];
      if (!(__builtin_fabs(D) > 0)) return 0;
      position[best] = step;
      out.unknown.push_back(best);
      const std::vector<int> around = near[best];
      later[step] = around;
      work += double(around.size()) * around.size();
      for (int i : around) {
        const double f = K[size_t(i) * n + best] / D;
        for (int k : around) K[size_t(i) * n + k] -= f * K[size_t(best) * n + k];
        size[i] += __builtin_fabs(f * K[size_t(best) * n + i]);
        std::vector<int> merged;
        std::set_union(near[i].begin(), near[i].end(), around.begin(), around.end(), std::back_inserter(merged));
        merged.erase(std::remove_if(merged.begin(), merged.end(), [&](int k) { return k == i || k == best; }),
                     merged.end());
        near[i].swap(merged);
      }
    }
    // patterns in positions
    out.dense = n;
    while (out.dense > 0 && int(later[out.dense - 1].size()) == n - out.dense) --out.dense;
    std::vector<std::vector<int>> lower(n);
    out.upper_offset.assign(1, 0);
    for (int i = 0; i < n; ++i) {
      for (int& k : later[i]) k = position[k];
      std::sort(later[i].begin(), later[i].end());
      for (int k : later[i]) lower[k].push_back(i);
      out.upper.insert(out.upper.end(), later[i].begin(), later[i].end());
      out.upper_offset.push_back(int(out.upper.size()));
    }
    out.lower_offset.assign(1, 0);
    out.entry_offset.assign(1, 0);
    for (int i = 0; i < n; ++i) {
      for (int k : lower[i]) {
        out.lower.push_back(k);
        out.meets.push_back(int(std::lower_bound(later[k].begin(), later[k].end(), i) - later[k].begin()));
      }
      out.lower_offset.push_back(int(out.lower.size()));
      for (CondensedEntry e : rows[out.unknown[i]]) {
        e.at = position[e.at];
        out.entries.push_back(e);
      }
      out.entry_offset.push_back(int(out.entries.size()));
    }
    return work + 3.0 * out.entries.size() + 6.0 * n;
  }

  // ---- nanoseconds, roughly, of one Newton direction: what decides between the ways. Calibrated on lifts and nets.
  static constexpr double kDenseTime = 0.45, kFrontTime = 0.4;
  double dense_time() const {
    double rows = 0, depth = 0, squares = 0;
    const double nc = M.nc, nd = M.nd;
    for (const Element& e : M.constraints) rows += e.n;
    for (int d : M.elim_depth) depth += d + 1, squares += 0.5 * (d + 1) * (d + 2);
    const double columns = nc + 1, solves = M.chain_solver ? 34.0 * M.nm * columns : 2 * depth * columns;
    const double factor = M.chain_solver ? 160.0 * M.nm : 2 * squares;
    return kDenseTime * (factor + solves + rows * (nc + 15) + nc * nc * nc / 3 + 3 * nc * nd);
  }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
