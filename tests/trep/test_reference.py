"""The reference numbers, made by scripts of the same calls, through the layer."""

from itertools import pairwise

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import discopt

from .systems import chain3d, closed_chain, links, marionette, pendulum, place, read, scissor, walk


def close(found, wanted, bound=1e-8):
    """Relative to the largest entry, or absolute where numbers are small."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    if wanted.size == 0:
        return found.size == 0
    return found.shape == wanted.shape and np.abs(found - wanted).max() <= bound * max(1.0, np.abs(wanted).max())


# ---- the pendulum of the papers


def test_pendulum_step_and_derivatives():
    d = read("pendulum.json")
    mvi = trep.MidpointVI(pendulum())
    mvi.initialize_from_state(0, [d["setup"]["qk"]], [d["setup"]["pk"]])
    assert mvi.step(d["setup"]["dt"], [d["setup"]["uk"]]) <= 3
    assert close(mvi.q2[0], d["q2_analytic"], 1e-13)
    assert close(mvi.p2[0], d["p2_analytic"], 1e-13)
    for out in ("q2", "p2"):
        for by in ("dq1", "dp1", "du1", "dq1dq1", "dq1dp1", "dq1du1", "dp1dp1", "dp1du1", "du1du1"):
            name = f"{out}_{by}"
            assert close(float(np.ravel(getattr(mvi, name)())[0]), d[name], 1e-11), name
    dsys = discopt.DSystem(mvi, [0, 0.1])
    dsys.set([0.2, 0.5], [0.8], 0)
    assert close(dsys.fdx(), d["A"])
    assert close(dsys.fdu(), d["B"])
    z = np.array([1.0, 0.0])
    hessian = np.block([[dsys.fdxdx(z), dsys.fdxdu(z)], [dsys.fdxdu(z).T, dsys.fdudu(z)]])
    assert close(hessian, d["d2q"], 1e-10)
    assert max(dsys.check_fdx([0.2, 0.5], [0.8], 0)[0], dsys.check_fdu([0.2, 0.5], [0.8], 0)[0]) < 1e-8
    assert max(f([0.2, 0.5], [0.8], 0)[0] for f in (dsys.check_fdxdx, dsys.check_fdxdu, dsys.check_fdudu)) < 1e-7


def test_closed_loop_pendulum():
    d = read("pendulum_closed_loop.json")
    X, U = np.array(d["Xopt"]), np.array(d["Uopt"])
    dsys = discopt.DSystem(trep.MidpointVI(pendulum()), 0.1 * np.arange(101))
    opened, _ = dsys.project(np.vstack([[[1.0, 1.0]], X[1:]]), U, np.zeros((100, 1, 2)))
    assert close(opened, d["X_open"], 1e-7)
    # the projection starts at its curve: the first input holds the feedback on the first error
    start, first, K = X.copy(), U.copy(), np.array(d["K"])
    start[0] = 1.0
    first[0] -= K[0] @ (start[0] - X[0])
    closed, inputs = dsys.project(start, first, K)
    assert close(closed, d["X_closed"], 1e-7)
    assert close(inputs, d["U_closed"], 1e-7)


# ---- simulations


def test_closed_chain():
    d = read("closed_chain.json")
    system = closed_chain()
    assert [q.name for q in system.configs] == d["q_names"]
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_configs(0.0, d["q0"], 0.01, d["q0"])
    q, p, lam = [mvi.q2], [mvi.p2], []
    for k in range(100):
        mvi.step(0.01 * (k + 2))
        q.append(mvi.q2)
        p.append(mvi.p2)
        lam.append(mvi.lambda1)
        assert np.abs(mvi.calc_f()).max() < 1e-10
    assert close(q, d["q_first_101"])
    assert close(p, d["p_first_101"])
    assert close(lam, d["lambda_first_100"])


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_links(n):
    d = read("nlink.json")[str(n)]
    mvi = trep.MidpointVI(links(n))
    q0 = np.zeros(n)
    q0[0] = np.pi / 4
    mvi.initialize_from_configs(0.0, q0, 0.01, q0)
    q, p = [mvi.q2], [mvi.p2]
    for k in range(100):
        mvi.step(0.01 * (k + 2))
        if k % 10 == 9:
            q.append(mvi.q2)
            p.append(mvi.p2)
    assert close(q, d["q_first100"])
    assert close(p, d["p_first100"])


def test_scissor_lift():
    d = read("scissor.json")
    system = scissor(d["segments"])
    assert [q.name for q in system.configs] == d["config_names"]
    system.q = d["q0"]
    assert max(abs(c.h()) for c in system.constraints) < 1e-12
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_state(0.0, d["q0"], np.zeros(11))
    theta = [mvi.q2[1]]
    for k in range(300):
        mvi.step(0.01 * (k + 1))
        theta.append(mvi.q2[1])
    assert close(theta, d["theta"][:301])


@pytest.fixture(scope="module")
def walking():
    """The marionette's walk through the layer: system, integrator, X, U, multipliers."""
    puppet = marionette()
    q0 = puppet.q
    mvi = trep.MidpointVI(puppet)
    mvi.initialize_from_configs(0.0, q0, 0.01, q0)
    q, p, v, lam = [mvi.q2], [mvi.p2], [mvi.v2], []
    for k in range(201):
        mvi.step(0.01 * (k + 2), (), walk(puppet, q0[22:], mvi.t1))
        q.append(mvi.q2)
        p.append(mvi.p2)
        v.append(mvi.v2)
        lam.append(mvi.lambda1)
    return puppet, mvi, np.array(q), np.array(p), np.array(v), np.array(lam)


