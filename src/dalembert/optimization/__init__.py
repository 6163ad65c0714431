"""Trajectory optimization: the default solver on curves with gaps, the projection operator, costs, bounds, constraints, continuation."""

from .bounds import BoxCost
from .constraints import MotionLimit
from .continuation import Stage, blend_references, continuation, convert, fictitious_stages, with_inputs
from .continuous import ContinuousSystem
from .costs import BoundCost, Cost, SumCost, TerminalCost, TrackingCost
from .descent import Direction, Discrete, IndefiniteModel, Point
from .expression import ExpressionCost, Symbols
from .mocap import read_motion
from .projection import descend
from .result import Iteration, Optimization, Search
from .shooting import Shooting
from .solve import optimize

__all__ = [
    "BoundCost",
    "BoxCost",
    "ContinuousSystem",
    "Cost",
    "Direction",
    "Discrete",
    "ExpressionCost",
    "IndefiniteModel",
    "Iteration",
    "MotionLimit",
    "Optimization",
    "Point",
    "Search",
    "Shooting",
    "Stage",
    "SumCost",
    "Symbols",
    "TerminalCost",
    "TrackingCost",
    "blend_references",
    "continuation",
    "convert",
    "descend",
    "fictitious_stages",
    "optimize",
    "read_motion",
    "with_inputs",
]
