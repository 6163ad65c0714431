"""Seeing a motion: browser viewer, self-contained HTML pages, films and figures."""

import sys as _sys
from types import ModuleType as _ModuleType
from typing import Any as _Any

from .export import export_html
from .figures import plot_constraints, plot_energy, plot_momentum, plot_trajectory, plot_variables, style
from .film import export_gif, export_mp4, picture
from .scene import Scene, build_scene, frame_poses, place
from .viewer import Viewer, view

__all__ = [
    "Scene",
    "Viewer",
    "build_scene",
    "export_gif",
    "export_html",
    "export_mp4",
    "frame_poses",
    "picture",
    "place",
    "plot_constraints",
    "plot_energy",
    "plot_momentum",
    "plot_trajectory",
    "plot_variables",
    "style",
    "view",
]


class _Room(_ModuleType):
    """`dalembert.view` is this package and the function `view` at once, whichever was imported first."""

    def __call__(self, *args: _Any, **options: _Any) -> Viewer:
        return view(*args, **options)


_sys.modules[__name__].__class__ = _Room
