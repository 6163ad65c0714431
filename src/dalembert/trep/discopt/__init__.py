"""trep.discopt: the integrator as a discrete system, costs, LQ problems and trajectory optimization."""

from . import dlqr
from .dcost import DCost
from .dlqr import solve_tv_lq, solve_tv_lqr
from .doptimizer import DOptimizer, DOptimizerDefaultMonitor, DOptimizerMonitor, DOptimizerVerboseMonitor
from .dsystem import DSystem

__all__ = [
    "DCost",
    "DOptimizer",
    "DOptimizerDefaultMonitor",
    "DOptimizerMonitor",
    "DOptimizerVerboseMonitor",
    "DSystem",
    "dlqr",
    "solve_tv_lq",
    "solve_tv_lqr",
]
