"""From a model to the description of what is drawn: sizes, joints, masses, the parts that elements ask for, the camera."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..mechanics import poses as poses_of
from ..model import Frame, Model, Visual
from ..model.drawing import Down, Part, Round, Surface
from ..model.frames import TURN
from .geometry import IDENTITY, Array, align_z, pose_of, triple
from .meshes import load_mesh, name_lost
from .parts import pictured
from .scene import DARK, RAIL, STEEL, Arrow, Camera, Link, Scene, Shape
from .solids import solids_of, triangles


def build_scene(model: Model, q: ArrayLike | None = None) -> Scene:
    """What to draw for a model. `q` (nq,) or (N, nq): configurations that must fit into the picture (default: the neutral one).

    Bodies with `Visual`s show those; all others get spheres or inertia boxes for masses, rods along the tree and pins
    at the joints. Springs, dampers, strings, planes and wrenches come from the elements.

    >>> from dalembert import Model, rz, ty
    >>> scene = build_scene(Model([rz("a", ty(-1.0, name="bob", mass=1.0))]))
    >>> sorted({s.role for s in scene.shapes}), [link.kind for link in scene.links]
    (['joint', 'mass'], ['rod'])
    """
    table = model.neutral()[None] if q is None else np.atleast_2d(np.asarray(q, dtype=float))
    if not np.isfinite(table).all():
        raise ValueError("q contains NaN or infinity")
    table = table[np.unique(np.linspace(0, len(table) - 1, 120).round().astype(int))]
    visuals = [v for e in model.frame_entries[1:] if e.frame is not None for v in e.frame.visuals]
    name_lost(v.mesh or "" for v in visuals if v.kind == "mesh")
    tree = _Tree(model)
    poses = poses_of(model, table)
    points = poses[..., :3, 3][:, tree.shown]
    reach = _reach(tree, poses[0])
    extent = _extent(model, points)
    girth = _girth(tree, poses[0], extent)
    shapes: list[Shape] = []
    links: list[Link] = []
    parts = [part for e in model.elements for part in e.draw(model)]
    round_ones = {model.frame_index(part.frame) for part in parts if isinstance(part, Round)}  # they show their mass
    heaviest = max((e.frame.mass for e in model.frame_entries if e.frame), default=0.0)
    for entry in model.frame_entries[1:]:
        frame = entry.frame
        assert frame is not None
        shapes += [_visual(v, entry.index) for v in frame.visuals if _readable(v)]
        if tree.has_visuals[tree.body[entry.index]]:
            continue
        if frame.mass > 0 and entry.index not in round_ones:
            shapes.append(_mass(frame, entry.index, extent, girth, heaviest, reach[tree.body[entry.index]]))
        start = tree.rod_start[entry.index]
        if start is not None:
            links.append(Link("rod", (start, entry.index), 0.010 * girth))
    for run in tree.joints:
        shapes_, links_ = _joint(model, tree, run, table, extent, girth)
        shapes += shapes_
        links += links_
    pieces = [(part, pictured(part, model, poses, extent, girth)) for part in parts]
    solid = [
        s
        for s in (*shapes, *(x for _, found in pieces for x in found if isinstance(x, Shape)))
        if s.role in ("mass", "visual")
    ]
    corners = [np.einsum("nij,kj->nki", poses[:, s.frame], _corners(s))[..., :3] for s in solid]
    camera, ground = _camera(model, _up(parts), poses, np.concatenate([points, *corners], axis=1), extent)
    floors = [part for part in parts if _is_floor(part, camera, ground, extent)]
    if floors:  # wheels stand on the ground itself, not on a plate above it
        ground = 0.0
    drawn = [x for part, found in pieces if part not in floors for x in found]
    shapes += [x for x in drawn if isinstance(x, Shape)]
    links += [x for x in drawn if isinstance(x, Link)]
    shapes = list(dict.fromkeys(shapes))  # two rows of one joint are one marker
    arrows = [x for x in drawn if isinstance(x, Arrow)]
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
        used = {model.frame_index(name) for e in model.elements for name in e.frames}
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
        return all(_turns(entries[i].frame) for i in run)


def _turns(frame: Frame) -> bool:
    return frame.transform == TURN or frame.transform[0] == "r"


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


def _up(parts: Sequence[Part]) -> Array | None:
    """Against gravity; None without it."""
    down = sum((np.array(part.acceleration) for part in parts if isinstance(part, Down)), np.zeros(3))
    size = float(np.linalg.norm(down))
    return -down / size if size > 0 else None


def _is_floor(part: Part, camera: Camera, ground: float, extent: float) -> bool:
    """A level plane of the world, through its origin, on which things roll."""
    if not isinstance(part, Surface) or not part.floor or part.frame != "world" or ground < -0.3 * extent:
        return False
    normal = np.array(part.normal) / np.linalg.norm(part.normal)
    return bool(np.abs(normal - camera.up).max() < 1e-9)


def _camera(model: Model, up: Array | None, poses: Array, points: Array, extent: float) -> tuple[Camera, float]:
    """Look at the plane of motion from the front when there is one, from a corner otherwise."""
    cloud = points.reshape(-1, 3)
    low, high = cloud.min(axis=0), cloud.max(axis=0)
    normal = _plane_of_motion(model, poses)
    if up is None:
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
        target, radius, follow = points[0].mean(axis=0), 0.9 * extent, True
    direction = math.cos(elevation) * (math.cos(azimuth) * front + math.sin(azimuth) * right) + math.sin(elevation) * up
    ground = float(max((cloud @ up).min(), target @ up - 2.5 * extent) - 0.06 * extent)
    return Camera(triple(direction), triple(target), triple(up), radius, follow), ground


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
            if e.frame.transform == TURN:
                return None
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
            return Shape("box", index, tuple(float(s) for s in sides), pose_of(axes, frame.com))
    radius = 0.029 * girth * max((frame.mass / heaviest) ** (1 / 3), 0.35)
    return Shape("sphere", index, (float(radius),), pose_of(np.eye(3), frame.com))


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
    big = 1.25 if grounded else 1.0
    if all(map(_turns, frames)) and (len(run) > 1 or kinds[0] == TURN):
        return [Shape("sphere", last.index, (0.018 * girth * big,), color=DARK, role="joint")], []
    if len(run) == 1:
        axis = np.eye(3)["xyz".index(kinds[0][1])]
        if kinds[0][0] == "r":
            size = (0.0145 * girth * big, 0.046 * girth * big)
            return [Shape("cylinder", last.index, size, pose_of(align_z(axis), (0, 0, 0)), DARK, "joint")], []
        if not grounded:
            return [], [Link("rod", (first.parent, last.index), 0.006 * girth, STEEL)]
        values = q.T[model.index(frames[0].variable or "")]
        low, high = float(values.min()), float(values.max())
        if high - low > 20 * extent:
            return [], []
        size = (0.006 * girth, (high - low) + 0.9 * extent)
        pose = pose_of(align_z(axis), axis * (low + high) / 2)
        return [Shape("cylinder", first.parent, size, pose, RAIL, "rail")], []
    return [], []


def _visual(visual: Visual, index: int) -> Shape:
    pose = visual.pose if visual.pose is not None else IDENTITY
    color = triple(visual.color[:3]) if visual.color is not None else None
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
