"""Optimal control of a constrained system by DMOCC: the discrete problem (21)-(22) of minimal dimension, by IPOPT.

Unknowns of the minimal form: u_0 ... u_N, tau_0 ... tau_{N-1} (and the duration), (2N+1)(n-m) when all degrees of
freedom are actuated. Rows: initial configuration, initial momentum (18), the N-1 discrete equations (13), final
momentum (18), final configuration D, (N+3)(n-m) in all; what is left free keeps its row with infinite bounds, so that
the sizes are those of the paper (section 3, "Accuracy and efficiency"). Limits of the turn per step, rates, path
conditions and closed loops add rows.

The form "momentum" also keeps the momenta of the nodes as unknowns (more robust from a poor guess, same solution), the
form "multiplier" is (10) with all n coordinates and m multipliers per node, for comparison. Closed loops keep the
multipliers of their closures in every form, and only rows of them that are independent along the first guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...arrays import Named, floats, matrix, nearest, vector, whole
from ...text import Brief
from ..conditions import conditions
from ..replay import judge, refined, wanted
from .kernels import System, dense, flat, kernels, over
from .motion import Motion, assemble, coordinates, momenta, velocities
from .nlp import Answer, Program
from .replay import measure, replay
from .view import View

FORMS = ("minimal", "momentum", "multiplier")
ROUNDS = 8  # renewals of charts


@dataclass(frozen=True, repr=False)
class Solution(Brief):
    """Result of `optimize`: whatever happened, `motion` holds the last iterate.

    `status` is "solved" or says what went wrong ("infeasible", "contradictory_bounds", "iteration_limit", ...),
    `message` explains it; `unknowns` and `constraints` are the sizes of the problem, `multipliers` those of its rows,
    `violation` the largest violated row, `seconds` (set-up, solve).

    A plan must be a motion: its inputs are replayed with eight steps for each of its own. `replay_error` is the largest
    distance between the two relative to how far the motion goes, `defect` the sum over the steps of the error in
    velocity that one step makes, relative to the largest speed (both in the norm of the mass matrix; None where the
    search failed). Above 0.03 the message says so, with an `AccuracyWarning`. `refinements` lists (steps, objective,
    replay error, defect) of every mesh that `refine` took.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2))], [Joint("R", "ground", "disk")])
    >>> weak = optimize(disk, steps=20, time=1.0, goal=[1.0], input_bounds={"disk": (-1.0, 1.0)})
    >>> weak.success, weak.status, weak.motion.u.shape
    (False, 'infeasible', (21, 1))
    """

    status: str
    message: str
    motion: Motion
    objective: float
    unknowns: int
    constraints: int
    iterations: int
    violation: float
    seconds: tuple[float, float]
    multipliers: np.ndarray = field(repr=False)
    form: str = "minimal"
    replay_error: float | None = None
    defect: float | None = None
    refinements: tuple[tuple[int, float, float | None, float | None], ...] = ()

    @property
    def success(self) -> bool:
        """Whether a local optimum was found."""
        return self.status in ("solved", "acceptable")

    def replay(self, substeps: int = 8) -> Motion:
        """The motion that the inputs cause from the same start, with so many steps for each of the plan's."""
        return replay(self.motion, substeps)


def problem_size(system: System, steps: int, *, form: str = "minimal", free_time: bool = False) -> tuple[int, int]:
    """Unknowns and constraints of the discrete problem as the paper poses it, without limits of the turn per step.

    `form="paper"` gives the paper's count of the multiplier formulation, N(2n+m)+n and (N-1)(n+m)+4n, where the
    redundant forces of every step are unknowns too; here the joint forces are, and the multipliers of all N+1 nodes.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> body = RigidBody("body", 1.0, (1, 1, 1))
    >>> problem_size(MultibodySystem([body], [Joint("free", "ground", "body")]), 50)
    (606, 318)
    """
    n, m, nd, nu = system.n, system.m, system.nd, system.nu
    rows = (steps - 1) * (n + m) + 4 * n
    sizes = {
        "minimal": ((steps + 1) * nd + steps * nu, (steps + 3) * nd),
        "momentum": (2 * (steps + 1) * nd + steps * nu, (2 * steps + 4) * nd),
        "multiplier": ((steps + 1) * (n + m) + steps * nu, rows),
        "paper": (steps * (2 * n + m) + n, rows),
    }
    unknowns, constraints = sizes[form]
    return unknowns + int(free_time), constraints


