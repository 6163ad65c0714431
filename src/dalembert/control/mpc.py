"""Predictive control: at every sample the plan is moved on by a step and improved by one LQ problem around it (real-time iterations).

Diehl, Bock, Schloeder, A real-time iteration scheme for nonlinear optimization in optimal feedback control. The work of a call is always the same:
all steps of the plan with A and B, one Riccati sweep, no search. For `MidpointVI` with a quadratic cost it is done in the core (`cpp/mpc.hpp`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from ..arrays import Array, finite, matrix, number, whole
from ..errors import DalembertError
from ..integrate import OneStep, State
from ..system import System
from .feedback import Feedback

Bounds = Mapping[str, tuple[float | None, float | None]]


class Cost(Protocol):
    """What `MPC` asks of a cost: see `dalembert.optimization`."""

    def bind(self, system: Any) -> Any:
        """Numbers for a horizon: values, gradient and hessian, and `quadratic` where it is one."""


class MPC:
    """Predictive control of `system` with `cost` over `horizon` steps: `u = mpc.step(x)` once per step of the system.

    system: a one-step (MidpointVI, ...) or a System, whose step length holds for the whole horizon. cost: `TrackingCost`, `TerminalCost`,
        `ExpressionCost` or a sum, over the horizon (the last state of the horizon has the final weight).
    bounds: {name: (low, high)} on inputs, which are kept exactly. They are kept away from by a barrier `smoothing` (in units of the cost; default a
        thousandth of what half the range of an input costs): a plan uses an input fully only where that pays.
    start: (X (N+1, nx), U (N, nu)) or a result of `optimize`, the first plan; by default rest at the first state with the inputs of the reference.
    iterations: LQ problems per call (default 1). budget: seconds per call, within which up to 20 iterations are made, at least one.

    A call with (t, x) or (t, State) is a policy for `simulate`. `feedback` is the law of the present plan, for samples between the calls;
    `prepare()` after a call does all of the next call's work that does not need its state. `latencies` (s) of the calls so far, `failures`: calls for
    which no plan could be made; their input is that of the last plan's feedback, within the bounds.

    >>> import dalembert as da
    >>> model = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> vi = da.MidpointVI(model, 0.05)
    >>> cost = da.TrackingCost({"theta": 0.5, "torque": 4.7}, Q={"theta": 100.0, "p.theta": 1.0}, R=0.1)
    >>> mpc = da.MPC(vi, cost, horizon=20, bounds={"torque": (-8, 8)})
    >>> system = da.System(vi, steps=60)
    >>> X = system.simulate([0.0, 0.0], mpc)
    >>> bool(abs(X[-1, 0] - 0.5) < 0.01), mpc.failures
    (True, 0)
    """

    def __init__(
        self,
        system: OneStep,
        cost: Cost,
        horizon: int,
        bounds: Bounds | None = None,
        *,
        start: Any = None,
        iterations: int = 1,
        budget: float | None = None,
        smoothing: float | None = None,
    ) -> None:
        if whole(horizon, "horizon") < 1:
            raise ValueError(f"horizon must be at least one step, not {horizon}")
        if whole(iterations, "iterations") < 1:
            raise ValueError(f"iterations must be at least 1, not {iterations}")
        if budget is not None and not number(budget, "budget") > 0:
            raise ValueError(f"budget must be a positive time (s), not {budget}")
        one_step = system.one_step if isinstance(system, System) else system
        self.system = System(one_step, steps=int(horizon))
        self.bounds = dict(bounds or {})
        self.iterations, self.budget = (iterations if budget is None else 20), budget
        self.latencies: deque[float] = deque(maxlen=100_000)
        self.failures = 0
        bound: Any = cost
        if hasattr(bound, "bind"):
            bound = bound.bind(self.system)
        elif not hasattr(bound, "hessian"):
            raise TypeError(f"cost must be a cost (da.TrackingCost, ...), not {type(cost).__name__}")
        self._cost: Any = bound
        self.low, self.high = self._limits()
        quadratic: Any = bound.quadratic() if hasattr(bound, "quadratic") else None
        X = np.tile(self.system.neutral(), (self.system.steps + 1, 1))
        U = np.zeros((self.system.steps, self.system.nu))
        R = quadratic[4] if quadratic is not None else bound.hessian(X, U)[2]
        mu = self._smoothing(R) if smoothing is None else number(smoothing, "smoothing")
        if not mu > 0:
            raise ValueError(f"smoothing must be positive, not {smoothing}")
        self._plan: Any = None
        self._rest = U
        if quadratic is not None:
            Xd, self._rest, Q, Qf, R = quadratic
            self._plan = self.system.plan(Q, Qf, R, self.low, self.high, mu)
        if self._plan is None:
            self._plan = _Plan(self.system, bound, self.low, self.high, mu)
        else:
            self._plan.aim(Xd, self._rest)
        self._begun = False
        self._prepared = False
        if start is not None:
            X, U = (start.X, start.U) if hasattr(start, "X") else start
            self.reset(X, U)

    def _limits(self) -> tuple[Array, Array]:
        names = list(self.system.u_names)
        low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
        for name, pair in self.bounds.items():
            motor = str(name).removeprefix("u.")  # as optimize calls a motor named like its joint
            if name not in names and motor in names:
                name = motor
            if name not in names:
                hint = f"known are {', '.join(names)}"
                if name in self.system.x_names:
                    hint = "it is a state: give the cost a wall near its limit (an ExpressionCost), or plan with optimize(bounds=...)"
                raise ValueError(f"bounds: MPC bounds inputs, and {name!r} is none; {hint}")
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(f"bounds of {name!r} must be a pair (low, high) with None for no bound")
            i = names.index(name)
            low[i] = -np.inf if pair[0] is None else number(pair[0], f"low bound of {name!r}")
            high[i] = np.inf if pair[1] is None else number(pair[1], f"high bound of {name!r}")
            if not low[i] < high[i]:
                raise ValueError(f"bounds of {name!r}: low {low[i]} is not below high {high[i]}")
        return low, high

    def _smoothing(self, R: Array) -> float:
        width = self.high - self.low
        one_sided = 2 * np.maximum(1.0, np.abs(np.where(np.isfinite(self.low), self.low, self.high)))
        half = np.where(np.isfinite(width), width, one_sided) / 2
        weights = np.diagonal(R, axis1=-2, axis2=-1).reshape(-1, len(half)).max(0)
        bounded = np.isfinite(self.low) | np.isfinite(self.high)
        sizes = (weights * half**2)[bounded & (weights > 0)]
        return 1e-3 * float(sizes.min()) if len(sizes) else 1e-6

    # ---- plans

    def reset(self, X: ArrayLike, U: ArrayLike) -> None:
        """Start from a plan X (N+1, nx), U (N, nu); longer ones are cut."""
        N = self.system.steps
        states, ins = finite(X, "X", (None, self.system.nx)), finite(U, "U", (None, self.system.nu))
        if len(ins) < N or len(states) < N + 1:
            raise ValueError(f"the plan has {len(ins)} steps, the horizon {N}")
        self._plan.begin(np.ascontiguousarray(states[: N + 1]), np.ascontiguousarray(ins[:N]))
        self._begun, self._prepared = True, False

    @property
    def X(self) -> Array:
        """States (N+1, nx) of the present plan."""
        return np.asarray(self._plan.X)

    @property
    def U(self) -> Array:
        """Inputs (N, nu) of the present plan."""
        return np.asarray(self._plan.U)

    @property
    def feedback(self) -> Feedback:
        """The law of the present plan, t = 0 at its first state; inputs saturate at the bounds."""
        bounded = bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())
        return Feedback(
            np.asarray(self._plan.K), self.X, self.U, self.system.t, difference=self.system.difference,
            low=self.low if bounded else None, high=self.high if bounded else None,
        )  # fmt: skip

    # ---- calls

    def step(self, x: ArrayLike, *, reference: tuple[ArrayLike, ArrayLike] | None = None) -> Array:
        """The input (nu,) for the state x (nx,); the plan moves on. `reference` (Xd (N+1, nx), Ud (N, nu)): what a quadratic cost tracks from now."""
        begun = time.perf_counter()
        state = finite(x, "x", (self.system.nx,))
        if reference is not None:
            self._aim(*reference)
        if not self._begun:
            self._first(state)
        u = self._improve(state, begun)
        self.latencies.append(time.perf_counter() - begun)
        return u

    def _improve(self, x: Array, begun: float) -> Array:
        u, good = None, False
        for count in range(self.iterations):
            if not self._prepared and self._plan.prepare(self._begun and count == 0) != 0:
                break
            self._prepared = False
            found, good = self._plan.respond(x)
            if not good:
                break
            u = found
            each = (time.perf_counter() - begun) / (count + 1)
            if self.budget is not None and (count + 2) * each > self.budget:
                break
        return self._rescue(x) if u is None else u

    def prepare(self) -> None:
        """Do the next call's work that does not need its state; `step` is then quick."""
        if self._begun and not self._prepared:
            self._prepared = self._plan.prepare(True) == 0

    def __call__(self, t: float, state: State | Array) -> Array:
        """As a policy of `simulate` or `System.simulate`, once per step."""
        if not isinstance(state, State):
            return self.step(state)
        known = np.concatenate([state.q, state.p])
        rest = self.system.nx - len(known)
        rate = np.zeros(rest) if state.v_rho is None else state.v_rho
        return self.step(np.concatenate([known, rate]))

    def _aim(self, X: ArrayLike, U: ArrayLike) -> None:
        if not hasattr(self._plan, "aim"):
            raise ValueError(
                "reference: the cost is not quadratic, or the system has no core; give parameters to the cost"
            )
        N = self.system.steps
        self._plan.aim(matrix(X, (N + 1, self.system.nx), "Xd"), matrix(U, (N, self.system.nu), "Ud"))
        self._prepared = False

    def _first(self, x: Array) -> None:
        """The first plan: the motion under the inputs of the reference, or rest; a few iterations from there."""
        U = np.clip(self._rest, self.low, self.high)
        try:
            X = self.system.simulate(x, U)
        except DalembertError:
            X = np.tile(x, (len(U) + 1, 1))
        self._plan.begin(X, U)
        for _ in range(20):
            if self._plan.prepare(False) != 0 or not self._plan.respond(x)[1]:
                self._plan.begin(X, U)
                break
            if self._plan.change < 1e-6 * (1.0 + float(np.abs(self._plan.U).max())):
                break
        self._begun = True

    def _rescue(self, x: Array) -> Array:
        """No plan: from x anew under the old inputs, else under the reference's; else the last feedback within the bounds."""
        self._prepared = False
        law = self.feedback
        last = np.clip(law.input(0, x), self.low, self.high)
        last = np.where(np.isfinite(last), last, np.clip(self._rest[0], self.low, self.high))
        for ins in (self.U, self._rest):
            U = np.clip(np.where(np.isfinite(ins), ins, 0.0), self.low, self.high)
            try:
                X = self.system.simulate(x, U)
            except DalembertError:
                continue
            self._plan.begin(X, U)
            if self._plan.prepare(False) == 0:
                u, good = self._plan.respond(x)
                if good:
                    return np.asarray(u)
        self.failures += 1
        self._plan.begin(np.tile(x, (self.system.steps + 1, 1)), np.clip(self._rest, self.low, self.high))
        return np.asarray(last)


