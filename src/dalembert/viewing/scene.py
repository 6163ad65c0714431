"""What to draw for a Model: a plain description (`Scene`) and where its parts are for a configuration (`Placement`).

Nothing here knows a screen. The browser viewer, the HTML page and the films all read the same description, so that a
model looks the same everywhere. Lengths are metres, angles radians, colours RGB in 0..1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ModelError
from ..model import (
    ConfigForce,
    Distance,
    Frame,
    Gravity,
    LinearDamper,
    LinearSpring,
    Model,
    PointOnPlane,
    PointToPoint,
    Visual,
    Wrench,
)

Array = NDArray[np.float64]
Color = tuple[float, float, float]
Pose = tuple[tuple[float, ...], ...]

# One palette for scenes and figures, readable with the common colour deficiencies.
PALETTE: tuple[str, ...] = ("#2f6fb7", "#e07b39", "#3a9a6b", "#b6497c", "#7a63b8", "#c2a12f", "#4aa3b5", "#7d7d7d")
STEEL: Color = (0.62, 0.66, 0.71)
DARK: Color = (0.22, 0.25, 0.30)
STRING: Color = (0.45, 0.40, 0.34)
SPRING: Color = (0.80, 0.58, 0.20)
FORCE: Color = (0.85, 0.20, 0.22)
TORQUE: Color = (0.60, 0.25, 0.70)
RAIL: Color = (0.72, 0.75, 0.79)

_IDENTITY: Pose = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))


@dataclass(frozen=True)
class Shape:
    """A solid that moves with a frame.

    `kind` and `size`: sphere (radius,), box (x, y, z sides), cylinder and capsule (radius, length along z), mesh (scale
    x, y, z; file in `mesh`), plane (side, side; thin, translucent, normal z). `pose` is 4x4 from the frame.
    `color` None means the colour of the trajectory. `role` says why it is there: mass, joint, rail, plane, visual.
    """

    kind: str
    frame: int
    size: tuple[float, ...]
    pose: Pose = _IDENTITY
    color: Color | None = None
    role: str = "mass"
    mesh: str | None = None
    alpha: float = 1.0


@dataclass(frozen=True)
class Link:
    """A part stretched between the origins of two frames: rod, string, spring (a coil) or damper.

    `span` is the part of the line that is covered, as fractions from the first frame to the second. A coil has a number
    of `turns` and an `aspect` (its radius over its usual length), which keeps its wire round.
    """

    kind: str
    frames: tuple[int, int]
    radius: float
    color: Color | None = None
    span: tuple[float, float] = (0.0, 1.0)
    turns: int = 0
    aspect: float = 0.0


@dataclass(frozen=True)
class Arrow:
    """A force or torque at a frame; each component is a number or the index of an input in u.

    `axes` "body" means the frame's axes, otherwise world axes. A wrench about the world origin is shown at its frame.
    """

    kind: str
    frame: int
    components: tuple[float | int, float | int, float | int]
    is_input: tuple[bool, bool, bool]
    axes: str
    radius: float


@dataclass(frozen=True)
class Camera:
    """Where to look from: from `target` along the unit vector `direction`, with `up` upwards.

    A sphere of `radius` (m) about the target should fill the picture; `follow` says that the motion leaves it.
    """

    direction: tuple[float, float, float]
    target: tuple[float, float, float]
    up: tuple[float, float, float]
    radius: float
    follow: bool = False


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn for one model; `extent` (m) is the size of the mechanism, from which all sizes follow.

    `ground` is the height of the ground along `camera.up`. `frames` lists the frames whose axes are worth showing.
    """

    model: Model
    shapes: tuple[Shape, ...]
    links: tuple[Link, ...]
    arrows: tuple[Arrow, ...]
    frames: tuple[int, ...]
    extent: float
    camera: Camera
    ground: float


@dataclass(frozen=True)
class Placement:
    """Where the parts of a scene are at N configurations.

    `shapes` (N, nshapes, 4, 4) poses, `links` (N, nlinks, 2, 3) ends, `frames` (N, nframes, 4, 4) poses of all frames.
    """

    shapes: Array
    links: Array
    frames: Array


# ---- forward kinematics ---------------------------------------------------------------------------------------------


