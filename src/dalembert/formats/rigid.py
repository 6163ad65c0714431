"""Rotations and poses for the readers and writers of robot files, and the frames of joints with arbitrary axes.

Small 3x3 and 4x4 numpy arrays; nothing here is fast or needs to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..model import Frame, Kinematic, elementary, rx, ry, rz, se3, tx, ty, tz

_AXES = np.eye(3)


def rotation(axis: int, angle: float) -> Array:
    """Rotation about the x (0), y (1) or z (2) axis, 3x3.

    >>> bool((rotation(2, 0.0) == np.eye(3)).all())
    True
    """
    return elementary("r" + "xyz"[axis], angle)[:3, :3]


def from_rpy(rpy: Sequence[float]) -> Array:
    """URDF's roll, pitch, yaw: Rz(yaw) Ry(pitch) Rx(roll), 3x3.

    >>> from_rpy((0, 0, 0)).tolist() == np.eye(3).tolist()
    True
    """
    return rotation(2, rpy[2]) @ rotation(1, rpy[1]) @ rotation(0, rpy[0])


def to_zyx(r: Array) -> tuple[float, float, float]:
    """Angles (rz, ry, rx) with r = Rz Ry Rx; at the singularity rz is 0.

    >>> [round(x, 12) for x in to_zyx(from_rpy((0.1, 0.2, 0.3)))]
    [0.3, 0.2, 0.1]
    """
    yaw = math.atan2(r[1, 0], r[0, 0]) if max(abs(r[0, 0]), abs(r[1, 0])) > 1e-12 else 0.0
    rest = rotation(2, -yaw) @ r  # what yaw lost near the singularity, the other two angles pick up
    return yaw, math.atan2(-rest[2, 0], rest[0, 0]), math.atan2(-rest[1, 2], rest[1, 1])


def from_quaternion(q: Sequence[float]) -> Array:
    """Rotation of a quaternion (w, x, y, z) of any length but 0, 3x3.

    >>> from_quaternion((2, 0, 0, 0)).tolist() == np.eye(3).tolist()
    True
    """
    w, x, y, z = np.asarray(q, dtype=float) / math.sqrt(sum(c * c for c in q))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def to_quaternion(r: Array) -> list[float]:
    """(w, x, y, z) of a rotation, by its largest component.

    >>> to_quaternion(np.diag([1.0, -1.0, -1.0]))
    [0.0, 1.0, 0.0, 0.0]
    """
    t = [np.trace(r), r[0, 0], r[1, 1], r[2, 2]]
    i = int(np.argmax(t))
    if i == 0:
        q = [1 + t[0], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]
    else:
        a, b, c = i - 1, i % 3, (i + 1) % 3
        q = [r[c, b] - r[b, c], 0.0, 0.0, 0.0]
        q[1 + a] = 1 + 2 * r[a, a] - t[0]
        q[1 + b] = r[a, b] + r[b, a]
        q[1 + c] = r[a, c] + r[c, a]
    norm = math.sqrt(sum(float(x) ** 2 for x in q))
    return [float(x) / norm for x in q]


def pose(r: Array, p: Sequence[float] | Array) -> Array:
    """The 4x4 transform of a rotation and a position.

    >>> pose(np.eye(3), (1, 2, 3))[:3, 3].tolist()
    [1.0, 2.0, 3.0]
    """
    g = np.eye(4)
    g[:3, :3] = r
    g[:3, 3] = p
    return g


def inverse(g: Array) -> Array:
    """The inverse of a 4x4 transform.

    >>> inverse(pose(np.eye(3), (1, 2, 3)))[:3, 3].tolist()
    [-1.0, -2.0, -3.0]
    """
    r = g[:3, :3].T
    return pose(r, -r @ g[:3, 3] + 0.0)


def z_onto(axis: Sequence[float]) -> Array:
    """A rotation that takes z to the direction of `axis`, 3x3; permutations are exact.

    >>> z_onto((0, 0, -2)).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]
    """
    a = np.asarray(axis, dtype=float)
    a = a / np.abs(a).max()  # no overflow or underflow in the norm
    a = a / math.sqrt(float(a @ a))
    other = _AXES[(int(np.argmax(np.abs(a))) + 1) % 3]  # never parallel to a
    x = np.cross(other, a)
    x /= math.sqrt(float(x @ x))
    return np.column_stack([x, np.cross(a, x), a]) + 0.0


def unit(v: Array) -> Array | None:
    """The direction of a vector; None if it is (almost) zero.

    >>> unit(np.array([0.0, 3.0])).tolist()
    [0.0, 1.0]
    """
    largest = np.abs(v).max()
    if largest < 1e-10:
        return None
    v = v / largest
    return np.asarray(v / math.sqrt(float(v @ v)))


def least_turn(direction: Sequence[float] | Array) -> Array:
    """The smallest rotation that takes z to a direction, 3x3; the identity if there is none.

    >>> least_turn((0, 0, -1)).tolist()
    [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]
    """
    along = unit(np.asarray(direction, dtype=float))
    if along is None:
        return np.eye(3)
    x, y, z = along
    if z < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    k = 1 / (1 + z)
    return np.array([[1 - k * x * x, -k * x * y, x], [-k * x * y, 1 - k * y * y, y], [-x, -y, z]])


def moving(
    kind: str, axis: Sequence[float], value: float | str | Kinematic, before: Array, after: Array, last: dict[str, Any]
) -> Frame:
    """The frames `before`, an elementary motion "r" or "t" about or along `axis`, `after`.

    `before` and `after` are constant transforms; frames that would do nothing are left out. `last` holds children and
    options of the last frame.

    >>> moving("r", (0, 0, 1), "q", np.eye(4), np.eye(4), {"name": "link"}).transform
    'rz'
    """
    makers = {"r": (rx, ry, rz), "t": (tx, ty, tz)}[kind]
    unit = [i for i in range(3) if axis[i] > 0 and not any(axis[j] for j in range(3) if j != i)]
    if unit:
        make = makers[unit[0]]
    else:  # turn z onto the axis, move along or about z, turn back
        turn = pose(z_onto(axis), (0.0, 0.0, 0.0))
        make, before, after = makers[2], before @ turn, inverse(turn) @ after
    options = dict(last)
    children = options.pop("children", ())
    if is_identity(after):
        frame = make(value, *children, **options)
    else:
        frame = make(value, se3(after, *children, **options))
    return frame if is_identity(before) else se3(before, frame)


def is_identity(g: Array) -> bool:
    """Exactly the identity.

    >>> is_identity(np.eye(4))
    True
    """
    return bool((g == np.eye(len(g))).all())


def add_inertias(parts: Sequence[tuple[float, Array, Array]]) -> tuple[float, Array, Array]:
    """Sum of (mass, centre (3,), inertia about that centre (3, 3)), all in the same axes.

    >>> mass, centre, inertia = add_inertias([(1.0, np.zeros(3), np.eye(3)), (1.0, np.array([2.0, 0, 0]), np.eye(3))])
    >>> mass, centre.tolist(), np.diag(inertia).tolist()
    (2.0, [1.0, 0.0, 0.0], [2.0, 4.0, 4.0])
    """
    mass = sum(m for m, _, _ in parts)
    centre = sum((m * c for m, c, _ in parts), np.zeros(3))
    if mass > 0:
        centre = centre / mass
    inertia = np.zeros((3, 3))
    for m, c, i in parts:
        d = c - centre
        inertia += i + m * (float(d @ d) * np.eye(3) - np.outer(d, d))
    return mass, centre, inertia
