"""DMOCC: rigid bodies by directors, the discrete null space method, optimal control of minimal dimension."""

from .convert import from_model, model_configuration
from .kernels import View
from .motion import Motion, condition_numbers, configuration, coordinates
from .optimize import Solution, optimize, problem_size
from .simulate import simulate
from .system import Joint, MultibodySystem, RigidBody

__all__ = [
    "Joint",
    "Motion",
    "MultibodySystem",
    "RigidBody",
    "Solution",
    "View",
    "condition_numbers",
    "configuration",
    "coordinates",
    "from_model",
    "model_configuration",
    "optimize",
    "problem_size",
    "simulate",
]
