"""Exported C, compiled on this machine and called by ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert.export import export_c

FLAGS = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]

# what a caller in Python needs besides the exported functions: the struct's size and its public fields
SHIM = """
#include "{n}.h"
unsigned long shim_size(void) {{ return (unsigned long)sizeof({n}); }}
{n}_real *shim_q({n} *m) {{ return m->q; }}
{n}_real *shim_p({n} *m) {{ return m->p; }}
int shim_iterations({n} *m) {{ return m->iterations; }}
"""


def compiler(name: str = "gcc") -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


class Compiled:
    """The functions of an export of `vi`; arrays in and out are NumPy's."""

    def __init__(self, vi: object, folder: Path, *, cc: str = "gcc", flags: tuple[str, ...] = (), **options: object):
        self.vi = vi
        self.model = vi.model
        self.out = export_c(vi, folder, **options)
        n = self.n = self.out.name
        self.dtype = np.float32 if options.get("real") == "float" else np.float64
        self.real = ctypes.c_float if self.dtype is np.float32 else ctypes.c_double
        self.n_state = self.model.nq + self.model.nd  # without rates of prescribed variables
        extra = [("lam", self.model.nc), ("rate", self.model.nkv)]
        if options.get("linearize", True):
            extra += [("a", 1), ("b", vi.nu)]
        if options.get("ekf") is not None:
            extra += [("covariance", 1), ("innovation", 1)]
        text = SHIM.format(n=n) + "".join(f"{n}_real *shim_{f}({n} *m) {{ return m->{f}; }}\n" for f, k in extra if k)
        (folder / "shim.c").write_text(text)
        sources = [str(f) for f in self.out.files if f.suffix == ".c" and f.name != "main.c"]
        library = folder / "code.so"
        command = [compiler(cc), *FLAGS, *flags, "-shared", "-fPIC", "-o", str(library), *sources]
        done = subprocess.run([*command, str(folder / "shim.c"), "-lm"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
        self.lib = ctypes.CDLL(str(library))
        self.lib.shim_size.restype = ctypes.c_ulong
        self.m = ctypes.create_string_buffer(self.lib.shim_size())

    def _in(self, x) -> ctypes.Array:
        values = np.ascontiguousarray(x, dtype=self.dtype)
        return (self.real * max(1, values.size))(*values.ravel().tolist())

    def field(self, name: str, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        if not size:
            return np.zeros(shape)
        f = getattr(self.lib, f"shim_{name}")
        f.restype = ctypes.POINTER(self.real)
        return np.array(f(self.m)[:size], dtype=self.dtype).reshape(shape)

    def write(self, name: str, values: np.ndarray) -> None:
        """Numbers into a field of the struct."""
        f = getattr(self.lib, f"shim_{name}")
        f.restype = ctypes.POINTER(self.real)
        place = f(self.m)
        for i, x in enumerate(np.ravel(values).tolist()):
            place[i] = x

    def call(self, name: str, *arrays, last: tuple = ()) -> int:
        return int(getattr(self.lib, f"{self.n}_{name}")(self.m, *map(self._in, arrays), *last))

    def start(self, x) -> None:
        nq, nd = self.model.nq, self.model.nd
        self.call("start", x[:nq], x[nq : nq + nd])

    def step(self, w, dt: float | None = None) -> int:
        """One step with w = (inputs, prescribed values)."""
        return self._moved("step", w, dt)

    def _moved(self, name: str, w, dt: float | None) -> int:
        nu = self.model.nu
        parts = [part for part in (np.asarray(w)[:nu], np.asarray(w)[nu:]) if len(part)]
        return self.call(name, *parts, last=(self.real(self.vi.dt if dt is None else dt),))

    def filter_start(self, x, variances) -> None:
        nq, nd = self.model.nq, self.model.nd
        self.call("filter_start", x[:nq], x[nq : nq + nd], variances)

    def predict(self, w, dt: float | None = None) -> int:
        """The filter's prediction with w = (inputs, prescribed values)."""
        return self._moved("predict", w, dt)

    @property
    def x(self) -> np.ndarray:
        m = self.model
        parts = [self.field("q", m.nq), self.field("p", m.nd)]
        return np.concatenate([*parts, self.field("rate", m.nkv)] if m.nkv else parts)

    def linearize(self) -> tuple[int, np.ndarray, np.ndarray]:
        status = self.call("linearize")
        n = self.vi.ndx
        return status, self.field("a", n, n), self.field("b", n, self.vi.nu)


def reached(A: np.ndarray, x: np.ndarray) -> float:
    """What rounding of the state x (nx,) is relative to after a step with the derivative A (ndx, ndx)."""
    size = np.ones(len(A))  # coordinates of balls
    if len(x) == len(A):
        size = np.maximum(size, np.abs(x))
    else:
        size[len(A) // 2 :] = np.maximum(1.0, np.abs(x[-(len(A) // 2) :]))
    return float((np.abs(A) @ size).max(initial=0.0))


def some_inputs(vi: da.MidpointVI, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    m = vi.model
    return np.concatenate([0.3 * rng.normal(size=m.nu), x[m.nqd : m.nq] + 0.003 * rng.normal(size=m.nq - m.nqd)])


def some_state(vi: da.MidpointVI, seed: int, q0: np.ndarray | None = None) -> np.ndarray | None:
    """A state that satisfies the constraints, with a moderate motion (near q0, if given); None where none is found."""
    from tests.random_models import random_point

    model = vi.model
    for trial in range(8):
        q, v, _ = random_point(model, seed + 1000 * trial)
        v = 0.3 * v[: model.nv]
        if q0 is not None:
            q = q0
        try:
            if model.nc:
                q = da.satisfy_constraints(model, q)
                v = da.consistent_velocity(model, q, v)
            return np.concatenate([q, vi.state(q=q, v=v).p, np.zeros(model.nkv)])
        except (da.ConvergenceError, ValueError):
            continue
    return None
