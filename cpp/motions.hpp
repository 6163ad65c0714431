// Batches of motions and their derivatives in coordinates, for frameworks that know no manifolds (PyTorch, JAX,
// CasADi). Nothing here touches Python: it runs in threads of others as well.
//
// The map of coordinates is F(x, u) = f(x with its quaternions made unit, u), in R^nx. With E = d retract(x, d)/dd (nx,
// ndx) and its left inverse E+, its first derivatives are E(F) A E+(x) and E(F) B. For the quaternion q of a ball,
// E = q (0, e_i) / 2 and E+ = 4 E' / |q|; for a number both are 1.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include "core.hpp"

namespace dalembert {

// the step that failed first, in the motion with the lowest number among those that failed
struct Trouble {
  int motion = -1, step = 0, status = 0;
  double error = 0;
};

// Motions of the steps dt (steps) of one model. Arrays hold n motions one after the other:
// X, dX, G, Z (steps + 1, nx), U, dU, gU (steps, nU). X is a motion of U, as roll gives it.
class Motions {
 public:
  Motions(Core& core, const Options& options, const double* dt, int steps)
      : core_(core), o_(options), dt_(dt, dt + steps), z(core.model()) {}

  int steps() const { return int(dt_.size()); }
  const Sizes& sizes() const { return z; }

  // ---- motions from x0 (n, nx) under U, of `count` steps from the step `first`
  Trouble roll(int n, int first, int count, const double* x0, const double* U, double* X, int threads) const {
    const int width = side_by_side(n), groups = (n + width - 1) / width;
    Found found;
    over(groups, threads, [&](auto turn) {
      Lease s(core_, width > 1);
      Group group(*this, width, count);
      for (int g; (g = turn()) < groups;) {
        const int in_group = std::min(width, n - g * width);
        for (int l = 0; l < in_group; ++l) {
          const size_t c = size_t(g) * width + l;
          group.load(l, first, x0 + c * z.nx, U + c * count * z.nU);
        }
        group.run(s, in_group);
        for (int l = 0; l < in_group; ++l) {
          const size_t c = size_t(g) * width + l;
          const RolloutStatus& end = group.status[l];
          if (end.status) found.add(int(c), end.steps, end.status, end.error);
          double* out = X + c * size_t(count + 1) * z.nx;
          std::copy_n(x0 + c * z.nx, z.nx, out);
          for (int k = 1; k <= count; ++k) group.store(l, first, k, out + (k - 1) * z.nx, out + k * z.nx);
        }
      }
    });
    return found.first;
  }

  // ---- one step of those of the states x (nx) whose numbers are in `which`, in place, under the inputs u (nU) that go
  // with them. A state whose step has no solution stays, and failed[its number] is set.
  void advance(const std::vector<size_t>& which, double* x, const double* u, char* failed, int threads) const {
    const KernelTable& k = core_.table();
    const ModelData& M = core_.model();
    const size_t n = which.size(), width = side_by_side(n), rho = z.nq - z.nqk;
    const int groups = int((n + width - 1) / width);
    over(groups, threads, [&](auto turn) {
      Lease s(core_, width > 1);
      std::vector<double> before(width * z.nqk + 1);  // prescribed coordinates
      Rollout r[8];
      RolloutStatus status[8];
      const volatile bool stop = false;
      for (int g; (g = turn()) < groups;) {
        const size_t* of = &which[g * width];
        const size_t in_group = std::min(width, n - g * width);
        for (size_t l = 0; l < in_group; ++l) {
          double* q = x + of[l] * z.nx;
          const double* in = u + of[l] * z.nU;
          for (const Ball& b : M.balls) make_unit(q + b.q);
          for (size_t i = 0; i < z.nqk; ++i) before[l * z.nqk + i] = q[rho + i];
          r[l] = Rollout{1,       dt_.data(), z.nu ? in : nullptr, z.nqk ? in + z.nu : nullptr, q, q + z.nq,
                         nullptr, nullptr};
          r[l].every = 0;  // the end takes the place of the start
        }
        if (width > 1) k.rollout_lanes(s, o_, r, int(in_group), 0, 1, status, &stop);
        else status[0] = k.rollout(s, o_, r[0], 0, 1, false);
        for (size_t l = 0; l < in_group; ++l) {
          if (status[l].status) failed[of[l]] = 1;
          for (size_t i = 0; i < z.nqk && !status[l].status; ++i)
            r[l].P[z.nd + i] = (r[l].Q[rho + i] - before[l * z.nqk + i]) / dt_[0];
        }
      }
    });
  }

