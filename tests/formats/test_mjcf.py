"""MJCF: mass matrix, gravity, positions and constraints against numbers of MuJoCo, and refusals with reasons."""

import json
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert import formats, mechanics, models
from dalembert.symbolic import Symbolic

REFERENCE = Path(__file__).parents[1] / "reference/mjcf.json"

ARM = """<mujoco model="arm">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0.5 0 -9.81" timestep="0.002"/>
  <default>
    <joint damping="0.1"/>
    <geom density="500" rgba="1 0 0 1"/>
    <default class="light"><geom density="100"/><joint damping="0" stiffness="2" springref="30"/></default>
  </default>
  <worldbody>
    <light pos="0 0 3"/>
    <geom type="plane" size="1 1 1"/>
    <body name="base" pos="0.1 0.2 0.3" euler="10 20 30">
      <inertial pos="0.1 0 0" quat="1 0.1 0.2 0.3" mass="2" diaginertia="0.1 0.2 0.25"/>
      <joint name="lift" type="slide" axis="0 0 -2" ref="0.05"/>
      <joint name="turn" type="hinge" axis="1 1 0" pos="0.1 0 0.2" ref="15"/>
      <body name="upper" pos="0 0 0.4" axisangle="0 1 0 25" childclass="light">
        <joint name="elbow" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.04"/>
        <geom type="box" size="0.1 0.05 0.02" pos="0.2 0 0" euler="5 0 10" mass="0.3"/>
        <body name="lower" pos="0.3 0 0.1" xyaxes="0 1 0 -1 0 0">
          <joint name="wrist1" axis="0 0 1"/>
          <joint name="wrist2" axis="0 1 0" pos="0.02 0 0"/>
          <geom type="cylinder" size="0.03 0.1"/>
          <geom type="ellipsoid" size="0.03 0.05 0.08" pos="0 0.1 0" zaxis="1 1 1" class="light"/>
          <site name="tip" pos="0 0 0.2"/>
        </body>
      </body>
    </body>
    <body name="wall" pos="1 0 0"><site name="hook" pos="0 0 0.5"/></body>
    <body name="rod" pos="0.5 0.5 0.5">
      <joint name="swing" axis="1 0 0"/><joint name="roll" axis="0 1 0"/>
      <geom type="sphere" size="0.1" pos="0 0 -0.4"/>
    </body>
  </worldbody>
  <equality>
    <joint joint1="wrist1" joint2="wrist2" polycoef="0.1 2 0 0 0"/>
    <tendon tendon1="wire"/>
  </equality>
  <tendon><spatial name="wire"><site site="tip"/><site site="hook"/></spatial></tendon>
  <actuator><motor name="motor" joint="elbow" gear="3"/></actuator>
  <keyframe><key name="home" qpos="0.1 0.2 0.3 0.4 0.5 0.6 0.7"/></keyframe>
</mujoco>
"""

FREE = """<mujoco model="float">
  <compiler angle="radian"/>
  <worldbody>
    <body name="a" pos="1 2 3" quat="0.5 0.5 0.5 0.5">
      <freejoint name="f"/><geom type="sphere" size="0.1" pos="0.1 0 0"/>
      <body name="b" pos=".5 0 0"><joint name="ball" type="ball" pos="0 .1 0"/><geom type="box" size=".1 .2 .3"/></body>
    </body>
    <body name="c" pos="2 2 3"><freejoint/><geom type="box" size=".1 .1 .2"/></body>
  </worldbody>
  <equality><connect name="pin" body1="b" body2="c" anchor="0.1 0.2 0"/></equality>
</mujoco>
"""

WELD = FREE.replace(
    '<connect name="pin" body1="b" body2="c" anchor="0.1 0.2 0"/>', '<weld name="glue" body1="b" body2="c"/>'
)


def evaluate(model, q, *make):
    s = Symbolic(model)
    f = ca.Function("f", [s.q], [m(s) for m in make])
    values = f(q)
    return [np.array(v).squeeze() for v in (values if isinstance(values, tuple) else (values,))]


