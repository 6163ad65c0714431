"""Callbacks of CasADi: the step of a system, its reverse derivative, and the Jacobians of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dalembert import System
from dalembert.arrays import Array

_ALIVE: list[ca.Callback] = []  # CasADi does not keep the Python side of a callback


class _Dense(ca.Callback):
    """A callback between dense matrices: names and shapes of arguments and results, and `values`, which computes."""

    def __init__(
        self,
        name: str,
        arguments: dict[str, tuple[int, int]],
        results: dict[str, tuple[int, int]],
        values: Callable[..., list[Array]],
    ) -> None:
        ca.Callback.__init__(self)
        self._in, self._out, self._values = list(arguments.items()), list(results.items()), values
        _ALIVE.append(self)
        self.construct(name, {})

    def get_n_in(self) -> int:
        """Number of arguments."""
        return len(self._in)

    def get_n_out(self) -> int:
        """Number of results."""
        return len(self._out)

    def get_name_in(self, i: int) -> str:
        """Name of argument i."""
        return self._in[i][0]

    def get_name_out(self, i: int) -> str:
        """Name of result i."""
        return self._out[i][0]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        """Argument i is dense."""
        return ca.Sparsity.dense(*self._in[i][1])

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        """Result i is dense."""
        return ca.Sparsity.dense(*self._out[i][1])

    def eval(self, arguments: Sequence[ca.DM]) -> list[Array]:
        """The results."""
        return self._values(*(np.array(a, dtype=float).ravel(order="F") for a in arguments))


class Step(_Dense):
    """(x, u) -> next."""

    def __init__(self, name: str, system: System, k: int) -> None:
        self._system, self._k = system, k
        nx, nu = system.nx, system.nu
        super().__init__(name, {"x": (nx, 1), "u": (nu, 1)}, {"next": (nx, 1)}, lambda x, u: [self._motion(x, u)[1]])

    def _motion(self, x: Array, u: Array) -> Array:
        return self._system.motions.roll(x[None], u[None, None], self._k)[0]

    def has_jacobian(self) -> bool:
        """By the exact linearization."""
        return True

    def get_jacobian(self, name: str, inames: Sequence[str], onames: Sequence[str], opts: Any) -> ca.Function:
        """(x, u, next) -> next by x and by u."""
        nx, nu = self._system.nx, self._system.nu
        return _Dense(
            name,
            dict(zip(inames, [(nx, 1), (nu, 1), (nx, 1)], strict=True)),
            dict(zip(onames, [(nx, nx), (nx, nu)], strict=True)),
            lambda x, u, _: list(np.split(self._first(x, u), [nx], axis=1)),
        )

    def _first(self, x: Array, u: Array) -> Array:
        """The derivatives (nx, nx + nu) of the next state by x and u."""
        X, motions, n = self._motion(x, u), self._system.motions, self._system.nx
        G = np.zeros((n, 2, n))
        G[:, 1] = np.eye(n)
        Z, gU = motions.pull(np.broadcast_to(X, G.shape), np.broadcast_to(u, (n, 1, len(u))), G, self._k)
        return np.hstack([Z[:, 0], gU[:, 0]])

    def has_reverse(self, nadj: int) -> bool:
        """By the exact adjoint, one direction at a time."""
        return nadj == 1

    def get_reverse(self, nadj: int, name: str, inames: Sequence[str], onames: Sequence[str], opts: Any) -> ca.Function:
        """(x, u, next, z) -> z by x and by u."""
        return _Reverse(name, inames, onames, self._system, self._k)


class _Reverse(_Dense):
    """(x, u, next, z) -> (z' F_x, z' F_u)."""

    def __init__(self, name: str, inames: Sequence[str], onames: Sequence[str], system: System, k: int) -> None:
        self._system, self._k = system, k
        nx, nu = system.nx, system.nu
        super().__init__(
            name,
            dict(zip(inames, [(nx, 1), (nu, 1), (nx, 1), (nx, 1)], strict=True)),
            dict(zip(onames, [(nx, 1), (nu, 1)], strict=True)),
            self._gradient,
        )

    def _gradient(self, x: Array, u: Array, end: Array, z: Array) -> list[Array]:
        X = self._system.motions.roll(x[None], u[None, None], self._k)
        G = np.stack([np.zeros(len(x)), z])[None]
        Z, gU = self._system.motions.pull(X, u[None, None], G, self._k)
        return [Z[0, 0], gU[0, 0]]

    def has_jacobian(self) -> bool:
        """By the exact second order."""
        return True

    def get_jacobian(self, name: str, inames: Sequence[str], onames: Sequence[str], opts: Any) -> ca.Function:
        """(x, u, next, z, gx, gu) -> gx by x, u, next, z, then gu by the same."""
        nx, nu = self._system.nx, self._system.nu
        rows, columns = (nx, nu), (nx, nu, nx, nx)
        return _Dense(
            name,
            dict(zip(inames, [(n, 1) for n in (*columns, *rows)], strict=True)),
            dict(zip(onames, [(r, c) for r in rows for c in columns], strict=True)),
            self._second,
        )

    def _second(self, x: Array, u: Array, end: Array, z: Array, *nominal: Array) -> list[Array]:
        motions, k, nx, nu = self._system.motions, self._k, len(x), len(u)
        start = motions.roll(x[None], u[None, None], k)
        X, U = np.broadcast_to(start, (nx + nu, 2, nx)), np.broadcast_to(u, (nx + nu, 1, nu))
        unit = np.eye(nx + nu)
        dX = np.zeros(X.shape)
        dX[:, 0] = unit[:, :nx]
        dU = unit[:, None, nx:]
        hX, hU = motions.kick(X, U, np.broadcast_to([np.zeros(nx), z], X.shape), dX, dU, k)
        H = np.hstack([hX[:, 0], hU[:, 0]])  # symmetric
        J = motions.push(X, U, dX, dU, k)[:, 1]  # (nx + nu, nx): the transposed Jacobian
        none = np.zeros((nx + nu, nx))
        out = np.hstack([H, none, J])
        return [part for row in np.split(out, [nx]) for part in np.split(row, [nx, nx + nu, 2 * nx + nu], axis=1)]
