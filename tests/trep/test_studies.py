"""The longer studies of the papers as trep scripts: cart-pendulum inversion, regulated and optimized marionette."""

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import discopt, rz, tx, ty

from .systems import marionette, place, read, walk
from .test_reference import Recorder, close, departure

pytestmark = pytest.mark.slow


def cart_pendulum(torque):
    system = trep.System()
    system.import_frames([tx("x", name="cart", mass=10.0), [rz("theta"), [ty(-1.0, name="bob", mass=1.0)]]])
    trep.potentials.Gravity(system, (0, -9.8, 0))
    trep.forces.Damping(system, 0.01)
    trep.forces.ConfigForce(system, "x", "x-force")
    if torque:
        trep.forces.ConfigForce(system, "theta", "theta-force")
    return system


def test_inversion_in_four_stages():
    """Costs to 1e-9, the result to 4e-11."""
    d = read("cart_pend_inversion.json")
    t = np.arange(0.0, 10.0, 0.01)
    swing = (1 - np.cos(2 * np.pi / 4 * (t - 3.0))) * np.deg2rad(130) / 2
    wanted = np.column_stack([np.zeros_like(t), np.where((t >= 3.0) & (t <= 7.0), swing, 0.0)])
    dsys = discopt.DSystem(trep.MidpointVI(cart_pendulum(True)), t)
    X, U = dsys.build_trajectory()
    Q = np.diag([0.01, 100.0, 0.01, 0.01])
    for stage, torque in zip(d["stages"], (0.01, 100.0, 1e6, None), strict=True):
        if torque is None:
            last = discopt.DSystem(trep.MidpointVI(cart_pendulum(False)), t)
            X, U = last.convert_trajectory(dsys, X, U)
            dsys = last
        Xd, Ud = dsys.build_trajectory(Q=wanted)
        R = np.diag([0.01] if torque is None else [0.01, torque])
        if torque is None:  # the torque is gone: start from the motion under the remaining input
            X, U = dsys.project(X, U, np.zeros((len(U), 1, 4)))
        optimizer = discopt.DOptimizer(dsys, discopt.DCost(Xd, Ud, Q, R), 4, Recorder())
        converged, X, U = optimizer.optimize(X, U, max_steps=40)
        assert converged
        rows = optimizer.monitor.rows
        assert len(rows) - 1 == stage["iterations"]
        assert departure(rows, stage["history"]).max() < 1e-8
        assert close(rows[-1][2], stage["cost"], 1e-10)
    assert close(t[::10], d["t_every_10"], 1e-14)
    assert close(Xd[::10], d["Xd_every_10"], 1e-14)
    assert close(X[::10], d["X_every_10"])
    assert close(U[::10], d["U_every_10"])


@pytest.fixture(scope="module")
def walked():
    puppet = marionette()
    q0 = puppet.q
    mvi = trep.MidpointVI(puppet)
    mvi.initialize_from_configs(0.0, q0, 0.01, q0)
    q, p, v = [mvi.q2], [mvi.p2], [mvi.v2]
    for k in range(1001):
        mvi.step(0.01 * (k + 2), (), walk(puppet, q0[22:], mvi.t1))
        q.append(mvi.q2)
        p.append(mvi.p2)
        v.append(mvi.v2)
    dsys = discopt.DSystem(mvi, 0.01 * np.arange(1, 1003))
    return dsys, *dsys.build_trajectory(q, p, v, rho=np.array(q)[1:, 22:])


def test_regulated_marionette(walked):
    d = read("marionette_lqr.json")
    dsys, X, U = walked
    Q = np.diag(np.concatenate([np.full(40, 100.0), np.ones(40)]))
    K = np.array(dsys.calc_feedback_controller(X, U, lambda k: Q))
    linear = np.load(place("marionette_linear.npz"))
    assert close(K[0], linear["K0"], 1e-9)
    for axis, row in d["perturbation"].items():
        for name, gains in (("open", 0 * K), ("closed", K)):
            bX, bU = X.copy(), U.copy()
            bX[0, dsys.system.get_config(f"torso_{axis}").index] += 0.1
            bU[0] -= gains[0] @ (bX[0] - X[0])
            Y, _ = dsys.project(bX, bU, gains)
            error = np.linalg.norm((Y - X)[:, :22], axis=1)
            assert close(error[:1001:10], row[name]["error_every_10"])
            assert abs(error.sum() - row[name]["sum"]) < 1e-8 * row[name]["sum"]


def test_optimized_marionette(walked):
    d, arrays = read("marionette_opt.json"), np.load(place("marionette_opt.npz"))
    t, Xd, Ud, X0, U0 = (arrays[key] for key in ("t", "Xd", "Ud", "X0", "U0"))
    # the problem: the configurations of the walk are wanted, the puppet hanging still at first with its strings held is the start
    walker, X, _ = walked
    assert close(walker.time, t, 1e-12)
    wanted, inputs = walker.build_trajectory(X[:, :40])
    assert close(wanted, Xd)
    assert close(inputs, Ud)
    dsys = discopt.DSystem(trep.MidpointVI(marionette()), t)
    held = np.tile(dsys.system.q[22:], (len(t) - 1, 1))
    assert close(held, U0, 1e-14)
    start = [dsys.build_state(dsys.system.q)]
    for k in range(len(held)):
        dsys.set(start[-1], held[k], k)
        start.append(dsys.f())
    assert close(start, X0)
    # the solution
    Q = np.diag(np.concatenate([np.full(22, 100.0), np.ones(58)]))
    optimizer = discopt.DOptimizer(dsys, discopt.DCost(Xd, Ud, Q, 0.1 * np.eye(18)), 100, Recorder())
    assert close(optimizer.calc_cost(X0, U0), d["cost_initial"], 1e-14)
    optimizer.descent_tolerance = 1e-2
    converged, X, U = optimizer.optimize(X0, U0)
    assert converged
    assert departure(optimizer.monitor.rows, d["history"]).max() < 1e-8
    assert close(optimizer.calc_cost(X, U), d["cost_final_tol_1e-2"], 1e-10)
    optimizer.descent_tolerance = 1e-6
    converged, X, U = optimizer.optimize(X, U)
    assert converged
    assert close(optimizer.calc_cost(X, U), d["cost_final_tol_1e-6"], 1e-10)
