"""From words of a command line to values: models, motions, starting configurations, tables of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .options import named

MAX_STEPS = 10**10  # days of computation
MAX_NUMBERS = 10**9  # 8 GB

if TYPE_CHECKING:
    from ..arrays import Array
    from ..integrate import Trajectory
    from ..model import Model
    from ..viewing import Pose


def load_named(name: str) -> tuple[Model, dict[str, Array]]:
    """A model file, or a shipped model by name."""
    from .. import formats, models

    if not Path(name).exists() and Path(name).suffix == "" and Path(name).name == name:
        return models.load_with_configurations(name)
    return formats.load_with_configurations(name)


def motion_or_model(name: str) -> Model | Pose | Trajectory:
    """What a file holds, to be shown: a motion (.npz), or a model in its configuration q0, if it has one."""
    if name.endswith(".npz"):
        from .. import Trajectory

        return Trajectory.load(name)
    from ..viewing import Pose

    model, configurations = load_named(name)
    return Pose(model, configurations["q0"][None]) if "q0" in configurations else model


def start_of(
    file: str, start: str | None, q: list[str] | None, satisfy: bool, near: list[str] | None = None
) -> tuple[Model, Array]:
    """The model of a command and the configuration (nq,) that its options ask for."""
    model, configurations = load_named(file)
    if near and not satisfy:
        raise typer.BadParameter("--near is a first guess for --satisfy")
    guess = named(near, model.variables, "--near")
    return model, configuration(model, configurations, start, named(q, model.variables, "--q"), satisfy, guess)


def configuration(
    model: Model,
    configurations: dict[str, Array],
    start: str | None,
    given: dict[str, float],
    satisfy: bool,
    guess: dict[str, float] | None = None,
) -> Array:
    """The named configuration (q0 by default) with single values changed."""
    from .. import satisfy_constraints

    if start is not None and start not in configurations:
        known = ", ".join(configurations) or "none"
        raise ValueError(f"the file has no configuration {start!r} (it has: {known})")
    x = configurations.get(start or "q0", model.neutral()).copy()
    for name, value in {**(guess or {}), **given}.items():
        x[model.index(name)] = value
    if not model.configuration.flat:
        x = model.configuration.point(x)  # quaternions have length 1
    if satisfy and model.nc:
        x = satisfy_constraints(model, x, fixed=tuple(n for n in given if n in model.dynamic))
    return x


def read_table(path: Path) -> tuple[Array, dict[str, Array]]:
    """A CSV with a header and a column t: (t, {name: column})."""
    import csv

    import numpy as np

    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [r for r in csv.reader(file) if r]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a table of numbers ({error})") from None
    head = [n.strip() for n in rows[0]] if rows else []
    if len(rows) < 2 or "t" not in head:
        raise ValueError(f"{path}: a header with a column 't' and at least one row are needed")
    if len(set(head)) < len(head):
        raise ValueError(f"{path}: two columns have the same name")
    try:
        numbers = np.array([[float(c) for c in r] for r in rows[1:]])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if numbers.ndim != 2 or numbers.shape[1] != len(head) or not np.isfinite(numbers).all():
        raise ValueError(f"{path}: every row needs {len(head)} finite numbers")
    table = {n: numbers[:, i] for i, n in enumerate(head)}
    t = table.pop("t")
    if (np.diff(t) <= 0).any():
        raise ValueError(f"{path}: the times must increase")
    return t, table


def check_size(steps: int, numbers: int) -> None:
    """Refuse what would take days, or does not fit into memory, before it is tried."""
    if steps > MAX_STEPS or numbers > MAX_NUMBERS:
        shown = f"{steps:,}" if steps < 10**15 else f"{steps:.3g}"
        raise ValueError(f"{shown} steps are too many: they need {8e-9 * numbers:.3g} GB (--every keeps fewer of them)")
