"""Records: what was measured of a motion, and what drove it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, floats, nearest, needed
from ..errors import ModelError
from ..integrate import Trajectory
from ..mechanics.evaluate import core, frame_jacobian, parameter_links, positions

if TYPE_CHECKING:
    from ..integrate import State
    from ..model import Model


@dataclass(frozen=True, eq=False)
class Record:
    """One measured motion: times `t` (N+1,) with equal or unequal steps, measurements `y` (N+1, ny) (NaN: not measured there), inputs `u`
    (N, nu), values `kinematic` (N, nk) of the prescribed variables at the ends of the steps.

    `start`: the state at t[0] if it is known (then it is not estimated), else None; `guess`: a state near it where the measurements alone do
    not tell it.

    >>> import numpy as np
    >>> Record(t=np.arange(3) * 0.1, y=np.zeros((3, 1))).steps
    2
    """

    t: Array
    y: Array
    u: Array | None = None
    kinematic: Array | None = None
    start: State | None = None
    guess: State | None = None

    def __post_init__(self) -> None:
        t = finite(self.t, "t of a record", (None,))
        if len(t) < 2 or np.any(np.diff(t) <= 0):
            raise ValueError("t of a record must increase, over one step at least")
        y = floats(self.y, "y of a record")
        if y.ndim == 1:
            y = y[:, None]
        if y.ndim != 2 or len(y) != len(t):
            raise ValueError(f"y of a record has shape {y.shape}, but ({len(t)}, ny) is needed")
        if np.isinf(y).any() or np.isnan(y).all():
            raise ValueError("y of a record is infinite, or NaN everywhere")
        object.__setattr__(self, "t", t)
        object.__setattr__(self, "y", y)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.t) - 1

    @classmethod
    def of(
        cls,
        motion: Trajectory,
        measurement: Sequence[str],
        *,
        noise: float | Mapping[str, float] = 0.0,
        seed: int | np.random.Generator = 0,
        known_start: bool = False,
    ) -> Record:
        """What a twin of the mechanism would have recorded of a motion: measurements with Gaussian `noise` of this standard
        deviation, from `seed`. `known_start`: the start of the motion is part of the record.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.pendulum(), dt=0.1)
        >>> da.Record.of(vi.simulate(vi.state(q=[1.0]), steps=5), ["theta"]).y.shape
        (6, 1)
        """
        seen = Seen(needed(motion, Trajectory).model, measurement)
        y = seen.values(motion.model, motion.q)
        spread = seen.deviations(noise) if noise else np.zeros(seen.size)
        y = y + np.random.default_rng(seed).normal(size=y.shape) * spread
        first = motion[0]
        return cls(motion.t, y, motion.u, motion.rho, first if known_start else None, first)


class Seen:
    """What is measured: coordinates of hinges and sliders by their names, and origins of frames (three numbers each, world axes)."""

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        if isinstance(names, str) or not names:
            raise ValueError("measurement must be a list of names of variables and frames")
        self.names: list[str] = []
        self.columns: list[int] = []  # coordinate of each entry, or -1
        self.components: list[int] = []
        self.frames: list[str] = []
        self.places: list[int] = []  # where the three numbers of each frame begin
        for name in names:
            if name in model.variables and name in model.velocities:
                self.columns.append(model.index(name))
                self.components.append(model.velocity_index(name))
                self.names.append(name)
            elif name in model.frame_names:
                self.frames.append(name)
                self.places.append(len(self.names))
                self.columns += [-1] * 3
                self.components += [-1] * 3
                self.names += [f"{name}.{axis}" for axis in "xyz"]
            else:
                known = [*model.variables, *model.frame_names]
                raise ModelError(f"measurement: no variable or frame {name!r}{nearest(name, known)}", culprit=str(name))
        self.size = len(self.names)

    def deviations(self, noise: float | Mapping[str, float] | ArrayLike) -> Array:
        """Standard deviations (ny,) from one number, numbers by name (of an entry or a frame), or an array."""
        if isinstance(noise, dict):
            known = [*self.names, *self.frames]
            for name in noise:
                if name not in known:
                    raise ValueError(f"noise: unknown measurement {name!r}{nearest(name, known)}")
            out = []
            for name in self.names:
                value = noise.get(name, noise.get(name.rpartition(".")[0]))
                if value is None:
                    raise ValueError(f"noise: the standard deviation of '{name}' is missing")
                out.append(value)
            noise = out
        spread = np.broadcast_to(finite(noise, "noise"), (self.size,))
        if np.any(spread <= 0):
            raise ValueError("noise: standard deviations must be positive")
        return np.array(spread)

    def values(self, model: Model, q: Array) -> Array:
        """Expected measurements (N, ny) at configurations (N, nq)."""
        out = np.zeros((len(q), self.size))
        here = np.array(self.columns) >= 0
        out[:, here] = q[:, [c for c in self.columns if c >= 0]]
        if self.frames:
            places = positions(model, q)
            for name, at in zip(self.frames, self.places, strict=True):
                out[:, at : at + 3] = places[:, model.frame_index(name)]
        return out

    def slopes(self, model: Model, names: tuple[str, ...], q: Array) -> tuple[Array, Array]:
        """Derivatives by the tangent of q, (N, ny, nv), and directly by parameters, (N, ny, n)."""
        by_q = np.zeros((len(q), self.size, model.nv))
        by_p = np.zeros((len(q), self.size, len(names)))
        for i, c in enumerate(self.components):
            if c >= 0:
                by_q[:, i, c] = 1.0
        if self.frames:
            links, c, frames = parameter_links(model, names), core(model), [*map(model.frame_index, self.frames)]
            for k, x in enumerate(q):
                _, direct = c.configuration_parameters(x, frames, links)
                for f, (name, at) in enumerate(zip(self.frames, self.places, strict=True)):
                    by_q[k, at : at + 3] = frame_jacobian(model, x, name)[3:]
                    by_p[k, at : at + 3] = direct[3 * f : 3 * f + 3]
        return by_q, by_p
