"""Directors, joints, null space matrices, actuation, reparameterization: eq. (23)-(56) of the DMOCC paper."""

import pickle

import casadi as ca
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dalembert import ModelError
from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, configuration, coordinates
from dalembert.direct.dmocc.kernels import dense, flat, kernels
from dalembert.direct.dmocc.multibody import geometry


def rotation(rng):
    return Rotation.from_rotvec(rng.normal(size=3)).as_matrix()


def random_body(name, rng):
    a = rng.normal(size=(3, 3))
    euler = a @ a.T  # any positive definite Euler tensor belongs to a real body
    return RigidBody(
        name,
        rng.uniform(1, 3),
        np.trace(euler) * np.eye(3) - euler,
        position=rng.normal(size=3),
        rotation=rotation(rng),
    )


def joint(kind, parent, child, rng):
    """A joint in general position."""
    axis = rng.normal(size=3)
    more = {"pitch": 0.3} if kind == "H" else {"inplane": np.cross(axis, rng.normal(size=3))} if kind == "U" else {}
    return Joint(kind, parent, child, point=rng.normal(size=3), axis=axis, **more)


def pair(kind, seed=0, root="free"):
    rng = np.random.default_rng(seed)
    return MultibodySystem(
        [random_body("one", rng), random_body("two", rng)],
        [joint(root, "ground", "one", rng), joint(kind, "one", "two", rng)],
        gravity=(0, 0, -9.81),
    )


def tree(seed=1):
    """Every kind of joint in a tree with two branches."""
    rng = np.random.default_rng(seed)
    kinds = ["free", "S", "C", "R", "P", "E", "C", "S", "R", "U", "weld", "H", "R"]
    above = ["ground", "b0", "b1", "b2", "b3", "b4", "b0", "b6", "b7", "b8", "b9", "b10", "b11"]
    bodies = [random_body(f"b{i}", rng) for i in range(len(kinds))]
    joints = [joint(k, p, f"b{i}", rng) for i, (k, p) in enumerate(zip(kinds, above, strict=True))]
    return MultibodySystem(bodies, joints, gravity=(0, 0, -9.81))


KINDS = {"S": 3, "C": 2, "R": 1, "P": 1, "E": 3, "U": 2, "H": 1, "weld": 0}
SYSTEMS = {k: pair(k) for k in KINDS} | {
    "tree": tree(),
    "ground R": pair("S", 3, "R"),
    "ground E": pair("R", 4, "E"),
    "ground C": pair("P", 5, "C"),
    "ground U": pair("H", 6, "U"),
    "ground H": pair("U", 7, "H"),
}


def project(system):
    """P'x as a compiled function."""
    m = kernels(system).mechanics
    q, x = ca.SX.sym("q", system.n), ca.SX.sym("x", system.n)
    return ca.Function("project", [q, x], [m.project(q, x)])


@pytest.fixture(params=list(SYSTEMS))
def system(request):
    return SYSTEMS[request.param]


@pytest.fixture
def q(system):
    return configuration(system, np.random.default_rng(7).normal(size=system.nd) * 0.6)


def test_sizes_of_the_pairs():
    for kind, dof in KINDS.items():
        s = SYSTEMS[kind]
        assert (s.n, s.m, s.nd) == (24, 24 - 6 - dof, 6 + dof)
        assert s.nu == s.nd


def test_mass_matrix_gives_the_kinetic_energy_of_a_rigid_body():
    rng = np.random.default_rng(2)
    body = random_body("one", rng)
    s = MultibodySystem([body])
    omega, velocity = rng.normal(size=3), rng.normal(size=3)
    r = np.array(body.rotation)
    v = np.concatenate([velocity, np.cross(omega, r.T).ravel()])
    inertia = r @ np.array(body.inertia) @ r.T
    expected = 0.5 * body.mass * velocity @ velocity + 0.5 * omega @ inertia @ omega
    assert 0.5 * v @ s.mass_matrix @ v == pytest.approx(expected, rel=1e-13)


def test_absolute_map_satisfies_the_constraints_and_starts_at_the_reference(system, q):
    k = kernels(system)
    assert np.abs(flat(k.constraints(q)[0])).max() < 1e-13
    assert np.abs(configuration(system) - system.reference).max() < 1e-13


def test_increments_satisfy_the_constraints_and_their_derivative_is_the_null_space_matrix(system, q):
    k = kernels(system)
    du = np.random.default_rng(8).normal(size=system.nd) * 0.7
    assert np.abs(flat(k.constraints(k.advance(du, q))[0])).max() < 1e-13
    assert np.abs(flat(k.advance(np.zeros(system.nd), q)) - q).max() < 1e-14
    eps = 1e-5
    columns = [(flat(k.advance(eps * e, q)) - flat(k.advance(-eps * e, q))) / (2 * eps) for e in np.eye(system.nd)]
    assert np.abs(np.array(columns).T - dense(k.nullspace(q))).max() < 1e-8