def test_marionette_is_the_reference_model():
    d = read("marionette_model.json")
    puppet = marionette()
    assert [(q.name, q.index, q.k_index, q.kinematic) for q in puppet.configs] == [
        (q["name"], q["index"], q["k_index"], q["kinematic"]) for q in d["configs"]
    ]
    assert np.abs(puppet.q - d["q0"]).max() < 1e-15
    for frame, row in zip(puppet.frames, d["frames"], strict=True):
        assert (frame.name, frame.transform_type) == (row["name"], row["transform"])
        assert [frame.mass, frame.Ixx, frame.Iyy, frame.Izz] == [row[k] for k in ("mass", "Ixx", "Iyy", "Izz")]
        assert frame.parent is None or puppet.frames.index(frame.parent) == row["parent"]
        assert "config" not in row or frame.config.name == row["config"]
        assert np.abs(frame.g() - row["g_at_q0"]).max() < 1e-14
    for constraint, row in zip(puppet.constraints, d["constraints"], strict=True):
        names = (constraint.name, constraint.frame1.name, constraint.frame2.name, constraint.config.name)
        assert names == (row["name"], row["frame1"], row["frame2"], row["length_config"])
        assert abs(constraint.get_actual_distance() - row["distance_at_q0"]) < 1e-14


def test_marionette_simulation(walking):
    d = np.load(place("marionette_sim.npz"))
    _, _, q, p, v, lam = walking
    for found, key in ((q, "q"), (p, "p"), (v, "v"), (lam, "lam")):
        assert close(found, d[key]), key


def test_marionette_linearization(walking):
    d = np.load(place("marionette_linear.npz"))
    _, mvi, q, p, v, _ = walking
    dsys = discopt.DSystem(mvi, 0.01 * np.arange(1, 203))
    X, U = dsys.build_trajectory(q, p, v, rho=q[1:, 22:])
    A, B = dsys.linearize_trajectory(X, U)
    for k in (0, 100):
        dsys.set(X[k], U[k], k)
        assert close(dsys.f(), X[k + 1], 1e-12)
        assert close(dsys.fdx(), d[f"A{k}"])
        assert close(dsys.fdu(), d[f"B{k}"])
        assert close(A[k], dsys.fdx(), 1e-11)
        assert close(B[k], dsys.fdu(), 1e-11)
    assert close(dsys.fdxdx(d["z"]), d["fxx_z_100"])
    assert close(dsys.fdxdu(d["z"]), d["fxu_z_100"])
    assert close(dsys.fdudu(d["z"]), d["fuu_z_100"])
    assert close(mvi.lambda1, d["lam_100"])
    for name, key in (("lambda1_dq1", "lam_dq_100"), ("lambda1_dp1", "lam_dp_100"), ("lambda1_dk2", "lam_drho_100")):
        assert close(getattr(mvi, name)(), d[key]), name
    # full tensors agree with the contracted ones, and single entries with the tensors
    full = np.einsum("ijo,o->ij", mvi.q2_dq1dk2(), d["z"][:22]) + np.einsum("ijo,o->ij", mvi.p2_dq1dk2(), d["z"][40:62])
    assert close(full, d["fxu_z_100"][:40])
    system = mvi.system
    i, k, out = system.configs[30], system.kin_configs[3], system.configs[5]
    assert mvi.p2_dq1dk2(out, i, k) == mvi.p2_dq1dk2()[30, 3, 5] == mvi.p2_dq1dk2(k2=k.name)[30, 5]


