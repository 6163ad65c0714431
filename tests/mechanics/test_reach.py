"""Inverse kinematics: arms, paths, poses, closed chains, and what is out of reach."""

import numpy as np
import pytest

import dalembert as da
from dalembert import rz, tx, tz


def arm() -> da.Model:
    """A turning post, a shoulder and an elbow."""
    forearm = da.ry("elbow", tz(0.4, name="hand", mass=0.5))
    return da.Model([rz("yaw", tz(0.2, da.ry("shoulder", tz(0.5, forearm, mass=1.0))))])


def test_a_hand_at_a_place():
    goal = [0.4, 0.2, 0.5]
    q = da.inverse_kinematics(arm(), {"hand": goal}, {"elbow": 0.5})
    assert da.pose(arm(), q, "hand")[:3, 3] == pytest.approx(goal, abs=1e-9)


def test_a_stretched_arm_finds_its_way():
    """Stretched towards the target no direction is better than another: noise helps."""
    q = da.inverse_kinematics(arm(), {"hand": [0.0, 0.0, 0.7]})
    assert da.pose(arm(), q, "hand")[:3, 3] == pytest.approx([0.0, 0.0, 0.7], abs=1e-9)


def test_a_path_is_continuous():
    s = np.linspace(0.0, 2 * np.pi, 60)
    path = np.column_stack([0.45 + 0 * s, 0.2 * np.sin(s), 0.5 + 0.2 * np.cos(s)])
    q = da.inverse_kinematics(arm(), {"hand": path}, {"shoulder": 0.5, "elbow": 1.0})
    assert q.shape == (60, 3)
    assert da.pose(arm(), q, "hand")[:, :3, 3] == pytest.approx(path, abs=1e-9)
    assert np.abs(np.diff(q, axis=0)).max() < 0.1
    assert q[0] == pytest.approx(q[-1], abs=1e-7)


def test_random_poses_of_a_six_axis_arm_and_of_balls():
    six = tx(0.1, name="flange", mass=0.1)
    for joint, name in zip((da.rx, da.ry, da.rx, da.ry, da.ry, rz), "fedcba", strict=True):
        six = tz(0.3, joint(name, six))
    ball = da.ball("hip", tz(0.4, da.ball("ankle", tz(0.3, name="foot", mass=1.0))), mass=1.0, inertia=(0.1, 0.1, 0.1))
    rng = np.random.default_rng(3)
    for model, frame in ((da.Model([six]), "flange"), (da.Model([ball]), "foot")):
        for _ in range(20):
            truth = model.configuration.random(rng)
            goal = da.pose(model, truth, frame)
            near = model.configuration.integrate(truth, 0.2 * rng.normal(size=model.nv))
            q = da.inverse_kinematics(model, {frame: goal}, near)
            assert np.abs(da.pose(model, q, frame) - goal).max() < 1e-8


def test_a_closed_chain_stays_closed():
    left = rz("a", tx(0.5, rz("b", tx(0.8, name="tool", mass=1.0))))
    right = tx(0.6, rz("c", tx(0.5, rz("d", tx(0.8, name="other", mass=1.0)))))
    five_bar = da.Model([left, right], [da.PointToPoint("tool", "other", "xy")])
    q = da.inverse_kinematics(five_bar, {"tool": [0.35, 0.9, 0.0]}, {"a": 2.0, "b": -1.2, "c": 1.1, "d": 1.2})
    assert da.pose(five_bar, q, "tool")[:2, 3] == pytest.approx([0.35, 0.9], abs=1e-9)
    assert np.abs(da.constraints(five_bar, q)).max() < 1e-9


def test_fixed_and_kinematic_variables_stay():
    model = da.Model(
        [tx(da.Kinematic("rail"), rz("a", tx(1.0, rz("b", tx(1.0, rz("c", tx(0.5, name="hand", mass=1.0)))))))]
    )
    q = da.inverse_kinematics(model, {"hand": [1.2, 1.0, 0.0]}, {"rail": 0.2, "a": 0.3, "b": 0.5}, fixed=["a"])
    assert (q[model.index("rail")], q[model.index("a")]) == (0.2, 0.3)
    assert da.pose(model, q, "hand")[:2, 3] == pytest.approx([1.2, 1.0], abs=1e-9)


def test_what_is_out_of_reach_is_told():
    with pytest.raises(da.ConvergenceError, match=r"no configuration reaches the targets: 'hand' stays 1\.1 away"):
        da.inverse_kinematics(arm(), {"hand": [2.0, 0.0, 0.2]}, {"elbow": 0.5})
    away = [[0.5, 0.0, 0.5], [3.0, 0.0, 0.5]]
    with pytest.raises(da.ConvergenceError, match="targets of row 1"):
        da.inverse_kinematics(arm(), {"hand": away}, {"elbow": 0.5})


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({"hnd": [0.0, 0.0, 0.0]}, "hnd"),
        ({"hand": [0.0, 0.0]}, "the target of 'hand'"),
        ({"hand": np.ones((4, 4))}, "not a rotation matrix"),
        ({"hand": [np.nan, 0.0, 0.0]}, "the target of 'hand'"),
    ],
)
def test_wrong_targets(targets, message):
    with pytest.raises((ValueError, da.ModelError), match=message):
        da.inverse_kinematics(arm(), targets)


def test_targets_of_different_lengths():
    model = da.Model([rz("a", tx(1.0, name="tip", mass=1.0)), rz("b", tx(1.0, name="top", mass=1.0))])
    with pytest.raises(ValueError, match="2 and 3 rows"):
        da.inverse_kinematics(model, {"tip": np.zeros((2, 3)), "top": np.zeros((3, 3))})
