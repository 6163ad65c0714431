"""EulerModel: exact derivatives, and consistent with the discrete model for small steps."""

import numpy as np
import pytest

import dalembert as da

from ..control import models
from ..control.standin import SymbolicSystem


@pytest.mark.parametrize("make", [models.cart_pole, models.winch_robot, models.rod_cart])
def test_derivatives(make):
    model = make()
    euler = da.EulerModel(model, 0.05)
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=euler.nx), rng.normal(size=euler.nu)
    A, B = euler.linearize(x, u)
    eps = 1e-6
    numeric = [(euler.f(x + d, u) - euler.f(x - d, u)) / (2 * eps) for d in eps * np.eye(euler.nx)]
    np.testing.assert_allclose(A, np.column_stack(numeric), atol=1e-7)
    numeric = [(euler.f(x, u + d) - euler.f(x, u - d)) / (2 * eps) for d in eps * np.eye(euler.nu)]
    np.testing.assert_allclose(B, np.column_stack(numeric), atol=1e-7)


@pytest.mark.parametrize("make", [models.cart_pole, models.winch_robot, models.rod_cart])
def test_acceleration_solves_the_equations_of_motion(make):
    """Against d/dt L_v - L_q = F - C'lambda, C a + (dC/dt) v = 0 written out in CasADi."""
    import casadi as ca

    from dalembert.symbolic import Symbolic

    m = make()
    s = Symbolic(m)
    rng = np.random.default_rng(2)
    q, v, u, drive = (rng.normal(size=n) for n in (m.nq, m.nq, m.nu, m.nk))
    L = s.lagrangian()
    rest = ca.jtimes(ca.gradient(L, s.v), s.q, s.v) - ca.gradient(L, s.q) - s.force()
    C = s.constraint_jacobian()
    turn = ca.jtimes(C @ s.v, s.q, s.v) if m.nc else ca.SX(0, 1)
    values = ca.Function("e", [s.q, s.v, s.u], [s.mass_matrix(), rest, C, turn])(q, v, u)
    M, rest, C, turn = (np.array(a) for a in values)
    a, _ = da.EulerModel(m, 0.1).acceleration(np.concatenate([q, v]), np.concatenate([u, drive]))
    np.testing.assert_allclose(a[m.nd :], drive)
    np.testing.assert_allclose(C @ a + turn.ravel(), 0, atol=1e-9)
    force = (M @ a + rest.ravel())[: m.nd]
    if m.nc:  # what is left is a constraint force
        lam = np.linalg.lstsq(C[:, : m.nd].T, force, rcond=None)[0]
        force = force - C[:, : m.nd].T @ lam
    np.testing.assert_allclose(force, 0, atol=1e-9)


def test_acceleration_of_the_string_robot_is_the_limit_of_the_discrete_one():
    model = models.winch_robot()
    euler = da.EulerModel(model, 1e-3)
    q = np.array([0.6, -0.8, 0.0, 1.0])
    drive = np.array([0.7, -0.4])
    a, _ = euler.acceleration(np.concatenate([q, np.zeros(4)]), drive)
    # second difference of two discrete steps that start from rest
    dt = 1e-3
    system = SymbolicSystem(model, dt, 2)
    path = lambda t: q[2:] + drive * t**2 / 2  # noqa: E731
    X = system.simulate(np.concatenate([q, [0, 0], [0, 0]]), np.stack([path(dt), path(2 * dt)]))
    np.testing.assert_allclose(2 * (X[2, :2] - q[:2]) / (2 * dt) ** 2, a[:2], atol=2e-2)
