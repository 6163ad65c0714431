"""A 7-joint arm whose link inertias and friction are wrong by a fifth: what its motions tell of 77 numbers, and what it is good for.

Torques are sums of sines, joint angles are measured 200 times a second with noise. Motions tell 50 combinations of the 77 numbers (43 base parameters
of the inertias, and seven of friction); the others are named, and left alone. Judged by a motion that was not fitted.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

JOINTS = tuple(f"j{i}" for i in range(1, 8))
MASSES = (3.5, 3.0, 2.5, 2.5, 2.0, 1.5, 0.8)
LENGTHS = (0.3, 0.2, 0.3, 0.1, 0.35, 0.1, 0.1)


def arm() -> da.Model:
    """Seven hinges, turned against each other as in a human arm; a torque and some friction at each."""
    frame = None
    for i in reversed(range(7)):
        m, a, r = MASSES[i], LENGTHS[i], 0.05
        side = (0.01 * (-1) ** i, 0.02, a / 2)
        inertia = (m * (a**2 / 12 + r**2), m * (a**2 / 12 + 1.2 * r**2), 1.1 * m * r**2, 2e-4 * m, -1e-4 * m, 1e-4 * m)
        tip = [da.tz(a, frame)] if frame is not None else []
        turn = (da.rz, da.ry, da.rz, da.ry, da.rz, da.ry, da.rz)[i]
        frame = turn(JOINTS[i], *tip, name=f"link{i + 1}", mass=m, com=side, inertia=inertia)
    elements = [da.Gravity(), da.Damping(1.0), *(da.ConfigForce(j, f"torque.{j}") for j in JOINTS)]
    return da.Model([frame], elements, "arm")


def motion(vi: da.MidpointVI, seed: int, steps: int = 300) -> da.Trajectory:
    """A motion under torques that are sums of sines."""
    rng, t = np.random.default_rng(seed), vi.dt * np.arange(steps)
    size = np.array([12, 16, 8, 8, 4, 3, 1.5])
    u = np.zeros((steps, 7))
    for f in (0.4, 0.9, 1.7):
        u += size * rng.normal(size=7) * np.sin(2 * np.pi * f * t[:, None] + rng.uniform(0, 6, 7))
    return vi.simulate(vi.state(q=rng.uniform(-1, 1, 7)), steps=steps, u=u, accuracy="ignore")


def wrong(model: da.Model, seed: int = 3) -> da.Model:
    """The arm as it is believed to be: masses, inertias and friction off by up to a fifth, centres of mass by a centimetre."""
    rng = np.random.default_rng(seed)
    share = {f"link{i}": rng.uniform(0.8, 1.2) for i in range(1, 8)}
    values = {}
    for name, p in model.parameters.items():
        body, _, part = name.rpartition(".")
        shift = rng.uniform(-0.01, 0.01) if part[0] == "c" else 0.0
        scale = 1.0 if part[0] == "c" else share[body] if body in share else rng.uniform(0.8, 1.2)
        values[name] = float(p) * scale + shift
    return model.with_parameters(values)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args(argv).out
    noise = 1e-4
    true = da.name_parameters(arm(), *(f"link{i}.inertial" for i in range(1, 8)), "*.damping")
    machine = da.MidpointVI(true, dt=0.005)
    records = [da.Record.of(motion(machine, seed), JOINTS, noise=noise, seed=seed) for seed in range(4)]
    believed = machine.with_model(wrong(true))
    fit = da.identify(believed, records, measurement=JOINTS, noise=noise, segment=50)
    report = fit.identifiability
    print(f"{fit.reason}, {report.rank} of {len(fit.names)} directions can be known")
    print("nothing is known of:", ", ".join(report.unknown))
    print(
        "friction (true: 1):",
        ", ".join(f"{fit[f'{j}.damping']:.5f} +- {fit.deviation[f'{j}.damping']:.1g}" for j in JOINTS),
    )

    test = motion(machine, seed=100)
    errors = {}
    for label, model in (("believed", believed.model), ("identified", fit.model)):
        vi = machine.with_model(model)
        again = vi.simulate(vi.state(q=test.q[0], v=test[0].v), steps=len(test.u), u=test.u, accuracy="ignore")
        errors[label] = np.abs(again.q - test.q).max(axis=1)
        print(
            f"largest error of an angle in a motion of {test.t[-1]:.2g} s that was not fitted, {label} arm: {errors[label].max():.2g} rad"
        )

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(9.5, 3.6))
        size = np.maximum(report.singular / report.singular[0], 1e-12)
        number = np.arange(1, len(size) + 1)
        known = number <= report.rank
        a.semilogy(number[known], size[known], "o", ms=3.5, label=f"{report.rank} that motions tell")
        a.semilogy(
            number[~known],
            size[~known],
            "x",
            ms=4,
            color="C3",
            label=f"{len(size) - report.rank} that they cannot tell",
        )
        a.set(xlabel="direction in the space of 77 numbers", ylabel="information, relative")
        a.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        for label, e in errors.items():
            b.semilogy(test.t[1:], e[1:], label=f"{label} arm")
        b.axhline(noise, color="0.6", lw=1, ls=":", label="noise of the sensors")
        b.set(xlabel="time (s)", ylabel="largest error of an angle (rad)", ylim=(1e-6, None))
        b.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        figure.savefig(out / "identify_arm.png")
    print("figure:", out / "identify_arm.png")


if __name__ == "__main__":
    main()
