"""Every derivative of L, V, F, h against CasADi differentiation of the plain definition, on 200 random mechanisms.

Second and third derivatives are compared along random directions (matrix times vector): an error in any entry shows.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.symbolic import Symbolic
from tests.random_models import random_model, random_point

TOLERANCE = 1e-9


def close(name: str, ours: object, plain: object) -> None:
    a, b = np.asarray(ours, dtype=float).ravel(), np.asarray(plain, dtype=float).ravel()
    scale = max(1e-3, float(np.abs(b).max(initial=0.0)))
    error = float(np.abs(a - b).max(initial=0.0)) / scale
    assert error < TOLERANCE, f"{name}: relative error {error:.2e}"


def check(seed: int, size: int | None = None) -> None:
    check_model(random_model(seed, size), seed)


def check_model(model: da.Model, seed: int) -> None:
    """All derivatives at a random point."""
    q, v, u = random_point(model, seed)
    rng = np.random.default_rng(seed + 1)
    dq, dv, eq, ev, mu, weight = (rng.normal(size=n) for n in (model.nq,) * 4 + (model.nd, model.nc))
    s = Symbolic(model)
    nd = model.nd
    x = ca.vertcat(s.q, s.v)
    energy, force, h = s.lagrangian(), s.force()[:nd], s.h()
    d, e, du = ca.DM(np.r_[dq, dv]), ca.DM(np.r_[eq, ev]), rng.normal(size=model.nu)

    gradient = ca.gradient(energy, x)
    along = ca.jtimes(gradient, x, d)
    out = [energy, gradient, along, ca.jtimes(along, x, e)]
    nh = model.nh
    hw = ca.dot(h, ca.DM(weight[:nh])) if nh else ca.SX(0)
    gh = ca.gradient(hw, s.q)
    hd = ca.jtimes(gh, s.q, ca.DM(dq))
    out += [h if nh else ca.SX(0, 1), gh, hd, ca.jtimes(hd, s.q, ca.DM(eq))]
    w = ca.vertcat(s.q, s.v, s.u)
    direction = ca.DM(np.r_[dq, dv, du])
    gf = ca.gradient(ca.dot(force, ca.DM(mu)), w)
    out += [force, gf, ca.jtimes(gf, w, direction)]
    rates = ca.dot(s.velocity_constraints(), ca.DM(weight[nh:])) if model.nc > nh else ca.SX(0)
    a = ca.gradient(rates, s.v)
    out += [rates, a, ca.jtimes(a, s.q, ca.DM(dq))]
    values = [np.array(y).ravel() for y in ca.Function("f", [s.q, s.v, s.u], [ca.densify(y) for y in out])(q, v, u)]

    close("L", da.lagrangian(model, q, v), values[0])
    close("L_q, L_v", np.concatenate(da.lagrangian_first(model, q, v)), values[1])
    qq, qv, vv = da.lagrangian_second(model, q, v)
    close("second derivatives of L", np.r_[qq @ dq + qv @ dv, qv.T @ dq + vv @ dv], values[2])
    close("symmetry", qq, qq.T)
    tqq, tqv, tvv = da.lagrangian_third(model, q, v, eq, ev)
    close("third derivatives of L", np.r_[tqq @ dq + tqv @ dv, tqv.T @ dq + tvv @ dv], values[3])
    if model.nc:
        C, b = da.constraint_jacobian(model, q), da.velocity_offset(model, q)
        on_h, on_v = weight * (np.arange(model.nc) < nh), weight * (np.arange(model.nc) >= nh)
        close("h", da.constraints(model, q), values[4])
        close("Dh", on_h @ C, values[5])
        close("D2h", da.constraint_hessian(model, q, on_h) @ dq, values[6])
        close("D3h", da.constraint_third(model, q, eq, on_h) @ dq, values[7])
        close("a v + b", on_v @ (C @ v + b), values[11])
        close("a", on_v @ C, values[12])
        close("Da", da.constraint_hessian(model, q, on_v) @ dq, values[13])
    close("F", da.force(model, q, v, u), values[8])
    fq, fv, fu = da.force_first(model, q, v, u)
    close("first derivatives of F", np.r_[mu @ fq, mu @ fv, mu @ fu], values[9])
    qq, qv, vv, qu, vu, uu = da.force_second(model, q, v, u, mu)
    product = np.r_[qq @ dq + qv @ dv + qu @ du, qv.T @ dq + vv @ dv + vu @ du, qu.T @ dq + vu.T @ dv + uu @ du]
    close("second derivatives of F", product, values[10])


@pytest.mark.parametrize("block", range(20))
def test_two_hundred_random_mechanisms(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check(seed)


@pytest.mark.parametrize("kernels", ["x86_64_v2", "x86_64_v3", "x86_64_v4"])
def test_every_instruction_set_that_runs_here(kernels: str) -> None:
    from dalembert import _core

    if not _core.set_kernels(kernels):
        pytest.skip(f"{kernels} is not built or not supported by this machine")
    try:
        check(1234, size=9)
    finally:
        _core.set_kernels("auto")


def test_far_from_the_origin() -> None:
    """A machine 10 km away loses no digits: same derivatives as at home."""
    arm = da.rz("a", da.ty(-1.0, da.rx("b", da.tz(-0.7, mass=0.8, inertia=(0.1, 0.2, 0.3)), mass=1.0)))
    gravity = da.Gravity((0, 0, -9.8))
    home = da.Model([da.tx("x", da.ty("y", arm))], [gravity])
    rng = np.random.default_rng(0)
    q, v, dq, dv = (rng.uniform(-1, 1, 4) for _ in range(4))
    far = q + np.array([1e4, 1e4, 0, 0])
    for near, away in zip(da.lagrangian_second(home, q, v), da.lagrangian_second(home, far, v), strict=True):
        np.testing.assert_allclose(away, near, rtol=1e-11, atol=1e-11)
    for near, away in zip(
        da.lagrangian_third(home, q, v, dq, dv), da.lagrangian_third(home, far, v, dq, dv), strict=True
    ):
        np.testing.assert_allclose(away, near, rtol=1e-11, atol=1e-11)
