// Linear algebra of a step: packed tree LU (docs/kernels.md 9), O(n) elimination (section 10), small dense systems.
#pragma once
#include "lagrangian.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// y[0..n) -= a x[0..n)
template <class T> DAL_INLINE void row_sub(T* __restrict y, const T a, const T* __restrict x, int n) {
  for (int i = 0; i < n; ++i) y[i] -= a * x[i];
}

DAL_INLINE int packed_offset(const ModelData& M, int i, int k, bool& upper) {
  // entry N[i, k]: if i is the ancestor it sits in k's upper row, else in i's lower row
  upper = M.elim_depth[i] < M.elim_depth[k];
  return upper ? M.elim_row[k] + M.elim_depth[i] : M.elim_row[i] + M.elim_depth[k];
}
template <class T> DAL_INLINE void packed_add(Work<T>& w, int i, int k, const T& x) {
  bool upper;
  int at = packed_offset(*w.M, i, k, upper);
  (upper ? w.newton.upper : w.newton.lower)[at] += x;
}

// Rows of the Newton matrix dt D2D1 Ld from the generators; after generators(). (6.1)
//
// reads gen; writes newton.lower, newton.upper
template <class T> void assemble_packed(Work<T>& w) {
  if (w.M->coupled) clear_packed(w);
  for_rows<Rows::mixed>(w, [&](int j, const FourRows<T>& r) { pack_rows(w, j, r); });
}

