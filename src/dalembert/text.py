"""Readable texts: results say what they hold and how large it is, not every number; names print as what they are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Brief:
    """Mixin for dataclasses with `repr=False`: long arrays appear by their shape.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> @dataclass(repr=False)
    ... class Gains(Brief):
    ...     K: np.ndarray
    ...     steps: int
    >>> Gains(np.zeros((5, 2, 4)), 5)
    Gains(K=array (5, 2, 4), steps=5)
    """

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({shown})"


def printable(text: str, keep: str = "") -> str:
    r"""The text with everything that a terminal would obey, or could not show, written as an escape.

    >>> printable("joint \x1b[31m")
    'joint \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def _short(value: Any) -> str:
    import numpy as np  # here, so that errors and the command line load without it

    if isinstance(value, np.ndarray) and value.size > 12:
        return f"array {value.shape}"
    text = repr(value).splitlines()
    return text[0] if len(text) == 1 else f"{text[0]} ..."
