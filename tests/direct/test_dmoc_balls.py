"""DMOC with balls and floating bodies: the equations are those of MidpointVI, and the plans are motions."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ModelError

REST = {"b": [0.0, 0.0, 0.0]}
INERTIA = (0.02, 0.03, 0.045)


def satellite(*more):
    """A rigid body with three torques along its axes."""
    return da.Model(
        [da.ball("b", name="B", mass=2.0, inertia=INERTIA)], [da.Wrench("B", torque=("tx", "ty", "tz")), *more]
    )


def drone():
    """Thrust along the body's z axis and three torques."""
    body = da.floating("base", name="B", mass=1.0, inertia=(0.01, 0.012, 0.02))
    return da.Model([body], [da.Gravity(), da.Wrench("B", force=(0, 0, "thrust"), torque=("tx", "ty", "tz"))])


def stepped(plan):
    """How far the integrator's own motion under the plan's inputs is from the plan, largest component."""
    vi = plan.integrator()
    motion = vi.simulate(vi.state(q=plan.q[0], p=plan.p[0]), steps=len(plan.u), u=plan.u, kinematic=plan.trajectory.rho)
    return np.abs(plan.model.difference(plan.q, motion.q)).max()


@pytest.mark.parametrize("solver", ["ipopt", "fatrop"])
@pytest.mark.parametrize("goal", [[0.0, 0.0, 3.1], [1.0, -1.5, 0.7], [2.2, 2.2, 0.0]])
def test_rest_to_rest_turn_of_a_satellite(goal, solver):
    model = satellite()
    plan = da.dmoc(
        model,
        start={"q": {"b": [0, 0, 0]}, "v": REST},
        goal={"q": {"b": goal}, "v": REST},
        steps=24,
        time=2.0,
        solver=solver,
    )
    assert plan.success, plan.message
    assert stepped(plan) < 1e-8
    assert plan.replay_error < 2e-3
    assert plan.defect < 2e-3
    at_goal = model.configuration.point({"b": goal})
    assert np.abs(model.difference(at_goal, plan.q[-1])).max() < 1e-9
    np.testing.assert_allclose(np.linalg.norm(plan.q, axis=1), 1.0, atol=1e-14)


def test_about_a_principal_axis_it_is_the_plan_of_a_hinge():
    """The torque of a rest-to-rest turn about z, to rounding: a hinge of the same inertia."""
    hinge = da.Model([da.rz("a", mass=2.0, inertia=INERTIA)], [da.ConfigForce("a", "t")])
    angle, options = 2.5, {"steps": 16, "time": 1.5}
    wanted = da.dmoc(hinge, start={"q": [0], "v": [0]}, goal={"q": [angle], "v": [0]}, **options)
    plan = da.dmoc(
        satellite(), start={"q": {"b": [0, 0, 0]}, "v": REST}, goal={"q": {"b": [0, 0, angle]}, "v": REST}, **options
    )
    np.testing.assert_allclose(plan.u[:, 2], wanted.u[:, 0], atol=1e-7)
    assert plan.objective == pytest.approx(wanted.objective, rel=1e-8)


def test_a_guess_says_which_way_round():
    """A whole turn: the goal is the start, on the other sheet of the quaternions."""
    model = satellite()
    turns = np.array([[np.cos(a / 2), 0, 0, np.sin(a / 2)] for a in np.linspace(0, 2 * np.pi, 21)])
    rest = {"q": {"b": [0, 0, 0]}, "v": REST}
    plan = da.dmoc(model, start=rest, goal=rest, steps=20, time=2.0, guess=turns)
    assert plan.success
    assert stepped(plan) < 1e-8
    turned = np.sum(model.difference(plan.q[:-1], plan.q[1:])[:, 2])
    assert turned == pytest.approx(2 * np.pi, abs=1e-6)
    still = da.dmoc(model, start=rest, goal=rest, steps=20, time=2.0)
    assert still.objective == pytest.approx(0.0, abs=1e-9)
    again = da.dmoc(
        model, start=rest, goal=rest, steps=40, time=2.0, guess=plan
    )  # and a plan as the guess of a finer one
    assert again.objective == pytest.approx(plan.objective, rel=5e-3)


