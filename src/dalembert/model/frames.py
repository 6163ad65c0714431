"""Frames: the tree of coordinate transforms that carries masses (Scalable variational integrators, section III-A).

A frame is reached from its parent by one elementary motion: a translation along or a rotation about a parent axis
(`tx ty tz rx ry rz`), or a fixed 4x4 transform (`se3`). The amount is a number (constant), a string (the name of a
dynamic variable) or `Kinematic(name)` (a prescribed variable). Frames are plain immutable values; children nest as
positional arguments::

    tx("x", rz("theta", ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import number
from ..errors import ModelError
from . import rotation
from .parameter import Quantity, array, parameters_in, present

AXES = ("tx", "ty", "tz", "rx", "ry", "rz")
TURN = "ball"  # the one motion with several coordinates
MOTIONS = (*AXES, TURN)
Matrix4 = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Kinematic:
    """A prescribed variable called `name`: its next value is an input of the step (Embedded control synthesis, section II).

    >>> Kinematic("winch")
    Kinematic('winch')
    """

    name: str

    def __repr__(self) -> str:
        return f"Kinematic({self.name!r})"


@dataclass(frozen=True)
class Visual:
    """A shape drawn with a frame; never seen by the dynamics.

    `kind` is one of "sphere" (size = (radius,)), "box" (full side lengths), "ellipsoid" (half axes), "cylinder" and
    "capsule" (radius, length along z; a capsule's caps come on top), "mesh" (size = scale factors, default 1; `mesh` =
    file path). `pose` is a 4x4 transform from the frame. `color` is (r, g, b) or (r, g, b, a), each from 0 to 1.

    >>> Visual("box", (1, 2, 3)).size
    (1.0, 2.0, 3.0)
    """

    kind: str
    size: tuple[float, ...] = ()
    pose: Matrix4 | None = None
    color: tuple[float, ...] | None = None
    mesh: str | None = None

    def __post_init__(self) -> None:
        label = f"visual {self.kind!r}"
        if not isinstance(self.kind, str) or self.kind not in _SIZES:
            raise ModelError(f"{label}: kind must be one of {', '.join(_SIZES)}", culprit=label)
        size = _numbers(self.size, "size", label)
        if len(size) not in _SIZES[self.kind]:
            wanted = " or ".join(map(str, _SIZES[self.kind]))
            raise ModelError(f"{label}: size needs {wanted} numbers, got {len(size)}", culprit=label)
        if self.kind != "mesh" and min(size) < 0:
            raise ModelError(f"{label}: a size is negative", culprit=label)
        if (self.kind == "mesh") != (isinstance(self.mesh, str) and self.mesh != ""):
            raise ModelError(f"{label}: the path `mesh` belongs to kind 'mesh' and only there", culprit=label)
        object.__setattr__(self, "size", size)
        if self.pose is not None:
            object.__setattr__(self, "pose", _matrix4(self.pose, label))
        if self.color is not None:
            color = _numbers(self.color, "color", label)
            if len(color) not in (3, 4):
                raise ModelError(f"{label}: color needs 3 or 4 numbers, got {len(color)}", culprit=label)
            object.__setattr__(self, "color", color)


_SIZES = {"sphere": (1,), "box": (3,), "ellipsoid": (3,), "cylinder": (2,), "capsule": (2,), "mesh": (0, 3)}


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """One frame of the tree; build it with `tx` ... `rz`, `se3` or a joint helper, not by hand.

    `transform` ("tx" ... "rz", ...) by `value`: a number, or the variable that moves it; `name` for points of it, `visuals` for pictures.
    `mass` sits at `com` (frame axes); `inertia` is (Ixx, Iyy, Izz, Ixy, Ixz, Iyz) about that point, in frame axes.
    `pitch` (length per radian) turns a rotation into a screw motion along the same axis. Frames compare, hash and
    pickle by value, with all frames below them, however deep the chain.
    """

    transform: str
    value: float | str | Kinematic | Matrix4
    children: tuple[Frame, ...] = ()
    name: str | None = None
    mass: float = 0.0
    inertia: tuple[float, ...] = (0.0,) * 6
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pitch: float = 0.0
    visuals: tuple[Visual, ...] = ()

    @property
    def variable(self) -> str | None:
        """Name of the variable that drives this frame, or None for a constant frame."""
        if isinstance(self.value, Kinematic):
            return self.value.name
        return self.value if isinstance(self.value, str) else None

    @property
    def label(self) -> str:
        """How messages call this frame: its name, or its transform and value."""
        if self.name is not None:
            return f"frame '{self.name}'"
        shown = "..." if self.transform == "se3" else repr(self.value)
        return f"frame {self.transform}({shown})"

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of its coordinates in q: none, one, or the four of a ball's quaternion.

        >>> ball("b").coordinates, tx(1.0).coordinates
        (('b.qw', 'b.qx', 'b.qy', 'b.qz'), ())
        """
        name = self.variable
        if name is None:
            return ()
        return tuple(f"{name}.q{end}" for end in "wxyz") if self.transform == TURN else (name,)

    def local_pose(self, amount: ArrayLike | None = None) -> NDArray[np.float64]:
        """4x4 transform from the parent; `amount` (m, rad, or a unit quaternion (4,) of a ball) is the value of its variable, if one
        drives it.

        >>> tx(2.0).local_pose()[:3, 3].tolist(), rz("a").local_pose(0.0)[0, 0]
        ([2.0, 0.0, 0.0], np.float64(1.0))
        """
        if self.transform == "se3":
            return np.array(self.value, dtype=float)
        if amount is None:
            amount = self._constant()
        if self.transform == TURN:
            g = np.eye(4)
            g[:3, :3] = rotation.matrix(np.asarray(amount, dtype=float))
            return g
        return elementary(self.transform, float(amount), self.pitch)  # type: ignore[arg-type]

    def _constant(self) -> float:
        if self.variable is not None:
            raise ValueError(f"{self.label}: needs the value of '{self.variable}'")
        return float(self.value)  # type: ignore[arg-type]

    def constant_pose(self) -> NDArray[Any]:
        """4x4 transform from the parent of a constant frame; entries that depend on parameters say so (`Quantity`).

        >>> from dalembert import Parameter
        >>> tx(Parameter("l", 2.0)).constant_pose()[0, 3].by
        {'l': 1.0}
        """
        if self.transform == "se3":
            return array(self.value)
        self._constant()
        return elementary(self.transform, self.value) if isinstance(self.value, Quantity) else self.local_pose()

    @property
    def heavy(self) -> bool:
        """Has it a mass or an inertia of its own, or parameters in their place?"""
        return present(self.mass) or any(map(present, self.inertia))

    def add(self, *children: Frame) -> Frame:
        """A copy with more children.

        >>> len(tx("x").add(rz("a"), rz("b")).children)
        2
        """
        return replace(self, children=self.children + tuple(children))

    # the generated methods of a dataclass recurse into children and overflow the stack on long chains

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Frame) and flatten((self,)) == flatten((other,)))

    def __hash__(self) -> int:
        return hash(flatten((self,)))

    def __reduce__(self) -> Any:
        return (_only_root, (flatten((self,)),))

    def __repr__(self) -> str:
        parts: list[str] = []
        stack: list[Frame | str] = [self]
        while stack:
            top = stack.pop()
            if isinstance(top, str):
                parts.append(top)
                continue
            parts.append(f"{top.transform}({top.value!r}")
            stack.append("".join(f", {k}={v!r}" for k, v in top._options()) + ")")
            for child in reversed(top.children):
                stack += [child, ", "]
        return "".join(parts)

    def _options(self) -> list[tuple[str, Any]]:
        """Fields besides transform, value and children that differ from their defaults."""
        return [(f.name, getattr(self, f.name)) for f in fields(self)[3:] if getattr(self, f.name) != f.default]


