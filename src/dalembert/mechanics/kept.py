"""Values that are derived from a model once and kept as long as the model lives, without writing into the model."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from ..model import Model

T = TypeVar("T")


class Kept(Generic[T]):
    """A function of a model that remembers its results by identity; hashing a model by value would cost more than a step.

    >>> from dalembert import models
    >>> count = Kept(lambda model: [model.nq])
    >>> arm = models.n_link(2)
    >>> count(arm) is count(arm)
    True
    """

    def __init__(self, make: Callable[[Model], T]) -> None:
        self._make = make
        self._found: dict[int, tuple[weakref.ref[Model], T]] = {}

    def __call__(self, model: Model) -> T:
        entry = self._found.get(id(model))
        if entry is not None:
            return entry[1]
        key, found = id(model), self._found  # the entry goes when the model goes, before its number is given to another
        value = self._make(model)
        found[key] = (weakref.ref(model, lambda _: found.pop(key, None)), value)
        return value
