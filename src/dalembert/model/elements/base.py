"""Elements: what acts on a mechanism, as values. The base class, the families, and the list of all kinds.

An element names the frames, variables and inputs that it acts on; `Model` resolves the names. Everything about one kind stands in its
class: fields (with their checks and their form in files), compilation to plain numbers, a symbolic definition, a drawing. Nobody
else knows the list of kinds::

    @element
    @dataclass(frozen=True)
    class ConfigSpring(PotentialElement):
        variable: VariableName
        stiffness: Number
        rest: Number = 0.0

        def compile(self, table): return [table.on_variables("ConfigSpring", [self.variable], (self.stiffness, self.rest))]

        def symbolic(self, s): return self.stiffness / 2 * (s.variable(self.variable) - self.rest) ** 2
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, get_type_hints

from ..._core import ELEMENT_KINDS
from ...errors import ModelError
from .fields import Field, Unsuited

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...symbolic import Symbolic
    from ..compile import Row, Table
    from ..drawing import Part
    from ..model import Model
    from .contacts import Gap

    PoseOf = Callable[[str], NDArray[np.float64]]  # name of a frame -> its 4x4 pose

WORLD = "world"


@dataclass(frozen=True)
class Element:
    """Base of all elements. Not an element itself, and neither is a class that only derives from it: see `element`."""

    FAMILY: ClassVar[str] = ""  # which list of the core its rows belong to
    FIELDS: ClassVar[Mapping[str, Field]] = MappingProxyType({})  # set by @element
    TORQUES: ClassVar[bool] = False  # may act on the velocities of balls, about their body axes

    def __post_init__(self) -> None:
        for name, field in self.FIELDS.items():
            try:
                object.__setattr__(self, name, field.check(getattr(self, name)))
            except Unsuited as bad:
                self._refuse(bad.about(name.replace("_", " ")), bad.culprit)
        self.validate()

    def _refuse(self, reason: str, culprit: str | None = None) -> NoReturn:
        raise ModelError(f"{self.label}: {reason}", culprit=culprit or self.label)

    # ---- what it is about

    @property
    def label(self) -> str:
        """How messages call this element."""
        found = [(f.frames, f.variables, getattr(self, n)) for n, f in self.FIELDS.items() if f.in_label]
        names = [str(x) for frames, _, value in found for x in frames(value)]
        names += [str(x) for _, variables, value in found for x in variables(value)]
        return f"{type(self).__name__}({', '.join(names)})" if names else type(self).__name__

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of the frames that it mentions, in the order of its fields."""
        return tuple(x for name, f in self.FIELDS.items() for x in f.frames(getattr(self, name)))

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that it mentions itself (not those that move its frames)."""
        return tuple(x for name, f in self.FIELDS.items() for x in f.variables(getattr(self, name)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that it reads, in order."""
        return tuple(x for name, f in self.FIELDS.items() for x in f.inputs(getattr(self, name)))

    @property
    def kinematic(self) -> tuple[str, ...]:
        """Names of the kinematic variables that exist because it mentions them."""
        return tuple(x for name, f in self.FIELDS.items() for x in f.kinematic(getattr(self, name)))

    @property
    def size(self) -> int:
        """Number of constraint rows (0 for potentials and forces)."""
        return 0

    @property
    def rates(self) -> int:
        """How many of them, the last ones, constrain velocities."""
        return 0

    # ---- what a kind says about itself

    def validate(self) -> None:
        """Raise `ModelError` if fields that are fine one by one do not fit together."""

    def resolved(self, model: Model) -> Element:
        """The element as the model keeps it: with functions turned into data. Called before `check`."""
        return self

    def check(self, model: Model) -> None:
        """Raise `ModelError` if it cannot act in this model; the names it mentions are known to exist."""

    def depends_on(self, model: Model) -> set[str]:
        """Names of the variables that its value can depend on."""
        return {*self.variables, *(v for frame in self.frames for v in model.path(frame))}

    def undefined(self, pose: PoseOf) -> str:
        """Why it has no value where its frames are, by `pose(frame)` ("its frames coincide"); "" if it has one."""
        return ""

    def compile(self, table: Table) -> Iterable[Row]:
        """What the core needs: rows of kinds that `cpp/elements/all.hpp` lists in this family (or entries in shared tables)."""
        raise NotImplementedError

    def symbolic(self, s: Symbolic) -> Any:
        """The definition, in CasADi: what the core is checked against, and what the direct methods use. See the families."""
        raise NotImplementedError

    def draw(self, model: Model) -> Iterable[Part]:
        """What viewers show of it."""
        return ()


