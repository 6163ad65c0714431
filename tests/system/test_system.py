"""The one-step map: first and second order against high-precision differences, symplecticity, adjoints, known numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from tests.random_models import random_model

DATA = Path(__file__).parent.parent / "reference"


def system_at(
    seed: int, size: int, constraints: int, *, alpha: float = 0.5, forcing: str = "split"
) -> tuple[da.System, np.ndarray, np.ndarray]:
    """A random constrained, forced, driven system with a consistent state and input."""
    for attempt in range(20):
        model = random_model(1000 * seed + attempt, size=size, constraints=constraints)
        rng = np.random.default_rng(seed)
        q = rng.uniform(-0.5, 0.5, model.nq)
        q[[i for i, n in enumerate(model.variables) if n == "length"]] = 1.5
        try:
            q = da.satisfy_constraints(model, q)
            c = da.constraint_jacobian(model, q)[:, : model.nd]
            if model.nc and np.linalg.cond(c) > 1e3:
                continue
            v = da.consistent_velocity(model, q, rng.uniform(-0.5, 0.5, model.nq))
            vi = da.MidpointVI(model, 0.02, alpha=alpha, forcing=forcing)
            system = da.System(vi, steps=2)
            x = system.x(q, v=v, v_rho=rng.uniform(-1, 1, model.nk))
            u = np.r_[rng.uniform(-1, 1, model.nu), q[model.nd :] + 0.01 * rng.uniform(-1, 1, model.nk)]
            system.f(x, u)
        except (da.ConvergenceError, ValueError):
            continue
        return system, x, u
    raise AssertionError("no consistent random system found")


def richardson(f, h: float = 2e-3) -> np.ndarray:
    """Derivative of f(t) at 0, eighth order central differences."""
    c = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    return sum(a * (f(h * (k + 1)) - f(-h * (k + 1))) for k, a in enumerate(c)) / h


def error(f, exact: np.ndarray, steps: tuple[float, ...] = (2e-3, 5e-4, 1e-4)) -> float:
    """Relative distance of the best difference quotient from the exact derivative (no single step suits every system)."""
    return min(float(np.abs(richardson(f, h) - exact).max()) for h in steps) / max(1.0, float(np.abs(exact).max()))


CASES = [
    (s, n, c, a, f)
    for s, (n, c, a, f) in enumerate(
        [
            (3, 0, 0.5, "split"),
            (5, 1, 0.5, "split"),
            (6, 2, 0.5, "left"),
            (8, 2, 0.3, "split"),
            (12, 3, 0.5, "split"),
            (16, 0, 0.5, "left"),
            (9, 1, 1.0, "split"),
            (20, 2, 0.5, "split"),
        ]
    )
]


@pytest.mark.parametrize(("seed", "size", "constraints", "alpha", "forcing"), CASES)
def test_first_order(seed: int, size: int, constraints: int, alpha: float, forcing: str) -> None:
    system, x, u = system_at(seed, size, constraints, alpha=alpha, forcing=forcing)
    A, B = system.linearize(x, u)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        dx, du = rng.normal(size=system.nx), rng.normal(size=system.nu)
        assert error(lambda t: system.f(x + t * dx, u + t * du), A @ dx + B @ du) < 1e-8  # noqa: B023
    z = rng.normal(size=system.nx)
    az, bz = system.adjoint(x, u, 0, z)
    np.testing.assert_allclose(az, A.T @ z, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(bz, B.T @ z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("seed", "size", "constraints", "alpha", "forcing"), CASES)
def test_second_order(seed: int, size: int, constraints: int, alpha: float, forcing: str) -> None:
    system, x, u = system_at(seed, size, constraints, alpha=alpha, forcing=forcing)
    rng = np.random.default_rng(seed)
    z, dx, du = rng.normal(size=system.nx), rng.normal(size=system.nx), rng.normal(size=system.nu)
    xx, xu, uu = system.second_order(x, u, 0, z)

    def gradient(t: float) -> np.ndarray:
        A, B = system.linearize(x + t * dx, u + t * du)
        return np.r_[A.T @ z, B.T @ z]

    assert error(gradient, np.r_[xx @ dx + xu @ du, xu.T @ dx + uu @ du]) < 1e-8
    # the full tensors contract to the same
    m = system.model
    full = system.second_derivatives(x, u)
    contracted = np.tensordot(z[: m.nd], full["q"], 1) + np.tensordot(z[m.nq : m.nq + m.nd], full["p"], 1)
    ns = m.nq + m.nd
    np.testing.assert_allclose(contracted[:ns, :ns], xx[:ns, :ns], rtol=1e-9, atol=1e-9 * np.abs(xx).max())
    np.testing.assert_allclose(contracted[:ns, ns:], xu[:ns], rtol=1e-9, atol=1e-9 * np.abs(xx).max())


@pytest.mark.parametrize(("seed", "size", "constraints"), [(1, 5, 1), (4, 8, 2), (7, 12, 3)])
def test_multipliers_and_time_step(seed: int, size: int, constraints: int) -> None:
    system, x, u = system_at(seed, size, constraints)
    m = system.model
    found = system.derivatives(x, u, with_dt=True)

    def solve(w: np.ndarray, dt: float) -> np.ndarray:
        one = da.System(system.one_step, t=[0.0, dt])
        y = np.r_[w[: m.nq + m.nd], np.zeros(m.nk)]
        q, p, lam = one.one_step.over(one.t).solve(y, w[m.nq + m.nd :], 0)
        return np.r_[q[: m.nd], p, lam]

    w0, dt0 = np.r_[x[: m.nq + m.nd], u], float(system.dt[0])
    rng = np.random.default_rng(seed)
    d = rng.normal(size=len(w0))
    table = np.vstack([found["q"], found["p"], found["lam"]])
    assert error(lambda t: solve(w0 + t * d, dt0), table[:, :-1] @ d) < 1e-8
    assert error(lambda t: solve(w0, dt0 + t), table[:, -1], (1e-3, 1e-4)) < 1e-8
    # second derivatives of the multipliers, along d
    full = system.second_derivatives(x, u)["lam"]

    def slope(t: float) -> np.ndarray:
        w = w0 + t * d
        return system.derivatives(np.r_[w[: m.nq + m.nd], np.zeros(m.nk)], w[m.nq + m.nd :])["lam"]

    assert error(slope, full @ d) < 1e-8


@pytest.mark.parametrize("seed", range(10))
def test_unforced_step_is_symplectic(seed: int) -> None:
    model = random_model(seed, size=2 + 2 * seed, elements=False)
    model = da.Model(model.frames, [*model.elements, da.LinearSpring("b0", "anchor", 2.0, 0.5)])
    vi = da.MidpointVI(model, 0.02)
    rng = np.random.default_rng(seed)
    state = vi.state(q=rng.uniform(-1, 1, model.nq), v=rng.uniform(-1, 1, model.nq))
    A, _ = vi.linearize(state)
    nd, nq = model.nd, model.nq
    keep = [*range(nd), *range(nq, nq + nd)]
    J = np.block([[np.zeros((nd, nd)), np.eye(nd)], [-np.eye(nd), np.zeros((nd, nd))]])
    S = A[np.ix_(keep, keep)]
    scale = np.abs(S).max() ** 2
    assert np.abs(S.T @ J @ S - J).max() < 1e-10 * max(1.0, scale)


def test_printed_numbers_of_the_pendulum() -> None:
    model = da.Model(
        [da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")]
    )
    system = da.System(da.MidpointVI(model, 0.1, forcing="left"), steps=1)
    A, B = system.linearize([0.2, 0.5], [0.8])
    np.testing.assert_allclose(A, [[0.95333434, 0.09766672], [-0.93331323, 0.95333434]], atol=5e-9)
    np.testing.assert_allclose(B.ravel(), [0.00976667, 0.09533343], atol=5e-9)
    ref = json.loads((DATA / "pendulum.json").read_text())
    full = system.second_derivatives([0.2, 0.5], [0.8])
    np.testing.assert_allclose(full["q"][0], ref["d2q"], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(full["p"][0], ref["d2p"], rtol=1e-9, atol=1e-15)
    assert da.controllable_rank(A, B) == 2


def test_marionette_against_reference() -> None:
    ref = np.load(DATA / "marionette_linear.npz")
    sim = np.load(DATA / "marionette_sim.npz")
    model = da.models.load("marionette")
    vi = da.MidpointVI(model, 0.01, forcing="left")
    system = da.System(vi, steps=len(sim["q"]) - 1)
    nd = model.nd
    rate = np.vstack([np.zeros((1, model.nk)), np.diff(sim["q"][:, nd:], axis=0) / 0.01])
    X, U = np.hstack([sim["q"], sim["p"], rate]), sim["q"][1:, nd:]
    for k in (0, 100):
        A, B = system.linearize(X[k], U[k], k)
        assert np.abs(A - ref[f"A{k}"]).max() < 1e-6 * np.abs(A).max()
        assert np.abs(B - ref[f"B{k}"]).max() < 1e-6 * np.abs(B).max()
    xx, xu, uu = system.second_order(X[100], U[100], 100, ref["z"])
    for ours, theirs in ((xx, ref["fxx_z_100"]), (xu, ref["fxu_z_100"]), (uu, ref["fuu_z_100"])):
        assert np.abs(ours - theirs).max() < 1e-6 * np.abs(theirs).max()


def test_trajectory_and_threads_agree() -> None:
    system, x, u = system_at(3, 8, 2)
    long = da.System(system.one_step, steps=40)
    U = np.tile(u, (40, 1))
    X = long.simulate(x, U)
    for one, two in zip(
        long.linearize_trajectory(X, U, threads=1), long.linearize_trajectory(X, U, threads=2), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    A, _ = long.linearize_trajectory(X, U)
    np.testing.assert_allclose(A[7], long.linearize(X[7], U[7], 7)[0], rtol=1e-9, atol=1e-10)
    traj = long.trajectory(X, U)
    back, inputs = long.from_trajectory(traj)
    np.testing.assert_allclose(back[1:], X[1:], atol=1e-12)
    np.testing.assert_array_equal(inputs, U)
    K = np.zeros((40, long.nu, long.nx))
    again, same = long.project(X, U, K)
    np.testing.assert_allclose(again, X, atol=1e-10)
    np.testing.assert_array_equal(same, U)


def test_bad_arguments() -> None:
    system, x, u = system_at(1, 5, 1)
    with pytest.raises(ValueError, match="x has shape"):
        system.f(x[:-1], u)
    with pytest.raises(ValueError, match="not finite"):
        system.f(x, np.full_like(u, np.nan))
    with pytest.raises(ValueError, match="step 7"):
        system.f(x, u, 7)
    with pytest.raises(ValueError):
        da.System(system.one_step)
    with pytest.raises(ValueError):
        da.System(system.one_step, t=[0.0, 0.0])


def test_a_state_is_a_vector_too():
    model = da.Model([da.tx(da.Kinematic("rail"), da.rz("a", da.ty(-1.0, mass=1.0)))], [da.Gravity((0, -9.8, 0))])
    vi = da.MidpointVI(model, dt=0.1)
    state = vi.state({"a": 0.5, "rail": 0.2}, v={"a": 1.0, "rail": 0.3})
    system = da.System(vi, steps=20)
    assert np.asarray(state).tolist() == state.x.tolist() == system.x(state).tolist()
    assert state.x == pytest.approx(system.x({"a": 0.5, "rail": 0.2}, v={"a": 1.0, "rail": 0.3}))
    motion = vi.simulate(state, steps=20, kinematic={"rail": np.sin})
    assert motion.x == pytest.approx(system.curve(motion)[0])
    assert system.f(state, motion.rho[0]) == pytest.approx(motion.x[1])
    with pytest.raises(ValueError, match="a State has its own momentum"):
        system.x(state, v=[1.0, 0.0])
