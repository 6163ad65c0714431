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
from typing import Any

import numpy as np

from ...errors import ModelError

GROUND = "ground"
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

# per kind: how many axes it slides along, how it turns ("": not, "n": about the axis, "xyz": freely), coordinate names
KINDS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "free": (3, "xyz", ("x", "y", "z", "rx", "ry", "rz")),
    "S": (0, "xyz", ("rx", "ry", "rz")),
    "C": (1, "n", ("u", "theta")),
    "R": (0, "n", ("",)),
    "P": (1, "", ("",)),
    "E": (2, "n", ("u1", "u2", "theta")),
}

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]


def _vector(value: Any, what: str, culprit: str) -> Vector:
    a = np.asarray(value, dtype=float)
    if a.shape != (3,) or not np.isfinite(a).all():
        raise ModelError(f"{culprit}: {what} needs three finite numbers, not {value!r}", culprit=culprit)
    return (float(a[0]), float(a[1]), float(a[2]))


def _matrix(value: Any, what: str, culprit: str) -> Matrix:
    a = np.asarray(value, dtype=float)
    if a.shape != (3, 3) or not np.isfinite(a).all():
        raise ModelError(f"{culprit}: {what} needs a finite 3x3 matrix", culprit=culprit)
    return tuple(tuple(float(x) for x in row) for row in a)  # type: ignore[return-value]


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
        mass = float(self.mass)
        if not np.isfinite(mass) or mass <= 0:
            raise ModelError(f"{who}: mass must be positive, not {self.mass!r}", culprit=self.name)
        given = np.asarray(self.inertia, dtype=float)
        inertia = _matrix(np.diag(given) if given.shape == (3,) else given, "inertia", who)
        rotation = _matrix(self.rotation, "rotation", who)
        r, j = np.array(rotation), np.array(inertia)
        if np.abs(r.T @ r - np.eye(3)).max() > 1e-9 or np.linalg.det(r) < 0:
            raise ModelError(f"{who}: rotation is not a rotation matrix", culprit=self.name)
        if np.abs(j - j.T).max() > 1e-9 * np.abs(j).max():
            raise ModelError(f"{who}: inertia is not symmetric", culprit=self.name)
        set_ = object.__setattr__
        set_(self, "mass", mass)
        set_(self, "inertia", inertia)
        set_(self, "rotation", rotation)
        set_(self, "position", _vector(self.position, "position", who))
        if np.linalg.eigvalsh(j).min() < -1e-9 * max(float(np.trace(j)), 1e-300):
            raise ModelError(f"{who}: inertia is not positive semidefinite", culprit=self.name)

    @cached_property
    def euler_tensor(self) -> np.ndarray:
        """E = tr(J)/2 I - J, shape (3, 3), kg m^2."""
        j = np.array(self.inertia)
        return 0.5 * np.trace(j) * np.eye(3) - j


@dataclass(frozen=True)
class Joint:
    """A joint of `kind` "S" (ball), "C" (cylinder), "R" (hinge), "P" (slider), "E" (plane) or "free" (eq. 36-56).

    `parent` is a body or "ground"; `point` and `axis` are in world coordinates of the reference configuration (`axis`:
    hinge or slide axis, normal of the plane for "E"; `inplane`: first slide direction of "E"). `actuated`: True, False
    or one flag per coordinate. For "free" the six inputs are force (at `point`, world axes) and torque (eq. 28).
    `labels` override the names of the coordinates.

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

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "name", self.name or self.child)
        who = f"joint '{self.name}'"
        if self.kind not in KINDS:
            raise ModelError(f"{who}: kind must be one of {', '.join(KINDS)}, not {self.kind!r}", culprit=self.name)
        if self.kind == "free" and self.parent != GROUND:
            raise ModelError(f"{who}: a free body hangs on '{GROUND}', not on '{self.parent}'", culprit=self.name)
        set_(self, "point", _vector(self.point, "point", who))
        axis = np.array(_vector(self.axis, "axis", who))
        if not np.linalg.norm(axis) > 0:
            raise ModelError(f"{who}: the axis is zero", culprit=self.name)
        set_(self, "axis", tuple(float(x) for x in axis / np.linalg.norm(axis)))
        if self.inplane is not None:
            set_(self, "inplane", _vector(self.inplane, "inplane", who))
            if np.linalg.norm(np.cross(axis, self.inplane)) < 1e-9 * np.linalg.norm(axis):
                raise ModelError(f"{who}: inplane must not be parallel to the axis", culprit=self.name)
        flags = (self.actuated,) * self.dof if isinstance(self.actuated, bool) else tuple(map(bool, self.actuated))
        if len(flags) != self.dof:
            raise ModelError(f"{who}: actuated needs {self.dof} flags, got {len(flags)}", culprit=self.name)
        set_(self, "actuated", flags)
        set_(self, "labels", tuple(self.labels))
        if self.labels and len(self.labels) != self.dof:
            raise ModelError(f"{who}: labels needs {self.dof} names, got {len(self.labels)}", culprit=self.name)

    @property
    def dof(self) -> int:
        """Number of relative degrees of freedom r."""
        return len(KINDS[self.kind][2])

    @property
    def slides(self) -> int:
        """Number of directions of relative translation."""
        return KINDS[self.kind][0]

    @property
    def turns(self) -> str:
        """ "" (not), "n" (about the axis) or "xyz" (freely)."""
        return KINDS[self.kind][1]

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the joint's coordinates, length dof."""
        return self.labels or tuple(f"{self.name}.{s}" if s else self.name for s in KINDS[self.kind][2])

    @property
    def triad(self) -> np.ndarray:
        """Right-handed orthonormal frame with columns (m1, m2, n) in world coordinates of the reference, (3, 3)."""
        n = np.array(self.axis)
        helper = np.eye(3)[int(np.argmin(np.abs(n)))] if self.inplane is None else np.array(self.inplane)
        m1 = helper - n * (n @ helper)
        m1 /= np.linalg.norm(m1)
        return np.column_stack([m1, np.cross(n, m1), n])


