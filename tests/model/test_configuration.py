"""Configurations: nq coordinates and nv velocities are two numbers; a double of a ball joint (4, 3) stands between hinges and sliders."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.integrate.onestep import slopes
from dalembert.model.configuration import KINDS, Chart, Configuration, JointKind
from tests.maps import conjugate, exponential, logarithm, multiply, right_jacobian


def quaternion_slope(q: np.ndarray) -> np.ndarray:
    units = np.broadcast_to(np.eye(4)[1:] / 2, (*q.shape[:-1], 3, 4))
    return np.swapaxes(multiply(np.broadcast_to(q[..., None, :], units.shape), units), -1, -2)


BALL = JointKind(
    coordinates=(".w", ".x", ".y", ".z"),
    velocities=(".wx", ".wy", ".wz"),
    neutral=(1.0, 0.0, 0.0, 0.0),
    random=lambda generator: exponential(generator.uniform(-1.5, 1.5, 3)),
    chart=Chart(
        difference=lambda q0, q1: logarithm(multiply(conjugate(q0), q1)),
        integrate=lambda q, dv: multiply(q, exponential(dv)),
        difference_jacobian=lambda q0, q1: np.linalg.inv(right_jacobian(logarithm(multiply(conjugate(q0), q1)))),
        integrate_jacobian=quaternion_slope,
    ),
)


@pytest.fixture
def mixed() -> Configuration:
    """hinge, ball, slider, ball: 10 coordinates, 8 velocities."""
    kinds = [("a", KINDS["hinge"]), ("hip", BALL), ("x", KINDS["slider"]), ("neck", BALL)]
    return Configuration(kinds)


def test_two_numbers_and_their_names(mixed: Configuration) -> None:
    assert (mixed.nq, mixed.nv, mixed.flat) == (10, 8, False)
    assert mixed.coordinates[:3] == ("a", "hip.w", "hip.x")
    assert mixed.velocities == ("a", "hip.wx", "hip.wy", "hip.wz", "x", "neck.wx", "neck.wy", "neck.wz")
    np.testing.assert_array_equal(mixed.neutral(), [0, 1, 0, 0, 0, 0, 1, 0, 0, 0])


def test_difference_and_integrate_undo_each_other(mixed: Configuration) -> None:
    generator = np.random.default_rng(0)
    q0, q1 = (np.stack([mixed.random(generator) for _ in range(12)]) for _ in range(2))
    dv = generator.uniform(-1, 1, (12, 8))
    np.testing.assert_allclose(mixed.difference(q0, mixed.integrate(q0, dv)), dv, atol=1e-13)
    np.testing.assert_allclose(mixed.difference(mixed.integrate(q0, mixed.difference(q0, q1)), q1), 0, atol=1e-13)
    # plain numbers are subtracted, and each joint minds its own
    way = mixed.difference(q0, q1)
    np.testing.assert_allclose(way[:, [0, 4]], (q1 - q0)[:, [0, 5]], atol=1e-15)
    np.testing.assert_allclose(way[:, 1:4], logarithm(multiply(conjugate(q0[:, 1:5]), q1[:, 1:5])), atol=1e-15)
    # leading axes broadcast, and straight lines are followed
    np.testing.assert_allclose(mixed.difference(q0[0], q1)[3], mixed.difference(q0[0], q1[3]), atol=1e-15)
    twice = mixed.integrate(mixed.integrate(q0, dv / 2), dv / 2)
    np.testing.assert_allclose(mixed.difference(mixed.integrate(q0, dv), twice), 0, atol=1e-13)


def test_jacobians(mixed: Configuration) -> None:
    generator = np.random.default_rng(1)
    q0, q1 = (np.stack([mixed.random(generator) for _ in range(5)]) for _ in range(2))
    by_differences = slopes(lambda d: mixed.difference(q0, mixed.integrate(q1, d)), 8, (5,))
    np.testing.assert_allclose(mixed.difference_jacobian(q0, q1), by_differences, atol=1e-9)
    by_differences = slopes(lambda d: mixed.integrate(q1, d), 8, (5,))
    found = mixed.integrate_jacobian(q1)
    assert found is not None
    assert found.shape == (5, 10, 8)
    np.testing.assert_allclose(found, by_differences, atol=1e-10)


def test_the_state_of_an_integrator_follows_its_configuration(mixed: Configuration, monkeypatch) -> None:
    """The tangent space of x = (q, p, v_rho) with a configuration of more coordinates than velocities; no step is taken."""
    model = da.models.n_link(10)
    names = mixed.coordinates
    monkeypatch.setattr(model, "_configuration", mixed)
    monkeypatch.setattr(type(model), "nd", property(lambda self: 8))
    vi = da.MidpointVI.__new__(da.MidpointVI)
    vi.model, vi.dt = model, 0.1
    assert (len(names), vi.nx, vi.ndx) == (10, 18, 16)
    assert vi.dx_names[:2] == ("a", "hip.wx")
    assert vi.dx_names[8:10] == ("p.a", "p.hip.wx")
    generator = np.random.default_rng(2)
    x0, x1 = (np.concatenate([mixed.random(generator), generator.normal(size=8)]) for _ in range(2))
    dx = vi.difference(x0, x1)
    assert dx.shape == (16,)
    np.testing.assert_allclose(dx[8:], x1[10:] - x0[10:], atol=1e-15)
    np.testing.assert_allclose(vi.difference(vi.retract(x0, dx), x1), 0, atol=1e-13)
    J, T = vi.difference_jacobian(x0, x1), vi.retract_jacobian(x0)
    assert J is not None
    assert T is not None
    np.testing.assert_allclose(J, slopes(lambda d: vi.difference(x0, vi.retract(x1, d)), 16), atol=1e-9)
    np.testing.assert_allclose(T, slopes(lambda d: vi.retract(x0, d), 16), atol=1e-10)
    np.testing.assert_array_equal(vi.neutral()[:10], mixed.neutral())


@pytest.mark.parametrize("name", ["cart_pole", "crane", "n_link"])
def test_hinges_and_sliders_are_plain_numbers(name: str) -> None:
    model = {"cart_pole": models.cart_pole, "crane": models.crane, "n_link": lambda: models.n_link(3)}[name]()
    assert model.nv == model.nq == model.nd + model.nkv
    assert model.velocities == model.variables
    q = model.random(seed=3)
    np.testing.assert_array_equal(q, model.random(seed=3))
    assert model.configuration.difference_jacobian(q, q) is None
    np.testing.assert_allclose(model.integrate(q, model.difference(q, model.neutral())), model.neutral(), atol=1e-15)
    many = np.tile(q, (4, 2, 1))
    assert model.difference(q, many).shape == (4, 2, model.nv)
    for call, words in (
        (lambda: model.difference(q[:-1], q), "q0 has shape"),
        (lambda: model.integrate(q, np.zeros(model.nv + 1)), "dv has shape"),
        (lambda: model.integrate(["a"] * model.nq, q), "real numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
