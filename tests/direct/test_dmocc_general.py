"""Section 3 of the DMOCC paper as it stands: constraints, null space matrix and reparameterization given by the user."""

import casadi as ca
import numpy as np
import pytest

from dalembert import ModelError
from dalembert.direct.dmocc import (
    ConstrainedSystem,
    Joint,
    MultibodySystem,
    RigidBody,
    optimize,
    problem_size,
    simulate,
)

MASS, LENGTH = 2.0, 0.8
POINT = {
    "mass": MASS * np.eye(3),
    "constraints": lambda q: 0.5 * (ca.dot(q, q) - LENGTH**2),
    "potential": lambda q: 9.81 * MASS * q[2],
    "inputs": ("fx", "fy"),
    "force": lambda q, v, tau: ca.vertcat(tau, 0) - 0.1 * v,
}


def angles(u, q):
    """Spherical pendulum by two angles, an absolute reparameterization: rz(u1) after ry(u0) of the hanging point."""
    s, c = ca.sin(u[0]), ca.cos(u[0])
    return LENGTH * ca.vertcat(-s * ca.cos(u[1]), -s * ca.sin(u[1]), -c)


def basis(q):
    """Two tangents of the sphere, off the vertical."""
    e = ca.vertcat(-q[1], q[0], 0)
    return ca.horzcat(e, ca.cross(q, e))


def turned(u, q):
    """A relative one: two small turns about the axes of the world."""

    def about(axis, angle, x):
        k = ca.skew(ca.DM(axis))
        return x + ca.sin(angle) * (k @ x) + (1 - ca.cos(angle)) * (k @ (k @ x))

    return about([0, 1, 0], u[1], about([1, 0, 0], u[0], q))


def by_angles():
    return ConstrainedSystem(
        **POINT, coordinates=("polar", "azimuth"), reparameterization=angles, nullspace=basis, name="by angles"
    )


def by_turns():
    return ConstrainedSystem(
        **POINT, coordinates=("rx", "ry"), reparameterization=turned, reference=(0, 0, -LENGTH), name="by turns"
    )


def by_multipliers():
    return ConstrainedSystem(**POINT, coordinates=("x", "y", "z"), name="by multipliers")


def start(q):
    """Coordinates of all three at a point."""
    polar, azimuth = np.arccos(-q[2] / LENGTH), np.arctan2(-q[1], -q[0])
    rx = np.arctan2(q[1], np.hypot(q[0], q[2]))  # ry leaves y alone
    ry = np.arctan2(-q[0], -q[2])
    return {"by angles": [polar, azimuth], "by turns": [rx, ry], "by multipliers": q}


Q0 = LENGTH * np.array([0.6, 0.0, -0.8])


@pytest.mark.parametrize("make", [by_angles, by_turns, by_multipliers])
def test_all_descriptions_give_the_motion_of_the_multiplier_scheme(make):
    s = make()
    u = np.asarray(start(Q0)[s.name])
    push = np.tile([0.5, 1.5], (100, 1))
    a = simulate(s, dt=0.01, steps=100, u=u, tau=push)
    assert a.q[0] == pytest.approx(Q0, abs=1e-12)
    assert a.constraint_violation().max() < 1e-12
    b = simulate(by_multipliers(), dt=0.01, steps=100, u=Q0, tau=push, form="multiplier")
    assert np.abs(a.q - b.q).max() < 1e-10
    assert np.abs(a.kinetic_energy() - b.kinetic_energy()).max() < 1e-10
    assert a.u.shape == (101, s.nd)


def test_sizes_and_what_is_left_for_multipliers():
    assert (by_angles().n, by_angles().m, by_angles().nd) == (3, 1, 2)
    assert (by_multipliers().n, by_multipliers().m, by_multipliers().nd) == (3, 0, 3)
    found = optimize(by_angles(), steps=10, time=1.0, start=[0.5, 0.0], goal=[0.5, 0.3])
    assert (found.unknowns, found.constraints) == problem_size(by_angles(), 10) == (11 * 2 + 10 * 2, 13 * 2)
    free = optimize(by_multipliers(), steps=10, time=1.0, start=Q0, goal=Q0 * [0.0, 0.0, 1.25])
    assert free.unknowns == 11 * 3 + 10 * 2 + 11


