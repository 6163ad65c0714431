"""CasADi: the step as a function with exact Jacobian and Hessian."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da

from .systems import ALL, cart, inputs


@pytest.mark.parametrize("name", list(ALL))
def test_values_and_derivatives(name):
    system, x0 = ALL[name]()
    starts, U = inputs(system, x0, batch=1)
    x, u = starts[0], U[0, 0]
    f = da.to_casadi(system)
    assert np.abs(np.array(f(x, u)).ravel() - system.f(x, u)).max() < 1e-12
    X, V, z = ca.MX.sym("x", system.nx), ca.MX.sym("u", system.nu), np.random.default_rng(0).normal(size=system.nx)
    J = ca.Function("J", [X, V], [ca.jacobian(f(X, V), ca.vertcat(X, V))])
    dx = np.random.default_rng(1).normal(size=system.nx)
    h = 1e-5
    ahead = (np.array(f(x + h * dx, u)) - np.array(f(x - h * dx, u))).ravel() / (2 * h)
    assert np.abs(np.array(J(x, u))[:, : system.nx] @ dx - ahead).max() < 1e-6 * max(1, np.abs(ahead).max())
    H = ca.Function("H", [X, V], [*ca.hessian(ca.dot(z, f(X, V)), ca.vertcat(X, V))])
    if name == "rk4":
        return  # its own second order is by differences
    hess, _grad = (np.array(a) for a in H(x, u))
    both = [np.array(H(x + s * h * dx, u)[1]).ravel() for s in (1, -1)]
    assert np.abs(hess - hess.T).max() < 1e-9 * max(1, np.abs(hess).max())
    assert np.abs(hess[:, : system.nx] @ dx - (both[0] - both[1]) / (2 * h)).max() < 1e-5 * max(1, np.abs(hess).max())
    if system.ndx == system.nx:
        A, B = system.linearize(x, u)
        assert np.abs(np.array(J(x, u)) - np.hstack([A, B])).max() < 1e-12 * max(1, np.abs(A).max())


def test_swing_up_with_opti():
    """IPOPT with exact Hessians finds the swing-up of a pendulum, and the motion is one of the system."""
    arm = da.Model(
        [da.rx("theta", da.tz(-1.0, mass=1.0))], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", "torque")]
    )
    system = da.System(da.MidpointVI(arm, 0.1), steps=30)
    f = da.to_casadi(system)
    opti = ca.Opti()
    X, U = opti.variable(2, 31), opti.variable(1, 30)
    opti.minimize(ca.sumsqr(U))
    opti.subject_to(X[:, 1:] == f.map(30)(X[:, :-1], U))
    opti.subject_to(X[:, 0] == 0)
    opti.subject_to(X[:, 30] == [np.pi, 0])
    opti.subject_to(opti.bounded(-6, U, 6))
    opti.set_initial(X, np.vstack([np.linspace(0, np.pi, 31), np.ones(31)]))
    opti.solver("ipopt", {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"})
    found = opti.solve()
    assert found.stats()["iter_count"] < 60
    motion = system.simulate([0, 0], found.value(U).reshape(30, 1))
    assert np.abs(motion - found.value(X).T).max() < 1e-6


def test_a_step_without_solution_is_an_error():
    system, _ = cart()
    with pytest.raises(RuntimeError):
        da.to_casadi(system)([0, 0, 0, 0], [1e300])
