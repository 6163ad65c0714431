"""Plain Riccati recursions in numpy: what the compiled kernel must agree with, and what stands in for it.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 4.5.
"""

from __future__ import annotations

import numpy as np


def solve_lq(A, B, Q, R, S=None, q=None, r=None):
    """Minimize sum over k of [q r][dx; du] + 1/2 [dx; du]'[Q S; S' R][dx; du] plus the terminal terms Q[N], q[N].

    Returns K (N, nu, nx), c (N, nu), P (N+1, nx, nx), b (N+1, nx) of du = -K dx - c.
    """
    N, nx, nu = B.shape
    S = np.zeros((N, nx, nu)) if S is None else S
    q = np.zeros((N + 1, nx)) if q is None else q
    r = np.zeros((N, nu)) if r is None else r
    P, b = np.zeros((N + 1, nx, nx)), np.zeros((N + 1, nx))
    K, c = np.zeros((N, nu, nx)), np.zeros((N, nu))
    P[N], b[N] = Q[N], q[N]
    for k in reversed(range(N)):
        G = R[k] + B[k].T @ P[k + 1] @ B[k]
        np.linalg.cholesky(G)
        H = S[k].T + B[k].T @ P[k + 1] @ A[k]
        g = r[k] + B[k].T @ b[k + 1]
        K[k], c[k] = np.linalg.solve(G, H), np.linalg.solve(G, g)
        P[k] = Q[k] + A[k].T @ P[k + 1] @ A[k] - H.T @ K[k]
        P[k] = (P[k] + P[k].T) / 2
        b[k] = q[k] + A[k].T @ b[k + 1] - H.T @ c[k]
    return K, c, P, b
