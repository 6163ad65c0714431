"""Limits and contacts: known solutions, energies, accumulations, rests and releases, derivatives, and what is wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dalembert as da
from dalembert.integrate.hybrid import Run
from dalembert.integrate.impacts import complementary

G = 9.81
DOWN = da.Gravity((0, 0, -G))


def ball(e: float, radius: float = 0.1) -> da.Model:
    return da.Model([da.tz("z", name="ball", mass=1.3)], [DOWN, da.Contact("ball", radius=radius, restitution=e)])


def double_pendulum(e: float) -> da.Model:
    lower = da.ry("b", da.tz(-1.0, mass=1.0))
    return da.Model([da.ry("a", da.tz(-1.0, lower, mass=1.0))], [DOWN, da.Limit("b", -0.2, 1.5, restitution=e)])


def block(e: float, *more: da.Element) -> da.Model:
    """A square of 1 m in the plane, two corners of which meet the floor."""
    corners = [da.tx(s, da.tz(-0.5, name=name)) for s, name in ((-0.5, "left"), (0.5, "right"))]
    body = da.tx("x", da.tz("z", da.ry("turn", *corners, mass=2.0, inertia=(0, 0.3, 0))))
    return da.Model([body], [DOWN, da.Contact("left", restitution=e), da.Contact("right", restitution=e), *more])


def cradle(n: int, e: float = 1.0) -> da.Model:
    touching = [da.SphereContact(f"b{i}", f"b{i + 1}", 0.05, 0.05, restitution=e) for i in range(n - 1)]
    return da.Model([da.tx(f"x{i}", name=f"b{i}", mass=1.0) for i in range(n)], touching)


def state_of(motion: da.Trajectory) -> np.ndarray:
    return np.concatenate([motion.q[-1], motion.p[-1]])


def product(A: np.ndarray) -> np.ndarray:
    out = np.eye(A.shape[1])
    for a in A:
        out = a @ out
    return out


# ---- known solutions


@pytest.mark.parametrize("order", [2, 4])
def test_a_bouncing_ball_hits_at_the_exact_times_and_comes_to_rest(order):
    e, dt = 0.8, 0.01
    vi = da.MidpointVI(ball(e), dt=dt, order=order)
    motion = vi.simulate(vi.state(q={"z": 1.1}), time=5.0)
    fall = math.sqrt(2 / G)
    exact = [fall * (1 + 2 * sum(e**i for i in range(1, k + 1))) for k in range(len(motion.impacts))]
    assert len(exact) > 30
    np.testing.assert_allclose([i.time for i in motion.impacts], exact, atol=1e-12)
    rest = fall * (1 + e) / (1 - e)
    assert (
        0 < rest - motion.impacts[-1].time < 0.5 * dt
    )  # the stated rule: flights below a twentieth of a step are none
    after = motion.t > rest
    assert np.abs(motion["z"][after] - 0.1).max() < 1e-14
    assert np.abs(motion["v.z"][after]).max() < 1e-14
    assert motion["z"].min() > 0.1 - 1e-14
    first = motion.impacts[0]
    speed = G * fall
    assert (first.impulse, first.energy) == pytest.approx((1.3 * 1.8 * speed, 0.5 * 1.3 * 0.36 * speed**2), rel=1e-12)
    assert first.place == pytest.approx((0, 0, 0.1), abs=1e-14)
    assert first.name == "Contact(ball, world)"
    lost = sum(i.energy for i in motion.impacts)
    assert lost == pytest.approx(motion.energy()[0] - motion.energy()[-1], rel=1e-12)
    np.testing.assert_allclose(motion.t, dt * np.arange(501), atol=1e-12)


def bounces(time: float) -> tuple[int, float]:
    vi = da.MidpointVI(ball(1.0), dt=0.05)
    motion = vi.simulate(vi.state(q={"z": 1.1}), time=time)
    energy = motion.energy()
    return len(motion.impacts), float(np.abs(energy / energy[0] - 1).max())


def test_elastic_bounces_keep_the_energy():
    count, error = bounces(200.0)
    assert count == 221
    assert error < 1e-11


@pytest.mark.slow
def test_1e5_elastic_bounces_keep_the_energy():
    count, error = bounces(90_400.0)
    assert count > 100_000
    assert error < 1e-10


def drift(dt: float, time: float) -> tuple[int, float]:
    vi = da.MidpointVI(double_pendulum(1.0), dt=dt)
    motion = vi.simulate(vi.state(q=[1.0, 0.5]), time=time, accuracy="ignore")
    assert da.gaps(vi.model, motion.q).min() > -1e-10
    energy = motion.energy()
    return len(motion.impacts), float(np.abs(energy - energy[0]).max())


def test_a_double_pendulum_between_limits_keeps_its_energy_to_second_order():
    (many, coarse), (_, fine) = drift(0.02, 40.0), drift(0.01, 40.0)
    assert many > 40
    assert fine < coarse < 6e-2  # of about 11 J
    assert fine < coarse / 3


def wander(dt: float, impacts: int) -> float:
    """Largest error of the energy while the double pendulum hits its limits so often; in pieces, to keep little."""
    vi = da.MidpointVI(double_pendulum(1.0), dt=dt)
    state, begun, worst, count = vi.state(q=[1.0, 0.5]), None, 0.0, 0
    while count < impacts:
        motion = vi.simulate(state, time=500.0, accuracy="ignore")
        energy = motion.energy()
        begun = energy[0] if begun is None else begun
        worst, count = max(worst, float(np.abs(energy - begun).max())), count + len(motion.impacts)
        assert da.gaps(vi.model, motion.q).min() > -1e-10
        state = vi.state(q=motion.q[-1], p=motion.p[-1])
    return worst


@pytest.mark.slow
def test_a_double_pendulum_between_limits_for_1e5_impacts():
    """0.28 and 0.073 J of 11.3 J here: a random walk whose steps fall with dt^2."""
    coarse, fine = wander(0.02, 100_000), wander(0.01, 100_000)
    assert coarse < 0.6
    assert fine < 0.15
    assert fine < coarse / 2.5


def test_order_two_through_impacts():
    def end(n):
        vi = da.MidpointVI(double_pendulum(0.7), dt=1.3 / n)
        motion = vi.simulate(vi.state(q=[1.2, 0.5]), steps=n)
        assert len(motion.impacts) == 2
        return state_of(motion)

    exact = end(4160)
    errors = [np.abs(end(n) - exact).max() for n in (65, 130, 260)]
    assert all(1.9 < np.log2(a / b) < 2.1 for a, b in itertools.pairwise(errors)), errors


@pytest.mark.parametrize(
    ("law", "n", "speeds"),
    [
        ("together", 5, (-0.6, 0.4, 0.4, 0.4, 0.4)),
        ("sequence", 5, (0, 0, 0, 0, 1)),
        ("together", 3, (-1 / 3, 2 / 3, 2 / 3)),
        ("sequence", 3, (0, 0, 1)),
    ],
)
def test_newtons_cradle_under_both_laws(law, n, speeds):
    vi = da.MidpointVI(cradle(n), dt=0.01, impacts=law)
    motion = vi.simulate(vi.state(q=[-0.5, *(0.1 * i for i in range(1, n))], v={"x0": 1.0}), time=1.0)
    np.testing.assert_allclose(motion.v[-1], speeds, atol=1e-13)
    assert len(motion.impacts) == n - 1
    assert motion.impacts[0].time == pytest.approx(0.5, abs=1e-14)
    assert sum(i.energy for i in motion.impacts) == pytest.approx(0.0, abs=1e-14)


def test_the_law_of_impacts_along_constraints():
    """A bead on a wire of 45 degrees hits the floor: the wire takes its part."""
    bead = da.tx("x", da.tz("z", name="bead", mass=1.0))
    model = da.Model([bead], [da.LinearRelation({"x": 1.0, "z": 1.0}, 0.5), da.Contact("bead", restitution=0.5)])
    vi = da.MidpointVI(model, dt=0.1)
    motion = vi.simulate(vi.state(q=[0.2, 0.3], v=[1.0, -1.0]), steps=8)
    assert motion.impacts[0].time == pytest.approx(0.3, abs=1e-14)
    np.testing.assert_allclose(motion.v[-1], [-0.5, 0.5], atol=1e-13)
    assert motion.impacts[0].energy == pytest.approx(0.75, abs=1e-13)
    assert motion.impacts[0].impulse == pytest.approx(
        2 * 1.5, abs=1e-12
    )  # the mass along the wire is 2 per m of height


def test_a_moving_plane_hits():
    table = da.tz(da.Kinematic("lift"), name="table")
    model = da.Model([table, da.tz("z", name="ball", mass=1.0)], [da.Contact("ball", plane="table", restitution=1.0)])
    vi = da.MidpointVI(model, dt=0.1)
    motion = vi.simulate(vi.state(q={"z": 0.5, "lift": 0.0}), time=1.0, kinematic=lambda t: [t])
    assert motion.impacts[0].time == pytest.approx(0.5, abs=1e-13)
    assert motion["v.z"][-1] == pytest.approx(2.0, abs=1e-12)


# ---- rest and release


def test_a_block_lands_on_a_corner_then_on_its_side_and_stays():
    vi = da.MidpointVI(block(0.3), dt=0.01)
    motion = vi.simulate(vi.state(q={"z": 1.0, "turn": 0.3}), time=5.0)
    assert {i.name for i in motion.impacts} == {"Contact(left, world)", "Contact(right, world)"}
    np.testing.assert_allclose(motion.q[-1, 1:], [0.5, 0.0], atol=1e-13)
    assert np.abs(motion.v[-1]).max() < 1e-13
    assert min(motion["left.z"].min(), motion["right.z"].min()) > -1e-12
    flat = vi.simulate(vi.state(q={"z": 1.0}), time=5.0)  # both corners at once
    assert [i.time for i in flat.impacts[::2]] == [i.time for i in flat.impacts[1::2]]
    assert np.abs(flat["turn"]).max() < 1e-13


@pytest.mark.parametrize("law", ["together", "sequence"])
def test_resting_balls_stay_and_a_push_lifts_them(law):
    model = da.Model([da.tz("z", name="ball", mass=2.0)], [DOWN, da.Contact("ball"), da.ConfigForce("z", "lift")])
    vi = da.MidpointVI(model, dt=0.1, impacts=law)
    up = vi.simulate(vi.state(), time=2.0, u={"lift": lambda t: 3 * G if t > 0.95 else 0.0})
    assert not up.impacts
    assert np.abs(up["z"][:11]).max() < 1e-15
    assert up["z"][-1] == pytest.approx(0.5 * G / 2 * 1.0**2, rel=1e-12)  # from 1.0 s on, with half of g
    again = vi.simulate(up[5], time=1.0)  # a state at rest is one to start from
    assert np.abs(again["z"]).max() < 1e-15


def test_a_mass_leaves_a_sphere_where_it_should_to_second_order():
    model = da.Model(
        [da.tx("x", da.tz("z", name="p", mass=1.0))],
        [da.Gravity((0, 0, -1.0)), da.SphereContact("world", "p", 0.5, 0.5)],
    )
    errors = []
    for dt in (0.02, 0.01, 0.005):
        vi = da.MidpointVI(model, dt=dt)
        motion = vi.simulate(vi.state(q=[np.sin(0.1), np.cos(0.1)]), time=4.0)
        (left,) = [p for p in motion.pieces if p.cause == "force"]
        errors.append(motion.at(left.step * dt + left.length)[1] - 2 / 3 * np.cos(0.1))
        assert da.gaps(model, motion.q).min() > -1e-12
    assert abs(errors[-1]) < 1e-6
    assert all(3.9 < a / b < 4.1 for a, b in itertools.pairwise(errors))


def test_a_joint_that_rests_at_its_stop_and_comes_back():
    arm = da.Model(
        [da.ry("elbow", da.tx(0.5, mass=1.0))], [DOWN, da.Limit("elbow", -1.0, 0.4), da.ConfigForce("elbow", "motor")]
    )
    vi = da.MidpointVI(arm, dt=0.01)
    motion = vi.simulate(vi.state(), time=3.0, u={"motor": lambda t: -10.0 if t > 2 else 0.0})
    assert len(motion.impacts) == 1 + sum(i.name == "Limit(elbow) low" for i in motion.impacts)
    rest = (motion.t > 1) & (motion.t < 2)
    assert np.abs(motion["elbow"][rest] - 0.4).max() < 1e-14
    assert motion["elbow"][-1] == pytest.approx(-1.0, abs=1e-12)
    assert motion["elbow"].max() < 0.4 + 1e-12


def test_a_policy_sees_impacts_on_the_grid():
    vi = da.MidpointVI(ball(0.5), dt=0.1)
    given = vi.simulate(vi.state(q={"z": 1.0}), time=2.0)
    free = da.MidpointVI(da.Model(vi.model.frames, [*vi.model.elements, da.ConfigForce("z", "push")]), dt=0.1)
    policy = free.simulate(free.state(q={"z": 1.0}), time=2.0, u=lambda t, s: [0.0])
    np.testing.assert_allclose(policy.q, given.q, atol=1e-12)
    state = vi.state(q={"z": 1.0})
    for k in range(20):
        state = vi.step(state)
        np.testing.assert_allclose(state.q, given.q[k + 1], atol=1e-12)


def test_events_and_impacts_together():
    vi = da.MidpointVI(ball(1.0), dt=0.03)
    motion = vi.simulate(vi.state(q={"z": 1.1}), time=10.0, events=da.Event("v.z < 0", name="top"), until="t > 3")
    tops = [e for e in motion.events if e.name == "top"]
    assert motion.t[-1] == pytest.approx(3.0, abs=1e-12)
    assert all(e.state["z"] == pytest.approx(1.1, abs=1e-12) for e in tops)
    assert len(tops) == 3


def test_balls_in_three_dimensions_land():
    body = da.floating("body", da.tx(0.3, name="nose"), da.tx(-0.2, name="tail"), mass=1.0, inertia=(0.1, 0.2, 0.3))
    model = da.Model(
        [body], [DOWN, da.Contact("nose", restitution=0.5), da.Contact("tail", radius=0.1, restitution=0.5)]
    )
    vi = da.MidpointVI(model, dt=0.005)
    pose = np.eye(4)
    pose[2, 3] = 1.0
    motion = vi.simulate(vi.state(q={"body": pose}, v={"body.wy": 3.0}), time=2.0)
    assert len(motion.impacts) > 3
    assert da.gaps(model, motion.q).min() > -1e-10


@pytest.mark.slow
def test_a_slider_crank_with_stops_for_1000_s():
    """A crank that a changing torque drives, its slider between two stops: 1000 s in a closed loop."""
    motion = slider_crank(1000.0)
    assert len(motion.impacts) > 500
    assert da.gaps(motion.model, motion.q).min() > -1e-10
    assert motion.constraint_violation().max() < 1e-10
    assert np.abs(motion.v).max() < 100


def slider_crank(time: float) -> da.Trajectory:
    rod = da.ry("rod", da.tx(1.0, name="end"), da.tx(0.5, mass=0.5, inertia=(0, 0.05, 0)))
    crank = da.ry("crank", da.tx(0.3, rod, mass=0.3), mass=1.0, inertia=(0, 0.1, 0))
    slider = da.tx("slide", name="slider", mass=1.0)
    loop, stops = da.PointToPoint("end", "slider", "xz"), da.Limit("slide", 0.75, 1.25, restitution=0.6)
    model = da.Model([crank, slider], [DOWN, loop, stops, da.Damping(0.05), da.ConfigForce("crank", "torque")])
    vi = da.MidpointVI(model, dt=0.01)
    q = da.satisfy_constraints(model, {"crank": -np.pi / 2, "rod": np.pi / 2 - 0.3, "slide": 0.95})
    return vi.simulate(vi.state(q=q), time=time, u={"torque": lambda t: 3.0 * np.sin(1.7 * t)})


def test_a_slider_crank_with_stops():
    motion = slider_crank(20.0)
    assert len(motion.impacts) > 5
    assert da.gaps(motion.model, motion.q).min() > -1e-10
    assert motion.constraint_violation().max() < 1e-10


# ---- beside constraints on velocities


def skate_against(*more: da.Element) -> da.Model:
    blade = da.tx("x", da.ty("y", da.rz("turn", name="skate", mass=1.0, inertia=(0, 0, 1.0))))
    return da.Model([blade], [da.KnifeEdge("skate"), *more])


def test_a_skate_bounces_along_its_blade():
    model = skate_against(da.Limit("x", high=1.0, restitution=0.5))
    vi = da.MidpointVI(model, dt=0.03)
    (impact,) = vi.simulate(vi.state(q=[0, 0, 0], v=[1.0, 0, 0]), time=2.0).impacts
    assert (impact.time, impact.after, impact.energy) == pytest.approx((1.0, 0.5, 0.375), abs=1e-12)
    # a blade that turns: what the blade does not allow takes part in the blow, so that the whole speed is turned round
    elastic = skate_against(da.Limit("x", high=1.0, restitution=1.0))
    start = [0, 0, 0.5], da.consistent_velocity(elastic, [0, 0, 0.5], [np.cos(0.5), np.sin(0.5), 0.3])
    ends = []
    for dt in (0.04, 0.02, 0.01):
        vi = da.MidpointVI(elastic, dt)
        motion = vi.simulate(vi.state(q=start[0], v=start[1]), time=8.0)
        assert len(motion.impacts) == 2
        np.testing.assert_allclose(motion.energy(), motion.energy()[0], atol=1e-13)
        ends.append(motion.q[-1])
    assert np.abs(ends[0] - ends[1]).max() / np.abs(ends[1] - ends[2]).max() == pytest.approx(4.0, abs=0.1)


def test_a_skate_that_is_pressed_against_a_stop_rests_there():
    model = skate_against(da.Limit("x", high=1.0), da.Gravity((2.0, 0.5, 0)))
    vi = da.MidpointVI(model, 0.01)
    motion = vi.simulate(vi.state(q=[0, 0, 0.5]), time=4.0)
    np.testing.assert_allclose(
        motion.q[-1], [1.0, np.tan(0.5), 0.5], atol=1e-12
    )  # where the blade's line meets the stop
    assert len(motion.impacts) == 1
    assert np.abs(motion.v[-1]).max() < 1e-12
    assert motion.lam.shape == (400, 1)


def test_a_rolling_disk_goes_on_rolling_after_a_wall():
    disk = da.floating("b", name="disk", mass=1.0, inertia=(0.0625, 0.125, 0.0625))
    wall = da.Contact("disk", "wall", (-1, 0, 0), 0.5, restitution=0.8)
    model = da.Model([disk, da.tx(2.0, name="wall")], [da.Gravity(), da.RollingDisk("disk", 0.5), wall])
    vi = da.MidpointVI(model, 0.01)
    q = model.configuration.point({"b.z": 0.5})
    motion = vi.simulate(vi.state(q=q, v=da.consistent_velocity(model, q, [1.0, 0, 0, 0, 2.0, 0])), time=3.0)
    (impact,) = motion.impacts
    assert (impact.time, impact.energy) == pytest.approx((1.5, 1.5 / 2 * (1 - 0.64)), abs=1e-12)  # 1.5 m: it rolls
    np.testing.assert_allclose(motion.v[-1], [-0.8, 0, 0, 0, -1.6, 0], atol=1e-12)


# ---- derivatives


@pytest.mark.parametrize(("e", "row"), [(1.0, (1, 0, 1, 0)), (0.5, (0.75, 0.25, 0.75, 0.25))])
@pytest.mark.parametrize("place", [0.5, 0.53])  # 0.5: the impact is at the end of a step
def test_gradient_of_two_equal_balls(e, row, place):
    balls = [da.tx("x1", name="a", mass=1.0), da.tx("x2", name="b", mass=1.0)]
    vi = da.MidpointVI(da.Model(balls, [da.SphereContact("a", "b", 0.1, 0.1, restitution=e)]), dt=0.1)
    motion = vi.simulate(vi.state(q=[0.0, place], v=[1.0, 0.0]), steps=10)
    A, _ = motion.linearize()
    np.testing.assert_allclose(product(A)[1], row, atol=1e-9)
    np.testing.assert_allclose(motion.adjoint([0, 1, 0, 0])[0], row, atol=1e-9)


def differences(run, x, d=1e-5):
    unit = np.eye(len(x)) * d
    return np.stack(
        [(8 * (run(x + e) - run(x - e)) - (run(x + 2 * e) - run(x - 2 * e))) / (12 * d) for e in unit], axis=1
    )


def along_the_motion(vi, motion, start, dx, u):
    """Where a motion ends from a start moved by dx, as a difference to where it ended."""
    s = vi.retract(start, dx)
    q, p = s[: vi.model.nq], s[vi.model.nq : vi.model.nq + vi.model.nd]
    found = vi.simulate(vi.state(q=q, p=p), steps=motion.steps, u=u)
    assert [i.name for i in found.impacts] == [i.name for i in motion.impacts]
    end, moved = (np.r_[m.q[-1], m.p[-1], np.zeros(vi.model.nkv)] for m in (motion, found))
    return vi.difference(end, moved)


@pytest.mark.parametrize("case", ["skate", "rests", "disk"])
def test_derivatives_through_impacts_of_what_rolls(case):
    if case == "disk":
        disk = da.floating("b", name="disk", mass=1.0, inertia=(0.0625, 0.125, 0.0625))
        wall = da.Contact("disk", "wall", (-1, 0, 0), 0.5, restitution=0.8)
        model = da.Model(
            [disk, da.tx(0.8, name="wall")],
            [da.Gravity(), da.RollingDisk("disk", 0.5), wall, da.Wrench("disk", torque=(0.0, "drive", 0.0))],
        )
        turned = da.rotation.exponential([0.1, 0.05, 0.2])
        q = da.satisfy_constraints(model, model.configuration.point({"b.z": 0.5, "b": turned}))
        v = da.consistent_velocity(model, q, [1.0, 0.1, 0, 0, 2.0, 0.3])
    else:
        elements = [da.Limit("x", high=1.0, restitution=0.7 if case == "skate" else 0.0), da.ConfigForce("x", "drive")]
        model = skate_against(*elements, da.Gravity((2.0 if case == "rests" else 0.3, 0.5, 0)))
        q = np.array([0.7, 0, 0.5])
        v = da.consistent_velocity(model, q, [np.cos(0.5), np.sin(0.5), 0.3 if case == "skate" else 0.0])
    vi = da.MidpointVI(model, 0.05)
    start = vi.state(q=q, v=v)
    steps, u = 12, 0.2 + 0.1 * np.sin(np.arange(12.0))[:, None]
    motion = vi.simulate(start, steps=steps, u=u)
    assert motion.impacts
    A, _ = motion.linearize()
    x = np.r_[start.q, start.p, np.zeros(model.nkv)]
    allowed = np.eye(vi.ndx)
    if model.nh:  # turns and moves of the start along the constraint
        allowed = np.zeros((vi.ndx - model.nh, vi.ndx))
        allowed[: model.nv - model.nh, : model.nv] = np.linalg.svd(da.constraint_jacobian(model, q)[: model.nh])[2][1:]
        allowed[model.nv - model.nh :, model.nv :] = np.eye(model.nv)
    for d in allowed:
        h, by = 2e-5, product(A) @ d

        def g(e, d=d):
            return along_the_motion(vi, motion, x, e * d, u)

        slope = (8 * (g(h) - g(-h)) - (g(2 * h) - g(-2 * h))) / (12 * h)
        np.testing.assert_allclose(by, slope, atol=1e-6 * max(1, np.abs(slope).max()))
    z = np.linspace(-1, 1, vi.ndx)
    by_start, by_input = motion.adjoint(z)
    np.testing.assert_allclose(by_start, z @ product(A), atol=1e-10)
    shift = np.zeros_like(u)
    shift[3] = 1e-4
    change = [along_the_motion(vi, motion, x, np.zeros(vi.ndx), u + f * shift) for f in (1, -1)]
    assert by_input[3, 0] == pytest.approx(z @ (change[0] - change[1]) / 2e-4, abs=1e-6)


@pytest.mark.parametrize("order", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_100_random_impacts_have_exact_derivatives(order):
    """Masses, places, speeds, restitutions, steps and an input at random: a chain of three balls on a slope with a wall, a pendulum at its stop."""
    worst, done = 0.0, 0
    rng = np.random.default_rng(7)
    for trial in range(62):
        law = ("together", "sequence")[trial // 2 % 2]
        masses, e = rng.uniform(0.5, 2.0, 3), rng.uniform(0.2, 1.0, 3)
        if trial % 2:
            frames = [da.tx(f"x{i}", name=f"b{i}", mass=m) for i, m in enumerate(masses)]
            elements = [
                da.SphereContact("b0", "b1", 0.1, 0.1, restitution=e[0]),
                da.SphereContact("b1", "b2", 0.1, 0.1, restitution=e[1]),
            ]
            model = da.Model(
                frames,
                [
                    *elements,
                    da.Limit("x0", -1.0, restitution=e[2]),
                    da.Gravity((-3.0, 0, 0)),
                    da.ConfigForce("x2", "push"),
                ],
            )
            q, v = np.array([-0.7, -0.3, 0.1]) + rng.uniform(-0.08, 0.08, 3), rng.uniform(-1.5, -0.5, 3)
        else:
            lower = da.ry("b", da.tz(-1.0, mass=masses[1]))
            limits = [da.Limit("b", -0.3, 0.9, restitution=e[0]), da.Limit("a", -0.5, restitution=e[1])]
            model = da.Model(
                [da.ry("a", da.tz(-1.0, lower, mass=masses[0]))], [DOWN, *limits, da.ConfigForce("a", "push")]
            )
            q, v = rng.uniform([0.2, 0.0], [1.0, 0.6]), rng.uniform(-1.0, 1.0, 2)
        vi = da.MidpointVI(model, dt=float(rng.uniform(0.01, 0.03)), order=order, impacts=law)
        n = model.nd
        x = np.concatenate([q, da.mass_matrix(model, q) @ v, [rng.uniform(-1, 1)]])

        def motion_of(y, vi=vi, n=n):
            return vi.simulate(vi.state(q=y[:n], p=y[n : 2 * n], check=False), steps=40, u=[y[-1]], accuracy="ignore")

        motion = motion_of(x)
        hard = [i for i in motion.impacts if i.before > -0.15]
        held = [p for p in motion.pieces if p.held]
        if not motion.impacts or hard or held:  # grazing: no derivative to compare with
            continue
        A, B = motion.linearize()
        by_input = np.zeros(2 * n)
        for a, b in zip(A, B, strict=True):
            by_input = a @ by_input + b[:, 0]
        exact = np.column_stack([product(A), by_input])
        found = differences(lambda y, f=motion_of: state_of(f(y)), x, 2e-6)
        worst = max(worst, float(np.abs(exact - found).max() / np.abs(found).max()))
        done += len(motion.impacts)
        start, inputs = motion.adjoint(np.ones(2 * n))
        np.testing.assert_allclose(start, np.ones(2 * n) @ product(A), rtol=1e-9, atol=1e-9)
        assert inputs.sum() == pytest.approx(by_input.sum(), rel=1e-9, abs=1e-9)
    assert done >= 100
    assert worst < 1e-6


def test_derivatives_through_rest_and_release():
    model = da.Model(
        [da.tx("x", da.tz("z", name="p", mass=1.0))],
        [da.Gravity((0, 0, -1.0)), da.SphereContact("world", "p", 0.5, 0.5), da.ConfigForce("x", "push")],
    )
    vi = da.MidpointVI(model, dt=0.02)

    def start(y):
        angle, speed = y[:2]
        return vi.state(q=[np.sin(angle), np.cos(angle)], v=[np.cos(angle) * speed, -np.sin(angle) * speed])

    def run(y):
        return vi.simulate(start(y), time=4.0, u=[y[2]])

    y = np.array([0.1, 0.05, 0.01])
    motion = run(y)
    assert [p.cause for p in motion.pieces if p.cause] == ["gap", "force"]
    A, B = motion.linearize()
    forced = np.zeros(4)
    for a, b in zip(A, B, strict=True):
        forced = a @ forced + b[:, 0]
    by_start = differences(lambda z: np.concatenate([start(z).q, start(z).p]), y)[:, :2]
    exact = np.column_stack([product(A) @ by_start, forced])
    np.testing.assert_allclose(exact, differences(lambda z: state_of(run(z)), y), atol=1e-7)


def test_derivatives_with_a_plane_that_moves():
    table = da.tz(da.Kinematic("lift"), name="table")
    model = da.Model(
        [table, da.tz("z", name="ball", mass=1.0)], [DOWN, da.Contact("ball", plane="table", restitution=0.8)]
    )
    vi = da.MidpointVI(model, dt=0.1)

    def run(y):
        rho = np.linspace(0, y[2], 11)[1:, None] + 0.05 * np.sin(np.arange(1, 11))[:, None]
        return vi.simulate(vi.state(q={"z": y[0], "lift": 0.0}, v={"z": y[1]}), steps=10, kinematic=rho)

    y = np.array([0.6, -0.5, 0.4])
    motion = run(y)
    assert len(motion.impacts) >= 1
    A, B = motion.linearize()
    by = np.zeros((4, 3))
    by[0, 0] = by[2, 1] = 1.0
    for k, (a, b) in enumerate(zip(A, B, strict=True)):
        by = a @ by
        by[:, 2] += b[:, 0] * (k + 1) / 10
    found = differences(lambda z: np.concatenate([run(z).q[-1], run(z).p[-1]]), y)
    np.testing.assert_allclose(by[[0, 1, 2]], found, atol=1e-7)


def on_a_falling_table(dt: float, bend: np.ndarray | None = None) -> da.Trajectory:
    """A ball on a table that swings by 0.2 m, whose acceleration is g at 0.0723 s and then more."""
    table = da.tz(da.Kinematic("lift"), name="table")
    model = da.Model([table, da.tz("z", name="ball", mass=1.0)], [DOWN, da.Contact("ball", plane="table")])
    vi = da.MidpointVI(model, dt=dt)
    steps = round(2.5 / dt) if bend is None else len(bend)
    path = 0.2 * np.sin(9 * dt * np.arange(1, steps + 1)) + (0.0 if bend is None else bend)
    return vi.simulate(vi.state(), steps=steps, kinematic=path[:, None])


def test_a_ball_leaves_a_table_that_falls_away():
    """Three times, in the step in which the table's acceleration passes g: prescribed velocities are those of the steps."""
    for dt in (0.01, 0.005, 0.0025):
        motion = on_a_falling_table(dt)
        left = [p.step * dt + p.length for p in motion.pieces if p.cause == "force"]
        assert len(left) == len(motion.impacts) >= 3
        assert abs(left[0] - 0.0723) < dt
        assert da.gaps(motion.model, motion.q).min() > -1e-12