def test_null_space_matrix_spans_the_null_space_of_the_constraint_jacobian(system, q):
    k = kernels(system)
    P, G = dense(k.nullspace(q)), dense(k.constraints(q)[1])
    assert np.abs(G @ P).max() < 1e-12
    assert np.linalg.matrix_rank(P) == system.nd
    assert np.linalg.matrix_rank(G) == system.m


def test_inward_sweep_equals_the_matrix(system, q):
    k = kernels(system)
    v = np.random.default_rng(10).normal(size=system.n)
    P = dense(k.nullspace(q))
    assert np.abs(flat(project(system)(q, v)) - P.T @ v).max() < 1e-11
    q1, tau = flat(k.advance(np.full(system.nd, 0.1), q)), np.linspace(-1, 1, system.nu)
    near = np.zeros(system.nd)
    minus, plus = k.legendre(q, q1, near, tau, 0.01)
    a, b = k.reduced(q, q1, near, tau, 0.01)
    assert np.abs(flat(a) - P.T @ flat(minus)).max() < 1e-10
    assert np.abs(flat(b) - dense(k.nullspace(q1)).T @ flat(plus)).max() < 1e-10


def test_coordinates_invert_the_absolute_map(system):
    u = np.random.default_rng(9).normal(size=system.nd) * 0.6
    assert np.abs(coordinates(system, configuration(system, u)) - u).max() < 1e-12


