"""Rotations as unit quaternions (w, x, y, z): products, exponential, logarithm, matrices. All functions take any leading axes.

A rotation vector r (..., 3) has the axis of a rotation and its angle (rad) as length; `exponential(r)` is its quaternion. Tangent vectors at
q are in body axes: q moves to q exp(r).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, all_finite, finite


def _rows(x: ArrayLike, n: int, what: str) -> Array:
    """Finite numbers (..., n)."""
    rows = finite(x, what)
    if rows.shape[-1:] != (n,):
        raise ValueError(f"{what} has shape {rows.shape}, but (..., {n}) is needed")
    return rows


def _quaternions(q: ArrayLike) -> Array:
    return _rows(q, 4, "the quaternion")


def _vectors(r: ArrayLike) -> Array:
    return _rows(r, 3, "the rotation vector")


def multiply(a: ArrayLike, b: ArrayLike) -> Array:
    """The quaternion (..., 4) of b, then a.

    >>> multiply(np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0]))
    array([0., 0., 0., 1.])
    """
    (aw, ax, ay, az), (bw, bx, by, bz) = (np.moveaxis(_quaternions(x), -1, 0) for x in (a, b))
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(q: ArrayLike) -> Array:
    """The rotation back (..., 4).

    >>> conjugate(np.array([0.0, 1.0, 0.0, 0.0]))
    array([ 0., -1., -0., -0.])
    """
    return _quaternions(q) * np.array([1.0, -1.0, -1.0, -1.0])


def exponential(r: ArrayLike) -> Array:
    """The quaternion (..., 4) of a rotation vector (..., 3; rad).

    >>> exponential(np.array([0.0, 0.0, np.pi])).round(6)
    array([0., 0., 0., 1.])
    """
    v = _vectors(r)
    half = np.linalg.norm(v, axis=-1, keepdims=True) / 2
    if not all_finite(half):
        raise ValueError("the rotation vector is too large")
    return np.concatenate([np.cos(half), np.sinc(half / np.pi) * v / 2], axis=-1)


def logarithm(q: ArrayLike) -> Array:
    """The shortest rotation vector (..., 3; rad) of a quaternion (..., 4).

    >>> logarithm(np.array([0.0, 0.0, 0.0, 1.0])).round(6)
    array([0.      , 0.      , 3.141593])
    """
    x = _quaternions(q)
    x = np.where(x[..., :1] < 0, -x, x)
    sine = np.linalg.norm(x[..., 1:], axis=-1, keepdims=True)
    small = sine < 1e-8
    return np.where(small, 2.0, 2 * np.arctan2(sine, x[..., :1]) / np.where(small, 1.0, sine)) * x[..., 1:]


def matrix(q: ArrayLike) -> Array:
    """The rotation matrix (..., 3, 3) of a unit quaternion (..., 4).

    >>> matrix(np.array([0.0, 0.0, 0.0, 1.0]))
    array([[-1.,  0.,  0.],
           [ 0., -1.,  0.],
           [ 0.,  0.,  1.]])
    """
    w, x, y, z = np.moveaxis(_quaternions(q), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def of_matrix(matrix: ArrayLike) -> Array:
    """The unit quaternion (4,), w >= 0, of a rotation matrix (3, 3).

    >>> of_matrix(np.diag([-1.0, -1.0, 1.0]))
    array([0., 0., 0., 1.])
    """
    R = finite(matrix, "the rotation matrix", (3, 3))
    with np.errstate(over="ignore", invalid="ignore"):
        off = float(np.abs(R @ R.T - np.eye(3)).max())
    if not off < 1e-6 or np.linalg.det(R) < 0:
        raise ValueError(f"this is not a rotation matrix (R R^T is off by {off:.3g}, or it is a reflection)")
    # the largest of the four squared components is the one to divide by
    xx, yy, zz = np.diag(R)
    squares = np.array([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz])
    rows = np.array(
        [
            [squares[0], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], squares[1], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
            [R[0, 2] - R[2, 0], R[0, 1] + R[1, 0], squares[2], R[1, 2] + R[2, 1]],
            [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], squares[3]],
        ]
    )
    q = rows[int(np.argmax(squares))]
    return q / np.linalg.norm(q) * (-1.0 if q[0] < 0 else 1.0)


def cross_matrix(a: Array) -> Array:
    """The matrix (..., 3, 3) of the cross product with a (..., 3).

    >>> cross_matrix(np.array([0.0, 0.0, 1.0])) @ np.array([1.0, 0.0, 0.0])
    array([0., 1., 0.])
    """
    x, y, z = np.moveaxis(a, -1, 0)
    o = np.zeros_like(x)
    return np.stack([o, -z, y, z, o, -x, -y, x, o], axis=-1).reshape(*np.shape(a), 3)


def inverse_right_jacobian(r: Array) -> Array:
    """D (..., 3, 3): log(exp(r) exp(dr)) = r + D dr to first order.

    >>> inverse_right_jacobian(np.zeros(3))
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    s = np.sum(np.square(r), axis=-1)[..., None, None]
    half = np.sqrt(np.where(s < 1e-2, 1.0, s)) / 2
    far = (1 - half / np.tan(half)) / (4 * half * half)
    c = np.where(s < 1e-2, 1 / 12 + s / 720 + s * s / 30240 + s**3 / 1209600, far)
    P = cross_matrix(r)
    return np.eye(3) + P / 2 + c * (P @ P)


