"""LQR for a marionette with 40 configuration variables on 6 strings.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, section VIII-B, Figs 6 and 7: a
motion of 10 s with the strings of arms and legs moving by +-0.1 sin(0.6 pi t), an LQR along it (100 on configurations,
1 else), and a perturbation of 0.1 rad of the torso with and without feedback. Schultz, Johnson, Murphey, Trajectory
optimization in discrete mechanics, section 3.6, Fig. 5, prints identity for all weights instead.

The gains of the full state also act on directions that the constraints do not leave to the motion; with identity weights this
fails for two of the three angles. Gains of the state reduced to the constraints (`reduced=True`) work for all three.
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


def error_norms(system, X, Y):
    """Norm over the dynamic configurations at every step, (N+1,)."""
    nd = system.model.nd
    return np.linalg.norm(Y[:, :nd] - X[:, :nd], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figures")
    parser.add_argument("--steps", type=int, default=1000, help="steps of 0.01 s")
    options = parser.parse_args()
    clock = time.perf_counter()

    def lap(what: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        print(f"{what}: {now - clock:.3f} s ({1e3 * (now - clock) / options.steps:.3f} ms per step)")
        clock = now

    system, X, U = motion(options.steps)
    lap(f"simulation of {options.steps} steps")
    A, B = system.linearize_trajectory(X, U)
    lap("first-order linearization")
    system.second_order_trajectory(X, U, np.ones((len(U), system.nx)))
    lap("second-order linearization, contracted")
    on = da.reduce_state(system, (X, U), linearization=(A, B))
    print(f"{system.nx} states, {system.nu} inputs; {on.size} states on the constraint manifold")

    runs = {}
    for title, weight in (("100 on configurations", 100.0), ("identity", 1.0)):
        Q = np.concatenate([np.full(system.model.nq, weight), np.ones(system.nx - system.model.nq)])
        laws = {
            "open loop": np.zeros((len(U), system.nu, system.nx)),
            "full state": da.lqr(system, (X, U), Q=Q, R=1.0, reduced=False).K,
            "reduced state": da.lqr(system, (X, U), Q=Q, R=1.0, reduced=True).K,
        }
        print(f"weights: {title}; sum of error norms after 0.1 rad")
        for angle in ("torso_rx", "torso_ry", "torso_rz"):
            cells = []
            for name, K in laws.items():
                try:
                    Y = response(system, X, U, K, angle)
                except da.ConvergenceError as failure:
                    cells.append(f"{name} fails at {failure.time:.2f} s")
                    continue
                runs[title, angle, name] = Y
                cells.append(f"{name} {error_norms(system, X, Y).sum():.4f}")
            print(f"  {angle}: " + ", ".join(cells))

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    t = system.t - system.t[0]
    lines = {"open loop": "--", "full state": "-", "reduced state": "-."}
    with style():
        figure, axes = plt.subplots(2, 3, figsize=(12, 6), sharex=True, sharey="col", layout="constrained")
        for row, (title, label) in zip(
            axes, (("100 on configurations", "100 on q"), ("identity", "identity")), strict=True
        ):
            i = system.x_names.index("torso_rz")
            row[1].plot(t, X[:, i], ":", color="gray", label="reference")
            for name, line in lines.items():
                Y = runs.get((title, "torso_rz", name))
                if Y is not None:
                    row[0].plot(t, error_norms(system, X, Y), line, label=name)
                    row[1].plot(t, Y[:, i], line, label=name)
                Y = runs.get((title, "torso_ry", name))
                label_ = name if Y is not None else f"{name}: fails"
                row[2].plot(
                    t, error_norms(system, X, Y) if Y is not None else np.full(len(t), np.nan), line, label=label_
                )
            row[0].set(ylabel=f"weights: {label}\nnorm of the error of q")
            row[1].set(ylabel="angle (rad)")
            row[2].legend()
        for ax, title in zip(
            axes[0], ("0.1 rad about the vertical", "torso about the vertical", "0.1 rad on torso_ry"), strict=True
        ):
            ax.set(title=title)
        for ax in axes[1]:
            ax.set(xlabel="time (s)")
        axes[0, 1].legend()
        figure.savefig(options.out / "marionette_lqr.png")
    print("figure:", options.out / "marionette_lqr.png")


if __name__ == "__main__":
    main()
