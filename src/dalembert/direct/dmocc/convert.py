"""From a `Model` (tree of frames with masses) to rigid bodies and joints S, C, R, P, E or free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ModelError
from ...model import ConfigForce, Frame, Gravity, Kinematic, LinearSpring, Model
from .system import GROUND, Joint, MultibodySystem, RigidBody


@dataclass
class _Group:
    """Frames that move as one: pose in the reference (q = 0), mass properties, the motion that leads here."""

    parent: int
    pose: np.ndarray
    frame: Frame | None
    base: np.ndarray = field(default_factory=lambda: np.eye(4))  # from the parent group's frame to here at q = 0
    parts: list[tuple[float, np.ndarray, np.ndarray]] = field(default_factory=list)  # mass, centre, inertia about it
    names: list[str] = field(default_factory=list)

    @property
    def mass(self) -> float:
        return sum(m for m, _, _ in self.parts)

    @property
    def heavy(self) -> bool:
        return any(m > 0 or j.any() for m, _, j in self.parts)

    def lump(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Mass, centre (group axes), inertia about the centre."""
        mass = self.mass
        centre = sum((m * c for m, c, _ in self.parts), np.zeros(3)) / mass
        inertia = np.zeros((3, 3))
        for m, c, j in self.parts:
            d = c - centre
            inertia += j + m * (d @ d * np.eye(3) - np.outer(d, d))
        return mass, centre, inertia


def _groups(model: Model) -> tuple[list[_Group], list[int], list[np.ndarray]]:
    """Groups, group of every frame, pose of every frame in its group."""
    groups = [_Group(-1, np.eye(4), None)]
    member, local = [0], [np.eye(4)]
    for entry in model.frame_entries[1:]:
        frame = entry.frame
        assert frame is not None
        g, at = member[entry.parent], local[entry.parent]
        if frame.variable is None:
            at = at @ frame.local_pose()
        else:
            groups.append(_Group(g, groups[g].pose @ at, frame, at))
            g, at = len(groups) - 1, np.eye(4)
        member.append(g)
        local.append(at)
        if frame.name:
            groups[g].names.append(frame.name)
        if frame.mass > 0 or any(frame.inertia):
            xx, yy, zz, xy, xz, yz = frame.inertia
            j = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            r = at[:3, :3]
            groups[g].parts.append((frame.mass, r @ np.array(frame.com) + at[:3, 3], r @ j @ r.T))
            if frame.name and frame.name == groups[g].names[-1]:
                groups[g].names.insert(0, groups[g].names.pop())  # the heavy frame names the body
    return groups, member, local


@dataclass(frozen=True)
class _Springs:
    """Potential of linear springs between points of bodies (body None: fixed in the world)."""

    springs: tuple[tuple[Any, ...], ...]

    def __call__(self, view: Any) -> Any:
        import casadi as ca

        total = 0.0
        for b1, x1, b2, x2, stiffness, rest in self.springs:
            p1, p2 = (ca.DM(x) if b is None else view.position(b, x) for b, x in ((b1, x1), (b2, x2)))
            stretch = ca.norm_2(p1 - p2) - rest if rest else None
            energy = ca.dot(p1 - p2, p1 - p2) if stretch is None else stretch**2
            total = total + 0.5 * stiffness * energy
        return total


