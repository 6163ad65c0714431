"""Frame: a coordinate frame of a trep system, its pose and body velocity with all derivatives.

Poses and unit twists come from the compiled core. With twists S_i (world axes, about the world origin) of the variables
on the path to a frame, the pose obeys dg/dq_i = hat(S_i) g, and mixed derivatives are products of hats in the order of
the path; the columns g^-1 hat(S_i) g of the body velocity turn with the variables below them, by commutators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model import elementary
from .component import Component, number
from .config import Config

if TYPE_CHECKING:
    from .system import System

Array = NDArray[np.float64]

WORLD, TX, TY, TZ, RX, RY, RZ, CONST_SE3 = "WORLD", "TX", "TY", "TZ", "RX", "RY", "RZ", "CONST_SE3"
TRANSFORMS = (TX, TY, TZ, RX, RY, RZ, CONST_SE3)


def _se3(value: Any, label: str) -> Array:
    """A checked 4x4 transform, from a matrix or from its columns."""
    from ..errors import ModelError
    from ..model import se3

    parts = [np.asarray(x, dtype=float) for x in value]
    if [x.shape for x in parts] == [(3,)] * 4:  # the columns Rx, Ry, Rz, p
        value = np.vstack([np.column_stack(parts), [0, 0, 0, 1]])
    rows = np.asarray(value, dtype=float)
    if rows.shape not in ((4, 4), (3, 4)):
        raise ModelError(f"{label}: a fixed transform is a 4x4 matrix, not of shape {rows.shape}", culprit=label)
    return np.array(se3(rows).value)


def _mass(mass: Any) -> tuple[float, float, float, float]:
    if np.ndim(mass) == 0:
        return number(mass, "mass"), 0.0, 0.0, 0.0
    if len(mass) != 4:
        raise ValueError(f"mass must be a number or (m, Ixx, Iyy, Izz), not {mass!r}")
    m, xx, yy, zz = (number(x, "mass") for x in mass)
    return m, xx, yy, zz


class Frame(Component):
    """A frame reached from its parent by one transform: TX ... RZ by a number or a variable's name, or CONST_SE3.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> arm = trep.Frame(system.world_frame, trep.RX, "theta")
    >>> bob = trep.Frame(arm, trep.TZ, -1, name="bob", mass=4)
    >>> system.q = 0.5
    >>> bob.p().round(6)
    array([ 0.      ,  0.479426, -0.877583,  1.      ])
    """

    def __init__(
        self,
        parent: Frame,
        transform: str,
        param: object,
        name: str | None = None,
        kinematic: bool = False,
        mass: object = 0.0,
    ) -> None:
        if not isinstance(parent, Frame):
            raise TypeError(f"the parent of a frame must be a Frame, not {type(parent).__name__}")
        if transform not in TRANSFORMS:
            raise ValueError(f"transform must be one of {', '.join(TRANSFORMS)}, not {transform!r}")
        # everything is checked before anything is added, so that nothing half-built stays
        properties = _mass(mass)
        label = f"frame {name!r}" if name is not None else f"frame {transform}({param!r})"
        value: Any = None
        if transform == CONST_SE3:
            if isinstance(param, str):
                raise TypeError(f"{label}: CONST_SE3 takes a 4x4 matrix, not a variable")
            value = _se3(param, label)
        elif not isinstance(param, (str, Config)):
            value = number(param, f"{label}: the transform's value")
        super().__init__(parent.system, name)
        config = param if isinstance(param, Config) else None
        if config is not None and (config.system is not parent.system or config.frame is not None):
            raise ValueError(f"{label}: variable {config.name!r} already drives another frame or system")
        if isinstance(param, str):
            config = Config(parent.system, param, kinematic)
        self._attach(parent, transform, value, config, properties)

    def _attach(self, parent: Frame | None, transform: str, value: Any, config: Config | None, mass: Any) -> None:
        self._parent = parent
        self._children: list[Frame] = []
        self._type = transform
        self._value = value
        self._config = config
        self._inertia: list[float] = list(mass)
        if config is not None:
            config._frame = self
        if parent is not None:
            parent._children.append(self)
            self._system._changed()

    @classmethod
    def _world(cls, system: System) -> Frame:
        world = cls.__new__(cls)
        Component.__init__(world, system, "World")
        world._attach(None, WORLD, None, None, (0.0, 0.0, 0.0, 0.0))
        return world

    # ---- the tree

    @property
    def parent(self) -> Frame | None:
        """The parent frame; None for the world."""
        return self._parent

    @property
    def children(self) -> tuple[Frame, ...]:
        """The frames right below."""
        return tuple(self._children)

    @property
    def config(self) -> Config | None:
        """The variable of the transform, or None if it is fixed."""
        return self._config

    def flatten_tree(self) -> list[Frame]:
        """This frame and all below it, parents first."""
        found: list[Frame] = []
        stack = [self]
        while stack:  # a loop: long chains must not overflow the stack
            frame = stack.pop()
            found.append(frame)
            stack.extend(reversed(frame._children))
        return found

    def uses_config(self, q: object) -> bool:
        """Does this frame move with a variable?"""
        config = self._system.get_config(q)
        frame: Frame | None = self
        while frame is not None:
            if frame._config is config:
                return True
            frame = frame._parent
        return False

    def import_frames(self, children: Sequence[Any]) -> None:
        """Add frames from a list of definitions; a list after a definition holds that frame's children.

        >>> import dalembert.trep as trep
        >>> system = trep.System()
        >>> system.world_frame.import_frames([trep.rx("theta"), [trep.tz(-1, mass=4)]])
        >>> [f.transform_type for f in system.frames]
        ['WORLD', 'RX', 'TZ']
        """
        with self._system._all_or_nothing():
            self._import(children)

    def _import(self, children: Any) -> None:
        end = object()
        stack: list[list[Any]] = [[self, iter(children), None]]  # parent, its definitions, the child made last
        while stack:
            parent, rows, last = stack[-1]
            row = next(rows, end)
            if row is end:
                stack.pop()
            elif isinstance(row, FrameDef):
                stack[-1][2] = row._build(parent)
            elif not isinstance(row, (list, tuple)):
                raise TypeError(f"frame definitions come from tx ... rz, const_se3 or lists of them, not {row!r}")
            elif last is None:
                raise ValueError("a list of frames must follow the definition of their parent")
            else:
                stack.append([last, iter(row), None])

    def export_frames(self, tabs: int = 0, tab_size: int = 4) -> str:
        """Python source that defines this frame and all below it, for `import_frames`."""
        pad = " " * (tabs * tab_size)
        kind = self._type.lower()
        if self._type == WORLD:
            raise ValueError("the world frame needs no definition: use System.export_frames()")
        if self._config is not None:
            value = repr(self._config.name)
        else:
            value = repr(self._value.tolist()) if self._type == CONST_SE3 else repr(self._value)
        text = f"{pad}{kind}({value}"
        if self._config is not None and self._config.kinematic:
            text += ", kinematic=True"
        if self.name is not None:
            text += f", name={self.name!r}"
        if any(self._inertia):
            mass = repr(tuple(self._inertia)) if any(self._inertia[1:]) else repr(self._inertia[0])
            text += f", mass={mass}"
        text += ")"
        if self._children:
            below = ",\n".join(c.export_frames(tabs + 1, tab_size) for c in self._children)
            text += f", [\n{below}]"
        return text

    def tree_view(self, indent: int = 0) -> str:
        """The tree below as text, one frame per line."""
        lines = []
        depth = {id(self): 0}
        for frame in self.flatten_tree():
            if frame is not self:
                depth[id(frame)] = depth[id(frame._parent)] + 1
            lines.append(" " * (indent + 3 * depth[id(frame)]) + repr(frame))
        return "\n".join(lines)

    def __repr__(self) -> str:
        if self._type == WORLD:
            return f"<Frame '{self.name}'>"
        if self._config is not None:
            return f"<Frame '{self.name}' {self._type}({self._config.name})>"
        value = "..." if self._type == CONST_SE3 else self._value
        return f"<Frame '{self.name}' {self._type}({value}) {self._inertia[0]:f}>"

    # ---- the transform

    @property
    def transform_type(self) -> str:
        """One of TX ... RZ, CONST_SE3, WORLD."""
        return self._type

    @property
    def transform_value(self) -> Any:
        """The fixed parameter, or the current value of the variable."""
        return self._value if self._config is None else self._config.q

    @transform_value.setter
    def transform_value(self, value: Any) -> None:
        if self._config is not None:
            self._config.q = value
            return
        if self._type == WORLD:
            raise AttributeError("the world frame cannot move")
        self._value = _se3(value, repr(self)) if self._type == CONST_SE3 else number(value, "the transform's value")
        self._system._changed()

    def set_SE3(
        self, Rx: ArrayLike = (1, 0, 0), Ry: ArrayLike = (0, 1, 0), Rz: ArrayLike = (0, 0, 1), p: ArrayLike = (0, 0, 0)
    ) -> None:
        """Set the transform of a CONST_SE3 frame by its columns."""
        if self._type != CONST_SE3:
            raise ValueError("only a CONST_SE3 frame has a transform to set")
        g = np.eye(4)
        for i, column in enumerate((Rx, Ry, Rz, p)):
            g[:3, i] = column
        self.transform_value = g

    # ---- mass

    def set_mass(self, mass: float, Ixx: float = 0.0, Iyy: float = 0.0, Izz: float = 0.0) -> None:
        """Mass at the origin and moments of inertia about the axes."""
        if self._type == WORLD:
            raise AttributeError("the world frame has no mass")
        self._inertia = list(_mass((mass, Ixx, Iyy, Izz)))
        self._system._changed()

    def _moment(self, i: int, value: Any) -> None:
        properties = list(self._inertia)
        properties[i] = value
        self.set_mass(*properties)

    @property
    def mass(self) -> float:
        """Mass at the frame's origin."""
        return self._inertia[0]

    @mass.setter
    def mass(self, value: float) -> None:
        self._moment(0, value)

    @property
    def Ixx(self) -> float:
        """Moment of inertia about x."""
        return self._inertia[1]

    @Ixx.setter
    def Ixx(self, value: float) -> None:
        self._moment(1, value)

    @property
    def Iyy(self) -> float:
        """Moment of inertia about y."""
        return self._inertia[2]

    @Iyy.setter
    def Iyy(self, value: float) -> None:
        self._moment(2, value)

    @property
    def Izz(self) -> float:
        """Moment of inertia about z."""
        return self._inertia[3]

    @Izz.setter
    def Izz(self, value: float) -> None:
        self._moment(3, value)

    # ---- the local transform

    def twist_hat(self) -> Array:
        """Unit twist of the transform as a 4x4 matrix; zero for a fixed one."""
        out = np.zeros((4, 4))
        if self._config is None:
            return out
        axis = "XYZ".index(self._type[1])
        if self._type[0] == "T":
            out[axis, 3] = 1.0
        else:
            j, k = (axis + 1) % 3, (axis + 2) % 3
            out[k, j], out[j, k] = 1.0, -1.0
        return out

    def lg(self) -> Array:
        """Transform from the parent, 4x4."""
        if self._type == WORLD:
            return np.eye(4)
        if self._type == CONST_SE3:
            return np.array(self._value)
        return elementary(self._type.lower(), float(self.transform_value))

    def lg_inv(self) -> Array:
        """Inverse of `lg`."""
        return inverse_pose(self.lg())

    def _local(self, order: int) -> Array:
        return np.linalg.matrix_power(self.twist_hat(), order) @ self.lg()

    def _local_inverse(self, order: int) -> Array:
        return np.linalg.matrix_power(-self.twist_hat(), order) @ self.lg_inv()

    def lg_dq(self) -> Array:
        """First derivative of `lg` by the frame's variable."""
        return self._local(1)

    def lg_dqdq(self) -> Array:
        """Second derivative of `lg`."""
        return self._local(2)

    def lg_dqdqdq(self) -> Array:
        """Third derivative of `lg`."""
        return self._local(3)

    def lg_dqdqdqdq(self) -> Array:
        """Fourth derivative of `lg`."""
        return self._local(4)

    def lg_inv_dq(self) -> Array:
        """First derivative of `lg_inv`."""
        return self._local_inverse(1)

    def lg_inv_dqdq(self) -> Array:
        """Second derivative of `lg_inv`."""
        return self._local_inverse(2)

    def lg_inv_dqdqdq(self) -> Array:
        """Third derivative of `lg_inv`."""
        return self._local_inverse(3)

    def lg_inv_dqdqdqdq(self) -> Array:
        """Fourth derivative of `lg_inv`."""
        return self._local_inverse(4)

    # ---- pose

    def _sorted(self, variables: tuple[Any, ...]) -> list[Array] | None:
        """Hats of the twists of these variables in the order of the path; None if one does not move this frame."""
        kin = self._system._kinematics()
        places = []
        path = kin.path(self)
        for q in variables:
            i = self._system._config_index(q)
            if i not in path:
                return None
            places.append((path[i], i))
        return [kin.hat(i) for _, i in sorted(places)]

    def _pose(self, *variables: Any) -> Array:
        hats = self._sorted(variables)
        if hats is None:
            return np.zeros((4, 4))
        g = self._system._kinematics().pose(self)
        for hat in reversed(hats):
            g = hat @ g
        return g

    def _pose_inverse(self, *variables: Any) -> Array:
        hats = self._sorted(variables)
        if hats is None:
            return np.zeros((4, 4))
        g = self._system._kinematics().inverse(self)
        for hat in reversed(hats):
            g = -g @ hat
        return g

    def g(self) -> Array:
        """Pose in the world, 4x4."""
        return self._system._kinematics().pose(self).copy()

    def g_dq(self, q1: object) -> Array:
        """Derivative of the pose."""
        return self._pose(q1)

    def g_dqdq(self, q1: object, q2: object) -> Array:
        """Second derivative of the pose."""
        return self._pose(q1, q2)

    def g_dqdqdq(self, q1: object, q2: object, q3: object) -> Array:
        """Third derivative of the pose."""
        return self._pose(q1, q2, q3)

    def g_dqdqdqdq(self, q1: object, q2: object, q3: object, q4: object) -> Array:
        """Fourth derivative of the pose."""
        return self._pose(q1, q2, q3, q4)

    def g_inv(self) -> Array:
        """Inverse of the pose."""
        return self._system._kinematics().inverse(self).copy()

    def g_inv_dq(self, q1: object) -> Array:
        """Derivative of the inverse of the pose."""
        return self._pose_inverse(q1)

    def g_inv_dqdq(self, q1: object, q2: object) -> Array:
        """Second derivative of the inverse of the pose."""
        return self._pose_inverse(q1, q2)

    def p(self) -> Array:
        """Origin in the world, (x, y, z, 1)."""
        return self.g()[:, 3].copy()

    def p_dq(self, q1: object) -> Array:
        """Derivative of the origin, (4,)."""
        return self._pose(q1)[:, 3]

    def p_dqdq(self, q1: object, q2: object) -> Array:
        """Second derivative of the origin."""
        return self._pose(q1, q2)[:, 3]

    def p_dqdqdq(self, q1: object, q2: object, q3: object) -> Array:
        """Third derivative of the origin."""
        return self._pose(q1, q2, q3)[:, 3]

    def p_dqdqdqdq(self, q1: object, q2: object, q3: object, q4: object) -> Array:
        """Fourth derivative of the origin."""
        return self._pose(q1, q2, q3, q4)[:, 3]

    # ---- body velocity

    def _column(self, q1: Any, *variables: Any) -> Array:
        """Derivative by `variables` of g^-1 hat(S_1) g: nested commutators with the columns below, deepest last."""
        kin = self._system._kinematics()
        path = kin.path(self)
        first = self._system._config_index(q1)
        rest = [self._system._config_index(q) for q in variables]
        if first not in path or any(i not in path or path[i] <= path[first] for i in rest):
            return np.zeros((4, 4))
        g = kin.pose(self)
        inverse = inverse_pose(g)
        column = inverse @ kin.hat(first) @ g
        for i in sorted(rest, key=lambda j: path[j]):
            other = inverse @ kin.hat(i) @ g
            column = column @ other - other @ column
        return column

    def _velocity(self, *variables: Any) -> Array:
        total = np.zeros((4, 4))
        for i in self._system._kinematics().path(self):
            rate = float(self._system._dq[i])
            if rate:
                total += rate * self._column(i, *variables)
        return total

    def vb(self) -> Array:
        """Body velocity g^-1 dg/dt, 4x4."""
        return self._velocity()

    def vb_ddq(self, dq1: object) -> Array:
        """Derivative of the body velocity by a velocity."""
        return self._column(dq1)

    def vb_dq(self, q1: object) -> Array:
        """Derivative of the body velocity by a variable."""
        return self._velocity(q1)

    def vb_dqdq(self, q1: object, q2: object) -> Array:
        """Second derivative of the body velocity by variables."""
        return self._velocity(q1, q2)

    def vb_dqdqdq(self, q1: object, q2: object, q3: object) -> Array:
        """Third derivative of the body velocity by variables."""
        return self._velocity(q1, q2, q3)

    def vb_ddqdq(self, dq1: object, q2: object) -> Array:
        """Mixed derivative of the body velocity."""
        return self._column(dq1, q2)

    def vb_ddqdqdq(self, dq1: object, q2: object, q3: object) -> Array:
        """Mixed derivative of the body velocity."""
        return self._column(dq1, q2, q3)

    def vb_ddqdqdqdq(self, dq1: object, q2: object, q3: object, q4: object) -> Array:
        """Mixed derivative of the body velocity."""
        return self._column(dq1, q2, q3, q4)


