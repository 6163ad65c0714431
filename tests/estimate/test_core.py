"""The filter of the core against the same filter written with matrices, and what it leaves to Python."""

import pickle

import numpy as np
import pytest

import dalembert as da
from dalembert import estimate as de

from .. import balls
from ..random_models import random_model, random_point


def pushed_pendulum():
    """A pendulum on a prescribed slider, with a torque."""
    arm = da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))
    cart = da.tx(da.Kinematic("x"), arm, name="cart")
    return da.Model([cart], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", "torque"), da.Damping(0.1)])


def by_hand(kalman, estimate, u, z, k, scale=1.0, dt=None):
    """Prediction, cross covariance and update with numpy and the one-step map: (mean, P, cross, mean, P, innovation, distance, accepted)."""
    space, sensor = kalman.map, kalman.measurement
    here, step = (space, k) if dt is None else (space.with_dt(np.array([dt])), 0)
    x, P = estimate
    Q = np.asarray(kalman.Q)
    mean, A, _ = here.advance(x, u, step)
    before = A @ P @ A.T + scale * (Q if Q.ndim == 2 else Q[k])
    rows = ~np.isnan(z)
    H, e = sensor.slope(mean)[rows], sensor.innovation(z, sensor.expected(mean))
    if not rows.any():
        return mean, before, P @ A.T, mean, before, e, np.nan, False
    R = np.asarray(kalman.R)[rows][:, rows]
    S = H @ before @ H.T + R
    distance = e[rows] @ np.linalg.solve(S, e[rows])
    if distance > de.filter.gate_threshold(kalman.gate, rows.sum()):
        return mean, before, P @ A.T, mean, before, e, distance, False
    K = before @ H.T @ np.linalg.inv(S)
    M = np.eye(len(P)) - K @ H
    new = space.retract(mean, K @ e[rows])
    after = M @ before @ M.T + K @ R @ K.T
    J = space.difference_jacobian(mean, new)
    if J is not None:
        after = np.linalg.solve(J, np.linalg.solve(J, after).T)
    return mean, before, P @ A.T, new, after, e, distance, True


CASES = {
    "cart-pole": lambda: (da.MidpointVI(da.models.cart_pole(), 0.01), lambda s: de.measure(s, "x", "theta")),
    "prescribed": lambda: (
        da.MidpointVI(pushed_pendulum(), 0.02, order=4),
        lambda s: de.measure(s, "theta", "v.x", angles=("theta",)) + de.measure_frame(s, "bob", "xz"),
    ),
    "random": lambda: (
        da.MidpointVI(random_model(3, 5, constraints=0), 0.01),
        lambda s: de.measure(s, C=np.random.default_rng(0).normal(size=(3, s.nx))),
    ),
    "expression": lambda: (
        da.MidpointVI(da.models.n_link(3), 0.01, alpha=0.4, forcing="left"),
        lambda s: de.measure_expression(s, lambda m: m.ca.sin(m.q[0]) * m.q[1] ** 2) + de.measure(s, "p.*"),
    ),
    "balls": lambda: (
        da.MidpointVI(balls.mechanism(1, constraint=False), 0.01),
        lambda s: de.measure(s, *s.x_names[:6]) + de.measure(s, s.x_names[-1]),
    ),
}


def made(name, **options):
    vi, sensor = CASES[name]()
    system = da.System(vi, steps=30)
    measurement = sensor(system)
    rng = np.random.default_rng(7)
    root = rng.normal(size=(system.ndx, system.ndx)) * 0.01
    noise = 0.01 * np.eye(measurement.size) + 0.002
    kalman = de.ExtendedKalmanFilter(system, measurement, root @ root.T, noise, **options)
    if vi.model.configuration.flat:
        q, v, _ = (
            random_point(vi.model, 1) if name == "random" else (0.3 * np.ones(vi.model.nq), np.zeros(vi.model.nv), 0)
        )
        x = system.x(q=q, v=0.1 * v)
    else:
        x = system.x(balls.start(vi, 1))
    U = 0.1 * rng.normal(size=(30, system.nu))
    if vi.model.nk:
        U[:, vi.model.nu :] += x[vi.model.nqd : vi.model.nq]
    X = system.simulate(x, U)
    Z = measurement.record((X, U), noise, seed=2)
    Z[4] = np.nan
    Z[9, 0] = np.nan
    Z[12] += 5.0  # beyond any gate
    Z[20, list(measurement.angles)] += 2 * np.pi
    start = kalman.start(system.retract(x, 0.05 * rng.normal(size=system.ndx)), 0.04)
    return kalman, start, U, Z


def close(found, wanted):
    scale = 1.0 + np.abs(np.nan_to_num(np.asarray(wanted, dtype=float))).max()
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=0, atol=2e-12 * scale)


