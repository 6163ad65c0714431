"""`optimize`: what users call. Arguments are resolved here; the search is that of `shooting.py` (default), `projection.py` or `ipopt.py`."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, number, whole
from ..errors import DalembertError
from ..integrate import OneStep, Trajectory
from ..progress import progress as progress_bar
from ..system import System, as_system
from .constraints import Bounds, MotionLimit, rows_of
from .continuous import ContinuousSystem
from .costs import BoundCost, Cost, finite_at, sum_costs
from .descent import Discrete
from .duration import of_any_duration
from .projection import Method, check_method, descend
from .result import Iteration, Optimization, Search, load_checkpoint, save_checkpoint
from .shooting import Shooting

LOG = logging.getLogger("dalembert.optimization")
Start = Trajectory | tuple[ArrayLike, ArrayLike] | Optimization | str | os.PathLike[str]


def optimize(
    system: OneStep | ContinuousSystem,
    cost: Cost | BoundCost,
    start: Start,
    *,
    method: Method = "auto",
    tolerance: float = 1e-6,
    max_iterations: int = 500,
    bounds: Bounds | None = None,
    limits: Sequence[MotionLimit] = (),
    free_start: bool | Sequence[str] = False,
    free_time: tuple[float, float] | None = None,
    time_weight: float = 0.0,
    restarts: int = 0,
    gains: str | None = None,
    projection: tuple[ArrayLike, ArrayLike] | None = None,
    search: Search | None = None,
    bound_method: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    callback: Callable[[Iteration, Array, Array], None] | None = None,
) -> Optimization:
    """Find a motion of `system` that locally minimizes `cost`, starting from the curve `start`.

    system: a System (or ContinuousSystem), or any one-step, over the steps of `start`.
    cost: a `TrackingCost`, `TerminalCost`, `ExpressionCost` or a sum of them.
    start: a Trajectory, a plan of `dmoc`, a pair (X (N+1, nx), U (N, nu)), a result, or the path of a checkpoint to continue. It need not be a
        motion: a straight line of states to the goal is often the best start.
    method: "auto" (Newton and Gauss-Newton on curves whose gaps are closed on the way, see `cpp/shooting.hpp`), "projection" (the projection
        operator of the papers, which keeps to motions), its variants "newton" (falls back to "quasi", then to "steepest", when
        indefinite), "quasi" (Gauss-Newton), "steepest", a list of these for the iterations (the last one repeats) or a function of
        the iteration's index; "ipopt" (the same problem for IPOPT, to compare with; needs CasADi).
    tolerance: of the scaled KKT error (slope of the Lagrangian, gaps, complementarity); of |Dg.d| for the projection operator.
    max_iterations: limit on the number of steps.
    bounds: {name: (low, high)} on inputs or states, None for no bound. limits: `MotionLimit` values, on any expression. Both by an interior point,
        with multipliers in the result.
    free_start: True, or the names of the tangent components whose initial value is optimized too (along constraints, if there are any).
    free_time: (shortest, longest) duration (s), which is then optimized too: all steps are scaled by one factor, `time_weight` times the duration is
        added to the cost, and `result.system.t[-1]` is the duration found. With `limits` at the end and `bounds` this gives minimum-time motions.
    restarts: that many further searches from inputs with noise, on threads; the best result is returned.
    gains, projection, search, bound_method belong to the projection operator, and choose it. gains: "lqr" projects with LQR gains of the
        weights `projection` = (Q, R) (default identity), "lq" with those of the Gauss-Newton direction. search: Armijo's options.
        bound_method: "barrier" (Hauser, Saccon) or "lagrangian" (augmented Lagrangian: bounds hold to 1e-6 of their range).
    checkpoint: file (.npz) written after every iteration.
    progress: False hides the progress line that a terminal or a notebook shows; the log `dalembert.optimization` has it too.
    callback: called with (iteration, X, U) after every iteration.

    Returns an `Optimization`, also when interrupted from the keyboard: the best motion is kept. Raises ValueError for NaN and wrong shapes
    and ConvergenceError if the steps of the start cannot be taken.

    >>> import dalembert as da
    >>> pendulum = da.rz("theta", da.ty(-1.0, mass=1.0))
    >>> model = da.Model([pendulum], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> system = da.System(da.MidpointVI(model, 0.1), steps=20)
    >>> cost = da.TrackingCost({"theta": 0.5}, Q={"theta": 100.0, "p.theta": 1.0}, R=1.0)
    >>> result = da.optimize(system, cost, (np.zeros((21, 2)), np.zeros((20, 1))), bounds={"torque": (-5, 5)})
    >>> result.status
    'converged'
    """
    try:
        positive = number(tolerance, "tolerance") > 0
    except ValueError:
        positive = False
    if not positive:
        raise ValueError(f"tolerance must be a positive number, not {tolerance!r:.80}")
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, (int, np.integer)) or max_iterations < 0:
        raise ValueError(f"max_iterations must be a whole number, not negative, not {max_iterations!r}")
    if whole(restarts, "restarts") < 0:
        raise ValueError(f"restarts must not be negative, not {restarts}")
    over = _as_system(system, start)
    paper = any(option is not None for option in (gains, projection, search, bound_method))
    if method == "auto" and (paper or isinstance(over, ContinuousSystem)):
        method = "projection"
    if method not in ("auto", "ipopt"):
        check_method(method)
    X, U, history = _start(over, start)
    bound = (
        cost.bind(over.cost_system if isinstance(over, ContinuousSystem) else over) if isinstance(cost, Cost) else cost
    )
    if not hasattr(bound, "values"):
        raise TypeError(f"cost must be a TrackingCost, TerminalCost, ExpressionCost or a sum of them, not {cost!r:.80}")
    free = _free(over, free_start)
    if free_time is not None and (method != "auto" or not isinstance(over, System) or restarts or checkpoint):
        raise ValueError("free_time needs method='auto' and a System, and has neither restarts nor checkpoint")
    with _progress(progress) as show:
        if method == "auto":
            assert isinstance(over, System)
            rows = rows_of(over, bounds, limits)
            limit = int(max_iterations)
            tell_all: dict[str, Any] = {"history": history, "callback": callback, "show": show}
            if free_time is not None:

                def timed(over: System, cost: BoundCost, rows: Any, free: Array, X: Array, U: Array) -> Optimization:
                    return _search(Shooting(over, cost, rows, free), X, U, float(tolerance), limit, **tell_all)

                weight = number(time_weight, "time_weight")
                return of_any_duration(over, bound, rows, free, (X, U), free_time, weight, timed)

            def one(X: Array, U: Array, **tell: Any) -> Optimization:
                own = rows_of(over, bounds, limits) if tell.pop("own", False) else rows
                return _search(Shooting(over, bound, own, free), X, U, float(tolerance), limit, **tell)

            result = one(X, U, checkpoint=checkpoint, **tell_all)
            again = restarts and result.status != "interrupted"
            return _restarted(over, result, X, U, one, restarts) if again else result
        if method == "ipopt":
            if not isinstance(over, System) or free is not None or restarts:
                raise ValueError("method='ipopt' needs a System, and has neither free_start nor restarts")
            from .ipopt import solve_ipopt

            found = rows_of(over, bounds, limits)
            return solve_ipopt(over, bound, found, X, U, tolerance=float(tolerance), max_iterations=int(max_iterations))
        if limits or restarts:
            raise ValueError(f"limits and restarts need method='auto', not {method!r}")
        return _projection(
            over, bound, X, U, free, bounds, method=method, gains=gains, weights=projection, bound_method=bound_method,
            tolerance=tolerance, max_iterations=max_iterations, search=search or Search(), checkpoint=checkpoint,
            callback=callback, history=history, show=show,
        )  # fmt: skip


# ---- the searches


def _search(
    problem: Shooting,
    X: Array,
    U: Array,
    tolerance: float,
    max_iterations: int,
    *,
    history: tuple[Iteration, ...] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Iteration, Array, Array], None] | None = None,
    show: Callable[[Iteration], None] | None = None,
) -> Optimization:
    """The loop around `Shooting.iterate`: the story, checkpoints, and a motion at the end."""
    rows = list(history)
    offset = rows.pop().index if rows else 0  # the last row of a checkpoint is the evaluation that starts over here
    problem.begin(X, U)
    first = problem.value
    status, reason = "iterations", f"stopped after {max_iterations} iterations"
    index = offset
    try:
        for count in range(max_iterations + 1):
            index = offset + count
            begun = time.perf_counter()
            cost, gap = problem.value, problem.gap
            step, ended, said = problem.iterate(tolerance, count < max_iterations)
            row = Iteration(
                index, step.method, cost, step.slope, step.length, step.trials, step.failed,
                time.perf_counter() - begun, gap, problem.error,
            )  # fmt: skip
            rows.append(row)
            value = problem.value
            if checkpoint is not None:
                # a step leads to a point that has not been looked at: its row is the place to resume
                rest = [Iteration(index + 1, "", value, math.nan, 0.0, 0, 0, 0.0)] if step.length > 0 else []
                save_checkpoint(checkpoint, problem.X, problem.U, problem.gains, [*rows, *rest])
            if show is not None:
                show(row)
            if callback is not None:
                callback(row, problem.X, problem.U)
            if ended:
                status, reason = ended, said
                break
            if value < -1e12 * (1.0 + abs(first)):
                status, reason = "unbounded", f"the cost fell from {first:.6g} to {value:.6g} and keeps falling"
                break
    except KeyboardInterrupt:
        status, reason = "interrupted", f"stopped from the keyboard in iteration {index}"
    except DalembertError as error:  # what was found so far is kept
        status, reason = "stalled", str(error)
    closed = problem.close()
    if not closed:
        reason += "; its gaps could not be closed"
    X, U = problem.X, problem.U
    multipliers = problem.multipliers()
    if multipliers and status in ("converged", "stalled", "iterations", "saddle"):
        violation, name = problem.violation()
        if violation > 1e-6 * max(1.0, abs(problem.error)) and status != "iterations":
            status = "infeasible"
            reason = f"'{name}' is violated by {violation:.2g}: the limits may contradict the dynamics or the start ({reason})"
    gains = problem.gains
    if gains is None:
        gains = np.zeros((len(U), U.shape[1], problem.system.ndx))
    return Optimization(
        problem.system, X, U, gains, problem.value, problem.slope, status, reason, tuple(rows),
        Discrete(problem.system, problem.cost, gains="lq", free=problem.free),
        multipliers,
        costates=problem.costates, error=problem.error, gave_up=problem.gave_up,
    )  # fmt: skip


def _restarted(
    system: System, first: Optimization, X: Array, U: Array, one: Callable[..., Optimization], restarts: int
) -> Optimization:
    """Further searches from the start's inputs with noise, held for a twentieth of the horizon, as large as the inputs that were found. Ctrl-C ends
    them all, and the best motion so far is kept."""
    size = np.maximum(np.sqrt(((first.U - U) ** 2).mean(0)), 1e-3 * np.abs(first.U).max(initial=1e-6))
    hold = max(1, len(U) // 20)

    def again(seed: int) -> Optimization | None:
        rng = np.random.default_rng(seed)
        noise = np.repeat(rng.normal(size=(len(U) // hold + 1, U.shape[1])), hold, 0)[: len(U)] * size
        for share in (1.0, 0.3, 0.1):
            try:
                ins = U + share * noise
                return one(system.simulate(X[0], ins), ins, own=True, callback=go_on)
            except DalembertError:
                continue
        return None

    stopped = threading.Event()

    def go_on(*_: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    found = {-1: first}
    seeds = iter(range(restarts))  # that are left, for all threads

    def search() -> None:
        while not stopped.is_set() and (seed := next(seeds, None)) is not None:
            if (result := again(seed)) is not None and result.status != "interrupted":
                found[seed] = result

    count = min(restarts, os.cpu_count() or 1)
    with ThreadPoolExecutor(max_workers=count) as crew:
        try:
            for job in [crew.submit(search) for _ in range(count)]:
                job.result()
        except BaseException as error:
            stopped.set()
            if not isinstance(error, KeyboardInterrupt):
                raise
    ends = [found[seed] for seed in sorted(found)]
    best = min([r for r in ends if r.converged] or ends, key=lambda r: r.cost)
    if stopped.is_set():
        best = replace(best, status="interrupted", reason=f"stopped from the keyboard after {len(found) - 1} restarts")
    return best


def _projection(
    system: System | ContinuousSystem,
    cost: BoundCost,
    X: Array,
    U: Array,
    free: Array | None,
    bounds: Bounds | None,
    *,
    method: Method,
    gains: str | None,
    weights: tuple[ArrayLike, ArrayLike] | None,
    bound_method: str | None,
    **options: Any,
) -> Optimization:
    """The papers' optimizer."""
    if gains is None:
        gains = "lq" if method == "projection" and weights is None else "lqr"
    if gains not in ("lqr", "lq"):
        raise ValueError(f"gains must be 'lqr' or 'lq', not {gains!r}")
    if free is not None and system.constrained:
        raise ValueError("free_start with constraints needs method='auto'")

    def problem(extra: Sequence[BoundCost] = ()) -> Discrete:
        total = sum_costs([cost, *extra])
        if isinstance(system, ContinuousSystem):
            return system.optimization_problem(total, weights=weights, gains=gains, free=free)
        return Discrete(system, total, weights=weights, gains=gains, free=free)

    if bounds:
        from .bounds import optimize_bounded

        how = "barrier" if bound_method is None else bound_method
        return optimize_bounded(system, problem, X, U, bounds=bounds, bound_method=how, method=method, **options)
    return descend(problem(), X, U, method=method, **options)


# ---- arguments


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
    elif hasattr(start, "trajectory"):  # a plan of dmoc
        X, U = system.curve(start.trajectory)  # type: ignore[union-attr]
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


def _free(system: System | ContinuousSystem, free_start: bool | Sequence[str]) -> Array | None:
    if free_start is False:
        return None
    if system.constrained and not isinstance(system, System):
        raise ValueError(
            "free_start is not available for continuous systems with constraints: the start must satisfy them"
        )
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
            if tell is None and not LOG.isEnabledFor(logging.INFO):
                return
            text = f"iteration {row.index} ({row.method}): cost {row.cost:.8g}, |Dg| {abs(row.slope):.2e}"
            LOG.info(text)
            if tell is not None:
                tell(row.index, text)

        yield show
