"""Readers of robot files tell what they leave out: one warning with lines, or an error where strict."""

import re
import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert import formats

MJCF = """<mujoco>
{before}
<worldbody><body name="b">
<joint name="q" type="{kind}" {joint}/>
<geom size="1" contype="0" conaffinity="0"/>{body}
</body></worldbody>
{after}
</mujoco>"""


def mjcf(joint="", body="", after="", before="", kind="hinge"):
    return MJCF.format(joint=joint, body=body, after=after, before=before, kind=kind)


# (text, line, feature that silences it, what is told)
LEFT_OUT = [
    (mjcf('armature="1"'), 4, "armature", "joint 'q': armature 1"),
    (mjcf('frictionloss="0.5"'), 4, "frictionloss", "joint 'q': frictionloss 0.5"),
    (mjcf('range="0 90"', kind="ball"), 4, "range", "joint 'q': range up to 1.5708"),
    (mjcf('range="90 -90"'), 4, "range", "joint 'q': range 1.5708 to -1.5708"),
    (mjcf('actuatorfrcrange="-1 1"'), 4, None, "joint 'q': actuatorfrcrange='-1 1'"),
    (mjcf('damping="1"', kind="ball"), 4, "damping", "joint 'q': damping of a ball joint"),
    (mjcf('stiffness="1"', kind="ball"), 4, "stiffness", "joint 'q': stiffness of a ball joint"),
    (mjcf(body='<body gravcomp="1"/>'), 5, "gravcomp", "gravity compensation"),
    (
        mjcf(body='\n<geom size="1"/><body><geom size="1"/></body>'),
        6,
        "contact",
        "contacts of a geom (2 times, here first)",
    ),
    (mjcf(after='<equality><flex flex="f"/></equality>'), 7, "equality", "equality <flex>"),
    (mjcf(after='<equality>\n<joint joint1="q" solref="1 1"/></equality>'), 8, None, "constraints are hard"),
    (
        mjcf(after='<tendon><spatial name="t"><site site="s"/></spatial></tendon>'),
        7,
        "tendon",
        "tendon 't', which does not run",
    ),
    (
        mjcf(after='<tendon><fixed name="t" range="0 1"><joint joint="q" coef="1"/></fixed></tendon>'),
        7,
        "range",
        "tendon 't': its range",
    ),
    (mjcf(after='<actuator><muscle joint="q"/></actuator>'), 7, "actuator", "actuator 'q' <muscle>"),
    (mjcf(after='<actuator><motor tendon="t"/></actuator>'), 7, "actuator", "actuator 'motor' <motor>"),
    (mjcf(after='<actuator><general joint="q" dyntype="filter"/></actuator>'), 7, "actuator", "without dynamics"),
    (
        mjcf(after='<actuator><motor joint="q" ctrlrange="-1 1"/></actuator>'),
        7,
        "range",
        "ctrlrange -1 1 (inputs are not limited)",
    ),
    (mjcf(after='<option density="1.2"/>'), 7, "fluid", "a surrounding fluid"),
]


@pytest.mark.parametrize(("text", "line", "feature", "says"), LEFT_OUT)
def test_mjcf(text, line, feature, says):
    with pytest.warns(da.ModelWarning) as caught:
        formats.loads(text, "mjcf")
    (told,) = caught
    assert len(told.message.notes) == 1
    assert told.message.notes[0][0] == line
    assert says in told.message.notes[0][1]
    assert f"line {line}: " in str(told.message)
    assert told.filename == __file__  # where the user called
    with pytest.raises(da.ModelError, match=re.escape(says)) as refused:
        formats.loads(text, "mjcf", strict=True)
    assert refused.value.line == line
    if feature is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            formats.loads(text, "mjcf", skip=feature)


def test_what_is_said_needs_no_warning():
    """Masses, springs, dampers, gears, gravity, flags: strict reads them."""
    text = mjcf(
        'stiffness="2" damping="0.1" springref="10" limited="false" range="0 1"',
        after='<actuator><motor joint="q" gear="10"/></actuator>',
    )
    assert formats.loads(text, "mjcf", strict=True).inputs == ("q",)
    assert formats.loads('(system (tx "x" (mass 1)))', "sexp", strict=True).nq == 1


