"""trep's constraints: Distance, PointOnPlane, PointToPoint1D/2D/3D."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import model as da
from .component import Pair, number
from .config import Config
from .constraint import Constraint
from .potentials import _vector


class _Pair(Pair, Constraint):
    """A constraint between two frames."""

    def get_actual_distance(self) -> float:
        """Distance between the two frames at the current configuration."""
        return float(np.linalg.norm((self._frame1.p() - self._frame2.p())[:3]))


class Distance(_Pair):
    """Keeps |p1 - p2| equal to a number or a variable: h = |p1 - p2|^2 - distance^2.

    A name that is no variable yet makes a new kinematic one, as trep does.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x"), [trep.ty("y", name="bob", mass=1.0)]])
    >>> string = trep.constraints.Distance(system, "World", "bob", "length")
    >>> system.q = {"x": 3, "y": 4, "length": 5}
    >>> string.h(), string.get_actual_distance(), system.kin_configs[0].name
    (0.0, 5.0, 'length')
    """

    NATIVE: ClassVar[bool] = True

    def __init__(self, system: Any, frame1: Any, frame2: Any, distance: Any, name: str | None = None) -> None:
        self._frame1, self._frame2 = system.get_frame(frame1), system.get_frame(frame2)
        self._distance, self._config = 0.0, None
        with system._all_or_nothing():
            if isinstance(distance, str):
                same = [q for q in system.configs if q.name == distance]
                self._config = same[0] if same else Config(system, distance, kinematic=True)
            elif isinstance(distance, Config):
                self._config = system.get_config(distance)
            else:
                self._distance = self._positive(distance)
            super().__init__(system, name)

    @staticmethod
    def _positive(value: Any) -> float:
        x = number(value, "distance")
        if x <= 0:
            raise ValueError(f"a distance must be positive, not {x} (to join two points use PointToPoint)")
        return x

    @property
    def config(self) -> Config | None:
        """The variable that gives the distance, if any."""
        return self._config

    @property
    def distance(self) -> float:
        """The distance: the number, or the current value of the variable."""
        return self._distance if self._config is None else self._config.q

    @distance.setter
    def distance(self, value: float) -> None:
        if self._config is not None:
            self._config.q = value
        else:
            self._distance = self._positive(value)
            self._system._changed()

    def _element(self, names: Any) -> Any:
        length: Any = self._distance
        if self._config is not None:
            length = names.config(self._config)
            if self._config.frame is None and not names.point:
                length = da.Kinematic(length)
        return da.Distance(names.frame(self._frame1), names.frame(self._frame2), length)


class PointOnPlane(Constraint):
    """Keeps the origin of `point_frame` in the plane through `plane_frame`'s origin with a normal in its axes.

    h = (p_plane - p_point) . normal.
    """

    NATIVE: ClassVar[bool] = True

    def __init__(
        self, system: Any, plane_frame: Any, plane_normal: Any, point_frame: Any, name: str | None = None
    ) -> None:
        self._plane_frame, self._point_frame = system.get_frame(plane_frame), system.get_frame(point_frame)
        self._normal = _vector(plane_normal, "normal")
        super().__init__(system, name)

    @property
    def plane_frame(self) -> Any:
        """Frame of the plane."""
        return self._plane_frame

    @property
    def point_frame(self) -> Any:
        """Frame of the point."""
        return self._point_frame

    @property
    def normal(self) -> tuple[float, float, float]:
        """Normal of the plane."""
        return self._normal

    @normal.setter
    def normal(self, value: object) -> None:
        self._normal = _vector(value, "normal")
        self._system._changed()

    def _element(self, names: Any) -> Any:
        x, y, z = self._normal  # dalembert measures from the plane to the point, trep from the point to the plane
        return da.PointOnPlane(names.frame(self._plane_frame), (-x, -y, -z), names.frame(self._point_frame))


class PointToPoint1D(_Pair):
    """Keeps one coordinate ("x", "y" or "z") of p1 - p2 at zero."""

    NATIVE: ClassVar[bool] = True

    def __init__(self, system: Any, axis: str, frame1: Any, frame2: Any, name: str | None = None) -> None:
        if axis not in ("x", "y", "z"):
            raise ValueError(f"axis must be 'x', 'y' or 'z', not {axis!r}")
        self._axis_name = axis
        self._frame1, self._frame2 = system.get_frame(frame1), system.get_frame(frame2)
        super().__init__(system, name)

    def _element(self, names: Any) -> Any:
        axis = "xyz".index(self._axis_name)
        direction = (float(axis == 0), float(axis == 1), float(axis == 2))
        return da.PointToPoint(names.frame(self._frame1), names.frame(self._frame2), (direction,))


def _several(system: Any, axes: str, frame1: Any, frame2: Any, name: str | None) -> tuple[PointToPoint1D, ...]:
    with system._all_or_nothing():
        return tuple(PointToPoint1D(system, a, frame1, frame2, name and f"{name}-{a}") for a in axes)


def PointToPoint2D(
    system: object, plane: str, frame1: object, frame2: object, name: str | None = None
) -> tuple[PointToPoint1D, ...]:
    """Two constraints that join the points in a plane ("xy", "xz", "yz")."""
    if sorted(plane) not in (["x", "y"], ["x", "z"], ["y", "z"]):
        raise ValueError(f"plane must be 'xy', 'xz' or 'yz', not {plane!r}")
    return _several(system, plane, frame1, frame2, name)


def PointToPoint3D(
    system: object, frame1: object, frame2: object, name: str | None = None
) -> tuple[PointToPoint1D, ...]:
    """Three constraints that join the points."""
    return _several(system, "xyz", frame1, frame2, name)
