"""Timings of derivatives by parameters and of the bridges, each against what others offer in the same run: ratios, best of interleaved runs.

python -m benchmarks.parameters gauss_newton   # one iteration of identification against finite differences with mujoco.rollout
python -m benchmarks.parameters adjoint        # the gradient by 100 parameters against the rollout
python -m benchmarks.parameters cart_poles     # vector environments against gymnasium's own
python -m benchmarks.parameters mjx            # gradient of a rollout against MJX on the CPU
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dalembert as da
from benchmarks import arms
from dalembert.mechanics.evaluate import core, parameter_links


def best(*calls: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Best processor time (s) of each, run in turns: other work on the machine counts less than in wall time."""
    times = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            times[i] = min(times[i], time.process_time() - start)
    return times


def gauss_newton(steps: int = 10_000, segment: int = 500, dt: float = 0.001) -> dict[str, float]:
    """One linearization of 10 s of a Panda arm (7 joints; the inertias of 7 links, the hand and a finger) against 91 rollouts of MuJoCo, one
    thread each."""
    import mujoco
    from mujoco import rollout

    from dalembert.identification.fit import Problem
    from dalembert.identification.record import Seen
    from dalembert.model.frames import flatten, unflatten

    model, joints = arms.arm("panda")
    bodies = [*arms.links(model, joints), "panda_hand", "panda_leftfinger"]
    named = da.name_parameters(model, *(f"{body}.inertial" for body in bodies))
    names = tuple(named.parameters)
    vi = da.MidpointVI(named, dt=dt)
    motion = arms.motions(vi, joints, 1, steps)[0]
    problem = Problem(
        vi, [da.Record.of(motion, joints)], names, Seen(named, joints), np.full(len(joints), 1e-3), segment
    )
    problem.settle(named)
    bare = da.Model(unflatten([(*row[:8], ()) for row in flatten(model.frames)]), model.elements, "arm")
    other = mujoco.MjModel.from_xml_string(da.dumps(bare, "mjcf"))
    other.opt.timestep = dt
    data = mujoco.MjData(other)
    data.qpos[:] = motion.q[0]
    mujoco.mj_forward(other, data)
    state = np.zeros((1, mujoco.mj_stateSize(other, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    mujoco.mj_getState(other, data, state[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    control = np.ascontiguousarray(motion.u[None, :, : other.nu])
    ours, one = best(lambda: problem.linearize(named), lambda: rollout.rollout(other, data, state, control), repeats=4)
    theirs = one * (len(names) + 1)
    return {
        "parameters": len(names),
        "s": ours,
        "mujoco s": theirs,
        "mujoco us/step": one / steps * 1e6,
        "ratio": theirs / ours,
    }


def adjoint(steps: int = 2000, dt: float = 0.002) -> dict[str, float]:
    """The gradient of a function of a motion of ten links by their 100 inertial numbers, in rollouts."""
    model = da.models.n_link(10)
    bodies = [e.frame.name for e in model.frame_entries[1:] if e.frame is not None and e.frame.mass]
    named = da.name_parameters(model, *(f"{name}.inertial" for name in bodies))
    names, vi, rng = tuple(named.parameters), da.MidpointVI(named, dt=dt), np.random.default_rng(0)
    motion = vi.simulate(vi.state(q=0.3 * rng.normal(size=named.nq)), steps=steps, accuracy="ignore")
    over = vi.over(motion.t)
    X, U = over.curve(motion)
    Z, links, c, nq, nd = (
        rng.normal(size=(steps + 1, vi.ndx)),
        parameter_links(named, names),
        core(named),
        named.nq,
        named.nd,
    )
    q, p, u = X[0, :nq].copy(), X[0, nq : nq + nd].copy(), np.ascontiguousarray(U[:, : named.nu])
    roll, back = best(
        lambda: c.simulate(vi.options, q, p, over.dt, u, np.zeros((steps, 0)), 1),
        lambda: c.rollout_adjoint(vi.options, links, X, U, over.dt, None, Z, None),
    )
    return {
        "parameters": len(names),
        "step us": roll / steps * 1e6,
        "adjoint us/step": back / steps * 1e6,
        "ratio": back / roll,
    }


MEASURES = {f.__name__: f for f in (gauss_newton, adjoint)}


def main(names: list[str]) -> None:
    """Print the named measures, all of them without names."""
    warnings.simplefilter("ignore")
    for name in names or list(MEASURES):
        print(name, {key: float(f"{x:.4g}") for key, x in MEASURES[name]().items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
