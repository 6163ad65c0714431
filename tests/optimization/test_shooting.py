"""The default optimizer: the problems it was developed on, gaps, bounds and constraints, what it says at the end."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.optimization import ExpressionCost, MotionLimit, TerminalCost, TrackingCost, optimize

from . import problems, suite


def gaps(result: da.Optimization) -> float:
    ends = result.system.shoot(result.X, result.U)[0]
    return float(np.abs(result.system.difference(result.X[1:], ends)).max())


# ---- the suite


@pytest.mark.parametrize("name", suite.NAMES)
def test_from_rest_and_from_a_line(name: str) -> None:
    p = suite.problem(name)
    best = np.inf
    for start, guess in p.starts(0):
        r = optimize(p.system, p.cost, guess, bounds=p.bounds)
        assert r.converged, (start, r.reason)
        assert gaps(r) < 1e-9
        assert r.gave_up == (name == "acrobot" and start == "line")
        for key, (low, high) in (p.bounds or {}).items():
            values = (
                r.U[:, p.system.u_names.index(key)] if key in p.system.u_names else r.X[:, p.system.x_names.index(key)]
            )
            assert values.min() >= low
            assert values.max() <= high
            y = r.multipliers[key]
            tight = np.abs(y) > max(1e-3, 0.1 * np.abs(y).max())
            room = np.minimum(values - low, high - values)
            assert room[tight].max(initial=0.0) < 1e-8  # where a multiplier is large the bound is active
        best = min(best, r.cost)
    expected = {"acrobot": 70.9, "cart-double_b": 66.44898}.get(name, p.best)
    assert best <= expected * (1 + 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", suite.NAMES)
def test_from_ten_starts(name: str) -> None:
    """Every start converges; the best result is the best that is known; Furuta's from every start."""
    p = suite.problem(name)
    results = [optimize(p.system, p.cost, guess, bounds=p.bounds) for _, guess in p.starts(8)]
    assert sum(r.converged for r in results) == 10
    assert min(r.cost for r in results) <= p.best * (1 + 1e-6)
    if name == "furuta":
        assert sum(r.cost <= p.best * (1 + 1e-6) for r in results) >= 8


