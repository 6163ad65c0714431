// One instruction set's build of all kernels; DALEMBERT_ARCH names it. Translates between plain arrays and workspaces.
#include "dynamics.hpp"
#include "ekf.hpp"
#include "kernels.hpp"
#include "riccati.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct Engine {
  Work<double> d;
  Work<Lanes>* lanes = nullptr;
  double* buffer = nullptr;  // one state and input
};

static Engine* engine(Scratch* s) { return reinterpret_cast<Engine*>(s); }
static Work<double>& work(Scratch* s) { return engine(s)->d; }

static StepOptions options(const Options& o) {
  StepOptions out;
  out.alpha = o.alpha; out.minus = o.minus; out.plus = o.plus;
  out.tolerance = o.tolerance; out.h_tolerance = o.h_tolerance;
  out.max_iterations = o.max_iterations; out.plain = o.plain;
  out.stop = o.stop; out.h_stop = o.h_stop.data(); out.h_count = int(o.h_stop.size());
  return out;
}

static Scratch* make(const ModelData& M, bool linearization, bool lanes) {
  Engine* e = static_cast<Engine*>(std::calloc(1, sizeof(Engine)));
  new (e) Engine;
  e->d.init(M, linearization);
  if (lanes) {
    void* room = std::aligned_alloc(64, (sizeof(Work<Lanes>) + 63) / 64 * 64);
    e->lanes = new (room) Work<Lanes>;
    e->lanes->init(M, false);
  }
  size_t nx = M.nq + M.nd + M.nk, nU = M.nu + M.nk;
  e->buffer = static_cast<double*>(std::calloc(2 * nx + 2 * nU + 8, 8));
  return reinterpret_cast<Scratch*>(e);
}
static void drop(Scratch* s) {
  Engine* e = engine(s);
  if (e->lanes) { e->lanes->~Work<Lanes>(); std::free(e->lanes); }
  std::free(e->buffer);
  e->~Engine();
  std::free(e);
}

static void copy(double* to, const double* from, size_t n) { if (to && from && n) std::memcpy(to, from, n * sizeof(double)); }

// short rows: without the call of memcpy
static DAL_INLINE void copy_row(double* to, const double* from, int n) {
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) store(to + i, load(from + i));
  for (; i < n; ++i) to[i] = from[i];
}

static Work<double>& at(Scratch* s, const double* q, const double* v, const double* u) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  copy(w.q, q, M.nq);
  if (v) copy(w.v, v, M.nq); else for (int i = 0; i < M.nq; ++i) w.v[i] = 0;
  if (u) copy(w.u, u, M.nu); else for (int i = 0; i < M.nu; ++i) w.u[i] = 0;
  set_reference(w, w.q);
  return w;
}

// world coordinates of an internal point: Rg^T (p - p_root)
static void frames(Scratch* s, const double* q, double* out) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  const ModelData& M = *w.M;
  poses(w, w.q, w.mid);
  for (int f = 0; f < M.nf; ++f) {
    const Site& site = M.sites[f];
    V3<double> p = tmul(w.mid.R[0], site_position(M, site, w.mid)) + w.ref;
    M3<double> R = mul_const(site_rotation(M, site, w.mid), site.R);
    double* g = out + 16 * f;
    for (int k = 0; k < 3; ++k) {
      V3<double> a = tmul(w.mid.R[0], R.c[k]);
      g[k] = a.x; g[4 + k] = a.y; g[8 + k] = a.z;
    }
    g[3] = p.x; g[7] = p.y; g[11] = p.z;
    g[12] = g[13] = g[14] = 0; g[15] = 1;
  }
}

static void energy(Scratch* s, const double* q, const double* v, double* kinetic, double* pot) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.q, w.mid);
  gradient(w);
  energies(w, *kinetic, *pot);
  for (const Element& e : w.M->potentials) *pot += potential(w, e, w.q, w.mid, 0, (const double*)nullptr);
}

