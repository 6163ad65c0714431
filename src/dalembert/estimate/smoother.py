"""Fixed-interval smoother (Rauch, Tung, Striebel 1965): the best estimate of every state from the whole record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, needed, number
from ..text import Brief
from .filter import Filtered, along, recentred


@dataclass(frozen=True, eq=False, repr=False)
class Smoothed(Brief):
    """`mean` (N+1, nx) and `covariance` (N+1, ndx, ndx) given all measurements."""

    mean: Array
    covariance: Array


def smooth(filtered: Filtered, *, tolerance: float = 1e-12) -> Smoothed:
    """Smooth `filtered`, what any of the filters returned from `run`.

    x_k gains G difference(x_{k+1 | k}, x_{k+1 | all}) with G = cov(x_k, x_{k+1}) P_{k+1|k}^-1; directions whose predicted
    variance is below `tolerance` of the largest (constraints, exactly known states) carry no information and are left. Estimates that are kept on
    constraints stay there.

    >>> import numpy as np
    >>> one, zero = np.ones((2, 1, 1)), np.zeros((2, 1))
    >>> f = Filtered(np.array([[0.0], [1.0]]), one / 2, zero, one, one[:1] / 2, zero, zero[:, 0], zero[:, 0] == 0)
    >>> smooth(f).mean.ravel(), smooth(f).covariance.ravel()
    (array([0.5, 1. ]), array([0.375, 0.5  ]))
    """
    needed(filtered, Filtered)
    tolerance = number(tolerance, "tolerance")
    mean, P, space = filtered.mean.copy(), filtered.covariance.copy(), filtered.system
    for k in reversed(range(len(mean) - 1)):
        ahead, guess = filtered.predicted_covariance[k + 1], filtered.predicted_mean[k + 1]
        values, vectors = np.linalg.eigh(ahead)
        good = values > tolerance * max(float(values[-1]), 0.0)
        G = (filtered.cross[k] @ vectors[:, good] / values[good]) @ vectors[:, good].T
        if space is None:
            mean[k] += G @ (mean[k + 1] - guess)
            known = P[k + 1]
        else:
            mean[k] = space.retract(mean[k], G @ space.difference(guess, mean[k + 1]))
            known = recentred(space, mean[k + 1], guess, P[k + 1])
        new = P[k] + G @ (known - ahead) @ G.T
        P[k] = (new + new.T) / 2
        if space is not None:
            P[k] = recentred(space, filtered.mean[k], mean[k], P[k])
            if filtered.reduced:
                mean[k] = space.settle(mean[k])
                free = space.tangent(mean[k][None])
                P[k] = along(None if free is None else free.onto[0], P[k])
    return Smoothed(mean, P)
