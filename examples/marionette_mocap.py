"""A marionette follows recorded joint angles of somebody walking in place.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.3, Figs 13 and 14, where a depth
camera recorded a student. The recording here, data/walking_in_place.csv, is synthetic: joint angles in degrees at 30
Hz with the noise, jumps and gaps that such a camera makes; `--csv` takes another file with the same columns.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models
from dalembert.optimization import read_motion

DT = 0.01
RECORDING = Path(__file__).parent / "data" / "walking_in_place.csv"
# variable: (column, scale, offset in rad); the recording counts joint flexion from a straight limb
COLUMNS = {
    "lhip_rx": ("left hip", 1.0, 0.0),
    "rhip_rx": ("right hip", 1.0, 0.0),
    "lknee_rx": ("left knee", -1.0, 0.0),
    "rknee_rx": ("right knee", -1.0, 0.0),
    "lshoulder_rx": ("left shoulder", 1.0, 0.0),
    "rshoulder_rx": ("right shoulder", 1.0, 0.0),
    "lelbow_rx": ("left elbow", 1.0, 0.0),
    "relbow_rx": ("right elbow", 1.0, 0.0),
}


def write_recording(path: Path, seconds: float = 10.0, rate: float = 30.0, seed: int = 7) -> None:
    """Make the synthetic recording: alternate knees and elbows, noise, lost samples."""
    rng = np.random.default_rng(seed)
    t = np.arange(0, seconds + 0.5 / rate, 1 / rate)
    phase = 2 * np.pi * 0.45 * t + 0.15 * np.sin(2 * np.pi * 0.11 * t)
    fade = np.clip(t / 1.5, 0, 1) ** 2 * (3 - 2 * np.clip(t / 1.5, 0, 1))  # from standing still to walking
    angles = {}
    for side, sign in (("left", 1), ("right", -1)):
        lift = fade * sign * np.sin(phase)
        angles[f"{side} hip"] = 55.6 + 10 * lift + 1.5 * np.sin(2 * phase) * fade
        angles[f"{side} knee"] = 55.6 + 11 * lift
        angles[f"{side} shoulder"] = -4 * lift
        angles[f"{side} elbow"] = 90 - 11 * lift
    table = np.column_stack(list(angles.values()))
    table += rng.normal(scale=1.5, size=table.shape)
    lost = rng.random(table.shape) < 0.01
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as f:
        f.write("# synthetic recording of walking in place; degrees, 30 Hz; empty cells are lost samples\n")
        f.write(",".join(["t", *angles]) + "\n")
        for time, row, gone in zip(t, table, lost, strict=True):
            f.write(f"{time:.4f}," + ",".join("" if g else f"{v:.2f}" for v, g in zip(row, gone, strict=True)) + "\n")


def problem(file: Path, seconds: float):
    """(system, cost, start, recorded angles at the time steps)."""
    model, configurations = models.load_with_configurations("marionette")
    q0 = configurations["q0"]
    steps = round(seconds / DT)
    vi = da.MidpointVI(model, DT, forcing="left")
    system = da.System(vi, steps=steps)
    angles = read_motion(file, COLUMNS, DT * np.arange(steps + 1), degrees=True, cutoff=4.0)
    hang = vi.simulate(vi.state(q=q0), steps=steps, kinematic=np.tile(q0[model.nd :], (steps, 1)))
    reference = {name: float(q0[model.index(name)]) for name in model.variables} | angles
    # the rest of the body and the strings shall stay where they are; momenta and velocities shall be small
    Xd = np.zeros((steps + 1, system.nx))
    for name, value in reference.items():
        Xd[:, system.x_names.index(name)] = value
    Ud = np.tile(q0[model.nd :], (steps, 1))
    # winches that may jerk would kick a leg through its singularity in a single step: their velocities cost more
    Q = dict.fromkeys(model.dynamic, 100.0) | {f"v.{name}": 10.0 for name in model.kinematic} | {"*": 1.0}
    return system, da.TrackingCost((Xd, Ud), Q=Q, R=0.1), system.from_trajectory(hang), angles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--csv", type=Path, default=RECORDING, help="recorded joint angles in degrees")
    parser.add_argument("--seconds", type=float, default=9.8, help="length of the motion")
    options = parser.parse_args()
    if options.csv == RECORDING and not RECORDING.exists():
        write_recording(RECORDING)
    system, cost, start, angles = problem(options.csv, options.seconds)
    result = da.optimize(system, cost, start)
    print(result.summary())
    errors = {
        name: np.rad2deg(np.sqrt(np.mean((result.X[:, system.x_names.index(name)] - a) ** 2)))
        for name, a in angles.items()
    }
    print("root mean square error (degrees):", ", ".join(f"{k} {v:.2f}" for k, v in errors.items()))

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(2, 2, figsize=(9, 5.5), sharex=True, layout="constrained")
        for a, name in zip(axes.flat, ("relbow_rx", "lelbow_rx", "rknee_rx", "lknee_rx"), strict=True):
            a.plot(system.t, np.rad2deg(angles[name]), "--", color="gray", label="recorded, filtered")
            a.plot(system.t, np.rad2deg(result.X[:, system.x_names.index(name)]), label="marionette")
            a.set(title=name, ylabel="degrees")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        for a in axes[1]:
            a.set(xlabel="time (s)")
        figure.savefig(options.out / "marionette_mocap.png")
    print("figure:", options.out / "marionette_mocap.png")


if __name__ == "__main__":
    main()
