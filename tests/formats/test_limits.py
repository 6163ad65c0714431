"""Ranges of joints in robot files become limits, which simulations heed and everything else lives with."""

import itertools
import warnings
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pytest

import dalembert as da
from dalembert import formats

INERTIAL = '<inertial><origin xyz="0.2 0 0"/><mass value="1"/><inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>'


def urdf(*joints):
    """A chain of links; each joint is (attributes of <joint>, what is inside)."""
    links = "".join(f'<link name="l{i}">{INERTIAL if i else ""}</link>' for i in range(len(joints) + 1))
    rows = (
        f'<joint name="j{i}" type="{kind}"><parent link="l{i}"/><child link="l{i + 1}"/><axis xyz="0 1 0"/>{inside}</joint>'
        for i, (kind, inside) in enumerate(joints)
    )
    return f'<robot name="r">{links}{"".join(rows)}</robot>'


def limit(low, high):
    return f'<limit lower="{low}" upper="{high}" effort="1e6" velocity="1e6"/>'


def found(model):
    return [(e.variable, e.low, e.high, e.restitution) for e in model.elements if isinstance(e, da.Limit)]


def test_ranges_of_urdf():
    text = urdf(
        ("revolute", limit(-1, 2)), ("prismatic", limit(0, 0.5)), ("continuous", limit(-1, 1)), ("revolute", ""),
        ("revolute", limit(-1e6, 1)), ("revolute", limit(-1e9, 1e9)), ("revolute", '<limit effort="1e6" velocity="1e6"/>'),
    )  # fmt: skip
    model = formats.loads(text, "urdf", strict=True)
    assert found(model) == [("j0", -1.0, 2.0, 0.0), ("j1", 0.0, 0.5, 0.0), ("j4", None, 1.0, 0.0)]
    assert model.limits == {"j0": (-1.0, 2.0), "j1": (0.0, 0.5), "j4": (-np.inf, 1.0)}
    assert not formats.loads(text, "urdf", limits=False, strict=True).gaps


def test_a_joint_that_mimics_another_narrows_its_range():
    """Two stops that are hit at once would be one constraint twice."""
    model = formats.loads(
        urdf(
            ("revolute", limit(-1, 2)),
            ("revolute", limit(-1, 1) + '<mimic joint="j0" multiplier="-2" offset="0.5"/>'),
            ("revolute", limit(-3, 0.9) + '<mimic joint="j1" multiplier="-1"/>'),  # = 2 j0 - 0.5
        ),
        "urdf",
    )
    ((variable, low, high, _),) = found(model)
    assert (variable, low, high) == ("j0", -0.25, 0.7)
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(q=da.satisfy_constraints(model, {"j0": 0.2})), time=1.0)
    assert motion["j0"].max() == pytest.approx(0.7, abs=1e-12)
    assert motion["j1"].min() == pytest.approx(0.5 - 1.4, abs=1e-12)


def test_mimics_in_a_circle_and_ranges_that_leave_nothing():
    text = urdf(
        ("revolute", limit(0, 1)),
        ("revolute", limit(3, 4) + '<mimic joint="j0"/>'),
        ("revolute", limit(0, 0)),
        ("revolute", limit(1, 0)),
    )
    with pytest.warns(da.ModelWarning) as caught:
        model = formats.loads(text, "urdf")
    assert [what for _, what in caught[0].message.notes] == [
        "joint 'j1': range 3 to 4",
        "joint 'j2': range 0 to 0",
        "joint 'j3': range 1 to 0",
    ]
    assert found(model) == [("j0", 0.0, 1.0, 0.0)]
    circle = urdf(
        ("revolute", limit(0, 1) + '<mimic joint="j1" multiplier="2"/>'),
        ("revolute", limit(0, 1) + '<mimic joint="j0" multiplier="3"/>'),
        ("revolute", ""),
    )
    assert [row[0] for row in found(formats.loads(circle, "urdf"))] == ["j0", "j1"]


