"""Elements of a user on what balls and floating bodies move: against built-in elements, symbolic definitions and differences."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ModelError
from dalembert.export import ExportError
from dalembert.integrate.onestep import OneStepMap
from dalembert.symbolic import Symbolic

from ..balls import mechanism, start


def swirl(m):
    """A potential of poses: not one that any built-in element has."""
    x, R = m.position("tip"), m.pose("C")[:3, :3]
    return 3.0 * x[0] * x[2] + 2.0 * R[0, 1] * R[2, 2] + 0.5 * m["h"] ** 2 * R[1, 0]


def wind(m):
    """Drag on the tip, a torque along a body axis, a moment on a hinge: poses, velocities, inputs."""
    v, w = m.velocity("tip"), m.angular_velocity("C")
    gust = m.input("gust")
    return {
        "tip": [-0.3 * v[0] + gust, -0.2 * v[1] * v[0], 0.1 * gust**2],
        "c.wy": -0.4 * w[2] * m.pose("C")[1, 1] + 0.5 * gust,
        "g": 0.2 * v[2],
    }


def reach(m):
    x = m.position("tip")
    return x[0] ** 2 + 2.0 * x[1] ** 2 + 0.5 * x[2] ** 2 - 1.5


def glide(m):
    """The tip does not move along an axis of the body, but for what a rate adds."""
    return m.pose("C")[:3, 0].T @ m.velocity("tip") - 0.3 * m.velocity("h") + 0.1 * m.position("tip")[2]


OWN = {
    "potential": [da.Potential(swirl, name="swirl")],
    "force": [da.Force(wind, uses=("gust",), name="wind")],
    "constraint": [da.Constraint(reach, name="reach")],
    "rate": [da.VelocityConstraint(glide, name="glide")],
    "torque": [da.Force(lambda m: {"k.wx": m.input("t"), "base.vx": m.velocity("k.wz")}, uses=("t",), name="torque")],
}


def with_own(seed, *names, **options):
    bare = mechanism(seed, forces=False, constraint=False, **options)
    own = [e for name in names for e in OWN[name]]
    return da.Model(bare.frames, [*bare.elements, *own])


CASES = [
    (0, ("potential",), {}),
    (1, ("force",), {}),
    (2, ("constraint",), {}),
    (3, ("rate",), {}),
    (4, ("torque",), {"floating": True}),
    (5, ("potential", "force", "constraint", "rate"), {}),
    (6, ("potential", "force", "constraint"), {"prescribed": True}),
]


@pytest.mark.parametrize(("seed", "names", "options"), CASES)
def test_values_are_those_of_the_definition(seed, names, options):
    m = with_own(seed, *names, **options)
    s, r = Symbolic(m), np.random.default_rng(seed)
    q, v, u = m.random(r), r.normal(size=m.nv), r.normal(size=m.nu)
    slope = s.ca.jacobian(s.rate(s.potential_energy()), s.v)
    rates = s.velocity_constraints()
    f = s.ca.Function(
        "f",
        [s.q, s.v, s.u],
        [s.potential_energy(), slope, s.force(), s.h(), s.constraint_jacobian(), rates, s.ca.jacobian(rates, s.v)],
    )
    V, dV, F, h, dh, rate, a = (np.array(x) for x in f(q, v, u))
    assert da.potential_energy(m, q) == pytest.approx(V.item(), abs=1e-12)
    np.testing.assert_allclose(da.potential_gradient(m, q), dV.ravel(), atol=1e-12)
    np.testing.assert_allclose(da.force(m, q, v, u)[: m.nd], F.ravel()[: m.nd], atol=1e-12)
    C, b = da.constraint_jacobian(m, q), da.velocity_offset(m, q)
    np.testing.assert_allclose(da.constraints(m, q), h.ravel(), atol=1e-12)
    np.testing.assert_allclose(C, np.vstack([dh.reshape(-1, m.nv), a.reshape(-1, m.nv)]), atol=1e-12)
    np.testing.assert_allclose((C @ v + b)[m.nh :], rate.ravel(), atol=1e-12)


@pytest.mark.parametrize(("seed", "names", "options", "order"), [(*case, 2) for case in CASES] + [(*CASES[5], 4)])
def test_derivatives_of_the_step(seed, names, options, order):
    """First order and adjoint against central differences of the eighth order, second order against differences of the first."""
    m = with_own(seed, *names, **options)
    vi = da.MidpointVI(m, 0.02, order=order)
    s, r = start(vi, seed), np.random.default_rng(seed)
    x, z, u = np.r_[s.q, s.p], r.normal(size=vi.ndx), r.normal(size=vi.nu)
    if m.nk:
        x = np.r_[x, np.zeros(vi.nx - len(x))]
    A, B = vi.linearize(x, u)
    here, h = vi.f(x, u), 2e-3

    def slope(d):
        def g(e):
            return vi.difference(here, vi.f(vi.retract(x, e * d[: vi.ndx]), u + e * d[vi.ndx :]))

        pairs = zip((672, -168, 32, -3), (1, 2, 3, 4), strict=True)
        return sum(c * (g(k * h) - g(-k * h)) for c, k in pairs) / (840 * h)

    J = np.stack([slope(d) for d in np.eye(vi.ndx + vi.nu)], axis=1)
    assert np.abs(np.hstack([A, B]) - J).max() < 1e-8 * max(1, np.abs(J).max())
    for exact, by in zip(vi.adjoint(x, u, 0, z), (z @ A, z @ B), strict=True):
        np.testing.assert_allclose(exact, by, rtol=0, atol=1e-11 * np.abs(J).max() * np.abs(z).sum())
    if order > 2:
        return
    differences = OneStepMap.second_order(vi, x, u, 0, z)
    largest = max(1, *(np.abs(d).max(initial=0.0) for d in differences))
    for exact, by in zip(vi.second_order(x, u, 0, z), differences, strict=True):
        np.testing.assert_allclose(exact, by, rtol=0, atol=1e-7 * largest)


def test_derivatives_of_the_acceleration():
    m = with_own(5, "potential", "force", "constraint")
    r = np.random.default_rng(5)
    q, v, u = m.random(r), r.normal(size=m.nv), r.normal(size=m.nu)
    found = da.acceleration(m, q, v, u, derivatives=True)

    def at(d):
        a = da.acceleration(m, m.integrate(q, d[: m.nv]), v + d[m.nv : 2 * m.nv], u + d[2 * m.nv :])
        return np.r_[a.ddq, a.lam]

    h = 1e-3
    slopes = [
        (8 * (at(h * e) - at(-h * e)) - (at(2 * h * e) - at(-2 * h * e))) / (12 * h) for e in np.eye(2 * m.nv + 1)
    ]
    got = np.vstack(
        [np.hstack([found.ddq_q, found.ddq_v, found.ddq_u]), np.hstack([found.lam_q, found.lam_v, found.lam_u])]
    )
    assert np.abs(got - np.array(slopes).T).max() < 1e-7 * (1 + np.abs(got).max())


def test_own_elements_are_the_built_in_ones():
    """A spring, a force in world axes, a torque along a body axis and a distance, written out: the same steps and derivatives."""
    bare = mechanism(3, forces=False, constraint=False)

    def spring(m):
        x = m.position("tip")
        return 15.0 * ((x.T @ x) ** 0.5 - 0.1) ** 2

    def push(m):
        return {"G": [m.input("fx"), 0.0, 1.0], "c.wy": m.input("tau")}

    def apart(m):
        x = m.position("C") - m.position("G")
        return x.T @ x - 4.0

    own = [da.Potential(spring), da.Force(push, uses=("fx", "tau")), da.Constraint(apart)]
    given = [
        da.LinearSpring("tip", "world", 30.0, 0.1),
        da.Wrench("G", force=("fx", 0.0, 1.0), axes="mixed"),
        da.ConfigForce("c.wy", "tau"),
        da.Distance("C", "G", 2.0),
    ]
    models = [da.Model(bare.frames, [*bare.elements, *e]) for e in (own, given)]
    steps = [da.MidpointVI(m, 0.02) for m in models]
    s = start(steps[1], 1)
    x, u, z = np.r_[s.q, s.p], np.array([0.7, -0.4]), np.random.default_rng(0).normal(size=2 * models[0].nv)
    assert models[0].inputs == models[1].inputs
    a, b = (vi.f(x, u) for vi in steps)
    np.testing.assert_allclose(a, b, atol=1e-10)
    for of in (lambda vi: vi.linearize(x, u), lambda vi: vi.second_order(x, u, 0, z)):
        for one, other in zip(of(steps[0]), of(steps[1]), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-8 * max(1, np.abs(other).max()))


def test_lanes_and_copies():
    import pickle

    m = with_own(5, "potential", "force", "constraint", "rate")
    vi = da.MidpointVI(m, 0.02)
    s = start(vi, 5)
    one = vi.simulate(s, steps=20, u={"gust": 0.3})
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(da.MidpointVI(again, 0.02).simulate(s, steps=20, u={"gust": 0.3}).q, one.q)
    many = da.rollouts(vi, [s] * 9, 20, u=np.full((20, 1), 0.3))
    np.testing.assert_allclose(many.q[4], one.q, atol=1e-10)


@pytest.mark.parametrize("ending", ["toml", "json", "sexp"])
def test_files_keep_them(tmp_path, ending):
    m = with_own(5, "potential", "force", "constraint", "rate", "torque")
    path = tmp_path / f"own.{ending}"
    da.save(m, path)
    assert da.load(path) == m


def test_a_tape_moves_to_a_model_with_another_order():
    """Its balls come in the order of the new model."""
    a = da.floating("a", name="A", mass=1.0, inertia=(1, 1, 1))
    b = da.ball("b", name="B", mass=1.0, inertia=(1, 1, 1))
    energy = da.Potential(lambda m: m.pose("A")[0, 1] * m.pose("B")[1, 2] * m["a.x"], name="E")
    first = da.Model([a, b], [energy])
    second = da.Model([b, a], first.elements)
    q = first.random(np.random.default_rng(0))
    moved = second.configuration.point({name: q[first.index(name)] for name in first.variables})
    assert da.potential_energy(first, q) == pytest.approx(da.potential_energy(second, moved), rel=1e-14)
    assert second.elements[0].tape.balls == ("b", "a")


def test_the_export_says_no(tmp_path):
    m = da.Model([da.ball("b", name="B", mass=1.0, inertia=(1, 1, 1))], [da.Potential(lambda m: m.pose("B")[0, 1])])
    with pytest.raises(ExportError, match="not exported"):
        da.export_c(da.System(da.MidpointVI(m, 0.01), steps=1), tmp_path / "c")


def test_what_is_refused():
    body = [
        da.floating("base", da.rx("arm", da.tz(-1.0, name="hand", mass=1.0)), name="B", mass=1.0, inertia=(1, 1, 1))
    ]
    for given, said in (
        (da.Force(lambda m: {"base": 1.0}), "base.wx, base.wy, base.wz"),
        (da.Force(lambda m: {"base.qw": 1.0}), "base.wx, base.wy, base.wz"),
        (da.Potential(lambda m: m.velocity("base.wx")), "not on velocities"),
        (da.Potential(lambda m: m["base"]), "base"),
        (da.VelocityConstraint(lambda m: m.velocity("base.wx") ** 2), "linear"),
    ):
        with pytest.raises(ModelError, match=said):
            da.Model(body, [given])
    held = [da.ball(da.Kinematic("k"), da.rx("arm", da.tz(-1.0, mass=1.0)), name="K")]
    with pytest.raises(ModelError, match=r"k\.wx"):
        da.Model(held, [da.Force(lambda m: {"k.wx": 1.0})])
