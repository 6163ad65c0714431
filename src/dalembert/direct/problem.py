"""DMOC: optimal control by discrete mechanics, in generalized coordinates (DMOCC, sections 2 and 3).

The forced discrete Euler-Lagrange equations of any Model are the equality constraints of a nonlinear program. Both q
and p are unknowns (position-momentum form): the same solutions as with q alone, but a solver finds them from afar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import finite, floats, needed, number
from ..errors import ConvergenceError, ModelError
from ..model.model import Model
from .collocation import hamiltonian_midpoint, velocity_midpoint
from .conditions import conditions
from .mechanics import Mechanics, Moment
from .replay import judge, measure, refined, wanted
from .result import Plan
from .transcription import Layout, Solution, Transcription, interpolate

Array = NDArray[np.float64]
MOST = 3.0  # rad, what a ball may turn in a step
LIMIT = 1.0  # rad, what a hinge may turn in a step when a search has got lost
Expression = Callable[[Any], Any]


def dmoc(
    model: Model,
    *,
    start: object = None,
    goal: object = None,
    steps: int,
    time: float | None = None,
    effort: float | Mapping[str, float] | None = None,
    cost: Expression | None = None,
    final: Expression | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    path: Expression | None = None,
    free_time: tuple[float, float] | None = None,
    periodic: bool | Sequence[str] | Mapping[str, float] = False,
    turn: float | None = None,
    guess: object = None,
    refine: str | float | None = None,
    solver: str = "ipopt",
    method: str = "dmoc",
    alpha: float = 0.5,
    forcing: str = "split",
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """The motion of a model that minimizes a cost subject to its discrete equations of motion.

    `start`, `goal`: what is prescribed at the ends: a State, or a mapping with any of "q", "v", "p" (arrays, or
    {name: value} for some of them; velocities become momenta by the Legendre transform, DMOCC eq. 18; unnamed
    kinematic velocities count as 0) and "where": m -> [(low, expression, high), ...] of configuration and momentum.
    `steps` N, `time` T (s); `free_time=(low, high)` makes T an unknown (then `time` is its guess).

    The objective is the sum of `effort` (1/2 w u^2 integrated, one weight or {name: w}; of a kinematic variable: of its
    velocity), `cost` (m -> running cost, integrated by the midpoint rule, eq. 20) and `final` (m -> cost at the end).
    With none given, effort 1. What m offers: see `Moment`.

    `bounds`: {name of a variable or input: (low, high)}, numbers or one per node (N+1,) or step (N,); limits of joints are bounds too. `path`: m ->
    [(low, expression, high), ...]. `periodic`: True, or names of the variables that return to their value ({name: s}:
    after a shift s); all momenta return too. `guess`: a Plan, a Trajectory (also of another length), a result of `optimize`, or q (n, nq);
    default a straight line. `solver`: "ipopt" or "fatrop" (faster, not for periodic motions). `method`: "dmoc", or the
    collocations "hamiltonian" and "velocity" to compare with. `alpha`, `forcing`: as in `MidpointVI`. `options`: more
    options of the solver, as {"ipopt.max_iter": 100}.

    `turn`: largest angle (rad) by which a hinge may turn in one step. None: no limit; a search that fails where steps
    turn by more than a quarter is repeated with a limit of 1. `refine="auto"`: double the steps until replay error and
    defect (see `Plan`) are at most 0.03, three times and then as long as that at least halves the defect (at most seven
    times), with at most 0.6 rad of turn per step on the first mesh, 0.3 on the second, 0.15 on the others; a number
    instead of "auto" is what they must come down to. The finest of these plans is returned.

    Returns a `Plan`; look at its `success`, `status` and `message`: a failed search keeps the last iterate.

    >>> import dalembert as da
    >>> slider = da.Model([da.tx("x", mass=2.0)], [da.ConfigForce("x", "push")])
    >>> plan = da.dmoc(slider, start={"q": [0], "v": [0]}, goal={"q": [1], "v": [0]}, steps=10, time=1.0)
    >>> plan.status, round(plan.objective, 4)
    ('solved', 24.2424)
    """
    arguments = {key: value for key, value in locals().items() if key not in ("turn", "refine")}
    needed(model, Model)
    if refine is not None:

        def solve(count: int, limit: float, first: Any) -> Plan:
            given = arguments | {"steps": count, "guess": guess if first is None else first}
            return dmoc(turn=limit, **given)

        found, listed = refined(solve, steps, turn, wanted(refine))
        return judge(replace(found, refinements=listed))  # type: ignore[no-any-return]
    if turn is not None and not 0 < turn < np.inf:
        raise ValueError(f"turn must be a positive angle or None, not {turn!r}")
    problem = _Problem(model, steps, time, free_time, method, alpha, forcing, solver)
    ends = _boundary(model, start, "start"), _boundary(model, goal, "goal")
    ends = ends[0], _reached(problem, ends, guess)
    shifts = _shifts(model, periodic)
    running = _running(problem, effort, cost, final)
    conditions = _conditions(problem, path, "path")
    clock = any(seen.uses(expression, "time") for expression, seen in running) or any(
        seen.uses(expression, "time") for _, expression, _, seen in conditions
    )
    layout = Layout(
        N=steps,
        nq=model.nq,
        nd=model.nd,
        nu=model.nu,
        nc=model.nc,
        free_time=free_time is not None,
        clock=clock,
        staged=solver == "fatrop",
    )
    tr = Transcription(layout)
    _equations_of_motion(problem, tr)
    _at_start(problem, tr, ends[0], bool(shifts))
    _at_goal(problem, tr, ends[1])
    _closed(problem, tr, shifts)
    _constrained(problem, tr, ends, shifts)
    _unit(problem, tr, ends, shifts)
    for expression, seen in running:
        tr.cost(*problem.over_steps(layout, seen.function(expression), weighted=True))
    if final is not None:
        expression, seen = problem.mechanics.expression(final, "final", moving=False)
        function, columns = problem.at_nodes(layout, seen.function(expression), np.array([steps]))
        tr.cost(function, columns)
    for low, expression, high, seen in conditions:
        if seen.uses(expression, "velocity", "input", "time"):
            function, columns = problem.over_steps(layout, seen.function(expression), weighted=False)
            tr.equations("path condition", function, columns, np.arange(steps), low=low, high=high)
        else:
            function, columns = problem.at_nodes(layout, seen.function(expression), np.arange(steps + 1))
            tr.equations("path condition", function, columns, np.arange(steps + 1), low=low, high=high)
    _bounds(problem, tr, bounds or {})
    _turns(problem, tr, turn)
    z, warm = _first_guess(problem, layout, ends, shifts, guess)
    answer = tr.solve(z, solver=solver, scale=steps / problem.span, options=dict(options or {}), warm=warm)
    plan = _plan(problem, layout, answer)
    if turn is None and not plan.success and _too_coarse(model, plan.q):  # lost among motions of the mesh
        limited = dmoc(turn=LIMIT, **arguments)
        return limited if limited.success else judge(plan)  # type: ignore[no-any-return]
    if plan.success:
        error, defect = measure(plan)
        plan = replace(plan, replay_error=error, defect=defect)
    return judge(plan)  # type: ignore[no-any-return]


def discrete_mechanics(
    m: Mechanics, q0: Any, p0: Any, u: Any, lam: Any, q1: Any, p1: Any, *, h: Any, alpha: float, forcing: str
) -> tuple[Any, Any]:
    """The forced discrete Euler-Lagrange equations in position-momentum form (DMOCC eq. 10 with 14-18).

    Returns p_{k+1} = D2 Ld + F+ as a residual (nd), and p_k + D1 Ld + F- - Dh(q_k)' lam_k (nd). The multipliers act at
    the beginning of the step, as in `MidpointVI`.
    """
    q, v = m.middle(q0, q1, h, alpha)
    lq, lv, force = m.lq(q, v), m.lv(q, v), h * m.force(q, v, u)
    if m.balls:
        minus, plus = m.shares(v, h, h * lq + force, lv)
    else:
        before, after = (force / 2, force / 2) if forcing == "split" else (force, 0 * force)
        minus, plus = h * (1 - alpha) * lq - lv + before, h * alpha * lq + lv + after
    rows = p0 + minus
    if m.model.nc:
        rows = rows - m.dh(q0)[:, : m.model.nd].T @ lam
    return p1 - plus, rows


class _Problem:
    """The fixed facts of a problem, and how blocks of unknowns become arguments of functions."""

    def __init__(
        self,
        model: Model,
        steps: int,
        time: float | None,
        free_time: tuple[float, float] | None,
        method: str,
        alpha: float,
        forcing: str,
        solver: str,
    ) -> None:
        if not isinstance(steps, (int, np.integer)) or steps < 1:
            raise ValueError(f"steps must be a positive number of steps, not {steps!r}")
        if free_time is not None:
            low, high = (number(x, "free_time") for x in free_time)
            if not 0 < low <= high < np.inf:
                raise ValueError(f"free_time must be (low, high) with 0 < low <= high, not {free_time!r}")
            time = float(np.clip(0.5 * (low + high) if time is None else number(time, "time"), low, high))
        if time is None or not number(time, "time") > 0:
            raise ValueError(f"time must be a positive number of seconds, not {time!r}")
        if method not in ("dmoc", "hamiltonian", "velocity"):
            raise ValueError(f"method must be 'dmoc', 'hamiltonian' or 'velocity', not {method!r}")
        if solver not in ("ipopt", "fatrop"):
            raise ValueError(f"solver must be 'ipopt' or 'fatrop', not {solver!r}")
        if forcing not in ("split", "left"):
            raise ValueError(f"forcing must be 'split' or 'left', not {forcing!r}")
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must be between 0 and 1, not {alpha!r}")
        if not model.configuration.flat and (alpha != 0.5 or forcing != "split"):
            raise ValueError("balls need the symmetric step: alpha = 0.5 and forcing = 'split'")
        if method != "dmoc":
            if model.nc:
                raise ModelError(f"method '{method}' is for models without constraints; use method='dmoc'")
            if model.nk and method == "velocity":
                raise ModelError("method 'velocity' needs accelerations of kinematic variables; use method='dmoc'")
            if not model.configuration.flat:
                raise ModelError(f"method '{method}' is for models without balls; use method='dmoc'")
            if solver == "fatrop":
                raise ValueError(f"method '{method}' has no stage structure for fatrop; use solver='ipopt'")
        self.model, self.N, self.span = model, int(steps), float(time)
        self.free_time, self.method, self.solver = free_time, method, solver
        self.alpha, self.forcing = float(alpha), forcing
        self.mechanics = Mechanics(model)

    def step(self, *unknowns: Any, h: Any) -> tuple[Any, Any]:
        """(gap, rows) of the chosen method."""
        if self.method == "hamiltonian":
            return hamiltonian_midpoint(self.mechanics, *unknowns, h=h)
        if self.method == "velocity":
            return velocity_midpoint(self.mechanics, *unknowns, h=h)
        return discrete_mechanics(self.mechanics, *unknowns, h=h, alpha=self.alpha, forcing=self.forcing)

    def momentum(self, q: Any, second: Any) -> Any:
        """The momentum at a node from its two unknowns."""
        return self.mechanics.mass(q) @ second if self.method == "velocity" else second

    def split(self, z: Any, *sizes: int) -> list[Any]:
        """Cut a column into parts."""
        ends = np.cumsum(sizes)
        return [z[int(e) - n : int(e)] for e, n in zip(ends, sizes, strict=True)]

    def over_steps(self, layout: Layout, function: Any, *, weighted: bool) -> tuple[Expression, Any]:
        """A function of (q, v, u, p, time, duration) at the middle of the steps, times the step if `weighted`."""
        N = self.N
        parts = (layout.q[:-1], layout.p[:-1], layout.u, layout.next, layout.p[1:], layout.T[:-1], layout.tau)
        sizes = [part.shape[1] for part in parts]
        a = self.alpha if self.method == "dmoc" else 0.5

        def at_step(z: Any) -> Any:
            q0, p0, u, q1, p1, T, tau = self.split(z, *sizes)
            span = T if T.numel() else self.span
            h = span / N
            time = span * tau[0] if tau.numel() else 0.0
            q, v = self.mechanics.middle(q0, q1, h, a)
            p = self.momentum(q, (p0 + p1) / 2)
            value = function(q, v, u, p, time, span)
            return h * value if weighted else value

        return at_step, np.hstack(parts)

    def at_nodes(self, layout: Layout, function: Any, nodes: Any) -> tuple[Expression, Any]:
        """The same at nodes, without velocity and input; the time is the final one unless the node is the first."""
        m = self.model
        parts = (layout.q[nodes], layout.p[nodes], layout.T[nodes])
        sizes = [part.shape[1] for part in parts]

        def at_node(z: Any) -> Any:
            q, second, T = self.split(z, *sizes)
            span = T if T.numel() else self.span
            time = span if nodes[0] else 0.0
            return function(q, [0.0] * m.nv, [0.0] * m.nu, self.momentum(q, second), time, span)

        return at_node, np.hstack(parts)


# ---- reading the arguments -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Boundary:
    """Prescribed values at one end; NaN where free. `q` (nq), `v` (nv), `p` (nd)."""

    q: Array
    v: Array
    p: Array
    where: Expression | None

    @property
    def has_velocity(self) -> bool:
        return bool(np.any(np.isfinite(self.v)))


def _boundary(model: Model, given: Any, what: str) -> _Boundary:
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        if not hasattr(given, "q") or not hasattr(given, "p"):
            raise ValueError(f"{what} must be a State or a mapping with 'q', 'v', 'p', 'where', not {given!r}")
        given = {"q": given.q, "p": given.p}
    balls = [ball.name for ball in model.configuration.places]
    if given and all(name in balls or (name in model.variables and _number(given[name])) for name in given):
        given = {
            "q": given
        }  # {"theta": 3.1} is a configuration, and so is {"q": 3.1} of a variable q, not {"q": [3.1]}
    unknown = set(given) - {"q", "v", "p", "where"}
    if unknown:
        raise ValueError(f"{what}: unknown entries {sorted(unknown)}; use 'q', 'v', 'p', 'where'")
    if "v" in given and "p" in given:
        raise ValueError(f"{what}: give velocities or momenta, not both")
    q = _configuration(model, given.get("q"), f"{what} q")
    v = _values(_components(model, given.get("v")), _names(model, model.nv), f"{what} v", short=model.nd)
    p = _values(_components(model, given.get("p")), _names(model, model.nd), f"{what} p")
    return _Boundary(q, v, p, given.get("where"))


def _number(value: Any) -> bool:
    """Whether this is one number, not several, nor numbers by name."""
    return not isinstance(value, Mapping) and np.ndim(value) == 0


def _names(model: Model, count: int) -> tuple[str, ...]:
    """Names of the first velocities: those of their coordinates where they have one each."""
    names = list(model.velocities)
    for q, v in zip(*model.configuration.numbers, strict=True):
        names[v] = model.variables[q]
    return tuple(names[:count])


def _components(model: Model, given: Any) -> Any:
    """Velocities or momenta by name with those of balls, {"base": (1, 2, 3)}, one by one; base.vx goes by the name of base.x."""
    if not isinstance(given, Mapping) or model.configuration.flat:
        return given
    names, balls = _names(model, model.nv), {b.name: b for b in model.configuration.places}
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name in balls:
            three = finite(value, str(name), (3,))
            out.update(zip(names[balls[name].v], three.tolist(), strict=True))
        else:
            out[names[model.velocity_index(name)] if name in model.velocities else name] = value
    return out


def _configuration(model: Model, given: Any, what: str) -> Array:
    """A configuration with NaN where nothing is prescribed; of a ball everything is or nothing."""
    if model.configuration.flat or given is None:
        return _values(given, model.variables, what)
    if not isinstance(given, Mapping):
        return model.configuration.point(given, what).copy()
    point = model.configuration.point(given, what)
    full = np.full(model.nq, np.nan)
    known = {model.index(name) for name in given if name in model.variables}
    for ball in model.configuration.places:
        its = range(model.nq)[ball.q]
        if ball.name in given:
            known.update(its)
            if np.shape(given[ball.name]) == (4, 4):
                known.update(model.index(f"{ball.name}.{axis}") for axis in "xyz")
        elif 0 < len(known.intersection(its)) < 4:
            raise ValueError(f"{what}: prescribe all of the ball '{ball.name}' or nothing")
    full[list(known)] = point[list(known)]
    return full


def _values(given: Any, names: tuple[str, ...], what: str, short: int | None = None) -> Array:
    """Array with NaN where nothing is prescribed."""
    full = np.full(len(names), np.nan)
    if given is None:
        return full
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name not in names:
                raise ModelError(f"{what}: unknown variable {name!r}", culprit=str(name))
            full[names.index(name)] = float(value)
        values = np.array([float(x) for x in given.values()])
    else:
        values = floats(given, "values")
        if values.shape not in {(len(names),), (short,)}:
            raise ValueError(f"{what}: expected shape ({len(names)},), got {values.shape}")
        full[: len(values)] = values
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{what}: values must be finite")
    return full


def _shifts(model: Model, periodic: Any) -> dict[int, float]:
    """{index of a variable: its change over a period}; empty if not periodic."""
    if periodic is False or periodic is None:
        return {}
    if periodic is True:
        return dict.fromkeys(range(model.nq), 0.0)
    pairs = periodic.items() if isinstance(periodic, Mapping) else [(name, 0.0) for name in periodic]
    shifts: dict[int, float] = {}
    balls = {ball.name: range(model.nq)[ball.q] for ball in model.configuration.places}
    for name, shift in pairs:
        its = balls.get(name) or next((r for r in balls.values() if name in model.variables[r.start : r.stop]), None)
        if its is not None and float(shift):
            raise ValueError(f"periodic: the ball of {name!r} comes back as it was, it has no shift")
        shifts.update(dict.fromkeys(its or [model.index(name)], float(shift)))
    return shifts


def _running(problem: _Problem, effort: Any, cost: Any, final: Any) -> list[tuple[Any, Moment]]:
    """Running costs as expressions with the symbols they are made of."""
    model = problem.model
    if effort is None and cost is None and final is None:
        effort = 1.0
    costs = []
    if effort is not None:
        weights = effort if isinstance(effort, Mapping) else dict.fromkeys(model.inputs, effort)
        for name, w in weights.items():
            if name not in model.inputs and name not in model.kinematic:
                raise ModelError(f"effort: {name!r} is no input and no kinematic variable", culprit=str(name))
            if not np.isfinite(float(w)) or float(w) < 0:
                raise ValueError(f"effort: weight of '{name}' must be a number >= 0, not {w!r}")

        def quadratic(m: Moment) -> Any:
            terms = [(m.input(n) if n in model.inputs else m.velocity(n), float(w)) for n, w in weights.items()]
            return sum(0.5 * w * x**2 for x, w in terms)

        costs.append(problem.mechanics.expression(quadratic, "effort", moving=True))
    if cost is not None:
        costs.append(problem.mechanics.expression(cost, "cost", moving=True))
    return costs


def _conditions(
    problem: _Problem, function: Any, label: str, moving: bool = True
) -> list[tuple[Any, Any, Any, Moment]]:
    """(low, expression, high, symbols) of every condition that a user's function returns."""
    if function is None:
        return []
    listed, seen = problem.mechanics.expression(function, label, moving=moving)
    return [(low, expression, high, seen) for low, expression, high in conditions(listed, label)]


