// One extended Kalman filter, step by step: covariances carried through the derivative of a step, and the update by a
// measurement in Joseph form; batches of filters side by side are in ekf.hpp.
//
//   P' = A P A' + Q,   S = H P H' + R,   K = P H' S^-1,   P'' = (1 - K H) P (1 - K H)' + K R K'
//
// n tangent components of a state, m measured entries. Contract: row-major doubles, symmetric P, Q, R; `work` has
// kalman_room(n, m) doubles; nothing is allocated.
#pragma once
#include "configuration.hpp"
#include "gemm.hpp"
#include "rotation.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

std::size_t kalman_room(int n, int m) {
  const int most = n > m ? n : m;
  return size_t(n) * n + 3 * size_t(n) * m + size_t(m) * m + 2 * size_t(m) + gemm_workspace(most, most, most) + 16;
}

// P = (P + P') / 2
static void symmetric(int n, double* P) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j) P[i * n + j] = P[j * n + i] = 0.5 * (P[i * n + j] + P[j * n + i]);
}

// in: A, P, Q (n, n), `scale` of Q; out: next = A P A' + scale Q, and cross = P A' (n, n), the covariance of the states
// before and after the step
void kalman_predict(int n, const double* A, const double* P, const double* Q, double scale, double* next, double* cross,
                    double* work) {
  double* room = work + size_t(n) * n;
  gemm(n, n, n, 1.0, A, n, 1, P, n, 1, 0.0, work, n, room);  // A P
  for (int i = 0; i < n * n; ++i) next[i] = scale * Q[i];
  gemm(n, n, n, 1.0, work, n, 1, A, 1, n, 1.0, next, n, room);
  symmetric(n, next);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) cross[i * n + j] = work[j * n + i];
}

// in: H (m, n), innovation e (m), R (m, m), P (n, n), `limit` of the squared length of e; out: that length, and where
// it is within the limit the correction dx (n) and next (n, n). Returns 0, 1: refused, 2: S is not positive definite.
int kalman_update(int n, int m, const double* H, const double* e, const double* R, double limit, const double* P,
                  double* distance, double* dx, double* next, double* work) {
  double *G = work, *K = G + size_t(n) * m, *T = K + size_t(n) * m, *S = T + size_t(n) * m, *inverse = S + m * m,
         *white = inverse + m, *room = white + m;
  gemm(n, m, n, 1.0, P, n, 1, H, 1, n, 0.0, G, m, room);  // G = P H'
  for (int i = 0; i < m * m; ++i) S[i] = R[i];
  gemm(m, m, n, 1.0, H, n, 1, G, m, 1, 1.0, S, m, room);
  symmetric(m, S);
  // S = L L', the reciprocal diagonal apart
  for (int j = 0; j < m; ++j) {
    double d = S[j * m + j];
    for (int c = 0; c < j; ++c) d -= S[j * m + c] * S[j * m + c];
    if (!(d > 0)) return 2;
    d = std::sqrt(d);
    S[j * m + j] = d;
    inverse[j] = 1 / d;
    for (int i = j + 1; i < m; ++i) {
      double t = S[i * m + j];
      for (int c = 0; c < j; ++c) t -= S[i * m + c] * S[j * m + c];
      S[i * m + j] = t * inverse[j];
    }
  }
  // squared length of the innovation
  double length = 0;
  for (int i = 0; i < m; ++i) {
    double t = e[i];
    for (int c = 0; c < i; ++c) t -= S[i * m + c] * white[c];
    white[i] = t * inverse[i];
    length += white[i] * white[i];
  }
  *distance = length;
  if (length > limit) return 1;
  // K = G S^-1 and dx = K e, row by row
  for (int j = 0; j < n; ++j) {
    double *k = K + size_t(j) * m, move = 0;
    for (int i = 0; i < m; ++i) {
      double t = G[size_t(j) * m + i];
      for (int c = 0; c < i; ++c) t -= S[i * m + c] * k[c];
      k[i] = t * inverse[i];
    }
    for (int i = m - 1; i >= 0; --i) {
      double t = k[i];
      for (int c = i + 1; c < m; ++c) t -= S[c * m + i] * k[c];
      k[i] = t * inverse[i];
    }
    for (int i = 0; i < m; ++i) move += k[i] * e[i];
    dx[j] = move;
  }
  // with B = (1 - K H) P = P - K G':  B (1 - K H)' + K R K' = B - (B H' - K R) K'
  for (int i = 0; i < n * n; ++i) next[i] = P[i];
  gemm(n, n, m, -1.0, K, m, 1, G, 1, m, 1.0, next, n, room);
  gemm(n, m, n, 1.0, next, n, 1, H, 1, n, 0.0, T, m, room);
  gemm(n, m, m, -1.0, K, m, 1, R, m, 1, 1.0, T, m, room);
  gemm(n, n, m, -1.0, T, m, 1, K, 1, m, 1.0, next, n, room);
  symmetric(n, next);
  return 0;
}

