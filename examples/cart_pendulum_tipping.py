"""A cart tips its inverted pendulum by 22.5 degrees and brings it back.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.2, Fig. 11.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

DT, STEPS, PEAK = 0.1, 100, 7 * np.pi / 8


def problem():
    """(system, cost, start, reference angle)."""
    system = da.System(da.MidpointVI(models.cart_pole(), DT, forcing="left"), steps=STEPS)
    t = DT * np.arange(STEPS + 1)
    theta = np.where((t >= 3) & (t < 7), np.pi + (PEAK - np.pi) * np.sin(np.pi / 4 * (t - 3)), np.pi)
    cost = da.TrackingCost({"theta": theta}, Q={"x": 100.0, "theta": 50000.0, "*": 0.1}, R=1.0)
    upright = np.tile([0.0, np.pi, 0.0, 0.0], (STEPS + 1, 1))
    return system, cost, (upright, np.zeros((STEPS, 1))), theta


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    system, cost, start, theta = problem()
    result = da.optimize(system, cost, start, method="projection")
    print(result.summary())
    limit = 0.7 * float(np.abs(result.U).max())
    limited = da.optimize(system, cost, start, bounds={"push": (-limit, limit)})
    print(
        f"with |push| <= {limit:.3f} N (the free optimum needs {np.abs(result.U).max():.3f}): {limited.status}, "
        f"cost {limited.cost:.4f}, largest push {np.abs(limited.U).max():.6f}, {limited.iterations} iterations"
    )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(2, 1, figsize=(6, 5), sharex=True, height_ratios=(2, 1), layout="constrained")
        a.plot(system.t, theta, "--", color="gray", label="reference")
        a.plot(system.t, np.zeros(STEPS + 1), "--", color="gray")
        a.plot(system.t, result.X[:, 1], label="angle (rad)")
        a.plot(system.t, result.X[:, 0], label="cart (m)")
        a.legend()
        b.step(system.t[:-1], result.U[:, 0], where="post", label="push (N)")
        b.step(system.t[:-1], limited.U[:, 0], where="post", label="push, limited (N)")
        b.set(xlabel="time (s)")
        b.legend()
        figure.savefig(out / "cart_pendulum_tipping.png")
    print("figure:", out / "cart_pendulum_tipping.png")


if __name__ == "__main__":
    main()
