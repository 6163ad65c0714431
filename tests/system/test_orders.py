"""Composed steps of order 4 and 6: derivatives against differences and against the chain rule written out; what control gains from them."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.integrate.composition import composition
from tests.random_models import random_model
from tests.system.test_system import error, system_at

ORDERS = pytest.mark.parametrize("order", [4, 6])
# seed, variables, constraints: fifty mechanisms with forces, constraints and kinematic inputs
MECHANISMS = [(s, 2 + s % 9, (0, 1, 1, 2)[s % 4] if s % 9 > 1 else 0) for s in range(50)]


def composed(seed: int, size: int, constraints: int, order: int) -> tuple[da.System, np.ndarray, np.ndarray]:
    """A random constrained, forced, driven system of this order, with a state and input that its step can take."""
    for attempt in range(20):
        midpoint, x, u = system_at(seed + 1000 * attempt, size, constraints)
        vi = midpoint.one_step
        system = da.System(da.MidpointVI(vi.model, vi.dt, order=order), steps=2)
        try:
            system.f(x, u)
        except da.ConvergenceError:
            continue
        return system, x, u
    raise AssertionError("no system found whose step has a solution")


class ChainRule:
    """The composed step part by part: midpoint steps of the core, everything else written out here.

    With M_i = d(x_i, u_i)/d(x, u) before part i: products forward, adjoints backward, H = sum M_i' H_i(z_i) M_i.
    """

    def __init__(self, system: da.System, x: np.ndarray, u: np.ndarray) -> None:
        vi = system.one_step
        m = vi.model
        lengths = composition(vi.order) * vi.dt
        ends = np.cumsum(composition(vi.order))
        ends[-1] = 1.0
        plain = da.MidpointVI(m, vi.dt).with_dt(lengths)
        self.parts = plain.over(np.concatenate([[0.0], np.cumsum(lengths)]))
        self.n, self.nd, self.m = system.nx, m.nd, m
        rho0, rho1 = x[m.nd : m.nq], u[m.nu :]
        self.X, self.U, self.M = [x], [], []
        self.slopes = []
        tangent = np.hstack([np.eye(self.n), np.zeros((self.n, system.nu))])
        for k, c in enumerate(ends):
            self.U.append(np.concatenate([u[: m.nu], rho0 + c * (rho1 - rho0)]))
            by_u = np.zeros((system.nu, self.n + system.nu))
            by_u[: m.nu, self.n : self.n + m.nu] = np.eye(m.nu)
            by_u[m.nu :, m.nd : m.nq] = (1 - c) * np.eye(m.nk)
            by_u[m.nu :, self.n + m.nu :] = c * np.eye(m.nk)
            self.M.append(np.vstack([tangent, by_u]))
            A, B = self.parts.linearize(self.X[k], self.U[k], k)
            self.slopes.append((A, B))
            tangent = A @ tangent + B @ by_u
            self.X.append(self.parts.f(self.X[k], self.U[k], k))
        # the velocity of prescribed variables is that of the whole step
        last = np.zeros((m.nk, self.n + system.nu))
        last[:, m.nd : m.nq], last[:, self.n + m.nu :] = -np.eye(m.nk) / vi.dt, np.eye(m.nk) / vi.dt
        tangent[m.nq + m.nd :] = last
        self.end = np.concatenate([self.X[-1][: m.nq + m.nd], (rho1 - rho0) / vi.dt])
        self.first = tangent

    def second(self, z: np.ndarray) -> np.ndarray:
        z = z.copy()
        z[self.m.nq + self.m.nd :] = 0.0  # linear
        H = np.zeros((self.first.shape[1],) * 2)
        for k in reversed(range(len(self.U))):
            xx, xu, uu = self.parts.second_order(self.X[k], self.U[k], k, z)
            H += self.M[k].T @ np.block([[xx, xu], [xu.T, uu]]) @ self.M[k]
            z = self.slopes[k][0].T @ z
        return H


@ORDERS
@pytest.mark.parametrize("some", range(0, 50, 10))
def test_first_and_second_order_of_random_mechanisms(some: int, order: int) -> None:
    """A, B, adjoint, second order against differences to 1e-8, and against the chain rule."""
    for seed, size, constraints in MECHANISMS[some : some + 10]:
        system, x, u = composed(seed, size, constraints, order)
        rng = np.random.default_rng(seed)
        dx, du, z = rng.normal(size=system.nx), rng.normal(size=system.nu), rng.normal(size=system.nx)
        A, B = system.linearize(x, u)
        assert error(lambda t: system.f(x + t * dx, u + t * du), A @ dx + B @ du) < 1e-8, seed  # noqa: B023
        az, bz = system.adjoint(x, u, 0, z)
        scale = max(1.0, float(np.abs(A).max()))
        np.testing.assert_allclose(az, A.T @ z, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_allclose(bz, B.T @ z, rtol=1e-9, atol=1e-9 * scale)
        xx, xu, uu = system.second_order(x, u, 0, z)

        def gradient(t: float) -> np.ndarray:
            A, B = system.linearize(x + t * dx, u + t * du)  # noqa: B023
            return np.r_[A.T @ z, B.T @ z]  # noqa: B023

        assert error(gradient, np.r_[xx @ dx + xu @ du, xu.T @ dx + uu @ du]) < 1e-8, seed
        chain = ChainRule(system, x, u)
        np.testing.assert_allclose(system.f(x, u), chain.end, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(np.hstack([A, B]), chain.first, rtol=1e-9, atol=1e-9 * scale)
        H = np.block([[xx, xu], [xu.T, uu]])
        np.testing.assert_allclose(H, chain.second(z), atol=1e-8 * max(1.0, float(np.abs(H).max())))


@ORDERS
def test_other_forms_of_the_derivatives(order: int) -> None:
    """Along a motion, as full tensors, of the multipliers and of the step's length."""
    system, x, u = composed(3, 7, 2, order)
    m = system.model
    long = da.System(system.one_step, steps=12)
    U = np.tile(u, (12, 1))
    X = long.simulate(x, U)
    for threads in (1, 2):
        A, B = long.linearize_trajectory(X, U, threads=threads)
        one, two = long.linearize(X[5], U[5], 5)
        np.testing.assert_allclose(A[5], one, atol=1e-9)
        np.testing.assert_allclose(B[5], two, atol=1e-9)
    z = np.cos(np.arange(system.nx))
    xx, xu, uu = system.second_order(x, u, 0, z)
    H = np.block([[xx, xu], [xu.T, uu]])
    np.testing.assert_allclose(np.tensordot(z, system.second_order_full(x, u), 1), H, atol=1e-8 * np.abs(H).max())
    found = system.derivatives(x, u, with_dt=True)
    w0, d = np.r_[x[: m.nq + m.nd], u], np.sin(np.arange(m.nq + m.nd + system.nu))

    def solve(w: np.ndarray, dt: float) -> np.ndarray:
        step = system.one_step.with_dt(np.array([dt])).over(np.array([0.0, dt]))
        q, p, lam = step.solve(np.r_[w[: m.nq + m.nd], np.zeros(m.nk)], w[m.nq + m.nd :], 0)
        return np.r_[q[: m.nd], p, lam]

    table = np.vstack([found["q"], found["p"], found["lam"]])
    assert error(lambda t: solve(w0 + t * d, system.dt[0]), table[:, :-1] @ d) < 1e-8
    assert error(lambda t: solve(w0, system.dt[0] + t), table[:, -1], (1e-3, 1e-4)) < 1e-8


