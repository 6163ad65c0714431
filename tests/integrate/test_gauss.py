"""Gauss steps: their orders, what they keep, exact derivatives, and every room above."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert.models import cart_pole, crane, n_link
from tests.random_models import random_model

ORDERS = (4, 6, 8)


def forced() -> da.Model:
    cart = da.tx("x", da.rz("theta", da.ty(-1.0, mass=1.0)), mass=2.0)
    loads = [da.Gravity((0, -9.8, 0)), da.Damping(0.4), da.ConfigSpring("x", 3.0), da.ConfigForce("x", "push")]
    return da.Model([cart], loads)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["chain", "forced"])
def test_orders(name: str, order: int) -> None:
    model, start, u = (
        (n_link(3), {"q": [1.2, -0.3, 0.4]}, None) if name == "chain" else (forced(), {"q": [0.3, 1.0]}, [1.5])
    )
    fine = da.MidpointVI(model, 0.8 / 640, order=6)
    exact = fine.simulate(fine.state(**start), 640, u=u)[-1]
    steps = {4: (32, 64), 6: (12, 24), 8: (8, 16) if name == "chain" else (6, 16)}[order]
    errors = []
    for n in steps:
        vi = da.GaussVI(model, 0.8 / n, order=order)
        end = vi.simulate(vi.state(**start), n, u=u)[-1]
        errors.append(max(np.abs(end.q - exact.q).max(), np.abs(end.p - exact.p).max()))
    assert np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0]) > order - 0.5


@pytest.mark.parametrize("order", ORDERS)
def test_energy_and_momentum_are_kept(order: int) -> None:
    vi = da.GaussVI(n_link(2), {4: 0.02, 6: 0.05, 8: 0.1}[order], order=order)
    motion = vi.simulate(vi.state(q=[1.0, 0.5]), 20_000, every=20)
    error = np.abs(motion.energy() - motion.energy()[0])
    assert error[-200:].max() < 1.5 * error[:200].max() + 1e-9  # no drift
    free = da.Model(list(n_link(3).frames))  # no gravity: angular momentum about the pivot
    vi = da.GaussVI(free, 0.1, order=order)
    motion = vi.simulate(vi.state(q=[0.3, 0.4, 0.2], v=[1.0, -2.0, 3.0]), 1000)
    L = np.array([da.spatial_momentum(free, q, v)[:3] for q, v in zip(motion.q[::50], motion.v[::50], strict=True)])
    np.testing.assert_allclose(L - L[0], 0, atol=1e-9 * np.abs(L).max())


def test_few_sweeps() -> None:
    """It was a third more without the guess from two steps and Broyden's updates."""
    for order, most in ((4, 7.0), (6, 5.5), (8, 5.5)):
        vi = da.GaussVI(n_link(8), 0.1, order=order)
        motion = vi.simulate(vi.state(q=np.r_[np.pi / 2, np.zeros(7)]), 10, accuracy="ignore")
        assert motion.iterations[0] <= 4  # from the acceleration at the start
        assert motion.iterations.mean() < most
    vi = da.GaussVI(n_link(2), 0.01)
    assert vi.simulate(vi.state(q=[1.0, 0.5]), 200).iterations[10:].max() <= 2


def test_steps_of_changing_length() -> None:
    lengths = np.tile([0.02, 0.02, 0.02, 0.05, 0.01], 8)
    vi, fine = da.GaussVI(n_link(3), lengths, order=8), da.GaussVI(n_link(3), 0.005, order=8)
    start = {"q": [1.0, 0.3, -0.4]}
    motion = vi.simulate(vi.state(**start), 40)
    exact = fine.simulate(fine.state(**start), round(lengths.sum() / 0.005))
    np.testing.assert_allclose(motion.q[-1], exact.q[-1], atol=1e-9)
    np.testing.assert_allclose(motion.p[-1], exact.p[-1], atol=1e-8)


def _differences(vi: da.GaussVI, x: np.ndarray, u: np.ndarray, d: float = 1e-6) -> tuple[np.ndarray, np.ndarray]:
    A = np.stack([(vi.f(x + d * e, u) - vi.f(x - d * e, u)) / (2 * d) for e in np.eye(vi.nx)], 1)
    B = np.stack([(vi.f(x, u + d * e) - vi.f(x, u - d * e)) / (2 * d) for e in np.eye(vi.nu)], 1)
    return A, B


