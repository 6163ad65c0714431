"""Forward simulation with the reduced scheme (13), or with the multiplier scheme (10) to compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import Named, finite, floats, matrix, whole
from ...errors import ConvergenceError, SingularityError
from .kernels import System, dense, flat, kernels, over
from .motion import Motion, coordinates, momenta, velocities
from .stepping import Stepper, Stopped


def simulate(
    system: System,
    *,
    dt: float,
    steps: int,
    u: Named | None = None,
    velocity: Named | None = None,
    tau: object = None,
    form: str = "reduced",
    tolerance: float = 1e-11,
    max_iterations: int = 30,
) -> Motion:
    """Simulate from joint coordinates `u` (nd,) and their rates `velocity` (nd,), arrays or dicts by name.

    `tau` is an array (N, nu), a function of time, or None; it is constant over a step (12). `form`: "reduced" solves
    (13) for the nd increments of a step, and multipliers of the closures if there are any, "multiplier" solves (10) for
    n + m unknowns. `tolerance` bounds the residual, an impulse, relative to the largest impulse at hand. The start must
    lie on the closures (see `assemble`) and rates that violate them are projected. Raises `ConvergenceError` with the
    motion so far.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1 / 12, 1 / 12), position=(0.5, 0, 0))
    >>> pendulum = MultibodySystem([rod], [Joint("R", "ground", "rod")], gravity=(0, -9.81, 0))
    >>> motion = simulate(pendulum, dt=0.01, steps=100)
    >>> bool(motion.constraint_violation().max() < 1e-12), motion.u.shape
    (True, (101, 1))
    """
    if form not in ("reduced", "multiplier"):
        raise ValueError(f"form must be 'reduced' or 'multiplier', not {form!r}")
    steps = whole(steps, "steps")
    if not (np.isfinite(dt) and dt > 0) or steps < 0:
        raise ValueError(f"dt must be positive and steps not negative, got {dt} and {steps}")
    k = kernels(system)
    u0 = system.vector(u, "u")
    q0 = finite(flat(k.place(u0)), "the configuration at the start")
    gap = np.abs(flat(k.closures(q0, u0)[0]))
    if gap.size and gap.max() > 1e-8:
        raise ValueError(f"the start violates a closure by {gap.max():.3g}; close the loops with assemble()")
    rates = dense(k.place_jacobian(u0)) @ system.vector(velocity, "velocity")
    v0 = velocities(system, q0[None], u0[None], momenta(system, q0[None], rates[None]))[0]
    inputs = _inputs(system, tau, steps, dt)
    stepper = Stepper(system, dt, form=form, tolerance=tolerance, limit=max_iterations)
    stepper.begin(q0, u0, v0)

    def motion(z: np.ndarray, p: np.ndarray, lam: np.ndarray, counts: np.ndarray) -> Motion:
        q = np.vstack([q0[None], over(k.place, z)[0][:, :, 0] if stepper.own else z])
        where = np.vstack([u0[None], z]) if stepper.own else coordinates(system, q, near=u0)
        if form == "multiplier":
            p = (over(k.nullspace, q[1:])[0].transpose(0, 2, 1) @ p[:, :, None])[:, :, 0]
        if k.mechanics.nc:
            p = momenta(system, q[1:], velocities(system, q[1:], where[1:], p))
        p = np.vstack([momenta(system, q0[None], v0[None]), p])
        t = dt * np.arange(len(q))
        return Motion(system, t, q, where, inputs[: len(z)].copy(), p, lam if lam.shape[1] else None, counts)

    try:
        return motion(*stepper.run(inputs))
    except Stopped as stop:
        before = motion(*stepper.done)
        raise (SingularityError if stop.singular else ConvergenceError)(
            f"step {before.steps} at t = {before.t[-1]:g}: {stop.reason}",
            time=float(before.t[-1]),
            step=before.steps,
            residual=stop.residual,
            state=(before.q[-1], before.p[-1]),
            trajectory=before,
            hint="use a smaller dt",
        ) from None


def _inputs(system: System, tau: Any, steps: int, dt: float) -> np.ndarray:
    """Inputs (N, nu) from an array, one row for all steps, a function of the middle of a step, or None."""
    if tau is None:
        return np.zeros((steps, system.nu))
    if callable(tau):
        rows = [
            matrix(np.ravel(tau((i + 0.5) * dt)), (system.nu,), f"tau at t = {(i + 0.5) * dt:g}") for i in range(steps)
        ]
        return np.array(rows).reshape(steps, system.nu)
    given = floats(tau, "tau")
    return matrix(np.tile(given, (steps, 1)) if given.shape == (system.nu,) else given, (steps, system.nu), "tau")
