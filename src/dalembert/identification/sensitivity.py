"""Derivatives by parameters: of one step, of whole motions (forward, or backward in one pass), of energies and forces. All exact.

`parameters` are names of `model.parameters` (default: all), and the last axis of every result is in their order. The state of a motion is
x = (q, p, v_rho) as in `System`; its tangent has nv + nd + nkv components (momenta of balls along body axes), of which kinematic
ones do not depend on parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, nearest, needed, vector
from ..errors import ConvergenceError, ModelError
from ..integrate import MidpointVI, State, Trajectory
from ..mechanics.evaluate import core, parameter_links
from ..model import Model

__all__ = [
    "Gradient",
    "energy_by_parameters",
    "force_by_parameters",
    "gradient_of_motion",
    "motion_by_parameters",
    "step_by_parameters",
]


def names_of(model: Model, parameters: Sequence[str] | None) -> tuple[str, ...]:
    """The chosen parameters, checked."""
    known = model.parameters
    if parameters is None:
        if not known:
            raise ModelError("the model has no parameters: put Parameter(name, value) where a number stands")
        return tuple(known)
    if isinstance(parameters, str):
        raise ValueError("parameters must be a list of names")
    for name in parameters:
        if name not in known:
            raise ModelError(f"unknown parameter {name!r}{nearest(name, known)}", culprit=str(name))
    return tuple(parameters)


def step_by_parameters(
    vi: MidpointVI, state: State, u: ArrayLike | None = None, parameters: Sequence[str] | None = None
) -> dict[str, Array]:
    """Derivatives of one step by parameters, at a fixed state and fixed inputs: "q" (nd, n), "p" (nd, n), "lam" (nc, n).

    `u`: the inputs and next kinematic values of the step, as in `System` (default: zero inputs, kinematic variables at rest). "q" is in tangent
    components of the next configuration.

    >>> import dalembert as da
    >>> cart = da.Model([da.tx("x", mass=da.Parameter("m", 2.0))], [da.ConfigForce("x", "push")])
    >>> vi = da.MidpointVI(cart, dt=0.1)
    >>> da.step_by_parameters(vi, vi.state(q=[0.0], p=[4.0]))["q"]  # q' = dt p/m
    array([[-0.1]])
    """
    m = needed(vi, MidpointVI).model
    q0 = m.configuration.point(needed(state, State).q, "state.q")
    p0, t = vector(state.p, m.velocities[: m.nd], "state.p"), float(finite(state.t, "state.t", ()))
    x = np.concatenate(
        [q0, p0, np.zeros(m.nkv) if state.v_rho is None else finite(state.v_rho, "state.v_rho", (m.nkv,))]
    )
    inputs = np.concatenate([np.zeros(m.nu), state.q[m.nqd :]]) if u is None else finite(u, "u", (vi.nu,))
    names = names_of(m, parameters)
    steps = vi.over(np.array([t, t + vi.lengths(1)[0]]))
    q, p, lam = steps.solve(x, inputs, 0)
    after = np.concatenate([q, p, np.zeros(m.nkv)])
    S, L, bad, code = core(m).sensitivities(
        vi.options,
        parameter_links(m, names),
        np.stack([x, after]),
        inputs[None],
        steps.dt,
        lam[None] if m.nc else None,
        np.zeros((2 * m.nd, len(names))),
        True,
    )
    _check(bad, code, 1, steps.t)
    return {"q": S[1, : m.nd], "p": S[1, m.nd :], "lam": L[0]}


def motion_by_parameters(
    vi: MidpointVI, motion: Trajectory, parameters: Sequence[str] | None = None, *, start: ArrayLike | None = None
) -> Array:
    """Derivatives (N+1, 2 nd, n) of (q, p) at all times of a motion by parameters: one forward pass.

    `start` (2 nd, n): those of the initial state, zero by default; with more columns than parameters the others are carried along (an identity
    gives the derivatives by the initial state).

    >>> import dalembert as da
    >>> cart = da.Model([da.tx("x", mass=da.Parameter("m", 2.0))])
    >>> vi = da.MidpointVI(cart, dt=0.1)
    >>> motion = vi.simulate(vi.state(q=[0.0], p=[4.0]), steps=10)
    >>> da.motion_by_parameters(vi, motion)[-1, 0]  # q = t p/m
    array([-1.])
    """
    m, names = needed(vi, MidpointVI).model, names_of(vi.model, parameters)
    steps = vi.over(needed(motion, Trajectory).t)
    X, U = steps.curve(motion)
    S0 = np.zeros((2 * m.nd, len(names))) if start is None else finite(start, "start", (2 * m.nd, None))
    S, _, bad, code = core(m).sensitivities(
        vi.options,
        parameter_links(m, names),
        X,
        U,
        steps.dt,
        np.ascontiguousarray(motion.lam) if m.nc else None,
        np.ascontiguousarray(S0),
        False,
    )
    _check(bad, code, steps.count, steps.t)
    return S


@dataclass(frozen=True)
class Gradient:
    """Gradient of a function of a motion: by its first state (ndx,), its inputs (N, nu) and parameters (n,)."""

    state: Array
    inputs: Array
    parameters: Array


def gradient_of_motion(
    vi: MidpointVI,
    motion: Trajectory,
    Z: ArrayLike,
    parameters: Sequence[str] | None = None,
    *,
    multipliers: ArrayLike | None = None,
) -> Gradient:
    """Gradient of a function of a motion whose derivatives by the states are Z (N+1, ndx): one backward pass, whatever the number of
    parameters.

    `multipliers` (N, nc): derivatives of the function by the multipliers, if it depends on them.

    >>> import dalembert as da
    >>> import numpy as np
    >>> cart = da.Model([da.tx("x", mass=da.Parameter("m", 2.0))])
    >>> vi = da.MidpointVI(cart, dt=0.1)
    >>> motion = vi.simulate(vi.state(q=[0.0], p=[4.0]), steps=10)
    >>> Z = np.zeros((11, 2)); Z[-1, 0] = 1.0  # the last q = t p/m
    >>> g = da.gradient_of_motion(vi, motion, Z)
    >>> g.parameters, g.state
    (array([-1.]), array([1. , 0.5]))
    """
    m = needed(vi, MidpointVI).model
    names = names_of(m, parameters) if parameters is not None or m.parameters else ()
    steps = vi.over(needed(motion, Trajectory).t)
    X, U = steps.curve(motion)
    weights = finite(Z, "Z", (steps.count + 1, vi.ndx))
    of_lam = None if multipliers is None else finite(multipliers, "multipliers", (steps.count, m.nc))
    state, inputs, by, bad, code = core(m).rollout_adjoint(
        vi.options,
        parameter_links(m, names),
        X,
        U,
        steps.dt,
        np.ascontiguousarray(motion.lam) if m.nc else None,
        weights,
        of_lam,
    )
    _check(steps.count if bad < 0 else bad, code, steps.count, steps.t)
    return Gradient(state, inputs, by)


def energy_by_parameters(
    model: Model, q: ArrayLike, v: ArrayLike, parameters: Sequence[str] | None = None
) -> dict[str, Array]:
    """Derivatives (n,) of the "kinetic" and the "potential" energy at (q, v) by parameters.

    >>> import dalembert as da
    >>> cart = da.Model([da.tx("x", mass=da.Parameter("m", 2.0))])
    >>> da.energy_by_parameters(cart, [0.0], [3.0])["kinetic"]  # v^2/2
    array([4.5])
    """
    names = names_of(needed(model, Model), parameters)
    links, c = parameter_links(model, names), core(model)
    point, rate = model.configuration.point(q), model.configuration.tangent(v)
    at_rest = c.lagrangian_parameters(point, np.zeros(model.nv), links)
    return {"kinetic": c.lagrangian_parameters(point, rate, links) - at_rest, "potential": -at_rest}


def force_by_parameters(
    model: Model, q: ArrayLike, v: ArrayLike, u: ArrayLike | None = None, parameters: Sequence[str] | None = None
) -> Array:
    """Derivatives (nd, n) of the generalized forces `da.force(model, q, v, u)` by parameters.

    >>> import dalembert as da
    >>> cart = da.Model([da.tx("x", mass=1.0)], [da.Damping(da.Parameter("c", 0.1))])
    >>> da.force_by_parameters(cart, [0.0], [3.0])
    array([[-3.]])
    """
    names = names_of(needed(model, Model), parameters)
    inputs = np.zeros(model.nu) if u is None else finite(u, "u", (model.nu,))
    out: Array = core(model).force_parameters(
        model.configuration.point(q), model.configuration.tangent(v), inputs, parameter_links(model, names)
    )
    return out


def _check(bad: int, code: int, steps: int, t: Any) -> None:
    if bad < steps:
        why = "its Newton matrix is singular" if code == 3 else "the state there is not the end of a step"
        raise ConvergenceError(
            f"the step at k = {bad} cannot be differentiated by parameters: {why}", step=bad, time=float(t[bad])
        )