def _case(seed: int) -> tuple[da.Model, np.random.Generator]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return random_model(seed, 1 + seed % 6, constraints=0), np.random.default_rng(seed)


@pytest.mark.parametrize("seed", range(24))
def test_derivatives(seed: int) -> None:
    model, rng = _case(seed)
    vi = da.GaussVI(model, 0.01, order=ORDERS[seed % 3])
    x, u = 0.3 * rng.normal(size=vi.nx), 0.3 * rng.normal(size=vi.nu)
    x[model.nq :] = 0
    u[model.nu :] = x[model.nd : model.nq] + 0.003 * rng.normal(size=model.nk)
    A, B = vi.linearize(x, u)
    An, Bn = _differences(vi, x, u)
    np.testing.assert_allclose(A, An, atol=1e-8 * np.abs(A).max())
    np.testing.assert_allclose(B, Bn, atol=1e-8 * max(1.0, np.abs(B).max()))
    z = rng.normal(size=vi.nx)
    a, b = vi.adjoint(x, u, 0, z)
    np.testing.assert_allclose(a, A.T @ z, atol=1e-11 * np.abs(A).max())
    np.testing.assert_allclose(b, B.T @ z, atol=1e-11 * max(1.0, np.abs(B).max()))
    xx, xu, uu = vi.second_order(x, u, 0, z)
    H, w, n = np.block([[xx, xu], [xu.T, uu]]), np.concatenate([x, u]), vi.nx
    d = 1e-5

    def gradient(w: np.ndarray) -> np.ndarray:
        return np.concatenate(vi.adjoint(w[:n], w[n:], 0, z))

    Hn = np.stack([(gradient(w + d * e) - gradient(w - d * e)) / (2 * d) for e in np.eye(len(w))], 1)
    np.testing.assert_allclose(H, Hn, atol=3e-8 * max(1.0, np.abs(H).max()))


@pytest.mark.parametrize("order", ORDERS)
def test_steps_are_symplectic(order: int) -> None:
    vi = da.GaussVI(n_link(4), 0.1, order=order)
    A, _ = vi.linearize(np.random.default_rng(order).normal(size=8), np.zeros(0))
    J = np.block([[np.zeros((4, 4)), np.eye(4)], [-np.eye(4), np.zeros((4, 4))]])
    np.testing.assert_allclose(A.T @ J @ A, J, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_by_parameters(order: int) -> None:
    m, k, c = da.Parameter("m", 1.3), da.Parameter("k", 2.0), da.Parameter("c", 0.2)
    length = da.Parameter("l", 0.9)
    arm = da.rz("a", da.ty(length, da.rz("b", da.ty(-0.7, name="tip", mass=m)), mass=0.8))
    model = da.Model([arm], [da.Gravity((0, -9.8, 0)), da.ConfigSpring("b", k), da.Damping({"a": c})])
    vi = da.GaussVI(model, 0.05, order=order)
    state = vi.state(q=[0.4, -0.6], v=[1.0, 0.5])
    motion = vi.simulate(state, 10)
    S = da.motion_by_parameters(vi, motion)
    values = {"m": 1.3, "k": 2.0, "c": 0.2, "l": 0.9}
    for i, name in enumerate(model.parameters):
        ends = []
        for step in (1e-6, -1e-6):
            other = vi.with_model(model.with_parameters({name: values[name] + step}))
            end = other.simulate(other.state(q=state.q, p=state.p), 10)
            ends.append(np.concatenate([end.q[-1], end.p[-1]]))
        np.testing.assert_allclose(S[-1, :, i], (ends[0] - ends[1]) / 2e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (crane(), "constraints"),
        (da.Model([da.ball("b", da.tx(1.0, mass=1.0, inertia=(1, 1, 1)))]), "balls"),
        (da.Model([da.tx("x", mass=1.0)], [da.Limit("x", -1.0, 1.0)]), "limits and contacts"),
    ],
)
def test_what_it_cannot_do_is_refused(model: da.Model, what: str) -> None:
    with pytest.raises(da.ModelError, match=f"GaussVI takes no {what}: use MidpointVI"):
        da.GaussVI(model, 0.1)


