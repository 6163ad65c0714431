"""What a motion has to show besides pictures: variables with units, energy, constraint violation, thinned for plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, matching, nearest
from ..errors import ModelError
from ..model import Model


class Motion(Protocol):
    """What this room needs of a Trajectory."""

    @property
    def model(self) -> Model: ...
    @property
    def t(self) -> Array: ...
    @property
    def q(self) -> Array: ...
    @property
    def p(self) -> Array: ...
    @property
    def u(self) -> Array: ...
    def momentum(self) -> Array: ...
    def energy(self) -> Array: ...
    def constraint_violation(self) -> Array: ...
    @property
    def quantities(self) -> tuple[str, ...]: ...
    def __getitem__(self, key: str) -> Any: ...


@dataclass(frozen=True)
class Pose:
    """A model at rest in one configuration q (1, nq), seen as a motion of one sample."""

    model: Model
    q: Array

    @property
    def t(self) -> Array:
        """Time (1,)."""
        return np.zeros(1)

    @property
    def p(self) -> Array:
        """Momenta (1, nd): at rest."""
        return np.zeros((1, self.model.nd))

    @property
    def u(self) -> Array:
        """Inputs (0, nu)."""
        return np.zeros((0, self.model.nu))

    def momentum(self) -> Array:
        """Spatial momentum (1, 6): at rest."""
        return np.zeros((1, 6))

    def energy(self) -> Array:
        """A pose has no energy to show: (0,)."""
        return np.zeros(0)

    def constraint_violation(self) -> Array:
        """Nor a violation: (0,)."""
        return np.zeros(0)

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names that can be asked for: the variables, balls as rotation vectors."""
        return self.model.configuration.readings

    def __getitem__(self, key: str) -> Array:
        """A variable (1,)."""
        return reading(self, key)


Shown = Motion | Model  # what can be shown: a Trajectory, or a model in its neutral configuration


@dataclass(frozen=True)
class Series:
    """One curve over time: `t` and `y` (n,), with `title`, `unit` and whether it wants a logarithmic axis."""

    title: str
    unit: str
    log: bool
    t: Array
    y: Array


def variable_unit(model: Model, variable: str) -> str:
    """'rad' for a variable that turns a frame (or a component of a ball's rotation vector), 'm' for one that shifts a frame or is a length.

    >>> from dalembert import Model, rz, tx
    >>> cart = Model([tx("x", rz("theta", tx(1.0, mass=1.0)))])
    >>> variable_unit(cart, "x"), variable_unit(cart, "theta")
    ('m', 'rad')
    """
    if variable in _turns(model):
        return "rad"
    model.index(variable)  # says which name was meant
    if not model.configuration.flat and variable not in model.configuration.readings:
        return ""  # a component of a quaternion
    for entry in model.frame_entries[1:]:
        if entry.frame is not None and entry.frame.variable == variable:
            return "rad" if entry.frame.transform[0] == "r" else "m"
    return "m"


def _turns(model: Model) -> tuple[str, ...]:
    """Components of the rotation vectors of balls."""
    return tuple(n for place in model.configuration.places for n in model.configuration.readings[place.v])


def reading(run: Motion, variable: str) -> Array:
    """A variable, or a component of a ball's rotation vector, (N + 1,); KeyError or ModelError if there is none of that name."""
    readings = run.model.configuration.readings
    if variable in readings:
        return run.model.configuration.read(np.asarray(run.q, dtype=float))[:, readings.index(variable)]
    return np.asarray(run.q, dtype=float)[:, run.model.index(variable)]


def on_the_way(model: Model, q0: Array, q1: Array, w: Array) -> Array:
    """Configurations (..., nq) on the way from q0 to q1; w (..., 1) goes from 0 to 1."""
    if model.configuration.flat:
        return (1 - w) * q0 + w * q1
    return model.integrate(q0, w * model.difference(q0, q1))


def quantity_unit(model: Model, name: str) -> str:
    """Unit of a quantity that `trajectory[name]` takes; "" where it depends on the element (inputs, multipliers).

    >>> from dalembert import Model, rz, tx
    >>> cart = Model([tx("x", rz("theta", tx(1.0, mass=1.0, name="bob")))])
    >>> [quantity_unit(cart, name) for name in ("theta", "v.x", "p.theta", "bob", "bob.x")]
    ['rad', 'm/s', 'kg m²/s', 'm', 'm']
    """
    if name in model.variables or name in _turns(model):
        return variable_unit(model, name)
    kind, _, rest = name.partition(".")
    if name in model.velocities:
        kind, rest = "v", name
    if kind in ("v", "p") and rest in model.velocities:
        turns = variable_unit(model, model.configuration.readings[model.velocities.index(rest)]) == "rad"
        return {"v": ("m/s", "rad/s"), "p": ("kg m/s", "kg m²/s")}[kind][turns]
    frame = name if name in model.frame_names else name.rpartition(".")[0]
    return "m" if frame in model.frame_names and name not in model.inputs else ""


