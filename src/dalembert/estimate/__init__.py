"""Estimation on the one-step map: Kalman filters (extended, unscented), particle filter, smoother, Monte-Carlo."""

from .extended import ExtendedKalmanFilter
from .filter import Estimate, Filtered
from .measurement import Measurement, measure, measure_expression, measure_frame
from .particle import ParticleFilter, Particles
from .smoother import Smoothed, smooth
from .study import Study, monte_carlo
from .unscented import UnscentedKalmanFilter

__all__ = [
    "Estimate",
    "ExtendedKalmanFilter",
    "Filtered",
    "Measurement",
    "ParticleFilter",
    "Particles",
    "Smoothed",
    "Study",
    "UnscentedKalmanFilter",
    "measure",
    "measure_expression",
    "measure_frame",
    "monte_carlo",
    "smooth",
]
