"""Scripts written for trep run after a mechanical conversion; and what they ask of the layer, one test each.

trep's own examples are not kept here. With TREP_SCRIPTS set to a folder that holds them (or any other scripts for trep),
all of them are converted and run.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import discopt, puppets, rx, rz, tx, ty, tz, visual
from tests.tools import trep_scripts

from .systems import pendulum

FOLDER = os.environ.get("TREP_SCRIPTS")
needs_2to3 = pytest.mark.skipif(sys.version_info >= (3, 13), reason="lib2to3 ended with Python 3.12")

OLD = r"""
import time
import numpy as np
import trep
import trep.constraints
import trep.discopt as discopt
from trep import rz, ty
import trep.visual as visual
from trep.visual.splineplotter import plot_spline
from OpenGL.GL import *
import pylab

start = time.clock()
system = trep.System()
system.import_frames([rz('theta'), [ty(-1, name='bob', mass=1)]])
trep.potentials.Gravity(system, (0, -9.8, 0))
trep.forces.ConfigForce(system, 'theta', 'tau')
mvi = trep.MidpointVI(system)
mvi.initialize_from_configs(0.0, [0.1], 0.1, [0.1])
q, t = [mvi.q2], [mvi.t2]
while mvi.t1 < 1.0:
	mvi.step(mvi.t2+0.1)
	q.append(mvi.q2)
	t.append(mvi.t2)
