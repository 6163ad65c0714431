"""The variational integrator, trajectories, batches, and continuous simulation to compare with."""

from .batch import Rollouts, ensemble, rollouts
from .continuous import simulate_continuous
from .midpoint import MidpointVI
from .scheme import Scheme
from .trajectory import State, Trajectory

__all__ = ["MidpointVI", "Rollouts", "Scheme", "State", "Trajectory", "ensemble", "rollouts", "simulate_continuous"]
