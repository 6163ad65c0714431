"""What "along a trajectory" may be: a System or any one-step, and a Trajectory, a pair of arrays, or what has one of them."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from ..arrays import Array, finite
from ..integrate import OneStep, Trajectory
from ..system import System, as_system


class Planned(Protocol):
    """States X (N+1, nx) and inputs U (N, nu), as an Optimization has."""

    @property
    def X(self) -> Array:
        """States."""

    @property
    def U(self) -> Array:
        """Inputs."""


Reference = Trajectory | tuple[ArrayLike, ArrayLike] | Planned


def reference_arrays(system: OneStep, reference: Reference) -> tuple[System, Array, Array]:
    """(system, X (N+1, nx), U (N, nu)) from a Trajectory, an Optimization or a pair (X, U); lengths checked against the system."""
    if not all(hasattr(system, name) for name in ("nx", "nu")):
        raise TypeError(f"a System or an integrator is needed, not {type(system).__name__}")
    if not isinstance(reference, (tuple, Trajectory)) and hasattr(reference, "X") and hasattr(reference, "U"):
        reference = (reference.X, reference.U)
    if isinstance(reference, tuple) and len(reference) == 2:
        X, U = reference
        steps = len(finite(U, "U", (None, system.nu)))
        whole = as_system(system, steps=steps)
    elif isinstance(reference, Trajectory):
        steps = reference.steps
        whole = as_system(system, t=reference.t)
        X, U = whole.from_trajectory(reference)
    else:
        raise TypeError(
            f"the reference must be a Trajectory, a pair (X, U) or the result of optimize, not {type(reference).__name__}"
        )
    X = finite(X, "X", (steps + 1, system.nx))
    U = finite(U, "U", (steps, system.nu))
    if whole.steps != steps:
        raise ValueError(f"the trajectory has {steps} steps, but the system {whole.steps}")
    return whole, X, U
