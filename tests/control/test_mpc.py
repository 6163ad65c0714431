"""Predictive control: closed loops with bounds, model errors and pushes; the core against plain arrays; what a law saturates and saves."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.control import mpc as module


def cart_pole(bob: float = 0.3) -> da.Model:
    return da.Model(
        [da.ty("x", da.rx("a", da.tz(-0.5, name="m1", mass=bob)), name="cart", mass=1.0)],
        [da.Gravity((0, 0, -9.81)), da.ConfigForce("x", "f")],
    )


UP = da.TrackingCost({"a": np.pi}, Q={"x": 1.0, "a": 10.0, "*": 0.1}, R=0.01, Qf={"x": 20.0, "a": 200.0, "*": 5.0})


def drone() -> da.Model:
    hull = da.floating("drone", name="hull", mass=(0.8, 0.008, 0.008, 0.014))
    return da.Model([hull], [da.Gravity((0, 0, -9.81)), da.Wrench("hull", (0, 0, "lift"), ("mx", "my", "mz"))])


HOVER = da.TrackingCost(
    {"drone.z": 1.0, "lift": 0.8 * 9.81},
    Q={"drone.vx": 5.0, "drone.vy": 5.0, "drone.vz": 5.0, "*": 0.5},
    R={"lift": 0.02, "*": 1.0},
)


def test_the_core_and_plain_arrays_make_the_same_plans() -> None:
    vi = da.MidpointVI(drone(), 0.03)
    bounds = {"lift": (0.0, 15.0), "mx": (-0.3, 0.3), "my": (-0.3, 0.3), "mz": (-0.1, 0.1)}
    x = da.System(vi, steps=1).retract(
        da.System(vi, steps=1).neutral(), np.r_[0.3, -0.2, 0.4, 0.5, -0.4, 0.2, np.zeros(6)]
    )
    fast, slow = (da.MPC(vi, HOVER, 20, bounds, smoothing=1e-4) for _ in range(2))
    # of rotations the core has no second derivative of the distance: positions and momenta are weighed
    X, U = np.tile(x, (21, 1)), np.tile([7.0, 0, 0, 0], (20, 1))
    flat = da.TrackingCost({"drone.z": 1.0}, Q={"drone.vx": 5.0, "drone.vz": 5.0, "p.drone.vx": 1.0}, R=0.1)
    for mpc in (fast, slow):
        bound = flat.bind(mpc.system)
        if mpc is fast:
            Xd, Ud, Q, Qf, R = bound.quadratic()
            mpc._plan = mpc.system.plan(Q, Qf, R, mpc.low, mpc.high, 1e-4)
            mpc._plan.aim(Xd, Ud)
        else:
            mpc._plan = module._Plan(mpc.system, bound, mpc.low, mpc.high, 1e-4)
        mpc.reset(X, U)
        for _ in range(3):
            mpc.step(x)
    np.testing.assert_allclose(fast.U, slow.U, atol=1e-8)
    np.testing.assert_allclose(fast.X, slow.X, atol=1e-8)
    np.testing.assert_allclose(fast.feedback.K, slow.feedback.K, atol=1e-7)


def test_converges_to_the_optimum() -> None:
    """Iterated at one state without shifts, the plan is the optimum of `optimize`, up to the barrier."""
    vi = da.MidpointVI(cart_pole(), 0.03)
    x = np.array([0.1, np.pi + 0.2, 0.0, 0.0])
    bounds = {"f": (-6.0, 6.0)}
    mpc = da.MPC(vi, UP, 50, bounds, smoothing=1e-8)
    system = da.System(vi, steps=50)
    best = da.optimize(system, UP, (np.tile(x, (51, 1)), np.zeros((50, 1))), bounds=bounds)
    assert best.converged
    mpc.reset(best.X, best.U)
    for _ in range(60):
        mpc._plan.prepare(False)
        mpc._plan.respond(x)
    assert np.abs(best.U).max() > 5.99
    np.testing.assert_allclose(mpc.U, best.U, atol=2e-3)


def test_balance_with_model_error_and_pushes() -> None:
    """The plan's model has a bob a third too light; every half second the cart is pushed."""
    plan, real = da.MidpointVI(cart_pole(0.2), 0.02), da.System(da.MidpointVI(cart_pole(0.3), 0.02), steps=1)
    mpc = da.MPC(plan, UP, 50, {"f": (-8.0, 8.0)})
    rng = np.random.default_rng(0)
    x = np.array([0.0, np.pi + 0.1, 0.0, 0.0])
    for k in range(1500):
        u = mpc.step(x)
        assert abs(u[0]) <= 8.0
        x = real.f(x, u)
        if k % 25 == 0:
            x = x + np.r_[0, 0, rng.normal(0, 0.15), rng.normal(0, 0.02)]
        assert abs(x[1] - np.pi) < 0.8
        assert abs(x[0]) < 1.5
    assert mpc.failures == 0
    assert len(mpc.latencies) == 1500


