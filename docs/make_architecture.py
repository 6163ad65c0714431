"""The import graph of the rooms: read from the sources, compared with the tables of docs/architecture.md, drawn as SVG.

Run: python docs/make_architecture.py   (writes docs/images/rooms.svg; tests/test_architecture.py keeps it true)
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/dalembert"
PAGE = ROOT / "docs/architecture.md"
PICTURE = ROOT / "docs/images/rooms.svg"

PUBLIC = "dalembert"  # the front door: names imported from the package itself
BASE = (
    "arrays",
    "errors",
    "text",
    "files",
    "extras",
    "progress",
)  # every room may use these; no arrows are drawn to them
WHEN = ("at import", "on use", "for types")
EXCEPTION = "exception"


# ---- reading the sources -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One imported name: by which file (of which room), from which room, through which module, and when."""

    file: str
    line: int
    room: str
    target: str  # a room, or PUBLIC
    module: str  # dotted, inside of the package: "model.frames"
    name: str
    when: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module or PUBLIC}.{self.name} ({self.when})"


def sources() -> list[Path]:
    """All Python files of the package."""
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The room of a file: the first folder, or a file that stands alone."""
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return PUBLIC if first == "__init__" else first


def rooms() -> list[str]:
    """All rooms, the compiled core among them; `python -m dalembert` is part of the command line."""
    found = {room_of(p) for p in sources()} - {PUBLIC, "__main__"}
    return sorted(found | {"_core"})


def imports() -> list[Import]:
    """Every import of one room in another."""
    known = set(rooms())
    found: list[Import] = []
    for path in sources():
        room = "cli" if path.stem == "__main__" else room_of(path)
        package = path.relative_to(SOURCE).parts[:-1]
        for node, when in _import_nodes(ast.parse(path.read_text(encoding="utf-8")), WHEN[0]):
            module = _module(node, package)
            if module is None:
                continue
            for alias in node.names:
                parts = [*module, alias.name]
                target = parts[0] if parts[0] in known else PUBLIC
                if target != room and room != PUBLIC:
                    file = str(path.relative_to(SOURCE))
                    dotted = ".".join(module if target == PUBLIC or module else parts[:1])
                    found.append(Import(file, node.lineno, room, target, dotted, alias.name, when))
    return found


def _import_nodes(node: ast.AST, when: str) -> Iterator[tuple[ast.ImportFrom, str]]:
    """All `from ... import` below a node: at import, inside of a function (on use), or only for a type checker."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _import_nodes(child, WHEN[2])
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _import_nodes(child, WHEN[1])
        else:
            yield from _import_nodes(child, when)


def _module(node: ast.ImportFrom, package: tuple[str, ...]) -> list[str] | None:
    """The imported module inside of the package as parts; None for other packages."""
    inner = node.module.split(".") if node.module else []
    if node.level:
        return [*package[: len(package) - node.level + 1], *inner]
    return inner[1:] if inner[:1] == [PUBLIC] else None


# ---- the table of the page -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """What a room may import: at import, and on use."""

    always: tuple[str, ...]
    on_use: tuple[str, ...]


