"""Events and impacts in steps that adapt."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da


def wild(*more):
    """A double pendulum that turns over: coarse steps of one length are no good."""
    return da.Model(
        [da.ry("a", da.tz(-1.0, da.ry("b", da.tz(-1.0, name="tip", mass=1.0)), name="knee", mass=1.0))],
        [da.Gravity(), *more],
    )


START = {"q": [2.8, 0.4], "v": [0.0, 3.0]}


def event_time(dt, **options):
    vi = da.MidpointVI(wild(), dt, order=4)
    motion = vi.simulate(vi.state(**START), time=3.0, until="tip.z < -1.6", accuracy="ignore", **options)
    (event,) = motion.events
    return event.time, motion


def test_an_event_is_found_in_a_step_of_many_substeps():
    exact, _ = event_time(0.001)
    coarse, _ = event_time(0.05)
    found, motion = event_time(0.05, adapt=1e-4)
    assert abs(found - exact) < 1e-5
    assert abs(found - exact) < 0.2 * abs(coarse - exact)
    assert da.positions(motion.model, motion.q[-1])[motion.model.frame_index("tip")][2] == pytest.approx(
        -1.6, abs=1e-12
    )
    with pytest.raises(ValueError, match="not known which steps"):
        motion.linearize()


def test_recorded_events_change_nothing():
    vi = da.MidpointVI(wild(), 0.05)
    start = vi.state(**START)
    plain = vi.simulate(start, time=1.0, adapt=1e-3)
    watched = vi.simulate(start, time=1.0, adapt=1e-3, events=[da.Event("tip.z", below=0.0, action="record")])
    np.testing.assert_allclose(plain.q, watched.q, atol=1e-11)  # guesses differ
    assert watched.events


def test_a_ball_bounces_at_its_exact_times():
    """Gravity alone: every step is exact, so that all bounces are where they must be, whatever the substeps."""
    model = da.Model([da.tz("z", name="ball", mass=1.0)], [da.Gravity(), da.Contact("ball", restitution=0.8)])
    vi = da.MidpointVI(model, 0.05)
    motion = vi.simulate(vi.state(q=[1.0]), time=2.5, adapt=1e-3)
    fall = np.sqrt(2 / 9.81)
    exact = fall * np.array([1, 1 + 2 * 0.8, 1 + 2 * (0.8 + 0.64), 1 + 2 * (0.8 + 0.64 + 0.512)])
    times = [impact.time for impact in motion.impacts]
    np.testing.assert_allclose(times[:4], exact[: len(times)][:4], atol=1e-10)


def test_limits_in_a_wild_motion():
    model = wild(da.Limit("b", -1.0, 1.0, restitution=0.5), da.ConfigForce("a", "motor"))
    ends = []
    for options in ({"dt": 0.0005}, {"dt": 0.04, "adapt": 1e-5}, {"dt": 0.04, "adapt": 1e-3}):
        vi = da.MidpointVI(model, options.pop("dt"))
        motion = vi.simulate(vi.state(**START), time=0.4, u={"motor": 0.5}, accuracy="ignore", **options)
        assert motion.impacts
        assert da.gaps(model, motion.q).min() > -1e-12
        ends.append(motion.q[-1])
    errors = [np.abs(end - ends[0]).max() for end in ends[1:]]
    assert errors[0] < 2e-3
    assert errors[0] < errors[1] + 1e-12


def test_with_a_policy_and_a_prescribed_joint():
    cart = da.tx(da.Kinematic("cart"), da.ry("a", da.tz(-1.0, name="bob", mass=1.0)))
    model = da.Model([cart], [da.Gravity(), da.ConfigForce("a", "motor")])
    event = [da.Event("a", above=0.2, action="stop")]
    times = []
    for dt, adapt in ((0.001, None), (0.05, 1e-4)):
        vi = da.MidpointVI(model, dt, order=2)
        motion = vi.simulate(
            vi.state(q={"a": 0.0}), time=2.0, u=lambda t, state: [0.1], events=event,
            kinematic={"cart": lambda t: 0.3 * np.sin(4 * t)}, adapt=adapt, accuracy="ignore",
        )  # fmt: skip
        times.append(motion.events[0].time)
    assert times[0] == pytest.approx(times[1], abs=2e-3)
