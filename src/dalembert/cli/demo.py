"""`dalembert demo`: the closed-chain device, simulated, measured and shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import replacing
from .options import Dt, Json
from .output import open_page, print_facts, say, write_motion
from .simulate import run
from .start import start_of

if TYPE_CHECKING:
    from ..integrate import Trajectory


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figure and the page.")] = Path("out"),
    dt: Dt = 0.01,
    time: Annotated[float, typer.Option("--time", help="Seconds to simulate.")] = 120.0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate a closed-chain device for two minutes and show it.

    The device of "Scalable variational integrators" from its s-expression: prints the errors of energy and
    constraints, writes a figure and a page that plays the motion.

    Example:  dalembert demo --open
    """
    from .. import MidpointVI, models

    file = models.path("closed_chain")
    model, start = start_of(str(file), None, None, False)
    out.mkdir(parents=True, exist_ok=True)
    vi = MidpointVI(model, dt)
    motion, facts = run(vi, vi.state(start), time, quiet=as_json, accuracy="ignore")  # the figures of merit tell it
    figure, page = out / "demo.png", out / "demo.html"
    write_motion(motion, html=page, title="Closed-chain device")
    _demo_figure(motion, figure)
    facts |= {"model file": str(file), "figure": str(figure), "page": str(page)}
    print_facts(facts, as_json, f"Closed-chain device, {model.nd} variables and {model.nc} constraints")
    if not as_json:
        if not motion.quality().good:  # a first command that calls its own motion bad has to say why
            say(
                f"\nThe device whips round, and a few steps of {dt:g} s are coarse for that: they are told. Try  dalembert demo --dt {dt / 2:g}"
            )
        say("\nOpen the page in a browser: it plays offline. Next:  dalembert view pendulum,  dalembert examples list")
    if browser:
        open_page(page)


def _demo_figure(motion: Trajectory, path: Path) -> None:
    """The device, some of its motion, and its errors over the whole time."""
    import matplotlib
    import numpy as np

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ..mechanics import kinetic_energy
    from ..viewing import picture, style

    first = motion.t <= 10.0
    energy, violation = motion.energy(), motion.constraint_violation()
    kinetic = kinetic_energy(motion.model, motion.q, motion.v)
    with style():
        figure, panels = plt.subplot_mosaic("ab;ac;ad", figsize=(10, 5.4), width_ratios=(1, 1.35))
        panels["a"].imshow(picture(motion, size=(900, 1080), trail=0.0))
        panels["a"].set_axis_off()
        for name in ("J", "A", "E"):
            panels["b"].plot(motion.t[first], motion[name][first], label=name)
        panels["b"].set(ylabel="angle (rad)", title="Motion, first 10 s")
        panels["b"].legend(ncols=3, loc="upper right")
        panels["c"].plot(motion.t, energy - energy[0], lw=0.7)
        moved = f"kinetic energy up to {kinetic.max():.0f} J"
        panels["c"].set(ylabel="error (J)", title=f"Error of the total energy over {motion.t[-1]:.0f} s ({moved})")
        # without the start, which is as exact as the digits of its file
        panels["d"].semilogy(motion.t[1:], np.maximum(violation[1:], 1e-17), lw=0.5)
        panels["d"].set(xlabel="time (s)", ylabel="|h(q)|", title="Constraint violation", ylim=(1e-17, 1e-9))
        with replacing(path) as file:
            figure.savefig(file)
        plt.close(figure)
