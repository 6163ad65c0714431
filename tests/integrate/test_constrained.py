"""States of constrained models as the steps have them, one sign of the multipliers, velocities along the constraints."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.models import crane, load_with_configurations


def double_pendulum(damping: float = 0.0) -> da.Model:
    """Two bobs in Cartesian coordinates on rods, pushed sideways."""
    first = da.tx("x1", da.ty("y1", name="a", mass=1.0))
    second = da.tx("x2", da.ty("y2", name="b", mass=0.5))
    loads = [da.Gravity((0, -9.8, 0)), da.ConfigForce("x1", "push"), da.ConfigForce("x2", "pull")]
    rods = [da.Distance("world", "a", 1.0), da.Distance("a", "b", 0.7)]
    return da.Model([first, second], [*loads, *rods, *([da.Damping(damping)] if damping else [])])


def moving(model: da.Model) -> tuple[np.ndarray, np.ndarray]:
    a, b = 0.7, -0.4
    q = np.array([np.sin(a), -np.cos(a), np.sin(a) + 0.7 * np.sin(b), -np.cos(a) - 0.7 * np.cos(b)])
    return q, da.consistent_velocity(model, q, [1.0, 0.3, -0.5, 0.2])


@pytest.mark.parametrize(("alpha", "forcing"), [(0.5, "split"), (0.3, "split"), (0.5, "left"), (0.7, "left")])
def test_the_state_is_where_a_step_ends(alpha: float, forcing: str) -> None:
    """There is a state from which one step leads to (q, p); q, v and the motion are those of the Legendre momentum."""
    model, u = double_pendulum(0.3), np.array([0.6, -0.2])
    q, v = moving(model)
    vi = da.MidpointVI(model, 0.01, alpha=alpha, forcing=forcing)
    state = vi.state(q=q, v=v, u=u)
    np.testing.assert_allclose(state.v, v, atol=1e-12)
    legendre = vi.state(q=q, p=da.lagrangian_first(model, q, v)[1])
    np.testing.assert_allclose(vi.step(state, u).q, vi.step(legendre, u).q, atol=1e-14)
    np.testing.assert_allclose(vi.step(state, u).p, vi.step(legendre, u).p, atol=1e-12)
    # the closed form of the half impulse, at alpha = 1/2 and split forces
    if (alpha, forcing) == (0.5, "split"):
        gaps = []
        for dt in (0.02, 0.01):
            fine = da.MidpointVI(model, dt).state(q=q, v=v, u=u)
            push = da.acceleration(model, q, v, u).lam @ da.constraint_jacobian(model, q)
            gaps.append(np.abs(fine.p - legendre.p - dt / 2 * push).max())
        assert np.log2(gaps[0] / gaps[1]) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("order", [2, 4, 6])
def test_loaded_equilibria_are_fixed_points(order: int) -> None:
    model, u = double_pendulum(0.1), [3.0, 0.5]
    q = da.equilibrium(model, [0.3, -0.95, 0.4, -1.6], u=u, tolerance=1e-13)
    vi = da.MidpointVI(model, 0.02, order=order)
    state = vi.state(q=q, u=u)
    after = vi.step(state, u)
    np.testing.assert_allclose(after.q, q, atol=1e-11)
    np.testing.assert_allclose(after.p, state.p, atol=1e-11)
    assert np.abs(vi.step(vi.state(q=q), u).p - vi.state(q=q).p).max() > 1e-3  # without the load it is another state
    x = da.System(vi, steps=1).x(q, u=u)
    np.testing.assert_array_equal(x, np.concatenate([state.q, state.p]))


def test_inputs_belong_to_velocities() -> None:
    model = double_pendulum()
    vi = da.MidpointVI(model, 0.01)
    q, _ = moving(model)
    with pytest.raises(ValueError, match="u belongs to a state from q and v"):
        vi.state(q=q, p=np.zeros(4), u=[1.0, 0.0])
    with pytest.raises(ValueError, match=r"u has shape \(3,\)"):
        vi.state(q=q, u=[1.0, 0.0, 2.0])


def test_one_sign_of_lambda() -> None:
    """Multipliers of steps, over dt, are those of the continuous equations: of the first step too. A hanging load pulls."""
    model = double_pendulum(0.2)
    q, v = moving(model)
    u = np.array([0.6, -0.2])
    exact = da.acceleration(model, q, v, u).lam
    gaps = []
    for dt in (0.01, 0.005):
        vi = da.MidpointVI(model, dt)
        gaps.append(np.abs(vi.simulate(vi.state(q=q, v=v, u=u), 1, u=u).lam[0] / dt - exact).max())
    assert gaps[1] < 1e-2
    assert np.log2(gaps[0] / gaps[1]) > 1.8
    a = da.acceleration(model, q, v, u, derivatives=True)
    C, M = da.constraint_jacobian(model, q), da.mass_matrix(model, q)
    pull = da.lagrangian_first(model, q, v)[0] + da.force(model, q, v, u)
    np.testing.assert_allclose(M @ a.ddq, pull - C.T @ a.lam, atol=1e-10)  # M is constant here
    load = crane()
    hang = load_at_rest(load)
    tension = 2 * 1.0 * da.acceleration(load, hang).lam[0]
    mass = float(da.mass_matrix(load, hang)[0, 0])
    assert tension == pytest.approx(9.81 * mass, rel=1e-2)


def load_at_rest(model: da.Model) -> np.ndarray:
    named = {"r": 1.0, "y": -1.0}
    return np.array([named.get(name, 0.0) for name in model.variables])


@pytest.mark.parametrize("order", [2, 4, 6])
def test_velocities_have_the_order_of_the_steps_with_prescribed_joints(order: int) -> None:
    """Of a crane whose trolley and rope move, at instants in the middle and at the ends, also with steps of varying length."""
    model = crane()

    def rho(t: float) -> list[float]:
        return [0.3 * np.sin(2 * t), 1.0 - 0.2 * np.sin(3 * t)]

    def rate(t: float) -> list[float]:
        return [0.6 * np.cos(2 * t), -0.6 * np.cos(3 * t)]

    q = dict.fromkeys(model.variables, 0.0) | {"r": 1.0, "x": np.sin(0.4), "y": -np.cos(0.4)}
    start = np.array([q[name] for name in model.variables])
    v = da.consistent_velocity(model, start, [0.2, 0.0, *rate(0.0)])

    def run(steps: int, order: int, wave: float = 0.0) -> da.Trajectory:
        t = np.linspace(0, 0.8, steps + 1)
        t = t + wave * np.sin(2 * np.pi * t / 0.8) / (2 * np.pi / 0.8)
        vi = da.MidpointVI(model, np.diff(t) if wave else 0.8 / steps, order=order)
        return vi.simulate(vi.state(q=start, v=v), steps, kinematic=rho)

    assert model.kinematic == ("x_r", "r")
    fine = run(320, 6)
    grid = {2: [20, 40, 80], 4: [20, 40, 80], 6: [24, 32, 48]}[order]
    for wave in (0.0, 0.4):
        errors = []
        for n in grid:
            motion = run(n, order, wave)
            np.testing.assert_allclose(motion[3].v, motion.v[3], atol=1e-13)
            ends = np.abs(motion.v[[0, -1]] - fine.v[[0, -1]]).max()
            inside = np.abs(motion.v[:, 2:] - [rate(t) for t in motion.t]).max()
            errors.append(max(ends, inside))
        slope = -np.polyfit(np.log(grid), np.log(errors), 1)[0]
        assert slope > order - 0.6, errors


def test_states_know_their_velocity() -> None:
    model, configurations = load_with_configurations("closed_chain")
    vi = da.MidpointVI(model, 0.01)
    motion = vi.simulate(vi.state(q=configurations["q0"]), 40)
    for k in (0, 17, 40):
        v = motion[k].v
        np.testing.assert_allclose(da.constraint_jacobian(model, motion.q[k]) @ v, 0.0, atol=1e-11)
        np.testing.assert_allclose(v, motion.v[k], atol=1e-13)
    np.testing.assert_allclose(vi.step(motion[20]).v, motion[21].v, atol=1e-10)
    bare = da.State(0.0, motion.q[0], motion.p[0], motion.lam[0])
    with pytest.raises(ValueError, match="does not know its model"):
        bare.v  # noqa: B018
