"""`dalembert export`: C99 for a small computer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Alpha, Dt, Forcing, Json, ModelFile, Near, Order, Q, Satisfy, Start, U, named
from .output import print_facts, say
from .start import start_of

if TYPE_CHECKING:
    from .. import Feedback, MidpointVI
    from ..arrays import Array

PARTS = ("step", "linearize", "ekf", "lqr")


def export(
    file: ModelFile,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")],
    dt: Dt = 0.01,
    parts: Annotated[str, typer.Option("--with", help="Of step, linearize, ekf, lqr.")] = "step,linearize",
    start: Start = None,
    q: Q = None,
    u: U = None,
    satisfy: Satisfy = False,
    near: Near = None,
    order: Order = 2,
    alpha: Alpha = 0.5,
    forcing: Forcing = "split",
    single: Annotated[bool, typer.Option("--float", help="Single precision (default: double).")] = False,
    name: Annotated[str | None, typer.Option("--name", help="Beginning of all names of the C code.")] = None,
    measure: Annotated[
        str | None, typer.Option("--measure", help="What sensors see: names of states, as 'theta,x'.")
    ] = None,
    sigma: Annotated[float, typer.Option("--sigma", help="Standard deviation of the sensors.")] = 0.01,
    process: Annotated[float, typer.Option("--process", help="Variance of the process noise per step.")] = 1e-6,
    weight: Annotated[
        list[str] | None, typer.Option("--weight", metavar="NAME=VALUE", help="LQR weight of a state; repeat. Else 1.")
    ] = None,
    effort: Annotated[
        list[str] | None, typer.Option("--effort", metavar="NAME=VALUE", help="LQR weight of an input; repeat. Else 1.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=VALUE", help="Largest magnitude of a regulated input; repeat."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write C99 for a small computer.

    Code for the step, its exact A and B, a Kalman filter, a regulator.

    The regulator is that of the fixed point which the options --start, --q and --u describe.

    Example:  dalembert export cart_pole --with step,linearize,ekf,lqr --q theta=3.14159265 --measure x,theta -o firmware
    """
    from .. import ExtendedKalmanFilter, MidpointVI, export_c
    from .. import measure as sensor

    wanted = [word.strip() for word in parts.split(",") if word.strip()]
    for word in wanted:
        if word not in PARTS:
            raise typer.BadParameter(f"--with {word!r}: known are {', '.join(PARTS)}")
    model, x = start_of(file, start, q, satisfy, near)
    vi = MidpointVI(model, dt, order=order, alpha=alpha, forcing=forcing)
    load = named(u, model.inputs, "--u") or None
    state = vi.state(x, u=load)
    ekf = None
    if "ekf" in wanted:
        if measure is None:
            raise typer.BadParameter("--with ekf needs --measure: names of the states that sensors see")
        seen = sensor(vi, *(word.strip() for word in measure.split(",")))
        ekf = ExtendedKalmanFilter(vi, seen, Q=process, R=sigma**2)
    law = _regulator(vi, state.q, state.p, load, weight, effort) if "lqr" in wanted else None
    bounds = {n: (-b, b) for n, b in named(limit, vi.u_names, "--limit").items()} or None
    out = export_c(
        vi,
        folder,
        name=name,
        ekf=ekf,
        gains=law,
        limits=bounds,
        real="float" if single else "double",
        linearize="linearize" in wanted,
        start=state,
    )
    facts = {"name": out.name, "folder": str(out.folder), "files": [f.name for f in out.files]}
    if as_json:
        print_facts(facts, True)
        return
    for path in out.files:
        say(f"{path}  ({path.stat().st_size:,} bytes)")
    say(f"try it:  cmake -S {out.folder} -B build && cmake --build build && ./build/{out.name}_test")


def _regulator(
    vi: MidpointVI,
    q: Array,
    p: Array,
    load: dict[str, float] | None,
    weight: list[str] | None,
    effort: list[str] | None,
) -> Feedback:
    """The gains at a fixed point, on the constraints if there are some."""
    import numpy as np

    from .. import Feedback, lqr_infinite, reduce_state

    model = vi.model
    x = np.concatenate([q, p, np.zeros(model.nkv)])
    u = np.concatenate([[(load or {}).get(n, 0.0) for n in model.inputs], q[model.nqd :]])
    if not len(u):
        raise ValueError("--with lqr: the model has no input to regulate with")
    moved = float(np.abs(vi.f(x, u) - x).max())
    if moved > 1e-6:
        raise ValueError(
            f"--with lqr needs a fixed point, but a step from here moves by {moved:.3g}: choose --q and --u (dalembert equilibrium)"
        )
    Q = np.array([named(weight, vi.dx_names, "--weight").get(n, 1.0) for n in vi.dx_names])
    R = np.array([named(effort, vi.u_names, "--effort").get(n, 1.0) for n in vi.u_names])
    if model.nc:
        on = reduce_state(vi, (x, u))
        K = on.gain(lqr_infinite(on.A[0], on.B[0], on.weight(np.diag(Q)), np.diag(R)).K)
    else:
        K = lqr_infinite(*vi.linearize(vi.state(q, p=p), u=load), np.diag(Q), np.diag(R), names=vi).K
    return Feedback.at_point(x, u, K, system=vi)
