"""Optimal motion of a closed chain by DMOC, and the feedback that holds it.

The device of Johnson, Murphey, Scalable variational integrators for constrained mechanical systems (section VI-B: seven
angles, two closed loops), with motors at its three fixed hinges. DMOC with multipliers (Leyendecker et al., eq. 10)
finds the motion of least effort between two rests; an LQR regulator designed on the same discrete equations, which
Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, say DMOC lacks, brings the device
back to it from a wrong start and after a kick.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

STEPS, TIME = 150, 1.5
MOTORS = ("J", "K", "A")


def device():
    """(model, start): the closed chain with motors, and its closed starting configuration."""
    plain, configurations = models.load_with_configurations("closed_chain")
    motors = [da.ConfigForce(name, f"torque {name}") for name in MOTORS]
    return da.Model(plain.frames, [*plain.elements, *motors], name="closed chain"), configurations["q0"]


def closed(model, q, **changes):
    """The closed configuration near q with some angles set."""
    q = np.array(q)
    for name, value in changes.items():
        q[model.index(name)] = value
    return da.satisfy_constraints(model, q, fixed=tuple(changes))


def plan_motion(model, q0, q1):
    """Rest to rest with least effort; first on a coarse mesh."""
    rest = np.zeros(model.nd)
    problem = {"start": {"q": q0, "v": rest}, "goal": {"q": q1, "v": rest}, "time": TIME}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.AccuracyWarning)  # a first guess need not be a motion
        coarse = da.dmoc(model, steps=STEPS // 5, **problem)
    return da.dmoc(model, steps=STEPS, guess=coarse, **problem)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out

    model, start = device()
    q0 = closed(model, start, J=start[model.index("J")])
    q1 = closed(model, q0, J=q0[model.index("J")] + 0.5, K=q0[model.index("K")], A=q0[model.index("A")] + 0.4)
    plan = plan_motion(model, q0, q1)
    print(plan)
    print(f"replayed with 8 times as many steps: error {plan.replay_error:.2%}, defect of its steps {plan.defect:.2%}")
    print(f"largest constraint violation {np.abs(plan.trajectory.constraint_violation()).max():.1e}")

    # the same discrete equations, step by step
    vi = plan.integrator()
    again = vi.simulate(vi.state(q=plan.q[0], p=plan.p[0]), steps=STEPS, u=plan.u)
    print(f"integrator repeats the plan to {np.abs(again.q - plan.q).max():.1e} rad")

    Q = np.diag([200.0] * model.nd + [1.0] * model.nd)
    regulator = plan.feedback(Q, 0.01 * np.eye(model.nu), reduced=True)

    def kicked(policy):
        """Inputs of a policy plus a kick of 60 N m at hinge A during 0.05 s."""

        def u(t, state):
            kick = np.array([0.0, 0.0, 60.0 if 0.7 <= t < 0.75 else 0.0])
            return policy(t, state) + kick

        return u

    wrong = vi.state(q=closed(model, q0, J=q0[model.index("J")] - 0.08, A=q0[model.index("A")] + 0.05))
    step = lambda t: min(round(t * STEPS / TIME), STEPS - 1)  # noqa: E731
    blind = vi.simulate(wrong, steps=STEPS, u=kicked(lambda t, state: plan.u[step(t)]))
    held = vi.simulate(wrong, steps=STEPS, u=kicked(regulator))
    for name, run in (("plan alone", blind), ("with feedback", held)):
        error = np.linalg.norm(run.q - plan.q, axis=1)
        violation = np.abs(run.constraint_violation()).max()
        print(
            f"{name:>13}: error at the end {error[-1]:.4f} rad, largest {error.max():.3f}, constraints {violation:.1e}"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
        for k in range(0, STEPS + 1, STEPS // 5):
            draw(a, model, plan.q[k], alpha=0.25 + 0.75 * k / STEPS)
        a.set(xlabel="x (m)", ylabel="z (m)", title="planned motion", aspect="equal")
        for i, name in enumerate(MOTORS):
            j = model.index(name)
            b.plot(plan.t, plan.q[:, j], ":", color=f"C{i}")
            b.plot(held.t, held.q[:, j], color=f"C{i}", label=name)
        b.set(xlabel="time (s)", ylabel="angle (rad)", title="plan (dotted), with feedback (solid)")
        b.legend()
        for name, run in (("plan alone", blind), ("with feedback", held)):
            c.semilogy(run.t, np.linalg.norm(run.q - plan.q, axis=1), label=name)
        c.set(xlabel="time (s)", ylabel="distance from the plan (rad)", title="wrong start, kick at 0.7 s")
        c.legend()
        figure.savefig(out / "dmoc_closed_chain.png")
    print("figure:", out / "dmoc_closed_chain.png")


def draw(ax, model, q, alpha):
    """The links as lines in the xz plane."""
    place = dict(zip(range(len(model.frame_entries)), da.positions(model, q), strict=True))
    for entry in model.frame_entries[1:]:
        if entry.parent == 0:
            continue
        x, z = zip(*((place[i][0], place[i][2]) for i in (entry.parent, entry.index)), strict=True)
        ax.plot(x, z, color="C0", alpha=alpha, lw=1.5)


if __name__ == "__main__":
    main()