  // how many of n motions run in the lanes of a register: stages have a matrix of their own in every lane
  int side_by_side(size_t n) const { return n > 1 && o_.stages == 1 ? core_.table().width : 1; }

  // Motions side by side as the kernels take them, at most `width`, of `count` steps.
  class Group {
   public:
    Group(const Motions& m, int width, int count)
        : width(width),
          m_(m),
          z(m.z),
          count_(count),
          Q_(width * (count + 1) * z.nq + 1),
          P_(width * (count + 1) * z.nd + 1),
          u_(z.nqk ? width * count * z.nu + 1 : 0),
          rho_(width * count * z.nqk) {}

    // the motion of lane l: from x under the inputs in (count, nU)
    void load(int l, int first, const double* x, const double* in) {
      double *q = &Q_[l * (count_ + 1) * z.nq], *p = &P_[l * (count_ + 1) * z.nd];
      std::copy_n(x, z.nq, q);
      std::copy_n(x + z.nq, z.nd, p);
      for (const Ball& b : m_.core_.model().balls) make_unit(q + b.q);
      const double *own = in, *path = nullptr;
      if (z.nqk) {  // inputs and prescribed values lie apart in the core
        double *to = &u_[l * count_ * z.nu], *way = &rho_[l * count_ * z.nqk];
        for (size_t k = 0; k < count_; ++k) {
          std::copy_n(in + k * z.nU, z.nu, to + k * z.nu);
          std::copy_n(in + k * z.nU + z.nu, z.nqk, way + k * z.nqk);
        }
        own = to;
        path = way;
      }
      r_[l] = Rollout{int(count_), m_.dt_.data() + first, z.nu ? own : nullptr, path, q, p, nullptr, nullptr};
    }
    // the first `lanes` of them
    void run(Scratch* s, int lanes) {
      const KernelTable& k = m_.core_.table();
      const volatile bool stop = false;
      if (width > 1) k.rollout_lanes(s, m_.o_, r_, lanes, 0, int(count_), status, &stop);
      else status[0] = k.rollout(s, m_.o_, r_[0], 0, int(count_), false);
    }
    // state k of lane l, where `before` is the one before it; they may be one
    void store(int l, int first, int k, const double* before, double* x) const {
      const double* q = r_[l].Q + k * z.nq;
      for (size_t i = 0; i < z.nqk; ++i)
        x[z.nq + z.nd + i] = (q[z.nq - z.nqk + i] - before[z.nq - z.nqk + i]) / m_.dt_[first + k - 1];
      std::copy_n(q, z.nq, x);
      std::copy_n(r_[l].P + k * z.nd, z.nd, x + z.nq);
    }

    const int width;
    RolloutStatus status[8];

   private:
    const Motions& m_;
    const Sizes& z;
    const size_t count_;
    std::vector<double> Q_, P_, u_, rho_;
    Rollout r_[8];
  };

  // ---- tangents dX of motions: dX_0 = S_0, dX_{k+1} = F_x dX_k + F_u dU_k + S_{k+1}
  Trouble push(int n, int first, int count, const double* X, const double* U, const double* S, const double* dU,
               double* dX, int threads) const {
    Found found;
    over(n, threads, [&](auto turn) {
      Step s(*this);
      std::vector<double> d(z.ndx + 1), e(z.ndx + 1);
      for (int c; (c = turn()) < n;) {
        const size_t begin = size_t(c) * (count + 1) * z.nx;
        std::copy_n(S + begin, (count + 1) * z.nx, dX + begin);
        for (int k = 0; k < count; ++k) {
          const size_t at = size_t(c) * count + k;
          const double *x = X + (at + c) * z.nx, *u = U + at * z.nU, *du = dU + at * z.nU;
          double* out = dX + (at + c) * z.nx;
          if (int bad = s.linearize(dt_[first + k], x, u)) {
            found.add(c, k, bad, 0);
            break;
          }
          s.down(x, out, d.data());
          s.forward(d.data(), du, e.data());
          s.add_up(x + z.nx, e.data(), out + z.nx);
        }
      }
    });
    return found.first;
  }

