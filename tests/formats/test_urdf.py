"""URDF: public robots against Pinocchio, joints of every type, refusals with reasons."""

import sysconfig
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import formats
from dalembert.formats import rigid

pin = pytest.importorskip("pinocchio")
SITE = Path(sysconfig.get_paths()["purelib"])
ROBOTS = SITE / "cmeel.prefix/share/example-robot-data/robots"
BULLET = SITE / "pybullet_data"

# ---- a plain mass matrix and gravity force, straight from the frames


def poses(model, q):
    """World transform of every frame entry, and the motion axes (variable, rotation?, axis, point, pitch)."""
    g = [np.eye(4)]
    moves = [None]
    for entry in model.frame_entries[1:]:
        f = entry.frame
        parent = g[entry.parent]
        if f.transform == "se3":
            g.append(parent @ np.array(f.value))
            moves.append(None)
            continue
        axis = "xyz".index(f.transform[1])
        x = f.value if f.variable is None else q[model.index(f.variable)]
        if f.transform[0] == "t":
            local = rigid.pose(np.eye(3), x * np.eye(3)[axis])
        else:
            local = rigid.pose(rigid.rotation(axis, x), f.pitch * x * np.eye(3)[axis])
        g.append(parent @ local)
        moving = (
            None if f.variable is None else (model.index(f.variable), f.transform[0], parent[:3, axis], parent[:3, 3])
        )
        moves.append(moving)
    return g, moves


def mass_and_gravity(model, q, gravity=(0, 0, -9.81)):
    g, moves = poses(model, q)
    m = np.zeros((model.nq, model.nq))
    force = np.zeros(model.nq)
    for entry in model.frame_entries[1:]:
        f = entry.frame
        if not f.mass and not any(f.inertia):
            continue
        r = g[entry.index][:3, :3]
        c = g[entry.index][:3, 3] + r @ np.array(f.com)
        angular, linear = np.zeros((3, model.nq)), np.zeros((3, model.nq))
        i = entry.index
        while i > 0:
            if moves[i] is not None:
                j, kind, axis, point = moves[i]
                if kind == "t":
                    linear[:, j] = axis
                else:
                    angular[:, j] = axis
                    linear[:, j] = np.cross(axis, c - point)
            i = model.frame_entries[i].parent
        xx, yy, zz, xy, xz, yz = f.inertia
        inertia = r @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ r.T
        m += f.mass * linear.T @ linear + angular.T @ inertia @ angular
        force += f.mass * linear.T @ np.array(gravity)
    return m, force