def reference(text, q):
    """What MuJoCo says (for hinges and slides)."""
    import mujoco

    m = mujoco.MjModel.from_xml_string(text)
    m.dof_armature[:] = 0
    m.dof_damping[:] = 0
    m.jnt_stiffness[:] = 0
    d = mujoco.MjData(m)
    d.qpos[:] = q
    mujoco.mj_forward(m, d)
    mass = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, d, mass)
    names = [mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_JOINT, i) for i in range(m.njnt)]
    bodies = {mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_BODY, i): d.xpos[i].tolist() for i in range(1, m.nbody)}
    return {
        "q": list(q),
        "names": names,
        "mass": mass.tolist(),
        "gravity": (-d.qfrc_bias).tolist(),
        "positions": bodies,
        "tendon": d.ten_length.tolist(),
        "tendon0": m.tendon_length0.tolist(),
    }


def agrees(text, known):
    model, _ = formats.loads_with_configurations(text, "mjcf")
    q = np.zeros(model.nq)
    index = [model.index(n) for n in known["names"]]
    q[index] = known["q"]
    springless = da.Model(model.frames, [e for e in model.elements if isinstance(e, da.Gravity)])
    mass, force = evaluate(springless, q, lambda s: s.mass_matrix(), lambda s: -ca.gradient(s.potential_energy(), s.q))
    assert np.abs(mass[np.ix_(index, index)] - known["mass"]).max() < 1e-9
    assert np.abs(force[index] - known["gravity"]).max() < 1e-9
    for body, p in known["positions"].items():
        assert np.abs(evaluate(model, q, lambda s, body=body: s.position(body))[0] - p).max() < 1e-9
    return model, q


def test_arm_equals_mujoco():
    known = json.loads(REFERENCE.read_text())["arm"]
    model, q = agrees(ARM, known)
    assert model.dynamic == ("lift", "turn", "elbow", "wrist1", "wrist2", "swing", "roll")
    assert model.inputs == ("motor",)
    kinds = [type(e).__name__ for e in model.elements]
    assert kinds == ["Gravity", *["ConfigSpring"] * 3, "Damping", "LinearRelation", "Distance", "ConfigForce"]
    assert model.elements[1] == da.ConfigSpring("elbow", 2.0, np.deg2rad(30))
    assert dict(model.elements[4].coefficients) == {"lift": 0.1, "turn": 0.1, "swing": 0.1, "roll": 0.1}
    wire = model.elements[6]
    assert wire.length == pytest.approx(known["tendon0"][0], abs=1e-12)
    h = evaluate(model, q, lambda s: s.h())[0]
    assert h[1] == pytest.approx(known["tendon"][0] ** 2 - known["tendon0"][0] ** 2, abs=1e-12)
    assert h[0] == pytest.approx(q[model.index("wrist1")] - 2 * q[model.index("wrist2")] - 0.1)


def test_configurations_of_mjcf():
    model, named = formats.loads_with_configurations(ARM, "mjcf")
    assert set(named) == {"q0", "home"}
    assert named["home"].tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert named["q0"][model.index("turn")] == pytest.approx(np.deg2rad(15))


@pytest.mark.parametrize(("text", "rows"), [(FREE, 3), (WELD, 6)])
def test_free_bodies_and_loops_start_closed(text, rows):
    model, named = formats.loads_with_configurations(text, "mjcf")
    assert (model.nd, model.nc) == (15, rows)
    q0 = named["q0"]
    assert mechanics.pose(model, q0, "a")[:3, 3] == pytest.approx([1, 2, 3], abs=1e-12)
    assert mechanics.pose(model, q0, "c")[:3, 3] == pytest.approx([2, 2, 3], abs=1e-12)
    h, jacobian = mechanics.constraints(model, q0), mechanics.constraint_jacobian(model, q0)
    assert np.abs(h).max() < 1e-12
    assert np.linalg.matrix_rank(jacobian) == rows
    for kind in ("sexp", "toml", "json"):
        assert formats.loads(formats.dumps(model, kind), kind) == model


