// One instruction set's build of all kernels; DALEMBERT_ARCH names it. Translates between plain arrays and workspaces.
#include "engine.hpp"
#include "chain_first.hpp"
#include "dynamics.hpp"
#include "loops_plan.hpp"
#include "riccati.hpp"
#include "sensitivity.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// memory for `take` calls in two passes: the first counts, the second places
template <class F> static char* carve(F layout) {
  size_t at = 0;
  char* base = nullptr;
  auto take = [&](auto*& ptr, size_t count) {
    using E = std::remove_reference_t<decltype(*ptr)>;
    ptr = base ? reinterpret_cast<E*>(base + at) : nullptr;
    at += ((count + kPad) * sizeof(E) + 63) / 64 * 64;
  };
  layout(take);
  char* block = static_cast<char*>(std::calloc(at + 128, 1));  // zero pages come lazily
  if (!block) return nullptr;
  base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(block) + 63) / 64 * 64);
  at = 0;
  layout(take);
  return block;
}

// nullptr where there is not enough memory
static GaussWork* gauss_work(Engine* e, int stages) {
  GaussWork*& g = e->gauss[stages];
  if (g) return g;
  GaussWork layout{};
  char* block = carve([&](auto take) { layout.layout(*e->d.M, stages, e->d.nw, take); });
  if (!block) return nullptr;
  layout.block = block;
  g = new (std::nothrow) GaussWork(layout);
  if (!g) std::free(block);
  else g->forget();
  return g;
}

static void drop(Scratch* s) {
  Engine* e = engine(s);
  if (!e) return;
  for (GaussWork* g : e->gauss) {
    if (g) std::free(g->block);
    delete g;
  }
  if (e->lanes) {
    e->lanes->~Work<Lanes>();
    std::free(e->lanes);
  }
  if (e->dual) {
    e->dual->~Work<Dual>();
    std::free(e->dual);
  }
  drop_parameters(e);
  std::free(e->lane_block);
  std::free(e->block);
  e->~Engine();
  std::free(e);
}

static void plan(ModelData& M) { LoopPlanner(M).run(); }

// nullptr where there is not enough memory
static Scratch* make(const ModelData& M, bool linearization, bool lanes) {
  // holds vectors of lanes, so it must lie as they do
  void* room = std::aligned_alloc(64, (sizeof(Engine) + 63) / 64 * 64);
  if (!room) return nullptr;
  std::memset(room, 0, sizeof(Engine));
  Engine* e = new (room) Engine;
  Scratch* s = reinterpret_cast<Scratch*>(e);
  if (!e->d.init(M, linearization)) {
    drop(s);
    return nullptr;
  }
  const size_t nq = M.nq, nv = M.nv, nqd = M.nqd, nd = M.nd, nc = M.nc, nx = nq + nd + M.nk, nU = M.nu + M.nk,
               nw = e->d.nw, rows = size_t(e->d.stride(true)), all = kMostParts;
  e->block = carve([&](auto take) {
    take(e->buffer, 2 * (nx + nq + nU) + nc);
    for (double*& q : e->history.q) take(q, nqd);
    for (double*& q : e->kept_history.q) take(q, nqd);
    e->misses.layout(take, nqd);
    e->quality.layout(M, take);
    e->kept_quality.layout(M, take);
    take(e->kept_p, nd);
    take(e->kept_lam, nc);
    take(e->parts.q, (all + 1) * nq);
    take(e->parts.p, (all + 1) * nd);
    take(e->parts.lam, all * nc);
    take(e->pnext, nd);
    take(e->zq, nd);
    take(e->ball_rows, M.balls.size() * 6 * nw);
    take(e->gradient, 2 * nw);
    take(e->costates, (all + 1) * 2 * nd);
    if (!linearization) return;
    PartTangent& t = e->tangent;
    take(t.Yq, nd * rows);
    take(t.Yp, nd * rows);
    take(t.S, nd * rows);
    take(t.YL, nc * rows);
    take(t.R, nd * nv);
    take(t.J1, nd * nv);
    take(t.J2, nd * nv);
    take(e->square, 3 * nw * nw);
    take(e->packing, gemm_workspace(int(nw), int(nw), int(nw)));
  });
  if (!e->block) {
    drop(s);
    return nullptr;
  }
  if (linearization && (!M.flat || M.nh < M.nc)) {
    void* space = std::aligned_alloc(64, (sizeof(Work<Dual>) + 63) / 64 * 64);
    if (space) e->dual = new (space) Work<Dual>;
    if (!space || !e->dual->init(M, true)) {
      drop(s);
      return nullptr;
    }
  }
  if (!lanes) return s;
  e->lanes = static_cast<Work<Lanes>*>(std::aligned_alloc(64, (sizeof(Work<Lanes>) + 63) / 64 * 64));
  if (!e->lanes) {
    drop(s);
    return nullptr;
  }
  new (e->lanes) Work<Lanes>;
  if (e->lanes->init(M, false))
    e->lane_block = carve([&](auto take) {
      take(e->lane_rho, nq - nqd);
      for (Lanes*& q : e->lane_history.q) take(q, nqd);
      e->lane_misses.layout(take, nqd);
      e->lane_quality.layout(M, take);
    });
  if (!e->lane_block) {
    drop(s);
    return nullptr;
  }
  return s;
}

// world coordinates of an internal point: Rg^T (p - p_root)
static void frames(Scratch* s, const double* q, double* out) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  const ModelData& M = *w.M;
  poses(w, w.kin.q, w.kin.mid);
  for (int f = 0; f < M.nf; ++f) {
    const Site& site = M.sites[f];
    V3<double> p = tmul(w.kin.mid.R[0], site_position(M, site, w.kin.mid)) + w.kin.reference;
    M3<double> R = mul_const(site_rotation(M, site, w.kin.mid), site.R);
    double* g = out + 16 * f;
    for (int k = 0; k < 3; ++k) {
      V3<double> a = tmul(w.kin.mid.R[0], R.c[k]);
      g[k] = a.x;
      g[4 + k] = a.y;
      g[8 + k] = a.z;
    }
    g[3] = p.x;
    g[7] = p.y;
    g[11] = p.z;
    g[12] = g[13] = g[14] = 0;
    g[15] = 1;
  }
}

static void energy(Scratch* s, const double* q, const double* v, double* kinetic, double* pot) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  energies(w, *kinetic, *pot);
  for (const Element& e : w.M->potentials) *pot += potential(w, e, w.kin.q, w.kin.mid, 0, (const double*)nullptr);
}

static void first(Scratch* s, const double* q, const double* v, double* Lq, double* Lv) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  subtract_potentials(w, w.kin.q);
  copy(Lq, w.first.Lq, w.M->nv);
  copy(Lv, w.first.Lv, w.M->nv);
}

static void second(Scratch* s, const double* q, const double* v, double* qq, double* qv, double* vv) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  composites(w, false);
  generators(w, kContinuous);
  Hessian<double> E = {qq, qv, vv};
  second(w, E);
  potentials_second(w, w.kin.q, kContinuous, E);
}

static void generators_at(Scratch* s, const double* q, const double* v) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  composites(w, false);
  generators(w, kContinuous);
}

static void third(Scratch* s, const double* q, const double* v, const double* dq, const double* dv, double* qq,
                  double* qv, double* vv) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  composites(w, true);
  generators(w, kContinuous, true);
  copy(w.along.dq, dq, w.M->nv);
  copy(w.along.dv, dv, w.M->nv);
  Hessian<double> E = {qq, qv, vv};
  third(w, kContinuous, E, w.M->potentials.empty());
  potentials_third(w, w.kin.q, kContinuous, E);
}

static void potential_all(Scratch* s, const double* q, double* value, double* grad, double* hess) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  const ModelData& M = *w.M;
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  double t;
  energies(w, t, *value);
  subtract_potentials(w, w.kin.q);
  for (const Element& e : M.potentials) *value += potential(w, e, w.kin.q, w.kin.mid, 0, (const double*)nullptr);
  for (int i = 0; i < M.nv; ++i) grad[i] = -w.first.Lq[i];
  if (!hess) return;
  composites(w, false);
  generators(w, kContinuous);
  second(w, w.lin.E);
  potentials_second(w, w.kin.q, kContinuous, w.lin.E);
  for (int i = 0; i < M.nv * M.nv; ++i) hess[i] = -w.lin.E.h11[i];
}

