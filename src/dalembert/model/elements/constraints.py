"""Holonomic constraints: on distances, points, variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..drawing import Between, Part, Pin, Surface
from ..frames import Kinematic
from ..parameter import present
from .base import WORLD, ConstraintElement, element
from .fields import Axes, AxesField, Axis, Coefficients, Curve, FrameName, Length, Number, VariableName
from .pairs import apart, between

if TYPE_CHECKING:
    from ...symbolic import Symbolic
    from ..compile import Row, Table
    from ..model import Model

__all__ = ["Cam", "Distance", "LinearRelation", "PointOnPlane", "PointToPoint"]


@element
@dataclass(frozen=True)
class Distance(ConstraintElement):
    """|p1 - p2| of the origins of `frame1` and `frame2` equals `length`: a number, a variable, or a new
    `Kinematic(name)`: a rod, or a string on a winch.

    The constraint function is |p1 - p2|^2 - length^2.

    >>> from dalembert import Kinematic
    >>> Distance("hook", "hand", Kinematic("string")).size
    1
    """

    frame1: FrameName
    frame2: FrameName
    length: Length

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)
        if self.variables:
            for name in set(self.variables) & between(model, self.frame1, self.frame2):
                self._refuse(f"its length variable '{name}' also moves one of its frames")

    def depends_on(self, model: Model) -> set[str]:
        return {*self.variables, *between(model, self.frame1, self.frame2)}

    def compile(self, table: Table) -> Iterable[Row]:
        if isinstance(self.length, float):
            return [table.on_pair("Distance", self.frame1, self.frame2, [self.length])]
        return [table.on_pair("Distance", self.frame1, self.frame2, [], length=self.variables[0])]

    def symbolic(self, s: Symbolic) -> Any:
        length = s.variable(self.variables[0]) if isinstance(self.length, (str, Kinematic)) else self.length
        return s.ca.sumsqr(s.position(self.frame1) - s.position(self.frame2)) - length**2

    def draw(self, model: Model) -> Iterable[Part]:
        return [Between("rod" if isinstance(self.length, float) else "string", self.frame1, self.frame2)]


@element
@dataclass(frozen=True)
class PointToPoint(ConstraintElement):
    """n . (p1 - p2) = 0 of the origins of `frame1` and `frame2` for each direction n: letters as "xz", or vectors,
    fixed in the world or in frame `axes_of`.

    >>> PointToPoint("a", "b", "xz").directions
    ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    """

    frame1: FrameName
    frame2: FrameName
    directions: Axes = "xyz"
    axes_of: FrameName = WORLD

    def _vectors(self) -> tuple[tuple[float, float, float], ...]:
        return AxesField().check(self.directions)

    @property
    def size(self) -> int:
        return len(self.directions)

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)

    def compile(self, table: Table) -> Iterable[Row]:
        frames = [self.frame1, self.frame2, self.axes_of]
        return [table.on_frames("Direction", frames, table.in_joint_axes(self.axes_of, n)) for n in self._vectors()]

    def symbolic(self, s: Symbolic) -> Any:
        gap = s.position(self.frame1) - s.position(self.frame2)
        return s.ca.DM([list(n) for n in self._vectors()]) @ (s.rotation(self.axes_of).T @ gap)

    def draw(self, model: Model) -> Iterable[Part]:
        return [Pin(self.frame1)]


@element
@dataclass(frozen=True)
class PointOnPlane(ConstraintElement):
    """The origin of `point` stays in the plane through `plane`'s origin with the given normal (in plane's axes), or `offset` (m) above it.

    The constraint function is n . (point - plane) - offset |n|.

    >>> PointOnPlane("table", (0, 0, 1), "ball").size
    1
    """

    plane: FrameName
    normal: Axis
    point: FrameName
    offset: Number = 0.0

    def check(self, model: Model) -> None:
        apart(self, self.plane, self.point)

    def compile(self, table: Table) -> Iterable[Row]:
        frames = [self.point, self.plane, self.plane]
        row = table.on_frames("Direction", frames, table.in_joint_axes(self.plane, self.normal))
        if not present(self.offset):
            return [row]
        return [row | {"site_b": table.site(self.plane, [self.offset * x / self._length for x in self.normal])}]

    @property
    def _length(self) -> float:
        x, y, z = self.normal
        return (x * x + y * y + z * z) ** 0.5  # by arithmetic that parameters follow

    def symbolic(self, s: Symbolic) -> Any:
        normal = s.rotation(self.plane) @ s.ca.DM(list(self.normal))
        gap = s.ca.dot(normal, s.position(self.point) - s.position(self.plane))
        return gap - self.offset * self._length if self.offset else gap

    def draw(self, model: Model) -> Iterable[Part]:
        return [Surface(self.plane, self.normal)]


@element
@dataclass(frozen=True)
class LinearRelation(ConstraintElement):
    """sum of coefficient * variable = offset, `coefficients` by variable: a gear, a screw, a belt.

    >>> LinearRelation({"wheel": 1.0, "pinion": -3.0}).offset
    0.0
    """

    coefficients: Coefficients
    offset: Number = 0.0

    @property
    def label(self) -> str:
        try:
            return f"LinearRelation({', '.join(map(str, dict(self.coefficients)))})"
        except (TypeError, ValueError):  # what was given is no table
            return "LinearRelation"

    def validate(self) -> None:
        if not any(number for _, number in self.coefficients):
            self._refuse("needs a non-zero coefficient")

    def compile(self, table: Table) -> Iterable[Row]:
        names, numbers = zip(*self.coefficients, strict=True)
        return [table.on_variables("LinearRelation", names, [self.offset, table.coefficients(numbers)])]

    def symbolic(self, s: Symbolic) -> Any:
        return sum((c * s.variable(name) for name, c in self.coefficients), s.ca.SX(0)) - self.offset


@element
@dataclass(frozen=True)
class Cam(ConstraintElement):
    """follower = profile(driver), with a smooth profile given by a `Spline`.

    >>> Cam("angle", "lift", [(0, 0), (1, 0.1), (2, 0.3), (3, 0.2)]).size
    1
    """

    driver: VariableName
    follower: VariableName
    profile: Curve

    def check(self, model: Model) -> None:
        if self.driver == self.follower:
            self._refuse("driver and follower are the same variable")

    def compile(self, table: Table) -> Iterable[Row]:
        row = table.on_variables("Cam", [self.driver, self.follower], [])
        return [row | {"spline": table.spline(self.profile)}]

    def symbolic(self, s: Symbolic) -> Any:
        return s.variable(self.follower) - s.spline(self.profile, s.variable(self.driver))
