"""Scissor lift of 5 segments: many bodies and loops, one degree of freedom, and an exact solution to compare with.

Johnson, Murphey, Scalable variational integrators, Figs 9 to 13. The printed Lagrangian has two misprints; right is
sum_n [m L^2 ((n-1/2)^2 cos^2 + 1/4 sin^2) + I] w^2 + 1/2 m_S L^2 sin^2 w^2 + 2 m g L (n-1/2) sin(theta).

The rival of the paper, the Open Dynamics Engine, is represented by its method (_force_balance.py): free bodies, semi-implicit
Euler steps, a fifth of the constraint error removed per step, and slightly soft joints, by default; and once more with stiff
joints. It runs in Python here, so that its run times are not those of the engine; the numbers of steps are comparable.

Fig. 13 asks for the step with which the accumulated error (eq. 47) reaches 0.1 after 15 s. That time jumps with dt where a
method begins to fail, so here it is the longest step for which, and for all shorter ones, the error stays below 0.1.
"""

import argparse
import time
from functools import cache
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

SOFTNESS = 1e-5  # of the engine's joints, its default
SHORTEST = 50_000  # steps of 15 s beyond which the engine is not tried
LENGTH, MASS, INERTIA, SLIDER, GRAVITY, THETA = 5.0, 1.0, 1.0, 1.0, 9.8, 0.05 * np.pi


def exact(segments: int, t: np.ndarray) -> np.ndarray:
    """theta (len(t),) of the one-degree-of-freedom benchmark, to about 1e-10."""
    return benchmark(segments, max(30.0, float(t[-1])))(t)[0]


@cache
def benchmark(segments: int, seconds: float):
    """The benchmark as a function of time."""
    from scipy.integrate import solve_ivp

    n = np.arange(1, segments + 1) - 0.5
    a, b = MASS * LENGTH**2 * (n**2).sum(), segments * MASS * LENGTH**2 / 4 + SLIDER * LENGTH**2 / 2
    pull = 2 * MASS * GRAVITY * LENGTH * n.sum()

    def rate(_, x):
        c, s = np.cos(x[0]), np.sin(x[0])
        inertia = a * c**2 + b * s**2 + segments * INERTIA  # T = inertia w^2
        return [x[1], (pull * c - 2 * (b - a) * s * c * x[1] ** 2) / (2 * inertia)]

    # T = inertia w^2 gives 2 inertia w' + inertia' w^2 = pull cos(theta), with inertia' = 2 (b - a) sin cos
    return solve_ivp(rate, (0, seconds), [THETA, 0.0], "DOP853", dense_output=True, rtol=1e-12, atol=1e-13).sol


def variational(segments: int, dt: float, seconds: float, order: int = 2) -> tuple[da.Trajectory, float]:
    """(motion, run time)."""
    vi = da.MidpointVI(models.scissor_lift(segments), dt, order=order)
    start = vi.state(models.scissor_lift_configuration(THETA, segments=segments))
    begun = time.process_time()  # other programs do not count
    # errors are measured against the exact motion here, also at steps that are too long on purpose: no warnings
    motion = vi.simulate(start, round(seconds / dt), accuracy="ignore")
    return motion, time.process_time() - begun


def engine(segments: int, dt: float, seconds: float, softness: float) -> tuple[np.ndarray, np.ndarray, float]:
    """(t, theta, run time) of the force-balance engine."""
    from _force_balance import bodies, simulate

    free, q = bodies(models.scissor_lift(segments), models.scissor_lift_configuration(THETA, segments=segments))
    begun = time.process_time()
    angle = simulate(free, q, dt, round(seconds / dt), softness)[0][:, free.index("L00.angle")]
    return dt * np.arange(len(angle)), angle - angle[0] + THETA, time.process_time() - begun


def variational_error(segments: int, dt: float, seconds: float = 15.0, order: int = 2) -> tuple[float, float]:
    """(accumulated squared error, eq. 47, at the end; run time)."""
    try:
        motion, spent = variational(segments, dt, seconds, order)
    except da.ConvergenceError:  # too coarse to step over the singularity of every swing
        return np.inf, np.inf
    return float(((motion["L00"] - exact(segments, motion.t)) ** 2).sum() * dt), spent


def engine_error(segments: int, dt: float, softness: float, seconds: float = 15.0) -> tuple[float, float]:
    """The same for the engine."""
    t, angle, spent = engine(segments, dt, seconds, softness)
    return float(((angle - exact(segments, t)) ** 2).sum() * dt), spent


def longest_step(error, steps, limit: float = 0.1) -> tuple[float, float]:
    """(dt, run time) of the longest of the rising `steps` up to which all errors are below the limit; (0, inf) if none."""
    best = (0.0, np.inf)
    for dt in steps:
        e, spent = error(dt)
        if not e < limit:
            break
        best = (dt, spent)
    return best


