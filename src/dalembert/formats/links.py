"""A model as links and joints, the shape in which URDF and MJCF think; used by their writers.

A link is a frame that has a name, mass or visuals, or where moving frames branch. On the way from one link to the next
stand constant transforms and elementary motions: C0 M1 C1 M2 ... Mn Cn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ModelError
from ..model import Frame, Kinematic, Model
from ..model.frames import TURN
from . import rigid
from .rigid import Array


@dataclass(frozen=True)
class Motion:
    """One elementary motion: "r" or "t" about or along axis 0, 1, 2, or "b", a ball (axis 0)."""

    kind: str
    axis: int
    variable: str


@dataclass(frozen=True)
class Link:
    """A link: its frame, the number of its parent link (0 is the world), `constants` C0 ... Cn, `motions` M1 ... Mn."""

    name: str
    frame: Frame | None
    parent: int
    constants: tuple[Array, ...]
    motions: tuple[Motion, ...]

    def starts_as(self, kinds: str, suffixes: tuple[str, ...]) -> str | None:
        """The prefix of a joint of several variables (`floating`, `planar`) that this link moves by, or None."""
        if len(self.motions) != len(suffixes) or not all(map(rigid.is_identity, self.constants[1:-1])):
            return None
        if "".join(m.kind + "xyz"[m.axis] for m in self.motions) != kinds:
            return None
        prefix = self.motions[0].variable.removesuffix(suffixes[0])
        good = prefix and all(m.variable == prefix + s for m, s in zip(self.motions, suffixes, strict=True))
        return prefix if good else None


def links_of(model: Model, format: str) -> list[Link]:
    """All links, parents first; number 0 is the world. Kinematic variables and screws are refused.

    >>> from dalembert import Model, rx, tz
    >>> [link.name for link in links_of(Model([rx("q", tz(-1.0, name="bob", mass=1.0))]), "URDF")]
    ['world', 'bob']
    """
    taken, copies = set(model.frame_names), dict[str, int]()
    links = [Link("world", None, 0, (np.eye(4),), ())]
    # for every frame: number of the nearest link at or above, and the way from there
    ways: list[tuple[int, tuple[Array, ...], tuple[Motion, ...]]] = [(0, (np.eye(4),), ())]
    for entry in model.frame_entries[1:]:
        f = entry.frame
        assert f is not None
        number, constants, motions = ways[entry.parent]
        if isinstance(f.value, Kinematic):
            raise ModelError(f"{f.label}: {format} has no kinematic variables ('{f.value.name}')", culprit=f.value.name)
        if f.pitch:
            raise ModelError(f"{f.label}: {format} has no screw joints", culprit=f.label)
        if isinstance(f.value, str):
            ball = f.transform == TURN
            motion = Motion(f.transform[0], 0 if ball else "xyz".index(f.transform[1]), f.value)
            constants, motions = (*constants, np.eye(4)), (*motions, motion)
        else:
            constants = (*constants[:-1], constants[-1] @ f.local_pose())
        special = f.name is not None or f.mass or any(f.inertia) or f.visuals
        if special or (isinstance(f.value, str) and len(f.children) != 1):
            links.append(Link(_name(f, taken, copies), f, number, constants, motions))
            ways.append((len(links) - 1, (np.eye(4),), ()))
        else:
            ways.append((number, constants, motions))
    return links


def _name(f: Frame, taken: set[str], copies: dict[str, int]) -> str:
    if f.name is not None:
        return f.name
    name = base = f.variable or "link"
    while name in taken:  # counts go on where they were, so that a thousand unnamed links are a thousand tries
        copies[base] = copies.get(base, 1) + 1
        name = f"{base}_{copies[base]}"
    taken.add(name)
    return name


def text(numbers: object) -> str:
    """Numbers as an XML attribute, exact.

    >>> text([1.0, 0.1])
    '1.0 0.1'
    """
    return " ".join(repr(float(x) + 0.0) for x in np.asarray(numbers, dtype=float).ravel())