static void first(Scratch* s, const double* q, const double* v, double* Lq, double* Lv) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.q, w.mid);
  gradient(w);
  subtract_potentials(w, w.q);
  copy(Lq, w.Lq, w.M->nq);
  copy(Lv, w.Lv, w.M->nq);
}

static const Slots<double> kContinuous = {1, 0, 0, 1};

static void second(Scratch* s, const double* q, const double* v, double* qq, double* qv, double* vv) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.q, w.mid);
  gradient(w);
  composites(w, false);
  generators(w, kContinuous);
  Hessian<double> E = {qq, qv, vv};
  second(w, E);
  potentials_second(w, w.q, kContinuous, E);
}

static void generators_at(Scratch* s, const double* q, const double* v) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.q, w.mid);
  gradient(w);
  composites(w, false);
  generators(w, kContinuous);
}

static void third(Scratch* s, const double* q, const double* v, const double* dq, const double* dv, double* qq, double* qv, double* vv) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.q, w.mid);
  gradient(w);
  composites(w, true);
  generators(w, kContinuous, true);
  copy(w.dq, dq, w.M->nq);
  copy(w.dv, dv, w.M->nq);
  Hessian<double> E = {qq, qv, vv};
  third(w, kContinuous, E, w.M->potentials.empty());
  potentials_third(w, w.q, kContinuous, E);
}

static void potential_all(Scratch* s, const double* q, double* value, double* grad, double* hess) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  const ModelData& M = *w.M;
  poses(w, w.q, w.mid);
  gradient(w);
  double t;
  energies(w, t, *value);
  subtract_potentials(w, w.q);
  for (const Element& e : M.potentials) *value += potential(w, e, w.q, w.mid, 0, (const double*)nullptr);
  for (int i = 0; i < M.nq; ++i) grad[i] = -w.Lq[i];
  if (!hess) return;
  composites(w, false);
  generators(w, kContinuous);
  second(w, w.E);
  potentials_second(w, w.q, kContinuous, w.E);
  for (int i = 0; i < M.nq * M.nq; ++i) hess[i] = -w.E.h11[i];
}

static void constraints(Scratch* s, const double* q, double* h, double* C) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  constraint_poses(w, w.q, w.end);
  constraint_rows(w, w.q, w.end, w.h, w.hscale, w.C1);
  copy(h, w.h, w.M->nc);
  copy(C, w.C1, size_t(w.M->nc) * w.M->nq);
}
static void constraint_second(Scratch* s, const double* q, const double* weight, double* D) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  constraint_poses(w, w.q, w.end);
  for (int i = 0; i < w.M->nq * w.M->nq; ++i) D[i] = 0;
  constraint_hessian(w, w.q, w.end, weight, 1.0, D, w.M->nq, w.M->nq);
}
static void constraint_third_at(Scratch* s, const double* q, const double* weight, const double* dir, double* D) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  constraint_poses(w, w.q, w.end);
  for (int i = 0; i < w.M->nq * w.M->nq; ++i) D[i] = 0;
  constraint_third(w, w.q, w.end, weight, 1.0, dir, D, (double*)nullptr);
  copy_symmetric(w.M->nq, D, w.M->nq, D, w.M->nq);
}

static void force_at(Scratch* s, const double* q, const double* v, const double* u, double* F) {
  Work<double>& w = at(s, q, v, u);
  poses(w, w.q, w.mid);
  generalized_force(w, w.q, w.v);
  copy(F, w.Fgen, w.M->nd);
}
static void force_first(Scratch* s, const double* q, const double* v, const double* u, double* Fq, double* Fv, double* Fu) {
  Work<double>& w = at(s, q, v, u);
  const ModelData& M = *w.M;
  poses(w, w.q, w.mid);
  force_jacobian(w, w.q, w.v);
  copy(Fq, w.Fq, size_t(M.nd) * M.nq);
  copy(Fv, w.Fv, size_t(M.nd) * M.nq);
  copy(Fu, w.Fu, size_t(M.nd) * M.nu);
}
static void force_second_at(Scratch* s, const double* q, const double* v, const double* u, const double* m, double* qq, double* qv, double* vv, double* qu, double* vu, double* uu) {
  Work<double>& w = at(s, q, v, u);
  const ModelData& M = *w.M;
  poses(w, w.q, w.mid);
  for (int i = 0; i < M.nq; ++i) w.mu[i] = i < M.nd ? m[i] : 0;
  for (int i = 0; i < M.nq * M.nq; ++i) qq[i] = qv[i] = vv[i] = 0;
  Hessian<double> E = {qq, qv, vv};
  forces_second(w, w.q, w.v, w.mu, kContinuous, 1.0, E);
  copy(qu, w.Hu, size_t(M.nq) * M.nu);
  copy(vu, w.Hu + M.nq * M.nu, size_t(M.nq) * M.nu);
  copy(uu, w.Huu, size_t(M.nu) * M.nu);
}

