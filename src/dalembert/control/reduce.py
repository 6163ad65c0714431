"""The reduced state on the constraint manifold.

With constraints the state (q, p, v_rho) has directions that the dynamics does not have and no input can move. `System.directions` gives
orthonormal bases T of the others. The perturbation of a feasible trajectory is dx = T z up to dp = C'mu (C = dh/dq_dynamic), which the
multipliers absorb, and

    z' = T'(k+1) A T(k) z + T'(k+1) B du    exactly:

the same as the momentum constraint C M^-1 p = 0, without choosing a gauge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite
from ..integrate import OneStep
from ..text import Brief
from .reference import Reference, reference_arrays


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(Brief):
    """z' = A z + B du on the constraint manifold along a trajectory.

    A (N, nr, nr), B (N, nr, nu), `lift` T (N+1, ndx, nr) with orthonormal columns: dx = T z, z = T'dx.
    nr = ndx - 2 rank(dh/dq).
    """

    A: Array
    B: Array
    lift: Array

    @property
    def size(self) -> int:
        """Number of reduced states nr."""
        return self.lift.shape[2]


def reduce_state(
    system: OneStep,
    reference: Reference,
    *,
    linearization: tuple[ArrayLike, ArrayLike] | None = None,
    tolerance: float = 1e-10,
) -> Reduction:
    """Reduced linearization of `system` (System or any one-step) along a feasible `reference` (Trajectory or (X, U)).

    `linearization` may give A (N, ndx, ndx), B (N, ndx, nu) that are already known. Raises SingularityError if the rank
    of the constraints (singular values above `tolerance` of the largest) changes along the trajectory.

    >>> import dalembert as da
    >>> cart = da.tx("x", da.rz("theta", da.ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0)
    >>> model = da.Model([cart], [da.LinearRelation({"x": 1.0, "theta": 0.5}), da.Gravity((0, -9.8, 0))])
    >>> vi = da.MidpointVI(model, dt=0.05)
    >>> motion = vi.simulate(vi.state(q=[0.0, 0.0]), steps=5)
    >>> reduce_state(vi, motion).size
    2
    """
    whole, X, U = reference_arrays(system, reference)
    n, N = whole.ndx, whole.steps
    A, B = whole.linearize_trajectory(X, U) if linearization is None else linearization
    A, B = finite(A, "A", (N, n, n)), finite(B, "B", (N, n, whole.nu))
    T = whole.directions(X, tolerance)
    if T is None:
        T = np.tile(np.eye(n), (N + 1, 1, 1))
    down = np.ascontiguousarray(np.swapaxes(T[1:], 1, 2))
    return Reduction(A=down @ A @ T[:-1], B=down @ B, lift=T)
