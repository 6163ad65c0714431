"""Products with A and B without the matrices: `push` (A dx + B du) and `adjoint` (A'z, B'z) against those with A and B."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import models

from ..system.test_system import system_at


def _compare(
    vi: da.MidpointVI, x: np.ndarray, u: np.ndarray, rng: np.random.Generator, tolerance: float = 1e-10
) -> None:
    A, B = vi.linearize(x, u)
    dx, du, z = rng.normal(size=vi.ndx), rng.normal(size=vi.nu), rng.normal(size=vi.ndx)
    size = np.abs(A) @ np.abs(dx) + np.abs(B) @ np.abs(du) + 1e-300  # what is added up
    assert np.abs(vi.push(x, u, 0, dx, du) - (A @ dx + B @ du)).max() <= tolerance * size.max()
    by_x, by_u = vi.adjoint(x, u, 0, z)
    size = max((np.abs(z) @ np.abs(A)).max(), (np.abs(z) @ np.abs(B)).max(initial=0.0))
    assert np.abs(by_x - z @ A).max() <= tolerance * size
    assert np.abs(by_u - z @ B).max(initial=0.0) <= tolerance * size


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_random_mechanisms(seed: int, constraints: int, order: int) -> None:
    """Springs, forces, dampers, prescribed joints, constraints of every kind."""
    system, x, u = system_at(seed, 2 + seed, constraints)
    rng = np.random.default_rng(seed)
    _compare(da.MidpointVI(system.model, 0.02, order=order), x, u, rng)


@pytest.mark.parametrize(("alpha", "forcing"), [(0.3, "split"), (0.5, "left"), (0.7, "left")])
def test_other_quadratures(alpha: float, forcing: str) -> None:
    system, x, u = system_at(3, 5, 1, alpha=alpha, forcing=forcing)
    _compare(system.one_step, x, u, np.random.default_rng(3))


def _chain(n: int, rng: np.random.Generator) -> tuple[da.Model, np.ndarray]:
    m = models.n_link(n)
    return m, np.concatenate([0.1 * rng.normal(size=n), 0.1 * rng.normal(size=n)])


@pytest.mark.parametrize("n", [1, 2, 8, 33, 100])
def test_chains(n: int) -> None:
    rng = np.random.default_rng(n)
    m, x = _chain(n, rng)
    vi = da.MidpointVI(m, dt=0.01)
    # above 40 links A itself loses digits (notes of docs/kernels.md 11)
    _compare(vi, x, np.zeros(vi.nu), rng, 1e-10 if n < 50 else 1e-8)


# the parts of a step of order 4 push the momenta of 20 segments to and fro: A itself has fewer digits there
@pytest.mark.parametrize(("segments", "order"), [(1, 2), (1, 4), (2, 2), (2, 4), (5, 2), (5, 4), (20, 2)])
def test_lifts(segments: int, order: int) -> None:
    rng = np.random.default_rng(segments)
    m = models.scissor_lift(segments=segments)
    vi = da.MidpointVI(m, dt=0.005, order=order)
    x = np.concatenate([models.scissor_lift_configuration(0.6, segments=segments), np.zeros(m.nd + m.nk)])
    u = np.concatenate([np.zeros(m.nu), x[m.nqd : m.nq]])
    for _ in range(3):
        x = vi.f(x, u)
    _compare(vi, x, u, rng, 1e-10 if segments < 20 else 1e-8)


@pytest.mark.parametrize("stages", [2, 3])
def test_gauss_steps(stages: int) -> None:
    rng = np.random.default_rng(stages)
    m, x = _chain(3, rng)
    vi = da.GaussVI(m, 0.01, order=2 * stages)
    _compare(vi, x, np.zeros(vi.nu), rng)


@pytest.mark.parametrize("name", models.names())
def test_packaged_models(name: str) -> None:
    m, at = models.load_with_configurations(name)
    rng = np.random.default_rng(1)
    vi = da.MidpointVI(m, dt=0.005)
    s = vi.state(q=at["q0"])
    x, u = np.concatenate([s.q, s.p, np.zeros(m.nkv)]), np.concatenate([np.zeros(m.nu), s.q[m.nqd :]])
    _compare(vi, x, u, rng)


def test_balls_and_wheels() -> None:
    """Balls and velocity constraints: by the matrices."""
    rng = np.random.default_rng(2)
    for m in (
        models.bicycle(),
        da.Model([da.ball("b", da.tz(-1.0, mass=(1.0, 0.1, 0.2, 0.15)))], [da.Gravity((0, 0, -9.8))]),
    ):
        for order in (2, 4):
            vi = da.MidpointVI(m, dt=0.005, order=order)
            s = vi.state()
            _compare(vi, np.concatenate([s.q, s.p]), np.zeros(vi.nu), rng)


def _odd() -> dict[str, tuple[da.Model, list[float]]]:
    g, hand = da.Gravity((0, 0, -9.8)), {"mass": 0.5, "inertia": (0.1, 0.12, 0.15)}
    link = da.rx("c", da.tz(-1.0, mass=1.0), **hand)
    fold = None
    for i in range(4):  # links without a length
        fold = da.rx(f"a{i}", da.tz(0.0, *([] if fold is None else [fold]), **hand))
    assert fold is not None
    arm = da.rz(
        "a", da.tx(1.0, da.rz("b", da.tx(1.1, da.rz("c", da.tx(0.9, name="tip", mass=0.5)), mass=1.0)), mass=1.0)
    )
    closed = [da.Gravity((0, -9.8, 0)), da.PointToPoint("tip", "world", "xy"), da.ConfigForce("a", "u")]
    same = [da.LinearRelation({"a": 1, "b": -1}), da.LinearRelation({"a": 2, "b": -2}), da.ConfigForce("a", "u")]
    bobs = [da.rx(name, da.tz(-1.0, mass=1.0)) for name in "ab"]
    between = da.rx("a", da.tz(-1.0, da.tx(da.Kinematic("k"), da.ry("c", da.tz(-1.0, mass=1.0), **hand)), mass=1.0))
    still = [da.LinearRelation({"x": 1}), da.LinearRelation({"y": 1})]
    return {
        "one body": (da.Model([da.tx("x", mass=1.0)], []), [0.1]),
        "links without length": (da.Model([fold], [g, da.ConfigForce("a0", "u")]), [0.1, 0.2, 0.3, 0.4]),
        "prescribed in the middle": (da.Model([between], [g, da.ConfigForce("c", "u")]), [0.1, 0.2, 0.3]),
        "prescribed base": (da.Model([da.floating(da.Kinematic("f"), link, **hand)], [g]), []),
        "loop at its own root": (da.Model([arm], closed), [0.3, 2.0, 2.2]),
        "constraint given twice": (da.Model(bobs, [g, *same]), [0.3, 0.3]),
        "nothing is free": (da.Model([da.tx("x", da.ty("y", mass=1.0))], [g, *still]), [0.0, 0.0]),
        "scales far apart": (da.Model([da.tx("x", da.ty("y", mass=1e-9), mass=1e9)], [da.ConfigSpring("y", 1e-6)]), [1.0, 1.0]),
    }  # fmt: skip


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("name", _odd())
def test_odd_mechanisms(name: str, order: int) -> None:
    model, q = _odd()[name]
    rng = np.random.default_rng(3)
    at = da.satisfy_constraints(model, q) if model.nc else np.array(q) if q else model.neutral()
    vi = da.MidpointVI(model, 0.01, order=order)
    v = da.consistent_velocity(model, at, 0.3 * rng.normal(size=model.nv) * (np.arange(model.nv) < model.nd))
    x, u = vi.state(at, v=v).x, np.zeros(vi.nu)
    u[: model.nu] = 1.0
    if vi.nu - model.nu == model.nq - model.nqd:  # a ball is given by its turn, which is zero
        u[model.nu :] = at[model.nqd :]
    _compare(vi, x, u, rng)


def test_overflow_is_said() -> None:
    vi = da.MidpointVI(models.n_link(2), dt=0.01)
    with pytest.raises(ValueError, match="overflow"):
        vi.push(np.zeros(4), np.zeros(0), 0, np.full(4, 1e308), np.zeros(0))


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
