"""Test vectors: a short run of the library that the exported code must repeat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Array, finite
from ..control import Feedback
from ..control.feedback import Wrapped, subtract
from ..errors import ConvergenceError
from ..estimate import ExtendedKalmanFilter
from ..integrate import MidpointVI, State
from ..integrate.prescribed import inputs_between
from ..integrate.reachable import along
from ..mechanics import constraint_jacobian, mass_matrix, satisfy_constraints
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
        vi.advance(x, np.concatenate([np.zeros(model.nu), still(vi, x)]))
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
    prescribed = still(vi, x0)
    return np.hstack([push, prescribed + 0.002 * (1 - np.cos(0.2 * k + 0 * prescribed))])


def still(vi: MidpointVI, x: Array) -> Array:
    """Inputs (nkv,) with which prescribed variables stay where they are in the state x (nx,): numbers their own, balls zero."""
    own = x[vi.model.nqd : vi.model.nq]
    return inputs_between(vi.model.prescribed, own, own, 1.0)


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
    least, ulp, rounding = (1e-11, 1.1e-16, 1e-14) if write.real == "double" else (1e-4, 6e-8, 3e-6)
    bound = max(least, rounding * growth)
    noise = _slope_noise(vi, X[-1][:nq])
    slope_bound = max(bound, 30 * ulp * float(noise.max()) / max(1.0, float(np.abs(A).max())))
    loop_bound = bound
    if ekf is not None or gains is not None:
        text, swing = _loop(vi, x0, W, ekf, gains, every, bounds, write)
        parts += text
        loop_bound = max(bound, 30 * ulp * swing)
    words = [w for w, there in (("control", gains), ("predict, update" if ekf is not None else "step", True)) if there]
    rows = ", vector_u[k]" if nu else "", ", vector_rho[k]" if model.nk else ""
    own = (", w" if nu else "") + (f", w + {nu}" if model.nk and nu else ", w" if model.nk else "")
    return parts, {
        "vectors": steps,
        "bound": float(f"{bound:.3g}"),
        "loop_bound": float(f"{loop_bound:.3g}"),
        "vector_bound": f"{bound:.3g}",
        "slope_bound": f"{slope_bound:.3g}",
        "vector_u": rows[0],
        "vector_rho": rows[1],
        "vector_time": f", (({write.real})k) * @N@_DT" if gains is not None and gains.steps > 1 else "",
        "loop_words": ", ".join(words),
        "loop_inputs": own if gains is not None else "".join(rows),
    }


def _slope_noise(vi: MidpointVI, q: Array) -> Array:
    """(ndx, ndx): what rounding of the blocks of A is relative to. They are differences of numbers as large as M/dt, times N^-1 or not."""
    model = vi.model
    M = np.abs(mass_matrix(model, q)[: model.nd, : model.nd])
    rate = float(np.abs(1 / vi.parts).sum()) / vi.dt if vi.order > 2 else 1 / vi.dt  # parts of a step add up
    out = np.eye(vi.ndx)
    out[model.nv : model.nv + model.nd, : model.nd] = M * rate
    return out


def _loop(
    vi: MidpointVI,
    x0: Array,
    W: Array,
    ekf: ExtendedKalmanFilter | None,
    gains: Feedback | None,
    every: int,
    bounds: tuple[Array, Array] | None,
    write: Writer,
) -> tuple[str, float]:
    """The loop of regulator and filter that measures what it moves, and how much more than rounding the loop makes of rounding in its cycles."""
    rng = np.random.default_rng(0)
    first = np.full(vi.ndx, 1e-4)
    Z = np.zeros((len(W), 0))
    if ekf is not None:
        R = np.asarray(ekf.R)
        Z = rng.normal(size=(len(W), len(R))) * np.sqrt(np.diag(R)) * 0.5
        Z[len(W) // 3, 0] = np.nan

    def cycles(noise: float) -> tuple[Array, Array, Array]:
        """(states, inputs, variances) of the loop with `noise` in the state and the covariance of every cycle; the first run is measured."""
        shape = _slope_noise(vi, x0[: vi.model.nq])
        x, truth, states, inputs, variances = x0, x0, [], [], []
        estimate = None if ekf is None else ekf.start(x0, first)
        x = x if estimate is None else estimate.mean
        for k, w in enumerate(W):
            if gains is not None:
                w = gains.input(k, x) if every == 1 else _interpolated(vi, gains, every, k, x)
                w = w if bounds is None else np.clip(w, *bounds)
                inputs.append(w)
            if ekf is not None and estimate is not None:
                if not noise:
                    truth = vi.f(truth, w)
                    Z[k] += ekf.measurement.expected(truth, w[: vi.model.nu])
                row = (
                    min(k, len(np.asarray(ekf.Q)) - 1) if np.ndim(ekf.Q) == 3 else k
                )  # noise per step: the last goes on
                estimate = ekf.predict(estimate, w, row)
                if noise:
                    by = np.eye(vi.ndx) + noise * shape * rng.normal(size=shape.shape)
                    estimate = replace(estimate, covariance=by @ estimate.covariance @ by.T)
                estimate = ekf.update(estimate, Z[k], w if ekf.measurement.inputs else None)
                x = estimate.mean
                variances.append(np.diag(estimate.covariance))
            else:
                x = vi.f(x, w)
            if noise:
                x = vi.retract(x, noise * rng.normal(size=vi.ndx) * (1 + np.abs(x).max()))
                estimate = None if estimate is None else replace(estimate, mean=x)
            states.append(x[: vi.model.nq + vi.model.nd])
        return np.stack(states), np.array(inputs), np.array(variances)[..., None]

    found = cycles(0.0)
    small = 1e-12
    moved = [cycles(small) for _ in range(3)]
    swing = max(
        float((np.abs(a - b) / _sizes(b)).max(initial=0)) / small
        for run in moved
        for a, b in zip(run, found, strict=True)
    )
    states, inputs, variances = found
    out = _rows(write, "vector_loop", states)
    if gains is not None:
        out += _rows(write, "vector_w", inputs)
    if ekf is not None:
        out += _rows(write, "vector_variance", first) + _rows(write, "vector_covariance", variances[..., 0])
        out += _rows(write, "vector_z", Z)
    return out, swing


def _sizes(rows: Array) -> Array:
    """What the example compares the numbers of each row with: the largest of them, or one."""
    return np.maximum(1.0, np.abs(rows).max(axis=-1, keepdims=True, initial=0))


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
