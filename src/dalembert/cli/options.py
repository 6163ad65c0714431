"""The options that several commands share, what a shell completes for them, and texts NAME=VALUE."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

_FILES = (".sexp", ".lisp", ".toml", ".json", ".urdf", ".xml", ".mjcf", ".npz")


def complete_model(incomplete: str) -> list[str]:
    """Names of shipped models and files in reach, for the shell."""
    from .. import models

    folder, start = os.path.split(incomplete)
    near = sorted(p for p in Path(folder or ".").glob(f"{start}*") if p.is_dir() or p.suffix in _FILES)
    files = [os.path.join(folder, p.name) + ("/" if p.is_dir() else "") for p in near]
    return [*(n for n in models.names() if n.startswith(incomplete)), *files]


ModelFile = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Model file, or the name of a shipped model.", autocompletion=complete_model),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
Dt = Annotated[float, typer.Option("--dt", help="Step length (s).")]
Order = Annotated[int, typer.Option("--order", help="2, 4 or 6: steps composed of 1, 5 or 9 midpoint steps.")]
Alpha = Annotated[
    float, typer.Option("--alpha", help="Where the step evaluates L: 0 start, 1 end, 0.5 (second order) middle.")
]
Forcing = Annotated[str, typer.Option("--forcing", help="'split' (second order) or 'left' (as trep).")]
Start = Annotated[
    str | None, typer.Option("--start", help="Named configuration of the file (default: q0, if it has one).")
]
Q = Annotated[list[str] | None, typer.Option("--q", metavar="NAME=VALUE", help="Starting value of a variable; repeat.")]
V = Annotated[
    list[str] | None, typer.Option("--v", metavar="NAME=VALUE", help="Starting velocity of a variable; repeat.")
]
U = Annotated[list[str] | None, typer.Option("--u", metavar="NAME=VALUE", help="Constant value of an input; repeat.")]
Near = Annotated[
    list[str] | None,
    typer.Option("--near", metavar="NAME=VALUE", help="First guess of a variable that --satisfy moves; repeat."),
]
Satisfy = Annotated[
    bool, typer.Option("--satisfy", help="Move the variables that --q does not set until all constraints hold.")
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Write a figure (.png .pdf .svg).")]
Html = Annotated[Path | None, typer.Option("--html", help="Write one HTML page that plays the motion offline.")]
Save = Annotated[Path | None, typer.Option("--save", help="Write the trajectory (.npz or .csv).")]


def named(pairs: list[str] | None, names: Sequence[str], option: str) -> dict[str, float]:
    """NAME=VALUE texts as a dictionary.

    >>> named(["theta=1.5"], ["theta"], "--q")
    {'theta': 1.5}
    """
    from ..arrays import nearest

    out: dict[str, float] = {}
    for pair in pairs or []:
        name, equal, text = pair.rpartition("=")
        if not equal:
            raise typer.BadParameter(f"{option} {pair!r}: NAME=VALUE is needed")
        if name not in names:
            raise ValueError(f"{option}: unknown name {name!r}{nearest(name, names)}")
        try:
            out[name] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{option} {pair!r}: {text!r} is not a number") from None
    return out
