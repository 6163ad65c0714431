"""DART: a Python loop over World.step (its only way; the call costs a fraction of a microsecond)."""

from __future__ import annotations

import tempfile
from importlib.metadata import version as _installed
from pathlib import Path
from typing import Any

import dartpy
import numpy as np

from .. import machines
from . import Case


def version() -> str:
    return _installed("dartpy")


def _world(m: machines.Machine, dt: float) -> tuple[Any, Any, np.ndarray]:
    if m.pins:
        raise NotImplementedError("pins are not built here")
    file = Path(tempfile.mkdtemp(prefix="bench")) / "machine.urdf"
    # the link "world" is its name for what does not move; any other root gets a free joint
    file.write_text(machines.to_urdf(m).replace('"base"', '"world"'))
    skeleton = dartpy.utils.DartLoader().parseSkeleton(str(file))
    if skeleton.getNumDofs() != m.n:
        raise RuntimeError(f"the skeleton has {skeleton.getNumDofs()} degrees of freedom, not {m.n}")
    world = dartpy.simulation.World()
    world.addSkeleton(skeleton)
    world.setGravity([0, 0, -machines.GRAVITY])
    world.setTimeStep(dt)
    order = np.array([skeleton.getDof(f"j_{link.name}").getIndexInSkeleton() for link in m.links])
    return world, skeleton, order


def rollout(machine: str, size: int, dt: float, steps: int, every: int, method: str = "semi-implicit Euler") -> Case:
    m = getattr(machines, machine)(size)
    world, skeleton, order = _world(m, dt)
    q0 = np.empty(m.n)
    q0[order] = m.q0
    count = steps // every

    def run() -> Any:
        skeleton.setPositions(q0)
        skeleton.setVelocities(np.zeros(m.n))
        states = np.empty((count, 2, m.n))
        step = world.step
        for i in range(count):
            for _ in range(every):
                step(False)
            states[i, 0], states[i, 1] = skeleton.getPositions()[order], skeleton.getVelocities()[order]
        return states

    return Case(run, lambda s: {"q": s[:, 0], "v": s[:, 1]})


def build(machine: str, size: int) -> Case:
    m = getattr(machines, machine)(size)
    return Case(lambda: _world(m, 0.01)[0])
