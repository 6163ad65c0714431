"""Maps written in Python go through every room: an Euler step, RK4, a class with no more than the protocol, and a body on a manifold."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.integrate.onestep import Steps, complete, slopes
from tests.maps import RK4, Bare, Body, conjugate, multiply, stars, turn

MAPS = {
    "euler": lambda: da.EulerModel(models.pendulum(), 0.05),
    "rk4": lambda: RK4(models.pendulum(), 0.1),
    "bare": Bare,
    "variational 2": lambda: da.MidpointVI(models.pendulum(), 0.1),
    "variational 4": lambda: da.MidpointVI(models.pendulum(), 0.1, order=4),
    "variational 6": lambda: da.MidpointVI(models.pendulum(), 0.1, order=6),
}
every_map = pytest.mark.parametrize("name", MAPS)


def motion(system: da.System) -> tuple[np.ndarray, np.ndarray]:
    U = np.sin(3 * system.t[:-1])[:, None]
    return system.simulate(np.array([0.5, 0.2]), U), U


# ---- what a one-step says about itself


@every_map
def test_derivatives_are_those_of_f(name: str) -> None:
    one_step = complete(MAPS[name]())
    x, u, z = np.array([0.7, 0.4]), np.array([0.3]), np.array([0.8, -1.3])
    A, B = one_step.linearize(x, u)
    D = slopes(lambda d: one_step.f(x + d[:2], u + d[2:]), 3)
    np.testing.assert_allclose(np.hstack([A, B]), D, atol=1e-9)
    np.testing.assert_allclose(np.concatenate(one_step.adjoint(x, u, 0, z)), z @ np.hstack([A, B]), atol=1e-12)
    xx, xu, uu = one_step.second_order(x, u, 0, z)
    H = slopes(lambda d: np.concatenate(one_step.adjoint(x + d[:2], u + d[2:], 0, z)), 3)
    np.testing.assert_allclose(np.block([[xx, xu], [xu.T, uu]]), H, atol=1e-8)
    full = da.System(one_step, steps=2).second_order_full(x, u)
    np.testing.assert_allclose(np.tensordot(z, full, 1), H, atol=1e-8)
    np.testing.assert_allclose(one_step.f_batch(np.stack([x, 2 * x]), u)[1], one_step.f(2 * x, u), atol=1e-12)


def test_a_map_that_lacks_something_is_told_what() -> None:
    class Half:
        nx = ndx = nu = 1
        x_names = dx_names = u_names = ("a",)

        def f(self, x, u, k=0):
            return x

    with pytest.raises(TypeError, match=r"Half is no one-step: it has no dt, linearize, adjoint.*OneStepMap"):
        da.System(Half(), steps=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no one-step"):
        da.System(None, steps=3)  # type: ignore[arg-type]


def test_lengths_of_steps() -> None:
    with pytest.raises(ValueError, match="steps of its own"):
        da.System(RK4(models.pendulum(), 0.1), t=[0.0, 0.3, 0.4])
    assert da.System(RK4(models.pendulum(), 0.1), t=5 + 0.1 * np.arange(4)).t[0] == 5
    uneven = da.System(da.EulerModel(models.pendulum(), 0.1), t=[0.0, 0.3, 0.4])
    assert uneven.f([0.1, 1.0], [0.0], 0)[0] == pytest.approx(0.4)
    assert uneven.f([0.1, 1.0], [0.0], 1)[0] == pytest.approx(0.2)


def test_a_failed_step_keeps_the_motion_until_then() -> None:
    class Wall(Bare):
        def f(self, x, u, k=0):
            if k == 4:
                raise da.ConvergenceError("hit the wall")
            return np.array([np.nan, 0.0]) if k == 7 else super().f(x, u, k)

    system = da.System(Wall(), t=2 + 0.1 * np.arange(11))
    for run in (
        lambda: system.simulate([0.5, 0.0], np.zeros((10, 1))),
        lambda: system.project(np.zeros((11, 2)), np.zeros((10, 1)), np.zeros((10, 1, 2))),
        lambda: system.simulate([0.5, 0.0], lambda t, x: [0.0]),
    ):
        with pytest.raises(da.ConvergenceError, match="wall") as caught:
            run()
        assert caught.value.step == 4
        assert caught.value.time == pytest.approx(2.4)
        X, U = caught.value.trajectory
        assert X.shape == (5, 2)
        assert U.shape == (4, 1)
    with pytest.raises(da.ConvergenceError, match="'theta' that is not finite"):
        system.f([0.1, 0.0], [0.0], 7)
    X, done = system.rollouts([[0.5, 0.0], [0.1, 0.0]], np.zeros((10, 1)))
    np.testing.assert_array_equal(done, [4, 4])
    assert np.isfinite(X[:, :5]).all()
    assert np.isnan(X[:, 5:]).all()


# ---- rooms


@every_map
def test_motions_and_batches(name: str) -> None:
    system = da.System(MAPS[name](), steps=20)
    X, U = motion(system)
    np.testing.assert_allclose(system.simulate(X[0], lambda t, x: U[round(t / system.dt[0])]), X, atol=1e-12)
    again, same = system.project(X, U, np.ones((20, 1, 2)))
    np.testing.assert_allclose(again, X, atol=1e-10)
    np.testing.assert_allclose(same, U, atol=1e-10)
    batch, done = system.rollouts(X[[0, 3, 5]], U)
    np.testing.assert_allclose(batch[0], X, atol=1e-10)
    assert (done == 20).all()
    A, _ = system.linearize_trajectory(X, U)
    np.testing.assert_allclose(A[7], system.linearize(X[7], U[7], 7)[0], atol=1e-10)
    Z = np.cos(np.arange(40.0)).reshape(20, 2)
    np.testing.assert_allclose(
        system.second_order_trajectory(X, U, Z)[0][4], system.second_order(X[4], U[4], 4, Z[4])[0], atol=1e-9
    )
    found = system.curve(system.trajectory(X, U))
    np.testing.assert_allclose(found[0], X, atol=1e-12)
    np.testing.assert_array_equal(system.from_trajectory(system.trajectory(X, U))[1], U)


@every_map
def test_regulators(name: str) -> None:
    one_step = MAPS[name]()
    system = da.System(one_step, steps=60)
    X, U = motion(system)
    law = da.lqr(system, (X, U), Q=1.0, R=0.1)
    assert law.K.shape == (60, 1, 2)
    x0 = X[0] + np.array([0.3, -0.2])
    closed = system.simulate(x0, law)
    np.testing.assert_allclose(closed, system.project(X, U, law.K, x0=x0)[0], atol=1e-10)
    opened = system.simulate(x0, U)
    assert np.abs(closed[-1] - X[-1]).max() < 0.1 * np.abs(opened - X)[-10:].max()
    copy = pickle.loads(pickle.dumps(law))
    np.testing.assert_array_equal(copy.input(3, x0), law.input(3, x0))
    assert da.reduce_state(one_step, (X, U)).size == 2
    # upright
    A, B = one_step.linearize(np.array([np.pi, 0.0]), np.zeros(1))
    assert da.controllable_rank(A, B) == 2
    point = da.Feedback.at_point([np.pi, 0.0], [0.0], da.lqr_infinite(A, B, 1.0, 0.1).K)
    assert np.abs(system.simulate([2.9, 0.0], point)[-1] - [np.pi, 0.0]).max() < 1e-2


@every_map
def test_filters(name: str) -> None:
    """Of one angle measured with an error of 0.1: all filters know it better, the smoother best."""
    one_step = MAPS[name]()
    system = da.System(one_step, steps=60)
    truth, U = motion(system)
    Z = truth[:, :1] + 0.1 * np.random.default_rng(1).normal(size=(61, 1))
    sensor = da.measure(complete(one_step), "theta")
    errors = {}
    for kind in (da.ExtendedKalmanFilter, da.UnscentedKalmanFilter, da.ParticleFilter):
        options = {"particles": 150} if kind is da.ParticleFilter else {}  # without their noise they would collapse
        noise = 1e-4 if kind is da.ParticleFilter else 1e-6
        for system_or_map in (system, one_step):
            kalman = kind(system_or_map, sensor, Q=noise, R=0.01, **options)
            run = kalman.run(kalman.start([0.4, 0.0], [0.02, 0.1]), U, Z)
            errors[kind.__name__] = np.abs(run.mean - truth)[20:, 0].mean()
            assert errors[kind.__name__] < 0.05
        assert da.smooth(run).mean.shape == (61, 2)
    assert abs(errors["ExtendedKalmanFilter"] - errors["UnscentedKalmanFilter"]) < 2e-3
    ekf = da.ExtendedKalmanFilter(one_step, sensor, Q=1e-6, R=0.01)
    filtered, smoothed = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        start = ekf.start(truth[0] + rng.normal(size=2) * np.sqrt([0.02, 0.1]), [0.02, 0.1])
        run = ekf.run(start, U, truth[:, :1] + 0.1 * rng.normal(size=(61, 1)))
        filtered.append(np.abs(run.mean - truth).mean())
        smoothed.append(np.abs(da.smooth(run).mean - truth).mean())
    assert np.mean(smoothed) < 0.7 * np.mean(filtered)
    study = da.monte_carlo(ekf, (truth, U), trials=5, P0=0.01, states=(system.dx_names[0],), keep=True)
    assert study.error.shape == (5, 61)
    assert study.mean is not None
    assert study.error[:, 30:].mean() < 0.05
    short = da.monte_carlo(
        da.ExtendedKalmanFilter(system, sensor, Q=1e-6, R=0.01), (truth[:31], U[:30]), trials=2, P0=0.01
    )
    assert short.error.shape == (2, 31)


@every_map
@pytest.mark.parametrize("method", ["auto", "newton", "quasi"])
def test_optimization(name: str, method: str) -> None:
    one_step = MAPS[name]()
    system = da.System(one_step, steps=20)
    start = (np.zeros((21, 2)), np.zeros((20, 1)))
    cost = da.TrackingCost({"theta": 1.2}, Q=[1.0, 0.1], R=0.1, Qf=10.0) + 0.5 * da.ExpressionCost(
        terminal=lambda s: s["theta"] ** 2
    )
    result = da.optimize(one_step, cost, start, method=method, tolerance=1e-8)
    assert result.converged
    np.testing.assert_allclose(system.simulate(result.X[0], result.U), result.X, atol=1e-7)
    assert result.gains.shape == (20, 1, 2)
    # a minimum: no input can be changed for the better
    value = cost.bind(system).values

    def total(U: np.ndarray) -> float:
        return float(value(system.simulate(result.X[0], U), U).sum())

    bump = np.random.default_rng(0).normal(size=(20, 1))
    slope = (total(result.U + 1e-4 * bump) - total(result.U - 1e-4 * bump)) / 2e-4
    assert abs(slope) < 1e-3
    if method == "auto":
        limited = da.optimize(system, cost, result, bounds={"torque": (-1.5, 1.5)}, method="quasi")
        assert limited.converged
        assert np.abs(limited.U).max() <= 1.5
        assert np.abs(result.U).max() > 1.5


# ---- a manifold: unit quaternion and body momentum


def rest(q: np.ndarray, count: int) -> np.ndarray:
    return np.tile(np.concatenate([q, np.zeros(3)]), (count, 1))


def about(axis: list[float], degrees: float) -> np.ndarray:
    n = np.array(axis) / np.linalg.norm(axis)
    half = np.deg2rad(degrees) / 2
    return np.concatenate([[np.cos(half)], np.sin(half) * n])


def angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angle between attitudes (rad)."""
    return np.linalg.norm(Body().difference(a, b)[..., :3], axis=-1)


