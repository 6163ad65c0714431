"""PyBullet: Featherstone multibody with point-to-point constraints for pins; a Python loop over stepSimulation."""

from __future__ import annotations

import tempfile
from importlib.metadata import version as _installed
from pathlib import Path
from typing import Any

import numpy as np
import pybullet as pb

from .. import machines
from . import Case


def version() -> str:
    return _installed("pybullet")


def _world(m: machines.Machine, dt: float) -> tuple[int, int, list[int]]:
    """(client, body, joint of every link)."""
    pb.disconnect() if pb.isConnected() else None
    client = pb.connect(pb.DIRECT)
    file = Path(tempfile.mkdtemp(prefix="bench")) / "machine.urdf"
    file.write_text(machines.to_urdf(m))
    pb.setGravity(0, 0, -machines.GRAVITY)
    # 200 iterations were tried: at equal time, shorter steps gain more
    pb.setPhysicsEngineParameter(
        fixedTimeStep=dt, numSubSteps=0, numSolverIterations=50, solverResidualThreshold=0.0, erp=0.8, globalCFM=0.0
    )
    body = pb.loadURDF(str(file), useFixedBase=True, flags=pb.URDF_USE_INERTIA_FROM_FILE)
    names = {pb.getJointInfo(body, i)[12].decode(): i for i in range(pb.getNumJoints(body))}
    joints = [names[link.name] for link in m.links]
    for j in [-1, *joints]:
        pb.changeDynamics(body, j, linearDamping=0, angularDamping=0, jointDamping=0, maxJointVelocity=1e6)
        if j >= 0:
            pb.setJointMotorControl2(body, j, pb.VELOCITY_CONTROL, force=0)
            pb.setCollisionFilterGroupMask(body, j, 0, 0)
    for a, p, b, q in m.pins:
        # constraint points are relative to the centres of mass
        at = [tuple(np.subtract(point, m.links[i].com)) for point, i in ((p, a), (q, b))]
        c = pb.createConstraint(body, joints[a], body, joints[b], pb.JOINT_POINT2POINT, (0, 0, 0), at[0], at[1])
        pb.changeConstraint(c, maxForce=1e8)
    return client, body, joints


def rollout(machine: str, size: int, dt: float, steps: int, every: int, method: str = "semi-implicit Euler") -> Case:
    m = getattr(machines, machine)(size)

    _, body, joints = _world(m, dt)
    count = steps // every

    def run() -> Any:
        for j, q in zip(joints, m.q0, strict=True):
            pb.resetJointState(body, j, q, 0.0)
        states = np.empty((count, 2, m.n))
        step = pb.stepSimulation
        for i in range(count):
            for _ in range(every):
                step()
            found = pb.getJointStates(body, joints)
            states[i, 0], states[i, 1] = [x[0] for x in found], [x[1] for x in found]
        return states

    return Case(run, lambda s: {"q": s[:, 0], "v": s[:, 1]})


def build(machine: str, size: int) -> Case:
    m = getattr(machines, machine)(size)
    return Case(lambda: _world(m, 0.01))
