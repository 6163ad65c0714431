"""Spline: trep's curve through points, over dalembert's."""

from __future__ import annotations

from bisect import bisect_right
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
        table = [(*row, *[None] * (4 - len(row))) for row in rows]
        depth = max((i for row in table for i, x in enumerate(row) if x is not None), default=1)
        if all(row[i] is not None for row in table for i in range(depth + 1)):
            self._curve = _Spline([row[: depth + 1] for row in table])
        else:
            self._curve = _Spline(_complete(table))
        self._ends, self._pieces = (
            part.tolist() for part in self._curve.pieces()
        )  # lists: one number at a time is asked for

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

    def _piece(self, x: float) -> tuple[float, list[float]]:
        i = max(bisect_right(self._ends, x) - 1, 0)
        return x - self._ends[i], self._pieces[i]

    def y(self, x: float) -> float:
        """Value."""
        d, (a, b, c, e, f, g) = self._piece(float(x))
        return a + d * (b + d * (c + d * (e + d * (f + d * g))))

    def dy(self, x: float) -> float:
        """Slope."""
        d, (_, b, c, e, f, g) = self._piece(float(x))
        return b + d * (2 * c + d * (3 * e + d * (4 * f + d * 5 * g)))

    def ddy(self, x: float) -> float:
        """Second derivative."""
        d, (_, _, c, e, f, g) = self._piece(float(x))
        return 2 * c + d * (6 * e + d * (12 * f + d * 20 * g))


def _complete(table: list[tuple[Any, ...]]) -> list[tuple[float, ...]]:
    """Fill in the derivatives that some points leave open: the curve gets continuous third (and fourth) derivatives
    there, which vanish at an open end."""
    x = np.array([row[0] for row in table], dtype=float)
    n = len(x)
    open_ = [(i, j) for i, row in enumerate(table) for j in (2, 3) if row[j] is None]

    def conditions(values: NDArray[np.float64]) -> NDArray[np.float64]:
        c = _Spline(np.column_stack([x, values]).tolist()).coefficients  # linear in the values
        h = np.diff(x)
        left = {3: 6 * c[:, 3], 4: 24 * c[:, 4]}  # derivatives at the left ends of the pieces, and at the right ends
        right = {3: 6 * c[:, 3] + 24 * c[:, 4] * h + 60 * c[:, 5] * h**2, 4: 24 * c[:, 4] + 120 * c[:, 5] * h}
        out = []
        for i in sorted({i for i, _ in open_}):
            for order in (3, 4)[: sum(k == i for k, _ in open_)]:
                out.append((right[order][i - 1] if i else 0.0) - (left[order][i] if i < n - 1 else 0.0))
        return np.array(out)

    values = np.array([[0.0 if v is None else v for v in row[1:]] for row in table], dtype=float)
    columns = []
    for i, j in open_:
        unit = np.zeros_like(values)
        unit[i, j - 1] = 1.0
        columns.append(conditions(unit))
    found = np.linalg.lstsq(np.column_stack(columns), -conditions(values), rcond=None)[0]
    for (i, j), value in zip(open_, found, strict=True):
        values[i, j - 1] = value
    return np.column_stack([x, values]).tolist()  # type: ignore[no-any-return]
