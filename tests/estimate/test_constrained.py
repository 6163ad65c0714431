"""Filters of constrained systems: estimates on the constraints, honest covariances, one solve per prediction, any clock, late measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import dalembert as da
from dalembert.models import crane, load_with_configurations


def rod_pendulum() -> tuple[da.Model, np.ndarray, tuple[str, ...]]:
    load = da.tx("x", da.ty("y", name="load", mass=1.0))
    model = da.Model([load], [da.Gravity((0, -9.8, 0)), da.Distance("world", "load", 1.0)])
    return model, np.array([np.sin(1.0), -np.cos(1.0)]), ("x", "y")


def five_bar() -> tuple[da.Model, np.ndarray, tuple[str, ...]]:
    rod = {"mass": 1.0, "inertia": (0.0, 0.02, 0.02)}

    def arm(first: str, second: str, end: str) -> da.Frame:
        return da.rz(first, da.tx(0.5, **rod), da.tx(1.0, da.rz(second, da.tx(0.5, **rod), da.tx(1.0, name=end))))

    frames = [arm("a", "b", "tip"), da.tx(1.0, arm("c", "d", "end"))]
    model = da.Model(frames, [da.Gravity((0, -9.8, 0)), da.PointToPoint("tip", "end", "xy")])
    rest = da.equilibrium(model, {"a": -2.2, "b": 1.4, "c": -0.9, "d": -1.4})
    return model, da.satisfy_constraints(model, rest + np.array([0.4, 0, 0.4, 0]), fixed=("a", "c")), ("a", "c")


def closed_chain() -> tuple[da.Model, np.ndarray, tuple[str, ...]]:
    model, configurations = load_with_configurations("closed_chain")
    return model, np.asarray(configurations["q0"]), model.variables


MECHANISMS = {"crane": rod_pendulum, "five-bar": five_bar, "closed chain": closed_chain}


WHOLE, FIRST, SECOND = {"reduced": False}, {}, {"second_order": True}


def one_run(
    name: str, run: int, sigma: float, filters: Sequence[dict[str, bool]], *, steps: int = 100, spread: float = 0.05
) -> list[tuple[float, float, float, float]]:
    """Filters of one noisy motion: mean NEES along the constraints, that of a linear filter, largest |h|, mean error of q of each."""
    model, q, names = MECHANISMS[name]()
    system = da.System(da.MidpointVI(model, 0.02), steps=steps)
    nv, nd, push, rng = model.nv, model.nd, 1e-3, np.random.default_rng([7, run])
    U, X, W = np.zeros((steps, model.nu)), [system.settle(system.x(q))], []
    free = system.tangent(X[0][None])
    assert free is not None
    for k in range(steps):
        x = system.f(X[-1], U[k], k)
        here = system.tangent(x[None])
        assert here is not None
        W.append(here.onto[0] @ np.concatenate([np.zeros(nv), push * rng.normal(size=nd)]))
        X.append(system.settle(x + W[-1]))
    truth = np.array(X)
    sensor = da.measure(system, *names)
    E = sigma * rng.normal(size=(steps + 1, sensor.size))
    Z = np.array([sensor.h(x) for x in truth]) + E
    away = spread * rng.normal(size=system.ndx)
    Q = np.diag([0.0] * nv + [push**2] * nd)
    linear = nees_of_linear_filter(system, sensor, truth, free.onto[0] @ away, np.array(W), E, spread**2, Q, sigma**2)
    found = []
    for options in filters:
        kalman = da.ExtendedKalmanFilter(system, sensor, Q=Q, R=sigma**2, **options)
        first = truth[0] + (away if options == WHOLE else free.onto[0] @ away)
        out = kalman.run(kalman.start(first, spread**2), U, Z)
        T = system.tangent(out.mean)
        assert T is not None
        nees = []
        for k in range(steps + 1):
            z = T.lower[k] @ system.free_difference(out.mean[k], truth[k])
            P = T.lower[k] @ out.covariance[k] @ T.lower[k].T
            nees.append(z @ np.linalg.solve(P, z))
        h = np.abs(da.constraints(model, out.mean[:, : model.nq])).max()
        found.append((float(np.mean(nees)), linear, float(h), float(np.abs(out.mean - truth)[:, : model.nq].mean())))
    return found


def nees_of_linear_filter(
    system: da.System,
    sensor: da.Measurement,
    truth: np.ndarray,
    away: np.ndarray,
    pushes: np.ndarray,
    errors: np.ndarray,
    P0: float,
    Q: np.ndarray,
    R: float,
) -> float:
    """Mean NEES of the Kalman filter of the linearization about the truth, with the same noise: n, but for the noise that was drawn."""
    T = system.tangent(truth)
    assert T is not None
    start, nees = T.lower[0] @ T.onto[0], []
    z, P = start @ away, P0 * start @ start.T
    for k, error in enumerate(errors):
        if k:
            A = T.lower[k] @ system.linearize(truth[k - 1], np.zeros(system.nu), k - 1)[0] @ T.basis[k - 1]
            into = T.lower[k] @ T.onto[k]
            z, P = A @ z - T.lower[k] @ pushes[k - 1], A @ P @ A.T + into @ Q @ into.T
        H = sensor.slope(truth[k], None) @ T.basis[k]
        K = np.linalg.solve(H @ P @ H.T + R * np.eye(len(H)), H @ P).T
        M = np.eye(len(P)) - K @ H
        z, P = z - K @ (H @ z - error), M @ P @ M.T + R * K @ K.T
        nees.append(z @ np.linalg.solve(P, z))
    return float(np.mean(nees))


FREE = {"crane": 2, "five-bar": 4, "closed chain": 6}  # directions of the state along the constraints


def study(
    name: str, runs: int, sigma: float = 0.015, filters: Sequence[dict[str, bool]] = (FIRST,), **options: int
) -> list[dict[str, float]]:
    """Over many runs, of every filter: mean NEES, how far above that of the linear filter with its standard error, share of runs
    above 2 n, largest |h|, mean error of q."""
    rows = np.array([one_run(name, run, sigma, filters, **options) for run in range(runs)])
    return [
        {
            "nees": r[:, 0].mean(),
            "excess": (r[:, 0] - r[:, 1]).mean(),
            "error": (r[:, 0] - r[:, 1]).std() / np.sqrt(runs),
            "bad": float((r[:, 0] > 2 * FREE[name]).mean()),
            "h": r[:, 2].max(),
            "dq": r[:, 3].mean(),
        }
        for r in rows.swapaxes(0, 1)
    ]


@pytest.mark.parametrize("name", MECHANISMS)
def test_estimates_are_on_the_constraints_and_honest(name: str) -> None:
    (found,) = study(name, 6, steps=60)
    assert found["h"] < 1e-9
    # NEES of a run is about chi squared with n degrees of freedom
    assert abs(found["nees"] - FREE[name]) < 3 * np.sqrt(2 * FREE[name] / 6)
    assert abs(found["excess"]) < 0.1 * FREE[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_two_hundred_runs(name: str) -> None:
    (found,) = study(name, 200)
    assert found["h"] < 1e-9
    assert abs(found["nees"] - FREE[name]) < 2 * np.sqrt(2 * FREE[name] / 200)
    # what the noise happens to be is in both: the difference tells ten times as much
    assert found["excess"] < 0.05 * FREE[name]


@pytest.mark.slow
def test_second_order_is_honest_where_the_chain_whips_round() -> None:
    """With coarse sensors the estimates are wide where the motion bends most (1.5 s): a filter of first order becomes too sure there."""
    whole, first, second = study("closed chain", 40, 0.05, (WHOLE, FIRST, SECOND))
    assert second["h"] < 1e-9
    assert second["bad"] <= whole["bad"] / 3
    assert second["nees"] < first["nees"] < whole["nees"]
    assert abs(second["nees"] - 6) < 3 * np.sqrt(2 * 6 / 40)


class Parabola(da.OneStepMap):
    """x' = x + x^2, of which all moments are known."""

    nx, nu, x_names, u_names = 1, 0, ("x",), ()

    def f(self, x: np.ndarray, u: np.ndarray, k: int = 0) -> np.ndarray:
        return np.asarray(x) + np.asarray(x) ** 2

    def linearize(self, x: np.ndarray, u: np.ndarray, k: int = 0) -> tuple[np.ndarray, np.ndarray]:
        return np.array([[1 + 2 * x[0]]]), np.zeros((1, 0))