# ---- equations -----------------------------------------------------------------------------------------------------


def _equations_of_motion(problem: _Problem, tr: Transcription) -> None:
    import casadi as ca

    layout, m, N = tr.layout, problem.model, problem.N
    parts = (layout.q[:-1], layout.p[:-1], layout.u, layout.lam, layout.next, layout.p[1:], layout.T[:-1])
    sizes = [part.shape[1] for part in parts]

    def step(z: Any) -> Any:
        *unknowns, T = problem.split(z, *sizes)
        h = (T if T.numel() else problem.span) / N
        return ca.vertcat(*problem.step(*unknowns, h=h))

    if problem.solver == "fatrop":
        follow = np.stack([layout.q[1:].ravel(), layout.next.ravel()], axis=1)
        tr.equations("next configuration", lambda z: z[0] - z[1], follow, np.repeat(np.arange(N), m.nq), gap=1)
    tr.equations("equation of motion", step, np.hstack(parts), np.arange(N), gap=m.nd)
    if problem.solver == "fatrop" and layout.T.size:
        follow = np.stack([layout.T[1:].ravel(), layout.T[:-1].ravel()], axis=1)
        tr.equations("final time", lambda z: z[0] - z[1], follow, np.arange(N), gap=1)
    if layout.tau.size:  # the middles of the steps as fixed unknowns: the solver treats them as parameters
        middle = (np.arange(N) + problem.alpha) / N
        tr.bound("time", layout.tau[:, 0], middle, middle)
    if problem.free_time is not None:
        tr.bound("free_time", layout.T, *problem.free_time)


