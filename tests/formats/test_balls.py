"""Balls and floating bodies in files: every format that has them, and honest words where it does not."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import formats, mechanics
from dalembert.errors import ModelError


def crane() -> da.Model:
    """A prescribed ball, a floating body, a ball behind it."""
    arm = da.tx(0.3, da.ball("wrist", da.tz(-0.2, name="tip"), name="hand", mass=0.4, inertia=(0.1, 0.2, 0.25)))
    body = da.floating("base", arm, name="hull", mass=2.0, inertia=(1.0, 1.5, 2.0), com=(0.1, 0.0, 0.0))
    eye = da.ball(da.Kinematic("gimbal"), da.tx(1.0, name="eye"))
    return da.Model([body, eye], [da.Gravity(), da.Damping(0.0, {"wrist.wx": 0.1, "base.vx": 0.2})], "crane")


def without_prescribed() -> da.Model:
    model = crane()
    return da.Model(model.frames[:1], [da.Gravity((0.0, 0.0, -9.81))], "crane")


@pytest.mark.parametrize("kind", ["toml", "json", "sexp"])
def test_text_keeps_balls_and_quaternions(kind):
    model = crane()
    q = model.random(1)
    text = formats.dumps(
        model, kind, configurations={"pose": q, "named": {"base": [0.0, 0.0, np.pi / 2], "base.z": 1.0}}
    )
    again, named = formats.loads_with_configurations(text, kind)
    assert again == model
    assert again.kinematic == ("gimbal.qw", "gimbal.qx", "gimbal.qy", "gimbal.qz")
    np.testing.assert_array_equal(named["pose"], q)
    np.testing.assert_allclose(named["named"], model.configuration.point({"base": [0, 0, np.pi / 2], "base.z": 1.0}))


def test_a_configuration_leaves_balls_neutral_and_refuses_what_is_no_rotation():
    text = formats.dumps(without_prescribed(), "toml")
    _, named = formats.loads_with_configurations(text + '\n[configurations.up]\n"base.z" = 1.0\n', "toml")
    np.testing.assert_array_equal(named["up"], without_prescribed().configuration.point({"base.z": 1.0}))
    with pytest.raises(ModelError, match="quaternion of 'wrist' has length 2"):
        formats.loads_with_configurations(text + '\n[configurations.up]\n"wrist.qw" = 2.0\n', "toml")


def test_urdf_floats():
    base = da.floating("base", da.rx("knee", name="leg", mass=0.3, inertia=(0.1, 0.1, 0.1)), name="hull", mass=1.0)
    model = da.Model(
        [da.tx(1.0, base)], [da.Gravity((0, 0, -9.81)), da.Damping(0.0, {"base.x": 0.0, "knee": 0.1})], "m"
    )
    again = formats.loads(formats.dumps(model, "urdf"), "urdf")
    assert again.variables == model.variables
    q = model.random(2)
    for frame in ("hull", "leg"):
        np.testing.assert_allclose(mechanics.pose(again, q, frame), mechanics.pose(model, q, frame), atol=1e-14)
    np.testing.assert_allclose(mechanics.mass_matrix(again, q), mechanics.mass_matrix(model, q), atol=1e-12)
    with pytest.raises(ModelError, match="no ball joints"):
        formats.dumps(without_prescribed(), "urdf")
    uneven = da.Model(model.frames, [da.Damping(0.0, {"base.x": 0.3})])  # named by its coordinate, not lost
    with pytest.raises(ModelError, match="one damping"):
        formats.dumps(uneven, "urdf")


def test_mjcf_floats_and_turns():
    model = without_prescribed()
    q = model.random(4)
    text = formats.dumps(model, "mjcf", configurations={"pose": q})
    assert "<freejoint" in text
    assert 'type="ball"' in text
    again, named = formats.loads_with_configurations(text, "mjcf")
    assert again.variables == model.variables
    np.testing.assert_allclose(named["pose"], q, atol=1e-15)
    np.testing.assert_allclose(mechanics.mass_matrix(again, q), mechanics.mass_matrix(model, q), atol=1e-12)
    for element in (
        da.Damping(0.0, {"wrist.wx": 0.1}),
        da.Damping(0.0, {"base.x": 0.1}),
        da.ConfigForce("wrist.wz", "u"),
    ):
        with pytest.raises(ModelError, match="belongs to a free or a ball joint"):
            formats.dumps(da.Model(model.frames, [element]), "mjcf")
    with pytest.raises(ModelError, match="kinematic"):
        formats.dumps(crane(), "mjcf")


def test_mujoco_has_the_same_mass_matrix_and_forces():
    """MuJoCo's velocities are ours: positions in world axes, rotations in body axes."""
    mujoco = pytest.importorskip("mujoco")
    model = without_prescribed()
    m = mujoco.MjModel.from_xml_string(formats.dumps(model, "mjcf"))
    data = mujoco.MjData(m)
    q = model.random(5)
    data.qpos[:] = q
    mujoco.mj_forward(m, data)
    full = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, full)
    np.testing.assert_allclose(full, mechanics.mass_matrix(model, q), atol=1e-10)
    np.testing.assert_allclose(data.qfrc_bias, mechanics.potential_gradient(model, q), atol=1e-10)
