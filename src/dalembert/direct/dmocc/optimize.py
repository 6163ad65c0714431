"""Optimal control of a multibody system by DMOCC: the discrete problem (21)-(22) of minimal dimension, by IPOPT.

Unknowns of the minimal form: u_0 ... u_N, tau_0 ... tau_{N-1} (and the duration), (2N+1)(n-m) when all degrees of
freedom are actuated. Rows: initial configuration, initial momentum (18), the N-1 discrete equations (13), final
momentum (18), final configuration D, (N+3)(n-m) in all; what is left free keeps its row with infinite bounds, so that
the sizes are those of the paper (section 3, "Accuracy and efficiency").

The form "momentum" also keeps the momenta of the nodes as unknowns (more robust from a poor guess, same solution), the
form "multiplier" is (10) with all n coordinates and m multipliers per node, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...text import Brief
from .kernels import View, flat, kernels
from .motion import Motion, coordinates
from .nlp import Program
from .system import MultibodySystem

FORMS = ("minimal", "momentum", "multiplier")


@dataclass(frozen=True, repr=False)
class Solution(Brief):
    """Result of `optimize`: whatever happened, `motion` holds the last iterate.

    `status` is "solved" or says what went wrong ("infeasible", "contradictory_bounds", "iteration_limit", ...),
    `message` explains it; `unknowns` and `constraints` are the sizes of the problem, `multipliers` those of its rows,
    `violation` the largest violated row, `seconds` (set-up, solve).

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

    @property
    def success(self) -> bool:
        """Whether a local optimum was found."""
        return self.status in ("solved", "acceptable")


