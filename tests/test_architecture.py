"""The house as a whole: who imports whom, nobody reads another room's private names, nothing stands twice, few `Any`.

The rules stand in docs/architecture.md; docs/make_architecture.py reads them and the sources. Lists of exceptions are there
to be emptied.
"""

import ast
import re
from collections import defaultdict

from docs import make_architecture as house

ROOT = house.ROOT


def parsed():
    """(file inside of the package, its room, its syntax tree)."""
    for path in house.sources():
        yield str(path.relative_to(house.SOURCE)), house.room_of(path), ast.parse(path.read_text(encoding="utf-8"))


# ---- imports


def test_every_room_has_a_rule_and_a_place_in_the_picture():
    rooms = set(house.rooms())
    assert set(house.rules()) == rooms
    assert {room for layer in house.LAYERS for room in layer} == rooms - set(house.BASE)


def test_arrows_point_where_they_may():
    wrong = house.broken(house.imports())
    listed = house.exceptions()
    new = [str(i) for i in wrong if (i.file, i.target) not in listed]
    assert not new, "docs/architecture.md does not allow:\n" + "\n".join(new)


def test_the_picture_is_true():
    assert house.PICTURE.read_text(encoding="utf-8") == house.draw(), "run: python docs/make_architecture.py"


def test_the_checker_sees_arrows(tmp_path, monkeypatch):
    """Imports at import, on use and for types; deep ones; those of the front door."""
    for name in ("model", "viewing", "cli"):
        (tmp_path / name).mkdir()
    (tmp_path / "model/frames.py").write_text("def f():\n    from ..cli import view\n")
    (tmp_path / "viewing/__init__.py").write_text("from ..model.frames import f\n")
    (tmp_path / "cli/__init__.py").write_text(
        "from typing import TYPE_CHECKING\nfrom dalembert import optimize, model\nfrom .. import _core\n"
        "from ..model import Model\nif TYPE_CHECKING:\n    from ..model.frames import Frame\n"
    )
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    found = house.imports()
    assert [(i.room, i.target, i.module, i.name, i.when) for i in found] == [
        ("cli", "dalembert", "", "optimize", "at import"),
        ("cli", "model", "model", "model", "at import"),
        ("cli", "_core", "_core", "_core", "at import"),
        ("cli", "model", "model", "Model", "at import"),
        ("cli", "model", "model.frames", "Frame", "for types"),
        ("model", "cli", "cli", "view", "on use"),
        ("viewing", "model", "model.frames", "f", "at import"),
    ]
    assert [(i.room, i.target, i.name) for i in house.broken(found)] == [
        ("cli", "_core", "_core"),
        ("cli", "model", "Frame"),
        ("model", "cli", "view"),
    ]


# ---- private names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_names(trees):
    """(file, name) of every private name that a file takes from another room, as an attribute, import or string."""
    trees = list(trees)
    own = defaultdict(set)  # room -> private names that it defines
    for _, room, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own[room].add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own[room].add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and of_self(node):
                own[room].add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg:
                own[room].add(node.arg)  # set by name: self._set(_key=...)
    found = set()
    for file, room, tree in trees:
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Attribute) and not of_self(node):
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names if alias.name != "_core"]  # a room, not a secret
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("__dict__"):
                names = [node.slice.value] if isinstance(node.slice, ast.Constant) else []
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("getattr", "__dict__.get", "hasattr")):
                names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            found |= {(file, name) for name in names if is_private(name) and name not in own[room]}
    return found


def of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def test_nobody_reads_private_names_of_another_room():
    found = private_names(parsed())
    assert not found, f"private names of another room: {sorted(found)}"


def test_the_checker_sees_private_names():
    texts = {
        "a/x.py": "class A:\n    def __init__(self):\n        self._own = 1\ndef f(a, b):\n    return a._own + b._other\n",
        "b/y.py": "from ..a.x import _hidden\nclass B:\n    _other = 1\ndef g(a):\n    return getattr(a, '_own')\n",
    }
    found = private_names((file, file[0], ast.parse(text)) for file, text in texts.items())
    assert found == {("a/x.py", "_other"), ("b/y.py", "_hidden"), ("b/y.py", "_own")}


# ---- twice the same

BLOCK = 10  # so many equal lines in two places are a function that nobody wrote


def significant(text: str) -> list[tuple[int, str]]:
    """(line number, text) without blank lines, comments, imports and lines that are only punctuation."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = " ".join(line.split())
        if re.search(r"\w", stripped) and not re.match(r"#|//|/\*|\*|from \S+ import|import |using |\w+,$", stripped):
            lines.append((number, stripped))
    return lines


def repeated(files: dict[str, str]) -> list[str]:
    """Places where a block of equal lines stands again."""
    first: dict[tuple[str, ...], tuple[str, int, int]] = {}
    found = []
    for file, text in files.items():
        lines = significant(text)
        skip = 0
        for i in range(len(lines) - BLOCK + 1):
            block = tuple(line for _, line in lines[i : i + BLOCK])
            where = first.setdefault(block, (file, i, lines[i][0]))
            if (where[0] != file or where[1] <= i - BLOCK) and i >= skip:
                found.append(f"{where[0]}:{where[2]} and {file}:{lines[i][0]}")
                skip = i + BLOCK
    return found


def test_no_block_stands_twice():
    paths = [p for suffix in ("py", "cpp", "hpp", "h") for p in sorted(ROOT.glob(f"src/**/*.{suffix}"))]
    paths += [p for suffix in ("cpp", "hpp", "h") for p in sorted(ROOT.glob(f"cpp/**/*.{suffix}"))]
    assert len(paths) > 100
    found = repeated({str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths})
    assert not found, "\n".join(found)


def test_the_checker_sees_repetition():
    block = "\n".join(f"x{i} = {i}" for i in range(BLOCK))
    assert repeated({"a.py": block, "b.py": f"y = 1\n\n# no\n{block}\n"}) == ["a.py:1 and b.py:4"]
    assert repeated({"a.py": f"{block}\nz = 0\n{block}"}) == ["a.py:1 and a.py:12"]
    assert repeated({"a.py": block, "b.py": block.replace("x3", "y3")}) == []


# ---- types


def is_any(node: ast.expr | None) -> bool:
    """No type, `Any`, or a union with it."""
    if isinstance(node, ast.BinOp):
        return is_any(node.left) or is_any(node.right)
    return node is None or (isinstance(node, ast.Name) and node.id == "Any")


def parameters(body):
    """(function, parameter) of all public functions and methods."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from parameters(node.body)
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            a = node.args
            for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
                if x is not None and x.arg not in ("self", "cls"):
                    yield node.name, x


ANY_AT_MOST = 0.05  # of all parameters of public functions


def test_few_parameters_are_any():
    count, loose = 0, defaultdict(int)
    for _, room, tree in parsed():
        for _, x in parameters(tree.body):
            count += 1
            loose[room] += is_any(x.annotation)
    share = sum(loose.values()) / count
    assert share <= ANY_AT_MOST, f"{share:.1%} of {count} parameters: {dict(loose)}"