static void constraints(Scratch* s, const double* q, double* h, double* C) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  constraint_poses(w, w.kin.q, w.kin.end);
  constraint_rows(w, w.kin.q, w.kin.end, w.con.h, w.con.size, w.con.C1);
  if (w.M->nh < w.M->nc) velocity_directions(w, w.kin.q, w.kin.end, w.con.C1);
  for (int c = w.M->nh; c < w.M->nc; ++c) w.con.h[c] = w.con.b[c];
  copy(h, w.con.h, w.M->nc);
  copy(C, w.con.C1, size_t(w.M->nc) * w.M->nv);
}
static void constraint_values(Scratch* s, const double* q, double* h) {
  Work<double>& w = work(s);
  set_reference(w, q);
  constraint_poses(w, q, w.kin.end);
  double size;
  for (int c = 0; c < w.M->nh; ++c)
    h[c] = constraint(w, w.M->constraints[c], q, w.kin.end, 0, (const double*)nullptr, &size);
}
static void constraint_second(Scratch* s, const double* q, const double* weight, double* D) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  constraint_poses(w, w.kin.q, w.kin.end);
  for (int i = 0; i < w.M->nv * w.M->nv; ++i) D[i] = 0;
  const int nv = w.M->nv;
  constraint_hessian(w, w.kin.q, w.kin.end, weight, 1.0, (const double*)nullptr, D, nv, nv);
  velocity_slopes(w, w.kin.q, w.kin.end, weight, 1.0, (const double*)nullptr, D, nv, nv);
}
static void constraint_third_at(Scratch* s, const double* q, const double* weight, const double* dir, double* D) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  constraint_poses(w, w.kin.q, w.kin.end);
  for (int i = 0; i < w.M->nv * w.M->nv; ++i) D[i] = 0;
  constraint_third(w, w.kin.q, w.kin.end, weight, 1.0, dir, D, (double*)nullptr);
  copy_symmetric(w.M->nv, D, w.M->nv, D, w.M->nv);
}

static void force_at(Scratch* s, const double* q, const double* v, const double* u, double* F) {
  Work<double>& w = at(s, q, v, u);
  poses(w, w.kin.q, w.kin.mid);
  generalized_force(w, w.kin.q, w.kin.v);
  copy(F, w.first.F, w.M->nd);
}
static void force_first(Scratch* s, const double* q, const double* v, const double* u, double* Fq, double* Fv,
                        double* Fu) {
  Work<double>& w = at(s, q, v, u);
  const ModelData& M = *w.M;
  poses(w, w.kin.q, w.kin.mid);
  force_jacobian(w, w.kin.q, w.kin.v);
  copy(Fq, w.lin.Fq, size_t(M.nd) * M.nv);
  copy(Fv, w.lin.Fv, size_t(M.nd) * M.nv);
  copy(Fu, w.lin.Fu, size_t(M.nd) * M.nu);
}
static void force_second_at(Scratch* s, const double* q, const double* v, const double* u, const double* m, double* qq,
                            double* qv, double* vv, double* qu, double* vu, double* uu) {
  Work<double>& w = at(s, q, v, u);
  const ModelData& M = *w.M;
  poses(w, w.kin.q, w.kin.mid);
  for (int i = 0; i < M.nv; ++i) w.lin.mu[i] = i < M.nd ? m[i] : 0;
  for (int i = 0; i < M.nv * M.nv; ++i) qq[i] = qv[i] = vv[i] = 0;
  Hessian<double> E = {qq, qv, vv};
  forces_second(w, w.kin.q, w.kin.v, w.lin.mu, kContinuous, 1.0, E);
  copy(qu, w.lin.Hu, size_t(M.nv) * M.nu);
  copy(vu, w.lin.Hu + M.nv * M.nu, size_t(M.nv) * M.nu);
  copy(uu, w.lin.Huu, size_t(M.nu) * M.nu);
}

static void momentum(Scratch* s, const double* q, const double* v, double* h6) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);
  V6<double> H = zero6<double>();
  for (int n = 0; n < w.M->nn; ++n)
    if (w.M->nodes[n].parent < 0) H += w.comp.H[n];
  V3<double> l = tmul(w.kin.mid.R[0], H.v), m = tmul(w.kin.mid.R[0], H.w) + cross(w.kin.reference, l);
  h6[0] = m.x;
  h6[1] = m.y;
  h6[2] = m.z;
  h6[3] = l.x;
  h6[4] = l.y;
  h6[5] = l.z;
}
static void twists(Scratch* s, const double* q, double* S) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  poses(w, w.kin.q, w.kin.mid);
  for (int j = 0; j < w.M->nj; ++j) {
    V6<double> t = joint_twist(w.M->joints[j], j + 1, w.kin.mid);
    V3<double> a = tmul(w.kin.mid.R[0], t.w), l = tmul(w.kin.mid.R[0], t.v) + cross(w.kin.reference, a);
    double* o = S + 6 * j;
    o[0] = a.x;
    o[1] = a.y;
    o[2] = a.z;
    o[3] = l.x;
    o[4] = l.y;
    o[5] = l.z;
  }
}

// accelerations of balls from i on: f'' of the chart (sign 1), from or back to (-1) those along body axes
static void drag_acceleration(const ModelData& M, const double* v, double sign, int from, double* acc) {
  for (const Ball& b : M.balls)
    if (b.v >= from) {
      const double *x = v + b.v, d[3] = {x[1] * x[2], -x[0] * x[2], x[0] * x[1]};
      for (int c = 0; c < 3; ++c) acc[b.v + c] -= sign * d[c];
    }
}
static bool acceleration_at(Scratch* s, const double* q, const double* v, const double* u, double* acc, double* lam) {
  Work<double>& w = at(s, q, v, u);
  drag_acceleration(*w.M, v, 1, w.M->nd, acc);
  const bool ok = acceleration(w, acc, lam);
  drag_acceleration(*w.M, v, -1, 0, acc);
  return ok;
}
static bool acceleration_first_at(Scratch* s, const double* q, const double* v, const double* u, double* acc,
                                  double* lam, double* dacc, double* dlam) {
  Work<double>& w = at(s, q, v, u);
  return acceleration_first(w, acc, lam, dacc, dlam);
}
// v that belongs to p, along the constraints: p of a step lacks part of the impulse of the constraints, which no step
// feels (it goes into lambda)
static bool velocity(Scratch* s, const double* q, const double* p, double* v) {
  Work<double>& w = at(s, q, v, nullptr);
  const ModelData& M = *w.M;
  int nd = M.nd, nc = M.nc;
  for (int i = 0; i < nd; ++i) w.kin.v[i] = 0;
  poses(w, w.kin.q, w.kin.mid);
  gradient(w);  // momentum of the prescribed motion alone
  composites(w, false);
  for (int i = 0; i < nd; ++i) w.step.r[i] = p[i] - w.first.Lv[i];
  if (velocity_by_joint(w, w.step.r)) {
    copy(v, w.step.r, nd);
    return true;
  }
  bool ok = mass_factor(w);
  solve(w, w.step.r, 1, 1);
  copy(v, w.step.r, nd);
  if (!nc) return ok;
  constraint_poses(w, w.kin.q, w.kin.end);
  constraint_rows(w, w.kin.q, w.kin.end, w.con.h, w.con.size, w.con.C1);
  if (M.nh < nc) velocity_directions(w, w.kin.q, w.kin.end, w.con.C1);
  along_constraints(w, w.con.C1, v);
  return ok;
}

// ---- steps
static void load_step(Work<double>& w, const double* x, const double* p, const double* u, const double* y,
                      const double* lam) {
  const ModelData& M = *w.M;
  copy(w.step.x, x, M.nq);
  copy(w.step.p, p, M.nd);
  copy(w.step.u, u, M.nu);
  copy(w.step.y, y, M.nq);
  copy(w.con.lam, lam, M.nc);
  set_reference(w, w.step.x);
}
// the same with the constraints at both ends: a step that is solved
static void load_solved(Work<double>& w, const double* x, const double* p, const double* u, const double* y,
                        const double* lam) {
  load_step(w, x, p, u, y, lam);
  start_constraints(w);
  end_constraints(w);
}

