"""`dalembert bench`: the benchmarks of the source tree."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import Json


def bench(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("out/bench"),
    as_json: Json = False,
) -> None:
    """Run the benchmarks of the source tree.

    Further arguments go to them (`python -m benchmarks --help` lists them).

    Example:  dalembert bench --quick
    """
    import subprocess

    # an installed command is usually run inside of the checkout it was installed from
    roots = [Path.cwd(), Path(__file__).resolve().parents[3]]
    root = next((r for r in roots if (r / "benchmarks/__main__.py").is_file() and (r / "src/dalembert").is_dir()), None)
    if root is None:
        raise ValueError("the benchmarks are in the source tree, not in the installed package: run this in a checkout")
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    # -P: a folder `benchmarks` of the place where this is called is not meant
    command = [sys.executable, "-P", "-m", "benchmarks", "--out", str(out), *context.args]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL if as_json else None, check=False
    )
    if as_json and done.returncode == 0:
        print(json.dumps(json.loads((out / "results.json").read_text(encoding="utf-8"))))
    raise SystemExit(done.returncode)
