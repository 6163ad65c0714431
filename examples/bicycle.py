"""A bicycle without hands: eigenvalues of the benchmark bicycle from the discrete step, and a push that it rides out.

Two rolling wheels, closed by the ground; the eigenvalues are those of the linearized step in the directions that rolling leaves, against
those of Meijaard, Papadopoulos, Ruina, Schwab (2007).
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

PUBLISHED = {
    "weave": -0.775341882195845 + 4.46486771378823j,
    "capsize": -0.322866429004087,
    "castering": -14.0783896927982,
}


def upright(vi: da.MidpointVI, speed: float) -> da.State:
    """Straight ahead at a speed (m/s)."""
    v = {"frame.vx": speed, "rear": -speed / 0.3, "front": -speed / 0.35}
    return vi.state(q=vi.model.neutral(), v=v)


def eigenvalues(model: da.Model, speed: float, dt: float, order: int) -> np.ndarray:
    """Of the motion straight ahead (1/s): x, y and the wheels' angles move on, but nothing depends on them."""
    vi = da.MidpointVI(model, dt, order=order)
    start = upright(vi, speed)
    x = np.concatenate([start.q, start.p])
    space = da.System(vi, steps=1).tangent(x[None])
    A, _ = vi.linearize(x, np.zeros(0))
    return np.log(np.linalg.eigvals(space.lower[0] @ A @ space.lift[0]).astype(complex)) / dt


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    model = da.models.bicycle()
    for order in (2, 4, 6):
        found = eigenvalues(model, 5.0, 0.01, order)
        errors = {name: abs(found - value).min() for name, value in PUBLISHED.items()}
        print(
            f"5 m/s, order {order}, dt = 0.01 s: " + ", ".join(f"{name} off by {e:.1e}" for name, e in errors.items())
        )

    vi = da.MidpointVI(model, 0.005)
    pushed = {}
    for speed in (3.5, 5.0):
        start = upright(vi, speed)
        v = start.v.copy()
        v[model.velocity_index("frame.wx")] += 0.3  # a push to the side
        v = da.consistent_velocity(model, start.q, v)
        motion = pushed[speed] = vi.simulate(
            vi.state(q=start.q, v=v), time=4.0 if speed > 4 else 1.5, accuracy="ignore"
        )
        energy = motion.energy()
        print(
            f"pushed at {speed} m/s: wheels leave the ground by {motion.constraint_violation().max():.0e} m, "
            f"energy within {abs(energy - energy[0]).max():.1e} J, "
            f"lean {np.degrees(motion['frame.rx'][-1]):.2f} degrees after {motion.t[-1]:g} s"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(11, 3.8))
        speeds = np.linspace(0.5, 10, 60)
        for speed in speeds:
            values = eigenvalues(model, float(speed), 0.005, 4)
            values = values[abs(values) > 0.02]
            a.plot(np.full(len(values), speed), values.real, ".", color="C0", ms=3)
        a.axvspan(4.29, 6.02, color="C2", alpha=0.15)
        a.axhline(0, color="0.6", lw=0.8)
        a.text(5.15, -9.3, "stable", ha="center", color="C2")
        a.set(
            ylim=(-10, 10), xlabel="speed (m/s)", ylabel="real parts (1/s)", title="Eigenvalues of the linearized step"
        )
        for speed, motion in pushed.items():
            b.plot(motion.t, np.degrees(motion["frame.rx"]), label=f"{speed} m/s")
        b.set(xlabel="time (s)", ylabel="lean (degrees)", title="After a push to the side", ylim=(-30, 30))
        b.legend()
        figure.savefig(args.out / "bicycle.png")
    print("figure:", args.out / "bicycle.png")


if __name__ == "__main__":
    main()
