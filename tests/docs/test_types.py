"""The code of README.md and docs/ passes a type checker, as a user's editor would check it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dalembert as da

from .test_docs import ROOT, WITH_CODE, blocks


def test_documented_calls_have_the_right_types(tmp_path):
    pytest.importorskip("mypy")
    for page in WITH_CODE:
        name = str(page.relative_to(ROOT).with_suffix("")).replace("/", "_").replace("-", "_")
        (tmp_path / f"{name}.py").write_text("\n".join(text for _, text in blocks(page, "python")))
    (tmp_path / "canary.py").write_text("import dalembert as da\nda.MidpointVI(3, dt=0.1)\n")  # is anything checked?
    source = Path(da.__file__).parents[1]
    env = os.environ if source.name == "site-packages" else {**os.environ, "MYPYPATH": str(source)}
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports", "silent"]
    options = ["--config-file", "", "--cache-dir", str(ROOT / ".mypy_cache" / "docs"), str(tmp_path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=tmp_path, env=env)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0] for line in errors] == ["canary.py"], done.stdout + done.stderr
