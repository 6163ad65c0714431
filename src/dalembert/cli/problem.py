"""Problem files: what `dalembert optimize` reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .start import configuration, load_named, read_table

if TYPE_CHECKING:
    from ..arrays import Array
    from ..model import Model
    from ..optimization import TrackingCost
    from ..system import System


_PROBLEM = {
    "": {
        "model",
        "dt",
        "steps",
        "order",
        "alpha",
        "forcing",
        "reference",
        "start",
        "goal",
        "weights",
        "bounds",
        "options",
        "guess",
    },
    "start": {"configuration", "q", "v", "p", "satisfy"},
    "weights": {"state", "input", "final"},
    "options": {"method", "tolerance", "max_iterations", "bound_method", "free_start"},
}


def read_problem(path: str | Path) -> tuple[System, TrackingCost, tuple[Array, Array], dict[str, Any]]:
    """(system, cost, starting motion, options of `optimize`) of a TOML problem file; unknown keys are errors.

    Top level: `model` (file beside the problem, or a shipped name), `dt`, `steps`, optional `order`, `alpha`, `forcing`,
    `reference` (CSV with a column t and columns named as states or inputs, or a trajectory .npz; interpolated),
    `guess` (trajectory .npz to start from). Tables: `start` (configuration, q, v or p, satisfy), `goal` (constant
    values by name; used where the reference has no column), `weights` (state, input, final; "*" = all others),
    `bounds` (name = [low, high]), `options` (method, tolerance, max_iterations, bound_method, free_start).

    >>> import tempfile
    >>> text = 'model = "pendulum"\\ndt = 0.1\\nsteps = 10\\ngoal = {theta = 1.0}\\n'
    >>> text += '[weights]\\nstate = {theta = 1}\\ninput = {"*" = 1}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "p.toml").write_text(text)
    ...     read_problem(Path(folder, "p.toml"))[0]
    System of 'pendulum': 2 states, 1 inputs, 10 steps
    """
    import tomllib

    import numpy as np

    from .. import MidpointVI, ModelError, System, TrackingCost, Trajectory
    from ..arrays import nearest

    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"not TOML: {error}", file=str(path)) from None

    def table(name: str) -> dict[str, Any]:
        found = data.get(name, {})
        if not isinstance(found, dict):
            raise ModelError(f"'{name}' must be a table", file=str(path))
        return found

    for where, allowed in _PROBLEM.items():
        for key in data if where == "" else table(where):
            if key not in allowed:
                raise ModelError(
                    f"unknown key '{key}' in {where or 'the file'}; known: {', '.join(sorted(allowed))}", file=str(path)
                )
    for key in ("model", "dt", "steps", "weights"):
        if key not in data:
            raise ModelError(f"'{key}' is missing", file=str(path))

    def beside(name: str) -> str:
        near = path.parent / name
        return str(near) if near.exists() else name

    begin = table("start")
    model, configurations = load_named(beside(str(data["model"])))
    x = configuration(model, configurations, begin.get("configuration"), begin.get("q", {}), bool(begin.get("satisfy")))
    scheme = {key: data[key] for key in ("order", "alpha", "forcing") if key in data}
    vi = MidpointVI(model, float(data["dt"]), **scheme)
    system = System(vi, steps=data["steps"])
    first = system.x(x, v=begin.get("v"), p=begin.get("p"))

    goal: dict[str, Any] = dict(table("goal"))
    names = (*system.x_names, *system.u_names)
    for key in goal:
        if key not in names:
            raise ModelError(f"goal: unknown name {key!r}{nearest(key, names)}", file=str(path))
    if "reference" in data:
        goal |= _columns(Path(beside(str(data["reference"]))), system, model)
    for name in model.kinematic:  # a string keeps its length unless the problem says otherwise
        goal.setdefault(name, float(first[model.index(name)]))
    weights = table("weights")
    for part in ("state", "input"):
        if part not in weights:
            raise ModelError(f"weights: '{part}' is missing", file=str(path))
    cost = TrackingCost(goal, Q=weights["state"], R=weights["input"], Qf=weights.get("final"))

    if "guess" in data:
        guess = system.curve(Trajectory.load(beside(str(data["guess"])), model))
    else:
        still = np.zeros((system.steps, system.nu))
        still[:, model.nu :] = first[model.nd : model.nq]
        guess = (system.simulate(first, still), still)
    options = dict(table("options"))
    if "bounds" in data:
        options["bounds"] = {k: (pair[0], pair[1]) for k, pair in table("bounds").items()}
    return system, cost, guess, options


def _columns(path: Path, system: System, model: Model) -> dict[str, Array]:
    """Reference by name over the times of a system: states (N+1,), inputs (N,)."""
    import numpy as np

    if path.suffix == ".npz":
        from .. import Trajectory

        motion = Trajectory.load(path, model)
        t = motion.t
        table = {n: motion.q[:, i] for i, n in enumerate(model.variables)}
        table |= {f"p.{n}": motion.p[:, i] for i, n in enumerate(model.dynamic)}
        table |= {n: np.append(motion.u[:, i], motion.u[-1:, i]) for i, n in enumerate(model.inputs)}
    else:
        t, table = read_table(path)
    known = {*system.x_names, *system.u_names}
    unknown = [n for n in table if n not in known]
    if unknown:
        raise ValueError(f"{path}: column {unknown[0]!r} is no state or input; known: {', '.join(sorted(known))}")
    return {n: np.interp(system.t if n in system.x_names else system.t[:-1], t, y) for n, y in table.items()}
