"""Steps that end at an absolute residual (how trep ends them): the same through every door, and never less robust."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import _core
from tests.random_models import random_model, random_point

from .test_every_kernel import reachable


def options(stop: float = 0.0, h_stop: tuple[float, ...] = (), iterations: int = 40) -> _core.Options:
    return _core.Options(0.5, 1.0, 0.0, 1e-14, 1e-14, iterations, False, stop, h_stop)


@pytest.mark.parametrize("stop", [1e-3, 1e-10, 1e-30])
@pytest.mark.parametrize("seed", range(12))
def test_every_door(seed: int, stop: float) -> None:
    model, q, v, u = reachable(seed)
    core, nd, n = da.mechanics.core(model), model.nd, 10
    p = core.first(q, da.consistent_velocity(model, q, v) if model.nc else v)[1][:nd]
    o, dt = options(stop), np.full(n, 0.002)
    U, rho = np.tile(u, (n, 1)), np.tile(q[nd:], (n, 1))

    # one after the other, from where it is and the multipliers before
    Q, P, lam = [q], [p], np.zeros(model.nc)
    for _ in range(n):
        y, pn, lam, _, status, _ = core.step(o, 0.002, Q[-1], P[-1], u, Q[-1], lam)
        assert status == 0
        h = core.constraints(y[None])[0]
        assert np.abs(h).max(initial=0.0) < max(stop, 1e-12 * (1 + np.abs(y).max()) ** 2)
        # what is left of the momentum balance is not added to p
        lq, lv = core.first(0.5 * (Q[-1] + y), (y - Q[-1]) / 0.002)
        np.testing.assert_allclose(pn, (0.001 * lq + lv)[:nd], rtol=1e-10, atol=1e-10 * (1 + np.abs(lv).max()))
        Q.append(y)
        P.append(pn)
    size = 1 + np.abs(P).max()
    near = {"rtol": 1e-8, "atol": 1e-8 * size}
    for every in (1, 2, 5):
        found = core.simulate(o, q, p, dt, U, rho, every)
        np.testing.assert_allclose(found[0], Q[::every], **near)
        np.testing.assert_allclose(found[1], P[::every], **near)

    # side by side, with other neighbours and without
    starts = p + np.linspace(0, 0.1, 5)[:, None] * np.abs(p)
    for lanes in (False, True):
        batch = core.rollouts(o, np.tile(q, (5, 1)), starts, dt, U, rho, True, True, 1, lanes, True)
        assert set(batch[4]) == {0}
        np.testing.assert_allclose(batch[0][0], Q, **near)
        np.testing.assert_allclose(batch[1][0], P, **near)

    # a step's linearization does not depend on the steps that the same thread did before
    X = np.hstack([Q, P, np.zeros((n + 1, model.nk))])
    inputs = np.hstack([U, rho])
    one, three = (core.linearize_trajectory(o, X, inputs, dt, None, threads) for threads in (1, 3))
    for a, b in zip(one, three, strict=True):
        assert np.array_equal(a, b)


def test_iterations_and_residuals() -> None:
    """An absolute limit, the Euclidean norm: fewer iterations for a larger one; full Newton steps converge quadratically."""
    model = da.models.n_link(3)
    core, q, p = da.mechanics.core(model), np.array([0.5, -0.2, 0.9]), np.array([1.0, 2.0, -1.0])
    done = []
    for stop in (1e1, 1e-2, 1e-6, 1e-12):
        y, _, _, iterations, status, error = core.step(options(stop), 0.05, q, p, np.zeros(0), q, np.zeros(0))
        lq, lv = core.first(0.5 * (q + y), (y - q) / 0.05)
        left = np.linalg.norm(p + 0.025 * lq - lv)
        assert status == 0
        assert left <= stop
        assert abs(error * stop - left) < 1e-14
        done.append(iterations)
    assert done == sorted(done)
    assert done[0] == 0
    assert 2 <= done[-1] <= 6


def test_every_constraint_has_its_own_limit() -> None:
    model = da.Model(
        [da.tx("x", da.ty("y", name="a", mass=1.0)), da.tx("z", da.ty("w", name="b", mass=1.0))],
        [da.Gravity((0, -9.8, 0)), da.Distance("world", "a", 1.0), da.Distance("world", "b", 1.0)],
    )
    core, q = da.mechanics.core(model), np.array([0.6, -0.8, 0.8, -0.6])
    p = np.array([4.0, 3.0, 3.0, 4.0])

    def violation(*limits: float) -> np.ndarray:
        y, _, _, _, status, _ = core.step(options(1e3, limits), 0.1, q, p, np.zeros(0), q + 0.1 * p, np.zeros(2))
        assert status == 0
        return np.abs(core.constraints(y[None])[0][0])

    first, second, both = violation(1e-12, 1e3), violation(1e3, 1e-1), violation(1e-12)
    assert first[0] < 1e-12
    assert second.max() > 1e-12
    assert second[1] < 1e-1
    assert both.max() < 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_steps_that_need_the_fallbacks(seed: int) -> None:
    """Long steps of random mechanisms, few iterations: whatever succeeds without the stop succeeds with it."""
    model = random_model(seed + 400, 4, constraints=0)
    q, v, u = random_point(model, seed)
    core = da.mechanics.core(model)
    p = core.first(q, 3 * v)[1][: model.nd]
    for dt in (0.1, 0.5, 2.0):
        for iterations in (2, 5, 40):
            a, b = (
                core.step(options(stop, iterations=iterations), dt, q, p, u, q, np.zeros(0)) for stop in (0.0, 1e-10)
            )
            assert b[4] == 0 or a[4] != 0
            if a[4] == b[4] == 0:
                assert np.isfinite(b[0]).all()
    n = 20
    U, rho = np.tile(u, (n, 1)), np.tile(q[model.nd :], (n, 1))
    a, b = (core.simulate(options(stop), q, p, np.full(n, 0.1), U, rho, 1) for stop in (0.0, 1e-10))
    assert b[4] >= a[4] or a[5] != 0
