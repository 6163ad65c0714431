"""Springs: between frames, and on variables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drawing import Between, Spiral
from ..parameter import parameters_in
from .base import PotentialElement, element
from .fields import Axis, Curve, FrameName, Number, VariableName
from .pairs import apart, between, coincide, turning

if TYPE_CHECKING:
    from ...symbolic import Symbolic
    from ..compile import Row, Table
    from ..model import Model
    from .base import PoseOf

__all__ = ["ConfigSpring", "LinearSpring", "NonlinearConfigSpring", "TorsionSpring"]


@element
@dataclass(frozen=True)
class LinearSpring(PotentialElement):
    """Spring between the origins of `frame1` and `frame2`: stiffness/2 (distance - rest_length)^2.

    >>> LinearSpring("a", "b", 100.0, 0.5).rest_length
    0.5
    """

    frame1: FrameName
    frame2: FrameName
    stiffness: Number
    rest_length: Number = 0.0

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)

    def depends_on(self, model: Model) -> set[str]:
        return between(model, self.frame1, self.frame2)

    def undefined(self, pose: PoseOf) -> str:
        return coincide(pose, self.frame1, self.frame2) if self.rest_length else ""

    def compile(self, table: Table) -> Iterable[Row]:
        return [table.on_pair("LinearSpring", self.frame1, self.frame2, [self.stiffness, self.rest_length])]

    def symbolic(self, s: Symbolic) -> Any:
        if self.rest_length == 0:  # smooth also where the frames coincide
            return self.stiffness / 2 * s.ca.sumsqr(s.position(self.frame1) - s.position(self.frame2))
        return self.stiffness / 2 * (s.distance(self.frame1, self.frame2) - self.rest_length) ** 2

    def draw(self, model: Model) -> Iterable[Between]:
        return [Between("spring", self.frame1, self.frame2, self.rest_length)]


@element
@dataclass(frozen=True)
class TorsionSpring(PotentialElement):
    """Spring against turning: stiffness/2 angle^2 (stiffness in N m/rad), where `angle` is how far frame2 has turned from frame1
    about `axis`, beyond the angle `rest` (rad).

    `axis` is a direction in the axes of frame1 (a vector, or "x", "y", "z"). With R the rotation of frame2 seen from frame1,
    n the unit vector along `axis` and Rn(a) the rotation by a about n, the angle from frame1 to frame2 is that of the rotation about n
    which is nearest to R (the twist of a swing-twist decomposition)::

        turned = atan2(2 n . a, trace R - n . R n)   with a the axial vector of R (a x . = (R - R')/2)
        angle  = turned - rest, brought to (-pi, pi]

    For frames joined by hinges about n it is the sum of their angles, less whole turns. It is smooth but for two places, where the
    spring cannot know which way it was wound: half a turn away from rest, where the torque changes sign, and where n itself has been
    turned over (R n = -n with the frames half a turn apart), where the angle has no value.

    >>> TorsionSpring("base", "arm", 2.0, axis="x", rest=0.1).axis
    (1.0, 0.0, 0.0)
    """

    frame1: FrameName
    frame2: FrameName
    stiffness: Number
    axis: Axis = (0.0, 0.0, 1.0)
    rest: Number = 0.0

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)
        for p in parameters_in(self.axis):
            self._refuse(f"the direction of its axis cannot be a parameter ('{p.name}'); turn frame1 instead", p.name)

    def depends_on(self, model: Model) -> set[str]:
        return between(model, self.frame1, self.frame2) & turning(model)

    def undefined(self, pose: PoseOf) -> str:
        u, w = self._across()
        g1, g2 = pose(self.frame1)[:3, :3], pose(self.frame2)[:3, :3]
        (u1, u2), (w1, w2) = (g1 @ u, g2 @ u), (g1 @ w, g2 @ w)
        size = math.hypot(u1 @ u2 + w1 @ w2, w1 @ u2 - u1 @ w2)
        return "its axis is turned over, so that the angle about it is not defined" if size < 1e-12 else ""

    def compile(self, table: Table) -> Iterable[Row]:
        u, w = self._across()
        return [table.on_turns("TorsionSpring", self.frame1, self.frame2, [*u, *w, self.stiffness, self.rest])]

    def _across(self) -> tuple[Any, Any]:
        """Two unit vectors that complete the axis to a right-handed triad (u, w, n)."""
        n = np.array(self.axis) / np.abs(self.axis).max()  # neither overflow nor underflow
        n /= np.linalg.norm(n)
        u = np.cross(np.eye(3)[(int(np.argmax(np.abs(n))) + 1) % 3], n)
        u /= np.linalg.norm(u)
        return u, np.cross(n, u)

    def symbolic(self, s: Symbolic) -> Any:
        ca = s.ca
        n = ca.DM(list(self.axis)) / math.hypot(*self.axis)
        r = s.rotation(self.frame1).T @ s.rotation(self.frame2)
        axial = ca.vertcat(r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]) / 2
        sine, cosine = 2 * ca.dot(n, axial), ca.trace(r) - n.T @ r @ n
        c, d = ca.cos(self.rest), ca.sin(self.rest)
        return self.stiffness / 2 * ca.atan2(c * sine - d * cosine, c * cosine + d * sine) ** 2

    def draw(self, model: Model) -> Iterable[Spiral]:
        return [Spiral(self.frame1, self.frame2, self.axis)]


@element
@dataclass(frozen=True)
class ConfigSpring(PotentialElement):
    """Spring on one variable: stiffness/2 (q - rest)^2.

    >>> ConfigSpring("theta", 2.0).rest
    0.0
    """

    variable: VariableName
    stiffness: Number
    rest: Number = 0.0

    def compile(self, table: Table) -> Iterable[Row]:
        return [table.on_variables("ConfigSpring", [self.variable], [self.stiffness, self.rest])]

    def symbolic(self, s: Symbolic) -> Any:
        return self.stiffness / 2 * (s.variable(self.variable) - self.rest) ** 2


@element
@dataclass(frozen=True)
class NonlinearConfigSpring(PotentialElement):
    """Spring on one variable with force spline(scale q + offset) (positive pushes the variable up).

    >>> NonlinearConfigSpring("theta", [(-1, 2), (0, 0), (1, -2)]).scale
    1.0
    """

    variable: VariableName
    spline: Curve
    scale: Number = 1.0
    offset: Number = 0.0

    def compile(self, table: Table) -> Iterable[Row]:
        row = table.on_variables("SplineSpring", [self.variable], [self.scale, self.offset])
        return [row | {"spline": table.spline(self.spline)}]

    def symbolic(self, s: Symbolic) -> Any:
        x = s.variable(self.variable)
        if self.scale == 0:
            return -self.spline(self.offset) * x
        return -s.spline_integral(self.spline, self.scale * x + self.offset) / self.scale
