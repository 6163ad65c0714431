"""One-step maps: the variational integrator, maps of one's own, trajectories, batches, and continuous simulation to compare with."""

from .batch import Rollouts, ensemble, rollouts
from .condition import Condition
from .continuous import simulate_continuous
from .discrete_lagrangian import DiscreteLagrangian
from .euler import EulerModel
from .events import Event, Occurrence
from .gauss import GaussVI
from .midpoint import MidpointVI
from .motions import CoreMotions, Motions
from .moving import ConstraintForces, Moving, constraint_rows, program_of_configuration, uniform_gravity
from .onestep import OneStep, OneStepMap, Steps, Tangent, complete
from .prescribed import inputs_of
from .quality import Quality
from .reachable import velocity_slope
from .scheme import Scheme
from .trajectory import State, Trajectory

__all__ = [
    "Condition",
    "ConstraintForces",
    "CoreMotions",
    "DiscreteLagrangian",
    "EulerModel",
    "Event",
    "GaussVI",
    "MidpointVI",
    "Motions",
    "Moving",
    "Occurrence",
    "OneStep",
    "OneStepMap",
    "Quality",
    "Rollouts",
    "Scheme",
    "State",
    "Steps",
    "Tangent",
    "Trajectory",
    "complete",
    "constraint_rows",
    "ensemble",
    "inputs_of",
    "program_of_configuration",
    "rollouts",
    "simulate_continuous",
    "uniform_gravity",
    "velocity_slope",
]
