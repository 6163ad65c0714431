"""DOptimizer: trajectory optimization by the projection operator, step by step and open to subclassing as trep's is.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 4. For new code `da.optimize` does
the same with more care (bounds, continuation, checkpoints).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import ConvergenceError, SingularityError
from ...optimization.descent import sweep_back
from .dcost import DCost
from .dlqr import Series, affine, regulator, series
from .dsystem import DSystem

Array = NDArray[np.float64]


class DOptimizerMonitor:
    """Hears what the optimizer does; this one says nothing."""

    def optimize_begin(self, X: Array, U: Array) -> None:
        """An optimization starts at (X, U)."""

    def optimize_end(self, converged: bool, X: Array, U: Array, cost: float) -> None:
        """An optimization ended at (X, U)."""

    def step_begin(self, iteration: int) -> None:
        """A step starts (again, after a method failed)."""

    def step_info(
        self, method: str, cost: float, dcost: float, X: Array, U: Array, dX: Array, dU: Array, Kproj: ArrayLike
    ) -> None:
        """A descent direction was found."""

    def step_method_failure(self, method: str, cost: float, dcost: float, fallback_method: str) -> None:
        """A method gave no descent direction; the next is tried."""

    def step_termination(self, cost: float, dcost: float) -> None:
        """The trajectory is a minimizer."""

    def step_completed(self, method: str, cost: float, nX: Array, nU: Array) -> None:
        """A step was taken."""

    def armijo_simulation_failure(self, armijo_iteration: int, nX: Array, nU: Array, bX: Array, bU: Array) -> None:
        """A trial could not be simulated; the search goes on with a shorter one."""

    def armijo_search_failure(
        self, X: Array, U: Array, dX: Array, dU: Array, cost0: float, dcost0: float, Kproj: ArrayLike
    ) -> None:
        """The search found no sufficient decrease."""

    def armijo_evaluation(
        self, armijo_iteration: int, nX: Array, nU: Array, bX: Array, bU: Array, cost: float, max_cost: float
    ) -> None:
        """A trial was simulated and its cost measured."""


class DOptimizerDefaultMonitor(DOptimizerMonitor):
    """Prints what happens and keeps the history of cost and slope, as trep's default does."""

    def __init__(self) -> None:
        self.cost_history: dict[int, float] = {}
        self.dcost_history: dict[int, float] = {}
        self._iteration = 0

    def msg(self, msg: str) -> None:
        """Print a line."""
        print(f"{self._iteration:3d}: {msg}")

    def get_costs(self) -> list[float]:
        """Costs at the iterations."""
        return [self.cost_history[k] for k in sorted(self.cost_history)]

    def get_dcosts(self) -> list[float]:
        """Slopes at the iterations."""
        return [self.dcost_history[k] for k in sorted(self.dcost_history)]

    def optimize_begin(self, X: Array, U: Array) -> None:
        """Start new histories."""
        self.cost_history, self.dcost_history = {}, {}

    def optimize_end(self, converged: bool, X: Array, U: Array, cost: float) -> None:
        """Print the result."""
        self.msg(f"{'converged' if converged else 'stopped'} at cost {cost:.10g}")

    def step_begin(self, iteration: int) -> None:
        """Remember the iteration."""
        self._iteration = iteration

    def step_info(
        self, method: str, cost: float, dcost: float, X: Array, U: Array, dX: Array, dU: Array, Kproj: ArrayLike
    ) -> None:
        """Print and keep cost and slope."""
        self.cost_history[self._iteration], self.dcost_history[self._iteration] = cost, dcost
        self.msg(f"{method}: cost {cost:.10g}, slope {dcost:.6g}")

    def step_method_failure(self, method: str, cost: float, dcost: float, fallback_method: str) -> None:
        """Print the change of method."""
        self.msg(f"{method} gives no descent (slope {dcost:g}), trying {fallback_method}")

    def step_termination(self, cost: float, dcost: float) -> None:
        """Print the end."""
        self.msg(f"minimum found: cost {cost:.10g}, slope {dcost:g}")

    def step_completed(self, method: str, cost: float, nX: Array, nU: Array) -> None:
        """Print the new cost."""
        self.msg(f"{method}: new cost {cost:.10g}")

    def armijo_simulation_failure(self, armijo_iteration: int, nX: Array, nU: Array, bX: Array, bU: Array) -> None:
        """Print the failure."""
        self.msg(f"trial {armijo_iteration} cannot be simulated beyond step {len(nX) - 1}")

    def armijo_search_failure(
        self, X: Array, U: Array, dX: Array, dU: Array, cost0: float, dcost0: float, Kproj: ArrayLike
    ) -> None:
        """Print the failure."""
        self.msg(f"line search failed at cost {cost0:g}, slope {dcost0:g}")

    def armijo_evaluation(
        self, armijo_iteration: int, nX: Array, nU: Array, bX: Array, bU: Array, cost: float, max_cost: float
    ) -> None:
        """Print trials that are not good enough."""
        if cost >= max_cost:
            self.msg(f"trial {armijo_iteration}: cost {cost:g}, needed below {max_cost:g}")


