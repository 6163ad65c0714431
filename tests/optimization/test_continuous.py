"""The continuous-time twin: dynamics and derivatives, convergence, agreement with the discrete optimum."""

import numpy as np
import pytest

import dalembert as da
from dalembert.optimization import ContinuousSystem, TerminalCost, TrackingCost, optimize

from . import problems
from .derivatives import check_direction


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


@pytest.mark.parametrize("integrator", ["rk4", "DOP853"])
def test_slope_and_curvature(integrator):
    """More examples in test_example_derivatives.py; derivatives of the RK4 step serve scipy's methods too."""
    t = np.linspace(0, 1, 101) if integrator == "rk4" else np.linspace(0, 0.4, 21)
    system = ContinuousSystem(problems.cart_pendulum(damping=0.1), t, integrator=integrator, rtol=1e-12)
    cost = TrackingCost({"theta": np.sin(t), "x": t}, 1.0, 1.0)
    U = np.sin(3 * t)[:, None]
    X = system.simulate([0.0, 0.3, 0.0, 0.0], U)
    problem = system.optimization_problem(cost.bind(system.cost_system))
    p = problem.point(X, U)
    for method in ("steepest", "quasi", "newton"):
        check_direction(problem, p, method, rel=1e-9 if integrator == "rk4" else 1e-5)


def test_a_motion_is_its_own_projection():
    t = np.linspace(0, 2, 21)
    system = ContinuousSystem(problems.cart_pendulum(), t)
    U = np.sin(3 * t)[:, None]
    X = system.simulate([0.0, 0.3, 0.0, 0.0], U)
    problem = system.optimization_problem(TrackingCost({}, 1.0, 1.0).bind(system.cost_system))
    Xp, Up = problem.project(X, U, problem.point(X, U).K)
    np.testing.assert_allclose(Xp, X, atol=1e-13)
    np.testing.assert_allclose(Up, U, atol=1e-13)


def test_gains_keep_the_system_on_the_motion():
    t = np.linspace(0, 4, 81)
    system = ContinuousSystem(problems.pendulum(), t)
    result = optimize(system, tracking(t), (np.zeros((81, 2)), np.zeros((81, 1))))
    W = np.hstack([result.X, result.U])
    w = W[0] + [0.1, 0.1, 0.0]
    for k in range(80):
        u = result.U[k + 1] - result.gains[k] @ (w - W[k])
        w = np.append(system._step(k, w[:2], w[2:], u), u)
    assert np.abs(w - W[-1]).max() < 1e-3


@pytest.mark.parametrize("dt", [0.1, 0.02])
@pytest.mark.parametrize("name", ["swing-up", "tipping"])
def test_newton_converges_quadratically(name, dt):
    """Coarse nodes and a reference with a jump included. The slope is quadratic in the distance d to the optimum, so
    from d to C d^2 it goes from s to C' s^2: near the end its logarithm doubles."""
    t = dt * np.arange(round(4 / dt) + 1)
    if name == "swing-up":
        model, x0 = problems.pendulum(), np.zeros(2)
        cost = TrackingCost({"theta": np.where(t < 2, 0.0, 1.5)}, [100.0, 0.1], 5.0)
    else:
        model, x0 = problems.cart_pendulum(), np.array([0.0, np.pi, 0.0, 0.0])
        angle = np.where((t >= 1) & (t < 3), np.pi - np.pi / 8 * np.sin(np.pi / 2 * (t - 1)), np.pi)
        cost = TrackingCost({"theta": angle}, {"x": 10.0, "theta": 500.0, "*": 0.01}, 0.1)
    system = ContinuousSystem(model, t)
    start = (np.tile(x0, (len(t), 1)), np.zeros((len(t), 1)))
    result = optimize(system, cost, start, method="newton", tolerance=1e-8)
    assert result.converged, result.summary()
    assert result.iterations <= 10
    slopes = [abs(row.slope) for row in result.history]
    a, b, c = slopes[-3:]
    assert [row.method for row in result.history[-3:]] == ["newton"] * 3
    assert b < 1e-2 * a
    assert c < max((b / a) ** 1.7 * b, 1e-13), result.summary()


def test_free_start():
    """A pendulum whose torque is too expensive to use must choose its initial velocity."""
    t = np.linspace(0, 1, 41)
    system = ContinuousSystem(problems.pendulum(), t)
    cost = TrackingCost({}, {"v.theta": 1e-3}, 1e3, Qf=0.0) + TerminalCost({"theta": 1.0}, {"theta": 1e4})
    start = (np.zeros((41, 2)), np.zeros((41, 1)))
    for method in ("auto", "quasi"):
        result = optimize(system, cost, start, free_start=["v.theta"], method=method)
        assert result.converged
        assert result.X[0, 0] == 0.0
        assert result.X[-1, 0] == pytest.approx(1.0, abs=1e-3)
        assert np.abs(result.U).max() < 1e-2


def test_bounds():
    t = np.linspace(0, 2, 41)
    system = ContinuousSystem(problems.pendulum(), t)
    start = (np.zeros((41, 2)), np.zeros((41, 1)))
    limit = 0.6 * np.abs(optimize(system, tracking(t), start).U).max()
    result = optimize(system, tracking(t), start, bounds={"torque": (-limit, limit)}, max_iterations=500)
    assert result.converged, result.reason
    assert 0.98 * limit < np.abs(result.U).max() <= limit


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


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"t": [0.0, 1.0, np.inf]}, "t must"),
        ({"t": "abc"}, "t must"),
        ({"integrator": "euler"}, "integrator must"),
        ({"rtol": np.nan}, "rtol must"),
        ({"rtol": -1.0}, "rtol must"),
    ],
)
def test_wrong_options_are_named(options: dict, culprit: str) -> None:
    with pytest.raises(ValueError, match=culprit):
        ContinuousSystem(problems.pendulum(), **{"t": np.linspace(0, 1, 11), "integrator": "RK45", **options})
