"""Drop-in for trep: scripts written for trep run with `import dalembert.trep as trep` in place of `import trep`.

A translation only: systems are mutable here as trep's are, the numbers come from dalembert's compiled core. What trep
has and this does not is listed, with replacements, in docs/from-trep.md.

>>> import dalembert.trep as trep
>>> system = trep.System()
>>> system.import_frames([trep.tx("x", mass=1.0)])
>>> mvi = trep.MidpointVI(system)
>>> mvi.initialize_from_state(0.0, [0.0], [2.0])
>>> iterations = mvi.step(0.5)
>>> mvi.q2
array([1.])
"""

from importlib import import_module as _import
from typing import Any

from ..errors import ConvergenceError
from . import constraints, forces, potentials
from .config import Config
from .constraint import Constraint
from .finput import Input
from .force import Force
from .frame import (
    CONST_SE3,
    RX,
    RY,
    RZ,
    TX,
    TY,
    TZ,
    WORLD,
    Frame,
    const_se3,
    const_txyz,
    rotation_matrix,
    rx,
    ry,
    rz,
    tx,
    ty,
    tz,
)
from .midpointvi import MidpointVI
from .potential import Potential
from .spline import Spline
from .system import System
from .tapemeasure import TapeMeasure
from .trajectory import load_trajectory, save_trajectory

_LAZY = ("discopt", "puppets", "ros", "visual")


def get_include() -> str:
    """trep's C headers do not exist here."""
    raise NotImplementedError(
        "there is no C API: subclass Potential, Force or Constraint in Python, "
        "or give dalembert a CasADi expression (da.Potential, da.Force, da.Constraint), which runs in the compiled core"
    )


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return _import(f".{name}", __name__)
    raise AttributeError(f"module 'dalembert.trep' has no attribute {name!r}")


__all__ = [
    "CONST_SE3",
    "RX",
    "RY",
    "RZ",
    "TX",
    "TY",
    "TZ",
    "WORLD",
    "Config",
    "Constraint",
    "ConvergenceError",
    "Force",
    "Frame",
    "Input",
    "MidpointVI",
    "Potential",
    "Spline",
    "System",
    "TapeMeasure",
    "const_se3",
    "const_txyz",
    "constraints",
    "forces",
    "get_include",
    "load_trajectory",
    "potentials",
    "rotation_matrix",
    "rx",
    "ry",
    "rz",
    "save_trajectory",
    "tx",
    "ty",
    "tz",
]
