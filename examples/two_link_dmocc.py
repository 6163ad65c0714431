"""Two-link pendulum swung up with DMOCC: convergence, agreement with DMOC, momentum, sizes and conditioning.

Leyendecker, Ober-Bloebaum, Marsden, Ortiz, Discrete mechanics and optimal control for constrained systems, section 7.1,
Figs. 7 and 8. Two uniform rods (1 m, 1 kg, J = 1/12 kg m^2 about the centre), torques at base and elbow, from hanging
to upright in 1 s with the least effort, 1/2 integral of the squared torques. The paper prints no masses or lengths;
these are ours. All meshes are warm started from a reference of 2048 steps, as the paper does with 512.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import rz, tx
from dalembert.direct import dmoc
from dalembert.direct.dmocc import condition_numbers, from_model, optimize, problem_size

ROD = {"mass": (1.0, 0.0, 1 / 12, 1 / 12)}
ARM = da.Model(
    [rz("base", tx(0.5, **ROD), tx(1.0, rz("elbow", tx(0.5, name="tip half", **ROD))))],
    [da.Gravity((0, -9.81, 0)), da.ConfigForce("base", "base"), da.ConfigForce("elbow", "elbow")],
    name="two-link pendulum",
)
START, GOAL = np.array([-np.pi / 2, 0.0]), np.array([np.pi / 2, 0.0])
SIZES = (8, 16, 32, 64, 128, 256, 512)
FINEST = 2048


def study():
    """Solutions of DMOCC for all sizes and the finest mesh, and of DMOC in generalized coordinates for all sizes."""
    system = from_model(ARM)
    args = {"time": 1.0, "start": START, "goal": GOAL, "tolerance": 1e-10}
    best = optimize(system, steps=FINEST, coarse=(32, 128, 512), **args)
    found = {n: optimize(system, steps=n, guess=best, **args) for n in SIZES} | {FINEST: best}
    ends = {"start": {"q": START, "v": [0, 0]}, "goal": {"q": GOAL, "v": [0, 0]}}
    plans = {n: dmoc(ARM, steps=n, time=1.0, guess=found[n].motion.u, **ends) for n in SIZES}
    return system, found, plans


def table(found, plans) -> np.ndarray:
    """Per size: error of configuration, control and objective, gap to DMOC in configuration and control."""
    best = found[FINEST]
    rows = []
    for n in SIZES:
        m, k = found[n].motion, FINEST // n
        mean = best.motion.tau.reshape(n, k, 2).mean(axis=1)
        rows.append(
            [
                np.abs(m.u - best.motion.u[::k]).max(),
                np.abs(m.tau - mean).max(),
                abs(found[n].objective - best.objective),
                np.abs(m.u - plans[n].q).max(),
                np.abs(m.tau - plans[n].u).max(),
            ]
        )
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    warnings.simplefilter("ignore", da.AccuracyWarning)  # the study is about meshes that are too coarse
    system, found, plans = study()
    errors = table(found, plans)

    print(
        "   N    J DMOCC     J DMOC   error u  error tau    error J  gap to DMOC: u, tau   momentum defect  replay error"
    )
    for n, row in zip(SIZES, errors, strict=True):
        m = found[n].motion
        defect = np.abs(m.angular_momentum_defect()[:, 2]).max()
        print(
            f"{n:4d} {found[n].objective:10.5f} {plans[n].objective:10.5f}  "
            + "  ".join(f"{x:8.2e}" for x in row)
            + f"  {defect:8.1e}  {found[n].replay_error:20.2%}"
        )
    slopes = [-np.polyfit(np.log(SIZES), np.log(column), 1)[0] for column in errors.T]
    last = np.log2(errors[-2] / errors[-1])
    print("order, N = 8 ... 512:     " + "  ".join(f"{s:8.2f}" for s in slopes))
    print("order of the last halving:" + "  ".join(f"{s:8.2f}" for s in last))
    print(f"objective at N = {FINEST}: {found[FINEST].objective:.5f}")

    cold = optimize(system, steps=512, time=1.0, start=START, goal=GOAL)
    print(
        f"N = 512 from a straight line: {cold.status}, objective {cold.objective:.5f}, {cold.iterations} iterations, "
        f"set-up {cold.seconds[0]:.2f} s, solve {cold.seconds[1]:.2f} s"
    )

    print("\nform         unknowns  constraints  iterations  set-up (s)  solve (s)  objective   (N = 128, from N = 32)")
    coarse = optimize(system, steps=32, time=1.0, start=START, goal=GOAL)
    for form in ("minimal", "momentum", "multiplier"):
        r = optimize(system, steps=128, time=1.0, start=START, goal=GOAL, guess=coarse, form=form)
        print(
            f"{form:<12} {r.unknowns:8d} {r.constraints:12d} {r.iterations:11d} {r.seconds[0]:11.2f} "
            f"{r.seconds[1]:10.2f} {r.objective:10.5f}"
        )
    unknowns, rows = problem_size(system, 128, form="paper")
    print(f"the paper's count of the multiplier form, with redundant forces as unknowns: {unknowns}, {rows}")

    steps = 10.0 ** -np.arange(1, 6)
    conditions = np.array([condition_numbers(system, h, [0.3, 0.7]) for h in steps])
    print("\nstep (s)   condition of the reduced scheme   of the multiplier scheme")
    for h, (a, b) in zip(steps, conditions, strict=True):
        print(f"{h:8.0e}   {a:31.4f}   {b:24.3e}")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    h = 1 / np.array(SIZES)
    with style():
        figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
        a, b, c, d, e, f = axes.ravel()
        motion = found[128].motion
        centre, half = motion.position("tip half"), 0.5
        elbow = motion.position("tip half", (-half, 0, 0))
        tip = 2 * centre - elbow
        shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, 17))
        for i, shade in zip(range(0, 129, 8), shades, strict=True):
            a.plot([0, elbow[i, 0], tip[i, 0]], [0, elbow[i, 1], tip[i, 1]], "-", color=shade, lw=1.2)
        a.plot(tip[:, 0], tip[:, 1], ":", color="gray", lw=1)
        a.set(title="swing-up, every 1/16 s", xlabel="x (m)", ylabel="y (m)", aspect="equal", xlim=(-1.6, 1.6))
        for i, name in enumerate(system.inputs):
            b.step(motion.t[:-1], motion.tau[:, i], where="post", label=name)
        b.set(title="torques (N = 128)", xlabel="time (s)", ylabel="torque (N m)")
        b.legend()
        c.plot(motion.t, motion.angular_momentum()[:, 2])
        c.set(title="angular momentum about the base", xlabel="time (s)", ylabel="L (N m s)")
        for i, (name, mark) in enumerate((("configuration (rad)", "o"), ("control (N m)", "s"), ("objective", "^"))):
            d.loglog(h, errors[:, i], mark + "-", ms=4, label=name)
        d.loglog(h, 3 * h**2, "--", color="gray", label="order 2")
        d.set(title="error of DMOCC", xlabel="step (s)", ylabel="largest error")
        d.legend()
        e.loglog(h, errors[:, 3], "o-", ms=4, label="configuration (rad)")
        e.loglog(h, errors[:, 4], "s-", ms=4, label="control (N m)")
        e.loglog(h, 3 * h**2, "--", color="gray", label="order 2")
        e.set(title="DMOCC minus DMOC", xlabel="step (s)", ylabel="largest difference")
        e.legend()
        f.loglog(steps, conditions[:, 0], "o-", ms=4, label="null space (13)")
        f.loglog(steps, conditions[:, 1], "s-", ms=4, label="multipliers (10)")
        f.set(title="condition of a step's equations", xlabel="step (s)", ylabel="condition number")
        f.legend()
        figure.savefig(out / "two_link_dmocc.png")
    print("figure:", out / "two_link_dmocc.png")


if __name__ == "__main__":
    main()
