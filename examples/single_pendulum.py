"""Pendulum for 5000 s: the variational integrator keeps the energy, Heun's and the Runge-Kutta method do not.

Johnson, Murphey, Scalable variational integrators, Fig. 1. The rival there, the Open Dynamics Engine, is represented by its
method: a free mass, semi-implicit Euler steps, and a rod whose error is taken away by a fifth per step.
"""

import argparse
import time
from math import cos, hypot, sin
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

G = 9.8


def heun(a: float, w: float, dt: float) -> tuple[float, float]:
    """One step of Heun's explicit method: second order, as the variational integrator, but not symplectic."""
    s1 = -G * sin(a)
    s2 = -G * sin(a + dt * w)
    return a + dt * (w + dt / 2 * s1), w + dt / 2 * (s1 + s2)


def runge_kutta(a: float, w: float, dt: float) -> tuple[float, float]:
    """One step of the classical method of order 4."""
    h = dt / 2
    s1 = -G * sin(a)
    s2 = -G * sin(a + h * w)
    w2 = w + h * s1
    s3 = -G * sin(a + h * w2)
    w3 = w + h * s2
    s4 = -G * sin(a + dt * w3)
    w4 = w + dt * s3
    return a + dt / 6 * (w + 2 * w2 + 2 * w3 + w4), w + dt / 6 * (s1 + 2 * s2 + 2 * s3 + s4)


def energies(step, a: float, dt: float, steps: int, every: int) -> np.ndarray:
    """Energy of every n-th state from rest."""
    w, kept = 0.0, [-G * cos(a)]
    for k in range(1, steps + 1):
        a, w = step(a, w, dt)
        if k % every == 0:
            kept.append(w * w / 2 - G * cos(a))
    return np.array(kept)


def engine_energies(a: float, dt: float, steps: int, every: int) -> np.ndarray:
    """Energy of every n-th state from rest: force balance on a free mass (x, z) with a rod of 1 m, as in an engine."""
    x, z, vx, vz = sin(a), -cos(a), 0.0, 0.0
    kept = [G * z]
    for k in range(1, steps + 1):
        vz -= dt * G
        length = hypot(x, z)
        push = ((x * vx + z * vz) / length + 0.2 * (length - 1.0) / dt) / (1.0 + 1e-5 / dt)
        vx, vz = vx - push * x / length, vz - push * z / length
        x, z = x + dt * vx, z + dt * vz
        if k % every == 0:
            kept.append((vx * vx + vz * vz) / 2 + G * z)
    return np.array(kept)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--time", type=float, default=5000.0, help="seconds to simulate")
    parser.add_argument("--dt", type=float, default=0.01, help="step (s)")
    args = parser.parse_args(argv)
    model, dt = models.pendulum(), args.dt
    steps, every = round(args.time / dt), 10
    start = 2.0

    vi = da.MidpointVI(model, dt)
    begun = time.perf_counter()
    motion = vi.simulate(vi.state({"theta": start}), steps, every=every)
    spent = time.perf_counter() - begun
    t, ours = motion.t, motion.energy()

    second, fourth = (energies(method, start, dt, steps, every) for method in (heun, runge_kutta))
    engine = engine_energies(start, dt, steps, every)
    print(
        f"{steps} steps of {dt:g} s; the variational integrator took {spent:.2f} s ({1e6 * spent / steps:.2f} us each)"
    )
    half = len(t) // 2
    for name, e in (
        ("variational (order 2)", ours), ("force balance", engine), ("Heun (order 2)", second),
        ("Runge-Kutta (order 4)", fourth),
    ):  # fmt: skip
        error = e - e[0]
        drift = error[half:].mean() - error[:half].mean()
        print(f"  {name:<22} largest energy error {abs(error).max():.3e} J, drift of the mean {drift: .3e} J")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(10, 3.6))
        a.plot(t, second, color="C2", lw=1, label="Heun, order 2")
        a.plot(t, engine, color="0.6", lw=1, label="force balance")
        a.plot(t, ours, lw=1, label="variational, order 2")
        a.set(xlabel="time (s)", ylabel="energy (J)", title="Total energy, equal steps")
        a.legend()
        b.semilogy(t, np.abs(engine - engine[0]) + 1e-17, color="0.6", lw=1, label="force balance")
        b.semilogy(t, np.abs(second - second[0]) + 1e-17, color="C2", lw=1, label="Heun, order 2")
        b.semilogy(t, np.abs(fourth - fourth[0]) + 1e-17, color="C1", lw=1, label="Runge-Kutta, order 4")
        peaks = np.maximum.reduceat(np.abs(ours - ours[0]), np.arange(0, len(t), 50))  # its error swings through zero
        b.semilogy(t[::50][:-1], peaks[:-1], color="C0", lw=1.2, label="variational, order 2 (peaks)")
        b.set(xlabel="time (s)", ylabel="|energy − start| (J)", title="Error of the energy", ylim=(1e-9, None))
        b.legend(loc="lower right")
        figure.savefig(args.out / "single_pendulum.png")
    print("figure:", args.out / "single_pendulum.png")


if __name__ == "__main__":
    main()
