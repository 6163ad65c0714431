"""Estimation on the one-step map: Kalman filters (extended, unscented), particle filter, smoother, sensors, Monte-Carlo."""

from .extended import ExtendedKalmanFilter
from .filter import Estimate, Filtered
from .measurement import Measurement, measure, measure_expression, measure_frame
from .particle import ParticleFilter, Particles
from .sensors import measure_accelerometer, measure_force, measure_gyroscope, measure_magnetometer, measure_velocity
from .smoother import Smoothed, smooth
from .study import Study, monte_carlo
from .track import Moment, Track
from .unscented import UnscentedKalmanFilter

__all__ = [
    "Estimate",
    "ExtendedKalmanFilter",
    "Filtered",
    "Measurement",
    "Moment",
    "ParticleFilter",
    "Particles",
    "Smoothed",
    "Study",
    "Track",
    "UnscentedKalmanFilter",
    "measure",
    "measure_accelerometer",
    "measure_expression",
    "measure_force",
    "measure_frame",
    "measure_gyroscope",
    "measure_magnetometer",
    "measure_velocity",
    "monte_carlo",
    "smooth",
]
