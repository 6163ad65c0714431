"""DMOC: values, orders, momentum, constraints, kinematic variables, time, periods, failures."""

from __future__ import annotations

import math
import pickle

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ModelError

ROD = {"mass": 1.0, "inertia": (0.0, 0.0, 1 / 12)}
DOWN, UP = {"q": [-math.pi / 2, 0.0], "v": [0.0, 0.0]}, {"q": [math.pi / 2, 0.0], "v": [0.0, 0.0]}


def two_link():
    """Two uniform rods; a is the first angle from the horizontal, b the second relative to the first."""
    second = da.tx(1.0, da.rz("b", da.tx(0.5, name="second", **ROD)), name="elbow")
    return da.Model(
        [da.rz("a", da.tx(0.5, name="first", **ROD), second)],
        [da.Gravity((0, -9.81, 0)), da.ConfigForce("a", "base"), da.ConfigForce("b", "elbow_torque")],
    )


def swing_up(steps, **options):
    return da.dmoc(two_link(), start=DOWN, goal=UP, steps=steps, time=1.0, **options)


@pytest.fixture(scope="module")
def reference():
    plan = swing_up(512)
    assert plan.status == "solved"
    return plan


def slider(mass=2.0, *more):
    return da.Model([da.tx("x", mass=mass)], [da.ConfigForce("x", "push"), *more])


# ---- the two-link pendulum of paper 004 ------------------------------------------------------------------------------


def test_swing_up_objective(reference):
    assert reference.objective == pytest.approx(80.38056, abs=1e-5)
    assert reference.violation < 1e-10
    np.testing.assert_allclose(reference.q[[0, -1]], [DOWN["q"], UP["q"]], atol=1e-12)
    np.testing.assert_allclose(reference.p[[0, -1]], 0, atol=1e-12)
    # midpoint rule of 1/2 |u|^2
    assert reference.objective == pytest.approx(np.sum(reference.u**2) / 2 / 512, rel=1e-12)


def test_swing_up_by_fatrop(reference):
    plan = swing_up(128, solver="fatrop")
    same = swing_up(128, guess=plan)
    assert (plan.status, same.status) == ("solved", "solved")
    assert plan.objective == pytest.approx(same.objective, rel=1e-8)
    np.testing.assert_allclose(plan.q, same.q, atol=1e-6)
    np.testing.assert_allclose(plan.u, same.u, atol=1e-4)


def test_the_integrator_repeats_the_plan(reference):
    vi = reference.integrator()
    motion = vi.simulate(vi.state(q=reference.q[0], p=reference.p[0]), steps=512, u=reference.u)
    np.testing.assert_allclose(motion.q, reference.q, atol=1e-8)
    np.testing.assert_allclose(motion.p, reference.p, atol=1e-8)


