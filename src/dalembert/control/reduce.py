"""The reduced state on the constraint manifold.

With constraints h(q) = 0 the state (q, p, v_rho) has directions that the dynamics does not have: dq across the manifold
(the next step lands on it again), and dp = C'mu with C = dh/dq_dynamic, which the multipliers absorb exactly (p_k
enters the step only as p_k - C'lambda). Neither can be moved by any input. With orthonormal bases

    Nq of null [dh/dq]  (nq, nq - nc),    V of null C  (nd, nd - nc),    T = diag(Nq, V, 1)

the perturbation of a feasible trajectory is dx = T z up to dp = C'mu, and z' = T'(k+1) A T(k) z + T'(k+1) B du exactly:
the same as the momentum constraint C M^-1 p = 0, without choosing a gauge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import SingularityError
from ..text import Brief
from .reference import reference_arrays


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(Brief):
    """z' = A z + B du on the constraint manifold along a trajectory.

    A (N, nr, nr), B (N, nr, nu), `lift` T (N+1, nx, nr) with orthonormal columns: dx = T z, z = T'dx.
    nr = nx - 2 rank(dh/dq).
    """

    A: Array
    B: Array
    lift: Array

    @property
    def size(self) -> int:
        """Number of reduced states nr."""
        return self.lift.shape[2]


def reduce_state(system: Any, reference: Any, *, linearization: Any = None, tolerance: float = 1e-10) -> Reduction:
    """Reduced linearization of `system` (System or MidpointVI) along a feasible `reference` (Trajectory or (X, U)).

    `linearization` may give A (N, nx, nx), B (N, nx, nu) that are already known. Raises SingularityError if the rank
    of the constraints (singular values above `tolerance` of the largest) changes along the trajectory.

    >>> import dalembert as da
    >>> cart = da.tx("x", da.rz("theta", da.ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0)
    >>> model = da.Model([cart], [da.LinearRelation({"x": 1.0, "theta": 0.5}), da.Gravity((0, -9.8, 0))])
    >>> vi = da.MidpointVI(model, dt=0.05)
    >>> motion = vi.simulate(vi.state(q=[0.0, 0.0]), steps=5)
    >>> reduce_state(vi, motion).size
    2
    """
    system, X, U = reference_arrays(system, reference)
    A, B = system.linearize_trajectory(X, U) if linearization is None else linearization
    model = system.model
    D = constraint_jacobian(model, X[:, : model.nq])
    Nq, V = _null(D, tolerance, model), _null(D[:, :, : model.nd], tolerance, model)
    nq, nd, nk, a, b = model.nq, model.nd, model.nk, Nq.shape[2], V.shape[2]
    T = np.zeros((len(X), nq + nd + nk, a + b + nk))
    T[:, :nq, :a], T[:, nq : nq + nd, a : a + b], T[:, nq + nd :, a + b :] = Nq, V, np.eye(nk)
    down = np.ascontiguousarray(np.swapaxes(T[1:], 1, 2))
    return Reduction(A=down @ A @ T[:-1], B=down @ B, lift=T)


def constraint_jacobian(model: Any, Q: Array) -> Array:
    """dh/dq at many configurations, (N, nc, nq)."""
    from .. import mechanics

    return (
        np.stack([mechanics.constraint_jacobian(model, q) for q in Q]) if model.nc else np.zeros((len(Q), 0, model.nq))
    )


def _null(D: Any, tolerance: float, model: Any) -> Array:
    """Orthonormal bases of the null spaces of a stack of matrices, all of the same dimension."""
    if D.shape[1] == 0:
        return np.tile(np.eye(D.shape[2]), (len(D), 1, 1))
    _, s, right = np.linalg.svd(D)
    ranks = np.sum(s > tolerance * np.maximum(s[:, :1], np.finfo(float).tiny), axis=1)
    if (ranks != ranks[0]).any():
        step = int(np.argmax(ranks != ranks[0]))
        raise SingularityError(
            f"the rank of the constraints changes at step {step}",
            matrix="dh/dq",
            variables=tuple(model.constraints),
            step=step,
            hint="the mechanism passes a singular configuration there; regulate the pieces before and after it",
        )
    return np.swapaxes(right[:, ranks[0] :], 1, 2)
