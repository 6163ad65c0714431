"""How near a step is to a singularity, by singular values relative to those of a regular mechanism (Structured linearization, section VII).

Three matrices must stay regular: the mass matrix M, the gradients C = dh/dq of the constraints, and the matrix of the step itself, which makes
dq_k+1/dp_k = dt M^-1 (along the constraints) a little different from that. A ratio of singular values cannot see a matrix of one row, or one that
shrinks as a whole; so each is compared with what it would be in a regular configuration:

    mass         S^-1/2 M S^-1/2, with S the inertia that a joint feels if all that it carries stood out at a right angle to its axis
    constraints  rows of C S^-1/2 over their size there, |C S^-1/2| + |S^-1/2 D2h S^-1/2| l: what a gradient can become by a motion of about a radian
    step         R' (dq_k+1/dp_k) R / dt with M = R R'; 1 where the step is regular, and 1 for any step that is short enough
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Array, Named
from ..errors import ConvergenceError
from ..mechanics import constraint_hessian, constraint_jacobian, mass_matrix, poses
from ..model import Frame, Model

if TYPE_CHECKING:
    from .midpoint import MidpointVI
    from .trajectory import State


@dataclass(frozen=True)
class Condition:
    """Condition of a step: `mass` and `constraints` are one over the smallest singular value, `step` the largest factor by which the step answers a
    change of momentum more than a short one would. All grow without bound towards a singularity; infinite: it is there. Regular mechanisms
    have values from 1 to some thousands (long chains); what matters is how they change. 1.0 for constraints that are not there.

    The names of what is singular there: `mass_variables`, `step_variables` (variables), `constraint_names` (constraints).
    """

    step: float
    mass: float
    constraints: float
    step_variables: tuple[str, ...]
    mass_variables: tuple[str, ...]
    constraint_names: tuple[str, ...]

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.step, self.mass, self.constraints)

    @property
    def names(self) -> tuple[str, ...]:
        """What the worst one belongs to."""
        if self.step == self.worst:
            return self.step_variables
        return self.mass_variables if self.mass == self.worst else self.constraint_names


def condition(vi: MidpointVI, state: State, u: Named | None, kinematic: Named | None, dt: float | None) -> Condition:
    """See `MidpointVI.condition`."""
    model, q, nd = vi.model, state.q, vi.model.nd
    S = largest_inertias(model, q)
    scale = 1 / np.sqrt(S)
    M = mass_matrix(model, q)[:nd, :nd]
    values, vectors = np.linalg.eigh(scale[:, None] * M * scale)
    R = np.sqrt(S)[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    factor, step_names = _step(vi, state, u, kinematic, dt, R)
    hold, constraint_names = _constraints(model, q, scale)
    return Condition(
        factor,
        _over(values[0]),
        hold,
        step_names,
        _large(vectors[:, 0], model.velocities),
        constraint_names,
    )


def largest_inertias(model: Model, q: Array) -> Array:
    """S (nd,): masses that sliders carry; for joints that turn, sum of mass times squared distance and half the trace of the inertias."""
    G, out = poses(model, q), np.zeros(model.nd)
    place = {name: i for i, name in enumerate(model.velocities[: model.nd])}
    entries = model.frame_entries
    # of all that a frame carries: mass, its centre, mass times squared distance from there, half the trace of the inertias
    mass, own, spread = (np.zeros(len(entries)) for _ in range(3))
    centre = np.zeros((len(entries), 3))
    for entry in entries[1:]:
        body = entry.frame
        if body is not None and (body.mass or any(body.inertia)):
            i = entry.index
            centre[i] = G[i, :3, 3] + G[i, :3, :3] @ np.asarray(body.com, dtype=float)
            mass[i], own[i] = float(body.mass), float(sum(body.inertia[:3])) / 2
    for entry in reversed(entries[1:]):  # what is above comes before
        i, k, frame = entry.index, entry.parent, entry.frame
        parts = [] if frame is None else [place[name] for name in _rates(frame) if name in place]
        if frame is not None and parts:
            arm = centre[i] - G[i, :3, 3]
            turns = not frame.transform.startswith("t")
            felt = mass[i] * (arm @ arm + float(frame.pitch) ** 2) + spread[i] + own[i] if turns else mass[i]
            out[parts] += felt
        if mass[i]:
            both, apart = mass[i] + mass[k], centre[i] - centre[k]
            spread[k] += spread[i] + mass[i] * mass[k] / both * (apart @ apart)
            centre[k] = centre[k] + mass[i] / both * apart if mass[k] else centre[i]
            mass[k] = both
        own[k] += own[i]
    most = out.max(initial=0.0)
    return np.where(out > 0, out, most if most > 0 else 1.0)


def _rates(frame: Frame) -> tuple[str, ...]:
    """Names that the velocities of a frame may have: of its variable, of a ball, of a slider of a floating body."""
    name = frame.variable
    if name is None:
        return ()
    head, _, tail = name.rpartition(".")
    return (name, f"{name}.wx", f"{name}.wy", f"{name}.wz", f"{head}.v{tail}")


def _step(
    vi: MidpointVI, state: State, u: Named | None, kinematic: Named | None, dt: float | None, R: Array
) -> tuple[float, tuple[str, ...]]:
    model = vi.model
    try:
        A, _ = vi.linearize(state, u, kinematic=kinematic, dt=dt)
    except ConvergenceError:
        vi.step(state, u, kinematic, dt=dt)  # a step that has no solution says why; this one has, and no derivative
        return math.inf, model.dynamic
    X = A[: model.nd, model.nv : model.nv + model.nd]
    left, values, _ = np.linalg.svd(R.T @ X @ R)
    size = np.sqrt((R * R).sum(axis=1) + 1e-300)
    return float(values[0] / vi._length(dt)), _large(R @ left[:, 0] / size, model.velocities)


def _constraints(model: Model, q: Array, scale: Array) -> tuple[float, tuple[str, ...]]:
    nd, nc = model.nd, model.nc
    if not nc:
        return 1.0, ()
    C = constraint_jacobian(model, q)[:, :nd] * scale
    reach = 1 / scale.min()
    bend = [
        np.linalg.norm(scale[:, None] * constraint_hessian(model, q, row)[:nd, :nd] * scale, 2) for row in np.eye(nc)
    ]
    size = np.linalg.norm(C, axis=1) + reach * np.array(bend)
    left, values, _ = np.linalg.svd(C / np.where(size > 0, size, 1.0)[:, None])
    smallest = values[-1] if nc <= nd else 0.0
    return _over(smallest), _large(left[:, len(values) - 1] if nc <= nd else np.ones(nc), model.constraints)


def _over(x: float) -> float:
    return 1 / float(x) if x > 1e-15 else math.inf


def _large(x: Array, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the entries that matter beside the largest: the first four, largest first."""
    size = np.abs(x)
    return tuple(names[i] for i in np.argsort(-size, kind="stable")[:4] if size[i] > 0.3 * size.max())