// The derivative (nz, ndx) by tangent components of a linear sensor C (nz, nx) at the state x (nx)
void kalman_slope(const ModelData& M, int nz, const double* C, const double* x, double* H) {
  const int nx = M.nq + M.nd + M.nk, ndx = M.nv + M.nd + M.nk;
  for (int r = 0; r < nz; ++r) {
    const double* c = C + size_t(r) * nx;
    double* h = H + size_t(r) * ndx;
    for_components(M, 0, M.nv, [&](int k, int i) { h[i] = c[k]; }, [&](int k, int i) {  // of q exp(phi) by phi
      const double *q = x + k, *a = c + k;
      h[i] = 0.5 * (-q[1] * a[0] + q[0] * a[1] + q[3] * a[2] - q[2] * a[3]);
      h[i + 1] = 0.5 * (-q[2] * a[0] - q[3] * a[1] + q[0] * a[2] + q[1] * a[3]);
      h[i + 2] = 0.5 * (-q[3] * a[0] + q[2] * a[1] - q[1] * a[2] + q[0] * a[3]);
    });
    for (int i = 0; i < M.nd + M.nk; ++i) h[M.nv + i] = c[M.nq + i];
  }
}

// in: x (nx), dx (ndx), P (ndx, ndx) of differences from x; out: next = x moved by dx (nx), P of differences from
// there. false: a ball is turned so far (half a turn) that its differences are not unique.
bool kalman_move(const ModelData& M, const double* x, const double* dx, double* next, double* P) {
  const int n = M.nv + M.nd + M.nk;
  integrate(M, x, dx, next, 0, M.nv);
  for (int i = 0; i < M.nd + M.nk; ++i) next[M.nq + i] = x[M.nq + i] + dx[M.nv + i];
  for (const Ball& b : M.balls) {
    const V3<double> phi = {dx[b.v], dx[b.v + 1], dx[b.v + 2]};
    const double s = dot(phi, phi);
    if (!(s < 9.0)) return false;
    // J of exp(phi + d) = exp(phi) exp(J d)
    const double angle = std::sqrt(s),
                 a = s < 1e-2 ? 0.5 - s / 24 + s * s / 720 - s * s * s / 40320 : (1 - std::cos(angle)) / s,
                 c = s < 1e-2 ? 1.0 / 6 - s / 120 + s * s / 5040 - s * s * s / 362880
                              : (angle - std::sin(angle)) / (s * angle);
    const Mat3<double> X = cross_matrix(phi), J = identity3<double>() + X * -a + X * X * c;
    auto turn = [&](double* at, std::ptrdiff_t stride) {
      const V3<double> y = J * V3<double>{at[0], at[stride], at[2 * stride]};
      at[0] = y.x;
      at[stride] = y.y;
      at[2 * stride] = y.z;
    };
    for (int j = 0; j < n; ++j) turn(P + size_t(b.v) * n + j, n);
    for (int i = 0; i < n; ++i) turn(P + size_t(i) * n + b.v, 1);
  }
  if (!M.balls.empty()) symmetric(n, P);
  return true;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