def test_ranges_of_mjcf():
    text = """<mujoco><compiler angle="degree"/><worldbody><body name="a">
    <joint name="hinge" range="-90 45" axis="0 1 0" ref="10"/><geom size="0.1" pos="0.3 0 0" contype="0" conaffinity="0"/>
    <body name="b" pos="0.3 0 0"><joint name="slide" type="slide" range="0 0.2"/><geom size="0.1" contype="0" conaffinity="0"/></body>
    <body name="c"><joint name="follows" range="-90 90" axis="0 1 0"/><geom size="0.1" pos="0.3 0 0" contype="0" conaffinity="0"/></body>
    <body name="d"><joint name="stays" range="0 30"/><geom size="0.1" pos="0.3 0 0" contype="0" conaffinity="0"/></body>
    <body name="e"><joint name="free" range="0 30" limited="false"/><geom size="0.1" pos="0.3 0 0" contype="0" conaffinity="0"/></body>
    </body></worldbody>
    <equality><joint joint1="follows" joint2="hinge" polycoef="0 2 0 0 0"/><joint joint1="stays"/></equality></mujoco>"""
    model = formats.loads(text, "mjcf", strict=True)
    low, high = ((x + 2 * np.radians(10)) / 2 for x in (-np.pi / 2, np.pi / 2))  # of hinge by follows = 2 (hinge - ref)
    rows = found(model)
    assert [row[0] for row in rows] == ["hinge", "slide"]
    assert rows[0][1:3] == pytest.approx((max(-np.pi / 2, low), min(np.pi / 4, high)), abs=1e-15)
    assert rows[1][1:] == (0.0, 0.2, 0.0)
    for options in ({"limits": False}, {"skip": "range"}):
        assert not formats.loads(text, "mjcf", strict=True, **options).gaps


@pytest.mark.parametrize("format", ["urdf", "mjcf"])
def test_limits_are_written(format):
    arm = da.tx("x", da.ry("a", da.tz(-1.0, name="bob", mass=1.0)), mass=1.0)
    elements = [da.Gravity((0, 0, -9.81)), da.Limit("x", -0.5, 0.25), da.Limit("a", low=-2.0)]
    model = da.Model([arm], elements, "arm")
    again = formats.loads(formats.dumps(model, format), format, strict=True)
    assert again.limits == model.limits
    bounces = model.with_elements([*elements[:2], da.Limit("a", 0.0, restitution=0.5)])
    with pytest.raises(da.ModelError, match=r"Limit\(a\)"):
        formats.dumps(bounces, format)
    flies = da.Model([da.floating("f", name="b", mass=1.0, inertia=(1, 1, 1))], [da.Limit("f.z", 0.0)])
    with pytest.raises(da.ModelError, match=r"f\.z"):
        formats.dumps(flies, format)


ARM = urdf(("revolute", limit(-1, 1)), ("revolute", limit(0.1, 2)))


def test_a_robot_of_a_file_can_be_used_everywhere(tmp_path):
    model = formats.loads(ARM, "urdf", inputs=True)
    vi = da.MidpointVI(model, dt=0.02)
    with pytest.raises(ValueError, match=r"q violates Limit\(j1\) low by 0.1: 'j1' goes from 0.1 to 2"):
        vi.state()
    start = vi.state(q=[0.0, 0.5])
    motion = vi.simulate(start, time=3.0)
    assert {i.name for i in motion.impacts} >= {"Limit(j0) high"}
    assert da.gaps(model, motion.q).min() > -1e-12
    # regulators, plans and exported code: usable without a word as long as no limit is crossed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        u = da.trim(model, start.q)
        A, B = vi.linearize(start, u)
        law = da.Feedback.at_point(
            np.concatenate([start.q, start.p]), u, da.lqr_infinite(A, B, Q=[10.0] * 2 + [1.0] * 2, R=0.1).K
        )
        held = vi.simulate(vi.state(q=[0.1, 0.45]), time=2.0, u=law)
        assert abs(held.q[-1] - start.q).max() < 1e-3
        assert not held.impacts
        system = da.System(vi, steps=20)
        cost = da.TrackingCost({"j0": 0.5, "j1": 1.0}, Q=1.0, R=1e-3)
        result = da.optimize(system, cost, (np.tile([*start.q, *start.p], (21, 1)), np.tile(u, (20, 1))))
        assert result.converged
        assert result.trajectory.steps == 20
        far = da.TrackingCost({"j0": 0.0, "j1": 0.0}, Q=100.0, R=1e-3)
        within = da.optimize(system, far, result, bounds=dict(model.limits))
        assert within.converged
        assert within.X[:, 1].min() > 0.1 - 1e-9
    with pytest.warns(da.ModelWarning, match="takes no notice of limits of joints: j0, j1"):
        assert da.export_c(vi, tmp_path, vectors=2).files
    # and what is crossed is told
    with pytest.warns(da.AccuracyWarning, match=r"rollouts takes no notice .* Limit\(j0\) high is crossed"):
        da.rollouts(vi, [start], 100)
    with pytest.warns(da.AccuracyWarning, match=r"simulate_continuous takes no notice"):
        da.simulate_continuous(model, start.q, [0.0, 0.0], np.linspace(0.0, 2.0, 50))
    with pytest.raises(da.ModelError, match="without_contacts"):
        da.EulerModel(model, 0.01)