@pytest.mark.parametrize("order", [2, 3, 10, True, "4", None])
def test_other_orders_are_refused(order: object) -> None:
    with pytest.raises(ValueError, match="order must be 4, 6 or 8"):
        da.GaussVI(n_link(1), 0.1, order=order)  # type: ignore[arg-type]


def test_rooms_above() -> None:
    vi = da.GaussVI(cart_pole(), 0.1, order=6)
    A, B = vi.linearize(vi.state(q={"theta": np.pi}), [0.0])
    gain = da.lqr_infinite(A, B, Q=np.diag([1.0, 10.0, 0.1, 0.1]), R=0.1)
    law = da.Feedback.at_point(vi.state(q={"theta": np.pi}), [0.0], gain.K)
    balanced = vi.simulate(vi.state(q={"theta": np.pi - 0.2}), 200, u=law)
    assert np.abs(balanced.q[-1] - [0.0, np.pi]).max() < 1e-3
    system = da.System(vi, steps=30)
    start = vi.simulate(vi.state(q=[0.0, 0.5]), 30)
    rest = (np.zeros((31, 4)), np.zeros((30, 1)))
    result = da.optimize(system, da.TrackingCost(rest, Q=np.diag([1.0, 1, 0.1, 0.1]), R=0.1), start)
    assert result.converged
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-6, R=1e-4)
    X, U = result.X, result.U
    found = ekf.run(ekf.start(X[0], 0.01), U, X[:, 1:2])
    assert np.abs(found.mean[-1] - X[-1]).max() < 1e-3
    batch = da.rollouts(vi, [vi.state(q=[0.0, 0.1 * i]) for i in range(9)], 20)
    alone = vi.simulate(vi.state(q=[0.0, 0.8]), 20)
    np.testing.assert_allclose(batch.q[8], alone.q, atol=1e-12)
    study = da.monte_carlo(ekf, (X, U), trials=5, P0=1e-4)
    assert np.isfinite(study.error).all()


def test_a_motion_knows_what_made_it(tmp_path) -> None:
    vi = da.GaussVI(n_link(2), 0.05, order=6)
    motion = vi.simulate(vi.state(q=[1.0, 0.5]), 10)
    motion.save(tmp_path / "motion.npz")
    again = da.Trajectory.load(tmp_path / "motion.npz", n_link(2))
    assert again.scheme == motion.scheme == da.integrate.Scheme(6, dt=0.05, stages=3)
    vi = da.GaussVI(cart_pole(), 0.05, order=6)
    motion = vi.simulate(vi.state(q=[0.0, 0.5]), 10)
    composed = da.System(da.MidpointVI(cart_pole(), 0.05, order=6), steps=10)
    with pytest.raises(ValueError, match="Gauss"):
        da.lqr(composed, motion, Q=1.0, R=1.0)
    assert da.lqr(da.System(vi, steps=10), motion, Q=1.0, R=1.0).K.shape == (10, 1, 4)


def test_long_steps_are_told() -> None:
    vi = da.GaussVI(n_link(8), 0.1)
    with pytest.warns(da.AccuracyWarning, match="energy jumps"):
        vi.simulate(vi.state(q=np.full(8, 1.0)), 10)  # chaos: later steps depend on rounding
    with pytest.raises(ValueError, match="adapt"):
        vi.simulate(vi.state(), 2, adapt=1e-3)
    vi = da.GaussVI(n_link(8), 0.01, order=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vi.simulate(vi.state(q=np.full(8, 0.3)), 100)


def test_nothing_that_is_not_finite_comes_out() -> None:
    vi = da.GaussVI(n_link(2), 0.1)
    with pytest.raises((da.ConvergenceError, ValueError)):
        vi.simulate(vi.state(q=[0.1, 0.1], p=[1e200, 0.0]), 10)


def test_it_is_not_exported_as_something_else(tmp_path) -> None:
    with pytest.raises(da.ExportError, match="Gauss"):
        da.export_c(da.GaussVI(cart_pole(), 0.01), tmp_path)
