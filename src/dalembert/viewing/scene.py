"""The description of a picture: what is drawn (`Scene`) and where its parts are for a configuration (`Placement`).

Nothing here knows a screen. The browser viewer, the HTML page and the films all read the same description, so that a
model looks the same everywhere. Lengths are metres, angles radians, colours RGB in 0..1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..mechanics import poses as poses_of
from ..model import Model
from .geometry import IDENTITY, Array, Pose, triple

Color = tuple[float, float, float]

# One palette for scenes and figures, readable with the common colour deficiencies.
PALETTE: tuple[str, ...] = ("#2f6fb7", "#e07b39", "#3a9a6b", "#b6497c", "#7a63b8", "#c2a12f", "#4aa3b5", "#7d7d7d")
STEEL: Color = (0.62, 0.66, 0.71)
DARK: Color = (0.22, 0.25, 0.30)
STRING: Color = (0.45, 0.40, 0.34)
SPRING: Color = (0.80, 0.58, 0.20)
FORCE: Color = (0.85, 0.20, 0.22)
TORQUE: Color = (0.60, 0.25, 0.70)
RAIL: Color = (0.72, 0.75, 0.79)


@dataclass(frozen=True)
class Shape:
    """A solid that moves with a frame.

    `kind` and `size`: sphere (radius,), box (x, y, z sides), cylinder and capsule (radius, length along z), mesh (scale
    x, y, z; file in `mesh`), plane (side, side; thin, translucent, normal z), spiral (radius; a flat coil about z). `pose`
    is 4x4 from the frame. `color` None means the colour of the trajectory. `role` says why it is there: mass, joint, rail,
    plane, spring, visual.
    """

    kind: str
    frame: int
    size: tuple[float, ...]
    pose: Pose = IDENTITY
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


def place(scene: Scene, q: ArrayLike) -> Placement:
    """Where everything is: q (N, nq) or (nq,) (then N = 1).

    >>> from dalembert import Model, rz, tx
    >>> from dalembert.viewing import build_scene
    >>> scene = build_scene(Model([rz("a", tx(2.0, name="tip", mass=1.0))]))
    >>> place(scene, [[0.0], [1.0]]).links.shape
    (2, 1, 2, 3)
    """
    poses = poses_of(scene.model, np.atleast_2d(np.asarray(q, dtype=float)))
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
    >>> from dalembert.viewing import build_scene
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


def rgb(color: str) -> Color:
    """'#rrggbb' -> (r, g, b) in 0..1.

    >>> rgb("#ff0000")
    (1.0, 0.0, 0.0)
    """
    return triple([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


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
            own = triple(0.35 * np.array(own) + 0.65 * np.array(tint))
    return triple((1 - share) * np.array(own) + share)
