"""Monte-Carlo studies of filters: many noisy records of one motion, filtered in the compiled core on all cores.

Schultz, Murphey, Embedded control synthesis, section IV, Fig. 3.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, finite
from ..errors import ConvergenceError
from ..text import Brief
from .euler import EulerModel
from .extended import ExtendedKalmanFilter
from .filter import Estimate, GaussianFilter, covariance, gate_threshold


@dataclass(frozen=True, eq=False, repr=False)
class Study(Brief):
    """Errors of all trials: `error` (trials, N+1), the length of (estimate - truth) over the chosen states.

    `refused` (trials,) counts gated measurements, `last_covariance` (trials, nx, nx) belongs to the last state,
    `mean` (trials, N+1, nx) holds the estimates if they were kept.
    """

    error: Array
    refused: Any
    last_covariance: Array
    mean: Array | None = None

    @property
    def norms(self) -> Array:
        """Average error of each trial (trials,)."""
        return np.asarray(self.error.mean(axis=1))

    @property
    def average(self) -> float:
        """Mean of the trials' average errors."""
        return float(self.norms.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the trials' average errors."""
        return float(self.norms.std())


def monte_carlo(
    kalman: GaussianFilter,
    reference: tuple[Any, Any],
    *,
    trials: int,
    P0: Any,
    states: tuple[str, ...] | None = None,
    nominal: bool = False,
    noise: Any = None,
    missing: float = 0.0,
    outliers: tuple[float, float] = (0.0, 0.0),
    seed: int = 0,
    threads: int | None = None,
    keep: bool = False,
) -> Study:
    """Let the filter `kalman` estimate `trials` noisy records of the motion `reference` = (X (N+1, nx), U (N, nu)).

    Records: z = h(x) + Gaussian noise of covariance `noise` (default: the filter's R); an entry is missing with
    probability `missing`; a whole measurement is off by outliers[1] times the noise with probability outliers[0].
    First estimates are drawn from the Gaussian (X[0], P0). `states` names the states whose error counts (default: all).
    `nominal=True`: the predicted mean is the true next state plus process noise of covariance Q, as in the paper, so
    that only the covariance comes from the linearization; otherwise the filter predicts by its own model.
    `keep` keeps all estimates; `seed` starts the random numbers.

    An ExtendedKalmanFilter with a linear measurement on a System or an EulerModel runs in the core, several trials per
    SIMD register, on `threads` threads (default: all cores); any other filter runs here, one trial after the other.
    The result does not depend on the number of threads. Raises ConvergenceError (`state` = the Study) if a trial
    failed.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.05), steps=100)
    >>> U = np.zeros((100, 0))
    >>> X = system.simulate([1.0, 0.0], U)
    >>> ekf = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-6, R=0.01)
    >>> study = monte_carlo(ekf, (X, U), trials=50, P0=0.01, states=("theta",))
    >>> bool(study.average < 0.05)
    True
    """
    system, sensor = kalman.system, kalman.measurement
    X, U = reference
    U = finite(U, "U", (None, system.nu))
    N = len(U)
    X = finite(X, "X", (N + 1, system.nx))
    if trials < 1:
        raise ValueError("trials must be positive")
    P0 = covariance(P0, "P0", system.nx, definite=False)
    weight = np.ones(system.nx) if states is None else np.zeros(system.nx)
    for name in states or ():
        if name not in system.x_names:
            raise ValueError(f"no state is called {name!r}; there are {', '.join(system.x_names)}")
        weight[system.x_names.index(name)] = 1.0
    level = kalman.R if noise is None else covariance(noise, "noise", sensor.size, definite=False)

    # all chance in one place, so that core, Python and any number of threads see the same records
    generator = np.random.default_rng(seed)
    start = X[0] + generator.normal(size=(trials, system.nx)) @ _root(P0).T
    Z = np.stack([np.asarray(sensor.h(x), dtype=float) for x in X])
    Z = Z + generator.normal(size=(trials, N + 1, sensor.size)) @ _root(level).T
    if outliers[0] > 0:
        hit = generator.random((trials, N + 1, 1)) < outliers[0]
        Z = Z + hit * (outliers[1] * generator.normal(size=Z.shape) @ _root(level).T)
    if missing > 0:
        Z = np.where(generator.random(Z.shape) < missing, np.nan, Z)
    W = None
    if nominal:
        if kalman.Q.ndim != 2:
            raise ValueError("nominal needs one Q for all steps")
        W = generator.normal(size=(trials, N, system.nx)) @ _root(kalman.Q).T

    if _in_core(kalman):
        study, status = _core_study(kalman, X, U, start, Z, W, P0, weight, threads, keep)
    else:
        study, status = _python_study(kalman, X, U, start, Z, W, P0, weight, keep)
    failed = np.flatnonzero(status)
    if len(failed):
        first = int(failed[0])
        raise ConvergenceError(
            f"{len(failed)} of {trials} trials failed, the first is trial {first} at state {status[first] - 1}",
            step=int(status[first]) - 1,
            state=study,
            hint="the estimates left the region where a step has a solution: smaller steps, more noise, or a gate",
        )
    return study


def _in_core(kalman: Any) -> bool:
    from ..system import System

    sensor = kalman.measurement
    linear = sensor.matrix is not None and not sensor.angles and sensor.size <= 64
    known = isinstance(kalman.system, (EulerModel, System))
    return type(kalman) is ExtendedKalmanFilter and kalman.Q.ndim == 2 and linear and known


def _core_study(
    kalman: Any,
    X: Array,
    U: Array,
    start: Array,
    Z: Array,
    W: Array | None,
    P0: Array,
    weight: Array,
    threads: int | None,
    keep: bool,
) -> tuple[Study, Any]:
    from .. import _core
    from ..mechanics import core

    system, sensor = kalman.system, kalman.measurement
    euler = isinstance(system, EulerModel)
    dt = np.array([system.step(k) for k in range(len(U))]) if euler else system.dt
    options = _core.Options(0.5, 0.5, 0.5, 1e-13, 1e-14, 40, False) if euler else system.vi.options
    gate = None
    if kalman.gate is not None:
        gate = np.array([gate_threshold(kalman.gate, n) for n in range(sensor.size + 1)])
    crew = (os.cpu_count() or 1) if threads is None else int(threads)
    error, mean, last, status, refused = _core.ekf(
        core(system.model), options, euler, W is not None, dt, X, U, start, Z, W, sensor.matrix, P0, kalman.Q, kalman.R,
        gate, weight, crew, keep,
    )  # fmt: skip
    return Study(error, refused, last, mean), status


def _python_study(
    kalman: Any, X: Any, U: Any, start: Any, Z: Any, W: Any, P0: Any, weight: Any, keep: bool
) -> tuple[Study, Any]:
    trials, steps = len(Z), len(U)
    error = np.full((trials, steps + 1), np.nan)
    means = np.full((trials, *X.shape), np.nan)
    last = np.zeros((trials, X.shape[1], X.shape[1]))
    refused, status = np.zeros(trials, dtype=np.int32), np.zeros(trials, dtype=np.int32)
    for i in range(trials):
        estimate = Estimate(start[i], P0)
        for k in range(steps + 1):
            try:
                if k > 0:
                    estimate, _ = kalman._predict(estimate, U[k - 1], k - 1)
                    if W is not None:
                        estimate = Estimate(X[k] + W[i, k - 1], estimate.covariance)
                estimate = kalman.update(estimate, Z[i, k])
            except ConvergenceError:
                status[i] = k + 1
                break
            means[i, k] = estimate.mean
            error[i, k] = np.sqrt(weight @ (estimate.mean - X[k]) ** 2)
            refused[i] += estimate.accepted is False
        last[i] = estimate.covariance
    return Study(error, refused, last, means if keep else None), status


def _root(P: Array) -> Array:
    values, vectors = np.linalg.eigh(P)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))