// One whole step by its parts; then(part, length) as in solve_parts(). lambda is that of the last part, as if it had
// lasted the whole step.
template <class F>
static int whole_step(Engine* e, const StepOptions& o, const Parts& parts, double dt, const double* x, const double* p,
                      const double* u, double* y, double* lam, double* pnext, int* iterations, double* error, F then) {
  const ModelData& M = *e->d.M;
  int status = solve_parts(e->d, o, parts, dt, x, p, u, y, lam, e->parts, iterations, error, then);
  if (status != StepOk) return status;
  copy(y, e->parts.q_at(M, parts.count), M.nq);
  copy(pnext, e->parts.p_at(M, parts.count), M.nd);
  for (int c = 0; c < M.nc; ++c) lam[c] = e->parts.lam_at(M, parts.count - 1)[c] / parts.length[parts.count - 1];
  return StepOk;
}

// one Gauss step from (x, p) with u and the prescribed values in y; its end goes to w.step.y and p_next. exact: its
// stages are ready for derivatives
static int gauss_at(Engine* e, const Options& opt, double dt, const double* x, const double* p, const double* u,
                    const double* y, Given given, bool exact, int* iterations, double* error) {
  Work<double>& w = e->d;
  GaussWork* g = gauss_work(e, opt.stages);
  if (!g) return StepNotFinite;
  g->judge = false;
  load_step(w, x, p, u, y, nullptr);
  const GaussStart start = given == Given::just_solved ? GaussStart::kept : GaussStart::fresh;
  return gauss_step(w, *g, gauss_rule(opt.stages), options(opt), dt, exact, start, iterations, error);
}

static int step_once(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                     double* y, double* lam, double* pnext, int* iterations, double* error) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  if (opt.stages > 1) {
    const int status = gauss_at(engine(s), opt, dt, x, p, u, y, Given::guess, false, iterations, error);
    if (status != StepOk) return status;
    copy(y, w.step.y, M.nq);
    copy(pnext, w.step.p_next, M.nd);
    return StepOk;
  }
  if (opt.parts->count > 1)
    return whole_step(engine(s), o, *opt.parts, dt, x, p, u, y, lam, pnext, iterations, error, [](int, double) {});
  load_step(w, x, p, u, y, lam);
  start_constraints(w);
  int status = step(w, o, dt, iterations, error);
  if (status == StepOk) {
    copy(y, w.step.y, M.nq);
    copy(lam, w.con.lam, M.nc);
    copy(pnext, w.step.p_next, M.nd);
  }
  return status;
}

// u_k, rho_k+1 from feedback around a reference (Trajectory optimization in discrete mechanics, eq. 17)
static void feedback(Engine* e, const Rollout& r, int k) {
  const Work<double>& w = e->d;
  const ModelData& M = *w.M;
  int nx = M.nq + M.nd + M.nk, ndx = M.nv + M.nd + M.nk, nU = M.nu + M.nk;
  double* dx = e->buffer;
  const double* xr = r.Xref + size_t(k) * nx;
  difference(M, xr, w.step.x, dx, 0, M.nv);
  for (int i = 0; i < M.nd; ++i) dx[M.nv + i] = w.step.p[i] - xr[M.nq + i];
  for (int i = 0; i < M.nk; ++i) dx[M.nv + M.nd + i] = r.Vrho[size_t(k) * M.nk + i] - xr[M.nq + M.nd + i];
  const double* K = r.K + size_t(k) * nU * ndx;
  for (int j = 0; j < nU; ++j) {
    double t = r.Uref[size_t(k) * nU + j];
    for (int i = 0; i < ndx; ++i) t -= K[j * ndx + i] * dx[i];
    if (j < M.nu) r.Uout[size_t(k) * M.nu + j] = t;
    else r.Rhoout[size_t(k) * M.nk + j - M.nu] = t;
  }
}

// One part, of length h, from w.step.x with the prescribed values in w.step.y, to the end; then w begins the next one.
// judged: the length of the whole step where the quality is asked for. Returns the status.
static int rollout_part(Engine* e, const StepOptions& o, const Parts& parts, int part, double h, const double* judged,
                        int* total, double* error) {
  Work<double>& w = e->d;
  const int nqd = w.M->nqd;
  set_reference(w, w.step.x);
  int iterations = 0, status = StepNotConverged;
  const bool told = o.stop > 0;  // Newton's iteration does not begin with the extrapolated guess
  const bool composed = parts.count > 1 && !told;
  w.step.noted = false;
  w.step.judged = judged;
  w.step.watched = judged && !told && e->history.even(h);
  w.step.kept = e->quality.inputs;
  if (judged && told) {
    e->history.guess(w.step.y, nqd, h);
    normalize_balls(*w.M, w.step.y, 0, w.M->nd);
    note_guess(w, o.without_stop(), h);
    w.step.noted = w.step.noted && e->history.even(h);
  }
  if (o.stop > 0) {  // from where it is; the predictor is for steps that do not end so
    copy(w.step.y, w.step.x, nqd);
    if (stopped_step(w, o, h, &iterations, error)) status = StepOk;
  }
  if (status != StepOk) {
    e->history.guess(w.step.y, nqd, h, part);
    if (composed) e->misses.move(w.step.y, nqd, e->history, part, h);
    normalize_balls(*w.M, w.step.y, 0, w.M->nd);
    status = step(w, o.without_stop(), h, &iterations, error);
  }
  *total += iterations;
  w.step.watched = w.step.judged = false;
  if (status != StepOk) return status;
  if (judged) {
    e->quality.take_middle(w, o, parts, part, h, *judged);
    e->quality.add_part(w, o, parts, part, h);
  }
  if (composed) e->misses.note(w.step.y, nqd, part);
  e->history.push(w.step.y, nqd, h);
  advance(w);
  return StepOk;
}

// prescribed coordinates of y (nq) at the share t of step k, from those of `from` (nq) at its start: straight lines
// between the values at equal times
static void prescribed_at(const ModelData& M, const Rollout& r, int k, double t, const double* from, double* y) {
  const int nqk = M.nq - M.nqd;
  if (!r.Rho) {
    copy(y + M.nqd, from + M.nqd, nqk);
    return;
  }
  const double at = t * r.rho_rows;
  int i = int(at);
  if (i >= r.rho_rows) i = r.rho_rows - 1;
  const double *rows = r.Rho + size_t(k) * r.rho_rows * nqk, *a = i ? rows + size_t(i - 1) * nqk - M.nqd : from;
  between(M, a, rows + size_t(i) * nqk - M.nqd, at - i, y, M.nd, M.nv);
}

constexpr int kMostHalvings = 12;

