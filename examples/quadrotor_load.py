"""A quadrotor flies a loop with a load on its cable: planned, and flown under gusts with the plan's own feedback.

The body floats and the cable turns on a ball joint, so that nothing is singular anywhere on the loop. The plan starts from a
curve that is no motion: the load on a circle, the cable along the force that the load needs, thrust along what both need; the optimizer
closes its gaps.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.optimization import Optimization

DT, TIME = 0.02, 4.0
MASS, LOAD, CABLE, RADIUS = 1.35, 0.25, 0.6, 2.5
G = 9.81


def carrier() -> da.Model:
    """A body under thrust and torques; a load below it."""
    load = da.ball("cable", da.tz(-CABLE, name="load", mass=LOAD, inertia=(1e-3, 1e-3, 1e-3)))
    body = da.floating("base", load, name="body", mass=MASS, inertia=(0.01, 0.011, 0.018))
    push = da.Wrench("body", force=(0.0, 0.0, "thrust"), torque=("roll", "pitch", "yaw"))
    return da.Model(
        [body], [da.Gravity((0, 0, -G)), push, da.Damping({f"cable.w{k}": 1e-3 for k in "xyz"})], "quadrotor_load"
    )


def circle(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places (N, 3) and accelerations of a load that goes once round, with rests before and after."""
    s = np.clip((t - 0.1) / (TIME - 0.2), 0.0, 1.0)
    angle = 2 * np.pi * (126 * s**5 - 420 * s**6 + 540 * s**7 - 315 * s**8 + 70 * s**9)
    place = RADIUS * np.stack([np.sin(angle), 0 * t, 1 - np.cos(angle)], axis=1)
    return place, np.gradient(np.gradient(place, t, axis=0), t, axis=0)


def first_curve(vi: da.MidpointVI, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States and inputs by the forces that the circle needs; torques are left out."""
    place, bend = circle(t)
    up = np.array([0.0, 0.0, G])
    pull = LOAD * (bend + up)  # of the cable on the load
    body = place + CABLE * pull / np.linalg.norm(pull, axis=1)[:, None]
    thrust = MASS * (np.gradient(np.gradient(body, t, axis=0), t, axis=0) + up) + pull
    tilt, swing = (np.unwrap(np.arctan2(f[:, 0], f[:, 2])) for f in (thrust, pull))  # about y
    turns = da.rotation.exponential(np.array([[0, a, 0] for a in tilt]))
    hangs = da.rotation.exponential(np.array([[0, a, 0] for a in swing - tilt]))
    q = np.hstack([body, turns, hangs])
    v = np.zeros((len(t), vi.model.nv))
    v[:, :3], v[:, 4], v[:, 7] = np.gradient(body, t, axis=0), np.gradient(tilt, t), np.gradient(swing - tilt, t)
    X = np.array([np.r_[s.q, s.p] for s in (vi.state(a, v=b) for a, b in zip(q, v, strict=True))])
    U = np.zeros((len(t) - 1, 4))
    U[:, 0] = np.linalg.norm(thrust, axis=1)[:-1]
    return X, U


def plan(vi: da.MidpointVI, steps: int) -> Optimization:
    """A motion near the first curve with little torque."""
    system = da.System(vi, steps=steps)
    X, U = first_curve(vi, system.t)
    weights = {"base.v?": 20.0, "base.w?": 2.0, "cable.w?": 5.0, "p.*": 0.02}
    cost = da.TrackingCost((X, U), Q=weights, R={"thrust": 1e-3, "*": 1.0}, Qf={"*": 20.0})
    return da.optimize(system, cost, (X, U))


def fly(vi: da.MidpointVI, result: Optimization, seed: int) -> np.ndarray:
    """States (N+1, nx) under the plan's feedback, from beside its start, with gusts: impulses in every step (kg m/s, kg m^2/s)."""
    nv, rng = vi.model.nv, np.random.default_rng(seed)
    law = da.Feedback(K=result.gains, X=result.X, U=result.U, t=DT * np.arange(len(result.X)), difference=vi.difference)
    gust = np.r_[np.full(3, 0.01), np.full(3, 2e-4), np.zeros(nv - 6)]
    beside = np.r_[np.full(3, 0.1), np.full(nv - 3, 0.05), np.zeros(nv)]
    X = [vi.retract(result.X[0], beside * rng.normal(size=2 * nv))]
    for k in range(len(result.U)):
        x, _, _ = vi.advance(X[-1], law.input(k, X[-1]))
        X.append(vi.retract(x, np.r_[np.zeros(nv), gust * rng.normal(size=nv)]))
    return np.array(X)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    vi = da.MidpointVI(carrier(), DT)
    model = vi.model
    result = plan(vi, round(TIME / DT))
    motion = result.trajectory
    bend = np.gradient(np.gradient(motion["load"], DT, axis=0), DT, axis=0)
    pull = LOAD * (bend + np.array([0, 0, G]))
    turned = np.degrees(motion["base.ry"])
    print(f"plan: {result.status} in {len(result.history)} iterations, turned by {turned[-1] - turned[0]:.1f} degrees")
    print(f"cable: between {np.linalg.norm(pull, axis=1).min():.1f} and {np.linalg.norm(pull, axis=1).max():.1f} N")
    X = fly(vi, result, seed=1)
    error = vi.difference(result.X, X)
    away = np.linalg.norm(error[:, :3], axis=1)
    tilt = np.degrees(np.linalg.norm(error[:, 3:6], axis=1))
    print(
        f"flown under gusts: at most {away.max():.2f} m and {tilt.max():.1f} degrees from the plan, at the end {away[-1]:.2f} m and {tilt[-1]:.1f}"
    )

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    body, load = X[:, :3], np.array([da.positions(model, x[: model.nq])[model.frame_index("load")] for x in X])
    up = da.rotation.matrix(X[:, 3:7])[:, :, 2]
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12.5, 4.2), width_ratios=(1.15, 1, 1))
        for k in range(0, len(X), 4):
            side = 0.2 * np.array([up[k, 2], -up[k, 0]])
            a.plot([body[k, 0], load[k, 0]], [body[k, 2], load[k, 2]], color="0.7", lw=0.8)
            a.plot(
                [body[k, 0] - side[0], body[k, 0] + side[0]],
                [body[k, 2] - side[1], body[k, 2] + side[1]],
                color="C0",
                lw=1.8,
            )
            a.plot(load[k, 0], load[k, 2], "o", color="C1", ms=3.5)
        a.set(xlabel="x (m)", ylabel="z (m)", title="A loop with a load")
        a.set_aspect("equal", adjustable="datalim")
        b.plot(motion.t, turned / 360, label="turns of the body")
        b.plot(motion.t[1:-1], np.linalg.norm(pull, axis=1)[1:-1] / 10, label="force of the cable (10 N)")
        b.step(motion.t[:-1], result.U[:, 0] / 10, where="post", label="thrust (10 N)")
        b.set(xlabel="time (s)", title="The plan")
        b.legend(fontsize=8)
        c.plot(motion.t, 100 * away, label="place (cm)")
        c.plot(motion.t, tilt, label="attitude (degrees)")
        c.set(xlabel="time (s)", title="Flown under gusts: off the plan by", ylim=(0, None))
        c.legend(fontsize=8)
        figure.savefig(args.out / "quadrotor_load.png")
    print("figure:", args.out / "quadrotor_load.png")


if __name__ == "__main__":
    main()
