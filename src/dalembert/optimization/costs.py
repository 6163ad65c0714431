"""Costs of a motion: sums over the steps of functions of (x_k, u_k), plus a function of the last state.

A cost is described without a system (`TrackingCost`, `TerminalCost`, `ExpressionCost`, sums of them) and becomes
numbers by `cost.bind(system)`, which resolves names, checks shapes and NaN, and returns a `BoundCost`. Everything is
evaluated for all steps at once (Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, eq. 23;
the weights here carry the factor 1/2 of trep's DCost).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, by_pattern, finite, floats, matching, number
from ..integrate import Trajectory
from ..integrate.onestep import slopes

# a number, a vector (diagonal), a matrix, a stack of matrices per step, or {name: number or array over time}
Weight = ArrayLike | Mapping[str, ArrayLike]
Reference = Trajectory | tuple[ArrayLike, ArrayLike] | Array | Mapping[str, ArrayLike]
Hessian = tuple[Array, Array | None, Array]


class States(Protocol):
    """What costs ask of the states of a system; see `StateSpace`."""

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""

    def difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector at x0 that leads to x1."""

    def retract(self, x: Array, dx: Array) -> Array:
        """The state to which dx leads from x."""

    def difference_jacobian(self, x0: Array, x1: Array) -> Array | None:
        """Derivative of difference(x0, retract(x1, dx)) by dx at 0, or None for the identity."""

    def retract_jacobian(self, x: Array) -> Array | None:
        """Derivative of retract(x, dx) by dx at 0, or None for the identity."""


class Horizon(States, Protocol):
    """What a cost is bound to: a `System`, or the nodes of a `ContinuousSystem`."""

    @property
    def nx(self) -> int:
        """Coordinates of a state."""

    @property
    def nu(self) -> int:
        """Inputs."""

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of the coordinates."""

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components."""

    @property
    def u_names(self) -> tuple[str, ...]:
        """Names of the inputs."""

    @property
    def model(self) -> Any:
        """The Model whose configuration the states begin with, or None."""

    @property
    def steps(self) -> int:
        """Number of steps N."""

    @property
    def t(self) -> Array:
        """Times (N+1,)."""

    def neutral(self) -> Array:
        """A state to start from."""

    def curve(self, traj: object) -> tuple[Array, Array]:
        """(X, U) of a Trajectory."""


class BoundCost(Protocol):
    """A cost with numbers: N steps, X (N+1, nx), U (N, nu); derivatives by tangent components of the states."""

    def values(self, X: Array, U: Array) -> Array:
        """Cost of every step and, last, of the final state: (N+1,)."""

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        """Derivatives by X (N+1, ndx) and by U (N, nu)."""

    def hessian(self, X: Array, U: Array) -> Hessian:
        """Q (N+1, ndx, ndx), S (N, ndx, nu) or None for zero, R (N, nu, nu); read only."""


class Cost:
    """Base of all costs; `a + b` and `weight * a` make new ones.

    >>> c = 2.0 * TerminalCost([0.0, 0.0], 1.0) + TerminalCost([1.0, 0.0], 1.0)
    >>> len(c.terms)
    2
    """

    def bind(self, system: Horizon) -> BoundCost:
        """Resolve names and shapes against `system`; returns a `BoundCost`."""
        raise NotImplementedError

    def __add__(self, other: Cost) -> SumCost:
        if not isinstance(other, Cost):
            return NotImplemented
        return SumCost((*_terms(self), *_terms(other)))

    def __rmul__(self, factor: float) -> SumCost:
        return SumCost(tuple((number(factor, "the weight of a cost") * w, c) for w, c in _terms(self)))


@dataclass(frozen=True)
class SumCost(Cost):
    """Weighted sum of costs; made by `+` and `*`."""

    terms: tuple[tuple[float, Cost], ...]

    def bind(self, system: Horizon) -> BoundCost:
        """See `Cost.bind`."""
        return _BoundSum([(w, c.bind(system)) for w, c in self.terms])


def _terms(cost: Cost) -> tuple[tuple[float, Cost], ...]:
    return cost.terms if isinstance(cost, SumCost) else ((1.0, cost),)


