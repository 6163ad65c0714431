"""Filters and smoother: exact on linear systems, robust on nonlinear ones."""

import pickle

import numpy as np
import pytest

import dalembert as da
from dalembert import estimate as de

from ..control import models
from .linear import LinearSystem, posterior


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(1)
    system = LinearSystem(np.array([[1.0, 0.2, 0], [-0.3, 0.9, 0.1], [0, 0, 0.7]]), rng.normal(size=(3, 1)))
    C, Q, R = rng.normal(size=(2, 3)), np.diag([0.01, 0.02, 0.0]), np.diag([0.1, 0.3])
    U = rng.normal(size=(12, 1))
    x, Z = np.array([1.0, 0, 2]), []
    for k in range(13):
        Z.append(C @ x + np.sqrt(np.diag(R)) * rng.normal(size=2))
        if k < 12:
            x = system.f(x, U[k]) + np.sqrt(np.diag(Q)) * rng.normal(size=3)
    Z = np.array(Z)
    Z[3] = np.nan
    Z[7, 0] = np.nan
    m0, P0 = np.zeros(3), np.diag([2.0, 1.0, 0.5])
    exact = posterior(system, m0, P0, Q, C, R, U, Z)
    return system, C, Q, R, U, Z, m0, P0, exact


@pytest.mark.parametrize("kind", [de.ExtendedKalmanFilter, de.UnscentedKalmanFilter])
def test_exact_on_a_linear_system(linear, kind):
    system, C, Q, R, U, Z, m0, P0, (mean, P) = linear
    kalman = kind(system, de.measure(system, C=C), Q, R)
    run = kalman.run(kalman.start(m0, P0), U, Z)
    # the last filtered state and every smoothed state are the exact posterior
    np.testing.assert_allclose(run.mean[-1], mean[-1], atol=1e-9)
    np.testing.assert_allclose(run.covariance[-1], P[-3:, -3:], atol=1e-9)
    smoothed = de.smooth(run)
    np.testing.assert_allclose(smoothed.mean, mean, atol=1e-8)
    for k in range(13):
        np.testing.assert_allclose(smoothed.covariance[k], P[3 * k : 3 * k + 3, 3 * k : 3 * k + 3], atol=1e-8)
    assert not run.accepted[3]
    assert run.accepted[7]
    assert np.isnan(run.innovation[3]).all()
    assert np.isnan(run.innovation[7, 0])
    assert not np.isnan(run.innovation[7, 1])


def test_particles_approach_the_exact_posterior(linear):
    system, C, Q, R, U, Z, m0, P0, (mean, P) = linear
    particle = de.ParticleFilter(system, de.measure(system, C=C), Q, R, particles=4000)
    run = particle.run(particle.start(m0, P0), U, Z)
    assert np.abs(run.mean[-1] - mean[-1]).max() < 0.2 * np.sqrt(np.diag(P)[-3:]).max()
    # the same call gives the same numbers
    again = particle.run(particle.start(m0, P0), U, Z)
    np.testing.assert_array_equal(run.mean, again.mean)


def pendulum_record(steps=80, noise=0.05, seed=0):
    system = da.System(da.MidpointVI(models.pendulum(), dt=0.1), steps=steps)
    U = np.zeros((steps, 1))
    truth = system.simulate([1.5, 0.0], U)
    Z = truth[:, :1] + noise * np.random.default_rng(seed).normal(size=(steps + 1, 1))
    return system, U, truth, Z


def positive(P):
    return np.linalg.eigvalsh(P).min() >= -1e-12 * np.abs(P).max()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (de.ExtendedKalmanFilter, {}),
        (de.UnscentedKalmanFilter, {}),
        (de.ParticleFilter, {"particles": 300}),
    ],
)
def test_free_swinging_pendulum_through_outliers_and_gaps(kind, options):
    system, U, truth, Z = pendulum_record()
    Z[20:26] = np.nan
    Z[40] += 3.0
    Z[55] -= 5.0
    rows = [None if k == 60 else z for k, z in enumerate(Z)]
    tracker = kind(system, de.measure(system, "theta"), Q=[1e-5, 1e-4], R=0.05**2, gate=0.999, **options)
    run = tracker.run(tracker.start([1.3, 0.2], 0.05), U, rows)
    assert np.isfinite(run.mean).all()
    assert all(positive(P) for P in run.covariance)
    assert not run.accepted[[40, 55, 60, 22]].any()
    assert run.accepted[[30, 41, 56]].all()
    error = np.abs(run.mean - truth)[10:, 0]
    assert error.mean() < 0.05
    assert error.max() < 0.2
    smoothed = de.smooth(run)
    assert np.abs(smoothed.mean - truth)[:, 0].mean() < np.abs(run.mean - truth)[:, 0].mean()


