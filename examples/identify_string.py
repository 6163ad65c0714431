"""The arm of a marionette on a string: its length, where it is tied and how heavy the forearm is, from a camera that sees the wrist.

A hand above moves the string's upper end along a known path. The string is a constraint of the steps, and where it is tied is a place on the
forearm: both are parameters of the model. With the hand at rest the same record would tell the weight several times worse: the report on a
planned motion says so before anything is recorded.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

TRUE = {"string": 0.75, "tie": 0.20, "forearm": 0.3, "friction": 0.02}
GUESS = {"string": 0.78, "tie": 0.17, "forearm": 0.5, "friction": 0.05}


def puppet(values: dict[str, float]) -> da.Model:
    """Upper arm and forearm of 0.3 m on a shoulder, and a string from a hand that moves to a knot on the forearm."""
    p = {name: da.Parameter(name, x) for name, x in values.items()}
    knot = da.tz(-p["tie"], name="knot")
    forearm = da.rx(
        "elbow",
        knot,
        da.tz(-0.3, name="wrist"),
        name="lower",
        mass=p["forearm"],
        com=(0, 0, -0.15),
        inertia=(0.003, 0.003, 1e-4),
    )
    upper = da.rx(
        "shoulder", da.tz(-0.3, forearm), name="upper", mass=0.4, com=(0, 0, -0.15), inertia=(0.004, 0.004, 2e-4)
    )
    hand = da.ty(da.Kinematic("hand_y"), da.tz(da.Kinematic("hand_z"), name="hand"))
    elements = [da.Gravity(), da.Distance("hand", "knot", p["string"]), da.Damping(p["friction"])]
    return da.Model([upper, hand], elements, "puppet")


def path(t: np.ndarray, move: float) -> np.ndarray:
    """Where the hand is (N, 2): y and z."""
    return np.stack([0.30 + move * 0.10 * np.sin(3.1 * t), 0.55 + move * 0.08 * np.sin(4.7 * t)], axis=1)


def swing(model: da.Model, move: float, steps: int = 250, dt: float = 0.01) -> tuple[da.MidpointVI, da.Trajectory]:
    """A motion with the hand moving (1) or at rest (0)."""
    vi = da.MidpointVI(model, dt=dt)
    rho = path(dt * np.arange(steps + 1), move)
    start = {"shoulder": 0.4, "elbow": 1.5, "hand_y": rho[0, 0], "hand_z": rho[0, 1]}
    q = da.satisfy_constraints(model, start, fixed=["hand_y", "hand_z", "elbow"])
    return vi, vi.simulate(vi.state(q=q), steps=steps, kinematic=rho[1:])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args(argv).out
    noise = 1e-3
    true, guess = puppet(TRUE), puppet(GUESS)
    _, motion = swing(true, 1.0)
    record = da.Record.of(
        motion, ["shoulder", "elbow", "wrist"], noise={"shoulder": 5e-3, "elbow": 5e-3, "wrist": noise}
    )
    fit = da.identify(
        guess,
        record,
        measurement=["shoulder", "elbow", "wrist"],
        noise={"shoulder": 5e-3, "elbow": 5e-3, "wrist": noise},
        segment=50,
    )
    print(fit)
    for label, move in (("moving", 1.0), ("at rest", 0.0)):
        vi, planned = swing(guess, move)
        report = da.identifiability(vi, planned, measurement=["wrist"], noise=noise)
        print(
            f"hand {label}, wrist alone: worst known {report.weakest(1)[0]}, with the information {report.singular[-1]:.3g}"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9.5, 3.9), gridspec_kw={"width_ratios": [0.62, 1.5]})

        def places(model: da.Model, q: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
            at = da.positions(model, q)
            return np.array([at[model.frame_index(n)][1:] for n in names])

        for k, alpha in ((0, 0.25), (40, 0.5), (80, 1.0)):
            q = motion.q[k]
            body = np.vstack([[0.0, 0.0], places(true, q, ("lower", "wrist"))])
            a.plot(*body.T, color="C0", lw=2.5, alpha=alpha)
            a.plot(*places(true, q, ("hand", "knot")).T, color="black", lw=0.8, marker="o", ms=3, alpha=alpha)
        a.plot(*path(motion.t, 1.0).T, color="0.7", lw=1, label="path of the hand")
        a.plot(*record.y[:, 3:].T, ".", ms=1.5, color="C1", label="wrist, as the camera sees it")
        a.set(xlabel="y (m)", ylabel="z (m)", aspect="equal")
        a.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8, borderaxespad=0.2)
        before = da.MidpointVI(guess, dt=0.01)
        rho = path(motion.t, 1.0)
        q = da.satisfy_constraints(guess, motion.q[0], fixed=["hand_y", "hand_z", "elbow"])
        first = before.simulate(before.state(q=q), steps=len(rho) - 1, kinematic=rho[1:])
        wrist = [places(guess, x, ("wrist",))[0, 1] for x in first.q]
        b.plot(record.t, record.y[:, 4], ".", ms=2, color="C1", label="measured")
        b.plot(first.t, wrist, color="C3", lw=1, ls="--", label="guess")
        b.plot(record.t, record.y[:, 4] - fit.residuals[0][:, 4], color="C0", lw=1, label="identified")
        b.set(xlabel="time (s)", ylabel="height of the wrist (m)")
        b.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        figure.savefig(out / "identify_string.png")
    print("figure:", out / "identify_string.png")


if __name__ == "__main__":
    main()
