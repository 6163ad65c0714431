"""The same mechanism both ways: Model to bodies and joints."""

import numpy as np
import pytest

import dalembert as da
from dalembert import (
    ConfigForce,
    Distance,
    Gravity,
    Kinematic,
    LinearSpring,
    Model,
    ModelError,
    rx,
    ry,
    rz,
    se3,
    tx,
    ty,
    tz,
)
from dalembert.direct.dmocc import configuration, coordinates, from_model, model_configuration, simulate
from dalembert.direct.dmocc.kernels import dense, kernels

SOLID = {"mass": 2.0, "inertia": (1.0, 2.0, 2.5)}


def mechanism():
    """One of each joint: a free hull with a wheel, a ball-jointed leg, a sliding and a cylindrical part, and a puck."""
    tilt = np.eye(4)
    tilt[:3, :3] = [[0, -1, 0], [0, 0, -1], [1, 0, 0]]
    tilt[:3, 3] = [0.1, 0.2, 0.3]
    hull = da.free(
        "hull",
        rz("wheel", tx(0.1, **SOLID)),
        tx(0.3, ry("l1", rx("l2", rz("l3", tz(-0.4, name="leg", com=(0.1, 0, 0), **SOLID))))),
        se3(tilt, tx("rail", name="cart", **SOLID)),
        ty(0.5, tz("out", rz("turn", tx(0.2, **SOLID)))),
        name="hull",
        **SOLID,
    )
    puck = tx("x", ty("y", rz("phi", name="puck", **SOLID)))
    forces = [ConfigForce(v, f"f {v}") for v in ("wheel", "rail", "out", "turn", "x", "phi")]
    return Model([hull, puck], [Gravity((0, 0, -9.8)), LinearSpring("hull", "puck", 10.0, 0.1), *forces])


def test_kinds_names_and_inputs():
    s = from_model(mechanism())
    assert sorted(j.kind for j in s.joints) == ["C", "E", "P", "R", "S", "free"]
    assert {"wheel", "rail", "out", "turn", "x", "y", "phi"} <= set(s.coordinates)
    assert set(s.inputs) == {"wheel", "rail", "out", "turn", "x", "phi"}
    assert s.nd == mechanism().nd


def test_configurations_agree():
    model = mechanism()
    s = from_model(model)
    q = np.random.default_rng(0).normal(size=model.nq) * 0.5
    whole = model_configuration(model, q)
    assert np.abs(dense(kernels(s).constraints(whole)[0])).max() < 1e-13
    u = coordinates(s, whole)
    assert np.abs(configuration(s, u) - whole).max() < 1e-13
    for name in ("wheel", "rail", "out", "turn", "x", "y", "phi"):
        assert u[s.coordinates.index(name)] == pytest.approx(q[model.index(name)], abs=1e-12)


def test_accelerations_agree_with_the_model():
    # masses, gravity, springs, forces: one short step from rest moves by h^2/2 times the model's acceleration
    model = mechanism()
    s = from_model(model)
    rng = np.random.default_rng(1)
    q, tau = rng.normal(size=model.nq) * 0.4, rng.normal(size=model.nu)
    ddq, _ = da.acceleration(model, q, np.zeros(model.nq), tau)
    order = [model.input_index(f"f {c}") for c in s.inputs]
    h, eps = 1e-3, 1e-5
    motion = simulate(s, dt=h, steps=1, u=coordinates(s, model_configuration(model, q)), tau=tau[order])
    columns = [
        (model_configuration(model, q + eps * e) - model_configuration(model, q - eps * e)) / (2 * eps)
        for e in np.eye(model.nq)
    ]
    expected = 0.5 * h**2 * np.array(columns).T @ ddq
    assert np.abs(motion.q[1] - motion.q[0] - expected).max() < 1e-4 * np.abs(expected).max()


def test_planar_inertia_is_accepted_and_gives_the_pendulum():
    model = Model([rz("a", tx(0.5, mass=1.0, inertia=(0, 0, 1 / 12)))], [Gravity((0, -9.81, 0))])
    motion = simulate(from_model(model), dt=1e-3, steps=100, u=[0.0])
    # a rod released level: initial angular acceleration 3 g / (2 l)
    assert motion["a"][100] == pytest.approx(-0.5 * 1.5 * 9.81 * 0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("frames", "elements", "reason"),
    [
        ([tx(Kinematic("k"), mass=1.0)], [], "kinematic"),
        ([rz("a", pitch=0.1, **SOLID)], [], "screw"),
        ([rz("a", tx(1.0, ry("b", **SOLID)))], [], "none of"),
        ([rz("a", tx("b", **SOLID))], [], "cylinder"),
        ([rz("a", tx("b", ty("c", **SOLID)))], [], "plane joint"),
        ([rz("a", tx(1.0, ry("b", rx("c", **SOLID))))], [], "ball joint"),
        ([rz("a", tz("b", **SOLID), tz("c", **SOLID))], [], "massless"),
        ([rz("a", ry("b", rx("c", **SOLID)))], [ConfigForce("b", "u")], "ball joint"),
        ([rz("a", **SOLID)], [ConfigForce("a", "u"), ConfigForce("a", "v")], "one input"),
        ([tx("a", ty("b", rz("c", tx(1.0, **SOLID))))], [ConfigForce("a", "u")], "centre of mass"),
        ([rz("a", inertia=(1, 1, 1))], [], "mass"),
    ],
)
def test_what_cannot_be_converted_says_why(frames, elements, reason):
    with pytest.raises(ModelError, match=reason):
        from_model(Model(frames, elements))


def test_constraints_are_refused_by_name():
    model = Model(
        [rz("a", tx(1.0, name="tip", **SOLID)), ty(1.0, rz("b", tx(1.0, name="end", **SOLID)))],
        [Distance("tip", "end", 1.0)],
    )
    with pytest.raises(ModelError, match="close loops"):
        from_model(model)
