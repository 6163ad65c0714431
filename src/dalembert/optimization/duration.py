"""Motions whose duration is optimized too: the duration T (s) is one more component of the state, which no step changes.

Step k has the length T share_k; its derivatives by T are central differences of whole motions (to about 1e-10), the rest is that of the system's own
steps. The start's T is free, so the default optimizer finds it as it finds a free start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import Array, number
from ..errors import ConvergenceError
from ..integrate.onestep import Course, OneStepMap, Steps, Tangent
from ..system import System
from .constraints import Box, Rows
from .costs import BoundCost, Hessian
from .descent import Discrete
from .result import Optimization

NAME = "duration"
WEIGHTS = ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0))  # of a first derivative, over 12
BENDS = {1: 16.0, -1: 16.0, 2: -1.0, -2: -1.0}  # of a second one, over 12, with -30 in the middle


class Stretched(OneStepMap):
    """A system with the state (x, T): its steps as shares of the duration T.

    >>> import dalembert as da
    >>> model = da.Model([da.tx("x", mass=1.0)], [da.ConfigForce("x", "f")])
    >>> stretched = Stretched(da.System(da.MidpointVI(model, 0.1), steps=10))
    >>> da.System(stretched, steps=10).simulate([0.0, 1.0, 2.0], np.zeros((10, 1)))[-1].round(12)
    array([2., 1., 2.])
    """

    def __init__(self, system: System) -> None:
        self.base = system
        self.share = system.dt / system.t[-1]
        self.nx, self.nu = system.nx + 1, system.nu  # type: ignore[misc]
        self.x_names, self.u_names = (*system.x_names, NAME), system.u_names  # type: ignore[misc]
        self.dt = system.dt  # type: ignore[misc]

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""
        return self.base.ndx + 1

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components."""
        return (*self.base.dx_names, NAME)

    def neutral(self) -> Array:
        """A state with the system's own duration."""
        return np.append(self.base.neutral(), self.base.t[-1])

    def difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector at x0 that leads to x1."""
        apart = self.base.difference(x0[..., :-1], x1[..., :-1])
        return np.concatenate([apart, np.broadcast_to(x1[..., -1:] - x0[..., -1:], (*apart.shape[:-1], 1))], -1)

    def retract(self, x: Array, dx: Array) -> Array:
        """The state to which dx leads from x."""
        moved = self.base.retract(x[..., :-1], dx[..., :-1])
        return np.concatenate([moved, np.broadcast_to(x[..., -1:] + dx[..., -1:], (*moved.shape[:-1], 1))], -1)

    def difference_jacobian(self, x0: Array, x1: Array) -> Array | None:
        """Derivative of difference(x0, retract(x1, dx)) by dx at 0, or None for the identity."""
        J = self.base.difference_jacobian(x0[..., :-1], x1[..., :-1])
        return None if J is None else _widened(J)

    def retract_jacobian(self, x: Array) -> Array | None:
        """Derivative of retract(x, dx) by dx at 0, or None for the identity."""
        J = self.base.retract_jacobian(x[..., :-1])
        return None if J is None else _widened(J)

    def tangent(self, X: Array, tolerance: float = 1e-10) -> Tangent | None:
        """As of the system; T is free."""
        found = self.base.tangent(X[:, :-1], tolerance)
        if found is None:
            return None
        return Tangent(*(_widened(part) for part in (found.basis, found.lift, found.lower, found.onto)))

    def settle(self, x: Array) -> Array:
        """The state on the constraints nearest to x."""
        return np.append(self.base.settle(x[:-1]), x[-1])

    @property
    def constrained(self) -> bool:
        """Whether constraints keep motions from some states."""
        return self.base.constrained

    def over(self, t: Array) -> Steps:
        """The steps, whole motions at a time."""
        return _StretchedSteps(self, t)


class _StretchedSteps(Steps):
    one_step: Stretched

    def _system(self, T: Array) -> System:
        """The base's system with the durations T (N,) of its steps."""
        if not (T > 0).all():
            raise ConvergenceError("the duration is not positive")
        return self.one_step.base.with_dt(T * self.one_step.share)

    def f(self, x: Array, u: Array, k: int, guess: Array | None = None) -> Array:
        system = self._system(np.full(self.count, x[-1]))
        return np.append(system.f(x[:-1], u, k, guess=None if guess is None else guess[:-1]), x[-1])

    def simulate(self, x0: Array, U: Array) -> Array:
        X = self._system(np.full(self.count, x0[-1])).simulate(x0[:-1], U)
        return np.column_stack([X, np.full(len(X), x0[-1])])

    def linearize_trajectory(self, X: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        _, A, B = self.shoot(X, U, True)
        assert A is not None
        assert B is not None
        return A, B

    def shoot(self, X: Array, U: Array, derive: bool) -> tuple[Array, Array | None, Array | None]:
        T = X[:-1, -1]
        ends, A, B = self._system(T).shoot(X[:, :-1], U, derive=derive)
        full = np.column_stack([ends, T])
        if A is None or B is None:
            return full, None, None
        A, B = _widened(A), np.concatenate([B, np.zeros((len(B), 1, B.shape[2]))], 1)
        for factor, weight in WEIGHTS:
            shifted, step = self._shifted(X, U, factor, False)[0], 1e-3 * T
            A[:, :-1, -1] += weight * self.one_step.base.difference(ends, shifted) / (12 * step)[:, None]
        return full, A, B

    def _shifted(self, X: Array, U: Array, factor: int, derive: bool) -> tuple[Array, Array | None, Array | None]:
        return self._system((1 + 1e-3 * factor) * X[:-1, -1]).shoot(X[:, :-1], U, derive=derive)

    def roll(self, course: Course) -> tuple[Array, Array]:
        c = course
        # no input changes T: it is known before, and what the feedback makes of it
        T = np.full(self.count + 1, c.X[0, -1] + c.share * c.dX[0, -1])
        if c.gaps is not None:
            T[1:] += (c.share - 1.0) * np.cumsum(c.gaps[:, -1])
        off = T[:-1] - (c.X[:-1, -1] + c.share * c.dX[:-1, -1])
        U = c.U - c.K[:, :, -1] * off[:, None]
        same = Course(
            np.ascontiguousarray(c.X[:, :-1]), U, np.ascontiguousarray(c.dX[:, :-1]), c.dU, np.ascontiguousarray(c.K[:, :, :-1]),
            None if c.gaps is None else np.ascontiguousarray(c.gaps[:, :-1]), c.share, c.low, c.high,
        )  # fmt: skip
        X, U = self._system(T[:-1]).roll(same)
        return np.column_stack([X, T]), U

    def second_order_trajectory(
        self, X: Array, U: Array, Z: Array, threads: int | None = None
    ) -> tuple[Array, Array, Array]:
        base, T, z = self.one_step.base, X[:-1, -1], np.ascontiguousarray(Z[:, :-1])
        system = self._system(T)
        xx, xu, uu = system.second_order_trajectory(X[:, :-1], U, z)
        xx, xu = _widened(xx), np.concatenate([xu, np.zeros((len(xu), 1, xu.shape[2]))], 1)
        xx[:, -1, -1] = 0.0
        ends, step = system.shoot(X[:, :-1], U)[0], 1e-3 * T
        for factor, weight in WEIGHTS:
            there, A, B = self._shifted(X, U, factor, True)
            assert A is not None
            assert B is not None
            turn = base.difference_jacobian(ends, there)
            w = z if turn is None else np.matmul(z[:, None, :], turn)[:, 0]
            scale = (weight / (12 * step))[:, None]
            xx[:, :-1, -1] += scale * np.matmul(w[:, None, :], A)[:, 0]
            xu[:, -1] += scale * np.matmul(w[:, None, :], B)[:, 0]
            xx[:, -1, -1] += BENDS[factor] * (z * base.difference(ends, there)).sum(1) / (12 * step**2)
        xx[:, -1, :-1] = xx[:, :-1, -1]
        return xx, xu, uu


def _widened(W: Array) -> Array:
    """(..., n, m) with one more row and column, of the unit matrix."""
    out = np.zeros((*W.shape[:-2], W.shape[-2] + 1, W.shape[-1] + 1))
    out[..., :-1, :-1] = W
    out[..., -1, -1] = 1.0
    return out


class _Timed:
    """A cost of the system's states, and `weight` times the duration."""

    def __init__(self, cost: BoundCost, weight: float) -> None:
        self._cost, self._weight = cost, weight

    def values(self, X: Array, U: Array) -> Array:
        out = np.array(self._cost.values(X[:, :-1], U))
        out[-1] += self._weight * X[-1, -1]
        return out

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        gx, gu = self._cost.gradient(X[:, :-1], U)
        wide = np.column_stack([gx, np.zeros(len(gx))])
        wide[-1, -1] = self._weight
        return wide, gu

    def hessian(self, X: Array, U: Array) -> Hessian:
        Q, S, R = self._cost.hessian(X[:, :-1], U)
        wide = _widened(Q)
        wide[:, -1, -1] = 0.0
        return wide, None if S is None else np.concatenate([S, np.zeros((len(S), 1, S.shape[2]))], 1), R


class _Narrow(Rows):
    """Rows of the system's states, for states with a duration."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.names, self.low, self.high, self.on, self.inputs = rows.names, rows.low, rows.high, rows.on, rows.inputs

    def value(self, X: Array, U: Array) -> Array:
        return self._rows.value(X[:, :-1], U)

    def linearize(self, X: Array, U: Array) -> None:
        self._rows.linearize(X[:, :-1], U)

    def along(self, dX: Array, dU: Array) -> Array:
        return self._rows.along(dX[:, :-1], dU)

    def add_gradient(self, w: Array, bx: Array, bu: Array) -> None:
        self._rows.add_gradient(w, bx[:, :-1], bu)

    def add_hessian(self, sigma: Array, Q: Array, S: Array | None, R: Array) -> Array | None:
        n = Q.shape[1] - 1
        found = self._rows.add_hessian(sigma, Q[:, :n, :n], None if S is None else S[:, :n], R)
        if found is None:
            return S
        wide = np.zeros((len(found), n + 1, found.shape[2])) if S is None else S.copy()
        wide[:, :n] = found
        return wide

    def curvature(self, X: Array, U: Array, y: Array) -> Hessian | None:
        found = self._rows.curvature(X[:, :-1], U, y)
        if found is None:
            return None
        Q, S, R = found
        wide = _widened(Q)
        wide[:, -1, -1] = 0.0
        return wide, None if S is None else np.concatenate([S, np.zeros((len(S), 1, S.shape[2]))], 1), R


def of_any_duration(
    system: System,
    cost: BoundCost,
    rows: Sequence[Rows],
    free: Array | None,
    start: tuple[Array, Array],
    free_time: Any,
    weight: float,
    search: Callable[..., Optimization],
) -> Optimization:
    """The search with the duration as an unknown; the result is of a System with the duration found, its cost with `weight` times that."""
    if not isinstance(free_time, (tuple, list)) or len(free_time) != 2:
        raise ValueError(f"free_time must be a pair (shortest, longest) of durations (s), not {free_time!r}")
    low, high = (number(t, "free_time") for t in free_time)
    if not 0 < low < high:
        raise ValueError(f"free_time must be (shortest, longest), positive and increasing, not {free_time}")
    N, own = system.steps, Stretched(system)
    over = System(own, t=system.t)
    wide = [r if isinstance(r, Box) and r.inputs else _Narrow(r) for r in rows]
    time = Box([NAME], np.array([system.ndx]), np.array([low]), np.array([high]), False, N)
    time.coordinates = np.array([system.nx])
    time.on[:-1] = False  # it is the same at all nodes
    X, U = start
    first = float(np.clip(system.t[-1], low + 0.01 * (high - low), high - 0.01 * (high - low)))
    mask = np.append(np.zeros(system.ndx, dtype=bool) if free is None else free, True)
    found = search(over, _Timed(cost, weight), [*wide, time], mask, np.column_stack([X, np.full(N + 1, first)]), U)
    T = float(found.X[0, -1])
    timed = System(system.one_step, t=np.concatenate([[0.0], np.cumsum(T * own.share)]))
    return replace(
        found, system=timed, X=np.ascontiguousarray(found.X[:, :-1]), gains=np.ascontiguousarray(found.gains[:, :, :-1]),
        costates=None if found.costates is None else found.costates[:, :-1], reason=f"{found.reason}; duration {T:.6g} s",
        problem=Discrete(timed, cost, gains="lq", free=free),
    )  # fmt: skip