  // ---- costates Z of motions and gradients gU of a function with the gradients G (by every state); Z_0 is the
  // gradient by x0
  Trouble pull(int n, int first, int count, const double* X, const double* U, const double* G, double* Z, double* gU,
               int threads) const {
    Found found;
    over(n, threads, [&](auto turn) {
      Step s(*this);
      std::vector<double> c1(z.ndx + 1), c0(z.ndx + 1);
      for (int c; (c = turn()) < n;) {
        const size_t begin = size_t(c) * (count + 1) * z.nx;
        std::copy_n(G + begin, (count + 1) * z.nx, Z + begin);
        for (int k = count - 1; k >= 0; --k) {
          const size_t at = size_t(c) * count + k;
          const double* x = X + (at + c) * z.nx;
          double* zk = Z + (at + c) * z.nx;
          s.down_dual(x + z.nx, zk + z.nx, c1.data());
          if (int bad = s.adjoint(dt_[first + k], x, U + at * z.nU, c1.data(), c0.data(), gU + at * z.nU)) {
            found.add(c, k, bad, 0);
            break;
          }
          s.add_up_dual(x, c0.data(), zk);
        }
      }
    });
    return found.first;
  }

  // ---- second derivatives of Z_{k+1} . F of every step times (dX_k, dU_k): hX, the last row zero, and hU
  Trouble kick(int n, int first, int count, const double* X, const double* U, const double* Z, const double* dX,
               const double* dU, double* hX, double* hU, int threads) const {
    const ModelData& M = core_.model();
    Found found;
    over(n * count, threads, [&](auto turn) {
      Step s(*this);
      std::vector<double> c(z.ndx + 1), d(z.ndx + 1), e(z.ndx + 1), h(z.ndx + 1), g(z.ndx + 1), gu(z.nW + 1),
          hu(z.nW + 1);
      for (int i; (i = turn()) < n * count;) {
        const size_t row = size_t(i) + i / count;
        const double *x = X + row * z.nx, *u = U + size_t(i) * z.nU, *zn = Z + (row + 1) * z.nx, *dx = dX + row * z.nx,
                     *du = dU + size_t(i) * z.nU, dt = dt_[first + i % count];
        s.down_dual(x + z.nx, zn, c.data());
        s.down(x, dx, d.data());
        if (int bad = s.second_order(dt, x, u, c.data(), d.data(), du, h.data(), hu.data())) {
          found.add(i / count, i % count, bad, 0);
          continue;
        }
        double* out = hX + row * z.nx;
        std::fill_n(out, z.nx, 0.0);
        if (!M.flat) {
          // charts bend: retract''(w, w) = -q |w|^2 / 4 at the end of the step
          if (int bad = s.linearize(dt, x, u)) {
            found.add(i / count, i % count, bad, 0);
            continue;
          }
          s.backward(c.data(), g.data(), gu.data());
          s.forward(d.data(), du, e.data());
          std::vector<double> bend(z.ndx + 1);
          for (const Ball& b : M.balls) {
            double r = 0;
            for (int j = 0; j < 4; ++j) r -= 0.25 * zn[b.q + j] * x[z.nx + b.q + j];
            for (int j = 0; j < 3; ++j) bend[b.v + j] = r * e[b.v + j];
          }
          s.backward(bend.data(), e.data(), gu.data());
          for (size_t j = 0; j < z.ndx; ++j) h[j] += e[j];
          for (size_t j = 0; j < z.nW; ++j) hu[j] += gu[j];
          // and at its start: d = 2 b / (1 + a) for x = q (1 + a, b)
          for (const Ball& b : M.balls) {
            double q[4], E[12], a = 0, gb = 0;
            const double length = unit(x + b.q, q);
            half_product(q, E);
            for (int j = 0; j < 4; ++j) a += q[j] * dx[b.q + j] / length;
            for (int j = 0; j < 3; ++j) gb += g[b.v + j] * d[b.v + j] / 2;
            for (int j = 0; j < 4; ++j) {
              double eg = 0;
              for (int m = 0; m < 3; ++m) eg += E[3 * j + m] * g[b.v + m];
              out[b.q + j] -= (2 * gb * q[j] + 4 * a * eg) / length;
            }
          }
        }
        s.add_up_dual(x, h.data(), out);
        std::copy_n(hu.data(), z.nW, hU + size_t(i) * z.nU);
      }
    });
    for (int c = 0; c < n; ++c) std::fill_n(hX + (size_t(c) * (count + 1) + count) * z.nx, z.nx, 0.0);
    return found.first;
  }

