"""What a multibody system is for DMOCC: rigid bodies, joints between them, gravity; nothing is computed here.

All geometry is given in world coordinates of one reference configuration (q_00 of the paper), in which every joint
coordinate is zero. From it follow the body-fixed quantities of Leyendecker, Ober-Bloebaum, Marsden, Ortiz, Discrete
mechanics and optimal control for constrained systems (DMOCC), sections 4-6: joint locations rho^1, rho^2 and axes n^1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Named, floats, matrix, nearest, needed, number, vector
from ...errors import ModelError

GROUND = "ground"
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class Kind(NamedTuple):
    """What a joint leaves free: number of slides, of turns (3: freely), names of the coordinates."""

    slides: int
    turns: int
    names: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "free": Kind(3, 3, ("x", "y", "z", "rx", "ry", "rz")),
    "S": Kind(0, 3, ("rx", "ry", "rz")),
    "U": Kind(0, 2, ("t1", "t2")),
    "C": Kind(1, 1, ("u", "theta")),
    "R": Kind(0, 1, ("",)),
    "P": Kind(1, 0, ("",)),
    "E": Kind(2, 1, ("u1", "u2", "theta")),
    "H": Kind(0, 1, ("",)),
    "weld": Kind(0, 0, ()),
}
XYZ = ("x", "y", "z")

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]


def _checked(check: Callable[..., Any], value: Any, shape: Any, what: str, culprit: str) -> Any:
    """An array checked by `arrays`, as nested tuples: a mistake in a description is a ModelError that names it."""
    try:
        rows = check(value, shape, what).tolist()
    except ValueError as error:
        raise ModelError(str(error), culprit=culprit) from None
    return tuple(tuple(r) if isinstance(r, list) else r for r in rows)


def _number(value: object, what: str, culprit: str) -> float:
    try:
        return number(value, what)
    except ValueError as error:
        raise ModelError(str(error), culprit=culprit) from None


@dataclass(frozen=True)
class RigidBody:
    """A rigid body: centre of mass and three directors, 12 coordinates, six internal constraints (eq. 23-24).

    Inertia beyond the triangle inequality, as (0, 0, J) of a planar model, is accepted: only its moments about axes
    that can turn enter the reduced scheme.

    `mass` (kg); `inertia` about the centre of mass in the body's own axes: (J1, J2, J3) or symmetric 3x3 (kg m^2);
    `position` (m) and `rotation` (3x3, columns are the directors) place it in the reference configuration.

    >>> rod = RigidBody("rod", 1.0, (0.0, 1 / 12, 1 / 12))
    >>> rod.euler_tensor.diagonal().round(4).tolist()  # E = tr(J)/2 I - J: the mass of a director
    [0.0833, 0.0, 0.0]
    """

    name: str
    mass: float
    inertia: Matrix
    position: Vector = (0.0, 0.0, 0.0)
    rotation: Matrix = IDENTITY

    def __post_init__(self) -> None:
        who = f"body '{self.name}'"
        if not isinstance(self.name, str) or not self.name or self.name == GROUND:
            raise ModelError(f"a body needs a name other than '{GROUND}', not {self.name!r}", culprit=str(self.name))
        mass = _number(self.mass, f"{who}: mass", self.name)
        if mass <= 0:
            raise ModelError(f"{who}: mass must be positive, not {self.mass!r}", culprit=self.name)
        try:
            given = floats(self.inertia, f"{who}: inertia")
        except ValueError as error:
            raise ModelError(str(error), culprit=self.name) from None
        inertia = _checked(matrix, np.diag(given) if given.shape == (3,) else given, (3, 3), f"{who}: inertia", who)
        rotation = _checked(matrix, self.rotation, (3, 3), f"{who}: rotation", who)
        r, j = np.array(rotation), np.array(inertia)
        if np.abs(r.T @ r - np.eye(3)).max() > 1e-9 or np.linalg.det(r) < 0:
            raise ModelError(f"{who}: rotation is not a rotation matrix", culprit=self.name)
        if np.abs(j - j.T).max() > 1e-9 * np.abs(j).max():
            raise ModelError(f"{who}: inertia is not symmetric", culprit=self.name)
        set_ = object.__setattr__
        set_(self, "mass", mass)
        set_(self, "inertia", inertia)
        set_(self, "rotation", rotation)
        set_(self, "position", _checked(vector, self.position, XYZ, f"{who}: position", who))
        if np.linalg.eigvalsh(j).min() < -1e-9 * max(float(np.trace(j)), 1e-300):
            raise ModelError(f"{who}: inertia is not positive semidefinite", culprit=self.name)

    @cached_property
    def euler_tensor(self) -> np.ndarray:
        """E = tr(J)/2 I - J, shape (3, 3), kg m^2."""
        j = np.array(self.inertia)
        return 0.5 * np.trace(j) * np.eye(3) - j


@dataclass(frozen=True)
class Joint:
    """A joint of `kind` "R" (hinge), "P" (slider), "C" (cylinder), "S" (ball), "E" (plane) (eq. 36-56), "U" (universal),
    "H" (screw), "weld" (nothing moves) or "free".

    `parent` is a body or "ground"; `point` and `axis` are in world coordinates of the reference configuration (`axis`:
    hinge, slide or screw axis, normal of the plane for "E", for "U" the axis that stays with the parent; `inplane`:
    first slide direction of "E", for "U" the axis that stays with the child, perpendicular to `axis`). `pitch` of "H":
    metres per radian. `actuated`: True, False or one flag per coordinate. For "free" the six inputs are force (at
    `point`, world axes) and torque (eq. 28); torques of "S" and "free" are about the axes of the world. `labels` override
    the names of the coordinates.

    >>> Joint("C", "ground", "piston", axis=(1, 0, 0)).coordinates
    ('piston.u', 'piston.theta')
    """

    kind: str
    parent: str
    child: str
    point: Vector = (0.0, 0.0, 0.0)
    axis: Vector = (0.0, 0.0, 1.0)
    actuated: bool | tuple[bool, ...] = True
    name: str = ""
    inplane: Vector | None = None
    labels: tuple[str, ...] = ()
    pitch: float = 0.0

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "name", self.name or self.child)
        who = f"joint '{self.name}'"

        def fail(reason: str) -> ModelError:
            return ModelError(f"{who}: {reason}", culprit=self.name)

        if self.kind not in KINDS:
            raise fail(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.kind == "free" and self.parent != GROUND:
            raise fail(f"a free body hangs on '{GROUND}', not on '{self.parent}'")
        set_(self, "point", _checked(vector, self.point, XYZ, f"{who}: point", who))
        axis = np.array(_checked(vector, self.axis, XYZ, f"{who}: axis", who))
        if not np.linalg.norm(axis) > 0:
            raise fail("the axis is zero")
        axis = axis / np.linalg.norm(axis)
        set_(self, "axis", tuple(axis.tolist()))
        if self.inplane is not None:
            set_(self, "inplane", _checked(vector, self.inplane, XYZ, f"{who}: inplane", who))
            size = float(np.linalg.norm(self.inplane))
            if np.linalg.norm(np.cross(axis, self.inplane)) < 1e-9 * size or not size:
                raise fail("inplane must not be parallel to the axis")
            if self.kind == "U" and abs(axis @ self.inplane) > 1e-9 * size:
                raise fail("the two axes of a universal joint (axis, inplane) must be perpendicular")
        elif self.kind == "U":
            raise fail("a universal joint needs a second axis, perpendicular to the first: inplane=(x, y, z)")
        pitch = _number(self.pitch, "pitch", self.name)
        if (self.kind == "H") != (pitch != 0.0):
            raise fail(f"a screw (kind 'H') and no other kind needs a pitch (metres per radian), not {self.pitch!r}")
        set_(self, "pitch", pitch)
        flags = (self.actuated,) * self.dof if isinstance(self.actuated, bool) else tuple(map(bool, self.actuated))
        if len(flags) != self.dof:
            raise fail(f"actuated needs {self.dof} flags, got {len(flags)}")
        set_(self, "actuated", flags)
        set_(self, "labels", tuple(self.labels))
        if self.labels and len(self.labels) != self.dof:
            raise fail(f"labels needs {self.dof} names, got {len(self.labels)}")

    @property
    def dof(self) -> int:
        """Number of relative degrees of freedom r."""
        return len(KINDS[self.kind].names)

    @property
    def slides(self) -> int:
        """Number of directions of relative translation that are coordinates."""
        return KINDS[self.kind].slides

    @property
    def turns(self) -> int:
        """Number of relative turns that are coordinates: 0, 1 (about the axis), 2 (universal) or 3 (freely)."""
        return KINDS[self.kind].turns

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the joint's coordinates, length dof."""
        return self.labels or tuple(f"{self.name}.{s}" if s else self.name for s in KINDS[self.kind].names)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the coordinates that are actuated."""
        flags: Any = self.actuated
        return tuple(c for c, on in zip(self.coordinates, flags, strict=True) if on)

    @property
    def triad(self) -> np.ndarray:
        """Right-handed orthonormal frame with columns (m1, m2, n) in world coordinates of the reference, (3, 3)."""
        n = np.array(self.axis)
        helper = np.eye(3)[int(np.argmin(np.abs(n)))] if self.inplane is None else np.array(self.inplane)
        m1 = helper - n * (n @ helper)
        m1 /= np.linalg.norm(m1)
        return np.column_stack([m1, np.cross(n, m1), n])


class MultibodySystem:
    """Bodies and joints under gravity and an optional potential of your own; loops may be closed.

    The joints span trees in the order in which they are listed; one whose child already hangs on another joint, or
    carries its parent, closes a loop (`closures`): it has no coordinates, its constraints are kept with multipliers.
    `constraints(view)` returns further rows that are held at zero. A body that is the child of no joint is free and
    unactuated. `damping` {name: c} acts with -c times the rate of the named coordinate; for the name of a ball joint or
    free body with the torque -c times the relative angular velocity.

    `potential(view)` and `constraints(view)` return CasADi expressions of `view.position(body, point)`, where point is
    in body axes from its centre of mass, and of joint coordinates `view["elbow"]`.

    >>> pendulum = MultibodySystem(
    ...     [RigidBody("rod", 1.0, (0, 1 / 12, 1 / 12), position=(0.5, 0, 0))],
    ...     [Joint("R", "ground", "rod", axis=(0, 0, 1))],
    ...     gravity=(0, -9.81, 0),
    ... )
    >>> pendulum.n, pendulum.m, pendulum.nd, pendulum.nu
    (12, 11, 1, 1)
    """

    def __init__(
        self,
        bodies: Iterable[RigidBody],
        joints: Iterable[Joint] = (),
        *,
        gravity: Sequence[float] = (0.0, 0.0, 0.0),
        potential: Callable[[Any], Any] | None = None,
        constraints: Callable[[Any], Any] | None = None,
        damping: Mapping[str, float] | None = None,
        name: str = "multibody system",
    ) -> None:
        given, links = tuple(needed(b, RigidBody) for b in bodies), tuple(needed(j, Joint) for j in joints)
        self.name = name
        self.gravity: Vector = _checked(vector, gravity, XYZ, "gravity", name)
        self.potential = potential
        self.constraints = constraints
        names = [b.name for b in given]
        if not given:
            raise ModelError("a multibody system needs at least one body", culprit=name)
        for b in names:
            if names.count(b) > 1:
                raise ModelError(f"two bodies are called '{b}'", culprit=b)
        above, self.closures = _span(names, links)
        for b in names:
            above.setdefault(b, Joint("free", GROUND, b, actuated=False))
        # Outward order: a body after its parent, so that one pass places all of them.
        ordered: list[str] = []
        placed = {GROUND}
        while len(ordered) < len(names):
            ready = [b for b in names if b not in placed and above[b].parent in placed]
            ordered += ready
            placed.update(ready)
        by_name = {b.name: b for b in given}
        self.bodies: tuple[RigidBody, ...] = tuple(by_name[b] for b in ordered)
        self.joints: tuple[Joint, ...] = tuple(above[b] for b in ordered)
        self.body_index: dict[str, int] = {b: i for i, b in enumerate(ordered)} | {GROUND: -1}
        self.parents: tuple[int, ...] = tuple(self.body_index[j.parent] for j in self.joints)
        self.coordinates: tuple[str, ...] = tuple(c for j in self.joints for c in j.coordinates)
        self.inputs: tuple[str, ...] = tuple(c for j in self.joints + self.closures for c in j.inputs)
        flat = [*self.coordinates, *(c for j in self.closures for c in j.inputs)]
        for c in flat:
            if flat.count(c) > 1:
                raise ModelError(f"two coordinates are called '{c}'", culprit=c)
        self.damping: tuple[tuple[str, float], ...] = tuple(_damping(self.joints, damping or {}).items())

    @property
    def n(self) -> int:
        """Number of redundant coordinates, 12 per body."""
        return 12 * len(self.bodies)

    @property
    def nd(self) -> int:
        """Number of joint coordinates n - m; the degrees of freedom, as long as no loop is closed."""
        return len(self.coordinates)

    @property
    def m(self) -> int:
        """Number of constraints that the joint coordinates fulfil: six per body and those of the joints of the tree."""
        return self.n - self.nd

    @property
    def nu(self) -> int:
        """Number of inputs (joint forces and torques)."""
        return len(self.inputs)

    @cached_property
    def mass_matrix(self) -> np.ndarray:
        """Constant mass matrix (eq. 24), (n, n); full Euler tensors are allowed."""
        out = np.zeros((self.n, self.n))
        for i, b in enumerate(self.bodies):
            s = slice(12 * i, 12 * i + 12)
            block = np.zeros((12, 12))
            block[:3, :3] = b.mass * np.eye(3)
            block[3:, 3:] = np.kron(b.euler_tensor, np.eye(3))
            out[s, s] = block
        return out

    @cached_property
    def reference(self) -> np.ndarray:
        """Reference configuration q_00, (n,): per body centre of mass, then the three directors."""
        return np.concatenate([np.concatenate([b.position, np.array(b.rotation).T.ravel()]) for b in self.bodies])

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the coordinates of every joint of the tree stand in u."""
        ends = np.cumsum([0] + [j.dof for j in self.joints])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    def vector(self, value: Named | None, what: str = "u") -> np.ndarray:
        """Joint coordinates (nd,) from an array or from a dict by name (others zero)."""
        return vector(value, self.coordinates, what)

    def _key(self) -> Any:
        return (
            self.bodies, self.joints, self.closures, self.gravity, self.potential, self.constraints, self.damping
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultibodySystem) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        options: dict[str, Any] = {
            "gravity": self.gravity,
            "potential": self.potential,
            "constraints": self.constraints,
        }
        options |= {"damping": dict(self.damping), "name": self.name}
        return (_rebuild, (self.bodies, self.joints + self.closures, options))

    def __repr__(self) -> str:
        lines = [
            f"MultibodySystem {self.name!r}: {len(self.bodies)} bodies, {self.n} coordinates, {self.m} constraints, "
            f"{self.nd} joint coordinates, {self.nu} inputs"
        ]
        for b, j in zip(self.bodies, self.joints, strict=True):
            lines.append(f"  {j.parent} --{j.kind}--> {b.name}  mass {b.mass:g}  ({', '.join(j.coordinates)})")
        lines += [f"  {j.parent} --{j.kind}--> {j.child}  closes a loop" for j in self.closures]
        return "\n".join(lines)


