"""Orders 2, 4 and 6 on a closed chain: error and computing time against the step, and energy over a long time.

The closed-chain device of Johnson, Murphey, Scalable variational integrators, Fig. 6, from rest. Steps of order 4 and 6 are composed of 5
and 9 midpoint steps (Suzuki; Kahan and Li), so they keep constraints and energy as the midpoint step does.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

ORDERS = (2, 4, 6)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--time", type=float, default=60.0, help="seconds of the long motion")
    args = parser.parse_args(argv)
    model, configurations = models.load_with_configurations("closed_chain")
    start = configurations["q0"]

    def motion(order: int, dt: float, seconds: float, every: int = 1) -> tuple[da.Trajectory, float]:
        vi = da.MidpointVI(model, dt, order=order)
        state = vi.state(start)
        steps = round(seconds / dt / every) * every
        begun = time.perf_counter()
        found = vi.simulate(
            state, steps, every=every, accuracy="ignore"
        )  # long steps are wanted, their errors are measured
        return found, time.perf_counter() - begun

    # errors after half a second, before the motion becomes chaotic
    seconds, lengths = 0.5, (0.05, 0.025, 0.0125, 0.00625, 0.003125)
    exact = motion(6, 0.001, seconds)[0].q[-1]
    errors, spent = np.empty((3, len(lengths))), np.empty((3, len(lengths)))
    for i, order in enumerate(ORDERS):
        for k, dt in enumerate(lengths):
            motion(order, dt, seconds)
            out, spent[i, k] = motion(order, dt, seconds)
            errors[i, k] = np.abs(out.q[-1] - exact).max()
        slope = np.polyfit(np.log(lengths[-3:]), np.log(errors[i, -3:]), 1)[0]
        print(
            f"order {order}: error {errors[i, 0]:.1e} rad at dt = {lengths[0]:g}, {errors[i, -1]:.1e} at {lengths[-1]:g}; slope {slope:.2f}"
        )

    # energy over a long time, at steps of about the same cost
    energies = {}
    for order, dt in ((2, 0.0005), (4, 0.0025), (6, 0.005)):
        out, cost = motion(order, dt, args.time, every=round(0.1 / dt))
        e = out.energy()
        energies[order] = (dt, out.t, np.abs(e - e[0]))
        half = len(e) // 2
        print(
            f"order {order}, dt = {dt:g}: {args.time:g} s in {cost:.2f} s, largest energy error {energies[order][2].max():.1e} J "
            f"(median {np.median(energies[order][2][1:]):.1e}), drift of the mean {e[half:].mean() - e[:half].mean(): .1e} J, "
            f"constraints {out.constraint_violation()[1:].max():.1e}"
        )

    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(13, 3.8))
        for i, order in enumerate(ORDERS):
            a.loglog(lengths, errors[i], "o-", ms=4, label=f"order {order}")
            b.loglog(1e3 * spent[i], errors[i], "o-", ms=4, label=f"order {order}")
            dt, t, error = energies[order]
            c.semilogy(t[1:], np.maximum(error[1:], 1e-17), lw=0.8, label=f"order {order}, dt = {dt:g} s")
        a.set(xlabel="step (s)", ylabel="error of the joints (rad)", title=f"Error after {seconds:g} s")
        b.set(xlabel="computing time (ms)", ylabel="error of the joints (rad)", title="Error against time spent")
        c.set(xlabel="time (s)", ylabel="|energy − start| (J)", title="Energy, steps of similar cost")
        for axis, place in ((a, "lower right"), (b, "upper right"), (c, "upper right")):
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.legend(loc=place)
        a.set_xticks(lengths[::2], labels=[f"{dt:g}" for dt in lengths[::2]])
        c.set_ylim(1e-12, 1e-1)  # room for the legend
        figure.savefig(args.out / "higher_order.png")
    print("figure:", args.out / "higher_order.png")


if __name__ == "__main__":
    main()
