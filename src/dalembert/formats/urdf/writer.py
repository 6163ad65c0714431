"""A model as URDF text: every link with its joint, empty links between the motions of one link.

In: a Model. Out: lines of text, or a `ModelError` that names what URDF cannot say.
"""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import numpy as np

from ...errors import ModelError
from ...model import Damping, Element, Gravity, LinearRelation, Model
from .. import rigid
from ..limits import NO_LIMIT, written
from ..links import Link, links_of, text
from ..names import Names
from .reader import DEFAULT_GRAVITY

_FLOATING = (".x", ".y", ".z", "")
_RATES = (".vx", ".vy", ".vz", ".wx", ".wy", ".wz")
_PLANAR = (".tx", ".ty", ".rz")


def write(model: Model) -> str:
    """A model as URDF, with the root link "world"; `ModelError` says what cannot be said in URDF.

    That is: kinematic variables, screws, balls that do not float, and all elements but damping, limits without restitution, relations of two
    variables (mimic), and gravity
    (0, 0, -9.81), which `read` assumes. Reading the text gives the same mechanics and names; elementary constant frames
    come back as fixed transforms, and frames that need a link but have no name get one.

    >>> from dalembert import Model, rx, tz
    >>> write(Model([rx("q", tz(-1.0, name="bob", mass=1.0))], name="r")).splitlines()[1]
    '<robot name="r">'
    """
    writer = _Writer(model)
    return "\n".join(writer.lines()) + "\n"


