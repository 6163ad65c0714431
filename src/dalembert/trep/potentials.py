"""trep's potentials: Gravity, LinearSpring, ConfigSpring, NonlinearConfigSpring."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import model as da
from .component import Pair, Parameter, number
from .config import Config
from .potential import Potential
from .spline import Spline


def _vector(value: Any, what: str) -> tuple[float, float, float]:
    try:
        x, y, z = value
    except (TypeError, ValueError):
        raise ValueError(f"{what} needs three numbers, not {value!r}") from None
    return number(x, what), number(y, what), number(z, what)


class Gravity(Potential):
    """Uniform gravity on all masses.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tz("z", mass=2.0)])
    >>> trep.potentials.Gravity(system).V_dq("z")
    19.6
    """

    NATIVE: ClassVar[bool] = True

    def __init__(self, system: Any, gravity: Any = (0.0, 0.0, -9.8), name: str | None = None) -> None:
        self._gravity = _vector(gravity, "gravity")
        super().__init__(system, name)

    @property
    def gravity(self) -> tuple[float, float, float]:
        """Acceleration (m/s^2)."""
        return self._gravity

    @gravity.setter
    def gravity(self, value: object) -> None:
        self._gravity = _vector(value, "gravity")
        self._system._changed()

    def _element(self, names: Any) -> Any:
        return da.Gravity(self._gravity)


class LinearSpring(Pair, Potential):
    """Spring between two frames: k/2 (distance - x0)^2."""

    NATIVE: ClassVar[bool] = True
    k = Parameter()
    x0 = Parameter()

    def __init__(self, system: Any, frame1: Any, frame2: Any, k: float, x0: float = 0, name: str | None = None) -> None:
        self._frame1, self._frame2 = system.get_frame(frame1), system.get_frame(frame2)
        self._k, self._x0 = number(k, "k"), number(x0, "x0")
        super().__init__(system, name)

    def _element(self, names: Any) -> Any:
        return da.LinearSpring(names.frame(self._frame1), names.frame(self._frame2), self._k, self._x0)


class ConfigSpring(Potential):
    """Spring on a variable: k/2 (q - q0)^2."""

    NATIVE: ClassVar[bool] = True
    k = Parameter()
    q0 = Parameter()

    def __init__(self, system: Any, config: Any, k: float, q0: float = 0.0, name: str | None = None) -> None:
        self._config = system.get_config(config)
        self._k, self._q0 = number(k, "k"), number(q0, "q0")
        super().__init__(system, name)

    @property
    def config(self) -> Config:
        """The variable."""
        return self._config

    def _element(self, names: Any) -> Any:
        return da.ConfigSpring(names.config(self._config), self._k, self._q0)


class NonlinearConfigSpring(Potential):
    """Spring on a variable with force -spline(m q + b). V and its third derivative are right here, which trep's were not."""

    NATIVE: ClassVar[bool] = True
    m = Parameter()
    b = Parameter()

    def __init__(
        self, system: Any, config: Any, spline: Spline, m: float = 1.0, b: float = 0.0, name: str | None = None
    ) -> None:
        self._config = system.get_config(config)
        self._spline = spline if isinstance(spline, Spline) else Spline(spline)
        self._m, self._b = number(m, "m"), number(b, "b")
        super().__init__(system, name)

    @property
    def config(self) -> Config:
        """The variable."""
        return self._config

    @property
    def spline(self) -> Spline:
        """The spline."""
        return self._spline

    def get_config(self) -> Config:
        """The variable."""
        return self._config

    def get_spline(self) -> Spline:
        """The spline."""
        return self._spline

    def _element(self, names: Any) -> Any:
        # dalembert's spline is the force itself
        table = [(x, *(-y for y in rest)) for x, *rest in self._spline._curve.points]
        return da.NonlinearConfigSpring(names.config(self._config), da.Spline(table), self._m, self._b)