class MultibodySystem:
    """Bodies and joints that form trees (chains included), under gravity and an optional potential of your own.

    A body that is the child of no joint is free and unactuated. `potential(view)` returns a CasADi expression of
    `view.position(body, point)`, where point is in body axes from its centre of mass.

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
        name: str = "multibody system",
    ) -> None:
        given, links = tuple(bodies), tuple(joints)
        self.name = name
        self.gravity = _vector(gravity, "gravity", "system")
        self.potential = potential
        names = [b.name for b in given]
        if not given:
            raise ModelError("a multibody system needs at least one body", culprit=name)
        for b in names:
            if names.count(b) > 1:
                raise ModelError(f"two bodies are called '{b}'", culprit=b)
        above: dict[str, Joint] = {}
        for j in links:
            for end in (j.parent, j.child):
                if end not in names and not (end == GROUND and end == j.parent):
                    raise ModelError(f"joint '{j.name}': unknown body '{end}'", culprit=j.name)
            if j.child in above:
                raise ModelError(
                    f"joint '{j.name}' closes a loop: '{j.child}' already hangs on joint '{above[j.child].name}' "
                    "(only trees; use dmoc with constraints for closed loops)",
                    culprit=j.name,
                )
            above[j.child] = j
        for b in names:
            above.setdefault(b, Joint("free", GROUND, b, actuated=False))
        # Outward order: a body after its parent, so that one pass places all of them.
        ordered: list[str] = []
        placed = {GROUND}
        while len(ordered) < len(names):
            ready = [b for b in names if b not in placed and above[b].parent in placed]
            if not ready:
                left = [b for b in names if b not in placed]
                raise ModelError(f"joints form a loop through {', '.join(left)}", culprit=left[0])
            ordered += ready
            placed.update(ready)
        by_name = {b.name: b for b in given}
        self.bodies: tuple[RigidBody, ...] = tuple(by_name[b] for b in ordered)
        self.joints: tuple[Joint, ...] = tuple(above[b] for b in ordered)
        self.body_index: dict[str, int] = {b: i for i, b in enumerate(ordered)}
        self.parents: tuple[int, ...] = tuple(self.body_index.get(j.parent, -1) for j in self.joints)
        flat = [c for j in self.joints for c in j.coordinates]
        for c in flat:
            if flat.count(c) > 1:
                raise ModelError(f"two coordinates are called '{c}'", culprit=c)
        self.coordinates: tuple[str, ...] = tuple(flat)
        pairs = [
            (c, a)
            for j in self.joints
            for c, a in zip(j.coordinates, j.actuated, strict=True)  # type: ignore[arg-type]
        ]
        self.inputs: tuple[str, ...] = tuple(c for c, a in pairs if a)

    @property
    def n(self) -> int:
        """Number of redundant coordinates, 12 per body."""
        return 12 * len(self.bodies)

    @property
    def nd(self) -> int:
        """Number of degrees of freedom n - m."""
        return len(self.coordinates)

    @property
    def m(self) -> int:
        """Number of constraints: six per body and those of the joints."""
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

    def joint_slices(self) -> list[slice]:
        """Where every joint's coordinates stand in u."""
        ends = np.cumsum([0] + [j.dof for j in self.joints])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def vector(self, value: object, *, names: Sequence[str] | None = None, default: float = 0.0) -> np.ndarray:
        """An array by position, or by name from a dict (others `default`); coordinates unless `names` is given."""
        known = tuple(self.coordinates if names is None else names)
        if value is None:
            return np.full(len(known), default)
        if isinstance(value, Mapping):
            out = np.full(len(known), default)
            for key, x in value.items():
                if key not in known:
                    raise ValueError(f"unknown name {key!r}; known are {', '.join(known)}")
                out[known.index(key)] = x
        else:
            out = np.array(value, dtype=float)
        if out.shape != (len(known),):
            raise ValueError(f"expected {len(known)} numbers ({', '.join(known)}), got shape {out.shape}")
        if np.isnan(out).any():
            raise ValueError("NaN in the given values")
        return out

    def _key(self) -> Any:
        return (self.bodies, self.joints, self.gravity, self.potential)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultibodySystem) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return (_rebuild, (self.bodies, self.joints, self.gravity, self.potential, self.name))

    def __repr__(self) -> str:
        lines = [
            f"MultibodySystem {self.name!r}: {len(self.bodies)} bodies, {self.n} coordinates, {self.m} constraints, "
            f"{self.nd} degrees of freedom, {self.nu} inputs"
        ]
        for b, j in zip(self.bodies, self.joints, strict=True):
            lines.append(f"  {j.parent} --{j.kind}--> {b.name}  mass {b.mass:g}  ({', '.join(j.coordinates)})")
        return "\n".join(lines)


def _rebuild(bodies: Any, joints: Any, gravity: Any, potential: Any, name: str) -> MultibodySystem:
    return MultibodySystem(bodies, joints, gravity=gravity, potential=potential, name=name)
