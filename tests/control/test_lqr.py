"""Regulators: finite and infinite horizon, on the constraint manifold, as policies, in python-control."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import dalembert as da
from dalembert import control as dc

from . import models, oracle
from .standin import SymbolicSystem


def test_infinite_horizon_is_the_limit_of_the_finite_one():
    rng = np.random.default_rng(0)
    A, B, S = rng.normal(size=(4, 4)), rng.normal(size=(4, 2)), 0.1 * rng.normal(size=(4, 2))
    forever = dc.lqr_infinite(A, B, Q=1.0, R=[1.0, 2.0], S=S)
    long = dc.solve_lq(A, B, Q=1.0, R=[1.0, 2.0], Qf=1.0, S=S, steps=300)
    np.testing.assert_allclose(forever.K, long.K[0], atol=1e-9)
    np.testing.assert_allclose(forever.P, long.P[0], rtol=1e-9)
    assert np.abs(forever.poles).max() < 1
    K, _, _ = dc.dlqr(A, B, 1.0, [1.0, 2.0], S=S)
    np.testing.assert_array_equal(K, forever.K)


def test_agrees_with_python_control():
    control = pytest.importorskip("control")
    A, B = np.array([[1, 0.1], [0.3, 1.1]]), np.array([[0.0], [0.1]])
    K, _, _ = control.dlqr(A, B, np.eye(2), np.eye(1))
    np.testing.assert_allclose(dc.lqr_infinite(A, B, 1.0, 1.0).K, K, atol=1e-9)


def test_unreachable_unstable_states_are_named():
    with pytest.raises(dc.UnstabilizableError) as caught:
        dc.lqr_infinite(np.diag([0.5, 1.2, 0.1]), [[1.0], [0.0], [0.0]], 1.0, 1.0, names=("a", "b", "c"))
    assert caught.value.variables == ("b",)  # "c" is not reached either, but decays
    assert caught.value.modes[0].eigenvalue == pytest.approx(1.2)
    assert "b" in str(caught.value)


def test_unreachable_stable_states_are_no_problem():
    result = dc.lqr_infinite(np.diag([1.1, 0.3]), [[1.0], [0.0]], 1.0, 1.0)
    assert np.abs(result.poles).max() < 1


def test_undamped_states_that_the_cost_does_not_see_are_named():
    with pytest.raises(dc.UnstabilizableError) as caught:
        dc.lqr_infinite(np.diag([0.5, 1.0]), np.eye(2), [1.0, 0.0], 1.0, names=("a", "b"))
    assert caught.value.variables == ("b",)


def test_lqr_along_a_trajectory_is_equation_36():
    system = SymbolicSystem(models.cart_pole(), 0.05, 30)
    U = 0.3 * np.sin(np.arange(30.0))[:, None]
    X = system.simulate([0.0, 2.0, 0.1, 0.0], U)
    law = dc.lqr(system, (X, U), Q=[1, 2, 3, 4], R=0.5)
    A, B = system.linearize_trajectory(X, U)
    Q = np.diag([1.0, 2, 3, 4])
    K, _, P, _, _ = oracle.riccati(A, B, np.tile(Q, (30, 1, 1)), np.full((30, 1, 1), 0.5), Q)
    np.testing.assert_allclose(law.K, K, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(law.P, P, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(law.t, system.t)
    # the closed loop forgets a perturbation, the open one does not
    near = X.copy()
    near[0] += [0.05, 0.05, 0, 0]
    errors = []
    for gains in (law.K, 0 * law.K):
        x, e = near[0], 0.0
        for k in range(30):
            x = system.f(x, U[k] - gains[k] @ (x - X[k]), k)
            e += np.linalg.norm(x - X[k + 1])
        errors.append(e)
    assert errors[0] < 0.8 * errors[1]


def test_reduced_regulator_of_a_constrained_system():
    system = SymbolicSystem(models.rod_cart(), 0.05, 40)
    theta = 0.3
    U = np.zeros((40, 1))
    x0 = np.array([0, np.sin(theta), -np.cos(theta), 0, 0, 0])
    X = system.simulate(x0, U)
    A, _ = system.linearize_trajectory(X, U)
    on = dc.reduce_state(system, (X, U))
    assert on.size == 4  # six states minus position and momentum across the rod
    # exact: perturbing the nonlinear map along the manifold and reducing is the same as the reduced linear map
    rng = np.random.default_rng(0)
    for k in (0, 17):
        z, du, eps = rng.normal(size=4), rng.normal(size=1), 1e-6
        plus, minus = (system.f(X[k] + s * eps * on.lift[k] @ z, U[k] + s * eps * du, k) for s in (1, -1))
        slope = on.lower[k + 1] @ (plus - minus) / (2 * eps)
        np.testing.assert_allclose(slope, on.A[k] @ z + on.B[k] @ du, atol=1e-7)
        # what the reduction drops is invisible to the next step: momentum along the constraint force
        ghost = A[k] @ _constraint_momentum(X[k])
        np.testing.assert_allclose(ghost, 0, atol=1e-9)
    # hanging equilibrium: the full pair has ghosts, the reduced one none
    x = np.array([0, 0, -1.0, 0, 0, 0])
    hang = system.simulate(x, U)
    full = dc.controllable_rank(*system.linearize(hang[0], U[0], 0))
    still = dc.reduce_state(system, (hang, U))
    assert full < 6
    assert dc.controllable_rank(still.A[0], still.B[0]) == 4
    forever = dc.lqr_infinite(still.A[0], still.B[0], 1.0, 1.0)
    assert np.abs(forever.poles).max() < 1
    law = dc.lqr(system, (hang, U), Q=1.0, R=1.0, reduced=True)
    start = hang.copy()
    start[0] = [0.1, 0.1 + np.sin(0.1), -np.cos(0.1), 0, 0, 0]
    x = start[0]
    for k in range(40):
        x = system.f(x, law.input(k, x), k)
    assert np.linalg.norm(x - hang[-1]) < 0.7 * np.linalg.norm(start[0] - hang[0])


def _constraint_momentum(x):
    """Constraint gradient of rod_cart, as a change of p."""
    d = np.array([x[0] - x[1], -x[2]])
    return np.concatenate([np.zeros(3), [d[0], -d[0], -d[1]]])


def test_reduced_equals_full_without_constraints():
    system = SymbolicSystem(models.cart_pole(), 0.05, 5)
    U = np.zeros((5, 1))
    X = system.simulate([0, 1.0, 0, 0], U)
    np.testing.assert_allclose(
        dc.lqr(system, (X, U), 1.0, 1.0, reduced=True).K, dc.lqr(system, (X, U), 1.0, 1.0).K, atol=1e-10
    )


def test_weights_by_name():
    system = SymbolicSystem(models.winch_robot(), 0.05, 1)
    Q = dc.weights(system, {"*m": 100, "p.*": 0.1, "r": 7}, default=2)
    np.testing.assert_array_equal(np.diag(Q), [100, 100, 2, 7, 0.1, 0.1, 2, 2])
    np.testing.assert_array_equal(np.diag(dc.weights(system, {"r": 3}, of="u")), [1, 3])
    np.testing.assert_array_equal(dc.weights(system, {"r": 7, "*": 2}), dc.weights(system, {"*": 2, "r": 7}))
    with pytest.raises(ValueError, match="unknown name 'y'"):
        dc.weights(system, {"y": 1})
    with pytest.raises(ValueError, match="negative"):
        dc.weights(system, {"r": -1})


def test_weights_by_name_in_lqr():
    system = da.System(da.MidpointVI(models.cart_pole(), dt=0.05), steps=5)
    U = np.zeros((5, 1))
    X = system.simulate(np.array([0, 1.0, 0, 0]), U)
    named = dc.lqr(system, (X, U), Q={"theta": 10, "*": 1}, R={"push": 2}, Qf={"x": 3})
    plain = dc.lqr(system, (X, U), Q=[1, 10, 1, 1], R=2.0, Qf=[3, 0, 0, 0])
    np.testing.assert_array_equal(named.K, plain.K)


def test_weights_by_name_at_a_point():
    vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
    upright = vi.state(q={"theta": np.pi})
    A, B = vi.linearize(upright)
    by_name = da.lqr_infinite(A, B, Q={"theta": 10.0, "p.*": 0.1, "*": 1.0}, R={"push": 0.2}, names=vi)
    by_order = da.lqr_infinite(A, B, Q=[1.0, 10.0, 0.1, 0.1], R=0.2)
    assert np.array_equal(by_name.K, by_order.K)
    same = da.lqr_infinite(A, B, Q={"theta": 10.0, "p.*": 0.1, "*": 1.0}, R=0.2, names=vi.dx_names)
    assert np.array_equal(same.K, by_order.K)
    with pytest.raises(ValueError, match="needs names="):
        da.lqr_infinite(A, B, Q={"theta": 1.0}, R=0.2)
    with pytest.raises(ValueError, match="unknown name 'thta'"):
        da.lqr_infinite(A, B, Q={"thta": 1.0}, R=0.2, names=vi)


def test_a_law_at_a_state():
    vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
    upright = vi.state(q={"theta": np.pi})
    gain = da.lqr_infinite(*vi.linearize(upright), Q=1.0, R=1.0)
    law = da.Feedback.at_point(upright, [0.0], gain.K)
    assert np.array_equal(law.X[0], [0.0, np.pi, 0.0, 0.0])


def test_infinite_horizon_keeps_a_cart_pole_upright():
    vi = da.MidpointVI(models.cart_pole(), dt=0.05)
    system = da.System(vi, steps=1)
    x = np.array([0, np.pi, 0, 0])
    A, B = system.linearize(x, [0.0], 0)
    assert np.abs(np.linalg.eigvals(A)).max() > 1
    law = dc.Feedback.at_point(x, [0.0], dc.lqr_infinite(A, B, 1.0, 0.1, names=system.x_names).K)
    motion = vi.simulate(vi.state(q=[0.2, np.pi - 0.2]), steps=400, u=law)
    np.testing.assert_allclose(motion.q[-1], x[:2], atol=1e-3)
    # without the input on the cart nothing can hold the pole: both unstable states are named
    with pytest.raises(dc.UnstabilizableError) as caught:
        dc.lqr_infinite(A, 0 * B, 1.0, 0.1, names=system.x_names)
    assert {"theta", "p.theta"} <= set(caught.value.variables)


def test_feedback_finds_its_step_and_pickles():
    N = 10
    rng = np.random.default_rng(0)
    t = 0.1 * np.arange(N + 1)
    law = dc.Feedback(K=rng.normal(size=(N, 2, 3)), X=rng.normal(size=(N + 1, 3)), U=rng.normal(size=(N, 2)), t=t)
    for k in range(N):
        assert law.step_at(t[k]) == law.step_at(t[k] + 0.05) == k
        np.testing.assert_allclose(law(k * 0.1, law.X[k]), law.U[k])
    assert law.step_at(99.0) == N - 1
    assert law.step_at(-1.0) == 0
    copy = pickle.loads(pickle.dumps(law))
    np.testing.assert_array_equal(copy(0.35, np.ones(3)), law(0.35, np.ones(3)))


def test_policy_with_kinematic_inputs_in_a_simulation():
    """The string robot: a policy returns (forces, next kinematic values); the core's own closed loop agrees."""
    vi = da.MidpointVI(models.winch_robot(), dt=1 / 30)
    steps = 60
    t = vi.dt * np.arange(1, steps + 1)
    rho = np.column_stack([0.1 * np.sin(t), 1 + 0.05 * np.cos(t) - 0.05])
    hang = vi.state(q={"ym": -1.0, "r": 1.0})
    motion = vi.simulate(hang, steps=steps, kinematic=rho)
    law = dc.lqr(vi, motion, Q=[100, 100, 1, 1, 1, 1, 0.1, 0.1], R=1.0, reduced=False)
    np.testing.assert_allclose(law.K[:, :, 6:], 0, atol=1e-12)  # a step does not depend on v_rho
    off = vi.state(q={"xm": 0.1, "ym": -np.sqrt(1 - 0.01), "r": 1.0})
    closed = vi.simulate(off, steps=steps, u=law)
    system = da.System(vi, steps=steps)
    X, U = system.from_trajectory(motion)
    x0 = np.concatenate([off.q, off.p, X[0, 6:]])
    np.testing.assert_allclose(closed.q, system.project(X, U, law.K, x0=x0)[0][:, :4], atol=1e-9)
    opened = vi.simulate(off, steps=steps, kinematic=rho)
    assert np.abs(closed.q[-1] - motion.q[-1]).max() < 0.3 * np.abs(opened.q[30:] - motion.q[30:]).max()
    # along the constraints, which is the default here, the loop closes as well
    along = vi.simulate(off, steps=steps, u=dc.lqr(vi, motion, Q=[100, 100, 1, 1, 1, 1, 0.1, 0.1], R=1.0))
    assert np.abs(along.q[-1] - motion.q[-1]).max() < 0.3 * np.abs(opened.q[30:] - motion.q[30:]).max()
    # a law that does feed v_rho back must say that a State without it is not enough
    wide = dc.Feedback(K=law.K + 1.0, X=law.X, U=law.U, t=law.t)
    assert wide(0.0, off).shape == (2,)
    with pytest.raises(ValueError, match="kinematic velocities"):
        wide(0.0, replace(off, v_rho=None))


