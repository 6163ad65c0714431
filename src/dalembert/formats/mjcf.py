"""MJCF: the part of MuJoCo's model files that this library can say.

Read: the tree of bodies with hinge, slide, ball and free joints (several per body, any axis and anchor, `ref`); mass
and inertia from `inertial` or from primitive geoms; joint stiffness and damping; equality connect, weld, joint, tendon;
spatial tendons between two sites as springs, dampers or (with an equality) constant distances; fixed tendons with an
equality; motors on hinges and slides as `ConfigForce`; gravity; default classes; keyframes as configurations;
`compiler` angle, eulerseq, inertiafromgeom, boundmass, boundinertia, settotalmass. Ball and free joints have the
variables joint.rz .ry .rx (and .tx .ty .tz).

Different from MuJoCo: constraints are hard (solref, solimp are ignored); the input of a motor is the generalized force
itself, so that MuJoCo's ctrl = input / gear.

Ignored, because it does not enter the smooth equations of motion: contacts and friction coefficients, joint, tendon and
actuator ranges, cameras, lights, sensors, visual and size settings, integrator options, custom and text data.

Refused with the reason: what would change the motion. Name it in `skip` to leave it out: "armature", "frictionloss",
"actuator", "tendon", "equality", "damping", "stiffness", "fluid", "gravcomp", "geom" (masses of meshes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from ..errors import ModelError
from ..model import elements as el
from ..model.elements import WORLD, Element
from ..model.frames import Frame, Visual, se3
from ..model.joints import free, spherical
from ..model.model import Model
from ..model.spline import Spline
from . import rigid
from .document import Configurations, closest, named_values
from .links import Link, links_of, text
from .markup import Tag, parse
from .rigid import Array

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
)
_IGNORED = ("size", "visual", "statistic", "custom", "contact", "sensor", "asset", "compiler", "default", "option")
_USED = ("worldbody", "equality", "tendon", "actuator", "keyframe")
_BODY_IGNORED = ("camera", "light", "site", "geom", "inertial", "joint", "freejoint", "body")
_LETTERS = "xyz"


def read(raw: bytes, file: str | None = None, *, skip: Sequence[str] = ()) -> tuple[Model, Configurations]:
    """Read an MJCF text; `skip` names features (see above) to leave out instead of refusing them.

    >>> text = b'''<mujoco><worldbody><body name="bob"><joint name="q" axis="1 0 0"/>
    ...     <geom type="sphere" size="0.1" pos="0 0 -1" mass="1"/></body></worldbody></mujoco>'''
    >>> read(text)[0].variables
    ('q',)
    """
    unknown = [s for s in ([skip] if isinstance(skip, str) else skip) if s not in FEATURES]
    if unknown:
        raise ValueError(f"skip: {unknown[0]!r} is not one of {', '.join(FEATURES)}")
    root = parse(raw, file)
    if root.name != "mujoco":
        raise root.wrong(f"an MJCF file starts with <mujoco>, not <{root.name}>")
    return _Reader(root, file, (skip,) if isinstance(skip, str) else tuple(skip)).read()


@dataclass
class _Joint:
    tag: Tag
    name: str
    kind: str
    anchor: Array
    axis: tuple[float, ...]
    ref: float


@dataclass
class _Body:
    tag: Tag
    parent: int
    name: str | None
    local: Array  # pose in the parent at the reference configuration
    world: Array
    joints: list[_Joint] = field(default_factory=list)
    geoms: list[Tag] = field(default_factory=list)
    extra: list[Frame] = field(default_factory=list)


class _Reader:
    def __init__(self, root: Tag, file: str | None, skip: tuple[str, ...]) -> None:
        self.root = root
        self.file = file
        self.skip = skip
        self.compiler: dict[str, Tag] = {key: tag for tag in root.all("compiler") for key in tag.attributes}
        self.degrees = self._setting("angle", "degree", ("degree", "radian")) == "degree"
        self._setting("coordinate", "local", ("local",))
        self.from_geom = self._setting("inertiafromgeom", "auto", ("auto", "true", "false"))
        sequence = self._setting("eulerseq", "xyz", None)
        if len(sequence) != 3 or any(c not in "xyzXYZ" for c in sequence):
            raise self.compiler["eulerseq"].wrong(f"eulerseq {sequence!r} must be three letters of xyzXYZ")
        self.eulerseq = sequence
        self.defaults: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        for tag in root.all("default"):
            self._read_defaults(tag, "main", top=True)
        self.meshes = {name: tag for a in root.all("asset") for tag in a.all("mesh") if (name := self._mesh_name(tag))}
        self.materials = {tag.get("name"): tag for a in root.all("asset") for tag in a.all("material")}
        self.bodies: list[_Body] = []
        self.sites: dict[str, tuple[int, Array]] = {}
        self.joints: dict[str, _Joint] = {}
        self.elements: list[Element] = []
        self.places: list[Tag] = []  # the tag behind each element
        self.taken: set[str] = {WORLD}  # names of frames

    # ---- settings and defaults

    def _setting(self, key: str, default: str, allowed: tuple[str, ...] | None) -> str:
        tag = self.compiler.get(key)
        value = default if tag is None else tag.attributes[key]
        if tag is not None and allowed is not None and value not in allowed:
            raise tag.wrong(f"compiler {key}={value!r} is not supported (only {', '.join(allowed)})", key)
        return value

    def _number_setting(self, key: str, default: float) -> float:
        tag = self.compiler.get(key)
        return default if tag is None else tag.number(key)

    def _read_defaults(self, root: Tag, name: str, *, top: bool) -> None:
        stack = [(root, name, "main", top)]
        while stack:
            tag, name, parent, is_top = stack.pop()
            name = tag.get("class") or "main" if is_top else tag.need("class")
            if not is_top and name in self.defaults:
                raise tag.wrong(f"default class '{name}' is given twice", name)
            table = {kind: dict(values) for kind, values in self.defaults[parent].items()} if not is_top else {}
            self.defaults[name] = table if not is_top else self.defaults.get(name, {})
            for child in tag.children:
                if child.name == "default":
                    continue
                kind = "general" if child.name == "motor" else child.name
                self.defaults[name][kind] = {**self.defaults[name].get(kind, {}), **child.attributes}
            if is_top:
                self.defaults["main"] = self.defaults[name]
            stack.extend((child, "", name, False) for child in tag.all("default"))

    def _with_defaults(self, tag: Tag, childclass: str | None, kind: str | None = None) -> Tag:
        """The tag with the attributes of its default class filled in."""
        name = tag.get("class") or childclass or "main"
        if name not in self.defaults:
            raise tag.wrong(f"unknown default class '{name}'{closest(name, list(self.defaults))}", name)
        merged = Tag(
            tag.name,
            {**self.defaults[name].get(kind or tag.name, {}), **tag.attributes},
            tag.file,
            tag.line,
            tag.column,
        )
        merged.children = tag.children
        return merged

    def _refuse(self, feature: str, tag: Tag, reason: str, culprit: str | None = None) -> None:
        """An error, unless the user asked to leave this feature out."""
        if feature not in self.skip:
            raise tag.wrong(f"{reason} (skip='{feature}' leaves it out)", culprit)

    # ---- poses

    def _angle(self, value: float) -> float:
        return math.radians(value) if self.degrees else value

    def _rotation(self, tag: Tag) -> Array:
        given = [k for k in ("quat", "axisangle", "xyaxes", "zaxis", "euler") if k in tag.attributes]
        if len(given) > 1:
            raise tag.wrong(f"<{tag.name}> has several orientations: {', '.join(given)}")
        if not given:
            return np.eye(3)
        key = given[0]
        values = np.array(tag.numbers(key, {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}[key]))
        largest = np.abs(values).max()
        if key == "quat":
            if largest < 1e-10:
                raise tag.wrong(f"<{tag.name}> quat is zero")
            return rigid.from_quaternion(values / largest)
        if key == "axisangle":
            if np.abs(values[:3]).max() < 1e-10:
                raise tag.wrong(f"<{tag.name}> axisangle has a zero axis")
            turn = rigid.z_onto(values[:3].tolist())
            return turn @ rigid.rotation(2, self._angle(values[3])) @ turn.T
        if key == "zaxis":
            if largest < 1e-10:
                raise tag.wrong(f"<{tag.name}> zaxis is zero")
            return _z_to(values)
        if key == "xyaxes":
            x = _unit(values[:3])
            y = None if x is None else _unit(values[3:] - x * float(x @ values[3:]))
            if x is None or y is None:
                raise tag.wrong(f"<{tag.name}> xyaxes are zero or parallel")
            return np.column_stack([x, y, np.cross(x, y)])
        r = np.eye(3)
        for letter, angle in zip(self.eulerseq, values, strict=True):
            step = rigid.rotation(_LETTERS.index(letter.lower()), self._angle(angle))
            r = r @ step if letter.islower() else step @ r  # small letters turn with the body
        return r

    def _pose(self, tag: Tag) -> Array:
        return rigid.pose(self._rotation(tag), tag.numbers("pos", 3, (0.0, 0.0, 0.0)))

    # ---- the whole file

    def read(self) -> tuple[Model, Configurations]:
        for tag in self.root.children:
            if tag.name not in (*_IGNORED, *_USED):
                known = (*_IGNORED, *_USED)
                raise tag.wrong(f"<{tag.name}> is not supported{closest(tag.name, known)}")
        self._read_options()
        self._read_bodies()
        self._read_joint_forces()
        self._read_equalities_and_tendons()
        self._read_actuators()
        frames = self._build()
        name = self.root.get("model") or "mujoco"
        try:
            model = Model(frames, self.elements, name)
        except ModelError as error:
            raise self._blame(error) from None
        return model, self._configurations(model)

    def _read_options(self) -> None:
        gravity: tuple[float, ...] = (0.0, 0.0, -9.81)
        place = self.root
        for tag in self.root.all("option"):
            gravity, place = tag.numbers("gravity", 3, gravity), tag
            if any(tag.number(k, 0.0) for k in ("density", "viscosity")) or any(tag.numbers("wind", 3, (0.0,) * 3)):
                self._refuse("fluid", tag, "a surrounding fluid (density, viscosity, wind) is not supported")
            for flag in tag.all("flag"):
                if flag.get("gravity") == "disable":
                    gravity = (0.0, 0.0, 0.0)
        if any(gravity):
            self._add(el.Gravity(gravity), place)  # type: ignore[arg-type]

    def _add(self, element: Element, place: Tag) -> None:
        self.elements.append(element)
        self.places.append(place)

    # ---- bodies

    def _read_bodies(self) -> None:
        """All bodies in document order, parents first; number 0 is the world."""
        self.bodies.append(_Body(self.root, -1, WORLD, np.eye(4), np.eye(4)))
        stack: list[tuple[Tag, int, str | None]] = []
        worlds = list(self.root.all("worldbody"))
        if not worlds:
            raise self.root.wrong("the model has no <worldbody>")
        for world in worlds:
            self._read_contents(world, 0, None)
        for world in reversed(worlds):
            stack += [(b, 0, None) for b in reversed(list(world.all("body")))]
        while stack:
            tag, parent, childclass = stack.pop()
            childclass = tag.get("childclass") or childclass
            if tag.get("mocap", "false") == "true":
                raise tag.wrong("mocap bodies are not supported", tag.get("name"))
            if tag.number("gravcomp", 0.0):
                self._refuse("gravcomp", tag, "gravity compensation is not supported", tag.get("name"))
            name = tag.get("name") or None
            if name is not None:
                if name in self.taken:
                    raise tag.wrong(f"two bodies are called '{name}'", name)
                self.taken.add(name)
            local = self._pose(tag)
            body = _Body(tag, parent, name, local, self.bodies[parent].world @ local)
            self.bodies.append(body)
            self._read_contents(tag, len(self.bodies) - 1, childclass)
            stack += [(b, len(self.bodies) - 1, childclass) for b in reversed(list(tag.all("body")))]
            # stack is popped from the end: children come right after their parent, in order

    def _read_contents(self, tag: Tag, number: int, childclass: str | None) -> None:
        body = self.bodies[number]
        for child in tag.children:
            if child.name not in _BODY_IGNORED:
                raise child.wrong(f"<{child.name}> in a body is not supported{closest(child.name, _BODY_IGNORED)}")
            if child.name == "geom":
                body.geoms.append(self._with_defaults(child, childclass))
            elif child.name == "site":
                site = self._with_defaults(child, childclass)
                name = site.get("name")
                if name:
                    if name in self.sites:
                        raise child.wrong(f"two sites are called '{name}'", name)
                    self.sites[name] = (number, self._pose_of_site(site))
            elif child.name in ("joint", "freejoint"):
                if number == 0:
                    raise child.wrong("the world has no joints")
                self._read_joint(child, body, childclass)

    def _pose_of_site(self, site: Tag) -> Array:
        if "fromto" in site.attributes:
            ends = np.array(site.numbers("fromto", 6))
            return rigid.pose(_z_to(ends[:3] - ends[3:]), (ends[:3] + ends[3:]) / 2)
        return self._pose(site)

    def _read_joint(self, tag: Tag, body: _Body, childclass: str | None) -> None:
        joint = tag if tag.name == "freejoint" else self._with_defaults(tag, childclass)
        kind = "free" if tag.name == "freejoint" else joint.get("type", "hinge")
        if kind not in ("hinge", "slide", "ball", "free"):
            raise tag.wrong(f"joint type {kind!r} is not one of hinge, slide, ball, free", tag.get("name"))
        name = joint.get("name") or f"{body.name or f'body{len(self.bodies) - 1}'}.{kind}{len(body.joints) or ''}"
        if name in self.joints:
            raise tag.wrong(f"two joints are called '{name}'", name)
        if any(j.kind == "free" for j in body.joints) or (kind == "free" and (body.joints or body.parent)):
            raise tag.wrong("a free joint must be the only joint of a child of the world", name)
        axis = joint.numbers("axis", 3, (0.0, 0.0, 1.0))
        if kind in ("hinge", "slide") and not any(axis):
            raise tag.wrong(f"joint '{name}': the axis is zero", name)
        ref = joint.number("ref", 0.0)
        ref = self._angle(ref) if kind == "hinge" else ref
        for feature in ("armature", "frictionloss"):
            if joint.number(feature, 0.0):
                self._refuse(feature, tag, f"joint '{name}': {feature} is not supported", name)
        new = _Joint(joint, name, kind, np.array(joint.numbers("pos", 3, (0.0,) * 3)), axis, ref)
        self.joints[name] = new
        body.joints.append(new)

    def _read_joint_forces(self) -> None:
        damping: dict[str, float] = {}
        for joint in self.joints.values():
            for feature in ("damping", "stiffness"):
                value = joint.tag.number(feature, 0.0)
                if not value or feature in self.skip:
                    continue
                if joint.kind not in ("hinge", "slide"):
                    self._refuse(
                        feature, joint.tag, f"joint '{joint.name}': {feature} of a {joint.kind} joint", joint.name
                    )
                elif feature == "damping":
                    damping[joint.name] = value
                else:
                    rest = joint.tag.number("springref", 0.0)
                    rest = self._angle(rest) if joint.kind == "hinge" else rest
                    self._add(el.ConfigSpring(joint.name, value, rest), joint.tag)
        if damping:
            self._add(el.Damping(0.0, tuple(damping.items())), self.root)

    # ---- mass and shape

    def _inertia(self, number: int) -> dict[str, Any]:
        body = self.bodies[number]
        inertial = body.tag.one("inertial") if number else None
        if number == 0:
            return {}
        if inertial is not None and self.from_geom != "true":
            g = self._pose(inertial)
            mass = inertial.number("mass")
            if "fullinertia" in inertial.attributes:
                xx, yy, zz, xy, xz, yz = inertial.numbers("fullinertia", 6)
                i = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            else:
                i = np.diag(inertial.numbers("diaginertia", 3, (0.0, 0.0, 0.0)))
            centre, inertia = g[:3, 3], g[:3, :3] @ i @ g[:3, :3].T
        else:
            parts = [] if self.from_geom == "false" else [p for geom in body.geoms if (p := self._geom_inertia(geom))]
            if not parts:
                return {}
            mass, centre, inertia = rigid.add_inertias(parts)
        mass = max(mass, self._number_setting("boundmass", 0.0))
        bound = self._number_setting("boundinertia", 0.0)
        if bound > 0:
            values, vectors = np.linalg.eigh((inertia + inertia.T) / 2)
            inertia = vectors @ np.diag(np.maximum(values, bound)) @ vectors.T
        return {"mass": mass, "com": tuple(centre), "inertia": (inertia + inertia.T) / 2}

    def _geom_shape(self, geom: Tag) -> tuple[str, tuple[float, ...], Array]:
        """Kind, MuJoCo's size (half lengths), pose."""
        kind = geom.get("type", "sphere") or "sphere"
        if "mesh" in geom.attributes:
            kind = "mesh"
        counts = {
            "sphere": 1,
            "capsule": 2,
            "cylinder": 2,
            "ellipsoid": 3,
            "box": 3,
            "mesh": 0,
            "plane": 0,
            "hfield": 0,
        }
        if kind not in counts:
            raise geom.wrong(f"geom type {kind!r} is not supported", geom.get("name"))
        g = self._pose(geom) if "fromto" not in geom.attributes else np.eye(4)
        if kind in ("mesh", "plane", "hfield"):
            return kind, (), g
        size = geom.numbers("size", None, ())
        if "fromto" in geom.attributes:
            if kind == "sphere":
                raise geom.wrong("a sphere has no fromto", geom.get("name"))
            ends = np.array(geom.numbers("fromto", 6))
            between = ends[:3] - ends[3:]
            half = math.sqrt(float(between @ between)) / 2
            if not 1e-10 < half < math.inf or not size:
                raise geom.wrong("fromto needs two different points and a radius in size", geom.get("name"))
            g = rigid.pose(_z_to(between), (ends[:3] + ends[3:]) / 2)
            size = (size[0], half) if counts[kind] == 2 else (size[0], size[0], half)
        if len(size) < counts[kind] or min(size[: counts[kind]]) <= 0:
            raise geom.wrong(f"geom of type {kind} needs {counts[kind]} positive sizes", geom.get("name"))
        return kind, size[: counts[kind]], g

    def _geom_inertia(self, geom: Tag) -> tuple[float, Array, Array] | None:
        kind, s, g = self._geom_shape(geom)
        if geom.get("mass") is not None and geom.number("mass") == 0.0:
            return None
        if kind in ("plane", "hfield"):
            return None
        density = geom.number("density", 1000.0)
        if "mass" not in geom.attributes and density == 0.0:
            return None
        if kind == "mesh":
            reason = "the mass of a mesh is not computed here: give the body an <inertial>"
            self._refuse("geom", geom, reason, geom.get("name"))
            return None
        if geom.get("shellinertia", "false") == "true":
            raise geom.wrong("shellinertia is not supported", geom.get("name"))
        r = s[0]
        if kind == "sphere":
            volume, unit = 4 / 3 * math.pi * r**3, [0.4 * r * r] * 3
        elif kind == "box":
            volume = 8 * s[0] * s[1] * s[2]
            unit = [(s[1] ** 2 + s[2] ** 2) / 3, (s[0] ** 2 + s[2] ** 2) / 3, (s[0] ** 2 + s[1] ** 2) / 3]
        elif kind == "ellipsoid":
            volume = 4 / 3 * math.pi * s[0] * s[1] * s[2]
            unit = [(s[1] ** 2 + s[2] ** 2) / 5, (s[0] ** 2 + s[2] ** 2) / 5, (s[0] ** 2 + s[1] ** 2) / 5]
        elif kind == "cylinder":
            h = 2 * s[1]
            volume = math.pi * r * r * h
            unit = [(3 * r * r + h * h) / 12, (3 * r * r + h * h) / 12, r * r / 2]
        else:  # capsule: a cylinder and two half balls
            h = 2 * s[1]
            volume = math.pi * r * r * (h + 4 / 3 * r)
            ball = 4 * r / (4 * r + 3 * h)
            ball_axis = 0.4 * r * r
            across = (1 - ball) * (3 * r * r + h * h) / 12 + ball * (ball_axis + h * (3 * r + 2 * h) / 8)
            unit = [across, across, (1 - ball) * r * r / 2 + ball * ball_axis]
        mass = geom.number("mass") if "mass" in geom.attributes else density * volume
        if not math.isfinite(mass) or not all(map(math.isfinite, unit)):
            raise geom.wrong("the mass of this geom is not finite", geom.get("name"))
        turn = g[:3, :3]
        return mass, g[:3, 3], turn @ np.diag([mass * u for u in unit]) @ turn.T

    def _visual(self, geom: Tag) -> Visual | None:
        kind, s, g = self._geom_shape(geom)
        if kind in ("plane", "hfield"):
            return None
        mesh = None
        size: tuple[float, ...] = s
        if kind == "box":
            size = tuple(2 * x for x in s)
        elif kind in ("capsule", "cylinder"):
            size = (s[0], 2 * s[1])
        elif kind == "mesh":
            mesh = self._mesh_path(geom)
        rgba: tuple[float, ...] | None = None
        material = self.materials.get(geom.get("material") or "")
        if "rgba" in geom.attributes:
            rgba = geom.numbers("rgba", 4)
        elif material is not None and "rgba" in material.attributes:
            rgba = material.numbers("rgba", 4)
        try:
            return Visual(kind, size, None if rigid.is_identity(g) else g, rgba, mesh)  # type: ignore[arg-type]
        except ModelError as error:
            raise geom.wrong(error.reason, geom.get("name")) from None

    def _mesh_name(self, tag: Tag) -> str | None:
        return tag.get("name") or (PurePath(tag.attributes["file"]).stem if tag.get("file") else None)

    def _mesh_path(self, geom: Tag) -> str:
        name = geom.get("mesh") or ""
        tag = self.meshes.get(name)
        if tag is None:
            raise geom.wrong(f"unknown mesh '{name}'", name)
        folder = self._setting("meshdir", self._setting("assetdir", "", None), None)
        path = PurePath(folder) / (tag.get("file") or name)
        return str(PurePath(self.file).parent / path if self.file else path)

    # ---- equalities and tendons

    def _end(self, tag: Tag, key: str, value: str | None) -> int:
        for i, body in enumerate(self.bodies):
            if body.name == (value or WORLD):
                return i
        names = [b.name for b in self.bodies if b.name]
        raise tag.wrong(f"<{tag.name}> {key}: unknown body '{value}'{closest(value, names)}", value)

    def _site(self, tag: Tag, name: str) -> tuple[int, Array]:
        if name not in self.sites:
            raise tag.wrong(f"<{tag.name}>: unknown site '{name}'{closest(name, list(self.sites))}", name)
        return self.sites[name]

    def _attach(self, number: int, g: Array, name: str) -> str:
        """A named frame fixed to a body; returns its (possibly extended) name."""
        unique = name
        while unique in self.taken:
            unique += "'"
        self.taken.add(unique)
        self.bodies[number].extra.append(se3(g, name=unique))
        return unique

    def _read_equalities_and_tendons(self) -> None:
        tendons = self._read_tendons()
        count = 0
        for section in self.root.all("equality"):
            for plain in section.children:
                tag = self._with_defaults(plain, None, "equality")
                if tag.get("active", "true") == "false" or "equality" in self.skip:
                    continue
                count += 1
                label = tag.get("name") or f"{tag.name}{count}"
                if tag.name == "connect":
                    self._connect(tag, label)
                elif tag.name == "weld":
                    self._weld(tag, label)
                elif tag.name == "joint":
                    self._joint_equality(tag)
                elif tag.name == "tendon":
                    self._tendon_equality(tag, tendons)
                else:
                    self._refuse("equality", tag, f"equality <{tag.name}> is not supported", label)

    def _connect(self, tag: Tag, label: str) -> None:
        if "site1" in tag.attributes or "site2" in tag.attributes:
            (b1, g1), (b2, g2) = (self._site(tag, tag.need(k)) for k in ("site1", "site2"))
        else:
            b1, b2 = self._end(tag, "body1", tag.need("body1")), self._end(tag, "body2", tag.get("body2"))
            g1 = rigid.pose(np.eye(3), tag.numbers("anchor", 3))
            g2 = rigid.inverse(self.bodies[b2].world) @ self.bodies[b1].world @ g1
        if b1 == b2:
            raise tag.wrong(f"'{label}' connects a body with itself", label)
        self._add(el.PointToPoint(self._attach(b1, g1, f"{label}.1"), self._attach(b2, g2, f"{label}.2")), tag)

    def _weld(self, tag: Tag, label: str) -> None:
        """Six rows: a common point, two directions of a point beside it on x, one of a point beside it on y."""
        if "site1" in tag.attributes or "site2" in tag.attributes:
            (b1, g1), (b2, g2) = (self._site(tag, tag.need(k)) for k in ("site1", "site2"))
        else:
            b1, b2 = self._end(tag, "body1", tag.need("body1")), self._end(tag, "body2", tag.get("body2"))
            between = rigid.inverse(self.bodies[b1].world) @ self.bodies[b2].world
            relative = tag.numbers("relpose", 7, (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
            if any(relative[3:]):
                between = rigid.pose(rigid.from_quaternion(relative[3:]), relative[:3])
            g2 = rigid.pose(np.eye(3), tag.numbers("anchor", 3, (0.0, 0.0, 0.0)))
            g1 = between @ g2
        if b1 == b2:
            raise tag.wrong(f"'{label}' welds a body to itself", label)
        axes = ""
        for point, directions in (((0, 0, 0), "xyz"), ((1, 0, 0), "yz"), ((0, 1, 0), "z")):
            shift = rigid.pose(np.eye(3), point)
            one = self._attach(b1, g1 @ shift, f"{label}.1{directions}")
            two = self._attach(b2, g2 @ shift, f"{label}.2{directions}")
            axes = axes or two
            self._add(el.PointToPoint(one, two, directions, axes_of=axes), tag)  # type: ignore[arg-type]

    def _one_variable(self, tag: Tag, name: str) -> _Joint:
        joint = self.joints.get(name)
        if joint is None:
            raise tag.wrong(f"<{tag.name}>: unknown joint '{name}'{closest(name, list(self.joints))}", name)
        if joint.kind not in ("hinge", "slide"):
            raise tag.wrong(f"<{tag.name}>: joint '{name}' is a {joint.kind} joint, not a hinge or slide", name)
        return joint

    def _joint_equality(self, tag: Tag) -> None:
        """joint1 - ref1 = polynomial(joint2 - ref2)."""
        first = self._one_variable(tag, tag.need("joint1"))
        c = (*tag.numbers("polycoef", None, (0.0, 1.0)), 0.0, 0.0, 0.0, 0.0, 0.0)[:5]
        if "joint2" not in tag.attributes:
            self._add(el.LinearRelation(((first.name, 1.0),), first.ref + c[0]), tag)
            return
        second = self._one_variable(tag, tag.need("joint2"))
        if first is second:
            raise tag.wrong("joint1 and joint2 are the same", first.name)
        if not any(c[2:]):
            offset = first.ref + c[0] - c[1] * second.ref
            self._add(el.LinearRelation(((first.name, 1.0), (second.name, -c[1])), offset), tag)
            return
        low, high = second.tag.numbers("range", 2, (0.0, 0.0))
        if second.kind == "hinge":
            low, high = self._angle(low), self._angle(high)
        if not low < high:
            reason = "a nonlinear polycoef needs the range of joint2, over which it becomes a cam"
            self._refuse("equality", tag, reason, second.name)
            return
        rows = []
        for x in (low, high):  # one quintic piece repeats a quartic exactly
            p = np.polynomial.Polynomial(c)
            d = x - second.ref
            rows.append((x, first.ref + float(p(d)), float(p.deriv()(d)), float(p.deriv(2)(d))))
        self._add(el.Cam(second.name, first.name, Spline(rows)), tag)

    def _read_tendons(self) -> dict[str, tuple[Tag, Any]]:
        """name -> (tag, (frame1, frame2, length) of a spatial or {joint: coefficient} of a fixed tendon)."""
        found: dict[str, tuple[Tag, Any]] = {}
        count = 0
        for section in self.root.all("tendon"):
            for plain in section.children:
                if "tendon" in self.skip:
                    continue
                tag = self._with_defaults(plain, None, "tendon")
                count += 1
                label = tag.get("name") or f"tendon{count}"
                if label in found:
                    raise tag.wrong(f"two tendons are called '{label}'", label)
                what: Any
                if tag.name == "spatial":
                    what = self._spatial(tag, label)
                elif tag.name == "fixed":
                    what = {self._one_variable(t, t.need("joint")).name: t.number("coef") for t in tag.all("joint")}
                    if any(tag.number(k, 0.0) for k in ("stiffness", "damping")):
                        self._refuse("tendon", tag, "stiffness or damping of a fixed tendon is not supported", label)
                else:
                    raise tag.wrong(f"tendon <{tag.name}> is not supported")
                for feature in ("frictionloss", "armature"):
                    if tag.number(feature, 0.0):
                        self._refuse(feature, tag, f"tendon '{label}': {feature} is not supported", label)
                found[label] = (tag, what)
        return found

    def _spatial(self, tag: Tag, label: str) -> tuple[str, str, float] | None:
        sites = [t for t in tag.children if t.name == "site"]
        if len(sites) != 2 or len(tag.children) != 2:
            self._refuse("tendon", tag, "a spatial tendon must run straight between two sites", label)
            return None
        (b1, g1), (b2, g2) = (self._site(t, t.need("site")) for t in sites)
        if b1 == b2:
            raise tag.wrong(f"tendon '{label}' joins two sites of one body", label)
        between = (self.bodies[b1].world @ g1)[:3, 3] - (self.bodies[b2].world @ g2)[:3, 3]
        length = math.sqrt(float(between @ between))
        one = self._attach(b1, g1, sites[0].need("site"))
        two = self._attach(b2, g2, sites[1].need("site"))
        stiffness, damping = tag.number("stiffness", 0.0), tag.number("damping", 0.0)
        if stiffness:
            rest = tag.numbers("springlength", None, (-1.0,))
            if len(set(rest)) > 1:
                self._refuse("tendon", tag, "a spring with a dead band (two springlengths) is not supported", label)
            free_length = rest[0] if rest and rest[0] >= 0 else length
            self._add(el.LinearSpring(one, two, stiffness, free_length), tag)
        if damping:
            self._add(el.LinearDamper(one, two, damping), tag)
        return one, two, length

    def _tendon_equality(self, tag: Tag, tendons: Mapping[str, tuple[Tag, Any]]) -> None:
        name = tag.need("tendon1")
        if "tendon" in self.skip:
            return
        if name not in tendons:
            raise tag.wrong(f"<tendon>: unknown tendon '{name}'{closest(name, list(tendons))}", name)
        c = tag.numbers("polycoef", None, (0.0,))
        if tag.get("tendon2"):
            self._refuse("equality", tag, "an equality between two tendons is not supported", name)
            return
        change = c[0] if c else 0.0
        what = tendons[name][1]
        if isinstance(what, dict):
            start = sum(k * self.joints[j].ref for j, k in what.items())
            self._guard(tag, lambda: el.LinearRelation(tuple(what.items()), start + change))
        elif what is not None:
            self._guard(tag, lambda: el.Distance(what[0], what[1], what[2] + change))

    def _guard(self, tag: Tag, make: Any) -> None:
        try:
            self._add(make(), tag)
        except ModelError as error:
            raise tag.wrong(error.reason, error.culprit) from None

    # ---- actuators

    def _read_actuators(self) -> None:
        if "actuator" in self.skip:
            return
        used: set[str] = set()
        for section in self.root.all("actuator"):
            for plain in section.children:
                tag = self._with_defaults(plain, None, "general" if plain.name == "motor" else None)
                name = tag.get("name") or tag.get("joint") or tag.name
                simple = tag.get("gaintype", "fixed") == "fixed" and tag.get("biastype", "none") == "none"
                simple = simple and tag.get("dyntype", "none") == "none"
                if plain.name not in ("motor", "general") or not simple or "joint" not in tag.attributes:
                    reason = f"actuator '{name}' <{plain.name}>: only motors on joints are supported"
                    self._refuse("actuator", tag, reason, name)
                    continue
                joint = self._one_variable(tag, tag.need("joint"))
                if tag.get("name") is not None and name in used:
                    raise tag.wrong(f"two actuators are called '{name}'", name)
                while name in used:
                    name += "'"
                used.add(name)
                self._add(el.ConfigForce(joint.name, name), tag)

    # ---- frames

    def _build(self) -> list[Frame]:
        below: list[list[Frame]] = [[] for _ in self.bodies]
        inertias = [self._inertia(number) for number in range(len(self.bodies))]
        total = self._number_setting("settotalmass", -1.0)
        sum_of_masses = sum(options.get("mass", 0.0) for options in inertias)
        scale = total / sum_of_masses if total > 0 and sum_of_masses > 0 else 1.0
        for number in range(len(self.bodies) - 1, 0, -1):
            body = self.bodies[number]
            options = inertias[number]
            if scale != 1.0 and options:
                options |= {"mass": options["mass"] * scale, "inertia": options["inertia"] * scale}
            options["visuals"] = [v for geom in body.geoms if (v := self._visual(geom)) is not None]
            options["children"] = [*body.extra, *reversed(below[number])]
            if body.name is not None:
                options["name"] = body.name
            try:
                below[body.parent].append(self._body_frame(body, options))
            except ModelError as error:
                raise body.tag.wrong(error.reason, error.culprit) if error.line is None else error from None
        world = self.bodies[0]
        shapes = [v for geom in world.geoms if (v := self._visual(geom)) is not None]
        top = [*world.extra, *reversed(below[0])]
        return [*([se3(np.eye(4), visuals=shapes)] if shapes else []), *top]

    def _body_frame(self, body: _Body, options: dict[str, Any]) -> Frame:
        if not body.joints:
            children = options.pop("children")
            return se3(body.local, *children, **options)
        if body.joints[0].kind == "free":
            children = options.pop("children")
            return free(body.joints[0].name, *children, **options)
        # body.local, then for each joint: to its anchor, motion, back from its anchor (and by its reference value)
        before = [np.eye(4) for _ in body.joints] + [np.eye(4)]
        before[0] = body.local
        for i, joint in enumerate(body.joints):
            before[i] = before[i] @ rigid.pose(np.eye(3), joint.anchor)
            back = rigid.pose(np.eye(3), -joint.anchor + 0.0)
            if joint.kind == "hinge" and joint.ref:
                turn = rigid.z_onto(joint.axis)
                back = rigid.pose(turn @ rigid.rotation(2, -joint.ref) @ turn.T, (0.0, 0.0, 0.0)) @ back
            elif joint.kind == "slide" and joint.ref:
                back = rigid.pose(np.eye(3), -joint.ref * rigid.z_onto(joint.axis)[:, 2]) @ back
            before[i + 1] = back
        last = options
        after = before[-1]
        frame: Frame | None = None
        for i in range(len(body.joints) - 1, -1, -1):
            joint = body.joints[i]
            if joint.kind == "ball":
                children = last.pop("children")
                inner = (se3(after, *children, **last),) if not rigid.is_identity(after) else None
                frame = spherical(joint.name, *inner) if inner else spherical(joint.name, *children, **last)
                frame = frame if rigid.is_identity(before[i]) else se3(before[i], frame)
            else:
                kind = "r" if joint.kind == "hinge" else "t"
                frame = rigid.moving(kind, joint.axis, joint.name, before[i], after, last)
            last, after = {"children": [frame]}, np.eye(4)
        assert frame is not None
        return frame

    # ---- configurations

    def _configurations(self, model: Model) -> Configurations:
        """The reference configuration as "q0" (if it is not zero), and every keyframe."""
        start: list[float] = []
        for body in self.bodies[1:]:
            for joint in body.joints:
                if joint.kind == "free":
                    start += [*body.world[:3, 3], *_quaternion(body.world[:3, :3])]
                else:
                    start += [1.0, 0.0, 0.0, 0.0] if joint.kind == "ball" else [joint.ref]
        found = {"q0": self._named(start)} if any(self._named(start).values()) else {}
        for section in self.root.all("keyframe"):
            for i, key in enumerate(section.all("key")):
                if "qpos" not in key.attributes:
                    continue
                found[key.get("name") or f"key{i}"] = self._named(list(key.numbers("qpos", len(start))), key)
        return found

    def _named(self, qpos: list[float], key: Tag | None = None) -> dict[str, float]:
        """MuJoCo's qpos by variables: quaternions become angles rz, ry, rx."""
        table: dict[str, float] = {}
        i = 0
        for joint in (j for body in self.bodies[1:] for j in body.joints):
            if joint.kind in ("hinge", "slide"):
                table[joint.name] = qpos[i]
                i += 1
                continue
            if joint.kind == "free":
                table |= dict(zip((f"{joint.name}.{k}" for k in ("tx", "ty", "tz")), qpos[i : i + 3], strict=True))
                i += 3
            quat = qpos[i : i + 4]
            i += 4
            if not 1e-10 < max(map(abs, quat)) < 1e10:
                raise (key or joint.tag).wrong(f"joint '{joint.name}': the quaternion is zero or too long", joint.name)
            angles = rigid.to_zyx(rigid.from_quaternion(quat))
            table |= dict(zip((f"{joint.name}.{k}" for k in ("rz", "ry", "rx")), map(float, angles), strict=True))
        return {k: float(v) + 0.0 for k, v in table.items()}

    def _blame(self, error: ModelError) -> ModelError:
        """The complaint of Model, placed at the element, joint or body that it is about."""
        for element, tag in zip(self.elements, self.places, strict=True):
            if error.reason.startswith(element.label) and tag is not self.root:
                return tag.wrong(error.reason, error.culprit)
        if error.culprit == "constraints":
            sized = [t for e, t in zip(self.elements, self.places, strict=True) if e.size]
            return sized[-1].wrong(error.reason, error.culprit)
        name = str(error.culprit)
        for word in (name, name.rsplit(".", 1)[0], name.removeprefix("frame '").removesuffix("'")):
            if word in self.joints:
                return self.joints[word].tag.wrong(error.reason, error.culprit)
            for body in self.bodies[1:]:
                if body.name == word:
                    return body.tag.wrong(error.reason, error.culprit)
        return self.root.wrong(error.reason, error.culprit)


def _unit(v: Array) -> Array | None:
    largest = np.abs(v).max()
    if largest < 1e-10:
        return None
    v = v / largest
    return v / math.sqrt(float(v @ v))


def _z_to(v: Array) -> Array:
    """The smallest rotation that takes z to the direction of v, 3x3."""
    unit = _unit(np.asarray(v, dtype=float))
    if unit is None:
        return np.eye(3)
    x, y, z = unit
    if z < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    k = 1 / (1 + z)
    return np.array([[1 - k * x * x, -k * x * y, x], [-k * x * y, 1 - k * y * y, y], [-x, -y, z]])


def _quaternion(r: Array) -> list[float]:
    """(w, x, y, z) of a rotation, by its largest component."""
    t = [np.trace(r), r[0, 0], r[1, 1], r[2, 2]]
    i = int(np.argmax(t))
    if i == 0:
        q = [1 + t[0], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]
    else:
        a, b, c = i - 1, i % 3, (i + 1) % 3
        q = [r[c, b] - r[b, c], 0.0, 0.0, 0.0]
        q[1 + a] = 1 + 2 * r[a, a] - t[0]
        q[1 + b] = r[a, b] + r[b, a]
        q[1 + c] = r[a, c] + r[c, a]
    norm = math.sqrt(sum(float(x) ** 2 for x in q))
    return [float(x) / norm for x in q]


# ---- writing -------------------------------------------------------------------------------------------------------

_FREE = (".tx", ".ty", ".tz", ".rz", ".ry", ".rx")


def write(model: Model, configurations: Mapping[str, Any] | None = None) -> str:
    """A model as MJCF; `ModelError` says what cannot be said there. Configurations become keyframes.

    Written: the tree (motions between two links become the joints of one body), gravity, damping, springs on variables,
    inputs on variables (motors), springs and dampers between frames (tendons), constant distances (tendons with an
    equality), points pinned in all three directions (connect), linear relations. Reading the text gives the same
    mechanics and variables; an order of variables other than the tree's is not kept. (MuJoCo itself refuses moving
    bodies without inertia, such as point masses.)

    >>> from dalembert import Model, rx, tz
    >>> print(write(Model([rx("q", tz(-1.0, name="bob", mass=1.0))], name="m")).splitlines()[0])
    <mujoco model="m">
    """
    return "\n".join(_Writer(model).lines(configurations or {})) + "\n"


class _Writer:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.links = links_of(model, "MJCF")
        self.number = {link.name: i for i, link in enumerate(self.links)}
        self.world = [np.eye(4)]  # poses of the links where all variables are 0
        for link in self.links[1:]:
            g = self.world[link.parent]
            for c in link.constants:
                g = g @ c
            self.world.append(g)
        self.floating = {i: name for i, link in enumerate(self.links) if (name := self._free(link)) is not None}
        self.in_floating = {name + s for name in self.floating.values() for s in _FREE}
        self.gravity: tuple[float, ...] | None = None
        self.joint: dict[str, dict[str, float]] = {v: {} for v in model.variables}
        self.sites: dict[str, None] = {}
        self.sections: dict[str, list[str]] = {"equality": [], "tendon": [], "actuator": []}
        for e in model.elements:
            self._element(e)

    def _free(self, link: Link) -> str | None:
        name = link.starts_as("txtytzrzryrx", _FREE)
        ends = rigid.is_identity(link.constants[0]) and rigid.is_identity(link.constants[-1])
        return name if link.parent == 0 and ends and name not in self.model.variables else None

    # ---- elements

    def _element(self, e: Element) -> None:
        if isinstance(e, el.Gravity) and e.masses is None and self.gravity is None:
            self.gravity = e.acceleration
        elif isinstance(e, el.Damping):
            for v in self.model.dynamic:
                self._joint_value(e, v, "damping", e.coefficient(v))
        elif isinstance(e, el.ConfigSpring) and not self.joint[e.variable].get("stiffness"):
            self._joint_value(e, e.variable, "stiffness", e.stiffness)
            self._joint_value(e, e.variable, "springref", e.rest)
        elif isinstance(e, el.ConfigForce) and sum(e.input in x.inputs for x in self.model.elements) == 1:
            self._one_variable(e, e.variable)
            self.sections["actuator"].append(f"<motor name={quoteattr(e.input)} joint={quoteattr(e.variable)}/>")
        elif isinstance(e, el.LinearRelation):
            self._relation(e)
        elif isinstance(e, el.PointToPoint) and np.linalg.matrix_rank(np.array(e.directions)) == e.size == 3:
            ends = f"site1={quoteattr(self._site(e.frame1))} site2={quoteattr(self._site(e.frame2))}"
            self.sections["equality"].append(f"<connect {ends}/>")
        elif isinstance(e, el.LinearSpring):
            self._tendon(e, f'stiffness="{e.stiffness!r}" springlength="{e.rest_length!r}"')
            if e.rest_length < 0:
                raise self._cannot(e)
        elif isinstance(e, el.LinearDamper):
            self._tendon(e, f'damping="{e.coefficient!r}"')
        elif isinstance(e, el.Distance) and isinstance(e.length, float):
            name, start = self._tendon(e, "")
            change = e.length - start
            self.sections["equality"].append(f'<tendon tendon1={quoteattr(name)} polycoef="{change!r} 0 0 0 0"/>')
        else:
            raise self._cannot(e)

    def _cannot(self, e: Element) -> ModelError:
        return ModelError(f"{e.label}: MJCF cannot say this (or not a second time)", culprit=e.label)

    def _one_variable(self, e: Element, variable: str) -> None:
        if variable in self.in_floating:
            raise ModelError(f"{e.label}: '{variable}' belongs to a free joint", culprit=variable)

    def _joint_value(self, e: Element, variable: str, key: str, value: float) -> None:
        if value:
            self._one_variable(e, variable)
            self.joint[variable][key] = self.joint[variable].get(key, 0.0) + value

    def _relation(self, e: el.LinearRelation) -> None:
        terms = [(v, k) for v, k in e.coefficients if k]
        for v, _ in terms:
            self._one_variable(e, v)
        (one, a), rest = terms[0], terms[1:]
        if len(rest) <= 1:
            other = f" joint2={quoteattr(rest[0][0])}" if rest else ""
            slope = -rest[0][1] / a if rest else 0.0
            coefficients = f'polycoef="{e.offset / a!r} {slope!r} 0 0 0"'
            self.sections["equality"].append(f"<joint joint1={quoteattr(one)}{other} {coefficients}/>")
            return
        name = f"tendon {len(self.sections['tendon']) + 1}"
        parts = "".join(f'<joint joint={quoteattr(v)} coef="{k!r}"/>' for v, k in terms)
        self.sections["tendon"].append(f"<fixed name={quoteattr(name)}>{parts}</fixed>")
        self.sections["equality"].append(f'<tendon tendon1={quoteattr(name)} polycoef="{e.offset!r} 0 0 0 0"/>')

    def _site(self, frame: str) -> str:
        self.sites.setdefault(frame)
        return frame

    def _tendon(self, e: Any, attributes: str) -> tuple[str, float]:
        """A tendon between two frames; its name, and its length where all variables are at their start."""
        name = f"tendon {len(self.sections['tendon']) + 1}"
        between = self.world[self.number[e.frame1]][:3, 3] - self.world[self.number[e.frame2]][:3, 3]
        sites = "".join(f"<site site={quoteattr(self._site(f))}/>" for f in (e.frame1, e.frame2))
        self.sections["tendon"].append(f"<spatial name={quoteattr(name)} {attributes}>{sites}</spatial>")
        return name, math.sqrt(float(between @ between))

    # ---- text

    def lines(self, configurations: Mapping[str, Any]) -> list[str]:
        out = [
            f"<mujoco model={quoteattr(self.model.name)}>",
            '  <compiler angle="radian" inertiafromgeom="false"/>',
            f'  <option gravity="{text(self.gravity or (0.0, 0.0, 0.0))}"/>',
        ]
        meshes = sorted({v.mesh for link in self.links[1:] for v in link.frame.visuals if v.mesh})  # type: ignore[union-attr]
        if meshes:
            out += [
                "  <asset>",
                *(f"    <mesh name={quoteattr(m)} file={quoteattr(m)}/>" for m in meshes),
                "  </asset>",
            ]
        out += self._bodies()
        for section, rows in self.sections.items():
            if rows:
                out += [f"  <{section}>", *("    " + row for row in rows), f"  </{section}>"]
        if configurations:
            out.append("  <keyframe>")
            for name, q in configurations.items():
                table = named_values(self.model, q)
                out.append(f'    <key name={quoteattr(name)} qpos="{text(self._qpos(table))}"/>')
            out.append("  </keyframe>")
        return [*out, "</mujoco>"]

    def _bodies(self) -> list[str]:
        out = ["  <worldbody>"]
        out += [f"    <site name={quoteattr(s)}/>" for s in self.sites if s == WORLD]
        stack: list[int] = []  # links whose element is open
        for i, link in enumerate(self.links[1:], 1):
            while stack and stack[-1] != link.parent:
                stack.pop()
                out.append("    " + "  " * min(len(stack), 20) + "</body>")
            indent = "    " + "  " * min(len(stack), 20)
            out += [indent + row for row in self._body(i, link)]
            stack.append(i)
        while stack:
            stack.pop()
            out.append("    " + "  " * min(len(stack), 20) + "</body>")
        return [*out, "  </worldbody>"]

    def _body(self, i: int, link: Link) -> list[str]:
        """The body up to its children. Anchors and axes of its joints are given in the axes of the body."""
        f = link.frame
        assert f is not None
        g = link.constants[0]
        for c in link.constants[1:]:
            g = g @ c
        out = [f"<body name={quoteattr(link.name)} {_place(g)}>"]
        if i in self.floating:
            out.append(f"  <freejoint name={quoteattr(self.floating[i])}/>")
        else:
            for k, motion in enumerate(link.motions):
                behind = np.eye(4)  # from the moving frame of this joint to the body
                for c in link.constants[k + 1 :]:
                    behind = behind @ c
                back = rigid.inverse(behind)
                kind = "hinge" if motion.kind == "r" else "slide"
                extra = "".join(f' {key}="{x!r}"' for key, x in self.joint[motion.variable].items())
                where = f'pos="{text(back[:3, 3])}" axis="{text(back[:3, motion.axis])}"'
                out.append(f'  <joint name={quoteattr(motion.variable)} type="{kind}" {where}{extra}/>')
        if f.mass or any(f.inertia):
            full = any(f.inertia[3:])
            inertia = f'fullinertia="{text(f.inertia)}"' if full else f'diaginertia="{text(f.inertia[:3])}"'
            rows = f'mass="{f.mass!r}" {inertia}'
            out.append(f'  <inertial pos="{text(f.com)}" {rows}/>')
        out += [f"  {_shape(v)}" for v in f.visuals]
        if link.name in self.sites:
            out.append(f"  <site name={quoteattr(link.name)}/>")
        return out

    def _qpos(self, table: dict[str, float]) -> list[float]:
        found: list[float] = []
        for i, link in enumerate(self.links):
            values = [table.get(m.variable, 0.0) for m in link.motions]
            if i in self.floating:
                rz, ry, rx = values[3:]
                found += values[:3] + _quaternion(rigid.from_rpy((rx, ry, rz)))
            else:
                found += values
        return found


def _place(g: Array) -> str:
    if rigid.is_identity(g[:3, :3]):
        return f'pos="{text(g[:3, 3])}"'
    return f'pos="{text(g[:3, 3])}" quat="{text(_quaternion(g[:3, :3]))}"'


def _shape(v: Visual) -> str:
    size = {
        "box": lambda: [x / 2 for x in v.size],
        "cylinder": lambda: [v.size[0], v.size[1] / 2],
        "capsule": lambda: [v.size[0], v.size[1] / 2],
    }.get(v.kind, lambda: list(v.size))()
    what = f"mesh={quoteattr(v.mesh)}" if v.mesh else f'size="{text(size)}"'
    place = "" if v.pose is None else " " + _place(np.array(v.pose))
    color = "" if v.color is None else f' rgba="{text((*v.color, 1.0)[:4])}"'
    return f'<geom type="{v.kind}" {what}{place}{color} contype="0" conaffinity="0"/>'