def frame_poses(model: Model, q: ArrayLike) -> Array:
    """Poses of all frames of the tree: q (nq,) or (N, nq) -> (nframes, 4, 4) or (N, nframes, 4, 4), world first.

    >>> from dalembert import Model, rz, tx
    >>> arm = Model([rz("a", tx(2.0, name="tip", mass=1.0))])
    >>> frame_poses(arm, [np.pi / 2])[arm.frame_index("tip")][:3, 3].round(12).tolist()
    [0.0, 2.0, 0.0]
    """
    table = np.asarray(q, dtype=float)
    single = table.ndim == 1
    table = np.atleast_2d(table)
    if table.ndim != 2 or table.shape[1] != model.nq:
        raise ValueError(f"q must have shape ({model.nq},) or (N, {model.nq}), not {np.shape(q)}")
    entries = model.frame_entries
    out = np.empty((len(table), len(entries), 4, 4))
    out[:, 0] = np.eye(4)
    # parents come before children (preorder), so one pass suffices at any depth
    for entry in entries[1:]:
        frame = entry.frame
        assert frame is not None
        parent = out[:, entry.parent]
        here = out[:, entry.index]
        if frame.transform == "se3":
            np.matmul(parent, np.array(frame.value), out=here)
            continue
        amount: Any = table[:, model.index(frame.variable)] if frame.variable is not None else frame.value
        axis = "xyz".index(frame.transform[1])
        here[...] = parent
        if frame.transform[0] == "t":
            here[:, :3, 3] += parent[:, :3, axis] * np.reshape(amount, (-1, 1))
            continue
        # a rotation about a parent axis mixes the two other columns
        i, j = (axis + 1) % 3, (axis + 2) % 3
        c, s = np.reshape(np.cos(amount), (-1, 1)), np.reshape(np.sin(amount), (-1, 1))
        here[:, :3, i] = c * parent[:, :3, i] + s * parent[:, :3, j]
        here[:, :3, j] = c * parent[:, :3, j] - s * parent[:, :3, i]
        if frame.pitch:
            here[:, :3, 3] += parent[:, :3, axis] * np.reshape(frame.pitch * np.asarray(amount), (-1, 1))
    return out[0] if single else out


def place(scene: Scene, q: ArrayLike) -> Placement:
    """Where everything is: q (N, nq) or (nq,) (then N = 1).

    >>> from dalembert import Model, rz, tx
    >>> scene = build_scene(Model([rz("a", tx(2.0, name="tip", mass=1.0))]))
    >>> place(scene, [[0.0], [1.0]]).links.shape
    (2, 1, 2, 3)
    """
    poses = frame_poses(scene.model, np.atleast_2d(np.asarray(q, dtype=float)))
    frames = [s.frame for s in scene.shapes]
    local = np.array([s.pose for s in scene.shapes]).reshape(-1, 4, 4)
    ends = np.array([link.frames for link in scene.links], dtype=int).reshape(-1, 2)
    points = poses[..., :3, 3][:, ends]
    a, b = points[:, :, 0], points[:, :, 1]
    span = np.array([link.span for link in scene.links]).reshape(-1, 2)
    links = np.stack([a + (b - a) * span[:, :1], a + (b - a) * span[:, 1:]], axis=2)
    return Placement(poses[:, frames] @ local, links, poses)


def arrow_vectors(scene: Scene, placement: Placement, u: ArrayLike) -> Array:
    """Forces (N) and torques (N m) of the arrows in world axes: u (N, nu) -> (N, narrows, 3).

    >>> from dalembert import Model, Wrench, tx
    >>> scene = build_scene(Model([tx("x", name="car", mass=1.0)], [Wrench("car", force=("push", 0, 0))]))
    >>> arrow_vectors(scene, place(scene, [[0.0]]), [[3.0]])[0, 0].tolist()
    [3.0, 0.0, 0.0]
    """
    table = np.atleast_2d(np.asarray(u, dtype=float))
    n = len(placement.frames)
    out = np.zeros((n, len(scene.arrows), 3))
    for k, arrow in enumerate(scene.arrows):
        for j, (value, is_input) in enumerate(zip(arrow.components, arrow.is_input, strict=True)):
            out[:, k, j] = table[:, int(value)] if is_input else value
        if arrow.axes == "body":
            out[:, k] = np.einsum("nij,nj->ni", placement.frames[:, arrow.frame, :3, :3], out[:, k])
    return out


# ---- from a model to a description ----------------------------------------------------------------------------------