def test_swing_up_from_a_plan() -> None:
    """The first plan is an optimum; predictive control executes it and then balances."""
    vi = da.MidpointVI(cart_pole(), 0.03)
    system = da.System(vi, steps=100)
    s = np.linspace(0, 1, 101)[:, None]
    goal = np.array([0, np.pi, 0, 0])
    swing = da.TrackingCost(
        (np.tile(goal, (101, 1)), np.zeros((100, 1))), Q=[0.01, 0.1, 0.01, 0.01], R=0.02, Qf=[200, 2000, 200, 200]
    )
    best = da.optimize(system, swing, (s * goal, np.zeros((100, 1))), bounds={"f": (-10, 10)})
    assert best.converged
    mpc = da.MPC(vi, swing, 100, {"f": (-10, 10)}, start=best)
    X = da.System(vi, steps=250).simulate(np.zeros(4), mpc)
    assert np.abs(X[-1] - goal).max() < 0.05
    assert mpc.failures == 0


def test_drone_and_crane() -> None:
    """A floating body, and a mass on a string with kinematic inputs, under constraints."""
    vi = da.MidpointVI(drone(), 0.03)
    mpc = da.MPC(vi, HOVER, 30, {"lift": (0.0, 12.0), "mx": (-0.2, 0.2), "my": (-0.2, 0.2), "mz": (-0.1, 0.1)})
    start = vi.state(q={"drone.x": 1.0, "drone.y": -0.5}, v={"drone.wx": 2.0})
    motion = vi.simulate(start, steps=200, u=mpc)
    assert np.abs(motion.q[-1, :3] - [0, 0, 1]).max() < 0.02
    assert mpc.failures == 0
    model = da.Model(
        [da.tx("x", da.ty("y", name="bob", mass=1.0)), da.tx(da.Kinematic("top"), name="top")],
        [da.Gravity((0, -9.8, 0)), da.Distance("top", "bob", da.Kinematic("length")), da.Damping(0.1)],
    )
    vi = da.MidpointVI(model, 0.05)
    cost = da.TrackingCost({"x": 1.0, "y": -1.0, "top": 1.0, "length": 1.0}, Q={"x": 10.0, "y": 10.0, "*": 0.5}, R=0.01)
    mpc = da.MPC(vi, cost, 25, {"length": (0.8, 1.2)})
    system = da.System(vi, steps=120)
    x0 = system.x(da.satisfy_constraints(model, {"y": -1.0, "length": 1.0}))
    X = system.simulate(x0, mpc)
    assert abs(X[-1, 0] - 1.0) < 0.05
    assert mpc.failures == 0


def test_a_cost_that_is_an_expression() -> None:
    pytest.importorskip("casadi")
    vi = da.MidpointVI(cart_pole(), 0.04)
    cost = da.ExpressionCost(
        stage=lambda s: (
            (s.position("m1")[2] - 0.5) ** 2 * 20
            + s["x"] ** 2
            + 0.1 * s["p.x"] ** 2
            + 0.1 * s["p.a"] ** 2
            + 0.005 * s["f"] ** 2
        ),
        terminal=lambda s: 50 * (s["a"] - np.pi) ** 2 + 5 * s["x"] ** 2 + s["p.x"] ** 2 + s["p.a"] ** 2,
    )
    mpc = da.MPC(vi, cost, 30, {"f": (-10, 10)})
    X = da.System(vi, steps=100).simulate([0.2, np.pi - 0.15, 0, 0], mpc)
    assert abs(X[-1, 1] - np.pi) < 0.05
    with pytest.raises(ValueError, match="reference"):
        mpc.step(X[-1], reference=(np.zeros((31, 4)), np.zeros((30, 1))))


