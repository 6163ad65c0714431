"""What all filters share: estimates, noise checks, the update of a Gaussian, the run over a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, all_finite, finite, floats, needed, number, weight
from ..errors import SingularityError
from ..integrate import OneStep, OneStepMap, State, Trajectory, complete
from ..system import as_system
from ..text import Brief, grid, table
from .measurement import Measurement


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Estimate(Brief):
    """A Gaussian: `mean` (nx,), `covariance` (ndx, ndx) of the difference from it. After an update also: `innovation` (nz,) (NaN where missing),
    `distance` its squared Mahalanobis length, `accepted` (False if gated out, None if there was no measurement).
    """

    mean: Array
    covariance: Array
    innovation: Array | None = None
    distance: float = float("nan")
    accepted: bool | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Filtered(Brief):
    """A filtered record of N steps: `mean` (N+1, nx), `covariance` (N+1, ndx, ndx) after each update.

    `predicted_mean`, `predicted_covariance` before it, `cross` (N, ndx, ndx) covariance of x_k and x_{k+1} before it (for
    the smoother), `innovation` (N+1, nz) and `distance` (N+1,) NaN where nothing was measured, `accepted` (N+1,) True
    where a measurement was used; `system` the map it is about (None: flat states), `reduced` whether estimates are on its constraints,
    `inputs` (N, nu) and `dt` (N,) (None: the system's) what it was filtered with.
    """

    mean: Array
    covariance: Array
    predicted_mean: Array
    predicted_covariance: Array
    cross: Array
    innovation: Array
    distance: Array
    accepted: Any
    system: OneStepMap | None = field(default=None, repr=False)
    reduced: bool = False
    inputs: Array | None = field(default=None, repr=False)
    dt: Array | None = field(default=None, repr=False)

    @property
    def trajectory(self) -> Trajectory:
        """The means as a Trajectory, to plot, show, export and compare; it is no motion of the system: updates move it.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.pendulum(), dt=0.1)
        >>> kalman = da.ExtendedKalmanFilter(vi, da.measure(vi, "theta"), Q=1e-4, R=0.01)
        >>> swing = vi.simulate(vi.state([0.5]), steps=20)
        >>> run = kalman.run(kalman.start(vi.state([0.4]), 0.1), swing.u, kalman.measurement.record(swing, 0.01))
        >>> run.trajectory["theta"].shape
        (21,)
        """
        if self.system is None or self.inputs is None:
            raise ValueError("these estimates do not know their system and inputs; those that `run` returns do")
        steps = self.system if self.dt is None else self.system.with_dt(self.dt)
        found: Trajectory = as_system(steps, steps=len(self.inputs)).trajectory(self.mean, self.inputs)
        return found

    def _repr_html_(self) -> str:
        system, used, measured = self.system, int(np.sum(self.accepted)), int((~np.isnan(self.distance)).sum())
        names = system.dx_names if system is not None else tuple(f"x{i}" for i in range(self.covariance.shape[-1]))
        first = [np.sqrt(np.diag(P)) for P in (self.covariance[0], self.covariance[-1])]
        rows = [(name, float(a), float(b)) for name, a, b in zip(names, *first, strict=True)]
        head = f"Filtered: {len(self.mean) - 1} steps, {used} of {measured} measurements used"
        return table({}, head) + grid(["state", "sigma at the start", "sigma at the end"], rows)


def covariance(value: ArrayLike, what: str, n: int, *, definite: bool, steps: int | None = None) -> Array:
    """A covariance (n, n) or (steps, n, n) from a number, variances (n,) or matrices; wrong ones are ValueErrors.

    `definite` refuses singular matrices too.

    >>> covariance([1, 2], "R", 2, definite=True)
    array([[1., 0.],
           [0., 2.]])
    """
    P = weight(value, what, n, steps)
    least = np.linalg.eigvalsh(P).min(axis=-1)
    largest = np.abs(P).max(initial=0.0, axis=(-2, -1))
    worst = float((least + 1e-9 * largest).min()) if not definite else float((least - 1e-14 * largest).min())
    if worst < 0 or (definite and worst <= 0):
        kind = "positive definite" if definite else "positive semidefinite"
        raise ValueError(f"{what} is not {kind} (least eigenvalue {float(np.min(least)):.3g})")
    return P


def gate_threshold(gate: float | None, size: int) -> float:
    """Squared Mahalanobis distance that a correct measurement stays below with probability `gate`."""
    if gate is None or size == 0:
        return float("inf")
    from scipy.stats import chi2

    if not 0 < number(gate, "gate") < 1:
        raise ValueError(f"gate is a probability between 0 and 1, not {gate}")
    return float(chi2.ppf(gate, size))


def present(z: ArrayLike | None, measurement: Measurement) -> tuple[Array, Any]:
    """(z (nz,), indices of its entries that are there: a slice if none is missing). None or NaN means missing; infinity is a ValueError."""
    if z is None:
        return np.full(measurement.size, np.nan), np.zeros(0, dtype=int)
    z = floats(z, "z")
    if z.shape != (measurement.size,):
        raise ValueError(f"z has shape {z.shape}, but ({measurement.size},) is needed")
    if all_finite(z):
        return z, slice(None)
    if np.isinf(z).any():
        raise ValueError("z is infinite (use NaN for a missing entry)")
    return z, np.flatnonzero(~np.isnan(z))


def factor(S: Array, what: str, names: tuple[str, ...] = (), rows: Any = slice(None)) -> Array:
    """Cholesky factor of a covariance, of the `rows` of `names`, that must be positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(S))
    except np.linalg.LinAlgError:
        raise SingularityError(
            f"{what} is not positive definite",
            matrix=what,
            variables=tuple(map(str, np.array(names)[rows])),
            hint="the measurement noise is too small for the conditioning of the state, or the filter has diverged",
        ) from None


