"""A free rigid body that turns over: Euler's top, spun about its middle axis.

Linear momentum and the momentum about the first axis are symmetries that shift coordinates: they are kept to rounding.
The other components of the angular momentum are not such symmetries of Euler angles: their error is bounded and of
second order, as the energy's.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models


def run(dt: float, seconds: float) -> da.Trajectory:
    """The body drifts and spins about z, the axis of the middle moment, with a small disturbance."""
    # with the smallest moment about x the angular momentum never comes near the x axis, where Euler angles end
    body = models.free_top(inertia=(1.0, 2.5, 2.0))
    vi = da.MidpointVI(body, dt)
    return vi.simulate(vi.state(v={"top.rz": 4.0, "top.rx": 0.02, "top.tx": 0.3, "top.ty": 0.1}), time=seconds)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    motion = run(0.02, 200.0)
    linear, about_first = motion.momentum()[:, 3:], motion["p.top.rz"]
    print(f"200 s, {motion.steps} steps: linear momentum changes by {np.ptp(linear, axis=0).max():.1e} kg m/s")
    print(f"  momentum about the first axis changes by {np.ptp(about_first):.1e} kg m^2/s")
    rows = {}
    for dt in (0.04, 0.02, 0.01, 0.005):
        some = run(dt, 40.0)
        drift = some.momentum()[:, :3] - np.cross(some.q[:, :3], linear[0])  # about the centre of mass
        error = np.linalg.norm(drift - drift[0], axis=1).max() / np.linalg.norm(drift[0])
        rows[dt] = (error, abs(some.energy() / some.energy()[0] - 1).max())
        print(f"  dt = {dt:<6g} relative error of the angular momentum {error:.2e}, of the energy {rows[dt][1]:.2e}")
    table = np.array(list(rows.values()))
    print(f"  orders {np.log2(table[-2] / table[-1]).round(2)}")
    exact = da.simulate_continuous(motion.model, motion.q[0], motion.v[0], motion.t[motion.t <= 12.0])
    away = abs(da.pose(motion.model, exact.q, "top") - da.pose(motion.model, motion.q[: len(exact)], "top")).max()
    print(f"  largest difference to the continuous solution in 12 s {away:.2e}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    spin = da.pose(motion.model, motion.q, "top")[:, 2, 2]
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12, 3.5))
        first = motion.t <= 40
        a.plot(motion.t[first], spin[first])
        a.set(xlabel="time (s)", ylabel="cosine", title="Middle axis against the vertical")
        energy = motion.energy()
        b.plot(motion.t, energy / energy[0] - 1, lw=0.8)
        b.set(xlabel="time (s)", ylabel="relative error", title="Energy, 200 s at dt = 0.02 s")
        c.loglog(list(rows), table[:, 0], "-o", ms=4, label="angular momentum")
        c.loglog(list(rows), table[:, 1], "-s", ms=4, label="energy")
        c.loglog(
            list(rows), 0.5 * table[-1, 0] * (np.array(list(rows)) / 0.005) ** 2, ":", color="0.5", label="order 2"
        )
        c.set(xlabel="step (s)", ylabel="largest relative error", title="Second order")
        c.set_xticks(list(rows), [f"{x:g}" for x in rows])
        c.minorticks_off()
        c.legend()
        figure.savefig(args.out / "free_body.png")
    print("figure:", args.out / "free_body.png")


if __name__ == "__main__":
    main()
