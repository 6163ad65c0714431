"""Ordinary mechanisms from a straight line: thin links, many meshes, random goals; limits, paths, meshes refined.

The full table, printed: pytest -m slow -s tests/direct/test_dmocc_robust.py
"""

import warnings

import numpy as np
import pytest

from dalembert import AccuracyWarning
from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, optimize, simulate

from .mechanisms import REACH, random_goals, thin_arm

FORMS = ("minimal", "momentum")
SPIN = 0.02  # N m s per rad/s: about 4 % of the effort


def reach(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return optimize(thin_arm(), **{"goal": REACH, "spin_cost": SPIN, "max_iterations": 300} | options)


@pytest.mark.parametrize(
    ("time", "steps", "form"), [(0.6, 20, "minimal"), (1.0, 40, "momentum"), (2.0, 20, "momentum")]
)
def test_thin_arm_solves_from_a_straight_line(time, steps, form):
    found = reach(time=time, steps=steps, form=form)
    assert found.success
    assert found.iterations < 100
    assert found.motion.u[-1] == pytest.approx(list(REACH.values()), abs=1e-8)
    assert found.motion.p[[0, -1]] == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("goal", random_goals()[:2])
def test_thin_arm_solves_for_random_goals(goal):
    assert reach(time=1.0, steps=40, goal=goal).success


@pytest.mark.slow
def test_thin_arm_table():
    """All 18 settings in two forms and 10 goals, every form and chart of one of them."""
    rows = []

    def solve(name, **options):
        found = reach(**options)
        rows.append((name, found))
        d = found.motion.q.reshape(len(found.motion.q), -1, 12)[:, :, 3:]
        turn = np.arccos(np.clip(0.5 * ((d[1:] * d[:-1]).sum(axis=2) - 1), -1, 1)).max()
        print(
            f"{name:<34} {found.status:<8} {found.iterations:4d} it  cost {found.objective:9.4f}  turn {turn:.3f}  "
            f"replay {found.replay_error:.4f}  defect {found.defect:.4f}"
        )
        return found

    print()
    for time in (0.6, 1.0, 2.0):
        costs = []
        for steps in (20, 40, 80):
            for form in FORMS:
                found = solve(f"T = {time}, N = {steps}, {form}", time=time, steps=steps, form=form)
                costs += [found.objective] if form == "minimal" else []
        assert np.log2((costs[0] - costs[1]) / (costs[1] - costs[2])) == pytest.approx(2.0, abs=0.5)
    for i, goal in enumerate(random_goals()):
        solve(f"goal {i}", time=1.0, steps=40, goal=goal)
    same = [
        solve(str(options), time=1.0, steps=40, **options)
        for options in (
            {"form": "multiplier"},
            {"reparameterization": "relative"},
            {"form": "momentum", "reparameterization": "relative"},
            {"charts": "renewed"},
        )
    ]
    assert all(found.success for _, found in rows)
    assert [f.objective for f in same] == pytest.approx([same[0].objective] * 4, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("refine", "most"), [("auto", 0.03), (0.01, 0.01)])
def test_thin_arm_is_refined_to_motions(refine, most):
    """All 18 settings and 10 goals: the motion of two seconds is unstable without feedback and needs the finest meshes."""
    settings = [{"time": t, "steps": n, "form": f} for t in (0.6, 1.0, 2.0) for n in (20, 40, 80) for f in FORMS]
    settings += [{"time": 1.0, "steps": 40, "goal": goal} for goal in random_goals()]
    found = [reach(refine=refine, **options) for options in settings]
    assert all(plan.success for plan in found)
    assert max(max(plan.replay_error, plan.defect) for plan in found) <= most


def test_turn_per_step_is_limited_in_every_form():
    disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2))], [Joint("R", "ground", "disk")])
    for options in ({}, {"form": "momentum"}, {"form": "multiplier"}, {"reparameterization": "relative"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            tight = optimize(disk, steps=10, time=1.0, goal=[3.0], turn=0.35, **options)
        assert tight.success
        assert np.abs(np.diff(tight.motion["disk"])).max() < 0.35 + 1e-6
        assert "'disk' turns by 0.35 rad in step" in tight.message
    free = optimize(disk, steps=10, time=1.0, goal=[3.0], turn=None)
    assert np.abs(np.diff(free.motion["disk"])).max() > 0.4
    assert tight.objective > free.objective
    assert "turns by" not in free.message


def test_bounds_rates_and_paths_hold_in_every_form():
    task = {"steps": 20, "time": 1.0, "goal": {"a": 1.0, "b": 0.0}}
    rods = [RigidBody(n, 1.0, (0.01, 0.1, 0.1), position=(x, 0, 0)) for n, x in (("one", 0.5), ("two", 1.5))]
    arm = MultibodySystem(
        rods,
        [Joint("R", "ground", "one", name="a"), Joint("R", "one", "two", point=(1, 0, 0), name="b")],
        gravity=(0, -9.81, 0),
    )
    plain = optimize(arm, **task)
    bend = plain.motion["b"].min()
    speed = np.abs(np.diff(plain.motion["a"])).max() / plain.motion.t[1]
    assert bend < -0.05
    costs = []
    for options in ({}, {"form": "momentum"}, {"form": "multiplier"}, {"reparameterization": "relative"}):
        found = optimize(
            arm,
            bounds={"b": (0.5 * bend, 3.0)},
            rate_bounds={"a": (-0.9 * speed, 0.9 * speed)},
            path=lambda view: [(-np.inf, view.position("two", (0.5, 0, 0))[1], 1.9), (-60.0, view.input("a"), 60.0)],
            **task,
            **options,
        )
        assert found.success, found.message
        assert found.motion["b"].min() > 0.5 * bend - 1e-7
        assert np.abs(np.diff(found.motion["a"])).max() / found.motion.t[1] < 0.9 * speed + 1e-6
        assert found.motion.position("two", (0.5, 0, 0))[:, 1].max() < 1.9 + 1e-7
        assert np.abs(found.motion.tau[:, 0]).max() < 60.0 + 1e-6
        costs.append(found.objective)
    assert costs == pytest.approx([costs[0]] * 4, rel=1e-6)
    assert costs[0] > plain.objective


@pytest.mark.filterwarnings("ignore:plan replayed")
def test_conditions_on_the_path_may_be_columns_and_contradictions_are_named():
    rods = [RigidBody(n, 1.0, (0.01, 0.1, 0.1), position=(x, 0, 0)) for n, x in (("one", 0.5), ("two", 1.5))]
    arm = MultibodySystem(
        rods, [Joint("R", "ground", "one", name="a"), Joint("R", "one", "two", point=(1, 0, 0), name="b")]
    )
    task = {"steps": 10, "time": 1.0, "goal": {"a": 1.0, "b": 0.0}}

    def columns(view):
        return [(-1.4, view.position("two"), 1.4), (-np.inf, view.input("a"), 200.0)]

    def rows(view):
        x = view.position("two")
        return [(-1.4, x[k], 1.4) for k in range(3)] + [(-np.inf, view.input("a"), 200.0)]

    found, again = (optimize(arm, path=path, **task) for path in (columns, rows))
    assert found.success
    assert found.motion.position("two")[1:, :2].max() < 1.4 + 1e-7  # 1.5 m at the start, which is given
    assert found.objective == pytest.approx(again.objective, rel=1e-9)
    for path, words in (
        (lambda view: [(2.0, view["a"], 1.0)], "condition 1 of path: nothing is at least 2 and at most 1"),
        (
            lambda view: [(0, view["a"], 1), (np.nan, view["a"], 1.0)],
            "condition 2 of path: low and high must be numbers",
        ),
        (lambda view: [(view["a"], 0.0, 1.0)], "low and high must be numbers"),
        (lambda view: 3.0, "must return a list"),
    ):
        with pytest.raises(ValueError, match=words):
            optimize(arm, path=path, **task)
    apart = optimize(arm, bounds={"a": (-0.1, 0.5)}, **task)
    assert apart.status == "contradictory_bounds"
    assert apart.message == "goal of a is outside of [-0.1, 0.5]"
    assert "start of b" in optimize(arm, bounds={"b": (0.1, 0.5)}, **task).message
    few = optimize(arm, **task | {"steps": 1})
    assert few.status == "overdetermined"
    assert few.iterations == 0


def test_free_time_costs_and_goals_of_the_user_in_every_form():
    disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2), position=(1, 0, 0))], [Joint("R", "ground", "disk")])
    times = []
    for options in ({}, {"form": "momentum"}, {"form": "multiplier"}, {"reparameterization": "relative"}):
        found = optimize(
            disk,
            steps=20,
            time=(0.2, 5.0),
            goal=(lambda view: [view.position("disk")[0]], [0.0], [0.0]),
            cost=lambda view: 10.0 + 0.1 * view["disk"] ** 2 + 0.01 * view.velocity("disk")[0] ** 2,
            final_cost=lambda view: 0.5 * view.position("disk")[1],
            guess=np.linspace(0, 1.5, 21)[:, None],
            **options,
        )
        assert found.success, found.message
        assert found.motion.position("disk")[-1, 0] == pytest.approx(0.0, abs=1e-8)
        times.append([found.motion.t[-1], found.objective])
    assert np.ptp(times, axis=0) == pytest.approx(0.0, abs=1e-4)
    # a torque that turns J = 3 by pi/2 in T costs 6 J^2 (pi/2)^2 / T^3, the time 10 T: T^4 = 3 * 6 * 9 * 2.467 / 10
    assert times[0][0] == pytest.approx((3 * 6 * 9 * (np.pi / 2) ** 2 / 10) ** 0.25, rel=0.02)


