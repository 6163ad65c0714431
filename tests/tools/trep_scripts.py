"""Converts a folder of scripts written for trep (Python 2) and runs each: how well does `dalembert.trep` stand in?

    python -m tests.tools.trep_scripts FOLDER [part of a name ...]

FOLDER is a copy of trep's `examples` or of any scripts; nothing in it is changed. The conversion is mechanical: lib2to3
(Python 3.11 or 3.12 has it), then the substitutions below. Files that a script reads are copied along; the one extension
in C among trep's examples has a stand-in in Python (`trep_piston.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import dalembert

# what lib2to3 does not know: (pattern, replacement, why)
SUBSTITUTIONS = (
    (r"^(\s*)import trep$", r"\1import dalembert.trep as trep", "the layer instead of trep"),
    (r"^(\s*)import trep\.([\w.]+)$", r"\1import dalembert.trep as trep, dalembert.trep.\2", "the layer"),
    (r"^(\s*)(import|from) trep\b(?=.* (as|import) )", r"\1\2 dalembert.trep", "the layer"),
    (r"^\s*(from|import) (OpenGL|PyQt4)\b.*$", "pass", "windows are drawn by the viewer"),
    (r"\btime\.clock\(\)", "time.perf_counter()", "gone from Python"),
    (r"\bnp\.rank\(", "np.linalg.matrix_rank(", "gone from NumPy"),
    (r"^\s*\w+\.hold\((True|False)\)$", "pass", "gone from matplotlib"),
    (r'("[^"\n]*%\.2f[^"\n]*") % (\w+)', r"\1 % np.squeeze(\2)", "NumPy takes no array of one number for it"),
    (r"\[0:len\((\w+)\)/2\]", r"[0:len(\1)//2]", "a division of integers in Python 2"),
    (
        r"^import (_piston)$",
        r"try:\n    from . import \1\nexcept ImportError:\n    import \1",
        "the extension of this folder, in a package or not",
    ),
)
AFTER = {"pend-closed-loop.py": "pend-optimization.py"}  # reads the files that the other writes
# an extension in C, compiled against trep's headers, is written anew in Python: (its source, its stand-in here)
EXTENSIONS = {"piston.c": ("trep_piston.py", "_piston.py")}
NO_SCRIPTS = {"setup.py", "conf.py", "__init__.py"}


def convert(text: str, path: str) -> str:
    """Python 3 source of a script for dalembert.trep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lib2to3.refactor import RefactoringTool, get_fixers_from_package

        tool = RefactoringTool(get_fixers_from_package("lib2to3.fixes"))
        out = str(tool.refactor_string(text.expandtabs(8).rstrip() + "\n", path))
    for pattern, replacement, _ in SUBSTITUTIONS:
        out = re.sub(pattern, replacement, out, flags=re.MULTILINE)
    return out


def convert_folder(source: Path, target: Path) -> list[Path]:
    """Convert all scripts of a folder into another and copy the other files; returns the scripts in the order to run."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    found = []
    for path in sorted(target.rglob("*.py")):
        if path.name == "conf.py":
            continue
        path.write_text(convert(path.read_text(), str(path)))
        if path.name not in NO_SCRIPTS:
            found.append(path)
    for path in sorted(target.rglob("*.c")):
        if path.name in EXTENSIONS:
            here, there = EXTENSIONS[path.name]
            shutil.copyfile(Path(__file__).with_name(here), path.with_name(there))
    names = {(p.parent, p.name): p for p in found}
    for path in list(found):
        first = names.get((path.parent, AFTER.get(path.name, "")))
        if first is not None and found.index(first) > found.index(path):
            found.remove(path)
            found.insert(found.index(first) + 1, path)
    return found


def run(path: Path, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run a converted script in its folder, without windows: figures are drawn unseen, the viewer's page is not opened."""
    env = {**os.environ, "MPLBACKEND": "Agg", "BROWSER": "true", "PYTHONWARNINGS": "ignore"}
    home = str(Path(dalembert.__file__).parents[1])  # the package under test, installed or not
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [home, env.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, path.name],
        cwd=path.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def main() -> int:
    """Run everything and print a line for each script."""
    import tempfile

    source = Path(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in convert_folder(source, Path(folder) / "scripts"):
            name = str(path.relative_to(Path(folder) / "scripts"))
            if len(sys.argv) > 2 and not any(part in name for part in sys.argv[2:]):
                continue
            start = time.perf_counter()
            done = run(path)
            failed += done.returncode != 0
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] if done.returncode else ["ok"]
            print(f"{name:60s} {time.perf_counter() - start:6.1f} s  {''.join(last)}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
