"""DSystem: the integrator as x(k+1) = f(x(k), u(k), k), with x = (q, p, v of kinematic variables), u = (forces, rho)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import integrate
from ... import system as one_step
from ..trajectory import load_trajectory, save_trajectory
from .dlqr import series, solve_tv_lqr

if TYPE_CHECKING:
    from ..midpointvi import MidpointVI
    from ..system import System

Array = NDArray[np.float64]


class DSystem:
    """Discrete system of an integrator over the times t (N+1,).

    >>> import dalembert.trep as trep, dalembert.trep.discopt as discopt
    >>> system = trep.System()
    >>> system.import_frames([trep.rz("theta"), [trep.ty(-1.0, mass=1.0)]])
    >>> elements = trep.potentials.Gravity(system, (0, -9.8, 0)), trep.forces.ConfigForce(system, "theta", "tau")
    >>> dsys = discopt.DSystem(trep.MidpointVI(system), np.array([0, 0.1]))
    >>> dsys.set(np.array([0.2, 0.5]), np.array([0.8]), 0)
    >>> dsys.fdx().round(6)
    array([[ 0.953334,  0.097667],
           [-0.933313,  0.953334]])
    """

    def __init__(self, varint: MidpointVI, t: object) -> None:
        self.varint = varint
        self.time = t
        self._xk = np.zeros(self.nX)
        self._uk = np.zeros(self.nU)
        self._k = 0
        self._bulk: Any = None

    @property
    def system(self) -> System:
        """The mechanical system."""
        return self.varint.system

    @property
    def time(self) -> Array:
        """Times of the states, (N+1,)."""
        return self._time

    @time.setter
    def time(self, value: object) -> None:
        t = np.array(value, dtype=float)
        if t.ndim != 1 or len(t) < 2 or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
            raise ValueError("times must be an increasing array of at least two numbers")
        self._time = t
        self._bulk = None

    @property
    def nX(self) -> int:
        """Number of states."""
        s = self.system
        return s.nQ + s.nQd + s.nQk

    @property
    def nU(self) -> int:
        """Number of inputs."""
        return self.system.nu + self.system.nQk

    @property
    def xk(self) -> Array:
        """State that was set."""
        return self._xk.copy()

    @property
    def uk(self) -> Array:
        """Input that was set."""
        return self._uk.copy()

    @property
    def k(self) -> int:
        """Step that was set."""
        return self._k

    def kf(self) -> int:
        """Index of the last state."""
        return len(self._time) - 1

    # ---- parts of states and inputs

    def _part(self, value: Any, shape: tuple[int, ...], what: str, *, copy: bool = True) -> Array:
        if value is None:
            return np.zeros(shape)
        rows = np.array(value, dtype=float) if copy else np.asarray(value, dtype=float)
        if rows.shape != shape:
            raise ValueError(f"{what} has shape {rows.shape}, but {shape} is needed")
        return rows

    def _filled(self, value: Any, shape: tuple[int, ...], what: str) -> Array:
        """A part that is built: one number serves all of it, one row all times; zeros may stand for what is not there."""
        if value is None:
            return np.zeros(shape)
        rows = np.asarray(value, dtype=float)
        if rows.ndim < len(shape) and rows.shape == shape[len(shape) - rows.ndim :]:
            return np.broadcast_to(rows, shape).copy()
        if shape[-1] == 0 and rows.shape[:-1] == shape[:-1] and not rows.any():
            return np.zeros(shape)
        return self._part(rows, shape, what)

    def build_state(self, Q: object = None, p: object = None, v: object = None) -> Array:
        """State from its parts, arrays or one number for all of a part; missing ones are zero."""
        s = self.system
        parts = ((Q, s.nQ, "Q"), (p, s.nQd, "p"), (v, s.nQk, "v"))
        return np.concatenate([self._filled(x, (n,), what) for x, n, what in parts])

    def build_input(self, u: object = None, rho: object = None) -> Array:
        """Input from its parts, arrays or one number for all of a part; missing ones are zero."""
        s = self.system
        return np.concatenate([self._filled(u, (s.nu,), "u"), self._filled(rho, (s.nQk,), "rho")])

    def build_trajectory(
        self, Q: object = None, p: object = None, v: object = None, u: object = None, rho: object = None
    ) -> tuple[Array, Array]:
        """(X (N+1, nX), U (N, nU)) from parts: curves, one row for all times, or one number; missing ones are zero."""
        s, n = self.system, len(self._time)
        x = [self._filled(a, (n, m), what) for a, m, what in ((Q, s.nQ, "Q"), (p, s.nQd, "p"), (v, s.nQk, "v"))]
        w = [self._filled(a, (n - 1, m), what) for a, m, what in ((u, s.nu, "u"), (rho, s.nQk, "rho"))]
        return np.hstack(x), np.hstack(w)

    def split_state(self, X: object = None) -> tuple[Array, Array, Array]:
        """(Q, p, v) of a state."""
        s = self.system
        x = self._part(X, (self.nX,), "X")
        return x[: s.nQ], x[s.nQ : s.nQ + s.nQd], x[s.nQ + s.nQd :]

    def split_input(self, U: object = None) -> tuple[Array, Array]:
        """(u, rho) of an input."""
        u = self._part(U, (self.nU,), "U")
        return u[: self.system.nu], u[self.system.nu :]

    def split_trajectory(self, X: object = None, U: object = None) -> tuple[Array, Array, Array, Array, Array]:
        """(Q, p, v, u, rho) of a trajectory."""
        s, n = self.system, len(self._time)
        x, u = self._part(X, (n, self.nX), "X"), self._part(U, (n - 1, self.nU), "U")
        return x[:, : s.nQ], x[:, s.nQ : s.nQ + s.nQd], x[:, s.nQ + s.nQd :], u[:, : s.nu], u[:, s.nu :]

    def convert_trajectory(self, dsys_a: DSystem, X: object, U: object) -> tuple[Array, Array]:
        """A trajectory of another system for this one: variables and inputs by name, unknown ones dropped, new ones zero."""
        from ..trajectory import _names

        parts = dict(zip(("Q", "p", "v", "u", "rho"), dsys_a.split_trajectory(X, U), strict=True))
        theirs, ours = _names(dsys_a.system), _names(self.system)
        out = {}
        for key, rows in parts.items():
            new = np.zeros((len(rows), len(ours[key])))
            for i, name in enumerate(ours[key]):
                if name in theirs[key]:
                    new[:, i] = rows[:, theirs[key].index(name)]
            out[key] = new
        return self.build_trajectory(**out)

    def save_state_trajectory(self, filename: Any, X: Any = None, U: Any = None) -> None:
        """Write a trajectory to a file."""
        save_trajectory(filename, self.system, self._time, *self.split_trajectory(X, U))

    def load_state_trajectory(self, filename: Any) -> tuple[Array, Array]:
        """Read a trajectory from a file; the times become those of the file."""
        t, *parts = load_trajectory(filename, self.system)
        self.time = t
        return self.build_trajectory(*parts)

    # ---- one step

    def set(self, xk: object, uk: object, k: int, xk_hint: object = None, lambda_hint: object = None) -> None:
        """Set state, input and step; hints are guesses for the next state and the multipliers."""
        x, u = self._part(xk, (self.nX,), "xk"), self._part(uk, (self.nU,), "uk")
        if not 0 <= k < self.kf():
            raise ValueError(f"step {k} is outside of 0 ... {self.kf() - 1}")
        if not np.isfinite(u).all():
            raise ValueError("uk is not finite")
        s = self.system
        q, p = x[: s.nQ], x[s.nQ : s.nQ + s.nQd]
        self.varint.initialize_from_state(self._time[k], q, p, lambda_hint)
        guess = None if xk_hint is None else np.asarray(xk_hint, dtype=float)[: s.nQ]
        self.varint.step(self._time[k + 1], u[: s.nu], u[s.nu :], q2_hint=guess, lambda1_hint=lambda_hint)
        self._xk, self._uk, self._k = x, u, int(k)

    def step(self, uk: object, xk_hint: object = None, lambda_hint: object = None) -> None:
        """Go on to the next step with input uk."""
        self.set(self.f(), uk, self._k + 1, xk_hint, lambda_hint)

    def f(self) -> Array:
        """The next state."""
        v = self.varint
        v._arguments()  # there must be a step
        return np.concatenate([v._q2, v._p2, v.v2])

    def _sizes(self) -> tuple[int, int, int, int]:
        s = self.system
        return s.nQ, s.nQd, s.nQk, s.nu

    def fdx(self) -> Array:
        """df/dx, (nX, nX)."""
        nq, nd, nk, _ = self._sizes()
        d = self.varint._derivatives()
        out = np.zeros((self.nX, self.nX))
        out[:nd, : nq + nd] = d["q"][:, : nq + nd]
        out[nq : nq + nd, : nq + nd] = d["p"][:, : nq + nd]
        if nk:
            out[nq + nd :, nd:nq] = -np.eye(nk) / (self._time[self._k + 1] - self._time[self._k])
        return out

    def fdu(self) -> Array:
        """df/du, (nX, nU)."""
        nq, nd, nk, nu = self._sizes()
        d = self.varint._derivatives()
        out = np.zeros((self.nX, self.nU))
        out[:nd], out[nq : nq + nd] = d["q"][:, nq + nd :], d["p"][:, nq + nd :]
        if nk:
            out[nd:nq, nu:] = np.eye(nk)
            out[nq + nd :, nu:] = np.eye(nk) / (self._time[self._k + 1] - self._time[self._k])
        return out

    def _contracted(self, z: Any) -> Array:
        nq, nd, _, _ = self._sizes()
        c = np.asarray(z, dtype=float)
        if c.ndim == 1 and not c[self.nX :].any():  # scripts pass longer ones; zeros beyond the states lose nothing
            c = c[: self.nX]
        c = self._part(c, (self.nX,), "z")
        row = np.concatenate([c[:nd], c[nq : nq + nd], np.zeros(self.system.nc)])
        return self.varint._contracted(row[None])[0]

    def fdxdx(self, z: object) -> Array:
        """z . d2f/dx2, (nX, nX)."""
        nq, nd, _, _ = self._sizes()
        out = np.zeros((self.nX, self.nX))
        out[: nq + nd, : nq + nd] = self._contracted(z)[: nq + nd, : nq + nd]
        return out

    def fdxdu(self, z: object) -> Array:
        """z . d2f/dx du, (nX, nU)."""
        nq, nd, _, _ = self._sizes()
        out = np.zeros((self.nX, self.nU))
        out[: nq + nd] = self._contracted(z)[: nq + nd, nq + nd :]
        return out

    def fdudu(self, z: object) -> Array:
        """z . d2f/du2, (nU, nU)."""
        nq, nd, _, _ = self._sizes()
        return self._contracted(z)[nq + nd :, nq + nd :].copy()

    # ---- whole trajectories

    def _fast(self) -> tuple[Any, Any, Any] | None:
        """dalembert's System of the same steps, with the places of its states and inputs; None with user elements."""
        s = self.system
        if self._bulk is None or self._bulk[0] != s._version:
            dynamics = s._dynamics()
            found = None
            if not dynamics.user:
                nq, nd, nk, nu = self._sizes()
                vi = integrate.MidpointVI(dynamics.model, np.diff(self._time), forcing="left", max_iterations=200)
                x = np.concatenate([dynamics.q, nq + dynamics.d, nq + nd + np.arange(nk)])
                u = np.concatenate([dynamics.map.u, nu + np.arange(nk)])
                found = (one_step.System(vi, t=self._time), x, u)
            self._bulk = (s._version, found)
        found = self._bulk[1]
        if found is not None:
            found[0].one_step.options = s._dynamics().options(200, self.varint.tolerance)
        return found  # type: ignore[no-any-return]

    def _curves(self, X: Any, U: Any) -> tuple[Array, Array]:
        n = len(self._time)
        x, u = self._part(X, (n, self.nX), "X"), self._part(U, (n - 1, self.nU), "U")
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            raise ValueError("the trajectory is not finite")
        return x, u

    def linearize_trajectory(self, X: object, U: object) -> tuple[list[Array], list[Array]]:
        """(A, B) at every step; (X, U) need not be a motion of the system."""
        A, B = self._linearize(*self._curves(X, U))
        return list(A), list(B)

    def _linearize(self, X: Array, U: Array) -> tuple[Array, Array]:
        fast = self._fast()
        if fast is None:
            pairs = []
            for k in range(self.kf()):
                self.set(X[k], U[k], k, xk_hint=X[k + 1])
                pairs.append((self.fdx(), self.fdu()))
            return np.stack([a for a, _ in pairs]), np.stack([b for _, b in pairs])
        system, x, u = fast
        A, B = system.linearize_trajectory(X[:, x], U[:, u])
        n = len(A)
        if self.system._dynamics().plain:
            return A, B
        a, b = np.zeros((n, self.nX, self.nX)), np.zeros((n, self.nX, self.nU))
        a[np.ix_(np.arange(n), x, x)] = A
        b[np.ix_(np.arange(n), x, u)] = B
        return a, b

    def _second_order(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of f contracted with Z (N, nX) at every step."""
        n, nx, nu = len(U), self.nX, self.nU
        xx, xu, uu = np.zeros((n, nx, nx)), np.zeros((n, nx, nu)), np.zeros((n, nu, nu))
        fast = self._fast()
        if fast is None:
            for k in range(n):
                self.set(X[k], U[k], k, xk_hint=X[k + 1])
                xx[k], xu[k], uu[k] = self.fdxdx(Z[k]), self.fdxdu(Z[k]), self.fdudu(Z[k])
            return xx, xu, uu
        system, x, u = fast
        all_steps = np.arange(n)
        found = system.second_order_trajectory(X[:, x], U[:, u], Z[:, x])
        if self.system._dynamics().plain:
            return found  # type: ignore[no-any-return]
        for out, part, rows, columns in zip((xx, xu, uu), found, (x, x, u), (x, u, u), strict=True):
            out[np.ix_(all_steps, rows, columns)] = part
        return xx, xu, uu

    def project(self, bX: object, bU: object, Kproj: object = None) -> tuple[Array, Array]:
        """The motion that follows (bX, bU) under the feedback U = bU - K (X - bX), from bX[0]."""
        X, U = self._curves(bX, bU)
        K = self.calc_feedback_controller(X, U) if Kproj is None else Kproj
        gains = self._part(K, (self.kf(), self.nU, self.nX), "Kproj", copy=False)
        fast = self._fast()
        if fast is None:
            x, u = X.copy(), U.copy()
            for k in range(self.kf()):
                u[k] = U[k] - gains[k] @ (x[k] - X[k])
                self.set(x[k], u[k], k)
                x[k + 1] = self.f()
            return x, u
        system, at, to = fast
        if self.system._dynamics().plain:
            x, u = system.project(X, U, gains)
            return x, u
        x, u = np.empty_like(X), U.copy()
        found, inputs = system.project(X[:, at], U[:, to], gains[np.ix_(np.arange(len(U)), to, at)])
        x[:, at], u[:, to] = found, inputs
        return x, u

    def dproject(
        self, A: Sequence[Array] | Array, B: Sequence[Array] | Array, bdX: ArrayLike, bdU: ArrayLike, K: Array
    ) -> tuple[Array, Array]:
        """The tangent motion that follows (bdX, bdU): dU = bdU - K (dX - bdX), dX' = A dX + B dU."""
        bX, bU = np.array(bdX, dtype=float), np.array(bdU, dtype=float)
        dX, dU = np.zeros_like(bX), np.zeros_like(bU)
        dX[0] = bX[0]
        for k in range(len(bU)):
            dU[k] = bU[k] - K[k] @ (dX[k] - bX[k])
            dX[k + 1] = A[k] @ dX[k] + B[k] @ dU[k]
        return dX, dU

    def calc_feedback_controller(
        self, X: object, U: object, Q: object = None, R: object = None, return_linearization: bool = False
    ) -> Any:
        """LQR gains K along a trajectory (with A and B if asked for); Q(k), R(k) default to identity."""
        A, B = self.linearize_trajectory(X, U)
        n = len(A)
        q = series(np.eye(self.nX) if Q is None else Q, n + 1)
        r = series(np.eye(self.nU) if R is None else R, n)
        K, _ = solve_tv_lqr(A, B, lambda k: q[k], lambda k: r[k])
        return (K, A, B) if return_linearization else K

    # ---- checks

    def _check(self, xk: Any, uk: Any, k: int, delta: float, exact: Any, value: Any, by_x: bool) -> tuple[float, ...]:
        x, u = self._part(xk, (self.nX,), "xk"), self._part(uk, (self.nU,), "uk")
        self.set(x, u, k)
        true = exact()
        columns = []
        for i in range(len(x) if by_x else len(u)):
            sides = []
            for sign in (1, -1):
                y, w = x.copy(), u.copy()
                (y if by_x else w)[i] += sign * delta
                self.set(y, w, k)
                sides.append(value())
            columns.append((sides[0] - sides[1]) / (2 * delta))
        self.set(x, u, k)
        approx = np.stack(columns, axis=-1)
        return tuple(float(np.linalg.norm(a)) for a in (true - approx, true, approx))

    def check_fdx(self, xk: object, uk: object, k: int, delta: float = 1e-5) -> tuple[float, ...]:
        """(error, norm, norm of the approximation) of fdx against differences of f."""
        return self._check(xk, uk, k, delta, self.fdx, self.f, True)

    def check_fdu(self, xk: object, uk: object, k: int, delta: float = 1e-5) -> tuple[float, ...]:
        """The same for fdu."""
        return self._check(xk, uk, k, delta, self.fdu, self.f, False)

    def _tensor(self, method: Any) -> Array:
        return np.stack([method(z) for z in np.eye(self.nX)])

    def check_fdxdx(self, xk: object, uk: object, k: int, delta: float = 1e-5) -> tuple[float, ...]:
        """The same for fdxdx, against fdx."""
        return self._check(xk, uk, k, delta, lambda: self._tensor(self.fdxdx), self.fdx, True)

    def check_fdxdu(self, xk: object, uk: object, k: int, delta: float = 1e-5) -> tuple[float, ...]:
        """The same for fdxdu, against fdx."""
        return self._check(xk, uk, k, delta, lambda: self._tensor(self.fdxdu), self.fdx, False)

    def check_fdudu(self, xk: object, uk: object, k: int, delta: float = 1e-5) -> tuple[float, ...]:
        """The same for fdudu, against fdu."""
        return self._check(xk, uk, k, delta, lambda: self._tensor(self.fdudu), self.fdu, False)
