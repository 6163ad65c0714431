"""MidpointVI: the variational integrator (position-momentum form; Structured linearization, eqs 2 and 28).

    p_k + D1 Ld(q_k, q_k+1) + F- - Dh(q_k)^T lambda_k = 0,   h(q_k+1) = 0,   p_k+1 = D2 Ld(q_k, q_k+1) + F+
    Ld(x, y) = dt L((1 - alpha) x + alpha y, (y - x)/dt)

Forcing "split": F- = F+ = dt/2 F(midpoint, u_k), second order. Forcing "left": F- = dt F, F+ = 0, as in
Structured linearization, Trajectory optimization and trep; only first order when there are forces.
"""

from __future__ import annotations

import logging
import math
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from ..arrays import Array, Named, all_finite, finite, floats, matrix, vector, whole
from ..errors import ConvergenceError, SingularityError, Stop
from ..mechanics import (
    constraint_jacobian,
    constraints,
    core,
    dependent_constraints,
    idle_turns,
    lagrangian_first,
    singular_variables,
    undefined_elements,
    velocity_offset,
)
from ..model import Model, rotation
from ..model.configuration import Configuration
from ..progress import progress as shown
from .composition import composition
from .condition import Condition, condition
from .discrete_lagrangian import DiscreteLagrangian, discrete_lagrangian
from .events import Event, Occurrence, watches
from .hybrid import Feed, Run, thinned
from .impacts import LAWS, check_gaps
from .midpoint_steps import MidpointSteps, not_overflown
from .onestep import OneStepMap, Tangent
from .prescribed import coordinates_after, input_names, inputs_between
from .quality import check_accuracy, good, say
from .reachable import in_gauge_of, nearby, settled, tangent
from .scheme import Scheme
from .trajectory import State, Trajectory, fixed, joined
from .turns import steps_of

LOG = logging.getLogger("dalembert.integrate")
PIECE = 1 << 20  # steps that are simulated at once where not every state is kept
FORCING = {"split": (0.5, 0.5), "left": (1.0, 0.0)}
ADAPT_PIECES = 32  # of a prescribed motion between two output times


_DERIVED = (
    "_q_shape",
    "_p_shape",
    "_u_shape",
    "_no_u",
    "_at_rest",
    "_no_lam",
    "_quick",
    "_plain_inputs",
    "_stepper",
    "_scheme",
)  # made again with the options
_FLOAT = np.dtype(np.float64)


def _as_is(a: object, shape: tuple[int, ...]) -> bool:
    """Whether the core can read this array without a conversion."""
    return type(a) is np.ndarray and a.dtype is _FLOAT and a.shape == shape


