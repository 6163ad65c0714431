"""Bridges to python-control: the discrete linearization as a StateSpace, the step map as a nonlinear system."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import finite
from ..system import System


def to_control(
    system: System, x: ArrayLike | None = None, u: ArrayLike | None = None, *, k: int = 0, C: ArrayLike | None = None
) -> Any:
    """A System as an object of python-control (needs the `control` package), with dt of step k and all names.

    With a point x (nx,), u (nu,): the linearization there, a discrete `control.StateSpace` of dx (ndx) (outputs C dx, default dx).
    Without: the step map itself, a discrete `control.NonlinearIOSystem` (outputs x).

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))],
    ...                     [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", input="torque")])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=1)
    >>> to_control(system, [0.2, 0.5], [0.8]).dt
    0.1
    """
    import control

    dt = float(system.dt[k])

    def plain(names: tuple[str, ...]) -> list[str]:
        return [name.replace(".", "_") for name in names]  # python-control reserves the dot for names of subsystems

    states, inputs = plain(system.x_names), plain(system.u_names)
    if x is None:
        return control.nlsys(
            lambda t, x, u, params: system.f(np.asarray(x, dtype=float), np.asarray(u, dtype=float), k),
            None,
            inputs=inputs,
            states=states,
            outputs=states,
            dt=dt,
        )
    point = finite(x, "x", (system.nx,))
    A, B = system.linearize(point, np.zeros(system.nu) if u is None else finite(u, "u", (system.nu,)), k)
    rows = np.eye(system.ndx) if C is None else finite(C, "C", (None, system.ndx))
    return control.ss(A, B, rows, np.zeros((len(rows), system.nu)), dt, states=plain(system.dx_names), inputs=inputs)
