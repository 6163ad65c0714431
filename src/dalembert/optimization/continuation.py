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

from .costs import Array, Cost, TrackingCost
from .result import Optimization


@dataclass(frozen=True, eq=False)
class Stage:
    """One problem of a sequence: `label`, `system`, `cost`, and options of `optimize` for this stage only.

    >>> Stage("first", None, None).label
    'first'
    """

    label: str
    system: Any
    cost: Cost
    options: Mapping[str, Any] = field(default_factory=dict)


def continuation(
    stages: Iterable[Stage], start: Any, *, start_system: Any = None, keep_going: bool = False, **options: Any
) -> list[Optimization]:
    """Optimize each stage from the result of the one before; returns all results, the last one is the answer.

    `stages` are `Stage` values.
    `start` is that of the first stage, a motion of `start_system` (default: the first stage's system). Between
    systems, states and inputs are matched by name: inputs that a system lacks are dropped, new ones are zero. The
    sequence ends after a stage that did not converge, unless `keep_going`. Other options go to `optimize`.

    >>> continuation([], (0, 0))
    []
    """
    from .projection import optimize

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


def _pair(system: Any, start: Any) -> tuple[Array, Array]:
    return (start[0], start[1]) if isinstance(start, (tuple, list)) else system.curve(start)


def convert(source: Any, X: Any, U: Any, target: Any) -> tuple[Array, Array]:
    """States (N+1, nx) and inputs (N, nu) of one system for another one, matched by name; what is missing is zero.

    >>> from types import SimpleNamespace as System
    >>> a, b = System(x_names=("q", "p"), u_names=("f", "extra")), System(x_names=("q", "p"), u_names=("f",))
    >>> convert(a, [[1.0, 2.0]], [[3.0, 4.0]], b)[1]
    array([[3.]])
    """
    return _match(X, source.x_names, target.x_names), _match(U, source.u_names, target.u_names)


def _match(values: Any, names: Sequence[str], wanted: Sequence[str]) -> Array:
    values = np.asarray(values, dtype=float)
    out = np.zeros((len(values), len(wanted)))
    for i, name in enumerate(wanted):
        if name in names:
            out[:, i] = values[:, list(names).index(name)]
    return out


def with_inputs(model: Any, inputs: Mapping[str, str]) -> Any:
    """A copy of a model with extra (fictitious) inputs: {variable: name of the input that pushes it}.

    >>> from dalembert import Model, tx
    >>> with_inputs(Model([tx("x", mass=1.0)]), {"x": "helper"}).inputs
    ('helper',)
    """
    from ..model import ConfigForce, Model

    extra = [ConfigForce(variable, name) for variable, name in inputs.items()]
    return Model(model.frames, [*model.elements, *extra], model.name)


def fictitious_stages(
    model: Any,
    make_system: Callable[[Any], Any],
    inputs: Mapping[str, str],
    weights: Sequence[float],
    cost: Cost | Callable[[Any], Cost],
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


def blend_references(easy: tuple[Any, Any], hard: tuple[Any, Any], count: int) -> list[tuple[Array, Array]]:
    """`count` references (X, U) from near `easy` to exactly `hard`, evenly spaced.

    >>> [float(X[0, 0]) for X, U in blend_references(([[0.0]], [[0.0]]), ([[1.0]], [[0.0]]), 2)]
    [0.5, 1.0]
    """
    if count < 1:
        raise ValueError("count must be at least 1")
    (Xa, Ua), (Xb, Ub) = ([np.asarray(a, dtype=float) for a in pair] for pair in (easy, hard))
    return [(Xa + s * (Xb - Xa), Ua + s * (Ub - Ua)) for s in np.arange(1, count + 1) / count]