def from_model(model: Model) -> MultibodySystem:
    """Rigid bodies and joints of a Model; `ModelError` with the reason where that is not possible.

    Frames that move as one become a body; the motions between two bodies must form a joint S (three turns through one
    point), C, R, P, E or free. Coordinates of C, R, P, E keep the names and values of the model's variables and their
    inputs are named after them; S and free joints use rotation vectors, see `model_configuration`. Supported elements:
    `Gravity`, `LinearSpring`, `ConfigForce` on a kept variable.

    >>> from dalembert import ConfigForce, Gravity, Model, rz, tx
    >>> arm = Model([rz("a", tx(0.5, mass=(1, 0, 0.1, 0.1)), tx(1.0, rz("b", tx(0.5, mass=(1, 0, 0.1, 0.1)))))],
    ...             [Gravity((0, -9.81, 0)), ConfigForce("a", "shoulder"), ConfigForce("b", "elbow")])
    >>> from_model(arm).coordinates
    ('a', 'b')
    """
    groups, member, local = _groups(model)
    forced = _forced(model)
    bodies: list[RigidBody] = []
    joints: list[Joint] = []
    names: dict[int, str] = {0: GROUND}
    passed: dict[int, str] = {}
    for g, group in enumerate(groups):
        if g == 0 or not group.heavy:
            continue
        if group.mass <= 0:
            raise ModelError(
                f"{group.frame.label if group.frame else 'world'}: a body needs mass, not only inertia", culprit=str(g)
            )
        names[g] = name = _body_name(group, names)
        mass, centre, inertia = group.lump()
        r = group.pose[:3, :3]
        bodies.append(
            RigidBody(name, mass, inertia, group.pose[:3, :3] @ centre + group.pose[:3, 3], r)  # type: ignore[arg-type]
        )
        chain, up = [g], group.parent
        while up != 0 and not groups[up].heavy:
            if up in passed:
                raise ModelError(
                    f"bodies '{passed[up]}' and '{name}' hang on one massless moving frame "
                    f"({groups[up].frame.label}); give it a mass",  # type: ignore[union-attr]
                    culprit=name,
                )
            passed[up] = name
            chain.insert(0, up)
            up = groups[up].parent
        joints.append(_joint(name, names[up], [groups[i] for i in chain], centre, forced))
    if not bodies:
        raise ModelError("the model moves no mass", culprit=model.name)
    left = set(forced) - {c for j in joints for c in j.coordinates}
    if left:
        raise ModelError(
            f"ConfigForce on '{min(left)}': a force on an angle of a ball joint is not a torque about a fixed axis",
            culprit=min(left),
        )
    gravity, springs = np.zeros(3), []
    for e in model.elements:
        if isinstance(e, Gravity):
            heavy = [f.frame for f in model.frame_entries[1:] if f.frame is not None and f.frame.mass > 0]
            if e.masses is not None and {f.name for f in heavy} != set(e.masses):
                raise ModelError("Gravity on some of the masses cannot be converted", culprit=e.label)
            gravity = gravity + np.array(e.acceleration)
        elif isinstance(e, LinearSpring):
            ends = []
            for f in (e.frame1, e.frame2):
                i = model.frame_index(f)
                ends += _fixed_point(groups, member[i], local[i][:3, 3], names, e.label)
            springs.append((*ends, e.stiffness, e.rest_length))
        elif not isinstance(e, ConfigForce):
            why = "constraints close loops, DMOCC works on trees" if e.size else "not supported by DMOCC"
            raise ModelError(f"{e.label}: {why}; use dmoc", culprit=e.label)
    return MultibodySystem(
        bodies,
        joints,
        gravity=gravity.tolist(),
        potential=_Springs(tuple(springs)) if springs else None,
        name=model.name,
    )


def model_configuration(model: Model, q: object) -> np.ndarray:
    """Configuration (n,) of `from_model(model)` at the model's own variables q (nq,).

    >>> from dalembert import Model, rz, tx
    >>> arm = Model([rz("a", tx(0.5, mass=1.0))])
    >>> model_configuration(arm, [np.pi / 2])[:3].round(12).tolist()
    [0.0, 0.5, 0.0]
    """
    values = np.asarray(q, dtype=float)
    if values.shape != (model.nq,) or not np.isfinite(values).all():
        raise ValueError(f"q must be {model.nq} finite numbers, got shape {values.shape}")
    system = from_model(model)
    groups, _, _ = _groups(model)
    poses: list[np.ndarray] = []
    found: dict[str, np.ndarray] = {}
    names: dict[int, str] = {0: GROUND}
    for g, group in enumerate(groups):
        if group.frame is None:
            poses.append(np.eye(4))
            continue
        assert group.frame.variable is not None
        amount = values[model.index(group.frame.variable)]
        poses.append(poses[group.parent] @ group.base @ group.frame.local_pose(amount))
        if group.heavy:
            names[g] = _body_name(group, names)
            _, centre, _ = group.lump()
            r = poses[g][:3, :3]
            found[names[g]] = np.concatenate([r @ centre + poses[g][:3, 3], r.T.ravel()])
    return np.concatenate([found[b.name] for b in system.bodies])


def _body_name(group: _Group, names: dict[int, str]) -> str:
    assert group.frame is not None
    name = group.names[0] if group.names else f"body {group.frame.variable}"
    return name if name not in names.values() else f"{name} {len(names)}"


def _forced(model: Model) -> dict[str, str]:
    """Variable -> input for every ConfigForce; each input must drive one variable."""
    out: dict[str, str] = {}
    for e in model.elements:
        if isinstance(e, ConfigForce):
            if e.variable in out or e.input in out.values():
                raise ModelError(
                    f"{e.label}: DMOCC needs one input per variable, and each input on one variable", culprit=e.label
                )
            out[e.variable] = e.input
    return out


