"""MJCF: the part of MuJoCo's model files that this library can say.

Read: the tree of bodies with hinge, slide, ball and free joints (several per body, any axis and anchor, `ref`); mass
and inertia from `inertial` or from primitive geoms; joint stiffness and damping; equality connect, weld, joint, tendon;
spatial tendons between two sites as springs, dampers or (with an equality) constant distances; fixed tendons with an
equality; ranges of hinges and slides as hard stops (`Limit`; limits=False or skip="range" leave them out);
motors with their gear (on sites as `Wrench`), position and velocity servos on hinges and slides as `ConfigForce` (times gear and gain, so that the
input is MuJoCo's ctrl), with the spring and damper of a servo; gravity; default classes; keyframes as configurations;
`compiler` angle, eulerseq, inertiafromgeom, boundmass, boundinertia, settotalmass. Ball and free joints have the
variables joint.rz .ry .rx (and .tx .ty .tz).

Told in one `ModelWarning` with file and lines, or refused with strict=True: what would change the motion and is not represented. Name it in
`skip` to leave it out without a word: "range" (of balls, tendons, controls), "contact", "armature", "frictionloss", "actuator" (of other
kinds), "tendon", "equality", "damping" and "stiffness" (of balls), "fluid", "gravcomp". Masses of meshes are refused ("geom"). Constraints are
hard: solref, solimp of an equality are told.

Ignored, because it is no mechanics: cameras, lights, sensors, visual and size settings, integrator options, custom and text data.

The files of this package, in the order in which a text walks through them: `settings` (compiler, default classes, poses),
`tree` (bodies, joints, sites), `forces` (gravity, springs and dampers of joints, motors), `ties` (tendons, equalities),
`geoms` (shapes: inertia and pictures), `frames` (the tree as frames), `configurations` (keyframes); and `writer`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arrays import nearest
from ...errors import ModelError
from ...model import Limit, Model
from ..document import Configurations
from ..markup import parse
from .configurations import read_configurations
from .elements import Elements
from .forces import read_actuators, read_joint_forces, read_options
from .frames import build_frames
from .geoms import note_contacts
from .settings import FEATURES, Settings
from .ties import read_ties
from .tree import read_tree
from .writer import write

_IGNORED = ("size", "visual", "statistic", "custom", "contact", "sensor", "asset", "compiler", "default", "option")
_SECTIONS = (*_IGNORED, "worldbody", "equality", "tendon", "actuator", "keyframe")


def read(
    raw: bytes, file: str | None = None, *, skip: Sequence[str] = (), limits: bool = True, strict: bool = False
) -> tuple[Model, Configurations]:
    """Read an MJCF text; `skip` names features (see above) to leave out without a word. `limits`: ranges of joints become `Limit` elements without
    restitution, which simulations heed; False leaves them out without a word. What else the model does not represent is told in one
    `ModelWarning` with lines of `file`; with `strict` it is refused.

    >>> text = b'''<mujoco><worldbody><body name="bob"><joint name="q" axis="1 0 0"/>
    ...     <geom type="sphere" size="0.1" pos="0 0 -1" mass="1"/></body></worldbody></mujoco>'''
    >>> read(text)[0].variables
    ('q',)
    """
    left_out = (skip,) if isinstance(skip, str) else tuple(skip)
    unknown = [s for s in left_out if s not in FEATURES]
    if unknown:
        raise ValueError(f"skip: {unknown[0]!r} is not one of {', '.join(FEATURES)}")
    root = parse(raw, file)
    if root.name != "mujoco":
        raise root.wrong(f"an MJCF file starts with <mujoco>, not <{root.name}>")
    settings = Settings(root, file, left_out, strict)
    for tag in root.children:
        if tag.name not in _SECTIONS:
            raise tag.wrong(f"<{tag.name}> is not supported{nearest(tag.name, _SECTIONS)}")
    elements = Elements()
    read_options(settings, elements)
    tree = read_tree(settings)
    read_joint_forces(settings, tree, elements)
    read_ties(settings, tree, elements)
    read_actuators(settings, tree, elements)
    if limits and "range" not in left_out:
        for tag, *fields in tree.ranges.found(tree.joints, settings.unsaid):
            elements.add(tag, Limit, *fields)
    frames = build_frames(settings, tree)
    try:
        model = Model(frames, elements.found, root.get("model") or "mujoco")
    except ModelError as error:
        raise (elements.blame(error, root) or tree.blame(error) or root.wrong(error.reason, error.culprit)) from None
    found = read_configurations(settings, tree)
    note_contacts(settings, tree)
    settings.unsaid.tell()
    return model, found


__all__ = ["FEATURES", "read", "write"]