class _Writer:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.links = links_of(model, "URDF")
        self.damping: dict[str, float] = {}
        self.mimic: dict[str, tuple[str, float, float]] = {}
        self.joint_names = Names(model.variables)
        self.link_names = Names(link.name for link in self.links)
        self.limits: dict[str, tuple[float, float]] = {}
        self.written: set[str] = set()
        for e in model.elements:
            self._element(e)

    def _element(self, e: Element) -> None:
        if isinstance(e, Damping):
            for v, c in e.by_velocity(self.model).items():
                self.damping[v] = self.damping.get(v, 0.0) + c
        elif isinstance(e, LinearRelation) and len([k for _, k in e.coefficients if k]) == 2:
            (one, a), (two, b) = ((v, k) for v, k in e.coefficients if k)
            if one in self.mimic:
                raise ModelError(f"{e.label}: a URDF joint can mimic one other joint only", culprit=e.label)
            self.mimic[one] = (two, -b / a, e.offset / a)
        elif written(e, self.model, self.limits):
            pass
        elif not (isinstance(e, Gravity) and e.masses is None and e.acceleration == DEFAULT_GRAVITY):
            reason = "URDF readers assume gravity (0, 0, -9.81)" if isinstance(e, Gravity) else "URDF cannot say this"
            raise ModelError(f"{e.label}: {reason}", culprit=e.label)

    def lines(self) -> list[str]:
        out = ['<?xml version="1.0"?>', f"<robot name={quoteattr(self.model.name)}>", '  <link name="world"/>']
        for link in self.links[1:]:
            out += self._joints(link)
            out += self._link(link)
        left = [v for v in (*self.mimic, *self.limits) if v not in self.written]
        if left:
            raise ModelError(
                f"variable '{left[0]}' of a relation or limit is not a URDF joint of its own", culprit=left[0]
            )
        return [*out, "</robot>"]

    def _joints(self, link: Link) -> list[str]:
        """The joints from the parent link; one of several variables, or elementary ones with empty links between."""
        parent = self.links[link.parent].name
        c = link.constants
        free_name, planar_name = link.starts_as("txtytzbx", _FLOATING), link.starts_as("txtyrz", _PLANAR)
        if free_name and rigid.is_identity(c[-1]) and self._usable(free_name):
            return self._joint(
                free_name, "floating", parent, link.name, c[0], None, self._same_damping(free_name, _RATES)
            )
        if planar_name and self._usable(planar_name) and not c[-1][:3, 3].any():
            axis = c[-1][:3, :3].T[:, 2]
            expected = np.eye(3) if rigid.is_identity(c[-1]) else rigid.z_onto(axis.tolist())
            if np.abs(c[-1][:3, :3].T - expected).max() < 1e-12:
                damping = self._same_damping(planar_name, _PLANAR)
                return self._joint(planar_name, "planar", parent, link.name, c[0] @ c[-1], axis, damping)
        if not link.motions:
            return self._joint(self._fixed_name(link.name), "fixed", parent, link.name, c[0], None, 0.0)
        out: list[str] = []
        origin = c[0]
        for i, motion in enumerate(link.motions):
            last = i + 1 == len(link.motions)
            axis, after, child = np.eye(3)[motion.axis], c[i + 1], link.name
            if last and not after[:3, 3].any():  # a rotation behind the joint only turns the axis of the joint
                axis, origin, after = after[:3, :3].T @ axis, origin @ after, np.eye(4)
            if not last or not rigid.is_identity(after):
                child = self._empty_name(motion.variable)
                out.append(f"  <link name={quoteattr(child)}/>")
            if motion.kind == "b":
                raise ModelError(
                    f"'{motion.variable}': URDF has floating bodies, no ball joints", culprit=motion.variable
                )
            turns = "revolute" if motion.variable in self.limits else "continuous"
            kind = turns if motion.kind == "r" else "prismatic"
            damping = self.damping.get(motion.variable, 0.0)
            out += self._joint(motion.variable, kind, parent, child, origin, axis, damping)
            parent, origin = child, after
        if parent != link.name:
            out += self._joint(self._fixed_name(link.name), "fixed", parent, link.name, origin, None, 0.0)
        return out

    def _usable(self, name: str) -> bool:
        return name not in self.joint_names

    def _same_damping(self, prefix: str, suffixes: tuple[str, ...]) -> float:
        values = {self.damping.get(prefix + s, 0.0) for s in suffixes}
        if len(values) > 1:
            raise ModelError(f"'{prefix}': URDF has one damping for all variables of a joint", culprit=prefix)
        return values.pop()

    def _fixed_name(self, link: str) -> str:
        return self.joint_names.take(f"{link} fixed")

    def _empty_name(self, variable: str) -> str:
        return self.link_names.take(f"{variable} link")

    def _joint(
        self,
        name: str,
        kind: str,
        parent: str,
        child: str,
        origin: rigid.Array,
        axis: rigid.Array | None,
        damping: float,
    ) -> list[str]:
        self.written.add(name)
        out = [f"  <joint name={quoteattr(name)} type={quoteattr(kind)}>", f"    {_place(origin)}"]
        out += [f"    <parent link={quoteattr(parent)}/>", f"    <child link={quoteattr(child)}/>"]
        if axis is not None:
            out.append(f'    <axis xyz="{text(axis)}"/>')
        if kind in ("prismatic", "revolute"):  # URDF demands limits here; numbers as large as these are none to `read`
            low, high = self.limits.get(name, (-NO_LIMIT, NO_LIMIT))
            out.append(f'    <limit lower="{low!r}" upper="{high!r}" effort="1e6" velocity="1e6"/>')
        if damping:
            out.append(f'    <dynamics damping="{damping!r}"/>')
        if name in self.mimic:
            other, factor, offset = self.mimic[name]
            out.append(f'    <mimic joint={quoteattr(other)} multiplier="{factor!r}" offset="{offset!r}"/>')
        return [*out, "  </joint>"]

    def _link(self, link: Link) -> list[str]:
        f = link.frame
        assert f is not None
        out = [f"  <link name={quoteattr(link.name)}>"]
        if f.mass or any(f.inertia):
            keys = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
            inertia = " ".join(f'{k}="{x!r}"' for k, x in zip(keys, f.inertia, strict=True))
            out.append(
                f'    <inertial><origin xyz="{text(f.com)}"/><mass value="{f.mass!r}"/><inertia {inertia}/></inertial>'
            )
        for v in f.visuals:
            if v.kind == "ellipsoid":
                raise ModelError(f"{f.label}: URDF has no ellipsoids", culprit=f.label)
            shape = {
                "box": f'<box size="{text(v.size)}"/>',
                "sphere": f'<sphere radius="{text(v.size)}"/>',
                "mesh": f"<mesh filename={quoteattr(v.mesh or '')}"
                + (f' scale="{text(v.size)}"/>' if v.size else "/>"),
            }.get(v.kind) or f'<{v.kind} radius="{v.size[0]!r}" length="{v.size[1]!r}"/>'
            place = "" if v.pose is None else _place(np.array(v.pose))
            rgba = "" if v.color is None else text((*v.color, 1.0)[:4])
            material = f'<material name=""><color rgba="{rgba}"/></material>' if rgba else ""
            out.append(f"    <visual>{place}<geometry>{shape}</geometry>{material}</visual>")
        return [*out, "  </link>"] if len(out) > 1 else [f"  <link name={quoteattr(link.name)}/>"]


def _place(g: rigid.Array) -> str:
    yaw, pitch, roll = rigid.to_zyx(g[:3, :3])
    return f'<origin xyz="{text(g[:3, 3])}" rpy="{text((roll, pitch, yaw))}"/>'
