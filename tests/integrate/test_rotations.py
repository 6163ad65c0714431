"""Ball joints and floating bodies in the step: exact solutions, order, momenta, symplecticity, derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert import rotation

from ..balls import inertia, mechanism, random_mechanism, start

MOMENTS = np.array([0.01, 0.012, 0.02])


def body(moments=MOMENTS):
    return da.Model([da.ball("b", name="body", mass=1.0, inertia=tuple(moments))])


@pytest.fixture(scope="module")
def tumbling():
    """Attitude after 2 s of a torque-free body (rates 0.5, 8, 0.1 rad/s), by a method of order 8."""

    def rate(_, y):
        w = y[4:]
        return np.concatenate([rotation.multiply(y[:4], np.r_[0.0, w]) / 2, np.cross(MOMENTS * w, w) / MOMENTS])

    start = np.r_[1.0, 0.0, 0.0, 0.0, 0.5, 8.0, 0.1]
    return solve_ivp(rate, (0, 2), start, method="DOP853", rtol=1e-13, atol=1e-14).y[:4, -1]


@pytest.mark.parametrize(("order", "bound"), [(2, 3e-4), (4, 2e-8), (6, 1e-12)])
def test_torque_free_body(tumbling, order, bound):
    m = body()
    error = {}
    for dt in (0.02, 0.01):
        vi = da.MidpointVI(m, dt, order=order)
        motion = vi.simulate(vi.state(v=[0.5, 8.0, 0.1]), time=2.0)
        error[dt] = np.linalg.norm(m.difference(tumbling, motion.q[-1]))
    assert error[0.01] < bound
    assert abs(np.log2(error[0.02] / error[0.01]) - order) < (0.1 if order < 6 else 1.0)


def test_momentum_and_energy_over_many_steps():
    vi = da.MidpointVI(body(), 0.01)
    motion = vi.simulate(vi.state(v=[0.5, 8.0, 0.1]), 100_000, every=10)
    L = motion.momentum()[:, :3]
    assert np.abs(L - L[0]).max() < 1e-12 * np.linalg.norm(L[0])
    energy = motion.energy()
    early, late = np.ptp(energy[:5000]), np.ptp(energy[5000:])
    assert late < 1.05 * early
    assert np.abs(np.linalg.norm(motion.q, axis=1) - 1).max() < 1e-15


@pytest.mark.slow
def test_momentum_and_energy_over_a_million_steps():
    """20 000 s: the momentum to rounding, the energy in its band; both halves alike."""
    vi = da.MidpointVI(body(), 0.01)
    motion = vi.simulate(vi.state(v=[0.5, 8.0, 0.1]), 1_000_000, every=50)
    L = motion.momentum()[:, :3]
    assert np.abs(L - L[0]).max() < 1e-12 * np.linalg.norm(L[0])
    energy = motion.energy()
    early, late = energy[:10_000], energy[10_001:]
    assert np.ptp(late) < 1.01 * np.ptp(early)
    assert abs(late.mean() - early.mean()) < 0.01 * np.ptp(early)
    slope = np.polyfit(motion.t / motion.t[-1], energy, 1)[0]
    assert abs(slope) < 0.01 * np.ptp(early)
    assert np.abs(np.linalg.norm(motion.q, axis=1) - 1).max() < 1e-15


def test_spin_about_a_principal_axis_is_exact():
    """However far it turns in a step."""
    vi = da.MidpointVI(body(), 0.1)
    motion = vi.simulate(vi.state(v=[0.0, 0.0, 28.0]), 50)
    turned = 28.0 * motion.t
    assert np.abs(np.abs(motion.q[:, 0]) - np.abs(np.cos(turned / 2))).max() < 1e-12


def test_a_turn_of_more_than_half_is_refused():
    vi = da.MidpointVI(body(), 1.0)
    with pytest.raises(da.ConvergenceError):
        vi.simulate(vi.state(v=[0.3, 4.5, 0.1]), 10)


def test_steady_precession_of_a_top():
    """J1 Om^2 cos(th) - J3 w3 Om + m g l = 0 (symmetric top, tip fixed)."""
    j1, j3, mgl, th, spin = 0.1, 0.005, 9.8 * 0.3, 0.6, 300.0
    m = da.Model(
        [da.ball("b", da.tz(0.3, name="mass", mass=1.0, inertia=(0.01, 0.01, j3)))], [da.Gravity((0, 0, -9.8))]
    )
    roots = np.roots([j1 * np.cos(th), -j3 * spin, mgl])
    om = float(roots[np.argmin(np.abs(roots))].real)
    q = rotation.exponential(np.array([th, 0.0, 0.0]))
    axis = rotation.matrix(q)[:, 2]
    w = rotation.matrix(q).T @ (om * np.array([0, 0, 1.0]))
    w[2] = spin
    end = {}
    for dt in (0.0005, 0.00025):
        vi = da.MidpointVI(m, dt)
        motion = vi.simulate(vi.state(q=q, v=w), time=1.0)
        tilt = np.array([rotation.matrix(x)[2, 2] for x in motion.q])
        end[dt] = np.abs(tilt - np.cos(th)).max()
    assert axis[2] == pytest.approx(np.cos(th))
    assert end[0.00025] < 1e-4
    assert 3.5 < end[0.0005] / end[0.00025] < 4.5


def test_planar_chain_of_balls_is_a_chain_of_hinges():
    def chain(joint):
        frame = None
        for i in range(4):
            link = da.tz(-0.5, *([frame] if frame else []), mass=1.0, inertia=(0.1, 0.1, 0.1))
            frame = joint(f"j{3 - i}", link)
        return da.Model([frame], [da.Gravity((0, 0, -9.8))])

    balls, hinges = chain(da.ball), chain(da.rx)
    a, b = da.MidpointVI(balls, 0.01), da.MidpointVI(hinges, 0.01)
    angles = np.array([0.5, -0.3, 0.8, 0.1])
    x = a.state(q={f"j{i}": [angles[i], 0.0, 0.0] for i in range(4)})
    one, two = a.simulate(x, 60), b.simulate(b.state(q=angles), 60)
    turned = rotation.logarithm(one.q.reshape(-1, 4, 4))
    assert np.abs(turned[..., 0] - two.q).max() < 1e-11
    assert np.abs(turned[..., 1:]).max() < 1e-12


def test_a_torque_in_world_axes_changes_the_momentum_by_its_impulse():
    m = da.Model(
        [da.ball("b", name="body", mass=1.0, inertia=(0.3, 0.4, 0.5))],
        [da.Wrench("body", torque=("tx", "ty", "tz"), axes="mixed")],
    )
    vi = da.MidpointVI(m, 0.02)
    tau = np.array([0.3, -0.2, 0.5])
    motion = vi.simulate(vi.state(v=[1.0, 2.0, 0.5]), 500, u=tau)
    L = motion.momentum()[:, :3]
    assert np.abs(L - L[0] - motion.t[:, None] * tau).max() < 1e-11


# ---- bodies that nothing ties to each other have a way of their own (cpp/free_bodies.hpp)


def apart(seed, *more):
    """One or two bodies that float or turn about a point, with their centres anywhere, in some gravity, with torques."""
    r = np.random.default_rng(seed)
    frames = []
    for i in range(1 + seed % 2):
        kind = da.floating if r.random() < 0.7 else da.ball
        offset = (0.0, 0.1, 0.5)[(seed + i) % 3] * r.normal(size=3)
        body = kind(f"b{i}", name=f"body{i}", mass=r.uniform(0.3, 2.0), com=tuple(offset), inertia=inertia(r, 0.02))
        frames.append(da.tx(0.3, da.rx(0.7, body)) if seed % 4 == 3 else body)
    elements = [da.Gravity(tuple(5 * r.normal(size=3)))] if seed % 3 else []
    if seed % 5 < 2:
        elements += [da.ConfigForce("b0.wx", "torque"), da.ConfigForce("b0.wz", "torque", gear=0.5)]
    m = da.Model(frames, [*elements, *more])
    vi = da.MidpointVI(m, r.uniform(0.003, 0.02), order=(2, 4, 6)[seed % 3])
    q = m.integrate(m.neutral(), 2 * r.normal(size=m.nv))
    return vi, vi.state(q=q, v=r.uniform(0.5, 6.0) * r.normal(size=m.nv)), 0.05 * r.normal(size=(40, m.nu))


@pytest.mark.parametrize("seed", range(30))
def test_bodies_apart_move_as_in_any_other_model(seed):
    """A wrench of zero makes the model one that has no way of its own."""
    motions = []
    for judged in ("ignore", "warn"):
        for more in ((), (da.Wrench("body0", force=(0.0, 0.0, 0.0)),)):
            vi, x, u = apart(seed, *more)
            motions.append(vi.simulate(x, 40, u=u, accuracy=judged))
    short, other, seen, seen_other = motions
    for motion in motions[:3]:
        assert np.abs(vi.model.difference(motion.q, seen_other.q)).max() < 1e-10
        assert np.abs(motion.p - other.p).max() < 1e-10 * np.abs(other.p).max()
    assert short.iterations.max() <= 6 * (1, 5, 9)[seed % 3]
    mine, theirs = seen.quality(), seen_other.quality()
    assert mine.error == pytest.approx(theirs.error, rel=0.05, abs=1e-9)
    assert mine.jump == pytest.approx(theirs.jump, rel=1e-3, abs=1e-9)


# ---- linear algebra


@pytest.mark.parametrize("count", [1, 7, 30])
def test_the_elimination_along_a_chain_is_the_dense_one(count):
    frame = None
    r = np.random.default_rng(count)
    for i in range(count):
        name = f"b{count - 1 - i}"
        link = da.tx(0.3, *([frame] if frame else []), name=f"end{name}")
        frame = da.ball(name, link, mass=0.5, com=(0.15, 0.02, 0.01), inertia=inertia(r, 0.01))
        if i % 3 == 1:
            frame = da.ry(f"h{i}", frame, mass=0.1, inertia=(0.01, 0.01, 0.01))
    m = da.Model([frame], [da.Gravity((0, 0, -9.8)), da.Damping(0.01)])
    fast, plain = da.MidpointVI(m, 0.005), da.MidpointVI(m, 0.005, plain=True)
    x = fast.state(q=m.integrate(m.neutral(), 0.1 * r.normal(size=m.nv)), v=0.1 * r.normal(size=m.nv))
    a, b = fast.simulate(x, 10), plain.simulate(x, 10)
    assert np.abs(m.difference(a.q, b.q)).max() < 1e-10
    assert a.iterations.max() <= 5


def hanging(count, slender=0.02):
    """A chain of rods, 1 kg and 1 m each, on balls."""
    frame = None
    for i in range(count):
        link = da.tz(-1.0, *([frame] if frame else []))
        frame = da.ball(f"b{count - 1 - i}", link, mass=1.0, com=(0, 0, -0.5), inertia=(1 / 12, 1 / 12, slender))
    return da.Model([frame], [da.Gravity()])


@pytest.mark.parametrize(("dt", "crooked", "most"), [(0.002, 0.2, 4), (0.005, 0.02, 3), (0.01, 0.02, 5)])
def test_newton_iterations_of_a_long_chain(dt, crooked, most):
    """200 balls. At 0.01 s the fastest modes (2 kN of weight on 1 kg) are not resolved, and the guess must not amplify them."""
    m = hanging(200)
    vi = da.MidpointVI(m, dt)
    bend = crooked * np.random.default_rng(0).normal(size=m.nv) / np.sqrt(200)
    motion = vi.simulate(vi.state(q=m.integrate(m.neutral(), bend)), 60, accuracy="ignore")
    assert motion.iterations.max() <= most


def test_rollouts_side_by_side():
    m = mechanism(3, constraint=False)
    vi = da.MidpointVI(m, 0.01)
    states = [start(vi, seed) for seed in range(6)]
    many = da.rollouts(vi, states, 20)
    for x, q in zip(states, many.q, strict=True):
        assert np.abs(m.difference(q[-1], vi.simulate(x, 20).q[-1])).max() < 1e-10


def test_prescribed_ball():
    m = mechanism(1, prescribed=True, constraint=False)
    vi = da.MidpointVI(m, 0.01)
    x = start(vi, 2)
    first = x.q[m.nqd :]

    def turned(t):
        return rotation.multiply(first, rotation.exponential(np.array([0.3, -0.5, 0.2]) * t))

    motion = vi.simulate(x, 100, kinematic=turned)
    assert np.abs(motion.q[-1, m.nqd :] - turned(1.0)).max() < 1e-12
    held = vi.simulate(x, 50)
    assert np.abs(held.q[:, m.nqd :] - first).max() == 0.0


# ---- derivatives


def _differences(vi, x, u, h=2e-4):
    """A, B by central differences with Richardson's extrapolation, in the tangent spaces."""
    here = vi.f(x, u)

    def f(dx, du):
        return vi.difference(here, vi.f(vi.retract(x, dx), u + du))

    columns = []
    for i in range(vi.ndx + vi.nu):
        d = np.zeros(vi.ndx + vi.nu)
        d[i] = 1.0

        def slope(h, d=d):
            return (f(h * d[: vi.ndx], h * d[vi.ndx :]) - f(-h * d[: vi.ndx], -h * d[vi.ndx :])) / (2 * h)

        columns.append((4 * slope(h) - slope(2 * h)) / 3)
    return np.array(columns).T


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("seed", range(6))
def test_first_derivatives(order, seed):
    m = mechanism(seed, floating=seed % 2 == 0, forces=seed % 3 > 0, constraint=seed > 3)
    vi = da.MidpointVI(m, 0.05, order=order)
    s = start(vi, seed)
    x, u = np.r_[s.q, s.p], np.random.default_rng(seed).normal(size=m.nu)
    A, B = vi.linearize(x, u)
    wanted = _differences(vi, x, u)
    assert np.abs(np.hstack([A, B]) - wanted).max() < 1e-8 * (1 + np.abs(wanted).max())
    z = np.random.default_rng(seed).normal(size=vi.ndx)
    by_x, by_u = vi.adjoint(x, u, 0, z)
    assert np.abs(by_x - A.T @ z).max() < 1e-11 * np.abs(A).max()
    assert np.abs(by_u - B.T @ z).max(initial=0.0) < 1e-11 * np.abs(A).max()


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("others", ["", "hinge", "loop", "prescribed", "floating"])
def test_first_derivatives_with_torques_alone(order, others):
    """A torque along body axes depends on the attitude: without damping or other forces its slope was left out of composed steps."""
    joint = da.floating if others == "floating" else da.ball
    frames = [joint("w", da.tz(-0.5, name="h", mass=1.0), mass=0.1, inertia=(0.1, 0.12, 0.14))]
    elements = [da.Gravity((0, 0, -9.8)), da.ConfigForce("w.wx", "roll"), da.ConfigForce("w.wy", "pitch")]
    if others == "hinge":
        frames.append(da.rx("a", da.tz(-1.0, mass=1.0)))
    if others == "loop":
        frames.append(da.rx("a", da.ty(1.0, da.rx("b", da.ty(1.0, name="tip", mass=1.0)), mass=1.0)))
        elements.append(da.Distance("world", "tip", 1.5))
    if others == "prescribed":
        frames.append(da.tx(da.Kinematic("k"), da.ry("a", da.tz(-1.0, mass=1.0)), mass=1.0))
    m = da.Model(frames, elements)
    vi = da.MidpointVI(m, 0.02, order=order)
    q = da.satisfy_constraints(m, m.integrate(m.neutral(), np.linspace(0.2, 0.5, m.nv)))
    s = vi.state(q, v=da.consistent_velocity(m, q, np.linspace(0.3, -0.2, m.nv)))
    x, u = s.x, np.r_[0.4, -0.3, s.q[m.nqd :]]
    A, B = vi.linearize(x, u)
    wanted = _differences(vi, x, u)
    assert np.abs(np.hstack([A, B]) - wanted).max() < 1e-8 * (1 + np.abs(wanted).max())
    dx, du, z = np.linspace(-1, 1, vi.ndx), np.linspace(1, 2, vi.nu), np.linspace(2, -1, vi.ndx)
    np.testing.assert_allclose(vi.push(x, u, 0, dx, du), A @ dx + B @ du, rtol=1e-10, atol=1e-10 * np.abs(A).max())
    np.testing.assert_allclose(vi.adjoint(x, u, 0, z)[0], A.T @ z, rtol=1e-10, atol=1e-10 * np.abs(A).max())


