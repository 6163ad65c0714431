// dalembert._core: converts and checks, computes nothing. Arrays are C-contiguous float64, checked for size here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "bind_ekf.hpp"
#include "elements/all.hpp"
#include "kernels.hpp"
#include "plan.hpp"

namespace nb = nanobind;
using namespace dalembert;

void bind_riccati(nb::module_& m);

namespace {

using Array = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using OptArray = std::optional<Array>;

// on a cache line, so that whole vectors are stored
double* aligned(double* p) { return reinterpret_cast<double*>((reinterpret_cast<uintptr_t>(p) + 63) / 64 * 64); }

nb::object make_array(std::vector<size_t> shape, double** data) {
  size_t n = 1;
  for (size_t s : shape) n *= s;
  double* p = static_cast<double*>(std::calloc(n + 9, sizeof(double)));  // zero pages come lazily
  if (!p) throw std::bad_alloc();
  nb::capsule owner(p, [](void* x) noexcept { std::free(x); });
  *data = aligned(p);
  return nb::cast(nb::ndarray<nb::numpy, double>(*data, shape.size(), shape.data(), owner));
}

const double* sized(const Array& a, size_t n, const char* name) {
  if (a.size() != n) throw nb::value_error((std::string(name) + " has " + std::to_string(a.size()) + " numbers, " + std::to_string(n) + " are needed").c_str());
  return a.data();
}
const double* sized(const std::optional<Array>& a, size_t n, const char* name) { return a ? sized(*a, n, name) : nullptr; }

template <class T> T get(const nb::dict& d, const char* key) { return nb::cast<T>(d[key]); }
void fill(double* to, const nb::handle& from, size_t n) {
  auto v = nb::cast<std::vector<double>>(from);
  if (v.size() != n) throw nb::value_error("bad model data");
  std::memcpy(to, v.data(), n * sizeof(double));
}

struct Pool {
  std::mutex mutex;
  std::vector<Scratch*> free[2];
};

// The families of elements in the order of ElementKind: the name of their list in a model, and their kinds
struct Family {
  const char* name;
  std::vector<Element> ModelData::*elements;
  std::vector<std::string> kinds;
};
const std::vector<Family>& families() {
#define DALEMBERT_X(name) #name,
  static const std::vector<Family> list = {
      {"potentials", &ModelData::potentials, {DALEMBERT_POTENTIALS(DALEMBERT_X)}},
      {"forces", &ModelData::forces, {DALEMBERT_FORCES(DALEMBERT_X)}},
      {"constraints", &ModelData::constraints, {DALEMBERT_CONSTRAINTS(DALEMBERT_X)}},
  };
#undef DALEMBERT_X
  return list;
}

class Core {
 public:
  explicit Core(const nb::dict& d) : table_(kernels()) { read(d); check(); }
  ~Core() { for (auto& list : pool_.free) for (Scratch* s : list) table_.drop(s); }
  Core(const Core&) = delete;

  const ModelData& model() const { return M; }
  const KernelTable& table() const { return table_; }

  Scratch* take(bool lanes) {
    {
      std::lock_guard<std::mutex> lock(pool_.mutex);
      auto& list = pool_.free[lanes];
      if (!list.empty()) { Scratch* s = list.back(); list.pop_back(); return s; }
    }
    Scratch* s = table_.make(M, true, lanes);
    if (!s) throw std::bad_alloc();
    return s;
  }
  void give(Scratch* s, bool lanes) {
    std::lock_guard<std::mutex> lock(pool_.mutex);
    pool_.free[lanes].push_back(s);
  }

 private:
  ModelData M;
  const KernelTable& table_;
  Pool pool_;

  // `family`: names of the kinds that belong here, `first`: number of the first; a kind that the dispatch does not know must not get by
  static std::vector<Element> elements(const nb::list& list, const std::vector<std::string>& family, int first) {
    std::vector<Element> out;
    for (nb::handle h : list) {
      nb::dict d = nb::cast<nb::dict>(h);
      Element e{};
      auto kind = get<std::string>(d, "kind");
      auto at = std::find(family.begin(), family.end(), kind);
      if (at == family.end()) throw nb::value_error(("unknown kind of element here: " + kind).c_str());
      e.kind = static_cast<ElementKind>(first + int(at - family.begin()));
      e.n = get<int>(d, "n"); e.vars = get<int>(d, "vars"); e.pair = get<int>(d, "pair");
      e.site_a = get<int>(d, "site_a"); e.site_b = get<int>(d, "site_b"); e.site_c = get<int>(d, "site_c");
      e.length_var = get<int>(d, "length_var");
      fill(e.par, d["par"], 8);
      auto in = get<std::vector<int>>(d, "input");
      auto tp = get<std::vector<int>>(d, "tape");
      if (in.size() != 6 || tp.size() != 3) throw nb::value_error("bad element");
      for (int i = 0; i < 6; ++i) e.input[i] = in[i];
      for (int i = 0; i < 3; ++i) e.tape[i] = tp[i];
      e.spline = get<int>(d, "spline"); e.nin = get<int>(d, "nin"); e.in0 = get<int>(d, "in0");
      e.nrow = get<int>(d, "nrow"); e.rows = get<int>(d, "rows");
      out.push_back(e);
    }
    return out;
  }

