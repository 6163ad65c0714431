"""From rigid bodies and joints to a `Model`, and from their motions to a `Trajectory`: to look at, to save, to simulate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ModelError
from ...model import (
    ConfigForce,
    Constraint,
    Damping,
    Element,
    Force,
    Frame,
    Gravity,
    Model,
    Potential,
    Visual,
    Wrench,
    ball,
    floating,
    rx,
    rz,
    se3,
    tx,
    ty,
    tz,
)
from ...model.rotation import of_matrix
from .kernels import kernels, over
from .multibody import Geometry, Multibody, Pair, geometry
from .system import GROUND, Joint, MultibodySystem, RigidBody

if TYPE_CHECKING:
    from ...integrate import Trajectory
    from .motion import Motion


@lru_cache(maxsize=32)
def to_model(system: MultibodySystem) -> Model:
    """The same mechanism as a `Model`: a frame per body, named after it, with origin at its centre of mass.

    Variables of R, P, C, E, U, H have the names and values of the joint coordinates. Ball joints are `ball`s, free bodies
    `floating`, by the names of their joints, with the same rotation vectors. Inputs have the names of the joint coordinates; closures and further
    constraints become `Constraint`s, bodies are drawn as boxes of the same inertia.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1 / 12, 1 / 12), position=(0.5, 0, 0))
    >>> model = to_model(MultibodySystem([rod], [Joint("R", "ground", "rod")], gravity=(0, -9.81, 0)))
    >>> model.variables, model.inputs
    (('rod',), ('rod',))
    """
    children: dict[int, list[Frame]] = {i: [] for i in range(-1, len(system.bodies))}
    for i in reversed(range(len(system.bodies))):
        frame = _branch(system.joints[i], geometry(system, system.joints[i]), system.bodies[i], children[i])
        children[system.parents[i]].insert(0, frame)
    elements: list[Element] = [Gravity(system.gravity)] if any(system.gravity) else []
    for joint in system.joints:
        elements += _forces(joint, geometry(system, joint))
    balls = {j.name for j in system.joints if j.turns == 3}
    slowed = {v: x for c, x in system.damping for v in ([f"{c}.w{a}" for a in "xyz"] if c in balls else [c])}
    if slowed:
        elements.append(Damping(slowed))
    if system.potential is not None:
        elements.append(Potential(_Seen(system, system.potential), name="potential"))
    rows: list[Element] = []
    for joint in system.closures:
        if joint.inputs:
            raise ModelError(
                f"joint '{joint.name}' closes a loop and is actuated: a Model has no such force", culprit=joint.name
            )
        geo = geometry(system, joint)
        rows += [Constraint(_ClosureRow(joint, geo, k), name=f"{joint.name} {k + 1}") for k in range(6 - joint.dof)]
    if system.constraints is not None:
        count = kernels(system).mechanics.nc - len(rows)
        rows += [Constraint(_Seen(system, system.constraints, k), name=f"constraint {k + 1}") for k in range(count)]
    elements += [rows[k] for k in _alive(system)]
    return Model(children[-1], elements, name=system.name)


def _alive(system: MultibodySystem) -> list[int]:
    """Rows of the closures that something moves: those across the plane of a planar mechanism are always zero."""
    k, rng = kernels(system), np.random.default_rng(0)
    slopes = [np.abs(k.closing(rng.normal(size=system.nd))[1].full()).max(axis=1, initial=0.0) for _ in range(3)]
    return np.flatnonzero(np.max(slopes, axis=0) > 1e-12).tolist() if k.mechanics.nc else []


def _pose(rotation: np.ndarray, position: Any) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation, position
    return out


def _branch(joint: Joint, geo: Geometry, body: RigidBody, children: list[Frame]) -> Frame:
    """The frames from the parent's body to the child's, and all that hangs on it."""
    inertia = np.array(body.inertia)
    i, j = [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]
    options: dict[str, Any] = {"mass": body.mass, "inertia": tuple(inertia[i, j].tolist()), "name": body.name}
    options["visuals"] = _box(body)
    if joint.kind == "free":  # the centre of mass moves along the world's axes, the body turns about it
        point = _pose(np.eye(3), geo.rho2)
        children = [*children, se3(point, name=f"{body.name} point")] if joint.inputs else children
        frame = se3(_pose(np.array(body.rotation), np.zeros(3)), *children, **options)
        front = _pose(np.eye(3), body.position)
    else:  # a ball turns about the axes of its parent, other joints about their own
        before, after = (np.eye(3), geo.relative) if joint.kind == "S" else (geo.triad1, geo.triad2.T)
        frame = se3(_pose(after, -after @ geo.rho2), *children, **options)
        front = _pose(before, geo.rho1)
    for make, variable, more in reversed(_motions(joint)):
        frame = make(variable, frame, **more)
    return se3(front, frame)


def _motions(joint: Joint) -> list[tuple[Any, str, dict[str, Any]]]:
    """Motions of a joint: constructor, variable, options."""
    if joint.turns == 3:
        return [(floating if joint.kind == "free" else ball, joint.name, {})]
    makers: dict[str, list[Any]] = {"R": [rz], "P": [tz], "C": [tz, rz], "E": [tx, ty, rz], "U": [rz, rx], "H": [rz]}
    more = {"pitch": joint.pitch} if joint.kind == "H" else {}
    return [(make, name, more) for make, name in zip(makers.get(joint.kind, []), joint.coordinates, strict=True)]


def _box(body: RigidBody) -> tuple[Visual, ...]:
    """A box of the same mass and inertia."""
    values, axes = np.linalg.eigh(body.euler_tensor)
    if np.linalg.det(axes) < 0:
        axes = axes * np.array([-1.0, 1.0, 1.0])
    sides = np.sqrt(12 * np.maximum(values, 0.0) / body.mass)
    thin = 0.05 * max(float(sides.max()), 0.1)
    pose = tuple(map(tuple, _pose(axes, np.zeros(3)).tolist()))
    return (Visual("box", tuple(np.maximum(sides, thin).tolist()), pose=pose),)


# ---- forces


def _forces(joint: Joint, geo: Geometry) -> list[Element]:
    """Inputs of a joint."""
    flags: Any = joint.actuated
    if not joint.inputs:
        return []
    if joint.kind == "E":
        return [Force(_PlaneForce(joint, geo), uses=joint.inputs, name=f"force of {joint.name}")]
    if joint.turns < 3:
        return [ConfigForce(c, c) for c in joint.inputs]
    parts = tuple(c if on else 0.0 for c, on in zip(joint.coordinates, flags, strict=True))
    if joint.kind == "free":
        return [Wrench(f"{joint.child} point", force=parts[:3], torque=parts[3:], axes="mixed")]
    return [  # a torque about the world's axes, and its reaction
        Wrench(frame, torque=parts, axes="mixed", gear=gear)
        for frame, gear in ((joint.child, 1.0), (joint.parent, -1.0))
        if frame != GROUND
    ]


@dataclass(frozen=True)
class _PlaneForce:
    """Forces along a plane, at the centre of mass of the child, and the torque about its normal (55)."""

    joint: Joint
    geo: Geometry

    def __call__(self, m: Any) -> dict[str, Any]:
        import casadi as ca

        names, flags = self.joint.coordinates, self.joint.actuated
        force = [m.input(c) if on else 0.0 for c, on in zip(names, flags, strict=True)]  # type: ignore[arg-type]
        a, b, _ = self.geo.triad2.T @ self.geo.rho2  # from the centre of mass to the joint, along the joint's axes
        s, c = ca.sin(m[names[2]]), ca.cos(m[names[2]])
        x, y = c * a - s * b, s * a + c * b
        return {names[0]: force[0], names[1]: force[1], names[2]: force[2] - (x * force[1] - y * force[0])}

    def __hash__(self) -> int:
        return hash(self.joint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PlaneForce) and self.joint == other.joint


# ---- potentials and constraints


@dataclass(frozen=True)
class _Seen:
    """A function of a `View` as one of a model's quantities; one of its rows."""

    system: MultibodySystem
    function: Any
    row: int | None = None

    def __call__(self, m: Any) -> Any:
        import casadi as ca

        value = self.function(_ModelView(self.system, m))
        if self.row is None:
            return value
        column: Any = ca.vertcat(*value) if isinstance(value, (list, tuple)) else ca.vec(value)
        return column[self.row]