static void momentum(Scratch* s, const double* q, const double* v, double* h6) {
  Work<double>& w = at(s, q, v, nullptr);
  poses(w, w.q, w.mid);
  gradient(w);
  V6<double> H = zero6<double>();
  for (int n = 0; n < w.M->nn; ++n) if (w.M->nodes[n].parent < 0) H += w.H[n];
  V3<double> l = tmul(w.mid.R[0], H.v), m = tmul(w.mid.R[0], H.w) + cross(w.ref, l);
  h6[0] = m.x; h6[1] = m.y; h6[2] = m.z; h6[3] = l.x; h6[4] = l.y; h6[5] = l.z;
}
static void twists(Scratch* s, const double* q, double* S) {
  Work<double>& w = at(s, q, nullptr, nullptr);
  poses(w, w.q, w.mid);
  for (int j = 0; j < w.M->nj; ++j) {
    V6<double> t = joint_twist(w.M->joints[j], j + 1, w.mid);
    V3<double> a = tmul(w.mid.R[0], t.w), l = tmul(w.mid.R[0], t.v) + cross(w.ref, a);
    double* o = S + 6 * j;
    o[0] = a.x; o[1] = a.y; o[2] = a.z; o[3] = l.x; o[4] = l.y; o[5] = l.z;
  }
}

static bool acceleration_at(Scratch* s, const double* q, const double* v, const double* u, double* acc, double* lam) {
  Work<double>& w = at(s, q, v, u);
  return acceleration(w, acc, lam);
}
static bool acceleration_first_at(Scratch* s, const double* q, const double* v, const double* u, double* acc, double* lam, double* dacc, double* dlam) {
  Work<double>& w = at(s, q, v, u);
  return acceleration_first(w, acc, lam, dacc, dlam);
}
// second derivatives by one dual direction per column: d2acc (ncol, nd, ncol), d2lam (ncol, nc, ncol)
static bool acceleration_second(const ModelData& M, const double* q, const double* v, const double* u, const double* acc_k, double* d2acc, double* d2lam) {
  void* room = std::aligned_alloc(64, (sizeof(Work<Dual>) + 63) / 64 * 64);
  Work<Dual>* w = new (room) Work<Dual>;
  w->init(M, true);
  int ncol = 2 * M.nq + M.nu + M.nk;
  size_t na = size_t(M.nd) * ncol, nl = size_t(M.nc) * ncol;
  Dual* out = static_cast<Dual*>(std::calloc(na + nl + M.nq + M.nc + 1, sizeof(Dual)));
  Dual *dacc = out, *dlam = out + na, *acc = dlam + nl, *lam = acc + M.nq;
  bool ok = true;
  for (int c = 0; c < ncol && ok; ++c) {
    for (int i = 0; i < M.nq; ++i) { w->q[i] = Dual(q[i], c == i); w->v[i] = Dual(v[i], c == M.nq + i); }
    for (int i = 0; i < M.nu; ++i) w->u[i] = Dual(u[i], c == 2 * M.nq + i);
    for (int i = 0; i < M.nk; ++i) acc[M.nd + i] = Dual(acc_k[i], c == 2 * M.nq + M.nu + i);
    set_reference(*w, w->q);
    w->ref = {Dual(w->ref.x.v), Dual(w->ref.y.v), Dual(w->ref.z.v)};  // constant by definition
    ok = acceleration_first(*w, acc, lam, dacc, dlam);
    for (size_t i = 0; i < na; ++i) d2acc[c * na + i] = dacc[i].d;
    for (size_t i = 0; i < nl; ++i) d2lam[c * nl + i] = dlam[i].d;
  }
  std::free(out);
  w->~Work<Dual>();
  std::free(room);
  return ok;
}