def test_live_against_mujoco():
    """The stored numbers are MuJoCo's; public files too, where it and pybullet are installed."""
    mujoco = pytest.importorskip("mujoco")
    known = json.loads(REFERENCE.read_text())["arm"]
    fresh = reference(ARM, known["q"])
    assert np.abs(np.array(fresh["mass"]) - known["mass"]).max() < 1e-12
    data = pytest.importorskip("pybullet_data")
    rng = np.random.default_rng(3)
    for name in ("inverted_pendulum", "inverted_double_pendulum", "reacher", "ant", "humanoid"):
        path = Path(data.getDataPath()) / "mjcf" / f"{name}.xml"
        m = mujoco.MjModel.from_xml_path(str(path))
        text = path.read_text()
        agreed = reference(text, rng.uniform(-1, 1, m.nq))
        model = formats.load(path, skip=("armature", "frictionloss", "actuator", "fluid", "damping", "stiffness"))
        q = np.zeros(model.nq)
        index = [model.index(n) for n in agreed["names"]]
        q[index] = agreed["q"]
        mass, force = evaluate(model, q, lambda s: s.mass_matrix(), lambda s: -ca.gradient(s.potential_energy(), s.q))
        scale = max(1.0, np.abs(agreed["mass"]).max())
        assert np.abs(mass[np.ix_(index, index)] - agreed["mass"]).max() < 1e-9 * scale, name
        assert np.abs(force[index] - agreed["gravity"]).max() < 1e-9 * scale, name


ROTORS = """<mujoco><option gravity="0 0 -9.81"/><worldbody><body name="hull" pos="0 0 1"><freejoint name="base"/>
<inertial pos="0 0 0" mass="1.2" diaginertia=".01 .012 .02"/><site name="left" pos=".2 0 .05" euler="10 20 0"/>
<site name="right" pos="-.2 0 .05"/></body></worldbody><actuator><motor name="l" site="left" gear="0 0 1 0 0 -.016"/>
<motor name="r" site="right" gear="0 0 2 0.5 0.5 .016"/><motor name="x" site="right"/></actuator></mujoco>"""


def test_motors_on_sites():
    """Rotors: forces and torques of one control, as MuJoCo applies them."""
    model, named = formats.loads_with_configurations(ROTORS, "mjcf")
    assert model.inputs == ("l", "r", "x")
    u = np.array([0.7, -0.4, 0.3])
    v = np.zeros(6)
    force = mechanics.force(model, named["q0"], v, u)
    mujoco = pytest.importorskip("mujoco")
    m = mujoco.MjModel.from_xml_string(ROTORS)
    d = mujoco.MjData(m)
    d.ctrl[:] = u
    mujoco.mj_forward(m, d)
    np.testing.assert_allclose(force, d.qfrc_actuator, atol=1e-12)


BODY = '<mujoco><worldbody><body name="b"><joint name="q" {}/><geom size="1"/>{}</body></worldbody>{}</mujoco>'

