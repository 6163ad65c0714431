"""Closed loops: multipliers for the closures only, independent rows of them, guesses brought onto them."""

import numpy as np
import pytest

import dalembert as da
from dalembert import ConvergenceError
from dalembert.direct.dmocc import Joint, MultibodySystem, assemble, configuration, optimize, simulate
from dalembert.direct.dmocc.kernels import flat, kernels

from .mechanisms import Z, five_bar, four_bar, rod, spatial_four_bar

MOVE = {"start": {"l1": 0.0, "r1": 0.0}, "goal": {"l1": 0.5, "r1": 0.3}, "time": 1.0}


@pytest.mark.parametrize("make", [five_bar, four_bar])
def test_reduced_and_multiplier_schemes_give_the_same_motion(make):
    s = make()
    v = np.eye(s.nd)[0]
    force = np.linspace(0.5, 1.0, s.nu)
    a = simulate(s, dt=0.01, steps=60, velocity=v, tau=force)
    b = simulate(s, dt=0.01, steps=60, velocity=v, tau=force, form="multiplier")
    assert np.abs(a.q - b.q).max() < 1e-10
    assert np.abs(a.p - b.p).max() < 1e-9
    assert a.constraint_violation().max() < 1e-13
    assert a.lam.shape == (60, 5)
    assert b.lam.shape == (60, s.m + 5)
    assert np.ptp(a.u[:, 0]) > 0.1


def test_energy_of_a_free_swing_has_no_drift():
    s = four_bar()
    motion = simulate(s, dt=0.01, steps=300, velocity=np.eye(s.nd)[0])
    energy = motion.energy()
    assert np.ptp(energy) < 0.005 * np.abs(energy).max()


def test_loops_are_assembled():
    s = five_bar()
    u = assemble(s, {"l1": 0.4, "r1": -0.2})
    assert u[s.coordinates.index("l1")] == 0.4
    assert u[s.coordinates.index("r1")] == -0.2
    assert np.abs(flat(kernels(s).closures(configuration(s, u), u)[0])).max() < 1e-12
    near = assemble(s, u + 0.05)
    assert 0 < np.abs(near - u).max() < 0.2
    with pytest.raises(ConvergenceError, match="l1, r1"):
        assemble(s, {"l1": 1.2, "r1": -1.2})
    with pytest.raises(ValueError, match="unknown name 'x'"):
        assemble(s, u, fixed=("x",))
    with pytest.raises(ValueError, match="violates a closure"):
        simulate(s, dt=0.01, steps=2, u=[0.3, 0, 0, 0])
    with pytest.raises(ValueError, match="start: the loops cannot be closed"):
        optimize(s, steps=10, time=1.0, start={"l1": 1.2, "r1": -1.2}, goal=MOVE["goal"])
    with pytest.raises(ValueError, match="goal: the loops cannot be closed"):
        optimize(s, steps=10, time=1.0, goal={"l1": 1.2, "r1": -1.2})


@pytest.fixture(scope="module")
def moves():
    return {n: optimize(five_bar(), steps=n, **MOVE) for n in (20, 40, 80)}


def test_five_bar_keeps_two_of_five_rows_and_converges_quadratically(moves):
    for n, found in moves.items():
        assert found.success
        assert found.iterations < 20
        assert found.unknowns == (n + 1) * 4 + n * 2 + (n + 1) * 2
        assert found.motion.constraint_violation().max() < 1e-12
        assert found.replay_error < 0.01
    gaps = np.diff([moves[n].objective for n in (20, 40, 80)])
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(2.0, abs=0.05)
    # the simulation repeats the plan
    motion = moves[40].motion
    again = simulate(five_bar(), dt=motion.t[1], steps=40, u=motion.u[0], tau=motion.tau)
    assert np.abs(again.q - motion.q).max() < 1e-6


@pytest.mark.parametrize(
    "options", [{"form": "momentum"}, {"form": "multiplier"}, {"reparameterization": "relative"}, {"charts": "renewed"}]
)
def test_forms_agree(moves, options):
    found = optimize(five_bar(), steps=20, **MOVE, **options)
    assert found.success
    assert found.objective == pytest.approx(moves[20].objective, rel=1e-7)
    assert np.abs(found.motion.u - moves[20].motion.u).max() < 1e-5