# ---- the Lagrangian and continuous dynamics at random states


def random_state(name):
    d = read("lagrangian.json")[name]
    if name.startswith("pccd"):
        system = closed_chain()
    elif name.startswith("puppet"):
        system = marionette()
    else:
        system = links(8)
        trep.forces.Damping(system, 0.3)
        trep.forces.ConfigForce(system, "link-0", "first")
        trep.forces.ConfigForce(system, "link-3", "second")
    assert [q.name for q in system.configs] == d["q_names"]
    system.set_state(d["q"], d["dq"], d.get("u"), d["ddqk"] or None)
    return system, d


@pytest.mark.parametrize("name", ["pccd_listing1_random", "pendulum8_random", "puppet_random"])
def test_lagrangian(name):
    system, d = random_state(name)
    c = system.configs
    triples, quads, outs = ([[c[i] for i in row] for row in d[k]] for k in ("triples", "quads", "f2_triples_out_i_j"))
    assert close(system.L(), d["L"])
    for key in ("L_dq", "L_ddq"):
        assert close([getattr(system, key)(q) for q in c], d[key]), key
        assert close(getattr(system, key)(), d[key]), key
    for key in ("L_dqdq", "L_ddqdq", "L_ddqddq"):
        assert close([[getattr(system, key)(a, b) for b in c] for a in c], d[key]), key
    for key in ("L_dqdqdq", "L_ddqdqdq", "L_ddqddqdq"):
        assert close([getattr(system, key)(*t) for t in triples], d[key]), key
    for key in ("L_ddqdqdqdq", "L_ddqddqdqdq"):
        assert close([getattr(system, key)(*t) for t in quads], d[key]), key
    assert close(system.f(), d["f"])
    assert close(system.ddqd, d["f"])
    assert close(system.lambda_(), d["lambda"])
    for key in ("f_dq", "f_ddq", "f_du", "f_dddk"):
        assert close(getattr(system, key)(), d[key]), key
    for key in ("lambda_dq", "lambda_ddq", "lambda_du", "lambda_dddk"):
        assert system.nc == 0 or close(getattr(system, key)(), d[key]), key
    for key in ("f_dqdq", "f_ddqdq", "f_ddqddq"):
        assert close([getattr(system, key)(*t) for t in outs], d[key]), key
        out, a, b = outs[0]
        assert getattr(system, key)()[a.index, b.index, out.index] == getattr(system, key)(out, a, b)
    if "total_energy" in d:
        assert close(system.total_energy(), d["total_energy"])
    for i, h in enumerate(system.constraints):
        assert close(h.h(), d["h"][i])
        assert close([h.h_dq(q) for q in c], d["h_dq"][i])
        assert close([[h.h_dqdq(a, b) for b in c] for a in c], d["h_dqdq"][i])
        assert close([h.h_dqdqdq(*t) for t in triples], d["h_dqdqdq_triples"][i])
        assert close([h.h_dqdqdqdq(*t) for t in quads], d["h_dqdqdqdq_quads"][i])