// v that belongs to p, along the constraints: p of a step lacks part of the impulse of the constraints, which no step feels (it goes into lambda)
static bool velocity(Scratch* s, const double* q, const double* p, double* v) {
  Work<double>& w = at(s, q, v, nullptr);
  const ModelData& M = *w.M;
  int nd = M.nd, nq = M.nq, nc = M.nc;
  for (int i = 0; i < nd; ++i) w.v[i] = 0;
  poses(w, w.q, w.mid);
  gradient(w);  // momentum of the prescribed motion alone
  composites(w, false);
  bool ok = mass_factor(w);
  for (int i = 0; i < nd; ++i) w.r[i] = p[i] - w.Lv[i];
  solve(w, w.r, 1, 1);
  copy(v, w.r, nd);
  if (!nc) return ok;
  constraint_poses(w, w.q, w.end);
  constraint_rows(w, w.q, w.end, w.h, w.hscale, w.C1);
  int ld = row_stride(nc + 1);
  double* X = w.Xr;  // M^-1 C^T
  for (int i = 0; i < nd; ++i) for (int c = 0; c < ld; ++c) X[i * ld + c] = c < nc ? w.C1[c * nq + i] : 0.0;
  solve(w, X, ld, ld);
  for (int c = 0; c < nc; ++c) {
    const double* row = w.C1 + c * nq;
    w.dl[c] = 0;
    for (int i = 0; i < nq; ++i) w.dl[c] += row[i] * v[i];
    for (int k = 0; k < nc; ++k) w.S1[c * nc + k] = 0;
    for (int i = 0; i < nd; ++i) for (int k = 0; k < nc; ++k) w.S1[c * nc + k] += row[i] * X[i * ld + k];
  }
  schur_solve(w, w.S1, w.dl, 1, 1, false);
  for (int i = 0; i < nd; ++i) for (int c = 0; c < nc; ++c) v[i] -= X[i * ld + c] * w.dl[c];
  return ok;
}

// ---- steps
static int step_once(Scratch* s, const Options& o, double dt, const double* x, const double* p, const double* u, double* y, double* lam, double* pnext, int* iterations, double* error) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  copy(w.x, x, M.nq); copy(w.p, p, M.nd); copy(w.u, u, M.nu); copy(w.y, y, M.nq); copy(w.lam, lam, M.nc);
  set_reference(w, w.x);
  start_constraints(w);
  int status = step(w, options(o), dt, iterations, error);
  if (status == StepOk) { copy(y, w.y, M.nq); copy(lam, w.lam, M.nc); copy(pnext, w.pnext, M.nd); }
  return status;
}

