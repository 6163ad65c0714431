"""What is asked by name of models with balls, and what they cannot do."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ModelError, SingularityError
from dalembert.optimization.continuous import ContinuousSystem

from ..balls import mechanism, random_mechanism


def drone() -> da.Model:
    body = da.floating("base", name="body", mass=1.5, inertia=(0.02, 0.025, 0.04))
    return da.Model([body], [da.Gravity(), da.Wrench("body", force=(0.0, 0.0, "f"), torque=("a", "b", "c"))])


def test_trim_takes_balls_by_name():
    """Thrust carries the weight; about a spin the torque is w x I w."""
    model = drone()
    np.testing.assert_allclose(da.trim(model, {"base.z": 2.0}), [1.5 * 9.81, 0, 0, 0], atol=1e-9)
    w = np.array([1.0, 2.0, 3.0])
    found = da.trim(model, {"base": [0.0, 0.0, 0.3]}, v={"base": w})
    np.testing.assert_allclose(found[1:], np.cross(w, np.array([0.02, 0.025, 0.04]) * w), atol=1e-9)


def test_what_needs_numbers_refuses_balls():
    model = drone()
    with pytest.raises(ModelError, match="ball 'base'"):
        ContinuousSystem(model, np.linspace(0, 1, 11))
    with pytest.raises(ModelError, match="ball 'base'"):
        da.simulate_continuous(model, model.neutral(), np.zeros(6), [0.0, 1.0])


def _slope(f, n, h=1e-3):
    """Derivatives (..., n) of f at 0, central differences of the fourth order."""
    columns = []
    for e in np.eye(n):
        columns.append((8 * (f(h * e) - f(-h * e)) - (f(2 * h * e) - f(-2 * h * e))) / (12 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("seed", range(12))
def test_derivatives_of_the_acceleration(seed):
    """Along turns about body axes, by velocities, inputs and prescribed accelerations; every fourth with a prescribed ball."""
    m = mechanism(seed, prescribed=True) if seed % 4 == 3 else random_mechanism(seed)
    r = np.random.default_rng(seed)
    q, v = m.random(r), r.normal(size=m.nv)
    u, k = r.normal(size=m.nu), r.normal(size=m.nkv)
    found = da.acceleration(m, q, v, u, k, derivatives=True)
    plain = da.acceleration(m, q, v, u, k)
    np.testing.assert_allclose(found.ddq, plain.ddq, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.lam, plain.lam, rtol=1e-9, atol=1e-9)

    def at(d):
        a = da.acceleration(m, m.integrate(q, d[: m.nv]), v + d[m.nv : 2 * m.nv], u + d[2 * m.nv : len(d) - m.nkv],
                            k + d[len(d) - m.nkv :])  # fmt: skip
        return np.r_[a.ddq[: m.nd], a.lam]

    wanted = _slope(at, 2 * m.nv + m.nu + m.nkv)
    got = np.vstack(
        [
            np.hstack([found.ddq_q, found.ddq_v, found.ddq_u, found.ddq_k]),
            np.hstack([found.lam_q, found.lam_v, found.lam_u, found.lam_k]),
        ]
    )
    assert np.abs(got - wanted).max() < 1e-7 * (1 + np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(4))
def test_the_symbolic_model_is_the_core(seed):
    """Poses, energies, mass matrix, constraints and their derivatives along the velocities."""
    import casadi as ca

    m = random_mechanism(seed)
    s = da.symbolic.Symbolic(m)
    r = np.random.default_rng(seed)
    q, v = m.random(r), r.normal(size=m.nv)

    def value(expression):
        return np.array(ca.Function("f", [s.q, s.v], [expression])(q, v))

    for i in range(len(m.frame_entries)):
        np.testing.assert_allclose(value(s.pose(i)), da.poses(m, q)[i], atol=1e-12)
    tip = next(name for name in reversed(m.frame_names) if name.startswith("tip"))
    jacobian = da.frame_jacobian(m, q, tip)
    np.testing.assert_allclose(value(s.velocity(tip)).ravel(), (jacobian @ v)[3:], atol=1e-12)
    np.testing.assert_allclose(value(s.angular_velocity(tip)).ravel(), (jacobian @ v)[:3], atol=1e-12)
    np.testing.assert_allclose(value(s.mass_matrix()), da.mass_matrix(m, q), atol=1e-11)
    np.testing.assert_allclose(value(s.kinetic_energy()), da.kinetic_energy(m, q, v), rtol=1e-12)
    np.testing.assert_allclose(value(s.potential_energy()), da.potential_energy(m, q), rtol=1e-12)
    np.testing.assert_allclose(value(s.constraint_jacobian()), da.constraint_jacobian(m, q), atol=1e-12)


def test_elements_of_your_own_beside_balls():
    """On hinges and sliders."""
    arm = da.rx("arm", da.tz(-1.0, name="hand", mass=1.0))
    bodies = [da.tx("x", da.floating("base", arm, name="body", mass=1.0, inertia=(1, 1, 1)), mass=1.0)]
    spring = da.Potential(lambda m: 2.0 * m["arm"] ** 2 + m["x"], name="own")
    model = da.Model(bodies, [spring, da.Force(lambda m: {"arm": -m.velocity("arm") * m["x"]}, name="drag")])
    q, v = model.neutral(), np.arange(1.0, model.nv + 1)
    q[model.index("arm")], q[model.index("x")] = 0.3, 0.7
    grad = da.potential_gradient(model, q)
    assert grad[model.velocity_index("arm")] == pytest.approx(1.2)
    assert grad[model.velocity_index("x")] == pytest.approx(1.0)
    at = model.velocity_index("arm")
    assert da.force(model, q, v)[at] == pytest.approx(-v[at] * 0.7)


@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_a_ball_without_inertia_about_an_axis_is_named(offset):
    m = da.Model([da.ball("b", da.tx(0.0, da.tz(-1.0, name="bob", mass=1.0)))], [da.Gravity()])
    with pytest.raises(SingularityError, match=r"b\.wz") as caught:
        da.MidpointVI(m, 0.01)
    assert caught.value.variables == ("b.wz",)
    two = da.tx(offset, name="side", mass=0.1)
    m = da.Model([da.ball("b", da.tz(-1.0, name="bob", mass=1.0), two)], [da.Gravity()])
    if not offset:
        with pytest.raises(SingularityError):
            da.MidpointVI(m, 0.01)
    else:
        da.MidpointVI(m, 0.01)


@pytest.mark.parametrize("held", [False, True])
def test_velocities_of_a_long_chain_of_balls_without_the_mass_matrix(held):
    """Balls and hinges, a branch, a prescribed ball: momenta lead back to the velocities, as the mass matrix does."""
    rng = np.random.default_rng(5)
    frame = None
    for i in reversed(range(12)):
        below = [] if frame is None else [da.tz(-0.3, frame)]
        if i == 6:
            below.append(da.rx("h", da.ty(0.2, da.ball("side", name="S", mass=0.2, inertia=(0.01, 0.02, 0.015)))))
        variable = da.Kinematic("b3") if held and i == 3 else f"b{i}"
        frame = da.ball(variable, *below, name=f"B{i}", mass=rng.uniform(0.1, 1), inertia=rng.uniform(0.01, 0.02, 3))
    model = da.Model([frame])
    q, v = model.random(3), rng.normal(size=model.nv)
    nd = model.nd
    p = (da.mass_matrix(model, q) @ v)[:nd]
    found = da.mechanics.core(model).velocity(q[None], p[None], v[None, nd:])[0][0]
    np.testing.assert_allclose(found, v, atol=1e-9)


NAMED = (
    da.ConfigSpring("b.qx", 1.0),
    da.ConfigSpring("b.wx", 1.0),
    da.ConfigForce("b.qx", "u"),
    da.Damping({"b.qw": 1.0}),
    da.LinearRelation({"b.qx": 1.0, "x": 1.0}),
)


@pytest.mark.parametrize("element", NAMED, ids=lambda e: e.label)
def test_elements_that_cannot_act_on_a_ball_are_refused_by_the_model(element):
    frames = [da.ball("b", da.tx("x", mass=1.0), inertia=(1, 1, 1))]
    with pytest.raises(ModelError, match="belongs to a ball"):
        da.Model(frames, [element])
    da.MidpointVI(da.Model(frames, [da.ConfigForce("b.wx", "u"), da.Damping({"b.wy": 1.0})]), 0.01)
