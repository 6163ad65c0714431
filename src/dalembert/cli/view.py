"""`dalembert view`: models and motions in the browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .options import Html, Json
from .output import make_parent, print_facts, say
from .start import motion_or_model


def view(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Model (file or shipped name) or trajectory (.npz).")],
    others: Annotated[list[str] | None, typer.Argument(help="More trajectories, drawn over the first.")] = None,
    html: Html = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on this machine (the next free one if taken).")
    ] = 8080,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    as_json: Json = False,
) -> None:
    """Show a model or trajectories in the browser.

    Runs until Ctrl-C; a model gets sliders. With --html it writes a page instead.

    Examples:

      dalembert view marionette

      dalembert view open_loop.npz closed_loop.npz
    """
    from ..viewing import export_html
    from ..viewing import view as show

    names = [file, *(others or [])]
    shown = [motion_or_model(name) for name in names]
    labels = [Path(n).stem for n in names]
    if html is not None:
        make_parent(html)
        export_html(shown if len(shown) > 1 else shown[0], html, names=labels)
        print_facts({"page": str(html)}, as_json)
        return
    viewer = show(*shown, names=labels, port=port, open_browser=browser, block=False)
    if as_json:
        print(json.dumps({"url": viewer.url}), flush=True)
    else:
        say(f"{viewer.url}   (Ctrl-C ends it)")
    viewer.wait()
