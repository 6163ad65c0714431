"""A plain one-step written with CasADi from the definitions: slow, independent of the compiled core, same interface.

Midpoint variational integrator with all of a step's force on the left (F- = dt F, F+ = 0; Schultz, Johnson, Murphey,
Trajectory optimization in discrete mechanics, eqs 2 and 17). x = (q, p, v_rho), u = (forces, rho_next).
"""

from __future__ import annotations

import casadi as ca
import numpy as np

import dalembert as da
from dalembert.errors import ConvergenceError
from dalembert.symbolic import Symbolic


def stand_in(model, dt, steps):
    return da.System(StandIn(model, dt), steps=steps)


class StandIn(da.OneStepMap):
    def __init__(self, model, dt):
        self.model, self.dt = model, dt
        nq, nd, nk, nu, nc = model.nq, model.nd, model.nk, model.nu, model.nc
        self.nx, self.nu = nq + nd + nk, nu + nk
        self.x_names = (*model.variables, *(f"p.{v}" for v in model.dynamic), *(f"v.{v}" for v in model.kinematic))
        self.u_names = (*model.inputs, *model.kinematic)
        s = Symbolic(model)
        q0, q1 = ca.SX.sym("q0", nq), ca.SX.sym("q1", nd)
        p0, u, rho, vr = (ca.SX.sym(n, k) for n, k in (("p0", nd), ("u", nu), ("rho", nk), ("vr", nk)))
        lam = ca.SX.sym("lam", nc)
        full1 = ca.vertcat(q1, rho)
        mid, vel = (q0 + full1) / 2, (full1 - q0) / dt
        both = [s.q, s.v, s.u]
        lag = ca.Function("L", both, [s.lagrangian()])(mid, vel, u)
        force = ca.Function("F", both, [s.force()])(mid, vel, u)[:nd]
        d1 = ca.gradient(dt * lag, q0)[:nd]
        d2 = ca.gradient(dt * lag, q1)
        residual = p0 + d1 + dt * force
        if nc:
            hfun = ca.Function("h", [s.q], [s.h()])
            jac = ca.jacobian(hfun(q0), q0)[:, :nd]
            residual = ca.vertcat(residual - jac.T @ lam, hfun(full1))
        x, w, y = ca.vertcat(q0, p0, vr), ca.vertcat(u, rho), ca.vertcat(q1, lam)
        out = ca.vertcat(q1, rho, d2, (rho - q0[nd:, 0]) / dt)
        a = ca.vertcat(x, w)
        z, mu = ca.SX.sym("z", self.nx), ca.SX.sym("mu", nd + nc)
        W = ca.dot(z, out) + ca.dot(mu, residual)
        both = ca.vertcat(a, y)
        H = ca.hessian(W, both)[0]
        self._res = ca.Function("res", [x, w, y], [residual, ca.jacobian(residual, y)])
        self._out = ca.Function("out", [x, w, y], [out])
        self._first = ca.Function(
            "first", [x, w, y], [ca.densify(ca.jacobian(e, v)) for e in (residual, out) for v in (a, y)]
        )
        self._second = ca.Function("second", [x, w, y, z, mu], [ca.densify(H)])

    def _solve(self, x, u):
        nd, nq = self.model.nd, self.model.nq
        y = np.concatenate([x[:nd] + 0.0, np.zeros(self.model.nc)])
        del nq
        for _ in range(50):
            r, J = (np.array(v) for v in self._res(x, u, y))
            if not np.isfinite(r).all():
                break
            if np.abs(r).max() < 1e-12:
                return y
            y = y - np.linalg.solve(J, r[:, 0])
            if np.abs(y).max() > 1e8:
                break
        raise ConvergenceError("stand-in step did not converge", residual=float(np.abs(r).max()))

    def f(self, x, u, k=0):
        return np.array(self._out(x, u, self._solve(x, u)))[:, 0]

    def _blocks(self, x, u):
        y = self._solve(x, u)
        ra, ry, oa, oy = (np.array(m) for m in self._first(x, u, y))
        return y, -np.linalg.solve(ry, ra), ry, oa, oy

    def linearize(self, x, u, k=0):
        _, ya, _, oa, oy = self._blocks(x, u)
        full = oa + oy @ ya
        return np.ascontiguousarray(full[:, : self.nx]), np.ascontiguousarray(full[:, self.nx :])

    def second_order(self, x, u, k, z):
        y, ya, ry, _oa, oy = self._blocks(x, u)
        n = self.nx
        mu = -np.linalg.solve(ry.T, oy.T @ z)
        T = np.vstack([np.eye(n + self.nu), ya])
        H = T.T @ np.array(self._second(x, u, y, z, mu)) @ T
        return H[:n, :n], H[:n, n:], H[n:, n:]
