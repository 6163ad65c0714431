"""A string puppet moved by three winches: strings as distance constraints whose lengths are inputs.

The lengths are kinematic variables: their next value enters every step, nothing else drives the puppet (Schultz,
Murphey, Embedded control synthesis using one-step methods, section II). The multipliers are the tensions.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for figure and page")
    args = parser.parse_args(argv)
    plain, configurations = models.load_with_configurations("string_puppet")
    # a little friction in the joints, or the puppet swings forever
    model = da.Model(plain.frames, [*plain.elements, da.Damping(0.03)], "string puppet")
    rest = da.equilibrium(model, configurations["q0"])
    first = rest[model.nd :]

    def lengths(t: float) -> np.ndarray:
        """The back is lifted and lowered slowly, the hands wave in turn; smooth from rest."""
        ease = 1 - np.exp(-((t / 1.5) ** 2))
        wave = 0.18 * np.sin(2.6 * t)
        return first + ease * np.array([-0.08 * (1 - np.cos(0.9 * t)), -0.15 + wave, -0.15 - wave])

    dt = 0.01
    vi = da.MidpointVI(model, dt)
    motion = vi.simulate(vi.state(rest), time=12, kinematic=lengths)
    h = motion.constraint_violation()
    # lambda multiplies d(|p1 - p2|^2)/dp, an impulse: the tension is 2 length lambda / dt
    tension = 2 * motion.q[:-1, model.nd :] * motion.lam / dt
    still = vi.simulate(vi.state(rest), time=1)
    at_rest = 2 * rest[model.nd :] * still.lam[5] / dt
    weight = 9.8 * sum(e.frame.mass for e in model.frame_entries[1:])
    print(f"{model.nd} dynamic and {model.nk} kinematic variables, {model.nc} strings; {motion.steps} steps")
    print(f"largest constraint violation {h.max():.1e}")
    print(f"tensions at rest {np.abs(at_rest).round(2)} N, weight {weight:.2f} N")
    slack = np.mean(tension[5:] * np.sign(at_rest) < 0)
    print(f"a string would have to push in {100 * slack:.1f} % of the steps")
    names = ("back", "left", "right")
    for i, name in enumerate(names):
        print(f"  {name:<6} length {motion[name].min():.3f} ... {motion[name].max():.3f} m, "
              f"tension up to {abs(tension[5:, i]).max():.1f} N")  # fmt: skip

    import matplotlib.pyplot as plt

    from dalembert.viewing import export_html, picture, style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, p = plt.subplot_mosaic("abc;ddd;eee", figsize=(9, 9), height_ratios=(3, 1, 1))
        for key, t in zip("abc", (0.0, 3.0, 4.2), strict=True):
            p[key].imshow(np.asarray(picture(motion, time=t, size=(1500, 1500)))[80:1400, 330:1130])
            p[key].set_axis_off()
        for i, name in enumerate(names):
            p["d"].plot(motion.t, motion[name], label=name)
            p["e"].plot(motion.t[5:-1], tension[5:, i] * np.sign(at_rest[i]), lw=1, label=name)
        p["d"].set(ylabel="length (m)", title="Length of the strings, prescribed by winches", ylim=(1.5, 2.32))
        p["d"].legend(ncols=3, loc="upper right")
        p["e"].set(xlabel="time (s)", ylabel="tension (N)", title="Tension of the strings")
        p["e"].axhline(0, color="black", lw=0.7)
        figure.savefig(args.out / "string_puppet.png")
    page = export_html(motion, args.out / "string_puppet.html", title="String puppet", variables=names)
    print("figure:", args.out / "string_puppet.png", "page:", page)


if __name__ == "__main__":
    main()
