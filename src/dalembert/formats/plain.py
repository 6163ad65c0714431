"""TOML and JSON: documents (see `document.py`) read by the standard library, written here in a readable layout.

The standard parsers tell where a syntax error is, but not where a value stands; `json_place` and `toml_place` find
that out, and only after something went wrong. Everything here takes time and memory in proportion to the text.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from .document import Path
from .sexp import Wrong

MAX_DEPTH = 64
MAX_TOKENS = 2_000_000  # of TOML: brackets, equals signs, commas, ends of lines
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read_json(text: str) -> Any:
    """Parse JSON; raises `Wrong` with line and column. A key given twice is an error.

    >>> read_json('{"name": "m"}')
    {'name': 'm'}
    """
    _check_json_depth(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, value in pairs:
            if key in table:
                spots = [m.start() for m in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
                raise Wrong(f"key {key!r} is given twice", place_of(text, spots[-1] if spots else 0), key)
            table[key] = value
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
    _check_toml_size(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(error))
        if match:
            raise Wrong(str(error)[: match.start()], (int(match.group(1)), int(match.group(2)))) from None
        raise Wrong(str(error), place_of(text, len(text))) from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise Wrong(str(error), (1, 1)) from None


# Possessive repetition keeps no way back; a string that is never closed is passed over once, not once per quote in it.
_JSON_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[\[\]{}]', re.DOTALL)
_TOML_TOKENS = re.compile(
    r"""
    \#[^\n]*+                                        # a comment
    | \"{3} (?: [^"\\]++ | \\. | "(?!"") )*+ \"*+    # strings of several lines
    | '{3} (?: [^']++ | '(?!'') )*+ '*+
    | " (?: [^"\\\n]++ | \\. )*+ "?+                 # strings of one line
    | ' [^'\n]*+ '?+
    | [\[\]{}=.,\n]
    """,
    re.DOTALL | re.VERBOSE,
)


def _check_json_depth(text: str) -> None:
    """The parser recurses; refuse what no model needs before it does."""
    depth = 0
    for match in _JSON_TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match.group()[:1], 0)
        if depth > MAX_DEPTH:
            raise Wrong(f"nested more than {MAX_DEPTH} deep", place_of(text, match.start()))


def _check_toml_size(text: str) -> None:
    """The parser recurses, and takes its time for every key; refuse what no model needs before it begins."""
    depth = dots = count = 0
    for match in _TOML_TOKENS.finditer(text):
        token = match.group()
        if token == ".":
            dots += 1
            if dots >= MAX_DEPTH:
                raise Wrong(f"a key of more than {MAX_DEPTH} parts", place_of(text, match.start()))
            continue
        if token in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise Wrong(f"nested more than {MAX_DEPTH} deep", place_of(text, match.start()))
        elif token in ("]", "}"):
            depth -= 1
        elif token in ("=", ",", "\n"):
            dots = 0
        else:
            continue
        count += 1
        if count > MAX_TOKENS:
            raise Wrong(f"more than {MAX_TOKENS} keys, values and lines", place_of(text, match.start()))


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column (from 1) of an offset.

    >>> place_of("ab\\ncd", 4)
    (2, 2)
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


_SPACE = re.compile(r"[ \t\n\r]*+")


def json_place(text: str, path: Path) -> tuple[int, int]:
    """Where the value at a path of a (valid) JSON text starts, or the nearest value around it.

    >>> json_place('{"a": [1, 2]}', ("a", 1))
    (1, 11)
    """
    scan = json.JSONDecoder().raw_decode  # passes over a value at the speed of the parser

    def after_space(i: int) -> int:
        return _SPACE.match(text, i).end()  # type: ignore[union-attr]

    here = after_space(0)
    for step in path:
        if text[here] not in "[{" or (text[here] == "[") != isinstance(step, int):
            break
        closing = "]" if text[here] == "[" else "}"
        i, number, found = after_space(here + 1), 0, None
        while text[i] != closing:
            key: str | int = number
            if closing == "}":
                key, i = scan(text, i)
                i = after_space(after_space(i) + 1)  # behind the colon
            if key == step:
                found = i
                break
            i = after_space(scan(text, i)[1])
            i = after_space(i + 1) if text[i] == "," else i
            number += 1
        if found is None:
            break
        here = found
    return place_of(text, here)


def toml_place(text: str, path: Path) -> tuple[int, int]:
    """Where the table or key at a path of a TOML text starts, or the nearest one around it.

    Found are `[[frames]]`, `[configurations.q0]`, and keys at the start of a line.

    >>> toml_place('[[frames]]\\ntx = "x"', ("frames", 0, "tx"))
    (2, 1)
    """
    best, place = 0, (1, 1)
    counts: dict[Path, int] = {}
    here: Path = ()

    def reached(there: Path, number: int, column: int) -> None:
        nonlocal best, place
        if len(there) > best and path[: len(there)] == there:
            best, place = len(there), (number, column)

    for number, line in enumerate(text.split("\n"), 1):
        if "[" not in line and "=" not in line:
            continue
        header = re.match(r"\s*+(\[\[?)([^\]]*+)\]\]?+\s*+(?:#.*)?$", line)
        if header:
            here = tuple(_keys(header.group(2)))
            if header.group(1) == "[[":
                reached(here, number, 1)
                counts[here] = counts.get(here, -1) + 1
                here = (*here, counts[here])
            reached(here, number, 1)
            continue
        key = re.match(r"\s*+((?:[A-Za-z0-9_.-]++|\"[^\"]*+\"|'[^']*+')++)\s*+=", line)
        if key:
            there = here
            for part in _keys(key.group(1)):
                there = (*there, part)
                reached(there, number, key.start(1) + 1)
    return place


def _keys(text: str) -> list[str]:
    parts = re.findall(r"\"((?:[^\"\\]|\\.)*+)\"|'([^']*+)'|([A-Za-z0-9_-]++)", text)
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
    if "parameters" in data:
        lines += ["", "[parameters]", *(f"{_key(k)} = {_toml(v)}" for k, v in data["parameters"].items())]
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
