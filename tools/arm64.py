"""An arm64 Python under qemu-user, to test arm64 wheels on another machine.

Python and its libraries come as Debian packages, by the system's own apt sources but into a folder of their own (build/wheels/arm64-...); nothing is
installed. Needs apt-get and dpkg-deb. The kernel knows no arm64: where a test starts Python, it starts a script that calls the emulator.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from .wheel import ROOT, WORK, run

# suite of Debian -> its Python
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
NEEDED = ("pytest>=8", "hypothesis>=6.100", "numpy", "scipy", "casadi", "matplotlib", "pandas", "xarray")
TIMINGS = ("tests/core/test_import.py::test_import_takes_less_than_300_ms",)  # of no meaning under emulation
START = "import sys; sys.executable = sys.argv.pop(1); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


def _apt(folder: Path, suite: str, arch: str) -> list[str]:
    """apt-get with its files in a folder and the sources of a suite."""
    for name in (
        "lists/partial",
        "cache/archives/partial",
        "etc/sources.list.d",
        "etc/apt.conf.d",
        "etc/preferences.d",
    ):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    system = Path("/etc/apt")
    for file in (*system.glob("sources.list"), *system.glob("sources.list.d/*")):
        text = re.sub("|".join(PYTHONS), suite, file.read_text())
        (folder / "etc" / file.relative_to(system)).write_text(text)
    options = {
        "APT::Architecture": arch, "APT::Architectures": arch, "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status", "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "etc" / "sources.list", "Dir::Etc::sourceparts": folder / "etc" / "sources.list.d",
        "APT::Install-Recommends": "false", "APT::Sandbox::User": "root",
    }  # fmt: skip
    return ["apt-get", "-q", "-y", *(x for k, v in options.items() for x in ("-o", f"{k}={v}"))]


def _unpacked(folder: Path, suite: str, arch: str, packages: list[str]) -> Path:
    """Packages with all they depend on, unpacked into folder/root."""
    root = folder / "root"
    if not (folder / "complete").exists():
        apt = _apt(folder, suite, arch)
        run([*apt, "update"])
        run([*apt, "--download-only", "install", *packages])
        for deb in sorted((folder / "cache" / "archives").glob("*.deb")):
            run(["dpkg-deb", "-x", deb, root])
        if not (root / "lib").exists():
            (root / "lib").symlink_to("usr/lib")  # newer suites leave this link to another package
        (folder / "complete").touch()
    return root


def interpreter(suite: str) -> list[str]:
    """The command that runs Python of a Debian suite on an emulated arm64."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise SystemExit("arm64 wheels are tested with packages of Debian: apt-get and dpkg-deb are needed")
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        host = run(["dpkg", "--print-architecture"]).strip()
        emulator = str(_unpacked(WORK / "qemu", "bookworm", host, ["qemu-user-static"]) / "usr/bin/qemu-aarch64-static")
    python = f"python{PYTHONS[suite]}"
    root = _unpacked(WORK / f"arm64-{suite}", suite, "arm64", [python, "libstdc++6"])
    return [emulator, "-L", str(root), str(root / "usr" / "bin" / python)]


def installed(wheel: Path) -> tuple[list[str], dict[str, str]]:
    """Install an arm64 wheel with what its tests need; the command and the environment of pytest with it."""
    suite = "bookworm" if "cp311" in wheel.name else "trixie"
    python, version = interpreter(suite), PYTHONS[suite]
    packages = WORK / f"arm64-{suite}" / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    platforms = [f"manylinux{glibc}_aarch64" for glibc in ("2014", "_2_17", "_2_26", "_2_27", "_2_28")]
    choose = [x for p in platforms for x in ("--platform", p)]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(packages), "--python-version", version]
    run([*pip, *choose, "--implementation", "cp", "--only-binary=:all:", wheel, *NEEDED])
    script = WORK / f"arm64-{suite}" / "python"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(python)} "$@"\n')
    script.chmod(0o755)
    # bytecode is kept: to compile numpy and scipy takes five times as long as to import them, at every start of Python
    env = {
        **os.environ, "PYTHONPATH": str(packages), "OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(WORK / f"arm64-{suite}" / "bytecode"),
    }  # fmt: skip
    compilers = sorted(WORK.glob("zig-aarch64-*/cc"))
    if compilers:
        env["CC"] = str(compilers[-1])
    left_out = [x for name in TIMINGS for x in ("--deselect", name)]
    return [*python, "-P", "-c", START, str(script), "-q", "-p", "no:cacheprovider", *left_out], env


def test(wheel: Path, arguments: list[str]) -> bool:
    """Run pytest on an arm64 wheel."""
    command, env = installed(wheel)
    return subprocess.run([*command, *arguments], cwd=ROOT, env=env).returncode == 0
