"""Derivatives by parameters, and identification of them."""

from .excitation import Excitation as Excitation
from .excitation import excite as excite
from .fit import identifiability as identifiability
from .fit import identify as identify
from .joint import ParameterMap as ParameterMap
from .naming import name_parameters as name_parameters
from .record import Record as Record
from .result import Identifiability as Identifiability
from .result import Identification as Identification
from .sensitivity import Gradient as Gradient
from .sensitivity import energy_by_parameters as energy_by_parameters
from .sensitivity import force_by_parameters as force_by_parameters
from .sensitivity import gradient_of_motion as gradient_of_motion
from .sensitivity import motion_by_parameters as motion_by_parameters
from .sensitivity import step_by_parameters as step_by_parameters
