"""Mesh files: read once, within limits, simplified for drawing; what cannot be read is named in a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..text import printable

KINDS = (".stl", ".obj", ".ply", ".off", ".dae", ".glb", ".gltf")  # no archives: a small one unpacks to anything
MAX_BYTES = 64_000_000
TRIANGLES = 12_000  # more than a picture shows


Mesh = tuple[Array, NDArray[np.int64]]
_told: set[str] = set()  # a file is named once


def load_mesh(path: str) -> Mesh | None:
    """Vertices (V, 3) and triangles (F, 3) of a mesh file through trimesh; None, after a warning, if it cannot be read.

    Very fine meshes are simplified; DAE files need the package pycollada.
    """
    name_lost([path])
    return _tried(path)[0]


def name_lost(paths: Iterable[str]) -> None:
    """One warning for all files that cannot be read."""
    lost = {path: _tried(path)[1] for path in paths if path not in _told and _tried(path)[0] is None}
    _told.update(lost)
    for path, reason in list(lost.items())[:1]:
        others = f" (nor are {len(lost) - 1} others)" if len(lost) > 1 else ""
        warnings.warn(f"mesh {path!r} is not drawn: {reason}{others}", stacklevel=3)


@lru_cache(maxsize=256)
def _tried(path: str) -> tuple[Mesh | None, str]:
    """What is in a file, or why it cannot be read."""
    try:
        return _read(path), ""
    except Exception as error:  # a missing or broken picture must never stop a motion from being seen
        return None, printable(str(error).split("\n")[0][:200]) or type(error).__name__


def _read(path: str) -> Mesh:
    import trimesh

    file = Path(path)
    if file.suffix.lower() not in KINDS:
        raise ValueError(f"the suffix must be one of {', '.join(KINDS)}")
    if not file.is_file():
        raise ValueError("there is no such file")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES // 1_000_000} MB")
    options: dict[str, Any] = {"skip_materials": True} if file.suffix.lower() == ".obj" else {}
    mesh: Any = trimesh.load(path, force="mesh", **options)
    vertices, faces = simplified(np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int64), TRIANGLES)
    if not len(faces) or not np.isfinite(vertices).all():
        raise ValueError("it has no triangles, or points that are not finite")
    # keeps edges sharp
    mesh = trimesh.graph.smooth_shade(trimesh.Trimesh(vertices, faces, process=True), angle=0.6)
    return np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int64)


def simplified(vertices: Array, faces: NDArray[np.int64], limit: int) -> tuple[Array, NDArray[np.int64]]:
    """At most about `limit` triangles: vertices that share a cell of a grid become one, their mean.

    >>> from dalembert.viewing.solids import sphere
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
