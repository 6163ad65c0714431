"""One-step maps: the variational integrator, maps of one's own, trajectories, batches, and continuous simulation to compare with."""

from .batch import Rollouts, ensemble, rollouts
from .continuous import simulate_continuous
from .discrete_lagrangian import DiscreteLagrangian
from .euler import EulerModel
from .midpoint import MidpointVI
from .onestep import OneStep, OneStepMap, Steps, Tangent, complete
from .scheme import Scheme
from .trajectory import State, Trajectory

__all__ = [
    "DiscreteLagrangian",
    "EulerModel",
    "MidpointVI",
    "OneStep",
    "OneStepMap",
    "Rollouts",
    "Scheme",
    "State",
    "Steps",
    "Tangent",
    "Trajectory",
    "complete",
    "ensemble",
    "rollouts",
    "simulate_continuous",
]
