"""What a system is: frames, masses, elements, Model."""

from . import rotation as rotation
from .elements import *  # noqa: F403
from .frames import Frame as Frame
from .frames import Kinematic as Kinematic
from .frames import Visual as Visual
from .frames import ball as ball
from .frames import elementary as elementary
from .frames import rx as rx
from .frames import ry as ry
from .frames import rz as rz
from .frames import se3 as se3
from .frames import tx as tx
from .frames import ty as ty
from .frames import tz as tz
from .joints import cylindrical as cylindrical
from .joints import floating as floating
from .joints import free as free
from .joints import free_euler as free_euler
from .joints import helical as helical
from .joints import planar as planar
from .joints import prismatic as prismatic
from .joints import revolute as revolute
from .joints import spherical as spherical
from .joints import spherical_euler as spherical_euler
from .model import FrameEntry as FrameEntry
from .model import Model as Model
from .parameter import Parameter as Parameter
from .spline import Spline as Spline
