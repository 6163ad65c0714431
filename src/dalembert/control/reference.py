"""What "along a trajectory" may be: a System or integrator, and a Trajectory or a pair of arrays."""

from __future__ import annotations

from typing import Any

from ..arrays import Array, finite


def as_system(system: Any, *, steps: int | None = None, t: Any = None) -> Any:
    """A System as it is; an integrator becomes the System over `t` (N+1,) or the given number of steps."""
    if hasattr(system, "linearize_trajectory"):
        return system
    from ..system import System

    return System(system, t=t) if t is not None else System(system, steps=steps)


def reference_arrays(system: Any, reference: Any) -> tuple[Any, Array, Array]:
    """(system, X (N+1, nx), U (N, nu)) from a Trajectory or a pair (X, U); lengths checked against the system."""
    if isinstance(reference, tuple) and len(reference) == 2:
        steps = len(reference[1])
        system = as_system(system, steps=steps)
        X, U = reference
    else:
        system = as_system(system, t=reference.t)
        steps = len(reference.t) - 1
        X, U = system.from_trajectory(reference)
    X = finite(X, "X", (steps + 1, system.nx))
    U = finite(U, "U", (steps, system.nu))
    if system.steps != steps:
        raise ValueError(f"the trajectory has {steps} steps, but the system {system.steps}")
    return system, X, U
