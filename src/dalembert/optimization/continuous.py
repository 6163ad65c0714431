"""The projection-operator optimizer in continuous time (Hauser, A projection operator approach to the optimization
of trajectory functionals), with which Schultz, Johnson, Murphey compare (Trajectory optimization in discrete
mechanics, Figs 9, 10, 12).

The state is x = (q, v), the input u = (forces, accelerations of kinematic variables). A motion is given by its values
at time nodes: inputs are linear between them, x follows by RK4 (or scipy), the cost is the trapezoidal sum. Gains, and
the directions of steepest descent and Gauss-Newton, come from differential Riccati equations along the motion.

The derivatives of the cost are those of this very scheme, because curves that are interpolated and integrated anew for
every order of derivative agree only to some power of the node spacing, and Newton's method then stops short. With w =
(x, u) as the state and the next input as the input, the scheme is a discrete system,

    w_{k+1} = (RK4(x_k, u_k, u_{k+1}), u_{k+1}),

so Dg, D2g and Newton's direction are those of `Discrete`, with exact first and second derivatives of the RK4 step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, floats
from ..errors import ConvergenceError, ModelError
from ..integrate.onestep import StateSpace
from ..mechanics import constraints, core
from ..model import Model
from .costs import BoundCost, Hessian
from .descent import LQ, Direction, Discrete, IndefiniteModel, Point, sweep_back, tangent_motion, weight_matrix

Rhs = Callable[[Array, Array], Array]  # (data at a time, y) -> dy/dt
UNDETERMINED = "the accelerations are not determined: singular mass matrix or constraints"
SOLVERS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")  # of scipy's solve_ivp
STAGES = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))  # of RK4: when in the step, and weight


class _Nodes(StateSpace):
    """What costs see of a ContinuousSystem: the nodes as steps, and the final state once more at the end."""

    nodes = True
    nx: int
    x_names: tuple[str, ...]

    def __init__(self, system: ContinuousSystem) -> None:
        self.model, self.nx, self.nu = system.model, system.nx, system.nu
        self.x_names, self.u_names, self.curve = system.x_names, system.u_names, system.curve
        self.steps = system.steps + 1
        self.t = np.append(system.t, system.t[-1])


class ContinuousSystem(StateSpace):
    """A model in continuous time on the nodes `t` (N+1,), for `optimize`; X (N+1, 2 nq), U (N+1, nu + nk).

    integrator: "rk4" (one step per node interval) or any method of scipy's solve_ivp ("RK45", "DOP853", "Radau",
    ...) with the tolerance `rtol`; derivatives are those of "rk4" also then. The gains of a result are a sampled
    feedback on w = (x, u): u_{k+1} = U_{k+1} - gains_k (w_k - W_k), which at the nodes is du = -K(t) dx.

    >>> import dalembert as da
    >>> pendulum = da.rz("theta", da.ty(-1.0, mass=1.0))
    >>> model = da.Model([pendulum], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> system = ContinuousSystem(model, np.linspace(0.0, 1.0, 11))
    >>> system.x_names, system.f(np.array([0.0, 1.0]), np.array([2.0]))
    (('theta', 'v.theta'), array([1., 2.]))
    """

    nx: int
    x_names: tuple[str, ...]

    def __init__(self, model: Model, t: ArrayLike, *, integrator: str = "rk4", rtol: float = 1e-8) -> None:
        model.require_no_contacts("ContinuousSystem")
        if model.configuration.places:
            name = model.configuration.places[0].name
            raise ModelError(
                f"ball '{name}': use System(MidpointVI(...)), or Euler angles (spherical_euler)", culprit=name
            )
        model.require_holonomic("ContinuousSystem", "System(MidpointVI(...))")
        self.model = model
        self._core = core(model)
        self.t = floats(t, "t")
        if self.t.ndim != 1 or len(self.t) < 3 or not np.isfinite(self.t).all() or not (np.diff(self.t) > 0).all():
            raise ValueError("t must be a vector of at least three increasing times")
        if integrator not in ("rk4", *SOLVERS):
            raise ValueError(f"integrator must be one of rk4, {', '.join(SOLVERS)}, not {integrator!r}")
        if not (isinstance(rtol, (int, float, np.number)) and 0.0 < rtol < 1.0):
            raise ValueError(f"rtol must be between 0 and 1, not {rtol!r}")
        self.integrator, self.rtol = integrator, rtol
        self.steps = len(self.t) - 1
        self.input_nodes = self.steps + 1
        self.dt = np.diff(self.t)
        self.nx, self.nu = 2 * model.nq, model.nu + model.nk
        self.x_names = (*model.variables, *(f"v.{v}" for v in model.variables))
        self.u_names = (*model.inputs, *(f"a.{v}" for v in model.kinematic))
        self.cost_system = _Nodes(self)

    @property
    def constrained(self) -> bool:
        """Whether the model has constraints."""
        return self.model.nc > 0

    def violation(self, x: Array) -> float:
        """Largest |h(q)| of the constraints."""
        return float(np.abs(constraints(self.model, x[: self.model.nq])).max()) if self.model.nh else 0.0

    # ---- the dynamics

    def _split(self, x: Array, u: Array) -> tuple[Array, Array, Array, Array]:
        nq, nu = self.model.nq, self.model.nu
        return x[:nq], x[nq:], u[:nu], u[nu:]

    def f(self, x: Array, u: Array) -> Array:
        """dx/dt (nx,)."""
        q, v, forces, kinematic = self._split(x, u)
        ddq, _, ok = self._core.acceleration(q, v, forces, kinematic)
        if not ok:
            raise ConvergenceError(UNDETERMINED)
        return np.concatenate([v, ddq])

    def _rates(self, X: Array, U: Array) -> tuple[Array, Array]:
        """dx/dt (n, nx) and its derivatives by (x, u), (n, nx, nx + nu), at n points."""
        n, nq, nd, nk = self.nx, self.model.nq, self.model.nd, self.model.nk
        f, J = np.empty((len(X), n)), np.zeros((len(X), n, n + self.nu))
        f[:, :nq] = X[:, nq:]
        J[:, np.arange(nq), nq + np.arange(nq)] = 1.0
        J[:, nq + nd + np.arange(nk), n + self.model.nu + np.arange(nk)] = 1.0
        for k in range(len(X)):
            f[k, nq:], _, J[k, nq : nq + nd], _, ok = self._core.acceleration_first(*self._split(X[k], U[k]))
            if not ok:
                raise ConvergenceError(UNDETERMINED)
        return f, J

    def _contracted(self, X: Array, U: Array, Z: Array) -> Array:
        """Second derivatives of z.f by (x, u), (n, nx + nu, nx + nu), at n points."""
        dynamic = slice(self.model.nq, self.model.nq + self.model.nd)
        second = self._core.acceleration_second
        terms = [
            np.einsum("iaj,a->ij", second(*self._split(x, u))[0], z[dynamic]) for x, u, z in zip(X, U, Z, strict=True)
        ]
        return np.array(terms)

    def linearize_trajectory(self, X: Array, U: Array) -> tuple[Array, Array]:
        """A (n, nx, nx), B (n, nx, nu) of dx/dt at the nodes (X, U)."""
        _, J = self._rates(X, U)
        return np.ascontiguousarray(J[:, :, : self.nx]), np.ascontiguousarray(J[:, :, self.nx :])

    def second_order_trajectory(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z.f at the nodes (X, U, Z): blocks xx, xu, uu."""
        return _blocks(self._contracted(X, U, Z), self.nx)

    # ---- the RK4 step as a discrete system of w = (x, u)

    def _stages(self, X: Array, U: Array) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
        """At each stage of every step: x, u, the derivatives of f there by (x, u), and those of (x, u) and of f by
        (x_k, u_k, u_{k+1})."""
        n, m, h = self.nx, self.nu, self.dt[:, None]
        eye = np.eye(n + 2 * m)
        first, last = eye[n : n + m], eye[n + m :]
        f, F = np.zeros((len(h), n)), np.zeros((len(h), n, n + 2 * m))
        for c, _ in STAGES:
            x, u = X[:-1] + c * h * f, (1 - c) * U[:-1] + c * U[1:]
            by = np.empty((len(h), n + m, n + 2 * m))
            by[:, :n] = eye[:n] + c * h[:, :, None] * F
            by[:, n:] = (1 - c) * first + c * last
            f, J = self._rates(x, u)
            F = J @ by
            yield x, u, J, by, F

    def linearize_steps(self, X: Array, U: Array) -> tuple[Array, Array]:
        """Exact A (N, nx + nu, nx + nu), B (N, nx + nu, nu) of the RK4 step from every node (x_k, u_k) of X, U
        with the next input."""
        n, m = self.nx, self.nu
        A, B = np.zeros((self.steps, n + m, n + m)), np.zeros((self.steps, n + m, m))
        B[:, n:] = np.eye(m)
        step = np.zeros((self.steps, n, n + 2 * m))
        for (_, b), stage in zip(STAGES, self._stages(X, U), strict=True):
            step += b * self.dt[:, None, None] * stage[-1]
        A[:, :n], B[:, :n] = step[:, :, : n + m], step[:, :, n + m :]
        A[:, :n, :n] += np.eye(n)
        return A, B

    def second_order_steps(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives along X, U of z . (that step), Z (N, nx + nu): f at every stage, contracted with the stage's adjoint."""
        n, h, z = self.nx, self.dt[:, None], Z[:, : self.nx]
        H = np.zeros((self.steps, n + 2 * self.nu, n + 2 * self.nu))
        later = np.zeros_like(z)
        for (c, b), (x, u, J, by, _) in zip(STAGES[::-1], list(self._stages(X, U))[::-1], strict=True):
            adjoint = b * h * z + later
            H += by.swapaxes(1, 2) @ self._contracted(x, u, adjoint) @ by
            later = c * h * np.matmul(adjoint[:, None, :], J[:, :, :n])[:, 0]
        return _blocks(H, n + self.nu)

    # ---- motions

    def _step(self, k: int, x: Array, u: Array, end: Array) -> Array:
        """x at the end of step k, in which the input goes from u to `end` on a line."""
        h = self.dt[k]
        if self.integrator != "rk4":
            t = self.t[k : k + 2]
            return self._ivp(lambda time, y: self.f(y, u + (time - t[0]) / h * (end - u)), t, x)[-1]
        middle = (u + end) / 2
        k1 = self.f(x, u)
        k2 = self.f(x + h / 2 * k1, middle)
        k3 = self.f(x + h / 2 * k2, middle)
        k4 = self.f(x + h * k3, end)
        return x + h / 6 * (k1 + 2 * (k2 + k3) + k4)

    def project(self, X: Array, U: Array, K: Array) -> tuple[Array, Array]:
        """Closed loop u_{k+1} = U_{k+1} - K_k (w_k - W_k) of w = (x, u), K (N, nu, nx + nu), from (X_0, U_0).

        A motion is its own projection. Raises ConvergenceError if the motion is not finite.
        """
        n = self.nx
        W = np.hstack([X, U])
        out = np.empty_like(W)
        out[0] = w = W[0]
        with np.errstate(all="ignore"):
            for k in range(self.steps):
                u = U[k + 1] - K[k] @ (w - W[k])
                x = self._step(k, w[:n], w[n:], u)
                if not np.abs(x).max() < 1e10:
                    raise ConvergenceError("the motion leaves all bounds")
                w = out[k + 1]
                w[:n], w[n:] = x, u
        return np.ascontiguousarray(out[:, :n]), np.ascontiguousarray(out[:, n:])

    def simulate(self, x0: object, U: Array) -> Array:
        """Open-loop motion (N+1, nx) from x0 under U (N+1, nu)."""
        X = np.tile(np.asarray(x0, dtype=float), (self.steps + 1, 1))
        return self.project(X, U, np.zeros((self.steps, self.nu, self.nx + self.nu)))[0]

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

    def integrate(self, rhs: Rhs, data: Array, y0: Array) -> Array:
        """Integrate dy/dt = rhs(data(t), y) back from y0 at the end; data (N+1, n) are linear between the nodes.

        Returns y at the nodes; raises IndefiniteModel if it escapes.
        """
        t = self.t
        y = np.empty((len(t), *y0.shape))
        y[-1] = y0
        with np.errstate(all="ignore"):
            if self.integrator == "rk4":
                middle = (data[:-1] + data[1:]) / 2
                for k in reversed(range(self.steps)):
                    h, end = -self.dt[k], y[k + 1]
                    k1 = rhs(data[k + 1], end)
                    k2 = rhs(middle[k], end + h / 2 * k1)
                    k3 = rhs(middle[k], end + h / 2 * k2)
                    k4 = rhs(data[k], end + h * k3)
                    y[k] = end + h / 6 * (k1 + 2 * (k2 + k3) + k4)
            else:

                def at(time: float, state: Array) -> Array:
                    k = min(int(np.searchsorted(t, time, side="right")), self.steps) - 1
                    now = data[k] + (time - t[k]) / self.dt[k] * (data[k + 1] - data[k])
                    return rhs(now, state.reshape(y0.shape)).ravel()

                try:
                    y = self._ivp(at, t[::-1], y0.ravel())[::-1].reshape(y.shape)
                except ConvergenceError as error:
                    raise IndefiniteModel(str(error)) from None
        if not np.isfinite(y).all():
            raise IndefiniteModel("an equation along the motion diverges")
        return y

    def trajectory(self, X: Array, U: Array) -> Any:
        """The motion X, U as plain arrays by name: namespace with t, q, v, u."""
        nq = self.model.nq
        return SimpleNamespace(model=self.model, t=self.t, q=X[:, :nq], v=X[:, nq:], u=U)

    def curve(self, trajectory: Any) -> tuple[Array, Array]:
        """States and inputs at the nodes from a `trajectory`: q by interpolation, v as the slope of a cubic spline."""
        from scipy.interpolate import CubicSpline

        spline = CubicSpline(np.asarray(trajectory.t), np.asarray(trajectory.q), axis=0)
        X = np.hstack([spline(self.t), spline(self.t, 1)])
        times, forces = np.asarray(trajectory.t), np.asarray(trajectory.u)
        middle = (times[:-1] + times[1:]) / 2 if len(forces) == len(times) - 1 else times
        U = np.zeros((len(self.t), self.nu))
        for i in range(self.model.nu):
            U[:, i] = np.interp(self.t, middle, forces[:, i])
        U[:, self.model.nu :] = spline(self.t, 2)[:, self.model.nd :]
        return X, U

    def optimization_problem(self, cost: BoundCost, **options: Any) -> Continuous:
        """The problem with a `cost` that `optimize` works on."""
        return Continuous(self, cost, **options)


class Continuous(Discrete):
    """The optimization problem in continuous time: that of the scheme's discrete system w = (x, u), with gains and the
    directions of "steepest" and "quasi" from differential Riccati equations.

    `Point` has the derivatives of the discrete system; X, U and directions are curves (N+1, nx), (N+1, nu).

    >>> Continuous.__name__
    'Continuous'
    """

    system: ContinuousSystem

    def __init__(
        self, system: ContinuousSystem, cost: BoundCost, *, weights: Any = None, gains: str = "lqr", free: Any = None
    ) -> None:
        nx, nu = system.nx, system.nu
        Qp, Rp = (1.0, 1.0) if weights is None else weights
        weights = weight_matrix(Qp, nx, "projection Q"), weight_matrix(Rp, nu, "projection R")
        self._rate, self._nodes = cost, _NodeCost(cost, system.dt)
        self._free_x = np.zeros(nx, dtype=bool) if free is None else free
        # the first input is free: every other one is the choice of the step before it
        every = np.append(self._free_x, np.ones(nu, dtype=bool))
        super().__init__(system, self._nodes, weights=weights, gains=gains, free=every)

    def model(self, p: Point, method: str, scale: float = 1.0) -> Hessian:
        """See Discrete.model; "steepest" is the norm of curves."""
        if method != "steepest":
            return super().model(p, method, scale)
        n, m = self.system.nx, self.system.nu
        Q = self._nodes.weights[:, None, None] * np.eye(n + m)
        Q[-1, :n, :n] += np.eye(n)
        return Q, None, np.zeros((len(p.B), m, m))

    def _rate_model(self, p: Point, method: str) -> tuple[Array, Array, Array, Array]:
        """Q, S, R per second at the nodes and the final Q."""
        count, n, m = len(p.X), self.system.nx, self.system.nu
        none = np.zeros((count, n, m))
        if method == "steepest":
            return np.tile(np.eye(n), (count, 1, 1)), none, np.tile(np.eye(m), (count, 1, 1)), np.eye(n)
        Q, S, R = self._rate.hessian(np.vstack([p.X, p.X[-1:]]), p.U)
        return Q[:-1], none if S is None else S, R, Q[-1]

    def direction(self, p: Point, method: str, scale: float = 1.0) -> Direction:
        """See Discrete.direction."""
        n = self.system.nx
        if method == "newton":
            d = super().direction(p, method, scale)
            return replace(d, dX=np.ascontiguousarray(d.dX[:, :n]), dU=np.ascontiguousarray(d.dX[:, n:]))
        if method == "quasi" and p.quasi is not None:
            return p.quasi
        # K and P of the differential Riccati equation. The model is then about a constant plus half the sum of
        # |du + K dx|^2 in the norm `weights R`, and in these deviations from the feedback the direction goes down the
        # exact gradient of the cost: never uphill, and zero only at an optimum
        Q, S, R, Qf = self._rate_model(p, method)
        K, P = self._riccati(p.X, p.U, Q, S, R, Qf)
        law, inner = self._law(p.A, p.B, K)
        b = sweep_back(p.A, p.B, law, p.lx, p.lu)
        norm = self._nodes.weights[:, None, None] * R
        c = _solve(inner.swapaxes(1, 2), p.B.swapaxes(1, 2) @ b[1:, :, None])
        c = _solve(inner, _solve(norm[1:], c))[:, :, 0]
        start = np.zeros(p.A.shape[1])
        i = np.flatnonzero(self._free_x)
        if len(i):
            block = P[0][np.ix_(i, i)]
            if np.linalg.eigvalsh(block).min() <= 0:
                raise IndefiniteModel("the model is indefinite in the initial state")
            start[i] = -np.linalg.solve(block, (b[0, :n] - b[0, n:] @ K[0])[i])
        start[n:] = -K[0] @ start[:n] - np.linalg.solve(norm[0], b[0, n:])
        with np.errstate(all="ignore"):
            dW, _ = tangent_motion(p.A, p.B, LQ(law, c), start)
            slope = float((p.lx * dW).sum())
        if not np.isfinite(slope):
            raise IndefiniteModel("the descent direction is not finite")
        d = Direction(method, np.ascontiguousarray(dW[:, :n]), np.ascontiguousarray(dW[:, n:]), slope, law)
        if method == "quasi":
            p.quasi = d
        return d

    def curvature(self, p: Point, d: Direction, method: str = "newton") -> float:
        """q(d, d) of a model; for "newton" this is D2g.(d, d)."""
        return super().curvature(p, replace(d, dX=np.hstack([d.dX, d.dU]), dU=d.dU[1:]), method)

    def downward(self, p: Point) -> Direction | None:
        """Not looked for in continuous time."""
        return None

    # ---- the system

    def _linearize(self, X: Array, U: Array) -> tuple[Array, Array]:
        A, B = self.system.linearize_steps(X, U)
        return A, B

    def _second(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        xx, xu, uu = self.system.second_order_steps(X, U, Z)
        return xx, xu, uu

    def no_gains(self) -> Array:
        """A feedback that does nothing."""
        return np.zeros((self.system.steps, self.system.nu, self.system.nx + self.system.nu))

    def _lqr(self, X: Array, U: Array, A: Array, B: Array) -> Array:
        n, m, count = self.system.nx, self.system.nu, len(X)
        Q, R = np.broadcast_to(self._Qp, (count, n, n)), np.broadcast_to(self._Rp, (count, m, m))
        return self._law(A, B, self._riccati(X, U, Q, np.zeros((count, n, m)), R, self._Qp)[0])[0]

    def _law(self, A: Array, B: Array, K: Array) -> tuple[Array, Array]:
        """The feedback du = -K dx at the nodes as one of the discrete system, (N, nu, nx + nu).

        The next input acts on the next state: du_{k+1} = -K_{k+1} (A dw_k + B du_{k+1}), or with the matrix 1 + K B,
        which is returned too, du_{k+1} = -(1 + K B)^-1 K A dw_k.
        """
        n, K = self.system.nx, K[1:]
        inner = np.eye(self.system.nu) + K @ B[:, :n]
        try:
            law = _solve(inner, K @ A[:, :n])
        except np.linalg.LinAlgError:
            raise IndefiniteModel("the gains are too high for steps of this length") from None
        return law, inner

    def _riccati(self, X: Array, U: Array, Q: Array, S: Array, R: Array, Qf: Array) -> tuple[Array, Array]:
        """-P' = Q + A'P + PA - K'RK along a motion, K = R^-1 (S + PB)': K (N+1, nu, nx) and P at the nodes."""
        self.sweeps += 1
        A, B = self.system.linearize_trajectory(X, U)
        n, count = A.shape[1], len(A)
        try:
            np.linalg.cholesky(R)
        except np.linalg.LinAlgError:
            raise IndefiniteModel("R is not positive definite") from None
        Ri = np.linalg.inv(R)
        RB, RS = Ri @ B.swapaxes(1, 2), Ri @ S.swapaxes(1, 2)
        # completing the square takes S and R out of the loop
        data = np.concatenate([a.reshape(count, n * n) for a in (A - B @ RS, Q - S @ RS, B @ RB)], axis=1)

        def rhs(d: Array, P: Array) -> Array:
            a, q, w = d.reshape(3, n, n)
            PA = P @ a
            return P @ w @ P - PA - PA.T - q

        P = self.system.integrate(rhs, data, Qf)
        K = RB @ P + RS
        if not np.isfinite(K).all() or np.abs(K).max() > 1e12:
            raise IndefiniteModel("the Riccati equation escapes")
        return K, P


class _NodeCost:
    """A cost per second at the nodes, with a final cost, as the sum of trapezoids and a cost of w = (x, u)."""

    def __init__(self, cost: BoundCost, dt: Array) -> None:
        self._cost = cost
        self.weights = (np.append(0.0, dt) + np.append(dt, 0.0)) / 2

    def values(self, X: Array, U: Array) -> Array:
        """Cost of every node, and of the final state: (N+2,)."""
        return np.append(self.weights, 1.0) * self._cost.values(np.vstack([X, X[-1:]]), U)

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        """By w, (N+1, nx + nu), and by the next input, which has no cost before it is one."""
        lx, lu = self._cost.gradient(np.vstack([X, X[-1:]]), U)
        out = self.weights[:, None] * np.hstack([lx[:-1], lu])
        out[-1, : lx.shape[1]] += lx[-1]
        return out, np.zeros_like(U[1:])

    def hessian(self, X: Array, U: Array) -> Hessian:
        """Second derivatives by w, (N+1, nx + nu, nx + nu)."""
        n, m = X.shape[1], U.shape[1]
        Q, S, R = self._cost.hessian(np.vstack([X, X[-1:]]), U)
        out = np.zeros((len(X), n + m, n + m))
        out[:, :n, :n], out[:, n:, n:] = Q[:-1], R
        if S is not None:
            out[:, :n, n:], out[:, n:, :n] = S, S.swapaxes(1, 2)
        out *= self.weights[:, None, None]
        out[-1, :n, :n] += Q[-1]
        return out, None, np.zeros((len(X) - 1, m, m))


def _blocks(H: Array, n: int) -> tuple[Array, Array, Array]:
    return H[:, :n, :n].copy(), H[:, :n, n:].copy(), H[:, n:, n:].copy()


def _solve(A: Array, b: Array) -> Array:
    return np.asarray(np.linalg.solve(A, b), dtype=np.float64)
