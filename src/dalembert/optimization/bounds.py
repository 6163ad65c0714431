"""Box bounds on inputs and states: a barrier that is finite everywhere, or an augmented Lagrangian.

Barrier: Hauser, Saccon, A barrier function method for the optimization of trajectory functionals with constraints:
for a scaled distance c to the bound the cost is -eps log(c) for c > delta, continued by a parabola below, so that a
motion outside costs much but not infinitely much; eps and delta fall in stages. Lagrangian: Powell, Hestenes,
Rockafellar, on every bound and step. Both are diagonal in (x, u).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..system import System
from .constraints import bound_of
from .costs import BoundCost, Hessian, of_coordinates
from .descent import Discrete
from .result import Iteration, Optimization

if TYPE_CHECKING:
    from .continuous import ContinuousSystem


class BoxCost:
    """Cost of box bounds on coordinates and inputs; `low` and `high` are (nx + nu,), infinite where there is none. Derivatives are by coordinates.

    The initial state is left out (it is given), the final state is included.
    """

    def __init__(self, low: Array, high: Array, nx: int, kind: str, steps: int) -> None:
        self._nx, self._kind = nx, kind
        # every bound is a row: sign * (limit - value) / scale >= 0
        sides = [(low, -1.0), (high, 1.0)]
        self._column = np.concatenate([np.flatnonzero(np.isfinite(limit)) for limit, _ in sides])
        self._sign = np.concatenate([np.full(int(np.isfinite(limit).sum()), sign) for limit, sign in sides])
        self._limit = np.concatenate([limit[np.isfinite(limit)] for limit, _ in sides])
        width = high - low
        scale = np.where(np.isfinite(width), width / 2, np.maximum(1.0, np.abs(np.where(np.isfinite(low), low, high))))
        self.scale = scale[self._column]
        self.eps, self.delta = 1.0, 0.5
        self.weight = 1.0
        self.multipliers = np.zeros((steps + 1, len(self._column)))

    # ---- as a bound cost

    def values(self, X: Array, U: Array) -> Array:
        return self._sum(self._phi(self.room(X, U))[0])

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        d = self._phi(self.room(X, U))[1] * (-self._sign / self.scale)
        g = self._gather(d, X, U)
        return np.ascontiguousarray(g[:, : self._nx]), np.ascontiguousarray(g[:-1, self._nx :])

    def hessian(self, X: Array, U: Array) -> Hessian:
        n, m, N = self._nx, U.shape[1], len(U)
        dd = self._gather(self._phi(self.room(X, U))[2] / self.scale**2, X, U)
        Q, R = np.zeros((N + 1, n, n)), np.zeros((N, m, m))
        i, j = np.arange(n), np.arange(m)
        Q[:, i, i] = dd[:, :n]
        R[:, j, j] = dd[:-1, n:]
        return Q, None, R

    # ---- the bounds

    def room(self, X: Array, U: Array) -> Array:
        """Scaled distance to every bound, (N+1, rows), negative outside; infinite where a bound does not apply."""
        Z = np.hstack([X, np.vstack([U, np.zeros(U.shape[1])])])
        c = self._sign * (self._limit - Z[:, self._column]) / self.scale
        c[-1, self._column >= self._nx] = math.inf  # there is no input at the end
        c[0, self._column < self._nx] = math.inf  # nothing can be done about the initial state
        return c

    def violation(self, X: Array, U: Array) -> float:
        """Largest violation relative to half the range (or to the size of a one-sided bound), 0 if inside."""
        return max(0.0, -float(self.room(X, U).min()))

    def update_multipliers(self, X: Array, U: Array) -> None:
        """First-order update of the augmented Lagrangian."""
        c = self.room(X, U)
        self.multipliers = np.where(np.isfinite(c), np.maximum(0.0, self.multipliers - self.weight * c), 0.0)

    def _phi(self, c: Array) -> tuple[Array, Array, Array]:
        """The penalty of the scaled distance c and its two derivatives."""
        outside = np.isinf(c)
        c = np.where(outside, 1.0, c)
        if self._kind == "barrier":
            e, d = self.eps, self.delta
            inside = c > d
            safe = np.where(inside, c, d)
            w = (c - 2 * d) / d
            v = np.where(inside, -np.log(safe), 0.5 * (w * w - 1.0) - math.log(d))
            g = np.where(inside, -1.0 / safe, w / d)
            h = np.where(inside, 1.0 / safe**2, 1.0 / d**2)
            out = e * v, e * g, e * h
        else:
            a = self.multipliers - self.weight * c
            on = a > 0
            out = (
                np.where(on, a * a - self.multipliers**2, -(self.multipliers**2)) / (2 * self.weight),
                np.where(on, -a, 0.0),
                np.where(on, self.weight, 0.0),
            )
        v, g, h = (np.where(outside, 0.0, x) for x in out)
        return v, g, h

    def _sum(self, v: Array) -> Array:
        total: Array = v.sum(1)
        return total

    def _gather(self, rows: Array, X: Array, U: Array) -> Array:
        """Sum rows that belong to the same variable into its column."""
        out = np.zeros((len(X), X.shape[1] + U.shape[1]))
        for i, column in enumerate(self._column):
            out[:, column] += rows[:, i]
        return out


def optimize_bounded(
    system: System | ContinuousSystem,
    problem: Callable[[Sequence[BoundCost]], Discrete],
    X: Array,
    U: Array,
    *,
    bounds: Mapping[str, tuple[float | None, float | None]],
    bound_method: str,
    history: tuple[Iteration, ...],
    tolerance: float,
    max_iterations: int,
    **options: Any,
) -> Optimization:
    """Stages of `descend` with falling barrier or updated multipliers; `problem(extra costs)` makes each problem."""
    from .projection import descend

    if bound_method not in ("barrier", "lagrangian"):
        raise ValueError(f"bound_method must be 'barrier' or 'lagrangian', not {bound_method!r}")
    low, high = _limits(system, bounds)
    box = BoxCost(low, high, system.nx, bound_method, len(U))
    plain = problem([])
    horizon = system if isinstance(system, System) else system.cost_system
    penalty = of_coordinates(horizon, box)
    result: Optimization | None = None
    size = max(1.0, abs(plain.value(X, U)) / len(U))  # what one step costs: the scale of both penalties
    box.eps, box.delta = 0.1 * size, 0.5
    box.weight = size
    worst = math.inf
    for stage in range(25):
        used = sum(r.step > 0 for r in history)
        if stage and used >= max_iterations:
            break
        result = descend(
            problem([penalty]),
            X,
            U,
            history=history,
            tolerance=tolerance,
            max_iterations=max_iterations - used,
            **options,
        )
        # one story: indices keep counting over the stages
        X, U, history = result.X, result.U, result.history
        padded = X if len(X) > len(U) else np.vstack([X, X[-1:]])  # in continuous time there is an input at every node
        violation = box.violation(padded, U)
        if not result.converged and not (result.status == "stalled" and abs(result.slope) < 1e-6 * abs(result.cost)):
            break  # a stage that ends near its optimum is good enough to go on from
        if bound_method == "barrier":
            # inside: lower the barrier; outside: make its continuation steeper
            if violation > 0.0:
                box.delta *= 0.1
            elif box.eps * box.multipliers.size <= 1e-6 * max(1.0, abs(plain.value(X, U))):
                break
            else:
                box.eps *= 0.1
                box.delta *= 0.1
        else:
            previous = box.multipliers
            box.update_multipliers(padded, U)
            change = float(np.abs(box.multipliers - previous).max()) / max(1.0, float(np.abs(box.multipliers).max()))
            if violation < 1e-7 and change < 1e-5:
                break
            if violation > 0.25 * worst:
                box.weight = min(4.0 * box.weight, 1e5 * size)
            worst = min(worst, violation)
    assert result is not None
    status, reason = result.status, result.reason
    allowed = 0.0 if bound_method == "barrier" else 1e-6
    if status in ("converged", "stalled") and violation > allowed:
        status = "infeasible"
        reason = f"bounds are violated by {violation:.2g} of their range; they may contradict the dynamics or the start"
    elif result.converged:
        reason = f"bounds hold, {stage + 1} stages of the {bound_method} method; {reason}"
    return Optimization(
        system, X, U, result.gains, plain.value(X, U), result.slope, status, reason, result.history, result.problem,
        box.multipliers if bound_method == "lagrangian" else None, result.search,
    )  # fmt: skip


def _limits(
    system: System | ContinuousSystem, bounds: Mapping[str, tuple[float | None, float | None]]
) -> tuple[Array, Array]:
    if not isinstance(bounds, Mapping):
        raise TypeError(f"bounds are {{name: (low, high)}}, not {type(bounds).__name__}")
    low, high = np.full((2, len(system.x_names) + len(system.u_names)), [[-math.inf], [math.inf]])
    for name, pair in bounds.items():
        inputs, column, least, most = bound_of(system, name, pair)
        place = column + inputs * len(system.x_names)
        low[place], high[place] = least, most
    return low, high