def test_derivatives_through_a_release_from_a_table():
    bend = 1e-3 * np.sin(np.arange(20.0))
    motion = on_a_falling_table(0.01, bend)
    assert any(p.cause == "force" for p in motion.pieces)
    A, B = motion.linearize()
    for k in (2, 6, 9, 15):
        by = np.zeros(4)
        for i, (a, b) in enumerate(zip(A, B, strict=True)):
            by = a @ by + b[:, 0] * (i == k)
        e = 1e-6 * np.eye(20)[k]
        more, less = (on_a_falling_table(0.01, bend + s * e) for s in (1, -1))
        found = (np.r_[more.q[-1], more.p[-1]] - np.r_[less.q[-1], less.p[-1]]) / 2e-6
        np.testing.assert_allclose(by[[0, 1, 2]], found, atol=1e-6)


def test_derivatives_of_motions_without_impacts_are_those_of_the_system():
    vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
    motion = vi.simulate(vi.state(q={"theta": 0.5}), steps=20)
    system = da.System(vi, steps=20)
    A, B = system.linearize_trajectory(*system.curve(motion)) if hasattr(system, "curve") else motion.linearize()
    mine = motion.linearize()
    np.testing.assert_allclose(mine[0], A, atol=1e-12)
    np.testing.assert_allclose(mine[1], B, atol=1e-12)


