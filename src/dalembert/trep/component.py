"""What all parts of a trep system share: a system, a name, and checks of the values that a user sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .system import System


class Component:
    """A named part of a `System`."""

    def __init__(self, system: System, name: str | None = None) -> None:
        from .system import System

        if not isinstance(system, System):
            raise TypeError(f"{type(self).__name__} needs a trep System, not {type(system).__name__}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a name must be a string, not {name!r}")
        self._system = system
        self.name = name

    @property
    def system(self) -> System:
        """The system that this belongs to."""
        return self._system

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Pair:
    """What acts between two frames."""

    _frame1: Any
    _frame2: Any

    @property
    def frame1(self) -> Any:
        """First frame."""
        return self._frame1

    @property
    def frame2(self) -> Any:
        """Second frame."""
        return self._frame2


def number(value: Any, what: str) -> float:
    """A finite float, or an error that says what is wrong."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        x = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a number, not {value!r}") from None
    if not math.isfinite(x):
        raise ValueError(f"{what} is not finite ({x})")
    return x


class Parameter:
    """A number of a component; setting it tells the system that its description changed."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.key, self.what = f"_{name}", name

    def __get__(self, thing: Any, owner: type | None = None) -> Any:
        return self if thing is None else getattr(thing, self.key)

    def __set__(self, thing: Any, value: Any) -> None:
        setattr(thing, self.key, number(value, f"{type(thing).__name__}.{self.what}"))
        thing._system._changed()
