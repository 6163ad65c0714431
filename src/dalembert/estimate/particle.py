"""Particle filter: any noise, many modes; systematic resampling when too few particles carry the weight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, needed
from ..errors import SingularityError
from ..integrate import OneStep, State
from .filter import (
    Estimate,
    GaussianFilter,
    along,
    check_finite,
    covariance,
    factor,
    gate_threshold,
    mean_of,
    present,
    root,
)
from .measurement import Measurement


@dataclass(frozen=True, eq=False)
class Particles(Estimate):
    """An Estimate carried by `points` (M, nx) with `weights` (M,) that sum to one; `generator` draws what follows."""

    points: Array | None = None
    weights: Array | None = None
    generator: Any = None

    @property
    def effective(self) -> float:
        """Effective number of particles, 1 / sum weights^2."""
        assert self.weights is not None
        return float(1 / np.sum(self.weights**2))


@dataclass(frozen=True, eq=False)
class ParticleFilter(GaussianFilter):
    """The interface of `ExtendedKalmanFilter` (`system`, `measurement`, `gate`, `reduced`) with `particles` samples; Gaussian noise by Q and R, drawn
    from `seed`.

    Resamples when the effective number falls below `resample` times the number of particles.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=10)
    >>> pf = ParticleFilter(system, da.measure(system, "theta"), Q=1e-4, R=0.01, particles=500)
    >>> cloud = pf.update(pf.start([0.3, 0.0], 0.1), [0.5])
    >>> bool(abs(cloud.mean[0] - 0.48) < 0.03)
    True
    """

    system: OneStep
    measurement: Measurement
    Q: ArrayLike
    R: ArrayLike
    gate: float | None = None
    particles: int = 500
    resample: float = 0.5
    seed: int = 0
    reduced: bool | None = None

    def __post_init__(self) -> None:
        self._check()
        if self.particles < 2:
            raise ValueError("a particle filter needs at least two particles")

    def start(self, mean: ArrayLike | State, P: ArrayLike) -> Particles:
        """Particles drawn from the Gaussian mean (nx,) or a State, P."""
        n, m = self.map.nx, self.map.ndx
        centre, spread = self.settle(self.known(finite(mean, "mean", (n,)))), covariance(P, "P", m, definite=False)
        generator = np.random.default_rng(self.seed)
        spread = along(self.onto(centre), spread)
        points = self.map.retract(centre, generator.normal(size=(self.particles, m)) @ root(spread).T)
        points = self.settle_all(points)
        return self._cloud(points, np.full(self.particles, 1 / self.particles), generator)

    def propagate(self, estimate: Estimate, u: Array, k: int, dt: float | None = None) -> tuple[Estimate, Array]:
        """See `GaussianFilter.propagate`."""
        cloud, space = self._cloud_of(estimate), self.map
        assert cloud.points is not None
        assert cloud.weights is not None
        one, step = self.stepper(k, dt)
        images = self.settle_all(one.f_batch(cloud.points, u, step))
        generator = _copy(cloud.generator)
        noise = along(self.onto(images[0]), self.noise(k, dt))
        moved = space.retract(images, generator.normal(size=(len(images), space.ndx)) @ root(noise).T)
        moved = self.settle_all(moved)
        new = self._cloud(moved, cloud.weights, generator)
        check_finite(new.mean, new.covariance, space, k)
        before, after = space.difference(cloud.mean, cloud.points), space.difference(new.mean, moved)
        return new, before.T @ (cloud.weights[:, None] * after)

    def update(self, estimate: Estimate, z: ArrayLike | None, u: ArrayLike | None = None) -> Particles:
        """See `GaussianFilter.update`."""
        cloud = self._cloud_of(estimate)
        assert cloud.points is not None
        assert cloud.weights is not None
        values, rows = present(z, self.measurement)
        nothing = np.full(self.measurement.size, np.nan)
        if len(values[rows]) == 0:
            return replace(cloud, innovation=nothing, distance=float("nan"), accepted=None)
        sensor = self.measurement
        if sensor.matrix is not None:
            expected = cloud.points @ sensor.matrix.T
        else:
            felt = self.felt(u)
            expected = np.stack([sensor.expected(x, felt) for x in cloud.points])
        e = sensor.innovation(values, expected)
        mean = cloud.weights @ e
        spread = (e - mean)[:, rows]
        noise = np.asarray(self.R)[rows][:, rows]
        total = spread.T @ (cloud.weights[:, None] * spread) + noise
        distance = float(np.sum(np.linalg.solve(factor(total, "innovation covariance"), mean[rows]) ** 2))
        if distance > gate_threshold(self.gate, len(noise)):
            return replace(cloud, innovation=mean, distance=distance, accepted=False)
        white = np.linalg.solve(factor(noise, "R"), e[:, rows].T)
        log = np.log(np.maximum(cloud.weights, np.finfo(float).tiny)) - 0.5 * np.sum(white**2, axis=0)
        weights = np.exp(log - log.max())
        if not np.isfinite(weights).all() or weights.sum() == 0:
            raise SingularityError("no particle explains the measurement", matrix="weights", hint="use more particles")
        weights /= weights.sum()
        new = self._cloud(cloud.points, weights, cloud.generator)
        if new.effective < self.resample * self.particles:
            generator = _copy(cloud.generator)
            places = (generator.random() + np.arange(self.particles)) / self.particles
            chosen = np.minimum(np.searchsorted(np.cumsum(weights), places), self.particles - 1)
            points, even = cloud.points[chosen], np.full(self.particles, 1 / self.particles)
            new = replace(new, points=points, weights=even, generator=generator)
        return replace(new, innovation=mean, distance=distance, accepted=True)

    def _cloud_of(self, estimate: Estimate) -> Particles:
        return (
            estimate
            if isinstance(estimate, Particles)
            else self.start(needed(estimate, Estimate).mean, estimate.covariance)
        )

    def _cloud(self, points: Array, weights: Array, generator: Any) -> Particles:
        space = self.map
        mean = self.settle(mean_of(space, points, weights, points[0]))
        spread = space.difference(mean, points)
        P = along(self.onto(mean), spread.T @ (weights[:, None] * spread))
        return Particles(mean, P, points=points, weights=weights, generator=generator)


def _copy(generator: Any) -> Any:
    """An independent generator in the same state: estimates are values, the same call twice gives the same result."""
    from copy import deepcopy

    return deepcopy(generator)
