"""Forces: gravity, springs and dampers of joints, motors.

In: `option`, the joints of the tree, `actuator`. Out: Gravity, ConfigSpring, Damping, ConfigForce.
"""

from __future__ import annotations

from ...model import ConfigForce, ConfigSpring, Damping, Gravity
from ..names import Names
from .elements import Elements
from .settings import Settings
from .tree import Tree


def read_options(settings: Settings, elements: Elements) -> None:
    """Gravity of the last `option`; a surrounding fluid is refused."""
    gravity: tuple[float, ...] = (0.0, 0.0, -9.81)
    place = settings.root
    for tag in settings.root.all("option"):
        gravity, place = tag.numbers("gravity", 3, gravity), tag
        if any(tag.number(k, 0.0) for k in ("density", "viscosity")) or any(tag.numbers("wind", 3, (0.0,) * 3)):
            settings.refuse("fluid", tag, "a surrounding fluid (density, viscosity, wind) is not supported")
        for flag in tag.all("flag"):
            if flag.get("gravity") == "disable":
                gravity = (0.0, 0.0, 0.0)
    if any(gravity):
        elements.add(place, Gravity, gravity)


def read_joint_forces(settings: Settings, tree: Tree, elements: Elements) -> None:
    """Stiffness of every joint as a ConfigSpring, damping of all joints as one Damping."""
    damping: dict[str, float] = {}
    for joint in tree.joints.values():
        for feature in ("damping", "stiffness"):
            value = joint.tag.number(feature, 0.0)
            if not value or feature in settings.skip:
                continue
            if joint.kind not in ("hinge", "slide"):
                reason = f"joint '{joint.name}': {feature} of a {joint.kind} joint"
                settings.refuse(feature, joint.tag, reason, joint.name)
            elif feature == "damping":
                damping[joint.name] = value
            else:
                rest = joint.tag.number("springref", 0.0)
                rest = settings.angle(rest) if joint.kind == "hinge" else rest
                elements.add(joint.tag, ConfigSpring, joint.name, value, rest)
    if damping:
        elements.add(settings.root, Damping, 0.0, tuple(damping.items()))


def read_actuators(settings: Settings, tree: Tree, elements: Elements) -> None:
    """Motors on hinges and slides; everything else that pulls is refused."""
    if "actuator" in settings.skip:
        return
    inputs = Names()
    for plain in (tag for section in settings.root.all("actuator") for tag in section.children):
        tag = settings.filled(plain, None, "general" if plain.name == "motor" else None)
        name = tag.get("name") or tag.get("joint") or tag.name
        simple = tag.get("gaintype", "fixed") == "fixed" and tag.get("biastype", "none") == "none"
        simple = simple and tag.get("dyntype", "none") == "none"
        if plain.name not in ("motor", "general") or not simple or "joint" not in tag.attributes:
            reason = f"actuator '{name}' <{plain.name}>: only motors on joints are supported"
            settings.refuse("actuator", tag, reason, name)
            continue
        joint = tree.variable(tag, tag.need("joint"))
        if tag.get("name") is not None and name in inputs:
            raise tag.wrong(f"two actuators are called '{name}'", name)
        elements.add(tag, ConfigForce, joint.name, inputs.take(name))