def build_scene(model: Model, q: ArrayLike | None = None) -> Scene:
    """What to draw for a model. `q` (nq,) or (N, nq): configurations that must fit into the picture (default zeros).

    Bodies with `Visual`s show those; all others get spheres or inertia boxes for masses, rods along the tree and pins
    at the joints. Springs, dampers, strings, planes and wrenches come from the elements.

    >>> from dalembert import Model, rz, ty
    >>> scene = build_scene(Model([rz("a", ty(-1.0, name="bob", mass=1.0))]))
    >>> sorted({s.role for s in scene.shapes}), [link.kind for link in scene.links]
    (['joint', 'mass'], ['rod'])
    """
    table = np.zeros((1, model.nq)) if q is None else np.atleast_2d(np.asarray(q, dtype=float))
    if not np.isfinite(table).all():
        raise ValueError("q contains NaN or infinity")
    table = table[np.unique(np.linspace(0, len(table) - 1, 120).round().astype(int))]
    tree = _Tree(model)
    poses = frame_poses(model, table)
    points = poses[..., :3, 3][:, tree.shown]
    reach = _reach(tree, poses[0])
    extent = _extent(model, points)
    girth = _girth(tree, poses[0], extent)
    shapes: list[Shape] = []
    links: list[Link] = []
    heaviest = max((e.frame.mass for e in model.frame_entries if e.frame), default=0.0)
    for entry in model.frame_entries[1:]:
        frame = entry.frame
        assert frame is not None
        shapes += [_visual(v, entry.index) for v in frame.visuals if _readable(v)]
        if tree.has_visuals[tree.body[entry.index]]:
            continue
        if frame.mass > 0:
            shapes.append(_mass(frame, entry.index, extent, girth, heaviest, reach[tree.body[entry.index]]))
        start = tree.rod_start[entry.index]
        if start is not None:
            links.append(Link("rod", (start, entry.index), 0.010 * girth))
    for run in tree.joints:
        shapes_, links_ = _joint(model, tree, run, table, extent, girth)
        shapes += shapes_
        links += links_
    for element in model.elements:
        if isinstance(element, (LinearSpring, LinearDamper, Distance)):
            links += _stretched(model, element, poses, girth)
        elif isinstance(element, PointOnPlane):
            side = 0.8 * extent
            pose = _pose(_align_z(np.array(element.normal)), (0, 0, 0))
            at = model.frame_index(element.plane)
            shapes.append(Shape("plane", at, (side, side), pose, RAIL, "plane", alpha=0.35))
        elif isinstance(element, PointToPoint):
            at = model.frame_index(element.frame1)
            shapes.append(Shape("sphere", at, (0.015 * girth,), color=DARK, role="joint"))
    solid = [s for s in shapes if s.role in ("mass", "visual")]
    corners = [np.einsum("nij,kj->nki", poses[:, s.frame], _corners(s))[..., :3] for s in solid]
    camera, ground = _camera(model, poses, np.concatenate([points, *corners], axis=1), extent)
    shapes = list(dict.fromkeys(shapes))  # two rows of one joint are one marker
    arrows = [a for e in model.elements for a in _arrows(model, e, 0.012 * girth)]
    named = tuple(e.index for e in model.frame_entries if e.name is not None)
    return Scene(model, tuple(shapes), tuple(links), tuple(arrows), named, extent, camera, ground)


class _Tree:
    """Facts about the tree that decide what is drawn."""

    def __init__(self, model: Model) -> None:
        entries = model.frame_entries
        n = len(entries)
        children = [0] * n
        for e in entries[1:]:
            children[e.parent] += 1
        leads_to_joint = {e.parent for e in entries[1:] if e.frame is not None and e.frame.variable is not None}
        used = {model.frame_index(getattr(el, f)) for el in model.elements for f in el.FRAMES}
        # bodies: frames joined by constant transforms; body 0 is the ground
        self.body = [0] * n
        for e in entries[1:]:
            assert e.frame is not None
            self.body[e.index] = self.body[e.parent] if e.frame.variable is None else e.index
        self.has_visuals = [False] * n
        for e in entries[1:]:
            assert e.frame is not None
            if any(_readable(v) for v in e.frame.visuals):
                self.has_visuals[self.body[e.index]] = True

        def plain(e: Any) -> bool:  # a constant frame that only leads on to the next
            f = e.frame
            constant = f.variable is None and not f.mass and not f.visuals
            alone = children[e.index] == 1 and e.index not in leads_to_joint
            return constant and alone and e.index not in used and e.name is None

        # (frame, body) pairs whose distance tells how large a body is; a joint belongs to both of its bodies
        self.spans = [(e.index, self.body[e.index]) for e in entries[1:]]
        self.spans += [(e.index, self.body[e.parent]) for e in entries[1:] if self.body[e.index] == e.index]
        # rods: from the last frame that matters to the next one, within a moving body
        origin = list(range(n))
        offset = [False] * n  # is there a translation between origin and here?
        self.rod_start: list[int | None] = [None] * n
        for e in entries[1:]:
            f = e.frame
            assert f is not None
            p = e.parent
            if f.variable is not None:
                continue
            moved = _has_offset(f)
            through = p if origin[p] == p or not plain(entries[p]) else origin[p]
            carried = offset[p] if through != p else False
            origin[e.index] = through if plain(e) else e.index
            offset[e.index] = moved or carried
            if not plain(e) and (moved or carried) and self.body[e.index] != 0:
                self.rod_start[e.index] = through
        # joints: runs of variable frames at one place
        run_of: dict[int, int] = {}
        self.joints: list[list[int]] = []
        for e in entries[1:]:
            f = e.frame
            assert f is not None
            if f.variable is None:
                continue
            above = entries[e.parent].frame
            joined = e.parent in run_of and above is not None and not above.mass and not above.visuals
            if joined and children[e.parent] == 1:
                run_of[e.index] = run_of[e.parent]
                self.joints[run_of[e.index]].append(e.index)
            else:
                run_of[e.index] = len(self.joints)
                self.joints.append([e.index])
        shown = {e.index for e in entries[1:] if e.frame and (e.frame.mass or e.frame.visuals)}
        shown |= used | {i for i, s in enumerate(self.rod_start) if s is not None}
        shown |= {s for s in self.rod_start if s is not None}
        shown |= {run[0] for run in self.joints if self._is_hinge(entries, run)}
        self.shown = sorted(shown - {0} or {0})

    @staticmethod
    def _is_hinge(entries: Any, run: list[int]) -> bool:
        return all(entries[i].frame.transform[0] == "r" for i in run)


