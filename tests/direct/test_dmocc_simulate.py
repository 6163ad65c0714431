"""Forward simulation with the reduced scheme (13) and the multiplier scheme (10)."""

import numpy as np
import pytest

from dalembert import ConvergenceError
from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, condition_numbers, simulate
from dalembert.direct.dmocc.kernels import dense, kernels

from .test_dmocc_kinematics import SYSTEMS


@pytest.mark.parametrize("name", ["S", "C", "R", "P", "E", "U", "H", "weld", "ground R", "ground U", "ground H"])
def test_reduced_and_multiplier_schemes_give_the_same_motion(name):
    s = SYSTEMS[name]
    rng = np.random.default_rng(3)
    start = {"u": rng.normal(size=s.nd) * 0.4, "velocity": rng.normal(size=s.nd) * 0.4, "tau": rng.normal(size=s.nu)}
    a = simulate(s, dt=0.01, steps=40, **start)
    b = simulate(s, dt=0.01, steps=40, form="multiplier", **start)
    assert np.abs(a.q - b.q).max() < 1e-10
    assert np.abs(a.u - b.u).max() < 1e-10
    assert np.abs(a.p - b.p).max() < 1e-9 * np.abs(a.p).max()
    assert a.constraint_violation().max() < 1e-13
    assert a.iterations.max() <= 6


@pytest.mark.parametrize("name", ["S", "C", "R", "P", "E", "U", "H", "weld", "tree"])
def test_change_of_angular_momentum_equals_the_applied_torques(name):
    # Propositions 4.1 and 5.1 and eq. (34), with all joints and the free body actuated, under gravity
    s = SYSTEMS[name]
    rng = np.random.default_rng(4)
    motion = simulate(
        s, dt=0.02, steps=20, u=rng.normal(size=s.nd) * 0.3, velocity=rng.normal(size=s.nd), tau=rng.normal(size=s.nu)
    )
    size = np.abs(motion.angular_momentum()).max()
    assert np.abs(motion.angular_momentum_defect()).max() < 1e-12 * max(size, 1.0)


def test_shape_changes_keep_angular_and_linear_momentum():
    s = SYSTEMS["S"]
    s = MultibodySystem(s.bodies, [Joint("free", "ground", "one", actuated=False), s.joints[1]])
    motion = simulate(s, dt=0.02, steps=50, tau=lambda t: [np.sin(t), 1.0, -np.cos(3 * t)])
    assert np.abs(motion.u).max() > 0.1
    assert np.abs(motion.angular_momentum()).max() < 1e-12
    assert np.abs(motion.linear_momentum()).max() < 1e-12


def test_free_top_keeps_energy_and_matches_eulers_equations():
    body = RigidBody("top", 2.0, (1.0, 2.0, 2.5))
    s = MultibodySystem([body])
    omega0 = np.array([0.1, 2.0, 0.1])
    from scipy.integrate import solve_ivp

    j = np.array([1.0, 2.0, 2.5])
    exact = solve_ivp(lambda t, w: -np.cross(w, j * w) / j, (0, 2), omega0, rtol=1e-11, atol=1e-12).y[:, -1]
    errors = []
    for steps in (100, 200):
        motion = simulate(s, dt=2 / steps, steps=steps, velocity=[0, 0, 0, *omega0])
        r = motion.rotation("top")[-1]
        spatial = np.linalg.solve(dense(kernels(s).inertia(motion.q[-1], motion.u[-1])[1]), motion.p[-1])[3:]
        errors.append(np.abs(r.T @ spatial - exact).max())
        energy = motion.energy()
        assert np.ptp(energy) < 2e-3 * energy[0]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


def test_condition_number_of_the_reduced_scheme_does_not_depend_on_the_step():
    s = SYSTEMS["tree"]
    u = np.random.default_rng(5).normal(size=s.nd) * 0.3
    table = np.array([condition_numbers(s, h, u) for h in (1e-1, 1e-2, 1e-3, 1e-4)])
    assert np.abs(table[:, 0] / table[0, 0] - 1).max() < 1e-6
    growth = np.log10(table[1:, 1] / table[:-1, 1])
    assert growth == pytest.approx(3.0, abs=0.05)


def test_failure_keeps_what_was_computed():
    s = MultibodySystem(
        [RigidBody("rod", 1.0, (0.1, 1, 1), position=(0.5, 0, 0))],
        [Joint("R", "ground", "rod", axis=(0, 0, 1))],
        gravity=(0, -9.81, 0),
    )
    with pytest.raises(ConvergenceError) as caught:
        simulate(s, dt=0.1, steps=20, tau=lambda t: [0.0 if t < 0.5 else 1e6])
    assert caught.value.step == 5
    assert caught.value.trajectory.steps == 5
    assert np.isfinite(caught.value.trajectory.q).all()
    with pytest.raises(ValueError, match="shape"):
        simulate(s, dt=0.1, steps=20, tau=np.zeros((3, 1)))
    with pytest.raises(ValueError, match="not finite"):
        simulate(s, dt=0.1, steps=2, tau=np.full((2, 1), np.nan))
    with pytest.raises(ValueError, match="dt"):
        simulate(s, dt=-0.1, steps=2)


def test_simulating_no_steps_returns_the_start():
    s = SYSTEMS["R"]
    motion = simulate(s, dt=0.1, steps=0)
    assert motion.q.shape == (1, 24)
    assert motion.tau.shape == (0, s.nu)


def test_potential_of_the_user_acts():
    body = RigidBody("mass", 2.0, (1, 1, 1))
    s = MultibodySystem(
        [body],
        [Joint("P", "ground", "mass", axis=(1, 0, 0))],
        potential=lambda view: 0.5 * 8.0 * view.position("mass")[0] ** 2,
    )
    motion = simulate(s, dt=0.01, steps=200, u=[1.0])
    assert np.abs(motion["mass"] - np.cos(2 * motion.t)).max() < 1e-3
    assert np.ptp(motion.energy()) < 1e-10  # the midpoint rule keeps quadratic energies
