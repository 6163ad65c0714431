"""Particle filter: any noise, many modes; systematic resampling when too few particles carry the weight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import Array, finite
from ..errors import SingularityError
from .filter import Estimate, GaussianFilter, check_finite, covariance, factor, gate_threshold, present, propagate
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
    """The interface of `ExtendedKalmanFilter` with `particles` samples; Gaussian noise by Q and R, drawn from `seed`.

    Resamples when the effective number falls below `resample` times the number of particles.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=10)
    >>> pf = ParticleFilter(system, da.measure(system, "theta"), Q=1e-4, R=0.01, particles=500)
    >>> cloud = pf.update(pf.start([0.3, 0.0], 0.1), [0.5])
    >>> bool(abs(cloud.mean[0] - 0.48) < 0.03)
    True
    """

    system: Any
    measurement: Measurement
    Q: Any
    R: Any
    gate: float | None = None
    particles: int = 500
    resample: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        self._check()
        if self.particles < 2:
            raise ValueError("a particle filter needs at least two particles")

    def start(self, mean: Any, P: Any) -> Particles:
        """Particles drawn from the Gaussian mean (nx,), P."""
        n = self.system.nx
        mean, P = finite(mean, "mean", (n,)), covariance(P, "P", n, definite=False)
        generator = np.random.default_rng(self.seed)
        points = mean + generator.normal(size=(self.particles, n)) @ _root(P).T
        return _cloud(points, np.full(self.particles, 1 / self.particles), generator)

    def _predict(self, estimate: Estimate, u: Array, k: int) -> tuple[Estimate, Array]:
        cloud = self._cloud_of(estimate)
        assert cloud.points is not None
        assert cloud.weights is not None
        images = propagate(self.system, cloud.points, u, k)
        generator = _copy(cloud.generator)
        moved = images + generator.normal(size=images.shape) @ _root(self.noise(k)).T
        new = _cloud(moved, cloud.weights, generator)
        check_finite(new.mean, new.covariance, self.system.x_names, k)
        before, after = cloud.points - cloud.mean, moved - new.mean
        return new, before.T @ (cloud.weights[:, None] * after)

    def update(self, estimate: Estimate, z: Any) -> Particles:
        """The estimate after a measurement z (nz,); NaN entries are missing, None means nothing was measured."""
        cloud = self._cloud_of(estimate)
        assert cloud.points is not None
        assert cloud.weights is not None
        z, rows = present(z, self.measurement)
        nothing = np.full(self.measurement.size, np.nan)
        if len(rows) == 0:
            return replace(cloud, innovation=nothing, distance=float("nan"), accepted=None)
        sensor = self.measurement
        if sensor.matrix is not None:
            expected = cloud.points @ sensor.matrix.T
        else:
            expected = np.stack([np.asarray(sensor.h(x), dtype=float) for x in cloud.points])
        e = sensor.innovation(z, expected)
        mean = cloud.weights @ e
        spread = (e - mean)[:, rows]
        noise = self.R[np.ix_(rows, rows)]
        total = spread.T @ (cloud.weights[:, None] * spread) + noise
        distance = float(np.sum(np.linalg.solve(factor(total, "innovation covariance"), mean[rows]) ** 2))
        if distance > gate_threshold(self.gate, len(rows)):
            return replace(cloud, innovation=mean, distance=distance, accepted=False)
        white = np.linalg.solve(factor(noise, "R"), e[:, rows].T)
        log = np.log(np.maximum(cloud.weights, np.finfo(float).tiny)) - 0.5 * np.sum(white**2, axis=0)
        weights = np.exp(log - log.max())
        if not np.isfinite(weights).all() or weights.sum() == 0:
            raise SingularityError("no particle explains the measurement", matrix="weights", hint="use more particles")
        weights /= weights.sum()
        new = _cloud(cloud.points, weights, cloud.generator)
        if new.effective < self.resample * self.particles:
            generator = _copy(cloud.generator)
            places = (generator.random() + np.arange(self.particles)) / self.particles
            chosen = np.minimum(np.searchsorted(np.cumsum(weights), places), self.particles - 1)
            points, even = cloud.points[chosen], np.full(self.particles, 1 / self.particles)
            new = replace(new, points=points, weights=even, generator=generator)
        return replace(new, innovation=mean, distance=distance, accepted=True)

    def _cloud_of(self, estimate: Estimate) -> Particles:
        return estimate if isinstance(estimate, Particles) else self.start(estimate.mean, estimate.covariance)


def _cloud(points: Array, weights: Array, generator: Any) -> Particles:
    mean = weights @ points
    spread = points - mean
    return Particles(mean, spread.T @ (weights[:, None] * spread), points=points, weights=weights, generator=generator)


def _copy(generator: Any) -> Any:
    """An independent generator in the same state: estimates are values, the same call twice gives the same result."""
    from copy import deepcopy

    return deepcopy(generator)


def _root(P: Array) -> Array:
    values, vectors = np.linalg.eigh(P)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))