def _constrained(
    problem: _Problem, tr: Transcription, ends: tuple[_Boundary, _Boundary], shifts: dict[int, float]
) -> None:
    """h = 0 at all nodes whose configuration is not prescribed; prescribed ones are checked here and now."""
    m, layout, N = problem.model, tr.layout, problem.N
    if not m.nc:
        return
    nodes = list(range(1, N))
    for at, end, name in ((0, ends[0], "start"), (N, ends[1], "goal")):
        if np.all(np.isfinite(end.q)):
            h = np.array(problem.mechanics.h(end.q)).ravel()
            if np.abs(h).max() > 1e-6:
                worst = int(np.abs(h).argmax())
                tr.problems.append(f"{name}: the configuration violates {m.constraints[worst]} by {abs(h[worst]):.3g}")
        elif at == N or not _repeats(problem, shifts):
            nodes.append(at)
    where = np.array([layout.q[0] if k == 0 else layout.next[k - 1] for k in nodes])
    stage = np.array([max(k - 1, 0) for k in nodes])
    tr.equations("constraint", problem.mechanics.h, where, stage)


def _unit(problem: _Problem, tr: Transcription, ends: tuple[_Boundary, _Boundary], shifts: dict[int, float]) -> None:
    """Quaternions have length one at all nodes where they are not prescribed."""
    layout, N = tr.layout, problem.N
    for ball in problem.mechanics.balls:
        known = [bool(np.isfinite(end.q[ball.q.start])) for end in ends]
        first = known[0] or ball.q.start in shifts
        nodes = list(range(0 if not first else 1, N if known[1] else N + 1))
        where = np.array([layout.q[0] if k == 0 else layout.next[k - 1] for k in nodes]).reshape(len(nodes), -1)
        stage = np.array([max(k - 1, 0) for k in nodes])
        tr.equations(f"length of the quaternion of '{ball.name}'", lambda z: z.T @ z - 1, where[:, ball.q], stage)


