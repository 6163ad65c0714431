"""Templates: C text with `@name@` for what is filled in and lines `//@ if name`, `//@ else`, `//@ end` around what is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_MARK = re.compile(r"\s*//@ (if|else|end)(?: (\w+))?\s*$")
_NAME = re.compile(r"@(\w+)@")


def fill(text: str, facts: Mapping[str, Any]) -> str:
    """The text with everything filled in; a fact that is 0, "" or missing counts as false in a condition.

    >>> fill("int a[@n@];\\n//@ if x\\nno\\n//@ else\\nyes\\n//@ end\\n", {"n": 3})
    'int a[3];\\nyes\\n'
    """
    lines: list[str] = []
    shown = [True]
    for line in text.splitlines():
        mark = _MARK.match(line)
        if mark is None:
            if shown[-1]:
                lines.append(_NAME.sub(lambda m: str(facts[m[1]]), line))
        elif mark[1] == "if":
            shown.append(shown[-1] and bool(facts.get(mark[2])))
        elif mark[1] == "else":
            shown[-1] = shown[-2] and not shown[-1]
        else:
            shown.pop()
    assert shown == [True], "a condition is not closed"
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def template(name: str) -> str:
    """The text of a file of this room."""
    return files(__package__).joinpath("c", name).read_text(encoding="utf-8")