def tumble(steps: int) -> tuple[da.System, np.ndarray, np.ndarray]:
    """A body that tumbles more than once around, pushed a little."""
    system = da.System(Body(), steps=steps)
    U = 0.3 * np.sin(np.outer(system.t[:-1], [1.0, 0.7, 1.3]))
    x0 = np.concatenate([about([1, 2, 3], 40), [1.0, 2.0, -0.5]])
    return system, system.simulate(x0, U), U


def test_the_body_is_one_step_on_a_manifold() -> None:
    body = Body()
    system, X, U = tumble(100)
    np.testing.assert_allclose(np.linalg.norm(X[:, :4], axis=1), 1, atol=1e-13)
    free = system.simulate(X[0], np.zeros((100, 3)))
    np.testing.assert_allclose(turn(free[:, :4], free[:, 4:]), np.tile(turn(X[0, :4], X[0, 4:]), (101, 1)), atol=1e-12)
    rng = np.random.default_rng(0)
    dx = rng.uniform(-1.5, 1.5, size=(101, 6))  # shorter than half a turn
    np.testing.assert_allclose(body.difference(X, body.retract(X, dx)), dx, atol=1e-12)
    same = body.retract(X[0], body.difference(X[0], X[50]))
    np.testing.assert_allclose(multiply(conjugate(same[:4]), X[50, :4])[1:], 0, atol=1e-12)
    A, B = body.linearize(X[9], U[9])
    after = body.f(X[9], U[9])
    D = slopes(lambda d: body.difference(after, body.f(body.retract(X[9], d[:6]), U[9] + d[6:])), 9)
    np.testing.assert_allclose(np.hstack([A, B]), D, atol=1e-10)
    # what the default finds by differences is what the body knows, for many states at once
    default = da.OneStepMap
    for by_differences, known in (
        (default.difference_jacobian(body, X[:-1], X[1:]), body.difference_jacobian(X[:-1], X[1:])),
        (default.retract_jacobian(body, X), body.retract_jacobian(X)),
    ):
        np.testing.assert_allclose(by_differences, known, atol=1e-10)
    # derivatives by default: against those of the difference quotient of the map itself
    z = rng.normal(size=6)
    xx, xu, uu = body.second_order(X[9], U[9], 0, z)
    H = np.block([[xx, xu], [xu.T, uu]])
    for _ in range(3):
        d = rng.normal(size=9)
        end = body.f(X[9], U[9])

        def along(s: float) -> float:
            return float(z @ body.difference(end, body.f(body.retract(X[9], s * d[:6]), U[9] + s * d[6:])))  # noqa: B023

        h = 2e-3
        bend = (-along(2 * h) + 16 * along(h) + 16 * along(-h) - along(-2 * h)) / (12 * h * h)
        assert d @ H @ d == pytest.approx(bend, abs=1e-6 * np.abs(H).max())


