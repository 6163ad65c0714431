"""Descent directions: recursions, slopes and curvatures against finite differences, on compiled and plain systems."""

import numpy as np
import pytest

from dalembert.optimization import Discrete, IndefiniteModel, TrackingCost
from dalembert.optimization.descent import sweep_back

from . import oracle, problems
from .standin import stand_in


@pytest.mark.parametrize("n", [1, 3, 20])
def test_costate_sweep(n):
    rng = np.random.default_rng(n)
    A, B, K = 0.3 * rng.normal(size=(9, n, n)), rng.normal(size=(9, n, 2)), 0.3 * rng.normal(size=(9, 2, n))
    lx, lu = rng.normal(size=(10, n)), rng.normal(size=(9, 2))
    z = [lx[-1]]
    for k in reversed(range(9)):
        z.insert(0, lx[k] - K[k].T @ lu[k] + (A[k] - B[k] @ K[k]).T @ z[0])
    np.testing.assert_allclose(sweep_back(A, B, K, lx, lu), z, rtol=1e-11, atol=1e-11)


CASES = {
    "pendulum": (problems.pendulum, [0.7], [3.0]),
    "cart pendulum": (lambda: problems.cart_pendulum(damping=0.1), [0.1, 2.5], [2.0]),
    "driven pendulum": (problems.driven_pendulum, [0.4, 0.0], [1.0, 0.1]),
    "hanging mass": (problems.hanging, [0.6, -0.8, 0.0, 1.0], [0.1, 1.05]),
}


def case(name, make):
    """A system, a wild motion of it and a problem with a rough cost."""
    model, q, u = CASES[name]
    model = model()
    steps, dt = 12, 0.05
    system = make(model, dt, steps)
    rng = np.random.default_rng(3)
    x0 = np.concatenate([q, 0.3 * rng.normal(size=model.nd), np.zeros(model.nk)])
    U = np.array(u) * (1 + 0.2 * np.sin(np.arange(steps))[:, None])
    if model.nc:  # start on the constraint, at rest
        x0[model.nq : model.nq + model.nd] = 0.0
        U = np.array(u)[None] * (1 + 0.02 * np.sin(np.arange(steps))[:, None])
    X = system.simulate(x0, U)
    Xd, Ud = X + rng.normal(size=X.shape), U + rng.normal(size=U.shape)
    Q, R = rng.uniform(0.5, 2, system.nx), rng.uniform(0.5, 2, system.nu)
    cost = TrackingCost((Xd, Ud), Q, R).bind(system)
    return system, X, U, cost


@pytest.mark.parametrize("make", [stand_in, problems.left_system], ids=["plain", "compiled"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", ["steepest", "quasi", "newton"])
def test_slope_and_curvature(name, method, make):
    """Dg.d and D2g.(d, d) of the projected cost along every method's direction, to 1e-5 relative."""
    system, X, U, cost = case(name, make)
    problem = Discrete(system, cost)
    p = problem.point(X, U)
    try:
        d = problem.direction(p, method)
    except IndefiniteModel:  # a wild point may have no Newton direction; the curvature is checked along quasi's
        d = problem.direction(p, "quasi")
    scale = 1e-3 / max(1.0, np.abs(d.dX).max(), np.abs(d.dU).max())

    def g(s):
        return problem.value(*problem.project(X + s * scale * d.dX, U + s * scale * d.dU, p.K))

    values = {s: g(s) for s in (-2, -1, 0, 1, 2)}
    slope = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * scale)
    assert d.slope < 0
    assert d.slope == pytest.approx(slope, rel=1e-5)
    curvature = (16 * (values[1] + values[-1]) - (values[2] + values[-2]) - 30 * values[0]) / (12 * scale**2)
    assert problem.curvature(p, d, "newton") == pytest.approx(curvature, rel=1e-5, abs=1e-5 * abs(d.slope))


@pytest.mark.parametrize("make", [stand_in, problems.left_system], ids=["plain", "compiled"])
@pytest.mark.parametrize("name", ["cart pendulum", "hanging mass"])
def test_random_directions(name, make):
    """Dg and D2g along a random curve direction that is not a tangent motion: the projection's own derivatives."""
    system, X, U, cost = case(name, make)
    problem = Discrete(system, cost)
    p = problem.point(X, U)
    rng = np.random.default_rng(8)
    bX, bU = rng.normal(size=X.shape), rng.normal(size=U.shape)
    if system.model.nc:  # the initial state must keep satisfying the constraints
        bX[0] = 0.0
    # DP.b is the tangent motion that follows b under the feedback (eq. 28)
    drive = bU + np.einsum("kij,kj->ki", p.K, bX[:-1])
    dX, dU = [bX[0]], []
    for k in range(system.steps):
        dU.append(drive[k] - p.K[k] @ dX[k])
        dX.append(p.A[k] @ dX[k] + p.B[k] @ dU[k])
    dX, dU = np.array(dX), np.array(dU)
    e = 1e-4

    def g(s):
        return problem.value(*problem.project(X + s * e * bX, U + s * e * bU, p.K))

    slope = (8 * (g(1) - g(-1)) - (g(2) - g(-2))) / (12 * e)
    assert (p.lx * dX).sum() + (p.lu * dU).sum() == pytest.approx(slope, rel=1e-5)
    direction = type("D", (), {"dX": dX, "dU": dU})
    curvature = (16 * (g(1) + g(-1)) - (g(2) + g(-2)) - 30 * g(0)) / (12 * e * e)
    assert problem.curvature(p, direction, "newton") == pytest.approx(curvature, rel=1e-5)


def test_direction_minimizes_the_model():
    """The direction is optimal for its model among tangent motions, and equals the plain Riccati recursion."""
    system, X, U, cost = case("cart pendulum", problems.left_system)
    problem = Discrete(system, cost)
    p = problem.point(X, U)
    d = problem.direction(p, "quasi")
    Q, _, R = problem.model(p, "quasi")
    K, c, _, _ = oracle.solve_lq(p.A, p.B, Q, R, q=p.lx, r=p.lu)
    dx = np.zeros(system.nx)
    for k in range(system.steps):
        np.testing.assert_allclose(d.dX[k], dx, rtol=1e-8, atol=1e-9)
        du = -K[k] @ dx - c[k]
        np.testing.assert_allclose(d.dU[k], du, rtol=1e-8, atol=1e-9)
        dx = p.A[k] @ dx + p.B[k] @ du


def test_free_start_direction_is_optimal_in_the_start_too():
    system, X, U, cost = case("cart pendulum", problems.left_system)
    free = np.array([True, False, True, False])
    problem = Discrete(system, cost, free=free)
    p = problem.point(X, U)
    d = problem.direction(p, "quasi")
    assert (d.dX[0][~free] == 0).all()
    assert (d.dX[0][free] != 0).all()
    # stationarity: the gradient of the model along any tangent motion with a free start vanishes
    Q, _, R = problem.model(p, "quasi")
    rng = np.random.default_rng(0)
    v, w = [np.where(free, rng.normal(size=4), 0.0)], rng.normal(size=U.shape)
    for k in range(system.steps):
        v.append(p.A[k] @ v[-1] + p.B[k] @ w[k])
    v = np.array(v)
    change = (
        np.einsum("ki,kij,kj->", v, Q, d.dX)
        + np.einsum("ki,kij,kj->", w, R, d.dU)
        + (p.lx * v).sum()
        + (p.lu * w).sum()
    )
    assert abs(change) < 1e-8 * abs(d.slope)