def elementary(transform: str, amount: float, pitch: float = 0.0) -> NDArray[np.float64]:
    """4x4 transform of one elementary motion, "tx" ... "rz", by `amount` (m or rad); `pitch` (m/rad) makes a rotation a screw.

    >>> elementary("ty", 2.0)[:3, 3].tolist()
    [0.0, 2.0, 0.0]
    """
    g: NDArray[Any] = np.eye(4)
    k = "xyz".index(transform[1])
    if isinstance(amount, Quantity):
        g = g.astype(object)
    if transform[0] == "t":
        g[k, 3] = amount
        return g
    i, j = (k + 1) % 3, (k + 2) % 3
    cosine, sine = (
        (amount.cos(), amount.sin()) if isinstance(amount, Quantity) else (math.cos(amount), math.sin(amount))
    )
    g[i, i] = g[j, j] = cosine
    g[j, i], g[i, j] = sine, -sine
    if pitch:
        g[k, 3] = pitch * amount
    return g


Row = tuple[Any, ...]


def flatten(roots: Sequence[Frame]) -> tuple[Row, ...]:
    """The forest as rows (index of the parent row or -1, then the fields of the frame without children), preorder.

    >>> [row[:3] for row in flatten([tx("x", rz("a"))])]
    [(-1, 'tx', 'x'), (0, 'rz', 'a')]
    """
    rows: list[Row] = []
    stack = [(root, -1) for root in reversed(roots)]
    while stack:
        f, parent = stack.pop()
        stack.extend((child, len(rows)) for child in reversed(f.children))
        rows.append((parent, f.transform, f.value, f.name, f.mass, f.inertia, f.com, f.pitch, f.visuals))
    return tuple(rows)


