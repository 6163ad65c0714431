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
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weight = Any  # number, vector (diagonal), matrix, stack of matrices per step, or {name: number or array over time}
Hessian = tuple[Array, Array | None, Array]


class BoundCost(Protocol):
    """A cost with numbers: N steps, X (N+1, nx), U (N, nu)."""

    def values(self, X: Array, U: Array) -> Array:
        """Cost of every step and, last, of the final state: (N+1,)."""

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        """Derivatives by X (N+1, nx) and by U (N, nu)."""

    def hessian(self, X: Array, U: Array) -> Hessian:
        """Q (N+1, nx, nx), S (N, nx, nu) or None for zero, R (N, nu, nu); read only."""


class Cost:
    """Base of all costs; `a + b` and `weight * a` make new ones.

    >>> c = 2.0 * TerminalCost([0.0, 0.0], 1.0) + TerminalCost([1.0, 0.0], 1.0)
    >>> len(c.terms)
    2
    """

    def bind(self, system: Any) -> BoundCost:
        """Resolve names and shapes against a System; returns a `BoundCost`."""
        raise NotImplementedError

    def __add__(self, other: Cost) -> SumCost:
        if not isinstance(other, Cost):
            return NotImplemented
        return SumCost((*_terms(self), *_terms(other)))

    def __rmul__(self, factor: float) -> SumCost:
        return SumCost(tuple((float(factor) * w, c) for w, c in _terms(self)))


@dataclass(frozen=True)
class SumCost(Cost):
    """Weighted sum of costs; made by `+` and `*`."""

    terms: tuple[tuple[float, Cost], ...]

    def bind(self, system: Any) -> BoundCost:
        """See `Cost.bind`."""
        return _BoundSum([(w, c.bind(system)) for w, c in self.terms])


def _terms(cost: Cost) -> tuple[tuple[float, Cost], ...]:
    return cost.terms if isinstance(cost, SumCost) else ((1.0, cost),)


@dataclass(frozen=True, eq=False)
class TrackingCost(Cost):
    """Half the weighted square of the distance to a reference, at every step and at the end.

    `reference`: a Trajectory, a pair (Xd (N+1, nx), Ud (N, nu)), or {name: number or array over time} (the rest is
    zero); it need not be a motion of the system. `Q` weighs states, `R` inputs, `Qf` the final state (default: the
    last Q). A weight is a number, a vector (diagonal), a matrix, a stack of matrices (one per step), or {name:
    number or array over time} with "*" for all names not mentioned (default 0).

    >>> import numpy as np
    >>> cost = TrackingCost({"theta": np.pi}, Q={"theta": 10.0, "*": 0.1}, R=1.0)
    """

    reference: Any
    Q: Weight
    R: Weight
    Qf: Weight = None

    def bind(self, system: Any) -> BoundCost:
        """See `Cost.bind`."""
        N = system.steps
        Xd, Ud = _reference(self.reference, system)
        Q = _weight(self.Q, system.x_names, N + 1, "Q")
        R = _weight(self.R, system.u_names, N, "R")
        if self.Qf is not None:
            Qf = _weight(self.Qf, system.x_names, 1, "Qf")
            if Q.ndim != Qf.ndim:
                Q, Qf = _full(Q), _full(Qf)
            Q = np.concatenate([Q[:N], Qf])
        return _Quadratic(Xd, Ud, Q, R)


@dataclass(frozen=True, eq=False)
class TerminalCost(Cost):
    """Half the weighted square of the distance of the final state to `target` (vector nx, or {name: value}).

    >>> reach = TerminalCost({"theta": 3.14}, {"theta": 100.0})
    """

    target: Any
    Qf: Weight

    def bind(self, system: Any) -> BoundCost:
        """See `Cost.bind`."""
        N, nx = system.steps, system.nx
        target = self.target
        if isinstance(target, Mapping):
            target = _from_names(target, system.x_names, 1, "target")[0]
        target = _finite(target, (nx,), "target of TerminalCost")
        Qf = _weight(self.Qf, system.x_names, 1, "Qf")
        Q = np.zeros((N + 1, *Qf.shape[1:]))
        Q[N] = Qf[0]
        return _Quadratic(np.tile(target, (N + 1, 1)), np.zeros((N, system.nu)), Q, np.zeros((N, system.nu)))