def test_reference_must_fit_the_system():
    system = SymbolicSystem(models.pendulum(), 0.1, 5)
    with pytest.raises(ValueError, match="has 3 steps"):
        dc.lqr(system, (np.zeros((4, 2)), np.zeros((3, 1))), 1.0, 1.0)
    with pytest.raises(ValueError, match="X has shape"):
        dc.lqr(system, (np.zeros((6, 3)), np.zeros((5, 1))), 1.0, 1.0)


def test_bridge_to_python_control():
    control = pytest.importorskip("control")
    system = SymbolicSystem(models.pendulum(), 0.1, 1, forcing="left")
    linear = dc.to_control(system, [0.2, 0.5], [0.8])
    assert isinstance(linear, control.StateSpace)
    assert linear.dt == 0.1
    np.testing.assert_allclose(linear.A, [[0.95333434, 0.09766672], [-0.93331323, 0.95333434]], atol=1e-8)
    np.testing.assert_allclose(linear.B, [[0.00976667], [0.09533343]], atol=1e-8)
    assert list(linear.state_labels) == ["theta", "p_theta"]
    nonlinear = dc.to_control(system)
    assert nonlinear.dt == 0.1
    _, y = control.input_output_response(nonlinear, np.arange(4) * 0.1, np.full((1, 4), 0.8), [0.2, 0.5])
    np.testing.assert_allclose(y[:, 1], [0.247136194156, 0.362723883111], atol=1e-10)


