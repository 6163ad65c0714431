"""`dalembert convert`: models from format to format, motions to tables, pages and films."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json
from .output import make_parent, print_facts, write_motion
from .start import load_named


def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Model (.sexp .toml .json .urdf .xml) or trajectory (.npz).")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="Model file; for a trajectory .csv .html .gif .mp4 .png.")
    ],
    as_json: Json = False,
) -> None:
    """Convert models, or trajectories to tables and films.

    Named configurations travel along with a model.

    Examples:

      dalembert convert robot.urdf robot.toml

      dalembert convert swing.npz swing.csv
    """
    from .. import Trajectory, formats

    make_parent(target)
    if source.endswith(".npz"):
        motion = Trajectory.load(source)
        if target.suffix == ".html":
            write_motion(motion, html=target)
        elif target.suffix in (".gif", ".mp4"):
            write_motion(motion, film=target)
        elif target.suffix in (".png", ".pdf", ".svg"):
            write_motion(motion, plot=target)
        else:
            write_motion(motion, save=target)
        print_facts({"file": str(target), "steps": motion.steps}, as_json)
        return
    model, configurations = load_named(source)
    formats.save(model, target, configurations=configurations or None)
    print_facts({"file": str(target), "variables": model.nq, "constraints": model.nc}, as_json)
