"""EulerModel: the continuous equations of motion with one explicit Euler step, for comparison.

Schultz, Murphey, Embedded control synthesis, section IV and Fig. 3: what filters without discrete mechanics do. Also an example of a
one-step of one's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from ..arrays import Array
from ..mechanics import acceleration, acceleration_second, constraints, core
from ..model import Model
from .midpoint_steps import kalman_in_core
from .onestep import OneStepMap, Steps


@dataclass(frozen=True, eq=False)
class EulerModel(OneStepMap):
    """x = (q (nq), v (nv)), u = (forces (nu), accelerations of the kinematic variables (nk)); x' = x + dt (v, a(x, u)).

    A `OneStep`, so every room takes it; derivatives are exact derivatives of the continuous acceleration, constraints act through their
    multipliers (no stabilization). `dt` is a number or an array (N,).

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> euler = EulerModel(pendulum, 0.1)
    >>> euler.linearize([0.0, 0.0], [])[0]
    array([[ 1.  ,  0.1 ],
           [-0.98,  1.  ]])
    """

    model: Model
    dt: float | Array = field()

    def __post_init__(self) -> None:
        if not self.model.configuration.flat:
            raise ValueError("EulerModel adds velocities to coordinates: all joints must be hinges or sliders")
        self.model.require_holonomic("EulerModel", "MidpointVI")
        self.model.require_no_contacts("EulerModel")

    @property
    def nx(self) -> int:  # type: ignore[override]
        """Number of states, nq + nv."""
        return self.model.nq + self.model.nv

    @property
    def nu(self) -> int:  # type: ignore[override]
        """Number of inputs: forces and kinematic accelerations."""
        return self.model.nu + self.model.nk

    @property
    def x_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of q, then "v." and the name of each velocity."""
        return (*self.model.variables, *(f"v.{name}" for name in self.model.velocities))

    @property
    def u_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the forces, then "a." and the name of each kinematic variable."""
        return (*self.model.inputs, *(f"a.{name}" for name in self.model.kinematic))

    @property
    def constrained(self) -> bool:
        """Whether the model has constraints."""
        return self.model.nc > 0

    def violation(self, x: Array) -> float:
        """Largest |h(q)| of the constraints."""
        return float(np.abs(constraints(self.model, x[: self.model.nq])).max()) if self.model.nh else 0.0

    def step(self, k: int) -> float:
        """Length of step k (s)."""
        return float(np.ravel(self.dt)[k if np.size(self.dt) > 1 else 0])

    def with_dt(self, dt: Array) -> EulerModel:
        """The same map with steps of the lengths dt (N,)."""
        return replace(self, dt=dt)

    def over(self, t: Array) -> Steps:
        """Steps between the times t (N+1,)."""
        return _EulerSteps(self, t)

    def _split(self, x: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array, Array]:
        m, y, w = self.model, np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        return y[: m.nq], y[m.nq :], w[: m.nu], w[m.nu :]

    def acceleration(self, x: ArrayLike, u: ArrayLike) -> tuple[Array, Array]:
        """(a (nv), its derivative by (x, u) (nv, nx + nu)) at x (nx,), u (nu,)."""
        m = self.model
        found: Any = acceleration(m, *self._split(x, u), derivatives=True)
        D = np.zeros((m.nv, self.nx + self.nu))
        D[: m.nd] = np.hstack([found.ddq_q, found.ddq_v, found.ddq_u, found.ddq_k])
        D[m.nd :, self.nx + m.nu :] = np.eye(m.nkv)
        return found.ddq, D

    def f(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> Array:
        """x' (nx,) after one explicit Euler step."""
        q, v, forces, drive = self._split(x, u)
        a = acceleration(self.model, q, v, forces, drive).ddq
        return np.concatenate([q, v]) + self.step(k) * np.concatenate([v, a])

    def linearize(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> tuple[Array, Array]:
        """A (nx, nx), B (nx, nu) of the Euler step."""
        nq, dt = self.model.nq, self.step(k)
        _, D = self.acceleration(x, u)
        A = np.eye(self.nx)
        A[:nq, nq:] += dt * np.eye(nq)
        A[nq:] += dt * D[:, : self.nx]
        B = np.zeros((self.nx, self.nu))
        B[nq:] = dt * D[:, self.nx :]
        return A, B

    def second_order(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array, Array]:
        """Exact second derivatives of z . f: xx (nx, nx), xu (nx, nu), uu (nu, nu)."""
        m, n = self.model, self.nx
        tensor, _ = acceleration_second(m, *self._split(x, u))
        H = self.step(k) * np.tensordot(np.asarray(z, dtype=float)[m.nq : m.nq + m.nd], tensor, 1)
        return H[:n, :n], H[:n, n:], H[n:, n:]


class _EulerSteps(Steps):
    """The steps of an EulerModel: loops, but for many Kalman filters at once."""

    one_step: EulerModel

    def kalman(self, *record: Any, threads: int | None = None, keep: bool = False) -> Any:
        euler = self.one_step
        options = _core.Options(0.5, 0.5, 0.5, 1e-13, 1e-14, 40, False)
        dt = np.array([euler.step(k) for k in range(self.count)])
        return kalman_in_core(core(euler.model), options, True, dt, *record, threads=threads, keep=keep)
