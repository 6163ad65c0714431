"""A URDF text as a Model.

In: bytes of XML. Out: the model; URDF has no named configurations. What is wrong is a `ModelError` at its line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelError
from ...model import (
    ConfigForce,
    Damping,
    Element,
    Frame,
    Gravity,
    Kinematic,
    Limit,
    LinearRelation,
    Model,
    Visual,
    floating,
    planar,
    se3,
)
from ...model.elements import WORLD
from .. import rigid
from ..document import Configurations
from ..limits import NO_LIMIT, Ranges
from ..markup import Tag, parse
from ..unsaid import Unsaid

DEFAULT_GRAVITY = (0.0, 0.0, -9.81)
_IN_JOINT = ("parent", "child", "origin", "axis", "mimic", "dynamics", "limit")
_IN_LINK = ("inertial", "visual", "collision")
_IN_ROBOT = ("link", "joint", "material")
_JOINTS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")


def read(
    raw: bytes,
    file: str | None = None,
    *,
    root: str = "fixed",
    gravity: Sequence[float] | None = DEFAULT_GRAVITY,
    inputs: bool = False,
    massless: str = "error",
    limits: bool = True,
    strict: bool = False,
) -> tuple[Model, Configurations]:
    """Read a URDF text.

    `root`: "fixed" to the world, or "free" (`floating(root)`: root.x ... root.qz). `gravity`: URDF has none of its own;
    None for none. `inputs`: a force input for every joint that does not mimic another. `massless`: what to do with
    joints that move no mass: "error", or "kinematic" (their variable is prescribed). `limits`: ranges of joints become `Limit` elements without
    restitution, which simulations heed; False leaves them out without a word.

    What the model does not represent (friction, collisions, transmissions, ...) is told in one `ModelWarning` with lines of `file`;
    with `strict` it is refused.

    >>> text = b'<robot name="r"><link name="base"/></robot>'
    >>> read(text, gravity=None)[0].frame_names
    ('world', 'base')
    """
    if root not in ("fixed", "free") or massless not in ("error", "kinematic"):
        raise ValueError("root must be 'fixed' or 'free', massless 'error' or 'kinematic'")
    robot = parse(raw, file)
    if robot.name != "robot":
        raise robot.wrong(f"a URDF file starts with <robot>, not <{robot.name}>")
    reader = _Reader(robot, file)
    unsaid = Unsaid(file, strict)
    model = reader.model(root, gravity, inputs, massless, unsaid if limits else None)
    reader.note(unsaid)
    unsaid.tell()
    return model, {}


class _Reader:
    def __init__(self, robot: Tag, file: str | None) -> None:
        self.robot = robot
        self.file = file
        self.links = _by_name(robot, "link")
        self.joints = _by_name(robot, "joint")
        self.colors = {
            m.need("name"): c.numbers("rgba", 4) for m in robot.all("material") if (c := m.one("color")) is not None
        }
        self.below: dict[str, list[Tag]] = {name: [] for name in self.links}  # joints that start at a link
        self.above: dict[str, Tag] = {}  # the joint that ends at a link
        for joint in self.joints.values():
            parent, child = self._end(joint, "parent"), self._end(joint, "child")
            if child in self.above:
                raise joint.wrong(f"link '{child}' has two parents (a closed chain needs a constraint)", child)
            self.above[child] = joint
            self.below[parent].append(joint)

    def _end(self, joint: Tag, which: str) -> str:
        tag = joint.one(which)
        if tag is None:
            raise joint.wrong(f"joint '{joint.get('name')}' has no <{which}>", joint.get("name"))
        link = tag.need("link")
        if link not in self.links:
            raise tag.wrong(f"joint '{joint.get('name')}': unknown link '{link}'", link)
        return link

    def model(
        self, root: str, gravity: Sequence[float] | None, inputs: bool, massless: str, unsaid: Unsaid | None
    ) -> Model:
        """`unsaid`: what to tell about ranges that the model cannot have; None for a model without limits."""
        if not self.links:
            raise self.robot.wrong("the robot has no links")
        order = self._order()
        heavy = self._heavy(order)
        tops: list[Frame] = []
        built: dict[str, list[Frame]] = {name: [] for name in self.links}
        for link in reversed(order):  # bottom up, without recursion
            joint = self.above.get(link)
            options = self._link(link)
            options["children"] = built[link][::-1]
            try:
                if joint is not None:
                    kinematic = massless == "kinematic" and not heavy[link]
                    built[joint.children[_index(joint, "parent")].need("link")].append(
                        self._joint(joint, options, kinematic)
                    )
                elif link == WORLD and root == "fixed":
                    tops += options["children"]
                elif root == "free":
                    children = options.pop("children")
                    tops.append(floating(link, *children, **options))
                else:
                    children = options.pop("children")
                    tops.append(se3(np.eye(4), *children, **options))
            except ModelError as error:
                place = joint or self.links[link]
                if error.line is not None:
                    raise
                raise place.wrong(error.reason, error.culprit) from None
        elements = self._elements(gravity, inputs, massless, heavy)
        if unsaid is not None:
            movable = [name for name, joint in self.joints.items() if massless == "error" or heavy[self._child(joint)]]
            elements += [Limit(name, low, high) for _, name, low, high in self._ranges().found(movable, unsaid)]
        try:
            return Model(tops, elements, self.robot.get("name") or "robot")
        except ModelError as error:
            raise self._blame(error) from None

    def note(self, unsaid: Unsaid) -> None:
        """What the file says and the model does not."""
        for name, joint in self.joints.items():
            for tag in joint.children:
                if tag.name == "dynamics" and tag.number("friction", 0.0):
                    unsaid.add(tag, f"joint '{name}': friction {tag.number('friction'):g}", name)
                elif tag.name not in _IN_JOINT:
                    unsaid.add(tag, f"joint '{name}': <{tag.name}>", name)
        bounds = [tag for joint in self.joints.values() for tag in joint.all("limit")]
        for key in ("effort", "velocity"):
            largest = [tag for tag in bounds if 0.0 < tag.number(key, 0.0) < NO_LIMIT]
            unsaid.each(largest, f"the largest {key} of a joint")
        links = self.links.values()
        unsaid.each([tag for link in links for tag in link.all("collision")], "contacts of a <collision> shape")
        for inside, known in ((links, _IN_LINK), ([self.robot], _IN_ROBOT)):
            others = [tag for parent in inside for tag in parent.children if tag.name not in known]
            for kind in dict.fromkeys(tag.name for tag in others):
                unsaid.each([tag for tag in others if tag.name == kind], f"<{kind}>")

    def _ranges(self) -> Ranges:
        """The ranges of all joints that have one, and which joint follows which."""
        ranges = Ranges()
        for name, joint in self.joints.items():
            if joint.need("type") not in ("revolute", "continuous", "prismatic"):
                continue
            tag, mimic = joint.one("limit"), joint.one("mimic")
            said = tag is not None and ("lower" in tag.attributes or "upper" in tag.attributes)
            if tag is not None and said and joint.need("type") != "continuous":
                ranges.add(tag, name, tag.number("lower", 0.0), tag.number("upper", 0.0))
            if mimic is not None:
                ranges.tie(name, mimic.need("joint"), mimic.number("multiplier", 1.0), mimic.number("offset", 0.0))
        return ranges

    def _order(self) -> list[str]:
        """Links from the root down, parents first."""
        roots = [name for name in self.links if name not in self.above]
        if len(roots) != 1:
            names = ", ".join(map(repr, roots[:5]))
            what = f"several root links: {names}" if roots else "no root link: the joints form a ring"
            tag = self.links[roots[1]] if roots else self.robot
            raise tag.wrong(f"the robot has {what}", roots[1] if roots else None)
        order, stack = [], [roots[0]]
        while stack:
            link = stack.pop()
            order.append(link)
            stack.extend(self._child(j) for j in reversed(self.below[link]))
        if len(order) < len(self.links):
            lost = next(name for name in self.links if name not in set(order))
            raise self.links[lost].wrong(f"link '{lost}' is not connected to the root '{roots[0]}'", lost)
        return order

    def _child(self, joint: Tag) -> str:
        return joint.children[_index(joint, "child")].need("link")

    def _heavy(self, order: list[str]) -> dict[str, bool]:
        """Does anything at or below a link have mass or inertia?"""
        heavy: dict[str, bool] = {}
        for link in reversed(order):
            options = self._link(link)
            own = bool(options.get("mass") or np.any(options.get("inertia", 0.0)))
            heavy[link] = own or any(heavy[self._child(j)] for j in self.below[link])
        return heavy

    def _link(self, name: str) -> dict[str, Any]:
        """Options of the frame of a link: name, mass, centre, inertia, visuals."""
        link = self.links[name]
        options: dict[str, Any] = {"name": name}
        inertial = link.one("inertial")
        if inertial is not None:
            g = _origin(inertial)
            mass, inertia = inertial.one("mass"), inertial.one("inertia")
            m = 0.0 if mass is None else mass.number("value", 0.0)
            if m < 0:
                raise (mass or link).wrong(f"link '{name}': negative mass {m}", name)
            i = np.zeros((3, 3))
            if inertia is not None:
                xx, yy, zz = (inertia.number(k) for k in ("ixx", "iyy", "izz"))
                xy, xz, yz = (inertia.number(k, 0.0) for k in ("ixy", "ixz", "iyz"))
                i = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            turned = g[:3, :3] @ i @ g[:3, :3].T
            options |= {"mass": m, "com": tuple(g[:3, 3]), "inertia": (turned + turned.T) / 2}
        options["visuals"] = [v for tag in link.all("visual") if (v := self._visual(tag)) is not None]
        return options

    def _visual(self, tag: Tag) -> Visual | None:
        geometry = tag.one("geometry")
        if geometry is None or not geometry.children:
            return None
        shape = geometry.children[0]
        mesh = None
        if shape.name == "box":
            size = shape.numbers("size", 3)
        elif shape.name == "sphere":
            size = shape.numbers("radius", 1)
        elif shape.name in ("cylinder", "capsule"):
            size = (shape.number("radius"), shape.number("length"))
        elif shape.name == "mesh":
            size, mesh = shape.numbers("scale", 3, ()), self._path(shape.need("filename"))
        else:
            return None  # shapes that only some extension knows are not drawn
        color = None
        material = tag.one("material")
        if material is not None:
            own = material.one("color")
            color = own.numbers("rgba", 4) if own is not None else self.colors.get(material.get("name") or "")
        g = _origin(tag)
        try:
            return Visual(shape.name, size, None if rigid.is_identity(g) else g, color, mesh)  # type: ignore[arg-type]
        except ModelError as error:
            raise shape.wrong(error.reason, error.culprit) from None

    def _path(self, name: str) -> str:
        """A mesh file: package://name/rest is looked for in the folders above the URDF file, also where only a part of a package was copied there."""
        if self.file is None:
            return name
        folder = Path(os.path.abspath(self.file)).parent
        candidates = []
        if name.startswith("package://"):
            parts = name.removeprefix("package://").split("/")
            rests = ["/".join(parts[i:]) for i in range(min(4, max(1, len(parts) - 1)))]
            candidates = [above / rest for rest in rests for above in (folder, *folder.parents)]
        elif name.startswith("file://"):
            candidates = [Path(name.removeprefix("file://"))]
        elif "://" not in name:
            candidates = [folder / name]
        for path in candidates:
            try:
                if path.is_file():
                    return str(path)
            except (OSError, ValueError):
                pass
        return name

    def _joint(self, joint: Tag, options: dict[str, Any], kinematic: bool) -> Frame:
        name, kind = joint.need("name"), joint.need("type")
        if kind not in _JOINTS:
            raise joint.wrong(f"joint '{name}': type {kind!r} is not one of {', '.join(_JOINTS)}", name)
        g = _origin(joint)
        tag = joint.one("axis")
        axis = (1.0, 0.0, 0.0) if tag is None else tag.numbers("xyz", 3, (1.0, 0.0, 0.0))
        if kind in ("revolute", "continuous", "prismatic", "planar") and not any(axis):
            raise (tag or joint).wrong(f"joint '{name}': the axis is zero", name)
        children = options.pop("children")
        if kind == "fixed":
            return se3(g, *children, **options)
        if kind in ("floating", "planar"):
            if kinematic:
                raise joint.wrong(f"joint '{name}': a {kind} joint that moves no mass", name)
            if kind == "floating":
                frame = floating(name, *children, **options)
            elif axis == (0.0, 0.0, 1.0):
                frame = planar(name, *children, **options)
            else:
                turn = rigid.pose(rigid.z_onto(axis), (0.0, 0.0, 0.0))
                g = g @ turn
                frame = planar(name, se3(rigid.inverse(turn), *children, **options))
            return frame if rigid.is_identity(g) else se3(g, frame)
        value = Kinematic(name) if kinematic else name
        options["children"] = children
        return rigid.moving("t" if kind == "prismatic" else "r", axis, value, g, np.eye(4), options)

    def _elements(
        self, gravity: Sequence[float] | None, inputs: bool, massless: str, heavy: dict[str, bool]
    ) -> list[Element]:
        elements: list[Element] = [] if gravity is None else [Gravity(tuple(gravity))]  # type: ignore[arg-type]
        damping: dict[str, float] = {}
        forces: list[Element] = []
        for name, joint in self.joints.items():
            variables = {"floating": (".vx", ".vy", ".vz", ".wx", ".wy", ".wz"), "planar": (".tx", ".ty", ".rz")}.get(
                joint.need("type"), () if joint.need("type") == "fixed" else ("",)
            )
            moves_mass = massless == "error" or heavy[self._child(joint)]
            dynamics, mimic = joint.one("dynamics"), joint.one("mimic")
            c = 0.0 if dynamics is None else dynamics.number("damping", 0.0)
            if c and moves_mass:
                damping |= {name + v: c for v in variables}
            if mimic is not None and variables == ("",):
                other = mimic.need("joint")
                if other not in self.joints or self.joints[other].need("type") in ("fixed", "floating", "planar"):
                    raise mimic.wrong(f"joint '{name}' mimics '{other}', which is not a joint with one variable", other)
                if other == name:
                    raise mimic.wrong(f"joint '{name}' mimics itself", name)
                factor = mimic.number("multiplier", 1.0)
                offset = mimic.number("offset", 0.0)
                if moves_mass or heavy[self._child(self.joints[other])]:
                    forces.append(LinearRelation(((name, 1.0), (other, -factor)), offset))
            elif inputs and variables == ("",) and moves_mass:
                forces.append(ConfigForce(name, name))
        if damping:
            elements.append(Damping(0.0, tuple(damping.items())))
        return elements + forces

    def _blame(self, error: ModelError) -> ModelError:
        """The complaint of Model, placed at the joint or link that it is about."""
        name = str(error.culprit)
        words = [name, name.removeprefix("frame '").removesuffix("'"), name.rsplit(".", 1)[0]]
        for word in words:
            tag = self.joints.get(word) or self.links.get(word)
            if tag is not None:
                hint = "; massless='kinematic' prescribes such joints" if "moves no mass" in error.reason else ""
                return tag.wrong(error.reason + hint, error.culprit)
        return self.robot.wrong(error.reason, error.culprit)


def _index(tag: Tag, name: str) -> int:
    return next(i for i, c in enumerate(tag.children) if c.name == name)


def _by_name(robot: Tag, kind: str) -> dict[str, Tag]:
    found: dict[str, Tag] = {}
    for tag in robot.all(kind):
        if kind == "joint" and "type" not in tag.attributes and not tag.children:
            continue  # a reference to a joint inside some extension
        name = tag.need("name")
        if name in found:
            raise tag.wrong(f"two {kind}s are called '{name}'", name)
        if kind == "joint":
            tag.need("type")
        found[name] = tag
    return found


def _origin(tag: Tag) -> rigid.Array:
    origin = tag.one("origin")
    if origin is None:
        return np.eye(4)
    rpy = origin.numbers("rpy", 3, (0.0, 0.0, 0.0))
    return rigid.pose(rigid.from_rpy(rpy), origin.numbers("xyz", 3, (0.0, 0.0, 0.0)))
