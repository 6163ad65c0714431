// Parameters: numbers of a model set anew, and derivatives by them. Converts and checks; computes nothing.
#include <nanobind/stl/unique_ptr.h>
#include <memory>
#include "core.hpp"
#include "threads.hpp"

namespace dalembert {
namespace {

using Integers = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;

std::unique_ptr<Core> with_numbers(Core& core, const Integers& place, const Array& value) {
  ModelData M = core.model();
  const size_t n = value.size();
  if (place.size() != 3 * n) throw nb::value_error("a place (group, index, entry) for every number is needed");
  for (size_t i = 0; i < n; ++i) {
    const int32_t* p = place.data() + 3 * i;
    double* at = number_at(M, p[0], p[1], p[2]);
    if (!at) throw nb::value_error("no such number in the model");
    *at = value.data()[i];
  }
  return std::make_unique<Core>(std::move(M));
}

std::unique_ptr<ParameterLinks> make_links(Core& core, int count, const Integers& place, const Integers& parameter,
                                           const Array& factor) {
  const ModelData& M = core.model();
  auto links = std::make_unique<ParameterLinks>();
  links->layout = NumberLayout(M);
  links->count = count;
  const size_t n = factor.size();
  if (place.size() != 3 * n || parameter.size() != n) throw nb::value_error("links must have one length");
  for (size_t i = 0; i < n; ++i) {
    const int32_t* p = place.data() + 3 * i;
    const int slot = links->layout.at(M, p[0], p[1], p[2]);
    if (slot < 0 || parameter.data()[i] < 0 || parameter.data()[i] >= count)
      throw nb::value_error("no such number in the model");
    const NumberGroup group = NumberGroup(p[0]);
    if (group != NumberGroup::node && group != NumberGroup::damping) links->bodies_only = false;
    links->slot.push_back(slot);
    links->parameter.push_back(parameter.data()[i]);
    links->factor.push_back(factor.data()[i]);
  }
  links->group_bodies();
  return links;
}

// Sensitivities from S0 along a motion that is solved again from its states: use(i, S) for every state i, with S (2 nd,
// columns) there, kept where where(i) says. Returns the step that failed, or their number; `code` says why it failed.
template <class Where, class Use>
int along_motion(Core& core, const Options& o, const ParameterLinks& links, const double* X, const double* U,
                 const double* dt, int steps, const double* lam0, int columns, const double* S0, double* SL, int& code,
                 Pulse& pulse, Where where, Use use) {
  Sizes z(core.model());
  const KernelTable& k = core.table();
  Lease s(core);
  std::vector<double> y(z.nq + 1), lam(z.nc + 1), pnext(z.nd + 1);
  const size_t size = 2 * z.nd * columns;
  std::memcpy(where(0), S0, size * sizeof(double));
  use(0, where(0));
  for (int i = 0; i < steps && !(i % 64 == 0 && pulse()); ++i) {
    const double *x = X + i * z.nx, *u = U + i * z.nU;
    std::memcpy(y.data(), x + z.nx, (z.nq - z.nqk) * sizeof(double));
    std::memcpy(y.data() + z.nq - z.nqk, u + z.nu, z.nqk * sizeof(double));
    if (lam0) std::memcpy(lam.data(), lam0 + i * z.nc, z.nc * sizeof(double));
    double *here = where(i), *next = where(i + 1);
    if (next != here) std::memcpy(next, here, size * sizeof(double));
    code = k.sensitivity(s, o, dt[i], x, x + z.nq, u, y.data(), lam.data(), pnext.data(),
                         lam0 || !z.nc ? Given::solution : Given::guess, links, columns, next,
                         SL ? SL + size_t(i) * z.nc * columns : nullptr);
    if (code) return i;
    use(i + 1, next);
  }
  return steps;
}

// columns of S0, which is (2 nd, columns) with one for every parameter at least
size_t columns_of(const Array& S0, size_t nd, const ParameterLinks& links) {
  const size_t columns = nd ? S0.size() / (2 * nd) : 0;
  sized(S0, 2 * nd * columns, "S0");
  if (columns < size_t(links.count)) throw nb::value_error("S0 needs a column for every parameter");
  return columns;
}

// S (N + 1, 2 nd, columns), SL (N, nc, columns) along a motion, from S0
nb::tuple sensitivities(Core& core, const Options& o, const ParameterLinks& links, const Array& X, const Array& U,
                        const Array& dt, const OptArray& Lam, const Array& S0, bool lambda) {
  Sizes z(core.model());
  const int steps = int(dt.size());
  const size_t columns = columns_of(S0, z.nd, links), size = 2 * z.nd * columns;
  sized(X, size_t(steps + 1) * z.nx, "X");
  sized(U, size_t(steps) * z.nU, "U");
  const double* lam0 = sized(Lam, size_t(steps) * z.nc, "lam");
  double *S, *L = nullptr;
  nb::object as = make_array({size_t(steps + 1), 2 * z.nd, columns}, &S),
             al = make_array({lambda ? size_t(steps) : 0, z.nc, columns}, &L);
  int bad, code = 0;
  Pulse pulse;
  {
    nb::gil_scoped_release nogil;
    bad = along_motion(core, o, links, X.data(), U.data(), dt.data(), steps, lam0, int(columns), S0.data(),
                       lambda ? L : nullptr, code, pulse, [&](int i) { return S + i * size; },
                       [](int, const double*) {});
  }
  pulse.raise();
  return nb::make_tuple(as, al, bad, code);
}

// H (columns, columns) = sum of J'J, g (columns) = sum of J'e over a motion, where row y of J is row[y] of S times
// weight (N + 1, rows), and e (N + 1, rows); with S at the end, (2 nd, columns). Without keeping S on the way.
nb::tuple information(Core& core, const Options& o, const ParameterLinks& links, const Array& X, const Array& U,
                      const Array& dt, const Array& S0, const Integers& row, const Array& weight, const Array& e) {
  Sizes z(core.model());
  const int steps = int(dt.size()), rows = int(row.size());
  const size_t columns = columns_of(S0, z.nd, links);
  sized(X, size_t(steps + 1) * z.nx, "X");
  sized(U, size_t(steps) * z.nU, "U");
  sized(weight, size_t(steps + 1) * rows, "weight");
  sized(e, size_t(steps + 1) * rows, "e");
  for (int y = 0; y < rows; ++y)
    if (row.data()[y] < 0 || size_t(row.data()[y]) >= 2 * z.nd) throw nb::value_error("no such row of S");
  double *H, *g, *S;
  nb::object aH = make_array({columns, columns}, &H), ag = make_array({columns}, &g),
             as = make_array({2 * z.nd, columns}, &S);
  int bad, code = 0;
  Pulse pulse;
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    const int block = rows ? std::max(1, 256 / rows) : 1;  // states: products of some depth are fast
    std::vector<double> J(size_t(block) * rows * columns), b(size_t(block) * rows),
        room(k.products_room(block * rows, int(columns)) + 8);
    int filled = 0;
    auto flush = [&] {
      if (filled) k.add_products(filled, int(columns), J.data(), b.data(), H, g, room.data());
      filled = 0;
    };
    auto use = [&](int i, const double* at) {
      for (int y = 0; y < rows; ++y) {
        const double w = weight.data()[size_t(i) * rows + y], *from = at + size_t(row.data()[y]) * columns;
        if (w == 0) continue;
        double* to = J.data() + size_t(filled) * columns;
        for (size_t c = 0; c < columns; ++c) to[c] = w * from[c];
        b[filled++] = e.data()[size_t(i) * rows + y];
      }
      if (filled > (block - 1) * rows) flush();
    };
    bad = along_motion(core, o, links, X.data(), U.data(), dt.data(), steps, nullptr, int(columns), S0.data(), nullptr,
                       code, pulse, [&](int) { return S; }, use);
    flush();
    for (size_t i = 0; i < columns; ++i)
      for (size_t c = 0; c < i; ++c) H[c * columns + i] = H[i * columns + c];
  }
  pulse.raise();
  return nb::make_tuple(aH, ag, as, bad, code);
}

// One backward pass: Z (N + 1, ndx), what is wanted of every state, and ZL (N, nc) of every multiplier, to the gradient
// by the first state (ndx), by the inputs (N, nW) and by the parameters
nb::tuple rollout_adjoint(Core& core, const Options& o, const ParameterLinks& links, const Array& X, const Array& U,
                          const Array& dt, const OptArray& Lam, const Array& Z, const OptArray& ZL) {
  Sizes z(core.model());
  const int steps = int(dt.size());
  const size_t nd = z.nd, nv = z.nv;
  sized(X, size_t(steps + 1) * z.nx, "X");
  sized(U, size_t(steps) * z.nU, "U");
  sized(Z, size_t(steps + 1) * z.ndx, "Z");
  const double *lam0 = sized(Lam, size_t(steps) * z.nc, "lam"), *zl = sized(ZL, size_t(steps) * z.nc, "Z of lambda");
  double *gx, *gu, *by;
  nb::object ax = make_array({z.ndx}, &gx), au = make_array({size_t(steps), z.nW}, &gu),
             ab = make_array({size_t(links.count)}, &by);
  int bad = -1, code = 0;
  Pulse pulse;
  {
    nb::gil_scoped_release nogil;
    const KernelTable& k = core.table();
    Lease s(core);
    std::memcpy(gx, Z.data() + size_t(steps) * z.ndx, z.ndx * sizeof(double));
    {
      std::vector<double> y(z.nq + 1), lam(z.nc + 1), pnext(nd + 1), grad(z.nw + 1);
      int its;
      double err;
      for (int i = steps - 1; i >= 0 && !(i % 64 == 0 && pulse()); --i) {
        const double *x = X.data() + i * z.nx, *u = U.data() + i * z.nU;
        std::memcpy(y.data(), x + z.nx, (z.nq - z.nqk) * sizeof(double));
        std::memcpy(y.data() + z.nq - z.nqk, u + z.nu, z.nqk * sizeof(double));
        if (lam0) std::memcpy(lam.data(), lam0 + i * z.nc, z.nc * sizeof(double));
        else if (z.nc)
          code = k.step(s, o, dt.data()[i], x, x + z.nq, u, y.data(), lam.data(), pnext.data(), &its, &err);
        if (!code)
          code = k.adjoint_parameters(s, o, dt.data()[i], x, x + z.nq, u, y.data(), lam.data(), gx, gx + nv,
                                      zl ? zl + size_t(i) * z.nc : nullptr, links, grad.data(), by);
        if (code) {
          bad = i;
          break;
        }
        // v_rho' = (rho' - rho)/dt
        double* du = gu + size_t(i) * z.nW;
        for (size_t r = 0; r < z.nu; ++r) du[r] = grad[nv + nd + r];
        for (size_t r = 0; r < z.nk; ++r) {
          const double rate = gx[nv + nd + r] / dt.data()[i];
          du[z.nu + r] = grad[nv + nd + z.nu + r] + gx[nd + r] + rate;
          grad[nd + r] -= rate;
          gx[nv + nd + r] = 0;
        }
        const double* here = Z.data() + size_t(i) * z.ndx;
        for (size_t r = 0; r < nv + nd; ++r) gx[r] = grad[r] + here[r];
        for (size_t r = nv + nd; r < z.ndx; ++r) gx[r] = here[r];
      }
    }
  }
  pulse.raise();
  return nb::make_tuple(ax, au, ab, bad, code);
}

}  // namespace

