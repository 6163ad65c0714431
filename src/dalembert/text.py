"""Readable reprs: results say what they hold and how large it is, not every number."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


class Brief:
    """Mixin for dataclasses with `repr=False`: long arrays appear by their shape.

    >>> from dataclasses import dataclass
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


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 12:
        return f"array {value.shape}"
    text = repr(value).splitlines()
    return text[0] if len(text) == 1 else f"{text[0]} ..."
