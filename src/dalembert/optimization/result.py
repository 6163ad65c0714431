"""What an optimization returns: the best motion, its feedback gains, and the story of how it was found."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import ConvergenceError
from ..files import read_npz, replacing
from ..text import grid, table

CONVERGED = "converged"


@dataclass(frozen=True)
class Search:
    """Options of the line search: step lengths `shrink`^m, accepted when the cost falls by `fraction` of what the slope
    promises (Armijo), at most `trials` of them.

    >>> Search().shrink
    0.7
    """

    shrink: float = 0.7
    fraction: float = 1e-5
    trials: int = 30

    def __post_init__(self) -> None:
        if not (0 < self.shrink < 1 and 0 < self.fraction < 1 and self.trials >= 1):
            raise ValueError("Search needs 0 < shrink < 1, 0 < fraction < 1 and trials >= 1")


@dataclass(frozen=True)
class Iteration:
    """One row of the history: cost and slope Dg.d at the start of the iteration, then the step that was taken.

    `step` is the accepted length (0 for the last row, where no step was taken), `trials` how many projections the line
    search tried, `failed` how many of them could not be projected, `seconds` the time of the iteration. Of the default method also `gap`, the
    largest gap between the states, and `error`, the scaled KKT error.
    """

    index: int
    method: str
    cost: float
    slope: float
    step: float
    trials: int
    failed: int
    seconds: float
    gap: float = 0.0
    error: float = math.nan


@dataclass(frozen=True, eq=False, repr=False)
class Optimization:
    """The result of `optimize`.

    `X` (N+1, nx), `U` (N, nu) the best motion found, `gains` (N, nu, ndx) a feedback that keeps the system on it
    (u_k = U_k - gains_k difference(X_k, x_k); in continuous time see `ContinuousSystem`), `cost` and `slope` (Dg.d, the
    convergence measure) there, `history`, and `status`:

    - "converged": a minimum within the tolerance (or as near as rounding lets see),
    - "saddle": no slope, but the cost bends downwards in some direction: a saddle or a maximum,
    - "iterations": the limit of iterations was reached,
    - "stalled": no step lowers the cost; `reason` says why,
    - "unbounded": the cost falls without limit,
    - "infeasible": the bounds could not be met,
    - "interrupted": stopped from the keyboard.

    In every case X, U are a motion of the system, the best one met (`reason` says so if gaps could not be closed). Of the default method
    also `multipliers` {name: array over time} of bounds and constraints (positive at the upper limit, negative at the lower, zero where none is
    active), `costates` (N+1, ndx), `error`, the scaled KKT error, and `gave_up`: the start's gaps were not closed, its inputs were simulated.
    """

    system: Any
    X: Array
    U: Array
    gains: Array
    cost: float
    slope: float
    status: str
    reason: str
    history: tuple[Iteration, ...]
    problem: Any = field(repr=False, default=None)
    multipliers: Any = field(repr=False, default=None)
    search: Search = field(repr=False, default_factory=Search)
    costates: Any = field(repr=False, default=None)
    error: float = math.nan
    gave_up: bool = False

    @property
    def converged(self) -> bool:
        """True if the tolerance was reached."""
        return self.status == CONVERGED

    @property
    def iterations(self) -> int:
        """Number of steps taken."""
        return sum(1 for row in self.history if row.step > 0)

    @property
    def seconds(self) -> float:
        """Total time of all iterations."""
        return float(sum(row.seconds for row in self.history))

    @property
    def trajectory(self) -> Any:
        """The motion as a Trajectory."""
        return self.system.trajectory(self.X, self.U)

    def summary(self) -> str:
        """A table of the history and one line on the outcome."""
        lines = [f"{'iteration':>9}  {'method':<11} {'cost':>20} {'Dg.d':>12} {'step':>9} {'trials':>6} {'ms':>9}"]
        for r in self.history:
            step = f"{r.step:9.3g}" if r.step > 0 else f"{'-':>9}"
            where = f"{r.index:>9}  {r.method:<11} {r.cost:>20.10g} {r.slope:>12.4g}"
            lines.append(f"{where} {step} {r.trials:>6} {1e3 * r.seconds:>9.2f}")
        lines.append(
            f"{self.status}: {self.reason}; cost {self.cost:.10g}, {self.iterations} iterations, {self.seconds:.3g} s"
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return (
            f"Optimization({self.status} after {self.iterations} iterations, cost {self.cost:.10g}, |Dg.d| {abs(self.slope):.3g}; "
            f"X {self.X.shape}, U {self.U.shape}, gains {self.gains.shape})"
        )

    def _repr_html_(self) -> str:
        last = self.history[-12:]
        rows = [(r.index, r.method, f"{r.cost:.8g}", f"{r.slope:.3g}", f"{r.step:.3g}" if r.step else "") for r in last]
        text = (
            f"{self.status}: {self.reason}; cost {self.cost:.10g}, {self.iterations} iterations, {self.seconds:.3g} s"
        )
        story = grid(["iteration", "method", "cost", "Dg.d", "step"], rows)
        motion = self.trajectory._repr_html_() if self.system.model is not None else ""
        return table({}, text) + f"<details><summary>iterations</summary>{story}</details>" + motion

    # ---- figures

    def plot_convergence(self, axes: Any = None) -> Any:
        """|Dg.d| and cost - final cost over the iterations, on log scales, marked by method; returns the figure."""
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(2, 1, sharex=True, figsize=(6, 5), layout="constrained")
        upper, lower = axes
        index = np.array([r.index for r in self.history])
        slope = np.abs([r.slope for r in self.history])
        above = np.array([r.cost for r in self.history]) - self.cost
        upper.semilogy(index, np.maximum(slope, 1e-30), color="0.6", zorder=1)
        families = [r.method.split("*")[0] for r in self.history]
        for name, marker in (("steepest", "v"), ("quasi", "s"), ("gauss-newton", "s"), ("open", "D"), ("newton", "o")):
            pick = [i for i, f in enumerate(families) if f == name]
            if pick:
                upper.semilogy(index[pick], np.maximum(slope[pick], 1e-30), marker, label=name, markersize=5)
        upper.set_ylabel("|Dg·d|")
        upper.legend()
        seen = above > 0
        lower.semilogy(index[seen], above[seen], ".-")
        lower.set_ylabel("cost above the final one")
        lower.set_xlabel("iteration")
        for a in (upper, lower):
            a.grid(True, alpha=0.3)
        return upper.figure

    def descent_plot(
        self,
        method: str = "quasi",
        *,
        X: Any = None,
        U: Any = None,
        search: Search | None = None,
        points: int = 40,
        ax: Any = None,
    ) -> Any:
        """Cost along a descent direction, its first- and second-order models, and the line search: the decrease that it
        asks for, the steps it tries and the one it takes (Fig. 7 of Schultz, Johnson, Murphey, Trajectory optimization in
        discrete mechanics). At (X, U), by default the result; `search` is by default the one that was used. Returns
        the figure.
        """
        import matplotlib.pyplot as plt

        problem = self.problem
        if problem is None:
            raise ValueError("descent_plot needs the problem; a result that was loaded from a file has none")
        rule = self.search if search is None else search
        p = problem.point(self.X if X is None else np.asarray(X), self.U if U is None else np.asarray(U))
        d = problem.direction(p, method)
        curvature = problem.curvature(p, d)

        def cost(step: float) -> float:
            """NaN, a gap in the curve, where the projection fails."""
            try:
                return float(problem.value(*problem.project(*problem.moved(p, d, step), p.K)))
            except ConvergenceError:
                return np.nan

        def wanted(step: Any) -> Any:
            return p.value + rule.fraction * step * d.slope

        tried = []
        for m in range(rule.trials):
            tried.append((rule.shrink**m, cost(rule.shrink**m)))
            if tried[-1][1] < wanted(tried[-1][0]):
                break
        taken = tried[-1][1] < wanted(tried[-1][0])
        reach = 1.2 * min(1.0, 3 * tried[-1][0] if taken else 1.0)  # a short step is shown in its neighbourhood
        steps = np.linspace(0.0, reach, points)
        costs = np.array([cost(s) for s in steps])
        if ax is None:
            _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
        ax.plot(steps, costs, "k", lw=2, label="g(ξ + λ d)")
        ax.plot(steps, p.value + steps * d.slope, "--", label="first order")
        ax.plot(steps, p.value + steps * d.slope + steps**2 / 2 * curvature, "-.", label="second order")
        ax.plot(steps, wanted(steps), ":", label=f"decrease asked for, α = {rule.fraction:g}")
        refused = np.array(tried[: len(tried) - taken]).reshape(-1, 2)
        if len(refused):
            ax.plot(*refused.T, "kx", ms=7, label=f"refused ({len(refused)}), λ = {rule.shrink:g}ᵐ")
        if taken:
            ax.plot(*tried[-1], "o", color="C3", ms=8, label=f"taken, λ = {tried[-1][0]:.3g}")
        room = max(reach * abs(d.slope), p.value - float(np.nanmin(costs)), 1e-300)
        ax.set_xlim(-0.03 * reach, 1.03 * reach)
        ax.set_ylim(p.value - 1.3 * room, p.value + 0.8 * room)
        ax.set_xlabel("λ")
        ax.set_ylabel("cost")
        ax.set_title(f"along the direction of '{method}'")
        ax.legend()
        return ax.figure

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write motion, gains and history as .npz (no pickle); `optimize(system, cost, path)` continues from it."""
        save_checkpoint(path, self.X, self.U, self.gains, self.history)