def _has_offset(frame: Frame) -> bool:
    if frame.transform == "se3":
        return any(row[3] for row in frame.value[:3])  # type: ignore[index,union-attr,misc]
    return frame.transform[0] == "t" and bool(frame.value)


def _reach(tree: _Tree, poses: Array) -> Array:
    """Distance from the first frame of each body to its farthest frame or joint, (nframes,) by first frame."""
    reach = np.zeros(len(poses))
    for i, start in tree.spans:
        reach[start] = max(reach[start], float(np.linalg.norm(poses[i, :3, 3] - poses[start, :3, 3])))
    return reach


def _extent(model: Model, points: Array) -> float:
    """Size of the mechanism: the middle over time of its diagonal, or the size of its bodies."""
    sizes = [float(np.median(np.linalg.norm(np.ptp(points, axis=1), axis=-1)))]
    for e in model.frame_entries[1:]:
        assert e.frame is not None
        if e.frame.mass > 0 and any(e.frame.inertia) and not sizes[0] > 0:
            sizes.append(float(np.linalg.norm(_inertia_box(e.frame)[0])))
        for v in e.frame.visuals:
            sizes.append(_visual_size(v))
    largest = max(sizes)
    return largest if largest > 1e-9 else 1.0


def _girth(tree: _Tree, poses: Array, extent: float) -> float:
    """The length that thicknesses are taken from: the extent, less when the links are short against it."""
    rods = [np.linalg.norm(poses[i, :3, 3] - poses[s, :3, 3]) for i, s in enumerate(tree.rod_start) if s is not None]
    return max(min(extent, 4.0 * float(np.quantile(rods, 0.9))), 0.25 * extent) if rods else extent


def _camera(model: Model, poses: Array, points: Array, extent: float) -> tuple[Camera, float]:
    """Look at the plane of motion from the front when there is one, from a corner otherwise."""
    gravity = sum((np.array(e.acceleration) for e in model.elements if isinstance(e, Gravity)), np.zeros(3))
    cloud = points.reshape(-1, 3)
    low, high = cloud.min(axis=0), cloud.max(axis=0)
    normal = _plane_of_motion(model, poses)
    if np.linalg.norm(gravity) > 0:
        up = -gravity / np.linalg.norm(gravity)
    else:
        up = np.array([0.0, 1.0, 0.0]) if normal is not None and abs(normal[2]) > 0.9 else np.array([0.0, 0.0, 1.0])
    if normal is not None and abs(normal @ up) < 0.5:
        front = normal - (normal @ up) * up
        front /= np.linalg.norm(front)
        right = np.cross(up, front)
        if right[np.argmax(np.abs(right))] < 0:  # the positive axis goes to the right
            front, right = -front, -right
        azimuth, elevation = 0.26, 0.16
    else:
        front = np.cross(np.roll(np.abs(up).round(), 1), up)
        front = front / np.linalg.norm(front) if np.linalg.norm(front) > 0.1 else np.cross(up, [0.6, 0.8, 0.0])
        front /= np.linalg.norm(front)
        right = np.cross(up, front)
        azimuth, elevation = 0.55, 0.32
    if np.linalg.norm(high - low) <= 5 * extent:
        target, follow = (low + high) / 2, False
        radius = 0.58 * max(float(np.linalg.norm(high - low)), extent)  # with a margin for the bodies themselves
    else:  # it runs away: keep to the start
        target, radius, follow = points[0].mean(axis=0), 1.2 * extent, True
    direction = math.cos(elevation) * (math.cos(azimuth) * front + math.sin(azimuth) * right) + math.sin(elevation) * up
    ground = float(max((cloud @ up).min(), target @ up - 2.5 * extent) - 0.06 * extent)
    return Camera(_triple(direction), _triple(target), _triple(up), radius, follow), ground


