"""How far a long computation is: a line on the terminal's stderr, or a bar in a notebook; nothing where nobody would see it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

EVERY = 0.1  # seconds between two pictures
WIDTH = 30  # of the bar on a terminal


def in_notebook() -> bool:
    """Does this run in the kernel of a notebook?

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def progress(
    label: str, total: int | None = None, *, wanted: bool = True
) -> Iterator[Callable[[int, str], None] | None]:
    """A function to call with (done, text) now and then; None if it is not wanted or nobody would see it. `total`: what done ends at.

    >>> with progress("simulate", 100) as tell:
    ...     tell is None  # no terminal, no notebook
    True
    """
    notebook = in_notebook()
    if not wanted or not (notebook or sys.stderr.isatty()):
        yield None
        return
    show, end = _notebook(label) if notebook else _terminal(label)
    last = 0.0

    def tell(done: int, text: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY:
            last = now
            show(None if not total else min(done / total, 1.0), text)

    try:
        yield tell
    finally:
        end()


def _terminal(label: str) -> tuple[Callable[[float | None, str], None], Callable[[], None]]:
    """One line that is written over itself, and removed at the end."""

    def show(part: float | None, text: str) -> None:
        bar = "" if part is None else f" {'━' * round(WIDTH * part):<{WIDTH}} {100 * part:3.0f} %"
        sys.stderr.write(f"\r\x1b[2K{label}{bar} {text}".rstrip()[:140])
        sys.stderr.flush()

    def end() -> None:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()

    return show, end


def _notebook(label: str) -> tuple[Callable[[float | None, str], None], Callable[[], None]]:
    """A bar among the outputs of the cell, which goes away at the end."""
    from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

    handle: list[Any] = []

    def show(part: float | None, text: str) -> None:
        value = "" if part is None else f' value="{part:.3f}"'
        percent = "" if part is None else f"{100 * part:.0f} %"
        page = HTML(f"<span>{escape(label)} <progress{value}></progress> {percent} {escape(text)}</span>")
        if handle:
            handle[0].update(page)
        else:
            handle.append(display(page, display_id=True))

    def end() -> None:
        if handle:
            handle[0].update(HTML(""))

    return show, end
