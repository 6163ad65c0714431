"""trep's forces: ConfigForce, JointForce, Damping, LinearDamper, BodyWrench, SpatialWrench, HybridWrench."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .. import model as da
from .component import Pair, Parameter, number
from .config import Config
from .finput import Input
from .force import Force


class ConfigForce(Force):
    """A force on a variable, given by an input.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=2.0)])
    >>> push = trep.forces.ConfigForce(system, "x", "push")
    >>> system.u = [3.0]
    >>> push.f("x"), push.f_du("x", "push")
    (3.0, 1.0)
    """

    NATIVE: ClassVar[bool] = True

    def __init__(self, system: Any, config: Any, finput: Any, name: str | None = None) -> None:
        self._config = system.get_config(config)
        with system._all_or_nothing():
            super().__init__(system, name)
            self._finput = self._create_input(finput)

    @property
    def config(self) -> Config:
        """The variable."""
        return self._config

    @property
    def finput(self) -> Input:
        """The input."""
        return self._finput  # type: ignore[no-any-return]

    def _element(self, names: Any) -> Any:
        if self._config.kinematic and not names.point:
            return None  # a prescribed variable feels no force
        return da.ConfigForce(names.config(self._config), names.input(self._finput))


JointForce = ConfigForce  # its older name


class Damping(Force):
    """Force -c dq on dynamic variables: `default`, or {variable: c} in `coefficients`."""

    NATIVE: ClassVar[bool] = True
    default = Parameter()

    def __init__(
        self,
        system: Any,
        default: float = 0.0,
        coefficients: Mapping[Any, float] | None = None,
        name: str | None = None,
    ) -> None:
        self._default = number(default, "default")
        self._coefficients = {system.get_config(q): number(c, "coefficient") for q, c in (coefficients or {}).items()}
        super().__init__(system, name)

    def get_damping_coefficient(self, config: object) -> float:
        """The coefficient of a variable."""
        return self._coefficients.get(self._system.get_config(config), self._default)

    def set_damping_coefficient(self, config: object, coeff: float | None) -> None:
        """Set the coefficient of a variable; None returns it to the default."""
        q = self._system.get_config(config)
        if coeff is None:
            self._coefficients.pop(q, None)
        else:
            self._coefficients[q] = number(coeff, "coefficient")
        self._system._changed()

    def _element(self, names: Any) -> Any:
        terms = ((names.config(q), self.get_damping_coefficient(q)) for q in self._system.dyn_configs)
        return da.Damping(0.0, tuple(terms))


class LinearDamper(Pair, Force):
    """Damper between two frames: force -c d(distance)/dt along their line."""

    NATIVE: ClassVar[bool] = True
    c = Parameter()

    def __init__(self, system: Any, frame1: Any, frame2: Any, c: float, name: str | None = None) -> None:
        self._frame1, self._frame2 = system.get_frame(frame1), system.get_frame(frame2)
        self._c = number(c, "c")
        super().__init__(system, name)

    def _element(self, names: Any) -> Any:
        return da.LinearDamper(names.frame(self._frame1), names.frame(self._frame2), self._c)


class _Wrench(Force):
    """(fx, fy, fz, tx, ty, tz) on a frame; each a number, an Input or an input's name; missing ones are zero."""

    AXES: ClassVar[str] = "body"

    def __init__(self, system: Any, frame: Any, wrench: Any = (), name: str | None = None) -> None:
        self._frame = system.get_frame(frame)
        parts = list(wrench)
        if len(parts) > 6:
            raise ValueError(f"a wrench has at most 6 components, not {len(parts)}")
        parts += [0.0] * (6 - len(parts))
        parts = [x if isinstance(x, (str, Input)) else number(x, "wrench") for x in parts]
        with system._all_or_nothing():
            super().__init__(system, name)
            self._wrench = [x if isinstance(x, float) else self._create_input(x) for x in parts]

    @property
    def frame(self) -> Any:
        """The frame that it acts on."""
        return self._frame

    @property
    def wrench(self) -> tuple[Any, ...]:
        """Components: numbers or Inputs."""
        return tuple(self._wrench)

    @property
    def wrench_val(self) -> tuple[float, ...]:
        """Current values of the components."""
        return tuple(x.u if isinstance(x, Input) else x for x in self._wrench)

    @wrench_val.setter
    def wrench_val(self, wrench: Any) -> None:
        values = [number(x, "wrench") for x in wrench]
        if len(values) != 6:
            raise ValueError(f"a wrench has 6 components, not {len(values)}")
        for i, value in enumerate(values):
            part = self._wrench[i]
            if isinstance(part, Input):
                part.u = value
            else:
                self._wrench[i] = value
        self._system._changed()

    def get_frame(self) -> Any:
        """The frame that it acts on."""
        return self._frame

    def get_wrench(self) -> tuple[Any, ...]:
        """Components: numbers or Inputs."""
        return self.wrench

    def get_wrench_val(self) -> tuple[float, ...]:
        """Current values of the components."""
        return self.wrench_val

    def set_wrench_val(self, wrench: Any) -> None:
        """Set the values of all six components."""
        self.wrench_val = wrench

    def _element(self, names: Any) -> Any:
        parts = [names.input(x) if isinstance(x, Input) else x for x in self._wrench]
        return da.Wrench(names.frame(self._frame), tuple(parts[:3]), tuple(parts[3:]), self.AXES)


class BodyWrench(_Wrench):
    """Wrench in the axes of the frame, at its origin."""

    NATIVE: ClassVar[bool] = True
    AXES: ClassVar[str] = "body"


class HybridWrench(_Wrench):
    """Wrench in world axes, at the origin of the frame."""

    NATIVE: ClassVar[bool] = True
    AXES: ClassVar[str] = "mixed"


class SpatialWrench(_Wrench):
    """Wrench in world axes, with the moment about the world's origin."""

    NATIVE: ClassVar[bool] = True
    AXES: ClassVar[str] = "world"
