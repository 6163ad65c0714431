"""TOML and JSON: documents (see `document.py`) read by the standard library, written here in a readable layout.

The standard parsers tell where a syntax error is, but not where a value stands; `json_places` and `toml_places` find
that out, and only after something went wrong.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_left
from typing import Any

from .document import Path
from .sexp import Wrong

MAX_DEPTH = 64
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read_json(text: str) -> Any:
    """Parse JSON; raises `Wrong` with line and column. A key given twice is an error.

    >>> read_json('{"name": "m"}')
    {'name': 'm'}
    """
    _check_depth(text, toml=False)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            twice = next(k for i, (k, _) in enumerate(pairs) if k in dict(pairs[:i]))
            spots = [m.start() for m in re.finditer(re.escape(json.dumps(twice)) + r"\s*:", text)]
            raise Wrong(f"key {twice!r} is given twice", place_of(text, spots[-1] if spots else 0), twice)
        return table

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise Wrong(error.msg, (error.lineno, error.colno)) from None
    except ValueError as error:  # an integer of thousands of digits
        raise Wrong(str(error), (1, 1)) from None


def read_toml(text: str) -> Any:
    """Parse TOML; raises `Wrong` with line and column.

    >>> read_toml('name = "m"')
    {'name': 'm'}
    """
    _check_depth(text, toml=True)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(error))
        if match:
            raise Wrong(str(error)[: match.start()], (int(match.group(1)), int(match.group(2)))) from None
        raise Wrong(str(error), place_of(text, len(text))) from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits; keys with thousands of dots
        raise Wrong(str(error), (1, 1)) from None


_STRINGS = {
    # comments and strings are skipped when brackets are counted
    True: re.compile(
        r'#[^\n]*|"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[\[\]{}]', re.DOTALL
    ),
    False: re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL),
}


def _check_depth(text: str, *, toml: bool) -> None:
    """Both parsers recurse; refuse what no model needs before they do."""
    depth = 0
    for match in _STRINGS[toml].finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Wrong(f"nested more than {MAX_DEPTH} deep", place_of(text, match.start()))
        elif token in "]}":
            depth -= 1


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column (from 1) of an offset.

    >>> place_of("ab\\ncd", 4)
    (2, 2)
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def json_places(text: str) -> dict[Path, tuple[int, int]]:
    """Where every value of a (valid) JSON text starts.

    >>> json_places('{"a": [1, 2]}')[("a", 1)]
    (1, 11)
    """
    found: dict[Path, int] = {}
    path: list[Any] = []  # the last entry is the key (or number) of the value that comes next
    waiting_for_key: list[bool] = []
    key_next = False
    for match in _JSON_TOKEN.finditer(text):
        token = match.group()
        if key_next and token[0] == '"':
            path[-1] = json.loads(token)
            key_next = False
        elif token == ",":
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                key_next = True
        elif token in "]}":
            path.pop()
            waiting_for_key.pop()
            key_next = False
        elif token != ":":
            found[tuple(path)] = match.start()
            if token in "[{":
                path.append(0 if token == "[" else "")
                waiting_for_key.append(token == "{")
                key_next = token == "{"
    newlines = [m.start() for m in re.finditer("\n", text)]
    places = {}
    for spot, offset in found.items():
        line = bisect_left(newlines, offset)
        places[spot] = (line + 1, offset - (newlines[line - 1] if line else -1))
    return places


def toml_places(text: str) -> dict[Path, tuple[int, int]]:
    """Where tables and keys of a TOML text start: `[[frames]]`, `[configurations.q0]`, and keys at the start of a line.

    >>> toml_places('[[frames]]\\ntx = "x"')[("frames", 0, "tx")]
    (2, 1)
    """
    found: dict[Path, tuple[int, int]] = {(): (1, 1)}
    counts: dict[Path, int] = {}
    here: Path = ()
    for number, line in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*(\[\[?)(.*?)(\]\]?)\s*(?:#.*)?$", line)
        if header:
            here = tuple(_keys(header.group(2)))
            if header.group(1) == "[[":
                found.setdefault(here, (number, 1))
                counts[here] = counts.get(here, -1) + 1
                here = (*here, counts[here])
            found.setdefault(here, (number, 1))
            continue
        key = re.match(r"\s*((?:[A-Za-z0-9_.-]|\"[^\"]*\"|'[^']*')+)\s*=", line)
        if key:
            path = here
            for part in _keys(key.group(1)):
                path = (*path, part)
                found.setdefault(path, (number, key.start(1) + 1))
    return found


def _keys(text: str) -> list[str]:
    parts = re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([A-Za-z0-9_-]+)", text)
    return [a or b or c for a, b, c in parts]


# ---- writing -------------------------------------------------------------------------------------------------------


def write_json(data: dict[str, Any]) -> str:
    """A document as JSON, one frame, element or configuration per line.

    >>> print(write_json({"name": "m", "frames": [{"tx": "x", "mass": 1.0}]}), end="")
    {
      "name": "m",
      "frames": [
        {"tx": "x", "mass": 1.0}
      ]
    }
    """
    parts = []
    for key, value in data.items():
        if key in ("frames", "elements") and value:
            rows = ",\n".join(f"    {_json(row)}" for row in value)
            parts.append(f"  {_json(key)}: [\n{rows}\n  ]")
        elif key == "configurations":
            rows = ",\n".join(f"    {_json(name)}: {_json(table)}" for name, table in value.items())
            parts.append(f"  {_json(key)}: {{\n{rows}\n  }}")
        else:
            parts.append(f"  {_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def write_toml(data: dict[str, Any]) -> str:
    """A document as TOML: `[[frames]]` and `[[elements]]` tables.

    >>> print(write_toml({"name": "m", "frames": [{"tx": {"kinematic": "x"}, "mass": 1.0}]}), end="")
    name = "m"
    <BLANKLINE>
    [[frames]]
    tx = { kinematic = "x" }
    mass = 1.0
    """
    lines = [f"name = {_toml(data['name'])}"]
    if "variables" in data:
        lines += ["variables = [", *(f"    {_toml(v)}," for v in data["variables"]), "]"]
    for key in ("frames", "elements"):
        for row in data.get(key, ()):
            lines += ["", f"[[{key}]]", *(f"{_key(k)} = {_toml(v)}" for k, v in row.items())]
        if key in data and not data[key]:
            lines.insert(1, f"{key} = []")
    for name, table in data.get("configurations", {}).items():
        lines += ["", f"[configurations.{_key(name)}]", *(f"{_key(k)} = {_toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