void bind_parameters(nb::module_& m, nb::class_<Core>& c) {
  nb::class_<ParameterLinks>(m, "ParameterLinks").def_prop_ro("count", [](const ParameterLinks& l) { return l.count; });
  c.def("with_numbers", &with_numbers, nb::arg("place"), nb::arg("value"),
        "A core with other numbers at these places (n, 3), and everything else as here.")
      .def("links", &make_links, nb::arg("count"), nb::arg("place"), nb::arg("parameter"), nb::arg("factor"))
      .def("parameters_known", [](Core& c) { return c.table().parameters_known(c.model()); })
      .def("sensitivities", &sensitivities, nb::arg("options"), nb::arg("links"), nb::arg("X"), nb::arg("U"),
           nb::arg("dt"), nb::arg("lam").none(), nb::arg("S0"), nb::arg("with_lambda"))
      .def("information", &information, nb::arg("options"), nb::arg("links"), nb::arg("X"), nb::arg("U"), nb::arg("dt"),
           nb::arg("S0"), nb::arg("row"), nb::arg("weight"), nb::arg("e"))
      .def("rollout_adjoint", &rollout_adjoint, nb::arg("options"), nb::arg("links"), nb::arg("X"), nb::arg("U"),
           nb::arg("dt"), nb::arg("lam").none(), nb::arg("Z"), nb::arg("ZL").none())
      .def("lagrangian_parameters",
           [](Core& c, const Array& q, const Array& v, const ParameterLinks& links, const OptArray& dq,
              const OptArray& dv) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    double* by;
    nb::object out = make_array({size_t(links.count)}, &by);
    Lease s(c);
    if (!c.table().lagrangian_parameters(s, q.data(), v.data(), sized(dq, z.nv, "dq"), sized(dv, z.nv, "dv"), links,
                                         by))
      throw std::bad_alloc();
    return out;
  },
           nb::arg("q"), nb::arg("v"), nb::arg("links"), nb::arg("dq") = nb::none(), nb::arg("dv") = nb::none())
      .def("configuration_parameters",
           [](Core& c, const Array& q, const std::vector<int>& frames, const ParameterLinks& links) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    for (int f : frames)
      if (f < 0 || f >= c.model().nf) throw nb::value_error("no such frame");
    double *h, *p;
    nb::object ah = make_array({z.nc, size_t(links.count)}, &h),
               ap = make_array({3 * frames.size(), size_t(links.count)}, &p);
    Lease s(c);
    if (!c.table().configuration_parameters(s, q.data(), int(frames.size()), frames.data(), links, h, p))
      throw std::bad_alloc();
    return nb::make_tuple(ah, ap);
  }).def("force_parameters", [](Core& c, const Array& q, const Array& v, const Array& u, const ParameterLinks& links) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    sized(u, z.nu, "u");
    double* by;
    nb::object out = make_array({z.nd, size_t(links.count)}, &by);
    Lease s(c);
    if (!c.table().force_parameters(s, q.data(), v.data(), u.data(), links, by)) throw std::bad_alloc();
    return out;
  });
}

}  // namespace dalembert
