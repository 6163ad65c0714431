"""The same mechanism both ways: Model to bodies and joints."""

import numpy as np
import pytest

import dalembert as da
from dalembert import (
    Cam,
    ConfigForce,
    ConfigSpring,
    Constraint,
    Damping,
    Distance,
    Gravity,
    Kinematic,
    LinearRelation,
    LinearSpring,
    Model,
    ModelError,
    NonlinearConfigSpring,
    PointGravity,
    PointOnPlane,
    PointToPoint,
    Potential,
    rx,
    ry,
    rz,
    se3,
    tx,
    ty,
    tz,
)
from dalembert.direct.dmocc import (
    ConstrainedSystem,
    Joint,
    MultibodySystem,
    RigidBody,
    assemble,
    configuration,
    coordinates,
    from_model,
    model_configuration,
    simulate,
    to_model,
)
from dalembert.direct.dmocc.kernels import dense, kernels

from .mechanisms import five_bar, four_bar, spatial_four_bar
from .test_dmocc_kinematics import SYSTEMS

SOLID = {"mass": 2.0, "inertia": (1.0, 2.0, 2.5)}


def mechanism():
    """One of each joint: a free hull with a wheel, a ball-jointed leg, a sliding and a cylindrical part, and a puck."""
    tilt = np.eye(4)
    tilt[:3, :3] = [[0, -1, 0], [0, 0, -1], [1, 0, 0]]
    tilt[:3, 3] = [0.1, 0.2, 0.3]
    hull = da.free_euler(
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
        ([tx("b", rz("a", pitch=0.1, **SOLID))], [], "screw"),
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


def sample():
    """Springs and damping on joints, a screw, a universal joint, a user's potential; two chains tied together."""
    arm = rz("a", tx(0.5, **SOLID), tx(1.0, rz("b", tx(0.5, name="link", **SOLID), tx(1.0, name="tip"))), name="upper")
    other = tx(1.2, rz("c", tx(0.6, name="strut", **SOLID), tx(1.1, name="end")))
    gimbal = ty(2.0, rx("g1", rz("g2", tx(0.3, name="bell", **SOLID))))
    nut = ty(-2.0, rz("nut", pitch=0.05, name="nut", **SOLID))
    return Model(
        [arm, other, gimbal, nut],
        [
            Gravity((0, -9.81, -2.0)),
            ConfigForce("a", "f a"),
            ConfigForce("nut", "f nut"),
            Damping(0.2, {"b": 0.5, "nut": 0.01}),
            ConfigSpring("b", 3.0, 0.4),
            NonlinearConfigSpring("c", [(-2, 4), (-1, 1), (0, 0), (1, -1), (2, -4)], 1.1, 0.1),
            PointGravity("bell", "strut", 2.0),
            LinearSpring("bell", "upper", 5.0, 0.3),
            Potential(lambda m: 0.7 * m["g1"] ** 2 * m["g2"], name="twist"),
        ],
    )


def test_elements_on_joints_screws_and_universal_joints():
    model = sample()
    s = from_model(model)
    assert sorted(j.kind for j in s.joints) == ["H", "R", "R", "R", "U"]
    assert set(s.coordinates) == set(model.variables)
    assert dict(s.damping) == {"a": 0.2, "b": 0.5, "c": 0.2, "g1": 0.2, "g2": 0.2, "nut": 0.01}
    rng = np.random.default_rng(2)
    order = [model.index(c) for c in s.coordinates]
    for _ in range(3):
        q, v = rng.normal(size=model.nq) * 0.4, rng.normal(size=model.nq)
        tau = rng.normal(size=model.nu)
        ddq, _ = da.acceleration(model, q, v, tau)
        inputs = [tau[model.input_index(f"f {c}")] for c in s.inputs]
        h = 1e-4
        fore = simulate(s, dt=h, steps=1, u=q[order], velocity=v[order], tau=inputs)
        change = (fore.u[1] - fore.u[0] - h * v[order]) / (0.5 * h**2)
        assert np.abs(change - ddq[order]).max() < 2e-3 * np.abs(ddq).max()
        assert fore.potential_energy()[0] == pytest.approx(da.potential_energy(model, q), rel=1e-12)


def test_damping_takes_the_energy_that_the_model_loses():
    model = Model([rz("a", tx(0.5, name="rod", **SOLID))], [Gravity((0, -9.81, 0)), Damping(0.8)])
    motion = simulate(from_model(model), dt=0.005, steps=400)
    other = da.MidpointVI(model, 0.005)
    again = other.simulate(other.state([0.0]), steps=400)
    assert np.abs(motion["a"] - again.q[:, 0]).max() < 1e-3
    energy = motion.energy()
    assert energy[-1] < energy[0] - 1.0


def test_damping_of_balls_and_free_bodies():
    bodies = [RigidBody("hub", 2.0, (1.0, 1.5, 2.0)), RigidBody("bob", 1.0, (0.3, 0.4, 0.5), position=(1, 0, 0))]
    ball = Joint("S", "hub", "bob", point=(0.5, 0, 0))
    s = MultibodySystem(bodies, [Joint("free", "ground", "hub", actuated=False), ball], damping={"bob": 0.5})
    motion = simulate(s, dt=0.01, steps=300, velocity={"bob.rx": 2.0, "bob.rz": -1.0})
    assert np.abs(motion.angular_momentum() - motion.angular_momentum()[0]).max() < 1e-11  # an inner force
    assert np.all(np.diff(motion.energy()) < 1e-12)
    drag = MultibodySystem(bodies[:1], [Joint("free", "ground", "hub")], damping={"hub": 0.4, "hub.x": 1.0})
    slow = simulate(drag, dt=0.01, steps=100, velocity={"hub.x": 1.0, "hub.rz": 1.0})
    assert slow["hub.x"][-1] == pytest.approx(2.0 * (1 - np.exp(-0.5)), rel=1e-4)  # m dv/dt = -c v
    assert slow["hub.rz"][-1] == pytest.approx(2.0 / 0.4 * (1 - np.exp(-0.2)), rel=1e-3)


def tied():
    arm = rz("a", tx(0.5, **SOLID), tx(1.0, rz("b", tx(0.5, name="link", **SOLID), tx(1.0, name="tip"))))
    other = tx(1.2, rz("c", tx(0.6, name="strut", **SOLID), tx(1.1, name="end")))
    return [arm, other]


@pytest.mark.parametrize(
    "constraint",
    [
        Distance("tip", "end", 1.4),
        PointToPoint("tip", "end", "y"),
        PointToPoint("tip", "end", ((0.0, 1.0, 0.0),), axes_of="strut"),
        PointOnPlane("strut", (0, 1, 0), "tip"),
        LinearRelation({"a": 1.0, "b": -2.0, "c": 0.5}, 0.1),
        Cam("a", "c", [(-2, -1), (-1, -0.4), (0, 0.1), (1, 0.8), (2, 1.0)]),
        Constraint(lambda m: m["a"] * m["b"] - m["c"] - 0.2, name="product"),
    ],
)
def test_constraints_of_the_model_close_loops(constraint):
    model = Model(tied(), [Gravity((0, -9.81, 0)), constraint])
    s = from_model(model)
    q = da.satisfy_constraints(model, np.array([0.3, 0.5, 0.4]))
    u = assemble(s, q[[model.index(c) for c in s.coordinates]])
    assert np.abs(u - q[[model.index(c) for c in s.coordinates]]).max() < 1e-8
    motion = simulate(s, dt=1e-4, steps=2, u=u)
    ddq, _ = da.acceleration(model, q, np.zeros(3))
    change = (motion.u[1] - motion.u[0]) / (0.5 * 1e-8)
    assert np.abs(change - ddq[[model.index(c) for c in s.coordinates]]).max() < 1e-3 * max(np.abs(ddq).max(), 1)
    assert motion.constraint_violation().max() < 1e-12


def test_what_acts_on_angles_of_balls_is_refused():
    ball = rz("a", ry("b", rx("c", name="ball", **SOLID)))
    for element in (Damping(0.1), ConfigSpring("b", 1.0), LinearRelation({"a": 1.0, "c": 1.0})):
        with pytest.raises(ModelError, match=r"'[abc]' is"):
            from_model(Model([ball], [element]))
    with pytest.raises(ModelError, match="not supported"):
        from_model(Model([ball], [da.Wrench("ball", force=("f", 0, 0))]))


def tumbling():
    """A floating hull with a ball-jointed leg that carries a hinged foot; damping, a spring, gravity."""
    foot = tz(-0.6, rx("ankle", tz(-0.2, name="foot", **SOLID)))
    leg = tx(0.3, da.ball("hip", tz(-0.4, name="leg", com=(0.1, 0, 0), **SOLID), foot))
    hull = da.floating("base", leg, name="hull", **SOLID)
    damping = Damping(0.2, {"base.wx": 0.7, "base.wy": 0.7, "base.wz": 0.7, "ankle": 0.1})
    return Model([hull], [Gravity((0, 0, -9.8)), LinearSpring("world", "foot", 10.0, 0.1), damping])


def test_balls_and_floating_bodies_of_a_model():
    model = tumbling()
    s = from_model(model)
    assert [j.kind for j in s.joints] == ["free", "S", "R"]
    assert dict(s.damping) == {"hull": 0.7, "hull.x": 0.2, "hull.y": 0.2, "hull.z": 0.2, "leg": 0.2, "ankle": 0.1}
    rng = np.random.default_rng(3)
    q = model.random(rng)
    whole = model_configuration(model, q)
    u = coordinates(s, whole)
    assert np.abs(configuration(s, u) - whole).max() < 1e-12
    rest = da.MidpointVI(model, 1e-3)
    fall = rest.simulate(rest.state(q), steps=300)
    again = simulate(s, dt=1e-3, steps=300, u=u)
    ends = [model_configuration(model, x) for x in fall.q[::100]]
    assert np.abs(again.q[::100] - ends).max() < 1e-4
    with pytest.raises(ValueError, match="quaternion of 'base'"):
        model_configuration(model, np.zeros(model.nq))


@pytest.mark.parametrize(
    ("frame", "element", "reason"),
    [
        (da.ball("b", **SOLID), ConfigForce("b.wx", "u"), "axes of the world"),
        (da.ball("b", **SOLID), Damping({"b.wx": 0.1}), "ball 'b' needs the same along all axes"),
        (da.floating("b", **SOLID), Damping({"b.x": 0.1}), "body 'body b' needs the same along all axes"),
        (da.floating("b", com=(0.1, 0, 0), **SOLID), Damping(0.1), "centre of mass"),
        (da.ball("b", rz("c", **SOLID)), Gravity(), "none of"),
        (da.ball(Kinematic("b"), rz("c", **SOLID)), Gravity(), "kinematic"),
    ],
)
def test_balls_that_cannot_be_converted_say_why(frame, element, reason):
    with pytest.raises(ModelError, match=reason):
        from_model(Model([frame], [element]))


# ---- back to a model


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "tree"])
def test_systems_become_models_with_the_same_energy_and_accelerations(name):
    s = SYSTEMS[name]
    model = to_model(s)
    rng = np.random.default_rng(0)
    u, tau = rng.normal(size=s.nd) * 0.4, rng.normal(size=s.nu)
    moving = simulate(s, dt=0.001, steps=3, u=u, velocity=rng.normal(size=s.nd) * 0.3, tau=tau)
    shown = moving.trajectory
    assert shown.energy() == pytest.approx(moving.energy(), rel=1e-12)
    for body in s.bodies:
        place = da.positions(model, shown.q[-1])[model.frame_index(body.name)]
        assert place == pytest.approx(moving.position(body.name)[-1], abs=1e-12)
    rest = simulate(s, dt=1e-4, steps=1, u=u, tau=tau).trajectory
    ddq, _ = da.acceleration(model, rest.q[0], np.zeros(model.nv), rest.u[0])
    change = model.difference(rest.q[0], rest.q[1]) / (0.5 * 1e-8)
    assert np.abs(change - ddq).max() < 1e-4 * np.abs(ddq).max()