# ---- trajectories


def test_files_and_pieces_of_motions_keep_impacts(tmp_path):
    vi = da.MidpointVI(ball(0.3), dt=0.01)
    motion = vi.simulate(vi.state(q={"z": 0.5}), time=1.5)
    motion.save(tmp_path / "m.npz")
    again = da.Trajectory.load(tmp_path / "m.npz")
    assert again.model == motion.model
    assert again.impacts == motion.impacts
    assert again.pieces == motion.pieces
    np.testing.assert_array_equal(again.linearize()[0], motion.linearize()[0])
    both = motion[:60] + motion[59:]
    assert both.impacts == motion.impacts
    np.testing.assert_allclose(both.linearize()[0], motion.linearize()[0], atol=1e-14)
    np.testing.assert_allclose(motion[30:90].linearize()[0], motion.linearize()[0][30:89], atol=1e-14)
    thin = vi.simulate(vi.state(q={"z": 0.5}), time=1.5, every=10)
    assert thin.impacts == motion.impacts
    np.testing.assert_array_equal(thin.q, motion.q[::10])
    with pytest.raises(ValueError, match="n-th state"):
        thin.linearize()


# ---- what takes no notice, and what is wrong


def test_what_takes_no_notice_of_contacts_says_so():
    model = da.Model([da.tz("z", name="ball", mass=1.0)], [DOWN, da.Contact("ball"), da.ConfigForce("z", "push")])
    vi = da.MidpointVI(model, dt=0.1)
    start = vi.state(q={"z": 0.1})
    with pytest.warns(da.AccuracyWarning, match=r"rollouts takes no notice .* Contact\(ball, world\)"):
        da.rollouts(vi, [start, start], 5)
    with pytest.raises(da.AccuracyError):
        da.rollouts(vi, [start], 5, accuracy="raise")
    system = da.System(vi, steps=5)
    X = system.simulate(np.array([0.1, 0.0]), np.zeros((5, 1))) if hasattr(system, "simulate") else None
    if X is not None:
        with pytest.warns(da.AccuracyWarning, match="System"):
            system.trajectory(X, np.zeros((5, 1)))
    for make in (
        lambda: da.EulerModel(model, 0.1),
        lambda: da.simulate_continuous(model, [0.1], [0.0], [0.0, 0.1]),
        lambda: da.ContinuousSystem(model, [0.0, 0.1]),
    ):
        with pytest.raises(da.ModelError, match="without_contacts"):
            make()
    free = model.without_contacts()
    assert not free.gaps
    assert free.inputs == model.inputs
    assert free.without_contacts() is free


