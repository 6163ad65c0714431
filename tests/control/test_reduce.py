"""Linearization along constraints: equilibria are fixed points, eigenvalues are the continuous ones, nothing depends on the gauge of momenta."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import dalembert as da
from dalembert.models import load_with_configurations
from tests.random_models import random_model


def closed_chain() -> tuple[da.Model, np.ndarray]:
    model, configurations = load_with_configurations("closed_chain")
    return model, configurations["q0"]


def random_equilibria(count: int) -> Iterator[tuple[da.Model, np.ndarray]]:
    """Random mechanisms with constraints, springs on all variables so that nothing floats, at rest in an equilibrium."""
    found, seed = 0, 0
    while found < count:
        seed += 1
        base = random_model(seed, 3 + seed % 4, constraints=1 + seed % 2)
        springs = [da.ConfigSpring(name, 5.0, 0.2) for name in base.dynamic]
        model = da.Model(base.frames, [*base.elements, *springs])
        if not 0 < model.nc < model.nd:
            continue
        try:
            q = da.equilibrium(model, da.satisfy_constraints(model, np.zeros(model.nq)), tolerance=1e-13)
        except da.ConvergenceError:
            continue
        left, right = np.linalg.svd(da.constraint_jacobian(model, q)[:, : model.nd])[1:]
        pull = da.force(model, q) - da.potential_gradient(model, q)[: model.nd]
        if left[-1] < 1e-2 or np.abs(right[model.nc :] @ pull).max() > 1e-11:
            continue  # near a singularity, or not solved to rounding
        found += 1
        yield model, q


def continuous_eigenvalues(model: da.Model, q: np.ndarray) -> np.ndarray:
    """Of the continuous equations on the constraint manifold, linearized at rest."""
    a = da.acceleration(model, q, derivatives=True)
    assert a.ddq_q is not None
    assert a.ddq_v is not None
    nd = model.nd
    C = da.constraint_jacobian(model, q)[:, :nd]
    V = np.linalg.svd(C)[2][len(C) :].T
    n = V.shape[1]
    A = np.block([[np.zeros((n, n)), np.eye(n)], [V.T @ a.ddq_q[:, :nd] @ V, V.T @ a.ddq_v[:, :nd] @ V]])
    return np.linalg.eigvals(A)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest distance of two sets of eigenvalues, paired as well as possible."""
    gap = np.abs(a[:, None] - b[None])
    return float(gap[linear_sum_assignment(gap)].max())


def test_eigenvalues_at_fifty_random_equilibria_are_the_continuous_ones() -> None:
    orders = []
    for model, q in random_equilibria(50):
        exact = continuous_eigenvalues(model, q)
        errors = []
        for part in (0.2, 0.1):
            dt = part / float(np.abs(exact).max())
            system = da.System(da.MidpointVI(model, dt), steps=1)
            x, u = system.x(q), np.concatenate([np.zeros(model.nu), q[model.nqd :]])
            np.testing.assert_allclose(system.f(x, u), x, atol=1e-9)
            found = np.linalg.eigvals(da.reduce_state(system, (x, u)).A[0])
            found = found[np.abs(found) > 1e-6]  # those of prescribed variables, which a step sets, are zero
            full = np.linalg.eigvals(system.linearize(x, u)[0])
            moving = full[np.abs(full - 1) < 0.5]
            assert len(found) == len(exact)
            errors.append(distance(np.log(found) / dt, exact) / float(np.abs(exact).max()))
            # at the fixed point the whole matrix has them too (it does not where p lacks the half impulse)
            assert distance(found, moving) < 1e-6
        assert errors[1] < 2e-3
        orders.append(np.log2(errors[0] / errors[1]))
    assert len(orders) == 50
    assert min(orders) > 1.9
    assert max(orders) < 2.1


def pendulum() -> da.Model:
    bob = da.tx("x", da.ty("y", name="bob", mass=1.0))
    return da.Model([bob], [da.Gravity((0, -9.81, 0)), da.Distance("world", "bob", 1.0)])


@pytest.mark.parametrize("order", [2, 4, 6])
def test_pendulum_in_cartesian_coordinates_has_its_frequency(order: int) -> None:
    vi = da.MidpointVI(pendulum(), 0.01, order=order)
    A, _ = vi.linearize(vi.state(q={"y": -1.0}))
    turns = np.angle(np.linalg.eigvals(A)) / 0.01
    assert np.abs(turns - np.sqrt(9.81)).min() < (2e-4 if order == 2 else 1e-7)


