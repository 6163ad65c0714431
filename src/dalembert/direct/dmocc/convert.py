"""From a `Model` (tree of frames with masses) to rigid bodies and joints, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import matrix, needed
from ...errors import ModelError
from ...model import ConfigForce, Damping, Element, Frame, Gravity, Kinematic, Model
from ...model.frames import TURN
from ...symbolic import Symbolic
from .kernels import kernels
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


class _OnBodies(Symbolic):
    """What the definitions of a model's elements see of a multibody system: its joint coordinates, frames on its bodies."""

    def __init__(self, model: Model, view: Any, frames: Mapping[int, tuple[Any, ...]]) -> None:
        super().__init__(model)
        self._view, self._frames = view, frames

    def variable(self, name: str) -> Any:
        """A joint coordinate."""
        if name not in self._view.system.coordinates:
            raise ModelError(f"'{name}' is no joint coordinate of the multibody system", culprit=name)
        return self._view[name]

    def position(self, frame: str | int) -> Any:
        """World position (3) of a frame's origin."""
        body, point, _ = self._frames[self._placed(frame)]
        return self.ca.SX(self.ca.DM(point)) if body is None else self._view.position(body, point)

    def rotation(self, frame: str | int) -> Any:
        """World rotation (3, 3) of a frame."""
        body, _, turn = self._frames[self._placed(frame)]
        fixed = self.ca.DM(np.array(turn))
        return self.ca.SX(fixed) if body is None else self._view.rotation(body) @ fixed

    def centre_of_mass(self, frame: str | int) -> Any:
        """World position of the centre of mass that a frame carries, 3 (m)."""
        entry = self.model.frame_entries[self._index(frame)]
        com = entry.frame.com if entry.frame is not None else (0.0, 0.0, 0.0)
        return self.position(frame) + self.rotation(frame) @ self.ca.DM(list(com))

    def _index(self, frame: str | int) -> int:
        return self.model.frame_index(frame) if isinstance(frame, str) else frame

    def _placed(self, frame: str | int) -> int:
        i = self._index(frame)
        if i not in self._frames:
            raise ModelError(f"{self.model.frame_entries[i].frame} moves on a massless frame, which is no body")
        return i


@dataclass(frozen=True)
class _Elements:
    """The potentials, or the constraints, of a model as a function of a `View`."""

    model: Model
    family: str
    chosen: tuple[int, ...]

    def __call__(self, view: Any) -> Any:
        s = _OnBodies(self.model, view, _places(self.model))
        found = []
        for i in self.chosen:
            e = self.model.elements[i]
            try:
                found.append(e.symbolic(s))
            except ModelError as error:
                raise ModelError(f"{e.label}: {error.reason}", culprit=error.culprit) from None
        return s.ca.vertcat(*found) if self.family == "constraints" else sum(found)


def _chosen(model: Model, family: str) -> _Elements | None:
    """All elements of a family, except the gravity that acts on everything."""
    indices = tuple(i for i, e in enumerate(model.elements) if family == e.FAMILY and not _overall(model, e))
    return _Elements(model, family, indices) if indices else None


def _overall(model: Model, e: Element) -> bool:
    """Whether an element is gravity on all masses."""
    if not isinstance(e, Gravity):
        return False
    heavy = {f.frame.name for f in model.frame_entries[1:] if f.frame is not None and f.frame.mass > 0}
    return e.masses is None or heavy == set(e.masses)


@lru_cache(maxsize=32)
def _places(model: Model) -> dict[int, tuple[Any, ...]]:
    """Frame -> body that carries it (None: the world), point from its centre of mass, rotation in its axes."""
    groups, member, local = _groups(model)
    names: dict[int, str] = {0: GROUND}
    out: dict[int, tuple[Any, ...]] = {}
    for g, group in enumerate(groups):
        if g and group.heavy:
            names[g] = _body_name(group, names)
    for i, (g, pose) in enumerate(zip(member, local, strict=True)):
        if g == 0:
            out[i] = (None, pose[:3, 3], pose[:3, :3])
        elif g in names:
            out[i] = (names[g], pose[:3, 3] - groups[g].lump()[1], pose[:3, :3])
    return out


