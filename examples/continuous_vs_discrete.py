"""The same optimization in continuous and in discrete time: pendulum on a cart.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.1, Figs 9 and 10: one of the
stages with a fictitious torque, from rest, by the projection operator in continuous time (RK4, differential Riccati
equations) and on the variational integrator. Then the ratio of the largest to the smallest weight is raised until a
method fails.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models
from dalembert.optimize import ContinuousSystem, with_inputs

SECONDS = 10.0


def angle(t: np.ndarray) -> np.ndarray:
    """Reference: up to 130 degrees and back between 3 s and 7 s."""
    return np.where((t >= 3) & (t <= 7), (1 - np.cos(np.pi / 2 * (t - 3))) * np.deg2rad(130) / 2, 0.0)


def solve(dt: float, ratio: float, tolerance: float = 1e-6):
    """Results in continuous and discrete time; weights are per second, `ratio` : 1 between the angle and the rest."""
    plain = models.cart_pole(cart_mass=10.0)
    model = with_inputs(da.Model(plain.frames, [*plain.elements, da.Damping(0.01)]), {"theta": "helper"})
    steps = round(SECONDS / dt)
    t = dt * np.arange(steps + 1)
    small = ratio**-0.5
    out = {}
    for kind in ("continuous", "discrete"):
        # an integral becomes a sum; its last trapezoid counts half
        scale, last = (1.0, 0.0) if kind == "continuous" else (dt, dt / 2)
        cost = da.TrackingCost(
            {"theta": angle(t)},
            Q={"theta": scale / small, "*": scale * small},
            R=scale * small,
            Qf={"theta": (dt + last) / small, "*": (dt + last) * small},
        )
        if kind == "continuous":
            system = ContinuousSystem(model, t)
            start = (np.zeros((steps + 1, 4)), np.zeros((steps + 1, 2)))
        else:
            system = da.System(da.MidpointVI(model, dt), steps=steps)
            start = (np.zeros((steps + 1, 4)), np.zeros((steps, 2)))
        begun = time.perf_counter()
        try:
            result = da.optimize(system, cost, start, tolerance=tolerance, max_iterations=15)
            text = (
                f"{result.status}, cost {result.cost:.6f}, {result.iterations} iterations, |Dg| {abs(result.slope):.1e}"
            )
        except da.ConvergenceError as error:
            result, text = None, f"failed: {error}"
        out[kind] = (system, result)
        print(f"dt {dt:g}, ratio {ratio:g}, {kind:<10}: {text}, {time.perf_counter() - begun:.2f} s")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    pair = solve(0.02, 100.0)
    for ratio in (1e4, 1e6, 1e8):
        solve(0.02, ratio)

    import matplotlib.pyplot as plt

    from dalembert.view.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for (kind, (system, result)), line in zip(pair.items(), ("-", "--"), strict=True):
            if result is None:
                continue
            a.plot(system.t, np.rad2deg(result.X[:, 1]), line, label=kind)
            b.semilogy(
                [r.index for r in result.history], [abs(r.slope) for r in result.history], "." + line, label=kind
            )
        a.plot(system.t, np.rad2deg(angle(np.asarray(system.t))), ":", color="gray", label="reference")
        a.set(xlabel="time (s)", ylabel="angle (degrees)")
        a.legend()
        b.set(xlabel="iteration", ylabel="|Dg·d|")
        b.legend()
        figure.savefig(out / "continuous_vs_discrete.png")
    if all(result is not None for _, result in pair.values()):
        gap = np.rad2deg(np.abs(pair["continuous"][1].X[:, 1] - pair["discrete"][1].X[:, 1]).max())
        print(f"largest difference of the angle: {gap:.3f} degrees")
    print("figure:", out / "continuous_vs_discrete.png")


if __name__ == "__main__":
    main()
