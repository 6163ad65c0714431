"""The one-step of the midpoint rule written out in CasADi: slow, plain, independent of the compiled core.

Control and estimation are tested against it, so that their tests do not depend on the core being right.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

import dalembert as da
from dalembert.symbolic import Symbolic


def SymbolicSystem(model, dt, steps, **options):
    return da.System(SymbolicMap(model, np.broadcast_to(np.asarray(dt, dtype=float), (steps,)).copy(), **options))


class SymbolicMap(da.OneStepMap):
    """x = (q, p, v_rho), u = (forces, next kinematic values); one step of the midpoint variational integrator."""

    def __init__(self, model, dt, *, alpha=0.5, forcing="split"):
        self.model, self.dt = model, dt
        self.nx, self.nu = model.nq + model.nd + model.nk, model.nu + model.nk
        self.x_names = (
            *model.variables,
            *(f"p.{v}" for v in model.dynamic),
            *(f"v.{v}" for v in model.kinematic),
        )
        self.u_names = (*model.inputs, *model.kinematic)
        nq, nd, nk, nc = model.nq, model.nd, model.nk, model.nc
        s = Symbolic(model)
        L = ca.Function("L", [s.q, s.v], [s.lagrangian()])
        F = ca.Function("F", [s.q, s.v, s.u], [s.force()])
        h = ca.Function("h", [s.q], [s.h()])
        x, u, w, step = ca.SX.sym("x", self.nx), ca.SX.sym("u", self.nu), ca.SX.sym("w", nd + nc), ca.SX.sym("dt")
        q0, p, rho = x[:nq], x[nq : nq + nd], u[model.nu :]
        q1 = ca.vertcat(w[:nd], rho) if nk else w[:nd]
        a, b = ca.SX.sym("a", nq), ca.SX.sym("b", nq)
        Ld = ca.Function("Ld", [a, b, step], [step * L((1 - alpha) * a + alpha * b, (b - a) / step)])
        la = ca.Function("la", [a, b, step], [ca.gradient(Ld(a, b, step), a)])
        lb = ca.Function("lb", [a, b, step], [ca.gradient(Ld(a, b, step), b)])
        force = F((1 - alpha) * q0 + alpha * q1, (q1 - q0) / step, u[: model.nu])
        left, right = (step, 0) if forcing == "left" else (step / 2, step / 2)
        C = ca.jacobian(h(a), a)
        C = ca.Function("C", [a], [C])
        r = p + la(q0, q1, step)[:nd] + left * force[:nd]
        r = ca.vertcat(r - C(q0)[:, :nd].T @ w[nd:], h(q1)) if nc else r
        p1 = lb(q0, q1, step)[:nd] + right * force[:nd]
        out = ca.vertcat(q1, p1, (rho - q0[nd:]) / step) if nk else ca.vertcat(q1, p1)
        self._r = ca.Function("r", [w, x, u, step], [r, ca.jacobian(r, w)])
        self._d = ca.Function(
            "d",
            [w, x, u, step],
            [out, ca.jacobian(out, w), ca.jacobian(out, x), ca.jacobian(out, u), ca.jacobian(r, x), ca.jacobian(r, u)],
        )

    def _solve(self, x, u, k):
        m = self.model
        w = np.concatenate([np.asarray(x[: m.nd]), np.zeros(m.nc)])
        for _ in range(40):
            r, J = (np.array(a) for a in self._r(w, x, u, self.dt[k]))
            w = w - np.linalg.solve(J, r).ravel()
            if np.abs(r).max() < 1e-13:
                break
        else:
            if np.abs(r).max() > 1e-9:
                raise da.ConvergenceError("no convergence", step=k, residual=float(np.abs(r).max()))
        return w

    def f(self, x, u, k=0):
        return np.array(self._d(self._solve(x, u, k), x, u, self.dt[k])[0]).ravel()

    def linearize(self, x, u, k=0):
        w = self._solve(x, u, k)
        J = np.array(self._r(w, x, u, self.dt[k])[1])
        _, ow, ox, ou, rx, ru = (np.array(a) for a in self._d(w, x, u, self.dt[k]))
        return ox - ow @ np.linalg.solve(J, rx), ou - ow @ np.linalg.solve(J, ru)

    def tangent(self, X, tolerance=1e-10):
        return da.MidpointVI(self.model, 0.1).tangent(X, tolerance)

    @property
    def constrained(self):
        return self.model.nc > 0
