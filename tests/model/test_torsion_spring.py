"""TorsionSpring against what one knows about it: hinges, swings, pendulums, whole turns. Derivatives: test_elements.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dalembert as da
from dalembert.model.compile import compile_model

BOX = {"mass": 1.0, "inertia": (0.3, 0.2, 0.1)}


def angle(model: da.Model, q: object) -> float:
    """|angle| of the only spring, of stiffness 2."""
    return math.sqrt(float(da.potential_energy(model, q)))


def test_between_hinges_about_its_axis_it_is_the_sum_of_their_angles() -> None:
    arm = da.rz("a", da.tx(1.0, da.ty("slide", da.rz("b", name="tip", **BOX))), name="elbow", **BOX)
    model = da.Model([arm], [da.TorsionSpring("world", "tip", 2.0)])
    assert angle(model, {"a": 0.4, "b": 0.7, "slide": 5.0}) == pytest.approx(1.1, abs=1e-14)
    assert angle(model, {"a": 0.4, "b": -0.7}) == pytest.approx(0.3, abs=1e-14)
    assert model.variables_of(model.elements[0]) == ("a", "b")
    own = da.Model([arm], [da.TorsionSpring("elbow", "tip", 2.0, rest=0.2)])
    same = da.Model([arm], [da.ConfigSpring("b", 2.0, 0.2)])
    q = np.array([0.3, 0.1, 0.5])
    for ours, theirs in zip(da.lagrangian_second(own, q, 0 * q), da.lagrangian_second(same, q, 0 * q), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-14)


@pytest.mark.parametrize("twist", [-3.0, -1.0, 0.0, 0.2, 2.5])
@pytest.mark.parametrize("swing", [0.0, 0.5, -2.0, 3.0])
def test_a_swing_of_the_axis_is_not_a_turn_about_it(swing: float, twist: float) -> None:
    """R = Ry(swing) Rz(twist): the angle about z is the twist, however far the axis has swung."""
    model = da.Model([da.ry("swing", da.rz("twist", name="tip", **BOX))], [da.TorsionSpring("world", "tip", 2.0, "z")])
    assert angle(model, {"swing": swing, "twist": twist}) == pytest.approx(abs(twist), abs=1e-13)


def test_the_axis_is_given_in_the_first_frame_and_needs_no_length_of_one() -> None:
    tilted = da.rx(0.5 * np.pi, da.rz("q", name="tip", **BOX), name="base")  # base's z is the world's -y
    for frame, axis in (("base", (0, 0, 7.0)), ("base", "z"), ("world", (0, -1e-200, 0)), ("world", (0, -1e200, 0))):
        spring = da.TorsionSpring(frame, "tip", 2.0, axis)
        if frame == "world":  # the tip's own axes are turned too, which is no turn about y
            assert angle(da.Model([tilted], [spring]), [0.0]) == pytest.approx(0.0, abs=1e-14)
        assert angle(da.Model([tilted], [spring]), [0.6]) == pytest.approx(0.6, abs=1e-14)


def test_it_counts_from_rest_and_never_more_than_half_a_turn() -> None:
    hinge = da.rz("q", name="tip", **BOX)
    model = da.Model([hinge], [da.TorsionSpring("world", "tip", 2.0, "z", 3.0)])
    for q, expected in ((3.0, 0.0), (3.5, 0.5), (-3.0, 2 * np.pi - 6.0), (2 * np.pi + 3.1, 0.1), (0.0, 3.0)):
        assert angle(model, [q]) == pytest.approx(expected, abs=1e-12)
    pull = [float(da.lagrangian_first(model, [3.0 + x], [0.0])[0][0]) for x in (np.pi - 1e-9, np.pi + 1e-9)]
    assert pull == pytest.approx([-2 * np.pi, 2 * np.pi], rel=1e-6)  # unwinds the shorter way


def test_a_torsion_pendulum_has_the_frequency_of_the_discrete_step() -> None:
    """For a linear oscillator the midpoint step turns by 2 atan(w dt / 2)."""
    k, inertia, dt, n = 5.0, 0.1, 0.02, 400
    disk = da.rz("q", name="disk", mass=1.0, inertia=(0.05, 0.05, inertia))
    vi = da.MidpointVI(da.Model([disk], [da.TorsionSpring("world", "disk", k)]), dt)
    motion = vi.simulate(vi.state(q=[0.7]), steps=n)
    turn = 2 * math.atan(math.sqrt(k / inertia) * dt / 2)
    np.testing.assert_allclose(motion.q[:, 0], 0.7 * np.cos(turn * np.arange(n + 1)), atol=1e-11)


def test_where_the_axis_is_turned_over_it_says_so() -> None:
    over = np.diag([-1.0, 1.0, -1.0, 1.0])
    model = da.Model([da.se3(over, da.rz("q", name="tip", **BOX))], [da.TorsionSpring("world", "tip", 2.0, "z")])
    with pytest.raises(da.SingularityError, match=r"TorsionSpring\(world, tip\): its axis is turned over"):
        da.potential_energy(model, [0.3])


def test_a_long_chain_with_a_spring_in_every_joint_keeps_the_fast_solver() -> None:
    n = 40
    frame = None
    for i in range(n - 1, -1, -1):
        below = () if frame is None else (frame,)
        frame = da.rx(f"q{i}", da.tz(-0.2, *below, name=f"l{i}", **BOX))
    springs = [da.TorsionSpring("world" if i == 0 else f"l{i - 1}", f"l{i}", 3.0 + i, "x", 0.01 * i) for i in range(n)]
    model = da.Model([frame], [da.Gravity((0, 0, -9.8)), *springs])
    assert compile_model(model)["chain_solver"]
    vi, plain = da.MidpointVI(model, 0.005), da.MidpointVI(model, 0.005, plain=True)
    start = np.random.default_rng(0).uniform(-0.2, 0.2, n)
    ours = vi.simulate(vi.state(q=start), steps=20).q
    np.testing.assert_allclose(ours, plain.simulate(plain.state(q=start), steps=20).q, atol=1e-10)
    same = [da.ConfigSpring(f"q{i}", 3.0 + i, 0.01 * i) for i in range(n)]
    by_variable = da.MidpointVI(da.Model([frame], [da.Gravity((0, 0, -9.8)), *same]), 0.005)
    np.testing.assert_allclose(ours, by_variable.simulate(by_variable.state(q=start), steps=20).q, atol=1e-10)
