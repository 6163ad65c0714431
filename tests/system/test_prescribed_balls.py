"""Prescribed balls and floating bases as inputs of a System: angular velocities along body axes, next positions."""

import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ConvergenceError, ModelError
from dalembert.model import rotation
from tests.balls import mechanism, start

DT = 0.05


def gimbal():
    """A platform that is moved and turned as one likes, with two pendulums under it."""
    rods = [
        da.tx(x, da.ry(f"a{i}", da.rx(f"b{i}", da.tz(-0.5, name=f"bob{i}", mass=0.3))))
        for i, x in enumerate((0.2, -0.3))
    ]
    base = da.floating(da.Kinematic("base"), *rods, name="platform", mass=1.0, inertia=(0.1, 0.1, 0.1))
    return da.Model([base], [da.Gravity((0, 0, -9.8)), da.Damping(0.02), da.ConfigForce("a0", "tau")])


def case(number):
    if number == 0:
        return gimbal()
    return mechanism(number, prescribed=True, floating=number % 2 == 0, constraint=number > 2, forces=number > 1)


def point(vi, seed):
    m, r = vi.model, np.random.default_rng(seed)
    s = start(vi, seed)
    x, u = np.r_[s.q, s.p, r.normal(size=m.nkv)], r.normal(size=vi.nu)
    numbers = m.prescribed.numbers
    u[m.nu + numbers[1]] = x[m.nqd + numbers[0]] + 0.1 * r.normal(size=len(numbers[0]))
    return x, u, r.normal(size=vi.ndx)


def differences(vi, x, u, h=2e-4):
    """A, B by central differences with one extrapolation."""
    here, n = vi.f(x, u), vi.ndx

    def slope(d):
        ahead, back = (vi.f(vi.retract(x, s * d[:n]), u + s * d[n:]) for s in (1, -1))
        return vi.difference(here, ahead) - vi.difference(here, back)

    unit = np.eye(n + vi.nu)
    return np.array([(8 * slope(h * d) - slope(2 * h * d)) / (12 * h) for d in unit]).T


def test_names_and_what_they_mean():
    vi = da.MidpointVI(gimbal(), DT)
    assert vi.u_names == ("tau", "base.x", "base.y", "base.z", "base.wx", "base.wy", "base.wz")
    assert vi.nu == 7
    system = da.System(vi, steps=4)
    x = system.x(q={"base": [0.1, 0.2, 0.3], "a0": 0.2})
    w = np.array([0.4, -0.8, 1.0])
    after = system.f(x, np.r_[0.0, 0.1, 0.2, 0.3, w])
    m = vi.model
    start, end = x[m.nqd : m.nq], after[m.nqd : m.nq]
    assert np.allclose(end[:3], [0.1, 0.2, 0.3], atol=1e-15)
    assert np.allclose(end[3:], rotation.multiply(start[3:], rotation.exponential(DT * w)), atol=1e-15)
    assert np.allclose(after[m.nq + m.nd :], np.r_[np.array([0.1, 0.2, 0.3]) / DT, w], atol=1e-14)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("number", range(5))
def test_first_order(number, order):
    vi = da.MidpointVI(case(number), DT, order=order)
    x, u, z = point(vi, number)
    A, B = vi.linearize(x, u)
    wanted = differences(vi, x, u)
    assert np.abs(np.hstack([A, B]) - wanted).max() < 1e-8 * (1 + np.abs(wanted).max())
    by_x, by_u = vi.adjoint(x, u, 0, z)
    assert np.allclose(by_x, A.T @ z, atol=1e-11)
    assert np.allclose(by_u, B.T @ z, atol=1e-11)
    after, A2, B2 = vi.advance(x, u)
    assert np.allclose(after, vi.f(x, u), atol=1e-12)
    assert np.allclose(A2, A)
    assert np.allclose(B2, B)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("number", range(5))
def test_second_order(number, order):
    vi = da.MidpointVI(case(number), DT, order=order)
    x, u, z = point(vi, number)
    xx, xu, uu = vi.second_order(x, u, 0, z)
    H, n, here = np.block([[xx, xu], [xu.T, uu]]), vi.ndx, vi.f(x, u)

    def slope(d):
        """Of z . f along the way of `retract` at the share 1 of d."""
        at, by = vi.retract(x, d[:n]), u + d[n:]
        A, B = vi.linearize(at, by)
        D = vi.difference_jacobian(here, vi.f(at, by))
        back = vi.difference_jacobian(x, at)  # dx along the way, as components at `at`
        way = np.linalg.solve(back, d[:n]) if back is not None else d[:n]
        return z @ D @ (A @ way + B @ d[n:])

    r = np.random.default_rng(number)
    for _ in range(4):
        d = r.normal(size=len(H))
        # slope(s d) = s d/ds z.f along d, so that (slope(h d) + slope(-h d)) / (2 h^2) is its second derivative
        near, far = ((slope(h * d) + slope(-h * d)) / (2 * h * h) for h in (3e-4, 6e-4))
        wanted = (4 * near - far) / 3
        assert d @ H @ d == pytest.approx(wanted, rel=1e-8, abs=1e-7)
    full = da.System(vi, steps=1).second_order_full(x, u, 0)
    assert np.abs(np.tensordot(z, full, 1) - H).max() < 1e-10 * (1 + np.abs(H).max())