@pytest.mark.parametrize("gate", [None, 0.999])
@pytest.mark.parametrize("name", CASES)
def test_predictions_updates_and_records_are_those_of_the_matrices(name, gate):
    kalman, start, U, Z = made(name, gate=gate)
    assert kalman.map.compiled() is not None
    assert kalman.measurement.compiled()[0] is not None
    run = kalman.run(start, U, Z)
    one = kalman.update(start, Z[0])
    close(run.mean[0], one.mean)
    for k in range(30):
        wanted = by_hand(kalman, (run.mean[k], run.covariance[k]), U[k], Z[k + 1], k)
        there = (run.predicted_mean, run.predicted_covariance, run.mean, run.covariance, run.innovation, run.distance)
        mean, P, cross, *after, accepted = wanted
        for found, value in zip([*there[:2], run.cross], [mean, P, cross], strict=True):
            close(found[k if found is run.cross else k + 1], value)
        for found, value in zip(there[2:], after, strict=True):
            close(found[k + 1], value)
        assert run.accepted[k + 1] == accepted
        # the same call by call
        before = kalman.predict(one, U[k], k)
        assert before.accepted is None
        assert before.innovation is None
        one = kalman.update(before, Z[k + 1])
        for name_, value in zip(("mean", "covariance", "innovation"), after, strict=False):
            close(getattr(one, name_), value)
        assert one.accepted is (None if np.isnan(Z[k + 1]).all() else accepted)
    assert run.accepted.sum() == (29 if gate else 30)


def test_steps_of_other_lengths_and_noise_per_step():
    kalman, start, U, Z = made("cart-pole")
    rng = np.random.default_rng(0)
    Q = np.array([np.diag(rng.uniform(1e-5, 1e-3, 4)) for _ in range(30)])
    kalman = de.ExtendedKalmanFilter(kalman.system, kalman.measurement, Q, kalman.R)
    dt = rng.uniform(0.005, 0.02, 30)
    for lengths in (None, dt):
        run = kalman.run(start, U, Z, dt=lengths)
        for k in range(30):
            h = None if lengths is None else float(lengths[k])
            wanted = by_hand(kalman, (run.mean[k], run.covariance[k]), U[k], Z[k + 1], k, (h or 0.01) / 0.01, h)
            close(run.covariance[k + 1], wanted[4])
            close(kalman.predict(de.Estimate(run.mean[k], run.covariance[k]), U[k], k, dt=h).mean, wanted[0])


def test_a_sensor_in_python_takes_the_same_update():
    kalman, start, U, Z = made("cart-pole", gate=0.99)
    C = kalman.measurement.matrix
    plain = de.Measurement(lambda x: C @ x, lambda x: C, kalman.measurement.names)
    assert plain.compiled() == (None, [])
    slow = de.ExtendedKalmanFilter(kalman.system, plain, kalman.Q, kalman.R, gate=0.99)
    one, other = kalman.run(start, U, Z), slow.run(start, U, list(Z))
    for field in ("mean", "covariance", "predicted_covariance", "cross", "innovation", "distance"):
        close(getattr(one, field), getattr(other, field))
    np.testing.assert_array_equal(one.accepted, other.accepted)


def test_records_with_rows_that_are_missing():
    kalman, start, U, Z = made("cart-pole")
    rows = [None if k % 3 else z for k, z in enumerate(Z)]
    gaps = np.array([np.full(2, np.nan) if z is None else z for z in rows])
    one, other = kalman.run(start, U, rows), kalman.run(start, U, gaps)
    np.testing.assert_array_equal(one.mean, other.mean)
    short = kalman.run(start, U, Z[1:])
    assert not short.accepted[0]
    np.testing.assert_array_equal(short.mean[0], start.mean)


def test_what_is_wrong_is_said():
    kalman, start, U, Z = made("cart-pole")
    with pytest.raises(ValueError, match="u has shape"):
        kalman.predict(start, np.zeros(3))
    with pytest.raises(ValueError, match="u is not finite"):
        kalman.predict(start, np.array([np.nan]))
    with pytest.raises(ValueError, match="step 99 is outside"):
        kalman.predict(start, U[0], 99)
    with pytest.raises(ValueError, match="z has shape"):
        kalman.update(start, np.zeros(5))
    with pytest.raises(ValueError, match="z is infinite"):
        kalman.update(start, np.array([np.inf, 0.0]))
    with pytest.raises(TypeError, match="Estimate"):
        kalman.update("here", Z[0])
    with pytest.raises(ValueError, match="z is infinite"):
        kalman.run(start, U, np.where(np.arange(31)[:, None] == 3, np.inf, Z))
    wild = de.Estimate(np.array([0.0, 0.0, 1e200, 1e200]), start.covariance)
    with pytest.raises((da.ConvergenceError, da.SingularityError)):
        kalman.predict(wild, U[0])
    nowhere = de.Estimate(start.mean, -np.eye(4))
    with pytest.raises(da.SingularityError, match="innovation covariance is not positive definite"):
        kalman.update(nowhere, Z[1])


