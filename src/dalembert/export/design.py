"""A filter and a regulator as constant tables of C for `c/control.c`."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from ..arrays import Array, needed, number
from ..control import Feedback
from ..control.feedback import Wrapped
from ..estimate import ExtendedKalmanFilter
from ..estimate.filter import gate_threshold
from ..estimate.measurement import Measurement
from ..integrate import MidpointVI
from ..integrate.reachable import along
from ..model.tape import program_of
from ..system import System
from .tables import ExportError, Facts, Writer
from .tapes import program_function

Limits = Mapping[str, tuple[float | None, float | None]]


def filter_tables(ekf: ExtendedKalmanFilter | None, vi: MidpointVI, write: Writer) -> tuple[str, Facts]:
    """Tables of a filter: sensors as rows of C, noise, gate."""
    if ekf is None:
        return "", {}
    needed(ekf, ExtendedKalmanFilter)
    own = ekf.system.one_step if isinstance(ekf.system, System) else ekf.system
    if not isinstance(own, MidpointVI) or own.model is not vi.model or own.scheme != vi.scheme:
        raise ExportError("the filter is of another system than the one that is exported", culprit="ekf")
    if ekf.second_order:
        raise ExportError(
            "filters with second_order=True are not written in C: make the filter without it, and give Q what the step bends",
            culprit="ekf",
        )
    sensor = ekf.measurement
    Q = np.asarray(ekf.Q)
    moving = Q.ndim == 3  # one matrix per step
    rows = Q if moving else Q[None]
    R, nz = np.asarray(ekf.R), sensor.size
    diagonal = not ekf.tied and not any(np.any(q - np.diag(np.diag(q))) for q in rows)
    note = (
        "covariance Q of each step, after the last that of the last"
        if moving
        else f"covariance Q of a step of {vi.dt:g} s"
    )
    seen, found = _constant_sensor(sensor, write) if _is_linear(ekf, vi) else _sensor_function(sensor, vi, write)
    parts = [
        seen,
        write.reals("sensor_noise", R.ravel(), "covariance R of the measurement"),
        write.reals("process_noise", np.ravel([np.diag(q) if diagonal else q for q in rows]), note),
    ]
    if sensor.angles:
        parts.append(write.integers("sensor_angle", [int(i in sensor.angles) for i in range(nz)]))
    if ekf.gate is not None:
        limits = [0.0, *(gate_threshold(ekf.gate, k) for k in range(1, nz + 1))]
        parts.append(write.reals("gate", limits, "largest squared length of an innovation of so many entries"))
    return "".join(parts), found | {
        "ekf": True,
        "tied": bool(ekf.tied),
        "gate": ekf.gate is not None,
        "angles": len(sensor.angles),
        "nz": nz,
        "z_names": sensor.names,
        "noise_full": not diagonal,
        "noise_rows": len(rows) if moving else 0,
        "noise_row": f"process_noise + m->predicted * {'NX' if diagonal else 'NX * NX'}" if moving else "process_noise",
    }


def _is_linear(ekf: ExtendedKalmanFilter, vi: MidpointVI) -> bool:
    return ekf.measurement.matrix is not None and vi.model.configuration.flat


def _constant_sensor(sensor: Measurement, write: Writer) -> tuple[str, Facts]:
    """z = C x as a sparse table."""
    C = np.asarray(sensor.matrix)
    places = [np.flatnonzero(row) for row in C]
    text = f"/* z = C x: {', '.join(sensor.names)}; row i has entries sensor_first[i] to sensor_first[i + 1] */\n"
    text += write.integers("sensor_first", np.cumsum([0, *map(len, places)]).tolist())
    text += write.integers("sensor_state", [int(i) for p in places for i in p])
    text += write.reals("sensor_value", [float(C[i, k]) for i, p in enumerate(places) for k in p])
    return text, {"slope": "sensor_value"}


def _sensor_function(sensor: Measurement, vi: MidpointVI, write: Writer) -> tuple[str, Facts]:
    """h and its derivative by tangent components as one function of x; which components an entry feels is known."""
    import casadi as ca

    model, names = vi.model, ", ".join(sensor.names)
    x, v, a = (ca.SX.sym(letter, n) for letter, n in (("x", vi.nx), ("v", model.nv), ("a", model.nv)))
    h = sensor.expression(x, v, a)
    if h is None:
        raise ExportError(
            f"sensor {names}: only sensors of states, frames, velocities and expressions of the configuration are exported; "
            "measure a gyroscope or speeds (measure_gyroscope, measure_velocity) in the place of accelerations and forces",
            culprit=names,
        )
    accelerated = bool(ca.jacobian(ca.vec(h), a).nnz())
    y = ca.vertcat(x, v, a) if accelerated else ca.vertcat(x, v)
    H, by_v = ca.jacobian(ca.vec(h), x) @ _by_tangent(x, vi), ca.jacobian(ca.vec(h), y[vi.nx :])
    moving = [i for i in range(sensor.size) if by_v[i, :].nnz()]
    columns = [range(vi.ndx) if i in moving else H[i, :].sparsity().T.row() for i in range(sensor.size)]
    entries = [H[i, j] for i, row in enumerate(columns) for j in row]
    speeds = [by_v[i, j] for i in moving for j in range(by_v.shape[1])]
    if moving and not model.prescribed.flat:
        raise ExportError(
            f"sensor {names}: velocities are measured where no ball is prescribed; prescribe three hinges (rz, ry, rx of Kinematic names)",
            culprit=names,
        )
    if accelerated and model.nc:
        raise ExportError(
            f"sensor {names}: accelerations are measured where there are no constraints; measure a gyroscope or speeds "
            "(measure_gyroscope, measure_velocity)",
            culprit=names,
        )
    outputs = ca.vertcat(ca.densify(ca.vec(h)), *map(ca.densify, entries + speeds))
    program = program_of([y], outputs, "sensor")
    text = f"/* z = h(x): {names}; row i of its derivative has the entries sensor_first[i] to sensor_first[i + 1], by the states sensor_state */\n"
    text += write.integers("sensor_first", np.cumsum([0, *map(len, columns)]).tolist())
    text += write.integers("sensor_state", [int(j) for row in columns for j in row])
    if moving:
        text += write.integers("moving_row", moving, "rows that feel velocities")
    text += "\n/* x = (q, p, rates), v -> h, and the entries of its derivative by x, then by v (and dv/dt) of the rows that feel it */\n"
    text += program_function("sensor_values", program, write)
    sensed = sensor.size + len(entries)
    return text, {
        "slope": "m->sensed + NZ",
        "sensing": True,
        "speeds": len(moving),
        "accelerated": accelerated,
        "and_accelerations": ", and by accelerations" if accelerated else "",
        "felt": "(2 * NV)" if accelerated else "NV",
        "sensed": sensed + len(speeds),
        "sensed_by_x": sensed,
    }


def _by_tangent(x: Any, vi: MidpointVI) -> Any:
    """How coordinates x (nx,) change with tangent components (nx, ndx), as a CasADi expression."""
    import casadi as ca

    model = vi.model
    out = ca.SX(vi.nx, vi.ndx)
    for q, v in zip(*model.configuration.numbers, strict=True):
        out[int(q), int(v)] = 1
    for place in model.configuration.places:  # a quaternion (w, r) becomes (-r.e/2, (w e + r x e)/2)
        w, r = x[place.q.start], x[place.q.start + 1 : place.q.stop]
        out[place.q.start, place.v.start : place.v.stop] = -r.T / 2
        out[place.q.start + 1 : place.q.stop, place.v.start : place.v.stop] = (w * ca.SX.eye(3) + ca.skew(r)) / 2
    for i in range(vi.nx - model.nq):
        out[model.nq + i, model.nv + i] = 1
    return out


def gain_tables(
    law: Feedback | None, limits: Limits | None, every: int, vi: MidpointVI, write: Writer
) -> tuple[str, Facts]:
    """Tables of a regulator: one row, or one per `every` steps along a motion, interpolated between."""
    if law is None:
        if limits is not None:
            raise ValueError("limits are those of gains: give gains= too")
        return "", {}
    if needed(law, Feedback).K.shape[1:] != (vi.nu, vi.ndx):
        raise ExportError(f"the gains are of shape {law.K.shape[1:]}, not {(vi.nu, vi.ndx)}", culprit="gains")
    gauged = is_gauged(law, vi)
    moving = law.steps > 1
    if moving and not np.allclose(np.diff(law.t), vi.dt, rtol=1e-6, atol=0):
        raise ExportError(f"the steps of the regulator are not of {vi.dt:g} s", culprit="gains")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be a positive whole number, not {every!r}")
    pick = list(range(0, law.steps, every))
    if pick[-1] != law.steps - 1:
        pick.append(law.steps - 1)
    if every > 1 and (law.steps - 1) % every:
        raise ValueError(f"every={every} does not divide the {law.steps - 1} steps between the first and the last gain")
    X, U, K = law.X[pick], law.U[pick], law.K[pick]
    note = f"one row per {every * vi.dt:g} s" if moving else ""
    parts = [
        write.reals("reference_x", X.ravel(), f"u = U - K (x - X): the reference{', ' + note if note else ''}"),
        write.reals("reference_u", U.ravel()),
        write.reals("gain", K.ravel()),
    ]
    if gauged:
        parts.append(write.reals("gauge", along(vi.model, X)[2].ravel(), "part of the momenta that no step feels"))
    angles = list(law.difference.angles) if isinstance(law.difference, Wrapped) else []
    if angles:
        parts.append(write.integers("wrapped_state", angles))
    bounds = input_limits(limits, vi)
    if bounds is not None:
        most = 1e290 if write.real == "double" else 1e30
        least, top = (np.clip(side, -most, most) for side in bounds)
        parts += [write.reals("input_least", least, "limits of the inputs"), write.reals("input_most", top)]

    def entry(table: str, width: str, i: str) -> str:
        return f"between({table}, row, next, {width}, {i}, share)" if moving else f"{table}[{i}]"

    return "".join(parts), {
        "gains": True,
        "moving_gains": moving,
        "gauged": gauged,
        "wrapped": len(angles),
        "gain_every": every,
        "gain_rows": len(pick),
        "limits": bounds is not None,
        "reference_entry": entry("reference_x", "NQ + ND + NK", "i"),
        "input_entry": entry("reference_u", "NW", "i"),
        "gain_entry": entry("gain", "NW * NX", "i * NX + j"),
        "gauge_entry": entry("gauge", "NC", "j"),
        "place_slack": "1e-6" if write.real == "double" else "1e-3",
    }


def is_gauged(law: Feedback, vi: MidpointVI) -> bool:
    """Whether a law compares momenta without what no step feels (where there are constraints)."""
    difference = law.difference.difference if isinstance(law.difference, Wrapped) else law.difference
    word = getattr(difference, "__name__", "")
    if word not in ("subtract", "difference", "free_difference"):
        raise ExportError("the regulator compares states by a function of its own", culprit="gains")
    return word == "free_difference" and vi.model.nc > 0


def input_limits(limits: Limits | None, vi: MidpointVI) -> tuple[Array, Array] | None:
    """Least and largest inputs (nu,), infinite where nothing is said."""
    if limits is None:
        return None
    least, most = np.full(vi.nu, -inf), np.full(vi.nu, inf)
    for name, pair in needed(limits, Mapping).items():
        if name not in vi.u_names:
            raise ValueError(f"limits: no input is called {name!r}; there are {', '.join(vi.u_names)}")
        low, high = needed(pair, tuple, list)
        i = vi.u_names.index(name)
        least[i] = -inf if low is None else number(low, f"limit of {name}")
        most[i] = inf if high is None else number(high, f"limit of {name}")
        if not least[i] <= most[i]:
            raise ValueError(f"limits of {name}: {low} is above {high}")
    return least, most
