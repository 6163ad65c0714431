"""What a trep system consists of: its parts, their names and numbers, and who is told when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..arrays import nearest
from .config import Config
from .constraint import Constraint
from .finput import Input
from .force import Force
from .frame import Frame
from .potential import Potential


class Structure:
    """Frames, variables, inputs and elements: created by their own constructors, found by name, counted."""

    _world: Frame

    def __init__(self) -> None:
        self._version = 0  # counts changes of the structure or of parameters
        self._memo: dict[Any, Any] = {}  # what was computed at the current state
        self._points: dict[Any, Any] = {}  # what was built for the current version
        self._held = 0
        self._waiting = False
        self._callbacks: list[Callable[[], Any]] = []
        self._dynamic: list[Config] = []
        self._kinematic: list[Config] = []
        self._inputs: list[Input] = []
        self._potentials: list[Potential] = []
        self._forces: list[Force] = []
        self._constraints: list[Constraint] = []
        self._q = np.zeros(0)
        self._dq = np.zeros(0)
        self._ddq = np.zeros(0)
        self._u = np.zeros(0)
        self._t = 0.0

    # ---- changes

    def _changed(self) -> None:
        """The description changed: forget everything built from it, tell the listeners."""
        self._version += 1
        self._memo, self._points = {}, {}
        if self._held:
            self._waiting = True
        else:
            for function in tuple(self._callbacks):
                function()

    def _moved(self) -> None:
        """The state changed."""
        self._memo = {}

    def add_structure_changed_func(self, function: Callable[[], Any]) -> None:
        """Call a function whenever frames, variables, elements or their parameters change."""
        if not callable(function):
            raise TypeError("a function is needed")
        self._callbacks.append(function)

    def hold_structure_changes(self) -> None:
        """Wait with the calls of structure-changed functions until `resume_structure_changes`."""
        self._held += 1

    def resume_structure_changes(self) -> None:
        """End a hold; the functions are called once if anything changed."""
        if not self._held:
            raise RuntimeError("resume_structure_changes() without hold_structure_changes()")
        self._held -= 1
        if not self._held and self._waiting:
            self._waiting = False
            for function in tuple(self._callbacks):
                function()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Structure-changed functions wait; an error takes back everything that was added."""
        lists: Any = (self._dynamic, self._kinematic, self._inputs, self._potentials, self._forces, self._constraints)
        kept = [list(x) for x in lists]
        state = [x.copy() for x in (self._q, self._dq, self._ddq, self._u)]
        children = [(f, list(f._children)) for f in self.frames]
        drivers = [(u, u._force) for u in self._inputs]
        self.hold_structure_changes()
        try:
            yield
        except BaseException:
            for now, before in zip(lists, kept, strict=True):
                now[:] = before
            for frame, before_children in children:
                frame._children[:] = before_children
            for u, force in drivers:
                u._force = force
            self._q, self._dq, self._ddq, self._u = state
            self._number()
            self._changed()
            raise
        finally:
            self.resume_structure_changes()

    def _number(self) -> None:
        for i, config in enumerate((*self._dynamic, *self._kinematic)):
            config._index = i
        for i, u in enumerate(self._inputs):
            u._index = i

    def _add_config(self, config: Config) -> None:
        if config.name is not None and any(c.name == config.name for c in self.configs):
            raise ValueError(f"there is already a configuration variable called {config.name!r}")
        at = self.nQ if config.kinematic else self.nQd
        (self._kinematic if config.kinematic else self._dynamic).append(config)
        self._q, self._dq, self._ddq = (np.insert(x, at, 0.0) for x in (self._q, self._dq, self._ddq))
        self._number()
        self._changed()

    def _add_input(self, u: Input) -> None:
        if u.name is not None and any(x.name == u.name for x in self._inputs):
            raise ValueError(f"there is already an input called {u.name!r}")
        self._inputs.append(u)
        self._u = np.append(self._u, 0.0)
        self._number()
        self._changed()

    def _add_element(self, element: Any) -> None:
        kinds: Any = ((Potential, self._potentials), (Force, self._forces), (Constraint, self._constraints))
        for kind, found in kinds:
            if isinstance(element, kind):
                found.append(element)
        self._changed()

    # ---- parts

    @property
    def world_frame(self) -> Frame:
        """The root of the tree."""
        return self._world

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All frames, the world first, parents before children."""
        found = self._points.get("frames")
        if found is None:
            found = self._points["frames"] = tuple(self._world.flatten_tree())
        return found  # type: ignore[no-any-return]

    @property
    def configs(self) -> tuple[Config, ...]:
        """All variables: dynamic, then kinematic."""
        found = self._points.get("configs")
        if found is None:
            found = self._points["configs"] = (*self._dynamic, *self._kinematic)
        return found  # type: ignore[no-any-return]

    @property
    def dyn_configs(self) -> tuple[Config, ...]:
        """Dynamic variables in the order of their creation."""
        return tuple(self._dynamic)

    @property
    def kin_configs(self) -> tuple[Config, ...]:
        """Kinematic variables in the order of their creation."""
        return tuple(self._kinematic)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Force inputs."""
        return tuple(self._inputs)

    @property
    def potentials(self) -> tuple[Potential, ...]:
        """Potentials."""
        return tuple(self._potentials)

    @property
    def forces(self) -> tuple[Force, ...]:
        """Forces."""
        return tuple(self._forces)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Constraints."""
        return tuple(self._constraints)

    @property
    def masses(self) -> tuple[Frame, ...]:
        """Frames with a mass or an inertia."""
        return tuple(f for f in self.frames if any(f._inertia))

    @property
    def nQ(self) -> int:
        """Number of variables."""
        return len(self._dynamic) + len(self._kinematic)

    @property
    def nQd(self) -> int:
        """Number of dynamic variables."""
        return len(self._dynamic)

    @property
    def nQk(self) -> int:
        """Number of kinematic variables."""
        return len(self._kinematic)

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return len(self._inputs)

    @property
    def nc(self) -> int:
        """Number of constraints."""
        return len(self._constraints)

    def _find(self, identifier: Any, kind: type, parts: Sequence[Any], what: str) -> Any:
        if isinstance(identifier, kind):
            if identifier.system is not self:  # type: ignore[attr-defined]
                raise ValueError(f"{what} {identifier.name!r} belongs to another system")  # type: ignore[attr-defined]
            return identifier
        if isinstance(identifier, str):
            for part in parts:
                if part.name == identifier:
                    return part
            known = [p.name for p in parts if p.name is not None]
            raise KeyError(f"no {what} is called {identifier!r}{nearest(identifier, known)}")
        if isinstance(identifier, (int, np.integer)) and not isinstance(identifier, bool):
            return parts[int(identifier)]
        raise TypeError(f"a {what} is given by object, name or index, not {identifier!r}")

    def get_frame(self, identifier: object) -> Frame:
        """A frame by object, name or index."""
        return self._find(identifier, Frame, self.frames, "frame")  # type: ignore[no-any-return]

    def get_config(self, identifier: object) -> Config:
        """A variable by object, name or index."""
        return self._find(identifier, Config, self.configs, "configuration variable")  # type: ignore[no-any-return]

    def get_input(self, identifier: object) -> Input:
        """An input by object, name or index."""
        return self._find(identifier, Input, self._inputs, "input")  # type: ignore[no-any-return]

    def get_potential(self, identifier: object) -> Potential:
        """A potential by object, name or index."""
        return self._find(identifier, Potential, self._potentials, "potential")  # type: ignore[no-any-return]

    def get_force(self, identifier: object) -> Force:
        """A force by object, name or index."""
        return self._find(identifier, Force, self._forces, "force")  # type: ignore[no-any-return]

    def get_constraint(self, identifier: object) -> Constraint:
        """A constraint by object, name or index."""
        return self._find(identifier, Constraint, self._constraints, "constraint")  # type: ignore[no-any-return]

    def _config_index(self, q: Any) -> int:
        return self.get_config(q)._index

    def _input_index(self, u: Any) -> int:
        return self.get_input(u)._index

    def import_frames(self, children: Sequence[Any]) -> None:
        """Add frames below the world; see `Frame.import_frames`."""
        self._world.import_frames(children)

    def export_frames(self, system_name: str = "system", frames_name: str = "frames", tab_size: int = 4) -> str:
        """Python source that defines this system's frames."""
        body = ",\n".join(f.export_frames(1, tab_size) for f in self._world.children)
        return f"{frames_name} = [\n{body}\n]\n{system_name}.import_frames({frames_name})\n"
