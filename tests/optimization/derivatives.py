"""Dg and D2g of the projected cost g(xi) = h(P(xi)) against five-point differences, for any optimization problem."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.optimization import Direction, IndefiniteModel
from dalembert.optimization.continuous import Continuous
from dalembert.optimization.projection import _candidates


def differences(problem, p, bX, bU):
    """Dg.b and D2g.(b, b) at p along a curve, each in the middle of three step lengths that agree best."""
    size = max(np.abs(bX).max(), np.abs(bU).max())
    found = []
    for e in np.array([1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5]) / size:
        try:
            g = [problem.value(*problem.project(p.X + s * e * bX, p.U + s * e * bU, p.K)) for s in (-2, -1, 0, 1, 2)]
        except da.ConvergenceError:  # too far
            continue
        slope = (8 * (g[3] - g[1]) - (g[4] - g[0])) / (12 * e)
        found.append((slope, (16 * (g[3] + g[1]) - (g[4] + g[0]) - 30 * g[2]) / (12 * e * e)))
    found = np.array(found)
    change = np.abs(np.diff(found, axis=0))
    best = np.maximum(change[:-1], change[1:]).argmin(axis=0)
    return found[best + 1, [0, 1]]


def check_direction(problem, p, method, rel=1e-5):
    """Along the first direction that a method can take (far from an optimum Newton's model may have no minimum, and
    in continuous time the Riccati equation of unit weights may be too stiff)."""
    for name, scale in (*_candidates(method), ("quasi", 1.0)):
        try:
            d = problem.direction(p, name, scale)
        except IndefiniteModel:
            continue
        break
    slope, curvature = differences(problem, p, d.dX, d.dU)
    assert d.slope < 0
    assert d.slope == pytest.approx(slope, rel=rel)
    assert problem.curvature(p, d) == pytest.approx(curvature, rel=rel, abs=rel * abs(slope))


def check_random(problem, p, seed=0, rel=1e-5):
    """Along a random curve that is not a tangent motion: the derivatives of the projection itself."""
    rng = np.random.default_rng(seed)
    bX, bU = rng.normal(size=p.X.shape), rng.normal(size=p.U.shape)
    if problem.system.model.nc:  # the initial state must keep satisfying the constraints
        bX[0] = 0.0
    n, wide = p.X.shape[1], isinstance(problem, Continuous)
    b, v = (np.hstack([bX, bU]), bU[1:]) if wide else (bX, bU)
    # DP.b is the tangent motion that follows b under the feedback (Trajectory optimization, eq. 28)
    d, w = [b[0]], []
    for k in range(len(p.B)):
        w.append(v[k] - p.K[k] @ (d[k] - b[k]))
        d.append(p.A[k] @ d[k] + p.B[k] @ w[k])
    d, w = np.array(d), np.array(w)
    slope, curvature = differences(problem, p, bX, bU)
    assert (p.lx * d).sum() + (p.lu * w).sum() == pytest.approx(slope, rel=rel)
    dX, dU = (d[:, :n], d[:, n:]) if wide else (d, w)
    direction = Direction("random", dX, dU, slope, p.K)
    assert problem.curvature(p, direction) == pytest.approx(curvature, rel=rel)
