#include "read_model.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "elements/all.hpp"
#include "plan.hpp"

namespace nb = nanobind;

namespace dalembert {

const std::vector<Family>& families() {
#define DALEMBERT_X(name) #name,
  static const std::vector<Family> list = {
      {"potentials", &ModelData::potentials, {DALEMBERT_POTENTIALS(DALEMBERT_X)}},
      {"forces", &ModelData::forces, {DALEMBERT_FORCES(DALEMBERT_X)}},
      {"constraints", &ModelData::constraints, {DALEMBERT_CONSTRAINTS(DALEMBERT_X)}},
      {"velocities", &ModelData::constraints, {DALEMBERT_VELOCITIES(DALEMBERT_X)}},
  };
#undef DALEMBERT_X
  return list;
}

template <class T> static T get(const nb::dict& d, const char* key) { return nb::cast<T>(d[key]); }
static void fill(double* to, const nb::handle& from, size_t n) {
  auto v = nb::cast<std::vector<double>>(from);
  if (v.size() != n) throw nb::value_error("bad model data");
  std::memcpy(to, v.data(), n * sizeof(double));
}

// `family`: names of the kinds that belong here, `first`: number of the first; a kind that the dispatch does not know
// must not get by
static std::vector<Element> elements(const nb::list& list, const std::vector<std::string>& family, int first) {
  std::vector<Element> out;
  for (nb::handle h : list) {
    nb::dict d = nb::cast<nb::dict>(h);
    Element e{};
    auto kind = get<std::string>(d, "kind");
    auto at = std::find(family.begin(), family.end(), kind);
    if (at == family.end()) throw nb::value_error(("unknown kind of element here: " + kind).c_str());
    e.kind = static_cast<ElementKind>(first + int(at - family.begin()));
    e.n = get<int>(d, "n");
    e.vars = get<int>(d, "vars");
    e.site_a = get<int>(d, "site_a");
    e.site_b = get<int>(d, "site_b");
    e.site_c = get<int>(d, "site_c");
    e.length_var = get<int>(d, "length_var");
    fill(e.par, d["par"], 8);
    auto in = get<std::vector<int>>(d, "input");
    auto tp = get<std::vector<int>>(d, "tape");
    if (in.size() != 6 || tp.size() != 3) throw nb::value_error("bad element");
    for (int i = 0; i < 6; ++i) e.input[i] = in[i];
    for (int i = 0; i < 3; ++i) e.tape[i] = tp[i];
    e.spline = get<int>(d, "spline");
    e.nin = get<int>(d, "nin");
    e.in0 = get<int>(d, "in0");
    e.nrow = get<int>(d, "nrow");
    e.rows = get<int>(d, "rows");
    out.push_back(e);
  }
  return out;
}

// what the plans below walk along; a wrong index must not become a wild read
static void check_tree(const ModelData& M, const std::vector<int>& dynamic_parent, const std::vector<int>& coupling,
                       const std::vector<int>& coupling_offset) {
  auto need = [](bool good) {
    if (!good) throw nb::value_error("bad model data: index out of range in the tree");
  };
  auto increasing = [&](const std::vector<int>& off, size_t size) {
    need(!off.empty() && off.front() == 0 && off.back() == int(size));
    for (size_t i = 1; i < off.size(); ++i) need(off[i - 1] <= off[i]);
  };
  need(M.nd >= 0 && M.nd <= M.nv && M.nm >= 0 && M.nm <= M.nj);
  need(int(M.elim_parent.size()) == M.nd && int(dynamic_parent.size()) == M.nd && int(M.v_joint.size()) == M.nv);
  need(int(M.dyn_joint.size()) == M.nd);
  for (int j = 0; j < M.nj; ++j) {
    need(M.joints[j].parent >= 0 && M.joints[j].parent <= j && (j >= M.nm || M.joints[j].parent <= M.nm));
    need(M.joints[j].v >= 0 && M.joints[j].v < M.nv);
  }
  for (int j = 0; j < M.nm; ++j) need(M.v_joint[M.joints[j].v] == j);
  for (int i = 0; i < M.nd; ++i)
    for (int up : {M.elim_parent[i], dynamic_parent[i]}) need(up >= -1 && up < i);
  for (int j : M.v_joint) need(j >= -1 && j < M.nj);
  for (int v : coupling) need(v >= 0 && v < M.nv);
  for (int v : M.local_v) need(v >= 0 && v < M.nv);
  for (int j : M.local_joint) need(j >= 0 && j <= M.nj);
  increasing(coupling_offset, coupling.size());
  for (const Family& f : families())
    for (const Element& e : M.*f.elements) {
      need(e.n >= 0 && e.vars >= 0 && e.n <= int(M.local_v.size()) - e.vars &&
           e.n <= int(M.local_joint.size()) - e.vars);
      need(e.nrow >= 0 && e.rows >= 0 && e.nrow <= int(M.local_v.size()) - e.rows);
    }
}

static void read(const nb::dict& d, ModelData& M) {
  M.nq = get<int>(d, "nq");
  M.nqd = get<int>(d, "nqd");
  M.nv = get<int>(d, "nv");
  M.nd = get<int>(d, "nd");
  M.nk = M.nv - M.nd;
  M.nu = get<int>(d, "nu");
  M.v_q = get<std::vector<int>>(d, "v_q");
  for (nb::handle h : get<nb::list>(d, "balls")) {
    auto b = nb::cast<std::tuple<int, int, int>>(h);
    M.balls.push_back(Ball{std::get<0>(b), std::get<1>(b), std::get<2>(b)});
  }
  M.flat = M.balls.empty();
  M.nm = get<int>(d, "nm");
  M.nf = get<int>(d, "nf");
  for (nb::handle h : get<nb::list>(d, "joints")) {
    nb::dict x = nb::cast<nb::dict>(h);
    Joint j{};
    j.parent = get<int>(x, "parent");
    j.kind = JointKind(get<int>(x, "kind"));
    j.q = get<int>(x, "q");
    j.v = get<int>(x, "v");
    j.rot = get<int>(x, "rot");
    j.node = get<int>(x, "node");
    j.depth_all = get<int>(x, "depth_all");
    j.slot = get<int>(x, "slot");
    j.phi = get<int>(x, "phi");
    j.leaf = get<bool>(x, "leaf");
    j.turned = get<bool>(x, "turned");
    j.shifted = get<bool>(x, "shifted");
    j.pitch = get<double>(x, "pitch");
    fill(j.R0, x["R0"], 9);
    fill(j.p0, x["p0"], 3);
    M.joints.push_back(j);
  }
  for (nb::handle h : get<nb::list>(d, "nodes")) {
    nb::dict x = nb::cast<nb::dict>(h);
    Node n{};
    n.parent = get<int>(x, "parent");
    n.joint = get<int>(x, "joint");
    n.body = get<int>(x, "body");
    n.m = get<double>(x, "m");
    n.mass = get<double>(x, "mass");
    fill(n.c, x["c"], 3);
    fill(n.I, x["I"], 6);
    M.nodes.push_back(n);
  }
  for (nb::handle h : get<nb::list>(d, "sites")) {
    nb::dict x = nb::cast<nb::dict>(h);
    Site s{};
    s.pose = get<int>(x, "pose");
    fill(s.p, x["p"], 3);
    fill(s.R, x["R"], 9);
    M.sites.push_back(s);
  }
  M.nj = int(M.joints.size());
  M.nn = int(M.nodes.size());
  fill(M.Rg, d["Rg"], 9);
  M.gz = get<double>(d, "gz");
  fill(M.ref0, d["ref0"], 3);
  M.ref_q = get<std::vector<int>>(d, "ref_q");
  M.ref_axis = get<std::vector<double>>(d, "ref_axis");
  M.angles = get<std::vector<int>>(d, "rev");
  M.constraint_joints = get<std::vector<int>>(d, "cjoints");
  M.constraint_angles = get<std::vector<int>>(d, "crev");
  M.constraint_angle_slot = get<std::vector<int>>(d, "cslot");
  M.dyn_joint = get<std::vector<int>>(d, "dyn_joint");
  M.v_joint = get<std::vector<int>>(d, "v_joint");
  M.elim_parent = get<std::vector<int>>(d, "eparent");
  const auto dynamic_parent = get<std::vector<int>>(d, "kparent");
  const auto coupling = get<std::vector<int>>(d, "coupling"),
             coupling_offset = get<std::vector<int>>(d, "coupling_off");
  M.phi_slots = get<int>(d, "phi_slots");
  M.coupled = get<bool>(d, "coupled");
  M.chain_solver = get<bool>(d, "chain_solver");
  int first = 0;
  for (const Family& f : families()) {
    if (f.name == std::string("velocities")) M.nh = int(M.constraints.size());  // they follow the holonomic ones
    for (const Element& e : elements(get<nb::list>(d, f.name), f.kinds, first)) (M.*f.elements).push_back(e);
    first += int(f.kinds.size());
  }
  M.nc = int(M.constraints.size());
  M.local_q = get<std::vector<int>>(d, "local_q");
  M.local_v = get<std::vector<int>>(d, "local_v");
  M.local_joint = get<std::vector<int>>(d, "local_joint");
  for (int x : get<std::vector<int>>(d, "path_flag")) M.path_flag.push_back((unsigned char)x);
  M.tape_inputs = get<std::vector<int>>(d, "tape_inputs");
  for (nb::handle h : get<nb::list>(d, "tapes")) {
    nb::dict x = nb::cast<nb::dict>(h);
    Tape t;
    t.n_work = get<int>(x, "n_work");
    t.n_in = get<int>(x, "n_in");
    t.n_out = get<int>(x, "n_out");
    for (int c : get<std::vector<int>>(x, "code")) t.code.push_back(c);
    t.constants = get<std::vector<double>>(x, "constants");
    M.tapes.push_back(std::move(t));
  }
  for (nb::handle h : get<nb::list>(d, "splines")) {
    nb::dict x = nb::cast<nb::dict>(h);
    SplineTable s;
    s.ends = get<std::vector<double>>(x, "ends");
    s.c = get<std::vector<double>>(x, "c");
    s.area = get<std::vector<double>>(x, "area");
    M.splines.push_back(std::move(s));
  }
  // what is looked up below, before check() has seen the rest
  for (const std::vector<int>* list : {&M.v_q, &M.dyn_joint})
    if (M.nd < 0 || list->size() < size_t(M.nd)) throw nb::value_error("bad model data: sizes");
  for (int j : M.dyn_joint)
    if (j >= int(M.joints.size())) throw nb::value_error("bad model data: index out of range");
  check_tree(M, dynamic_parent, coupling, coupling_offset);
  plan_paths(M);
  plan_rows(M);
  plan_elimination(M, dynamic_parent);
  plan_patterns(M, coupling, coupling_offset);
  plan_ancestry(M);
  for (int i = 0; i < M.nd; ++i)
    if (M.v_q[i] >= 0 && M.dyn_joint[i] >= 0 && M.joints[M.dyn_joint[i]].turns()) M.hinges.push_back(M.v_q[i]);
  for (int j : M.local_joint) M.local_turn.push_back(j > 0 && j <= M.nj && M.joints[j - 1].turns());
  M.all_dynamic = M.nm == M.nd && !M.coupled && M.dyn_joint.size() == size_t(M.nd);
  for (int i = 0; i < M.nd && M.all_dynamic; ++i)
    M.all_dynamic = M.dyn_joint[i] == i && M.joints[i].v == i && M.joints[i].depth_all == M.elim_depth[i];
  M.single_chain = M.all_dynamic;
  for (int j = 0; j < M.nj; ++j) M.single_chain = M.single_chain && j < M.nm && M.joints[j].parent == j;
  M.damping = get<std::vector<double>>(d, "damping");
  M.has_damping = get<bool>(d, "has_damping");
  M.force_v = get<std::vector<int>>(d, "force_v");
  M.force_u = get<std::vector<int>>(d, "force_u");
  M.force_gear = get<std::vector<double>>(d, "force_gear");
  M.full_forces = !M.forces.empty() || (!M.flat && (M.has_damping || !M.force_v.empty()));
  M.relation = get<std::vector<double>>(d, "relation");
  M.max_local = get<int>(d, "max_local");
  M.max_tape_work = get<int>(d, "max_tape_work");
  M.max_tape_io = get<int>(d, "max_tape_io");
}

// the compiled description comes from compile.py; a wrong index must not become a wild read
static void check(const ModelData& M) {
  auto in = [](int x, int lo, int hi) {
    if (x < lo || x >= hi) throw nb::value_error("bad model data: index out of range");
  };
  for (int j = 0; j < M.nj; ++j) {
    const Joint& J = M.joints[j];
    in(J.parent, 0, j + 1);
    in(int(J.kind), 0, 9);
    in(J.q, 0, M.nq);
    in(J.v, 0, M.nv);
    in(J.rot, 0, j + 2);
    if (j < M.nm) {
      in(J.node, 0, M.nn);
      in(J.phi, 0, M.phi_slots);
    }
    if (J.turns() && !J.of_ball()) in(J.slot, 0, int(M.angles.size()));
  }
  for (const Node& n : M.nodes) {
    in(n.parent, -1, M.nn);
    in(n.joint, 1, M.nj + 1);
  }
  for (const Site& s : M.sites) in(s.pose, 0, M.nj + 1);
  for (const Tape& t : M.tapes) {
    if (t.n_work > M.max_tape_work || t.n_in > M.max_tape_io || t.n_out > M.max_tape_io || t.code.size() % 4)
      throw nb::value_error("bad tape");
    for (size_t i = 0; i < t.code.size(); i += 4) {
      int op = t.code[i], out = t.code[i + 1], a = t.code[i + 2], b = t.code[i + 3];
      in(op, 0, kTapeOps);
      if (op == OpCONST) {
        in(out, 0, t.n_work);
        in(a, 0, int(t.constants.size()));
      } else if (op == OpINPUT) {
        in(out, 0, t.n_work);
        in(a, 0, t.n_in);
      } else if (op == OpOUTPUT) {
        in(out, 0, t.n_out);
        in(a, 0, t.n_work);
      } else {
        in(out, 0, t.n_work);
        in(a, 0, t.n_work);
        in(b, 0, t.n_work);
      }
    }
  }
  int moving_balls = 0;
  for (const Ball& b : M.balls) moving_balls += b.v < M.nd;
  if (M.nqd != M.nd + moving_balls || M.nd > M.nv || M.nd < 0 || M.nk < 0 || int(M.v_q.size()) != M.nv ||
      M.nq - M.nv != int(M.balls.size()))
    throw nb::value_error("bad model data: sizes");
  for (int x : M.v_q) in(x, -int(M.balls.size()), M.nq);
  for (const Ball& b : M.balls) {
    in(b.q, 0, M.nq - 3);
    in(b.v, 0, M.nv - 2);
    in(b.joint, 0, M.nj - 2);
    for (int c = 0; c < 3; ++c) {
      const Joint& J = M.joints[b.joint + c];
      if (J.kind != JointKind(int(JointKind::BX) + c) || J.v != b.v + c || J.q != b.q || J.rot != b.joint + 1 ||
          (c && J.parent != b.joint + c))
        throw nb::value_error("bad model data: ball");
    }
  }
  for (int x : M.local_q) in(x, -1, M.nq);
  for (int x : M.local_v) in(x, 0, M.nv);
  if (M.local_q.size() != M.local_v.size()) throw nb::value_error("bad model data: local variables");
  auto inside = [&](int at, int n, size_t size) {
    in(at, 0, int(size) + 1);
    in(n, 0, int(size) + 1 - at);
  };
  auto optional = [&](int x, size_t size) { in(x, -1, int(size)); };
  for (const Family& f : families())
    for (const Element& e : M.*f.elements) {
      inside(e.vars, e.n, M.local_q.size());
      inside(e.vars, e.n, M.local_joint.size());
      inside(e.vars, e.n, M.path_flag.size());
      inside(e.rows, e.nrow, M.local_q.size());
      if (e.n <= kShortElement) inside(e.pair, e.n * e.n, M.ancestry.size());
      inside(e.in0, e.nin, M.tape_inputs.size());
      in(e.n, 0, M.max_local + 1);
      for (int s : {e.site_a, e.site_b, e.site_c}) optional(s, M.sites.size());
      for (int t : e.tape) optional(t, M.tapes.size());
      for (int u : e.input) optional(u, M.nu);
      optional(e.spline, M.splines.size());
      optional(e.length_var, e.n);
      if (e.kind == ElementKind::Slip) inside(int(e.par[0]), 10, M.relation.size());
    }
  for (int x : M.local_joint) in(x, 0, M.nj + 1);
  for (int i = 0; i < M.nv; ++i)
    if (M.v_q[i] < 0) in(i - M.balls[-1 - M.v_q[i]].v, 0, 3);
  for (int u : M.tape_inputs) in(u, 0, M.nu);
}
// where the balls are among the local variables of each element: all three components, or none
static void find_balls(ModelData& M) {
  if (M.flat) return;
  for (const Family& f : families())
    for (Element& e : M.*f.elements) {
      e.ball = int(M.ball_local.size());
      const int* lv = M.local_v.data() + e.vars;
      for (int i = 0; i < e.n; ++i) {
        const int b = -1 - M.v_q[lv[i]];
        if (b < 0 || lv[i] != M.balls[b].v) continue;
        BallLocal at{b, {-1, -1, -1}};
        for (int k = 0; k < e.n; ++k)
          if (unsigned(lv[k] - M.balls[b].v) < 3) at.at[lv[k] - M.balls[b].v] = k;
        if (at.at[1] < 0 || at.at[2] < 0) throw nb::value_error("bad model data: part of a ball");
        M.ball_local.push_back(at);
      }
      e.balls = int(M.ball_local.size()) - e.ball;
    }
}
ModelData read_model(const nb::dict& description) {
  ModelData M;
  read(description, M);
  check(M);
  find_balls(M);
  plan_free_bodies(M);
  return M;
}

}  // namespace dalembert
