"""`dalembert linearize`: exact A and B of one step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import replacing
from .options import Alpha, Dt, Forcing, Json, ModelFile, Near, Order, Q, Satisfy, Start, U, V, named
from .output import print_facts, say
from .start import start_of


def linearize(
    file: ModelFile,
    dt: Dt = 0.01,
    start: Start = None,
    q: Q = None,
    v: V = None,
    u: U = None,
    satisfy: Satisfy = False,
    near: Near = None,
    order: Order = 2,
    alpha: Alpha = 0.5,
    forcing: Forcing = "split",
    save: Annotated[Path | None, typer.Option("--save", help="Write A, B and the names (.npz).")] = None,
    as_json: Json = False,
) -> None:
    """Print exact A and B of one discrete step.

    The step is x' = f(x, u) with x = (q, p, rates of kinematic variables), u = (inputs, next kinematic values).

    Example:  dalembert linearize cart_pole --dt 0.02 --q theta=3.14159265
    """
    import numpy as np

    from .. import MidpointVI, System, controllable_rank

    model, x = start_of(file, start, q, satisfy, near)
    vi = MidpointVI(model, dt, order=order, alpha=alpha, forcing=forcing)
    load = named(u, model.inputs, "--u") or None
    state = vi.state(x, v=named(v, tuple(model.configuration.velocity_index), "--v") or None, u=load)
    A, B = vi.linearize(state, u=load)
    system = System(vi, steps=1)
    modes = np.linalg.eigvals(A)
    modes = modes[np.argsort(-np.abs(modes))]
    if save is not None:
        with replacing(save) as partial, partial.open("wb") as stream:
            np.savez(stream, A=A, B=B, x_names=np.array(system.x_names), u_names=np.array(system.u_names), dt=dt)
    rank = controllable_rank(A, B) if B.shape[1] else 0
    if as_json:
        facts = {"x_names": system.x_names, "u_names": system.u_names, "dt": dt, "A": A.tolist(), "B": B.tolist()}
        both = [[float(m.real), float(m.imag)] for m in modes]
        print_facts(facts | {"eigenvalues": both, "controllable rank": rank, "file": save and str(save)}, True)
        return
    say(f"x = ({', '.join(system.x_names)})")
    say(f"u = ({', '.join(system.u_names)})")
    with np.printoptions(precision=6, suppress=True, linewidth=140, threshold=400):
        say(f"A {A.shape} =\n{A}\nB {B.shape} =\n{B}")
        say(f"eigenvalues of A (largest first):\n{modes[:12]}")
    say(f"largest |eigenvalue| {abs(modes[0]):.9g}, controllable rank {rank} of {len(A)}")
