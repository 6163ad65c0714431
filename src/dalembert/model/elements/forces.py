"""Forces: on variables, between frames, on a frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ..drawing import Between, Push
from .base import ForceElement, element
from .fields import ChoiceField, Coefficients, Components, FrameName, InputName, Number, NumberField, VariableName
from .pairs import apart, between, coincide

if TYPE_CHECKING:
    from ...symbolic import Symbolic
    from ..compile import Row, Table
    from ..model import Model
    from .base import PoseOf

__all__ = ["ConfigForce", "Damping", "LinearDamper", "Wrench"]

AXES = ("body", "mixed", "world")  # the core numbers them in this order


@element
@dataclass(frozen=True)
class ConfigForce(ForceElement):
    """Generalized force on one variable: an input times `gear`.

    >>> ConfigForce("x", input="push").inputs
    ('push',)
    """

    TORQUES: ClassVar[bool] = True

    variable: VariableName
    input: InputName
    gear: Number = 1.0

    def check(self, model: Model) -> None:
        if not model.is_dynamic(self.variable):
            self._refuse(f"'{self.variable}' is kinematic, no force acts on it", self.variable)

    def compile(self, table: Table) -> Iterable[Row]:
        table.push(self.variable, self.input, self.gear)
        return []

    def symbolic(self, s: Symbolic) -> Any:
        return s.on({self.variable: self.gear * s.input(self.input)})

    def draw(self, model: Model) -> Iterable[Push]:
        # the axis of a joint is the same seen from both of its sides
        for e in model.frame_entries[1:]:
            if e.frame is not None and e.frame.variable == self.variable:
                look = "force" if e.frame.transform[0] == "t" else "torque"
                yield Push(look, e.index, tuple(self.input if c == e.frame.transform[1] else 0.0 for c in "xyz"))


@element
@dataclass(frozen=True)
class Damping(ForceElement):
    """Viscous force -c v on every dynamic variable: `default`, or per variable in `coefficients` (which alone may come first).

    >>> Damping(0.1, {"theta": 0.5}).coefficient("theta")
    0.5
    >>> Damping({"theta": 0.5}) == Damping(0.0, {"theta": 0.5})
    True
    """

    TORQUES: ClassVar[bool] = True

    default: Annotated[float | Mapping[str, float], NumberField()] = 0.0
    coefficients: Coefficients = ()

    def __post_init__(self) -> None:
        if isinstance(self.default, Mapping):
            if self.coefficients:
                self._refuse("give the coefficients once: Damping({...}) or Damping(default, {...})")
            object.__setattr__(self, "coefficients", self.default)
            object.__setattr__(self, "default", 0.0)
        super().__post_init__()

    def coefficient(self, variable: str) -> float:
        """The coefficient that acts on a variable."""
        return dict(self.coefficients).get(variable, self._rest())

    def by_velocity(self, model: Model) -> dict[str, float]:
        """The coefficient of every dynamic velocity of a model, by name."""
        own = {model.velocity_index(name): c for name, c in self.coefficients}
        return {name: own.get(i, self._rest()) for i, name in enumerate(model.velocities[: model.nd])}

    def _rest(self) -> float:
        assert not isinstance(self.default, Mapping)  # only on the way in
        return self.default

    def check(self, model: Model) -> None:
        for name, _ in self.coefficients:
            if not model.is_dynamic(name):
                self._refuse(f"'{name}' is kinematic, no force acts on it", name)

    def compile(self, table: Table) -> Iterable[Row]:
        table.damping(self.by_velocity(table.model))
        return []

    def symbolic(self, s: Symbolic) -> Any:
        return s.on({name: -c * s.velocity(name) for name, c in self.by_velocity(s.model).items()})


@element
@dataclass(frozen=True)
class LinearDamper(ForceElement):
    """Damper between the origins of `frame1` and `frame2`: force -coefficient * d(distance)/dt along the line between them.

    >>> LinearDamper("a", "b", 3.0).coefficient
    3.0
    """

    frame1: FrameName
    frame2: FrameName
    coefficient: Number

    def check(self, model: Model) -> None:
        apart(self, self.frame1, self.frame2)

    def depends_on(self, model: Model) -> set[str]:
        return between(model, self.frame1, self.frame2)

    def undefined(self, pose: PoseOf) -> str:
        return coincide(pose, self.frame1, self.frame2)

    def compile(self, table: Table) -> Iterable[Row]:
        return [table.on_pair("LinearDamper", self.frame1, self.frame2, [self.coefficient])]

    def symbolic(self, s: Symbolic) -> Any:
        x = s.distance(self.frame1, self.frame2)
        return -self.coefficient * s.rate(x) * s.ca.gradient(s.rate(x), s.v)

    def draw(self, model: Model) -> Iterable[Between]:
        return [Between("damper", self.frame1, self.frame2)]


@element
@dataclass(frozen=True)
class Wrench(ForceElement):
    """Force and torque on a frame; each component is a number, or the name of an input, which acts times `gear`.

    `axes`: "body" (frame axes, at the frame origin), "mixed" (world axes, at the frame origin), "world" (world axes,
    moment about the world origin). Elements may share an input: a rotor's drag is a second Wrench.

    >>> Wrench("hull", force=("thrust", 0, 0)).inputs
    ('thrust',)
    >>> rotor = [Wrench("rotor", force=(0, 0, "thrust")), Wrench("rotor", torque=(0, 0, "thrust"), gear=-0.016)]
    """

    frame: FrameName
    force: Components = (0.0, 0.0, 0.0)
    torque: Components = (0.0, 0.0, 0.0)
    axes: Annotated[str, ChoiceField("body", "world", "mixed")] = "body"
    gear: Number = 1.0

    def compile(self, table: Table) -> Iterable[Row]:
        parts = (*self.force, *self.torque)
        numbers = [self.gear if isinstance(c, str) else c for c in parts]
        inputs = [table.model.input_index(c) if isinstance(c, str) else -1 for c in parts]
        return [table.on_frames("Wrench", [self.frame], [*numbers, AXES.index(self.axes)]) | {"input": inputs}]

    def symbolic(self, s: Symbolic) -> Any:
        """Gradient in v of the power along v, in the symbols of `s`."""
        ca = s.ca
        force, torque = (
            ca.vertcat(*(self.gear * s.input(c) if isinstance(c, str) else ca.SX(c) for c in part))
            for part in (self.force, self.torque)
        )
        rotation, position = s.rotation(self.frame), s.position(self.frame)
        if self.axes == "body":
            force, torque = rotation @ force, rotation @ torque
        elif self.axes == "world":  # the moment about the frame origin
            torque = torque - ca.cross(position, force)
        power = ca.dot(force, s.rate(position)) + ca.dot(torque, s.angular_velocity(self.frame))
        return ca.gradient(power, s.v)

    def draw(self, model: Model) -> Iterable[Push]:
        return [Push("force", self.frame, self.force, self.axes), Push("torque", self.frame, self.torque, self.axes)]
