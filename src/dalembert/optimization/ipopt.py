"""The same problem for IPOPT, to compare with: states and inputs of all steps as unknowns, x_k+1 = f(x_k, u_k) as equations.

Values, Jacobians and Hessians of the Lagrangian are those of the core, exact, through CasADi's callbacks; bounds and limits go along.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import DalembertError
from ..system import System
from .constraints import Box, Rows
from .costs import BoundCost
from .descent import Discrete
from .result import Iteration, Optimization

STATUS = {
    "Solve_Succeeded": "converged",
    "Maximum_Iterations_Exceeded": "iterations",
    "Infeasible_Problem_Detected": "infeasible",
    "Diverging_Iterates": "unbounded",
    "User_Requested_Stop": "interrupted",
}


class Transcription:
    """Unknowns z = (x_1 ... x_N, u_0 ... u_N-1); equations f(x_k, u_k) - x_k+1 = 0, then the rows of the limits."""

    def __init__(self, system: System, cost: BoundCost, rows: Sequence[Rows], x0: Array) -> None:
        if system.nx != system.ndx or system.difference_jacobian(x0, x0) is not None:
            raise ValueError("method='ipopt' needs flat states: balls and floating bodies have none")
        self.system, self.cost, self.x0 = system, cost, x0
        self.N, self.n, self.m = system.steps, system.nx, system.nu
        self.size = self.N * (self.n + self.m)
        self.general = [r for r in rows if not isinstance(r, Box)]
        self.low, self.high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for r in rows:
            if isinstance(r, Box):
                start, width = (self.N * self.n, self.m) if r.inputs else (0, self.n)
                for j, column in enumerate(r.columns):
                    places = start + np.arange(self.N) * width + column
                    self.low[places], self.high[places] = r.low[j], r.high[j]
        limits = [
            (np.repeat(r.low[None], self.N + 1, 0)[r.on], np.repeat(r.high[None], self.N + 1, 0)[r.on])
            for r in self.general
        ]
        zero = np.zeros(self.N * self.n)
        self.g_low = np.concatenate([zero, *(a for a, _ in limits)])
        self.g_high = np.concatenate([zero, *(b for _, b in limits)])

    def pack(self, X: Array, U: Array) -> Array:
        """z of a curve."""
        return np.concatenate([X[1:].ravel(), U.ravel()])

    def unpack(self, z: Array) -> tuple[Array, Array]:
        """(X, U)."""
        cut = self.N * self.n
        return np.vstack([self.x0, z[:cut].reshape(self.N, self.n)]), z[cut:].reshape(self.N, self.m)

    # ---- functions of z

    def value(self, z: Array) -> float:
        """The cost."""
        return float(self.cost.values(*self.unpack(z)).sum())

    def gradient(self, z: Array) -> Array:
        """Its gradient."""
        gx, gu = self.cost.gradient(*self.unpack(z))
        return np.concatenate([gx[1:].ravel(), gu.ravel()])

    def rows(self, z: Array) -> Array:
        """Equations of motion and limits; NaN where a step cannot be taken."""
        X, U = self.unpack(z)
        try:
            gaps = self.system.shoot(X, U)[0] - X[1:]
        except DalembertError:
            gaps = np.full((self.N, self.n), np.nan)
        return np.concatenate([gaps.ravel(), *(r.value(X, U)[r.on] for r in self.general)])

    def jacobian(self, z: Array) -> Any:
        """Sparse (rows, size)."""
        import scipy.sparse as sp

        X, U = self.unpack(z)
        N, n, m = self.N, self.n, self.m
        try:
            _, A, B = self.system.shoot(X, U, derive=True)
        except DalembertError:
            A, B = np.full((N, n, n), np.nan), np.full((N, n, m), np.nan)
        assert A is not None
        assert B is not None
        eye = -sp.identity(N * n, format="csr")
        by_x = (
            eye
            if N == 1
            else eye
            + sp.vstack([sp.csr_matrix((n, N * n)), sp.hstack([sp.block_diag(A[1:]), sp.csr_matrix(((N - 1) * n, n))])])
        )
        blocks = [sp.hstack([by_x, sp.block_diag(B)])]
        for r in self.general:
            r.linearize(X, U)
            unit = np.eye(r.on.shape[1])
            for k, row in zip(*np.nonzero(r.on), strict=True):
                w = np.zeros(r.on.shape)
                w[k] = unit[row]
                gx, gu = np.zeros_like(X), np.zeros_like(U)
                r.add_gradient(w, gx, gu)
                blocks.append(sp.csr_matrix(np.concatenate([gx[1:].ravel(), gu.ravel()])[None]))
        return sp.vstack(blocks).tocsc()

    def hessian(self, z: Array, weight: float, y: Array) -> Any:
        """Of weight * cost + y . rows, sparse, upper triangle."""
        import scipy.sparse as sp

        X, U = self.unpack(z)
        N, n = self.N, self.n
        Q, S, R = (None if a is None else weight * a for a in self.cost.hessian(X, U))
        assert Q is not None
        assert R is not None
        S = np.zeros((N, n, self.m)) if S is None else S
        xx, xu, uu = self.system.second_order_trajectory(X, U, y[: N * n].reshape(N, n))
        Q, S, R = Q.copy(), S + xu, R + uu
        Q[:-1] += xx
        at = N * n
        for r in self.general:
            w = np.zeros(r.on.shape)
            count = int(r.on.sum())
            w[r.on] = y[at : at + count]
            at += count
            more = r.curvature(X, U, w)
            if more is not None:
                Q, R = Q + more[0], R + more[2]
                S = S if more[1] is None else S + more[1]
        mixed = sp.block_diag(S[1:]) if N > 1 else sp.csr_matrix((0, 0))
        side = sp.hstack([sp.csr_matrix(((N - 1) * n, self.m)), mixed])
        side = sp.vstack([side, sp.csr_matrix((n, N * self.m))])
        return sp.triu(sp.bmat([[sp.block_diag(Q[1:]), side], [side.T, sp.block_diag(R)]])).tocsc()


def solve_ipopt(
    system: System,
    cost: BoundCost,
    rows: Sequence[Rows],
    X: Array,
    U: Array,
    *,
    tolerance: float,
    max_iterations: int,
    options: dict[str, Any] | None = None,
) -> Optimization:
    """Run IPOPT from a curve; the result is a motion if it converged."""
    import casadi as ca

    t = Transcription(system, cost, rows, X[0])
    z = t.pack(X, U)
    # what can differ from zero, at a point where nothing is by accident
    rng = np.random.default_rng(0)
    some = z + 1e-3 * rng.normal(size=len(z))
    pattern_j = _pattern(t.jacobian(some), _dense_steps(t))
    pattern_h = _pattern(t.hessian(some, 1.0, rng.normal(size=len(t.g_low))), _dense_hessian(t))
    nothing = ca.Sparsity(0, 1)

    def wrapped(name: str, ins: dict[str, Any], outs: dict[str, Any], run: Callable[..., list[Any]]) -> Any:
        names, results = list(ins), list(outs)

        class Wrapped(ca.Callback):  # type: ignore[misc]
            def __init__(self) -> None:
                ca.Callback.__init__(self)
                self.construct(name, {})

            def get_n_in(self) -> int:
                return len(ins)

            def get_n_out(self) -> int:
                return len(outs)

            def get_sparsity_in(self, i: int) -> Any:
                return ins[names[i]]

            def get_sparsity_out(self, i: int) -> Any:
                return outs[results[i]]

            def get_name_in(self, i: int) -> str:
                return names[i]

            def get_name_out(self, i: int) -> str:
                return results[i]

            def eval(self, arg: Any) -> list[Any]:
                return run(*(np.array(a).ravel() for a in arg))

        return Wrapped()

    x, f, g = ca.Sparsity.dense(t.size), ca.Sparsity.dense(1), ca.Sparsity.dense(len(t.g_low))
    at = {"x": x, "p": nothing}
    program = wrapped("nlp", at, {"f": f, "g": g}, lambda z, p: [t.value(z), t.rows(z)])
    gradient = wrapped("nlp_grad_f", at, {"f": f, "grad_f_x": x}, lambda z, p: [t.value(z), t.gradient(z)])
    jacobian = wrapped(
        "nlp_jac_g", at, {"g": g, "jac_g_x": pattern_j}, lambda z, p: [t.rows(z), _values(t.jacobian(z), pattern_j)]
    )
    hessian = wrapped(
        "nlp_hess_l", at | {"lam_f": f, "lam_g": g}, {"triu_hess_gamma_x_x": pattern_h},
        lambda z, p, w, y: [_values(t.hessian(z, float(w[0]), y), pattern_h)],
    )  # fmt: skip
    quiet: dict[str, Any] = {
        "print_time": False, "error_on_fail": False, "show_eval_warnings": False, "no_nlp_grad": True, "calc_lam_p": False,
        "ipopt.print_level": 0, "ipopt.sb": "yes",
        "grad_f": gradient, "jac_g": jacobian, "hess_lag": hessian, "ipopt.tol": tolerance, "ipopt.max_iter": max_iterations,
    }  # fmt: skip
    engine = ca.nlpsol("optimize", "ipopt", program, quiet | (options or {}))
    begun = time.perf_counter()
    answer = engine(x0=z, lbx=t.low, ubx=t.high, lbg=t.g_low, ubg=t.g_high)
    seconds = time.perf_counter() - begun
    stats = engine.stats()
    Xn, Un = t.unpack(np.array(answer["x"]).ravel())
    said = str(stats["return_status"])
    status = STATUS.get(said, "stalled")
    gaps = float(np.abs(t.rows(t.pack(Xn, Un))[: t.N * t.n]).max())
    value = float(answer["f"])
    history = tuple(
        Iteration(
            i,
            "ipopt",
            float(c),
            math.nan,
            float(a),
            1,
            0,
            seconds / max(1, len(stats["iterations"]["obj"])),
            float(pr),
            float(du),
        )
        for i, (c, a, pr, du) in enumerate(
            zip(*(stats["iterations"][key] for key in ("obj", "alpha_pr", "inf_pr", "inf_du")), strict=True)
        )
    )
    lam = np.array(answer["lam_g"]).ravel()
    costates = np.vstack([np.zeros(t.n), lam[: t.N * t.n].reshape(t.N, t.n)])
    K = np.zeros((t.N, t.m, t.n))
    reason = f"IPOPT: {said}; largest gap {gaps:.2g}"
    return Optimization(
        system, Xn, Un, K, value, math.nan, status, reason, history, Discrete(system, cost, gains="lq"),
        costates=costates, error=history[-1].error if history else math.nan,
    )  # fmt: skip


def _dense_steps(t: Transcription) -> Any:
    """Where A and B may be filled: whole blocks."""
    import scipy.sparse as sp

    N, n, m = t.N, t.n, t.m
    by_x = (
        sp.identity(N * n)
        if N == 1
        else sp.identity(N * n)
        + sp.vstack(
            [
                sp.csr_matrix((n, N * n)),
                sp.hstack([sp.block_diag([np.ones((n, n))] * (N - 1)), sp.csr_matrix(((N - 1) * n, n))]),
            ]
        )
    )
    top = sp.hstack([by_x, sp.block_diag([np.ones((n, m))] * N)])
    rest = len(t.g_low) - N * n
    return sp.vstack([top, sp.csr_matrix((rest, t.size))]) if rest else top


def _dense_hessian(t: Transcription) -> Any:
    import scipy.sparse as sp

    N, n, m = t.N, t.n, t.m
    side = sp.hstack(
        [
            sp.csr_matrix(((N - 1) * n, m)),
            sp.block_diag([np.ones((n, m))] * (N - 1)) if N > 1 else sp.csr_matrix((0, 0)),
        ]
    )
    side = sp.vstack([side, sp.csr_matrix((n, N * m))])
    whole = sp.bmat([[sp.block_diag([np.ones((n, n))] * N), side], [side.T, sp.block_diag([np.ones((m, m))] * N)]])
    return sp.triu(whole)


def _pattern(*parts: Any) -> Any:
    """CasADi's sparsity of everything that is filled in any of the matrices."""
    import casadi as ca

    total = sum((abs(p) > 0).astype(float) if i else (p != 0).astype(float) for i, p in enumerate(parts)).tocoo()
    rows, columns = total.shape
    return ca.Sparsity.triplet(rows, columns, total.row.tolist(), total.col.tolist())


def _values(matrix: Any, pattern: Any) -> Any:
    """A DM with the pattern and the values of a sparse matrix."""
    import casadi as ca

    rows, columns = np.array(pattern.row()), np.array(pattern.get_col())
    return ca.DM(pattern, np.asarray(matrix.tocsr()[rows, columns]).ravel())
