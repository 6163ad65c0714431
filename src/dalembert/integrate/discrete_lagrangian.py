"""The discrete Lagrangian of a step with its derivatives: what the papers call Ld, D1 Ld, D2 D1 Ld, M, F- and F+.

The integrator never needs them apart from each other; they are here for those who follow the papers with numbers (Structured linearization, eqs 2
to 15; Trajectory optimization, eqs 15 and 16).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array, Named, vector
from ..mechanics import force, force_first, lagrangian, lagrangian_first, lagrangian_second
from ..model import Model
from ..text import Brief


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteLagrangian(Brief):
    """Ld(q_k, q_k+1) and the discrete forces F-, F+ of one step, with derivatives by slot: 1 is q_k, 2 is q_k+1, 3 is u_k.

    `value` (J s); `D1`, `D2` (nq,); `D1D1`, `D2D1`, `D1D2`, `D2D2` (nq, nq), where D2D1 is the derivative of D1 Ld by q_k+1, so that rows
    belong to q_k; `F_minus`, `F_plus` (nd,) and their derivatives `D1F_minus`, `D2F_minus` (nd, nq), `D3F_minus` (nd, nu), and the
    same of F_plus. `M` = D2D1 Ld + D2 F- (nd, nd), of the dynamic variables, is what a step inverts (eq. 8).
    """

    value: float
    D1: Array
    D2: Array
    D1D1: Array
    D2D1: Array
    D1D2: Array
    D2D2: Array
    F_minus: Array
    D1F_minus: Array
    D2F_minus: Array
    D3F_minus: Array
    F_plus: Array
    D1F_plus: Array
    D2F_plus: Array
    D3F_plus: Array

    @property
    def M(self) -> Array:
        """D2D1 Ld + D2 F- of the dynamic variables, (nd, nd)."""
        nd = len(self.F_minus)
        return self.D2D1[:nd, :nd] + self.D2F_minus[:, :nd]


def discrete_lagrangian(
    model: Model, q0: Named, q1: Named, u: Named | None, dt: float, alpha: float, shares: tuple[float, float]
) -> DiscreteLagrangian:
    """All of it for the generalized midpoint rule; `shares` of the force in F- and F+."""
    if not model.configuration.flat:
        raise ValueError(
            "discrete_lagrangian is for hinges and sliders, whose coordinates are numbers; on manifolds there are no slot derivatives"
        )
    x, y = (vector(q, model.variables, name) for q, name in ((q0, "q0"), (q1, "q1")))
    mid, v = (1 - alpha) * x + alpha * y, (y - x) / dt
    lq, lv = lagrangian_first(model, mid, v)
    qq, qv, vv = lagrangian_second(model, mid, v)
    # by slot: q = (1 - alpha) q0 + alpha q1, v = (q1 - q0)/dt
    a, b = (1 - alpha, alpha), (-1 / dt, 1 / dt)
    first = [dt * (a[i] * lq + b[i] * lv) for i in range(2)]
    second = [
        [dt * (a[i] * a[j] * qq + a[i] * b[j] * qv + b[i] * a[j] * qv.T + b[i] * b[j] * vv) for j in range(2)]
        for i in range(2)
    ]
    f = force(model, mid, v, u)
    fq, fv, fu = force_first(model, mid, v, u)
    by = [dt * (a[j] * fq + b[j] * fv) for j in range(2)]
    minus, plus = ([share * part for part in (dt * f, *by, dt * fu)] for share in shares)
    (d11, d21), (d12, d22) = second
    value = dt * lagrangian(model, mid, v)
    return DiscreteLagrangian(value, first[0], first[1], d11, d21, d12, d22, *minus, *plus)


__all__ = ["DiscreteLagrangian", "discrete_lagrangian"]
