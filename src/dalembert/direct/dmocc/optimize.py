"""Optimal control of a multibody system by DMOCC: the discrete problem (21)-(22) of minimal dimension, by IPOPT.

Unknowns of the minimal form: u_0 ... u_N, tau_0 ... tau_{N-1} (and the duration), (2N+1)(n-m) when all degrees of
freedom are actuated. Rows: initial configuration, initial momentum (18), the N-1 discrete equations (13), final
momentum (18), final configuration D, (N+3)(n-m) in all; what is left free keeps its row with infinite bounds, so that
the sizes are those of the paper (section 3, "Accuracy and efficiency").

The form "momentum" also keeps the momenta of the nodes as unknowns (more robust from a poor guess, same solution), the
form "multiplier" is (10) with all n coordinates and m multipliers per node, for comparison.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .kernels import View, flat, kernels
from .motion import Motion, coordinates
from .nlp import Program
from .system import MultibodySystem

FORMS = ("minimal", "momentum", "multiplier")

# what IPOPT returns -> (status, what it means)
_STATUS = {
    "Solve_Succeeded": ("solved", "a local optimum was found"),
    "Solved_To_Acceptable_Level": ("acceptable", "the optimum is met to IPOPT's acceptable level only"),
    "Infeasible_Problem_Detected": (
        "infeasible",
        "no point near the last iterate satisfies boundary conditions and bounds",
    ),
    "Maximum_Iterations_Exceeded": ("iteration_limit", "raise max_iterations or give a better guess"),
    "Maximum_CpuTime_Exceeded": ("time_limit", "the time limit was reached"),
    "Maximum_WallTime_Exceeded": ("time_limit", "the time limit was reached"),
    "Restoration_Failed": ("restoration_failed", "IPOPT could not reduce the constraint violation; often infeasible"),
    "Diverging_Iterates": ("diverged", "the iterates grow without bound; the problem may be unbounded"),
    "Search_Direction_Becomes_Too_Small": ("stalled", "no further progress; the tolerance may be too tight"),
    "Invalid_Number_Detected": ("invalid_number", "a cost or condition returned NaN or infinity"),
    "Error_In_Step_Computation": ("step_failed", "IPOPT could not compute a step"),
    "Not_Enough_Degrees_Of_Freedom": (
        "overdetermined",
        "more equations than unknowns: too few actuated joints or steps",
    ),
}


@dataclass(frozen=True)
class Solution:
    """Result of `optimize`: whatever happened, `motion` holds the last iterate.

    `status` is "solved" or says what went wrong ("infeasible", "contradictory_bounds", "iteration_limit", ...),
    `message` explains it; `unknowns` and `constraints` are the sizes of the problem, `multipliers` those of its rows,
    `violation` the largest violated row, `seconds` (set-up, solve).
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
    start: Any = None,
    start_velocity: Any = None,
    goal: Any = None,
    goal_velocity: Any = 0.0,
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
    import casadi as ca

    if coarse:
        arguments = {
            key: value for key, value in locals().items() if key not in ("ca", "system", "steps", "coarse", "guess")
        }
        for fewer in coarse:
            found = optimize(system, steps=fewer, guess=guess, **arguments)
            guess = found if found.success else guess
    begun = clock.perf_counter()
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
    if reparameterization not in ("absolute", "relative"):
        raise ValueError(f"reparameterization must be 'absolute' or 'relative', not {reparameterization!r}")
    if reparameterization == "relative" and form != "minimal":
        raise ValueError("the relative reparameterization goes with form='minimal'")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    k = kernels(system)
    n, nd, nu, m = system.n, system.nd, system.nu, system.m
    coordinates_known = form != "multiplier" and reparameterization == "absolute"
    shortest, longest, free_time = _duration(time)
    u0 = system.vector(start)
    v0 = system.vector(start_velocity)
    q0 = flat(k.place(u0))
    dq0 = k.place_jacobian(u0).full() @ v0
    low_u, high_u = _limits(system.coordinates, bounds)
    low_f, high_f = _limits(system.inputs, input_bounds)
    low_r, high_r = _limits(system.coordinates, rate_bounds)
    if (bounds or rate_bounds) and not coordinates_known:
        raise ValueError("bounds on coordinates need form 'minimal' or 'momentum' with absolute reparameterization")
    if isinstance(effort, Mapping):
        weights = system.vector(effort, names=system.inputs)
    else:
        weights = np.broadcast_to(np.asarray(effort, dtype=float), (nu,))

    # First guess: straight line, or what was given
    first_u, first_f, first_t = _guess(system, guess, steps, u0, goal, 0.5 * (shortest + longest))
    first_t = float(np.clip(first_t, shortest, longest))
    first_q = np.array([flat(k.place(row)) for row in first_u])

    # Unknowns: one index per entry of x, one row of indices per node or step
    count = 0
    first: list[np.ndarray] = []
    lower: list[np.ndarray] = []
    upper: list[np.ndarray] = []

    def unknown(value: np.ndarray, low: np.ndarray | float = -np.inf, high: np.ndarray | float = np.inf) -> np.ndarray:
        nonlocal count
        where = count + np.arange(value.size).reshape(value.shape)
        count += value.size
        first.append(np.ravel(value))
        lower.append(np.broadcast_to(low, value.shape).ravel())
        upper.append(np.broadcast_to(high, value.shape).ravel())
        return where

    if form == "multiplier":
        at = unknown(first_q)
        kept = guess.motion if isinstance(guess, Solution) else guess
        first_lam = np.zeros((steps + 1, m))
        if isinstance(kept, Motion) and kept.lam is not None and kept.lam.shape == first_lam.shape:
            first_lam = kept.lam
        at_lam = unknown(first_lam)
    elif coordinates_known:
        at = unknown(first_u, low_u, high_u)
    else:
        at = unknown(_increments(system, first_u, first_q))
    at_tau = unknown(first_f, low_f, high_f)
    at_time = unknown(np.full((1, int(free_time)), first_t), shortest, longest)
    if form == "momentum":
        pairs = [k.reduced(first_q[i], first_q[i + 1], first_f[i], first_t / steps) for i in range(steps)]
        at_p = unknown(np.vstack([flat(pairs[0][0])] + [flat(b) for _, b in pairs]))

    # Rows: limits are collected here, the expressions as blocks of the program below
    total = 0
    row_low: list[np.ndarray] = []
    row_high: list[np.ndarray] = []

    def row(low: Any, high: Any) -> np.ndarray:
        nonlocal total
        pair = np.broadcast_arrays(np.asarray(low, dtype=float), np.asarray(high, dtype=float))
        row_low.append(pair[0].ravel())
        row_high.append(pair[1].ravel())
        total += pair[0].size
        return total - pair[0].size + np.arange(pair[0].size).reshape(pair[0].shape)

    blocks: list[tuple[Any, np.ndarray, np.ndarray | None]] = []

    def node(z: Any) -> Any:
        """Configuration of a node from its unknowns."""
        return z if form == "multiplier" else k.place(z)

    def split(z: Any) -> tuple[Any, Any, Any, Any]:
        """Unknowns of a step: those of both nodes, inputs, step size."""
        size = at.shape[1]
        h = z[2 * size + nu] / steps if free_time else shortest / steps
        return z[:size], z[size : 2 * size], z[2 * size : 2 * size + nu], h

    steps_at = np.hstack([at[:-1], at[1:], at_tau, np.tile(at_time, (steps, 1))])
    start_rows = row(q0, q0) if form == "multiplier" else row(u0, u0)
    blocks.append((lambda z: z, at[:1], start_rows[None]))

    # Dynamics as matching of momenta: row n is p_n+ - p_n-, the first and last are boundary conditions (18)
    width = n if form == "multiplier" else nd
    p0 = system.mass_matrix @ dq0 if form == "multiplier" else flat(k.momentum(q0, dq0))
    p_end, tolerated = _final_momentum(system, goal, goal_velocity, redundant=form == "multiplier")
    low, high = np.zeros((steps + 1, width)), np.zeros((steps + 1, width))
    low[0] = high[0] = -p0
    low[-1], high[-1] = p_end - tolerated, p_end + tolerated

    def match(z: Any) -> Any:
        a, b, f, h = split(z)
        minus, plus = (k.legendre if form == "multiplier" else k.reduced)(node(a), node(b), f, h)
        return ca.vertcat(-minus, plus)

    if form == "momentum":
        sides = row(np.zeros((steps, 2 * nd)), np.zeros((steps, 2 * nd)))
        size = steps_at.shape[1]
        blocks.append(
            (
                lambda z: match(z[:size]) + ca.vertcat(z[size : size + nd], -z[size + nd :]),
                np.hstack([steps_at, at_p[:-1], at_p[1:]]),
                sides,
            )
        )
        ends = row([p0, low[-1]], [p0, high[-1]])
        blocks.append((lambda z: z, at_p[[0, -1]], ends))
    else:
        nodes = row(low, high)
        if coordinates_known or form == "multiplier":
            blocks.append((match, steps_at, np.hstack([nodes[:-1], nodes[1:]])))
        else:
            blocks.append((_chain(system, steps, free_time, shortest), np.arange(count)[None], nodes.ravel()[None]))
    if form == "multiplier":

        def reaction(weight: float) -> Any:
            def pull(z: Any) -> Any:
                h = z[n + m] / steps if free_time else shortest / steps
                return -weight * h * k.pull(z[:n], z[n : n + m])

            return pull

        pulled = np.hstack([at, at_lam, np.tile(at_time, (steps + 1, 1))])
        blocks.append((reaction(0.5), pulled[[0, -1]], nodes[[0, -1]]))
        if steps > 1:
            blocks.append((reaction(1.0), pulled[1:-1], nodes[1:-1]))
        closed = row(np.zeros((steps, m)), np.zeros((steps, m)))
        blocks.append((lambda z: k.constraints(z)[0], at[1:], closed))

    # Final configuration
    goal_u, goal_low, goal_high, goal_function = _goal(system, goal)
    end_at = at[-1:] if coordinates_known or form == "multiplier" else np.arange(at.size)[None]

    def end_node(z: Any) -> Any:
        return node(z) if coordinates_known or form == "multiplier" else _unroll(system, z, steps)[-1]

    if goal_function is not None:

        def reached(z: Any) -> Any:
            return ca.vertcat(goal_function(View(system, end_node(z), u=z if coordinates_known else None)))

        size = int(reached(ca.SX.sym("z", end_at.shape[1])).numel())
        blocks.append(
            (reached, end_at, row(np.broadcast_to(goal_low, (size,)), np.broadcast_to(goal_high, (size,)))[None])
        )
    elif coordinates_known:
        blocks.append((lambda z: z, end_at, row(goal_low, goal_high)[None]))
    else:
        if np.any((goal_low != goal_high) & (np.isfinite(goal_low) | np.isfinite(goal_high))):
            raise ValueError("ranges in the goal need form 'minimal' with absolute reparameterization")
        free = np.where(goal_low == goal_high, 0.0, np.inf)
        aim = flat(k.place(goal_u))
        blocks.append((lambda z: k.difference(end_node(z), aim), end_at, row(-free, free)[None]))

    # Rates over a step
    limited = np.flatnonzero(np.isfinite(low_r) | np.isfinite(high_r))
    if limited.size:
        columns = np.hstack([at[:-1][:, limited], at[1:][:, limited], np.tile(at_time, (steps, 1))])
        few = limited.size

        def rate(z: Any) -> Any:
            return (z[few : 2 * few] - z[:few]) * (steps / (z[2 * few] if free_time else shortest))

        ones = np.ones((steps, 1))
        blocks.append((rate, columns, row(ones * low_r[limited], ones * high_r[limited])))

    # Cost: midpoint rule (20), effort, final cost with the projected momentum
    def running(z: Any) -> Any:
        a, b, f, h = split(z)
        value = 0.5 * h * ca.dot(ca.DM(weights), f**2)
        if cost is not None:
            qa, qb = node(a), node(b)
            middle = 0.5 * (a + b) if coordinates_known else None
            value = value + h * cost(View(system, 0.5 * (qa + qb), v=(qb - qa) / h, u=middle, tau=f))
        return value

    def final(z: Any) -> Any:
        assert final_cost is not None
        a, b, f, h = split(z)
        q_end = node(b)
        momentum = k.reduced(node(a), q_end, f, h)[1]
        return final_cost(View(system, q_end, v=k.velocity(q_end, momentum), u=b if coordinates_known else None))

    if not coordinates_known and form != "multiplier" and (cost is not None or final_cost is not None):
        raise ValueError("the relative reparameterization offers the effort as cost only")
    blocks.append((running, steps_at, None))
    if final_cost is not None:
        blocks.append((final, steps_at[-1:], None))

    program = Program(count, total)
    for function, columns, where in blocks:
        program.add(function, columns, where)
    made = program.functions()
    x0, lbx, ubx = np.concatenate(first), np.concatenate(lower), np.concatenate(upper)
    lbg, ubg = np.concatenate(row_low), np.concatenate(row_high)

    def finish(
        status: str, message: str, x: np.ndarray, iterations: int, seconds: tuple[float, float], dual: Any
    ) -> Solution:
        if form == "multiplier":
            q = x[at]
        elif coordinates_known:
            q = np.array([flat(k.place(u)) for u in x[at]])
        else:
            q = _unroll_numbers(system, x[at])
        cost_, rows_ = made["values"](x)
        r = flat(rows_)
        off = np.concatenate([lbg - r, r - ubg, lbx - x, x - ubx, [0.0]])
        duration = float(x[int(at_time[0, 0])]) if free_time else shortest
        motion = _motion(system, q, x[at_tau], duration, u0, x[at_lam] if form == "multiplier" else None)
        return Solution(
            status, message, motion, float(cost_), count, total, iterations, float(off.max()), seconds, dual, form
        )

    crossed = [f"{c} in [{a:g}, {b:g}]" for c, a, b in _named(system, low_u, high_u, low_f, high_f) if a > b]
    crossed += [f"time in [{shortest:g}, {longest:g}]"] if shortest > longest else []
    crossed += [f"rate of {c}" for c, a, b in zip(system.coordinates, low_r, high_r, strict=True) if a > b]
    crossed += ["goal"] if np.any(goal_low > goal_high) else []
    if crossed:
        text = f"the lower limit exceeds the upper one: {', '.join(crossed)}"
        return finish("contradictory_bounds", text, x0, 0, (clock.perf_counter() - begun, 0.0), np.zeros(total))
    # IPOPT's own scaling of rows changes with the mesh and leads cold starts on fine ones to poor minima: switched off
    settings: dict[str, Any] = {"print_level": 0, "sb": "yes", "nlp_scaling_method": "none"}
    settings |= {"tol": tolerance, "max_iter": max_iterations}
    settings |= dict(options or {})
    solver = ca.nlpsol(
        "dmocc",
        "ipopt",
        {"x": made["x"], "f": made["cost"], "g": made["rows"]},
        {
            "print_time": False,
            "ipopt": settings,
            "error_on_fail": False,
            "grad_f": made["gradient"],
            "jac_g": made["jacobian"],
            "hess_lag": made["hessian"],
        },
    )
    ready = clock.perf_counter()
    try:
        out = solver(x0=x0, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
    except RuntimeError as reason:
        text = f"the solver refused the problem: {reason}"
        return finish("solver_error", text, x0, 0, (ready - begun, 0.0), np.zeros(total))
    seconds = (ready - begun, clock.perf_counter() - ready)
    facts = solver.stats()
    status, message = _STATUS.get(facts["return_status"], ("failed", facts["return_status"]))
    value = flat(out["x"])
    if not np.isfinite(value).all():
        status, message, value = "invalid_number", "the solver left NaN; the guess is kept", x0
    return finish(status, message, value, int(facts["iter_count"]), seconds, flat(out["lam_g"]))


def _final_momentum(
    system: MultibodySystem, goal: Any, velocity: Any, *, redundant: bool
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
    u, low, high, function = _goal(system, goal)
    if function is not None or np.any(low != high):
        raise ValueError("a moving goal needs the value of every coordinate in goal")
    v = k.place_jacobian(u).full() @ rates
    return (system.mass_matrix @ v if redundant else flat(k.momentum(k.place(u), v))), np.zeros(size)


def _unroll(system: MultibodySystem, z: Any, steps: int) -> list[Any]:
    """Configurations of all nodes from the increments (11), as expressions."""
    k, nd = kernels(system), system.nd
    nodes = [k.place(z[:nd])]
    for i in range(steps):
        nodes.append(k.advance(z[(i + 1) * nd : (i + 2) * nd], nodes[-1]))
    return nodes


def _unroll_numbers(system: MultibodySystem, increments: np.ndarray) -> np.ndarray:
    k = kernels(system)
    nodes = [flat(k.place(increments[0]))]
    for row in increments[1:]:
        nodes.append(flat(k.advance(row, nodes[-1])))
    return np.array(nodes)


def _chain(system: MultibodySystem, steps: int, free_time: bool, time: float) -> Any:
    """Momentum matching of all steps in terms of the increments: one dense block."""
    import casadi as ca

    k, nd, nu = kernels(system), system.nd, system.nu

    def match(z: Any) -> Any:
        q = _unroll(system, z, steps)
        h = z[-1] / steps if free_time else time / steps
        base = (steps + 1) * nd
        pairs = [k.reduced(q[i], q[i + 1], z[base + i * nu : base + (i + 1) * nu], h) for i in range(steps)]
        inner = [pairs[i][1] - pairs[i + 1][0] for i in range(steps - 1)]
        return ca.vertcat(-pairs[0][0], *inner, pairs[-1][1])

    return match


def _duration(time: float | tuple[float, float]) -> tuple[float, float, bool]:
    pair = np.atleast_1d(np.asarray(time, dtype=float))
    if pair.size not in (1, 2) or not np.isfinite(pair).all() or (pair <= 0).any():
        raise ValueError(f"time must be a positive number or (shortest, longest), not {time!r}")
    return float(pair[0]), float(pair[-1]), pair.size == 2


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


def _named(
    system: MultibodySystem, low_u: np.ndarray, high_u: np.ndarray, low_f: np.ndarray, high_f: np.ndarray
) -> list[tuple[str, float, float]]:
    return [
        *zip(system.coordinates, low_u, high_u, strict=True),
        *((f"input {c}", a, b) for c, a, b in zip(system.inputs, low_f, high_f, strict=True)),
    ]


def _goal(system: MultibodySystem, goal: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, Callable[..., Any] | None]:
    """Goal coordinates for the guess (free ones zero), lower and upper limits, condition of the user."""
    if isinstance(goal, tuple) and goal and callable(goal[0]):
        function, low, high = goal
        return np.zeros(system.nd), np.asarray(low, dtype=float), np.asarray(high, dtype=float), function
    low, high = np.full(system.nd, -np.inf), np.full(system.nd, np.inf)
    if goal is None:
        return np.zeros(system.nd), low, high, None
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
    return middle, low, high, None


def _guess(
    system: MultibodySystem, guess: Any, steps: int, u0: np.ndarray, goal: Any, time: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coordinates (N+1, nd), inputs (N, nu) and duration of the first guess."""
    if isinstance(guess, Solution):
        guess = guess.motion
    if guess is None:
        end, low, high, function = _goal(system, goal)
        end = u0 if function is not None else np.where(np.isfinite(low) & np.isfinite(high), end, u0)
        return u0 + np.linspace(0, 1, steps + 1)[:, None] * (end - u0), np.zeros((steps, system.nu)), time
    if not isinstance(guess, Motion):
        u = np.array(guess, dtype=float)
        if u.shape != (steps + 1, system.nd) or not np.isfinite(u).all():
            raise ValueError(f"guess must be finite with shape ({steps + 1}, {system.nd}), got {u.shape}")
        return u, np.zeros((steps, system.nu)), time
    if guess.u.shape[1] != system.nd or guess.tau.shape[1] != system.nu:
        raise ValueError("the guess is a motion of another system; give its coordinates as an array")
    old, new = guess.t / guess.t[-1], np.linspace(0, 1, steps + 1)
    u = np.column_stack([np.interp(new, old, column) for column in guess.u.T])
    centres, middles = 0.5 * (old[1:] + old[:-1]), 0.5 * (new[1:] + new[:-1])
    tau = (
        np.column_stack([np.interp(middles, centres, column) for column in guess.tau.T])
        if system.nu
        else np.zeros((steps, 0))
    )
    return u, tau, float(guess.t[-1])


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


def _motion(system: MultibodySystem, q: np.ndarray, tau: np.ndarray, time: float, u0: np.ndarray, lam: Any) -> Motion:
    k = kernels(system)
    steps = len(tau)
    t = np.linspace(0.0, time, steps + 1)
    h = time / steps
    pairs = [k.reduced(q[i], q[i + 1], tau[i], h) for i in range(steps)]
    p = np.vstack([flat(a) for a, _ in pairs] + [flat(pairs[-1][1])])
    return Motion(system, t, q, coordinates(system, q, near=u0), tau.reshape(steps, system.nu), p, lam)


# names used by the doctests
from .system import Joint, RigidBody  # noqa: E402

__all__ = ["Joint", "RigidBody", "Solution", "optimize", "problem_size"]
