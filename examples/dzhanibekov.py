"""A wing nut in free fall turns over and over (Dzhanibekov): a torque-free body about its middle axis, against the exact solution.

Its attitude is a unit quaternion, so nothing is singular; angular momentum is kept to rounding and energy does not drift.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.special import ellipj, ellipkinc

import dalembert as da

MOMENTS = np.array([0.01, 0.012, 0.02])
RATES = np.array([0.5, 8.0, 0.1])


def exact_rates(t: np.ndarray) -> np.ndarray:
    """Body rates (N, 3) of the free body by Jacobi's functions (Landau, Lifshitz, section 37; moments in rising order)."""
    a, b, c = MOMENTS
    energy2, square = MOMENTS @ RATES**2, (MOMENTS * RATES) @ (MOMENTS * RATES)  # twice the energy, |L|^2
    if square < energy2 * b:  # around the axis of the least moment: a and c change places, and time goes back
        turned = exact_of(np.array([c, b, a]), RATES[::-1], energy2, square, -t)
        return turned[:, ::-1]
    return exact_of(MOMENTS, RATES, energy2, square, t)


def exact_of(moments: np.ndarray, rates: np.ndarray, energy2: float, square: float, t: np.ndarray) -> np.ndarray:
    """The same where the momentum goes round the last axis."""
    a, b, c = moments
    size = np.sqrt(np.abs([(energy2 * c - square) / (a * (c - a)), (energy2 * c - square) / (b * (c - b)),
                           (square - energy2 * a) / (c * (c - a))]))  # fmt: skip
    speed = np.sqrt((c - b) * (square - energy2 * a) / (a * b * c))
    m = (b - a) * (energy2 * c - square) / ((c - b) * (square - energy2 * a))
    # w = (size cn, +-size sn, size dn) with signs of the start; the phase at t = 0 from sn and cn
    signs = np.sign(rates)
    phase = np.arctan2(abs(rates[1]) / size[1], abs(rates[0]) / size[0])
    grows = np.sign((c - a) * rates[2] * rates[0] * signs[1])  # does |w_2| grow?
    sn, cn, dn, _ = ellipj(grows * speed * np.asarray(t) + ellipkinc(phase, m), m)
    return np.column_stack([signs[0] * size[0] * cn, signs[1] * size[1] * sn, signs[2] * size[2] * dn])


def body() -> da.Model:
    """A free body, drawn as a wing nut."""
    return da.Model([da.ball("b", name="body", mass=1.0, inertia=tuple(MOMENTS))])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    model = body()
    reference = da.MidpointVI(model, 0.0005, order=6)
    end = reference.simulate(reference.state(v=RATES), time=2.0).q[-1]
    steps, errors = [0.04, 0.02, 0.01, 0.005], {}
    for order in (2, 4, 6):
        errors[order] = []
        for dt in steps:
            vi = da.MidpointVI(model, dt, order=order)
            motion = vi.simulate(vi.state(v=RATES), time=2.0, accuracy="ignore")
            errors[order].append(float(np.linalg.norm(model.difference(end, motion.q[-1]))))
        rates = np.log2(np.array(errors[order][:-1]) / errors[order][1:])
        print(
            f"order {order}: attitude off by {errors[order][2]:.1e} rad after 2 s at dt = 0.01 s, orders {rates.round(2)}"
        )
    vi = da.MidpointVI(model, 0.01, order=4)
    motion = vi.simulate(vi.state(v=RATES), time=20.0)
    away = np.abs(motion.v - exact_rates(motion.t)).max()
    print(f"rates within {away:.1e} rad/s of Jacobi's functions over 20 s (order 4)")
    vi = da.MidpointVI(model, 0.01)
    long = vi.simulate(vi.state(v=RATES), 200_000, every=20)
    L, energy = long.momentum()[:, :3], long.energy()
    print(
        f"2000 s, 200000 steps: angular momentum changes by {np.abs(L - L[0]).max() / np.linalg.norm(L[0]):.0e}, energy stays within "
        f"{np.ptp(energy) / energy[0]:.1e}, as in the first 20 s ({np.ptp(energy[:100]) / energy[0]:.1e})"
    )

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    axis = da.rotation.matrix(motion.q)[:, :, 1] @ (L[0] / np.linalg.norm(L[0]))
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12, 3.6))
        a.plot(motion.t, axis)
        a.set(xlabel="time (s)", ylabel="cosine", title="Middle axis and momentum")
        b.plot(motion.t, exact_rates(motion.t), color="0.7", lw=4)
        b.plot(motion.t, motion.v, label=["x", "y", "z"], lw=1.2)
        b.set(xlabel="time (s)", ylabel="body rates (rad/s)", title="Jacobi's functions (grey)", xlim=(0, 8))
        b.legend()
        for order, e in errors.items():
            c.loglog(steps, e, "-o", ms=4, label=f"order {order}")
        c.set(xlabel="step (s)", ylabel="rad", title="Attitude error after 2 s")
        c.set_xticks(steps, [f"{x:g}" for x in steps])
        c.minorticks_off()
        c.legend()
        figure.savefig(args.out / "dzhanibekov.png")
    print("figure:", args.out / "dzhanibekov.png")


if __name__ == "__main__":
    main()
