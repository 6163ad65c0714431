"""Spline: a smooth function of one number, given by a table; used by nonlinear springs and cams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .parameter import Quantity, parameters_in


@dataclass(frozen=True)
class Spline:
    """Piecewise quintic through points (x, y), (x, y, y') or (x, y, y', y''), all of one kind, x increasing.

    Derivatives that are not given are chosen so that the curve is smooth (C4 from values alone; C2 otherwise).
    Outside the table the curve continues as the parabola through its last value, slope and curvature.

    >>> s = Spline(((0.0, 0.0), (1.0, 1.0), (2.0, 4.0), (3.0, 9.0)))
    >>> round(s(1.5), 12), round(s(1.5, 1), 12)
    (2.25, 3.0)
    """

    points: tuple[tuple[float, ...], ...]

    def __init__(self, points: Sequence[Sequence[float]]) -> None:
        try:
            if any(isinstance(x, (str, bytes, bool)) for row in points for x in row):
                raise TypeError
            table = tuple(tuple(x if isinstance(x, Quantity) else float(x) for x in row) for row in points)
        except (TypeError, ValueError, OverflowError):
            raise ModelError("spline points must be rows of numbers", culprit="spline") from None
        if len(table) < 2:
            raise ModelError("a spline needs at least two points", culprit="spline")
        if len({len(r) for r in table}) != 1 or not 2 <= len(table[0]) <= 4:
            raise ModelError("spline points must all be (x, y), (x, y, dy) or (x, y, dy, ddy)", culprit="spline")
        if not all(math.isfinite(x) for r in table for x in r):
            raise ModelError("spline points must be finite", culprit="spline")
        if any(b[0] <= a[0] for a, b in pairwise(table)):
            raise ModelError("spline points must have increasing x", culprit="spline")
        for p in parameters_in([r[0] for r in table]):
            raise ModelError(f"x of a spline's points cannot be a parameter ('{p.name}')", culprit=p.name)
        object.__setattr__(self, "points", table)

    @cached_property
    def knots(self) -> NDArray[np.float64]:
        """x of the points, shape (n,)."""
        return np.array([p[0] for p in self.points])

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        """Shape (n - 1, 6): y = sum_j c[i, j] (x - knots[i])**j on piece i."""
        table = np.array(self.points, dtype=np.float64)
        x, n = table[:, 0], len(table)
        derivs = table[:, 1:]
        if derivs.shape[1] < 3:
            from scipy.interpolate import CubicHermiteSpline, make_interp_spline

            if derivs.shape[1] == 1:
                degree = min(5, n - 1)
                curve = make_interp_spline(x, derivs[:, 0], k=degree)
                derivs = np.column_stack([curve(x, nu) if nu <= degree else 0 * x for nu in range(3)])
            else:
                cubic = CubicHermiteSpline(x, derivs[:, 0], derivs[:, 1])
                left = np.concatenate([[np.nan], cubic.c[1] * 2 + 6 * cubic.c[0] * np.diff(x)])
                right = np.concatenate([cubic.c[1] * 2, [np.nan]])
                derivs = np.column_stack([derivs, np.nanmean(np.array([left, right]), axis=0)])
        h = np.diff(x)[:, None]
        y0, y1 = derivs[:-1], derivs[1:]
        c = np.zeros((n - 1, 6))
        c[:, 0], c[:, 1], c[:, 2] = y0[:, 0], y0[:, 1], y0[:, 2] / 2
        # the quintic that also meets value, slope and curvature at the right end
        r0 = (y1[:, :1] - (c[:, :1] + c[:, 1:2] * h + c[:, 2:3] * h**2)) / h**3
        r1 = (y1[:, 1:2] - (c[:, 1:2] + 2 * c[:, 2:3] * h)) / h**2
        r2 = (y1[:, 2:3] - 2 * c[:, 2:3]) / h
        c[:, 3:4] = 10 * r0 - 4 * r1 + r2 / 2
        c[:, 4:5] = (-15 * r0 + 7 * r1 - r2) / h
        c[:, 5:6] = (6 * r0 - 3 * r1 + r2 / 2) / h**2
        return c

    def exact_pieces(self) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """`pieces`, where coefficients that depend on parameters say so (`Quantity`): they are linear in the values of the table."""
        ends: NDArray[np.float64]
        c: NDArray[Any]
        ends, c = self.pieces()
        for i, row in enumerate(self.points):
            for k, y in enumerate(row[1:], 1):
                if isinstance(y, Quantity):
                    unit = np.zeros((len(self.points), len(row)))
                    unit[:, 0], unit[i, k] = self.knots, 1.0
                    weight = Spline(unit.tolist()).pieces()[1]
                    c = c - weight * float(y) + weight.astype(object) * y
        return ends, c

    def pieces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(left ends (n + 1,), coefficients (n + 1, 6)): the table with both parabolic ends; -inf is the first end."""
        x, c = self.knots, self.coefficients
        first = np.array([c[0, 0], c[0, 1], c[0, 2], 0, 0, 0])
        h = x[-1] - x[-2]
        value = [
            sum(math.perm(j, k) * c[-1, j] * h ** (j - k) for j in range(k, 6)) / math.factorial(k) for k in range(3)
        ]
        last = np.array([*value, 0, 0, 0])
        return np.concatenate([[x[0]], x]), np.vstack([first, c, last])

    def __call__(self, x: float, derivative: int = 0) -> float:
        """Value (or derivative of the given order) at x."""
        ends, c = self.pieces()
        i = int(np.searchsorted(self.knots, x, side="right"))
        d = x - ends[i]
        return float(sum(math.perm(j, derivative) * c[i, j] * d ** (j - derivative) for j in range(derivative, 6)))
