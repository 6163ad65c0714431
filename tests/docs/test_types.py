"""The code of README.md and docs/ passes type checkers, as a user's editor would check it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dalembert as da

from .test_docs import ROOT, WITH_CODE, blocks


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as Python files, and one with a mistake that must be found."""
    folder = tmp_path_factory.mktemp("pages")
    for page in WITH_CODE:
        name = str(page.relative_to(ROOT).with_suffix("")).replace("/", "_").replace("-", "_")
        (folder / f"{name}.py").write_text("\n".join(text for _, text in blocks(page, "python")))
    (folder / "canary.py").write_text("import dalembert as da\nda.MidpointVI(3, dt=0.1)\n")
    return folder


@pytest.mark.slow
def test_documented_calls_pass_mypy(pages):
    pytest.importorskip("mypy")
    source = Path(da.__file__).parents[1]
    env = os.environ if source.name == "site-packages" else {**os.environ, "MYPYPATH": str(source)}
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports", "silent"]
    options = ["--config-file", "", "--cache-dir", str(pages / "cache"), str(pages)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=pages, env=env)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0] for line in errors] == ["canary.py"], done.stdout + done.stderr


@pytest.mark.slow
def test_documented_calls_pass_pyright(pages):
    pytest.importorskip("pyright")
    settings = {
        "include": ["*.py"],
        "extraPaths": [str(Path(da.__file__).parents[1])],
        "typeCheckingMode": "basic",
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
    }
    (pages / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(pages)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=pages)
    if not done.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not run here: {done.stderr.strip()[-200:]}")
    found = [
        (Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"])
        for d in json.loads(done.stdout)["generalDiagnostics"]
        if d["severity"] == "error"
    ]
    assert [name for name, *_ in found] == ["canary.py"], found
