"""Predictive control of a cart-pole: it stays upright under pushes, with a force that is limited and a model that is wrong.

The plan's pole is a third lighter than the real one. Every sample moves the plan on by a step and improves it by one linear-quadratic problem
(`da.MPC`); forces never leave their bounds.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

DT, HORIZON, FORCE = 0.02, 50, 8.0
COST = da.TrackingCost({"a": np.pi}, Q={"x": 1.0, "a": 10.0, "*": 0.1}, R=0.01, Qf={"x": 20.0, "a": 200.0, "*": 5.0})


def cart_pole(bob: float) -> da.Model:
    return da.Model(
        [da.ty("x", da.rx("a", da.tz(-0.5, name="bob", mass=bob)), name="cart", mass=1.0)],
        [da.Gravity((0, 0, -9.81)), da.ConfigForce("x", "f")],
    )


def run(mpc: da.MPC, steps: int = 380):
    """(X, U, pushes): the real cart-pole under predictive control, pushed every two seconds."""
    real = da.System(da.MidpointVI(cart_pole(0.3), DT), steps=1)
    X, U, pushes = [np.array([0.0, np.pi - 0.3, 0.0, 0.0])], [], []
    for k in range(steps):
        x = X[-1]
        if k % 100 == 99:
            x = x + np.array([0.0, 0.0, 0.8 if len(pushes) % 2 else -0.8, 0.0])
            pushes.append(k)
        U.append(mpc.step(x))
        X.append(real.f(x, U[-1]))
    return np.array(X), np.array(U), pushes


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args(argv).out
    mpc = da.MPC(da.MidpointVI(cart_pole(0.2), DT), COST, HORIZON, {"f": (-FORCE, FORCE)})
    X, U, pushes = run(mpc)
    away = np.rad2deg(np.abs(X[:, 1] - np.pi))
    print(f"pushed {len(pushes)} times, at most {away[pushes[0] :].max():.1f} degrees from upright after that")
    print(f"before the last push {away[pushes[-1]]:.3f} degrees and {1e3 * abs(X[pushes[-1], 0]):.1f} mm from rest")
    print(f"largest force {np.abs(U).max():.3f} N of {FORCE:g}, {mpc.failures} calls without a plan")
    print(f"a call takes {1e3 * np.median(mpc.latencies):.2f} ms (median)")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    out.mkdir(parents=True, exist_ok=True)
    t = DT * np.arange(len(X))
    with style():
        figure, (a, b) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
        a.plot(t, np.rad2deg(X[:, 1] - np.pi), label="pole (degrees)")
        a.plot(t, 100 * X[:, 0], label="cart (cm)")
        for axes in (a, b):
            for k in pushes:
                axes.axvline(t[k], color="C3", lw=0.8, ls=":", label="push" if axes is a and k == pushes[0] else None)
        a.legend(fontsize=8, loc="upper center")
        a.set(title="Upright under pushes; the plan's pole is a third too light")
        b.axhspan(-FORCE, FORCE, color="0.93")
        b.step(t[:-1], U[:, 0], where="post")
        b.set(xlabel="time (s)", ylabel="force (N)")
        figure.savefig(out / "cart_pole_mpc.png")
    print("figure:", out / "cart_pole_mpc.png")


if __name__ == "__main__":
    main()