def test_second_order_of_a_parabola_and_of_a_bent_sensor() -> None:
    sensor = da.Measurement(lambda x: x**3, lambda x: 3 * x[None] ** 2, ("cube",))
    kalman = da.ExtendedKalmanFilter(Parabola(), sensor, Q=0.0, R=1e-2, second_order=True)
    start = kalman.start([0.5], 0.09)
    ahead = kalman.predict(start, [])
    np.testing.assert_allclose(ahead.mean, 0.5 + 0.25 + 0.09)
    np.testing.assert_allclose(ahead.covariance, 4 * 0.09 + 2 * 0.09**2)
    # the most likely state of (x - 0.5)^2 / 0.09 + (1 - x^3)^2 / 0.01
    grid = np.linspace(0.4, 1.2, 400_001)
    best = grid[np.argmin((grid - 0.5) ** 2 / 0.09 + (1 - grid**3) ** 2 / 0.01)]
    assert abs(kalman.update(start, [1.0]).mean[0] - best) < 1e-3 * 0.05
    missing = kalman.update(start, [np.nan])
    np.testing.assert_array_equal(missing.mean, start.mean)


def test_second_order_is_the_first_where_nothing_bends() -> None:
    """A slider: same numbers; balls, prescribed and exactly known variables: no trouble."""
    slider = da.System(da.MidpointVI(da.Model([da.tx("x", mass=2.0)], [da.ConfigForce("x", "push")]), 0.1), steps=3)
    runs = []
    for bent in (False, True):
        kalman = da.ExtendedKalmanFilter(slider, da.measure(slider, "x"), Q=1e-4, R=0.01, second_order=bent)
        runs.append(kalman.run(kalman.start([0.1, 0.0], 0.1), np.ones((3, 1)), [[0.1], [0.2], None, [0.3]]))
    np.testing.assert_allclose(runs[0].mean, runs[1].mean, atol=1e-13)
    np.testing.assert_allclose(runs[0].covariance, runs[1].covariance, atol=1e-13)
    hanging = da.System(da.MidpointVI(crane(), 1 / 30), steps=5)
    x0 = hanging.x({"x": 0.3, "y": -np.sqrt(1 - 0.09), "r": 1.0})
    kalman = da.ExtendedKalmanFilter(
        hanging, da.measure(hanging, "x", "y"), Q=[1e-8] * 2 + [0] * 2 + [1e-6] * 2 + [0] * 2, R=1e-4, second_order=True
    )
    P = [4e-4] * 2 + [0] * 2 + [0.01] * 2 + [0] * 2
    out = kalman.run(kalman.start(x0, P), np.tile([0.01, 1.0], (5, 1)), np.tile([0.3, -0.95], (6, 1)))
    assert np.abs(da.constraints(crane(), out.mean[:, :4])).max() < 1e-9
    np.testing.assert_allclose(out.mean[1:, 2:4], np.tile([0.01, 1.0], (5, 1)), atol=1e-9)
    ball = da.MidpointVI(da.Model([da.ball("b", da.tz(-1.0, mass=1.0, inertia=(0.1, 0.1, 0.1)))], [da.Gravity()]), 0.02)
    kalman = da.ExtendedKalmanFilter(ball, da.measure(ball, "b.q*"), Q=1e-6, R=1e-3, second_order=True)
    ahead = kalman.predict(kalman.start(ball.state(), 0.01), [])
    assert np.linalg.eigvalsh(kalman.update(ahead, [1.0, 0.02, 0.0, 0.0]).covariance).min() > 0


