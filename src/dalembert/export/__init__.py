"""C99 for small computers: the variational step of a model, its exact linearization, a Kalman filter and gains, as plain files."""

from .tables import ExportError
from .write import Exported, export_c

__all__ = ["ExportError", "Exported", "export_c"]
