"""Elements: potentials, forces and constraints as values (Scalable variational integrators, sections III-C, IV).

An element names the frames, variables and inputs that it acts on; `Model` resolves the names. The numbers live in the
compiled core (`cpp/elements/`). Every class lists its references in `FRAMES`, `VARIABLES`, so that checking, files and
viewer treat all elements alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import ModelError
from .frames import Kinematic
from .spline import Spline

WORLD = "world"


@dataclass(frozen=True)
class Element:
    """Base of all elements."""

    FRAMES: ClassVar[tuple[str, ...]] = ()  # fields that hold a frame name
    VARIABLES: ClassVar[tuple[str, ...]] = ()  # fields that hold a variable name

    @property
    def label(self) -> str:
        """How messages call this element."""
        shown = [str(getattr(self, f)) for f in (*self.FRAMES, *self.VARIABLES)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _number(self, value: Any, what: str) -> float:
        try:
            if isinstance(value, (str, bytes, bool)):  # float() would accept them; a quoted number is a slip
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"{self.label}: {what} must be a number, not {value!r}", culprit=self.label) from None
        if not math.isfinite(number):
            raise ModelError(f"{self.label}: {what} is not finite ({number})", culprit=self.label)
        return number

    def _vector(self, value: Any, what: str) -> tuple[float, float, float]:
        try:
            if isinstance(value, (str, Mapping)):
                raise TypeError
            x, y, z = value
        except (TypeError, ValueError):
            raise ModelError(f"{self.label}: {what} needs three numbers", culprit=self.label) from None
        return (self._number(x, what), self._number(y, what), self._number(z, what))

    def _pairs(self, given: Any) -> tuple[tuple[str, float], ...]:
        """{variable: coefficient} or pairs of them; every variable at most once."""
        kind = type(self).__name__
        try:
            pairs = [(k, v) for k, v in (given.items() if isinstance(given, Mapping) else given)]
        except (TypeError, ValueError):
            raise ModelError(f"{kind}: coefficients must be {{variable: number}}", culprit=kind) from None
        terms: dict[str, float] = {}
        for name, value in pairs:
            if not isinstance(name, str) or not name:
                raise ModelError(f"{kind}: a coefficient needs the name of a variable, not {name!r}", culprit=kind)
            if name in terms:
                raise ModelError(f"{kind}: variable '{name}' has two coefficients", culprit=name)
            terms[name] = self._number(value, f"coefficient of '{name}'")
        return tuple(terms.items())

    def _set(self, **fields: Any) -> None:
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that this element reads, in order."""
        return ()

    @property
    def size(self) -> int:
        """Number of constraint rows (0 for potentials and forces)."""
        return 0


# ---- potentials ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gravity(Element):
    """Uniform gravity (m/s^2) on the whole system, or on the frames named in `masses`.

    >>> Gravity((0, -9.8, 0)).acceleration
    (0.0, -9.8, 0.0)
    """

    acceleration: tuple[float, float, float] = (0.0, 0.0, -9.81)
    masses: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._set(acceleration=self._vector(self.acceleration, "acceleration"))
        if self.masses is not None:
            if isinstance(self.masses, str) or not isinstance(self.masses, Sequence):
                raise ModelError(f"{self.label}: masses must be a list of frame names", culprit=self.label)
            if len(set(map(str, self.masses))) < len(self.masses):
                raise ModelError(f"{self.label}: a frame appears twice in masses {self.masses!r}", culprit=self.label)
            self._set(masses=tuple(self.masses))


@dataclass(frozen=True)
class PointGravity(Element):
    """Attraction between two frames with potential -strength / distance (strength = G m1 m2).

    >>> PointGravity("sun", "planet", 1.0).strength
    1.0
    """

    frame1: str
    frame2: str
    strength: float
    FRAMES: ClassVar[tuple[str, ...]] = ("frame1", "frame2")

    def __post_init__(self) -> None:
        self._set(strength=self._number(self.strength, "strength"))


@dataclass(frozen=True)
class LinearSpring(Element):
    """Spring between two frames: stiffness/2 (distance - rest_length)^2.

    >>> LinearSpring("a", "b", 100.0, 0.5).rest_length
    0.5
    """

    frame1: str
    frame2: str
    stiffness: float
    rest_length: float = 0.0
    FRAMES: ClassVar[tuple[str, ...]] = ("frame1", "frame2")

    def __post_init__(self) -> None:
        self._set(
            stiffness=self._number(self.stiffness, "stiffness"),
            rest_length=self._number(self.rest_length, "rest length"),
        )


@dataclass(frozen=True)
class ConfigSpring(Element):
    """Spring on one variable: stiffness/2 (q - rest)^2.

    >>> ConfigSpring("theta", 2.0).rest
    0.0
    """

    variable: str
    stiffness: float
    rest: float = 0.0
    VARIABLES: ClassVar[tuple[str, ...]] = ("variable",)

    def __post_init__(self) -> None:
        self._set(stiffness=self._number(self.stiffness, "stiffness"), rest=self._number(self.rest, "rest"))


