"""What an optimization returns: the motion, and how the solver got there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.model import Model

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """A motion found by `dmoc`, or the last iterate if `success` is False (see `status` and `message`).

    `t` (N+1,), `q` (N+1, nq), `p` (N+1, nd), `u` (N, nu), `lam` (N, nc) as in `Trajectory`; `v` (N+1, nd) only for
    the velocity method. `costate` (rows,) holds the solver's multipliers of all equations, `violation` the largest one
    of an equation or bound. `status`: "solved", "acceptable", "infeasible", "iteration_limit", "failed".

    A plan must be a motion: its inputs are replayed with eight steps for each of its own. `replay_error` is the largest
    distance between the two relative to how far the motion goes, `defect` the sum over the steps of the error in
    velocity that one step makes, relative to the largest speed (both in the norm of the mass matrix; None where the
    search failed). Above 0.03 the message says so, with an `AccuracyWarning`. `refinements` lists (steps, objective,
    replay error, defect) of every mesh that `refine` took.
    """

    model: Model
    t: Array
    q: Array
    p: Array
    u: Array
    lam: Array
    objective: float
    status: str
    message: str
    iterations: int
    violation: float
    setup_time: float
    solve_time: float
    unknowns: int
    equations: int
    method: str = "dmoc"
    alpha: float = 0.5
    forcing: str = "split"
    v: Array | None = None
    costate: Array = field(default_factory=lambda: np.zeros(0))
    replay_error: float | None = None
    defect: float | None = None
    refinements: tuple[tuple[int, float, float | None, float | None], ...] = ()

    @property
    def success(self) -> bool:
        """Whether the solver converged."""
        return self.status in ("solved", "acceptable")

    @property
    def time(self) -> float:
        """Final time (s)."""
        return float(self.t[-1])

    @property
    def trajectory(self) -> Any:
        """The motion as a `Trajectory`."""
        from ..integrate import Scheme, Trajectory

        even = self.time / len(self.u)
        return Trajectory(
            model=self.model,
            t=self.t,
            q=self.q,
            p=self.p,
            u=self.u,
            rho=self.q[1:, len(self.model.dynamic) :],
            lam=self.lam,
            iterations=np.zeros(len(self.u), dtype=np.int64),
            scheme=Scheme(2, self.alpha, self.forcing, even) if self.method == "dmoc" else None,
        )

    def replay(self, substeps: int = 8) -> Any:
        """The `Trajectory` that the inputs cause from the same start, with so many steps for each of the plan's."""
        from .replay import replay

        return replay(self, substeps)

    def integrator(self) -> Any:
        """The `MidpointVI` whose steps the motion satisfies (method "dmoc")."""
        from ..integrate import MidpointVI

        return MidpointVI(self.model, self.time / len(self.u), alpha=self.alpha, forcing=self.forcing)

    def feedback(self, Q: ArrayLike, R: ArrayLike, Qf: ArrayLike | None = None, **options: Any) -> Any:
        """The LQR regulator along the motion, designed on its own discrete equations: `da.lqr` in one call.

        Q (nx, nx), R (nu + nk, nu + nk), Qf and options as for `da.lqr`.
        """
        from ..control import lqr

        return lqr(self.integrator(), self.trajectory, Q, R, Qf, **options)

    def __repr__(self) -> str:
        return (
            f"Plan({self.status}: objective {self.objective:.6g}, {len(self.u)} steps, time {self.time:.6g}, "
            f"{self.iterations} iterations, violation {self.violation:.2g})"
        )
