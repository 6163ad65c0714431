"""A quadruped from a URDF file, in free fall on its back, turns over without angular momentum: legs out and round one way, drawn in and back.

Its legs swing to one side while they are long and back while they are short; the body turns the other way, more in the first half than
back in the second. Without --urdf it takes Unitree's Go2 of the package example-robot-data, where that is installed.
"""

import argparse
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import dalembert as da
from dalembert.model.frames import flatten, unflatten

CYCLES, PERIOD = 12, 0.1  # how often, s
LEGS = ("FL", "FR", "RL", "RR")


def public_robot() -> Path | None:
    """The file of the Go2, if it is there."""
    try:
        package = distribution("example-robot-data")
    except PackageNotFoundError:
        return None
    file = Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots/go2_description/urdf/go2.urdf")))
    return file if file.is_file() else None


def quadruped(file: Path) -> da.Model:
    """The robot, floating, with the joints of its legs prescribed; seen by someone who falls with it, without gravity."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", da.ModelWarning
        )  # contacts and the largest torques, of which there are none here
        robot = da.load(file, root="free", gravity=None)
    rows = []
    for parent, transform, value, *rest in flatten(robot.frames):
        moved = da.Kinematic(value) if value in robot.limits else value
        rows.append((parent, transform, moved, *rest))
    model = da.Model(unflatten(rows), name=robot.name)
    return model


def shape(model: da.Model, swing: float, t: float) -> np.ndarray:
    """Angles of the legs (nk,): round by up to `swing`, long on the way out and short on the way back, from rest to rest."""
    s = np.clip(t / (CYCLES * PERIOD), 0.0, 1.0)
    phase = 2 * np.pi * CYCLES * s
    size = min(1.0, 2 * CYCLES * s, 2 * CYCLES * (1 - s))
    size = size * size * (3 - 2 * size)
    drawn = 0.5 + 0.5 * np.cos(phase)
    angles = {"hip": size * swing * np.sin(phase), "thigh": 0.2 + 1.1 * drawn, "calf": -0.9 - 1.7 * drawn}
    found = {f"{leg}_{joint}_joint": angle for leg in LEGS for joint, angle in angles.items()}
    return np.array([found[name] for name in model.kinematic])


def fall(vi: da.MidpointVI, swing: float) -> da.Trajectory:
    """From rest, on its back."""
    model = vi.model
    q = model.configuration.point({"base": [np.pi, 0.0, 0.0]})
    q[model.nqd :] = shape(model, swing, 0.0)
    moved = lambda t: shape(model, swing, t)  # noqa: E731
    return vi.simulate(vi.state(q=q), time=CYCLES * PERIOD, kinematic=moved, accuracy="ignore")


def turned(motion: da.Trajectory) -> np.ndarray:
    """How far the body has turned about its long axis (N+1,) in rad: where its left side points."""
    R = da.rotation.matrix(motion.q[:, 3:7])
    roll = np.unwrap(np.arctan2(R[:, 2, 1], R[:, 2, 2]))
    return np.asarray((roll - roll[0]) * np.sign(roll[-1] - roll[0]))


def spin_of(motion: da.Trajectory) -> np.ndarray:
    """Angular momentum (N+1, 3) about the centre of mass, world axes: the momenta of the floating base are those of the whole robot."""
    model = motion.model
    masses = np.array([0.0 if e.frame is None else e.frame.mass for e in model.frame_entries])
    coms = np.array([(0.0,) * 3 if e.frame is None else e.frame.com for e in model.frame_entries])
    poses = np.array([da.mechanics.poses(model, q) for q in motion.q])
    places = poses[:, :, :3, 3] + np.einsum("nfij,fj->nfi", poses[:, :, :3, :3], coms)
    middle = np.einsum("f,nfc->nc", masses, places) / masses.sum()
    R = da.rotation.matrix(motion.q[:, 3:7])
    return np.einsum("nij,nj->ni", R, motion.p[:, 3:6]) - np.cross(middle - motion.q[:, :3], motion.p[:, :3])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument(
        "--urdf", type=Path, help="a quadruped whose joints are called as the Go2's (FL_hip_joint, ...)"
    )
    args = parser.parse_args(argv)
    file = args.urdf or public_robot()
    if file is None:
        print("no robot: pip install example-robot-data, or give --urdf")
        return
    vi = da.MidpointVI(quadruped(file), 0.0025)
    swings = np.linspace(0.1, 1.0, 7)
    all_turned = np.array([turned(fall(vi, s))[-1] for s in swings])
    over = all_turned > np.pi
    swing = (
        brentq(lambda s: turned(fall(vi, s))[-1] - np.pi, 0.1, swings[int(np.argmax(over))], xtol=1e-6)
        if over.any()
        else swings[-1]
    )
    motion = fall(vi, swing)
    drop = 9.81 * (CYCLES * PERIOD) ** 2 / 2
    print(
        f"hips that swing by {np.degrees(swing):.1f} degrees turn it by {np.degrees(turned(motion)[-1]):.2f} degrees while it falls {drop:.1f} m"
    )
    up = da.rotation.matrix(motion.q[-1, 3:7])[2, 2]
    print(f"its back is {np.degrees(np.arccos(np.clip(up, -1, 1))):.1f} degrees from upward at the end")
    print(f"angular momentum about the centre of mass: at most {np.abs(spin_of(motion)).max():.0e} kg m^2/s")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    model = vi.model
    with style():
        figure, axes = plt.subplot_mosaic([["a", "a"], ["b", "c"]], figsize=(10.5, 5.6), height_ratios=(0.8, 1.2))
        a, b, c = (axes[name] for name in "abc")
        for n, k in enumerate(np.linspace(0, motion.steps, 9).astype(int)):
            place = da.positions(model, motion.q[k])[:, 1:] + np.array([0.8 * n, 0.0])
            for leg in LEGS:
                points = np.array(
                    [place[model.frame_index(f"{leg}_{part}")] for part in ("hip", "thigh", "calf", "foot")]
                )
                a.plot(points[:, 0], points[:, 1], color="C1" if leg[1] == "L" else "C2", lw=1.5)
            hips = np.array([place[model.frame_index(f"{leg}_hip")] for leg in ("FL", "FR")])
            a.plot(hips[:, 0], hips[:, 1], color="C0", lw=6, solid_capstyle="round")
        a.set_aspect("equal")
        a.set_title(f"From behind, every {CYCLES * PERIOD / 8:.2f} s")
        a.axis("off")
        b.plot(motion.t, np.degrees(turned(motion)), label="turned")
        b.plot(motion.t, np.degrees(motion["FL_hip_joint"]), lw=1, label="hips")
        b.set(xlabel="time (s)", ylabel="degrees", title="Angles")
        b.legend()
        c.plot(np.degrees(swings), np.degrees(all_turned), "-o", ms=3)
        c.axhline(180, color="0.6", lw=0.8)
        c.set(xlabel="swing of the hips (degrees)", ylabel="turned (degrees)", title="What a swing turns")
        figure.savefig(args.out / "falling_quadruped.png")
    print("figure:", args.out / "falling_quadruped.png")


if __name__ == "__main__":
    main()
