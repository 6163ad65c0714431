"""filterpy's extended Kalman filter on the cart-pole, and the same in plain NumPy: trial by trial, and all at once.

The model is the symplectic Euler step with its Jacobian written by hand: 4 states, both coordinates measured.
"""

from __future__ import annotations

from importlib.metadata import version as _installed
from typing import Any

import numpy as np
from filterpy.kalman import ExtendedKalmanFilter

from . import Case

DT, G = 0.02, 9.8
H = np.eye(2, 4)


def version() -> str:
    return _installed("filterpy")


def _step(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Next states (..., 4) of (x, theta, x', theta') and their Jacobians (..., 4, 4); cart, bob and rod are 1."""
    th, w = x[..., 1], x[..., 3]
    s, c = np.sin(th), np.cos(th)
    d = 2 - c * c  # (m + M - m cos^2)
    ax = (s * w**2 + G * s * c) / d
    aw = -(c * ax + G * s)
    dd = 2 * c * s
    ax_th = (c * w**2 + G * (c * c - s * s)) / d - ax * dd / d
    ax_w = 2 * s * w / d
    aw_th = s * ax - c * ax_th - G * c
    aw_w = -c * ax_w
    v = np.stack([x[..., 2] + DT * ax, w + DT * aw], axis=-1)
    y = np.concatenate([x[..., :2] + DT * v, v], axis=-1)
    A = np.zeros((*x.shape[:-1], 4, 4))
    A[..., 2, 1], A[..., 2, 3], A[..., 3, 1] = DT * ax_th, DT * ax_w, DT * aw_th
    A[..., 2, 2], A[..., 3, 3] = 1.0, 1 + DT * aw_w
    A[..., 0, :] = DT * A[..., 2, :]
    A[..., 0, 0] += 1
    A[..., 1, :] = DT * A[..., 3, :]
    A[..., 1, 1] += 1
    return y, A


def ekf(trials: int, steps: int, how: str) -> Case:
    """`how`: "filterpy", "loop" (NumPy, one trial after the other) or "vectorised" (NumPy over all trials)."""
    X = np.empty((steps + 1, 4))
    X[0] = (0.0, 1.0, 0.0, 0.0)
    for k in range(steps):
        X[k + 1] = _step(X[k])[0]
    rng = np.random.default_rng(0)
    Z = X[:, :2] + 0.1 * rng.normal(size=(trials, steps + 1, 2))
    start = X[0] + 0.1 * rng.normal(size=(trials, 4))
    Q, R, P0 = 1e-6 * np.eye(4), 0.01 * np.eye(2), 0.01 * np.eye(4)

    class Filter(ExtendedKalmanFilter):
        def predict_x(self, u: Any = 0) -> None:
            self.x, self.F = _step(self.x)

    def by_filterpy() -> float:
        total = 0.0
        for i in range(trials):
            f = Filter(dim_x=4, dim_z=2)
            f.x, f.P, f.Q, f.R = start[i].copy(), P0.copy(), Q, R
            for k in range(1, steps + 1):
                f.predict()
                f.update(Z[i, k], lambda _: H, lambda x: x[:2])
                total += float(np.sqrt(((f.x - X[k]) ** 2).sum()))
        return total / trials / steps

    def by_numpy(x: np.ndarray, z: np.ndarray) -> float:
        P = np.broadcast_to(P0, (*x.shape[:-1], 4, 4))
        total = 0.0
        for k in range(1, steps + 1):
            x, A = _step(x)
            P = A @ P @ np.swapaxes(A, -1, -2) + Q
            S = P[..., :2, :2] + R
            K = np.swapaxes(np.linalg.solve(S, P[..., :2, :]), -1, -2)
            x = x + (K @ (z[..., k, :] - x[..., :2])[..., None])[..., 0]
            P = P - K @ P[..., :2, :]
            total += float(np.sqrt(((x - X[k]) ** 2).sum(axis=-1)).sum())
        return total

    def run() -> float:
        if how == "filterpy":
            return by_filterpy()
        if how == "vectorised":
            return by_numpy(start, Z) / trials / steps
        return sum(by_numpy(start[i], Z[i]) for i in range(trials)) / trials / steps

    return Case(run, lambda e: {"error": e})
