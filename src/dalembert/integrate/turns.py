"""The steps of models whose prescribed joints are balls, with inputs as in `prescribed.py`.

With turns x of R and y of R' along body axes, phi = dt w, the next rotation R' = R exp(phi) moves by

    exp(y) = exp(E x) exp(-phi) exp(phi + dt dw),   E = exp(-[phi]),   y = E x + dt J dw + (E x) x (dt J dw) / 2 + dt^2 dJ[dw] dw / 2 + ...

with J the right Jacobian of phi. The core differentiates by the ends of the step, (rho, rho'); here is the chain rule from there to (rho, w).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..errors import ConvergenceError
from ..model import rotation
from .midpoint_steps import MidpointSteps
from .motions import PlainMotions
from .onestep import Course, Steps
from .prescribed import coordinates_after, slopes_after

if TYPE_CHECKING:
    from .midpoint import MidpointVI
    from .trajectory import Trajectory


class TurningSteps(MidpointSteps):
    """The steps of an integrator whose prescribed variables have balls among them; one by one where the next input depends on the state."""

    def __init__(self, vi: MidpointVI, t: Array) -> None:
        super().__init__(vi, t)
        m = vi.model
        self._nk, self._rho = m.nkv, slice(m.nd, m.nv)  # in dx
        self._balls = m.prescribed.places
        self._shares = np.concatenate([[0.0], np.cumsum(vi.parts)])
        self._parts: TurningSteps | None = None
        if vi.order > 2:
            h = np.outer(self.dt, vi.parts).ravel()
            self._parts = TurningSteps(vi.of_order_two(h), np.arange(len(h) + 1.0))

    # ---- inputs

    def _after(self, x: Array, u: Array, k: int | slice) -> Array:
        """Coordinates (..., nk) of the prescribed variables after the steps k from x (..., nx) with u (..., nu)."""
        dt = self.dt[k]
        for place in self._balls:
            angle = np.linalg.norm(u[..., self._nu + place.v.start : self._nu + place.v.stop], axis=-1) * np.abs(dt)
            if not np.all(angle < np.pi):
                at = k if isinstance(k, int) else int(np.argmax(~(angle < np.pi)))
                raise ConvergenceError(
                    f"step {at} at t = {self.t[at]:g}: the prescribed ball '{place.name}' turns by {np.max(angle):.3g} rad, more than half a turn",
                    step=at,
                    time=float(self.t[at]),
                    state=x if x.ndim == 1 else None,
                    hint="inputs of prescribed balls are angular velocities (rad/s); a shorter dt allows faster turns",
                )
        return coordinates_after(self._prescribed, x[..., self._nqd : self._nq], u[..., self._nu :], dt)

    def _ends(self, x: Array, u: Array, k: int | slice) -> Array:
        """Inputs as the core has them: (u, coordinates at the end)."""
        return np.concatenate([u[..., : self._nu], self._after(x, u, k)], axis=-1)

    def _path(self, rho: Array, U: Array) -> Array:
        """Inputs (..., N, nu) as the core has them, from the coordinates rho (..., nk) at the start."""
        x = np.zeros((*rho.shape[:-1], self._nq))
        out = np.empty((*rho.shape[:-1], len(self.dt), self._nu + self._prescribed.nq))
        for k in range(len(self.dt)):
            x[..., self._nqd :] = rho
            out[..., k, :] = self._ends(x, np.broadcast_to(U[..., k, :], (*rho.shape[:-1], U.shape[-1])), k)
            rho = out[..., k, self._nu :]
        return out

    # ---- motions

    def solve(self, x: Array, u: Array, k: int, guess: Array | None = None) -> tuple[Array, Array, Array]:
        """(q', p', lambda) of step k."""
        return self._solve(x, self._ends(x, u, k), k, guess)

    def f(self, x: Array, u: Array, k: int, guess: Array | None = None) -> Array:
        """One step; Newton starts from `guess`."""
        q, p, _ = self.solve(x, u, k, guess)
        return self._state(x, q, p, k)

    def _state(self, x: Array, q: Array, p: Array, k: int) -> Array:
        way = self._prescribed.difference(x[self._nqd : self._nq], q[self._nqd :])
        return np.concatenate([q, p, way / self.dt[k]])

    def simulate(self, x0: Array, U: Array) -> Array:
        """X (N+1, nx) from x0 under the inputs U (N, nu)."""
        return super().simulate(x0, self._path(x0[self._nqd : self._nq], U))

    def project(self, X: Array, U: Array, K: Array, x0: Array) -> tuple[Array, Array]:
        """The motion (X, U) under u_k = U_k - K_k difference(X_k, x_k) from x0."""
        return Steps.project(self, X, U, K, x0)

    def shoot(self, X: Array, U: Array, derive: bool) -> tuple[Array, Array | None, Array | None]:
        """The ends (N, nx) of all steps, each from its own state, and with `derive` their A, B."""
        if self._parts is not None:
            return Steps.shoot(self, X, U, derive)
        every = slice(None)
        ends, A, B = super().shoot(X, self._ends(X[:-1], U, every), derive)
        rho = slice(self._nqd, self._nq)
        ends[:, self._nq + self._nd :] = self._prescribed.difference(X[:-1, rho], ends[:, rho]) / self.dt[:, None]
        return (ends, None, None) if A is None or B is None else (ends, *self._by_inputs(A, B, U, every))

    def roll(self, course: Course) -> tuple[Array, Array]:
        """The motion (X, U) of a `Course`."""
        return Steps.roll(self, course)

    def plan(self, *weights: Any) -> Any:
        """None: there is no plan in the core."""
        return None

    def f_batch(self, X: Array, u: Array, k: int) -> Array:
        """f of many states (n, nx)."""
        return np.stack([self.f(x, u, k) for x in X])

    def rollouts(self, X0: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        """Motions (count, N+1, nx) from many states; NaN after a step that fails; steps done (count,)."""
        return super().rollouts(X0, self._path(X0[:, self._nqd : self._nq], U), threads)

    # ---- derivatives

    def _by_inputs(self, A: Array, B: Array, U: Array, k: int | slice) -> tuple[Array, Array]:
        """A, B (..., ndx, .) by (x, u), of those by x and the ends of the prescribed variables."""
        E, J = slopes_after(self._prescribed, U[..., self._nu :], self.dt[k])
        A, B = A.copy(), B.copy()
        by_end = B[..., :, self._nu :]
        A[..., :, self._rho] += by_end @ E
        B[..., :, self._nu :] = by_end @ J
        return A, B

    def linearize(self, x: Array, u: Array, k: int) -> tuple[Array, Array]:
        """A (ndx, ndx), B (ndx, nu) of step k."""
        if self._parts is not None:
            return self._through(self._walk(x, u, k), k)
        return self._by_inputs(*super().linearize(x, self._ends(x, u, k), k), u, k)

    def advance(self, x: Array, u: Array, k: int) -> tuple[Array, Array, Array]:
        """(x', A, B) of step k."""
        if self._parts is not None:
            return self.f(x, u, k), *self.linearize(x, u, k)
        end, A, B = self._advance(x, self._ends(x, u, k), k)
        q, p = end[: self._nq], end[self._nq : self._nq + self._nd]
        return self._state(x, q, p, k), *self._by_inputs(A, B, u, k)

    def linearize_trajectory(self, X: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        """A (N, ndx, ndx), B (N, ndx, nu) at every (X_k, U_k)."""
        if self._parts is not None:
            return Steps.linearize_trajectory(self, X, U)
        every = slice(None)
        found = super().linearize_trajectory(X, self._ends(X[:-1], U, every), threads)
        return self._by_inputs(*found, U, every)

    def adjoint(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array]:
        """(A'z, B'z) of step k."""
        A, B = self.linearize(x, u, k)
        return z @ A, z @ B

    def push(self, x: Array, u: Array, k: int, dx: Array, du: Array) -> Array:
        """A dx + B du of step k."""
        A, B = self.linearize(x, u, k)
        return A @ dx + B @ du

    def derivatives(self, x: Array, u: Array, k: int, with_dt: bool) -> dict[str, Array]:
        """Derivatives of q', p' and lambda by (q, p, u), and by dt as a last column if asked for."""
        found = super().derivatives(x, self._ends(x, u, k), k, with_dt)
        E, J = slopes_after(self._prescribed, u[self._nu :], self.dt[k])
        end = self._in_w()[1]
        for rows in found.values():
            by_end = rows[:, end].copy()
            rows[:, self._rho] += by_end @ E
            rows[:, end] = by_end @ J
            for place in self._balls if with_dt else ():
                rows[:, -1] += by_end[:, place.v] @ u[self._nu + place.v.start : self._nu + place.v.stop]
        return found

    # ---- second order

    def _in_w(self) -> tuple[slice, slice]:
        """Where the prescribed variables at the start and at the end are in w = (q, p, u, rho')."""
        first = self._rho.stop + self._nd + self._nu
        return self._rho, slice(first, first + self._nk)

    def _bent(self, H: Array, g: Array, U: Array, k: int | slice, at: tuple[slice, slice]) -> Array:
        """H (..., n, n) by the ends of the prescribed variables as one by their start and inputs; g (..., nkv): the gradient by the ends; `at`: where
        start and end are in H."""
        w, dt = U[..., self._nu :], self.dt[k]
        E, J = slopes_after(self._prescribed, w, dt)
        start, end = at
        M = np.array(np.broadcast_to(np.eye(H.shape[-1]), H.shape))
        M[..., end, start], M[..., end, end] = E, J
        H = np.swapaxes(M, -1, -2) @ H @ M
        for place in self._balls:
            length, here = np.asarray(dt)[..., None, None], place.v
            mixed = (
                -0.5
                * np.swapaxes(E[..., here, here], -1, -2)
                @ rotation.cross_matrix(g[..., here])
                @ J[..., here, here]
            )
            both = length**2 * rotation.right_jacobian_slope(length[..., 0] * w[..., here], g[..., here])
            first, last = (slice(p.start + here.start, p.start + here.stop) for p in (start, end))
            H[..., first, last] += mixed
            H[..., last, first] += np.swapaxes(mixed, -1, -2)
            H[..., last, last] += (both + np.swapaxes(both, -1, -2)) / 2
        return H

    def _second(
        self, parts: tuple[Array, Array, Array], B: Array, U: Array, Z: Array, k: int | slice
    ) -> tuple[Array, Array, Array]:
        """xx, xu, uu by (x, u), of those by x and the ends; B (..., ndx, nu) by the ends, costates Z (..., ndx)."""
        xx, xu, uu = parts
        n, nv, nd = xx.shape[-1], self._rho.stop, self._nd
        H = np.concatenate(
            [np.concatenate([xx, xu], axis=-1), np.concatenate([np.swapaxes(xu, -1, -2), uu], axis=-1)], axis=-2
        )
        moving = np.r_[np.arange(nd), np.arange(nv, nv + nd)]
        g = Z[..., self._rho] + (Z[..., None, moving] @ B[..., moving, self._nu :])[..., 0, :]
        H = self._bent(H, g, U, k, (self._rho, slice(n + self._nu, n + self._nu + self._nk)))
        return H[..., :n, :n], H[..., :n, n:], H[..., n:, n:]

    def second_order(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f of step k: xx, xu, uu."""
        if self._parts is not None:
            return self._second_of_parts(x, u, k, z)
        ends = self._ends(x, u, k)
        parts, B = super().second_order(x, ends, k, z), super().linearize(x, ends, k)[1]
        return self._second(parts, B, u, z, k)

    def second_order_full(self, x: Array, u: Array, k: int) -> Array:
        """Second derivatives of every component of step k, (ndx, ndx + nu, ndx + nu)."""
        return Steps.second_order_full(self, x, u, k)

    def second_order_trajectory(
        self, X: Array, U: Array, Z: Array, threads: int | None = None
    ) -> tuple[Array, Array, Array]:
        """Second derivatives of Z_k . f at every step: (N, ndx, ndx), (N, ndx, nu), (N, nu, nu)."""
        if self._parts is not None:
            return Steps.second_order_trajectory(self, X, U, Z)
        every = slice(None)
        ends = self._ends(X[:-1], U, every)
        B = super().linearize_trajectory(X, ends, threads)[1]
        return self._second(super().second_order_trajectory(X, ends, Z, threads), B, U, Z, every)

    def second_derivatives(self, x: Array, u: Array, k: int) -> dict[str, Array]:
        """Full tensors of q' (nd, nw, nw), p' (nd, nw, nw), lambda (nc, nw, nw) by w = (q, p, u)."""
        ends, at = self._ends(x, u, k), self._in_w()
        first, second = super().derivatives(x, ends, k, False), super().second_derivatives(x, ends, k)
        return {
            name: np.stack(
                [self._bent(H, row[at[1]], u, k, at) for H, row in zip(second[name], first[name], strict=True)]
            )
            if len(second[name])
            else second[name]
            for name in second
        }

    # ---- composed steps: their parts are steps with the same angular velocity

    def _walk(self, x: Array, u: Array, k: int) -> list[tuple[int, Array, Array, Array, Array]]:
        """The parts of step k: number, state, inputs u_i, and derivatives of these by x (nu, ndx) and by u (nu, nu) of the whole step."""
        parts, (at, place), n = self._parts, self._prescribed.numbers, len(self._shares) - 1
        assert parts is not None
        before, found = x[self._nqd + at], []
        for i, share in enumerate(self._shares[1:]):
            w, by_x, by_u = u.copy(), np.zeros((len(u), self.one_step.ndx)), np.eye(len(u))
            w[self._nu + place] = before + share * (u[self._nu + place] - before)
            by_x[self._nu + place, self._rho.start + place] = 1 - share
            by_u[self._nu + place, self._nu + place] = share
            found.append((k * n + i, x, w, by_x, by_u))
            x = parts.f(x, w, k * n + i)
        return found

    def _tangents(
        self, walk: list[tuple[int, Array, Array, Array, Array]]
    ) -> tuple[list[Array], list[Array], list[Array]]:
        """Derivatives T_i (ndx, ndx + nu) of the states before the parts and after the last, and A_i, B_i."""
        assert self._parts is not None
        T, A, B = [np.eye(self.one_step.ndx, self.one_step.ndx + self.one_step.nu)], [], []
        for i, x, w, by_x, by_u in walk:
            a, b = self._parts.linearize(x, w, i)
            A.append(a)
            B.append(b)
            T.append(a @ T[-1] + b @ np.hstack([by_x, by_u]))
        return T, A, B

    def _through(self, walk: list[tuple[int, Array, Array, Array, Array]], k: int) -> tuple[Array, Array]:
        """A, B of step k, by its parts; velocities of prescribed variables are those of the whole step."""
        n, nv, nd = self.one_step.ndx, self._rho.stop, self._nd
        T = self._tangents(walk)[0][-1]
        rates = T[nv + nd :]
        rates[:] = 0.0
        place = self._prescribed.numbers[1]
        rates[place, self._rho.start + place] = -1 / self.dt[k]
        rates[place, n + self._nu + place] = 1 / self.dt[k]
        for ball in self._balls:
            rates[ball.v, n + self._nu + ball.v.start : n + self._nu + ball.v.stop] = np.eye(3)
        return T[:, :n], T[:, n:]

    def _second_of_parts(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f: sum of (T_i, W_i)' H_i (T_i, W_i) with the costate behind each part."""
        assert self._parts is not None
        walk, n = self._walk(x, u, k), self.one_step.ndx
        T, A, _ = self._tangents(walk)
        H = np.zeros((n + len(u), n + len(u)))
        costate = z.copy()
        costate[self._rho.stop + self._nd :] = 0.0  # velocities of prescribed variables are linear in (x, u)
        for (i, state, w, by_x, by_u), t, a in zip(walk[::-1], T[-2::-1], A[::-1], strict=True):
            xx, xu, uu = self._parts.second_order(state, w, i, costate)
            M = np.vstack([t, np.hstack([by_x, by_u])])
            H += M.T @ np.block([[xx, xu], [xu.T, uu]]) @ M
            costate = costate @ a
        return H[:n, :n], H[:n, n:], H[n:, n:]

    # ---- batches for other frameworks, trajectories

    def motions(self) -> PlainMotions:  # type: ignore[override]
        """Batches of motions and their first derivatives."""
        return PlainMotions(self)

    def trajectory(self, X: Array, U: Array) -> Trajectory:
        """The Trajectory of states X (n+1, nx) and inputs U (n, nu), n <= N."""
        return self._trajectory(X, self._ends(X[: len(U)], U, slice(0, len(U))))


def steps_of(vi: MidpointVI, t: Array) -> MidpointSteps:
    """The steps of an integrator between the times t (N+1,), with inputs as a System has them."""
    return (MidpointSteps if vi.model.prescribed.flat else TurningSteps)(vi, t)
