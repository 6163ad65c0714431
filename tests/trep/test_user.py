"""Elements written in Python: twins of native ones must give the same motion and the same derivatives."""

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import rx, ry, tx, tz


class Spring(trep.Potential):
    """k/2 q^2 + c q^4/4 of one variable."""

    def __init__(self, system, config, k, c=0.0):
        trep.Potential.__init__(self, system, "spring")
        self.config, self.k, self.c = system.get_config(config), k, c

    def V(self):
        q = self.config.q
        return 0.5 * self.k * q**2 + 0.25 * self.c * q**4

    def V_dq(self, q1):
        return self.k * self.config.q + self.c * self.config.q**3 if q1 is self.config else 0.0

    def V_dqdq(self, q1, q2):
        return self.k + 3 * self.c * self.config.q**2 if q1 is q2 is self.config else 0.0

    def V_dqdqdq(self, q1, q2, q3):
        return 6 * self.c * self.config.q if q1 is q2 is q3 is self.config else 0.0


class Drag(trep.Force):
    """-c dq on every variable, plus an input on one."""

    def __init__(self, system, c, config, finput):
        trep.Force.__init__(self, system, "drag")
        self.c, self.config = c, system.get_config(config)
        self.finput = self._create_input(finput)

    def f(self, q):
        return -self.c * q.dq + (self.finput.u if q is self.config else 0.0)

    def f_dq(self, q, q1):
        return 0.0

    def f_ddq(self, q, dq1):
        return -self.c if q is dq1 else 0.0

    def f_du(self, q, u1):
        return 1.0 if q is self.config and u1 is self.finput else 0.0

    def f_dqdq(self, q, q1, q2):
        return 0.0

    f_ddqdq = f_ddqddq = f_dudq = f_duddq = f_dudu = f_dqdq


class Rod(trep.Constraint):
    """|p1 - p2|^2 - length^2 from the derivatives of the frames' positions."""

    def __init__(self, system, frame1, frame2, length):
        trep.Constraint.__init__(self, system, "rod")
        self.a, self.b, self.length = system.get_frame(frame1), system.get_frame(frame2), system.get_config(length)

    def gap(self, *q):
        name = "p" + ("_" + "dq" * len(q) if q else "")
        return (getattr(self.a, name)(*q) - getattr(self.b, name)(*q))[:3]

    def product(self, *q):
        """Leibniz: derivative of gap . gap."""
        total = 0.0
        for bits in range(2 ** len(q)):
            one = [x for i, x in enumerate(q) if bits >> i & 1]
            two = [x for i, x in enumerate(q) if not bits >> i & 1]
            total += self.gap(*one) @ self.gap(*two)
        return float(total)

    def h(self):
        return self.product() - self.length.q**2

    def h_dq(self, q1):
        return self.product(q1) - (2 * self.length.q if q1 is self.length else 0.0)

    def h_dqdq(self, q1, q2):
        return self.product(q1, q2) - (2.0 if q1 is q2 is self.length else 0.0)

    def h_dqdqdq(self, q1, q2, q3):
        return self.product(q1, q2, q3)

    def h_dqdqdqdq(self, q1, q2, q3, q4):
        return self.product(q1, q2, q3, q4)


def frames(system):
    system.import_frames(
        [
            rx("a"),
            [tz(-1.0, name="elbow", mass=(1.0, 0.1, 0.2, 0.3)), [ry("b"), [tz(-0.7, name="tip", mass=0.5)]]],
            tx("k", name="hook", kinematic=True),
        ]
    )
    trep.potentials.Gravity(system, (0, 0, -9.8))
    trep.Config(system, "length", kinematic=True)


def native(constrained=True):
    system = trep.System()
    frames(system)
    trep.potentials.ConfigSpring(system, "b", 3.0)
    trep.forces.Damping(system, 0.2)
    trep.forces.ConfigForce(system, "a", "tau")
    if constrained:
        trep.constraints.Distance(system, "hook", "tip", "length")
    return system


def written(constrained=True):
    system = trep.System()
    frames(system)
    Spring(system, "b", 3.0)
    Drag(system, 0.2, "a", "tau")
    if constrained:
        Rod(system, "hook", "tip", "length")
    return system


def mixed():
    """Native force and constraint, written potential."""
    system = trep.System()
    frames(system)
    Spring(system, "b", 3.0)
    trep.forces.Damping(system, 0.2)
    trep.forces.ConfigForce(system, "a", "tau")
    trep.constraints.Distance(system, "hook", "tip", "length")
    return system


Q, DQ = {"a": 0.4, "b": -0.6, "k": 0.2}, [0.3, -0.5, 0.1, -0.2]


def start(system):
    system.q = Q
    rod = system.get_frame("tip").p() - system.get_frame("hook").p()
    system.q = {"length": float(np.linalg.norm(rod))}
    return system.q


def pair(make):
    if make is written:
        return native(), written()
    return native(), mixed()


