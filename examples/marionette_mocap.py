"""A marionette follows recorded joint angles of somebody walking in place.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.3, Figs 13 and 14, where a depth
camera recorded a student. The recording here, data/walking_in_place.csv, is synthetic: joint angles in degrees at 30
Hz with the noise, jumps and gaps that such a camera makes; `--recording` takes another CSV file with the same columns, or
a BVH file with the usual names of joints.

Two optimizations: with soft weights, and from there with firm ones, which keep the recorded joints within a degree. The
film shows the recording beside the marionette.
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
BVH_COLUMNS = {
    f"{side[0]}{ours}_rx": (f"{side.capitalize()}{theirs}.Xrotation", scale, 0.0)
    for side in ("left", "right")
    for ours, theirs, scale in (
        ("hip", "UpLeg", 1.0), ("knee", "Leg", -1.0), ("shoulder", "Arm", 1.0), ("elbow", "ForeArm", 1.0),
    )
}  # fmt: skip
# weights of recorded joints, of other joints, of string speeds, of momenta and string lengths, of inputs
SOFT, FIRM = (100.0, 100.0, 10.0, 1.0, 0.1), (1000.0, 10.0, 3.0, 0.1, 0.01)


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


def problem(file: Path, seconds: float, weights: tuple[float, ...] = SOFT):
    """(system, cost, start, recorded angles at the time steps)."""
    model, configurations = models.load_with_configurations("marionette")
    q0 = configurations["q0"]
    steps = round(seconds / DT)
    vi = da.MidpointVI(model, DT, forcing="left")
    system = da.System(vi, steps=steps)
    columns = BVH_COLUMNS if file.suffix.lower() == ".bvh" else COLUMNS
    angles = read_motion(file, columns, DT * np.arange(steps + 1), degrees=True, cutoff=4.0)
    hang = vi.simulate(vi.state(q=q0), steps=steps, kinematic=np.tile(q0[model.nd :], (steps, 1)))
    reference = {name: float(q0[model.index(name)]) for name in model.variables} | angles
    # the rest of the body and the strings shall stay where they are; momenta and velocities shall be small
    Xd = np.zeros((steps + 1, system.nx))
    for name, value in reference.items():
        Xd[:, system.x_names.index(name)] = value
    Ud = np.tile(q0[model.nd :], (steps, 1))
    recorded, other, speed, momentum, effort = weights
    # winches that may jerk would kick a leg through its singularity in a single step: their velocities cost more
    Q = dict.fromkeys(model.dynamic, other) | dict.fromkeys(angles, recorded)
    Q |= {f"v.{name}": speed for name in model.kinematic} | {"*": momentum}
    return system, da.TrackingCost((Xd, Ud), Q=Q, R=effort), system.from_trajectory(hang), angles


def recorded_motion(system, angles, beside: float):
    """The body of the marionette, without strings, posed as recorded, at a distance (m) beside it."""
    model, configurations = models.load_with_configurations("marionette")
    body = da.Model([da.tx(beside, model.frames[0])], [], name="recording")
    q = np.tile([configurations["q0"][model.index(name)] for name in body.variables], (system.steps + 1, 1))
    for name, values in angles.items():
        q[:, body.index(name)] = values
    none = np.zeros((system.steps, 0))
    return da.Trajectory(body, np.asarray(system.t), q, np.zeros((len(q), body.nd)), none, none, none)


def rms(system, X, angles) -> dict[str, float]:
    """Root mean square difference to the recording in degrees, by joint."""
    return {
        name: float(np.rad2deg(np.sqrt(np.mean((X[:, system.x_names.index(name)] - a) ** 2))))
        for name, a in angles.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure and the film")
    parser.add_argument("--recording", type=Path, default=RECORDING, help="joint angles in degrees, CSV or BVH")
    parser.add_argument("--seconds", type=float, default=9.8, help="length of the motion")
    options = parser.parse_args()
    if options.recording == RECORDING and not RECORDING.exists():
        write_recording(RECORDING)
    results = {}
    begin = None
    for title, weights in (("soft", SOFT), ("firm", FIRM)):
        system, cost, start, angles = problem(options.recording, options.seconds, weights)
        result = results[title] = da.optimize(system, cost, begin or start, method="projection", tolerance=1e-2)
        begin = (result.X, result.U)
        print(
            f"{title} weights: {result.status} after {result.iterations} iterations, {result.seconds:.1f} s, cost "
            f"{result.cost:.4f}; fastest string {np.abs(np.diff(result.U, axis=0)).max() / DT:.2f} m/s"
        )
        errors = rms(system, result.X, angles)
        print("  root mean square error (degrees):", ", ".join(f"{k} {v:.2f}" for k, v in errors.items()))

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(2, 2, figsize=(9, 5.5), sharex=True, layout="constrained")
        for a, name in zip(axes.flat, ("relbow_rx", "lelbow_rx", "rknee_rx", "lknee_rx"), strict=True):
            a.plot(
                system.t, np.rad2deg(angles[name]), "--", color="black", lw=1.2, zorder=5, label="recorded, filtered"
            )
            for title, r in results.items():
                a.plot(system.t, np.rad2deg(r.X[:, system.x_names.index(name)]), label=f"marionette, {title} weights")
            a.set(title=name, ylabel="degrees")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        for a in axes[1]:
            a.set(xlabel="time (s)")
        figure.savefig(options.out / "marionette_mocap.png")
    film = options.out / "marionette_mocap.gif"
    pair = [recorded_motion(system, angles, -0.7), system.trajectory(result.X, result.U)]
    da.export_gif(pair, film, fps=10, size=(520, 520), plot=False, names=["recording", "marionette"])
    print("figure:", options.out / "marionette_mocap.png", "film:", film)


if __name__ == "__main__":
    main()
