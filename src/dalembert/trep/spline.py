"""Spline: trep's curve through points, over dalembert's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import Spline as _Spline


class Spline:
    """Curve through points (x, y[, dy[, ddy]]); derivatives that are missing or None are chosen smooth.

    >>> s = Spline([(0, 0), (1, 1), (2, 4), (3, 9)])
    >>> round(s.y(1.5), 9), round(s.dy(1.5), 9), round(s.ddy(1.5), 9)
    (2.25, 3.0, 2.0)
    """

    def __init__(self, data: Any) -> None:
        rows = [list(row) for row in data]
        given = [row[2:] + [None] * (4 - len(row)) for row in rows]
        depth = max((i + 1 for row in given for i, x in enumerate(row) if x is not None), default=0)
        table = [tuple(row[:2]) for row in rows]
        if depth:
            # a point that leaves a derivative open takes it from the curve through the values
            smooth = _Spline(table)
            table = [
                (x, y, *(smooth(x, i + 1) if d[i] is None else d[i] for i in range(depth)))
                for (x, y), d in zip(table, given, strict=True)
            ]
        self._curve = _Spline(table)

    @property
    def x_points(self) -> NDArray[np.float64]:
        """x of the points."""
        return np.array([p[0] for p in self._curve.points])

    @property
    def y_points(self) -> NDArray[np.float64]:
        """y of the points."""
        return np.array([p[1] for p in self._curve.points])

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """(n - 1, 6): y = sum_j c[i, j] (x - x_i)^j on piece i."""
        return self._curve.coefficients.copy()

    def copy(self) -> Spline:
        """A spline with the same points."""
        return Spline(self._curve.points)

    def y(self, x: float) -> float:
        """Value."""
        return self._curve(float(x))

    def dy(self, x: float) -> float:
        """Slope."""
        return self._curve(float(x), 1)

    def ddy(self, x: float) -> float:
        """Second derivative."""
        return self._curve(float(x), 2)