def _fixed_point(groups: list[_Group], g: int, x: np.ndarray, names: dict[int, str], label: str) -> list[Any]:
    if g == 0:
        return [None, tuple(x)]
    if g not in names:
        raise ModelError(f"{label}: its frame moves on a massless frame, which is no body", culprit=label)
    return [names[g], tuple(x - groups[g].lump()[1])]


def _joint(name: str, parent: str, chain: Sequence[_Group], centre: np.ndarray, forced: dict[str, str]) -> Joint:
    """The joint that a chain of elementary motions forms; axes and points in world coordinates at q = 0."""
    turns: list[tuple[str, Any, Any]] = []
    slides: list[tuple[str, Any, Any]] = []
    order = ""
    for group in chain:
        frame = group.frame
        assert frame is not None
        assert frame.variable is not None
        if isinstance(frame.value, Kinematic):
            raise ModelError(f"{frame.label}: DMOCC has no kinematic variables; use dmoc", culprit=frame.variable)
        if frame.pitch:
            raise ModelError(f"{frame.label}: a screw joint is not among S, C, R, P, E", culprit=frame.variable)
        axis = group.pose[:3, "xyz".index(frame.transform[1])]
        (turns if frame.transform[0] == "r" else slides).append((frame.variable, axis, group.pose[:3, 3]))
        order += frame.transform[0]
    variables = [v for v, _, _ in turns + slides]
    body = chain[-1].pose[:3, :3] @ centre + chain[-1].pose[:3, 3]

    def fail(reason: str) -> ModelError:
        listing = ", ".join(str(g.frame.variable) for g in chain if g.frame is not None)
        return ModelError(f"the motion of body '{name}' ({listing}): {reason}", culprit=variables[0])

    def make(kind: str, labels: Sequence[str] = (), **options: Any) -> Joint:
        flags = tuple(c in forced for c in labels) if labels else False
        return Joint(kind, parent, name, actuated=flags, labels=tuple(labels), **options)

    if len(turns) == 3:
        axes = np.column_stack([a for _, a, _ in turns])
        point = np.linalg.lstsq(
            np.vstack([np.eye(3) - np.outer(a, a) for _, a, _ in turns]),
            np.concatenate([(np.eye(3) - np.outer(a, a)) @ x for _, a, x in turns]),
            rcond=None,
        )[0]
        gap = max(float(np.linalg.norm(np.cross(a, x - point))) for _, a, x in turns)
        if abs(np.linalg.det(axes)) < 1e-9 or gap > 1e-9:
            raise fail("three turns make a ball joint only if their axes are independent and meet in one point")
        if not slides:
            return make("S", point=point)
        if len(slides) == 3 and abs(np.linalg.det(np.column_stack([a for _, a, _ in slides]))) > 1e-9:
            if parent != GROUND:
                raise fail(f"a body with six degrees of freedom must hang on the world, not on '{parent}'")
            return make("free", point=body)
        raise fail("is none of S, C, R, P, E or free")
    if len(turns) == 1 and not slides:
        ((v, axis, x),) = turns
        return make("R", [v], axis=axis, point=x)
    if len(slides) == 1 and not turns:
        ((v, axis, x),) = slides
        return make("P", [v], axis=axis, point=x)
    if len(turns) == 1 and len(slides) == 1:
        (v, axis, x), (w, along, _) = turns[0], slides[0]
        if np.linalg.norm(axis - along) > 1e-9:
            raise fail("one turn and one slide make a cylinder only about and along the same axis")
        return make("C", [w, v], axis=axis, point=x)
    if len(turns) == 1 and len(slides) == 2:
        (v, axis, x), (w1, a1, _), (w2, a2, _) = turns[0], slides[0], slides[1]
        if order != "ttr" or max(abs(a1 @ axis), abs(a2 @ axis), abs(a1 @ a2)) > 1e-9:
            raise fail("a plane joint is two perpendicular slides followed by a turn about their normal")
        if (w1 in forced or w2 in forced) and np.linalg.norm(np.cross(axis, body - x)) > 1e-9:
            raise fail("forces along a plane act at the centre of mass, which is not on the axis of the turn")
        if np.cross(axis, a1) @ a2 < 0:
            w1, a1, w2 = w2, a2, w1
        return make("E", [w1, w2, v], axis=axis, point=x, inplane=a1)
    raise fail("is none of S, C, R, P, E or free")
