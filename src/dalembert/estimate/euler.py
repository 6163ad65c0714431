"""EulerModel: the continuous equations of motion with one explicit Euler step, for comparison.

Schultz, Murphey, Embedded control synthesis, section IV and Fig. 3: what filters without discrete mechanics do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array


@dataclass(frozen=True, eq=False)
class EulerModel:
    """x = (q (nq), v (nq)), u = (forces (nu), accelerations of the kinematic variables (nk)); x' = x + dt (v, a(x, u)).

    Same interface as System (nx, nu, x_names, f, linearize), so every filter runs on it; derivatives are exact
    derivatives of the continuous acceleration, constraints act through their multipliers (no stabilization).
    `dt` is a number or an array (N,).

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> euler = EulerModel(pendulum, 0.1)
    >>> euler.linearize([0.0, 0.0], [])[0]
    array([[ 1.  ,  0.1 ],
           [-0.98,  1.  ]])
    """

    model: Any
    dt: Any

    @property
    def nx(self) -> int:
        """Number of states, 2 nq."""
        return 2 * int(self.model.nq)

    @property
    def nu(self) -> int:
        """Number of inputs: forces and kinematic accelerations."""
        return int(self.model.nu + self.model.nk)

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of q, then "v." and the name of each."""
        return (*self.model.variables, *(f"v.{name}" for name in self.model.variables))

    @property
    def u_names(self) -> tuple[str, ...]:
        """Names of the forces, then "a." and the name of each kinematic variable."""
        return (*self.model.inputs, *(f"a.{name}" for name in self.model.kinematic))

    def step(self, k: int) -> float:
        """Length of step k (s)."""
        return float(np.ravel(self.dt)[k if np.size(self.dt) > 1 else 0])

    def acceleration(self, x: Any, u: Any) -> tuple[Array, Array]:
        """(a (nq), its derivative by (x, u) (nq, nx + nu)) at x (nx,), u (nu,)."""
        from ..mechanics import acceleration

        m = self.model
        x, u = np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        found: Any = acceleration(m, x[: m.nq], x[m.nq :], u[: m.nu], u[m.nu :], derivatives=True)
        D = np.zeros((m.nq, self.nx + self.nu))
        D[: m.nd] = np.hstack([found.ddq_q, found.ddq_v, found.ddq_u, found.ddq_k])
        D[m.nd :, self.nx + m.nu :] = np.eye(m.nk)
        return found.ddq, D

    def f(self, x: Any, u: Any, k: int = 0) -> Array:
        """x' (nx,) after one explicit Euler step."""
        x = np.asarray(x, dtype=float)
        a, _ = self.acceleration(x, u)
        return np.asarray(x + self.step(k) * np.concatenate([x[self.model.nq :], a]))

    def linearize(self, x: Any, u: Any, k: int = 0) -> tuple[Array, Array]:
        """A (nx, nx), B (nx, nu) of the Euler step."""
        nq, dt = self.model.nq, self.step(k)
        _, D = self.acceleration(x, u)
        A = np.eye(self.nx)
        A[:nq, nq:] += dt * np.eye(nq)
        A[nq:] += dt * D[:, : self.nx]
        B = np.zeros((self.nx, self.nu))
        B[nq:] = dt * D[:, self.nx :]
        return A, B