def _repeats(problem: _Problem, shifts: dict[int, float]) -> bool:
    """Whether the constraints at the end of a period imply those at its beginning."""
    m = problem.model
    if len(shifts) < m.nq:
        return False
    rng = np.random.default_rng(0)
    shift = np.array([shifts[i] for i in range(m.nq)])
    trials = rng.normal(size=(3, m.nq))
    h = problem.mechanics.h
    return all(np.allclose(np.array(h(q)), np.array(h(q + shift)), atol=1e-9) for q in trials)


def _velocities(problem: _Problem, end: _Boundary) -> Array:
    """Prescribed velocities with 0 for unnamed kinematic ones."""
    v = end.v.copy()
    kinematic = slice(problem.model.nd, None)
    v[kinematic] = np.nan_to_num(v[kinematic])
    return v


def _at_start(problem: _Problem, tr: Transcription, end: _Boundary, periodic: bool) -> None:
    layout = tr.layout
    _fix(tr, "start q", layout.q[0], end.q)
    _end_conditions(problem, tr, end, 0)
    if end.has_velocity:
        _legendre(problem, tr, end, 0, None)
    else:
        _momenta(problem, tr, end, 0)
        if problem.model.nc and not periodic and not np.any(np.isfinite(end.p)):
            # a free initial momentum and the first multiplier can replace each other: choose the multiplier 0
            tr.bound("first multiplier", layout.lam[0], 0.0, 0.0)


