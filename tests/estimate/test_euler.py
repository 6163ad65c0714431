"""EulerModel: exact derivatives, and consistent with the discrete model for small steps."""

import numpy as np
import pytest

from dalembert import estimate as de

from ..control import models
from ..control.standin import SymbolicSystem


@pytest.mark.parametrize("make", [models.cart_pole, models.winch_robot, models.rod_cart])
def test_derivatives(make):
    model = make()
    euler = de.EulerModel(model, 0.05)
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=euler.nx), rng.normal(size=euler.nu)
    A, B = euler.linearize(x, u)
    eps = 1e-6
    numeric = [(euler.f(x + d, u) - euler.f(x - d, u)) / (2 * eps) for d in eps * np.eye(euler.nx)]
    np.testing.assert_allclose(A, np.column_stack(numeric), atol=1e-7)
    numeric = [(euler.f(x, u + d) - euler.f(x, u - d)) / (2 * eps) for d in eps * np.eye(euler.nu)]
    np.testing.assert_allclose(B, np.column_stack(numeric), atol=1e-7)


def test_acceleration_of_the_string_robot_is_the_limit_of_the_discrete_one():
    model = models.winch_robot()
    euler = de.EulerModel(model, 1e-3)
    q = np.array([0.6, -0.8, 0.0, 1.0])
    drive = np.array([0.7, -0.4])
    a, _ = euler.acceleration(np.concatenate([q, np.zeros(4)]), drive)
    # second difference of two discrete steps that start from rest
    dt = 1e-3
    system = SymbolicSystem(model, dt, 2)
    path = lambda t: q[2:] + drive * t**2 / 2  # noqa: E731
    X = system.simulate(np.concatenate([q, [0, 0], [0, 0]]), np.stack([path(dt), path(2 * dt)]))
    np.testing.assert_allclose(2 * (X[2, :2] - q[:2]) / (2 * dt) ** 2, a[:2], atol=2e-2)
