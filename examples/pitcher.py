"""The optimal pitch: collarbone, upper arm and forearm throw with the largest momentum of the hand.

Leyendecker, Ober-Bloebaum, Marsden, Ortiz, Discrete mechanics and optimal control for constrained systems, section 7.3,
Figs. 13-16. The torso turns about e3 (revolute joint to the ground), the shoulder is spherical, the elbow revolute; all
five degrees of freedom are actuated; free final time, N = 35; start at rest with the elbow at -pi/4, all else zero; at
the end the hand is at positive e2 and e3; maximal momentum of the hand along e2 by the projected Legendre transform
(15). The first guess interpolates four poses, the torques are zero. What the paper does not print and we chose:

    collarbone  8 kg (it stands for the turning shoulders), 0.4 m long, radius 0.09 m; shoulder 0.2 m from the axis
    upper arm   2.1 kg, 0.3 m, radius 0.045 m
    forearm     1.2 kg, 0.26 m, radius 0.035 m, and a hand with ball of 0.6 kg, 0.36 m from the elbow
    reference   arm stretched along e1, elbow axis e3
    torques     torso 80, shoulder 50 (each component, world axes), elbow 25 N m
    angles      torso +-1.2, shoulder (rotation vector relative to the collarbone) +-1.6, +-1.5, -1.2 ... 1.6,
                elbow -2.5 ... -0.05 rad
    rates       torso 15, shoulder 45 (each component), elbow 40 rad/s
    duration    0.2 to 0.8 s; a small effort (1e-5) makes the torques unique

The bounds on the rates are needed. Without them the problem has the paper's size, 356 unknowns and 190 constraints, and
an optimum that is none of the continuous problem: in the last step, which no equation of motion follows, the upper arm
jumps by more than a quarter turn, since a chord of the circle belongs to two turns with the same discrete momentum. The
example shows this optimum, too; replayed with finer steps it throws half as far. The rates add 175 constraints, the limit of
the turn per step 105.

A plan must be a motion: `refine="auto"` limits the turn of a body per step (0.6 rad on the first mesh, then 0.3 and 0.15) and
doubles the steps until the plan and its replay agree within 3 %. Where the limit of the turn is active it acts as a limit of
the speed, and meshes lead to different local optima: the duration is not a converged number.

The paper prints T = 0.41545 s and J = 24.502 N s. Durations grow with sqrt(mass / torque) and momenta with sqrt(mass * torque):
an arm with heavier limbs and rate bounds that fit gives both (`CALIBRATED`): a calibration, not a reproduction.
"""

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, optimize, problem_size

STEPS = 35
HAND_MASS, HAND = 0.6, 0.36  # kg, m from the elbow
TORQUES = {"torso": 80.0, "shoulder.rx": 50.0, "shoulder.ry": 50.0, "shoulder.rz": 50.0, "elbow": 25.0}
ANGLES = {
    "torso": (-1.2, 1.2),
    "shoulder.rx": (-1.6, 1.6),
    "shoulder.ry": (-1.5, 1.5),
    "shoulder.rz": (-1.2, 1.6),
    "elbow": (-2.5, -0.05),
}
RATES = {"torso": 15.0, "shoulder.rx": 45.0, "shoulder.ry": 45.0, "shoulder.rz": 45.0, "elbow": 40.0}
POSES = np.array(
    [
        [0, 0, 0, 0, -np.pi / 4],
        [-0.8, -0.5, -0.5, -0.8, -1.5],
        [-0.2, 0.3, -0.6, -0.5, -1.8],
        [0.8, 0.2, -0.2, 0.8, -0.2],
    ]
)


@dataclass(frozen=True)
class Athlete:
    """Factors on the masses, the bounds of torques and those of rates above."""

    mass: float = 1.0
    torque: float = 1.0
    rate: float = 1.0


PLAIN, CALIBRATED = Athlete(), Athlete(2.24, 0.99, 0.66)


def cylinder(mass: float, length: float, radius: float) -> np.ndarray:
    """Principal moments of a cylinder along the first axis."""
    across = mass * (3 * radius**2 + length**2) / 12
    return np.array([mass * radius**2 / 2, across, across])


