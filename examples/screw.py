"""A nut sinks on a screw: the screw as a constraint on a cylindrical joint, as a helical joint, and exactly.

Johnson, Murphey, Scalable variational integrators, section IV-D (screw joint) and section III-A (joints). Reducing the
mechanism to s = pitch * phi gives the exact answer, and the multiplier is the force between the threads.
"""

import argparse
from pathlib import Path

import dalembert as da

MASS, INERTIA, PITCH, GRAVITY = 0.4, 1e-3, 0.02, 9.8  # kg, kg m^2, m/rad, m/s^2


def machines() -> dict[str, da.Model]:
    """The same nut twice."""
    nut = {"name": "nut", "mass": MASS, "inertia": (INERTIA,) * 3}
    gravity = da.Gravity((0, 0, -GRAVITY))
    return {
        "constraint": da.Model(
            [da.cylindrical("z", "s", "phi", **nut)],
            [gravity, da.LinearRelation({"s": 1.0, "phi": -PITCH})],
            "cylindrical joint with a screw",
        ),
        "helical": da.Model([da.helical("z", "phi", PITCH, **nut)], [gravity], "helical joint"),
        "free": da.Model([da.cylindrical("z", "s", "phi", **nut)], [gravity], "cylindrical joint"),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    model = machines()
    dt, seconds = 0.01, 3.0
    spin = 25.0  # it climbs at first: the nut turns upwards
    runs = {}
    for name, m in model.items():
        vi = da.MidpointVI(m, dt)
        v = {"phi": spin} | ({"s": PITCH * spin} if "s" in m.variables else {})
        runs[name] = vi.simulate(vi.state(v=v), time=seconds)
    t = runs["helical"].t
    acceleration = -MASS * GRAVITY * PITCH / (MASS * PITCH**2 + INERTIA)
    exact = PITCH * (spin * t + acceleration * t**2 / 2)
    height = {
        "constraint": runs["constraint"]["s"],
        "helical": PITCH * runs["helical"]["phi"],
        "free": runs["free"]["s"],
    }
    for name in ("constraint", "helical"):
        print(f"{name:<11} largest error of the height {abs(height[name] - exact).max():.1e} m")
    print(f"constraint violation {runs['constraint'].constraint_violation().max():.1e}")
    # lambda is an impulse; dh/ds = 1, so the thread pushes with lambda / dt along s. It acts at q_k, from the middle of
    # the step before to the middle of the step after: the first one covers half a step only
    force = -runs["constraint"].lam[1:, 0] / dt
    wanted = MASS * (PITCH * acceleration + GRAVITY)
    print(f"force of the thread on the nut {force.mean():.6f} N, exact {wanted:.6f} N (weight {MASS * GRAVITY:.3f} N)")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b) = plt.subplots(1, 2, figsize=(10, 3.5))
        a.plot(t, exact, color="black", lw=4, alpha=0.25, label="exact")
        a.plot(t, height["constraint"], label="cylindrical joint + relation")
        a.plot(t, height["helical"], "--", label="helical joint")
        near = height["free"] > 0.5 * height["constraint"].min()
        a.plot(t[near], height["free"][near], color="0.6", lw=1, label="cylindrical joint alone")
        a.set(xlabel="time (s)", ylabel="height s (m)", title="A nut on a screw")
        a.legend(loc="lower left")
        b.plot(t[1:-1], force, label="multiplier / dt")
        b.axhline(wanted, color="black", lw=4, alpha=0.25, label="exact")
        b.axhline(MASS * GRAVITY, color="0.6", lw=1, label="weight")
        b.set(
            xlabel="time (s)",
            ylabel="force of the thread (N)",
            title="What the thread carries",
            ylim=(0, 1.2 * MASS * GRAVITY),
        )
        b.legend(loc="lower right")
        figure.savefig(args.out / "screw.png")
    print("figure:", args.out / "screw.png")


if __name__ == "__main__":
    main()
