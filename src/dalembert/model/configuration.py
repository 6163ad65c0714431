"""Configurations: what q is made of, joint by joint, and how to subtract and add.

A configuration is a point of a manifold: nq coordinates q, nv velocity components v. `difference(q0, q1)` and `integrate(q, dv)`
(Pinocchio's names) are the only ways from one to the other. A joint kind is one row of `KINDS`; hinges and sliders have one coordinate, one
velocity, and nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Named, finite, floats, nearest, vector
from . import rotation


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


def _random_turn(generator: np.random.Generator) -> Array:
    q = generator.standard_normal(4)  # its direction is uniform
    return q / np.linalg.norm(q)


def _half_product(q: Array) -> Array:
    """(..., 4, 3): derivative of q exp(r) by r at 0."""
    w, x, y, z = np.moveaxis(q, -1, 0) / 2
    return np.stack([-x, -y, -z, w, -z, y, z, w, -x, -y, x, w], axis=-1).reshape(*np.shape(q), 3)


_TURN = Chart(
    difference=lambda q0, q1: rotation.logarithm(rotation.multiply(rotation.conjugate(q0), q1)),
    integrate=lambda q, dv: _unit(rotation.multiply(q, rotation.exponential(dv))),
    difference_jacobian=lambda q0, q1: rotation.inverse_right_jacobian(
        rotation.logarithm(rotation.multiply(rotation.conjugate(q0), q1))
    ),
    integrate_jacobian=_half_product,
)


def _quaternion(x: Array, label: str) -> Array:
    """Of a rotation vector (3,) or matrix (3, 3)."""
    if x.shape == (3,):
        return rotation.exponential(x)
    try:
        return rotation.of_matrix(x)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _unit(q: Array) -> Array:
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


KINDS = {
    "ball": JointKind((".qw", ".qx", ".qy", ".qz"), (".wx", ".wy", ".wz"), (1.0, 0.0, 0.0, 0.0), _random_turn, _TURN),
    "hinge": JointKind(("",), ("",), (0.0,), lambda generator: generator.uniform(-pi, pi, 1)),
    "slider": JointKind(("",), ("",), (0.0,), lambda generator: generator.uniform(-1.0, 1.0, 1)),
}


@dataclass(frozen=True)
class Place:
    """A joint with a chart, and where its coordinates and velocities are."""

    name: str
    chart: Chart
    q: slice
    v: slice


def _velocity_name(name: str, bodies: set[str]) -> str:
    """The position of a floating body, base.x, has the velocity base.vx."""
    prefix, dot, axis = name.rpartition(".")
    return f"{prefix}.v{axis}" if dot and axis in ("x", "y", "z") and prefix in bodies else name


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
        bodies = {name for name, kind in self.joints if kind is KINDS["ball"]}
        self.velocities = tuple(
            _velocity_name(name, bodies) + end for name, kind in self.joints for end in kind.velocities
        )
        self.nq, self.nv = len(self.coordinates), len(self.velocities)
        self.flat = all(kind.chart is None for _, kind in self.joints)  # all coordinates are plain numbers

    @property
    def hinges(self) -> tuple[str, ...]:
        """Names of the hinges, whose coordinates are angles."""
        return tuple(name for name, kind in self.joints if kind is KINDS["hinge"])

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The joints with a chart."""
        found, q, v = [], 0, 0
        for name, kind in self.joints:
            after_q, after_v = q + len(kind.coordinates), v + len(kind.velocities)
            if kind.chart is not None:
                found.append(Place(name, kind.chart, slice(q, after_q), slice(v, after_v)))
            q, v = after_q, after_v
        return tuple(found)

    @cached_property
    def numbers(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Places in q and in v of the coordinates that are plain numbers."""
        q, v = np.ones(self.nq, dtype=bool), np.ones(self.nv, dtype=bool)
        for place in self.places:
            q[place.q], v[place.v] = False, False
        return np.flatnonzero(q), np.flatnonzero(v)

    @cached_property
    def velocity_index(self) -> dict[str, int]:
        """Places in v by the names of velocities, and of the coordinates that have one each."""
        index = {name: i for i, name in enumerate(self.velocities)}
        for q, v in zip(*self.numbers, strict=True):
            index.setdefault(self.coordinates[q], int(v))
        return index

    def point(self, value: Named | None, what: str = "q") -> Array:
        """A configuration (nq,): an array, None (neutral), or a dict by the names of coordinates and balls (others neutral).

        A ball takes a unit quaternion (w, x, y, z), a rotation matrix (3, 3) or a rotation vector (3,); where it floats, a pose (4, 4) too.

        >>> Configuration([("b", KINDS["ball"])]).point({"b": [0.0, 0.0, np.pi]}).round(6)
        array([0., 0., 0., 1.])
        """
        if self.flat:
            return vector(value, self.coordinates, what)
        if value is None:
            return self.neutral()
        if isinstance(value, Mapping):
            value = self._named_point(value, what)
        q = self.unit(finite(value, what, (self.nq,), names=self.coordinates), what)
        for place in self.places:
            length = float(np.linalg.norm(q[place.q]))
            if abs(length - 1.0) > 1e-15:
                q = q.copy() if q is value else q
                q[place.q] /= length
        return q

    def is_unit(self, q: Array) -> bool:
        """Whether the quaternions of a configuration (nq,) have length 1 to rounding: `point` would leave them as they are.

        >>> Configuration([("b", KINDS["ball"])]).is_unit(np.array([0.6, 0.0, 0.8, 0.0]))
        True
        """
        return all(abs(np.vdot(x, x) - 1.0) <= 1e-15 for x in (q[place.q] for place in self.places))

    def unit(self, rows: Array, what: str) -> Array:
        """Configurations (..., nq) as they are, whose quaternions must be unit ones.

        >>> Configuration([("b", KINDS["ball"])]).unit(np.zeros(4), "q")
        Traceback (most recent call last):
        ...
        ValueError: q: the quaternion of 'b' has length 0, not 1
        """
        for place in self.places:
            with np.errstate(over="ignore"):
                length = np.linalg.norm(rows[..., place.q], axis=-1)
            if not (np.abs(length - 1.0) <= 1e-6).all():
                at = np.argwhere(~(np.abs(length - 1.0) <= 1e-6))[0]
                where = f"{what}[{', '.join(map(str, at))}]" if len(at) else what
                raise ValueError(f"{where}: the quaternion of '{place.name}' has length {length[tuple(at)]:.6g}, not 1")
        return rows

    def _named_point(self, value: Mapping[str, object], what: str) -> Array:
        q = self.neutral()
        balls = {place.name: place for place in self.places}
        index = {name: i for i, name in enumerate(self.coordinates)}
        for key, given in value.items():
            label = f"{what}['{key}']"
            if key in balls:
                x = finite(given, label, (4,), (3,), (3, 3), (4, 4))
                place = balls[key]
                if x.shape == (4, 4):
                    if f"{key}.x" not in index:
                        raise ValueError(f"{label}: a pose is for a floating body, this ball only turns")
                    q[[index[f"{key}.{axis}"] for axis in "xyz"]] = x[:3, 3]
                    x = x[:3, :3]
                q[place.q] = x if x.shape == (4,) else _quaternion(x, label)
            elif key in index:
                x = floats(given, label)
                if x.size != 1:
                    raise ValueError(f"{label} must be one number, not {given!r:.80}")
                q[index[key]] = x.item()
            else:
                raise ValueError(f"{what}: unknown name {key!r}{nearest(key, (*self.coordinates, *balls))}")
        return q

    def tangent(self, value: Named | None, what: str = "v") -> Array:
        """A velocity (nv,): an array, None (zeros), or a dict by name (others zero); a ball takes three numbers, along body axes.

        >>> Configuration([("b", KINDS["ball"])]).tangent({"b": [1.0, 2.0, 3.0]})
        array([1., 2., 3.])
        """
        if self.flat:
            return vector(value, self.coordinates, what)
        if not isinstance(value, Mapping):
            return vector(value, self.velocities, what)
        v = np.zeros(self.nv)
        balls = {place.name: place for place in self.places}
        for key, given in value.items():
            label = f"{what}['{key}']"
            if key in balls:
                v[balls[key].v] = finite(given, label, (3,))
            elif key in self.velocity_index:
                x = floats(given, label)
                if x.size != 1:
                    raise ValueError(f"{label} must be one number, not {given!r:.80}")
                v[self.velocity_index[key]] = x.item()
            else:
                raise ValueError(f"{what}: unknown name {key!r}{nearest(key, (*self.velocity_index, *balls))}")
        return finite(v, what, names=self.velocities)

    def difference(self, q0: Array, q1: Array) -> Array:
        """The tangent vector (..., nv) at q0 (..., nq) that leads to q1."""
        if self.flat:
            return np.subtract(q1, q0)
        at, to = self.numbers
        q0, q1 = np.broadcast_arrays(q0, q1)
        out = np.empty((*q0.shape[:-1], self.nv))
        out[..., to] = q1[..., at] - q0[..., at]
        for place in self.places:
            out[..., place.v] = place.chart.difference(q0[..., place.q], q1[..., place.q])
        return out

    def integrate(self, q: Array, dv: Array) -> Array:
        """The configuration (..., nq) to which dv (..., nv) leads from q."""
        if self.flat:
            return np.add(q, dv)
        at, to = self.numbers
        lead = np.broadcast_shapes(np.shape(q)[:-1], np.shape(dv)[:-1])
        q, dv = np.broadcast_to(q, (*lead, self.nq)), np.broadcast_to(dv, (*lead, self.nv))
        out = np.empty((*lead, self.nq))
        out[..., at] = q[..., at] + dv[..., to]
        for place in self.places:
            out[..., place.q] = place.chart.integrate(q[..., place.q], dv[..., place.v])
        return out

    def difference_jacobian(self, q0: Array, q1: Array) -> Array | None:
        """Derivative (..., nv, nv) of difference(q0, integrate(q1, dv)) by dv at 0; None: the identity."""
        if self.flat:
            return None
        q0, q1 = np.broadcast_arrays(q0, q1)
        out = np.broadcast_to(np.eye(self.nv), (*q0.shape[:-1], self.nv, self.nv)).copy()
        for place in self.places:
            out[..., place.v, place.v] = place.chart.difference_jacobian(q0[..., place.q], q1[..., place.q])
        return out

    def integrate_jacobian(self, q: Array) -> Array | None:
        """Derivative (..., nq, nv) of integrate(q, dv) by dv at 0; None: the identity."""
        if self.flat:
            return None
        out = np.zeros((*np.shape(q)[:-1], self.nq, self.nv))
        at, to = self.numbers
        out[..., at, to] = 1.0
        for place in self.places:
            out[..., place.q, place.v] = place.chart.integrate_jacobian(q[..., place.q])
        return out

    def neutral(self) -> Array:
        """The configuration (nq,) where nothing is turned or shifted."""
        return np.array([value for _, kind in self.joints for value in kind.neutral], dtype=float)

    def random(self, generator: np.random.Generator) -> Array:
        """A configuration (nq,) drawn at random: hinges anywhere, sliders within a metre."""
        return np.concatenate([np.zeros(0), *(kind.random(generator) for _, kind in self.joints)])

    @cached_property
    def readings(self) -> tuple[str, ...]:
        """Names (nv,) of what `read` gives: coordinates that are numbers by their names, a ball b as b.rx, b.ry, b.rz."""
        names = list(self.velocities)
        for q, v in zip(*self.numbers, strict=True):
            names[v] = self.coordinates[q]
        for place in self.places:
            names[place.v] = [f"{place.name}.r{axis}" for axis in "xyz"]
        return tuple(names)

    def read(self, q: Array) -> Array:
        """Configurations for reading and plotting: (N, nv) of q (N, nq), a ball as its rotation vector (rad), which does not jump from one
        row to the next where the turn passes pi.

        >>> b = Configuration([("b", KINDS["ball"])])
        >>> turns = b.integrate(b.neutral(), np.outer(np.linspace(0.0, 5.0, 6), [0.0, 0.0, 1.0]))
        >>> b.readings[2], b.read(turns)[:, 2].round(6).tolist()
        ('b.rz', [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        """
        if self.flat:
            return q
        out = self.difference(self.neutral(), q)
        for place in self.places:
            out[:, place.v] = _without_jumps(out[:, place.v])
        return out


def _without_jumps(r: Array) -> Array:
    """Rotation vectors (N, 3) with whole turns added about their axes, each nearest to the one before."""
    angle = np.linalg.norm(r, axis=-1)
    axis = r / np.where(angle > 0, angle, 1.0)[:, None]
    turns = np.zeros(len(r))
    last = r[0] if len(r) else None
    for k in range(1, len(r)):
        turns[k] = np.round((axis[k] @ last - angle[k]) / (2 * pi))
        last = r[k] + 2 * pi * turns[k] * axis[k]
    return r + 2 * pi * turns[:, None] * axis