def from_model(model: Model) -> MultibodySystem:
    """Rigid bodies and joints of a Model; `ModelError` with the reason where that is not possible.

    Frames that move as one become a body; the motions between two bodies must form a joint R, P, C, S (three turns
    through one point), E, U (two perpendicular turns through one point), H (screw) or free. Coordinates of all but S
    and free keep the names and values of the model's variables and their inputs are named after them; S and free
    joints use rotation vectors, see `model_configuration`, whether they come from a `ball`, `floating` or from three turns.
    Constraints of the model close loops, as `constraints`.

    All potentials and constraints of frames and kept variables are understood, of the forces `ConfigForce` on kept
    variables and `Damping` on these and, equal about all axes, on a `ball` or `floating` body.

    >>> from dalembert import ConfigForce, Gravity, Model, rz, tx
    >>> arm = Model([rz("a", tx(0.5, mass=(1, 0, 0.1, 0.1)), tx(1.0, rz("b", tx(0.5, mass=(1, 0, 0.1, 0.1)))))],
    ...             [Gravity((0, -9.81, 0)), ConfigForce("a", "shoulder"), ConfigForce("b", "elbow")])
    >>> from_model(arm).coordinates
    ('a', 'b')
    """
    needed(model, Model).require_holonomic("dmocc", "optimize")
    groups, _, _ = _groups(model)
    forced = _forced(model)
    bodies: list[RigidBody] = []
    joints: list[Joint] = []
    chains: list[list[_Group]] = []
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
        chains.append([groups[i] for i in chain])
        joints.append(_joint(name, names[up], chains[-1], centre, forced))
    if not bodies:
        raise ModelError("the model moves no mass", culprit=model.name)
    kept = {c for j in joints if j.labels for c in j.coordinates}
    left = set(forced) - kept
    if left:
        raise ModelError(
            f"ConfigForce on '{min(left)}': inputs of ball joints and free bodies are torques about the axes of the world, "
            "not about their own; use dmoc",
            culprit=min(left),
        )
    gravity = np.zeros(3)
    damping: dict[str, float] = {}
    for e in model.elements:
        if _overall(model, e):
            gravity = gravity + np.array(e.acceleration)  # type: ignore[attr-defined]
        elif isinstance(e, Damping):
            for joint, links in zip(joints, chains, strict=True):
                for c, value in _damped(model, e, joint, links).items():
                    damping[c] = damping.get(c, 0.0) + value
        elif e.FAMILY == "forces" and not isinstance(e, ConfigForce):
            raise ModelError(f"{e.label}: not supported by DMOCC; use dmoc", culprit=e.label)
    system = MultibodySystem(
        bodies,
        joints,
        gravity=gravity.tolist(),
        potential=_chosen(model, "potentials"),
        constraints=_chosen(model, "constraints"),
        damping=damping,
        name=model.name,
    )
    kernels(system)  # raises where an element cannot be evaluated
    return system


def _damped(model: Model, damping: Damping, joint: Joint, chain: Sequence[_Group]) -> dict[str, float]:
    """What an element says of a joint: coefficients by coordinate, that of a ball by the name of the joint."""
    rates = damping.by_velocity(model)

    def equal(names: Sequence[str], what: str) -> float:
        low, high = min(rates[n] for n in names), max(rates[n] for n in names)
        if low != high:
            raise ModelError(
                f"{damping.label}: {what} needs the same along all axes ({', '.join(names)})", culprit=what
            )
        return high

    out: dict[str, float] = {}
    flat: list[str] = []
    for group in chain:
        assert group.frame is not None
        assert group.frame.variable is not None
        v = group.frame.variable
        if group.frame.transform == TURN:
            out[joint.name] = equal([f"{v}.w{a}" for a in "xyz"], f"ball '{v}'")
        else:
            flat.append(model.velocities[model.velocity_index(v)])
    if joint.labels:
        out |= {v: rates[v] for v in flat}
    elif any(rates[v] for v in flat):
        centre, along = chain[-1].lump()[1], [g.frame.transform[0] for g in chain]  # type: ignore[union-attr]
        if along != ["t", "t", "t", TURN[0]] or np.abs(centre).max() > 1e-9:
            raise ModelError(
                f"{damping.label}: '{next(v for v in flat if rates[v])}' is an angle of a ball joint or a coordinate of a free "
                "body other than the place of its centre of mass",
                culprit=joint.child,
            )
        out |= dict.fromkeys(joint.coordinates[:3], equal(flat, f"body '{joint.child}'"))
    return {name: c for name, c in out.items() if c}


