// Joints side by side: formulas that are the same for every joint run over as many joints as a register holds, or over
// one where the scalar fills the register itself (Lanes, Dual). What they read and write is kept by blocks of joints,
// and in a block entry by entry: entry l of joint j is at lane_of<T>(j, entries) + l * Side<T>::block.
#pragma once
#include "gemm.hpp"
#include "spatial.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

constexpr int kBlock = kWidth > 4 ? 8 : 4;
template <class T> struct Side {
  using type = T;
  static constexpr int n = 1, block = 1;
};
template <> struct Side<double> {
  using type = Lanes;
  static constexpr int n = kWidth, block = kBlock;
};
template <class T> DAL_INLINE int lane_of(int j, int entries) {
  return (j & -Side<T>::block) * entries + (j & (Side<T>::block - 1));
}
template <class T> using SideOf = typename Side<T>::type;
DAL_INLINE Lanes get_side(const double* p) { return Lanes(load(p)); }
// one entry, or as many as fill a register, as L says
template <class L, class T> DAL_INLINE L read_as(const T* p) {
  if constexpr (std::is_same_v<L, T>) return *p;
  else return get_side(p);
}
template <class T> DAL_INLINE void put_side(T* p, const T& x) { *p = x; }
DAL_INLINE void put_side(double* p, const Lanes& x) { store(p, x.v); }

// Largest and sum of f(L(), i), i = 0 .. n - 1, with L = T for one entry or Lanes for a register of them, read by
// read_as<L>() and written by put_side(): arrays of Work from their beginning (they end where a register ends). Short
// ones go one by one: a register would wait for entries that were written a moment ago.
template <class T, class F, class G> DAL_INLINE void each_side(int n, F one, G several) {
  if (Side<T>::n == 1 || n < Side<T>::n) {
    for (int i = 0; i < n; ++i) one(i);
    return;
  }
  if constexpr (Side<T>::n > 1) {
    const Vec lane = []<size_t... l>(std::index_sequence<l...>) {
      return Vec{double(l)...};
    }(std::make_index_sequence<kWidth>{});
    int i = 0;
    for (; i + kWidth <= n; i += kWidth) several(i, [](const Vec& x) { return x; });
    if (i < n) several(i, [&](const Vec& x) { return keep(lane < splat(n - i), x); });
  }
}
// at least `least`; NaN may get lost, as in larger()
template <class T, class F> DAL_INLINE T largest(const T& least, int n, F f) {
  T out = least;
  Vec top = splat(0.0);
  each_side<T>(n, [&](int i) { out = larger(out, f(T(), i)); }, [&](int i, auto kept) {
    if constexpr (Side<T>::n > 1) {
      const Vec x = kept(f(Lanes(), i).v);
      top = top > x ? top : x;
    }
  });
  if constexpr (Side<T>::n > 1) out = larger(out, most(top));
  return out;
}
template <class T, class F> DAL_INLINE T total(int n, F f) {
  T out = T(0.0);
  Vec all = splat(0.0);
  each_side<T>(n, [&](int i) { out += f(T(), i); }, [&](int i, auto kept) {
    if constexpr (Side<T>::n > 1) all += kept(f(Lanes(), i).v);
  });
  if constexpr (Side<T>::n > 1) out += sum(all);
  return out;
}
template <class T> DAL_INLINE T product(const T* a, const T* b, int n) {
  return total<T>(n, [&]<class L>(L, int i) { return read_as<L>(a + i) * read_as<L>(b + i); });
}

// out[l] = entry l < N of the rows row(0), row(1), ..., one of each joint; reads whole groups of four entries
template <int N, class T, class F> DAL_INLINE void pick(SideOf<T>* out, F row) {
  if constexpr (Side<T>::n == 1) {
    const T* r = row(0);
    for (int l = 0; l < N; ++l) out[l] = r[l];
  } else {
#if defined(__AVX512F__)
#pragma GCC unroll 4
    for (int l = 0; l < N; l += 4) {
      auto two = [&](int i, int k) __attribute__((always_inline)) {
        const quad_vec x = *reinterpret_cast<const quad_vec*>(row(i) + l),
                       y = *reinterpret_cast<const quad_vec*>(row(k) + l);
        return __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7);
      };
      const auto a = two(0, 2), b = two(1, 3), c = two(4, 6), d = two(5, 7);
      const Vec even = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14),
                odd = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
      const Vec even2 = __builtin_shufflevector(c, d, 0, 8, 2, 10, 4, 12, 6, 14),
                odd2 = __builtin_shufflevector(c, d, 1, 9, 3, 11, 5, 13, 7, 15);
      out[l].v = __builtin_shufflevector(even, even2, 0, 1, 4, 5, 8, 9, 12, 13);
      if (l + 1 < N) out[l + 1].v = __builtin_shufflevector(odd, odd2, 0, 1, 4, 5, 8, 9, 12, 13);
      if (l + 2 < N) out[l + 2].v = __builtin_shufflevector(even, even2, 2, 3, 6, 7, 10, 11, 14, 15);
      if (l + 3 < N) out[l + 3].v = __builtin_shufflevector(odd, odd2, 2, 3, 6, 7, 10, 11, 14, 15);
    }
#elif defined(__AVX__)
#pragma GCC unroll 4
    for (int l = 0; l < N; l += 4) {
      quad_vec t[4];
      turn_block(row(0) + l, row(1) + l, row(2) + l, row(3) + l, t);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        if (l + i < N) out[l + i].v = t[i];
    }
#else
#pragma GCC unroll 12
    for (int l = 0; l < N; ++l) out[l].v = Vec{row(0)[l], row(1)[l]};
#endif
  }
}
template <class L> DAL_INLINE V6<L> as_twist(const L* x) { return {{x[0], x[1], x[2]}, {x[3], x[4], x[5]}}; }
template <class L> DAL_INLINE Inertia<L> as_inertia(const L* x) {
  return {x[0], {x[1], x[2], x[3]}, {x[4], x[5], x[6], x[7], x[8], x[9]}};
}
template <class T, class F> DAL_INLINE V6<SideOf<T>> pick6(F row) {
  SideOf<T> x[6];
  pick<6, T>(x, row);
  return as_twist(x);
}

// the same pointer; else the compiler computes the addresses of all lanes before the loop and keeps them on the stack
DAL_INLINE const double* opaque(const double* p) {
  asm("" : "+r"(p));
  return p;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