// guess for q_k+1: the polynomial through up to four configurations before
static void guess(double* y, const double* Q, const double* dt, int k, int nq, int nd) {
  constexpr int most = 4;
  const int before = k < most - 1 ? k : most - 1;
  const double* q = Q + size_t(k) * nq;
  bool equal = true;
  for (int m = 1; m <= before; ++m) equal = equal && dt[k - m] == dt[k];
  auto past = [&](int m) { return q - ptrdiff_t(m) * nq; };
  if (equal && before == 3) {
    const double *a = past(1), *b = past(2), *c = past(3);
    for (int i = 0; i < nd; ++i) y[i] = 4 * (q[i] + b[i]) - 6 * a[i] - c[i];
    return;
  }
  if (equal) {
    for (int i = 0; i < nd; ++i) y[i] = before == 2 ? 3 * (q[i] - past(1)[i]) + past(2)[i] : before == 1 ? q[i] + (q[i] - past(1)[i]) : q[i];
    return;
  }
  double x[most] = {}, weight[most] = {1};  // times before t_k
  int n = 1;
  for (; n <= before; ++n) {
    x[n] = x[n - 1] - dt[k - n];
    double l[most], size = 0;
    for (int i = 0; i <= n; ++i) {
      l[i] = 1;
      for (int j = 0; j <= n; ++j) if (j != i) l[i] *= (dt[k] - x[j]) / (x[i] - x[j]);
      size += __builtin_fabs(l[i]);
    }
    if (!(size <= 20)) break;  // times too close to each other, or far from t_k+1
    for (int i = 0; i <= n; ++i) weight[i] = l[i];
  }
  for (int i = 0; i < nd; ++i) y[i] = weight[0] * q[i];
  for (int m = 1; m < n; ++m) for (int i = 0; i < nd; ++i) y[i] += weight[m] * past(m)[i];
}

// u_k, rho_k+1 from feedback around a reference (Trajectory optimization in discrete mechanics, eq. 17)
static void feedback(Engine* e, const Rollout& r, int k) {
  const ModelData& M = *e->d.M;
  int nx = M.nq + M.nd + M.nk, nU = M.nu + M.nk;
  double* dx = e->buffer;
  const double* xr = r.Xref + size_t(k) * nx;
  for (int i = 0; i < M.nq; ++i) dx[i] = r.Q[size_t(k) * M.nq + i] - xr[i];
  for (int i = 0; i < M.nd; ++i) dx[M.nq + i] = r.P[size_t(k) * M.nd + i] - xr[M.nq + i];
  for (int i = 0; i < M.nk; ++i) dx[M.nq + M.nd + i] = r.Vrho[size_t(k) * M.nk + i] - xr[M.nq + M.nd + i];
  const double* K = r.K + size_t(k) * nU * nx;
  for (int j = 0; j < nU; ++j) {
    double t = r.Uref[size_t(k) * nU + j];
    for (int i = 0; i < nx; ++i) t -= K[j * nx + i] * dx[i];
    if (j < M.nu) r.Uout[size_t(k) * M.nu + j] = t;
    else r.Rhoout[size_t(k) * M.nk + j - M.nu] = t;
  }
}

static RolloutStatus rollout(Scratch* s, const Options& opt, const Rollout& r, int from, int to, bool resume) {
  Engine* e = engine(s);
  Work<double>& w = e->d;
  const ModelData& M = *w.M;
  StepOptions o = options(opt), usual = o.without_stop();
  RolloutStatus out;
  int nq = M.nq, nd = M.nd, nk = M.nk, nc = M.nc;
  if (!resume) for (int c = 0; c < nc; ++c) w.lam[c] = 0;
  for (int k = from; k < to; ++k) {
    copy(w.x, r.Q + size_t(k) * nq, nq);
    copy(w.p, r.P + size_t(k) * nd, nd);
    set_reference(w, w.x);
    if (k == from && !resume) start_constraints(w);
    if (r.K) feedback(e, r, k);
    const double *U = r.K ? r.Uout : r.U, *Rho = r.K ? r.Rhoout : r.Rho;
    if (U) copy(w.u, U + size_t(k) * M.nu, M.nu); else for (int i = 0; i < M.nu; ++i) w.u[i] = 0;
    for (int i = 0; i < nk; ++i) w.y[nd + i] = Rho ? Rho[size_t(k) * nk + i] : w.x[nd + i];
    int iterations = 0, status = StepNotConverged;
    double error = 0;
    if (o.stop > 0) {  // from where it is; the predictor is for steps that do not end so
      copy(w.y, w.x, nd);
      if (stopped_step(w, o, r.dt[k], &iterations, &error)) status = StepOk;
    }
    if (status != StepOk) {
      guess(w.y, r.Q, r.dt, k, nq, nd);
      status = step(w, usual, r.dt[k], &iterations, &error);
    }
    if (status != StepOk) {
      out.steps = k;
      out.status = status;
      out.error = error;
      return out;
    }
    copy(r.Q + size_t(k + 1) * nq, w.y, nq);
    copy(r.P + size_t(k + 1) * nd, w.pnext, nd);
    copy(r.Lam ? r.Lam + size_t(k) * nc : nullptr, w.lam, nc);
    if (r.Vrho) for (int i = 0; i < nk; ++i) r.Vrho[size_t(k + 1) * nk + i] = (w.y[nd + i] - w.x[nd + i]) / r.dt[k];
    if (r.iterations) r.iterations[k] = iterations;
    advance_constraints(w);
  }
  out.steps = to;
  return out;
}

