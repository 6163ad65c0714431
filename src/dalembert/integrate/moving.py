"""What sensors on a mechanism feel, as functions of its state x = (q, p, v_rho) and inputs, with exact derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, finite
from ..errors import ModelError
from ..mechanics import acceleration
from ..model import Model
from ..model.elements import Distance, Gravity
from ..model.tape import Program, program_of
from .onestep import OneStepMap
from .reachable import velocity_slope


def uniform_gravity(model: Model) -> Array:
    """The gravity (3,) that acts on all masses (m/s^2)."""
    pulls = [e.acceleration for e in model.elements if isinstance(e, Gravity) and e.masses is None]
    return np.asarray(np.sum(pulls, axis=0), dtype=float) if pulls else np.zeros(3)


def program_of_configuration(q: Any, outputs: Any) -> Program | None:
    """CasADi `outputs` (a column) of the symbols q (nq,) as the core evaluates them; None where they have an operation that it does not know."""
    try:
        return program_of([q], outputs, "a sensor")
    except ModelError:
        return None


def constraint_rows(model: Model) -> tuple[dict[str, list[int]], list[float | str | None]]:
    """Rows of h by the names of constraints, of distances also by "frame1-frame2"; and for every row the length of its distance (m), the name of
    the variable that is its length, or None."""
    places: dict[str, list[int]] = {}
    lengths: list[float | str | None] = []
    held = [(e, e.size - e.rates) for e in model.elements] + [(e, e.rates) for e in model.elements]
    for e, size in held:
        for _ in range(size):
            row = len(lengths)
            places.setdefault(model.constraints[row], []).append(row)
            if isinstance(e, Distance):
                places.setdefault(f"{e.frame1}-{e.frame2}", []).append(row)
                lengths.append(e.length if isinstance(e.length, float) else e.variables[0])
            else:
                lengths.append(None)
    return places, lengths


@dataclass(frozen=True, eq=False)
class ConstraintForces:
    """Multipliers of the chosen rows, times 2 length for distances (a class, so that measurements pickle)."""

    model: Model
    space: OneStepMap
    rows: tuple[int, ...]
    lengths: tuple[float | str | None, ...]

    def _scale(self, q: Array) -> Array:
        at = [1.0 if r is None else 2 * (r if isinstance(r, float) else q[self.model.index(r)]) for r in self.lengths]
        return np.array(at, dtype=float)

    def value(self, x: Array, u: Array) -> Array:
        v = velocity_slope(self.space, self.model, x, slope=False)[0]
        found = acceleration(self.model, x[: self.model.nq], v, u[: self.model.nu])
        return np.asarray(self._scale(x) * found.lam[list(self.rows)])

    def slope(self, x: Array, u: Array) -> Array:
        nv, rows = self.model.nv, list(self.rows)
        v, dv = velocity_slope(self.space, self.model, x)
        found: Any = acceleration(self.model, x[: self.model.nq], v, u[: self.model.nu], derivatives=True)
        J = found.lam_v[rows] @ dv
        J[:, :nv] += found.lam_q[rows]
        J *= self._scale(x)[:, None]
        for i, length in enumerate(self.lengths):
            if isinstance(length, str):
                J[i, self.model.velocities.index(length)] += 2 * found.lam[rows[i]]
        return np.asarray(J)


@dataclass(frozen=True, eq=False)
class Moving:
    """A CasADi function of (q, v, a) with its Jacobians, as a function of x (and u)."""

    model: Model
    space: OneStepMap
    function: Any
    slopes: Any
    accelerated: bool

    def value(self, x: Array, u: Array | None = None) -> Array:
        m, x = self.model, finite(x, "x", (self.space.nx,))
        v = velocity_slope(self.space, m, x, slope=False)[0]
        a = acceleration(m, x[: m.nq], v, u[: m.nu]).ddq if u is not None and self.accelerated else np.zeros(m.nv)
        return np.array(self.function(x[: m.nq], v, a)).ravel()

    def slope(self, x: Array, u: Array | None = None) -> Array:
        m = self.model
        v, dv = velocity_slope(self.space, m, x)
        found: Any = None
        if u is not None and self.accelerated:
            found = acceleration(m, x[: m.nq], v, u[: m.nu], derivatives=True)
        by_q, by_v, by_a = (
            np.array(J) for J in self.slopes(x[: m.nq], v, np.zeros(m.nv) if found is None else found.ddq)
        )
        turn = m.configuration.integrate_jacobian(x[: m.nq])
        J = by_v @ dv
        J[:, : m.nv] += by_q if turn is None else by_q @ turn
        if found is not None:
            J += by_a[:, : m.nd] @ found.ddq_v @ dv
            J[:, : m.nv] += by_a[:, : m.nd] @ found.ddq_q
        return np.asarray(J)