# ---- families: what `symbolic` returns, and in which list of the core the rows go


@dataclass(frozen=True)
class PotentialElement(Element):
    """Elements with a potential energy; `symbolic` returns it (J)."""

    FAMILY = "potentials"


@dataclass(frozen=True)
class ForceElement(Element):
    """Elements that push; `symbolic` returns generalized forces, nq (rows of kinematic variables have no meaning)."""

    FAMILY = "forces"


@dataclass(frozen=True)
class ConstraintElement(Element):
    """Elements that hold `size` functions of the configuration at zero; `symbolic` returns them, (size,)."""

    FAMILY = "constraints"

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True)
class VelocityElement(Element):
    """Elements that hold `rates` functions of configuration and velocity, a(q) v + b(q), at zero, and may hold functions of the configuration
    too; `symbolic` returns all of them, those of the configuration first, (size,)."""

    FAMILY = "velocities"

    @property
    def size(self) -> int:
        return 1

    @property
    def rates(self) -> int:
        return 1


@dataclass(frozen=True)
class ContactElement(Element):
    """Elements with gaps that must not become negative; `symbolic` returns these, (number of gaps,). They have no rows in the core."""

    FAMILY = "contacts"

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What must not become negative."""
        raise NotImplementedError

    def compile(self, table: Table) -> Iterable[Row]:
        return ()

    def symbolic(self, s: Symbolic) -> Any:
        return s.ca.vertcat(*(gap.symbolic(s) for gap in self.gaps))


# ---- the list of all kinds

ELEMENTS: dict[str, type[Element]] = {}  # by name, which is also the name in files

_Kind = TypeVar("_Kind", bound=type[Element])


def element(kind: _Kind) -> _Kind:
    """Class decorator: makes a frozen dataclass a kind of element that models, files and viewers know by its name.

    Its fields must be annotated with those of `dalembert.model.elements.fields`; `compile` and `symbolic` must be there. A class that
    derives from a kind is another kind and needs the decorator too: what is not registered is refused when a Model is built.
    """
    name = kind.__name__
    if "__dataclass_params__" not in vars(kind) or not vars(kind)["__dataclass_params__"].frozen:
        raise TypeError(f"element {name} must be a dataclass(frozen=True)")
    if kind.FAMILY not in (*ELEMENT_KINDS, ContactElement.FAMILY):
        raise TypeError(
            f"element {name} must derive from a family (PotentialElement, ForceElement, ConstraintElement, VelocityElement, "
            "ContactElement)"
        )
    for method in ("compile", "symbolic"):
        if getattr(kind, method) is getattr(Element, method):
            raise TypeError(f"element {name} has no {method}()")
    other = ELEMENTS.get(name)
    if other is not None and (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
        raise TypeError(f"there is an element {name} already, in {other.__module__}")
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, Field] = {}
    for f in dataclasses.fields(kind):
        marks = [m for m in getattr(hints[f.name], "__metadata__", ()) if isinstance(m, Field)]
        if not marks:
            raise TypeError(f"element {name}: annotate '{f.name}' with a field of dalembert.model.elements.fields")
        found[f.name] = marks[0]
    kind.FIELDS = MappingProxyType(found)
    ELEMENTS[name] = kind
    return kind


def is_known(e: Element) -> bool:
    """Is the class of this element itself a registered kind?"""
    return ELEMENTS.get(type(e).__name__) is type(e)