def quantity_of(run: Motion, name: str) -> Array | None:
    """A quantity of a motion by name; None if its model does not have it."""
    try:
        return np.asarray(run[name], dtype=float)
    except (KeyError, ModelError):
        return None


def quantities_called(run: Motion, name: str, others: Sequence[str] = ()) -> list[str]:
    """The quantities that a name means, several where it is a pattern ("motor *"); one of `others` stands for itself. ValueError if there is none."""
    if name in others or quantity_of(run, name) is not None:
        return [name]
    found = [run.quantities[i] for i in matching(name, run.quantities)]
    if not found:
        close = nearest(name, (*run.quantities, *others))
        hint = f"; parts are {', '.join(others)}" if others else ""
        raise ValueError(f"nothing to plot is called {name!r}{close}: trajectory.quantities lists all names{hint}")
    return found


def motions(what: Shown | Sequence[Shown], others: Sequence[Shown] = ()) -> list[Motion]:
    """One or several trajectories or models as a list of motions; a model becomes a `Pose` at neutral."""
    given = [*(what if isinstance(what, (list, tuple)) else [what]), *others]
    if not given:
        raise ValueError("nothing to show: give a Trajectory or a Model")
    out: list[Motion] = []
    for item in given:
        if isinstance(item, Model):
            out.append(Pose(item, item.neutral()[None]))
            continue
        for attribute in ("model", "t", "q", "u"):
            if not hasattr(item, attribute):
                raise TypeError(f"expected a Trajectory or a Model, not {type(item).__name__}")
        if len(item.t) == 0 or np.shape(item.q) != (len(item.t), item.model.nq):
            raise ValueError(f"q must have shape ({len(item.t)}, {item.model.nq}), not {np.shape(item.q)}")
        if not (np.isfinite(item.q).all() and np.isfinite(item.t).all()):
            raise ValueError("the trajectory contains NaN or infinity")
        out.append(item)
    return out


def check_names(runs: Sequence[Motion], names: Sequence[str] | None) -> list[str]:
    """Names for the legend: as given, or the model's name, numbered when there are several."""
    if names is None:
        if len(runs) == 1:
            return [runs[0].model.name]
        return [f"{run.model.name} {i + 1}" for i, run in enumerate(runs)]
    if isinstance(names, str) or len(names) != len(runs):
        raise ValueError(f"names must be {len(runs)} strings, one for each trajectory")
    return [str(n) for n in names]


def check_variables(model: Model, variables: Sequence[str] | None, limit: int) -> list[str]:
    """The variables to plot: as given (each must exist), or the first `limit`."""
    if variables is None:
        return list(model.configuration.readings[:limit])
    names = [variables] if isinstance(variables, str) else list(variables)
    for name in names:
        if name not in model.configuration.readings:
            model.index(name)  # says which name was meant
    return names


def violation(run: Motion) -> Array:
    """Largest constraint violation at each time, (N + 1,)."""
    h = np.abs(np.asarray(run.constraint_violation(), dtype=float))
    return h if h.ndim == 1 else h.max(axis=-1)


def quality(run: Motion, points: int = 2000) -> list[Series]:
    """Energy and, for models with constraints, their violation; thinned to `points` samples that keep all peaks."""
    if len(run.t) < 2:
        return []
    out = [Series("Energy", "J", False, *thin(run.t, np.asarray(run.energy(), dtype=float), points))]
    if run.model.nh:  # rolling wheels have none to show: their rows are on velocities
        out.append(Series("Constraint violation", "", True, *thin(run.t, violation(run), points)))
    return out


def thin(t: Array, y: Array, points: int) -> tuple[Array, Array]:
    """Fewer samples with the same outline: the smallest and largest of every bin, in order.

    >>> t, y = thin(np.arange(1000.0), np.r_[np.zeros(500), 7.0, np.zeros(499)], 20)
    >>> len(t) <= 20, y.max()
    (True, np.float64(7.0))
    """
    n = len(t)
    if n <= points:
        return np.asarray(t, dtype=float), y
    edges = np.linspace(0, n, points // 2 + 1).astype(int)
    pick: set[int] = set()
    for a, b in pairwise(edges.tolist()):
        pick.update((a + int(np.argmin(y[a:b])), a + int(np.argmax(y[a:b]))))
    keep = np.array(sorted(pick))
    return np.asarray(t, dtype=float)[keep], y[keep]


def samples(n: int, limit: int) -> NDArray[np.int64]:
    """At most `limit` of n indices, evenly, with both ends.

    >>> samples(11, 3).tolist()
    [0, 5, 10]
    """
    if limit < 2:
        raise ValueError("at least two samples are needed")
    return np.unique(np.linspace(0, n - 1, min(n, limit)).round().astype(np.int64))


def held_inputs(run: Motion, keep: NDArray[np.int64]) -> Array:
    """Inputs at the samples `keep`, (len(keep), nu): the last step's value holds at the end."""
    u = np.asarray(run.u, dtype=float)
    if u.size == 0:
        return np.zeros((len(keep), run.model.nu))
    return u[np.minimum(keep, len(u) - 1)]
