"""Products with A and B without the matrices: `push` (A dx + B du) and `adjoint` (A'z, B'z) against those with A and B."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import models

from ..random_models import random_model, random_point


def _compare(vi: da.MidpointVI, x: np.ndarray, u: np.ndarray, rng: np.random.Generator, tolerance: float = 1e-10) -> None:
    A, B = vi.linearize(x, u)
    dx, du, z = rng.normal(size=vi.ndx), rng.normal(size=vi.nu), rng.normal(size=vi.ndx)
    size = np.abs(A) @ np.abs(dx) + np.abs(B) @ np.abs(du) + 1e-300  # what is added up
    assert np.abs(vi.push(x, u, 0, dx, du) - (A @ dx + B @ du)).max() <= tolerance * size.max()
    by_x, by_u = vi.adjoint(x, u, 0, z)
    size = max((np.abs(z) @ np.abs(A)).max(), (np.abs(z) @ np.abs(B)).max(initial=0.0))
    assert np.abs(by_x - z @ A).max() <= tolerance * size
    assert np.abs(by_u - z @ B).max(initial=0.0) <= tolerance * size


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("seed", range(20))
def test_random_mechanisms(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    m = random_model(seed)
    vi = da.MidpointVI(m, dt=0.005, order=order, accuracy="ignore")
    q, v, u = random_point(m, seed)
    try:
        state = vi.state(q=q, p=0.2 * rng.normal(size=m.nd))
        x = np.concatenate([state.q, state.p, 0.1 * rng.normal(size=m.nk)])
        w = np.concatenate([u, state.q[m.nqd :] + 1e-3 * rng.normal(size=m.nq - m.nqd)])
        vi.f(x, w)
    except da.ConvergenceError:
        pytest.skip("no step from there")
    except ValueError:
        pytest.skip("not a state of this model")
    _compare(vi, x, w, rng)


def _chain(n: int, rng: np.random.Generator) -> tuple[da.Model, np.ndarray]:
    m = models.n_link(n)
    return m, np.concatenate([0.1 * rng.normal(size=n), 0.1 * rng.normal(size=n)])


@pytest.mark.parametrize("n", [1, 2, 8, 33, 100])
def test_chains(n: int) -> None:
    rng = np.random.default_rng(n)
    m, x = _chain(n, rng)
    vi = da.MidpointVI(m, dt=0.01, accuracy="ignore")
    # above 40 links A itself loses digits (notes of docs/kernels.md 11)
    _compare(vi, x, np.zeros(vi.nu), rng, 1e-10 if n < 50 else 1e-8)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("segments", [1, 2, 5, 20])
def test_lifts(segments: int, order: int) -> None:
    rng = np.random.default_rng(segments)
    m = models.scissor_lift(segments=segments)
    vi = da.MidpointVI(m, dt=0.005, order=order, accuracy="ignore")
    x = np.concatenate([models.scissor_lift_configuration(0.6, segments=segments), np.zeros(m.nd + m.nk)])
    u = np.concatenate([np.zeros(m.nu), x[m.nqd : m.nq]])
    for _ in range(3):
        x = vi.f(x, u)
    _compare(vi, x, u, rng, 1e-10 if segments < 20 else 1e-8)


@pytest.mark.parametrize("stages", [2, 3])
def test_gauss_steps(stages: int) -> None:
    rng = np.random.default_rng(stages)
    m, x = _chain(3, rng)
    vi = da.GaussVI(m, dt=0.01, stages=stages)
    _compare(vi, x, np.zeros(vi.nu), rng)


def test_a_model_of_every_kind() -> None:
    for name in ("cart_pole", "crane", "string_puppet", "spherical_pendulum", "free_top", "bicycle"):
        m = getattr(models, name)()
        rng = np.random.default_rng(1)
        vi = da.MidpointVI(m, dt=0.005, accuracy="ignore")
        s = vi.state()
        x = np.concatenate([s.q, s.p, np.zeros(m.nkv)])
        w = np.zeros(vi.nu)
        w[m.nu :] = s.q[m.nqd :] if m.nq - m.nqd == m.nkv else 0.0
        _compare(vi, x, w, rng)


def test_a_map_of_ones_own_has_them_from_a_and_b() -> None:
    class Map(da.OneStepMap):
        nx, nu, dt = 2, 1, 0.1
        x_names, u_names = ("x", "v"), ("f",)

        def f(self, x: np.ndarray, u: np.ndarray, k: int = 0) -> np.ndarray:
            return self.linearize(x, u)[0] @ x + self.linearize(x, u)[1] @ u

        def linearize(self, x: np.ndarray, u: np.ndarray, k: int = 0) -> tuple[np.ndarray, np.ndarray]:
            return np.array([[1.0, 0.1], [-0.1, 1.0]]), np.array([[0.0], [0.1]])

    system = da.System(Map(), steps=3)
    assert np.allclose(system.push([0.0, 0.0], [0.0], 1, [1.0, 0.0], [2.0]), [1.0, 0.1])
