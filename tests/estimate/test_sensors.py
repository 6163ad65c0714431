"""Sensors of moving things against differences, and in filters."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dalembert as da
from dalembert.models import crane


def spatial() -> da.Model:
    """Three hinges about different axes, a slider, a rod that closes a loop, a spring, damping, a motor."""
    tip = da.tx("s", da.tz(0.3, name="tip", mass=0.7, inertia=(0.02, 0.03, 0.04)))
    arm = da.ry("b", da.tx(0.4, da.rx("c", da.ty(0.2, tip, name="wrist", mass=0.4, inertia=(0.05, 0.05, 0.05)))))
    frames = [da.rz("a", da.tz(0.5, arm, mass=1.0, inertia=(0.1, 0.2, 0.3))), da.tx(0.9, da.tz(0.8, name="post"))]
    loads = [da.Gravity((0.5, 0, -9.8)), da.Damping(0.2), da.ConfigForce("a", "motor"), da.ConfigSpring("s", 20.0, 0.1)]
    length = 0.6
    return da.Model(frames, [*loads, da.Distance("tip", "post", length)])


def point(model: da.Model, seed: int = 0) -> tuple[da.System, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    system = da.System(da.MidpointVI(model, 0.01), steps=3)
    q = da.satisfy_constraints(model, 0.3 * rng.normal(size=model.nq) + (np.arange(model.nq) == model.nq - 1))
    v = da.consistent_velocity(model, q, rng.normal(size=model.nq))
    u = np.concatenate([rng.normal(size=model.nu), q[model.nqd :]])
    return system, system.x(q, v=v, u=u[: model.nu]), u


SENSORS = {
    "velocity": lambda s: da.measure_velocity(s, "a", "tip", "s"),
    "gyroscope": lambda s: da.measure_gyroscope(s, "tip"),
    "magnetometer": lambda s: da.measure_magnetometer(s, "wrist", (0.2, 0.1, -0.4)),
    "accelerometer": lambda s: da.measure_accelerometer(s, "tip"),
    "force": lambda s: da.measure_force(s),
    "several": lambda s: (
        da.measure_gyroscope(s, "tip") + da.measure(s, "a", "b") + da.measure_accelerometer(s, "wrist")
    ),
}


@pytest.mark.parametrize("name", SENSORS)
def test_derivatives_are_exact(name: str) -> None:
    system, x, u = point(spatial())
    sensor = SENSORS[name](system)
    J = sensor.slope(x, u)
    assert J.shape == (sensor.size, system.ndx)
    eps = 1e-6
    by = [sensor.expected(system.retract(x, s * eps * e), u) for e in np.eye(system.ndx) for s in (1, -1)]
    slopes = ((np.array(by[::2]) - np.array(by[1::2])) / (2 * eps)).T
    np.testing.assert_allclose(J, slopes, atol=2e-6 * max(1.0, np.abs(J).max()))
    again = pickle.loads(pickle.dumps(sensor))
    np.testing.assert_array_equal(again.expected(x, u), sensor.expected(x, u))


def test_values_are_those_of_the_motion() -> None:
    """Differences in time of what is seen from outside; all along a fine motion."""
    model = spatial()
    system, x, _ = point(model)
    vi = da.MidpointVI(model, 1e-4)
    start = vi.state(q=x[: model.nq], v=system.state(x).v, u=[0.7])
    motion = vi.simulate(start, 2, u=[0.7])
    h, g = 1e-4, np.array([0.5, 0.0, -9.8])
    poses = [da.pose(model, q, "tip") for q in motion.q]
    R, x1 = poses[1][:3, :3], np.concatenate([motion.q[1], motion.p[1]])
    turn = R.T @ (poses[2][:3, :3] - poses[0][:3, :3]) / (2 * h)
    spin = np.array([turn[2, 1], turn[0, 2], turn[1, 0]])
    np.testing.assert_allclose(da.measure_gyroscope(vi, "tip").h(x1), spin, atol=1e-5)
    speed = (poses[2][:3, 3] - poses[0][:3, 3]) / (2 * h)
    np.testing.assert_allclose(da.measure_velocity(vi, "tip").h(x1), speed, atol=1e-5)
    felt = R.T @ ((poses[2][:3, 3] - 2 * poses[1][:3, 3] + poses[0][:3, 3]) / h**2 - g)
    np.testing.assert_allclose(da.measure_accelerometer(vi, "tip").expected(x1, np.array([0.7])), felt, atol=1e-3)
    np.testing.assert_allclose(da.measure_magnetometer(vi, "tip", (1, 2, 3)).h(x1), R.T @ [1, 2, 3], atol=1e-12)
    tension = 2 * 0.6 * motion.lam[1] / h
    np.testing.assert_allclose(da.measure_force(vi).expected(x1, np.array([0.7])), tension, atol=1e-3)


def test_a_crane_feels_its_load() -> None:
    model = crane()
    vi = da.MidpointVI(model, 0.02)
    x = da.System(vi, steps=1).x({"y": -2.0, "r": 2.0})
    mass = da.mass_matrix(model, x[:4])[0, 0]
    gravity = -da.potential_gradient(model, x[:4])[1] / mass
    sensor = da.measure_force(vi, "robot-mass")
    u = np.array([0.0, 2.0])
    np.testing.assert_allclose(sensor.expected(x, u), [-mass * gravity], rtol=1e-12)
    J, eps = sensor.slope(x, u), 1e-6
    ends = [sensor.expected(x + s * eps * np.eye(8)[3], u)[0] for s in (1, -1)]
    assert J[0, 3] == pytest.approx((ends[0] - ends[1]) / (2 * eps), abs=1e-5)
    assert sensor.names == ("force.Distance(robot, mass)",)


def test_an_inertial_unit_finds_the_motion() -> None:
    """Gyroscope, accelerometer and magnetometer on the tip, no joint measured: the filter finds joints and speeds, on the constraint."""
    model = spatial()
    system, x, _ = point(model)
    steps = 80
    system = da.System(da.MidpointVI(model, 0.01), steps=steps)
    U = 0.5 * np.sin(0.1 * np.arange(steps))[:, None]
    X = system.simulate(x, U)
    unit = da.measure_gyroscope(system, "tip") + da.measure_accelerometer(system, "tip")
    unit = unit + da.measure_magnetometer(system, "tip", (0.3, 0.1, -0.5))
    rng = np.random.default_rng(2)
    level = np.repeat([0.01, 0.1, 0.01], 3)
    Z = np.array([unit.expected(X[k], U[max(k - 1, 0)]) for k in range(steps + 1)])
    Z = Z + level * rng.normal(size=Z.shape)
    Z[30, 3:6] = np.nan  # a missing accelerometer
    ekf = da.ExtendedKalmanFilter(system, unit, Q=1e-7, R=level**2)
    first = ekf.start(system.settle(system.retract(x, 0.05 * rng.normal(size=system.ndx))), 0.05**2)
    run = ekf.run(first, U, Z)
    gap = np.abs(model.difference(X[:, : model.nq], run.mean[:, : model.nq])).max(axis=1)
    assert gap[-20:].mean() < 0.3 * gap[0]
    assert np.abs(da.constraints(model, run.mean[:, : model.nq])).max() < 1e-9
    with pytest.raises(ValueError, match="feels the inputs"):
        ekf.update(first, Z[0])


def test_wrong_names_and_systems() -> None:
    vi = da.MidpointVI(spatial(), 0.01)
    with pytest.raises(ValueError, match="did you mean 'tip'"):
        da.measure_velocity(vi, "tipp")
    with pytest.raises(ValueError, match="give names"):
        da.measure_velocity(vi)
    with pytest.raises(ValueError, match="no constraint is called"):
        da.measure_force(vi, "rope")
    with pytest.raises(ValueError, match="field"):
        da.measure_magnetometer(vi, "tip", (1.0, 2.0))
    with pytest.raises(TypeError, match="no states"):
        da.measure_gyroscope(da.EulerModel(spatial(), 0.01), "tip")


@pytest.mark.parametrize("sensor", ["gyroscope", "magnetometer", "accelerometer", "velocity", "names"])
def test_sensors_on_a_floating_body(sensor):
    """Values of a spinning body, and slopes in the tangent space against differences."""
    imu = da.tx(0.2, da.rz(0.4, name="imu"))
    body = da.floating("base", imu, name="body", mass=1.5, inertia=(0.02, 0.025, 0.04))
    m = da.Model([body], [da.Gravity(), da.Wrench("body", force=(0.0, 0.0, "f"), torque=("a", "b", "c"))])
    vi = da.MidpointVI(m, 0.01)
    w, turn = np.array([1.0, -2.0, 3.0]), np.array([0.4, -0.8, 1.9])
    s = vi.state(q={"base": turn, "base.z": 1.0}, v={"base": w, "base.vx": 0.5})
    x, u = np.r_[s.q, s.p], np.array([14.0, 0.02, -0.03, 0.01])
    made = {
        "gyroscope": lambda: da.measure_gyroscope(vi, "imu"),
        "magnetometer": lambda: da.measure_magnetometer(vi, "imu", (0.3, 0.0, -0.4)),
        "accelerometer": lambda: da.measure_accelerometer(vi, "imu"),
        "velocity": lambda: da.measure_velocity(vi, "imu", "base.wy"),
        "names": lambda: da.measure(vi, "base.z", "base.wx", "v.base.vx", "base.q?"),
    }[sensor]()
    R = da.rotation.matrix(da.rotation.exponential(turn)) @ da.rotation.matrix(
        da.rotation.exponential(np.r_[0, 0, 0.4])
    )
    rate = (u[1:] - np.cross(w, np.array([0.02, 0.025, 0.04]) * w)) / np.array([0.02, 0.025, 0.04])
    arm, B = np.array([0.2, 0.0, 0.0]), da.rotation.matrix(s.q[3:7])
    felt = B @ (np.array([0.0, 0.0, 14.0 / 1.5]) + np.cross(rate, arm) + np.cross(w, np.cross(w, arm)))
    wanted = {
        "gyroscope": R.T @ B @ w,
        "magnetometer": R.T @ np.array([0.3, 0.0, -0.4]),
        "accelerometer": R.T @ felt,
        "velocity": np.r_[np.array([0.5, 0, 0]) + B @ np.cross(w, arm), -2.0],
        "names": np.r_[1.0, 1.0, 0.5, s.q[3:7]],
    }[sensor]
    np.testing.assert_allclose(made.expected(x, u), wanted, atol=1e-11)
    h, columns = 1e-4, []
    for e in np.eye(vi.ndx):
        f = [made.expected(vi.retract(x, k * h * e), u) for k in (1, -1, 2, -2)]
        columns.append((8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * h))
    np.testing.assert_allclose(made.slope(x, u), np.array(columns).T, atol=2e-8)