// Step k in 2, 4, 8, ... equal parts: the first division whose jumps inside of the step are below r.adapt, and whose
// errors are small; the last one is taken as it is. A division that fails is followed by the next. On success w begins
// the next step, and the checks of the step are added to `checks`.
static int adaptive_step(Engine* e, const StepOptions& o, const Parts& parts, const Rollout& r, int k, const double* q0,
                         Checks& checks, double* share, int* total, double* error) {
  Work<double>& w = e->d;
  const ModelData& M = *w.M;
  const int nqd = M.nqd;
  copy(e->kept_p, w.step.p, M.nd);
  copy(e->kept_lam, w.con.lam, M.nc);
  e->kept_quality.copy_from(M, e->quality);
  auto copy_history = [&](History<double>& to, const History<double>& from) {
    for (int i = 0; i < History<double>::kMost; ++i) {
      copy(to.q[i], from.q[i], nqd);
      to.step[i] = from.step[i];
    }
    to.count = from.count;
  };
  copy_history(e->kept_history, e->history);
  int status = StepOk;
  for (int j = 1; j <= kMostHalvings; ++j) {
    const int n = 1 << j;
    if (j > 1) {
      copy(w.step.x, q0, M.nq);
      copy(w.step.p, e->kept_p, M.nd);
      e->quality.copy_from(M, e->kept_quality);
      copy_history(e->history, e->kept_history);
      set_reference(w, w.step.x);
      start_constraints(w);
    }
    for (int c = 0; c < M.nc; ++c) w.con.lam[c] = e->kept_lam[c] * (*share > 0 ? 1 / (n * *share) : 0);
    Checks found;
    bool good = true;
    status = StepOk;
    StepOptions searching = o;
    searching.rescue = j == kMostHalvings;
    const double whole = r.dt[k] / n;
    for (int i = 0; i < n && status == StepOk && good; ++i) {
      for (int part = 0; part < parts.count && status == StepOk; ++part) {
        prescribed_at(M, r, k, (i + parts.end[part + 1]) / n, q0, w.step.y);
        status = rollout_part(e, searching, parts, part, whole * parts.length[part], &whole, total, error);
      }
      if (status != StepOk) break;
      const Verdict<double> v = e->quality.end_step(w, parts);
      // between steps of different lengths the balance moves without an error
      const double jump = i ? v.jump : 0;
      found.add(jump, v.own, v.balance, v.variable);
      good = jump < r.adapt && v.own < kErrorLimit;
      if (j == kMostHalvings) good = true;
    }
    if (status != StepOk || !good) continue;
    *share = 1.0 / n;
    for (const double count = checks.count; checks.count < count + n;)
      checks.add(found.jump, found.error, found.balance, found.variable);
    return StepOk;
  }
  return status;
}

static RolloutStatus rollout(Scratch* s, const Options& opt, const Rollout& r, int from, int to, bool resume) {
  Engine* e = engine(s);
  Work<double>& w = e->d;
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  const Parts& parts = *opt.parts;
  RolloutStatus out;
  const int nq = M.nq, nqd = M.nqd, nd = M.nd, nk = M.nk, nc = M.nc;
  double *q0 = e->buffer + nq + nd + nk, *moved = w.step.moved;  // configuration at the start of the step
  Checks& checks = e->checks[0];
  const bool judged = r.checks;
  GaussWork* g = opt.stages > 1 ? gauss_work(e, opt.stages) : nullptr;
  if (opt.stages > 1 && !g) {
    out.status = StepNotFinite;
    return out;
  }
  if (g) g->judge = judged;
  if (!resume) {
    if (g) g->forget();
    copy(w.step.x, r.Q, nq);
    copy(w.step.p, r.P, nd);
    for (int c = 0; c < nc; ++c) w.con.lam[c] = 0;
    e->history.count = 0;
    e->history.push(w.step.x, nqd, 0);
    e->misses.forget();
    e->quality.start(M, r.U || r.K, r.adapt > 0 || o.stop > 0);
    checks = Checks{};
    e->share = 0;
    set_reference(w, w.step.x);
    start_constraints(w);
  }
  for (int k = from; k < to; ++k) {
    if (r.K) feedback(e, r, k);
    const double *U = r.K ? r.Uout : r.U, *Rho = r.K ? r.Rhoout : r.Rho;
    if (U) copy(w.step.u, U + size_t(k) * M.nu, M.nu);
    else
      for (int i = 0; i < M.nu; ++i) w.step.u[i] = 0;
    if (r.given && k > 0) {
      copy(w.step.x, r.Q + size_t(k) * nq, nq);
      copy(w.step.p, r.P + size_t(k) * nd, nd);
      set_reference(w, w.step.x);
      start_constraints(w);
    }
    copy(q0, w.step.x, nq);
    int total = 0, status = StepOk;
    double error = 0;
    if (g) {
      prescribed(M, r, parts, k, 0, Rho, q0, w.step.y);
      if (r.given) g->h_last = 0;
      status = gauss_step(w, *g, gauss_rule(opt.stages), o, r.dt[k], false, GaussStart::ahead, &total, &error);
      if (status == StepOk && judged) {
        const Verdict<double> v = gauss_verdict(w, *g, gauss_rule(opt.stages), r.dt[k]);
        checks.add(v.jump, v.error, v.balance, v.variable);
      }
      if (status == StepOk) advance(w);
    } else if (r.adapt > 0) {
      status = adaptive_step(e, o, parts, r, k, q0, checks, &e->share, &total, &error);
    } else {
      for (int part = 0; part < parts.count && status == StepOk; ++part) {
        const double h = parts.count == 1 ? r.dt[k] : r.dt[k] * parts.length[part];
        prescribed(M, r, parts, k, part, Rho, q0, w.step.y);
        status = rollout_part(e, o, parts, part, h, judged ? r.dt + k : nullptr, &total, &error);
      }
      if (judged && status == StepOk) {
        const Verdict<double> v = e->quality.end_step(w, parts);
        checks.add(v.jump, v.error, v.balance, v.variable);
      }
    }
    if (status != StepOk) {
      out.steps = k;
      out.status = status;
      out.error = error;
      return out;
    }
    const int row = stored_row(r, k + 1);
    if (row >= 0) {
      if (!r.given) {
        copy(r.Q + size_t(row) * nq, w.step.x, nq);
        copy(r.P + size_t(row) * nd, w.step.p, nd);
      }
      const double last = parts.length[parts.count - 1] * (r.adapt > 0 ? e->share : 1);
      if (r.Lam && row > 0)
        for (int c = 0; c < nc; ++c) r.Lam[size_t(row - 1) * nc + c] = last == 1 ? w.con.lam[c] : w.con.lam[c] / last;
      if (r.iterations) r.iterations[row > 0 ? row - 1 : 0] = total;
      if (r.checks) checks.store(r.checks + size_t(row > 0 ? row - 1 : 0) * kChecks);
      if (r.every > 0) checks = Checks{};
    }
    if (r.Vrho) {
      difference(M, q0, w.step.x, moved, nd, M.nv);
      for (int i = 0; i < nk; ++i) r.Vrho[size_t(k + 1) * nk + i] = moved[nd + i] / r.dt[k];
    }
    if (r.look && r.look(r.looker, k)) {
      out.steps = k + 1;
      out.stopped = true;
      return out;
    }
  }
  out.steps = to;
  return out;
}

// lane l of a step that Newton's iteration did not solve, or whose root is doubtful: by the scalar step with all its
// fallbacks. in: w.step.x, w.step.p, w.step.u, prescribed values in w.step.y; out: w.step.y, w.step.p_next, w.con.lam,
// w.con.C1 of the lane
int step_of_lane(Engine* e, Work<Lanes>& w, const StepOptions& o, double dt, int l, int* iterations, double* error) {
  Work<double>& d = e->d;
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nq; ++i) {
    d.step.x[i] = w.step.x[i].v[l];
    d.step.y[i] = i < M.nqd ? d.step.x[i] : w.step.y[i].v[l];
  }
  for (int i = 0; i < M.nd; ++i) d.step.p[i] = w.step.p[i].v[l];
  for (int i = 0; i < M.nu; ++i) d.step.u[i] = w.step.u[i].v[l];
  for (int c = 0; c < M.nc; ++c) d.con.lam[c] = 0;
  set_reference(d, d.step.x);
  start_constraints(d);
  const int status = step(d, o, dt, iterations, error);
  if (status != StepOk) return status;
  for (int i = 0; i < M.nqd; ++i) w.step.y[i].v[l] = d.step.y[i];
  for (int i = 0; i < M.nd; ++i) w.step.p_next[i].v[l] = d.step.p_next[i];
  for (int c = 0; c < M.nc; ++c) w.con.lam[c].v[l] = d.con.lam[c];
  use_dense_rows(d, true);
  for (int i = 0; i < M.nc * M.nv; ++i) w.con.C1[i].v[l] = d.con.C1[i];
  return StepOk;
}

// ---- linearization

