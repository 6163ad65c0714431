"""`dalembert optimize`: the motion that a problem file asks for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Html, Json, Plot, Save
from .output import print_facts, say, write_motion
from .problem import read_problem


def optimize(
    problem: Annotated[Path, typer.Argument(metavar="PROBLEM.toml", help="Problem file, see the documentation.")],
    plot: Plot = None,
    html: Html = None,
    save: Save = None,
    gains: Annotated[
        Path | None, typer.Option("--gains", help="Write motion, feedback gains and history (.npz).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Optimize a motion as a problem file says.

    Example:  dalembert optimize swing_up.toml --html swing_up.html

    A problem file, all names by name:

    \b
      model = "cart_pole"
      dt = 0.02
      steps = 150
      start.q = {theta = 0.0}
      goal = {theta = 3.14159265}
    \b
      [weights]
      state = {theta = 1.0, "*" = 0.01}
      input = {"*" = 0.01}
      final = {theta = 100.0, "*" = 10.0}
    """
    from .. import optimize as run

    system, cost, guess, options = read_problem(problem)
    result = run(system, cost, guess, progress=sys.stderr.isatty() and not as_json, **options)
    motion = result.trajectory
    files = write_motion(motion, plot=plot, html=html, save=save, show=("variables", "inputs", "constraints"))
    if gains is not None:
        result.save(gains)
        files.append(str(gains))
    facts: dict[str, Any] = {
        "status": result.status,
        "reason": result.reason,
        "cost": float(result.cost),
        "iterations": result.iterations,
        "seconds": result.seconds,
        "final state": dict(zip(system.x_names, result.X[-1].tolist(), strict=True)),
        "files": files,
    }
    if as_json:
        print_facts(facts, True)
    else:
        say(result.summary())
        say("final state: " + ", ".join(f"{k} = {x:.6g}" for k, x in facts["final state"].items()))
        for name in files:
            say(f"  wrote {name}")
    if result.status == "interrupted":
        raise SystemExit(130)
    if result.status in ("stalled", "unbounded"):
        raise SystemExit(1)