def model_configuration(model: Model, q: object) -> np.ndarray:
    """Configuration (n,) of `from_model(model)` at the model's own variables q (nq,).

    >>> from dalembert import Model, rz, tx
    >>> arm = Model([rz("a", tx(0.5, mass=1.0))])
    >>> model_configuration(arm, [np.pi / 2])[:3].round(12).tolist()
    [0.0, 0.5, 0.0]
    """
    values = model.configuration.unit(matrix(q, (model.nq,), "q"), "q")
    turns = {place.name: place.q for place in model.configuration.places}
    system = from_model(model)
    model.require_no_contacts("dmocc")
    groups, _, _ = _groups(model)
    poses: list[np.ndarray] = []
    found: dict[str, np.ndarray] = {}
    names: dict[int, str] = {0: GROUND}
    for g, group in enumerate(groups):
        if group.frame is None:
            poses.append(np.eye(4))
            continue
        assert group.frame.variable is not None
        v = group.frame.variable
        amount = values[turns[v] if v in turns else model.index(v)]
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
            if e.gear != 1.0:
                raise ModelError(f"{e.label}: DMOCC takes no gears; scale the input", culprit=e.label)
            out[e.variable] = e.input
    return out


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
        if frame.pitch and len(chain) > 1:
            raise ModelError(f"{frame.label}: a screw next to other motions forms no joint", culprit=frame.variable)
        if frame.transform == TURN:  # three turns at once
            turns += [(f"{frame.variable}.w{a}", group.pose[:3, k], group.pose[:3, 3]) for k, a in enumerate("xyz")]
            continue
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

    def meet() -> tuple[np.ndarray, float]:
        """The point nearest to the axes of all turns, and how far they miss it."""
        across = [np.eye(3) - np.outer(a, a) for _, a, _ in turns]
        sides = np.concatenate([c @ x for c, (_, _, x) in zip(across, turns, strict=True)])
        point = np.linalg.lstsq(np.vstack(across), sides, rcond=None)[0]
        return point, max(float(np.linalg.norm(np.cross(a, x - point))) for _, a, x in turns)

    if len(turns) == 3:
        axes = np.column_stack([a for _, a, _ in turns])
        point, gap = meet()
        if abs(np.linalg.det(axes)) < 1e-9 or gap > 1e-9:
            raise fail("three turns make a ball joint only if their axes are independent and meet in one point")
        if not slides:
            return make("S", point=point)
        if len(slides) == 3 and abs(np.linalg.det(np.column_stack([a for _, a, _ in slides]))) > 1e-9:
            if parent != GROUND:
                raise fail(f"a body with six degrees of freedom must hang on the world, not on '{parent}'")
            return make("free", point=body)
        raise fail("is none of R, P, C, S, E, U, H or free")
    if len(turns) == 2 and not slides:
        (v1, first, _), (v2, second, _) = turns
        point, gap = meet()
        if abs(first @ second) > 1e-9 or gap > 1e-9:
            raise fail(
                "two turns make a universal joint only if their axes are perpendicular and meet; it is none of R, S, U"
            )
        return make("U", [v1, v2], axis=first, inplane=second, point=point)
    if len(turns) == 1 and not slides:
        ((v, axis, x),) = turns
        pitch = chain[-1].frame.pitch  # type: ignore[union-attr]
        return make("H", [v], axis=axis, point=x, pitch=pitch) if pitch else make("R", [v], axis=axis, point=x)
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
    raise fail("is none of R, P, C, S, E, U, H or free")
