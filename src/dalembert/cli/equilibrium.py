"""`dalembert equilibrium`: a configuration at rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Json, ModelFile, Q, Start, U, named
from .output import print_facts, say
from .start import start_of


def equilibrium(
    file: ModelFile,
    start: Start = None,
    q: Q = None,
    u: U = None,
    fixed: Annotated[list[str] | None, typer.Option("--fixed", help="Hold a variable where it starts; repeat.")] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the model with this configuration, called 'equilibrium'.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find a static equilibrium near the start.

    Example:  dalembert equilibrium string_puppet
    """
    import numpy as np

    from .. import equilibrium as rest
    from .. import formats, mechanics

    model, x = start_of(file, start, q, False)
    found = rest(model, x, fixed=fixed or (), u=named(u, model.inputs, "--u") or None)
    facts: dict[str, Any] = {
        "configuration": dict(zip(model.variables, found.tolist(), strict=True)),
        "potential energy (J)": mechanics.potential_energy(model, found),
        "energy released (J)": mechanics.potential_energy(model, x) - mechanics.potential_energy(model, found),
    }
    if model.nc:
        facts["constraint violation"] = float(np.abs(mechanics.constraints(model, found)).max())
    if save is not None:
        formats.save(model, save, configurations={"equilibrium": found})
        facts["file"] = str(save)
    if as_json:
        print_facts(facts, True)
        return
    for name, value in facts.pop("configuration").items():
        say(f"  {name:<24} {value: .9g}")
    print_facts(facts, False)
