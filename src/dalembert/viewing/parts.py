"""The parts that elements ask for (`dalembert.model.drawing`), as pieces of a scene with their sizes and colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model import Model
from ..model.drawing import Between, Down, Part, Pin, Push, Round, Spiral, Surface
from .geometry import Array, align_z, pose_of
from .scene import DARK, RAIL, SPRING, STEEL, STRING, Arrow, Link, Shape

Piece = Shape | Link | Arrow


@dataclass(frozen=True)
class _Sizes:
    """What sizes follow from: poses (N, nframes, 4, 4) of the configurations to be seen, size and thickness of the mechanism (m)."""

    model: Model
    poses: Array
    extent: float
    girth: float


def pictured(part: Part, model: Model, poses: Array, extent: float, girth: float) -> list[Piece]:
    """The pieces of a scene that show a part; poses (N, nframes, 4, 4), extent and girth in metres.

    >>> from dalembert import Model, poses, tx
    >>> car = Model([tx("x", name="car", mass=1.0)])
    >>> [piece.kind for piece in pictured(Pin("car"), car, poses(car, [[0.0]]), 1.0, 1.0)]
    ['sphere']
    """
    return _PICTURES[type(part)](part, _Sizes(model, poses, extent, girth))


def _between(part: Between, s: _Sizes) -> list[Piece]:
    ends = (s.model.frame_index(part.frame1), s.model.frame_index(part.frame2))
    if part.look == "spring":
        usual = _distance(ends, s)
        turns = int(np.clip(round(18 * (part.length or usual) / s.girth), 6, 14))
        radius = 0.028 * s.girth
        return [Link("spring", ends, radius, SPRING, turns=turns, aspect=round(radius / max(usual, radius), 3))]
    if part.look == "damper":
        return [
            Link("damper", ends, 0.006 * s.girth, STEEL, span=(0.0, 0.1)),
            Link("damper", ends, 0.006 * s.girth, STEEL, span=(0.5, 1.0)),
            Link("damper", ends, 0.020 * s.girth, DARK, span=(0.1, 0.5)),
        ]
    if part.look == "rod":
        return [Link("rod", ends, 0.008 * s.girth, STEEL)]
    return [Link("string", ends, 0.0035 * s.girth, STRING)]


def _distance(ends: tuple[int, int], s: _Sizes) -> float:
    """The usual distance of two frames."""
    return float(np.median(np.linalg.norm(s.poses[:, ends[0], :3, 3] - s.poses[:, ends[1], :3, 3], axis=-1)))


def _spiral(part: Spiral, s: _Sizes) -> list[Piece]:
    ends = (s.model.frame_index(part.frame1), s.model.frame_index(part.frame2))
    pose = pose_of(align_z(part.axis), (0, 0, 0))
    coil: list[Piece] = [Shape("spiral", ends[0], (0.05 * s.girth,), pose, SPRING, "spring")]
    if _distance(ends, s) > 0.02 * s.girth:  # an arm to where it holds the other frame
        coil.append(Link("rod", ends, 0.005 * s.girth, SPRING))
    return coil


def _pin(part: Pin, s: _Sizes) -> list[Piece]:
    return [Shape("sphere", s.model.frame_index(part.frame), (0.015 * s.girth,), color=DARK, role="joint")]


def _surface(part: Surface, s: _Sizes) -> list[Piece]:
    side, pose = 0.8 * s.extent, pose_of(align_z(part.normal), (0, 0, 0))
    return [Shape("plane", s.model.frame_index(part.frame), (side, side), pose, RAIL, "plane", alpha=0.35)]


def _round(part: Round, s: _Sizes) -> list[Piece]:
    at, r = s.model.frame_index(part.frame), part.radius
    if not any(part.axis):  # caps at the ends of an axis
        caps = [pose_of(np.eye(3), (0, 0, sign * 0.55 * r)) for sign in (1, -1)]
        return [Shape("sphere", at, (r,)), *(Shape("sphere", at, (0.6 * r,), cap, DARK, "joint") for cap in caps)]
    turned = align_z(part.axis)
    tyre = Shape("cylinder", at, (r, 0.08 * r), pose_of(turned, (0, 0, 0)))
    spokes = [(1.7 * r, 0.1 * r, 0.12 * r), (0.1 * r, 1.7 * r, 0.12 * r)]
    return [tyre, *(Shape("box", at, size, pose_of(turned, (0, 0, 0)), DARK, "joint") for size in spokes)]


def _push(part: Push, s: _Sizes) -> list[Piece]:
    if not any(part.components):
        return []
    at = s.model.frame_index(part.frame) if isinstance(part.frame, str) else part.frame
    values = tuple(s.model.input_index(c) if isinstance(c, str) else float(c) for c in part.components)
    flags = tuple(isinstance(c, str) for c in part.components)
    return [Arrow(part.look, at, values, flags, part.axes, 0.012 * s.girth)]  # type: ignore[arg-type]


_PICTURES: dict[type, Callable[[Any, _Sizes], list[Piece]]] = {
    Between: _between,
    Down: lambda part, s: [],  # only the camera minds
    Pin: _pin,
    Push: _push,
    Round: _round,
    Spiral: _spiral,
    Surface: _surface,
}
