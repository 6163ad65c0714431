"""Potential: base of trep's potential energies; subclass it and define V, V_dq, ... for one of your own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .element import Element, validate


class Potential(Element):
    """A potential energy. Own ones define V(), V_dq(q1), V_dqdq(q1, q2), and V_dqdqdq(q1, q2, q3) for second-order work.

    >>> import dalembert.trep as trep
    >>> class Cubic(trep.Potential):
    ...     def V(self): return self.system.q[0] ** 3
    ...     def V_dq(self, q1): return 3 * self.system.q[0] ** 2
    ...     def V_dqdq(self, q1, q2): return 6 * self.system.q[0]
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=2.0)])
    >>> spring = Cubic(system)
    >>> system.q = 1.0
    >>> float(system.f()[0])
    -1.5
    """

    VALUES: ClassVar[tuple[str, ...]] = ("V", "V_dq", "V_dqdq", "V_dqdqdq")

    def V(self) -> float:
        """Value at the current configuration."""
        point, q = self._at("V")
        return float(self._kept("V", lambda: point.core.potential(q, False)[0]))

    def V_dq(self, q1: object) -> float:
        """First derivative."""
        point, q = self._at("V_dq")
        g = self._kept("V_dq", lambda: self._back(point, point.core.potential(q, False)[1], 1))
        return float(g[self._axis(q1)])

    def V_dqdq(self, q1: object, q2: object) -> float:
        """Second derivative."""
        point, q = self._at("V_dqdq")
        h = self._kept("V_dqdq", lambda: self._back(point, point.core.potential(q, True)[2], 2))
        return float(h[self._axis(q1), self._axis(q2)])

    def V_dqdqdq(self, q1: object, q2: object, q3: object) -> float:
        """Third derivative."""
        point, q = self._at("V_dqdqdq")
        i = self._axis(q1)

        def third() -> Any:  # of L at rest, where the kinetic energy has no derivative by q
            along = (point.q == i).astype(float)
            rest = np.zeros_like(q)
            return -self._back(point, point.core.third(q, rest, along, rest)[0], 2)

        return float(self._kept(f"V_dqdqdq {i}", third)[self._axis(q2), self._axis(q3)])

    def validate_V_dq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check V_dq against differences of V."""
        return validate(self._system, self.V, self.V_dq, 0, False, _options(delta, tolerance, verbose))

    def validate_V_dqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check V_dqdq against differences of V_dq."""
        return validate(self._system, self.V_dq, self.V_dqdq, 1, False, _options(delta, tolerance, verbose))

    def validate_V_dqdqdq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check V_dqdqdq against differences of V_dqdq."""
        return validate(self._system, self.V_dqdq, self.V_dqdqdq, 2, False, _options(delta, tolerance, verbose))


def _options(delta: float, tolerance: float, verbose: bool) -> dict[str, Any]:
    return {"delta": delta, "tolerance": tolerance, "verbose": verbose}