@dataclass(frozen=True)
class NonlinearConfigSpring(Element):
    """Spring on one variable with force spline(scale q + offset) (positive pushes the variable up).

    >>> NonlinearConfigSpring("theta", [(-1, 2), (0, 0), (1, -2)]).scale
    1.0
    """

    variable: str
    spline: Spline
    scale: float = 1.0
    offset: float = 0.0
    VARIABLES: ClassVar[tuple[str, ...]] = ("variable",)

    def __post_init__(self) -> None:
        if not isinstance(self.spline, Spline):
            self._set(spline=Spline(self.spline))
        self._set(scale=self._number(self.scale, "scale"), offset=self._number(self.offset, "offset"))


# ---- forces --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConfigForce(Element):
    """Generalized force on one variable, given by an input.

    >>> ConfigForce("x", input="push").inputs
    ('push',)
    """

    variable: str
    input: str
    VARIABLES: ClassVar[tuple[str, ...]] = ("variable",)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Damping(Element):
    """Viscous force -c v on every dynamic variable: `default`, or per variable in `coefficients`.

    >>> Damping(0.1, {"theta": 0.5}).coefficient("theta")
    0.5
    """

    default: float = 0.0
    coefficients: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        self._set(default=self._number(self.default, "coefficient"), coefficients=self._pairs(self.coefficients))

    def coefficient(self, variable: str) -> float:
        """The coefficient that acts on a variable."""
        return dict(self.coefficients).get(variable, self.default)


@dataclass(frozen=True)
class LinearDamper(Element):
    """Damper between two frames: force -coefficient * d(distance)/dt along the line between them.

    >>> LinearDamper("a", "b", 3.0).coefficient
    3.0
    """

    frame1: str
    frame2: str
    coefficient: float
    FRAMES: ClassVar[tuple[str, ...]] = ("frame1", "frame2")

    def __post_init__(self) -> None:
        self._set(coefficient=self._number(self.coefficient, "coefficient"))


@dataclass(frozen=True)
class Wrench(Element):
    """Force and torque on a frame; each component is a number or the name of an input.

    `axes`: "body" (frame axes, at the frame origin), "mixed" (world axes, at the frame origin), "world" (world axes,
    moment about the world origin).

    >>> Wrench("hull", force=("thrust", 0, 0)).inputs
    ('thrust',)
    """

    frame: str
    force: tuple[float | str, ...] = (0.0, 0.0, 0.0)
    torque: tuple[float | str, ...] = (0.0, 0.0, 0.0)
    axes: str = "body"
    FRAMES: ClassVar[tuple[str, ...]] = ("frame",)

    def __post_init__(self) -> None:
        if self.axes not in ("body", "world", "mixed"):
            raise ModelError(
                f"{self.label}: axes must be 'body', 'world' or 'mixed', not {self.axes!r}", culprit=self.label
            )
        for what in ("force", "torque"):
            parts = getattr(self, what)
            if hasattr(parts, "tolist"):
                parts = parts.tolist()
            if isinstance(parts, str) or not isinstance(parts, Sequence) or len(parts) != 3:
                raise ModelError(f"{self.label}: {what} needs three components", culprit=self.label)
            self._set(**{what: tuple(c if isinstance(c, str) else self._number(c, what) for c in parts)})

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(c for c in (*self.force, *self.torque) if isinstance(c, str))


# ---- constraints ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distance(Element):
    """|p1 - p2| equals a number, a variable, or a new `Kinematic(name)`: a rod, or a string on a winch.

    The constraint function is |p1 - p2|^2 - length^2.

    >>> Distance("hook", "hand", Kinematic("string")).size
    1
    """

    frame1: str
    frame2: str
    length: float | str | Kinematic
    FRAMES: ClassVar[tuple[str, ...]] = ("frame1", "frame2")

    def __post_init__(self) -> None:
        if isinstance(self.length, Kinematic):
            if not isinstance(self.length.name, str) or not self.length.name:
                raise ModelError(
                    f"{self.label}: the name of a Kinematic must be a non-empty string", culprit=self.label
                )
        elif not isinstance(self.length, str):
            length = self._number(self.length, "length")
            if length <= 0:
                raise ModelError(f"{self.label}: length must be positive (for 0 use PointToPoint)", culprit=self.label)
            self._set(length=length)

    @property
    def size(self) -> int:
        return 1


