"""Events: what `simulate` looks for while it runs, what it found, and where a function of time becomes zero.

A watch is a number along the motion that is positive before the event and not positive after it. `simulate` evaluates it at
the ends of the steps, and where its sign changes it solves the step again with the step's length as the unknown (`zero`), to rounding.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, number
from ..model import Model
from .trajectory import State, Trajectory

ACTIONS = ("record", "stop")
_COMPARISON = re.compile(r"<=|>=|==|!=|<|>")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "abs": np.abs,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "min": np.minimum,
    "max": np.maximum,
}
Crossing = tuple[int, int, float, float, bool, bool]
Along = Callable[[Trajectory], Any]  # a number, or (N+1,) along a motion

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}


@dataclass(frozen=True)
class Event:
    """Something to look for along a motion: `vi.simulate(start, time=10, events=[...])`.

    `what`: a quantity as `motion[...]` knows it ("theta", "bob.z", "v.theta"), "t", an expression of such ("bob.z + 0.2*sin(theta)"; names that are
    not plain words in quotes), a condition ("bob.z < 0.1"), or a function of a State: a number, or the truth about a condition.
    `below`, `above`: the event is where the quantity falls, or rises, through this number; `at`: where it passes it either way. A condition needs
    none of them, a function that returns a number is looked at where it passes 0. An event is a passage: what holds at the start is none.
    `action`: "record" (the motion goes on as if nobody had looked), "stop" (it ends there), or a function of the State: it returns the State to go on
    from, None to go on as before, or "stop".
    `name`: how `motion.events` calls it.

    >>> import dalembert as da
    >>> ball = da.Model([da.tz("z", name="ball", mass=1.0)], [da.Gravity((0, 0, -10.0))])
    >>> vi = da.MidpointVI(ball, dt=0.1)
    >>> motion = vi.simulate(vi.state(q={"z": 1.0}), time=10.0, events=[da.Event("z", below=0.5), da.Event("z < 0", action="stop")])
    >>> [(e.name, round(e.time, 6)) for e in motion.events], round(motion.t[-1], 6)
    ([('z < 0.5', 0.316228), ('z < 0', 0.447214)], np.float64(0.447214))
    """

    what: str | Callable[[State], Any]
    below: float | None = field(default=None, kw_only=True)
    above: float | None = field(default=None, kw_only=True)
    at: float | None = field(default=None, kw_only=True)
    action: str | Callable[[State], Any] = field(default="record", kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not (isinstance(self.what, str) and self.what.strip()) and not callable(self.what):
            raise ValueError(
                f"an Event is about a quantity, a condition or a function of a State, not {self.what!r:.80}"
            )
        given = {key: getattr(self, key) for key in ("below", "above", "at") if getattr(self, key) is not None}
        for key, value in given.items():
            object.__setattr__(self, key, number(value, f"{key} of an Event"))
        if len(given) > 1:
            raise ValueError(f"give an Event one of below=, above=, at=, not {' and '.join(given)}")
        if isinstance(self.what, str):
            compared = bool(_COMPARISON.search(self.what))
            if compared and given:
                raise ValueError(f"{self.what!r} is a condition already: leave {next(iter(given))}= out")
            if not compared and not given:
                raise ValueError(
                    f"Event({self.what!r}) needs below=, above= or at=, or a condition as '{self.what} < 0'"
                )
        if not callable(self.action) and self.action not in ACTIONS:
            raise ValueError(
                f"the action of an Event is 'record', 'stop' or a function of a State, not {self.action!r:.80}"
            )
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise ValueError(f"the name of an Event must be a non-empty string, not {self.name!r:.80}")

    @property
    def label(self) -> str:
        """Its name, or else the condition in words."""
        if self.name is not None:
            return self.name
        what = self.what if isinstance(self.what, str) else getattr(self.what, "__name__", "event")
        for sign, level in (("<", self.below), (">", self.above), ("=", self.at)):
            if level is not None:
                return f"{what} {sign} {level:g}"
        return what.strip()


@dataclass(frozen=True, eq=False)
class Occurrence:
    """An event that happened: its `time` (s), its `name`, the `state` there, and the `step` during which it was.

    A state on the path of the step, with a step of its own length: the step itself went on, unless the event changed the motion.
    """

    time: float
    name: str
    state: State
    step: int  # of the simulation that found it, also where only each n-th state is kept, or motions are cut and joined

    def __repr__(self) -> str:
        return f"Occurrence({self.name!r} at t = {self.time:.9g})"


def passed(before: Any, after: Any, either: bool) -> Any:
    """Whether the event lies between two values: positive before, and not after (`either`: or the other way round).

    >>> bool(passed(1.0, 0.0, False)), bool(passed(0.0, -1.0, False)), bool(passed(-1.0, 1.0, True))
    (True, False, True)
    """
    falls = (before > 0) & (after <= 0)
    return falls | ((before < 0) & (after >= 0)) if either else falls


class Watch:
    """An Event on a model: `values(motion)` (N+1,) at the instants of a motion, positive before it and not after."""

    def __init__(self, event: Event, motion: Trajectory, at_start: bool = False) -> None:
        """`motion`: any of the model, on which the event is tried. `at_start`: a condition that holds at the start is an event too."""
        self.event, self.name, self.at_start = event, event.label, at_start
        self.either = event.at is not None
        self.truth = False  # its function answers with yes or no
        if isinstance(event.what, str):
            self._value = _compiled(event.what, motion)
            if not _COMPARISON.search(event.what):
                self._value = self._levelled(self._value)
            self.values(motion)
            return
        out = event.what(motion[0])
        self.truth = isinstance(out, (bool, np.bool_))
        if self.truth:
            if any(level is not None for level in (event.below, event.above, event.at)):
                raise ValueError(f"event '{self.name}': a function that returns True or False needs no level")
            self._value = lambda m: np.array([-1.0 if self._asked(s) else 1.0 for s in m])
            return
        self.either = event.below is None and event.above is None
        self._value = self._levelled(lambda m: np.array([self._number(s) for s in m]))

    def crossing(self, model: Model) -> Crossing | None:
        """The event as the core can watch it, where it is a coordinate, a component of a frame's position or "t" against a number: (frame or -1,
        component, sign, level, both ways, whether it may change the motion), positive before it; component -1 is time. None for all others."""
        if not isinstance(self.event.what, str):
            return None
        sides = [side.strip() for side in _COMPARISON.split(self.event.what)]
        e = self.event
        if len(sides) == 1:
            name, sign = sides[0], -1.0 if e.above is not None else 1.0
            level = next(x for x in (e.below, e.above, e.at) if x is not None)
        else:
            left, right = (_plain_number(side) for side in sides)
            falls = "<" in self.event.what
            if left is None and right is not None:
                name, level, sign = sides[0], right, 1.0 if falls else -1.0
            elif left is not None and right is None:
                name, level, sign = sides[1], left, -1.0 if falls else 1.0
            else:
                return None
        found = _place(name.strip("\"'"), model)
        return None if found is None else (*found, sign, level, self.either, e.action != "record")

    def _asked(self, state: State) -> Any:
        assert callable(self.event.what)
        return self.event.what(state)

    def _number(self, state: State) -> float:
        out = self._asked(state)
        return number(out.item() if isinstance(out, np.ndarray) and out.size == 1 else out, f"event '{self.name}'")

    def _levelled(self, value: Along) -> Along:
        above, below, at = self.event.above, self.event.below, self.event.at
        if above is not None:
            return lambda m: above - value(m)
        level = below if below is not None else at or 0.0
        return lambda m: value(m) - level

    def values(self, motion: Trajectory) -> Array:
        """(N+1,) at the instants of a motion; ValueError when it is not a number there."""
        with np.errstate(all="ignore"):
            found = np.broadcast_to(np.asarray(self._value(motion), dtype=float), motion.t.shape)
        return self.finite(found, motion.t)

    def finite(self, values: Array, t: Array) -> Array:
        """These values at the times t; ValueError when one is not a number."""
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"event '{self.name}' is not a finite number at t = {t[bad]:g}")
        return values


def _plain_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _place(name: str, model: Model) -> tuple[int, int] | None:
    """(frame, axis) of a component of a frame's position, (-1, column) of a coordinate, (-1, -1) of time; None for other quantities."""
    if name in model.variables:
        return -1, model.index(name)
    if name == "t":
        return None if name in (*model.velocities, *model.configuration.readings, *model.frame_names) else (-1, -1)
    frame, _, axis = name.rpartition(".")
    other = name.partition(".")[0] in ("lam", "p", "v") or name in (*model.velocities, *model.configuration.readings)
    if other or name in model.frame_names or frame not in model.frame_names or axis not in ("x", "y", "z"):
        return None
    return model.frame_index(frame), "xyz".index(axis)


