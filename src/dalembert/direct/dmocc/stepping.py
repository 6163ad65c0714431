"""Steps of the discrete scheme, forward in time: many at once with a fixed number of iterations, checked afterwards;
one that fails the check is solved again with care."""

from __future__ import annotations

from typing import Any

import numpy as np

from .kernels import System, bound, dense, flat, kernels

LADDER = (1, 2, 3, 5)  # numbers of iterations, the last with a new matrix each time
BLOCKS = (64, 8, 1)


class Stopped(Exception):
    """A step that could not be solved."""

    def __init__(self, reason: str, residual: float, singular: bool = False) -> None:
        self.reason, self.residual, self.singular = reason, residual, singular
        super().__init__(reason)


class Stepper:
    """Steps of size `dt` of a system, in the reduced form (13) or with all multipliers (10).

    `begin` sets the state, `run` goes on from there. `q`, `p` and `lam` are where the last step has led.
    """

    def __init__(
        self, system: System, dt: float, *, form: str = "reduced", tolerance: float = 1e-11, limit: int = 30
    ) -> None:
        self.system, self.dt, self.tolerance, self.limit = system, float(dt), tolerance, limit
        self.k = k = kernels(system)
        relative = k.mechanics.advance is not None
        self.chart = k.redundant if form == "multiplier" else k.directors if relative else k.coordinates
        self.own = self.chart is k.coordinates
        self._bound: dict[tuple[int, ...], Any] = {}
        # the residual is an impulse, and differences of configurations are rounded: what a single entry loses, and (once a
        # start is known) what all of them together may, which no tolerance can be asked to beat
        self.rounding = 8 * np.finfo(float).eps * float(np.abs(system.mass_matrix).max()) / self.dt
        self.unavoidable = 0.0

    # ---- state

    def begin(self, q: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
        """Start at configuration q (n,) with coordinates u (nd,) and velocity v (n,)."""
        self.choose, self._bound = self.independent(q, u), {}
        weights = np.abs(self.system.mass_matrix) @ np.maximum(np.abs(q), 1.0)
        lost = weights if self.chart is self.k.redundant else np.abs(dense(self.k.nullspace(q))).T @ weights
        self.unavoidable = 2 * np.finfo(float).eps * float(lost.max(initial=0.0)) / self.dt
        self.state, self.first, self.level = self.pack(q, u, v), True, 0.0

    def independent(self, q: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Combinations (kept, nc) of the closures which are independent at q."""
        nc = self.k.mechanics.nc
        if not nc:
            return np.zeros((0, 0))
        normal = dense(self.k.closures(q, u)[1]) @ dense(self.k.nullspace(q))
        left, values, _ = np.linalg.svd(normal)
        kept = int((values > 1e-9 * max(values.max(initial=0.0), 1e-300)).sum())
        return np.eye(nc) if kept == nc else left[:, :kept].T

    def pack(self, q: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The state of `Kernels.step` with this configuration and velocity, as if it had moved on like that before."""
        k = self.k
        P, full = dense(k.nullspace(q)), self.system.mass_matrix @ v
        if self.chart is k.redundant:
            p, d = full, self.dt * v
        else:
            p, d = (
                P.T @ full,
                self.dt * np.linalg.lstsq(dense(k.place_jacobian(u)) if self.own else P, v, rcond=None)[0],
            )
        z, r = (u, np.zeros(0)) if self.own else (q, u)
        return np.concatenate([z, p, np.zeros(self.extra), r, d, d, d])

    def unpack(self, state: np.ndarray) -> list[np.ndarray]:
        """z, p, mu, r and increments of the last three steps; of one state or of many as columns."""
        c = self.chart
        return np.split(state, np.cumsum([c.size, c.rank, self.extra, c.nr, c.rank, c.rank]))

    @property
    def extra(self) -> int:
        """Number of multipliers."""
        return self.chart.tree + len(self.choose)

    @property
    def choice(self) -> np.ndarray:
        """The choice of closures as `Kernels.residual` reads it."""
        return self.choose.T.ravel() if len(self.choose) < self.k.mechanics.nc else np.zeros(0)

    @property
    def q(self) -> np.ndarray:
        """The configuration (n,)."""
        z = self.unpack(self.state)[0]
        return flat(self.k.place(z)) if self.own else z

    # ---- steps

    def run(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Steps with inputs (N, nu): z (N, size), p (N, rank), multipliers (N, rows), iterations (N,).

        Raises `Stopped`; what was done before is in `done` (the same arrays, shorter).
        """
        steps, size, rank = len(inputs), self.chart.size, self.chart.rank
        found = np.empty((len(self.state), steps))
        counts = np.zeros(steps, dtype=int)

        def result(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            z, p, mu = np.split(found[: size + rank + self.extra, :count], [size, size + rank])
            tree, loops = np.split(mu.T, [self.chart.tree], axis=1)
            return z.T.copy(), p.T.copy(), np.hstack([tree, loops @ self.choose]), counts[:count]

        at, rung, smooth, patience = 0, len(LADDER) - 1, 0, 64
        while at < steps:
            block = next(b for b in BLOCKS if b <= (steps - at if at >= 3 else 1))  # the first guesses have no past
            weights = np.full(block, self.dt)
            weights[0] *= 0.5 if self.first else 1.0  # a multiplier of the first node covers half a step
            states = self._block(inputs[at : at + block], weights, LADDER[rung])
            good, count = states.shape[1], LADDER[rung] + 1
            if good < block:  # go on from the first step that failed with more iterations, and be slow to try fewer
                rung, smooth, patience = rung + 1, 0, min(4 * patience, 4096)
            elif at == 2:
                rung = 1
            elif rung and (smooth := smooth + block) >= patience:
                rung, smooth = rung - 1, 0
            if not good and rung == len(LADDER):
                try:
                    states, count = self._careful(self.state, inputs[at], float(weights[0]))
                except Stopped:
                    self.done = result(at)
                    raise
                good = 1
            rung = min(rung, len(LADDER) - 1)
            if good:
                found[:, at : at + good], counts[at : at + good] = states, count
                self.state, self.first = states[:, -1].copy(), False
                at += good
        return result(steps)

    def _block(self, inputs: np.ndarray, weights: np.ndarray, iterations: int) -> np.ndarray:
        """States (:, good) after the steps of a block up to the first one that is not solved."""
        found, off = self.many(self.state[:, None], inputs, weights, iterations)
        bad = np.flatnonzero(~self.solved(found, off, iterations))
        return found[:, : bad[0]] if bad.size else found

    def solved(self, states: np.ndarray, off: np.ndarray, iterations: int) -> np.ndarray:
        """Which columns leave a residual that is small, after few iterations at the level of rounding."""
        z, p = self.unpack(states)[:2]
        with np.errstate(invalid="ignore"):
            size = np.abs(off).max(axis=0)
            scale = np.maximum(self.tolerance * np.maximum(1.0, np.abs(p).max(axis=0)), self.unavoidable)
            if iterations == LADDER[-1]:
                good = size <= scale
                self.level = max(self.level, 4 * float(size[good].max(initial=0.0)))
                return good  # type: ignore[no-any-return]
            floor = np.maximum(1e-3 * scale, self.rounding * np.maximum(1.0, np.abs(z).max(axis=0)))
            return size <= np.maximum(floor, self.level)  # type: ignore[no-any-return]

    def many(
        self, states: np.ndarray, inputs: np.ndarray, weights: np.ndarray, iterations: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """From every state (S, runs) as many steps as it has inputs (runs * length, nu): states and residuals of all."""
        count, runs, kept = len(inputs), states.shape[1], len(self.choose)
        key = (count, runs, iterations, kept)
        if key not in self._bound:
            step = self.k.block(self.chart, kept, iterations, count // runs, runs)
            given = [np.empty(states.size), np.empty(inputs.size), np.full(count, self.dt), np.empty(count)]
            found = [np.empty(count * len(states)), np.empty(count * (self.chart.rank + self.extra))]
            self._bound[key] = bound(step, [*given, np.tile(self.choice, count)], found), given, found
        call, given, found = self._bound[key]
        given[0][:], given[1][:], given[3][:] = states.T.ravel(), inputs.ravel(), weights
        if not call():  # a singular matrix: nothing of it counts
            found[1].fill(np.nan)
        return found[0].reshape(count, -1).T, found[1].reshape(count, -1).T

    def _careful(self, state: np.ndarray, tau: np.ndarray, weight: float) -> tuple[np.ndarray, int]:
        """One step by Newton's method until it converges; the state as a column, and the number of iterations."""
        k, chart, rank = self.k, self.chart, self.chart.rank
        kept = len(self.choose)
        residual, slope, retract = k.residual(chart, kept), k.slope(chart, kept), k.retract(chart)
        choice = self.choice
        z, p, mu, r, d1, d2, d3 = self.unpack(state)
        moved = 3 * (d1 - d2) + d3
        scale = max(1.0, float(np.abs(p).max(initial=0.0)))
        floor = max(1e-15 * scale, self.rounding * max(1.0, float(np.abs(z).max())))
        z1, old = flat(retract(z, moved)), np.inf
        for count in range(1, self.limit + 2):
            given = (z, z1, r, tau, self.dt, weight, choice, mu, p)
            off = flat(residual(*given))
            size = float(np.abs(off).max())
            if not np.isfinite(size):
                raise Stopped("the residual is not finite", size)
            if size <= floor or (size <= max(self.tolerance * scale, self.unavoidable) and size > 0.1 * old):
                break
            if count > 10 and size >= old:
                raise Stopped(f"Newton's method stopped converging at residual {size:.2e}", size)
            old = size
            fix = _solve(dense(slope(*given)), off, rank)
            if fix is None:
                raise Stopped("the Newton matrix is singular", size, singular=True)
            z1, moved, mu = flat(retract(z1, fix[:rank])), moved + fix[:rank], mu + fix[rank:]
        else:
            raise Stopped(f"no convergence after {self.limit} iterations, residual {size:.2e}", size)
        z1 = flat(k.tidy(chart)(z1))
        plus, near = (flat(x) for x in k.arrival(chart)(z, z1, r, tau, self.dt))
        return np.concatenate([z1, plus, mu, near, moved, d1, d2])[:, None], count


def _solve(matrix: np.ndarray, right: np.ndarray, rank: int) -> np.ndarray | None:
    """Linear solve; where constraints depend on each other with the smallest multipliers, None if it is singular."""
    try:
        found = np.linalg.solve(matrix, right)
        if np.abs(matrix @ found - right).max() <= 1e-6 * np.abs(right).max():
            return found
    except np.linalg.LinAlgError:
        pass
    if len(right) == rank:
        return None
    return np.linalg.lstsq(matrix, right, rcond=1e-12)[0]