def _corners(shape: Shape) -> Array:
    """The corners of a box around a shape, homogeneous in its frame: (8 or more, 4)."""
    found = []
    for solid, local in solids_of(shape):
        vertices = triangles(solid)[0]
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        box = np.array(
            [[x, y, z, 1.0] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])]
        )
        found.append(box @ (np.array(shape.pose) @ local).T)
    return np.concatenate(found)


def _plane_of_motion(model: Model, poses: Array) -> Array | None:
    """The common axis of all rotations, when all translations are perpendicular to it; None for motion in space."""
    turns: list[Array] = []
    slides: list[Array] = []
    for e in model.frame_entries[1:]:
        if e.frame is not None and e.frame.variable is not None:
            axis = poses[0, e.index, :3, "xyz".index(e.frame.transform[1])]
            (turns if e.frame.transform[0] == "r" else slides).append(axis)
            if e.frame.pitch:
                slides.append(axis)
    if not turns:
        return None
    normal: Array = turns[0]
    in_plane = all(abs(normal @ a) > 1 - 1e-9 for a in turns) and all(abs(normal @ a) < 1e-9 for a in slides)
    return normal if in_plane else None


def _mass(frame: Frame, index: int, extent: float, girth: float, heaviest: float, reach: float) -> Shape:
    """A box of the same inertia when it suits the size of the body, else a sphere that grows with the mass."""
    if any(frame.inertia):
        sides, axes = _inertia_box(frame)
        spans = reach > 0.02 * extent  # a body that reaches from joint to joint is slender
        bulky = spans and np.prod(np.maximum(sides, 1e-3 * reach)) > (0.35 * reach) ** 3
        if 0.02 * extent < sides.max() <= (1.3 * reach if spans else extent) and not bulky:
            sides = np.maximum(sides, 0.015 * girth)
            return Shape("box", index, tuple(float(s) for s in sides), _pose(axes, frame.com))
    radius = 0.029 * girth * max((frame.mass / heaviest) ** (1 / 3), 0.35)
    return Shape("sphere", index, (float(radius),), _pose(np.eye(3), frame.com))


def _inertia_box(frame: Frame) -> tuple[Array, Array]:
    """Sides (3,) and axes (3, 3) of the uniform box with the frame's mass and inertia."""
    xx, yy, zz, xy, xz, yz = frame.inertia
    if not (xy or xz or yz):
        moments, axes = np.array([xx, yy, zz]), np.eye(3)
    else:
        moments, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        if np.linalg.det(axes) < 0:
            axes[:, 0] *= -1
    squares = 6.0 / frame.mass * (moments.sum() - 2.0 * moments)
    return np.sqrt(np.maximum(squares, 0.0)), axes


def _joint(
    model: Model, tree: _Tree, run: list[int], q: Array, extent: float, girth: float
) -> tuple[list[Shape], list[Link]]:
    """A pin for a hinge, a ball for several rotations, a rail or a telescope for a slider, nothing for the rest."""
    entries = model.frame_entries
    first, last = entries[run[0]], entries[run[-1]]
    frames = [f for f in (entries[i].frame for i in run) if f is not None]
    parent_body = tree.body[first.parent]
    if tree.has_visuals[parent_body] or tree.has_visuals[tree.body[last.index]]:
        return [], []
    grounded = parent_body == 0
    kinds = [f.transform for f in frames]
    axis = np.eye(3)["xyz".index(kinds[0][1])]
    big = 1.25 if grounded else 1.0
    if all(k[0] == "r" for k in kinds):
        if len(run) == 1:
            size = (0.0145 * girth * big, 0.046 * girth * big)
            return [Shape("cylinder", last.index, size, _pose(_align_z(axis), (0, 0, 0)), DARK, "joint")], []
        return [Shape("sphere", last.index, (0.018 * girth * big,), color=DARK, role="joint")], []
    if len(run) == 1:
        if not grounded:
            return [], [Link("rod", (first.parent, last.index), 0.006 * girth, STEEL)]
        values = q.T[model.index(frames[0].variable or "")]
        low, high = float(values.min()), float(values.max())
        if high - low > 20 * extent:
            return [], []
        size = (0.006 * girth, (high - low) + 0.9 * extent)
        pose = _pose(_align_z(axis), axis * (low + high) / 2)
        return [Shape("cylinder", first.parent, size, pose, RAIL, "rail")], []
    return [], []


