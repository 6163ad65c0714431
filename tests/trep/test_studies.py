"""The longer studies of the papers as trep scripts: cart-pendulum inversion, regulated and optimized marionette."""

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import discopt, rz, tx, ty

from .systems import marionette, place, read, walk
from .test_reference import Recorder, close, same_history

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
        assert same_history(rows, stage["history"], 1e-7)
        assert close(rows[-1][2], stage["cost"], 1e-8)
    assert close(X[::10], d["X_every_10"], 1e-5)
    assert close(U[::10], d["U_every_10"], 1e-5)


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


def test_optimized_marionette():
    d, arrays = read("marionette_opt.json"), np.load(place("marionette_opt.npz"))
    dsys = discopt.DSystem(trep.MidpointVI(marionette()), arrays["t"])
    Q = np.diag(np.concatenate([np.full(22, 100.0), np.ones(58)]))
    cost = discopt.DCost(arrays["Xd"], arrays["Ud"], Q, 0.1 * np.eye(18))
    optimizer = discopt.DOptimizer(dsys, cost, first_method_iterations=100, monitor=Recorder())
    optimizer.descent_tolerance = 1e-2
    converged, _, _ = optimizer.optimize(arrays["X0"], arrays["U0"])
    assert converged
    assert same_history(optimizer.monitor.rows, d["history"])
