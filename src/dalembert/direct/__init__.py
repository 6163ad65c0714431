"""Direct optimal control: DMOC in generalized coordinates, collocation to compare with, DMOCC."""

from .mechanics import Moment, final_momentum
from .problem import dmoc
from .result import Plan

__all__ = ["Moment", "Plan", "dmoc", "final_momentum"]
