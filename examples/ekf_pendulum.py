"""Extended Kalman filter on a freely swinging pendulum: only the noisy angle is measured.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 3, Fig. 6. Compares the extended, the
unscented and the particle filter and the smoother on the same record.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models


def record(steps: int = 100, dt: float = 0.1, noise: float = 0.1, seed: int = 1):
    """(system, true X, inputs U, measurements Z) of a free swing."""
    system = da.System(da.MidpointVI(models.pendulum(), dt=dt), steps=steps)
    U = np.zeros((steps, 1))
    X = system.simulate(np.array([1.0, 0.0]), U)
    Z = X[:, :1] + noise * np.random.default_rng(seed).normal(size=(steps + 1, 1))
    return system, X, U, Z


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    system, X, U, Z = record()
    sensor = da.measure(system, "theta")
    noise = {"Q": [1e-4, 1e-3], "R": 0.1**2}
    filters = {
        "extended": da.ExtendedKalmanFilter(system, sensor, **noise),
        "unscented": da.UnscentedKalmanFilter(system, sensor, **noise),
        "particle": da.ParticleFilter(system, sensor, **noise, particles=500),
    }
    runs = {name: f.run(f.start([0.7, 0.0], 0.1), U, Z) for name, f in filters.items()}
    smoothed = da.smooth(runs["extended"])

    def rms(angle) -> float:
        return float(np.sqrt(np.mean((np.ravel(angle) - X[:, 0])[10:] ** 2)))

    print(f"rms error of the angle after 1 s: measured {rms(Z):.4f} rad")
    for name, run in runs.items():
        print(f"  {name} filter {rms(run.mean[:, 0]):.4f} rad")
    print(f"  smoother {rms(smoothed.mean[:, 0]):.4f} rad")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(2, 1, figsize=(6.5, 5), sharex=True)
        run = runs["extended"]
        sigma = 3 * np.sqrt(run.covariance[:, 0, 0])
        a.plot(system.t, X[:, 0], color="black", lw=1, label="true")
        a.plot(system.t, Z[:, 0], ".", ms=4, label="measured")
        a.plot(system.t, run.mean[:, 0], label="extended Kalman filter")
        a.fill_between(system.t, run.mean[:, 0] - sigma, run.mean[:, 0] + sigma, alpha=0.2, lw=0)
        a.set(ylabel="angle (rad)")
        a.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        for name, other in runs.items():
            b.plot(system.t, other.mean[:, 1] - X[:, 1], label=f"{name} filter")
        b.plot(system.t, smoothed.mean[:, 1] - X[:, 1], "--", color="black", lw=1, label="smoother")
        b.set(xlabel="time (s)", ylabel="error of the momentum (kg m²/s)")
        b.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        figure.savefig(out / "ekf_pendulum.png")
    print("figure:", out / "ekf_pendulum.png")


if __name__ == "__main__":
    main()
