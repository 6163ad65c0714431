"""The notebooks run from top to bottom, what their cells return can be shown, and they are kept without outputs.

Run without Jupyter: a cell is its lines, and what its last line returns is asked for its HTML, as a notebook would.
"""

import ast
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[str]:
    book = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


def shown(text: str, names: dict[str, object]) -> object:
    """Run a cell; what its last line returns."""
    tree = ast.parse(text)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__notebook__"}
    pages = 0
    for text in cells(path, "code"):
        result = shown(text, names)
        if hasattr(result, "_repr_html_"):
            page = result._repr_html_() or ""  # a figure has none
            pages += "<iframe" in page
            assert len(page) < 1_000_000
            assert "src=" not in page.split("srcdoc=")[0]  # nothing is fetched
    assert pages >= 1
    plt.close("all")


def test_there_are_notebooks_without_outputs():
    assert len(NOTEBOOKS) >= 4
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), path.name
        assert cells(path, "markdown")[0].startswith("# ")
