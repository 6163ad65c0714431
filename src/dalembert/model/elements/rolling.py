"""Constraints on velocities, a(q) v = 0, that no function of the configuration replaces: blades, and bodies that roll.

A wheel that rolls can be brought to every place and heading, so nothing but its velocity is constrained. In a step the multipliers act at
its start, and the constraint holds in its middle (docs/kernels.md 19). Momenta are those before the impulse of the constraints; velocities
and energies are taken along them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..drawing import Part, Pin, Round, Surface
from ..parameter import array
from .base import WORLD, VelocityElement, element
from .fields import ChoiceField, Direction, FrameName, Number, vector_of
from .pairs import apart

if TYPE_CHECKING:
    from ...symbolic import Symbolic
    from ..compile import Row, Table
    from ..model import Model
    from .base import PoseOf

__all__ = ["KnifeEdge", "RollingDisk", "RollingSphere"]

Support = Annotated[str, ChoiceField("surface", "joints")]


@element
@dataclass(frozen=True)
class KnifeEdge(VelocityElement):
    """The origin of a frame has no velocity along `direction` (in the frame's axes): a skate, a blade, the axle of a cart.

    The velocity is that against the frame `surface`.

    >>> KnifeEdge("skate", "y").rates
    1
    """

    frame: FrameName
    direction: Direction = "y"
    surface: FrameName = WORLD

    def check(self, model: Model) -> None:
        apart(self, self.frame, self.surface)

    def compile(self, table: Table) -> Iterable[Row]:
        along = table.in_joint_axes(self.frame, vector_of(self.direction))
        numbers = table.coefficients([*along, *[0.0] * 7])
        return [table.on_frames("Slip", [self.frame, self.surface, self.frame], [numbers])]

    def symbolic(self, s: Symbolic) -> Any:
        along = s.rotation(self.frame) @ s.ca.DM(list(vector_of(self.direction)))
        return s.ca.dot(along, _slip(s, self.frame, self.surface, s.ca.SX.zeros(3)))

    def draw(self, model: Model) -> Iterable[Part]:
        return [Pin(self.frame)]


class _Rolling(VelocityElement):
    """What disks and spheres share: the plane through the surface's origin that they touch, and two directions in it."""

    frame: str
    radius: float
    surface: str
    normal: Direction
    support: str

    @property
    def size(self) -> int:
        return 3 if self.support == "surface" else 2

    @property
    def rates(self) -> int:
        return 2

    def spin_axis(self) -> tuple[float, float, float]:
        """Axis of a disk in the frame's axes; zero for a sphere."""
        return (0.0, 0.0, 0.0)

    def validate(self) -> None:
        if not self.radius > 0:
            self._refuse(f"its radius must be positive, not {self.radius:g}")

    def check(self, model: Model) -> None:
        apart(self, self.frame, self.surface)

    def undefined(self, pose: PoseOf) -> str:
        axis = np.array([float(x) for x in self.spin_axis()])
        if not axis.any():
            return ""
        normal = pose(self.surface)[:3, :3] @ np.array([float(x) for x in vector_of(self.normal)])
        lies = np.linalg.norm(np.cross(pose(self.frame)[:3, :3] @ axis, normal)) < 1e-12 * np.linalg.norm(
            axis
        ) * np.linalg.norm(normal)
        return "the disk lies flat on its surface, where no point of its rim is the lowest" if lies else ""

    def _axes(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Two directions in the plane and its normal, in the surface's axes."""
        normal = _unit(array(vector_of(self.normal)))
        first = np.eye(3)[int(np.argmin(np.abs(normal.astype(np.float64))))]
        first = _unit(first - normal * (first @ normal))
        return first, np.cross(normal, first), normal

    def compile(self, table: Table) -> Iterable[Row]:
        *tangents, normal = (table.in_joint_axes(self.surface, x.tolist()) for x in self._axes())
        axis = array(self.spin_axis())
        spin = table.in_joint_axes(self.frame, (_unit(axis) if axis.any() else axis).tolist())
        frames = [self.frame, self.surface, self.surface]
        if self.support == "surface":
            yield table.on_frames("Height", frames, [*normal, *spin, self.radius])
        for along in tangents:
            numbers = table.coefficients([*along, *normal, *spin, self.radius])
            yield table.on_frames("Slip", frames, [numbers])

    def symbolic(self, s: Symbolic) -> Any:
        ca, turned = s.ca, s.rotation(self.surface)
        first, second, normal = (turned @ ca.DM(x.astype(np.float64)) for x in self._axes())
        spin = np.array(self.spin_axis())
        radius = normal
        if spin.any():
            axis = s.rotation(self.frame) @ ca.DM(spin / np.linalg.norm(spin))
            radius = normal - ca.dot(normal, axis) * axis
            radius = radius / ca.norm_2(radius)
        contact = -self.radius * radius
        velocity = _slip(s, self.frame, self.surface, contact)
        rows = [ca.dot(first, velocity), ca.dot(second, velocity)]
        if self.support == "surface":
            rows.insert(0, ca.dot(normal, s.position(self.frame) + contact - s.position(self.surface)))
        return ca.vertcat(*rows)

    def draw(self, model: Model) -> Iterable[Part]:
        return [
            Surface(self.surface, vector_of(self.normal), floor=True),
            Round(self.frame, self.radius, self.spin_axis()),
        ]


def _unit(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of length one; numbers that depend on parameters go on doing so."""
    return np.asarray(x / (x @ x) ** 0.5)


def _slip(s: Symbolic, frame: str, surface: str, contact: Any) -> Any:
    """Velocity of the point `contact` (from the frame's origin, world axes) of a frame against that of the surface there."""
    ca = s.ca
    own = s.velocity(frame) + ca.cross(s.angular_velocity(frame), contact)
    arm = s.position(frame) + contact - s.position(surface)
    return own - s.velocity(surface) - ca.cross(s.angular_velocity(surface), arm)


@element
@dataclass(frozen=True)
class RollingDisk(_Rolling):
    """A thin disk or wheel of a `radius` (m), its centre at the origin of `frame`, its `axis` in the frame's axes, rolls on a plane without slipping.

    The plane goes through the origin of `surface` with `normal` in its axes; where that frame moves, the disk rolls on what moves. `support`:
    "surface" where the plane holds the height of the disk (three rows: the height, two velocities), "joints" where joints hold it, as those of
    a cart on a plane (two rows). A wheel that is driven at a given rate has a kinematic hinge.

    >>> RollingDisk("wheel", 0.3).size, RollingDisk("wheel", 0.3, support="joints").size
    (3, 2)
    """

    frame: FrameName
    radius: Number
    axis: Direction = "y"
    surface: FrameName = WORLD
    normal: Direction = "z"
    support: Support = "surface"

    def spin_axis(self) -> tuple[float, float, float]:
        return vector_of(self.axis)


@element
@dataclass(frozen=True)
class RollingSphere(_Rolling):
    """A sphere of a `radius` (m), its centre at the origin of `frame`, rolls on a plane without slipping; it may spin. `surface`, `normal` and
    `support` as for `RollingDisk`.

    >>> RollingSphere("ball", 0.1, surface="table").size
    3
    """

    frame: FrameName
    radius: Number
    surface: FrameName = WORLD
    normal: Direction = "z"
    support: Support = "surface"
