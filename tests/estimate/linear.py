"""A linear one-step, and its exact posterior by one big Gaussian."""

import numpy as np

import dalembert as da


class LinearSystem(da.OneStepMap):
    def __init__(self, A, B):
        self.A, self.B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
        self.nx, self.nu = self.B.shape
        self.x_names = tuple(f"x{i}" for i in range(self.nx))
        self.u_names = tuple(f"u{i}" for i in range(self.nu))

    def f(self, x, u, k=0):
        return self.A @ x + self.B @ u

    def linearize(self, x, u, k=0):
        return self.A, self.B


def posterior(system, m0, P0, Q, C, R, U, Z):
    """Mean (N+1, n) and covariance ((N+1) n square) of all states given all measurements (NaN rows are missing)."""
    N, n = len(U), system.nx
    mean = [np.asarray(m0, dtype=float)]
    for u in U:
        mean.append(system.f(mean[-1], u))
    mean = np.concatenate(mean)
    # prior covariance of the whole path: propagate (x0, w0, w1, ...) linearly
    M = np.zeros(((N + 1) * n, (N + 1) * n))
    for j in range(N + 1):
        block = np.eye(n)
        for i in range(j, N + 1):
            M[i * n : (i + 1) * n, j * n : (j + 1) * n] = block
            block = system.A @ block
    prior = M @ np.kron(np.diag([1.0] + [0.0] * N), P0) @ M.T + M @ np.kron(np.diag([0.0] + [1.0] * N), Q) @ M.T
    H, z, V = [], [], []
    for k, row in enumerate(Z):
        for i, value in enumerate(row):
            if not np.isnan(value):
                h = np.zeros((N + 1) * n)
                h[k * n : (k + 1) * n] = C[i]
                H.append(h)
                z.append(value)
                V.append(R[i, i])
    H, z, V = np.array(H), np.array(z), np.diag(V)
    K = prior @ H.T @ np.linalg.inv(H @ prior @ H.T + V)
    return (mean + K @ (z - H @ mean)).reshape(N + 1, n), prior - K @ H @ prior