def test_a_free_body_turns_beyond_half_a_turn_with_renewed_charts():
    body = MultibodySystem([RigidBody("body", 1.0, (1.0, 2.0, 2.5))], [Joint("free", "ground", "body")])
    turn = 1.5 * np.pi * np.array([0.6, 0.0, 0.8])
    goal = dict(zip(("body.rx", "body.ry", "body.rz"), turn, strict=True))
    goal |= dict.fromkeys(("body.x", "body.y", "body.z"), 0.0)
    found = optimize(body, steps=40, time=3.0, goal=goal, charts="renewed")
    assert found.success
    assert "border" not in found.message
    assert found.motion.u[-1, 3:] == pytest.approx(turn, abs=1e-6)  # followed in time, all the way round
    fixed = optimize(body, steps=40, time=3.0, goal=goal)
    assert found.objective < fixed.objective + 1e-6
    with pytest.raises(ValueError, match="path condition"):
        optimize(body, steps=10, time=3.0, goal=goal, charts="renewed", bounds={"body.rx": (0, 1)})
    with pytest.raises(ValueError, match="parts of a rotation vector"):
        optimize(body, steps=10, time=3.0, goal={"body.rx": 1.0}, charts="renewed")


# ---- replay and refinement


def pendulum():
    rod = RigidBody("rod", 1.0, (0, 1 / 12, 1 / 12), position=(0.5, 0, 0))
    return MultibodySystem([rod], [Joint("R", "ground", "rod")], gravity=(0, -9.81, 0))