def _at_goal(problem: _Problem, tr: Transcription, end: _Boundary) -> None:
    m, layout, N = problem.model, tr.layout, problem.N
    _fix(tr, "goal q", layout.next[N - 1] if problem.solver == "ipopt" else layout.q[N], end.q)
    _end_conditions(problem, tr, end, N)
    if not m.nc:
        if end.has_velocity:
            _legendre(problem, tr, end, N, None)
        else:
            _momenta(problem, tr, end, N)
    elif end.has_velocity or np.any(np.isfinite(end.p)):
        # the last momentum is known up to the directions of the constraints (eq. 15): mu takes them away
        _legendre(problem, tr, end, N, layout.take(m.nc, N))


def _momenta(problem: _Problem, tr: Transcription, end: _Boundary, node: int) -> None:
    """Prescribed momenta, without constraints or at the start."""
    layout, what = tr.layout, "start p" if node == 0 else "goal p"
    if problem.method != "velocity":
        return _fix(tr, what, layout.p[node], end.p)
    known = np.flatnonzero(np.isfinite(end.p))
    nq = problem.model.nq

    def rows(z: Any) -> Any:
        return problem.momentum(z[:nq], z[nq:])[known.tolist()] - end.p[known]

    if len(known):
        tr.equations(what, rows, np.hstack([layout.q[node], layout.p[node]])[None], [node])
    return None


