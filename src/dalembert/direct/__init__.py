"""Direct optimal control: DMOC in generalized coordinates, collocation to compare with, DMOCC (`direct.dmocc`)."""

from . import dmocc
from .mechanics import Moment, final_momentum
from .problem import dmoc
from .result import Plan

__all__ = ["Moment", "Plan", "dmoc", "dmocc", "final_momentum"]
