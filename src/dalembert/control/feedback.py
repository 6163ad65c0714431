"""Feedback: an affine law around a reference, usable as the input of a simulation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, floats, whole
from ..files import read_npz, replacing
from ..integrate import OneStep, State, complete
from ..text import Brief, grid, table


def subtract(x0: Array, x1: Array) -> Array:
    """x1 - x0: the difference of flat states."""
    return np.subtract(x1, x0)


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A difference whose components `angles` are taken the shorter way round, in [-pi, pi) (a class, so that laws pickle)."""

    difference: Callable[[Array, Array], Array]
    angles: tuple[int, ...]

    def __call__(self, x0: Array, x1: Array) -> Array:
        d = np.array(self.difference(x0, x1))
        at = list(self.angles)
        d[..., at] = (d[..., at] + np.pi) % (2 * np.pi) - np.pi
        return d


def wrapped(system: object, difference: Callable[[Array, Array], Array]) -> Wrapped:
    """The difference of a system with its hinges taken the shorter way round; balls always are."""
    model = getattr(system, "model", None)
    if model is None:
        raise ValueError("wrap=True needs a system with a model, whose hinges are known")
    return Wrapped(difference, tuple(model.velocity_index(name) for name in model.configuration.hinges))


def _limit(value: ArrayLike, name: str, inputs: int) -> Array:
    limit = floats(value, name)
    if limit.shape != (inputs,) or np.isnan(limit).any():
        raise ValueError(f"{name} must have one number for each of the {inputs} inputs, infinite for no limit")
    return limit