# (text, what the message says)
REFUSED = [
    ("<robot/>", "starts with <mujoco>"),
    ("<mujoco/>", "no <worldbody>"),
    ("<mujoco><worldbody><body></mujoco>", "bad XML: mismatched tag"),
    (BODY.format('type="screw"', "", ""), "joint type 'screw'"),
    (BODY.format('axis="0 0 0"', "", ""), "the axis is zero"),
    (BODY.format('axis="0 0"', "", ""), "axis needs 3 numbers, got 2"),
    (BODY.format('class="c"', "", ""), "unknown default class 'c'"),
    (BODY.format("", '<body name="b"/>', ""), "two bodies are called 'b'"),
    (BODY.format("", '<joint name="q"/>', ""), "two joints are called 'q'"),
    (BODY.format("", "<freejoint/>", ""), "a free joint must be the only joint"),
    (BODY.format("", '<geom type="mesh" mesh="m"/>', ""), "the mass of a mesh is not computed"),
    (BODY.format("", '<geom type="box" size="1"/>', ""), "needs 3 positive sizes"),
    (BODY.format("", '<geom type="blob" size="1"/>', ""), "geom type 'blob'"),
    (BODY.format("", '<body name="c"><joint name="p"/></body>', ""), "dynamic variable 'p' moves no mass"),
    (BODY.format("", '<body quat="0 0 0 0"/>', ""), "quat is zero"),
    (BODY.format("", '<body quat="1 0 0 0" euler="0 0 0"/>', ""), "several orientations"),
    (BODY.format("", '<composite type="cable"/>', ""), "<composite> in a body is not supported"),
    (BODY.format("", '<body mocap="true"/>', ""), "mocap"),
    (BODY.format("", "", '<equality><connect body1="x" anchor="0 0 0"/></equality>'), "unknown body 'x'"),
    (BODY.format("", "", '<equality><weld body1="b"/></equality>'), "6 constraint rows but only 1"),
    (BODY.format("", "", '<equality><joint joint1="p"/></equality>'), "unknown joint 'p'"),
    (BODY.format("", "", '<equality><joint joint1="q" joint2="q"/></equality>'), "the same"),
    (BODY.format("", "", '<equality><tendon tendon1="t"/></equality>'), "unknown tendon 't'"),
    (BODY.format("", "", '<actuator><motor joint="p"/></actuator>'), "unknown joint 'p'"),
    (BODY.format("", "", '<compiler coordinate="global"/>'), "coordinate='global' is not supported"),
    (BODY.format("", "", '<compiler eulerseq="xyw"/>'), "eulerseq 'xyw'"),
    (BODY.format("", "", '<include file="other.xml"/>'), "<include> is not supported"),
    (BODY.format("", "", '<keyframe><key qpos="1 2"/></keyframe>'), "qpos needs 1 numbers, got 2"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_refused_with_the_reason(text, says):
    with pytest.raises(da.ModelError) as caught:
        formats.loads(text, "mjcf")
    assert says in str(caught.value)
    assert caught.value.line is not None


BOMB = """<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<{0} name="&b;"/>"""
OUTSIDE = """<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><{0} name="r"><link name="&e;"/></{0}>"""


@pytest.mark.parametrize(("kind", "root"), [("mjcf", "mujoco"), ("urdf", "robot")])
def test_entities_are_refused(kind, root):
    for text in (BOMB, OUTSIDE):
        with pytest.raises(da.ModelError, match="refused for safety") as caught:
            formats.loads(text.format(root), kind)
        assert caught.value.line == 1


def test_skip_leaves_out():
    text = BODY.format('armature="1"', "", "")
    assert formats.loads(text, "mjcf", skip="armature").variables == ("q",)
    with pytest.raises(ValueError, match="skip"):
        formats.loads(text, "mjcf", skip="everything")


def test_cam_from_polynomial():
    text = BODY.format(
        'range="-90 90" limited="true"',
        '<body><joint name="p"/><geom size="1"/></body>',
        '<equality><joint joint1="p" joint2="q" polycoef="0 1 0.5 0.25 0.125"/></equality>',
    )
    cam, limit = formats.loads(text, "mjcf").elements[-2:]
    assert (limit.variable, limit.low, limit.high) == ("q", -np.pi / 2, np.pi / 2)
    assert (cam.driver, cam.follower) == ("q", "p")
    for x in (-1.5, 0.3, 1.2):
        assert cam.profile(x) == pytest.approx(x + 0.5 * x**2 + 0.25 * x**3 + 0.125 * x**4, abs=1e-12)


# ---- writing


def same_mechanics(a, b, rng):
    """The same M, gravity and spring forces, constraints (up to sign and scale) and named poses, by names."""
    q = dict(zip(a.variables, a.random(rng), strict=True))
    assert set(a.variables) == set(b.variables)
    (qa, qb) = ([q[v] for v in m.variables] for m in (a, b))
    order = [b.velocity_index(v) for v in a.velocities]
    ma, mb = mechanics.mass_matrix(a, qa), mechanics.mass_matrix(b, qb)
    assert np.abs(ma - mb[np.ix_(order, order)]).max() < 1e-11
    assert np.abs(mechanics.potential_gradient(a, qa) - mechanics.potential_gradient(b, qb)[order]).max() < 1e-11
    for name in a.frame_names:
        assert np.abs(mechanics.pose(a, qa, name) - mechanics.pose(b, qb, name)).max() < 1e-11
    ha, hb = (np.sort(np.abs(mechanics.constraints(m, x))) for m, x in ((a, qa), (b, qb)))
    assert np.abs(ha - hb).max(initial=0.0) < 1e-11


def tree():
    from dalembert import rx, ry, rz, tx, ty, tz

    return da.Model(
        [
            rx(
                "a",
                tz(-0.5, mass=1.0, inertia=(1, 2, 2), name="m"),
                tx(0.3, ry("b", rz(0.4, tz("c", ty(0.1, name="end", mass=2.0, com=(0.1, 0, 0), inertia=(1, 1, 1)))))),
            ),
            da.floating("body", tz(0.2, name="nose"), name="hull", mass=1.0, inertia=(1, 2, 2.5, 0.1, 0, 0)),
            da.planar(
                "p",
                tz(
                    0.2,
                    name="puck",
                    mass=1.0,
                    inertia=(1, 1, 1),
                    visuals=[da.Visual("box", (1, 2, 3), color=(1, 0, 0))],
                ),
            ),
            tx(2.0, name="post"),
        ],
        [
            da.Gravity((0, 1, -9.81)),
            da.Damping(0.0, {"b": 0.1}),
            da.ConfigSpring("c", 2.0, 0.1),
            da.ConfigForce("a", "torque"),
            da.LinearSpring("end", "nose", 3.0, 0.5),
            da.LinearDamper("m", "post", 0.5),
            da.Distance("m", "post", 1.75),
            da.PointToPoint("puck", "nose"),
            da.LinearRelation({"a": 1.0, "b": 2.0}, 0.3),
            da.LinearRelation({"a": 2.0, "b": 1.0, "c": -1.0}, 0.1),
            da.LinearRelation({"p.rz": 1.0}, 0.5),
        ],
        "tree",
    )


def test_written_and_read_again():
    model = tree()
    q = model.random(3)
    text = formats.dumps(model, "mjcf", configurations={"pose": q})
    again, named = formats.loads_with_configurations(text, "mjcf")
    same_mechanics(model, again, np.random.default_rng(0))
    assert again.inputs == model.inputs
    assert named["pose"] == pytest.approx([q[model.index(v)] for v in again.variables], abs=1e-12)
    assert {type(e) for e in again.elements} == {type(e) for e in model.elements}
    damping = next(e for e in again.elements if isinstance(e, da.Damping))
    assert dict(damping.coefficients) == {"b": 0.1}


def test_mujoco_reads_what_is_written():
    mujoco = pytest.importorskip("mujoco")
    model = tree()
    m = mujoco.MjModel.from_xml_string(formats.dumps(model, "mjcf"))
    assert m.nv == model.nd
    model = models.load("eight_link")
    m = mujoco.MjModel.from_xml_string(formats.dumps(model, "mjcf"))
    data = mujoco.MjData(m)
    q = np.random.default_rng(1).uniform(-1, 1, model.nq)
    data.qpos[:] = q
    mujoco.mj_forward(m, data)
    full = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, full)
    assert np.abs(full - mechanics.mass_matrix(model, q)).max() < 1e-9
    assert np.abs(data.qfrc_bias - mechanics.potential_gradient(model, q)).max() < 1e-9


@pytest.mark.parametrize("text", [ARM, FREE])
def test_read_written_read(text):
    model, named = formats.loads_with_configurations(text, "mjcf")
    again, back = formats.loads_with_configurations(formats.dumps(model, "mjcf", configurations=named), "mjcf")
    key = "home" if "home" in named else "q0"
    assert back[key] == pytest.approx(named[key])
    same_mechanics(model, again, np.random.default_rng(4))


@pytest.mark.parametrize(
    "element",
    [
        da.Cam("x", "y", [(0, 0), (1, 1)]),
        da.Wrench("a"),
        da.PointToPoint("a", "b", "x"),
        da.Gravity(masses=("a",)),
        da.LinearSpring("a", "b", 1.0, -1.0),
        da.Distance("a", "b", da.Kinematic("r")),
    ],
)
def test_what_mjcf_cannot_say(element):
    model = da.Model([da.tx("x", name="a", mass=1.0), da.tx("y", name="b", mass=1.0)], [element])
    with pytest.raises(da.ModelError, match="MJCF") as caught:
        formats.dumps(model, "mjcf")
    assert caught.value.culprit
