"""Every step is checked: energy from nowhere, local errors, and what simulate says about them."""

import warnings
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert import models, ry, rz, tx, ty, tz
from dalembert.integrate.quality import checks_of


def lift(segments: int, dt: float, time: float, **options: object) -> da.integrate.Trajectory:
    vi = da.MidpointVI(models.scissor_lift(segments), dt)
    start = vi.state(q=models.scissor_lift_configuration(0.2, segments=segments))
    return vi.simulate(start, time=time, **options)  # type: ignore[arg-type]


def chain(links: int, dt: float, time: float, **options: object) -> da.integrate.Trajectory:
    """A pendulum of many links, let go from above."""
    vi = da.MidpointVI(models.n_link(links), dt)
    return vi.simulate(vi.state(q=[2.0] + [0.3] * (links - 1)), time=time, **options)  # type: ignore[arg-type]


def hit(stiffness: float, dt: float, **options: object) -> da.integrate.Trajectory:
    """A ball of 1 kg that falls on a floor made of a spring."""
    floor = da.Potential(lambda m: 0.5 * stiffness * ca.fmin(m["y"], 0) ** 2)
    vi = da.MidpointVI(da.Model([ty("y", mass=1.0)], [da.Gravity((0, -9.8, 0)), floor]), dt)
    return vi.simulate(vi.state(q=[1.0]), time=2.0, **options)  # type: ignore[arg-type]


# ---- the numbers


def driven(*elements: da.model.Element) -> da.Model:
    """Two links on a pivot that is moved, all of them with mass."""
    links = rz("a", ty(-1.0, rz("b", ty(-0.7, mass=0.5)), mass=1.0), mass=0.1)
    return da.Model(
        [tx(da.Kinematic("x"), ty(da.Kinematic("y"), links, mass=0.3))], [da.Gravity((0, -9.8, 0)), *elements]
    )


MOVED = {"kinematic": lambda t: [0.3 * np.sin(3 * t), 0.2 * np.cos(2 * t) - 0.2]}
CRANE = {"kinematic": lambda t: [0.3 * np.sin(2 * t), 1 + 0.3 * np.sin(3 * t)]}
SWITCHED = {"u": lambda t: [3 * np.sign(np.sin(5 * t))]}
CASES = {
    "prescribed": (driven(), [0.5, 0.2, 0, 0], MOVED),
    "prescribed and damped": (driven(da.Damping(default=0.3)), [0.5, 0.2, 0, 0], MOVED),
    "switched torque": (driven(da.ConfigForce("b", "torque")), [0.5, 0.2, 0, 0], SWITCHED),
    "crane": (models.crane(), [np.sin(0.4), -np.cos(0.4), 0, 1], CRANE),
}


@pytest.mark.parametrize("forcing", ["split", "left"])
@pytest.mark.parametrize("name", CASES)
def test_energy_minus_work_stands_still(name: str, forcing: str) -> None:
    """Forces, damping, prescribed joints with mass and with a constraint against them: jumps are of third, the balance of second order."""
    model, q, given = CASES[name]
    jumps, balances = [], []
    for dt in (0.01, 0.005):
        vi = da.MidpointVI(model, dt, forcing=forcing)
        found = vi.simulate(vi.state(q=q), time=2.0, **given).quality()  # type: ignore[arg-type]
        jumps.append(found.jumps[5:].max())
        balances.append(found.energy / found.moving)
    assert jumps[0] < 1e-3
    assert jumps[0] / jumps[1] > 5.0
    assert balances[0] < 3e-3
    assert balances[0] / balances[1] > 3.0


def test_the_balance_is_the_energy_of_the_steps_where_nothing_works() -> None:
    vi = da.MidpointVI(models.n_link(2), 0.02)
    motion = vi.simulate(vi.state(q=[2.0, 0.5]), time=3.0)
    energy = motion.step_energy()
    np.testing.assert_allclose(motion.quality().balance, energy - energy[0], atol=1e-12)