def problem_size(
    system: MultibodySystem, steps: int, *, form: str = "minimal", free_time: bool = False
) -> tuple[int, int]:
    """Unknowns and constraints of the discrete problem as `optimize` poses it.

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
    system: MultibodySystem,
    *,
    steps: int,
    time: float | tuple[float, float],
    start: object = None,
    start_velocity: object = None,
    goal: object = None,
    goal_velocity: object = 0.0,
    effort: float | Sequence[float] | Mapping[str, float] = 1.0,
    cost: Callable[[View], Any] | None = None,
    final_cost: Callable[[View], Any] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    input_bounds: Mapping[str, tuple[float, float]] | None = None,
    rate_bounds: Mapping[str, tuple[float, float]] | None = None,
    guess: Motion | Solution | Any = None,
    coarse: Sequence[int] = (),
    form: str = "minimal",
    reparameterization: str = "absolute",
    tolerance: float = 1e-9,
    max_iterations: int = 1000,
    options: Mapping[str, Any] | None = None,
) -> Solution:
    """Minimize sum over steps of h (effort/2 |tau|^2 + cost(midpoint)) + final_cost(end) subject to the dynamics.

    - `time`: duration (s), or (shortest, longest) for a free final time.
    - `start`, `goal`: joint coordinates, an array (nd,) or a dict by name. In `goal` a value may be a pair (low, high),
      names left out are free, None leaves all free, and `(function, low, high)` states conditions of your own on the
      last node's `View`. Names left out of `start` are zero.
    - `start_velocity`, `goal_velocity`: rates of the coordinates at the ends (0: rest, None: free at the goal; a
      dict of zeros by name: rest of those, when conserved momenta bring the others to rest by themselves).
    - `effort`: weight of the squared inputs, one, one per input, or a dict by
      name. `cost(view)`: running cost at the midpoint of a step
      (`view.position`, `view.velocity`, `view["name"]`, `view.input("name")`); `final_cost(view)`: at the last node,
      with the velocity of the projected momentum (15).
    - `bounds`, `input_bounds`: (low, high) by name of coordinate or input. `rate_bounds`: (low, high) of a coordinate's
      rate over a step, one more row per step. Where nothing else limits a fast last step, bound the rates: a turn of
      more than a quarter per step has a slower twin with the same momentum.
    - `guess`: a `Motion` or `Solution` (interpolated in time), an array (N+1, nd) of coordinates, or None for the
      straight line.
    - `coarse`: numbers of steps to solve first, each the guess of the next, e.g. (32, 128) for steps=512: a refinement
      takes a handful of iterations.
    - `form`: "minimal", "momentum" or "multiplier"; `reparameterization`: "absolute" (sparse) or "relative" (11), where
      u_n are increments and the Jacobian is dense in time: for small problems and comparison.
    - `options`: passed on to IPOPT.

    Never raises for a failed solve: see `Solution.status`.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2))], [Joint("R", "ground", "disk")])
    >>> turned = optimize(disk, steps=20, time=1.0, goal={"disk": 1.0})
    >>> turned.status, round(turned.objective, 1)  # continuous optimum: 6 J^2 = 24
    ('solved', 24.0)
    """
    if coarse:
        arguments = {key: value for key, value in locals().items() if key not in ("system", "steps", "coarse", "guess")}
        for fewer in coarse:
            found = optimize(system, steps=fewer, guess=guess, **arguments)
            guess = found if found.success else guess
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
    if reparameterization not in ("absolute", "relative"):
        raise ValueError(f"reparameterization must be 'absolute' or 'relative', not {reparameterization!r}")
    relative = reparameterization == "relative"
    if relative and form != "minimal":
        raise ValueError("the relative reparameterization goes with form='minimal'")
    if relative and (cost is not None or final_cost is not None):
        raise ValueError("the relative reparameterization offers the effort as cost only")
    if (bounds or rate_bounds) and (relative or form == "multiplier"):
        raise ValueError("bounds on coordinates need form 'minimal' or 'momentum' with absolute reparameterization")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    duration = _duration(time)
    limits = _limits(system.coordinates, bounds)
    input_limits = _limits(system.inputs, input_bounds)
    rate_limits = _limits(system.coordinates, rate_bounds)
    aim = _goal(system, goal)
    u0 = system.vector(start)
    if isinstance(effort, Mapping):
        weights = system.vector(effort, names=system.inputs)
    else:
        weights = np.broadcast_to(np.asarray(effort, dtype=float), (system.nu,))

    first = _guess(system, guess, steps, u0, goal, 0.5 * (duration[0] + duration[1]))
    task = _Transcription(system, steps, form, relative, duration, first, limits, input_limits)
    task.start(u0, system.vector(start_velocity), *_final_momentum(system, goal, goal_velocity, form == "multiplier"))
    task.goal(aim)
    task.rates(*rate_limits)
    task.cost(weights, cost, final_cost)

    crossed = _crossed(system.coordinates, "", *limits) + _crossed(system.inputs, "input ", *input_limits)
    crossed += _crossed(system.coordinates, "rate of ", *rate_limits)
    crossed += _crossed(["time"], "", *np.reshape(duration, (2, 1)))
    crossed += ["goal"] if np.any(aim.low > aim.high) else []
    refuse = f"the lower limit exceeds the upper one: {', '.join(crossed)}" if crossed else ""
    # IPOPT's own scaling of rows changes with the mesh and leads cold starts on fine ones to poor minima: switched off
    settings = {"nlp_scaling_method": "none", "tol": tolerance, "max_iter": max_iterations, **dict(options or {})}
    answer = task.program.solve(settings, refuse=refuse)
    return Solution(
        answer.status,
        answer.message,
        task.motion(answer.x, u0),
        answer.cost,
        task.program.nx,
        task.program.ng,
        answer.iterations,
        answer.violation,
        answer.seconds,
        answer.multipliers,
        form,
    )


@dataclass(frozen=True)
class _First:
    """A first guess: coordinates (N+1, nd), inputs (N, nu), duration, multipliers (N+1, m) or None."""

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


class _Transcription:
    """Lays out unknowns and rows of the discrete problem in one of its forms; each method adds one part."""

    def __init__(
        self,
        system: MultibodySystem,
        steps: int,
        form: str,
        relative: bool,
        duration: tuple[float, float],
        first: _First,
        limits: tuple[np.ndarray, np.ndarray],
        input_limits: tuple[np.ndarray, np.ndarray],
    ) -> None:
        self.system, self.steps, self.form, self.relative = system, steps, form, relative
        self.k = k = kernels(system)
        self.shortest, self.longest = duration
        self.free_time = self.shortest != self.longest
        self.program = program = Program()
        time = float(np.clip(first.time, self.shortest, max(duration)))
        q = np.array([flat(k.place(row)) for row in first.u])
        if form == "multiplier":
            self.at = program.unknown(q)
            lam = np.zeros((steps + 1, system.m))
            self.at_lam = program.unknown(first.lam if first.lam is not None and first.lam.shape == lam.shape else lam)
        elif relative:
            self.at = program.unknown(_increments(system, first.u, q))
        else:
            self.at = program.unknown(first.u, *limits)
        self.at_tau = program.unknown(first.tau, *input_limits)
        self.at_time = program.unknown(np.full((1, int(self.free_time)), time), self.shortest, self.longest)
        if form == "momentum":
            pairs = [k.reduced(q[i], q[i + 1], first.tau[i], time / steps) for i in range(steps)]
            self.at_p = program.unknown(np.vstack([flat(pairs[0][0])] + [flat(b) for _, b in pairs]))
        self.at_steps = np.hstack([self.at[:-1], self.at[1:], self.at_tau, np.tile(self.at_time, (steps, 1))])

    def node(self, z: Any) -> Any:
        """Configuration of a node from its unknowns."""
        return z if self.form == "multiplier" else self.k.place(z)

    def step_size(self, time: Any) -> Any:
        """h from the unknown duration (an empty column if it is given)."""
        return time[0] / self.steps if self.free_time else self.shortest / self.steps

    def split(self, z: Any) -> tuple[Any, Any, Any, Any]:
        """Unknowns of a step: those of both nodes, inputs, step size."""
        size, nu = self.at.shape[1], self.system.nu
        return z[:size], z[size : 2 * size], z[2 * size : 2 * size + nu], self.step_size(z[2 * size + nu :])

    def match(self, z: Any) -> Any:
        """-p_n- and p_{n+1}+ of a step."""
        import casadi as ca

        a, b, f, h = self.split(z)
        momenta = self.k.legendre if self.form == "multiplier" else self.k.reduced
        minus, plus = momenta(self.node(a), self.node(b), f, h)
        return ca.vertcat(-minus, plus)

    def start(self, u0: np.ndarray, v0: np.ndarray, p_end: np.ndarray, tolerance: np.ndarray) -> None:
        """Initial configuration, and the dynamics as matching of momenta: row n is p_n+ - p_n-, ends are (18)."""
        import casadi as ca

        k, program, steps = self.k, self.program, self.steps
        multiplier = self.form == "multiplier"
        q0, dq0 = flat(k.place(u0)), k.place_jacobian(u0).full() @ v0
        given = q0 if multiplier else u0
        program.add(lambda z: z, self.at[:1], program.row(given, given))
        p0 = self.system.mass_matrix @ dq0 if multiplier else flat(k.momentum(q0, dq0))
        size = len(p0)
        if self.form == "momentum":
            width = self.at_steps.shape[1]
            program.add(
                lambda z: self.match(z[:width]) + ca.vertcat(z[width : width + size], -z[width + size :]),
                np.hstack([self.at_steps, self.at_p[:-1], self.at_p[1:]]),
                program.row(np.zeros((steps, 2 * size)), 0.0),
            )
            program.add(lambda z: z, self.at_p[[0, -1]], program.row([p0, p_end - tolerance], [p0, p_end + tolerance]))
            return
        low, high = np.zeros((steps + 1, size)), np.zeros((steps + 1, size))
        low[0] = high[0] = -p0
        low[-1], high[-1] = p_end - tolerance, p_end + tolerance
        rows = program.row(low, high)
        if self.relative:
            program.add(self._chain, np.arange(program.nx), rows.ravel())
        else:
            program.add(self.match, self.at_steps, np.hstack([rows[:-1], rows[1:]]))
        if multiplier:
            self._react(rows)

    def _react(self, rows: np.ndarray) -> None:
        """Constraint forces of (10) and (14), half of them at the ends, and the constraints themselves."""
        k, n, m = self.k, self.system.n, self.system.m
        columns = np.hstack([self.at, self.at_lam, np.tile(self.at_time, (self.steps + 1, 1))])

        def pull(z: Any) -> Any:
            return -self.step_size(z[n + m :]) * k.pull(z[:n], z[n : n + m])

        self.program.add(lambda z: 0.5 * pull(z), columns[[0, -1]], rows[[0, -1]])
        if self.steps > 1:
            self.program.add(pull, columns[1:-1], rows[1:-1])
        closed = self.program.row(np.zeros((self.steps, m)), 0.0)
        self.program.add(lambda z: k.constraints(z)[0], self.at[1:], closed)

    def _chain(self, z: Any) -> Any:
        """Momentum matching of all steps in terms of the increments (11): one block, dense in time."""
        import casadi as ca

        nu, steps, base = self.system.nu, self.steps, self.at.size
        q, h = self._unroll(z), self.step_size(z[base + steps * nu :])
        pairs = [self.k.reduced(q[i], q[i + 1], z[base + i * nu : base + (i + 1) * nu], h) for i in range(steps)]
        inner = [pairs[i][1] - pairs[i + 1][0] for i in range(steps - 1)]
        return ca.vertcat(-pairs[0][0], *inner, pairs[-1][1])

    def _unroll(self, z: Any) -> list[Any]:
        """Configurations of all nodes from the increments, numbers or expressions."""
        nd = self.system.nd
        nodes = [self.k.place(z[:nd])]
        for i in range(1, self.steps + 1):
            nodes.append(self.k.advance(z[i * nd : (i + 1) * nd], nodes[-1]))
        return nodes

    def goal(self, aim: _Aim) -> None:
        """Final configuration: coordinates, a condition of the user, or D(q_N, goal) where q is unknown."""
        import casadi as ca

        absolute = not self.relative and self.form != "multiplier"
        columns = self.at.ravel() if self.relative else self.at[-1]

        def last(z: Any) -> Any:
            return self._unroll(z)[-1] if self.relative else self.node(z)

        if aim.function is not None:
            condition = aim.function

            def reached(z: Any) -> Any:
                return ca.vertcat(condition(View(self.system, last(z), u=z if absolute else None)))

            size = int(reached(ca.SX.sym("z", columns.size)).numel())
            self.program.add(reached, columns, self.program.row(np.broadcast_to(aim.low, (size,)), aim.high))
        elif absolute:
            self.program.add(lambda z: z, columns, self.program.row(aim.low, aim.high))
        else:
            if np.any((aim.low != aim.high) & (np.isfinite(aim.low) | np.isfinite(aim.high))):
                raise ValueError("ranges in the goal need form 'minimal' or 'momentum', absolute reparameterization")
            free, target = np.where(aim.low == aim.high, 0.0, np.inf), flat(self.k.place(aim.u))
            self.program.add(lambda z: self.k.difference(last(z), target), columns, self.program.row(-free, free))

    def rates(self, low: np.ndarray, high: np.ndarray) -> None:
        """Limits on the rates of coordinates over a step."""
        chosen = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        few = chosen.size
        if few:
            times = np.tile(self.at_time, (self.steps, 1))
            self.program.add(
                lambda z: (z[few : 2 * few] - z[:few]) / self.step_size(z[2 * few :]),
                np.hstack([self.at[:-1][:, chosen], self.at[1:][:, chosen], times]),
                self.program.row(np.tile(low[chosen], (self.steps, 1)), high[chosen]),
            )

    def cost(self, weights: np.ndarray, cost: Any, final_cost: Any) -> None:
        """Effort and running cost by the midpoint rule (20), final cost with the projected momentum (15)."""
        import casadi as ca

        known = self.form != "multiplier"

        def running(z: Any) -> Any:
            a, b, f, h = self.split(z)
            value = 0.5 * h * ca.dot(ca.DM(weights), f**2)
            if cost is None:
                return value
            qa, qb = self.node(a), self.node(b)
            middle = 0.5 * (a + b) if known else None
            return value + h * cost(View(self.system, 0.5 * (qa + qb), v=(qb - qa) / h, u=middle, tau=f))

        def final(z: Any) -> Any:
            a, b, f, h = self.split(z)
            q = self.node(b)
            momentum = self.k.reduced(self.node(a), q, f, h)[1]
            return final_cost(View(self.system, q, v=self.k.velocity(q, momentum), u=b if known else None))

        self.program.add(running, self.at_steps)
        if final_cost is not None:
            self.program.add(final, self.at_steps[-1])

    def motion(self, x: np.ndarray, u0: np.ndarray) -> Motion:
        """The motion of an iterate."""
        k, steps = self.k, self.steps
        if self.form == "multiplier":
            q = x[self.at]
        elif self.relative:
            q = np.array([flat(node) for node in self._unroll(x[self.at].ravel())])
        else:
            q = np.array([flat(k.place(u)) for u in x[self.at]])
        tau, time = x[self.at_tau], float(x[self.at_time].sum()) if self.free_time else self.shortest
        pairs = [k.reduced(q[i], q[i + 1], tau[i], time / steps) for i in range(steps)]
        p = np.vstack([flat(a) for a, _ in pairs] + [flat(pairs[-1][1])])
        lam = x[self.at_lam] if self.form == "multiplier" else None
        u = coordinates(self.system, q, near=u0)
        return Motion(self.system, np.linspace(0.0, time, steps + 1), q, u, tau, p, lam)


def _final_momentum(
    system: MultibodySystem, goal: Any, velocity: Any, redundant: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Momentum at the goal, (n,) or reduced (nd,), and per row its tolerance: 0, or infinity where it is free."""
    k = kernels(system)
    size = system.n if redundant else system.nd
    if velocity is None:
        return np.zeros(size), np.full(size, np.inf)
    if isinstance(velocity, Mapping):
        rates, given = system.vector(velocity), [c in velocity for c in system.coordinates]
        if not all(given):
            if np.any(rates) or redundant:
                raise ValueError("a goal velocity for some coordinates only must be zero, and form not 'multiplier'")
            return np.zeros(size), np.where(given, 0.0, np.inf)
    else:
        rates = system.vector(np.full(system.nd, velocity) if np.ndim(velocity) == 0 else velocity)
    if not np.any(rates):
        return np.zeros(size), np.zeros(size)
    aim = _goal(system, goal)
    if aim.function is not None or np.any(aim.low != aim.high):
        raise ValueError("a moving goal needs the value of every coordinate in goal")
    v = k.place_jacobian(aim.u).full() @ rates
    return (system.mass_matrix @ v if redundant else flat(k.momentum(k.place(aim.u), v))), np.zeros(size)


