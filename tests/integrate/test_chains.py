"""Long open chains: A, B in O(n^2) and velocities in O(n) against the matrices of the general path."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert import models


def chain(n: int, *, plane: bool) -> da.Model:
    """Joints about three axes (or one) with springs, dampers and two inputs."""
    frame: da.Frame | None = None
    for i in range(n - 1, -1, -1):
        turn = da.ry if plane else (da.rx, da.ry, da.rz)[i % 3]
        below = () if frame is None else (frame,)
        link = da.tz(-0.5, *below, mass=1.0 + 0.01 * i, inertia=(0.1, 0.2, 0.15))
        frame = turn(f"q{i}", da.tx(0.1, link) if not plane else link)
    assert frame is not None
    elements = [
        da.Gravity(),
        da.ConfigSpring("q3", 2.0, 0.1),
        da.Damping({f"q{i}": 0.05 * i for i in range(0, n, 7)}),
        da.ConfigForce("q0", "first"),
        da.ConfigForce(f"q{n - 1}", "last"),
    ]
    return da.Model([frame], elements)


@pytest.mark.parametrize(("n", "plane"), [(41, True), (57, False), (96, False)])
def test_first_order_is_that_of_the_matrices(n: int, plane: bool) -> None:
    rng = np.random.default_rng(n)
    model = chain(n, plane=plane)
    system = da.System(da.MidpointVI(model, 0.002), steps=1)
    x = system.x(q=0.3 * rng.normal(size=n), v=0.2 * rng.normal(size=n))
    u = rng.normal(size=2)
    A, B = system.linearize(x, u)
    full = system.derivatives(x, u)
    dense = np.vstack([full["q"], full["p"]])
    for rows in (slice(0, n), slice(n, 2 * n)):
        for found, columns in (
            (A[rows, :n], slice(0, n)),
            (A[rows, n:], slice(n, 2 * n)),
            (B[rows], slice(2 * n, None)),
        ):
            there = dense[rows, columns]
            np.testing.assert_allclose(found, there, rtol=0, atol=3e-9 * abs(there).max())


def test_first_order_is_as_symplectic_as_that_of_the_matrices() -> None:
    n = 64
    system = da.System(da.MidpointVI(models.n_link(n), 0.001), steps=1)
    x = system.x(q=np.linspace(0.5, 0.1, n), v=np.linspace(0.0, 0.5, n))
    J = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    full = system.derivatives(x, np.zeros(0))
    defects = [
        abs(A.T @ J @ A - J).max() for A in (system.linearize(x, np.zeros(0))[0], np.vstack([full["q"], full["p"]]))
    ]
    assert defects[0] < 5 * defects[1] < 1e-7


@pytest.mark.parametrize("n", [20, 300])
def test_velocity_of_a_momentum(n: int) -> None:
    rng = np.random.default_rng(n)
    vi = da.MidpointVI(models.n_link(n), 0.001)
    v = rng.normal(size=n)
    state = vi.state(q=0.1 * rng.normal(size=n), v=v)
    np.testing.assert_allclose(state.v, v, atol=1e-7 * (n / 20) ** 2)
