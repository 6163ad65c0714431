"""S-expressions: the files of Scalable variational integrators (Listing 1, Table II), extended to every element and field.

::

    (mechanical-system (name "cart pole")
      (gravity 0 -9.8 0)
      (tx "x" (name "cart") (mass 1)                  ; "x" or (D "x"): dynamic variable, (K "x"): kinematic variable
        (rz "theta" ty -1.0 (name "bob") (mass 1)))   ; several transforms in one frame
      (config-force "x" "push")
      (point-constraint "bob" "anchor" (1 0 0))       ; also: point-constaint, and three plain numbers
      (configuration "upright" ("theta" 3.14)))

Words are case-insensitive. An element is written as its class name with hyphens, then its required fields, then options
as `(field value ...)`: `(linear-spring "a" "b" 100 (rest-length 0.5))`. Comments run from `;` to the end of the line.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import MISSING, fields
from typing import Any

from ..arrays import nearest
from ..model.elements import ELEMENTS, Element
from ..model.frames import MOTIONS
from .document import Fault, Path

MAX_DEPTH = 100_000
MAX_NODES = 1_000_000


class Node:
    """A parsed expression: `value` is a float, a (quoted) `str`, a `Word` or a list of nodes; `place`: line, column."""

    __slots__ = ("place", "value")

    def __init__(self, value: Any, place: tuple[int, int]) -> None:
        self.value = value
        self.place = place


class Word(str):
    """An unquoted symbol, lower case."""


class Wrong(Exception):
    """A complaint with its place in the text."""

    def __init__(self, reason: str, place: tuple[int, int], culprit: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason if len(reason) <= 300 else reason[:297] + "..."
        self.place, self.culprit = place, culprit


# ---- text -> nodes -------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""[\s\ufeff]+ | ;[^\n]* | (?P<open>\() | (?P<close>\)) |
        (?P<string> "(?:[^"\\]|\\.)*" | \u201c[^\u201c\u201d"]*\u201d ) | (?P<atom> [^\s()";\u201c\u201d]+ )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")  # no digit can belong to two parts: linear time
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def parse(text: str) -> Node:
    """The single expression of a text; raises `Wrong` with line and column. Uses no recursion.

    >>> [n.value for n in parse('(tx "x" 1)').value]
    ['tx', 'x', 1.0]
    """
    line, start, position, count = 1, 0, 0, 0
    stack: list[Node] = []
    top: Node | None = None
    while position < len(text):
        match = _TOKEN.match(text, position)
        place = (line, position - start + 1)
        if match is None:
            what = "a string that is never closed" if text[position] in '"\u201c' else f"unexpected {text[position]!r}"
            raise Wrong(what, place)
        node = _node(match, place, stack)
        chunk = match.group()
        newlines = chunk.count("\n")
        if newlines:
            line += newlines
            start = position + chunk.rindex("\n") + 1
        position = match.end()
        if node is None:
            continue
        count += 1
        if count > MAX_NODES:
            raise Wrong(f"more than {MAX_NODES} expressions", place)
        if stack:
            stack[-1].value.append(node)
        elif top is not None:
            raise Wrong("text after the end of the model", place)
        else:
            top = node
        if isinstance(node.value, list):
            stack.append(node)
            if len(stack) > MAX_DEPTH:
                raise Wrong(f"nested more than {MAX_DEPTH} deep", place)
    if stack:
        raise Wrong("a parenthesis is never closed", stack[-1].place)
    if top is None:
        raise Wrong("the file is empty", (line, 1))
    return top


def _node(match: re.Match[str], place: tuple[int, int], stack: list[Node]) -> Node | None:
    """The node that a token starts, None for white space and for a closing parenthesis (which pops the stack)."""
    kind, text = match.lastgroup, match.group()
    if kind == "open":
        return Node([], place)
    if kind == "close":
        if not stack:
            raise Wrong("a closing parenthesis too many", place)
        stack.pop()
        return None
    if kind == "string":
        return Node(_unescape(text[1:-1], place), place)
    if kind == "atom":
        text = text.replace("\u2212", "-")  # the minus sign of a listing pasted from a PDF
        if _NUMBER.fullmatch(text):
            return Node(float(text), place)
        return Node(Word(text.lower()), place)
    return None


def _unescape(body: str, place: tuple[int, int]) -> str:
    if "\\" not in body:
        return body

    def one(match: re.Match[str]) -> str:
        if match.group(1) not in _ESCAPES:
            raise Wrong(f"unknown escape \\{match.group(1)} in a string", place)
        return _ESCAPES[match.group(1)]

    return re.sub(r"\\(.)", one, body, flags=re.DOTALL)


# ---- nodes -> document ---------------------------------------------------------------------------------------------


def hyphenated(name: str) -> str:
    """ConfigForce -> config-force, rest_length -> rest-length.

    >>> hyphenated("ConfigForce"), hyphenated("rest_length")
    ('config-force', 'rest-length')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().replace("_", "-")


