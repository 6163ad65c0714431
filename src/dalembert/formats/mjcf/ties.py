"""What ties bodies together: equalities and tendons.

In: `equality` and `tendon`. Out: PointToPoint, LinearRelation, Cam, Distance, LinearSpring, LinearDamper, and named frames
on the bodies where they attach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...arrays import nearest
from ...model import Cam, Distance, LinearDamper, LinearRelation, LinearSpring, PointToPoint, Spline
from .. import rigid
from ..markup import Tag
from ..rigid import Array
from .elements import Elements
from .settings import Settings
from .tree import Tree

Fixed = dict[str, float]  # a fixed tendon: joint -> coefficient
Ends = tuple[tuple[int, Array], tuple[int, Array]]  # body and place (4, 4), twice


@dataclass(frozen=True)
class Straight:
    """A spatial tendon between two frames, and its length in the drawn pose."""

    frame1: str
    frame2: str
    length: float


def read_ties(settings: Settings, tree: Tree, elements: Elements) -> None:
    """Springs and dampers of tendons first, then the equalities."""
    tendons = _read_tendons(settings, tree, elements)
    if "equality" in settings.skip:
        return
    count = 0
    soft = [tag for section in settings.root.all("equality") for tag in section.children]
    soft = [tag for tag in soft if {"solref", "solimp"} & set(settings.filled(tag, None, "equality").attributes)]
    settings.unsaid.each(soft, "softness of an equality (solref, solimp): constraints are hard")
    for plain in (tag for section in settings.root.all("equality") for tag in section.children):
        tag = settings.filled(plain, None, "equality")
        if tag.get("active", "true") == "false":
            continue
        count += 1
        label = tag.get("name") or f"{tag.name}{count}"
        if tag.name == "connect":
            _connect(tree, elements, tag, label)
        elif tag.name == "weld":
            _weld(tree, elements, tag, label)
        elif tag.name == "joint":
            _joint_equality(settings, tree, elements, tag)
        elif tag.name == "tendon":
            _tendon_equality(settings, tree, elements, tag, tendons)
        else:
            settings.leave_out("equality", tag, f"equality <{tag.name}>", label)


# ---- two bodies


def _connect(tree: Tree, elements: Elements, tag: Tag, label: str) -> None:
    (b1, g1), (b2, g2) = _sites(tree, tag) or _anchors(tree, tag)
    if b1 == b2:
        raise tag.wrong(f"'{label}' connects a body with itself", label)
    elements.add(tag, PointToPoint, tree.attach(b1, g1, f"{label}.1"), tree.attach(b2, g2, f"{label}.2"))


def _weld(tree: Tree, elements: Elements, tag: Tag, label: str) -> None:
    """Six rows: a common point, two directions of a point beside it on x, one of a point beside it on y."""
    (b1, g1), (b2, g2) = _sites(tree, tag) or _relative_pose(tree, tag)
    if b1 == b2:
        raise tag.wrong(f"'{label}' welds a body to itself", label)
    axes = ""
    for point, directions in (((0, 0, 0), "xyz"), ((1, 0, 0), "yz"), ((0, 1, 0), "z")):
        shift = rigid.pose(np.eye(3), point)
        one = tree.attach(b1, g1 @ shift, f"{label}.1{directions}")
        two = tree.attach(b2, g2 @ shift, f"{label}.2{directions}")
        axes = axes or two
        elements.add(tag, PointToPoint, one, two, directions, axes)


def _sites(tree: Tree, tag: Tag) -> Ends | None:
    """The ends of a tie given by two sites."""
    if "site1" in tag.attributes or "site2" in tag.attributes:
        return tree.site(tag, tag.need("site1")), tree.site(tag, tag.need("site2"))
    return None


def _anchors(tree: Tree, tag: Tag) -> Ends:
    """The ends of a connect given by two bodies and an anchor on the first."""
    b1, b2 = tree.body(tag, "body1", tag.need("body1")), tree.body(tag, "body2", tag.get("body2"))
    anchor = rigid.pose(np.eye(3), tag.numbers("anchor", 3))
    return (b1, anchor), (b2, rigid.inverse(tree.bodies[b2].world) @ tree.bodies[b1].world @ anchor)


def _relative_pose(tree: Tree, tag: Tag) -> Ends:
    """The ends of a weld given by two bodies and their relative pose (as drawn, if there is none)."""
    b1, b2 = tree.body(tag, "body1", tag.need("body1")), tree.body(tag, "body2", tag.get("body2"))
    between = rigid.inverse(tree.bodies[b1].world) @ tree.bodies[b2].world
    relative = tag.numbers("relpose", 7, (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    if any(relative[3:]):
        between = rigid.pose(rigid.from_quaternion(relative[3:]), relative[:3])
    anchor = rigid.pose(np.eye(3), tag.numbers("anchor", 3, (0.0, 0.0, 0.0)))
    return (b1, between @ anchor), (b2, anchor)


# ---- variables


def _joint_equality(settings: Settings, tree: Tree, elements: Elements, tag: Tag) -> None:
    """joint1 - ref1 = polynomial(joint2 - ref2): a LinearRelation, or a Cam over the range of joint2."""
    first = tree.variable(tag, tag.need("joint1"))
    c = (*tag.numbers("polycoef", None, (0.0, 1.0)), 0.0, 0.0, 0.0, 0.0, 0.0)[:5]
    if "joint2" not in tag.attributes:
        elements.add(tag, LinearRelation, ((first.name, 1.0),), first.ref + c[0])
        tree.ranges.tie(first.name, None, 0.0, first.ref + c[0])
        return
    second = tree.variable(tag, tag.need("joint2"))
    if first is second:
        raise tag.wrong("joint1 and joint2 are the same", first.name)
    if not any(c[2:]):
        offset = first.ref + c[0] - c[1] * second.ref
        elements.add(tag, LinearRelation, ((first.name, 1.0), (second.name, -c[1])), offset)
        tree.ranges.tie(first.name, second.name, c[1], offset)
        return
    low, high = second.tag.numbers("range", 2, (0.0, 0.0))
    if second.kind == "hinge":
        low, high = settings.angle(low), settings.angle(high)
    if not low < high:
        what = "equality with a nonlinear polycoef (it needs the range of joint2, over which it becomes a cam)"
        settings.leave_out("equality", tag, what, second.name)
        return
    p = np.polynomial.Polynomial(c)
    rows = []
    for x in (low, high):  # one quintic piece repeats a quartic exactly
        d = x - second.ref
        rows.append((x, first.ref + float(p(d)), float(p.deriv()(d)), float(p.deriv(2)(d))))
    elements.add(tag, Cam, second.name, first.name, Spline(rows))


# ---- tendons


def _read_tendons(settings: Settings, tree: Tree, elements: Elements) -> dict[str, Straight | Fixed | None]:
    """All tendons by name (None: left out); their springs and dampers become elements."""
    found: dict[str, Straight | Fixed | None] = {}
    if "tendon" in settings.skip:
        return found
    plain_tags = (tag for section in settings.root.all("tendon") for tag in section.children)
    for count, plain in enumerate(plain_tags, 1):
        tag = settings.filled(plain, None, "tendon")
        label = tag.get("name") or f"tendon{count}"
        if label in found:
            raise tag.wrong(f"two tendons are called '{label}'", label)
        if tag.name == "spatial":
            found[label] = _spatial(settings, tree, elements, tag, label)
        elif tag.name == "fixed":
            found[label] = {tree.variable(t, t.need("joint")).name: t.number("coef") for t in tag.all("joint")}
            if any(tag.number(k, 0.0) for k in ("stiffness", "damping")):
                settings.leave_out("tendon", tag, f"tendon '{label}': stiffness or damping of a fixed tendon", label)
        else:
            raise tag.wrong(f"tendon <{tag.name}> is not supported")
        for feature in ("frictionloss", "armature"):
            if tag.number(feature, 0.0):
                settings.leave_out(feature, tag, f"tendon '{label}': {feature} {tag.number(feature):g}", label)
        if settings.range_of(tag) is not None and "range" not in settings.skip:
            settings.unsaid.add(tag, f"tendon '{label}': its range {tag.get('range')}", label)
    return found


def _spatial(settings: Settings, tree: Tree, elements: Elements, tag: Tag, label: str) -> Straight | None:
    sites = [t for t in tag.children if t.name == "site"]
    if len(sites) != 2 or len(tag.children) != 2:
        what = f"tendon '{label}', which does not run straight between two sites"
        settings.leave_out("tendon", tag, what, label)
        return None
    (b1, g1), (b2, g2) = (tree.site(t, t.need("site")) for t in sites)
    if b1 == b2:
        raise tag.wrong(f"tendon '{label}' joins two sites of one body", label)
    between = (tree.bodies[b1].world @ g1)[:3, 3] - (tree.bodies[b2].world @ g2)[:3, 3]
    length = math.sqrt(float(between @ between))
    one = tree.attach(b1, g1, sites[0].need("site"))
    two = tree.attach(b2, g2, sites[1].need("site"))
    stiffness, damping = tag.number("stiffness", 0.0), tag.number("damping", 0.0)
    if stiffness:
        rest = tag.numbers("springlength", None, (-1.0,))
        if len(set(rest)) > 1:
            settings.leave_out(
                "tendon", tag, f"tendon '{label}': the dead band of its spring (two springlengths)", label
            )
        free_length = rest[0] if rest and rest[0] >= 0 else length
        elements.add(tag, LinearSpring, one, two, stiffness, free_length)
    if damping:
        elements.add(tag, LinearDamper, one, two, damping)
    return Straight(one, two, length)


def _tendon_equality(
    settings: Settings, tree: Tree, elements: Elements, tag: Tag, tendons: Mapping[str, Straight | Fixed | None]
) -> None:
    """A tendon of constant length: a Distance, or a LinearRelation of a fixed one."""
    name = tag.need("tendon1")
    if "tendon" in settings.skip:
        return
    if name not in tendons:
        raise tag.wrong(f"<tendon>: unknown tendon '{name}'{nearest(name, tendons)}", name)
    c = tag.numbers("polycoef", None, (0.0,))
    if tag.get("tendon2"):
        settings.leave_out("equality", tag, f"equality of the tendons '{name}' and '{tag.get('tendon2')}'", name)
        return
    change = c[0] if c else 0.0
    tendon = tendons[name]
    if isinstance(tendon, Straight):
        elements.add(tag, Distance, tendon.frame1, tendon.frame2, tendon.length + change)
    elif tendon is not None:
        start = sum(k * tree.joints[j].ref for j, k in tendon.items())
        elements.add(tag, LinearRelation, tuple(tendon.items()), start + change)