def _stretched(model: Model, element: Any, poses: Array, girth: float) -> list[Link]:
    ends = (model.frame_index(element.frame1), model.frame_index(element.frame2))
    if isinstance(element, LinearSpring):
        usual = float(np.median(np.linalg.norm(poses[:, ends[0], :3, 3] - poses[:, ends[1], :3, 3], axis=-1)))
        turns = int(np.clip(round(18 * (element.rest_length or usual) / girth), 6, 14))
        radius = 0.028 * girth
        return [Link("spring", ends, radius, SPRING, turns=turns, aspect=round(radius / max(usual, radius), 3))]
    if isinstance(element, LinearDamper):
        return [
            Link("damper", ends, 0.006 * girth, STEEL, span=(0.0, 0.1)),
            Link("damper", ends, 0.006 * girth, STEEL, span=(0.5, 1.0)),
            Link("damper", ends, 0.020 * girth, DARK, span=(0.1, 0.5)),
        ]
    if isinstance(element.length, float):
        return [Link("rod", ends, 0.008 * girth, STEEL)]
    return [Link("string", ends, 0.0035 * girth, STRING)]


def _arrows(model: Model, element: Any, radius: float) -> list[Arrow]:
    found: list[tuple[str, int, tuple[Any, ...], str]] = []
    if isinstance(element, Wrench):
        at = model.frame_index(element.frame)
        found = [("force", at, element.force, element.axes), ("torque", at, element.torque, element.axes)]
    elif isinstance(element, ConfigForce):
        # the axis of a joint is the same seen from both of its sides
        for e in model.frame_entries[1:]:
            if e.frame is not None and e.frame.variable == element.variable:
                parts = [element.input if c == e.frame.transform[1] else 0.0 for c in "xyz"]
                found = [("force" if e.frame.transform[0] == "t" else "torque", e.index, tuple(parts), "body")]
    out = []
    for kind, at, parts3, axes in found:
        if any(isinstance(p, str) or p for p in parts3):
            values = tuple(model.input_index(p) if isinstance(p, str) else float(p) for p in parts3)
            flags = tuple(isinstance(p, str) for p in parts3)
            out.append(Arrow(kind, at, values, flags, axes, radius))  # type: ignore[arg-type]
    return out


def _visual(visual: Visual, index: int) -> Shape:
    pose = visual.pose if visual.pose is not None else _IDENTITY
    color = _triple(visual.color[:3]) if visual.color is not None else None
    alpha = float(visual.color[3]) if visual.color is not None and len(visual.color) > 3 else 1.0
    size = visual.size or (1.0, 1.0, 1.0)  # a mesh without a scale
    return Shape(visual.kind, index, size, pose, color, "visual", visual.mesh, alpha)


def _readable(visual: Visual) -> bool:
    """Bodies whose only pictures are missing files are drawn like bodies without pictures."""
    return visual.kind != "mesh" or load_mesh(visual.mesh or "") is not None


def _visual_size(visual: Visual) -> float:
    if visual.kind == "mesh":
        mesh = load_mesh(visual.mesh or "")
        if mesh is None:
            return 0.0
        return float(np.linalg.norm(np.ptp(mesh[0], axis=0) * np.array(visual.size or (1.0, 1.0, 1.0))))
    if visual.kind == "box":
        return float(np.linalg.norm(visual.size))
    return 2.0 * visual.size[0] + (visual.size[1] if len(visual.size) > 1 else 0.0)


@lru_cache(maxsize=256)
def load_mesh(path: str) -> tuple[Array, NDArray[np.int64]] | None:
    """Vertices (V, 3) and triangles (F, 3) of a mesh file (STL, OBJ, GLB ... through trimesh), None if unreadable.

    Very fine meshes are simplified; DAE files need the package pycollada.
    """
    import trimesh

    try:
        mesh: Any = trimesh.load(path, force="mesh")
        vertices, faces = simplified(np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int64), 12_000)
        mesh = trimesh.graph.smooth_shade(
            trimesh.Trimesh(vertices, faces, process=True), angle=0.6
        )  # keeps edges sharp
        vertices, faces = np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int64)
    except Exception:  # a missing or broken picture must never stop a motion from being seen
        return None
    return (vertices, faces) if len(faces) and np.isfinite(vertices).all() else None