def arm(factor: float = 1.0) -> tuple[MultibodySystem, tuple[float, float, float]]:
    """The arm with so many times the masses, and the hand's place from the centre of mass of forearm and hand."""
    mass, length = 1.2, 0.26
    centre = (mass * length / 2 + HAND_MASS * HAND) / (mass + HAND_MASS)
    inertia = cylinder(mass, length, 0.035) + 0.4 * HAND_MASS * 0.04**2  # the hand as a ball of 4 cm
    inertia[1:] += mass * (centre - length / 2) ** 2 + HAND_MASS * (HAND - centre) ** 2
    bodies = [
        ("collarbone", 8.0, cylinder(8.0, 0.4, 0.09), 0.1),
        ("upper arm", 2.1, cylinder(2.1, 0.3, 0.045), 0.35),
        ("forearm", mass + HAND_MASS, inertia, 0.5 + centre),
    ]
    system = MultibodySystem(
        [RigidBody(name, factor * m, factor * j, position=(x, 0, 0)) for name, m, j, x in bodies],
        [
            Joint("R", "ground", "collarbone", axis=(0, 0, 1), name="torso"),
            Joint("S", "collarbone", "upper arm", point=(0.2, 0, 0), name="shoulder"),
            Joint("R", "upper arm", "forearm", point=(0.5, 0, 0), axis=(0, 0, 1), name="elbow"),
        ],
        gravity=(0, 0, -9.81),
        name="pitcher",
    )
    return system, (HAND - centre, 0.0, 0.0)


def pitch(athlete=PLAIN, bounded=True, steps=STEPS, guess=None, **options):
    """The optimal pitch; `bounded=False` leaves the rates free, `guess` is another pitch."""
    import casadi as ca

    system, hand = arm(athlete.mass)
    if guess is None:
        guess = np.column_stack([np.interp(np.linspace(0, 3, steps + 1), range(4), c) for c in POSES.T])
    inf = np.inf

    def final(view):  # n - m = 5 conditions: the hand's position, torso and elbow as they like
        return ca.vertcat(view.position("forearm", hand), view["torso"], view["elbow"])

    return optimize(
        system,
        steps=steps,
        time=(0.2, 0.8),
        start={"elbow": -np.pi / 4},
        goal=(final, [-inf, 0, 0, -inf, -inf], [inf] * 5),
        goal_velocity=None,
        effort=1e-5,
        final_cost=lambda view: -athlete.mass * HAND_MASS * view.velocity("forearm", hand)[1],
        bounds=ANGLES,
        input_bounds={k: (-athlete.torque * v, athlete.torque * v) for k, v in TORQUES.items()},
        rate_bounds={k: (-athlete.rate * v, athlete.rate * v) for k, v in RATES.items()} if bounded else None,
        guess=guess,
        **options,
    )


def hand_momentum(motion, athlete=PLAIN) -> np.ndarray:
    """Momentum of the hand (N+1, 3) from the projected momenta."""
    _, hand = arm()
    v = motion.velocity()[:, 12 * motion.system.body_index["forearm"] :][:, :12]
    return athlete.mass * HAND_MASS * (v[:, :3] + hand[0] * v[:, 3:6])


