"""Inequalities and equalities along a motion: box bounds on inputs and states, and general expressions of both.

A constraint becomes rows at every node k = 0 ... N: low <= h(x_k, u_k) <= high. What the interior point of the default optimizer makes of
them is in `cpp/interior.hpp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, number
from ..system import System
from .costs import Hessian, UserFunction

Bounds = Mapping[str, tuple[float | None, float | None]]


@dataclass(frozen=True, eq=False)
class MotionLimit:
    """low <= function(s) <= high along a motion; `function` of `Symbols` returns a CasADi scalar or vector.

    `at`: "steps" (every k < N, may use inputs), "end" (the final state), or "all" (every state but the first, and the end; no inputs at the
    end). low = high is an equality; None is no limit. `name` is used in messages and for the multipliers of the result.

    >>> reach = MotionLimit(lambda s: s.position("tip")[1], low=1.0, at="end", name="height")
    >>> reach.at
    'end'
    """

    function: UserFunction
    low: float | None = None
    high: float | None = None
    at: str = "all"
    name: str = "limit"

    def __post_init__(self) -> None:
        if self.at not in ("steps", "end", "all"):
            raise ValueError(f"limit {self.name!r}: at must be 'steps', 'end' or 'all', not {self.at!r}")
        low, high = _pair(self.name, (self.low, self.high))
        if low == -math.inf and high == math.inf:
            raise ValueError(f"limit {self.name!r} has no limit: give low, high or both")
        if low > high:
            raise ValueError(f"limit {self.name!r}: low {low:g} is above high {high:g}")


def _pair(name: str, pair: Any) -> tuple[float, float]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"bounds of {name!r} must be a pair (low, high) with None for no bound")
    low = -math.inf if pair[0] is None else number(pair[0], f"low bound of {name!r}")
    high = math.inf if pair[1] is None else number(pair[1], f"high bound of {name!r}")
    return low, high


class Rows:
    """Rows of one kind at the nodes 0 ... N: limits (m,), where they hold (N+1, m), names (m,)."""

    names: list[str]
    low: Array
    high: Array
    on: Array
    inputs = False  # whether rows are single inputs, which are clipped

    def value(self, X: Array, U: Array) -> Array:
        """h (N+1, m)."""
        raise NotImplementedError

    def linearize(self, X: Array, U: Array) -> None:
        """Keep H = Dh at a curve for the next two."""

    def along(self, dX: Array, dU: Array) -> Array:
        """H dz (N+1, m)."""
        raise NotImplementedError

    def add_gradient(self, w: Array, bx: Array, bu: Array) -> None:
        """bx (N+1, ndx), bu (N, nu) += H'w."""
        raise NotImplementedError

    def add_hessian(self, sigma: Array, Q: Array, S: Array | None, R: Array) -> Array | None:
        """Q, S, R += H' sigma H; returns S, which may be new."""
        raise NotImplementedError

    def curvature(self, X: Array, U: Array, y: Array) -> Hessian | None:
        """Second derivatives of y . h."""
        return None


class Box(Rows):
    """Bounds on single inputs, or on coordinates of the states whose tangent components are their own."""

    def __init__(self, names: list[str], columns: Array, low: Array, high: Array, inputs: bool, steps: int) -> None:
        self.names, self.columns, self.low, self.high, self.inputs = names, columns, low, high, inputs
        self.coordinates = columns
        self.on = np.ones((steps + 1, len(columns)), dtype=bool)
        self.on[-1 if inputs else 0] = False  # there is no input at the end, and the initial state is given

    def value(self, X: Array, U: Array) -> Array:
        if not self.inputs:
            return X[:, self.coordinates]
        out = np.zeros((len(X), len(self.columns)))
        out[:-1] = U[:, self.columns]
        return out

    def along(self, dX: Array, dU: Array) -> Array:
        if not self.inputs:
            return np.where(self.on, dX[:, self.columns], 0.0)
        out = np.zeros(self.on.shape)
        out[:-1] = dU[:, self.columns]
        return out

    def add_gradient(self, w: Array, bx: Array, bu: Array) -> None:
        if self.inputs:
            bu[:, self.columns] += w[:-1]
        else:
            bx[:, self.columns] += w

    def add_hessian(self, sigma: Array, Q: Array, S: Array | None, R: Array) -> Array | None:
        if self.inputs:
            R[:, self.columns, self.columns] += sigma[:-1]
        else:
            Q[:, self.columns, self.columns] += sigma
        return S


