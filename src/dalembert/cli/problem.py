"""Problem files: what `dalembert optimize` reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .start import check_size, configuration, load_named, read_table

if TYPE_CHECKING:
    from ..arrays import Array
    from ..model import Model
    from ..optimization import TrackingCost
    from ..system import System


MAX_BYTES = 64_000
_KNOWN = {
    "": "model dt steps alpha forcing order reference start goal weights bounds options guess",
    "start": "configuration q v p satisfy",
    "weights": "state input final",
    "options": "method tolerance max_iterations bound_method free_start",
}


class _Table:
    """A table of a problem file: every value has the type that it must have, or the complaint names file and key."""

    def __init__(self, data: dict[str, Any], file: Path, where: str = "") -> None:
        self.data, self.file, self.where = data, file, where
        for key in data:
            if where in _KNOWN and key not in _KNOWN[where].split():
                known = ", ".join(sorted(_KNOWN[where].split()))
                raise self.wrong(f"unknown key '{key}' in {where or 'the file'}; known: {known}")

    def wrong(self, reason: str) -> Exception:
        from .. import ModelError

        return ModelError(reason, file=str(self.file))

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def need(self, *keys: str) -> None:
        """These keys must be there."""
        for key in keys:
            if key not in self.data:
                raise self.wrong(f"{f'{self.where}: ' if self.where else ''}'{key}' is missing")

    def get(self, key: str, kind: type | tuple[type, ...], what: str, default: Any = None) -> Any:
        """A value of a type (a truth value is no number), or the default."""
        value = self.data.get(key, default)
        if key in self.data and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise self.wrong(f"'{self._path(key)}' must be {what}, not {value!r:.60}")
        return value

    def text(self, key: str, default: str | None = None) -> Any:
        return self.get(key, str, "a text", default)

    def number(self, key: str, default: float | None = None) -> Any:
        from ..arrays import number

        value = self.get(key, (int, float), "a number", default)
        try:
            return None if value is None else number(value, f"'{self._path(key)}'")
        except ValueError as error:
            raise self.wrong(str(error)) from None

    def table(self, key: str) -> _Table:
        """A table inside; an empty one where there is none."""
        return _Table(self.get(key, dict, "a table", {}), self.file, self._path(key))

    def numbers(self, key: str) -> dict[str, float]:
        """A table of numbers by name."""
        inner = self.table(key)
        return {name: inner.number(name) for name in inner.data}

    def weight(self, key: str) -> Any:
        """A weight: a number, a list of numbers (or of rows), or a table of numbers by name."""
        from ..arrays import finite

        value = self.data.get(key)
        if value is None or isinstance(value, dict):
            return value if value is None else self.numbers(key)
        try:
            return finite(value, f"'{self._path(key)}'")
        except ValueError as error:
            raise self.wrong(str(error)) from None

    def pair(self, key: str) -> tuple[float, float]:
        """[low, high]; inf for no bound."""
        pair = self.get(key, list, "[low, high]")
        if len(pair) != 2 or any(isinstance(x, bool) or not isinstance(x, (int, float)) or x != x for x in pair):
            raise self.wrong(f"'{self._path(key)}' must be [low, high], not {pair!r:.60}")
        return pair[0], pair[1]


def read_problem(path: str | Path) -> tuple[System, TrackingCost, tuple[Array, Array], dict[str, Any]]:
    """(system, cost, starting motion, options of `optimize`) of a TOML problem file; unknown keys are errors.

    Top level: `model` (file beside the problem, or a shipped name), `dt`, `steps`, optional `alpha`, `forcing`, `order`,
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
    import numpy as np

    from .. import MidpointVI, ModelError, System, TrackingCost, Trajectory
    from ..arrays import nearest

    path = Path(path)
    top = _Table(_read_toml(path), path)
    top.need("model", "dt", "steps", "weights")

    def beside(key: str) -> str:
        name = top.text(key)
        near = path.parent / name
        return str(near) if near.exists() else str(name)

    begin = top.table("start")
    model, configurations = load_named(beside("model"))
    satisfy = begin.get("satisfy", bool, "true or false", False)
    x = configuration(model, configurations, begin.text("configuration"), begin.numbers("q"), satisfy)
    options = {"alpha": top.number("alpha", 0.5), "forcing": top.text("forcing", "split")}
    vi = MidpointVI(model, top.number("dt"), order=top.get("order", int, "2, 4 or 6", 2), **options)
    steps = top.get("steps", int, "a whole number")
    check_size(steps, steps * (2 * model.nq + model.nu) ** 2)  # derivatives of all steps are kept
    system = System(vi, steps=steps)
    first = system.x(x, v=begin.numbers("v") or None, p=begin.numbers("p") or None)

    goal: dict[str, Any] = dict(top.numbers("goal"))
    names = (*system.x_names, *system.u_names)
    for key in goal:
        if key not in names:
            raise ModelError(f"goal: unknown name {key!r}{nearest(key, names)}", file=str(path))
    if "reference" in top.data:
        goal |= _columns(Path(beside("reference")), system, model)
    for name in model.kinematic:  # a string keeps its length unless the problem says otherwise
        goal.setdefault(name, float(first[model.index(name)]))
    weights = top.table("weights")
    weights.need("state", "input")
    cost = TrackingCost(goal, Q=weights.weight("state"), R=weights.weight("input"), Qf=weights.weight("final"))

    if "guess" in top.data:
        guess = system.from_trajectory(Trajectory.load(beside("guess"), model))
    else:
        still = np.zeros((system.steps, system.nu))
        still[:, model.nu :] = first[model.nd : model.nq]
        guess = (system.simulate(first, still), still)
    return system, cost, guess, _options(top)


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    from .. import ModelError

    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ModelError(f"larger than {MAX_BYTES // 1000} kB: a problem file is a page of text", file=str(path))
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not TOML: {error}", file=str(path)) from None


def _options(top: _Table) -> dict[str, Any]:
    """The table `options`, and `bounds`, as arguments of `optimize`."""
    table = top.table("options")
    options: dict[str, Any] = {
        "method": table.get("method", (str, list), "a method or a list of methods"),
        "tolerance": table.number("tolerance"),
        "max_iterations": table.get("max_iterations", int, "a whole number"),
        "bound_method": table.text("bound_method"),
        "free_start": table.data.get("free_start"),
    }
    for key in ("method", "free_start"):
        if isinstance(options[key], list) and not all(isinstance(x, str) for x in options[key]):
            raise table.wrong(f"'options.{key}' must list texts, not {options[key]!r:.60}")
    if not isinstance(options["free_start"], (bool, list, type(None))):
        raise table.wrong("'options.free_start' must be true, false or a list of states")
    bounds = top.table("bounds")
    if bounds.data:
        options["bounds"] = {name: bounds.pair(name) for name in bounds.data}
    return {key: value for key, value in options.items() if value is not None}


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
