"""The tree of bodies: joints, sites and geoms where they stand.

In: the `worldbody` sections. Out: `Tree`, all bodies in document order, parents first; body 0 is the world. Nothing here
knows what a frame or an element is; `frames` and `ties` make them of this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...arrays import nearest
from ...errors import ModelError
from ...model.elements import WORLD
from .. import rigid
from ..document import MAX_PARTS
from ..limits import Ranges
from ..markup import Tag
from ..names import Names
from ..rigid import Array
from .settings import Settings

# attributes that are read, or say how limits, friction and pictures are
_OF_JOINT = {
    "name",
    "class",
    "type",
    "group",
    "user",
    "pos",
    "axis",
    "ref",
    "springref",
    "damping",
    "stiffness",
    "range",
}
_OF_JOINT |= {"limited", "armature", "frictionloss", "margin", "align"}
_OF_JOINT |= {"solreflimit", "solimplimit", "solreffriction", "solimpfriction"}
_IN_BODY = ("camera", "light", "site", "geom", "inertial", "joint", "freejoint", "body")


@dataclass
class Joint:
    """One joint of a body; `anchor` (3,) and `axis` in the axes of the body, `ref` its value in the drawn pose."""

    tag: Tag
    name: str
    kind: str  # hinge, slide, ball, free
    anchor: Array
    axis: tuple[float, ...]
    ref: float


@dataclass
class Body:
    """One body: its pose in its parent and in the world (4, 4) as drawn, and what is fixed to it."""

    tag: Tag
    parent: int
    name: str | None
    local: Array
    world: Array
    joints: list[Joint] = field(default_factory=list)
    geoms: list[Tag] = field(default_factory=list)
    points: list[tuple[str, Array]] = field(default_factory=list)  # named frames that ties ask for


class Tree:
    """Bodies by number; joints and sites by name."""

    def __init__(self, root: Tag) -> None:
        self.bodies = [Body(root, -1, WORLD, np.eye(4), np.eye(4))]
        self.joints: dict[str, Joint] = {}
        self.ranges = Ranges()
        self._numbers: dict[str, int] = {WORLD: 0}  # of bodies
        self._sites: dict[str, tuple[int, Array]] = {}
        self._frames = Names([WORLD])

    def add_body(self, body: Body) -> int:
        """Append a body; returns its number."""
        number = len(self.bodies)
        if body.name is not None:
            if body.name in self._numbers:
                raise body.tag.wrong(f"two bodies are called '{body.name}'", body.name)
            self._numbers[body.name] = number
            self._frames.take(body.name)
        self.bodies.append(body)
        return number

    def add_site(self, name: str, number: int, pose: Array, tag: Tag) -> None:
        """A named place (4, 4) on a body."""
        if name in self._sites:
            raise tag.wrong(f"two sites are called '{name}'", name)
        self._sites[name] = (number, pose)

    def body(self, tag: Tag, key: str, name: str | None) -> int:
        """Number of the body that an attribute names (None: the world)."""
        if (name or WORLD) not in self._numbers:
            raise tag.wrong(f"<{tag.name}> {key}: unknown body '{name}'{nearest(name, self._numbers)}", name)
        return self._numbers[name or WORLD]

    def site(self, tag: Tag, name: str) -> tuple[int, Array]:
        """Body and place of a site."""
        if name not in self._sites:
            raise tag.wrong(f"<{tag.name}>: unknown site '{name}'{nearest(name, self._sites)}", name)
        return self._sites[name]

    def variable(self, tag: Tag, name: str) -> Joint:
        """A joint with one variable, by name."""
        joint = self.joints.get(name)
        if joint is None:
            raise tag.wrong(f"<{tag.name}>: unknown joint '{name}'{nearest(name, self.joints)}", name)
        if joint.kind not in ("hinge", "slide"):
            raise tag.wrong(f"<{tag.name}>: joint '{name}' is a {joint.kind} joint, not a hinge or slide", name)
        return joint

    def attach(self, number: int, place: Array, name: str) -> str:
        """A frame fixed to a body; returns its name, with primes behind it where the name is taken."""
        unique = self._frames.take(name)
        if len(self._frames) > MAX_PARTS:
            raise self.bodies[number].tag.wrong(f"more than {MAX_PARTS} frames")
        self.bodies[number].points.append((unique, place))
        return unique

    def blame(self, error: ModelError) -> ModelError | None:
        """The complaint of Model placed at the joint or body that it is about."""
        name = str(error.culprit)
        for word in (name, name.rsplit(".", 1)[0], name.removeprefix("frame '").removesuffix("'")):
            if word in self.joints:
                return self.joints[word].tag.wrong(error.reason, error.culprit)
            if self._numbers.get(word):
                return self.bodies[self._numbers[word]].tag.wrong(error.reason, error.culprit)
        return None


def read_tree(settings: Settings) -> Tree:
    """All bodies of the file."""
    root = settings.root
    tree = Tree(root)
    worlds = list(root.all("worldbody"))
    if not worlds:
        raise root.wrong("the model has no <worldbody>")
    for world in worlds:
        _read_contents(settings, tree, world, 0, None)
    # popped from the end: children come right after their parent, in the order of the document
    stack: list[tuple[Tag, int, str | None]] = []
    stack += [(b, 0, None) for w in worlds for b in w.all("body")][::-1]
    while stack:
        tag, parent, childclass = stack.pop()
        childclass = tag.get("childclass") or childclass
        if tag.get("mocap", "false") == "true":
            raise tag.wrong("mocap bodies are not supported", tag.get("name"))
        if tag.number("gravcomp", 0.0):
            settings.leave_out("gravcomp", tag, "gravity compensation", tag.get("name"))
        local = settings.pose(tag)
        body = Body(tag, parent, tag.get("name") or None, local, tree.bodies[parent].world @ local)
        number = tree.add_body(body)
        _read_contents(settings, tree, tag, number, childclass)
        stack += [(b, number, childclass) for b in tag.all("body")][::-1]
    return tree


def _read_contents(settings: Settings, tree: Tree, tag: Tag, number: int, childclass: str | None) -> None:
    """Geoms, sites and joints of a body."""
    for child in tag.children:
        if child.name not in _IN_BODY:
            raise child.wrong(f"<{child.name}> in a body is not supported{nearest(child.name, _IN_BODY)}")
        if child.name == "geom":
            tree.bodies[number].geoms.append(settings.filled(child, childclass))
        elif child.name == "site":
            site = settings.filled(child, childclass)
            name = site.get("name")
            if name:
                tree.add_site(name, number, _site_pose(settings, site), child)
        elif child.name in ("joint", "freejoint"):
            if number == 0:
                raise child.wrong("the world has no joints")
            _read_joint(settings, tree, child, number, childclass)


def _read_rest(settings: Settings, tree: Tree, tag: Tag, joint: Tag, name: str, kind: str) -> None:
    """What a joint says besides its place, its springs and dampers: its range, and what nobody here knows."""
    limits = settings.range_of(joint)
    if limits is not None and "range" not in settings.skip:
        low, high = (settings.angle(x) for x in limits) if kind in ("hinge", "ball") else limits
        if kind in ("hinge", "slide"):
            tree.ranges.add(tag, name, low, high)
        elif kind == "ball":
            settings.unsaid.add(tag, f"joint '{name}': range up to {high:.6g}", name)
    for key in joint.attributes:
        if key not in _OF_JOINT:
            settings.unsaid.add(tag, f"joint '{name}': {key}={joint.attributes[key]!r:.60}", name)


def _site_pose(settings: Settings, site: Tag) -> Array:
    if "fromto" in site.attributes:
        ends = np.array(site.numbers("fromto", 6))
        return rigid.pose(rigid.least_turn(ends[:3] - ends[3:]), (ends[:3] + ends[3:]) / 2)
    return settings.pose(site)


def _read_joint(settings: Settings, tree: Tree, tag: Tag, number: int, childclass: str | None) -> None:
    body = tree.bodies[number]
    filled = tag if tag.name == "freejoint" else settings.filled(tag, childclass)
    kind = "free" if tag.name == "freejoint" else filled.get("type", "hinge") or ""
    if kind not in ("hinge", "slide", "ball", "free"):
        raise tag.wrong(f"joint type {kind!r} is not one of hinge, slide, ball, free", tag.get("name"))
    name = filled.get("name") or f"{body.name or f'body{number}'}.{kind}{len(body.joints) or ''}"
    if name in tree.joints:
        raise tag.wrong(f"two joints are called '{name}'", name)
    if any(j.kind == "free" for j in body.joints) or (kind == "free" and (body.joints or body.parent)):
        raise tag.wrong("a free joint must be the only joint of a child of the world", name)
    axis = filled.numbers("axis", 3, (0.0, 0.0, 1.0))
    if kind in ("hinge", "slide") and not any(axis):
        raise tag.wrong(f"joint '{name}': the axis is zero", name)
    ref = filled.number("ref", 0.0)
    for feature in ("armature", "frictionloss"):
        if filled.number(feature, 0.0):
            settings.leave_out(feature, tag, f"joint '{name}': {feature} {filled.number(feature):g}", name)
    _read_rest(settings, tree, tag, filled, name, kind)
    anchor = np.array(filled.numbers("pos", 3, (0.0,) * 3))
    joint = Joint(filled, name, kind, anchor, axis, settings.angle(ref) if kind == "hinge" else ref)
    tree.joints[name] = joint
    body.joints.append(joint)
