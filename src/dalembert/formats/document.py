"""Models as plain data: the one content that s-expressions, TOML and JSON write in their own syntax.

A document is a dictionary::

    {"name": "cart_pole",
     "frames": [{"tx": "x", "name": "cart", "mass": 1.0},
                {"rz": "theta", "parent": "cart"},
                {"ty": -1.0, "parent": 2, "name": "bob", "mass": 1.0}],
     "elements": [{"type": "Gravity", "acceleration": [0.0, -9.8, 0.0]}],
     "variables": ["x", "theta"],
     "configurations": {"upright": {"theta": 3.0}}}

Frames are a flat list, so that a chain of thousands of frames nests nothing: `parent` is the name of a frame above in
the list, or its number there (the first is 1), or is left out for a child of the world. Exactly one of `tx ty tz rx ry
rz se3` says how the frame moves; its value is a number, the name of a dynamic variable, or `{"kinematic": name}`.
`parameters` names numbers: {"l": 0.5} or {"l": {"value": 0.5, "bounds": [0, "none"], "unit": "m"}}; any number of a frame or an element may
then be {"formula": "l/2"}.
Elements have the fields of the classes in `dalembert.model.elements`, which read and write themselves. `variables` (the
order of q) and `configurations` (named values of q; variables left out are 0) are optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from ..arrays import nearest
from ..errors import ModelError
from ..model.elements import ELEMENTS, WORLD, Element, is_known
from ..model.elements.fields import Unsuited
from ..model.elements.fields import shown as _brief
from ..model.frames import MOTIONS, Frame, Kinematic, Visual, make_frame
from ..model.model import Model
from ..model.parameter import Parameter, Quantity, formula, parameters_in, parse, present

Path = tuple[str | int, ...]
Configurations = dict[str, dict[str, float]]
MAX_PARTS = 100_000  # frames, and elements, of a model in a file


class Fault(Exception):
    """Something is wrong at `path` of a document; the reader of the text turns it into a `ModelError` with a place."""

    def __init__(self, reason: str, path: Path, culprit: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.culprit = culprit


def shown(path: Path) -> str:
    """A path as messages write it: frames[3].mass (numbers count from 1).

    >>> shown(("frames", 2, "mass"))
    'frames[3].mass'
    """
    return "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")


# ---- reading -------------------------------------------------------------------------------------------------------


def from_document(data: Any, default_name: str = "model") -> tuple[Model, Configurations]:
    """Build the Model (and its named configurations) that a document describes; raises `Fault`.

    >>> model, _ = from_document({"frames": [{"tx": "x", "mass": 1.0}]})
    >>> model.variables
    ('x',)
    """
    known = ("name", "parameters", "frames", "elements", "variables", "configurations")
    _table(data, (), known)
    if "frames" not in data:
        raise Fault("no frames", ())
    parts = ("frames", "elements")
    for part in parts:
        if len(_list(data.get(part, []), (part,))) > MAX_PARTS:
            raise Fault(f"more than {MAX_PARTS} {part}", (part,))
    parameters = _parameters(data.get("parameters", {}))
    data = {**data, **{part: _with_formulas(data[part], parameters, (part,)) for part in parts if part in data}}
    frames, entries = _frames(_list(data["frames"], ("frames",)))
    elements = [_element(e, ("elements", i)) for i, e in enumerate(_list(data.get("elements", []), ("elements",)))]
    name = _name(data.get("name", default_name), ("name",))
    variables = None
    if "variables" in data:
        variables = [_name(v, ("variables", i)) for i, v in enumerate(_list(data["variables"], ("variables",)))]
    try:
        model = Model(frames, elements, name, variables=variables)
    except ModelError as error:
        raise Fault(error.reason, _blame(error, entries, elements), error.culprit) from None
    return model, _configurations(data.get("configurations", {}), model)


def _parameters(data: Any) -> dict[str, Parameter]:
    """{name: number}, or {name: {value, bounds, unit}} with null (in TOML "none") for a bound that is not there."""
    path: Path = ("parameters",)
    if not isinstance(data, Mapping):
        raise Fault(f"parameters must be a table, not {_brief(data)}", path)
    found: dict[str, Parameter] = {}
    for name, given in data.items():
        here = (*path, name)
        row = given if isinstance(given, Mapping) else {"value": given}
        _table(row, here, ("value", "bounds", "unit"))
        if "value" not in row:
            raise Fault(f"parameter {name!r} needs a value", here, name)
        bounds = _list(row.get("bounds", [None, None]), (*here, "bounds"))
        if len(bounds) != 2:
            raise Fault(f"{shown((*here, 'bounds'))} needs two numbers", (*here, "bounds"))
        ends = [None if b is None or b == "none" else _number(b, (*here, "bounds", i)) for i, b in enumerate(bounds)]
        try:
            found[name] = Parameter(
                name, _number(row["value"], (*here, "value")), bounds=(ends[0], ends[1]), unit=row.get("unit", "")
            )
        except ModelError as error:
            raise Fault(error.reason, here, name) from None
    return found


def _with_formulas(value: Any, parameters: Mapping[str, Parameter], path: Path) -> Any:
    """The same with every {"formula": text} replaced by the number that it stands for."""
    if isinstance(value, list):
        return [_with_formulas(v, parameters, (*path, i)) for i, v in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"formula"}:
        try:
            return parse(_name(value["formula"], (*path, "formula")), parameters)
        except ValueError as error:
            raise Fault(str(error), path) from None
    return {k: _with_formulas(v, parameters, (*path, k)) for k, v in value.items()}


def _frames(rows: Sequence[Any]) -> tuple[tuple[Frame, ...], list[Frame]]:
    """Roots, and all frames in the order of the list."""
    where: dict[str, int] = {}
    parents: list[int] = []
    for i, row in enumerate(rows):
        path: Path = ("frames", i)
        _table(row, path, (*MOTIONS, "se3", *_FRAME_FIELDS))
        parents.append(_parent(row.get("parent", 0), where, i, (*path, "parent")))
        if isinstance(row.get("name"), str):
            where.setdefault(row["name"], i + 1)
    below: list[list[Frame]] = [[] for _ in range(len(rows) + 1)]
    built: list[Frame] = []
    for i in range(len(rows) - 1, -1, -1):  # parents stand above their children: bottom up needs no recursion
        frame = _one_frame(rows[i], below[i + 1], ("frames", i))
        below[parents[i]].append(frame)
        built.append(frame)
    return tuple(reversed(below[0])), built[::-1]


_FRAME_FIELDS = ("parent", "name", "mass", "inertia", "com", "pitch", "visuals")


def _parent(value: Any, where: Mapping[str, int], i: int, path: Path) -> int:
    if isinstance(value, str) and value == WORLD:
        return 0
    if isinstance(value, str):
        if value not in where:
            raise Fault(f"parent {value!r} is not a frame above{nearest(value, where)}", path, value)
        return where[value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= i:
        raise Fault(f"parent must be a name or the number of a frame above (0 to {i}), not {_brief(value)}", path)
    return value


def _one_frame(row: Mapping[str, Any], children: Sequence[Frame], path: Path) -> Frame:
    moves = [key for key in row if key in MOTIONS or key == "se3"]
    if len(moves) != 1:
        raise Fault("a frame needs exactly one of tx, ty, tz, rx, ry, rz, se3", path)
    options: dict[str, Any] = {}
    if "name" in row:
        options["name"] = _name(row["name"], (*path, "name"))
    for key in ("mass", "pitch"):
        if key in row:
            options[key] = _number(row[key], (*path, key))
    for key, sizes in (("inertia", (3, 6)), ("com", (3,))):
        if key in row:
            options[key] = _numbers(row[key], (*path, key), sizes)
    if "visuals" in row:
        shapes = _list(row["visuals"], (*path, "visuals"))
        options["visuals"] = [_visual(v, (*path, "visuals", i)) for i, v in enumerate(shapes)]
    key = moves[0]
    value = _matrix(row[key], (*path, key)) if key == "se3" else _amount(row[key], (*path, key))
    try:
        return make_frame(key, value, list(reversed(children)), **options)
    except ModelError as error:
        raise Fault(error.reason, path, error.culprit) from None


def _visual(value: Any, path: Path) -> Visual:
    _table(value, path, ("kind", "size", "pose", "color", "mesh"))
    if "kind" not in value:
        raise Fault("a visual needs a kind", path)
    options: dict[str, Any] = {"kind": _name(value["kind"], (*path, "kind"))}
    for key in ("size", "color"):
        if key in value:
            options[key] = _numbers(value[key], (*path, key), None)
    if "pose" in value:
        options["pose"] = _matrix(value["pose"], (*path, "pose"))
    if "mesh" in value:
        options["mesh"] = _name(value["mesh"], (*path, "mesh"))
    try:
        return Visual(**options)
    except ModelError as error:
        raise Fault(error.reason, path, error.culprit) from None


def _element(row: Any, path: Path) -> Element:
    if not isinstance(row, Mapping):
        raise Fault(f"an element must be a table, not {_brief(row)}", path)
    name = row.get("type")
    if not isinstance(name, str) or name not in ELEMENTS:
        raise Fault(f"unknown element type {_brief(name)}{nearest(name, ELEMENTS)}", (*path, "type"), str(name))
    kind = ELEMENTS[name]
    _table(row, path, ("type", *kind.FIELDS))
    values = {}
    for f in fields(kind):
        here = (*path, f.name)
        if f.name in row:
            try:
                values[f.name] = kind.FIELDS[f.name].read(row[f.name])
            except Unsuited as bad:
                here = (*here, *bad.path)
                reason = bad.reason if bad.subject == "" else f"{shown(here)} {bad.reason}"
                raise Fault(reason, here, bad.culprit) from None
        elif f.default is MISSING:
            raise Fault(f"{name}: {f.name} is missing", path, name)
    try:
        return kind(**values)
    except ModelError as error:
        raise Fault(error.reason, path, error.culprit) from None


def _configurations(data: Any, model: Model) -> Configurations:
    found: Configurations = {}
    if not isinstance(data, Mapping):
        raise Fault(f"configurations must be a table of tables, not {_brief(data)}", ("configurations",))
    for name, row in data.items():
        path: Path = ("configurations", name)
        if not isinstance(row, Mapping):
            raise Fault(f"a configuration must be a table {{variable: number}}, not {_brief(row)}", path)
        for variable in row:
            if variable not in model.variables:
                raise Fault(
                    f"configuration {name!r}: unknown variable {variable!r}{nearest(variable, model.variables)}",
                    (*path, variable),
                    variable,
                )
        found[name] = {v: _number(x, (*path, v)) for v, x in row.items()}
        try:
            model.configuration.point(found[name], f"configuration {name!r}")  # quaternions have length 1
        except ValueError as error:
            raise Fault(str(error), path) from None
    return found


def _blame(error: ModelError, entries: Sequence[Frame], elements: Sequence[Element]) -> Path:
    """Which part of the document a complaint of Model is about: the complaint starts with its label."""
    if error.culprit == "constraints":
        return ("elements", max(i for i, e in enumerate(elements) if e.size))
    if error.reason.startswith("variables:"):
        return ("variables",)
    for i, e in enumerate(elements):
        if error.reason.startswith(e.label):
            return ("elements", i)
    for i, e in enumerate(elements):
        if error.reason.startswith(f"{type(e).__name__}:"):
            return ("elements", i)
    for i in range(len(entries) - 1, -1, -1):  # the later of two frames with the same name is the wrong one
        f = entries[i]
        if error.reason.startswith(f.label) or error.culprit in (f.name, f.variable):
            return ("frames", i)
    return ()


# ---- pieces --------------------------------------------------------------------------------------------------------


def _table(value: Any, path: Path, known: Sequence[str]) -> None:
    if not isinstance(value, Mapping):
        raise Fault(f"{shown(path) or 'a model'} must be a table, not {_brief(value)}", path)
    for key in value:
        if key not in known:
            raise Fault(f"unknown key {_brief(key)}{nearest(key, known)}", (*path, key), str(key))


def _list(value: Any, path: Path) -> Sequence[Any]:
    if not isinstance(value, list):
        raise Fault(f"{shown(path)} must be a list, not {_brief(value)}", path)
    return value


def _name(value: Any, path: Path) -> str:
    if not isinstance(value, str) or not value:
        raise Fault(f"{shown(path)} must be a non-empty string, not {_brief(value)}", path)
    return value


def _number(value: Any, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Fault(f"{shown(path)} must be a number, not {_brief(value)}", path)
    if isinstance(value, Quantity):
        return value
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number - number != 0.0:
        raise Fault(f"{shown(path)} is not finite", path)
    return number


def _numbers(value: Any, path: Path, sizes: Sequence[int] | None) -> tuple[float, ...]:
    numbers = tuple(_number(x, (*path, i)) for i, x in enumerate(_list(value, path)))
    if sizes is not None and len(numbers) not in sizes:
        raise Fault(f"{shown(path)} needs {' or '.join(map(str, sizes))} numbers, got {len(numbers)}", path)
    return numbers


def _matrix(value: Any, path: Path) -> list[tuple[float, ...]]:
    """3 or 4 rows of 4 numbers, or the same 12 or 16 numbers in one list."""
    rows = _list(value, path)
    if len(rows) in (12, 16):
        flat = _numbers(rows, path, None)
        return [flat[i : i + 4] for i in range(0, len(flat), 4)]
    return [_numbers(row, (*path, i), (4,)) for i, row in enumerate(rows)]


def _amount(value: Any, path: Path) -> float | str | Kinematic:
    """A number, the name of a dynamic variable, or {"kinematic": name}."""
    if isinstance(value, str):
        return _name(value, path)
    if isinstance(value, Mapping):
        _table(value, path, ("kinematic",))
        return Kinematic(_name(value.get("kinematic"), (*path, "kinematic")))
    return _number(value, path)


# ---- writing -------------------------------------------------------------------------------------------------------


def to_document(model: Model, configurations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document of a model: the inverse of `from_document`.

    >>> from dalembert import Model, tx
    >>> to_document(Model([tx("x", mass=1.0)]))["frames"]
    [{'tx': 'x', 'mass': 1.0}]
    """
    names = [entry.name for entry in model.frame_entries]
    rows: list[dict[str, Any]] = []
    for entry in model.frame_entries[1:]:
        assert entry.frame is not None
        row = frame_row(entry.frame)
        if entry.parent:
            row["parent"] = names[entry.parent] or entry.parent
        rows.append(row)
    data: dict[str, Any] = {"name": model.name}
    if model.parameters:
        data["parameters"] = {name: _parameter_row(p) for name, p in model.parameters.items()}
    data |= {"frames": _plain(rows), "elements": _plain([element_row(e) for e in model.elements])}
    if model.variables != Model(model.frames, model.elements).variables:
        data["variables"] = list(model.variables)
    if configurations:
        data["configurations"] = {str(k): named_values(model, v) for k, v in configurations.items()}
    return data


