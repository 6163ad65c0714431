"""Coordinates in which parameters are searched: as they are, or, for the ten numbers of a body's inertia, such that every value is a body.

The second moments of a body about its centre of mass, S = trace(I)/2 - I, are positive definite: S = m D D' with an upper triangular D. With
m = exp(2 a), D_ii = exp(d_i) any (a, com, d, off-diagonal entries of D) is a body, and every body has one such description (C. Rucker, P.
Wensing, Smooth parameterization of rigid-body inertia, 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..errors import ModelError
from ..model import Model, Parameter

_OFF = ((0, 1), (0, 2), (1, 2))  # Ixy, Ixz, Iyz, and the entries of D above its diagonal
_SYM = ((0, 0), (1, 1), (2, 2), *_OFF)


def body_of_chart(z: Array) -> tuple[Array, Array]:
    """(mass, com, Ixx, Iyy, Izz, Ixy, Ixz, Iyz) (10,) and its derivative (10, 10) at z = (a, com, d1, d2, d3, D12, D13, D23).

    >>> body_of_chart(np.zeros(10))[0]
    array([1., 0., 0., 0., 2., 2., 2., 0., 0., 0.])
    """
    with np.errstate(over="ignore"):  # what is infinite is refused by whoever uses it
        mass, diagonal = np.exp(2 * z[0]), np.exp(z[4:7])
    D = np.diag(diagonal)
    for (i, j), x in zip(_OFF, z[7:], strict=True):
        D[i, j] = x
    S = mass * D @ D.T
    out, slope = np.zeros(10), np.zeros((10, 10))
    out[0], out[1:4], out[4:] = mass, z[1:4], _inertia(S)
    slope[0, 0], slope[1:4, 1:4], slope[4:, 0] = 2 * mass, np.eye(3), _inertia(2 * S)
    for k in range(6):
        dD = np.zeros((3, 3))
        if k < 3:
            dD[k, k] = D[k, k]
        else:
            dD[_OFF[k - 3]] = 1.0
        dS = mass * (dD @ D.T + D @ dD.T)
        slope[4:, 4 + k] = _inertia(dS)
    return out, slope


def chart_of_body(body: Array) -> Array:
    """The inverse; ValueError where no rigid body has this inertia.

    >>> chart_of_body(body_of_chart(np.linspace(-0.5, 0.5, 10))[0]).round(12)[:3]
    array([-0.5       , -0.38888889, -0.27777778])
    """
    inertia = np.zeros((3, 3))
    for (i, j), x in zip(_SYM, body[4:], strict=True):
        inertia[i, j] = inertia[j, i] = x
    S = np.trace(inertia) / 2 * np.eye(3) - inertia
    if body[0] <= 0 or np.linalg.eigvalsh(S)[0] <= 1e-12 * max(float(np.trace(S)), 1e-300):
        raise ValueError("no rigid body has this inertia")
    D = np.linalg.cholesky(S[::-1, ::-1] / body[0])[::-1, ::-1]  # upper triangular
    return np.array([np.log(body[0]) / 2, *body[1:4], *np.log(np.diag(D)), *(D[ij] for ij in _OFF)])


def _inertia(S: Array) -> Array:
    full = np.trace(S) * np.eye(3) - S
    return np.array([full[ij] for ij in _SYM])


@dataclass(frozen=True)
class Chart:
    """Values of parameters (n,) <-> coordinates (n,) of the search. `bodies`: places of (mass, com, inertia) of bodies that stay such."""

    names: tuple[str, ...]
    bodies: tuple[tuple[int, ...], ...] = ()

    def coordinates(self, values: Array) -> Array:
        """Coordinates of values."""
        z = np.array(values, dtype=float)
        for places in self.bodies:
            try:
                z[list(places)] = chart_of_body(z[list(places)])
            except ValueError:
                body = self.names[places[0]].rpartition(".")[0] or self.names[places[0]]
                raise ModelError(
                    f"no rigid body has the mass and inertia of '{body}' from which the fit starts: give it others, or physical=False",
                    culprit=body,
                ) from None
        return z

    def values(self, z: Array) -> Array:
        """Values at coordinates."""
        values = np.array(z, dtype=float)
        for places in self.bodies:
            values[list(places)] = body_of_chart(z[list(places)])[0]
        return values

    def slope(self, z: Array) -> Array:
        """Derivative (n, n) of the values by the coordinates."""
        out = np.eye(len(z))
        for places in self.bodies:
            out[np.ix_(places, places)] = body_of_chart(z[list(places)])[1]
        return out


def chart(model: Model, names: Sequence[str], physical: bool) -> Chart:
    """The chart of these parameters: bodies whose ten numbers are all among them stay bodies if `physical`."""
    place = {name: i for i, name in enumerate(names)}
    bodies = []
    for entry in model.frame_entries[1:]:
        frame = entry.frame
        if not physical or frame is None:
            continue
        numbers = (frame.mass, *frame.com, *frame.inertia)
        if all(isinstance(x, Parameter) and x.name in place for x in numbers):
            bodies.append(tuple(place[x.name] for x in numbers if isinstance(x, Parameter)))
    return Chart(tuple(names), tuple(bodies))