def on_ball(*elements, **options):
    moved = [da.tz("z", name="ball", mass=1.0), da.tx("x", name="other", mass=1.0)]
    fixed = [da.tx(da.Kinematic("k"), name="cart"), da.tz(-1.0, name="pit")]
    model = da.Model([*moved, *fixed], [DOWN, *elements])
    return da.MidpointVI(model, dt=0.1, **options)


def skate():
    blade = da.tx("x", da.ty("y", da.rz("turn", name="skate", mass=1.0, inertia=(0, 0, 1.0))))
    return da.MidpointVI(da.Model([blade], [da.KnifeEdge("skate"), da.Limit("x", 0.0)]), dt=0.1)


def simulate(vi, q, **options):
    return vi.simulate(vi.state(q=q, check=False), time=1.0, **options)


BAD = [
    (lambda: da.Limit("z"), "low, high"),
    (lambda: da.Limit("z", 1.0, 0.0), "must be below"),
    (lambda: da.Limit("z", 1.0, 1.0), "must be below"),
    (lambda: da.Limit("z", math.nan, 1.0), "finite"),
    (lambda: da.Limit("z", "low"), "number"),
    (lambda: da.Limit("z", -math.inf, 1.0), "finite"),
    (lambda: da.Limit("z", 0.0, restitution=-0.1), "between 0 and 1"),
    (lambda: da.Limit("z", 0.0, restitution=1.01), "between 0 and 1"),
    (lambda: da.Limit("z", 0.0, restitution=None), "number"),
    (lambda: da.Limit("z", 0.0, restitution=math.nan), "finite"),
    (lambda: da.Limit("z", True), "number"),
    (lambda: on_ball(da.Limit("knee", 0.0)), "unknown variable"),
    (lambda: on_ball(da.Limit("k", 0.0)), "prescribed"),
    (lambda: on_ball(da.Limit(3, 0.0)), "unknown variable"),
    (lambda: da.Model([da.ball("b", mass=1.0, inertia=(1, 1, 1))], [da.Limit("b.wx", 0.0)]), "ball"),
    (lambda: da.Contact("ball", radius=-0.1), "negative"),
    (lambda: da.Contact("ball", radius="big"), "number"),
    (lambda: da.Contact("ball", restitution=2.0), "between 0 and 1"),
    (lambda: da.Contact("ball", normal=(0, 0, 0)), "zero"),
    (lambda: da.Contact("ball", normal="up"), "normal"),
    (lambda: da.Contact("ball", normal=(0, 1)), "three numbers"),
    (lambda: on_ball(da.Contact("bal")), "did you mean"),
    (lambda: on_ball(da.Contact("ball", plane="flor")), "unknown frame"),
    (lambda: on_ball(da.Contact("ball", plane="ball")), "two different frames"),
    (lambda: on_ball(da.Contact("pit")), "no dynamic variable"),
    (lambda: on_ball(da.Contact("cart")), "no dynamic variable"),
    (lambda: da.SphereContact("a", "b", 0.0, 0.0), "must be positive"),
    (lambda: da.SphereContact("a", "b", -1.0, 2.0), "negative"),
    (lambda: da.SphereContact("a", "b", 1.0, math.inf), "finite"),
    (lambda: da.SphereContact("a", "b", 0.1, 0.1, restitution="elastic"), "number"),
    (lambda: on_ball(da.SphereContact("ball", "ball", 0.1, 0.1)), "two different frames"),
    (lambda: on_ball(da.SphereContact("pit", "world", 0.1, 0.1)), "no dynamic variable"),
    (lambda: on_ball(da.SphereContact("ball", "nobody", 0.1, 0.1)), "unknown frame"),
    (lambda: on_ball(impacts="newton"), "together"),
    (lambda: on_ball(da.Contact("ball")).state(q={"z": -0.1}), r"violates Contact\(ball, world\) by 0.1"),
    (lambda: on_ball(da.Limit("x", -1.0, 1.0)).state(q={"x": 1.5}), r"violates Limit\(x\) high by 0.5"),
    (lambda: simulate(on_ball(da.Limit("x", -1.0, 1.0)), {"x": -1.5}), r"the start violates Limit\(x\) low"),
    (lambda: on_ball(da.SphereContact("ball", "other", 0.5, 0.5)).state(q={"z": 0.3}), "violates SphereContact"),
    (lambda: simulate(on_ball(), {"z": 1.0}, events=da.Event("z < 0.9", action=lambda s: s)).linearize(), "no derivative"),
    (lambda: da.gaps(on_ball(da.Contact("ball")).model, [1.0]), "shape|needed"),
    (lambda: da.gap_hessian(on_ball(da.Contact("ball")).model, [0, 0, 0], [1.0, 2.0]), "weight"),
    (lambda: on_ball(da.Limit("x", 0.0), *(da.LinearRelation({"x": 1.0, "z": c}) for c in (1.0, 2.0, 3.0))), "constraint rows"),
    (lambda: da.MidpointVI(da.Model([da.tx("x", mass=1.0)], [da.Limit("x", 0.0)]), 0.1).simulate(3.0, 10), "State"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_a_typed_error(number):
    make, text = BAD[number]
    with pytest.raises((ValueError, TypeError), match=text):  # ModelError is a ValueError
        make()


def test_there_are_40_kinds_of_bad_input():
    assert len(BAD) >= 40


# ---- the complementarity problem


def test_complementarity_of_random_problems():
    rng = np.random.default_rng(3)
    for n, rank in itertools.product((1, 2, 3, 6, 12), (1, 3, 12)):
        for _ in range(20):
            J = rng.normal(size=(n, min(n, rank)))
            A, b = J @ J.T, J @ rng.normal(size=min(n, rank))  # as of gaps: b is in the range, so there is a solution
            x = complementary(A, b)
            w = A @ x + b
            assert x.min() >= 0
            assert w.min() > -1e-9
            assert abs(x @ w) < 1e-9


# ---- the loop in the core


@pytest.mark.parametrize("order", [2, 4])
def test_limits_that_nothing_touches_change_no_bit_and_cost_one_call(order, monkeypatch):
    free = da.models.n_link(3)
    wide = [da.Limit(v, -4e3, 4e3, restitution=1.0) for v in free.variables]
    below = da.tz(-30.0, name="floor")
    free = da.Model([*free.frames, below], free.elements)
    model = free.with_elements([*free.elements, *wide, da.Contact("end-2", "floor")])
    calls: list[int] = []
    chunk = Run._chunk
    monkeypatch.setattr(Run, "_chunk", lambda self: (calls.append(self.k), chunk(self))[1])
    q, steps = [1.0, 0.5, -0.3], 3000
    a, b = (da.MidpointVI(m, dt=0.01, order=order) for m in (model, free))
    there, here = a.simulate(a.state(q=q), steps), b.simulate(b.state(q=q), steps)
    assert calls == [0]
    np.testing.assert_array_equal(there.q, here.q)
    np.testing.assert_array_equal(there.p, here.p)
    np.testing.assert_array_equal(there.checks, here.checks)


@pytest.mark.parametrize("e", [0.0, 1.0])
def test_a_slider_between_stops(e):
    """100 blows, five in a step, at exact places; a slider that stands at its stop is accurate, and no warning is given."""
    model = da.Model([da.tx("x", mass=1.0)], [da.Limit("x", -0.001, 0.001, restitution=e)])
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(q=[0.0], v=[1.0]), steps=20)
    assert len(motion.impacts) == (100 if e else 1)
    np.testing.assert_allclose(
        [i.time for i in motion.impacts], 0.001 + 0.002 * np.arange(len(motion.impacts)), atol=1e-15
    )
    np.testing.assert_allclose(motion.q[-1], 0.0 if e else 0.001, atol=1e-15)
    stop = da.Model([da.tx("x", mass=1.0)], [da.Limit("x", -0.1, 0.1)])
    vi = da.MidpointVI(stop, dt=0.01)
    for start in (vi.state(q=[0.0], v=[1.0]), vi.state(q=[0.1]), vi.state(q=[-0.1])):
        vi.simulate(start, steps=40, accuracy="raise")


def test_blows_at_cuts_are_kept_once():
    free = da.Model([da.tx("x", mass=1.0)], [da.Limit("x", high=1.0, restitution=0.5)])
    vi = da.MidpointVI(free, dt=0.1)
    motion = vi.simulate(vi.state(v=[1.0]), time=2.0)  # hits after ten steps
    for at in (9, 10, 11):
        both = motion[: at + 1] + motion[at:]
        assert both.impacts == motion.impacts
        np.testing.assert_allclose(both.linearize()[0], motion.linearize()[0], atol=1e-14)
        assert len(motion[at:].impacts) == sum(bool(p.jumps) for p in motion[at:].pieces)


@pytest.mark.parametrize("dt", [0.4, 0.2, 0.05])
def test_gaps_that_close_and_open_within_a_step_are_found(dt):
    """A ball on a spring that reaches a floor only for an instant; phases so that the instant is anywhere in a step."""
    found = 0
    for phase in np.linspace(0, 1, 23, endpoint=False):
        model = da.Model(
            [da.tz("z", name="ball", mass=1.0)], [da.ConfigSpring("z", 1.0, 1.0), da.Contact("ball", restitution=1.0)]
        )
        vi = da.MidpointVI(model, dt=dt)
        depth = 1.0 + 0.3 * dt**2 / 8  # as deep as a third of what a parabola falls in half a step
        angle = -2.0 + dt * phase
        start = vi.state(q={"z": 1 + depth * np.cos(angle)}, v={"z": -depth * np.sin(angle)})
        motion = vi.simulate(start, steps=int(6 / dt))
        found += len(motion.impacts) >= 1
        assert da.gaps(model, motion.q).min() > -1e-12
    assert found == 23


def test_limits_of_parameters_follow_them():
    model = da.Model([da.tx("x", mass=1.0)], [da.Limit("x", da.Parameter("low", -1.0), 1.0)])
    assert da.gaps(model, [0.0]).tolist() == [1.0, 1.0]
    other = model.with_parameters({"low": -2.0})
    assert da.gaps(other, [0.0]).tolist() == [2.0, 1.0]
    assert [m.limits["x"][0] for m in (other, model)] == [-2.0, -1.0]


def test_contacts_at_rest_run_in_the_core(monkeypatch):
    """A block that lies on the floor, pushed: a few calls for all its steps, and it stays where it is."""
    calls: list[int] = []
    chunk = Run._chunk
    monkeypatch.setattr(Run, "_chunk", lambda self: (calls.append(self.k), chunk(self))[1])
    vi = da.MidpointVI(block(0.0), dt=0.01)
    motion = vi.simulate(vi.state(q={"z": 0.5}, v={"x": 0.3}), steps=2000)
    assert len(calls) <= 8
    assert np.abs(da.gaps(vi.model, motion.q)).max() < 1e-12
    np.testing.assert_allclose(motion["x"], 0.3 * motion.t, atol=1e-11)
