"""Optimal control of minimal dimension: two-link pendulum, satellite with rotors, pitcher (section 7), failures."""

import casadi as ca
import numpy as np
import pytest

from dalembert import ConfigForce, Gravity, Model, rz, tx
from dalembert.direct.dmocc import (
    Joint,
    MultibodySystem,
    RigidBody,
    from_model,
    optimize,
    problem_size,
    simulate,
)
from dalembert.direct.dmocc.nlp import Program


def two_link():
    rod = {"mass": (1, 0, 1 / 12, 1 / 12)}
    return Model(
        [rz("a", tx(0.5, **rod), tx(1.0, rz("b", tx(0.5, **rod))))],
        [Gravity((0, -9.81, 0)), ConfigForce("a", "shoulder"), ConfigForce("b", "elbow")],
    )


ARM = from_model(two_link())
SWING = {"time": 1.0, "start": [-np.pi / 2, 0.0], "goal": [np.pi / 2, 0.0]}


SIZES, FINEST = (8, 16, 32, 64, 128, 256, 512), 2048


@pytest.fixture(scope="module")
def swing_ups():
    """Solutions of the same local minimum for N = 8 ... 512, warm started from a reference."""
    reference = optimize(ARM, steps=FINEST, coarse=(32, 128, 512), tolerance=1e-10, **SWING)
    return {n: optimize(ARM, steps=n, guess=reference, tolerance=1e-10, **SWING) for n in SIZES} | {FINEST: reference}


def order(errors):
    """Slope of the error over the step for N = 8 ... 512."""
    return -np.polyfit(np.log(SIZES), np.log(errors), 1)[0]