@pytest.mark.parametrize("make", [five_bar, four_bar, spatial_four_bar])
def test_closed_loops_become_constraints(make):
    s = make()
    model = to_model(s)
    motion = simulate(s, dt=0.005, steps=20, velocity=np.eye(s.nd)[0])
    shown = motion.trajectory
    assert shown.lam.shape == (20, model.nc)
    assert shown.constraint_violation().max() < 1e-12
    assert shown.energy() == pytest.approx(motion.energy(), rel=1e-12)
    vi = da.MidpointVI(model, 0.005)
    again = vi.simulate(vi.state(shown.q[0], v=shown.v[0]), steps=20)
    assert np.abs(again.q - shown.q).max() < 1e-4
    middle = slice(2, 18)  # multipliers agree with those of the model's own integrator
    assert np.abs(again.lam[middle] - shown.lam[middle]).max() < 0.02 * np.abs(again.lam).max()


def test_potentials_damping_and_forces_go_along():
    bodies = [RigidBody("hub", 2.0, (1.0, 1.5, 2.0)), RigidBody("bob", 1.0, (0.3, 0.4, 0.5), position=(1, 0, 0))]
    s = MultibodySystem(
        bodies,
        [Joint("R", "ground", "hub"), Joint("S", "hub", "bob", point=(0.5, 0, 0))],
        potential=lambda view: 2.0 * view["hub"] ** 2 + 3.0 * view.position("bob", (0.2, 0, 0))[2],
        damping={"hub": 0.3, "bob": 0.2},
    )
    model = to_model(s)
    rng = np.random.default_rng(1)
    u, v, tau = rng.normal(size=4) * 0.4, rng.normal(size=4), rng.normal(size=4)
    h = 1e-4
    motion = simulate(s, dt=h, steps=1, u=u, velocity=v, tau=tau)
    shown = motion.trajectory
    ddq, _ = da.acceleration(model, shown.q[0], shown.v[0], shown.u[0])
    change = (shown.v[1] - shown.v[0]) / h
    assert np.abs(change - ddq).max() < 1e-3 * np.abs(ddq).max()
    assert shown.energy() == pytest.approx(motion.energy(), rel=1e-12)


