"""How good the steps of a motion are: energy that appears from nowhere, local errors, constraints, nearness of singularities.

The core checks every step while it solves it (cpp/quality.hpp, docs/howto/accuracy.md). A Trajectory carries what it found as `checks`
(N, 5), with the columns

    jump      change of (energy at the middle of the step - work done until then) since the step before, relative to what moves
    error     estimate of the local error of the step, relative in the norm of the kinetic energy
    balance   energy minus work since the first step (J)
    variable  component of the velocity that changes most
    steps     number of steps; those that `adapt` took between two output times
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..errors import AccuracyError, AccuracyWarning, ConvergenceError, user_level
from .scheme import Scheme

if TYPE_CHECKING:
    from ..model import Model
    from .condition import Condition
    from .trajectory import Trajectory

JUMP_LIMIT, ERROR_LIMIT = 0.01, 0.03  # where a step is no longer good: kJumpLimit, kErrorLimit of the core
ACCURACY = ("warn", "raise", "ignore")
JUMP, ERROR, BALANCE, VARIABLE, STEPS = range(5)


@dataclass(frozen=True)
class Quality:
    """What `motion.quality()` says.

    `jump`, `error`: the largest of the steps; `typical_jump`, `typical_error`: their medians (`jumps`, `errors` (N,) have all of them). Jumps are
    energy from nowhere relative to the energy that moves; below 0.01 a step is good, above 0.03 it is usually garbage. Errors are estimates of what
    a step does wrong, relative in the norm of the kinetic energy. `step`, `time`, `variable`: where the worst step is. `balance` (N,) is the energy
    minus the work of forces and prescribed motion since the first step (J), `energy` its largest size, `moving` the largest kinetic energy (J).
    `violation`: largest |h| of the constraints. `steps`: number of steps, with `adapt` that of all substeps. NaN: not known.
    `condition`: the worst `vi.condition` at some of the states, at `condition_time` (None: not looked at).

    >>> import dalembert as da
    >>> vi = da.MidpointVI(da.models.n_link(2), dt=0.01)
    >>> vi.simulate(vi.state(q=[1.0, 0.5]), time=1.0).quality().good
    True
    """

    jump: float
    typical_jump: float
    error: float
    typical_error: float
    step: int
    time: float
    variable: str
    energy: float
    moving: float
    violation: float
    steps: int
    condition: Condition | None
    condition_time: float
    jumps: Array = field(repr=False)
    errors: Array = field(repr=False)
    balance: Array = field(repr=False)

    @property
    def good(self) -> bool:
        """Whether no step is worse than the limits at which `simulate` warns."""
        return not (self.jump > JUMP_LIMIT or self.error > ERROR_LIMIT)

    def __repr__(self) -> str:
        where = f" at t = {self.time:g} in '{self.variable}'" if self.variable else ""
        words = [
            f"energy jump {self.jump:.2g} (typical {self.typical_jump:.1g})",
            f"local error {self.error:.2g} (typical {self.typical_error:.1g}){where}",
            f"energy balance within {self.energy:.2g} J of {self.moving:.2g} J",
        ]
        verdict = "good" if self.good else "NOT GOOD"
        if math.isnan(self.error):
            verdict, words = "not judged", ["nothing tells how its steps were made"]
        words.append(f"constraints {self.violation:.1g}")
        if self.condition is not None:
            names = ", ".join(self.condition.names)
            where = f"at t = {self.condition_time:g} in {names}"
            # rows that say a thing twice, as those of two wheels on one axle do, are solved all the same
            twice = self.condition.constraints == math.inf and max(self.condition.mass, self.condition.step) < math.inf
            words.append(f"dependent constraints {where}" if twice else f"condition {self.condition.worst:.1g} {where}")
        return f"Quality({verdict}: {'; '.join(words)})"


def quality(motion: Trajectory, samples: int) -> Quality:
    """The Quality of a motion, conditions at `samples` of its states."""
    checks = checks_of(motion)
    n = len(checks)
    worst = worst_step(checks)
    moving = float(_kinetic(motion).max()) if n else math.nan
    condition, when = _condition(motion, worst, samples) if n and samples else (None, math.nan)
    known = n > 0 and bool(np.isfinite(checks).all())
    return Quality(
        jump=float(checks[:, JUMP].max()) if n else math.nan,
        typical_jump=float(np.median(checks[:, JUMP])) if n else math.nan,
        error=float(checks[:, ERROR].max()) if n else math.nan,
        typical_error=float(np.median(checks[:, ERROR])) if n else math.nan,
        step=worst,
        time=float(motion.t[worst]),
        variable=_variable(motion, checks, worst) if known else "",
        energy=float(np.abs(checks[:, BALANCE]).max()) if n else math.nan,
        moving=moving,
        violation=float(motion.constraint_violation().max(initial=0.0)),
        steps=int(checks[:, STEPS].sum()) if known else motion.steps,
        condition=condition,
        condition_time=when,
        jumps=checks[:, JUMP],
        errors=checks[:, ERROR],
        balance=checks[:, BALANCE],
    )


def _kinetic(motion: Trajectory) -> Array:
    from ..mechanics import core

    return core(motion.model).energy(*map(np.ascontiguousarray, motion.middles()))[0]  # type: ignore[no-any-return]


def checks_of(motion: Trajectory) -> Array:
    """The checks (N, 5) that a motion carries, or else those of its steps solved again; NaN where it is not known what made it."""
    if motion.checks is not None:
        return motion.checks
    none: Array = np.full((motion.steps, 5), np.nan)
    scheme = motion.scheme
    if scheme is None or scheme.forcing is None or not motion.steps:
        return none
    if scheme.dt is not None and not np.allclose(motion.dt, scheme.dt, rtol=1e-6, atol=0.0):
        return none  # each n-th state of a motion
    vi = scheme.integrator(motion.model, motion.dt.copy())
    found, done = vi.check(motion)
    found[done:] = np.nan
    return found


def worst_step(checks: Array) -> int:
    """Number of the step that is furthest beyond the limits."""
    if not len(checks):
        return 0
    return int(np.nan_to_num(_severity(checks), nan=-1.0).argmax())


def _severity(checks: Array) -> Array:
    return np.maximum(checks[:, JUMP] / JUMP_LIMIT, checks[:, ERROR] / ERROR_LIMIT)  # type: ignore[no-any-return]


def _variable(motion: Trajectory, checks: Array, step: int) -> str:
    return motion.model.velocities[int(checks[step, VARIABLE])]


def _condition(motion: Trajectory, worst: int, samples: int) -> tuple[Condition | None, float]:
    """The worst condition at some states, and its time."""
    scheme = motion.scheme or Scheme()
    vi = scheme.integrator(motion.model, motion.dt.min())
    at = sorted({worst, *np.linspace(0, motion.steps - 1, samples).round().astype(int).tolist()})
    best: Condition | None = None
    when = math.nan
    for k in at:
        try:
            found = vi.condition(motion[k], motion.u[k], dt=scheme.dt if scheme.dt is not None else float(motion.dt[k]))
        except ConvergenceError:  # of a motion that takes other steps
            continue
        if best is None or found.worst > best.worst:
            best, when = found, float(motion.t[k])
    return best, when


# ---- what simulate says


def good(largest: tuple[float, float]) -> bool:
    """Whether a motion needs no word: its largest jump of energy and local error, as the core tells them."""
    return not (largest[JUMP] > JUMP_LIMIT or largest[ERROR] > ERROR_LIMIT)


def say(motion: Trajectory, accuracy: str, *, order: int, dt: Array, adapt: float | None = None) -> None:
    """Warn or raise when a step of a motion is no longer good; `dt` (N,) are the lengths of the steps."""
    if motion.checks is not None and accuracy != "ignore":
        adapts = motion.scheme is None or motion.scheme.stages == 1
        _say(motion.checks, accuracy, motion.model, motion.t, order, dt, adapt, "", motion, adapts)


def say_of_batch(
    checks: Array, accuracy: str, *, model: Model, t: Array, order: int, dt: float, batch: object
) -> None:  # fmt: skip
    """The same of the worst of many motions, (count, N or 1, 5)."""
    if accuracy == "ignore" or not checks.size:
        return
    severity = np.nan_to_num(np.stack([_severity(one) for one in checks]), nan=-1.0).max(axis=1)
    i = int(severity.argmax())
    where = f" of rollout {i} ({int((severity > 1).sum())} of {len(checks)} have such steps)"
    good = checks[i][np.isfinite(checks[i]).all(axis=1)]
    _say(good, accuracy, model, t, order, np.array(dt), None, where, batch, False)  # rollouts take no adapt=


def _say(
    checks: Array,
    accuracy: str,
    model: Model,
    t: Array,
    order: int,
    lengths: Array,
    adapt: float | None,
    where: str,
    result: object,
    adapts: bool,
) -> None:
    if accuracy == "ignore" or not len(checks):
        return
    largest = [checks[:, i].max() for i in (JUMP, ERROR)]  # along a column: NumPy calls a loop per row otherwise
    limit = JUMP_LIMIT if adapt is None else min(JUMP_LIMIT, adapt)
    if not (largest[JUMP] > limit or largest[ERROR] > ERROR_LIMIT):
        return
    severity, dt = np.maximum(checks[:, JUMP] / limit, checks[:, ERROR] / ERROR_LIMIT), float(lengths.min())
    bad = np.flatnonzero(severity > 1)
    worst, first = int(severity.argmax()), int(bad[0])
    jump, error = float(checks[worst, JUMP]), float(checks[worst, ERROR])
    variable = model.velocities[int(checks[worst, VARIABLE])]
    if adapt is None:
        better = shorter(dt, float(checks[:, JUMP].max()), float(checks[:, ERROR].max()), order)
        hint = f"try dt = {better:g}" + (", or adapt=1e-3" if adapts else "")
    else:
        better = dt
        hint = f"the shortest substeps do not reach adapt={adapt:g} there: a singularity or a collision"
    what = (
        f"energy jumps by {jump:.2g} of what moves"
        if jump > JUMP_LIMIT or jump / JUMP_LIMIT >= error / ERROR_LIMIT  # what is lost for good comes first
        else f"its local error is about {error:.2g}"
    )
    text = (
        f"step {worst} at t = {t[worst]:g}{where} is not accurate: {what}, mostly in '{variable}'; {len(bad)} of {len(checks)} "
        f"steps are so, from t = {t[first]:g} on ({hint}; quality() of the motion says more)"
    )
    facts: dict[str, Any] = {
        "time": float(t[worst]),
        "step": worst,
        "first": first,
        "count": len(bad),
        "jump": jump,
        "error": error,
        "variable": variable,
        "dt": better,
    }
    if accuracy == "raise":
        raise AccuracyError(text, trajectory=result, **facts)
    warnings.warn(AccuracyWarning(text, **facts), stacklevel=user_level())


def shorter(dt: float, jump: float, error: float, order: int) -> float:
    """The step to try: jumps fall with dt^(order + 1), errors with dt^order; rounded down to 1, 2 or 5 times a power of ten.

    >>> shorter(0.01, 0.08, 0.0, 2)
    0.002
    """
    factor = min(
        0.8 * (JUMP_LIMIT / max(jump, JUMP_LIMIT)) ** (1 / (order + 1)),
        0.8 * (ERROR_LIMIT / max(error, ERROR_LIMIT)) ** (1 / order),
    )
    if not (math.isfinite(factor) and factor > 0):
        factor = 0.01
    target = dt * factor
    power = 10.0 ** math.floor(math.log10(target))
    return max(x * power for x in (1.0, 2.0, 5.0) if x * power <= target * (1 + 1e-9))


def check_accuracy(accuracy: str) -> str:
    """ValueError for another word than 'warn', 'raise', 'ignore'."""
    if accuracy not in ACCURACY:
        raise ValueError(f"accuracy must be 'warn', 'raise' or 'ignore', not {accuracy!r}")
    return accuracy