@pytest.mark.parametrize("make", [written, mixed])
def test_steps_and_derivatives_agree_with_native_twins(make):
    found = []
    for system in pair(make):
        q = start(system)
        mvi = trep.MidpointVI(system, tolerance=1e-14)
        mvi.initialize_from_state(0.0, q, [0.2, -0.1])
        for i in range(20):
            mvi.step(0.02 * (i + 1), [0.5], [0.2 + 0.01 * i, q[3] + 0.005 * i])
        found.append(mvi)
    a, b = found
    assert np.abs(b.calc_f()).max() < 1e-11
    for name in ("q2", "p2", "lambda1"):
        assert np.abs(getattr(a, name) - getattr(b, name)).max() < 1e-10, name
        for by in ("q1", "p1", "u1", "k2"):
            one, two = (getattr(m, f"{name}_d{by}")() for m in found)
            assert np.abs(one - two).max() < 1e-8 * (1 + np.abs(one).max()), (name, by)
        for by in ("dq1dq1", "dq1dp1", "dq1du1", "dq1dk2", "dp1dp1", "dp1du1", "dp1dk2", "du1du1", "du1dk2", "dk2dk2"):
            one, two = (getattr(m, f"{name}_{by}")() for m in found)
            assert one.shape == two.shape
            assert np.abs(one - two).max() < 1e-7 * (1 + np.abs(one).max()), (name, by)


@pytest.mark.parametrize("make", [written, mixed])
def test_continuous_dynamics_agree_with_native_twins(make):
    a, b = pair(make)
    for system in (a, b):
        start(system)
        system.set_state(dq=DQ, u=[0.7], ddqk=[0.3, -0.4])
    assert abs(a.L() - b.L()) < 1e-13
    assert abs(a.total_energy() - b.total_energy()) < 1e-13
    for name in (
        "f",
        "lambda_",
        "f_dq",
        "f_ddq",
        "f_du",
        "f_dddk",
        "lambda_dq",
        "lambda_ddq",
        "lambda_du",
        "lambda_dddk",
    ):
        one, two = getattr(a, name)(), getattr(b, name)()
        assert np.abs(one - two).max() < 1e-10 * (1 + np.abs(one).max()), name
    for by in ("dqdq", "ddqdq", "ddqddq", "dddkdq", "dudq", "duddq", "dudu"):
        for kind in ("f", "lambda"):
            one, two = getattr(a, f"{kind}_{by}")(), getattr(b, f"{kind}_{by}")()
            assert np.abs(one - two).max() < 1e-9 * (1 + np.abs(one).max()), (kind, by)
    for name in ("L_dq", "L_dqdq"):
        assert np.abs(getattr(a, name)() - getattr(b, name)()).max() < 1e-12
    assert np.abs(a.L_dqdqdq("b") - b.L_dqdqdq("b")).max() < 1e-12


def test_elements_validate_themselves():
    system = written()
    start(system)
    system.dq = DQ
    spring, drag, rod = Spring(system, "a", 1.0, 2.0), system.forces[0], system.constraints[0]
    assert spring.validate_V_dq()
    assert spring.validate_V_dqdq()
    assert spring.validate_V_dqdqdq()
    assert drag.validate_f_dq()
    assert drag.validate_f_ddq()
    assert rod.validate_h_dq()
    assert rod.validate_h_dqdq()
    assert rod.validate_h_dqdqdq()
    assert rod.validate_h_dqdqdqdq()
    other = native()
    start(other)
    h = other.constraints[0]
    assert h.validate_h_dq()
    assert h.validate_h_dqdq()
    assert h.validate_h_dqdqdq()
    assert h.validate_h_dqdqdqdq()
    assert other.potentials[0].validate_V_dqdqdq()

    class Wrong(Spring):
        def V_dq(self, q1):
            return 1.0

    assert not Wrong(system, "a", 1.0).validate_V_dq()


def test_nonlinear_user_potential_against_differences():
    system = trep.System()
    frames(system)
    Spring(system, "b", 3.0, 20.0)
    dsys = trep.discopt.DSystem(trep.MidpointVI(system), [0.0, 0.05, 0.1])
    x = dsys.build_state([0.4, -0.6, 0.2, 1.0], [0.1, 0.2], [0.0, 0.0])
    u = dsys.build_input(rho=[0.25, 1.0])
    assert dsys.check_fdx(x, u, 0)[0] < 1e-8
    assert dsys.check_fdxdx(x, u, 0)[0] < 1e-6
    assert dsys.check_fdxdu(x, u, 0)[0] < 1e-6
    A, _ = dsys.linearize_trajectory(np.stack([x, x, x]), np.stack([u, u]))
    assert A[0].shape == (8, 8)
    K = dsys.calc_feedback_controller(np.stack([x, x, x]), np.stack([u, u]))
    X, U = dsys.project(np.stack([x, x, x]), np.stack([u, u]), K)
    dsys.set(X[1], U[1], 1)
    assert np.abs(dsys.f() - X[2]).max() < 1e-13


def test_missing_derivatives_are_named():
    class Bare(trep.Potential):
        def V(self):
            return 0.0

        def V_dq(self, q1):
            return 0.0

    system = trep.System()
    system.import_frames([tx("x", mass=1.0)])
    Bare(system)
    assert system.f()[0] == 0.0
    with pytest.raises(NotImplementedError, match="Bare does not supply V_dqdq"):
        system.f_dq()


def test_equilibrium_and_constraints_with_user_elements():
    a, b = native(), written()
    for system in (a, b):
        system.q = {"a": 0.4, "b": -0.6, "k": 0.2, "length": 1.2}
        q = system.satisfy_constraints(keep_kinematic=True)
        assert abs(system.constraints[0].h()) < 1e-10
        assert q[2] == 0.2
        system.minimize_potential_energy(keep_kinematic=True)
        assert abs(system.constraints[0].h()) < 1e-8
    assert np.abs(a.q - b.q).max() < 1e-4
    assert abs(a.total_energy() - b.total_energy()) < 1e-7