@pytest.mark.parametrize("kind", ["tracking", "terminal", "expression", "sum"])
def test_costs_of_curved_states(kind: str) -> None:
    system, X, U = tumble(8)
    rng = np.random.default_rng(1)
    full = rng.normal(size=(6, 6))
    target = rest(about([0, 1, 1], 100), 9)
    tracking = da.TrackingCost((target, np.zeros((8, 3))), Q=full @ full.T, R=0.3)
    costs = {
        "tracking": tracking,
        "terminal": da.TerminalCost(target[0], {"rx": 3.0, "Ly": 0.2}),
        "expression": da.ExpressionCost(
            stage=lambda s: s["qx"] ** 2 * s["Lx"] + s["qw"] * s["qy"] * s["tx"], terminal=lambda s: s["qz"] ** 4
        ),
    }
    costs["sum"] = tracking + 2.0 * costs["expression"]
    cost = costs[kind].bind(system)
    lx, lu = cost.gradient(X, U)
    Q, S, R = cost.hessian(X, U)
    assert lx.shape == (9, 6)
    dX, dU = rng.normal(size=(9, 6)), rng.normal(size=(8, 3))

    def along(s: float) -> float:
        return float(cost.values(system.retract(X, s * dX), U + s * dU).sum())

    h = 1e-3
    slope = (8 * (along(h) - along(-h)) - along(2 * h) + along(-2 * h)) / (12 * h)
    assert np.vdot(lx, dX) + np.vdot(lu, dU) == pytest.approx(slope, rel=1e-8)
    bend = (-along(2 * h) + 16 * (along(h) + along(-h)) - 30 * along(0) - along(-2 * h)) / (12 * h * h)
    total = np.einsum("ki,kij,kj->", dX, Q, dX) + np.einsum("ki,kij,kj->", dU, R, dU)
    if S is not None:
        total += 2 * np.einsum("ki,kij,kj->", dX[:-1], S, dU)
    assert total == pytest.approx(bend, rel=1e-6)


