"""Trajectories measured with another implementation (forcing "left", alpha 1/2), multipliers included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dalembert as da

DATA = Path(__file__).parent.parent / "reference"


def read(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def test_pendulum_of_structured_linearization() -> None:
    model = da.Model(
        [da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")]
    )
    vi = da.MidpointVI(model, 0.1, forcing="left")
    after = vi.step(vi.state(q=[0.2], p=[0.5]), u=[0.8])
    assert after.q[0] == pytest.approx(0.247136194156, abs=1e-12)
    assert after.p[0] == pytest.approx(0.362723883111, abs=1e-12)


def test_closed_chain() -> None:
    ref = read("trajectories")["closed_chain"]
    model = da.models.load("closed_chain")
    vi = da.MidpointVI(model, 0.01, forcing="left")
    q0 = np.array(ref["q"][0])
    traj = vi.simulate(vi.state(q0, q0=q0, t=0.01), steps=99)
    np.testing.assert_allclose(traj.q[::10], np.array(ref["q"]), atol=1e-8)
    np.testing.assert_allclose(traj.p[::10], np.array(ref["p"]), atol=1e-8)
    np.testing.assert_allclose(traj.lam[::10], np.array(ref["lam"]), atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 32])
def test_n_link(n: int) -> None:
    ref = read("trajectories")["n_link"][str(n)]
    vi = da.MidpointVI(da.models.n_link(n), 0.01, forcing="left")
    q0 = np.zeros(n)
    q0[0] = np.pi / 4
    traj = vi.simulate(vi.state(q0, q0=q0, t=0.01), steps=100)
    np.testing.assert_allclose(traj.q[100], ref["q"], atol=1e-8)
    np.testing.assert_allclose(traj.p[100], ref["p"], rtol=1e-8, atol=1e-8)


def test_scissor_lift() -> None:
    ref = read("trajectories")["scissor"]
    vi = da.MidpointVI(da.models.scissor_lift(5), 0.01)
    traj = vi.simulate(vi.state(da.models.scissor_lift_configuration(0.05 * np.pi)), steps=1000)
    np.testing.assert_allclose(traj["L00"][::50], ref["theta"], atol=1e-8)
    assert np.abs(traj["L00"][::50] - np.array(ref["exact"])).max() < 0.0037


def test_marionette_with_moving_strings() -> None:
    with np.load(DATA / "marionette_sim.npz") as ref:
        q, p, lam = ref["q"], ref["p"], ref["lam"]
    model = da.models.load("marionette")
    vi = da.MidpointVI(model, 0.01, forcing="left")
    n = len(q) - 1
    traj = vi.simulate(vi.state(q[0], p=p[0], check=False), steps=n, kinematic=q[1:, model.nd :])
    np.testing.assert_allclose(traj.q, q, atol=1e-8)
    np.testing.assert_allclose(traj.p, p, atol=1e-8)
    np.testing.assert_allclose(traj.lam, lam, atol=1e-8)
