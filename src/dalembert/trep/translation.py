"""From a mutable trep System to an immutable dalembert Model, and the permutations between their orders.

`translate` makes two kinds of model. The model of the dynamics has trep's masses, dynamic and kinematic variables. The
model of a point makes every variable dynamic (frames without mass get an inertia that nothing reads), so that poses,
and the values of single elements by any variable, exist for every system, however incomplete.

trep orders dynamic variables as they were created, dalembert as the tree is walked; kinematic ones have the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import model as da
from ..errors import ModelError
from ..mechanics import compiled_joints, core
from ..model.frames import unflatten
from ..model.model import Model
from .constraints import Distance
from .frame import CONST_SE3, Frame, inverse_pose

if TYPE_CHECKING:
    from .config import Config
    from .finput import Input
    from .system import System

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
PROBE = "probe of "  # inputs that let user elements act on the core's variables


@dataclass
class Names:
    """Names that the model uses for parts of the system: their own where they are unique, else made up."""

    frames: dict[int, str] = field(default_factory=dict)
    configs: dict[int, str] = field(default_factory=dict)
    inputs: dict[int, str] = field(default_factory=dict)
    point: bool = False

    @classmethod
    def of(cls, system: System, point: bool, shown: bool = False) -> Names:
        frames = _unique(system.frames, "frame", {"world"})
        if not shown:  # else a frame of its own stands for it
            frames[id(system.world_frame)] = "world"
        return cls(frames, _unique(system.configs, "q", set()), _unique(system.inputs, "u", set()), point)

    def frame(self, frame: Frame) -> str:
        """Name of a frame."""
        return self.frames[id(frame)]

    def config(self, config: Config) -> str:
        """Name of a variable."""
        return self.configs[id(config)]

    def input(self, value: object) -> str:
        """Name of an input."""
        return self.inputs[id(value)]


def _unique(parts: Sequence[Any], prefix: str, taken: set[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    for i, part in enumerate(parts):
        name = part.name or f"{prefix} {i}"
        while name in taken:
            name = f"{name} #{i}"
        taken.add(name)
        found[id(part)] = name
    return found


@dataclass(frozen=True)
class Shown:
    """What the viewer shows besides the system: a shift of the whole (3,), mesh files by id of their frames."""

    offset: Array
    meshes: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class Translation:
    """A model with the indices that lead from its order to trep's.

    `q` (nq,): trep's index of each variable of the model; `u`: of each input; `c`: of each constraint row. `plain` says
    that all orders agree.
    """

    system: System
    model: Model
    names: Names
    q: Indices
    u: Indices
    c: Indices
    probes: int
    plain: bool

    @property
    def core(self) -> Any:
        """The compiled core."""
        return core(self.model)


def translate(
    system: System, elements: Sequence[Any], *, point: bool = False, probes: bool = False, shown: Shown | None = None
) -> Translation:
    """The model of a system with the given native elements; `probes` adds an input to every dynamic variable, `shown`
    a frame in the world's place, shifted and with meshes, and the meshes of other frames."""
    names = Names.of(system, point, shown is not None)
    found: list[tuple[Any, Any]] = []
    for element in elements:
        value = element._element(names)
        if value is not None:
            found.append((element, value))
    lengths = [e.config for e in elements if isinstance(e, Distance) and e.config is not None and not point]
    frames = unflatten(_rows(system, names, point, {id(c) for c in lengths}, shown))
    values = [value for _, value in found]
    if probes:
        values += [da.ConfigForce(names.config(c), PROBE + names.config(c)) for c in system.dyn_configs]
    order = [names.config(c) for c in system.configs]
    model = Model(frames, values)
    if not point:
        model = Model(frames, values, variables=[*model.dynamic, *order[system.nQd :]])
    q = np.array([order.index(name) for name in model.variables], dtype=np.intp)
    inputs = {name: i for i, name in enumerate(names.input(u) for u in system.inputs)}
    u = np.array([inputs[name] for name in model.inputs if name in inputs], dtype=np.intp)
    c = np.array([e.index for e, value in found if value.size], dtype=np.intp)
    plain = not probes and all(
        np.array_equal(found, np.arange(n)) for found, n in ((q, system.nQ), (u, system.nu), (c, system.nc))
    )
    return Translation(system, model, names, q, u, c, system.nQd if probes else 0, plain)


