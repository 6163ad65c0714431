"""URDF: robots of links and joints, as ROS describes them.

Every link becomes a frame with the link's name, every joint a variable with the joint's name:

- revolute, continuous: one angle; prismatic: one length; fixed: none, for any axis;
- planar: joint.tx, joint.ty, joint.rz in the plane normal to the axis; floating: joint.tx .ty .tz .rz .ry .rx;
- mimic: the constraint joint = multiplier * other + offset (`LinearRelation`);
- limit lower, upper: `Limit`, a hard stop without restitution (of a joint that mimics another: of that one), unless limits=False;
- dynamics damping: `Damping`; inertial (with offset and rotation): mass, centre and inertia of the frame;
- visual: `Visual` (meshes by path; package:// is resolved when the package's folder, or the part of it that was copied, is found above the file).

Ignored, because they do not enter the equations of motion here: friction, effort and velocity of limits, calibration, safety controllers,
collision shapes, transmissions, sensors, gazebo and other extensions. A root link called "world" is the world.
"""

from .reader import DEFAULT_GRAVITY, read
from .writer import write

__all__ = ["DEFAULT_GRAVITY", "read", "write"]
