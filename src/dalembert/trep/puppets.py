"""trep.puppets: a marionette of 22 joint variables, hung on strings (Trajectory optimization in discrete mechanics, 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .config import Config
from .constraints import Distance
from .forces import ConfigForce, Damping, HybridWrench
from .frame import Frame, FrameDef, const_txyz, rx, ry, rz, tx, ty, tz
from .potentials import Gravity
from .system import System
from .visual import VisualItem3D

# lengths in metres, masses as (m, Ixx, Iyy, Izz); left and right differ slightly, as measured on a person
DIMENSIONS: dict[str, Any] = {
    "lhip_width": 0.10000000633343277,
    "rhip_width": 0.10000000072551045,
    "lfemur_length": 0.4000000143639284,
    "rfemur_length": 0.4000000149386187,
    "ltibia_length": 0.4000000081268073,
    "rtibia_length": 0.4000000104867095,
    "lfoot_length": 0.20298699715253277,
    "rfoot_length": 0.20000000361419676,
    "upper_torso_length": 0.49134332092915983,
    "neck_length": 0.04500002226970809,
    "lower_head_length": 0.04499999114416735,
    "upper_head_length": 0.09000001186557935,
    "final_head_length": 0.07999998195721199,
    "lshoulder_width": 0.15811387592769632,
    "rshoulder_width": 0.15811388178161004,
    "lhumerus_length": 0.2499999961002339,
    "rhumerus_length": 0.2500000129383001,
    "lradius_length": 0.2576590090580679,
    "rradius_length": 0.2576590057781951,
    "lhand_length": 0.09000000649107408,
    "rhand_length": 0.08999999875981997,
    "pelvis_mass": (10.0, 1.0, 1.0, 1.0),
    "head_mass": (0.75, 0.08, 0.08, 0.08),
    "femur_mass": (1.5, 0.3, 0.3, 0.1),
    "tibia_mass": (1.5, 0.3, 0.3, 0.1),
    "humerus_mass": (0.5, 0.05, 0.05, 0.01),
    "radius_mass": (0.5, 0.05, 0.05, 0.01),
    "damping": 0.2,
    "string_plane_height": 2.0,
    # string: (frame that it pulls, place of its hook there); the order numbers the strings' variables
    "strings": {
        "right_leg_string": ("rfemur_end", (0.0, 0.1, 0.0)),
        "left_arm_string": ("lradius_end", (0.0, 0.1, 0.0)),
        "upper_torso_string": ("spine_top", (-0.1, 0.0, 0.0)),
        "right_arm_string": ("rradius_end", (0.0, 0.1, 0.0)),
        "lower_torso_string": ("spine_top", (0.1, 0.0, 0.0)),
        "left_leg_string": ("lfemur_end", (0.0, 0.1, 0.0)),
    },
}
_FREE = (
    *(f"torso_{a}" for a in ("tx", "ty", "tz", "rz", "ry", "rx")),
    *(f"{side}{joint}_{a}" for side in "lr" for joint in ("hip", "shoulder") for a in ("rz", "ry", "rx")),
    *(f"{side}{joint}_rx" for side in "lr" for joint in ("knee", "elbow")),
)
_FIXED = (
    *(f"{side}{part}_{a}" for side in "lr" for part in ("foot", "hand") for a in ("rz", "ry", "rx")),
    *(f"neck_{a}" for a in ("rz", "ry", "rx")),
)
JOINTS: dict[str, Any] = {name: name for name in _FREE} | dict.fromkeys(_FIXED, 0.0)


def _filled(given: Mapping[str, Any] | None, defaults: Mapping[str, Any], what: str) -> dict[str, Any]:
    unknown = [key for key in (given or {}) if key not in defaults]
    if unknown:
        raise KeyError(f"unknown {what} {unknown[0]!r}; known are {', '.join(sorted(defaults))}")
    return {**defaults, **(given or {})}


def fill_dimensions(dimensions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All dimensions of a puppet: the given ones, and defaults for the others.

    >>> fill_dimensions({"damping": 0.5})["damping"]
    0.5
    """
    return _filled(dimensions, DIMENSIONS, "dimension")


