"""`dalembert models`: the models that ship with the package."""

from __future__ import annotations

from typing import Any

from .options import Json
from .output import print_facts, say


def models(as_json: Json = False) -> None:
    """List the models that ship with the package.

    Example:  dalembert models
    """
    from .. import models as shipped

    rows: dict[str, dict[str, Any]] = {}
    for name in shipped.names():
        model, configurations = shipped.load_with_configurations(name)
        rows[name] = {
            "dynamic": model.nd,
            "kinematic": model.nk,
            "inputs": model.nu,
            "constraints": model.nc,
            "configurations": list(configurations),
            "file": str(shipped.path(name)),
        }
    if as_json:
        print_facts(rows, True)
        return
    heads = ("dynamic", "kinematic", "inputs", "constraints")
    say(f"  {'model':<20}" + "".join(f"{h:>12}" for h in heads) + "   configurations")
    for name, row in rows.items():
        kept = ", ".join(row["configurations"])
        say(f"  {name:<20}" + "".join(f"{row[h]:>12}" for h in heads) + f"   {kept}")
    say(
        f"\n{len(rows)} models; look at one with: dalembert view NAME, and use its file as a start: dalembert convert NAME my.toml"
    )
