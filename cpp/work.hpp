// Work<T>: all scratch of one thread, carved from one block at construction; a step allocates nothing.
#pragma once
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
// columns of the one-step matrices come in whole tiles of products; the row stride avoids powers of two, which would map rows onto the same cache lines
constexpr int kTile = kWidth > 4 ? 2 * kWidth : 8;
inline int whole_tiles(int n) { return (n + kTile - 1) / kTile * kTile; }
inline int row_stride(int n) { return whole_tiles(n) % 32 ? whole_tiles(n) : whole_tiles(n) + kTile; }

template <class T> struct Poses {
  M3<T>* R;   // by pose index; read through Joint::rot
  V3<T>* p;
  V3<T>* a;   // joint axis
};

// second- and third-order quantities of the Lagrangian for two slots (discrete: x, y; continuous: q, v)
template <class T> struct Hessian {
  T *h11, *h12, *h22;  // nq x nq each, row-major; h12: rows slot 1, columns slot 2
};

template <class T> struct Work {
  const ModelData* M = nullptr;
  char* block = nullptr;
  // state of the evaluation point
  T *q, *v;                          // nq
  V3<T> ref;                         // reference point, world axes
  T relative;                        // with StepOptions::stop: the error in units of the relative tolerance
  T floor;                           // rounding floor of the residual: what one unit in the last place of q_k+1 changes
  T *trig_x, *trig_s, *trig_c;       // revolute joints
  Poses<T> mid, start, end;          // midpoint; q_k and q_k+1 (only the joints that constraints see)
  V6<T> *S, *V, *B;                  // massive joints (V by pose index)
  V6<T> *H;                          // composite momentum, by node
  V3<T> *c;                          // composite first moment
  Inertia<T> *IC;                    // composite inertia
  Inertia<T> *body;                  // per-body inertia (third derivatives)
  V6<T> *hbody;
  T *Lq, *Lv, *Vq, *Fgen, *scale;    // nq
  T *side;                           // S, B, H, IC of the massive joints, 28 entries each (side.hpp)
  T *P1, *P2, *Q1, *Q2;              // generators, 8 entries each
  T *P1j, *P2j, *Q1j, *Q2j;          // the same joint after joint, 8 each: for the O(n) elimination, and where the scalar fills a register
  T *row;                            // rows of two joints
  T *mixed;                          // nm (and 3 zero rows) x nm: second derivatives by slot 1 of an ancestor, slot 2 of a joint
  // Newton matrix
  T *lo, *up, *inv;                  // packed
  T *phi, *phiv, *U, *Wv, *D, *z;  // O(n) elimination
  T *diag, *gc;                      // diagonal additions; coefficients, sources and counts of sums of rows (solver.hpp, Lists)
  const T** gp;
  int* gn;
  // elements, local
  T** lrow;                          // rows of a matrix, by local variable
  T* soa;                            // d_k, d_k' of a pair of sites by component, and two rows
  int soa_stride = 0;
  V3<T> *di, *dij, *ddi, *ddij, *wv, *om, *dw, *ua, *ub;
  T *lg, *lh, *lt, *la, *lb, *lc, *ld;
  T *tape_w, *tape_in, *tape_out;
  // constraints
  T *h, *hscale, *C0, *C1, *S1, *Xr, *lam, *lam_try;   // nc, nc, nc x nq, nc x nq, nc x nc, nd x (nc + 1)
  // step
  T *x, *y, *y_try, *p, *r, *u, *dy, *dl, *pnext, *kin;
  double *kkt, *dense;               // plain dense fallback; small dense systems
  // linearization (allocated only when asked for)
  Hessian<T> E, E3;
  T *Fq, *Fv, *Fu;                   // nd x nq, nd x nq, nd x nu
  T *dq, *dv;                        // directions
  Padded6<T> *eta, *xi;
  V6<T> *dH;
  Inertia<T> *dIC;
  T *dP1, *dP2, *dQ1, *dQ2;
  T *Z, *Pw, *Lw, *rhs;              // nd x (nw + nc), nd x nw, nc x nw
  T *Rt;                             // nq x nd: see first_order()
  T *mu, *nu, *g, *tmp;
  T *Hu, *Huu;                       // force second order: (2 nq) x nu and nu x nu
  T *TW, *HS;                        // nq x nw and nw x nw, row stride stride()
  T *fstore;                         // second derivatives of one force
  int nw = 0;
  // columns of the one-step matrices: w (and dt), padding, then X = N^-1 C0^T from x_column on; `stride` is their row stride
  int x_column(bool with_dt = false) const { return std::is_same_v<T, double> ? whole_tiles(nw + with_dt) : nw + with_dt; }
  int stride(bool with_dt = false) const { return std::is_same_v<T, double> ? row_stride(x_column(with_dt) + M->nc) : nw + with_dt + M->nc; }
  bool large = false;
  bool use_packed = false;           // linearization needs the packed matrix even when steps use the O(n) elimination

  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { std::free(block); }

  // false where there is not enough memory
  [[nodiscard]] bool init(const ModelData& model, bool linearization) {
    M = &model;
    large = linearization;
    size_t size = layout(nullptr);
    block = static_cast<char*>(std::aligned_alloc(64, (size + 63) / 64 * 64));
    if (!block) return false;
    std::memset(block, 0, (size + 63) / 64 * 64);
    layout(block);
    return true;
  }

 private:
  size_t layout(char* base) {
    const ModelData& m = *M;
    size_t at = 0;
    auto take = [&](auto*& ptr, size_t count) {
      using E = std::remove_reference_t<decltype(*ptr)>;
      at = (at + 63) / 64 * 64;
      ptr = base ? reinterpret_cast<E*>(base + at) : nullptr;
      at += (count + 1) * sizeof(E);
    };
    size_t nq = m.nq, nd = m.nd, nc = m.nc, nu = m.nu, np = m.nj + 1, nm = m.nm, nn = m.nn, ml = m.max_local;
    nw = m.nq + m.nd + m.nu + m.nk;
    size_t ncol = 2 * m.nq + m.nu + m.nk;  // columns of the continuous linearization, the wider one
    size_t lane = padded(m.nm + 1);
    take(q, nq); take(v, nq);
    take(trig_x, np + kPad); take(trig_s, np + kPad); take(trig_c, np + kPad);
    for (Poses<T>* P : {&mid, &start, &end}) { take(P->R, np); take(P->p, np); take(P->a, np); }
    take(S, nm + kPad); take(V, nm + 1); take(B, nm + kPad);
    take(H, nn); take(c, nn); take(IC, nn);
    take(body, nn); take(hbody, nn);
    take(Lq, nq); take(Lv, nq); take(Vq, nq); take(Fgen, nq); take(scale, nq);
    for (T** g : {&P1, &P2, &Q1, &Q2}) take(*g, 8 * lane);
    P1j = P1; P2j = P2; Q1j = Q1; Q2j = Q2;
    if (Side<T>::n > 1) {
      take(side, 28 * lane);
      if (m.chain_solver) for (T** g : {&P1j, &P2j, &Q1j, &Q2j}) take(*g, 8 * nm);
    }
    take(row, 8 * lane);
    take(lo, m.packed + kPad); take(up, m.packed + kPad); take(inv, nd);
    if (m.chain_solver) {
      take(phi, 128 * (m.phi_slots + 1)); take(phiv, 8 * (nm + 1));
      take(U, 8 * nm); take(Wv, 8 * nm); take(D, nm); take(z, nm);
    }
    take(diag, nd);
    size_t entries = 2 * (m.epath.size() + nd) + (nc + 1) * (nq + nc);
    take(gc, entries); take(gp, entries); take(gn, 2 * nq + nc);
    for (V3<T>** g : {&di, &ddi, &wv, &om, &dw, &ua, &ub}) take(*g, ml + 1);
    soa_stride = padded(m.max_local + 1);
    take(soa, 8 * soa_stride); take(lrow, ml);
    take(dij, ml * ml); take(ddij, ml * ml);
    for (T** g : {&lg, &la, &lb, &lc, &ld}) take(*g, 3 * ml + 8 + nu);
    take(lh, (2 * ml + nu + 2) * (2 * ml + nu + 2)); take(lt, (2 * ml + nu + 2) * (2 * ml + nu + 2));
    take(tape_w, m.max_tape_work); take(tape_in, m.max_tape_io); take(tape_out, m.max_tape_io);
    take(h, nc); take(hscale, nc); take(C0, nc * nq); take(C1, nc * nq); take(S1, nc * nc);
    take(Xr, nd * row_stride(nc + 1)); take(lam, nc); take(lam_try, nc);
    take(x, nq); take(y, nq); take(y_try, nq); take(p, nd); take(r, nd); take(u, nu); take(dy, nd); take(dl, nc); take(pnext, nd); take(kin, m.nk);
    take(kkt, (nd + nc) * (nd + nc + 2)); take(dense, 3 * nc * nc + 4 * nc + nc * (large ? ncol + kPad : 2));
    if (large) {
      for (Hessian<T>* e : {&E, &E3}) { take(e->h11, nq * nq); take(e->h12, nq * nq); take(e->h22, nq * nq); }
      take(Fq, nd * nq); take(Fv, nd * nq); take(Fu, nd * nu);
      take(dq, nq); take(dv, nq);
      take(eta, nm + 1); take(xi, nm + 1);
      take(dH, nn); take(dIC, nn);
      for (T** g : {&dP1, &dP2, &dQ1, &dQ2}) take(*g, 8 * lane);
      size_t nwp = row_stride(whole_tiles(ncol + 1) + nc);
      take(Z, nd * nwp + kTile); take(Pw, nd * (nwp + 32) + 512); take(Rt, nq * padded(nd)); take(Lw, (nc + 1) * nwp); take(rhs, nd * nwp);
      take(mu, nq); take(nu_(), nc); take(g, nq); take(tmp, nq * 4 + nwp + nu);
      take(Hu, 2 * nq * nu); take(Huu, nu * nu);
      take(TW, nq * nwp); take(HS, size_t(nw + 2 * kTile) * nwp);
      if (std::is_same_v<T, double> && m.in_order) take(mixed, (nm + 3) * padded(m.nm));
      take(fstore, 3 * ml * ml + 12 * ml + 36 + 2 * ml * nu + nu * nu);
    }
    return at + 64;
  }
  T*& nu_() { return nu; }
};

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
