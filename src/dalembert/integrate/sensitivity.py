"""Exact derivatives of a motion through its impacts: A_k, B_k of every step, also where it was solved in pieces.

The pieces of a step are steps of lengths s_1, s_2, ... that end where a gap (or the force of a contact) becomes zero, each followed by a jump of the
momentum. Their lengths are unknowns like the states: with x' = F(x, u, s) and g(x') = 0,

    dx' = F_x dx + F_u du + F_s ds,      ds = -(g_x (F_x dx + F_u du)) / (g_x F_s),

and the last piece takes what is left of the step. This is the implicit function theorem on the discrete equations; as the step goes to zero it
becomes the saltation matrix of the continuous motion. The set of contacts that are hit or held is that of the motion.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array, matrix
from ..mechanics import acceleration, force, gap_hessian, gap_jacobian, lagrangian_first, lagrangian_second
from .impacts import Contacts, Jump
from .midpoint_steps import MidpointSteps, not_overflown
from .onestep import slopes
from .prescribed import coordinates_after, inputs_of, slopes_after
from .reachable import velocity_slope

if TYPE_CHECKING:
    from .hybrid import Piece
    from .midpoint import MidpointVI
    from .trajectory import Trajectory


def linearize_motion(motion: Trajectory) -> tuple[Array, Array]:
    """A (N, ndx, ndx) and B (N, ndx, nu) of the steps of a motion."""
    scheme = motion.scheme
    if scheme is None or scheme.forcing is None:
        raise ValueError("it is not known which steps made this motion, so they cannot be linearized")
    if scheme.dt is not None and not np.allclose(motion.dt, scheme.dt, rtol=1e-6, atol=0.0):
        raise ValueError("only each n-th state of this motion was kept, so its steps cannot be linearized")
    vi = scheme.integrator(motion.model, motion.dt)
    m, n = motion.model, motion.steps
    A, B = np.zeros((n, vi.ndx, vi.ndx)), np.zeros((n, vi.ndx, vi.nu))
    rate = np.zeros((n + 1, m.nkv))
    if m.nk:
        rate[1:] = m.prescribed.difference(motion.q[:-1, m.nqd :], motion.q[1:, m.nqd :]) / motion.dt[:, None]
    X, U = np.hstack([motion.q, motion.p, rate]), inputs_of(motion)
    contacts = Contacts(vi)
    done = 0
    free = scheme.integrator(m.without_contacts(), motion.dt)

    def plain(until: int) -> None:
        if until > done:
            part = slice(done, until)
            steps = free.with_dt(motion.dt[part]).over(motion.t[done : until + 1])
            A[part], B[part] = steps.linearize_trajectory(X[done : until + 1], U[part])

    for k, group in groupby(motion.pieces, key=lambda piece: piece.step):
        pieces = list(group)
        plain(k)
        if pieces[0].steps:
            done = k + pieces[0].steps
            held = contacts.holding(pieces[0].held)
            for j in range(k, done):
                step = _Step(vi, held, X[j], U[j], float(motion.dt[j]), j == 0)
                step.go(held, float(motion.dt[j]))
                A[j], B[j] = step.result()
        else:
            done = k + 1
            last = k == n - 1 and pieces[-1].cause == "event"
            A[k], B[k] = _split(vi, contacts, X[k], U[k], float(motion.dt[k]), pieces, last, motion)
    plain(n)
    return A, B


def adjoint_motion(motion: Trajectory, z: Any) -> tuple[Array, Array]:
    """Derivatives of z . (last state) by the first state (ndx,) and by the inputs (N, nu)."""
    A, B = linearize_motion(motion)
    costate = matrix(z, (2 * motion.model.nv,), "z")
    by_input = np.zeros(B.shape[::2])
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(motion.steps - 1, -1, -1):
            by_input[k] = costate @ B[k]
            costate = costate @ A[k]
    not_overflown(z, costate, by_input)
    return costate, by_input


def _split(
    vi: MidpointVI,
    contacts: Contacts,
    x: Array,
    u: Array,
    dt: float,
    pieces: list[Piece],
    last: bool,
    motion: Trajectory,
) -> tuple[Array, Array]:
    """A and B of a step in pieces; `last`: it ends with an event."""
    step = _Step(vi, contacts.vi, x, u, dt, pieces[0].step == 0)
    for i, piece in enumerate(pieces):
        end = i == len(pieces) - 1
        if piece.cause == "event" and not (last and end):
            name = next((e.name for e in motion.events if e.step == piece.step), "event")
            raise ValueError(
                f"event '{name}' at t = {motion.t[piece.step] + step.begun:g} has changed the motion: that has no derivative here"
            )
        held = contacts.holding(piece.held)
        if end and piece.cause in ("", "event"):
            step.go(held, piece.length, to_end=True)
            break
        step.go(held, piece.length, cause=piece.cause, number=piece.number, held=piece.held)
        for jump in piece.jumps:
            step.jump(jump)
        if not end and pieces[i + 1].held:
            step.settle(contacts.holding(pieces[i + 1].held))
    return step.result()


class _Step:
    """A step as it is walked through: the state x, its derivative D (ndx, ndx + nu) by the step's start and inputs, and that of the time `begun`."""

    def __init__(self, vi: MidpointVI, free: MidpointVI, x: Array, u: Array, dt: float, first: bool) -> None:
        self.vi, self.model, self.x, self.u, self.dt = vi, vi.model, x.copy(), u, dt
        m = self.model
        self.D = np.eye(vi.ndx, vi.ndx + vi.nu)
        self.begun, self.T = 0.0, np.zeros(vi.ndx + vi.nu)
        self.rho, nkv = x[m.nqd : m.nq], m.nkv
        self.way = m.prescribed.difference(self.rho, coordinates_after(m.prescribed, self.rho, u[m.nu :], dt))
        self.by_rho, self.by_input = np.zeros((2, nkv, vi.ndx + vi.nu))
        self.by_rho[:, m.nd : m.nv] = np.eye(nkv)
        if nkv:
            self.by_input[:, vi.ndx + m.nu :] = np.eye(nkv)
        before, self.x[m.nq + m.nd :] = self.x[m.nq + m.nd :].copy(), self.way / dt
        self.D[m.nv + m.nd :] = (self.by_input - self.by_rho) / dt
        for place in m.prescribed.places:  # its velocity is the input
            self.D[m.nv + m.nd :][place.v] = self.by_input[place.v]
        # prescribed accelerations, as contacts that are held feel them, and their derivative
        self.drift, self.by_drift = np.zeros(nkv), np.zeros((nkv, self.D.shape[1]))
        if not first:
            self.drift = (self.x[m.nq + m.nd :] - before) / dt
            self.by_drift = self.D[m.nv + m.nd :] / dt
            self.by_drift[:, m.nv + m.nd : self.vi.ndx] -= np.eye(nkv) / dt

    def result(self) -> tuple[Array, Array]:
        """A, B."""
        n = self.vi.ndx
        return self.D[:, :n], self.D[:, n:]

    def go(
        self,
        vi: MidpointVI,
        length: float,
        *,
        cause: str = "",
        number: int = -1,
        held: tuple[int, ...] = (),
        to_end: bool = False,
    ) -> None:
        """A piece of this length with the integrator vi; its end is where the cause is zero, fixed, or the end of the step."""
        m, nv, nd = self.model, self.model.nv, self.model.nd
        share = (self.begun + length) / self.dt
        rho = m.prescribed.integrate(self.rho, share * self.way)
        E, J = slopes_after(m.prescribed, self.u[m.nu :], self.dt, share)
        by_end = E @ self.by_rho + J @ self.by_input
        inputs = np.zeros((m.nu, self.D.shape[1]))
        inputs[:, self.vi.ndx : self.vi.ndx + m.nu] = np.eye(m.nu)
        D, slope = self.D.copy(), np.zeros(len(self.D))  # derivatives with the length fixed, and by the length
        if length > 1e-9 * self.dt:
            steps = MidpointSteps(vi.with_dt(np.array([length])), np.array([0.0, length]))
            w = np.concatenate([self.u[: m.nu], rho])
            new = steps.solve(self.x, w, 0)
            found = steps.derivatives(self.x, w, 0, True)
            moving = by_end + np.outer(self.way / self.dt, self.T)
            before = np.vstack([self.D[:nv], self.D[nv : nv + nd], inputs, moving])
            for rows, name in ((slice(0, nd), "q"), (slice(nv, nv + nd), "p")):
                by = found[name]
                D[rows] = by[:, :-1] @ before
                slope[rows] = by[:, -1] + by[:, nv + nd + m.nu : -1] @ (self.way / self.dt)
            D[nd:nv] = moving
            slope[nd:nv] = self.way / self.dt
            self.x = np.concatenate([new[0][: m.nqd], rho, new[1], self.x[m.nq + m.nd :]])
        else:
            v = velocity_slope(self.vi, m, self.x, slope=False)[0]
            q = self.x[: m.nq]
            slope[:nv] = v
            slope[nv : nv + nd] = lagrangian_first(m, q, v)[0][:nd] + force(m, q, v, self.u[: m.nu])
        self.D = D
        if vi.model.nc > m.nc:
            kept = self.x.copy(), self.D
            slope = self.settle(vi) @ slope
            if (
                length <= 1e-9 * self.dt
            ):  # the momentum is still that at the end of the step before, with its prescribed velocities
                self.x, self.D = kept
        if to_end:
            self.D = self.D - np.outer(slope, self.T)
        elif cause == "gap" or (
            cause and length
        ):  # what pulls at once, because inputs jump there, lets go at a fixed time
            by_x, by_u, by_drift = self._gradient(cause, number, vi, held)
            rate = float(by_x @ slope)
            if abs(rate) > 1e-9 * np.abs(by_x) @ np.abs(slope):  # else it only touches, and the time stays
                ds = -(by_x @ self.D + by_u @ inputs + by_drift @ self.by_drift) / rate
                self.D = self.D + np.outer(slope, ds)
                self.T = self.T + ds
        self.begun += length

    def _gradient(self, cause: str, number: int, vi: MidpointVI, held: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """Derivatives (ndx,), (nu,) and (nkv,) of what is zero at the end of a piece, by the state, the inputs and prescribed accelerations."""
        m = self.model
        row = np.zeros(self.vi.ndx)
        q = self.x[: m.nq]
        if cause == "gap":
            row[: m.nv] = gap_jacobian(m, q)[number]
            return row, np.zeros(m.nu), np.zeros(m.nkv)
        i = m.nh + held.index(number)
        if m.nc > m.nh:  # what rolls has no derivatives of accelerations

            def press(d: Array) -> Array:
                at, by_u, by_drift = np.split(d, [self.vi.ndx, self.vi.ndx + m.nu])
                x, u = self.vi.retract(self.x, at), self.u[: m.nu] + by_u
                v = velocity_slope(vi, vi.model, x, slope=False)[0]
                return acceleration(vi.model, x[: m.nq], v, u, self.drift + by_drift).lam[i : i + 1]

            by = slopes(press, self.vi.ndx + m.nu + m.nkv)[0]
            ends = self.vi.ndx, self.vi.ndx + m.nu
            return by[: ends[0]], by[ends[0] : ends[1]], by[ends[1] :]
        v, dv = velocity_slope(vi, vi.model, self.x)
        found = acceleration(vi.model, q, v, self.u[: m.nu], self.drift, derivatives=True)
        by_q, by_v, by_u, by_drift = (np.asarray(by)[i] for by in (found.lam_q, found.lam_v, found.lam_u, found.lam_k))
        row[: m.nv] = by_q
        return row + by_v @ dv, by_u, by_drift

    def settle(self, vi: MidpointVI) -> Array:
        """Leave out of the momentum what the contacts held by vi absorb; the derivative (ndx, ndx) of that."""
        m, nv, nd = self.model, self.model.nv, self.model.nd
        v, dv = velocity_slope(vi, vi.model, self.x)
        q = self.x[: m.nq]
        _, by, mass = lagrangian_second(m, q, v)
        S = np.eye(self.vi.ndx)
        S[nv : nv + nd] = mass[:nd] @ dv
        S[nv : nv + nd, :nv] += by.T[:nd]
        self.x[m.nq : m.nq + nd] = lagrangian_first(m, q, v)[1][:nd]
        self.D = S @ self.D
        return S

    def jump(self, jump: Jump) -> None:
        """An impact: p+ = p + G'L with gamma+ = -e gamma."""
        m, nv, nd = self.model, self.model.nv, self.model.nd
        rows, e = list(jump.rows), np.array(jump.e)
        q, n = self.x[: m.nq], len(m.gaps)
        G = gap_jacobian(m, q)[rows]
        v, dv = velocity_slope(self.vi, m, self.x)
        by_before = self._rate_slope(rows, q, v, dv, G)
        resistance = G @ dv[:, nv : nv + nd] @ G[:, :nd].T
        impulse = np.linalg.lstsq(resistance, -(1 + e) * (G @ v), rcond=1e-12)[0]
        after = self.x.copy()
        after[m.nq : m.nq + nd] += impulse @ G[:, :nd]
        w, dw = velocity_slope(self.vi, m, after)
        by_after = self._rate_slope(rows, q, w, dw, G)
        weight = np.zeros(n)
        weight[rows] = impulse
        D = self.D.copy()
        D[nv : nv + nd] += _turn(m, q, weight)[:nd] @ self.D[:nv]
        rest = by_after @ D + e[:, None] * (by_before @ self.D)
        dL = np.linalg.lstsq(resistance, -rest, rcond=1e-12)[0]
        D[nv : nv + nd] += G[:, :nd].T @ dL
        self.x, self.D = after, D

    def _rate_slope(self, rows: list[int], q: Array, v: Array, dv: Array, G: Array) -> Array:
        """Derivative (rows, ndx) of the rates of gaps by the state."""
        m = self.model
        out = np.asarray(G @ dv)
        unit = np.eye(len(m.gaps))
        out[:, : m.nv] += np.stack([v @ _turn(m, q, unit[i]) for i in rows])
        return out


def _turn(model: Any, q: Array, weight: Array) -> Array:
    """Derivative (nv, nv) of the weighted gradient of the gaps by tangent components of q."""
    if model.configuration.flat:
        return gap_hessian(model, q, weight)
    return slopes(lambda d: weight @ gap_jacobian(model, model.integrate(q, d)), model.nv)
