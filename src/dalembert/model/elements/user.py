"""Elements of a user: functions that return CasADi expressions become tapes, plain immutable data, when a Model is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import ModelError
from ..tape import Tape, derivatives, rate_derivatives, record
from .base import ConstraintElement, Element, ForceElement, PotentialElement, VelocityElement, element
from .fields import Function, InputNames, Text

if TYPE_CHECKING:
    from ...symbolic import Quantities, Symbolic
    from ..compile import Row, Table
    from ..model import Model

__all__ = ["Constraint", "Force", "Potential", "VelocityConstraint"]


class _FromFunction(Element):
    """What they have in common: one field is a function, and then its tape."""

    FUNCTION: ClassVar[str]  # name of that field
    MOVING: ClassVar[bool] = False  # may depend on velocities
    ACTS: ClassVar[bool] = False  # may depend on inputs, and acts on named rows
    name: str

    @property
    def label(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def tape(self) -> Tape:
        """The function as data; raises `ModelError` before a Model has made it so."""
        tape = getattr(self, self.FUNCTION)
        if not isinstance(tape, Tape):
            raise ModelError(f"{self.label}: not resolved yet; take elements from a built Model", culprit=self.label)
        return tape

    def validate(self) -> None:
        tape = getattr(self, self.FUNCTION)
        if not isinstance(tape, Tape):
            return
        if bool(tape.rows) != self.ACTS:
            self._refuse("rows (the variables it acts on) belong to a Force and only there")
        if not self.MOVING and tape.moving:
            self._refuse("may depend on the configuration only")

    def depends_on(self, model: Model) -> set[str]:
        tape = self.tape
        turned = [model.variables[ball.q] for ball in model.configuration.places if ball.name in tape.balls]
        return set(tape.variables).union(*turned)

    def resolved(self, model: Model) -> Element:
        given = getattr(self, self.FUNCTION)
        if isinstance(given, Tape):
            rows, balls = _rows(model), [ball.name for ball in model.configuration.places]
            for names, table, kind in (
                (given.variables, [model.variables[i] for i in model.configuration.numbers[0]], "variable"),
                (given.balls, balls, "ball"),
                (given.rows, rows, "dynamic variable"),
                (given.inputs, self.inputs, "input"),
            ):
                for name in names:
                    if name not in table:
                        self._refuse(f"unknown {kind} {name!r}", name)
            ordered = (
                tuple(v for v in model.variables if v in given.variables),
                tuple(b for b in balls if b in given.balls),
            )
            if (given.variables, given.balls) == ordered:
                return self
            given = _as_function(given)  # made for a model with another order
        if not callable(given):
            self._refuse(f"needs a function of m, not {type(given).__name__}")
        return replace(self, **{self.FUNCTION: self._record(given, model)})  # type: ignore[type-var]

    def _record(self, function: Callable[[Quantities], Any], model: Model) -> Tape:
        """Call the function with symbols and write down what it computed."""
        from ...symbolic import Quantities, Symbolic

        label = self.label
        symbolic = Symbolic(model)
        try:
            value = function(Quantities(symbolic, label, moving=self.MOVING, inputs=self.inputs))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{label}: its function failed: {type(error).__name__}: {error}", culprit=label) from error
        if not self.ACTS:
            return record(symbolic, [value], (), label)
        if not isinstance(value, Mapping) or not value:
            self._refuse(f"must return {{variable or frame: expression}}, not {type(value).__name__}")
        terms: dict[str, Any] = {}
        for name, given in value.items():
            for variable, term in self._on_variables(symbolic, name, given).items():
                terms[variable] = terms[variable] + term if variable in terms else term
        rows = tuple(name for name in _rows(model) if name in terms)
        return record(symbolic, [terms[name] for name in rows], rows, label)

    def _on_variables(self, symbolic: Symbolic, name: str, given: Any) -> dict[str, Any]:
        """{row: force} of what is given for a variable, a velocity component, or a frame (3 components in world axes, at its origin)."""
        model = symbolic.model
        rows = _rows(model)
        if name in rows:
            return {name: given}
        if name in model.velocities[: model.nd]:
            return {rows[model.velocity_index(name)]: given}
        for ball in model.configuration.places:
            if name == ball.name or name in model.variables[ball.q]:
                self._refuse(
                    f"{name!r} is turned by torques along its body axes: {', '.join(model.velocities[ball.v])}", name
                )
        if name in model.kinematic:
            self._refuse(f"{name!r} is kinematic, no force acts on it", str(name))
        if name not in model.frame_names:
            self._refuse(f"{name!r} is not a variable and not a frame", str(name))
        force = symbolic.ca.vertcat(*given) if isinstance(given, (list, tuple)) else symbolic.ca.SX(given)
        if force.numel() != 3:
            self._refuse(f"the force on {name!r} needs three components, not {force.numel()}", str(name))
        path = set(model.path(name))
        turned = {v for b in model.configuration.places if b.name + ".qw" in path for v in model.velocities[b.v]}
        moved = [row for row in rows if row in path or row in turned]
        if not moved:
            self._refuse(f"no dynamic variable moves {name!r}, no force moves it", str(name))
        along = symbolic.push(name, symbolic.ca.reshape(force, 3, 1))
        return {v: along[model.velocity_index(v)] for v in moved}

    def compile(self, table: Table) -> Iterable[Row]:
        return [table.on_tapes(f"Tape{type(self).__name__}", derivatives(self.tape, self.label))]

    def symbolic(self, s: Symbolic) -> Any:
        return s.tape(self.tape)[0]


def _rows(model: Model) -> tuple[str, ...]:
    """What generalized forces act on, in the order of the velocities: dynamic variables, and angular velocities of balls."""
    names = list(model.velocities[: model.nd])
    for q, v in zip(*model.configuration.numbers, strict=True):
        if v < model.nd:
            names[v] = model.variables[q]
    return tuple(names)


def _as_function(tape: Tape) -> Callable[[Quantities], Any]:
    def function(m: Quantities) -> Any:
        values = tape.expression(
            [m[v] for v in tape.variables],
            [m.velocity(v) for v in tape.variables] if tape.moving else (),
            [m.input(u) for u in tape.inputs],
            [
                [m[f"{ball}.q{c}"] for c in "wxyz"]
                + ([m.velocity(f"{ball}.w{c}") for c in "xyz"] if tape.moving else [])
                for ball in tape.balls
            ],
        )
        return dict(zip(tape.rows, values, strict=True)) if tape.rows else values[0]

    return function


@element
@dataclass(frozen=True)
class Potential(_FromFunction, PotentialElement):
    """A potential energy of your own: `energy(m)` returns a CasADi expression.

    `m["theta"]` is a variable, `m.position("bob")` the 3 world coordinates of a frame's origin, `m.pose("bob")` its 4x4
    transform. Exact derivatives to the third order follow by themselves. When the Model is built the function becomes
    an immutable `Tape`.

    >>> Potential(lambda m: 0.5 * m["theta"] ** 2, name="soft").name
    'soft'
    """

    FUNCTION = "energy"
    energy: Function
    name: Text = "Potential"


@element
@dataclass(frozen=True)
class Force(_FromFunction, ForceElement):
    """Forces of your own: `force(m)` returns {variable: CasADi expression}, or {frame: three of them} for a force at the frame's origin
    in world axes.

    Expressions may use `m["theta"]`, `m.velocity("theta")`, `m.input("u")`, `m.position("bob")`, `m.velocity("bob")` (3, world axes),
    `m.angular_velocity("bob")`. `uses` lists the inputs.

    >>> Force(lambda m: {"x": -m.velocity("x") ** 3}, name="drag").inputs
    ()
    >>> wind = Force(lambda m: {"bob": -0.2 * m.velocity("bob")}, name="air")
    """

    FUNCTION = "force"
    MOVING = ACTS = True
    force: Function
    uses: InputNames = ()
    name: Text = "Force"

    def symbolic(self, s: Symbolic) -> Any:
        return s.on(dict(zip(self.tape.rows, s.tape(self.tape), strict=True)))


@element
@dataclass(frozen=True)
class Constraint(_FromFunction, ConstraintElement):
    """A holonomic constraint of your own: `h(m)` returns a CasADi expression that is held at zero (one row).

    >>> Constraint(lambda m: m["a"] - m["b"] ** 2, name="parabola").size
    1
    """

    FUNCTION = "h"
    h: Function
    name: Text = "Constraint"


@element
@dataclass(frozen=True)
class VelocityConstraint(_FromFunction, VelocityElement):
    """A constraint on velocities of your own: `rate(m)` returns a CasADi expression a(q) v + b(q), linear in velocities, that is held at zero.

    Expressions may use `m["theta"]`, `m.velocity("theta")`, `m.position("bob")`, `m.velocity("bob")`, `m.angular_velocity("bob")`. Time enters
    through kinematic variables.

    >>> VelocityConstraint(lambda m: m.velocity("x") - m["a"] * m.velocity("y"), name="gear").rates
    1
    """

    FUNCTION = "rate"
    MOVING = True
    rate: Function
    name: Text = "VelocityConstraint"

    def check(self, model: Model) -> None:
        try:
            rate_derivatives(self.tape, self.label)
        except ValueError as error:
            self._refuse(str(error))

    def compile(self, table: Table) -> Iterable[Row]:
        return [table.on_tapes("TapeVelocity", rate_derivatives(self.tape, self.label))]
