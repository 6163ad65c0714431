"""XML read safely (no DTD, so no entities and no external references), every element with its line and column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.parsers import expat

from ..errors import ModelError

MAX_DEPTH = 400
MAX_ELEMENTS = 200_000
MAX_ATTRIBUTES = 200  # of one element; the largest of MJCF has about fifty
MAX_NUMBER = 1e60  # products of a few such numbers (volumes, inertias) still do not overflow


class Tag:
    """An XML element: `name`, `attributes`, `children`, its place, and the file for messages."""

    __slots__ = ("attributes", "children", "column", "file", "line", "name")

    def __init__(self, name: str, attributes: Mapping[str, str], file: str | None, line: int, column: int) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Tag] = []
        self.file = file
        self.line = line
        self.column = column

    def wrong(self, reason: str, culprit: str | None = None) -> ModelError:
        """The error to raise about this element."""
        return ModelError(reason, culprit=culprit or self.name, file=self.file, line=self.line, column=self.column)

    def all(self, *names: str) -> Iterator[Tag]:
        """Children with one of the names."""
        return (c for c in self.children if c.name in names)

    def one(self, name: str) -> Tag | None:
        """The child of that name, or None; two of them are an error."""
        found = list(self.all(name))
        if len(found) > 1:
            raise found[1].wrong(f"<{name}> is given twice in <{self.name}>")
        return found[0] if found else None

    def get(self, key: str, default: str | None = None) -> str | None:
        """An attribute as text."""
        return self.attributes.get(key, default)

    def need(self, key: str) -> str:
        """An attribute that must be there and not be empty."""
        value = self.attributes.get(key, "")
        if not value:
            raise self.wrong(f"<{self.name}> needs the attribute {key}")
        return value

    def numbers(self, key: str, count: int | None, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """An attribute as finite numbers, `count` of them (None: any number)."""
        text = self.attributes.get(key)
        if text is None:
            if default is None:
                raise self.wrong(f"<{self.name}> needs the attribute {key}")
            return default
        try:
            values = tuple(float(word) for word in text.split() if "_" not in word or _refuse())
        except ValueError:
            raise self.wrong(f'<{self.name} {key}="{text[:60]}">: expected numbers') from None
        if not all(abs(x) < MAX_NUMBER for x in values):
            raise self.wrong(f'<{self.name} {key}="{text[:60]}">: not finite or absurdly large')
        if count is not None and len(values) != count:
            raise self.wrong(f"<{self.name}> {key} needs {count} numbers, got {len(values)}")
        return values

    def number(self, key: str, default: float | None = None) -> float:
        """An attribute as one finite number."""
        return self.numbers(key, 1, None if default is None else (default,))[0]


def _refuse() -> bool:
    raise ValueError  # Python's float() reads 1_000


class _Builder:
    """The tree of tags, from the events of a parser."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.root: Tag | None = None
        self.stack: list[Tag] = []
        self.count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.refuse  # without a DTD there are no entities and nothing external

    def place(self) -> dict[str, Any]:
        return {"line": self.parser.CurrentLineNumber or 1, "column": self.parser.CurrentColumnNumber + 1}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = Tag(name, attributes, self.file, **self.place())
        self.count += 1
        if len(self.stack) >= MAX_DEPTH:
            raise tag.wrong(f"nested more than {MAX_DEPTH} deep")
        if self.count > MAX_ELEMENTS:
            raise tag.wrong(f"more than {MAX_ELEMENTS} elements")
        if len(tag.attributes) > MAX_ATTRIBUTES:
            raise tag.wrong(f"<{name[:60]}> has more than {MAX_ATTRIBUTES} attributes")
        if self.stack:
            self.stack[-1].children.append(tag)
        else:
            self.root = tag
        self.stack.append(tag)

    def end(self, name: str) -> None:
        self.stack.pop()

    def refuse(self, *_: Any) -> None:
        raise ModelError(
            "refused for safety: a document type declaration (no DTD, entities or external references)",
            file=self.file,
            **self.place(),
        )


def parse(raw: bytes, file: str | None) -> Tag:
    """The root element of an XML text; what is wrong with it is a `ModelError` with line and column.

    >>> parse(b"<robot name='r'/>", None).get("name")
    'r'
    """
    builder = _Builder(file)
    try:
        builder.parser.Parse(raw, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise ModelError(f"bad XML: {reason}", file=file, line=error.lineno or 1, column=error.offset + 1) from None
    except (ValueError, LookupError) as error:  # unknown or unusable encodings
        raise ModelError(f"bad XML: {error}", file=file, **builder.place()) from None
    if builder.root is None:
        raise ModelError("bad XML: no element", file=file, line=1, column=1)
    return builder.root