URDF = """<robot name="r">
<link name="base"><collision/></link>
<link name="arm"><inertial><mass value="1"/></inertial><collision/><contact/></link>
<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="2" effort="5" velocity="1e6"/>
<dynamics damping="0.5" friction="0.25"/>
<safety_controller k_velocity="1"/></joint>
<transmission name="t"/><gazebo/><gazebo/>
</robot>"""


def test_urdf(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF.replace("<mass", '<origin xyz="1 0 0"/><mass'))
    with pytest.warns(da.ModelWarning) as caught:
        model = da.load(path)
    (told,) = caught
    assert told.message.file == str(path)
    assert told.message.notes == (
        (2, "contacts of a <collision> shape (2 times, here first)"),
        (3, "<contact>"),
        (5, "the largest effort of a joint"),
        (6, "joint 'j': friction 0.25"),
        (7, "joint 'j': <safety_controller>"),
        (8, "<transmission>"),
        (8, "<gazebo> (2 times, here first)"),
    )
    assert str(told.message).startswith(f"{path}: the model does not represent\n  line 2: ")
    assert model.elements[-2].coefficient("j") == 0.5
    with pytest.raises(
        da.ModelError, match=r"not represented: contacts of a <collision> shape .*, and 6 more"
    ) as refused:
        da.load(path, strict=True)
    assert (refused.value.file, refused.value.line) == (str(path), 2)


def test_written_files_are_said_whole():
    model = da.Model([da.tx("x", da.rz("a", da.ty(-1.0, mass=1.0)), mass=1.0)], [da.Gravity((0, 0, -9.81))])
    assert formats.loads(formats.dumps(model, "urdf"), "urdf", strict=True).variables == ("x", "a")


# ---- MuJoCo as oracle

ACTUATED = """<mujoco><compiler angle="radian" autolimits="false"/><option gravity="0 0 -9.81" timestep="1e-4"/>
<default><general gear="3"/><position kp="7"/></default>
<worldbody><body name="a"><joint name="hip" axis="0 1 0" stiffness="4" springref="0.3" damping="0.6"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05" mass="1"/>
  <body name="b" pos="0 0 -0.5"><joint name="knee" axis="0 1 0" damping="0.2"/><joint name="slide" type="slide" axis="0 0 1" stiffness="30"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="0.7"/></body></body></worldbody>
<actuator><motor name="drive" joint="hip" gear="10"/><position name="servo" joint="knee" gear="2" kv="0.3"/>
  <velocity name="speed" joint="slide" kv="1.5"/><general name="any" joint="knee" gainprm="2" biastype="affine" biasprm="0.5 -1 -0.1"/></actuator>
</mujoco>"""


def test_forces_are_those_of_mujoco():
    """Gears, servos, springs and dampers: accelerations at random states and controls."""
    mujoco = pytest.importorskip("mujoco")
    their = mujoco.MjModel.from_xml_string(ACTUATED)
    data = mujoco.MjData(their)
    ours = formats.loads(ACTUATED, "mjcf", skip="contact", strict=True)
    assert ours.inputs == ("drive", "servo", "speed", "any")
    rng = np.random.default_rng(0)
    for _ in range(20):
        q, v, u = rng.normal(size=3), rng.normal(size=3), rng.normal(size=4)
        data.qpos, data.qvel, data.ctrl = q, v, u
        mujoco.mj_forward(their, data)
        order = [ours.index(name) for name in ("hip", "knee", "slide")]
        x, w = np.empty(3), np.empty(3)
        x[order], w[order] = q, v
        found = da.mechanics.acceleration(ours, x, w, u).ddq
        assert np.abs(found[order] - data.qacc).max() < 1e-9 * np.abs(data.qacc).max()


def test_a_gear_of_ten_pushes_ten_times():
    one, ten = (
        formats.loads(mjcf(after=f'<actuator><motor name="m" joint="q" gear="{gear}"/></actuator>'), "mjcf")
        for gear in (1, 10)
    )
    steps = [
        da.MidpointVI(model, 0.01).step(da.MidpointVI(model, 0.01).state(), u).p
        for model, u in ((one, [10.0]), (ten, [1.0]))
    ]
    assert np.abs(steps[0] - steps[1]).max() < 1e-14
    assert formats.loads(formats.dumps(ten, "mjcf"), "mjcf").elements[-1].gear == 10
