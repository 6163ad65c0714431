"""Config: a configuration variable of a trep system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .component import Component, number

if TYPE_CHECKING:
    from .frame import Frame
    from .system import System


class Config(Component):
    """A configuration variable, dynamic or (kinematic=True) prescribed.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> length = trep.Config(system, "length", kinematic=True)
    >>> length.q = 2.0
    >>> system.qk
    array([2.])
    """

    def __init__(self, system: System, name: str | None = None, kinematic: bool = False) -> None:
        super().__init__(system, name)
        self._kinematic = bool(kinematic)
        self._frame: Frame | None = None
        self._index = -1
        system._add_config(self)

    @property
    def kinematic(self) -> bool:
        """True for a prescribed variable."""
        return self._kinematic

    @property
    def frame(self) -> Frame | None:
        """The frame that this variable moves, if any."""
        return self._frame

    @property
    def index(self) -> int:
        """Index in `System.configs`."""
        return self._index

    @property
    def k_index(self) -> int:
        """Index in `System.kin_configs`, -1 for a dynamic variable."""
        return self._index - self._system.nQd if self._kinematic else -1

    @property
    def masses(self) -> tuple[Frame, ...]:
        """Frames with mass that this variable moves."""
        return tuple(f for f in self._system.masses if f.uses_config(self))

    def _get(self, what: str) -> float:
        return float(getattr(self._system, what)[self._index])

    def _set(self, what: str, value: Any) -> None:
        getattr(self._system, what)[self._index] = number(value, f"{what[1:]} of {self.name!r}")
        self._system._moved()

    @property
    def q(self) -> float:
        """Value."""
        return self._get("_q")

    @q.setter
    def q(self, value: float) -> None:
        self._set("_q", value)

    @property
    def dq(self) -> float:
        """Velocity."""
        return self._get("_dq")

    @dq.setter
    def dq(self, value: float) -> None:
        self._set("_dq", value)

    @property
    def ddq(self) -> float:
        """Acceleration: of a dynamic variable what `System.f` found last."""
        return self._get("_ddq")

    @ddq.setter
    def ddq(self, value: float) -> None:
        self._set("_ddq", value)