// count <= width rollouts side by side (same number of steps and same dt). A lane that fails to converge is finished by the scalar step.
static void rollout_lanes(Scratch* s, const Options& opt, const Rollout* r, int count, int from, int to, RolloutStatus* status, const volatile bool* stop) {
  Engine* e = engine(s);
  Work<Lanes>& w = *e->lanes;
  const ModelData& M = *w.M;
  StepOptions o = options(opt);
  int nq = M.nq, nd = M.nd, nk = M.nk, nc = M.nc;
  IVec dead{};
  for (int l = count; l < kWidth; ++l) dead[l] = -1;
  for (int l = 0; l < count; ++l) status[l] = RolloutStatus{};
  for (int c = 0; c < nc; ++c) w.lam[c] = Lanes(0.0);
  bool have = false;
  for (int k = from; k < to && !*stop; ++k) {
    for (int l = 0; l < kWidth; ++l) {
      const Rollout& a = r[l < count ? l : 0];
      for (int i = 0; i < nq; ++i) w.x[i].v[l] = a.Q[size_t(k) * nq + i];
      for (int i = 0; i < nd; ++i) w.p[i].v[l] = a.P[size_t(k) * nd + i];
      for (int i = 0; i < M.nu; ++i) w.u[i].v[l] = a.U ? a.U[size_t(k) * M.nu + i] : 0.0;
      for (int i = 0; i < nk; ++i) w.y[nd + i].v[l] = a.Rho ? a.Rho[size_t(k) * nk + i] : a.Q[size_t(k) * nq + nd + i];
      if (!(o.stop > 0)) guess(e->buffer, a.Q, a.dt, k, nq, nd);
      for (int i = 0; i < nd; ++i) w.y[i].v[l] = o.stop > 0 ? w.x[i].v[l] : e->buffer[i];
    }
    set_reference(w, w.x);
    if (!have && nc) {
      start_constraints(w);
      have = true;
    }
    int iterations = 0;
    Lanes error;
    IVec ok = newton(w, o, Lanes(r[0].dt[k]), &iterations, &error, dead);
    for (int l = 0; l < count; ++l) {
      if (dead[l]) continue;
      const Rollout& a = r[l];
      double* Q = a.Q + size_t(k + 1) * nq;
      double* P = a.P + size_t(k + 1) * nd;
      double* Lam = a.Lam ? a.Lam + size_t(k) * nc : nullptr;
      bool far = false;  // a doubtful root: the scalar step decides
      for (int i = 0; i < nd; ++i) far = far || (M.joints[M.dyn_joint[i]].kind >= 3 && !(__builtin_fabs(w.y[i].v[l] - w.x[i].v[l]) <= 3.141592653589793));
      if (ok[l] && !far) {
        for (int i = 0; i < nq; ++i) Q[i] = w.y[i].v[l];
        for (int i = 0; i < nd; ++i) P[i] = w.pnext[i].v[l];
        if (Lam) for (int c = 0; c < nc; ++c) Lam[c] = w.lam[c].v[l];
        if (a.iterations) a.iterations[k] = iterations;
      } else {
        Work<double>& d = e->d;
        for (int i = 0; i < nq; ++i) { d.x[i] = w.x[i].v[l]; d.y[i] = i < nd ? d.x[i] : w.y[i].v[l]; }
        for (int i = 0; i < nd; ++i) d.p[i] = w.p[i].v[l];
        for (int i = 0; i < M.nu; ++i) d.u[i] = w.u[i].v[l];
        for (int c = 0; c < nc; ++c) d.lam[c] = 0;
        set_reference(d, d.x);
        start_constraints(d);
        double err = 0;
        int its = 0, st = step(d, o, a.dt[k], &its, &err);
        if (st != StepOk) {
          dead[l] = -1;
          status[l].steps = k;
          status[l].status = st;
          status[l].error = err;
          for (int i = 0; i < nq; ++i) Q[i] = a.Q[size_t(k) * nq + i];
          for (int i = 0; i < nd; ++i) P[i] = a.P[size_t(k) * nd + i];
        } else {
          copy(Q, d.y, nq);
          copy(P, d.pnext, nd);
          copy(Lam, d.lam, nc);
          if (a.iterations) a.iterations[k] = its;
          for (int c = 0; c < nc; ++c) w.lam[c].v[l] = d.lam[c];
          for (int i = 0; i < nc * nq; ++i) w.C1[i].v[l] = d.C1[i];
        }
      }
      if (!dead[l]) {
        if (a.Vrho) for (int i = 0; i < nk; ++i) a.Vrho[size_t(k + 1) * nk + i] = (Q[nd + i] - a.Q[size_t(k) * nq + nd + i]) / a.dt[k];
        status[l].steps = k + 1;
      }
    }
    // dead lanes keep their last configuration, so that nothing overflows
    for (int l = 0; l < count; ++l)
      if (dead[l]) {
        const Rollout& a = r[l];
        std::memmove(a.Q + size_t(k + 1) * nq, a.Q + size_t(k) * nq, nq * sizeof(double));
        std::memmove(a.P + size_t(k + 1) * nd, a.P + size_t(k) * nd, nd * sizeof(double));
      }
    advance_constraints(w);
  }
}