def pinocchio_mass_and_gravity(robot, model, rng):
    """q of ours, M and gravity force of Pinocchio in our order (one-variable joints only)."""
    q = np.zeros(model.nq)
    qp = pin.neutral(robot)
    order = np.full(robot.nv, -1)
    for joint, name in list(zip(robot.joints, robot.names, strict=True))[1:]:  # the first is the universe
        assert joint.nv == 1, name
        x = rng.uniform(-1, 1)
        q[model.index(name)] = x
        qp[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
        order[joint.idx_v] = model.index(name)
    data = robot.createData()
    m = pin.crba(robot, data, qp)
    m = np.triu(m) + np.triu(m, 1).T
    force = -pin.computeGeneralizedGravity(robot, data, qp)
    back = np.argsort(order)
    return q, m[np.ix_(back, back)], force[back]


def compare(path, rng, **options):
    model = formats.load(path, **options)
    robot = pin.buildModelFromUrdf(str(path))
    q, m, force = pinocchio_mass_and_gravity(robot, model, rng)
    ours, ours_force = mass_and_gravity(model, q)
    assert np.abs(ours - m).max() <= 1e-9 * max(1.0, np.abs(m).max())
    assert np.abs(ours_force - force).max() <= 1e-9 * max(1.0, np.abs(force).max())
    if hasattr(da, "mass_matrix"):
        compiled = da.mass_matrix(model, q)
        assert np.abs(compiled[: model.nd, : model.nd] - m[: model.nd, : model.nd]).max() <= 1e-9 * max(
            1.0, np.abs(m).max()
        )
        slope = np.array(
            [
                (da.potential_energy(model, q + h) - da.potential_energy(model, q - h)) / 2e-4
                for h in 1e-4 * np.eye(model.nq)
            ]
        )
        assert np.abs(slope + force).max() <= 1e-5 * max(1.0, np.abs(force).max())
    return model


PUBLIC = """a1_description/urdf/a1.urdf alex_description/urdf/alex_nub_hands.urdf
allegro_hand_description/urdf/allegro_right_hand.urdf anymal_b_simple_description/robots/anymal-kinova.urdf
anymal_c_simple_description/urdf/anymal.urdf asr_twodof_description/urdf/TwoDofs.urdf b1_description/urdf/b1-z1.urdf
baxter_description/urdf/baxter.urdf bolt_description/robots/bolt.urdf borinot_description/urdf/borinot_flying_arm_2.urdf
centauro_description/urdf/centauro.urdf double_pendulum_description/urdf/double_pendulum.urdf
double_pendulum_description/urdf/double_pendulum_continuous.urdf finger_edu_description/robots/finger_edu.urdf
g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf go1_description/urdf/go1.urdf go2_description/urdf/go2.urdf
hextilt_description/urdf/hextilt_flying_arm_5.urdf human_description/robots/human.urdf
hyq_description/robots/hyq_no_sensors.urdf kinova_description/robots/kinova.urdf
laikago_description/urdf/laikago.urdf panda_description/urdf/panda.urdf pr2_description/urdf/pr2.urdf
quadruped_description/urdf/quadruped.urdf romeo_description/urdf/romeo_small.urdf
simple_humanoid_description/urdf/simple_humanoid.urdf so_arm_description/urdf/so101.urdf
solo_description/robots/solo12.urdf talos_data/robots/talos_full_v2.urdf talos_data/robots/talos_reduced.urdf
tiago_pro_description/robots/tiago_pro.urdf ur_description/urdf/ur5_robot.urdf ur_description/urdf/ur10_robot.urdf
xarm_description/urdf/xarm7.urdf z1_description/urdf/z1.urdf""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", PUBLIC)
def test_public_robot_equals_pinocchio(name):
    path = ROBOTS / name
    if not path.exists():
        pytest.skip("example-robot-data is not installed")
    model = compare(path, np.random.default_rng(len(name)))
    for kind in ("sexp", "toml", "json"):
        assert formats.loads(formats.dumps(model, kind), kind) == model


@pytest.mark.parametrize("name", ["kuka_iiwa/model.urdf", "r2d2.urdf", "cartpole.urdf", "aliengo/aliengo.urdf"])
def test_robot_of_pybullet_equals_pinocchio(name):
    path = BULLET / name
    if not path.exists():
        pytest.skip("pybullet is not installed")
    compare(path, np.random.default_rng(0))


REFUSED = {
    "icub_description/robots/icub.urdf": "not positive semidefinite",
    "alex_description/urdf/alex_psyonic_hands.urdf": "mimics 'index_q1'",
    "romeo_description/urdf/romeo.urdf": "dynamic variable 'RThumb3' moves no mass",
    "romeo_description/urdf/romeo_laas_small.urdf": "not positive semidefinite",
    "tiago_description/robots/tiago.urdf": "'base_antenna_right_link': inertia",
    "ur_description/urdf/ur3.urdf": "no links",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    path = ROBOTS / name
    if not path.exists():
        pytest.skip("example-robot-data is not installed")
    with pytest.raises(da.ModelError, match=r"urdf:\d+:\d+: ") as caught:
        formats.load(path)
    assert REFUSED[name] in str(caught.value)
    assert caught.value.line is not None


def test_massless_joints_can_be_prescribed():
    path = ROBOTS / "romeo_description/urdf/romeo.urdf"
    if not path.exists():
        pytest.skip("example-robot-data is not installed")
    model = formats.load(path, massless="kinematic")
    assert "RThumb3" in model.kinematic
    assert "RHipPitch" in model.dynamic
