"""Exudyn: rigid bodies in the plane with revolute joints (redundant coordinates), or its kinematic tree.

The whole simulation is one call into C++; states are read through its sensors.
"""

from __future__ import annotations

from typing import Any

import exudyn as exu
import numpy as np
from exudyn import itemInterface as item

from .. import machines
from . import Case


def version() -> str:
    return str(exu.GetVersionString())


def _planar(m: machines.Machine, mbs: Any) -> list[int]:
    """Bodies in absolute planar coordinates (X, Y, angle); returns the node of every link."""
    first = 1 if m.links[-1].axis == "x" else 0  # which coordinate is X of the plane; Y is z
    sign = 1.0 if first == 1 else -1.0
    ground = mbs.AddObject(item.ObjectGround())
    nodes: list[int] = []
    bodies: list[int] = []
    angles: list[float] = []
    origins: list[np.ndarray] = []

    def flat(p: Any) -> np.ndarray:
        return np.array([p[first], p[2]], dtype=float)

    def turn(a: float) -> np.ndarray:
        return np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])

    def marker(body: int, point: np.ndarray) -> int:
        return mbs.AddMarker(item.MarkerBodyPosition(bodyNumber=body, localPosition=[*point, 0.0]))

    for link, q in zip(m.links, m.q0, strict=True):
        above = (np.zeros(2), 0.0) if link.parent < 0 else (origins[link.parent], angles[link.parent])
        origin = above[0] + turn(above[1]) @ flat(link.offset)
        angle = above[1]
        com = flat(link.com)
        if link.kind == "p":
            assert link.parent < 0
            origin = origin + flat(np.multiply(machines.AXES[link.axis], q))
            node = mbs.AddNode(item.NodePoint2D(referenceCoordinates=list(origin)))
            body = mbs.AddObject(item.ObjectMassPoint2D(physicsMass=link.mass, nodeNumber=node))
            fixed = mbs.AddMarker(item.MarkerNodeCoordinate(nodeNumber=node, coordinate=1))
            still = mbs.AddNode(item.NodePointGround())
            base = mbs.AddMarker(item.MarkerNodeCoordinate(nodeNumber=still, coordinate=0))
            mbs.AddObject(item.ObjectConnectorCoordinate(markerNumbers=[base, fixed]))
        else:
            angle = above[1] + sign * q
            centre = origin + turn(angle) @ com
            node = mbs.AddNode(item.NodeRigidBody2D(referenceCoordinates=[*centre, angle]))
            body = mbs.AddObject(
                item.ObjectRigidBody2D(physicsMass=link.mass, physicsInertia=link.inertia[1 - first], nodeNumber=node)
            )
            if link.parent < 0:
                other = marker(ground, origin)
            else:
                parent = m.links[link.parent]
                other = marker(bodies[link.parent], flat(link.offset) - (flat(parent.com) if parent.kind == "r" else 0))
            mbs.AddObject(item.ObjectJointRevolute2D(markerNumbers=[other, marker(body, -com)]))
        weight = [0.0, -link.mass * machines.GRAVITY, 0.0]
        mbs.AddLoad(item.LoadForceVector(markerNumber=marker(body, np.zeros(2)), loadVector=weight))
        nodes.append(node)
        bodies.append(body)
        angles.append(angle)
        origins.append(origin)
    for a, p, b, q in m.pins:
        at = [flat(np.subtract(point, m.links[i].com)) for point, i in ((p, a), (q, b))]
        mbs.AddObject(item.ObjectJointRevolute2D(markerNumbers=[marker(bodies[a], at[0]), marker(bodies[b], at[1])]))
    return nodes


def _tree(m: machines.Machine, mbs: Any) -> int:
    """All links in one object with minimal coordinates; returns its node."""
    n = m.n
    node = mbs.AddNode(
        item.NodeGenericODE2(
            referenceCoordinates=[0.0] * n, initialCoordinates=list(m.q0), initialCoordinates_t=[0.0] * n,
            numberOfODE2Coordinates=n,
        )
    )  # fmt: skip
    kinds = {("r", "x"): "RevoluteX", ("r", "y"): "RevoluteY", ("r", "z"): "RevoluteZ"}
    kinds |= {("p", "x"): "PrismaticX", ("p", "y"): "PrismaticY", ("p", "z"): "PrismaticZ"}
    mbs.AddObject(
        item.ObjectKinematicTree(
            nodeNumber=node, jointTypes=[getattr(exu.JointType, kinds[k.kind, k.axis]) for k in m.links],
            linkParents=[k.parent for k in m.links], jointTransformations=exu.Matrix3DList([np.eye(3)] * n),
            jointOffsets=exu.Vector3DList([list(k.offset) for k in m.links]), linkInertiasCOM=exu.Matrix3DList([np.diag(k.inertia) for k in m.links]),
            linkCOMs=exu.Vector3DList([list(k.com) for k in m.links]), linkMasses=[k.mass for k in m.links],
            gravity=[0.0, 0.0, -machines.GRAVITY],
        )
    )  # fmt: skip
    return int(node)


