"""Seeing a motion: browser viewer, self-contained HTML pages, films and figures."""

from .build import build_scene
from .export import export_html
from .figures import plot_constraints, plot_energy, plot_momentum, plot_trajectory, plot_variables, style
from .film import export_gif, export_mp4, picture
from .notebook import Page, result_html, show
from .quantities import Pose
from .scene import Scene, place
from .viewer import Viewer, view

__all__ = [
    "Page",
    "Pose",
    "Scene",
    "Viewer",
    "build_scene",
    "export_gif",
    "export_html",
    "export_mp4",
    "picture",
    "place",
    "plot_constraints",
    "plot_energy",
    "plot_momentum",
    "plot_trajectory",
    "plot_variables",
    "result_html",
    "show",
    "style",
    "view",
]
