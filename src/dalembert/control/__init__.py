"""Control of the one-step map: LQR, affine LQ problems, controllability, feedback policies, python-control bridges."""

from .analysis import (
    Mode,
    controllability,
    controllability_gramian,
    controllable_rank,
    observability,
    observability_gramian,
    observable_rank,
    uncontrollable_modes,
    unobservable_modes,
)
from .bridge import to_control
from .feedback import Feedback
from .lq import LQSolution, solve_lq
from .lqr import LQR, UnstabilizableError, dlqr, lqr, lqr_infinite
from .mpc import MPC
from .reduce import Reduction, reduce_state
from .weights import weights

__all__ = [
    "LQR",
    "MPC",
    "Feedback",
    "LQSolution",
    "Mode",
    "Reduction",
    "UnstabilizableError",
    "controllability",
    "controllability_gramian",
    "controllable_rank",
    "dlqr",
    "lqr",
    "lqr_infinite",
    "observability",
    "observability_gramian",
    "observable_rank",
    "reduce_state",
    "solve_lq",
    "to_control",
    "uncontrollable_modes",
    "unobservable_modes",
    "weights",
]
