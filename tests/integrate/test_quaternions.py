"""Quaternions that are none are refused at every door, with the name of the ball; motions with balls survive files, pieces and batches."""

from pathlib import Path

import numpy as np
import pytest

import dalembert as da


def drone() -> da.Model:
    """A body that floats with an arm on a ball joint."""
    hand = da.tz(-0.5, name="hand", mass=0.5, inertia=(0.1, 0.1, 0.1))
    arm = da.ball("wrist", hand, mass=0.2, inertia=(0.1, 0.1, 0.1))
    body = da.floating("base", da.tx(0.3, arm), mass=1.0, inertia=(1.0, 1.2, 1.4))
    return da.Model([body], [da.Gravity((0, 0, -9.8)), da.ConfigForce("base.wx", "roll")], name="drone")


MODEL = drone()
VI = da.MidpointVI(MODEL, 0.01)
SYSTEM = da.System(VI, steps=4)
WRONG = [
    (0.0, 0.0, 0.0, 0.0),
    (2.0, 0.0, 0.0, 0.0),
    (1.0, 1.0, 1.0, 1.0),
    (1e-200, 0.0, 0.0, 0.0),
    (1e200, 0.0, 0.0, 0.0),
]


def spoilt(quaternion: tuple[float, ...]) -> np.ndarray:
    q = MODEL.neutral()
    q[3:7] = quaternion
    return q


@pytest.mark.parametrize("quaternion", WRONG)
def test_quaternions_that_are_no_rotations(quaternion: tuple[float, ...]) -> None:
    q = spoilt(quaternion)
    good = VI.state(MODEL.neutral())
    x = np.concatenate([q, good.p])
    u, U = np.zeros(1), np.zeros((4, 1))
    sensor = da.measure(SYSTEM, "base.x")
    calls = [
        lambda: VI.state(q),
        lambda: VI.state({"base": quaternion}),
        lambda: VI.step(good, guess=q),
        lambda: VI.simulate(da.State(0.0, q, good.p, good.lam, good.v_rho, MODEL), 3),
        lambda: da.rollouts(VI, [da.State(0.0, q, good.p, good.lam, good.v_rho, MODEL)], 3),
        lambda: da.poses(MODEL, q),
        lambda: da.poses(MODEL, np.stack([MODEL.neutral(), q])),
        lambda: MODEL.difference(MODEL.neutral(), q),
        lambda: MODEL.integrate(q, np.zeros(MODEL.nv)),
        lambda: SYSTEM.f(x, u),
        lambda: SYSTEM.f_batch(np.stack([x, x]), u),
        lambda: SYSTEM.simulate(x, U),
        lambda: SYSTEM.linearize(x, u, 0),
        lambda: SYSTEM.difference(x, x),
        lambda: SYSTEM.retract(x, np.zeros(SYSTEM.ndx)),
    ]
    calls += [
        lambda kind=kind: kind(SYSTEM, sensor, Q=1e-6, R=0.01).start(x, 0.1)
        for kind in (da.ExtendedKalmanFilter, da.UnscentedKalmanFilter, da.ParticleFilter)
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the quaternion of 'base' has length"):
            call()


@pytest.mark.parametrize("quaternion", WRONG[:2])
def test_quaternions_in_files(quaternion: tuple[float, ...], tmp_path: Path) -> None:
    motion = VI.simulate(VI.state(MODEL.neutral(), v=np.ones(MODEL.nv)), 10)
    path = tmp_path / "motion.npz"
    motion.save(path)
    np.testing.assert_array_equal(da.Trajectory.load(path).q, motion.q)
    arrays = dict(np.load(path, allow_pickle=False))
    arrays["q"][3, 3:7] = quaternion
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"q\[3\]: the quaternion of 'base' has length"):
        da.Trajectory.load(path)


def test_prescribed_balls() -> None:
    bob = da.rx("a", da.tz(-1.0, mass=1.0))
    model = da.Model([da.ball(da.Kinematic("k"), bob, mass=0.1, inertia=(0.1, 0.1, 0.1))], [da.Gravity((0, 0, -9.8))])
    vi = da.MidpointVI(model, 0.01)
    start = vi.state(model.neutral())
    for wrong in ([2.0, 0, 0, 0], np.zeros((5, 4)), lambda t: [0.0, 0, 0, 0]):
        for options in ({}, {"adapt": 1e-3}):
            with pytest.raises(ValueError, match="the quaternion of 'k' has length"):
                vi.simulate(start, 5, kinematic=wrong, **options)
    with pytest.raises(ValueError, match="the quaternion of 'k' has length"):
        da.rollouts(vi, [start], 5, kinematic=np.zeros((5, 4)))
    with pytest.raises(ValueError, match="the ball 'k' is prescribed by rows"):
        vi.simulate(start, 5, kinematic={"k": [0.1, 0.0, 0.0]})
    turned = vi.simulate(start, 5, kinematic=lambda t: da.rotation.exponential([0.0, 0.0, t]))
    np.testing.assert_allclose(turned.q[-1, 1:], da.rotation.exponential([0.0, 0.0, 0.05]), atol=1e-15)


def test_motions_with_balls_in_pieces_and_batches() -> None:
    start = VI.state(MODEL.neutral(), v=np.ones(MODEL.nv))
    whole = VI.simulate(start, 30)
    parts = VI.simulate(start, 12)
    joined = parts + VI.simulate(parts[-1], 18)
    np.testing.assert_allclose(joined.q, whole.q, atol=1e-13)
    between = whole.at([0.0, 0.055, 0.3])
    np.testing.assert_allclose(np.linalg.norm(between[:, 3:7], axis=1), 1.0, atol=1e-15)
    starts = [start, VI.state(MODEL.neutral()), VI.state({"base": [0.1, 0.2, 0.3]}, v={"wrist.wx": 3.0})]
    u = np.linspace(-1, 1, 90).reshape(3, 30, 1)
    lanes, alone = (da.rollouts(VI, starts, 30, u=u, lanes=lanes) for lanes in (True, False))
    np.testing.assert_allclose(lanes.q, alone.q, atol=1e-13)
    with pytest.raises(ValueError, match="u has shape"):
        da.rollouts(VI, starts, 30, u=u[:2])
