// What a supported compiler lacks. GCC 11 has no __builtin_shufflevector: there an entry-wise constructor says the
// same, which its optimizer turns back into shuffles.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
namespace dalembert {

template <int... Index, class Vector> static inline __attribute__((always_inline)) auto shuffle(Vector a, Vector b) {
  constexpr int width = sizeof(Vector) / sizeof(double);
  typedef double Picked __attribute__((vector_size(8 * sizeof...(Index))));
  return Picked{(Index < width ? a[Index % width] : b[Index % width])...};
}

}  // namespace dalembert
#define __builtin_shufflevector(a, b, ...) ::dalembert::shuffle<__VA_ARGS__>(a, b)
#endif
