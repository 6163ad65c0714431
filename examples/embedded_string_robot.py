"""The string-and-winch robot under exported C: identified drag, optimal reference, Kalman filter and regulator on emulated Cortex-M4F and M7.

Schultz, Murphey, Embedded control synthesis using one-step methods in discrete mechanics: a robot under the ceiling drives along x_r and
winches a string of length r; a mass hangs on it. A camera sees (x, y, x_r, r), noisy and sometimes far off, 30 times a second on an irregular
clock. The drag of the mass is identified from a swing, the reference optimized and its regulator made in Python; `export_c` writes step, filter
and a table of gains. The plant is simulated here, the controller is the C program: it reads the camera and the length of the last cycle in
whole numbers and answers velocities.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _embedded import SERIAL, Firmware, build
from string_robot import DT, GOAL, HEIGHT, SPEED, Experiment, wish

import dalembert as da
from dalembert import models

STEPS = 361  # 360 steps between the first and the last gain: each tenth is kept

# z in micrometres (-999999999: not seen), the length of the last cycle in microseconds (0 at first) -> status, velocities in micrometres per second
FIRMWARE = (
    '#include "crane.h"\n#include <math.h>\n'
    + SERIAL
    + """
static crane m;
int main(void) {
  const crane_real variance[CRANE_NX] = {0.0025f, 0.0025f, 0.0004f, 0.0004f, 0.01f, 0.01f, 0.01f, 0.01f};
  const crane_real q[CRANE_NQ] = {START}, p[CRANE_ND] = {0, 0}, fastest = FASTEST;
  crane_real t = 0, velocity[2] = {0, 0};
  long in[5], out[3];
  crane_filter_start(&m, q, p, variance);
  while (hear(in, 5)) {
    crane_real z[CRANE_NZ], w[CRANE_NW];
    int i;
    if (in[4] > 0) { /* what the motors have done since */
      const crane_real dt = (crane_real)in[4] / 1000000;
      for (i = 0; i < 2; ++i) w[i] = m.q[2 + i] + velocity[i] * dt;
      out[0] = crane_predict(&m, w, dt);
      if (out[0] != CRANE_OK) return 1;
    }
    for (i = 0; i < 4; ++i) z[i] = in[i] == -999999999 ? (crane_real)NAN : (crane_real)in[i] / 1000000;
    out[0] = crane_update(&m, z);
    if (out[0] != CRANE_OK && out[0] != CRANE_REFUSED) return 2;
    if (crane_control(&m, t, w) != CRANE_OK) return 3;
    for (i = 0; i < 2; ++i) {
      velocity[i] = (w[i] - m.q[2 + i]) / CRANE_DT;
      if (velocity[i] > fastest) velocity[i] = fastest;
      if (velocity[i] < -fastest) velocity[i] = -fastest;
      out[1 + i] = (long)(velocity[i] * 1000000);
    }
    say(out, 3);
    t += CRANE_DT;
  }
  return 0;
}
"""
)


def identify_drag() -> tuple[float, float]:
    """The drag of the mass (N s/m) and its standard deviation, from a swing that the camera watches."""
    crane = models.crane()
    drag = da.Parameter("drag", 0.01, bounds=(0.0, 1.0))
    unknown = da.Model(crane.frames, [*crane.elements, da.Damping({"x": drag, "y": drag})], "crane")
    machine = da.MidpointVI(unknown.with_parameters({"drag": 0.05}), DT)
    q = da.satisfy_constraints(unknown, {"x": 0.3, "y": -0.7, "r": 0.75})
    swing = machine.simulate(machine.state(q), 300)
    record = da.Record.of(swing, ["x", "y"], noise=0.002, seed=0)
    fit = da.identify(unknown, record, measurement=["x", "y"], noise=0.002)
    return float(fit["drag"]), float(fit.deviation["drag"])


def design(drag: float):
    """(vi, reference X, U, regulator, filter) of the crane with its drag."""
    crane = models.crane()
    vi = da.MidpointVI(da.Model(crane.frames, [*crane.elements, da.Damping(drag)], "crane"), DT)
    system = da.System(vi, steps=STEPS)
    Xd, Ud = wish(STEPS)
    cost = da.TrackingCost((Xd, Ud), Q=[100.0, 100.0, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5], R=[0.1, 0.1])
    first = (np.tile(Xd[0], (STEPS + 1, 1)), np.tile(Ud[0], (STEPS, 1)))
    result = da.optimize(system, cost, first, method="projection")
    law = da.lqr(system, (result.X, result.U), Q=[50.0, 50.0, 5.0, 5.0, 2.0, 2.0, 0.2, 0.2], R=[2.0, 2.0])
    noise = np.square([5e-4, 5e-4, 1e-3, 1e-3, 0.008, 0.008, 0.04, 0.04])
    ekf = da.ExtendedKalmanFilter(
        system, da.measure(system, *system.x_names[:4]), Q=noise, R=0.002**2, gate=0.9999, reduced=False
    )
    return vi, result.X, result.U, law, ekf


def loop(command: list[str], X, U, seed: int):
    """Rows (t, x, y, commanded velocities) of the imperfect plant under the program."""
    plant = Experiment(X, U, seed)
    rows, last, time = [], 0, 0.0
    with Firmware(command) as firmware:
        for k in range(len(U)):
            z = np.round(plant.camera() * 1e6).astype(int)
            if k % 40 == 17:
                z[:] = -999999999  # the mass is hidden for a moment
            firmware.say(*z, last)
            answer = firmware.hear()
            assert len(answer) == 3, "the firmware has stopped"
            velocity = np.array(answer[1:]) / 1e6
            rows.append((time, *plant.x[:2], *velocity))
            plant.advance(k, velocity)
            time += plant.cycle[k]
            last = round(plant.cycle[k] * 1e6)
    return np.array(rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--seed", type=int, default=3, help="seed of the experiment")
    args = parser.parse_args(argv)
    drag, deviation = identify_drag()
    print(f"drag of the mass: {drag:.4f} +- {deviation:.4f} N s/m (true: 0.05)")
    vi, X, U, law, ekf = design(drag)
    runs = {}
    for label, cpu, real in (
        ("this machine, double", None, "double"),
        ("Cortex-M4F, float", "Cortex-M4F", "float"),
        ("Cortex-M7, double", "Cortex-M7", "double"),
    ):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            da.export_c(vi, folder, name="crane", ekf=ekf, gains=law, every=10, real=real, start=X[0])
            start = ", ".join(f"{x:.9g}f" if "." in f"{x:.9g}" else f"{x:.9g}" for x in X[0, :4])
            (folder / "firmware.c").write_text(FIRMWARE.replace("START", start).replace("FASTEST", f"{SPEED}f"))
            command = build(folder, "crane", cpu)
            if command is None:
                print(f"{label}: there is no compiler or emulator for it, left out")
                continue
            runs[label] = loop(command, X, U, args.seed)
    for label, rows in runs.items():
        error = 1000 * np.linalg.norm(rows[:, 1:3] - X[:-1, :2], axis=1)
        print(
            f"{label}: rms error {np.sqrt(np.mean(error**2)):.1f} mm, last 2 s {np.sqrt(np.mean(error[-60:] ** 2)):.1f} mm"
        )
    if not runs:
        return
    first = next(iter(runs.values()))
    for label, rows in list(runs.items())[1:]:
        print(f"{label}: at most {1000 * np.abs(rows[:, 1:3] - first[:, 1:3]).max():.3f} mm from the first")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (path, speed) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
        path.plot(X[:, 0], X[:, 1] + HEIGHT, color="black", lw=1.2, label="reference")
        for (label, rows), line in zip(runs.items(), ("-", "--", ":"), strict=False):
            path.plot(rows[:, 1], rows[:, 2] + HEIGHT, line, label=label)
            speed.plot(rows[:, 0], rows[:, 3], line, label=label)
        path.plot(*GOAL, "o", mfc="none", color="black", ms=8)
        path.set(xlabel="x of the mass (m)", ylabel="y of the mass (m)", aspect="equal")
        speed.set(xlabel="time (s)", ylabel="velocity command of the robot (m/s)")
        figure.legend(*path.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        figure.savefig(args.out / "embedded_string_robot.png")
    print("figure:", args.out / "embedded_string_robot.png")


if __name__ == "__main__":
    main()