def test_without_a_gate_outliers_move_the_estimate_but_never_break_it():
    system, U, _, Z = pendulum_record()
    Z[::7] += 1e6
    ekf = de.ExtendedKalmanFilter(system, de.measure(system, "theta"), Q=1e-4, R=1e-12)
    run = ekf.run(ekf.start([1.5, 0.0], 1e-6), U[:10], Z[:11])
    assert np.isfinite(run.mean).all()
    assert all(positive(P) for P in run.covariance)


def test_wrong_covariances_are_refused_by_name():
    system, *_ = pendulum_record(steps=2)
    sensor = de.measure(system, "theta", "p.theta")
    with pytest.raises(ValueError, match="R is not positive definite"):
        de.ExtendedKalmanFilter(system, sensor, Q=1e-4, R=[0.0, 1.0])
    with pytest.raises(ValueError, match="R is not positive definite"):
        de.UnscentedKalmanFilter(system, sensor, Q=1e-4, R=[[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="Q is not positive semidefinite"):
        de.ExtendedKalmanFilter(system, sensor, Q=[1.0, -1e-3], R=1.0)
    with pytest.raises(ValueError, match="Q is not symmetric"):
        de.ParticleFilter(system, sensor, Q=[[1.0, 0.5], [0.0, 1.0]], R=1.0)
    good = de.ExtendedKalmanFilter(system, sensor, Q=[0.0, 0.0], R=1.0)  # a perfect model is allowed
    with pytest.raises(ValueError, match="P is not positive semidefinite"):
        good.start([0, 0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="mean is not finite"):
        good.start([np.nan, 0], 1.0)
    with pytest.raises(ValueError, match="z is infinite"):
        good.update(good.start([0, 0], 1.0), [np.inf, 0.0])
    with pytest.raises(ValueError, match="z has shape"):
        good.update(good.start([0, 0], 1.0), [1.0])
    with pytest.raises(ValueError, match="gate is a probability"):
        de.ExtendedKalmanFilter(system, sensor, Q=0.0, R=1.0, gate=9.0)
    with pytest.raises(ValueError, match="rows"):
        good.run(good.start([0, 0], 1.0), np.zeros((2, 1)), np.zeros((5, 2)))


def test_divergence_is_an_error_that_names_the_states():
    class Explodes(LinearSystem):
        def f(self, x, u, k=0):
            return np.array([x[0], np.inf])

    ekf_system = Explodes(np.eye(2), np.zeros((2, 1)))
    ekf = de.ExtendedKalmanFilter(ekf_system, de.measure(ekf_system, "x0"), Q=0.0, R=1.0)
    with pytest.raises(da.SingularityError) as caught:
        ekf.predict(ekf.start([0, 0], 1.0), [0.0], 5)
    assert caught.value.variables == ("x1",)
    assert caught.value.step == 5


def test_constrained_system_with_singular_covariance():
    """The string robot: the covariance lives on the constraint manifold, filter and smoother must live with it."""
    system = da.System(da.MidpointVI(models.winch_robot(), dt=1 / 30), steps=60)
    t = system.t[1:]
    U = np.column_stack([0.1 * np.sin(2 * t), 1.0 + 0.05 * np.sin(3 * t)])
    x0 = np.array([0.3, -np.sqrt(1 - 0.09), 0, 1.0, 0, 0, 0, 0])
    truth = system.simulate(x0, U)
    rng = np.random.default_rng(0)
    Z = truth[:, :2] + 0.01 * rng.normal(size=(61, 2))
    for kind in (de.ExtendedKalmanFilter, de.UnscentedKalmanFilter):
        kalman = kind(system, de.measure(system, "xm", "ym"), Q=[1e-8] * 2 + [0, 0] + [1e-6] * 2 + [0, 0], R=1e-4)
        run = kalman.run(
            kalman.start(x0 + np.array([0.02, 0.01, 0, 0, 0.05, 0, 0, 0]), [4e-4] * 2 + [0, 0] + [0.01] * 2 + [0, 0]),
            U,
            Z,
        )
        assert np.isfinite(run.mean).all()
        assert all(positive(P) for P in run.covariance)
        # known inputs: the kinematic states stay exact
        np.testing.assert_allclose(run.mean[:, 2:4], truth[:, 2:4], atol=1e-9)
        raw = np.linalg.norm(Z - truth[:, :2], axis=1)[20:].mean()
        assert np.linalg.norm(run.mean[:, :2] - truth[:, :2], axis=1)[20:].mean() < 0.6 * raw
        smoothed = de.smooth(run)
        assert np.isfinite(smoothed.mean).all()
        assert (
            np.linalg.norm(smoothed.mean[:, :2] - truth[:, :2], axis=1).mean()
            < np.linalg.norm(run.mean[:, :2] - truth[:, :2], axis=1).mean()
        )


def test_many_states_through_the_core_are_the_same_as_one_by_one():
    system = da.System(da.MidpointVI(models.winch_robot(), dt=1 / 30), steps=3)
    x = np.array([0.3, -np.sqrt(1 - 0.09), 0, 1.0, 0, 0, 0, 0])
    points = x + 0.02 * np.random.default_rng(0).normal(size=(50, 8))
    u = np.array([0.01, 1.02])
    each = np.stack([system.f(y, u, 1) for y in points])
    np.testing.assert_allclose(system.f_batch(points, u, 1), each, atol=1e-11)


def test_angles_are_wrapped():
    system = LinearSystem(np.eye(1), np.zeros((1, 1)))
    sensor = de.measure(system, "x0", angles=("x0",))
    np.testing.assert_allclose(sensor.innovation(np.array([3.1]), np.array([-3.1])), [6.2 - 2 * np.pi])
    np.testing.assert_allclose(sensor.innovation(np.array([0.5]), np.array([0.2])), [0.3])
    for kind in (de.ExtendedKalmanFilter, de.UnscentedKalmanFilter):
        kalman = kind(system, sensor, Q=0.0, R=1.0)
        after = kalman.update(kalman.start([-3.1], 1.0), [3.1])
        np.testing.assert_allclose(after.mean, [-3.1 + (6.2 - 2 * np.pi) / 2], atol=1e-9)


def test_filters_and_measurements_pickle():
    system = LinearSystem(np.eye(2), np.zeros((2, 1)))
    ekf = de.ExtendedKalmanFilter(system, de.measure(system, "x1"), Q=0.1, R=1.0)
    copy = pickle.loads(pickle.dumps(ekf))
    a, b = (k.update(k.start([0, 0], 1.0), [1.0]) for k in (ekf, copy))
    np.testing.assert_array_equal(a.mean, b.mean)


BAD = {
    "NaN": np.nan,
    "negative": -1.0,
    "asymmetric": [[1.0, 0.5], [0.0, 1.0]],
    "indefinite": [[1.0, 2.0], [2.0, 1.0]],
    "text": "1",
    "complex": 1j,
    "complex array": np.array([1 + 1j, 1.0]),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", [da.ExtendedKalmanFilter, da.UnscentedKalmanFilter, da.ParticleFilter])
def test_noise_that_is_none_is_refused(name: str, kind: type) -> None:
    system = da.System(da.MidpointVI(da.models.pendulum(), 0.1), steps=3)
    sensor = da.measure(system, "*")
    with pytest.raises(ValueError, match="Q"):
        kind(system, sensor, Q=BAD[name], R=1.0)
    with pytest.raises(ValueError, match="R"):
        kind(system, sensor, Q=1.0, R=BAD[name])
    kalman = kind(system, sensor, Q=1e-6, R=0.01)
    with pytest.raises(ValueError, match="P"):
        kalman.start([0.0, 0.0], BAD[name])
    with pytest.raises(ValueError, match="P0"):
        da.monte_carlo(kalman, (np.zeros((4, 2)), np.zeros((3, system.nu))), trials=2, P0=BAD[name])
    start = kalman.start([0.0, 0.0], 0.1)
    for z in (["0.1", "0"], np.array([1j, 0]), [np.inf, 0], [0.0]):
        with pytest.raises(ValueError, match="z"):
            kalman.update(start, z)


@pytest.mark.parametrize(
    "wrong", [{"missing": 2}, {"missing": -0.1}, {"missing": np.nan}, {"outliers": (2, 1)}, {"trials": 0}]
)
def test_chances_of_a_study(wrong: dict) -> None:
    system = da.System(da.MidpointVI(da.models.pendulum(), 0.1), steps=3)
    kalman = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-6, R=0.01)
    record = (np.zeros((4, 2)), np.zeros((3, system.nu)))
    with pytest.raises(ValueError, match=next(iter(wrong))):
        da.monte_carlo(kalman, record, **{"trials": 2, "P0": 0.1, **wrong})
