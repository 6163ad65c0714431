"""Forces: gravity, springs and dampers of joints, motors and servos.

In: `option`, the joints of the tree, `actuator`. Out: Gravity, ConfigSpring, Damping, ConfigForce, Wrench.
"""

from __future__ import annotations

from typing import NamedTuple

from ...model import ConfigForce, ConfigSpring, Damping, Gravity, Wrench
from ..markup import Tag
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
            settings.leave_out("fluid", tag, "a surrounding fluid (density, viscosity, wind)")
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
                what = f"joint '{joint.name}': {feature} of a {joint.kind} joint"
                settings.leave_out(feature, joint.tag, what, joint.name)
            elif feature == "damping":
                damping[joint.name] = value
            else:
                rest = joint.tag.number("springref", 0.0)
                rest = settings.angle(rest) if joint.kind == "hinge" else rest
                elements.add(joint.tag, ConfigSpring, joint.name, value, rest)
    if damping:
        elements.add(settings.root, Damping, 0.0, tuple(damping.items()))


class Law(NamedTuple):
    """Force of an actuator: gain * control + constant + by_length * length + by_rate * rate of the length."""

    gain: float
    constant: float = 0.0
    by_length: float = 0.0
    by_rate: float = 0.0


def read_actuators(settings: Settings, tree: Tree, elements: Elements) -> None:
    """Motors and affine servos on hinges and slides: a force per unit of the control, with a spring and a damper where they have them.

    The length of such an actuator is gear times the joint, so that a servo of stiffness kp is a spring of stiffness kp gear^2.
    """
    if "actuator" in settings.skip:
        return
    inputs = Names()
    for plain in (tag for section in settings.root.all("actuator") for tag in section.children):
        tag = settings.filled(plain, None, "general" if plain.name == "motor" else None)
        if plain.name in ("position", "velocity"):
            tag = settings.filled(tag, None, "general")
        name = tag.get("name") or tag.get("joint") or tag.name
        law = _law(tag)
        if law is not None and law == Law(law.gain) and "site" in tag.attributes and "refsite" not in tag.attributes:
            if tag.get("name") is not None and name in inputs:
                raise tag.wrong(f"two actuators are called '{name}'", name)
            _motor_on_site(settings, tree, elements, tag, name, inputs.take(name), law.gain)
            continue
        if law is None or "joint" not in tag.attributes:
            what = f"actuator '{name}' <{plain.name}>: it is no motor on a site, no motor or servo on a joint, without dynamics"
            settings.leave_out("actuator", tag, what, name)
            continue
        joint = tree.variable(tag, tag.need("joint"))
        if tag.get("name") is not None and name in inputs:
            raise tag.wrong(f"two actuators are called '{name}'", name)
        gear = (*tag.numbers("gear", None, ()), 1.0)[0]
        elements.add(tag, ConfigForce, joint.name, inputs.take(name), gear * law.gain)
        if law.by_length:
            elements.add(
                tag, ConfigSpring, joint.name, -law.by_length * gear**2, -law.constant / (law.by_length * gear)
            )
        elif law.constant:
            settings.leave_out("actuator", tag, f"actuator '{name}': its constant force {gear * law.constant:g}", name)
        if law.by_rate:
            elements.add(tag, Damping, 0.0, ((joint.name, -law.by_rate * gear**2),))
        _unlimited(settings, tag, name)


def _unlimited(settings: Settings, tag: Tag, name: str) -> None:
    """Say that ranges of an actuator are left out."""
    for key, flag in (("ctrlrange", "ctrllimited"), ("forcerange", "forcelimited")):
        if settings.range_of(tag, key, flag) is not None and "range" not in settings.skip:
            settings.unsaid.add(tag, f"actuator '{name}': {key} {tag.get(key)} (inputs are not limited)", name)


def _motor_on_site(
    settings: Settings, tree: Tree, elements: Elements, tag: Tag, name: str, control: str, gain: float
) -> None:
    """A rotor, say: its gear has three forces and three torques along the axes of a site, all per unit of one control."""
    given = tag.numbers("gear", None, ())
    gears = [gain * g for g in (*given, *((1.0,) if not given else ()), *[0.0] * 6)[:6]]
    frame = tree.attach(*tree.site(tag, tag.need("site")), tag.need("site"))
    for gear in dict.fromkeys(g for g in gears if g):
        parts = tuple(control if g == gear else 0.0 for g in gears)
        elements.add(tag, Wrench, frame, parts[:3], parts[3:], "body", gear)
    _unlimited(settings, tag, name)


def _law(tag: Tag) -> Law | None:
    """The force of an actuator, or None if it is something else or would need a state."""
    if tag.get("dyntype", "none") != "none" or "timeconst" in tag.attributes or "dampratio" in tag.attributes:
        return None
    gain = (*tag.numbers("gainprm", None, ()), 1.0)[0]
    if tag.name == "motor":
        return Law(gain) if tag.get("gaintype", "fixed") == "fixed" and tag.get("biastype", "none") == "none" else None
    if tag.name == "position":
        kp = tag.number("kp", 1.0)
        return Law(kp, 0.0, -kp, -tag.number("kv", 0.0))
    if tag.name == "velocity":
        kv = tag.number("kv", 1.0)
        return Law(kv, 0.0, 0.0, -kv)
    if tag.name != "general" or tag.get("gaintype", "fixed") != "fixed":
        return None
    bias = tag.get("biastype", "none")
    if bias not in ("none", "affine"):
        return None
    return Law(gain, *(*tag.numbers("biasprm", None, ()), 0.0, 0.0, 0.0)[:3]) if bias == "affine" else Law(gain)