@ORDERS
@pytest.mark.parametrize("seed", range(5))
def test_unforced_steps_are_symplectic(seed: int, order: int) -> None:
    model = random_model(seed, size=2 + 3 * seed, elements=False)
    model = da.Model(model.frames, [*model.elements, da.LinearSpring("b0", "anchor", 2.0, 0.5)])
    vi = da.MidpointVI(model, 0.02, order=order)
    rng = np.random.default_rng(seed)
    state = vi.state(q=rng.uniform(-1, 1, model.nq), v=rng.uniform(-1, 1, model.nq))
    A, _ = vi.linearize(state)
    nd, nq = model.nd, model.nq
    keep = [*range(nd), *range(nq, nq + nd)]
    J = np.block([[np.zeros((nd, nd)), np.eye(nd)], [-np.eye(nd), np.zeros((nd, nd))]])
    S = A[np.ix_(keep, keep)]
    assert np.abs(S.T @ J @ S - J).max() < 1e-10 * max(1.0, float(np.abs(S).max()) ** 2)


@ORDERS
def test_conditions_of_composed_steps(order: int) -> None:
    model = models.crane()
    q = {"x_r": 0.0, "r": 1.0, "x": np.sin(0.4), "y": -np.cos(0.4)}
    two, more = (vi.condition(vi.state(q=q)) for vi in (da.MidpointVI(model, 0.05, order=n) for n in (2, order)))
    assert more.step == pytest.approx(two.step, rel=0.1)
    assert (more.mass, more.constraints) == (two.mass, two.constraints)


