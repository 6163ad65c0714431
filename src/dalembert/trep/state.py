"""The current state of a trep system: t, q, dq, ddq and u, whole or by parts, read as copies and written with checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .component import number
from .structure import Structure

Array = NDArray[np.float64]


class State(Structure):
    """Values of the variables, their velocities and accelerations, and the inputs."""

    @property
    def t(self) -> float:
        """Time."""
        return self._t

    @t.setter
    def t(self, value: float) -> None:
        self._t = number(value, "t")
        self._moved()

    def _write(self, array: Array, value: Any, parts: Sequence[Any], what: str) -> None:
        """Numbers into a part of the state: one for all, a list, or a dictionary by name."""
        new = array.copy()
        if isinstance(value, Mapping):
            get = self.get_input if what == "u" else self.get_config
            for key, x in value.items():
                part = get(key)
                if part not in parts:
                    raise KeyError(f"{part.name!r} is no part of {what}")
                new[parts.index(part)] = number(x, f"{what} of {part.name!r}")
        elif np.ndim(value) == 0:
            new[:] = number(value, what)
        else:
            row = np.asarray(value, dtype=float)
            if row.shape != new.shape:
                raise ValueError(
                    f"{what} has {row.size} numbers, but {new.size} are needed (a dictionary sets some of them)"
                )
            new[:] = row
        if not np.isfinite(new).all():
            bad = parts[int(np.flatnonzero(~np.isfinite(new))[0])]
            raise ValueError(f"{what} of {bad.name!r} is not finite")
        array[:] = new
        self._moved()

    @property
    def q(self) -> Array:
        """Values of all variables; set by a list, a number for all, or a dictionary by name (others unchanged)."""
        return self._q.copy()

    @q.setter
    def q(self, value: object) -> None:
        self._write(self._q, value, self.configs, "q")

    @property
    def dq(self) -> Array:
        """Velocities of all variables."""
        return self._dq.copy()

    @dq.setter
    def dq(self, value: object) -> None:
        self._write(self._dq, value, self.configs, "dq")

    @property
    def ddq(self) -> Array:
        """Accelerations of all variables."""
        return self._ddq.copy()

    @ddq.setter
    def ddq(self, value: object) -> None:
        self._write(self._ddq, value, self.configs, "ddq")

    @property
    def qd(self) -> Array:
        """Values of the dynamic variables."""
        return self._q[: self.nQd].copy()

    @qd.setter
    def qd(self, value: object) -> None:
        self._write(self._q[: self.nQd], value, self._dynamic, "qd")

    @property
    def dqd(self) -> Array:
        """Velocities of the dynamic variables."""
        return self._dq[: self.nQd].copy()

    @dqd.setter
    def dqd(self, value: object) -> None:
        self._write(self._dq[: self.nQd], value, self._dynamic, "dqd")

    @property
    def ddqd(self) -> Array:
        """Accelerations of the dynamic variables, as `f` found them last."""
        return self._ddq[: self.nQd].copy()

    @ddqd.setter
    def ddqd(self, value: object) -> None:
        self._write(self._ddq[: self.nQd], value, self._dynamic, "ddqd")

    @property
    def qk(self) -> Array:
        """Values of the kinematic variables."""
        return self._q[self.nQd :].copy()

    @qk.setter
    def qk(self, value: object) -> None:
        self._write(self._q[self.nQd :], value, self._kinematic, "qk")

    @property
    def dqk(self) -> Array:
        """Velocities of the kinematic variables."""
        return self._dq[self.nQd :].copy()

    @dqk.setter
    def dqk(self, value: object) -> None:
        self._write(self._dq[self.nQd :], value, self._kinematic, "dqk")

    @property
    def ddqk(self) -> Array:
        """Accelerations of the kinematic variables."""
        return self._ddq[self.nQd :].copy()

    @ddqk.setter
    def ddqk(self, value: object) -> None:
        self._write(self._ddq[self.nQd :], value, self._kinematic, "ddqk")

    @property
    def u(self) -> Array:
        """Inputs."""
        return self._u.copy()

    @u.setter
    def u(self, value: object) -> None:
        self._write(self._u, value, self._inputs, "u")

    def set_state(
        self, q: object = None, dq: object = None, u: object = None, ddqk: object = None, t: object = None
    ) -> None:
        """Set several parts of the state at once; None leaves a part as it is."""
        for name, value in (("q", q), ("dq", dq), ("u", u), ("ddqk", ddqk), ("t", t)):
            if value is not None:
                setattr(self, name, value)
