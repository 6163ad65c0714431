"""Every door of the core on random mechanisms of all sizes: finite results or typed errors. Made to be run under the sanitizers too."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from tests.random_models import random_model, random_point


def finite(*values: np.ndarray) -> None:
    assert all(np.isfinite(v).all() for v in values)


def reachable(seed: int) -> tuple[da.Model, np.ndarray, np.ndarray, np.ndarray]:
    """The first mechanism from this seed on whose constraints can be satisfied near a random point."""
    for s in range(100 * seed, 100 * seed + 100):
        model = random_model(s, constraints=None if seed % 3 else 0)
        q, v, u = random_point(model, s)
        try:
            return model, da.satisfy_constraints(model, q), v, u
        except da.ConvergenceError:
            continue
    raise AssertionError("no mechanism found")


@pytest.mark.parametrize("seed", range(24))
def test_every_kernel(seed: int) -> None:
    model, q, v, u = reachable(seed)
    finite(
        da.poses(model, np.stack([q, v])),
        da.twists(model, q),
        da.spatial_momentum(model, np.stack([q, q]), np.stack([v, v])),
    )
    finite(*da.lagrangian_second(model, q, v), *da.lagrangian_third(model, q, v, v, q))
    finite(*da.force_second(model, q, v, u, np.ones(model.nd)), da.constraint_hessian(model, q))
    vi = da.MidpointVI(model, 0.002, forcing=("split", "left")[seed % 2], alpha=(0.5, 0.5, 0.3)[seed % 3])
    start = vi.state(q)
    moved = vi.simulate(start, 12, u=u)
    finite(moved.q, moved.p, moved.lam)

    # only some states stored, blocks of several lengths
    for every in (2, 3, 12):
        np.testing.assert_allclose(vi.simulate(start, 12, u=u, every=every).q, moved.q[::every], rtol=1e-8, atol=1e-8)
    # side by side in SIMD lanes, in numbers that do not fill a register, with neighbours that fail
    bad = da.State(0.0, start.q, start.p + 1e6 * (1 + np.abs(start.p)), start.lam)
    for count in (1, 3, 9):
        starts = [start] * (count - 1) + [bad]
        inputs = np.tile(u, (12, 1))
        for keep in (True, False):
            batch = da.rollouts(vi, [*starts, start], 12, u=inputs, threads=2, keep=keep)
            assert batch.completed[-1] == 12
            np.testing.assert_allclose(batch.q[-1, -1], moved.q[-1], rtol=1e-7, atol=1e-7)

    system = da.System(vi, steps=12)
    X, U = system.from_trajectory(moved)
    rng = np.random.default_rng(seed)
    z, K = rng.normal(size=(12, system.nx)), 1e-3 * rng.normal(size=(12, system.nu, system.nx))
    A, B = system.linearize_trajectory(X, U, threads=2)
    finite(A, B, *system.second_order_trajectory(X, U, z, threads=2))
    az, bz = system.adjoint(X[5], U[5], 5, z[5])
    np.testing.assert_allclose(az, A[5].T @ z[5], rtol=1e-6, atol=1e-6 * (1 + np.abs(az).max()))
    np.testing.assert_allclose(bz, B[5].T @ z[5], rtol=1e-6, atol=1e-6 * (1 + np.abs(bz).max(initial=0.0)))
    finite(*system.derivatives(X[3], U[3], 3, with_dt=True).values())
    if model.nq < 15:
        finite(*system.second_derivatives(X[3], U[3], 3).values())
    same, inputs = system.project(X, U, K)
    np.testing.assert_allclose(same, X, rtol=1e-6, atol=1e-6)
    assert vi.condition(start, u).step > 0


@pytest.mark.parametrize("seed", range(6))
def test_continuous_dynamics(seed: int) -> None:
    model = random_model(seed + 900, 7, constraints=0)
    q, v, u = random_point(model, seed)
    a = da.acceleration(model, q, v, u, derivatives=True)
    finite(a.ddq, a.lam, a.ddq_q, a.ddq_v, a.ddq_u, a.ddq_k)  # type: ignore[arg-type]
    finite(*da.acceleration_second(model, q, v, u))
