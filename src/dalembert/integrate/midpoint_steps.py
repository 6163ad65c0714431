"""Steps of a MidpointVI in state vectors x = (q, p, v_rho), with inputs u = (forces, next kinematic values): whole motions and their
derivatives in the core. Where prescribed joints are balls, `turns.py` puts their inputs into this form.

Kinematic velocities are finite differences, v_rho' = (rho' - rho)/dt (Embedded control synthesis, eq. 8); the core computes everything else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .. import _core
from ..arrays import Array
from ..errors import ConvergenceError, ModelError
from ..model import Model
from .impacts import say_crossed
from .motions import CoreMotions
from .onestep import Course, Steps
from .prescribed import inputs_of
from .trajectory import State, Trajectory, states

if TYPE_CHECKING:
    from .midpoint import MidpointVI

SINGULAR = 3  # status of a step whose Newton matrix cannot be factored


class MidpointSteps(Steps):
    """The steps of an integrator `vi` between the times t (N+1,); see `Steps` for the shapes. `dt` (N,): their lengths."""

    one_step: MidpointVI

    def __init__(self, vi: MidpointVI, t: Array) -> None:
        super().__init__(vi, t)
        self.dt = vi.lengths(self.count)
        m = vi.model
        self._nq, self._nd, self._nqd, self._nu = m.nq, m.nd, m.nqd, m.nu  # asked for in every step
        self._no_lam = np.zeros(m.nc)
        self._prescribed = m.prescribed
        self._lengths = self.dt.tolist() if m.configuration.flat else None  # for `once`

    def state(self, x: Array, k: int) -> State:
        """The integrator's state of a state vector at step k."""
        m = self.one_step.model
        return State(float(self.t[k]), x[: m.nq], x[m.nq : m.nq + m.nd], np.zeros(m.nc), x[m.nq + m.nd :], m)

    # ---- motions

    def solve(self, x: Array, u: Array, k: int, guess: Array | None = None) -> tuple[Array, Array, Array]:
        """(q', p', lambda) of step k."""
        return self._solve(x, u, k, guess)

    def _solve(self, x: Array, u: Array, k: int, guess: Array | None = None) -> tuple[Array, Array, Array]:
        """The same, with the inputs of the core: u ends with the next prescribed coordinates. All methods here call it."""
        vi, nq, nu = self.one_step, self._nq, self._nu
        y = (x if guess is None else guess)[:nq].copy()
        y[self._nqd :] = u[nu:]
        q, p, lam, _, status, error = vi._core.step(
            vi.options, self.dt[k], x[:nq], x[nq : nq + self._nd], u[:nu], y, self._no_lam
        )
        if status:
            self._fail(status, error, k, x)
        return q, p, lam

    def f(self, x: Array, u: Array, k: int, guess: Array | None = None) -> Array:
        """One step; Newton starts from `guess`."""
        new: Array | None = self.one_step._stepper.advance(x, u, self.dt[k], guess, False)
        if new is not None:
            return new
        q, p, _ = self.solve(x, u, k, guess)  # says why, unless an array was not as the core takes it
        return np.concatenate([q, p, self._rate(x, u) / self.dt[k]])

    def once(self, x: object, u: object, k: int, derive: bool) -> Any:
        """x', or with `derive` (x', A, B), of step k from arguments as the core takes them, else None."""
        return None if self._lengths is None else self.one_step._stepper.advance(x, u, self._lengths[k], None, derive)

    def _rate(self, x: Array, u: Array) -> Array:
        """Changes of the kinematic variables from x to the inputs u."""
        return self._prescribed.difference(x[..., self._nqd : self._nq], u[..., self._nu :])

    def simulate(self, x0: Array, U: Array) -> Array:
        """X (N+1, nx) from x0 under the inputs U (N, nu)."""
        vi, m = self.one_step, self.one_step.model
        q, p, _, _, done, status, error, stop, *_ = vi._core.simulate(
            vi.options,
            x0[: m.nq],
            x0[m.nq : m.nq + m.nd],
            self.dt,
            np.ascontiguousarray(U[:, : m.nu]),
            np.ascontiguousarray(U[:, m.nu :]),
            1,
        )
        if stop:
            raise KeyboardInterrupt
        rate = np.vstack(
            [x0[m.nq + m.nd :], m.prescribed.difference(q[:-1, m.nqd :], q[1:, m.nqd :]) / self.dt[:, None]]
        )
        X = np.hstack([q, p, rate])
        if status:
            self._fail(status, error, done, X[done], self._trajectory(X[: done + 1], U[:done]))
        return X

    def project(self, X: Array, U: Array, K: Array, x0: Array) -> tuple[Array, Array]:
        """The motion (X, U) under u_k = U_k - K_k difference(X_k, x_k) from x0."""
        vi = self.one_step
        new, u, done, status, error = vi._core.project(vi.options, np.ascontiguousarray(x0), X, U, K, self.dt)
        if status:
            self._fail(status, error, done, new[done], self._trajectory(new[: done + 1], u[:done]))
        return new, u

    def shoot(self, X: Array, U: Array, derive: bool) -> tuple[Array, Array | None, Array | None]:
        """The ends (N, nx) of all steps, each from its own state, and with `derive` their A, B; threads over the steps."""
        vi = self.one_step
        ends, _, A, B, bad, code = vi._core.shoot(vi.options, X, U, self.dt, derive, self._threads(None))
        if bad < self.count:
            if derive:
                self._refuse(code, bad, X[bad], U[bad])
            raise ConvergenceError(f"step {bad} has no solution", step=bad, time=float(self.t[bad]), state=X[bad])
        return (ends, A, B) if derive else (ends, None, None)

    def roll(self, course: Course) -> tuple[Array, Array]:
        """The motion (X, U) of a `Course`."""
        vi, c = self.one_step, course
        X, U, _, _, done, status = vi._core.follow(
            vi.options, c.X, c.U, c.dX, c.dU, c.K, c.gaps, c.low, c.high, self.dt, c.share
        )
        if status:  # one of many trials: no search for the cause
            raise ConvergenceError(f"step {done} has no solution", step=done, time=float(self.t[done]), state=X[done])
        return X, U

    def plan(self, Q: Array, Qf: Array, R: Array, low: Array, high: Array, mu: float) -> Any:
        """A plan of predictive control in the core (`_core.Plan`): weights Q (ndx, ndx) or (N, ndx, ndx), Qf, R, limits of the inputs (nu,)."""
        vi = self.one_step
        return _core.Plan(vi._core, vi.options, self.dt, Q, Qf, R, low, high, mu)

    def shooting(self, terms: list[Any], boxes: list[Any], free: list[int]) -> Any:
        """The default optimizer's search in the core (`_core.Shooting`), for flat states: terms (weight, Xd, Ud, Q, R) of the cost, boxes (inputs,
        columns, low, high), free components of the start."""
        vi = self.one_step
        if not vi.model.configuration.flat:
            return None
        return _core.Shooting(vi._core, vi.options, self.dt, terms, boxes, free, self._threads(None))

    def f_batch(self, X: Array, u: Array, k: int) -> Array:
        """f of many states (n, nx), side by side in the core if there are enough of them."""
        if len(X) < 32:
            return np.stack([self.f(x, u, k) for x in X])
        vi, m = self.one_step, self.one_step.model
        q, p, _, done, _, stop, _ = vi._core.rollouts(
            vi.options,
            np.ascontiguousarray(X[:, : m.nq]),
            np.ascontiguousarray(X[:, m.nq : m.nq + m.nd]),
            self.dt[k : k + 1],
            u[None, : m.nu],
            u[None, m.nu :],
            True,
            True,
            1,
            True,
            False,
            judged=False,
        )
        if stop:
            raise KeyboardInterrupt
        for i in np.flatnonzero(np.asarray(done) < 1):  # raises the error that says why
            self.f(X[i], u, k)
        return np.hstack([q[:, -1], p[:, -1], self._rate(X, u) / self.dt[k]])

    def rollouts(self, X0: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        """Motions (count, N+1, nx) from many states, on threads and SIMD lanes; NaN after a step that fails; steps done (count,)."""
        vi, m = self.one_step, self.one_step.model
        q, p, _, done, _, stop, _ = vi._core.rollouts(
            vi.options,
            np.ascontiguousarray(X0[:, : m.nq]),
            np.ascontiguousarray(X0[:, m.nq : m.nq + m.nd]),
            self.dt,
            np.ascontiguousarray(U[..., : m.nu]),
            np.ascontiguousarray(U[..., m.nu :]),
            U.ndim == 2,
            U.ndim == 2,
            (os.cpu_count() or 1) if threads is None else threads,
            len(X0) > 1,
            True,
            judged=False,
        )
        if stop:
            raise KeyboardInterrupt
        rate = np.concatenate(
            [
                X0[:, None, m.nq + m.nd :],
                m.prescribed.difference(q[:, :-1, m.nqd :], q[:, 1:, m.nqd :]) / self.dt[:, None],
            ],
            1,
        )
        X, completed = np.concatenate([q, p, rate], axis=2), np.asarray(done)
        for i in np.flatnonzero(completed < self.count):
            X[i, completed[i] + 1 :] = np.nan
        return X, completed

    # ---- first order

    def linearize(self, x: Array, u: Array, k: int) -> tuple[Array, Array]:
        """A (ndx, ndx), B (ndx, nu) of step k."""
        return self._advance(x, u, k)[1:]

    def advance(self, x: Array, u: Array, k: int) -> tuple[Array, Array, Array]:
        """(x', A, B) of step k: Newton's end is where the derivatives are taken."""
        return self._advance(x, u, k)

    def _advance(self, x: Array, u: Array, k: int) -> tuple[Array, Array, Array]:
        """The same, with the inputs of the core: u ends with the next prescribed coordinates."""
        found: tuple[Array, Array, Array] | None = None
        # what the core does not read as it is (strides, the float64 of ctypes) it reads as a copy
        for arrays in ((x, u), (x.astype(np.float64, order="C"), u.astype(np.float64, order="C"))):
            found = self.one_step._stepper.advance(*arrays, self.dt[k], None, True)
            if found is not None:
                return found
        self._solve(x, u, k)  # where the step itself fails, its error counts
        self._refuse(SINGULAR, k, x, u)

    def linearize_trajectory(self, X: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        """A (N, ndx, ndx), B (N, ndx, nu) at every (X_k, U_k); threads over the steps."""
        vi = self.one_step
        A, B, bad, code = vi._core.linearize_trajectory(vi.options, X, U, self.dt, None, self._threads(threads))
        if bad < self.count:
            self._refuse(code, bad, X[bad], U[bad])
        return A, B

    def adjoint(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array]:
        """(A'z, B'z) of step k without A and B."""
        found: tuple[Array, Array] = self._product(self.one_step._stepper.pull, x, u, k, z)
        not_overflown(z, *found)
        return found

    def push(self, x: Array, u: Array, k: int, dx: Array, du: Array) -> Array:
        """A dx + B du of step k without A and B."""
        found: Array = self._product(self.one_step._stepper.push, x, u, k, dx, du)
        not_overflown(np.concatenate([dx, du]), found)
        return found

    def _product(self, of: Callable[..., Any], x: Array, u: Array, k: int, *vectors: Array) -> Any:
        """of(x, u, dt, *vectors) in the core, which solves the step on the way."""
        given = (x, u, *vectors)
        for copied in (False, True):  # as in `_advance`
            x, u, *vectors_ = (a.astype(np.float64, order="C") for a in given) if copied else given
            found = of(x, u, self.dt[k], *vectors_)
            if found is not None:
                return found
        self._solve(x, u, k)
        self._refuse(SINGULAR, k, x, u)

    def derivatives(self, x: Array, u: Array, k: int, with_dt: bool) -> dict[str, Array]:
        """Derivatives of q', p' and lambda by (q, p, u, rho'), and by dt as a last column if asked for."""
        self._of_order_two()
        vi, m = self.one_step, self.one_step.model
        q, _, lam = self._solve(x, u, k)
        Y, P, L, ok = vi._core.derivatives(
            vi.options, self.dt[k], x[: m.nq], x[m.nq : m.nq + m.nd], u[: m.nu], q, lam, with_dt
        )
        if not ok:
            self._refuse(SINGULAR, k, x, u)
        return {"q": Y, "p": P, "lam": L}

    # ---- second order

    def second_order(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f of step k: xx, xu, uu."""

        vi = self.one_step
        xx, xu, uu, bad, code = vi._core.second_order_trajectory(
            vi.options, np.stack([x, x]), u[None], self.dt[k : k + 1], z[None], 1
        )
        if bad == 0:
            self._refuse(code, k, x, u)
        not_overflown(z, xx, xu, uu)
        return xx[0], xu[0], uu[0]

    def second_order_full(self, x: Array, u: Array, k: int) -> Array:
        """Second derivatives of every component of step k, (ndx, ndx + nu, ndx + nu); those of kinematic rows are zero."""

        m, ndx = self.one_step.model, self.one_step.ndx
        found = self.second_derivatives(x, u, k)
        place = np.concatenate(
            [np.arange(m.nv + m.nd), np.arange(ndx, ndx + self.one_step.nu)]
        )  # of w = (q, p, u, rho')
        out = np.zeros((ndx, ndx + self.one_step.nu, ndx + self.one_step.nu))
        rows = np.concatenate([np.arange(m.nd), np.arange(m.nv, m.nv + m.nd)])
        out[np.ix_(rows, place, place)] = np.concatenate([found["q"], found["p"]])
        return out

    def second_order_trajectory(
        self, X: Array, U: Array, Z: Array, threads: int | None = None
    ) -> tuple[Array, Array, Array]:
        """Second derivatives of Z_k . f at every step: (N, ndx, ndx), (N, ndx, nu), (N, nu, nu)."""

        vi = self.one_step
        xx, xu, uu, bad, code = vi._core.second_order_trajectory(vi.options, X, U, self.dt, Z, self._threads(threads))
        if bad < self.count:
            self._refuse(code, bad, X[bad], U[bad])
        not_overflown(Z, xx, xu, uu)
        return xx, xu, uu

    def second_derivatives(self, x: Array, u: Array, k: int) -> dict[str, Array]:
        """Full tensors of q' (nd, nw, nw), p' (nd, nw, nw), lambda (nc, nw, nw) by w = (q, p, u, rho')."""
        self._of_order_two()
        vi, m = self.one_step, self.one_step.model
        q, _, lam = self._solve(x, u, k)
        unit = np.eye(2 * m.nd + m.nc)
        H, ok = vi._core.second_order(vi.options, self.dt[k], x[: m.nq], x[m.nq : m.nq + m.nd], u[: m.nu], q, lam, unit)
        if not ok:
            self._refuse(SINGULAR, k, x, u)
        return {"q": H[: m.nd], "p": H[m.nd : 2 * m.nd], "lam": H[2 * m.nd :]}

    def _of_order_two(self) -> None:
        """Inside of a composed step prescribed variables move on lines in the core, which for rotations are none."""
        if self.one_step.order > 2 and not self._prescribed.flat:
            name = self._prescribed.places[0].name
            raise ModelError(
                f"ball '{name}': derivatives of multipliers, by dt and through impacts need order=2 where balls are prescribed",
                culprit=name,
            )

    # ---- batches for other frameworks

    def motions(self) -> CoreMotions:
        """Batches of motions and their derivatives, in the core."""
        return CoreMotions(self)

    def explain(self, status: int, error: float, k: int, x: Array, u: Array) -> NoReturn:
        """Raise why step k from x under u failed in the core, with this status."""
        self.solve(x, u, k)  # the same step alone says most
        self._fail(status, error, k, x)

    # ---- filters

    def kalman(self, *record: Any, threads: int | None = None, keep: bool = False) -> Any:
        """Many extended Kalman filters at once; arguments and results as those of `kalman_in_core`."""
        vi = self.one_step
        if not vi.model.configuration.flat or vi.scheme.stages > 1:
            return None
        return kalman_in_core(vi._core, vi.options, False, self.dt, *record, threads=threads, keep=keep)

    # ---- trajectories

    def trajectory(self, X: Array, U: Array) -> Trajectory:
        """The Trajectory of states X (n+1, nx) and inputs U (n, nu), n <= N; multipliers are those of the steps between the states."""
        return self._trajectory(X, U)

    def _trajectory(self, X: Array, U: Array) -> Trajectory:
        """The same, with the inputs of the core."""
        vi, m, n = self.one_step, self.one_step.model, len(U)
        say_crossed(m, self.t[: n + 1], X[:, : m.nq], "a System")
        lam = np.zeros((n, m.nc))
        if m.nc:
            for k in range(n):
                try:
                    lam[k] = self._solve(X[k], U[k], k, X[k + 1])[2]
                except ConvergenceError:
                    break
        return Trajectory(
            m,
            self.t[: n + 1],
            X[:, : m.nq],
            X[:, m.nq : m.nq + m.nd],
            U[:, : m.nu],
            U[:, m.nu :],
            lam,
            np.zeros(n, dtype=np.int64),
            scheme=vi.scheme,
        )

    def curve(self, motion: object) -> tuple[Array, Array]:
        """(X, U) of any Trajectory with as many steps and the same variables, whatever made it."""
        m = self.one_step.model
        if not isinstance(motion, Trajectory):
            raise TypeError(f"a Trajectory is needed, not {type(motion).__name__}")
        if not isinstance(motion.model, Model):
            raise TypeError(f"a Trajectory of a Model is needed, not of {type(motion.model).__name__}")
        if motion.steps != self.count:
            raise ValueError(f"the trajectory has {motion.steps} steps, the system {self.count}")
        if (motion.model.dynamic, motion.model.kinematic, motion.model.nu) != (m.dynamic, m.kinematic, m.nu):
            raise ValueError(
                f"the trajectory is of {motion.model.name!r}, whose variables or inputs are not the system's"
            )
        return states(m, motion.q, motion.p, self.dt), inputs_of(motion)

    # ---- failures

    def _fail(self, status: int, error: float, k: int, x: Array, trajectory: Trajectory | None = None) -> NoReturn:
        self.one_step._fail(status, error, k, float(self.t[k]), self.state(x, k), trajectory)

    def _refuse(self, code: int, k: int, x: Array, u: Array) -> NoReturn:
        """Raise why step k from x under u cannot be linearized."""
        if code != SINGULAR:
            self._solve(x, u, k)  # the step itself fails: its error says how far it came
        why = "its Newton matrix is singular" if code == SINGULAR else "it has no solution near the next state"
        message = f"the step at k = {k} cannot be linearized: {why}"
        raise ConvergenceError(message, step=k, time=float(self.t[k]), state=self.state(x, k))

    def _threads(self, threads: int | None) -> int:
        """Threads pay only for enough work: a step costs about nx^2 multiply-adds times a constant."""
        if threads is not None:
            return threads
        wanted = 1 + self.count * self.one_step.nx**2 // 200_000
        return wanted if wanted == 1 else min(os.cpu_count() or 1, wanted)  # to count the cores takes long itself


def kalman_in_core(
    core: _core.Core,
    options: _core.Options,
    euler: bool,
    dt: Array,
    X: Array,
    U: Array,
    start: Array,
    Z: Array,
    W: Array | None,
    C: Array,
    P0: Array,
    Q: Array,
    R: Array,
    gate: Array | None,
    weight: Array,
    *,
    threads: int | None,
    keep: bool,
) -> tuple[Array, Array | None, Array, Any, Any]:
    """Extended Kalman filters of many records side by side.

    dt (N,) of the motion X (N+1, nx), U (N, nu); first estimates `start` (trials, nx), records Z (trials, N+1, nz), process noise W
    (trials, N, nx) of predictions along X (None: predict by the model); z = C x, covariances P0, Q, R; `gate` (nz+1,) limits of the squared
    distance by the number of entries; `weight` (nx,) of the error. Returns error (trials, N+1), means (or None), last covariances, status,
    refused measurements.
    """
    crew = (os.cpu_count() or 1) if threads is None else int(threads)
    found = _core.ekf(
        core, options, euler, W is not None, dt, X, U, start, Z, W, C, P0, Q, R, gate, weight, crew, keep
    )  # fmt: skip
    error, mean, last, status, refused = found
    return error, mean, last, status, refused


def not_overflown(z: object, *results: Array) -> None:
    """Costates may be so large that their products overflow; a sum finds that for little."""
    with np.errstate(over="ignore", invalid="ignore"):
        if all(math.isfinite(r.sum()) for r in results):
            return
    if not all(np.isfinite(r).all() for r in results):
        raise ValueError(f"the derivatives overflow: the costates are as large as {np.abs(np.asarray(z)).max():.3g}")
