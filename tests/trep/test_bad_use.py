"""Errors where trep crashed or lied, and nothing half-built afterwards."""

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.errors import ConvergenceError, ModelError, SingularityError
from dalembert.trep import discopt, rx, rz, tx, ty, tz

from .systems import closed_chain, marionette, pendulum


@pytest.fixture
def mvi():
    mvi = trep.MidpointVI(pendulum())
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    return mvi


def snapshot(system):
    return (
        [f.name for f in system.frames],
        [q.name for q in system.configs],
        [u.name for u in system.inputs],
        len(system.potentials),
        len(system.forces),
        len(system.constraints),
        len(system.q),
        len(system.u),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(mvi, bad):
    system = mvi.system
    for setter in (
        lambda: setattr(system, "q", [bad]),
        lambda: setattr(system, "dq", {"theta_1": bad}),
        lambda: setattr(system, "u", bad),
        lambda: setattr(system.configs[0], "q", bad),
        lambda: setattr(system.inputs[0], "u", bad),
        lambda: setattr(system.frames[2], "mass", bad),
        lambda: setattr(mvi, "q2", [bad]),
        lambda: mvi.initialize_from_state(0.0, [bad], [0.0]),
        lambda: mvi.initialize_from_state(bad, [0.0], [0.0]),
        lambda: mvi.initialize_from_configs(0.0, [0.0], 0.1, [bad]),
        lambda: mvi.step(0.1, [bad]),
        lambda: mvi.step(bad, [0.0]),
        lambda: discopt.DSystem(mvi, [0, 0.1]).set([bad, 0.0], [0.0], 0),
        lambda: discopt.DSystem(mvi, [0, 0.1]).set([0.0, 0.0], [bad], 0),
        lambda: discopt.DSystem(mvi, [0, bad]),
    ):
        with pytest.raises(ValueError):
            setter()
    assert mvi.q2[0] == 0.2
    assert mvi.t2 == 0.0
    mvi.step(0.1, [0.8])
    assert abs(mvi.q2[0] - 0.247136194156) < 1e-11


def test_not_finite_kinematic_value():
    puppet = marionette()
    mvi = trep.MidpointVI(puppet)
    mvi.initialize_from_state(0.0, puppet.q, np.zeros(22))
    k = puppet.qk
    k[3] = np.nan
    with pytest.raises(ValueError, match="k2 is not finite at index 3"):
        mvi.step(0.01, (), k)


def test_times(mvi):
    for t2 in (0.0, -0.1):
        with pytest.raises(ValueError, match="must be after"):
            mvi.step(t2, [0.0])
    with pytest.raises(ValueError, match="must be after"):
        mvi.initialize_from_configs(0.1, [0.0], 0.1, [0.0])
    with pytest.raises(ValueError, match="increasing"):
        discopt.DSystem(mvi, [0.0, 0.1, 0.1])
    with pytest.raises(RuntimeError, match="step first"):
        mvi.q2_dq1()
    with pytest.raises(RuntimeError, match="initialize"):
        trep.MidpointVI(pendulum()).step(0.1)


def test_lengths(mvi):
    with pytest.raises(ValueError, match="2 numbers, but 1"):
        mvi.step(0.1, [0.0, 0.0])
    with pytest.raises(ValueError, match="k2 has 1 numbers, but 0"):
        mvi.step(0.1, [0.0], [1.0])
    with pytest.raises(ValueError):
        mvi.initialize_from_state(0.0, [0.0, 0.0], [0.0])
    with pytest.raises(ValueError):
        mvi.system.q = [0.0, 1.0]
    with pytest.raises(ValueError):
        mvi.step(0.1, [0.0], q2_hint=[0.0, 0.0])
    dsys = discopt.DSystem(mvi, [0.0, 0.1])
    with pytest.raises(ValueError, match="shape"):
        dsys.set([0.0], [0.0], 0)
    with pytest.raises(ValueError, match="outside"):
        dsys.set([0.0, 0.0], [0.0], 1)
    with pytest.raises(ValueError, match="shape"):
        dsys.build_trajectory(Q=[[0.0]])
    with pytest.raises(ValueError):
        discopt.DCost(np.zeros((3, 2)), np.zeros((2, 1)), np.eye(3), np.eye(1))
    with pytest.raises(ValueError, match="do not fit"):
        discopt.DOptimizer(dsys, discopt.DCost(np.zeros((2, 2)), np.zeros((1, 1)), np.eye(2), np.eye(1))).optimize(
            np.zeros((3, 2)), np.zeros((2, 1))
        )


def test_unknown_names_leave_nothing_behind():
    system = closed_chain()
    before = snapshot(system)
    for make, error in (
        (lambda: trep.forces.ConfigForce(system, "JJ", "u"), KeyError),
        (lambda: trep.forces.ConfigForce(system, "J", 3.5), TypeError),
        (lambda: trep.forces.BodyWrench(system, "nowhere", ("fx",)), KeyError),
        (lambda: trep.forces.BodyWrench(system, "G", ("fx", None)), TypeError),
        (lambda: trep.forces.Damping(system, 0.1, {"nothing": 1.0}), KeyError),
        (lambda: trep.potentials.LinearSpring(system, "G", "nowhere", 1.0), KeyError),
        (lambda: trep.potentials.ConfigSpring(system, "nothing", 1.0), KeyError),
        (lambda: trep.potentials.Gravity(system, (0, 0)), ValueError),
        (lambda: trep.constraints.Distance(system, "G", "nowhere", "new"), KeyError),
        (lambda: trep.constraints.Distance(system, "G", "O", -1.0), ValueError),
        (lambda: trep.constraints.PointToPoint2D(system, "xw", "G", "O"), ValueError),
        (lambda: trep.constraints.PointToPoint3D(system, "G", "nowhere"), KeyError),
        (lambda: trep.Frame(system.world_frame, "TW", "w"), ValueError),
        (lambda: trep.Frame(system.world_frame, trep.TX, "w", mass=(1, 2)), ValueError),
        (lambda: trep.Frame(system.world_frame, trep.TX, "J"), ValueError),
        (lambda: trep.Frame(system.world_frame, trep.CONST_SE3, np.diag([1.0, 2.0, 1.0, 1.0])), ModelError),
        (lambda: system.import_frames([tx("new"), [ty("newer"), [tz("J")]]]), ValueError),
        (lambda: system.import_frames([tx("new"), "ty"]), TypeError),
        (lambda: system.import_frames([[tx("new")]]), ValueError),
        (lambda: trep.Config(system, "J"), ValueError),
        (lambda: trep.TapeMeasure(system, ["G"]), ValueError),
    ):
        with pytest.raises(error):
            make()
        assert snapshot(system) == before
    with pytest.raises(KeyError, match="did you mean 'O'"):
        system.get_frame("OO")
    with pytest.raises(TypeError):
        system.get_frame(system.configs[0])
    with pytest.raises(IndexError):
        system.get_config(99)
    with pytest.raises(ValueError, match="another system"):
        system.get_config(pendulum().configs[0])
    assert abs(system.L() - closed_chain().L()) == 0.0


def test_changed_mass_is_honoured():
    system = pendulum()
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    mvi.step(0.1, [0.8])
    system.get_frame("PendMass").mass = 2.0
    with pytest.raises(RuntimeError, match="again after the system was changed"):
        mvi.q2_dq1()
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    mvi.step(0.1, [0.8])
    other = pendulum()
    other.get_frame("PendMass").mass = 2.0
    fresh = trep.MidpointVI(other)
    fresh.initialize_from_state(0.0, [0.2], [0.5])
    fresh.step(0.1, [0.8])
    assert mvi.q2[0] == fresh.q2[0] != 0.247136194156
    assert mvi.q2_dp1()[0, 0] == fresh.q2_dp1()[0, 0]
    # gravity, springs, lengths of frames too, in the middle of a simulation and in whole trajectories
    dsys = discopt.DSystem(mvi, [0.0, 0.1])
    A0, _ = dsys.linearize_trajectory(np.zeros((2, 2)), np.zeros((1, 1)))
    system.potentials[0].gravity = (0.0, 0.0, 0.0)
    A1, _ = dsys.linearize_trajectory(np.zeros((2, 2)), np.zeros((1, 1)))
    assert A0[0][1, 0] < 0
    assert A1[0][1, 0] == 0
    mvi.step(0.2, [0.0])
    p = mvi.p2
    mvi.step(0.3, [0.0])
    assert np.abs(mvi.p2 - p).max() < 1e-13


def test_changed_structure_needs_a_new_start():
    system = pendulum()
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    trep.Frame(system.get_frame("PendMass"), trep.RZ, "theta_2", mass=(1.0, 1.0, 1.0, 1.0))
    with pytest.raises(RuntimeError, match="structure changed"):
        mvi.step(0.1)
    mvi.initialize_from_state(0.0, [0.2, 0.0], [0.5, 0.0])
    mvi.step(0.1)
    assert mvi.q2.shape == (2,)


def test_structure_changed_functions():
    system = trep.System()
    calls = []
    system.add_structure_changed_func(lambda: calls.append(system.nQ))
    system.import_frames([rx("a"), [tz(-1.0, mass=1.0), [rx("b"), [tz(-1.0, mass=1.0)]]]])
    assert calls == [2]
    system.hold_structure_changes()
    trep.Config(system, "c", kinematic=True)
    system.frames[2].mass = 2.0
    assert calls == [2]
    system.resume_structure_changes()
    assert calls == [2, 3]
    with pytest.raises(RuntimeError):
        system.resume_structure_changes()


def test_systems_without_masses_still_have_frames():
    system = trep.System()
    system.import_frames([rz("a"), [tx(1.0, name="tip")]])
    system.q = np.pi / 2
    assert np.abs(system.get_frame("tip").p() - [0, 1, 0, 1]).max() < 1e-15
    with pytest.raises(ModelError, match="moves no mass"):
        system.f()
    trep.Config(system, "loose")
    with pytest.raises(ModelError, match="moves no frame"):
        system.L()


def test_singular_and_impossible():
    system = trep.System()
    system.import_frames([rz("a"), [rz("b"), [ty(-1.0, mass=1.0)]]])
    trep.potentials.Gravity(system, (0, -9.8, 0))
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_state(0.0, [0.3, 0.0], [0.1, 0.0])
    with pytest.raises(SingularityError, match="a, b"):
        mvi.step(0.1)
    with pytest.raises(SingularityError):
        system.f()
    puppet = marionette()
    mvi = trep.MidpointVI(puppet)
    q = puppet.q
    mvi.initialize_from_state(0.0, q, np.zeros(22))
    k = puppet.qk
    k[2] = 50.0  # a string that cannot be so long
    with pytest.raises(ConvergenceError):
        mvi.step(0.01, (), k, max_iterations=30)
    assert np.array_equal(mvi.q2, q)
    mvi.step(0.01, (), puppet.qk)


def test_no_such_thing_here():
    for call in (
        trep.get_include,
        lambda: trep.ros.ROSMidpointVI(pendulum(), 0.01),
        lambda: pendulum().potentials[0].opengl_draw(),
        lambda: trep.visual.Camera,
    ):
        with pytest.raises(NotImplementedError, match=r"use|shows|dalembert"):
            call()
    with pytest.raises(AttributeError):
        _ = trep.nothing