def test_motions_are_those_of_the_integrator():
    m = gimbal()
    vi = da.MidpointVI(m, DT)
    system = da.System(vi, steps=30)
    t = DT * np.arange(1, 31)[:, None]
    U = 0.2 * np.sin(2 * t + np.arange(7)) - 0.2 * np.sin(np.arange(7))
    U[:, 4:] *= 8
    x0 = system.x(q={"base": [0.3, 0.1, -0.2], "a0": 0.4, "b1": -0.3})
    X = system.simulate(x0, U)
    motion = system.trajectory(X, U)
    again = vi.simulate(
        vi.state(x0[: m.nq], p=x0[m.nq : m.nq + m.nd]), 30, u=motion.u, kinematic=motion.rho, accuracy="ignore"
    )
    assert np.abs(again.q - X[:, : m.nq]).max() < 1e-12
    back = system.curve(motion)
    assert np.abs(back[0] - X).max() < 1e-12
    assert np.abs(back[1] - U).max() < 1e-12
    many, done = system.rollouts(np.stack([x0, x0]), U)
    assert (done == 30).all()
    assert np.abs(many - X).max() < 1e-11
    A, B = system.linearize_trajectory(X, U)
    A2, B2 = motion.linearize()
    assert np.allclose(A, A2, atol=1e-11)
    assert np.allclose(B, B2, atol=1e-11)
    ends, A3, _ = system.shoot(X, U, derive=True)
    assert np.abs(ends - X[1:]).max() < 1e-11
    assert np.allclose(A3, A, atol=1e-10)


def test_regulator_filter_optimizer_and_mpc():
    m = gimbal()
    vi = da.MidpointVI(m, DT)
    system = da.System(vi, steps=60)
    x0 = system.x(q={"base": [0.2, -0.4, 0.3], "a0": 0.3, "b1": -0.2})
    rest = system.x(q={"base": [0.0, 0.0, 0.0]})
    cost = da.TrackingCost(np.tile(rest, (61, 1)), Q=1.0, R={"tau": 1.0, "base.*": 0.3}, Qf=50.0)
    guess = np.zeros((60, 7))
    found = da.optimize(system, cost, (system.simulate(x0, guess), guess))
    assert found.converged
    assert np.abs(system.difference(rest, found.X[-1])).max() < 0.1
    law = da.lqr(system, found, Q=1.0, R=0.1)
    off = system.retract(x0, 0.1 * np.random.default_rng(0).normal(size=system.ndx))
    X = system.simulate(off, law)
    assert np.abs(system.difference(found.X[-1], X[-1])).max() < 0.06
    closed, U = system.project(found.X, found.U, law.K, off)
    assert np.abs(closed - X).max() < 1e-10
    under = vi.simulate(vi.state(off[: m.nq], p=off[m.nq : m.nq + m.nd]), 60, u=law)  # the same law as a policy
    assert np.abs(system.difference(X[-1], under.x[-1])).max() < 0.02  # it begins with the platform at rest
    sensor = da.measure(system, "a0", "b0", "a1", "b1")
    Z = sensor.record((X, U), R=1e-6, seed=1)
    ekf = da.ExtendedKalmanFilter(system, sensor, Q=1e-8, R=1e-6)
    run = ekf.run(ekf.start(x0, 0.01), U, Z)
    assert np.abs(system.difference(X[-1], run.mean[-1])).max() < 0.1
    mpc = da.MPC(vi, da.TrackingCost(np.tile(rest, (16, 1)), Q=1.0, R=0.3, Qf=20.0), horizon=15)
    x = x0
    for _ in range(60):
        x = system.f(x, mpc.step(x))
    assert np.abs(system.difference(rest, x)).max() < 0.1


def test_what_is_refused():
    m = mechanism(1, prescribed=True, constraint=False)
    system = da.System(da.MidpointVI(m, DT), steps=3)
    u = np.zeros(system.nu)
    u[-1] = 70.0
    with pytest.raises(ConvergenceError, match=r"prescribed ball 'k' turns by 3.5 rad, more than half a turn"):
        system.f(system.neutral(), u)
    four = da.System(da.MidpointVI(m, DT, order=4), steps=3)
    with pytest.raises(ModelError, match="need order=2"):
        four.derivatives(four.neutral(), np.zeros(four.nu))