class _ModelView:
    """What a potential or constraint sees: positions, rotations and joint coordinates."""

    def __init__(self, system: MultibodySystem, m: Any) -> None:
        self.system, self._m = system, m

    def __getitem__(self, coordinate: str) -> Any:
        return self._m[coordinate]

    def position(self, body: str, point: ArrayLike = (0.0, 0.0, 0.0)) -> Any:
        """World position (3) of a point fixed in a body."""
        import casadi as ca

        pose = self._m.pose(body)
        return pose[:3, 3] + pose[:3, :3] @ ca.DM(np.asarray(point, dtype=float))

    def rotation(self, body: str) -> Any:
        """Directors of a body as columns."""
        return self._m.pose(body)[:3, :3]


class _ClosureRow:
    """One of the constraints of a joint that closes a loop."""

    def __init__(self, joint: Joint, geo: Geometry, row: int) -> None:
        self.joint, self.geo, self.row = joint, geo, row

    def __call__(self, m: Any) -> Any:
        import casadi as ca

        places = []
        for body in (self.joint.parent, self.joint.child):
            pose = ca.SX.eye(4) if body == GROUND else m.pose(body)
            places.append((pose[:3, 3], pose[:3, :3]))
        return Pair(self.joint, self.geo, *places).rows()[self.row]


