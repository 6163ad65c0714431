"""The loops of the examples: string robot of Embedded control synthesis, pendulum of Trajectory optimization."""

import importlib.util
from pathlib import Path

import numpy as np

import dalembert as da

ROOT = Path(__file__).parents[2]


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_string_robot():
    """Figs 2 and 4: feedback tracks where the open loop does not, and the filter makes its commands smooth."""
    robot = example("string_robot")
    system, vi, result, law = robot.reference()
    X, U = result.X, result.U
    assert result.status == "converged"
    np.testing.assert_allclose(X[-1, :2] + [0, robot.HEIGHT], robot.GOAL, atol=0.01)
    error, rough = {}, {}
    for mode in ("open", "raw", "filtered"):
        true, believed, measured, commands = robot.run(system, vi, X, U, law, mode)
        assert np.isfinite(believed).all()
        error[mode] = np.linalg.norm(true[:, :2] - X[:, :2], axis=1)
        rough[mode] = np.abs(np.diff(commands, axis=0)).mean()
        jumps = np.linalg.norm(measured[:, :2] - true[:-1, :2], axis=1) > 0.03
        assert jumps.sum() >= 3  # the camera really has outliers
        if mode == "filtered":
            known = np.linalg.norm(believed[:, :2] - true[:-1, :2], axis=1)
            assert known[20:].max() < 0.01
    assert error["filtered"].mean() < 0.4 * error["open"].mean()
    assert error["filtered"][-60:].mean() < 0.2 * error["open"][-60:].mean()
    assert rough["filtered"] < 0.2 * rough["raw"]


def test_pendulum_filter():
    """Fig. 6: the filtered angle is much better than the measured one."""
    system, X, U, Z = example("ekf_pendulum").record()
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=[1e-4, 1e-3], R=0.01)
    run = ekf.run(ekf.start([0.7, 0.0], 0.1), U, Z)
    assert np.std(run.mean[10:, 0] - X[10:, 0]) < 0.4 * np.std(Z[10:, 0] - X[10:, 0])