def test_two_link_converges_quadratically(swing_ups):
    best = swing_ups[FINEST]
    assert all(s.success for s in swing_ups.values())
    config = [np.abs(swing_ups[n].motion.u - best.motion.u[:: FINEST // n]).max() for n in SIZES]
    mean = {n: best.motion.tau.reshape(n, FINEST // n, 2).mean(axis=1) for n in SIZES}
    control = [np.abs(swing_ups[n].motion.tau - mean[n]).max() for n in SIZES]
    cost = [abs(swing_ups[n].objective - best.objective) for n in SIZES]
    assert order(config) == pytest.approx(2.0, abs=0.2)
    assert order(control) == pytest.approx(2.0, abs=0.2)
    assert order(cost) == pytest.approx(2.0, abs=0.2)
    assert best.objective == pytest.approx(80.3789, abs=2e-4)
    assert swing_ups[512].iterations <= 5


def test_cold_starts_find_the_same_minimum(swing_ups):
    for n in (32, 128, 512):
        cold = optimize(ARM, steps=n, **SWING)
        assert cold.success
        assert cold.objective == pytest.approx(swing_ups[n].objective, rel=1e-8)
        assert cold.iterations < 60


def test_two_link_approaches_dmoc_quadratically(swing_ups):
    from dalembert.direct import dmoc

    ends = {"start": {"q": SWING["start"], "v": [0, 0]}, "goal": {"q": SWING["goal"], "v": [0, 0]}}
    config, control = [], []
    for n in SIZES:
        plan = dmoc(two_link(), steps=n, time=1.0, guess=swing_ups[n].motion.u, **ends)
        assert plan.success
        config.append(np.abs(plan.q - swing_ups[n].motion.u).max())
        control.append(np.abs(plan.u - swing_ups[n].motion.tau).max())
    assert plan.objective == pytest.approx(80.38056, abs=1e-5)
    assert order(config) == pytest.approx(2.0, abs=0.2)
    assert order(control) == pytest.approx(2.0, abs=0.2)


def test_two_link_angular_momentum_changes_by_applied_and_gravity_torques(swing_ups):
    for n in SIZES:
        motion = swing_ups[n].motion
        assert np.abs(motion.angular_momentum_defect()[:, 2]).max() < 1e-12
        # the same by hand: base torque and gravity about the pivot, eq. (34)
        h = motion.t[1]
        weight = -9.81 * (motion.position("body a") + motion.position("body b"))[:, 0]
        torque = h * motion.tau[:, 0] + 0.5 * h * (weight[1:] + weight[:-1])
        assert np.abs(np.diff(motion.angular_momentum()[:, 2]) - torque).max() < 1e-9


def test_forms_and_reparameterizations_have_the_same_solution(swing_ups):
    guess = swing_ups[16]
    base = guess.objective
    for options in ({"form": "momentum"}, {"form": "multiplier"}, {"reparameterization": "relative"}):
        found = optimize(ARM, steps=16, guess=guess, turn=None, **options, **SWING)
        assert found.success, found.message
        assert found.objective == pytest.approx(base, rel=1e-8)
        assert np.abs(found.motion.u - guess.motion.u).max() < 1e-6
        if "form" in options:
            size = (found.unknowns, found.constraints)
            assert size == problem_size(ARM, 16, form=options["form"])


def test_solution_obeys_the_simulation(swing_ups):
    motion = swing_ups[128].motion
    replay = simulate(ARM, dt=1 / 128, steps=128, u=SWING["start"], tau=motion.tau)
    assert np.abs(replay.q - motion.q).max() < 1e-7
    assert np.abs(replay.p[-1]).max() < 1e-6


def test_moving_ends_and_running_cost():
    disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2), position=(1, 0, 0))], [Joint("R", "ground", "disk")])
    found = optimize(disk, steps=50, time=1.0, start_velocity=[1.0], goal=[1.0], goal_velocity=[1.0])
    assert found.success
    # coasting needs no torque up to the discrete momentum J sin(w h)/h
    assert found.objective < 1e-3
    near = optimize(disk, steps=50, time=1.0, goal=[1.0], cost=lambda v: 1e5 * (v.position("disk")[1] - 0.5) ** 2)
    plain = optimize(disk, steps=50, time=1.0, goal=[1.0])
    off = [np.abs(s.motion.position("disk")[:, 1] - 0.5).mean() for s in (near, plain)]
    assert off[0] < 0.7 * off[1]


# ---- satellite with rotors, section 7.2


def satellite(wheels):
    axes = {"r1": (1, 0, 0), "r2": (0, 1, 0), "r3": (0, 0, 1)}
    bodies, joints = [RigidBody("hub", 60.0, (6.0, 7.0, 8.0))], [Joint("free", "ground", "hub")]
    for name in wheels:
        a = np.array(axes[name])
        bodies.append(RigidBody(name, 10.0, 0.4 + 0.4 * a, position=0.5 * a))
        joints.append(Joint("R", "hub", name, point=0.5 * a, axis=a))
    return MultibodySystem(bodies, joints)


TURN = dict(zip(["hub.rx", "hub.ry", "hub.rz"], np.pi / 14 * np.array([1, 2, 3]), strict=True))


def idle(system):
    return {c: (0.0, 0.0) for c in system.inputs if c.startswith("hub")}


def test_satellite_sizes():
    s = satellite(["r1", "r2", "r3"])
    assert (s.n, s.m, s.nd) == (48, 39, 9)
    assert problem_size(s, 50) == (909, 477)
    # the paper prints 6798 and 4555; its own formula (N-1)(n+m)+4n gives 4455
    assert problem_size(s, 50, form="paper") == (6798, 4455)
    assert problem_size(s, 50, form="multiplier") == (4887, 4455)


def test_satellite_turns_with_zero_angular_momentum_and_two_rotors_cost_more():
    full = satellite(["r1", "r2", "r3"])
    three = optimize(full, steps=50, time=5.0, goal=TURN, input_bounds=idle(full), turn=None)
    assert three.success
    assert (three.unknowns, three.constraints) == (909, 477)
    limited = optimize(full, steps=50, time=5.0, goal=TURN, input_bounds=idle(full))
    assert (limited.unknowns, limited.constraints) == (909, 477 + 50 * 4)  # a turn per step and body
    assert limited.objective == pytest.approx(three.objective, rel=1e-8)
    assert np.abs(three.motion.angular_momentum()).max() < 1e-10
    assert np.abs(three.motion.linear_momentum()).max() < 1e-10
    assert three.motion.u[-1, 3:6] == pytest.approx(list(TURN.values()), abs=1e-9)
    assert np.abs(three.motion.p[[0, -1]]).max() < 1e-9
    # conserved momentum makes six of the final rows redundant: rest of the rotors says all
    rest = optimize(
        full,
        steps=50,
        time=5.0,
        goal=TURN,
        goal_velocity=dict.fromkeys(["r1", "r2", "r3"], 0.0),
        input_bounds=idle(full),
    )
    assert rest.objective == pytest.approx(three.objective, rel=1e-9)
    assert np.abs(rest.motion.p[-1]).max() < 1e-9
    less = satellite(["r2", "r3"])
    keep = [full.coordinates.index(c) for c in less.coordinates]
    two = optimize(less, steps=50, time=5.0, goal=TURN, input_bounds=idle(less), guess=three.motion.u[:, keep])
    assert two.success
    assert np.abs(two.motion.angular_momentum()).max() < 1e-10
    assert two.objective > 1.1 * three.objective


def test_satellite_multiplier_form_agrees():
    full = satellite(["r1", "r2", "r3"])
    args = {"steps": 25, "time": 5.0, "goal": TURN, "input_bounds": idle(full), "turn": None}
    small = optimize(full, **args)
    large = optimize(full, form="multiplier", guess=small, **args)
    assert small.success
    assert large.success
    assert large.objective == pytest.approx(small.objective, rel=1e-7)
    assert (large.unknowns, large.constraints) == problem_size(full, 25, form="multiplier")


# ---- pitcher, section 7.3 (the full study is examples/pitcher.py)


def pitcher():
    return MultibodySystem(
        [
            RigidBody("collarbone", 8.0, (0.03, 0.12, 0.12), position=(0.1, 0, 0)),
            RigidBody("upper arm", 2.1, (0.002, 0.017, 0.017), position=(0.35, 0, 0)),
            RigidBody("forearm", 1.8, (0.001, 0.03, 0.03), position=(0.7, 0, 0)),
        ],
        [
            Joint("R", "ground", "collarbone", name="torso"),
            Joint("S", "collarbone", "upper arm", point=(0.2, 0, 0), name="shoulder"),
            Joint("R", "upper arm", "forearm", point=(0.5, 0, 0), name="elbow"),
        ],
        gravity=(0, 0, -9.81),
    )


HAND = (0.16, 0, 0)
LIMITS = {"torso": 80, "shoulder.rx": 50, "shoulder.ry": 50, "shoulder.rz": 50, "elbow": 25}


def pitch(steps, **more):
    keys = np.array(
        [
            [0, 0, 0, 0, -np.pi / 4],
            [-0.8, -0.5, -0.5, -0.8, -1.5],
            [-0.2, 0.3, -0.6, -0.5, -1.8],
            [0.8, 0.2, -0.2, 0.8, -0.2],
        ]
    )
    guess = np.column_stack([np.interp(np.linspace(0, 3, steps + 1), range(4), c) for c in keys.T])
    inf = np.inf
    return optimize(
        pitcher(),
        steps=steps,
        time=(0.2, 0.8),
        start={"elbow": -np.pi / 4},
        goal=(
            lambda v: ca.vertcat(v.position("forearm", HAND), v["torso"], v["elbow"]),
            [-inf, 0, 0, -inf, -inf],
            [inf] * 5,
        ),
        goal_velocity=None,
        effort=1e-5,
        final_cost=lambda v: -0.6 * v.velocity("forearm", HAND)[1],
        bounds={"torso": (-1.2, 1.2), "shoulder.rx": (-1.6, 1.6), "elbow": (-2.5, -0.05)},
        input_bounds={k: (-v, v) for k, v in LIMITS.items()},
        guess=guess,
        **more,
    )


def test_pitcher_sizes():
    assert problem_size(pitcher(), 35, free_time=True) == (356, 190)
    assert problem_size(pitcher(), 35, form="paper") == (3641, 2422)
    posed = pitch(35, max_iterations=0, turn=None)
    assert (posed.unknowns, posed.constraints) == (356, 190)
    assert posed.status == "iteration_limit"
    assert np.isfinite(posed.motion.q).all()


def test_pitcher_effect_of_torques_on_the_degrees_of_freedom():
    # (63): tau_R1 - n1'tau_S, tau_S - tau_R2 n2, tau_R2
    from dalembert.direct.dmocc import configuration
    from dalembert.direct.dmocc.kernels import dense, kernels

    s, rng = pitcher(), np.random.default_rng(0)
    q = configuration(s, rng.normal(size=5) * 0.5)
    tau = rng.normal(size=5)
    k = kernels(s)
    effect = dense(k.nullspace(q)).T @ dense(k.actuation(q)) @ tau
    n1, n2 = np.array([0, 0, 1.0]), q[12 + 9 : 12 + 12]
    expected = np.concatenate([[tau[0] - n1 @ tau[1:4]], tau[1:4] - tau[4] * n2, [tau[4]]])
    assert np.abs(effect - expected).max() < 1e-13


def test_pitcher_throws():
    rates = dict.fromkeys(LIMITS, (-40.0, 40.0))
    found = pitch(20, rate_bounds=rates, turn=None)
    assert found.success, found.message
    motion = found.motion
    assert found.constraints == 23 * 5 + 20 * 5
    # L3 changes exactly by the torque in the supporting joint
    change = np.diff(motion.angular_momentum()[:, 2])
    assert np.abs(change - motion.t[1] * motion.tau[:, 0]).max() < 1e-10
    # torques reach their bounds, coordinates and hand inside theirs
    used = np.abs(motion.tau) / np.array(list(LIMITS.values()))
    assert used.max() <= 1 + 1e-6
    assert (used > 0.999).mean() > 0.1
    assert motion["elbow"].max() <= -0.05 + 1e-6
    hand = motion.position("forearm", HAND)[-1]
    assert hand[1] > -1e-6
    assert hand[2] > -1e-6
    i = 12 * 2
    speed = motion.velocity()[-1, i : i + 3] + HAND[0] * motion.velocity()[-1, i + 3 : i + 6]
    assert 0.6 * speed[1] > 5.0
    assert 0.2 < motion.t[-1] < 0.8


# ---- failures


def test_infeasible_goal_keeps_the_last_iterate():
    found = optimize(ARM, steps=16, input_bounds={"a": (-1.0, 1.0), "b": (-1.0, 1.0)}, max_iterations=200, **SWING)
    assert not found.success
    assert found.status in ("infeasible", "restoration_failed", "iteration_limit")
    assert found.message
    assert found.violation > 1e-6
    assert found.motion.q.shape == (17, 24)
    assert np.isfinite(found.motion.q).all()
    outside = optimize(ARM, steps=8, bounds={"a": (-2.0, 1.0)}, max_iterations=200, **SWING)
    assert not outside.success
    assert np.isfinite(outside.motion.q).all()


def test_contradictory_bounds_are_named():
    found = optimize(ARM, steps=8, bounds={"b": (1.0, -1.0)}, input_bounds={"a": (2.0, 1.0)}, **SWING)
    assert found.status == "contradictory_bounds"
    assert "b in [1, -1]" in found.message
    assert "input a" in found.message
    assert np.isfinite(found.motion.q).all()
    assert optimize(ARM, steps=8, **{**SWING, "time": (1.0, 0.5)}).status == "contradictory_bounds"
    assert optimize(ARM, steps=8, **{**SWING, "goal": {"a": (1.0, 0.0)}}).status == "contradictory_bounds"


def test_solver_failures_have_a_status():
    few = optimize(ARM, steps=32, max_iterations=2, **SWING)
    assert few.status == "iteration_limit"
    assert few.iterations == 2
    assert np.isfinite(few.motion.q).all()
    nan = optimize(ARM, steps=8, cost=lambda v: ca.log(-(v["a"] ** 2) - 1.0), **SWING)
    assert nan.status == "invalid_number"
    assert np.isfinite(nan.motion.q).all()
    passive = MultibodySystem(ARM.bodies, [Joint("R", "ground", "body a", actuated=False)])
    none = optimize(passive, steps=4, time=1.0, goal={"body a": 1.0})
    assert not none.success


def test_bad_arguments_are_refused():
    for bad in (
        {"form": "dense"},
        {"steps": 0},
        {"time": -1.0},
        {"bounds": {"c": (0, 1)}},
        {"goal": {"c": 0.0}},
        {"start": [0.0]},
        {"guess": np.zeros((3, 2))},
        {"form": "multiplier", "reparameterization": "relative"},
        {"charts": "renewed", "reparameterization": "relative"},
        {"turn": 0.0},
        {"refine": "always"},
        {"path": lambda v: v["a"]},
        {"input_bounds": {"a": 1.0}},
        {"goal": {"a": 1.0}, "goal_velocity": [1.0, 0.0]},
    ):
        with pytest.raises(ValueError):
            optimize(ARM, **{"steps": 8, **SWING, **bad})


def test_program_derivatives_are_exact():
    program = Program()
    program.unknown(np.zeros(5))
    program.row(np.zeros(3), 0.0)
    program.add(lambda z: ca.vertcat(ca.sin(z[0] * z[1]), z[0] ** 2), [[0, 3], [4, 1]], [[0, 1], [1, 2]])
    program.add(lambda z: ca.exp(z[0]) * z[1] + z[2] ** 3, [[1, 2, 3]])
    made = program.functions()
    x, lam = np.linspace(0.1, 0.9, 5), np.array([0.3, -0.5, 0.7])
    X = made["x"]
    full = ca.Function(
        "full",
        [X],
        [
            ca.gradient(made["cost"], X),
            ca.jacobian(made["rows"], X),
            ca.triu(ca.hessian(2 * made["cost"] + ca.dot(ca.DM(lam), made["rows"]), X)[0]),
        ],
    )
    gradient, jacobian, hessian = (a.full() for a in full(x))
    assert np.abs(made["gradient"](x, [])[1].full() - gradient).max() < 1e-14
    assert np.abs(made["jacobian"](x, [])[1].full() - jacobian).max() < 1e-14
    assert np.abs(made["hessian"](x, [], 2.0, lam).full() - hessian).max() < 1e-14
