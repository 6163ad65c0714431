"""Forward simulation with the reduced scheme (13), or with the multiplier scheme (10) to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ConvergenceError, SingularityError
from .kernels import dense, flat, kernels
from .motion import Motion, configuration, coordinates
from .system import MultibodySystem


def simulate(
    system: MultibodySystem,
    *,
    dt: float,
    steps: int,
    u: object = None,
    velocity: object = None,
    tau: object = None,
    form: str = "reduced",
    tolerance: float = 1e-11,
    max_iterations: int = 30,
) -> Motion:
    """Simulate from joint coordinates `u` (nd,) and their rates `velocity` (nd,), arrays or dicts by name.

    `tau` is an array (N, nu), a function of time, or None; it is constant over a step (12). `form`: "reduced" solves
    (13) for the nd increments of a step, "multiplier" solves (10) for n + m unknowns. `tolerance` bounds the residual,
    an impulse, relative to the largest impulse at hand. Raises `ConvergenceError` with the motion so far.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1 / 12, 1 / 12), position=(0.5, 0, 0))
    >>> pendulum = MultibodySystem([rod], [Joint("R", "ground", "rod")], gravity=(0, -9.81, 0))
    >>> motion = simulate(pendulum, dt=0.01, steps=100)
    >>> bool(motion.constraint_violation().max() < 1e-12), motion.u.shape
    (True, (101, 1))
    """
    if form not in ("reduced", "multiplier"):
        raise ValueError(f"form must be 'reduced' or 'multiplier', not {form!r}")
    if not (np.isfinite(dt) and dt > 0) or steps < 0:
        raise ValueError(f"dt must be positive and steps not negative, got {dt} and {steps}")
    k = kernels(system)
    u0 = system.vector(u)
    inputs = _inputs(system, tau, steps, dt)
    q = np.empty((steps + 1, system.n))
    p = np.empty((steps + 1, system.nd))
    lam = np.zeros((steps, system.m)) if form == "multiplier" else None
    iterations = np.zeros(steps, dtype=int)
    q[0] = configuration(system, u0)
    v0 = dense(k.place_jacobian(u0)) @ system.vector(velocity)
    p[0] = flat(k.momentum(q[0], v0))
    full = system.mass_matrix @ v0
    guess = np.linalg.solve(dense(k.reduced_mass(q[0])), p[0]) * dt

    def motion(count: int) -> Motion:
        t = dt * np.arange(count + 1)
        kept = q[: count + 1].copy()
        part = None if lam is None else lam[:count].copy()
        return Motion(
            system,
            t,
            kept,
            coordinates(system, kept, near=u0),
            inputs[:count].copy(),
            p[: count + 1].copy(),
            part,
            iterations[:count].copy(),
        )

    for i in range(steps):
        try:
            if lam is None:
                guess, iterations[i] = _newton(k.newton, guess, (q[i], p[i], inputs[i], dt), tolerance, max_iterations)
                q[i + 1] = flat(k.advance(guess, q[i]))
                p[i + 1] = flat(k.reduced(q[i], q[i + 1], inputs[i], dt)[1])
            else:
                first = np.concatenate([2 * q[i] - q[i - 1] if i else q[0] + dt * v0, lam[i - 1] if i else lam[0]])
                solved, iterations[i] = _newton(
                    k.newton_multiplier, first, (q[i], full, inputs[i], dt), tolerance, max_iterations
                )
                q[i + 1], lam[i] = solved[: system.n], solved[system.n :]
                full = flat(k.legendre(q[i], q[i + 1], inputs[i], dt)[1])
                p[i + 1] = dense(k.nullspace(q[i + 1])).T @ full
        except _Stopped as stop:
            kind = SingularityError if stop.singular else ConvergenceError
            raise kind(
                f"step {i} at t = {i * dt:g}: {stop.reason}",
                time=i * dt,
                step=i,
                residual=stop.residual,
                state=(q[i].copy(), p[i].copy()),
                trajectory=motion(i),
                hint="use a smaller dt",
            ) from None
    return motion(steps)


def _inputs(system: MultibodySystem, tau: Any, steps: int, dt: float) -> np.ndarray:
    if tau is None:
        return np.zeros((steps, system.nu))
    if isinstance(tau, Callable):  # type: ignore[arg-type]
        rows = np.array([np.asarray(tau((i + 0.5) * dt), dtype=float).reshape(system.nu) for i in range(steps)])
        rows = rows.reshape(steps, system.nu)
    else:
        rows = np.array(tau, dtype=float)
        if rows.shape == (system.nu,):
            rows = np.tile(rows, (steps, 1))
    if rows.shape != (steps, system.nu):
        raise ValueError(f"tau must have shape ({steps}, {system.nu}), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("NaN or infinity in tau")
    return rows


def _solve(matrix: Any, right: np.ndarray) -> np.ndarray:
    """Linear solve; sparse from 60 rows on, where the multiplier scheme's zeros pay."""
    if len(right) < 60:
        return np.linalg.solve(dense(matrix), right)
    from scipy.sparse.linalg import splu

    return splu(matrix.sparse().tocsc()).solve(right)


class _Stopped(Exception):
    def __init__(self, reason: str, residual: float, singular: bool = False) -> None:
        self.reason, self.residual, self.singular = reason, residual, singular
        super().__init__(reason)


def _newton(
    function: Any, start: np.ndarray, facts: tuple[Any, ...], tolerance: float, limit: int
) -> tuple[np.ndarray, int]:
    """Newton's method; converged when the residual is small or cannot fall any more because of rounding."""
    x = start.copy()
    best = np.inf
    scale = max(1.0, float(np.abs(facts[1]).max(initial=0.0)))
    for count in range(limit + 1):
        residual, jacobian = function(x, *facts)
        r = flat(residual)
        size = float(np.abs(r).max()) if np.isfinite(r).all() else np.inf
        if size <= tolerance * scale:
            # One more step on a good Jacobian costs little and takes the residual to rounding.
            return x - _solve(jacobian, r), count + 1
        if not np.isfinite(size):
            raise _Stopped("the residual is not finite", size)
        if count > 10 and size >= best:
            raise _Stopped(f"Newton's method stopped converging at residual {size:.2e}", size)
        best = min(best, size)
        try:
            x = x - _solve(jacobian, r)
        except (np.linalg.LinAlgError, RuntimeError):
            raise _Stopped("the Newton matrix is singular", size, singular=True) from None
    raise _Stopped(f"no convergence after {limit} iterations, residual {size:.2e}", size)
