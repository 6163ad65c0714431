"""Feedback: an affine law around a reference, usable as the input of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..text import Brief


@dataclass(frozen=True, eq=False, repr=False)
class Feedback(Brief):
    """u = U_k - K_k (x - X_k) at the step k that contains time t (Structured linearization, eq. 37).

    K (N, m, n), X (N+1, n) or (N, n), U (N, m), t (N+1,) times of the reference, `nu` how many of the m inputs are
    forces (the others are next values of kinematic variables), P (N+1, n, n) cost to go or None. After the last step
    the last gain holds. Plain arrays inside, so it pickles.

    Call it with (t, state) as `simulate(u=...)` does, or ask `input(k, x)`.

    >>> import numpy as np
    >>> law = Feedback.at_point([0.0, 0.0], [0.5], [[2.0, 1.0]], nu=1)
    >>> law.input(7, np.array([0.1, 0.0]))
    array([0.3])
    """

    K: Array
    X: Array
    U: Array
    t: Array
    nu: int
    P: Array | None = None

    @classmethod
    def at_point(cls, x: Any, u: Any, K: Any, *, nu: int) -> Feedback:
        """A constant law u - K (x - x0) for all times, e.g. from `lqr_infinite`: x (n,), u (m,), K (m, n)."""
        x, u, K = (np.asarray(a, dtype=float) for a in (x, u, K))
        return cls(K=K[None], X=np.stack([x, x]), U=u[None], t=np.array([-np.inf, np.inf]), nu=nu)

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

    def input(self, k: int, x: Any) -> Array:
        """The input (m,) at step k in state x (n,)."""
        k = min(k, self.steps - 1)
        return np.asarray(self.U[k] - self.K[k] @ (np.asarray(x, dtype=float) - self.X[k]))

    def __call__(self, t: float, state: Any) -> Any:
        """Forces u (nu,), or the pair (forces, next kinematic values) if there are kinematic variables.

        `state` has q and p, or is the vector x itself. A State does not carry kinematic velocities; a step does not
        depend on them, so no regulator feeds them back (unless its cost couples them with the inputs).
        """
        k = self.step_at(t)
        x = state
        if hasattr(state, "q"):
            x = self.X[k].copy()
            known = np.concatenate([state.q, state.p])
            x[: len(known)] = known
            if np.abs(self.K[k, :, len(known) :]).max(initial=0.0) > 1e-9 * np.abs(self.K[k]).max():
                raise ValueError("this law feeds back kinematic velocities: call it with x = (q, p, v_rho)")
        u = self.input(k, x)
        return u if self.nu == len(u) else (u[: self.nu], u[self.nu :])