 private:
  struct Found {
    Trouble first;
    std::mutex mutex;
    void add(int motion, int step, int status, double error) {
      std::lock_guard<std::mutex> lock(mutex);
      if (first.motion < 0 || motion < first.motion) first = Trouble{motion, step, status, error};
    }
  };

  // body(turn) on threads; turn() gives the numbers 0, 1, ... of n pieces of work, then numbers that are too large
  template <class F> static void over(int n, int threads, F body) {
    std::atomic<int> next{0};
    auto turn = [&] { return next++; };
    std::vector<std::thread> crew;
    for (int t = 1; t < std::min(threads, n); ++t) {
      try {
        crew.emplace_back([&] { body(turn); });
      } catch (const std::system_error&) { break; }  // no further thread to be had: those that run do the work
    }
    body(turn);
    for (auto& t : crew) t.join();
  }

  static double unit(const double* x, double* q) {
    const double length = std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]);
    for (int i = 0; i < 4; ++i) q[i] = x[i] / length;
    return length;
  }
  static void make_unit(double* q) { unit(q, q); }
  // E (4, 3) of a unit quaternion
  static void half_product(const double* q, double* E) {
    const double w = q[0] / 2, x = q[1] / 2, y = q[2] / 2, s = q[3] / 2;
    const double full[12] = {-x, -y, -s, w, -s, y, s, w, -x, -y, x, w};
    std::copy_n(full, 12, E);
  }

  // One step with a workspace: solves where the multipliers are not known, and goes between coordinates and components.
  class Step {
   public:
    explicit Step(const Motions& m)
        : m_(m),
          z(m.z),
          M(m.core_.model()),
          k_(m.core_.table()),
          s_(m.core_),
          A_(z.ndx * z.ndx + 9),
          B_(z.ndx * z.nW + 9),
          H_(z.nw * z.nw + 1),
          x_(z.nx + 1),
          y_(z.nq + 1),
          p_(z.nd + 1),
          lam_(z.nc + 1),
          costate_(2 * z.nd + z.nc + 1),
          grad_(z.nw + 1) {}

    int linearize(double dt, const double* x, const double* u) {
      std::fill(A_.begin(), A_.end(), 0.0);
      std::fill(B_.begin(), B_.end(), 0.0);
      if (int bad = solve(dt, x, u)) return bad;
      return k_.linearize(s_, m_.o_, dt, x_.data(), x_.data() + z.nq, u, y_.data(), lam_.data(), Given::solution, A(),
                          B());
    }
    // e = A d + B du
    void forward(const double* d, const double* du, double* e) const {
      for (size_t i = 0; i < z.ndx; ++i) {
        double sum = 0;
        for (size_t j = 0; j < z.ndx; ++j) sum += A()[i * z.ndx + j] * d[j];
        for (size_t j = 0; j < z.nW; ++j) sum += B()[i * z.nW + j] * du[j];
        e[i] = sum;
      }
    }
    // g = A' c, gu = B' c
    void backward(const double* c, double* g, double* gu) const {
      std::fill_n(g, z.ndx, 0.0);
      std::fill_n(gu, z.nW, 0.0);
      for (size_t i = 0; i < z.ndx; ++i) {
        for (size_t j = 0; j < z.ndx; ++j) g[j] += A()[i * z.ndx + j] * c[i];
        for (size_t j = 0; j < z.nW; ++j) gu[j] += B()[i * z.nW + j] * c[i];
      }
    }
    // g = A' c, gu = B' c without A and B
    int adjoint(double dt, const double* x, const double* u, const double* c, double* g, double* gu) {
      if (int bad = solve(dt, x, u)) return bad;
      split(c);
      const int bad = k_.adjoint(s_, m_.o_, dt, x_.data(), x_.data() + z.nq, u, y_.data(), lam_.data(), Given::solution,
                                 costate_.data(), costate_.data() + z.nd, costate_.data() + 2 * z.nd, grad_.data());
      if (bad) return bad;
      const size_t n = z.nv + z.nd;
      std::copy_n(grad_.data(), n, g);
      std::copy_n(grad_.data() + n, z.nW, gu);
      for (size_t i = 0; i < z.nk; ++i) {  // v_rho' = (rho' - rho) / dt
        const double rate = c[n + i] / dt;
        g[n + i] = 0;
        g[z.nd + i] -= rate;
        gu[z.nu + i] += c[z.nd + i] + rate;
      }
      return 0;
    }
    // h = xx d + xu du, hu = ux d + uu du of the second derivatives of c . f
    int second_order(double dt, const double* x, const double* u, const double* c, const double* d, const double* du,
                     double* h, double* hu) {
      if (int bad = solve(dt, x, u)) return bad;
      split(c);
      const int bad = k_.second_order(s_, m_.o_, dt, x_.data(), x_.data() + z.nq, u, y_.data(), lam_.data(),
                                      Given::solution, 1, costate_.data(), H_.data());
      if (bad) return bad;
      const size_t n = z.nv + z.nd;
      std::fill_n(h, z.ndx, 0.0);
      for (size_t i = 0; i < z.nw; ++i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) sum += H_[i * z.nw + j] * d[j];
        for (size_t j = 0; j < z.nW; ++j) sum += H_[i * z.nw + n + j] * du[j];
        (i < n ? h[i] : hu[i - n]) = sum;
      }
      return 0;
    }

    // components d of a change of coordinates, E+ dx; and back, added to what is there: E d
    void down(const double* x, const double* dx, double* d) const { lower(x, dx, d, true); }
    void add_up(const double* x, const double* d, double* dx) const { raise(x, d, dx, false); }
    // E' of a gradient by coordinates; and back, added to what is there: E+' of one by components
    void down_dual(const double* x, const double* g, double* c) const { lower(x, g, c, false); }
    void add_up_dual(const double* x, const double* c, double* g) const { raise(x, c, g, true); }

   private:
    double* A() const { return aligned(const_cast<double*>(A_.data())); }
    double* B() const { return aligned(const_cast<double*>(B_.data())); }

    void split(const double* c) {
      std::copy_n(c, z.nd, costate_.data());
      std::copy_n(c + z.nv, z.nd, costate_.data() + z.nd);
      std::fill_n(costate_.data() + 2 * z.nd, z.nc, 0.0);
    }
    // the step from x with u: its end y is the next state, its multipliers are found again
    int solve(double dt, const double* x, const double* u) {
      std::copy_n(x, z.nx, x_.data());
      for (const Ball& b : M.balls) make_unit(&x_[b.q]);
      std::copy_n(x + z.nx, z.nq - z.nqk, y_.data());
      std::copy_n(u + z.nu, z.nqk, y_.data() + z.nq - z.nqk);
      std::fill(lam_.begin(), lam_.end(), 0.0);
      if (z.nc == 0 && !(m_.o_.stop > 0)) return 0;
      int iterations = 0;
      double error = 0;
      return k_.step(s_, m_.o_, dt, x_.data(), x_.data() + z.nq, u, y_.data(), lam_.data(), p_.data(), &iterations,
                     &error);
    }
    void lower(const double* x, const double* from, double* to, bool inverse) const {
      if (M.flat) return void(std::copy_n(from, z.nx, to));
      for (size_t i = 0; i < z.nv; ++i)
        if (M.v_q[i] >= 0) to[i] = from[M.v_q[i]];
      std::copy_n(from + z.nq, z.nd + z.nk, to + z.nv);
      for (const Ball& b : M.balls) {
        double q[4], E[12];
        const double length = unit(x + b.q, q);
        half_product(q, E);
        for (int i = 0; i < 3; ++i) {
          double sum = 0;
          for (int j = 0; j < 4; ++j) sum += E[3 * j + i] * from[b.q + j];
          to[b.v + i] = inverse ? 4 * sum / length : sum;
        }
      }
    }
    void raise(const double* x, const double* from, double* to, bool inverse) const {
      for (size_t i = 0; i < z.nv; ++i)
        if (M.v_q[i] >= 0) to[M.v_q[i]] += from[i];
      for (size_t i = 0; i < z.nd + z.nk; ++i) to[z.nq + i] += from[z.nv + i];
      for (const Ball& b : M.balls) {
        double q[4], E[12];
        const double length = unit(x + b.q, q);
        half_product(q, E);
        for (int j = 0; j < 4; ++j) {
          double sum = 0;
          for (int i = 0; i < 3; ++i) sum += E[3 * j + i] * from[b.v + i];
          to[b.q + j] += inverse ? 4 * sum / length : sum;
        }
      }
    }

    const Motions& m_;
    const Sizes& z;
    const ModelData& M;
    const KernelTable& k_;
    Lease s_;
    std::vector<double> A_, B_, H_, x_, y_, p_, lam_, costate_, grad_;
  };

  Core& core_;
  const Options o_;
  const std::vector<double> dt_;
  const Sizes z;
};

}  // namespace dalembert
