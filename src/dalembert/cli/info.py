"""`dalembert info`: tree, sizes and first checks of a model."""

from __future__ import annotations

import math
from typing import Any

from .options import Json, ModelFile, Q, Start
from .output import print_facts, say
from .start import start_of


def info(file: ModelFile, start: Start = None, q: Q = None, as_json: Json = False) -> None:
    """Show tree, sizes and first checks of a model.

    Example:  dalembert info closed_chain
    """
    import numpy as np

    from .. import mechanics

    model, x = start_of(file, start, q, False)
    masses = [e.frame.mass for e in model.frame_entries[1:] if e.frame is not None]
    facts: dict[str, Any] = {
        "name": model.name,
        "dynamic": list(model.dynamic),
        "kinematic": list(model.kinematic),
        "inputs": list(model.inputs),
        "constraints": list(model.constraints),
        "frames": len(model.frame_entries) - 1,
        "total mass (kg)": float(sum(masses)),
        "configuration": dict(zip(model.variables, x.tolist(), strict=True)),
    }
    m = mechanics.mass_matrix(model, x)[: model.nd, : model.nd]
    small, large = np.linalg.eigvalsh(m)[[0, -1]] if model.nd else (1.0, 1.0)
    notes = []
    facts["mass matrix condition"] = float(large / small) if small > 0 else math.inf
    if small <= 1e-12 * large:
        notes.append("the mass matrix is singular here: some variable moves no mass in this configuration")
    if model.nc:
        h = np.abs(mechanics.constraints(model, x))
        rank = int(np.linalg.matrix_rank(mechanics.constraint_jacobian(model, x)[:, : model.nd], tol=1e-9))
        facts["constraint violation"] = float(h.max())
        facts["degrees of freedom"] = model.nd - rank
        if h.max() > 1e-7:
            notes.append(
                f"the configuration violates {model.constraints[int(h.argmax())]}; try --satisfy in `simulate`"
            )
        if rank < model.nc:
            notes.append(f"only {rank} of {model.nc} constraints are independent here (redundant or singular)")
    else:
        facts["degrees of freedom"] = model.nd
    facts["potential energy (J)"] = mechanics.potential_energy(model, x)
    facts["notes"] = notes
    if as_json:
        print_facts(facts, True)
        return
    say(model)
    hidden = ("name", "constraints", "configuration", "notes")
    print_facts({k: v for k, v in facts.items() if k not in hidden}, False, " ")
    for note in notes:
        say(f"  note: {note}")
