"""URDF: public robots against Pinocchio, joints of every type, refusals with reasons."""

import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import formats, mechanics
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
    # the compiled core
    assert np.abs(mechanics.mass_matrix(model, q) - m).max() <= 1e-9 * max(1.0, np.abs(m).max())
    assert np.abs(-mechanics.potential_gradient(model, q) - force).max() <= 1e-9 * max(1.0, np.abs(force).max())
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


# ---- joints and elements of a small robot, and writing

SMALL = """<robot name="small">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="base"><visual><geometry><box size="1 1 0.1"/></geometry><material name="grey"/></visual></link>
  <link name="upper">
    <inertial><origin xyz="0 0 0.5" rpy="0.1 0.2 0.3"/><mass value="1.5"/>
      <inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.2" iyz="0" izz="0.25"/></inertial>
    <visual><origin xyz="0 0 0.5" rpy="0 1.5707963267948966 0"/><geometry><mesh filename="a.stl"/></geometry></visual>
  </link>
  <link name="lower"><inertial><mass value="1"/>{I}</inertial></link>
  <link name="finger"><inertial><mass value="0.1"/>{I}</inertial></link>
  <link name="puck"><inertial><mass value="0.1"/>{I}</inertial></link>
  <link name="ball"><inertial><mass value="0.1"/>{I}</inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/><origin xyz="0 0 0.1" rpy="0 1.5707963267948966 1"/><axis xyz="1 2 3"/>
    <limit lower="-1" upper="1" effort="10" velocity="1"/><dynamics damping="0.1" friction="0"/>
  </joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><axis xyz="0 -1 0"/></joint>
  <joint name="grip" type="prismatic"><parent link="lower"/><child link="finger"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="10" velocity="1"/><mimic joint="elbow" multiplier="0.5" offset="0.1"/></joint>
  <joint name="slide" type="planar"><parent link="base"/><child link="puck"/><axis xyz="0 1 1"/></joint>
  <joint name="fly" type="floating"><parent link="base"/><child link="ball"/><dynamics damping="0.2"/></joint>
  <joint name="mount" type="fixed"><parent link="lower"/><child link="tool"/><origin rpy="0 1 0"/></joint>
</robot>
""".replace("{I}", '<inertia ixx=".1" ixy="0" ixz="0" iyy=".1" iyz="0" izz=".1"/>')


def test_every_type_of_joint():
    model = formats.loads(SMALL, "urdf")
    assert set(model.dynamic) == {"shoulder", "elbow", "grip"} | {
        *(f"slide.{v}" for v in ("tx", "ty", "rz")),
        *(f"fly.{v}" for v in ("x", "y", "z", "qw", "qx", "qy", "qz")),
    }
    assert model.frame_names == ("world", "base", "upper", "lower", "finger", "tool", "puck", "ball")
    gravity, damping, relation, *limits = model.elements
    assert gravity == da.Gravity((0, 0, -9.81))
    assert dict(damping.coefficients) == {
        "shoulder": 0.1,
        **{f"fly.{v}": 0.2 for v in ("vx", "vy", "vz", "wx", "wy", "wz")},
    }
    assert relation == da.LinearRelation({"grip": 1.0, "elbow": -0.5}, 0.1)
    assert limits == [da.Limit("shoulder", -1.0, 1.0), da.Limit("elbow", -2.2, 1.8)]  # grip = 0.5 elbow + 0.1
    base = model.frame_entries[1].frame
    assert base.visuals == (da.Visual("box", (1, 1, 0.1), color=(0.5, 0.5, 0.5, 1.0)),)
    forced = formats.loads(SMALL, "urdf", inputs=True, gravity=None, root="free")
    assert forced.inputs == ("shoulder", "elbow")
    assert "base.qw" in forced.dynamic


def test_axis_and_origin_mean_what_pinocchio_says():
    """Pose of the moved links at a random configuration, for an oblique axis and a rotated origin."""
    text = SMALL[: SMALL.index('  <joint name="slide"')] + SMALL[SMALL.index('  <joint name="mount"') :]
    text = "".join(line for line in text.splitlines(True) if 'name="puck"' not in line and 'name="ball"' not in line)
    model = formats.loads(text, "urdf")
    robot = pin.buildModelFromXML(text)
    q, m, force = pinocchio_mass_and_gravity(robot, model, np.random.default_rng(5))
    ours, ours_force = mass_and_gravity(model, q)
    assert np.abs(ours - m).max() < 1e-12
    assert np.abs(ours_force - force).max() < 1e-12


