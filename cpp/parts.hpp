// Parts of a step of order 2, 4 or 6: midpoint steps whose lengths are these fractions of it (M. Suzuki, Phys. Lett. A
// 146, 1990: five parts; W. Kahan, R.-C. Li, Math. Comp. 66, 1997: nine). Symmetric, so the order is even; sum w_i = 1,
// sum w_i^3 = 0, and two more conditions for six.
#pragma once

namespace dalembert {

constexpr int kMostParts = 9;

struct Parts {
  int count;
  double length[kMostParts];   // of each part
  double end[kMostParts + 1];  // part i runs from end[i] to end[i + 1]
};

// half: the lengths before the middle one
template <int N> constexpr Parts symmetric_parts(const double (&half)[N], int n) {
  Parts out{2 * n + 1, {}, {}};
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    out.length[i] = out.length[2 * n - i] = half[i];
    sum += half[i];
  }
  out.length[n] = 1 - 2 * sum;
  for (int i = 0; i <= 2 * n; ++i) out.end[i + 1] = out.end[i] + out.length[i];
  out.end[2 * n + 1] = 1;
  return out;
}

constexpr double kFour[] = {0.41449077179437573714, 0.41449077179437573714};  // 1 / (4 - 4^(1/3))
constexpr double kSix[] = {0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981,
                           0.082213596293550800230};
constexpr Parts kParts[] = {symmetric_parts(kFour, 0), symmetric_parts(kFour, 2), symmetric_parts(kSix, 4)};

// nullptr for another order
constexpr const Parts* parts_of(int order) {
  return order == 2 ? &kParts[0] : order == 4 ? &kParts[1] : order == 6 ? &kParts[2] : nullptr;
}

}  // namespace dalembert
