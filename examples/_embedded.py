"""Firmware made of exported C, as a program of this machine or on an emulated Cortex-M: lines of whole numbers in, lines of whole numbers out."""

import shutil
import subprocess
from pathlib import Path
from types import TracebackType

BOARD = Path(__file__).parent / "data" / "cortex_m"

CPUS = {
    "Cortex-M4F": ("cortex-m4", "fpv4-sp-d16", "mps2-an386"),
    "Cortex-M7": ("cortex-m7", "fpv5-d16", "mps2-an500"),
}

# what a firmware needs to speak over the serial line of the board, or over standard input and output
SERIAL = """
#include <stdio.h>
#include <stdlib.h>
#ifdef BOARD
void serial_put(char c);
int serial_get(void);
#else
static void serial_put(char c) {
  putchar(c);
  if (c == '\\n') fflush(stdout);
}
static int serial_get(void) { return getchar(); }
#endif
static void say(const long *numbers, int count) {
  int i;
  for (i = 0; i < count; ++i) {
    char text[32], *at = text;
    snprintf(text, sizeof text, i + 1 < count ? "%ld " : "%ld\\n", numbers[i]);
    while (*at) serial_put(*at++);
  }
}
/* 1 if there was a line */
static int hear(long *numbers, int count) {
  char line[128], *at = line;
  int c, i;
  while ((c = serial_get()) != '\\n' && at < line + 126) {
    if (c < 0) return 0;
    *at++ = (char)c;
  }
  *at = 0;
  for (at = line, i = 0; i < count; ++i) numbers[i] = strtol(at, &at, 10);
  return 1;
}
"""


def build(folder: Path, name: str, cpu: str | None) -> list[str] | None:
    """The command that runs folder/firmware.c with the exported code `name` on this machine (cpu None) or on an emulated `cpu`; None where
    there is no compiler or emulator for it."""
    files = [str(folder / file) for file in ("firmware.c", f"{name}.c", f"{name}_control.c")]
    if cpu is None:
        cc = shutil.which("cc")
        if cc is None:
            return None
        subprocess.run([cc, "-std=c99", "-O2", *files, "-lm", "-o", str(folder / "firmware")], check=True)
        return [str(folder / "firmware")]
    gcc, qemu = shutil.which("arm-none-eabi-gcc"), shutil.which("qemu-system-arm")
    if gcc is None or qemu is None:
        return None
    core, unit, machine = CPUS[cpu]
    flags = [f"-mcpu={core}", "-mthumb", "-mfloat-abi=hard", f"-mfpu={unit}", "-DBOARD", "-Os"]
    flags += ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "--specs=rdimon.specs", "-nostartfiles"]
    target = str(folder / "firmware.elf")
    board = ["-T", str(BOARD / "board.ld"), str(BOARD / "board.c")]
    subprocess.run([gcc, *flags, *files, *board, "-lm", "-o", target], check=True)
    quiet = ["-display", "none", "-monitor", "none", "-semihosting"]
    return [qemu, "-M", machine, *quiet, "-serial", "stdio", "-kernel", target]


class Firmware:
    """A running program: `say` numbers to it, `hear` its answer."""

    def __init__(self, command: list[str]) -> None:
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, *numbers: int) -> None:
        assert self.program.stdin is not None
        self.program.stdin.write(" ".join(map(str, numbers)) + "\n")
        self.program.stdin.flush()

    def hear(self) -> list[int]:
        assert self.program.stdout is not None
        return [int(word) for word in self.program.stdout.readline().split()]

    def __enter__(self) -> "Firmware":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.kill()
        self.program.communicate()
