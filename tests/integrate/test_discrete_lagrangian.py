"""Ld, F-, F+ and M: the papers' numbers, differences, and the equations of the step that they must satisfy."""

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from tests.random_models import random_model


def differences(f, x, step=1e-6):
    return np.stack([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))], axis=-1)


def test_numbers_of_the_papers():
    """Structured linearization, section IV-A; Trajectory optimization, section 3.4."""
    vi = da.MidpointVI(models.pendulum(), 0.1, forcing="left")
    after = vi.step(vi.state(q=[0.2], p=[0.5]), u=[0.8])
    d = vi.discrete_lagrangian([0.2], after.q, [0.8])
    assert d.D1D1[0, 0] == pytest.approx(9.7610974193, abs=5e-11)
    assert d.D2D1[0, 0] == pytest.approx(-10.2389025807, abs=5e-11)
    assert d.D1D2[0, 0] == d.D2D1[0, 0]
    assert d.D2D2[0, 0] == d.D1D1[0, 0]
    assert (d.D1F_minus, d.D2F_minus, d.D3F_minus[0, 0]) == (0, 0, 0.1)
    assert (d.F_minus[0], d.F_plus[0]) == pytest.approx((0.08, 0.0))
    assert 1 / d.M[0, 0] == pytest.approx(-0.0976667169, abs=5e-11)
    assert 0.5 + d.D1 + d.F_minus == pytest.approx(0.0, abs=1e-14)
    assert d.D2[0] == pytest.approx(0.362723883111, abs=5e-13)


@pytest.mark.parametrize("forcing", ["split", "left"])
@pytest.mark.parametrize("alpha", [0.5, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_derivatives_against_differences(seed, alpha, forcing):
    model = random_model(seed)
    rng = np.random.default_rng(seed)
    vi = da.MidpointVI(model, 0.07, alpha=alpha, forcing=forcing)
    x = rng.normal(size=model.nq)
    y, u = x + 0.05 * rng.normal(size=model.nq), rng.normal(size=model.nu)
    d = vi.discrete_lagrangian(x, y, u)

    def near(found, wanted):
        np.testing.assert_allclose(found, wanted, atol=2e-7 * max(1.0, np.abs(wanted).max(initial=0.0)), rtol=0)

    near(d.D1, differences(lambda x: vi.discrete_lagrangian(x, y, u).value, x))
    near(d.D2, differences(lambda y: vi.discrete_lagrangian(x, y, u).value, y))
    for part in ("", "2"):
        first = f"D{part or 1}"
        near(getattr(d, f"D1{first}"), differences(lambda x, f=first: getattr(vi.discrete_lagrangian(x, y, u), f), x))
        near(getattr(d, f"D2{first}"), differences(lambda y, f=first: getattr(vi.discrete_lagrangian(x, y, u), f), y))
    for side in ("F_minus", "F_plus"):
        near(getattr(d, f"D1{side}"), differences(lambda x, f=side: getattr(vi.discrete_lagrangian(x, y, u), f), x))
        near(getattr(d, f"D2{side}"), differences(lambda y, f=side: getattr(vi.discrete_lagrangian(x, y, u), f), y))
        if model.nu:
            near(getattr(d, f"D3{side}"), differences(lambda u, f=side: getattr(vi.discrete_lagrangian(x, y, u), f), u))


def test_the_step_satisfies_its_equations_and_the_papers_formulas_give_its_linearization():
    """Eqs 28 with multipliers and prescribed strings; eqs 10 to 15 without."""
    vi = da.MidpointVI(models.crane(), 0.05)
    state = vi.state(q=[0.1, -0.99498743710662, 0.0, 1.0], v=[0.3, 0.0301511344577764, 0.0, 0.0])
    after = vi.step(state, kinematic=[0.02, 1.01])
    d = vi.discrete_lagrangian(state.q, after.q)
    C = da.constraint_jacobian(vi.model, state.q)[:, :2]
    np.testing.assert_allclose(state.p + d.D1[:2] + d.F_minus - C.T @ after.lam, 0, atol=1e-13)
    np.testing.assert_allclose(d.D2[:2] + d.F_plus, after.p, atol=1e-13)

    vi = da.MidpointVI(models.cart_pole(), 0.05, forcing="left")
    x, u = np.array([0.1, 0.7, 0.3, -0.2]), np.array([1.5])
    y = vi.f(x, u)
    d = vi.discrete_lagrangian(x[:2], y[:2], u)
    W = np.linalg.inv(d.M)
    q_q, q_p, q_u = -W @ (d.D1D1 + d.D1F_minus), -W, -W @ d.D3F_minus
    right = d.D2D2 + d.D2F_plus
    A = np.block([[q_q, q_p], [right @ q_q + d.D1D2 + d.D1F_plus, right @ q_p]])
    B = np.vstack([q_u, right @ q_u + d.D3F_plus])
    for ours, core in zip((A, B), vi.linearize(x, u), strict=True):
        np.testing.assert_allclose(ours, core, atol=1e-11)


def test_friendly_errors():
    vi = da.MidpointVI(models.cart_pole(), 0.05, order=4)
    with pytest.raises(ValueError, match="a step of order 4 is none"):
        vi.discrete_lagrangian([0, 0], [0, 0])
    vi = da.MidpointVI(models.cart_pole(), [0.1, 0.2])
    with pytest.raises(ValueError, match="pass dt="):
        vi.discrete_lagrangian([0, 0], [0, 0])
    assert vi.discrete_lagrangian([0, 0], {"x": 0.1, "theta": 0}, dt=0.1).value > 0
    with pytest.raises(ValueError, match="q1"):
        vi.discrete_lagrangian([0, 0], [0.0], dt=0.1)
