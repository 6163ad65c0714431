"""Parameters as states of filters."""

import pickle

import numpy as np
import pytest

import dalembert as da
from tests import balls
from tests.parametrize import parametrized


def arm(c=0.2, m=1.3):
    rod = da.tz(-0.7, name="bob", mass=da.Parameter("m", m))
    return da.Model(
        [da.rx("theta", rod)], [da.Gravity(), da.Damping(da.Parameter("c", c)), da.ConfigForce("theta", "tau")]
    )


@pytest.mark.parametrize("order", [2, 4])
def test_derivatives(order):
    model = parametrized(balls.mechanism(1, constraint=False), 1)
    vi = da.MidpointVI(model, dt=0.01, order=order)
    both = da.ParameterMap(vi, list(model.parameters)[:20])
    rng = np.random.default_rng(0)
    x, u = both.retract(both.neutral(), 0.3 * rng.normal(size=both.ndx)), rng.normal(size=both.nu)
    x[vi.nx :] = both.neutral()[vi.nx :]
    A, B = both.linearize(x, u)
    end = both.f(x, u)
    d = rng.normal(size=both.ndx + both.nu)
    d[vi.ndx : both.ndx] *= 0.1 * np.abs(x[vi.nx :])

    def along(s):
        return both.difference(end, both.f(both.retract(x, s * d[: both.ndx]), u + s * d[both.ndx :]))

    h = 1e-3
    slope = (45 * (along(h) - along(-h)) - 9 * (along(2 * h) - along(-2 * h)) + along(3 * h) - along(-3 * h)) / (60 * h)
    exact = A @ d[: both.ndx] + B @ d[both.ndx :]
    np.testing.assert_allclose(exact, slope, rtol=0, atol=1e-8 * np.abs(slope).max())
    np.testing.assert_allclose(both.retract_jacobian(x).shape, (both.nx, both.ndx))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(both)).f(x, u), end)


def test_a_filter_learns_parameters():
    """Mass and friction from 8 s of measured angles, as sure as it says, for four records with other noise."""
    truth = da.MidpointVI(arm(), dt=0.02)
    u = 3.0 * np.sin(0.11 * np.arange(400))[:, None] + 2.0 * np.cos(0.037 * np.arange(400))[:, None]
    motion = truth.simulate(truth.state(q=[0.4]), steps=400, u=u)
    both = da.ParameterMap(da.MidpointVI(arm(0.5, 1.0), dt=0.02))
    assert both.x_names == ("theta", "p.theta", "m", "c")
    ekf = da.ExtendedKalmanFilter(both, da.measure(both, "theta"), Q=[1e-12, 1e-12, 0, 0], R=1e-6)
    distances = []
    for seed in range(4):
        y = motion.q + 1e-3 * np.random.default_rng(seed).normal(size=motion.q.shape)
        run = ekf.run(ekf.start([0.4, 0.0, 1.0, 0.5], [1e-4, 1e-4, 0.2, 0.2]), u, y)
        e, P = run.mean[-1, 2:] - [1.3, 0.2], run.covariance[-1, 2:, 2:]
        assert np.sqrt(np.diag(P)).max() < 0.01
        distances.append(e @ np.linalg.solve(P, e))
    assert np.mean(distances) < 2 + 4 * np.sqrt(4 / 4)


def test_other_lengths_of_steps():
    both = da.ParameterMap(da.MidpointVI(arm(), dt=0.02))
    ekf = da.ExtendedKalmanFilter(both, da.measure(both, "theta"), Q=1e-9, R=1e-6)
    start = ekf.start([0.4, 0.1, 1.3, 0.2], 0.01)
    twice = ekf.predict(ekf.predict(start, [0.5], dt=0.01), [0.5], dt=0.01).mean
    np.testing.assert_allclose(twice, ekf.predict(start, [0.5]).mean, atol=1e-3)


def test_constraints_are_refused():
    from tests.identification.test_identify import four_bar

    with pytest.raises(da.ModelError, match="identify"):
        da.ParameterMap(da.MidpointVI(four_bar(), dt=0.01))
    with pytest.raises(da.ModelError, match="no parameters"):
        da.ParameterMap(da.MidpointVI(da.models.pendulum(), dt=0.01))
