"""A cart swings its hanging pendulum past the horizontal, with the help of a torque that does not exist.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.1, Fig. 9. When the pendulum is
horizontal the cart cannot turn it, and an optimization that starts from rest may stop below. A fictitious torque, cheap
at first, then so expensive that it is not used, leads past the singularity.

Two references: up to 130 degrees with weights 100 : 0.01, as in the paper's program, and the true inversion, up to 180
degrees, with the largest ratio that the paper prints, 10^3 : 10^-3. With that ratio the way without the fictitious torque,
directly from rest, also leads to the inversion.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models
from dalembert.optimization import continuation, fictitious_stages

DT, STEPS = 0.01, 999
WEIGHTS = (0.01, 100.0, 1e6)
PROGRAM, PRINTED = (130.0, 100.0, 0.01), (180.0, 1e3, 1e-3)  # degrees, weight of the angle, of all else


def reference(degrees: float = PROGRAM[0]) -> np.ndarray:
    """Angle: up to so many degrees and back between 3 s and 7 s."""
    t = DT * np.arange(STEPS + 1)
    return np.where((t >= 3) & (t <= 7), (1 - np.cos(np.pi / 2 * (t - 3))) * np.deg2rad(degrees) / 2, 0.0)


def model() -> da.Model:
    """Cart of 10 kg, pendulum of 1 kg, slight damping."""
    plain = models.cart_pole(cart_mass=10.0)
    return da.Model(plain.frames, [*plain.elements, da.Damping(0.01)])


def stages(degrees: float = PROGRAM[0], high: float = PROGRAM[1], low: float = PROGRAM[2]):
    """Three stages with the torque, the last one without it."""
    cost = da.TrackingCost({"theta": reference(degrees)}, Q={"theta": high, "*": low}, R={"push": low})
    return fictitious_stages(
        model(),
        lambda m: da.System(da.MidpointVI(m, DT, forcing="left"), steps=STEPS),
        {"theta": "helper"},
        WEIGHTS,
        cost,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    rest = np.zeros((STEPS + 1, 4)), np.zeros((STEPS, 2))
    runs = {}
    for setting in (PROGRAM, PRINTED):
        degrees, high, low = setting
        print(f"up to {degrees:g} degrees, weights {high:g} : {low:g}")
        sequence = stages(*setting)
        results = continuation(sequence, rest, method="projection")
        for stage, r in zip(sequence, results, strict=True):
            helper = f", largest helper {np.abs(r.U[:, 1]).max():.2e} N m" if r.U.shape[1] == 2 else ""
            print(
                f"  {stage.label:<22} {r.status}: cost {r.cost:.6f}, |Dg| {abs(r.slope):.1e}, {r.iterations} iterations, "
                f"{r.seconds:.2f} s, up to {np.rad2deg(r.X[:, 1].max()):.2f} degrees{helper}"
            )
        last = sequence[-1]
        direct = da.optimize(last.system, last.cost, (rest[0], rest[1][:, :1]), method="projection")
        print(
            f"  {'directly from rest':<22} {direct.status}: cost {direct.cost:.6f}, {direct.iterations} iterations, up to "
            f"{np.rad2deg(direct.X[:, 1].max()):.2f} degrees"
        )
        runs[setting] = sequence, results, direct

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(
            2, 2, figsize=(11, 6), sharex=True, sharey="row", height_ratios=(2, 1), layout="constrained"
        )
        for (a, b), (setting, (sequence, results, direct)) in zip(axes.T, runs.items(), strict=True):
            degrees, high, low = setting
            t = sequence[-1].system.t
            a.plot(t, reference(degrees) * 180 / np.pi, ":", color="black", lw=2.5, zorder=5, label="reference")
            for stage, r in zip(sequence, results, strict=True):
                a.plot(t, np.rad2deg(r.X[:, 1]), label=stage.label)
            a.plot(t, np.rad2deg(direct.X[:, 1]), "--", label="directly from rest")
            a.axhline(90, color="gray", lw=0.8)
            a.set(title=f"up to {degrees:g}°, weights {high:g} : {low:g}")
            b.plot(t, results[-1].X[:, 0], label="cart (m)")
            b.plot(t[:-1], results[-1].U[:, 0] / 100, label="push (100 N)")
            b.set(xlabel="time (s)")
        axes[0, 0].set(ylabel="angle (degrees)")
        axes[0, 0].legend(loc="upper left", fontsize=8)
        axes[1, 0].legend(loc="lower left")
        figure.savefig(out / "cart_pendulum_inversion.png")
    print("figure:", out / "cart_pendulum_inversion.png")


if __name__ == "__main__":
    main()
