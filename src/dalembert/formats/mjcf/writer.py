"""A model as MJCF text: links become bodies, their motions the joints of one body.

In: a Model and named configurations. Out: lines of text, or a `ModelError` that names what MJCF cannot say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from xml.sax.saxutils import quoteattr

import numpy as np

from ...arrays import Named
from ...errors import ModelError
from ...model import (
    ConfigForce,
    ConfigSpring,
    Damping,
    Distance,
    Element,
    Gravity,
    Limit,
    LinearDamper,
    LinearRelation,
    LinearSpring,
    Model,
    PointToPoint,
    Visual,
)
from ...model.elements import WORLD
from .. import rigid
from ..document import named_values
from ..limits import written
from ..links import Link, links_of, text
from ..rigid import Array

_FLOATING = (".x", ".y", ".z", "")


def write(model: Model, configurations: Mapping[str, Named] | None = None) -> str:
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
        places = model.configuration.places  # of balls: MJCF has no damping, springs or motors by component
        self.several = {v for place in places for v in model.velocities[place.v]}
        self.several |= {name + s for name in self.floating.values() for s in (".x", ".y", ".z", ".vx", ".vy", ".vz")}
        self.gravity: tuple[float, ...] | None = None
        self.joint: dict[str, dict[str, float]] = {v: {} for v in (*model.variables, *model.velocities)}
        self.limits: dict[str, tuple[float, float]] = {}
        self.sites: dict[str, None] = {}
        self.sections: dict[str, list[str]] = {"equality": [], "tendon": [], "actuator": []}
        for e in model.elements:
            self._element(e)

    def _free(self, link: Link) -> str | None:
        name = link.starts_as("txtytzbx", _FLOATING)
        ends = rigid.is_identity(link.constants[0]) and rigid.is_identity(link.constants[-1])
        return name if link.parent == 0 and ends else None

    # ---- elements

    def _element(self, e: Element) -> None:
        if isinstance(e, Gravity) and e.masses is None and self.gravity is None:
            self.gravity = e.acceleration
        elif isinstance(e, Damping):
            for v, c in e.by_velocity(self.model).items():
                self._joint_value(e, v, "damping", c)
        elif isinstance(e, ConfigSpring) and not self.joint[e.variable].get("stiffness"):
            self._joint_value(e, e.variable, "stiffness", e.stiffness)
            self._joint_value(e, e.variable, "springref", e.rest)
        elif isinstance(e, ConfigForce) and sum(e.input in x.inputs for x in self.model.elements) == 1:
            self._one_variable(e, e.variable)
            gear = "" if e.gear == 1.0 else f' gear="{e.gear!r}"'
            self.sections["actuator"].append(f"<motor name={quoteattr(e.input)} joint={quoteattr(e.variable)}{gear}/>")
        elif isinstance(e, LinearRelation):
            self._relation(e)
        elif isinstance(e, Limit):
            self._one_variable(e, e.variable)
            if not written(e, self.model, self.limits):
                raise self._cannot(e)
        elif isinstance(e, PointToPoint) and np.linalg.matrix_rank(np.array(e.directions)) == e.size == 3:
            ends = f"site1={quoteattr(self._site(e.frame1))} site2={quoteattr(self._site(e.frame2))}"
            self.sections["equality"].append(f"<connect {ends}/>")
        elif isinstance(e, LinearSpring):
            self._tendon(e, f'stiffness="{e.stiffness!r}" springlength="{e.rest_length!r}"')
            if e.rest_length < 0:
                raise self._cannot(e)
        elif isinstance(e, LinearDamper):
            self._tendon(e, f'damping="{e.coefficient!r}"')
        elif isinstance(e, Distance) and isinstance(e.length, float):
            name, start = self._tendon(e, "")
            change = e.length - start
            self.sections["equality"].append(f'<tendon tendon1={quoteattr(name)} polycoef="{change!r} 0 0 0 0"/>')
        else:
            raise self._cannot(e)

    def _cannot(self, e: Element) -> ModelError:
        return ModelError(f"{e.label}: MJCF cannot say this (or not a second time)", culprit=e.label)

    def _one_variable(self, e: Element, variable: str) -> None:
        if variable in self.several:
            raise ModelError(f"{e.label}: '{variable}' belongs to a free or a ball joint", culprit=variable)

    def _joint_value(self, e: Element, variable: str, key: str, value: float) -> None:
        if value:
            self._one_variable(e, variable)
            self.joint[variable][key] = self.joint[variable].get(key, 0.0) + value

    def _relation(self, e: LinearRelation) -> None:
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

    def _tendon(self, e: LinearSpring | LinearDamper | Distance, attributes: str) -> tuple[str, float]:
        """A tendon between two frames; its name, and its length where all variables are at their start."""
        name = f"tendon {len(self.sections['tendon']) + 1}"
        between = self.world[self.number[e.frame1]][:3, 3] - self.world[self.number[e.frame2]][:3, 3]
        sites = "".join(f"<site site={quoteattr(self._site(f))}/>" for f in (e.frame1, e.frame2))
        self.sections["tendon"].append(f"<spatial name={quoteattr(name)} {attributes}>{sites}</spatial>")
        return name, math.sqrt(float(between @ between))

    # ---- text

    def lines(self, configurations: Mapping[str, Named]) -> list[str]:
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
                kind = {"r": "hinge", "t": "slide", "b": "ball"}[motion.kind]
                extra = "".join(f' {key}="{x!r}"' for key, x in self.joint.get(motion.variable, {}).items())
                if motion.variable in self.limits:
                    low, high = self.limits[motion.variable]
                    extra += f' range="{low!r} {high!r}"'
                where = f'pos="{text(back[:3, 3])}"'
                if kind != "ball":
                    where += f' axis="{text(back[:3, motion.axis])}"'
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
        for link in self.links:
            for m in link.motions:
                names = [f"{m.variable}.q{k}" for k in "wxyz"] if m.kind == "b" else [m.variable]
                found += [table.get(name, 0.0) for name in names]
        return found


def _place(g: Array) -> str:
    if rigid.is_identity(g[:3, :3]):
        return f'pos="{text(g[:3, 3])}"'
    return f'pos="{text(g[:3, 3])}" quat="{text(rigid.to_quaternion(g[:3, :3]))}"'


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
