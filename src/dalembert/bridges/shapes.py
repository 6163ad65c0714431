"""Shapes of states and inputs with leading axes, the same for every framework."""

from __future__ import annotations

import numpy as np

from dalembert import System


def together(system: System, x: tuple[int, ...], U: tuple[int, ...], first: int) -> tuple[int, ...]:
    """The leading axes of states x (..., nx) and inputs U (..., m, nu) together; ValueError that says what does not fit."""
    if x[-1:] != (system.nx,):
        names = ", ".join(system.x_names[:6]) + (", ..." if system.nx > 6 else "")
        raise ValueError(f"states must have the shape (..., {system.nx}) ({names}), not {tuple(x)}")
    if len(U) < 2 or U[-1] != system.nu:
        raise ValueError(
            f"inputs must have the shape (..., steps, {system.nu}) ({', '.join(system.u_names)}), not {tuple(U)}"
        )
    if not 0 <= first < first + U[-2] <= system.steps:
        raise ValueError(f"steps {first} to {first + U[-2]} are asked for, the system has {system.steps}")
    try:
        return np.broadcast_shapes(tuple(x[:-1]), tuple(U[:-2]))
    except ValueError:
        raise ValueError(f"leading axes of states {tuple(x)} and inputs {tuple(U)} do not fit together") from None