_ROOTS = ("mechanical-system", "system")
_POINT = ("point-constraint", "point-constaint")  # the paper prints both
_SYSTEM_WORDS = ("name", "variables", "configuration")
_OPTIONS = ("name", "mass", "inertia", "com", "pitch", "visual")


class Reader:
    """Turns nodes into a document, remembering where each part stands in the text."""

    def __init__(self) -> None:
        self.places: dict[Path, tuple[int, int]] = {}
        self.data: dict[str, Any] = {"frames": [], "elements": []}

    def system(self, root: Node) -> dict[str, Any]:
        """The document of a whole file."""
        items = root.value
        if not isinstance(items, list) or not items or items[0].value not in _ROOTS:
            raise Wrong("a model starts with (mechanical-system ...) or (system ...)", root.place)
        heads = {hyphenated(name): kind for name, kind in ELEMENTS.items()}
        self.places[()] = root.place
        for part in ("frames", "elements"):
            self.places[(part,)] = root.place
        for node in items[1:]:
            head = _head(node)
            if head in (*MOTIONS, "se3"):
                self._frames(node)
            elif head in _POINT:
                self._point(node)
            elif head in heads:
                self._element(node, heads[head])
            elif head in _SYSTEM_WORDS:
                self._word(node, head)
            else:
                known = (*MOTIONS, "se3", *_POINT[:1], *heads, *_SYSTEM_WORDS)
                raise Wrong(f"unknown expression ({head} ...){nearest(head, known)}", node.place, head)
        return self.data

    # ---- frames

    def _frames(self, root: Node) -> None:
        """A frame and all below it, without recursion, in preorder."""
        stack = [(root, 0)]
        while stack:
            node, parent = stack.pop()
            items = node.value
            i = 0
            while i < len(items) and isinstance(items[i].value, Word):
                word = items[i].value
                if word not in (*MOTIONS, "se3"):
                    raise Wrong(f"{word!r} is not a transform{nearest(word, MOTIONS)}", items[i].place, word)
                if i + 1 == len(items):
                    raise Wrong(f"{word} needs a value", items[i].place, word)
                row = {str(word): plain(items[i + 1])}
                if parent:
                    row["parent"] = parent
                self.data["frames"].append(row)
                parent = len(self.data["frames"])
                path = ("frames", parent - 1)
                self.places[path] = node.place
                self.places[(*path, str(word))] = items[i + 1].place
                i += 2
            children = []
            for item in items[i:]:
                head = _head(item)
                if head in (*MOTIONS, "se3"):
                    children.append(item)
                elif head in _OPTIONS:
                    self._option(item, head, row, path)
                else:
                    raise Wrong(
                        f"unknown ({head} ...) in a frame{nearest(head, (*MOTIONS, 'se3', *_OPTIONS))}",
                        item.place,
                        head,
                    )
            stack.extend((child, parent) for child in reversed(children))

    def _option(self, node: Node, head: str, row: dict[str, Any], path: Path) -> None:
        self.places[(*path, head)] = node.place
        if head == "visual":
            self.places[(*path, "visuals", len(row.setdefault("visuals", [])))] = node.place
            row["visuals"].append(self._visual(node))
            return
        values = [plain(n) for n in node.value[1:]]
        if head in row:
            raise Wrong(f"({head} ...) is given twice", node.place, head)
        if head in ("name", "pitch"):
            row[head] = _single(values, head, node)
        elif head == "mass":
            if len(values) not in (1, 4, 7):
                raise Wrong("(mass m), (mass m Ixx Iyy Izz) or (mass m Ixx Iyy Izz Ixy Ixz Iyz)", node.place, "mass")
            row["mass"] = values[0]
            if len(values) > 1:
                if "inertia" in row:
                    raise Wrong("inertia is given twice", node.place, "inertia")
                row["inertia"] = values[1:]
                self.places[(*path, "inertia")] = node.place
        else:
            row[head] = _spread(values)

    def _visual(self, node: Node) -> dict[str, Any]:
        values = node.value[1:]
        if not values or isinstance(values[0].value, (list, float, Word)):
            raise Wrong('a visual starts with its kind: (visual "box" (size 1 2 3) ...)', node.place, "visual")
        shape: dict[str, Any] = {"kind": plain(values[0])}
        for item in values[1:]:
            head = _head(item)
            if head not in ("size", "pose", "color", "mesh") or head in shape:
                raise Wrong(f"unknown or repeated ({head} ...) in a visual", item.place, head)
            inner = [plain(n) for n in item.value[1:]]
            shape[head] = _single(inner, head, item) if head == "mesh" else _spread(inner)
        return shape

    # ---- elements

    def _add(self, row: dict[str, Any], node: Node) -> Path:
        self.data["elements"].append(row)
        path: Path = ("elements", len(self.data["elements"]) - 1)
        self.places[path] = node.place
        return path

    def _point(self, node: Node) -> None:
        """(point-constraint "a" "b" (x y z) (name "c")?) or with three plain numbers; one row each."""
        items = list(node.value[1:])
        if items and _headed(items[-1]) == "name":
            _single([plain(n) for n in items.pop().value[1:]], "name", node)  # names of rows derive from the frames
        if len(items) == 5:
            items[2:] = [Node(items[2:], items[2].place)]
        if len(items) != 3 or not isinstance(items[2].value, list):
            raise Wrong('expected (point-constraint "frame1" "frame2" (x y z))', node.place, "point-constraint")
        row = {
            "type": "PointToPoint",
            "frame1": plain(items[0]),
            "frame2": plain(items[1]),
            "directions": [plain(items[2])],
        }
        path = self._add(row, node)
        for key, item in zip(("frame1", "frame2", "directions"), items, strict=True):
            self.places[(*path, key)] = item.place

    def _element(self, node: Node, kind: type[Element]) -> None:
        """Values of its fields in order, then or between them options (field value ...)."""
        row: dict[str, Any] = {"type": kind.__name__}
        path = self._add(row, node)
        own = list(kind.FIELDS)
        by_word = {hyphenated(f): f for f in own}
        position = 0
        items = deque(node.value[1:])
        while items:
            item = items.popleft()
            head = _headed(item)
            nodes = [item]
            if head in by_word:
                field = by_word[head]
                nodes = item.value[1:]
            elif head is not None and head not in ("k", "d"):
                raise Wrong(
                    f"{kind.__name__}: unknown option ({head} ...){nearest(head, list(by_word))}", item.place, head
                )
            else:
                if position == len(own):
                    raise Wrong(f"{kind.__name__}: too many values", item.place, kind.__name__)
                field = own[position]
                position += 1
                # numbers of a row may stand without parentheses: (gravity 0 0 -9.8), as in the paper
                while kind.FIELDS[field].layout == "row" and isinstance(item.value, float):
                    if not items or not isinstance(items[0].value, float):
                        break
                    nodes.append(items.popleft())
            value = self._field(kind, field, nodes, item)
            if field in row:
                raise Wrong(f"{kind.__name__}: {field} is given twice", item.place, field)
            row[field] = value
            self.places[(*path, field)] = item.place

    def _field(self, kind: type[Element], field: str, nodes: list[Node], item: Node) -> Any:
        """The value of a field from the expressions that give it."""
        layout = kind.FIELDS[field].layout
        if layout == "parts":
            inner = nodes[0].value if len(nodes) == 1 and _headed(nodes[0]) is None else nodes
            if not isinstance(inner, list):
                raise Wrong(f"{kind.__name__}: {field} must be a list of parts", item.place, field)
            return {_head(part): [plain(n) for n in part.value[1:]] for part in inner}
        values = [plain(n) for n in nodes]
        if layout == "one":
            return _single(values, field, item)
        if layout == "rows":  # one text as "xyz", or a list of lists, with or without parentheses around all
            if len(values) == 1 and isinstance(values[0], str):
                return values[0]
            if len(values) == 1 and isinstance(values[0], list) and values[0] and isinstance(values[0][0], list):
                values = values[0]
            return values
        return _spread(values)

    # ---- the rest

    def _word(self, node: Node, head: str) -> None:
        self.places[(head + "s" if head == "configuration" else head,)] = node.place
        values = [plain(n) for n in node.value[1:]]
        if head != "configuration":
            if head in self.data:
                raise Wrong(f"({head} ...) is given twice", node.place, head)
            self.data[head] = _single(values, head, node) if head == "name" else values
            return
        if not values or not isinstance(values[0], str):
            raise Wrong('expected (configuration "name" ("variable" number) ...)', node.place, head)
        table: dict[str, Any] = {}
        for item, pair in zip(node.value[2:], values[1:], strict=True):
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or pair[0] in table:
                raise Wrong('expected ("variable" number), each variable once', item.place, head)
            table[pair[0]] = pair[1]
            self.places[("configurations", values[0], pair[0])] = item.place
        if values[0] in self.data.setdefault("configurations", {}):
            raise Wrong(f"configuration {values[0]!r} is given twice", node.place, values[0])
        self.data["configurations"][values[0]] = table
        self.places[("configurations", values[0])] = node.place


