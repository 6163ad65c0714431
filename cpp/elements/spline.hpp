// Piecewise quintic of one number and its derivatives; one look-up per lane.
#pragma once
#include "../work.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

// piece 0 is the left extension, piece i starts at ends[i]
DAL_INLINE int spline_piece(const SplineTable& s, double x) {
  int lo = 0, hi = int(s.ends.size()) - 1;
  if (!(x < s.ends[1])) {
    lo = 1;
    while (lo < hi) {
      int mid = (lo + hi + 1) / 2;
      if (s.ends[mid] <= x) lo = mid;
      else hi = mid - 1;
    }
  }
  return lo;
}
// out[0..4]: value and four derivatives; area: integral from the second end
DAL_INLINE void spline_at(const SplineTable& s, double x, double* out, double* area) {
  const int lo = spline_piece(s, x);
  const double* c = s.c.data() + 6 * lo;
  double d = x - s.ends[lo];
  out[0] = c[0] + d * (c[1] + d * (c[2] + d * (c[3] + d * (c[4] + d * c[5]))));
  out[1] = c[1] + d * (2 * c[2] + d * (3 * c[3] + d * (4 * c[4] + d * 5 * c[5])));
  out[2] = 2 * c[2] + d * (6 * c[3] + d * (12 * c[4] + d * 20 * c[5]));
  out[3] = 6 * c[3] + d * (24 * c[4] + d * 60 * c[5]);
  out[4] = 24 * c[4] + d * 120 * c[5];
  *area = s.area[lo] + d * (c[0] + d * (c[1] / 2 + d * (c[2] / 3 + d * (c[3] / 4 + d * (c[4] / 5 + d * c[5] / 6)))));
}
DAL_INLINE void spline_at(const SplineTable& s, const double& x, double (&out)[4], double& area) {
  double o[5];
  spline_at(s, x, o, &area);
  for (int i = 0; i < 4; ++i) out[i] = o[i];
}
DAL_INLINE void spline_at(const SplineTable& s, const Dual& x, Dual (&out)[4], Dual& area) {
  double o[5], a;
  spline_at(s, x.v, o, &a);
  for (int i = 0; i < 4; ++i) out[i] = Dual(o[i], o[i + 1] * x.d);
  area = Dual(a, o[0] * x.d);
}
DAL_INLINE void spline_at(const SplineTable& s, const Lanes& x, Lanes (&out)[4], Lanes& area) {
  for (int l = 0; l < kWidth; ++l) {
    double o[5], a;
    spline_at(s, x.v[l], o, &a);
    for (int i = 0; i < 4; ++i) out[i].v[l] = o[i];
    area.v[l] = a;
  }
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