def test_frames_of_a_chain_in_space():
    d = read("lagrangian.json")["chain3d"]
    system = chain3d()
    system.set_state(d["q"], d["dq"])
    tip, c = system.get_frame("tip"), system.configs
    assert close(system.L(), d["L"])
    assert close(system.f(), d["f"])
    for key in ("g", "g_inv", "p", "vb"):
        assert close(getattr(tip, key)(), d[key], 1e-13), key
    for key in ("g_dq", "vb_dq", "vb_ddq"):
        assert close([getattr(tip, key)(a) for a in c], d[key], 1e-13), key
    for key in ("g_dqdq", "vb_dqdq", "vb_ddqdq"):
        assert close([[getattr(tip, key)(a, b) for b in c] for a in c], d[key], 1e-13), key
    a, _, b, e = c
    assert close(tip.g_dqdqdq(a, b, e), d["g_dqdqdq_0123"], 1e-13)
    assert close(tip.vb_ddqdqdq(a, b, e), d["vb_ddqdqdq"], 1e-13)


def test_frame_derivatives_to_the_fourth():
    """Against differences of the derivative before."""
    system = chain3d()
    d = read("lagrangian.json")["chain3d"]
    system.set_state(d["q"], d["dq"])
    tip, (a, _, c, e) = system.get_frame("tip"), system.configs
    test = system.test_derivative_dq
    assert test(tip.g, tip.g_dq)
    assert test(lambda: tip.g_dq(c), lambda q: tip.g_dqdq(c, q))
    assert test(lambda: tip.g_dqdq(c, a), lambda q: tip.g_dqdqdq(c, a, q))
    assert test(lambda: tip.g_dqdqdq(c, a, c), lambda q: tip.g_dqdqdqdq(c, a, c, q))
    assert test(tip.g_inv, tip.g_inv_dq)
    assert test(lambda: tip.g_inv_dq(e), lambda q: tip.g_inv_dqdq(e, q))
    assert test(tip.vb, tip.vb_dq)
    assert system.test_derivative_ddq(tip.vb, tip.vb_ddq)
    assert test(lambda: tip.vb_dq(c), lambda q: tip.vb_dqdq(c, q))
    assert test(lambda: tip.vb_dqdq(c, e), lambda q: tip.vb_dqdqdq(c, e, q))
    assert test(lambda: tip.vb_ddqdq(a, c), lambda q: tip.vb_ddqdqdq(a, c, q))
    assert test(lambda: tip.vb_ddqdqdq(a, c, e), lambda q: tip.vb_ddqdqdqdq(a, c, e, q))
    assert test(lambda: tip.p_dqdqdq(a, c, c), lambda q: tip.p_dqdqdqdq(a, c, c, q))
    assert np.abs(tip.p_dqdqdqdq(a, c, c, e)).max() > 1e-3
    for frame in (system.frames[1], system.get_frame("d")):
        q = frame.config
        one = [frame.lg, frame.lg_dq, frame.lg_dqdq, frame.lg_dqdqdq, frame.lg_dqdqdqdq]
        two = [frame.lg_inv, frame.lg_inv_dq, frame.lg_inv_dqdq, frame.lg_inv_dqdqdq, frame.lg_inv_dqdqdqdq]
        for value, slope in [*pairwise(one), *pairwise(two)]:
            assert test(value, lambda x, s=slope, q=q: s() if x is q else np.zeros((4, 4)))


@pytest.mark.parametrize("kind", ["BodyWrench", "SpatialWrench", "HybridWrench"])
def test_wrenches(kind):
    d = read("lagrangian.json")[f"wrench_{kind}"]
    system = chain3d(turned=False)
    parts = [x.split("=")[0] if isinstance(x, str) else x for x in d["wrench"]]
    force = getattr(trep.forces, kind)(system, "tip", parts)
    values = {x.split("=")[0]: float(x.split("=")[1]) for x in d["wrench"] if isinstance(x, str)}
    system.set_state(d["q"], d["dq"], values)
    c, u = system.configs, system.inputs
    assert [x.name for x in u] == list(values)
    assert close([force.f(q) for q in c], d["f"])
    assert close([[force.f_dq(q, a) for a in c] for q in c], d["f_dq"])
    assert close([[force.f_du(q, a) for a in u] for q in c], d["f_du"])
    assert close([[[force.f_dqdq(q, a, b) for b in c] for a in c] for q in c], d["f_dqdq"])
    assert close([[[force.f_dudq(q, a, b) for b in c] for a in u] for q in c], d["f_dudq"])
    assert close(system.f(), d["ddq"])
    assert force.validate_f_dq()