# ---- what it is good for: a cart-pole at a long step


def continuous(model: da.Model, x: np.ndarray, u: np.ndarray, dt: float) -> np.ndarray:
    """(q, p) after dt with the input held, to 1e-10."""
    q, p = x[: model.nq], x[model.nq :]
    v = np.linalg.solve(da.mass_matrix(model, q), p)
    end = da.simulate_continuous(model, q, v, [0.0, dt], u=u, rtol=1e-12, atol=1e-13)
    return np.concatenate([end.q[-1], end.p[-1]])


def regulated(order: int, dt: float = 0.1, steps: int = 40) -> tuple[da.System, da.Feedback, np.ndarray]:
    """The cart-pole held upright while it is pushed about; a regulator along that motion, and a start beside it."""
    system = da.System(da.MidpointVI(models.cart_pole(), dt, order=order), steps=steps)
    top = np.array([0.0, np.pi, 0.0, 0.0])
    gain = da.lqr_infinite(*system.linearize(top, [0.0]), Q=1.0, R=0.1).K
    hold = da.Feedback.at_point(top, [0.0], gain)
    start = np.array([0.3, np.pi - 0.3, 0.0, 0.0])
    pushed = [start]
    U = np.empty((steps, 1))
    for k in range(steps):
        U[k] = hold.input(0, pushed[-1]) + 2 * np.sin(3 * system.t[k])
        pushed.append(system.f(pushed[-1], U[k], k))
    law = da.lqr(system, (np.array(pushed), U), Q=1.0, R=0.1)
    return system, law, start + np.array([0.1, 0.15, 0.1, -0.1])


def test_the_closed_loop_is_as_predicted() -> None:
    """LQR and EKF around a motion at dt = 0.1: with order 4 what they predict is at least ten times nearer to what the mechanism does."""
    missed, estimated = {}, {}
    for order in (2, 4):
        system, law, start = regulated(order)
        predicted = system.simulate(start, law)
        truth = [start]
        for k in range(system.steps):
            truth.append(continuous(system.model, truth[-1], law.input(k, truth[-1]), 0.1))
        true = np.array(truth)
        missed[order] = np.abs(predicted - true).max()
        # the filter sees the true positions, without noise: what is left are the errors of its map
        U = np.array([law.input(k, true[k]) for k in range(system.steps)])
        ekf = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-4, R=1e-4)
        run = ekf.run(ekf.start(start, 1e-6), U, true[:, :2])
        estimated[order] = np.abs(run.mean - true).max()
    assert missed[4] < 1e-3
    assert missed[2] > 10 * missed[4], missed
    assert estimated[2] > 10 * estimated[4], estimated


@pytest.mark.parametrize(
    ("model", "dt", "steps"),
    [(models.pendulum(), 0.1, 30), (models.cart_pole(), 0.05, 80)],
    ids=["pendulum", "cart-pole"],
)
def test_a_swing_up_is_as_planned(model: da.Model, dt: float, steps: int) -> None:
    """Planned at a long step and replayed at order 6 with a tenth of it: at least ten times nearer with order 4 than with order 2."""
    n = model.nd
    weights = {"theta": 1000.0, "p.theta": 100.0} if n == 1 else {"theta": 200.0, "*": 20.0}
    goal = da.TrackingCost({"theta": np.pi}, Q={"*": 0.01}, R=1.0 if n == 1 else 0.05, Qf=weights)
    missed = {}
    for order in (2, 4):
        system = da.System(da.MidpointVI(model, dt, order=order), steps=steps)
        U = (0.0 if n == 1 else 0.5) * np.sin(2.5 * system.t[:-1])[:, None]
        plan = da.optimize(system, goal, (system.simulate(np.zeros(2 * n), U), U))
        assert plan.converged
        assert abs(plan.X[-1, n - 1] - np.pi) < 0.3
        fine = da.System(da.MidpointVI(model, dt / 10, order=6), steps=10 * steps)
        replayed = fine.simulate(plan.X[0], np.repeat(plan.U, 10, axis=0))[::10]
        missed[order] = np.abs(replayed - plan.X).max()
    assert missed[2] > 10 * missed[4], missed
