"""TapeMeasure: the length of the line through the origins of frames, and its rate, with exact derivatives by CasADi."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .element import validate
from .potential import _options

if TYPE_CHECKING:
    from .frame import Frame
    from .system import System


class TapeMeasure:
    """Length x = sum |p_{k+1} - p_k| through the origins of a list of frames, and its velocity.

    Derivatives do not exist where two neighbours coincide.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x"), [trep.ty("y", name="bob")]])
    >>> tape = trep.TapeMeasure(system, ["World", "bob"])
    >>> system.q, system.dq = [3.0, 4.0], [1.0, 0.0]
    >>> tape.length(), tape.length_dq("x"), tape.velocity()
    (5.0, 0.6, 0.6)
    """

    def __init__(self, system: System, frames: Sequence[Any]) -> None:
        self._system = system
        self._frames = tuple(system.get_frame(f) for f in frames)
        if len(self._frames) < 2:
            raise ValueError("a tape measure needs at least two frames")

    @property
    def system(self) -> System:
        """The system."""
        return self._system

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames that the line joins."""
        return self._frames

    def _derivative(self, *variables: Any) -> Any:
        point = self._system._point()
        symbolic = self._system._symbolic(point)
        names = [point.names.config(self._system.get_config(q)) for q in variables]

        def length() -> Any:
            import casadi as ca

            at = [symbolic.symbolic.position(point.names.frame(f)) for f in self._frames]
            return sum((ca.norm_2(b - a) for a, b in pairwise(at)), ca.SX(0))

        f = symbolic.function(("tape", *map(id, self._frames)), length, names, [])
        value = float(f(self._system._q[point.q], 0))
        if not np.isfinite(value):
            raise ZeroDivisionError("two frames of the tape measure coincide: the derivative does not exist")
        return value

    def _rate(self, *variables: Any) -> float:
        moving = [q for q in self._system.configs if q.dq and any(f.uses_config(q) for f in self._frames)]
        return float(sum(q.dq * self._derivative(q, *variables) for q in moving))

    def length(self) -> float:
        """Length."""
        return self._derivative()  # type: ignore[no-any-return]

    def length_dq(self, q1: object) -> float:
        """First derivative of the length."""
        return self._derivative(q1)  # type: ignore[no-any-return]

    def length_dqdq(self, q1: object, q2: object) -> float:
        """Second derivative of the length."""
        return self._derivative(q1, q2)  # type: ignore[no-any-return]

    def length_dqdqdq(self, q1: object, q2: object, q3: object) -> float:
        """Third derivative of the length."""
        return self._derivative(q1, q2, q3)  # type: ignore[no-any-return]

    def velocity(self) -> float:
        """Rate of the length."""
        return self._rate()

    def velocity_dq(self, q1: object) -> float:
        """Derivative of the rate by a variable."""
        return self._rate(q1)

    def velocity_ddq(self, dq1: object) -> float:
        """Derivative of the rate by a velocity."""
        return self._derivative(dq1)  # type: ignore[no-any-return]

    def velocity_dqdq(self, q1: object, q2: object) -> float:
        """Second derivative of the rate by variables."""
        return self._rate(q1, q2)

    def velocity_ddqdq(self, dq1: object, q2: object) -> float:
        """Mixed derivative of the rate."""
        return self._derivative(dq1, q2)  # type: ignore[no-any-return]

    def _check(self, value: Any, slope: Any, depth: int, velocity: bool, options: dict[str, Any]) -> bool:
        return validate(self._system, value, slope, depth, velocity, options)

    def validate_length_dq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check length_dq against differences."""
        return self._check(self.length, self.length_dq, 0, False, _options(delta, tolerance, verbose))

    def validate_length_dqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check length_dqdq against differences."""
        return self._check(self.length_dq, self.length_dqdq, 1, False, _options(delta, tolerance, verbose))

    def validate_length_dqdqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check length_dqdqdq against differences."""
        return self._check(self.length_dqdq, self.length_dqdqdq, 2, False, _options(delta, tolerance, verbose))

    def validate_velocity_dq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check velocity_dq against differences."""
        return self._check(self.velocity, self.velocity_dq, 0, False, _options(delta, tolerance, verbose))

    def validate_velocity_ddq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check velocity_ddq against differences."""
        return self._check(self.velocity, self.velocity_ddq, 0, True, _options(delta, tolerance, verbose))

    def validate_velocity_dqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check velocity_dqdq against differences."""
        return self._check(self.velocity_dq, self.velocity_dqdq, 1, False, _options(delta, tolerance, verbose))

    def validate_velocity_ddqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check velocity_ddqdq against differences."""
        return self._check(self.velocity_ddq, self.velocity_ddqdq, 1, False, _options(delta, tolerance, verbose))
