"""Pendulum in Cartesian coordinates: the step is singular when it turns by a right angle at once.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, section VII-B: a point mass with
h = x^2 + y^2 - l^2 and no gravity. Dh(q_{k+1}) M^-1 Dh(q_k)^T = -4 dt/m (q_k . q_{k+1}) vanishes when q_k and q_{k+1}
are orthogonal. A shorter step always helps.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da


def model(gravity: float) -> da.Model:
    """A point mass that slides in a plane, on a rod."""
    elements = [da.Distance("world", "bob", 1.0)] + ([da.Gravity((0, -gravity, 0))] if gravity else [])
    return da.Model([da.tx("x", da.ty("y", name="bob", mass=1.0))], elements, "cartesian pendulum")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    free, dt = model(0.0), 0.1
    vi = da.MidpointVI(free, dt)
    turns, pivots, sensitivities = [], [], []
    # without gravity p is along the rod's normal; a step from p = v turns by asin(v dt): v dt = 1 is the right angle
    for share in np.sin(np.linspace(0.02, np.pi / 2 - 0.004, 60)):
        state = vi.state({"y": -1.0}, v={"x": share / dt})
        after = vi.step(state)
        turn = np.arccos(np.clip(state.q @ after.q, -1, 1))
        A, _ = vi.linearize(state)
        turns.append(turn)
        pivots.append(float(state.q @ after.q))
        sensitivities.append(float(np.linalg.norm(A, 2)))
    low, high = sensitivities[0], sensitivities[-1]
    print(f"a step turns by {turns[0]:.3f} ... {turns[-1]:.3f} rad: |A| = {low:.1f} ... {high:.1f}")
    for share in (1.0001, 1.5):
        try:
            vi.step(vi.state({"y": -1.0}, v={"x": share / dt}))
            print(f"  v dt = {share:g}: the step exists")
        except da.ConvergenceError as error:
            print(f"  v dt = {share:g}: {type(error).__name__}: {str(error)[:100]}")
    # "a shorter step always helps": the same speed at a third of the step
    shorter = da.MidpointVI(free, dt / 3)
    # half a radian per step is coarse, which is not the question here
    motion = shorter.simulate(shorter.state({"y": -1.0}, v={"x": 1.5 / dt}), time=20, accuracy="ignore")
    print(f"  v dt = 1.5 at a third of the step: 20 s, constraint violation {motion.constraint_violation().max():.1e}")

    steps, errors = (0.1, 0.05, 0.025, 0.0125), []
    polar = da.Model([da.rz("a", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0))])
    for h in steps:
        fine = da.MidpointVI(model(9.8), h)
        # 0.1 s is too long for accurate steps (3 % of the velocity are wrong after each): here for the order only
        swing = fine.simulate(fine.state({"x": np.sin(1.0), "y": -np.cos(1.0)}), time=5, accuracy="ignore")
        truth = da.simulate_continuous(polar, [1.0], [0.0], swing.t)["a"]
        errors.append(float(abs(np.arctan2(swing["x"], -swing["y"]) - truth).max()))
    print(f"with gravity, against the pendulum's angle: order {np.log2(errors[-2] / errors[-1]):.2f}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12, 3.5))
        a.plot(turns, pivots, "o-", ms=3, label="computed")
        a.plot(turns, np.cos(turns), color="black", lw=4, alpha=0.2, label="cos")
        a.set(xlabel="turn of one step (rad)", ylabel="qₖ · qₖ₊₁ (m²)", title="The pivot goes to zero at π/2")
        a.legend()
        b.semilogy(turns, sensitivities, "o-", ms=3)
        b.axvline(np.pi / 2, color="0.6", ls=":")
        b.set(xlabel="turn of one step (rad)", ylabel="norm of A", title="and the linearization blows up")
        c.loglog(steps, errors, "o-", ms=4, label="error")
        c.loglog(steps, np.array(steps) ** 2 * 0.6 * errors[-1] / steps[-1] ** 2, ":", color="0.5", label="order 2")
        c.set(xlabel="step (s)", ylabel="largest error of the angle (rad)", title="With gravity, 5 s")
        c.set_xticks(steps, [f"{h:g}" for h in steps])
        c.minorticks_off()
        c.legend()
        figure.savefig(args.out / "cartesian_pendulum.png")
    print("figure:", args.out / "cartesian_pendulum.png")


if __name__ == "__main__":
    main()
