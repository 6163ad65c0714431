"""What a user's function sees of a system at one instant: named quantities as CasADi expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .system import GROUND

SX = Any  # casadi.SX; casadi is imported on use


class View:
    """Named quantities of one instant for costs, conditions, potentials and constraints, as CasADi expressions.

    `q` (n), `v` (n) its velocity, `u` (nd) joint coordinates, `tau` (nu); what is not known is None. Points are in
    body axes from the centre of mass (m), positions and velocities in world axes (m, m/s).

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1, 1), position=(0.5, 0, 0))
    >>> hinge = MultibodySystem([rod], [Joint("R", "ground", "rod")], potential=lambda view: 2 * view["rod"] ** 2)
    >>> from dalembert.direct.dmocc import simulate
    >>> simulate(hinge, dt=0.1, steps=0, u=[0.5]).potential_energy().tolist()
    [0.5]
    """

    def __init__(self, mechanics: Any, q: SX, *, v: SX = None, u: SX = None, tau: SX = None) -> None:
        self.mechanics, self.q, self.v, self.u, self.tau = mechanics, q, v, u, tau

    @property
    def system(self) -> Any:
        """The system whose quantities these are."""
        return self.mechanics.system

    def __getitem__(self, coordinate: str) -> SX:
        """A joint coordinate by name."""
        return _named(self.u, self.system.coordinates, coordinate, "coordinate")

    def input(self, name: str) -> SX:
        """A joint force by name."""
        return _named(self.tau, self.system.inputs, name, "input")

    def _at(self, q: SX, body: str, point: Any, what: str) -> SX:
        import casadi as ca

        if q is None:
            raise ValueError(f"{what} of '{body}': not known here")
        index = getattr(self.system, "body_index", {})
        if body not in index or body == GROUND:
            raise ValueError(f"unknown body {body!r}; known are {', '.join(b for b in index if b != GROUND)}")
        x, r = self.mechanics.split(q, index[body])
        return x + r @ ca.DM(np.asarray(point, dtype=float))

    def position(self, body: str, point: ArrayLike = (0.0, 0.0, 0.0)) -> SX:
        """World position (3) of a point fixed in a body (body axes, from its centre of mass)."""
        return self._at(self.q, body, point, "position")

    def rotation(self, body: str) -> SX:
        """Directors of a body as columns (3, 3), world axes."""
        self._at(self.q, body, (0.0, 0.0, 0.0), "rotation")
        return self.mechanics.split(self.q, self.system.body_index[body])[1]

    def velocity(self, body: str, point: ArrayLike = (0.0, 0.0, 0.0)) -> SX:
        """World velocity (3) of that point."""
        return self._at(self.v, body, point, "velocity")


def _named(values: SX, names: tuple[str, ...], name: str, what: str) -> SX:
    if values is None:
        raise ValueError(f"{what} {name!r}: not known here")
    if name not in names:
        raise ValueError(f"unknown {what} {name!r}; known are {', '.join(names)}")
    return values[names.index(name)]