@dataclass(frozen=True, eq=False, repr=False)
class Feedback(Brief):
    """u = U_k - K_k difference(X_k, x) at the step k that contains time t (Structured linearization, eq. 37).

    K (N, nu, ndx), X (N+1, nx) or (N, nx), U (N, nu), t (N+1,) times of the reference, P (N+1, ndx, ndx) cost to go or None, `difference` that of the
    system (default: x - X_k). After the last step the last gain holds. `low`, `high` (nu,): what the input saturates at. It
    pickles, and is saved as .npz.

    Call it with (t, state) as `vi.simulate(u=...)` does, or with (t, x) as `system.simulate(x0, law)`, or ask `input(k, x)`.

    >>> import numpy as np
    >>> law = Feedback.at_point([0.0, 0.0], [0.5], [[2.0, 1.0]])
    >>> law.input(7, np.array([0.1, 0.0]))
    array([0.3])
    """

    K: Array
    X: Array
    U: Array
    t: Array
    P: Array | None = None
    difference: Callable[[Array, Array], Array] = field(default=subtract, repr=False)
    low: Array | None = None
    high: Array | None = None

    def __post_init__(self) -> None:
        U = finite(self.U, "U", (None, None))
        X = finite(self.X, "X", (len(U), None), (len(U) + 1, None))
        K = finite(self.K, "K", (len(U), U.shape[1], None))
        for name, value in (("U", U), ("X", X), ("K", K)):
            object.__setattr__(self, name, value)
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _limit(getattr(self, name), name, U.shape[1]))
        if self.low is not None and self.high is not None and not (self.low < self.high).all():
            raise ValueError("low must be below high for every input")

    def _repr_html_(self) -> str:
        facts = {"steps": self.steps, "inputs": self.U.shape[1], "states": self.K.shape[2]}
        if np.isfinite(self.t).all():
            facts["time (s)"] = f"{self.t[0]:g} ... {self.t[-1]:g}"
        facts["largest gain"] = float(np.abs(self.K).max(initial=0.0))
        head = "Feedback u = U_k - K_k difference(X_k, x)"
        small = self.K.shape[1] * self.K.shape[2] <= 64
        gains = [[f"K{i}", *map(float, row)] for i, row in enumerate(self.K[0])] if small else []
        columns = ["first gains", *(f"x{i}" for i in range(self.K.shape[2]))]
        return table(facts, head) + (grid(columns, gains) if gains else "")

    @classmethod
    def at_point(
        cls, x: State | ArrayLike, u: ArrayLike, K: ArrayLike, *, system: OneStep | None = None, wrap: bool = False
    ) -> Feedback:
        """A constant law u - K difference(x0, x) for all times, e.g. from `lqr_infinite`: x0 (nx,) or a State, u (nu,), K (nu, ndx).

        `system` is needed where states are not flat, where there are constraints, and for `wrap`: hinges the shorter way round, as balls are.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.pendulum(), dt=0.1)
        >>> law = Feedback.at_point(vi.state(), [], np.zeros((0, 2)), system=vi, wrap=True)
        >>> law.difference(np.array([0.0, 0.0]), np.array([2 * np.pi + 0.5, 1.0])).round(12)
        array([0.5, 1. ])
        """
        point, inputs = finite(x, "x", (None,)), finite(u, "u", (None,))
        gains = finite(K, "K", (len(inputs), len(point) if system is None else system.ndx))
        always = np.array([-np.inf, np.inf])
        difference = subtract if system is None else complete(system).free_difference
        difference = wrapped(system, difference) if wrap else difference
        return cls(gains[None], np.stack([point, point]), inputs[None], always, difference=difference)

    @property
    def steps(self) -> int:
        """Number of steps N of the reference."""
        return len(self.U)

    def step_at(self, t: float) -> int:
        """The step that starts at (or contains) time t, within rounding; clipped to the reference."""
        if self.steps == 1:
            return 0
        slack = 1e-6 * (self.t[1] - self.t[0])
        return int(np.clip(np.searchsorted(self.t, t + slack, side="right") - 1, 0, self.steps - 1))

    def input(self, k: int, x: ArrayLike) -> Array:
        """The input (nu,) at step k in state x (nx,)."""
        k = min(whole(k, "k"), self.steps - 1)
        dx = self.difference(self.X[k], finite(x, "x", (self.X.shape[1],)))
        u = np.asarray(self.U[k] - self.K[k] @ dx)
        if self.low is not None:
            u = np.maximum(u, self.low)
        return u if self.high is None else np.minimum(u, self.high)

    def saturated(self, low: ArrayLike, high: ArrayLike) -> Feedback:
        """The same law with inputs between low and high, each (nu,) or a number; infinite for none.

        >>> Feedback.at_point([0.0], [0.0], [[10.0]]).saturated(-1.0, 1.0).input(0, np.array([5.0]))
        array([-1.])
        """
        m = self.U.shape[1]
        return replace(self, low=np.broadcast_to(floats(low, "low"), m), high=np.broadcast_to(floats(high, "high"), m))

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the law to the file `path`, as .npz (no pickle). The difference of states that are not flat, or constrained, is that of
        the system given to `load`."""
        nothing = np.zeros(0)
        angles, inner = (
            (self.difference.angles, self.difference.difference)
            if isinstance(self.difference, Wrapped)
            else ((), self.difference)
        )
        with replacing(path) as partial, partial.open("wb") as f:
            np.savez(
                f, K=self.K, X=self.X, U=self.U, t=self.t, P=nothing if self.P is None else self.P,
                low=nothing if self.low is None else self.low, high=nothing if self.high is None else self.high,
                angles=np.array(angles, dtype=np.int64), flat=np.array(inner is subtract),
            )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, system: OneStep | None = None) -> Feedback:
        """Read a law that `save` wrote to `path`; `system` is needed where its states are not flat, or constrained."""
        z = read_npz(path, "a saved Feedback", "K", "X", "U", "t", "P", "low", "high", "angles", "flat")
        if not bool(z["flat"]) and system is None:
            raise ValueError(f"{os.fspath(path)}: the states of this law are no plain numbers; give system=")
        difference: Callable[[Array, Array], Array] = subtract
        if system is not None and not bool(z["flat"]):
            difference = complete(system).free_difference
        if z["angles"].size:
            difference = Wrapped(difference, tuple(int(i) for i in z["angles"]))
        P, low, high = (None if z[name].size == 0 else z[name] for name in ("P", "low", "high"))
        return cls(z["K"], z["X"], z["U"], z["t"], P, difference, low, high)

    def __call__(self, t: float, state: State | Array) -> Array:
        """The input (nu,): forces, then the next values of kinematic variables if there are any.

        A State does not carry kinematic velocities; a step does not depend on them, so no regulator feeds them back (unless its cost couples
        them with the inputs).
        """
        k = self.step_at(t)
        if not isinstance(state, State):
            return self.input(k, state)
        known = np.concatenate([state.q, state.p])
        rest = self.X.shape[1] - len(known)
        if state.v_rho is not None and rest == len(state.v_rho):
            return self.input(k, np.concatenate([known, state.v_rho]))
        if rest and np.abs(self.K[k, :, -rest:]).max(initial=0.0) > 1e-9 * np.abs(self.K[k]).max():
            raise ValueError("this law feeds back kinematic velocities: call it with x = (q, p, v_rho)")
        return self.input(k, np.concatenate([known, self.X[k, len(known) :]]))
