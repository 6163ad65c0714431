"""Checking what comes in: arrays of the right shape, finite numbers, names; nothing else.

Every room checks its arguments with these functions, so that a wrong shape, an unknown name, text or NaN gives the same ValueError everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Named = ArrayLike | Mapping[str, float]  # numbers in order, or by name


def floats(value: Any, what: str) -> Array:
    """A contiguous float array; text, complex numbers and objects are a ValueError, not a conversion."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    try:
        x = np.asarray(value)
        if x.dtype.kind in "fiub":
            return np.ascontiguousarray(x, dtype=float)
        if x.dtype.kind == "O" and not any(isinstance(y, (str, bytes, complex)) for y in x.ravel()):
            return np.ascontiguousarray(x.astype(float))
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{what} must be an array of real numbers, not {value!r:.80}")


def vector(value: ArrayLike | Mapping[str, float] | None, names: Sequence[str], what: str) -> Array:
    """Numbers for named entries: an array, a dict by name (others zero), or None (zeros); checked for shape and NaN."""
    if value is None:
        return np.zeros(len(names))
    if isinstance(value, Mapping):
        out = np.zeros(len(names))
        index = {n: i for i, n in enumerate(names)}
        for key, x in value.items():
            if key not in index:
                raise ValueError(f"{what}: unknown name {key!r}{nearest(key, names)}")
            number = floats(x, f"{what}['{key}']")
            if number.size != 1:
                raise ValueError(f"{what}['{key}'] must be one number, not {x!r:.80}")
            out[index[key]] = number.item()
    else:
        out = floats(value, what)
        if out.shape != (len(names),):
            raise ValueError(f"{what} has shape {out.shape}, but ({len(names)},) is needed")
    if not np.isfinite(out).all():
        bad = int(np.flatnonzero(~np.isfinite(out))[0])
        raise ValueError(f"{what} is not finite at '{names[bad]}'")
    return out


def matrix(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A finite float array of the given shape (-1: any)."""
    out = floats(value, what)
    if out.shape != shape and (
        out.ndim != len(shape) or any(n not in (-1, m) for n, m in zip(shape, out.shape, strict=True))
    ):
        wanted = "(" + ", ".join("N" if n == -1 else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"{what} has shape {out.shape}, but {wanted} is needed")
    if not np.isfinite(out).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise ValueError(f"{what} is not finite at index {where}")
    return out


def whole(value: Any, what: str) -> int:
    """A whole number, given as one (3) or as a float without fraction (3.0)."""
    number = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number % 1 != 0:
        raise ValueError(f"{what} must be a whole number, not {value!r}")
    return int(number)


def nearest(name: object, known: Iterable[str]) -> str:
    """ " (did you mean ...?)" for a misspelled name, or nothing; huge lists are searched in part, to be quick.

    >>> nearest("theat", ["theta", "x"])
    " (did you mean 'theta'?)"
    """
    from difflib import get_close_matches
    from itertools import islice

    wanted = str(name)[:100]
    # at a ratio of 0.6 the shorter one has at least 3/7 of the length of the longer one
    like = (k for k in known if 3 * max(len(k), len(wanted)) <= 7 * min(len(k), len(wanted)))
    close = get_close_matches(wanted, list(islice(like, 2000)), n=3)
    return f" (did you mean {', '.join(map(repr, close))}?)" if close else ""


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