def simplified(vertices: Array, faces: NDArray[np.int64], limit: int) -> tuple[Array, NDArray[np.int64]]:
    """At most about `limit` triangles: vertices that share a cell of a grid become one, their mean.

    >>> v, f = simplified(*sphere(60, 60), 500)
    >>> 100 < len(f) <= 500
    True
    """
    if len(faces) <= limit:
        return vertices, faces
    low, size = vertices.min(axis=0), float(np.ptp(vertices, axis=0).max()) or 1.0
    cells = 256.0
    while True:  # coarser and coarser
        keys = np.floor((vertices - low) / size * cells).astype(np.int64)
        _, where, count = np.unique(keys @ np.array([1, 2048, 2048**2]), return_inverse=True, return_counts=True)
        kept = where[faces]
        kept = kept[(kept[:, 0] != kept[:, 1]) & (kept[:, 1] != kept[:, 2]) & (kept[:, 2] != kept[:, 0])]
        if len(kept) <= limit or cells < 4:
            break
        cells *= 0.8
    means = np.stack([np.bincount(where, vertices[:, k]) / count for k in range(3)], axis=1)
    return means, kept


# ---- triangles ------------------------------------------------------------------------------------------------------

Solid = tuple[Any, ...]  # (kind,), ("coil", turns, aspect) or ("mesh", path)


def solids_of(part: Shape | Link) -> list[tuple[Solid, Array]]:
    """The unit solids that make up a part, each with its 4x4 placement (rotation, scale, shift).

    A shape's placement is from its pose, a link's from its first to its second end along z.

    >>> [solid for solid, _ in solids_of(Shape("capsule", 0, (0.1, 1.0)))]
    [('cylinder',), ('sphere',), ('sphere',)]
    """
    if isinstance(part, Link):
        solid: Solid = ("coil", part.turns, part.aspect) if part.kind == "spring" else ("cylinder",)
        return [(solid, _scaled(part.radius, part.radius, 1.0))]
    size = part.size
    if part.kind == "sphere":
        return [(("sphere",), _scaled(size[0], size[0], size[0]))]
    if part.kind == "box":
        return [(("box",), _scaled(*size[:3]))]
    if part.kind == "plane":
        return [(("box",), _scaled(size[0], size[1], 0.004 * size[0]))]
    if part.kind == "mesh":
        return [(("mesh", part.mesh or ""), _scaled(*size[:3]))]
    radius, length = size[:2]
    tube = [(("cylinder",), _scaled(radius, radius, length, -length / 2))]
    if part.kind == "cylinder":
        return tube
    return tube + [(("sphere",), _scaled(radius, radius, radius, z)) for z in (-length / 2, length / 2)]


def _scaled(x: float, y: float, z: float, shift: float = 0.0) -> Array:
    m = np.diag([x, y, z, 1.0])
    m[2, 3] = shift
    return m


@lru_cache(maxsize=256)
def triangles(solid: Solid) -> tuple[Array, NDArray[np.int64]]:
    """Vertices (V, 3) and triangles (F, 3) of a unit solid.

    Kinds: sphere, box, cylinder, tube, cone, coil (radius 1 or sides 1; z in 0..1 for the long ones), mesh.

    Vertices at sharp edges are doubled, so that normals averaged at the vertices look right.

    >>> triangles(("box",))[1].shape
    (12, 3)
    """
    kind = solid[0]
    if kind == "mesh":
        mesh = load_mesh(solid[1])
        if mesh is None:
            raise ModelError(f"cannot read mesh {solid[1]!r}", culprit=solid[1])
        return mesh
    if kind == "box":
        square = np.array([[-0.5, -0.5, 0.5], [0.5, -0.5, 0.5], [0.5, 0.5, 0.5], [-0.5, 0.5, 0.5]])
        sides = [np.roll(square, k, axis=1) for k in range(3)]
        sides += [-side[::-1] for side in sides]
        faces = [[4 * k + a, 4 * k + b, 4 * k + c] for k in range(6) for a, b, c in ((0, 1, 2), (0, 2, 3))]
        return np.concatenate(sides), np.array(faces)
    if kind == "sphere":
        return sphere(17, 29)
    if kind == "tube":  # a cylinder without ends
        ph, z = np.meshgrid(np.linspace(0, 2 * np.pi, 11), [1.0, 0.0])
        return np.stack([np.cos(ph), np.sin(ph), z], axis=-1).reshape(-1, 3), _grid_faces(2, 11)
    if kind in ("cylinder", "cone"):
        ph = np.linspace(0, 2 * np.pi, 29)
        ring = np.stack([np.cos(ph), np.sin(ph), 0 * ph], axis=-1)
        top = ring * (1.0 if kind == "cylinder" else 1e-3) + [0, 0, 1]
        strips = [(top * [0, 0, 1], top), (top, ring), (ring, ring * 0)]
        v = np.concatenate([np.concatenate(strip) for strip in strips])
        return v, np.concatenate([_grid_faces(2, 29) + 58 * k for k in range(3)])
    if kind == "coil":
        turns, aspect = solid[1:]
        n, m, wire, lead = 18 * turns + 1, 9, 0.16, 0.1  # lead: share of the straight ends
        s = np.linspace(0, 1, n)
        angle = 2 * np.pi * turns * np.clip((s - lead) / (1 - 2 * lead), 0, 1)
        radius = np.clip(np.minimum(s, 1 - s) / lead * 2 - 1, 0, 1)
        outward = np.stack([np.cos(angle), np.sin(angle), 0 * s], axis=-1)
        centre = outward * radius[:, None] + np.stack([0 * s, 0 * s, s], axis=-1)
        a = np.linspace(0, 2 * np.pi, m)
        along = np.where(radius < 1, 0.0, 1.0)  # the wire runs around the axis, at its ends along the axis
        sideways = np.cross(np.array([0.0, 0.0, 1.0]), outward)
        second = along[:, None] * np.array([0.0, 0.0, aspect]) + (1 - along[:, None]) * sideways
        tube = np.cos(a)[None, :, None] * outward[:, None] + np.sin(a)[None, :, None] * second[:, None]
        return (centre[:, None] + wire * tube).reshape(-1, 3), _grid_faces(n, m)
    raise ValueError(f"no such solid: {kind!r}")