class GaussianFilter:
    """Common part of the filters: subclasses have fields system, measurement, Q, R, gate, reduced, and propagate and update estimates.

    Where there are constraints (`reduced`, None: by default), estimates are on them: means satisfy h(q) = 0, momenta and covariances are along
    them. Updated means are brought back to the nearest configuration, prescribed variables as they are, and momenta lose what no step
    feels (`OneStepMap.settle`); covariances follow by its derivative.
    """

    system: OneStep
    measurement: Measurement
    Q: ArrayLike
    R: ArrayLike
    gate: float | None
    reduced: bool | None
    tied: bool  # whether estimates are kept on constraints
    _inner: Any  # the filter in the core, where there is one

    @property
    def map(self) -> OneStepMap:
        """The system with all that a filter asks for."""
        return complete(self.system)

    def _keeps_constraints(self) -> bool:
        """Where there are some, and the map knows the way along them."""
        space = self.map
        return self.reduced is not False and space.constrained and space.tangent(space.neutral()[None]) is not None

    def onto(self, x: Array) -> Array | None:
        """The matrix (ndx, ndx) that takes perturbations of x (nx,) to those along the constraints, or None for all."""
        found = self.map.tangent(x[None]) if self.tied else None
        return None if found is None else found.onto[0]

    def known(self, x: Array) -> Array:
        """x (nx,), which must be a state: a map says what is none (quaternions) when it compares."""
        self.map.difference(x, x)
        return x

    def settle(self, x: Array) -> Array:
        """x (nx,), brought back to the constraints if estimates are kept there."""
        return self.map.settle(x) if self.tied else x

    def settle_all(self, points: Array) -> Array:
        """`settle` of many states (n, nx)."""
        return np.stack([self.map.settle(x) for x in points]) if self.tied else points

    def _check(self) -> None:
        needed(self.measurement, Measurement)
        n, steps = self.map.ndx, getattr(self.system, "steps", None)
        object.__setattr__(self, "tied", self._keeps_constraints())
        object.__setattr__(self, "Q", covariance(self.Q, "Q", n, definite=False, steps=steps))
        object.__setattr__(self, "R", covariance(self.R, "R", self.measurement.size, definite=True))
        gate_threshold(self.gate, self.measurement.size)

    def start(self, mean: ArrayLike | State, P: ArrayLike) -> Estimate:
        """The first estimate: mean (nx,) or a State, covariance P (number, variances, or matrix (ndx, ndx))."""
        n, m = self.map.nx, self.map.ndx
        x = self.settle(self.known(finite(mean, "mean", (n,))))
        return Estimate(x, along(self.onto(x), covariance(P, "P", m, definite=False)))

    def noise(self, k: int, dt: float | None = None) -> Array:
        """Covariance of the process noise of step k (ndx, ndx); of another length dt (s) in proportion to it."""
        Q = np.asarray(self.Q)
        Q = Q if Q.ndim == 2 else Q[k]
        if dt is None:
            return Q
        usual = np.asarray(self.map.dt, dtype=float)
        return np.asarray(Q * (dt / float(usual if usual.ndim == 0 else usual[k])))

    def predict(self, estimate: Estimate, u: ArrayLike, k: int = 0, *, dt: float | None = None) -> Estimate:
        """The estimate after step k with input u (nu,), before the next measurement; `dt` (s): a step of this length, with the noise Q in
        proportion."""
        return self.propagate(needed(estimate, Estimate), finite(u, "u", (self.system.nu,)), k, _length(dt))[0]

    def propagate(self, estimate: Estimate, u: Array, k: int, dt: float | None = None) -> tuple[Estimate, Array]:
        """From `estimate` with the inputs u (nu,): the estimate after step k (or a step of `dt` seconds), and the covariance (ndx, ndx) of the states
        before and after it."""
        raise NotImplementedError

    def stepper(self, k: int, dt: float | None) -> tuple[OneStepMap, int]:
        """The map, and the number of its step that is meant: step k, or one of the length dt."""
        return (self.map, k) if dt is None else (self.map.with_dt(np.array([dt])), 0)

    def update(self, estimate: Estimate, z: ArrayLike | None, u: ArrayLike | None = None) -> Estimate:
        """What `estimate` becomes by a measurement z (nz,); NaN entries are missing, None means nothing was measured.
        `u` (nu,): the inputs of the step
        that led here, for sensors that feel them."""
        raise NotImplementedError

    def felt(self, u: ArrayLike | None) -> Array | None:
        """Inputs (nu,) as given to `update`, checked."""
        return None if u is None else finite(u, "u", (self.system.nu,))

    def unmeasured(self, estimate: Estimate) -> Estimate:
        """The estimate after an instant at which nothing was measured."""
        return Estimate(needed(estimate, Estimate).mean, estimate.covariance, np.full(self.measurement.size, np.nan))

    def run(
        self, start: Estimate, U: ArrayLike | None, Z: Iterable[ArrayLike | None], *, dt: ArrayLike | None = None
    ) -> Filtered:
        """Filter a record: U (N, nu) inputs (None: zeros), Z (N+1, nz) measurements, row k at state k ((N, nz): none at state 0);
        `dt` (N,): lengths of the steps (s), if they are not the system's."""
        rows: Any = Z if isinstance(Z, np.ndarray) and Z.ndim == 2 else list(Z)
        nothing_pushed = np.zeros((max(len(rows) - 1, 0), self.system.nu))
        inputs = nothing_pushed if U is None else finite(U, "U", (None, self.system.nu))
        N = len(inputs)
        if len(rows) not in (N, N + 1):
            raise ValueError(f"Z has {len(rows)} rows, but {N} or {N + 1} are needed")
        lengths = None if dt is None else finite(dt, "dt", (N,))
        for h in () if lengths is None else lengths:
            _length(h)
        found = self._in_core(needed(start, Estimate), inputs, self._record(rows, N + 1), lengths)
        if found is None:
            found = self._in_steps(start, inputs, [None] * (N + 1 - len(rows)) + list(rows), lengths)
        mean, P, before, P_before, cross, innovation, distance, accepted = found
        return Filtered(
            mean,
            P,
            before,
            P_before,
            cross,
            innovation,
            distance,
            accepted,
            system=self.map,
            reduced=self.tied,
            inputs=inputs,
            dt=lengths,
        )

    def _record(self, rows: Any, count: int) -> Array | None:
        """Measurements (count, nz) of the instants, NaN where there are none; None if they are not of this form."""
        nz = self.measurement.size
        nothing = np.full(nz, np.nan)
        table = rows if isinstance(rows, np.ndarray) else [nothing if z is None else floats(z, "Z") for z in rows]
        if len(table) < count:
            table = np.vstack([nothing, table]) if isinstance(rows, np.ndarray) else [nothing, *table]
        if any(np.shape(z) != (nz,) for z in (table[:1] if isinstance(rows, np.ndarray) else table)):
            return None
        return floats(table, "Z")

    def _in_core(self, start: Estimate, inputs: Array, rows: Array | None, dt: Array | None) -> Any:
        """The first fields of `Filtered`, all steps in the core; None where that cannot be done."""
        return None

    def _in_steps(self, start: Estimate, inputs: Array, rows: list[Any], dt: Array | None) -> Any:
        """The first fields of `Filtered`, step by step."""
        N, n, nothing = len(inputs), self.map.ndx, np.full(self.measurement.size, np.nan)
        cross = []
        predictions, estimates = [start], [self.update(start, rows[0], inputs[0] if N else None)]
        for k in range(N):
            before, C = self.propagate(estimates[-1], inputs[k], k, None if dt is None else float(dt[k]))
            predictions.append(before)
            cross.append(C)
            estimates.append(self.update(before, rows[k + 1], inputs[k]))
        return (
            np.stack([e.mean for e in estimates]),
            np.stack([e.covariance for e in estimates]),
            np.stack([e.mean for e in predictions]),
            np.stack([e.covariance for e in predictions]),
            np.stack(cross) if cross else np.zeros((0, n, n)),
            np.stack([nothing if e.innovation is None else e.innovation for e in estimates]),
            np.array([e.distance for e in estimates]),
            np.array([bool(e.accepted) for e in estimates]),
        )

    def _gaussian_update(
        self,
        estimate: Estimate,
        z: ArrayLike | None,
        expected: Array,
        S: Array,
        cross: Array,
        joseph: Callable[[Array, Any, Array], Array],
    ) -> Estimate:
        """Update with predicted measurement `expected`, its covariance S without noise, cross covariance of x and z.

        `joseph(K, rows, R)` returns the new covariance for the gain K of the measured rows with noise R.
        """
        values, rows = present(z, self.measurement)
        innovation = self.measurement.innovation(values, expected)
        e = innovation[rows]
        if len(e) == 0:
            return Estimate(estimate.mean, estimate.covariance, innovation)
        R = np.asarray(self.R)[rows][:, rows]
        total = S[rows][:, rows] + R
        L = factor((total + total.T) / 2, "innovation covariance", self.measurement.names, rows)
        white = np.linalg.solve(L, np.column_stack([e, cross[:, rows].T]))
        distance = float(white[:, 0] @ white[:, 0])
        if distance > gate_threshold(self.gate, len(e)):
            return Estimate(estimate.mean, estimate.covariance, innovation, distance, False)
        K: Array = np.asarray(np.linalg.solve(L.T, white[:, 1:]).T, dtype=np.float64)
        P = joseph(K, rows, R)
        return self._moved(estimate, K @ e, (P + P.T) / 2, innovation, distance)

    def _moved(self, estimate: Estimate, dx: Array, P: Array, innovation: Array, distance: float) -> Estimate:
        """The estimate corrected by dx (ndx,), with the covariance P (ndx, ndx) of differences from its mean."""
        mean = self.settle(self.map.retract(estimate.mean, dx))
        P = along(self.onto(mean), recentred(self.map, estimate.mean, mean, P))
        return Estimate(mean, P, innovation, distance, True)