@pytest.mark.parametrize("kind", [da.ExtendedKalmanFilter, da.UnscentedKalmanFilter, da.ParticleFilter])
def test_every_filter_and_the_smoother_keep_the_constraints(kind: type) -> None:
    """With prescribed variables that are known exactly, and stay so."""
    model = crane()
    system = da.System(da.MidpointVI(model, 1 / 30), steps=20)
    t = system.t
    rho = np.column_stack([0.1 * np.sin(2 * t), 1 + 0.05 * np.sin(3 * t)])
    x0 = system.x({"x": 0.3, "y": -np.sqrt(1 - 0.09), "r": 1.0})
    X = system.simulate(x0, rho[1:])
    Z = X[:, :2] + 0.01 * np.random.default_rng(1).normal(size=(21, 2))
    options = {"particles": 40} if kind is da.ParticleFilter else {}
    kalman = kind(
        system, da.measure(system, "x", "y"), Q=[1e-8] * 2 + [0] * 2 + [1e-6] * 2 + [0] * 2, R=1e-4, **options
    )
    start = kalman.start(x0 + np.array([0.02, 0.01, 0, 0, 0.05, 0, 0, 0]), [4e-4] * 2 + [0] * 2 + [0.01] * 2 + [0] * 2)
    run = kalman.run(start, rho[1:], Z)
    for means in (run.mean, da.smooth(run).mean):
        assert np.abs(da.constraints(model, means[:, :4])).max() < 1e-9
        np.testing.assert_allclose(means[:, 2:4], X[:, 2:4], atol=1e-9)
    assert np.abs(run.mean - X)[5:, :2].mean() < 0.015


