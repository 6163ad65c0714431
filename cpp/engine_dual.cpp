// What is made with dual numbers: derivatives by parameters, second derivatives of accelerations and of what turns or
// rolls. A file of its own, because it is compiled with fewer optimizations (CMakeLists.txt).
#include "ball_second.hpp"
#include "dynamics.hpp"
#include "engine.hpp"
#include "parameters_dual.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// second derivatives by one dual direction per column: d2acc (ncol, nd, ncol), d2lam (ncol, nc, ncol)
bool acceleration_second(const ModelData& M, const double* q, const double* v, const double* u, const double* acc_k,
                         double* d2acc, double* d2lam) {
  void* room = std::aligned_alloc(64, (sizeof(Work<Dual>) + 63) / 64 * 64);
  if (!room) return false;
  Work<Dual>* w = new (room) Work<Dual>;
  if (!w->init(M, true)) {
    std::free(room);
    return false;
  }
  int ncol = 2 * M.nv + M.nu + M.nk;
  size_t na = size_t(M.nd) * ncol, nl = size_t(M.nc) * ncol;
  Dual* out = static_cast<Dual*>(std::calloc(na + nl + M.nv + M.nc + 1, sizeof(Dual)));
  Dual *dacc = out, *dlam = out + na, *acc = dlam + nl, *lam = acc + M.nv;
  bool ok = true;
  for (int c = 0; c < ncol && ok; ++c) {
    for (int i = 0; i < M.nv; ++i) {
      w->kin.q[i] = Dual(q[i], c == i);
      w->kin.v[i] = Dual(v[i], c == M.nv + i);
    }
    for (int i = 0; i < M.nu; ++i) w->step.u[i] = Dual(u[i], c == 2 * M.nv + i);
    for (int i = 0; i < M.nk; ++i) acc[M.nd + i] = Dual(acc_k[i], c == 2 * M.nv + M.nu + i);
    set_reference(*w, w->kin.q);
    w->kin.reference = {Dual(w->kin.reference.x.v), Dual(w->kin.reference.y.v),
                        Dual(w->kin.reference.z.v)};  // constant by definition
    ok = acceleration_first(*w, acc, lam, dacc, dlam);
    for (size_t i = 0; i < na; ++i) d2acc[c * na + i] = dacc[i].d;
    for (size_t i = 0; i < nl; ++i) d2lam[c * nl + i] = dlam[i].d;
  }
  std::free(out);
  w->~Work<Dual>();
  std::free(room);
  return ok;
}

// ---- parameters
ParameterScratch* parameter_scratch(Engine* e) {
  if (e->parameters) return e->parameters;
  void* room = std::aligned_alloc(64, (sizeof(ParameterScratch) + 63) / 64 * 64);
  if (!room) return nullptr;
  e->parameters = new (room) ParameterScratch;
  if (e->parameters->init(*e->d.M)) return e->parameters;
  e->parameters->~ParameterScratch();
  std::free(room);
  return e->parameters = nullptr;
}

bool parameters_known(const ModelData& M) { return knows_numbers(M); }

void drop_parameters(Engine* e) {
  if (!e->parameters) return;
  e->parameters->~ParameterScratch();
  std::free(e->parameters);
}

// derivatives of L = T - V at (q, v) by the parameters, or, with (dq, dv) not null, their change along it; added to
// `by`
bool lagrangian_parameters(Scratch* s, const double* q, const double* v, const double* dq, const double* dv,
                           const ParameterLinks& links, double* by) {
  ParameterScratch* t = parameter_scratch(engine(s));
  if (!t) return false;
  Work<double>& w = at(s, q, v, nullptr);
  const ModelData& M = *w.M;
  start_sums(w, *t, links);
  for (int i = 0; i < M.nq; ++i) t->d.kin.q[i] = Dual(q[i]);
  for (int i = 0; i < M.nv; ++i) {
    t->d.kin.v[i] = Dual(v[i], dv ? dv[i] : 0.0);
    t->d.step.moved[i] = Dual(0.0, dq ? dq[i] : 0.0);
  }
  integrate(M, t->d.kin.q, t->d.step.moved, t->d.kin.q, 0, M.nv);
  poses(t->d, t->d.kin.q, t->d.kin.mid);
  gradient(t->d);
  lagrangian_by_numbers(t->d, t->g);
  links.add(t->g.out, by, [dq](const Dual& x) { return dq ? x.d : x.v; });
  return true;
}

void weighted_parameters(Engine* e, const double* q, const double* v, const double* u, const double* m, const double* n,
                         const ParameterLinks& links, double* out) {
  ParameterScratch& t = *e->parameters;
  lagrangian_parameters(reinterpret_cast<Scratch*>(e), q, v, m, n, links, out);
  Work<double>& w = at(reinterpret_cast<Scratch*>(e), q, v, u);
  if (!pushed(*w.M)) return;
  poses(w, w.kin.q, w.kin.mid);
  start_sums(w, t, links);
  forces_by_numbers(w, t.d, m, t.g);
  links.add(t.g.out, out, [](const Dual& x) { return x.d; });
}

// derivatives by the parameters of the constraints at q: h (nc, links.count; rows on velocities stay), and of the
// origins of frames, in world axes: p (3 count, links.count); added to
bool configuration_parameters(Scratch* s, const double* q, int count, const int* frame, const ParameterLinks& links,
                              double* h, double* p) {
  ParameterScratch* t = parameter_scratch(engine(s));
  if (!t) return false;
  Work<double>& w = at(s, q, nullptr, nullptr);
  Work<Dual>& d = t->d;
  const ModelData& M = *w.M;
  for (int i = 0; i < M.nq; ++i) w.step.y[i] = q[i];
  for (int c = 0; c < M.nh; ++c) {
    t->unit[c] = 1;
    end_by_parameters(w, *t, 0.0, links, t->unit.data(), h + size_t(c) * links.count);
    t->unit[c] = 0;
  }
  start_sums(w, *t, links);
  for (int i = 0; i < M.nq; ++i) d.kin.q[i] = Dual(q[i]);
  poses(d, d.kin.q, d.kin.mid);
  for (int i = 0; i < 3 * count; ++i) {  // a unit force on the origin
    start_sums(w, *t, links);
    clear_wrenches(d, t->g);
    const V3<Dual> f = {d.kin.mid.R[0].c[i % 3].x, d.kin.mid.R[0].c[i % 3].y, d.kin.mid.R[0].c[i % 3].z};
    const int site = frame[i / 3];
    add_on_site(d, t->g, site, d.kin.mid, {cross(site_position(M, M.sites[site], d.kin.mid), f), f});
    for (int j = M.nj - 1; j >= 0; --j) add_on_base(d, t->g, j, d.kin.q, d.kin.mid, zero6<Dual>());
    links.add(t->g.out, p + size_t(i) * links.count, [](const Dual& x) { return x.v; });
  }
  return true;
}

// derivatives of the generalized forces by the parameters: by (nd, links.count), added to
bool force_parameters(Scratch* s, const double* q, const double* v, const double* u, const ParameterLinks& links,
                      double* by) {
  ParameterScratch* t = parameter_scratch(engine(s));
  if (!t) return false;
  Work<double>& w = at(s, q, v, u);
  poses(w, w.kin.q, w.kin.mid);
  for (int i = 0; i < w.M->nd; ++i) {
    start_sums(w, *t, links);
    t->unit[i] = 1;
    forces_by_numbers(w, t->d, t->unit.data(), t->g);
    t->unit[i] = 0;
    links.add(t->g.out, by + size_t(i) * links.count, [](const Dual& x) { return x.d; });
  }
  return true;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
