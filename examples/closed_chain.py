"""Closed-chain device for 120 s: energy and constraints, against a force-balance engine and Runge-Kutta.

Johnson, Murphey, Scalable variational integrators, Listing 1, Figs 6 and 8. The rival there, the Open Dynamics Engine, is
represented by its method (_force_balance.py), in Python: seven free bodies connected by constraints. Runge-Kutta works on the
continuous equations, which hold the constraints only through their second time derivative, so that they drift.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import mechanics, models


def runge_kutta(model: da.Model, q: np.ndarray, dt: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) of the classical method on the continuous equations; stops where they can no longer be solved."""
    qs, vs = [q], [np.zeros_like(q)]
    x, w = qs[0], vs[0]
    for _ in range(steps):
        try:
            a = mechanics.acceleration(model, x, w).ddq
            b = mechanics.acceleration(model, x + dt / 2 * w, w + dt / 2 * a).ddq
            c = mechanics.acceleration(model, x + dt / 2 * (w + dt / 2 * a), w + dt / 2 * b).ddq
            d = mechanics.acceleration(model, x + dt * (w + dt / 2 * b), w + dt * c).ddq
        except da.SingularityError:
            break
        x, w = x + dt * w + dt**2 / 6 * (a + b + c), w + dt / 6 * (a + 2 * b + 2 * c + d)
        qs.append(x)
        vs.append(w)
    return np.array(qs), np.array(vs)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--time", type=float, default=120.0, help="seconds to simulate")
    args = parser.parse_args(argv)
    model, configurations = models.load_with_configurations("closed_chain")
    q0 = da.satisfy_constraints(model, configurations["q0"])

    runs = {}
    for dt in (0.01, 0.005, 0.0025):
        vi = da.MidpointVI(model, dt)
        begun = time.perf_counter()
        motion = vi.simulate(vi.state(q0), time=args.time, accuracy="ignore")  # the paper's step, and what it misses
        spent = time.perf_counter() - begun
        runs[dt] = motion
        error, h = motion.energy() - motion.energy()[0], motion.constraint_violation()
        print(
            f"variational, dt = {dt:g}: {spent:.2f} s ({1e6 * spent / motion.steps:.1f} us per step), energy error "
            f"median {np.median(abs(error)):.1e}, 99 % {np.quantile(abs(error), 0.99):.1e}, "
            f"largest {abs(error).max():.1e} J, constraints {h.max():.1e}; energy jumps by more than 1 % of what moves in "
            f"{np.sum(motion.quality(0).jumps > 0.01)} of {motion.steps} steps"
        )
    dt = 0.01
    from _force_balance import bodies, simulate

    free, start = bodies(model, q0)
    begun = time.perf_counter()
    fq, fv = simulate(free, start, dt, round(args.time / dt))
    spent = time.perf_counter() - begun
    lost = mechanics.kinetic_energy(free, fq, fv) + mechanics.potential_energy(free, fq)
    print(
        f"force balance, dt = {dt:g}: {spent:.2f} s (in Python), energy {lost[-1] - lost[0]: .2e} J at the end, constraints "
        f"{np.abs(mechanics.constraints(free, fq)).max():.1e}"
    )
    q, v = runge_kutta(model, q0, dt, round(args.time / dt))
    energy = mechanics.kinetic_energy(model, q, v) + mechanics.potential_energy(model, q)
    drift = np.abs(mechanics.constraints(model, q)).max(axis=1)
    gained = energy[-1] - energy[0]
    print(f"Runge-Kutta 4, dt = {dt:g}: energy error {gained: .2e} J at the end, constraints {drift.max():.1e}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import picture, style

    args.out.mkdir(parents=True, exist_ok=True)
    motion = runs[0.01]
    with style():
        figure, panels = plt.subplot_mosaic("ab;ac", figsize=(10, 4.6), width_ratios=(1, 1.5))
        panels["a"].imshow(picture(motion, size=(900, 1000)))
        panels["a"].set_axis_off()
        panels["b"].plot(np.arange(len(fq)) * dt, lost, color="0.6", label="force balance, dt = 0.01 s")
        panels["b"].plot(np.arange(len(q)) * dt, energy, color="C3", label="Runge-Kutta 4, dt = 0.01 s")
        for step in (0.01, 0.0025):
            panels["b"].plot(runs[step].t, runs[step].energy(), lw=0.8, label=f"variational, dt = {step:g} s")
        panels["b"].set(ylabel="total energy (J)", title="Energy", ylim=(lost.min() - 0.5, energy[0] + 1.5))
        panels["b"].legend(ncols=1, loc="center right")
        apart = np.abs(mechanics.constraints(free, fq)).max(axis=1)
        panels["c"].semilogy(np.arange(len(fq)) * dt, np.maximum(apart, 1e-17), color="0.6", label="force balance")
        panels["c"].semilogy(np.arange(len(q)) * dt, np.maximum(drift, 1e-17), color="C3", label="Runge-Kutta 4")
        panels["c"].semilogy(motion.t, np.maximum(motion.constraint_violation(), 1e-17), lw=0.5, label="variational")
        panels["c"].set(xlabel="time (s)", ylabel="largest |h(q)| (m)", title="Constraint violation")
        panels["c"].legend(loc="center right")
        figure.savefig(args.out / "closed_chain.png")
    print("figure:", args.out / "closed_chain.png")


if __name__ == "__main__":
    main()
