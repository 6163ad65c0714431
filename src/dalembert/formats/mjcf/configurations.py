"""Configurations: the drawn pose as "q0" (if it is not the neutral one), and every keyframe.

In: the joints of the tree in order, `keyframe`. Out: name -> variable -> value.
"""

from __future__ import annotations

import math

from .. import rigid
from ..document import Configurations
from ..markup import Tag
from .settings import Settings
from .tree import Tree


def read_configurations(settings: Settings, tree: Tree) -> Configurations:
    """All named configurations of the file."""
    start: list[float] = []
    neutral: list[float] = []
    for body in tree.bodies[1:]:
        for joint in body.joints:
            if joint.kind == "free":
                start += [*body.world[:3, 3], *rigid.to_quaternion(body.world[:3, :3])]
                neutral += [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
            else:
                start += [1.0, 0.0, 0.0, 0.0] if joint.kind == "ball" else [joint.ref]
                neutral += [1.0, 0.0, 0.0, 0.0] if joint.kind == "ball" else [0.0]
    found = {} if start == neutral else {"q0": _by_variable(tree, start)}
    for section in settings.root.all("keyframe"):
        for i, key in enumerate(section.all("key")):
            if "qpos" in key.attributes:
                found[key.get("name") or f"key{i}"] = _by_variable(tree, key.numbers("qpos", len(start)), key)
    return found


def _by_variable(tree: Tree, qpos: list[float] | tuple[float, ...], key: Tag | None = None) -> dict[str, float]:
    """MuJoCo's qpos by names of variables."""
    table: dict[str, float] = {}
    i = 0
    for joint in (j for body in tree.bodies[1:] for j in body.joints):
        if joint.kind in ("hinge", "slide"):
            table[joint.name] = qpos[i]
            i += 1
            continue
        if joint.kind == "free":
            table |= dict(zip((f"{joint.name}.{k}" for k in "xyz"), qpos[i : i + 3], strict=True))
            i += 3
        quat = qpos[i : i + 4]
        i += 4
        if not 1e-10 < max(map(abs, quat)) < 1e10:
            raise (key or joint.tag).wrong(f"joint '{joint.name}': the quaternion is zero or too long", joint.name)
        length = math.hypot(*quat)
        table |= {f"{joint.name}.q{k}": x / length for k, x in zip("wxyz", quat, strict=True)}
    return {k: float(v) + 0.0 for k, v in table.items()}
