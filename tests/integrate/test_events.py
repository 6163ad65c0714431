"""Events: found to rounding, on the grid before and after, and what is not an event is an error."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.integrate.events import Watch, zero

G = 10.0
ball = da.Model([da.tz("z", name="ball", mass=1.0)], [da.Gravity((0, 0, -G))], name="ball")
pushed = da.Model([da.tx("x", mass=1.0)], [da.ConfigForce("x", "push")])


def falling(order: int = 2, dt: float = 0.1) -> tuple[da.MidpointVI, da.State]:
    vi = da.MidpointVI(ball, dt=dt, order=order)
    return vi, vi.state(q={"z": 1.0})


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize(
    "until",
    ["z < 0.2", "ball.z<0.2", "0.2 > z", lambda s: s["ball.z"] < 0.2, lambda s: s["z"] - 0.2, lambda s: s.q[0] < 0.2],
)
def test_a_fall_ends_where_it_should(order, until):
    vi, start = falling(order)
    motion = vi.simulate(start, time=10.0, until=until)
    assert motion.t[-1] == pytest.approx(np.sqrt(2 * 0.8 / G), abs=1e-15)
    assert abs(motion["z"][-1] - 0.2) < 4e-15
    assert motion["p.z"][-1] == pytest.approx(-G * motion.t[-1], abs=1e-12)
    np.testing.assert_allclose(motion.t[:-1], 0.1 * np.arange(motion.steps), atol=1e-15)
    assert motion.events[-1].time == pytest.approx(motion.t[-1], abs=1e-15)  # which is on the grid here


def test_records_leave_the_motion_as_it_is():
    vi = da.MidpointVI(models.n_link(2), dt=0.01)
    start = vi.state(q=[2.0, 0.5])
    seen = vi.simulate(start, time=20.0, events=[da.Event("v.link-0", at=0.0), da.Event("'link-0' + 'link-1' > 0.3")])
    assert np.array_equal(seen.q, vi.simulate(start, time=20.0).q)
    turns = [e for e in seen.events if e.name == "v.link-0 = 0"]
    assert len(turns) > 10
    assert max(abs(e.state["v.link-0"]) for e in turns) < 1e-12
    v = seen["v.link-0"]
    assert len(turns) == np.sum(v[:-1] * v[1:] < 0)
    assert all(abs(e.state.q.sum() - 0.3) < 1e-14 for e in seen.events if e not in turns)
    assert [e.time for e in seen.events] == sorted(e.time for e in seen.events)


def test_two_passages_within_a_step_are_found():
    vi = da.MidpointVI(ball, dt=0.1)
    start = vi.state(q={"z": -0.4999}, v={"z": np.sqrt(G)})  # 0.1 mm above 0, for 9 ms
    found = vi.simulate(start, time=1.0, events=da.Event("z > 0")).events
    assert len(found) == 1
    assert found[0].time == pytest.approx((np.sqrt(G) - np.sqrt(G - 2 * G * 0.4999)) / G, abs=1e-13)


def test_a_function_changes_the_motion_and_the_grid_stays():
    vi, start = falling(dt=0.03)
    bounce = da.Event("z < 0", action=lambda s: vi.state(q=s.q, p=-s.p, t=s.t), name="bounce")
    motion = vi.simulate(start, time=3.0, events=bounce)
    fall = np.sqrt(2 / G)
    np.testing.assert_allclose([e.time for e in motion.events], fall * np.array([1, 3, 5]), atol=1e-13)
    np.testing.assert_allclose(motion.energy(), G, rtol=1e-13)
    np.testing.assert_allclose(motion.t, 0.03 * np.arange(101), atol=1e-12)


def test_order_two_through_an_event():
    """A pendulum that loses half its speed where it passes a line."""

    def end(n):
        vi = da.MidpointVI(models.n_link(2), dt=1.2 / n)
        slow = da.Event("link-0", below=0.4, action=lambda s: vi.state(q=s.q, p=0.5 * s.p, t=s.t))
        motion = vi.simulate(vi.state(q=[1.2, 0.5]), steps=n, events=slow)
        assert len(motion.events) == 1
        return motion.q[-1]

    exact = end(7680)
    errors = [np.abs(end(n) - exact).max() for n in (60, 120, 240)]
    assert all(1.9 < np.log2(a / b) < 2.1 for a, b in itertools.pairwise(errors))


def test_events_of_time_and_of_prescribed_variables():
    crane = da.Model([da.tx(da.Kinematic("x"), da.ry("swing", da.tz(-1.0, name="load", mass=1.0)))], [da.Gravity()])
    vi = da.MidpointVI(crane, dt=0.1, order=4)
    start = vi.state(q={"swing": 0.1})
    motion = vi.simulate(
        start, time=2.0, kinematic=lambda t: [t * t], events=[da.Event("t", above=1.234), da.Event("x > 0.5")]
    )
    assert [e.time for e in motion.events] == pytest.approx([np.sqrt(0.5), 1.234], abs=1e-14)
    rows = vi.simulate(start, time=2.0, kinematic=(0.1 * np.arange(1, 21))[:, None], until="x > 0.53")
    assert rows.t[-1] == pytest.approx(0.53, abs=1e-14)
    assert rows.rho[-1, 0] == pytest.approx(0.53, abs=1e-14)


def test_policies_see_the_grid_and_end_a_run_without_losing_it():
    vi = da.MidpointVI(pushed, dt=0.1)
    seen = []

    def policy(t, state):
        seen.append(t)
        if t > 0.75:
            raise da.Stop("far enough")
        return [1.0]

    start = vi.state()
    plain = vi.simulate(start, time=5.0, u=policy)
    watched = vi.simulate(start, time=5.0, u=policy, events=da.Event("x", above=0.1))
    for motion in (plain, watched):
        assert motion.steps == 8
        assert motion.events[-1].name == "far enough"
        assert motion.events[-1].time == motion.t[-1]
        np.testing.assert_allclose(motion["x"], motion.t**2 / 2, atol=1e-15)
    assert watched.events[0].time == pytest.approx(np.sqrt(0.2), abs=1e-14)
    np.testing.assert_allclose(seen, [*plain.t, *plain.t], atol=1e-15)


def test_until_that_holds_at_the_start_and_events_that_do():
    vi, start = falling()
    motion = vi.simulate(start, time=1.0, until="z < 2")
    assert motion.steps == 0
    assert len(motion.events) == 1
    assert not vi.simulate(start, time=0.4, events=da.Event("z < 2", action="stop")).events


def test_a_stopped_motion_goes_on_and_motions_add_up():
    vi, start = falling()
    first = vi.simulate(start, time=1.0, until="z < 0.3")
    second = vi.simulate(
        first[-1], time=0.5, events=da.Event("z", below=0.3, action="stop")
    )  # the same event does not hold it
    assert second.steps == 5
    both = first + second
    assert both.steps == first.steps + 5
    assert both.scheme == da.Scheme(dt=None)
    np.testing.assert_allclose(both["z"], 1 - G / 2 * both.t**2, atol=1e-14)
    assert len(both.events) == 1
    assert len(both.checks) == both.steps
    cut = both[: first.steps + 1]
    assert cut.events == both.events
    assert not both[:2].events
    assert first[:3] + first[2:] is not first
    assert np.array_equal((first[:3] + first[2:]).q, first.q)


def test_cuts_at_an_event_keep_it_once():
    vi = da.MidpointVI(pushed, dt=0.1)
    motion = vi.simulate(vi.state(v=[1.0]), time=2.0, events=da.Event("t", at=1.0))
    (event,) = motion.events
    at = int(np.flatnonzero(motion.t == event.time)[0])
    assert (motion[: at + 1] + motion[at:]).events == motion.events
    assert not motion[at:].events


@pytest.mark.parametrize("above", [0.0, 2e-19, -2e-19])
def test_zeros_are_between_neighbours(above):
    """Also where a guess is right up to rounding at once: its neighbour on the other side is found, too."""
    calls: list[float] = []

    def gap(x: float) -> float:
        calls.append(x)
        return 0.002 - x + above

    for end in (0.003, 0.004, 0.0025, 0.0061):
        before, after = zero(gap, 0.0, gap(0.0), end, gap(end), 1e-16 * end)
        assert 0.002 - 1e-18 < before <= after < 0.002 + 1e-18
    assert len(calls) < 60


def test_every_and_files(tmp_path):
    vi, start = falling(dt=0.01)
    motion = vi.simulate(start, steps=40, every=4, events=da.Event("z", below=0.7))
    assert len(motion) == 11
    assert len(motion.events) == 1
    assert len(motion.checks) == 10
    stopped = vi.simulate(start, steps=100, every=10, until="z < 0.5")
    assert stopped.t[-1] == pytest.approx(np.sqrt(0.1), abs=1e-14)
    assert len(stopped) == 5
    stopped.save(tmp_path / "m.npz")
    again = da.Trajectory.load(tmp_path / "m.npz")
    event = again.events[0]
    assert (event.time, event.name, event.step) == (stopped.events[0].time, "z < 0.5", stopped.events[0].step)
    assert np.array_equal(event.state.q, stopped.events[0].state.q)


def test_a_failure_keeps_the_motion_so_far():
    vi = da.MidpointVI(da.Model([da.tx("x", mass=1.0)], [da.Potential(lambda m: 1e3 * m["x"] ** 9)]), dt=0.1)
    with pytest.raises(da.ConvergenceError) as error:
        vi.simulate(vi.state(q=[-2.0]), time=100.0, until="x > 3", accuracy="ignore")
    assert error.value.trajectory is not None


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: da.Event("z"), ValueError, "needs below="),
        (lambda: da.Event(3.0, below=1.0), ValueError, "about a quantity"),
        (lambda: da.Event("", below=1.0), ValueError, "about a quantity"),
        (lambda: da.Event("z", below=1.0, above=2.0), ValueError, "one of below"),
        (lambda: da.Event("z", below=np.nan), ValueError, "not finite"),
        (lambda: da.Event("z", below="low"), ValueError, "must be a number"),
        (lambda: da.Event("z < 1", below=0.0), ValueError, "condition already"),
        (lambda: da.Event("z", below=0.0, action="jump"), ValueError, "action"),
        (lambda: da.Event("z", below=0.0, name=""), ValueError, "name"),
        (lambda: run(events=["z < 0"]), TypeError, "da.Event"),
        (lambda: run(events=da.Event("x", below=0.0)), ValueError, "no 'x'"),
        (lambda: run(events=da.Event("bal.z", below=0.0)), ValueError, "did you mean"),
        (lambda: run(events=da.Event("ball", below=0.0)), ValueError, "'ball.z'"),
        (lambda: run(events=da.Event("z == 0")), ValueError, "one < or >"),
        (lambda: run(events=da.Event("0 < z < 1")), ValueError, "one < or >"),
        (lambda: run(events=da.Event("z + < 1")), ValueError, "not an expression"),
        (lambda: run(events=da.Event("open(z) < 1")), ValueError, "cannot read"),
        (lambda: run(events=da.Event("sin(z, z) < 1")), ValueError, "takes 1"),
        (lambda: run(events=da.Event("log(z - 2) < 1")), ValueError, "finite"),
        (lambda: run(events=da.Event(lambda s: "no")), ValueError, "must be a number"),
        (lambda: run(events=da.Event(lambda s: s.q[0] < 0, below=0.0)), ValueError, "no level"),
        (lambda: run(events=da.Event("z < 0.5", action=lambda s: 3)), TypeError, "must return"),
        (lambda: run(until=3.0), TypeError, "until"),
        (lambda: run(until="z"), ValueError, "needs below="),
        (lambda: run() + run(), ValueError, "begins at t = 0"),
        (lambda: run() + 3, TypeError, "unsupported"),
        (lambda: run() + pushed_run(), ValueError, "different models"),
    ],
)  # fmt: skip
def test_what_is_no_event_says_so(make, error, text):
    with pytest.raises(error, match=text):
        make()


def run(**options):
    vi, start = falling()
    return vi.simulate(start, time=1.0, **options)


def pushed_run():
    vi = da.MidpointVI(pushed, dt=0.1)
    return vi.simulate(vi.state(t=1.0), time=1.0)


def test_inputs_are_not_states():
    vi = da.MidpointVI(pushed, dt=0.1)
    with pytest.raises(ValueError, match="input"):
        vi.simulate(vi.state(), time=1.0, until="push > 0")


@pytest.mark.parametrize(
    ("event", "simple"),
    [
        (da.Event("link-0", above=0.3), True),
        (da.Event("link-0", below=0.3), True),
        (da.Event("link-1", at=-0.2), True),
        (da.Event("'link-0' > 0.3"), True),
        (da.Event("-1e-1 <= 'link-0'"), True),
        (da.Event("0.3 > 'end-1.y'"), True),
        (da.Event("end-1.z", above=-1.5), True),
        (da.Event("t", above=1.25), True),
        (da.Event("t >= 1.25"), True),
        (da.Event("v.link-0", below=0.1), False),
        (da.Event("'link-0' < 'link-1'"), False),
        (da.Event("'link-0' + 0.5 < 0"), False),
        (da.Event("p.link-1", at=0.0), False),
    ],
)
def test_simple_events_are_watched_by_the_core(event, simple):
    """The same instants as those of a function of the state, which the core does not watch."""
    vi = da.MidpointVI(models.n_link(2), dt=0.05)
    start = vi.state(q=[1.0, 0.5])
    watch = Watch(event, vi.simulate(start, 1))
    assert (watch.crossing(vi.model) is not None) == simple

    def asked(s: da.State) -> float:
        return float(watch.values(da.Trajectory(vi.model, np.array([s.t]), s.q[None], s.p[None], *none))[0])

    none = [np.zeros((0, n)) for n in (0, 0, 0)]
    level = {"at": 0.0} if event.at is not None else {"below": 0.0}
    for action in ("record", "stop", lambda s: None):
        a = vi.simulate(start, 200, events=[replace(event, action=action)])
        b = vi.simulate(start, 200, events=[da.Event(asked, **level, action=action)])
        assert a.events
        assert len(a.events) == len(b.events)
        assert a.t[-1] == pytest.approx(b.t[-1], abs=1e-13)
        for x, y in zip(a.events, b.events, strict=True):
            assert x.time == pytest.approx(y.time, abs=1e-12)
            assert x.step == y.step
