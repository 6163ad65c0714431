"""Symbolic against numbers computed independently with numpy: poses by products, rates by differences."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.symbolic import Symbolic, spline_integral, spline_value

RNG = np.random.default_rng(7)


def rot(axis, angle):
    a, b = (axis + 1) % 3, (axis + 2) % 3
    r = np.eye(3)
    r[a, a] = r[b, b] = math.cos(angle)
    r[b, a], r[a, b] = math.sin(angle), -math.sin(angle)
    return r


def numeric_pose(model, q, index):
    """4x4 pose of a frame, by numpy."""
    chain = []
    while index > 0:
        chain.append(model.frame_entries[index].frame)
        index = model.frame_entries[index].parent
    g = np.eye(4)
    for frame in reversed(chain):
        step = np.eye(4)
        if frame.transform == "se3":
            step = np.array(frame.value)
        else:
            x = frame.value if frame.variable is None else q[model.index(frame.variable)]
            axis = "xyz".index(frame.transform[1])
            if frame.transform[0] == "t":
                step[axis, 3] = x
            else:
                step[:3, :3] = rot(axis, x)
                step[axis, 3] = frame.pitch * x
        g = g @ step
    return g


def numeric_rate(model, q, v, index, h=1e-6):
    """d/dt pose by a fourth-order difference."""
    at = lambda s: numeric_pose(model, q + s * h * v, index)  # noqa: E731
    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)


def evaluate(s, expression, q, v=None, u=None):
    f = ca.Function("f", [s.q, s.v, s.u], [expression])
    out = f(q, np.zeros(len(q)) if v is None else v, np.zeros(s.u.numel()) if u is None else u)
    return np.array(out)


def arm():
    tilted = np.eye(4)
    tilted[:3, :3] = rot(0, 0.3) @ rot(2, -0.7)
    tilted[:3, 3] = 0.1, -0.2, 0.3
    inertia = [[0.5, 0.02, 0.01], [0.02, 0.4, -0.03], [0.01, -0.03, 0.3]]
    return [
        da.tx(
            "x",
            da.rz(
                "a",
                da.ty(-1.0, da.rx("b", da.tz(0.4, name="tip", mass=0.2), name="mid"), mass=1.0, com=(0.1, 0.2, 0.3)),
                name="hub",
                mass=(0.7, 0.1, 0.2, 0.25),
            ),
            da.se3(tilted, da.ry("screw", name="nut", mass=0.3, inertia=inertia, com=(0.05, 0, 0), pitch=0.2)),
            name="cart",
            mass=2.0,
        ),
        da.tz(da.Kinematic("lift"), name="hook"),
    ]


def random(model):
    return RNG.normal(size=model.nq), RNG.normal(size=model.nq), RNG.normal(size=model.nu)


def test_poses_are_products_of_transforms():
    model = da.Model(arm())
    s, (q, _, _) = Symbolic(model), random(model)
    for entry in model.frame_entries:
        np.testing.assert_allclose(evaluate(s, s.pose(entry.index), q), numeric_pose(model, q, entry.index), atol=1e-14)
    np.testing.assert_allclose(
        evaluate(s, s.position("tip"), q)[:, 0], numeric_pose(model, q, model.frame_index("tip"))[:3, 3], atol=1e-14
    )


def test_kinetic_energy_is_the_sum_over_bodies():
    model = da.Model(arm())
    s, (q, v, _) = Symbolic(model), random(model)
    expected = 0.0
    for entry in model.frame_entries[1:]:
        g, rate = numeric_pose(model, q, entry.index), numeric_rate(model, q, v, entry.index)
        velocity = rate[:3, :3] @ entry.frame.com + rate[:3, 3]
        spin = g[:3, :3].T @ rate[:3, :3]
        w = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        xx, yy, zz, xy, xz, yz = entry.frame.inertia
        expected += entry.frame.mass / 2 * velocity @ velocity
        expected += w @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ w / 2
    assert evaluate(s, s.kinetic_energy(), q, v)[0, 0] == pytest.approx(expected, rel=1e-8)
    mass = evaluate(s, s.mass_matrix(), q)
    assert v @ mass @ v / 2 == pytest.approx(expected, rel=1e-8)


def test_potentials():
    spline = da.Spline([(-1, 2), (0, 0), (0.5, -1.5), (1.5, -2)])
    elements = [
        da.Gravity((1.0, -9.8, 0.5)),
        da.Gravity((0.0, 0.0, -2.0), masses=("tip", "nut")),
        da.PointGravity("tip", "nut", 3.0),
        da.LinearSpring("tip", "hook", 5.0, 0.3),
        da.LinearSpring("hub", "world", 7.0),
        da.ConfigSpring("a", 2.0, 0.4),
        da.NonlinearConfigSpring("b", spline, scale=1.3, offset=0.2),
        da.Potential(lambda m: ca.sin(m["a"]) * m.position("tip")[2] + m.pose("nut")[0, 1]),
    ]
    model = da.Model(arm(), elements)
    s, (q, v, _) = Symbolic(model), random(model)
    place = {n: numeric_pose(model, q, model.frame_index(n)) for n in model.frame_names}
    expected = 0.0
    for entry in model.frame_entries[1:]:
        g = numeric_pose(model, q, entry.index)
        com = g[:3, :3] @ entry.frame.com + g[:3, 3]
        expected -= entry.frame.mass * com @ (1.0, -9.8, 0.5)
        if entry.name in ("tip", "nut"):
            expected -= entry.frame.mass * com @ (0, 0, -2.0)
    gap = lambda a, b: np.linalg.norm(place[a][:3, 3] - place[b][:3, 3])  # noqa: E731
    from scipy.integrate import quad

    x = 1.3 * q[model.index("b")] + 0.2
    expected += -3.0 / gap("tip", "nut") + 2.5 * (gap("tip", "hook") - 0.3) ** 2 + 3.5 * gap("hub", "world") ** 2
    expected += (q[model.index("a")] - 0.4) ** 2 - quad(spline, -1, x, points=[-1, 0, 0.5, 1.5])[0] / 1.3
    expected += math.sin(q[model.index("a")]) * place["tip"][2, 3] + place["nut"][0, 1]
    assert evaluate(s, s.potential_energy(), q, v)[0, 0] == pytest.approx(expected, rel=1e-10)
    total = evaluate(s, s.lagrangian() + s.potential_energy() - s.kinetic_energy(), q, v)[0, 0]
    assert abs(total) < 1e-12 * abs(expected) + 1e-12


@pytest.mark.parametrize("points", [[(-1, 2), (0, 0), (1, -2)], [(0, 1, 2), (1, 0, 0.5), (2, 3, 1)], [(0, 1), (2, 5)]])
def test_spline(points):
    spline, x = da.Spline(points), ca.SX.sym("x")
    f = ca.Function("f", [x], [spline_value(spline, x), ca.jacobian(spline_value(spline, x), x)])
    g = ca.Function("g", [x], [ca.jacobian(spline_integral(spline, x), x), spline_integral(spline, x)])
    for at in [*np.linspace(-3, 4, 29), *spline.knots]:
        assert float(f(at)[0]) == pytest.approx(spline(at), rel=1e-13, abs=1e-13)
        assert float(f(at)[1]) == pytest.approx(spline(at, 1), rel=1e-13, abs=1e-13)
        assert float(g(at)[0]) == pytest.approx(spline(at), rel=1e-13, abs=1e-13)
        step = 1e-9  # the integral is continuous over knots
        assert float(g(at + step)[1]) == pytest.approx(float(g(at - step)[1]), abs=1e-6)
    assert float(g(spline.knots[0])[1]) == 0.0


def test_forces():
    elements = [
        da.ConfigForce("x", "push"),
        da.Damping(0.3, {"a": 0.7}),
        da.LinearDamper("tip", "hook", 1.5),
        da.Force(lambda m: {"b": m.input("push") * m.velocity("a") - m["x"] ** 2}, uses=("push",)),
    ]
    model = da.Model(arm(), elements)
    s, (q, v, u) = Symbolic(model), random(model)
    force = evaluate(s, s.force(), q, v, u)[:, 0]
    tip, hook = model.frame_index("tip"), model.frame_index("hook")
    gap = lambda q: np.linalg.norm(numeric_pose(model, q, tip)[:3, 3] - numeric_pose(model, q, hook)[:3, 3])  # noqa: E731
    slope = np.array([(gap(q + 1e-5 * e) - gap(q - 1e-5 * e)) / 2e-5 for e in np.eye(model.nq)])
    expected = -1.5 * (slope @ v) * slope
    for name in model.dynamic:
        expected[model.index(name)] -= {"a": 0.7}.get(name, 0.3) * v[model.index(name)]
    expected[model.index("x")] += u[0]
    expected[model.index("b")] += u[0] * v[model.index("a")] - q[model.index("x")] ** 2
    np.testing.assert_allclose(force, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("axes", ["body", "mixed", "world"])
def test_wrench(axes):
    model = da.Model(arm(), [da.Wrench("nut", ("fx", 2.0, 0), (0.5, "tau", -1.0), axes=axes)])
    s, (q, _, u) = Symbolic(model), random(model)
    nut = model.frame_index("nut")
    pose = numeric_pose(model, q, nut)
    force, torque = np.array([u[0], 2.0, 0.0]), np.array([0.5, u[1], -1.0])
    if axes == "body":
        force, torque = pose[:3, :3] @ force, pose[:3, :3] @ torque
    if axes == "world":
        torque = torque - np.cross(pose[:3, 3], force)
    expected = []
    for e in np.eye(model.nq):
        rate = numeric_rate(model, q, e, nut, h=1e-4)
        spin = rate[:3, :3] @ pose[:3, :3].T
        expected.append(force @ rate[:3, 3] + torque @ [spin[2, 1], spin[0, 2], spin[1, 0]])
    np.testing.assert_allclose(evaluate(s, s.force(), q, q, u)[:, 0], expected, atol=1e-10)


def test_constraints_in_model_order():
    profile = da.Spline([(-2, 1), (-1, 0.5), (0, 0), (1, 1), (2, -1)])
    frames = [*arm(), da.ty("y", da.rx("c", name="block", mass=1.0, inertia=(1, 1, 1)))]
    elements = [
        da.PointToPoint("block", "nut", [(1, 0, 0), (0.5, 0.5, 0)], axes_of="hub"),
        da.LinearRelation({"a": 1.0, "b": -3.0}, offset=0.5),
        da.Distance("tip", "hook", da.Kinematic("string")),
        da.PointOnPlane("hub", (0.1, 0.2, 0.3), "nut"),
    ]
    more = [
        da.Cam("a", "screw", profile),
        da.Distance("cart", "hook", 2.0),
        da.Constraint(lambda m: m["x"] * m.position("tip")[1]),
    ]
    for group in (elements, more):
        model = da.Model(frames, group)
        s, (q, _, _) = Symbolic(model), random(model)
        g = {n: numeric_pose(model, q, model.frame_index(n)) for n in model.frame_names}
        p = {n: m[:3, 3] for n, m in g.items()}
        x = {n: q[model.index(n)] for n in model.variables}
        if group is elements:
            axes = g["hub"][:3, :3]
            gap = p["block"] - p["nut"]
            expected = [
                axes @ [1, 0, 0] @ gap,
                axes @ [0.5, 0.5, 0] @ gap,
                x["a"] - 3 * x["b"] - 0.5,
                np.sum((p["tip"] - p["hook"]) ** 2) - x["string"] ** 2,
                axes @ [0.1, 0.2, 0.3] @ (p["nut"] - p["hub"]),
            ]
        else:
            expected = [x["screw"] - profile(x["a"]), np.sum((p["cart"] - p["hook"]) ** 2) - 4.0, x["x"] * p["tip"][1]]
        assert s.h().shape == (model.nc, 1)
        np.testing.assert_allclose(evaluate(s, s.h(), q)[:, 0], expected, atol=1e-13)


def test_deep_chain_needs_no_recursion():
    frame = None
    for i in reversed(range(128)):
        below = [] if frame is None else [frame]
        frame = da.rx(f"q{i}", da.tz(-1.0, *below, mass=1.0))
    model = da.Model([frame], [da.Gravity()])
    s = Symbolic(model)
    energy = evaluate(s, s.potential_energy(), np.zeros(128))[0, 0]
    assert energy == pytest.approx(-9.81 * sum(range(1, 129)))
    v = np.zeros(128)
    v[0] = 1.0
    assert evaluate(s, s.kinetic_energy(), np.zeros(128), v)[0, 0] == pytest.approx(
        sum(i * i for i in range(1, 129)) / 2
    )


def test_nothing_is_a_valid_amount_of_elements():
    s = Symbolic(da.Model([da.tx("x", mass=1.0)]))
    assert s.h().shape == (0, 1)
    assert s.force().shape == (1, 1)
    assert s.u.shape == (0, 1)


def test_the_compiled_core_agrees():
    """Every kind of element at one random point: energies, forces, constraints and their Jacobian."""
    profile = [(-2, 1), (-1, 0.5), (0, 0), (1, 1), (2, -1)]
    elements = [
        da.Gravity((1.0, -9.8, 0.5)),
        da.Gravity((0.0, 0.0, -2.0), masses=("tip", "nut")),
        da.PointGravity("tip", "nut", 3.0),
        da.LinearSpring("tip", "hook", 5.0, 0.3),
        da.ConfigSpring("a", 2.0, 0.4),
        da.NonlinearConfigSpring("b", profile, scale=1.3, offset=0.2),
        da.Potential(lambda m: ca.sin(m["a"]) * m.position("tip")[2] + m.pose("nut")[0, 1]),
        da.ConfigForce("x", "push"),
        da.Damping(0.3, {"a": 0.7}),
        da.LinearDamper("tip", "hook", 1.5),
        *(da.Wrench("tip", ("fx", 2.0, 0), (0.5, "tau", -1.0), axes=axes) for axes in ("body", "mixed", "world")),
        da.Force(lambda m: {"b": m.input("push") * m.velocity("a") - m["x"] ** 2}, uses=("push",)),
        da.Constraint(lambda m: m["x"] * m.position("tip")[1]),
        da.Cam("a", "screw", profile),
    ]
    model = da.Model(arm(), elements)
    s, (q, v, u), nd = Symbolic(model), random(model), model.nd
    assert da.kinetic_energy(model, q, v) == pytest.approx(evaluate(s, s.kinetic_energy(), q, v)[0, 0], rel=1e-12)
    assert da.potential_energy(model, q) == pytest.approx(evaluate(s, s.potential_energy(), q)[0, 0], rel=1e-12)
    np.testing.assert_allclose(da.force(model, q, v, u)[:nd], evaluate(s, s.force(), q, v, u)[:nd, 0], atol=1e-12)
    np.testing.assert_allclose(da.constraints(model, q), evaluate(s, s.h(), q)[:, 0], atol=1e-12)
    np.testing.assert_allclose(da.constraint_jacobian(model, q), evaluate(s, s.constraint_jacobian(), q), atol=1e-12)
