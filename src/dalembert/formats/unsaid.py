"""What a robot file says and a model does not: found while reading, told once at the end."""

from __future__ import annotations

import warnings

from ..errors import ModelError, ModelWarning, user_level
from .markup import Tag

SHOWN = 20  # lines of a warning; the attribute `notes` has all


class Unsaid:
    """Notes about one file: `add` while reading, `tell` at the end, which warns, or refuses where `strict`."""

    def __init__(self, file: str | None, strict: bool) -> None:
        self.file = file
        self.strict = strict
        self._notes: list[tuple[int, int, str, str | None]] = []

    def add(self, tag: Tag, what: str, culprit: str | None = None) -> None:
        """Something that the element says and the model does not."""
        self._notes.append((tag.line, tag.column, what, culprit))

    def each(self, tags: list[Tag], what: str) -> None:
        """The same about several elements, in one line at the first of them."""
        if tags:
            times = f" ({len(tags)} times, here first)" if len(tags) > 1 else ""
            self.add(tags[0], what + times)

    def tell(self) -> None:
        """One warning with all notes; where strict, an error at the first."""
        if not self._notes:
            return
        notes = sorted(self._notes, key=lambda note: note[:2])
        if self.strict:
            line, column, what, culprit = notes[0]
            more = f", and {len(notes) - 1} more" if len(notes) > 1 else ""
            reason = f"not represented: {what}{more} (strict=False lists all in a warning)"
            raise ModelError(reason, culprit=culprit, file=self.file, line=line, column=column)
        lines = [f"line {line}: {what}".replace("\n", " ") for line, _, what, _ in notes[:SHOWN]]
        lines += [f"and {len(notes) - SHOWN} more" for _ in notes[SHOWN : SHOWN + 1]]
        message = f"{self.file or 'the text'}: the model does not represent\n  " + "\n  ".join(lines)
        told = tuple((line, what) for line, _, what, _ in notes)
        warnings.warn(ModelWarning(message, file=self.file, notes=told), stacklevel=user_level())
