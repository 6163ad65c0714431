"""A griffe extension: doctests in docstrings become fenced blocks, so that pages show them as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

BLOCK = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # from a prompt to the next empty line


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
        stack = [pkg]
        while stack:
            item = stack.pop()
            if item.is_alias:
                continue
            if item.docstring is not None:
                item.docstring.value = fenced(item.docstring.value)
            stack += item.members.values()
