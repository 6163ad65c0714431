"""Whether a plan is a motion: its inputs on a finer mesh, from its start and from each of its nodes."""

from __future__ import annotations

import numpy as np

from ...errors import ConvergenceError
from ..replay import share
from .kernels import kernels, over
from .motion import Motion, velocities
from .simulate import simulate
from .stepping import LADDER, Stepper, Stopped


def replay(motion: Motion, substeps: int = 8) -> Motion:
    """The motion from the same start under the same inputs, with so many steps for each of the motion's own."""
    dt = float(motion.t[1] - motion.t[0]) / substeps
    rates = np.linalg.lstsq(_slope(motion), motion.velocity()[0], rcond=None)[0]
    inputs = np.repeat(motion.tau, substeps, axis=0)
    return simulate(motion.system, dt=dt, steps=len(inputs), u=motion.u[0], velocity=rates, tau=inputs)


def _slope(motion: Motion) -> np.ndarray:
    return kernels(motion.system).place_jacobian(motion.u[0]).full()


def measure(motion: Motion, substeps: int = 8) -> tuple[float, float]:
    """Replay error and defect of a motion with equal steps; infinite where a finer step has no solution."""
    system = motion.system
    mass = system.mass_matrix

    def size(x: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(((x @ mass) * x).sum(axis=-1), 0.0))

    unit = float(size(motion.q).max())
    try:
        again = replay(motion, substeps).q[::substeps]
        error = share(float(size(again - motion.q).max()), float(size(motion.q - motion.q[0]).max()), unit)
    except ConvergenceError:
        error = np.inf
    v = motion.velocity()
    try:
        ends = _restarts(motion, v, substeps)
    except Stopped:
        return error, np.inf
    time = float(motion.t[-1] - motion.t[0])
    return error, share(float(size(ends - v[1:]).sum()), float(size(v).max()), unit / time)


def _restarts(motion: Motion, v: np.ndarray, substeps: int) -> np.ndarray:
    """Velocities (N, n) after each step, redone with substeps from its own node."""
    system = motion.system
    stepper = Stepper(system, float(motion.t[1] - motion.t[0]) / substeps)
    stepper.begin(motion.q[0], motion.u[0], v[0])
    steps = motion.steps
    starts = np.array([stepper.pack(*row) for row in zip(motion.q[:-1], motion.u[:-1], v[:-1], strict=True)]).T
    weights = np.full((steps, substeps), stepper.dt)
    weights[:, 0] *= 0.5
    inputs = np.repeat(motion.tau, substeps, axis=0)
    found, off = stepper.many(starts, inputs, weights.ravel(), LADDER[-1])
    good = stepper.solved(found, off, LADDER[-1]).reshape(steps, substeps).all(axis=1)
    ends = found[:, substeps - 1 :: substeps].copy()
    for n in np.flatnonzero(~good):
        stepper.begin(motion.q[n], motion.u[n], v[n])
        stepper.run(inputs[n * substeps : (n + 1) * substeps])
        ends[:, n] = stepper.state
    z, p = (x.T for x in stepper.unpack(ends)[:2])
    q = over(kernels(system).place, z)[0][:, :, 0] if stepper.own else z
    return velocities(system, q, motion.u[1:], p)