def along(onto: Array | None, P: Array) -> Array:
    """A covariance (ndx, ndx) of perturbations that are taken along constraints by `onto` (ndx, ndx); None: as it is."""
    if onto is None:
        return P
    inside = onto @ P @ onto.T
    return np.asarray((inside + inside.T) / 2)


def _length(dt: object) -> float | None:
    """Length of a step (s), or None for the usual one."""
    if dt is None:
        return None
    h = float(finite(dt, "dt", ()))
    if h <= 0:
        raise ValueError(f"dt must be positive, not {h}")
    return h


def recentred(space: OneStepMap, old: Array, new: Array, P: Array) -> Array:
    """A covariance of differences from the state `new` that were measured from `old` before."""
    J = space.difference_jacobian(old, new)
    if J is None:
        return P
    moved = np.linalg.solve(J, np.linalg.solve(J, P).T)
    return (moved + moved.T) / 2


def mean_of(space: OneStepMap, points: Array, weights: Array, start: Array) -> Array:
    """The state (nx,) from which the weighted differences to the points (n, nx) sum to zero; `start` is near it."""
    mean = start
    for _ in range(20):
        step = weights @ space.difference(mean, points)
        mean = space.retract(mean, step)
        if not np.abs(step).max(initial=0.0) > 1e-12 * (1.0 + np.abs(mean).max(initial=0.0)):
            break
    return mean


def root(P: Array) -> Array:
    """A square root of a covariance, by eigenvalues, so that it may be singular."""
    values, vectors = np.linalg.eigh(P)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))


def check_finite(mean: Array, P: Array, space: OneStepMap, k: int) -> None:
    """A filter never hands on NaN: raise with the states that overflowed."""
    if all_finite(mean) and all_finite(P):
        return
    bad = [space.x_names[i] for i in np.flatnonzero(~np.isfinite(mean))]
    bad += [space.dx_names[i] for i in np.flatnonzero(~np.isfinite(P).all(axis=1))]
    variables = tuple(dict.fromkeys(bad))
    raise SingularityError(
        f"the prediction of step {k} is not finite: states {', '.join(variables)}",
        matrix="covariance",
        variables=variables,
        step=k,
        hint="the filter has diverged: check the model, the noise levels, and outliers (gate)",
    )
