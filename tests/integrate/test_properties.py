"""What a variational integrator must keep: constraints, energy, momenta, order of convergence."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from tests.random_models import random_model


def slope(errors: list[float], steps: list[float]) -> float:
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def crane(forced: bool) -> da.Model:
    """A pendulum under a driven trolley, with damping and a torque: kinematic input and forces."""
    elements: list[da.Element] = [da.Gravity((0, 0, -9.8))]
    if forced:
        elements += [da.Damping(0.3), da.ConfigForce("a", "torque")]
    bob = da.tz(-1.0, da.ry("b", da.tz(-0.5, name="tip", mass=0.5)), mass=1.0)
    return da.Model([da.tx(da.Kinematic("x"), da.ry("a", bob))], elements)


def drive(t: float) -> list[float]:
    return [0.3 * np.sin(2 * t)]


def final(
    model: da.Model, dt: float, q0: np.ndarray, forcing: str = "split", alpha: float = 0.5, forced: bool = False
) -> np.ndarray:
    """Configuration after 1 s; inputs are sampled at the middle of each step, as a second-order scheme wants."""
    vi = da.MidpointVI(model, dt, forcing=forcing, alpha=alpha)
    n = round(1.0 / dt)
    u = np.sin(3 * dt * (np.arange(n) + 0.5))[:, None] if forced else None
    v = np.zeros(model.nq)
    if model.nk:
        v[model.nd :] = 0.6
    return vi.simulate(vi.state(q0, v=v, check=False), n, u=u, kinematic=drive if model.nk else None).q[-1]


STEPS = [0.02, 0.01, 0.005, 0.0025]
FINE = [0.004, 0.002, 0.001, 0.0005]  # first-order schemes show their order later


@pytest.mark.parametrize(
    ("forced", "forcing", "alpha", "order"),
    [
        (False, "split", 0.5, 2.0),
        (True, "split", 0.5, 2.0),
        (True, "left", 0.5, 1.0),
        (False, "split", 0.0, 1.0),
        (False, "split", 1.0, 1.0),
    ],
)
def test_order_with_kinematic_input(forced: bool, forcing: str, alpha: float, order: float) -> None:
    model = crane(forced)
    q0 = np.array([0.8, -0.4, 0.0])
    exact = final(model, 1 / 8192, q0, "split", 0.5, forced)
    steps = STEPS if order == 2.0 else FINE
    errors = [float(np.abs(final(model, dt, q0, forcing, alpha, forced) - exact).max()) for dt in steps]
    assert slope(errors, steps) == pytest.approx(order, abs=0.05)


def test_order_with_constraints() -> None:
    model, configurations = da.models.load_with_configurations("closed_chain")
    q0 = da.satisfy_constraints(model, configurations["q0"])
    vi = da.MidpointVI(model, 1 / 8192)
    exact = vi.simulate(vi.state(q0), 4096).q[-1]
    errors = []
    for dt in STEPS:
        vi = da.MidpointVI(model, dt)
        errors.append(float(np.abs(vi.simulate(vi.state(q0), round(0.5 / dt)).q[-1] - exact).max()))
    assert slope(errors, STEPS) == pytest.approx(2.0, abs=0.05)


def test_closed_chain_keeps_constraints_for_two_minutes() -> None:
    model, configurations = da.models.load_with_configurations("closed_chain")
    vi = da.MidpointVI(model, 0.01)
    traj = vi.simulate(vi.state(da.satisfy_constraints(model, configurations["q0"])), time=120)
    assert traj.constraint_violation().max() < 1e-12
    energy = traj.step_energy()
    assert np.ptp(energy) < 0.01 * abs(energy[0])


def test_scissor_lift_keeps_amplitude_and_constraints_for_1000_s() -> None:
    """It passes a kinematic singularity at every swing."""
    vi = da.MidpointVI(da.models.scissor_lift(5), 0.01)
    traj = vi.simulate(vi.state(da.models.scissor_lift_configuration(0.05 * np.pi)), time=1000)
    theta = traj["L00"]
    assert traj.constraint_violation().max() < 1e-12
    early, late = theta[:5000], theta[-5000:]
    assert np.ptp(late) == pytest.approx(np.ptp(early), rel=2e-3)


def exact_scissor(times: np.ndarray) -> np.ndarray:
    """The one-variable Lagrangian of the lift, integrated to 1e-12 (the paper's formula with its misprints corrected)."""
    from scipy.integrate import solve_ivp

    m = slider = 1.0
    length, inertia, g, segments = 5.0, 1.0, 9.8, 5
    n = np.arange(1, segments + 1)

    def rate(_: float, y: np.ndarray) -> list[float]:
        c, s = np.cos(y[0]), np.sin(y[0])
        mass = 2 * (m * length**2 * ((n - 0.5) ** 2 * c**2 + 0.25 * s**2) + inertia).sum() + slider * length**2 * s**2
        dmass = 2 * (m * length**2 * (-2 * (n - 0.5) ** 2 + 0.5) * c * s).sum() + 2 * slider * length**2 * s * c
        force = 2 * m * g * length * (n - 0.5).sum() * c
        return [y[1], (force - 0.5 * dmass * y[1] ** 2) / mass]

    out = solve_ivp(rate, (0, times[-1]), [0.05 * np.pi, 0.0], method="DOP853", t_eval=times, rtol=1e-12, atol=1e-13)
    return np.asarray(out.y[0])


def test_scissor_lift_is_second_order_down_to_small_steps() -> None:
    exact = exact_scissor(np.linspace(0, 10, 101))
    model, q0 = da.models.scissor_lift(5), da.models.scissor_lift_configuration(0.05 * np.pi)
    steps = [0.01, 1e-3, 1e-4]
    errors = []
    for dt in steps:
        vi = da.MidpointVI(model, dt)
        every = round(0.1 / dt)
        traj = vi.simulate(vi.state(q0), round(10 / dt), every=every)
        errors.append(float(np.abs(traj["L00"] - exact).max()))
    assert errors[0] < 0.0037
    assert slope(errors, steps) == pytest.approx(2.0, abs=0.05)


def smooth_mean(x: np.ndarray) -> float:
    """Mean with a bump function for weights: of a quasi-periodic record it converges faster than any power of its length, so that a drift
    far below the oscillation can be seen (weighted Birkhoff averages, Das, Saiki, Sander, Yorke 2017)."""
    s = (np.arange(len(x)) + 0.5) / len(x)
    weights = np.exp(-1 / (s * (1 - s)))
    return float(weights @ x / weights.sum())


def drift(energy: np.ndarray) -> float:
    """Change of the mean from the first to the second half, in units of the span of the energy error."""
    half = len(energy) // 2
    return abs(smooth_mean(energy[half:]) - smooth_mean(energy[:half])) / float(np.ptp(energy))


def test_pendulum_energy_has_no_drift_over_5000_s() -> None:
    model = da.models.n_link(1)
    vi = da.MidpointVI(model, 0.1)
    energy = vi.simulate(vi.state(q=[2.0]), time=5000).step_energy()
    assert drift(energy) < 1e-8
    assert np.ptp(energy) < 0.02 * abs(energy[0])


@pytest.mark.slow
def test_two_link_energy_has_no_drift_over_a_million_steps() -> None:
    model = da.models.n_link(2)
    vi = da.MidpointVI(model, 0.01)
    energy = vi.simulate(vi.state(q=[0.5, 0.3]), steps=1_000_000).step_energy()
    assert drift(energy) < 1e-6  # 6e-8; 1.5e-5 with a tolerance of 1e-13: rounding is a bias


@pytest.mark.slow
def test_two_link_energy_of_a_chaotic_motion_has_no_drift_over_a_million_steps() -> None:
    """Chaotic: the mean of the error itself wanders (1e-3 of its span), so the span is that of potential energy, hanging to upright."""
    model = da.models.n_link(2)
    vi = da.MidpointVI(model, 0.01)
    energy = vi.simulate(vi.state(q=[1.5, 1.0]), steps=1_000_000).step_energy()
    span = da.potential_energy(model, [np.pi, 0.0]) - da.potential_energy(model, [0.0, 0.0])
    assert drift(energy) * np.ptp(energy) < 1e-6 * span
    assert drift(energy) < 5e-3


def test_momenta_of_coordinate_symmetries_are_exact() -> None:
    """Symmetries that shift coordinates: linear momentum of a free chain, rotation about the first axis of a hanging one."""
    tip = da.tz(-0.5, name="tip", mass=0.4, inertia=(0.1, 0.2, 0.05))
    chain = da.rx("b", da.tz(-0.7, da.ry("c", tip), mass=1.0, inertia=(0.2, 0.1, 0.3)))
    turning = da.rz("a", chain)
    rng = np.random.default_rng(0)
    free = da.Model([da.tx("x", da.ty("y", da.tz("z", turning)))])
    vi = da.MidpointVI(free, 0.01)
    traj = vi.simulate(vi.state(q=rng.uniform(-1, 1, 6), v=rng.uniform(-2, 2, 6)), 5000)
    assert np.abs(traj.p[:, :3] - traj.p[0, :3]).max() < 1e-10
    linear = traj.momentum()[:, 3:]
    assert np.abs(linear - linear[0]).max() < 1e-10
    hanging = da.Model([turning], [da.Gravity((0, 0, -9.8))])
    vi = da.MidpointVI(hanging, 0.01)
    traj = vi.simulate(vi.state(q=rng.uniform(-1, 1, 3), v=rng.uniform(-2, 2, 3)), 5000)
    assert np.abs(traj.p[:, 0] - traj.p[0, 0]).max() < 1e-10


def test_angular_momentum_of_a_top_is_bounded_and_second_order() -> None:
    model = da.Model([da.spherical_euler("body", mass=1.0, inertia=(0.3, 0.5, 0.9))])
    worst = []
    for dt in (0.02, 0.01):
        vi = da.MidpointVI(model, dt)
        start = vi.state(q=[0.1, 0.2, 0.3], v=[0.4, 0.2, 1.5])
        moment = vi.simulate(start, time=20.0).momentum()[:, :3]
        worst.append(float(np.abs(moment - moment[0]).max()))
    assert worst[1] < 0.01
    assert worst[0] / worst[1] == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize("seed", range(12))
def test_fast_step_equals_plain_dense_step(seed: int) -> None:
    """Tree LU, O(n) elimination and coupled elimination trees against one dense pivoted Newton matrix."""
    model = random_model(seed, size=[3, 6, 10, 16, 22, 30][seed % 6], constraints=0 if seed % 3 == 0 else 1)
    rng = np.random.default_rng(seed)
    q = rng.uniform(-0.5, 0.5, model.nq)
    q[[i for i, n in enumerate(model.variables) if n == "length"]] = 1.5
    try:
        q = da.satisfy_constraints(model, q)
    except da.ConvergenceError:
        pytest.skip("no consistent configuration found for this mechanism")
    u = rng.uniform(-1, 1, model.nu)
    fast, plain = da.MidpointVI(model, 0.005), da.MidpointVI(model, 0.005, plain=True)
    a = fast.simulate(fast.state(q), 10, u=u)
    b = plain.simulate(plain.state(q), 10, u=u)
    np.testing.assert_allclose(a.q, b.q, atol=1e-10)
    np.testing.assert_allclose(a.p, b.p, atol=1e-9)


def test_deep_chain_uses_the_same_numbers() -> None:
    model = da.models.n_link(40)
    q0 = np.linspace(0.5, 0.1, 40)
    fast, plain = da.MidpointVI(model, 0.01), da.MidpointVI(model, 0.01, plain=True)
    a, b = (vi.simulate(vi.state(q0), 20) for vi in (fast, plain))
    np.testing.assert_allclose(a.q, b.q, atol=1e-11)


def test_redundant_constraints_get_least_norm_multipliers() -> None:
    """A four-bar linkage with one pin written twice moves like the one with it written once."""

    def four_bar(copies: int) -> da.Model:
        left = da.ry("a", da.tz(1.0, da.ry("b", da.tx(1.0, name="end", mass=0.5)), mass=1.0))
        right = da.tx(1.0, da.ry("c", da.tz(1.0, da.ry("d", da.tx(0.2, mass=0.1)), name="top", mass=1.0)))
        pins = [da.PointToPoint("end", "top", "x"), da.PointToPoint("end", "top", "z")]
        return da.Model([left, right], [da.Gravity((0, 0, -9.8)), *pins, *pins[: copies - 1]])

    trajectories = []
    for copies in (1, 2):
        model = four_bar(copies)
        vi = da.MidpointVI(model, 0.01)
        q = da.satisfy_constraints(model, {"a": 0.3, "b": -0.3, "c": 0.3}, fixed=["a"])
        trajectories.append(vi.simulate(vi.state(q), 200))
    once, twice = trajectories
    np.testing.assert_allclose(twice.q, once.q, atol=1e-8)
    np.testing.assert_allclose(twice.lam[:, 0] + twice.lam[:, 2], once.lam[:, 0], atol=1e-5)
    np.testing.assert_allclose(twice.lam[:, 0], twice.lam[:, 2], atol=1e-6)


def test_step_bound_of_the_inverted_pendulum() -> None:
    """Section VII of Structured linearization: the Newton matrix is singular at dt = sqrt(4 r / g), upside down."""
    model = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0))])
    bound = np.sqrt(4 * 1.0 / 9.8)
    before = da.MidpointVI(model, 0.99 * bound)
    assert before.step(before.state(q=[np.pi])).q[0] == pytest.approx(np.pi)
    condition = before.condition(before.state(q=[np.pi]))
    assert condition.step == pytest.approx(1 / (1 - 0.99**2))
    assert condition.step_variables == ("theta",)


