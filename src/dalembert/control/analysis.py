"""Controllability and observability: matrices, ranks, modes by the Popov-Belevitch-Hautus test, Gramians.

The matrices are what textbooks and Johnson, Schultz, Murphey, Structured linearization, section IV use; for more than
about ten states their powers drown in rounding, so ranks and directions come from the modal test
rank [A - lambda 1, B] at every eigenvalue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, positive, whole
from ..errors import SingularityError
from ..text import Brief


def controllability(A: ArrayLike, B: ArrayLike) -> Array:
    """The matrix [B, AB, ..., A^(n-1) B], shape (n, n m).

    >>> controllability([[1, 0.1], [0, 1]], [[0], [0.1]]).round(3)
    array([[0.  , 0.01],
           [0.1 , 0.1 ]])
    """
    A, B = _pair(A, B)
    blocks = [B]
    for _ in range(len(A) - 1):
        blocks.append(A @ blocks[-1])
    return np.hstack(blocks)


def observability(A: ArrayLike, C: ArrayLike) -> Array:
    """The matrix [C; CA; ...; C A^(n-1)], shape (n r, n).

    >>> observability([[1, 0.1], [0, 1]], [[1, 0]])
    array([[1. , 0. ],
           [1. , 0.1]])
    """
    return np.ascontiguousarray(controllability(*_dual(A, C)).T)


@dataclass(frozen=True, eq=False, repr=False)
class Mode(Brief):
    """An eigenvalue with directions (n, d) that no input reaches (or no output shows), and the states most involved."""

    eigenvalue: complex
    directions: Array
    states: tuple[str, ...]


def uncontrollable_modes(
    A: ArrayLike, B: ArrayLike, *, names: Sequence[str] | None = None, tolerance: float = 1e-9
) -> tuple[Mode, ...]:
    """Modes of A that B cannot influence: left directions w with w'[A - lambda 1, B] = 0, one entry per eigenvalue.

    `names` of the states go into the result. `tolerance` is relative to the size of [A, B].

    >>> modes = uncontrollable_modes([[0.5, 0], [0, 2]], [[1], [0]], names=("a", "b"))
    >>> [(mode.eigenvalue.real, mode.states) for mode in modes]
    [(2.0, ('b',))]
    """
    A, B = _pair(A, B)
    tolerance = positive(tolerance, "tolerance")
    n = len(A)
    labels = _names(names, n)
    scale = max(float(np.linalg.norm(A, 2)), float(np.linalg.norm(B, 2)), np.finfo(float).tiny)
    if controllable_rank(A, B, tolerance=tolerance) == n:
        return ()
    found: list[Mode] = []
    for value in _distinct(np.linalg.eigvals(A), 1e-6 * scale):
        pencil = np.hstack([A - (value if value.imag else value.real) * np.eye(n), B])
        if np.linalg.svd(pencil, compute_uv=False)[-1] > tolerance * scale:
            continue
        left, s, _ = np.linalg.svd(pencil, full_matrices=False)
        W = left[:, s <= tolerance * scale]
        found.append(Mode(complex(value), W, _involved(W, labels)))
    return tuple(found)


def unobservable_modes(
    A: ArrayLike, C: ArrayLike, *, names: Sequence[str] | None = None, tolerance: float = 1e-9
) -> tuple[Mode, ...]:
    """Modes of A that C does not show: right directions v with (A - lambda 1) v = 0, C v = 0.

    `names` and `tolerance` as in `uncontrollable_modes`.

    >>> [mode.states for mode in unobservable_modes([[0.5, 0], [0, 2]], [[1, 0]], names=("a", "b"))]
    [('b',)]
    """
    return uncontrollable_modes(*_dual(A, C), names=names, tolerance=tolerance)


def controllable_rank(A: ArrayLike, B: ArrayLike, *, tolerance: float = 1e-9) -> int:
    """Dimension of the controllable subspace, by an orthogonal staircase (no powers of A).

    Singular values below `tolerance` (after scaling) count as zero.

    >>> controllable_rank([[1, 0.1], [0, 1]], [[0], [0.1]])
    2
    """
    A, B = _pair(A, B)
    tolerance = positive(tolerance, "tolerance")
    scale = max(float(np.linalg.norm(A, 2)), float(np.linalg.norm(B, 2)), np.finfo(float).tiny)
    basis = np.zeros((len(A), 0))
    fresh = B / max(float(np.linalg.norm(B, 2)), np.finfo(float).tiny)
    while fresh.shape[1] and basis.shape[1] < len(A):
        # directions that are new, twice orthogonalized against all earlier ones
        for _ in range(2):
            fresh = fresh - basis @ (basis.T @ fresh)
        left, s, _ = np.linalg.svd(fresh, full_matrices=False)
        new = left[:, s > tolerance]
        basis = np.hstack([basis, new])
        fresh = A @ new / scale
    return basis.shape[1]


def observable_rank(A: ArrayLike, C: ArrayLike, *, tolerance: float = 1e-9) -> int:
    """Dimension of the part of x that the outputs C x show; `tolerance` as in `controllable_rank`.

    >>> observable_rank([[1, 0.1], [0, 1]], [[0, 1]])
    1
    """
    return controllable_rank(*_dual(A, C), tolerance=tolerance)


def controllability_gramian(A: ArrayLike, B: ArrayLike, steps: int | None = None) -> Array:
    """W = sum_k Phi_k B B' Phi_k' (n, n): energy of the states that unit inputs reach.

    Time-invariant A (n, n): over `steps`, or over all time (None; A must be stable). Time-varying A (N, n, n) and
    B (N, n, m): over the whole horizon, W_{k+1} = A W A' + B B'.

    >>> controllability_gramian([[0.5]], [[1.0]]).round(4), controllability_gramian([[0.5]], [[1.0]], steps=2)
    (array([[1.3333]]), array([[1.25]]))
    """
    A = finite(A, "A", (None, None), (None, None, None))
    if A.ndim == 3:
        n = A.shape[-1]
        B = finite(B, "B", (n, None), (len(A), n, None))
        W = np.zeros((n, n))
        for k in range(len(A)):
            Bk = B if B.ndim == 2 else B[k]
            W = A[k] @ W @ A[k].T + Bk @ Bk.T
        return W
    A, B = _pair(A, B)
    if steps is not None:
        count = whole(steps, "steps")
        if count < 0:
            raise ValueError(f"steps must not be negative, not {steps}")
        W, power = np.zeros_like(A), np.eye(len(A))  # of the first bits of the number of steps
        with np.errstate(over="ignore", invalid="ignore"):
            for bit in f"{count:b}":
                W, power = W + power @ W @ power.T, power @ power
                if bit == "1":
                    W, power = A @ W @ A.T + B @ B.T, A @ power
        if not np.isfinite(W).all():
            raise ValueError(f"the Gramian over {count:.6g} steps is larger than any number: A is not stable")
        return W
    from scipy.linalg import solve_discrete_lyapunov

    radius = float(np.abs(np.linalg.eigvals(A)).max())
    if radius >= 1 - 1e-12:
        raise SingularityError(
            f"the infinite-horizon Gramian needs a stable A, but its spectral radius is {radius:.6g}",
            matrix="1 - A x A",
            residual=radius - 1,
            hint="give steps for a finite horizon",
        )
    W = solve_discrete_lyapunov(A, B @ B.T)
    return np.asarray((W + W.T) / 2)


def observability_gramian(A: ArrayLike, C: ArrayLike, steps: int | None = None) -> Array:
    """M = sum_k Phi_k' C'C Phi_k (n, n): energy of the outputs that unit initial states show.

    >>> observability_gramian([[0.5]], [[2.0]], steps=2)
    array([[5.]])
    """
    A = finite(A, "A", (None, None), (None, None, None))
    if A.ndim == 2:
        return controllability_gramian(*_dual(A, C), steps)
    n = A.shape[-1]
    C = finite(C, "C", (None, n), (len(A), None, n))
    M = np.zeros((n, n))
    for k in reversed(range(len(A))):
        Ck = C if C.ndim == 2 else C[k]
        M = A[k].T @ M @ A[k] + Ck.T @ Ck
    return M


def _pair(A: ArrayLike, B: ArrayLike) -> tuple[Array, Array]:
    A = finite(A, "A", (None, None))
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"A has shape {A.shape}, but must be square")
    return A, finite(B, "B", (len(A), None))


def _dual(A: ArrayLike, C: ArrayLike) -> tuple[Array, Array]:
    A = finite(A, "A", (None, None))
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"A has shape {A.shape}, but must be square")
    return A.T, finite(C, "C", (None, len(A))).T


def _names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x[{i}]" for i in range(n))
    labels = tuple(str(name) for name in names)
    if len(labels) != n:
        raise ValueError(f"{len(labels)} names for {n} states")
    return labels


def _distinct(values: ArrayLike, distance: float) -> list[complex]:
    """One representative per cluster of eigenvalues, one of each conjugate pair."""
    kept: list[complex] = []
    for value in sorted((complex(v) for v in np.ravel(values)), key=lambda v: (-abs(v), -v.imag)):
        if value.imag < -distance:
            continue
        value = complex(value.real, 0.0) if abs(value.imag) <= distance else value
        if all(abs(value - other) > distance for other in kept):
            kept.append(value)
    return kept


def _involved(directions: Array, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the states that carry a set of directions, the largest first."""
    size = np.linalg.norm(directions, axis=1)
    return tuple(labels[i] for i in np.argsort(-size, kind="stable") if size[i] > 0.1 * size.max())