// y -= sum_k coef_k src_k for two matrices at once, VECS vectors each
template <int VECS>
DAL_INLINE void collect_two(double* y, double* z, const double* a, const double* b, const int* off, int count,
                            const double* lo, const double* up) {
  Vec s[VECS], t[VECS];
#pragma GCC unroll 8
  for (int j = 0; j < VECS; ++j) {
    s[j] = load(y + j * kWidth);
    t[j] = load(z + j * kWidth);
  }
  for (int k = 0; k < count; ++k) {
    const Vec f = splat(a[k]), g = splat(b[k]);
    const double *x = lo + off[k], *v = up + off[k];
#pragma GCC unroll 8
    for (int j = 0; j < VECS; ++j) {
      s[j] -= f * load(x + j * kWidth);
      t[j] -= g * load(v + j * kWidth);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < VECS; ++j) {
    store(y + j * kWidth, s[j]);
    store(z + j * kWidth, t[j]);
  }
}

// Tree LU without fill-in and without pivoting. Returns a mask of lanes whose pivots are usable.
//
// reads and writes newton.lower, newton.upper; writes newton.inverse_pivot; scratch: lists
template <class T> MaskOf<T> factor(Work<T>& w) {
  const ModelData& M = *w.M;
  T worst = T(1e300);
  for (int i = M.nd - 1; i >= 0; --i) {
    int di = M.elim_depth[i], oi = M.elim_row[i], n = 0;
    // row i collects from the finished rows below it
    T *lo = w.newton.lower + oi, *up = w.newton.upper + oi, *ca = w.lists.coefficient, *cb = w.lists.coefficient + M.nd;
    for (int t = M.elim_below_offset[i]; t < M.elim_below_offset[i + 1]; ++t, ++n) {
      int k = M.elim_below[t], at = M.elim_row[k] + di;
      ca[n] = w.newton.upper[at] * w.newton.inverse_pivot[k];
      cb[n] = w.newton.lower[at] * w.newton.inverse_pivot[k];
      w.lists.count[n] = M.elim_row[k];
    }
    if constexpr (std::is_same_v<T, double>) {
      int vecs = di / kWidth + 1;  // lanes beyond the diagonal only touch padding
      if (n)
        for (int at = 0; vecs > 0; at += 4 * kWidth, vecs -= 4) {
          const double *l = w.newton.lower + at, *u = w.newton.upper + at;
          if (vecs == 1) collect_two<1>(lo + at, up + at, ca, cb, w.lists.count, n, l, u);
          else if (vecs == 2) collect_two<2>(lo + at, up + at, ca, cb, w.lists.count, n, l, u);
          else if (vecs == 3) collect_two<3>(lo + at, up + at, ca, cb, w.lists.count, n, l, u);
          else collect_two<4>(lo + at, up + at, ca, cb, w.lists.count, n, l, u);
        }
    } else {
      for (int k = 0; k < n; ++k)
        for (int j = 0; j <= di; ++j) {
          lo[j] -= ca[k] * w.newton.lower[w.lists.count[k] + j];
          up[j] -= cb[k] * w.newton.upper[w.lists.count[k] + j];
        }
    }
    T piv = lo[di], size = fabs_(piv);
    w.newton.inverse_pivot[i] = T(1.0) / piv;
    // relative pivot: against the largest entry of its row
    const T big = largest(T(1e-300), di, [&]<class L>(L, int j) { return fabs_(read_as<L>(lo + j)); });
    T rel = select(lt(size, T(1e-250)), T(0.0), size / (big + size));
    worst = select(lt(rel, worst), rel, select(le(worst, rel), worst, rel));
  }
  return lt(T(1e-13), worst);
}

// ---- Sums of rows: y = (y + sum_k coef_k src_k) scale. Sums stay in registers, so each source is read once and y is
// written once. The lists are in w.lists.coefficient (coefficients), w.lists.source (source rows), w.lists.count
// (entries per row), filled row after row by `Lists`.
template <class T> struct Lists {
  Work<T>& w;
  int n = 0, row = 0, first = 0;
  DAL_INLINE void add(const T& coef, const T* src) {
    w.lists.coefficient[n] = coef;
    w.lists.source[n++] = src;
  }
  DAL_INLINE void end_row() {
    w.lists.count[row++] = n - first;
    first = n;
  }
  DAL_INLINE void restart() { n = row = first = 0; }
};

constexpr int kGather = 10;  // vectors side by side: enough to hide the latency of a multiply-add; more do not fit the
                             // registers of AVX2
template <int VECS, bool ADD>
DAL_INLINE void gather_block(double* y, const double* coef, const double* const* src, int count, int at, double scale) {
  Vec sum[VECS];
  y += at;
#pragma GCC unroll 16
  for (int j = 0; j < VECS; ++j) sum[j] = ADD ? load(y + j * kWidth) : Vec{};
  for (int k = 0; k < count; ++k) {
    const Vec f = splat(coef[k]);
    const double* x = src[k] + at;
#pragma GCC unroll 16
    for (int j = 0; j < VECS; ++j) sum[j] += f * load(x + j * kWidth);
  }
  const Vec f = splat(scale);
#pragma GCC unroll 16
  for (int j = 0; j < VECS; ++j) store(y + j * kWidth, sum[j] * f);
}
// calls then(constant number of vectors, first column) for blocks of nearly equal width that cover `columns` columns, a
// multiple of kWidth; a block of all `rows` source rows should stay in the first-level cache
template <class F> DAL_INLINE void column_blocks(int columns, int rows, F then) {
  int fit = 24 * 1024 / (8 * kWidth * (rows + 1)), most = fit > kGather ? kGather : fit < 4 ? 4 : fit;
  int vecs = columns / kWidth, blocks = (vecs + most - 1) / most;
  for (int b = 0, at = 0; b < blocks; ++b) {
    int width = vecs / blocks + (b < vecs % blocks);
    switch (width) {
      case 1: then(std::integral_constant<int, 1>(), at); break;
      case 2: then(std::integral_constant<int, 2>(), at); break;
      case 3: then(std::integral_constant<int, 3>(), at); break;
      case 4: then(std::integral_constant<int, 4>(), at); break;
      case 5: then(std::integral_constant<int, 5>(), at); break;
      case 6: then(std::integral_constant<int, 6>(), at); break;
      case 7: then(std::integral_constant<int, 7>(), at); break;
      case 8: then(std::integral_constant<int, 8>(), at); break;
      case 9: then(std::integral_constant<int, 9>(), at); break;
      default: then(std::integral_constant<int, 10>(), at); break;
    }
    at += width * kWidth;
  }
}
// rows of Y (row stride ld) from the lists; ADD: to what is there, else from zero. For double, `columns` is a multiple
// of kPad.
template <bool ADD, class T> void gather(const Work<T>& w, T* Y, int ld, int rows, int columns, T scale = T(1.0)) {
  if constexpr (std::is_same_v<T, double>) {
    column_blocks(columns, rows, [&](auto vecs, int at) {
      const double* coef = w.lists.coefficient;
      const double* const* src = w.lists.source;
      double* y = Y;
      for (int r = 0; r < rows; ++r, y += ld) {
        int count = w.lists.count[r];
        gather_block<decltype(vecs)::value, ADD>(y, coef, src, count, at, scale);
        coef += count;
        src += count;
      }
    });
  } else {
    int n = 0;
    for (int r = 0; r < rows; ++r) {
      T* y = Y + size_t(r) * ld;
      if (!ADD)
        for (int i = 0; i < columns; ++i) y[i] = T(0.0);
      for (int k = 0; k < w.lists.count[r]; ++k, ++n)
        for (int i = 0; i < columns; ++i) y[i] += w.lists.coefficient[n] * w.lists.source[n][i];
      for (int i = 0; i < columns; ++i) y[i] = y[i] * scale;
    }
  }
}

// the same with coefficients from rows of A (row stride lda) at the first `counts[r]` of the columns idx + off[r],
// sources the rows of Z of these numbers
template <class T>
void gather_indexed(T* Y, int ld, int rows, int columns, const T* A, int lda, const int* idx, const int* off,
                    const int* counts, const T* Z, T scale = T(1.0)) {
  if constexpr (std::is_same_v<T, double>) {
    column_blocks(columns, rows, [&](auto vecs, int at) {
      constexpr int n = decltype(vecs)::value;
      for (int r = 0; r < rows; ++r) {
        const int *k = idx + off[r], *end = k + counts[r];
        const double* a = A + size_t(r) * lda;
        Vec sum[n];
#pragma GCC unroll 16
        for (int j = 0; j < n; ++j) sum[j] = Vec{};
        for (; k != end; ++k) {
          const Vec f = splat(a[*k]);
          const double* x = Z + size_t(*k) * ld + at;
#pragma GCC unroll 16
          for (int j = 0; j < n; ++j) sum[j] += f * load(x + j * kWidth);
        }
        double* y = Y + size_t(r) * ld + at;
        const Vec f = splat(scale);
#pragma GCC unroll 16
        for (int j = 0; j < n; ++j) store(y + j * kWidth, sum[j] * f);
      }
    });
  } else {
    for (int r = 0; r < rows; ++r) {
      T* y = Y + size_t(r) * ld;
      for (int i = 0; i < columns; ++i) y[i] = T(0.0);
      for (int t = 0; t < counts[r]; ++t) {
        int k = idx[off[r] + t];
        for (int i = 0; i < columns; ++i) y[i] += A[size_t(r) * lda + k] * Z[size_t(k) * ld + i];
      }
      for (int i = 0; i < columns; ++i) y[i] = y[i] * scale;
    }
  }
}

// X (nd x nr, row stride ld) <- N^-1 X, or N^-T X
//
// reads newton; writes X; scratch: lists
template <class T, bool TRANSPOSED = false> void solve(Work<T>& w, T* X, int nr, int ld) {
  const ModelData& M = *w.M;
  const T *a = TRANSPOSED ? w.newton.lower : w.newton.upper, *b = TRANSPOSED ? w.newton.upper : w.newton.lower;
  if (nr < 4) {
    for (int k = M.nd - 1; k >= 0; --k) {
      int dk = M.elim_depth[k], ok = M.elim_row[k];
      const int* path = M.elim_path.data() + M.elim_path_offset[k];
      const T* xk = X + size_t(k) * ld;
      for (int c = 0; c < nr; ++c) {
        T t = xk[c] * w.newton.inverse_pivot[k];
        for (int di = 0; di < dk; ++di) X[size_t(path[di]) * ld + c] -= a[ok + di] * t;
      }
    }
    for (int k = 0; k < M.nd; ++k) {
      int dk = M.elim_depth[k], ok = M.elim_row[k];
      const int* path = M.elim_path.data() + M.elim_path_offset[k];
      T* xk = X + size_t(k) * ld;
      for (int c = 0; c < nr; ++c) {
        T t = xk[c];
        for (int di = 0; di < dk; ++di) t -= b[ok + di] * X[size_t(path[di]) * ld + c];
        xk[c] = t * w.newton.inverse_pivot[k];
      }
    }
    return;
  }
  // coefficients and sources of both sweeps once: leaves to root, each row collecting from all rows below it, then root
  // to leaves
  Lists<T> lists{w};
  for (int i = M.nd - 1; i >= 0; --i) {
    int di = M.elim_depth[i];
    for (int t = M.elim_below_offset[i]; t < M.elim_below_offset[i + 1]; ++t) {
      int k = M.elim_below[t];
      lists.add(-(a[M.elim_row[k] + di] * w.newton.inverse_pivot[k]), X + size_t(k) * ld);
    }
    lists.end_row();
  }
  for (int k = 0; k < M.nd; ++k) {
    const int* path = M.elim_path.data() + M.elim_path_offset[k];
    for (int di = 0; di < M.elim_depth[k]; ++di) lists.add(-b[M.elim_row[k] + di], X + size_t(path[di]) * ld);
    lists.end_row();
  }
  auto sweeps = [&](auto collect) {
    const T* c = w.lists.coefficient;
    const T* const* p = w.lists.source;
    for (int r = 0; r < 2 * M.nd; ++r) {
      int count = w.lists.count[r], i = r < M.nd ? M.nd - 1 - r : r - M.nd;
      if (count || r >= M.nd) collect(X + size_t(i) * ld, c, p, count, r < M.nd ? T(1.0) : w.newton.inverse_pivot[i]);
      c += count;
      p += count;
    }
  };
  int at = 0;
  if constexpr (std::is_same_v<T, double>) {
    at = nr / kWidth * kWidth;  // both sweeps block by block of columns
    column_blocks(at, M.nd, [&](auto vecs, int from) {
      sweeps([&](double* y, const double* c, const double* const* p, int count, double scale) {
        gather_block<decltype(vecs)::value, true>(y, c, p, count, from, scale);
      });
    });
  }
  if (at < nr)
    sweeps([&](T* y, const T* c, const T* const* p, int count, T scale) {
      for (int k = 0; k < count; ++k)
        for (int i = at; i < nr; ++i) y[i] += c[k] * p[k][i];
      for (int i = at; i < nr; ++i) y[i] = y[i] * scale;
    });
}

// One ball: joints j - 2, j - 1, j with a pivot of 3 x 3, D = P1^T U + N - P1^T Q2. Up: null at a root, Phi itself in a
// chain. Returns how usable the pivot is.
//
// reads gen.P1j .. Q2j, balls (N), Phi; writes newton.U, W, Up, balls (pivot)
template <class T> T chain_factor_ball(Work<T>& w, int j, T* Phi, T* Pht, T* Up, T* Upt) {
  const ModelData& M = *w.M;
  const int first = j - 2;
  BallMap<T>& m = w.balls[-1 - M.v_q[M.joints[j].v]];
  Eight<T> U[3], W[3], P[3], c;
  for (int i = 0; i < 3; ++i) {
    U[i].read(w.gen.Q2j + 8 * (first + i));
    W[i].read(w.gen.Q1j + 8 * (first + i));
    P[i].read(w.gen.P1j + 8 * (first + i));
  }
  Mat3<T> D = m.N;
  if (!M.joints[j].leaf) {
    Eight<T> below[3] = {};  // Phi P_2
    for (int l = 0; l < 8; ++l) {
      c.read(Phi + 8 * l);
      for (int i = 0; i < 3; ++i) below[i].add(w.gen.P2j[8 * (first + i) + l], c);
      c.read(Pht + 8 * l);
      for (int i = 0; i < 3; ++i) W[i].add(w.gen.P1j[8 * (first + i) + l], c);
    }
    for (int k = 0; k < 3; ++k) {
      for (int i = 0; i < 3; ++i) D(i, k) += P[i].dot(below[k]);
      U[k].add(T(1.0), below[k]);
    }
  }
  const V3<T> a = three(D.m), b = three(D.m + 3), d = three(D.m + 6), ab = cross(a, b), bd = cross(b, d),
              da = cross(d, a);
  const T det = dot(a, bd), inv = T(1.0) / det;
  m.pivot = {
      {bd.x * inv, da.x * inv, ab.x * inv, bd.y * inv, da.y * inv, ab.y * inv, bd.z * inv, da.z * inv, ab.z * inv}};
  T w8[3][8], u8[3][8];
  for (int i = 0; i < 3; ++i) {
    U[i].write(w.newton.U + 8 * (first + i));
    U[i].write(u8[i]);
    Eight<T> x{};
    for (int k = 0; k < 3; ++k) x.add(m.pivot(i, k), W[k]);
    x.write(w.newton.W + 8 * (first + i));
    x.write(w8[i]);
    P[i] = x;  // pivot^-1 W^T
  }
  if (Up)
    for (int l = 0; l < 8; ++l) {
      auto update = [&](T* from, T* to, const Eight<T>* x, const T(&f)[3][8]) {
        c.read(from + 8 * l);
        for (int i = 0; i < 3; ++i) c.add(-f[i][l], x[i]);
        if (to != from) {
          Eight<T> t;
          t.read(to + 8 * l);
          c.add(T(1.0), t);
        }
        c.write(to + 8 * l);
      };
      update(Phi, Up, U, w8);
      update(Pht, Upt, P, u8);
    }
  const T size = sqrt_(dot(a, a) * dot(b, b) * dot(d, d)) + T(1e-300);
  return select(lt(size, T(1e-250)), T(0.0), fabs_(det) / size);
}

// Whether joint j hangs on joint j - 1 and nothing else does, both with one variable to be solved for: a chain, along
// which sums are made one joint ahead.
DAL_INLINE bool alone_below(const ModelData& M, int j) {
  if (j == 0) return false;
  const Joint &J = M.joints[j], &U = M.joints[j - 1];
  return J.parent == j && U.phi == J.phi && J.v < M.nd && U.v < M.nd && !J.of_ball() && !U.of_ball();
}

// ---- O(n) elimination for deep trees (10.1). Vectors of 8 lanes; Phi and its transpose are kept by columns so that
// both products are broadcast multiply-adds. A joint with one child keeps its child's Phi in place (Joint::phi is the
// same), so a chain lives in one slot.

// U = Q2 + Phi P2, W = Q1 + Phi^T P1 of joint j, in two sums each: half the time to wait. Columns of Phi, and of its
// transpose, are shown to `seen` when they were used.
template <class T, class Seen>
DAL_INLINE void chain_columns(const Work<T>& w, int j, T* Phi, Eight<T>& U, Eight<T>& W, Seen&& seen) {
  U.read(w.gen.Q2j + 8 * j);
  W.read(w.gen.Q1j + 8 * j);
  const T *P1 = w.gen.P1j + 8 * j, *P2 = w.gen.P2j + 8 * j;
  Eight<T> odd = {}, turned = {}, c, t;
  for (int m = 0; m < 8; ++m) {
    c.read(Phi + 8 * m);
    t.read(Phi + 64 + 8 * m);
    (m % 2 ? odd : U).add(P2[m], c);
    (m % 2 ? turned : W).add(P1[m], t);
    seen(m, c, t);
  }
  U.add(T(1.0), odd);
  W.add(T(1.0), turned);
}

// reads gen.P1j .. Q2j, newton.diagonal; writes newton.Phi, U, W, inverse_D, ahead, behind
template <class T> MaskOf<T> chain_factor(Work<T>& w) {
  const ModelData& M = *w.M;
  T worst = T(1e300);
  for (int i = 0; i < 128 * M.phi_slots; ++i) w.newton.Phi[i] = T(0.0);
  Eight<T> U, W, P;
  bool alone = false;  // U and W of this joint came with the one below
  for (int j = M.nm - 1; j >= 0; --j) {
    const Joint& J = M.joints[j];
    T* Phi = w.newton.Phi + 128 * J.phi;  // its columns, then those of its transpose
    const int above = J.kind == JointKind::BZ ? M.joints[j - 2].parent : J.parent;  // of all three of a ball
    const int up = above ? M.joints[above - 1].phi : -1;
    T* Up = w.newton.Phi + 128 * (up < 0 ? 0 : up);
    if (J.kind == JointKind::BZ && J.v < M.nd) {
      const T rel = chain_factor_ball(w, j, Phi, Phi + 64, up < 0 ? nullptr : Up, Up + 64);
      worst = select(lt(rel, worst), rel, select(le(worst, rel), worst, rel));
      j -= 2;
      continue;
    }
    if (J.v >= M.nd) {  // prescribed: nothing to eliminate
      if (up >= 0 && up != J.phi)
        for (int i = 0; i < 128; ++i) Up[i] += Phi[i];
      continue;
    }
    if (!alone) chain_columns(w, j, Phi, U, W, [](int, const Eight<T>&, const Eight<T>&) {});
    P.read(w.gen.P1j + 8 * j);
    const T pu = P.dot(U), D = w.newton.diagonal[J.v] + pu, inv = T(1.0) / D;
    const T rel = fabs_(D) / (fabs_(pu) + fabs_(w.newton.diagonal[J.v]) + T(1e-300));
    worst = select(lt(rel, worst), rel, select(le(worst, rel), worst, rel));
    worst = select(lt(fabs_(D), T(1e-250)), T(0.0), worst);
    w.newton.inverse_D[j] = inv;
    U.write(w.newton.U + 8 * j);
    const Eight<T> Ud = U.times(-inv), Wd = W.times(inv), Wt = W.times(-inv);
    Wd.write(w.newton.W + 8 * j);
    alone = alone_below(M, j);
    if (up < 0) continue;
    // Phi - U W^T / D is what the joint above sees
    T u8[8], w8[8];
    U.write(u8);
    W.write(w8);
    if (alone) {  // its U and W from Phi as it still is, without waiting for D; then what the change of Phi adds
      P.read(w.gen.P1j + 8 * (j - 1));
      const T ahead = w.newton.ahead[j] = P.dot(U);
      P.read(w.gen.P2j + 8 * (j - 1));
      const T behind = w.newton.behind[j] = P.dot(Wd);
      const Eight<T> below = U;
      chain_columns(w, j - 1, Phi, U, W, [&](int m, Eight<T> c, Eight<T> t) {
        c.add(w8[m], Ud);
        t.add(u8[m], Wt);
        c.write(Phi + 8 * m);
        t.write(Phi + 64 + 8 * m);
      });
      U.add(-behind, below);
      W.add(-ahead, Wd);
      continue;
    }
    for (int m = 0; m < 16; ++m) {
      P.read(Phi + 8 * m);
      P.add(m < 8 ? w8[m] : u8[m - 8], m < 8 ? Ud : Wt);
      if (up != J.phi) {
        Eight<T> t;
        t.read(Up + 8 * m);
        P.add(T(1.0), t);
      }
      P.write(Up + 8 * m);
    }
  }
  return lt(T(1e-13), worst);
}

// one right-hand side b (stride ld), in place (10.1, 10.2). Along a chain phi, and then xi, stay in registers, and the
// sum of the next joint is begun before this joint's unknown is known: P1_j-1 . (phi + z U_j) = P1_j-1 . phi + z
// ahead_j.
//
// reads gen.P1j, gen.P2j, newton.U, W, inverse_D, ahead, behind; writes b; scratch: newton.phi, newton.z
template <class T> void chain_solve(Work<T>& w, T* b, int ld) {
  const ModelData& M = *w.M;
  for (int i = 0; i < 8 * (M.nm + 1); ++i) w.newton.phi[i] = T(0.0);
  Eight<T> a, c, phi;
  bool alone = false;
  T next = T(0.0);
  for (int j = M.nm - 1; j >= 0; --j) {
    const Joint& J = M.joints[j];
    T* up = w.newton.phi + 8 * J.parent;
    const bool begun = alone;
    if (!begun) phi.read(w.newton.phi + 8 * (j + 1));
    alone = alone_below(M, j);
    if (J.kind == JointKind::BZ && J.v < M.nd) {
      const BallMap<T>& m = w.balls[-1 - M.v_q[J.v]];
      const int first = j - 2;
      T* v = b + size_t(J.v - 2) * ld;
      T r[3];
      for (int i = 0; i < 3; ++i) {
        a.read(w.gen.P1j + 8 * (first + i));
        r[i] = v[size_t(i) * ld] - a.dot(phi);
      }
      for (int i = 0; i < 3; ++i) {
        const T z = m.pivot(i, 0) * r[0] + m.pivot(i, 1) * r[1] + m.pivot(i, 2) * r[2];
        w.newton.z[first + i] = z;
        c.read(w.newton.U + 8 * (first + i));
        phi.add(z, c);
      }
      j = first;
      up = w.newton.phi + 8 * M.joints[first].parent;
    } else if (J.v < M.nd) {
      T sum = next;
      if (!begun) {
        a.read(w.gen.P1j + 8 * j);
        sum = a.dot(phi);
      }
      if (alone) {
        a.read(w.gen.P1j + 8 * (j - 1));
        next = a.dot(phi);
      }
      const T z = (b[size_t(J.v) * ld] - sum) * w.newton.inverse_D[j];
      w.newton.z[j] = z;
      if (alone) next += z * w.newton.ahead[j];
      c.read(w.newton.U + 8 * j);
      phi.add(z, c);
    }
    if (alone) continue;
    c.read(up);
    c.add(T(1.0), phi);
    c.write(up);
  }
  for (int l = 0; l < 8; ++l) w.newton.phi[l] = T(0.0);  // now xi by pose index
  Eight<T> xi;
  int pose = -1;  // whose xi it is
  alone = false;
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    if (pose != J.parent) xi.read(w.newton.phi + 8 * J.parent);
    const bool begun = alone;
    alone = j + 1 < M.nm && alone_below(M, j + 1);
    if (J.kind == JointKind::BX && J.v < M.nd) {
      const Eight<T> at = xi;
      for (int i = 0; i < 3; ++i) {
        a.read(w.newton.W + 8 * (j + i));
        const T y = w.newton.z[j + i] - a.dot(at);
        b[size_t(J.v + i) * ld] = y;
        c.read(w.gen.P2j + 8 * (j + i));
        xi.add(y, c);
      }
      j += 2;
    } else if (J.v < M.nd) {
      T sum = next;
      if (!begun) {
        a.read(w.newton.W + 8 * j);
        sum = a.dot(xi);
      }
      if (alone) {
        a.read(w.newton.W + 8 * (j + 1));
        next = a.dot(xi);
      }
      const T y = w.newton.z[j] - sum;
      b[size_t(J.v) * ld] = y;
      if (alone) next += y * w.newton.behind[j + 1];
      c.read(w.gen.P2j + 8 * j);
      xi.add(y, c);
    }
    pose = j + 1;
    xi.write(w.newton.phi + 8 * pose);
  }
}