# ---- motions


@lru_cache(maxsize=32)
def _tangents(system: MultibodySystem) -> Any:
    """Variables of the model -> q and its derivative by their velocities."""
    import casadi as ca

    m: Multibody = kernels(system).mechanics
    model = to_model(system)
    x, w = ca.SX.sym("x", model.nq), ca.SX.sym("w", model.nv)

    def at(name: str) -> Any:
        return x[model.index(name)] + w[model.velocity_index(name)]

    u, ref = [], []
    for joint in system.joints:
        if joint.turns < 3:
            u += [at(c) for c in joint.coordinates]
            continue
        turns = _rotation(*(x[model.index(f"{joint.name}.q{a}")] for a in "wxyz"))
        spin = ca.vertcat(*(w[model.velocity_index(f"{joint.name}.w{a}")] for a in "xyz"))
        turns = turns @ (ca.SX.eye(3) + ca.skew(spin))  # to first order
        ref.append(ca.vec(turns))
        u += [at(f"{joint.name}.{a}") for a in "xyz"] if joint.kind == "free" else []
        u += [ca.SX(0)] * 3
    q = m.place(ca.vertcat(ca.SX(0, 1), *u), ca.vertcat(ca.SX(0, 1), *ref))
    still = [ca.substitute(e, w, ca.SX.zeros(model.nv)) for e in (q, ca.jacobian(q, w))]
    return ca.Function("tangents", [x], [ca.densify(e) for e in still])


def _rotation(w: Any, x: Any, y: Any, z: Any) -> Any:
    """Matrix of a unit quaternion."""
    import casadi as ca

    e = ca.skew(ca.vertcat(x, y, z))
    return ca.SX.eye(3) + 2 * w * e + 2 * (e @ e)


def variables(system: MultibodySystem, q: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Variables (T, nq) of `to_model(system)` at configurations q (T, n) with joint coordinates u (T, nd)."""
    model = to_model(system)
    out = np.empty((len(q), model.nq))
    r = q.reshape(len(q), -1, 12)[:, :, 3:].reshape(len(q), -1, 3, 3).transpose(0, 1, 3, 2)
    for i, (joint, where) in enumerate(zip(system.joints, system.slices, strict=True)):
        p = system.parents[i]
        flat = joint.coordinates if joint.turns < 3 else joint.coordinates[:-3]
        for name, column in zip(flat, u[:, where].T, strict=False):
            out[:, model.index(name)] = column
        if joint.turns < 3:
            continue
        if joint.kind == "free":
            turned = r[:, i] @ np.array(system.bodies[i].rotation).T
        else:
            parent = r[:, p] if p >= 0 else np.eye(3)
            turned = np.swapaxes(parent, -1, -2) @ r[:, i] @ geometry(system, joint).relative.T
        turns = np.array([of_matrix(t) for t in turned])
        flips = np.cumprod(np.sign(np.r_[1.0, np.sum(turns[1:] * turns[:-1], axis=1)]))  # one of q and -q, no jumps
        out[:, [model.index(f"{joint.name}.q{a}") for a in "wxyz"]] = flips[:, None] * turns
    return out


def trajectory(motion: Motion) -> Trajectory:
    """The motion as a `Trajectory` of `to_model(motion.system)`; its steps are no steps of a `MidpointVI`."""
    from ...integrate import Trajectory

    system = motion.system
    if not isinstance(system, MultibodySystem):
        raise ModelError("a system given by functions has no frames: its motions are no trajectories of a Model")
    model = to_model(system)
    x = variables(system, motion.q, motion.u)
    slope = over(_tangents(system), x)[1]
    full = motion.velocity() @ system.mass_matrix
    p = (slope.transpose(0, 2, 1) @ full[:, :, None])[:, :, 0]
    order = [system.inputs.index(c) for c in model.inputs]
    lam = np.zeros((motion.steps, model.nc))
    if motion.lam is not None and model.nc:
        weight = np.diff(motion.t)[:, None].copy()
        weight[:1] *= 0.5  # the first multiplier covers half a step
        closures = motion.lam[: motion.steps, motion.lam.shape[1] - kernels(system).mechanics.nc :]
        lam = weight * closures[:, _alive(system)]
    return Trajectory(
        model=model,
        t=motion.t,
        q=x,
        p=p,
        u=motion.tau[:, order],
        rho=np.zeros((motion.steps, 0)),
        lam=lam,
        iterations=np.zeros(motion.steps, dtype=np.int64) if motion.iterations is None else motion.iterations,
    )