def right_jacobian(r: Array) -> Array:
    """J (..., 3, 3): exp(r + dr) = exp(r) exp(J dr) to first order.

    >>> right_jacobian(np.zeros(3))
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    s = np.sum(np.square(r), axis=-1)[..., None, None]
    angle = np.sqrt(np.where(s < 1e-2, 1.0, s))
    a = np.where(s < 1e-2, 0.5 - s / 24 + s * s / 720 - s**3 / 40320, (1 - np.cos(angle)) / angle**2)
    b = np.where(s < 1e-2, 1 / 6 - s / 120 + s * s / 5040 - s**3 / 362880, (angle - np.sin(angle)) / angle**3)
    P = cross_matrix(r)
    return np.eye(3) - a * P + b * (P @ P)


def right_jacobian_slope(r: Array, g: Array) -> Array:
    """Derivative (..., 3, 3) of J(r)^T g by r, with J the `right_jacobian`, for a fixed g (..., 3).

    >>> right_jacobian_slope(np.zeros(3), np.array([0.0, 0.0, 1.0]))
    array([[ 0. ,  0.5,  0. ],
           [-0.5,  0. ,  0. ],
           [ 0. ,  0. ,  0. ]])
    """
    s = np.sum(np.square(r), axis=-1)[..., None, None]
    near, angle = s < 1e-2, np.sqrt(np.where(s < 1e-2, 1.0, s))
    a, b = (1 - np.cos(angle)) / angle**2, (angle - np.sin(angle)) / angle**3
    da, db = (1 - angle**2 * b - 2 * a) / (2 * angle**2), (a - 3 * b) / (2 * angle**2)
    a = np.where(near, 0.5 - s / 24 + s * s / 720 - s**3 / 40320, a)
    b = np.where(near, 1 / 6 - s / 120 + s * s / 5040 - s**3 / 362880, b)
    da = np.where(near, -1 / 24 + s / 360 - s * s / 13440 + s**3 / 907200, da)
    db = np.where(near, -1 / 120 + s / 2520 - s * s / 120960 + s**3 / 9979200, db)
    P = cross_matrix(r)
    one = (P @ g[..., None])[..., 0]
    two = (P @ one[..., None])[..., 0]
    along = np.sum(r * g, axis=-1)[..., None, None]
    row = r[..., None, :]
    bent = along * np.eye(3) + r[..., None] * g[..., None, :] - 2 * g[..., None] * row
    return -a * cross_matrix(g) + 2 * da * one[..., None] * row + b * bent + 2 * db * two[..., None] * row


def half_way(r: Array) -> Array:
    """A (..., 3, 3): the middle of the way r between two rotations turns by A^T x + A y when its ends turn by x and y (body axes).

    >>> half_way(np.zeros(3))
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 0.5]])
    """
    angle = np.linalg.norm(r, axis=-1)[..., None, None]
    small = angle < 1e-3
    t = np.where(small, 0.25 + angle**2 / 192, np.tan(angle / 4) / np.where(small, 1.0, angle))
    return (np.eye(3) + t * cross_matrix(r)) / 2
