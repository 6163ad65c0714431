// Mechanics at a point: converts and checks; computes nothing.
#include "core.hpp"

namespace dalembert {

void bind_mechanics(nb::class_<Core>& c) {
  c.def_prop_ro("loops",
                [](const Core& c) {
    const LoopPlan& plan = c.model().loops;
    return std::string(!plan.used ? "dense" : plan.condensed.unknown.empty() ? "fronts" : "whole");
  },
                "How steps solve for constraints: 'fronts' (tree and constraints in one O(n) elimination), 'whole' "
                "(one sparse matrix), 'dense'.");
  c.def("frames",
        [](Core& c, const Array& q) {
    size_t nq = c.model().nq, n = nq ? q.size() / nq : 1, nf = c.model().nf;
    sized(q, n * nq, "q");
    double* out;
    nb::object a = make_array({n, nf, 4, 4}, &out);
    Lease s(c);
    nb::gil_scoped_release nogil;
    for (size_t i = 0; i < n; ++i) c.table().frames(s, q.data() + i * nq, out + i * nf * 16);
    return a;
  })
      .def("energy",
           [](Core& c, const Array& q, const Array& v) {
    size_t nv = c.model().nv, nq = c.model().nq, n = nq ? q.size() / nq : 1;
    sized(q, n * nq, "q");
    sized(v, n * nv, "v");
    double *t, *u;
    nb::object a = make_array({n}, &t), b = make_array({n}, &u);
    Lease s(c);
    {
      nb::gil_scoped_release nogil;
      for (size_t i = 0; i < n; ++i) c.table().energy(s, q.data() + i * nq, v.data() + i * nv, t + i, u + i);
    }
    return nb::make_tuple(a, b);
  })
      .def("momentum",
           [](Core& c, const Array& q, const Array& v) {
    size_t nv = c.model().nv, nq = c.model().nq, n = nq ? q.size() / nq : 1;
    sized(q, n * nq, "q");
    sized(v, n * nv, "v");
    double* h;
    nb::object a = make_array({n, 6}, &h);
    Lease s(c);
    nb::gil_scoped_release nogil;
    for (size_t i = 0; i < n; ++i) c.table().momentum(s, q.data() + i * nq, v.data() + i * nv, h + 6 * i);
    return a;
  })
      .def("first",
           [](Core& c, const Array& q, const Array& v) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    sized(v, nv, "v");
    double *a, *b;
    nb::object x = make_array({nv}, &a), y = make_array({nv}, &b);
    Lease s(c);
    c.table().first(s, q.data(), v.data(), a, b);
    return nb::make_tuple(x, y);
  })
      .def("second",
           [](Core& c, const Array& q, const Array& v) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    sized(v, nv, "v");
    double *a, *b, *d;
    nb::object x = make_array({nv, nv}, &a), y = make_array({nv, nv}, &b), w = make_array({nv, nv}, &d);
    Lease s(c);
    c.table().second(s, q.data(), v.data(), a, b, d);
    return nb::make_tuple(x, y, w);
  })
      .def("third",
           [](Core& c, const Array& q, const Array& v, const Array& dq, const Array& dv) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    sized(v, nv, "v");
    sized(dq, nv, "dq");
    sized(dv, nv, "dv");
    double *a, *b, *d;
    nb::object x = make_array({nv, nv}, &a), y = make_array({nv, nv}, &b), w = make_array({nv, nv}, &d);
    Lease s(c);
    c.table().third(s, q.data(), v.data(), dq.data(), dv.data(), a, b, d);
    return nb::make_tuple(x, y, w);
  })
      .def("potential",
           [](Core& c, const Array& q, bool hessian) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    double value = 0, *g, *h = nullptr;
    nb::object x = make_array({nv}, &g), y = nb::none();
    if (hessian) y = make_array({nv, nv}, &h);
    Lease s(c);
    c.table().potential(s, q.data(), &value, g, h);
    return nb::make_tuple(value, x, y);
  })
      .def("constraints",
           [](Core& c, const Array& q) {
    size_t nv = c.model().nv, nq = c.model().nq, nc = c.model().nc, n = nq ? q.size() / nq : 1;
    sized(q, n * nq, "q");
    double *h, *C;
    nb::object x = make_array({n, nc}, &h), y = make_array({n, nc, nv}, &C);
    Lease s(c);
    {
      nb::gil_scoped_release nogil;
      for (size_t i = 0; i < n; ++i) c.table().constraints(s, q.data() + i * nq, h + i * nc, C + i * nc * nv);
    }
    return nb::make_tuple(x, y);
  })
      .def("constraint_second",
           [](Core& c, const Array& q, const Array& weight) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    sized(weight, c.model().nc, "weight");
    double* D;
    nb::object x = make_array({nv, nv}, &D);
    Lease s(c);
    c.table().constraint_second(s, q.data(), weight.data(), D);
    return x;
  })
      .def("constraint_third",
           [](Core& c, const Array& q, const Array& weight, const Array& dir) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    sized(weight, c.model().nc, "weight");
    sized(dir, nv, "direction");
    double* D;
    nb::object x = make_array({nv, nv}, &D);
    Lease s(c);
    c.table().constraint_third(s, q.data(), weight.data(), dir.data(), D);
    return x;
  })
      .def("force",
           [](Core& c, const Array& q, const Array& v, const Array& u) {
    size_t nv = c.model().nv, nq = c.model().nq;
    sized(q, nq, "q");
    sized(v, nv, "v");
    sized(u, c.model().nu, "u");
    double* F;
    nb::object x = make_array({size_t(c.model().nd)}, &F);
    Lease s(c);
    c.table().force(s, q.data(), v.data(), u.data(), F);
    return x;
  })
      .def("force_first",
           [](Core& c, const Array& q, const Array& v, const Array& u) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    sized(u, z.nu, "u");
    double *a, *b, *d;
    nb::object x = make_array({z.nd, z.nv}, &a), y = make_array({z.nd, z.nv}, &b), w = make_array({z.nd, z.nu}, &d);
    Lease s(c);
    c.table().force_first(s, q.data(), v.data(), u.data(), a, b, d);
    return nb::make_tuple(x, y, w);
  })
      .def("force_second",
           [](Core& c, const Array& q, const Array& v, const Array& u, const Array& m) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    sized(u, z.nu, "u");
    sized(m, z.nd, "weight");
    double* p[6];
    nb::object o0 = make_array({z.nv, z.nv}, &p[0]), o1 = make_array({z.nv, z.nv}, &p[1]),
               o2 = make_array({z.nv, z.nv}, &p[2]);
    nb::object o3 = make_array({z.nv, z.nu}, &p[3]), o4 = make_array({z.nv, z.nu}, &p[4]),
               o5 = make_array({z.nu, z.nu}, &p[5]);
    Lease s(c);
    c.table().force_second(s, q.data(), v.data(), u.data(), m.data(), p[0], p[1], p[2], p[3], p[4], p[5]);
    return nb::make_tuple(o0, o1, o2, o3, o4, o5);
  })
      .def("twists",
           [](Core& c, const Array& q) {
    sized(q, c.model().nq, "q");
    double* S;
    nb::object x = make_array({size_t(c.model().nj), 6}, &S);
    Lease s(c);
    c.table().twists(s, q.data(), S);
    return x;
  })
      .def("acceleration",
           [](Core& c, const Array& q, const Array& v, const Array& u, const Array& kin) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    sized(u, z.nu, "u");
    sized(kin, z.nk, "kinematic accelerations");
    double *a, *l;
    nb::object x = make_array({z.nv}, &a), y = make_array({z.nc}, &l);
    std::memcpy(a + z.nd, kin.data(), z.nk * sizeof(double));
    Lease s(c);
    bool ok = c.table().acceleration(s, q.data(), v.data(), u.data(), a, l);
    return nb::make_tuple(x, y, ok);
  })
      .def("acceleration_first",
           [](Core& c, const Array& q, const Array& v, const Array& u, const Array& kin) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    sized(u, z.nu, "u");
    sized(kin, z.nk, "kinematic accelerations");
    size_t ncol = 2 * z.nv + z.nu + z.nk;
    double *a, *l, *da, *dl;
    nb::object x = make_array({z.nv}, &a), y = make_array({z.nc}, &l), dx = make_array({z.nd, ncol}, &da),
               dy = make_array({z.nc, ncol}, &dl);
    std::memcpy(a + z.nd, kin.data(), z.nk * sizeof(double));
    Lease s(c);
    bool ok = c.table().acceleration_first(s, q.data(), v.data(), u.data(), a, l, da, dl);
    return nb::make_tuple(x, y, dx, dy, ok);
  })
      .def("acceleration_second", [](Core& c, const Array& q, const Array& v, const Array& u, const Array& kin) {
    Sizes z(c.model());
    sized(q, z.nq, "q");
    sized(v, z.nv, "v");
    sized(u, z.nu, "u");
    sized(kin, z.nk, "kinematic accelerations");
    size_t ncol = 2 * z.nv + z.nu + z.nk;
    double *da, *dl;
    nb::object dx = make_array({ncol, z.nd, ncol}, &da), dy = make_array({ncol, z.nc, ncol}, &dl);
    bool ok = c.table().acceleration_second(c.model(), q.data(), v.data(), u.data(), kin.data(), da, dl);
    return nb::make_tuple(dx, dy, ok);
  }).def("velocity", [](Core& c, const Array& q, const Array& p, const Array& vk) {  // (n, nq), (n, nd), (n, nk) -> (n,
                                                                                     // nv)
    Sizes z(c.model());
    size_t n = z.nq ? q.size() / z.nq : 1;
    sized(q, n * z.nq, "q");
    sized(p, n * z.nd, "p");
    sized(vk, n * z.nk, "kinematic velocities");
    double* v;
    nb::object x = make_array({n, z.nv}, &v);
    bool ok = true;
    Lease s(c);
    {
      nb::gil_scoped_release nogil;
      for (size_t i = 0; i < n; ++i) {
        std::memcpy(v + i * z.nv + z.nd, vk.data() + i * z.nk, z.nk * sizeof(double));
        ok = c.table().velocity(s, q.data() + i * z.nq, p.data() + i * z.nd, v + i * z.nv) && ok;
      }
    }
    return nb::make_tuple(x, ok);
  });
}

}  // namespace dalembert
