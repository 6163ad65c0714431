"""The mechanics of a trep system, in trep's orders: a thin permutation over the compiled core.

Systems with elements written in Python (see `user.py`) have probes: inputs of the core on every dynamic variable, through
which those elements act. Derivatives are by x = (q, p, u, k2) for a step and by x = (q, dq, u, ddqk) for the continuous
dynamics; probe columns come last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..mechanics import acceleration, acceleration_second
from .translation import Translation, translate
from .user import TOLERANCE, User

if TYPE_CHECKING:
    from .system import System

Array = NDArray[np.float64]


class Dynamics:
    """Functions of (q, dq, u) and of a step for one version of a system."""

    def __init__(self, system: System) -> None:
        elements = [*system.potentials, *system.forces, *system.constraints]
        own = [e for e in elements if not e._native]
        self.user = User(system, own) if own else None
        self.map: Translation = translate(system, [e for e in elements if e._native], probes=bool(own))
        self.model = self.map.model
        self.core = self.map.core
        self.plain = self.map.plain
        self.nq, self.nd, self.nk = system.nQ, system.nQd, system.nQk
        self.nu, self.nc = system.nu, system.nc
        self.nx = self.nq + self.nd + self.nu + self.nk
        self.q, self.d, self.rows = self.map.q, self.map.q[: self.nd], self.map.c
        self.inverse = np.argsort(self.q)
        n = self.nq + self.nd + self.nu
        probes = self.nx + np.arange(self.map.probes)
        kinematic = n + np.arange(self.nk)
        self.step_columns = np.concatenate(
            [self.q, self.nq + self.d, self.nq + self.nd + self.map.u, probes, kinematic]
        )
        n = 2 * self.nq + self.nu
        probes = n + self.nk + np.arange(self.map.probes)
        self.rate_columns = np.concatenate(
            [self.q, self.nq + self.q, 2 * self.nq + self.map.u, probes, n + np.arange(self.nk)]
        )
        self._constraints = system.constraints
        self._options: dict[tuple[int, float], Any] = {}

    def options(self, iterations: int, tolerance: float) -> Any:
        """Options of the core: midpoint, forces on the left, steps that end as trep's do at these tolerances.

        With user elements the core is solved to rounding: the loop around it is what ends.
        """
        found = self._options.get((iterations, tolerance))
        if found is None:
            if not iterations >= 1:
                raise ValueError(f"max_iterations must be positive, not {iterations}")
            stop = 0.0 if self.user else tolerance
            limits = [self._constraints[i].tolerance for i in self.rows]
            found = _core.Options(0.5, 1.0, 0.0, TOLERANCE, 1e-14, int(iterations), False, stop, limits)
            self._options[iterations, tolerance] = found
        return found

    def forget_tolerances(self) -> None:
        """A constraint has a new tolerance."""
        self._options.clear()

    # ---- the Lagrangian

    def energy(self, q: Array, v: Array) -> tuple[float, float]:
        """Kinetic and potential energy."""
        t, u = self.core.energy(q[self.q][None], v[self.q][None])
        extra = self.user.potential(q) if self.user else 0.0
        return float(t[0]), float(u[0]) + extra

    def first(self, q: Array, v: Array) -> tuple[Array, Array]:
        """L_q, L_v."""
        lq, lv = self.core.first(q[self.q], v[self.q])
        lq, lv = lq[self.inverse], lv[self.inverse]
        if self.user:
            lq = lq - self.user.gradient(q)
        return lq, lv

    def _square(self, a: Array) -> Array:
        return a[np.ix_(self.inverse, self.inverse)]

    def second(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """L_qq, L_qv (rows q), L_vv."""
        qq, qv, vv = (self._square(a) for a in self.core.second(q[self.q], v[self.q]))
        return (qq - self.user.hessian(q) if self.user else qq), qv, vv

    def third(self, q: Array, v: Array, i: int, by_velocity: bool = False) -> tuple[Array, Array, Array]:
        """Derivative of `second` by variable i (or its velocity)."""
        along = (self.q == i).astype(float)
        zero = np.zeros(self.nq)
        direction = (zero, along) if by_velocity else (along, zero)
        qq, qv, vv = (self._square(a) for a in self.core.third(q[self.q], v[self.q], *direction))
        if self.user and not by_velocity:
            qq = qq - self.user.third(q)[i]
        return qq, qv, vv

    # ---- constraints

    def constraints(self, q: Array) -> tuple[Array, Array]:
        """h (nc,) and Dh (nc, nq)."""
        h, c = np.zeros(self.nc), np.zeros((self.nc, self.nq))
        if len(self.rows):
            value, slope = self.core.constraints(q[self.q][None])
            h[self.rows], c[self.rows] = value[0], slope[0][:, self.inverse]
        if self.user:
            h[self.user.rows], c[self.user.rows] = self.user.h(q, 0), self.user.h(q, 1)
        return h, c

    # ---- one step

    def momentum(self, q1: Array, q2: Array, dt: float) -> tuple[Array, Array]:
        """(-D1 Ld, D2 Ld) of a step between two configurations, (nd,) each."""
        lq, lv = self.first(0.5 * (q1 + q2), (q2 - q1) / dt)
        half = 0.5 * dt * lq
        return (lv - half)[: self.nd], (lv + half)[: self.nd]

    def step(
        self,
        iterations: int,
        tolerance: float,
        dt: float,
        q1: Array,
        p1: Array,
        u: Array,
        q2: Array,
        lam: Array,
        t: float,
    ) -> Any:
        """(q2, p2, lambda, iterations, status, error); q2 is the guess and holds the next kinematic values."""
        options = self.options(iterations, tolerance)
        if self.plain:
            return self.core.step(options, dt, q1, p1, u, q2, lam)
        if self.user:
            return self.user.step(self, options, tolerance, dt, q1, p1, u, q2, lam, t)
        return self.core_step(options, dt, q1, p1, u, np.zeros(0), q2, lam)

    def core_step(
        self, options: object, dt: float, q1: Array, p1: Array, u: Array, w: Array, q2: Array, lam: Array
    ) -> tuple[Any, ...]:
        """A step of the core with forces w at the probes.

        Forces act on the left, so w is as good as the momentum dt w: in that form the core, which doubts a hinge that ends
        half a turn from where its momentum carries it, sees what moves the hinge (a user's constraint may turn it far).
        """
        push = p1 + dt * w if len(w) else p1
        still = np.concatenate([u[self.map.u], np.zeros(self.map.probes)])
        y, p, found, its, status, error = self.core.step(
            options, dt, q1[self.q], push[self.d], still, q2[self.q], lam[self.rows]
        )
        full = lam.copy()
        full[self.rows] = found
        p2 = np.empty(self.nd)
        p2[self.d] = p
        return y[self.inverse], p2, full, its, status, error

    def derivatives(
        self, options: object, dt: float, q1: Array, p1: Array, u: Array, q2: Array, lam: Array, t: float
    ) -> Any:
        """(q2 (nd, nx), p2 (nd, nx), lambda (nc, nx), ok): first derivatives of a step by x."""
        if self.plain:
            return self.core.derivatives(options, dt, q1, p1, u, q2, lam, False)
        if self.user:
            first, _ = self.user.derivatives(self, options, dt, q1, p1, u, q2, lam, t, second=False)
        else:
            first = self.core_first(options, dt, q1, p1, u, np.zeros(0), q2, lam)
        if first is None:
            return None, None, None, False
        return first[: self.nd], first[self.nd : 2 * self.nd], first[2 * self.nd :], True

    def second_derivatives(
        self, z: Array, options: object, dt: float, q1: Array, p1: Array, u: Array, q2: Array, lam: Array, t: float
    ) -> Array | None:
        """Second derivatives of z . (q2 dynamic, p2, lambda) for rows z (count, 2 nd + nc): (count, nx, nx)."""
        if self.plain:
            found, ok = self.core.second_order(options, dt, q1, p1, u, q2, lam, np.ascontiguousarray(z))
            return found if ok else None
        if self.user:
            second = self.user.derivatives(self, options, dt, q1, p1, u, q2, lam, t, second=True)[1]
            return None if second is None else np.einsum("zo,oij->zij", z, second)
        return self.core_second(options, dt, q1, p1, u, np.zeros(0), q2, lam, z)

    def _outputs(self) -> Any:
        """Place of the core's outputs (q2, p2, lambda) among all of trep's."""
        return np.concatenate([self.d, self.nd + self.d, 2 * self.nd + self.rows])

    def core_first(
        self, options: object, dt: float, q1: Array, p1: Array, u: Array, w: Array, q2: Array, lam: Array
    ) -> Array | None:
        """First derivatives of the core's step by (x, probes): (2 nd + nc, nx + probes), or None when singular."""
        q, p, c, ok = self.core.derivatives(
            options, dt, q1[self.q], p1[self.d], np.concatenate([u[self.map.u], w]), q2[self.q], lam[self.rows], False
        )
        if not ok:
            return None
        out = np.zeros((2 * self.nd + self.nc, self.nx + self.map.probes))
        out[np.ix_(self._outputs(), self.step_columns)] = np.vstack([q, p, c])
        return out

    def core_second(
        self, options: object, dt: float, q1: Array, p1: Array, u: Array, w: Array, q2: Array, lam: Array, z: Array
    ) -> Array | None:
        """Second derivatives of z . (q2, p2, lambda) of the core's step by (x, probes)."""
        found, ok = self.core.second_order(
            *(options, dt, q1[self.q], p1[self.d], np.concatenate([u[self.map.u], w]), q2[self.q], lam[self.rows]),
            np.ascontiguousarray(z[:, self._outputs()]),
        )
        if not ok:
            return None
        n = self.nx + self.map.probes
        out = np.zeros((len(z), n, n))
        out[np.ix_(np.arange(len(z)), self.step_columns, self.step_columns)] = found
        return out

    # ---- continuous dynamics

    def acceleration(self, q: Array, v: Array, u: Array, k: Array, t: float, order: int) -> tuple[Any, ...]:
        """Value (nd + nc,), first (nd + nc, n) and second (nd + nc, n, n) derivatives up to `order` of (ddq, lambda)."""
        if self.user:
            return self.user.acceleration(self, q, v, u, k, t, order)
        return self.core_acceleration(q, v, u, k, np.zeros(0), order)

    def core_acceleration(self, q: Array, v: Array, u: Array, k: Array, w: Array, order: int) -> tuple[Any, ...]:
        """The same of the core with forces w at the probes, whose columns come last."""
        x = (self.model, q[self.q], v[self.q], np.concatenate([u[self.map.u], w]), k)
        n = 2 * self.nq + self.nu + self.nk + self.map.probes
        rows = np.concatenate([self.d, self.nd + self.rows])
        found = acceleration(*x, derivatives=order > 0)
        value = np.zeros(self.nd + self.nc)
        value[rows] = np.concatenate([found.ddq[: self.nd], -found.lam])  # trep: the force is +Dh^T lambda here
        if not order:
            return value, None, None
        first = np.zeros((self.nd + self.nc, n))
        blocks = [
            [found.ddq_q, found.ddq_v, found.ddq_u, found.ddq_k],
            [found.lam_q, found.lam_v, found.lam_u, found.lam_k],
        ]
        dynamic, tied = (np.hstack(b) for b in blocks)  # type: ignore[arg-type]
        first[np.ix_(rows, self.rate_columns)] = np.vstack([dynamic, -tied])
        if order < 2:
            return value, first, None
        second = np.zeros((self.nd + self.nc, n, n))
        dynamic, tied = acceleration_second(*x)
        second[np.ix_(rows, self.rate_columns, self.rate_columns)] = np.concatenate([dynamic, -tied])
        return value, first, second


class Derivatives:
    """Exact derivatives of any order of a model's L, h or of a length, by CasADi; functions are made once."""

    def __init__(self, translation: Translation) -> None:
        from ..symbolic import Symbolic

        self.map = translation
        self.symbolic = Symbolic(translation.model)
        self._made: dict[Any, Callable[..., Any]] = {}

    def function(self, key: object, expression: Callable[[], Any], variables: list[str], velocities: list[str]) -> Any:
        """A CasADi function of (q, v): `expression` differentiated by the named variables and velocities."""
        import casadi as ca

        full = (key, tuple(sorted(variables)), tuple(sorted(velocities)))
        if full not in self._made:
            s = self.symbolic
            e = expression()
            for name in velocities:
                e = ca.jacobian(e, s.velocity(name))
            for name in variables:
                e = ca.jacobian(e, s.variable(name))
            self._made[full] = ca.Function("d", [s.q, s.v], [e])
        return self._made[full]

    def derivative(self, what: str, variables: list[str], velocities: list[str]) -> float:
        """Of "h" (one row) or "L" at the system's current state."""
        expression = self.symbolic.h if what == "h" else self.symbolic.lagrangian
        system = self.map.system
        f = self.function(what, expression, variables, velocities)
        return float(f(system._q[self.map.q], system._dq[self.map.q]))
