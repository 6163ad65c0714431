"""From a problem to a nonlinear program and back: the places of unknowns and equations, and the call of the solver.

Unknowns of step k: q_k, p_k, u_k, lam_k. For fatrop q_{k+1} appears twice, as a control of step k and as the state of
step k + 1, which gives every equation the stage structure that it wants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dmocc.nlp import Program
from .interrupt import told_apart

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Layout:
    """Where each unknown is in the vector z: index arrays, built stage by stage."""

    def __init__(
        self, *, N: int, nq: int, nd: int, nu: int, nc: int, free_time: bool, clock: bool, staged: bool
    ) -> None:
        self.N, self.size = N, 0
        self._stages: list[int] = []
        q, p, u, lam, nxt, T, tau = ([] for _ in range(7))
        for k in range(N + 1):
            q.append(self.take(nq, k))
            p.append(self.take(nd, k))
            if free_time and (staged or k == 0):
                T.append(self.take(1, k))
            if k < N:
                u.append(self.take(nu, k))
                lam.append(self.take(nc, k))
                if staged:
                    nxt.append(self.take(nq, k))
                if clock:
                    tau.append(self.take(1, k))
        self.q, self.p = np.array(q), np.array(p)
        self.u, self.lam = np.array(u).reshape(N, nu), np.array(lam).reshape(N, nc)
        self.next = np.array(nxt) if staged else self.q[1:]
        self.T = (
            np.array(T if staged or not T else T * (N + 1)).reshape(-1, 1) if free_time else np.zeros((N + 1, 0), int)
        )
        self.tau = np.array(tau).reshape(N, -1)

    def take(self, count: int, stage: int) -> Index:
        """Places for more unknowns of a stage; at the end they must belong to the last stage."""
        self._stages += [stage] * count
        self.size += count
        return np.arange(self.size - count, self.size)

    @property
    def stage(self) -> Index:
        """Stage of every unknown."""
        return np.array(self._stages)


@dataclass(frozen=True)
class Rows:
    """Equal blocks of equations low <= function(z[columns]) <= high, one block per entry of `stage`.

    The first `gap` equations of a block determine states of the next stage.
    """

    name: str
    function: Callable[[Any], Any]
    columns: Index
    stage: Index
    low: Array
    high: Array
    gap: int


@dataclass(frozen=True)
class Solution:
    """What the solver returned, in the vector z."""

    z: Array
    objective: float
    status: str
    message: str
    iterations: int
    violation: float
    costate: Array
    setup_time: float
    solve_time: float
    equations: int


class Transcription:
    """A nonlinear program being written down."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows: list[Rows] = []
        self.costs: list[tuple[Callable[[Any], Any], Index]] = []
        self.low = np.full(0, -np.inf)
        self.high = np.full(0, np.inf)
        self.problems: list[str] = []
        self.start = time.perf_counter()

    def equations(
        self,
        name: str,
        function: Callable[[Any], Any],
        columns: object,
        stage: object,
        *,
        low: object = 0.0,
        high: object = 0.0,
        gap: int = 0,
    ) -> None:
        """Add blocks: `function(z)` returns a CasADi column; `columns` (count, k)."""
        import casadi as ca

        columns = np.asarray(columns, dtype=int)
        size = function(ca.SX.sym("z", columns.shape[1])).numel()
        if not size or not len(columns):
            return
        low, high = (np.broadcast_to(np.asarray(b, dtype=float), (len(columns), size)) for b in (low, high))
        self.rows.append(Rows(name, function, columns, np.asarray(stage), low, high, gap))

    def cost(self, function: Callable[[Any], Any], columns: object) -> None:
        """Add scalar blocks to the objective."""
        self.costs.append((function, np.asarray(columns, dtype=int)))

    def bound(self, what: str, places: Index, low: object, high: object) -> None:
        """Narrow the bounds of unknowns; contradictions are noted in `problems`."""
        self._grow()
        low, high = (np.broadcast_to(np.asarray(b, dtype=float), places.shape) for b in (low, high))
        slack = 1e-12 * (1 + np.abs(low) * np.isfinite(low))
        new_low, new_high = np.maximum(self.low[places], low), np.minimum(self.high[places], high)
        bad = new_low > new_high + np.where(np.isfinite(slack), slack, 0)
        if np.any(bad):
            i = int(np.flatnonzero(bad.ravel())[0])
            self.problems.append(
                f"{what}: contradictory bounds, at least {new_low.ravel()[i]:.6g} "
                f"but at most {new_high.ravel()[i]:.6g} (stage {self.layout.stage[places.ravel()[i]]})"
            )
        self.low[places], self.high[places] = new_low, np.maximum(new_low, new_high)

    def _grow(self) -> None:
        """Unknowns that came later have no bounds yet."""
        missing = (0, self.layout.size - len(self.low))
        self.low = np.pad(self.low, missing, constant_values=-np.inf)
        self.high = np.pad(self.high, missing, constant_values=np.inf)

    def solve(self, guess: Array, *, solver: str, scale: float, options: dict[str, Any], warm: bool) -> Solution:
        """Hand the program to a solver. Never raises for a failure of the solver: the status tells."""
        self._grow()
        if self.problems:
            return self._stop(guess, "infeasible", "; ".join(self.problems))
        if solver == "fatrop":
            self._fixed_as_equations()
        program, low, high, owner, dimensions = self._assemble()
        import casadi as ca

        f = program.functions()
        quiet: dict[str, Any] = {"print_time": False, "error_on_fail": False, "show_eval_warnings": False}
        if solver == "ipopt":
            quiet |= {"grad_f": f["gradient"], "jac_g": f["jacobian"], "hess_lag": f["hessian"]}
            quiet |= {"ipopt.print_level": 0, "ipopt.sb": "yes", "ipopt.nlp_scaling_method": "none"}
            quiet |= {"ipopt.obj_scaling_factor": scale, "ipopt.constr_viol_tol": 1e-9}
            nlp = {"x": f["x"], "f": f["cost"], "g": f["rows"]}
            if warm:  # near the solution already: stay close to it and to its active bounds
                quiet |= {"ipopt.mu_init": 1e-5, "ipopt.bound_push": 1e-6, "ipopt.bound_frac": 1e-6}
        else:
            nlp = _with_derivatives(f)
            quiet |= {"structure_detection": "manual", "fatrop.print_level": 0, **dimensions}
            quiet |= {"equality": [bool(e) for e in low == high]}
        try:
            engine = ca.nlpsol("dmoc", solver, nlp, quiet | options)
        except (RuntimeError, NotImplementedError) as error:
            if not options:
                raise
            raise ValueError(
                f"the solver {solver} does not take the options {', '.join(map(repr, options))}: {str(error).splitlines()[0]} "
                f"(those of the solver itself begin with its name, as '{solver}.max_iter')"
            ) from None
        setup_time = time.perf_counter() - self.start
        began = time.perf_counter()
        try:
            with told_apart():
                answer = engine(x0=guess, lbx=self.low, ubx=self.high, lbg=low, ubg=high)
            stats = engine.stats()
        except RuntimeError as error:
            return self._stop(guess, "failed", f"the solver stopped: {error}")
        solve_time = time.perf_counter() - began
        z, g = np.array(answer["x"]).ravel(), np.array(answer["g"]).ravel()
        if not np.all(np.isfinite(z)):
            return self._stop(guess, "failed", "the iterates are not finite; start from another guess")
        miss = np.maximum(0, np.maximum(low - g, g - high))
        beyond = np.maximum(0, np.maximum(self.low - z, z - self.high))
        violation = float(max(miss.max(initial=0), beyond.max(initial=0)))
        status, message = _status(stats, violation)
        if status not in ("solved", "acceptable") and len(miss) and miss.max() > 1e-8:
            block, at = owner[int(miss.argmax())]
            message += f"; largest violation {miss.max():.3g} in {block} at stage {at}"
        return Solution(
            z,
            float(answer["f"]),
            status,
            message,
            0
            if stats["return_status"] == "Not_Enough_Degrees_Of_Freedom"
            else int(stats["iter_count"]),  # left unset then
            violation,
            np.array(answer["lam_g"]).ravel(),
            setup_time,
            solve_time,
            len(low),
        )

    def _stop(self, guess: Array, status: str, message: str) -> Solution:
        spent = time.perf_counter() - self.start
        return Solution(guess, np.nan, status, message, 0, np.inf, np.zeros(0), spent, 0.0, 0)

    def _fixed_as_equations(self) -> None:
        """fatrop wants fixed unknowns as equations of their stage."""
        fixed = np.flatnonzero(self.low == self.high)
        value = self.low[fixed][:, None]
        self.equations("prescribed value", lambda z: z, fixed[:, None], self.layout.stage[fixed], low=value, high=value)
        self.low[fixed], self.high[fixed] = -np.inf, np.inf

    def _assemble(self) -> tuple[Program, Array, Array, list[tuple[str, int]], dict[str, Any]]:
        """Order equations by stage, those that give the next state first."""
        keys, low, high, owner = [], [], [], []
        for i, r in enumerate(self.rows):
            count, size = r.low.shape
            kind = np.tile(np.arange(size) >= r.gap, count).astype(int)
            keys.append(np.stack([np.repeat(r.stage, size), kind, np.full(count * size, i)]))
            low.append(r.low.ravel())
            high.append(r.high.ravel())
            owner += [(r.name, int(k)) for k in np.repeat(r.stage, size)]
        key = np.concatenate(keys, axis=1)
        order = np.lexsort((np.arange(key.shape[1]), key[2], key[1], key[0]))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        program = Program(self.layout.size, len(order))
        at = 0
        for r in self.rows:
            program.add(r.function, r.columns, place[at : at + r.low.size].reshape(r.low.shape))
            at += r.low.size
        for function, columns in self.costs:
            program.add(function, columns)
        N, stages = self.layout.N, np.arange(self.layout.N + 1)
        gaps = np.bincount(key[0][key[1] == 0], minlength=N + 1)  # of stage k: the size of state k + 1
        nx = np.concatenate([gaps[:1], gaps[:N]]) if N else gaps
        both = np.bincount(self.layout.stage, minlength=N + 1)
        ng = np.array([np.sum((key[0] == k) & (key[1] == 1)) for k in stages])
        dimensions = {"N": N, "nx": nx.tolist(), "nu": (both - nx).tolist(), "ng": ng.tolist()}
        return program, np.concatenate(low)[order], np.concatenate(high)[order], [owner[i] for i in order], dimensions


