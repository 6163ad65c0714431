"""Swing-up of a pendulum: Newton's method against steepest descent on the space of motions.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, section VIII-A, Fig. 3
(convergence) and the feasible reference of Fig. 4; Schultz, Johnson, Murphey, Trajectory optimization in discrete
mechanics, Fig. 7 (cost along a descent direction).
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models


def problem():
    """(system, cost, start): a step reference from hanging to upright, from rest."""
    system = da.System(da.MidpointVI(models.pendulum(), dt=0.1, forcing="left"), steps=100)
    Xd = np.zeros((101, 2))
    Xd[50:, 0] = np.pi
    cost = da.TrackingCost((Xd, np.zeros((100, 1))), Q=[1000.0, 1.0], R=[50.0])
    return system, cost, (np.zeros((101, 2)), np.zeros((100, 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figures")
    out = parser.parse_args().out
    system, cost, start = problem()
    da.optimize(system, cost, start)  # first call: imports and caches

    results = {}
    for method in ("auto", "newton", "quasi", "steepest"):
        schedule = ["quasi", "steepest"] if method == "steepest" else method  # as the paper's first-order run
        begun = time.perf_counter()
        results[method] = da.optimize(system, cost, start, method=schedule, max_iterations=2000)
        spent = 1e3 * (time.perf_counter() - begun)
        r = results[method]
        print(
            f"{method:>9}: {r.status} after {r.iterations:4d} iterations, {spent:8.1f} ms "
            f"({spent / (r.iterations + 1):.2f} ms each), cost {r.cost:.7f}, |Dg| {abs(r.slope):.1e}"
        )
    print(results["auto"].summary())

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for i, (method, r) in enumerate(results.items()):  # wide below narrow: some histories coincide
            slope = [max(abs(row.slope), 1e-12) for row in r.history]
            a.loglog([1 + row.index for row in r.history], slope, lw=(4.5, 1.8, 1.8, 1.8)[i], label=method)
        a.axhline(1e-6, color="gray", ls=":")
        a.set(xlabel="iteration", ylabel="|Dg·d|", title="convergence")
        a.legend()
        best = results["auto"]
        b.step(system.t, np.where(np.arange(101) < 50, 0, np.pi), ":", where="post", color="gray", label="reference")
        b.plot(system.t, best.X[:, 0], label="angle (rad)")
        b.step(system.t[:-1], best.U[:, 0] / 10, where="post", label="torque (10 N m)")
        b.set(xlabel="time (s)", title="optimal motion")
        b.legend()
        figure.savefig(out / "pendulum_swing_up.png")
        best.descent_plot("quasi", X=start[0], U=start[1]).savefig(out / "pendulum_descent.png")
    print("figures:", out / "pendulum_swing_up.png", out / "pendulum_descent.png")


if __name__ == "__main__":
    main()
