// Work<T>: all scratch of one thread, carved from one block at construction; a step allocates nothing. Its parts are
// named after what they hold; a kernel says above itself which of them it reads and which it writes. Letters are those
// of docs/kernels.md, where they are defined.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include "model.hpp"
#include "side.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr int kPad = 8;  // rows are padded to this many entries
inline int padded(int n) { return (n + kPad - 1) / kPad * kPad; }
// columns of the one-step matrices come in whole tiles of products; the row stride avoids powers of two, which would
// map rows onto the same cache lines
constexpr int kTile = kWidth > 4 ? 2 * kWidth : 8;
inline int whole_tiles(int n) { return (n + kTile - 1) / kTile * kTile; }
inline int row_stride(int n) { return whole_tiles(n) % 32 ? whole_tiles(n) : whole_tiles(n) + kTile; }

template <class T> struct Poses {
  M3<T>* R;  // by pose index; read through Joint::rot
  V3<T>* p;
  V3<T>* a;  // joint axis
};

// second- and third-order quantities of the Lagrangian for two slots (discrete: x, y; continuous: q, v)
template <class T> struct Hessian {
  T *h11, *h12, *h22;  // nv x nv each, row-major; h12: rows slot 1, columns slot 2
};

// ---- where the mechanism is
template <class T> struct Kinematics {
  T *q, *v;                  // configuration (nq) and velocity (nv) at which L and the forces are evaluated
  V3<T> reference;           // reference point, world axes
  T *angle, *sine, *cosine;  // of the revolute joints
  Poses<T> mid, start, end;  // at q; at q_k and q_k+1 (only the joints that constraints see)
};
template <class T> struct Twists {
  V6<T>*S, *V, *B;  // joint twists, body velocities (by pose index), S' = V_parent x S (2.1)
};
template <class T> struct Composites {
  V6<T>* H;          // momentum, by node (3.1)
  V3<T>* c;          // first moment
  Inertia<T>* IC;    // inertia (4.1)
  Inertia<T>* body;  // of each body alone, for third derivatives
  V6<T>* body_momentum;
  T* side;  // S, B, H, IC of the massive joints, 28 entries each (side.hpp)
};

// ---- one ball in a step (rotation.hpp)
template <class T> struct TurnFactors {  // functions of |phi|^2, and their derivatives
  T t, dt, c, dc;
};
template <class T> struct BallMap {
  V3<T> phi;  // the turn of the step, body axes
  TurnFactors<T> by;
  Mat3<T> A, D;                // psi = A^T x + A y,  dphi = D y - D^T x (13.1)
  Mat3<T> x1, x2, y1, y2;      // derivatives of f -+ dt f'/2 by x and by y: the slots of a hinge
  Mat3<T> K11, K12, K22;       // second derivatives of the map, contracted with those of L and the forces
  Mat3<T> T11, T12, T21, T22;  // the same for torques along body axes: rows F-, F+
  Mat3<T> E11, E12, E22;       // own blocks: dt times the second derivatives of Ld by x and y
  Mat3<T> N;                   // own block of the Newton matrix: E12, and torques along body axes
  Mat3<T> pivot;               // inverse of the block that the O(n) elimination meets
};

// ---- derivatives of L and the forces
template <class T> struct FirstDerivatives {
  T *Lq, *Lv, *F;  // nv each
  T potential;     // of the elements, at q
};
template <class T> struct Generators {
  T *P1, *P2, *Q1, *Q2;      // 8 entries each, side by side (6.1)
  T *P1j, *P2j, *Q1j, *Q2j;  // the same joint after joint: for the O(n) elimination, and where the scalar fills a
                             // register
  T* row;                    // rows of two joints
  T* mixed;  // nm (and 3 zero rows) x nm: second derivatives by slot 1 of an ancestor, slot 2 of a joint
};
template <class T> struct AlongDirection {
  T *dq, *dv;           // the direction (nv)
  Padded6<T>*eta, *xi;  // twists of the variation (7.1), (7.2)
  V6<T>* dH;
  Inertia<T>* dIC;
  T *dP1, *dP2, *dQ1, *dQ2;
};

