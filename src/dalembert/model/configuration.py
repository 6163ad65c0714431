"""Configurations: what q is made of, joint by joint, and how to subtract and add.

A configuration is a point of a manifold: nq coordinates q, nv velocity components v. `difference(q0, q1)` and `integrate(q, dv)`
(Pinocchio's names) are the only ways from one to the other. A joint kind is one row of `KINDS`; hinges and sliders have one coordinate, one
velocity, and nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array


@dataclass(frozen=True)
class Chart:
    """How a joint kind whose coordinates are not plain numbers subtracts and adds; all functions take any leading axes.

    `difference(q0, q1)` (..., nv) leads from q0 to q1, `integrate(q, dv)` (..., nq) follows it. `difference_jacobian(q0, q1)` (..., nv,
    nv): derivative of difference(q0, integrate(q1, dv)) by dv at 0; `integrate_jacobian(q)` (..., nq, nv): that of integrate(q, dv).
    """

    difference: Callable[[Array, Array], Array]
    integrate: Callable[[Array, Array], Array]
    difference_jacobian: Callable[[Array, Array], Array]
    integrate_jacobian: Callable[[Array], Array]


@dataclass(frozen=True)
class JointKind:
    """One row of the table: endings of the names of its coordinates and velocities, the neutral coordinates, random ones, and its `chart`
    (None: coordinates are numbers, difference and integrate are - and +)."""

    coordinates: tuple[str, ...]
    velocities: tuple[str, ...]
    neutral: tuple[float, ...]
    random: Callable[[np.random.Generator], Array]
    chart: Chart | None = None


KINDS = {
    "hinge": JointKind(("",), ("",), (0.0,), lambda generator: generator.uniform(-pi, pi, 1)),
    "slider": JointKind(("",), ("",), (0.0,), lambda generator: generator.uniform(-1.0, 1.0, 1)),
}


@dataclass(frozen=True)
class _Place:
    """A joint with a chart, and where its coordinates and velocities are."""

    chart: Chart
    q: slice
    v: slice


class Configuration:
    """The coordinates of several joints in a row: `joints` are pairs (name, kind).

    >>> pair = Configuration([("theta", KINDS["hinge"]), ("x", KINDS["slider"])])
    >>> pair.nq, pair.nv, pair.coordinates
    (2, 2, ('theta', 'x'))
    >>> pair.difference(np.array([0.5, 1.0]), np.array([0.75, 1.0]))
    array([0.25, 0.  ])
    """

    def __init__(self, joints: Sequence[tuple[str, JointKind]]) -> None:
        self.joints = tuple(joints)
        self.coordinates = tuple(name + end for name, kind in self.joints for end in kind.coordinates)
        self.velocities = tuple(name + end for name, kind in self.joints for end in kind.velocities)
        self.nq, self.nv = len(self.coordinates), len(self.velocities)
        self.flat = all(kind.chart is None for _, kind in self.joints)  # all coordinates are plain numbers

    @cached_property
    def _places(self) -> tuple[_Place, ...]:
        found, q, v = [], 0, 0
        for _, kind in self.joints:
            after_q, after_v = q + len(kind.coordinates), v + len(kind.velocities)
            if kind.chart is not None:
                found.append(_Place(kind.chart, slice(q, after_q), slice(v, after_v)))
            q, v = after_q, after_v
        return tuple(found)

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Places in q and in v of the coordinates that are plain numbers."""
        q, v = np.ones(self.nq, dtype=bool), np.ones(self.nv, dtype=bool)
        for place in self._places:
            q[place.q], v[place.v] = False, False
        return np.flatnonzero(q), np.flatnonzero(v)

    def difference(self, q0: Array, q1: Array) -> Array:
        """The tangent vector (..., nv) at q0 (..., nq) that leads to q1."""
        if self.flat:
            return np.subtract(q1, q0)
        at, to = self._numbers
        q0, q1 = np.broadcast_arrays(q0, q1)
        out = np.empty((*q0.shape[:-1], self.nv))
        out[..., to] = q1[..., at] - q0[..., at]
        for place in self._places:
            out[..., place.v] = place.chart.difference(q0[..., place.q], q1[..., place.q])
        return out

    def integrate(self, q: Array, dv: Array) -> Array:
        """The configuration (..., nq) to which dv (..., nv) leads from q."""
        if self.flat:
            return np.add(q, dv)
        at, to = self._numbers
        lead = np.broadcast_shapes(np.shape(q)[:-1], np.shape(dv)[:-1])
        q, dv = np.broadcast_to(q, (*lead, self.nq)), np.broadcast_to(dv, (*lead, self.nv))
        out = np.empty((*lead, self.nq))
        out[..., at] = q[..., at] + dv[..., to]
        for place in self._places:
            out[..., place.q] = place.chart.integrate(q[..., place.q], dv[..., place.v])
        return out

    def difference_jacobian(self, q0: Array, q1: Array) -> Array | None:
        """Derivative (..., nv, nv) of difference(q0, integrate(q1, dv)) by dv at 0; None: the identity."""
        if self.flat:
            return None
        q0, q1 = np.broadcast_arrays(q0, q1)
        out = np.broadcast_to(np.eye(self.nv), (*q0.shape[:-1], self.nv, self.nv)).copy()
        for place in self._places:
            out[..., place.v, place.v] = place.chart.difference_jacobian(q0[..., place.q], q1[..., place.q])
        return out

    def integrate_jacobian(self, q: Array) -> Array | None:
        """Derivative (..., nq, nv) of integrate(q, dv) by dv at 0; None: the identity."""
        if self.flat:
            return None
        out = np.zeros((*np.shape(q)[:-1], self.nq, self.nv))
        at, to = self._numbers
        out[..., at, to] = 1.0
        for place in self._places:
            out[..., place.q, place.v] = place.chart.integrate_jacobian(q[..., place.q])
        return out

    def neutral(self) -> Array:
        """The configuration (nq,) where nothing is turned or shifted."""
        return np.array([value for _, kind in self.joints for value in kind.neutral], dtype=float)

    def random(self, generator: np.random.Generator) -> Array:
        """A configuration (nq,) drawn at random: hinges anywhere, sliders within a metre."""
        return np.concatenate([np.zeros(0), *(kind.random(generator) for _, kind in self.joints)])