@pytest.mark.parametrize("method", ["dmoc", "hamiltonian", "velocity"])
def test_order_two(reference, method):
    best = reference if method == "dmoc" else swing_up(512, method=method, guess=reference)
    assert best.status == "solved"
    meshes = [16, 32, 64]
    errors = []
    for n in meshes:
        plan = swing_up(n, method=method, guess=best)
        assert plan.status == "solved"
        middles = (plan.t[1:] + plan.t[:-1]) / 2
        inner = (best.t[1:] + best.t[:-1]) / 2
        u = np.stack([np.interp(middles, inner, c) for c in best.u.T], axis=1)
        errors.append(
            [
                np.abs(plan.q - best.q[:: 512 // n]).max(),
                np.abs(plan.u - u).max(),
                abs(plan.objective - best.objective),
            ]
        )
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders[-1], 2.0, atol=0.2)


def test_hamiltonian_collocation_is_dmoc(reference):
    one, two = swing_up(64, guess=reference), swing_up(64, guess=reference, method="hamiltonian")
    np.testing.assert_allclose(one.q, two.q, atol=1e-9)
    np.testing.assert_allclose(one.u, two.u, atol=1e-7)


def momentum_defect(plan):
    """Change of the angular momentum about the base minus the impulses of base torque and gravity (midpoint rule)."""
    model = plan.model
    s = da.Symbolic(model)
    gravity = ca.Function("g", [s.q], [-ca.gradient(s.potential_energy(), s.q)[0]])
    h = np.diff(plan.t)
    middle = (plan.q[1:] + plan.q[:-1]) / 2
    torque = np.array([float(gravity(q)) for q in middle]) + plan.u[:, 0]
    # p of the first angle is the total angular momentum about the base
    return np.abs(np.diff(plan.p[:, 0]) - h * torque).max()


def test_momentum_consistency(reference):
    assert momentum_defect(swing_up(64, guess=reference)) < 1e-9
    assert momentum_defect(swing_up(64, guess=reference, method="hamiltonian")) < 1e-9
    assert momentum_defect(swing_up(64, guess=reference, method="velocity")) > 1e-4


def test_refinement_is_quick(reference):
    coarse = swing_up(64, guess=reference)
    fine = swing_up(256, guess=coarse)
    assert fine.status == "solved"
    assert fine.iterations <= 6


def test_plans_are_values(reference):
    again = pickle.loads(pickle.dumps(reference))
    assert again.objective == reference.objective
    assert again.model == reference.model
    motion = again.trajectory
    assert motion.energy()[0] == pytest.approx(-2 * 9.81)
    np.testing.assert_allclose(motion["a"], reference.q[:, 0])


def test_left_forcing_matches_its_integrator():
    plan = da.dmoc(slider(), start={"q": [0], "v": [0]}, goal={"q": [1], "v": [0]}, steps=8, time=1, forcing="left")
    vi = da.MidpointVI(plan.model, 1 / 8, forcing="left")
    motion = vi.simulate(vi.state(q=[0.0]), steps=8, u=plan.u)
    np.testing.assert_allclose(motion.q, plan.q, atol=1e-10)


# ---- closed forms ---------------------------------------------------------------------------------------------------


def test_minimum_effort_transfer():
    """Rest to rest in time T: u = 6 m d / T^2 (1 - 2 t/T), J = 6 m^2 d^2 / T^3 (continuous)."""
    plan = da.dmoc(slider(), start={"q": [0], "v": [0]}, goal={"q": [1.0], "v": [0]}, steps=400, time=2.0)
    assert plan.objective == pytest.approx(6 * 4 / 8, rel=1e-4)
    middles = (plan.t[1:] + plan.t[:-1]) / 2
    np.testing.assert_allclose(plan.u[:, 0], 3.0 * (1 - middles), atol=1e-3)


def test_bounded_time_optimal():
    """Bang-bang: T = 2 sqrt(m d / u_max)."""
    plan = da.dmoc(
        slider(),
        start={"q": [0], "v": [0]},
        goal={"q": [1], "v": [0]},
        steps=40,
        free_time=(0.1, 10),
        time=2.0,
        cost=lambda m: 1.0,
        bounds={"push": (-8.0, 8.0)},
    )
    assert plan.status == "solved"
    assert plan.time == pytest.approx(1.0, rel=2e-3)
    assert plan.objective == pytest.approx(plan.time)
    np.testing.assert_allclose(np.abs(plan.u[[0, 5, -5, -1], 0]), 8.0, rtol=1e-3)
    staged = da.dmoc(
        slider(),
        start={"q": [0], "v": [0]},
        goal={"q": [1], "v": [0]},
        steps=40,
        free_time=(0.1, 10),
        time=2.0,
        cost=lambda m: 1.0,
        bounds={"push": (-8.0, 8.0)},
        solver="fatrop",
    )
    assert staged.time == pytest.approx(plan.time, rel=1e-4)


def test_costs_may_depend_on_time():
    """Minimize 1/2 (u - sin t)^2: u follows."""
    plan = da.dmoc(
        slider(), start={"q": [0], "v": [0]}, steps=20, time=2.0, cost=lambda m: (m.input("push") - ca.sin(m.time)) ** 2
    )
    middles = (plan.t[1:] + plan.t[:-1]) / 2
    np.testing.assert_allclose(plan.u[:, 0], np.sin(middles), atol=1e-6)


def test_path_conditions():
    wall = lambda m: [(-math.inf, m["x"], 0.6), (-0.8, m.velocity("x"), 0.8)]  # noqa: E731
    plan = da.dmoc(
        slider(1.0), start={"q": [0], "v": [0.0]}, goal={"q": [0.6], "v": [0]}, steps=30, time=1.0, path=wall
    )
    assert plan.success
    assert plan.q.max() <= 0.6 + 1e-7
    assert (np.diff(plan.q[:, 0]) * 30).max() <= 0.8 + 1e-7
    assert (np.diff(plan.q[:, 0]) * 30).max() > 0.8 - 1e-5


def test_final_cost_and_frame_conditions():
    model = two_link()
    plan = da.dmoc(
        model,
        start=DOWN,
        goal={"where": lambda m: [(1.0, m.position("second")[0], 1.0), (0.2, m.position("second")[1], 0.2)]},
        steps=20,
        time=1.0,
        effort={"base": 1.0, "elbow_torque": 1.0},
        final=lambda m: -0.5 * m.momentum("a"),
    )
    assert plan.success
    np.testing.assert_allclose(da.pose(model, plan.q[-1], "second")[:2, 3], [1.0, 0.2], atol=1e-8)
    free = da.dmoc(model, start=DOWN, goal={"q": plan.q[-1]}, steps=20, time=1.0, guess=plan)
    assert plan.p[-1, 0] > free.p[-1, 0]


def test_partial_velocities():
    model = two_link()
    plan = da.dmoc(model, start=DOWN, goal={"q": {"a": 0.0}, "v": {"b": 1.5}}, steps=40, time=1.0)
    assert plan.success
    v = np.linalg.solve(da.mass_matrix(model, plan.q[-1]), plan.p[-1])
    assert v[1] == pytest.approx(1.5, abs=1e-8)
    assert plan.q[-1, 0] == pytest.approx(0.0, abs=1e-12)
    again = da.dmoc(model, start={"q": DOWN["q"], "v": {"a": 0.3}}, goal=UP, steps=40, time=1.0, guess=swing_up(128))
    v = np.linalg.solve(da.mass_matrix(model, again.q[0]), again.p[0])
    assert v[0] == pytest.approx(0.3, abs=1e-8)


# ---- kinematic variables, periods, constraints -----------------------------------------------------------------------


def test_kinematic_variables_are_decided():
    """A crane: the cart is prescribed, the load swings; rest to rest without residual swing."""
    crane = da.Model(
        [da.tx(da.Kinematic("cart"), da.rz("swing", da.ty(-1.0, name="load", mass=1.0)))], [da.Gravity((0, -9.81, 0))]
    )
    plan = da.dmoc(
        crane,
        start={"q": {"swing": 0.0, "cart": 0.0}, "v": [0.0, 0.0]},
        goal={"q": {"swing": 0.0, "cart": 1.0}, "v": [0.0, 0.0]},
        steps=60,
        time=2.0,
        effort={"cart": 1.0},
    )
    assert plan.success
    vi = plan.integrator()
    motion = vi.simulate(vi.state(q=plan.q[0], p=plan.p[0]), steps=60, kinematic=plan.q[1:, 1:])
    np.testing.assert_allclose(motion.q, plan.q, atol=1e-9)
    held = da.dmoc(
        crane,
        start={"q": {"swing": 0.3}, "v": [0.0]},
        steps=10,
        time=0.5,
        effort={"cart": 1.0},
        bounds={"cart": (np.zeros(11), np.zeros(11))},
    )
    np.testing.assert_allclose(held.q[:, 1], 0, atol=1e-12)


def test_periodic_motion():
    """A driven pendulum that returns to its state, at the least effort while it reaches 1 rad."""
    model = da.Model(
        [da.rz("a", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.81, 0)), da.ConfigForce("a", "u"), da.Damping(0.2)]
    )
    plan = da.dmoc(model, start={"q": {"a": 1.0}}, steps=50, time=2.0, periodic=True)
    assert plan.success
    np.testing.assert_allclose(plan.q[0], plan.q[-1], atol=1e-9)
    np.testing.assert_allclose(plan.p[0], plan.p[-1], atol=1e-9)
    # a wheel that turns once per period
    turn = da.dmoc(model, start={"q": {"a": 0.0}}, steps=50, time=2.0, periodic={"a": 2 * math.pi})
    assert turn.success
    assert turn.q[-1, 0] - turn.q[0, 0] == pytest.approx(2 * math.pi)
    np.testing.assert_allclose(turn.p[0], turn.p[-1], atol=1e-9)


