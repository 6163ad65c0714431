"""Weight matrices from names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ..arrays import Array, by_pattern, number


class Names(Protocol):
    """What has names of tangent components and of inputs: a System, any one-step."""

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components."""

    @property
    def u_names(self) -> tuple[str, ...]:
        """Names of the inputs."""


def weights(system: Names, values: Mapping[str, float], default: float = 1.0, *, of: str = "x") -> Array:
    """Diagonal weight matrix (n, n) of a `system` by the names of its tangent components (`of="x"`) or inputs (`of="u"`).

    `values` are {name: weight}; entries not named get `default`.

    Names may contain the wildcards of a shell (`"p.*"`); a plain name wins over a pattern, and any pattern over "*". Unknown
    names are a ValueError. Positions and turns of a floating body may be called as motions show them, base.x and base.rx.

    >>> from types import SimpleNamespace
    >>> system = SimpleNamespace(dx_names=("theta", "p.theta"), u_names=("torque",))
    >>> weights(system, {"theta": 100})
    array([[100.,   0.],
           [  0.,   1.]])
    """
    if of not in ("x", "u"):
        raise ValueError(f"of must be 'x' or 'u', not {of!r}")
    known = getattr(system, "dx_names" if of == "x" else "u_names", None)
    if known is None:
        raise TypeError(f"weights need a System or an integrator that has names, not {type(system).__name__}")
    names = tuple(known)
    diagonal = np.full(len(names), number(default, "default"))
    for hits, pattern, value in by_pattern(values, names, f"weights of {'states' if of == 'x' else 'inputs'}"):
        diagonal[hits] = number(value, f"weight of {pattern!r}")
    if not np.isfinite(diagonal).all() or (diagonal < 0).any():
        raise ValueError("weights must be finite and not negative")
    return np.diag(diagonal)
