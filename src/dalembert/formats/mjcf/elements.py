"""The elements of a model while they are found, each with the XML element behind it, for messages."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ModelError
from ...model import Element
from ..markup import Tag


class Elements:
    """Elements in the order in which they were found."""

    def __init__(self) -> None:
        self.found: list[Element] = []
        self._places: list[Tag] = []

    def add(self, tag: Tag, kind: Callable[..., Element], *fields: object) -> None:
        """Make an element of the fields; what is wrong with them is an error at the tag."""
        try:
            self.found.append(kind(*fields))
        except ModelError as error:
            raise tag.wrong(error.reason, error.culprit) from None
        self._places.append(tag)

    def blame(self, error: ModelError, root: Tag) -> ModelError | None:
        """The complaint of Model placed at the element that it is about: the complaint starts with its label."""
        for element, tag in zip(self.found, self._places, strict=True):
            if error.reason.startswith(element.label) and tag is not root:
                return tag.wrong(error.reason, error.culprit)
        if error.culprit == "constraints":
            sized = [tag for element, tag in zip(self.found, self._places, strict=True) if element.size]
            return sized[-1].wrong(error.reason, error.culprit)
        return None