def test_reduced_linearization_does_not_depend_on_the_gauge() -> None:
    rng = np.random.default_rng(3)
    models = [closed_chain(), *list(random_equilibria(4))]
    for model, q in models:
        vi = da.MidpointVI(model, 0.01)
        v = da.consistent_velocity(model, q, np.concatenate([rng.normal(size=model.nd), np.zeros(model.nk)]))
        motion = vi.simulate(vi.state(q=q, v=v), 20)
        system = da.System(vi, steps=20)
        X, U = system.from_trajectory(motion)
        on = da.reduce_state(system, (X, U))
        other = X.copy()
        for x in other:
            push = rng.normal(size=model.nc) @ da.constraint_jacobian(model, x[: model.nq])[:, : model.nd]
            x[model.nq : model.nq + model.nd] += push
        turned = da.reduce_state(system, (other, U))
        scale = np.abs(on.A).max()
        np.testing.assert_allclose(turned.A, on.A, atol=1e-12 * scale)
        np.testing.assert_allclose(turned.B, on.B, atol=1e-12 * max(np.abs(on.B).max(initial=0.0), scale))
        # T+ undoes T, and differences of gauge are not seen
        np.testing.assert_allclose(on.lower @ on.lift, np.tile(np.eye(on.size), (21, 1, 1)), atol=1e-12)
        k = 7
        dx = system.free_difference(X[k], other[k])
        np.testing.assert_allclose(dx, 0.0, atol=1e-10)


def test_ball_joints_on_a_rod() -> None:
    """Quaternions: 4 coordinates, 3 velocities, 1 constraint. Equilibria are fixed points, gauges are not seen, estimates stay on the rod."""
    body = da.tz(-0.5, name="b", mass=1.0, inertia=(0.1, 0.2, 0.15))
    frames = [da.ball("s", body, da.tz(-1.0, name="tip")), da.tx(0.8, da.tz(-0.6, name="post"))]
    model = da.Model(frames, [da.Gravity((0, 0, -9.8)), da.Distance("tip", "post", 0.9)])
    rng, vi = np.random.default_rng(0), da.MidpointVI(model, 0.01)
    system, U = da.System(vi, steps=20), np.zeros((20, 0))
    q = da.equilibrium(model, da.satisfy_constraints(model, model.neutral()))
    x = system.x(q)
    np.testing.assert_allclose(system.f(x, []), x, atol=1e-10)
    v = da.consistent_velocity(model, q, rng.normal(size=3))
    np.testing.assert_allclose(vi.state(q=q, v=v).v, v, atol=1e-12)
    X = system.simulate(system.x(q, v=v), U)
    other = X.copy()
    for row in other:
        row[4:] += rng.normal(size=1) @ da.constraint_jacobian(model, row[:4])
    on, turned = (da.reduce_state(system, (states, U)) for states in (X, other))
    assert on.size == 4
    np.testing.assert_allclose(turned.A, on.A, atol=1e-11 * np.abs(on.A).max())
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, "s.q?"), Q=1e-8, R=1e-4)
    start = ekf.start(system.retract(X[0], 0.02 * rng.normal(size=6)), 1e-3)
    run = ekf.run(start, U, X[:, :4])
    assert np.abs(da.constraints(model, run.mean[:, :4])).max() < 1e-9
    gap = [np.abs(system.free_difference(X[k], run.mean[k])).max() for k in (0, 20)]
    assert gap[1] < 0.7 * gap[0]


def test_reduced_map_is_the_derivative_along_the_manifold() -> None:
    """Perturb q and v along the constraints: what the steps make of it is A z, whatever gauge the perturbed states have."""
    model, q = closed_chain()
    vi = da.MidpointVI(model, 0.01)
    system = da.System(vi, steps=2)
    rng = np.random.default_rng(1)
    start = vi.simulate(vi.state(q=q), 30)[-1]
    X = system.simulate(np.concatenate([start.q, start.p]), np.zeros((2, 0)))
    on = da.reduce_state(system, (X, np.zeros((2, 0))))
    z, eps = rng.normal(size=on.size), 1e-5

    def after(sign: float) -> np.ndarray:
        x = system.settle(X[0] + sign * eps * on.lift[0] @ z)
        return on.lower[1] @ system.free_difference(X[1], system.f(x, []))

    np.testing.assert_allclose((after(1.0) - after(-1.0)) / (2 * eps), on.A[0] @ z, atol=1e-6)


def cart_pendulums() -> tuple[da.Model, da.Model]:
    """The same cart with a pendulum: the bob in Cartesian coordinates on a rod, and on a hinge."""
    loads = [da.Gravity((0, -9.8, 0)), da.ConfigForce("s", "push")]
    rod = da.Model(
        [da.tx("s", name="cart", mass=1.0), da.tx("x", da.ty("y", name="bob", mass=1.0))],
        [*loads, da.Distance("cart", "bob", 1.0)],
    )
    hinge = da.Model([da.tx("s", da.rz("a", da.ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0)], loads)
    return rod, hinge


@pytest.mark.parametrize("angle", [0.0, np.pi])
@pytest.mark.parametrize("gauge", ["state", "rest"])
def test_regulators_in_cartesian_and_joint_coordinates_agree(angle: float, gauge: str) -> None:
    rod, hinge = cart_pendulums()
    c = np.cos(angle)
    W = np.diag([1.0, 1.0, 0.0, 0.1, 0.1, 0.0])  # of (s, x, y, p_s, p_x, p_y)
    mass = np.linalg.inv([[2.0, c], [c, 1.0]])
    to = np.zeros((6, 4))  # (s, a, p_s, p_a) -> the same, to first order
    to[:2, :2] = [[1, 0], [1, c]]
    to[3:5, 2:] = [mass[0], mass[0] + c * mass[1]]

    def gap(dt: float) -> float:
        vi = da.MidpointVI(rod, dt)
        system = da.System(vi, steps=1)
        x = system.x({"y": -c}) if gauge == "state" else system.x({"y": -c}, p=np.zeros(3))
        on = da.reduce_state(vi, (x, [0.0]))
        ours = da.lqr_infinite(on.A[0], on.B[0], on.weight(W), 1.0).poles
        other = da.MidpointVI(hinge, dt)
        A, B = other.linearize(other.state([0.0, angle]))
        theirs = da.lqr_infinite(A, B, to.T @ W @ to, 1.0).poles
        return distance(np.log(ours.astype(complex)) / dt, np.log(theirs.astype(complex)) / dt)

    errors = [gap(dt) for dt in (0.04, 0.02, 0.01)]
    assert errors[-1] < 2e-3
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.05)


