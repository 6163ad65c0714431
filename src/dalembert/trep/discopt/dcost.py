"""DCost: the quadratic tracking cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class DCost:
    """1/2 (x - xd)'Q(x - xd) + 1/2 (u - ud)'R(u - ud) per step, and 1/2 with Qf (default Q) at the end.

    Subclasses may override the methods below; the optimizer calls nothing else.

    >>> cost = DCost([[0.0], [1.0]], [[0.0]], np.eye(1), np.eye(1))
    >>> float(cost.l(np.array([2.0]), np.array([1.0]), 0)), float(cost.m(np.array([2.0])))
    (2.5, 0.5)
    """

    def __init__(self, xd: object, ud: object, Q: object, R: object, Qf: object = None) -> None:
        self.xd, self.ud = np.array(xd, dtype=float), np.array(ud, dtype=float)
        self.Q, self.R = np.array(Q, dtype=float), np.array(R, dtype=float)
        self.Qf = self.Q.copy() if Qf is None else np.array(Qf, dtype=float)
        if self.xd.ndim != 2 or self.ud.ndim != 2 or len(self.ud) != len(self.xd) - 1:
            raise ValueError(f"xd (N+1, nX) and ud (N, nU) are needed, not {self.xd.shape} and {self.ud.shape}")
        nx, nu = self.xd.shape[1], self.ud.shape[1]
        for what, weight, n in (("Q", self.Q, nx), ("R", self.R, nu), ("Qf", self.Qf, nx)):
            if weight.shape != (n, n):
                raise ValueError(f"{what} has shape {weight.shape}, but ({n}, {n}) is needed")
        if not all(np.isfinite(x).all() for x in (self.xd, self.ud, self.Q, self.R, self.Qf)):
            raise ValueError("references and weights must be finite")

    def l(self, xk: Array, uk: Array, k: int) -> float:  # noqa: E743
        """Cost of step k."""
        dx, du = xk - self.xd[k], uk - self.ud[k]
        return 0.5 * float(dx @ self.Q @ dx + du @ self.R @ du)

    def l_dx(self, xk: Array, uk: Array, k: int) -> Array:
        """Derivative by x."""
        return self.Q @ (xk - self.xd[k])

    def l_du(self, xk: Array, uk: Array, k: int) -> Array:
        """Derivative by u."""
        return self.R @ (uk - self.ud[k])

    def l_dxdx(self, xk: Array, uk: Array, k: int) -> Array:
        """Second derivative by x."""
        return self.Q

    def l_dxdu(self, xk: Array, uk: Array, k: int) -> Array:
        """Mixed second derivative, (nX, nU)."""
        return np.zeros((len(self.Q), len(self.R)))

    def l_dudu(self, xk: Array, uk: Array, k: int) -> Array:
        """Second derivative by u."""
        return self.R

    def m(self, xkf: Array) -> float:
        """Cost of the end."""
        dx = xkf - self.xd[-1]
        return 0.5 * float(dx @ self.Qf @ dx)

    def m_dx(self, xkf: Array) -> Array:
        """Derivative of the cost of the end."""
        return self.Qf @ (xkf - self.xd[-1])

    def m_dxdx(self, xkf: Array) -> Array:
        """Second derivative of the cost of the end."""
        return self.Qf
