"""Springs, dampers, splines, tape measures, puppets, files, robots, pictures: the rest of the API at work."""

import contextlib
import io
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import discopt, puppets, ros, rx, ry, rz, tx, ty, tz, visual

from .systems import chain3d, closed_chain, links, marionette, pendulum


@pytest.fixture
def arm():
    system = chain3d()
    system.import_frames([trep.const_txyz((0.3, -1.0, 0.5), name="wall")])
    system.set_state([0.4, -0.4, -0.9, 0.3], [-0.6, 0.9, 0.8, 0.7])
    return system


def test_potentials_and_their_derivatives(arm):
    spline = trep.Spline([(-2, 3.0), (-1, 1.0), (0, 0.0), (1, 1.5), (2, 4.0)])
    made = [
        trep.potentials.Gravity(arm, (1.0, 2.0, -9.8)),
        trep.potentials.LinearSpring(arm, "tip", "wall", 20.0, 0.4),
        trep.potentials.ConfigSpring(arm, "c", 3.0, 0.2),
        trep.potentials.NonlinearConfigSpring(arm, "a", spline, 1.5, 0.1),
    ]
    for potential in made:
        assert potential.validate_V_dq()
        assert potential.validate_V_dqdq(tolerance=1e-5)
        assert potential.validate_V_dqdqdq(tolerance=1e-4)
    distance = np.linalg.norm(arm.get_frame("tip").p() - arm.get_frame("wall").p())
    assert abs(made[1].V() - 10.0 * (distance - 0.4) ** 2) < 1e-12
    assert abs(made[2].V() - 1.5 * (-0.9 - 0.2) ** 2) < 1e-12
    assert abs(made[3].V_dq("a") - spline.y(1.5 * 0.4 + 0.1)) < 1e-12  # the force is -spline(m q + b)
    assert (
        abs(
            made[0].V()
            + 0.7 * np.dot((1, 2, -9.8), arm.get_frame("tip").p()[:3])
            + np.dot((1, 2, -9.8), arm.get_frame("d").p()[:3])
        )
        < 1e-12
    )
    assert abs(arm.L() - (arm.total_energy() - 2 * sum(p.V() for p in made))) < 1e-12
    assert made[3].get_config() is made[3].config
    assert made[3].get_spline() is made[3].spline is spline
    before = made[1].V()
    made[1].k = 40.0
    made[1].x0 = 0.4
    assert abs(made[1].V() - 2 * before) < 1e-12


def test_forces_and_their_derivatives(arm):
    damper = trep.forces.LinearDamper(arm, "tip", "wall", 2.0)
    damping = trep.forces.Damping(arm, 0.1, {"b": 0.5})
    push = trep.forces.ConfigForce(arm, "b", "push")
    wrench = trep.forces.HybridWrench(arm, "tip", (0.1, "pull", 0, "twist"))
    arm.u = [2.0, 3.0, -1.0]
    assert wrench.wrench_val == (0.1, 3.0, 0.0, -1.0, 0.0, 0.0)
    assert wrench.wrench[1].name == "pull"
    assert push.finput.force is push
    c, u = arm.configs, arm.inputs
    for force in (damper, damping, push, wrench):
        assert force.validate_f_dq(tolerance=1e-5)
        assert force.validate_f_ddq(tolerance=1e-5)
        for q in c:
            for a in c:
                test = arm.test_derivative_dq
                assert test(
                    lambda f=force, q=q, a=a: f.f_dq(q, a),
                    lambda b, f=force, q=q, a=a: f.f_dqdq(q, a, b),
                    tolerance=1e-5,
                )
                assert test(
                    lambda f=force, q=q, a=a: f.f_ddq(q, a),
                    lambda b, f=force, q=q, a=a: f.f_ddqdq(q, a, b),
                    tolerance=1e-5,
                )
                assert arm.test_derivative_ddq(
                    lambda f=force, q=q, a=a: f.f_ddq(q, a),
                    lambda b, f=force, q=q, a=a: f.f_ddqddq(q, a, b),
                    tolerance=1e-5,
                )
            for i in u:
                assert arm.test_derivative_dq(
                    lambda f=force, q=q, i=i: f.f_du(q, i),
                    lambda b, f=force, q=q, i=i: f.f_dudq(q, i, b),
                    tolerance=1e-5,
                )
                assert all(force.f_duddq(q, i, a) == 0 for a in c)
                assert all(force.f_dudu(q, i, j) == 0 for j in u)
    assert damping.get_damping_coefficient("b") == 0.5
    damping.set_damping_coefficient("b", 0.7)
    assert damping.f("b") == -0.7 * arm.get_config("b").dq
    damping.set_damping_coefficient("b", None)
    damping.default = 0.2
    assert damping.get_damping_coefficient("b") == 0.2
    wrench.set_wrench_val((1, 2, 3, 4, 5, 6))
    assert wrench.get_wrench_val() == (1, 2, 3, 4, 5, 6)
    assert arm.u.tolist() == [2.0, 2.0, 4.0]
    total = sum(np.array([f.f(q) for q in c]) for f in (damper, damping, push, wrench))
    mass = arm.L_ddqddq()
    free = chain3d()
    free.set_state(arm.q, arm.dq)
    assert np.abs(mass @ (arm.f() - free.f()) - total).max() < 1e-9