def test_regulators_are_reduced_where_there_are_constraints() -> None:
    rod, hinge = cart_pendulums()
    for model, q, size in ((rod, {"y": 1.0}, 6), (hinge, {"a": np.pi}, 4)):
        vi = da.MidpointVI(model, 0.02)
        start = vi.state(q=q)
        up = vi.simulate(start, 150)
        plain, law = da.lqr(vi, up, 1.0, 0.1), da.lqr(vi, up, 1.0, 0.1, reduced=True)
        np.testing.assert_array_equal(plain.K, law.K)
        assert law.K.shape == (150, 1, size)
    # the law needs no gauge: x of a filter (L_v) and of the map give the same input
    vi = da.MidpointVI(rod, 0.02)
    system = da.System(vi, steps=150)
    law = da.lqr(vi, vi.simulate(vi.state(q={"y": 1.0}), 150), 1.0, 0.1)
    away = vi.simulate(vi.state(q={"x": np.sin(0.2), "y": np.cos(0.2)}), 150, u=law)
    assert abs(away["x"][-1] - away["s"][-1]) < 1e-2
    x = np.concatenate([away.q[10], away.p[10]])
    np.testing.assert_allclose(law.input(10, system.settle(x)), law.input(10, x), atol=1e-9)


def test_finite_horizon_gains_along_a_motion_agree_to_second_order() -> None:
    """The input of both regulators for the same small deviation from the same swing."""
    rod, hinge = cart_pendulums()
    W, a, rate, small = np.diag([1.0, 1.0, 0.0, 0.1, 0.1, 0.0]), 1.0, 0.5, 1e-5

    def cartesian(angle: float) -> dict[str, dict[str, float]]:
        c, s = np.cos(angle), np.sin(angle)
        return {"q": {"x": s, "y": -c}, "v": {"x": rate * c, "y": rate * s}}

    def by_rod(dt: float) -> float:
        vi = da.MidpointVI(rod, dt)
        law = da.lqr(vi, vi.simulate(vi.state(**cartesian(a)), round(0.8 / dt), u=[0.0]), W, 1.0)
        near = vi.state(**cartesian(a + small))
        return float(law(0.0, near)[0]) / small

    def same_weight(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """W of the tangent part of (dq, dp) of the rod, by (ds, da, dp_s, dp_a) of the hinge."""
        c, s = np.cos(q[1]), np.sin(q[1])
        inverse = np.linalg.inv(da.mass_matrix(hinge, q))
        turn = np.array([-s * v[1], -s * v[0]])  # derivative of M v by a
        dv = np.column_stack([np.zeros(2), -inverse @ turn, inverse])
        J = np.array([[1.0, 0.0], [1.0, c], [0.0, s]])
        to = np.zeros((6, 4))
        to[:3, :2] = J
        to[3:] = J @ dv + np.outer([0.0, -s * v[1], c * v[1]], [0.0, 1.0, 0.0, 0.0])
        to[3:] = J @ np.linalg.pinv(J) @ to[3:]
        return np.asarray(to.T @ W @ to)

    def by_hinge(dt: float) -> float:
        vi = da.MidpointVI(hinge, dt)
        swing = vi.simulate(vi.state([0.0, a], v=[0.0, rate]), round(0.8 / dt), u=[0.0])
        Q = np.array([same_weight(q, v) for q, v in zip(swing.q, swing.v, strict=True)])
        law = da.lqr(vi, swing, Q[:-1], 1.0, Q[-1])
        return float(law(0.0, vi.state([0.0, a + small], v=[0.0, rate]))[0]) / small

    errors = [abs(by_rod(dt) - by_hinge(dt)) for dt in (0.04, 0.02, 0.01)]
    assert errors[-1] < 1e-3, errors
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.2)


def test_trajectories_of_words_are_refused() -> None:
    vi = da.MidpointVI(da.models.n_link(2), 0.01)
    motion = vi.simulate(vi.state([0.1, 0.2]), 5)
    arrays = {name: getattr(motion, name) for name in ("t", "q", "p", "u", "rho", "lam")}
    for name in ("t", "q", "p"):
        with pytest.raises(ValueError, match="array of real numbers"):
            da.reduce_state(vi, da.Trajectory(vi.model, **{**arrays, name: arrays[name].astype(str)}))
