"""Every Python block of README.md and docs/ runs as it stands; blocks of one page share their names, top to bottom.

Other checks: links inside the repository lead somewhere, commands that the pages name exist, TOML blocks are problems
that `dalembert optimize` accepts.
"""

import re
import tomllib
from pathlib import Path

import matplotlib
import pytest

import dalembert as da
from dalembert.cli import app, example_files, read_problem

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if p.is_file())
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# a text block right behind a Python block is what that prints
PRINTED = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of every fenced block of a language."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(2)) + 1, m[2]) for m in FENCE.finditer(text) if m[1] == language]


WITH_CODE = [p for p in PAGES if blocks(p, "python")]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    for extra in re.findall(r"^import (torch|jax|gymnasium)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        pytest.importorskip(extra, reason=f"the extra [{extra}] is not installed")
    names: dict[str, object] = {"__name__": "__docs__"}
    printed = dict(PRINTED.findall(page.read_text(encoding="utf-8")))
    for line, text in blocks(page, "python"):
        # empty lines in front keep the line numbers of the page in tracebacks
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
        out = capsys.readouterr().out
        if text in printed:
            assert out == printed[text], f"{page.name}, line {line}: prints something else"


def test_printed_outputs_are_found():
    """Every text block (but formulas) stands behind the code that prints it, and there are some."""
    pages = [p.read_text(encoding="utf-8") for p in PAGES if blocks(p, "python")]
    assert sum(len(PRINTED.findall(text)) for text in pages) == sum(text.count("\n```text\n") for text in pages) >= 2


def test_there_is_code_to_test():
    assert len(WITH_CODE) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_exist(page):
    known = {c.name or c.callback.__name__ for c in app.registered_commands} | {g.name for g in app.registered_groups}
    examples = {p.stem for p in example_files()}
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"(?:^|`)dalembert ([a-z]+)", text, flags=re.MULTILINE):
        assert command in known, command
    for name in re.findall(r"dalembert examples run ([a-z]\w+)", text):
        assert name in examples, name


def test_models_of_the_pages_load():
    found = [text for page in PAGES for _, text in blocks(page, "lisp")]
    assert found
    for text in found:
        model = da.loads(text, "sexp")
        assert da.loads(da.dumps(model, "sexp"), "sexp") == model


def test_problem_files_are_read(tmp_path):
    found = [text for page in PAGES for _, text in blocks(page, "toml") if "[weights]" in text]
    assert found
    for text in found:
        assert tomllib.loads(text)["model"]
        (tmp_path / "problem.toml").write_text(text)
        system, _, (X, U), _ = read_problem(tmp_path / "problem.toml")
        assert X.shape == (system.steps + 1, system.nx)
        assert U.shape == (system.steps, system.nu)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_named_tests_exist(page):
    """A claim must not point to a test that was renamed."""
    for command in re.findall(r"`pytest ([^`]+)`", page.read_text(encoding="utf-8")):
        for word in re.findall(r"tests/\S+", command):
            path, _, name = word.partition("::")
            assert (ROOT / path).exists(), word
            if name:
                assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), word
