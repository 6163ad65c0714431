"""Triangles of the solids that scenes are made of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .geometry import Array
from .meshes import load_mesh
from .scene import Link, Shape

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
    if part.kind == "spiral":
        return [(("spiral",), _scaled(size[0], size[0], size[0]))]
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

    Kinds: sphere, box, cylinder, tube, cone, coil (radius 1 or sides 1; z in 0..1 for the long ones), spiral (flat), mesh.

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
    if kind == "spiral":
        n, m, wire, turns = 121, 9, 0.09, 2.75
        s = np.linspace(0, 1, n)
        angle, radius = 2 * np.pi * turns * s, 0.2 + 0.8 * s
        outward = np.stack([np.cos(angle), np.sin(angle), 0 * s], axis=-1)
        a = np.linspace(0, 2 * np.pi, m)
        tube = np.cos(a)[None, :, None] * outward[:, None] + np.sin(a)[None, :, None] * np.array([0.0, 0.0, 1.0])
        return (outward[:, None] * radius[:, None, None] + wire * tube).reshape(-1, 3), _grid_faces(n, m)
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


# ---- mesh files
