"""Packages that only some functions need: a missing one is an ImportError that names the extra to install.

Rooms import such a package where they use it, in the ordinary way. The finder below comes after all others, so it is asked only
for what is not installed, and it answers only to this package: what others import, or look for, is none of its business.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

# package -> (extra in pyproject.toml, what it is for)
EXTRA_OF = {
    "casadi": ("casadi", "elements of your own, symbolic models and direct methods"),
    "matplotlib": ("plot", "figures"),
    "viser": ("view", "the live viewer"),
    "trimesh": ("view", "meshes"),
    "collada": ("view", "meshes in .dae files"),
    "PIL": ("view", "films and pictures"),
    "typer": ("cli", "the command line"),
    "pandas": ("data", "tables of pandas"),
    "xarray": ("data", "datasets of xarray"),
    "control": ("control", "systems of python-control"),
    "distributed": ("dask", "ensembles on many machines"),
    "torch": ("torch", "gradients in PyTorch"),
    "jax": ("jax", "gradients in JAX"),
    "gymnasium": ("gymnasium", "environments for reinforcement learning"),
}
IN_ALL = ("casadi", "cli", "plot", "view")  # what [all] brings


class _Missing(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None; or the error, when a module of this package imports a package that is missing."""
        if name in EXTRA_OF and _importer().split(".")[0] == "dalembert":
            extra, purpose = EXTRA_OF[name]
            raise ModuleNotFoundError(
                f'{name} is not installed; it is needed for {purpose}: pip install "dalembert[{extra}]"'
                + (' (or "dalembert[all]")' if extra in IN_ALL else ""),
                name=name,
            )


def _importer() -> str:
    """The module whose import statement is running."""
    from inspect import currentframe

    frame = currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__ and not name.startswith(("importlib", "_frozen_importlib")):
            return name
        frame = frame.f_back
    return ""


def install() -> None:
    """Put the finder behind all others, once."""
    if not any(type(finder).__name__ == _Missing.__name__ for finder in sys.meta_path):
        sys.meta_path.append(_Missing())
