"""A body turned by spinning rotors, three and then two of them, while the total angular momentum stays zero.

Leyendecker, Ober-Bloebaum, Marsden, Ortiz, Discrete mechanics and optimal control for constrained systems, section 7.2,
Figs. 9-12. From rest to the rotation vector pi/14 (1, 2, 3) at rest in 5 s, 50 steps, least effort; absolute
reparameterization; first guess: uniform rotation of the main body, rotors and torques zero.

The paper prints no masses, distances or axes, but two costs, 2.8242e6 and 2.9168e6 for three and for two rotors. Their ratio,
1.0328, asks for heavy rotors: a wheel that is left out also takes its m d^2 away, and the lighter body is easier to turn.
Calibrated so that the ratio comes out, not determined by the paper (other sets match it too):

    main body   60 kg, moments of inertia 6, 7, 8 kg m^2
    rotors      44.994 kg, discs of radius 0.4 m, centres 0.5 m from the main body's centre on the axes e1, e2, e3, which are
                their axes of rotation

The costs themselves fix the unit of mass: effort grows with its square, and 280.198 of these kilograms give the printed numbers.
`--mass 10` shows lighter rotors, with which two of them cost 2.4 times as much; they turn far in a step, and more steps are needed.

For two rotors the first one (on e1) is left out. The paper counts 909 unknowns and 477 constraints, the forces and
torques on the main body being unknowns that are bounded to zero; so do we, and add 200 limits of the turn per
step. For the multiplier form it prints 6798 and 4555; its own formula (N-1)(n+m)+4n gives 4455
(and 2422 for the pitcher, as printed): 4555 is a misprint.
"""

import argparse
from pathlib import Path

import numpy as np

from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, condition_numbers, optimize, problem_size

STEPS, TIME = 50, 5.0
ROTOR, UNIT = 44.994, 280.198  # kg; calibrated, see above
AXES = {"rotor 1": (1.0, 0.0, 0.0), "rotor 2": (0.0, 1.0, 0.0), "rotor 3": (0.0, 0.0, 1.0)}
TURN = np.pi / 14 * np.array([1.0, 2.0, 3.0])
GOAL = dict(zip(["main.rx", "main.ry", "main.rz"], TURN, strict=True))


def satellite(rotors, mass=ROTOR) -> MultibodySystem:
    """Main body with the named rotors on revolute joints."""
    bodies = [RigidBody("main", 60.0, (6.0, 7.0, 8.0))]
    joints = [Joint("free", "ground", "main")]
    for name in rotors:
        axis = np.array(AXES[name])
        bodies.append(RigidBody(name, mass, mass * 0.4**2 / 4 * (1 + axis), position=0.5 * axis))
        joints.append(Joint("R", "main", name, point=0.5 * axis, axis=axis))
    return MultibodySystem(bodies, joints, name=f"body with {len(joints) - 1} rotors")


def turn(system, guess=None, **options):
    """The optimal manoeuvre; no force or torque acts on the main body from outside."""
    idle = {c: (0.0, 0.0) for c in system.inputs if c.startswith("main")}
    return optimize(system, steps=STEPS, time=TIME, goal=GOAL, input_bounds=idle, guess=guess, **options)


def study(mass=ROTOR):
    """Optimal manoeuvres with three and with two rotors."""
    full, less = satellite(AXES, mass), satellite(["rotor 2", "rotor 3"], mass)
    three = turn(full)
    keep = [full.coordinates.index(c) for c in less.coordinates]
    return three, turn(less, three.motion.u[:, keep])


def asymmetry(motion) -> float:
    """Largest difference between the kinetic energy and its mirror image in time, relative to the largest energy."""
    energy = motion.kinetic_energy()
    return float(np.abs(energy - energy[::-1]).max() / energy.max())


