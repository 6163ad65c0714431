"""`dalembert examples`: list and run the examples; one page shows what they made."""

from __future__ import annotations

import json
import os
import sys
import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import replacing
from ..progress import progress
from .options import Json
from .output import open_page, print_facts, say

gallery = typer.Typer(help="List, run and look at the examples.", no_args_is_help=True)


@gallery.command("list")
def examples_list(as_json: Json = False) -> None:
    """List the examples with a line on each."""
    rows = {p.stem: _headline(p) for p in example_files()}
    if as_json:
        print_facts(rows, True)
        return
    for name, line in rows.items():
        say(f"  {name:<26} {line}")
    say(f"\n{len(rows)} examples in {example_files()[0].parent}; run one with: dalembert examples run NAME")


@gallery.command("run")
def examples_run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Examples to run.", autocompletion=complete_example)
    ] = None,
    every_one: Annotated[bool, typer.Option("--all", help="Run them all and write a gallery page.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for figures and the gallery.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Shorter studies, where an example offers that.")] = False,
    as_json: Json = False,
) -> None:
    """Run examples, which print their numbers and save their figures.

    The gallery of what has run is OUT/index.html.

    Examples:

      dalembert examples run single_pendulum

      dalembert examples run --all
    """
    files = {p.stem: p for p in example_files()}
    if not names and not every_one:
        raise typer.BadParameter("name an example or say --all")
    for name in names or []:
        if name not in files:
            from ..arrays import nearest

            raise ValueError(f"no example {name!r}{nearest(name, files)}; see: dalembert examples list")
    chosen = list(files) if every_one else list(names or [])
    out.mkdir(parents=True, exist_ok=True)
    results = {}
    with progress("examples", len(chosen), wanted=not as_json and len(chosen) > 1) as tell:
        for i, name in enumerate(chosen):
            if tell is not None:
                tell(i, name)
            results[name] = _run_example(files[name], out, quick, as_json)
    page = out / "index.html"
    known = _read_results(out) | results
    for path, text in ((out / "examples.json", json.dumps(known, indent=1)), (page, _gallery_page(known, out, files))):
        with replacing(path) as file:
            file.write_text(text, encoding="utf-8")
    failed = [n for n, r in results.items() if r["code"]]
    summary = {"ran": len(results), "failed": failed, "gallery": str(page)}
    print_facts(summary | ({"results": results} if as_json else {}), as_json)
    if failed:
        raise SystemExit(1)


@gallery.command("open")
def examples_open(
    out: Annotated[Path, typer.Option("--out", help="Folder of the gallery.")] = Path("out"), as_json: Json = False
) -> None:
    """Open the gallery page that `run` wrote."""
    page = out / "index.html"
    if not page.is_file():
        raise ValueError(f"there is no {page} yet; run: dalembert examples run --all")
    print_facts({"gallery": str(page)}, as_json)
    open_page(page)


def example_files() -> list[Path]:
    """The example scripts: beside the installed package, or in the source tree.

    >>> len(example_files()) > 5
    True
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parents[1] / "examples"):
        found = sorted(p for p in folder.glob("*.py") if not p.stem.startswith("_"))
        if found:
            return found
    raise ValueError("the examples are not installed")


def complete_example(incomplete: str) -> list[str]:
    return [p.stem for p in example_files() if p.stem.startswith(incomplete)]


def _headline(path: Path) -> str:
    """First line of a script's docstring, without executing it."""
    import ast

    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def _run_example(path: Path, out: Path, quick: bool, silent: bool) -> dict[str, Any]:
    """One example in its own process, so that neither a crash nor its settings reach the next one."""
    import subprocess

    text = path.read_text(encoding="utf-8")
    command = [sys.executable, str(path), "--out", str(out)]
    if quick and '"--quick"' in text:
        command.append("--quick")
    if not silent:
        say(f"--- {path.stem}: {_headline(path)}")
    before = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    begun = clock.perf_counter()
    env = os.environ | {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:  # shown while it runs
            lines.append(line)
            if not silent:
                say("    " + line, end="")
    new = [p.name for p in sorted(out.iterdir()) if p.is_file() and before.get(p) != p.stat().st_mtime_ns]
    return {
        "title": _headline(path),
        "code": process.returncode,
        "seconds": round(clock.perf_counter() - begun, 2),
        "output": "".join(lines),
        "files": [n for n in new if n not in ("index.html", "examples.json")],
    }


def _read_results(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / "examples.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _gallery_page(results: dict[str, Any], out: Path, files: dict[str, Path]) -> str:
    """One plain page: every example with its figures, its numbers and its source; refers to files beside it."""
    from html import escape

    cards = []
    for name in sorted(results):
        r = results[name]
        pictures = [f for f in r["files"] if Path(f).suffix in (".png", ".gif", ".svg") and (out / f).is_file()]
        links = [f for f in r["files"] if Path(f).suffix in (".html", ".mp4", ".csv", ".npz")]
        source = escape(files[name].read_text(encoding="utf-8")) if name in files else ""
        cards.append(
            f'<article id="{escape(name)}"><h2>{escape(name.replace("_", " "))}</h2><p>{escape(r["title"])}</p>'
            + "".join(
                f'<a href="{escape(f)}"><img src="{escape(f)}" alt="{escape(f)}" loading="lazy"></a>' for f in pictures
            )
            + "".join(f'<p><a href="{escape(f)}">{escape(f)}</a></p>' for f in links)
            + ("" if r["code"] == 0 else f'<p class="bad">failed with exit code {r["code"]}</p>')
            + f"<details><summary>numbers ({r['seconds']} s)</summary><pre>{escape(r['output'])}</pre></details>"
            + (f"<details><summary>source</summary><pre>{source}</pre></details>" if source else "")
            + "</article>"
        )
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1500px;padding:0 1rem;"
        "color:#1d2430;background:#f6f7f9}"
        "main{display:grid;grid-template-columns:repeat(auto-fill,minmax(430px,1fr));gap:1rem}"
        "article{background:#fff;border:1px solid #dfe3e8;border-radius:8px;padding:1rem;min-width:0}"
        "h1{margin:0}h2{margin:0;font-size:1.1rem}p{margin:.3rem 0}img{width:100%;height:auto}.bad{color:#b42318}"
        "pre{overflow:auto;font-size:12px;background:#f6f7f9;padding:.6rem;max-height:24rem}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>dalembert: gallery</title><style>{style}</style><h1>Gallery</h1>"
        f"<p>Each picture is made by a script of <code>examples/</code>; its numbers and its source are below it.</p>"
        f"<main>{''.join(cards)}</main></html>\n"
    )