def test_the_balance_is_energy_minus_the_work_of_a_torque() -> None:
    vi = da.MidpointVI(models.pendulum(), 0.01)
    motion = vi.simulate(vi.state(q=[0.1]), time=2.0, u=[1.5])
    energy, theta = motion.step_energy(), (motion.q[1:, 0] + motion.q[:-1, 0]) / 2
    np.testing.assert_allclose(motion.quality().balance, energy - energy[0] - 1.5 * (theta - theta[0]), atol=1e-12)


@pytest.mark.parametrize("turn", [0.1, 0.5, 1.0, 2.0])
def test_the_error_of_an_oscillator(turn: float) -> None:
    """No jump for a quadratic Lagrangian; the second difference of the velocities is 2 (1 - cos phi) of them, tan(phi/2) = w dt/2."""
    vi = da.MidpointVI(da.Model([tx("x", mass=1.0)], [da.ConfigSpring("x", 1.0)]), turn)
    found = vi.simulate(vi.state(q=[1.0]), 200, accuracy="ignore").quality()
    phi = 2 * np.arctan(turn / 2)
    assert found.jump < 1e-11
    true = abs(np.exp(1j * phi) - np.exp(1j * turn))
    most = found.error
    assert 0.5 * (1 - np.cos(phi)) / 6 < most <= 1.001 * np.sqrt(2) * (1 - np.cos(phi)) / 6 * 10
    assert true < 10 * most


@pytest.mark.parametrize(("order", "rate"), [(4, 3.0), (6, 4.5)])
def test_jumps_of_composed_steps_fall_with_their_order(order: int, rate: float) -> None:
    jumps = []
    for dt in (0.05, 0.025):
        vi = da.MidpointVI(models.n_link(2), dt, order=order)
        jumps.append(vi.simulate(vi.state(q=[1.0, 0.5]), time=5.0).quality().jump)
    assert jumps[0] < 1e-4
    assert np.log2(jumps[0] / jumps[1]) > rate


# ---- one number, whatever made the motion


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_rollouts_policies_and_steps_solved_again_find_the_same(name: str, order: int) -> None:
    model, q, given = CASES[name]
    vi = da.MidpointVI(model, 0.02, order=order)
    n = 60
    t = 0.02 * np.arange(n + 1)
    arrays = {k: np.array([f(x) for x in (t[1:] if k == "kinematic" else t[:-1])]) for k, f in given.items()}
    start = vi.state(q=q)
    motion = vi.simulate(start, n, **arrays)
    assert motion.checks is not None
    batch = [da.rollouts(vi, [start] * 3, n, lanes=lanes, **arrays) for lanes in (False, True)]
    row = {"u": np.zeros((n, model.nu)), "kinematic": np.zeros((n, model.nk)) + q[model.nd :]} | arrays
    policy = vi.simulate(start, n, u=lambda t, s: (row["u"][round(t / 0.02)], row["kinematic"][round(t / 0.02)]))
    again = checks_of(replace(motion, checks=None))
    for other in (batch[0][1].checks, batch[1][2].checks, policy.checks, again):
        np.testing.assert_allclose(other[:, [0, 2]], motion.checks[:, [0, 2]], rtol=1e-5, atol=1e-9)
        # measured by the last matrix that Newton's iteration has formed: how near to the solution it was depends on its way
        np.testing.assert_allclose(other[:, 1], motion.checks[:, 1], rtol=1e-4, atol=1e-9)
    last = da.rollouts(vi, [start] * 2, n, keep=False, **arrays).checks
    np.testing.assert_allclose(last[:, 0, :2], np.tile(motion.checks[:, :2].max(axis=0), (2, 1)), rtol=1e-4, atol=1e-9)
    thin = vi.simulate(start, n, every=10, **arrays).checks
    np.testing.assert_array_equal(thin[:, 0], motion.checks[:, 0].reshape(6, 10).max(axis=1))
    assert (thin[:, 4] == 10).all()


def test_files_and_pieces_keep_the_checks(tmp_path: object) -> None:
    motion = lift(5, 0.01, 1.0)
    path = f"{tmp_path}/lift.npz"
    motion.save(path)
    assert repr(da.Trajectory.load(path).quality()) == repr(motion.quality())
    np.testing.assert_array_equal(motion[20:50].quality().jumps, motion.quality().jumps[20:49])
    nothing = motion[3:4].quality()
    assert np.isnan(nothing.jump)


