"""trep's orders: variables as created, not as the tree is walked; inputs that nothing reads; shared inputs."""

import numpy as np

import dalembert.trep as trep
from dalembert.trep import discopt


def arms(mixed):
    """Two arms; with `mixed` the variables are created in another order than the tree's."""
    system = trep.System()
    world = system.world_frame
    if mixed:
        base = trep.Frame(world, trep.TX, 0.0, name="base")
        other = trep.Frame(world, trep.TY, 1.0, name="other")
        b = trep.Frame(other, trep.RX, "b", mass=(1.0, 1.0, 1.0, 1.0))
        trep.Frame(b, trep.TZ, "s", name="slider", mass=0.5)
        trep.Input(system, "unused")
        a = trep.Frame(base, trep.RX, "a")
        trep.Frame(a, trep.TZ, -1.0, name="tip", mass=2.0)
        k = trep.Frame(base, trep.TY, "k", kinematic=True)
    else:
        base = trep.Frame(world, trep.TX, 0.0, name="base")
        a = trep.Frame(base, trep.RX, "a")
        trep.Frame(a, trep.TZ, -1.0, name="tip", mass=2.0)
        k = trep.Frame(base, trep.TY, "k", kinematic=True)
        other = trep.Frame(world, trep.TY, 1.0, name="other")
        b = trep.Frame(other, trep.RX, "b", mass=(1.0, 1.0, 1.0, 1.0))
        trep.Frame(b, trep.TZ, "s", name="slider", mass=0.5)
    trep.potentials.Gravity(system)
    trep.potentials.LinearSpring(system, "tip", "slider", 20.0, 0.3)
    trep.potentials.LinearSpring(system, k, "slider", 5.0)
    trep.forces.ConfigForce(system, "b", "torque")
    trep.forces.ConfigForce(system, "s", "push")
    trep.constraints.PointOnPlane(system, "base", (0, 1, 1), "tip")
    return system


VALUES = {"a": 0.7, "b": -0.3, "s": 0.4, "k": 0.2}


def test_creation_order():
    assert [q.name for q in arms(True).configs] == ["b", "s", "a", "k"]
    assert [q.name for q in arms(False).configs] == ["a", "b", "s", "k"]
    assert [u.name for u in arms(True).inputs] == ["unused", "torque", "push"]


def test_same_motion_in_any_order():
    motions = []
    for mixed in (True, False):
        system = arms(mixed)
        system.q = VALUES
        system.satisfy_constraints(keep_kinematic=True)
        mvi = trep.MidpointVI(system)
        mvi.initialize_from_state(0.0, system.q, np.zeros(3))
        u = {"unused": 9.0, "torque": 0.3, "push": -0.8}
        for k in range(10):
            mvi.step(0.01 * (k + 1), [u[x.name] for x in system.inputs], [0.2 + 0.01 * k])
        motions.append(mvi)
    one, two = motions
    a, b = one.system, two.system
    to = [b.get_config(q.name).index for q in a.configs]
    ins = [b.get_input(u.name).index for u in a.inputs[1:]]
    assert np.abs(one.q2 - two.q2[to]).max() < 1e-12
    assert np.abs(one.p2 - two.p2[to[:3]]).max() < 1e-12
    assert np.abs(one.lambda1 - two.lambda1).max() < 1e-10
    assert np.abs(one.q2_dq1() - two.q2_dq1()[np.ix_(to[:3], to)]).max() < 1e-11
    assert np.abs(one.p2_du1()[:, 1:] - two.p2_du1()[np.ix_(to[:3], ins)]).max() < 1e-11
    assert not one.p2_du1()[:, 0].any()
    tensor = two.p2_dq1dp1()[np.ix_(to, to[:3], to[:3])]
    assert np.abs(one.p2_dq1dp1() - tensor).max() < 1e-9 * (1 + np.abs(tensor).max())
    # whole trajectories, which go through dalembert's System
    for mvi in motions:
        mvi.system.set_state(mvi.q2, 0.0)
    assert abs(a.L() - b.L()) < 1e-12
    assert np.abs(a.f() - b.f()[to[:3]]).max() < 1e-10
    assert np.abs(a.f_dqdq() - b.f_dqdq()[np.ix_(to, to, to[:3])]).max() < 1e-8
    t = 0.01 * np.arange(6)
    for mvi in motions:
        dsys = discopt.DSystem(mvi, t)
        s = mvi.system
        s.q = VALUES
        s.satisfy_constraints(keep_kinematic=True)
        x = np.tile(dsys.build_state(s.q), (6, 1))
        w = np.tile(dsys.build_input([0.1] * s.nu, s.qk), (5, 1))
        A, B = dsys.linearize_trajectory(x, w)
        dsys.set(x[2], w[2], 2)
        assert np.abs(dsys.fdx() - A[2]).max() < 1e-10
        assert np.abs(dsys.fdu() - B[2]).max() < 1e-10
        z = np.arange(1.0, dsys.nX + 1)
        xx, xu, uu = dsys._second_order(x, w, np.tile(z, (5, 1)))
        assert np.abs(xx[2] - dsys.fdxdx(z)).max() < 1e-7
        assert np.abs(xu[2] - dsys.fdxdu(z)).max() < 1e-7
        assert np.abs(uu[2] - dsys.fdudu(z)).max() < 1e-7
        X, U = dsys.project(x, w, np.zeros((5, dsys.nU, dsys.nX)))
        dsys.set(X[0], U[0], 0)
        for k in range(1, 5):
            assert np.abs(dsys.f() - X[k]).max() < 1e-12
            dsys.step(U[k])


def test_converted_and_saved_trajectories(tmp_path):
    a, b = (discopt.DSystem(trep.MidpointVI(arms(mixed)), [0.0, 0.1, 0.2]) for mixed in (True, False))
    X, U = np.arange(24.0).reshape(3, 8), np.arange(8.0).reshape(2, 4)
    to, ins = b.convert_trajectory(a, X, U)
    names = [[q.name for q in d.system.configs] for d in (a, b)]
    assert np.array_equal(to[:, : len(names[1])], X[:, [names[0].index(n) for n in names[1]]])
    assert np.array_equal(ins, U[:, [1, 2, 3]])
    back, _ = a.convert_trajectory(b, to, ins)
    assert np.array_equal(back, X)
    a.save_state_trajectory(tmp_path / "motion.mat", X, U)
    same = a.load_state_trajectory(tmp_path / "motion.mat")
    assert np.array_equal(same[0], X)
    assert np.array_equal(same[1], U)
    other = b.load_state_trajectory(tmp_path / "motion.mat")
    assert np.array_equal(other[0], to)
    assert np.array_equal(trep.load_trajectory(tmp_path / "motion.mat")[1], X[:, :4])
