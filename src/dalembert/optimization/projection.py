"""The projection operator of the papers as an optimizer: the loop, the line search and the choice of the method.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, Algorithms 1 to 3. `optimize(..., method="projection")`, or one of
"newton", "quasi", "steepest", or a schedule of them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import ConvergenceError
from .descent import METHODS, Direction, Discrete, IndefiniteModel, Point
from .result import Iteration, Optimization, Search, save_checkpoint

Method = str | Sequence[str] | Callable[[int], str]


def descend(
    problem: Discrete,
    X: Array,
    U: Array,
    *,
    method: Method = "projection",
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
            if chosen == "projection" and _contracts(p, rows):
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
        # in "projection" a shortened Newton step is compared with Gauss-Newton's; otherwise any decrease will do
        if any(o.step >= 1.0 for o in tried) or (
            any(o.step > 0 for o in tried) and not (method == "projection" and name == "quasi")
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
        tried.append(_search(problem, p, d, search, expand=method == "projection"))
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
    if method in ("projection", "newton"):
        yield "newton", 1.0
        if method == "projection":
            yield "newton", 0.9
            yield "newton", 0.5
    if method in ("projection", "newton", "quasi"):
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


def check_method(method: Method) -> None:
    if callable(method):
        return
    names = [method] if isinstance(method, str) else list(method)
    for name in names:
        if name not in (*METHODS, "projection"):
            raise ValueError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    if not names:
        raise ValueError("method must not be empty")


def _method_at(method: Method, index: int) -> str:
    if callable(method):
        name = method(index)
        check_method(name)
        return name
    return method if isinstance(method, str) else method[min(index, len(method) - 1)]


def _project_start(problem: Discrete, X: Array, U: Array) -> tuple[Array, Array]:
    try:
        return problem.feasible(X, U)
    except (ConvergenceError, IndefiniteModel) as error:
        raise ConvergenceError(
            f"the start is not a motion of the system and cannot be projected to one: {error}",
            hint="start from a simulated trajectory, or from rest with constant inputs",
        ) from error