def optimize(
    system: System,
    *,
    steps: int,
    time: float | tuple[float, float],
    start: object = None,
    start_velocity: Named | None = None,
    goal: object = None,
    goal_velocity: object = 0.0,
    effort: float | Sequence[float] | Mapping[str, float] = 1.0,
    cost: Callable[[View], Any] | None = None,
    final_cost: Callable[[View], Any] | None = None,
    spin_cost: float = 0.0,
    path: Callable[[View], Any] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    input_bounds: Mapping[str, tuple[float, float]] | None = None,
    rate_bounds: Mapping[str, tuple[float, float]] | None = None,
    turn: float | None = 1.0,
    guess: Motion | Solution | Any = None,
    coarse: Sequence[int] = (),
    refine: str | float | None = None,
    form: str = "minimal",
    reparameterization: str = "absolute",
    charts: str = "fixed",
    tolerance: float = 1e-9,
    max_iterations: int = 1000,
    options: Mapping[str, Any] | None = None,
) -> Solution:
    """Minimize sum over steps of h (effort/2 |tau|^2 + cost(midpoint)) + final_cost(end) subject to the dynamics.

    - `time`: duration (s), or (shortest, longest) for a free final time.
    - `start`, `goal`: joint coordinates, an array (nd,) or a dict by name. In `goal` a value may be a pair (low, high),
      names left out are free, None leaves all free, and `(function, low, high)` states conditions of your own on the
      last node's `View`. Names left out of `start` are zero, or close the loops (see `assemble`).
    - `start_velocity`, `goal_velocity`: rates of the coordinates at the ends (0: rest, None: free at the goal; a
      dict of zeros by name: rest of those, when conserved momenta bring the others to rest by themselves).
    - `effort`: weight of the squared inputs, one, one per input, or a dict by name. `cost(view)`: running cost at the
      midpoint of a step (`view.position`, `view.velocity`, `view["name"]`, `view.input("name")`); `final_cost(view)`:
      at the last node, with the velocity of the projected momentum (15). `spin_cost`: weight of the squared angular
      velocities of all bodies. A thin body can be spun up about its long axis almost for nothing, and the search then
      follows a valley of ever faster spins; a weight that costs a few percent closes it.
    - `path(view)`: list of (low, expression or column of expressions, high) that hold at all nodes; at the midpoints of the steps if they contain
      velocities or inputs.
    - `bounds`, `input_bounds`: (low, high) by name of coordinate or input. `rate_bounds`: (low, high) of a coordinate's
      rate over a step, one more row per step. Rotation vectors (balls, free bodies) are kept within +-pi, or what start
      and goal need, unless bounded otherwise.
    - `turn`: largest angle (rad) by which a body may turn in one step, one more row per step and body: beyond a quarter
      turn a step has a slower twin with the same momentum. Where it is active (the message says so) it limits the
      speed: take more steps, or bound the rates. None: no limit.
    - `guess`: a `Motion` or `Solution` (interpolated in time), an array (N+1, nd) of coordinates, or None for the
      straight line. Where loops are closed it is brought onto the closures.
    - `coarse`: numbers of steps to solve first, each the guess of the next, e.g. (32, 128) for steps=512: a refinement
      takes a handful of iterations.
    - `refine="auto"`: double the steps until replay error and defect are at most 0.03, three times and then as long as
      that at least halves the defect (at most seven times); `turn` is at most 0.6 on the first mesh, 0.3 on the second,
      0.15 on the others. A number instead of "auto" is what they must come down to. The finest of these plans is returned.
    - `form`: "minimal", "momentum" or "multiplier"; `reparameterization`: "absolute", or "relative" (11), where
      increments lead from node to node, which are unknowns too and keep the problem sparse.
    - `charts`: "fixed", or "renewed" for turns of balls and free bodies beyond half a turn: rotation vectors refer to
      the first guess, and again to the solution, until none of them comes near a quarter turn.
    - `options`: passed on to IPOPT.

    Never raises for a failed solve: see `Solution.status`.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2))], [Joint("R", "ground", "disk")])
    >>> turned = optimize(disk, steps=20, time=1.0, goal={"disk": 1.0})
    >>> turned.status, round(turned.objective, 1)  # continuous optimum: 6 J^2 = 24
    ('solved', 24.0)
    """
    arguments = {key: value for key, value in locals().items() if key not in ("system", "steps", "guess")}
    if refine is not None:
        arguments["refine"] = None

        def solve(count: int, limit: float, first: Any) -> Solution:
            given = arguments | {"coarse": arguments["coarse"] if first is None else ()}
            return optimize(system, steps=count, guess=guess if first is None else first, **given | {"turn": limit})

        found, listed = refined(solve, steps, turn, wanted(refine))
        return judge(replace(found, refinements=listed))
    for fewer in coarse:
        found = optimize(system, steps=fewer, guess=guess, **arguments | {"coarse": ()})
        guess = found if found.success else guess

    steps = whole(steps, "steps")
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
    if reparameterization not in ("absolute", "relative"):
        raise ValueError(f"reparameterization must be 'absolute' or 'relative', not {reparameterization!r}")
    relative = reparameterization == "relative"
    if charts not in ("fixed", "renewed"):
        raise ValueError(f"charts must be 'fixed' or 'renewed', not {charts!r}")
    if form == "multiplier" and relative:
        raise ValueError("the multiplier form has no reparameterization; use form 'minimal' or 'momentum'")
    if charts == "renewed" and (relative or form == "multiplier"):
        raise ValueError("charts are renewed with absolute reparameterization, form 'minimal' or 'momentum'")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    if turn is not None and not 0 < turn < np.pi:
        raise ValueError(f"turn must be an angle between 0 and pi, or None, not {turn!r}")
    task = _Task(
        system=system,
        steps=steps,
        form=form,
        relative=relative,
        duration=_duration(time),
        u0=_start(system, start),
        v0=vector(start_velocity, system.coordinates, "start_velocity"),
        aim=_goal(system, goal),
        rest=goal_velocity,
        weights=_weights(system, effort),
        cost=cost,
        final_cost=final_cost,
        spin_cost=float(spin_cost),
        path=path,
        limits=_limits(system.coordinates, bounds, "bounds"),
        input_limits=_limits(system.inputs, input_bounds, "input_bounds"),
        rate_limits=_limits(system.coordinates, rate_bounds, "rate_bounds"),
        turn=turn,
    )
    # IPOPT's own scaling of rows changes with the mesh and leads cold starts on fine ones to poor minima: switched off
    settings = {"nlp_scaling_method": "none", "tol": tolerance, "max_iter": max_iterations, **dict(options or {})}
    first = task.first(guess)
    if charts == "fixed":
        return judge(_finish(_Transcription(task, first), settings))
    return judge(_renewed(task, first, settings, max_iterations))


def _finish(made: _Transcription, settings: Mapping[str, Any]) -> Solution:
    """Solve, read the motion off, and replay it."""
    answer = made.program.solve(settings, refuse=made.task.crossed())
    made.x = answer.x
    motion = made.motion(answer.x)
    found = Solution(
        answer.status,
        answer.message + made.notes(answer),
        motion,
        answer.cost,
        made.program.nx,
        made.program.ng,
        answer.iterations,
        answer.violation,
        answer.seconds,
        answer.multipliers,
        made.task.form,
    )
    if not found.success:
        return found
    error, defect = measure(motion)
    return replace(found, replay_error=error, defect=defect)


