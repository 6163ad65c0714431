"""Scissor lift of 5 segments: many bodies and loops, one degree of freedom, and an exact solution to compare with.

Johnson, Murphey, Scalable variational integrators, Figs 9 to 13. The printed Lagrangian has two misprints; right is
sum_n [m L^2 ((n-1/2)^2 cos^2 + 1/4 sin^2) + I] w^2 + 1/2 m_S L^2 sin^2 w^2 + 2 m g L (n-1/2) sin(theta).
The force-balance engine of the paper is represented by its method: semi-implicit Euler steps, velocities projected on
the constraints, a fifth of the constraint error removed per step.
"""

import argparse
import time
from functools import cache
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import mechanics, models

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


def variational(segments: int, dt: float, seconds: float) -> tuple[da.Trajectory, float]:
    """(motion, run time)."""
    vi = da.MidpointVI(models.scissor_lift(segments), dt)
    start = vi.state(models.scissor_lift_configuration(THETA, segments=segments))
    begun = time.process_time()  # other programs do not count
    motion = vi.simulate(start, round(seconds / dt))
    return motion, time.process_time() - begun


def force_balance(segments: int, dt: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """(t, theta) of semi-implicit Euler with projected velocities."""
    model = models.scissor_lift(segments)
    loose = da.Model(model.frames, [e for e in model.elements if not e.size])
    k = model.index("L00")
    q, v = models.scissor_lift_configuration(THETA, segments=segments), np.zeros(model.nq)
    angle = [q[k]]
    for _ in range(round(seconds / dt)):
        v = v + dt * mechanics.acceleration(loose, q, v).ddq
        jac, h = mechanics.constraint_jacobian(model, q), mechanics.constraints(model, q)
        a = np.linalg.solve(mechanics.mass_matrix(model, q), jac.T)
        # a little softness, as in the engine, keeps the matrix regular where the links are parallel
        v = v - a @ np.linalg.solve(jac @ a + 1e-8 * np.eye(len(h)), jac @ v + 0.2 * h / dt)
        q = q + dt * v
        angle.append(q[k])
    return dt * np.arange(len(angle)), np.array(angle)


def step_for(segments: int, seconds: float = 15.0, limit: float = 0.1) -> tuple[float, float]:
    """(dt, run time): the step at which the accumulated squared error (eq. 47) reaches the limit after 15 s +- 1 %."""
    low, high = 1e-3, 0.4
    for _ in range(40):
        dt = np.sqrt(low * high)
        try:
            motion, _ = variational(segments, dt, 1.5 * seconds)
        except da.ConvergenceError:  # too coarse to step over the singularity of every swing
            high = dt
            continue
        error = np.cumsum((motion["L00"] - exact(segments, motion.t)) ** 2) * dt
        reached = motion.t[np.searchsorted(error, limit)] if error[-1] > limit else np.inf
        if abs(reached - seconds) < 0.01 * seconds:
            low = dt
            break
        low, high = (dt, high) if reached > seconds else (low, dt)
    return low, min(variational(segments, low, seconds)[1] for _ in range(10))


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
    engine = {dt: force_balance(5, dt, 10.0) for dt in (0.01, 0.001)}
    for dt, (t, angle) in engine.items():
        print(f"  force balance, dt = {dt:<6g} largest error {abs(angle - exact(5, t)).max():.3f} rad")

    seconds = 100.0 if args.quick else 1000.0
    long, spent = variational(5, 0.01, seconds)
    print(
        f"{seconds:g} s in {spent:.2f} s: amplitude {long['L00'].min():.6f} ... {long['L00'].max():.6f}"
        f" rad (exact {THETA:.6f} ... {np.pi - THETA:.6f}), constraints {long.constraint_violation().max():.1e}"
    )
    counts = () if args.quick else (2, 3, 4, 5)
    study = [step_for(n) for n in counts]
    for n, (dt, spent) in zip(counts, study, strict=True):
        print(f"  {n} segments: dt = {dt:.4f} s reaches the error 0.1 after 15 s, run time {1e3 * spent:.2f} ms")

    import matplotlib.pyplot as plt

    from dalembert.viewing import picture, style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, p = plt.subplot_mosaic("abb;acd", figsize=(11, 6.2), width_ratios=(0.9, 1, 1))
        shot = 1.2
        p["a"].imshow(np.asarray(picture(motion, time=shot, size=(1200, 1900)))[330:1230, 240:960])
        p["a"].set_axis_off()
        colors = {0.01: "0.72", 0.001: "0.5"}
        for dt, (t, angle) in engine.items():
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
            p["d"].plot(counts, [1e3 * s for _, s in study], "-o", ms=4)
            p["d"].set(xlabel="segments", ylabel="run time (ms)", title="15 s with accumulated error 0.1")
            p["d"].set(xticks=counts, ylim=(0, None))
        else:
            p["d"].set_axis_off()
        figure.savefig(args.out / "scissor_lift.png")
    print("figure:", args.out / "scissor_lift.png")


if __name__ == "__main__":
    main()