def _fix(tr: Transcription, what: str, places: Any, values: Array) -> None:
    known = np.isfinite(values)
    tr.bound(what, places[known], values[known], values[known])


def _end_conditions(problem: _Problem, tr: Transcription, end: _Boundary, node: int) -> None:
    what = "start" if node == 0 else "goal"
    for low, expression, high, seen in _conditions(problem, end.where, f"{what} where", moving=False):
        function, columns = problem.at_nodes(tr.layout, seen.function(expression), np.array([node]))
        tr.equations(f"{what} condition", function, columns, [node], low=low, high=high)


def _legendre(problem: _Problem, tr: Transcription, end: _Boundary, node: int, mu: Any) -> None:
    """p - Dh' mu = M(q) v with prescribed velocities (or momenta of M(q) v), DMOCC eq. 17-18.

    Velocities that are not prescribed are unknowns on the constraints.
    """
    import casadi as ca

    m, layout, mech = problem.model, tr.layout, problem.mechanics
    what = "start v" if node == 0 else "goal v"
    v = _velocities(problem, end)
    if problem.method == "velocity":
        return _fix(tr, what, layout.p[node], v[: m.nd])
    known_v, known_p = np.isfinite(v[: m.nd]), np.isfinite(end.p)
    if known_v.all() and mu is None and (np.all(np.isfinite(end.q)) or not np.any(v)):
        p = np.array(mech.lv(np.nan_to_num(end.q), v)).ravel()
        return _fix(tr, what, layout.p[node], p)
    if node == 0 and problem.solver == "fatrop" and not known_v.all():
        raise ValueError("start: some velocities without the others need solver='ipopt'")
    unknown = not known_v.all() and not known_p.all()
    places = layout.take(m.nd, node) if unknown else np.zeros(0, dtype=int)
    parts = [layout.q[node], layout.p[node], places, np.zeros(0, int) if mu is None else mu]
    sizes = [len(part) for part in parts]

    def rows(z: Any) -> Any:
        q, p, free, multiplier = problem.split(z, *sizes)
        jacobian = mech.dh(q)
        if multiplier.numel():
            p = p - jacobian[:, : m.nd].T @ multiplier
        if not unknown:
            return p - (mech.lv(q, v) if known_v.all() else end.p)
        velocity = ca.vertcat(free, v[m.nd :])
        target = mech.lv(q, velocity)
        chosen = np.flatnonzero(known_p)
        conditions = target[chosen.tolist()] - end.p[chosen] if len(chosen) else ca.SX(0, 1)
        tangent = jacobian @ velocity if m.nc else ca.SX(0, 1)
        return ca.vertcat(p - target, conditions, tangent)

    tr.equations(what, rows, np.concatenate(parts)[None], [node])
    if unknown:
        _fix(tr, what, places, v[: m.nd])
    return None


def _closed(problem: _Problem, tr: Transcription, shifts: dict[int, float]) -> None:
    """q_N = q_0 + shift for the periodic variables, p_N = p_0."""
    if not shifts:
        return
    if problem.solver == "fatrop":
        raise ValueError("periodic motions couple the ends, which fatrop cannot; use solver='ipopt'")
    layout, chosen = tr.layout, list(shifts)
    pairs = np.stack([layout.q[-1][chosen], layout.q[0][chosen]], axis=1)
    shift = np.array([[shifts[i]] for i in chosen])
    stage = np.full(len(pairs), problem.N)
    tr.equations("period of configuration", lambda z: z[0] - z[1], pairs, stage, low=shift, high=shift)
    pairs = np.stack([layout.p[-1], layout.p[0]], axis=1)
    tr.equations("period of momentum", lambda z: z[0] - z[1], pairs, np.full(len(pairs), problem.N))


def _bounds(problem: _Problem, tr: Transcription, bounds: Mapping[str, tuple[Any, Any]]) -> None:
    m, layout = problem.model, tr.layout
    for name, (least, most) in m.limits.items():  # a motion between the stops is one of the model with them
        tr.bound(f"limits of '{name}'", layout.q[:, m.index(name)], least, most)
    for name, pair in bounds.items():
        try:
            low, high = (floats(b, name) for b in pair)
        except (TypeError, ValueError):
            raise ValueError(f"bounds of '{name}' must be (low, high)") from None
        if name in m.variables:
            places = layout.q[:, m.index(name)]
        elif name in m.inputs:
            places = layout.u[:, m.input_index(name)]
        else:
            raise ModelError(f"bounds: {name!r} is no variable and no input", culprit=str(name))
        for b in (low, high):
            if b.ndim and b.shape != places.shape:
                raise ValueError(f"bounds of '{name}': expected a number or shape {places.shape}, got {b.shape}")
            if np.any(np.isnan(b)):
                raise ValueError(f"bounds of '{name}' contain NaN")
        tr.bound(f"bounds of '{name}'", places, low, high)