def unflatten(rows: Sequence[Row]) -> tuple[Frame, ...]:
    """The inverse of `flatten`.

    >>> unflatten(flatten([tx("x", rz("a"))]))[0].children[0].variable
    'a'
    """
    below: list[list[Frame]] = [[] for _ in range(len(rows) + 1)]  # children of row i; the last entry takes the roots
    for i in range(len(rows) - 1, -1, -1):  # parents come before children, so the reverse order builds bottom up
        parent, transform, value, *rest = rows[i]
        below[parent].append(Frame(transform, value, tuple(reversed(below[i])), *rest))
    return tuple(reversed(below[-1]))


def _only_root(rows: Sequence[Row]) -> Frame:
    return unflatten(rows)[0]


def _numbers(values: Any, what: str, label: str) -> tuple[float, ...]:
    rows = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(rows, (list, tuple)):
        raise ModelError(f"{label}: {what} must be a sequence of numbers, not {values!r}", culprit=label)
    return tuple(_finite(x, what, label) for x in rows)


def _finite(value: object, what: str, label: str) -> float:
    try:
        return number(value, f"{label}: {what}")
    except ValueError as error:
        raise ModelError(str(error), culprit=label) from None


def _inertia(value: Any, label: str) -> tuple[float, ...]:
    """(Ixx, Iyy, Izz), six numbers or a symmetric 3x3 -> (Ixx, Iyy, Izz, Ixy, Ixz, Iyz)."""
    if value is None:
        return (0.0,) * 6
    rows = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(rows, (list, tuple)):
        raise ModelError(f"{label}: inertia must be (Ixx, Iyy, Izz) or a symmetric 3x3 matrix", culprit=label)
    if len(rows) == 3 and all(isinstance(r, (list, tuple)) and len(r) == 3 for r in rows):
        m = [[_finite(x, "inertia", label) for x in r] for r in rows]
        scale = max(abs(x) for r in m for x in r) or 1.0
        if any(abs(m[i][j] - m[j][i]) > 1e-9 * scale for i in range(3) for j in range(i)):
            raise ModelError(f"{label}: inertia matrix is not symmetric", culprit=label)
        return (m[0][0], m[1][1], m[2][2], m[0][1], m[0][2], m[1][2])
    if len(rows) not in (3, 6):
        raise ModelError(f"{label}: inertia must have 3 or 6 numbers or be 3x3, got {len(rows)} entries", culprit=label)
    numbers = tuple(_finite(x, "inertia", label) for x in rows)
    return numbers if len(numbers) == 6 else (*numbers, 0.0, 0.0, 0.0)


def make_frame(
    transform: str,
    value: Any,
    children: Sequence[Frame],
    *,
    name: str | None = None,
    mass: Any = 0.0,
    inertia: Any = None,
    com: Any = (0.0, 0.0, 0.0),
    pitch: float = 0.0,
    visuals: Sequence[Visual] = (),
) -> Frame:
    """A checked frame: `transform` by name, its amount or matrix, children and options as for `tx`."""
    label = f"frame '{name}'" if name is not None else f"frame {transform}({value!r})"
    if name is not None and (not isinstance(name, str) or not name):
        raise ModelError(f"frame name must be a non-empty string, not {name!r}", culprit=f"frame {transform}")
    if transform == "se3":
        value = _matrix4(value, label)
    elif isinstance(value, Kinematic):
        if not isinstance(value.name, str) or not value.name:
            raise ModelError(f"{label}: the name of a Kinematic must be a non-empty string", culprit=label)
    elif isinstance(value, str):
        if not value:
            raise ModelError(f"{label}: a variable needs a non-empty name", culprit=label)
    elif transform == TURN:
        raise ModelError(f"{label}: a ball needs a name or Kinematic(name); a constant turn is se3", culprit=label)
    else:
        value = _finite(value, "value", label)
    for child in children:
        if not isinstance(child, Frame):
            raise ModelError(f"{label}: children must be frames, not {type(child).__name__}", culprit=label)
    if isinstance(mass, (tuple, list)):  # (m, Ixx, Iyy, Izz) as in s-expressions
        if len(mass) != 4 or inertia is not None:
            raise ModelError(f"{label}: mass must be a number or (m, Ixx, Iyy, Izz)", culprit=label)
        mass, inertia = mass[0], mass[1:]
    centre = _numbers(com, "centre of mass", label)
    if len(centre) != 3:
        raise ModelError(f"{label}: centre of mass needs three coordinates", culprit=label)
    pitch = _finite(pitch, "pitch", label)
    if present(pitch) and not transform.startswith("r"):
        raise ModelError(f"{label}: only a rotation can have a pitch", culprit=label)
    for visual in visuals:
        if not isinstance(visual, Visual):
            raise ModelError(f"{label}: visuals must be Visual values, not {type(visual).__name__}", culprit=label)
    return Frame(
        transform,
        value,
        tuple(children),
        name,
        _finite(mass, "mass", label),
        _inertia(inertia, label),
        centre,  # type: ignore[arg-type]
        pitch,
        tuple(visuals),
    )


