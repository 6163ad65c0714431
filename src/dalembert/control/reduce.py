"""The reduced state on the constraint manifold.

With constraints the state (q, p, v_rho) has directions that the dynamics does not have and no input can move. `System.tangent` gives
bases T of the others and their inverses T+. The perturbation of a feasible trajectory is dx = T z up to dp = C'mu (C = dh/dq_dynamic), which
the multipliers absorb, and

    z' = T+(k+1) A T(k) z + T+(k+1) B du    exactly,

whatever part of the momenta no step feels (their gauge): T and T+ carry it along.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, number, weight
from ..integrate import OneStep
from ..text import Brief
from .reference import Reference, reference_arrays


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(Brief):
    """z' = A z + B du on the constraint manifold along a trajectory.

    A (N, nr, nr), B (N, nr, nu); dx = `lift` z (N+1, ndx, nr), z = `lower` dx (N+1, nr, ndx); nr = ndx - 2 rank(dh/dq). `basis` (N+1, ndx, nr)
    has orthonormal columns: `weight` takes weights of dx to those of z, `gain` takes gains of z to those of dx.
    """

    A: Array
    B: Array
    basis: Array
    lift: Array
    lower: Array

    @property
    def size(self) -> int:
        """Number of reduced states nr."""
        return self.basis.shape[2]

    def weight(self, Q: ArrayLike, k: int = 0) -> Array:
        """Weights (nr, nr) of z at state k for weights Q of dx: a number, a diagonal (ndx,) or a matrix (ndx, ndx)."""
        n = self.basis.shape[1]
        M = self.basis[k].T @ weight(Q, "Q", n) @ self.basis[k]
        return np.asarray((M + M.T) / 2)

    def gain(self, K: ArrayLike, k: int = 0) -> Array:
        """Gains (nu, ndx) of dx at state k for gains K (nu, nr) of z."""
        return finite(K, "K", (None, self.size)) @ self.lower[k]


def reduce_state(
    system: OneStep,
    reference: Reference,
    *,
    linearization: tuple[ArrayLike, ArrayLike] | None = None,
    tolerance: float = 1e-10,
) -> Reduction:
    """Reduced linearization of `system` (System or any one-step) along a feasible `reference` (Trajectory or (X, U)), or at a fixed
    point (x (nx,), u (nu,)) of the map, with N = 1.

    The gauge of momenta does not matter: X may have that of `vi.state`, of the steps, or L_v.
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
    whole, X, U = reference_arrays(system, _along(reference))
    n, N = whole.ndx, whole.steps
    if not 0 <= number(tolerance, "tolerance") < 1:
        raise ValueError(f"tolerance must be in [0, 1) (it is relative to the largest singular value), not {tolerance}")
    A, B = whole.linearize_trajectory(X, U) if linearization is None else linearization
    A, B = finite(A, "A", (N, n, n)), finite(B, "B", (N, n, whole.nu))
    here = whole.tangent(X, tolerance)
    if here is None:
        unit = np.tile(np.eye(n), (N + 1, 1, 1))
        return Reduction(A=A, B=B, basis=unit, lift=unit, lower=unit)
    # the steps end where X is, but perhaps in another gauge, which T+ must know
    images = np.stack([whole.f(X[k], U[k], k, guess=X[k + 1]) for k in range(N)])
    end = whole.tangent(images, tolerance)
    assert end is not None
    down = np.swapaxes(here.basis[1:], 1, 2) @ end.basis @ end.lower
    return Reduction(down @ A @ here.lift[:-1], down @ B, here.basis, here.lift, here.lower)


def _along(reference: Reference) -> Reference:
    """A fixed point (x, u) as a motion of one step."""
    if isinstance(reference, tuple) and len(reference) == 2 and np.ndim(reference[0]) == np.ndim(reference[1]) == 1:
        return np.stack([reference[0], reference[0]]), np.asarray(reference[1])[None]
    return reference
