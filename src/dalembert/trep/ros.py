"""trep.ros: robots from URDF. What needs a running ROS is not here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..model import Damping, Kinematic
from .frame import Frame
from .system import System


def import_urdf(source: str | bytes, system: System | None = None, prefix: str | None = None) -> System:
    """A system with the links and joints of a URDF text; `prefix` goes before all names.

    Joints become dynamic variables, links frames; gravity, damping and inputs are left to you, as trep leaves them.

    >>> link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    >>> joint = '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>'
    >>> system = import_urdf(f'<robot name="r">{link.format("a")}{link.format("b")}{joint}</robot>', prefix="arm_")
    >>> [q.name for q in system.configs]
    ['arm_j']
    """
    from ..formats import loads

    model = loads(source, "urdf", gravity=None, massless="kinematic", limits=False)
    others = [e.label for e in model.elements if not isinstance(e, Damping)]
    if others:
        raise NotImplementedError(
            f"trep has no element for {others[0]}; load the robot with dalembert.formats.load instead"
        )
    found = System() if system is None else system
    before = prefix or ""
    made: dict[int, Frame] = {0: found.world_frame}
    with found._all_or_nothing():
        for entry in model.frame_entries[1:]:
            frame = entry.frame
            assert frame is not None
            value: Any = frame.value.name if isinstance(frame.value, Kinematic) else frame.value
            if isinstance(value, str):
                value = before + value
            kind = "CONST_SE3" if frame.transform == "se3" else frame.transform.upper()
            name = None if frame.name is None else before + frame.name
            xx, yy, zz, xy, xz, yz = frame.inertia
            simple = not any((*frame.com, xy, xz, yz))
            mass = (frame.mass, xx, yy, zz) if simple else 0.0
            made[entry.index] = Frame(made[entry.parent], kind, value, name, False, mass)
            if not simple:  # a frame of its own at the centre of mass, along the principal axes
                moments, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
                axes[:, 0] *= np.sign(np.linalg.det(axes))
                g = np.eye(4)
                g[:3, :3], g[:3, 3] = axes, frame.com
                own = None if name is None else f"{name}-inertia"
                Frame(made[entry.index], "CONST_SE3", g, own, False, (frame.mass, *moments))
    return found


def import_urdf_file(
    filename: str | os.PathLike[str], system: System | None = None, prefix: str | None = None
) -> System:
    """The same from a file."""
    return import_urdf(Path(filename).read_bytes(), system, prefix)


class ROSMidpointVI:
    """trep's integrator that publishes to ROS; not available."""

    def __init__(
        self, system: object, timestep: float, tolerance: float = 1e-10, num_threads: int | None = None
    ) -> None:
        raise NotImplementedError(
            "there is no ROS here: use MidpointVI and publish the frames' poses (Frame.g) from your own node, "
            "or show the motion with da.view"
        )