class _Plan:
    """The same as `_core.Plan`, for any one-step and any cost."""

    def __init__(self, system: System, cost: Any, low: Array, high: Array, mu: float) -> None:
        self.system, self.cost, self.low, self.high, self.mu = system, cost, low, high, mu
        self.X, self.U = np.tile(system.neutral(), (system.steps + 1, 1)), np.zeros((system.steps, system.nu))
        self.K = np.zeros((system.steps, system.nu, system.ndx))
        self.change = self.gap = 0.0
        self._lower, self._upper = np.isfinite(low), np.isfinite(high)

    def begin(self, X: Array, U: Array) -> None:
        pad = 1e-2 * np.where(np.isfinite(self.high - self.low), self.high - self.low, 1.0)
        self.X, self.U = X.copy(), np.clip(U, self.low + pad, self.high - pad)
        below, above = self._room()
        self._z = np.where(self._lower, self.mu / below, 0.0), np.where(self._upper, self.mu / above, 0.0)

    def _room(self) -> tuple[Array, Array]:
        return np.where(self._lower, self.U - self.low, 1.0), np.where(self._upper, self.high - self.U, 1.0)

    def prepare(self, shift: bool) -> int:
        if shift:
            self.X = np.concatenate([self.X[1:], self.X[-1:]])
            self.U = np.concatenate([self.U[1:], self.U[-1:]])
            self._z = tuple(np.concatenate([z[1:], z[-1:]]) for z in self._z)  # type: ignore[assignment]
        try:
            ends, A, B = self.system.shoot(self.X, self.U, derive=True)
        except DalembertError:
            return 1
        assert A is not None
        assert B is not None
        self._c = self.system.difference(self.X[1:], ends)
        turn = self.system.difference_jacobian(self.X[1:], ends)
        self._A, self._B = (A, B) if turn is None else (turn @ A, turn @ B)
        self.gap = float(np.abs(self._c).max())
        q, r = self.cost.gradient(self.X, self.U)
        Q, S, R = self.cost.hessian(self.X, self.U)
        below, above = self._room()
        r = r - np.where(self._lower, self.mu / below, 0.0) + np.where(self._upper, self.mu / above, 0.0)
        R = R.copy()
        i = np.arange(self.system.nu)
        R[:, i, i] += self._z[0] / below + self._z[1] / above
        self.K, self._k, _, _, status = _core.riccati(
            self._A, self._B, Q[:-1], R, Q[-1], len(R), S=S, q=q[:-1], r=r, qf=q[-1], c=self._c, cost_to_go=False
        )
        return 0 if status["failed_step"] < 0 else -1

    def respond(self, x: Array) -> tuple[Array, bool]:
        below, above = self._room()
        least = np.where(self._lower, -0.99 * below, -np.inf)
        most = np.where(self._upper, 0.99 * above, np.inf)
        dX, dU = np.zeros((len(self.X), self.system.ndx)), np.zeros_like(self.U)
        dX[0] = self.system.difference(self.X[0], x)
        for k in range(len(dU)):
            dU[k] = np.clip(-self._k[k] - self.K[k] @ dX[k], least[k], most[k])
            dX[k + 1] = self._A[k] @ dX[k] + self._B[k] @ dU[k] + self._c[k]
        if not np.isfinite(dX).all():
            return self.U[0], False
        steps = (below, dU, self._z[0], self._lower), (above, -dU, self._z[1], self._upper)
        self._z = tuple(  # type: ignore[assignment]
            np.where(
                on, np.clip(self.mu / room - z / room * d, 1e-2 * self.mu / (room + d), 1e2 * self.mu / (room + d)), 0.0
            )
            for room, d, z, on in steps
        )
        self.change = float(np.abs(dU).max())
        self.U = self.U + dU
        self.X = self.system.retract(self.X, dX)
        self.X[0] = x
        return self.U[0].copy(), True
