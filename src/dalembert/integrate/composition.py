"""Steps of higher order, composed of midpoint steps of different lengths (some of them backward).

The midpoint rule is symmetric and second order. Steps of lengths w_1 dt, ..., w_s dt with sum w_i = 1 and w_i = w_{s+1-i}, one after the other, are
symmetric too, and their order rises to four when sum w_i^3 = 0 (M. Suzuki, Phys. Lett. A 146, 1990: five steps), to six with two more conditions
(W. Kahan and R.-C. Li, Math. Comp. 66, 1997: nine steps). Each of them is variational, so momenta of symmetries, the symplectic form and the
constraints are kept as by one step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FOUR = 1 / (4 - 4 ** (1 / 3))
_SIX = (0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981, 0.082213596293550800230)


def _whole(*half: float) -> NDArray[np.float64]:
    parts = np.array([*half, 1 - 2 * sum(half), *half[::-1]])
    parts.flags.writeable = False
    return parts


_PARTS = {2: _whole(), 4: _whole(_FOUR, _FOUR), 6: _whole(*_SIX)}


def composition(order: int) -> NDArray[np.float64]:
    """Lengths (s,) of the midpoint steps that make one step of order 2, 4 or 6, as fractions of it: s = 1, 5 or 9.

    >>> composition(4).round(3)
    array([ 0.414,  0.414, -0.658,  0.414,  0.414])
    """
    if isinstance(order, bool) or order not in tuple(_PARTS):
        raise ValueError(f"order must be 2, 4 or 6, not {order!r}")
    return _PARTS[order]


def straight(start: NDArray[np.float64], ends: NDArray[np.float64], parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values (N, s, n) after every part of N steps, on straight lines from `start` (n,) through `ends` (N, n).

    >>> straight(np.zeros(1), np.ones((1, 1)), composition(4))[0, :, 0].round(3)
    array([0.414, 0.829, 0.171, 0.586, 1.   ])
    """
    if len(parts) == 1:
        return ends[:, None]
    before = np.vstack([start, ends[:-1]])
    out = before[:, None] + np.cumsum(parts)[:, None] * (ends - before)[:, None]
    out[:, -1] = ends
    return out