@dataclass(frozen=True, eq=False)
class TrackingCost(Cost):
    """Half the weighted square of the distance to a reference, at every step and at the end.

    `reference`: a Trajectory, a pair (Xd (N+1, nx), Ud (N, nu)), the array Xd alone (with inputs of zero), or {name: number or
    array over time} (the rest is zero, or neutral); it need not be a motion of the system. `Q` (ndx, ndx) weighs the difference of the
    states, `R` inputs, `Qf` the final state (default: the last Q). A weight is a number, a vector (diagonal), a matrix, a stack of
    matrices (one per step), or {name: number or array over time} with "*" for all names not mentioned (default 0); names may have
    wildcards ("p.*").

    >>> import numpy as np
    >>> cost = TrackingCost({"theta": np.pi}, Q={"theta": 10.0, "*": 0.1}, R=1.0)
    """

    reference: Reference
    Q: Weight
    R: Weight
    Qf: Weight | None = None

    def bind(self, system: Horizon) -> BoundCost:
        """See `Cost.bind`."""
        N = system.steps
        Xd, Ud = _reference(self.reference, system)
        Q = _weight(self.Q, system.dx_names, N + 1, "Q")
        R = _weight(self.R, system.u_names, N, "R")
        if self.Qf is not None:
            Qf = _weight(self.Qf, system.dx_names, 1, "Qf")
            if Q.ndim != Qf.ndim:
                Q, Qf = _full(Q), _full(Qf)
            Q = np.concatenate([Q[:N], Qf])
        return _Quadratic(system, Xd, Ud, Q, R)


@dataclass(frozen=True, eq=False)
class TerminalCost(Cost):
    """Half the weighted square of the distance of the final state to `target` (vector nx, or {name: value}), with weights `Qf`.

    >>> reach = TerminalCost({"theta": 3.14}, {"theta": 100.0})
    """

    target: ArrayLike | Mapping[str, float]
    Qf: Weight

    def bind(self, system: Horizon) -> BoundCost:
        """See `Cost.bind`."""
        N, nx = system.steps, system.nx
        given = self.target
        if isinstance(given, Mapping):
            given = _from_names(given, system.x_names, 1, "target", system.neutral())[0]
        target = finite_at(given, (nx,), "target of TerminalCost")
        Qf = _weight(self.Qf, system.dx_names, 1, "Qf")
        Q = np.zeros((N + 1, *Qf.shape[1:]))
        Q[N] = Qf[0]
        nothing = np.zeros((N, system.nu))
        return _Quadratic(system, np.tile(target, (N + 1, 1)), nothing, Q, nothing)


class _Quadratic:
    """1/2 e'Qe + 1/2 (u - ud)'R(u - ud), e = difference(xd, x); Q and R diagonal (N, n) or full (N, n, n)."""

    def __init__(self, space: States, Xd: Array, Ud: Array, Q: Array, R: Array) -> None:
        self._space, self._Xd, self._Ud, self._Q, self._R = space, Xd, Ud, Q, R
        self._flat: Hessian | None = None
        if space.difference_jacobian(Xd[:1], Xd[:1]) is None:
            self._flat = (_full(Q), None, _full(R))

    def values(self, X: Array, U: Array) -> Array:
        dX, dU = self._space.difference(self._Xd, X), U - self._Ud
        out = np.einsum("ki,ki->k", dX, _apply(self._Q, dX))  # a sum over short rows takes twice as long
        out[:-1] += np.einsum("ki,ki->k", dU, _apply(self._R, dU))
        return np.asarray(0.5 * out)

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        g = _apply(self._Q, self._space.difference(self._Xd, X))
        if self._flat is None:
            g = _times(self._jacobian(X), g)
        return g, _apply(self._R, U - self._Ud)

    def hessian(self, X: Array, U: Array) -> Hessian:
        if self._flat is not None:
            return self._flat
        J, g = self._jacobian(X), _apply(self._Q, self._space.difference(self._Xd, X))
        bend = slopes(lambda d: _times(self._jacobian(self._space.retract(X, d)), g), self._space.ndx, (len(X),))
        return J.swapaxes(1, 2) @ _full(self._Q) @ J + (bend + bend.swapaxes(1, 2)) / 2, None, _full(self._R)

    def quadratic(self) -> tuple[Array, Array, Array, Array, Array]:
        """(Xd, Ud, Q, Qf, R) for predictive control; Q and R without time axis where they are constant."""
        Q, R = _full(self._Q), _full(self._R)
        stages = Q[:-1]
        same, even = bool((stages == stages[0]).all()), bool((R[0] == R).all())
        return (
            self._Xd, self._Ud, np.ascontiguousarray(stages[0] if same else stages), np.ascontiguousarray(Q[-1]),
            np.ascontiguousarray(R[0] if even else R),
        )  # fmt: skip

    def terms(self) -> list[tuple[float, Array, Array, Array, Array]] | None:
        """(weight, Xd, Ud, Q, R) where states are flat."""
        if self._flat is None:
            return None
        return [(1.0, *(np.ascontiguousarray(a) for a in (self._Xd, self._Ud, self._Q, self._R)))]  # type: ignore[list-item]

    def _jacobian(self, X: Array) -> Array:
        J = self._space.difference_jacobian(self._Xd, X)
        assert J is not None
        return J


