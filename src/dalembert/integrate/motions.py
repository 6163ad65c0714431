"""Batches of motions and their derivatives in coordinates, for frameworks that know no manifolds: PyTorch, JAX, CasADi.

The map is F(x, u) from R^nx: f after the quaternions in x are made unit. A motion X (N+1, nx) of the inputs U (N, nu) begins with x0. Four
operations make all derivatives of first and second order, each of a whole batch in one call:

    roll    X of (x0, U)
    push    dX of (S, dU): dX_0 = S_0, dX_{k+1} = F_x dX_k + F_u dU_k + S_{k+1}, the tangent of a motion with sources
    pull    (Z, gU) of G: Z_N = G_N, Z_k = F_x' Z_{k+1} + G_k, gU_k = F_u' Z_{k+1}: the transpose of push; Z_0 is the gradient by x0
    kick    second derivatives of Z_{k+1} . F of every step, times (dX_k, dU_k)

`pull` differentiates into `pull` of what `kick` gives, so that second order needs nothing else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..arrays import Array, floats
from ..errors import ConvergenceError

if TYPE_CHECKING:
    from .midpoint_steps import MidpointSteps
    from .onestep import Steps

CORES = os.cpu_count() or 1


class Motions(Protocol):
    """What a map of N steps does for bridges; n motions of m steps each, beginning with the step `first`.

    Shapes: X, S, dX, G, Z (n, m+1, nx), U, dU (n, m, nu), x0 (n, nx). A step that has no solution raises ConvergenceError.
    """

    def roll(self, x0: Array, U: Array, first: int = 0) -> Array:
        """The motions X from x0 under U."""

    def push(self, X: Array, U: Array, S: Array, dU: Array, first: int = 0) -> Array:
        """Their tangents dX."""

    def pull(self, X: Array, U: Array, G: Array, first: int = 0) -> tuple[Array, Array]:
        """Costates Z (n, m+1, nx) and gradients by the inputs (n, m, nu)."""

    def kick(self, X: Array, U: Array, Z: Array, dX: Array, dU: Array, first: int = 0) -> tuple[Array, Array]:
        """Second derivatives of Z_{k+1} . F times (dX_k, dU_k): by x (n, m+1, nx), the last row zero, and by u (n, m, nu)."""

    def environments(self, n: int, bounds: tuple[Array, Array] | None) -> _core.Environments | PlainEnvironments:
        """n of them that step together, episodes of at most as many steps as there are; a state outside of `bounds` (nx) ends its own."""


class CoreMotions:
    """Motions of an integrator, in the core, on threads. `address` is where handlers of XLA find them."""

    def __init__(self, steps: MidpointSteps) -> None:
        self._steps = steps
        vi = steps.one_step
        self._core = _core.Motions(vi._core, vi.options, np.ascontiguousarray(steps.dt))
        self._work = vi.nx**2

    def __reduce__(self) -> tuple[type[CoreMotions], tuple[MidpointSteps]]:
        return CoreMotions, (self._steps,)

    @staticmethod
    def handlers() -> dict[str, object]:
        """What XLA calls for each operation: capsules by name."""
        return _core.xla_handlers()

    @property
    def address(self) -> int:
        """Of the object in the core; it lives as long as this one."""
        return self._core.address

    def threads(self, motions: int, steps: int) -> int:
        """As many as pay for this much work."""
        return 1 if motions * steps * self._work < 20_000 else CORES

    def environments(self, n: int, bounds: tuple[Array, Array] | None) -> _core.Environments:
        """See `Motions`; on threads where that pays."""
        least, largest = bounds or (np.zeros(0), np.zeros(0))
        return _core.Environments(self._core, n, self._steps.count, least, largest, self.threads(n, 1))

    def roll(self, x0: Array, U: Array, first: int = 0) -> Array:
        """The motions X from x0 under U."""
        U, n, m = _inputs(U)
        X, trouble = self._core.roll(first, m, _plain(x0), U, self.threads(n, m))
        self._check(trouble, X, U, first)
        return X

    def push(self, X: Array, U: Array, S: Array, dU: Array, first: int = 0) -> Array:
        """Their tangents dX."""
        U, n, m = _inputs(U)
        dX, trouble = self._core.push(first, m, _plain(X), U, _plain(S), _plain(dU), self.threads(n, m))
        self._check(trouble, X, U, first)
        return dX

    def pull(self, X: Array, U: Array, G: Array, first: int = 0) -> tuple[Array, Array]:
        """Costates and gradients by the inputs."""
        U, n, m = _inputs(U)
        Z, gU, trouble = self._core.pull(first, m, _plain(X), U, _plain(G), self.threads(n, m))
        self._check(trouble, X, U, first)
        return Z, gU

    def kick(self, X: Array, U: Array, Z: Array, dX: Array, dU: Array, first: int = 0) -> tuple[Array, Array]:
        """Second derivatives of every step times a direction."""
        U, n, m = _inputs(U)
        hX, hU, trouble = self._core.kick(first, m, _plain(X), U, _plain(Z), _plain(dX), _plain(dU), self.threads(n, m))
        self._check(trouble, X, U, first)
        return hX, hU

    def _check(self, trouble: tuple[int, int, int, float] | None, X: Array, U: Array, first: int) -> None:
        if trouble is not None:
            motion, step, status, error = trouble
            self._steps.explain(status, error, first + step, X[motion, step], U[motion, step])


class PlainMotions:
    """Motions of any one-step, by loops over its own functions. On manifolds without second order."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._map = steps.one_step

    def roll(self, x0: Array, U: Array, first: int = 0) -> Array:
        """The motions X from x0 under U."""
        U, n, m = _inputs(U)
        X = np.empty((n, m + 1, self._map.nx))
        X[:, 0] = x0
        for i in range(n):
            for k in range(m):
                X[i, k + 1] = self._steps.f(X[i, k], U[i, k], first + k)
        return X

    def push(self, X: Array, U: Array, S: Array, dU: Array, first: int = 0) -> Array:
        """Their tangents dX."""
        U, _, _ = _inputs(U)
        dX = np.array(S, dtype=float)
        for i, k in np.ndindex(*U.shape[:2]):
            A, B = self._steps.linearize(X[i, k], U[i, k], first + k)
            d = A @ self._down(X[i, k], dX[i, k]) + B @ dU[i, k]
            E = self._map.retract_jacobian(X[i, k + 1])
            dX[i, k + 1] += d if E is None else E @ d
        return dX

    def pull(self, X: Array, U: Array, G: Array, first: int = 0) -> tuple[Array, Array]:
        """Costates and gradients by the inputs."""
        U, n, m = _inputs(U)
        Z, gU = np.array(G, dtype=float), np.empty(U.shape)
        for i in range(n):
            for k in reversed(range(m)):
                E = self._map.retract_jacobian(X[i, k + 1])
                z = Z[i, k + 1] if E is None else Z[i, k + 1] @ E
                g, gU[i, k] = self._steps.adjoint(X[i, k], U[i, k], first + k, z)
                E = self._map.retract_jacobian(X[i, k])
                Z[i, k] += g if E is None else g @ np.linalg.pinv(E)
        return Z, gU

    def kick(self, X: Array, U: Array, Z: Array, dX: Array, dU: Array, first: int = 0) -> tuple[Array, Array]:
        """Second derivatives of every step times a direction."""
        if self._map.retract_jacobian(X[0, 0]) is not None:
            raise NotImplementedError(
                f"{type(self._map).__name__} is a map on a manifold: second order is for integrators"
            )
        hX, hU = np.zeros(X.shape), np.empty(U.shape)
        for i, k in np.ndindex(*U.shape[:2]):
            xx, xu, uu = self._steps.second_order(X[i, k], U[i, k], first + k, Z[i, k + 1])
            hX[i, k] = xx @ dX[i, k] + xu @ dU[i, k]
            hU[i, k] = dX[i, k] @ xu + uu @ dU[i, k]
        return hX, hU

    def environments(self, n: int, bounds: tuple[Array, Array] | None) -> PlainEnvironments:
        """See `Motions`."""
        return PlainEnvironments(self._steps, n, bounds)

    def _down(self, x: Array, dx: Array) -> Array:
        E = self._map.retract_jacobian(x)
        return dx if E is None else np.linalg.pinv(E) @ dx


