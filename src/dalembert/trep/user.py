"""Elements written in Python: how they act on the compiled core (slow: their methods are called for every variable).

A user potential, force or constraint is a force w on the dynamic variables that depends on the motion itself. The core
solves a step for a given w at its probes; Newton iterations on s = (w, multipliers of user constraints) close the loop

    w = F(mid, vel, u) - V_q(mid)/2 - Dh(q1)^T lambda/dt,   h(q2) = 0,   p2 = p2(core) - dt/2 V_q(mid)

and the implicit function theorem, on the exact derivatives of the core's step and the ones that the elements supply,
gives the derivatives. The continuous dynamics go the same way, with w = F - V_q + Dh^T lambda and Dh ddq + dq D2h dq = 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SingularityError

if TYPE_CHECKING:
    from .dynamics import Dynamics
    from .system import System

Array = NDArray[np.float64]
TOLERANCE = 1e-14  # relative residual of a step in the core


class User:
    """The user elements of a system, summed, as arrays."""

    def __init__(self, system: System, elements: list[Any]) -> None:
        from .constraint import Constraint
        from .force import Force
        from .potential import Potential

        self.system = system
        self.potentials = [e for e in elements if isinstance(e, Potential)]
        self.forces = [e for e in elements if isinstance(e, Force)]
        self.constraints = [e for e in elements if isinstance(e, Constraint)]
        self.rows = np.array([c.index for c in self.constraints], dtype=np.intp)

    @contextmanager
    def _at(self, q: Array, v: Array | None = None, u: Array | None = None, t: float | None = None) -> Iterator[Any]:
        """The system at another state, and back again."""
        s = self.system
        kept = (s._q, s._dq, s._u, s._t, s._memo)
        s._q, s._memo = np.array(q), {}
        s._dq = np.zeros(len(q)) if v is None else np.array(v)
        s._u = s._u if u is None else np.array(u)
        s._t = s._t if t is None else t
        try:
            yield s.configs
        finally:
            s._q, s._dq, s._u, s._t, s._memo = kept

    # ---- potentials

    def potential(self, q: Array) -> float:
        """V."""
        with self._at(q):
            return float(sum(e.V() for e in self.potentials))

    def gradient(self, q: Array) -> Array:
        """V_q (nq,)."""
        with self._at(q) as c:
            return np.array([sum(e.V_dq(a) for e in self.potentials) for a in c], dtype=float)

    def hessian(self, q: Array) -> Array:
        """V_qq (nq, nq)."""
        with self._at(q) as c:
            return np.array([[sum(e.V_dqdq(a, b) for e in self.potentials) for b in c] for a in c], dtype=float)

    def third(self, q: Array) -> Array:
        """V_qqq (nq, nq, nq)."""
        p = self.potentials
        with self._at(q) as c:
            return np.array([[[sum(e.V_dqdqdq(a, b, d) for e in p) for d in c] for b in c] for a in c], dtype=float)

    # ---- forces on the dynamic variables, by z = (q, dq, u)

    def force(self, q: Array, v: Array, u: Array, t: float, order: int) -> tuple[Array, Array, Array]:
        """F (nd,), and up to `order` its derivatives (nd, n) and (nd, n, n); n = 2 nq + nu."""
        s = self.system
        nq, nd, nu = s.nQ, s.nQd, s.nu
        n = 2 * nq + nu
        value = np.zeros(nd)
        first, second = np.zeros((nd, n)), np.zeros((nd, n, n) if order > 1 else (0, 0, 0))
        x, y, z = slice(0, nq), slice(nq, 2 * nq), slice(2 * nq, n)
        with self._at(q, v, u, t) as c:
            for f in self.forces:
                for i, a in enumerate(s.dyn_configs):
                    value[i] += f.f(a)
                    if order > 0:
                        first[i, x] += [f.f_dq(a, b) for b in c]
                        first[i, y] += [f.f_ddq(a, b) for b in c]
                        first[i, z] += [f.f_du(a, b) for b in s.inputs]
                    if order > 1:
                        second[i, x, x] += [[f.f_dqdq(a, b, d) for d in c] for b in c]
                        second[i, y, x] += [[f.f_ddqdq(a, b, d) for d in c] for b in c]
                        second[i, y, y] += [[f.f_ddqddq(a, b, d) for d in c] for b in c]
                        if nu:
                            second[i, z, x] += [[f.f_dudq(a, b, d) for d in c] for b in s.inputs]
                            second[i, z, y] += [[f.f_duddq(a, b, d) for d in c] for b in s.inputs]
                            second[i, z, z] += [[f.f_dudu(a, b, d) for d in s.inputs] for b in s.inputs]
        if order > 1:
            second[:, x, y] = second[:, y, x].transpose(0, 2, 1)
            second[:, x, z] = second[:, z, x].transpose(0, 2, 1)
            second[:, y, z] = second[:, z, y].transpose(0, 2, 1)
        return value, first, second

    # ---- constraints

    def h(self, q: Array, order: int) -> Array:
        """h (m,) or its derivative of the given order, (m, nq, ...)."""
        name = "h" + ("_" + "dq" * order if order else "")
        out = np.zeros((len(self.constraints), *[len(q)] * order))
        with self._at(q) as c:
            for k, e in enumerate(self.constraints):
                f = getattr(e, name)
                for index in np.ndindex(out.shape[1:]):
                    if list(index) == sorted(index):
                        out[(k, *index)] = f(*(c[i] for i in index))
        if order > 1:  # only sorted indices were asked for
            for index in np.ndindex(out.shape[1:]):
                out[(slice(None), *index)] = out[(slice(None), *sorted(index))]
        return out

    # ---- one step

    def step(
        self,
        dyn: Dynamics,
        options: object,
        tolerance: float,
        dt: float,
        q1: Array,
        p1: Array,
        u: Array,
        q2: Array,
        lam: Array,
        t: float,
    ) -> tuple[Any, ...]:
        """As the core's step, with the user's elements; ends below the tolerances, or where rounding ends it."""
        nd, m = dyn.nd, len(self.constraints)
        slope = self.h(q1, 1)[:, :nd]
        w, mu = np.zeros(nd), lam[self.rows]
        w -= slope.T @ mu / dt
        limits = np.array([c.tolerance for c in self.constraints])
        total, last = 0, np.inf
        for _ in range(50):
            q2, p2, lam, its, status, error = dyn.core_step(options, dt, q1, p1, u, w, q2, lam)
            total += its
            if status:
                return q2, p2, lam, total, status, error
            mid, vel = 0.5 * (q1 + q2), (q2 - q1) / dt
            gradient = self.gradient(mid)[:nd]
            value, first, _ = self.force(mid, vel, u, t, 1)
            wanted = value - 0.5 * gradient
            r = np.concatenate([w - wanted + slope.T @ mu / dt, self.h(q2, 0)])
            scale = np.concatenate([np.full(nd, 1 + np.abs(w).max(initial=0.0)), np.ones(m)])
            error = float(np.abs(r / scale).max(initial=0.0))
            if not np.isfinite(error):
                return q2, p2, lam, total, 2, error
            small = np.linalg.norm(dt * r[:nd]) < tolerance and bool((np.abs(r[nd:]) < limits).all())
            if small or (error >= 0.5 * last and error < 1e-11):
                lam[self.rows] = mu
                return q2, p2 - 0.5 * dt * gradient, lam, total, 0, error
            last = error
            core = dyn.core_first(options, dt, q1, p1, u, w, q2, lam)
            if core is None:
                break
            moves = core[:nd, dyn.nx :]  # dq2/dw
            by_q2 = 0.5 * (first[:, :nd] - 0.5 * self.hessian(mid)[:nd, :nd]) + first[:, dyn.nq : dyn.nq + nd] / dt
            jacobian = np.block(
                [[np.eye(nd) - by_q2 @ moves, slope.T / dt], [self.h(q2, 1)[:, :nd] @ moves, np.zeros((m, m))]]
            )
            try:
                change = np.linalg.solve(jacobian, -r)
            except np.linalg.LinAlgError:
                break
            w, mu = w + change[:nd], mu + change[nd:]
            q2[:nd] += (
                moves @ change[:nd]
            )  # where the core is to begin: a large change of w may be far from the last q2
        return q2, p2, lam, total, 1, error / TOLERANCE

    def derivatives(
        self,
        dyn: Dynamics,
        options: object,
        dt: float,
        q1: Array,
        p1: Array,
        u: Array,
        q2: Array,
        lam: Array,
        t: float,
        *,
        second: bool,
    ) -> tuple[Array | None, Array | None]:
        """First (2 nd + nc, nx) and second (2 nd + nc, nx, nx) derivatives of (q2, p2, lambda) of a solved step."""
        nq, nd, nk, nu, nx = dyn.nq, dyn.nd, dyn.nk, dyn.nu, dyn.nx
        m, rows = len(self.constraints), 2 * nd + dyn.nc
        order = 2 if second else 1
        mid, vel, mu = 0.5 * (q1 + q2), (q2 - q1) / dt, lam[self.rows]
        force, f1, f2 = self.force(mid, vel, u, t, order)
        w = force - 0.5 * self.gradient(mid)[:nd] - self.h(q1, 1)[:, :nd].T @ mu / dt
        c1 = dyn.core_first(options, dt, q1, p1, u, w, q2, lam)
        if c1 is None:
            return None, None
        n = nx + nd + m  # y = (x, w, mu)
        c1 = np.hstack([c1, np.zeros((rows, m))])
        q_first = np.eye(nq, n)
        y_first = np.zeros((nq, n))
        y_first[:nd], y_first[nd:, nq + nd + nu : nx] = c1[:nd], np.eye(nk)
        inputs = np.zeros((nu, n))
        inputs[:, nq + nd : nq + nd + nu] = np.eye(nu)
        z1 = np.vstack([0.5 * (q_first + y_first), (y_first - q_first) / dt, inputs])
        hessian = np.zeros((nd, 2 * nq + nu))
        hessian[:, :nq] = self.hessian(mid)[:nd]
        a, b, b2 = self.h(q1, 1), self.h(q1, 2), self.h(q2, 1)
        r1 = np.vstack([-(f1 - 0.5 * hessian) @ z1, b2 @ y_first])
        r1[:nd, nx : nx + nd] += np.eye(nd)
        r1[:nd, nx + nd :] += a[:, :nd].T / dt
        r1[:nd, :nq] += np.einsum("c,cij->ij", mu, b[:, :nd]) / dt
        o1 = c1.copy()
        o1[nd : 2 * nd] -= 0.5 * dt * hessian @ z1
        o1[2 * nd + self.rows] = np.eye(m, n, k=nx + nd)
        if not second:
            return _implicit(r1, None, o1, None, nx)
        c2 = dyn.core_second(options, dt, q1, p1, u, w, q2, lam, np.eye(rows))
        if c2 is None:
            return None, None
        c2 = np.pad(c2, ((0, 0), (0, m), (0, m)))
        y2 = np.zeros((nq, n, n))
        y2[:nd] = c2[:nd]
        z2 = np.concatenate([0.5 * y2, y2 / dt, np.zeros((nu, n, n))])
        third = np.zeros((nd, 2 * nq + nu, 2 * nq + nu))
        third[:, :nq, :nq] = self.third(mid)[:nd]
        top = -_chain(f1 - 0.5 * hessian, f2 - 0.5 * third, z1, z2)
        top[:, :nq, :nq] += np.einsum("c,cijk->ijk", mu, self.h(q1, 3)[:, :nd]) / dt
        cross = b[:, :nd].transpose(1, 2, 0) / dt
        top[:, :nq, nx + nd :] += cross
        top[:, nx + nd :, :nq] += cross.transpose(0, 2, 1)
        r2 = np.concatenate([top, _chain(b2, self.h(q2, 2), y_first, y2)])
        o2 = c2
        o2[nd : 2 * nd] -= 0.5 * dt * _chain(hessian, third, z1, z2)
        o2[2 * nd + self.rows] = 0.0
        return _implicit(r1, r2, o1, o2, nx)

    # ---- continuous dynamics

    def acceleration(
        self, dyn: Dynamics, q: Array, v: Array, u: Array, k: Array, t: float, order: int
    ) -> tuple[Array, Array | None, Array | None]:
        """(ddq, lambda) and derivatives by x = (q, dq, u, ddqk) up to `order`."""
        nq, nd, nk, nu = dyn.nq, dyn.nd, dyn.nk, dyn.nu
        nx, m = 2 * nq + nu + nk, len(self.constraints)
        a, b = self.h(q, 1), self.h(q, 2)
        force, f1, f2 = self.force(q, v, u, t, order)
        pull = force - self.gradient(q)[:nd]
        turn = np.einsum("cij,i,j->c", b, v, v)
        # the core is affine in w: the multipliers follow from one linear solve
        free, c1, _ = dyn.core_acceleration(q, v, u, k, pull, 1)
        assert c1 is not None
        mu = np.zeros(m)
        if m:
            gain = a[:, :nd] @ c1[:nd, nx:] @ a[:, :nd].T
            try:
                mu = -np.linalg.solve(gain, a[:, :nd] @ free[:nd] + a[:, nd:] @ k + turn)
            except np.linalg.LinAlgError:
                raise SingularityError("the user constraints are dependent here", matrix="constraint") from None
        w = pull + a[:, :nd].T @ mu
        value, c1, c2 = dyn.core_acceleration(q, v, u, k, w, max(order, 1))
        value[nd + self.rows] = mu
        if not order:
            return value, None, None
        assert c1 is not None
        n = nx + nd + m
        c1 = np.hstack([c1, np.zeros((len(c1), m))])
        acc = np.concatenate([value[:nd], k])
        a1 = np.zeros((nq, n))
        a1[:nd], a1[nd:, 2 * nq + nu : nx] = c1[:nd], np.eye(nk)
        x = np.eye(2 * nq + nu, n)
        inner = np.vstack([x[: 2 * nq], a1])
        hessian = np.zeros((nd, 2 * nq + nu))
        hessian[:, :nq] = self.hessian(q)[:nd]
        third = self.h(q, 3) if m else np.zeros((0, nq, nq, nq))
        g1 = np.hstack([b @ acc + np.einsum("cijk,j,k->ci", third, v, v), 2 * b @ v, a])
        r1 = np.vstack([-(f1 - hessian) @ x, g1 @ inner])
        r1[:nd, nx : nx + nd] += np.eye(nd)
        r1[:nd, nx + nd :] -= a[:, :nd].T
        r1[:nd, :nq] -= np.einsum("c,cij->ij", mu, b[:, :nd])
        o1 = c1.copy()
        o1[nd + self.rows] = np.eye(m, n, k=nx + nd)
        if order < 2:
            return value, _implicit(r1, None, o1, None, nx)[0], None
        assert c2 is not None
        c2 = np.pad(c2, ((0, 0), (0, m), (0, m)))
        a2 = np.zeros((nq, n, n))
        a2[:nd] = c2[:nd]
        inner2 = np.concatenate([np.zeros((2 * nq, n, n)), a2])
        top = np.zeros((nd, n, n))
        z = 2 * nq + nu
        top[:, :z, :z] -= f2
        top[:, :nq, :nq] += self.third(q)[:nd] - np.einsum("c,cijk->ijk", mu, third[:, :nd])
        cross = b[:, :nd].transpose(1, 2, 0)
        top[:, :nq, nx + nd :] -= cross
        top[:, nx + nd :, :nq] -= cross.transpose(0, 2, 1)
        fourth = self.h(q, 4) if m else np.zeros((0, nq, nq, nq, nq))
        g2 = np.zeros((m, 3 * nq, 3 * nq))
        g2[:, :nq, :nq] = third @ acc + np.einsum("cijkl,k,l->cij", fourth, v, v)
        g2[:, :nq, nq : 2 * nq] = 2 * third @ v
        g2[:, nq : 2 * nq, :nq] = g2[:, :nq, nq : 2 * nq].transpose(0, 2, 1)
        g2[:, nq : 2 * nq, nq : 2 * nq] = 2 * b
        g2[:, :nq, 2 * nq :] = b
        g2[:, 2 * nq :, :nq] = b
        r2 = np.concatenate([top, _chain(g1, g2, inner, inner2)])
        o2 = c2
        o2[nd + self.rows] = 0.0
        first, second = _implicit(r1, r2, o1, o2, nx)
        return value, first, second


def _chain(outer1: Array, outer2: Array, inner1: Array, inner2: Array) -> Array:
    """Second derivative of outer(inner(y))."""
    return np.einsum("oab,ai,bj->oij", outer2, inner1, inner1, optimize=True) + np.einsum("oa,aij->oij", outer1, inner2)


def _implicit(r1: Array, r2: Array | None, o1: Array, o2: Array | None, nx: int) -> tuple[Array | None, Array | None]:
    """Derivatives by x of outputs o(x, s) where r(x, s) = 0 defines s(x), from those by y = (x, s)."""
    try:
        inverse = np.linalg.inv(r1[:, nx:])
    except np.linalg.LinAlgError:
        return None, None
    y = np.vstack([np.eye(nx), -inverse @ r1[:, :nx]])
    first = o1 @ y
    if r2 is None or o2 is None:
        return first, None
    bend = np.einsum("oab,ai,bj->oij", r2, y, y, optimize=True)
    turn = -np.einsum("so,oij->sij", inverse, bend)
    return first, np.einsum("oab,ai,bj->oij", o2, y, y, optimize=True) + np.einsum("os,sij->oij", o1[:, nx:], turn)
