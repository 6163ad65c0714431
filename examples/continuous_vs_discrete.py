"""The same optimization in continuous and in discrete time: pendulum on a cart.

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 5.1, Figs 9 and 10: one of the
stages with a fictitious torque, from rest, by the projection operator in continuous time (RK4, differential Riccati
equations) and on the variational integrator. Then the ratio of the largest to the smallest weight is raised until a
method fails. Fig. 12: the same for the marionette's walk, over its 10 s; in continuous time the first step already
tracks it, and a large ratio leaves no descent direction. Section 5.3: the recorded walk, which the paper could not
optimize in continuous time.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models
from dalembert.optimization import ContinuousSystem, with_inputs

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
            result = da.optimize(system, cost, start, method="projection", tolerance=tolerance, max_iterations=15)
            text = (
                f"{result.status}, cost {result.cost:.6f}, {result.iterations} iterations, |Dg| {abs(result.slope):.1e}"
            )
        except da.ConvergenceError as error:
            result, text = None, f"failed: {error}"
        out[kind] = (system, result)
        print(f"dt {dt:g}, ratio {ratio:g}, {kind:<10}: {text}, {time.perf_counter() - begun:.2f} s")
    return out


def marionette(seconds: float = 10.0):
    """Histories for the marionette's walk (Fig. 12), each system with inputs of its own kind."""
    from marionette_walk import problem

    system, cost, start, Xd = problem(round(seconds / 0.01))
    model = system.model
    discrete = da.optimize(system, cost, start, method="projection")
    continuous = ContinuousSystem(model, np.asarray(system.t) - system.t[0])
    nodes = system.steps + 1
    U = np.zeros((nodes, continuous.nu))  # accelerations of the strings
    X = continuous.simulate(np.concatenate([Xd[0, : model.nq], np.zeros(model.nq)]), U)
    reference = {name: Xd[:, i] for i, name in enumerate(model.variables)}
    histories = {"discrete": discrete}
    for ratio, low in (("100 : 1", 0.1), ("10⁶ : 1", 1e-5)):
        weights = dict.fromkeys(model.dynamic, 10.0) | {"*": low}
        # the Riccati equation of identity weights is already too stiff for steps of 0.01 s: softer projection gains
        runs = {
            f"continuous, weights {ratio}": (
                continuous, da.TrackingCost(reference, weights, 10 * low), (X, U),
                {"projection": (0.01, 1.0), "method": "quasi", "max_iterations": 8},
            ),
            f"discrete, weights {ratio}": (
                system, da.TrackingCost((Xd, np.zeros_like(start[1])), weights, 10 * low), start,
                {"method": "projection"},
            ),
        }  # fmt: skip
        for label, (where, cost, begin, options) in runs.items():
            try:
                r = da.optimize(where, cost, begin, **options)
                histories[label] = r
                text = f"{r.status}, {r.iterations} iterations, |Dg| {abs(r.slope):.1e}, {r.seconds:.1f} s"
            except da.ConvergenceError as error:
                text = f"failed: {error}"
            print(f"marionette, {label}: {text}")
    print(f"marionette, discrete: {discrete.status}, {discrete.iterations} iterations, {discrete.seconds:.2f} s")
    return histories


def recording(seconds: float = 9.8) -> None:
    """The recorded walk of `marionette_mocap` in continuous time, with its soft weights and with a small ratio of weights."""
    from marionette_mocap import RECORDING, SOFT, problem, rms

    system, _, (hang, _), angles = problem(RECORDING, seconds)
    model = system.model
    q0 = hang[0, : model.nq]
    continuous = ContinuousSystem(model, np.asarray(system.t) - system.t[0])
    U = np.zeros((system.steps + 1, continuous.nu))
    X = continuous.simulate(np.concatenate([q0, np.zeros(model.nq)]), U)
    reference = dict(zip(model.variables, map(float, q0), strict=True)) | angles
    recorded, other, _, rest, effort = SOFT
    soft = dict.fromkeys(model.dynamic, other) | dict.fromkeys(angles, recorded) | {"*": rest}
    small = dict.fromkeys(model.dynamic, 10.0) | {"*": 0.1}
    for label, Q, R in (("soft weights", soft, effort), ("weights 100 : 1", small, 1.0)):
        cost, options = da.TrackingCost(reference, Q, R), {"projection": (0.01, 1.0), "max_iterations": 8}
        r = da.optimize(continuous, cost, (X, U), method="quasi", **options)
        worst = max(rms(continuous, r.X, angles).values())
        print(
            f"recorded walk, continuous, {label}: {r.status}, {r.iterations} iterations, largest rms {worst:.1f} degrees"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="length of the marionette's walk (10 s take minutes)"
    )
    options = parser.parse_args()
    out = options.out
    pair = solve(0.02, 100.0)
    for ratio in (1e4, 1e6, 1e8):
        solve(0.02, ratio)
    histories = marionette(options.seconds)
    recording(min(options.seconds, 9.8))

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
        for (kind, (system, result)), line in zip(pair.items(), ("-", "--"), strict=True):
            if result is None:
                continue
            a.plot(system.t, np.rad2deg(result.X[:, 1]), line, label=kind)
            b.semilogy(
                [r.index for r in result.history], [abs(r.slope) for r in result.history], "." + line, label=kind
            )
        a.plot(system.t, np.rad2deg(angle(np.asarray(system.t))), ":", color="gray", label="reference")
        a.set(xlabel="time (s)", ylabel="angle (degrees)", title="pendulum on a cart")
        a.legend()
        b.set(xlabel="iteration", ylabel="|Dg·d|", title="pendulum on a cart")
        b.legend()
        for label, r in histories.items():
            note = "" if np.isfinite(r.slope) else " (no first step)"
            c.semilogy(
                [row.index for row in r.history], [abs(row.slope) for row in r.history], ".-", label=label + note
            )
        c.set(xlabel="iteration", ylabel="|Dg·d|", title="marionette", ylim=(None, 1e15))  # room for the legend
        c.legend(loc="upper left")
        figure.savefig(out / "continuous_vs_discrete.png")
    if all(result is not None for _, result in pair.values()):
        gap = np.rad2deg(np.abs(pair["continuous"][1].X[:, 1] - pair["discrete"][1].X[:, 1]).max())
        print(f"largest difference of the angle: {gap:.3f} degrees")
    print("figure:", out / "continuous_vs_discrete.png")


if __name__ == "__main__":
    main()