def _headed(node: Node) -> str | None:
    """The first word of a list, or None."""
    if isinstance(node.value, list) and node.value and isinstance(node.value[0].value, Word):
        return str(node.value[0].value)
    return None


def _head(node: Node) -> str:
    head = _headed(node)
    if head is None:
        raise Wrong("expected (word ...)", node.place)
    return head


def plain(node: Node) -> Any:
    """Plain data of a value: a number, a string, {"kinematic": name}, or lists of them (nested at most 4 deep)."""
    return _plain(node, 4)


def _plain(node: Node, depth: int) -> Any:
    value = node.value
    if isinstance(value, Word):
        raise Wrong(
            f'expected a number or a quoted name, not {str(value)[:60]} (write "{str(value)[:60]}")', node.place, value
        )
    if not isinstance(value, list):
        return value
    head = _headed(node)
    if head in ("d", "k"):
        if len(value) != 2 or isinstance(value[1].value, (list, float, Word)):
            raise Wrong(f'expected ({head.upper()} "variable")', node.place, head)
        return value[1].value if head == "d" else {"kinematic": value[1].value}
    if depth == 0:
        raise Wrong("nested too deeply", node.place)
    return [_plain(n, depth - 1) for n in value]


def _single(values: list[Any], what: str, node: Node) -> Any:
    if len(values) != 1:
        raise Wrong(f"{what} needs one value, got {len(values)}", node.place, what)
    return values[0]


