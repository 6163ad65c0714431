"""Geoms: primitive shapes with their inertia, and how they look.

In: `geom` elements with defaults filled in, and the assets they refer to. Out: (mass, centre, inertia), `Visual`.
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from ...errors import ModelError
from ...model import Visual
from .. import rigid
from ..markup import Tag
from ..rigid import Array
from .settings import Settings
from .tree import Tree

_SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}  # how many numbers a shape has
_SHAPELESS = ("mesh", "plane", "hfield")


class Shape(NamedTuple):
    """Kind, MuJoCo's size (half lengths), pose (4, 4) in the body."""

    kind: str
    size: tuple[float, ...]
    pose: Array


class Geoms:
    """Reads geoms with the meshes and materials of one file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        assets = list(settings.root.all("asset"))
        self._meshes = {name: tag for a in assets for tag in a.all("mesh") if (name := _mesh_name(tag))}
        self._materials = {tag.get("name"): tag for a in assets for tag in a.all("material")}

    def shape(self, geom: Tag) -> Shape:
        """What a geom looks like."""
        kind = "mesh" if "mesh" in geom.attributes else geom.get("type", "sphere") or "sphere"
        if kind not in _SIZES and kind not in _SHAPELESS:
            raise geom.wrong(f"geom type {kind!r} is not supported", geom.get("name"))
        pose = self._settings.pose(geom) if "fromto" not in geom.attributes else np.eye(4)
        if kind in _SHAPELESS:
            return Shape(kind, (), pose)
        count = _SIZES[kind]
        size = geom.numbers("size", None, ())
        if "fromto" in geom.attributes:
            if kind == "sphere":
                raise geom.wrong("a sphere has no fromto", geom.get("name"))
            ends = np.array(geom.numbers("fromto", 6))
            between = ends[:3] - ends[3:]
            half = math.sqrt(float(between @ between)) / 2
            if not 1e-10 < half < math.inf or not size:
                raise geom.wrong("fromto needs two different points and a radius in size", geom.get("name"))
            pose = rigid.pose(rigid.least_turn(between), (ends[:3] + ends[3:]) / 2)
            size = (size[0], half) if count == 2 else (size[0], size[0], half)
        if len(size) < count or min(size[:count]) <= 0:
            raise geom.wrong(f"geom of type {kind} needs {count} positive sizes", geom.get("name"))
        return Shape(kind, size[:count], pose)

    def inertia(self, geom: Tag) -> tuple[float, Array, Array] | None:
        """Mass, centre (3,) and inertia (3, 3) about it in the axes of the body; None for what has no mass."""
        kind, size, pose = self.shape(geom)
        if geom.get("mass") is not None and geom.number("mass") == 0.0:
            return None
        if kind in ("plane", "hfield"):
            return None
        density = geom.number("density", 1000.0)
        if "mass" not in geom.attributes and density == 0.0:
            return None
        if kind == "mesh":
            reason = "the mass of a mesh is not computed here: give the body an <inertial>"
            self._settings.refuse("geom", geom, reason, geom.get("name"))
            return None
        if geom.get("shellinertia", "false") == "true":
            raise geom.wrong("shellinertia is not supported", geom.get("name"))
        volume, moments = _solid(kind, size)
        mass = geom.number("mass") if "mass" in geom.attributes else density * volume
        if not math.isfinite(mass) or not all(map(math.isfinite, moments)):
            raise geom.wrong("the mass of this geom is not finite", geom.get("name"))
        turn = pose[:3, :3]
        return mass, pose[:3, 3], turn @ np.diag([mass * m for m in moments]) @ turn.T

    def visuals(self, geoms: list[Tag]) -> list[Visual]:
        """The pictures of geoms; planes and height fields have none."""
        return [v for geom in geoms if (v := self._visual(geom)) is not None]

    def _visual(self, geom: Tag) -> Visual | None:
        kind, size, pose = self.shape(geom)
        if kind in ("plane", "hfield"):
            return None
        mesh = self._mesh_path(geom) if kind == "mesh" else None
        if kind == "box":
            size = tuple(2 * x for x in size)
        elif kind in ("capsule", "cylinder"):
            size = (size[0], 2 * size[1])
        rgba: tuple[float, ...] | None = None
        material = self._materials.get(geom.get("material") or "")
        if "rgba" in geom.attributes:
            rgba = geom.numbers("rgba", 4)
        elif material is not None and "rgba" in material.attributes:
            rgba = material.numbers("rgba", 4)
        try:
            return Visual(kind, size, None if rigid.is_identity(pose) else pose, rgba, mesh)  # type: ignore[arg-type]
        except ModelError as error:
            raise geom.wrong(error.reason, geom.get("name")) from None

    def _mesh_path(self, geom: Tag) -> str:
        name = geom.get("mesh") or ""
        tag = self._meshes.get(name)
        if tag is None:
            raise geom.wrong(f"unknown mesh '{name}'", name)
        folder = self._settings.word("meshdir", self._settings.word("assetdir", ""))
        path = PurePath(folder) / (tag.get("file") or name)
        return str(PurePath(self._settings.file).parent / path if self._settings.file else path)


def _mesh_name(tag: Tag) -> str | None:
    return tag.get("name") or (PurePath(tag.attributes["file"]).stem if tag.get("file") else None)


def _solid(kind: str, size: tuple[float, ...]) -> tuple[float, list[float]]:
    """Volume, and principal moments per mass about the centre, of a solid of even density; z is its axis."""
    r = size[0]
    if kind == "sphere":
        return 4 / 3 * math.pi * r**3, [0.4 * r * r] * 3
    if kind in ("box", "ellipsoid"):
        a, b, c = size
        volume, share = (8 * a * b * c, 3) if kind == "box" else (4 / 3 * math.pi * a * b * c, 5)
        return volume, [(b * b + c * c) / share, (a * a + c * c) / share, (a * a + b * b) / share]
    h = 2 * size[1]
    across, along = (3 * r * r + h * h) / 12, r * r / 2
    if kind == "cylinder":
        return math.pi * r * r * h, [across, across, along]
    # a capsule is a cylinder and two half balls, which have this share of its volume
    ball = 4 * r / (4 * r + 3 * h)
    own = 0.4 * r * r
    across = (1 - ball) * across + ball * (own + h * (3 * r + 2 * h) / 8)
    return math.pi * r * r * (h + 4 / 3 * r), [across, across, (1 - ball) * along + ball * own]


def note_contacts(settings: Settings, tree: Tree) -> None:
    """Geoms that could touch another one: contacts are not represented."""
    flags = [flag for option in settings.root.all("option") for flag in option.all("flag")]
    if "contact" in settings.skip or any(flag.get("contact") == "disable" for flag in flags):
        return
    bodies = [
        [g for g in body.geoms if g.number("contype", 1.0) or g.number("conaffinity", 1.0)] for body in tree.bodies
    ]
    if sum(1 for touching in bodies if touching) > 1:
        settings.unsaid.each([g for touching in bodies for g in touching], "contacts of a geom")
    settings.unsaid.each([p for section in settings.root.all("contact") for p in section.all("pair")], "a contact pair")
