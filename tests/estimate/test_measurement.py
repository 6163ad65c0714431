"""Sensors: by name, by matrix, by frame, by expression."""

import pickle

import numpy as np
import pytest

import dalembert as da
from dalembert import estimate as de

from ..control import models
from ..control.standin import SymbolicSystem


@pytest.fixture(scope="module")
def system():
    return SymbolicSystem(models.cart_pole(), 0.05, 1)


def test_by_name_and_matrix(system):
    assert de.measure(system, "theta", "x").names == ("theta", "x")
    np.testing.assert_array_equal(de.measure(system, "p.*").matrix, np.eye(4)[2:])
    x = np.arange(4.0)
    C = np.array([[1.0, 2, 3, 4]])
    np.testing.assert_array_equal(de.measure(system, C=C).h(x), C @ x)
    with pytest.raises(ValueError, match="no state is called 'phi'"):
        de.measure(system, "phi")
    with pytest.raises(ValueError, match="either names"):
        de.measure(system)
    with pytest.raises(ValueError, match="C has shape"):
        de.measure(system, C=np.eye(3))


@pytest.mark.parametrize("make", [lambda s: de.measure_frame(s, "bob", "xy"), lambda s: de.measure_expression(s, _odd)])
def test_exact_derivatives(system, make):
    sensor = make(system)
    x = np.array([0.3, 0.7, -0.2, 0.1])
    numeric = np.column_stack([(sensor.h(x + d) - sensor.h(x - d)) / 2e-6 for d in 1e-6 * np.eye(4)])
    np.testing.assert_allclose(sensor.jacobian(x), numeric, atol=1e-8)
    assert sensor.jacobian(x).shape == (sensor.size, 4)


def _odd(s):
    import casadi as ca

    return ca.vertcat(s.position("bob")[0] ** 2, ca.sin(s.variable("theta")) * s.variable("x"))


def test_frame_position(system):
    sensor = de.measure_frame(system, "bob", "xy")
    np.testing.assert_allclose(sensor.h(np.array([0.5, 0.3, 0, 0])), [0.5 + np.sin(0.3), -np.cos(0.3)])
    copy = pickle.loads(pickle.dumps(sensor))
    np.testing.assert_allclose(copy.h(np.zeros(4)), [0, -1])
    with pytest.raises(ValueError, match="letters"):
        de.measure_frame(system, "bob", "w")


def test_a_record_of_a_motion():
    vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
    motion = vi.simulate(vi.state({"theta": 1.0}), steps=200, u={"push": np.sin})
    sensor = da.measure(vi, "theta") + da.measure_accelerometer(vi, "bob")
    exact = sensor.record(motion)
    assert exact.shape == (201, 4)
    assert exact[7] == pytest.approx(sensor.expected(motion.x[7], motion.u[6]))
    assert exact == pytest.approx(sensor.record((motion.x, motion.u)))
    R = np.diag([0.04, 0.01, 0.01, 0.01]) + 0.005
    noise = sensor.record(motion, R, seed=3) - exact
    assert np.abs(np.cov(noise.T) - R).max() < 0.015
    assert (sensor.record(motion, R, seed=3) - exact == noise).all()
    with pytest.raises(ValueError, match="R is not a covariance"):
        sensor.record(motion, -1.0)


def test_a_filtered_record_is_a_trajectory():
    bob = da.tx("x", da.ty("y", name="bob", mass=1.0))
    pendulum = da.Model([bob], [da.Gravity((0, -9.8, 0)), da.Distance("world", "bob", 1.0)])
    vi = da.MidpointVI(pendulum, dt=0.02)
    truth = vi.simulate(vi.state({"x": 0.6, "y": -0.8}), steps=50)
    sensor = da.measure(vi, "x")
    kalman = da.ExtendedKalmanFilter(vi, sensor, Q=1e-6, R=1e-4)
    run = kalman.run(kalman.start(truth[0], 1e-3), truth.u, sensor.record(truth, 1e-4))
    assert run.trajectory.q == pytest.approx(run.mean[:, :2])
    assert run.trajectory.t == pytest.approx(truth.t)
    late = kalman.run(kalman.start(truth[0], 1e-3), truth.u, [None] * 51, dt=np.full(50, 0.01))
    assert late.trajectory.t[-1] == pytest.approx(0.5)
    assert kalman.run(kalman.start(truth[0], 1e-3), None, truth.q[:, :1]).mean.shape == (51, 4)


def test_expressions_may_be_lists_and_are_expressions() -> None:
    system = da.System(da.MidpointVI(models.pendulum(), 0.1), steps=1)
    both = de.measure_expression(system, lambda m: [m.ca.sin(m.q[0]), m.q[0]], names=("sine", "angle"))
    assert both.h(np.array([0.5, 0.0])) == pytest.approx([np.sin(0.5), 0.5])
    for wrong in ("x", None, ["x"], object()):
        with pytest.raises(TypeError, match="must return a CasADi expression"):
            de.measure_expression(system, lambda m, wrong=wrong: wrong)
