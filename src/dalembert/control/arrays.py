"""Checks that control and estimation share: finite float64 arrays of the right shape, symmetric weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def finite(value: Any, what: str, *shapes: tuple[int | None, ...]) -> Array:
    """A contiguous float64 array of one of the shapes (None: any length), without NaN or infinity.

    >>> finite([[1, 2]], "A", (None, 2)).dtype
    dtype('float64')
    """
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be an array of numbers") from None
    if np.ndim(value) == 0:
        array = array.reshape(())
    if shapes and not any(_fits(array.shape, s) for s in shapes):
        wanted = " or ".join("(" + ", ".join("any" if d is None else str(d) for d in s) + ")" for s in shapes)
        raise ValueError(f"{what} has shape {array.shape}, but {wanted} is needed")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{what} is not finite at {where}")
    return array


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))


def weight(value: Any, what: str, n: int, steps: int | None = None) -> Array:
    """A weight matrix (n, n), or (steps, n, n): from a number, a diagonal (n,), a matrix, or one matrix per step.

    >>> weight([1, 2], "Q", 2)
    array([[1., 0.],
           [0., 2.]])
    """
    shapes: list[tuple[int | None, ...]] = [(), (n,), (n, n)]
    if steps is not None:
        shapes.append((steps, n, n))
    array = finite(value, what, *shapes)
    if array.ndim == 0:
        return np.eye(n) * array
    if array.ndim == 1:
        return np.diag(array)
    skew = float(np.abs(array - np.swapaxes(array, -1, -2)).max(initial=0.0))
    if skew > 1e-9 * float(np.abs(array).max(initial=0.0)):
        raise ValueError(f"{what} is not symmetric (difference {skew:.3g})")
    return np.ascontiguousarray((array + np.swapaxes(array, -1, -2)) / 2)