def shorter_steps(error, first: float, last: float, limit: float = 0.1) -> tuple[float, float]:
    """The same from above, for errors that fall with dt: halve the step until it is good, then refine by bisection."""
    good, bad = first, 2 * first
    while not error(good)[0] < limit:
        good, bad = good / 2, good
        if good < last:
            return 0.0, np.inf
    for _ in range(3):
        middle = float(np.sqrt(good * bad))
        good, bad = (middle, bad) if error(middle)[0] < limit else (good, middle)
    return good, error(good)[1]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="100 s instead of 1000 s, no study of the segments")
    args = parser.parse_args(argv)
    motion, spent = variational(5, 0.01, 10.0)
    truth = exact(5, motion.t)
    print(f"10 s at dt = 0.01 s in {1e3 * spent:.1f} ms ({1e6 * spent / motion.steps:.1f} us per step)")
    print(f"  largest constraint violation {motion.constraint_violation().max():.1e}")
    for dt in (0.02, 0.01, 0.005, 0.0025, 0.001):
        run, _ = variational(5, dt, 10.0)
        print(f"  dt = {dt:<6g} largest error {abs(run['L00'] - exact(5, run.t)).max():.3e} rad")
    rivals = {}
    for dt in (0.01, 0.001) if args.quick else (0.01, 0.001, 0.0001):
        rivals[dt] = t, angle, spent = engine(5, dt, 10.0, SOFTNESS)
        print(
            f"  force balance, dt = {dt:<6g} largest error {abs(angle - exact(5, t)).max():.3f} rad, {spent:.2f} s (Python)"
        )
    t, angle, spent = engine(5, 0.01, 10.0, 0.0)
    print(f"  force balance, stiff joints, dt = 0.01 largest error {abs(angle - exact(5, t)).max():.3f} rad")

    seconds = 100.0 if args.quick else 1000.0
    long, spent = variational(5, 0.01, seconds)
    print(
        f"{seconds:g} s in {spent:.2f} s: amplitude {long['L00'].min():.6f} ... {long['L00'].max():.6f}"
        f" rad (exact {THETA:.6f} ... {np.pi - THETA:.6f}), constraints {long.constraint_violation().max():.1e}"
    )
    counts = () if args.quick else (1, 2, 3, 4, 5)
    methods = {
        "variational": lambda n: longest_step(lambda dt: variational_error(n, dt), np.geomspace(0.01, 0.6, 80)),
        "variational, order 4": lambda n: longest_step(
            lambda dt: variational_error(n, dt, order=4), np.geomspace(0.02, 1.0, 60)
        ),
        "force balance, stiff joints": lambda n: shorter_steps(
            lambda dt: engine_error(n, dt, 0.0), 0.16, 15 / SHORTEST
        ),
        "force balance": lambda n: shorter_steps(lambda dt: engine_error(n, dt, SOFTNESS), 0.16, 15 / SHORTEST),
    }
    study = {name: [method(n) for n in counts] for name, method in methods.items()} if counts else {}
    for name, found in study.items():
        cells = ", ".join(
            f"{dt:.4f} s ({round(15 / dt)} steps, {1e3 * spent:.1f} ms)" if dt else "below 0.0003 s"
            for dt, spent in found
        )
        print(f"  longest step for {', '.join(map(str, counts))} segments, {name}: {cells}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import picture, style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, p = plt.subplot_mosaic("abb;acd", figsize=(11, 6.2), width_ratios=(0.9, 1, 1))
        shot = 1.2
        p["a"].imshow(np.asarray(picture(motion, time=shot, size=(1200, 1900)))[330:1230, 240:960])
        p["a"].set_axis_off()
        colors = {0.01: "0.78", 0.001: "0.6", 0.0001: "0.42"}
        for dt, (t, angle, _) in rivals.items():
            p["b"].plot(t, angle, color=colors[dt], lw=1.2, label=f"force balance, dt = {dt:g} s")
        p["b"].plot(motion.t, truth, color="black", lw=3, label="exact")
        p["b"].plot(motion.t, motion["L00"], color="C1", lw=1.2, label="variational, dt = 0.01 s")
        p["b"].set(xlabel="time (s)", ylabel="angle θ (rad)", title="First 10 s", ylim=(-0.1, 4.3))
        p["b"].legend(ncols=2, loc="upper center")
        last = long.t >= seconds - 10
        p["c"].plot(long.t[last], exact(5, long.t)[last], color="black", lw=2.5, label="exact")
        p["c"].plot(long.t[last], long["L00"][last], color="C1", lw=1.2, label="variational")
        p["c"].set(xlabel="time (s)", ylabel="angle θ (rad)", title=f"After {seconds:g} s", ylim=(-0.1, 4.3))
        p["c"].legend(ncols=2, loc="upper center")
        if counts:
            for (name, found), line in zip(study.items(), ("-o", "-s", "--^", ":v"), strict=True):
                steps = [15 / dt if dt else np.nan for dt, _ in found]
                (drawn,) = p["d"].semilogy(counts, steps, line, ms=4, label=name)
                for n in (n for n, (dt, _) in zip(counts, found, strict=True) if not dt):  # only a lower bound is known
                    p["d"].annotate(
                        "",
                        (n, 4 * SHORTEST),
                        (n, SHORTEST),
                        arrowprops={"arrowstyle": "->", "color": drawn.get_color(), "lw": 1.5},
                    )
            p["d"].set(
                xlabel="segments", ylabel="steps", title="15 s with accumulated error 0.1", xticks=counts, ylim=(8, 2e7)
            )
            p["d"].legend(fontsize=8, loc="upper left", ncols=2, columnspacing=1.0)
        else:
            p["d"].set_axis_off()
        figure.savefig(args.out / "scissor_lift.png")
    print("figure:", args.out / "scissor_lift.png")


if __name__ == "__main__":
    main()