def _spread(values: list[Any]) -> list[Any]:
    """(com 1 2 3) and (com (1 2 3)) mean the same; so do the rows of a matrix."""
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def read(text: str) -> tuple[dict[str, Any], dict[Path, tuple[int, int]]]:
    """Document and places of a text. Raises `Wrong`.

    >>> data, places = read('(system (tx "x" (mass 1)))')
    >>> data["frames"], places[("frames", 0)]
    ([{'tx': 'x', 'mass': 1.0}], (1, 9))
    """
    reader = Reader()
    return reader.system(parse(text)), reader.places


# ---- document -> text ----------------------------------------------------------------------------------------------


def write(data: dict[str, Any]) -> str:
    """The text of a document. The frames must stand in preorder, as `to_document` writes them.

    >>> print(write({"name": "m", "frames": [{"tx": "x", "mass": 1.0}], "elements": []}), end="")
    (mechanical-system (name "m")
      (tx "x" (mass 1.0)))
    """
    lines = [f"(mechanical-system (name {_text(data['name'])})"]
    number = {row["name"]: i + 1 for i, row in enumerate(data["frames"]) if "name" in row}
    open_frames: list[int] = []  # numbers of the frames whose parenthesis is still open
    for i, row in enumerate(data["frames"]):
        parent = row.get("parent", 0)
        parent = number[parent] if isinstance(parent, str) else parent
        while open_frames and open_frames[-1] != parent:
            open_frames.pop()
            lines[-1] += ")"
        indent = min(2 * len(open_frames) + 2, 60)  # a chain of thousands of frames must not fill the disk with blanks
        lines.append(" " * indent + _frame_text(row))
        open_frames.append(i + 1)
    lines[-1] += ")" * len(open_frames)
    lines += ["  " + _element_text(row) for row in data["elements"]]
    if "variables" in data:
        lines.append(f"  (variables {' '.join(map(_text, data['variables']))})")
    for name, table in data.get("configurations", {}).items():
        pairs = "".join(f"\n    ({_text(k)} {_text(v)})" for k, v in table.items())
        lines.append(f"  (configuration {_text(name)}{pairs})")
    return "\n".join(lines) + ")\n"