def test_spherical_pendulum_at_its_pole_names_the_variables() -> None:
    """Two angles, a point mass: hanging straight down the mass matrix is singular in phi."""
    model = da.Model([da.rz("phi", da.ry("theta", da.tz(-1.0, mass=1.0)))], [da.Gravity((0, 0, -9.8))])
    vi = da.MidpointVI(model, 0.01)
    with pytest.raises(da.SingularityError) as caught:
        vi.simulate(vi.state(q=[0.0, 0.0], p=[0.1, 0.0]), 10)
    assert caught.value.variables == ("phi",)
    assert caught.value.trajectory is not None


def test_wrong_roots_are_refused() -> None:
    """Whipping links turn too fast for this step: the equations have roots a turn away, which must not be taken for motion. (Met after 4.6 s,
    before rounding has grown to anything; later the motion is chaotic, and a step this long does not keep energy.)"""
    vi = da.MidpointVI(da.models.n_link(8), 0.05)
    q0 = np.zeros(8)
    q0[0] = 2.2
    # rounding decides whether Newton's iteration finds such a root or none (kernels of x86-64-v2): refused at the same step
    with pytest.raises(da.ConvergenceError, match=r"step 92 .*(half a turn|did not converge)") as caught:
        vi.simulate(vi.state(q0), time=100)
    energy = caught.value.trajectory.step_energy()
    assert np.abs(energy - energy[0]).max() < 50.0  # of some 600 J between hanging and upright


def test_a_flywheel_may_turn_far_in_a_step() -> None:
    wheel = da.Model([da.rz("wheel", mass=1.0, inertia=(1, 1, 1))])
    vi = da.MidpointVI(wheel, 0.1)
    start = vi.state(q=[0.0], v=[200.0])
    assert vi.simulate(start, 50).q[-1, 0] == pytest.approx(1000.0, rel=1e-12)
    assert da.rollouts(vi, [start] * 5, 50).q[3, -1, 0] == pytest.approx(1000.0, rel=1e-12)


def test_a_long_chain_at_a_small_step_is_not_judged_below_rounding() -> None:
    """Pivots of the factored matrix are far smaller than its diagonal here; a floor made of them let Newton's method run to its limit."""
    links: tuple[da.Frame, ...] = ()
    for i in range(99, -1, -1):
        links = (da.rz(f"q{i}", da.ty(-0.01, *links, mass=1.0)),)
    vi = da.MidpointVI(da.Model(links, [da.Gravity((0, -9.8, 0))]), 1e-5)
    assert vi.simulate(vi.state(q=np.r_[0.5, np.zeros(99)]), steps=30).iterations.max() <= 3