class DOptimizerVerboseMonitor(DOptimizerDefaultMonitor):
    """Prints more: sizes of directions, all trials."""

    def optimize_begin(self, X: Array, U: Array) -> None:
        """Print the size of the problem."""
        super().optimize_begin(X, U)
        self.msg(f"optimizing {len(U)} steps, {X.shape[1]} states, {U.shape[1]} inputs")

    def optimize_end(self, converged: bool, X: Array, U: Array, cost: float) -> None:
        """Print the result."""
        super().optimize_end(converged, X, U, cost)

    def step_info(
        self, method: str, cost: float, dcost: float, X: Array, U: Array, dX: Array, dU: Array, Kproj: ArrayLike
    ) -> None:
        """Print and keep cost and slope, print the size of the direction."""
        super().step_info(method, cost, dcost, X, U, dX, dU, Kproj)
        self.msg(f"{method}: |dX| {np.linalg.norm(dX):g}, |dU| {np.linalg.norm(dU):g}")

    def armijo_evaluation(
        self, armijo_iteration: int, nX: Array, nU: Array, bX: Array, bU: Array, cost: float, max_cost: float
    ) -> None:
        """Print every trial."""
        self.msg(f"trial {armijo_iteration}: cost {cost:g}, needed below {max_cost:g}")