def test_five_bar_approaches_dmoc_in_generalized_coordinates(moves):
    # the same device as a Model, in absolute angles with two constraints
    s = five_bar()
    joint = {j.child: np.array(j.point) for j in s.joints}
    body = {b.name: b for b in s.bodies}

    def link(name, *children):
        centre = np.array(body[name].position) - joint[name]
        inertia = np.array(body[name].rotation) @ np.array(body[name].inertia) @ np.array(body[name].rotation).T
        full = (inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2])
        return da.rz(name, *children, mass=1.0, inertia=full, com=tuple(centre), name=f"{name} body")

    def at(offset, *children):
        return da.tx(float(offset[0]), da.ty(float(offset[1]), *children))

    tip = np.array(s.closures[0].point)
    left = at(
        joint["l1"],
        link("l1", at(joint["l2"] - joint["l1"], link("l2", at(tip - joint["l2"], da.tx(0.0, name="left tip"))))),
    )
    right = at(
        joint["r1"],
        link("r1", at(joint["r2"] - joint["r1"], link("r2", at(tip - joint["r2"], da.tx(0.0, name="right tip"))))),
    )
    model = da.Model(
        [left, right],
        [
            da.Gravity((0, -9.81, 0)),
            da.PointToPoint("left tip", "right tip", "xy"),
            da.ConfigForce("l1", "left"),
            da.ConfigForce("r1", "right"),
        ],
    )
    order = [s.coordinates.index(v) for v in model.variables]
    rest = {"v": np.zeros(4)}
    gaps = []
    for n, found in moves.items():
        u = found.motion.u[:, order]
        plan = da.dmoc(model, steps=n, time=1.0, start={"q": u[0], **rest}, goal={"q": u[-1], **rest}, guess=u)
        assert plan.success
        gaps.append(abs(plan.objective - found.objective))
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(2.0, abs=0.3)
    assert gaps[-1] < 0.01 * moves[80].objective


def test_four_bar_with_a_ball_and_a_spatial_one():
    for s, goal, rows in ((four_bar(), 0.8, 4), (spatial_four_bar(), 0.4, 4)):
        found = optimize(s, steps=40, time=1.0, goal={"crank": goal})
        assert found.success
        assert found.iterations < 20
        assert found.unknowns == 41 * 5 + 40 + 41 * rows
        assert found.motion.constraint_violation().max() < 1e-12
        assert found.motion["crank"][-1] == pytest.approx(goal, abs=1e-9)
        assert found.replay_error < 0.01


def test_four_bar_turns_all_around_with_renewed_charts():
    found = optimize(four_bar(), steps=40, time=2.0, goal={"crank": 2 * np.pi}, charts="renewed")
    assert found.success
    assert found.motion.constraint_violation().max() < 1e-9
    fixed = optimize(four_bar(), steps=40, time=2.0, goal={"crank": 2 * np.pi}, max_iterations=3)
    assert not fixed.success
    assert "charts='renewed'" in fixed.message


def test_ends_that_move_along_the_closures_and_free_final_time():
    s = four_bar()
    v = np.zeros(5)
    v[0] = 1.0
    begun = simulate(s, dt=0.01, steps=1, velocity=v).velocity()[0]  # the rates that the closures allow
    rates = np.linalg.lstsq(kernels(s).place_jacobian(np.zeros(5)).full(), begun, rcond=None)[0]
    coast = optimize(s, steps=30, time=(0.2, 2.0), start_velocity=rates, goal={"crank": 0.5}, goal_velocity=None)
    assert coast.success
    assert coast.motion.p[0] == pytest.approx(simulate(s, dt=0.01, steps=1, velocity=v).p[0], abs=1e-9)
    quick = optimize(s, steps=30, time=(0.2, 2.0), goal={"crank": 0.8}, cost=lambda view: 20.0)
    slow = optimize(s, steps=30, time=(0.2, 2.0), goal={"crank": 0.8}, cost=lambda view: 2.0)
    assert quick.motion.t[-1] < slow.motion.t[-1]


def test_a_constraint_of_the_user_closes_a_loop():
    # slider-crank: the end of the rod stays on a line; the same with a slider body of no weight is not needed
    crank, coupler = rod("crank", (0, 0, 0), (0.5, 0, 0)), rod("coupler", (0.5, 0, 0), (1.5, 0, 0))
    s = MultibodySystem(
        [crank, coupler],
        [
            Joint("R", "ground", "crank", axis=Z),
            Joint("R", "crank", "coupler", point=(0.5, 0, 0), axis=Z, actuated=False),
        ],
        constraints=lambda view: view.position("coupler", (0.5, 0, 0))[1],
    )
    found = optimize(s, steps=30, time=1.0, start={"crank": 0.3}, goal={"crank": 1.2})
    assert found.success
    end = found.motion.position("coupler", (0.5, 0, 0))
    assert np.abs(end[:, 1]).max() < 1e-12
    phi = found.motion["crank"]
    assert end[:, 0] == pytest.approx(0.5 * np.cos(phi) + np.sqrt(1 - 0.25 * np.sin(phi) ** 2), abs=1e-12)
    geared = MultibodySystem(
        s.bodies, s.joints, constraints=lambda view: [view["coupler"] + 2 * view["crank"]]
    )  # a gear between two joints
    turned = simulate(geared, dt=0.01, steps=400, u=assemble(geared, {"crank": 0.0}), velocity=[4.0, -8.0])
    assert turned["crank"][-1] > 2 * np.pi
    assert np.abs(turned["coupler"] + 2 * turned["crank"]).max() < 1e-11


def test_path_conditions_on_a_closed_loop(moves):
    tip = (np.hypot(0.9, 0.7) / 2, 0, 0)

    def speeds(motion):
        return np.diff(motion.position("l2", tip)[:, 0]) / motion.t[1]

    limit = 0.9 * speeds(moves[20].motion).min()
    found = optimize(five_bar(), steps=20, path=lambda view: [(limit, view.velocity("l2", tip)[0], np.inf)], **MOVE)
    assert found.success
    assert speeds(found.motion).min() > limit - 1e-7
    assert found.objective > moves[20].objective
