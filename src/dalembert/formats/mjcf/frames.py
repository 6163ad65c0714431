"""From bodies and joints to frames.

In: the tree, once ties have attached their points to it. Out: the frames of the model, with mass, inertia and pictures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ModelError
from ...model import Frame, ball, floating, se3
from .. import rigid
from ..rigid import Array
from .geoms import Geoms
from .settings import Settings
from .tree import Body, Joint, Tree


def build_frames(settings: Settings, tree: Tree) -> list[Frame]:
    """The frames below the world, one or several for every body."""
    geoms = Geoms(settings)
    inertias = [{}, *(_inertia(settings, geoms, body) for body in tree.bodies[1:])]
    # the whole mass can be prescribed
    total = settings.number("settotalmass", -1.0)
    sum_of_masses = sum(options.get("mass", 0.0) for options in inertias)
    scale = total / sum_of_masses if total > 0 and sum_of_masses > 0 else 1.0
    below: list[list[Frame]] = [[] for _ in tree.bodies]
    for number in range(len(tree.bodies) - 1, 0, -1):  # bottom up, without recursion
        body = tree.bodies[number]
        options = inertias[number]
        if scale != 1.0 and options:
            options |= {"mass": options["mass"] * scale, "inertia": options["inertia"] * scale}
        options["visuals"] = geoms.visuals(body.geoms)
        options["children"] = [*_points(body), *reversed(below[number])]
        if body.name is not None:
            options["name"] = body.name
        try:
            below[body.parent].append(_body(body, options))
        except ModelError as error:
            raise body.tag.wrong(error.reason, error.culprit) if error.line is None else error from None
    world = tree.bodies[0]
    shapes = geoms.visuals(world.geoms)
    return [*([se3(np.eye(4), visuals=shapes)] if shapes else []), *_points(world), *reversed(below[0])]


def _points(body: Body) -> list[Frame]:
    return [se3(place, name=name) for name, place in body.points]


def _inertia(settings: Settings, geoms: Geoms, body: Body) -> dict[str, Any]:
    """Mass, centre and inertia of a body as options of its frame; nothing if it has none."""
    inertial = body.tag.one("inertial")
    if inertial is not None and settings.from_geom != "true":
        pose = settings.pose(inertial)
        mass = inertial.number("mass")
        if "fullinertia" in inertial.attributes:
            xx, yy, zz, xy, xz, yz = inertial.numbers("fullinertia", 6)
            own = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            own = np.diag(inertial.numbers("diaginertia", 3, (0.0, 0.0, 0.0)))
        centre, inertia = pose[:3, 3], pose[:3, :3] @ own @ pose[:3, :3].T
    else:
        parts = [] if settings.from_geom == "false" else [p for geom in body.geoms if (p := geoms.inertia(geom))]
        if not parts:
            return {}
        mass, centre, inertia = rigid.add_inertias(parts)
    mass = max(mass, settings.number("boundmass", 0.0))
    bound = settings.number("boundinertia", 0.0)
    if bound > 0:
        values, vectors = np.linalg.eigh((inertia + inertia.T) / 2)
        inertia = vectors @ np.diag(np.maximum(values, bound)) @ vectors.T
    return {"mass": mass, "com": tuple(centre), "inertia": (inertia + inertia.T) / 2}


def _body(body: Body, options: dict[str, Any]) -> Frame:
    """The frames of a body: its place, then for every joint the way to its anchor, its motion and the way back."""
    if not body.joints:
        return se3(body.local, *options.pop("children"), **options)
    if body.joints[0].kind == "free":
        return floating(body.joints[0].name, *options.pop("children"), **options)
    # before[i]: the constant transform in front of joint i; the last one comes behind all joints
    before = [body.local, *(np.eye(4) for _ in body.joints)]
    for i, joint in enumerate(body.joints):
        before[i] = before[i] @ rigid.pose(np.eye(3), joint.anchor)
        before[i + 1] = _back(joint)
    last, after = options, before[-1]
    frame: Frame | None = None
    for joint, constant in zip(reversed(body.joints), reversed(before[:-1]), strict=True):
        if joint.kind == "ball":
            frame = _ball(joint, constant, after, last)
        else:
            frame = rigid.moving("r" if joint.kind == "hinge" else "t", joint.axis, joint.name, constant, after, last)
        last, after = {"children": [frame]}, np.eye(4)
    assert frame is not None
    return frame


def _back(joint: Joint) -> Array:
    """From the anchor of a joint back to the body, and back by the value that the joint has in the drawn pose."""
    back = rigid.pose(np.eye(3), -joint.anchor + 0.0)
    if joint.kind == "hinge" and joint.ref:
        turn = rigid.z_onto(joint.axis)
        return rigid.pose(turn @ rigid.rotation(2, -joint.ref) @ turn.T, (0.0, 0.0, 0.0)) @ back
    if joint.kind == "slide" and joint.ref:
        return rigid.pose(np.eye(3), -joint.ref * rigid.z_onto(joint.axis)[:, 2]) @ back
    return back


def _ball(joint: Joint, before: Array, after: Array, last: dict[str, Any]) -> Frame:
    children = last.pop("children")
    if rigid.is_identity(after):
        frame = ball(joint.name, *children, **last)
    else:
        frame = ball(joint.name, se3(after, *children, **last))
    return frame if rigid.is_identity(before) else se3(before, frame)
