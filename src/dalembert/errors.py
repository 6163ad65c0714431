"""The typed errors of dalembert: what went wrong, where, and what to try.

Every error carries the facts as attributes, so that a program can react without parsing text.
"""

from __future__ import annotations

import inspect
from typing import Any

from .text import printable


class DalembertError(Exception):
    """Base class of all errors that dalembert raises on purpose (besides `ValueError` for shapes and NaN)."""


class ModelError(DalembertError, ValueError):
    """A model description is wrong.

    Attributes: `culprit` (name of the frame or element), and for files `file`, `line`, `column` (1-based or None).
    """

    def __init__(
        self,
        message: str,
        *,
        culprit: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        message = printable(message)  # it may quote names of a file
        self.reason = message
        self.culprit = culprit
        self.file = file
        self.line = line
        self.column = column
        place = ":".join(str(x) for x in (file, line, column) if x is not None)
        super().__init__(f"{place}: {message}" if place else message)

    def __reduce__(self) -> Any:
        return (_rebuild_model_error, (self.reason, self.culprit, self.file, self.line, self.column))


def _rebuild_model_error(
    reason: str, culprit: str | None, file: str | None, line: int | None, column: int | None
) -> ModelError:
    return ModelError(reason, culprit=culprit, file=file, line=line, column=column)


class ConvergenceError(DalembertError, RuntimeError):
    """The implicit equations of a step (or another iteration) could not be solved.

    Attributes: `time`, `step`, `residual`, `state` (where it stopped), `trajectory` (all that was computed before,
    or None), `hint` (what to try).
    """

    def __init__(
        self,
        message: str,
        *,
        time: float | None = None,
        step: int | None = None,
        residual: float | None = None,
        state: object = None,
        trajectory: object = None,
        hint: str = "",
    ) -> None:
        self.time = time
        self.step = step
        self.residual = residual
        self.state: Any = state
        self.trajectory: Any = trajectory
        self.hint = hint
        super().__init__(message + (f" ({hint})" if hint else ""))


class SingularityError(ConvergenceError):
    """A matrix that must be inverted is singular; `matrix` says which one, `variables` which entries are involved."""

    def __init__(self, message: str, *, matrix: str = "", variables: tuple[str, ...] = (), **facts: Any) -> None:
        self.matrix = matrix
        self.variables = variables
        super().__init__(message, **facts)


class Stop(Exception):
    """Raised by a policy to end a simulation: `simulate` returns the motion so far, and the text stands in `motion.events`.

    >>> import dalembert as da
    >>> vi = da.MidpointVI(da.models.cart_pole(), dt=0.1)
    >>> def policy(t, state):
    ...     if t > 0.35:
    ...         raise da.Stop("enough")
    ...     return [0.0]
    >>> motion = vi.simulate(vi.state(q={"theta": 0.1}), time=10.0, u=policy)
    >>> motion.steps, motion.events[0].name
    (4, 'enough')
    """


class _StepFacts(Exception):
    """Where the steps of a motion are not accurate."""

    def __init__(
        self,
        message: str,
        *,
        time: float | None = None,
        step: int | None = None,
        first: int | None = None,
        count: int = 0,
        jump: float | None = None,
        error: float | None = None,
        variable: str = "",
        dt: float | None = None,
    ) -> None:
        super().__init__(message)
        self.time, self.step, self.first, self.count = time, step, first, count
        self.jump, self.error, self.variable, self.dt = jump, error, variable, dt


class InertiaWarning(UserWarning):
    """No body has these principal moments: the largest is more than the sum of the others. The equations hold, but a mistake is likely.

    One rule for models from files and from Python: the model is made, and the warning names the frame. To refuse such models,
    `warnings.simplefilter("error", da.InertiaWarning)`; to allow them in silence, "ignore" in the place of "error". A single moment, all
    that planar models need, is no complaint.
    """


def user_level() -> int:
    """The stack level, for a warning of the caller, of the first function outside of this package."""
    level, frame = 1, inspect.currentframe()
    frame = None if frame is None else frame.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith("dalembert."):
        frame, level = frame.f_back, level + 1
    return level


class AccuracyWarning(_StepFacts, UserWarning):
    """A result may be far from the truth: steps that are too long, a plan that is not a motion; the message says how far.

    Of steps (see `Trajectory.quality`) the attributes tell `step` and `time` of the worst one, `first` the first bad one, `count` how many;
    its `jump` of energy and `error` (relative), the `variable` that changes most, and a `dt` to try.
    """


class ModelWarning(UserWarning):
    """A file says more than the model that was read from it. Attributes: `file`, and `notes`: pairs (line, what is not represented)."""

    def __init__(self, message: str, *, file: str | None = None, notes: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__("\n".join(printable(line) for line in message.split("\n")))  # it may quote names of a file
        self.file, self.notes = file, notes


class AccuracyError(_StepFacts, DalembertError, RuntimeError):
    """Steps are not accurate, and `simulate(..., accuracy="raise")`: attributes as of `AccuracyWarning`, and the motion as `trajectory`."""

    def __init__(self, message: str, *, trajectory: object = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.trajectory: Any = trajectory
