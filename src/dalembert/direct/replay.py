"""Whether a plan is a motion: its inputs on a finer mesh, what is said of them, and the rule by which a mesh is refined."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import AccuracyWarning, ConvergenceError
from ..integrate import MidpointVI, Trajectory
from ..mechanics import core, kinetic_energy
from ..model.model import Model
from .result import Plan

ENOUGH = 0.03  # replay error and defect of a plan that is a motion
SURE, MOST = 4, 8  # meshes that are tried in any case, and in all, as long as the error falls
TURNS = (0.6, 0.3, 0.15)  # largest turn per step on the first mesh, the second, the others


def accurate(plan: Any) -> bool:
    """Whether the replay of a plan stays with it."""
    return plan.success and max(plan.replay_error, plan.defect) <= ENOUGH


def wanted(refine: object) -> float:
    """Replay error and defect that `refine` asks for: "auto", or a number of its own."""
    if refine == "auto":
        return ENOUGH
    if isinstance(refine, (int, float)) and not isinstance(refine, bool) and 0 < refine < np.inf:
        return float(refine)
    raise ValueError(f"refine must be None, 'auto' or a positive number, not {refine!r}")


def judge(plan: Any) -> Any:
    """The plan with the result of its replay in its message; warns where the plan is not a motion."""
    if plan.replay_error is None:
        return plan
    said = (
        f"; replayed with 8 times as many steps: error {plan.replay_error:.2g}, defect of its steps {plan.defect:.2g}"
    )
    if not accurate(plan) and plan.success:
        said += ": not a motion of the system, take more steps or refine='auto'"
        warnings.warn(AccuracyWarning(f"plan{said[1:]}"), stacklevel=3)
    return replace(plan, message=plan.message.split("; replayed with")[0] + said)


def refined(
    solve: Callable[[int, float, Any], Any], steps: int, turn: float | None, aim: float
) -> tuple[Any, tuple[Any, ...]]:
    """Solve on finer and finer meshes until replay error and defect are at most `aim`: the plan, and what was found on each mesh.

    `solve(steps, turn, guess)` returns a plan; `guess` is None at first and after failures. The turn per step is limited
    so that no mesh lets a step alias: the energy does not show it, the turn does. A motion that is unstable without
    feedback magnifies what its steps miss (an arm held up for two seconds 140 times), so a few doublings may not do; as long
    as the defect falls, which does not know of this, the next mesh is worth its time. The finest plan is returned.
    """
    listed: list[tuple[int, float, float | None, float | None]] = []
    plan: Any = None
    before = np.inf
    for level in range(MOST):
        limit = TURNS[min(level, len(TURNS) - 1)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            found = solve(steps * 2**level, limit if turn is None else min(turn, limit), plan)
        listed.append((steps * 2**level, found.objective, found.replay_error, found.defect))
        plan = found if found.success else plan
        missed = found.defect if found.success else np.inf
        done = found.success and max(found.replay_error, missed) <= aim
        if done or (level + 1 >= SURE and not missed < 0.5 * before):
            break
        before = missed
    return found if plan is None else plan, tuple(listed)


def share(off: float, whole: float, unit: float = 1.0) -> float:
    """`off` as a share of `whole`; of a plan that rests (its whole is rounding of `unit`) nothing, unless the rest is left: infinite.

    >>> share(0.1, 2.0), share(1e-12, 1e-15), share(0.1, 1e-15)
    (0.05, 0.0, inf)
    """
    if whole > 1e-9 * unit:
        return off / whole
    return np.inf if off > 1e-6 * unit else 0.0


# ---- the replay of a plan in generalized coordinates


def replay(plan: Plan, substeps: int = 8) -> Trajectory:
    """The motion from the start of a `Plan` under its inputs, with so many midpoint steps for each of the plan's.

    Kinematic variables follow straight lines within a step of the plan.
    """
    vi = _finer(plan, substeps)
    start = vi.state(q=plan.q[0], p=plan.p[0])
    u, rho = _held(plan, substeps), _lines(plan, substeps)
    return vi.simulate(start, steps=len(plan.u) * substeps, u=u, kinematic=rho, accuracy="ignore")


def measure(plan: Plan, substeps: int = 8) -> tuple[float, float]:
    """Replay error and defect of a `Plan`; infinite where a finer step has no solution.

    The error is the largest distance from the plan relative to how far the plan goes from its start, the defect the sum
    over the steps of the error in velocity at the end of a step that is redone from its own node, relative to the
    largest speed; distances and speeds in the norm of the mass matrix, of the dynamic variables.
    """
    model = plan.model
    try:
        again = replay(plan, substeps).q[::substeps]
        reach = float(_size(model, plan.q, model.difference(np.broadcast_to(plan.q[0], plan.q.shape), plan.q)).max())
        off = float(_size(model, plan.q, model.difference(plan.q, again)).max())
        error = share(off, reach)
    except ConvergenceError:
        error = np.inf
    v = plan.trajectory.v
    if not np.isfinite(v).all():  # of a mass matrix that is singular
        return error, np.inf
    fastest = float(_size(model, plan.q, v).max())
    vi, u, rho = _finer(plan, substeps), _held(plan, substeps), _lines(plan, substeps)
    q, p = np.empty_like(plan.q[1:]), np.empty_like(plan.p[1:])
    try:
        for n in range(len(plan.u)):
            part = slice(n * substeps, (n + 1) * substeps)
            start = vi.state(q=plan.q[n], p=plan.p[n])
            end = vi.simulate(start, steps=substeps, u=u[part], kinematic=rho[part], accuracy="ignore")
            q[n], p[n] = end.q[-1], end.p[-1]
    except ConvergenceError:
        return error, np.inf
    # kinematic variables have kinks at the nodes: there both go by the plan's slopes
    ends = core(model).velocity(q, p, np.ascontiguousarray(v[1:, model.nv - model.nkv :]))[0]
    return error, share(float(_size(model, plan.q[1:], ends - v[1:]).sum()), fastest, 1 / plan.time)


def _finer(plan: Plan, substeps: int) -> MidpointVI:
    return MidpointVI(plan.model, plan.time / (len(plan.u) * substeps), alpha=plan.alpha, forcing=plan.forcing)


def _held(plan: Plan, substeps: int) -> np.ndarray:
    """Inputs of all finer steps."""
    return np.repeat(plan.u, substeps, axis=0)


def _lines(plan: Plan, substeps: int) -> np.ndarray:
    """Kinematic values at the ends of all finer steps."""
    rho = plan.q[:, len(plan.model.dynamic) :]
    part = np.arange(1, substeps + 1)[None, :, None] / substeps
    return (rho[:-1, None] + part * np.diff(rho, axis=0)[:, None]).reshape(len(plan.u) * substeps, rho.shape[1])


def _size(model: Model, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Length (T,) of tangent vectors x (T, nv) of the dynamic variables in the norm of the mass matrix."""
    moving = x.copy()
    moving[:, model.nv - model.nk :] = 0.0
    return np.sqrt(2 * np.maximum(kinetic_energy(model, q, moving), 0.0))