// ---- linear algebra
constexpr int kSmallMatrix = 8;  // most variables of a Newton matrix that is inverted in registers
template <class T> struct NewtonMatrix {
  T *lower, *upper;                      // packed rows along the elimination tree (9.2)
  T* inverse_pivot;                      // nd
  T *Phi, *phi, *U, *W, *inverse_D, *z;  // O(n) elimination (10.1)
  T *ahead, *behind;                     // P1_j-1 . U_j, W_j . P2_j-1 / D_j along chains
  T* diagonal;                           // what elements add there
  T *inverse, *columns;                  // few variables: columns of the inverse, N^-1 (C0^T, r) (small.hpp)
  bool use_packed = false;  // linearization needs the packed matrix even when steps use the O(n) elimination
};
template <class T> struct RowLists {  // sums of rows (solver.hpp, Lists)
  T* coefficient;
  const T** source;
  int* count;
};

// ---- elements, in their local variables
template <class T> struct ElementScratch {
  T *gradient, *hessian, *third;  // what an element returns: n, n x n, n x n
  V3<T>*d_i, *d_ij;               // derivatives of the vector between two sites (8.1)
  V3<T>*dd_i, *dd_ij;             // the same along a direction
  V3<T>*axis, *turn, *d_axis;     // axes of the local variables, turns and changes of axes along a direction (8.2)
  V3<T>*vec_a, *vec_b;
  T *a, *b, *c, *d;  // small vectors
  T* by_input;       // derivatives of a wrench by its inputs, n x 6
  T** rows;          // rows of a matrix, by local variable
  T* by_component;   // d_k, d_k' of a pair of sites by component, and two rows
  int stride = 0;    // of these
  T *tape_work, *tape_in, *tape_out;
  T* force_second;          // second derivatives of one force
  unsigned char* ancestry;  // of a long element, n x n
};

// ---- the step
template <class T> struct ConstraintRows {
  T *h, *size;               // values, and what they are judged against (nc)
  T *C0, *C1;                // Dh at q_k and q_k+1 (nc x nv); of velocity constraints a(q_k), and derivatives by q_k+1
  T *Cx, *b, *b_mid;         // velocity constraints: their derivatives by q_k (rows x nv), b(q_k) and b(q_m) (nc)
  T *lam, *lam_kept, *dlam;  // multipliers, kept ones, Newton's change
  T *X, *schur;              // N^-1 C0^T (nd x (nc + 1)), C1 N^-1 C0^T (nc x nc)
  T* moments;                // sums of directions and their moments by pose (12 each)
  double* dense;             // small dense systems
};
struct LoopWork {                 // elimination of a tree with loops (loops.hpp)
  bool on = false;                // constraints are wrenches now, and C0, C1 are not kept
  bool factored = false;          // prepare() has left its factors here
  double *start, *end;            // wrenches of each constraint on the poses of its sites at q_k, q_k+1 (18 each)
  double* force;                  // Dh(q_k)^T lambda (nv)
  V6<double>*S0, *S1, *push;      // twists at both ends by joint; wrenches by pose
  double *turn, *shift, *length;  // rounding of poses: of angles, of positions; path length (by pose)
  double *a, *c, *q1, *q2;        // of each dynamic component, one pose's entries each
  double *F, *U, *W, *inverse, *size, *z, *phi;
  double* columns;            // right-hand sides side by side
  double *L, *row, *R0, *R1;  // condensed.hpp
};
template <class T> struct StepState {
  T *x, *y;                     // q_k, q_k+1 (nq)
  T *p, *p_next, *u;            // p_k, p_k+1 (nd), inputs
  T* r;                         // residual (nd)
  T *dy, *y_kept;               // Newton's change (nd), kept configuration
  T* moved;                     // displacement of a step, or a trial of Newton's change (nv)
  T* prescribed;                // values at the end of the step (kinematic coordinates)
  T floor;                      // rounding floor of the residual: what one unit in the last place of q_k+1 changes
  T relative;                   // with StepOptions::stop: the error in units of the relative tolerance
  double* kkt;                  // plain dense fallback
  int dense_left = 2000000000;  // its iterations that the step may still make (del.hpp)
  // Newton's first direction from an extrapolated guess, where it is watched: it tells how good the guess was
  bool watched = false, noted = false, kept = false;  // kept: the direction itself, too
  bool judged = false;                                // quality.hpp asks for the Newton matrix of the step
  T* first_dy;                                        // that direction (nd)
  T gap;                                              // -dy . N dy / dt^2
};