print "rank", np.rank(np.eye(2)), "half", len(q[0:len(q)/2])
pylab.hold(True)
pylab.plot(t, q)
pylab.show()
print "angle %.2f" % q[-1]
print "steps %d" % len(q), mvi.t2
plot_spline(trep.Spline([(0, 0), (1, 1)]))
visual.visualize_3d([visual.VisualItem3D(system, t, q)])
"""


@needs_2to3
def test_a_script_of_python_2(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "old.py").write_text(OLD)
    (found,) = trep_scripts.convert_folder(tmp_path / "in", tmp_path / "out")
    done = trep_scripts.run(found)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:8] == ["rank", "2", "half", "6", "angle", "-0.09", "steps", "12"]


@needs_2to3
def test_scripts_that_read_files_of_others_come_after_them(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("pend-closed-loop.py", "pend-optimization.py", "a.py", "setup.py"):
        (tmp_path / "in" / name).write_text("print 1\n")
    found = trep_scripts.convert_folder(tmp_path / "in", tmp_path / "out")
    assert [p.name for p in found] == ["a.py", "pend-optimization.py", "pend-closed-loop.py"]


def scripts():
    if FOLDER is None:
        return []
    return [p.relative_to(FOLDER) for p in sorted(Path(FOLDER).rglob("*.py")) if p.name not in trep_scripts.NO_SCRIPTS]


@needs_2to3
@pytest.mark.skipif(FOLDER is None, reason="set TREP_SCRIPTS to a folder of scripts for trep to run them")
@pytest.mark.parametrize("script", scripts() or [None], ids=str)
def test_folder(script, tmp_path):
    found = {p.relative_to(tmp_path): p for p in trep_scripts.convert_folder(Path(FOLDER), tmp_path)}
    first = trep_scripts.AFTER.get(script.name)
    for path in [script.with_name(first)] if first else []:
        assert trep_scripts.run(found[path]).returncode == 0
    done = trep_scripts.run(found[script])
    assert done.returncode == 0, done.stderr[-2000:]


# ---- what the scripts ask of the layer


def dsys(nq=2, steps=4):
    system = trep.System()
    system.import_frames([rz("a"), [ty(-1.0, mass=1.0), [rz("b"), [ty(-1.0, mass=1.0)]]]][: 2 * nq])
    trep.forces.ConfigForce(system, "a", "tau")
    return discopt.DSystem(trep.MidpointVI(system), 0.1 * np.arange(steps + 1))


def test_states_and_curves_from_one_number_or_one_row():
    d = dsys()
    assert d.build_state(1.5).tolist() == [1.5, 1.5, 0, 0]
    assert d.build_state([1, 2], 3).tolist() == [1, 2, 3, 3]
    assert d.build_input(2.0).tolist() == [2.0]
    X, U = d.build_trajectory([1, 2], u=3.0)
    assert X.tolist() == [[1, 2, 0, 0]] * 5
    assert U.tolist() == [[3.0]] * 4
    for wrong in ([1.0, 2.0, 3.0], [[1.0]] * 5, np.zeros((4, 2))):
        with pytest.raises(ValueError, match="Q has shape"):
            d.build_trajectory(wrong)
    with pytest.raises(ValueError, match="Q has shape"):
        d.build_state([1.0])


def test_zeros_may_stand_for_variables_that_are_not_there():
    d = dsys()
    X, U = d.build_trajectory(rho=np.zeros((4, 1)))
    assert X.shape == (5, 4)
    assert U.shape == (4, 1)
    with pytest.raises(ValueError, match="rho has shape"):
        d.build_trajectory(rho=np.ones((4, 1)))  # numbers would be lost
    with pytest.raises(ValueError, match="rho has shape"):
        d.build_trajectory(rho=np.zeros((3, 1)))


def test_longer_costates_if_zero_beyond_the_states():
    d = discopt.DSystem(trep.MidpointVI(pendulum()), [0, 0.1])
    d.set([0.2, 0.5], [0.8], 0)
    for method in (d.fdxdx, d.fdxdu, d.fdudu):
        assert np.array_equal(method([1, 0, 0]), method([1, 0]))
        for wrong in ([1, 0, 2], [1], [[1, 0]]):
            with pytest.raises(ValueError, match="z has shape"):
                method(wrong)


def test_trajectories_are_also_saved_by_the_module_of_systems(tmp_path):
    assert trep.system.save_trajectory is trep.save_trajectory
    assert trep.system.load_trajectory is trep.load_trajectory


def test_a_system_without_a_motion_can_be_shown():
    bare = visual.VisualItem3D(trep.System(), [], []).trajectory()
    assert bare.q.shape == (1, 0)
    system = pendulum()
    system.q = 0.3
    assert visual.VisualItem3D(system, [], []).trajectory().q.tolist() == [[0.3]]
    viewer = visual.visualize_3d([visual.VisualItem3D(trep.System(), [], [])], open_browser=False)
    viewer.close()


def test_meshes_are_attached_and_motions_shifted(tmp_path):
    import trimesh

    trimesh.creation.box((1, 1, 1)).export(tmp_path / "box.stl")
    system = trep.System()
    system.import_frames([rx("theta"), [tz(-1.0, name="bob", mass=1.0)], tx(2.0, name="post")])
    trep.constraints.Distance(system, "World", "bob", 1.0)

    class Item(visual.VisualItem3D):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.attachDrawing("bob", visual.stlmodel(tmp_path / "box.stl").draw)
            self.attachDrawing(None, visual.stlmodel(tmp_path / "box.stl").draw)

        def paint(self):
            raise AssertionError("never called")

    item = Item(system, [0, 1], [[0.0], [0.1]], offset=[0, 1, 0])
    motion = item.trajectory()
    shown = {e.name: [v.mesh for v in e.frame.visuals] for e in motion.model.frame_entries[1:] if e.frame.visuals}
    assert shown == {"bob": [str(tmp_path / "box.stl")], "World": [str(tmp_path / "box.stl")]}
    from dalembert import constraints, pose

    assert pose(motion.model, motion.q[0], "bob")[:3, 3].tolist() == [0, 1, -1]
    assert pose(motion.model, motion.q[0], "post")[:3, 3].tolist() == [2, 1, 0]
    assert np.abs(constraints(motion.model, motion.q[0])).max() < 1e-12  # elements of the world go along
    with pytest.warns(UserWarning, match="paint draws by OpenGL"):
        item.attachDrawing("bob", item.paint)
    with pytest.raises(FileNotFoundError):
        visual.stlmodel(tmp_path / "no.stl")
    with pytest.raises(KeyError):
        item.attachDrawing("bop", visual.stlmodel(tmp_path / "box.stl").draw)
    with pytest.raises(ValueError, match="offset"):
        Item(system, [], [], offset=[1, 2])
    puppets.PuppetVisual(system, [], [], offset=[0, 1, 0])


def test_splines_are_plotted_by_their_module():
    from dalembert.trep.visual.splineplotter import plot_spline

    assert plot_spline is visual.plot_spline


class Screw(trep.Constraint):
    """pitch * angle = offset."""

    def __init__(self, system, angle, offset, pitch):
        trep.Constraint.__init__(self, system)
        self.angle, self.offset, self.pitch = system.get_config(angle), system.get_config(offset), pitch

    def h(self):
        return self.pitch * self.angle.q - self.offset.q

    def h_dq(self, q):
        return self.pitch if q is self.angle else -1.0 if q is self.offset else 0.0

    def h_dqdq(self, q1, q2):
        return 0.0


def test_a_user_constraint_may_turn_a_hinge_by_more_than_half_a_turn():
    """The root that the constraint demands is the only one, however far the hinge turns in one step."""
    system = trep.System()
    system.import_frames([tz("lift", kinematic=True, mass=(1, 1, 1, 1)), [rz("angle", mass=(1, 1, 1, 1))]])
    Screw(system, "angle", "lift", 0.2)
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_configs(0.0, [0.0, 0.0], 0.01, [0.0, 0.0])
    for k, lift in enumerate((0.8, 0.9, -0.7), 2):  # 4 rad, half a radian, -8 rad
        before = mvi.q2
        mvi.step(0.01 * k, (), (lift,))
        assert np.abs(mvi.q2 - [lift / 0.2, lift]).max() < 1e-12
        assert abs(mvi.p2[0] - (mvi.q2[0] - before[0]) / 0.01) < 1e-9  # inertia 1