  void read(const nb::dict& d) {
    M.nq = get<int>(d, "nq"); M.nd = get<int>(d, "nd"); M.nk = M.nq - M.nd; M.nu = get<int>(d, "nu");
    M.nm = get<int>(d, "nm"); M.nf = get<int>(d, "nf");
    for (nb::handle h : get<nb::list>(d, "joints")) {
      nb::dict x = nb::cast<nb::dict>(h);
      Joint j{};
      j.parent = get<int>(x, "parent"); j.kind = get<int>(x, "kind"); j.q = get<int>(x, "q"); j.rot = get<int>(x, "rot");
      j.node = get<int>(x, "node"); j.depth_all = get<int>(x, "depth_all"); j.slot = get<int>(x, "slot");
      j.phi = get<int>(x, "phi"); j.leaf = get<bool>(x, "leaf");
      j.turned = get<bool>(x, "turned"); j.shifted = get<bool>(x, "shifted"); j.pitch = get<double>(x, "pitch");
      fill(j.R0, x["R0"], 9); fill(j.p0, x["p0"], 3);
      M.joints.push_back(j);
    }
    for (nb::handle h : get<nb::list>(d, "nodes")) {
      nb::dict x = nb::cast<nb::dict>(h);
      Node n{};
      n.parent = get<int>(x, "parent"); n.joint = get<int>(x, "joint"); n.body = get<int>(x, "body");
      n.m = get<double>(x, "m"); n.mass = get<double>(x, "mass");
      fill(n.c, x["c"], 3); fill(n.I, x["I"], 6);
      M.nodes.push_back(n);
    }
    for (nb::handle h : get<nb::list>(d, "sites")) {
      nb::dict x = nb::cast<nb::dict>(h);
      Site s{};
      s.pose = get<int>(x, "pose"); fill(s.p, x["p"], 3); fill(s.R, x["R"], 9);
      M.sites.push_back(s);
    }
    M.nj = int(M.joints.size()); M.nn = int(M.nodes.size());
    fill(M.Rg, d["Rg"], 9); M.gz = get<double>(d, "gz"); fill(M.ref0, d["ref0"], 3);
    M.ref_q = get<std::vector<int>>(d, "ref_q"); M.ref_axis = get<std::vector<double>>(d, "ref_axis");
    M.rev = get<std::vector<int>>(d, "rev"); M.cjoints = get<std::vector<int>>(d, "cjoints"); M.crev = get<std::vector<int>>(d, "crev");
    M.cslot = get<std::vector<int>>(d, "cslot"); M.dyn_joint = get<std::vector<int>>(d, "dyn_joint"); M.q_joint = get<std::vector<int>>(d, "q_joint");
    M.path_q = get<std::vector<int>>(d, "path_q"); M.path_off = get<std::vector<int>>(d, "path_off");
    plan_rows(M);
    M.eparent = get<std::vector<int>>(d, "eparent"); M.edepth = get<std::vector<int>>(d, "edepth"); M.eoff = get<std::vector<int>>(d, "eoff");
    M.epath = get<std::vector<int>>(d, "epath"); M.epath_off = get<std::vector<int>>(d, "epath_off"); M.packed = get<int>(d, "packed"); M.phi_slots = get<int>(d, "phi_slots");
    M.edesc = get<std::vector<int>>(d, "edesc"); M.edesc_off = get<std::vector<int>>(d, "edesc_off");
    M.coupled = get<bool>(d, "coupled"); M.chain_solver = get<bool>(d, "chain_solver");
    M.kdepth = get<std::vector<int>>(d, "kdepth"); M.kparent = get<std::vector<int>>(d, "kparent");
    M.slot_map = get<std::vector<int>>(d, "slot_map"); M.slot_off = get<std::vector<int>>(d, "slot_off");
    M.nbr = get<std::vector<int>>(d, "nbr"); M.nbr_off = get<std::vector<int>>(d, "nbr_off");
    M.lnbr = get<std::vector<int>>(d, "lnbr"); M.lnbr_off = get<std::vector<int>>(d, "lnbr_off");
    auto dynamic = [this](const std::vector<int>& columns, const std::vector<int>& off) {
      std::vector<int> out;
      for (size_t r = 0; r + 1 < off.size(); ++r) {
        int n = 0;
        for (int t = off[r]; t < off[r + 1]; ++t) n += columns[t] < M.nd;
        out.push_back(n);
      }
      return out;
    };
    M.nbr_dyn = dynamic(M.nbr, M.nbr_off); M.lnbr_dyn = dynamic(M.lnbr, M.lnbr_off);
    int first = 0;
    for (const Family& f : families()) {
      M.*f.elements = elements(get<nb::list>(d, f.name), f.kinds, first);
      first += int(f.kinds.size());
    }
    M.nc = int(M.constraints.size());
    M.local_q = get<std::vector<int>>(d, "local_q"); M.local_joint = get<std::vector<int>>(d, "local_joint");
    for (int x : get<std::vector<int>>(d, "path_flag")) M.path_flag.push_back((unsigned char)x);
    for (int x : get<std::vector<int>>(d, "anc")) M.anc.push_back((unsigned char)x);
    M.tape_inputs = get<std::vector<int>>(d, "tape_inputs");
    for (nb::handle h : get<nb::list>(d, "tapes")) {
      nb::dict x = nb::cast<nb::dict>(h);
      Tape t;
      t.n_work = get<int>(x, "n_work"); t.n_in = get<int>(x, "n_in"); t.n_out = get<int>(x, "n_out");
      for (int c : get<std::vector<int>>(x, "code")) t.code.push_back(c);
      t.constants = get<std::vector<double>>(x, "constants");
      M.tapes.push_back(std::move(t));
    }
    for (nb::handle h : get<nb::list>(d, "splines")) {
      nb::dict x = nb::cast<nb::dict>(h);
      SplineTable s;
      s.ends = get<std::vector<double>>(x, "ends"); s.c = get<std::vector<double>>(x, "c"); s.area = get<std::vector<double>>(x, "area");
      M.splines.push_back(std::move(s));
    }
    M.all_dynamic = M.nm == M.nd && !M.coupled && M.dyn_joint.size() == size_t(M.nd);
    for (int i = 0; i < M.nd && M.all_dynamic; ++i) M.all_dynamic = M.dyn_joint[i] == i && M.joints[i].q == i && M.joints[i].depth_all == M.edepth[i];
    M.damping = get<std::vector<double>>(d, "damping"); M.has_damping = get<bool>(d, "has_damping");
    M.force_q = get<std::vector<int>>(d, "force_q"); M.force_u = get<std::vector<int>>(d, "force_u");
    M.relation = get<std::vector<double>>(d, "relation");
    M.max_local = get<int>(d, "max_local"); M.max_tape_work = get<int>(d, "max_tape_work"); M.max_tape_io = get<int>(d, "max_tape_io");
  }

