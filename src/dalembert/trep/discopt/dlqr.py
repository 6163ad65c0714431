"""Time-varying LQ problems, solved by dalembert's Riccati sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...control import LQSolution, solve_lq
from ...errors import SingularityError

Array = NDArray[np.float64]


class Series:
    """Matrices over the steps, read as m(k) or m[k]."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def __call__(self, k: int) -> Array:
        return self.rows[k]  # type: ignore[no-any-return]

    __getitem__ = __call__

    def __len__(self) -> int:
        return len(self.rows)


def series(weight: object, count: int) -> Array:
    """A weight over the steps: a function of k, a sequence of matrices, or one matrix for all."""
    if isinstance(weight, Series):
        return weight.rows[:count]
    if callable(weight):
        return np.stack([np.asarray(weight(k), dtype=float) for k in range(count)])
    rows = np.asarray(weight, dtype=float)
    return np.broadcast_to(rows, (count, *rows.shape)).copy() if rows.ndim == 2 else rows[:count]


def _compact(rows: Array) -> Array:
    """One matrix where all are equal, which the Riccati sweep reads faster."""
    return rows[0] if len(rows) and (rows == rows[0]).all() else rows


def regulator(A: Array, B: Array, Q: object, R: object, *, cost_to_go: bool) -> LQSolution:
    """LQ problem without linear terms; Q has one more entry than R, for the end."""
    n = len(A)
    q = series(Q, n + 1)
    return solve_lq(A, B, _compact(q[:n]), _compact(series(R, n)), q[n], cost_to_go=cost_to_go)


def solve_tv_lqr(A: object, B: object, Q: Callable[[int], Any], R: Callable[[int], Any]) -> tuple[list[Array], Array]:
    """(K, P(0)) of the regulator u = -K(k) x for weights Q(k), R(k); Q(N) is the final weight.

    >>> A, B = [np.eye(1)] * 50, [np.eye(1)] * 50
    >>> K, P = solve_tv_lqr(A, B, lambda k: np.eye(1), lambda k: np.eye(1))
    >>> round(float(P[0, 0]), 6)
    1.618034
    """
    found = regulator(np.asarray(A, dtype=float), np.asarray(B, dtype=float), Q, R, cost_to_go=True)
    assert found.P is not None
    return list(found.K), found.P[0]


def affine(
    A: Array, B: Array, q: Array, r: Array, Q: object, S: object, R: object, *, cost_to_go: bool
) -> tuple[Array, Array, Array | None, Array | None]:
    """(K, C, P(0), b(0)) of an LQ problem with linear terms; its stationary point where it has no minimum."""
    n = len(A)
    weights, cross, inputs = series(Q, n + 1), series(S, n), series(R, n)
    if len(q) != n + 1:
        raise ValueError(f"q needs {n + 1} rows (the last for the end), not {len(q)}")
    try:
        found = solve_lq(
            A,
            B,
            _compact(weights[:n]),
            _compact(inputs),
            weights[n],
            S=cross if cross.any() else None,
            q=q[:n],
            r=r,
            qf=q[n],
            cost_to_go=cost_to_go,
        )
    except SingularityError:
        return _stationary(A, B, q, r, weights, cross, inputs)
    first = (None, None) if found.P is None or found.p is None else (found.P[0], found.p[0])
    return found.K, found.k, *first


def solve_tv_lq(
    A: object,
    B: object,
    q: object,
    r: object,
    Q: Callable[[int], Any],
    S: Callable[[int], Any],
    R: Callable[[int], Any],
) -> tuple[list[Array], list[Array], Array, Array]:
    """(K, C, P(0), b(0)) of u = -K(k) x - C(k) for the LQ problem with linear terms q (N+1), r (N) and weights Q, S, R.

    Where the problem has no minimum the stationary point is returned, as in trep.
    """
    A, B, q, r = (np.asarray(x, dtype=float) for x in (A, B, q, r))
    K, C, P, b = affine(A, B, q, r, Q, S, R, cost_to_go=True)
    assert P is not None
    assert b is not None
    return list(K), list(C), P, b


def _stationary(
    A: Array, B: Array, q: Array, r: Array, Q: Array, S: Array, R: Array
) -> tuple[Array, Array, Array, Array]:
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
    return np.array(K[::-1]), np.array(C[::-1]), P, b