def _renewed(task: _Task, first: _First, settings: dict[str, Any], limit: int) -> Solution:
    """Solve again with rotation vectors that refer to the last iterate, until none of them is large."""
    spent, seconds, left = 0, np.zeros(2), limit
    for _ in range(ROUNDS):
        made = _Transcription(task, first, renewed=True)
        found = _finish(made, settings | {"max_iter": min(left, 150)})
        spent, seconds = spent + found.iterations, seconds + np.array(found.seconds)
        left = limit - spent
        if (found.success and not made.boxed(made.x)) or found.status == "contradictory_bounds" or left <= 0:
            break
        first = task.first(found.motion)
    return replace(found, iterations=spent, seconds=(float(seconds[0]), float(seconds[1])))


# ---- reading the arguments -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _First:
    """A first guess: coordinates (N+1, nd), inputs (N, nu), duration, multipliers (N+1, rows) or None."""

    u: np.ndarray
    tau: np.ndarray
    time: float
    lam: np.ndarray | None = None


@dataclass(frozen=True)
class _Aim:
    """The goal: coordinates (nd,) for guesses, limits, and the user's condition if there is one."""

    u: np.ndarray
    low: np.ndarray
    high: np.ndarray
    function: Callable[..., Any] | None = None

    @property
    def fixed(self) -> np.ndarray:
        """Which coordinates have one value (nd,)."""
        return np.zeros(len(self.u), dtype=bool) if self.function is not None else self.low == self.high

    @property
    def ranged(self) -> np.ndarray:
        """Which coordinates have a range (nd,)."""
        if self.function is not None:
            return np.zeros(len(self.u), dtype=bool)
        return ~self.fixed & (np.isfinite(self.low) | np.isfinite(self.high))


Limits = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Task:
    """All that is asked for, checked."""

    system: System
    steps: int
    form: str
    relative: bool
    duration: tuple[float, float]
    u0: np.ndarray
    v0: np.ndarray
    aim: _Aim
    rest: Any
    weights: np.ndarray
    cost: Callable[[View], Any] | None
    final_cost: Callable[[View], Any] | None
    spin_cost: float
    path: Callable[[View], Any] | None
    limits: Limits
    input_limits: Limits
    rate_limits: Limits
    turn: float | None

    def crossed(self) -> str:
        """What contradicts itself, or nothing."""
        names, inputs = self.system.coordinates, self.system.inputs
        found = _crossed(names, "", *self.limits) + _crossed(inputs, "input ", *self.input_limits)
        found += _crossed(names, "rate of ", *self.rate_limits)
        found += _crossed(["time"], "", *np.reshape(self.duration, (2, 1)))
        found += ["goal"] if np.any(self.aim.low > self.aim.high) else []
        if found:
            return f"the lower limit exceeds the upper one: {', '.join(found)}"
        low, high = self.limits
        for what, below, above in (("start", self.u0, self.u0), ("goal", self.aim.low, self.aim.high)):
            if what == "start" or self.aim.function is None:
                apart = np.flatnonzero((below > high + 1e-9) | (above < low - 1e-9))
                found += [f"{what} of {names[i]} is outside of [{low[i]:g}, {high[i]:g}]" for i in apart]
        return "; ".join(found)

    def first(self, guess: Any) -> _First:
        """The first guess, on the closures."""
        found = _guess(self.system, guess, self.steps, self.u0, self.aim, 0.5 * sum(self.duration))
        if not kernels(self.system).mechanics.nc:
            return found
        from ...errors import ConvergenceError

        u, line, fixed = found.u.copy(), found.u.copy(), self.aim.fixed
        u[0], line[-1] = self.u0, np.where(fixed, self.aim.u, line[-1])
        held = [c for c, on in zip(self.system.coordinates, fixed, strict=True) if on]
        for n in range(1, self.steps + 1):
            # what closes the loops changes little from node to node; what the goal names follows the guess
            near = np.where(fixed, line[n], line[n] + u[n - 1] - line[n - 1])
            for kept in (held, ()):
                try:
                    u[n] = assemble(self.system, near, fixed=kept)
                    break
                except ConvergenceError as error:
                    u[n] = near
                    if n == self.steps:
                        raise ValueError(f"goal: {error}") from None
        return replace(found, u=u)


def _start(system: System, start: Any) -> np.ndarray:
    """Initial coordinates on the closures: those that a dict leaves out are found, others are checked."""
    from ...errors import ConvergenceError

    k = kernels(system)
    u0 = system.vector(start, "start")
    if not k.mechanics.nc:
        return u0
    if isinstance(start, Mapping):
        try:
            return assemble(system, start)
        except ConvergenceError as error:
            raise ValueError(f"start: {error}") from None
    gap = float(np.abs(dense(k.closing(u0)[0])).max())
    if gap > 1e-6:
        raise ValueError(f"start violates a closure by {gap:.3g}; close the loops with assemble()")
    return assemble(system, u0)


def _weights(system: System, effort: Any) -> np.ndarray:
    if isinstance(effort, Mapping):
        return vector(effort, system.inputs, "effort")
    given = floats(effort, "effort")
    return matrix(np.full(system.nu, given) if given.ndim == 0 else given, (system.nu,), "effort")


def _duration(time: float | tuple[float, float]) -> tuple[float, float]:
    pair = np.atleast_1d(floats(time, "time"))
    if pair.size not in (1, 2) or not np.isfinite(pair).all() or (pair <= 0).any():
        raise ValueError(f"time must be a positive number or (shortest, longest), not {time!r}")
    return float(pair[0]), float(pair[-1])


