"""System: the one-step map x' = f(x, u, k) that control, estimation and optimization see (Embedded control synthesis, eq. 8).

x = (q: dynamic then kinematic, p, v_rho), u = (inputs, next kinematic values). Kinematic velocities are finite differences:
v_rho' = (rho' - rho)/dt. All derivatives are exact, of the discrete step, computed in the core.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from .arrays import Array, floats, matrix, whole
from .errors import ConvergenceError
from .integrate.midpoint import MidpointVI
from .integrate.trajectory import State, Trajectory


class System:
    """The discrete control system of an integrator over N steps: `System(vi, steps=N)` or `System(vi, t=times (N+1,))`.

    >>> import dalembert as da
    >>> m = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> sys = da.System(da.MidpointVI(m, dt=0.1, forcing="left"), steps=10)
    >>> A, B = sys.linearize([0.2, 0.5], [0.8], 0)
    >>> A.round(8)
    array([[ 0.95333434,  0.09766672],
           [-0.93331323,  0.95333434]])
    """

    def __init__(self, vi: MidpointVI, *, steps: int | None = None, t: ArrayLike | None = None) -> None:
        if not isinstance(vi, MidpointVI):
            raise TypeError(f"System needs a MidpointVI, not {type(vi).__name__}")
        self.vi = vi
        self.model = vi.model
        times: Array
        if t is not None:
            times = floats(t, "t")
            if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
                raise ValueError("t must be an increasing array of at least two times")
            if steps is not None and steps != len(times) - 1:
                raise ValueError(f"steps = {steps} does not match t with {len(times)} times")
        elif isinstance(vi.dt, float):
            if steps is None:
                raise ValueError("give steps= or t=")
            if whole(steps, "steps") < 1:
                raise ValueError(f"steps must be a positive whole number, not {steps}")
            times = vi.dt * np.arange(int(steps) + 1, dtype=np.float64)
        else:
            lengths = vi._steps(steps, None)
            if not len(lengths):
                raise ValueError(f"steps must be a positive whole number, not {steps}")
            times = np.concatenate([[0.0], np.cumsum(lengths)])
        self.t: Array = times
        uniform = isinstance(vi.dt, float) and np.allclose(np.diff(times), vi.dt, rtol=1e-12, atol=0)
        # equal steps must be equal to the last bit: the predictor and the user rely on it
        self.dt: Array = np.full(len(times) - 1, vi.dt) if uniform else np.diff(times)
        self.scheme = vi.scheme if uniform else replace(vi.scheme, dt=None)
        if vi.order != 2:
            raise NotImplementedError(f"a System of order {vi.order}")
        self.steps = len(times) - 1
        m = self.model
        self.nx = m.nq + m.nd + m.nk
        self.nu = m.nu + m.nk
        self.x_names = (*m.variables, *(f"p.{n}" for n in m.dynamic), *(f"v.{n}" for n in m.kinematic))
        self.u_names = (*m.inputs, *m.kinematic)

    def __repr__(self) -> str:
        return f"System of {self.model.name!r}: {self.nx} states, {self.nu} inputs, {self.steps} steps"

    # ---- states

    def state(self, x: ArrayLike, k: int = 0) -> State:
        """State of the integrator that belongs to a state vector x at step k."""
        y = self._x(x)
        m = self.model
        return State(float(self.t[k]), y[: m.nq], y[m.nq : m.nq + m.nd], np.zeros(m.nc))

    def x(self, q: Any = None, *, p: Any = None, v: Any = None, v_rho: ArrayLike | None = None) -> Array:
        """State vector from q with p or v (as `MidpointVI.state`) and the kinematic velocities (default 0)."""
        s = self.vi.state(q, p=p, v=v)
        rate = np.zeros(self.model.nk) if v_rho is None else matrix(v_rho, (self.model.nk,), "v_rho")
        return np.concatenate([s.q, s.p, rate])

    def _x(self, x: ArrayLike, what: str = "x") -> Array:
        return matrix(x, (self.nx,), what)

    def _xu(self, x: ArrayLike, u: ArrayLike, k: int) -> tuple[Array, Array, float]:
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool):
            raise TypeError(f"the step k must be a whole number, not {k!r}")
        if not 0 <= k < self.steps:
            raise ValueError(f"step {k} is outside of 0 ... {self.steps - 1}")
        return self._x(x), matrix(u, (self.nu,), "u"), float(self.dt[k])

    def _solve(self, x: Array, u: Array, k: int, guess: ArrayLike | None = None) -> tuple[Array, Array, Array]:
        """(q', p', lambda) of one step."""
        m = self.model
        y = x[: m.nq].copy() if guess is None else self._x(guess, "guess")[: m.nq].copy()
        y[m.nd :] = u[m.nu :]
        q, p, lam, _, status, error = self.vi._core.step(
            self.vi.options, self.dt[k], x[: m.nq], x[m.nq : m.nq + m.nd], u[: m.nu], y, np.zeros(m.nc)
        )
        if status:
            self.vi._fail(status, error, k, float(self.t[k]), self.state(x, k), None)
        return q, p, lam

    # ---- the map

    def f(self, x: ArrayLike, u: ArrayLike, k: int = 0, *, guess: ArrayLike | None = None) -> Array:
        """x' (nx,) after step k from x with input u; `guess` (nx,) starts Newton nearer."""
        y, w, dt = self._xu(x, u, k)
        m = self.model
        q, p, _ = self._solve(y, w, k, guess)
        return np.concatenate([q, p, (w[m.nu :] - y[m.nd : m.nq]) / dt])

    def simulate(self, x0: ArrayLike, U: ArrayLike) -> Array:
        """X (N+1, nx) from x0 under the inputs U (N, nu)."""
        y, w = self._x(x0, "x0"), matrix(U, (self.steps, self.nu), "U")
        m = self.model
        q, p, _, _, done, status, error, stop = self.vi._core.simulate(
            self.vi.options,
            y[: m.nq],
            y[m.nq : m.nq + m.nd],
            self.dt,
            np.ascontiguousarray(w[:, : m.nu]),
            np.ascontiguousarray(w[:, m.nu :]),
            1,
        )
        if stop:
            raise KeyboardInterrupt
        rate = np.vstack([y[m.nq + m.nd :], np.diff(q[:, m.nd :], axis=0) / self.dt[:, None]])
        X = np.hstack([q, p, rate])
        if status:
            traj = self.trajectory(X[: done + 1], w[:done])
            self.vi._fail(status, error, done, float(self.t[done]), self.state(X[done], done), traj)
        return X

    def project(self, X: ArrayLike, U: ArrayLike, K: ArrayLike, x0: ArrayLike | None = None) -> tuple[Array, Array]:
        """Closed loop around (X, U): u_k = U_k - K_k (x_k - X_k), from X_0 (or x0). Returns a feasible (X, U).

        Raises ConvergenceError with the trajectory so far when a step fails.
        """
        ref = matrix(X, (self.steps + 1, self.nx), "X")
        ins = matrix(U, (self.steps, self.nu), "U")
        gains = matrix(K, (self.steps, self.nu, self.nx), "K")
        start = ref[0] if x0 is None else self._x(x0, "x0")
        new, u, done, status, error = self.vi._core.project(
            self.vi.options, np.ascontiguousarray(start), ref, ins, gains, self.dt
        )
        if status:
            traj = self.trajectory(new[: done + 1], u[:done])
            self.vi._fail(status, error, done, float(self.t[done]), self.state(new[done], done), traj)
        return new, u

    # ---- first order

    def linearize(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> tuple[Array, Array]:
        """Exact A (nx, nx), B (nx, nu) of f at (x, u)."""
        y, w, dt = self._xu(x, u, k)
        A, B, bad, code = self.vi._core.linearize_trajectory(
            self.vi.options, np.stack([y, y]), w[None], np.array([dt]), None, 1
        )
        if bad == 0:
            self._refuse(code, 0, y)
        return A[0], B[0]

    def linearize_trajectory(self, X: ArrayLike, U: ArrayLike, *, threads: int | None = None) -> tuple[Array, Array]:
        """A (N, nx, nx), B (N, nx, nu) of f at every (X_k, U_k); threads over the steps."""
        ref, ins = self._along(X, U)
        A, B, bad, code = self.vi._core.linearize_trajectory(
            self.vi.options, ref, ins, self.dt, None, _threads(threads, self.steps, self.nx)
        )
        if bad < self.steps:
            self._refuse(code, bad, ref[bad])
        return A, B

    def _along(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array]:
        return matrix(X, (self.steps + 1, self.nx), "X"), matrix(U, (self.steps, self.nu), "U")

    def _refuse(self, code: int, k: int, x: Array) -> None:
        if code == 3:
            raise ConvergenceError(
                f"the step at k = {k} cannot be linearized: its Newton matrix is singular",
                step=k,
                state=self.state(x, k),
            )
        self.vi._fail(code, float("nan") if code == 2 else 1e290, k, float(self.t[k]), self.state(x, k), None)

    def adjoint(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array]:
        """(A^T z, B^T z) without forming A and B; z (nx,)."""
        y, w, dt = self._xu(x, u, k)
        c = self._x(z, "z")
        m = self.model
        nq, nd, nu = m.nq, m.nd, m.nu
        q, _, lam = self._solve(y, w, k)
        g, ok = self.vi._core.adjoint(
            self.vi.options, dt, y[:nq], y[nq : nq + nd], w[:nu], q, lam, c[:nd], c[nq : nq + nd], np.zeros(m.nc)
        )
        if not ok:
            self._refuse(3, k, y)
        az, bz = np.zeros(self.nx), np.zeros(self.nu)
        az[: nq + nd], bz[:] = g[: nq + nd], g[nq + nd :]
        rate = c[nq + nd :] / dt
        az[nd:nq] -= rate
        bz[nu:] += c[nd:nq] + rate
        _not_overflown(z, az, bz)
        return az, bz

    def derivatives(self, x: ArrayLike, u: ArrayLike, k: int = 0, *, with_dt: bool = False) -> dict[str, Array]:
        """Derivatives of q' (nd rows), p' (nd rows) and lambda (nc rows) by w = (q, p, u, rho'), and by dt as a last column if asked for."""
        y, w, dt = self._xu(x, u, k)
        m = self.model
        q, _, lam = self._solve(y, w, k)
        Y, P, L, ok = self.vi._core.derivatives(
            self.vi.options, dt, y[: m.nq], y[m.nq : m.nq + m.nd], w[: m.nu], q, lam, with_dt
        )
        if not ok:
            self._refuse(3, k, y)
        return {"q": Y, "p": P, "lam": L}

    # ---- second order

    def second_order(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f: (xx (nx, nx), xu (nx, nu), uu (nu, nu))."""
        y, w, dt = self._xu(x, u, k)
        xx, xu, uu, bad, code = self.vi._core.second_order_trajectory(
            self.vi.options, np.stack([y, y]), w[None], np.array([dt]), self._x(z, "z")[None], 1
        )
        if bad == 0:
            self._refuse(code, k, y)
        _not_overflown(z, xx, xu, uu)
        return xx[0], xu[0], uu[0]

    def second_order_trajectory(
        self, X: ArrayLike, U: ArrayLike, Z: ArrayLike, *, threads: int | None = None
    ) -> tuple[Array, Array, Array]:
        """The same at every step with costates Z (N, nx): (N, nx, nx), (N, nx, nu), (N, nu, nu)."""
        ref, ins = self._along(X, U)
        costates = matrix(Z, (self.steps, self.nx), "Z")
        xx, xu, uu, bad, code = self.vi._core.second_order_trajectory(
            self.vi.options, ref, ins, self.dt, costates, _threads(threads, self.steps, self.nx)
        )
        if bad < self.steps:
            self._refuse(code, bad, ref[bad])
        _not_overflown(Z, xx, xu, uu)
        return xx, xu, uu

    def second_derivatives(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> dict[str, Array]:
        """Full tensors of q' (nd, nw, nw), p' (nd, nw, nw), lambda (nc, nw, nw) by w = (q, p, u, rho')."""
        y, w, dt = self._xu(x, u, k)
        m = self.model
        q, _, lam = self._solve(y, w, k)
        unit = np.eye(2 * m.nd + m.nc)
        H, ok = self.vi._core.second_order(
            self.vi.options, dt, y[: m.nq], y[m.nq : m.nq + m.nd], w[: m.nu], q, lam, unit
        )
        if not ok:
            self._refuse(3, k, y)
        return {"q": H[: m.nd], "p": H[m.nd : 2 * m.nd], "lam": H[2 * m.nd :]}

    # ---- trajectories

    def trajectory(self, X: ArrayLike, U: ArrayLike) -> Trajectory:
        """Trajectory of states X (n+1, nx) and inputs U (n, nu); the multipliers are those of the steps between given states."""
        m = self.model
        ref = matrix(X, (-1, self.nx), "X")
        ins = matrix(U, (len(ref) - 1, self.nu), "U")
        n = len(ins)
        if n > self.steps:
            raise ValueError(f"X has {n} steps, the system {self.steps}")
        lam = np.zeros((n, m.nc))
        if m.nc:
            for k in range(n):
                guess = ref[k + 1]
                try:
                    lam[k] = self._solve(ref[k], ins[k], k, guess)[2]
                except ConvergenceError:
                    break
        q = ref[:, : m.nq]
        return Trajectory(
            m,
            self.t[: n + 1],
            q,
            ref[:, m.nq : m.nq + m.nd],
            ins[:, : m.nu],
            ins[:, m.nu :],
            lam,
            np.zeros(n, dtype=np.int64),
            scheme=self.scheme,
        )

    def from_trajectory(self, traj: Trajectory, *, project: bool = False) -> tuple[Array, Array]:
        """(X (N+1, nx), U (N, nu)) of a motion of this system, with the same steps.

        A trajectory of another scheme (order, alpha, forcing, lengths of steps) is not a motion of this system: ValueError, unless `project`,
        which gives the motion that follows it under a regulator of unit weights. One that does not say what made it is checked
        step by step. `curve` takes any trajectory as it is.
        """
        X, U = self.curve(traj)
        why = self._foreign(traj)
        if not why and (traj.scheme is None or traj.scheme.forcing is None):
            why = self._not_a_motion(X, U)
        if not why:
            return X, U
        if not project:
            raise ValueError(
                f"the trajectory is not a motion of this system ({self.scheme}): {why}; from_trajectory(..., project=True) gives the "
                "motion that follows it, curve(...) its states as they are"
            )
        A, B = self.linearize_trajectory(X, U)
        K, *_ = _core.riccati(A, B, np.eye(self.nx), np.eye(self.nu), np.eye(self.nx), self.steps, cost_to_go=False)
        return self.project(X, U, K)

    def curve(self, traj: Trajectory) -> tuple[Array, Array]:
        """(X (N+1, nx), U (N, nu)) of any trajectory with as many steps and the same variables, whatever made it."""
        m = self.model
        if not isinstance(traj, Trajectory):
            raise TypeError(f"a Trajectory is needed, not {type(traj).__name__}")
        if traj.steps != self.steps:
            raise ValueError(f"the trajectory has {traj.steps} steps, the system {self.steps}")
        if (traj.model.dynamic, traj.model.kinematic, traj.model.nu) != (m.dynamic, m.kinematic, m.nu):
            raise ValueError(
                f"the trajectory is of {traj.model.name!r}, whose variables or inputs are not the system's"
            )
        rate = np.diff(traj.q[:, m.nd :], axis=0) / self.dt[:, None] if m.nk else np.zeros((self.steps, 0))
        first = np.zeros((1, m.nk))
        return np.hstack([traj.q, traj.p, np.vstack([first, rate])]), np.hstack([traj.u, traj.rho])

    def _foreign(self, traj: Trajectory) -> str:
        """Why a trajectory cannot be a motion of this system, from what it says about itself; empty if it can."""
        made = traj.scheme
        if not np.allclose(traj.dt, self.dt, rtol=1e-9, atol=1e-9 * float(self.dt.min())):
            return "its steps have other lengths"
        if made is None:
            return ""
        if made.forcing is not None and not made.same_equations(self.scheme):
            return f"it was made by {made}"
        if made.dt is not None and not np.allclose(made.dt, self.dt, rtol=1e-9, atol=0):
            return f"it was made by {made}, and not every state was kept"
        return ""

    def _not_a_motion(self, X: Array, U: Array) -> str:
        """Where a curve leaves the motions of the system: empty if it is one."""
        for k in range(self.steps):
            try:
                gap = self.f(X[k], U[k], k, guess=X[k + 1]) - X[k + 1]
            except ConvergenceError:
                return f"it does not say what made it, and step {k} has no solution"
            if np.abs(gap).max() > 1e-6 * max(1.0, float(np.abs(X[k + 1]).max())):
                worst = self.x_names[int(np.abs(gap).argmax())]
                return f"it does not say what made it, and step {k} misses its next state by {np.abs(gap).max():.2g} in '{worst}'"
        return ""


def _not_overflown(z: Any, *results: Array) -> None:
    """Costates may be so large that their products overflow; a sum finds that for little."""
    with np.errstate(over="ignore", invalid="ignore"):
        if all(math.isfinite(r.sum()) for r in results):
            return
    if not all(np.isfinite(r).all() for r in results):
        raise ValueError(f"the derivatives overflow: the costates are as large as {np.abs(np.asarray(z)).max():.3g}")


def _threads(threads: int | None, steps: int, nx: int) -> int:
    """Threads pay only for enough work: a step costs about nx^2 multiply-adds times a constant."""
    if threads is not None:
        return threads
    return min(os.cpu_count() or 1, 1 + steps * nx * nx // 200_000)