@pytest.mark.parametrize("name", ["pend", "cart-pole_b", "crane", "furuta_b"])
def test_answers_of_the_core_and_of_python_lead_to_the_same_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same iterations, until rounding tells them apart; the same motion, multipliers and costates at the end."""
    p = suite.problem(name)
    for _, guess in p.starts(0):
        one = optimize(p.system, p.cost, guess, bounds=p.bounds)
        with monkeypatch.context() as patch:
            patch.setattr(da.System, "shooting", lambda *_: None)
            two = optimize(p.system, p.cost, guess, bounds=p.bounds)
        assert one.converged
        for a, b in list(zip(one.history, two.history, strict=False))[:6]:
            assert (a.method, a.step, a.trials) == (b.method, b.step, b.trials)
            assert a.cost == pytest.approx(b.cost, rel=1e-7)
            assert a.slope == pytest.approx(b.slope, rel=1e-5)
        assert one.cost == pytest.approx(two.cost, rel=1e-8)
        np.testing.assert_allclose(one.X, two.X, atol=2e-4)
        np.testing.assert_allclose(one.costates, two.costates, rtol=1e-3, atol=1e-3)
        for key, y in (one.multipliers or {}).items():
            np.testing.assert_allclose(y, two.multipliers[key], atol=1e-3)


def test_sums_of_quadratic_costs_and_free_starts_in_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    p = suite.problem("pend")
    cost = TrackingCost({"a": 1.0}, Q={"a": 0.1}, R=0.5) + 3.0 * TerminalCost([np.pi, 0.0], [100.0, 10.0])
    _, guess = next(p.starts(0))
    for free in (False, ["a"], True):
        one = optimize(p.system, cost, guess, free_start=free)
        with monkeypatch.context() as patch:
            patch.setattr(da.System, "shooting", lambda *_: None)
            two = optimize(p.system, cost, guess, free_start=free)
        assert one.converged
        assert one.cost == pytest.approx(two.cost, rel=1e-8)
        np.testing.assert_allclose(one.X, two.X, atol=1e-4)


# ---- bounds and constraints


def test_multipliers_are_those_of_the_active_bounds() -> None:
    """A double integrator: on the bound, the multiplier is minus the slope of the Lagrangian by the input."""
    p = suite.problem("pend_b")
    _, guess = next(p.starts(0))
    r = optimize(p.system, p.cost, guess, bounds=p.bounds)
    y = r.multipliers["tau"]
    bound = p.cost.bind(p.system)
    _, lu = bound.gradient(r.X, r.U)
    _, _, B = p.system.shoot(r.X, r.U, derive=True)
    slope = lu[:, 0] + np.einsum("ki,ki->k", B[:, :, 0], r.costates[1:])
    np.testing.assert_allclose(y, -slope, atol=1e-5)
    at = np.abs(np.abs(r.U[:, 0]) - 3.0)
    strong = np.abs(y) > 0.1
    assert strong.sum() > 20
    assert at[strong].max() < 1e-8
    assert (np.sign(y[strong]) == np.sign(r.U[strong, 0])).all()


def test_constraints_of_stage_and_end() -> None:
    """A point mass in the plane goes around a disc and ends exactly where it must."""
    pytest.importorskip("casadi")
    model = da.Model(
        [da.tx("x", da.ty("y", name="m", mass=1.0))], [da.ConfigForce("x", "fx"), da.ConfigForce("y", "fy")]
    )
    N = 40
    system = da.System(da.MidpointVI(model, 0.05), steps=N)
    cost = TrackingCost({}, Q=0.0, R=1.0)
    s = np.linspace(0, 1, N + 1)[:, None]
    line = (1 - s) * np.array([-1.0, 0.01, 0, 0]) + s * np.array([1.0, 0.0, 0, 0])
    disc = MotionLimit(lambda v: v["x"] ** 2 + v["y"] ** 2, low=0.25, name="disc")
    import casadi as ca

    end = MotionLimit(lambda v: ca.vertcat(v["x"] - 1, v["y"], v["p.x"], v["p.y"]), 0.0, 0.0, at="end", name="end")
    r = optimize(system, cost, (line, np.zeros((N, 2))), limits=[disc, end])
    assert r.converged, r.reason
    assert gaps(r) < 1e-9
    np.testing.assert_allclose(r.X[-1], [1.0, 0, 0, 0], atol=1e-6)
    radius = np.hypot(r.X[:, 0], r.X[:, 1])
    assert radius.min() == pytest.approx(0.5, abs=1e-6)
    assert r.multipliers["disc"].min() < -1e-3  # the lower limit pushes
    assert r.multipliers["end"].shape == (N + 1, 4)
    free = optimize(system, cost, (line, np.zeros((N, 2))), limits=[end])
    assert free.cost < r.cost


def test_constraint_mistakes() -> None:
    with pytest.raises(ValueError, match="has no limit"):
        MotionLimit(lambda s: s["x"])
    with pytest.raises(ValueError, match="at must be"):
        MotionLimit(lambda s: s["x"], low=0.0, at="start")
    with pytest.raises(ValueError, match="is above high"):
        MotionLimit(lambda s: s["x"], low=1.0, high=0.0)


def test_bounds_that_cannot_hold() -> None:
    system = da.System(da.MidpointVI(problems.pendulum(), 0.05), steps=20)
    cost = TrackingCost({"theta": 0.0}, Q=1.0, R=1e-2)
    start = (system.simulate([1.0, 0.0], np.zeros((20, 1))), np.zeros((20, 1)))
    r = optimize(system, cost, start, bounds={"theta": (-0.5, 0.5), "torque": (-2, 2)}, max_iterations=100)
    assert r.status in ("infeasible", "iterations")
    assert r.status == "iterations" or "'theta' is violated by" in r.reason


def test_ipopt_finds_the_same() -> None:
    """The same discrete problem with its exact derivatives, bounds and limits, by another solver."""
    pytest.importorskip("casadi")
    for name in ("crane", "cart-pole_b"):
        p = suite.problem(name)
        guess = dict(p.starts(0))["line"]
        one, two = (optimize(p.system, p.cost, guess, bounds=p.bounds, method=m) for m in ("auto", "ipopt"))
        assert two.converged, two.reason
        assert two.cost == pytest.approx(one.cost, rel=1e-6)
        np.testing.assert_allclose(two.X, one.X, atol=1e-2)
        strong = np.abs(one.costates[1:]) > 1e-2 * np.abs(one.costates).max()
        np.testing.assert_allclose(two.costates[1:][strong], one.costates[1:][strong], rtol=0.02)
    system = da.System(da.MidpointVI(da.Model([da.floating("body", mass=(1.0, 0.1, 0.1, 0.1))]), 0.1), steps=3)
    with pytest.raises(ValueError, match="flat states"):
        optimize(
            system, TrackingCost({}, 1.0, 1.0), (np.tile(system.neutral(), (4, 1)), np.zeros((3, 0))), method="ipopt"
        )


def test_plans_of_dmoc_are_starts_and_results_are_guesses() -> None:
    pytest.importorskip("casadi")
    model = problems.pendulum()
    plan = da.dmoc(model, start={"q": [0.0], "v": [0.0]}, goal={"q": [1.0], "v": [0.0]}, steps=20, time=1.0)
    system = da.System(da.MidpointVI(model, 0.05), steps=20)
    cost = TerminalCost([1.0, 0.0], 1e4) + TrackingCost({}, 0.0, 0.05)
    result = optimize(system, cost, plan)
    assert result.converged
    assert result.iterations <= 6  # the plan is the optimum of nearly the same problem
    again = da.dmoc(
        model, start={"q": [0.0], "v": [0.0]}, goal={"q": [1.0], "v": [0.0]}, steps=20, time=1.0, guess=result
    )
    assert again.success
    assert again.objective == pytest.approx(plan.objective, rel=1e-6)


# ---- starts


def test_free_start_along_constraints() -> None:
    """A mass on a string may choose where it starts: on the circle, and it does so."""
    system = da.System(da.MidpointVI(problems.hanging(), 0.05), steps=20)
    q0 = da.satisfy_constraints(system.model, {"x": 0.3, "y": -0.9, "length": 1.0})
    x0 = system.x(q0)
    U = np.tile([0.0, 1.0], (20, 1))
    cost = TrackingCost({"x": 0.5, "y": -0.8, "length": 1.0}, {"x": 10.0, "y": 10.0, "*": 0.1}, 1e-2)
    fixed = optimize(system, cost, (system.simulate(x0, U), U))
    free = optimize(system, cost, (system.simulate(x0, U), U), free_start=["x", "y"])
    assert fixed.converged
    assert free.converged, free.reason
    assert system.violation(free.X[0]) < 1e-9
    assert free.cost < 0.9 * fixed.cost


def test_restarts_find_a_better_minimum() -> None:
    p = suite.problem("four-bar")
    guess = dict(p.starts(1))["r0"]
    one = optimize(p.system, p.cost, guess)
    best = optimize(p.system, p.cost, guess, restarts=6)
    assert best.cost < 0.9 * one.cost
    with pytest.raises(ValueError, match="restarts must not be negative"):
        optimize(p.system, p.cost, guess, restarts=-1)


def test_a_maximum_is_left_or_named() -> None:
    pytest.importorskip("casadi")
    import casadi as ca

    rod = [da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))]
    system = da.System(da.MidpointVI(da.Model(rod, [da.ConfigForce("theta", "torque")]), 0.05), steps=20)
    cost = ExpressionCost(
        stage=lambda s: 1e-5 * s["torque"] ** 2, terminal=lambda s: ca.cos(s["theta"]) + 0.1 * s["p.theta"] ** 2
    )
    start = (np.zeros((21, 2)), np.zeros((20, 1)))
    assert optimize(system, cost, start).converged
    assert optimize(system, cost, start, max_iterations=0).status in ("saddle", "iterations")


def test_the_same_optimum_as_the_projection_operator() -> None:
    """Constrained with kinematic inputs, order 4, and a map written in Python."""
    hanging = problems.hanging()
    q0 = da.satisfy_constraints(hanging, {"y": -1.0, "length": 1.0})
    for order in (2, 4):
        system = da.System(da.MidpointVI(hanging, 0.05, order=order), steps=30)
        x0, U = system.x(q0), np.tile([0.0, 1.0], (30, 1))
        cost = TrackingCost({"x": 0.4, "y": -0.9, "top": 0.4, "length": 0.9}, 1.0, 1.0)
        start = (system.simulate(x0, U), U)
        one, two = (optimize(system, cost, start, method=m, tolerance=1e-8) for m in ("auto", "projection"))
        assert one.converged
        np.testing.assert_allclose(one.X, two.X, atol=1e-5)


def test_floating_body_turns_over() -> None:
    """A free body (SO(3)) turned by torques, from a start with gaps: the geodesic of the states."""
    model = da.Model(
        [da.floating("body", name="hull", mass=(1.0, 0.1, 0.2, 0.3))],
        [da.Wrench("hull", ("fx", "fy", "fz"), ("mx", "my", "mz"))],
    )
    system = da.System(da.MidpointVI(model, 0.05), steps=30)
    goal = system.retract(system.neutral(), np.r_[0.5, 0, 0.2, 1.5, 1.0, 0.0, np.zeros(6)])
    N = system.steps
    X = np.stack(
        [system.retract(system.neutral(), k / N * system.difference(system.neutral(), goal)) for k in range(N + 1)]
    )
    cost = TerminalCost(goal, 100.0) + TrackingCost({}, 0.0, 0.1)
    r = optimize(system, cost, (X, np.zeros((N, system.nu))))
    assert r.converged, r.reason
    assert gaps(r) < 1e-9
    still = (system.simulate(system.neutral(), np.zeros((N, system.nu))), np.zeros((N, system.nu)))
    same = optimize(system, cost, still, method="projection", tolerance=1e-8)
    assert r.cost <= same.cost * (1 + 1e-6)
