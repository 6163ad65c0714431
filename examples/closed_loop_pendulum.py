"""Swing-up of a pendulum, and the regulator that keeps it on the optimal motion.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, section VIII-A, Fig. 4: an
infeasible step from hanging to upright is optimized to a motion, an LQR is designed along it (eq. 36), and the closed
loop (eq. 37) starts from the perturbed state (1, 1).
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models


def swing_up():
    """(system, infeasible reference Xd, optimal X, U)."""
    system = da.System(da.MidpointVI(models.pendulum(), dt=0.1, forcing="left"), steps=100)
    Xd, Ud = np.zeros((101, 2)), np.zeros((100, 1))
    Xd[50:, 0] = np.pi
    cost = da.TrackingCost((Xd, Ud), Q=[1000.0, 1.0], R=[50.0])
    result = da.optimize(system, cost, (np.zeros((101, 2)), np.zeros((100, 1))), method="projection")
    return system, Xd, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    system, Xd, result = swing_up()
    X, U = result.X, result.U
    print(f"optimal swing-up: cost {result.cost:.6f} after {len(result.history) - 1} steps, {result.status}")

    law = da.lqr(system, (X, U), Q=1.0, R=1.0)
    closed, Uc = system.project(X, U, law.K, x0=[1.0, 1.0])
    opened = system.simulate(np.array([1.0, 1.0]), U)
    print("gain at the start:", law.K[0].ravel(), " at the end:", law.K[-1].ravel())
    errors = [np.linalg.norm(Y[-1] - X[-1]) for Y in (closed, opened)]
    print(f"final error: closed loop {errors[0]:.4g}, open loop {errors[1]:.4g}")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(2, 1, figsize=(6, 5), sharex=True, height_ratios=(2, 1))
        a.step(system.t, Xd[:, 0], ":", where="post", color="gray", label="infeasible reference")
        a.plot(system.t, X[:, 0], label="feasible reference")
        a.plot(system.t, closed[:, 0], "--", label="closed loop from (1, 1)")
        a.plot(system.t, opened[:, 0], "-.", label="open loop from (1, 1)")
        a.set(ylabel="angle (rad)")
        a.legend()
        b.step(system.t[:-1], U[:, 0], where="post", label="feasible reference")
        b.step(system.t[:-1], Uc[:, 0], "--", where="post", label="closed loop")
        b.set(xlabel="time (s)", ylabel="torque (N m)")
        figure.savefig(out / "closed_loop_pendulum.png")
    print("figure:", out / "closed_loop_pendulum.png")


if __name__ == "__main__":
    main()