// The same with the transposed matrix, for models without balls: P1 and P2, U and W change places.
//
// reads gen.P1j, gen.P2j, newton.U, W, inverse_D; writes b; scratch: newton.phi, newton.z
inline void chain_solve_transposed(Work<double>& w, double* b) {
  const ModelData& M = *w.M;
  for (int i = 0; i < 8 * (M.nm + 1); ++i) w.newton.phi[i] = 0;
  Eight<double> phi, a;
  for (int j = M.nm - 1; j >= 0; --j) {
    const Joint& J = M.joints[j];
    double* up = w.newton.phi + 8 * J.parent;
    phi.read(w.newton.phi + 8 * (j + 1));
    if (J.v < M.nd) {
      a.read(w.gen.P2j + 8 * j);
      const double z = b[J.v] - a.dot(phi);
      w.newton.z[j] = z * w.newton.inverse_D[j];
      phi.add(z, w.newton.W + 8 * j);  // W is divided by D already
    }
    phi.add(1.0, up);
    phi.write(up);
  }
  for (int l = 0; l < 8; ++l) w.newton.phi[l] = 0;  // now sums over the path
  for (int j = 0; j < M.nm; ++j) {
    const Joint& J = M.joints[j];
    phi.read(w.newton.phi + 8 * J.parent);
    if (J.v < M.nd) {
      a.read(w.newton.U + 8 * j);
      const double y = w.newton.z[j] - a.dot(phi) * w.newton.inverse_D[j];
      b[J.v] = y;
      phi.add(y, w.gen.P1j + 8 * j);
    }
    phi.write(w.newton.phi + 8 * (j + 1));
  }
}