@pytest.mark.parametrize("solver", ["ipopt", "fatrop"])
def test_a_drone_moves_aside_within_its_thrust(solver):
    model = drone()
    start, goal = ({"q": {"base": np.eye(4)}, "v": np.zeros(6)} for _ in range(2))
    goal["q"] = {"base": [0.0, 0.0, 1.0], "base.x": 1.0, "base.y": -0.5, "base.z": 0.3}
    plan = da.dmoc(
        model, start=start, goal=goal, steps=40, time=1.5, solver=solver, bounds={"thrust": (4.0, 14.0)},
        effort={"thrust": 0.01, "tx": 1.0, "ty": 1.0, "tz": 1.0}, turn=0.5,
    )  # fmt: skip
    assert plan.success, plan.message
    assert stepped(plan) < 1e-7
    assert plan.replay_error < 0.01
    assert plan.defect < 0.03
    assert plan.u[:, 0].min() > 4 - 1e-6
    assert plan.u[:, 0].max() < 14 + 1e-6
    assert np.abs(plan.q[-1, :3] - [1.0, -0.5, 0.3]).max() < 1e-9
    assert np.abs(plan.trajectory.v[-1]).max() < 1e-6


def test_refined_with_velocities_given_by_name_and_a_free_time():
    plan = da.dmoc(
        satellite(), start={"b": [0, 0, 0]}, goal={"q": {"b": [1.5, 0, 0.5]}, "v": {"b.wx": 0.0, "b": [0.0, 0, 0]}},
        steps=10, time=1.0, free_time=(0.5, 3.0), cost=lambda m: 1.0 + 50 * sum(m.input(t) ** 2 for t in ("tx", "ty", "tz")),
        refine="auto",
    )  # fmt: skip
    assert plan.success
    assert plan.replay_error < 0.03
    assert plan.defect < 0.03
    assert stepped(plan) < 1e-7


def test_with_constraints_hinges_and_a_prescribed_slider():
    """A ball hung by a string from a cart that is moved, with an arm on it."""
    arm = da.rx("arm", da.tz(-0.3, name="hand", mass=0.2, inertia=(0.01, 0.01, 0.01)))
    body = da.floating("base", arm, da.tz(0.3, name="hook"), name="B", mass=1.0, inertia=(0.05, 0.06, 0.04))
    model = da.Model(
        [body, da.tx(da.Kinematic("cart"), name="cart_frame")],
        [da.Gravity(), da.Distance("hook", "cart_frame", 1.0), da.ConfigForce("arm", "motor"), da.Damping(0.01)],
    )
    q = {"base.z": -1.3, "arm": 0.0, "cart": 0.0, "base": [0.0, 0.0, 0.0], "base.x": 0.0, "base.y": 0.0}
    plan = da.dmoc(
        model, start={"q": q, "v": np.zeros(model.nv)}, goal={"q": {"cart": 0.3}}, steps=20, time=1.0,
        effort={"motor": 1.0, "cart": 0.1}, final=lambda m: 10 * (m["base.x"] - 0.3) ** 2 + m.momentum("base.wx") ** 2,
    )  # fmt: skip
    assert plan.success, plan.message
    assert stepped(plan) < 1e-6


def test_what_is_refused():
    model, rest = satellite(), {"q": {"b": [0, 0, 0]}, "v": REST}
    with pytest.raises(ValueError, match="all of the ball 'b'"):
        da.dmoc(model, start={"q": {"b.qw": 1.0}}, goal=rest, steps=4, time=1.0)
    with pytest.raises(ModelError, match="without balls"):
        da.dmoc(model, start=rest, goal=rest, steps=4, time=1.0, method="hamiltonian")
    with pytest.raises(ValueError, match="symmetric"):
        da.dmoc(model, start=rest, goal=rest, steps=4, time=1.0, alpha=0.3)
    with pytest.raises(ValueError, match="no shift"):
        da.dmoc(model, start=rest, steps=4, time=1.0, periodic={"b": 1.0})
    held = da.Model([da.ball(da.Kinematic("k"), da.rx("a", mass=1.0, inertia=(1, 1, 1)))], [da.ConfigForce("a", "t")])
    with pytest.raises(ModelError, match="ball 'k' is prescribed"):
        da.dmoc(held, start={"q": {"a": 0.0}}, steps=4, time=1.0)
