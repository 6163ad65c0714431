// Single calls from Python: objects of its classes read and made without a look at their dictionary, and the step of a
// state vector with its derivatives. Every call allocates what it returns and no more.
#pragma once
#include <cmath>
#include "core.hpp"

namespace dalembert {

// The fields of a Python class with __slots__, in a given order.
class Slots {
 public:
  Slots(const nb::object& type, std::initializer_list<const char*> names) : type_(type) {
    if (!PyType_Check(type.ptr())) throw nb::type_error("a class is needed");
    alloc_ = reinterpret_cast<allocfunc>(PyType_GetSlot(as_type(), Py_tp_alloc));
    for (const char* name : names) {
      const nb::object d = type.attr(name);
      PyTypeObject* const kind = Py_TYPE(d.ptr());
      const Slot s{d, reinterpret_cast<descrgetfunc>(PyType_GetSlot(kind, Py_tp_descr_get)),
                   reinterpret_cast<descrsetfunc>(PyType_GetSlot(kind, Py_tp_descr_set))};
      if (!s.get || !s.set) throw nb::type_error("a class with __slots__ is needed");
      slots_.push_back(s);
    }
  }
  bool made(nb::handle o) const { return Py_TYPE(o.ptr()) == as_type(); }
  nb::object get(nb::handle o, size_t i) const {
    nb::object out = nb::steal(slots_[i].get(slots_[i].descriptor.ptr(), o.ptr(), type_.ptr()));
    if (!out.is_valid()) throw nb::python_error();
    return out;
  }
  // an object with these fields, whatever its class says about setting them
  nb::object make(std::initializer_list<nb::handle> values) const {
    nb::object out = nb::steal(alloc_(as_type(), 0));
    if (!out.is_valid()) throw nb::python_error();
    size_t i = 0;
    for (nb::handle v : values) {
      if (slots_[i].set(slots_[i].descriptor.ptr(), out.ptr(), v.ptr())) throw nb::python_error();
      ++i;
    }
    return out;
  }

 private:
  struct Slot {
    nb::object descriptor;
    descrgetfunc get;
    descrsetfunc set;
  };
  PyTypeObject* as_type() const { return reinterpret_cast<PyTypeObject*>(type_.ptr()); }
  nb::object type_;
  allocfunc alloc_;
  std::vector<Slot> slots_;
};

// The steps of one integrator, called one at a time. Prescribed variables of state vectors must be without balls.
class OneCall {
 public:
  OneCall(nb::object core, const Options& o)
      : owner_(std::move(core)), core_(nb::cast<Core&>(owner_)), o_(o), z_(core_.model()) {}
  Core& core() const { return core_; }
  const Sizes& sizes() const { return z_; }

  // (q', p', lambda) from (q, p) under the inputs u and, where A is given, A and B (zeros); y holds the guess and l the
  // multipliers to start from. The status
  int step(Scratch* s, double h, const double* q, const double* p, const double* u, double* y, double* l, double* pn,
           double* A = nullptr, double* B = nullptr) const {
    const KernelTable& k = core_.table();
    if (A && o_.parts->count > 1) {  // each part is differentiated where it is solved
      const int status = k.linearize(s, o_, h, q, p, u, y, l, Given::guess, A, B);
      if (!status) std::memcpy(pn, k.next_momentum(s), z_.nd * sizeof(double));
      return status;
    }
    int iterations = 0;
    double error = 0;
    const int status = k.step(s, o_, h, q, p, u, y, l, pn, &iterations, &error);
    return status || !A ? status : k.linearize(s, o_, h, q, p, u, y, l, Given::just_solved, A, B);
  }

  // x' = f(x, u) of state vectors and, where A is given, A and B (zeros). `guess` (nx) or null; l (nc + 1) is room.
  int advance(Scratch* s, double h, const double* x, const double* u, const double* guess, double* l, double* next,
              double* A, double* B) const {
    const size_t nqd = z_.nq - z_.nqk;
    std::memcpy(next, guess ? guess : x, nqd * sizeof(double));
    std::memcpy(next + nqd, u + z_.nu, z_.nqk * sizeof(double));
    std::memset(l, 0, z_.nc * sizeof(double));
    const int status = step(s, h, x, x + z_.nq, u, next, l, next + z_.nq, A, B);
    for (size_t i = 0; i < z_.nk; ++i) next[z_.nq + z_.nd + i] = (u[z_.nu + i] - x[nqd + i]) / h;
    return status;
  }

