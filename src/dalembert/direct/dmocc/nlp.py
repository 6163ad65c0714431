"""A nonlinear program made of many small equal blocks, with exact sparse derivatives assembled block by block.

The rows of a transcription are sums of a few functions of a few unknowns each, evaluated at all nodes. Differentiating
those small functions once and scattering their values costs a fraction of differentiating the whole program.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..interrupt import told_apart

# what IPOPT returns -> (status, what it means)
_STATUS = {
    "Solve_Succeeded": ("solved", "a local optimum was found"),
    "Solved_To_Acceptable_Level": ("acceptable", "the optimum is met to IPOPT's acceptable level only"),
    "Infeasible_Problem_Detected": (
        "infeasible",
        "no point near the last iterate meets boundary conditions and bounds",
    ),
    "Maximum_Iterations_Exceeded": ("iteration_limit", "raise max_iterations or give a better guess"),
    "Maximum_CpuTime_Exceeded": ("time_limit", "the time limit was reached"),
    "Maximum_WallTime_Exceeded": ("time_limit", "the time limit was reached"),
    "Restoration_Failed": ("restoration_failed", "IPOPT could not reduce the constraint violation; often infeasible"),
    "Diverging_Iterates": ("diverged", "the iterates grow without bound; the problem may be unbounded"),
    "Search_Direction_Becomes_Too_Small": ("stalled", "no further progress; the tolerance may be too tight"),
    "Invalid_Number_Detected": ("invalid_number", "a cost or condition returned NaN or infinity"),
    "Error_In_Step_Computation": ("step_failed", "IPOPT could not compute a step"),
    "Not_Enough_Degrees_Of_Freedom": ("overdetermined", "more equations than unknowns: too few inputs or steps"),
}


@dataclass(frozen=True)
class Block:
    """y = function(z), or function(z, c): z are the unknowns `columns` (count, k), c numbers `given` (count, j) of each
    block; y adds to `rows` (count, r), or to the cost if None."""

    function: Any
    columns: np.ndarray
    rows: np.ndarray | None
    given: np.ndarray | None = None


@dataclass(frozen=True)
class Answer:
    """Where a solver stopped: `x` is the last iterate whatever the `status`; `seconds` are (set-up, solve)."""

    status: str
    message: str
    x: np.ndarray
    cost: float
    violation: float
    multipliers: np.ndarray
    iterations: int
    seconds: tuple[float, float]


class Program:
    """Minimize the sum of scalar blocks subject to rows that are sums of vector blocks.

    `unknown` and `row` hand out indices in the shape of their values, from which the blocks choose. Who keeps first
    values and limits himself gives the numbers of unknowns and rows and uses `add` and `functions` alone.
    """

    def __init__(self, nx: int = 0, ng: int = 0) -> None:
        self.nx, self.ng = nx, ng
        self.blocks: list[Block] = []
        self._x: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._g: list[tuple[np.ndarray, np.ndarray]] = []

    def unknown(self, value: np.ndarray, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> np.ndarray:
        """New unknowns with first values and limits; their indices, shaped as `value`."""
        self._x.append(tuple(np.broadcast_to(a, value.shape).ravel() for a in (value, low, high)))  # type: ignore[arg-type]
        self.nx += value.size
        return self.nx - value.size + np.arange(value.size).reshape(value.shape)

    def row(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        """New rows with limits; their indices, shaped as the limits."""
        a, b = np.broadcast_arrays(np.asarray(low, dtype=float), np.asarray(high, dtype=float))
        self._g.append((a.ravel(), b.ravel()))
        self.ng += a.size
        return self.ng - a.size + np.arange(a.size).reshape(a.shape)

    def add(
        self,
        function: Callable[..., Any],
        columns: ArrayLike,
        rows: ArrayLike | None = None,
        *,
        given: ArrayLike | None = None,
    ) -> None:
        """Add equal blocks: a function of one CasADi column z, its unknowns (count, k) and rows (count, r).

        With `given` (count, j) it is a function of z and of a second column, whose numbers differ from block to block.
        """
        c = np.atleast_2d(np.asarray(columns, dtype=int))
        r = None if rows is None else np.atleast_2d(np.asarray(rows, dtype=int))
        if len(c):
            self.blocks.append(Block(function, c, r, None if given is None else np.atleast_2d(given)))

    def solve(self, settings: Mapping[str, Any], *, refuse: str = "") -> Answer:
        """Solve by IPOPT with its `settings`; a reason to `refuse` returns the first values with that message."""
        import casadi as ca

        begun = clock.perf_counter()
        made = self.functions()
        x0, lbx, ubx = (np.concatenate([part[i] for part in self._x]) for i in range(3))
        lbg, ubg = (np.concatenate([part[i] for part in self._g]) for i in range(2))

        def answer(status: str, message: str, x: np.ndarray, dual: np.ndarray, count: int, end: float) -> Answer:
            cost, rows = made["values"](x)
            r = rows.full().ravel()
            off = np.concatenate([lbg - r, r - ubg, lbx - x, x - ubx, [0.0]])
            return Answer(status, message, x, float(cost), float(off.max()), dual, count, (ready - begun, end - ready))

        none = np.zeros(self.ng)
        ready = clock.perf_counter()
        if refuse:
            return answer("contradictory_bounds", refuse, x0, none, 0, ready)
        solver = ca.nlpsol(
            "program",
            "ipopt",
            {"x": made["x"], "f": made["cost"], "g": made["rows"]},
            {
                "print_time": False,
                "show_eval_warnings": False,  # the status says it
                "ipopt": {"print_level": 0, "sb": "yes", **settings},
                "error_on_fail": False,
                "grad_f": made["gradient"],
                "jac_g": made["jacobian"],
                "hess_lag": made["hessian"],
            },
        )
        ready = clock.perf_counter()
        try:
            with told_apart():
                out = solver(x0=x0, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
        except RuntimeError as reason:
            return answer(
                "solver_error", f"the solver refused the problem: {reason}", x0, none, 0, clock.perf_counter()
            )
        end = clock.perf_counter()
        facts = solver.stats()
        status, message = _STATUS.get(facts["return_status"], ("failed", facts["return_status"]))
        x = out["x"].full().ravel()
        if not np.isfinite(x).all():
            status, message, x = "invalid_number", "the solver left NaN; the guess is kept", x0
        count = 0 if status == "overdetermined" else int(facts["iter_count"])  # left unset then
        return answer(status, message, x, out["lam_g"].full().ravel(), count, end)

    def functions(self) -> dict[str, Any]:
        """CasADi functions: `values` (x -> cost, rows), `gradient`, `jacobian`, `hessian` in nlpsol's conventions."""
        import casadi as ca

        x, empty = ca.MX.sym("x", self.nx), ca.MX.sym("p", 0)
        weight, dual = ca.MX.sym("lam_f"), ca.MX.sym("lam_g", self.ng)
        cost, rows, gradient = ca.MX(0), ca.MX(self.ng, 1), ca.MX(self.nx, 1)
        jac: list[tuple[np.ndarray, np.ndarray, Any]] = []
        hess: list[tuple[np.ndarray, np.ndarray, Any]] = []
        for b in self.blocks:
            count, k = b.columns.shape
            z = ca.SX.sym("z", k)
            c = ca.SX.sym("c", 0 if b.given is None else b.given.shape[1])
            y = ca.SX(b.function(z) if b.given is None else b.function(z, c))
            y = ca.cse(y)  # shared terms once; on the derivatives it gains little and costs much
            size = 1 if b.rows is None else b.rows.shape[1]
            if int(y.numel()) != size:
                raise ValueError(f"a block of {size} rows returned {y.numel()} values")
            mu = ca.SX.sym("mu", size)
            J = ca.jacobian(y, z)
            H = ca.triu(ca.hessian(ca.dot(mu, y), z)[0])
            eval_y, eval_J, eval_H = (
                ca.Function("y", [z, c], [ca.densify(y)]),
                ca.Function("J", [z, c], [J]),
                ca.Function("H", [z, c, mu], [H]),
            )
            Z = ca.reshape(x[b.columns.ravel().tolist()], k, count)
            C = ca.DM(np.zeros((0, count)) if b.given is None else np.ascontiguousarray(b.given.T))
            Y = eval_y.map(count)(Z, C)
            Jm = ca.vec(eval_J.map(count)(Z, C).nz[:])
            ji, jj = (np.array(a, dtype=int) for a in J.sparsity().get_triplet())
            hi, hj = (np.array(a, dtype=int) for a in H.sparsity().get_triplet())
            if b.rows is None:
                cost = cost + ca.sum2(Y)
                if len(ji):
                    gradient = gradient + _scatter(self.nx, b.columns[:, jj].ravel()) @ Jm
                mus = ca.repmat(weight, 1, count)
            else:
                rows = rows + _scatter(self.ng, b.rows.ravel()) @ ca.vec(Y)
                jac.append((b.rows[:, ji].ravel(), b.columns[:, jj].ravel(), Jm))
                mus = ca.reshape(dual[b.rows.ravel().tolist()], size, count)
            if len(hi):
                first, second = b.columns[:, hi].ravel(), b.columns[:, hj].ravel()
                # an entry of the upper triangle of a block may fall below the diagonal of the whole
                hess.append(
                    (np.minimum(first, second), np.maximum(first, second), ca.vec(eval_H.map(count)(Z, C, mus).nz[:]))
                )
        rows, gradient = ca.densify(rows), ca.densify(gradient)  # the solver reads them without their pattern
        return {
            "values": ca.Function("values", [x], [cost, rows]),
            "x": x,
            "cost": cost,
            "rows": rows,
            "gradient": ca.Function("grad_f", [x, empty], [cost, gradient], ["x", "p"], ["f", "grad_f_x"]),
            "jacobian": ca.Function(
                "jac_g", [x, empty], [rows, _assemble((self.ng, self.nx), jac)], ["x", "p"], ["g", "jac_g_x"]
            ),
            "hessian": ca.Function(
                "hess_lag",
                [x, empty, weight, dual],
                [_assemble((self.nx, self.nx), hess)],
                ["x", "p", "lam_f", "lam_g"],
                ["triu_hess_gamma_x_x"],
            ),
        }


def _scatter(size: int, where: np.ndarray) -> Any:
    """Sparse 0/1 matrix (size, len(where)) that adds entry i to place where[i]."""
    import casadi as ca

    pattern = ca.Sparsity.triplet(size, len(where), where.tolist(), list(range(len(where))))
    return ca.DM(pattern, 1.0)


def _assemble(shape: tuple[int, int], parts: list[tuple[np.ndarray, np.ndarray, Any]]) -> Any:
    """Sparse matrix whose entry (i, j) is the sum of all values given for it."""
    import casadi as ca

    if not parts:
        return ca.MX(*shape)
    i, j = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    keys, slot = np.unique(j * shape[0] + i, return_inverse=True)  # column by column, as CasADi stores
    pattern = ca.Sparsity.triplet(shape[0], shape[1], (keys % shape[0]).tolist(), (keys // shape[0]).tolist())
    return ca.MX(pattern, _scatter(len(keys), slot) @ ca.vertcat(*[p[2] for p in parts]))