class DOptimizer:
    """Finds a motion of `dsys` that minimizes `cost`.

    Attributes to set: `Qproj(k)`, `Rproj(k)` (weights of the projection's feedback, identity), `descent_tolerance`
    (1e-6), `armijo_beta` (0.7), `armijo_alpha` (1e-5), `armijo_max_iterations` (30), `first_method_iterations`,
    `first_method` ("quasi"), `second_method` ("newton"), `monitor`.
    """

    def __init__(self, dsys: DSystem, cost: DCost, first_method_iterations: int = 10, monitor: Any = None) -> None:
        self.dsys = dsys
        self.cost = cost
        self.optimize_ic = False
        self.monitor = DOptimizerDefaultMonitor() if monitor is None else monitor
        self.Qproj: Any = lambda k: np.eye(dsys.nX)
        self.Rproj: Any = lambda k: np.eye(dsys.nU)
        self.descent_tolerance = 1e-6
        self.armijo_beta, self.armijo_alpha, self.armijo_max_iterations = 0.7, 1e-5, 30
        self.first_method_iterations = first_method_iterations
        self.first_method, self.second_method = "quasi", "newton"

    @property
    def lower_order_iterations(self) -> int:
        """An older name of `first_method_iterations`."""
        return self.first_method_iterations

    @lower_order_iterations.setter
    def lower_order_iterations(self, value: int) -> None:
        self.first_method_iterations = value

    # ---- the cost along a trajectory

    def calc_cost(self, X: Array, U: Array) -> float:
        """Cost of a trajectory."""
        c = self.cost
        if type(c) is DCost:
            dx, du = X[:-1] - c.xd[:-1], U - c.ud
            running = np.einsum("ki,ij,kj->", dx, c.Q, dx) + np.einsum("ki,ij,kj->", du, c.R, du)
            return float(0.5 * running + c.m(X[-1]))
        return float(sum(c.l(X[k], U[k], k) for k in range(len(U))) + c.m(X[-1]))

    def _slopes(self, X: Array, U: Array) -> tuple[Array, Array]:
        c = self.cost
        if type(c) is DCost:
            return np.vstack([(X[:-1] - c.xd[:-1]) @ c.Q.T, c.m_dx(X[-1])]), (U - c.ud) @ c.R.T
        q = [c.l_dx(X[k], U[k], k) for k in range(len(U))] + [c.m_dx(X[-1])]
        return np.array(q), np.array([c.l_du(X[k], U[k], k) for k in range(len(U))])

    def calc_dcost(self, X: Array, U: Array, dX: Array, dU: Array) -> float:
        """Derivative of the cost along a tangent motion."""
        q, r = self._slopes(X, U)
        return float((q * dX).sum() + (r * dU).sum())

    def calc_ddcost(
        self, X: Array, U: Array, dX: Array, dU: Array, Q: Series | Array, R: Series | Array, S: Series | Array
    ) -> float:
        """q(d, d) of a model (Q, R, S) along a tangent motion; with the Newton model the second derivative."""
        n = len(U)
        q, r, s = series(Q, n + 1), series(R, n), series(S, n)
        cross = np.einsum("ki,kij,kj->", dX[:-1], s, dU)
        return float(np.einsum("ki,kij,kj->", dX, q, dX) + 2 * cross + np.einsum("ki,kij,kj->", dU, r, dU))

    # ---- quadratic models: Q (N+1), R (N), S (N)

    def calc_steepest_model(self) -> tuple[Series, Series, Series]:
        """Identity: steepest descent. Returns (Q, R, S)."""
        n, nx, nu = self.dsys.kf(), self.dsys.nX, self.dsys.nU
        eye = [np.tile(np.eye(m), (count, 1, 1)) for m, count in ((nx, n + 1), (nu, n))]
        return Series(eye[0]), Series(eye[1]), Series(np.zeros((n, nx, nu)))

    def calc_quasi_model(self, X: Array, U: Array) -> tuple[Series, Series, Series]:
        """Second derivatives of the cost alone (Gauss-Newton). Returns (Q, R, S)."""
        c, n = self.cost, len(U)
        if type(c) is DCost:
            q0 = np.concatenate([np.broadcast_to(c.Q, (n, *c.Q.shape)), c.Qf[None]])
            cross = np.zeros((n, len(c.Q), len(c.R)))
            return Series(q0), Series(np.broadcast_to(c.R, (n, *c.R.shape))), Series(cross)
        q = [c.l_dxdx(X[k], U[k], k) for k in range(n)] + [c.m_dxdx(X[-1])]
        r = [c.l_dudu(X[k], U[k], k) for k in range(n)]
        s = [c.l_dxdu(X[k], U[k], k) for k in range(n)]
        return Series(np.array(q)), Series(np.array(r)), Series(np.array(s))

    def calc_newton_model(
        self, X: Array, U: Array, A: ArrayLike, B: ArrayLike, K: ArrayLike
    ) -> tuple[Series, Series, Series]:
        """The true second derivative of the projected cost. Returns (Q, R, S)."""
        q, r, s = self.calc_quasi_model(X, U)
        lx, lu = self._slopes(X, U)
        z = sweep_back(np.asarray(A), np.asarray(B), np.asarray(K), lx, lu)
        xx, xu, uu = self._curvature(X, U, z[1:])
        rows = q.rows.copy()
        rows[:-1] += xx
        return Series(rows), Series(r.rows + uu), Series(s.rows + xu)

    def _linearize(self, X: Array, U: Array) -> tuple[Array, Array]:
        if type(self.dsys) is DSystem:
            return self.dsys._linearize(*self.dsys._curves(X, U))
        A, B = (np.asarray(m, dtype=float) for m in self.dsys.linearize_trajectory(X, U))
        return A, B

    def _curvature(self, X: Array, U: Array, Z: Array) -> tuple[Array, Array, Array]:
        if type(self.dsys) is DSystem:
            return self.dsys._second_order(X, U, Z)
        found = []
        for k in range(len(U)):
            self.dsys.set(X[k], U[k], k, xk_hint=X[k + 1])
            found.append((self.dsys.fdxdx(Z[k]), self.dsys.fdxdu(Z[k]), self.dsys.fdudu(Z[k])))
        xx, xu, uu = (np.array(x) for x in zip(*found, strict=True))
        return xx, xu, uu

    def calc_descent_direction(self, X: Array, U: Array, method: str = "steepest") -> tuple[Any, ...]:
        """(Kproj, dX, dU, Q, R, S) of a method: "steepest", "quasi" or "newton"."""
        if self.optimize_ic:
            raise NotImplementedError("optimize_ic is not available here: use da.optimize(..., free_start=True)")
        A, B = self._linearize(X, U)
        K = regulator(A, B, self.Qproj, self.Rproj, cost_to_go=False).K
        if method == "steepest":
            Q, R, S = self.calc_steepest_model()
        elif method == "quasi":
            Q, R, S = self.calc_quasi_model(X, U)
        elif method == "newton":
            Q, R, S = self.calc_newton_model(X, U, A, B, K)
        else:
            raise ValueError(f"method must be 'steepest', 'quasi' or 'newton', not {method!r}")
        q, r = self._slopes(X, U)
        gain, shift, _, _ = affine(A, B, q, r, Q, S, R, cost_to_go=False)
        dX, dU = np.zeros_like(q), np.zeros_like(r)
        for k in range(len(dU)):
            dU[k] = -gain[k] @ dX[k] - shift[k]
            dX[k + 1] = A[k] @ dX[k] + B[k] @ dU[k]
        return K, dX, dU, Q, R, S

    # ---- line search

    def armijo_simulate(self, bX: Array, bU: Array, Kproj: ArrayLike) -> tuple[bool, Array, Array]:
        """(success, X, U) of the projection of a curve; after a failure the part up to it."""
        try:
            X, U = self.dsys.project(bX, bU, Kproj)
            return bool(np.isfinite(X).all() and np.isfinite(U).all()), X, U
        except ConvergenceError as error:
            done = 0 if error.step is None else error.step
            return False, np.array(bX[: done + 1]), np.array(bU[:done])

    def armijo_search(self, X: Array, U: Array, Kproj: ArrayLike, dX: Array, dU: Array) -> tuple[Array, Array, float]:
        """(X, U, cost) of the first trial step beta^m with sufficient decrease; ConvergenceError if there is none."""
        cost0, dcost0 = self.calc_cost(X, U), self.calc_dcost(X, U, dX, dU)
        for m in range(self.armijo_max_iterations):
            length = self.armijo_beta**m
            bX, bU = X + length * dX, U + length * dU
            success, nX, nU = self.armijo_simulate(bX, bU, Kproj)
            if not success:
                self.monitor.armijo_simulation_failure(m, nX, nU, bX, bU)
                continue
            cost = self.calc_cost(nX, nU)
            bound = cost0 + self.armijo_alpha * length * dcost0
            self.monitor.armijo_evaluation(m, nX, nU, bX, bU, cost, bound)
            if cost < bound:
                return nX, nU, cost
        self.monitor.armijo_search_failure(X, U, dX, dU, cost0, dcost0, Kproj)
        raise ConvergenceError(
            f"no decrease of the cost within {self.armijo_max_iterations} trials", residual=dcost0, state=(X, U)
        )

    # ---- the iteration

    def select_method(self, iteration: int) -> str:
        """Method of an iteration: `first_method` for `first_method_iterations`, then `second_method`."""
        return self.first_method if iteration < self.first_method_iterations else self.second_method

    def select_fallback_method(self, iteration: int, current_method: str) -> str:
        """Method to try when one gives no descent: newton -> quasi -> steepest."""
        return "quasi" if current_method == "newton" else "steepest"

    def step(
        self, iteration: int, X: ArrayLike, U: ArrayLike, method: str = "steepest"
    ) -> tuple[bool, Array, Array, float, float]:
        """One step: (done, X, U, slope before, cost after); done means that (X, U) was a minimizer."""
        X, U = np.array(X, dtype=float), np.array(U, dtype=float)
        cost0 = self.calc_cost(X, U)
        while True:
            self.monitor.step_begin(iteration)
            dcost0 = np.inf
            with suppress(SingularityError, np.linalg.LinAlgError):
                K, dX, dU, _, _, _ = self.calc_descent_direction(X, U, method)
                dcost0 = self.calc_dcost(X, U, dX, dU)
                self.monitor.step_info(method, cost0, dcost0, X, U, dX, dU, K)
            if abs(dcost0) < self.descent_tolerance:
                self.monitor.step_termination(cost0, dcost0)
                return True, X, U, dcost0, cost0
            if dcost0 < 0:
                break
            fallback = self.select_fallback_method(iteration, method)
            self.monitor.step_method_failure(method, cost0, dcost0, fallback)
            if fallback == method:
                raise ConvergenceError(f"no descent direction at cost {cost0:g}", residual=float(dcost0), state=(X, U))
            method = fallback
        nX, nU, cost1 = self.armijo_search(X, U, K, dX, dU)
        self.monitor.step_completed(method, cost1, nX, nU)
        return False, nX, nU, dcost0, cost1

    def optimize(self, X: ArrayLike, U: ArrayLike, max_steps: int = 50) -> tuple[bool, Array, Array]:
        """(converged, X, U) after at most `max_steps` steps from a motion (X, U)."""
        X, U = np.array(X, dtype=float), np.array(U, dtype=float)
        n = self.dsys.kf()
        if X.shape != (n + 1, self.dsys.nX) or U.shape != (n, self.dsys.nU):
            raise ValueError(
                f"X {X.shape} and U {U.shape} do not fit {n} steps of {self.dsys.nX} states, {self.dsys.nU} inputs"
            )
        self.monitor.optimize_begin(X, U)
        converged = False
        for k in range(max_steps):
            converged, X, U, _, _ = self.step(k, X, U, self.select_method(k))
            if converged:
                break
        self.monitor.optimize_end(converged, X, U, self.calc_cost(X, U))
        return converged, X, U

    # ---- checks and pictures

    def _along(self, X: Array, U: Array, dX: Array, dU: Array, K: ArrayLike, z: float) -> tuple[Array, Array]:
        return self.dsys.project(X + z * dX, U + z * dU, K)

    def check_dcost(
        self, X: ArrayLike, U: ArrayLike, method: str = "steepest", delta: float = 1e-6, tolerance: float = 1e-5
    ) -> bool:
        """Compare the slope of the cost along a descent direction with differences (relative)."""
        X, U = np.array(X, dtype=float), np.array(U, dtype=float)
        K, dX, dU, *_ = self.calc_descent_direction(X, U, method)
        exact = self.calc_dcost(X, U, dX, dU)
        above, below = (self.calc_cost(*self._along(X, U, dX, dU, K, z)) for z in (delta, -delta))
        return abs(exact - (above - below) / (2 * delta)) <= tolerance * max(1.0, abs(exact))

    def check_ddcost(
        self, X: ArrayLike, U: ArrayLike, method: str = "steepest", delta: float = 1e-6, tolerance: float = 1e-5
    ) -> bool:
        """Compare the second derivative along a descent direction with differences of the first (relative)."""
        X, U = np.array(X, dtype=float), np.array(U, dtype=float)
        K, dX, dU, *_ = self.calc_descent_direction(X, U, method)
        A, B = self._linearize(X, U)
        exact = self.calc_ddcost(X, U, dX, dU, *self.calc_newton_model(X, U, A, B, K))
        slopes = []
        for z in (delta, -delta):
            nX, nU = self._along(X, U, dX, dU, K, z)
            a, b = self.dsys.linearize_trajectory(nX, nU)
            # the same direction, projected to a tangent motion of the neighbour
            slopes.append(self.calc_dcost(nX, nU, *self.dsys.dproject(a, b, dX, dU, K)))
        approx = (slopes[0] - slopes[1]) / (2 * delta)
        return abs(exact - approx) <= tolerance * max(1.0, abs(exact))

    def descent_plot(
        self, X: ArrayLike, U: ArrayLike, method: str = "steepest", points: int = 40, legend: bool = True
    ) -> Any:
        """Draw cost, its model and the sufficient decrease along a descent direction (matplotlib); returns the axes."""
        import matplotlib.pyplot as plt

        X, U = np.array(X, dtype=float), np.array(U, dtype=float)
        K, dX, dU, Q, R, S = self.calc_descent_direction(X, U, method)
        cost0, slope = self.calc_cost(X, U), self.calc_dcost(X, U, dX, dU)
        bend = self.calc_ddcost(X, U, dX, dU, Q, R, S)
        lengths, costs = np.linspace(0, 1, points), []
        for z in lengths:
            success, nX, nU = self.armijo_simulate(X + z * dX, U + z * dU, K)
            costs.append(self.calc_cost(nX, nU) - cost0 if success else np.nan)
        ax = plt.gca()
        ax.plot(lengths, costs, label="cost")
        ax.plot(lengths, slope * lengths + 0.5 * bend * lengths**2, "--", label="model")
        ax.plot(lengths, self.armijo_alpha * slope * lengths, ":", label="sufficient decrease")
        trials = self.armijo_beta ** np.arange(self.armijo_max_iterations)
        ax.plot(trials, np.interp(trials, lengths, costs), "k.", label="trials")
        ax.set_xlabel("step length")
        ax.set_ylabel("change of the cost")
        if legend:
            ax.legend()
        return ax
