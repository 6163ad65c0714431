"""Every name of trep's API is here, or is listed in docs/from-trep.md with its replacement."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from .systems import read

PAGE = (Path(__file__).parent.parent.parent / "docs" / "from-trep.md").read_text()
ROWS = read("trep_api.json")
# where trep's modules are here; packages of one class per file became modules
PLACES = {"potentials": "potentials", "forces": "forces", "constraints": "constraints", "puppets": "puppets"}


def owner_of(row):
    """The module or class that a row belongs to, and the name in it."""
    owner, name = row["owner"].split(" (")[0], row["name"]
    parts = owner.removeprefix("functions of ").split(".")[1:]
    if parts and parts[0] in PLACES:
        parts = [PLACES[parts[0]], *parts[2:]]
    if row["kind"] == "constructor":
        name = name.split(".")[-1]
        if parts and parts[-1][0].isupper():
            parts = parts[:-1]
    if owner == "trep.visual":
        name = name.split(".")[-1]
    module, found = "dalembert.trep", None
    while parts and not parts[0][0].isupper():
        module += "." + parts.pop(0)
    found = importlib.import_module(module)
    for part in parts:
        found = getattr(found, part)
    return found, name


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['owner'].split('.')[-1]}-{r['kind'][0]}-{r['name']}")
def test_covered(row):
    owner, name = owner_of(row)
    found = inspect.getattr_static(owner, name, None)
    if found is None:
        assert f"`{row['name']}`" in PAGE, f"{row['owner']}: {row['signature']} is neither here nor in the page"
        return
    if row["kind"].startswith("P"):
        assert isinstance(found, property) or hasattr(found, "__set__"), "a property in trep"
        settable = found.fset is not None if isinstance(found, property) else True
        assert settable or row["kind"] != "P rw", "can be set in trep"
        return
    if not re.search(r"\(.*\)", row["signature"]) or "..." in row["signature"]:
        return
    # the same arguments in the same order, with defaults where trep has them
    wanted = [
        re.split("=", a)[0].strip()
        for a in re.findall(r"\((.*)\)", row["signature"])[0].split(",")
        if "=" in a or a.strip()
    ]
    wanted = [a for a in wanted if re.fullmatch(r"[A-Za-z_]\w*", a)]
    target = getattr(owner, name)
    have = [p for p in inspect.signature(target).parameters if p != "self"]
    if row["kind"] == "constructor" and inspect.isclass(target):
        have = [p for p in inspect.signature(target.__init__).parameters if p != "self"]
    assert have[: len(wanted)] == wanted, f"{row['signature']} has arguments {have} here"


def test_page_names_what_is_missing():
    for name in ("get_include", "ROSMidpointVI", "opengl_draw", "optimize_ic", "trep.h"):
        assert name in PAGE


def test_import_is_light():
    """The drop-in pulls in nothing heavy by itself."""
    import subprocess
    import sys

    code = (
        "import sys, dalembert.trep; print([m for m in ('casadi', 'matplotlib', 'viser', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
