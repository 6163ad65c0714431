"""The default optimizer's search in the core, for the common problems: an integrator of a Model with flat states, quadratic costs, bounds on
single inputs and states. The algorithm is that of `shooting.py`, in `cpp/shooting.hpp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..system import System
from .constraints import Box, Interior, Rows
from .costs import BoundCost, quadratic_terms
from .shooting import Shooting, Step, refused


class CompiledShooting:
    """As `Shooting`, whose part it plays in the loop of `solve.py`."""

    def __init__(
        self, core: Any, system: System, cost: BoundCost, rows: Sequence[Rows] = (), free: Array | None = None
    ) -> None:
        self._core, self.system, self.cost, self.rows, self.free = core, system, cost, list(rows), free

    def begin(self, X: Array, U: Array) -> None:
        """Start from a curve, which need not be a motion."""
        refused(self._core.begin(np.ascontiguousarray(X), np.ascontiguousarray(U)))

    def iterate(self, tolerance: float, may_step: bool) -> tuple[Step, str, str]:
        """One step, or none and a status with its reason."""
        method, slope, length, trials, failed, status, reason = self._core.iterate(tolerance, may_step)
        return Step(method, slope, length=length, trials=trials, failed=failed), status, reason

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
        """By how much the worst bound is broken, and its name."""
        return Interior(self.rows).violation(self.X, self.U)

    def multipliers(self) -> dict[str, Array] | None:
        """Multipliers of every bound over time."""
        if not self.rows:
            return None
        inside, flat, at = Interior(self.rows), self._core.multipliers, 0
        for r in self.rows:
            y = flat[at : at + r.on.size].reshape(r.on.shape)
            at += r.on.size
            inside.z.append((np.zeros_like(y), y))
            inside.y.append(np.zeros_like(y))
        return inside.by_name()


def searcher(
    system: System, cost: BoundCost, rows: Sequence[Rows] = (), free: Array | None = None
) -> Shooting | CompiledShooting:
    """The search for a problem: in the core where it can be."""
    terms = quadratic_terms(cost)
    known = (
        terms is not None and all(isinstance(r, Box) for r in rows) and not (free is not None and system.constrained)
    )
    if known and terms is not None:
        boxes = [(r.inputs, r.columns.tolist(), r.low, r.high) for r in rows if isinstance(r, Box)]
        core = system.shooting(terms, boxes, [] if free is None else np.flatnonzero(free).tolist())
        if core is not None:
            return CompiledShooting(core, system, cost, rows, free)
    return Shooting(system, cost, rows, free)
