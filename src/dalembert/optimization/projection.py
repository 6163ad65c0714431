"""Trajectory optimization with a projection operator: the loop, the line search and the choice of the method.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, Algorithms 1 to 3.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from ..errors import ConvergenceError
from ..integrate import OneStep, Trajectory
from ..progress import progress as progress_bar
from ..system import System, as_system
from .continuous import ContinuousSystem
from .costs import BoundCost, Cost, finite_at, sum_costs
from .descent import METHODS, Direction, Discrete, IndefiniteModel, Point
from .result import Iteration, Optimization, Search, load_checkpoint, save_checkpoint

LOG = logging.getLogger("dalembert.optimization")
Method = str | Sequence[str] | Callable[[int], str]
Start = Trajectory | tuple[ArrayLike, ArrayLike] | Optimization | str | os.PathLike[str]


def optimize(
    system: OneStep | ContinuousSystem,
    cost: Cost | BoundCost,
    start: Start,
    *,
    method: Method = "auto",
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    gains: str | None = None,
    projection: tuple[ArrayLike, ArrayLike] | None = None,
    search: Search | None = None,
    free_start: bool | Sequence[str] = False,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    bound_method: str = "barrier",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    callback: Callable[[Iteration, Array, Array], None] | None = None,
) -> Optimization:
    """Find a motion of `system` that locally minimizes `cost`, starting from the motion `start`.

    system: a System (or ContinuousSystem), or any one-step, over the steps of `start`.
    cost: a `TrackingCost`, `TerminalCost`, `ExpressionCost` or a sum of them.
    start: a Trajectory, a pair (X (N+1, nx), U (N, nu)), a result, or the path of a checkpoint to continue. A curve
        that is not a motion of the system is projected first.
    method: "auto" (Newton, with less or no second-order terms where the quadratic model has no minimum), "newton"
        (falls back to "quasi", then to "steepest", when indefinite), "quasi" (Gauss-Newton), "steepest"; a list gives
        the method of each iteration (the last one repeats), a function gives it from the iteration's index.
    tolerance: stop when |Dg.d| is below it. max_iterations: limit on the number of steps.
    gains: "lqr" projects with LQR gains of the weights `projection` = (Q, R) (default identity), "lq" with the gains
        of the Gauss-Newton direction's own LQ problem, which saves a Riccati sweep per iteration and fits the cost.
        Default: "lq" for "auto", else "lqr" (as in the papers).
    search: options of the Armijo line search.
    free_start: True, or the names of the tangent components whose initial value is optimized too (not for constrained systems).
    bounds: {name: (low, high)} on inputs or states, None for no bound. bound_method: "barrier" (Hauser, Saccon: the
        result is strictly inside) or "lagrangian" (augmented Lagrangian: active bounds hold to 1e-6 of their range).
    checkpoint: file (.npz) written after every iteration.
    progress: False hides the progress line that a terminal or a notebook shows; the log `dalembert.optimization` has it too.
    callback: called with (iteration, X, U) after every iteration.

    Returns an `Optimization`, also when interrupted from the keyboard: the best motion is kept. Raises ValueError
    for NaN and wrong shapes and ConvergenceError if the start cannot be projected to a motion.

    >>> import dalembert as da
    >>> pendulum = da.rz("theta", da.ty(-1.0, mass=1.0))
    >>> model = da.Model([pendulum], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> system = da.System(da.MidpointVI(model, 0.1), steps=20)
    >>> cost = da.TrackingCost({"theta": 0.5}, Q={"theta": 100.0, "p.theta": 1.0}, R=1.0)
    >>> result = da.optimize(system, cost, (np.zeros((21, 2)), np.zeros((20, 1))))
    >>> result.status
    'converged'
    """
    options: dict[str, Any] = {
        "method": method, "tolerance": tolerance, "max_iterations": max_iterations, "search": search or Search(),
        "checkpoint": checkpoint, "callback": callback,
    }  # fmt: skip
    _check_method(method)
    if gains is None:
        gains = "lq" if method == "auto" and projection is None else "lqr"
    if gains not in ("lqr", "lq"):
        raise ValueError(f"gains must be 'lqr' or 'lq', not {gains!r}")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, np.number)) or not float(tolerance) > 0:
        raise ValueError(f"tolerance must be a positive number, not {tolerance!r}")
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, (int, np.integer)) or max_iterations < 0:
        raise ValueError(f"max_iterations must be a whole number, not negative, not {max_iterations!r}")
    whole = _as_system(system, start)
    X, U, history = _start(whole, start)
    bound = (
        cost.bind(whole.cost_system if isinstance(whole, ContinuousSystem) else whole)
        if isinstance(cost, Cost)
        else cost
    )
    if not hasattr(bound, "values"):
        raise TypeError(f"cost must be a TrackingCost, TerminalCost, ExpressionCost or a sum of them, not {cost!r:.80}")
    free = _free(whole, free_start)

    def problem(extra: Sequence[BoundCost] = ()) -> Discrete:
        total = sum_costs([bound, *extra])
        if isinstance(whole, ContinuousSystem):
            return whole.optimization_problem(total, weights=projection, gains=gains, free=free)
        return Discrete(whole, total, weights=projection, gains=gains, free=free)

    with _progress(progress) as show:
        if bounds:
            from .bounds import optimize_bounded

            return optimize_bounded(
                whole, problem, X, U, bounds=bounds, bound_method=bound_method, history=history, show=show, **options
            )
        return descend(problem(), X, U, history=history, show=show, **options)


def descend(
    problem: Discrete,
    X: Array,
    U: Array,
    *,
    method: Method = "auto",
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    search: Search | None = None,
    history: tuple[Iteration, ...] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Iteration, Array, Array], None] | None = None,
    show: Callable[[Iteration], None] | None = None,
) -> Optimization:
    """Algorithm 1 on a problem (`Discrete` or its continuous twin) from the curve (X, U)."""
    search = search or Search()
    rows = list(history)
    offset = rows[-1].index if rows else 0
    if rows:
        rows.pop()  # the last row of a checkpoint is the evaluation that starts over here
    X, U = _project_start(problem, X, U)
    value = problem.value(X, U)
    if not math.isfinite(value):
        raise ValueError(f"the cost of the start is {value}")
    first = value
    gains: Array | None = None
    slope = math.nan
    status, reason = "iterations", f"stopped after {max_iterations} iterations"
    index = offset
    try:
        for count in range(max_iterations + 1):
            index = offset + count
            begun = time.perf_counter()
            # a new projection operator, then directions until one can be followed
            p = problem.point(X, U, value)
            chosen = _method_at(method, index)
            if chosen == "auto" and _contracts(p, rows):
                chosen = "quasi"
            outcome = _advance(problem, p, chosen, tolerance, search, count < max_iterations)
            d, step = outcome.direction, outcome.step
            gains, slope = p.K, d.slope
            row = Iteration(
                index, d.method, value, slope, step, outcome.trials, outcome.failed, time.perf_counter() - begun
            )
            rows.append(row)
            if step > 0:
                X, U, value = outcome.X, outcome.U, outcome.value
            if checkpoint is not None:
                # a step leads to a point that has not been looked at: its row is the place to resume
                rest = [Iteration(index + 1, "", value, math.nan, 0.0, 0, 0, 0.0)] if step > 0 else []
                save_checkpoint(checkpoint, X, U, gains, [*rows, *rest])
            if show is not None:
                show(row)
            if callback is not None:
                callback(row, X, U)
            if outcome.status:
                status, reason = outcome.status, outcome.reason
                break
            if value < -1e12 * (1.0 + abs(first)):
                status, reason = "unbounded", f"the cost fell from {first:.6g} to {value:.6g} and keeps falling"
                break
    except KeyboardInterrupt:
        status, reason = "interrupted", f"stopped from the keyboard in iteration {index}"
    except IndefiniteModel as error:
        status = "stalled"
        reason = f"no feedback stabilizes the motion ({error}); shorten the horizon or give another start"
    except ConvergenceError as error:  # the motion found so far is kept
        status, reason = "stalled", str(error)
    if gains is None:
        gains = problem.no_gains()
    return Optimization(problem.system, X, U, gains, value, slope, status, reason, tuple(rows), problem, search=search)


# ---- one iteration


@dataclass
class _Outcome:
    direction: Direction
    step: float = 0.0
    trials: int = 0
    failed: int = 0
    X: Any = None
    U: Any = None
    value: float = math.inf
    status: str = ""
    reason: str = ""


def _advance(problem: Discrete, p: Point, method: str, tolerance: float, search: Search, may_step: bool) -> _Outcome:
    """Choose a direction and follow it; an outcome with a status ends the optimization."""
    tried: list[_Outcome] = []
    uphill: Direction | None = None
    for name, scale in _candidates(method):
        # in "auto" a shortened Newton step is compared with Gauss-Newton's; otherwise any decrease will do
        if any(o.step >= 1.0 for o in tried) or (
            any(o.step > 0 for o in tried) and not (method == "auto" and name == "quasi")
        ):
            continue
        try:
            d = problem.direction(p, name, scale)
        except IndefiniteModel:
            continue
        if abs(d.slope) < tolerance:
            return _at_rest(problem, p, d, tolerance, may_step)
        if d.slope > 0:
            uphill = d  # a minimum of a model never lies uphill: rounding, or errors of the integration
            continue
        if not may_step:
            return _Outcome(d, status="iterations", reason="the limit of iterations is reached")
        tried.append(_search(problem, p, d, search, expand=method == "auto"))
    done = [o for o in tried if o.step > 0]
    if done:
        best = min(done, key=lambda o: o.value)
        best.trials, best.failed = sum(o.trials for o in tried), sum(o.failed for o in tried)
        return best
    if not tried and uphill is not None:
        reason = f"the slope {uphill.slope:.3g} has the wrong sign: no more accuracy is left"
        return _Outcome(uphill, status="stalled", reason=reason)
    if not tried:
        raise ConvergenceError(
            "no descent direction exists: every quadratic model is indefinite or the Riccati sweep overflows",
            hint="weigh all inputs in the cost, or shorten the horizon: an unstable direction may not be controllable",
        )
    return _stalled(problem, p, tried)


def _at_rest(problem: Discrete, p: Point, d: Direction, tolerance: float, may_step: bool) -> _Outcome:
    """A motion without slope: a minimum, unless some direction bends downwards, which is then followed."""
    out = _Outcome(d, status="converged", reason=f"|Dg.d| = {abs(d.slope):.3g} is below {tolerance:g}")
    down = None if d.method == "newton" else problem.downward(p)  # Newton's model has a minimum: it bends upwards
    if down is None:
        return out
    if not may_step:
        return _Outcome(down, status="iterations", reason="the limit of iterations is reached at a saddle or a maximum")
    best = _Outcome(down)
    for step in 0.5 ** np.arange(0, 20, 2):
        for side in (step, -step):
            best.trials += 1
            try:
                X, U = problem.project(*problem.moved(p, down, side), p.K)
                value = problem.value(X, U)
            except ConvergenceError:
                best.failed += 1
                continue
            if value < min(best.value, p.value - 10 * tolerance):
                best.step, best.X, best.U, best.value = float(step), X, U, value
        if best.step:
            return best
    return out


def _contracts(p: Point, rows: list[Iteration]) -> bool:
    """True at first, and while Gauss-Newton steps converge so fast that second-order terms are not worth their time."""
    if p.quasi is None:
        return False
    if not rows:
        return True
    last = rows[-1]
    enough = 0.05 if last.step == 1.0 else 0.3  # a shortened step: still far away, where Newton's model helps little
    return last.method == "quasi" and abs(p.quasi.slope) < enough * abs(last.slope)


def _candidates(method: str) -> Iterator[tuple[str, float]]:
    """Methods to try in order; the next one is asked for only if the one before has no minimum or no decrease."""
    if method in ("auto", "newton"):
        yield "newton", 1.0
        if method == "auto":
            yield "newton", 0.9
            yield "newton", 0.5
    if method in ("auto", "newton", "quasi"):
        yield "quasi", 1.0
    yield "steepest", 1.0


def _search(problem: Discrete, p: Point, d: Direction, search: Search, *, expand: bool) -> _Outcome:
    """Armijo (Algorithm 3): shorten the step until the projection works and the cost falls enough.

    `expand`: while a long step wins more than 3/4 of what its slope promises (the minimum of a parabola wins 1/2), the
    cost bends less than the model, or downwards, and the step is doubled: this leaves saddles and plateaus behind.
    """
    out = _Outcome(d)

    def attempt(step: float) -> bool:
        out.trials += 1
        try:
            X, U = problem.project(*problem.moved(p, d, step), p.K)
            value = problem.value(X, U)
        except ConvergenceError:
            value = math.nan
        if not math.isfinite(value):
            out.failed += 1
            return False
        if not value < min(p.value + search.fraction * step * d.slope, out.value):
            return False
        out.step, out.X, out.U, out.value = step, X, U, value
        return True

    step = 1.0
    for _ in range(search.trials):
        if attempt(step):
            break
        step *= search.shrink
    if expand:
        while 1.0 <= out.step < 1e3 and p.value - out.value > 0.75 * out.step * abs(d.slope):
            if not attempt(2 * out.step):
                break
    return out


def _stalled(problem: Any, p: Point, tried: list[_Outcome]) -> _Outcome:
    best = min(tried, key=lambda o: abs(o.direction.slope))
    best.trials, best.failed = sum(o.trials for o in tried), sum(o.failed for o in tried)
    slope = abs(best.direction.slope)
    if slope <= 1e-11 * max(1.0, abs(p.value)):
        best.status = "converged"
        best.reason = f"|Dg.d| = {slope:.3g} is the rounding error of the cost; no smaller decrease is representable"
        return best
    best.status = "stalled"
    if best.failed == best.trials:
        best.reason = (
            f"no step could be projected to a motion ({best.trials} trials; deviations grow "
            f"{problem.growth(p):.2g}-fold: the motion may not be stabilizable, or it touches a singularity)"
        )
    else:
        best.reason = (
            f"no step along the direction lowers the cost ({best.trials} trials, {best.failed} not projectable)"
        )
    return best


# ---- arguments


def _check_method(method: Method) -> None:
    if callable(method):
        return
    names = [method] if isinstance(method, str) else list(method)
    for name in names:
        if name not in (*METHODS, "auto"):
            raise ValueError(f"unknown method {name!r}; choose from auto, {', '.join(METHODS)}")
    if not names:
        raise ValueError("method must not be empty")


def _method_at(method: Method, index: int) -> str:
    if callable(method):
        name = method(index)
        _check_method(name)
        return name
    return method if isinstance(method, str) else method[min(index, len(method) - 1)]


def _as_system(system: OneStep | ContinuousSystem, start: Start) -> System | ContinuousSystem:
    """The system itself, or the steps of the start of any other one-step."""
    if isinstance(system, (System, ContinuousSystem)):
        return system
    if isinstance(start, Trajectory):
        return as_system(system, t=start.t)
    if isinstance(start, (tuple, list)) and len(start) == 2:
        return as_system(system, steps=len(np.asarray(start[1])))
    raise ValueError(
        "give a System, or a one-step (e.g. MidpointVI) together with a Trajectory or a pair (X, U) as start"
    )


def _start(system: System | ContinuousSystem, start: Start) -> tuple[Array, Array, tuple[Iteration, ...]]:
    history: tuple[Iteration, ...] = ()
    X: ArrayLike
    U: ArrayLike
    if isinstance(start, (str, os.PathLike)):
        X, U, history = load_checkpoint(start)
    elif isinstance(start, Optimization):
        X, U = start.X, start.U
    elif isinstance(start, (tuple, list)):
        if len(start) != 2:
            raise ValueError("start must be a Trajectory, a pair (X, U) or the path of a checkpoint")
        X, U = start
    else:
        X, U = system.curve(start)  # what is no motion is projected
    nodes = system.input_nodes if isinstance(system, ContinuousSystem) else system.steps
    states = finite_at(X, (system.steps + 1, system.nx), "start X", system.x_names)
    inputs = finite_at(U, (nodes, system.nu), "start U", system.u_names)
    broken = system.violation(states[0])
    if broken > 1e-6:
        raise ValueError(f"the start breaks the constraints by {broken:.3g}; see satisfy_constraints")
    return states, inputs, history


def _project_start(problem: Discrete, X: Array, U: Array) -> tuple[Array, Array]:
    try:
        return problem.feasible(X, U)
    except (ConvergenceError, IndefiniteModel) as error:
        raise ConvergenceError(
            f"the start is not a motion of the system and cannot be projected to one: {error}",
            hint="start from a simulated trajectory, or from rest with constant inputs",
        ) from error


def _free(system: System | ContinuousSystem, free_start: bool | Sequence[str]) -> Array | None:
    if free_start is False:
        return None
    if system.constrained:
        raise ValueError("free_start is not available for systems with constraints: the start must satisfy them")
    names = list(system.dx_names)
    if free_start is True:
        return np.ones(len(names), dtype=bool)  # type: ignore[return-value]
    unknown = [n for n in free_start if n not in names]
    if unknown:
        raise ValueError(f"free_start: unknown state {unknown[0]!r}; known are {', '.join(names)}")
    return np.array([n in free_start for n in names])  # type: ignore[return-value]


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[Iteration], None]]:
    """Called with every iteration: a line in a terminal or a notebook, a record in the log."""
    with progress_bar("optimize", wanted=wanted) as tell:

        def show(row: Iteration) -> None:
            text = f"iteration {row.index} ({row.method}): cost {row.cost:.8g}, |Dg| {abs(row.slope):.2e}"
            LOG.info(text)
            if tell is not None:
                tell(row.index, text)

        yield show