def _frame_text(row: dict[str, Any]) -> str:
    """A frame up to its children, without the closing parenthesis."""
    parts: list[str] = []
    for key, value in row.items():
        if key in MOTIONS:
            parts.insert(0, f"{key} {_text(value)}")
        elif key == "se3":
            parts.insert(0, f"se3 {_text(value)}")
        elif key == "visuals":
            parts += [_visual_text(shape) for shape in value]
        elif key in ("inertia", "com"):
            parts.append(f"({key} {' '.join(map(_text, value))})")
        elif key != "parent":
            parts.append(f"({key} {_text(value)})")
    return "(" + " ".join(parts)


def _visual_text(shape: dict[str, Any]) -> str:
    rest = [
        f"({k} {' '.join(map(_text, v)) if isinstance(v, list) else _text(v)})" for k, v in shape.items() if k != "kind"
    ]
    return f"(visual {' '.join([_text(shape['kind']), *rest])})"


def _element_text(row: dict[str, Any]) -> str:
    kind = ELEMENTS[row["type"]]
    parts = [hyphenated(row["type"])]
    alone = len(row) == 2  # one field, which may be a plain row: (gravity 0 0 -9.8)
    for f in fields(kind):
        if f.name not in row:
            continue
        value, layout = row[f.name], kind.FIELDS[f.name].layout
        if isinstance(value, dict) and layout != "one":
            inner = [f"({_text(k) if layout == 'rows' else k} {_words(v)})" for k, v in value.items()]
            parts.append(f"({' '.join([hyphenated(f.name), *inner])})")
        elif alone and layout == "row" and f is fields(kind)[0]:
            parts.append(_words(value))
        elif f.default is MISSING:
            parts.append(_text(value))
        else:
            parts.append(f"({hyphenated(f.name)} {_words(value)})")
    return "(" + " ".join(parts) + ")"


def _words(value: Any) -> str:
    """A value, or the entries of a list one after another."""
    return " ".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"(K {_text(value['kinematic'])})"
    if isinstance(value, list):
        return "(" + " ".join(map(_text, value)) + ")"
    if isinstance(value, str):
        escaped = (
            value.replace("\\", "\\\\")
            .replace('"', '\\"')
            .replace("\n", "\\n")
            .replace("\t", "\\t")
            .replace("\r", "\\r")
        )
        return f'"{escaped}"'
    return repr(value)


__all__ = ["Fault", "Node", "Reader", "Wrong", "hyphenated", "parse", "read", "write"]
