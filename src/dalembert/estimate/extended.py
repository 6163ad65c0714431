"""Extended Kalman filter on the one-step map, with its exact linearization, in Joseph form.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 3 (Fig. 6); Schultz, Murphey, Embedded
control synthesis using one-step methods in discrete mechanics, section III-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, needed
from ..integrate import OneStep
from .filter import Estimate, GaussianFilter, along, check_finite
from .measurement import Measurement


@dataclass(frozen=True, eq=False)
class ExtendedKalmanFilter(GaussianFilter):
    """x' = f(x, u) + w, z = h(x) + e with covariances Q of w (ndx, ndx) or (N, ndx, ndx), R of e (nz, nz).

    Q and R may be a number, variances, or matrices; R must be positive definite, Q may be singular. `gate` (a
    probability, e.g. 0.999) refuses measurements farther off than that; None accepts all. `system` is a System or
    any other one-step (e.g. `EulerModel`); covariances are those of tangent vectors at the mean. Where there are constraints estimates
    stay on them, with the linearization of `reduce_state`; `reduced=False` filters the whole state, as the papers do.

    The covariance update is (1 - K H) P (1 - K H)' + K R K', which stays positive semidefinite for any gain.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=100)
    >>> truth = system.simulate([1.0, 0.0], np.zeros((100, 0)))
    >>> Z = truth[:, :1] + 0.1 * np.random.default_rng(0).normal(size=(101, 1))
    >>> ekf = ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-4, R=0.01)
    >>> result = ekf.run(ekf.start([0.8, 0.0], 0.1), np.zeros((100, 0)), Z)
    >>> bool(np.abs(result.mean - truth)[50:, 0].mean() < 0.5 * np.abs(Z - truth[:, :1])[50:].mean())
    True
    """

    system: OneStep
    measurement: Measurement
    Q: ArrayLike
    R: ArrayLike
    gate: float | None = None
    reduced: bool | None = None

    def __post_init__(self) -> None:
        self._check()

    def propagate(self, estimate: Estimate, u: Array, k: int, dt: float | None = None) -> tuple[Estimate, Array]:
        """See `GaussianFilter.propagate`; the step is solved once."""
        P = estimate.covariance
        space, step = self.stepper(k, dt)
        mean, A, _ = space.advance(estimate.mean, u, step)
        noise = self.noise(k, dt)
        end = space.tangent(mean[None]) if self.tied else None
        if end is not None:  # in the gauge in which the step ends; the mean goes on without it
            A = end.basis[0] @ (end.lower[0] @ A)
            mean, noise = space.settle(mean), along(end.onto[0], noise)
        AP = A @ P
        new = AP @ A.T + noise
        new = (new + new.T) / 2
        check_finite(mean, new, self.map, k)
        return Estimate(mean, new), AP.T

    def update(self, estimate: Estimate, z: ArrayLike | None, u: ArrayLike | None = None) -> Estimate:
        """See `GaussianFilter.update`."""
        if z is None:
            return self.unmeasured(estimate)
        P, felt = needed(estimate, Estimate).covariance, self.felt(u)
        H = self.measurement.slope(estimate.mean, felt)
        expected = self.measurement.expected(estimate.mean, felt)
        cross = P @ H.T

        def joseph(K: Array, rows: Any, R: Array) -> Array:
            M = np.eye(len(P)) - K @ H[rows]
            return np.asarray(M @ P @ M.T + K @ R @ K.T)

        return self._gaussian_update(estimate, z, expected, H @ cross, cross, joseph)
