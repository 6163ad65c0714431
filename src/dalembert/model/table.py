"""Table: where elements write down what the core needs of them, in plain numbers. Knows names only to forget them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .parameter import Quantity, array

if TYPE_CHECKING:
    from .spline import Spline
    from .tape import Derivatives, Program
    from .tree import Tree

Row = dict[str, Any]  # an element of the core: struct Element in cpp/model.hpp


class Table:
    """Given to `Element.compile`. The `on_...` methods make a row of the core by the name of its kind in `cpp/elements/all.hpp`.

    `numbers` (at most 8) are what the core's file for that kind calls its numbers. Local variables of a row are those that its value can depend
    on: what it names, or the components of velocity that move its frames (every joint has one today; elements on frames see only poses
    and how these change along each component, so that a joint may have several).
    """

    def __init__(self, tree: Tree) -> None:
        self.tree, self.model = tree, tree.model
        self.sites = [self._site(i, (0.0, 0.0, 0.0)) for i in range(len(self.model.frame_entries))]
        self.gravity: NDArray[Any] = np.zeros(3)
        self.dampings = [0.0] * self.model.nd
        self.pushes: list[tuple[int, int, float]] = []  # (variable, input, gear)
        self.local_q: list[int] = []  # coordinate of each local variable, -1: a component of a ball
        self.local_v: list[int] = []
        self.local_joint: list[int] = []
        self.path_flag: list[int] = []
        self.tapes: list[dict[str, Any]] = []
        self.splines: list[dict[str, Any]] = []
        self.tape_inputs: list[int] = []
        self.relation: list[float] = []
        self.max_local = 1
        configuration = self.model.configuration
        self._coordinate = [-1] * configuration.nv
        for q, v in zip(*configuration.numbers, strict=True):
            self._coordinate[v] = int(q)

    # ---- rows

    def on_variables(self, kind: str, variables: Sequence[str], numbers: Sequence[float]) -> Row:
        """A row that depends on the variables that it names."""
        index = [self._component(v) for v in variables]
        return self._row(kind, index, [-1] * len(index), [0] * len(index), numbers)

    def on_frames(self, kind: str, frames: Sequence[str], numbers: Sequence[float]) -> Row:
        """A row on one to three frames (sites a, b, c) that depends on all variables that move them."""
        return self._on_paths(kind, frames, [self._path(f) for f in frames], numbers)

    def on_pair(
        self, kind: str, frame1: str, frame2: str, numbers: Sequence[float], *, length: str | None = None
    ) -> Row:
        """A row on how one frame is placed against another: variables that move both alike do not enter.

        `length` names a variable that is a length of the element; it is the last local variable.
        """
        return self._on_paths(kind, (frame1, frame2), self._apart(frame1, frame2), numbers, length)

    def on_turns(self, kind: str, frame1: str, frame2: str, numbers: Sequence[float]) -> Row:
        """A row on how one frame is turned against another: it depends on the rotations between them, listed from frame1 to frame2."""
        up, down = ([j for j in path if self.tree.joints[j]["kind"] >= 3] for path in self._apart(frame1, frame2))
        joints = [*reversed(up), *down]
        variables = [self.tree.joints[j]["v"] for j in joints]
        row = self._row(kind, variables, joints, [1] * len(up) + [2] * len(down), numbers)
        return row | {"site_a": self.model.frame_index(frame1), "site_b": self.model.frame_index(frame2)}

    def on_tapes(self, kind: str, d: Derivatives) -> Row:
        """A row that computes by tapes."""
        model = self.model
        index = [model.velocity_index(v) for v in d.variables]
        row = self._row(kind, index, [-1] * len(index), [0] * len(index), [])
        row |= {"tape": [self._tape(d.value), self._tape(d.first), self._tape(d.second)]}
        row |= {"nrow": len(d.rows), "rows": len(self.local_q), "nin": len(d.inputs), "in0": len(self.tape_inputs)}
        rows = [model.velocity_index(v) for v in d.rows]
        self.local_v += rows
        self.local_q += [self._coordinate[v] for v in rows]
        self.local_joint += [0] * len(d.rows)
        self.path_flag += [0] * len(d.rows)
        self.tape_inputs += [model.input_index(u) for u in d.inputs]
        return row

    # ---- shared tables

    def uniform_gravity(self, acceleration: Sequence[float]) -> None:
        """Gravity on all masses: part of the core's sweep over the tree."""
        self.gravity = self.gravity + array(acceleration)

    def damping(self, coefficients: Mapping[str, float]) -> None:
        """Viscous forces on dynamic variables."""
        for name, c in coefficients.items():
            self.dampings[self.model.velocity_index(name)] += c

    def push(self, variable: str, input: str, gear: float) -> None:
        """An input that acts, times `gear`, as the generalized force of a variable."""
        self.pushes.append((self.model.velocity_index(variable), self.model.input_index(input), gear))

    def coefficients(self, numbers: Sequence[float]) -> int:
        """Where a list of numbers starts that is too long for a row."""
        self.relation += numbers
        return len(self.relation) - len(numbers)

    def site(self, frame: str, offset: Sequence[float]) -> int:
        """A point at `offset` (frame axes) from a frame's origin, as a site of its own; its axes are the joint's."""
        self.sites.append(self._site(self.model.frame_index(frame), offset) | {"R": np.eye(3).ravel().tolist()})
        return len(self.sites) - 1

    def in_joint_axes(self, frame: str, vector: Sequence[float]) -> list[float]:
        """A vector in the axes of a frame, in the axes of the joint that carries it."""
        pose = self.tree.frame_at[self.model.frame_index(frame)][1]
        return (pose[:3, :3] @ array(vector)).tolist()  # type: ignore[no-any-return]

    def spline(self, spline: Spline) -> int:
        """The number of a spline."""
        ends, c = spline.exact_pieces()
        area = [0.0] * len(ends)
        for i in range(1, len(ends) - 1):
            h = ends[i + 1] - ends[i]
            area[i + 1] = area[i] + sum(c[i, j] * (h ** (j + 1) / (j + 1)) for j in range(6))
        self.splines.append({"ends": ends.tolist(), "c": c.ravel().tolist(), "area": [*map(_plain, area)]})
        return len(self.splines) - 1

    # ---- pieces

    def _component(self, variable: str) -> int:
        """Velocity component of a variable that has one coordinate."""
        v = self.model.velocity_index(variable) if variable in self.model.variables else -1
        if v < 0 or self._coordinate[v] < 0:
            raise ModelError(
                f"'{variable}' belongs to a ball: elements act on balls through frames (or torques on its .wx, .wy, .wz)",
                culprit=variable,
            )
        return v

    def _path(self, frame: str) -> list[int]:
        return self.tree.path(self.tree.frame_at[self.model.frame_index(frame)][0])

    def _apart(self, frame1: str, frame2: str) -> list[list[int]]:
        """The paths of two frames without their common part."""
        paths = [self._path(frame1), self._path(frame2)]
        common = set(paths[0]) & set(paths[1])
        return [[j for j in path if j not in common] for path in paths]

    def _site(self, frame: int, offset: Sequence[float]) -> dict[str, Any]:
        joint, pose = self.tree.frame_at[frame]
        position = pose[:3, 3] + pose[:3, :3] @ array(offset)
        return {"pose": joint + 1, "p": position.tolist(), "R": pose[:3, :3].T.ravel().tolist()}

    def _on_paths(
        self,
        kind: str,
        frames: Sequence[str],
        paths: list[list[int]],
        numbers: Sequence[float],
        length: str | None = None,
    ) -> Row:
        """The union of the paths is the list of local variables, ancestors first; flags tell which paths one is on."""
        on: dict[int, int] = {}
        for i, path in enumerate(paths):
            for j in path:
                on[j] = on.get(j, 0) | 1 << i
        joints = sorted(on)
        flags = [on[j] for j in joints]
        variables = [self.tree.joints[j]["v"] for j in joints]
        if length is not None:
            variables, joints, flags = [*variables, self._component(length)], [*joints, -1], [*flags, 0]
        sites = zip(("site_a", "site_b", "site_c"), map(self.model.frame_index, frames), strict=False)
        last = -1 if length is None else len(variables) - 1
        return self._row(kind, variables, joints, flags, numbers) | {**dict(sites), "length_var": last}

    def _row(
        self, kind: str, variables: list[int], joints: list[int], flags: list[int], numbers: Sequence[float]
    ) -> Row:
        n = len(variables)
        self.max_local = max(self.max_local, n)
        start = len(self.local_v)
        self.local_v += variables
        self.local_q += [self._coordinate[v] for v in variables]
        self.local_joint += [j + 1 for j in joints]
        self.path_flag += flags
        par = [_plain(x) for x in numbers]
        return {
            "kind": kind,
            "n": n,
            "vars": start,
            "site_a": -1,
            "site_b": -1,
            "site_c": -1,
            "length_var": -1,
            "par": par + [0.0] * (8 - len(par)),
            "input": [-1] * 6,
            "tape": [-1] * 3,
            "spline": -1,
            "nin": 0,
            "in0": 0,
            "nrow": 0,
            "rows": 0,
        }

    def _tape(self, program: Program) -> int:
        self.tapes.append(
            {
                "n_work": int(program.n_work),
                "n_in": int(program.n_in),
                "n_out": int(program.n_out),
                "code": np.asarray(program.code).ravel().tolist(),
                "constants": np.asarray(program.constants, dtype=float).ravel().tolist(),
            }
        )
        return len(self.tapes) - 1


def _plain(x: float) -> float:
    return x if isinstance(x, Quantity) else float(x)
