"""The string-and-winch robot: optimal reference, regulator and Kalman filter in a loop of 30 Hz.

Schultz, Murphey, Embedded control synthesis using one-step methods in discrete mechanics: a robot under the ceiling
drives along x_r and winches a string of length r; a mass hangs on it. Both inputs are kinematic. The reference is
optimized for steps of 1/30 s, an LQR keeps the mass on it, and an extended Kalman filter cleans the camera's
measurements of (x, y, x_r, r), which are noisy and sometimes far off.

The experiment is simulated with what the paper lists as its imperfections: cycles of 0.0337 s on average with a
standard deviation of 0.004 s, wrong initial configuration, motors that follow their commands imperfectly, an unmodelled
drag. Draws Fig. 2 (open and closed loop) and Fig. 4 (commands with raw and with filtered feedback).
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

HEIGHT = 1.0  # of the robot above the floor, only for the axes of the figures
DT = 1 / 30
STEPS = 360
HOLD = 75  # the last 2.5 s stay at the goal
GOAL = (0.43, 0.25)
SPEED = 0.8  # m/s, limit of the motors


def wish(steps: int = STEPS):
    """Infeasible reference (Xd, Ud): a loop of the mass towards the goal, the robot straight above it."""
    s = np.clip(np.arange(steps + 1) / (steps - HOLD), 0, 1)
    s = s**3 * (10 - 15 * s + 6 * s**2)
    x = GOAL[0] * s + 0.18 * np.sin(2 * np.pi * s) * np.sin(np.pi * s)
    y = GOAL[1] + 0.22 * np.sin(2 * np.pi * s) ** 2 * np.cos(np.pi * s / 2)
    Xd = np.zeros((steps + 1, 8))
    Xd[:, 0], Xd[:, 1] = x, y - HEIGHT
    Xd[:, 2], Xd[:, 3] = x, HEIGHT - y
    return Xd, Xd[1:, 2:4].copy()


def reference(steps: int = STEPS):
    """(system, integrator, optimization result, regulator)."""
    vi = da.MidpointVI(models.crane(), dt=DT)
    system = da.System(vi, steps=steps)
    Xd, Ud = wish(steps)
    # the momentum after two equal configurations would be that of rest half a step later; start exactly at rest
    hang = np.tile(Xd[0], (steps + 1, 1))
    cost = da.TrackingCost((Xd, Ud), Q=[100.0, 100.0, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5], R=[0.1, 0.1])
    result = da.optimize(system, cost, (hang, np.tile(Ud[0], (steps, 1))), method="projection")
    law = da.lqr(system, (result.X, result.U), Q=[50.0, 50.0, 5.0, 5.0, 2.0, 2.0, 0.2, 0.2], R=[2.0, 2.0])
    return system, vi, result, law


class Experiment:
    """The imperfect plant: motors, drag, and an irregular clock; the camera that watches it."""

    def __init__(self, X, U, seed: int, *, substeps: int = 4) -> None:
        self.random = np.random.default_rng(seed)
        steps = len(U)
        self.cycle = np.clip(self.random.normal(0.0337, 0.004, steps), 0.02, 0.06)
        fine = np.repeat(self.cycle / substeps, substeps)
        crane = models.crane()
        drag = da.Model(crane.frames, [*crane.elements, da.Damping(0.05)], "crane with drag")
        vi = da.MidpointVI(drag, dt=fine)
        self.system = da.System(vi, t=np.concatenate([[0.0], np.cumsum(fine)]))
        self.substeps = substeps
        # the mass starts a little to the side, the robot a little off
        q = X[0, :4].copy()
        q[2] += 0.01
        q[0] = q[2] + 0.06
        q[1] = -np.sqrt(q[3] ** 2 - (q[0] - q[2]) ** 2)
        self.x = np.concatenate([q, [0, 0], [0, 0]])
        self.gain = 1 + 0.02 * self.random.normal(size=2)

    def camera(self) -> np.ndarray:
        """Measured (x, y, x_r, r): 2 mm of noise, and now and then the tracker takes something else for the mass."""
        z = self.x[:4] + 0.002 * self.random.normal(size=4)
        if self.random.random() < 0.02:
            z[:2] += self.random.uniform(-0.15, 0.15, 2)
        return z

    def advance(self, k: int, velocity) -> None:
        """Run cycle k with the commanded velocities of (x_r, r)."""
        actual = self.gain * velocity + 0.01 * self.random.normal(size=2)
        for i in range(self.substeps):
            j = k * self.substeps + i
            rho = self.x[2:4] + actual * self.system.dt[j]
            self.x = self.system.f(self.x, rho, j)


def run(system, vi, X, U, law, mode: str, seed: int = 3):
    """One trial: "open", "raw" or "filtered" feedback. Returns true states, estimates, measurements, commands."""
    plant = Experiment(X, U, seed)
    sensor = da.measure(system, *system.x_names[:4])
    ekf = da.ExtendedKalmanFilter(
        system,
        sensor,
        Q=np.square([5e-4, 5e-4, 1e-3, 1e-3, 0.008, 0.008, 0.04, 0.04]),
        R=0.002**2,
        gate=0.9999,
        reduced=False,  # the whole state, as in the paper
    )
    estimate = ekf.start(X[0], np.square([0.05, 0.05, 0.02, 0.02, 0.1, 0.1, 0.1, 0.1]))
    true, believed, measured, commands = [plant.x], [], [], []
    before = None
    for k in range(len(U)):
        z = plant.camera()
        measured.append(z)
        if mode != "raw":
            estimate = ekf.update(estimate, z)
            x = estimate.mean
        else:
            # momentum and string speed from two configurations, as they come
            past = z if before is None else before
            state = vi.state(q=z, q0=past, check=False)
            x = np.concatenate([z, state.p, (z[2:] - past[2:]) / DT])
        before = z
        believed.append(x)
        u = U[k] if mode == "open" else law.input(k, x)
        # the robot gets velocities: open loop those of the reference, closed loop those that lead to the command
        velocity = (U[k] - X[k, 2:4]) / DT if mode == "open" else (u - x[2:4]) / DT
        velocity = np.clip(velocity, -SPEED, SPEED)
        commands.append(velocity)
        plant.advance(k, velocity)
        true.append(plant.x)
        if mode != "raw":
            estimate = ekf.predict(estimate, estimate.mean[2:4] + velocity * DT, k)
    return tuple(np.array(a) for a in (true, believed, measured, commands))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figures")
    parser.add_argument("--seed", type=int, default=3, help="seed of the experiment")
    options = parser.parse_args()
    system, vi, result, law = reference()
    X, U = result.X, result.U
    print(f"reference: cost {result.cost:.4f}, {result.status} after {len(result.history) - 1} steps")
    print(f"goal: (x, y) = ({X[-1, 0]:.3f}, {X[-1, 1] + HEIGHT:.3f})")

    trials = {mode: run(system, vi, X, U, law, mode, options.seed) for mode in ("open", "raw", "filtered")}
    speed = np.diff(X[:, 2:4], axis=0) / DT
    hold = slice(STEPS - 60, None)
    for mode, (true, believed, measured, commands) in trials.items():
        error = np.linalg.norm(true[:, :2] - X[:, :2], axis=1)
        rough = np.abs(np.diff(commands, axis=0)).mean()
        print(
            f"{mode:>8}: rms error of the mass {1000 * np.sqrt(np.mean(error**2)):.1f} mm, "
            f"in the last 2 s {1000 * np.sqrt(np.mean(error[hold] ** 2)):.1f} mm; "
            f"mean change of the velocity command {1000 * rough:.1f} mm/s per cycle"
        )
        if mode == "filtered":
            seen = np.linalg.norm(measured[:, :2] - true[:-1, :2], axis=1)
            known = np.linalg.norm(believed[:, :2] - true[:-1, :2], axis=1)
            print(
                f"          position known to {1000 * known[20:].mean():.2f} mm (worst {1000 * known[20:].max():.1f}), "
                f"measured to {1000 * seen.mean():.2f} mm (worst {1000 * seen.max():.1f})"
            )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
        for ax, mode, title in zip(axes, ("open", "filtered"), ("(a) open loop", "(b) closed loop"), strict=True):
            true, believed, measured, _ = trials[mode]
            ax.plot(measured[:, 0], measured[:, 1] + HEIGHT, ".", ms=3, color="silver", label="measured")
            ax.plot(X[:, 0], X[:, 1] + HEIGHT, color="black", lw=1.2, label="reference")
            ax.plot(true[:, 0], true[:, 1] + HEIGHT, lw=1.2, label="true")
            ax.plot(believed[:, 0], believed[:, 1] + HEIGHT, "--", lw=1, label="filtered")
            ax.plot(*GOAL, "o", mfc="none", color="black", ms=8)
            ax.set(xlabel="x of the mass (m)", title=title, aspect="equal")
        axes[0].set(ylabel="y of the mass (m)")
        axes[0].legend()
        figure.savefig(options.out / "string_robot_loops.png")

        figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
        for i, (ax, name) in enumerate(zip(axes, ("robot", "string"), strict=True)):
            ax.plot(system.t[:-1], trials["raw"][3][:, i], lw=0.8, color="silver", label="raw feedback")
            ax.plot(system.t[:-1], trials["filtered"][3][:, i], lw=1.2, label="filtered feedback")
            ax.plot(system.t[:-1], speed[:, i], color="black", lw=1.2, label="reference")
            ax.set(ylabel=f"velocity command, {name} (m/s)")
        axes[0].legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axes[1].set(xlabel="time (s)")
        figure.savefig(options.out / "string_robot_commands.png")
    print("figures:", options.out / "string_robot_loops.png", options.out / "string_robot_commands.png")


if __name__ == "__main__":
    main()