def test_plans_agree():
    ends = [Q0, LENGTH * np.array([0.0, 0.6, -0.8])]
    costs = []
    for make, options in (
        (by_angles, {}),
        (by_turns, {}),
        (by_turns, {"reparameterization": "relative"}),
        (by_turns, {"form": "multiplier"}),
        (by_multipliers, {}),
        (by_multipliers, {"form": "momentum"}),
    ):
        s = make()
        here, there = (np.asarray(start(q)[s.name]) for q in ends)
        if make is by_multipliers:  # the straight line leaves the sphere: around it
            arc = np.linspace(0, np.pi / 2, 31)
            guess = LENGTH * np.column_stack([0.6 * np.cos(arc), 0.6 * np.sin(arc), -0.8 * np.ones(31)])
        else:
            there = here + (there - here + np.pi) % (2 * np.pi) - np.pi
            guess = None
        found = optimize(s, steps=30, time=0.8, start=here, goal=there, guess=guess, **options)
        assert found.success, found.message
        assert found.motion.constraint_violation().max() < 1e-8
        assert found.replay_error < 0.02
        costs.append(found.objective)
    assert costs == pytest.approx([costs[0]] * len(costs), rel=1e-6)


def test_the_same_as_a_rigid_body_on_a_hinge():
    rod = RigidBody("rod", 1.0, (0, 1 / 12, 1 / 12), position=(0.5, 0, 0))
    body = MultibodySystem([rod], [Joint("R", "ground", "rod")], gravity=(0, -9.81, 0))
    # the centre and the first director in the plane: mass 1, Euler tensor 1/12
    plane = ConstrainedSystem(
        np.diag([1, 1, 1 / 12, 1 / 12]),
        lambda q: [q[0] - 0.5 * q[2], q[1] - 0.5 * q[3], 0.5 * (q[2] ** 2 + q[3] ** 2 - 1)],
        coordinates=("angle",),
        inputs=("torque",),
        reference=(0.5, 0, 1, 0),
        reparameterization=lambda u, q: ca.vertcat(
            0.5 * (ca.cos(u) * q[2] - ca.sin(u) * q[3]),
            0.5 * (ca.sin(u) * q[2] + ca.cos(u) * q[3]),
            ca.cos(u) * q[2] - ca.sin(u) * q[3],
            ca.sin(u) * q[2] + ca.cos(u) * q[3],
        ),
        force=lambda q, v, tau: tau * ca.vertcat(0, 0, -q[3], q[2]),
        potential=lambda q: 9.81 * q[1],
    )
    a = simulate(body, dt=0.01, steps=100, tau=[1.0])
    b = simulate(plane, dt=0.01, steps=100, tau=[1.0])
    assert np.abs(a.u - b.u).max() < 1e-10
    swing = {"steps": 40, "time": 1.0, "start": [-np.pi / 2], "goal": [np.pi / 2]}
    assert optimize(plane, **swing).objective == pytest.approx(optimize(body, **swing).objective, rel=1e-7)


def test_mistakes_are_named():
    with pytest.raises(ModelError, match="not symmetric"):
        ConstrainedSystem([[1, 2], [0, 1]])
    with pytest.raises(ModelError, match="name the coordinates"):
        ConstrainedSystem(np.eye(3), reparameterization=angles)
    with pytest.raises(ModelError, match="inputs need a force"):
        ConstrainedSystem(np.eye(2), inputs=("f",))
    with pytest.raises(ModelError, match="needs nullspace"):
        simulate(ConstrainedSystem(**POINT, coordinates=("a", "b"), reparameterization=angles), dt=0.1, steps=1)
    two = ("a", "b")
    for reason, wrong in (
        ("violates the constraints", {"reparameterization": lambda u, q: 2 * angles(u, q), "nullspace": basis}),
        ("not tangent", {"reparameterization": angles, "nullspace": lambda q: ca.SX.eye(3)[:, :2]}),
        ("shape", {"reparameterization": angles, "nullspace": lambda q: ca.SX.eye(3)}),
        ("returned 2 values", {"reparameterization": lambda u, q: u, "nullspace": basis}),
    ):
        system = ConstrainedSystem(**POINT, coordinates=two, **wrong)
        with pytest.raises(ModelError, match=reason):
            simulate(system, dt=0.1, steps=1)
    one = ConstrainedSystem(**POINT, coordinates=("a",), reparameterization=lambda u, q: angles(ca.vertcat(u, 0), q))
    with pytest.raises(ModelError, match="2 independent constraints"):
        simulate(one, dt=0.1, steps=1)
    with pytest.raises(ValueError, match="absolute one"):
        optimize(by_angles(), steps=4, time=1.0, goal=[0.5, 0.3], reparameterization="relative")
    with pytest.raises(ValueError, match="spin_cost"):
        optimize(by_angles(), steps=4, time=1.0, goal=[0.5, 0.3], spin_cost=1.0)