// ---- linearization
static void load_step(Work<double>& w, const double* x, const double* p, const double* u, const double* y, const double* lam) {
  const ModelData& M = *w.M;
  copy(w.x, x, M.nq); copy(w.p, p, M.nd); copy(w.u, u, M.nu); copy(w.y, y, M.nq); copy(w.lam, lam, M.nc);
  set_reference(w, w.x);
  if (M.nc) {
    start_constraints(w);
    constraint_poses(w, w.y, w.end);
    constraint_rows(w, w.y, w.end, w.h, w.hscale, w.C1);
  }
}

static bool linearize(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u, const double* y, const double* lam, bool fresh, double* A, double* B) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  StepOptions o = options(opt);
  if (!fresh) load_step(w, x, p, u, y, lam);
  bool ok = prepare(w, o, dt, fresh, false);
  first_order(w, o, dt, false);
  int nq = M.nq, nd = M.nd, nk = M.nk, nu = M.nu, nx = nq + nd + nk, nU = nu + nk, ld = w.stride();
  for (int i = 0; i < nd; ++i) {
    const double *z = w.Z + size_t(i) * ld, *p = w.Pw + size_t(i) * ld;
    copy_row(A + size_t(i) * nx, z, nq + nd);
    copy_row(A + size_t(nq + i) * nx, p, nq + nd);
    copy_row(B + size_t(i) * nU, z + nq + nd, nU);
    copy_row(B + size_t(nq + i) * nU, p + nq + nd, nU);
  }
  for (int k = 0; k < nk; ++k) {
    B[size_t(nd + k) * nU + nu + k] = 1;
    A[size_t(nq + nd + k) * nx + nd + k] = -1 / dt;
    B[size_t(nq + nd + k) * nU + nu + k] = 1 / dt;
  }
  return ok;
}