# ---- optimization


class Recorder(discopt.DOptimizerMonitor):
    """Rows [iteration, method, cost, slope, Armijo reductions]."""

    def __init__(self):
        self.rows, self.iteration = [], 0

    def step_begin(self, iteration):
        self.iteration, self.reductions = iteration, 0

    def step_info(self, method, cost, dcost, X, U, dX, dU, Kproj):
        self.row = [self.iteration, method, cost, dcost]

    def armijo_evaluation(self, armijo_iteration, nX, nU, bX, bU, cost, max_cost):
        self.reductions = armijo_iteration

    def step_completed(self, method, cost, nX, nU):
        self.rows.append([*self.row, self.reductions])

    def step_termination(self, cost, dcost):
        self.rows.append([*self.row, None])


def same_history(found, wanted, bound=1e-8):
    """The same methods and numbers of reductions, costs and slopes within a bound; the last cost always to 1e-9."""
    for a, b in zip(found, wanted, strict=True):
        assert (a[0], a[1], a[4]) == (b[0], b[1], b[4])
        assert abs(a[2] - b[2]) <= bound * abs(b[2])
        assert abs(a[3] - b[3]) <= max(100 * bound * abs(b[3]), 1e-7)
    return abs(found[-1][2] - wanted[-1][2]) <= 1e-9 * abs(wanted[-1][2])


def test_swing_up_history():
    d = read("pend_opt.json")
    dsys = discopt.DSystem(trep.MidpointVI(pendulum()), d["t"])
    cost = discopt.DCost(d["Xd"], d["Ud"], d["Q"], d["R"])
    optimizer = discopt.DOptimizer(dsys, cost, first_method_iterations=4, monitor=Recorder())
    converged, X, U = optimizer.optimize(d["X0"], d["U0"])
    assert converged
    # trep solved its steps to 1e-10; the iteration amplifies a change of its start by 1e6 on its way, then forgets it
    assert same_history(optimizer.monitor.rows, d["newton"]["history"], 3e-5)
    assert close(X, d["newton"]["X"], 1e-7)
    assert close(U, d["newton"]["U"], 1e-7)


def test_swing_up_by_steepest_descent_starts_as_recorded():
    """The first 40 of 656 iterations."""
    d = read("pend_opt.json")
    dsys = discopt.DSystem(trep.MidpointVI(pendulum()), d["t"])
    cost = discopt.DCost(d["Xd"], d["Ud"], d["Q"], d["R"])
    wanted = [row for row in d["steepest"]["history"] if row[0] <= 40]

    class Steepest(discopt.DOptimizer):
        def select_method(self, iteration):
            return "quasi" if iteration < 4 else "steepest"

    optimizer = Steepest(dsys, cost, monitor=Recorder())
    converged, _, _ = optimizer.optimize(d["X0"], d["U0"], max_steps=41)
    assert not converged
    found = {row[0]: row for row in optimizer.monitor.rows}
    assert same_history([found[row[0]] for row in wanted], wanted)


def test_cart_pendulum_history():
    from .test_listings import cart_pendulum

    d = read("cart_pend.json")
    optimizer, X, U = cart_pendulum()
    assert close(X, d["Xinit"])
    optimizer.monitor = Recorder()
    converged, X, U = optimizer.optimize(X, U)
    assert converged
    assert same_history(optimizer.monitor.rows, d["history"])
    assert close(X, d["X"], 1e-7)
    assert close(U, d["U"], 1e-7)
    assert close(optimizer.calc_cost(X, U), d["cost"], 1e-10)
    for method in ("steepest", "quasi", "newton"):
        assert optimizer.check_dcost(d["Xinit"], d["Uinit"], method)
        assert optimizer.check_ddcost(d["Xinit"], d["Uinit"], method, tolerance=1e-4)