def four_bar():
    """A closed chain of three moving links between two fixed hinges, driven at the first."""
    rod = {"mass": 1.0, "inertia": (0, 0, 1 / 12)}
    chain = da.rz("c", da.tx(0.5, **rod), da.tx(1.0, name="end"))
    chain = da.rz("b", da.tx(0.5, **rod), da.tx(1.0, chain))
    chain = da.rz("a", da.tx(0.5, **rod), da.tx(1.0, chain))
    return da.Model(
        [chain, da.tx(1.2, name="anchor")],
        [da.Gravity((0, -9.81, 0)), da.PointToPoint("end", "anchor", "xy"), da.ConfigForce("a", "drive")],
    )


def closed(model, a):
    return da.satisfy_constraints(model, [a, -1.2, -1.2], fixed=("a",))


def test_constrained_model():
    model = four_bar()
    q0, q1 = closed(model, 1.2), closed(model, 1.9)
    plan = da.dmoc(model, start={"q": q0, "v": [0, 0, 0]}, goal={"q": q1, "v": [0, 0, 0]}, steps=40, time=1.0)
    assert plan.status == "solved"
    assert max(np.abs(da.constraints(model, q)).max() for q in plan.q) < 1e-8
    vi = plan.integrator()
    motion = vi.simulate(vi.state(q=plan.q[0], p=plan.p[0]), steps=40, u=plan.u)
    np.testing.assert_allclose(motion.q, plan.q, atol=1e-7)
    np.testing.assert_allclose(motion.lam, plan.lam, atol=1e-4)
    # at rest at the end: the momentum has no component along the constraint manifold
    jacobian = da.constraint_jacobian(model, plan.q[-1])[:, : model.nd]
    null = np.linalg.svd(jacobian)[2][model.nc :]
    np.testing.assert_allclose(null @ plan.p[-1], 0, atol=1e-8)
    # the same conditions by the name of one variable
    same = da.dmoc(
        model, start={"q": q0, "v": [0, 0, 0]}, goal={"q": {"a": 1.9}, "v": {"a": 0.0}}, steps=40, time=1.0, guess=plan
    )
    assert same.objective == pytest.approx(plan.objective, rel=1e-6)
    staged = da.dmoc(
        model,
        start={"q": q0, "v": [0, 0, 0]},
        goal={"q": q1, "v": [0, 0, 0]},
        steps=40,
        time=1.0,
        solver="fatrop",
        guess=plan,
    )
    assert staged.objective == pytest.approx(plan.objective, rel=1e-6)