# ---- what must be said, and what not


GARBAGE = {
    "lift of 10 at 0.01": lambda **o: lift(10, 0.01, 4.0, **o),
    "lift of 20 at 0.005": lambda **o: lift(20, 0.005, 4.0, **o),
    "stiff floor": lambda **o: hit(2e4, 0.01, **o),
    "chain of 8 at 0.05": lambda **o: chain(8, 0.05, 10.0, **o),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_flagged_once(name: str) -> None:
    with pytest.warns(da.AccuracyWarning) as caught:
        motion = GARBAGE[name](accuracy="warn")
    assert len(caught) == 1
    told = caught[0].message
    assert isinstance(told, da.AccuracyWarning)
    assert caught[0].filename == __file__
    assert told.variable in motion.model.dynamic
    assert told.step is not None
    assert told.time == motion.t[told.step]
    assert told.dt is not None
    assert told.dt < motion.dt[0]
    assert f"dt = {told.dt:g}" in str(told)
    assert f"'{told.variable}'" in str(told)
    assert not motion.quality().good
    with pytest.raises(da.AccuracyError) as refused:
        GARBAGE[name](accuracy="raise")
    assert refused.value.step == told.step
    np.testing.assert_array_equal(refused.value.trajectory.q, motion.q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GARBAGE[name](accuracy="ignore")


def test_the_lift_of_50_segments_is_flagged() -> None:
    """At 0.01 it fails with an energy a thousand times too large, which is said too; at 0.001 energy jumps once."""
    with pytest.warns(da.AccuracyWarning, match="energy jumps"), pytest.raises(da.ConvergenceError) as failed:
        lift(50, 0.01, 6.0)
    assert not failed.value.trajectory.quality(0).good
    with pytest.warns(da.AccuracyWarning, match="at t = 5.2"):
        motion = lift(50, 0.001, 5.3)
    assert motion.quality(0).energy > 0.1 * motion.quality(0).moving


def test_chains_that_gain_energy_are_flagged() -> None:
    """Long steps of a whipping chain multiply its energy before no step is found."""
    for accuracy in ("warn", "raise"):
        with pytest.warns(da.AccuracyWarning, match="energy jumps"), pytest.raises(da.ConvergenceError) as failed:
            chain(3, 0.2, 20.0, accuracy=accuracy)
        assert failed.value.trajectory.quality(0).energy > 500.0


GOOD = {
    "lift of 5 at 0.01": lambda: lift(5, 0.01, 4.0),
    "lift of 10 at 0.005": lambda: lift(10, 0.005, 4.0),
    "soft floor": lambda: hit(2e2, 0.01),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_runs_are_silent(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert GOOD[name]().quality().good


RESTING = {
    "chain": (models.n_link(5), np.zeros(5)),
    "crane": (models.crane(), [0.0, -1.0, 0.0, 1.0]),
    "spring": (da.Model([tx("x", mass=1.0)], [da.ConfigSpring("x", 3.0, 0.1)]), [0.1]),
}


@pytest.mark.parametrize("name", RESTING)
def test_equilibria_are_silent(name: str) -> None:
    """At rest all energies are rounding: nothing is relative to nothing."""
    model, q = RESTING[name]
    vi = da.MidpointVI(model, 0.01)
    q = np.asarray(q, dtype=float)
    q[: model.nd] += 1e-15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vi.simulate(vi.state(q=q), 300)


def test_inputs_that_jump_are_no_error() -> None:
    rng = np.random.default_rng(0)
    vi = da.MidpointVI(models.load("cart_pole"), 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vi.simulate(vi.state(), 300, u=rng.normal(scale=5.0, size=(300, 1)))


def test_batches_say_which_rollout() -> None:
    vi = da.MidpointVI(models.n_link(3), 0.1)
    starts = [vi.state(q=[0.1, 0.0, 0.0]), vi.state(q=[3.0, 1.0, 2.0], v=[5.0, -5.0, 5.0])]
    with pytest.warns(da.AccuracyWarning, match="of rollout 1"):
        da.rollouts(vi, starts, 40)
    with pytest.raises(da.AccuracyError):
        da.rollouts(vi, starts, 40, keep=False, accuracy="raise")
    with pytest.raises(ValueError, match="accuracy must be"):
        da.rollouts(vi, starts, 40, accuracy="loud")


# ---- a wrong root near a collision


@pytest.mark.parametrize("dt", [0.003, 0.01, 0.03])
@pytest.mark.parametrize("miss", [1e-4, 1e-2, 5e-2, 0.2])
def test_wrong_roots_near_a_collision_are_told(miss: float, dt: float) -> None:
    """Two point masses that nearly hit each other: steps at the collision have roots with any energy."""
    bodies = [tx(f"x{i}", ty(f"y{i}", mass=1.0, name=f"B{i}")) for i in range(2)]
    vi = da.MidpointVI(da.Model(bodies, [da.PointGravity("B0", "B1", 1.0)]), dt)
    start = vi.state(q=[-0.5, 0.0, 0.5, miss], v=[0.3, 0.0, -0.3, 0.0])
    told = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            motion = vi.simulate(start, time=2.0)
        except da.ConvergenceError as error:
            told, motion = True, error.trajectory
    energy = motion.energy()
    assert told or caught or np.abs(energy - energy[0]).max() < 0.02 * abs(energy[0])


# ---- steps that adapt


def kepler(dt: float, periods: int, **options: object) -> da.Trajectory:
    """A planet on an ellipse with e = 0.9, period 2 pi."""
    planet = tx("x", ty("y", name="planet", mass=1.0))
    model = da.Model([planet], [da.PointGravity("planet", "world", 1.0)])
    vi = da.MidpointVI(model, dt)
    start = vi.state(q=[1.9, 0.0], v=[0.0, np.sqrt(0.1 / 1.9)])
    return vi.simulate(start, time=2 * np.pi * periods, **options)  # type: ignore[arg-type]


def test_adaptive_kepler() -> None:
    found = kepler(2 * np.pi / 50, 10, adapt=1e-4)
    energy = found.energy() + 0.5
    assert found.steps == 500
    assert found.checks is not None
    assert found.checks[:, 4].sum() < 400 * 10
    assert np.abs(energy).max() < 5e-3
    first, last = np.abs(energy[:250]).max(), np.abs(energy[250:]).max()
    assert last < 1.5 * first
    with pytest.warns(da.AccuracyWarning):
        fixed = kepler(2 * np.pi / 400, 2)
    assert np.abs(fixed.energy() + 0.5).max() > 4 * np.abs(energy).max()


def test_the_lift_of_20_with_steps_that_adapt() -> None:
    """1e-2 rad over 20 s in less than a third of the steps of the best fixed length: 5000 fixed steps are off by 0.3 rad, 10000 by 5e-3."""
    segments, time = 20, 20.0
    model = models.scissor_lift(segments)
    at = model.index("R00")
    fine = lift(segments, 0.001, time, every=40)
    found = lift(segments, 0.04, time, adapt=3e-4)
    np.testing.assert_array_equal(found.t, 0.04 * np.arange(501))
    assert found.checks is not None
    assert found.checks[:, 4].sum() < 1700
    assert np.abs(found.q[:, at] - fine.q[:, at]).max() < 1e-2
    assert found.quality(0).good
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coarse = lift(segments, 0.004, time, every=10)
    assert np.abs(coarse.q[:, at] - fine.q[:, at]).max() > 0.1


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_adaptive_steps_with_inputs_prescribed_motion_and_policies(name: str, order: int) -> None:
    model, q, given = CASES[name]
    vi = da.MidpointVI(model, 0.1, order=order)
    start = vi.state(q=q)
    truth = da.MidpointVI(model, 0.1 / 512)
    held = {k: (lambda t, f=f: f(np.floor(t / 0.1 + 1e-9) * 0.1)) if k == "u" else f for k, f in given.items()}
    fine = truth.simulate(start, 5120, every=512, **held)
    errors = []
    for tolerance in (1e-3, 1e-6):
        found = vi.simulate(start, 10, adapt=tolerance, **given)
        errors.append(np.abs(found.q - fine.q).max())
        assert found.scheme is None
        assert found.checks is not None
        assert (found.checks[:, 0] < tolerance).all()
        assert (np.log2(found.checks[:, 4]) % 1 == 0).all()
        u = given.get("u", lambda t: np.zeros(model.nu))
        policy = vi.simulate(
            start, 10, adapt=tolerance, u=lambda t, s, u=u: u(t), kinematic=given.get("kinematic")
        )  # the policy sees the output times only
        np.testing.assert_allclose(policy.q, found.q, atol=1e-7)
    assert errors[1] < 1e-3
    assert errors[1] < max(0.3 * errors[0], 1e-5)


def test_adaptive_steps_that_cannot_get_there() -> None:
    vi = da.MidpointVI(models.n_link(2), 0.1)
    start = vi.state(q=[3.0, 1.0], v=[20.0, -20.0])
    with pytest.warns(da.AccuracyWarning, match="do not reach"):
        vi.simulate(start, 2, adapt=1e-14)
    for bad in (0.0, -1.0, 2.0, np.nan):
        with pytest.raises(ValueError, match="adapt must be"):
            vi.simulate(start, 2, adapt=bad)


# ---- singularities


def test_conditions_grow_towards_singularities_and_name_them() -> None:
    """Section VII of Structured linearization: blocks of one row, and matrices that shrink as a whole."""
    pole = da.MidpointVI(da.Model([rz("phi", da.ry("theta", da.tz(-1.0, mass=1.0)))]), 0.01)
    for angle in (1e-1, 1e-2, 1e-4):
        found = pole.condition(pole.state(q=[0.0, angle]))
        assert found.mass == pytest.approx(np.sin(angle) ** -2, rel=1e-2)
        assert found.mass_variables == ("phi",)
        assert found.names == ("phi",)
    # a slider on a crank near its dead point
    crank = da.Model(
        [
            rz("crank", tx(1.0, rz("rod", tx(2.0, name="end", mass=1.0)), mass=1.0)),
            tx("slide", name="slider", mass=1.0),
        ],
        [da.PointToPoint("end", "slider", "xy")],
    )
    vi = da.MidpointVI(crank, 0.01)
    values = []
    for angle in (0.5, 0.05, 0.005):
        q = [angle, -angle - np.arcsin(0.5 * np.sin(angle)), np.cos(angle) + 2 * np.cos(np.arcsin(0.5 * np.sin(angle)))]
        values.append(vi.condition(vi.state(q=q)))
    assert all(x.constraints < 100 for x in values)  # a dead point of the drive is no singularity of the loop


def test_the_condition_of_a_motion() -> None:
    motion = lift(5, 0.01, 2.0)
    found = motion.quality()
    assert found.condition is not None
    assert found.condition.worst > 100
    assert found.condition_time in motion.t
    assert f"condition {found.condition.worst:.1g}" in repr(found)
    assert motion.quality(0).condition is None


def test_wheels_on_one_axle_say_a_thing_twice() -> None:
    """Both keep the axle from going sideways: the step solves such rows, and the quality says so instead of an infinite condition."""
    wheels = [
        ty(y, ry(name, name=name, mass=1.0, inertia=(0.1, 0.2, 0.1))) for name, y in (("left", 0.5), ("right", -0.5))
    ]
    axle = tx("x", ty("y", tz(0.3, rz("heading", *wheels))))
    cart = da.Model([axle], [da.RollingDisk(name, 0.3, axis="y", support="joints") for name in ("left", "right")])
    vi = da.MidpointVI(cart, dt=0.02)
    motion = vi.simulate(vi.state(v=da.consistent_velocity(cart, {}, {"x": 1.0, "heading": 0.3})), steps=50)
    assert motion.quality().good
    assert "dependent constraints at t = 0 in RollingDisk(" in repr(motion.quality())