SWING = {"time": 1.0, "start": [-np.pi / 2], "goal": [np.pi / 2]}


def test_every_plan_is_replayed_and_says_so():
    with pytest.warns(AccuracyWarning, match="not a motion"):
        coarse = optimize(pendulum(), steps=8, **SWING)
    fine = optimize(pendulum(), steps=64, **SWING)
    assert coarse.success
    assert coarse.replay_error > 0.03
    assert "not a motion of the system" in coarse.message
    assert fine.replay_error < 0.01
    assert fine.defect < 0.01
    assert "replayed with 8 times as many steps: error 0.00" in fine.message
    again = fine.replay(8)
    off = np.abs(again.u[::8] - fine.motion.u).max()
    assert 0 < off < 0.05
    # both are of second order
    finer = optimize(pendulum(), steps=128, **SWING)
    assert np.log2(fine.replay_error / finer.replay_error) == pytest.approx(2.0, abs=0.3)
    assert np.log2(fine.defect / finer.defect) == pytest.approx(2.0, abs=0.3)
    failed = optimize(pendulum(), steps=8, max_iterations=1, **SWING)
    assert failed.replay_error is None
    assert failed.defect is None


def test_meshes_are_refined_until_a_plan_is_a_motion():
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = optimize(pendulum(), steps=8, refine="auto", **SWING)
    assert max(found.replay_error, found.defect) <= 0.03
    sizes = [row[0] for row in found.refinements]
    assert sizes == [8 * 2**k for k in range(len(sizes))]
    assert len(sizes) > 1
    assert found.motion.steps == sizes[-1]
    assert found.refinements[-1][2:] == (found.replay_error, found.defect)
    assert np.diff([row[2] for row in found.refinements]).max() < 0


