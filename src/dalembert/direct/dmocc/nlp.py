"""A nonlinear program made of many small equal blocks, with exact sparse derivatives assembled block by block.

The rows of a transcription are sums of a few functions of a few unknowns each, evaluated at all nodes. Differentiating
those small functions once and scattering their values costs a fraction of differentiating the whole program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Block:
    """y = function(z): z are the unknowns `columns` (count, k), y adds to `rows` (count, r), or to the cost if None."""

    function: Any
    columns: np.ndarray
    rows: np.ndarray | None


class Program:
    """Minimize the sum of scalar blocks subject to rows that are sums of vector blocks; nx unknowns, ng rows."""

    def __init__(self, nx: int, ng: int) -> None:
        self.nx, self.ng = nx, ng
        self.blocks: list[Block] = []

    def add(self, function: Any, columns: Any, rows: Any = None) -> None:
        """Add equal blocks: a CasADi function of one column z, its unknowns (count, k) and rows (count, r)."""
        c = np.atleast_2d(np.asarray(columns, dtype=int))
        r = None if rows is None else np.atleast_2d(np.asarray(rows, dtype=int))
        self.blocks.append(Block(function, c, r))

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
            y = ca.cse(ca.SX(b.function(z)))  # shared terms once; on the derivatives it gains little and costs much
            size = 1 if b.rows is None else b.rows.shape[1]
            if int(y.numel()) != size:
                raise ValueError(f"a block of {size} rows returned {y.numel()} values")
            mu = ca.SX.sym("mu", size)
            J = ca.jacobian(y, z)
            H = ca.triu(ca.hessian(ca.dot(mu, y), z)[0])
            eval_y, eval_J, eval_H = (
                ca.Function("y", [z], [ca.densify(y)]),
                ca.Function("J", [z], [J]),
                ca.Function("H", [z, mu], [H]),
            )
            Z = ca.reshape(x[b.columns.ravel().tolist()], k, count)
            Y = eval_y.map(count)(Z)
            Jm = ca.vec(eval_J.map(count)(Z).nz[:])
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
                r, c = b.columns[:, hi].ravel(), b.columns[:, hj].ravel()
                # an entry of the upper triangle of a block may fall below the diagonal of the whole
                hess.append((np.minimum(r, c), np.maximum(r, c), ca.vec(eval_H.map(count)(Z, mus).nz[:])))
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