def _form(m, p):
    """The symplectic form in tangent vectors (along body axes) and momenta: [[-[p]x, 1], [-1, 0]]."""
    n = m.nd
    out = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    for place in m.configuration.places:
        out[place.v, place.v] = -rotation.cross_matrix(p[place.v])
    return out


@pytest.mark.parametrize("order", [2, 4, 6])
def test_symplectic(order):
    m = mechanism(5, forces=False, constraint=False)
    vi = da.MidpointVI(m, 0.05, order=order)
    s = start(vi, 5)
    x = np.r_[s.q, s.p]
    A, _ = vi.linearize(x, np.zeros(0))
    after = vi.f(x, np.zeros(0))
    assert np.abs(A.T @ _form(m, after[m.nq :]) @ A - _form(m, s.p)).max() < 1e-10 * np.abs(A).max() ** 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_first_derivatives_of_random_mechanisms(seed):
    """Orders 2, 4 and 6 in turn, adjoints, and the symplectic form of those without forces."""
    m = random_mechanism(seed, forces=seed % 4 > 0)
    vi = da.MidpointVI(m, 0.02, order=(2, 4, 6)[seed % 3])
    s = start(vi, seed)
    x, r = np.r_[s.q, s.p], np.random.default_rng(seed)
    u, z = r.normal(size=m.nu), r.normal(size=vi.ndx)
    A, B = vi.linearize(x, u)
    wanted = _differences(vi, x, u, h=5e-5)  # short: the angle of one torsion spring is close to pi
    assert np.abs(np.hstack([A, B]) - wanted).max() < 1e-8 * (1 + np.abs(wanted).max())
    by_x, by_u = vi.adjoint(x, u, 0, z)
    assert np.abs(np.r_[by_x - A.T @ z, by_u - B.T @ z]).max() < 1e-11 * np.abs(A).max() * np.abs(z).sum()
    if not seed % 4 and not m.nc:
        after = vi.f(x, u)
        assert np.abs(A.T @ _form(m, after[m.nq :]) @ A - _form(m, s.p)).max() < 1e-10 * np.abs(A).max() ** 2


