"""Bridges to python-control: the discrete linearization as a StateSpace, the step map as a nonlinear system."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import finite


def to_control(system: Any, x: Any = None, u: Any = None, *, k: int = 0, C: Any = None) -> Any:
    """A System as an object of python-control (needs the `control` package), with dt of step k and all names.

    With a point x (nx,), u (nu,): the linearization there, a discrete `control.StateSpace` (outputs C x, default x).
    Without: the step map itself, a discrete `control.NonlinearIOSystem` (outputs x).

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))],
    ...                     [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", input="torque")])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=1)
    >>> to_control(system, [0.2, 0.5], [0.8]).dt
    0.1
    """
    import control

    dt = float(np.asarray(system.dt)[k])
    # python-control reserves the dot for names of subsystems
    states, inputs = ([name.replace(".", "_") for name in names] for names in (system.x_names, system.u_names))
    if x is None:
        return control.nlsys(
            lambda t, x, u, params: system.f(np.asarray(x, dtype=float), np.asarray(u, dtype=float), k),
            None,
            inputs=inputs,
            states=states,
            outputs=states,
            dt=dt,
        )
    x = finite(x, "x", (system.nx,))
    u = np.zeros(system.nu) if u is None else finite(u, "u", (system.nu,))
    A, B = system.linearize(x, u, k)
    if C is None:
        return control.ss(A, B, np.eye(system.nx), np.zeros((system.nx, system.nu)), dt, states=states, inputs=inputs)
    C = finite(C, "C", (None, system.nx))
    return control.ss(A, B, C, np.zeros((len(C), system.nu)), dt, states=states, inputs=inputs)