def _limits(names: Sequence[str], bounds: Mapping[str, tuple[float, float]] | None, what: str) -> Limits:
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    for key, pair in (bounds or {}).items():
        if key not in names:
            raise ValueError(f"{what}: unknown name {key!r}{nearest(key, names)}; known are {', '.join(names)}")
        ends = floats(pair, f"{what}: bounds of {key!r}")
        if ends.shape != (2,) or np.isnan(ends).any():
            raise ValueError(f"{what} of {key!r} must be (low, high), not {pair!r}")
        i = list(names).index(key)
        low[i], high[i] = ends
    return low, high


def _crossed(names: Sequence[str], what: str, low: np.ndarray, high: np.ndarray) -> list[str]:
    return [f"{what}{c} in [{a:g}, {b:g}]" for c, a, b in zip(names, low, high, strict=True) if a > b]


def _goal(system: System, goal: Any) -> _Aim:
    if isinstance(goal, tuple) and goal and callable(goal[0]):
        function, low, high = goal
        return _Aim(np.zeros(system.nd), floats(low, "goal"), floats(high, "goal"), function)
    low, high = np.full(system.nd, -np.inf), np.full(system.nd, np.inf)
    if goal is None:
        return _Aim(np.zeros(system.nd), low, high)
    if not isinstance(goal, Mapping) and len(goal) != system.nd:
        raise ValueError(f"goal needs {system.nd} values, got {len(goal)}")
    items = goal.items() if isinstance(goal, Mapping) else zip(system.coordinates, goal, strict=True)
    for key, value in items:
        if key not in system.coordinates:
            raise ValueError(f"goal: unknown name {key!r}{nearest(key, system.coordinates)}")
        i = system.coordinates.index(key)
        pair = np.atleast_1d(floats(value, f"goal of {key!r}"))
        if np.isnan(pair).any() or pair.size not in (1, 2):
            raise ValueError(f"goal of {key!r} must be a number or (low, high), not {value!r}")
        low[i], high[i] = pair[0], pair[-1]
    known = np.isfinite(low) & np.isfinite(high)
    middle = 0.5 * (np.where(known, low, 0.0) + np.where(known, high, 0.0))
    return _Aim(middle, low, high)


