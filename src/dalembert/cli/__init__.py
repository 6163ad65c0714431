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
import warnings
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from .bench import bench
from .convert import convert
from .demo import demo
from .equilibrium import equilibrium
from .examples import example_files, gallery
from .export import export
from .info import info
from .linearize import linearize
from .models import models
from .optimize import optimize
from .output import say
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
for command in (demo, models, info, simulate, linearize, equilibrium, optimize, view, convert, export):
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

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the letter stops nothing
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            app(args, prog_name="dalembert")
    except KeyboardInterrupt:
        _fail("interrupted", 130, args)
    except BrokenPipeError:  # the reader of the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        if os.environ.get("DALEMBERT_TRACEBACK"):
            raise
        kind, message = type(error).__name__, str(error)
        if not isinstance(error, (DalembertError, ValueError, OSError, ImportError, RuntimeError, MemoryError)):
            message = f"a bug in dalembert: {kind}: {message} (DALEMBERT_TRACEBACK=1 shows where; please report it)"
        _fail(message or kind, 1, args, kind)


def _warn(message: Warning | str, *_: object) -> None:
    say(f"dalembert: warning: {message}", error=True)


def _fail(message: str, code: int, args: Sequence[str], kind: str = "") -> NoReturn:
    if "--json" in args:
        print(json.dumps({"error": message, "kind": kind or message}))
    say(f"dalembert: {message}", error=True)
    raise SystemExit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        say(f"dalembert {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


__all__ = ["app", "example_files", "main", "read_problem"]
