"""LQR for a marionette with 40 configuration variables on 6 strings.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, section VIII-B, Figs 6 and 7: a
motion of 10 s with the strings of arms and legs moving by +-0.1 sin(0.6 pi t), an LQR along it (100 on configurations,
1 else), and a perturbation of 0.1 rad of the torso with and without feedback.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

SIGNS = {"left_leg": -1, "right_leg": 1, "left_arm": 1, "right_arm": -1}


def motion(steps: int = 1000, dt: float = 0.01):
    """(system, X, U) of the reference motion."""
    model, configurations = models.load_with_configurations("marionette")
    q0 = configurations["q0"]
    vi = da.MidpointVI(model, dt, forcing="left")
    rho = np.tile(q0[model.nd :], (steps, 1))
    t = dt * np.arange(steps)
    for limb, sign in SIGNS.items():
        column = model.index(f"{limb}_string-length") - model.nd
        rho[:, column] += sign * 0.1 * np.sin(0.6 * np.pi * t)
    start = vi.state(q=q0, q0=q0, t=dt)  # two equal configurations come first, at 0 and dt
    trajectory = vi.simulate(start, steps=steps, kinematic=rho)
    system = da.System(vi, t=trajectory.t)
    return system, *system.from_trajectory(trajectory)


def response(system, X, U, K, angle: str, size: float = 0.1):
    """Motion after a perturbation of one torso angle, with gains K: eq. 37, in the core."""
    start = X[0].copy()
    start[system.x_names.index(angle)] += size
    return system.project(X, U, K, x0=start)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figures")
    parser.add_argument("--steps", type=int, default=1000, help="steps of 0.01 s")
    options = parser.parse_args()
    clock = time.perf_counter()

    def lap(what: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        print(f"{what}: {now - clock:.3f} s")
        clock = now

    system, X, U = motion(options.steps)
    lap(f"simulation of {options.steps} steps")
    A, B = system.linearize_trajectory(X, U)
    lap("first-order linearization")
    Q = np.concatenate([np.full(system.model.nq, 100.0), np.ones(system.nx - system.model.nq)])
    law = da.lqr(system, (X, U), Q=Q, R=1.0)
    lap("LQR (linearization and Riccati sweep)")
    on = da.reduce_state(system, (X, U), linearization=(A, B))
    print(f"{system.nx} states, {system.nu} inputs; {on.size} states on the constraint manifold")

    nd = system.model.nd
    errors = {}
    for angle in ("torso_rx", "torso_ry", "torso_rz"):
        for name, K in (("open", 0 * law.K), ("closed", law.K)):
            Y = response(system, X, U, K, angle)
            errors[angle, name] = (np.linalg.norm(Y[:, :nd] - X[:, :nd], axis=1), Y)
        print(
            f"0.1 rad on {angle}: sum of error norms open {errors[angle, 'open'][0].sum():.4f}, "
            f"closed {errors[angle, 'closed'][0].sum():.4f}"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    t = system.t - system.t[0]
    angle = "torso_rz"
    i = system.x_names.index(angle)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9, 3.2))
        a.plot(t, errors[angle, "open"][0], "--", label="open loop")
        a.plot(t, errors[angle, "closed"][0], label="closed loop")
        a.set(xlabel="time (s)", ylabel="norm of the error of q", title="start off by 0.1 rad")
        a.legend()
        b.plot(t, X[:, i], ":", color="gray", label="reference")
        b.plot(t, errors[angle, "open"][1][:, i], "--", label="open loop")
        b.plot(t, errors[angle, "closed"][1][:, i], label="closed loop")
        b.set(xlabel="time (s)", ylabel="angle (rad)", title="torso about the vertical (torso_rz)")
        b.legend()
        figure.savefig(options.out / "marionette_lqr.png")
    print("figure:", options.out / "marionette_lqr.png")


if __name__ == "__main__":
    main()