def test_feedback_around_a_constrained_plan():
    model = four_bar()
    q0, q1 = closed(model, 1.2), closed(model, 1.9)
    plan = da.dmoc(model, start={"q": q0, "v": [0, 0, 0]}, goal={"q": q1, "v": [0, 0, 0]}, steps=50, time=1.0)
    regulator = plan.feedback(Q=np.diag([100.0] * 3 + [1.0] * 3), R=np.eye(1) * 1e-3, reduced=True)
    vi = plan.integrator()
    push = vi.state(q=closed(model, 1.25))
    free = vi.simulate(push, steps=50, u=plan.u)
    held = vi.simulate(push, steps=50, u=regulator)
    assert abs(held["a"][-1] - 1.9) < 0.1 * abs(free["a"][-1] - 1.9)
    assert abs(held["a"][-1] - 1.9) < 5e-3


def test_constraints_with_kinematic_variables():
    """A load on a string: the winch and the trolley are decided so that it rises and moves aside without swinging."""
    load = da.tx("x", da.tz("z", name="load", mass=1.0))
    trolley = da.tx(da.Kinematic("trolley"), name="trolley")
    model = da.Model(
        [load, trolley], [da.Gravity((0, 0, -9.81)), da.Distance("trolley", "load", da.Kinematic("string"))]
    )
    start = {"q": {"x": 0.0, "z": -1.0, "trolley": 0.0, "string": 1.0}, "v": [0.0, 0.0]}
    goal = {"q": {"x": 0.5, "z": -0.6, "trolley": 0.5, "string": 0.6}, "v": [0.0, 0.0]}
    plans = [
        da.dmoc(
            model, start=start, goal=goal, steps=40, time=2.0, effort={"trolley": 1.0, "string": 1.0}, solver=solver
        )
        for solver in ("ipopt", "fatrop")
    ]
    assert all(p.success for p in plans)
    assert plans[0].objective == pytest.approx(plans[1].objective, rel=1e-6)
    plan = plans[0]
    vi = plan.integrator()
    motion = vi.simulate(vi.state(q=plan.q[0], p=plan.p[0]), steps=40, kinematic=plan.q[1:, 2:])
    np.testing.assert_allclose(motion.q, plan.q, atol=1e-8)
    np.testing.assert_allclose(motion.lam, plan.lam, atol=1e-6)
    # a simulated motion is a guess like any other
    assert da.dmoc(
        model, start=start, goal=goal, steps=40, time=2.0, effort={"trolley": 1.0, "string": 1.0}, guess=motion
    ).objective == pytest.approx(plan.objective, rel=1e-6)