  // change of x' (ndx) with that of the state, dx (ndx), and of the inputs, du (nU), of a model without prescribed
  // balls
  int push(Scratch* s, double h, const double* x, const double* u, const double* dx, const double* du,
           double* out) const {
    const size_t n = z_.nv + z_.nd, nqd = z_.nq - z_.nqk;
    std::vector<double> room(z_.nq + z_.nc + z_.nw + 2 * z_.nd + z_.nc + 4);
    double *y = room.data(), *l = y + z_.nq + 1, *dw = l + z_.nc + 1, *end = dw + z_.nw + 1;
    std::memcpy(y, x, nqd * sizeof(double));
    std::memcpy(y + nqd, u + z_.nu, z_.nqk * sizeof(double));
    std::memcpy(dw, dx, n * sizeof(double));
    std::memcpy(dw + n, du, z_.nW * sizeof(double));
    const int status = core_.table().push(s, o_, h, x, x + z_.nq, u, y, l, Given::guess, dw, end);
    std::memcpy(out, end, z_.nd * sizeof(double));
    std::memcpy(out + z_.nv, end + z_.nd, z_.nd * sizeof(double));
    for (size_t i = 0; i < z_.nk; ++i) {  // v_rho' = (rho' - rho) / h
      out[z_.nd + i] = du[z_.nu + i];
      out[n + i] = (du[z_.nu + i] - dx[z_.nd + i]) / h;
    }
    return status;
  }
  // its transpose: A^T z (ndx) and B^T z (nU) for a costate z (ndx)
  int pull(Scratch* s, double h, const double* x, const double* u, const double* z, double* by_x, double* by_u) const {
    const size_t n = z_.nv + z_.nd, nqd = z_.nq - z_.nqk;
    std::vector<double> room(z_.nq + 2 * z_.nc + z_.nw + 4);
    double *y = room.data(), *l = y + z_.nq + 1, *none = l + z_.nc + 1, *grad = none + z_.nc + 1;
    std::memcpy(y, x, nqd * sizeof(double));
    std::memcpy(y + nqd, u + z_.nu, z_.nqk * sizeof(double));
    const int status = core_.table().adjoint(s, o_, h, x, x + z_.nq, u, y, l, Given::guess, z, z + z_.nv, none, grad);
    std::memcpy(by_x, grad, n * sizeof(double));
    std::memcpy(by_u, grad + n, z_.nW * sizeof(double));
    for (size_t i = 0; i < z_.nk; ++i) {
      const double rate = z[n + i] / h;
      by_x[n + i] = 0;
      by_x[z_.nd + i] -= rate;
      by_u[z_.nu + i] += z[z_.nd + i] + rate;
    }
    return status;
  }

 private:
  nb::object owner_;
  Core& core_;
  const Options o_;
  const Sizes z_;
};

// Steps of an integrator as Python calls them: States and state vectors come in and go out as they are. What is not
// plain (another class, a shape, a number that is not finite, a step that fails) gives None: Python finds out and says
// it.
class Stepper {
 public:
  Stepper(nb::object core, const Options& o, const nb::object& state, nb::object model, nb::object at_rest,
          nb::object no_lam)
      : call_(std::move(core), o),
        states_(state, {"t", "q", "p", "lam", "v_rho", "model"}),
        model_(std::move(model)),
        at_rest_(std::move(at_rest)),
        no_lam_(std::move(no_lam)) {}

  const OneCall& call() const { return call_; }

  // the State after a step of length h with the inputs u (None: zeros), prescribed variables as they are
  nb::object step(nb::handle state, nb::handle u, double h) {
    Start a;
    if (!read(state, u, a)) return nb::none();
    const Sizes& z = call_.sizes();
    double *y, *p, *l = none_.data();
    nb::object q = make_array({z.nq}, &y), pn = make_array({z.nd}, &p), lam = z.nc ? make_array({z.nc}, &l) : no_lam_;
    std::memcpy(y, a.q, z.nq * sizeof(double));
    const double* l0 = plain(a.lam.ptr(), z.nc, true);
    if (!l0) return nb::none();
    std::memcpy(l, l0, z.nc * sizeof(double));
    Lease lease(call_.core());
    if (call_.step(lease, h, a.q, a.p, a.u, y, l, p)) return nb::none();
    return states_.make({nb::float_(a.t + h), q, pn, lam, at_rest_, model_});
  }

  // the State of these numbers; `rate` (nk) of the prescribed variables, null where they rest
  nb::object state(double t, const double* q, const double* p, const double* lam, const double* rate) const {
    const Sizes& z = call_.sizes();
    auto array = [](const double* x, size_t n) {
      double* to;
      nb::object out = make_array({n}, &to);
      std::memcpy(to, x, n * sizeof(double));
      return out;
    };
    return states_.make({nb::float_(t), array(q, z.nq), array(p, z.nd), z.nc ? array(lam, z.nc) : no_lam_,
                         rate ? array(rate, z.nk) : at_rest_, model_});
  }

