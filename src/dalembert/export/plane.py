"""Mechanisms that move in a plane: their constants in its coordinates, so that the kernels need three numbers where space needs six.

With n the common axis of all hinges, the rotation of a joint is its rotation at q = 0 and then one about n. Constants that are turned to the world's
axes at q = 0 once and for all leave an angle and a position in the plane.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..model.table import Row, Table

_SMALL = 1e-13
_PAIRS = ("LinearSpring", "PointGravity", "LinearDamper", "Distance")


@dataclass(frozen=True, eq=False)
class Plane:
    """`across` (2, 3): axes of the plane, `normal` (3,); `rotation[pose]` (3, 3) at q = 0, `height[pose]` along the normal."""

    across: Array
    normal: Array
    rotation: list[Array]
    height: list[float]

    def flat(self, pose: int, vector: Any) -> Array:
        """A vector in the axes of a joint, in the plane."""
        return np.asarray(self.across @ (self.rotation[pose] @ np.asarray(vector)))

    def axis(self, joint: dict[str, Any]) -> Array:
        """The axis of a joint in the world's axes at q = 0."""
        own = self.rotation[joint["parent"]] @ _columns(joint["R0"])
        return np.asarray(own[:, joint["kind"] % 3])


def find_plane(plain: dict[str, Any], table: Table, rows: Iterable[Row]) -> Plane | None:
    """The plane in which a mechanism moves, or None."""
    joints = plain["joints"]
    rotation, place = [np.eye(3)], [np.zeros(3)]
    for j in joints:
        up = j["parent"]
        rotation.append(rotation[up] @ _columns(j["R0"]))
        place.append(place[up] + rotation[up] @ np.array(j["p0"]))
    axes = [rotation[i + 1][:, j["kind"] % 3] for i, j in enumerate(joints)]
    hinges = [a for a, j in zip(axes, joints, strict=True) if j["kind"] >= 3]
    if not hinges or any(j["pitch"] for j in joints):
        return None
    n = hinges[0]
    along = [float(np.abs(a @ n)) for a in axes]
    if any((1 - x if j["kind"] >= 3 else x) > _SMALL for x, j in zip(along, joints, strict=True)):
        return None
    first = np.eye(3)[int(np.argmin(np.abs(n)))]
    first = first - n * (first @ n)
    first /= np.linalg.norm(first)
    plane = Plane(np.array([first, np.cross(n, first)]), n, rotation, [float(p @ n) for p in place])

    def height(site: int) -> float:
        s = table.sites[site]
        return float(plane.height[s["pose"]] + n @ (rotation[s["pose"]] @ np.array(s["p"])))

    for row in rows:
        if row["kind"] in ("TorsionSpring", "Height", "Slip"):
            return None
        if row["kind"] in (*_PAIRS, "Direction") and abs(height(row["site_a"]) - height(row["site_b"])) > _SMALL:
            return None
    return plane


def wrench_map(plane: Plane, table: Table, row: Row) -> Array:
    """(3, 6): moment about the normal and force in the plane of the components (force, torque) of a wrench; body axes as at q = 0."""
    site = table.sites[row["site_a"]]
    own = plane.rotation[site["pose"]] @ _columns(site["R"]) if int(row["par"][6]) == 0 else np.eye(3)
    out = np.zeros((3, 6))
    out[0, 3:], out[1:, :3] = plane.normal @ own, plane.across @ own
    return out


def _columns(numbers: Any) -> Array:
    return np.asarray(numbers, dtype=float).reshape(3, 3).T
