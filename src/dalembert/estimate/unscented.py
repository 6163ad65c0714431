"""Unscented Kalman filter: means and covariances by sigma points instead of derivatives (Julier, Uhlmann 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, needed
from ..integrate import OneStep
from .filter import Estimate, GaussianFilter, along, check_finite, mean_of, root
from .measurement import Measurement


@dataclass(frozen=True, eq=False)
class UnscentedKalmanFilter(GaussianFilter):
    """The interface of `ExtendedKalmanFilter` (`system`, `measurement`, Q, R, `gate`, `reduced`); needs only f and h, no derivatives.

    `alpha`, `beta`, `kappa` place and weigh the 2 n + 1 sigma points, n = ndx, or the number of directions along constraints, on which
    they then lie. The square root of the covariance is taken by eigenvalues, so that singular covariances (exactly known states) are fine.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=10)
    >>> ukf = UnscentedKalmanFilter(system, da.measure(system, "theta"), Q=1e-4, R=0.01)
    >>> ukf.predict(ukf.start([0.3, 0.0], 1e-4), []).mean.round(2)
    array([ 0.29, -0.28])
    """

    system: OneStep
    measurement: Measurement
    Q: ArrayLike
    R: ArrayLike
    gate: float | None = None
    alpha: float = 0.5
    beta: float = 2.0
    kappa: float = 0.0
    reduced: bool | None = None

    def __post_init__(self) -> None:
        self._check()
        if not self.alpha > 0 or self._spread(self.map.ndx) <= 0:
            raise ValueError("alpha and ndx + kappa must be positive")

    def _spread(self, n: int) -> float:
        """n + lambda of the literature."""
        return self.alpha**2 * (n + self.kappa)

    def _points(self, mean: Array, P: Array) -> tuple[Array, Array, Array, Array]:
        """Sigma points (2 n + 1, nx), their differences from the mean (2 n + 1, ndx), weights of means and of covariances."""
        free = self.map.tangent(mean[None]) if self.tied else None
        factor = root(P) if free is None else free.basis[0] @ root(free.basis[0].T @ P @ free.basis[0])
        n = factor.shape[1]
        spread = self._spread(n)
        offsets = np.sqrt(spread) * factor.T
        away = np.vstack([np.zeros(len(P)), offsets, -offsets])
        weights = np.full(2 * n + 1, 1 / (2 * spread))
        weights[0] = 1 - n / spread
        spreads = weights.copy()
        spreads[0] += 1 - self.alpha**2 + self.beta
        return self.settle_all(self.map.retract(mean, away)), away, weights, spreads

    def propagate(self, estimate: Estimate, u: Array, k: int, dt: float | None = None) -> tuple[Estimate, Array]:
        """See `GaussianFilter.propagate`."""
        points, before, weights, spreads = self._points(estimate.mean, estimate.covariance)
        space, step = self.stepper(k, dt)
        images = self.settle_all(space.f_batch(points, u, step))
        mean = self.settle(mean_of(self.map, images, weights, images[0]))
        onto = self.onto(mean)
        after = self.map.difference(mean, images)
        after = after if onto is None else after @ onto.T
        new = after.T @ (spreads[:, None] * after) + along(onto, self.noise(k, dt))
        new = (new + new.T) / 2
        check_finite(mean, new, self.map, k)
        return Estimate(mean, new), before.T @ (spreads[:, None] * after)

    def update(self, estimate: Estimate, z: ArrayLike | None, u: ArrayLike | None = None) -> Estimate:
        """See `GaussianFilter.update`."""
        if z is None:
            return self.unmeasured(estimate)
        P, felt = needed(estimate, Estimate).covariance, self.felt(u)
        points, away, weights, spreads = self._points(estimate.mean, P)
        first = self.measurement.expected(points[0], felt)
        # relative to the centre, so that angles do not average across their cut
        offsets = np.stack([self.measurement.innovation(self.measurement.expected(x, felt), first) for x in points])
        shift = weights @ offsets
        deviation = offsets - shift
        S = deviation.T @ (spreads[:, None] * deviation)
        cross = away.T @ (spreads[:, None] * deviation)

        def joseph(K: Array, rows: Any, R: Array) -> Array:
            return np.asarray(P - K @ (S[rows][:, rows] + R) @ K.T)

        return self._gaussian_update(estimate, z, first + shift, S, cross, joseph)
