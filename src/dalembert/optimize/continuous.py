"""The projection-operator optimizer in continuous time (Hauser, A projection operator approach to the optimization
of trajectory functionals), with which Schultz, Johnson, Murphey compare (Trajectory optimization in discrete
mechanics, Figs 9, 10, 12).

The state is x = (q, v), the input u = (forces, accelerations of kinematic variables). Curves are values at time
nodes; between them cubic splines. Accelerations and their exact first and second derivatives come from the core;
ordinary differential equations (motion, Riccati, costate) are integrated by RK4 on the nodes or by scipy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import ConvergenceError
from .costs import Array, BoundCost
from .descent import Direction, IndefiniteModel, Point, _matrix

Rhs = Callable[[Array, Array], Array]  # (data at a time, y) -> dy/dt


class ContinuousSystem:
    """A model in continuous time on the nodes `t` (N+1,), for `optimize`; X (N+1, 2 nq), U (N+1, nu + nk).

    integrator: "rk4" (one step per node interval) or any method of scipy's solve_ivp ("RK45", "DOP853", "Radau",
    ...) with the tolerance `rtol`.

    >>> import dalembert as da
    >>> pendulum = da.rz("theta", da.ty(-1.0, mass=1.0))
    >>> model = da.Model([pendulum], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> system = ContinuousSystem(model, np.linspace(0.0, 1.0, 11))
    >>> system.x_names, system.f(np.array([0.0, 1.0]), np.array([2.0]))
    (('theta', 'v.theta'), array([1., 2.]))
    """

    def __init__(self, model: Any, t: Any, *, integrator: str = "rk4", rtol: float = 1e-8) -> None:
        from ..mechanics import core

        self.model = model
        self._core = core(model)
        self.t = np.asarray(t, dtype=float)
        if self.t.ndim != 1 or len(self.t) < 3 or not (np.diff(self.t) > 0).all():
            raise ValueError("t must be a vector of at least three increasing times")
        self.integrator, self.rtol = integrator, rtol
        self.steps = len(self.t) - 1
        self.input_nodes = self.steps + 1
        self.dt = np.diff(self.t)
        self.nx, self.nu = 2 * model.nq, model.nu + model.nk
        self.x_names = (*model.variables, *(f"v.{v}" for v in model.variables))
        self.u_names = (*model.inputs, *(f"a.{v}" for v in model.kinematic))
        # costs see the nodes as steps, and the final state once more at the end
        self.cost_system = SimpleNamespace(
            model=model, nx=self.nx, nu=self.nu, x_names=self.x_names, u_names=self.u_names, steps=self.steps + 1,
            t=np.append(self.t, self.t[-1]), dt=np.append(self.dt, 0.0), nodes=True,
            from_trajectory=self.from_trajectory,
        )  # fmt: skip

    # ---- the dynamics

    def _split(self, x: Array, u: Array) -> tuple[Array, Array, Array, Array]:
        nq, nu = self.model.nq, self.model.nu
        return x[:nq], x[nq:], u[:nu], u[nu:]

    def f(self, x: Array, u: Array) -> Array:
        """dx/dt (nx,)."""
        q, v, forces, kinematic = self._split(x, u)
        ddq, _, ok = self._core.acceleration(q, v, forces, kinematic)
        if not ok:
            raise ConvergenceError("the accelerations are not determined: singular mass matrix or constraints")
        return np.concatenate([v, ddq])

    def linearize_trajectory(self, X: Array, U: Array) -> tuple[Array, Array]:
        """A (n, nx, nx), B (n, nx, nu) of dx/dt at the nodes."""
        n, nq, nd, nk = self.nx, self.model.nq, self.model.nd, self.model.nk
        full = np.zeros((len(X), n, n + self.nu))
        full[:, np.arange(nq), nq + np.arange(nq)] = 1.0
        full[:, nq + nd + np.arange(nk), n + self.model.nu + np.arange(nk)] = 1.0
        for k in range(len(X)):
            full[k, nq : nq + nd] = self._core.acceleration_first(*self._split(X[k], U[k]))[2]
        return np.ascontiguousarray(full[:, :, :n]), np.ascontiguousarray(full[:, :, n:])

    def second_order_trajectory(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z.f at the nodes: blocks xx, xu, uu."""
        n, nq, nd = self.nx, self.model.nq, self.model.nd
        H = np.array(
            [
                np.einsum("iaj,a->ij", self._core.acceleration_second(*self._split(X[k], U[k]))[0], Z[k, nq : nq + nd])
                for k in range(len(X))
            ]
        )
        return H[:, :n, :n].copy(), H[:, :n, n:].copy(), H[:, n:, n:].copy()

    # ---- motions

    def project(self, X: Array, U: Array, K: Array) -> tuple[Array, Array]:
        """Closed loop u = U - K (x - X) from x(0) = X[0]; raises ConvergenceError if the motion is not finite."""
        n, k, N = self.nx, self.nu, self.steps
        curve = np.hstack([X, U, K.reshape(N + 1, k * n)])

        def closed(c: Array, x: Array) -> Array:
            if not np.abs(x).max() < 1e10:
                raise ConvergenceError("the motion leaves all bounds")
            return self.f(x, c[n : n + k] - c[n + k :].reshape(k, n) @ (x - c[:n]))

        Xp = self._integrate(closed, curve, X[0])
        if not np.isfinite(Xp).all() or np.abs(Xp).max() > 1e10:
            raise ConvergenceError("the motion leaves all bounds")
        return Xp, U - np.matmul(K, (Xp - X)[:, :, None])[:, :, 0]

    def simulate(self, x0: Any, U: Array) -> Array:
        """Open-loop motion (N+1, nx)."""
        X = np.tile(np.asarray(x0, dtype=float), (self.steps + 1, 1))
        return self.project(X, U, np.zeros((self.steps + 1, self.nu, self.nx)))[0]

    def _ivp(self, rhs: Any, t: Array, y0: Array) -> Array:
        from scipy.integrate import solve_ivp

        with np.errstate(all="ignore"):
            solution = solve_ivp(
                rhs, (t[0], t[-1]), y0, t_eval=t, method=self.integrator, rtol=self.rtol, atol=1e-3 * self.rtol
            )
        if not solution.success or solution.y.shape[1] != len(t):
            raise ConvergenceError(f"{self.integrator} failed: {solution.message}")
        result: Array = np.ascontiguousarray(solution.y.T)
        return result

    def integrate(self, rhs: Rhs, data: Array, y0: Array, *, backward: bool = False) -> Array:
        """Integrate dy/dt = rhs(data(t), y) along a curve (N+1, n) given at the nodes; values at the nodes."""
        try:
            y = self._integrate(rhs, data, y0, backward)
        except ConvergenceError as error:
            raise IndefiniteModel(str(error)) from None
        if not np.isfinite(y).all():
            raise IndefiniteModel("an equation along the motion diverges")
        return y

    def _integrate(self, rhs: Rhs, data: Array, y0: Array, backward: bool = False) -> Array:
        t = self.t
        if self.integrator != "rk4":
            spline = _spline(t, data)
            flat = self._ivp(
                lambda time, y: rhs(spline(time), y.reshape(y0.shape)).ravel(), t[::-1] if backward else t, y0.ravel()
            )
            y = flat.reshape(len(t), *y0.shape)
            return y[::-1] if backward else y
        half = _half(t, data)
        steps = np.diff(t)
        if backward:
            half, steps = half[::-1], -steps[::-1]
        out = np.empty((len(t), *y0.shape))
        out[0] = y = y0
        with np.errstate(all="ignore"):
            for i, h in enumerate(steps):
                k1 = rhs(half[2 * i], y)
                k2 = rhs(half[2 * i + 1], y + h / 2 * k1)
                k3 = rhs(half[2 * i + 1], y + h / 2 * k2)
                k4 = rhs(half[2 * i + 2], y + h * k3)
                out[i + 1] = y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return out[::-1] if backward else out

    def trajectory(self, X: Array, U: Array) -> Any:
        """The motion as plain arrays by name: namespace with t, q, v, u."""
        nq = self.model.nq
        return SimpleNamespace(model=self.model, t=self.t, q=X[:, :nq], v=X[:, nq:], u=U)

    def from_trajectory(self, trajectory: Any) -> tuple[Array, Array]:
        """States and inputs at the nodes from a Trajectory: q by interpolation, v as the slope of a cubic spline."""
        spline = _spline(np.asarray(trajectory.t), np.asarray(trajectory.q))
        X = np.hstack([spline(self.t), spline(self.t, 1)])
        times, forces = np.asarray(trajectory.t), np.asarray(trajectory.u)
        middle = (times[:-1] + times[1:]) / 2 if len(forces) == len(times) - 1 else times
        U = np.zeros((len(self.t), self.nu))
        for i in range(self.model.nu):
            U[:, i] = np.interp(self.t, middle, forces[:, i])
        U[:, self.model.nu :] = spline(self.t, 2)[:, self.model.nd :]
        return X, U

    def optimization_problem(self, cost: BoundCost, **options: Any) -> Continuous:
        """The problem that `optimize` works on."""
        return Continuous(self, cost, **options)


class Continuous:
    """Twin of `Discrete` in continuous time: the same methods, integrals instead of sums, differential Riccati
    equations.

    >>> Continuous.__name__
    'Continuous'
    """

    def __init__(
        self, system: ContinuousSystem, cost: BoundCost, *, weights: Any = None, gains: str = "lqr", free: Any = None
    ) -> None:
        self.system, self.cost, self.gains = system, cost, gains
        self.free = None if free is None or not free.any() else free
        n, m = system.nx, system.nu
        Qp, Rp = (1.0, 1.0) if weights is None else weights
        self._Qp, self._Rp = _matrix(Qp, n, "projection Q"), _matrix(Rp, m, "projection R")
        h = system.dt
        self._quadrature = np.append(
            (np.append(0.0, h) + np.append(h, 0.0)) / 2, 1.0
        )  # trapezoids, then the final state
        self.sweeps = 0

    def value(self, X: Array, U: Array) -> float:
        """Integral of the running cost plus the final cost."""
        return float(self._quadrature @ self.cost.values(np.vstack([X, X[-1:]]), U))

    def project(self, X: Array, U: Array, K: Array) -> tuple[Array, Array]:
        """See ContinuousSystem.project."""
        return self.system.project(X, U, K)

    def feasible(self, X: Array, U: Array) -> tuple[Array, Array]:
        """See Discrete.feasible."""
        with suppress(ConvergenceError):
            same, _ = self.project(X, U, np.zeros((len(X), self.system.nu, self.system.nx)))
            if np.abs(same - X).max() <= 1e-7 * max(1.0, float(np.abs(X).max())):
                return X, U
        return self.project(X, U, self._lqr(*self.system.linearize_trajectory(X, U)))

    def point(self, X: Array, U: Array, value: float | None = None) -> Point:
        """See Discrete.point; lx has one row more than X, the gradient of the final cost."""
        A, B = self.system.linearize_trajectory(X, U)
        lx, lu = self.cost.gradient(np.vstack([X, X[-1:]]), U)
        if not (np.isfinite(lx).all() and np.isfinite(lu).all()):
            raise ValueError("the gradient of the cost is not finite")
        p = Point(X, U, self.value(X, U) if value is None else value, A, B, lx, lu)
        if self.gains == "lq":
            with suppress(IndefiniteModel):
                p.K = self.direction(p, "quasi").K
                return p
        p.K = self._lqr(A, B)
        return p

    def costate(self, p: Point) -> Array:
        """-dz/dt = (A - BK)'z + l_x - K'l_u, z(T) = m_x."""
        n = self.system.nx
        M = p.A - p.B @ p.K
        g = p.lx[:-1] - np.matmul(p.K.swapaxes(1, 2), p.lu[:, :, None])[:, :, 0]
        data = np.concatenate([M.reshape(len(M), n * n), g], axis=1)

        def rhs(d: Array, z: Array) -> Array:
            return -(z @ d[: n * n].reshape(n, n) + d[n * n :])

        return self.system.integrate(rhs, data, p.lx[-1], backward=True)

    def model(self, p: Point, method: str, scale: float = 1.0) -> tuple[Array, Array, Array, Array]:
        """Q, S, R at the nodes and the final Q of the quadratic model."""
        n, m, count = self.system.nx, self.system.nu, len(p.X)
        if method == "steepest":
            eye = np.tile(np.eye(n), (count, 1, 1))
            return eye, np.zeros((count, n, m)), np.tile(np.eye(m), (count, 1, 1)), np.eye(n)
        if p.hessian is None:
            p.hessian = self.cost.hessian(np.vstack([p.X, p.X[-1:]]), p.U)
        Q, S, R = p.hessian
        S = np.zeros((count, n, m)) if S is None else S
        if method == "quasi":
            return Q[:-1], S, R, Q[-1]
        if p.second is None:
            p.second = self.system.second_order_trajectory(p.X, p.U, self.costate(p))
        fxx, fxu, fuu = p.second
        return Q[:-1] + scale * fxx, S + scale * fxu, R + scale * fuu, Q[-1]

    def direction(self, p: Point, method: str, scale: float = 1.0) -> Direction:
        """See Discrete.direction."""
        if method == "quasi" and p.quasi is not None:
            return p.quasi
        Q, S, R, Qf = self.model(p, method, scale)
        n = self.system.nx
        K, c, P0, b0 = self._riccati(p.A, p.B, Q, S, R, Qf, p.lx, p.lu)
        start = np.zeros(n)
        if self.free is not None:
            i = np.flatnonzero(self.free)
            block = P0[np.ix_(i, i)]
            if np.linalg.eigvalsh(block).min() <= 0:
                raise IndefiniteModel("the model is indefinite in the initial state")
            start[i] = -np.linalg.solve(block, b0[i])
        M = p.A - p.B @ K
        g = -np.matmul(p.B, c[:, :, None])[:, :, 0]
        data = np.concatenate([M.reshape(len(M), n * n), g], axis=1)
        dX = self.system.integrate(lambda d, x: d[: n * n].reshape(n, n) @ x + d[n * n :], data, start)
        dU = -np.matmul(K, dX[:, :, None])[:, :, 0] - c
        terms = np.append((p.lx[:-1] * dX).sum(1) + (p.lu * dU).sum(1), p.lx[-1] @ dX[-1])
        slope = float(self._quadrature @ terms)
        if not np.isfinite(slope):
            raise IndefiniteModel("the descent direction is not finite")
        d = Direction(method if scale == 1.0 else f"{method}*{scale:g}", dX, dU, slope, K)
        if method == "quasi":
            p.quasi = d
        return d

    def curvature(self, p: Point, d: Direction, method: str = "newton") -> float:
        """q(d, d) of a model."""
        Q, S, R, Qf = self.model(p, method)
        terms = np.einsum("ki,kij,kj->k", d.dX, Q, d.dX) + np.einsum("ki,kij,kj->k", d.dU, R, d.dU)
        terms += 2 * np.einsum("ki,kij,kj->k", d.dX, S, d.dU)
        return float(self._quadrature @ np.append(terms, d.dX[-1] @ Qf @ d.dX[-1]))

    def growth(self, p: Point) -> float:
        """Largest factor by which a deviation grows in closed loop (linearized)."""
        n = self.system.nx
        M = (p.A - p.B @ p.K).reshape(len(p.A), n * n)
        try:
            Phi = self.system.integrate(lambda d, x: d.reshape(n, n) @ x, M, np.eye(n))
        except IndefiniteModel:
            return float("inf")
        return float(max(np.linalg.norm(m, 2) for m in Phi))

    def _lqr(self, A: Array, B: Array) -> Array:
        n, m, count = self.system.nx, self.system.nu, len(A)
        Q, R = np.broadcast_to(self._Qp, (count, n, n)), np.broadcast_to(self._Rp, (count, m, m))
        zero = np.zeros((count, n, m))
        return self._riccati(A, B, Q, zero, R, self._Qp, np.zeros((count + 1, n)), np.zeros((count, m)))[0]

    def _riccati(
        self, A: Array, B: Array, Q: Array, S: Array, R: Array, Qf: Array, lx: Array, lu: Array
    ) -> tuple[Array, Array, Array, Array]:
        """-P' = Q + A'P + PA - (S + PB) R^-1 (S + PB)',  -b' = l_x + A'b - (S + PB) R^-1 (l_u + B'b)."""
        self.sweeps += 1
        n, count = A.shape[1], len(A)
        try:
            np.linalg.cholesky(R)
        except np.linalg.LinAlgError:
            raise IndefiniteModel("R is not positive definite") from None
        Ri = np.linalg.inv(R)
        RB = Ri @ B.swapaxes(1, 2)
        # completing the square takes S, R and l_u out of the loop: A - B R^-1 S', Q - S R^-1 S', l_x - S R^-1 l_u
        At = A - B @ (Ri @ S.swapaxes(1, 2))
        Qt = Q - S @ Ri @ S.swapaxes(1, 2)
        BRB = B @ RB
        gx = lx[:-1] - np.matmul(S @ Ri, lu[:, :, None])[:, :, 0]
        gu = np.matmul(B @ Ri, lu[:, :, None])[:, :, 0]
        data = np.concatenate([a.reshape(count, -1) for a in (At, Qt, BRB, gx, gu)], axis=1)
        s = n * n

        def rhs(d: Array, y: Array) -> Array:
            a, q, w = d[:s].reshape(n, n), d[s : 2 * s].reshape(n, n), d[2 * s : 3 * s].reshape(n, n)
            P, b = y[:, :n], y[:, n]
            PA, Pw = P @ a, P @ w
            out = np.empty_like(y)
            out[:, :n] = -(q + PA + PA.T - Pw @ P)
            out[:, n] = -(d[3 * s : 3 * s + n] + b @ a - Pw @ b - P @ d[3 * s + n :])
            return out

        with np.errstate(all="ignore"):
            y = self.system.integrate(rhs, data, np.hstack([Qf, lx[-1][:, None]]), backward=True)
        P, b = y[:, :, :n], y[:, :, n]
        K = RB @ P + Ri @ S.swapaxes(1, 2)
        c = np.matmul(RB, b[:, :, None])[:, :, 0] + np.matmul(Ri, lu[:, :, None])[:, :, 0]
        if not (np.isfinite(K).all() and np.isfinite(c).all()) or np.abs(K).max() > 1e12:
            raise IndefiniteModel("the Riccati equation escapes")
        return K, c, P[0], b[0]


def _spline(t: Array, y: Array) -> Any:
    from scipy.interpolate import CubicSpline

    return CubicSpline(t, y, axis=0)


def _half(t: Array, y: Array) -> Array:
    """Values at the nodes and halfway between them, (2N+1, ...)."""
    out = np.empty((2 * len(t) - 1, y.shape[1]))
    out[0::2] = y
    out[1::2] = _spline(t, y)((t[:-1] + t[1:]) / 2)
    return out