class _Quadratic:
    """1/2 (x - xd)'Q(x - xd) + 1/2 (u - ud)'R(u - ud); Q and R diagonal (N, n) or full (N, n, n)."""

    def __init__(self, Xd: Array, Ud: Array, Q: Array, R: Array) -> None:
        self._Xd, self._Ud, self._Q, self._R = Xd, Ud, Q, R
        self._hessian: Hessian | None = None

    def values(self, X: Array, U: Array) -> Array:
        dX, dU = X - self._Xd, U - self._Ud
        out = np.einsum("ki,ki->k", dX, _apply(self._Q, dX))  # a sum over short rows takes twice as long
        out[:-1] += np.einsum("ki,ki->k", dU, _apply(self._R, dU))
        return np.asarray(0.5 * out)

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        return _apply(self._Q, X - self._Xd), _apply(self._R, U - self._Ud)

    def hessian(self, X: Array, U: Array) -> Hessian:
        if self._hessian is None:
            self._hessian = (_full(self._Q), None, _full(self._R))
        return self._hessian


class _BoundSum:
    def __init__(self, terms: Sequence[tuple[float, BoundCost]]) -> None:
        self._terms = terms

    def values(self, X: Array, U: Array) -> Array:
        return sum((w * c.values(X, U) for w, c in self._terms), np.zeros(len(X)))

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        lx, lu = np.zeros_like(X), np.zeros_like(U)
        for w, c in self._terms:
            gx, gu = c.gradient(X, U)
            lx += w * gx
            lu += w * gu
        return lx, lu

    def hessian(self, X: Array, U: Array) -> Hessian:
        nx, nu, N = X.shape[1], U.shape[1], len(U)
        Q, R = np.zeros((N + 1, nx, nx)), np.zeros((N, nu, nu))
        S: Array | None = None
        for w, c in self._terms:
            q, s, r = c.hessian(X, U)
            Q += w * q
            R += w * r
            if s is not None:
                S = w * s if S is None else S + w * s
        return Q, S, R


def sum_costs(costs: Sequence[BoundCost]) -> BoundCost:
    """Sum of bound costs.

    >>> from dalembert.optimization.costs import _Quadratic
    >>> import numpy as np
    >>> one = _Quadratic(np.zeros((2, 1)), np.zeros((1, 1)), np.ones((2, 1)), np.ones((1, 1)))
    >>> float(sum_costs([one, one]).values(np.ones((2, 1)), np.ones((1, 1))).sum())
    3.0
    """
    return costs[0] if len(costs) == 1 else _BoundSum([(1.0, c) for c in costs])


# ---- from what users write to arrays


def _apply(W: Array, e: Array) -> Array:
    return W * e if W.ndim == 2 else np.matmul(W, e[:, :, None])[:, :, 0]


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
    w = np.asarray(weight, dtype=float)
    if not np.isfinite(w).all():
        raise ValueError(f"{what}: weights must be finite")
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


def _from_names(values: Mapping[str, Any], names: Sequence[str], count: int, what: str) -> Array:
    names = list(names)
    out = np.full((count, len(names)), float(values.get("*", 0.0)))
    for name, value in values.items():
        if name == "*":
            continue
        if name not in names:
            raise ValueError(f"{what}: unknown name {name!r}; known are {', '.join(names)}")
        v = np.asarray(value, dtype=float)
        if v.ndim and v.shape not in ((count,), (count - 1,)):
            raise ValueError(f"{what}: '{name}' must be a number or have {count} values, not shape {v.shape}")
        if not np.isfinite(v).all():
            raise ValueError(f"{what}: '{name}' is not finite")
        column = out[:, names.index(name)]
        column[: len(v) if v.ndim else count] = v
        if v.ndim and len(v) == count - 1:
            column[-1] = v[-1]
    return out


def _reference(reference: Any, system: Any) -> tuple[Array, Array]:
    N = system.steps
    if isinstance(reference, Mapping):
        x = {k: v for k, v in reference.items() if k == "*" or k in system.x_names}
        u = {k: v for k, v in reference.items() if k not in x}
        return _from_names(x, system.x_names, N + 1, "reference"), _from_names(u, system.u_names, N, "reference")
    X, U = reference if isinstance(reference, (tuple, list)) else system.curve(reference)
    if getattr(system, "nodes", False):  # continuous time: the final state appears once more
        X = np.vstack([X, np.asarray(X)[-1:]])
    return (
        _finite(X, (N + 1, system.nx), "reference Xd", system.x_names),
        _finite(U, (N, system.nu), "reference Ud", system.u_names),
    )


def _finite(value: Any, shape: tuple[int, ...], what: str, names: Sequence[str] = ()) -> Array:
    """float64 copy-free array of a given shape; a NaN is reported with its place."""
    a = np.ascontiguousarray(value, dtype=float)
    if a.shape != shape:
        raise ValueError(f"{what} has shape {a.shape}, expected {shape}")
    if not np.isfinite(a).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        where = f"step {place[0]}, '{names[place[1]]}'" if names and len(place) == 2 else f"entry {place}"
        raise ValueError(f"{what} is not finite at {where}")
    return a


UserFunction = Callable[[Any], Any]
