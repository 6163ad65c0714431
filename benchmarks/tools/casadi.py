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
    """Position-momentum form, midpoint rule, torques constant over a step; straight line as first guess.

    For fatrop, which knows only explicit dynamics, the next configuration is an extra control of each step: states (q, p),
    controls (u, y), dynamics q' = y, p' = D2 Ld(q, y) + h/2 u, path equation p = -D1 Ld(q, y) - h/2 u. For IPOPT y is q'.
    """
    N = steps
    h = 1.0 / N
    ends = {0: (-np.pi / 2, 0.0), N: (np.pi / 2, 0.0)}

    def run() -> Any:
        begun = time.process_time()
        q, p, y, u = (ca.SX.sym(name, 2) for name in "qpyu")
        ld = h * _lagrangian((q + y) / 2, (y - q) / h)
        after = ca.vertcat(y, ca.gradient(ld, y) + h / 2 * u)
        path = p + ca.gradient(ld, q) + h / 2 * u
        dynamics = ca.Function("dynamics", [ca.vertcat(q, p), ca.vertcat(u, y)], [after, path])
        X = [ca.MX.sym(f"x{k}", 4) for k in range(N + 1)]
        U = [ca.MX.sym(f"u{k}", 2 if solver == "ipopt" else 4) for k in range(N)]
        line = [-np.pi / 2 + np.pi * k / N for k in range(N + 1)]
        w, w0, g = [], [], []
        for k in range(N + 1):
            w.append(X[k])
            w0 += [line[k], 0, 0, 0]
            if k < N:
                w.append(U[k])
                if solver == "ipopt":
                    w0 += [0, 0]
                    ahead, rest = dynamics(X[k], ca.vertcat(U[k], X[k + 1][:2]))
                    g += [ahead[2:] - X[k + 1][2:], rest]
                else:
                    w0 += [0, 0, line[k + 1], 0]
                    ahead, rest = dynamics(X[k], U[k])
                    g += [X[k + 1] - ahead, rest]
            if k in ends:
                g.append(X[k] - ca.DM([*ends[k], 0, 0]))
        G = ca.vertcat(*g)
        cost = h / 2 * ca.sumsqr(ca.vertcat(*[c[:2] for c in U]))
        options: dict[str, Any] = {"print_time": False}
        if solver == "ipopt":
            options |= {"ipopt.print_level": 0, "ipopt.sb": "yes"}
        else:
            options |= {
                "fatrop.print_level": 0,
                "structure_detection": "manual",
                "equality": [True] * G.numel(),
                "N": N,
            }
            options |= {"nx": [4] * (N + 1), "nu": [4] * N + [0], "ng": [6] + [2] * (N - 1) + [4]}
        nlp = ca.nlpsol("nlp", solver, {"x": ca.vertcat(*w), "f": cost, "g": G}, options)
        setup = time.process_time() - begun
        out = nlp(x0=w0, lbg=0, ubg=0)
        stats = nlp.stats()
        return float(out["f"]), int(stats["iter_count"]), setup, bool(stats["success"])

    return Case(run, lambda r: {"objective": r[0], "iterations": r[1], "setup": r[2], "success": r[3]})
