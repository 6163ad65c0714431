"""Points with a property: configurations on the constraints, velocities along them, static equilibria."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..arrays import Array, Named, positive, vector
from ..errors import ConvergenceError
from ..model import Model
from .evaluate import (
    checked,
    constraint_hessian,
    constraint_jacobian,
    constraints,
    core,
    finite_results,
    mass_matrix,
    velocity_offset,
)


def held_components(model: Model, fixed: Iterable[str]) -> set[int]:
    """Velocity components that stay zero: those of the coordinates and balls in `fixed`."""
    balls = {place.name: place.v for place in model.configuration.places}
    out: set[int] = set()
    for name in fixed:
        out |= set(range(model.nv)[balls[name]]) if name in balls else {model.velocity_index(name)}
    return out


def shifted(model: Model, q: Array, free: list[int], step: Array) -> Array:
    """q (nq,) after a `step` of the velocity components `free`."""
    dv = np.zeros(model.nv)
    dv[free] = step
    return model.configuration.integrate(q, dv)


def satisfy_constraints(
    model: Model,
    q: Named,
    *,
    fixed: Iterable[str] = (),
    keep_kinematic: bool = True,
    tolerance: float = 1e-12,
    max_iterations: int = 200,
) -> Array:
    """A configuration with h(q) = 0 near q, keeping the variables in `fixed` (and the kinematic ones) as they are.

    `keep_kinematic=False` lets the kinematic variables move too. `tolerance` bounds |h| relative to 1 + |Dh|;
    ConvergenceError when `max_iterations` steps do not reach it, neither from q nor from a few points around it (from a
    straight chain, say, no first step leads to a shorter one).

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    >>> da.satisfy_constraints(m, [3.0, 4.0]).round(9)
    array([0.6, 0.8])
    """
    start = checked(model).configuration.point(q).copy()
    tolerance = positive(tolerance, "tolerance")
    held = held_components(model, fixed) | (set(range(model.nd, model.nv)) if keep_kinematic else set())
    free = [i for i in range(model.nv) if i not in held]
    if not model.nh:
        return start
    scale = 1.0 + float(np.abs(constraint_jacobian(model, start)[: model.nh]).max())
    rng = np.random.default_rng(0)
    x, best = _closed(model, start, free, tolerance * scale, max_iterations)
    for size in _AROUND:
        if best <= 1e3 * tolerance * scale:
            return x
        beside = shifted(model, start, free, size * rng.normal(size=len(free)))
        y, e = _closed(model, beside, free, tolerance * scale, max_iterations)
        if e < best:
            x, best = y, e
    if best <= 1e3 * tolerance * scale:
        return x
    worst = model.constraints[int(np.argmax(np.abs(constraints(model, x))))]
    raise ConvergenceError(
        f"no configuration was found that satisfies the constraints: {worst} is still off by {best:.3g}",
        residual=best,
        state=x,
        hint="start nearer, or hold fewer variables fixed",
    )


_AROUND = (1e-3, 1e-2, 0.1, 0.3, 1.0)  # rad or m: how far from the start further ones are


def _closed(model: Model, x: Array, free: list[int], enough: float, max_iterations: int) -> tuple[Array, float]:
    """Where Newton steps in the `free` components, halved until they help, lead from x, and the largest |h| there. No step turns a joint by more
    than a radian: beside singular configurations it would be thousands."""
    turning = set(model.configuration.hinges)
    turning |= {name for place in model.configuration.places for name in model.velocities[place.v]}
    turns = np.array([model.velocities[i] in turning for i in free], dtype=bool)

    def error(y: Array) -> float:
        return float(np.abs(constraints(model, y)).max())

    best = error(x)
    for _ in range(max_iterations):
        if best <= enough or not np.isfinite(best):
            break
        h, c = constraints(model, x), constraint_jacobian(model, x)[: model.nh, free]
        step: Any = -np.linalg.lstsq(c, h, rcond=1e-12)[0]
        t = 1.0 / float(np.abs(step[turns]).max(initial=1.0))
        while t > 1e-10:
            y = shifted(model, x, free, t * step)
            e = error(y)
            if e < best * (1 - 1e-4 * t):
                x, best = y, e
                break
            t *= 0.5
        else:
            break
    return x, best


def consistent_velocity(
    model: Model,
    q: Named,
    v: Named,
    *,
    fixed: Iterable[str] = (),
) -> Array:
    """The velocity nearest to v (in the kinetic-energy metric) with Dh v = 0 and a v + b = 0, keeping kinematic and `fixed` variables.

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    >>> da.consistent_velocity(m, [1.0, 0.0], [1.0, 1.0])
    array([0., 1.])
    """
    x, w = checked(model).configuration.point(q), model.configuration.tangent(v).copy()
    if not model.nc:
        return w
    held = held_components(model, fixed) | set(range(model.nd, model.nv))
    free = [i for i in range(model.nv) if i not in held]
    c, b = constraint_jacobian(model, x), velocity_offset(model, x)
    m = mass_matrix(model, x)[np.ix_(free, free)]
    a = np.linalg.solve(m, c[:, free].T)
    w[free] -= a @ np.linalg.lstsq(c[:, free] @ a, c @ w + b, rcond=1e-12)[0]
    left = float(np.abs(c @ w + b).max())
    if not left <= 1e-8 * (1 + float(np.abs(w).max())):  # NaN, too
        raise ConvergenceError(
            f"no velocity satisfies the constraints (rate {left:.3g} remains)", residual=left, state=w
        )
    return w


def equilibrium(
    model: Model,
    q: Named,
    *,
    fixed: Iterable[str] = (),
    u: Named | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 500,
) -> Array:
    """A static equilibrium near q: least potential energy under the constraints (inputs u act as constant loads).

    Newton steps on the Lagrangian, regularized until they go downhill in the merit V + penalty |h|. The variables in
    `fixed` and the kinematic ones stay as they are. `tolerance` bounds the residual forces (relative) and h;
    ConvergenceError after `max_iterations`.

    >>> import dalembert as da
    >>> m = da.Model([da.rz("a", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0))])
    >>> bool(abs(da.equilibrium(m, [1.0])[0]) < 1e-9)
    True
    """
    x = checked(model).configuration.point(q).copy()
    held = held_components(model, fixed) | set(range(model.nd, model.nv))
    free = [i for i in range(model.nv) if i not in held]
    load, nc = vector(u, model.inputs, "u"), model.nh
    tolerance = positive(tolerance, "tolerance")
    c = core(model)
    zero = np.zeros(model.nv)
    if nc:
        x = satisfy_constraints(model, x, fixed=fixed)

    def gradient(y: Array) -> tuple[float, Array]:
        value, g, _ = c.potential(y, False)
        return value, g[free] - np.pad(c.force(y, zero, load), (0, model.nkv))[free]

    def merit(y: Array, penalty: float) -> float:
        value = c.potential(y, False)[0] - (
            c.force(y, zero, load) @ model.difference(x, y)[: model.nd] if model.nu else 0.0
        )
        return float(value + penalty * (np.abs(constraints(model, y)).sum() if nc else 0.0))

    if not free:
        return x
    lam: Any = np.zeros(nc)
    regular, size = 0.0, float("inf")
    for _ in range(max_iterations):
        _, g = gradient(x)
        hessian = c.potential(x, True)[2]
        finite_results(model, x, "V_q", g, hessian)
        if model.nu:
            hessian[: model.nd] -= c.force_first(x, zero, load)[0]
        h, j = (
            (constraints(model, x), constraint_jacobian(model, x)[:nc, free])
            if nc
            else (zero[:0], np.zeros((0, len(free))))
        )
        if nc:
            lam = np.linalg.lstsq(j.T, g, rcond=None)[0]
            hessian = hessian - constraint_hessian(model, x, np.pad(lam, (0, model.nc - nc)))
        residual = g - j.T @ lam
        scale = 1.0 + float(np.abs(g).max())
        size = max(float(np.abs(residual).max()) / scale, float(np.abs(h).max()) if nc else 0.0)
        if size < tolerance:
            return x
        h_ff = hessian[np.ix_(free, free)]
        penalty = 2 * float(np.abs(lam).max()) + 1.0 if nc else 0.0
        now = merit(x, penalty)
        top = max(1.0, float(np.abs(h_ff).max()))
        moved = False
        for _attempt in range(60):
            k = np.block([[h_ff + regular * np.eye(len(free)), -j.T], [j, np.zeros((nc, nc))]])
            step = np.linalg.lstsq(k, -np.concatenate([residual, h]), rcond=1e-14)[0][: len(free)]
            biggest = float(np.abs(step).max())
            if biggest > 1.0:
                step /= biggest
            y = shifted(model, x, free, step)
            if merit(y, penalty) < now - 1e-12 * abs(now) or (biggest < 1e-6 and regular == 0.0):
                x, moved = y, True
                regular = 0.0 if regular < 1e-6 * top else regular / 10
                break
            regular = 1e-4 * top if regular == 0.0 else 4 * regular
        if not moved:
            if size < 1e-7:
                return x
            break
    raise ConvergenceError(
        "no static equilibrium found",
        residual=size,
        state=x,
        hint="start nearer, add damping by hand, or fix variables",
    )