def test_constraints_and_their_derivatives(arm):
    made = [
        trep.constraints.Distance(arm, "tip", "wall", 1.0),
        trep.constraints.PointOnPlane(arm, "d", (0.2, 1.0, -0.3), "wall"),
        *trep.constraints.PointToPoint2D(arm, "xz", "tip", "wall", name="pin"),
    ]
    assert [h.index for h in made] == [0, 1, 2, 3]
    assert made[2].name == "pin-x"
    for h in made:
        assert h.validate_h_dq()
        assert h.validate_h_dqdq()
        assert h.validate_h_dqdqdq()
        assert h.validate_h_dqdqdqdq()
    d = arm.get_frame("d")
    gap = d.p() - arm.get_frame("wall").p()  # trep measures from the point to the plane
    assert abs(made[1].h() - gap[:3] @ (d.g()[:3, :3] @ [0.2, 1.0, -0.3])) < 1e-12
    assert abs(made[0].h() - (made[0].get_actual_distance() ** 2 - 1)) < 1e-12
    made[0].distance = 2.0
    assert abs(made[0].h() - (made[0].get_actual_distance() ** 2 - 4)) < 1e-12
    made[1].normal = (0, 0, 1)
    assert made[1].normal == (0.0, 0.0, 1.0)
    made[0].tolerance = 1e-8
    assert made[0].tolerance == 1e-8
    with pytest.raises(ValueError):
        made[0].tolerance = 0.0


def test_satisfy_constraints_and_equilibrium():
    system = closed_chain()
    system.q = {"J": -0.5, "H": 1.2, "K": 0.2, "M": -1.2, "A": 0.1, "C": 1.2, "E": 0.9}
    before = system.q
    q = system.satisfy_constraints(constant_q_list=["J"])
    assert max(abs(h.h()) for h in system.constraints) < 1e-10
    assert q[0] == before[0]
    assert np.array_equal(q, system.q)
    energy = system.total_energy()
    system.dq = 1.0
    system.minimize_potential_energy()
    assert not system.dq.any()
    assert system.total_energy() < energy
    assert max(abs(h.h()) for h in system.constraints) < 1e-9
    f = system.f()
    assert np.abs(f).max() < 1e-6
    # kinematic variables move too, unless they are kept
    puppet = marionette()
    k = puppet.qk
    puppet.q = {"torso_tz": 0.05}
    puppet.satisfy_constraints(keep_kinematic=True)
    assert np.array_equal(puppet.qk, k)
    puppet.q = {"torso_tz": 0.1}
    puppet.satisfy_constraints()
    assert not np.array_equal(puppet.qk, k)
    assert max(abs(h.h()) for h in puppet.constraints) < 1e-9


def test_tape_measure(arm):
    tape = trep.TapeMeasure(arm, ["World", "d", "tip", "wall"])
    points = [f.p()[:3] for f in tape.frames]
    assert abs(tape.length() - sum(np.linalg.norm(b - a) for a, b in pairwise(points))) < 1e-12
    for name in (
        "length_dq",
        "length_dqdq",
        "length_dqdqdq",
        "velocity_dq",
        "velocity_ddq",
        "velocity_dqdq",
        "velocity_ddqdq",
    ):
        assert getattr(tape, f"validate_{name}")(tolerance=1e-5), name
    assert tape.system is arm
    arm.q = {"b": 0.0}
    with pytest.raises(ZeroDivisionError):
        trep.TapeMeasure(arm, [1, 2]).length_dq("b")


