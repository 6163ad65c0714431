"""Every example in a docstring runs; every public name has a docstring."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import pkgutil

import pytest

import dalembert as da
from dalembert.extras import EXTRA_OF

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(da.__path__, "dalembert.")
    if not m.name.rpartition(".")[2].startswith("_core")
)

# names that every page explains
PLAIN = {
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


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    if name.endswith("__main__"):
        pytest.skip("a command")
    if name.startswith("dalembert.bridges.") and (extra := name.rpartition(".")[2]) in EXTRA_OF:
        pytest.importorskip(extra, reason=f"the extra [{extra}] is not installed")
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
    missing = []
    for name in da.__all__:
        thing = getattr(da, name)
        if not inspect.isfunction(thing):
            continue
        text = thing.__doc__ or ""
        missing += [f"{name}({a})" for a in inspect.signature(thing).parameters if a not in PLAIN and a not in text]
    assert not missing, ", ".join(missing)


def _documented(thing: type) -> list[tuple[str, object, str]]:
    """(name, function, text that describes its arguments) of the public methods that a class defines."""
    found = []
    for name, member in vars(thing).items():
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not inspect.isfunction(function) or (name.startswith("_") and name not in ("__init__", "__call__")):
            continue
        if name == "__init__" and (dataclasses.is_dataclass(thing) or issubclass(thing, (Exception, Warning))):
            continue
        text = " ".join(
            vars(c)[name].__doc__ or "" for c in thing.__mro__ if name in vars(c)
        )  # a child may say: see above
        found.append((name, function, text + (inspect.getdoc(thing) or "" if name.startswith("__") else "")))
    return found


def test_arguments_of_methods_are_documented() -> None:
    """The same for classes: what they are made of, and what their methods take."""
    missing = []
    for name in da.__all__:
        thing = getattr(da, name)
        if not inspect.isclass(thing):
            continue
        for method, function, text in _documented(thing):
            parameters = inspect.signature(function).parameters
            missing += [
                f"{name}.{method}({a})"
                for a in parameters
                if a not in PLAIN and not a.startswith("_") and a not in text
            ]
            if not text.strip():
                missing.append(f"{name}.{method}: no docstring")
        if dataclasses.is_dataclass(thing):
            text = inspect.getdoc(thing) or ""
            missing += [
                f"{name}({f.name})"
                for f in dataclasses.fields(thing)
                if f.init and f.name not in PLAIN and f.name not in text
            ]
    assert not missing, ", ".join(missing)
