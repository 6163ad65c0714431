"""Steps of trees with many loops: the elimination by fronts (cpp/loops.hpp) against the dense pivoted solution of the same equations."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.mechanics import core


def net(columns: int, rows: int) -> da.Model:
    """Hanging chains of point masses, side by side, with rods between them."""

    def chain(c: int) -> da.Frame:
        frame: da.Frame | None = None
        for r in range(rows - 1, -1, -1):
            below = () if frame is None else (frame,)
            frame = da.ry(f"q{c}_{r}", da.tz(-1.0, *below, name=f"n{c}_{r}", mass=1.0))
        assert frame is not None
        return da.tx(float(c), frame)

    rods = [da.Distance(f"n{c}_{r}", f"n{c + 1}_{r}", 1.0) for c in range(columns - 1) for r in range(rows)]
    return da.Model([chain(c) for c in range(columns)], [da.Gravity(), *rods])


def four_bars(count: int, *, spatial: bool = False, drive: bool = False) -> da.Model:
    """Parallelograms one below the other, each hanging from the coupler of the one above."""
    frame: da.Frame | None = None
    pins = []
    for i in range(count - 1, -1, -1):
        below = () if frame is None else (da.tz(-0.2, da.ry(0.4, frame) if spatial else frame),)
        turn, aside = (da.rx, da.ty) if spatial and i % 2 else (da.ry, da.tx)
        coupler = turn(
            f"c{i}", aside(1.0, name=f"end{i}", mass=0.5), *below, name=f"coupler{i}", mass=0.3, inertia=(0.01,) * 3
        )
        first = da.Kinematic("a0") if drive and i == 0 else f"a{i}"
        left = turn(first, da.tz(-1.0, coupler, mass=0.2))
        right = aside(1.0, turn(f"b{i}", da.tz(-1.0, name=f"tip{i}", mass=0.2)))
        frame = da.tx(0.0, left, right, name=f"base{i}")
        pins.append(da.PointToPoint(f"end{i}", f"tip{i}", "yz" if spatial and i % 2 else "xz", f"base{i}"))
    assert frame is not None
    return da.Model([frame], [da.Gravity(), da.Damping({f"b{i}": 0.1 for i in range(count)}), *reversed(pins)])


def compare(
    model: da.Model,
    q: np.ndarray,
    *,
    steps: int = 20,
    dt: float = 0.005,
    kinematic: object = None,
    atol: float = 2e-12,
    lam: float = 1e-7,
) -> da.Trajectory:
    """The motion, after it was compared step by step with the dense solution."""
    fast, plain = da.MidpointVI(model, dt), da.MidpointVI(model, dt, plain=True)
    start = fast.state(q=q, v=np.zeros(model.nv))
    motion = fast.simulate(start, steps=steps, kinematic=kinematic)
    for k in range(0, steps, 4):
        again = plain.step(motion[k], kinematic=motion.q[k + 1, model.nqd :] if model.nk else None)
        np.testing.assert_allclose(again.q, motion.q[k + 1], rtol=0, atol=atol)
        scale = 1 + abs(motion.lam[k]).max()
        np.testing.assert_allclose(again.lam, motion.lam[k], rtol=0, atol=lam * scale)
    worst = max(abs(da.constraints(model, x)).max() for x in motion.q)
    assert worst < 1e-11
    return motion


@pytest.mark.parametrize("segments", [6, 25, 40])
def test_lift(segments: int) -> None:
    lift = models.scissor_lift(segments)
    motion = compare(lift, models.scissor_lift_configuration(0.6, segments=segments))
    theta = motion.q[:, 1 + segments]  # the first left link; symmetric at every height
    right = np.pi - motion.q[:, 1]
    np.testing.assert_allclose(theta, right, atol=1e-10)


@pytest.mark.parametrize("spatial", [False, True])
def test_chain_of_four_bars(spatial: bool) -> None:
    model = four_bars(12, spatial=spatial)
    compare(model, np.zeros(model.nq))


def test_prescribed_joint_inside() -> None:
    model = four_bars(8, drive=True)
    t = 0.005 * np.arange(1, 21)
    compare(model, np.zeros(model.nq), kinematic=0.3 * np.sin(4 * t)[:, None])


@pytest.mark.parametrize(("columns", "rows", "way"), [(3, 60, "fronts"), (12, 12, "whole")])
def test_net(columns: int, rows: int, way: str) -> None:
    model = net(columns, rows)
    assert core(model).loops == way
    q = np.zeros(model.nq)
    q[[model.index(f"q{c}_0") for c in range(columns)]] = 0.2
    compare(model, q)
    check_derivatives(model, q)


def test_rod_of_prescribed_length() -> None:
    """Strings whose lengths are prescribed: variables without a joint."""
    frame: da.Frame | None = None
    for i in range(15, -1, -1):
        frame = da.rx(f"q{i}", da.tz(-0.3, *(() if frame is None else (frame,)), name=f"m{i}", mass=0.2))
    assert frame is not None
    hooks = [da.ty(0.5, name="hook0"), da.ty(-0.5, name="hook1")]
    strings = [
        da.Distance("m7", "hook0", da.Kinematic("l0")),
        da.Distance("m15", "hook1", da.Kinematic("l1")),
    ]
    model = da.Model([frame, *hooks], [da.Gravity(), *strings])
    q = np.zeros(model.nq)
    q[model.index("l0")], q[model.index("l1")] = np.hypot(0.5, 8 * 0.3), np.hypot(0.5, 16 * 0.3)
    lengths = q[model.nqd :] * (1 - 0.02 * np.sin(np.arange(1, 21) / 10))[:, None]
    compare(model, q, kinematic=lengths)


@pytest.mark.parametrize("again", ["y", "z"])
def test_redundant_pins_fall_back(again: str) -> None:
    """A direction that a plane mechanism cannot leave, or one that is held already: least-norm multipliers, as ever."""
    lift = models.scissor_lift(12)
    twice = da.PointToPoint("L05 centre", "R05 centre", again)
    model = da.Model(lift.frames, [*lift.elements, twice])
    q = models.scissor_lift_configuration(0.6, segments=12)
    ours, once = da.MidpointVI(model, 0.005), da.MidpointVI(lift, 0.005)
    a = ours.simulate(ours.state(q=q, v=np.zeros(model.nv)), steps=10)
    b = once.simulate(once.state(q=q, v=np.zeros(lift.nv)), steps=10)
    np.testing.assert_allclose(a.q, b.q, rtol=0, atol=1e-12)
    shared = 0.0 if again == "y" else a.lam[:, 11]  # the two rows share the force equally
    np.testing.assert_allclose(a.lam[:, 24], shared, rtol=0, atol=1e-8)


@pytest.mark.parametrize("theta", [0.02, 1e-3])
def test_nearly_flat_lift(theta: float) -> None:
    """Close to the singular configuration, where all links lie in one line."""
    lift = models.scissor_lift(20)
    compare(lift, models.scissor_lift_configuration(theta, segments=20), dt=1e-3, atol=1e-14 / theta, lam=1e-8 / theta)


def check_derivatives(model: da.Model, q: np.ndarray, dt: float = 0.005) -> None:
    """A, B by the elimination against those of the dense path, whose second order needs the dense factors."""
    system = da.System(da.MidpointVI(model, dt), steps=6)
    x = system.simulate(system.x(q=q), np.zeros((6, 0)))[5]
    A, _ = system.linearize(x, np.zeros(0))
    tall = np.vstack([system.adjoint(x, np.zeros(0), 0, z)[0] for z in np.eye(system.ndx)])
    np.testing.assert_allclose(A, tall, rtol=0, atol=1e-10 * abs(tall).max())


def test_derivatives_of_a_lift() -> None:
    check_derivatives(models.scissor_lift(15), models.scissor_lift_configuration(0.6, segments=15))


def test_velocities_along_constraints() -> None:
    """Momentum to velocity without the mass matrix, prescribed joints included."""
    model = four_bars(40, drive=True)
    assert core(model).loops == "fronts"
    vi = da.MidpointVI(model, 0.005)
    v = da.consistent_velocity(model, np.zeros(model.nq), np.linspace(-1.0, 1.0, model.nv))
    state = vi.state(q=np.zeros(model.nq), v=v)
    np.testing.assert_allclose(state.v, v, atol=1e-11)


def test_the_way_is_chosen_by_size() -> None:
    assert core(models.scissor_lift(2)).loops == "dense"
    assert core(models.scissor_lift(30)).loops == "fronts"
    assert core(models.n_link(3)).loops == "dense"


@pytest.mark.bench
def test_chains_of_parallelograms_cost_what_they_are_long() -> None:
    """The couplers are level: multipliers that were eliminated before their loop had no pivot there, and every step went the dense way."""
    import time

    times = []
    for count in (20, 200):
        model = four_bars(count)
        q = {
            f"{joint}{i}": sign * 0.3 * (-1) ** i
            for i in range(count)
            for joint, sign in (("a", 1), ("b", 1), ("c", -1))
        }
        vi = da.MidpointVI(model, 0.002)
        start = vi.state(q=q)
        best = 1e9
        for _ in range(3):
            begun = time.process_time()
            vi.simulate(start, 40, accuracy="ignore")
            best = min(best, time.process_time() - begun)
        times.append(best)
    assert times[1] < 14 * times[0]
