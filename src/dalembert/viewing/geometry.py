"""Small geometry for pictures: rotations, poses, triples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pose = tuple[tuple[float, ...], ...]

IDENTITY: Pose = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def between(a: Array, b: Array) -> tuple[Array, Array]:
    """Rotation (..., 3, 3) whose z axis points from a to b, and the distance (...)."""
    d = b - a
    length = np.linalg.norm(d, axis=-1)
    z = np.where(length[..., None] > 1e-12, d / np.maximum(length, 1e-12)[..., None], np.array([0.0, 0.0, 1.0]))
    helper = np.where(np.abs(z[..., :1]) < 0.9, np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    x = np.cross(helper, z)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=-1), length


def quaternions(rotation: Array) -> Array:
    """Rotation matrices (..., 3, 3) -> unit quaternions (..., 4) as w, x, y, z.

    >>> quaternions(np.eye(3)).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    m = np.asarray(rotation, dtype=float)
    xx, yy, zz = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    # the largest of the four squares keeps the division safe
    squares = np.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], axis=-1)
    pick = np.argmax(squares, axis=-1)
    k = np.zeros((*m.shape[:-2], 4, 4))
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    for i, row in enumerate(
        ((squares[..., 0], a, b, c), (a, squares[..., 1], d, e), (b, d, squares[..., 2], f), (c, e, f, squares[..., 3]))
    ):
        k[..., i, :] = np.stack(row, axis=-1)
    q = np.take_along_axis(k, pick[..., None, None], axis=-2)[..., 0, :]
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def align_z(direction: object) -> Array:
    """A rotation (3, 3) that takes z to a direction."""
    return between(np.zeros(3), np.asarray(direction, dtype=float))[0]


def pose_of(rotation: Array, origin: Sequence[float] | Array) -> Pose:
    """The 4x4 transform of a rotation (3, 3) and an origin (3,), as tuples."""
    rows = [tuple(float(x) for x in (*rotation[i], origin[i])) for i in range(3)]
    return (*rows, (0.0, 0.0, 0.0, 1.0))


def triple(v: Any) -> tuple[float, float, float]:
    """Three plain numbers."""
    return (float(v[0]), float(v[1]), float(v[2]))
