"""Every example in a docstring runs; every public name has a docstring."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import dalembert as da

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(da.__path__, "dalembert.")
    if not m.name.rpartition(".")[2].startswith("_core")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    if name.endswith("__main__"):
        pytest.skip("a command")
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module)
    assert failed == 0


def test_public_names_are_documented() -> None:
    bare = [
        n for n in da.__all__ if not inspect.ismodule(getattr(da, n)) and not (getattr(da, n).__doc__ or "").strip()
    ]
    assert not bare


def test_public_arguments_are_documented() -> None:
    """A name that a user can pass appears in the docstring of what takes it."""
    plain = {
        "self",
        "cls",
        "model",
        "q",
        "v",
        "u",
        "x",
        "args",
        "kwargs",
        "options",
        "k",
        "t",
        "children",
        "A",
        "B",
        "Q",
        "R",
    }
    missing = []
    for name in da.__all__:
        thing = getattr(da, name)
        if not inspect.isfunction(thing):
            continue
        text = thing.__doc__ or ""
        missing += [f"{name}({a})" for a in inspect.signature(thing).parameters if a not in plain and a not in text]
    assert not missing, ", ".join(missing)
