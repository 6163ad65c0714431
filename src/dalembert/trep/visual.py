"""trep.visual: motions in dalembert's browser viewer instead of trep's Qt windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .spline import Spline
    from .system import System


class VisualItem3D:
    """A motion to show: times t (N,) and configurations q (N, nQ) of a system.

    Subclasses that drew by OpenGL still work as items; what they drew themselves is not shown.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=1.0)])
    >>> VisualItem3D(system, [0.0, 1.0], [[0.0], [2.0]]).trajectory().q[:, 0]
    array([0., 2.])
    """

    def __init__(self, system: System, t: Any, q: Any, **options: Any) -> None:
        self._system = system
        self.t = np.array(t, dtype=float)
        self.q = np.array(q, dtype=float)
        self.options = options
        if self.t.ndim != 1 or self.q.shape != (len(self.t), system.nQ):
            raise ValueError(f"q has shape {self.q.shape}, but ({len(self.t)}, {system.nQ}) is needed")

    @property
    def system(self) -> System:
        """The system."""
        return self._system

    def trajectory(self) -> Any:
        """The motion as a dalembert Trajectory; momenta from differences of q."""
        from ..errors import ModelError
        from ..integrate import Trajectory
        from ..mechanics import lagrangian_first

        try:
            found = self._system._dynamics().map
        except ModelError:  # a system without masses can still be seen
            found = self._system._point()
        model = found.model
        q, n = self.q[:, found.q], len(self.t)
        v = np.gradient(q, self.t, axis=0) if n > 1 else np.zeros_like(q)
        p = np.array([lagrangian_first(model, a, b)[1][: model.nd] for a, b in zip(q, v, strict=True)])
        steps = max(n - 1, 0)
        return Trajectory(
            model,
            self.t,
            q,
            p.reshape(n, model.nd),
            np.zeros((steps, model.nu)),
            q[1:, model.nd :],
            np.zeros((steps, model.nc)),
            np.zeros(steps, dtype=np.int64),
        )


class VisualItem2D(VisualItem3D):
    """A motion to show; drawn in three dimensions as every other."""


def visualize_3d(items: Sequence[VisualItem3D], *args: Any, **options: Any) -> Any:
    """Show motions in the browser and return the viewer (`.url`, `.wait()`, `.close()`).

    trep's options for its camera are ignored; those of `da.view` (port, open_browser, block, ...) are passed on.
    """
    from ..viewing import view

    if not items:
        raise ValueError("nothing to show")
    known = {"names", "variables", "host", "port", "open_browser", "autoplay", "block"}
    return view([item.trajectory() for item in items], **{k: v for k, v in options.items() if k in known})


visualize_2d = visualize_3d


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


class _NotHere(NotImplementedError, AttributeError):
    """A name of trep.visual that has no counterpart; `hasattr` still answers."""


def __getattr__(name: str) -> Any:
    raise _NotHere(f"trep.visual.{name} needs Qt and OpenGL; use visualize_3d, or da.view")
