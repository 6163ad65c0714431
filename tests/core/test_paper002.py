"""The core against the recursions of Johnson, Murphey: Scalable variational integrators (see paper002.py)."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from tests.core import paper002
from tests.random_models import random_model, random_point

# what the paper has
PAPER = (
    *(da.Gravity, da.PointGravity, da.LinearSpring, da.ConfigSpring, da.ConfigForce, da.Damping, da.Wrench),
    *(da.Distance, da.PointToPoint, da.PointOnPlane, da.LinearRelation),
)


def model_of_the_paper(seed: int, size: int) -> da.Model:
    model = random_model(seed, size)
    kept = [e for e in model.elements if isinstance(e, PAPER) and not (isinstance(e, da.Wrench) and e.axes != "body")]
    return da.Model(model.frames, kept, model.name)


def close(ours: object, paper: object, tolerance: float = 1e-11) -> None:
    a, b = np.asarray(ours), np.asarray(paper)
    assert a.shape == b.shape
    scale = max(1.0, float(np.abs(b).max(initial=0.0)))
    assert float(np.abs(a - b).max(initial=0.0)) <= tolerance * scale


def reachable_model(seed: int, size: int) -> tuple[da.Model, np.ndarray, np.ndarray, np.ndarray]:
    """The first random model from this seed on whose constraints can be satisfied, at a point that does."""
    for s in range(1000 * (seed + 1), 1000 * (seed + 2)):
        model = model_of_the_paper(s, size)
        q, v, u = random_point(model, s)
        try:
            q = da.satisfy_constraints(model, q)
        except da.ConvergenceError:
            continue
        if not model.nc or np.linalg.svd(da.constraint_jacobian(model, q)[:, : model.nd])[1][-1] > 0.05:
            return model, q, v, u
    raise AssertionError("no model found")


CASES = [(seed, size) for seed, size in enumerate([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25])]


@pytest.mark.parametrize(("seed", "size"), CASES)
def test_kinematics_lagrangian_constraints_forces(seed: int, size: int) -> None:
    model = model_of_the_paper(seed, size)
    q, v, u = random_point(model, seed)
    tree = paper002.Tree(model, q, v)
    close(da.poses(model, q), [tree.g(k) for k in range(len(model.frame_entries))])
    value, lq, lv, lqq, lqv, lvv = tree.lagrangian()
    close(da.lagrangian(model, q, v), value)
    for ours, paper in zip(da.lagrangian_first(model, q, v), (lq, lv), strict=True):
        close(ours, paper)
    for ours, paper in zip(da.lagrangian_second(model, q, v), (lqq, lqv, lvv), strict=True):
        close(ours, paper)
    close(da.mass_matrix(model, q), lvv)
    h, dh = tree.constraints()
    close(da.constraints(model, q), h)
    close(da.constraint_jacobian(model, q), dh)
    f, fq, fv = tree.force(u)
    close(da.force(model, q, v, u), f[: model.nd])
    ours_q, ours_v, _ = da.force_first(model, q, v, u)
    close(ours_q, fq[: model.nd])
    close(ours_v, fv[: model.nd])


@pytest.mark.parametrize(("seed", "size"), CASES[:10])
@pytest.mark.parametrize("alpha", [0.5, 0.3])
def test_one_step(seed: int, size: int, alpha: float) -> None:
    """Same root, same multipliers, same momentum; the core's derivatives solve the paper's linearized equations."""
    model, q, v, u = reachable_model(seed, size)
    dt = 0.01
    vi = da.MidpointVI(model, dt, alpha=alpha)
    start = vi.state(q, v=da.consistent_velocity(model, q, dict(zip(model.dynamic, v, strict=False))))
    rho = q[model.nd :] + 1e-3 * np.cos(np.arange(model.nk))  # prescribed variables move
    after = vi.step(start, u, rho)
    residual, jacobian = paper002.residual(model, dt, alpha, start.p, q, after.q, after.lam, u)
    scale = 1 + np.abs(start.p).max()
    assert np.abs(residual).max() < 1e-10 * scale
    paper_q, paper_lam = paper002.newton(model, dt, alpha, start.p, q, np.concatenate([q[: model.nd], rho]), u)
    close(after.q, paper_q, 1e-10)
    close(after.lam, paper_lam, 1e-8)
    close(after.p, paper002.step_equations(model, dt, alpha, q, after.q, u)[1][: model.nd], 1e-10)

    # Df (dq', dlambda)/dp = -(1, 0)
    system = da.System(vi, steps=1)
    x = np.concatenate([start.q, start.p, np.zeros(model.nk)])
    d = system.derivatives(x, np.concatenate([u, rho]))
    by_p = slice(model.nq, model.nq + model.nd)
    product = jacobian @ np.vstack([d["q"][:, by_p], d["lam"][:, by_p]])
    close(product, -np.eye(model.nd + model.nc)[:, : model.nd], 1e-9)


def test_the_recursions_are_derivatives() -> None:
    """The oracle itself: eqs 3, 4, 6, 7, 8, 10 against central differences of eqs 2 and 5."""
    model = model_of_the_paper(7, 8)
    q, v, _ = random_point(model, 7)
    tree, step = paper002.Tree(model, q, v), 1e-6
    for i in range(model.nq):
        e = np.eye(model.nq)[i] * step
        up, down = paper002.Tree(model, q + e, v), paper002.Tree(model, q - e, v)
        fast, slow = paper002.Tree(model, q, v + e), paper002.Tree(model, q, v - e)
        for k in range(len(model.frame_entries)):
            close(tree.g_q(k, i), (up.g(k) - down.g(k)) / (2 * step), 1e-8)
            close(tree.v_q(k, i), (up.v(k) - down.v(k)) / (2 * step), 1e-8)
            close(tree.v_v(k, i), (fast.v(k) - slow.v(k)) / (2 * step), 1e-8)
            for j in range(model.nq):
                close(tree.g_qq(k, i, j), (up.g_q(k, j) - down.g_q(k, j)) / (2 * step), 1e-8)
                close(tree.v_qq(k, i, j), (up.v_q(k, j) - down.v_q(k, j)) / (2 * step), 1e-8)
                close(tree.v_qv(k, i, j), (up.v_v(k, j) - down.v_v(k, j)) / (2 * step), 1e-8)