def test_periodic_constrained_motion():
    model = four_bar()
    q0 = closed(model, 1.4)
    plan = da.dmoc(
        model,
        start={"q": {"a": 1.4}},
        steps=40,
        time=1.0,
        periodic=True,
        bounds={"drive": (-60, 60)},
        path=lambda m: [(1.0, m["a"], 1.8)],
        guess=np.tile(q0, (41, 1)),
    )
    assert plan.success
    np.testing.assert_allclose(plan.q[0], plan.q[-1], atol=1e-8)
    assert np.abs(da.constraints(model, plan.q[0])).max() < 1e-8


# ---- failures -------------------------------------------------------------------------------------------------------


def test_contradictory_bounds():
    plan = da.dmoc(slider(), start={"q": [0], "v": [0]}, goal={"q": [1]}, steps=5, time=1, bounds={"x": (-1, 0.5)})
    assert plan.status == "infeasible"
    assert not plan.success
    assert "'x'" in plan.message
    assert plan.q.shape == (6, 1)
    crossed = da.dmoc(slider(), steps=5, time=1, bounds={"push": (1.0, -1.0)})
    assert "'push'" in crossed.message


def test_infeasible_boundary_conditions():
    """Too far for the bounded force: the last iterate is kept and the message says where it fails."""
    plan = da.dmoc(
        slider(), start={"q": [0], "v": [0]}, goal={"q": [100], "v": [0]}, steps=10, time=1, bounds={"push": (-1, 1)}
    )
    assert plan.status == "infeasible"
    assert "equation of motion" in plan.message
    assert np.all(np.isfinite(plan.q))
    assert plan.violation > 1e-3
    staged = da.dmoc(
        slider(),
        start={"q": [0], "v": [0]},
        goal={"q": [100], "v": [0]},
        steps=10,
        time=1,
        bounds={"push": (-1, 1)},
        solver="fatrop",
    )
    assert not staged.success
    assert staged.violation > 1e-3
    assert "violation" in staged.message
    model = four_bar()
    open_chain = da.dmoc(model, start={"q": [1.2, 0.0, 0.0], "v": [0, 0, 0]}, steps=5, time=1)
    assert open_chain.status == "infeasible"
    assert "violates" in open_chain.message
    assert "PointToPoint" in open_chain.message


def test_a_mesh_that_is_too_coarse_is_told():
    plan = swing_up(4)
    assert "rad in one step" in plan.message
    assert "rad in one step" not in swing_up(128).message


def test_iteration_limit_keeps_the_iterate(reference):
    plan = swing_up(64, options={"ipopt.max_iter": 3})
    assert plan.status == "iteration_limit"
    assert plan.iterations == 3
    assert np.all(np.isfinite(plan.q))
    assert np.any(plan.u)
    rest = swing_up(64, guess=reference)
    assert rest.success


def test_not_finite_cost():
    cost = lambda m: ca.log(m["x"] - 5) + m.input("push") ** 2  # noqa: E731
    plan = da.dmoc(slider(), start={"q": [0], "v": [0]}, steps=5, time=1, cost=cost)
    assert plan.status == "failed"
    assert np.all(np.isfinite(plan.q))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"steps": 0}, ValueError, "steps"),
        ({"time": -1.0}, ValueError, "time"),
        ({"method": "shooting"}, ValueError, "method"),
        ({"solver": "snopt"}, ValueError, "solver"),
        ({"forcing": "right"}, ValueError, "forcing"),
        ({"alpha": 2.0}, ValueError, "alpha"),
        ({"free_time": (2, 1)}, ValueError, "free_time"),
        ({"start": {"q": [0, 0, 0]}}, ValueError, "start q"),
        ({"start": {"q": [np.nan, 0]}}, ValueError, "finite"),
        ({"start": {"q": {"c": 1}}}, ModelError, "'c'"),
        ({"start": {"speed": 1}}, ValueError, "speed"),
        ({"start": {"v": [0, 0], "p": [0, 0]}}, ValueError, "not both"),
        ({"bounds": {"zz": (0, 1)}}, ModelError, "zz"),
        ({"bounds": {"a": (0, np.nan)}}, ValueError, "NaN"),
        ({"bounds": {"a": (np.zeros(3), 1)}}, ValueError, "shape"),
        ({"effort": {"zz": 1.0}}, ModelError, "zz"),
        ({"effort": -1.0}, ValueError, "weight"),
        ({"cost": lambda m: m["zz"]}, ModelError, "zz"),
        ({"cost": lambda m: ca.SX.sym("alien")}, ModelError, "alien"),
        ({"final": lambda m: m.velocity("a")}, ModelError, "configuration only"),
        ({"path": lambda m: m["a"]}, ValueError, "low, expression, high"),
        ({"periodic": True, "solver": "fatrop"}, ValueError, "fatrop"),
        ({"guess": np.zeros((3, 7))}, ValueError, "guess"),
    ],
)
def test_wrong_arguments(options, error, text):
    given = {"steps": 4, "time": 1.0} | options
    with pytest.raises(error, match=text):
        da.dmoc(two_link(), **given)