def _with_derivatives(f: dict[str, Any]) -> dict[str, Any]:
    """The program as one function that knows its block-wise derivatives, for a solver that takes none from outside.

    Differentiation of the call finds the reverse derivative in the function's cache, and that one's Jacobian is the
    assembled Hessian. The derivatives by the seeds are never asked for and left empty.
    """
    import casadi as ca

    x, n, m = f["x"], f["x"].numel(), f["rows"].numel()
    out_f, out_g = ca.MX.sym("out_f", ca.Sparsity(1, 1)), ca.MX.sym("out_g", ca.Sparsity(m, 1))
    adj_f, adj_g = ca.MX.sym("adj_f"), ca.MX.sym("adj_g", m)
    given = [x, out_f, out_g, adj_f, adj_g]
    names = ["x", "out_f", "out_g", "adj_f", "adj_g"]
    _, slope = f["gradient"](x, ca.MX(0, 1))
    _, jacobian = f["jacobian"](x, ca.MX(0, 1))
    hessian = ca.triu2symm(f["hessian"](x, ca.MX(0, 1), adj_f, adj_g))
    second = ca.Function(
        "jac_adj1_program",
        [*given, ca.MX.sym("out_adj_x", ca.Sparsity(n, 1))],
        [hessian, ca.MX(n, 1), ca.MX(n, m), ca.MX(n, 1), ca.MX(n, m)],
        [*names, "out_adj_x"],
        [f"jac_adj_x_{name}" for name in names],
    )
    by_jacobian = {"enable_forward": False, "never_inline": True}
    reverse = ca.Function(
        "adj1_program",
        given,
        [adj_f * slope + jacobian.T @ adj_g],
        names,
        ["adj_x"],
        by_jacobian | {"enable_reverse": False, "custom_jacobian": second},
    )
    first = ca.Function("jac_program", given[:3], [slope.T, jacobian], names[:3], ["jac_f_x", "jac_g_x"])
    program = ca.Function(
        "program",
        [x],
        [f["cost"], f["rows"]],
        ["x"],
        ["f", "g"],
        by_jacobian | {"custom_jacobian": first, "cache": {"adj1_program": reverse}},
    )
    z = ca.MX.sym("z", n)
    cost, rows = program(z)
    return {"x": z, "f": cost, "g": rows}