def table(heading: str) -> list[list[str]]:
    """Rows of the first table below a heading of the page, without its head."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def rules() -> dict[str, Rule]:
    """The table "What a room may know"."""

    def names(cell: str) -> tuple[str, ...]:
        return tuple(re.findall(r"`([a-z_]+)`", cell))

    found = {}
    for room, _, always, on_use in table("What a room may know"):
        for name in names(room):
            found[name] = Rule(names(always), names(on_use))
    return found


def exceptions() -> set[tuple[str, str]]:
    """(file, room) pairs that break the rules today, from the table "Exceptions"."""
    return {(file.strip("`"), target.strip("`")) for file, target, *_ in table("Exceptions")}


def broken(found: list[Import]) -> list[Import]:
    """Imports that the table does not allow."""
    allowed = rules()
    wrong = []
    for i in found:
        rule = allowed[i.room]
        good = i.target in BASE or i.target in rule.always or (i.when != WHEN[0] and i.target in rule.on_use)
        if i.target != PUBLIC and PUBLIC in (*rule.always, *rule.on_use):  # only what the front door of a room shows
            good = good or ("." not in i.module and not i.target.startswith("_"))
        if not good:
            wrong.append(i)
    return wrong


# ---- the picture ---------------------------------------------------------------------------------------------------

# rooms from those that know most (top) to those that know least (bottom), placed so that few arrows cross
LAYERS = [
    ["trep", "cli", "bridges", "export"],
    ["direct", "optimization", "estimate", "identification"],
    ["control", "viewing"],
    ["system", "models"],
    ["integrate"],
    ["symbolic", "mechanics", "formats"],
    ["_core", "model"],
]
COLOURS = {
    "trep": "#8a6d3b",
    "cli": "#8a6d3b",
    "export": "#b3473b",
    "bridges": "#8a6d3b",
    "direct": "#7a4fb0",
    "optimization": "#a3467f",
    "estimate": "#2f7d4f",
    "identification": "#5b7a1f",
    "control": "#c77700",
    "viewing": "#0e7c86",
    "system": "#2f6fb7",
    "models": "#667085",
    "integrate": "#2f6fb7",
    "symbolic": "#7a4fb0",
    "mechanics": "#1d2430",
    "formats": "#667085",
    "_core": "#1d2430",
    "model": "#1d2430",
}
WIDTH, ROW, BOX, HIGH = 980, 108, 132, 38


def arrows() -> dict[tuple[str, str], str]:
    """(room, room) -> when, as the tables of the page say; the base and the front door are left out."""
    found: dict[tuple[str, str], str] = {}
    for file, target in sorted(exceptions()):
        found[(file.split("/")[0].removesuffix(".py"), target)] = EXCEPTION
    for room, rule in rules().items():
        found |= {(room, target): WHEN[1] for target in rule.on_use}
        found |= {(room, target): WHEN[0] for target in rule.always}
    return {pair: when for pair, when in found.items() if pair[1] not in (*BASE, PUBLIC)}


def draw() -> str:
    """The tables as SVG: full lines are imported at import, broken ones on use or for types, red ones are exceptions."""
    height = ROW * len(LAYERS) + 90
    place = _places()
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="15">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    front = [room for room, rule in rules().items() if PUBLIC in (*rule.always, *rule.on_use)]
    # what enters by the front door gets one arrow to the bar of public names, everything else its own arrows
    bar = ROW - 12
    out += [
        f'<rect x="30" y="{bar}" width="{WIDTH - 60}" height="24" rx="6" fill="#eef2f7" stroke="#c4cbd4"/>',
        f'<text x="{WIDTH / 2}" y="{bar + 17}" text-anchor="middle" font-size="13" fill="#475467">'
        "public names: import dalembert</text>",
    ]
    for room in front:
        x, y = place[room]
        out.append(_curve([(x, y + HIGH / 2), (x, bar)], COLOURS[room], "at import"))
    between = {pair: when for pair, when in arrows().items() if pair[0] not in front}
    out += _routes(between, place)
    for room, (x, y) in place.items():
        out.append(
            f'<rect x="{x - BOX / 2:.0f}" y="{y - HIGH / 2:.0f}" width="{BOX}" height="{HIGH}" rx="8" fill="#ffffff" '
            f'stroke="{COLOURS[room]}" stroke-width="2"/>'
        )
        out.append(
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="{COLOURS[room]}">{escape(room)}</text>'
        )
    y = ROW * len(LAYERS) + 8
    out += [
        f'<rect x="30" y="{y}" width="{WIDTH - 60}" height="30" rx="6" fill="#eef2f7" stroke="#c4cbd4"/>',
        f'<text x="{WIDTH / 2}" y="{y + 20}" text-anchor="middle" fill="#475467">{", ".join(BASE)}: every room</text>',
        f'<text x="{WIDTH / 2}" y="{y + 58}" text-anchor="middle" font-size="13" fill="#475467">'
        "full line: when the room is imported; broken line: on use, or for types only; red: exceptions</text>",
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def _places() -> dict[str, tuple[float, float]]:
    """The centre of every room."""
    place = {}
    for k, layer in enumerate(LAYERS):
        for i, room in enumerate(layer):
            place[room] = ((i + 0.5) * WIDTH / len(layer), (k + 0.5) * ROW + 8 * (k > 0))
    return place


def _routes(between: dict[tuple[str, str], str], place: dict[str, tuple[float, float]]) -> list[str]:
    """Curves that pass other rooms in the gaps between them, side by side where they share a gap or a room."""
    layer = {room: k for k, row in enumerate(LAYERS) for room in row}
    ports: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)  # (room, side) -> pairs that meet there
    for a, b in between:
        down = layer[a] < layer[b]
        ports[(a, "bottom" if down else "top")].append((a, b))
        ports[(b, "top" if down else "bottom")].append((a, b))
    at: dict[tuple[str, tuple[str, str]], tuple[float, float]] = {}
    for (room, side), pairs in ports.items():
        x, y = place[room]
        pairs.sort(key=lambda p, room=room: place[p[1] if p[0] == room else p[0]][0])
        for i, pair in enumerate(pairs):
            shift = (i - (len(pairs) - 1) / 2) * min(18, (BOX - 20) / len(pairs))
            at[(room, pair)] = (x + shift, y + (HIGH / 2 if side == "bottom" else -HIGH / 2))
    used: dict[tuple[int, float], int] = defaultdict(int)
    out = []
    for a, b in sorted(between, key=lambda p: (layer[p[0]], place[p[0]][0], place[p[1]][0])):
        start, end = at[(a, (a, b))], at[(b, (a, b))]
        step = 1 if layer[a] < layer[b] else -1
        points = [start]
        for k in range(layer[a] + step, layer[b], step):
            y = place[LAYERS[k][0]][1]
            share = (y - start[1]) / (end[1] - start[1])
            wanted = start[0] + share * (end[0] - start[0])
            edges = sorted(place[room][0] for room in LAYERS[k])
            gaps = [(p + q) / 2 for p, q in pairwise(edges)]
            gaps += [edges[0] - BOX / 2 - 34, edges[-1] + BOX / 2 + 34]
            gap = min(gaps, key=lambda g, wanted=wanted: abs(g - wanted))
            n = used[(k, gap)]
            used[(k, gap)] += 1
            x = gap + 9 * ((n + 1) // 2) * (1 if n % 2 else -1)
            points += [(x, y - step * HIGH / 2), (x, y + step * HIGH / 2)]
        colour = "#e02b20" if between[(a, b)] == EXCEPTION else COLOURS[a]
        out.append(_curve([*points, end], colour, between[(a, b)]))
    return out


def _curve(points: list[tuple[float, float]], colour: str, when: str) -> str:
    """A smooth line that leaves and arrives vertically, with a head at its end."""
    path = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f" C{x0:.0f},{middle:.0f} {x1:.0f},{middle:.0f} {x1:.0f},{y1:.0f}"
    dash = "" if when == WHEN[0] else ' stroke-dasharray="5 4"'
    (x, y), before = points[-1], points[-2][1]
    back = y - 8 if y > before else y + 8
    head = f'<path d="M{x - 4:.0f},{back:.0f} L{x + 4:.0f},{back:.0f} L{x:.0f},{y:.0f} Z" fill="{colour}"/>'
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>{head}'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