def _rebuild(bodies: Any, joints: Any, options: dict[str, Any]) -> MultibodySystem:
    return MultibodySystem(bodies, joints, **options)


def _span(names: Sequence[str], links: Sequence[Joint]) -> tuple[dict[str, Joint], tuple[Joint, ...]]:
    """The joint above every body that hangs on one, and the joints that close loops."""
    above: dict[str, Joint] = {}
    closing: list[Joint] = []
    for j in links:
        for end in (j.parent, j.child):
            if end not in names and not (end == GROUND and end == j.parent):
                raise ModelError(f"joint '{j.name}': unknown body '{end}'{nearest(end, names)}", culprit=j.name)
        root = j.parent
        while root in above and root != j.child:
            root = above[root].parent
        if j.child not in above and root != j.child:
            above[j.child] = j
        elif j.kind == "free":
            raise ModelError(f"joint '{j.name}': body '{j.child}' is not free, a joint holds it", culprit=j.name)
        elif j.parent == j.child:
            raise ModelError(f"joint '{j.name}' joins body '{j.child}' to itself", culprit=j.name)
        else:
            closing.append(j)
    return above, tuple(closing)


def _damping(joints: Sequence[Joint], given: Mapping[str, float]) -> dict[str, float]:
    """Checked coefficients by coordinate, those of balls and free bodies by joint."""
    known = [c for j in joints for c in j.coordinates[: j.slides if j.turns == 3 else None]]
    known += [j.name for j in joints if j.turns == 3]
    out: dict[str, float] = {}
    for key, value in given.items():
        if key not in known:
            raise ModelError(f"damping: unknown name {key!r}; known are {', '.join(known)}", culprit=str(key))
        coefficient = _number(value, f"damping of '{key}'", str(key))
        if coefficient < 0:
            raise ModelError(f"damping of '{key}' must be a number >= 0, not {value!r}", culprit=str(key))
        out[key] = coefficient
    return out