def test_a_prediction_solves_the_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, q, names = closed_chain()
    vi = da.MidpointVI(model, 0.01)
    system = da.System(vi, steps=5)
    x = system.x(q)
    new, A, B = system.advance(x, [], 0)
    np.testing.assert_array_equal(new, system.f(x, []))
    again = system.linearize(x, [])
    np.testing.assert_allclose(A, again[0], rtol=1e-9, atol=1e-9 * np.abs(A).max())
    assert B.shape == (system.ndx, 0)
    for other in (vi, da.MidpointVI(model, 0.01, order=4)):
        np.testing.assert_array_equal(other.advance(x, [])[0], other.f(x, []))
        np.testing.assert_allclose(other.advance(x, [])[1], other.linearize(x, [])[0], atol=1e-8 * np.abs(A).max())
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, *names), Q=1e-8, R=1e-4)
    monkeypatch.setattr(da.System, "f", None)
    monkeypatch.setattr(da.System, "linearize", None)
    assert np.isfinite(ekf.predict(ekf.start(x, 1e-4), []).mean).all()


def test_irregular_clocks() -> None:
    """Two short steps predict what one step of the integrator with these lengths does; noise grows with time."""
    model, q, names = closed_chain()
    vi = da.MidpointVI(model, 0.01)
    ekf = da.ExtendedKalmanFilter(vi, da.measure(vi, *names), Q=1e-6, R=1e-4)
    start = ekf.start(da.System(vi, steps=1).x(q), 1e-5)
    lengths = np.array([0.004, 0.013, 0.002])
    uneven = da.System(vi, t=np.concatenate([[0.0], np.cumsum(lengths)]))
    X = uneven.simulate(start.mean, np.zeros((3, 0)))
    estimate = start
    for k, dt in enumerate(lengths):
        estimate = ekf.predict(estimate, [], dt=dt)
        np.testing.assert_allclose(estimate.mean[: model.nq], X[k + 1, : model.nq], atol=1e-12)
    run = ekf.run(start, np.zeros((3, 0)), [None] * 4, dt=lengths)
    np.testing.assert_array_equal(run.mean[-1], estimate.mean)
    short, long = (ekf.noise(0, dt) for dt in (0.005, 0.02))
    np.testing.assert_allclose(long, 4 * short)
    for bad in (0.0, -0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="dt"):
            ekf.predict(start, [], dt=bad)


