"""What is shown: a system's motion, with the meshes that a script attached to its frames."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..translation import Shown, translate

if TYPE_CHECKING:
    from ..system import System


class stlmodel:
    """A mesh in a file (STL); `item.attachDrawing(frame, stlmodel(path).draw)` puts it on a frame."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(filename))
        if not os.path.isfile(self.path):
            raise FileNotFoundError(f"no mesh file {self.path!r}")

    def draw(self) -> None:
        """trep drew by OpenGL; here the viewer shows the mesh and never calls this."""
        raise NotImplementedError("there is no OpenGL here: attach the mesh to a frame of a VisualItem3D")


class VisualItem3D:
    """A motion to show: times t (N,) and configurations q (N, nQ) of a system, shifted by `offset` (3,).

    Without times the current configuration is shown. Meshes attached to frames are shown; what a subclass drew itself by
    OpenGL or Qt is not, and a warning says so.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=1.0)])
    >>> VisualItem3D(system, [0.0, 1.0], [[0.0], [2.0]]).trajectory().q[:, 0]
    array([0., 2.])
    """

    def __init__(self, system: System, t: object, q: object, offset: object = None, **options: Any) -> None:
        self._system = system
        self.t = np.array(t, dtype=float)
        self.q = np.array(q, dtype=float)
        self.options = options
        if not self.t.size and not self.q.size:
            self.t, self.q = np.zeros(1), system.q[None]
        if self.t.ndim != 1 or self.q.shape != (len(self.t), system.nQ):
            raise ValueError(f"q has shape {self.q.shape}, but ({len(self.t)}, {system.nQ}) is needed")
        self.offset = np.zeros(3) if offset is None else np.array(offset, dtype=float)
        if self.offset.shape != (3,) or not np.isfinite(self.offset).all():
            raise ValueError(f"offset must be three numbers, not {offset!r}")
        self._meshes: dict[int, list[str]] = {}

    @property
    def system(self) -> System:
        """The system."""
        return self._system

    def attachDrawing(self, frame: object, function: Callable[..., Any]) -> None:
        """Draw a mesh (`stlmodel(path).draw`) with a frame (object, name or index; None: the world)."""
        at = self._system.world_frame if frame is None else self._system.get_frame(frame)
        mesh = getattr(function, "__self__", None)
        if isinstance(mesh, stlmodel):
            self._meshes.setdefault(id(at), []).append(mesh.path)
        else:
            name = getattr(function, "__name__", repr(function))
            warnings.warn(f"{name} draws by OpenGL or Qt and is not shown here; stlmodel meshes are", stacklevel=2)

    def trajectory(self) -> Any:
        """The motion as a dalembert Trajectory; momenta from differences of q."""
        from ...errors import ModelError
        from ...integrate import Trajectory
        from ...mechanics import lagrangian_first

        system = self._system
        shown = Shown(self.offset, {key: tuple(paths) for key, paths in self._meshes.items()})
        elements = [e for e in (*system.potentials, *system.forces, *system.constraints) if e._native]
        try:
            found = translate(system, elements, shown=shown)
        except ModelError:  # a system without masses can still be seen
            found = translate(system, [], point=True, shown=shown)
        model = found.model
        q, n = self.q[:, found.q], len(self.t)
        v = np.gradient(q, self.t, axis=0) if n > 1 else np.zeros_like(q)
        p = np.array([lagrangian_first(model, a, b)[1][: model.nd] for a, b in zip(q, v, strict=True)])
        return Trajectory(
            model,
            self.t,
            q,
            p.reshape(n, model.nd),
            np.zeros((n - 1, model.nu)),
            q[1:, model.nd :],
            np.zeros((n - 1, model.nc)),
            np.zeros(n - 1, dtype=np.int64),
        )


class VisualItem2D(VisualItem3D):
    """A motion to show; drawn in three dimensions as every other."""
