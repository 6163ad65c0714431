"""Elements: potentials, forces and constraints as values (Scalable variational integrators, sections III-C, IV).

Every kind stands in one class in one of these files; see `base` for what a kind says about itself.
"""

from .base import ELEMENTS as ELEMENTS
from .base import WORLD as WORLD
from .base import ConstraintElement as ConstraintElement
from .base import ContactElement as ContactElement
from .base import Element as Element
from .base import ForceElement as ForceElement
from .base import PotentialElement as PotentialElement
from .base import VelocityElement as VelocityElement
from .base import element as element
from .base import is_known as is_known
from .constraints import *  # noqa: F403
from .contacts import *  # noqa: F403
from .forces import *  # noqa: F403
from .gravity import *  # noqa: F403
from .rolling import *  # noqa: F403
from .springs import *  # noqa: F403
from .user import *  # noqa: F403
