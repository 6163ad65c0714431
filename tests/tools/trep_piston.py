"""Stands in for the C extension of trep's `radial` example, which is compiled against trep's headers: a force of -magnitude
times a curve of the crank's angle along the z axis of a piston. A class that inherits from it and from trep.Force sets
the attributes; second derivatives are not there, as in the original."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class _PistonForce:
    _piston: Any
    _crank_angle: Any
    _combustion_model: Any
    _offset: float
    _magnitude: float

    def __init__(self) -> None:
        """Nothing: attributes are set by the class that inherits."""

    def _angle(self) -> float:
        return float((self._crank_angle.q - self._offset) % (2 * math.pi))

    def f(self, q: Any) -> float:
        if not self._piston.uses_config(q):
            return 0.0
        along = (self._piston.g_inv() @ self._piston.g_dq(q))[2, 3]
        return float(-self._magnitude * self._combustion_model.y(self._angle()) * along)

    def f_dq(self, q: Any, other: Any) -> float:
        piston, curve, angle = self._piston, self._combustion_model, self._angle()
        if not piston.uses_config(q):
            return 0.0
        slope = 0.0
        if piston.uses_config(other):
            moved = np.asarray(piston.g_inv_dq(other)) @ piston.g_dq(q) + piston.g_inv() @ piston.g_dqdq(q, other)
            slope += curve.y(angle) * moved[2, 3]
        if other is self._crank_angle:
            slope += curve.dy(angle) * (piston.g_inv() @ piston.g_dq(q))[2, 3]
        return float(-self._magnitude * slope)

    def f_ddq(self, q: Any, other: Any) -> float:
        return 0.0

    def f_du(self, q: Any, u: Any) -> float:
        return 0.0
