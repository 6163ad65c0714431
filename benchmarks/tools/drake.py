"""Drake: MultibodyPlant, discrete (SAP for pins) or continuous with an error-controlled integrator; the loop runs in C++."""

from __future__ import annotations

from importlib.metadata import version as _installed
from typing import Any

import numpy as np
from pydrake.math import RigidTransform
from pydrake.multibody.math import SpatialVelocity
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import DiscreteContactApproximation, MultibodyPlant
from pydrake.multibody.tree import SpatialInertia, UnitInertia
from pydrake.systems.analysis import ResetIntegratorFromFlags, Simulator
from pydrake.systems.framework import OutputPortSelection
from pydrake.systems.primitives import FirstOrderTaylorApproximation

from .. import machines
from . import Case


def version() -> str:
    return _installed("drake")


def _plant(m: machines.Machine, dt: float, actuated: bool = False) -> tuple[Any, np.ndarray]:
    """Plant and the order that brings its positions into that of the links."""
    plant = MultibodyPlant(time_step=dt)
    if dt:
        plant.SetUseSampledOutputPorts(False)  # they cost time and keep the plant from being linearized
    Parser(plant).AddModelsFromString(machines.to_urdf(m), "urdf")
    plant.WeldFrames(plant.world_frame(), plant.GetFrameByName("base"))
    plant.mutable_gravity_field().set_gravity_vector([0, 0, -machines.GRAVITY])
    if m.pins:
        plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        for a, p, b, q in m.pins:
            bodies = [plant.GetBodyByName(m.links[i].name) for i in (a, b)]
            plant.AddBallConstraint(body_A=bodies[0], p_AP=np.array(p), body_B=bodies[1], p_BQ=np.array(q))
    if actuated:
        for link in m.links:
            plant.AddJointActuator(f"u_{link.name}", plant.GetJointByName(f"j_{link.name}"))
    plant.Finalize()
    order = np.array([plant.GetJointByName(f"j_{link.name}").position_start() for link in m.links])
    return plant, order


def rollout(machine: str, size: int, dt: float, steps: int, every: int, method: str, accuracy: float = 1e-6) -> Case:
    """`discrete`: the plant's own step dt. Otherwise an integrator's name, with its accuracy (dt: where states are read)."""
    m = getattr(machines, machine)(size)
    plant, order = _plant(m, dt if method == "discrete" else 0.0)
    simulator = Simulator(plant)
    if method != "discrete":
        integrator = ResetIntegratorFromFlags(simulator, method, 0.1)
        integrator.set_target_accuracy(accuracy)
    context = simulator.get_mutable_context()
    q0 = np.empty(m.n)
    q0[order] = m.q0
    count = steps // every

    def run() -> Any:
        context.SetTime(0.0)
        plant.SetPositions(context, q0)
        plant.SetVelocities(context, np.zeros(m.n))
        simulator.Initialize()
        states = np.empty((count, 2, m.n))
        for i in range(count):
            simulator.AdvanceTo((i + 1) * every * dt)
            states[i] = plant.GetPositionsAndVelocities(context).reshape(2, -1)[:, order]
        return states

    return Case(run, lambda s: {"q": s[:, 0], "v": s[:, 1]})


def linearize(machine: str, size: int, dt: float) -> Case:
    """FirstOrderTaylorApproximation of the discrete step, by automatic differentiation."""
    m = getattr(machines, machine)(size)
    plant, order = _plant(m, dt, actuated=True)
    context = plant.CreateDefaultContext()
    q0 = np.empty(m.n)
    q0[order] = m.q0
    plant.SetPositions(context, q0)
    plant.get_actuation_input_port().FixValue(context, np.zeros(m.n))
    port, none = plant.get_actuation_input_port().get_index(), OutputPortSelection.kNoOutput

    def run() -> Any:
        return FirstOrderTaylorApproximation(plant, context, input_port_index=port, output_port_index=none)

    return Case(run)


def build(machine: str, size: int) -> Case:
    m = getattr(machines, machine)(size)
    return Case(lambda: _plant(m, 0.01)[0].CreateDefaultContext())


def tumbling(dt: float, time: float, method: str, accuracy: float = 1e-6) -> Case:
    """A free body without forces: its rotation matrix at the end. Methods as in `rollout`."""
    plant = MultibodyPlant(time_step=dt if method == "discrete" else 0.0)
    if method == "discrete":
        plant.SetUseSampledOutputPorts(False)
    body = plant.AddRigidBody("body", SpatialInertia(1.0, np.zeros(3), UnitInertia(*machines.BODY_INERTIA)))
    plant.mutable_gravity_field().set_gravity_vector([0, 0, 0])
    plant.Finalize()
    simulator = Simulator(plant)
    if method != "discrete":
        ResetIntegratorFromFlags(simulator, method, 0.1).set_target_accuracy(accuracy)
    context = simulator.get_mutable_context()
    start = SpatialVelocity(np.array(machines.BODY_RATES), np.zeros(3))  # world axes, which the body's are at the start

    def run() -> Any:
        context.SetTime(0.0)
        plant.SetFreeBodyPose(context, body, RigidTransform())
        plant.SetFreeBodySpatialVelocity(context, body, start)
        simulator.Initialize()
        simulator.AdvanceTo(time)
        return plant.GetFreeBodyPose(context, body).rotation().matrix()

    return Case(run, lambda end: {"end": end})
