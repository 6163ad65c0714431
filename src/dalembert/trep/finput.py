"""Input: a force input of a trep system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .component import Component, number

if TYPE_CHECKING:
    from .force import Force
    from .system import System


class Input(Component):
    """A force input; forces create it from the name that they are given.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=1.0)])
    >>> force = trep.forces.ConfigForce(system, "x", "push")
    >>> system.inputs[0].name, system.get_input("push").force is force
    ('push', True)
    """

    def __init__(self, system: System, name: str | None = None) -> None:
        super().__init__(system, name)
        self._force: Force | None = None
        self._index = -1
        system._add_input(self)

    @property
    def force(self) -> Force | None:
        """The force that reads this input."""
        return self._force

    @property
    def index(self) -> int:
        """Index in `System.inputs`."""
        return self._index

    @property
    def u(self) -> float:
        """Current value."""
        return float(self._system._u[self._index])

    @u.setter
    def u(self, value: object) -> None:
        self._system._u[self._index] = number(value, f"input {self.name!r}")
        self._system._moved()
