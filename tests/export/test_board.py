"""The exported C on emulated microcontrollers: a Cortex-M4F in single and a Cortex-M7 in double precision.

Sizes are those of a firmware without printing, libm included; instructions are QEMU's count.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from dalembert.export import export_c
from tests.export import designs

HERE = Path(__file__).parent / "board"
START = Path(__file__).parents[2] / "examples/data/cortex_m"
CPUS = {
    "m4": (["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16"], "mps2-an386"),
    "m7": (["-mcpu=cortex-m7", "-mfpu=fpv5-d16"], "mps2-an500"),
}
COMMON = ["-mthumb", "-mfloat-abi=hard", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-nostartfiles"]


@dataclass(frozen=True)
class Board:
    """A folder with exported code, for one processor."""

    folder: Path
    name: str
    cpu: str

    def build(self, main: Path, program: str, specs: str, *flags: str) -> Path:
        gcc = shutil.which("arm-none-eabi-gcc")
        if gcc is None:
            pytest.skip("arm-none-eabi-gcc is not installed (Debian: gcc-arm-none-eabi)")
        files = [self.folder / f"{self.name}.c", self.folder / f"{self.name}_control.c", main, START / "board.c"]
        target = self.folder / program
        flags = (*CPUS[self.cpu][0], *COMMON, "-Os", f"--specs={specs}", f"-I{self.folder}", *flags)
        command = [gcc, *flags, "-T", str(START / "board.ld"), *map(str, files), "-lm", "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]
        return target

    def run(self, program: Path) -> str:
        qemu = shutil.which("qemu-system-arm")
        if qemu is None:
            pytest.skip("qemu-system-arm is not installed (Debian: qemu-system-arm)")
        machine = ["-M", CPUS[self.cpu][1], "-nographic", "-semihosting", "-icount", "shift=0"]
        done = subprocess.run([qemu, *machine, "-kernel", str(program)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def size(self, program: Path) -> tuple[int, int]:
        """(flash, memory) in bytes; without the stack."""
        text = subprocess.run(["arm-none-eabi-size", str(program)], capture_output=True, text=True, check=True).stdout
        code, data, bss = map(int, text.splitlines()[1].split()[:3])
        return code + data, data + bss


def counted(folder: Path, name: str, moving: bool, prints: bool) -> Path:
    """A main that runs the loop on the vectors and counts instructions of a cycle; without printing it is a firmware."""
    time = f", ({name}_real)k * {name.upper()}_DT" if moving else ""
    text = (HERE / "loop.c").read_text().replace("NAME", name.upper()).replace("name", name).replace(", TIME", time)
    file = folder / ("count.c" if prints else "firmware.c")
    file.write_text(("#define PRINTS 1\n" if prints else "") + text)
    return file


def measured(vi, options, cpu: str, folder: Path, real: str) -> tuple[int, int, int]:
    """(flash, memory, instructions per cycle); the vectors must be repeated on the processor."""
    out = export_c(vi, folder, real=real, **options)
    board = Board(folder, out.name, cpu)
    assert ": ok" in board.run(board.build(folder / "main.c", "vectors.elf", "rdimon.specs"))
    moving = options["gains"].steps > 1
    text = board.run(board.build(counted(folder, out.name, moving, True), "count.elf", "rdimon.specs"))
    found = re.search(r"instructions (\d+)", text)
    assert found, text
    firmware = board.build(counted(folder, out.name, moving, False), "firmware.elf", "nosys.specs", "-DFIRMWARE")
    sizes = board.size(firmware)
    print(f"{out.name} on {cpu}: flash {sizes[0]}, memory {sizes[1]}, {found[1]} instructions per cycle")
    return (*sizes, int(found[1]))


def test_cart_pole_on_a_cortex_m4f_in_single_precision(tmp_path):
    vi, options = designs.cart_pole()
    flash, memory, instructions = measured(vi, options, "m4", tmp_path, "float")
    assert flash <= 16 * 1024
    assert memory <= 4 * 1024
    assert instructions <= 9_000


@pytest.mark.parametrize("whole", [False, True])
def test_closed_chain_on_a_cortex_m7_in_double_precision(whole, tmp_path):
    """Seven variables; four constraints as the paper has them, or six."""
    vi, options = designs.closed_chain(whole=whole)
    assert (vi.model.nd, vi.model.nc) == (7, 6 if whole else 4)
    flash, memory, instructions = measured(vi, options, "m7", tmp_path, "double")
    assert flash <= 96 * 1024
    assert memory <= 24 * 1024
    assert instructions <= (600_000 if whole else 450_000)