class Expressions(Rows):
    """The rows of `MotionLimit`s, by CasADi."""

    def __init__(self, limit: MotionLimit, system: System) -> None:
        import casadi as ca

        from .expression import ExpressionCost, Symbols

        probe = ca.SX(limit.function(Symbols(system, ())))
        count, N = probe.numel(), system.steps
        low, high = _pair(limit.name, (limit.low, limit.high))
        self.names = [limit.name] * count
        self.low, self.high = np.full(count, low), np.full(count, high)
        self.on = np.ones((N + 1, count), dtype=bool)
        if limit.at == "steps":
            self.on[-1] = False
        elif limit.at == "end":
            self.on[:-1] = False
        else:
            self.on[0] = False

        def entry(i: int) -> UserFunction:
            return lambda s: ca.vec(ca.SX(limit.function(s)))[i]

        self._parts = [
            ExpressionCost(
                stage=None if limit.at == "end" else entry(i),
                terminal=None if limit.at == "steps" else entry(i),
            ).bind(system)
            for i in range(count)
        ]
        self._Hx: Array = np.zeros((N + 1, count, system.ndx))
        self._Hu: Array = np.zeros((N, count, system.nu))

    def value(self, X: Array, U: Array) -> Array:
        return np.where(self.on, np.stack([p.values(X, U) for p in self._parts], axis=1), 0.0)

    def linearize(self, X: Array, U: Array) -> None:
        for i, p in enumerate(self._parts):
            gx, gu = p.gradient(X, U)
            self._Hx[:, i] = np.where(self.on[:, i, None], gx, 0.0)
            self._Hu[:, i] = np.where(self.on[:-1, i, None], gu, 0.0)

    def along(self, dX: Array, dU: Array) -> Array:
        out = np.einsum("kmi,ki->km", self._Hx, dX)
        out[:-1] += np.einsum("kmi,ki->km", self._Hu, dU)
        return np.asarray(out)

    def add_gradient(self, w: Array, bx: Array, bu: Array) -> None:
        bx += np.einsum("kmi,km->ki", self._Hx, w)
        bu += np.einsum("kmi,km->ki", self._Hu, w[:-1])

    def add_hessian(self, sigma: Array, Q: Array, S: Array | None, R: Array) -> Array | None:
        weighted = sigma[:, :, None] * self._Hx
        Q += np.matmul(self._Hx.swapaxes(1, 2), weighted)
        mixed = np.matmul(weighted[:-1].swapaxes(1, 2), self._Hu)
        R += np.matmul(self._Hu.swapaxes(1, 2), sigma[:-1, :, None] * self._Hu)
        return mixed if S is None else S + mixed

    def curvature(self, X: Array, U: Array, y: Array) -> Hessian | None:
        total: Any = None
        for i, p in enumerate(self._parts):
            Q, S, R = p.hessian(X, U)
            w = np.where(self.on[:, i], y[:, i], 0.0)[:, None, None]
            mixed = np.zeros((*R.shape[:1], Q.shape[1], R.shape[1])) if S is None else S
            part = (w * Q, w[:-1] * mixed, w[:-1] * R)
            total = part if total is None else tuple(a + b for a, b in zip(total, part, strict=True))
        return total  # type: ignore[no-any-return]


