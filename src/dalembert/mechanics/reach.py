"""Inverse kinematics: configurations that put frames where they shall be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, Named, finite, needed, positive, whole
from ..errors import ConvergenceError
from ..model import Model, rotation
from .evaluate import checked, constraint_jacobian, constraints, frame_jacobian, pose
from .solve import held_components, shifted

TRIES = 8  # starts with noise where the given one leads nowhere (an arm that is stretched out towards its target)


def inverse_kinematics(
    model: Model,
    targets: Mapping[str, ArrayLike],
    q: Named | None = None,
    *,
    fixed: Iterable[str] = (),
    tolerance: float = 1e-9,
    max_iterations: int = 100,
) -> Array:
    """A configuration (nq,) of the `model` near `q` (nq,) in which frames are at their `targets`, and the constraints hold.

    `targets` are {frame: position (3,) or pose (4, 4)} in world axes (m). With rows over time, (N, 3) or (N, 4, 4), the answer is a path (N, nq)
    that begins near q, each point next to the one before. Kinematic variables and those in `fixed` stay. Where many configurations
    will do, the way from q is short; limits of joints are not looked at. ConvergenceError says which frame stays how far away if
    `max_iterations` steps do not bring all within `tolerance` (m, rad).

    >>> import dalembert as da
    >>> arm = da.Model([da.ry("shoulder", da.tx(1.0, da.ry("elbow", da.tx(1.0, name="hand", mass=1.0))))])
    >>> q = da.inverse_kinematics(arm, {"hand": (1.0, 0.0, 1.0)}, {"elbow": 0.5})
    >>> da.pose(arm, q, "hand")[:3, 3].round(6)
    array([1., 0., 1.])
    """
    x = checked(model).configuration.point(q).copy()
    held = held_components(model, fixed) | set(range(model.nd, model.nv))
    free = [i for i in range(model.nv) if i not in held]
    tolerance = positive(tolerance, "tolerance")
    if whole(max_iterations, "max_iterations") < 1:
        raise ValueError(f"max_iterations must be at least 1, not {max_iterations}")
    goals = [_target(model, frame, value) for frame, value in needed(targets, Mapping).items()]
    lengths = {len(goal.places) for goal in goals if goal.many}
    if len(lengths) > 1:
        raise ValueError(f"the targets have {' and '.join(map(str, sorted(lengths)))} rows over time, not equally many")
    path: list[Array] = []
    for k in range(max(lengths, default=1)):
        task = _Task(model, free, goals, k)
        found = task.solve(x, tolerance, max_iterations)
        noise = np.random.default_rng(0)
        for trial in range(TRIES if k == 0 else 0):
            if task.size(found) <= tolerance:
                break
            aside = shifted(model, x, free, 0.1 * 1.5**trial * noise.normal(size=len(free)))
            found = task.solve(aside, tolerance, max_iterations)
        if task.size(found) > tolerance:
            raise ConvergenceError(
                f"no configuration reaches the targets{f' of row {k}' if lengths else ''}: {task.farthest(found)}",
                residual=task.size(found),
                state=found,
                hint="it may be out of reach; otherwise start nearer, give a position instead of a pose, or fix fewer variables",
            )
        x = found
        path.append(x)
    return np.array(path) if lengths else x


@dataclass(frozen=True)
class _Target:
    """Where a frame shall be: `places` (n, 3) and `turns` (n, 3, 3) (None: however it is turned), n = 1 for all times or `many`."""

    frame: str
    places: Array
    turns: Array | None
    many: bool

    def away(self, model: Model, q: Array, k: int) -> Array:
        """What is missing in row k: a rotation vector if the turn matters, and a way, in world axes."""
        g, row = pose(model, q, self.frame), k if self.many else 0
        way = self.places[row] - g[:3, 3]
        if self.turns is None:
            return np.asarray(way)
        return np.concatenate([rotation.logarithm(rotation.of_matrix(self.turns[row] @ g[:3, :3].T)), way])

    def jacobian(self, model: Model, q: Array) -> Array:
        """How the frame moves, (3 or 6, nv)."""
        return frame_jacobian(model, q, self.frame)[3 if self.turns is None else 0 :]


def _target(model: Model, frame: str, value: ArrayLike) -> _Target:
    model.frame_index(frame)  # says what is not there
    x = finite(value, f"the target of '{frame}'", (3,), (4, 4), (None, 3), (None, 4, 4))
    if x.shape[-1] == 3:
        return _Target(frame, x.reshape(-1, 3), None, x.ndim == 2)
    turns = x.reshape(-1, 4, 4)[:, :3, :3]
    for R in turns:
        rotation.of_matrix(R)  # says what is no rotation
    return _Target(frame, x.reshape(-1, 4, 4)[:, :3, 3], turns, x.ndim == 3)


@dataclass(frozen=True)
class _Task:
    """The targets of row k and the constraints as equations in the `free` velocity components."""

    model: Model
    free: list[int]
    goals: list[_Target]
    k: int

    def missing(self, q: Array) -> Array:
        """What is missing everywhere, targets first."""
        ways = [goal.away(self.model, q, self.k) for goal in self.goals]
        return np.concatenate([*ways, -constraints(self.model, q)])

    def size(self, q: Array) -> float:
        """The largest entry of what is missing."""
        return float(np.abs(self.missing(q)).max(initial=0.0))

    def farthest(self, q: Array) -> str:
        """Which target or constraint is missed most."""
        off = {f"'{goal.frame}'": goal.away(self.model, q, self.k) for goal in self.goals}
        off |= {
            name: np.array([h]) for name, h in zip(self.model.constraints, constraints(self.model, q), strict=False)
        }
        worst = max(off, key=lambda name: float(np.linalg.norm(off[name])))
        return f"{worst} stays {float(np.linalg.norm(off[worst])):.3g} away"

    def solve(self, q: Array, tolerance: float, max_iterations: int) -> Array:
        """The nearest solution by damped least squares (Levenberg, Marquardt), or the best point found."""
        damping, e = 1e-3, self.missing(q)
        for _ in range(max_iterations):
            if float(np.abs(e).max(initial=0.0)) <= 1e-3 * tolerance or damping > 1e8:
                break
            rows = [goal.jacobian(self.model, q) for goal in self.goals]
            J = np.vstack([*rows, constraint_jacobian(self.model, q)[: self.model.nh]])[:, self.free]
            # (J'J + d) step = J'e, damping in proportion to what is missing: quadratic at the end, also where J loses rank
            own = damping * min(1.0, float(e @ e))
            step = np.linalg.lstsq(
                np.vstack([J, np.sqrt(own) * np.eye(len(self.free))]),
                np.concatenate([e, np.zeros(len(self.free))]),
                rcond=1e-12,
            )[0]
            step *= min(
                1.0, 1.0 / float(np.abs(step).max(initial=1e-300))
            )  # a radian, so that solutions near by are not jumped over
            ahead = shifted(self.model, q, self.free, step)
            after = self.missing(ahead)
            better = float(after @ after) < float(e @ e)
            damping = max(damping / 4, 1e-9) if better else damping * 8
            if better:
                q, e = ahead, after
        return q
