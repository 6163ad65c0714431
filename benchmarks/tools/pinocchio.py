"""Pinocchio through a C++ program (pinocchio.cpp), compiled against the headers of its wheel: no Python in the loop.

It is built on first use with -O3 -march=native into the user's cache; without a compiler the tool counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .. import machines
from . import Case

SOURCE = Path(__file__).with_suffix(".cpp")


def _program() -> Path:
    """The compiled program; built once per source and version."""
    import pinocchio

    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise RuntimeError("no C++ compiler to build the Pinocchio program with")
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix"
    eigen = [p for p in (prefix / "include" / "eigen3", Path("/usr/include/eigen3")) if p.is_dir()]
    if not eigen:
        raise RuntimeError("no Eigen headers (pip install cmeel-eigen)")
    # what its own CMake configuration sets for the long list of joint types
    boost = ["-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS", "-DBOOST_FUSION_INVOKE_MAX_ARITY=12"]
    boost += ["-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30"]
    flags = ["-std=c++17", "-O3", "-march=native", "-DNDEBUG", "-w", *boost, f"-I{prefix}/include", f"-I{eigen[0]}"]
    # all templates are instantiated here: the library's own are built for older processors
    link: list[str] = []
    digest = hashlib.sha256((SOURCE.read_text() + pinocchio.__version__ + " ".join(flags)).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dalembert-benchmarks"
    program = cache / f"pinocchio-{digest}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        with tempfile.TemporaryDirectory() as folder:
            _overlay(prefix / "include", Path(folder))
            command = [compiler, f"-I{folder}", *flags, str(SOURCE), "-o", str(fresh), *link]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            error = next((row for row in done.stderr.splitlines() if "error" in row), "no message")
            raise RuntimeError(f"the Pinocchio program does not compile: {error[-160:]}")
        fresh.rename(program)
    return program


def _overlay(include: Path, folder: Path) -> None:
    """Compilers before GCC 13 reject `static_assert(false)` in templates that are never used: make it depend on one."""
    name = Path("pinocchio/src/constraints/utils.hxx")
    if (include / name).is_file():
        text = (include / name).read_text()
        fixed = text.replace('false, "ComputeBlockDiagonal', 'sizeof(ConstraintModel) == 0, "ComputeBlockDiagonal')
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(fixed)


def version() -> str:
    import pinocchio

    _program()
    # its accelerations must be those of the same mechanism here
    m = machines.n_link(3)
    out = _ask(_write(m), "rollout", "rk4", "0.001", "10", "10", "0")
    states = np.array(out["states"]).reshape(-1, 2, m.n)
    from .dalembert import energies

    error = float(np.abs(energies("n_link", 3, {"q": states[:, 0], "v": states[:, 1]})).max())
    if error > 1e-9:
        raise RuntimeError(f"its rollout does not keep the energy of the same pendulum ({error:.1e})")
    return str(pinocchio.__version__)


def _write(m: machines.Machine) -> str:
    file = Path(tempfile.mkdtemp(prefix="bench")) / "machine.txt"
    file.write_text(machines.to_text(m))
    return str(file)


def _ask(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([str(_program()), *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def rollout(machine: str, size: int, dt: float, steps: int, every: int, method: str, kp: float = 0.0) -> Case:
    """Methods euler and rk4; `kp` of Baumgarte's terms (kd = 2 sqrt(kp))."""
    m = getattr(machines, machine)(size)
    file = _write(m)
    arguments = [file, "rollout", method, repr(dt), str(steps), str(every), repr(float(kp))]

    def read(out: Any) -> dict[str, Any]:
        states = np.array(out["states"]).reshape(-1, 2, m.n)
        return {"q": states[:, 0], "v": states[:, 1]}

    return Case(lambda: _ask(*arguments), read)


def algorithm(what: str, machine: str, size: int, repeats: int) -> Case:
    """aba, aba_derivatives, rnea_second: seconds per call."""
    file = _write(getattr(machines, machine)(size))
    return Case(lambda: _ask(file, "time", what, str(repeats)), lambda _: {})


def build(machine: str, size: int) -> Case:
    """From URDF, in Python."""
    import pinocchio

    text = machines.to_urdf(getattr(machines, machine)(size))
    return Case(lambda: pinocchio.buildModelFromXML(text).createData())


def tumbling(dt: float, time: float, method: str) -> Case:
    """A free body without forces: its rotation matrix at the end. Methods euler and rk4 (on SE(3))."""
    numbers = [repr(x) for x in (*machines.BODY_INERTIA, *machines.BODY_RATES)]
    arguments = ["tumbling", method, repr(dt), str(round(time / dt)), *numbers]

    def read(out: Any) -> dict[str, Any]:
        w, x, y, z = out["quaternion"]
        skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        return {"end": np.eye(3) + 2 * w * skew + 2 * skew @ skew}

    return Case(lambda: _ask(*arguments), read)
