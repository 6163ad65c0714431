"""Single calls take arguments as they are where the core can read them; all else goes the checked way, with the same result."""

import copy
import ctypes
import dataclasses
import pickle

import numpy as np
import pytest

import dalembert as da

from .. import balls
from ..random_models import random_model, random_point

PLAIN = {
    "cart-pole": lambda: da.MidpointVI(da.models.cart_pole(), 0.01),
    "order 4": lambda: da.MidpointVI(da.models.n_link(3), 0.02, order=4),
    "left": lambda: da.MidpointVI(da.models.cart_pole(), 0.01, alpha=0.3, forcing="left"),
    "lift": lambda: da.MidpointVI(da.models.scissor_lift(3), 0.005),
    "prescribed": lambda: da.MidpointVI(driven(), 0.01),
    "random": lambda: da.MidpointVI(random_model(5, 6, constraints=0), 0.01),
    "balls": lambda: da.MidpointVI(balls.mechanism(1), 0.01),
    "prescribed balls": lambda: da.MidpointVI(balls.mechanism(2, prescribed=True), 0.01),
}


def driven():
    """A pendulum below a prescribed slider."""
    bob = da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))
    return da.Model([da.ty(da.Kinematic("y"), bob)], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", "torque")])


def begun(name):
    vi = PLAIN[name]()
    if "balls" in name:
        start = balls.start(vi, 1)
    elif name == "random":
        q, v, _ = random_point(vi.model, 2)
        start = vi.state(q=q, v=v)
    elif name == "lift":
        start = vi.state(q=da.models.scissor_lift_configuration(0.6, segments=3))
    else:
        start = vi.state(q=0.3 * np.ones(vi.model.nq))
    u = 0.2 * np.cos(np.arange(vi.model.nu))
    return vi, start, u


@pytest.mark.parametrize("name", PLAIN)
def test_steps_as_they_are_and_steps_that_were_checked(name):
    vi, state, u = begun(name)
    for _ in range(3):
        new, checked = vi.step(state, u), vi.step(state, u.tolist(), guess=state.q)
        assert type(new) is da.State
        assert new.t == checked.t == state.t + vi.dt
        for field in ("q", "p", "lam"):
            np.testing.assert_array_equal(getattr(new, field), getattr(checked, field))
        np.testing.assert_allclose(new.v_rho, checked.v_rho, rtol=0, atol=1e-14)
        state = new


@pytest.mark.parametrize("name", PLAIN)
def test_linearizations_of_states_and_of_vectors(name):
    vi, state, u = begun(name)
    rho = state.q[vi.model.nqd :] if vi.model.prescribed.flat else np.zeros(0)
    found = [vi.linearize(state, u), vi.linearize(state, u.tolist())]
    if vi.model.prescribed.flat:
        w = np.concatenate([u, rho])
        system = da.System(vi, steps=3)
        x = np.concatenate([state.q, state.p, np.zeros(vi.model.nkv)])
        found += [
            vi.linearize(x, w),
            vi.advance(x, w)[1:],
            system.linearize(x, w),
            system.advance(x.tolist(), w, 2)[1:],
        ]
        np.testing.assert_array_equal(system.f(x, w), system.f(x.tolist(), w.tolist()))
        np.testing.assert_array_equal(system.f(x, w), vi.advance(x, w)[0])
        np.testing.assert_array_equal(vi.f(x, w), vi.f(x[::-1].copy()[::-1], w))  # not contiguous
    for A, B in found[1:]:
        np.testing.assert_allclose(A, found[0][0], rtol=0, atol=1e-12 * abs(A).max())
        np.testing.assert_allclose(B, found[0][1], rtol=0, atol=1e-12 * max(1.0, abs(B).max(initial=0)))


def test_what_is_wrong_is_said():
    vi, state, u = begun("cart-pole")
    for call in (vi.step, vi.linearize):
        with pytest.raises(ValueError, match="u"):
            call(state, np.zeros(2))
        with pytest.raises(ValueError, match="u is not finite"):
            call(state, np.array([np.nan]))
        with pytest.raises(ValueError, match=r"state\.q is not finite at 'theta'"):
            call(dataclasses.replace(state, q=np.array([0.0, np.nan])), u)
        with pytest.raises(ValueError, match=r"state\.p has shape"):
            call(dataclasses.replace(state, p=np.zeros(3)), u)
        with pytest.raises(ValueError, match="t must be a finite number"):
            call(dataclasses.replace(state, t=np.inf), u)
    with pytest.raises(TypeError, match="a State is needed"):
        vi.step(None)
    with pytest.raises(TypeError, match="a State is needed"):
        vi.step(state.x)
    system = da.System(vi, steps=2)
    for bad in (-1, 2, True, 1.0):
        with pytest.raises((ValueError, TypeError), match="step"):
            system.f(state.x, u, bad)
    with pytest.raises(ValueError, match="x is not finite"):
        system.linearize(np.array([0.0, np.inf, 0.0, 0.0]), u)


def test_states_are_values():
    vi, state, u = begun("cart-pole")
    new = vi.step(state, u)
    assert not hasattr(new, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        new.t = 3.0
    for again in (pickle.loads(pickle.dumps(new)), copy.deepcopy(new), dataclasses.replace(new)):
        np.testing.assert_array_equal(again.q, new.q)
        assert again.t == new.t
    other = pickle.loads(pickle.dumps(vi))
    np.testing.assert_array_equal(other.step(state, u).q, new.q)


# ---- policies


@pytest.mark.parametrize("name", PLAIN)
def test_a_policy_gives_the_motion_of_its_inputs(name):
    vi, state, u = begun(name)
    seen = []

    def policy(t, s):
        seen.append(s)
        return u * np.cos(t)

    by_policy = vi.simulate(state, 20, u=policy)
    by_array = vi.simulate(state, 20, u=np.array([u * np.cos(t) for t in by_policy.t[:-1]]))
    for field in ("t", "q", "p", "u", "rho", "lam", "iterations", "checks"):
        np.testing.assert_array_equal(getattr(by_policy, field), getattr(by_array, field))
    assert len(seen) == 20
    for k, s in enumerate(seen):  # what was seen stays as it was
        at = by_policy[k]
        assert s.t == at.t
        np.testing.assert_array_equal(s.q, at.q)
        np.testing.assert_array_equal(s.p, at.p)
        np.testing.assert_array_equal(s.lam, at.lam)
    quiet = vi.simulate(state, 20, u=lambda t, s: u * np.cos(t), accuracy="ignore")
    assert quiet.checks is None
    np.testing.assert_array_equal(quiet.q, by_policy.q)


@pytest.mark.parametrize("options", [{}, {"order": 4}])
def test_policies_of_prescribed_variables(options):
    vi = da.MidpointVI(driven(), 0.02, **options)
    start, path = vi.state(q=[0.3, 0.0]), 0.1 * np.sin(np.arange(1, 21))[:, None]
    wanted = vi.simulate(start, 20, u=[0.5], kinematic=path)

    def row(t):
        return path[round(t / 0.02)]

    answers = (
        lambda t, s: (np.array([0.5]), row(t)),
        lambda t, s: [0.5, row(t)[0]],
        lambda t, s: ({"torque": 0.5}, row(t)),
    )
    for policy in answers:
        found = vi.simulate(start, 20, u=policy)
        np.testing.assert_array_equal(found.q, wanted.q)
        np.testing.assert_array_equal(found.rho, wanted.rho)
    # with values of its own where the policy says nothing
    same = vi.simulate(start, 20, u=lambda t, s: [0.5], kinematic=path)
    np.testing.assert_array_equal(same.q, wanted.q)
    curve = vi.simulate(start, 20, u=lambda t, s: np.array([0.5]), kinematic=lambda t: [0.1 * t**2])
    np.testing.assert_array_equal(curve.q, vi.simulate(start, 20, u=[0.5], kinematic=lambda t: [0.1 * t**2]).q)
    held = vi.simulate(start, 20, u=lambda t, s: [0.5])
    np.testing.assert_array_equal(held.q, vi.simulate(start, 20, u=[0.5]).q)
    np.testing.assert_array_equal(
        vi.simulate(start, 20, u=lambda t, s: [0.5], adapt=1e-4).q, vi.simulate(start, 20, u=[0.5], adapt=1e-4).q
    )
    # a policy sees the velocities of prescribed variables
    speeds = []
    vi.simulate(start, 3, u=lambda t, s: speeds.append(s.v_rho.copy()) or (np.array([0.5]), row(t)))
    np.testing.assert_allclose(speeds, [[0.0], path[0] / 0.02, (path[1] - path[0]) / 0.02], atol=1e-14)


def test_what_a_policy_raises():
    vi, state, u = begun("cart-pole")

    def failing(t, s):
        if t > 0.055:
            raise RuntimeError("no more")
        return u

    with pytest.raises(RuntimeError, match="no more") as caught:
        vi.simulate(state, 20, u=failing)
    assert any(entry.name == "failing" for entry in caught.traceback)

    def ending(at):
        def policy(t, s):
            if t >= at:
                raise da.Stop("enough")
            return u

        return policy

    for at, steps in ((0.0, 0), (0.045, 5), (0.185, 19)):
        motion = vi.simulate(state, 20, u=ending(at))
        assert motion.steps == steps
        (event,) = motion.events
        assert (event.name, event.step, event.time) == ("enough", steps, motion.t[-1])
        np.testing.assert_array_equal(event.state.q, motion.q[-1])
    for answer in (np.zeros(3), "push", np.array([np.nan])):
        with pytest.raises((ValueError, TypeError)):
            vi.simulate(state, 5, u=lambda t, s, answer=answer: answer)
    assert vi.simulate(state, 0, u=failing).steps == 0

    def interrupted(t, s):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vi.simulate(state, 5, u=interrupted)
    with pytest.raises(da.ConvergenceError) as failed:
        vi.simulate(state, 50, u=lambda t, s: np.array([1e280 if t > 0.1 else 0.0]))
    assert failed.value.trajectory is not None
    assert failed.value.trajectory.steps == failed.value.step


def test_numbers_of_ctypes_are_numbers():
    """Their float64 is not NumPy's own object."""
    vi = da.MidpointVI(da.models.cart_pole(), 0.01)
    push = np.array((ctypes.c_double * 1)(20.0))
    x = np.array([0.3, 2.9, 0.0, 0.0])
    for got, expected in zip(vi.advance(x, push, 0), vi.advance(x, np.array([20.0]), 0), strict=True):
        np.testing.assert_array_equal(got, expected)
    kalman = da.ExtendedKalmanFilter(vi, da.measure(vi, "theta"), Q=1e-6, R=1e-5)
    predicted = kalman.predict(kalman.start(x, 1e-3), push)
    np.testing.assert_allclose(predicted.mean, vi.f(x, [20.0]), atol=1e-14)
