"""DMOCC: rigid bodies by directors, the discrete null space method, optimal control of minimal dimension."""

from .motion import Motion, condition_numbers, configuration, coordinates
from .simulate import simulate
from .system import Joint, MultibodySystem, RigidBody

__all__ = [
    "Joint",
    "Motion",
    "MultibodySystem",
    "RigidBody",
    "condition_numbers",
    "configuration",
    "coordinates",
    "simulate",
]