_IPOPT = {
    "Solve_Succeeded": ("solved", "converged"),
    "Solved_To_Acceptable_Level": ("acceptable", "converged to a reduced accuracy"),
    "Infeasible_Problem_Detected": ("infeasible", "no motion satisfies all conditions near this one"),
    "Maximum_Iterations_Exceeded": ("iteration_limit", "too many iterations; start from a better or coarser guess"),
    "Maximum_CpuTime_Exceeded": ("iteration_limit", "out of time"),
    "Restoration_Failed": ("failed", "the equations could not be restored; the conditions may contradict"),
    "Not_Enough_Degrees_Of_Freedom": ("infeasible", "more conditions than unknowns"),
    "Invalid_Number_Detected": ("failed", "an expression is not finite at the iterate"),
    "Search_Direction_Becomes_Too_Small": ("failed", "the steps became too small; the problem may be badly scaled"),
    "Diverging_Iterates": ("failed", "the iterates diverge; is the objective bounded?"),
}


def _status(stats: dict[str, Any], violation: float) -> tuple[str, str]:
    name = str(stats.get("return_status", ""))
    if name in _IPOPT:
        return _IPOPT[name]
    if stats.get("success") and violation < 1e-5:
        return "solved", "converged"
    return "failed", f"the solver stopped without converging (its code: {name or 'none'})"


def interpolate(t: Array, values: Array, at: Array) -> Array:
    """Piecewise linear rows of `values` (n, k) given at t (n,), at new times; constant outside."""
    columns: Sequence[Array] = [np.interp(at, t, column) for column in values.T]
    return np.stack(columns, axis=1) if len(columns) else np.zeros((len(at), 0))
