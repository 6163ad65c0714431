"""Continuous simulation for comparison: the Euler-Lagrange equations through scipy's solve_ivp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import finite, floats, needed, number, vector
from ..errors import ConvergenceError, ModelError
from ..mechanics import core
from ..model import Model
from .impacts import say_crossed
from .trajectory import Trajectory

Array = NDArray[np.float64]


def simulate_continuous(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    t: ArrayLike,
    *,
    u: Callable[[float], ArrayLike] | ArrayLike | None = None,
    kinematic: Callable[[float], tuple[ArrayLike, ArrayLike, ArrayLike]] | None = None,
    method: str = "DOP853",
    rtol: float = 1e-10,
    atol: float = 1e-12,
) -> Trajectory:
    """Integrate the continuous equations over the times t (N+1,) with scipy's solve_ivp (RK45, DOP853, Radau, ...).

    Constraints enter through their second time derivative (index 1), so they drift: compare with `MidpointVI`. `u` is constant or a
    function of time; `kinematic(t)` returns (rho, rho', rho''). `method`, `rtol`, `atol` go to solve_ivp.

    >>> import dalembert as da, numpy as np
    >>> m = da.Model([da.rz("a", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0))])
    >>> traj = da.simulate_continuous(m, [0.1], [0.0], np.linspace(0, 1, 11))
    >>> bool(np.ptp(traj.energy()) < 1e-9)
    True
    """
    from scipy.integrate import solve_ivp

    needed(model, Model).require_no_contacts("simulate_continuous", limits=True)
    c = core(model)
    nd, nq, nk = model.nd, model.nq, model.nk
    times = floats(t, "t")
    if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        raise ValueError("t must be an increasing array of at least two times")
    if model.configuration.places:
        name = model.configuration.places[0].name
        raise ModelError(f"ball '{name}': use MidpointVI, or spherical_euler and free_euler", culprit=name)
    x0, v0 = vector(q, model.variables, "q"), vector(v, model.variables, "v")
    if nk and kinematic is None:
        held = (x0[nd:], np.zeros(nk), np.zeros(nk))
        kinematic = lambda _: held  # noqa: E731

    def inputs(time: float) -> Array:
        return vector(u(time) if callable(u) else u, model.inputs, "u")

    def full(time: float, y: Array) -> tuple[Array, Array, Array]:
        if not nk:
            return y[:nd], y[nd:], np.zeros(0)
        assert kinematic is not None
        parts = kinematic(time)
        if not isinstance(parts, tuple) or len(parts) != 3:
            raise ValueError("kinematic(t) must return (rho, rho', rho'')")
        rho, rate, second = (vector(np.atleast_1d(a), model.kinematic, "kinematic") for a in parts)
        return np.concatenate([y[:nd], rho]), np.concatenate([y[nd:], rate]), second

    def rate(time: float, y: Array) -> Array:
        a, b, second = full(time, y)
        ddq, _, ok = c.acceleration(np.ascontiguousarray(a), np.ascontiguousarray(b), inputs(time), second)
        if not (ok and np.isfinite(ddq).all()):
            raise ConvergenceError(f"the accelerations are not defined at t = {time:g}", time=time)
        return np.concatenate([b[:nd], ddq[:nd]])

    solution: Any = solve_ivp(
        rate,
        (times[0], times[-1]),
        np.concatenate([x0[:nd], v0[:nd]]),
        method=method,
        t_eval=times,
        rtol=number(rtol, "rtol"),
        atol=number(atol, "atol") if np.ndim(atol) == 0 else finite(atol, "atol"),
    )
    if not len(solution.t):  # not a single time was reached
        raise ConvergenceError(f"solve_ivp: {solution.message}", time=float(times[0]))
    states = [full(time, y) for time, y in zip(solution.t, solution.y.T, strict=True)]
    qs = np.array([s[0] for s in states]).reshape(-1, nq)
    p = np.array([c.first(np.ascontiguousarray(a), np.ascontiguousarray(b))[1][:nd] for a, b, _ in states])
    us = np.array([inputs(time) for time in solution.t[:-1]]).reshape(len(solution.t) - 1, model.nu)
    n = len(qs) - 1
    traj = Trajectory(model, solution.t, qs, p, us, qs[1:, nd:], np.zeros((n, model.nc)), np.zeros(n, dtype=np.int64))
    if not solution.success:
        raise ConvergenceError(f"solve_ivp: {solution.message}", time=float(solution.t[-1]), trajectory=traj)
    say_crossed(model, traj.t, traj.q, "simulate_continuous")
    return traj