_NAMED = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class PointToPoint(Element):
    """n . (p1 - p2) = 0 for each direction n: letters as "xz", or vectors, fixed in the world or in frame `axes_of`.

    >>> PointToPoint("a", "b", "xz").directions
    ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    """

    frame1: str
    frame2: str
    directions: tuple[tuple[float, float, float], ...] = "xyz"  # type: ignore[assignment]
    axes_of: str = WORLD
    FRAMES: ClassVar[tuple[str, ...]] = ("frame1", "frame2", "axes_of")

    def __post_init__(self) -> None:
        given: Any = self.directions
        if isinstance(given, str):
            if not given or any(c not in _NAMED for c in given):
                raise ModelError(
                    f"{self.label}: directions must be letters of 'xyz' or vectors, not {given!r}", culprit=self.label
                )
            given = [_NAMED[c] for c in given]
        if hasattr(given, "tolist"):
            given = given.tolist()
        if not isinstance(given, Sequence):
            raise ModelError(f"{self.label}: directions must be letters of 'xyz' or vectors", culprit=self.label)
        vectors = tuple(self._vector(n, "direction") for n in given)
        if not vectors or any(not any(n) for n in vectors):
            raise ModelError(f"{self.label}: directions must be non-zero vectors", culprit=self.label)
        self._set(directions=vectors)

    @property
    def size(self) -> int:
        return len(self.directions)


@dataclass(frozen=True)
class PointOnPlane(Element):
    """The origin of `point` stays in the plane through `plane`'s origin with the given normal (in plane's axes).

    >>> PointOnPlane("table", (0, 0, 1), "ball").size
    1
    """

    plane: str
    normal: tuple[float, float, float]
    point: str
    FRAMES: ClassVar[tuple[str, ...]] = ("plane", "point")

    def __post_init__(self) -> None:
        self._set(normal=self._vector(self.normal, "normal"))
        if not any(self.normal):
            raise ModelError(f"{self.label}: the normal is zero", culprit=self.label)

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True)
class LinearRelation(Element):
    """sum of coefficient * variable = offset: a gear, a screw, a belt.

    >>> LinearRelation({"wheel": 1.0, "pinion": -3.0}).offset
    0.0
    """

    coefficients: tuple[tuple[str, float], ...]
    offset: float = 0.0

    def __post_init__(self) -> None:
        terms = self._pairs(self.coefficients)
        if not terms or not any(v for _, v in terms):
            raise ModelError("LinearRelation needs a non-zero coefficient", culprit="LinearRelation")
        self._set(coefficients=terms, offset=self._number(self.offset, "offset"))

    @property
    def label(self) -> str:
        return f"LinearRelation({', '.join(str(k) for k, _ in dict(self.coefficients).items())})"

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True)
class Cam(Element):
    """follower = profile(driver), with a smooth profile given by a `Spline`.

    >>> Cam("angle", "lift", [(0, 0), (1, 0.1), (2, 0.3), (3, 0.2)]).size
    1
    """

    driver: str
    follower: str
    profile: Spline
    VARIABLES: ClassVar[tuple[str, ...]] = ("driver", "follower")

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Spline):
            self._set(profile=Spline(self.profile))

    @property
    def size(self) -> int:
        return 1


# ---- user elements: CasADi expressions; see model/user.py -----------------------------------------------------------


@dataclass(frozen=True)
class Potential(Element):
    """A potential energy of your own: `energy(m)` returns a CasADi expression.

    `m["theta"]` is a variable, `m.position("bob")` the 3 world coordinates of a frame's origin, `m.pose("bob")` its 4x4
    transform. Exact derivatives to the third order follow by themselves. When the Model is built the function becomes
    an immutable `Tape`.

    >>> Potential(lambda m: 0.5 * m["theta"] ** 2, name="soft").name
    'soft'
    """

    energy: Callable[..., Any] | Any
    name: str = "Potential"

    @property
    def label(self) -> str:
        return f"Potential({self.name})"


@dataclass(frozen=True)
class Force(Element):
    """Generalized forces of your own: `force(m)` returns {variable: CasADi expression}.

    Expressions may use `m["theta"]`, `m.velocity("theta")`, `m.input("u")`, `m.position("bob")`.
    `uses` lists the inputs.

    >>> Force(lambda m: {"x": -m.velocity("x") ** 3}, name="drag").inputs
    ()
    """

    force: Callable[..., Any] | Any
    uses: tuple[str, ...] = ()
    name: str = "Force"

    @property
    def label(self) -> str:
        return f"Force({self.name})"

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.uses)


@dataclass(frozen=True)
class Constraint(Element):
    """A holonomic constraint of your own: `h(m)` returns a CasADi expression that is held at zero (one row).

    >>> Constraint(lambda m: m["a"] - m["b"] ** 2, name="parabola").size
    1
    """

    h: Callable[..., Any] | Any
    name: str = "Constraint"

    @property
    def label(self) -> str:
        return f"Constraint({self.name})"

    @property
    def size(self) -> int:
        return 1
