"""Motions whose duration is optimized too."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.integrate.onestep import slopes
from dalembert.optimization import MotionLimit, TrackingCost, optimize
from dalembert.optimization.duration import Stretched

from . import problems

ca = pytest.importorskip("casadi")


def cart(steps: int, dt: float) -> da.System:
    model = da.Model([da.tx("x", mass=1.0)], [da.ConfigForce("x", "f")])
    return da.System(da.MidpointVI(model, dt), steps=steps)


def at_rest(x: float) -> MotionLimit:
    return MotionLimit(lambda s: ca.vertcat(s["x"] - x, s["p.x"]), 0.0, 0.0, at="end", name="end")


def test_minimum_time_of_a_mass() -> None:
    """Rest to rest over 1 m with |f| <= 1: full force, then full brake, in exactly 2 s."""
    N = 20
    line = np.linspace(0, 1, N + 1)[:, None] * np.array([1.0, 0.0])
    for dt in (0.15, 0.08):  # from too long and from too short
        r = optimize(
            cart(N, dt), TrackingCost({}, 0.0, 1e-3), (line, np.zeros((N, 1))), bounds={"f": (-1.0, 1.0)},
            limits=[at_rest(1.0)], free_time=(0.5, 5.0), time_weight=1.0,
        )  # fmt: skip
        assert r.converged, r.reason
        assert r.system.t[-1] == pytest.approx(2.0, abs=1e-6)
        assert r.cost == pytest.approx(2.0 + 0.5e-3 * N, abs=1e-6)
        np.testing.assert_allclose(r.U[:, 0], np.sign(9.5 - np.arange(N)), atol=1e-6)
        np.testing.assert_allclose(r.system.simulate([0.0, 0.0], r.U), r.X, atol=1e-9)
        np.testing.assert_allclose(r.X[-1], [1.0, 0.0], atol=1e-6)
        assert "duration 2 s" in r.reason


def test_effort_against_time_and_the_limits_of_the_duration() -> None:
    """Without bounds: the best duration of w T + 1/2 sum u^2 is where its slope vanishes; limits of it hold."""
    N = 16
    line = np.linspace(0, 1, N + 1)[:, None] * np.array([1.0, 0.0])
    cost, end = TrackingCost({}, 0.0, 1.0), at_rest(1.0)
    free = optimize(cart(N, 0.1), cost, (line, np.zeros((N, 1))), limits=[end], free_time=(0.1, 20.0), time_weight=3.0)
    assert free.converged, free.reason
    T = float(free.system.t[-1])

    def total(T: float) -> float:
        return optimize(cart(N, T / N), cost, (line, np.zeros((N, 1))), limits=[end]).cost + 3.0 * T

    assert free.cost == pytest.approx(total(T), rel=1e-6)  # equalities hold to 1e-6
    assert total(0.99 * T) > free.cost
    assert total(1.01 * T) > free.cost
    short = optimize(
        cart(N, 0.1), cost, (line, np.zeros((N, 1))), limits=[end], free_time=(0.1, 0.7 * T), time_weight=3.0
    )
    assert short.converged
    assert short.system.t[-1] == pytest.approx(0.7 * T, abs=1e-6)
    assert short.multipliers["duration"][-1] > 0


@pytest.mark.parametrize("kind", ["string", "ball"])
def test_derivatives_by_the_duration(kind: str) -> None:
    """Of a constrained system with kinematic inputs, and of a rotating one: against differences of single steps."""
    if kind == "string":
        base = da.System(da.MidpointVI(problems.hanging(), 0.05), steps=3)
        x0 = base.x(da.satisfy_constraints(base.model, {"x": 0.3, "y": -0.9, "length": 1.0}))
        U = np.tile([0.02, 1.01], (3, 1))
    else:
        top = da.Model(
            [da.floating("body", name="hull", mass=(1.0, 0.1, 0.2, 0.3))],
            [da.Wrench("hull", (0, 0, "lift"), ("m", 0, 0))],
        )
        base = da.System(da.MidpointVI(top, 0.05), steps=3)
        x0 = base.retract(base.neutral(), 0.3 * np.arange(12) / 12)
        U = np.tile([1.0, 0.5], (3, 1))
    one = Stretched(base)
    system = da.System(one, steps=3)
    X = system.simulate(np.append(x0, 0.2), U)
    np.testing.assert_allclose(base.with_dt(np.full(3, 0.2 / 3)).simulate(x0, U), X[:, :-1], atol=1e-12)
    ends, A, _ = system.shoot(X, U, derive=True)
    Z = np.random.default_rng(0).normal(size=(3, system.ndx))
    xx, xu, _ = system.second_order_trajectory(X, U, Z)
    n = system.ndx
    for k in range(3):
        end = system.f(X[k], U[k], k)
        np.testing.assert_allclose(end, ends[k], atol=1e-12)

        def step(d: np.ndarray, k: int = k) -> np.ndarray:
            x = X[k].copy()
            x[-1] += d[0]
            return system.difference(ends[k], system.f(x, U[k], k))

        np.testing.assert_allclose(A[k, :, -1:], slopes(step, 1), atol=1e-8)

        def gradient(d: np.ndarray, k: int = k) -> np.ndarray:
            at = X.copy()
            at[k, -1] += d[0]
            there, A, B = system.shoot(at, U, derive=True)
            turn = system.difference_jacobian(ends[k], there[k])
            z = Z[k] if turn is None else Z[k] @ turn
            return np.concatenate([z @ A[k], z @ B[k]])

        by = slopes(gradient, 1)[:, 0]
        np.testing.assert_allclose(xx[k, :, -1], by[:n], atol=1e-6)
        np.testing.assert_allclose(xx[k, -1, :], by[:n], atol=1e-6)
        np.testing.assert_allclose(xu[k, -1, :], by[n:], atol=1e-6)


def test_crane_chooses_its_duration() -> None:
    """Constraints and kinematic inputs; speeds of the winches are bounded."""
    system = da.System(da.MidpointVI(problems.hanging(), 0.05), steps=30)
    q0 = da.satisfy_constraints(system.model, {"y": -1.0, "length": 1.0})
    U = np.tile([0.0, 1.0], (30, 1))
    cost = TrackingCost(
        {"x": 0.5, "y": -1.0, "top": 0.5, "length": 1.0}, Q={"*": 0.01}, R=0.01, Qf={"x": 200.0, "y": 200.0, "*": 50.0}
    )
    r = optimize(
        system, cost, (system.simulate(system.x(q0), U), U), bounds={"v.top": (-0.6, 0.6)}, free_time=(0.5, 4.0),
        time_weight=1.0,
    )  # fmt: skip
    assert r.converged, r.reason
    assert 0.5 < r.system.t[-1] < 4.0
    assert np.abs(r.X[:, r.system.x_names.index("v.top")]).max() <= 0.6
    np.testing.assert_allclose(r.system.simulate(r.X[0], r.U), r.X, atol=1e-7)


def test_mistakes() -> None:
    start = np.zeros((4, 2)), np.zeros((3, 1))
    for bad in ((2.0, 1.0), (0.0, 1.0), 3.0):
        with pytest.raises(ValueError, match="free_time must be"):
            optimize(cart(3, 0.1), TrackingCost({}, 1.0, 1.0), start, free_time=bad)
    with pytest.raises(ValueError, match="free_time needs method='auto'"):
        optimize(cart(3, 0.1), TrackingCost({}, 1.0, 1.0), start, free_time=(1.0, 2.0), method="newton")
