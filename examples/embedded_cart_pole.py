"""A cart with a pole under control of exported C: encoders only, Kalman filter and regulator, on this machine and on an emulated Cortex-M4F.

The design is made in Python and written by `export_c` in single precision. The plant is simulated here with steps a tenth as long, friction that the
model does not know, and encoders that count (0.1 mm, 4096 per turn); the controller is the C program, which reads counts and writes the
push. The same files run as a program of this machine and, if Debian's gcc-arm-none-eabi and qemu-system-arm are there, under QEMU.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import dalembert as da

DT = 0.02
TURN, METRE = 4096, 10_000  # counts
BOARD = Path(__file__).parent / "data" / "cortex_m"

# the firmware: counts come in and forces go out over a line of text, the serial line of the board or standard input and output
FIRMWARE = """
#include "cart_pole.h"
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
static cart_pole m;
int main(void) {
  const cart_pole_real variance[4] = {1e-4f, 1e-1f, 1e-2f, 1e-2f}, q[2] = {0, 3.14159265f}, p[2] = {0, 0};
  cart_pole_real w[CART_POLE_NW], z[CART_POLE_NZ];
  cart_pole_filter_start(&m, q, p, variance);
  for (;;) {
    char line[64], *at = line;
    int status = cart_pole_control(&m, w), c;
    snprintf(line, sizeof line, "%d %ld\\n", status, (long)(w[0] * 1000000.0f)); /* micronewtons */
    while (*at) serial_put(*at++);
    for (at = line; (c = serial_get()) != '\\n' && at < line + 62; ++at) {
      if (c < 0) return 0;
      *at = (char)c;
    }
    *at = 0;
    z[0] = (cart_pole_real)strtol(line, &at, 10) / 10000.0f;
    z[1] = (cart_pole_real)strtol(at, &at, 10) * (6.2831853f / 4096.0f);
    if (cart_pole_predict(&m, w, CART_POLE_DT) != CART_POLE_OK) return 1;
    if (cart_pole_update(&m, z) != CART_POLE_OK) return 2;
  }
}
"""


def design(folder: Path) -> None:
    """Model, regulator and filter, written to a folder as C."""
    vi = da.MidpointVI(da.models.cart_pole(), DT)
    upright = vi.state(q={"theta": np.pi})
    gain = da.lqr_infinite(*vi.linearize(upright), Q={"x": 5, "theta": 20, "*": 0.1}, R={"push": 0.05}, names=vi)
    law = da.Feedback.at_point(upright, [0.0], gain.K)
    sensor = da.measure(vi, "x", "theta")
    ekf = da.ExtendedKalmanFilter(vi, sensor, Q=[1e-8, 1e-8, 1e-4, 1e-4], R=[1e-8, 1e-6])
    da.export_c(vi, folder, ekf=ekf, gains=law, limits={"push": (-20, 20)}, real="float")
    (folder / "firmware.c").write_text(FIRMWARE)


def build_here(folder: Path, cc: str) -> list[str]:
    """The command that runs the firmware as a program of this machine."""
    files = [str(folder / name) for name in ("firmware.c", "cart_pole.c", "cart_pole_control.c")]
    subprocess.run([cc, "-std=c99", "-O2", *files, "-lm", "-o", str(folder / "firmware")], check=True)
    return [str(folder / "firmware")]


def build_board(folder: Path, gcc: str, qemu: str) -> list[str]:
    """The command that runs the firmware on an emulated Cortex-M4F."""
    files = [str(folder / name) for name in ("firmware.c", "cart_pole.c", "cart_pole_control.c")]
    cpu = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-DBOARD"]
    small = ["-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    link = ["--specs=rdimon.specs", "-nostartfiles", "-T", str(BOARD / "board.ld"), str(BOARD / "board.c")]
    target = str(folder / "firmware.elf")
    subprocess.run([gcc, *cpu, *small, *files, *link, "-lm", "-o", target], check=True)
    quiet = ["-display", "none", "-monitor", "none", "-semihosting"]
    return [qemu, "-M", "mps2-an386", *quiet, "-serial", "stdio", "-kernel", target]


def loop(command: list[str], seconds: float, theta: float) -> np.ndarray:
    """Rows (t, x, theta, push) of the plant under the program."""
    model = da.models.cart_pole()
    rough = da.Model(model.frames, [*model.elements, da.Damping({"x": 0.3, "theta": 0.02})])
    vi = da.MidpointVI(rough, DT / 10)
    state = vi.state(q={"theta": np.pi + theta})
    rows = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for k in range(round(seconds / DT)):
            status, push = map(int, program.stdout.readline().split())
            assert status == 0
            rows.append((k * DT, *state.q, push / 1e6))
            for _ in range(10):
                state = vi.step(state, [push / 1e6])
            x, angle = state.q
            program.stdin.write(f"{round(x * METRE)} {round(angle * TURN / (2 * np.pi))}\n")
            program.stdin.flush()
        program.stdin.close()
        program.kill()
    return np.array(rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--time", type=float, default=6.0, help="seconds")
    args = parser.parse_args(argv)
    runs: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        design(folder)
        cc, gcc, qemu = (shutil.which(name) for name in ("cc", "arm-none-eabi-gcc", "qemu-system-arm"))
        if cc is None:
            print("there is no C compiler (cc): nothing to run")
            return
        runs["C on this machine"] = loop(build_here(folder, cc), args.time, 0.25)
        if gcc and qemu:
            runs["C on a Cortex-M4F (QEMU)"] = loop(build_board(folder, gcc, qemu), args.time, 0.25)
        else:
            print("gcc-arm-none-eabi and qemu-system-arm are not there: the emulated processor is left out")
    for name, rows in runs.items():
        off = np.abs(rows[-50:, 2] - np.pi).max()
        print(f"{name}: largest push {np.abs(rows[:, 3]).max():.2f} N, pole within {off:.4f} rad in the last second")
    if len(runs) == 2:
        here, board = runs.values()
        print(f"largest difference between the two: {np.abs(here - board)[:, 1:3].max():.2e}")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(3, 1, figsize=(6.5, 6), sharex=True)
        for (name, rows), line in zip(runs.items(), ("-", "--"), strict=False):
            for axis, values in zip(axes, (rows[:, 2] - np.pi, rows[:, 1], rows[:, 3]), strict=True):
                axis.plot(rows[:, 0], values, line, label=name)
        for axis, label in zip(axes, ("pole from upright (rad)", "cart (m)", "push (N)"), strict=True):
            axis.set(ylabel=label)
        axes[0].legend()
        axes[2].set(xlabel="time (s)")
        figure.savefig(args.out / "embedded_cart_pole.png")
    print("figure:", args.out / "embedded_cart_pole.png")


if __name__ == "__main__":
    main()
