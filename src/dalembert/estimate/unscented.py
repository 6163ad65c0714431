"""Unscented Kalman filter: means and covariances by sigma points instead of derivatives (Julier, Uhlmann 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from .filter import Estimate, GaussianFilter, check_finite, propagate
from .measurement import Measurement


@dataclass(frozen=True, eq=False)
class UnscentedKalmanFilter(GaussianFilter):
    """The interface of `ExtendedKalmanFilter`; needs only f and h, no derivatives.

    `alpha`, `beta`, `kappa` place and weigh the 2 nx + 1 sigma points. The square root of the covariance is taken by
    eigenvalues, so that singular covariances (constraints, exactly known states) are fine.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=10)
    >>> ukf = UnscentedKalmanFilter(system, da.measure(system, "theta"), Q=1e-4, R=0.01)
    >>> ukf.predict(ukf.start([0.3, 0.0], 1e-4), []).mean.round(2)
    array([ 0.29, -0.28])
    """

    system: Any
    measurement: Measurement
    Q: Any
    R: Any
    gate: float | None = None
    alpha: float = 0.5
    beta: float = 2.0
    kappa: float = 0.0

    def __post_init__(self) -> None:
        self._check()
        if not self.alpha > 0 or self._spread() <= 0:
            raise ValueError("alpha and nx + kappa must be positive")

    def _spread(self) -> float:
        """n + lambda of the literature."""
        return self.alpha**2 * (self.system.nx + self.kappa)

    def _points(self, mean: Array, P: Array) -> tuple[Array, Array, Array]:
        """Sigma points (2n+1, n), weights of means and of covariances."""
        n = len(mean)
        spread = self._spread()
        values, vectors = np.linalg.eigh(P)
        root = vectors * np.sqrt(np.clip(values, 0.0, None))
        offsets = np.sqrt(spread) * root.T
        points = np.vstack([mean, mean + offsets, mean - offsets])
        weights = np.full(2 * n + 1, 1 / (2 * spread))
        weights[0] = 1 - n / spread
        spreads = weights.copy()
        spreads[0] += 1 - self.alpha**2 + self.beta
        return points, weights, spreads

    def _predict(self, estimate: Estimate, u: Array, k: int) -> tuple[Estimate, Array]:
        points, weights, spreads = self._points(estimate.mean, estimate.covariance)
        images = propagate(self.system, points, u, k)
        mean = weights @ images
        before, after = points - estimate.mean, images - mean
        new = after.T @ (spreads[:, None] * after) + self.noise(k)
        new = (new + new.T) / 2
        check_finite(mean, new, self.system.x_names, k)
        return Estimate(mean, new), before.T @ (spreads[:, None] * after)

    def update(self, estimate: Estimate, z: Any) -> Estimate:
        """The estimate after a measurement z (nz,); NaN entries are missing, None means nothing was measured."""
        P = estimate.covariance
        points, weights, spreads = self._points(estimate.mean, P)
        first = np.asarray(self.measurement.h(points[0]), dtype=float)
        # relative to the centre, so that angles do not average across their cut
        offsets = np.stack([self.measurement.innovation(np.asarray(self.measurement.h(x)), first) for x in points])
        shift = weights @ offsets
        deviation = offsets - shift
        S = deviation.T @ (spreads[:, None] * deviation)
        cross = (points - estimate.mean).T @ (spreads[:, None] * deviation)

        def joseph(K: Array, rows: Any) -> Array:
            total = S[np.ix_(rows, rows)] + self.R[np.ix_(rows, rows)]
            return np.asarray(P - K @ total @ K.T)

        return self._gaussian_update(estimate, z, first + shift, S, cross, joseph)