// ---- small dense systems
// A (n x n, destroyed), B (n x nr, row stride ld) <- A^-1 B with partial pivoting; returns smallest / largest pivot.
inline double dense_solve(double* __restrict A, int n, double* __restrict B, int nr, int ld) {
  double least = 1e300, most = 0;
  for (int k = 0; k < n; ++k) {
    int p = k;
    for (int i = k + 1; i < n; ++i)
      if (__builtin_fabs(A[i * n + k]) > __builtin_fabs(A[p * n + k])) p = i;
    double piv = __builtin_fabs(A[p * n + k]);
    if (!(piv >= least)) least = piv;
    if (piv > most) most = piv;
    if (p != k) {
      for (int j = 0; j < n; ++j) {
        double t = A[k * n + j];
        A[k * n + j] = A[p * n + j];
        A[p * n + j] = t;
      }
      for (int j = 0; j < nr; ++j) {
        double t = B[size_t(k) * ld + j];
        B[size_t(k) * ld + j] = B[size_t(p) * ld + j];
        B[size_t(p) * ld + j] = t;
      }
    }
    double inv = 1.0 / A[k * n + k];
    for (int i = k + 1; i < n; ++i) {
      double f = A[i * n + k] * inv;
      if (f == 0) continue;
      for (int j = k + 1; j < n; ++j) A[i * n + j] -= f * A[k * n + j];
      row_sub(B + size_t(i) * ld, f, B + size_t(k) * ld, nr);
    }
  }
  for (int k = n - 1; k >= 0; --k) {
    double inv = 1.0 / A[k * n + k];
    double* bk = B + size_t(k) * ld;
    for (int i = k + 1; i < n; ++i) row_sub(bk, A[k * n + i], B + size_t(i) * ld, nr);
    for (int j = 0; j < nr; ++j) bk[j] *= inv;
  }
  return n ? least / most : 1.0;
}

