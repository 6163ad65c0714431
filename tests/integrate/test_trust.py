"""Steps that are right are accepted, steps that may be wrong are told, and no NaN comes back as a result."""

import time
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert import rz, tx

from . import test_accuracy as accuracy


@pytest.mark.parametrize("shift", [0.0, 1e-3])
@pytest.mark.parametrize("seed", range(6))
def test_loops_that_close_at_their_own_root(seed: int, shift: float) -> None:
    """All terms of the closure vanish at the pin: the tolerance has a floor with the scale of the mechanism."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(0.8, 1.2, 3)
    tip = tx(c, name="tip", mass=0.5)
    model = da.Model(
        [rz("a", tx(a, rz("b", tx(b, rz("c", tip), mass=1.0)), mass=1.0)), tx(shift, name="pin")],
        [da.Gravity((0, -9.8, 0)), da.PointToPoint("tip", "pin", "xy")],
    )
    q = da.satisfy_constraints(model, rng.normal(size=3) + np.array([0.0, 2.0, 2.0]), tolerance=1e-15)
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(q=q), steps=300)
    assert np.abs(da.constraints(model, motion.q)).max() < 2e-14


def test_a_follower_settles_where_its_profile_is_zero() -> None:
    x = np.linspace(-2, 2, 9)
    model = da.Model(
        [rz("cam", tx(1.0, mass=1.0)), tx("follower", mass=1.0)],
        [
            da.Cam("cam", "follower", da.Spline(np.stack([x, x**2], axis=1))),
            da.ConfigSpring("cam", 5.0),
            da.Damping(default=8.0),
        ],
    )
    vi = da.MidpointVI(model, dt=0.02)
    motion = vi.simulate(vi.state(q=da.satisfy_constraints(model, [0.4, 0.2])), time=60.0)
    assert abs(motion.q[-1, 0]) < 1e-9


def tied_sliders(rest_length: float) -> da.Model:
    return da.Model(
        [tx("a", mass=1.0, name="A"), tx("b", mass=1.0, name="B")],
        [da.LinearRelation({"a": 1, "b": -1}), da.LinearSpring("A", "world", 1.0, rest_length)],
    )


def test_no_nan_leaves_a_step_beside_a_constraint() -> None:
    """The direction of a spring from a frame to its own anchor is not defined: a failure, whatever else is in the model."""
    vi = da.MidpointVI(tied_sliders(1.0), dt=0.01)
    start = vi.state(q=[0.0, 0.0])
    with pytest.raises(da.ConvergenceError):
        vi.step(start)
    with pytest.raises(da.ConvergenceError) as failure:
        vi.simulate(start, steps=3)
    assert np.isfinite(failure.value.trajectory.p).all()
    for lanes in (False, True):
        batch = da.rollouts(vi, [start] * 3, 5, lanes=lanes)
        assert (batch.completed == 0).all()


def test_a_prescribed_jump_may_turn_a_hinge_far() -> None:
    """The relation has one solution; that the hinge turns more than half a turn is no reason to refuse it."""
    model = da.Model([rz("a", tx(1.0, mass=1.0)), rz(da.Kinematic("k"))], [da.LinearRelation({"a": 1, "k": -10})])
    vi = da.MidpointVI(model, dt=0.01)
    assert vi.step(vi.state(q=[0.0, 0.0]), kinematic=[0.32]).q[0] == pytest.approx(3.2, abs=1e-13)


def test_a_torque_may_turn_a_flywheel_far() -> None:
    """The equations are linear: their one solution is right, however far it is from where the momentum alone leads."""
    wheel = da.Model([rz("wheel", inertia=(1.0, 1.0, 1.0), mass=1.0)], [da.ConfigForce("wheel", "torque")])
    vi = da.MidpointVI(wheel, dt=0.05)
    motion = vi.simulate(vi.state(q=[0.0], v=[900.0]), 10, u=[8000.0])
    np.testing.assert_allclose(motion.q[:, 0], 900 * motion.t + 4000 * motion.t**2, rtol=1e-12)
    batch = da.rollouts(vi, [vi.state(q=[0.0], v=[v]) for v in (900.0, 0.0, -900.0)], 10, u=np.full((10, 1), 8000.0))
    np.testing.assert_allclose(batch.q[0], motion.q, rtol=1e-12)
    assert (batch.completed == 10).all()


@pytest.mark.parametrize(("seed", "dt", "step"), [(4, 0.01, 96), (372, 0.002, 10), (548, 0.01, 12), (354, 0.05, 98)])
def test_solutions_that_only_shorter_steps_find(seed: int, dt: float, step: int) -> None:
    """Newton finds roots with turned joints from every start; the one near to where 32 shorter steps lead is there, too."""
    run = accuracy.run(seed, dt, step + 1)
    assert run is not None
    assert len(run.truth) == step + 1
    assert not run.failed


def test_a_continuous_motion_that_does_not_begin() -> None:
    two = da.models.n_link(2)
    with pytest.raises(da.ConvergenceError, match="solve_ivp"), np.errstate(all="ignore"):
        da.simulate_continuous(two, [0.1, 0.2], [0.0, 1e149], [0.0, 0.1], rtol=1e-6, atol=1e-8)


def test_a_step_of_a_long_chain_without_a_solution_ends_soon() -> None:
    """The dense fallbacks of a thousand links took minutes."""
    vi = da.MidpointVI(da.models.n_link(1000), 0.01)
    rng = np.random.default_rng(1)
    start = vi.state(q=0.3 * rng.normal(size=1000), v=0.3 * rng.normal(size=1000))
    begun = time.process_time()
    with pytest.raises(da.ConvergenceError):
        vi.step(start)
    assert time.process_time() - begun < 20  # some three on a quiet machine


def test_a_joint_may_make_many_turns_in_a_step() -> None:
    """The solution is within an eighth of the way of where shorter steps lead, but more than half a turn from there."""
    assert not accuracy.run(1702, 0.05, 120).failed  # type: ignore[union-attr]


@pytest.mark.parametrize("links", [2, 3, 5])
@pytest.mark.parametrize("closed", [da.Distance, da.PointToPoint])
@pytest.mark.parametrize("call", [da.satisfy_constraints, da.equilibrium])
def test_a_straight_chain_is_closed(call: Any, closed: type, links: int) -> None:
    """From a singular start no step of Newton leads to a closed chain; from beside it one does, and no joint turns for nothing."""
    frame = tx(1.0, name="tip", mass=1.0)
    for i in range(links):
        frame = rz(f"a{i}", frame if i == 0 else tx(1.0, frame, mass=1.0))
    rows = da.Distance("world", "tip", 0.5 * links) if closed is da.Distance else da.PointToPoint("tip", "pin", "xy")
    model = da.Model([frame, tx(0.5 * links, name="pin")], [da.Gravity((0, -9.8, 0)), rows])
    q = call(model, np.zeros(links))
    assert np.abs(da.constraints(model, q)).max() < 1e-11
    assert np.abs(q).max() < np.pi


def test_what_is_out_of_reach_is_said() -> None:
    model = da.Model([rz("a", tx(1.0, name="tip", mass=1.0))], [da.Distance("world", "tip", 0.5)])
    with pytest.raises(da.ConvergenceError, match="no configuration was found"):
        da.satisfy_constraints(model, [0.0])


def test_no_nan_among_consistent_velocities() -> None:
    with pytest.raises(da.ConvergenceError), np.errstate(all="ignore"):
        da.consistent_velocity(da.models.crane(), [0.1, -1.0, 0.1, 1.0], [0.0, 1e308, 1e308, 1e308])


@pytest.mark.parametrize("tolerance", [float("nan"), 0.0, -1.0, float("inf"), 10**400, "1e-9", True])
def test_tolerances_are_positive_numbers(tolerance: Any) -> None:
    """Of NaN everything is less than nothing: what had not converged came back as a result."""
    pendulum = da.models.pendulum()
    A, B = np.eye(2), np.ones((2, 1))
    for call in (
        lambda: da.trim(pendulum, [0.3], tolerance=tolerance),
        lambda: da.equilibrium(pendulum, [0.3], tolerance=tolerance),
        lambda: da.satisfy_constraints(da.models.crane(), [0.1, -1.0, 0.1, 1.0], tolerance=tolerance),
        lambda: da.controllable_rank(A, B, tolerance=tolerance),
        lambda: da.uncontrollable_modes(A, B, tolerance=tolerance),
    ):
        with pytest.raises(ValueError, match="tolerance"):
            call()


def test_gramians_over_any_number_of_steps() -> None:
    A, B = np.array([[0.9, 0.1], [0.0, 0.8]]), np.array([[0.0], [1.0]])
    W = np.zeros((2, 2))
    for steps in range(12):
        np.testing.assert_allclose(da.controllability_gramian(A, B, steps), W, rtol=1e-14, atol=1e-15)
        W = A @ W @ A.T + B @ B.T
    np.testing.assert_allclose(da.controllability_gramian(A, B, 10**30), da.controllability_gramian(A, B), rtol=1e-12)
    with pytest.raises(ValueError, match="not stable"):
        da.controllability_gramian(2 * A, B, 10**30)
    for steps in (-1, 2.5):
        with pytest.raises(ValueError, match="steps"):
            da.controllability_gramian(A, B, steps)
