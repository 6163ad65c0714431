"""Parameters as states: a map of (x, theta) for filters, so that a Kalman filter learns what it does not know of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import Array, needed
from ..errors import ConvergenceError, ModelError
from ..integrate import MidpointVI, OneStepMap
from ..mechanics.evaluate import core, parameter_links
from .sensitivity import names_of

__all__ = ["ParameterMap"]


class ParameterMap(OneStepMap):
    """The steps of an integrator `vi` with `parameters` of its model (names, default: all) as further states that stay as they are.

    x' = f(x, u, theta), theta' = theta, with exact derivatives; states are (x, theta), their names those of `vi` and of the parameters. A
    filter of it estimates the state of a machine and the parameters together: Q says how much parameters may wander (0: constants), the
    start covariance how little they are known. Sensors are coordinates, `da.measure(map, "theta")`, or a `Measurement` of your own.
    Models with constraints are refused: use `identify`.

    >>> import dalembert as da
    >>> import numpy as np
    >>> cart = da.Model([da.tx("x", mass=da.Parameter("m", 2.0))], [da.ConfigForce("x", "push")])
    >>> both = da.ParameterMap(da.MidpointVI(cart, dt=0.1))
    >>> both.x_names
    ('x', 'p.x', 'm')
    >>> both.f(np.array([0.0, 4.0, 2.0]), np.array([0.0]))  # q' = q + dt p/m
    array([0.2, 4. , 2. ])
    >>> both.linearize(np.array([0.0, 4.0, 2.0]), np.array([0.0]))[0][0]
    array([ 1.  ,  0.05, -0.1 ])
    """

    def __init__(self, vi: MidpointVI, parameters: Sequence[str] | None = None) -> None:
        if needed(vi, MidpointVI).model.nc:
            raise ModelError(
                f"{vi.model.name}: parameters of a model with constraints cannot be states of a filter; use da.identify"
            )
        self.vi, self.parameters = vi, names_of(vi.model, parameters)
        self.nx, self.x_names = vi.nx + len(self.parameters), (*vi.x_names, *self.parameters)
        self.nu, self.u_names, self.dt = vi.nu, vi.u_names, vi.dt
        parameter_links(vi.model, self.parameters)  # says what has no derivatives
        self._at = lru_cache(maxsize=8)(self._make)

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""
        return self.vi.ndx + len(self.parameters)

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components."""
        return (*self.vi.dx_names, *self.parameters)

    def neutral(self) -> Array:
        """The neutral state with the parameters of the model."""
        return np.concatenate([self.vi.neutral(), [float(self.vi.model.parameters[name]) for name in self.parameters]])

    def difference(self, x0: Array, x1: Array) -> Array:
        """See `StateSpace.difference`."""
        n = self.vi.nx
        x0, x1 = np.broadcast_arrays(x0, x1)
        return np.concatenate([self.vi.difference(x0[..., :n], x1[..., :n]), x1[..., n:] - x0[..., n:]], axis=-1)

    def retract(self, x: Array, dx: Array) -> Array:
        """See `StateSpace.retract`."""
        n, m = self.vi.nx, self.vi.ndx
        x, dx = np.asarray(x), np.asarray(dx)
        lead = np.broadcast_shapes(x.shape[:-1], dx.shape[:-1])
        x, dx = np.broadcast_to(x, (*lead, self.nx)), np.broadcast_to(dx, (*lead, self.ndx))
        return np.concatenate([self.vi.retract(x[..., :n], dx[..., :m]), x[..., n:] + dx[..., m:]], axis=-1)

    def _flat(self) -> bool:
        return self.vi.model.configuration.flat

    def at(self, theta: Array) -> MidpointVI:
        """The integrator of the model with the values `theta` (n,) of the parameters."""
        return self._at(tuple(np.asarray(theta, dtype=float).tolist()))

    def _make(self, theta: tuple[float, ...]) -> MidpointVI:
        values = dict(zip(self.parameters, theta, strict=True))
        return self.vi.with_model(self.vi.model.with_parameters(values, check=False))

    def f(self, x: Array, u: Array, k: int = 0) -> Array:
        """The next state (nx,)."""
        n = self.vi.nx
        return np.concatenate([self.at(x[n:]).f(x[:n], u, k), x[n:]])

    def linearize(self, x: Array, u: Array, k: int = 0) -> tuple[Array, Array]:
        """A (ndx, ndx), B (ndx, nu)."""
        return self.advance(x, u, k)[1:]

    def advance(self, x: Array, u: Array, k: int = 0) -> tuple[Array, Array, Array]:
        """f and linearize of step k together."""
        n, count = self.vi.nx, len(self.parameters)
        vi = self.at(x[n:])
        model = vi.model
        nd, nv = model.nd, model.nv
        end, A, B = vi.advance(x[:n], u, k)
        dt = np.array([vi.dt if np.ndim(vi.dt) == 0 else np.asarray(vi.dt)[k]], dtype=float)
        X, U = np.ascontiguousarray(np.stack([x[:n], end])), np.ascontiguousarray(u[None], dtype=float)
        S, _, bad, _ = core(model).sensitivities(
            vi.options, parameter_links(model, self.parameters), X, U, dt, None, np.zeros((2 * nd, count)), False
        )
        if bad < 1:
            raise ConvergenceError(f"step {k} cannot be differentiated by parameters", step=k, time=float("nan"))
        wide_A, wide_B = np.eye(self.ndx), np.zeros((self.ndx, self.nu))
        wide_A[: vi.ndx, : vi.ndx], wide_B[: vi.ndx] = A, B
        wide_A[:nd, vi.ndx :], wide_A[nv : nv + nd, vi.ndx :] = S[1, :nd], S[1, nd:]
        return np.concatenate([end, x[n:]]), wide_A, wide_B

    def with_dt(self, dt: Array) -> ParameterMap:
        """The same map with steps of the lengths dt (N,)."""
        return ParameterMap(self.vi.with_dt(dt), self.parameters)

    def within(self, x: Array, u: Array, share: float) -> Array:
        """The input (nu,) of the first `share` of a step with the input u."""
        return self.vi.within(x[: self.vi.nx], u, share)

    def __reduce__(self) -> Any:
        return (ParameterMap, (self.vi, self.parameters))