def named_values(model: Model, q: Any) -> dict[str, float]:
    """{variable: number} of a configuration given as such a table or as an array (nq,); of models with balls it has every coordinate.

    >>> from dalembert import Model, tx
    >>> named_values(Model([tx("x", mass=1.0)]), [2.0])
    {'x': 2.0}
    """
    if not model.configuration.flat:
        return dict(zip(model.variables, model.configuration.point(q).tolist(), strict=True))
    if not isinstance(q, Mapping):
        values = [float(x) for x in q]
        if len(values) != model.nq:
            raise ValueError(f"a configuration needs {model.nq} numbers, got {len(values)}")
        q = dict(zip(model.variables, values, strict=True))
    for name in q:
        model.index(name)
    table = {name: float(x) for name, x in q.items()}
    for name, x in table.items():
        if x - x != 0.0:
            raise ValueError(f"the value of '{name}' is not finite")
    return table


def frame_row(frame: Frame) -> dict[str, Any]:
    """A frame without its children and parent."""
    row: dict[str, Any] = {frame.transform: _plain(frame.value)}
    if frame.name is not None:
        row["name"] = frame.name
    for key in ("mass", "pitch"):
        if present(getattr(frame, key)):
            row[key] = getattr(frame, key)
    if any(map(present, frame.inertia)):
        row["inertia"] = list(frame.inertia if any(map(present, frame.inertia[3:])) else frame.inertia[:3])
    if any(map(present, frame.com)):
        row["com"] = list(frame.com)
    if frame.visuals:
        row["visuals"] = [
            {f.name: _plain(getattr(v, f.name)) for f in fields(v) if getattr(v, f.name) != f.default}
            for v in frame.visuals
        ]
    return row


def element_row(element: Element) -> dict[str, Any]:
    """An element as a table; fields that have their default value are left out."""
    if not is_known(element):
        raise ModelError(f"{element.label}: this kind of element cannot be written to a file", culprit=element.label)
    row: dict[str, Any] = {"type": type(element).__name__}
    for f in fields(element):
        value = getattr(element, f.name)
        if f.default is MISSING or value != f.default or any(True for _ in parameters_in(value)):
            row[f.name] = element.FIELDS[f.name].write(value)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, Kinematic):
        return {"kinematic": value.name}
    if isinstance(value, Quantity):
        return {"formula": formula(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _parameter_row(p: Parameter) -> Any:
    row: dict[str, Any] = {"value": float(p)}
    if p.bounds != (None, None):
        row["bounds"] = ["none" if b is None else b for b in p.bounds]
    if p.unit:
        row["unit"] = p.unit
    return row if len(row) > 1 else row["value"]
