"""Names for the numbers of a model that were given without: "link.mass", "knee.damping", "LinearSpring(a, b).stiffness"."""

from __future__ import annotations

from dataclasses import fields, replace
from fnmatch import fnmatchcase
from typing import Any

from ..arrays import nearest, needed
from ..errors import ModelError
from ..model import Damping, Element, Model, Parameter, Spline
from ..model.frames import flatten, unflatten
from ..model.parameter import Quantity

INERTIAL = ("mass", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
_UNITS = {"mass": "kg", "damping": "N s/m or N m s/rad"}


def name_parameters(model: Model, *names: str) -> Model:
    """A model whose numbers with these names are parameters; parameters that it has already stay.

    A number of a named frame is "frame.mass", "frame.cx" (centre of mass), "frame.Ixx" ..., "frame.tx" (the amount of a constant frame);
    "frame.inertial" means all ten numbers of its inertia. Viscous damping of a dynamic variable is "variable.damping" (zero where the model has
    none), gravity "Gravity.acceleration.x", and the number of another element is its label and its field: "Distance(a, b).length". Wildcards
    as in a shell.

    >>> import dalembert as da
    >>> model = da.name_parameters(da.models.pendulum(), "bob.mass", "*.damping")
    >>> list(model.parameters)
    ['bob.mass', 'theta.damping']
    """
    patterns: list[str] = []
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"names of parameters are texts, not {name!r}")
        stem, _, last = name.rpartition(".")
        patterns += [f"{stem}.{part}" for part in INERTIAL] if last == "inertial" else [name]
    used: set[str] = set()
    known: list[str] = list(needed(model, Model).parameters)
    used.update(p for p in patterns for name in known if fnmatchcase(name, p))

    def named(value: Any, name: str) -> Any:
        if isinstance(value, Quantity):
            return value
        known.append(name)
        hits = [p for p in patterns if p == name or fnmatchcase(name, p)]
        used.update(hits)
        return Parameter(name, float(value), unit=_UNITS.get(name.rpartition(".")[2], "")) if hits else value

    rows = []
    for row in flatten(model.frames):
        parent, transform, value, name, mass, inertia, com, pitch, visuals = row
        if name is not None:
            body = mass or any(inertia)
            if transform != "se3" and isinstance(value, float):
                value = named(value, f"{name}.{transform}")
            if body:
                mass = named(mass, f"{name}.mass")
                com = tuple(named(x, f"{name}.c{axis}") for x, axis in zip(com, "xyz", strict=True))
                inertia = tuple(named(x, f"{name}.{part}") for x, part in zip(inertia, INERTIAL[4:], strict=True))
            if pitch:
                pitch = named(pitch, f"{name}.pitch")
        rows.append((parent, transform, value, name, mass, inertia, com, pitch, visuals))
    elements: list[Element] = []
    damped = False
    for e in model.elements:
        if isinstance(e, Damping):
            damped = True
            elements.append(_damping(e.by_velocity(model), named))
            continue
        new: dict[str, Any] = {}
        for f in fields(e):
            value, label = getattr(e, f.name), f"{e.label}.{f.name}"
            if isinstance(value, float):
                new[f.name] = named(value, label)
            elif isinstance(value, tuple) and len(value) == 3 and all(isinstance(x, (float, str)) for x in value):
                parts = zip(value, "xyz", strict=True)
                new[f.name] = tuple(named(x, f"{label}.{a}") if isinstance(x, float) else x for x, a in parts)
            elif isinstance(value, Spline):
                table = [(p[0], *(named(y, f"{label}.{i}") for y in p[1:])) for i, p in enumerate(value.points)]
                new[f.name] = Spline(table)
        elements.append(replace(e, **new))
    if not damped:
        damping = _damping(dict.fromkeys(model.velocities[: model.nd], 0.0), named)
        if any(isinstance(c, Quantity) for _, c in damping.coefficients):
            elements.append(damping)
    for p in patterns:
        if p not in used:
            raise ModelError(f"no number of the model is called {p!r}{nearest(p, known)}", culprit=p)
    order = [name for name, _ in model.joints]
    return Model(unflatten(rows), elements, model.name, variables=order)


def _damping(coefficients: dict[str, float], named: Any) -> Damping:
    return Damping(0.0, tuple((v, named(c, f"{v}.damping")) for v, c in coefficients.items()))
