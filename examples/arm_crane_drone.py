"""Motions within limits: an arm around an obstacle, a crane whose load may not swing, a drone through a gate.

Arm and drone start from curves that are no motions: a straight line of states, a geodesic for the drone's rotation. `da.MotionLimit` keeps
expressions of states and inputs within their limits at every step, `bounds` does so for single inputs and states.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import Kinematic


def line(a, b, steps: int):
    """States on a straight line, (steps + 1, n)."""
    s = np.linspace(0, 1, steps + 1)[:, None]
    return (1 - s) * np.asarray(a) + s * np.asarray(b)


def arm(steps: int = 60):
    """Two links in the horizontal plane; elbow and hand go around a disc that is in the way."""
    forearm = da.tx(
        0.5, da.rz("elbow", da.tx(0.25, mass=(0.8, 1e-3, 0.02, 0.02)), da.tx(0.5, name="hand")), name="joint"
    )
    model = da.Model(
        [da.rz("shoulder", da.tx(0.25, mass=(1.0, 1e-3, 0.02, 0.02)), forearm)],
        [da.ConfigForce("shoulder", "m1"), da.ConfigForce("elbow", "m2"), da.Damping(0.05)],
    )
    system = da.System(da.MidpointVI(model, 0.025), steps=steps)
    centre, radius = np.array([0.55, 0.45]), 0.2

    def distance(point: str):
        return lambda s: (s.position(point)[0] - centre[0]) ** 2 + (s.position(point)[1] - centre[1]) ** 2

    limits = [da.MotionLimit(distance(p), low=radius**2, name=p) for p in ("hand", "joint")]
    start, goal = np.array([0.0, 0.3, 0, 0]), np.array([1.3, 0.3, 0, 0])
    cost = da.TrackingCost(
        {"shoulder": 1.3, "elbow": 0.3}, Q=0.01, R=1.0, Qf={"shoulder": 500.0, "elbow": 500.0, "*": 100.0}
    )
    guess = line(start, goal, steps), np.zeros((steps, 2))
    free = da.optimize(system, cost, guess, bounds={"m1": (-4, 4), "m2": (-2, 2)})
    result = da.optimize(system, cost, guess, bounds={"m1": (-4, 4), "m2": (-2, 2)}, limits=limits)
    return system, free, result, (centre, radius)


def crane(steps: int = 100):
    """A load on a rope from a trolley: at its goal in three seconds, and never more than 3 degrees off the vertical."""
    model = da.Model(
        [da.tx(Kinematic("car"), name="car"), da.tx("x", da.ty("y", name="load", mass=1.0))],
        [da.Gravity((0, -9.8, 0)), da.Distance("car", "load", Kinematic("rope")), da.Damping(0.02)],
    )
    system = da.System(da.MidpointVI(model, 0.03), steps=steps)
    q0 = da.satisfy_constraints(model, {"y": -1.0, "rope": 1.0})
    goal = np.r_[1.0, -1.2, 1.0, 1.2, 0, 0, 0, 0]
    cost = da.TrackingCost(
        (np.tile(goal, (steps + 1, 1)), np.tile([1.0, 1.2], (steps, 1))),
        Q=[1, 1, 0.1, 0.1, 0.1, 0.1, 1, 1], R=[1.0, 1.0], Qf=[500, 500, 50, 50, 50, 50, 1, 1],
    )  # fmt: skip
    U = np.tile(q0[2:], (steps, 1))
    swing = da.MotionLimit(
        lambda s: (s["x"] - s["car"]) / s["rope"], low=-np.sin(np.deg2rad(3)), high=np.sin(np.deg2rad(3)), name="swing"
    )
    guess = system.simulate(system.x(q0), U), U
    free = da.optimize(system, cost, guess)
    return system, free, da.optimize(system, cost, guess, limits=[swing]), None


def drone(steps: int = 50):
    """A drone (SO(3)) flies through a narrow gate, on its side because the gate is a slot, and hovers behind it."""
    hull = da.floating("drone", name="hull", mass=(0.8, 0.008, 0.008, 0.014))
    model = da.Model([hull], [da.Gravity((0, 0, -9.81)), da.Wrench("hull", (0, 0, "lift"), ("mx", "my", "mz"))])
    system = da.System(da.MidpointVI(model, 0.03), steps=steps)
    x0 = system.neutral()
    goal = x0.copy()
    goal[:3] = 2.0, 0.3, 0.5
    middle = steps // 2
    # at the middle of the flight the drone is in the gate, x = 1, with its axis turned by 60 degrees about the direction of flight
    gate = system.retract(x0, np.r_[1.0, 0.0, 0.6, np.deg2rad(60), 0, 0, np.zeros(6)])
    Xd = np.vstack([np.tile(gate, (middle + 1, 1)), np.tile(goal, (steps - middle, 1))])
    Q = np.zeros((steps + 1, system.ndx, system.ndx))
    Q[:] = np.diag([0.0] * 6 + [0.01] * 3 + [0.1] * 3)
    Q[middle] = np.diag([2e4] * 3 + [2e3] * 2 + [0.0] + [0.01] * 6)
    Q[-1] = np.diag([500.0] * 6 + [50.0] * 6)
    hover = np.tile([0.8 * 9.81, 0, 0, 0], (steps, 1))
    cost = da.TrackingCost((Xd, hover), Q=Q, R=np.diag([0.02, 5.0, 5.0, 5.0]))
    halves = [
        system.retract(a, t * system.difference(a, b))
        for a, b in ((x0, gate), (gate, goal))
        for t in np.linspace(0, 1, middle + 1)
    ]
    X = np.stack([*halves[: middle + 1], *halves[middle + 2 :]])[: steps + 1]
    bounds = {"lift": (0.0, 20.0), "mx": (-0.4, 0.4), "my": (-0.4, 0.4), "mz": (-0.2, 0.2)}
    free = da.optimize(system, cost, (X, hover))
    return system, free, da.optimize(system, cost, (X, hover), bounds=bounds), (gate, goal)


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args(argv).out
    found = {make.__name__: make() for make in (arm, crane, drone)}
    for name, (_, free, result, _) in found.items():
        print(f"{name:<6} without limits: {free.status}, cost {free.cost:.4f}, {free.iterations} iterations")
        active = ", ".join(f"{k} {int((np.abs(y) > 1e-3).sum())}" for k, y in result.multipliers.items())
        print(f"{'':<6} with limits:    {result.status}, cost {result.cost:.4f}, {result.iterations} iterations")
        print(f"{'':<6} steps on limits: {active}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12.5, 4.0), layout="constrained")
        system, free, result, (centre, radius) = found["arm"]
        a.add_patch(plt.Circle(centre, radius, color="0.8"))
        for k in np.linspace(0, system.steps, 7).astype(int):
            joint, hand = result.trajectory["joint"][k], result.trajectory["hand"][k]
            a.plot([0, joint[0], hand[0]], [0, joint[1], hand[1]], "C0", alpha=0.25, lw=2)
        for r, look, label in ((free, "C7--", "free"), (result, "C0", "around the disc")):
            a.plot(*r.trajectory["hand"][:, :2].T, look, label=label)
        a.set(aspect="equal", title="An arm around an obstacle", xlabel="x (m)", ylabel="y (m)")
        a.legend(fontsize=8)
        system, free, result, _ = found["crane"]
        b.axhspan(-3, 3, color="0.9")
        for r, look, label in ((free, "C7--", "free"), (result, "C0", "within 3 degrees")):
            b.plot(system.t, np.rad2deg(np.arcsin((r.X[:, 0] - r.X[:, 2]) / r.X[:, 3])), look, label=label)
        b.set(title="A crane whose load hardly swings", xlabel="time (s)", ylabel="swing (degrees)")
        b.legend(fontsize=8)
        system, free, result, (gate, _) = found["drone"]
        slot = 0.25 * da.rotation.matrix(gate[3:7])[:, 1]
        c.plot(
            [gate[1] - slot[1], gate[1] + slot[1]], [gate[2] - slot[2], gate[2] + slot[2]], "0.8", lw=9, label="gate"
        )
        c.plot(result.X[:, 1], result.X[:, 2], "C0", lw=1)
        for k in range(0, system.steps + 1, 5):
            wing = 0.12 * da.rotation.matrix(result.X[k, 3:7])[:, 1]
            y, z = result.X[k, 1:3]
            c.plot(
                [y - wing[1], y + wing[1]], [z - wing[2], z + wing[2]], "C1" if 2 * k == system.steps else "C0", lw=2
            )
        c.set(aspect="equal", title="A drone through a slot (from behind)", xlabel="y (m)", ylabel="z (m)")
        c.legend(fontsize=8)
        figure.savefig(out / "arm_crane_drone.png")
    print("figure:", out / "arm_crane_drone.png")


if __name__ == "__main__":
    main()
