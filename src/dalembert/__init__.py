"""dalembert: discrete mechanics for Python.

Describe a mechanism once (`Model`), then simulate it with a variational integrator (`MidpointVI`), linearize the discrete step exactly
(`System`), regulate (`lqr`), estimate (`ExtendedKalmanFilter`) and optimize its motion (`optimize`, `dmoc`).
"""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

from .errors import ConvergenceError, DalembertError, ModelError, SingularityError
from .integrate import MidpointVI, Rollouts, State, Trajectory, ensemble, rollouts, simulate_continuous
from .mechanics import (
    Acceleration,
    acceleration,
    acceleration_second,
    consistent_velocity,
    constraint_hessian,
    constraint_jacobian,
    constraint_third,
    constraints,
    equilibrium,
    force,
    force_first,
    force_second,
    frame_jacobian,
    kinetic_energy,
    lagrangian,
    lagrangian_first,
    lagrangian_second,
    lagrangian_third,
    mass_matrix,
    pose,
    poses,
    positions,
    potential_energy,
    potential_gradient,
    satisfy_constraints,
    spatial_momentum,
    twists,
)
from .model import (
    Cam,
    ConfigForce,
    ConfigSpring,
    Constraint,
    Damping,
    Distance,
    Element,
    Force,
    Frame,
    FrameEntry,
    Gravity,
    Kinematic,
    LinearDamper,
    LinearRelation,
    LinearSpring,
    Model,
    NonlinearConfigSpring,
    PointGravity,
    PointOnPlane,
    PointToPoint,
    Potential,
    Spline,
    Visual,
    Wrench,
    cylindrical,
    free,
    helical,
    planar,
    prismatic,
    revolute,
    rx,
    ry,
    rz,
    se3,
    spherical,
    tx,
    ty,
    tz,
)
from .system import System

__version__ = "0.1.0"

# rooms that are imported when first used, so that `import dalembert` stays quick
_LAZY = {
    "formats": ("dumps", "load", "load_with_configurations", "loads", "save"),
    "control": (
        "Feedback",
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
        "weights",
    ),
    "estimate": (
        "EulerModel",
        "ExtendedKalmanFilter",
        "ParticleFilter",
        "UnscentedKalmanFilter",
        "measure",
        "measure_expression",
        "measure_frame",
        "smooth",
    ),
    "optimize": ("ContinuousSystem", "ExpressionCost", "TerminalCost", "TrackingCost", "continuation", "read_motion"),
    "direct": ("dmoc", "final_momentum"),
    "view": ("export_gif", "export_html", "export_mp4", "plot_trajectory"),
    "symbolic": ("Symbolic",),
}
_ROOM_OF = {name: room for room, names in _LAZY.items() for name in names}
_ROOMS = ("control", "direct", "estimate", "formats", "models", "symbolic", "trep")

if TYPE_CHECKING:
    from . import control, direct, estimate, formats, models, symbolic
    from .control import (
        Feedback,
        UnstabilizableError,
        controllability,
        controllability_gramian,
        controllable_rank,
        dlqr,
        lqr,
        lqr_infinite,
        observability,
        observability_gramian,
        observable_rank,
        reduce_state,
        solve_lq,
        to_control,
        uncontrollable_modes,
        weights,
    )
    from .direct import dmoc, final_momentum
    from .estimate import (
        EulerModel,
        ExtendedKalmanFilter,
        ParticleFilter,
        UnscentedKalmanFilter,
        measure,
        measure_expression,
        measure_frame,
        smooth,
    )
    from .formats import dumps, load, load_with_configurations, loads, save
    from .optimize import ContinuousSystem, ExpressionCost, TerminalCost, TrackingCost, continuation, optimize, read_motion
    from .symbolic import Symbolic
    from .view import export_gif, export_html, export_mp4, plot_trajectory, view


def __getattr__(name: str) -> Any:
    if name in ("optimize", "view"):  # the room and its main function share a name; `da.optimize(...)` is the function
        module = _import(f".{name}", __name__)
        value = getattr(module, name)
        globals()[name] = value
        return value
    if name in _ROOM_OF:
        value = getattr(_import(f".{_ROOM_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return _import(f".{name}", __name__)
    raise AttributeError(f"module 'dalembert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF, *_ROOMS, "optimize", "view"})


__all__ = [
    "Acceleration",
    "Cam",
    "ConfigForce",
    "ConfigSpring",
    "Constraint",
    "ContinuousSystem",
    "ConvergenceError",
    "DalembertError",
    "Damping",
    "Distance",
    "Element",
    "EulerModel",
    "ExpressionCost",
    "ExtendedKalmanFilter",
    "Feedback",
    "Force",
    "Frame",
    "FrameEntry",
    "Gravity",
    "Kinematic",
    "LinearDamper",
    "LinearRelation",
    "LinearSpring",
    "MidpointVI",
    "Model",
    "ModelError",
    "NonlinearConfigSpring",
    "ParticleFilter",
    "PointGravity",
    "PointOnPlane",
    "PointToPoint",
    "Potential",
    "Rollouts",
    "SingularityError",
    "Spline",
    "State",
    "Symbolic",
    "System",
    "TerminalCost",
    "TrackingCost",
    "Trajectory",
    "UnscentedKalmanFilter",
    "UnstabilizableError",
    "Visual",
    "Wrench",
    "acceleration",
    "acceleration_second",
    "consistent_velocity",
    "constraint_hessian",
    "constraint_jacobian",
    "constraint_third",
    "constraints",
    "continuation",
    "control",
    "controllability",
    "controllability_gramian",
    "controllable_rank",
    "cylindrical",
    "direct",
    "dlqr",
    "dmoc",
    "dumps",
    "ensemble",
    "equilibrium",
    "estimate",
    "export_gif",
    "export_html",
    "export_mp4",
    "final_momentum",
    "force",
    "force_first",
    "force_second",
    "formats",
    "frame_jacobian",
    "free",
    "helical",
    "kinetic_energy",
    "lagrangian",
    "lagrangian_first",
    "lagrangian_second",
    "lagrangian_third",
    "load",
    "load_with_configurations",
    "loads",
    "lqr",
    "lqr_infinite",
    "mass_matrix",
    "measure",
    "measure_expression",
    "measure_frame",
    "models",
    "observability",
    "observability_gramian",
    "observable_rank",
    "optimize",
    "planar",
    "plot_trajectory",
    "pose",
    "poses",
    "positions",
    "potential_energy",
    "potential_gradient",
    "prismatic",
    "read_motion",
    "reduce_state",
    "revolute",
    "rollouts",
    "rx",
    "ry",
    "rz",
    "satisfy_constraints",
    "save",
    "se3",
    "simulate_continuous",
    "smooth",
    "solve_lq",
    "spatial_momentum",
    "spherical",
    "symbolic",
    "to_control",
    "twists",
    "tx",
    "ty",
    "tz",
    "uncontrollable_modes",
    "view",
    "weights",
]
