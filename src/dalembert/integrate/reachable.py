"""Along the constraints: the directions in which constrained motions can go, and momenta without what no step feels.

With constraints h(q) = 0 the state (q, p, v_rho) has directions that the dynamics does not have: dq across the manifold (the next step
lands on it again), and dp = C'mu with C = dh/dq_dynamic, which the multipliers absorb exactly (p_k enters the step only as p_k - C'lambda).
Neither can be moved by any input. Every momentum is p = L_v(q, v) + C'nu with a velocity v along the constraints; nu is its gauge, and
the motion does not depend on it. With orthonormal bases

    Nq of null [dh/dq]  (nv, nv - nc),    V of null C  (nd, nd - nc),    S = (nu . D2h) (nd, nv)

a perturbation of a motion is dx = T z up to gauge, and z = T+ dx whatever the gauge is:

    T = [[Nq, 0, 0], [S Nq, V, 0], [0, 0, 1]],    T+ = [[Nq', 0, 0], [-V'S, V', 0], [0, 0, 1]].

S carries the gauge along when q moves; without it V'dp would change with nu, by V'(nu . D2h) dq.

Constraints on velocities, a(q) v + b(q) = 0, add their rows a to C, and da/dq to S; they leave dq free.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..errors import SingularityError
from ..mechanics import (
    constraint_hessian,
    constraint_jacobian,
    constraints,
    core,
    lagrangian_second,
    satisfy_constraints,
    velocity_offset,
)
from ..model import Model
from .onestep import StateSpace, Tangent, slopes


def along(model: Model, X: Array) -> tuple[Array, Array, Array]:
    """(v (n, nv), L_v (n, nd), nu (n, nc)) of states X (n, nx): velocities along the constraints, their momenta, the gauges of p."""
    nq, nd = model.nq, model.nd
    v, own = _own(model, X)
    nu = [
        np.linalg.lstsq(constraint_jacobian(model, a)[:, :nd].T, rest, rcond=1e-12)[0]
        for a, rest in zip(X[:, :nq], X[:, nq : nq + nd] - own, strict=True)
    ]
    return v, own, np.stack(nu)


def _own(model: Model, X: Array) -> tuple[Array, Array]:
    """(v (n, nv), L_v (n, nd)) of states X (n, nx)."""
    nq, nd, c = model.nq, model.nd, core(model)
    q, p = np.ascontiguousarray(X[:, :nq]), np.ascontiguousarray(X[:, nq : nq + nd])
    v = c.velocity(q, p, np.ascontiguousarray(X[:, nq + nd :]))[0]
    return v, np.stack([c.first(a, b)[1][:nd] for a, b in zip(q, v, strict=True)])


def tangent(model: Model, X: Array, tolerance: float) -> Tangent | None:
    """The bases at states X (n, nx); None without constraints.

    Raises SingularityError if the rank of the constraints (singular values above `tolerance` of the largest) changes.
    """
    if not model.nc:
        return None
    Q = X[:, : model.nq]
    D = np.stack([constraint_jacobian(model, q) for q in Q])
    Dh, C = D[:, : model.nh], D[:, :, : model.nd]
    V = _null(C, tolerance, model)
    Nq = _null(Dh, tolerance, model) if model.nh else np.tile(np.eye(model.nv), (len(Q), 1, 1))
    nv, nd, a, b = model.nv, model.nd, Nq.shape[2], V.shape[2]
    basis = np.zeros((len(Q), 2 * nv, a + b + nv - nd))
    basis[:, :nv, :a], basis[:, nv : nv + nd, a : a + b], basis[:, nv + nd :, a + b :] = Nq, V, np.eye(nv - nd)
    S = np.stack([_turn(model, q, nu) for q, nu in zip(Q, along(model, X)[2], strict=True)])
    lift, lower = basis.copy(), np.ascontiguousarray(np.swapaxes(basis, 1, 2))
    lift[:, nv : nv + nd, :a] = S @ Nq
    lower[:, a : a + b, :nv] = -np.swapaxes(V, 1, 2) @ S
    onto = np.tile(np.eye(2 * nv), (len(Q), 1, 1))
    if model.nh:
        onto[:, :nd, :nv] -= np.linalg.pinv(Dh[:, :, :nd], rcond=tolerance) @ Dh
    onto[:, nv : nv + nd, nv : nv + nd] = V @ np.swapaxes(V, 1, 2)
    return Tangent(basis, lift, lower, onto)


def settled(model: Model, x: Array) -> Array:
    """The state (nx,) on the constraints nearest to x: q by `satisfy_constraints`, p without its gauge."""
    nq, nd = model.nq, model.nd
    q = satisfy_constraints(model, x[:nq])
    y = np.concatenate([q, x[nq:]])
    y[nq : nq + nd] = along(model, y[None])[1][0]
    return y


def nearby(model: Model, x: Array, away: Array) -> Array:
    """States (m, nx) on the constraints, from a state x (nx,) on them and tangent vectors `away` (m, ndx) along them: straight on, then back
    across the constraints with the slopes that they have at x, so that the part of `away` along them stays what it is."""
    nq, nv, nd = model.nq, model.nv, model.nd
    q = model.integrate(np.broadcast_to(x[:nq], (len(away), nq)), away[:, :nv])
    if model.nh:
        back = np.zeros((nv, model.nh))
        back[:nd] = np.linalg.pinv(constraint_jacobian(model, x[:nq])[: model.nh, :nd], rcond=1e-10)
        for _ in range(30):
            h = constraints(model, q)
            if not np.abs(h).max(initial=0.0) > 1e-11:
                break
            q = model.integrate(q, -h @ back.T)
    return np.hstack([q, x[nq:] + away[:, nv:]])


def in_gauge_of(model: Model, x0: Array, x1: Array) -> Array:
    """States x1 (nx,) or (m, nx) with the gauge of the momentum of x0 (nx,)."""
    nq, nd = model.nq, model.nd
    out = np.array(np.atleast_2d(x1), dtype=float)
    nu = along(model, x0[None])[2][0]
    C = np.stack([constraint_jacobian(model, q)[:, :nd] for q in out[:, :nq]])
    out[:, nq : nq + nd] = _own(model, out)[1] + nu @ C
    return out.reshape(np.shape(x1))


def velocity_slope(space: StateSpace, model: Model, x: Array, slope: bool = True) -> tuple[Array, Array]:
    """v (nv,) of a state x (nx,) = (q, p, v_rho), along the constraints, and its derivative (nv, 2 nv) by tangent components (empty
    without `slope`): of M v + C'nu = p, Dh v = 0."""
    nq, nv, nd = model.nq, model.nv, model.nd

    def velocity(y: Array) -> Array:
        rows = np.ascontiguousarray(y.reshape(-1, y.shape[-1]))
        parts = (np.ascontiguousarray(part) for part in (rows[:, :nq], rows[:, nq : nq + nd], rows[:, nq + nd :]))
        return np.asarray(core(model).velocity(*parts)[0][0])

    v = velocity(x)
    if not slope:
        return v, np.zeros((nv, 0))
    if not model.configuration.flat:
        return v, slopes(lambda d: velocity(space.retract(x, d)), 2 * nv)
    q, nc = x[:nq], model.nc
    _, by, mass = lagrangian_second(model, q, v)
    right = np.zeros((nd + nc, 2 * nv))
    right[:nd, :nv] = -by.T[:nd]
    right[:nd, nv : nv + nd] = np.eye(nd)
    right[:nd, nv + nd :] = -mass[:nd, nd:]
    matrix = np.zeros((nd + nc, nd + nc))
    matrix[:nd, :nd] = mass[:nd, :nd]
    if nc:
        C = constraint_jacobian(model, q)
        right[:nd, :nv] -= _turn(model, q, along(model, x[None])[2][0])
        right[nd:, :nv] = -np.einsum("cik,i->ck", constraint_hessian(model, q), v) - _offset_slope(model, q)
        right[nd:, nv + nd :] = -C[:, nd:]
        matrix[nd:, :nd], matrix[:nd, nd:] = C[:, :nd], C[:, :nd].T
    dv = np.zeros((nv, 2 * nv))
    dv[:nd] = np.linalg.lstsq(matrix, right, rcond=1e-13)[0][:nd]
    dv[nd:, nv + nd :] = np.eye(nv - nd)
    return v, dv


