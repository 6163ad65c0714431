"""`dalembert simulate`: run the variational integrator and tell how well it went."""

from __future__ import annotations

import math
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Alpha, Dt, Forcing, Html, Json, ModelFile, Near, Order, Plot, Q, Satisfy, Save, Start, U, V, named
from .output import print_facts, say, write_motion
from .start import check_size, read_table, start_of

if TYPE_CHECKING:
    from ..arrays import Array
    from ..integrate import MidpointVI, State, Trajectory
    from ..model import Model


def simulate(
    file: ModelFile,
    dt: Dt = 0.01,
    time: Annotated[float, typer.Option("--time", help="Seconds to simulate.")] = 10.0,
    start: Start = None,
    q: Q = None,
    v: V = None,
    u: U = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", help="CSV with a column t and columns named as inputs or kinematic variables."),
    ] = None,
    satisfy: Satisfy = False,
    near: Near = None,
    alpha: Alpha = 0.5,
    forcing: Forcing = "split",
    order: Order = 2,
    every: Annotated[int, typer.Option("--every", min=1, help="Keep only each n-th state of a long run.")] = 1,
    adapt: Annotated[
        float | None,
        typer.Option("--adapt", help="Substeps between output times: largest jump of energy, relative (1e-3, say)."),
    ] = None,
    plot: Plot = None,
    html: Html = None,
    save: Save = None,
    film: Annotated[Path | None, typer.Option("--film", help="Write a film (.gif or .mp4).")] = None,
    as_json: Json = False,
) -> None:
    """Simulate a model with the variational integrator.

    Examples:

      dalembert simulate closed_chain --dt 0.01 --time 120 --plot energy.png

      dalembert simulate my.toml --q theta=1.5 --time 20 --html swing.html --save swing.npz
    """
    from .. import ConvergenceError, MidpointVI

    for target, allowed in ((save, (".npz", ".csv")), (film, (".gif", ".mp4"))):
        if target is not None and target.suffix not in allowed:
            raise typer.BadParameter(f"{target}: the suffix must be one of {', '.join(allowed)}")
    model, x = start_of(file, start, q, satisfy, near)
    vi = MidpointVI(model, dt, order=order, alpha=alpha, forcing=forcing)
    velocity = named(v, tuple(model.configuration.velocity_index), "--v")
    state = vi.state(x, v=velocity or None)
    check_duration(time)
    n = round(min(time / dt, 1e300))
    width = 2 * model.nq + model.nu + model.nc + 2
    check_size(n, 2 * n + n // every * width + (n * (model.nu + model.nk) if u or inputs else 0))
    forces, rho = inputs_of(model, u, inputs, state, n, dt)
    failure = None
    try:
        motion, facts = run(vi, state, time, quiet=as_json, u=forces, kinematic=rho, every=every, adapt=adapt)
    except ConvergenceError as error:
        if error.trajectory is None or len(error.trajectory) < 2:
            raise
        failure, motion = error, error.trajectory  # what was computed is written all the same
        facts = facts_of(motion, math.nan)
    facts["files"] = write_motion(motion, plot=plot, html=html, save=save, film=film)
    if failure is not None:
        facts["error"] = str(failure)
    print_facts(facts, as_json, f"{model.name}: {motion.steps} steps")
    if failure is not None:
        say(f"dalembert: {failure}; the motion until then is kept", error=True)
        raise SystemExit(1)
    if motion.interrupted:
        say("dalembert: interrupted; the motion until then is kept", error=True)
        raise SystemExit(130)


def inputs_of(
    model: Model, u: list[str] | None, table: Path | None, state: State, n: int, dt: float
) -> tuple[Array | None, Array | None]:
    """Inputs (n, nu) held over the steps and kinematic values (n, nk) at their ends; None where nothing is given."""
    import numpy as np

    constant = named(u, model.inputs, "--u")
    if not constant and table is None:
        return None, None
    forces = np.tile([constant.get(name, 0.0) for name in model.inputs], (n, 1))
    rho = np.tile(state.q[model.nd :], (n, 1))
    if table is not None:
        t, columns = read_table(table)
        for name, y in columns.items():
            if name in model.inputs:
                forces[:, model.input_index(name)] = np.interp(dt * np.arange(n), t, y)
            elif name in model.kinematic:
                rho[:, model.index(name) - model.nd] = np.interp(dt * np.arange(1, n + 1), t, y)
            else:
                known = ", ".join((*model.inputs, *model.kinematic)) or "none"
                raise ValueError(f"{table}: column {name!r} is no input and no kinematic variable (there are: {known})")
    return forces, rho


def check_duration(time: float) -> None:
    if not (math.isfinite(time) and time > 0):
        raise ValueError(f"--time must be positive, not {time:g}")


def run(vi: MidpointVI, state: State, time: float, *, quiet: bool, **options: Any) -> tuple[Trajectory, dict[str, Any]]:
    """Simulate, with a progress bar on a terminal; returns the motion and its figures of merit."""
    check_duration(time)
    begun = clock.perf_counter()
    motion = vi.simulate(state, time=time, progress=not quiet, **options)
    facts = facts_of(motion, clock.perf_counter() - begun)
    return motion, facts | {"steps": motion.steps * options.get("every", 1)}


def facts_of(motion: Trajectory, seconds: float) -> dict[str, Any]:
    """What tells a good simulation from a bad one."""
    import numpy as np

    model = motion.model
    energy = motion.energy()
    half = len(energy) // 2
    facts: dict[str, Any] = {
        "simulated time (s)": float(motion.t[-1] - motion.t[0]),
        "steps": motion.steps,
        "run time (s)": seconds,
        "energy at start (J)": float(energy[0]),
        "largest energy error (J)": float(np.abs(energy - energy[0]).max()),
        "median energy error (J)": float(np.median(np.abs(energy - energy[0]))),
    }
    if half > 1 and not model.nu and not model.nk:
        # a bounded error has the same middle in both halves; dissipation shows here first
        facts["energy drift (J)"] = float(np.median(energy[half:]) - np.median(energy[:half]))
    if model.nc:
        violation = motion.constraint_violation()
        facts["constraint violation at start"] = float(violation[0].max())  # that of the given numbers
        facts["largest constraint violation"] = float(violation[1:].max(initial=0.0))
    quality = motion.quality()
    facts["quality"] = repr(quality).removeprefix("Quality(").removesuffix(")")
    if math.isnan(seconds):
        del facts["run time (s)"]
    facts["final configuration"] = dict(zip(model.variables, motion.q[-1].tolist(), strict=True))
    return facts
