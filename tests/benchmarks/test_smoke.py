"""Every scenario of the benchmarks runs with tiny sizes for what is installed, and the mechanisms are the same everywhere."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import models

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import machines, report, scenarios  # noqa: E402

MODULES = {"mujoco": "mujoco", "casadi": "casadi", "bullet": "pybullet", "filterpy": "filterpy"}
# the tools that compile, or take long to import, are tried only by `python -m benchmarks --quick`
INSTALLED = ["dalembert", *(t for t, m in MODULES.items() if importlib.util.find_spec(m) is not None)]


def test_every_scenario_runs(tmp_path):
    """One command, and a table comes out with rows of every scenario, none of them failed for dalembert."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--tools", *INSTALLED, "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert {r["scenario"].split()[0] for r in results["rows"]} == {str(i) for i in range(1, 13)}
    own = [r for r in results["rows"] if r["tool"] == "dalembert"]
    assert not [r for r in own if "failure" in r]
    assert all(np.isfinite(r["median"]) for r in own)
    assert len(results["claims"]) > 5
    text = (tmp_path / "results.md").read_text()
    assert "## Must show" in text
    assert (tmp_path / "work_precision.png").stat().st_size > 10_000


def test_machines_are_the_models_of_the_library():
    """The description shared by all tools gives the mass matrix and energy of the ready-made models."""
    for n in (1, 3):
        ours, theirs = machines.to_dalembert(machines.n_link(n)), models.n_link(n, inertia=0.1)
        q = np.linspace(0.2, 0.9, n)
        np.testing.assert_allclose(da.mass_matrix(ours, q), da.mass_matrix(theirs, q), atol=1e-12)
        assert da.potential_energy(ours, q) == pytest.approx(da.potential_energy(theirs, q))
    lift = machines.scissor(5)
    model = machines.to_dalembert(lift)
    q = np.empty(lift.n)
    q[machines.from_model_order(lift, model)] = lift.q0
    assert np.abs(da.constraints(model, q)).max() < 1e-12
    np.testing.assert_allclose(sorted(q), sorted(models.scissor_lift_configuration(np.pi / 20)), atol=1e-12)


def test_exact_lift_is_what_the_integrator_converges_to():
    """Second order towards the one-degree-of-freedom solution."""
    lift = machines.scissor(3)
    model = machines.to_dalembert(lift)
    order = machines.from_model_order(lift, model)
    q0 = np.empty(lift.n)
    q0[order] = lift.q0
    errors = []
    for dt in (0.01, 0.005):
        vi = da.MidpointVI(model, dt)
        motion = vi.simulate(vi.state(q=q0), time=2.0)
        exact = machines.scissor_exact(3, motion.t)
        errors.append(np.abs(machines.scissor_angle(3, motion.q[:, order]) - exact).max())
    assert errors[0] < 5e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


@pytest.mark.skipif("mujoco" not in INSTALLED, reason="needs mujoco")
@pytest.mark.parametrize(("machine", "size"), [("n_link", 3), ("tree", 1)])
def test_mujoco_has_the_same_dynamics(machine, size):
    import mujoco

    m = getattr(machines, machine)(size)
    model = mujoco.MjModel.from_xml_string(machines.to_mjcf(m, 0.01, "Euler"))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = m.q0, np.linspace(-1, 1, m.n)
    mujoco.mj_forward(model, data)
    ours = machines.to_dalembert(m)
    order = machines.from_model_order(m, ours)
    q, v = np.empty(m.n), np.empty(m.n)
    q[order], v[order] = m.q0, np.linspace(-1, 1, m.n)
    ddq = da.acceleration(ours, q, v).ddq
    np.testing.assert_allclose(ddq[order], data.qacc, rtol=1e-7, atol=1e-7)


def test_time_to_an_error():
    points = [(1e-1, 1.0), (1e-3, 100.0)]
    assert scenarios._time_to(points, 1e-2) == (pytest.approx(10.0), True)
    assert scenarios._time_to(points, 1e-4) == (100.0, False)
    assert scenarios._time_to(points, 1.0) == (1.0, True)
    assert scenarios._error_at(points, 10.0) == pytest.approx(1e-2)


def test_the_table_says_what_failed():
    results = {
        "machine": "m", "python": "3", "load_average": {"before": 0.0, "after": 0.0}, "versions": {"dalembert": "1"},
        "absent": {"drake": "not installed"},
        "claims": [{"claim": "c", "value": 0.5, "target": ">= 1 x", "unit": "x", "passed": False, "shown": True, "note": ""}],
        "rows": [
            {"scenario": "1", "what": "w", "tool": "dalembert", "method": "dalembert", "unit": "s", "median": 1.0, "low": 1.0,
             "high": 1.0, "samples": 3},
            {"scenario": "1", "what": "w", "tool": "x", "method": "x", "unit": "s", "median": 2.0, "recorded": True, "note": "n"},
        ],
    }  # fmt: skip
    text = report.markdown(results)
    assert "**fail**" in text
    assert "Absent: drake (not installed)." in text
    assert "| w | x | 2 s (recorded) |  | 2 | n |" in text
