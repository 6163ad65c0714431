"""Lengths, a mass and friction of a four-bar linkage from the angles of its crank and rocker, closed by a rod that nobody measured.

A step of the linkage satisfies the loop exactly, whatever the lengths, and its derivatives by them are exact, so Gauss-Newton converges in a few
iterations from lengths that are wrong by several centimetres. 40 records with other noise show how sure one may be.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

TRUE = {"crank": 0.4, "rod": 1.0, "rocker": 0.8, "load": 0.5, "friction": 0.05}
GUESS = {"crank": 0.43, "rod": 0.95, "rocker": 0.84, "load": 0.8, "friction": 0.1}


def linkage(values: dict[str, float]) -> da.Model:
    """A crank and a rocker, 1.2 m apart, tied by a rod; a motor on the crank, a load on the rocker's end."""
    p = {
        name: da.Parameter(name, x, unit="m" if name in ("crank", "rod", "rocker") else "")
        for name, x in values.items()
    }
    crank = da.rz("a", da.tx(p["crank"], name="A", mass=0.5), mass=0.3, inertia=(0.01, 0.01, 0.02))
    rocker = da.rz("b", da.tx(p["rocker"], name="B", mass=p["load"]), mass=0.3, inertia=(0.01, 0.01, 0.02))
    elements = [da.Gravity((0, -9.81, 0)), da.Distance("A", "B", p["rod"]), da.Damping(p["friction"])]
    return da.Model([crank, da.tx(1.2, rocker)], [*elements, da.ConfigForce("a", "motor")], "linkage")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args(argv).out
    noise = 2e-3
    true = linkage(TRUE)
    vi = da.MidpointVI(true, dt=0.01)
    q = da.satisfy_constraints(true, [1.0, 1.5], fixed=["a"])
    motor = 1.5 + 1.0 * np.sin(0.05 * np.arange(200))[:, None]
    motion = vi.simulate(vi.state(q=q), steps=200, u=motor)
    guess = linkage(GUESS)
    fits = []
    for seed in range(40):
        record = da.Record.of(motion, ["a", "b"], noise=noise, seed=seed)
        fits.append(da.identify(guess, record, noise=noise, segment=40))
    fit = fits[0]
    print(fit)
    spread = np.std([f.values for f in fits], axis=0)
    for name, s in zip(fit.names, spread, strict=True):
        print(f"{name}: true {TRUE[name]}, said +- {fit.deviation[name]:.2g}, spread of 40 records {s:.2g}")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9.5, 3.8), gridspec_kw={"width_ratios": [1.15, 1]})
        for label, model, look in (
            ("guess", guess, {"color": "C3", "ls": "--"}),
            ("identified", fit.model, {"color": "C0"}),
        ):
            at = da.satisfy_constraints(model, q, fixed=["a"])
            place = da.positions(model, at)
            points = [place[model.frame_index(n)][:2] for n in ("A", "B")]
            line = np.array([[0.0, 0.0], *points, [1.2, 0.0]])
            a.plot(*line.T, marker="o", ms=4, label=label, **look)
        paths = np.array([[da.positions(true, x)[true.frame_index(n)][:2] for n in ("A", "B")] for x in motion.q])
        a.plot(*paths[:, 0].T, color="0.75", lw=1, zorder=0)
        a.plot(*paths[:, 1].T, color="0.75", lw=1, zorder=0)
        a.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
        a.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        i, j = fit.names.index("rod"), fit.names.index("rocker")
        cloud = 1e3 * (np.array([f.values for f in fits])[:, [i, j]] - [TRUE["rod"], TRUE["rocker"]])
        size, axes = np.linalg.eigh(fit.covariance[np.ix_([i, j], [i, j])])
        turn = np.linspace(0, 2 * np.pi, 200)
        ring = 1e3 * np.sqrt(5.991) * axes @ (np.sqrt(size)[:, None] * [np.cos(turn), np.sin(turn)])
        b.plot(*cloud.T, ".", label="40 records")
        b.plot(*ring, color="black", lw=1, label="said: 95 % inside")
        b.set(xlabel="error of the rod (mm)", ylabel="error of the rocker (mm)")
        b.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        figure.savefig(out / "identify_closed_chain.png")
    print("figure:", out / "identify_closed_chain.png")


if __name__ == "__main__":
    main()
