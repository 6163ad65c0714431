"""dalembert: discrete mechanics for Python.

Describe a mechanism once (`Model`), then simulate it with a variational integrator (`MidpointVI`), linearize the discrete step exactly
(`System`), regulate (`lqr`), estimate (`ExtendedKalmanFilter`) and optimize its motion (`optimize`, `dmoc`).

The public names are listed in `__init__.pyi`; each is imported when it is first used, so that `import dalembert` stays quick.
"""

import ast as _ast
from importlib import import_module as _import
from importlib.resources import files as _files
from typing import Any as _Any

from .extras import install as _install

__version__ = "0.1.0"

_install()  # missing packages are named with the extra that brings them


def _public() -> dict[str, str]:
    """Name -> room, as the stub lists them; a room itself has the room ''."""
    tree = _ast.parse(_files(__name__).joinpath("__init__.pyi").read_text(encoding="utf-8"))
    lists = (node for node in tree.body if isinstance(node, _ast.ImportFrom))
    return {alias.name: node.module or "" for node in lists for alias in node.names}


_ROOM_OF = _public()
__all__ = list(_ROOM_OF)


def __getattr__(name: str) -> _Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'dalembert' has no attribute {name!r}")
    room = _ROOM_OF[name]
    value = getattr(_import(f".{room}", __name__), name) if room else _import(f".{name}", __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_ROOM_OF, "__version__"})