  // the compiled description comes from compile.py; a wrong index must not become a wild read
  void check() const {
    auto in = [](int x, int lo, int hi) { if (x < lo || x >= hi) throw nb::value_error("bad model data: index out of range"); };
    for (int j = 0; j < M.nj; ++j) {
      const Joint& J = M.joints[j];
      in(J.parent, 0, j + 1); in(J.kind, 0, 6); in(J.q, 0, M.nq); in(J.rot, 0, j + 2);
      if (j < M.nm) { in(J.node, 0, M.nn); in(J.phi, 0, M.phi_slots); }
      if (J.kind >= 3) in(J.slot, 0, int(M.rev.size()));
    }
    for (const Node& n : M.nodes) { in(n.parent, -1, M.nn); in(n.joint, 1, M.nj + 1); }
    for (const Site& s : M.sites) in(s.pose, 0, M.nj + 1);
    for (const Tape& t : M.tapes) {
      if (t.n_work > M.max_tape_work || t.n_in > M.max_tape_io || t.n_out > M.max_tape_io || t.code.size() % 4) throw nb::value_error("bad tape");
      for (size_t i = 0; i < t.code.size(); i += 4) {
        int op = t.code[i], out = t.code[i + 1], a = t.code[i + 2], b = t.code[i + 3];
        in(op, 0, kTapeOps);
        if (op == OpCONST) { in(out, 0, t.n_work); in(a, 0, int(t.constants.size())); }
        else if (op == OpINPUT) { in(out, 0, t.n_work); in(a, 0, t.n_in); }
        else if (op == OpOUTPUT) { in(out, 0, t.n_out); in(a, 0, t.n_work); }
        else { in(out, 0, t.n_work); in(a, 0, t.n_work); in(b, 0, t.n_work); }
      }
    }
    for (int x : M.local_q) in(x, 0, M.nq);
    auto inside = [&](int at, int n, size_t size) { in(at, 0, int(size) + 1); in(n, 0, int(size) + 1 - at); };
    auto optional = [&](int x, size_t size) { in(x, -1, int(size)); };
    for (const Family& f : families())
      for (const Element& e : M.*f.elements) {
        inside(e.vars, e.n, M.local_q.size()); inside(e.vars, e.n, M.local_joint.size()); inside(e.vars, e.n, M.path_flag.size());
        inside(e.rows, e.nrow, M.local_q.size()); inside(e.pair, e.n * e.n, M.anc.size()); inside(e.in0, e.nin, M.tape_inputs.size());
        in(e.n, 0, M.max_local + 1);
        for (int s : {e.site_a, e.site_b, e.site_c}) optional(s, M.sites.size());
        for (int t : e.tape) optional(t, M.tapes.size());
        for (int u : e.input) optional(u, M.nu);
        optional(e.spline, M.splines.size()); optional(e.length_var, e.n);
      }
    for (int x : M.local_joint) in(x, 0, M.nj + 1);
    for (int u : M.tape_inputs) in(u, 0, M.nu);
  }
};

// the end of a step, which the kernels of composed steps solve again
struct End {
  std::vector<double> y, lam;
  End(const Array& y0, const Array& lam0) : y(y0.data(), y0.data() + y0.size()), lam(lam0.data(), lam0.data() + lam0.size()) { y.push_back(0); lam.push_back(0); }
};

struct Lease {
  Core& core;
  bool lanes;
  Scratch* s;
  explicit Lease(Core& c, bool l = false) : core(c), lanes(l), s(c.take(l)) {}
  ~Lease() { core.give(s, lanes); }
  operator Scratch*() const { return s; }
};

bool interrupted() {  // with the GIL held
  if (PyErr_CheckSignals() != 0) { PyErr_Clear(); return true; }
  return false;
}

// body(i) for i in [0, n), on threads, while this thread watches for Ctrl-C, which sets `stop`: no further i is begun then, and a body may look at it.
// Fewer threads where no more can be started; what a body throws comes out here. Called with the GIL held, which the bodies do not have.
template <class F> void watched(int n, int threads, volatile bool& stop, F body) {
  std::atomic<int> next{0}, running{0};
  std::exception_ptr error;
  std::mutex mutex;
  auto work = [&] {
    try {
      for (int i; !stop && (i = next++) < n;) body(i);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      stop = true;
    }
    --running;
  };
  threads = std::max(1, std::min(threads, n));
  std::vector<std::thread> crew;
  nb::gil_scoped_release nogil;
  for (int t = 0; t < threads; ++t) {
    ++running;
    try {
      crew.emplace_back(work);
    } catch (const std::system_error&) {  // no further thread to be had: those that run do the work
      --running;
      break;
    }
  }
  if (crew.empty()) { ++running; work(); }
  for (int naps = 0; running > 0; ++naps) {
    std::this_thread::sleep_for(std::chrono::microseconds(naps < 50 ? 20 : 2000));
    if (naps % 50 == 49) {
      nb::gil_scoped_acquire gil;
      if (interrupted()) stop = true;
    }
  }
  for (auto& t : crew) t.join();
  if (error) { nb::gil_scoped_acquire gil; std::rethrow_exception(error); }
}

// body(first, last) over equal shares of [0, n) on threads
template <class F> void parallel(int n, int threads, F body) {
  threads = std::max(1, std::min(threads, n));
  if (threads == 1) { body(0, n, 0); return; }
  std::vector<std::thread> crew;
  std::exception_ptr error;
  std::mutex mutex;
  auto share = [&](int t) {
    try {
      body(int(int64_t(n) * t / threads), int(int64_t(n) * (t + 1) / threads), t);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  for (int t = 1; t < threads; ++t) {
    try { crew.emplace_back(share, t); } catch (const std::system_error&) { share(t); }
  }
  share(0);
  for (auto& t : crew) t.join();
  if (error) std::rethrow_exception(error);
}

struct Sizes {
  size_t nq, nd, nk, nu, nc, nx, nU, nw;
  explicit Sizes(const ModelData& M) : nq(M.nq), nd(M.nd), nk(M.nk), nu(M.nu), nc(M.nc), nx(M.nq + M.nd + M.nk), nU(M.nu + M.nk), nw(M.nq + M.nd + M.nu + M.nk) {}
};

double cpu_seconds() {  // of this thread: a busy machine must not spoil a timing
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// prescribed values of `count` runs: at the ends of the steps, or of all their parts. Sets `by_part`.
const double* path(const OptArray& Rho, size_t count, size_t steps, size_t nk, const Options& o, bool* by_part) {
  *by_part = Rho && o.parts->count > 1 && Rho->size() == count * steps * o.parts->count * nk && nk * steps > 0;
  return sized(Rho, count * steps * (*by_part ? o.parts->count : 1) * nk, "kinematic");
}

// ---- a rollout in blocks, so that Ctrl-C is seen; only every n-th state is stored
nb::tuple simulate(Core& core, const Options& o, const Array& q0, const Array& p0, const Array& dt, const OptArray& U, const OptArray& Rho, int every, const nb::object& progress) {
  const ModelData& M = core.model();
  Sizes z(M);
  int steps = int(dt.size());
  if (every < 1 || steps % every) throw nb::value_error("the number of steps must be a multiple of `every`");
  sized(q0, z.nq, "q"); sized(p0, z.nd, "p");
  size_t rows = steps / every;
  double *Q, *P, *L, *I;
  nb::object aq = make_array({rows + 1, z.nq}, &Q), ap = make_array({rows + 1, z.nd}, &P), al = make_array({rows, z.nc}, &L), ai = make_array({rows}, &I);
  std::memcpy(Q, q0.data(), z.nq * sizeof(double));
  std::memcpy(P, p0.data(), z.nd * sizeof(double));
  std::vector<int> its(rows + 1);
  Rollout r{steps, dt.data(), sized(U, size_t(steps) * z.nu, "u"), nullptr, Q, P, L, its.data(), every};
  r.Rho = path(Rho, 1, steps, z.nk, o, &r.rho_by_part);
  RolloutStatus st;
  bool stop = false;
  int done = 0, block = 64;
  {
    Lease s(core);
    while (done < steps && !stop && st.status == 0) {
      auto t0 = std::chrono::steady_clock::now();
      int to = done + block < steps ? done + block : steps;
      {
        nb::gil_scoped_release nogil;
        st = core.table().rollout(s, o, r, done, to, done > 0);
      }
      done = st.steps;
      double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
      if (sec < 0.02 && block < (1 << 24)) block *= 2;
      if (sec > 0.1 && block > 1) block /= 2;
      if (!progress.is_none()) progress(done);
      stop = interrupted();
    }
  }
  for (size_t i = 0; i < rows; ++i) I[i] = its[i];
  return nb::make_tuple(aq, ap, al, ai, done, st.status, st.error, stop);
}

// many rollouts: (count, nq), (count, nd), U (count or 1, steps, nu), Rho (...)
nb::tuple rollouts(Core& core, const Options& o, const Array& q0, const Array& p0, const Array& dt, const OptArray& U, const OptArray& Rho, bool shared_u, bool shared_rho, int threads, bool lanes, bool keep) {
  const ModelData& M = core.model();
  Sizes z(M);
  size_t count = z.nq ? q0.size() / z.nq : 0;
  int steps = int(dt.size());
  sized(q0, count * z.nq, "q"); sized(p0, count * z.nd, "p");
  bool by_part;
  const double *u = sized(U, (shared_u ? 1 : count) * steps * z.nu, "u"), *rho = path(Rho, shared_rho ? 1 : count, steps, z.nk, o, &by_part);
  size_t rows = keep ? steps + 1 : 1, rho_rows = size_t(steps) * (by_part ? o.parts->count : 1);
  double *Q, *P, *L;
  nb::object aq = make_array({count, rows, z.nq}, &Q), ap = make_array({count, rows, z.nd}, &P), al = make_array({count, keep ? size_t(steps) : 0, z.nc}, &L);
  std::vector<RolloutStatus> status(count);
  volatile bool stop = false;
  const KernelTable& k = core.table();
  size_t width = lanes ? k.width : 1;
  for (size_t c = 0; c < count; ++c) {
    std::memcpy(Q + c * rows * z.nq, q0.data() + c * z.nq, z.nq * sizeof(double));
    std::memcpy(P + c * rows * z.nd, p0.data() + c * z.nd, z.nd * sizeof(double));
  }
  watched(int((count + width - 1) / width), threads, stop, [&](int g) {
    Lease s(core, lanes);
    Rollout r[8];
    int n = 0;
    for (; n < int(width) && size_t(g) * width + n < count; ++n) {
      size_t c = size_t(g) * width + n;
      r[n] = Rollout{steps, dt.data(), u ? u + (shared_u ? 0 : c) * steps * z.nu : nullptr, rho ? rho + (shared_rho ? 0 : c) * rho_rows * z.nk : nullptr,
                     Q + c * rows * z.nq, P + c * rows * z.nd, keep ? L + c * steps * z.nc : nullptr, nullptr, keep ? 1 : 0, by_part};
    }
    RolloutStatus* st = &status[size_t(g) * width];
    if (lanes) { k.rollout_lanes(s, o, r, n, 0, steps, st, &stop); return; }
    constexpr int block = 256;
    for (int from = 0; from < steps && !stop && st->status == 0; from += block)
      *st = k.rollout(s, o, r[0], from, from + block < steps ? from + block : steps, from > 0);
  });
  nb::list done, codes;
  for (const RolloutStatus& st : status) { done.append(st.steps); codes.append(st.status); }
  return nb::make_tuple(aq, ap, al, done, codes, bool(stop));
}

// closed loop around a reference: u_k = Uref - K (x - Xref)
nb::tuple project(Core& core, const Options& o, const Array& x0, const Array& Xref, const Array& Uref, const Array& K, const Array& dt) {
  const ModelData& M = core.model();
  Sizes z(M);
  size_t steps = dt.size();
  sized(x0, z.nx, "x0"); sized(Xref, (steps + 1) * z.nx, "X"); sized(Uref, steps * z.nU, "U"); sized(K, steps * z.nU * z.nx, "K");
  double *X, *U;
  nb::object ax = make_array({steps + 1, z.nx}, &X), au = make_array({steps, z.nU}, &U);
  std::vector<double> Q((steps + 1) * z.nq + 1), P((steps + 1) * z.nd + 1), V((steps + 1) * z.nk + 1), u(steps * z.nu + 1), rho(steps * z.nk + 1);
  std::memcpy(Q.data(), x0.data(), z.nq * sizeof(double));
  std::memcpy(P.data(), x0.data() + z.nq, z.nd * sizeof(double));
  std::memcpy(V.data(), x0.data() + z.nq + z.nd, z.nk * sizeof(double));
  RolloutStatus st;
  {
    Lease s(core);
    nb::gil_scoped_release nogil;
    Rollout r{int(steps), dt.data(), nullptr, nullptr, Q.data(), P.data(), nullptr, nullptr};
    r.K = K.data(); r.Xref = Xref.data(); r.Uref = Uref.data(); r.Uout = u.data(); r.Rhoout = rho.data(); r.Vrho = V.data();
    st = core.table().rollout(s, o, r, 0, int(steps), false);
    for (size_t k = 0; k <= size_t(st.steps); ++k) {
      double* x = X + k * z.nx;
      std::memcpy(x, &Q[k * z.nq], z.nq * sizeof(double));
      std::memcpy(x + z.nq, &P[k * z.nd], z.nd * sizeof(double));
      std::memcpy(x + z.nq + z.nd, &V[k * z.nk], z.nk * sizeof(double));
    }
    for (size_t k = 0; k < size_t(st.steps); ++k) {
      std::memcpy(U + k * z.nU, &u[k * z.nu], z.nu * sizeof(double));
      std::memcpy(U + k * z.nU + z.nu, &rho[k * z.nk], z.nk * sizeof(double));
    }
  }
  return nb::make_tuple(ax, au, st.steps, st.status, st.error);
}

// Solve step k of a trajectory given by states and inputs, then call `then`; y guess from the next state.
struct Point {
  const double *x, *p, *u, *rho;
};

nb::tuple linearize_trajectory(Core& core, const Options& o, const Array& X, const Array& U, const Array& dt, const OptArray& Lam, int threads) {
  const ModelData& M = core.model();
  Sizes z(M);
  int steps = int(dt.size());
  sized(X, size_t(steps + 1) * z.nx, "X"); sized(U, size_t(steps) * z.nU, "U");
  const double* lam0 = sized(Lam, size_t(steps) * z.nc, "lam");
  double *A, *B;
  nb::object aa = make_array({size_t(steps), z.nx, z.nx}, &A), ab = make_array({size_t(steps), z.nx, z.nU}, &B);
  std::atomic<int> bad{steps}, code{0};
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    parallel(steps, threads, [&](int a, int b, int) {
      Lease s(core);
      std::vector<double> y(z.nq + 1), lam(z.nc + 1);
      for (int i = a; i < b && i < bad; ++i) {
        const double *x = X.data() + i * z.nx, *u = U.data() + i * z.nU;
        std::memcpy(y.data(), x + z.nx, z.nd * sizeof(double));
        std::memcpy(y.data() + z.nd, u + z.nu, z.nk * sizeof(double));
        if (lam0) std::memcpy(lam.data(), lam0 + i * z.nc, z.nc * sizeof(double));
        else if (o.stop > 0) std::fill(lam.begin(), lam.end(), 0.0);  // no step's end may depend on the steps before it
        int st = k.linearize(s, o, dt.data()[i], x, x + z.nq, u, y.data(), lam.data(), Given::guess, A + i * z.nx * z.nx, B + i * z.nx * z.nU);
        if (st) { int seen = bad; while (i < seen && !bad.compare_exchange_weak(seen, i)) {} code = st; break; }
      }
    });
  }
  return nb::make_tuple(aa, ab, int(bad), int(code));
}

nb::tuple second_order_trajectory(Core& core, const Options& o, const Array& X, const Array& U, const Array& dt, const Array& Zc, int threads) {
  const ModelData& M = core.model();
  Sizes z(M);
  int steps = int(dt.size());
  sized(X, size_t(steps + 1) * z.nx, "X"); sized(U, size_t(steps) * z.nU, "U"); sized(Zc, size_t(steps) * z.nx, "Z");
  double *xx, *xu, *uu;
  nb::object a1 = make_array({size_t(steps), z.nx, z.nx}, &xx), a2 = make_array({size_t(steps), z.nx, z.nU}, &xu), a3 = make_array({size_t(steps), z.nU, z.nU}, &uu);
  std::atomic<int> bad{steps}, code{0};
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    parallel(steps, threads, [&](int a, int b, int) {
      Lease s(core);
      std::vector<double> y(z.nq + 1), lam(z.nc + 1), zc(2 * z.nd + z.nc + 1), H(z.nw * z.nw + 1);
      for (int i = a; i < b && i < bad; ++i) {
        const double *x = X.data() + i * z.nx, *u = U.data() + i * z.nU, *c = Zc.data() + i * z.nx;
        std::memcpy(y.data(), x + z.nx, z.nd * sizeof(double));
        std::memcpy(y.data() + z.nd, u + z.nu, z.nk * sizeof(double));
        std::memcpy(zc.data(), c, z.nd * sizeof(double));
        std::memcpy(zc.data() + z.nd, c + z.nq, z.nd * sizeof(double));
        if (o.stop > 0) std::fill(lam.begin(), lam.end(), 0.0);
        int st = k.second_order(s, o, dt.data()[i], x, x + z.nq, u, y.data(), lam.data(), Given::guess, 1, zc.data(), H.data());
        if (st) { int seen = bad; while (i < seen && !bad.compare_exchange_weak(seen, i)) {} code = st; break; }
        size_t ns = z.nq + z.nd;
        for (size_t r = 0; r < ns; ++r) {
          std::memcpy(xx + (i * z.nx + r) * z.nx, &H[r * z.nw], ns * sizeof(double));
          std::memcpy(xu + (i * z.nx + r) * z.nU, &H[r * z.nw + ns], z.nU * sizeof(double));
        }
        for (size_t r = 0; r < z.nU; ++r) std::memcpy(uu + (i * z.nU + r) * z.nU, &H[(ns + r) * z.nw + ns], z.nU * sizeof(double));
      }
    });
  }
  return nb::make_tuple(a1, a2, a3, int(bad), int(code));
}

Options make_options(double alpha, double minus, double plus, double tolerance, double h_tolerance, int max_iterations, bool plain, double stop, const std::vector<double>& h_stop, int order) {
  Options o;
  o.alpha = alpha; o.minus = minus; o.plus = plus; o.tolerance = tolerance; o.h_tolerance = h_tolerance; o.max_iterations = max_iterations; o.plain = plain;
  o.h_stop = h_stop;
  o.parts = parts_of(order);
  if (!o.parts) throw nb::value_error("order must be 2, 4 or 6");
  if (stop > 0 && h_stop.empty()) o.h_stop.push_back(stop);
  // errors in units of these must not overflow
  if (stop > 0) o.stop = std::max(stop, 1e-100);
  for (double& h : o.h_stop) h = std::max(h, 1e-100);
  return o;
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Compiled numeric core of dalembert.";
  nb::set_leak_warnings(false);  // models alive at exit are no leak, and a library prints nothing
  m.def("kernels", [] { return std::string(kernels().name); }, "Name of the instruction set in use.");
  m.def("width", [] { return kernels().width; }, "Rollouts carried side by side in one SIMD register.");
  m.def("set_kernels", [](const std::string& name) { return set_kernels(name.c_str()); }, "Force an instruction set for cores made from now on ('auto' to choose).");
  m.def("parts", [](int order) {
    const Parts* parts = parts_of(order);
    if (!parts) throw nb::value_error("order must be 2, 4 or 6");
    return std::vector<double>(parts->length, parts->length + parts->count);
  }, "Lengths of the midpoint steps that make one step of this order, as fractions of it.");
  bind_riccati(m);
  nb::dict kinds, ops;
  for (const Family& f : families()) kinds[f.name] = nb::tuple(nb::cast(f.kinds));
#define DALEMBERT_X(name, operands) ops[#name] = operands;
  DALEMBERT_TAPE_OPS(DALEMBERT_X)
#undef DALEMBERT_X
  m.attr("ELEMENT_KINDS") = kinds;  // {family: kinds}
  m.attr("TAPE_OPS") = ops;         // {operation: number of operands}, numbered in this order

  nb::class_<Options>(m, "Options").def("__init__", [](Options* o, double a, double mi, double pl, double t, double h, int n, bool p, double s, const std::vector<double>& hs, int order) { new (o) Options(make_options(a, mi, pl, t, h, n, p, s, hs, order)); },
      nb::arg("alpha"), nb::arg("minus"), nb::arg("plus"), nb::arg("tolerance"), nb::arg("h_tolerance"), nb::arg("max_iterations"), nb::arg("plain"), nb::arg("stop") = 0.0, nb::arg("h_stop") = std::vector<double>(), nb::arg("order") = 2);

  nb::class_<Core>(m, "Core")
      .def(nb::init<const nb::dict&>())
      .def("frames", [](Core& c, const Array& q) {
        size_t nq = c.model().nq, n = nq ? q.size() / nq : 1, nf = c.model().nf;
        sized(q, n * nq, "q");
        double* out;
        nb::object a = make_array({n, nf, 4, 4}, &out);
        Lease s(c);
        nb::gil_scoped_release nogil;
        for (size_t i = 0; i < n; ++i) c.table().frames(s, q.data() + i * nq, out + i * nf * 16);
        return a;
      })
      .def("energy", [](Core& c, const Array& q, const Array& v) {
        size_t nq = c.model().nq, n = nq ? q.size() / nq : 1;
        sized(q, n * nq, "q"); sized(v, n * nq, "v");
        double *t, *u;
        nb::object a = make_array({n}, &t), b = make_array({n}, &u);
        Lease s(c);
        { nb::gil_scoped_release nogil; for (size_t i = 0; i < n; ++i) c.table().energy(s, q.data() + i * nq, v.data() + i * nq, t + i, u + i); }
        return nb::make_tuple(a, b);
      })
      .def("momentum", [](Core& c, const Array& q, const Array& v) {
        size_t nq = c.model().nq, n = nq ? q.size() / nq : 1;
        sized(q, n * nq, "q"); sized(v, n * nq, "v");
        double* h;
        nb::object a = make_array({n, 6}, &h);
        Lease s(c);
        nb::gil_scoped_release nogil;
        for (size_t i = 0; i < n; ++i) c.table().momentum(s, q.data() + i * nq, v.data() + i * nq, h + 6 * i);
        return a;
      })
      .def("first", [](Core& c, const Array& q, const Array& v) {
        size_t nq = c.model().nq;
        sized(q, nq, "q"); sized(v, nq, "v");
        double *a, *b;
        nb::object x = make_array({nq}, &a), y = make_array({nq}, &b);
        Lease s(c);
        c.table().first(s, q.data(), v.data(), a, b);
        return nb::make_tuple(x, y);
      })
      .def("second", [](Core& c, const Array& q, const Array& v) {
        size_t nq = c.model().nq;
        sized(q, nq, "q"); sized(v, nq, "v");
        double *a, *b, *d;
        nb::object x = make_array({nq, nq}, &a), y = make_array({nq, nq}, &b), w = make_array({nq, nq}, &d);
        Lease s(c);
        c.table().second(s, q.data(), v.data(), a, b, d);
        return nb::make_tuple(x, y, w);
      })
      .def("third", [](Core& c, const Array& q, const Array& v, const Array& dq, const Array& dv) {
        size_t nq = c.model().nq;
        sized(q, nq, "q"); sized(v, nq, "v"); sized(dq, nq, "dq"); sized(dv, nq, "dv");
        double *a, *b, *d;
        nb::object x = make_array({nq, nq}, &a), y = make_array({nq, nq}, &b), w = make_array({nq, nq}, &d);
        Lease s(c);
        c.table().third(s, q.data(), v.data(), dq.data(), dv.data(), a, b, d);
        return nb::make_tuple(x, y, w);
      })
      .def("potential", [](Core& c, const Array& q, bool hessian) {
        size_t nq = c.model().nq;
        sized(q, nq, "q");
        double value = 0, *g, *h = nullptr;
        nb::object x = make_array({nq}, &g), y = nb::none();
        if (hessian) y = make_array({nq, nq}, &h);
        Lease s(c);
        c.table().potential(s, q.data(), &value, g, h);
        return nb::make_tuple(value, x, y);
      })
      .def("constraints", [](Core& c, const Array& q) {
        size_t nq = c.model().nq, nc = c.model().nc, n = nq ? q.size() / nq : 1;
        sized(q, n * nq, "q");
        double *h, *C;
        nb::object x = make_array({n, nc}, &h), y = make_array({n, nc, nq}, &C);
        Lease s(c);
        { nb::gil_scoped_release nogil; for (size_t i = 0; i < n; ++i) c.table().constraints(s, q.data() + i * nq, h + i * nc, C + i * nc * nq); }
        return nb::make_tuple(x, y);
      })
      .def("constraint_second", [](Core& c, const Array& q, const Array& weight) {
        size_t nq = c.model().nq;
        sized(q, nq, "q"); sized(weight, c.model().nc, "weight");
        double* D;
        nb::object x = make_array({nq, nq}, &D);
        Lease s(c);
        c.table().constraint_second(s, q.data(), weight.data(), D);
        return x;
      })
      .def("constraint_third", [](Core& c, const Array& q, const Array& weight, const Array& dir) {
        size_t nq = c.model().nq;
        sized(q, nq, "q"); sized(weight, c.model().nc, "weight"); sized(dir, nq, "direction");
        double* D;
        nb::object x = make_array({nq, nq}, &D);
        Lease s(c);
        c.table().constraint_third(s, q.data(), weight.data(), dir.data(), D);
        return x;
      })
      .def("force", [](Core& c, const Array& q, const Array& v, const Array& u) {
        size_t nq = c.model().nq;
        sized(q, nq, "q"); sized(v, nq, "v"); sized(u, c.model().nu, "u");
        double* F;
        nb::object x = make_array({size_t(c.model().nd)}, &F);
        Lease s(c);
        c.table().force(s, q.data(), v.data(), u.data(), F);
        return x;
      })
      .def("force_first", [](Core& c, const Array& q, const Array& v, const Array& u) {
        Sizes z(c.model());
        sized(q, z.nq, "q"); sized(v, z.nq, "v"); sized(u, z.nu, "u");
        double *a, *b, *d;
        nb::object x = make_array({z.nd, z.nq}, &a), y = make_array({z.nd, z.nq}, &b), w = make_array({z.nd, z.nu}, &d);
        Lease s(c);
        c.table().force_first(s, q.data(), v.data(), u.data(), a, b, d);
        return nb::make_tuple(x, y, w);
      })
      .def("force_second", [](Core& c, const Array& q, const Array& v, const Array& u, const Array& m) {
        Sizes z(c.model());
        sized(q, z.nq, "q"); sized(v, z.nq, "v"); sized(u, z.nu, "u"); sized(m, z.nd, "weight");
        double *p[6];
        nb::object o0 = make_array({z.nq, z.nq}, &p[0]), o1 = make_array({z.nq, z.nq}, &p[1]), o2 = make_array({z.nq, z.nq}, &p[2]);
        nb::object o3 = make_array({z.nq, z.nu}, &p[3]), o4 = make_array({z.nq, z.nu}, &p[4]), o5 = make_array({z.nu, z.nu}, &p[5]);
        Lease s(c);
        c.table().force_second(s, q.data(), v.data(), u.data(), m.data(), p[0], p[1], p[2], p[3], p[4], p[5]);
        return nb::make_tuple(o0, o1, o2, o3, o4, o5);
      })
      .def("twists", [](Core& c, const Array& q) {
        sized(q, c.model().nq, "q");
        double* S;
        nb::object x = make_array({size_t(c.model().nj), 6}, &S);
        Lease s(c);
        c.table().twists(s, q.data(), S);
        return x;
      })
      .def("acceleration", [](Core& c, const Array& q, const Array& v, const Array& u, const Array& kin) {
        Sizes z(c.model());
        sized(q, z.nq, "q"); sized(v, z.nq, "v"); sized(u, z.nu, "u"); sized(kin, z.nk, "kinematic accelerations");
        double *a, *l;
        nb::object x = make_array({z.nq}, &a), y = make_array({z.nc}, &l);
        std::memcpy(a + z.nd, kin.data(), z.nk * sizeof(double));
        Lease s(c);
        bool ok = c.table().acceleration(s, q.data(), v.data(), u.data(), a, l);
        return nb::make_tuple(x, y, ok);
      })
      .def("acceleration_first", [](Core& c, const Array& q, const Array& v, const Array& u, const Array& kin) {
        Sizes z(c.model());
        sized(q, z.nq, "q"); sized(v, z.nq, "v"); sized(u, z.nu, "u"); sized(kin, z.nk, "kinematic accelerations");
        size_t ncol = 2 * z.nq + z.nu + z.nk;
        double *a, *l, *da, *dl;
        nb::object x = make_array({z.nq}, &a), y = make_array({z.nc}, &l), dx = make_array({z.nd, ncol}, &da), dy = make_array({z.nc, ncol}, &dl);
        std::memcpy(a + z.nd, kin.data(), z.nk * sizeof(double));
        Lease s(c);
        bool ok = c.table().acceleration_first(s, q.data(), v.data(), u.data(), a, l, da, dl);
        return nb::make_tuple(x, y, dx, dy, ok);
      })
      .def("acceleration_second", [](Core& c, const Array& q, const Array& v, const Array& u, const Array& kin) {
        Sizes z(c.model());
        sized(q, z.nq, "q"); sized(v, z.nq, "v"); sized(u, z.nu, "u"); sized(kin, z.nk, "kinematic accelerations");
        size_t ncol = 2 * z.nq + z.nu + z.nk;
        double *da, *dl;
        nb::object dx = make_array({ncol, z.nd, ncol}, &da), dy = make_array({ncol, z.nc, ncol}, &dl);
        bool ok = c.table().acceleration_second(c.model(), q.data(), v.data(), u.data(), kin.data(), da, dl);
        return nb::make_tuple(dx, dy, ok);
      })
      .def("velocity", [](Core& c, const Array& q, const Array& p, const Array& vk) {  // (n, nq), (n, nd), (n, nk) -> (n, nq)
        Sizes z(c.model());
        size_t n = z.nq ? q.size() / z.nq : 1;
        sized(q, n * z.nq, "q"); sized(p, n * z.nd, "p"); sized(vk, n * z.nk, "kinematic velocities");
        double* v;
        nb::object x = make_array({n, z.nq}, &v);
        bool ok = true;
        Lease s(c);
        {
          nb::gil_scoped_release nogil;
          for (size_t i = 0; i < n; ++i) {
            std::memcpy(v + i * z.nq + z.nd, vk.data() + i * z.nk, z.nk * sizeof(double));
            ok = c.table().velocity(s, q.data() + i * z.nq, p.data() + i * z.nd, v + i * z.nq) && ok;
          }
        }
        return nb::make_tuple(x, ok);
      })
      .def("step", [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& guess, const Array& lam) {
        Sizes z(c.model());
        sized(x, z.nq, "q"); sized(p, z.nd, "p"); sized(u, z.nu, "u"); sized(guess, z.nq, "guess"); sized(lam, z.nc, "lam");
        double *y, *l, *pn;
        nb::object ay = make_array({z.nq}, &y), al = make_array({z.nc}, &l), ap = make_array({z.nd}, &pn);
        std::memcpy(y, guess.data(), z.nq * sizeof(double));
        std::memcpy(l, lam.data(), z.nc * sizeof(double));
        int its = 0;
        double err = 0;
        Lease s(c);
        int st = c.table().step(s, o, dt, x.data(), p.data(), u.data(), y, l, pn, &its, &err);
        return nb::make_tuple(ay, ap, al, its, st, err);
      })
      .def("simulate", &simulate, nb::arg("options"), nb::arg("q"), nb::arg("p"), nb::arg("dt"), nb::arg("u").none(), nb::arg("kinematic").none(), nb::arg("every"), nb::arg("progress").none() = nb::none())
      .def("rollouts", &rollouts, nb::arg("options"), nb::arg("q"), nb::arg("p"), nb::arg("dt"), nb::arg("u").none(), nb::arg("kinematic").none(), nb::arg("shared_u"), nb::arg("shared_rho"), nb::arg("threads"), nb::arg("lanes"), nb::arg("keep"))
      .def("project", &project)
      .def("linearize_trajectory", &linearize_trajectory, nb::arg("options"), nb::arg("X"), nb::arg("U"), nb::arg("dt"), nb::arg("lam").none(), nb::arg("threads"))
      .def("second_order_trajectory", &second_order_trajectory)
      .def("derivatives", [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y, const Array& lam, bool with_dt) {
        Sizes z(c.model());
        sized(x, z.nq, "q"); sized(p, z.nd, "p"); sized(u, z.nu, "u"); sized(y, z.nq, "next q"); sized(lam, z.nc, "lam");
        size_t nw = z.nw + with_dt;
        double *Y, *P, *L;
        nb::object a = make_array({z.nd, nw}, &Y), b = make_array({z.nd, nw}, &P), l = make_array({z.nc, nw}, &L);
        Lease s(c);
        End end(y, lam);
        int status = c.table().derivatives(s, o, dt, x.data(), p.data(), u.data(), end.y.data(), end.lam.data(), Y, P, L, with_dt);
        return nb::make_tuple(a, b, l, status == 0);
      })
      .def("adjoint", [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y, const Array& lam, const Array& zq, const Array& zp, const Array& zl) {
        Sizes z(c.model());
        sized(x, z.nq, "q"); sized(p, z.nd, "p"); sized(u, z.nu, "u"); sized(y, z.nq, "next q"); sized(lam, z.nc, "lam");
        sized(zq, z.nd, "zq"); sized(zp, z.nd, "zp"); sized(zl, z.nc, "zl");
        double* g;
        nb::object a = make_array({z.nw}, &g);
        Lease s(c);
        End end(y, lam);
        int status = c.table().adjoint(s, o, dt, x.data(), p.data(), u.data(), end.y.data(), end.lam.data(), zq.data(), zp.data(), zl.data(), g);
        return nb::make_tuple(a, status == 0);
      })
      .def("second_order", [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y, const Array& lam, const Array& Zc) {
        Sizes z(c.model());
        sized(x, z.nq, "q"); sized(p, z.nd, "p"); sized(u, z.nu, "u"); sized(y, z.nq, "next q"); sized(lam, z.nc, "lam");
        size_t len = 2 * z.nd + z.nc, count = len ? Zc.size() / len : 0;
        sized(Zc, count * len, "costates");
        double* H;
        nb::object a = make_array({count, z.nw, z.nw}, &H);
        Lease s(c);
        nb::gil_scoped_release nogil;
        End end(y, lam);
        int status = c.table().second_order(s, o, dt, x.data(), p.data(), u.data(), end.y.data(), end.lam.data(), Given::solution, int(count), Zc.data(), H);
        nb::gil_scoped_acquire gil;
        return nb::make_tuple(a, status == 0);
      })
      .def("condition", [](Core& c, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y, const Array& lam) {
        Sizes z(c.model());
        sized(x, z.nq, "q"); sized(p, z.nd, "p"); sized(u, z.nu, "u"); sized(y, z.nq, "next q"); sized(lam, z.nc, "lam");
        double newton = 0;
        Lease s(c);
        double cons = c.table().condition(s, o, dt, x.data(), p.data(), u.data(), y.data(), lam.data(), &newton);
        return nb::make_tuple(newton, cons);
      })
      // repeats one kernel on the same point, for the benchmarks: CPU seconds per call
      .def("time", [](Core& c, const std::string& what, const Options& o, double dt, const Array& x, const Array& p, const Array& u, const Array& y, const Array& lam, int repeats) {
        Sizes z(c.model());
        sized(x, z.nq, "q"); sized(p, z.nd, "p"); sized(u, z.nu, "u"); sized(y, z.nq, "next q"); sized(lam, z.nc, "lam");
        size_t nz = 2 * z.nd + z.nc;
        std::vector<double> a_((what == "tensors" ? nz : 1) * z.nw * z.nw + z.nx * z.nx + 9), b_(z.nw * z.nw + z.nx * z.nU + 9), d_(z.nw * z.nw + 9), v(z.nq + 1), zc(nz + 1, 1.0), unit(nz * nz + 1);
        double *a = aligned(a_.data()), *b = aligned(b_.data()), *d = aligned(d_.data());  // as make_array does
        for (size_t i = 0; i < nz; ++i) unit[i * nz + i] = 1.0;
        for (size_t i = 0; i < z.nq; ++i) v[i] = (y.data()[i] - x.data()[i]) / dt;
        Lease s(c);
        const KernelTable& k = c.table();
        nb::gil_scoped_release nogil;
        End end(y, lam);
        double *yy = end.y.data(), *ll = end.lam.data();
        bool after = what.ends_with("_after_step");  // what the step has computed is still there
        Given given = after ? Given::just_solved : Given::solution;
        if (after) {
          std::vector<double> pn(z.nd + 1);
          int its;
          double err;
          k.step(s, o, dt, x.data(), p.data(), u.data(), yy, ll, pn.data(), &its, &err);
        }
        double t0 = cpu_seconds();
        for (int i = 0; i < repeats; ++i) {
          if (what == "first") k.first(s, x.data(), v.data(), a, b);
          else if (what == "generators") k.generators(s, x.data(), v.data());
          else if (what == "second") k.second(s, x.data(), v.data(), a, b, d);
          else if (what == "third") k.third(s, x.data(), v.data(), v.data(), v.data(), a, b, d);
          else if (what.starts_with("linearize")) k.linearize(s, o, dt, x.data(), p.data(), u.data(), yy, ll, given, a, b);
          else if (what.starts_with("second_order")) k.second_order(s, o, dt, x.data(), p.data(), u.data(), yy, ll, given, 1, zc.data(), a);
          else if (what == "tensors") k.second_order(s, o, dt, x.data(), p.data(), u.data(), yy, ll, Given::solution, int(nz), unit.data(), a);
        }
        return (cpu_seconds() - t0) / repeats;
      });

  bind_ekf<Core>(m);
}