def draw(ax, motion, node) -> None:
    """Main body as a box, rotors as discs, axes of the wanted orientation."""
    import matplotlib.pyplot as plt
    from scipy.spatial.transform import Rotation

    colors = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    wanted = Rotation.from_rotvec(TURN).as_matrix()
    for k in range(3):
        ax.plot(*np.outer(wanted[:, k], [0, 0.95]), color="black", lw=0.8)
    origin, r = motion.position("main")[node], motion.rotation("main")[node]
    corners = 0.2 * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=float)
    for a in range(8):
        for b in range(a):
            if np.isclose(np.abs(corners[a] - corners[b]).sum(), 0.4):
                ax.plot(*(origin + np.array([corners[a], corners[b]]) @ r.T).T, color="gray", lw=1)
    angle = np.linspace(0, 2 * np.pi, 40)
    for body in [b.name for b in motion.system.bodies[1:]]:
        index = list(AXES).index(body)
        e1, e2 = np.eye(3)[(index + 1) % 3], np.eye(3)[(index + 2) % 3]
        c, s = motion.position(body)[node], motion.rotation(body)[node]
        ring = c + 0.3 * (np.outer(np.cos(angle), s @ e1) + np.outer(np.sin(angle), s @ e2))
        ax.plot(*ring.T, color=colors[index], lw=1.5)
        ax.plot(*np.array([c, c + 0.3 * s @ e1]).T, color=colors[index], lw=1.5)  # a spoke shows the turn
        ax.plot(*np.array([origin, c]).T, color="gray", lw=1)
    ax.set(xlim=(-0.2, 0.8), ylim=(-0.2, 0.8), zlim=(-0.2, 0.8))
    ax.set_box_aspect((1, 1, 1), zoom=1.35)
    ax.set_title(f"t = {motion.t[node]:.0f} s", fontsize=9, pad=0)
    ax.view_init(25, 35)
    ax.set_axis_off()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--mass", type=float, default=ROTOR, help="mass of a rotor (kg)")
    args = parser.parse_args()
    out = args.out
    three, two = study(args.mass)
    for name, r in (("three rotors", three), ("two rotors", two)):
        m = r.motion
        print(
            f"{name}: {r.status}, {r.unknowns} unknowns, {r.constraints} constraints, {r.iterations} iterations, "
            f"set-up {r.seconds[0]:.2f} s, solve {r.seconds[1]:.2f} s\n"
            f"  effort {r.objective:.6f} (N m)^2 s, largest |L| {np.abs(m.angular_momentum()).max():.1e} N m s, "
            f"largest |p| {np.abs(m.linear_momentum()).max():.1e} N s, joints {m.constraint_violation().max():.1e}\n"
            f"  final rotation vector off by {np.abs(m.u[-1, 3:6] - TURN).max():.1e} rad, "
            f"rotors turned by {np.round(m.u[-1, 6:], 3)} rad\n"
            f"  replayed with 8 times as many steps: error {r.replay_error:.2%}, defect of its steps {r.defect:.2%}\n"
            f"  asymmetry of the energy {asymmetry(m):.2%}"
        )
    print(f"two rotors cost {two.objective / three.objective:.4f} times as much (printed: 1.0328)")
    if args.mass == ROTOR:
        costs = ", ".join(f"{UNIT**2 * r.objective:.4e}" for r in (three, two))
        print(f"with {UNIT} times all masses: {costs} (printed: 2.8242e+06, 2.9168e+06)")

    system = three.motion.system
    full = turn(system, three, form="multiplier")
    print(
        f"multiplier form, from the solution above: {full.status}, {full.unknowns} unknowns, {full.constraints} "
        f"constraints, {full.iterations} iterations, {full.seconds[1]:.2f} s, effort differs by "
        f"{abs(full.objective - three.objective):.1e}"
    )
    print(
        "sizes as the paper counts the multiplier form, N(2n+m)+n and (N-1)(n+m)+4n:",
        problem_size(system, STEPS, form="paper"),
    )
    print("step (s)   condition of the reduced scheme   of the multiplier scheme")
    for h in 10.0 ** -np.arange(1, 5):
        a, b = condition_numbers(system, h)
        print(f"{h:8.0e}   {a:31.4f}   {b:24.3e}")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure = plt.figure(figsize=(11, 8.5), layout="constrained")
        bands = figure.subfigures(2, 1)
        for band, r in zip(bands, (three, two), strict=True):
            m = r.motion
            top, bottom = band.subfigures(2, 1, height_ratios=(1, 1.15))
            top.suptitle(m.system.name, fontweight="bold", x=0.01, ha="left")
            for i, ax in enumerate(top.subplots(1, 6, subplot_kw={"projection": "3d"})):
                draw(ax, m, 10 * i)
            a, b, c = bottom.subplots(1, 3)
            colors = plt.rcParams["axes.prop_cycle"].by_key()["color"]
            for name in AXES:
                if name in m.system.inputs:
                    k = m.system.inputs.index(name)
                    a.step(m.t[:-1], m.tau[:, k], where="post", label=name, color=colors[list(AXES).index(name)])
            a.set(title="torque (N m)", xlabel="time (s)")
            a.legend()
            b.plot(m.t, m.kinetic_energy())
            b.set(title="kinetic energy (J)", xlabel="time (s)")
            c.plot(m.t, 1e14 * m.angular_momentum(), label=["L1", "L2", "L3"])
            c.set(title="angular momentum (1e-14 N m s)", xlabel="time (s)")
            c.legend()
        figure.savefig(out / "rotor_satellite.png")
    print("figure:", out / "rotor_satellite.png")


if __name__ == "__main__":
    main()