def test_late_measurements_are_as_good_as_timely_ones() -> None:
    model = crane()
    vi = da.MidpointVI(model, 0.02)
    system = da.System(vi, steps=50)
    sensor = da.measure(vi, "x", "y")
    ekf = da.ExtendedKalmanFilter(vi, sensor, Q=1e-6, R=1e-4)
    start = ekf.start(
        system.x({"x": 0.3, "y": -np.sqrt(1 - 0.09), "r": 1.0}), [1e-4] * 2 + [0] * 2 + [1e-3] * 2 + [0] * 2
    )
    z = [np.array([0.29, -0.95]), np.array([0.27, -0.96]), np.array([0.24, -0.97])]
    rho = [[0.01, 1.0], [0.02, 0.99], [0.03, 0.98]]

    def begin() -> da.Track:
        return da.Track.begin(ekf, start)

    timely = begin().predict(rho[0]).update(z[0]).predict(rho[1]).update(z[1]).predict(rho[2]).update(z[2])
    late = begin().predict(rho[0]).predict(rho[1]).update(z[1]).predict(rho[2]).update(z[2]).update(z[0], t=0.02)
    np.testing.assert_allclose(late.estimate.mean, timely.estimate.mean, atol=1e-14)
    np.testing.assert_allclose(late.estimate.covariance, timely.estimate.covariance, atol=1e-16)
    # between two steps: the step is divided, prescribed variables on straight lines
    half = begin().predict(rho[0], dt=0.01).update(z[0], t=0.004)
    by_hand = ekf.predict(start, [0.4 * 0.01, 1.0], dt=0.004)
    by_hand = ekf.predict(ekf.update(by_hand, z[0]), rho[0], dt=0.006)
    np.testing.assert_allclose(half.estimate.mean, by_hand.mean, atol=1e-13)
    assert [round(m.t, 9) for m in half.moments] == [0.0, 0.004, 0.01]
    with pytest.raises(ValueError, match="predict first"):
        timely.update(z[0], t=1.0)
    short = da.Track.begin(ekf, start, horizon=0.03).predict(rho[0]).predict(rho[1]).predict(rho[2])
    assert len(short.moments) == 3
    with pytest.raises(ValueError, match="older than what the track remembers"):
        short.update(z[0], t=0.0)
    with pytest.raises(ValueError, match="horizon"):
        da.Track.begin(ekf, start, horizon=-1.0)


def test_monte_carlo_draws_on_the_constraints() -> None:
    model, q, names = closed_chain()
    system = da.System(da.MidpointVI(model, 0.01), steps=10)
    U = np.zeros((10, 0))
    X = system.simulate(system.x(q), U)
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, *names), Q=1e-8, R=1e-4)
    kept = da.monte_carlo(ekf, (X, U), trials=3, P0=1e-3, keep=True)
    assert kept.mean is not None
    assert np.abs(da.constraints(model, kept.mean.reshape(-1, system.nx)[:, : model.nq])).max() < 1e-9
    whole = da.ExtendedKalmanFilter(system, da.measure(system, *names), Q=1e-8, R=1e-4, reduced=False)
    off = da.monte_carlo(whole, (X, U), trials=3, P0=1e-3, keep=True)
    assert off.mean is not None
    assert np.abs(da.constraints(model, off.mean[:, 1, : model.nq])).max() > 1e-6
