"""Motions that tell much: inputs under which measurements say most about parameters.

The information matrix of a motion (exact, as in `identify`) is a function of its inputs. These are sums of sines and cosines, bent so that they stay
within limits, and their coefficients are chosen by a quasi-Newton search from the best of several random ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, nearest, needed, number, whole
from ..errors import ConvergenceError, ModelError
from ..integrate import MidpointVI, State, Trajectory
from .fit import Problem, _named, _scales
from .record import Record, Seen
from .result import Identifiability, identifiability_of

__all__ = ["Excitation", "excite"]


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion of much information: `motion`, with its inputs `motion.u`; `identifiability`: what its measurements tell.

    `value`: the criterion (larger is better), and `first`, that of the best random inputs; `history` of the search; `excess`: how far
    the motion leaves the ranges that it should keep to (0: nowhere).
    """

    motion: Trajectory
    identifiability: Identifiability
    value: float
    first: float
    history: tuple[float, ...]
    excess: float

    def __str__(self) -> str:
        return f"Excitation: criterion {self.first:.4g} -> {self.value:.4g}\n{self.identifiability}"


def excite(
    vi: MidpointVI,
    start: State,
    steps: int,
    parameters: Sequence[str] | None = None,
    measurement: Sequence[str] | None = None,
    *,
    limit: float | Mapping[str, float],
    stay: Mapping[str, tuple[float, float]] | None = None,
    noise: float | Mapping[str, float] | ArrayLike = 1.0,
    criterion: str = "D",
    known_start: bool = False,
    waves: int = 3,
    tries: int = 8,
    max_iterations: int = 20,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Excitation:
    """Inputs, and the motion under them, whose measurements tell most about parameters: for a record that is worth its time.

    `vi` steps the model (its values of the parameters are the guess around which information is counted), from `start` and for `steps` steps.
    `parameters`, `measurement` and `noise` as in `identify`; `known_start`: the first state is not to be estimated. `limit`: largest size of an
    input, one number or by name. `stay`: ranges {variable: (low, high)} to keep to, softly. `criterion`: "D" makes the volume of the
    confidence ellipsoid small (value: log det of the information, against a prior as wide as the parameters are large), "E" its longest axis
    (value: log of the smallest eigenvalue among the directions that can be known). `waves`: frequencies of the inputs, multiples of one
    over the whole length; `tries` random starts from `seed`, then at most `max_iterations` of the search; `progress` is called with a line
    about each.

    >>> import dalembert as da
    >>> m, c = da.Parameter("m", 1.0), da.Parameter("c", 0.2)
    >>> arm = da.Model([da.rx("theta", da.tz(-1.0, mass=m))], [da.Gravity(), da.Damping(c), da.ConfigForce("theta", "tau")])
    >>> vi = da.MidpointVI(arm, dt=0.05)
    >>> plan = da.excite(vi, vi.state(), 60, limit=3.0, noise=1e-3, tries=3, max_iterations=4)
    >>> plan.value > plan.first, bool(abs(plan.motion.u).max() <= 3.0)
    (True, True)
    """
    vi, names = _named(needed(vi, MidpointVI), parameters)
    model, count = vi.model, whole(steps, "steps")
    if not model.nu or model.nk:
        raise ModelError(
            f"{model.name}: a motion is planned by inputs of forces, {'which there are none of' if not model.nu else 'not by kinematic variables'}"
        )
    if criterion not in ("D", "E"):
        raise ValueError(f"criterion must be 'D' or 'E', not {criterion!r}")
    if count < 1 or whole(waves, "waves") < 1 or whole(tries, "tries") < 1:
        raise ValueError("steps, waves and tries must be at least 1")
    seen = Seen(model, measurement if measurement is not None else model.dynamic)
    deviations, scales = seen.deviations(noise), _scales(model, names)
    most = _limits(limit, model.inputs)
    ranges = _ranges(stay, model)
    phase = 2 * np.pi * (np.arange(count)[:, None] + 0.5) / count * np.arange(1, waves + 1)
    shapes = np.hstack([np.sin(phase), np.cos(phase)])  # (N, 2 waves)
    t = needed(start, State).t + np.concatenate([[0.0], np.cumsum(vi.lengths(count))])
    rank: int | None = None

    def inputs(z: Array) -> Array:
        return np.asarray(most * np.tanh(shapes @ z.reshape(2 * waves, model.nu)))

    def look(z: Array) -> tuple[Array, float, float]:
        """Information (n, n), how much and how far ranges are left."""
        u = inputs(z)
        record = Record(t, np.zeros((count + 1, seen.size)), u, None, start if known_start else None, start)
        problem = Problem(vi, [record], names, seen, deviations, count)
        problem.settle(model)
        X = problem.simulate(model, problem.segments[0])
        over = [(np.maximum(low - X[:, i], X[:, i] - high).clip(0.0), high - low) for i, low, high in ranges]
        cost = sum(float(np.mean((x / width) ** 2)) for x, width in over)
        H = problem.linearize(model).H
        return H * np.outer(scales, scales), cost, max((float(x.max()) for x, _ in over), default=0.0)

    def value(z: Array) -> float:
        nonlocal rank
        try:
            F, cost, _ = look(z)
        except (ConvergenceError, np.linalg.LinAlgError):
            return -np.inf
        size = np.linalg.eigvalsh(F)[::-1]
        if rank is None:
            rank = max(1, int((size > 1e-12 * size[0]).sum()))
        good = float(np.log1p(size.clip(0.0)).sum()) if criterion == "D" else float(np.log(max(size[rank - 1], 1e-300)))
        return good - 1e3 * cost

    rng = np.random.default_rng(seed)
    starts = [rng.normal(size=2 * waves * model.nu) * 0.7 for _ in range(tries)]
    values = [value(z) for z in starts]
    z, first = starts[int(np.argmax(values))], max(values)
    if not np.isfinite(first):
        raise ConvergenceError("no motion under random inputs could be followed: take shorter steps or a smaller limit")
    z, history = _climb(value, z, first, max_iterations, progress)
    F, _, excess = look(z)
    motion = vi.simulate(start, steps=count, u=inputs(z), accuracy="ignore")
    report = identifiability_of(names, scales, F / np.outer(scales, scales))
    return Excitation(motion, report, history[-1], first, tuple(history), excess)


def _climb(
    value: Callable[[Array], float], z: Array, best: float, iterations: int, progress: Callable[[str], None] | None
) -> tuple[Array, list[float]]:
    """BFGS uphill with differences of the (exact) criterion, from z with the value `best`."""

    def slope(z: Array, here: float) -> Array:
        h = 1e-5
        out = np.zeros(len(z))
        for i in range(len(z)):
            step = np.zeros(len(z))
            step[i] = h
            a, b = value(z + step), value(z - step)
            out[i] = (a - b) / (2 * h) if np.isfinite(a) and np.isfinite(b) else 0.0
        return out

    history = [best]
    inverse, g = np.eye(len(z)), slope(z, best)
    inverse /= max(float(np.linalg.norm(g)), 1e-12)  # a first step of length one
    for iteration in range(iterations):
        d = inverse @ g
        if d @ g <= 0:
            inverse, d = np.eye(len(z)) / max(float(np.linalg.norm(g)), 1e-12), g
        share = 1.0
        while share > 1e-6:
            new = value(z + share * d)
            if new >= best + 1e-4 * share * float(d @ g):
                break
            share *= 0.4
        else:
            break
        s, old = share * d, g
        z, gain, best = z + s, new - best, new
        history.append(best)
        if progress is not None:
            progress(f"iteration {iteration + 1}: criterion {best:.6g}")
        if gain < 1e-6 * (1 + abs(best)):
            break
        g = slope(z, best)
        y = old - g
        if s @ y > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            E = np.eye(len(z)) - np.outer(s, y) / (s @ y)
            inverse = E @ inverse @ E.T + np.outer(s, s) / (s @ y)
    return z, history


def _limits(limit: float | Mapping[str, float], inputs: tuple[str, ...]) -> Array:
    if not isinstance(limit, Mapping):
        out = np.full(len(inputs), number(limit, "limit"))
    else:
        for name in limit:
            if name not in inputs:
                raise ValueError(f"limit: unknown input {name!r}{nearest(name, inputs)}")
        missing = [name for name in inputs if name not in limit]
        if missing:
            raise ValueError(f"limit: that of '{missing[0]}' is missing")
        out = finite([limit[name] for name in inputs], "limit", (len(inputs),))
    if np.any(out <= 0):
        raise ValueError("limit must be positive")
    return out


def _ranges(stay: Mapping[str, tuple[float, float]] | None, model: Any) -> list[tuple[int, float, float]]:
    out = []
    for name, pair in (stay or {}).items():
        if name not in model.variables:
            raise ValueError(f"stay: unknown variable {name!r}{nearest(name, model.variables)}")
        low, high = (number(x, f"range of '{name}'") for x in pair)
        if low >= high:
            raise ValueError(f"range of '{name}': the first number must be below the second")
        out.append((model.index(name), low, high))
    return out