def save_checkpoint(
    path: str | os.PathLike[str], X: Array, U: Array, K: Array | None, history: Sequence[Iteration]
) -> None:
    """Write atomically: an interrupted write leaves the last checkpoint intact."""
    numbers = np.array(
        [[r.index, r.cost, r.slope, r.step, r.trials, r.failed, r.seconds, r.gap, r.error] for r in history]
    ).reshape(-1, 9)
    methods = np.array([r.method for r in history], dtype=np.str_)
    with replacing(path) as partial, partial.open("wb") as f:
        np.savez(f, X=X, U=U, gains=np.zeros((0,)) if K is None else K, history=numbers, methods=methods)


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[Array, Array, tuple[Iteration, ...]]:
    """X, U and history of a checkpoint."""
    z = read_npz(path, "a checkpoint of optimize", "X", "U", "history", "methods")
    try:
        history = tuple(
            Iteration(
                int(a[0]),
                str(m),
                float(a[1]),
                float(a[2]),
                float(a[3]),
                int(a[4]),
                int(a[5]),
                float(a[6]),
                float(a[7]) if len(a) > 7 else 0.0,
                float(a[8]) if len(a) > 8 else math.nan,
            )
            for a, m in zip(z["history"], z["methods"], strict=True)
        )
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)} is not a checkpoint of optimize ({error})") from None
    return z["X"], z["U"], history
