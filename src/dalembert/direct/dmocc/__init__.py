"""DMOCC: rigid bodies by directors, the discrete null space method, optimal control of minimal dimension."""

from .convert import from_model, model_configuration
from .general import ConstrainedSystem
from .motion import Motion, assemble, condition_numbers, configuration, coordinates
from .optimize import Solution, optimize, problem_size
from .simulate import simulate
from .system import Joint, MultibodySystem, RigidBody
from .to_model import to_model
from .view import View

__all__ = [
    "ConstrainedSystem",
    "Joint",
    "Motion",
    "MultibodySystem",
    "RigidBody",
    "Solution",
    "View",
    "assemble",
    "condition_numbers",
    "configuration",
    "coordinates",
    "from_model",
    "model_configuration",
    "optimize",
    "problem_size",
    "simulate",
    "to_model",
]
