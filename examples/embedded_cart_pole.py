"""A cart with a pole under control of exported C: encoders only, Kalman filter and regulator, on this machine and on an emulated Cortex-M4F.

The design is made in Python and written by `export_c` in single precision. The plant is simulated here with steps a tenth as long, friction that the
model does not know, and encoders that count (0.1 mm, 4096 per turn); the controller is the C program, which reads counts and writes the
push. The same files run as a program of this machine and, if Debian's gcc-arm-none-eabi and qemu-system-arm are there, under QEMU.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _embedded import SERIAL, Firmware, build

import dalembert as da

DT = 0.02
TURN, METRE = 4096, 10_000  # counts

# the firmware: counts of both encoders come in, a status and the push in micronewtons go out
FIRMWARE = (
    '#include "cart_pole.h"\n'
    + SERIAL
    + """
static cart_pole m;
int main(void) {
  const cart_pole_real variance[4] = {1e-4f, 1e-1f, 1e-2f, 1e-2f}, q[2] = {0, 3.14159265f}, p[2] = {0, 0};
  cart_pole_real w[CART_POLE_NW], z[CART_POLE_NZ];
  cart_pole_filter_start(&m, q, p, variance);
  for (;;) {
    long in[2], out[2];
    out[0] = cart_pole_control(&m, w);
    out[1] = (long)(w[0] * 1000000.0f);
    say(out, 2);
    if (!hear(in, 2)) return 0;
    z[0] = (cart_pole_real)in[0] / 10000.0f;
    z[1] = (cart_pole_real)in[1] * (6.2831853f / 4096.0f);
    if (cart_pole_predict(&m, w, CART_POLE_DT) != CART_POLE_OK) return 1;
    if (cart_pole_update(&m, z) != CART_POLE_OK) return 2;
  }
}
"""
)


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


def loop(command: list[str], seconds: float, theta: float) -> np.ndarray:
    """Rows (t, x, theta, push) of the plant under the program."""
    model = da.models.cart_pole()
    rough = da.Model(model.frames, [*model.elements, da.Damping({"x": 0.3, "theta": 0.02})])
    vi = da.MidpointVI(rough, DT / 10)
    state = vi.state(q={"theta": np.pi + theta})
    rows = []
    with Firmware(command) as firmware:
        for k in range(round(seconds / DT)):
            status, push = firmware.hear()
            assert status == 0
            rows.append((k * DT, *state.q, push / 1e6))
            for _ in range(10):
                state = vi.step(state, [push / 1e6])
            x, angle = state.q
            firmware.say(round(x * METRE), round(angle * TURN / (2 * np.pi)))
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
        for label, cpu in (("C on this machine", None), ("C on a Cortex-M4F (QEMU)", "Cortex-M4F")):
            command = build(folder, "cart_pole", cpu)
            if command is None:
                print(f"{label}: there is no compiler or emulator for it, left out")
            else:
                runs[label] = loop(command, args.time, 0.25)
    if not runs:
        return
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
