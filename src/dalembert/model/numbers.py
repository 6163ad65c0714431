"""Numbers of a compiled model that depend on parameters: which they are, their values, and their derivatives.

The compiled description of a model (`compile_model`) holds a `Quantity` wherever a number depends on parameters. `Numbers` lists them by
their place in the core, so that other values are written there without compiling again, and turns their derivatives into those by what the
core differentiates: inertias, constants of elements, and small motions of joint bases and sites (a rotation matrix has nine numbers but
three ways to turn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compile import gravity_axes
from .parameter import Formulas, Parameter, Quantity, Revalued

Vector = NDArray[np.float64]

# groups of numbers, as the core counts them (cpp/numbers.hpp)
JOINT, NODE, SITE = 0, 1, 2
FAMILIES = {"potentials": 3, "forces": 4, "constraints": 5, "velocities": 5}  # these follow the constraints
RELATION, DAMPING, SPLINE, GRAVITY, GEAR = 6, 7, 8, 9, 10

Place = tuple[int, int, int]  # group, index in it, entry


@dataclass(frozen=True)
class Links:
    """How the numbers that the core differentiates depend on parameters: d number / d parameter, entry by entry.

    `place` (n, 3): group, index, entry; `parameter` (n,): number of the parameter; `factor` (n,): the derivative.
    """

    place: NDArray[np.int32]
    parameter: NDArray[np.int32]
    factor: Vector


class Numbers:
    """Made from a compiled description, in which it leaves plain numbers alone."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.found: list[tuple[Place, Quantity]] = []
        self._poses: dict[tuple[int, int], list[float]] = {}  # R by columns and p of joint bases and sites that change
        for group, key, parts in (
            (JOINT, "joints", ("R0", "p0", "pitch")),
            (NODE, "nodes", ("m", "c", "I", "mass")),
            (SITE, "sites", ("R", "p")),
            *((group, family, ("par",)) for family, group in FAMILIES.items()),
            (SPLINE, "splines", ("c", "area")),
        ):
            first = len(description["constraints"]) if key == "velocities" else 0
            for i, row in enumerate(description[key], first):
                if self._take(group, i, row, parts) and group in (JOINT, SITE):
                    self._poses[group, i] = [*row[parts[0]], *row[parts[1]]]
        for group, key in ((RELATION, "relation"), (DAMPING, "damping"), (GRAVITY, "gravity"), (GEAR, "force_gear")):
            self._take(group, 0, description, (key,))
        self._gravity: list[float] = description["gravity"]

    def _take(self, group: int, index: int, row: dict[str, Any], parts: Sequence[str]) -> bool:
        """Note the quantities among the numbers of a row, and leave their values there; true if there are some."""
        before, entry = len(self.found), 0
        for part in parts:
            values = row[part] if isinstance(row[part], list) else [row[part]]
            here = [((group, index, entry + k), x) for k, x in enumerate(values) if isinstance(x, Quantity)]
            if here:
                row[part] = [float(x) for x in values] if isinstance(row[part], list) else float(row[part])
            self.found += here
            entry += len(values)
        return len(self.found) > before

    @cached_property
    def _formulas(self) -> Formulas:
        return Formulas([x for _, x in self.found])

    def replacements(self, parameters: Mapping[str, Parameter]) -> tuple[NDArray[np.int32], Vector]:
        """(n, 3) places and (n,) numbers that make a core that of these values of the parameters."""
        values = self._formulas(parameters)
        rows = [(place, x) for (place, _), x in zip(self.found, values, strict=True)]
        if any(place[0] == GRAVITY for place, _ in rows):
            g = np.array(self._gravity)
            g[[place[2] for place, _ in rows if place[0] == GRAVITY]] = [x for place, x in rows if place[0] == GRAVITY]
            rotation, gz = gravity_axes(g)
            rows = [row for row in rows if row[0][0] != GRAVITY]
            rows += [((GRAVITY, 0, k), float(x)) for k, x in enumerate([*rotation.T.ravel(), gz])]
        places = np.array([place for place, _ in rows], dtype=np.int32).reshape(-1, 3)
        return places, np.array([x for _, x in rows], dtype=np.float64)

    def links(self, parameters: Mapping[str, Parameter], wanted: Sequence[str]) -> Links:
        """Derivatives by the parameters `wanted`, numbered in this order, at these values of all of them."""
        again = Revalued(parameters)
        number = {name: i for i, name in enumerate(wanted)}
        rows: list[tuple[Place, int, float]] = []
        changes: dict[tuple[int, int, int], Vector] = {}  # (group, index, parameter): derivative of R by columns and p
        poses = {key: np.array(pose) for key, pose in self._poses.items()}
        for (group, index, entry), quantity in self.found:
            x = again(quantity)
            if group in (JOINT, SITE) and entry < 12:
                poses[group, index][entry] = float(x)
            for name, slope in x.by.items():
                if name not in number or slope == 0.0:
                    continue
                if group in (JOINT, SITE) and entry < 12:
                    changes.setdefault((group, index, number[name]), np.zeros(12))[entry] += slope
                elif (group, entry) == (JOINT, 12):
                    rows.append(((JOINT, index, 6), number[name], slope))
                elif (group, entry) != (NODE, 10):  # the mass of a whole subtree follows from those of its bodies
                    rows.append(((group, index, entry), number[name], slope))
        for (group, index, parameter), d in changes.items():
            pose = poses[group, index]
            turn = d[:9].reshape(3, 3).T @ pose[:9].reshape(3, 3)  # dR R'
            w = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
            twist = [*w, *(d[9:] - np.cross(w, pose[9:]))]
            rows += [((group, index, k), parameter, float(x)) for k, x in enumerate(twist) if x != 0.0]
        return Links(
            np.array([place for place, _, _ in rows], dtype=np.int32).reshape(-1, 3),
            np.array([parameter for _, parameter, _ in rows], dtype=np.int32),
            np.array([factor for _, _, factor in rows], dtype=np.float64),
        )
