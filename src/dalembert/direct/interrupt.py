"""Ctrl-C in a solver of CasADi: it ends the solver, which calls that a failure; here it is what the user meant."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def told_apart() -> Iterator[None]:
    """KeyboardInterrupt out of the block if there was one inside, whatever the solver made of it.

    >>> with told_apart():
    ...     pass
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield  # handlers belong to the main thread
        return
    seen = False

    def note(number: int, frame: object) -> None:
        nonlocal seen
        seen = True
        usual(number, frame)  # type: ignore[arg-type]

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if seen:
            raise KeyboardInterrupt
