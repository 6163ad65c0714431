"""XML read safely (defusedxml: no entities, no DTD, no external references), every element with its line and column."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler

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


class _Builder(ContentHandler):
    def __init__(self, file: str | None) -> None:
        super().__init__()
        self.file = file
        self.root: Tag | None = None
        self.stack: list[Tag] = []
        self.count = 0
        self.locator: Any = None

    def setDocumentLocator(self, locator: Any) -> None:
        self.locator = locator

    def startElement(self, name: str, attrs: Any) -> None:
        tag = Tag(
            name, dict(attrs.items()), self.file, self.locator.getLineNumber(), self.locator.getColumnNumber() + 1
        )
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

    def endElement(self, name: str) -> None:
        self.stack.pop()


def parse(raw: bytes, file: str | None) -> Tag:
    """The root element of an XML text; what is wrong with it is a `ModelError` with line and column.

    >>> parse(b"<robot name='r'/>", None).get("name")
    'r'
    """
    from defusedxml import DefusedXmlException
    from defusedxml.sax import make_parser

    handler = _Builder(file)
    parser = make_parser()
    parser.forbid_dtd = True
    parser.setContentHandler(handler)

    def place() -> dict[str, Any]:
        if handler.locator is None:
            return {"line": 1, "column": 1}
        return {"line": handler.locator.getLineNumber() or 1, "column": (handler.locator.getColumnNumber() or 0) + 1}

    try:
        parser.parse(io.BytesIO(raw))
    except DefusedXmlException as error:
        reason = f"refused for safety: {type(error).__name__} (no DTD, entities or external references)"
        raise ModelError(reason, file=file, **place()) from None
    except SAXParseException as error:
        line, column = error.getLineNumber() or 1, (error.getColumnNumber() or 0) + 1
        raise ModelError(f"bad XML: {error.getMessage()}", file=file, line=line, column=column) from None
    except ModelError:
        raise
    except (SAXException, ValueError, LookupError) as error:  # unknown or unusable encodings
        raise ModelError(f"bad XML: {error}", file=file, **place()) from None
    if handler.root is None:
        raise ModelError("bad XML: no element", file=file, line=1, column=1)
    return handler.root