@pytest.mark.parametrize("order", [2, 4])
def test_derivative_by_the_length_of_the_step(order):
    m = mechanism(4, constraint=False)
    vi = da.MidpointVI(m, 0.05, order=order)
    s = start(vi, 4)
    x, u = np.r_[s.q, s.p], np.random.default_rng(4).normal(size=m.nu)
    system = da.System(vi, steps=1)
    found = system.derivatives(x, u, 0, with_dt=True)
    here, h = vi.f(x, u), 1e-4

    def at(dt):
        return vi.difference(here, da.MidpointVI(m, dt, order=order).f(x, u))

    slope = (8 * (at(0.05 + h) - at(0.05 - h)) - (at(0.05 + 2 * h) - at(0.05 - 2 * h))) / (12 * h)
    got = np.r_[found["q"][:, -1], found["p"][:, -1]]
    assert np.abs(got - slope).max() < 1e-8 * (1 + np.abs(slope).max())


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_second_derivatives(order, seed):
    """z . f in the tangent spaces: along the ways that `retract` goes, and difference to the state after the step."""
    m = mechanism(seed, floating=seed % 2 == 0, forces=seed % 4 > 1, constraint=seed > 2)
    vi = da.MidpointVI(m, 0.05, order=order)
    s, r = start(vi, seed), np.random.default_rng(seed)
    x, u, z = np.r_[s.q, s.p], r.normal(size=m.nu), r.normal(size=vi.ndx)
    xx, xu, uu = vi.second_order(x, u, 0, z)
    H = np.block([[xx, xu], [xu.T, uu]])
    assert np.abs(H - H.T).max() < 1e-13 * (1 + np.abs(H).max())
    here = vi.f(x, u)

    def f(d):
        return z @ vi.difference(here, vi.f(vi.retract(x, d[: vi.ndx]), u + d[vi.ndx :]))

    for _ in range(6):
        a, b = r.normal(size=len(H)), r.normal(size=len(H))

        def mixed(h, a=a, b=b):
            return (f(h * (a + b)) - f(h * (a - b)) - f(h * (b - a)) + f(-h * (a + b))) / (4 * h * h)

        wanted = (64 * mixed(5e-4) - 20 * mixed(1e-3) + mixed(2e-3)) / 45
        assert a @ H @ b == pytest.approx(wanted, abs=3e-7, rel=3e-7)