class MidpointVI(OneStepMap):
    """Generalized midpoint variational integrator of a Model; a `OneStep` with x = (q, p, v_rho), u = (inputs, next kinematic values).

    `dt`: step length (s), or an array (N,) of varying steps for `simulate`.
    `order` 4 or 6: every step is composed of 5 or 9 midpoint steps, so that errors fall with the fourth or sixth power of dt while momenta,
    energy behaviour and constraints are kept as before. Inputs are held during the whole step; prescribed variables follow straight lines
    between the values at its ends (in `simulate` also any function of time). `lam` is then that of the last part, as if it had lasted the whole step.
    `alpha` in [0, 1] (1/2 is second order). `forcing`: "split" or "left"; orders above 2 need alpha = 1/2 and "split".
    `tolerance`: residual relative to the sizes of p, L_v, dt L_q; at the default, rounding level, energy does not drift in a million
    steps, and 1e-10 saves up to an iteration. `max_iterations` of Newton's method; `plain` solves dense, as a baseline.
    `impacts` of a model with limits and contacts: "together" (contacts that close at one instant share the blow) or "sequence" (one after
    the other, the fastest first); they are heeded by `simulate` and `step`, not by `f`, `linearize` and what is built on these.

    >>> import dalembert as da
    >>> torque = da.ConfigForce("theta", "torque")
    >>> pendulum = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), torque])
    >>> vi = da.MidpointVI(pendulum, dt=0.1, forcing="left")
    >>> s = vi.step(vi.state(q=[0.2], p=[0.5]), u=[0.8])
    >>> s.q.round(9), s.p.round(9)
    (array([0.24713619]), array([0.36272388]))
    >>> ends = {}
    >>> for order in (2, 4, 6):
    ...     vi = da.MidpointVI(da.models.n_link(2), dt=0.05, order=order)
    ...     ends[order] = vi.simulate(vi.state(q=[1.0, 0.5]), time=1.0).q[-1]
    >>> [f"{abs(ends[order] - ends[6]).max():.0e}" for order in (2, 4)]
    ['3e-03', '1e-06']
    """

    def __init__(
        self,
        model: Model,
        dt: float | ArrayLike,
        *,
        order: int = 2,
        alpha: float = 0.5,
        forcing: str = "split",
        tolerance: float = 1e-14,
        max_iterations: int = 40,
        plain: bool = False,
        impacts: str = "together",
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"MidpointVI needs a Model, not {type(model).__name__}")
        steps = floats(dt, "dt").reshape(np.shape(dt))
        if steps.ndim > 1 or not np.isfinite(steps).all() or not (steps > 0).all() or steps.size == 0:
            raise ValueError("dt must be a positive number or a one-dimensional array of positive numbers")
        alpha, tolerance = (floats(x, what).item() for x, what in ((alpha, "alpha"), (tolerance, "tolerance")))
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"alpha must be in [0, 1], not {alpha}")
        if forcing not in FORCING:
            raise ValueError(f"forcing must be 'split' or 'left', not {forcing!r}")
        parts = composition(order)
        if len(parts) > 1 and (alpha != 0.5 or forcing != "split"):
            raise ValueError(f"order {order} needs the symmetric step: alpha = 0.5 and forcing = 'split'")
        if model.configuration.places and (alpha != 0.5 or forcing != "split"):
            raise ValueError("balls need the symmetric step: alpha = 0.5 and forcing = 'split'")
        if idle := idle_turns(model):
            hinge = idle[0] in model.dynamic
            raise SingularityError(
                f"the mass matrix is singular in {', '.join(idle)}: the {'hinge' if hinge else 'ball'} carries nothing that has inertia "
                "about this axis",
                matrix="mass",
                variables=idle,
                hint="give what it carries a rotational inertia, or "
                + ("make the joint Kinematic" if hinge else "use two hinges (rx, ry) in its place"),
            )
        if not 0.0 < tolerance < 1e-3:
            raise ValueError(f"tolerance must be between 0 and 1e-3 (it is relative), not {tolerance}")
        if isinstance(max_iterations, bool) or not isinstance(max_iterations, (int, np.integer)) or max_iterations < 1:
            raise ValueError(f"max_iterations must be a positive whole number, not {max_iterations!r}")
        if impacts not in LAWS:
            raise ValueError(f"impacts must be 'together' or 'sequence', not {impacts!r}")
        if model.nd == 0:
            raise ValueError("the model has no dynamic variable: there is nothing to integrate")
        self.model = model
        self.dt: float | Array = float(steps) if steps.ndim == 0 else steps
        self.order = int(order)
        self.parts = parts  # lengths of the midpoint steps that make a step, in units of it
        self.alpha = float(alpha)
        self.forcing = forcing
        self.tolerance = float(tolerance)
        self.max_iterations = int(max_iterations)
        self.plain = bool(plain)
        self.impacts = impacts
        self._make_options()

    def _make_options(self) -> None:
        self._core = core(self.model)
        self.options = self._options(self.order)
        model = self.model
        self._q_shape, self._p_shape, self._u_shape = (model.nq,), (model.nd,), (model.nu,)
        self._scheme = Scheme(self.order, self.alpha, self.forcing, self.dt if isinstance(self.dt, float) else None)
        self._no_u, self._at_rest, self._no_lam = (fixed(np.zeros(n)) for n in (model.nu, model.nkv, model.nc))
        self._stepper: Any = _core.Stepper(self._core, self.options, State, model, self._at_rest, self._no_lam)
        self._quick, self._plain_inputs = not model.gaps, model.prescribed.flat

    def _options(self, order: int, rule: tuple[float, float, float] | None = None) -> _core.Options:
        """Options of the core; `rule` is (alpha, shares of F- and F+), the integrator's own by default."""
        h_tolerance = max(4e-15, min(self.tolerance, max(self.tolerance / 10, 1e-14)))
        return _core.Options(
            *(rule or (self.alpha, *FORCING[self.forcing])),
            self.tolerance,
            h_tolerance,
            self.max_iterations,
            self.plain,
            order=order,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_core", "options") and k not in _DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_options()

    def __repr__(self) -> str:
        dt = f"{self.dt:g}" if isinstance(self.dt, float) else f"array of {len(self.dt)}"
        order = "" if self.order == 2 else f", order={self.order}"
        return f"MidpointVI({self.model.name!r}, dt={dt}{order}, alpha={self.alpha:g}, forcing={self.forcing!r})"

    @property
    def scheme(self) -> Scheme:
        """What its motions are made by: order, alpha, forcing, dt."""
        return self._scheme

    # ---- states

    def state(
        self,
        q: Named | None = None,
        *,
        v: Named | None = None,
        p: Named | None = None,
        q0: Named | None = None,
        u: Named | None = None,
        t: float = 0.0,
        check: bool = True,
    ) -> State:
        """A starting state: from (q, p), from (q, v), or from two configurations (q0 at t - dt, q at t).

        q, v, q0 are arrays (nq,) or dicts by name (others 0); p is (nd,) or a dict. Raises ValueError when q (or v) violates the
        constraints, saying by how much; `da.satisfy_constraints` helps, `check=False` takes them as they are.

        From v: p = L_v, the Legendre transform; of a constrained model plus half the impulse of the constraints under the inputs
        `u` (nu,), as a step that ends here leaves it. So an equilibrium (with the load u) is a fixed point of the map. Only p shows the
        difference: the motion is the same. (With alpha other than 1/2, or forcing "left", the fixed point differs also along the constraints
        where forces act at rest, as it does without constraints.)

        >>> import dalembert as da
        >>> bob = da.tx("x", da.ty("y", name="bob", mass=1.0))
        >>> pendulum = da.Model([bob], [da.Gravity((0, -9.8, 0)), da.Distance("world", "bob", 1.0)])
        >>> vi = da.MidpointVI(pendulum, dt=0.01)
        >>> hanging = vi.state(q={"y": -1.0})
        >>> hanging.p.round(6), abs(vi.step(hanging).p - hanging.p).max() < 1e-12
        (array([ 0.   , -0.049]), np.True_)
        """
        model = self.model
        x = model.configuration.point(q)
        if sum(a is not None for a in (v, p, q0)) > 1:
            raise ValueError("give only one of v, p, q0")
        self._check_time(t)
        if check:
            self._check_constraints(x, "q")
            check_gaps(model, x, "q")
        if q0 is not None:
            if self.order != 2:
                raise ValueError(f"two configurations begin a motion of order 2, not {self.order}: give v or p")
            before = model.configuration.point(q0, "q0")
            if check:
                self._check_constraints(before, "q0")
            momentum = self._momentum_between(before, x)
        elif p is not None:
            momentum = vector(p, model.velocities[: model.nd], "p")
        else:
            w = model.configuration.tangent(v)
            if check and model.nc and v is not None:
                c = constraint_jacobian(model, x)
                rate = np.abs(c @ w + velocity_offset(model, x))
                if rate.max() > 1e-6 * (1 + (np.abs(c) @ np.abs(w)).max()):
                    worst = int(rate.argmax())
                    raise ValueError(
                        f"v violates {model.constraints[worst]}: its rate is {rate[worst]:.3g} "
                        "(da.consistent_velocity(model, q, v) gives the nearest consistent one)"
                    )
            momentum = matrix(self._core.first(x, w)[1][: model.nd], (model.nd,), "p (from v)")
            if model.nc:
                momentum = self._with_half_impulse(x, w, momentum, vector(u, model.inputs, "u"))
        if u is not None and (p is not None or q0 is not None):
            raise ValueError("u belongs to a state from q and v: p holds all impulses, and so do two configurations")
        rate = np.zeros(model.nkv) if v is None else model.configuration.tangent(v)[model.nd :]
        x, momentum, rate = (fixed(a.copy()) for a in (x, momentum, rate))
        return State(float(t), x, momentum, np.zeros(model.nc), rate, model)

    def _with_half_impulse(self, q: Array, v: Array, p: Array, u: Array) -> Array:
        """p + C'mu as the last part of a step leaves it: the step back from (q, L_v) tells the impulse. Where there is none (the motion is too
        fast, the constraints are singular) p stays as it is; no step feels the difference."""
        model, h = self.model, (self.dt if isinstance(self.dt, float) else float(self.dt[0])) * float(self.parts[-1])
        minus, plus = FORCING[self.forcing]
        back = self._options(2, (1 - self.alpha, plus, minus))
        before = model.integrate(q, np.concatenate([np.zeros(model.nd), -h * v[model.nd :]]))
        lam, status = itemgetter(2, 4)(self._core.step(back, -h, q, p, u, before, np.zeros(model.nc)))
        return p if status else p - lam @ constraint_jacobian(model, q)[:, : model.nd]

    def _check_constraints(self, q: Array, what: str) -> None:
        if not self.model.nh:
            return
        h = np.abs(constraints(self.model, q))
        scale = 1.0 + np.abs(constraint_jacobian(self.model, q)[: self.model.nh]).max(axis=1)
        worst = int((h / scale).argmax())
        if h[worst] > 1e-7 * scale[worst]:
            raise ValueError(
                f"{what} violates {self.model.constraints[worst]} by {h[worst]:.3g} "
                "(da.satisfy_constraints(model, q) gives the nearest consistent configuration)"
            )

    @staticmethod
    def _check_time(t: float) -> None:
        if not isinstance(t, (int, float, np.integer, np.floating)) or not np.isfinite(t):
            raise ValueError(f"t must be a finite number, not {t!r}")

    def _one_dt(self) -> float:
        if not isinstance(self.dt, float):
            raise ValueError("this integrator has varying steps; pass dt= for a single step")
        return self.dt

    def _length(self, dt: float | None) -> float:
        """Length of a single step: as given, or the integrator's own."""
        if dt is None:
            return self._one_dt()
        h = floats(dt, "dt")
        if np.ndim(dt) or not (np.isfinite(h).all() and (h > 0).all()):
            raise ValueError(f"dt must be a positive number, not {dt}")
        return h.item()

    def _momentum_between(self, before: Array, after: Array) -> Array:
        """p at the end of a step between two configurations: D2 Ld + F+ (inputs zero)."""
        from ..mechanics import force

        dt = self._one_dt()
        way = self.model.difference(before, after)
        mid, w = self.model.integrate(before, self.alpha * way), way / dt
        lq, lv = lagrangian_first(self.model, mid, w)
        nd = self.model.nd
        push = force(self.model, mid, w)
        p = dt * self.alpha * lq[:nd] + lv[:nd] + dt * FORCING[self.forcing][1] * push
        for place in self.model.configuration.places:  # A^T dt (L_psi + F) + D^T L_v (docs/kernels.md 13)
            v = place.v
            if v.start < nd:
                (x, y, _), (a, b, c) = way[v], lv[v]
                turn = dt * (lq[v] + push[v]) - np.array([0.0, x * c, y * a - x * b])
                p[v] = rotation.half_way(way[v]).T @ turn + rotation.inverse_right_jacobian(way[v]).T @ lv[v]
        return p

    # ---- steps

    def step(
        self,
        state: State,
        u: Named | None = None,
        kinematic: Named | None = None,
        *,
        dt: float | None = None,
        guess: ArrayLike | None = None,
    ) -> State:
        """One step from `state`, of `dt` seconds (default: its own): inputs u (nu,) held during the step, `kinematic`
        (nk,) the prescribed values at its end (default: unchanged).

        Newton starts from `guess` (nq,) or, without it, from q itself, so the result depends on nothing but the arguments.
        """
        h = self.dt
        if dt is None and guess is None and kinematic is None and self._quick and type(h) is float:
            new: State | None = self._stepper.step(state, u, h)  # None: something has to be converted, or is wrong
            if new is not None:
                return new
        model = self.model
        h = self._length(dt)
        q, p = self._checked(state)
        x = vector(u, model.inputs, "u")
        if model.gaps:
            rho = q[model.nqd :] if kinematic is None else model.prescribed.point(kinematic, "kinematic")
            feed = Feed(x[None], rho[None, None] if model.nk else None)
            return Run(self, state, np.array([h]), np.array([state.t, state.t + h]), feed, []).go(False)[-1]
        y = q.copy() if guess is None else model.configuration.point(guess, "guess").copy()
        y[model.nqd :] = q[model.nqd :] if kinematic is None else model.prescribed.point(kinematic, "kinematic")
        lam0 = np.ascontiguousarray(state.lam, dtype=float)
        new_q, new_p, lam, _, status, error = self._solve(h, q, p, x, y, lam0)
        if status:
            self._fail(status, error, 0, state.t, state, None)
        rate = model.difference(q, new_q)[model.nd :] / h
        return State(state.t + h, new_q, new_p, lam, rate, model)

    def _solve(
        self, h: float, q: Array, p: Array, u: Array, y: Array, lam: Array, way: Array | None = None
    ) -> tuple[Array, Array, Array, int, int, float]:
        """One step of length h: (q', p', lam, iterations, status, residual). `y` (nq,) guesses q' and ends with the prescribed values;
        `way` (s, nk) gives these after every part of the step, if they do not follow straight lines."""
        if way is None or len(self.parts) == 1:
            return self._core.step(self.options, h, q, p, u, y, lam)  # type: ignore[no-any-return]
        qs, ps, lams, its, _, status, error, halted, *_ = self._core.simulate(
            self.options, q, p, np.array([h]), u[None], way, 1
        )
        if halted:
            raise KeyboardInterrupt
        return qs[-1], ps[-1], lams[-1], int(its[-1]), status, error

    def _adaptive(
        self, h: float, q: Array, p: Array, u: Array, way: Array, adapt: float
    ) -> tuple[Array, Array, Array, int, int, float, Array]:
        """One step of length h in as many substeps as `adapt` asks for, and its checks (5,)."""
        qs, ps, lams, its, _, status, error, halted, checks, *_ = self._core.simulate(
            self.options, q, p, np.array([h]), u[None], way, 1, adapt=adapt, rho_rows=len(way)
        )
        if halted:
            raise KeyboardInterrupt
        return qs[-1], ps[-1], lams[-1], int(its[-1]), status, error, checks[0]

    def _taken(self, state: State) -> tuple[Array, Array]:
        """As `_checked`, in a third of the time for what the core can take as it is."""
        if type(state) is State and type(state.t) is float and math.isfinite(state.t):
            q, p, space = state.q, state.p, self.model.configuration
            plain = _as_is(q, self._q_shape) and _as_is(p, self._p_shape)
            plain = plain and q.flags.c_contiguous and p.flags.c_contiguous and all_finite(q) and all_finite(p)
            if plain and (space.flat or space.is_unit(q)):
                return q, p
        return self._checked(state)

    def _checked(self, state: State) -> tuple[Array, Array]:
        if not isinstance(state, State):
            raise TypeError(f"a State is needed (see MidpointVI.state), not {type(state).__name__}")
        self._check_time(state.t)
        return self.model.configuration.point(state.q, "state.q"), vector(
            state.p, self.model.velocities[: self.model.nd], "state.p"
        )

    def simulate(
        self,
        start: State,
        steps: int | None = None,
        *,
        time: float | None = None,
        u: Any = None,
        kinematic: Any = None,
        events: Sequence[Event] | Event | None = None,
        until: str | Callable[[State], Any] | None = None,
        every: int = 1,
        progress: bool = False,
        accuracy: str = "warn",
        adapt: float | None = None,
        order: None = None,
    ) -> Trajectory:
        """Simulate `steps` steps (or for `time` seconds) from a state.

        `u`: array (N, nu), one row (nu,) held throughout, a function u(t), {input: number, array (N,) or function of t} (others 0), or a
        policy: any callable (t, state) -> u, or (u, kinematic), or one vector of both. Functions may return {input: number} too.
        `kinematic`: array (N, nk) of the values at the END of each step, a function rho(t) evaluated there, or such by name (others stay).
        With arrays (or functions of t) the whole rollout runs in the core; a policy is called once per step, and ends the motion by
        `raise da.Stop("why")`.
        `events`: what to look for (`da.Event`), located inside the steps to rounding; `motion.events` lists what was found. `until`: a condition
        ("bob.z < 0") or a function of a State (true at the end, or a number that passes 0) that ends the motion at the instant where it comes
        true. Functions of the state are called at the end of every step; a passage back and forth within a step is found where the neighbouring
        steps let it be guessed.
        Where the order is above 2, prescribed variables follow rho(t) also within a step, or straight lines between the rows of an array.
        Limits and contacts of the model are heeded: impacts are located inside the steps and listed in `motion.impacts`, contacts that
        come to rest stay closed until they would have to pull.
        `every` stores only each n-th state; `progress` shows a bar in a terminal or a notebook. `order` belongs to the integrator: here it
        is an error.
        Ctrl-C returns what was computed (`interrupted` is then True); in the first half second it is raised as everywhere, so that a loop of
        short calls ends. On failure ConvergenceError carries the trajectory so far.
        `accuracy`: "warn" (an AccuracyWarning when a step is no longer accurate, see `Trajectory.quality`), "raise" (AccuracyError) or "ignore"
        (steps are then judged only when `quality` asks).
        `adapt`: between two output times 2, 4, 8, ... (up to 4096) equal substeps, the first number of them at which energy does not jump by
        more than this share of what moves (1e-3 is a good start; see `quality`). Inputs are held and prescribed values follow straight lines
        between output times; a function rho(t) is followed in 32 pieces. With events or contacts every step is then a call of its own.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.n_link(2), dt=0.05)
        >>> vi.simulate(vi.state(q=[1.0, 0.5]), time=1.0)
        Trajectory of 'n_link_2': 20 steps of order 2, dt = 0.05; t = 0 ... 1
          link-0            1 ... -0.283583   in [-0.283583, 1]
          link-1            0.5 ... -0.0403831   in [-0.0403831, 0.604267]
        """
        refuse_order(order)
        model = self.model
        q, p = self._taken(start)
        n = self._count(steps, time)
        if whole(every, "every") < 1 or n % every:
            raise ValueError(f"every = {every} must divide the number of steps, {n}")
        every, accuracy, tolerance = int(every), check_accuracy(accuracy), _adapt(adapt)
        if events is not None or until is not None or model.gaps:
            motion = thinned(self._hybrid(start, n, u, kinematic, events, until, progress, tolerance), every)
            self._say(motion, accuracy, self._lengths(n), adapt)
            return motion
        policy = u if callable(u) and _takes_state(u) else None
        if policy is not None and every != 1:
            raise ValueError("every= is for rollouts with input arrays, not for policies")
        if every > 1 and n > max(every, PIECE):
            return self._in_pieces(start, n, u, kinematic, every, progress, accuracy, adapt)
        dt = self._lengths(n)
        t = self._times(start.t, dt)
        fractions = self._fractions(tolerance)
        path = inputs = asked = None  # most motions are short: what is not given costs nothing
        if kinematic is not None:
            path = _path(self._prescribed(kinematic, q, n), t, fractions, model.prescribed)
        if policy is None and u is not None:
            inputs = _series(_unnamed(u, model.inputs, np.zeros(model.nu), n, "u"), t[:-1], n, model.nu, "u")
        elif policy is not None:
            asked = (
                policy,
                self._answers(dt, np.ones(1) if path is None else fractions[-path.shape[1] :]),
                self._stepper,
                t,
                start,
            )
        rows = 1 if path is None else path.shape[1]
        judged = accuracy != "ignore" or every > 1 or adapt is not None  # `quality` can judge whole motions later
        given = (self.options, q, p, dt, inputs, path, every)
        options = {"adapt": tolerance, "rho_rows": rows, "judged": judged, "policy": asked}
        begun = clock.perf_counter()
        if progress:
            with shown("simulate", n) as tell:
                found = self._core.simulate(*given, progress=None if tell is None else lambda k: tell(k, ""), **options)
        else:
            found = self._core.simulate(*given, **options)
        qs, ps, lam, its, done, status, error, stop, checks, largest, _, _, u_asked, rho_asked, raised = found
        if asked is not None:
            inputs, path = u_asked, rho_asked.reshape(n, rows, -1) if model.nk else None
            stop = stop or self._interrupted(raised, clock.perf_counter() - begun)
        rows = done // every
        if LOG.isEnabledFor(logging.DEBUG):
            seconds, per_step = clock.perf_counter() - begun, its[:rows].mean() if rows else 0.0
            LOG.debug("%s: %d steps in %.3g s, %.3g iterations a step", model.name, done, seconds, per_step)
        whole_motion = every == 1 and rows == n  # of a part a view would keep all
        traj = Trajectory(
            model,
            t if whole_motion else t[::every][: rows + 1].copy(),
            qs if whole_motion else qs[: rows + 1],
            ps if whole_motion else ps[: rows + 1],
            np.zeros((rows, model.nu)) if inputs is None else inputs[::every][:rows].copy(),
            self._held(q, rows) if path is None else path[every - 1 :: every, -1][:rows].copy(),
            lam if whole_motion else lam[:rows],
            its[:rows].astype(np.int64),
            bool(stop),
            None if adapt is not None else self._thinned(every),
            None if not judged else checks if whole_motion else checks[:rows],
        )
        if isinstance(raised, Stop):
            traj = replace(traj, events=(Occurrence(float(t[done]), str(raised) or "Stop", traj[-1], done),))
        if adapt is not None or not good(largest):  # also of a motion that fails
            self._say(traj, "warn" if status and accuracy == "raise" else accuracy, dt, adapt)
        if status:
            self._fail(status, error, done, float(t[done]), traj[-1], traj)
        return traj

    def _hybrid(
        self, start: State, n: int, u: Any, kinematic: Any, events: Any, until: Any, progress: bool, adapt: float
    ) -> Trajectory:
        """A motion under events; with `adapt` every step is one call."""
        model = self.model
        dt = self._steps(n, None)
        t = self._times(start.t, dt)
        given = self._prescribed(kinematic, start.q, n)
        path = _path(given, t, self._fractions(adapt), model.prescribed)
        follow: Callable[[Array], Array] | None = None
        if callable(given):

            def follow(times: Array) -> Array:
                rows = _series(given, times, len(times), model.nk, "kinematic")
                assert rows is not None
                return model.prescribed.unit(rows, "kinematic")

        if callable(u) and _takes_state(u):

            def policy(now: float, state: State) -> tuple[Array, Array | None]:
                row, rho = _forces_and_kinematic(u(now, state), model, state.q, dt[np.searchsorted(t, now)])
                next_rho = None if rho is None else model.prescribed.point(rho, "kinematic of the policy")
                return vector(row, model.inputs, "u of the policy"), next_rho

            feed = Feed(None, path, policy, follow)
        else:
            inputs = _series(_unnamed(u, model.inputs, np.zeros(model.nu), n, "u"), t[:-1], n, model.nu, "u")
            feed = Feed(inputs, path, None, follow)
        u_none, rho_none, lam_none = (np.zeros((0, width)) for width in (model.nu, model.nk, model.nc))
        none = Trajectory(model, t[:1], start.q[None], start.p[None], u_none, rho_none, lam_none)
        watched = watches(events, until, none)
        return Run(self, start, dt, t, feed, watched, adapt, len(self._fractions(adapt)) if adapt else 1).go(progress)

    def _prescribed(self, kinematic: Any, q: Array, steps: int) -> Any:
        """Kinematic values without names; those that are not named stay as in q."""
        if isinstance(kinematic, Mapping):
            for place in self.model.prescribed.places:
                if place.name in kinematic:
                    raise ValueError(
                        f"kinematic: the ball '{place.name}' is prescribed by rows (N, {self.model.nk}) of all values, or a function "
                        "of t that returns them"
                    )
        return _unnamed(kinematic, self.model.kinematic, q[self.model.nqd :], steps, "kinematic")

    def _say(self, motion: Trajectory, accuracy: str, dt: Array, adapt: float | None) -> None:
        if len(dt):
            say(motion, accuracy, order=self.order, dt=dt, adapt=adapt)

    def _held(self, q: Array, rows: int) -> Array:
        """Prescribed values (rows, nk) that rest."""
        width = len(q) - self.model.nqd
        return np.tile(q[-width:], (rows, 1)) if width else np.empty((rows, 0))

    def _fractions(self, adapt: float) -> Array:
        """Lengths of the pieces of a step between which prescribed values are asked for."""
        return np.full(ADAPT_PIECES, 1 / ADAPT_PIECES) if adapt else self.parts

    def check(self, motion: Trajectory) -> tuple[Array, int]:
        """The checks (N, 5) of the steps of a motion (see `Trajectory.quality`), and how many of its steps this integrator could solve."""
        if not motion.steps:
            return np.zeros((0, 5)), 0
        arrays = (np.ascontiguousarray(x) for x in (motion.q, motion.p, motion.dt, motion.u, motion.rho))
        found, done = self._core.checks(self.options, *arrays)
        return found, done

    def _in_pieces(
        self,
        start: State,
        n: int,
        u: Any,
        kinematic: Any,
        every: int,
        progress: bool,
        accuracy: str,
        adapt: float | None,
    ) -> Trajectory:
        """`simulate` with every > 1 in pieces, so that memory is that of the states which are kept."""
        for given, what in ((u, "u"), (kinematic, "kinematic")):
            if not callable(given) and np.ndim(given) > 1 and len(given) != n:
                raise ValueError(f"{what} has {len(given)} rows, but {n} are needed")
        parts: list[Trajectory] = []
        piece = max(every, PIECE // every * every)
        for first in range(0, n, piece):
            steps = slice(first, min(first + piece, n))
            rows = [_part(a, steps) for a in (u, kinematic)]
            vi = self if isinstance(self.dt, float) else self.with_dt(self.dt[steps])
            here = parts[-1][-1] if parts else start
            try:
                parts.append(
                    vi.simulate(
                        here,
                        steps.stop - first,
                        u=rows[0],
                        kinematic=rows[1],
                        every=every,
                        progress=progress,
                        accuracy="raise" if accuracy == "raise" else "ignore",  # warnings are of the whole motion
                        adapt=adapt,
                    )
                )
            except KeyboardInterrupt:
                if not parts:
                    raise
                return replace(joined(parts), interrupted=True)
            except ConvergenceError as error:
                done = [*parts, error.trajectory] if error.trajectory is not None else parts
                error.step, error.trajectory = first + (error.step or 0), joined(done) if done else None
                raise
            if parts[-1].interrupted:
                break
        motion = joined(parts)
        self._say(motion, accuracy, self._steps(1, None), adapt)
        return motion

    def _thinned(self, every: int) -> Scheme | None:
        """The scheme of a motion of which each n-th state is kept: without dt its steps could not be told from whole ones."""
        return None if every > 1 and not isinstance(self.dt, float) else self.scheme

    def _times(self, start: float, dt: Array) -> Array:
        """Times (N+1,) of the steps dt (N,); multiples of an even step, whose rounding does not add up."""
        even = isinstance(self.dt, float)
        return start + (self.dt * np.arange(len(dt) + 1.0) if even else np.concatenate([[0.0], np.cumsum(dt)]))

    def _steps(self, steps: int | None, time: float | None) -> Array:
        """Lengths (N,) of the steps."""
        return self._lengths(self._count(steps, time))

    def _lengths(self, n: int) -> Array:
        """Lengths (n,) of the first steps."""
        return np.full(n, self.dt) if isinstance(self.dt, float) else self.dt[:n]

    def _count(self, steps: int | None, time: float | None) -> int:
        """Number of steps."""
        if not isinstance(self.dt, float):
            if time is not None:
                raise ValueError("this integrator has varying steps: give steps=, not time=")
            if steps is None:
                return len(self.dt)
            if not 0 <= whole(steps, "steps") <= len(self.dt):
                raise ValueError(f"only {len(self.dt)} steps are defined, not {steps}")
            return int(steps)
        if (steps is None) == (time is None):
            raise ValueError("give either steps= or time=")
        if time is not None:
            duration = floats(time, "time")
            if np.ndim(time) or not (np.isfinite(duration).all() and (duration >= 0).all()):
                raise ValueError(f"time must be a non-negative number, not {time}")
            many = duration.item() / self.dt
            if not many < 2**53:
                raise ValueError(f"time = {time} is {many:.3g} steps of {self.dt:g}: too many")
            steps = round(many)
        if not 0 <= (count := whole(steps, "steps")) < 2**53:
            raise ValueError(f"steps must be a whole number, not negative and below 2^53, not {steps}")
        return count

    def _answers(self, dt: Array, shares: Array) -> Callable[[int, Any, Array], tuple[Array, Array | None]]:
        """What the core takes of a policy's answer at step k from q (nq,): inputs (nu,), and prescribed values (s, nk) after the `shares` (s,) of
        the step, or None where the policy says nothing about them."""
        model, after = self.model, np.cumsum(shares)[:, None]

        def convert(k: int, out: Any, q: Array) -> tuple[Array, Array | None]:
            row, rho = _forces_and_kinematic(out, model, q, float(dt[k]))
            u = vector(row, model.inputs, "u of the policy")
            if rho is None:
                return u, None
            space, before = model.prescribed, q[model.nqd :]
            end = space.point(rho, "kinematic of the policy")
            if len(after) == 1:
                return u, end
            way = space.integrate(before, after * space.difference(before, end))
            way[-1] = end
            return u, way

        return convert

    @staticmethod
    def _interrupted(raised: BaseException | None, seconds: float) -> bool:
        """Whether Ctrl-C has ended a policy and the motion is kept; raises what is not told by a motion."""
        if raised is None or isinstance(raised, Stop):
            return False
        if not isinstance(raised, KeyboardInterrupt) or seconds < 0.5:  # short: perhaps one of many calls
            raise raised
        return True

    def _fail(
        self, status: int, error: float, step: int, time: float, state: State, trajectory: Trajectory | None
    ) -> NoReturn:
        """Raise the right error: what, where, and what to try."""
        model = self.model
        facts: dict[str, Any] = {
            "time": time,
            "step": step,
            "residual": error * self.tolerance,
            "state": state,
            "trajectory": trajectory,
        }
        where = f"at t = {time:g} (step {step})"
        if names := singular_variables(model, state.q):
            raise SingularityError(
                f"the mass matrix is singular in {', '.join(names)} {where}",
                matrix="mass",
                variables=names,
                hint="give these frames a rotational inertia, or avoid this configuration",
                **facts,
            )
        if status == 2 and (undefined := undefined_elements(model, state.q)):
            raise SingularityError(
                f"the step {where} has no finite equations: {'; '.join(f'{label}: {why}' for label, why in undefined.items())}",
                matrix="forces",
                variables=tuple(undefined),
                hint="start from another configuration",
                **facts,
            )
        if names := dependent_constraints(model, state.q):
            raise SingularityError(
                f"the constraints {', '.join(names)} are dependent {where} and no step solves them",
                matrix="constraint",
                variables=names,
                hint="remove a redundant constraint, or change the step so that it does not land on the singularity",
                **facts,
            )
        if status == 4:
            raise ConvergenceError(
                f"step {step} at t = {time:g}: the solutions found turn a joint more than half a turn away from where its momentum "
                "leads, so none is believed",
                hint="the motion is too fast for this dt: take a shorter one",
                **facts,
            )
        reason = "is not finite" if status == 2 else f"stays at {error * self.tolerance:.3g} (relative)"
        raise ConvergenceError(
            f"step {step} at t = {time:g} did not converge: the residual {reason}",
            hint="a shorter dt usually helps; check that kinematic inputs can satisfy the constraints",
            **facts,
        )

    # ---- as a one-step: x = (q, p, v_rho), u = (inputs, next kinematic values)

    @property
    def nx(self) -> int:  # type: ignore[override]
        """Coordinates of a state: nq + nd + nkv."""
        return self.model.nq + self.model.nv

    @property
    def ndx(self) -> int:
        """Tangent components of a state: (dq dynamic, dq kinematic, dp, dv_rho), 2 nv."""
        return 2 * self.model.nv

    @property
    def nu(self) -> int:  # type: ignore[override]
        """Inputs: those of the model, and those of its kinematic variables."""
        return self.model.nu + self.model.nkv

    @property
    def x_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of q, then "p." and "v." with those of the velocities."""
        return (*self.model.variables, *self._rate_names())

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the velocities, then "p." and "v." with these."""
        return (*self.model.velocities, *self._rate_names())

    def _rate_names(self) -> tuple[str, ...]:
        names, nd = self.model.velocities, self.model.nd
        return (*(f"p.{n}" for n in names[:nd]), *(f"v.{n}" for n in names[nd:]))

    @property
    def u_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the inputs, then of the kinematic variables; of a prescribed ball k its angular velocities k.wx, k.wy, k.wz."""
        return (*self.model.inputs, *input_names(self.model.prescribed))

    def difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector at x0 that leads to x1."""
        x0, x1 = finite(x0, "x0"), finite(x1, "x1")
        if self.model.configuration.flat:
            return np.subtract(x1, x0)
        x0, x1 = np.broadcast_arrays(x0, x1)
        n = self.model.nq
        return np.concatenate([self.model.difference(x0[..., :n], x1[..., :n]), x1[..., n:] - x0[..., n:]], axis=-1)

    def retract(self, x: Array, dx: Array) -> Array:
        """The state to which dx leads from x."""
        x, dx = finite(x, "x"), finite(dx, "dx")
        if self.model.configuration.flat:
            return np.add(x, dx)
        nq, nv = self.model.nq, self.model.nv
        rest = np.add(x[..., nq:], dx[..., nv:])
        q = self.model.integrate(x[..., :nq], dx[..., :nv])
        return np.concatenate([q, rest], axis=-1)

    def difference_jacobian(self, x0: Array, x1: Array) -> Array | None:
        """Derivative of difference(x0, retract(x1, dx)) by dx at 0, or None for the identity."""
        n = self.model.nq
        return self._beside(self.model.configuration.difference_jacobian(x0[..., :n], x1[..., :n]))

    def retract_jacobian(self, x: Array) -> Array | None:
        """Derivative of retract(x, dx) by dx at 0, or None for the identity."""
        return self._beside(self.model.configuration.integrate_jacobian(x[..., : self.model.nq]))

    def _beside(self, block: Array | None) -> Array | None:
        """diag(block, 1), of q and of the rest."""
        if block is None:
            return None
        rows, columns, n = block.shape[-2], block.shape[-1], self.model.nv
        out = np.zeros((*block.shape[:-2], rows + n, columns + n))
        out[..., :rows, :columns] = block
        out[..., rows:, columns:] = np.eye(n)
        return out

    def neutral(self) -> Array:
        """The neutral configuration at rest."""
        return np.concatenate([self.model.neutral(), np.zeros(self.model.nv)])

    def tangent(self, X: Array, tolerance: float = 1e-10) -> Tangent | None:
        """Directions along the constraints at states X (n, nx), rank decided by `tolerance`; None without constraints."""
        return tangent(self.model, X, tolerance)

    def settle(self, x: Array) -> Array:
        """The state (nx,) on the constraints nearest to x, its momentum L_v of a velocity along them."""
        return settled(self.model, x) if self.model.nc else x

    def nearby(self, x: Array, away: Array) -> Array:
        """States (m, nx) on the constraints, from x (nx,) on them and tangent vectors `away` (m, ndx) along them."""
        return nearby(self.model, x, away) if self.model.nc else self.retract(x, away)

    def free_difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector at x0 that leads to x1 once both momenta have the same part across the constraints, which no step feels."""
        return self.difference(x0, in_gauge_of(self.model, x0, x1) if self.model.nc else x1)

    def advance(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> tuple[Array, Array, Array]:
        """(x', A, B) of step k, which is solved once."""
        found: tuple[Array, Array, Array] | None = self._at_once(x, u, True)
        if found is not None:
            return found
        step, y, w = self._at(k, x, u)
        return step.advance(y, w, 0)

    @property
    def constrained(self) -> bool:
        """Whether the model has constraints."""
        return self.model.nc > 0

    def violation(self, x: Array) -> float:
        """Largest |h(q)| of the constraints."""
        return float(np.abs(constraints(self.model, x[: self.model.nq])).max()) if self.model.nh else 0.0

    def lengths(self, steps: int) -> Array:
        """Lengths (N,) of the first N steps (s)."""
        return np.full(steps, self.dt) if isinstance(self.dt, float) else self.dt[:steps]

    def with_model(self, model: Model) -> MidpointVI:
        """The same integrator of another model (with other values of its parameters, say).

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.pendulum(), dt=0.1, order=4)
        >>> vi.with_model(da.models.n_link(2)).order
        4
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.model = model
        other._make_options()
        return other

    def with_dt(self, dt: Array) -> MidpointVI:
        """The same integrator with steps of the lengths dt (N,)."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.dt = dt
        return other

    def of_order_two(self, dt: Array) -> MidpointVI:
        """The midpoint steps that this integrator is composed of, of the lengths dt (N,)."""
        other = self.with_dt(dt)
        other.order, other.parts = 2, composition(2)
        other._make_options()
        return other

    def within(self, x: Array, u: Array, share: float) -> Array:
        """The input (nu,) of the first `share` of a step: prescribed variables follow straight lines."""
        m = self.model
        if not m.nk:
            return u
        part = u.copy()
        q, v = m.prescribed.numbers  # a ball keeps its angular velocity
        before = x[m.nqd : m.nq][q]
        part[m.nu + v] = before + share * (u[m.nu + v] - before)
        return part

    def compiled(self) -> Any:
        """What takes single steps in the core, for filters; None where balls are prescribed, whose inputs are turned into coordinates before."""
        own = (
            type(self).f is MidpointVI.f and type(self).advance is MidpointVI.advance
        )  # a child may have steps of its own
        return self._stepper if own and self._plain_inputs else None

    def over(self, t: Array) -> MidpointSteps:
        """Steps between the times t (N+1,), in the core."""
        return steps_of(self, t)

    def _at(self, k: int, x: ArrayLike, u: ArrayLike) -> tuple[MidpointSteps, Array, Array]:
        """Step k alone, and its arguments checked."""
        k = whole(k, "k")
        if abs(k) > 1 << 53:
            raise ValueError("k is the number of a step, and this one no time can tell from the next")
        if isinstance(self.dt, float):
            h, t = self.dt, k * self.dt
        else:
            h, t = float(self.dt[k]), float(self.dt[:k].sum())
        alone = steps_of(self.with_dt(np.array([h])), np.array([t, t + h]))
        return alone, matrix(x, (self.nx,), "x"), matrix(u, (self.nu,), "u")

    def f(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> Array:
        """The state (nx,) after step k from x (nx,) with the input u (nu,)."""
        new: Array | None = self._at_once(x, u, False)
        if new is not None:
            return new
        step, y, w = self._at(k, x, u)
        return step.f(y, w, 0)

    def _at_once(self, x: object, u: object, derive: bool) -> Any:
        """x', or with `derive` (x', A, B), of arrays as the core takes them; None where something has to be converted, or is wrong, which is
        then found out."""
        h = self.dt
        return self._stepper.advance(x, u, h, None, derive) if type(h) is float and self._plain_inputs else None

    def f_batch(self, X: Array, u: ArrayLike, k: int = 0) -> Array:
        """f of many states X (n, nx), side by side in the core."""
        step, _, w = self._at(k, self.neutral(), u)
        return step.f_batch(matrix(X, (-1, self.nx), "X"), w, 0)

    def linearize(
        self,
        x: State | ArrayLike,
        u: Named | None = None,
        k: int = 0,
        *,
        kinematic: Named | None = None,
        dt: float | None = None,
    ) -> tuple[Array, Array]:
        """Exact A (ndx, ndx), B (ndx, nu) of the step x' = f(x, u) with x = (q, p, v_rho), u = (inputs, next kinematic values; of a prescribed ball
        its angular velocity during the step, along body axes).

        `x` is a State (then `u` are the inputs alone, and `kinematic` the next kinematic values, by default unchanged), or a state vector (nx,)
        with the whole u (nu,) at step k. `dt`: another length of the step.
        """
        h = self.dt
        if dt is None and kinematic is None and type(h) is float and self._plain_inputs:
            found: tuple[Array, Array] | None = self._stepper.linearize(x, u, h)  # None: as in `step`
            if found is not None:
                return found
        if isinstance(x, State):
            q, p = self._taken(x)
            rho = q[self.model.nqd :]
            if kinematic is not None:
                rho = self.model.prescribed.point(kinematic, "kinematic")
            inputs, h = self._no_u if u is None else vector(u, self.model.inputs, "u"), self._length(dt)
            y = np.concatenate([q, p, np.zeros(self.model.nkv)])
            w = np.concatenate([inputs, inputs_between(self.model.prescribed, q[self.model.nqd :], rho, h)])
            step = steps_of(self.with_dt(np.array([h])), np.array([x.t, x.t + h]))
        else:
            if kinematic is not None:
                raise ValueError("kinematic values belong to a State; the u of a state vector ends with them")
            one = self if dt is None else self.with_dt(np.full(k + 1, self._length(dt)))
            step, y, w = one._at(k, x, np.zeros(self.nu) if u is None else vector(u, self.u_names, "u"))
        return step.linearize(y, w, 0)

    def adjoint(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array]:
        """A'z (ndx,), B'z (nu,) without A and B."""
        h = self.dt
        if type(h) is float and self._plain_inputs:
            found: tuple[Array, Array] | None = self._stepper.pull(x, u, h, z)  # None: as in `step`
            if found is not None:
                not_overflown(z, *found)
                return found
        step, y, w = self._at(k, x, u)
        return step.adjoint(y, w, 0, matrix(z, (self.ndx,), "z"))

    def push(self, x: ArrayLike, u: ArrayLike, k: int, dx: ArrayLike, du: ArrayLike) -> Array:
        """A dx + B du (ndx,) without A and B, for changes dx (ndx,) of the state and du (nu,) of the input at step k: O(n) for trees, and for
        closed chains whose loops are local.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.n_link(3), dt=0.01)
        >>> x, u, dx = vi.neutral(), np.zeros(vi.nu), np.ones(vi.ndx)
        >>> bool(np.allclose(vi.push(x, u, 0, dx, u), vi.linearize(x, u)[0] @ dx))
        True
        """
        h = self.dt
        if type(h) is float and self._plain_inputs:
            found: Array | None = self._stepper.push(x, u, h, dx, du)
            if found is not None:
                not_overflown(np.concatenate([dx, du]), found)
                return found
        step, y, w = self._at(k, x, u)
        return step.push(y, w, 0, matrix(dx, (self.ndx,), "dx"), matrix(du, (self.nu,), "du"))

    def second_order(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array, Array]:
        """Exact second derivatives of z . f: xx (ndx, ndx), xu (ndx, nu), uu (nu, nu)."""
        step, y, w = self._at(k, x, u)
        return step.second_order(y, w, 0, matrix(z, (self.ndx,), "z"))

    def discrete_lagrangian(
        self, q0: Named, q1: Named, u: Named | None = None, *, dt: float | None = None
    ) -> DiscreteLagrangian:
        """Ld(q0, q1), F-, F+ and M of a step between two configurations (nq,) under inputs u (nu,), with their derivatives by slot.

        Of a midpoint step: a step of order 4 or 6 is composed of several, each with its own.

        >>> import dalembert as da
        >>> torque = da.ConfigForce("theta", "torque")
        >>> pendulum = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), torque])
        >>> vi = da.MidpointVI(pendulum, dt=0.1, forcing="left")
        >>> s = vi.step(vi.state(q=[0.2], p=[0.5]), u=[0.8])
        >>> Ld = vi.discrete_lagrangian([0.2], s.q, u=[0.8])
        >>> round(float(Ld.D1D1[0, 0]), 4), round(float(Ld.M[0, 0]), 4), bool(abs(Ld.D2 + Ld.F_plus - s.p) < 1e-12)
        (9.7611, -10.2389, True)
        """
        if self.order != 2:
            raise ValueError(
                f"discrete Lagrangians are those of midpoint steps, and a step of order {self.order} is none: ask MidpointVI(model, dt)"
            )
        return discrete_lagrangian(self.model, q0, q1, u, self._length(dt), self.alpha, FORCING[self.forcing])

    def condition(
        self, state: State, u: Named | None = None, kinematic: Named | None = None, *, dt: float | None = None
    ) -> Condition:
        """How near the step from a state is to a singularity of the mass matrix, of the constraints or of the step itself (section VII of Structured
        linearization), by singular values relative to a regular mechanism, with the names of what is singular. u and
        `kinematic` as for `step`, `dt`: another length of the step.

        >>> import dalembert as da
        >>> pendulum = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0))])
        >>> vi = da.MidpointVI(pendulum, dt=0.01)
        >>> up = vi.state(q=[np.pi])
        >>> [round(vi.condition(up, dt=dt).step, 3) for dt in (0.01, 0.6, 0.63, 0.638)]
        [1.0, 8.475, 36.238, 364.671]
        """
        self._checked(state)
        return condition(self, state, u, kinematic, dt)


def _adapt(adapt: float | None) -> float:
    """The tolerance of steps that adapt, 0 for even ones."""
    if adapt is None:
        return 0.0
    tolerance = floats(adapt, "adapt")
    if np.ndim(adapt) or not 0 < tolerance.item() < 1:
        raise ValueError(f"adapt must be between 0 and 1 (1e-3, say), not {adapt}")
    return tolerance.item()


def refuse_order(order: object) -> None:
    """Say where the order belongs."""
    if order is not None:
        raise TypeError(f"order belongs to the integrator: MidpointVI(model, dt, order={order!r})")


def _takes_state(f: Callable[..., Any]) -> bool:
    """Policies take (t, state); plain input functions take t."""
    import inspect

    try:
        parameters = [
            a
            for a in inspect.signature(f).parameters.values()
            if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD) and a.default is a.empty
        ]
    except (TypeError, ValueError):
        return True
    return len(parameters) >= 2


def _forces_and_kinematic(out: Any, model: Model, q: Array, dt: float) -> tuple[Any, Any]:
    """What a policy returns at q (nq,): forces, a pair (forces, next kinematic values), or both in one vector, also as a System has it."""
    if isinstance(out, tuple):
        forces, kinematic = out
        return forces, kinematic
    if model.nk and not isinstance(out, Mapping) and np.shape(out) == (model.nu + model.nk,):
        return out[: model.nu], out[model.nu :]
    if not model.prescribed.flat and not isinstance(out, Mapping) and np.shape(out) == (model.nu + model.nkv,):
        w = finite(out, "u of the policy")
        return w[: model.nu], coordinates_after(model.prescribed, q[model.nqd :], w[model.nu :], dt)
    return out, None


def _path(kinematic: Any, t: Array, parts: Array, prescribed: Configuration) -> Array | None:
    """Prescribed values (N, s, nk) between the times t (N+1,): after every part of a step from a function, else (s = 1) at its end."""
    if kinematic is None:
        return None
    n, stages = len(t) - 1, len(parts)
    times: Array = t[1:]
    if not callable(kinematic):
        stages = 1
    elif stages > 1:
        times = t[:-1, None] + np.cumsum(parts) * np.diff(t)[:, None]
        times[:, -1] = t[1:]
    rows = _series(kinematic, times.ravel(), n * stages, prescribed.nq, "kinematic")
    return None if rows is None else prescribed.unit(rows, "kinematic").reshape(n, stages, prescribed.nq)


def _part(value: Any, steps: slice) -> Any:
    """What is given for some of the steps: rows of an array, entries of arrays by name; anything else is for all of them."""
    if isinstance(value, Mapping):
        return {name: x[steps] if not callable(x) and np.ndim(x) else x for name, x in value.items()}
    return value if callable(value) or np.ndim(value) < 2 else value[steps]


def _unnamed(value: Any, names: tuple[str, ...], rest: Array, steps: int, what: str) -> Any:
    """{name: number, array (steps,) or function of t} as a function or array of all, where `rest` are the values of the others."""
    if value is None or type(value) is np.ndarray:
        return value
    others = dict(zip(names, rest, strict=True))

    def row(entries: Mapping[str, float]) -> Array:
        return vector({**others, **entries}, names, what)

    if callable(value):
        return lambda t: row(out) if isinstance(out := value(t), Mapping) else out
    if not isinstance(value, Mapping):
        return value
    moving = {name: f for name, f in value.items() if callable(f)}
    still = {name: x for name, x in value.items() if name not in moving}
    fixed = row({name: 0.0 if np.ndim(x) else x for name, x in still.items()} | dict.fromkeys(moving, 0.0))
    series = {name: finite(x, f"{what}['{name}']", (steps,)) for name, x in still.items() if np.ndim(x)}
    if moving and series:
        raise ValueError(
            f"{what}: {next(iter(series))!r} is an array and {next(iter(moving))!r} a function; give one sort"
        )
    index = {name: i for i, name in enumerate(names)}
    if moving:

        def at(t: float) -> Array:
            out = fixed.copy()
            for name, f in moving.items():
                out[index[name]] = finite(f(t), f"{what}['{name}'](t)", ()).item()
            return out

        return at
    out = np.tile(fixed, (steps, 1))
    for name, column in series.items():
        out[:, index[name]] = column
    return out


def _series(value: Any, t: Array, steps: int, width: int, what: str) -> Array | None:
    """Inputs as (steps, width): None stays None; a function is sampled at t; one row is repeated."""
    if value is None:
        return None
    if callable(value):
        if not width:
            raise ValueError(f"{what} is given, but the model has none")
        rows = [floats(value(x), f"{what}(t)") for x in t]
        for row, x in zip(rows, t, strict=True):
            if row.shape not in ((), (1,), (width,)):
                raise ValueError(f"{what}(t) has shape {row.shape} at t = {x:g}, but ({width},) is needed")
        value = np.array([np.broadcast_to(row, (width,)) for row in rows]).reshape(steps, width)
    out = floats(value, what)
    if out.ndim == 1 and out.shape == (width,) and not (width == steps == 1):
        out = np.tile(out, (steps, 1))
    elif out.ndim == 1 and width == 1 and out.shape == (steps,):
        out = out[:, None]
    return matrix(out, (steps, width), what)