  // (A, B) of that step; of a state vector with the whole u (nu, nk)
  nb::object linearize(nb::handle state, nb::handle u, double h) {
    if (!states_.made(state)) {
      const nb::object found = u.is_none() ? nb::none() : advance(state, u, h, nb::none(), true);
      return found.is_none() ? found : nb::object(nb::make_tuple(found[1], found[2]));
    }
    Start a;
    if (!read(state, u, a)) return nb::none();
    const Sizes& z = call_.sizes();
    double *A, *B;
    nb::object aa = make_array({z.ndx, z.ndx}, &A), ab = make_array({z.ndx, z.nW}, &B);
    std::vector<double> room(z.nq + z.nd + z.nc + 2);
    double *y = room.data(), *p = y + z.nq + 1, *l = p + z.nd;
    std::memcpy(y, a.q, z.nq * sizeof(double));
    Lease lease(call_.core());
    if (call_.step(lease, h, a.q, a.p, a.u, y, l, p, A, B)) return nb::none();
    return nb::make_tuple(aa, ab);
  }

  // x' (nx) of a state vector under u (nu, nk); with `derive` (x', A, B)
  nb::object advance(nb::handle x, nb::handle u, double h, nb::handle guess, bool derive) {
    const Sizes& z = call_.sizes();
    const double *x0 = plain(x.ptr(), z.nx, true), *w = plain(u.ptr(), z.nU, true),
                 *y = guess.is_none() ? nullptr : plain(guess.ptr(), z.nx, true);
    if (!x0 || !w || (!y && !guess.is_none())) return nb::none();
    double *next, *A = nullptr, *B = nullptr;
    nb::object out = make_array({z.nx}, &next), aa, ab;
    if (derive) aa = make_array({z.ndx, z.ndx}, &A), ab = make_array({z.ndx, z.nW}, &B);
    std::vector<double> l(z.nc + 1);
    Lease lease(call_.core());
    if (call_.advance(lease, h, x0, w, y, l.data(), next, A, B)) return nb::none();
    return derive ? nb::object(nb::make_tuple(out, aa, ab)) : out;
  }

  // A dx + B du (ndx) at a state vector under u (nu, nk), without A and B
  nb::object push(nb::handle x, nb::handle u, double h, nb::handle dx, nb::handle du) {
    const Sizes& z = call_.sizes();
    const double *x0 = plain(x.ptr(), z.nx, true), *w = plain(u.ptr(), z.nU, true), *d = plain(dx.ptr(), z.ndx, true),
                 *e = plain(du.ptr(), z.nW, true);
    if (!x0 || !w || !d || !e) return nb::none();
    double* to;
    nb::object out = make_array({z.ndx}, &to);
    Lease lease(call_.core());
    return call_.push(lease, h, x0, w, d, e, to) ? nb::none() : out;
  }

  // (A^T z (ndx), B^T z (nu, nk)) there
  nb::object pull(nb::handle x, nb::handle u, double h, nb::handle costate) {
    const Sizes& z = call_.sizes();
    const double *x0 = plain(x.ptr(), z.nx, true), *w = plain(u.ptr(), z.nU, true),
                 *c = plain(costate.ptr(), z.ndx, true);
    if (!x0 || !w || !c) return nb::none();
    double *by_x, *by_u;
    nb::object a = make_array({z.ndx}, &by_x), b = make_array({z.nW}, &by_u);
    Lease lease(call_.core());
    if (call_.pull(lease, h, x0, w, c, by_x, by_u)) return nb::none();
    return nb::make_tuple(a, b);
  }

 private:
  struct Start {
    nb::object q_, p_, lam;  // keep what is read alive
    std::vector<double> unit;
    double t = 0;
    const double *q = nullptr, *p = nullptr, *u = nullptr;
  };
  bool read(nb::handle state, nb::handle u, Start& a) {
    if (!states_.made(state)) return false;
    const Sizes& z = call_.sizes();
    const nb::object t = states_.get(state, 0);
    if (!PyFloat_Check(t.ptr())) return false;
    a.t = PyFloat_AsDouble(t.ptr());
    a.q_ = states_.get(state, 1);
    a.p_ = states_.get(state, 2);
    a.lam = states_.get(state, 3);
    a.q = plain(a.q_.ptr(), z.nq, true);
    a.p = plain(a.p_.ptr(), z.nd, true);
    a.u = u.is_none() ? none_.data() : plain(u.ptr(), z.nu, true);
    return std::isfinite(a.t) && a.q && a.p && a.u && unit(a);
  }
  // quaternions must be unit ones, and are made so to the last digit
  bool unit(Start& a) const {
    const ModelData& M = call_.core().model();
    for (const Ball& b : M.balls) {
      double n = 0;
      for (int i = 0; i < 4; ++i) n += a.q[b.q + i] * a.q[b.q + i];
      n = std::sqrt(n);
      if (!(std::fabs(n - 1) <= 1e-6)) return false;
      if (std::fabs(n - 1) <= 1e-15) continue;
      if (a.unit.empty()) a.unit.assign(a.q, a.q + M.nq);
      for (int i = 0; i < 4; ++i) a.unit[b.q + i] /= n;
    }
    if (!a.unit.empty()) a.q = a.unit.data();
    return true;
  }

  OneCall call_;
  Slots states_;
  nb::object model_, at_rest_, no_lam_;
  std::vector<double> none_ = std::vector<double>(call_.sizes().nu + 1);  // no inputs
};

}  // namespace dalembert
