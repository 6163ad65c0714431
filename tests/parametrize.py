"""Models whose numbers are parameters: every number of a given model that may be one, or some of them at random."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from dalembert import Model, Parameter, Potential, Spline, TorsionSpring
from dalembert.model.frames import flatten, unflatten


def parametrized(model: Model, seed: int = 0, share: float = 1.0) -> Model:
    """The model with parameters in the place of a share of its numbers; names tell where they stand."""
    rng = np.random.default_rng(seed)
    count = 0

    def named(value: Any, name: str) -> Any:
        nonlocal count
        if isinstance(value, tuple):
            return tuple(named(v, f"{name}.{i}") for i, v in enumerate(value))
        if isinstance(value, Spline):
            return Spline([(row[0], *(named(y, f"{name}.{i}") for y in row[1:])) for i, row in enumerate(value.points)])
        if not isinstance(value, float) or rng.random() > share:
            return value
        count += 1
        return Parameter(f"{name}#{count}", value)

    rows = []
    for i, row in enumerate(flatten(model.frames)):
        parent, transform, value, name, mass, inertia, com, pitch, visuals = row
        label = name or f"{transform}{i}"
        if transform == "se3":
            value = (*tuple((*r[:3], named(r[3], f"{label}.shift{k}")) for k, r in enumerate(value[:3])), value[3])
        else:
            value = named(value, f"{label}.{transform}")
        if mass:
            mass = named(mass, f"{label}.mass")
            com = named(com, f"{label}.com")
            inertia = named(inertia, f"{label}.inertia") if any(inertia) else inertia
        if pitch:
            pitch = named(pitch, f"{label}.pitch")
        rows.append((parent, transform, value, name, mass, inertia, com, pitch, visuals))
    elements = []
    for e in model.elements:
        if isinstance(e, Potential):  # its tape has the places of frames in it
            continue
        new = {}
        for f in fields(e):
            value = getattr(e, f.name)
            if isinstance(value, (float, tuple, Spline)) and not (isinstance(e, TorsionSpring) and f.name == "axis"):
                new[f.name] = named(value, f"{type(e).__name__}.{f.name}")
        elements.append(replace(e, **new))
    order = [name for name, _ in model._joints]
    return Model(unflatten(rows), elements, model.name, variables=order)
