"""Numbers of the papers and of the reference measurements, through the compiled core."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import models

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "tests" / "reference"


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name):
    return json.loads((REFERENCE / name).read_text())


def test_printed_linearization_of_the_pendulum():
    """Structured linearization, sections IV and V."""
    system, x, u, A, B, second = example("pendulum_linearization").linearize()
    np.testing.assert_allclose(A, [[0.95333434, 0.09766672], [-0.93331323, 0.95333434]], atol=5e-9)
    np.testing.assert_allclose(B, [[0.00976667], [0.09533343]], atol=5e-9)
    assert np.linalg.matrix_rank(da.controllability(A, B)) == 2
    known = read("pendulum.json")
    np.testing.assert_allclose(system.f(x, u, 0), [known["q2"], known["p2"]], rtol=1e-11)
    np.testing.assert_allclose(A, known["A"], rtol=1e-11)
    np.testing.assert_allclose(da.controllability(A, B), known["C"], rtol=1e-10)
    np.testing.assert_allclose(second[0], known["d2q"], rtol=1e-9)
    np.testing.assert_allclose(second[1], known["d2p"], rtol=1e-9)


def test_closed_loop_of_the_swing_up():
    """Structured linearization, section VIII-A, Fig. 4, around the reference's own optimal motion."""
    known = read("pendulum_closed_loop.json")
    X, U = np.array(known["Xopt"]), np.array(known["Uopt"])
    system = da.System(da.MidpointVI(models.pendulum(), dt=0.1, forcing="left"), steps=100)
    law = da.lqr(system, (X, U), Q=1.0, R=1.0)
    np.testing.assert_allclose(law.K, known["K"], rtol=1e-6, atol=1e-8)
    closed, inputs = system.project(X, U, law.K, x0=[1.0, 1.0])
    np.testing.assert_allclose(closed, known["X_closed"], atol=1e-6)
    np.testing.assert_allclose(inputs, known["U_closed"], atol=1e-6)
    assert np.linalg.norm(closed[-1] - X[-1]) < 1e-6
    opened = system.simulate(np.array([1.0, 1.0]), U)
    np.testing.assert_allclose(opened, known["X_open"], atol=1e-5)
    assert abs(opened[-1] - X[-1])[1] == pytest.approx(known["final_error_open"], rel=1e-4)
    # the policy does the same inside a simulation
    vi = da.MidpointVI(models.pendulum(), dt=0.1, forcing="left")
    start = vi.state(q=[1.0], p=[1.0])
    np.testing.assert_allclose(vi.simulate(start, steps=100, u=law).q, closed[:, :1], atol=1e-9)


@pytest.fixture(scope="module")
def marionette():
    return example("marionette_lqr"), *example("marionette_lqr").motion(1000)


def test_marionette_first_order_and_gain(marionette):
    _, system, X, U = marionette
    assert (system.nx, system.nu) == (80, 18)
    known = np.load(REFERENCE / "marionette_linear.npz")
    for k, name in ((0, "0"), (100, "100")):
        A, B = system.linearize(X[k], U[k], k)
        np.testing.assert_allclose(A, known[f"A{name}"], atol=1e-6 * np.abs(A).max())
        np.testing.assert_allclose(B, known[f"B{name}"], atol=1e-6 * np.abs(B).max())
    law = _law(system, X, U)
    np.testing.assert_allclose(law.K[0], known["K0"], atol=1e-6 * np.abs(law.K[0]).max())


def _law(system, X, U):
    Q = da.weights(system, {"*": 1, **dict.fromkeys(system.model.variables, 100)})
    return da.lqr(system, (X, U), Q=Q, R=1.0, reduced=False)


def test_marionette_open_and_closed_loop(marionette):
    """Fig. 6: error norms after 0.1 rad on a torso angle, to 1 %."""
    module, system, X, U = marionette
    known = read("marionette_lqr.json")["perturbation"]
    law = _law(system, X, U)
    nd = system.model.nd
    for angle in ("rx", "ry", "rz"):
        for name, K in (("open", 0 * law.K), ("closed", law.K)):
            Y = module.response(system, X, U, K, f"torso_{angle}")
            error = np.linalg.norm(Y[:, :nd] - X[:, :nd], axis=1)
            assert error[: len(X)].sum() == pytest.approx(known[angle][name]["sum"], rel=0.01)
            np.testing.assert_allclose(error[::10], known[angle][name]["error_every_10"], rtol=0.05, atol=2e-3)


def test_marionette_reduced_state(marionette):
    """On the constraint manifold 12 of 80 states are gone, and the regulator works as well."""
    module, system, X, U = marionette
    on = da.reduce_state(system, (X, U))
    assert on.size == 80 - 2 * 6
    Q = np.concatenate([np.full(40, 100.0), np.ones(40)])
    law = da.lqr(system, (X, U), Q=Q, R=1.0, reduced=True)
    Y = module.response(system, X, U, law.K, "torso_rz")
    error = np.linalg.norm(Y[:, :22] - X[:, :22], axis=1)
    assert error.sum() < 13.5


def test_marionette_has_no_ghosts_on_its_constraint_manifold():
    """Hanging still: 12 of 80 states cannot be moved by any input, all 68 reduced ones can."""
    model, configurations = models.load_with_configurations("marionette")
    q = np.asarray(da.equilibrium(model, configurations["q0"]))
    system = da.System(da.MidpointVI(model, 0.01), steps=2)
    U = np.tile(q[model.nd :], (2, 1))
    X = system.simulate(system.x(q), U)
    np.testing.assert_allclose(X[2, :40], q, atol=1e-9)
    on = da.reduce_state(system, (X, U))
    assert da.controllable_rank(*system.linearize(X[1], U[1], 1)) == on.size == 68
    assert da.uncontrollable_modes(on.A[1], on.B[1]) == ()
    assert np.abs(da.lqr_infinite(on.A[1], on.B[1], 1.0, 1.0).poles).max() < 1
