"""Pictures of splines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..spline import Spline


def plot_spline(spline: Spline, points: int = 400) -> Any:
    """Draw a spline with its slope and second derivative (matplotlib); returns the figure."""
    import matplotlib.pyplot as plt

    x = np.linspace(spline.x_points[0], spline.x_points[-1], points)
    figure, axes = plt.subplots(3, 1, sharex=True)
    for ax, f, label in zip(axes, (spline.y, spline.dy, spline.ddy), ("y", "dy", "ddy"), strict=True):
        ax.plot(x, [f(a) for a in x])
        ax.set_ylabel(label)
    axes[0].plot(spline.x_points, spline.y_points, "o")
    return figure
