"""Readable texts: results say what they hold and how large it is, not every number; names print as what they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    __slots__ = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}  # type: ignore[arg-type]
        return table(facts, type(self).__name__)


def printable(text: str, keep: str = "") -> str:
    r"""The text with everything that a terminal would obey, or could not show, written as an escape.

    >>> printable("joint \x1b[31m")
    'joint \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def table(facts: Mapping[str, object], head: str = "") -> str:
    """Facts as HTML, for notebooks: two columns under a heading.

    >>> table({"steps": 5}, "motion")
    '<p><b>motion</b></p><table><tr><th>steps</th><td>5</td></tr></table>'
    """
    rows = "".join(f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in facts.items())
    return (f"<p><b>{_cell(head)}</b></p>" if head else "") + f"<table>{rows}</table>"


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head as HTML, for notebooks.

    >>> grid(["a"], [[0.1 + 0.2]])
    '<table><tr><th>a</th></tr><tr><td>0.3</td></tr></table>'
    """
    body = "".join("<tr>" + "".join(f"<td>{_cell(x)}</td>" for x in row) + "</tr>" for row in rows)
    return "<table><tr>" + "".join(f"<th>{_cell(c)}</th>" for c in columns) + f"</tr>{body}</table>"


def _cell(value: object) -> str:
    from html import escape

    text = value if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else _short(value)
    return escape(printable(text))


def _short(value: Any) -> str:
    import numpy as np  # here, so that errors and the command line load without it

    if isinstance(value, np.ndarray) and value.size > 12:
        return f"array {value.shape}"
    text = repr(value).splitlines()
    return text[0] if len(text) == 1 else f"{text[0]} ..."