def test_collocation_says_what_it_cannot():
    with pytest.raises(ModelError, match="constraints"):
        da.dmoc(four_bar(), steps=4, time=1.0, method="hamiltonian")


# ---- replay and refinement


def acrobot():
    """Two links with a motor at the elbow only."""
    second = da.tx(1.0, da.rz("b", da.tx(0.5, name="second", **ROD)))
    frames = [da.rz("a", da.tx(0.5, name="first", **ROD), second)]
    return da.Model(frames, [da.Gravity((0, -9.81, 0)), da.ConfigForce("b", "elbow")])


def test_every_plan_is_replayed_and_says_so(reference):
    assert reference.replay_error < 0.01
    assert reference.defect < 0.01
    assert "replayed with 8 times as many steps: error" in reference.message
    with pytest.warns(da.AccuracyWarning, match="not a motion"):
        coarse = swing_up(16)
    assert coarse.success
    assert coarse.replay_error > 0.03
    assert "refine='auto'" in coarse.message
    errors = []
    for steps in (64, 128, 256):
        plan = swing_up(steps, guess=reference)
        errors.append([plan.replay_error, plan.defect])
        off = plan.replay(8).q[::8] - plan.q
        assert 0 < np.abs(off).max() < 0.2
    assert np.log2(np.divide(errors[1], errors[2])) == pytest.approx(2.0, abs=0.2)
    failed = swing_up(16, options={"ipopt.max_iter": 1})
    assert failed.replay_error is None
    assert failed.defect is None


def test_replay_follows_constraints_and_kinematic_variables():
    winch = da.Model(
        [da.tx("x", da.tz("z", name="load", mass=1.0)), da.tz(2.0, name="hook")],
        [da.Gravity(), da.Distance("hook", "load", da.Kinematic("string"))],
    )
    ends = {"start": {"q": [0, 0.5, 1.5], "v": [0, 0, 0]}, "goal": {"q": [0, 1.0, 1.0], "v": [0, 0, 0]}}
    plan = da.dmoc(winch, steps=40, time=1.0, effort={"string": 1.0}, **ends)
    assert plan.success
    assert plan.replay_error < 0.03
    again = plan.replay(4)
    assert again.q.shape == (161, 3)
    assert np.abs(again.q[::4, 2] - plan.q[:, 2]).max() < 1e-12
    assert again.constraint_violation().max() < 1e-9


def test_turn_per_step_is_limited():
    ends = {"start": {"q": [0.0], "v": [0.0]}, "goal": {"q": [3.0], "v": [0.0]}, "steps": 10, "time": 1.0}
    disk = da.Model([da.rz("disk", inertia=(1, 1, 2), mass=1.0)], [da.ConfigForce("disk", "torque")])
    for solver in ("ipopt", "fatrop"):
        plan = da.dmoc(disk, turn=0.35, solver=solver, **ends)
        assert plan.success
        assert np.abs(np.diff(plan.q[:, 0])).max() < 0.35 + 1e-6
    assert np.abs(np.diff(da.dmoc(disk, **ends).q[:, 0])).max() > 0.4
    with pytest.raises(ValueError, match="turn must be"):
        da.dmoc(disk, turn=-1.0, **ends)
    with pytest.raises(ValueError, match="refine must be"):
        da.dmoc(disk, refine="yes", **ends)


