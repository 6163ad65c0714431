"""The public names of dalembert, listed once: type checkers read this file, and `__init__.py` imports each name from here on first use."""

from . import (
    control as control,
)
from . import (
    direct as direct,
)
from . import (
    estimate as estimate,
)
from . import (
    export as export,
)
from . import (
    formats as formats,
)
from . import (
    identification as identification,
)
from . import (
    integrate as integrate,
)
from . import (
    mechanics as mechanics,
)
from . import (
    model as model,
)
from . import (
    models as models,
)
from . import (
    optimization as optimization,
)
from . import (
    symbolic as symbolic,
)
from . import (
    trep as trep,
)
from . import (
    viewing as viewing,
)
from .bridges import (
    to_casadi as to_casadi,
)
from .control import (
    MPC as MPC,
)
from .control import (
    Feedback as Feedback,
)
from .control import (
    LQSolution as LQSolution,
)
from .control import (
    Mode as Mode,
)
from .control import (
    Reduction as Reduction,
)
from .control import (
    UnstabilizableError as UnstabilizableError,
)
from .control import (
    controllability as controllability,
)
from .control import (
    controllability_gramian as controllability_gramian,
)
from .control import (
    controllable_rank as controllable_rank,
)
from .control import (
    dlqr as dlqr,
)
from .control import (
    lqr as lqr,
)
from .control import (
    lqr_infinite as lqr_infinite,
)
from .control import (
    observability as observability,
)
from .control import (
    observability_gramian as observability_gramian,
)
from .control import (
    observable_rank as observable_rank,
)
from .control import (
    reduce_state as reduce_state,
)
from .control import (
    solve_lq as solve_lq,
)
from .control import (
    to_control as to_control,
)
from .control import (
    uncontrollable_modes as uncontrollable_modes,
)
from .control import (
    unobservable_modes as unobservable_modes,
)
from .control import (
    weights as weights,
)
from .direct import (
    dmoc as dmoc,
)
from .direct import (
    final_momentum as final_momentum,
)
from .errors import (
    AccuracyError as AccuracyError,
)
from .errors import (
    AccuracyWarning as AccuracyWarning,
)
from .errors import (
    ConvergenceError as ConvergenceError,
)
from .errors import (
    DalembertError as DalembertError,
)
from .errors import (
    InertiaWarning as InertiaWarning,
)
from .errors import (
    ModelError as ModelError,
)
from .errors import (
    ModelWarning as ModelWarning,
)
from .errors import (
    SingularityError as SingularityError,
)
from .errors import (
    Stop as Stop,
)
from .estimate import (
    Estimate as Estimate,
)
from .estimate import (
    ExtendedKalmanFilter as ExtendedKalmanFilter,
)
from .estimate import (
    Filtered as Filtered,
)
from .estimate import (
    Measurement as Measurement,
)
from .estimate import (
    Moment as Moment,
)
from .estimate import (
    ParticleFilter as ParticleFilter,
)
from .estimate import (
    Study as Study,
)
from .estimate import (
    Track as Track,
)
from .estimate import (
    UnscentedKalmanFilter as UnscentedKalmanFilter,
)
from .estimate import (
    measure as measure,
)
from .estimate import (
    measure_accelerometer as measure_accelerometer,
)
from .estimate import (
    measure_expression as measure_expression,
)
from .estimate import (
    measure_force as measure_force,
)
from .estimate import (
    measure_frame as measure_frame,
)
from .estimate import (
    measure_gyroscope as measure_gyroscope,
)
from .estimate import (
    measure_magnetometer as measure_magnetometer,
)
from .estimate import (
    measure_velocity as measure_velocity,
)
from .estimate import (
    monte_carlo as monte_carlo,
)
from .estimate import (
    smooth as smooth,
)
from .export import (
    Exported as Exported,
)
from .export import (
    ExportError as ExportError,
)
from .export import (
    export_c as export_c,
)
from .formats import (
    dumps as dumps,
)
from .formats import (
    load as load,
)
from .formats import (
    load_with_configurations as load_with_configurations,
)
from .formats import (
    loads as loads,
)
from .formats import (
    save as save,
)
from .identification import (
    Excitation as Excitation,
)
from .identification import (
    Gradient as Gradient,
)
from .identification import (
    Identifiability as Identifiability,
)
from .identification import (
    Identification as Identification,
)
from .identification import (
    ParameterMap as ParameterMap,
)
from .identification import (
    Record as Record,
)
from .identification import (
    energy_by_parameters as energy_by_parameters,
)
from .identification import (
    excite as excite,
)
from .identification import (
    force_by_parameters as force_by_parameters,
)
from .identification import (
    gradient_of_motion as gradient_of_motion,
)
from .identification import (
    identifiability as identifiability,
)
from .identification import (
    identify as identify,
)
from .identification import (
    motion_by_parameters as motion_by_parameters,
)
from .identification import (
    name_parameters as name_parameters,
)
from .identification import (
    step_by_parameters as step_by_parameters,
)
from .integrate import (
    EulerModel as EulerModel,
)
from .integrate import (
    Event as Event,
)
from .integrate import (
    GaussVI as GaussVI,
)
from .integrate import (
    MidpointVI as MidpointVI,
)
from .integrate import (
    Occurrence as Occurrence,
)
from .integrate import (
    OneStep as OneStep,
)
from .integrate import (
    OneStepMap as OneStepMap,
)
from .integrate import (
    Rollouts as Rollouts,
)
from .integrate import (
    Scheme as Scheme,
)
from .integrate import (
    State as State,
)
from .integrate import (
    Trajectory as Trajectory,
)
from .integrate import (
    ensemble as ensemble,
)
from .integrate import (
    rollouts as rollouts,
)
from .integrate import (
    simulate_continuous as simulate_continuous,
)
from .mechanics import (
    Acceleration as Acceleration,
)
from .mechanics import (
    acceleration as acceleration,
)
from .mechanics import (
    acceleration_second as acceleration_second,
)
from .mechanics import (
    consistent_velocity as consistent_velocity,
)
from .mechanics import (
    constraint_hessian as constraint_hessian,
)
from .mechanics import (
    constraint_jacobian as constraint_jacobian,
)
from .mechanics import (
    constraint_third as constraint_third,
)
from .mechanics import (
    constraints as constraints,
)
from .mechanics import (
    equilibrium as equilibrium,
)
from .mechanics import (
    force as force,
)
from .mechanics import (
    force_first as force_first,
)
from .mechanics import (
    force_second as force_second,
)
from .mechanics import (
    frame_hessian as frame_hessian,
)
from .mechanics import (
    frame_jacobian as frame_jacobian,
)
from .mechanics import (
    gap_hessian as gap_hessian,
)
from .mechanics import (
    gap_jacobian as gap_jacobian,
)
from .mechanics import (
    gaps as gaps,
)
from .mechanics import (
    inverse_kinematics as inverse_kinematics,
)
from .mechanics import (
    kinetic_energy as kinetic_energy,
)
from .mechanics import (
    lagrangian as lagrangian,
)
from .mechanics import (
    lagrangian_first as lagrangian_first,
)
from .mechanics import (
    lagrangian_second as lagrangian_second,
)
from .mechanics import (
    lagrangian_third as lagrangian_third,
)
from .mechanics import (
    mass_matrix as mass_matrix,
)
from .mechanics import (
    pose as pose,
)
from .mechanics import (
    poses as poses,
)
from .mechanics import (
    positions as positions,
)
from .mechanics import (
    potential_energy as potential_energy,
)
from .mechanics import (
    potential_gradient as potential_gradient,
)
from .mechanics import (
    satisfy_constraints as satisfy_constraints,
)
from .mechanics import (
    spatial_momentum as spatial_momentum,
)
from .mechanics import (
    trim as trim,
)
from .mechanics import (
    twists as twists,
)
from .mechanics import (
    velocity_offset as velocity_offset,
)
from .model import (
    Cam as Cam,
)
from .model import (
    ConfigForce as ConfigForce,
)
from .model import (
    ConfigSpring as ConfigSpring,
)
from .model import (
    Constraint as Constraint,
)
from .model import (
    Contact as Contact,
)
from .model import (
    Damping as Damping,
)
from .model import (
    Distance as Distance,
)
from .model import (
    Element as Element,
)
from .model import (
    Force as Force,
)
from .model import (
    Frame as Frame,
)
from .model import (
    FrameEntry as FrameEntry,
)
from .model import (
    Gravity as Gravity,
)
from .model import (
    Kinematic as Kinematic,
)
from .model import (
    KnifeEdge as KnifeEdge,
)
from .model import (
    Limit as Limit,
)
from .model import (
    LinearDamper as LinearDamper,
)
from .model import (
    LinearRelation as LinearRelation,
)
from .model import (
    LinearSpring as LinearSpring,
)
from .model import (
    Model as Model,
)
from .model import (
    NonlinearConfigSpring as NonlinearConfigSpring,
)
from .model import (
    Parameter as Parameter,
)
from .model import (
    PointGravity as PointGravity,
)
from .model import (
    PointOnPlane as PointOnPlane,
)
from .model import (
    PointToPoint as PointToPoint,
)
from .model import (
    Potential as Potential,
)
from .model import (
    RollingDisk as RollingDisk,
)
from .model import (
    RollingSphere as RollingSphere,
)
from .model import (
    SphereContact as SphereContact,
)
from .model import (
    Spline as Spline,
)
from .model import (
    TorsionSpring as TorsionSpring,
)
from .model import (
    VelocityConstraint as VelocityConstraint,
)
from .model import (
    Visual as Visual,
)
from .model import (
    Wrench as Wrench,
)
from .model import (
    ball as ball,
)
from .model import (
    cylindrical as cylindrical,
)
from .model import (
    floating as floating,
)
from .model import (
    free as free,
)
from .model import (
    free_euler as free_euler,
)
from .model import (
    helical as helical,
)
from .model import (
    planar as planar,
)
from .model import (
    prismatic as prismatic,
)
from .model import (
    revolute as revolute,
)
from .model import (
    rotation as rotation,
)
from .model import (
    rx as rx,
)
from .model import (
    ry as ry,
)
from .model import (
    rz as rz,
)
from .model import (
    se3 as se3,
)
from .model import (
    spherical as spherical,
)
from .model import (
    spherical_euler as spherical_euler,
)
from .model import (
    tx as tx,
)
from .model import (
    ty as ty,
)
from .model import (
    tz as tz,
)
from .optimization import (
    ContinuousSystem as ContinuousSystem,
)
from .optimization import (
    ExpressionCost as ExpressionCost,
)
from .optimization import (
    MotionLimit as MotionLimit,
)
from .optimization import (
    TerminalCost as TerminalCost,
)
from .optimization import (
    TrackingCost as TrackingCost,
)
from .optimization import (
    continuation as continuation,
)
from .optimization import (
    optimize as optimize,
)
from .optimization import (
    read_motion as read_motion,
)
from .symbolic import (
    Symbolic as Symbolic,
)
from .system import (
    System as System,
)
from .viewing import (
    export_gif as export_gif,
)
from .viewing import (
    export_html as export_html,
)
from .viewing import (
    export_mp4 as export_mp4,
)
from .viewing import (
    plot_trajectory as plot_trajectory,
)
from .viewing import (
    show as show,
)
from .viewing import (
    view as view,
)

__version__: str