def test_meshes_are_refined_beyond_three_doublings_while_the_error_falls():
    found = reach(time=2.0, steps=20, refine="auto")
    assert max(found.replay_error, found.defect) <= 0.03
    errors = [row[2] for row in found.refinements]
    assert len(errors) == 5
    assert np.diff(errors).max() < 0
    assert np.log2(errors[-2] / errors[-1]) == pytest.approx(2.0, abs=0.1)
    finer = optimize(pendulum(), steps=8, refine=1e-3, **SWING)
    assert max(finer.replay_error, finer.defect) <= 1e-3
    for wrong in ("yes", 0.0, -1.0, np.nan, np.inf, True):
        with pytest.raises(ValueError, match="refine must be"):
            optimize(pendulum(), steps=8, refine=wrong, **SWING)


def test_directors_stay_orthonormal_over_many_small_steps():
    """A slider on a director that has grown by 1e-14 moved by as much with every increment: steps of 1 ms did not converge."""
    rng = np.random.default_rng(0)
    pushes = np.repeat(rng.normal(size=(100, 5)) * [1.0, 0.05, 0.5, 0.5, 1.0], 50, axis=0)
    motion = simulate(thin_arm(), dt=4e-4, steps=5000, tau=pushes)
    assert motion.constraint_violation().max() < 4e-15


def test_universal_joint_and_screw():
    """In one mechanism; order 2 of replay and defect. A plan that rests is exact."""
    bodies = [
        RigidBody("arm", 1.0, np.diag([0.05, 0.05, 0.01]), (0, 0, -0.3)),
        RigidBody("nut", 0.5, np.diag([0.01, 0.01, 0.02]), (0, 0, -0.6)),
    ]
    joints = [
        Joint("U", "ground", "arm", axis=(1, 0, 0), inplane=(0, 1, 0)),
        Joint("H", "arm", "nut", point=(0, 0, -0.6), axis=(0, 0, 1), pitch=0.05),
    ]
    arm = MultibodySystem(bodies, joints, gravity=(0, 0, -9.81))
    coarse, fine = (optimize(arm, steps=n, time=1.0, goal=[0.5, 0.4, 2.0]) for n in (20, 40))
    assert coarse.success
    assert fine.success
    assert coarse.replay_error / fine.replay_error == pytest.approx(4.0, rel=0.2)
    assert coarse.defect / fine.defect == pytest.approx(4.0, rel=0.2)
    rest = optimize(arm, steps=10, time=1.0)
    assert rest.success
    assert (rest.replay_error, rest.defect) == (0.0, 0.0)
