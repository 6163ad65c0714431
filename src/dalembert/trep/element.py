"""What potentials, forces and constraints share: registration, and evaluation of one element by the core.

A native element (`_element` gives its dalembert twin) is evaluated in a model of its own with all variables dynamic. A
class that overrides one of the value methods is a user element: its Python methods are called, never the core.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .component import Component

if TYPE_CHECKING:
    from .system import System
    from .translation import Names, Translation

Array = NDArray[np.float64]


class Element(Component):
    """Base of potentials, forces and constraints."""

    VALUES: ClassVar[tuple[str, ...]] = ()  # methods whose override makes a user element
    NATIVE: ClassVar[bool] = False  # set in classes that `_element` translates

    def __init__(self, system: System, name: str | None = None) -> None:
        super().__init__(system, name)
        system._add_element(self)

    def _element(self, names: Names) -> Any:
        """The dalembert element, or None if it does nothing in this model."""
        raise NotImplementedError

    @property
    def _native(self) -> bool:
        for cls in type(self).__mro__:
            if "NATIVE" in vars(cls):
                return bool(vars(cls)["NATIVE"])
            if any(name in vars(cls) for name in self.VALUES):
                return False
        return False

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} does not supply {method}; define it, or write the element for dalembert "
            "(da.Potential, da.Force, da.Constraint), where derivatives follow by themselves"
        )

    def opengl_draw(self) -> None:
        """trep drew elements by OpenGL; here `da.view` shows the system in a browser and never calls this."""
        raise NotImplementedError("there is no OpenGL here: dalembert.trep.visual shows systems in the browser")

    # ---- evaluation by the core

    def _at(self, method: str) -> tuple[Translation, Array]:
        """The model of this element alone and the current configuration in its order."""
        if not type(self).NATIVE:
            raise self._missing(method)
        point = self._system._point(self)
        return point, self._system._q[point.q]

    def _kept(self, key: str, make: Any) -> Any:
        """A value at the current state, computed once."""
        memo = self._system._memo
        full = (id(self), key)
        if full not in memo:
            memo[full] = make()
        return memo[full]

    def _back(self, point: Translation, array: Array, axes: int) -> Array:
        """An array over the model's variables on its first `axes` axes, in trep's order."""
        inverse = np.argsort(point.q)
        return array[np.ix_(*[inverse] * axes)]

    def _axis(self, q: Any) -> int:
        return self._system._config_index(q)


def validate(system: System, value: Any, derivative: Any, depth: int, velocity: bool, options: dict[str, Any]) -> bool:
    """Check a derivative against differences for all choices of its first `depth` variables."""
    test = system.test_derivative_ddq if velocity else system.test_derivative_dq
    good = True
    for first in itertools.product(system.configs, repeat=depth):
        good &= test(partial(value, *first), partial(derivative, *first), **options)
    return good
