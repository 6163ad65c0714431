"""One module per tool. `version()` says what is installed (and checks it); every other public function builds a `Case`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """`run` is what is timed; `read` turns what it returned into {name: number or list} afterwards.

    A dict with "seconds" from `run` replaces the measured time (tools that time themselves, without Python's calls).
    """

    run: Callable[[], Any]
    read: Callable[[Any], dict[str, Any]] | None = None
