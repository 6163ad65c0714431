"""A griffe extension for the pages: doctests of docstrings become code, lists of arguments become lists.

Functions that no package exports (`__all__`) are left out.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

BLOCK = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # from a prompt to the next empty line


ARGUMENT = re.compile(r"^([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*):(?= )")


def listed(text: str) -> str:
    """The text with a bullet for every line `name: ...` of paragraphs that consist of such lines and indented ones."""
    paragraphs = text.split("\n\n")
    for i, paragraph in enumerate(paragraphs):
        lines = paragraph.split("\n")
        heads = [bool(ARGUMENT.match(line)) for line in lines]
        rest = (line.startswith("    ") for line, head in zip(lines, heads, strict=True) if not head)
        if heads[0] and sum(heads) > 1 and all(rest):
            paragraphs[i] = "\n".join(ARGUMENT.sub(r"- `\1`:", line) for line in lines)
    return "\n\n".join(paragraphs)


def fenced(text: str) -> str:
    """The text with doctests in fences and a blank line around them."""
    return BLOCK.sub(lambda m: f"\n```pycon\n{m[0]}\n```\n", text)


class FencedDoctests(griffe.Extension):
    """Rewrites all docstrings of a package once it is loaded."""

    def on_module_members(self, *, mod: Any, **_: Any) -> None:
        """Called by griffe. A function that shares the name of its module (`optimize`) must not hide the module."""
        for name, member in list(mod.members.items()):
            if member.is_alias and member.target_path == f"{mod.path}.{name}.{name}":
                del mod.members[name]

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """Called by griffe."""
        exported = set()
        stack = [pkg]
        while stack:
            module = stack.pop()
            exported |= {str(name) for name in module.exports or ()}
            stack += [m for m in module.members.values() if not m.is_alias and m.is_module]
        stack = [pkg]
        while stack:
            item = stack.pop()
            if item.is_alias:
                continue
            if item.is_module and not item.path.startswith("dalembert.formats."):  # their read and write are public
                helpers = [n for n, m in item.members.items() if not m.is_alias and m.is_function and n not in exported]
                for name in helpers:
                    del item.members[name]
            if item.docstring is not None:
                item.docstring.value = fenced(listed(item.docstring.value))
            stack += item.members.values()