def test_acrobot_is_refined_until_its_plan_is_a_motion():
    problem = {"start": DOWN, "goal": UP, "time": 3.0, "effort": 1.0}
    plan = da.dmoc(acrobot(), steps=30, refine="auto", **problem)
    assert plan.success
    assert max(plan.replay_error, plan.defect) <= 0.03
    assert np.abs(np.diff(plan.q, axis=0)).max() < 0.6
    sizes = [row[0] for row in plan.refinements]
    assert sizes == [30 * 2**k for k in range(len(sizes))]
    assert len(plan.u) == sizes[-1]


BAR = {"mass": 1.0, "inertia": (0.02, 0.03, 0.04)}


def triangle() -> da.Model:
    """Three rods whose end comes back to the root of the first: a loop that closes where it begins."""
    rod = {"mass": 1.0, "inertia": (0.01, 0.02, 0.02)}
    third = da.tx(1.0, da.ry("c", da.tx(0.5, **rod), da.tx(1.0, name="tip")))
    rods = da.ry("a", da.tx(0.5, **rod), da.tx(1.0, da.ry("b", da.tx(0.5, **rod), third)))
    closure = da.PointToPoint("tip", "world", "xz")
    return da.Model([rods], [da.Gravity((0, 0, -9.81)), closure, da.ConfigForce("a", "drive")])


def test_a_search_that_gets_lost_is_repeated_with_a_limited_turn():
    """With a free initial velocity the first steps of the search are huge."""
    third = 2 * np.pi / 3
    ends = {"start": {"q": {"a": 0.2, "b": third, "c": third}}, "goal": {"q": {"a": 1.2}}, "steps": 20, "time": 1.0}
    plan = da.dmoc(triangle(), **ends)
    assert plan.success
    assert plan.replay_error < 0.01
    assert np.abs(np.diff(plan.q, axis=0)).max() < 1.0
    assert plan.objective == pytest.approx(da.dmoc(triangle(), turn=1.0, **ends).objective, rel=1e-6)


def test_defect_where_kinematic_variables_have_kinks():
    """A slider that is prescribed starts with a jolt: finer steps follow the same lines, and the defect falls with the square of the step."""
    joints = da.tx(0.3, da.ry("h", da.tz(-0.4, **BAR)))
    cart = da.tx(da.Kinematic("x"), da.ball("b", da.tz(-0.5, **BAR)), joints)
    model = da.Model([cart], [da.Gravity((0, 0, -9.81)), da.ConfigForce("h", "torque")])
    ends = {
        "start": {"q": da.MidpointVI(model, 0.01).state().q, "v": np.zeros(model.nv)},
        "goal": {"q": {"h": 0.5, "x": 0.4}},
        "time": 1.0,
        "effort": {"torque": 1.0, "x": 1.0},
    }
    coarse, fine = (da.dmoc(model, steps=n, **ends) for n in (20, 40))
    assert coarse.defect < 0.01
    assert coarse.defect / fine.defect == pytest.approx(4.0, rel=0.2)


def test_a_plan_that_rests():
    weight = da.Model([da.tz("z", mass=2.0)], [da.Gravity((0, 0, -9.81)), da.ConfigForce("z", "lift")])
    rest = {"z": 0.3}
    plan = da.dmoc(weight, start={"q": rest, "v": [0]}, goal={"q": rest, "v": [0]}, steps=10, time=1.0)
    assert plan.success
    assert (plan.replay_error, plan.defect) == (0.0, 0.0)


def test_a_variable_may_be_called_q():
    for name in ("q", "x"):
        slider = da.Model([da.tx(name, mass=2.0)], [da.ConfigForce(name, "push")])
        for start in ({"q": [0.5]}, {name: 0.5}):
            plan = da.dmoc(slider, start=start, goal={"q": [1.5], "v": [0]}, steps=10, time=1.0)
            assert plan.q[0, 0] == pytest.approx(0.5)


def test_a_singular_mass_matrix_makes_no_motion():
    bar = da.rx("a", da.rx("b", da.tz(-0.5, **BAR)))
    model = da.Model([bar], [da.ConfigForce("a", "first"), da.ConfigForce("b", "second")])
    with pytest.warns(da.AccuracyWarning, match="not a motion"):
        plan = da.dmoc(model, start={"q": [0, 0]}, goal={"q": [0.5, 0.7]}, steps=10, time=1.0)
    assert plan.replay_error == plan.defect == np.inf
