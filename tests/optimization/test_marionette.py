"""The marionette of 40 variables on 6 strings: derivatives of the cost, and the reference optimization."""

import time

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.optimization import Discrete, IndefiniteModel, TrackingCost, optimize

from . import problems
from .test_example_derivatives import example


def problem(steps):
    data = np.load(problems.REFERENCE / "marionette_opt.npz")
    model = models.load("marionette")
    system = da.System(da.MidpointVI(model, 0.01, forcing="left"), steps=steps)
    Q = np.ones(80)
    Q[:22] = 100.0
    X, U = (np.ascontiguousarray(data[k][: steps + e]) for k, e in (("X0", 1), ("U0", 0)))
    cost = TrackingCost((data["Xd"][: steps + 1], data["Ud"][:steps]), Q, 0.1)
    return system, cost, (X, U)


@pytest.mark.parametrize("method", ["steepest", "quasi", "newton"])
def test_derivatives(method):
    """Dg.d and D2g.(d, d) along each method's direction against finite differences of the projected cost."""
    system, cost, (X, U) = problem(25)
    U = U + 0.002 * np.sin(np.arange(25)[:, None] + np.arange(18))
    X = system.simulate(X[0], U)
    p = (prob := Discrete(system, cost.bind(system))).point(X, U)
    try:
        d = prob.direction(p, method)
    except IndefiniteModel:  # far from the optimum; the curvature is checked along quasi's direction
        d = prob.direction(p, "quasi")
    e = 1e-3 / max(1.0, np.abs(d.dX).max(), np.abs(d.dU).max())

    def g(s):
        return prob.value(*prob.project(X + s * e * d.dX, U + s * e * d.dU, p.K))

    assert d.slope == pytest.approx((8 * (g(1) - g(-1)) - (g(2) - g(-2))) / (12 * e), rel=1e-5)
    curvature = (16 * (g(1) + g(-1)) - (g(2) + g(-2)) - 30 * g(0)) / (12 * e * e)
    assert prob.curvature(p, d) == pytest.approx(curvature, rel=1e-5)


def test_short_walk():
    """The first second of the walk: every method and both kinds of gains find the same optimum."""
    system, cost, start = problem(100)
    results = [
        optimize(system, cost, start, method=m, gains=g)
        for m, g in (("projection", None), ("newton", "lqr"), ("quasi", "lq"), ("auto", None))
    ]
    for r in results:
        assert r.converged
        assert r.cost == pytest.approx(results[0].cost, rel=1e-7)
    assert results[0].iterations <= 8


@pytest.mark.slow
def test_walk():
    """The whole problem: cost of the reference, |Dg| < 1e-6, no more iterations than the reference needed."""
    system, cost, start = problem(1001)
    reference = problems.reference("marionette_opt.json")
    result = optimize(system, cost, start, method="projection")
    assert result.converged
    assert abs(result.slope) < 1e-6
    assert result.cost <= reference["cost_final_tol_1e-6"] * (1 + 1e-8)
    assert result.iterations <= len(reference["history"]) - 1
    # with the reference's own choices its history is reproduced
    same = optimize(system, cost, start, method="quasi", tolerance=1e-2)
    for row, (_, _, value, slope, shortened) in zip(same.history, reference["history"], strict=True):
        assert row.cost == pytest.approx(value, rel=1e-6)
        assert row.slope == pytest.approx(slope, rel=1e-3)
        assert row.trials == (0 if shortened is None else shortened + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "cost"), [((100, 10, 1, 0.1), 1860.4039), ((1000, 1, 1, 0.1), 4008.2146), ((100, 0.1, 0.1, 0.01), 400.82146)]
)  # fmt: skip
def test_recorded_motion_at_all_weights(weights, cost):
    """9.8 s of a recorded walk, from hanging still: soft and firm weights of joints, string speeds, the rest, inputs."""
    module = example("marionette_mocap")
    joints, speeds, rest, inputs = weights
    system, tracking, start, _ = module.problem(module.RECORDING, 9.8, (joints, joints, speeds, rest, inputs))
    result = optimize(system, tracking, start)
    assert result.converged, result.reason
    assert result.iterations <= 60
    assert result.cost <= cost * (1 + 1e-6)


@pytest.mark.bench
def test_walk_time():
    system, cost, start = problem(1001)
    optimize(system, cost, start, method="projection", max_iterations=1)
    begun = time.perf_counter()
    optimize(system, cost, start, method="projection")
    assert time.perf_counter() - begun < 2.5