def test_a_moving_reference() -> None:
    vi = da.MidpointVI(cart_pole(), 0.02)
    mpc = da.MPC(vi, UP, 50, {"f": (-20, 20)})
    x = np.array([0.0, np.pi, 0, 0])
    real = da.System(vi, steps=1)
    Xd = np.tile([0.5, np.pi, 0, 0], (51, 1))
    for _ in range(300):
        x = real.f(x, mpc.step(x, reference=(Xd, np.zeros((50, 1)))))
    assert abs(x[0] - 0.5) < 0.02


def test_preparation_is_the_rest_of_the_work() -> None:
    vi = da.MidpointVI(cart_pole(), 0.02)
    one, two = (da.MPC(vi, UP, 40, {"f": (-8, 8)}) for _ in range(2))
    real = da.System(vi, steps=1)
    x = np.array([0.0, np.pi + 0.1, 0, 0])
    for _ in range(20):
        u = one.step(x)
        np.testing.assert_array_equal(u, two.step(x))
        two.prepare()
        x = real.f(x, u)


def test_impossible_states_do_not_end_it() -> None:
    vi = da.MidpointVI(cart_pole(), 0.02)
    mpc = da.MPC(vi, UP, 30, {"f": (-8, 8)})
    for x in ([0, np.pi, 0, 0], [0, 0.0, 1e6, -1e6], [0, np.pi, 0, 0], [1e9, 1e9, 0, 0], [0, np.pi + 0.05, 0, 0]):
        u = mpc.step(np.array(x, dtype=float))
        assert np.isfinite(u).all()
        assert abs(u[0]) <= 8
    with pytest.raises(ValueError, match="x"):
        mpc.step([np.nan, 0, 0, 0])


def test_mistakes() -> None:
    vi = da.MidpointVI(cart_pole(), 0.02)
    with pytest.raises(ValueError, match="'x' is none; it is a state"):
        da.MPC(vi, UP, 10, {"x": (-1, 1)})
    with pytest.raises(ValueError, match="horizon must be"):
        da.MPC(vi, UP, 0)
    with pytest.raises(ValueError, match="is not below"):
        da.MPC(vi, UP, 10, {"f": (1, -1)})
    with pytest.raises(ValueError, match="smoothing"):
        da.MPC(vi, UP, 10, {"f": (-1, 1)}, smoothing=0.0)


@pytest.mark.slow
def test_a_hundred_thousand_calls() -> None:
    """Model error, pushes, noise: no call fails, the cart-pole stays up."""
    plan, real = da.MidpointVI(cart_pole(0.25), 0.02), da.System(da.MidpointVI(cart_pole(0.3), 0.02), steps=1)
    mpc = da.MPC(plan, UP, 50, {"f": (-8.0, 8.0)})
    rng = np.random.default_rng(1)
    x = np.array([0.0, np.pi, 0.0, 0.0])
    for k in range(100_000):
        x = real.f(x, mpc.step(x + rng.normal(0, 1e-3, 4)))
        if k % 50 == 0:
            x = x + np.r_[0, 0, rng.normal(0, 0.15), rng.normal(0, 0.02)]
        assert abs(x[1] - np.pi) < 1.2
    assert mpc.failures == 0


# ---- laws


def test_feedback_saturates_wraps_and_is_saved(tmp_path) -> None:
    vi = da.MidpointVI(cart_pole(), 0.02)
    system = da.System(vi, steps=50)
    X, U = np.tile([0, np.pi, 0, 0], (51, 1)), np.zeros((50, 1))
    law = da.lqr(system, (X, U), Q=1.0, R=0.1, wrap=True).saturated(-2.0, 2.0)
    far = X[0] + [0, 0.5, 0, 0]
    assert law.input(0, far)[0] in (-2.0, 2.0)
    near = X[0] + [0, 0.01, 0, 0]
    np.testing.assert_allclose(law.input(0, near), law.input(0, near + np.array([0, 2 * np.pi, 0, 0])), atol=1e-9)
    law.save(tmp_path / "law.npz")
    again = da.Feedback.load(tmp_path / "law.npz", system=system)
    np.testing.assert_array_equal(again.input(3, near), law.input(3, near))
    np.testing.assert_array_equal(again.K, law.K)
    np.testing.assert_array_equal(
        again.input(3, near + np.array([0, 2 * np.pi, 0, 0])), law.input(3, near + np.array([0, 2 * np.pi, 0, 0]))
    )
    (tmp_path / "bad.npz").write_bytes(b"x")
    with pytest.raises(ValueError, match="is not a saved Feedback"):
        da.Feedback.load(tmp_path / "bad.npz")
    with pytest.raises(ValueError, match="low must be below"):
        law.saturated(1.0, -1.0)