def test_errors_of_the_room_are_the_projects_errors():
    assert issubclass(dc.UnstabilizableError, da.SingularityError)


@pytest.mark.parametrize("A", [[[1.0, 0.1], [0.0, 1.0]], [[0.8, 0.6], [-0.6, 0.8]]])
def test_a_cost_that_sees_nothing_is_refused(A) -> None:
    with pytest.raises(da.UnstabilizableError, match="the cost does not see"):
        da.lqr_infinite(A, [[0.0], [0.1]], Q=0.0, R=1.0)
    assert abs(da.lqr_infinite(0.9 * np.array(A), [[0.0], [0.1]], Q=0.0, R=1.0).K).max() == 0  # decays by itself


@pytest.mark.parametrize("gain", [np.nan, "a lot", 1j])
def test_gains_are_numbers(gain: object) -> None:
    with pytest.raises(ValueError, match="K"):
        da.Feedback(K=np.array([[[gain]]]), X=np.zeros((2, 1)), U=np.zeros((1, 1)), t=np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="K"):
        da.Feedback.at_point([0.0], [0.0], [[gain]])
    with pytest.raises(ValueError, match="Q"):
        da.lqr_infinite([[1.0]], [[1.0]], Q=[[gain]], R=1.0)


def test_wrap_takes_hinges_the_shorter_way_round():
    """A pendulum that has gone round twice is as upright as before: no turn back, and the law pickles."""
    import pickle

    m = da.Model(
        [da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))],
        [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", input="torque")],
    )
    vi = da.MidpointVI(m, 0.05)
    up = vi.state(q=[np.pi])
    reference = vi.simulate(up, steps=80, u=lambda t: [0.0])
    start = vi.state(q=[5 * np.pi + 0.2])
    law = pickle.loads(pickle.dumps(da.lqr(vi, reference, Q=1.0, R=1.0, wrap=True)))
    closed = vi.simulate(start, steps=80, u=law)
    assert abs(closed.q[-1, 0] - 5 * np.pi) < 1e-2
    plain = da.lqr(vi, reference, Q=1.0, R=1.0)
    assert abs(plain.input(0, np.r_[start.q, start.p])) > 20 * abs(law.input(0, np.r_[start.q, start.p]))
    A, B = vi.linearize(up)
    forever = da.Feedback.at_point(up, [0.0], da.lqr_infinite(A, B, 1.0, 1.0).K, system=vi, wrap=True)
    assert abs(vi.simulate(start, steps=80, u=forever).q[-1, 0] - 5 * np.pi) < 1e-2
    with pytest.raises(ValueError, match="model"):
        da.Feedback.at_point([0.0, 0.0], [0.0], [[1.0, 1.0]], wrap=True)


def test_a_regulator_around_an_optimal_motion():
    system = da.System(da.MidpointVI(da.models.pendulum(), 0.1), steps=20)
    found = da.optimize(system, da.TrackingCost({"theta": 1.0}, 1.0, 0.1), (np.zeros((21, 2)), np.zeros((20, 1))))
    assert pytest.approx(da.lqr(system, (found.X, found.U), Q=1.0, R=1.0).K) == da.lqr(system, found, Q=1.0, R=1.0).K