def _matrix4(value: Any, label: str) -> Matrix4:
    rows = value.tolist() if hasattr(value, "tolist") else value
    good = isinstance(rows, (list, tuple)) and len(rows) in (3, 4)
    if not good or any(not isinstance(r, (list, tuple)) or len(r) != 4 for r in rows):
        raise ModelError(f"{label}: a fixed transform is a 4x4 (or 3x4) matrix", culprit=label)
    m = [[_finite(x, "transform entry", label) for x in r] for r in rows]
    for p in parameters_in([r[:3] for r in m]):
        raise ModelError(
            f"{label}: parameter '{p.name}' in the rotation of a transform would not leave it one; use rx, ry, rz",
            culprit=p.name,
        )
    if len(m) == 4 and m[3] != [0.0, 0.0, 0.0, 1.0]:
        raise ModelError(f"{label}: last row of a transform must be 0 0 0 1", culprit=label)
    (xx, xy, xz, _), (yx, yy, yz, _), (zx, zy, zz, _) = m[:3]
    lengths = (xx * xx + yx * yx + zx * zx, xy * xy + yy * yy + zy * zy, xz * xz + yz * yz + zz * zz)
    products = (xx * xy + yx * yy + zx * zy, xx * xz + yx * yz + zx * zz, xy * xz + yy * yz + zy * zz)
    if max(abs(x - 1) for x in lengths) > 1e-6 or max(map(abs, products)) > 1e-6:
        raise ModelError(f"{label}: the rotation part of a transform is not orthonormal", culprit=label)
    det = xx * (yy * zz - yz * zy) - xy * (yx * zz - yz * zx) + xz * (yx * zy - yy * zx)
    if det < 0:
        raise ModelError(f"{label}: the rotation part of a transform is a reflection", culprit=label)
    return (*(tuple(row) for row in m[:3]), (0.0, 0.0, 0.0, 1.0))


def _elementary(transform: str, text: str) -> Any:
    def make(value: float | str | Kinematic, *children: Frame, **options: Any) -> Frame:
        return make_frame(transform, value, children, **options)

    make.__name__ = make.__qualname__ = transform
    make.__doc__ = f"""{text}

    `value` is a number (constant), a name (dynamic variable) or `Kinematic(name)`; children follow.
    Options: `name`, `mass` (kg), `inertia` ((Ixx, Iyy, Izz) or symmetric 3x3, kg m^2, about `com`), `com` (3, m),
    `visuals`{", `pitch` (m/rad: a screw motion)" if transform[0] == "r" else ""}.

    >>> {transform}("q", name="link", mass=1.0).variable
    'q'
    """
    return make


tx = _elementary("tx", "Translation along the parent's x axis (m).")
ty = _elementary("ty", "Translation along the parent's y axis (m).")
tz = _elementary("tz", "Translation along the parent's z axis (m).")
rx = _elementary("rx", "Rotation about the parent's x axis (rad).")
ry = _elementary("ry", "Rotation about the parent's y axis (rad).")
rz = _elementary("rz", "Rotation about the parent's z axis (rad).")


def ball(variable: str | Kinematic, *children: Frame, **options: Any) -> Frame:
    """Ball joint: any rotation about one point, without a singular configuration.

    Four coordinates in q, a unit quaternion variable.qw, .qx, .qy, .qz, and three velocities and momenta along body axes, variable.wx, .wy, .wz
    (rad/s). `Kinematic(name)` prescribes it. Options as for `tx`.

    >>> ball("hip").coordinates
    ('hip.qw', 'hip.qx', 'hip.qy', 'hip.qz')
    """
    return make_frame(TURN, variable, children, **options)


def se3(matrix: object, *children: Frame, **options: Any) -> Frame:
    """A fixed transform by a 4x4 (or 3x4) matrix; options as for `tx`.

    >>> se3([[1, 0, 0, 2], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], name="shifted").name
    'shifted'
    """
    return make_frame("se3", matrix, children, **options)
