"""What holds for the whole file: compiler settings, default classes, features to skip, and how poses are written.

In: the root element. Out: `Settings`, which fills in defaults, reads orientations, and refuses what is not supported.
"""

from __future__ import annotations

import math
from collections import ChainMap

import numpy as np

from ...arrays import nearest
from .. import rigid
from ..markup import MAX_ATTRIBUTES, Tag
from ..rigid import Array
from ..unsaid import Unsaid

FEATURES = (
    "armature",
    "frictionloss",
    "actuator",
    "tendon",
    "equality",
    "damping",
    "stiffness",
    "fluid",
    "gravcomp",
    "geom",
    "range",
    "contact",
)
_ORIENTATIONS = {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}  # key -> how many numbers
_LETTERS = "xyz"
_WITH_DEFAULTS = (
    "geom",
    "site",
    "joint",
    "equality",
    "tendon",
    "general",
    "position",
    "velocity",
)  # kinds of elements whose defaults are used
MAX_CLASSES = 1000
Class = dict[str, dict[str, str]]  # kind of element -> attribute -> text


class Settings:
    """Compiler settings and default classes of one file."""

    def __init__(self, root: Tag, file: str | None, skip: tuple[str, ...], strict: bool = False) -> None:
        self.root = root
        self.unsaid = Unsaid(file, strict)
        self.file = file
        self.skip = skip
        self._compiler: dict[str, Tag] = {key: tag for tag in root.all("compiler") for key in tag.attributes}
        self._degrees = self.choice("angle", "degree", ("degree", "radian")) == "degree"
        self.choice("coordinate", "local", ("local",))
        self.from_geom = self.choice("inertiafromgeom", "auto", ("auto", "true", "false"))
        sequence = self.word("eulerseq", "xyz")
        if len(sequence) != 3 or any(c not in "xyzXYZ" for c in sequence):
            raise self._compiler["eulerseq"].wrong(f"eulerseq {sequence!r} must be three letters of xyzXYZ")
        self._eulerseq = sequence
        self._classes = _read_classes(root)

    # ---- settings

    def word(self, key: str, default: str) -> str:
        """A compiler setting as text."""
        tag = self._compiler.get(key)
        return default if tag is None else tag.attributes[key]

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        """A compiler setting that must be one of some words."""
        value = self.word(key, default)
        if value not in allowed:
            reason = f"compiler {key}={value!r} is not supported (only {', '.join(allowed)})"
            raise self._compiler[key].wrong(reason, key)
        return value

    def number(self, key: str, default: float) -> float:
        """A compiler setting as a number."""
        tag = self._compiler.get(key)
        return default if tag is None else tag.number(key)

    def leave_out(self, feature: str, tag: Tag, what: str, culprit: str | None = None) -> None:
        """Something that the model will not represent: noted, unless the user asked to leave this feature out."""
        if feature not in self.skip:
            self.unsaid.add(tag, f"{what} (skip='{feature}' leaves it out without a word)", culprit)

    def refuse(self, feature: str, tag: Tag, reason: str, culprit: str | None = None) -> None:
        """An error, unless the user asked to leave this feature out: without it the rest cannot be told."""
        if feature not in self.skip:
            raise tag.wrong(f"{reason} (skip='{feature}' leaves it out)", culprit)

    def filled(self, tag: Tag, childclass: str | None = None, kind: str | None = None) -> Tag:
        """The element with the attributes of its default class filled in (those of `kind`, by default its own)."""
        name = tag.get("class") or childclass or "main"
        if name not in self._classes:
            raise tag.wrong(f"unknown default class '{name}'{nearest(name, self._classes)}", name)
        defaults = self._classes[name].get(kind or tag.name)
        if not defaults:
            return tag
        both = ChainMap(dict(tag.attributes), defaults)  # a thousand geoms share one table of defaults
        merged = Tag(tag.name, both, tag.file, tag.line, tag.column)
        merged.children = tag.children
        return merged

    # ---- ranges

    def range_of(self, tag: Tag, key: str = "range", flag: str = "limited") -> tuple[float, float] | None:
        """The range that an attribute gives, where it holds (`flag` may say so, or not)."""
        said = tag.get(flag, "auto")
        if key not in tag.attributes or said == "false":
            return None
        if said == "auto" and self.word("autolimits", "true") == "false":
            return None
        low, high = tag.numbers(key, 2)
        return low, high

    # ---- poses

    def angle(self, value: float) -> float:
        """An angle of the file in radians."""
        return math.radians(value) if self._degrees else value

    def pose(self, tag: Tag) -> Array:
        """The transform (4, 4) of `pos` and one of the five ways to write an orientation."""
        return rigid.pose(self._rotation(tag), tag.numbers("pos", 3, (0.0, 0.0, 0.0)))

    def _rotation(self, tag: Tag) -> Array:
        given = [k for k in _ORIENTATIONS if k in tag.attributes]
        if len(given) > 1:
            raise tag.wrong(f"<{tag.name}> has several orientations: {', '.join(given)}")
        if not given:
            return np.eye(3)
        key = given[0]
        values = np.array(tag.numbers(key, _ORIENTATIONS[key]))
        largest = np.abs(values).max()
        if key == "quat":
            if largest < 1e-10:
                raise tag.wrong(f"<{tag.name}> quat is zero")
            return rigid.from_quaternion(values / largest)
        if key == "axisangle":
            if np.abs(values[:3]).max() < 1e-10:
                raise tag.wrong(f"<{tag.name}> axisangle has a zero axis")
            turn = rigid.z_onto(values[:3].tolist())
            return turn @ rigid.rotation(2, self.angle(values[3])) @ turn.T
        if key == "zaxis":
            if largest < 1e-10:
                raise tag.wrong(f"<{tag.name}> zaxis is zero")
            return rigid.least_turn(values)
        if key == "xyaxes":
            x = rigid.unit(values[:3])
            y = None if x is None else rigid.unit(values[3:] - x * float(x @ values[3:]))
            if x is None or y is None:
                raise tag.wrong(f"<{tag.name}> xyaxes are zero or parallel")
            return np.column_stack([x, y, np.cross(x, y)])
        r = np.eye(3)
        for letter, angle in zip(self._eulerseq, values, strict=True):
            step = rigid.rotation(_LETTERS.index(letter.lower()), self.angle(angle))
            r = r @ step if letter.islower() else step @ r  # small letters turn with the body
        return r


def _read_classes(root: Tag) -> dict[str, Class]:
    """Default classes by name, each with the attributes of the class around it."""
    classes: dict[str, Class] = {"main": {}}

    def fill(table: Class, tag: Tag) -> None:
        for child in tag.children:
            kind = "general" if child.name == "motor" else child.name
            if kind in _WITH_DEFAULTS:
                table[kind] = {**table.get(kind, {}), **child.attributes}
                if len(table[kind]) > MAX_ATTRIBUTES:
                    raise child.wrong(f"more than {MAX_ATTRIBUTES} default attributes of <{kind}>")

    for top in root.all("default"):
        name = top.get("class") or "main"
        fill(classes.setdefault(name, {}), top)
        classes["main"] = classes[name]
        stack = [(child, name) for child in top.all("default")]
        while stack:
            tag, parent = stack.pop()
            name = tag.need("class")
            if name in classes:
                raise tag.wrong(f"default class '{name}' is given twice", name)
            if len(classes) > MAX_CLASSES:
                raise tag.wrong(f"more than {MAX_CLASSES} default classes")
            classes[name] = dict(classes[parent])  # tables of attributes are replaced above, never changed
            fill(classes[name], tag)
            stack += [(child, name) for child in tag.all("default")]
    return classes
