"""Checking what comes in: arrays of the right shape, finite numbers, names; nothing else.

Every room checks its arguments with these functions, so that a wrong shape, an unknown name, text or NaN gives the same ValueError everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Thing = TypeVar("Thing")
Named = ArrayLike | Mapping[str, ArrayLike]  # numbers in order, or by name (a ball has several)


def needed(value: Thing, *kinds: type) -> Thing:
    """The value, which must be of one of the kinds, or TypeError.

    >>> needed("pendulum.toml", int)
    Traceback (most recent call last):
    ...
    TypeError: an object of the kind int is needed, not str
    """
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"an object of the kind {names} is needed, not {type(value).__name__}")
    return value


def floats(value: object, what: str) -> Array:
    """A contiguous float array of any shape; text, complex numbers and objects are a ValueError, not a conversion.

    >>> floats([1, 2], "q")
    array([1., 2.])
    """
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{what} has masked entries: give the numbers that they stand for")
    try:
        x = np.asarray(value)
        if x.dtype.kind in "fiub":
            return np.asarray(x, dtype=np.float64, order="C")
        if x.dtype.kind == "O" and not any(isinstance(y, (str, bytes, complex)) for y in x.ravel()):
            return np.asarray(x, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{what} must be an array of real numbers, not {value!r:.80}")


def finite(value: object, what: str, *shapes: tuple[int | None, ...], names: Sequence[str] = ()) -> Array:
    """A contiguous float array of one of the shapes (None: any length; none given: any shape) without NaN or infinity.

    A single number will do where the shape (1,) is needed. `names` of the entries of the last axis make better messages.

    >>> finite([[1, 2]], "A", (None, 2)).shape
    (1, 2)
    >>> finite([1, 2, 3], "u", (2,))
    Traceback (most recent call last):
    ...
    ValueError: u has shape (3,), but (2,) is needed
    """
    x = floats(value, what)
    if shapes and x.shape not in shapes and not any(_fits(x.shape, s) for s in shapes):
        if x.ndim or (1,) not in shapes:
            wanted = " or ".join(map(_shown, shapes))
            raise ValueError(f"{what} has shape {x.shape}, but {wanted} is needed")
        x = x.reshape(1)
    if not all_finite(x):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        if names and x.ndim in (1, 2):
            where = ", ".join([*(f"step {i}" for i in place[:-1]), repr(names[place[-1]])])
        else:
            where = f"index {place}"
        raise ValueError(f"{what} is not finite at {where}" if place else f"{what} is not finite ({x})")
    return x


_ZEROS = np.zeros(1000)


def all_finite(x: Array) -> bool:
    """Whether no entry is NaN or infinite: a product with zeros finds that out sooner than a look at each entry.

    >>> all_finite(np.array([1e308, 1e308])), all_finite(np.array([1.0, np.inf]))
    (True, False)
    """
    if x.size <= 1000:
        return math.isfinite(np.vdot(x, _ZEROS[: x.size]))
    flat = x.ravel()
    with np.errstate(over="ignore", invalid="ignore"):  # the square may overflow by itself
        if math.isfinite(flat.dot(flat)):
            return True
    return bool(np.isfinite(x).all())


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == n for n, w in zip(shape, wanted, strict=True))


def _shown(shape: tuple[int | None, ...]) -> str:
    if shape == ():
        return "a number"
    return str(tuple("N" if n is None else n for n in shape)).replace("'", "")


def matrix(value: object, shape: tuple[int, ...], what: str) -> Array:
    """`finite` with -1 for any length."""
    return finite(value, what, shape if -1 not in shape else tuple(None if n == -1 else n for n in shape))


def number(value: object, what: str) -> float:
    """One finite number, given as such: not as text, not as a truth value.

    >>> number(3, "mass")
    3.0
    """
    if type(value) is float and math.isfinite(value):
        return value
    try:
        if isinstance(value, (str, bytes, bool)):  # float() would take them; a quoted number is a slip
            raise TypeError
        if isinstance(value, float) and not isinstance(value, np.floating) and math.isfinite(value):
            return value  # a number that knows more: a Parameter
        x = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} must be a number, not {value!r:.80}") from None
    if not math.isfinite(x):
        raise ValueError(f"{what} is not finite ({x})")
    return x


def positive(value: object, what: str) -> float:
    """One finite number above zero.

    >>> positive(1e-9, "tolerance")
    1e-09
    """
    x = number(value, what)
    if not x > 0:
        raise ValueError(f"{what} must be positive, not {x}")
    return x


def whole(value: object, what: str) -> int:
    """A whole number, given as one (3) or as a float without fraction (3.0).

    >>> whole(3.0, "steps")
    3
    """
    if type(value) is int:
        return value
    n = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value
    if isinstance(n, bool) or not isinstance(n, (int, float)) or n % 1 != 0:
        raise ValueError(f"{what} must be a whole number, not {value!r:.80}")
    return int(n)


def vector(value: Named | None, names: Sequence[str], what: str) -> Array:
    """Numbers (n,) for named entries: an array, a dict by name (others zero), or None (zeros).

    >>> vector({"theta": 1.5}, ["x", "theta"], "q")
    array([0. , 1.5])
    """
    if value is None:
        return np.zeros(len(names))
    if not isinstance(value, Mapping):
        return finite(value, what, (len(names),), names=names)
    out = np.zeros(len(names))
    index = {n: i for i, n in enumerate(names)}
    for key, x in value.items():
        if key not in index:
            raise ValueError(f"{what}: unknown name {key!r}{nearest(key, names)}")
        entry = floats(x, f"{what}['{key}']")
        if entry.size != 1:
            raise ValueError(f"{what}['{key}'] must be one number, not {x!r:.80}")
        out[index[key]] = entry.item()
    return finite(out, what, names=names)


def matching(pattern: str, names: Sequence[str]) -> list[int]:
    """Places of the names that a pattern with the wildcards of a shell means.

    Positions and turns of a floating body may go by the names under which motions show them: base.x for the component base.vx of a
    difference, base.rx for base.wx.

    >>> matching("p.*", ["theta", "p.theta"]), matching("base.?", ["base.vx", "base.vy", "p.base.vx"])
    ([1], [0, 1])
    """
    hits = [i for i, name in enumerate(names) if name == pattern or fnmatchcase(name, pattern)]
    return hits or [i for i, name in enumerate(names) if fnmatchcase(_SHOWN.sub(_shown_name, name), pattern)]


_SHOWN = re.compile(r"\.([vw])([xyz])$")


def _shown_name(found: re.Match[str]) -> str:
    return f".{'r' if found[1] == 'w' else ''}{found[2]}"


def by_pattern(values: Mapping[str, Thing], names: Sequence[str], what: str) -> list[tuple[list[int], str, Thing]]:
    """(places, pattern, value) of values by name, in the order in which they are to be set: "*" first, then patterns, plain names last.

    >>> by_pattern({"a": 2.0, "*": 1.0}, ["a", "b"], "Q")
    [([0, 1], '*', 1.0), ([0], 'a', 2.0)]
    """
    out = []
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} are {{name: number}}, not {type(values).__name__}")
    for pattern, value in sorted(values.items(), key=lambda item: (item[0] in names, item[0] != "*")):
        hits = matching(pattern, names)
        if not hits and pattern != "*":
            raise ValueError(f"{what}: unknown name {pattern!r}{nearest(pattern, names)}; known are {', '.join(names)}")
        out.append((hits, pattern, value))
    return out


def weight(value: object, what: str, n: int, steps: int | None = None) -> Array:
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
