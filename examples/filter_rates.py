"""How the error of a Kalman filter grows when its rate falls: discrete mechanics against explicit Euler.

Schultz, Murphey, Embedded control synthesis using one-step methods in discrete mechanics, Fig. 3: for every time step
from 1/100 to 1/5 s, many trials of an extended Kalman filter on one motion of the string robot. As in the paper the
predicted mean is the motion itself plus noise, so that the filters differ only in their linearization: exact, of the
variational step; or that of the continuous dynamics with an explicit Euler step. The configuration is measured with
10 mm of noise, process noise is 1 mm (m/s). Error: length of (estimate - truth) over all states, mean over time; bars
are standard deviations over trials.

With --predict model every filter predicts by its own step, as in practice; the error of the mass's position counts.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

RATES = (100, 75, 60, 50, 37.5, 30, 25, 20, 15, 12, 10, 7.5, 6, 5)
DURATION = 10.0
FINE = 300  # Hz; every rate above divides it


def path(t):
    """Positions of robot and string length (n, 2) at times t, and their accelerations."""
    a, w = np.array([[0.25, 0.1], [0.15, 0.0]]), np.array([[0.9, 2.3], [1.3, 0.0]])
    phase = np.multiply.outer(t, w)
    rho = (a * np.sin(phase)).sum(-1) + np.array([0.0, 0.75])
    return rho, (a * w * np.cos(phase)).sum(-1), (-a * w**2 * np.sin(phase)).sum(-1)


def motion():
    """A swinging motion of the crane at the fine rate: t (n,), X (n, 8)."""
    steps = int(DURATION * FINE)
    system = da.System(da.MidpointVI(models.crane(), dt=1 / FINE), steps=steps)
    rho, speed, _ = path(system.t)
    x0 = np.concatenate([[0.0, -rho[0, 1]], rho[0], [0.3, -speed[0, 1]], speed[0]])
    return system.t, system.simulate(x0, rho[1:])


def filters(t, X, rate: float, *, position_noise: float = 1e-2, process_noise: float = 1e-3):
    """(name, filter, reference) of both filters at one rate."""
    every = round(FINE / rate)
    t, X = t[::every], X[::every]
    rho, speed, drive = path(t)
    steps = len(t) - 1
    noise = {"Q": process_noise**2, "R": position_noise**2}
    system = da.System(da.MidpointVI(models.crane(), dt=1 / rate), steps=steps)
    differences = np.vstack([speed[:1], np.diff(rho, axis=0) * rate])
    discrete = np.hstack([X[:, :6], differences]), rho[1:]
    euler = da.EulerModel(models.crane(), 1 / rate)
    # momentum over mass is velocity: the mass is 1 kg
    continuous = np.hstack([X[:, :6], speed]), drive[:-1]
    for name, model, reference in (("variational", system, discrete), ("Euler", euler, continuous)):
        yield name, da.ExtendedKalmanFilter(model, da.measure(model, *model.x_names[:4]), **noise), reference


def study(trials: int, rates=RATES, *, threads: int | None = None, predict: str = "nominal", seed: int = 0):
    """{rate: {"variational": Study, "Euler": Study}}; `predict` is "nominal" (the paper) or "model" (in practice)."""
    t, X = motion()
    results: dict[float, dict[str, da.Study]] = {}
    for rate in rates:
        results[rate] = {
            name: da.monte_carlo(
                ekf,
                reference,
                trials=trials,
                P0=1e-6,
                nominal=predict == "nominal",
                states=None if predict == "nominal" else ("x", "y"),
                threads=threads,
                seed=seed,
            )
            for name, ekf, reference in filters(t, X, rate)
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--trials", type=int, default=1000, help="trials per point")
    parser.add_argument("--threads", type=int, default=None, help="default: all cores")
    parser.add_argument("--predict", choices=("nominal", "model"), default="nominal", help="how means are predicted")
    options = parser.parse_args()
    clock = time.perf_counter()
    results = study(options.trials, threads=options.threads, predict=options.predict)
    print(f"{options.trials} trials per point, {2 * len(RATES)} points: {time.perf_counter() - clock:.1f} s")
    print(" rate (Hz)   variational (mm)      Euler (mm)   ratio")
    for rate, both in results.items():
        v, e = both["variational"], both["Euler"]
        print(
            f"{rate:10.1f}   {1e3 * v.average:7.3f} ± {1e3 * v.spread:5.3f}"
            f"   {1e3 * e.average:7.3f} ± {1e3 * e.spread:5.3f}   {e.average / v.average:5.2f}"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, ax = plt.subplots(figsize=(6, 4))
        rates = np.array(list(results))
        for name, marker, label in (
            ("Euler", "o", "explicit Euler linearization"),
            ("variational", "s", "exact linearization of the variational step"),
        ):
            average = [r[name].average for r in results.values()]
            spread = [r[name].spread for r in results.values()]
            ax.errorbar(1 / rates, average, spread, marker=marker, ms=4, capsize=3, label=label)
        ax.axvline(1 / 30, color="gray", lw=0.8, ls=":")
        ax.annotate("30 Hz", (1 / 30, 0), (3, 4), textcoords="offset points", color="gray")
        ax.set(xlabel="time step (s)", ylabel="mean error of the state (m, m/s)", ylim=(0, None))
        ax.legend(loc="upper left", bbox_to_anchor=(0.2, 1))
        name = "filter_rates.png" if options.predict == "nominal" else "filter_rates_model.png"
        figure.savefig(options.out / name)
    print("figure:", options.out / name)


if __name__ == "__main__":
    main()
