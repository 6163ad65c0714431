"""Descent directions on the space of motions: quadratic models of the cost and the LQ problem that minimizes them.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, sections 4.3 to 4.5. At a motion xi = (X,
U) the direction minimizes  Dh(xi).d + 1/2 q(d, d)  over the tangent motions dx' = A dx + B du, where q is

    steepest   the identity,
    quasi      the second derivative of the cost (Gauss-Newton),
    newton     that plus the second derivatives of f contracted with the costate of the projection (eq. 30):
               z_N = m_x,   z_k = l_x - K'l_u + (A - B K)' z_{k+1}.

`Discrete` is what the loop in `projection.py` works with; `continuous.py` has its child in continuous time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, all_finite, finite
from ..errors import ConvergenceError
from .costs import BoundCost, Hessian

METHODS = ("steepest", "quasi", "newton")


class Dynamics(Protocol):
    """What `Discrete` asks of a system: sizes, states, motions and their derivatives, as `System` has them."""

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""

    @property
    def nu(self) -> int:
        """Inputs."""

    @property
    def steps(self) -> int:
        """Number of steps N."""

    def difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector at x0 that leads to x1."""

    def retract(self, x: Array, dx: Array) -> Array:
        """The state to which dx leads from x."""

    def project(self, X: Array, U: Array, K: Array) -> tuple[Array, Array]:
        """The motion that follows a curve under the feedback K (N, nu, ndx)."""

    def linearize_trajectory(self, X: Array, U: Array) -> tuple[Array, Array]:
        """A (N, ndx, ndx), B (N, ndx, nu)."""

    def second_order_trajectory(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f: blocks xx, xu, uu of every step."""


class IndefiniteModel(Exception):
    """The quadratic model has no minimum on the tangent motions."""


@dataclass
class Point:
    """A motion with all that was computed there; second-order terms are filled in when a method asks for them."""

    X: Array
    U: Array
    value: float
    A: Array
    B: Array
    lx: Array
    lu: Array
    K: Array = field(default_factory=lambda: np.empty(0))
    hessian: Hessian | None = None
    quasi: Direction | None = None
    second: tuple[Array, Array, Array] | None = None


@dataclass(frozen=True)
class Direction:
    """A tangent motion (dX (N+1, ndx), dU), the slope Dg.d of the cost along it, and the gains of the LQ problem it solves."""

    method: str
    dX: Array
    dU: Array
    slope: float
    K: Array


class Discrete:
    """The optimization problem of a System and a cost in discrete time.

    `gains` of the projection: "lqr" from the LQR with `weights` = (Q, R) (default identity), or "lq" from the LQ
    problem of the Gauss-Newton direction, so that one Riccati sweep gives both. `free` (ndx,) marks the components of
    the initial state that are optimized too.

    >>> Discrete.__name__
    'Discrete'
    """

    def __init__(
        self,
        system: Dynamics,
        cost: BoundCost,
        *,
        weights: tuple[ArrayLike, ArrayLike] | None = None,
        gains: str = "lqr",
        free: Array | None = None,
    ) -> None:
        self.system, self.cost = system, cost
        self.gains = gains
        self.free = None if free is None or not free.any() else free
        n, nu = system.ndx, system.nu
        Qp, Rp = (np.eye(n), np.eye(nu)) if weights is None else weights
        self._Qp, self._Rp = weight_matrix(Qp, n, "projection Q"), weight_matrix(Rp, nu, "projection R")
        self.sweeps = 0

    # ---- the cost and the projection

    def value(self, X: Array, U: Array) -> float:
        """h(X, U)."""
        with np.errstate(all="ignore"):  # a wild trial may overflow: it is rejected for its infinite cost
            return float(self.cost.values(X, U).sum())

    def project(self, X: Array, U: Array, K: Array) -> tuple[Array, Array]:
        """The motion that follows a curve under the feedback K (eq. 27); raises ConvergenceError."""
        Xp, Up = self.system.project(X, U, K)
        if not (all_finite(Xp) and all_finite(Up)):
            raise ConvergenceError("the projected motion is not finite")
        return Xp, Up

    def moved(self, p: Point, d: Direction, step: float) -> tuple[Array, Array]:
        """The curve that lies `step` along a direction; in general no motion."""
        return self.system.retract(p.X, step * d.dX), p.U + step * d.dU

    def feasible(self, X: Array, U: Array) -> tuple[Array, Array]:
        """The curve itself if it is a motion, else its projection with LQR gains of its linearization."""
        try:
            same = self.project(X, U, self.no_gains())[0]
            if np.abs(self.system.difference(X, same)).max() <= 1e-7 * max(1.0, float(np.abs(X).max())):
                return X, U
        except ConvergenceError:
            pass  # what cannot be followed without feedback may be possible with it
        return self.project(X, U, self._lqr(X, U, *self._linearize(X, U)))

    # ---- one point

    def point(self, X: Array, U: Array, value: float | None = None) -> Point:
        """Linearize at a motion and choose the projection's gains."""
        A, B = self._linearize(X, U)
        if not (all_finite(A) and all_finite(B)):
            raise ConvergenceError("the linearization along the motion is not finite")
        lx, lu = self.cost.gradient(X, U)
        if not (all_finite(lx) and all_finite(lu)):
            raise ValueError("the gradient of the cost is not finite")
        p = Point(X, U, self.value(X, U) if value is None else value, A, B, lx, lu)
        if self.gains == "lq":
            with suppress(IndefiniteModel):  # a cost that is not convex has no such gains
                p.K = self.direction(p, "quasi").K
                return p
        p.K = self._lqr(X, U, A, B)
        return p

    def costate(self, p: Point) -> Array:
        """Costate of the projection, (N+1, ndx)."""
        return sweep_back(p.A, p.B, p.K, p.lx, p.lu)

    def model(self, p: Point, method: str, scale: float = 1.0) -> Hessian:
        """Q (N+1, ndx, ndx), S (N, ndx, nu) or None, R (N, nu, nu) of the quadratic model; `scale` of the second-order
        terms."""
        if method == "steepest":
            N, nx, nu = p.B.shape
            return np.tile(np.eye(nx), (N + 1, 1, 1)), None, np.tile(np.eye(nu), (N, 1, 1))
        if p.hessian is None:
            p.hessian = self.cost.hessian(p.X, p.U)
        if method == "quasi":
            return p.hessian
        if method != "newton":
            raise ValueError(f"unknown method {method!r}; choose from {', '.join(METHODS)} or 'auto'")
        if p.second is None:
            p.second = self._second(p.X, p.U, self.costate(p)[1:])
        Q, S, R = p.hessian
        fxx, fxu, fuu = p.second if scale == 1.0 else (scale * a for a in p.second)
        Q = Q.copy()
        Q[:-1] += fxx
        return Q, (fxu if S is None else S + fxu), R + fuu

    def direction(self, p: Point, method: str, scale: float = 1.0) -> Direction:
        """Minimize the model over the tangent motions; raises IndefiniteModel."""
        if method == "quasi" and p.quasi is not None:
            return p.quasi
        Q, S, R = self.model(p, method, scale)
        self.sweeps += 1
        lq = _solve_lq(p.A, p.B, Q[:-1], R, Q[-1], S, p.lx[:-1], p.lu, p.lx[-1], self.free is not None)
        start = np.zeros(p.A.shape[1])
        if self.free is not None and lq.P0 is not None and lq.b0 is not None:
            i = np.flatnonzero(self.free)
            try:
                factor = np.linalg.cholesky(lq.P0[np.ix_(i, i)])
            except np.linalg.LinAlgError:
                raise IndefiniteModel("the model is indefinite in the initial state") from None
            start[i] = -np.linalg.solve(factor.T, np.linalg.solve(factor, lq.b0[i]))
        dX, dU = tangent_motion(p.A, p.B, lq, start)
        slope = float(np.vdot(p.lx, dX) + np.vdot(p.lu, dU))
        if not np.isfinite(slope):
            raise IndefiniteModel("the descent direction is not finite")
        name = method if scale == 1.0 else f"{method}*{scale:g}"
        d = Direction(name, dX, dU, slope, lq.K)
        if method == "quasi":
            p.quasi = d
        return d

    def curvature(self, p: Point, d: Direction, method: str = "newton") -> float:
        """q(d, d) of a model; for "newton" this is D2g.(d, d)."""
        Q, S, R = self.model(p, method)
        dX, dU = d.dX, d.dU
        total = np.einsum("ki,kij,kj->", dX, Q, dX) + np.einsum("ki,kij,kj->", dU, R, dU)
        if S is not None:
            total += 2 * np.einsum("ki,kij,kj->", dX[:-1], S, dU)
        return float(total)

    def downward(self, p: Point) -> Direction | None:
        """A tangent motion along which the Newton model bends downwards, or None where there is none: at a motion without slope this tells
        a minimum from a saddle or a maximum."""
        found = downward_motion(p.A, p.B, *self.model(p, "newton"))
        if found is None:
            return None
        dX, dU, K = found
        slope = float(np.vdot(p.lx, dX) + np.vdot(p.lu, dU))
        side = -1.0 if slope > 0 else 1.0
        return Direction("downward", side * dX, side * dU, side * slope, K)

    def growth(self, p: Point) -> float:
        """Largest factor by which a deviation from the motion grows under the projection's feedback (linearized)."""
        product = np.eye(p.A.shape[1])
        largest = 1.0
        for M in p.A - np.matmul(p.B, p.K):
            product = M @ product
            largest = max(largest, float(np.linalg.norm(product, 2)))
        return largest

    # ---- the system

    def _linearize(self, X: Array, U: Array) -> tuple[Array, Array]:
        A, B = self.system.linearize_trajectory(X, U)
        return A, B

    def _second(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        xx, xu, uu = self.system.second_order_trajectory(X, U, Z)
        return xx, xu, uu

    def no_gains(self) -> Array:
        """A feedback that does nothing."""
        return np.zeros((self.system.steps, self.system.nu, self.system.ndx))

    def _lqr(self, X: Array, U: Array, A: Array, B: Array) -> Array:
        self.sweeps += 1
        return _solve_lq(A, B, self._Qp, self._Rp, self._Qp, None, None, None, None, False).K


@dataclass(frozen=True)
class LQ:
    """Solution of an LQ problem: du = -K dx - c; P0 and b0: value 1/2 dx0'P0 dx0 + b0'dx0 of the start, if asked
    for."""

    K: Array
    c: Array
    P0: Array | None = None
    b0: Array | None = None


def _solve_lq(
    A: Array,
    B: Array,
    Q: Array,
    R: Array,
    Qf: Array,
    S: Array | None,
    q: Array | None,
    r: Array | None,
    qf: Array | None,
    want_value: bool,
) -> LQ:
    """The LQ problem of section 4.5 by the compiled Riccati kernel; raises IndefiniteModel when it has no minimum."""
    from .. import _core  # type: ignore[attr-defined]

    K, c, P, b, status = _core.riccati(A, B, Q, R, Qf, len(B), S=S, q=q, r=r, qf=qf, cost_to_go=want_value)
    if status["failed_step"] >= 0:
        raise IndefiniteModel(f"R + B'PB is not positive definite at step {status['failed_step']}")
    if not (all_finite(K) and all_finite(c)):
        raise IndefiniteModel("the Riccati sweep overflows: some unstable direction cannot be steered")
    return LQ(K, c, P[0], b[0]) if want_value else LQ(K, c)


def tangent_motion(A: Array, B: Array, lq: LQ, start: Array) -> tuple[Array, Array]:
    """The tangent motion of the affine law: dX (N+1, ndx), dU (N, nu)."""
    from .. import _core  # type: ignore[attr-defined]

    dX, dU = _core.riccati_rollout(A, B, lq.K, lq.c, start)
    return dX, dU


def downward_motion(A: Array, B: Array, Q: Array, S: Array | None, R: Array) -> tuple[Array, Array, Array] | None:
    """A tangent motion dX (N+1, n), dU (N, m) along which a quadratic model bends downwards, dX at most 1, and the gains of the sweep; None where
    there is none.

    The backward sweep stops at a step k where G = R + B'PB has a negative eigenvalue. Its vector as the input of step k, the rest at rest
    before and with the feedback of the sweep after it, has that curvature.

    >>> one = np.ones((1, 1, 1))
    >>> downward_motion(one, one, -np.ones((2, 1, 1)), None, 0.5 * one)[0][:, 0]
    array([0., 1.])
    """
    from .. import _core  # type: ignore[attr-defined]

    K, _, P, _, status = _core.riccati(A, B, Q[:-1], R, Q[-1], len(R), S=S, cost_to_go=True)
    k = status["failed_step"]
    if k < 0:
        return None
    G = R[k] + B[k].T @ P[k + 1] @ B[k]
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    if not values[0] < -1e-8 * np.abs(values).max():
        return None  # flat within rounding
    push = np.zeros(B.shape[::2])
    push[k] = -vectors[:, 0]
    dX, dU = _core.riccati_rollout(A, B, K, push, np.zeros(A.shape[1]))
    size = float(np.abs(dX).max())
    if not (all_finite(dX) and all_finite(dU) and size > 0):
        return None
    return dX / size, dU / size, K


def sweep_back(A: Array, B: Array, K: Array, lx: Array, lu: Array) -> Array:
    """z_N = lx_N, z_k = lx_k - K_k'lu_k + (A_k - B_k K_k)' z_{k+1}: (N+1, n).

    >>> A, B, K = np.full((2, 1, 1), 2.0), np.ones((2, 1, 1)), np.zeros((2, 1, 1))
    >>> sweep_back(A, B, K, np.ones((3, 1)), np.zeros((2, 1)))[:, 0]
    array([7., 3., 1.])
    """
    N, n, _ = A.shape
    if n > 12:  # large matrices: the time of a loop over the steps is that of its products
        out = np.empty((N + 1, n))
        z = out[N] = lx[N]
        for k in reversed(range(N)):
            z = out[k] = lx[k] + z @ A[k] - (lu[k] + z @ B[k]) @ K[k]
        return out
    # small ones: the core's forward rollout, run on reversed time
    from .. import _core  # type: ignore[attr-defined]

    g = lx.copy()
    g[:-1] -= np.matmul(lu[:, None, :], K)[:, 0]
    closed = np.ascontiguousarray((A - np.matmul(B, K))[::-1].transpose(0, 2, 1))
    drift = np.ascontiguousarray(g[-2::-1])
    back, _ = _core.riccati_rollout(closed, np.zeros((n, 1)), np.zeros((N, 1, n)), np.zeros((N, 1)), g[-1], drift)
    return np.ascontiguousarray(back[::-1])


def weight_matrix(weight: ArrayLike, n: int, what: str) -> Array:
    """A weight (n, n), or a stack of them, from a number, a diagonal or matrices."""
    w = finite(weight, what)
    if w.ndim == 0:
        w = np.eye(n) * w
    elif w.shape == (n,):
        w = np.diag(w)
    if w.shape[-2:] != (n, n):
        raise ValueError(f"{what} has shape {w.shape}, expected ({n}, {n})")
    return w