def test_spline():
    table = [(0.0, 1.0, 0.5, 0.0), (1.0, 2.0, -1.0, 1.0), (3.0, 0.0, 0.0, 0.0)]
    s = trep.Spline(table)
    for x, y, dy, ddy in table:
        assert np.allclose([s.y(x), s.dy(x), s.ddy(x)], [y, dy, ddy], atol=1e-12)
    assert s.coefficients.shape == (2, 6)
    assert s.x_points.tolist() == [0.0, 1.0, 3.0]
    assert s.y_points.tolist() == [1.0, 2.0, 0.0]
    assert s.copy().y(0.7) == s.y(0.7)
    mixed = trep.Spline([(0, 0, 2.0), (1, 1), (2, 4, None, 3.0), (3, 9)])
    assert abs(mixed.dy(0) - 2.0) < 1e-12
    assert abs(mixed.ddy(2) - 3.0) < 1e-12
    assert np.allclose([mixed.y(x) for x in range(4)], [0, 1, 4, 9])
    cubic = trep.Spline(
        [(x, x**3 - x, 3 * x**2 - 1 if x in (0, 3) else None, 6 * x if x in (0, 3) else None) for x in range(4)]
    )
    assert max(abs(cubic.y(x) - (x**3 - x)) for x in np.linspace(0, 3, 31)) < 1e-10
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    assert len(visual.plot_spline(s).axes) == 3
    plt.close("all")


def test_frames_in_text(arm):
    text = arm.export_frames()
    space = {name: getattr(trep, name) for name in ("tx", "ty", "tz", "rx", "ry", "rz", "const_se3")}
    space["system"] = trep.System()
    exec(text, space)
    again = space["system"]
    again.set_state(arm.q, arm.dq)
    assert [f.name for f in again.frames] == [f.name for f in arm.frames]
    assert again.L() == arm.L()
    view = arm.world_frame.tree_view()
    assert view.splitlines()[0] == "<Frame 'World'>"
    assert "   <Frame 'None' RX(a)>" in view
    assert view.count("\n") == len(arm.frames) - 1


def test_doc_example_tree():
    """The tree that trep's manual prints."""
    system = trep.System()
    system.import_frames([ry("H", name="H"), [tz(-0.5, name="I", mass=1), tz(-1), [ry("J", name="J")]], tx(-1.5)])
    assert system.get_frame("World").tree_view() == (
        "<Frame 'World'>\n   <Frame 'H' RY(H)>\n      <Frame 'I' TZ(-0.5) 1.000000>\n      <Frame 'None' TZ(-1.0) 0.000000>\n"
        "         <Frame 'J' RY(J)>\n   <Frame 'None' TX(-1.5) 0.000000>"
    )


def test_frame_properties(arm):
    d = arm.get_frame("d")
    assert (d.mass, d.Ixx, d.Iyy, d.Izz) == (1.0, 2.0, 3.0, 4.0)
    d.Ixx, d.Iyy, d.Izz, d.mass = 1.0, 1.0, 1.0, 3.0
    d.set_mass(2.0, 0.5)
    assert d._inertia == [2.0, 0.5, 0.0, 0.0]
    d.transform_value = 0.9
    assert arm.get_config("d").q == 0.9
    fixed = d.parent
    fixed.set_SE3(p=(1, 2, 3))
    assert fixed.lg()[:3, 3].tolist() == [1, 2, 3]
    assert d.uses_config("a")
    assert not arm.get_frame(1).uses_config("d")
    assert arm.get_config("d").frame is d
    assert {f.name for f in arm.get_config("a").masses} == {"d", "tip"}
    assert fixed.children == (d,)
    tip = arm.get_frame("tip")
    tip.transform_value = 0.7
    assert np.linalg.norm(tip.p() - d.p()) == pytest.approx(0.7)
    assert np.allclose(trep.rotation_matrix(0.3, (0, 1, 0))[:3, :3] @ [0, 0, 1], [np.sin(0.3), 0, np.cos(0.3)])