def bound_of(system: Any, name: str, pair: Any) -> tuple[bool, int, float, float]:
    """Whether a bound of this name is one of an input, its column, low and high.

    A name that is a variable's means the variable, as in `motion[name]`; "u." in front of it means the input that is called like it (`load(...,
    inputs=True)`). A kinematic variable is bounded by its input, which is its next value.
    """
    x_names, u_names = list(system.x_names), list(system.u_names)
    given = name in u_names and (
        name not in x_names or name not in getattr(getattr(system, "model", None), "inputs", ())
    )
    plain = name if given or name in x_names else str(name).removeprefix("u.")
    given = given or plain != name
    if plain not in (u_names if given else x_names):
        raise ValueError(f"bounds: unknown name {name!r}; known are {', '.join(dict.fromkeys([*x_names, *u_names]))}")
    low, high = _pair(name, pair)
    if not low < high:
        hint = f"; to hold an input weigh it: R={{{plain!r}: 1e6}}" if given and low == high else ""
        raise ValueError(f"bounds of {name!r}: low {low} is not below high {high}{hint}")
    return given, (u_names if given else x_names).index(plain), low, high


def rows_of(system: System, bounds: Bounds | None, limits: Sequence[MotionLimit]) -> list[Rows]:
    """Rows of named bounds (a kinematic variable: of the input, which is its next value) and of constraints."""
    for limit in limits:
        if not isinstance(limit, MotionLimit):
            raise TypeError(f"limits must be da.MotionLimit values, not {type(limit).__name__}")
    if not isinstance(bounds, Mapping | None):
        raise TypeError(f"bounds are {{name: (low, high)}}, not {type(bounds).__name__}")
    N = system.steps
    picked: dict[bool, list[tuple[str, int, float, float]]] = {True: [], False: []}
    for name, pair in (bounds or {}).items():
        inputs, column, low, high = bound_of(system, name, pair)
        picked[inputs].append((name, column, low, high))
    out: list[Rows] = []
    for inputs, found in picked.items():
        if not found:
            continue
        names = [f[0] for f in found]
        columns, low_, high_ = (
            np.array([f[1] for f in found]),
            np.array([f[2] for f in found]),
            np.array([f[3] for f in found]),
        )
        if inputs or system.nx == system.ndx:
            out.append(Box(names, columns, low_, high_, inputs, N))
            continue
        # on a manifold: coordinates that are tangent components themselves, the rest as expressions
        dx_names = list(system.dx_names)
        own = [i for i, name in enumerate(names) if name in dx_names]
        if own:
            box = Box(
                [names[i] for i in own],
                np.array([dx_names.index(names[i]) for i in own]),
                low_[own],
                high_[own],
                False,
                N,
            )
            box.coordinates = columns[own]
            out.append(box)
        for i, name in enumerate(names):
            if name not in dx_names:
                out.append(Expressions(MotionLimit(_coordinate(name), float(low_[i]) if math.isfinite(low_[i]) else None,
                                                  float(high_[i]) if math.isfinite(high_[i]) else None, name=name), system))  # fmt: skip
    out.extend(Expressions(c, system) for c in limits)
    return out


def _coordinate(name: str) -> UserFunction:
    return lambda s: s[name]


def violation(rows: Sequence[Rows], X: Array, U: Array) -> tuple[float, str]:
    """By how much the worst row breaks its limits, and its name."""
    worst, where = 0.0, ""
    for r in rows:
        h = r.value(X, U)
        out = np.where(r.on, np.maximum(r.low - h, h - r.high), 0.0)
        most = float(out.max(initial=0.0))
        if most > worst:
            worst, where = most, r.names[int(np.argmax(out.max(0)))]
    return worst, where


def split(rows: Sequence[Rows], entries: Array) -> list[Array]:
    """(N+1, m) of every group of rows, from all entries one after the other."""
    ends = np.cumsum([r.on.size for r in rows])
    return [part.reshape(r.on.shape) for r, part in zip(rows, np.split(entries, ends[:-1]), strict=True)]


def by_name(rows: Sequence[Rows], multipliers: Array) -> dict[str, Array]:
    """Multipliers of every bound and constraint over time: (N,) of inputs, else (N+1,), or (N+1, m) of m rows."""
    out: dict[str, Array] = {}
    for r, y in zip(rows, split(rows, multipliers), strict=True):
        if isinstance(r, Box):
            out.update({name: (y[:-1, j] if r.inputs else y[:, j]) for j, name in enumerate(r.names)})
        else:
            out[r.names[0]] = y[:, 0] if y.shape[1] == 1 else y
    return out