def test_a_motion_is_plotted_saved_and_viewed(tmp_path):
    s = four_bar()
    motion = simulate(s, dt=0.01, steps=20, velocity=np.eye(s.nd)[0])
    motion.save(tmp_path / "swing.npz")
    again = da.Trajectory.load(tmp_path / "swing.npz")
    assert np.abs(again.q - motion.trajectory.q).max() == 0
    motion.save(tmp_path / "swing.csv")
    assert (tmp_path / "swing.csv").read_text().startswith("t,crank")
    assert repr(again.quality()).startswith("Quality(not judged: nothing tells how its steps were made; constraints ")
    figure = motion.plot("crank")
    assert figure is not None
    functions = ConstrainedSystem(np.eye(2), coordinates=("x", "y"))
    with pytest.raises(ModelError, match="no frames"):
        _ = simulate(functions, dt=0.1, steps=2).trajectory


def test_trajectories_pass_where_three_angles_would_be_singular():
    """A body that turns about its second axis by a whole turn, a leg that nods with it: attitudes, rates and momenta are those of the motion."""
    bodies = [RigidBody("hub", 2.0, (1.0, 1.5, 2.0)), RigidBody("bob", 1.0, (0.3, 0.4, 0.5), position=(1, 0, 0))]
    s = MultibodySystem(
        bodies, [Joint("free", "ground", "hub"), Joint("S", "hub", "bob", point=(0.5, 0, 0))], damping={"bob": 0.1}
    )
    motion = simulate(
        s, dt=0.01, steps=150, velocity={"hub.ry": 5.0, "hub.x": 1.0, "bob.ry": 2.0}, tau=0.1 * np.ones(9)
    )
    shown = motion.trajectory
    assert np.ptp(shown["hub.ry"]) > 3
    for name in s.coordinates:
        np.testing.assert_allclose(shown[name][:60], motion[name][:60], atol=1e-12)  # until half a turn
    assert np.abs(shown.v).max() < 20
    np.testing.assert_allclose(shown.energy(), motion.energy(), rtol=1e-11)
    vi = da.MidpointVI(shown.model, 0.01)
    again = vi.simulate(vi.state(shown.q[0], v=shown.v[0]), steps=150, u=shown.u)
    assert np.abs(again.q - shown.q).max() < 0.05