// From the charts of the ends, where momenta are canonical, to momenta along body axes (docs/kernels.md 13): p =
// Jr(x)^T p_body, so that dp = dp_body - p x dx/2. Rows of d(q', p', lambda')/dw (row stride ld) in place; p, p2: p_k,
// p_k+1.
static void to_body(const ModelData& M, const double* p, const double* p2, double* Yq, double* Yp, double* YL, int ld,
                    int columns) {
  for (const Ball& b : M.balls) {
    if (b.v >= M.nd) continue;
    const V3<double> before = three(p + b.v), after = three(p2 + b.v);
    double *x[3], *y[3];
    for (int c = 0; c < 3; ++c) {
      x[c] = Yq + size_t(b.v + c) * ld;
      y[c] = Yp + size_t(b.v + c) * ld;
    }
    for (int k = 0; k < columns; ++k) {
      const V3<double> d = cross(after, V3<double>{x[0][k], x[1][k], x[2][k]}) * 0.5;
      y[0][k] += d.x;
      y[1][k] += d.y;
      y[2][k] += d.z;
    }
    auto by_start = [&](double* Y, int rows) {  // row_x -= row_p [p]/2 = row_p x p/2
      for (int i = 0; i < rows; ++i) {
        double* row = Y + size_t(i) * ld;
        const V3<double> d = cross(three(row + M.nv + b.v), before) * -0.5;
        row[b.v] += d.x;
        row[b.v + 1] += d.y;
        row[b.v + 2] += d.z;
      }
    };
    by_start(Yq, M.nd);
    by_start(Yp, M.nd);
    if (YL) by_start(YL, M.nc);
  }
}

// rows of d(q', p')/dw (row stride ld) as A and B of x = (q, p, v_rho), u = (u, rho'); v_rho' = (rho' - rho)/dt, by its
// ends at x and y
static void write_linearization(const ModelData& M, double dt, const double* x, const double* y, const double* Yq,
                                const double* Yp, int ld, double* A, double* B) {
  int nv = M.nv, nd = M.nd, nk = M.nk, nu = M.nu, nx = nv + nd + nk, nU = nu + nk;
  for (int i = 0; i < nd; ++i) {
    const double *z = Yq + size_t(i) * ld, *p = Yp + size_t(i) * ld;
    copy_row(A + size_t(i) * nx, z, nv + nd);
    copy_row(A + size_t(nv + i) * nx, p, nv + nd);
    copy_row(B + size_t(i) * nU, z + nv + nd, nU);
    copy_row(B + size_t(nv + i) * nU, p + nv + nd, nU);
  }
  for (int k = 0; k < nk; ++k) {
    B[size_t(nd + k) * nU + nu + k] = 1;
    A[size_t(nv + nd + k) * nx + nd + k] = -1 / dt;
    B[size_t(nv + nd + k) * nU + nu + k] = 1 / dt;
  }
  for (const Ball& b : M.balls) {
    if (b.v < nd) continue;
    V3<double> phi;
    turn_between(x + b.q, y + b.q, &phi.x);
    const Mat3<double> D = turn_slope(phi);
    for (int c = 0; c < 3; ++c)
      for (int e = 0; e < 3; ++e) {
        A[size_t(nv + b.v + c) * nx + b.v + e] = -D(e, c) / dt;
        B[size_t(nv + b.v + c) * nU + nu + b.v - nd + e] = D(c, e) / dt;
      }
  }
}

// first order of all parts, in e->tangent; y, lam as in step_once()
static int tangent_of_parts(Engine* e, const StepOptions& o, const Parts& parts, double dt, const double* x,
                            const double* p, const double* u, double* y, double* lam, bool with_dt, bool lambda) {
  Work<double>& w = e->d;
  int iterations;
  double error;
  bool ok = true;
  int status = whole_step(e, o, parts, dt, x, p, u, y, lam, e->pnext, &iterations, &error, [&](int part, double h) {
    ok = prepare(w, o, h, true, false) && ok;
    const bool velocities = w.M->nh < w.M->nc;
    first_order(w, o, h, with_dt, part > 0 && !velocities);
    if (part == 0) tangent_of_first(w, parts, e->tangent, with_dt);
    else if (velocities) tangent_by_product(w, parts, part, e->tangent, with_dt);
    else tangent_of_next(w, o, parts, part, h, e->tangent, with_dt, lambda && part + 1 == parts.count);
  });
  return status != StepOk ? status : ok ? StepOk : StepSingular;
}

// A step that is given as a guess is solved; then, or where the step before was this one, w belongs to it. Otherwise
// the given solution is loaded.
static int solve_if_needed(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                           double* y, double* lam, Given given) {
  int iterations;
  double error;
  if (given == Given::guess) return step_once(s, opt, dt, x, p, u, y, lam, engine(s)->pnext, &iterations, &error);
  if (given == Given::solution) load_solved(work(s), x, p, u, y, lam);
  return StepOk;
}

// the same for products, which need no rows of Dh
static int solve_for_products(Scratch* s, const Options& opt, double dt, const double* x, const double* p,
                              const double* u, double* y, double* lam, Given given) {
  if (given != Given::solution || !has_products(*work(s).M)) return solve_if_needed(s, opt, dt, x, p, u, y, lam, given);
  load_step(work(s), x, p, u, y, lam);
  start_constraints(work(s));
  return StepOk;
}

static int linearize(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                     double* y, double* lam, Given given, double* A, double* B) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  if (opt.stages > 1) {
    int iterations;
    double error;
    Engine* e = engine(s);
    if (int status = gauss_at(e, opt, dt, x, p, u, y, given, true, &iterations, &error)) return status;
    GaussWork& g = *e->gauss[opt.stages];
    gauss_tangent(w, g, gauss_rule(opt.stages), dt, false);
    gauss_first(w, g, gauss_rule(opt.stages), dt, false, w.lin.Z, w.lin.P, w.stride());
    write_linearization(M, dt, w.step.x, w.step.y, w.lin.Z, w.lin.P, w.stride(), A, B);
    return StepOk;
  }
  if (opt.parts->count > 1) {
    Engine* e = engine(s);
    int status = tangent_of_parts(e, o, *opt.parts, dt, x, p, u, y, lam, false, false);
    if (status != StepOk) return status;
    to_body(M, p, e->pnext, e->tangent.Yq, e->tangent.Yp, nullptr, w.stride(), w.nw);
    write_linearization(M, dt, x, y, e->tangent.Yq, e->tangent.Yp, w.stride(), A, B);
    return status;
  }
  if (int status = solve_if_needed(s, opt, dt, x, p, u, y, lam, given)) return status;
  if (has_chain_first(M)) return chain_first(w, o, dt, given != Given::solution, A, B) ? StepOk : StepSingular;
  bool ok = prepare(w, o, dt, given != Given::solution, false, true);
  first_order(w, o, dt, false);
  if (!M.flat) {
    next_momentum(w, o, dt);
    to_body(M, p, w.step.p_next, w.lin.Z, w.lin.P, nullptr, w.stride(), w.nw);
  }
  write_linearization(M, dt, w.step.x, w.step.y, w.lin.Z, w.lin.P, w.stride(), A, B);
  return ok ? StepOk : StepSingular;
}

static int derivatives(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                       double* y, double* lam, double* Y, double* P, double* L, bool with_dt) {
  Work<double>& w = work(s);
  Engine* e = engine(s);
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  const Parts& parts = *opt.parts;
  double *Yq = w.lin.Z, *Yp = w.lin.P, *YL = w.lin.L, scale = 1;
  const double* p2 = w.step.p_next;
  int status = StepOk;
  if (opt.stages > 1) {
    int iterations;
    double error;
    if ((status = gauss_at(e, opt, dt, x, p, u, y, Given::guess, true, &iterations, &error))) return status;
    GaussWork& g = *e->gauss[opt.stages];
    gauss_tangent(w, g, gauss_rule(opt.stages), dt, with_dt);
    gauss_first(w, g, gauss_rule(opt.stages), dt, with_dt, Yq, Yp, w.stride(with_dt));
  } else if (parts.count > 1) {
    status = tangent_of_parts(e, o, parts, dt, x, p, u, y, lam, with_dt, true);
    Yq = e->tangent.Yq;
    Yp = e->tangent.Yp;
    YL = e->tangent.YL;
    p2 = e->pnext;
    scale = 1 / parts.length[parts.count - 1];
  } else {
    load_solved(w, x, p, u, y, lam);
    if (!prepare(w, o, dt, false, false, true)) status = StepSingular;
    first_order(w, o, dt, with_dt);
    next_momentum(w, o, dt);
  }
  int nw = w.nw + with_dt, ld = w.stride(with_dt);
  to_body(M, p, p2, Yq, Yp, YL, ld, nw);
  for (int i = 0; i < M.nd; ++i) {
    copy(Y + size_t(i) * nw, Yq + size_t(i) * ld, nw);
    copy(P + size_t(i) * nw, Yp + size_t(i) * ld, nw);
  }
  for (int c = 0; c < M.nc; ++c)
    for (int k = 0; k < nw; ++k) L[size_t(c) * nw + k] = scale * YL[size_t(c) * ld + k];
  return status;
}

