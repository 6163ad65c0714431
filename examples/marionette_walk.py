"""A marionette with 40 variables on 6 strings follows a simulated walk.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.3, Fig. 12: the walk is simulated
by moving the strings of arms and legs; its configurations are the reference, its inputs are forgotten. The optimizer
starts from the marionette hanging still and finds the motion of 18 string inputs.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

DT = 0.01
SIGNS = {"left_leg": -1, "right_leg": 1, "left_arm": 1, "right_arm": -1}


def problem(steps: int = 1001):
    """(system, cost, start, reference X)."""
    model, configurations = models.load_with_configurations("marionette")
    q0 = configurations["q0"]
    vi = da.MidpointVI(model, DT, forcing="left")
    rest = np.tile(q0[model.nd :], (steps, 1))
    rho = rest.copy()
    t = DT * np.arange(steps)
    for limb, sign in SIGNS.items():
        rho[:, model.index(f"{limb}_string-length") - model.nd] += sign * 0.1 * np.sin(0.6 * np.pi * t)
    # the walk begins with two equal configurations (rest at dt/2), the start hangs from rest at its first instant
    walk = vi.simulate(vi.state(q=q0, q0=q0, t=DT), steps=steps, kinematic=rho)
    hang = vi.simulate(vi.state(q=q0, t=DT), steps=steps, kinematic=rest)
    system = da.System(vi, t=walk.t)
    Xd, Ud = system.from_trajectory(walk)
    Xd[:, model.nq :] = 0.0  # only the configurations are kept
    weights = np.ones(system.nx)
    weights[: model.nd] = 100.0
    cost = da.TrackingCost((Xd, np.zeros_like(Ud)), Q=weights, R=0.1)
    return system, cost, system.from_trajectory(hang), Xd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figures")
    parser.add_argument("--steps", type=int, default=1001, help="steps of 0.01 s")
    options = parser.parse_args()
    system, cost, start, Xd = problem(options.steps)
    results = {}
    for label, method, gains in (
        ("projection", "projection", "lq"),
        ("projection, LQR gains", "projection", "lqr"),
        ("Gauss-Newton", "quasi", "lq"),
        ("Gauss-Newton, LQR gains", "quasi", "lqr"),
    ):
        begun = time.perf_counter()
        r = results[label] = da.optimize(system, cost, start, method=method, gains=gains)
        print(
            f"{label:<23} {r.status}: cost {r.cost:.7f}, |Dg| {abs(r.slope):.1e}, {r.iterations} iterations, "
            f"{r.problem.sweeps} Riccati sweeps, {time.perf_counter() - begun:.2f} s"
        )
    best = results["projection"]
    print(best.summary())

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for i, (label, r) in enumerate(results.items()):  # wide below narrow: some histories coincide
            slope = [abs(row.slope) for row in r.history]
            a.semilogy([row.index for row in r.history], slope, ".-", lw=max(5 - 1.3 * i, 1), label=label)
        a.set(xlabel="iteration", ylabel="|Dg·d|", title="convergence")
        a.legend()
        for name in ("rknee_rx", "relbow_rx"):
            i = system.x_names.index(name)
            b.plot(system.t, best.X[:, i], lw=3, label=name)
            b.plot(system.t, Xd[:, i], "--", color="black", lw=1)
        b.set(xlabel="time (s)", ylabel="angle (rad)", title="reference (dashed) and optimum")
        b.legend()
        figure.savefig(options.out / "marionette_walk.png")
    print("figure:", options.out / "marionette_walk.png")


if __name__ == "__main__":
    main()