def sphere(rings: int, columns: int) -> tuple[Array, NDArray[np.int64]]:
    """A unit sphere of rings x columns vertices: vertices (V, 3), triangles (F, 3)."""
    th, ph = np.meshgrid(np.linspace(0, np.pi, rings), np.linspace(0, 2 * np.pi, columns), indexing="ij")
    v = np.stack([np.sin(th) * np.cos(ph), np.sin(th) * np.sin(ph), np.cos(th)], axis=-1)
    return v.reshape(-1, 3), _grid_faces(rings, columns)


def _grid_faces(rows: int, columns: int) -> NDArray[np.int64]:
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    a = (i * columns + j).ravel()
    b, c, d = a + 1, a + columns + 1, a + columns
    return np.concatenate([np.stack([a, d, c], axis=-1), np.stack([a, c, b], axis=-1)])


# ---- small helpers --------------------------------------------------------------------------------------------------


def rgb(color: str) -> Color:
    """'#rrggbb' -> (r, g, b) in 0..1.

    >>> rgb("#ff0000")
    (1.0, 0.0, 0.0)
    """
    return _triple([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def tinted(part: Shape | Link, tint: Color, overlay: bool) -> Color:
    """The colour of a part for a trajectory of colour `tint`; in an overlay every part shows whose it is."""
    own = part.color
    if own is None and isinstance(part, Shape) and part.role == "visual" and not overlay:
        return (0.78, 0.80, 0.83)
    if own is None:
        if isinstance(part, Link) and not overlay:
            return STEEL
        own = tint
        share = 0.25 if isinstance(part, Link) else 0.0
    else:
        share = 0.0
        if overlay and not (isinstance(part, Shape) and part.role in ("rail", "plane")):
            own = _triple(0.35 * np.array(own) + 0.65 * np.array(tint))
    return _triple((1 - share) * np.array(own) + share)


def between(a: Array, b: Array) -> tuple[Array, Array]:
    """Rotation (..., 3, 3) whose z axis points from a to b, and the distance (...)."""
    d = b - a
    length = np.linalg.norm(d, axis=-1)
    z = np.where(length[..., None] > 1e-12, d / np.maximum(length, 1e-12)[..., None], np.array([0.0, 0.0, 1.0]))
    helper = np.where(np.abs(z[..., :1]) < 0.9, np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    x = np.cross(helper, z)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=-1), length


def quaternions(rotation: Array) -> Array:
    """Rotation matrices (..., 3, 3) -> unit quaternions (..., 4) as w, x, y, z.

    >>> quaternions(np.eye(3)).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    m = np.asarray(rotation, dtype=float)
    xx, yy, zz = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    # the largest of the four squares keeps the division safe
    squares = np.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], axis=-1)
    pick = np.argmax(squares, axis=-1)
    k = np.zeros((*m.shape[:-2], 4, 4))
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    for i, row in enumerate(
        ((squares[..., 0], a, b, c), (a, squares[..., 1], d, e), (b, d, squares[..., 2], f), (c, e, f, squares[..., 3]))
    ):
        k[..., i, :] = np.stack(row, axis=-1)
    q = np.take_along_axis(k, pick[..., None, None], axis=-2)[..., 0, :]
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _align_z(direction: Array) -> Array:
    return between(np.zeros(3), np.asarray(direction, dtype=float))[0]


def _pose(rotation: Array, origin: Sequence[float] | Array) -> Pose:
    rows = [tuple(float(x) for x in (*rotation[i], origin[i])) for i in range(3)]
    return (*rows, (0.0, 0.0, 0.0, 1.0))


def _triple(v: Any) -> tuple[float, float, float]:
    return (float(v[0]), float(v[1]), float(v[2]))
