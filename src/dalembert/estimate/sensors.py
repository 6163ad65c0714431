"""Sensors of moving things: speeds, gyroscopes, accelerometers, magnetometers, forces in constraints; derivatives are exact.

A state x = (q, p, v_rho) has the velocity v that belongs to p, along the constraints, and under the inputs u of the step that led to it the
acceleration a and the multipliers of the continuous equations. A sensor is a function of (q, v, a), written in CasADi; what v and a have to
do with x comes from the core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from ..arrays import finite, nearest
from ..integrate import ConstraintForces, Moving, OneStep, complete, constraint_rows, uniform_gravity
from .measurement import Measurement


def measure_velocity(system: OneStep, *names: str) -> Measurement:
    """A sensor of velocities of a `system`: of variables (rad/s, m/s; a tachometer), or of frames' origins in world axes (m/s, three
    entries each); `names` are of either.

    >>> import dalembert as da
    >>> import numpy as np
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> vi = da.MidpointVI(pendulum, dt=0.1)
    >>> speeds = da.measure_velocity(vi, "theta", "bob")
    >>> speeds.names, speeds.h(np.array([0.0, 2.0]))
    (('v.theta', 'bob.vx', 'bob.vy', 'bob.vz'), array([2., 0., 2., 0.]))
    """
    model = _model(system)
    if not names:
        raise ValueError("give names of variables or frames")
    known = (*model.velocities, *model.frame_names)
    for name in names:
        if name not in known:
            raise ValueError(f"no variable or frame is called {name!r}{nearest(name, known)}")

    def make(s: Any, a: Any) -> Any:
        parts = []
        for name in names:
            joint = name in model.velocities
            parts.append(s.v[model.velocities.index(name)] if joint else s.rate(s.position(name)))
        return s.ca.vertcat(*parts)

    labels: list[str] = []
    for name in names:
        labels += [f"v.{name}"] if name in model.velocities else [f"{name}.v{axis}" for axis in "xyz"]
    return _moving(system, make, labels)


def measure_gyroscope(system: OneStep, frame: str) -> Measurement:
    """A gyroscope on a frame of a `system`: its angular velocity (3,) in its own axes (rad/s).

    >>> import dalembert as da
    >>> import numpy as np
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> da.measure_gyroscope(da.MidpointVI(pendulum, dt=0.1), "bob").h(np.array([0.3, 2.0])).round(12)
    array([2., 0., 0.])
    """
    _frame(system, frame)
    return _moving(system, lambda s, a: s.rotation(frame).T @ s.angular_velocity(frame), _axes(frame, "w"))


def measure_magnetometer(system: OneStep, frame: str, field: ArrayLike = (1.0, 0.0, 0.0)) -> Measurement:
    """A magnetometer on a frame of a `system`: a constant world `field` (3,) in the frame's own axes, in the unit of the field.

    >>> import dalembert as da
    >>> import numpy as np
    >>> turntable = da.Model([da.rz("turn", name="top", mass=1.0, inertia=(1.0, 1.0, 1.0))])
    >>> da.measure_magnetometer(da.MidpointVI(turntable, dt=0.1), "top").h(np.array([np.pi / 2, 0.0])).round(12)
    array([ 0., -1.,  0.])
    """
    _frame(system, frame)
    vector = finite(field, "field", (3,))
    return _moving(system, lambda s, a: s.rotation(frame).T @ s.ca.DM(vector), _axes(frame, "b"))


def measure_accelerometer(system: OneStep, frame: str, gravity: ArrayLike | None = None) -> Measurement:
    """An accelerometer on a frame of a `system`: acceleration of its origin minus gravity (3,) in its own axes (m/s^2); at rest +g upwards.

    `gravity` (3,) is by default that of the model. It feels the inputs: `update(estimate, z, u)`. Prescribed variables are taken to
    move at constant speed.

    >>> import dalembert as da
    >>> import numpy as np
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> sensor = da.measure_accelerometer(da.MidpointVI(pendulum, dt=0.1), "bob")
    >>> sensor.expected(np.array([0.0, 2.0]), np.zeros(0)).round(12)
    array([ 0. ,  0. , 13.8])
    """
    model = _model(system)
    _frame(system, frame)
    down = uniform_gravity(model) if gravity is None else finite(gravity, "gravity", (3,))

    def make(s: Any, a: Any) -> Any:
        speed = s.rate(s.position(frame))
        return s.rotation(frame).T @ (s.rate(speed) + s.ca.jtimes(speed, s.v, a) - s.ca.DM(down))

    return _moving(system, make, _axes(frame, "a"), accelerated=True)


def measure_force(system: OneStep, *names: str) -> Measurement:
    """A sensor of the forces in constraints of a `system`: of a `Distance` the tension (N; negative where a rod is pressed), of any other
    its multiplier lambda, which is a force where the constraint is a length (the force on the variables is -Dh' lambda).

    `names` are those of `model.constraints`, or two frames of a Distance as "frame1-frame2"; without any, all constraints. It feels the inputs:
    `update(estimate, z, u)`.

    >>> import dalembert as da
    >>> import numpy as np
    >>> bob = da.tx("x", da.ty("y", name="bob", mass=2.0))
    >>> pendulum = da.Model([bob], [da.Gravity((0, -9.8, 0)), da.Distance("world", "bob", 0.5)])
    >>> sensor = da.measure_force(da.MidpointVI(pendulum, dt=0.1), "world-bob")
    >>> sensor.expected(np.array([0.0, -0.5, 0.0, 0.0]), np.zeros(0)).round(12)
    array([19.6])
    """
    model = _model(system)
    rows: list[int] = []
    places, lengths = constraint_rows(model)
    for name in names:
        if name not in places:
            raise ValueError(f"no constraint is called {name!r}{nearest(name, tuple(places))}")
        rows += [i for i in places[name] if i not in rows]
    rows = rows or list(range(model.nc))
    if not rows:
        raise ValueError("the model has no constraints whose force could be measured")
    labels = tuple(f"force.{model.constraints[i]}" for i in rows)
    felt = ConstraintForces(model, complete(system), tuple(rows), tuple(lengths[i] for i in rows))
    return Measurement(felt.value, felt.slope, labels, inputs=True)


def _moving(
    system: OneStep, make: Callable[[Any, Any], Any], names: Sequence[str], *, accelerated: bool = False
) -> Measurement:
    """A sensor from a CasADi expression: `make` gets the model's Symbolic and the symbols of the acceleration."""
    import casadi as ca

    from ..symbolic import Symbolic

    model = _model(system)
    s = Symbolic(model)
    a = ca.SX.sym("a", model.nv)
    expression = ca.SX(ca.vec(make(s, a)))
    blocks = [ca.densify(ca.jacobian(expression, by)) for by in (s.q, s.v, a)]
    felt = Moving(
        model,
        complete(system),
        ca.Function("h", [s.q, s.v, a], [expression]),
        ca.Function("H", [s.q, s.v, a], blocks),
        accelerated,
    )
    return Measurement(felt.value, felt.slope, tuple(names), inputs=accelerated)


def _model(system: OneStep) -> Any:
    """The model of a system whose states are (q, p, v_rho)."""
    model = getattr(system, "model", None)
    names = tuple(getattr(system, "x_names", ()))
    if model is None or not any(name.startswith("p.") for name in names):
        raise TypeError(
            f"{type(system).__name__} has no states (q, p, v_rho) of a Model, whose motion could be measured"
        )
    return model


def _frame(system: OneStep, frame: str) -> None:
    _model(system).frame_index(frame)


def _axes(frame: str, letter: str) -> tuple[str, ...]:
    return tuple(f"{frame}.{letter}{axis}" for axis in "xyz")
