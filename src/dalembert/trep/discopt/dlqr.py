"""Time-varying LQ problems, solved by dalembert's Riccati sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...control import solve_lq
from ...errors import SingularityError

Array = NDArray[np.float64]


def series(weight: Any, count: int) -> Array:
    """A weight over the steps: a function of k, a sequence of matrices, or one matrix for all."""
    if callable(weight):
        return np.stack([np.asarray(weight(k), dtype=float) for k in range(count)])
    rows = np.asarray(weight, dtype=float)
    return np.broadcast_to(rows, (count, *rows.shape)).copy() if rows.ndim == 2 else rows[:count]


def solve_tv_lqr(A: Any, B: Any, Q: Callable[[int], Any], R: Callable[[int], Any]) -> tuple[list[Array], Array]:
    """(K, P(0)) of the regulator u = -K(k) x for weights Q(k), R(k); Q(N) is the final weight.

    >>> A, B = [np.eye(1)] * 50, [np.eye(1)] * 50
    >>> K, P = solve_tv_lqr(A, B, lambda k: np.eye(1), lambda k: np.eye(1))
    >>> round(float(P[0, 0]), 6)
    1.618034
    """
    n = len(A)
    q = series(Q, n + 1)
    found = solve_lq(np.asarray(A, dtype=float), np.asarray(B, dtype=float), q[:n], series(R, n), q[n])
    assert found.P is not None
    return list(found.K), found.P[0]


def solve_tv_lq(
    A: Any, B: Any, q: Any, r: Any, Q: Callable[[int], Any], S: Callable[[int], Any], R: Callable[[int], Any]
) -> tuple[list[Array], list[Array], Array, Array]:
    """(K, C, P(0), b(0)) of u = -K(k) x - C(k) for the LQ problem with linear terms q (N+1), r (N) and weights Q, S, R.

    Where the problem has no minimum the stationary point is returned, as in trep.
    """
    n = len(A)
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    weights, linear, r = series(Q, n + 1), np.asarray(q, dtype=float), np.asarray(r, dtype=float)
    cross, inputs = series(S, n), series(R, n)
    if len(linear) != n + 1:
        raise ValueError(f"q needs {n + 1} rows (the last for the end), not {len(linear)}")
    try:
        found = solve_lq(A, B, weights[:n], inputs, weights[n], S=cross, q=linear[:n], r=r, qf=linear[n])
    except SingularityError:
        return _stationary(A, B, linear, r, weights, cross, inputs)
    assert found.P is not None
    assert found.p is not None
    return list(found.K), list(found.k), found.P[0], found.p[0]


def _stationary(
    A: Array, B: Array, q: Array, r: Array, Q: Array, S: Array, R: Array
) -> tuple[list[Array], list[Array], Array, Array]:
    """The stationary point of a problem without a minimum, which trep returns without a word: its optimizer then looks
    at the slope along the direction."""
    P, b = Q[-1], q[-1]
    K, C = [], []
    for k in reversed(range(len(A))):
        gamma = R[k] + B[k].T @ P @ B[k]
        gain = np.linalg.solve(gamma, B[k].T @ P @ A[k] + S[k].T)
        shift = np.linalg.solve(gamma, B[k].T @ b + r[k])
        b = (A[k] - B[k] @ gain).T @ b + q[k] - gain.T @ r[k]
        P = Q[k] + A[k].T @ P @ A[k] - gain.T @ gamma @ gain
        K.append(gain)
        C.append(shift)
    return K[::-1], C[::-1], P, b