def test_plans_of_dmoc_keep_to_the_limits():
    pytest.importorskip("casadi")
    arm = formats.loads(ARM, "urdf", inputs=True)
    free = da.dmoc(
        arm.without_contacts(),
        start={"q": [0, 0.15], "v": [0, 0]},
        goal={"q": [0.9, 0.15], "v": [0, 0]},
        steps=20,
        time=1.0,
    )
    plan = da.dmoc(arm, start={"q": [0, 0.15], "v": [0, 0]}, goal={"q": [0.9, 0.15], "v": [0, 0]}, steps=20, time=1.0)
    assert free.success
    assert plan.success
    assert da.gaps(arm, free.q).min() < -1e-3
    assert da.gaps(arm, plan.q).min() > -1e-6
    assert plan.objective > free.objective
    beyond = da.dmoc(arm, start={"q": [0, 0.5], "v": [0, 0]}, goal={"q": [1.5, 0.5]}, steps=10, time=1.0)
    assert (beyond.status, "limits of 'j0'" in beyond.message) == ("infeasible", True)


def robots():
    """Some robots of example-robot-data, where it is installed."""
    try:
        folder = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    except PackageNotFoundError:
        return None
    return folder


ROBOTS = [
    ("panda_description/urdf/panda", 8),  # fingers that mimic each other rest at their stop
    ("ur_description/urdf/ur5_robot", 6),
    ("talos_data/robots/talos_reduced", 32),
    ("talos_data/robots/talos_full_v2", 32),
    ("human_description/robots/human", 36),  # a hundred impacts
    ("g1_description/urdf/g1_29dof_with_hand_rev_1_0", 43),
    ("pr2_description/urdf/pr2", 16),
    ("tiago_pro_description/robots/tiago_pro", 19),
    ("b1_description/urdf/b1-z1", 19),
    ("go2_description/urdf/go2", 12),
]


@pytest.mark.parametrize(("name", "count"), ROBOTS)
def test_public_robots_fall_into_their_stops(name, count):
    folder = robots()
    if folder is None:
        pytest.skip("example-robot-data is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.ModelWarning)
        warnings.simplefilter("ignore", da.InertiaWarning)
        model = da.load(f"{folder}/{name}.urdf", massless="kinematic")
    assert len(model.limits) == count
    q = model.neutral()
    for variable, (low, high) in model.limits.items():
        if not low <= 0 <= high:
            q[model.index(variable)] = (max(low, -3) + min(high, 3)) / 2
    vi = da.MidpointVI(model, dt=0.002)
    motion = vi.simulate(vi.state(q=da.satisfy_constraints(model, q)), time=0.4, accuracy="ignore")
    assert motion.steps == 200
    assert da.gaps(model, motion.q).min() > -1e-12
    assert all(before.time <= after.time for before, after in itertools.pairwise(motion.impacts))
