"""A cat that falls on its back turns round without angular momentum: it bends, and lets the bend go once round its body.

Front and rear are joined by a ball joint with a prescribed rotation, a bend without twist; the front floats. What the cat turns is the
holonomy of the loop that its shape goes through (Kane, Scher 1969).
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import dalembert as da

TIME = 0.6


def cat() -> da.Model:
    """Two cylinders of 2 kg along x with legs, joined in the middle of the back; seen by someone who falls with it, without gravity."""
    inertia = (0.0036, 0.0122, 0.0122)
    legs = {"mass": 0.15, "inertia": (2e-4, 2e-4, 5e-5)}
    front_legs = [
        da.tx(0.14, da.ty(y, da.tz(-0.12, name=f"front leg {s}", **legs))) for y, s in ((0.05, "l"), (-0.05, "r"))
    ]
    rear_legs = [
        da.tx(-0.14, da.ty(y, da.tz(-0.12, name=f"rear leg {s}", **legs))) for y, s in ((0.05, "l"), (-0.05, "r"))
    ]
    head = da.tx(0.3, da.tz(0.05, name="head", mass=0.3, inertia=(3e-4, 3e-4, 3e-4)))
    rear = da.ball(da.Kinematic("spine"), da.tx(-0.125, name="rear", mass=2.0, inertia=inertia), *rear_legs)
    front = da.tx(0.125, name="front", mass=2.0, inertia=inertia)
    return da.Model([da.floating("back", front, head, *front_legs, rear)], name="cat")


def bend(angle: float, t: float) -> np.ndarray:
    """The spine's quaternion: bent by up to `angle`, in a direction that goes once round the body, smoothly from rest to rest."""
    s = np.clip(t / TIME, 0.0, 1.0)
    size = angle * np.sin(np.pi * s) ** 2 / (0.2 + 0.8 * np.sin(np.pi * s) ** 2)
    round_ = 2 * np.pi * (10 * s**3 - 15 * s**4 + 6 * s**5)
    return da.rotation.exponential(size * np.array([0.0, np.cos(round_), np.sin(round_)]))


def fall(vi: da.MidpointVI, angle: float) -> da.Trajectory:
    """From rest, on its back."""
    start = vi.state(q={"back": [np.pi, 0.0, 0.0], "spine": bend(angle, 0.0)})
    return vi.simulate(start, time=TIME, kinematic=lambda t: bend(angle, t), accuracy="ignore")


def turned(motion: da.Trajectory) -> float:
    """How far the back has turned about the body's axis (rad)."""
    return float(abs(motion["back.rx"][-1] - np.pi))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    vi = da.MidpointVI(cat(), 0.005, order=4)
    angles = np.radians(np.arange(10.0, 131.0, 10.0))
    all_turned = np.array([turned(fall(vi, a)) for a in angles])
    above = int(np.argmax(all_turned > np.pi))
    angle = brentq(lambda a: turned(fall(vi, a)) - np.pi, angles[above - 1], angles[above], xtol=1e-6)
    motion = fall(vi, angle)
    bodies = [e.frame for e in vi.model.frame_entries[1:] if e.frame is not None]
    place = np.array([da.positions(vi.model, q) for q in motion.q])
    masses = np.array([0.0, *(f.mass for f in bodies)])
    middle = np.einsum("f,nfc->nc", masses, place) / masses.sum()
    # the momenta of the floating front are those of the whole cat: linear, and angular about the joint along body axes
    linear, R = motion.p[:, :3], da.rotation.matrix(motion.q[:, 3:7])
    spin = np.einsum("nij,nj->ni", R, motion.p[:, 3:6]) - np.cross(middle - motion.q[:, :3], linear)
    drop = 9.81 * TIME**2 / 2
    print(
        f"bent by {np.degrees(angle):.1f} degrees it turns by {np.degrees(turned(motion)):.2f} degrees while it falls {drop:.2f} m"
    )
    print(f"angular momentum about the centre of mass: at most {np.abs(spin).max():.0e} kg m^2/s")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplot_mosaic([["a", "a"], ["b", "c"]], figsize=(10.5, 5.6), height_ratios=(0.8, 1.4))
        a, b, c = (axes[name] for name in "abc")
        names = ["head", "front", "back", "rear"]
        for n, k in enumerate(np.linspace(0, motion.steps, 6).astype(int)):
            shift = np.array([0.65 * n, 0.0, 0.0])
            at = {f.name: place[k, i + 1] - middle[k] + shift for i, f in enumerate(bodies) if f.name}
            at["back"] = motion.q[k, :3] - middle[k] + shift
            body = np.array([at[name] for name in names])
            a.plot(body[:, 0], body[:, 2], color="C0", lw=5, solid_capstyle="round")
            for part, legs in (("front", "front leg"), ("rear", "rear leg")):
                for s in "lr":
                    leg = np.array([at[part], at[f"{legs} {s}"]])
                    a.plot(leg[:, 0], leg[:, 2], color="C1", lw=1.5)
        a.set_aspect("equal")
        a.set_title("From the side, every 0.12 s")
        a.axis("off")
        b.plot(motion.t, np.degrees(np.abs(motion["back.rx"] - np.pi)), label="turned")
        b.plot(
            motion.t,
            np.degrees(np.linalg.norm(da.rotation.logarithm(motion.q[:, 7:]), axis=1)),
            label="bend of the spine",
        )
        b.set(xlabel="time (s)", ylabel="degrees", title="Angles")
        b.legend()
        c.plot(np.degrees(angles), np.degrees(all_turned), "-o", ms=3)
        c.axhline(180, color="0.6", lw=0.8)
        c.set(xlabel="bend (degrees)", ylabel="turned (degrees)", title="What a bend turns")
        figure.savefig(args.out / "falling_cat.png")
    print("figure:", args.out / "falling_cat.png")


if __name__ == "__main__":
    main()
