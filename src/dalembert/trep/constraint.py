"""Constraint: base of trep's holonomic constraints h(q) = 0; subclass it and define h, h_dq, ... for one of your own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .component import number
from .element import Element, validate
from .potential import _options


class Constraint(Element):
    """A holonomic constraint h(q) = 0, one row. Own ones define h(), h_dq(q1), h_dqdq(q1, q2), and to the fourth
    derivative for second-order work.

    A step of `MidpointVI` ends only when |h| is below `tolerance` (absolute) at its end; see there.
    """

    VALUES: ClassVar[tuple[str, ...]] = ("h", "h_dq", "h_dqdq", "h_dqdqdq", "h_dqdqdqdq")

    def __init__(self, system: Any, name: str | None = None, tolerance: float = 1e-10) -> None:
        super().__init__(system, name)
        self.tolerance = tolerance

    @property
    def tolerance(self) -> float:
        """Bound on |h| at the end of a step; a new one holds from the next step on."""
        return self._tolerance

    @tolerance.setter
    def tolerance(self, value: float) -> None:
        value = number(value, "tolerance")
        if value <= 0:
            raise ValueError(f"tolerance must be positive, not {value}")
        self._tolerance = value
        self._system._forget_tolerances()

    @property
    def index(self) -> int:
        """Index in `System.constraints`."""
        return next(i for i, c in enumerate(self._system.constraints) if c is self)

    def h(self) -> float:
        """Value at the current configuration."""
        point, q = self._at("h")
        return float(self._kept("h", lambda: point.core.constraints(q[None])[0][0, 0]))

    def h_dq(self, q1: object) -> float:
        """First derivative."""
        point, q = self._at("h_dq")
        row = self._kept("h_dq", lambda: self._back(point, point.core.constraints(q[None])[1][0, 0], 1))
        return float(row[self._axis(q1)])

    def h_dqdq(self, q1: object, q2: object) -> float:
        """Second derivative."""
        point, q = self._at("h_dqdq")
        table = self._kept("h_dqdq", lambda: self._back(point, point.core.constraint_second(q, np.ones(1)), 2))
        return float(table[self._axis(q1), self._axis(q2)])

    def h_dqdqdq(self, q1: object, q2: object, q3: object) -> float:
        """Third derivative."""
        point, q = self._at("h_dqdqdq")
        i = self._axis(q1)

        def third() -> Any:
            along = (point.q == i).astype(float)
            return self._back(point, point.core.constraint_third(q, np.ones(1), along), 2)

        return float(self._kept(f"h_dqdqdq {i}", third)[self._axis(q2), self._axis(q3)])

    def h_dqdqdqdq(self, q1: object, q2: object, q3: object, q4: object) -> float:
        """Fourth derivative."""
        point, _ = self._at("h_dqdqdqdq")
        names = [point.names.config(self._system.configs[self._axis(q)]) for q in (q1, q2, q3, q4)]
        symbolic = self._system._symbolic(point)
        return symbolic.derivative("h", names, [])

    def validate_h_dq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check h_dq against differences of h."""
        return validate(self._system, self.h, self.h_dq, 0, False, _options(delta, tolerance, verbose))

    def validate_h_dqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check h_dqdq against differences of h_dq."""
        return validate(self._system, self.h_dq, self.h_dqdq, 1, False, _options(delta, tolerance, verbose))

    def validate_h_dqdqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check h_dqdqdq against differences of h_dqdq."""
        return validate(self._system, self.h_dqdq, self.h_dqdqdq, 2, False, _options(delta, tolerance, verbose))

    def validate_h_dqdqdqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check h_dqdqdqdq against differences of h_dqdqdq."""
        return validate(self._system, self.h_dqdqdq, self.h_dqdqdqdq, 3, False, _options(delta, tolerance, verbose))
