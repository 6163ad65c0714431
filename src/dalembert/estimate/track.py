"""Track: filtering as data comes, at any times, with measurements that arrive late."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, floats
from ..text import Brief
from .filter import Estimate, GaussianFilter


@dataclass(frozen=True, eq=False, repr=False)
class Moment(Brief):
    """An instant of a track: its time (s), the estimate before (`predicted`) and after its measurements `seen`, and
    the input `u` (nu,) of the step that led
    there (None at the start)."""

    t: float
    predicted: Estimate
    estimate: Estimate
    u: Array | None = None
    k: int | None = None
    seen: tuple[Array, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Track(Brief):
    """An estimate of the filter `kalman` that remembers the moments it came from, for `horizon` seconds: a value, like
    everything here; predict and update return new ones.

    A measurement of an earlier time goes back to it (dividing a step if need be), and the inputs and measurements since then are used again,
    so that the estimate is the same as if it had come in time.

    >>> import dalembert as da
    >>> system = da.System(da.MidpointVI(da.models.pendulum(), dt=0.1), steps=10)
    >>> ekf = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-4, R=0.01)
    >>> track = da.Track.begin(ekf, ekf.start([0.3, 0.0], 0.1))
    >>> track = track.predict([0.0], dt=0.1).predict([0.0], dt=0.07)
    >>> late = track.update([0.2]).update([0.25], t=0.1)
    >>> in_time = da.Track.begin(ekf, ekf.start([0.3, 0.0], 0.1)).predict([0.0], dt=0.1).update([0.25])
    >>> in_time = in_time.predict([0.0], dt=0.07).update([0.2])
    >>> bool(abs(late.estimate.mean - in_time.estimate.mean).max() < 1e-14), round(late.t, 12)
    (True, 0.17)
    """

    kalman: GaussianFilter
    moments: tuple[Moment, ...]
    horizon: float = np.inf

    @classmethod
    def begin(cls, kalman: GaussianFilter, start: Estimate, *, t: float = 0.0, horizon: float = np.inf) -> Track:
        """A track of the filter `kalman` from the estimate `start` at time t (s); `horizon` (s): how late measurements may come."""
        seconds = floats(horizon, "horizon")  # may be infinite
        if seconds.ndim or not seconds >= 0:
            raise ValueError(f"horizon must be a time that is not negative, not {horizon}")
        return cls(kalman, (Moment(float(finite(t, "t", ())), start, start),), seconds.item())

    @property
    def t(self) -> float:
        """Time of the latest moment (s)."""
        return self.moments[-1].t

    @property
    def estimate(self) -> Estimate:
        """The estimate at the latest moment."""
        return self.moments[-1].estimate

    def predict(self, u: ArrayLike, *, dt: float | None = None, k: int = 0) -> Track:
        """After a step with the input u (nu,), of length dt (s), or of step k of the system."""
        w = finite(u, "u", (self.kalman.system.nu,))
        usual = np.asarray(self.kalman.map.dt, dtype=float)
        length = float(usual if usual.ndim == 0 else usual[k]) if dt is None else float(finite(dt, "dt", ()))
        new = self.kalman.predict(self.estimate, w, k, dt=dt)
        # of what is older than the horizon only the last moment is kept: a step from it may have to be divided
        old = sum(m.t <= self.t + length - self.horizon for m in self.moments)
        kept = self.moments[max(old - 1, 0) :]
        moment = Moment(self.t + length, new, new, w, k if dt is None else None)
        return replace(self, moments=(*kept, moment))

    def update(self, z: ArrayLike, t: float | None = None) -> Track:
        """After a measurement z (nz,) of time t (s; default: now); NaN entries are missing."""
        values = floats(z, "z")
        if t is None:
            return self._seen(len(self.moments) - 1, values)
        when, times = float(finite(t, "t", ())), np.array([m.t for m in self.moments])
        slack = 1e-9 * max(1.0, abs(when))
        if when > times[-1] + slack:
            raise ValueError(
                f"the measurement is of t = {when:g}, the track has only come to {times[-1]:g}: predict first"
            )
        if when < times[0] - slack:
            raise ValueError(
                f"the measurement of t = {when:g} is older than what the track remembers, t = {times[0]:g}: give it a longer horizon"
            )
        near = int(np.abs(times - when).argmin())
        if abs(times[near] - when) <= slack:
            return self._seen(near, values)
        after = int(np.searchsorted(times, when))
        return self._divided(after, when)._seen(after, values)

    def _divided(self, i: int, t: float) -> Track:
        """The step that led to moment i, in two: one ends at t."""
        before, after = self.moments[i - 1], self.moments[i]
        assert after.u is not None
        share = (t - before.t) / (after.t - before.t)
        u = self.kalman.map.within(before.estimate.mean, after.u, share)
        new = self.kalman.predict(before.estimate, u, dt=t - before.t)
        middle, rest = Moment(t, new, new, u), replace(after, k=None)
        return replace(self, moments=(*self.moments[:i], middle, rest, *self.moments[i + 1 :]))

    def _seen(self, i: int, z: Array) -> Track:
        """The measurement at moment i, and all that came after it once more."""
        found = list(self.moments)
        for j in range(i, len(found)):
            m = found[j]
            seen = (*m.seen, z) if j == i else m.seen
            predicted = m.predicted
            if j > i:
                before = found[j - 1]
                assert m.u is not None
                dt = None if m.k is not None else m.t - before.t
                predicted = self.kalman.predict(before.estimate, m.u, m.k or 0, dt=dt)
            estimate = predicted
            for value in seen:
                estimate = self.kalman.update(estimate, value, m.u)
            found[j] = replace(m, predicted=predicted, estimate=estimate, seen=seen)
        return replace(self, moments=tuple(found))
