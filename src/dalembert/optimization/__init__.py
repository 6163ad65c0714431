"""Trajectory optimization: projection operator, descent directions, costs, bounds, continuation."""

from .bounds import BoxCost
from .continuation import Stage, blend_references, continuation, convert, fictitious_stages, with_inputs
from .continuous import ContinuousSystem
from .costs import BoundCost, Cost, SumCost, TerminalCost, TrackingCost
from .descent import Direction, Discrete, IndefiniteModel, Point
from .expression import ExpressionCost, Symbols
from .mocap import read_motion
from .projection import descend, optimize
from .result import Iteration, Optimization, Search

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
    "Optimization",
    "Point",
    "Search",
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