def _hinges(m: Model) -> list[int]:
    """Indices of the variables that turn."""
    frames = [entry.frame for entry in m.frame_entries[1:] if entry.frame is not None]
    return [m.index(f.variable) for f in frames if f.variable is not None and f.transform[0] == "r"]


def _turns(problem: _Problem, tr: Transcription, turn: float | None) -> None:
    """At most so much turn per hinge and step."""
    _less_than_half(problem, tr, turn)
    chosen = _hinges(problem.model)
    if turn is None or not chosen:
        return
    few, layout = len(chosen), tr.layout
    columns = np.hstack([layout.q[:-1][:, chosen], layout.next[:, chosen]])
    tr.equations("turn per step", lambda z: z[few:] - z[:few], columns, np.arange(problem.N), low=-turn, high=turn)


def _less_than_half(problem: _Problem, tr: Transcription, turn: float | None) -> None:
    """Balls turn by at most `turn` per step, and by less than half a turn anyway: nothing tells one way round from the other."""
    layout, least = tr.layout, float(np.cos(min(MOST if turn is None else turn, MOST) / 2))
    for ball in problem.mechanics.balls:
        columns = np.hstack([layout.q[:-1][:, ball.q], layout.next[:, ball.q]])
        tr.equations("turn per step", lambda z: z[:4].T @ z[4:], columns, np.arange(problem.N), low=least, high=np.inf)


# ---- guess and result ----------------------------------------------------------------------------------------------


def _first_guess(
    problem: _Problem, layout: Layout, ends: tuple[_Boundary, _Boundary], shifts: dict[int, float], guess: Any
) -> tuple[Array, bool]:
    """The first iterate, and whether it is near a solution."""
    m, N = problem.model, problem.N
    nodes = np.linspace(0, 1, N + 1)
    middles = (nodes[1:] + nodes[:-1]) / 2
    second, u, lam = np.zeros((N + 1, m.nd)), np.zeros((N, m.nu)), np.zeros((N, m.nc))
    span, warm = problem.span, False
    if not hasattr(guess, "q"):  # a result of optimize
        guess = getattr(guess, "trajectory", guess)
    if guess is None:
        a, b = ends[0].q.copy(), ends[1].q.copy()
        for i, shift in shifts.items():
            a[i] = b[i] - shift if np.isnan(a[i]) else a[i]
            b[i] = a[i] + shift if np.isnan(b[i]) else b[i]
        rest = m.neutral()
        a, b = (np.where(np.isnan(x), np.where(np.isnan(y), rest, y), x) for x, y in ((a, b), (b, a)))
        q = m.integrate(a, nodes[:, None] * m.difference(a, b))
        if m.nc:
            q[1:-1] = _closest(problem, q[1:-1])
    elif hasattr(guess, "q") and hasattr(guess, "t"):
        if guess.q.shape[1] != m.nq or guess.u.shape[1] != m.nu:
            raise ValueError(f"guess: the motion has {guess.q.shape[1]} variables and {guess.u.shape[1]} inputs")
        t = (np.asarray(guess.t) - guess.t[0]) / (guess.t[-1] - guess.t[0])
        q = interpolate(t, _one_sheet(m, guess.q), nodes)
        second = interpolate(t, guess.p, nodes)
        within = (t[1:] + t[:-1]) / 2
        u = interpolate(within, guess.u, middles)
        # multipliers are impulses: their size goes with the step
        rate = np.asarray(guess.lam).reshape(len(within), m.nc) / np.diff(t)[:, None]
        lam = interpolate(within, rate, middles) / N
        if problem.free_time is not None:
            span = float(np.clip(guess.t[-1] - guess.t[0], *problem.free_time))
        warm = bool(getattr(guess, "success", False))
    else:
        values = floats(guess, "guess")
        if values.ndim != 2 or values.shape[1] != m.nq or len(values) < 2:
            raise ValueError(f"guess: expected a motion or q of shape (n, {m.nq}), got {values.shape}")
        q = interpolate(np.linspace(0, 1, len(values)), _one_sheet(m, values), nodes)
    q = _one_sheet(m, q, ends[0].q, ends[1].q)
    if m.nc and not hasattr(guess, "t"):
        lam = _holding(problem, q, span / N)
    if not all(np.all(np.isfinite(x)) for x in (q, second, u, lam)):
        raise ValueError("guess: values must be finite")
    if problem.method == "velocity":
        second = np.gradient(q, span / N, axis=0)[:, : m.nd] if guess is not None else second
    z = np.zeros(layout.size)
    z[layout.q], z[layout.p], z[layout.u], z[layout.lam] = q, second, u, lam
    z[layout.next], z[layout.T] = q[1:], span
    if layout.tau.size:
        z[layout.tau[:, 0]] = middles
    return z, warm