// a step that is looked for by way of shorter ones
template <class T> struct Detour {
  T *from, *before, *reached, *to;  // configurations (nq)
  T *p, *lam;                       // momentum at the start (nd), sum of multipliers (nc)
};

// ---- derivatives of the step (allocated only when asked for); w = (q_k, p_k, u_k, rho_k+1)
template <class T> struct Linearization {
  Hessian<T> E, E3;  // dt times the second derivatives of Ld; third derivatives along a direction
  T *Fq, *Fv, *Fu;   // of the forces: nd x nv, nd x nv, nd x nu
  T *Fx, *Fy;        // the same by the slots of the step, in the place of Fq and Fv (force_slots)
  T *Gx, *Gy, *Gu;   // those of the share in p_k+1: Fx, Fy, Fu again, unless there are balls
  T *Z, *P, *L;      // d q_k+1/dw, d p_k+1/dw (nd rows), d lambda/dw (nc rows); row stride Work::stride()
  T* Rt;             // nv x nd: see first_order()
  T *mu, *nu;        // adjoint of the momentum balance and of the constraints (11.3)
  T *T_, *S;         // nv x nw and nw x nw
  T *Hu, *Huu;       // second derivatives of the forces: (2 nv) x nu and nu x nu
  T *g, *tmp, *rhs;
  T *products, *sweep;  // vectors of products.hpp: 5 nv; 18 for every pose
};

