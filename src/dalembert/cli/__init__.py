"""The command `dalembert`: everything a user does with a model file, without writing Python.

Exit codes: 0 done, 1 the input is wrong or a computation failed (one message, no traceback), 2 wrong usage,
130 interrupted. Every command takes `--json` and then prints one JSON object on stdout and nothing else.

A command is a function in a file of its own; this file lists the commands and turns errors into messages. Whatever is
heavy (numpy included) is imported inside the functions, so that `--help` and the completion of a shell stay quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from .bench import bench
from .convert import convert
from .demo import demo
from .equilibrium import equilibrium
from .examples import example_files, gallery
from .info import info
from .linearize import linearize
from .optimize import optimize
from .problem import read_problem
from .simulate import simulate
from .view import view

app = typer.Typer(
    name="dalembert",
    help="Discrete mechanics: simulate, linearize, optimize and view mechanisms from model files.\n\n"
    "MODEL is a file (.sexp .toml .json .urdf .xml) or the name of a model that ships with the package.",
    epilog="Start with:  dalembert demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, info, simulate, linearize, equilibrium, optimize, view, convert):
    app.command()(command)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)
app.add_typer(gallery, name="examples", rich_help_panel=None)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends with SystemExit.

    >>> main(["info", "pendulum", "--json"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    SystemExit: 0
    """
    args = list(sys.argv[1:] if argv is None else argv)
    from ..errors import DalembertError

    try:
        app(args, prog_name="dalembert")
    except KeyboardInterrupt:
        _fail("interrupted", 130, args)
    except (DalembertError, ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        if os.environ.get("DALEMBERT_TRACEBACK"):
            raise
        _fail(str(error) or type(error).__name__, 1, args, type(error).__name__)


def _fail(message: str, code: int, args: Sequence[str], kind: str = "") -> NoReturn:
    if "--json" in args:
        print(json.dumps({"error": message, "kind": kind or message}))
    print(f"dalembert: {message}", file=sys.stderr)
    raise SystemExit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"dalembert {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


__all__ = ["app", "example_files", "main", "read_problem"]