def _duration(time: float | tuple[float, float]) -> tuple[float, float]:
    pair = np.atleast_1d(np.asarray(time, dtype=float))
    if pair.size not in (1, 2) or not np.isfinite(pair).all() or (pair <= 0).any():
        raise ValueError(f"time must be a positive number or (shortest, longest), not {time!r}")
    return float(pair[0]), float(pair[-1])


def _limits(names: Sequence[str], bounds: Mapping[str, tuple[float, float]] | None) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    for key, (a, b) in (bounds or {}).items():
        if key not in names:
            raise ValueError(f"unknown name {key!r} in bounds; known are {', '.join(names)}")
        if np.isnan(a) or np.isnan(b):
            raise ValueError(f"NaN in the bounds of {key!r}")
        i = list(names).index(key)
        low[i], high[i] = a, b
    return low, high


def _crossed(names: Sequence[str], what: str, low: np.ndarray, high: np.ndarray) -> list[str]:
    return [f"{what}{c} in [{a:g}, {b:g}]" for c, a, b in zip(names, low, high, strict=True) if a > b]


def _goal(system: MultibodySystem, goal: Any) -> _Aim:
    if isinstance(goal, tuple) and goal and callable(goal[0]):
        function, low, high = goal
        return _Aim(np.zeros(system.nd), np.asarray(low, dtype=float), np.asarray(high, dtype=float), function)
    low, high = np.full(system.nd, -np.inf), np.full(system.nd, np.inf)
    if goal is None:
        return _Aim(np.zeros(system.nd), low, high)
    items = goal.items() if isinstance(goal, Mapping) else zip(system.coordinates, goal, strict=True)
    for key, value in items:
        if key not in system.coordinates:
            raise ValueError(f"unknown name {key!r} in goal; known are {', '.join(system.coordinates)}")
        i = system.coordinates.index(key)
        pair = np.atleast_1d(np.asarray(value, dtype=float))
        if np.isnan(pair).any() or pair.size not in (1, 2):
            raise ValueError(f"goal of {key!r} must be a number or (low, high), not {value!r}")
        low[i], high[i] = pair[0], pair[-1]
    known = np.isfinite(low) & np.isfinite(high)
    middle = 0.5 * (np.where(known, low, 0.0) + np.where(known, high, 0.0))
    return _Aim(middle, low, high)


