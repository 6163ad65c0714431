"""CasADi by hand: the two-link DMOC problem transcribed as its user would, step function mapped over the horizon."""

from __future__ import annotations

import time
from typing import Any

import casadi as ca
import numpy as np

from . import Case


def version() -> str:
    return str(ca.CasadiMeta.version())


def _lagrangian(q: Any, v: Any) -> Any:
    """Two uniform rods, m = l = 1, J = 1/12, g = 9.81; angles from the horizontal, the second relative to the first."""
    a, b = q[0], q[1]
    w1, w2 = v[0], v[0] + v[1]
    x2 = (-ca.sin(a) * w1 - 0.5 * ca.sin(a + b) * w2, ca.cos(a) * w1 + 0.5 * ca.cos(a + b) * w2)
    kinetic = 0.5 * (0.25 * w1**2 + x2[0] ** 2 + x2[1] ** 2) + (w1**2 + w2**2) / 24
    return kinetic - 9.81 * (1.5 * ca.sin(a) + 0.5 * ca.sin(a + b))


def two_link(steps: int, solver: str) -> Case:
    """Midpoint rule, torques constant over a step; straight line as first guess.

    For IPOPT the unknowns are q, p and u. For fatrop, which knows only explicit dynamics, the states are (q, p), the controls
    (u, v): q' = q + h v, p' = D2 Ld + h/2 u, with the path equation p = -D1 Ld - h/2 u. Of the variants tried (momenta
    eliminated; momenta of the straight line as guess; y instead of v) these need the fewest iterations, but at N = 512 they
    end in worse local minima; some of the slower ones find the best.
    """
    N = steps
    h = 1.0 / N
    start, goal = [-np.pi / 2, 0.0], [np.pi / 2, 0.0]
    line = np.linspace(start, goal, N + 1)

    def ends(q: Any, y: Any, u: Any) -> tuple[Any, Any]:
        """Momenta at the two ends of a step."""
        ld = h * _lagrangian((q + y) / 2, (y - q) / h)
        return -ca.gradient(ld, q) - h / 2 * u, ca.gradient(ld, y) + h / 2 * u

    def for_ipopt() -> tuple[Any, ...]:
        q, y, u = (ca.SX.sym(name, 2) for name in "qyu")
        momenta = ca.Function("momenta", [q, y, u], list(ends(q, y, u)))
        Q, P, U = ca.MX.sym("Q", 2, N + 1), ca.MX.sym("P", 2, N + 1), ca.MX.sym("U", 2, N)
        left, right = momenta.map(N)(Q[:, :-1], Q[:, 1:], U)
        fixed = ca.vertcat(Q[:, 0] - ca.DM(start), Q[:, N] - ca.DM(goal), P[:, 0], P[:, N])
        G = ca.veccat(left - P[:, :-1], right - P[:, 1:], fixed)
        w0 = np.concatenate([line.ravel(), np.zeros(2 * (N + 1) + 2 * N)])
        return ca.veccat(Q, P, U), h / 2 * ca.sumsqr(U), G, w0, {"ipopt.print_level": 0, "ipopt.sb": "yes"}

    def for_fatrop() -> tuple[Any, ...]:
        q, p, v, u = (ca.SX.sym(name, 2) for name in "qpvu")
        y = ca.SX.sym("y", 2)
        left, right = (ca.substitute(e, y, q + h * v) for e in ends(q, y, u))
        step = ca.Function("step", [ca.vertcat(q, p), ca.vertcat(u, v)], [ca.vertcat(q + h * v, right), p - left])
        # unknowns stage by stage: x_0, u_0, x_1, ..., x_N
        w = ca.MX.sym("w", 8 * N + 4)
        Z = ca.reshape(w[: 8 * N], 8, N)
        X = ca.horzcat(Z[:4, :], w[8 * N :])
        ahead, path = step.map(N)(X[:, :-1], Z[4:, :])
        rows = ca.vertcat(X[:, 1:] - ahead, path)
        first, last = X[:, 0] - ca.DM([*start, 0, 0]), X[:, N] - ca.DM([*goal, 0, 0])
        G = ca.vertcat(rows[:, 0], first, ca.vec(rows[:, 1:]), last)
        w0 = np.concatenate([np.concatenate([line[k], [0, 0, 0, 0, np.pi, 0]]) for k in range(N)] + [[*goal, 0, 0]])
        options = {"fatrop.print_level": 0, "structure_detection": "manual", "equality": [True] * G.numel(), "N": N}
        options |= {"nx": [4] * (N + 1), "nu": [4] * N + [0], "ng": [6] + [2] * (N - 1) + [4]}
        return w, h / 2 * ca.sumsqr(Z[4:6, :]), G, w0, options

    def run() -> Any:
        begun = time.process_time()
        w, cost, G, w0, options = for_ipopt() if solver == "ipopt" else for_fatrop()
        nlp = ca.nlpsol("nlp", solver, {"x": w, "f": cost, "g": G}, {"print_time": False, **options})
        setup = time.process_time() - begun
        out = nlp(x0=w0, lbg=0, ubg=0)
        stats = nlp.stats()
        return float(out["f"]), int(stats["iter_count"]), setup, bool(stats["success"])

    return Case(run, lambda r: {"objective": r[0], "iterations": r[1], "setup": r[2], "success": r[3]})