def test_second_derivatives_in_one_piece():
    """The full tensors contracted with a costate are what is computed for that costate."""
    m = mechanism(2)
    vi = da.MidpointVI(m, 0.05)
    s, r = start(vi, 2), np.random.default_rng(2)
    x, u, z = np.r_[s.q, s.p], r.normal(size=m.nu), r.normal(size=vi.ndx)
    xx, xu, uu = vi.second_order(x, u, 0, z)
    full = da.System(vi, steps=1).second_order_full(x, u, 0)
    H = np.block([[xx, xu], [xu.T, uu]])
    assert np.abs(np.tensordot(z, full, 1) - H).max() < 1e-11 * (1 + np.abs(H).max())


# ---- names


def test_states_and_motions_by_name(tmp_path):
    body = da.floating("base", da.rx("arm", da.tz(-0.5, name="hand", mass=0.2)), mass=1.0, inertia=(0.1, 0.2, 0.15))
    m = da.Model([body], [da.Gravity(), da.ConfigForce("arm", "motor")])
    vi = da.MidpointVI(m, 0.01)
    s = vi.state(q={"base": [0.1, 0.2, 0.3], "base.z": 1.0, "arm": 0.4}, v={"base": [1.0, 2.0, 3.0], "base.vy": 0.5})
    assert s["base.z"] == 1.0
    assert s["arm"] == 0.4
    assert s["base.ry"] == pytest.approx(0.2)
    assert s["base.wz"] == s["v.base.wz"] == pytest.approx(3.0)
    assert s["base.vy"] == s["v.base.y"] == pytest.approx(0.5)
    assert s["p.arm"] == s.p[m.velocity_index("arm")]
    np.testing.assert_allclose(s["hand"], da.pose(m, s.q, "hand")[:3, 3])
    assert s["hand.z"] == s["hand"][2]
    with pytest.raises(KeyError, match=r"base\.qw"):
        s["base.w"]

    seen = []

    def policy(t, state):
        seen.append((state["base.wx"], state["hand.z"]))
        return {"motor": -0.1 * state["v.arm"]}

    motion = vi.simulate(s, 20, u=policy)
    np.testing.assert_allclose([x for x, _ in seen], motion["base.wx"][:-1], atol=1e-12)
    np.testing.assert_allclose([z for _, z in seen], motion["hand.z"][:-1], atol=1e-12)
    motion.save(tmp_path / "motion.csv")
    back = da.Trajectory.load(tmp_path / "motion.csv", m)
    np.testing.assert_array_equal(back.q, motion.q)
    np.testing.assert_array_equal(back.p, motion.p)
    pytest.importorskip("pandas")
    frame = motion.to_frame()
    assert {"base.x", "base.qw", "v.base.vx", "v.base.wx", "p.base.wx", "arm", "v.arm", "motor"} <= {*frame.columns}
    np.testing.assert_array_equal(frame["p.base.wy"], motion["p.base.wy"])
