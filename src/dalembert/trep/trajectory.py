"""Trajectories in files, in trep's MATLAB layout: time, Q, p, v, u, rho with the names of their columns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .system import System

_PARTS = ("Q", "p", "v", "u", "rho")


def _names(system: System) -> dict[str, list[str | None]]:
    q, d, k = ([c.name for c in part] for part in (system.configs, system.dyn_configs, system.kin_configs))
    return {"Q": q, "p": d, "v": k, "u": [u.name for u in system.inputs], "rho": k}


def save_trajectory(
    filename: str | os.PathLike[str],
    system: System,
    t: object,
    Q: object = None,
    p: object = None,
    v: object = None,
    u: object = None,
    rho: object = None,
) -> None:
    """Write a trajectory (t (N,), Q, p, v (N, ...), u, rho (N-1, ...)) to a .mat file; parts left out are not written.

    >>> import os, tempfile, dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.tx("x", mass=1.0)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trep.save_trajectory(os.path.join(folder, "a.mat"), system, [0, 1], Q=[[0.0], [2.0]])
    ...     trep.load_trajectory(os.path.join(folder, "a.mat"), system)[1]
    array([[0.],
           [2.]])
    """
    from scipy.io import savemat

    time = np.asarray(t, dtype=float)
    if time.ndim != 1:
        raise ValueError("t must be one-dimensional")
    data: dict[str, Any] = {"time": time}
    names = _names(system)
    for key, value in zip(_PARTS, (Q, p, v, u, rho), strict=True):
        data[f"{key}_index"] = np.array(names[key], dtype=object)
        if value is None:
            continue
        rows = np.asarray(value, dtype=float)
        shape = (len(time) - (key in ("u", "rho")), len(names[key]))
        if rows.shape != shape:
            raise ValueError(f"{key} has shape {rows.shape}, but {shape} is needed")
        data[key] = rows
    savemat(filename, data, appendmat=False)


def load_trajectory(filename: str | os.PathLike[str], system: System | None = None) -> tuple[Any, ...]:
    """(t, Q, p, v, u, rho) of a file. With a system, columns go to its variables by name and missing parts are zero;
    without one, parts are as in the file (None if missing)."""
    from scipy.io import loadmat

    data = loadmat(filename, appendmat=False)
    if "time" not in data:
        raise ValueError(f"{os.fspath(filename)}: no trajectory in this file (there is no 'time')")
    time = np.asarray(data["time"], dtype=float).ravel()
    found: list[Any] = []
    names = None if system is None else _names(system)
    for key in _PARTS:
        rows = data.get(key)
        count = len(time) - (key in ("u", "rho"))
        if names is None:
            found.append(None if rows is None else np.asarray(rows, dtype=float).reshape(count, -1))
            continue
        out = np.zeros((count, len(names[key])))
        if rows is not None and rows.size:
            table = np.asarray(rows, dtype=float).reshape(count, -1)
            columns = [str(np.ravel(n)[0]) if np.size(n) else "" for n in np.ravel(data.get(f"{key}_index", []))]
            if len(columns) != table.shape[1]:
                raise ValueError(f"{os.fspath(filename)}: {key} has {table.shape[1]} columns, but {len(columns)} names")
            for i, name in enumerate(names[key]):
                if name in columns:
                    out[:, i] = table[:, columns.index(str(name))]
        found.append(out)
    return (time, *found)