class PlainEnvironments:
    """What `_core.Environments` are, of any one-step."""

    def __init__(self, steps: Steps, n: int, bounds: tuple[Array, Array] | None) -> None:
        if n < 1:
            raise ValueError("at least one environment")
        self._steps, self._n, self._nu = steps, n, steps.one_step.nu
        none = np.full(steps.one_step.nx, np.inf)
        self._least: Array
        self._largest: Array
        self._least, self._largest = bounds or (-none, none)
        self._x, self._count = np.zeros((n, steps.one_step.nx)), np.zeros(n, dtype=int)
        self._ended = np.zeros(n, dtype=bool)

    @property
    def states(self) -> Array:
        """A copy (n, nx)."""
        return self._x.copy()

    @property
    def due(self) -> int:
        """How many begin anew with the next step."""
        return int(self._ended.sum())

    def begin(self, x: Array) -> None:
        """Begin all episodes in the states x (n, nx)."""
        self._x[:], self._count[:], self._ended[:] = x, 0, False

    def end(self, over: NDArray[np.bool_]) -> None:
        """End episodes (n)."""
        self._ended |= over

    def step(
        self, u: Array, starts: Array, reward: float
    ) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_] | None]:
        """One step of each: (states, rewards, over, truncated, failed or None); those that ended before take `starts`."""
        if u.shape != (self._n, self._nu):
            raise ValueError(f"actions: inputs of shape {u.shape}, but {(self._n, self._nu)} is needed")
        again, failed = self._ended, np.zeros(self._n, dtype=bool)
        for i in np.flatnonzero(~again):
            try:
                self._x[i] = self._steps.f(self._x[i], u[i], 0)
            except ConvergenceError:
                failed[i] = True
        self._x[again] = starts.reshape(-1, self._x.shape[1])
        self._count = np.where(again, 0, self._count + 1)
        over = ~((self._x >= self._least) & (self._x <= self._largest)).all(axis=1) & ~again
        truncated = (self._count >= self._steps.count) | failed
        self._ended = over | truncated
        return self.states, np.where(again, 0.0, reward), over, truncated, failed if failed.any() else None


def _plain(x: Array) -> Array:
    if type(x) is np.ndarray and x.dtype == np.float64 and x.flags.c_contiguous:
        return x
    return floats(x, "an array of motions")


def _inputs(U: Array) -> tuple[Array, int, int]:
    """U (n, m, nu), n and m."""
    U = _plain(U)
    if U.ndim != 3:
        raise ValueError(f"U has shape {U.shape}, but (motions, steps, nu) is needed")
    return U, U.shape[0], U.shape[1]
