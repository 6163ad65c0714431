"""From results to the user: printed facts, files, pages."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import replacing
from ..text import printable

if TYPE_CHECKING:
    from ..integrate import Trajectory


def say(text: object, *, error: bool = False, end: str = "\n") -> None:
    """Print for a person: nothing in a name can steer the terminal or stop the output."""
    print(printable(str(text), keep="\n\t"), end=end, file=sys.stderr if error else sys.stdout, flush=True)


def print_facts(facts: dict[str, Any], as_json: bool, title: str = "") -> None:
    """A JSON object (NaN as null; keys without units and spaces), or aligned lines."""
    if as_json:
        print(json.dumps(_plain({_key(k): v for k, v in facts.items()})))
        return
    if title:
        say(title)
    width = max((len(k) for k in facts), default=0)
    for key, value in facts.items():
        if isinstance(value, dict):
            text = ", ".join(f"{k} = {x:.6g}" for k, x in list(value.items())[:8]) + (" ..." if len(value) > 8 else "")
        elif isinstance(value, (list, tuple)):
            if not value:
                continue
            text = ", ".join(map(str, value))
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
        say(f"  {key:<{width}}  {text}")


def _key(text: str) -> str:
    """A fact's name for programs: without unit (all are SI) and spaces.

    >>> _key("largest energy error (J)")
    'largest_energy_error'
    """
    return text.partition(" (")[0].replace(" ", "_")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


def write_motion(
    motion: Trajectory,
    *,
    plot: Path | None = None,
    html: Path | None = None,
    save: Path | None = None,
    film: Path | None = None,
    title: str | None = None,
    show: Sequence[str] | None = None,
) -> list[str]:
    """Write what was asked for; returns the names of the files."""
    if save is not None:
        make_parent(save)
        motion.save(save)
    if plot is not None:
        import matplotlib

        matplotlib.use("Agg")
        from ..viewing import plot_trajectory

        make_parent(plot)
        figure = plot_trajectory(motion, title=title, show=show)
        with replacing(plot) as file:
            figure.savefig(file)
    if html is not None:
        from ..viewing import export_html

        make_parent(html)
        export_html(motion, html, title=title)
    if film is not None:
        from ..viewing import export_gif, export_mp4

        make_parent(film)
        (export_gif if film.suffix == ".gif" else export_mp4)(motion, film)
    return [str(p) for p in (save, plot, html, film) if p is not None]


def make_parent(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)


def open_page(page: Path) -> None:
    import webbrowser

    webbrowser.open(page.resolve().as_uri())
