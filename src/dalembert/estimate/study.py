"""Monte-Carlo studies of filters: many noisy records of one motion, filtered in the compiled core on all cores.

Schultz, Murphey, Embedded control synthesis, section IV, Fig. 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, number, whole
from ..errors import ConvergenceError
from ..system import System, as_system
from ..text import Brief
from .extended import ExtendedKalmanFilter
from .filter import Estimate, GaussianFilter, along, covariance, gate_threshold, root


@dataclass(frozen=True, eq=False, repr=False)
class Study(Brief):
    """Errors of all trials: `error` (trials, N+1), the length of the difference of estimate and truth over the chosen states.

    `refused` (trials,) counts gated measurements, `last_covariance` (trials, ndx, ndx) belongs to the last state,
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
    reference: tuple[ArrayLike, ArrayLike],
    *,
    trials: int,
    P0: ArrayLike,
    states: tuple[str, ...] | None = None,
    nominal: bool = False,
    noise: ArrayLike | None = None,
    missing: float = 0.0,
    outliers: tuple[float, float] = (0.0, 0.0),
    seed: int = 0,
    threads: int | None = None,
    keep: bool = False,
) -> Study:
    """Let the filter `kalman` estimate `trials` noisy records of the motion `reference` = (X (N+1, nx), U (N, nu)).

    Records: z = h(x) + Gaussian noise of covariance `noise` (default: the filter's R); an entry is missing with
    probability `missing`; a whole measurement is off by outliers[1] times the noise with probability outliers[0].
    First estimates are drawn from the Gaussian (X[0], P0). `states` names the tangent components whose error counts (default: all).
    `nominal=True`: the predicted mean is the true next state plus process noise of covariance Q, as in the paper, so
    that only the covariance comes from the linearization; otherwise the filter predicts by its own model.
    `keep` keeps all estimates; `seed` starts the random numbers.

    An ExtendedKalmanFilter with a linear measurement on a `MidpointVI` or an `EulerModel` runs in the core, several trials per
    SIMD register, on `threads` threads (default: all cores); any other filter runs here, one trial after the other, and so does one that
    keeps its estimates on constraints (`reduced`), for which the reference's momenta are taken along them.
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
    if not isinstance(kalman, GaussianFilter):
        raise TypeError(f"a filter is needed, not {type(kalman).__name__}")
    sensor = kalman.measurement
    inputs = finite(reference[1], "U", (None, kalman.system.nu))
    N = len(inputs)
    system = as_system(kalman.system, steps=N)
    if system.steps != N:
        system = System(system.one_step, t=system.t[: N + 1])
    truth = finite(reference[0], "X", (N + 1, system.nx))
    if whole(trials, "trials") < 1:
        raise ValueError(f"trials must be positive, not {trials}")
    trials, chance = int(trials), number(missing, "missing")
    hits, size = finite(outliers, "outliers", (2,))
    if not (0 <= chance <= 1 and 0 <= hits <= 1):
        raise ValueError(f"missing and outliers[0] are probabilities between 0 and 1, not {missing} and {outliers[0]}")
    n = system.ndx
    spread = covariance(P0, "P0", n, definite=False)
    weight = np.ones(n) if states is None else np.zeros(n)
    for name in states or ():
        if name not in system.dx_names:
            raise ValueError(f"no state is called {name!r}; there are {', '.join(system.dx_names)}")
        weight[system.dx_names.index(name)] = 1.0
    level = np.asarray(kalman.R) if noise is None else covariance(noise, "noise", sensor.size, definite=False)

    # all chance in one place, so that core, Python and any number of threads see the same records
    generator = np.random.default_rng(seed)
    draws = generator.normal(size=(trials, n))
    if kalman.tied:  # first estimates are on the constraints too
        truth = kalman.settle_all(truth)
        spread = along(kalman.onto(truth[0]), spread)
    start = kalman.settle_all(system.retract(truth[0], draws @ root(spread).T))
    if sensor.matrix is not None:
        Z = truth @ sensor.matrix.T
    else:
        Z = np.stack([sensor.expected(truth[k], inputs[max(k - 1, 0)] if N else None) for k in range(N + 1)])
    Z = _noisy(generator, np.broadcast_to(Z, (trials, *Z.shape)), root(level))
    if hits > 0:
        hit = generator.random((trials, N + 1, 1)) < hits
        Z = _noisy(generator, Z, size * root(level), hit)
    if chance > 0:
        Z = np.where(generator.random(Z.shape) < chance, np.nan, Z)
    W = None
    if nominal:
        if np.ndim(kalman.Q) != 2:
            raise ValueError("nominal needs one Q for all steps")
        noises = [root(along(kalman.onto(x), np.asarray(kalman.Q))) for x in truth[1:]]
        W = np.einsum("tkj,kij->tki", generator.normal(size=(trials, N, n)), np.array(noises))

    found = None
    if _may_run_in_core(kalman):
        gate = None
        if kalman.gate is not None:
            gate = np.array([gate_threshold(kalman.gate, count) for count in range(sensor.size + 1)])
        found = system.kalman(
            truth,
            inputs,
            start,
            Z,
            W,
            sensor.matrix,
            spread,
            kalman.Q,
            kalman.R,
            gate,
            weight,
            threads=threads,
            keep=keep,
        )
    if found is None:
        study, status = _one_by_one(kalman, system, truth, inputs, start, Z, W, spread, weight, keep)
    else:
        error, mean, last, status, refused = found
        study = Study(error, refused, last, mean)
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


def _noisy(generator: np.random.Generator, Z: Array, root: Array, share: Array | None = None) -> Array:
    """Z + share * (root @ normal numbers), trials x states x components, in blocks: Ctrl-C is seen between them."""
    noisy = np.empty(Z.shape)
    each = max(1, 100_000 // max(noisy[:1].size, 1))
    for first in range(0, len(Z), each):
        block = slice(first, first + each)
        noise = generator.normal(size=noisy[block].shape) @ root.T
        noisy[block] = Z[block] + (noise if share is None else share[block] * noise)
    return noisy


def _may_run_in_core(kalman: GaussianFilter) -> bool:
    """Whether the filter is one that the core knows; the system says whether it can."""
    sensor = kalman.measurement
    linear = sensor.matrix is not None and not sensor.angles and sensor.size <= 64
    if type(kalman) is not ExtendedKalmanFilter or kalman.second_order:
        return False
    return np.ndim(kalman.Q) == 2 and linear and not kalman.tied


def _one_by_one(
    kalman: GaussianFilter,
    system: System,
    X: Array,
    U: Array,
    start: Array,
    Z: Array,
    W: Array | None,
    P0: Array,
    weight: Array,
    keep: bool,
) -> tuple[Study, Any]:
    trials, steps = len(Z), len(U)
    error = np.full((trials, steps + 1), np.nan)
    means = np.full((trials, *X.shape), np.nan)
    last = np.zeros((trials, *P0.shape))
    refused, status = np.zeros(trials, dtype=np.int32), np.zeros(trials, dtype=np.int32)
    for i in range(trials):
        estimate = Estimate(start[i], along(kalman.onto(start[i]), P0))
        for k in range(steps + 1):
            try:
                if k > 0:
                    estimate, _ = kalman.propagate(estimate, U[k - 1], k - 1)
                    if W is not None:
                        guess = kalman.settle(system.retract(X[k], W[i, k - 1]))
                        estimate = Estimate(guess, along(kalman.onto(guess), estimate.covariance))
                estimate = kalman.update(estimate, Z[i, k], U[max(k - 1, 0)] if steps else None)
            except ConvergenceError:
                status[i] = k + 1
                break
            means[i, k] = estimate.mean
            error[i, k] = np.sqrt(weight @ system.difference(X[k], estimate.mean) ** 2)
            refused[i] += estimate.accepted is False
        last[i] = estimate.covariance
    return Study(error, refused, last, means if keep else None), status