// Least-squares least-norm solution of A x = b by one-sided Jacobi (small n, redundant constraints). A (n x n)
// destroyed; V (n x n) and s (2 n) scratch; B overwritten. Returns the numerical rank.
inline int least_norm(double* A, double* V, double* s, int n, double* B, int nr, int ld, double tol) {
  for (int i = 0; i < n * n; ++i) V[i] = 0;
  for (int i = 0; i < n; ++i) V[i * n + i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0;
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        double a = 0, b = 0, c = 0;
        for (int i = 0; i < n; ++i) {
          a += A[i * n + p] * A[i * n + p];
          b += A[i * n + q] * A[i * n + q];
          c += A[i * n + p] * A[i * n + q];
        }
        if (!(c * c > 1e-32 * a * b) || c == 0) continue;
        off = 1;
        double z = (b - a) / (2 * c), t = (z >= 0 ? 1 : -1) / (__builtin_fabs(z) + std::sqrt(1 + z * z));
        double cs = 1 / std::sqrt(1 + t * t), sn = cs * t;
        for (int i = 0; i < n; ++i) {
          double x = A[i * n + p], y = A[i * n + q];
          A[i * n + p] = cs * x - sn * y;
          A[i * n + q] = sn * x + cs * y;
          x = V[i * n + p];
          y = V[i * n + q];
          V[i * n + p] = cs * x - sn * y;
          V[i * n + q] = sn * x + cs * y;
        }
      }
    if (off == 0) break;
  }
  double top = 0;
  int rank = 0;
  for (int k = 0; k < n; ++k) {
    double t = 0;
    for (int i = 0; i < n; ++i) t += A[i * n + k] * A[i * n + k];
    s[k] = std::sqrt(t);
    if (s[k] > top) top = s[k];
  }
  for (int k = 0; k < n; ++k) rank += s[k] > tol * top;
  for (int j = 0; j < nr; ++j) {
    // coefficients U^T b / s on the kept singular values, then V times them
    double* coef = s + n;
    for (int k = 0; k < n; ++k) {
      double t = 0;
      if (s[k] > tol * top)
        for (int i = 0; i < n; ++i) t += A[i * n + k] * B[size_t(i) * ld + j];
      coef[k] = s[k] > tol * top ? t / (s[k] * s[k]) : 0;
    }
    for (int i = 0; i < n; ++i) {
      double t = 0;
      for (int k = 0; k < n; ++k) t += V[i * n + k] * coef[k];
      B[size_t(i) * ld + j] = t;
    }
  }
  return rank;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
