"""The continuous-time twin: dynamics and derivatives, convergence, agreement with the discrete optimum."""

import numpy as np
import pytest

import dalembert as da
from dalembert.optimize import ContinuousSystem, TrackingCost, optimize

from . import problems


@pytest.mark.parametrize("make", [problems.cart_pendulum, problems.driven_pendulum, problems.hanging])
def test_derivatives(make):
    model = make()
    system = ContinuousSystem(model, np.linspace(0, 1, 5))
    rng = np.random.default_rng(0)
    X, U, Z = (rng.normal(size=(5, n)) for n in (system.nx, system.nu, system.nx))
    A, B = system.linearize_trajectory(X, U)
    fxx, fxu, fuu = system.second_order_trajectory(X, U, Z)
    dx, du, h = rng.normal(size=X.shape), rng.normal(size=U.shape), 1e-6
    for k in range(5):
        numeric = (system.f(X[k] + h * dx[k], U[k] + h * du[k]) - system.f(X[k] - h * dx[k], U[k] - h * du[k])) / (
            2 * h
        )
        np.testing.assert_allclose(A[k] @ dx[k] + B[k] @ du[k], numeric, rtol=1e-6, atol=1e-6)
    (Ap, Bp), (Am, Bm) = (system.linearize_trajectory(X + s * h * dx, U + s * h * du) for s in (1, -1))
    for k in range(5):
        np.testing.assert_allclose(
            fxx[k] @ dx[k] + fxu[k] @ du[k], (Ap - Am)[k].T @ Z[k] / (2 * h), rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(
            fuu[k] @ du[k] + fxu[k].T @ dx[k], (Bp - Bm)[k].T @ Z[k] / (2 * h), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("integrator", ["rk4", "RK45"])
def test_simulate_keeps_energy(integrator):
    system = ContinuousSystem(problems.pendulum(), np.linspace(0, 5, 501), integrator=integrator)
    X = system.simulate([2.0, 0.0], np.zeros((501, 1)))
    energy = X[:, 1] ** 2 / 2 - 9.8 * np.cos(X[:, 0])
    assert np.ptp(energy) < 1e-5


def tracking(t, dt=None):
    """The same cost as an integral, or (with dt) as the trapezoidal sum of it."""
    Q, Qf = np.array([100.0, 1.0]), np.array([1.0, 0.1])
    scale = 1.0 if dt is None else dt
    return TrackingCost({"theta": 1.0 - np.cos(t)}, Q * scale, scale, Qf=Qf if dt is None else Qf + dt / 2 * Q)


@pytest.mark.parametrize("method", ["auto", "quasi"])
def test_converges_to_the_discrete_optimum(method):
    dt, N = 0.02, 150
    t = dt * np.arange(N + 1)
    continuous = ContinuousSystem(problems.pendulum(), t)
    one = optimize(continuous, tracking(t), (np.zeros((N + 1, 2)), np.zeros((N + 1, 1))), method=method)
    assert one.converged
    system = da.System(da.MidpointVI(problems.pendulum(), dt), steps=N)
    two = optimize(system, tracking(t, dt), (np.zeros((N + 1, 2)), np.zeros((N, 1))), method=method)
    assert two.converged
    assert np.abs(one.X[:, 0] - two.X[:, 0]).max() < 5e-3


def test_scipy_integrator_agrees():
    t = np.linspace(0, 2, 41)
    start = (np.zeros((41, 2)), np.zeros((41, 1)))
    a, b = (
        optimize(ContinuousSystem(problems.pendulum(), t, integrator=i), tracking(t), start, tolerance=1e-4)
        for i in ("rk4", "RK45")
    )
    assert a.converged
    assert b.converged
    assert np.abs(a.X - b.X).max() < 2e-3


def test_slope_against_finite_difference():
    t = np.linspace(0, 2, 201)
    system = ContinuousSystem(problems.cart_pendulum(damping=0.1), t)
    cost = TrackingCost({"theta": np.sin(t), "x": t}, 1.0, 1.0)
    U = np.sin(3 * t)[:, None]
    X = system.simulate([0.0, 0.3, 0.0, 0.0], U)
    problem = system.optimization_problem(cost.bind(system.cost_system))
    p = problem.point(X, U)
    for method in ("steepest", "quasi", "newton"):
        d = problem.direction(p, method)
        e = 1e-4

        def g(s, d=d, e=e):
            return problem.value(*problem.project(X + s * e * d.dX, U + s * e * d.dU, p.K))

        assert d.slope == pytest.approx((g(1) - g(-1)) / (2 * e), rel=1e-5)
        curvature = (16 * (g(1) + g(-1)) - (g(2) + g(-2)) - 30 * g(0)) / (12 * e * e)
        assert problem.curvature(p, d) == pytest.approx(curvature, rel=1e-3)


def test_stiff_weights_fall_back():
    """Large cost ratios make the Riccati equation too stiff for RK4 on the nodes: Gauss-Newton gives way."""
    t = np.linspace(0, 10, 101)
    system = ContinuousSystem(problems.pendulum(), t)
    cost = TrackingCost({"theta": 1.0}, 1e6, 1e-6)
    result = optimize(system, cost, (np.zeros((101, 2)), np.zeros((101, 1))), method="quasi", max_iterations=3)
    assert {row.method for row in result.history} == {"steepest"}
    assert np.isfinite(result.X).all()
    assert result.cost <= result.history[0].cost


def test_mistakes():
    with pytest.raises(ValueError, match="increasing"):
        ContinuousSystem(problems.pendulum(), [0.0, 0.0, 1.0])