// Costates (zq, zp, zl) behind the step; those behind every part go to e->costates (parts, 2 nd). grad (nw): gradient
// by w; `then` as in costate_of_part(). After whole_step().
template <class F>
static bool costates_of_parts(Engine* e, const StepOptions& o, const Parts& parts, double dt, const double* u,
                              const double* zq, const double* zp, const double* zl, double* grad, F then) {
  Work<double>& w = e->d;
  const ModelData& M = *w.M;
  const int nd = M.nd, last = parts.count - 1;
  double *z = e->costates + size_t(parts.count) * 2 * nd, *zlast = e->buffer;
  for (int i = 0; i < nd; ++i) {
    z[i] = zq[i];
    z[nd + i] = zp[i];
  }
  for (int c = 0; c < M.nc; ++c) zlast[c] = zl ? zl[c] / parts.length[last] : 0;
  for (int i = 0; i < w.nw; ++i) grad[i] = 0;
  bool ok = true;
  for (int part = last; part >= 0; --part) {
    copy(e->costates + size_t(part) * 2 * nd, z, 2 * nd);
    load_part(w, e->parts, part, u, !has_products(M));
    ok = costate_of_part(w, o, parts, part, dt * parts.length[part], z, z + nd, zl && part == last ? zlast : nullptr,
                         grad, e->gradient, then) &&
         ok;
  }
  for (int i = 0; i < nd; ++i) {
    grad[i] = z[i];
    grad[M.nv + i] = z[nd + i];
  }
  return ok;
}

// the same for costates: z_q that belongs to canonical momenta, into e->zq; and the gradient by w back, in place
static const double* costate_in_chart(Engine* e, const double* p2, const double* zq, const double* zp) {
  const ModelData& M = *e->d.M;
  if (M.flat) return zq;
  copy(e->zq, zq, M.nd);
  for (const Ball& b : M.balls)
    if (b.v < M.nd) put_three(e->zq + b.v, three(zq + b.v) - cross(three(p2 + b.v), three(zp + b.v)) * 0.5);
  return e->zq;
}
static void gradient_to_body(const ModelData& M, const double* p, double* grad) {
  for (const Ball& b : M.balls)
    if (b.v < M.nd) put_three(grad + b.v, three(grad + b.v) + cross(three(p + b.v), three(grad + M.nv + b.v)) * 0.5);
}

// then(part, h, zp): with lin.mu, lin.nu of each part, from the last to the first
template <class F>
static int adjoint_with(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                        double* y, double* lam, Given given, const double* zq, const double* zp, const double* zl,
                        double* grad, F then) {
  Work<double>& w = work(s);
  Engine* e = engine(s);
  const StepOptions o = options(opt);
  bool ok;
  if (opt.stages > 1) {
    int iterations;
    double error;
    if (int status = gauss_at(e, opt, dt, x, p, u, y, Given::guess, true, &iterations, &error)) return status;
    GaussWork& g = *e->gauss[opt.stages];
    gauss_adjoint(w, g, gauss_rule(opt.stages), dt, zq, zp);
    gauss_gradient(w, g, gauss_rule(opt.stages), dt, zq, zp, grad);
    return StepOk;
  }
  if (opt.parts->count > 1) {
    int iterations;
    double error;
    if (int status = whole_step(e, o, *opt.parts, dt, x, p, u, y, lam, e->pnext, &iterations, &error,
                                [](int, double) {}))
      return status;
    zq = costate_in_chart(e, e->pnext, zq, zp);
    ok = costates_of_parts(e, o, *opt.parts, dt, u, zq, zp, zl, grad, then);
  } else {
    if (int status = solve_for_products(s, opt, dt, x, p, u, y, lam, given)) return status;
    const bool fresh = given != Given::solution;
    if (!fresh && !w.M->flat) {
      residual(w, o, dt);
      next_momentum(w, o, dt);
    }
    zq = costate_in_chart(e, w.step.p_next, zq, zp);
    ok = gradient_of_step(w, o, dt, fresh, zq, zp, zl, grad);
    then(0, dt, zp);
  }
  gradient_to_body(*w.M, p, grad);
  return ok ? StepOk : StepSingular;
}
static int adjoint_at(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                      double* y, double* lam, Given given, const double* zq, const double* zp, const double* zl,
                      double* grad) {
  return adjoint_with(s, opt, dt, x, p, u, y, lam, given, zq, zp, zl, grad, [](int, double, const double*) {});
}

// out (nd + nd + nc): change of (q_k+1, p_k+1, lambda) with that of w, dw (nw)
static int push_at(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                   double* y, double* lam, Given given, const double* dw, double* out) {
  Work<double>& w = work(s);
  Engine* e = engine(s);
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  const Parts& parts = *opt.parts;
  const int nv = M.nv, nd = M.nd, nk = M.nk, nu = M.nu, nc = M.nc, nw = w.nw, rho = nv + nd + nu;
  if (opt.stages > 1 || !has_products(M)) {  // by the matrices
    if (opt.stages <= 1 && parts.count == 1 && given == Given::guess)
      if (int status = solve_if_needed(s, opt, dt, x, p, u, y, lam, given)) return status;
    std::vector<double> rows(size_t(2 * nd + nc) * nw + 1);
    double *Y = rows.data(), *P = Y + size_t(nd) * nw, *L = P + size_t(nd) * nw;
    const int status = derivatives(s, opt, dt, x, p, u, y, lam, Y, P, L, false);
    if (status != StepOk) return status;
    for (int i = 0; i < 2 * nd + nc; ++i) {
      out[i] = 0;
      for (int k = 0; k < nw; ++k) out[i] += Y[size_t(i) * nw + k] * dw[k];
    }
    return StepOk;
  }
  if (parts.count == 1) {
    if (int status = solve_for_products(s, opt, dt, x, p, u, y, lam, given)) return status;
    const bool ok = prepare_products(w, o, dt, given != Given::solution);
    push_product(w, o, dt, dw, out, out + nd, out + 2 * nd);
    return ok ? StepOk : StepSingular;
  }
  int iterations;
  double error, *part_dw = e->gradient;
  bool ok = true;
  copy(part_dw, dw, nw);
  const int status = whole_step(e, o, parts, dt, x, p, u, y, lam, e->pnext, &iterations, &error,
                                [&](int part, double h) {
    for (int k = 0; k < nk; ++k) {
      const double from = dw[nd + k], to = dw[rho + k];
      part_dw[nd + k] = from + parts.end[part] * (to - from);
      part_dw[rho + k] = from + parts.end[part + 1] * (to - from);
    }
    ok = prepare_products(w, o, h, true) && ok;
    push_product(w, o, h, part_dw, out, out + nd, out + 2 * nd);
    copy(part_dw, out, nd);
    copy(part_dw + nv, out + nd, nd);
  });
  for (int c = 0; c < nc; ++c) out[2 * nd + c] /= parts.length[parts.count - 1];
  return status != StepOk ? status : ok ? StepOk : StepSingular;
}