static bool derivatives(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u, const double* y, const double* lam, double* Y, double* P, double* L, bool with_dt) {
  Work<double>& w = work(s);
  StepOptions o = options(opt);
  load_step(w, x, p, u, y, lam);
  bool ok = prepare(w, o, dt, false, false);
  first_order(w, o, dt, with_dt);
  int nw = w.nw + with_dt, ld = w.stride(with_dt);
  for (int i = 0; i < w.M->nd; ++i) { copy(Y + size_t(i) * nw, w.Z + size_t(i) * ld, nw); copy(P + size_t(i) * nw, w.Pw + size_t(i) * ld, nw); }
  for (int c = 0; c < w.M->nc; ++c) copy(L + size_t(c) * nw, w.Lw + size_t(c) * ld, nw);
  return ok;
}

static bool adjoint_at(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u, const double* y, const double* lam, const double* zq, const double* zp, const double* zl, double* grad) {
  Work<double>& w = work(s);
  StepOptions o = options(opt);
  load_step(w, x, p, u, y, lam);
  bool ok = prepare(w, o, dt, false, false);
  adjoint(w, o, dt, zq, zp, zl, false);
  adjoint_gradient(w, o, dt, zp, grad);
  return ok;
}

static bool second_order(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u, const double* y, const double* lam, bool fresh, int count, const double* z, double* H) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  StepOptions o = options(opt);
  if (!fresh) load_step(w, x, p, u, y, lam);
  bool ok = prepare(w, o, dt, fresh, true);
  first_order(w, o, dt, false, true);
  for (int c = 0; c < count; ++c) {
    const double* zc = z + size_t(c) * (2 * M.nd + M.nc);
    second_contracted(w, o, dt, zc, zc + M.nd, M.nc ? zc + 2 * M.nd : nullptr, H + size_t(c) * w.nw * w.nw);
  }
  return ok;
}

// estimate of the condition of Dh(q_k+1) M^-1 Dh(q_k)^T (pivot ratio) and of the Newton matrix
static double condition(Scratch* s, const Options& opt, double dt, const double* x, const double* p, const double* u, const double* y, const double* lam, double* newton_out) {
  Work<double>& w = work(s);
  const ModelData& M = *w.M;
  StepOptions o = options(opt);
  load_step(w, x, p, u, y, lam);
  prepare(w, o, dt, false, false);
  double lo = 1e300, hi = 0;
  for (int i = 0; i < M.nd; ++i) { double a = __builtin_fabs(w.inv[i]); if (a > hi) hi = a; if (a < lo) lo = a; }
  *newton_out = M.nd ? hi / lo : 1;
  if (!M.nc) return 1;
  for (int i = 0; i < M.nd; ++i) for (int c = 0; c < M.nc; ++c) w.Z[i * M.nc + c] = w.C0[c * M.nq + i];
  solve(w, w.Z, M.nc, M.nc);
  double *A = w.dense, *V = A + M.nc * M.nc, *sv = V + 2 * M.nc * M.nc, *B = sv + 4 * M.nc;
  for (int c = 0; c < M.nc; ++c) {
    for (int k = 0; k < M.nc; ++k) {
      double t = 0;
      for (int i = 0; i < M.nd; ++i) t += w.C1[c * M.nq + i] * w.Z[i * M.nc + k];
      A[c * M.nc + k] = t;
    }
    B[c] = 0;
  }
  least_norm(A, V, sv, M.nc, B, 1, 1, 1e-12);
  lo = 1e300; hi = 0;
  for (int c = 0; c < M.nc; ++c) { if (sv[c] > hi) hi = sv[c]; if (sv[c] < lo) lo = sv[c]; }
  return lo > 0 ? hi / lo : 1e300;
}

#define DAL_STRING(x) #x
#define DAL_NAME(x) DAL_STRING(x)

extern const KernelTable table;
const KernelTable table = {
    DAL_NAME(DALEMBERT_ARCH), kWidth, make, drop, frames, energy, first, generators_at, second, third, potential_all, constraints, constraint_second, constraint_third_at,
    force_at, force_first, force_second_at, momentum, twists, acceleration_at, acceleration_first_at, acceleration_second, velocity,
    step_once, rollout, rollout_lanes, linearize, derivatives, adjoint_at, second_order, condition,
    riccati, riccati_workspace, riccati_rollout, ekf_batch,
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
