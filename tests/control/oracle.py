"""The affine LQ problem twice more: the recursion in plain numpy, and the whole problem as one linear system."""

from __future__ import annotations

import numpy as np


def riccati(A, B, Q, R, Qf, S=None, q=None, r=None, qf=None, c=None, regularization=0.0):
    """Arrays with a time axis only. Returns K, k, P, p, constant."""
    N, n, m = B.shape
    S = np.zeros((N, n, m)) if S is None else S
    q, c = (np.zeros((N, n)) if a is None else a for a in (q, c))
    r = np.zeros((N, m)) if r is None else r
    P, p, constant = [Qf], [np.zeros(n) if qf is None else qf], 0.0
    K, k = [], []
    for i in reversed(range(N)):
        g = p[0] + P[0] @ c[i]
        constant += c[i] @ (p[0] + P[0] @ c[i] / 2)
        G = R[i] + regularization * np.eye(m) + B[i].T @ P[0] @ B[i]
        H = S[i].T + B[i].T @ P[0] @ A[i]
        y = r[i] + B[i].T @ g
        K.insert(0, np.linalg.solve(G, H))
        k.insert(0, np.linalg.solve(G, y))
        constant -= y @ k[0] / 2
        p.insert(0, q[i] + A[i].T @ g - H.T @ k[0])
        new = Q[i] + A[i].T @ P[0] @ A[i] - H.T @ K[0]
        P.insert(0, (new + new.T) / 2)
    return np.array(K), np.array(k), np.array(P), np.array(p), constant


def stationary(A, B, Q, R, Qf, S, q, r, qf, c, x0):
    """Minimum by the KKT system of all steps at once: X, U, cost."""
    N, n, m = B.shape
    size = N * m + (N + 1) * n
    H, g = np.zeros((size, size)), np.zeros(size)
    E, e = np.zeros(((N + 1) * n, size)), np.zeros((N + 1) * n)
    xs = [slice(k * (n + m), k * (n + m) + n) for k in range(N + 1)]
    us = [slice(k * (n + m) + n, (k + 1) * (n + m)) for k in range(N)]
    for k in range(N):
        H[xs[k], xs[k]], H[us[k], us[k]] = Q[k], R[k]
        H[xs[k], us[k]], H[us[k], xs[k]] = S[k], S[k].T
        g[xs[k]], g[us[k]] = q[k], r[k]
        rows = slice((k + 1) * n, (k + 2) * n)
        E[rows, xs[k + 1]], E[rows, xs[k]], E[rows, us[k]], e[rows] = np.eye(n), -A[k], -B[k], c[k]
    H[xs[N], xs[N]], g[xs[N]] = Qf, qf
    E[:n, xs[0]], e[:n] = np.eye(n), x0
    kkt = np.block([[H, E.T], [E, np.zeros((len(E), len(E)))]])
    z = np.linalg.solve(kkt, np.concatenate([-g, e]))[:size]
    X, U = np.array([z[s] for s in xs]), np.array([z[s] for s in us])
    return X, U, z @ H @ z / 2 + g @ z