// Second order of all parts for one costate z = (., zp, zl) with zq in the chart of the end, into H (nw, nw). After
// whole_step(): the costates backwards, then H = sum M_i' H_i M_i forwards.
static bool second_of_parts(Engine* e, const StepOptions& o, const Parts& parts, double dt, const double* u,
                            const double* zq, const double* z, double* H) {
  Work<double>& w = e->d;
  const ModelData& M = *w.M;
  const int nd = M.nd, nw = w.nw, last = parts.count - 1;
  const double* zl = M.nc ? z + 2 * nd : nullptr;
  bool ok = costates_of_parts(e, o, parts, dt, u, zq, z + nd, zl, e->gradient + w.nw, [](int, double, double*) {});
  double *Hi = e->square, *Mi = Hi + size_t(nw) * nw, *HM = Mi + size_t(nw) * nw, *zlast = e->buffer;
  tangent_at_start(w, e->tangent, false);
  for (int part = 0; part < parts.count; ++part) {
    const double h = dt * parts.length[part];
    const double* zi = e->costates + size_t(part) * 2 * nd;
    load_part(w, e->parts, part, u);
    ok = prepare(w, o, h, false, true) && ok;
    first_order(w, o, h, false, M.nh == M.nc);
    // keeps what the tangent needs: second_contracted() leaves Z, Lw, Rt, E and the forces' Jacobians alone
    for (int c = 0; c < M.nc; ++c) zlast[c] = zl[c] / parts.length[last];
    second_contracted(w, e->dual, o, h, zi, zi + nd, part == last ? (M.nc ? zlast : nullptr) : nullptr, Hi);
    part_by_whole(w, parts, part, e->tangent, Mi);
    gemm(nw, nw, nw, 1.0, Hi, nw, 1, Mi, nw, 1, 0.0, HM, nw, e->packing);
    gemm(nw, nw, nw, 1.0, Mi, 1, nw, HM, nw, 1, part ? 1.0 : 0.0, H, nw, e->packing);
    if (part == last) break;
    if (M.nh < M.nc) tangent_by_product(w, parts, part, e->tangent, false);
    else tangent_of_next(w, o, parts, part, h, e->tangent, false, false);
  }
  for (int i = 0; i < nw; ++i)
    for (int k = 0; k < i; ++k)
      H[size_t(i) * nw + k] = H[size_t(k) * nw + i] = 0.5 * (H[size_t(i) * nw + k] + H[size_t(k) * nw + i]);
  return ok;
}

// d(q', p')/dw of the balls, in the charts of the ends: rows y, dp of each ball
static void keep_ball_rows(Engine* e, const double* Yq, const double* Yp) {
  const Work<double>& w = e->d;
  const ModelData& M = *w.M;
  double* to = e->ball_rows;
  for (const Ball& b : M.balls)
    for (int r = 0; r < 6; ++r, to += w.nw)
      if (b.v < M.nd) copy(to, (r < 3 ? Yq : Yp) + size_t(b.v + r % 3) * w.stride(), w.nw);
}
// Second derivatives (nw, nw) from the charts of the ends to momenta along body axes, in place (docs/kernels.md 13):
// what Jr(y)^-T p' and Jr(x)^T p have of second order, and the first order of the latter. by_p (nd): gradient by p_k
static void second_to_body(Engine* e, const double* p, const double* p2, const double* zp, const double* by_p,
                           double* H) {
  const Work<double>& w = e->d;
  const ModelData& M = *w.M;
  const int nw = w.nw;
  auto symmetric = [](const V3<double>& a, const V3<double>& b, double f) {  // f (a b^T + b a^T - 2 a.b 1)
    return (outer(a, b) + outer(b, a) - identity3<double>() * (2 * dot(a, b))) * f;
  };
  for (size_t i = 0; i < M.balls.size(); ++i) {  // at the end
    const int v = M.balls[i].v;
    if (v >= M.nd) continue;
    const V3<double> z = three(zp + v);
    const Mat3<double> yy = symmetric(z, three(p2 + v), 1.0 / 12), yp = cross_matrix(z) * 0.5, py = transposed(yp);
    const double* Y = e->ball_rows + i * 6 * nw;
    for (int k = 0; k < nw; ++k) {
      const V3<double> y = {Y[k], Y[nw + k], Y[2 * nw + k]}, d = {Y[3 * nw + k], Y[4 * nw + k], Y[5 * nw + k]};
      const V3<double> a = yy * y + yp * d, b = py * y;
      for (int l = 0; l < nw; ++l)
        H[size_t(l) * nw + k] += a.x * Y[l] + a.y * Y[nw + l] + a.z * Y[2 * nw + l] + b.x * Y[3 * nw + l] +
                                 b.y * Y[4 * nw + l] + b.z * Y[5 * nw + l];
    }
  }
  for (const Ball& b : M.balls) {  // at the start: dp = dp_body - [p] x/2
    if (b.v >= M.nd) continue;
    const int at = b.v, pt = M.nv + b.v;
    const V3<double> before = three(p + b.v), g = three(by_p + b.v);
    for (int k = 0; k < nw; ++k) {
      double* row = H + size_t(k) * nw;
      put_three(row + at, three(row + at) - cross(three(row + pt), before) * 0.5);
    }
    for (int k = 0; k < nw; ++k) {
      auto entry = [&](int i) -> double& { return H[size_t(i) * nw + k]; };
      const V3<double> d = cross(V3<double>{entry(pt), entry(pt + 1), entry(pt + 2)}, before) * 0.5;
      entry(at) -= d.x;
      entry(at + 1) -= d.y;
      entry(at + 2) -= d.z;
    }
    const Mat3<double> xx = symmetric(g, before, 1.0 / 6), xp = cross_matrix(g) * -0.5;
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) {
        H[size_t(at + r) * nw + at + c] += xx(r, c);
        H[size_t(at + r) * nw + pt + c] += xp(r, c);
        H[size_t(pt + r) * nw + at + c] += xp(c, r);
      }
  }
}

static int second_order(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                        double* y, double* lam, Given given, int count, const double* z, double* H) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  const int nz = 2 * M.nd + M.nc;
  bool ok = true;
  Engine* e = engine(s);
  if (opt.stages > 1) {
    int iterations;
    double error;
    if (int status = gauss_at(e, opt, dt, x, p, u, y, Given::guess, true, &iterations, &error)) return status;
    GaussWork& g = *e->gauss[opt.stages];
    gauss_tangent(w, g, gauss_rule(opt.stages), dt, false);
    for (int c = 0; c < count; ++c) {
      const double* zc = z + size_t(c) * nz;
      gauss_adjoint(w, g, gauss_rule(opt.stages), dt, zc, zc + M.nd);
      gauss_second_order(w, g, gauss_rule(opt.stages), dt, zc + M.nd, H + size_t(c) * w.nw * w.nw);
    }
    return StepOk;
  }
  if (opt.parts->count > 1) {
    int iterations;
    double error;
    if (int status = whole_step(e, o, *opt.parts, dt, x, p, u, y, lam, e->pnext, &iterations, &error,
                                [](int, double) {}))
      return status;
    if (!M.flat) {
      ok = tangent_of_parts(e, o, *opt.parts, dt, x, p, u, y, lam, false, false) == StepOk;
      keep_ball_rows(e, e->tangent.Yq, e->tangent.Yp);
    }
    for (int c = 0; c < count; ++c) {
      const double *zc = z + size_t(c) * nz, *zq = costate_in_chart(e, e->pnext, zc, zc + M.nd);
      double* Hc = H + size_t(c) * w.nw * w.nw;
      ok = second_of_parts(e, o, *opt.parts, dt, u, zq, zc, Hc) && ok;
      second_to_body(e, p, e->pnext, zc + M.nd, e->gradient + w.nw + M.nv, Hc);
    }
    return ok ? StepOk : StepSingular;
  }
  if (int status = solve_if_needed(s, opt, dt, x, p, u, y, lam, given)) return status;
  ok = prepare(w, o, dt, given != Given::solution, true);
  if (!M.flat) {
    next_momentum(w, o, dt);
    copy(e->pnext, w.step.p_next, M.nd);
    first_order(w, o, dt, false);
    keep_ball_rows(e, w.lin.Z, w.lin.P);
  }
  first_order(w, o, dt, false, M.nh == M.nc);
  for (int c = 0; c < count; ++c) {
    const double *zc = z + size_t(c) * nz, *zq = costate_in_chart(e, e->pnext, zc, zc + M.nd);
    double* Hc = H + size_t(c) * w.nw * w.nw;
    second_contracted(w, e->dual, o, dt, zq, zc + M.nd, M.nc ? zc + 2 * M.nd : nullptr, Hc);
    second_to_body(e, p, e->pnext, zc + M.nd, w.lin.mu, Hc);
  }
  return ok ? StepOk : StepSingular;
}