def test_planar_joint_moves_in_the_plane_normal_to_its_axis():
    model = formats.loads(SMALL, "urdf")
    rng = np.random.default_rng(0)
    g = mechanics.poses(model, model.random(rng))
    puck = g[model.frame_index("puck")]
    normal = np.array([0, 1, 1]) / np.sqrt(2)
    assert abs(puck[:3, 3] @ normal) < 1e-15
    assert np.abs(puck[:3, :3] @ normal - normal).max() < 1e-15


@pytest.mark.parametrize("name", ["solo_description/robots/solo12.urdf", "talos_data/robots/talos_reduced.urdf"])
def test_free_root_has_pinocchios_kinetic_energy(name):
    """A floating base against Pinocchio's free-flyer, whose velocity is the twist in the base's axes."""
    path = ROBOTS / name
    if not path.exists():
        pytest.skip("example-robot-data is not installed")
    model = formats.load(path, root="free")
    robot = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    base = model.frame_entries[4].name
    rng = np.random.default_rng(6)
    q, v = model.random(rng), rng.uniform(-1, 1, model.nv)
    g = mechanics.pose(model, q, base)
    twist = mechanics.frame_jacobian(model, q, base) @ v
    qp, vp = pin.neutral(robot), np.zeros(robot.nv)
    qp[:7] = pin.SE3ToXYZQUAT(pin.SE3(g[:3, :3], g[:3, 3]))
    vp[:3], vp[3:6] = g[:3, :3].T @ twist[3:], g[:3, :3].T @ twist[:3]
    for joint, variable in list(zip(robot.joints, robot.names, strict=True))[2:]:
        qp[joint.idx_q], vp[joint.idx_v] = q[model.index(variable)], v[model.velocity_index(variable)]
    data = robot.createData()
    assert mechanics.kinetic_energy(model, q, v) == pytest.approx(
        pin.computeKineticEnergy(robot, data, qp, vp), rel=1e-11
    )
    potential = pin.computePotentialEnergy(robot, data, qp)
    assert mechanics.potential_energy(model, q) == pytest.approx(potential, rel=1e-11)


def test_long_chain():
    """Thousands of links: no recursion, no quadratic time."""
    import time

    n = 3000
    body = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    links = "".join(f'<link name="l{i}">{body}</link>\n' for i in range(n + 1))
    joint = (
        '<joint name="j{0}" type="continuous"><parent link="l{0}"/><child link="l{1}"/><axis xyz="1 0 0"/></joint>\n'
    )
    text = f"<robot>{links}{''.join(joint.format(i, i + 1) for i in range(n))}</robot>"
    start = time.process_time()
    model = formats.loads(text, "urdf")
    assert model.nq == n
    assert formats.loads(formats.dumps(model, "urdf"), "urdf").variables == model.variables
    assert time.process_time() - start < 5.0


def same_mechanics(a, b, rng):
    q = dict(zip(a.variables, a.random(rng), strict=True))
    qa, qb = ([q[v] for v in m.variables] for m in (a, b))
    ma, mb = mechanics.mass_matrix(a, qa), mechanics.mass_matrix(b, qb)
    fa, fb = mechanics.potential_gradient(a, qa), mechanics.potential_gradient(b, qb)
    order = [b.velocity_index(v) for v in a.velocities]
    assert np.abs(ma - mb[np.ix_(order, order)]).max() < 1e-12 * max(1, np.abs(ma).max())
    assert np.abs(fa - fb[order]).max() < 1e-12 * max(1, np.abs(fa).max())
    ga, gb = mechanics.poses(a, qa), mechanics.poses(b, qb)
    for name in a.frame_names:
        assert np.abs(ga[a.frame_index(name)] - gb[b.frame_index(name)]).max() < 1e-12


def visuals(model):
    return [(v.kind, v.size, v.color, v.mesh) for e in model.frame_entries[1:] for v in e.frame.visuals]


def test_written_back():
    model = formats.loads(SMALL, "urdf")
    again = formats.loads(formats.dumps(model, "urdf"), "urdf")
    assert again.frame_names == model.frame_names
    assert again.variables == model.variables
    assert set(again.elements) == set(model.elements)
    assert visuals(again) == visuals(model)
    same_mechanics(model, again, np.random.default_rng(1))


@pytest.mark.parametrize("name", PUBLIC[::4])
def test_public_robot_written_back(name):
    if not (ROBOTS / name).exists():
        pytest.skip("example-robot-data is not installed")
    model = formats.load(ROBOTS / name)
    again = formats.loads(formats.dumps(model, "urdf"), "urdf")
    assert again.variables == model.variables
    assert again.elements == model.elements
    same_mechanics(model, again, np.random.default_rng(2))