def report(name, solution, athlete=PLAIN) -> None:
    """Numbers of one solution."""
    m = solution.motion
    h = m.t[1]
    used = np.abs(m.tau) / np.array([athlete.torque * TORQUES[c] for c in m.system.inputs])
    low, high = np.array([ANGLES[c] for c in m.system.coordinates]).T
    touched = [
        c for c, a in zip(m.system.coordinates, ((m.u < low + 1e-5) | (m.u > high - 1e-5)).T, strict=True) if a.any()
    ]
    _, hand = arm()
    change = m.angular_momentum_defect()[:, 2]  # gravity has no moment about e3
    print(
        f"{name}: {solution.status}, {solution.unknowns} unknowns, {solution.constraints} constraints, "
        f"{solution.iterations} iterations, set-up {solution.seconds[0]:.2f} s, solve {solution.seconds[1]:.2f} s\n"
        f"  momentum of the hand along e2 {hand_momentum(m, athlete)[-1, 1]:.4f} N s, time {m.t[-1]:.5f} s, h = {h:.5f} s\n"
        f"  hand at the end {np.round(m.position('forearm', hand)[-1], 3)} m\n"
        f"  L3 changes by the torque of the torso to {np.abs(change).max():.1e} N m s\n"
        f"  torques at their bounds {100 * (used > 0.9999).mean():.0f} % of the time, angles that touch theirs: "
        f"{', '.join(touched)}; largest turn in a step {np.abs(np.diff(m.u, axis=0)).max():.2f} rad\n"
        f"  replayed with 8 times as many steps: momentum {hand_momentum(solution.replay(), athlete)[-1, 1]:.4f} N s, error "
        f"{solution.replay_error:.2%}, defect of the steps {solution.defect:.2%}"
    )
    for steps, _, error, defect in solution.refinements:
        print(f"    {steps} steps: error {error:.2%}, defect {defect:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    system, hand = arm()
    print(
        "sizes:",
        problem_size(system, STEPS, free_time=True),
        "multiplier form as the paper counts:",
        problem_size(system, STEPS, form="paper"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.AccuracyWarning)  # it is no motion, and reported so
        free = pitch(bounded=False, turn=None)
    report("rates and turns free (not a motion, see above)", free)
    best = pitch(refine="auto")
    report("rates bounded, refined", best)
    report("calibrated (printed: T = 0.41545 s, J = 24.502 N s)", pitch(CALIBRATED, refine="auto"), CALIBRATED)
    m = best.motion

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure = plt.figure(figsize=(11, 7.4), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(1, 4))
        shoulder = m.position("collarbone", (0.1, 0, 0))
        elbow = m.position("upper arm", (0.15, 0, 0))
        end = m.position("forearm", hand)
        nodes = [round(m.steps * x / 35) for x in (0, 10, 18, 24, 28, 31, 33, 35)]
        azimuth, height = np.deg2rad([-35, 20])  # flat drawings of the scene as seen from there
        right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
        toward = np.array([np.cos(height) * np.cos(azimuth), np.cos(height) * np.sin(azimuth), np.sin(height)])
        eye = np.column_stack([right, np.cross(toward, right)])
        for ax, i in zip(top.subplots(1, len(nodes), sharex=True, sharey=True), nodes, strict=True):
            ax.plot(*(np.array([[0, 0, -0.5], [0, 0, 0.25]]) @ eye).T, color="lightgray", lw=4)
            ax.plot(*(end[: i + 1] @ eye).T, ":", color="gray", lw=1)
            ax.plot(*(np.array([np.zeros(3), shoulder[i], elbow[i], end[i]]) @ eye).T, "o-", ms=3, lw=2)
            ax.set(aspect="equal", title=f"{m.t[i]:.3f} s")
            ax.set_axis_off()
        a, b, c, d = bottom.subplots(2, 2).ravel()
        for k, name in enumerate(system.coordinates):
            a.plot(m.t, m.u[:, k], label=name)
            b.step(m.t[:-1], m.tau[:, k], where="post", label=name)
        a.set(title="joint coordinates (rad)", xlabel="time (s)")
        b.set(title="torques (N m)", xlabel="time (s)", ylim=(-185, 95))
        b.legend(loc="lower left", ncols=2, fontsize=8, title="both panels", title_fontsize=8)
        c.plot(m.t, m.angular_momentum()[:, 2], label="L3")
        c.plot(
            m.t, np.concatenate([[0], np.cumsum(m.t[1] * m.tau[:, 0])]), "--", label="integral of the torso's torque"
        )
        c.plot(m.t, hand_momentum(m)[:, 1], label="hand along e2 (N s)")
        c.set(title="momenta (N m s)", xlabel="time (s)")
        c.legend()
        d.plot(m.t, m.kinetic_energy(), label="kinetic")
        d.plot(m.t, m.potential_energy(), label="potential")
        d.plot(m.t, m.energy(), "--", label="total")
        d.set(title="energy (J)", xlabel="time (s)")
        d.legend()
        figure.savefig(out / "pitcher.png")
    print("figure:", out / "pitcher.png")


if __name__ == "__main__":
    main()