// ---- parameters
// gradient of zq.q_k+1 + zp.p_k+1 by the parameters, added to out (links.count); after gauss_adjoint()
static void gauss_parameters(Engine* e, const Options& opt, double h, const double* u, const double* zp,
                             const ParameterLinks& links, double* out) {
  const ModelData& M = *e->d.M;
  GaussWork& g = *e->gauss[opt.stages];
  const GaussRule& R = gauss_rule(opt.stages);
  for (int i = 0; i < R.s; ++i) {
    gauss_weight(M, g, R, h, i, zp, g.along);
    for (int d = 0; d < M.nv; ++d) {
      g.point[d] = d < M.nd ? g.V[i * M.nd + d] : (e->d.step.y[d] - e->d.step.x[d]) / h;
      g.point[M.nv + d] = d < M.nd ? g.mu[i * M.nd + d] : 0;
    }
    weighted_parameters(e, g.Q + i * M.nq, g.point, u, g.along, g.point + M.nv, links, out);
  }
}

static int adjoint_parameters(Scratch* s, const Options& opt, double dt, const double* x, const double* p,
                              const double* u, double* y, double* lam, const double* zq, const double* zp,
                              const double* zl, const ParameterLinks& links, double* grad, double* by) {
  ParameterScratch* t = parameter_scratch(engine(s));
  if (!t) return StepNotFinite;
  Work<double>& w = work(s);
  const StepOptions o = options(opt);
  if (opt.stages > 1) {
    const int status = adjoint_at(s, opt, dt, x, p, u, y, lam, Given::guess, zq, zp, zl, grad);
    if (status == StepOk) gauss_parameters(engine(s), opt, dt, u, zp, links, by);
    return status;
  }
  return adjoint_with(s, opt, dt, x, p, u, y, lam, Given::solution, zq, zp, zl, grad,
                      [&](int, double h, const double* z) {
    motion_by_parameters(w, *t, o, h, links, w.lin.mu, z, by);
    end_by_parameters(w, *t, h, links, w.lin.nu, by);
  });
}

// S (2 nd, columns): derivatives of (q_k, p_k), momenta of balls along body axes or canonical in the chart of their
// ends
static void sensitivity_to_chart(const ModelData& M, const double* p, double sign, int columns, double* S) {
  for (const Ball& b : M.balls) {
    if (b.v >= M.nd) continue;
    double *q = S + size_t(b.v) * columns, *r = S + size_t(M.nd + b.v) * columns;
    for (int c = 0; c < columns; ++c) {
      const V3<double> d = cross(three(p + b.v), V3<double>{q[c], q[columns + c], q[2 * columns + c]}) * (-0.5 * sign);
      r[c] += d.x;
      r[columns + c] += d.y;
      r[2 * columns + c] += d.z;
    }
  }
}

// S (2 nd, columns) through a Gauss step, as in sensitivity_of_part(): A S, and a row of the parameters for every
// component of the end. After gauss_at() with exact.
static void gauss_sensitivity(Engine* e, ParameterScratch& t, const Options& opt, double h, const double* u,
                              const ParameterLinks& links, int columns, double* S) {
  Work<double>& w = e->d;
  const ModelData& M = *w.M;
  GaussWork& g = *e->gauss[opt.stages];
  const GaussRule& R = gauss_rule(opt.stages);
  const int nd = M.nd, nv = M.nv, ld = w.stride();
  gauss_tangent(w, g, R, h, false);
  gauss_first(w, g, R, h, false, w.lin.Z, w.lin.P, ld);
  t.S.assign(size_t(2 * nd) * columns, 0.0);
  for (int r = 0; r < 2 * nd; ++r) {
    const double* row = (r < nd ? w.lin.Z : w.lin.P) + size_t(r % nd) * ld;
    double* out = t.S.data() + size_t(r) * columns;
    for (int d = 0; d < nd; ++d) {
      axpy(out, row[d], S + size_t(d) * columns, columns);
      axpy(out, row[nv + d], S + size_t(nd + d) * columns, columns);
    }
    if (!links.count) continue;
    double *zq = t.delta.data(), *zp = t.zero.data();  // zeros but for one
    for (int d = 0; d < nd; ++d) zq[d] = 0;
    (r < nd ? zq : zp)[r % nd] = 1;
    gauss_adjoint(w, g, R, h, zq, zp);
    gauss_parameters(e, opt, h, u, zp, links, out);
    zp[r % nd] = 0;
  }
  copy(S, t.S.data(), t.S.size());
}

static int sensitivity(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u,
                       double* y, double* lam, double* pnext, Given given, const ParameterLinks& links, int columns,
                       double* S, double* SL) {
  Engine* e = engine(s);
  ParameterScratch* t = parameter_scratch(e);
  if (!t) return StepNotFinite;
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  const StepOptions o = options(opt);
  const Parts& parts = *opt.parts;
  const int last = parts.count - 1;
  int iterations;
  double error;
  bool ok = true;
  if (opt.stages > 1) {
    if (int status = gauss_at(e, opt, dt, x, p, u, y, Given::guess, true, &iterations, &error)) return status;
    copy(y, w.step.y, M.nq);
    copy(pnext, w.step.p_next, M.nd);
    gauss_sensitivity(e, *t, opt, dt, u, links, columns, S);
    return StepOk;
  }
  sensitivity_to_chart(M, p, 1, columns, S);
  if (last > 0) {
    int status = whole_step(e, o, parts, dt, x, p, u, y, lam, pnext, &iterations, &error, [&](int part, double h) {
      ok = prepare(w, o, h, true, false) && ok;
      first_order(w, o, h, false);
      sensitivity_of_part(w, *t, o, h, links, columns, S, part == last ? SL : nullptr);
    });
    if (status != StepOk) return status;
    for (int i = 0; SL && i < M.nc * columns; ++i) SL[i] /= parts.length[last];
  } else {
    if (int status = solve_if_needed(s, opt, dt, x, p, u, y, lam, given)) return status;
    ok = prepare(w, o, dt, given != Given::solution, false);
    next_momentum(w, o, dt);
    copy(pnext, w.step.p_next, M.nd);
    first_order(w, o, dt, false);
    sensitivity_of_part(w, *t, o, dt, links, columns, S, SL);
  }
  sensitivity_to_chart(M, pnext, -1, columns, S);
  return ok ? StepOk : StepSingular;
}

static size_t products_room(int rows, int columns) { return gemm_workspace(columns, columns, rows); }
static void add_products(int rows, int columns, const double* J, const double* e, double* H, double* g, double* room) {
  gemm(columns, columns, rows, 1.0, J, 1, columns, J, columns, 1, 1.0, H, columns, room, Part::lower);
  gemv_t(rows, columns, 1.0, J, columns, e, 1.0, g);
}

#define DAL_STRING(x) #x
#define DAL_NAME(x) DAL_STRING(x)

extern const KernelTable table;
const KernelTable table = {
    DAL_NAME(DALEMBERT_ARCH),
    kWidth,
    plan,
    make,
    drop,
    frames,
    energy,
    first,
    generators_at,
    second,
    third,
    potential_all,
    constraints,
    constraint_values,
    constraint_second,
    constraint_third_at,
    force_at,
    force_first,
    force_second_at,
    momentum,
    twists,
    acceleration_at,
    acceleration_first_at,
    acceleration_second,
    velocity,
    step_once,
    rollout,
    rollout_lanes,
    linearize,
    [](Scratch* s) -> const double* { return engine(s)->pnext; },
    derivatives,
    adjoint_at,
    push_at,
    second_order,
    riccati,
    riccati_workspace,
    riccati_rollout,
    ekf_batch,
    kalman_room,
    kalman_predict,
    kalman_update,
    kalman_slope,
    kalman_move,
    tape_at,
    parameters_known,
    adjoint_parameters,
    sensitivity,
    lagrangian_parameters,
    force_parameters,
    configuration_parameters,
    add_products,
    products_room,
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