def _rows(system: System, names: Names, point: bool, lengths: set[int], shown: Shown | None) -> list[Any]:
    """The frames as rows (see `dalembert.model.frames.flatten`); variables without a frame get one of their own."""
    rows: list[Any] = []
    index = {id(system.world_frame): -1}

    def meshes(frame: Frame) -> tuple[da.Visual, ...]:
        return tuple(da.Visual("mesh", mesh=path) for path in shown.meshes.get(id(frame), ())) if shown else ()

    if shown:
        pose = np.eye(4)
        pose[:3, 3] = shown.offset
        world = system.world_frame
        index[id(world)] = 0
        rows.append(
            (
                -1,
                "se3",
                tuple(map(tuple, pose.tolist())),
                names.frame(world),
                0.0,
                (0.0,) * 6,
                (0.0,) * 3,
                0.0,
                meshes(world),
            )
        )

    def value(config: Config) -> Any:
        name = names.config(config)
        return da.Kinematic(name) if config.kinematic and not point else name

    for frame in system.frames[1:]:
        index[id(frame)] = len(rows)
        transform = "se3" if frame.transform_type == CONST_SE3 else frame.transform_type.lower()
        if frame.config is not None:
            amount = value(frame.config)
        elif transform == "se3":
            amount = tuple(map(tuple, frame.transform_value.tolist()))
        else:
            amount = frame.transform_value
        mass, *moments = frame._inertia
        if point and frame.config is not None and not any(frame._inertia):
            moments = [1.0, 1.0, 1.0]
        inertia = (*moments, 0.0, 0.0, 0.0)
        rows.append(
            (
                index[id(frame.parent)],
                transform,
                amount,
                names.frame(frame),
                mass,
                inertia,
                (0.0,) * 3,
                0.0,
                meshes(frame),
            )
        )
    for config in system.configs:
        if config.frame is not None or id(config) in lengths:
            continue
        if not config.kinematic and not point:
            raise ModelError(
                f"dynamic variable {config.name!r} moves no frame (make it kinematic, or give it a frame with a mass)",
                culprit=str(config.name),
            )
        inertia = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0) if point else (0.0,) * 6
        rows.append((-1, "tx", value(config), None, 0.0, inertia, (0.0,) * 3, 0.0, ()))
    return rows


class Kinematics:
    """Poses and unit twists of all frames at one configuration."""

    def __init__(self, translation: Translation, q: Array) -> None:
        self._translation = translation
        system = translation.system
        x = q[translation.q]
        self._poses = translation.core.frames(x[None])[0]
        self._at = {id(f): i for i, f in enumerate(system.frames)}
        self._twists = np.zeros((len(q), 6))
        if len(q):
            self._twists[translation.q[compiled_joints(translation.model)]] = translation.core.twists(x)
        self._inverses: dict[int, Array] = {}
        self._hats: dict[int, Array] = {}
        self._paths: dict[int, dict[int, int]] = {}

    def pose(self, frame: Frame) -> Array:
        """4x4 pose of a frame; not to be changed."""
        return self._poses[self._at[id(frame)]]  # type: ignore[no-any-return]

    def inverse(self, frame: Frame) -> Array:
        """Inverse of a frame's pose; not to be changed."""
        found = self._inverses.get(id(frame))
        if found is None:
            found = self._inverses[id(frame)] = inverse_pose(self.pose(frame))
        return found

    def hat(self, i: int) -> Array:
        """Twist of variable i as a 4x4 matrix."""
        found = self._hats.get(i)
        if found is None:
            wx, wy, wz, vx, vy, vz = self._twists[i]
            found = np.array([[0, -wz, wy, vx], [wz, 0, -wx, vy], [-wy, wx, 0, vz], [0, 0, 0, 0]])
            self._hats[i] = found
        return found

    def path(self, frame: Frame) -> dict[int, int]:
        """Index of every variable that moves a frame -> its place from the root."""
        found = self._paths.get(id(frame))
        if found is None:
            above: list[int] = []
            at: Frame | None = frame
            while at is not None:
                if at.config is not None:
                    above.append(at.config.index)
                at = at.parent
            found = {i: n for n, i in enumerate(reversed(above))}
            self._paths[id(frame)] = found
        return found


def input_parts(system: System, value: Any, force: Any) -> Input:
    """The input of a name (made if there is none yet) or an Input itself; remembers the force that reads it."""
    from .finput import Input

    if isinstance(value, Input):
        found = value
        if found.system is not system:
            raise ValueError(f"input {found.name!r} belongs to another system")
    elif isinstance(value, str):
        same = [u for u in system.inputs if u.name == value]
        found = same[0] if same else Input(system, value)
    else:
        raise TypeError(f"an input is an Input or a name, not {value!r}")
    found._force = force
    return found