def rollout(machine: str, size: int, dt: float, steps: int, every: int, method: str, rho: float = 0.9) -> Case:
    """Methods: "planar" and "tree" (generalized-alpha with spectral radius rho), "tree rk4" (explicit)."""
    m = getattr(machines, machine)(size)
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    n = m.n
    minimal = method.startswith("tree")
    nodes = [_tree(m, mbs)] if minimal else _planar(m, mbs)
    kinds = (exu.OutputVariableType.Coordinates, exu.OutputVariableType.Coordinates_t)
    sensors = [
        [mbs.AddSensor(item.SensorNode(nodeNumber=k, storeInternal=True, writeToFile=False, outputVariableType=kind))
         for k in nodes] for kind in kinds
    ]  # fmt: skip
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = steps
    settings.timeIntegration.endTime = steps * dt
    settings.timeIntegration.verboseMode = 0
    settings.timeIntegration.generalizedAlpha.spectralRadius = rho
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.solutionSettings.writeSolutionToFile = False
    settings.solutionSettings.sensorsWritePeriod = every * dt * (1 - 1e-9)
    settings.solutionSettings.recordImagesInterval = -1
    settings.displayComputationTime = False
    settings.displayStatistics = False
    if not minimal and n > 4:
        settings.linearSolverType = exu.LinearSolverType.EigenSparse
    solver = exu.DynamicSolverType.RK44 if method.endswith("rk4") else exu.DynamicSolverType.GeneralizedAlpha
    first = 1 if m.links[-1].axis == "x" else 0
    sign = 1.0 if first == 1 else -1.0

    def run() -> Any:
        mbs.Assemble()  # back to the initial state
        mbs.SolveDynamic(settings, solverType=solver)
        return [[np.array(mbs.GetSensorStoredData(s)) for s in group] for group in sensors]

    def relative(columns: list[np.ndarray], rate: bool) -> np.ndarray:
        """Joint coordinates from absolute ones."""
        if minimal:
            return columns[0][:, 1 : 1 + n]
        rows = len(columns[0])
        absolute = np.zeros((rows, n))
        out = np.empty((rows, n))
        for i, link in enumerate(m.links):
            if link.kind == "p":
                out[:, i] = columns[i][:, 1]
                continue
            absolute[:, i] = sign * columns[i][:, 3]
            out[:, i] = absolute[:, i] - (absolute[:, link.parent] if link.parent >= 0 else 0)
        return out if rate else out + np.array(m.q0) * 1.0

    def read(out: Any) -> dict[str, Any]:
        q, v = relative(out[0], False), relative(out[1], True)
        return {"q": q[1:], "v": v[1:]} if len(q) > steps // every else {"q": q, "v": v}

    return Case(run, read)


def build(machine: str, size: int) -> Case:
    m = getattr(machines, machine)(size)

    def run() -> Any:
        container = exu.SystemContainer()
        mbs = container.AddSystem()
        _tree(m, mbs)
        mbs.Assemble()
        return container

    return Case(run)


def rolling_disk(
    dt: float, time: float, velocity: list[float], rates: list[float], rho: float, tolerance: float
) -> Case:
    """A rigid body with the rolling-disc joint, generalized-alpha."""
    from exudyn.utilities import RigidBodyInertia, RotationMatrixX

    container = exu.SystemContainer()
    mbs = container.AddSystem()
    lean = machines.DISK_LEAN
    body = mbs.CreateRigidBody(
        inertia=RigidBodyInertia(mass=1.0, inertiaTensor=np.diag(machines.DISK_INERTIA)),
        referencePosition=[0.0, 0.0, machines.DISK_RADIUS * np.cos(lean)], referenceRotationMatrix=RotationMatrixX(lean),
        initialAngularVelocity=rates, initialVelocity=velocity, gravity=[0.0, 0.0, -machines.GRAVITY], returnDict=True,
    )["bodyNumber"]  # fmt: skip
    ground = mbs.AddMarker(item.MarkerBodyRigid(bodyNumber=mbs.AddObject(item.ObjectGround())))
    disc = mbs.AddMarker(item.MarkerBodyRigid(bodyNumber=body))
    mbs.AddObject(
        item.ObjectJointRollingDisc(
            markerNumbers=[ground, disc], discRadius=machines.DISK_RADIUS, discAxis=[0, 1, 0], planeNormal=[0, 0, 1]
        )
    )
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = round(time / dt)
    settings.timeIntegration.endTime = time
    settings.timeIntegration.verboseMode = 0
    settings.timeIntegration.generalizedAlpha.spectralRadius = rho
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.timeIntegration.newton.relativeTolerance = tolerance
    settings.solutionSettings.writeSolutionToFile = False
    settings.displayComputationTime = False
    settings.displayStatistics = False

    def run() -> Any:
        mbs.Assemble()
        mbs.SolveDynamic(settings)
        return mbs.GetObjectOutputBody(body, exu.OutputVariableType.Position, [0.0, 0.0, 0.0])

    return Case(run, lambda out: {"end": np.array(out)})