def test_joint_forces_change_no_momentum_of_a_free_pair(system, q):
    # Proposition 5.1: forces in the joints add up to no force and no moment
    if system.joints[0].kind != "free":
        pytest.skip("ground joints support the system")
    f = dense(kernels(system).actuation(q))[:, 6:]
    triples = f.T.reshape(f.shape[1], len(q) // 3, 3)
    assert np.abs(triples[:, ::4].sum(axis=1)).max(initial=0.0) < 1e-13
    moments = np.cross(q.reshape(-1, 3), triples).sum(axis=1)
    assert np.abs(moments).max(initial=0.0) < 1e-12


@pytest.mark.parametrize("kind", list(KINDS))
def test_effect_of_joint_forces_on_the_degrees_of_freedom(kind):
    # (44), (52), (56), with tau_rb applied at a point off the centre of mass
    s = SYSTEMS[kind]
    rng = np.random.default_rng(11)
    u = rng.normal(size=s.nd) * 0.6
    q = configuration(s, u)
    k = kernels(s)
    tau = rng.normal(size=s.nu)
    effect = dense(k.nullspace(q)).T @ dense(k.actuation(q)) @ tau
    force, torque, joint = tau[:3], tau[3:6], tau[6:]
    r1, r2 = q[3:12].reshape(3, 3).T, q[15:24].reshape(3, 3).T
    arm = r1 @ geometry(s, s.joints[0]).rho2
    geo = geometry(s, s.joints[1])
    m1, m2, n = (r1 @ geo.triad1).T
    rho2 = r2 @ geo.rho2
    turning = np.cross(arm, force) + torque
    if kind == "S":
        expected = [force, turning - joint, joint]
    elif kind == "C":
        expected = [force - joint[0] * n, turning - joint[1] * n, joint]
    elif kind == "R":
        expected = [force, turning - joint[0] * n, joint]
    elif kind == "P":
        expected = [force - joint[0] * n, turning, joint]
    elif kind in ("U", "H", "weld"):  # (46): the child is carried along, action and reaction cancel on the parent
        expected = [force, turning, joint]
    else:
        pushed = joint[0] * m1 + joint[1] * m2
        twist = n @ np.cross(rho2, pushed)
        expected = [force - pushed, turning + twist * n - joint[2] * n, joint[:2], [joint[2] - twist]]
    assert np.abs(effect - np.concatenate(expected)).max() < 1e-12


def test_wrong_systems_are_refused_with_the_culprit():
    a = RigidBody("a", 1.0, (1, 1, 1))
    with pytest.raises(ModelError, match="is not free"):
        MultibodySystem([a], [Joint("R", "ground", "a"), Joint("free", "ground", "a", name="x")])
    with pytest.raises(ModelError, match="to itself"):
        MultibodySystem([a], [Joint("R", "a", "a")])
    with pytest.raises(ModelError, match="unknown body 'c'"):
        MultibodySystem([a], [Joint("R", "c", "a")])
    with pytest.raises(ModelError, match="two bodies"):
        MultibodySystem([a, a])
    with pytest.raises(ModelError, match="kind"):
        Joint("K", "ground", "a")
    with pytest.raises(ModelError, match="pitch"):
        Joint("H", "ground", "a")
    with pytest.raises(ModelError, match="pitch"):
        Joint("R", "ground", "a", pitch=0.1)
    with pytest.raises(ModelError, match="second axis"):
        Joint("U", "ground", "a")
    with pytest.raises(ModelError, match="perpendicular"):
        Joint("U", "ground", "a", inplane=(1, 0, 1))
    with pytest.raises(ModelError, match="damping: unknown name 'b'"):
        MultibodySystem([a], [Joint("R", "ground", "a")], damping={"b": 1.0})
    with pytest.raises(ModelError, match="damping of 'a'"):
        MultibodySystem([a], [Joint("R", "ground", "a")], damping={"a": -1.0})
    with pytest.raises(ModelError, match="position is not finite"):
        RigidBody("a", 1.0, (1, 1, 1), position=(0, np.nan, 0))
    with pytest.raises(ModelError, match="axis has shape"):
        Joint("R", "ground", "a", axis=(0, 1))
    with pytest.raises(ModelError, match="axis is zero"):
        Joint("R", "ground", "a", axis=(0, 0, 0))
    with pytest.raises(ModelError, match="flags"):
        Joint("C", "ground", "a", actuated=(True,))
    with pytest.raises(ModelError, match="mass"):
        RigidBody("a", 0.0, (1, 1, 1))
    with pytest.raises(ModelError, match="semidefinite"):
        RigidBody("a", 1.0, (1, 1, -1))
    with pytest.raises(ModelError, match="rotation"):
        RigidBody("a", 1.0, (1, 1, 1), rotation=2 * np.eye(3))
    with pytest.raises(ValueError, match="unknown name 'z'"):
        MultibodySystem([a], [Joint("R", "ground", "a")]).vector({"z": 1.0})


def test_systems_are_values_and_pickle():
    s = tree()
    copy = pickle.loads(pickle.dumps(s))
    assert copy == s
    assert hash(copy) == hash(s)
    assert "b0 --S--> b1" in repr(s)


def test_angles_beyond_half_a_turn_are_read_next_to_given_ones():
    for name in ("R", "U", "H", "C", "E"):
        s = SYSTEMS[name]
        u = np.linspace(-0.4, 0.5, s.nd)
        u[-1] += 7.0
        q = configuration(s, u)
        assert np.abs(coordinates(s, q, near=u + 0.3) - u).max() < 1e-12
        m = kernels(s).mechanics
        x, near = ca.SX.sym("q", s.n), ca.SX.sym("near", s.nd)
        read = ca.Function("read", [x, near], [m.coordinates(x, near)])
        assert np.abs(flat(read(q, u + 0.3)) - u).max() < 1e-12


def test_difference_of_coordinates():
    for s in SYSTEMS.values():
        rng = np.random.default_rng(12)
        a = rng.normal(size=s.nd) * 0.4
        b = a.copy()
        scalar = [k for j, w in zip(s.joints, s.slices, strict=True) if j.turns < 3 for k in range(w.start, w.stop)]
        b[scalar] += rng.normal(size=len(scalar)) * 0.5
        change = flat(kernels(s).difference(configuration(s, a), configuration(s, b)))
        assert np.abs(change - (b - a)).max() < 1e-12
        ball = flat(kernels(s).difference(configuration(s), configuration(s, a)))  # from the reference: u itself
        assert np.abs(ball - a).max() < 1e-12


def test_joints_that_close_loops():
    a, b = RigidBody("a", 1.0, (1, 1, 1)), RigidBody("b", 1.0, (1, 1, 1), position=(1, 0, 0))
    s = MultibodySystem(
        [a, b],
        [
            Joint("R", "ground", "a"),
            Joint("R", "a", "b", point=(0.5, 0, 0)),
            Joint("S", "ground", "b", point=(1, 0, 0), name="foot", actuated=False),
        ],
    )
    assert [j.name for j in s.closures] == ["foot"]
    assert s.coordinates == ("a", "b")
    assert kernels(s).mechanics.nc == 3
    assert np.abs(flat(kernels(s).closures(configuration(s), np.zeros(2))[0])).max() < 1e-15
    assert "closes a loop" in repr(s)
    assert pickle.loads(pickle.dumps(s)) == s
    # two bodies that hold each other: the first joint carries, the second closes
    pair = MultibodySystem([a, b], [Joint("R", "b", "a"), Joint("S", "a", "b", point=(1, 0, 0), name="x")])
    assert [j.kind for j in pair.joints] == ["free", "R"]
    assert [j.name for j in pair.closures] == ["x"]
