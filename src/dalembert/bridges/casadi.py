"""CasADi: the step as an external function with exact Jacobian and Hessian, for Opti and IPOPT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dalembert import System

if TYPE_CHECKING:
    import casadi as ca


def to_casadi(system: System, k: int = 0, *, name: str = "step") -> ca.Function:
    """Step k of a system as a CasADi function (x (nx), u (nu)) -> next (nx), called `name`, with exact derivatives of first and second order.

    It takes numbers and MX expressions, can be mapped and used in Opti; its numbers come from the core. Steps of equal length are one function.
    A step that has no solution is an error of the evaluation, from which IPOPT goes back to a shorter step. Functions made here live as long
    as the program.

    >>> import dalembert as da, casadi as ca
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, mass=1.0))], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", "torque")])
    >>> step = da.to_casadi(da.System(da.MidpointVI(pendulum, dt=0.1), steps=1))
    >>> opti = ca.Opti()
    >>> X, U = opti.variable(2, 11), opti.variable(1, 10)
    >>> opti.minimize(ca.sumsqr(U))
    >>> opti.subject_to(X[:, 1:] == step.map(10)(X[:, :-1], U))
    >>> opti.subject_to(X[:, 0] == [0.5, 0.0])
    >>> opti.subject_to(X[:, -1] == 0.0)
    >>> opti.solver("ipopt", {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"})
    >>> found = opti.solve()
    >>> bool(abs(found.value(X[:, -1])).max() < 1e-8)
    True
    """
    from .callbacks import Step

    return Step(name, system, k)
