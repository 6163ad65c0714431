"""Batched filters in the core against the plain ones, one trial after the other."""

import importlib.util
import time
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.estimate import study as module

ROOT = Path(__file__).parents[2]


def example():
    spec = importlib.util.spec_from_file_location("filter_rates", ROOT / "examples" / "filter_rates.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def crane(kind, dt=1 / 30, steps=40):
    """(filter, reference) on the string robot: one constraint, two kinematic variables."""
    system = da.System(da.MidpointVI(models.crane(), dt=dt), steps=steps)
    t = system.t
    rho = np.column_stack([0.1 * np.sin(2 * t), 1 + 0.05 * np.sin(3 * t)])
    rate = np.column_stack([0.2 * np.cos(2 * t), 0.15 * np.cos(3 * t)])
    x0 = np.concatenate([[0.3, -np.sqrt(1 - 0.09)], rho[0], [0, 0], rate[0]])
    X = system.simulate(x0, rho[1:])
    noise = {"Q": 1e-6, "R": np.array([[1e-4, 2e-5], [2e-5, 2e-4]])}
    if kind == "variational":
        whole = da.ExtendedKalmanFilter(system, da.measure(system, "x", "y"), **noise, reduced=False)
        return whole, (X, rho[1:])
    euler = da.EulerModel(models.crane(), dt)
    drive = np.column_stack([-0.4 * np.sin(2 * t), -0.45 * np.sin(3 * t)])
    return da.ExtendedKalmanFilter(euler, da.measure(euler, "x", "y"), **noise), (
        np.hstack([X[:, :6], rate]),
        drive[:-1],
    )


def cart_pole(dt=0.05, steps=50):
    """(filter, reference) with a force and no constraint."""
    system = da.System(da.MidpointVI(models.cart_pole(), dt=dt), steps=steps)
    U = np.sin(np.arange(steps))[:, None]
    X = system.simulate(np.array([0.0, 1.0, 0.0, 0.0]), U)
    return da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-5, R=1e-3, gate=0.99), (X, U)


CASES = {
    "variational": lambda: crane("variational"),
    "euler": lambda: crane("euler"),
    "gated": cart_pole,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("nominal", [False, True])
def test_core_agrees_with_the_plain_filter(case, nominal, monkeypatch):
    kalman, reference = CASES[case]()
    options = {
        "trials": 7, "P0": 1e-4, "nominal": nominal, "missing": 0.1, "outliers": (0.05, 30.0), "seed": 5, "keep": True,
    }  # fmt: skip
    assert module._may_run_in_core(kalman)
    fast = da.monte_carlo(kalman, reference, **options)
    monkeypatch.setattr(module, "_may_run_in_core", lambda kalman: False)
    plain = da.monte_carlo(kalman, reference, **options)
    np.testing.assert_allclose(fast.mean, plain.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fast.error, plain.error, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fast.last_covariance, plain.last_covariance, rtol=1e-7, atol=1e-12)
    np.testing.assert_array_equal(fast.refused, plain.refused)
    if case == "gated":
        assert fast.refused.sum() > 0


def test_result_does_not_depend_on_threads_or_company():
    kalman, reference = crane("variational")
    one = da.monte_carlo(kalman, reference, trials=150, P0=1e-4, threads=1)
    three = da.monte_carlo(kalman, reference, trials=150, P0=1e-4, threads=3)
    np.testing.assert_array_equal(one.error, three.error)


def test_errors_of_chosen_states():
    kalman, reference = cart_pole()
    both = da.monte_carlo(kalman, reference, trials=5, P0=1e-4, states=("x", "theta"), keep=True)
    np.testing.assert_allclose(both.error, np.linalg.norm(both.mean[:, :, :2] - reference[0][:, :2], axis=2))
    assert both.norms.shape == (5,)
    assert both.average == pytest.approx(both.error.mean())
    with pytest.raises(ValueError, match="no state is called 'phi'"):
        da.monte_carlo(kalman, reference, trials=5, P0=1e-4, states=("phi",))


def test_other_filters_run_too():
    kalman, (X, U) = cart_pole(steps=10)
    ukf = da.UnscentedKalmanFilter(kalman.system, kalman.measurement, Q=1e-5, R=1e-3)
    study = da.monte_carlo(ukf, (X, U), trials=3, P0=1e-4)
    assert study.error.shape == (3, 11)
    assert np.isfinite(study.error).all()


def test_failed_trials_are_reported_and_the_others_kept():
    kalman, (X, U) = crane("variational")
    wild = U.copy()
    wild[20:, 1] = 0.001  # the string shrinks to nothing in one step
    with pytest.raises(da.ConvergenceError) as caught:
        da.monte_carlo(kalman, (X, wild), trials=6, P0=1e-4)
    assert caught.value.step >= 20
    assert np.isfinite(caught.value.state.error[:, :20]).all()


def ratio(row, which):
    return row["Euler"][:, which].mean() / row["variational"][:, which].mean()


def test_figure_3_in_shape():
    """Few trials: as in the paper, and with equal knowledge of the winches, Euler is worse and gets worse as the rate falls."""
    module = example()
    results = module.study(40, rates=(100, 30, 10, 5))
    for winches, least in ((module.PAPER, 1.55), ("known", 1.07), ("estimated", 1.12)):
        ratios = {rate: ratio(row, module.MOTION) for rate, row in results[winches].items()}
        assert ratios[30] > least
        assert ratios[100] < ratios[30] < ratios[10] < ratios[5]
        exact = [row["exponential"][:, module.MOTION].mean() for row in results[winches].values()]
        ours = [row["variational"][:, module.MOTION].mean() for row in results[winches].values()]
        assert (np.array(exact) > ours).all()


def test_where_the_error_is_nearly_double():
    """ "Nearly double" at 30 Hz needs measurements 20 times noisier than the process, and a rival that does not know the winches."""
    module = example()
    table = module.levels(ratios=(2, 20), trials=40)
    assert table[module.PAPER][2] < 1.3
    assert table[module.PAPER][20] == pytest.approx(1.97, abs=0.08)
    assert max(table["known"][20], table["estimated"][20]) < 1.3


def test_filters_that_predict_by_their_own_model():
    """In practice the difference is larger: at 30 Hz the mass is known three times better."""
    module = example()
    for row in module.study(6, rates=(30,), own=True, winches=module.WINCHES).values():
        assert ratio(row[30], module.POSITION) > 2.5


def test_the_study_and_the_library_agree():
    """The same filter by `monte_carlo`: variational, winches known, nominal predictions."""
    module = example()
    X, rho, _ = module.reference(30)
    system = da.System(da.MidpointVI(models.crane(), dt=1 / 30), steps=len(X) - 1)
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, "x", "y", "x_r", "r"), Q=1e-6, R=1e-4, reduced=False)
    library = da.monte_carlo(ekf, (X, rho[1:]), trials=200, P0=1e-6, nominal=True).average
    ours = module.nominal_errors("variational", "known", 30, trials=200)[:, module.STATE].mean()
    assert ours == pytest.approx(library, rel=0.005)


@pytest.mark.bench
def test_thousand_trials_of_four_states_in_time():
    system = da.System(da.MidpointVI(models.cart_pole(), dt=0.02), steps=300)
    U = np.zeros((300, 1))
    X = system.simulate(np.array([0.0, 1.0, 0.0, 0.0]), U)
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-6, R=1e-4)
    times = []
    for _ in range(5):
        start = time.process_time()
        da.monte_carlo(ekf, (X, U), trials=1000, P0=1e-4, threads=1)
        times.append(time.process_time() - start)
    assert sorted(times)[2] < 0.7
