"""Gravity: uniform, and of points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..drawing import Down
from .base import PotentialElement, element
from .fields import FrameName, FrameNames, Number, Vector
from .pairs import apart, between, coincide

if TYPE_CHECKING:
    from ...symbolic import Symbolic
    from ..compile import Row, Table
    from ..model import Model
    from .base import PoseOf

__all__ = ["Gravity", "PointGravity"]


@element
@dataclass(frozen=True)
class Gravity(PotentialElement):
    """Uniform gravity (m/s^2) on the whole system, or on the frames named in `masses`.

    >>> Gravity((0, -9.8, 0)).acceleration
    (0.0, -9.8, 0.0)
    """

    acceleration: Vector = (0.0, 0.0, -9.81)
    masses: FrameNames = None

    def compile(self, table: Table) -> Iterable[Row]:
        if self.masses is None:  # part of the core's own sweep, not an element there
            table.uniform_gravity(self.acceleration)
            return []
        rows = []
        for name in self.masses:
            frame = table.model.frame_entries[table.model.frame_index(name)].frame
            if frame is not None:
                force = [frame.mass * g for g in self.acceleration]
                rows.append(table.on_frames("SiteField", [name], force) | {"site_a": table.site(name, frame.com)})
        return rows

    def symbolic(self, s: Symbolic) -> Any:
        chosen = None if self.masses is None else {s.model.frame_index(name) for name in self.masses}
        energy = s.ca.SX(0)
        for entry in s.model.frame_entries[1:]:
            if entry.frame is not None and entry.frame.mass and (chosen is None or entry.index in chosen):
                energy -= entry.frame.mass * s.ca.dot(s.ca.DM(list(self.acceleration)), s.centre_of_mass(entry.index))
        return energy

    def draw(self, model: Model) -> Iterable[Down]:
        return [Down(self.acceleration)]


@element
@dataclass(frozen=True)
class PointGravity(PotentialElement):
    """Attraction between the origins of `frame1` and `frame2` with potential -strength / distance (strength = G m1 m2).

    >>> PointGravity("sun", "planet", 1.0).strength
    1.0
    """

    frame1: FrameName
    frame2: FrameName
    strength: Number

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)

    def depends_on(self, model: Model) -> set[str]:
        return between(model, self.frame1, self.frame2)

    def undefined(self, pose: PoseOf) -> str:
        return coincide(pose, self.frame1, self.frame2)

    def compile(self, table: Table) -> Iterable[Row]:
        return [table.on_pair("PointGravity", self.frame1, self.frame2, [self.strength])]

    def symbolic(self, s: Symbolic) -> Any:
        return -self.strength / s.distance(self.frame1, self.frame2)