def test_puppets():
    puppet = puppets.Puppet(joints={"neck_rx": "nod"}, joint_forces=True, string_forces=True)
    assert puppet.nQ == 23
    assert puppet.nu == 23 + 18
    assert "nod" in [u.name for u in puppet.inputs]
    mvi = trep.MidpointVI(puppet)
    mvi.initialize_from_state(0.0, puppet.q, np.zeros(23))
    mvi.step(0.01, np.zeros(41))
    assert mvi.q2_du1().shape == (23, 41)
    with pytest.raises(KeyError, match="unknown joint"):
        puppets.Puppet(joints={"tail": "tail"})
    with pytest.raises(KeyError, match="unknown dimension"):
        puppets.fill_dimensions({"tail_length": 1.0})
    hung = marionette()
    hung.q = {"torso_tz": 0.1}
    hung.correct_string_lengths(["left_leg_string"])
    h = {c.name: abs(c.h()) for c in hung.constraints}
    assert h["left_leg_string"] < 1e-12 < h["right_leg_string"]
    with pytest.raises(KeyError):
        hung.project_string_controls(["tail"])


URDF = """<robot name="arm">
<link name="base"/>
<link name="upper"><inertial><origin xyz="0.1 0 -0.2" rpy="0.3 0 0"/><mass value="2"/>
  <inertia ixx="0.3" iyy="0.4" izz="0.5" ixy="0.01" ixz="0.02" iyz="0.03"/></inertial></link>
<link name="lower"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
  <origin xyz="0 0 1" rpy="0 0 0.5"/><axis xyz="0 1 0"/></joint>
<joint name="elbow" type="prismatic"><parent link="upper"/><child link="lower"/><axis xyz="1 0 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


def test_urdf(tmp_path):
    import dalembert as da

    (tmp_path / "arm.urdf").write_text(URDF)
    system = ros.import_urdf_file(tmp_path / "arm.urdf")
    assert [q.name for q in system.configs] == ["shoulder", "elbow"]
    model = da.loads(URDF, "urdf", gravity=None)
    q, v = [0.4, 0.2], [0.7, -0.3]
    system.set_state(q, v)
    assert abs(system.L() - da.lagrangian(model, q, v)) < 1e-12
    assert np.abs(system.get_frame("lower").g() - da.pose(model, q, "lower")).max() < 1e-12
    ros.import_urdf(URDF, system, prefix="left_")
    assert [q.name for q in system.configs] == ["shoulder", "elbow", "left_shoulder", "left_elbow"]
    assert system.get_frame("left_lower").uses_config("left_elbow")


def test_viewer():
    system = links(2)
    viewer = visual.visualize_3d(
        [visual.VisualItem3D(system, [0, 1], [[0, 0], [1, 1]]), visual.VisualItem2D(system, [0, 1], [[0, 0], [2, 1]])],
        camera_pos=[1, 2, 3],
        open_browser=False,
    )
    try:
        assert viewer.url.startswith("http://127.0.0.1")
    finally:
        viewer.close()
    with pytest.raises(ValueError):
        visual.VisualItem3D(system, [0, 1], [[0.0], [1.0]])


def test_monitors_and_plot():
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    dsys = discopt.DSystem(trep.MidpointVI(pendulum()), 0.1 * np.arange(21))
    Xd, Ud = dsys.build_trajectory(Q=0.5 * np.sin(dsys.time)[:, None])
    X, U = dsys.build_trajectory()
    cost = discopt.DCost(Xd, Ud, np.diag([10.0, 1.0]), np.eye(1))
    text = io.StringIO()
    optimizer = discopt.DOptimizer(dsys, cost, monitor=discopt.DOptimizerVerboseMonitor())
    with contextlib.redirect_stdout(text):
        converged, X, U = optimizer.optimize(X, U)
    assert converged
    monitor = optimizer.monitor
    assert len(monitor.get_costs()) == len(monitor.get_dcosts())
    assert all(b <= a for a, b in pairwise(monitor.get_costs()))
    assert "converged" in text.getvalue()

    class Slow(discopt.DCost):
        """The same cost by calls for every step."""

    same = discopt.DOptimizer(dsys, Slow(Xd, Ud, np.diag([10.0, 1.0]), np.eye(1)), monitor=discopt.DOptimizerMonitor())
    assert abs(same.calc_cost(X, U) - optimizer.calc_cost(X, U)) < 1e-12
    done, _, _, slope, value = same.step(0, X, U, "newton")
    assert done
    assert abs(slope) < 1e-6
    assert abs(value - optimizer.calc_cost(X, U)) < 1e-12
    plt.close("all")  # it draws into the current axes
    ax = optimizer.descent_plot(*dsys.build_trajectory(), method="newton", points=5)
    assert len(ax.lines) == 4
    plt.close("all")
    with pytest.raises(ValueError, match="method"):
        optimizer.calc_descent_direction(X, U, "nothing")
    optimizer.optimize_ic = True
    with pytest.raises(NotImplementedError, match="free_start"):
        optimizer.calc_descent_direction(X, U)


def test_state_by_dictionary_number_and_list():
    system = marionette()
    system.q = {"torso_tx": 1.0}
    assert system.q[0] == 1.0
    assert system.q[5] == -0.05
    system.qd = 0.25
    assert system.qd.tolist() == [0.25] * 22
    assert system.qk[0] != 0.25
    system.dqk = np.arange(18.0)
    assert system.dq[22:].tolist() == list(range(18))
    system.ddqk = {"left_leg_string-x": 3.0}
    assert system.kin_configs[15].ddq == 3.0
    with pytest.raises(KeyError):
        system.qk = {"torso_tx": 1.0}
    with pytest.raises(KeyError):
        system.q = {"nothing": 1.0}
    system.t = 4.0
    assert system.t == 4.0
    copied = system.q
    copied[:] = 9.0
    assert system.q[0] == 0.25


def test_same_names_as_rotations():
    assert [f("q").transform for f in (tx, ty, tz, rx, ry, rz)] == ["TX", "TY", "TZ", "RX", "RY", "RZ"]


def test_subclasses_of_native_elements():
    """One that only adds something runs in the core; one that overrides a value does not."""

    class Labelled(trep.potentials.ConfigSpring):
        def label(self):
            return "soft"

    class Stiff(trep.potentials.ConfigSpring):
        def V_dq(self, q1):
            return 2 * trep.potentials.ConfigSpring.V_dq(self, q1)

        def V_dqdq(self, q1, q2):
            return 2 * trep.potentials.ConfigSpring.V_dqdq(self, q1, q2)

    for kind, factor in ((Labelled, 1.0), (Stiff, 2.0)):
        system = trep.System()
        system.import_frames([tx("x", mass=1.0)])
        kind(system, "x", 3.0)
        system.q = 0.5
        assert abs(system.f()[0] + 1.5 * factor) < 1e-12
        assert (system._dynamics().user is None) == (kind is Labelled)
        mvi = trep.MidpointVI(system)
        mvi.initialize_from_state(0.0, [0.5], [0.0])
        mvi.step(0.1)
        k = 3.0 * factor
        assert abs(mvi.q2[0] - 0.5 * (1 - k * 0.01 / 4) / (1 + k * 0.01 / 4)) < 1e-12


def test_the_model_behind_a_system():
    import dalembert as da

    system = pendulum()
    model = system.model
    vi = da.MidpointVI(model, 0.1, forcing="left")
    after = vi.step(vi.state(q=[0.2], p=[0.5]), u=[0.8])
    mvi = trep.MidpointVI(system, tolerance=1e-14)
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    mvi.step(0.1, [0.8])
    assert abs(after.q[0] - mvi.q2[0]) < 1e-15
    with pytest.raises(ValueError, match="max_iterations"):
        mvi.step(0.2, [0.8], max_iterations=0)


def test_code_of_the_page():
    """The example in docs/from-trep.md runs."""
    import re
    from pathlib import Path

    page = (Path(__file__).parent.parent.parent / "docs" / "from-trep.md").read_text()
    space: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, space)
    assert abs(space["mvi"].q2[0] - 0.247136194156) < 1e-11


def test_inverse_dynamics_by_hand():
    """States set by hand, the residual read, momenta computed: as a script for inverse dynamics does."""
    system = links(3)
    for q in system.configs:
        trep.forces.ConfigForce(system, q, f"torque-{q.index}")
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_configs(0.0, (0.0, 0.0, 0.0), 0.01, (0.0, 0.0, 0.0))
    t, q, u = [0.0, 0.01], [np.zeros(3), np.zeros(3)], []
    while mvi.t1 < 0.5:
        u.append([np.sin(3 * mvi.t2 + i) for i in range(3)])
        mvi.step(mvi.t2 + 0.01, tuple(u[-1]))
        t.append(mvi.t2)
        q.append(mvi.q2)
    mvi.initialize_from_configs(t[0], q[0], t[1], q[1])
    found = []
    for k in range(2, len(t)):
        mvi.t1, mvi.q1, mvi.p1 = mvi.t2, mvi.q2, mvi.p2
        mvi.t2, mvi.q2 = t[k], q[k]
        mvi.u1 = (0.0, 0.0, 0.0)
        found.append(-mvi.calc_f() / (mvi.t2 - mvi.t1))
        mvi.u1 = tuple(found[-1])
        mvi.calc_p2()
    assert np.abs(np.array(found) - u).max() < 1e-8
    assert mvi.q2_dq1().shape == (3, 3)


def test_engine_with_a_force_of_its_own():
    """A closed chain grown branch by branch, so that variables are not in tree order, with a written force on it."""

    class Push(trep.Force):
        def __init__(self, system, piston, crank):
            trep.Force.__init__(self, system, "push")
            self.piston, self.crank = system.get_frame(piston), system.get_config(crank)

        def f(self, q):
            return -5 * np.cos(self.crank.q) * (self.piston.g_inv() @ self.piston.g_dq(q))[2, 3]

        def f_dq(self, q, q1):
            p = self.piston
            slope = (p.g_inv_dq(q1) @ p.g_dq(q))[2, 3] + (p.g_inv() @ p.g_dqdq(q, q1))[2, 3]
            turn = np.sin(self.crank.q) * (p.g_inv() @ p.g_dq(q))[2, 3] if q1 is self.crank else 0.0
            return -5 * (np.cos(self.crank.q) * slope - turn)

        def f_ddq(self, q, dq1):
            return 0.0

        def f_du(self, q, u1):
            return 0.0

    class Engine(trep.System):
        def __init__(self):
            super().__init__()
            heavy = (1, 1, 1, 1)
            rod = [tz(0.3, mass=heavy), tz(0.6), [rx("piston0", name="base0"), [tz(0.2, name="center0", mass=heavy)]]]
            self.import_frames(
                [rx("crank", mass=heavy), [tz(0.2), [rx("rod0", name="pivot"), rod]], rx(0.0, name="bore0")]
            )
            self._second()
            for n in range(2):
                trep.constraints.PointOnPlane(self, f"bore{n}", (0, 1, 0), f"base{n}")
                trep.constraints.PointOnPlane(self, f"bore{n}", (0, 1, 0), f"center{n}")
            trep.forces.Damping(self, 0.2)
            Push(self, "center0", "crank")

        def _second(self):
            heavy = (1, 1, 1, 1)
            rod = [tz(0.3, mass=heavy), tz(0.6), [rx("piston1", name="base1"), [tz(0.2, name="center1", mass=heavy)]]]
            self.get_frame("pivot").import_frames([rx(np.pi), [tz(0.1), [rx("rod1"), rod]]])
            self.import_frames([rx(np.pi, name="bore1")])

    system = Engine()
    assert [q.name for q in system.configs] == ["crank", "rod0", "piston0", "rod1", "piston1"]
    system.q = {"crank": 0.4}
    system.satisfy_constraints()
    assert system.forces[1].validate_f_dq()
    assert system.test_derivative_dq(system.f, lambda q: system.f_dq(q1=q), tolerance=1e-5)
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_configs(0.0, system.q, 0.01, system.q)
    for k in range(50):
        mvi.step(0.01 * (k + 2))
        assert np.abs(mvi.calc_f()).max() < 1e-10
    assert abs(mvi.q2[0] - 0.4) > 1e-3
    dsys = discopt.DSystem(mvi, [0.0, 0.01])
    x = dsys.build_state(mvi.q2, mvi.p2)
    assert dsys.check_fdx(x, [], 0, delta=1e-6)[0] < 1e-4