def _compiled(text: str, motion: Trajectory) -> Along:
    """An expression of quantities, or a condition as the number that falls through 0 when it comes true."""
    signs = _COMPARISON.findall(text)
    if len(signs) > 1 or (signs and signs[0] in ("==", "!=")):
        raise ValueError(f"{text!r}: a condition has one < or > (an Event's at= looks for a passage either way)")
    sides = [_expression(side, text, motion) for side in _COMPARISON.split(text)]
    if not signs:
        return sides[0]
    left, right = sides if signs[0][0] == "<" else sides[::-1]
    return lambda m: left(m) - right(m)


def _expression(side: str, text: str, motion: Trajectory) -> Along:
    known = {"t", *motion.quantities, *motion.model.velocities}

    def quantity(name: str) -> Along:
        if name == "t" and name not in motion.quantities:
            return lambda m: m.t
        if name in motion.model.inputs:
            raise ValueError(
                f"event {text!r}: '{name}' is an input, which is held during steps; events are about states"
            )
        try:
            column = motion[name]
        except KeyError as error:
            raise ValueError(f"event {text!r}: {error.args[0]}") from None
        if column.ndim != 1 or column.shape != motion.t.shape:
            axes = f" (its height is '{name}.z')" if column.ndim == 2 else ""
            raise ValueError(f"event {text!r}: '{name}' is not one number per state{axes}")
        return lambda m: np.asarray(m[name])

    def build(node: ast.AST) -> Along:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as constant):
                return lambda m: constant
            case ast.Constant(value=str(name)):
                return quantity(name)
            case ast.Name() | ast.Attribute():
                return quantity(ast.unparse(node))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS:
                f, x, y = _OPERATORS[type(op)], build(a), build(b)
                return lambda m: f(x(m), y(m))
            case ast.UnaryOp(op=op, operand=a) if type(op) in _OPERATORS:
                f, x = _OPERATORS[type(op)], build(a)
                return lambda m: f(x(m))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                g, values = _FUNCTIONS[name], [build(a) for a in args]
                if len(values) != g.nin:  # type: ignore[attr-defined]
                    raise ValueError(f"event {text!r}: {name} takes {g.nin} numbers, not {len(values)}")  # type: ignore[attr-defined]
                return lambda m: g(*(v(m) for v in values))
        raise ValueError(
            f"event {text!r}: cannot read {ast.unparse(node)!r} (numbers, quantities, + - * / **, {', '.join(_FUNCTIONS)})"
        )

    side = side.strip()
    if side in known:
        return quantity(side)
    try:
        return build(ast.parse(side, mode="eval").body)
    except (SyntaxError, RecursionError):
        raise ValueError(f"event {text!r}: {side!r} is not an expression") from None


