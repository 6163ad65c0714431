"""Damped, driven and shaken pendulums: forces as inputs, damping, and a pivot with prescribed motion.

Left: damping and a sinusoidal torque; the error of a step is second order with the split force, first order with the
whole force at the left end (the convention of trep). Right: the pivot is a kinematic variable; shaken fast enough, the
pendulum stands upside down (Kapitza; upright is stable when amplitude * frequency > sqrt(2 g length)).
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

OMEGA, TORQUE = 2.0, 6.0


def driven() -> da.Model:
    """A pendulum with friction and a motor."""
    return da.Model(
        [da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))],
        [da.Gravity((0, 0, -9.8)), da.Damping(0.4), da.ConfigForce("theta", input="torque")],
        "driven pendulum",
    )


def shaken() -> da.Model:
    """A pendulum below a pivot whose height is prescribed."""
    return da.Model(
        [da.tz(da.Kinematic("height"), da.rx("theta", da.tz(-1.0, name="bob", mass=1.0)), name="pivot")],
        [da.Gravity((0, 0, -9.8)), da.Damping(0.05)],
        "shaken pendulum",
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    model = driven()
    steps = (0.1, 0.05, 0.025, 0.0125, 0.00625)
    errors: dict[str, list[float]] = {"split": [], "left": []}
    for forcing, row in errors.items():
        for dt in steps:
            vi = da.MidpointVI(model, dt, forcing=forcing)
            # the torque is held over a step, so it is taken at the step's middle: exact to second order
            motion = vi.simulate(
                vi.state({"theta": 1.0}), time=5.0, u=lambda t, h=dt: [TORQUE * np.cos(OMEGA * (t + h / 2))]
            )
            truth = da.simulate_continuous(model, [1.0], [0.0], motion.t, u=lambda t: [TORQUE * np.cos(OMEGA * t)])
            row.append(float(abs(motion["theta"] - truth["theta"]).max()))
    for forcing, row in errors.items():
        order = np.log2(row[-2] / row[-1])
        print(f"driven, forcing {forcing!r}: error {row[0]:.1e} ... {row[-1]:.1e} rad, order {order:.2f}")
    vi = da.MidpointVI(model, 0.02)
    swing = vi.simulate(vi.state({"theta": 1.0}), time=60, u=lambda t: [TORQUE * np.cos(OMEGA * (t + 0.01))])

    kapitza, fast, dt = shaken(), 60.0, 0.002
    runs = {}
    for amplitude in (0.05, 0.10):
        vi = da.MidpointVI(kapitza, dt)
        start = vi.state({"theta": np.pi - 0.3, "height": amplitude})
        runs[amplitude] = vi.simulate(start, time=12, kinematic=lambda t, a=amplitude: [a * np.cos(fast * t)])
        angle = runs[amplitude]["theta"] - np.pi
        bound = np.sqrt(2 * 9.8) / fast
        last = abs(angle[-1000:]).max()
        print(
            f"shaken by {amplitude:g} m at {fast:g} rad/s (upright is stable above {bound:.3f} m): "
            f"{last:.2f} rad from upright at the end"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12, 3.6))
        v = np.gradient(swing["theta"], swing.t)
        wrapped = (swing["theta"] + np.pi) % (2 * np.pi) - np.pi
        a.plot(wrapped, v, ".", ms=1.2, color="C0")
        a.set(xlabel="angle (rad)", ylabel="rate (rad/s)", title="Damped and driven, 60 s")
        for forcing, marker in (("split", "-o"), ("left", "--s")):
            b.loglog(steps, errors[forcing], marker, ms=4, label=f'forcing "{forcing}"')
        b.set(xlabel="step (s)", ylabel="largest error in 5 s (rad)", title="Order of the forced step")
        b.legend()
        for amplitude, run in runs.items():
            c.plot(run.t, run["theta"] - np.pi, lw=1, label=f"{100 * amplitude:.0f} cm")
        c.set(xlabel="time (s)", ylabel="angle from upright (rad)", title="Pivot shaken at 60 rad/s", ylim=(-8.5, 2))
        c.legend(title="amplitude of the pivot", ncols=2, loc="lower center")
        figure.savefig(args.out / "driven_pendulum.png")
    print("figure:", args.out / "driven_pendulum.png")


if __name__ == "__main__":
    main()
