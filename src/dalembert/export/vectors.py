"""Test vectors: a short run of the library that the exported code must repeat."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, finite
from ..control import Feedback
from ..control.feedback import Wrapped, subtract
from ..errors import ConvergenceError
from ..estimate import ExtendedKalmanFilter
from ..integrate import MidpointVI, State
from ..integrate.reachable import along
from ..mechanics import constraint_jacobian, satisfy_constraints
from .design import is_gauged
from .tables import Facts, Writer


def start_state(vi: MidpointVI, start: object, gains: Feedback | None) -> Array:
    """x (nx,) from which the vectors start: what is given, the reference of the gains, or the neutral configuration."""
    model = vi.model
    if isinstance(start, State):
        rates = np.zeros(model.nkv) if start.v_rho is None else start.v_rho
        return np.concatenate([start.q, start.p, rates])
    if start is not None:
        return finite(start, "start", (vi.nx,))
    if gains is not None:
        return np.array(gains.X[0])
    try:
        q = satisfy_constraints(model, model.neutral())
        found = vi.state(q, check=False)  # limits do not matter to the code
        x = np.concatenate([found.q, found.p, np.zeros(model.nkv)])
        vi.advance(x, np.concatenate([np.zeros(model.nu), q[model.nqd :]]))
    except (ConvergenceError, ValueError) as error:
        raise ValueError(f"give start= (a State) from which the test vectors can run: {error}") from None
    return x


def vector_inputs(vi: MidpointVI, x0: Array, steps: int, gains: Feedback | None = None) -> Array:
    """Inputs and prescribed values (steps, nu + nk) of the vectors: small ones, or those of the reference of the gains."""
    model = vi.model
    k = np.arange(1, steps + 1)[:, None]
    push = 0.1 * np.sin(0.3 * k + np.arange(model.nu))
    if gains is not None:
        push = np.repeat(gains.U[:1, : model.nu], steps, 0)
    prescribed = x0[model.nqd : model.nq]
    return np.hstack([push, prescribed + 0.002 * (1 - np.cos(0.2 * k + 0 * prescribed))])


def vector_tables(
    vi: MidpointVI,
    x0: Array,
    steps: int,
    ekf: ExtendedKalmanFilter | None,
    gains: Feedback | None,
    every: int,
    bounds: tuple[Array, Array] | None,
    linearize: bool,
    write: Writer,
) -> tuple[str, Facts]:
    """The tables of `vectors.h`, and what `main.c` asks for."""
    model = vi.model
    nu, nd, nq = model.nu, model.nd, model.nq
    W = vector_inputs(vi, x0, steps, gains)
    X, grown, growth = [x0], np.eye(vi.ndx), 1.0  # growth: what the motion makes of rounding
    for w in W:
        x, A, B = vi.advance(X[-1], w)
        X.append(x)
        grown = A @ grown
        growth = max(growth, float(np.abs(grown).max()))
    parts = _rows(write, "vector_q", x0[:nq]) + _rows(write, "vector_p", x0[nq : nq + nd])
    if nu:
        parts += _rows(write, "vector_u", W[:, :nu])
    if model.nk:
        parts += _rows(write, "vector_rho", W[:, nu:])
    parts += _rows(write, "vector_steps", np.stack(X[1:])[:, : nq + nd])
    if linearize:
        parts += _rows(write, "vector_a", A.ravel())
        if vi.nu:
            parts += _rows(write, "vector_b", B.ravel())
    if ekf is not None or gains is not None:
        parts += _loop(vi, x0, W, ekf, gains, every, bounds, write)
    bound = max(1e-11, 1e-14 * growth) if write.real == "double" else max(1e-4, 3e-6 * growth)
    words = [w for w, there in (("control", gains), ("predict, update" if ekf is not None else "step", True)) if there]
    rows = ", vector_u[k]" if nu else "", ", vector_rho[k]" if model.nk else ""
    own = (", w" if nu else "") + (f", w + {nu}" if model.nk and nu else ", w" if model.nk else "")
    return parts, {
        "vectors": steps,
        "bound": float(f"{bound:.3g}"),
        "vector_bound": f"{bound:.3g}{'f' if write.real == 'float' else ''}",
        "vector_u": rows[0],
        "vector_rho": rows[1],
        "vector_time": f", (({write.real})k) * @N@_DT" if gains is not None and gains.steps > 1 else "",
        "loop_words": ", ".join(words),
        "loop_inputs": own if gains is not None else "".join(rows),
    }


def _loop(
    vi: MidpointVI,
    x0: Array,
    W: Array,
    ekf: ExtendedKalmanFilter | None,
    gains: Feedback | None,
    every: int,
    bounds: tuple[Array, Array] | None,
    write: Writer,
) -> str:
    """The loop of regulator and filter that measures what it moves."""
    rng = np.random.default_rng(0)
    count, nq, nd = len(W), vi.model.nq, vi.model.nd
    x, truth, inputs, states, variances, Z = x0, x0, [], [], [], np.zeros((count, 0))
    first = np.full(vi.ndx, 1e-4)
    estimate = None
    if ekf is not None:
        R = np.asarray(ekf.R)
        Z = rng.normal(size=(count, len(R))) * np.sqrt(np.diag(R)) * 0.5
        Z[count // 3, 0] = np.nan
        estimate = ekf.start(x0, first)
        x = estimate.mean
    for k in range(count):
        w = W[k]
        if gains is not None:
            w = gains.input(k, x) if every == 1 else _interpolated(vi, gains, every, k, x)
            w = w if bounds is None else np.clip(w, *bounds)
            inputs.append(w)
        if ekf is not None and estimate is not None:
            truth = vi.f(truth, w)
            Z[k] += ekf.measurement.expected(truth)
            row = min(k, len(np.asarray(ekf.Q)) - 1) if np.ndim(ekf.Q) == 3 else k  # noise per step: the last goes on
            estimate = ekf.update(ekf.predict(estimate, w, row), Z[k])
            x = estimate.mean
            variances.append(np.diag(estimate.covariance))
        else:
            x = vi.f(x, w)
        states.append(x[: nq + nd])
    out = _rows(write, "vector_loop", np.stack(states))
    if gains is not None:
        out += _rows(write, "vector_w", np.stack(inputs))
    if ekf is not None:
        out += _rows(write, "vector_variance", first) + _rows(write, "vector_covariance", np.stack(variances))
        out += _rows(write, "vector_z", Z)
    return out


def _interpolated(vi: MidpointVI, law: Feedback, every: int, k: int, x: Array) -> Array:
    """The input of a law of which every `every`-th row is kept, the others interpolated."""
    k = min(k, law.steps - 1)
    row = k // every * every
    after = min(row + every, law.steps - 1)
    share = (k - row) / every

    def between(a: Array) -> Array:
        return np.asarray(a[row] + share * (a[after] - a[row]))

    model, state = vi.model, np.array(x)
    if is_gauged(law, vi):
        own, nu = along(model, x[None])[1][0], along(model, np.asarray(law.X))[2]
        state[model.nq : model.nq + model.nd] = (
            own + between(nu) @ constraint_jacobian(model, x[: model.nq])[:, : model.nd]
        )
    reference = between(law.X)
    for place in model.configuration.places:
        reference[place.q] /= np.linalg.norm(reference[place.q])
    off = vi.difference(reference, state)
    if isinstance(law.difference, Wrapped):
        off = Wrapped(subtract, law.difference.angles)(np.zeros(len(off)), off)
    return between(law.U) - between(law.K) @ off


def _rows(write: Writer, name: str, values: Array) -> str:
    text = write.reals(name, np.nan_to_num(values, nan=12345.0)).replace("static const real", "static const @n@_real")
    return text.replace("12345.0f", "NAN").replace("12345.0", "NAN") if np.isnan(values).any() else text
