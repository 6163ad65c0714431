"""Limits and contacts: gaps between parts that must not become negative. They have no rows in the core: a simulation finds the impacts
(`integrate/hybrid.py`), and where a contact rests its gap becomes a constraint for as long as it is pressed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..drawing import Part, Surface
from .base import WORLD, ConstraintElement, ContactElement, element
from .constraints import Distance, LinearRelation, PointOnPlane
from .fields import Axis, FrameName, LowerBound, Share, Size, UpperBound, VariableName
from .pairs import apart

if TYPE_CHECKING:
    from ..model import Model

__all__ = ["Contact", "Gap", "Limit", "SphereContact"]


@dataclass(frozen=True)
class Gap:
    """A function of the configuration that must not become negative: `scale` times that of a constraint. `name` is how messages and `motion.impacts`
    call it, `frame` where it is ("" for a joint), `restitution` 0 (it stays) to 1 (it bounces)."""

    name: str
    row: ConstraintElement
    scale: float
    restitution: float
    frame: str = ""

    def symbolic(self, s: Any) -> Any:
        """The gap as a CasADi expression."""
        return self.scale * self.row.symbolic(s)


@element
@dataclass(frozen=True)
class Limit(ContactElement):
    """A joint that stops: `low` <= variable <= `high` (either may be left out), with `restitution` 0 (it stays at the stop) to 1 (it bounces).

    >>> [gap.name for gap in Limit("knee", -1.0, 0.5).gaps]
    ['Limit(knee) low', 'Limit(knee) high']
    """

    variable: VariableName
    low: LowerBound = None
    high: UpperBound = None
    restitution: Share = 0.0

    def validate(self) -> None:
        if self.low is None and self.high is None:
            self._refuse("needs low, high or both")
        if self.low is not None and self.high is not None and not self.low < self.high:
            self._refuse(f"low ({self.low:g}) must be below high ({self.high:g})")

    def check(self, model: Model) -> None:
        if self.variable not in model.variables or self.variable in {
            name for place in model.configuration.places for name in model.variables[place.q]
        }:
            self._refuse(f"'{self.variable}' belongs to a ball, which has no range", self.variable)
        if not model.is_dynamic(self.variable):
            self._refuse(f"'{self.variable}' is prescribed: nothing can stop it", self.variable)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        found = []
        if self.low is not None:
            row = LinearRelation({self.variable: 1.0}, self.low)  # type: ignore[arg-type]
            found.append(Gap(f"{self.label} low", row, 1.0, self.restitution))
        if self.high is not None:
            row = LinearRelation({self.variable: -1.0}, -self.high)  # type: ignore[arg-type]
            found.append(Gap(f"{self.label} high", row, 1.0, self.restitution))
        return tuple(found)


@element
@dataclass(frozen=True)
class Contact(ContactElement):
    """The origin of a frame, or a sphere of `radius` (m) about it, stays above a plane: that through the origin of frame `plane` with `normal`
    in its axes.

    No friction. `restitution` 0 (it stays) to 1 (it bounces).

    >>> Contact("ball", radius=0.1, restitution=0.8).gaps[0].name
    'Contact(ball, world)'
    """

    frame: FrameName
    plane: FrameName = WORLD
    normal: Axis = (0.0, 0.0, 1.0)
    radius: Size = 0.0
    restitution: Share = 0.0

    def check(self, model: Model) -> None:
        apart(self, self.frame, self.plane)
        _moved(self, model)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        size = sum(x * x for x in self.normal) ** 0.5
        x, y, z = (c / size for c in self.normal)
        row = PointOnPlane(self.plane, (x, y, z), self.frame, self.radius)
        return (Gap(self.label, row, 1.0, self.restitution, self.frame),)

    def draw(self, model: Model) -> Iterable[Part]:
        return [Surface(self.plane, self.normal)]


@element
@dataclass(frozen=True)
class SphereContact(ContactElement):
    """Two spheres, of `radius1` and `radius2` (m) about the origins of `frame1` and `frame2`, do not enter each other. No friction;
    `restitution` 0 to 1.

    The gap is (d^2 - r^2) / (2 r) with the distance d of the origins and r = radius1 + radius2, which is d - r where they touch.

    >>> SphereContact("a", "b", 0.1, 0.1, restitution=1.0).gaps[0].scale
    2.5
    """

    frame1: FrameName
    frame2: FrameName
    radius1: Size
    radius2: Size
    restitution: Share = 0.0

    def validate(self) -> None:
        if not self.radius1 + self.radius2 > 0:
            self._refuse("one of the radii must be positive")

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)
        _moved(self, model)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        reach = self.radius1 + self.radius2
        return (Gap(self.label, Distance(self.frame1, self.frame2, reach), 0.5 / reach, self.restitution, self.frame1),)


def _moved(e: ContactElement, model: Model) -> None:
    used = {v for gap in e.gaps for v in gap.row.depends_on(model)}
    if not any(map(model.is_dynamic, used)):
        e._refuse("no dynamic variable moves one against the other, so nothing could keep them apart")
