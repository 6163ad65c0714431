"""dalembert: discrete mechanics for Python."""

from .errors import ConvergenceError, DalembertError, ModelError, SingularityError
from .model import *  # noqa: F403
from .model import __all__ as _model_names

__version__ = "0.1.0"

__all__ = ["ConvergenceError", "DalembertError", "ModelError", "SingularityError", *_model_names]