def watches(events: Sequence[Event] | Event | None, until: Any, motion: Trajectory) -> list[Watch]:
    """What `events=` and `until=` ask for, tried on a motion of one instant."""
    given = [events] if isinstance(events, Event) else list(events or ())
    for event in given:
        if not isinstance(event, Event):
            raise TypeError(f"events must be da.Event values, not {type(event).__name__}")
    if until is not None:
        if not isinstance(until, str) and not callable(until):
            raise TypeError(
                f"until must be a condition ('bob.z < 0') or a function of a State, not {type(until).__name__}"
            )
        name = (
            until.strip()
            if isinstance(until, str)
            else getattr(until, "__name__", "until").replace("<lambda>", "until")
        )
        last = Watch(Event(until, action="stop", name=name or None), motion, at_start=True)
        last.at_start = not last.either  # a number that passes 0 is no condition
        return [*(Watch(event, motion) for event in given), last]
    return [Watch(event, motion) for event in given]


def may_dip(g: Array) -> Any:
    """Steps (N,) of values g (N+1,), positive at both ends, in which a parabola through three neighbours comes near or below zero: two passages
    may hide there."""
    n = len(g) - 1
    near = np.zeros(n, dtype=bool)
    if n < 2:
        return near
    a, b, c = g[:-2], g[1:-1], g[2:]
    bend, slope = a - 2 * b + c, (c - a) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        place = -slope / bend
        lowest = b - slope**2 / (2 * bend)
    dips = (bend > 0) & (lowest < 0.2 * bend) & (np.abs(place) < 1.2)
    near[:-1] |= dips & (place < 0.2)
    near[1:] |= dips & (place > -0.2)
    return near & (g[:-1] > 0) & (g[1:] > 0)


def zero(f: Callable[[float], float], a: float, fa: float, b: float, fb: float, width: float) -> tuple[float, float]:
    """(before, after): neighbours around a zero of f between a and b, where fa and fb have different signs; `before` has the sign of
    fa, `after` that of fb; both are the zero where f is 0 there. Inverse quadratic steps, bisection where these do not pay (Chandrupatla's rule).

    >>> before, after = zero(lambda x: 2 - x * x, 0.0, 2.0, 2.0, -2.0, 1e-16)
    >>> after - before < 1e-15, abs(after - 2**0.5) < 1e-15
    (True, True)
    """
    first, start, last, end = a, fa, b, fb  # the bracket in its order
    x1, f1, x2, f2 = b, fb, a, fa
    x3, f3, share, least = a, fa, 0.5, 0.0
    for _ in range(200):
        x = x1 + share * (x2 - x1)
        if abs(x - x1) <= least:  # the guess is the zero up to rounding: find the other side, by ever longer steps
            least = max(4 * least, math.ulp(x1))
            x = x1 + math.copysign(least, x2 - x1)
            if abs(least) >= abs(x2 - x1):
                x = x1 + (x2 - x1) / 2
        if not (min(x1, x2) < x < max(x1, x2)):
            break
        fx = f(x)
        if (fx > 0) == (start > 0) and fx != 0:
            first = x
        else:
            last, end = x, fx
        if end == 0:
            return last, last
        if abs(last - first) <= width:
            break
        if math.copysign(1, fx) == math.copysign(1, f1):
            x3, f3 = x1, f1
        else:
            x3, x2, f3, f2 = x2, x1, f2, f1
        x1, f1 = x, fx
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2) if f3 != f2 else math.inf
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi and f3 != f1 and f2 != f1:
            share = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
            reach = width / 2 / abs(x2 - x1) if x2 != x1 else 0.5
            share = min(max(share, reach), 1 - reach)
        else:
            share = 0.5
    return first, last