def test_numbers_and_lists_will_do():
    kalman, start, U, Z = made("cart-pole")
    one = kalman.update(kalman.predict(start, U[0].tolist(), np.int64(0)), Z[1].tolist())
    other = kalman.update(kalman.predict(start, U[0], 0), Z[1])
    close(one.mean, other.mean)
    close(one.covariance, other.covariance)
    close(kalman.predict(start, float(U[0, 0])).mean, kalman.predict(start, U[0]).mean)


def test_filters_travel():
    kalman, start, U, Z = made("expression")
    again = pickle.loads(pickle.dumps(kalman))
    np.testing.assert_array_equal(again.run(start, U, Z).mean, kalman.run(start, U, Z).mean)
    estimate = pickle.loads(pickle.dumps(start))
    np.testing.assert_array_equal(estimate.mean, start.mean)


def lift():
    return da.MidpointVI(da.models.scissor_lift(2), 0.005), da.models.scissor_lift_configuration(0.6, segments=2)


def hung():
    """A rod whose ends hang on strings, the upper ends of which are one prescribed slider."""
    rod = da.tx("x", da.tz("z", da.ry("turn", da.tx(-0.5, name="a", mass=0.5), da.tx(0.5, name="b", mass=0.5))))
    slide = da.tx(da.Kinematic("s"), da.tx(-0.5, name="left"), da.tx(0.5, name="right"))
    strings = [da.Distance("left", "a", 1.0), da.Distance("right", "b", 1.0)]
    model = da.Model([rod, slide], [da.Gravity((0, 0, -9.8)), da.ConfigForce("turn", "twist"), *strings])
    return da.MidpointVI(model, 0.01, order=4), {"z": -1.0}


@pytest.mark.parametrize("make", [lift, hung])
def test_filters_on_constraints(make):
    vi, q = make()
    system = da.System(vi, steps=20)
    sensor = de.measure(system, system.x_names[0]) + de.measure(system, "p.*")
    kalman = de.ExtendedKalmanFilter(system, sensor, Q=1e-5, R=1e-3)
    assert kalman.tied
    x = system.x(q=q)
    U = np.zeros((20, system.nu))
    U[:, vi.model.nu :] = x[vi.model.nqd : vi.model.nq] + 0.01 * np.sin(np.arange(20))[:, None]
    Z = sensor.record((system.simulate(x, U), U), 1e-3, seed=1)
    Z[5] = np.nan
    start = kalman.start(system.retract(x, 0.01 * np.random.default_rng(0).normal(size=system.ndx)), 0.01)
    run = kalman.run(start, U, Z)
    for k in range(20):
        before, cross = kalman.propagate(de.Estimate(run.mean[k], run.covariance[k]), U[k], k)  # in Python
        found = kalman.predict(de.Estimate(run.mean[k], run.covariance[k]), U[k], k)
        np.testing.assert_allclose(found.mean, before.mean, rtol=0, atol=2e-12)
        np.testing.assert_allclose(found.covariance, before.covariance, rtol=0, atol=1e-13)
        np.testing.assert_allclose(run.predicted_mean[k + 1], before.mean, rtol=0, atol=2e-12)
        np.testing.assert_allclose(run.predicted_covariance[k + 1], before.covariance, rtol=0, atol=1e-13)
        np.testing.assert_allclose(run.cross[k], cross, rtol=0, atol=1e-13)
        z, x1, P = Z[k + 1], run.predicted_mean[k + 1], run.predicted_covariance[k + 1]
        if np.isnan(z).all():
            assert not run.accepted[k + 1]
            continue
        H, e = sensor.slope(x1), sensor.innovation(z, sensor.expected(x1))
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + kalman.R)
        M = np.eye(len(P)) - K @ H
        mean = kalman.settle(system.retract(x1, K @ e))
        onto = kalman.onto(mean)
        np.testing.assert_allclose(run.mean[k + 1], mean, rtol=0, atol=2e-12)
        after = onto @ (M @ P @ M.T + K @ kalman.R @ K.T) @ onto.T
        np.testing.assert_allclose(run.covariance[k + 1], after, rtol=0, atol=1e-13)
        assert run.accepted[k + 1]
        assert system.violation(run.mean[k + 1]) < 1e-11
