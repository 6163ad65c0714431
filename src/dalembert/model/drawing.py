"""What elements look like, in plain words: parts that viewers turn into pictures. Nothing here knows a screen, a size or a colour."""

from __future__ import annotations

from dataclasses import dataclass

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Down:
    """Something pulls everything along `acceleration` (world axes): pictures stand upright."""

    acceleration: Triple


@dataclass(frozen=True)
class Between:
    """A "spring", "damper", "rod" or "string" from the origin of one frame to that of another.

    `length` (m) is what a spring measures when nobody pulls, 0 if that says nothing.
    """

    look: str
    frame1: str
    frame2: str
    length: float = 0.0


@dataclass(frozen=True)
class Spiral:
    """A torsion spring: a flat coil about `axis` (in the axes of `frame1`) at the origin of frame1, and an arm to frame2."""

    frame1: str
    frame2: str
    axis: Triple


@dataclass(frozen=True)
class Pin:
    """A point where a frame is held."""

    frame: str


@dataclass(frozen=True)
class Surface:
    """A plane through a frame's origin; `normal` in its axes. `floor`: something stands on it, so that it may be the ground of a picture."""

    frame: str
    normal: Triple
    floor: bool = False


@dataclass(frozen=True)
class Round:
    """A wheel about `axis` (in the frame's axes), or a ball where that is zero, with its centre at a frame's origin, marked so that
    one sees it turn."""

    frame: str
    radius: float
    axis: Triple


@dataclass(frozen=True)
class Push:
    """A "force" (N) or "torque" (N m) at a frame, by name or index in `Model.frame_entries`.

    Each component is a number or the name of an input. `axes`: "body" for the frame's axes, else world axes.
    """

    look: str
    frame: str | int
    components: tuple[float | str, ...]
    axes: str = "body"


Part = Down | Between | Spiral | Pin | Surface | Round | Push
