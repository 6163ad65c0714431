"""Extended Kalman filter on the one-step map, with its exact linearization, in Joseph form.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 3 (Fig. 6); Schultz, Murphey, Embedded
control synthesis using one-step methods in discrete mechanics, section III-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from ..arrays import Array, floats, needed
from ..integrate import OneStep
from .filter import Estimate, GaussianFilter, along, check_finite, factor, gate_threshold, present
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
        self._make_core()

    def _make_core(self) -> None:
        """The filter in the core: all of it for an integrator and a sensor that are known there, else the algebra of updates."""
        space, sensor = self.map, self.measurement
        flat = not self.tied and space.retract_jacobian(space.neutral()) is None
        stepper = space.compiled()
        if self.tied and stepper is not None and not stepper.ties:  # balls or wheels on constraints
            stepper = None
        C, programs = sensor.compiled() if stepper is not None or flat else (None, [])
        if stepper is None and programs:
            C, programs = None, []
        limits = np.array([gate_threshold(self.gate, count) for count in range(sensor.size + 1)])
        dt = np.atleast_1d(np.asarray(space.dt, dtype=float))
        numbers = (self.R, list(sensor.angles), limits, self.Q, dt)
        object.__setattr__(self, "_inner", _core.Kalman(stepper, self.tied, Estimate, space.ndx, C, programs, *numbers))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_inner"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_core()

    def predict(self, estimate: Estimate, u: ArrayLike, k: int = 0, *, dt: float | None = None) -> Estimate:
        """See `GaussianFilter.predict`."""
        if dt is None:
            new: Estimate | None = self._inner.predict(estimate, u, k)  # None: in Python, or something is wrong
            if new is not None:
                return new
        return super().predict(estimate, u, k, dt=dt)

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
        felt = self.felt(u)
        new: Estimate | None = self._inner.update(estimate, z)  # None: a sensor of Python's, or something is wrong
        if new is not None:
            return new
        if z is None:
            return self.unmeasured(estimate)
        P, (values, rows) = floats(needed(estimate, Estimate).covariance, "P"), present(z, self.measurement)
        H = self.measurement.slope(estimate.mean, felt)
        innovation = self.measurement.innovation(values, self.measurement.expected(estimate.mean, felt))
        found = self._inner.gain(P, innovation, H)
        if found is None:  # says why
            S = (H @ P @ H.T + self.R)[rows][:, rows]
            factor((S + S.T) / 2, "innovation covariance", self.measurement.names, rows)
            raise AssertionError
        distance, dx, P = found
        if dx is None:
            return Estimate(
                estimate.mean, estimate.covariance, innovation, distance, None if distance != distance else False
            )
        return self._moved(estimate, dx, P, innovation, distance)

    def _in_core(self, start: Estimate, inputs: Array, rows: Array | None, dt: Array | None) -> Any:
        """See `GaussianFilter`."""
        if rows is None:
            return None
        found = self._inner.run(start.mean, start.covariance, inputs, rows, dt)
        return None if found is None else (*found[:-1], found[-1] != 0.0)