def _guess(system: System, guess: Any, steps: int, u0: np.ndarray, aim: _Aim, time: float) -> _First:
    """First guess: straight line, coordinates as given, or a motion interpolated in time."""
    if isinstance(guess, Solution):
        guess = guess.motion
    if guess is None:
        end = u0
        if aim.function is None:
            end = np.where(np.isfinite(aim.low) & np.isfinite(aim.high), aim.u, u0)
        return _First(u0 + np.linspace(0, 1, steps + 1)[:, None] * (end - u0), np.zeros((steps, system.nu)), time)
    if not isinstance(guess, Motion):
        u = matrix(guess, (steps + 1, system.nd), "guess")
        return _First(u.copy(), np.zeros((steps, system.nu)), time)
    if guess.u.shape[1] != system.nd or guess.tau.shape[1] != system.nu:
        raise ValueError("the guess is a motion of another system; give its coordinates as an array")
    old, new = guess.t / guess.t[-1], np.linspace(0, 1, steps + 1)
    centres, middles = 0.5 * (old[1:] + old[:-1]), 0.5 * (new[1:] + new[:-1])

    def along(at: np.ndarray, given: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.column_stack([np.interp(at, given, c) for c in values.T]) if values.size else values[: len(at)]

    tau = along(middles, centres, guess.tau) if system.nu else np.zeros((steps, 0))
    lam = along(new, old, guess.lam) if guess.lam is not None and len(guess.lam) == len(old) else None
    return _First(along(new, old, guess.u), tau, float(guess.t[-1]), lam)


# ---- the nonlinear program -----------------------------------------------------------------------------------------


class _Transcription:
    """Lays out unknowns and rows of the discrete problem in one of its forms; each method adds one part."""

    def __init__(self, task: _Task, first: _First, *, renewed: bool = False) -> None:
        self.task, self.first, self.renewed = task, first, renewed
        self.system, self.steps = task.system, task.steps
        self.k = k = kernels(task.system)
        self.mechanics = k.mechanics
        multiplier = task.form == "multiplier"
        if task.relative and k.mechanics.advance is None:
            raise ValueError("the reparameterization is an absolute one (it ignores q); use 'absolute'")
        self.chart = (
            k.redundant if multiplier else k.directors if task.relative else k.referred if renewed else k.coordinates
        )
        self.shortest, self.longest = task.duration
        self.free_time = self.shortest != self.longest
        self.q = over(k.place, first.u)[0][:, :, 0]
        self.r = self._parameters()
        self.choose = self._independent()
        self.program, self.x = Program(), np.zeros(0)
        self._unknowns()
        self._dynamics()
        self._closures()
        self._goal()
        self._rates()
        self._turns()
        self._path()
        self._cost()

    # ---- places

    def _parameters(self) -> np.ndarray:
        """Numbers of every node that its chart reads, (N+1, nr)."""
        if not self.renewed:
            return self.first.u if self.chart.nr else np.zeros((self.steps + 1, 0))
        from scipy.spatial.transform import Rotation

        parts = [Rotation.from_rotvec(self.first.u[:, w]).as_matrix() for w in self._balls()]
        return (
            np.hstack([r.transpose(0, 2, 1).reshape(-1, 9) for r in parts]) if parts else np.zeros((self.steps + 1, 0))
        )

    def _balls(self) -> list[slice]:
        """Where rotation vectors stand in u."""
        slices = getattr(self.system, "slices", ())
        return [slice(slices[i].stop - 3, slices[i].stop) for i in getattr(self.mechanics, "balls", ())]

    def _independent(self) -> np.ndarray:
        """Combinations (kept, nc) of the closures that are independent along the first guess."""
        nc = self.mechanics.nc
        if not nc:
            return np.zeros((0, 0))
        normals = over(self.k.inertia, self.q, self.first.u)[2]
        left, values, _ = np.linalg.svd(normals.transpose(1, 0, 2).reshape(nc, -1), full_matrices=False)
        kept = int((values > 1e-9 * max(values.max(initial=0.0), 1e-300)).sum())
        return np.eye(nc) if kept == nc else left[:, :kept].T

    def _last_closures(self) -> np.ndarray:
        """Those of them (rows, nc) at the goal that the prescribed coordinates leave open."""
        open_ = ~self.task.aim.fixed
        normal = self.choose @ dense(self.k.closing(self.first.u[-1])[1])
        left, values, _ = np.linalg.svd(normal[:, open_])
        kept = int((values > 1e-9 * max(float(np.abs(normal).max(initial=0.0)), 1e-300)).sum())
        return self.choose if kept == len(self.choose) else left[:, :kept].T @ self.choose

    def _unknowns(self) -> None:
        task, chart, program, first, k = self.task, self.chart, self.program, self.first, self.k
        steps, tau = self.steps, first.tau
        time = float(np.clip(first.time, self.shortest, max(task.duration)))
        self.box = np.full(self.system.nd, np.inf)
        self.beyond: list[str] = []
        if chart in (k.coordinates, k.referred):
            self.at = program.unknown(self._local(first.u), *self._box())
        else:
            self.at = program.unknown(self.q)
        rows = len(self.choose) + chart.tree
        lam = np.zeros((steps + 1, rows))
        if first.lam is not None and chart.rows == first.lam.shape[1]:
            lam = first.lam @ _with_tree(self.choose, chart.tree).T
        free = np.full(lam.shape, np.inf)
        free[-1] = 0.0 if task.rest is None else np.inf  # nothing holds the last multiplier where the momentum is free
        self.at_lam = program.unknown(lam, -free, free)
        self.at_tau = program.unknown(tau, *task.input_limits)
        self.at_time = program.unknown(np.full((1, int(self.free_time)), time), self.shortest, self.longest)
        if task.relative:
            limit = np.full(self.system.nd, np.inf)
            for where in self._balls():
                limit[where] = np.pi / 2
            self.at_move = program.unknown(_increments(self.system, self.q), -limit, limit)
        if task.form == "momentum":
            minus, plus = (x[:, :, 0] for x in over(k.reduced, *_step_rows(self.q, first.u, tau, time / steps)))
            self.at_p = program.unknown(np.vstack([minus[:1], plus]))
        self.at_steps = np.hstack([self.at[:-1], self.at[1:], self.at_tau, np.tile(self.at_time, (steps, 1))])
        self.given = np.hstack([self.r[:-1], self.r[1:]])

    def _local(self, u: np.ndarray) -> np.ndarray:
        """Unknowns of the nodes from coordinates (N+1, nd): what is left after the rotations they refer to."""
        z = u.copy()
        for where in self._balls() if self.renewed else []:
            z[:, where] = 0.0
        return z

    def _box(self) -> Limits:
        """Limits of the coordinates; rotation vectors that have none stay within half a turn, or what the ends need."""
        low, high = (x.copy() for x in self.task.limits)
        for where in self._balls():
            chosen = np.isfinite(low[where]) | np.isfinite(high[where])
            if self.renewed:
                if chosen.any():
                    raise ValueError("with charts='renewed' bound the rotation of a ball by a path condition")
                self.box[where] = np.pi / 2
            else:
                ends = np.abs([self.task.u0[where], np.where(self.task.aim.fixed, self.task.aim.u, 0.0)[where]])
                self.box[where] = np.where(chosen, np.inf, np.maximum(np.pi, 1.01 * ends.max(axis=0)))
        beyond = np.abs(self._local(self.first.u)).max(axis=0) > self.box
        self.beyond = [c for c, on in zip(self.system.coordinates, beyond, strict=True) if on]
        return np.maximum(low, -self.box), np.minimum(high, self.box)

    # ---- expressions

    def split(self, z: Any, c: Any) -> tuple[Any, ...]:
        """A step: z and r of both nodes, inputs, step size."""
        size, nu, nr = self.chart.size, self.system.nu, self.chart.nr
        h = self.step_size(z[2 * size + nu :])
        return z[:size], c[:nr], z[size : 2 * size], c[nr:], z[2 * size : 2 * size + nu], h

    def step_size(self, time: Any) -> Any:
        """h from the unknown duration (an empty column if it is given)."""
        return time[0] / self.steps if self.free_time else self.shortest / self.steps

    def middle(self, z: Any, c: Any) -> tuple[Any, Any]:
        """What costs and conditions see at the middle of a step, and the step size."""
        z0, r0, z1, r1, tau, h = self.split(z, c)
        chart = self.chart
        q0, q1 = chart.place(z0, r0), chart.place(z1, r1)
        q = 0.5 * (q0 + q1)
        if chart is self.k.coordinates:
            u = 0.5 * (z0 + z1)
        else:
            u = self.mechanics.coordinates(q, 0.5 * (chart.near(z0, r0) + chart.near(z1, r1)))
        return View(self.mechanics, q, v=(q1 - q0) / h, u=u, tau=tau), h

    def node(self, z: Any, r: Any) -> View:
        """What conditions see at a node."""
        return View(self.mechanics, self.chart.place(z, r), u=self.chart.coordinates(z, r))

    # ---- rows

    def _dynamics(self) -> None:
        """Initial configuration, and the dynamics as matching of momenta: row n is p_n+ - p_n-, ends are (18)."""
        import casadi as ca

        k, program, chart, steps = self.k, self.program, self.chart, self.steps
        task, system = self.task, self.system
        full = chart is k.redundant
        q0 = flat(k.place(task.u0))
        begin = q0 if chart in (k.directors, k.redundant) else self._at_start()
        program.add(lambda z: z, self.at[:1], program.row(begin, begin))
        rates = dense(k.place_jacobian(task.u0)) @ task.v0
        v0 = velocities(system, q0[None], task.u0[None], momenta(system, q0[None], rates[None]))
        p0 = (system.mass_matrix @ v0[0]) if full else momenta(system, q0[None], v0)[0]
        p_end, free = _final_momentum(system, task, full)
        size = len(p0)

        def match(z: Any, c: Any) -> Any:
            z0, r0, z1, r1, tau, h = self.split(z, c)
            near = 0.5 * (chart.near(z0, r0) + chart.near(z1, r1))
            minus, plus = k.momenta(chart, chart.place(z0, r0), chart.place(z1, r1), near, tau, h)
            return ca.vertcat(-minus, plus)

        if task.form == "momentum":
            width = self.at_steps.shape[1]
            rows = program.row(np.zeros((steps, 2 * size)), 0.0)
            program.add(
                lambda z, c: match(z[:width], c) + ca.vertcat(z[width : width + size], -z[width + size :]),
                np.hstack([self.at_steps, self.at_p[:-1], self.at_p[1:]]),
                rows,
                given=self.given,
            )
            program.add(lambda z: z, self.at_p[[0, -1]], program.row([p0, p_end - free], [p0, p_end + free]))
            # a node's multiplier acts half on the step before and half on the step after
            self._react(np.vstack([rows[:, :size], rows[-1:, size:]]), np.vstack([rows[:1, :size], rows[:, size:]]))
        else:
            low, high = np.zeros((steps + 1, size)), np.zeros((steps + 1, size))
            low[0] = high[0] = -p0
            low[-1], high[-1] = p_end - free, p_end + free
            rows = program.row(low, high)
            program.add(match, self.at_steps, np.hstack([rows[:-1], rows[1:]]), given=self.given)
            self._react(rows, rows)
        if task.relative:
            n = chart.size
            program.add(
                lambda z: z[n : 2 * n] - self.mechanics.advance(z[2 * n :], z[:n]),
                np.hstack([self.at[:-1], self.at[1:], self.at_move]),
                program.row(np.zeros((steps, n)), 0.0),
            )

    def _at_start(self) -> np.ndarray:
        """Unknowns of the first node at the start."""
        z = self.task.u0.copy()
        for where in self._balls() if self.renewed else []:
            z[where] = _turned(self.first.u[0, where], self.task.u0[where])
        return z

    def _react(self, after: np.ndarray, before: np.ndarray) -> None:
        """Forces of multipliers (10), (14): half on the rows of the step `after` a node, half on the one `before`."""
        import casadi as ca

        chart, k = self.chart, self.k
        count = self.at_lam.shape[1]
        if not count:
            return
        size, nr = chart.size, chart.nr
        choose = ca.DM(_with_tree(self.choose, chart.tree))

        def pull(z: Any, c: Any) -> Any:
            h = self.step_size(z[size + count :])
            r = c[:nr]
            q, near = chart.place(z[:size], r), chart.near(z[:size], r)
            return -0.5 * h * k.reaction(chart, q, near, choose.T @ z[size : size + count])

        columns = np.hstack([self.at, self.at_lam, np.tile(self.at_time, (self.steps + 1, 1))])
        self.program.add(pull, columns[:-1], after[:-1], given=self.r[:-1])
        self.program.add(pull, columns[1:], before[1:], given=self.r[1:])

    def _closures(self) -> None:
        """The constraints that are left, at all nodes but the first; at the last those that the goal leaves open."""
        import casadi as ca

        chart, tree = self.chart, self.chart.tree
        if not chart.rows:
            return

        def rows(choose: np.ndarray) -> Any:
            matrix_ = ca.DM(_with_tree(choose, tree))
            return lambda z, r: matrix_ @ chart.left(chart.place(z, r), chart.near(z, r))

        last = self._last_closures() if self.mechanics.nc else self.choose
        for where, choose in ((slice(1, -1), self.choose), (slice(-1, None), last)):
            nodes, count = self.at[where], tree + len(choose)
            if len(nodes) and count:
                held = self.program.row(np.zeros((len(nodes), count)), 0.0)
                self.program.add(rows(choose), nodes, held, given=self.r[where])

    def _goal(self) -> None:
        """Final configuration: coordinates, a condition of the user, or D(q_N, goal) where q is unknown."""
        import casadi as ca

        aim, k, chart, program = self.task.aim, self.k, self.chart, self.program
        where, given = self.at[-1:], self.r[-1:]
        if aim.function is not None:
            condition = aim.function

            def reached(z: Any, r: Any) -> Any:
                value = condition(self.node(z, r))
                return ca.vertcat(*value) if isinstance(value, (list, tuple)) else ca.vec(value)

            size = int(reached(ca.SX.sym("z", chart.size), ca.SX.sym("r", chart.nr)).numel())
            program.add(reached, where, program.row(np.broadcast_to(aim.low, (size,)), aim.high), given=given)
            return
        if chart is k.coordinates:
            program.add(lambda z: z, where, program.row(aim.low, aim.high))
            return
        low, high, fixed = aim.low.copy(), aim.high.copy(), aim.fixed
        target = ca.DM(flat(k.place(np.where(fixed, aim.u, self.first.u[-1]))))
        known = self.mechanics.coordinates(ca.SX.sym("q", self.system.n), ca.SX.sym("near", self.system.nd)) is not None
        if not known and (aim.ranged.any() or (fixed.any() and not fixed.all())):
            raise ValueError(
                "a goal for some coordinates needs form 'minimal' or 'momentum', absolute reparameterization"
            )
        for balls in self._balls():
            if (fixed[balls].any() and not fixed[balls].all()) or aim.ranged[balls].any():
                raise ValueError("a goal for parts of a rotation vector needs the absolute form with charts='fixed'")

        def rows(z: Any, r: Any) -> Any:
            q = chart.place(z, r)
            off = self.mechanics.difference(target, q)
            value = chart.coordinates(z, r) if known else off
            return ca.vertcat(*[off[i] if fixed[i] else value[i] for i in range(self.system.nd)])

        low[fixed] = high[fixed] = 0.0
        program.add(rows, where, program.row(low, high), given=given)

    def _rates(self) -> None:
        """Limits on the rates of coordinates over a step, and on coordinates where they are no unknowns."""
        import casadi as ca

        chart, program = self.chart, self.program
        direct = chart is self.k.coordinates
        low, high = self.task.rate_limits
        chosen = np.flatnonzero(np.isfinite(low) | np.isfinite(high))

        def rates(z: Any, c: Any) -> Any:
            z0, r0, z1, r1, _, h = self.split(z, c)
            change = z1 - z0 if direct else self.mechanics.difference(chart.place(z0, r0), chart.place(z1, r1))
            return ca.vertcat(*[change[int(i)] for i in chosen]) / h

        if chosen.size:
            row = program.row(np.tile(low[chosen], (self.steps, 1)), high[chosen])
            program.add(rates, self.at_steps, row, given=self.given)
        low, high = self.task.limits
        wanted = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        if wanted.size and chart in (self.k.directors, self.k.redundant):
            if self.mechanics.coordinates(ca.SX.sym("q", self.system.n), ca.SX.sym("near", self.system.nd)) is None:
                raise ValueError("bounds on coordinates of a reparameterization of your own need the absolute form")
            program.add(
                lambda z, r: ca.vertcat(*[chart.coordinates(z, r)[int(i)] for i in wanted]),
                self.at[1:],
                program.row(np.tile(low[wanted], (self.steps, 1)), high[wanted]),
                given=self.r[1:],
            )

    def _turns(self) -> None:
        """At most so much turn per body and step."""
        count = len(self.mechanics.turning)
        if self.task.turn is None or not count:
            return
        chart = self.chart

        def cosines(z: Any, c: Any) -> Any:
            z0, r0, z1, r1, _, _ = self.split(z, c)
            return self.mechanics.turn_cosines(chart.place(z0, r0), chart.place(z1, r1))

        least = np.full((self.steps, count), np.cos(self.task.turn))
        self.program.add(cosines, self.at_steps, self.program.row(least, np.inf), given=self.given)

    def _path(self) -> None:
        """Conditions of the user at all nodes, or at the middles of the steps."""
        import casadi as ca

        if self.task.path is None:
            return
        sizes = (("q", self.system.n), ("v", self.system.n), ("u", self.system.nd), ("tau", self.system.nu))
        q, v, u, tau = symbols = [ca.SX.sym(*x) for x in sizes]
        given = conditions(self.task.path(View(self.mechanics, q, v=v, u=u, tau=tau)), "path")
        listed = [(low, x, high) for low, column, high in given for x in ca.vertsplit(ca.vec(ca.SX(column)))]
        moving = np.array([bool(ca.depends_on(x, ca.vertcat(v, tau))) for _, x, _ in listed])
        limits = np.array([(low, high) for low, _, high in listed]).reshape(-1, 2)
        for which in (False, True):
            chosen = np.flatnonzero(moving == which)
            if not chosen.size:
                continue
            rows = ca.Function("path", symbols, [ca.vertcat(*[listed[i][1] for i in chosen])])
            low, high = limits[chosen].T
            held = self.program.row(np.tile(low, (self.steps, 1)), high)
            if which:
                self.program.add(
                    lambda z, c, f=rows: f(*self._seen(self.middle(z, c)[0])), self.at_steps, held, given=self.given
                )
            else:  # nothing can be done about the first node, which is given
                self.program.add(
                    lambda z, r, f=rows: f(*self._seen(self.node(z, r))), self.at[1:], held, given=self.r[1:]
                )

    def _seen(self, view: View) -> tuple[Any, ...]:
        """Configuration, velocity, coordinates, inputs; zero where a node has none."""
        unknown = [x if x is not None else 0 for x in (view.v, view.u, view.tau)]
        return (view.q, *unknown)

    def _cost(self) -> None:
        """Effort and running cost by the midpoint rule (20), final cost with the projected momentum (15)."""
        import casadi as ca

        task, k, chart = self.task, self.k, self.chart
        if task.spin_cost and not self.mechanics.turning:
            raise ValueError("spin_cost needs bodies that turn")

        def running(z: Any, c: Any) -> Any:
            *_, tau, h = self.split(z, c)
            value = 0.5 * h * ca.dot(ca.DM(task.weights), tau**2)
            if task.cost is None and not task.spin_cost:
                return value
            view, _ = self.middle(z, c)
            value = value + h * task.spin_cost * self.mechanics.spin(view.v)
            return value if task.cost is None else value + h * task.cost(view)

        def final(z: Any, c: Any) -> Any:
            z0, r0, z1, r1, tau, h = self.split(z, c)
            q0, q1, near = chart.place(z0, r0), chart.place(z1, r1), chart.near(z1, r1)
            _, plus = k.momenta(k.directors, q0, q1, 0.5 * (chart.near(z0, r0) + near), tau, h)
            v = k.velocity(q1, plus, near, self.choose)
            return task.final_cost(View(self.mechanics, q1, v=v, u=chart.coordinates(z1, r1)))  # type: ignore[misc]

        self.program.add(running, self.at_steps, given=self.given)
        if task.final_cost is not None:
            self.program.add(final, self.at_steps[-1:], given=self.given[-1:])

    # ---- reading the answer

    def motion(self, x: np.ndarray) -> Motion:
        """The motion of an iterate."""
        k, steps, system, chart = self.k, self.steps, self.system, self.chart
        z, u0 = x[self.at], self.task.u0
        if chart is k.redundant:
            q = z
        elif chart is k.directors:
            q = _unroll(system, z[0], x[self.at_move])
        elif chart is k.referred:
            q = over(self._placed(), z, self.r)[0][:, :, 0]
        else:
            q = over(k.place, z)[0][:, :, 0]
        u = z.copy() if chart is k.coordinates else coordinates(system, q, near=u0)
        tau, time = x[self.at_tau], float(x[self.at_time].sum()) if self.free_time else self.shortest
        minus, plus = (m[:, :, 0] for m in over(k.reduced, *_step_rows(q, u, tau, time / steps)))
        p = np.vstack([minus[:1], plus])
        if self.mechanics.nc:
            p = momenta(system, q, velocities(system, q, u, p))
        lam = x[self.at_lam] @ _with_tree(self.choose, chart.tree) if self.at_lam.size else None
        return Motion(system, np.linspace(0.0, time, steps + 1), q, u, tau, p, lam)

    def _placed(self) -> Any:
        import casadi as ca

        z, r = ca.SX.sym("z", self.chart.size), ca.SX.sym("r", self.chart.nr)
        return ca.Function("placed", [z, r], [ca.densify(self.chart.place(z, r))])

    def boxed(self, x: np.ndarray) -> list[str]:
        """Names of the rotation vectors that stand at the border of their chart."""
        if self.chart not in (self.k.coordinates, self.k.referred):
            return []
        reach = np.abs(x[self.at]).max(axis=0)
        pairs = zip(self.system.coordinates, reach, self.box, strict=True)
        return [c for c, a, b in pairs if np.isfinite(b) and a > b - 1e-3]

    def notes(self, answer: Answer) -> str:
        """What a user should know of where the search ended."""
        found, out = answer.status in ("solved", "acceptable"), ""
        boxed = self.boxed(answer.x) or ([] if found else self.beyond)
        if boxed and answer.status != "contradictory_bounds":
            end = ": not an optimum, use charts='renewed' or bounds" if found else ": try charts='renewed'"
            out = f"; {', '.join(boxed)} at the border of the chart{end}"
        if found and self.task.turn is not None and self.mechanics.turning:
            angle, body, step = _largest_turn(self.system, self.motion(answer.x).q)
            if angle > self.task.turn - 1e-4:
                out += f"; '{body}' turns by {angle:.3g} rad in step {step}, the limit `turn`: take more steps"
        return out


def _with_tree(choose: np.ndarray, tree: int) -> np.ndarray:
    """The choice of closures after `tree` rows that are all kept."""
    out = np.zeros((tree + len(choose), tree + choose.shape[1]))
    out[:tree, :tree] = np.eye(tree)
    out[tree:, tree:] = choose
    return out


def _turned(base: np.ndarray, vector_: np.ndarray) -> np.ndarray:
    """Rotation vector that leads from the rotation of one vector to that of another."""
    from scipy.spatial.transform import Rotation

    out: np.ndarray = (Rotation.from_rotvec(vector_) * Rotation.from_rotvec(base).inv()).as_rotvec()
    return out


def _largest_turn(system: Any, q: np.ndarray) -> tuple[float, str, int]:
    """Largest angle by which a body turns in a step, the body, the step."""
    d = q.reshape(len(q), -1, 12)[:, :, 3:]
    angles = np.arccos(np.clip(0.5 * ((d[1:] * d[:-1]).sum(axis=2) - 1), -1.0, 1.0))
    step, body = np.unravel_index(int(angles.argmax()), angles.shape)
    return float(angles.max()), system.bodies[body].name, int(step)


def _step_rows(q: np.ndarray, u: np.ndarray, tau: np.ndarray, h: float) -> tuple[np.ndarray, ...]:
    """Arguments of the functions of a step, one row per step."""
    return q[:-1], q[1:], 0.5 * (u[:-1] + u[1:]), tau, np.full((len(tau), 1), h)


def _final_momentum(system: System, task: _Task, redundant: bool) -> Limits:
    """Momentum at the goal, (n,) or reduced (nd,), and per row its tolerance: 0, or infinity where it is free."""
    k, velocity = kernels(system), task.rest
    size = system.n if redundant else system.nd
    if velocity is None:
        return np.zeros(size), np.full(size, np.inf)
    if isinstance(velocity, Mapping):
        rates, given = (
            vector(velocity, system.coordinates, "goal_velocity"),
            [c in velocity for c in system.coordinates],
        )
        if not all(given):
            if np.any(rates) or redundant or k.mechanics.nc:
                raise ValueError(
                    "a goal velocity for some coordinates only must be zero, without closed loops, form not 'multiplier'"
                )
            return np.zeros(size), np.where(given, 0.0, np.inf)
    else:
        full = np.full(system.nd, float(velocity)) if np.ndim(velocity) == 0 else velocity
        rates = vector(full, system.coordinates, "goal_velocity")
    if not np.any(rates):
        return np.zeros(size), np.zeros(size)
    if not task.aim.fixed.all():
        raise ValueError("a moving goal needs the value of every coordinate in goal")
    q = flat(k.place(task.aim.u))
    v = dense(k.place_jacobian(task.aim.u)) @ rates
    return (system.mass_matrix @ v if redundant else momenta(system, q[None], v[None])[0]), np.zeros(size)


def _increments(system: System, q: np.ndarray) -> np.ndarray:
    """Increments (N, nd) of the relative reparameterization that lead along the nodes q (N+1, n)."""
    k = kernels(system)
    out, at = np.zeros((len(q) - 1, system.nd)), q[0]
    for i in range(len(q) - 1):
        step = np.zeros(system.nd)
        for _ in range(20):
            now = flat(k.advance(step, at))
            fix = np.linalg.lstsq(dense(k.nullspace(now)), q[i + 1] - now, rcond=None)[0]
            step = step + fix
            if np.abs(fix).max() < 1e-12:
                break
        out[i], at = step, flat(k.advance(step, at))
    return out


def _unroll(system: System, q: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Configurations (N+1, n) from the first one and increments (N, nd), eq. (11)."""
    advance = kernels(system).advance
    out = [q]
    for move in moves:
        out.append(flat(advance(move, out[-1])))
    return np.array(out)