def _offset_slope(model: Model, q: Array) -> Array:
    """db/dq (nc, nv) of constraints on velocities, zero for others."""
    if not velocity_offset(model, q).any():
        return np.zeros((model.nc, model.nv))
    return slopes(lambda d: velocity_offset(model, model.integrate(q, d)), model.nv)


def _turn(model: Model, q: Array, nu: Array) -> Array:
    """Derivative (nd, nv) of C(q)'nu by tangent components of q."""
    nd = model.nd
    if model.configuration.flat:
        return constraint_hessian(model, q, nu)[:nd]
    return slopes(lambda d: nu @ constraint_jacobian(model, model.integrate(q, d))[:, :nd], model.nv)


def _null(D: Array, tolerance: float, model: Model) -> Array:
    """Orthonormal bases of the null spaces of a stack of matrices, all of the same dimension."""
    _, s, right = np.linalg.svd(D)
    ranks = np.sum(s > tolerance * np.maximum(s[:, :1], np.finfo(float).tiny), axis=1)
    if (ranks != ranks[0]).any():
        step = int(np.argmax(ranks != ranks[0]))
        raise SingularityError(
            f"the rank of the constraints changes at step {step}",
            matrix="dh/dq",
            variables=tuple(model.constraints),
            step=step,
            hint="the mechanism passes a singular configuration there; regulate the pieces before and after it",
        )
    return np.swapaxes(right[:, ranks[0] :], 1, 2)