class _OfCoordinates:
    """A cost whose derivatives are by the coordinates of x, as one by tangent components."""

    def __init__(self, space: States, cost: BoundCost) -> None:
        self._space, self._cost = space, cost

    def values(self, X: Array, U: Array) -> Array:
        return self._cost.values(X, U)

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        gx, gu = self._cost.gradient(X, U)
        return _times(self._jacobian(X), gx), gu

    def hessian(self, X: Array, U: Array) -> Hessian:
        Q, S, R = self._cost.hessian(X, U)
        T, g = self._jacobian(X), self._cost.gradient(X, U)[0]
        down = T.swapaxes(1, 2)
        bend = slopes(lambda d: _times(self._jacobian(self._space.retract(X, d)), g), self._space.ndx, (len(X),))
        return down @ Q @ T + (bend + bend.swapaxes(1, 2)) / 2, None if S is None else down[:-1] @ S, R

    def _jacobian(self, X: Array) -> Array:
        T = self._space.retract_jacobian(X)
        assert T is not None
        return T


def of_coordinates(space: Horizon, cost: BoundCost) -> BoundCost:
    """A cost with derivatives by coordinates as rooms want it, with those by tangent components."""
    return cost if space.retract_jacobian(space.neutral()) is None else _OfCoordinates(space, cost)


class _BoundSum:
    def __init__(self, terms: Sequence[tuple[float, BoundCost]]) -> None:
        self.parts = terms

    def values(self, X: Array, U: Array) -> Array:
        return sum((w * c.values(X, U) for w, c in self.parts), np.zeros(len(X)))

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        pairs = [(w, c.gradient(X, U)) for w, c in self.parts]
        return sum(w * g[0] for w, g in pairs), sum(w * g[1] for w, g in pairs)  # type: ignore[return-value]

    def hessian(self, X: Array, U: Array) -> Hessian:
        parts = [(w, c.hessian(X, U)) for w, c in self.parts]
        mixed = [w * H[1] for w, H in parts if H[1] is not None]
        return sum(w * H[0] for w, H in parts), sum(mixed) if mixed else None, sum(w * H[2] for w, H in parts)  # type: ignore[return-value]


def quadratic_terms(cost: BoundCost) -> list[tuple[float, Array, Array, Array, Array]] | None:
    """(weight, Xd (N+1, nx), Ud (N, nu), Q, R) of every term of a cost that is quadratic in flat states, or None; Q and R diagonal or full.

    >>> from dalembert.integrate.onestep import StateSpace
    >>> one = _Quadratic(StateSpace(), np.zeros((2, 1)), np.zeros((1, 1)), np.ones((2, 1)), np.ones((1, 1)))
    >>> len(quadratic_terms(_BoundSum([(2.0, one), (1.0, one)])))
    2
    """
    if isinstance(cost, _Quadratic):
        return cost.terms()
    if not isinstance(cost, _BoundSum):
        return None
    parts = [(w, quadratic_terms(c)) for w, c in cost.parts]
    if any(found is None for _, found in parts):
        return None
    return [(w * t[0], *t[1:]) for w, found in parts for t in found or ()]


def sum_costs(costs: Sequence[BoundCost]) -> BoundCost:
    """Sum of bound costs.

    >>> from dalembert.optimization.costs import _Quadratic
    >>> import numpy as np
    >>> from dalembert.integrate.onestep import StateSpace
    >>> one = _Quadratic(StateSpace(), np.zeros((2, 1)), np.zeros((1, 1)), np.ones((2, 1)), np.ones((1, 1)))
    >>> float(sum_costs([one, one]).values(np.ones((2, 1)), np.ones((1, 1))).sum())
    3.0
    """
    return costs[0] if len(costs) == 1 else _BoundSum([(1.0, c) for c in costs])


# ---- from what users write to arrays


