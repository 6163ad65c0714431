"""A heavy symmetric top (Lagrange's): precession and nutation, against the exact solution.

The tip of the top stands on a ball joint. The exact tilt follows from an elliptic function, the precession from one integral over it.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.integrate import cumulative_simpson
from scipy.special import ellipj, ellipk

import dalembert as da

MASS, LENGTH, GRAVITY = 0.5, 0.05, 9.81
J1, J3 = 2e-4 + MASS * LENGTH**2, 1.6e-4  # about the tip
TILT, SPIN = np.radians(30.0), 300.0


def top() -> da.Model:
    """A disk on a stick, its tip on the ground."""
    disk = da.tz(LENGTH, name="disk", mass=MASS, inertia=(2e-4, 2e-4, J3))
    return da.Model([da.ball("tip", disk)], [da.Gravity((0, 0, -GRAVITY))])


def exact(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(cosine of the tilt, precession (rad)) of a top let go with spin alone.

    With u = cos(tilt): u'^2 = (alpha - beta u)(1 - u^2) - (b - a u)^2, whose roots are u1 = cos(TILT) >= u >= u2, and u3 > 1.
    """
    a = J3 * SPIN / J1
    b, beta = a * np.cos(TILT), 2 * MASS * GRAVITY * LENGTH / J1
    alpha = beta * np.cos(TILT)
    u2, u1, u3 = np.sort(np.roots([beta, -(alpha + a * a), 2 * a * b - beta, alpha - b * b]).real)
    m = (u1 - u2) / (u3 - u2)
    _, cn, _, _ = ellipj(np.sqrt(beta * (u3 - u2)) / 2 * t + ellipk(m), m)
    u = u2 + (u1 - u2) * (1 - cn**2)
    return u, cumulative_simpson((b - a * u) / (1 - u * u), x=t, initial=0.0)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    model = top()
    start = {"q": {"tip": [TILT, 0.0, 0.0]}, "v": {"tip": [0.0, 0.0, SPIN]}}
    steps, errors = [0.002, 0.001, 0.0005], {}
    for order in (2, 4, 6):
        errors[order] = []
        for dt in steps:
            vi = da.MidpointVI(model, dt, order=order)
            motion = vi.simulate(vi.state(**start), time=1.0, accuracy="ignore")
            errors[order].append(float(np.abs(da.rotation.matrix(motion.q)[:, 2, 2] - exact(motion.t)[0]).max()))
        orders = np.log2(np.array(errors[order][:-1]) / errors[order][1:])
        print(
            f"order {order}: cosine of the tilt off by {errors[order][1]:.1e} at dt = 0.001 s, orders {orders.round(2)}"
        )
    vi = da.MidpointVI(model, 0.0005, order=4)
    motion = vi.simulate(vi.state(**start), time=2.0)
    u, turned = exact(motion.t)
    axis = da.rotation.matrix(motion.q)[:, :, 2]
    found = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
    print(f"precession after 2 s: {found[-1] - found[0]:.8f} rad, exact {turned[-1]:.8f}")
    about, own = motion.momentum()[:, 2], motion["p.tip.wz"]
    print(
        f"momentum about the vertical changes by {np.ptp(about) / abs(about[0]):.0e}, "
        f"about the top's axis by {np.ptp(own) / abs(own[0]):.0e}"
    )

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12, 3.8))
        a.plot(axis[:, 0], axis[:, 1], lw=1)
        a.set_aspect("equal")
        a.set(xlabel="x", ylabel="y", title="Axis of the top, seen from above")
        b.plot(motion.t, np.degrees(np.arccos(u)), color="0.7", lw=4, label="exact")
        b.plot(motion.t, np.degrees(np.arccos(axis[:, 2])), lw=1.2, label="order 4, dt = 0.5 ms")
        b.set(xlabel="time (s)", ylabel="tilt (degrees)", title="Nutation", xlim=(0, 0.5), ylim=(29, 50))
        b.legend(loc="upper center", ncols=2, fontsize=8)
        for order, e in errors.items():
            c.loglog(steps, e, "-o", ms=4, label=f"order {order}")
        c.set(xlabel="step (s)", ylabel="error", title="Cosine of the tilt, within 1 s")
        c.set_xticks(steps, [f"{x:g}" for x in steps])
        c.minorticks_off()
        c.legend()
        figure.savefig(args.out / "lagrange_top.png")
    print("figure:", args.out / "lagrange_top.png")


if __name__ == "__main__":
    main()
