"""Model: a checked, immutable mechanism: a tree of frames plus elements, with all names resolved to indices.

Order of variables: dynamic ones first, in the order in which the tree is walked (parents before children), then
kinematic ones in the same order, then kinematic ones that only elements mention (string lengths).
`Model(..., variables=...)` gives another order to the kinematic ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, nearest, needed, number
from ..errors import InertiaWarning, ModelError, user_level
from .configuration import KINDS, Configuration
from .elements import ELEMENTS, WORLD, ContactElement, Element, Gap, Limit, is_known
from .frames import TURN, Frame, Kinematic, Row, flatten, unflatten
from .parameter import Parameter, Revalued, collect, parameters_in
from .spline import Spline

MAX_DEPENDENCIES = 50_000_000  # of constraints on variables, summed: what could be built at all


@dataclass(frozen=True)
class FrameEntry:
    """A frame in its place: `index` in `Model.frame_entries` (0 is the world), `parent` the parent's index, its `name` and `frame`."""

    index: int
    parent: int
    name: str | None
    frame: Frame | None


class Model:
    """A mechanism. Arguments: root `frames` (children of the world), `elements`, an optional `name`.

    `variables` (optional) lists all variables in the order that q shall have: dynamic ones in the order of the tree,
    then the kinematic ones in any order.

    >>> from dalembert import Gravity, Model, rx, tz
    >>> pendulum = Model([rx("theta", tz(-1.0, name="bob", mass=1.0))], [Gravity((0, 0, -9.8))])
    >>> pendulum.nq, pendulum.variables
    (1, ('theta',))
    """

    def __init__(
        self,
        frames: Frame | Sequence[Frame],
        elements: Iterable[Element] = (),
        name: str = "model",
        *,
        variables: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(frames, Frame) and (isinstance(frames, str) or not isinstance(frames, Iterable)):
            raise ModelError(f"frames must be Frame values, not {frames!r}", culprit="frames")
        roots = (frames,) if isinstance(frames, Frame) else tuple(frames)
        for root in roots:
            if not isinstance(root, Frame):
                raise ModelError(f"frames must be Frame values, not {type(root).__name__}", culprit=str(root))
        self._frames = roots
        self._name = str(name)
        self._entries = tuple(_walk(roots))
        self._index_frames()
        self._take(elements, variables)
        self._check_masses()

    def _take(self, elements: Iterable[Element], variables: Sequence[str] | None) -> None:
        """Elements, and all that depends on them, where the frames are known."""
        if isinstance(elements, str) or not isinstance(elements, Iterable):
            raise ModelError(f"elements must be a list of Element values, not {elements!r}", culprit="elements")
        given = tuple(elements)
        for element in given:
            if not isinstance(element, Element):
                raise ModelError(f"elements must be Element values, not {type(element).__name__}", culprit=str(element))
            if not is_known(element):
                raise _unknown_kind(element)
        self._index_variables(given, variables)
        self._index_inputs(given)
        self._elements = given
        self._elements = tuple(e.resolved(self) for e in given)
        self._check_elements()
        self._parameters = collect([flatten(self._frames), [tuple(_numbers_of(e).values()) for e in self._elements]])
        self._structure: Model | None = None  # itself; a circle would keep it alive

    # ---- parameters

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, in the order in which frames and elements mention them.

        >>> from dalembert import Damping, Model, Parameter, tx
        >>> list(Model([tx("x", mass=Parameter("m", 2.0))], [Damping(Parameter("c", 0.1))]).parameters)
        ['m', 'c']
        """
        return dict(self._parameters)

    @property
    def structure(self) -> Model:
        """The model that this one shares its compiled structure with: itself, unless `with_parameters` made it."""
        return self if self._structure is None else self._structure

    def with_parameters(self, values: Mapping[str, float], *, check: bool = True) -> Model:
        """The same model with other values of some parameters. The structure is kept: nothing is built again.

        Values outside of a parameter's bounds are a `ModelError`, and so are negative masses and inertias that no body has, unless `check` is
        False (a fit may want them on its way).

        >>> from dalembert import Model, Parameter, kinetic_energy, tx
        >>> cart = Model([tx("x", mass=Parameter("m", 2.0))])
        >>> kinetic_energy(cart.with_parameters({"m": 3.0}), [0.0], [1.0])
        1.5
        """
        changed = dict(self._parameters)
        for name, value in needed(values, Mapping).items():
            if name not in changed:
                raise ModelError(f"unknown parameter {name!r}{nearest(name, changed)}", culprit=str(name))
            given = number(value, f"parameter '{name}'")
            changed[name] = changed[name].with_value(given, check=check)
        revalued = Revalued(changed)
        new: Model = object.__new__(type(self))
        changing = ("_frames", "_entries", "_elements", "gaps", "limits")
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in changing})
        new._parameters = changed
        new._structure = self.structure
        new._frames = unflatten(revalued(flatten(self._frames)))
        new._entries = tuple(_walk(new._frames))
        if check:
            new._check_masses()
        elements = []
        for e in self._elements:
            new_values = {k: revalued(v) for k, v in _numbers_of(e).items() if any(True for _ in parameters_in(v))}
            elements.append(replace(e, **new_values) if new_values else e)
        new._elements = tuple(elements)
        return new

    # ---- what it is made of

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._name

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The root frames, as given."""
        return self._frames

    @property
    def elements(self) -> tuple[Element, ...]:
        """The elements, as given (functions of user elements compiled to tapes)."""
        return self._elements

    @property
    def frame_entries(self) -> tuple[FrameEntry, ...]:
        """Every frame with index and parent, in preorder; entry 0 is the world."""
        return self._entries

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all named frames, "world" first."""
        return tuple(self._frame_index)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the configuration variables: dynamic, then kinematic; length nq."""
        return self._variables

    @property
    def joints(self) -> tuple[tuple[str, str], ...]:
        """(name, kind) of every joint in the order of q; kinds are "hinge", "slider" and "ball"."""
        return self._joints

    @property
    def dynamic(self) -> tuple[str, ...]:
        """Names of the dynamic variables."""
        return self._variables[: self._nqd]

    @property
    def kinematic(self) -> tuple[str, ...]:
        """Names of the kinematic (prescribed) variables."""
        return self._variables[self._nqd :]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs (forces); length nu."""
        return self._inputs

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Names of the inputs beside those of variables: a motor that is called as its joint (`load(..., inputs=True)`) has "u." in front."""
        taken = {*self.variables, *self.configuration.readings}
        return tuple(f"u.{n}" if n in taken else n for n in self._inputs)

    @cached_property
    def constraints(self) -> tuple[str, ...]:
        """A name for every constraint row; length nc. The nh rows on the configuration come first, then those on velocities."""
        holonomic, rates = [], []
        for e in self._elements:
            names = [e.label if e.size == 1 else f"{e.label}[{i}]" for i in range(e.size)]
            holonomic += names[: e.size - e.rates]
            rates += names[e.size - e.rates :]
        return (*holonomic, *rates)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """What limits and contacts keep from becoming negative."""
        return tuple(gap for e in self._elements if isinstance(e, ContactElement) for gap in e.gaps)

    @cached_property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Ranges of the joints that have limits: {variable: (low, high)}, infinite where there is no stop.

        >>> from dalembert import Limit, Model, tx
        >>> Model([tx("x", mass=1.0)], [Limit("x", 0.0)]).limits
        {'x': (0.0, inf)}
        """
        found: dict[str, tuple[float, float]] = {}
        for e in self._elements:
            if isinstance(e, Limit):
                low, high = found.get(e.variable, (-math.inf, math.inf))
                found[e.variable] = (
                    low if e.low is None else max(low, e.low),
                    high if e.high is None else min(high, e.high),
                )
        return found

    def without_contacts(self) -> Model:
        """The same mechanism without limits and contacts (itself if it has none): what maps of single steps and optimizations work with.

        >>> from dalembert import Limit, Model, tx
        >>> Model([tx("x", mass=1.0)], [Limit("x", 0.0)]).without_contacts().gaps
        ()
        """
        if not self.gaps:
            return self
        return self.with_elements([e for e in self._elements if not isinstance(e, ContactElement)])

    def require_no_contacts(self, who: str, limits: bool = False) -> None:
        """ModelError if there are contacts, of which `who` would take no notice, or limits, unless it takes care of these (`limits`)."""
        ignored = (
            e.label for e in self._elements if isinstance(e, ContactElement) and not (limits and isinstance(e, Limit))
        )
        label = next(ignored, None)
        if label is not None:
            raise ModelError(
                f"{label}: {who} takes no notice of limits and contacts; pass model.without_contacts() if that is meant",
                culprit=label,
            )

    def with_elements(self, elements: Iterable[Element]) -> Model:
        """The same frames, variables and name with other elements.

        >>> from dalembert import Gravity, Model, tx
        >>> len(Model([tx("x", mass=1.0)]).with_elements([Gravity()]).elements)
        1
        """
        new = Model.__new__(Model)
        new._frames, new._name, new._entries, new._frame_index = (
            self._frames,
            self._name,
            self._entries,
            self._frame_index,
        )
        new._take(elements, tuple(name for name, _ in self._joints))
        return new

    @property
    def velocities(self) -> tuple[str, ...]:
        """Names of the velocity components: dynamic, then kinematic; length nv."""
        return self.configuration.velocities

    @property
    def nq(self) -> int:
        """Number of configuration variables (coordinates)."""
        return len(self._variables)

    @property
    def nqd(self) -> int:
        """Number of dynamic coordinates: q[:nqd] are dynamic, q[nqd:] kinematic."""
        return self._nqd

    @property
    def nv(self) -> int:
        """Number of velocity components, nd + nkv (as many as coordinates, unless a joint has more of these)."""
        return self.configuration.nv

    @property
    def nd(self) -> int:
        """Number of dynamic velocity components, which is that of the momenta."""
        return self._nd

    @property
    def nk(self) -> int:
        """Number of kinematic variables (coordinates)."""
        return len(self._variables) - self._nqd

    @property
    def nkv(self) -> int:
        """Number of kinematic velocity components."""
        return self.nv - self._nd

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return len(self._inputs)

    @cached_property
    def nc(self) -> int:
        """Number of constraint rows: nh on the configuration, then those on velocities."""
        return sum(e.size for e in self._elements)

    @cached_property
    def nh(self) -> int:
        """Number of constraint rows on the configuration, h(q) = 0."""
        return sum(e.size - e.rates for e in self._elements)

    def require_holonomic(self, what: str, instead: str) -> None:
        """Raise `ModelError` where there are constraints on velocities, which `what` does not know; `instead` names the way out."""
        for e in self._elements:
            if e.rates:
                raise ModelError(
                    f"{e.label}: {what} knows no constraints on velocities; use {instead}", culprit=e.label
                )

    def index(self, variable: str) -> int:
        """Index of a variable in q; KeyError-like `ModelError` with the nearest names when unknown."""
        try:
            return self._variable_index[variable]
        except (KeyError, TypeError):
            raise ModelError(
                f"unknown variable {variable!r}{nearest(variable, self._variables)}", culprit=str(variable)
            ) from None

    def is_dynamic(self, variable: str) -> bool:
        """Is it a dynamic variable, or a velocity of one (not a kinematic one)?"""
        if variable in self._velocity_index:
            return self._velocity_index[variable] < self._nd
        return self.index(variable) < self._nqd

    def velocity_index(self, name: str) -> int:
        """Index in v of a velocity component, by its name or by that of its coordinate.

        >>> from dalembert import Model, ball, tx
        >>> Model([tx("a", ball("b", mass=1.0, inertia=(1, 1, 1)))]).velocity_index("b.wx")
        1
        """
        try:
            return self._velocity_index[name]
        except (KeyError, TypeError):
            raise ModelError(
                f"unknown variable {name!r}{nearest(name, self._velocity_index)}", culprit=str(name)
            ) from None

    @property
    def _velocity_index(self) -> dict[str, int]:
        return self.configuration.velocity_index

    def frame_index(self, name: str) -> int:
        """Index of a named frame in `frame_entries`."""
        try:
            return self._frame_index[name]
        except (KeyError, TypeError):
            raise ModelError(f"unknown frame {name!r}{nearest(name, self._frame_index)}", culprit=str(name)) from None

    def input_index(self, name: str) -> int:
        """Index in u of the input called `name`."""
        if name not in self._inputs:
            raise ModelError(f"unknown input {name!r}{nearest(name, self._inputs)}", culprit=str(name))
        return self._inputs.index(name)

    # ---- configurations: points of a manifold

    @property
    def configuration(self) -> Configuration:
        """The joints in the order of q, with their ways to subtract and add."""
        return self._configuration

    @cached_property
    def prescribed(self) -> Configuration:
        """The kinematic joints alone."""
        return Configuration([(name, KINDS[kind]) for name, kind in self._joints[self._dynamic_joints :]])

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """The velocity (..., nv) that leads from q0 (..., nq) to q1 in unit time.

        >>> from dalembert import Model, tx
        >>> Model([tx("a", mass=1.0)]).difference([0.5], [0.75])
        array([0.25])
        """
        return self.configuration.difference(self._points(q0, "q0"), self._points(q1, "q1"))

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> Array:
        """The configuration (..., nq) to which dv (..., nv) leads from q; undoes `difference`.

        >>> from dalembert import Model, tx
        >>> Model([tx("a", mass=1.0)]).integrate([0.5], [0.25])
        array([0.75])
        """
        step = finite(dv, "dv")
        if step.shape[-1:] != (self.nv,):
            raise ValueError(f"dv has shape {step.shape}, but (..., {self.nv}) is needed")
        return self.configuration.integrate(self._points(q, "q"), step)

    def neutral(self) -> Array:
        """The configuration (nq,) where nothing is turned or shifted.

        >>> from dalembert import Model, tx
        >>> Model([tx("a", mass=1.0)]).neutral()
        array([0.])
        """
        return self.configuration.neutral()

    def random(self, seed: int | np.random.Generator = 0) -> Array:
        """A configuration (nq,) drawn at random: hinges anywhere, sliders within a metre of zero. Constraints are not heeded.

        >>> from dalembert import Model, tx
        >>> bool(abs(Model([tx("a", mass=1.0)]).random(seed=1)[0]) < 1.0)
        True
        """
        return self.configuration.random(np.random.default_rng(seed))

    def _points(self, q: ArrayLike, what: str) -> Array:
        x = finite(q, what)
        if x.shape[-1:] != (self.nq,):
            raise ValueError(f"{what} has shape {x.shape}, but (..., {self.nq}) is needed")
        return self.configuration.unit(x, what)

    # ---- values

    def _key(self) -> Any:
        named = tuple(map(repr, self._parameters.values()))
        return (flatten(self._frames), self._elements, self._name, self._variables, named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return (_rebuild, (flatten(self._frames), self._elements, self._name, tuple(name for name, _ in self._joints)))

    def __repr__(self) -> str:
        head = f"Model {self._name!r}: {self.nd} dynamic, {self.nk} kinematic, {self.nu} inputs, {self.nc} constraints"
        lines = [head, "world"]
        for root in self._frames:
            lines += _draw(root, "", root is self._frames[-1])
        lines += [f"  {e.label}" for e in self._elements]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        from ..viewing import result_html

        head, _, tree = repr(self).partition("\n")
        return (
            result_html(head, {}, self)
            + f"<details><summary>tree and elements</summary><pre>{escape(tree)}</pre></details>"
        )

    # ---- checks, each naming the culprit

    def _index_frames(self) -> None:
        index: dict[str, int] = {}
        for entry in self._entries:
            if entry.name is None:
                continue
            if entry.name in index:
                raise ModelError(f"two frames are called '{entry.name}'", culprit=entry.name)
            index[entry.name] = entry.index
        self._frame_index = index

    def _index_variables(self, elements: tuple[Element, ...], order: Sequence[str] | None) -> None:
        dynamic: dict[str, str] = {}  # names and kinds of joints; dictionaries keep the order and find a name at once
        kinematic: dict[str, str] = {}
        for entry in self._entries[1:]:
            assert entry.frame is not None
            variable = entry.frame.variable
            if variable is None:
                continue
            if variable in dynamic or variable in kinematic:
                raise ModelError(
                    f"{entry.frame.label}: variable '{variable}' already drives another frame", culprit=variable
                )
            (kinematic if isinstance(entry.frame.value, Kinematic) else dynamic)[variable] = _kind(entry.frame)
        for e in elements:
            for name in e.kinematic:
                if name in dynamic:
                    raise ModelError(f"{e.label}: '{name}' is a dynamic variable", culprit=name)
                kinematic.setdefault(name, "slider")
        kinds = dynamic | kinematic
        names = tuple(kinds) if order is None else _reordered(order, dynamic, kinematic)
        self._joints = tuple((name, kinds[name]) for name in names)
        ends = {name: KINDS[kind].coordinates for name, kind in self._joints}
        self._configuration = Configuration([(name, KINDS[kind]) for name, kind in self._joints])
        self._variables = self._configuration.coordinates
        self._dynamic_joints = len(dynamic)
        self._nqd = sum(len(ends[name]) for name in dynamic)
        self._nd = sum(len(KINDS[kind].velocities) for kind in dynamic.values())
        self._variable_index = {v: i for i, v in enumerate(self._variables)}
        if len(self._variable_index) < len(self._variables):
            twice = next(v for i, v in enumerate(self._variables) if self._variable_index[v] != i)
            raise ModelError(f"two coordinates are called '{twice}'", culprit=twice)

    def _index_inputs(self, elements: tuple[Element, ...]) -> None:
        names: dict[str, None] = {}
        for e in elements:
            for name in e.inputs:
                if not isinstance(name, str) or not name:
                    raise ModelError(f"{e.label}: an input needs a non-empty name, not {name!r}", culprit=e.label)
                names.setdefault(name)
        self._inputs = tuple(names)

    def _check_masses(self) -> None:
        heavy = [False] * len(self._entries)
        doubtful: list[str] = []
        for entry in reversed(self._entries[1:]):
            frame = entry.frame
            assert frame is not None
            if frame.mass < 0:
                raise ModelError(f"{frame.label}: negative mass {frame.mass}", culprit=frame.label)
            doubtful += _check_inertia(frame)
            if frame.heavy:
                heavy[entry.index] = True
            if heavy[entry.index]:
                heavy[entry.parent] = True
            elif isinstance(frame.value, str) and frame.transform != "se3":
                raise ModelError(
                    f"{frame.label}: dynamic variable '{frame.value}' moves no mass "
                    "(give a mass to this frame or one below it, or make the variable Kinematic)",
                    culprit=frame.value,
                )
        if doubtful:
            more = f" (and {len(doubtful) - 1} more frames)" if len(doubtful) > 1 else ""
            text = f"{doubtful[-1]}: none is larger than the sum of the others{more}"
            warnings.warn(InertiaWarning(text), stacklevel=user_level())

    def _check_elements(self) -> None:
        rows = dependencies = 0
        balls = self._configuration.places
        places = {name for ball in balls for name in self._variables[ball.q]}
        rates = {name for ball in balls for name in self.velocities[ball.v]}
        for e in self._elements:
            for name in e.frames:
                self._known(e, "frame", name, self._frame_index)
            for name in e.variables:
                self._known(
                    e, "variable", name, self._variable_index if name in self._variable_index else self._velocity_index
                )
            e.check(self)
            for name in e.variables:
                if name in places or (name in rates and not e.TORQUES):
                    raise ModelError(
                        f"{e.label}: '{name}' belongs to a ball: elements act on balls through frames, or by torques on its .wx, .wy, .wz",
                        culprit=name,
                    )
            if e.size:
                rows += e.size
                used = e.depends_on(self)
                dependencies += len(used)
                if dependencies > MAX_DEPENDENCIES:
                    raise ModelError(f"{e.label}: the constraints depend on too many variables in all", culprit=e.label)
                if not any(map(self.is_dynamic, used)):
                    raise ModelError(
                        f"{e.label}: the constraint contains no dynamic variable, so nothing can satisfy it",
                        culprit=e.label,
                    )
        if rows > self._nd:
            labels = [e.label for e in self._elements if e.size]
            listed = ", ".join(labels[:20]) + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
            raise ModelError(
                f"{rows} constraint rows but only {self._nd} dynamic variables: {listed}", culprit="constraints"
            )

    def _known(self, element: Element, kind: str, name: Any, table: dict[str, int]) -> None:
        if not isinstance(name, str) or name not in table:
            raise ModelError(
                f"{element.label}: unknown {kind} {name!r}{nearest(name, table)}", culprit=str(name) or element.label
            )

    def path(self, frame: int | str) -> tuple[str, ...]:
        """Names of the variables that move a frame, from the root down."""
        i = self.frame_index(frame) if isinstance(frame, str) else frame
        found: list[str] = []
        while i > 0:
            entry = self._entries[i]
            assert entry.frame is not None
            found += reversed(entry.frame.coordinates)
            i = entry.parent
        return tuple(reversed(found))

    def variables_of(self, e: Element) -> tuple[str, ...]:
        """Names of the variables that an element's value can depend on, in the order of q."""
        used = e.depends_on(self)
        return tuple(v for v in self._variables if v in used)


def _numbers_of(e: Element) -> dict[str, Any]:
    """The fields of an element; splines as the tables of their points."""
    values = {f.name: getattr(e, f.name) for f in fields(e)}
    return {name: value.points if isinstance(value, Spline) else value for name, value in values.items()}


def _kind(frame: Frame) -> str:
    """Row of the table of joint kinds."""
    return "ball" if frame.transform == TURN else "hinge" if frame.transform[0] == "r" else "slider"


def _unknown_kind(e: Element) -> ModelError:
    """What is not registered has no forces, so it must not get into a model."""
    name = type(e).__name__
    above = [kind.__name__ for kind in type(e).__mro__[1:] if ELEMENTS.get(kind.__name__) is kind]
    if name in ELEMENTS:
        hint = f"this {name} is not the element of that name; give the class another one"
    elif above:
        hint = f"it derives from {above[0]}: use {above[0]}(...) itself, or a function that returns one"
    else:
        hint = "use Potential, Force or Constraint with a function of your own"
    return ModelError(
        f"{name} is not a known kind of element, so nothing would act; {hint} (or register the class with @element)",
        culprit=name,
    )


def _rebuild(rows: tuple[Row, ...], elements: tuple[Element, ...], name: str, variables: tuple[str, ...]) -> Model:
    return Model(unflatten(rows), elements, name, variables=variables)


def _reordered(order: Sequence[str], dynamic: Iterable[str], kinematic: Iterable[str]) -> tuple[str, ...]:
    """The order that the user asks for, after checking that it lists every variable once.

    Dynamic variables must keep the order of the tree: the core assembles and factors along it.
    """
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise ModelError("variables must be a list of names", culprit="variables")
    known = dict.fromkeys((*dynamic, *kinematic))
    seen: set[str] = set()
    for name in order:
        if not isinstance(name, str) or name not in known:
            raise ModelError(f"variables: unknown variable {name!r}{nearest(name, known)}", culprit=str(name))
        if name in seen:
            raise ModelError(f"variables: '{name}' is listed twice", culprit=name)
        seen.add(name)
    for name in known:
        if name not in seen:
            raise ModelError(f"variables: '{name}' is missing", culprit=name)
    for wanted, given in zip(dynamic, order, strict=False):
        if wanted != given:
            raise ModelError(
                f"variables: '{given}' stands where '{wanted}' must be (dynamic variables first, in tree order)",
                culprit=given,
            )
    return tuple(order)


def _walk(roots: tuple[Frame, ...]) -> Iterator[FrameEntry]:
    """Preorder without recursion: deep chains must not overflow Python's stack."""
    yield FrameEntry(0, -1, WORLD, None)
    stack = [(root, 0) for root in reversed(roots)]
    count = 0
    while stack:
        frame, parent = stack.pop()
        count += 1
        yield FrameEntry(count, parent, frame.name, frame)
        stack.extend((child, count) for child in reversed(frame.children))


def _check_inertia(frame: Frame) -> list[str]:
    """Positive semidefinite, else an error; a complaint where no body has such moments, but not about a single one (planar models)."""
    xx, yy, zz, xy, xz, yz = frame.inertia
    a, b, c = sorted((xx, yy, zz))
    if xy or xz or yz:
        a, b, c = map(float, np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    if a < -1e-9 * max(abs(x) for x in frame.inertia):
        raise ModelError(f"{frame.label}: inertia {frame.inertia} is not positive semidefinite", culprit=frame.label)
    if c <= (1 + 1e-6) * (a + b) or b <= 1e-12 * c:
        return []
    return [f"{frame.label}: no body has the principal moments {a:.6g}, {b:.6g}, {c:.6g}"]


def _draw(root: Frame, indent: str, last: bool) -> list[str]:
    """The tree as text, depth limited so that a long chain stays readable."""
    lines: list[str] = []
    stack = [(root, indent, last)]
    while stack and len(lines) < 200:
        frame, ind, is_last = stack.pop()
        value = "4x4" if frame.transform == "se3" else frame.value
        text = f"{frame.transform}({value!r})" if not isinstance(value, float) else f"{frame.transform}({value:g})"
        if frame.name:
            text += f" '{frame.name}'"
        if frame.mass or any(frame.inertia):
            text += f"  mass {frame.mass:g}"
        lines.append(f"{ind}{'└─ ' if is_last else '├─ '}{text}")
        deeper = ind + ("   " if is_last else "│  ")
        for child in reversed(frame.children):
            stack.append((child, deeper, child is frame.children[-1]))
    if stack:
        lines.append(f"{indent}   ... {len(stack)} more branches")
    return lines