def fill_joints(joints: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All joints of a puppet: a name makes a joint variable, a number holds the joint there.

    >>> fill_joints({"neck_rx": "nod"})["neck_rx"], fill_joints()["neck_rx"]
    ('nod', 0.0)
    """
    return _filled(joints, JOINTS, "joint")


def _ball(joints: Mapping[str, Any], joint: str, name: str, below: list[Any]) -> list[Any]:
    """Three rotations z, y, x."""
    last = rx(joints[f"{joint}_rx"], name=name)
    return [rz(joints[f"{joint}_rz"]), [ry(joints[f"{joint}_ry"]), [last, below]]]


def _limb(d: Mapping[str, Any], joints: Mapping[str, Any], side: str, upper: bool) -> list[Any]:
    """An arm or a leg below its hip or shoulder: ball joint, bone, hinge, bone, foot or hand."""
    root, hinge, end = ("shoulder", "elbow", "hand") if upper else ("hip", "knee", "foot")
    bones = ("humerus", "radius") if upper else ("femur", "tibia")
    first, second = (f"{side}{bone}" for bone in bones)
    a, b = d[f"{first}_length"], d[f"{second}_length"]
    tip: FrameDef = tz(-d[f"{side}hand_length"], name=f"{side}hand_end")
    if not upper:
        tip = ty(d[f"{side}foot_length"], name=f"{side}foot_end")
    last = _ball(joints, f"{side}{end}", f"{side}{end}", [tip])
    lower = [tz(-b / 2, name=f"{second}_mass", mass=d[f"{bones[1]}_mass"]), tz(-b, name=f"{second}_end"), last]
    bone = [
        tz(-a / 2, name=f"{first}_mass", mass=d[f"{bones[0]}_mass"]),
        tz(-a, name=f"{first}_end"),
        [rx(joints[f"{side}{hinge}_rx"], name=second), lower],
    ]
    return _ball(joints, f"{side}{root}", first, bone)


def make_skeleton(dimensions: Mapping[str, Any] | None = None, joints: Mapping[str, Any] | None = None) -> list[Any]:
    """Frame definitions of a puppet, for `import_frames`.

    >>> system = System()
    >>> system.import_frames(make_skeleton())
    >>> system.nQ, len(system.masses)
    (22, 10)
    """
    d, j = fill_dimensions(dimensions), fill_joints(joints)
    head = [
        tz(d["lower_head_length"], name="head"),
        [
            tz(d["upper_head_length"], name="head_center", mass=d["head_mass"]),
            [tz(d["final_head_length"], name="head_end")],
        ],
    ]
    top = [
        tz(d["neck_length"], name="neck"),
        _ball(j, "neck", "neck_joint", head),
        tx(-d["lshoulder_width"], name="lshoulder"),
        _limb(d, j, "l", True),
        tx(d["rshoulder_width"], name="rshoulder"),
        _limb(d, j, "r", True),
    ]
    body = [
        tx(-d["lhip_width"], name="lhip"),
        _limb(d, j, "l", False),
        tx(d["rhip_width"], name="rhip"),
        _limb(d, j, "r", False),
        tz(d["upper_torso_length"], name="spine_top"),
        top,
    ]
    turn = [rz(j["torso_rz"]), [ry(j["torso_ry"]), [rx(j["torso_rx"], name="pelvis", mass=d["pelvis_mass"]), body]]]
    return [tx(j["torso_tx"]), [ty(j["torso_ty"]), [tz(j["torso_tz"]), turn]]]


class Puppet(System):
    """The marionette with gravity and damping; on strings whose ends and lengths are kinematic (`string_constraints`),
    or pulled by forces at the hooks (`string_forces`), and with a force on every joint (`joint_forces`).

    >>> puppet = Puppet(string_constraints=True)
    >>> puppet.nQd, puppet.nQk, puppet.nc
    (22, 18, 6)
    """

    def __init__(
        self,
        dimensions: Mapping[str, Any] | None = None,
        joints: Mapping[str, Any] | None = None,
        joint_forces: bool = False,
        string_forces: bool = False,
        string_constraints: bool = False,
    ) -> None:
        super().__init__()
        self.dimensions, self.joints = fill_dimensions(dimensions), fill_joints(joints)
        self.string_constraints: dict[str, Distance] = {}
        self.string_forces: dict[str, HybridWrench] = {}
        self.joint_forces: dict[str, ConfigForce] = {}
        with self._all_or_nothing():
            self.import_frames(make_skeleton(dimensions, joints))
            Gravity(self, (0.0, 0.0, -9.8), name="Gravity")
            Damping(self, self.dimensions["damping"], name="Damping")
            self.make_string_frames()
            if joint_forces:
                self.make_joint_forces()
            if string_forces:
                self.make_string_forces()
            if string_constraints:
                self.make_string_constraints()

    def _strings(self, strings: Iterable[str] | None) -> list[str]:
        known = list(self.string_constraints)
        chosen = known if strings is None else list(strings)
        for name in chosen:
            if name not in known:
                raise KeyError(f"no string constraint is called {name!r}; there are {', '.join(known) or 'none'}")
        return chosen

    def make_string_frames(self) -> None:
        """A frame `<string>_hook` for every string."""
        for name, (frame, offset) in self.dimensions["strings"].items():
            self.get_frame(frame).import_frames([const_txyz(offset, name=f"{name}_hook")])

    def make_joint_forces(self) -> None:
        """A force on every joint variable, with an input of the variable's name."""
        for q in self.dyn_configs:
            self.joint_forces[str(q.name)] = ConfigForce(self, q, str(q.name), name=f"{q.name}-force")

    def make_string_forces(self) -> None:
        """A force at every hook in world axes, with inputs <string>-x, -y, -z."""
        for name in self.dimensions["strings"]:
            inputs = tuple(f"{name}-{a}" for a in "xyz")
            self.string_forces[name] = HybridWrench(self, f"{name}_hook", inputs, name=name)

    def make_string_constraints(self) -> None:
        """Strings from the hooks to points of a plane above; x, y of the points and the lengths are kinematic."""
        self.import_frames([tz(self.dimensions["string_plane_height"], name="string_plane")])
        plane = self.get_frame("string_plane")
        for name in self.dimensions["strings"]:
            along = Frame(plane, "TX", f"{name}-x", kinematic=True)
            Frame(along, "TY", f"{name}-y", name=f"{name}_control", kinematic=True)
            length = Config(self, f"{name}-length", kinematic=True)
            found = Distance(self, f"{name}_hook", f"{name}_control", length, name=name)
            self.string_constraints[name] = found

    def project_string_controls(self, strings: Iterable[str] | None = None) -> None:
        """Put the upper ends of strings straight above their hooks, with lengths that fit."""
        for name in self._strings(strings):
            x, y, _, _ = self.get_frame(f"{name}_hook").p()
            self.q = {f"{name}-x": x, f"{name}-y": y}
            self.correct_string_lengths([name])

    def correct_string_lengths(self, strings: Iterable[str] | None = None) -> None:
        """Make the lengths of strings fit the current configuration."""
        for name in self._strings(strings):
            self.q = {f"{name}-length": self.string_constraints[name].get_actual_distance()}


class PuppetVisual(VisualItem3D):
    """A puppet's motion for `visual.visualize_3d`."""