def _apply(W: Array, e: Array) -> Array:
    return W * e if W.ndim == 2 else np.matmul(W, e[:, :, None])[:, :, 0]


def _times(J: Array, g: Array) -> Array:
    """J'g at every step."""
    return np.matmul(g[:, None, :], J)[:, 0]


def _full(W: Array) -> Array:
    if W.ndim == 3:
        return np.ascontiguousarray(W)
    out = np.zeros((*W.shape, W.shape[1]))
    i = np.arange(W.shape[1])
    out[:, i, i] = W
    return out


def _weight(weight: Weight, names: Sequence[str], count: int, what: str) -> Array:
    """(count, n) for diagonal weights, (count, n, n) for full ones; `count` time points."""
    n = len(names)
    if isinstance(weight, Mapping):
        return _from_names(weight, names, count, what)
    w = finite(weight, what)
    if w.ndim == 0:
        return np.full((count, n), float(w))
    if w.shape == (n,):
        return np.tile(w, (count, 1))
    if w.ndim == 3 and w.shape[1:] == (n, n) and len(w) in (count, count - 1):
        _symmetric(w, what)
        return w if len(w) == count else np.concatenate([w, w[-1:]])
    if w.shape == (n, n):
        _symmetric(w, what)
        if np.count_nonzero(w - np.diag(np.diag(w))) == 0:  # a diagonal matrix is stored as such: cheaper
            return np.tile(np.diag(w), (count, 1))
        return np.broadcast_to(w, (count, n, n))
    raise ValueError(f"{what} has shape {w.shape}; expected a number, ({n},), ({n}, {n}) or ({count}, {n}, {n})")


def _symmetric(w: Array, what: str) -> None:
    if np.abs(w - np.swapaxes(w, -1, -2)).max() > 1e-9 * max(1.0, float(np.abs(w).max())):
        raise ValueError(f"{what}: weight matrices must be symmetric")


def _from_names(
    values: Mapping[str, Any], names: Sequence[str], count: int, what: str, rest: Array | None = None
) -> Array:
    """(count, n) values by name; what is not named has the value of "*", or that of `rest` (n,), or zero."""
    names = list(names)
    out = np.full((count, len(names)), number(values.get("*", 0.0), f"{what}: '*'"))
    if rest is not None and "*" not in values:
        out[:] = rest
    for hits, name, value in by_pattern({k: v for k, v in values.items() if k != "*"}, names, what):
        v = floats(value, f"{what}: '{name}'")
        if v.ndim and v.shape not in ((count,), (count - 1,)):
            raise ValueError(f"{what}: '{name}' must be a number or have {count} values, not shape {v.shape}")
        if not np.isfinite(v).all():
            raise ValueError(f"{what}: '{name}' is not finite")
        for i in hits:
            out[: len(v) if v.ndim else count, i] = v
            if v.ndim and len(v) == count - 1:
                out[-1, i] = v[-1]
    return out


def _reference(reference: Reference, system: Horizon) -> tuple[Array, Array]:
    N = system.steps
    if isinstance(reference, Mapping):
        x = {k: v for k, v in reference.items() if k == "*" or matching(k, system.x_names)}
        u = {k: v for k, v in reference.items() if k not in x}
        Xd = _from_names(x, system.x_names, N + 1, "reference", system.neutral())
        return Xd, _from_names(u, system.u_names, N, "reference")
    if isinstance(reference, np.ndarray):  # states alone: inputs are to be small
        reference = (reference, np.zeros((N, system.nu)))
    X, U = reference if isinstance(reference, (tuple, list)) else system.curve(reference)
    if getattr(system, "nodes", False):  # continuous time: the final state appears once more
        X = np.vstack([X, np.asarray(X)[-1:]])
    return (
        finite_at(X, (N + 1, system.nx), "reference Xd", system.x_names),
        finite_at(U, (N, system.nu), "reference Ud", system.u_names),
    )


def finite_at(value: ArrayLike, shape: tuple[int, ...], what: str, names: Sequence[str] = ()) -> Array:
    """float64 copy-free array of a given shape; a NaN is reported with its place."""
    a = floats(value, what)
    if a.shape != shape:
        raise ValueError(f"{what} has shape {a.shape}, expected {shape}")
    if not np.isfinite(a).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        where = f"step {place[0]}, '{names[place[1]]}'" if names and len(place) == 2 else f"entry {place}"
        raise ValueError(f"{what} is not finite at {where}")
    return a


UserFunction = Callable[[Any], Any]