def inverse_pose(g: Array) -> Array:
    """Inverse of a 4x4 pose."""
    out = np.eye(4)
    out[:3, :3] = g[:3, :3].T
    out[:3, 3] = -g[:3, :3].T @ g[:3, 3]
    return out


# ---- definitions for import_frames


@dataclass(frozen=True)
class FrameDef:
    """A frame to be made by `import_frames`."""

    transform: str
    param: Any
    name: str | None = None
    kinematic: bool = False
    mass: Any = 0.0

    def _build(self, parent: Frame) -> Frame:
        return Frame(parent, self.transform, self.param, self.name, self.kinematic, self.mass)


def tx(param: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a translation along x, for `import_frames`."""
    return FrameDef(TX, param, name, kinematic, mass)


def ty(param: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a translation along y, for `import_frames`."""
    return FrameDef(TY, param, name, kinematic, mass)


def tz(param: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a translation along z, for `import_frames`."""
    return FrameDef(TZ, param, name, kinematic, mass)


def rx(param: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a rotation about x, for `import_frames`."""
    return FrameDef(RX, param, name, kinematic, mass)


def ry(param: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a rotation about y, for `import_frames`."""
    return FrameDef(RY, param, name, kinematic, mass)


def rz(param: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a rotation about z, for `import_frames`."""
    return FrameDef(RZ, param, name, kinematic, mass)


def const_se3(se3: object, name: str | None = None, kinematic: bool = False, mass: object = 0.0) -> FrameDef:
    """Definition of a fixed transform, for `import_frames`: a 4x4 matrix, or (Rx, Ry, Rz, p) columns as trep takes them."""
    return FrameDef(CONST_SE3, se3, name, kinematic, mass)


def const_txyz(xyz: ArrayLike, name: str | None = None, kinematic: bool = False, mass: Any = 0.0) -> FrameDef:
    """Definition of a fixed translation by (x, y, z), for `import_frames`."""
    g = np.eye(4)
    g[:3, 3] = xyz
    return FrameDef(CONST_SE3, g, name, kinematic, mass)


def rotation_matrix(theta: float, axis: object) -> Array:
    """4x4 rotation by theta about an axis.

    >>> rotation_matrix(np.pi / 2, (0, 0, 1))[:2, :2].round(9)
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    a = np.asarray(axis, dtype=float)
    size = float(np.linalg.norm(a))
    if a.shape != (3,) or not size:
        raise ValueError("axis must be a vector of three numbers that is not zero")
    x, y, z = a / size
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    g = np.eye(4)
    g[:3, :3] += math.sin(theta) * k + (1 - math.cos(theta)) * (k @ k)
    return g
