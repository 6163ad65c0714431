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
from .filter import Estimate, GaussianFilter, along, check_finite, factor, gate_threshold, present, recentred, root
from .measurement import Measurement


@dataclass(frozen=True, eq=False)
class ExtendedKalmanFilter(GaussianFilter):
    """x' = f(x, u) + w, z = h(x) + e with covariances Q of w (ndx, ndx) or (N, ndx, ndx), R of e (nz, nz).

    Q and R may be a number, variances, or matrices; R must be positive definite, Q may be singular. `gate` (a
    probability, e.g. 0.999) refuses measurements farther off than that; None accepts all. `system` is a System or
    any other one-step (e.g. `EulerModel`); covariances are those of tangent vectors at the mean. Where there are constraints estimates
    stay on them, with the linearization of `reduce_state`; `reduced=False` filters the whole state, as the papers do.

    The covariance update is (1 - K H) P (1 - K H)' + K R K', which stays positive semidefinite for any gain.

    `second_order=True` is for estimates that are wide where the motion bends much (mechanisms that whip round, loops with coarse
    sensors), where a filter of first order becomes too sure: the prediction then has the second-order terms of the step, in the mean
    1/2 sum_j F[s_j, s_j] and in the covariance 1/2 sum_ij F[s_i, s_j] F[s_i, s_j]' with the axes s_j of the covariance, found from
    n (n + 1) more steps, n the number of directions; and an update is iterated until its linearization is that at the new mean. It is
    no default: a cycle takes some 120 to 180 times as long (in Python, 2 to 4 ms), and estimates that are narrow do not change.

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
    second_order: bool = False

    def __post_init__(self) -> None:
        self._check()
        self._make_core()

    def _make_core(self) -> None:
        """The filter in the core: all of it for an integrator and a sensor that are known there, else the algebra of updates."""
        space, sensor = self.map, self.measurement
        flat = not self.tied and space.retract_jacobian(space.neutral()) is None
        stepper = None if self.second_order else space.compiled()
        if self.tied and stepper is not None and not stepper.ties:  # balls or wheels on constraints
            stepper = None
        C, programs = sensor.compiled() if stepper is not None or (flat and not self.second_order) else (None, [])
        if stepper is None and programs:
            C, programs = None, []
        limits = np.array([gate_threshold(self.gate, count) for count in range(sensor.size + 1)])
        dt = np.atleast_1d(np.asarray(space.dt, dtype=float))
        R, Q = np.asarray(self.R, dtype=float), np.asarray(self.Q, dtype=float)
        object.__setattr__(
            self,
            "_inner",
            _core.Kalman(stepper, self.tied, Estimate, space.ndx, C, programs, R, list(sensor.angles), limits, Q, dt),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_inner"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_core()

    def predict(self, estimate: Estimate, u: ArrayLike, k: int = 0, *, dt: float | None = None) -> Estimate:
        """See `GaussianFilter.predict`."""
        if dt is None and not self.second_order:
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
        after = Estimate(mean, new)
        return (self._bent(estimate, after, u, k, dt) if self.second_order else after), AP.T

    def _bent(self, before: Estimate, after: Estimate, u: Array, k: int, dt: float | None) -> Estimate:
        """The prediction `after` of first order with the terms of second order."""
        space, step = self.stepper(k, dt)
        axes = root(before.covariance).T if not self.tied else self._axes(before)
        axes = axes[np.abs(axes).max(axis=1, initial=0.0) > 0]
        i, j = np.triu_indices(len(axes), 1)
        ways = np.vstack([axes, (axes[i] + axes[j]) / np.sqrt(2)])
        points = space.nearby(before.mean, np.vstack([ways, -ways]))
        images = self.map.free_difference(after.mean, np.asarray(space.f_batch(points, u, step)))
        onto = self.onto(after.mean)
        images = images if onto is None else images @ onto.T
        bends = images[: len(ways)] + images[len(ways) :]  # F[s, s] of every way s
        own = bends[: len(axes)]
        mixed = bends[len(axes) :] - 0.5 * (own[i] + own[j])
        mean = self.settle(self.map.retract(after.mean, 0.5 * own.sum(axis=0)))
        P = after.covariance + 0.5 * own.T @ own + mixed.T @ mixed
        P = along(self.onto(mean), recentred(self.map, after.mean, mean, P))
        check_finite(mean, P, self.map, k)
        return Estimate(mean, P)

    def _axes(self, estimate: Estimate) -> Array:
        """Principal axes (n, ndx) of a covariance along constraints."""
        basis = self.map.tangent(estimate.mean[None]).basis[0]  # type: ignore[union-attr]
        return np.asarray((basis @ root(basis.T @ estimate.covariance @ basis)).T)

    def update(self, estimate: Estimate, z: ArrayLike | None, u: ArrayLike | None = None) -> Estimate:
        """See `GaussianFilter.update`."""
        felt = self.felt(u)
        new = self._updated(estimate, z, felt)
        return self._iterated(estimate, new, z, felt) if self.second_order and new.accepted else new  # type: ignore[arg-type]

    def _updated(self, estimate: Estimate, z: ArrayLike | None, felt: Array | None) -> Estimate:
        """The update with the slopes at the mean of `estimate`."""
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
            S = (H @ P @ H.T + np.asarray(self.R))[rows][:, rows]
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
        if rows is None or self.second_order:
            return None
        found = self._inner.run(start.mean, start.covariance, inputs, rows, dt)
        return None if found is None else (*found[:-1], found[-1] != 0.0)

    def _iterated(self, before: Estimate, first: Estimate, z: ArrayLike, u: Array | None) -> Estimate:
        """The update `first` repeated with the slopes at its own mean until that is the most likely state (Gauss-Newton)."""
        space, sensor, x = self.map, self.measurement, first.mean
        values, rows = present(z, sensor)
        R = np.asarray(self.R)[rows][:, rows]
        base, up = self._coordinates(before.mean)
        P = up @ before.covariance @ up.T
        weight = np.linalg.pinv(P, hermitian=True)

        def off(y: Array) -> tuple[Array, Array]:  # from the prediction, and from the measurement
            return up @ space.free_difference(before.mean, y), sensor.innovation(values, sensor.expected(y, u))[rows]

        def cost(a: Array, e: Array) -> float:
            return float(a @ weight @ a + e @ np.linalg.solve(R, e))

        a, e = off(x)
        for _ in range(6):
            base, _ = self._coordinates(x)
            turn = space.difference_jacobian(before.mean, x)
            J = np.linalg.inv(up @ (base if turn is None else turn @ base))
            P_here, back = J @ P @ J.T, -J @ a
            H = sensor.slope(x, u)[rows] @ base
            K = np.linalg.solve(H @ P_here @ H.T + R, H @ P_here).T
            M = np.eye(len(P)) - K @ H
            new = M @ P_here @ M.T + K @ R @ K.T
            move = back + K @ (e - H @ back)
            y = self.settle(space.retract(x, base @ move))
            small = float(np.abs(move).max(initial=0.0)) <= 1e-3 * float(np.sqrt(np.diag(new).max(initial=0.0)))
            a_y, e_y = off(y)
            if small or not cost(a_y, e_y) < cost(a, e):
                break
            x, a, e = y, a_y, e_y
        P = base @ new @ base.T
        return Estimate(x, (P + P.T) / 2, first.innovation, first.distance, True)

    def _coordinates(self, x: Array) -> tuple[Array, Array]:
        """Directions (ndx, n) in which x may be wrong, and the matrix (n, ndx) that reads how far it is."""
        found = self.map.tangent(x[None]) if self.tied else None
        eye = np.eye(self.map.ndx)
        return (eye, eye) if found is None else (found.basis[0], found.lower[0])