def test_any_tree_written():
    """Unnamed frames, several motions between links, constant frames, a translation behind a joint."""
    from dalembert import rx, ry, rz, tx, ty, tz

    model = da.Model(
        [
            rx(
                "a",
                tz(-0.5, mass=1.0, inertia=(1, 2, 2)),
                tx(0.3, ry("b", rz(0.4, tz("c", ty(0.1, name="end", mass=2.0, com=(0.1, 0, 0)))))),
            ),
            da.planar("p", tz(0.2, name="puck", mass=1.0)),
        ],
        [da.Gravity((0, 0, -9.81)), da.Damping(0.1, {"b": 0.0})],
        "tree",
    )
    again = formats.loads(formats.dumps(model, "urdf"), "urdf")
    assert set(again.variables) == set(model.variables)
    assert dict(again.elements[1].coefficients) == {v: 0.1 for v in model.variables if v != "b"}
    same_mechanics(model, again, np.random.default_rng(3))


@pytest.mark.parametrize(
    ("element", "says"),
    [
        (da.Gravity((0, 0, -1)), "assume gravity"),
        (da.ConfigForce("x", "u"), "ConfigForce(x): URDF cannot say this"),
        (da.ConfigSpring("x", 1.0), "ConfigSpring(x)"),
    ],
)
def test_what_urdf_cannot_say(element, says):
    with pytest.raises(da.ModelError) as caught:
        formats.dumps(da.Model([da.tx("x", mass=1.0)], [element]), "urdf")
    assert says in str(caught.value)
    for frame in (da.tx(da.Kinematic("x"), name="a"), da.rx("x", name="a", mass=1.0, pitch=0.1)):
        with pytest.raises(da.ModelError, match="frame 'a'"):
            formats.dumps(da.Model([frame]), "urdf")


# (text, what the message says)
BROKEN = [
    ("<sdf/>", "starts with <robot>"),
    ("<robot><link/></robot>", "<link> needs the attribute name"),
    ('<robot><link name="a"/><link name="a"/></robot>', "two links are called 'a'"),
    ('<robot><link name="a"/><link name="b"/></robot>', "several root links: 'a', 'b'"),
    (
        '<robot><link name="a"/><joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>',
        "unknown link 'b'",
    ),
    (
        '<robot><link name="a"/><joint name="j" type="fixed"><parent link="a"/><child link="a"/></joint></robot>',
        "form a ring",
    ),
    (
        '<robot><link name="a"/><joint name="j" type="fixed"><child link="a"/></joint></robot>',
        "joint 'j' has no <parent>",
    ),
    (SMALL.replace("continuous", "wobbly"), "type 'wobbly' is not one of"),
    (SMALL.replace('xyz="1 2 3"', 'xyz="0 0 0"'), "joint 'shoulder': the axis is zero"),
    (SMALL.replace('xyz="1 2 3"', 'xyz="1 2"'), "xyz needs 3 numbers, got 2"),
    (SMALL.replace('<mass value="1.5"/>', '<mass value="-1.5"/>'), "link 'upper': negative mass -1.5"),
    (SMALL.replace('<mass value="1.5"/>', '<mass value="nan"/>'), "not finite"),
    (SMALL.replace('ixx="0.1" ixy', 'ixx="-0.1" ixy'), "'upper': inertia"),
    (SMALL.replace('<mimic joint="elbow"', '<mimic joint="elbo"'), "joint 'grip' mimics 'elbo'"),
    (SMALL.replace('<mimic joint="elbow"', '<mimic joint="grip"'), "mimics itself"),
    (
        SMALL.replace('link="base"/><child link="puck"', 'link="base"/><child link="ball"'),
        "link 'ball' has two parents",
    ),
]


@pytest.mark.parametrize(("text", "says"), BROKEN)
def test_broken_robot(text, says):
    with pytest.raises(da.ModelError) as caught:
        formats.loads(text, "urdf")
    assert says in str(caught.value)
    assert caught.value.line is not None


@pytest.mark.parametrize("moments", [(1, 1, 3), (1, 2, 3.1)])
def test_an_inertia_that_no_body_has(moments) -> None:
    xx, yy, zz = moments
    text = f'''<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="1"/>
      <inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint></robot>'''
    with pytest.warns(da.InertiaWarning, match=r"'arm': no body has the principal moments"):
        model = da.loads(text, "urdf")
    for kind in ("toml", "json", "mjcf"):  # one rule for all
        written = da.dumps(model, kind)
        with pytest.warns(da.InertiaWarning, match=r"no body has the principal moments"):
            da.loads(written, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", da.InertiaWarning)
        with pytest.raises(da.InertiaWarning):
            da.loads(text, "urdf")
    assert da.loads(text.replace(f'izz="{zz}"', 'izz="2"'), "urdf").nq == 1  # possible
    planar = text.replace(f'ixx="{xx}"', 'ixx="0"').replace(f'iyy="{yy}"', 'iyy="0"')
    assert da.loads(planar, "urdf").nq == 1  # one moment only: a planar model