def _one_sheet(m: Model, q: Array, start: Array | None = None, goal: Array | None = None) -> Array:
    """The same configurations (n, nq) with unit quaternions that do not change their sign from row to row, and have that of a
    prescribed start, or else goal."""
    q = np.array(q, dtype=float)
    for ball in m.configuration.places:
        x = q[:, ball.q]
        length = np.linalg.norm(x, axis=1, keepdims=True)
        x = x / np.where(length > 0, length, 1.0)
        back = np.r_[1.0, np.where(np.sum(x[1:] * x[:-1], axis=1) < 0, -1.0, 1.0)]
        x = x * np.cumprod(back)[:, None]
        for end, row in ((start, x[0]), (goal, x[-1])):
            if end is not None and np.isfinite(end[ball.q]).all():
                x = -x if end[ball.q] @ row < 0 else x
                break
        q[:, ball.q] = x
    return q


def _reached(problem: _Problem, ends: tuple[_Boundary, _Boundary], guess: Any) -> _Boundary:
    """The goal with quaternions of the sign with which the guess gets there from the start; without a guess, the shorter way."""
    m, (start, goal) = problem.model, ends
    if not problem.mechanics.balls:
        return goal
    motion = getattr(guess, "trajectory", guess) if not hasattr(guess, "q") else guess
    rows = floats(getattr(motion, "q", motion), "guess") if motion is not None else None
    q = goal.q.copy()
    for ball in problem.mechanics.balls:
        known = np.isfinite(start.q[ball.q]).all() and np.isfinite(q[ball.q]).all()
        if not known:
            continue
        last = start.q
        if rows is not None and rows.ndim == 2 and rows.shape[1] == m.nq and len(rows):
            last = _one_sheet(m, rows, start.q)[-1]
        if last[ball.q] @ q[ball.q] < 0:
            q[ball.q] = -q[ball.q]
    return replace(goal, q=q)


def _closest(problem: _Problem, q: Array) -> Array:
    """Configurations (n, nq) moved onto the constraints where that is possible."""
    from ..mechanics import satisfy_constraints

    closest = q.copy()
    for k, row in enumerate(q):
        try:
            closest[k] = satisfy_constraints(problem.model, row, fixed=problem.model.kinematic)
        except ConvergenceError:
            continue
    return closest


def _holding(problem: _Problem, q: Array, h: float) -> Array:
    """Multipliers (N, nc) that best hold the weight at each configuration: with none, strings would carry no force."""
    m, mech = problem.model, problem.mechanics
    rest = np.zeros((m.nv, len(q) - 1))
    weight = h * np.array(mech.lq.map(len(q) - 1)(q[:-1].T, rest)).T
    jacobians = np.array(mech.dh.map(len(q) - 1)(q[:-1].T)).reshape(m.nc, len(q) - 1, m.nv)
    pairs = zip(jacobians.transpose(1, 0, 2), weight, strict=True)
    return np.array([np.linalg.lstsq(c[:, : m.nd].T, w, rcond=None)[0] for c, w in pairs])


def _too_coarse(m: Model, q: Array) -> str:
    """A note if a hinge turns by more than a quarter in one step: a motion of the mesh, not of the model."""
    for i in _hinges(m):
        turn = float(np.abs(np.diff(q[:, i])).max())
        if turn > np.pi / 2:
            return f"; '{m.variables[i]}' turns by {turn:.2g} rad in one step: take more steps, limit it by `turn`, or start from another guess"
    for ball in m.configuration.places:
        turn = float(np.linalg.norm(m.difference(q[:-1], q[1:])[:, ball.v], axis=1).max())
        if turn > np.pi / 2:
            return f"; '{ball.name}' turns by {turn:.2g} rad in one step: take more steps, limit it by `turn`, or start from another guess"
    return ""


def _plan(problem: _Problem, layout: Layout, answer: Solution) -> Plan:
    m, z = problem.model, answer.z
    span = float(z[layout.T[0, 0]]) if layout.T.size else problem.span
    q, second = z[layout.q], z[layout.p]
    for ball in m.configuration.places:  # to rounding; the solver's tolerance is its own
        length = np.linalg.norm(q[:, ball.q], axis=1, keepdims=True)
        q[:, ball.q] /= np.where(length > 0.5, length, 1.0)
    v = None
    if problem.method == "velocity":
        v, nodes = second, len(q)
        full = np.hstack([second, np.zeros((nodes, m.nk))])
        second = np.array(problem.mechanics.lv.map(nodes)(q.T, full.T)).T
    return Plan(
        model=m,
        t=np.linspace(0, span, problem.N + 1),
        q=q,
        p=second,
        u=z[layout.u],
        lam=z[layout.lam],
        objective=answer.objective,
        status=answer.status,
        message=answer.message + _too_coarse(m, q),
        iterations=answer.iterations,
        violation=answer.violation,
        setup_time=answer.setup_time,
        solve_time=answer.solve_time,
        unknowns=layout.size,
        equations=answer.equations,
        method=problem.method,
        alpha=problem.alpha,
        forcing=problem.forcing,
        v=v,
        costate=answer.costate,
    )