def slew() -> tuple[da.System, da.Cost, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """From rest to rest, 170 degrees about an axis that is no principal one, in six seconds."""
    system = da.System(Body(0.2), steps=30)
    goal = about([1, 1, 0.5], 170)
    cost = da.TrackingCost((rest(goal, 31), np.zeros((30, 3))), Q=0.04, R=0.2, Qf=100.0)
    return system, cost, (rest(np.array([1.0, 0, 0, 0]), 31), np.zeros((30, 3))), goal


def test_a_turn_of_170_degrees() -> None:
    system, cost, start, goal = slew()
    results = {m: da.optimize(system, cost, start, method=m, tolerance=1e-9) for m in ("auto", "newton", "quasi")}
    for result in results.values():
        assert result.converged, result.summary()
        assert result.cost == pytest.approx(results["newton"].cost, rel=1e-8)
        np.testing.assert_allclose(system.simulate(result.X[0], result.U), result.X, atol=1e-8)
        assert angle(result.X[-1], rest(goal, 1)[0]) < np.deg2rad(2)
        assert result.gains.shape == (30, 3, 6)
    # Newton's last steps are quadratic: the model of the cost is exact, curvature of the states included
    slopes_ = [abs(row.slope) for row in results["newton"].history]
    assert slopes_[-1] < 1e-4 * slopes_[-2] < 1e-6
    # the second derivative of the cost along a direction, through the projection
    problem = results["quasi"].problem
    U = 0.5 * np.sin(np.outer(system.t[:-1], [1.0, 0.7, 1.3]))
    p = problem.point(system.simulate(start[0][0], U), U)
    d = problem.direction(p, "steepest")
    scale = 1e-2 / max(1.0, float(np.abs(d.dX).max()))

    def value(s: float) -> float:
        return float(problem.value(*problem.project(*problem.moved(p, d, s), p.K)))

    bend = (-value(2 * scale) + 16 * (value(scale) + value(-scale)) - 30 * value(0.0) - value(-2 * scale)) / (
        12 * scale**2
    )
    assert problem.curvature(p, d) == pytest.approx(bend, rel=1e-4)


def test_a_turn_with_bounded_torques_and_coordinates() -> None:
    system, cost, start, _ = slew()
    free = da.optimize(system, cost, start)
    assert np.abs(free.U).max() > 1.0
    bounds = {"tx": (-0.6, 0.6), "ty": (-0.6, 0.6), "tz": (-0.6, 0.6), "Lx": (-1.2, 1.2), "qw": (-0.1, None)}
    result = da.optimize(system, cost, free, bounds=bounds, method="quasi")
    assert result.converged, result.summary()
    assert np.abs(result.U).max() <= 0.6
    assert np.abs(result.X[:, 4]).max() <= 1.2
    assert result.cost > free.cost


def test_regulating_a_body() -> None:
    system, cost, start, _ = slew()
    plan = da.optimize(system, cost, start)
    law = da.lqr(system, (plan.X, plan.U), Q={"r?": 10.0, "*": 1.0}, R=0.1)
    assert law.K.shape == (30, 3, 6)
    off = np.array([0.2, -0.3, 0.25, 0.1, -0.2, 0.1])
    x0 = system.retract(plan.X[0], off)
    closed = system.simulate(x0, law)
    np.testing.assert_allclose(closed, system.project(plan.X, plan.U, law.K, x0=x0)[0], atol=1e-10)
    assert angle(closed[-1], plan.X[-1]) < 0.1 * angle(x0, plan.X[0])
    # the quaternion's sign is no matter
    flipped = x0 * np.concatenate([-np.ones(4), np.ones(3)])
    np.testing.assert_allclose(law.input(0, flipped), law.input(0, x0), atol=1e-12)
    A, B = system.linearize(plan.X[-1] * np.r_[np.ones(4), np.zeros(3)], np.zeros(3), 0)
    hold = da.Feedback.at_point(
        rest(plan.X[-1, :4], 1)[0], np.zeros(3), da.lqr_infinite(A, B, 1.0, 0.1).K, system=system
    )
    far = system.retract(hold.X[0], np.array([1.5, 1.0, -2.0, 0, 0, 0]))
    assert angle(system.simulate(far, hold)[-1], hold.X[0]) < 0.1 * angle(far, hold.X[0])
    copy = pickle.loads(pickle.dumps(hold))
    np.testing.assert_array_equal(copy.input(0, far), hold.input(0, far))
    # a motion seen from linearization: small deviations follow A
    small = system.retract(plan.X[0], 1e-5 * off)
    first = system.difference(plan.X[1], system.f(small, plan.U[0]))
    np.testing.assert_allclose(first, system.linearize(plan.X[0], plan.U[0])[0] @ (1e-5 * off), atol=1e-8)


def test_estimating_a_body() -> None:
    """Two stars seen with an error of 0.05 rad while the body tumbles: attitude and momentum (which nothing measures) become known."""
    system, truth, U = tumble(80)
    sensor = stars(Body())
    rng = np.random.default_rng(2)
    Z = np.stack([sensor.h(x) for x in truth]) + 0.05 * rng.normal(size=(81, 6))
    P0 = [0.1] * 3 + [0.05] * 3
    start = system.retract(truth[0], rng.normal(size=6) * np.sqrt(P0))
    runs = {}
    for kind, noise, options, steps in (
        (da.ExtendedKalmanFilter, 1e-5, {}, 80),
        (da.UnscentedKalmanFilter, 1e-5, {}, 80),
        (da.ParticleFilter, 1e-3, {"particles": 500}, 30),  # few particles need noise to spread
    ):
        kalman = kind(system, sensor, Q=noise, R=0.0025, **options)
        run = runs[kind] = kalman.run(kalman.start(start, P0), U[:steps], Z[: steps + 1])
        assert run.mean.shape == (steps + 1, 7)
        assert run.covariance.shape == (steps + 1, 6, 6)
        np.testing.assert_allclose(np.linalg.norm(run.mean[:, :4], axis=1), 1, atol=1e-12)
        e = system.difference(run.mean, truth[: steps + 1])
        assert np.linalg.norm(e[20:, :3], axis=1).mean() < (0.06 if kind is da.ParticleFilter else 0.03)
        # what it believes is about right: six components
        believed = np.einsum("ki,kij,kj->k", e, np.linalg.inv(run.covariance), e)[20:]
        assert 2 < believed.mean() < 14
    gap = system.difference(runs[da.ExtendedKalmanFilter].mean, runs[da.UnscentedKalmanFilter].mean)
    assert np.abs(gap[10:]).max() < 0.02
    for kind in (da.ExtendedKalmanFilter, da.UnscentedKalmanFilter):
        smoothed = da.smooth(runs[kind])
        np.testing.assert_allclose(np.linalg.norm(smoothed.mean[:, :4], axis=1), 1, atol=1e-12)
        better = np.linalg.norm(system.difference(smoothed.mean, truth), axis=1).mean()
        assert better < 0.7 * np.linalg.norm(system.difference(runs[kind].mean, truth), axis=1).mean()
        assert all(np.linalg.eigvalsh(P).min() > 0 for P in smoothed.covariance)
    ekf = da.ExtendedKalmanFilter(system, sensor, Q=1e-5, R=0.0025)
    study = da.monte_carlo(ekf, (truth, U), trials=3, P0=P0, states=("rx", "ry", "rz"), keep=True)
    assert study.error[:, 30:].mean() < 0.05


def test_means_on_a_manifold() -> None:
    """The mean of attitudes spread evenly about one is that one, wherever the cloud begins."""
    from dalembert.estimate.filter import mean_of, recentred

    body = Body()
    centre = np.concatenate([about([1, 0, 1], 130), [1.0, 0.0, 0.0]])
    away = np.vstack([np.eye(6), -np.eye(6)])
    points = body.retract(centre, 0.8 * away)
    mean = mean_of(body, points, np.full(12, 1 / 12), points[0])
    np.testing.assert_allclose(body.difference(centre, mean), 0, atol=1e-11)
    # a covariance seen from a state nearby: as differences of a small cloud are
    new = body.retract(centre, np.array([0.4, -0.2, 0.3, 0.1, 0, 0]))
    P = np.diag([1.0, 4.0, 9.0, 1.0, 1.0, 1.0])
    cloud = body.retract(
        centre, body.difference(centre, new) + 1e-6 * (np.sqrt(P) @ np.vstack([np.eye(6), -np.eye(6)]).T).T
    )
    seen = body.difference(new, cloud) / 1e-6
    np.testing.assert_allclose(recentred(body, centre, new, P), seen.T @ seen / 2, atol=1e-5)


def test_steps_are_plain_loops_by_default() -> None:
    assert type(Body().over(np.zeros(3))) is Steps
    assert type(da.MidpointVI(models.pendulum(), 0.1).over(np.zeros(3))) is not Steps
