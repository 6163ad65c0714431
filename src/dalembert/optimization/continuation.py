"""Continuation: reach a hard optimum through a sequence of easier problems.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.1: fictitious inputs, cheap at
first and then so expensive that they are not used, carry the motion past a singularity; a sequence of references
brings the start of each problem near its optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from ..integrate.onestep import StateSpace
from ..model import Model
from ..system import System
from .continuous import ContinuousSystem
from .costs import Cost, TrackingCost
from .result import Optimization
from .solve import Start, optimize

AnySystem = System | ContinuousSystem


@dataclass(frozen=True, eq=False)
class Stage:
    """One problem of a sequence: `label`, `system`, `cost`, and options of `optimize` for this stage only.

    >>> Stage("first", None, None).label
    'first'
    """

    label: str
    system: AnySystem
    cost: Cost
    options: Mapping[str, Any] = field(default_factory=dict)


def continuation(
    stages: Iterable[Stage],
    start: Start,
    *,
    start_system: AnySystem | None = None,
    keep_going: bool = False,
    **options: Any,
) -> list[Optimization]:
    """Optimize each stage from the result of the one before; returns all results, the last one is the answer.

    `stages` are `Stage` values.
    `start` is that of the first stage, a motion of `start_system` (default: the first stage's system). Between
    systems, states and inputs are matched by name: inputs that a system lacks are dropped, new ones are zero. The
    sequence ends after a stage that did not converge, unless `keep_going`. Other options go to `optimize`.

    >>> continuation([], (0, 0))
    []
    """
    results: list[Optimization] = []
    previous = start_system
    for stage in stages:
        if previous is not None and previous is not stage.system:
            X, U = (start.X, start.U) if isinstance(start, Optimization) else _pair(previous, start)
            start = convert(previous, X, U, stage.system)
        result = optimize(stage.system, stage.cost, start, **{**options, **stage.options})
        results.append(result)
        start, previous = result, stage.system
        if not (result.converged or keep_going):
            break
    return results


def _pair(system: AnySystem, start: Any) -> tuple[ArrayLike, ArrayLike]:
    return (start[0], start[1]) if isinstance(start, (tuple, list)) else system.curve(start)


def convert(source: AnySystem, X: ArrayLike, U: ArrayLike, target: AnySystem) -> tuple[Array, Array]:
    """States (N+1, nx) and inputs (N, nu) of one system for another one, matched by name; missing states are neutral, missing inputs zero.

    >>> import dalembert as da
    >>> a = da.System(da.MidpointVI(da.models.cart_pole(), 0.1), steps=1)
    >>> b = da.System(da.MidpointVI(da.models.pendulum(), 0.1), steps=1)
    >>> convert(a, [[1.0, 2.0, 3.0, 4.0]], [[5.0]], b)[0]
    array([[2., 4.]])
    """
    states = _match(X, source.x_names, target.x_names, target.neutral())
    return states, _match(U, source.u_names, target.u_names, np.zeros(target.nu))


def _match(values: ArrayLike, names: Sequence[str], wanted: Sequence[str], rest: Array) -> Array:
    given = np.asarray(values, dtype=float)
    out = np.tile(rest, (len(given), 1))
    for i, name in enumerate(wanted):
        if name in names:
            out[:, i] = given[:, list(names).index(name)]
    return out


def with_inputs(model: Model, inputs: Mapping[str, str]) -> Model:
    """A copy of a model with extra (fictitious) inputs: {variable: name of the input that pushes it}.

    >>> from dalembert import Model, tx
    >>> with_inputs(Model([tx("x", mass=1.0)]), {"x": "helper"}).inputs
    ('helper',)
    """
    from ..model import ConfigForce

    extra = [ConfigForce(variable, name) for variable, name in inputs.items()]
    return Model(model.frames, [*model.elements, *extra], model.name)


def fictitious_stages(
    model: Model,
    make_system: Callable[[Model], AnySystem],
    inputs: Mapping[str, str],
    weights: Sequence[float],
    cost: Cost | Callable[[AnySystem], Cost],
) -> list[Stage]:
    """Stages that lead `model` through a problem with the help of fictitious inputs {variable: input name}.

    `make_system(model)` makes a System; the helpers cost weight/2 u^2 per step for each of the rising `weights`; the
    last stage is the model itself without them. `cost` holds for the original inputs: a cost by names, or a function
    of the system.

    >>> fictitious_stages(None, None, {}, [], None)
    Traceback (most recent call last):
    ...
    ValueError: fictitious_stages needs at least one input and one weight
    """
    if not inputs or not len(weights):
        raise ValueError("fictitious_stages needs at least one input and one weight")
    helped = make_system(with_inputs(model, inputs))
    names = ", ".join(inputs.values())
    make = cost if callable(cost) else lambda system: cost
    stages = [
        Stage(f"{names} at cost {w:g}", helped, make(helped) + TrackingCost({}, 0.0, dict.fromkeys(inputs.values(), w)))
        for w in weights
    ]
    plain = make_system(model)
    return [*stages, Stage(f"without {names}", plain, make(plain))]


def blend_references(
    easy: tuple[ArrayLike, ArrayLike],
    hard: tuple[ArrayLike, ArrayLike],
    count: int,
    *,
    system: AnySystem | None = None,
) -> list[tuple[Array, Array]]:
    """`count` references (X, U) from near `easy` to exactly `hard`, evenly spaced along the differences of the `system`'s states (default:
    flat ones).

    >>> [float(X[0, 0]) for X, U in blend_references(([[0.0]], [[0.0]]), ([[1.0]], [[0.0]]), 2)]
    [0.5, 1.0]
    """
    if count < 1:
        raise ValueError("count must be at least 1")
    (Xa, Ua), (Xb, Ub) = ([np.asarray(a, dtype=float) for a in pair] for pair in (easy, hard))
    space = StateSpace() if system is None else system
    way = space.difference(Xa, Xb)
    return [(space.retract(Xa, s * way), Ua + s * (Ub - Ua)) for s in np.arange(1, count + 1) / count]