template <class T> struct Work {
  const ModelData* M = nullptr;
  Kinematics<T> kin;
  Twists<T> twists;
  Composites<T> comp;
  BallMap<T>* balls;
  FirstDerivatives<T> first;
  Generators<T> gen;
  AlongDirection<T> along;
  NewtonMatrix<T> newton;
  RowLists<T> lists;
  ElementScratch<T> local;
  ConstraintRows<T> con;
  LoopWork loops;
  StepState<T> step;
  Detour<T> detour;
  Linearization<T> lin;

  int nw = 0;
  // columns of the one-step matrices: w (and dt), padding, then X = N^-1 C0^T from x_column on; `stride` is their row
  // stride
  int x_column(bool with_dt = false) const {
    return std::is_same_v<T, double> ? whole_tiles(nw + with_dt) : nw + with_dt;
  }
  int stride(bool with_dt = false) const {
    return std::is_same_v<T, double> ? row_stride(x_column(with_dt) + M->nc) : nw + with_dt + M->nc;
  }

  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { std::free(block); }

  // false where there is not enough memory
  [[nodiscard]] bool init(const ModelData& model, bool linearization) {
    M = &model;
    large = linearization;
    size_t size = layout(nullptr);
    // zero pages come lazily: what is never touched (dense matrices of models that are solved without) takes no memory
    block = static_cast<char*>(std::calloc(size + 64, 1));
    if (!block) return false;
    layout(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(block) + 63) / 64 * 64));
    return true;
  }

 private:
  char* block = nullptr;
  bool large = false;

  // places of all arrays in `base`, and their size; without it the size alone
  size_t layout(char* base) {
    const ModelData& m = *M;
    size_t at = 0;
    auto take = [&](auto*& ptr, size_t count) {
      using E = std::remove_reference_t<decltype(*ptr)>;
      at = (at + 63) / 64 * 64;
      ptr = base ? reinterpret_cast<E*>(base + at) : nullptr;
      at += (count + 1) * sizeof(E);
    };
    const size_t nq = m.nq, nv = m.nv, nd = m.nd, nc = m.nc, nu = m.nu, np = m.nj + 1, nm = m.nm, nn = m.nn,
                 ml = m.max_local;
    nw = m.nv + m.nd + m.nu + m.nk;
    const size_t ncol = 2 * m.nv + m.nu + m.nk;  // columns of the continuous linearization, the wider one
    const size_t lane = padded(m.nm + 1);

    take(kin.q, nq);
    take(kin.v, nv);
    take(kin.angle, np + kPad);
    take(kin.sine, np + kPad);
    take(kin.cosine, np + kPad);
    for (Poses<T>* P : {&kin.mid, &kin.start, &kin.end}) {
      take(P->R, np);
      take(P->p, np);
      take(P->a, np);
    }
    take(twists.S, nm + kPad);
    take(twists.V, nm + 1);
    take(twists.B, nm + kPad);
    take(comp.H, nn);
    take(comp.c, nn);
    take(comp.IC, nn);
    take(comp.body, nn);
    take(comp.body_momentum, nn);
    take(balls, m.balls.size());
    take(first.Lq, nv);
    take(first.Lv, nv);
    take(first.F, nv);

    for (T** g : {&gen.P1, &gen.P2, &gen.Q1, &gen.Q2}) take(*g, 8 * lane);
    gen.P1j = gen.P1;
    gen.P2j = gen.P2;
    gen.Q1j = gen.Q1;
    gen.Q2j = gen.Q2;
    if (Side<T>::n > 1) {
      take(comp.side, 28 * lane);
      if (m.chain_solver || m.loops.used)
        for (T** g : {&gen.P1j, &gen.P2j, &gen.Q1j, &gen.Q2j}) take(*g, 8 * nm);
    }
    take(gen.row, 8 * lane);

    take(newton.lower, m.packed + kPad);
    take(newton.upper, m.packed + kPad);
    take(newton.inverse_pivot, nd);
    if (m.chain_solver) {
      take(newton.Phi, 128 * (m.phi_slots + 1));
      take(newton.phi, 8 * (nm + 1));
      take(newton.U, 8 * nm);
      take(newton.W, 8 * nm);
      take(newton.inverse_D, nm);
      take(newton.z, nm);
      take(newton.ahead, nm);
      take(newton.behind, nm);
    }
    take(newton.diagonal, nd);
    const bool few = std::is_same_v<T, double> && m.nd <= kSmallMatrix;
    take(newton.inverse, few ? kSmallMatrix * kSmallMatrix : 0);
    take(newton.columns, few ? kSmallMatrix * (nc + 1) : 0);
    const size_t entries = 2 * (m.elim_path.size() + nd) + (nc + 1) * (nv + nc);
    take(lists.coefficient, entries);
    take(lists.source, entries);
    take(lists.count, 2 * nv + nc);

    for (V3<T>** g : {&local.d_i, &local.dd_i, &local.axis, &local.turn, &local.d_axis, &local.vec_a, &local.vec_b})
      take(*g, ml + 1);
    local.stride = padded(m.max_local + 1);
    take(local.by_component, 8 * local.stride);
    take(local.rows, ml);
    take(local.ancestry, m.max_local > kShortElement ? ml * ml : 0);
    take(local.by_input, 6 * ml);
    take(local.d_ij, ml * ml);
    take(local.dd_ij, ml * ml);
    for (T** g : {&local.gradient, &local.a, &local.b, &local.c, &local.d}) take(*g, 3 * ml + 8 + nu);
    take(local.hessian, (2 * ml + nu + 2) * (2 * ml + nu + 2));
    take(local.third, (2 * ml + nu + 2) * (2 * ml + nu + 2));
    take(local.tape_work, m.max_tape_work);
    take(local.tape_in, m.max_tape_io);
    take(local.tape_out, m.max_tape_io);

    take(con.h, nc);
    take(con.size, nc);
    take(con.C0, nc * nv);
    take(con.C1, nc * nv);
    take(con.Cx, (nc - m.nh) * nv);
    take(con.b, nc);
    take(con.b_mid, nc);
    take(con.schur, nc * nc + kPad);
    take(con.X, nd * row_stride(nc + 1));
    take(con.lam, nc);
    take(con.lam_kept, nc);
    take(con.dlam, nc);
    take(con.moments, nc && large ? 12 * (m.nj + 1) : 0);
    take(con.dense, 3 * nc * nc + 4 * nc + nc * (large ? ncol + kPad : 2));

    if (std::is_same_v<T, double> && m.loops.used) {
      const LoopPlan& plan = m.loops;
      for (double** g : {&loops.start, &loops.end}) take(*g, 18 * nc);
      take(loops.force, nv);
      take(loops.S0, np);
      take(loops.S1, np);
      take(loops.push, np);
      for (double** g : {&loops.turn, &loops.shift, &loops.length}) take(*g, np);
      for (double** g : {&loops.a, &loops.c, &loops.q1, &loops.q2}) take(*g, nd * plan.lanes);
      const CondensedPlan& whole = plan.condensed;
      const size_t n = whole.unknown.size();
      take(loops.F, plan.matrices);
      take(loops.U, plan.rows + whole.upper.size() + kPad);
      take(loops.W, plan.rows);
      take(loops.inverse, plan.steps.size() + n);
      take(loops.L, whole.lower.size());
      take(loops.row, n + kPad);
      take(loops.R0, n ? m.local_v.size() : 0);
      take(loops.R1, n ? m.local_v.size() : 0);
      take(loops.size, plan.vectors);
      take(loops.z, plan.steps.size() * (large ? 8 : 1));
      take(loops.phi, (plan.vectors + n) * (large ? 8 : 1));
      take(loops.columns, (nd + nc) * (large ? 16 : 2));
    }

    take(step.x, nq);
    take(step.y, nq);
    take(step.y_kept, nq);
    take(step.prescribed, nq);
    for (T** q : {&detour.from, &detour.before, &detour.reached, &detour.to}) take(*q, nq);
    take(detour.p, nd);
    take(detour.lam, nc);
    take(step.p, nd);
    take(step.p_next, nd);
    take(step.u, nu);
    take(step.r, nd);
    take(step.dy, nd);
    take(step.first_dy, nd);
    take(step.moved, nv);
    take(step.kkt, (nd + nc) * (nd + nc + 2));
    if (!large) return at + 64;

    for (Hessian<T>* e : {&lin.E, &lin.E3}) {
      take(e->h11, nv * nv);
      take(e->h12, nv * nv);
      take(e->h22, nv * nv);
    }
    take(lin.Fq, nd * nv);
    take(lin.Fv, nd * nv);
    take(lin.Fu, nd * nu);
    lin.Fx = lin.Fq;
    lin.Fy = lin.Fv;
    lin.Gx = lin.Fx;
    lin.Gy = lin.Fy;
    lin.Gu = lin.Fu;
    if (!m.flat) {
      take(lin.Gx, nd * nv);
      take(lin.Gy, nd * nv);
      take(lin.Gu, nd * nu);
    }
    take(along.dq, nv);
    take(along.dv, nv);
    take(along.eta, nm + 1);
    take(along.xi, nm + 1);
    take(along.dH, nn);
    take(along.dIC, nn);
    for (T** g : {&along.dP1, &along.dP2, &along.dQ1, &along.dQ2}) take(*g, 8 * lane);
    const size_t wide = row_stride(whole_tiles(ncol + 1) + nc);
    take(lin.Z, nd * wide + kTile);
    take(lin.P, nd * (wide + 32) + 512);
    take(lin.Rt, nv * padded(m.nd));
    take(lin.L, (nc + 1) * wide);
    take(lin.rhs, nd * wide);
    take(lin.mu, nv);
    take(lin.nu, nc);
    take(lin.g, nv);
    take(lin.products, 5 * nv);
    take(lin.sweep, 18 * np);
    take(lin.tmp, nv * 4 + wide + nu + 2 * nc);
    take(lin.Hu, 2 * nv * nu);
    take(lin.Huu, nu * nu);
    take(lin.T_, nv * wide);
    take(lin.S, size_t(nw + 2 * kTile) * wide);
    if (std::is_same_v<T, double> && m.in_order) take(gen.mixed, (nm + 3) * padded(m.nm));
    take(local.force_second, 3 * ml * ml + 12 * ml + 36 + 2 * ml * nu + nu * nu);
    return at + 64;
  }
};

// the step is solved joint by joint: elements give only the diagonal
template <class T> DAL_INLINE bool by_joint(const Work<T>& w) {
  return !w.newton.use_packed && (w.M->chain_solver || w.loops.on);
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
