"""The default optimizer, seen from Python. The search is in the core (`cpp/shooting.hpp`, which says what it does and why); what it asks of a
problem is answered there too for the common ones (an integrator of a Model with flat states, quadratic costs, bounds on single inputs and
states), and by `Problem` for every other cost, constraint and one-step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..arrays import Array
from ..errors import ConvergenceError, DalembertError
from ..integrate.onestep import Course
from ..system import System
from .constraints import Box, Rows, by_name, split, violation
from .costs import BoundCost, Hessian, quadratic_terms


@dataclass(frozen=True)
class Step:
    """What an iteration did."""

    method: str
    slope: float
    length: float
    trials: int
    failed: int


class Shooting:
    """The search for a problem. `free` (ndx,) marks components of the initial state that are optimized too."""

    def __init__(self, system: System, cost: BoundCost, rows: Sequence[Rows] = (), free: Array | None = None) -> None:
        self.system, self.cost, self.rows = system, cost, list(rows)
        self.free = None if free is None or not free.any() else free
        self._core: Any = self._in_core() or _core.Shooting(
            Problem(system, cost, self.rows, self.free), system.steps, system.nx, system.ndx, system.nu, self._groups()
        )

    def _in_core(self) -> Any:
        """The search where the core answers all questions, or None."""
        terms = quadratic_terms(self.cost)
        if terms is None or not all(isinstance(r, Box) for r in self.rows):
            return None
        if self.free is not None and self.system.constrained:
            return None
        free = [] if self.free is None else np.flatnonzero(self.free).tolist()
        return self.system.shooting(terms, self._groups(), free)

    def _groups(self) -> list[tuple[bool, list[int], Array, Array, Array]]:
        return [
            (r.inputs, r.columns.tolist() if isinstance(r, Box) else [], r.low, r.high, r.on.astype(float))
            for r in self.rows
        ]

    def begin(self, X: Array, U: Array) -> None:
        """Start from a curve, which need not be a motion."""
        why = self._core.begin(np.ascontiguousarray(X), np.ascontiguousarray(U))
        if why == "cost":
            raise ValueError("the cost of the start is not finite")
        if why:
            raise ConvergenceError(
                "the steps of the start cannot be taken",
                hint="start from a simulated trajectory, or from rest with constant inputs",
            )

    def iterate(self, tolerance: float, may_step: bool) -> tuple[Step, str, str]:
        """One step, or none and a status with its reason."""
        *step, status, reason = self._core.iterate(tolerance, may_step)
        return Step(*step), status, reason

    def close(self) -> bool:
        """Make the curve a motion if it is none, or go back to the newest that was one; False if that is not possible."""
        return bool(self._core.close())

    X = property(lambda self: self._core.X, doc="States (N+1, nx) of the curve.")
    U = property(lambda self: self._core.U, doc="Inputs (N, nu) of the curve.")
    value = property(lambda self: self._core.value, doc="Its cost.")
    gap = property(lambda self: self._core.gap, doc="Its largest gap.")
    slope = property(lambda self: self._core.slope, doc="Slope of the cost along the last step.")
    error = property(lambda self: self._core.error, doc="The scaled KKT error.")
    gave_up = property(lambda self: self._core.gave_up, doc="Whether the gaps of the start were not closed.")

    @property
    def gains(self) -> Array | None:
        """Gains (N, nu, ndx) of the last LQ problem."""
        return np.asarray(self._core.gains) if self._core.steered else None

    @property
    def costates(self) -> Array | None:
        """Costates (N+1, ndx)."""
        return np.asarray(self._core.costates) if self._core.known else None

    def violation(self) -> tuple[float, str]:
        """By how much the worst limit is broken, and its name."""
        return violation(self.rows, self.X, self.U)

    def multipliers(self) -> dict[str, Array] | None:
        """Multipliers of every bound and limit over time."""
        return by_name(self.rows, self._core.multipliers) if self.rows else None


class Problem:
    """What the search asks of a problem that does not run in the core (`Problem` in `cpp/shooting_problem.hpp`). Arrays are X (N+1, nx), U (N, nu),
    variations dX (N+1, ndx), dU (N, nu); entries of rows are those of all groups, one after the other. None: a step has no solution."""

    def __init__(self, system: System, cost: BoundCost, rows: Sequence[Rows], free: Array | None) -> None:
        self.system, self.cost, self.rows, self.free = system, cost, rows, free
        self._turn: Array | None = None  # from the tangents at the ends of the steps to those at the next states
        zero = system.neutral()
        self._flat = system.nx == system.ndx and system.difference_jacobian(zero, zero) is None

    # ---- the cost

    def value(self, X: Array, U: Array) -> float:
        """The cost; infinite or NaN where it overflows."""
        with np.errstate(all="ignore"):
            return float(self.cost.values(X, U).sum())

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        """Its derivatives by X and U."""
        lx, lu = self.cost.gradient(X, U)
        if not (np.isfinite(lx).all() and np.isfinite(lu).all()):
            raise ValueError("the gradient of the cost is not finite")
        return lx, lu

    def weights(self, X: Array, U: Array) -> Hessian:
        """Its second derivatives Q, S (or None), R."""
        return self.cost.hessian(X, U)

    # ---- states and steps

    def retract(self, X: Array, dX: Array, share: float) -> Array:
        """The states to which a share of dX leads."""
        return self.system.retract(X, share * dX)

    def gaps(self, X: Array, U: Array) -> Array | None:
        """Gaps (N, ndx) of a curve."""
        try:
            return self.system.difference(X[1:], self.system.shoot(X, U)[0])
        except DalembertError:
            return None

    def roll(
        self, X: Array, U: Array, dX: Array, dU: Array, K: Array, gaps: Array | None, share: float, low: Array | None,
        high: Array | None,
    ) -> tuple[Array, Array] | None:  # fmt: skip
        """The motion of a `Course`."""
        try:
            if self.free is not None and self.system.constrained:
                X[0], dX[0] = self.system.settle(self.system.retract(X[0], share * dX[0])), 0.0
            return self.system.roll(Course(X, U, dX, dU, K, gaps, share, low, high))
        except DalembertError:
            return None

    def simulate(self, x0: Array, U: Array) -> tuple[Array, Array] | None:
        """The motion under inputs."""
        try:
            return self.system.simulate(x0, U), U
        except DalembertError:
            return None

    def linearize(self, X: Array, U: Array, open: bool) -> tuple[Array, Array]:
        """A, B of all steps, and whatever else is asked for of this curve only; `open`: it has gaps."""
        ends, A, B = self.system.shoot(X, U, derive=True)
        assert A is not None
        assert B is not None
        self._turn = None if self._flat or not open else self.system.difference_jacobian(X[1:], ends)
        if self._turn is not None:
            A, B = self._turn @ A, self._turn @ B
        for r in self.rows:
            r.linearize(X, U)
        return A, B

    def second_order(self, X: Array, U: Array, z: Array) -> tuple[Array, Array, Array] | None:
        """Second derivatives of z_k . f, z (N, ndx) the costates after each step; None: there are none."""
        if self._turn is not None:
            z = np.matmul(z[:, None, :], self._turn)[:, 0]
        try:
            return self.system.second_order_trajectory(X, U, z)
        except (DalembertError, ValueError):
            return None

    def free_start(self, x0: Array) -> Array | None:
        """Directions (ndx, n) in which the start may move."""
        if self.free is None:
            return None
        tangent = self.system.tangent(x0[None])
        if tangent is None:
            return np.eye(len(self.free))[:, self.free]
        along = tangent.basis[0]
        if self.free.all():
            return along
        # directions along the constraints that leave the components that are not free where they are
        fixed = along[np.logical_not(self.free)]
        _, size, rows = np.linalg.svd(fixed, full_matrices=True)
        rank = int((size > 1e-10).sum())
        return np.asarray(along @ rows[rank:].T)

    # ---- rows

    def row_values(self, X: Array, U: Array) -> Array:
        """All entries."""
        return np.concatenate([r.value(X, U).ravel() for r in self.rows])

    def rows_along(self, dX: Array, dU: Array) -> Array:
        """How they change along a variation of the curve."""
        return np.concatenate([r.along(dX, dU).ravel() for r in self.rows])

    def row_gradient(self, w: Array) -> tuple[Array, Array]:
        """Derivatives of w . h by X and U."""
        gx, gu = np.zeros((self.system.steps + 1, self.system.ndx)), np.zeros((self.system.steps, self.system.nu))
        for r, part in zip(self.rows, split(self.rows, w), strict=True):
            r.add_gradient(part, gx, gu)
        return gx, gu

    def row_hessian(self, w: Array) -> Hessian:
        """H' w H."""
        N, n, m = self.system.steps, self.system.ndx, self.system.nu
        Q, R = np.zeros((N + 1, n, n)), np.zeros((N, m, m))
        S: Array | None = None
        for r, part in zip(self.rows, split(self.rows, w), strict=True):
            S = r.add_hessian(part, Q, S, R)
        return Q, S, R

    def row_curvature(self, X: Array, U: Array, y: Array) -> Hessian | None:
        """Second derivatives of y . h."""
        parts = [r.curvature(X, U, part) for r, part in zip(self.rows, split(self.rows, y), strict=True)]
        found = [p for p in parts if p is not None]
        if not found:
            return None
        mixed = [p[1] for p in found if p[1] is not None]
        return sum(p[0] for p in found), sum(mixed) if mixed else None, sum(p[2] for p in found)  # type: ignore[return-value]
