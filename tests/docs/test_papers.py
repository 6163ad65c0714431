"""The page of the papers: no figure or table is left out, every command exists, and those below a minute run (slow)."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dalembert.cli import example_files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
FIGURES = {
    "Structured linearization": range(1, 8),
    "Trajectory optimization": range(1, 15),
    "Scalable variational integrators": range(1, 14),
    "Embedded control synthesis": range(1, 5),
    "Discrete mechanics and optimal control for constrained systems": range(1, 17),
}
NUMBERS = {  # printed numbers that must not get lost
    "Structured linearization": "0.2471 0.3627 9.7610 -10.2389 -0.0976 0.9533 -0.9333 0.00976 0.09533 0.0186 0.0818 1.01e-2 2.53e-7 "
    "2.02e-1 5.06e-6 653 14 28.5 55.8 2.11 1.12 22.15 80 18 0.6π",
    "Trajectory optimization": "0.247136194156 0.362723883111 -0.933313228895 112 1e3 350|5 2.11 1e-2 22.5 15 60 80 1000",
    "Scalable variational integrators": "5000 1.86 22.1 -107 1.74 0.19 1.85 18.47 1000 45 120 15",
    "Embedded control synthesis": "0.0337 0.004 0.43 0.25 1000 1/30",
    "Discrete mechanics and optimal control for constrained systems": "2.8242e6 2.9168e6 909 477 6798 4555 0.41545 0.01187 24.502 356 "
    "190 3641 2422 512 1.9e-3 50 35",
}


def rows(paper):
    """Cells of the table of a paper."""
    part = PAGE.split(f"## {paper}\n", 1)[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def commands():
    """Commands of all rows, and whether they take minutes."""
    found = {}
    for paper in FIGURES:
        for row in rows(paper):
            for text in re.findall(r"`((?:dalembert|pytest) [^`]+)`", row[3]):
                found[text] = "(minutes)" in row[3]
    return found


@pytest.mark.parametrize("paper", FIGURES)
def test_every_figure_and_number_has_a_row(paper):
    table = rows(paper)
    assert all(len(row) == 4 and all(row) for row in table), [row for row in table if len(row) != 4 or not all(row)]
    seen = set()
    for row in table:
        for first, word, last in re.findall(r"Fig(?:s\.?|\.|ures?)? (\d+)(?: (and|to) (\d+))?", row[0]):
            seen |= set(range(int(first), int(last) + 1)) if word == "to" else {int(first), int(last or first)}
    assert seen == set(FIGURES[paper])
    printed = " ".join(row[0] + " " + row[1] for row in table)
    missing = [n for n in NUMBERS[paper].split() if not re.search(rf"(?<![\d.])(?:{n})(?![\d])", printed)]
    assert not missing


def test_tables_and_listings_have_rows():
    named = " ".join(row[0] for row in rows("Scalable variational integrators"))
    assert all(word in named for word in ("Table I,", "Table II", "Listing 1"))


@pytest.mark.parametrize("command", commands())
def test_commands_lead_somewhere(command):
    words = shlex.split(command)
    if words[0] == "dalembert":
        assert words[1] == "demo" or words[3] in {p.stem for p in example_files()}
        return
    for word in words[1:]:
        path, _, name = word.partition("::")
        assert (ROOT / path).exists(), word
        if name:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, word


@pytest.mark.slow
@pytest.mark.parametrize("command", [text for text, long in commands().items() if not long])
def test_commands_run(command, tmp_path):
    words = shlex.split(command)
    if words[0] == "pytest":
        call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words[1:]]
    else:
        out = ["--out", str(tmp_path)] if words[1] == "examples" else []
        call = [sys.executable, "-m", "dalembert", *words[1:], *out]
    folder = ROOT if words[0] == "pytest" else tmp_path
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
