"""Force: base of trep's generalized forces; subclass it and define f, f_dq, ... for one of your own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .element import Element, validate
from .potential import _options
from .translation import input_parts


class Force(Element):
    """A generalized force. Own ones define f(q) and the derivatives f_dq(q, q1), f_ddq(q, dq1), f_du(q, u1), and for
    second-order work f_dqdq, f_ddqdq, f_ddqddq, f_dudq, f_duddq, f_dudu.

    >>> import dalembert.trep as trep
    >>> class Drag(trep.Force):
    ...     def f(self, q): return -q.dq ** 3
    ...     def f_ddq(self, q, dq1): return -3 * q.dq ** 2
    ...     def f_dq(self, q, q1): return 0.0
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=2.0)])
    >>> drag = Drag(system)
    >>> system.dq = 2.0
    >>> float(system.f()[0])
    -4.0
    """

    VALUES: ClassVar[tuple[str, ...]] = (
        *("f", "f_dq", "f_ddq", "f_du", "f_dqdq", "f_ddqdq"),
        *("f_ddqddq", "f_dudq", "f_duddq", "f_dudu"),
    )

    def _create_input(self, name: Any) -> Any:
        """An input for this force, by name."""
        return input_parts(self._system, name, self)

    def _state(self, point: Any) -> tuple[Any, Any]:
        system = self._system
        return system._dq[point.q], system._u[point.u]

    def f(self, q: object) -> float:
        """Force on a variable at the current state."""
        point, x = self._at("f")
        v, u = self._state(point)
        return float(self._kept("f", lambda: self._back(point, point.core.force(x, v, u), 1))[self._axis(q)])

    def _first(self, method: str, part: int) -> Any:
        point, x = self._at(method)
        v, u = self._state(point)

        def make() -> Any:
            fq, fv, fu = point.core.force_first(x, v, u)
            columns = np.zeros((len(x), self._system.nu))
            columns[:, point.u] = fu
            return self._back(point, fq, 2), self._back(point, fv, 2), self._back(point, columns, 1)

        return self._kept("first", make)[part]

    def _second(self, method: str, q: Any, part: int) -> Any:
        point, x = self._at(method)
        v, u = self._state(point)
        i = self._axis(q)

        def make() -> Any:
            qq, qv, vv, qu, vu, uu = point.core.force_second(x, v, u, (point.q == i).astype(float))
            nu = self._system.nu
            wide = []
            for block in (qu, vu):
                columns = np.zeros((len(x), nu))
                columns[:, point.u] = block
                wide.append(self._back(point, columns, 1))
            inputs = np.zeros((nu, nu))
            inputs[np.ix_(point.u, point.u)] = uu
            return *(self._back(point, block, 2) for block in (qq, qv, vv)), *wide, inputs

        return self._kept(f"second {i}", make)[part]

    def _input(self, u: Any) -> int:
        return self._system._input_index(u)

    def f_dq(self, q: object, q1: object) -> float:
        """Derivative by a variable."""
        return float(self._first("f_dq", 0)[self._axis(q), self._axis(q1)])

    def f_ddq(self, q: object, dq1: object) -> float:
        """Derivative by a velocity."""
        return float(self._first("f_ddq", 1)[self._axis(q), self._axis(dq1)])

    def f_du(self, q: object, u1: object) -> float:
        """Derivative by an input."""
        return float(self._first("f_du", 2)[self._axis(q), self._input(u1)])

    def f_dqdq(self, q: object, q1: object, q2: object) -> float:
        """Second derivative."""
        return float(self._second("f_dqdq", q, 0)[self._axis(q1), self._axis(q2)])

    def f_ddqdq(self, q: object, dq1: object, q2: object) -> float:
        """Second derivative."""
        return float(self._second("f_ddqdq", q, 1)[self._axis(q2), self._axis(dq1)])

    def f_ddqddq(self, q: object, dq1: object, dq2: object) -> float:
        """Second derivative."""
        return float(self._second("f_ddqddq", q, 2)[self._axis(dq1), self._axis(dq2)])

    def f_dudq(self, q: object, u1: object, q2: object) -> float:
        """Second derivative."""
        return float(self._second("f_dudq", q, 3)[self._axis(q2), self._input(u1)])

    def f_duddq(self, q: object, u1: object, dq2: object) -> float:
        """Second derivative."""
        return float(self._second("f_duddq", q, 4)[self._axis(dq2), self._input(u1)])

    def f_dudu(self, q: object, u1: object, u2: object) -> float:
        """Second derivative."""
        return float(self._second("f_dudu", q, 5)[self._input(u1), self._input(u2)])

    def validate_f_dq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check f_dq against differences of f."""
        return validate(self._system, self.f, self.f_dq, 1, False, _options(delta, tolerance, verbose))

    def validate_f_ddq(self, delta: float = 1e-6, tolerance: float = 1e-6, verbose: bool = False) -> bool:
        """Check f_ddq against differences of f."""
        return validate(self._system, self.f, self.f_ddq, 1, True, _options(delta, tolerance, verbose))