def _guess(system: MultibodySystem, guess: Any, steps: int, u0: np.ndarray, goal: Any, time: float) -> _First:
    """First guess: straight line, coordinates as given, or a motion interpolated in time."""
    if isinstance(guess, Solution):
        guess = guess.motion
    if guess is None:
        aim = _goal(system, goal)
        end = u0
        if aim.function is None:
            end = np.where(np.isfinite(aim.low) & np.isfinite(aim.high), aim.u, u0)
        return _First(u0 + np.linspace(0, 1, steps + 1)[:, None] * (end - u0), np.zeros((steps, system.nu)), time)
    if not isinstance(guess, Motion):
        u = np.array(guess, dtype=float)
        if u.shape != (steps + 1, system.nd) or not np.isfinite(u).all():
            raise ValueError(f"guess must be finite with shape ({steps + 1}, {system.nd}), got {u.shape}")
        return _First(u, np.zeros((steps, system.nu)), time)
    if guess.u.shape[1] != system.nd or guess.tau.shape[1] != system.nu:
        raise ValueError("the guess is a motion of another system; give its coordinates as an array")
    old, new = guess.t / guess.t[-1], np.linspace(0, 1, steps + 1)
    centres, middles = 0.5 * (old[1:] + old[:-1]), 0.5 * (new[1:] + new[:-1])
    u, tau = np.empty((steps + 1, system.nd)), np.empty((steps, system.nu))
    for i in range(system.nd):
        u[:, i] = np.interp(new, old, guess.u[:, i])
    for i in range(system.nu):
        tau[:, i] = np.interp(middles, centres, guess.tau[:, i])
    return _First(u, tau, float(guess.t[-1]), guess.lam)


def _increments(system: MultibodySystem, u: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Increments of the relative reparameterization that follow the nodes q, by Newton's method from P'P."""
    k = kernels(system)
    out = np.zeros_like(u)
    out[0] = u[0]
    at = q[0]
    for i in range(1, len(q)):
        step = np.zeros(system.nd)
        for _ in range(20):
            now = flat(k.advance(step, at))
            P = k.nullspace(now).full()
            fix = np.linalg.lstsq(P, q[i] - now, rcond=None)[0]
            step = step + fix
            if np.abs(fix).max() < 1e-12:
                break
        out[i], at = step, flat(k.advance(step, at))
    return out
