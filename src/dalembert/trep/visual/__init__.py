"""trep.visual: motions in dalembert's browser viewer instead of trep's Qt windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .items import VisualItem2D, VisualItem3D, stlmodel
from .splineplotter import plot_spline

__all__ = ["VisualItem2D", "VisualItem3D", "plot_spline", "stlmodel", "visualize_2d", "visualize_3d"]


def visualize_3d(items: Sequence[VisualItem3D], *args: object, **options: Any) -> Any:
    """Show motions in the browser and return the viewer (`.url`, `.wait()`, `.close()`).

    trep's options for its camera are ignored; those of `da.view` (port, open_browser, block, ...) are passed on.
    """
    from ...viewing import view

    if not items:
        raise ValueError("nothing to show")
    known = {"names", "variables", "host", "port", "open_browser", "autoplay", "block"}
    return view([item.trajectory() for item in items], **{k: v for k, v in options.items() if k in known})


visualize_2d = visualize_3d


class _NotHere(NotImplementedError, AttributeError):
    """A name of trep.visual that has no counterpart; `hasattr` still answers."""


def __getattr__(name: str) -> Any:
    raise _NotHere(f"trep.visual.{name} needs Qt and OpenGL; use visualize_3d, or da.view")
