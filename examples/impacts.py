"""Impacts: Newton's cradle under two laws, a robot that falls into its stops, and a throw found through bounces by exact derivatives.

The robot's stops are the joint ranges of its file. The throw is Newton's method on the first velocity of a ball: its last position depends on
it through impacts with the floor and a wall, whose instants are differentiated with the steps.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

ARM = """
<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.25 0 0"/><mass value="1.5"/>
    <inertia ixx="0.002" iyy="0.03" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
    <inertia ixx="0.001" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1.2" effort="1e6" velocity="1e6"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
    <limit lower="0.1" upper="2.3" effort="1e6" velocity="1e6"/><dynamics damping="0.02"/></joint>
</robot>
"""


def cradle(law: str) -> da.Trajectory:
    """Five balls of 0.1 m on strings of 1 m that touch each other; the first one is let go."""
    balls = [da.tx(0.1 * i, da.ry(f"a{i}", da.tz(-1.0, name=f"ball{i}", mass=1.0), name=f"hook{i}")) for i in range(5)]
    touching = [da.SphereContact(f"ball{i}", f"ball{i + 1}", 0.05, 0.05, restitution=1.0) for i in range(4)]
    vi = da.MidpointVI(da.Model(balls, [da.Gravity(), *touching], "cradle"), dt=0.01, impacts=law)
    return vi.simulate(vi.state(q={"a0": 0.5}), time=4.0)


def falling_arm() -> da.Trajectory:
    """The arm without motors, from a pose above its stops."""
    vi = da.MidpointVI(da.loads(ARM, "urdf"), dt=0.005)
    return vi.simulate(vi.state(q={"shoulder": -0.8, "elbow": 1.5}), time=2.0)


def throw(goal: tuple[float, float]) -> tuple[list[da.Trajectory], list[float]]:
    """Motions and misses (m) of Newton's method on the velocity with which a ball leaves (0, 1) to be at the `goal` after 1.6 s."""
    ball = da.tx("x", da.tz("z", da.tx(0.0, name="ball", mass=0.1)))
    bounds = [
        da.Contact("ball", radius=0.05, restitution=0.8),
        da.Contact("ball", "wall", (-1, 0, 0), 0.05, restitution=0.7),
    ]
    model = da.Model([ball, da.tx(2.0, name="wall")], [da.Gravity(), *bounds], "throw")
    vi = da.MidpointVI(model, dt=0.01)
    v = np.array([1.5, 1.0])
    motions, misses = [], []
    for _ in range(12):
        motion = vi.simulate(vi.state(q=[0.0, 1.0], v=v), time=1.6)
        miss = motion.q[-1] - goal
        motions.append(motion)
        misses.append(float(np.abs(miss).max()))
        if misses[-1] < 1e-12:
            break
        rows = [motion.adjoint(z)[0] for z in np.eye(4)[:2]]  # of x and z at the end, by (x, z, p_x, p_z) at the start
        v = v - np.linalg.solve(np.array(rows)[:, 2:] * 0.1, miss)  # p = 0.1 v
    return motions, misses


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    cradles = {law: cradle(law) for law in ("sequence", "together")}
    for law, motion in cradles.items():
        first = motion.impacts[0].time
        v = motion.v[int(np.searchsorted(motion.t, first + 1e-9))]
        energy = motion.energy()
        print(
            f"cradle, {law}: speeds after the first impact {np.round(v / np.abs(v).max(), 2) + 0.0}, {len(motion.impacts)} impacts, "
            f"energy within {np.abs(energy - energy[0]).max():.1e} J of {9.81 * (1 - np.cos(0.5)):.2f}"
        )
    arm = falling_arm()
    for impact in arm.impacts[:4]:
        print(f"arm: {impact.name} at {impact.time:.4f} s, {impact.impulse:.3f} N m s, {impact.energy:.3f} J lost")
    print(f"arm: smallest gap {da.gaps(arm.model, arm.q).min():.0e} rad, {len(arm.impacts)} impacts")
    goal = (0.6, 0.7)
    motions, misses = throw(goal)
    print("throw: miss", " -> ".join(f"{m:.1e}" for m in misses), "m;", len(motions[-1].impacts), "impacts")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(1, 3, figsize=(13, 3.8))
        a, b, c = axes
        for i, (law, motion) in enumerate(cradles.items()):
            for k in range(5):
                a.plot(motion.t, motion[f"a{k}"] + 1.4 * (1 - i), color=f"C{k}", lw=1.2)
            a.text(0.05, 1.4 * (1 - i) + 0.56, f'impacts="{law}"', fontsize=9)
        a.set(xlabel="time (s)", yticks=[], ylim=(-0.7, 2.2), title="Newton's cradle: angles of five balls")
        for k, name in enumerate(("shoulder", "elbow")):
            b.plot(arm.t, arm[name], label=name, color=f"C{k}")
            for end in arm.model.limits[name]:
                b.axhline(end, color=f"C{k}", lw=0.8, ls="--")
        b.plot(
            [i.time for i in arm.impacts],
            [arm.model.limits[i.name[6:].split(")")[0]][i.name.endswith("high")] for i in arm.impacts],
            "k.",
            ms=5,
        )
        b.set(xlabel="time (s)", ylabel="angle (rad)", title="A robot falls into its stops")
        b.legend(loc="center right")
        for k, motion in enumerate(motions):
            last = motion is motions[-1]
            c.plot(motion["x"], motion["z"], color="C2" if last else "0.7", lw=1.8 if last else 0.9, zorder=2 + last)
            if k < 3:
                c.annotate(f"{k + 1}", (motion["x"][-1], motion["z"][-1]), color="0.4", fontsize=8)
        c.plot(*goal, "o", mfc="none", mec="C3", ms=10, mew=2, zorder=5)
        c.axvline(2.0, color="0.3")
        c.axhline(0.0, color="0.3")
        c.set(
            xlim=(-0.2, 2.1),
            ylim=(-0.05, None),
            aspect="equal",
            xlabel="x (m)",
            ylabel="z (m)",
            title="A throw, by derivatives through impacts",
        )
        figure.savefig(args.out / "impacts.png")
    print("figure:", args.out / "impacts.png")


if __name__ == "__main__":
    main()
