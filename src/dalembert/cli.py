"""The command `dalembert`: everything a user does with a model file, without writing Python.

Exit codes: 0 done, 1 the input is wrong or a computation failed (one message, no traceback), 2 wrong usage,
130 interrupted. Every command takes `--json` and then prints one JSON object on stdout and nothing else.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time as clock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer

from .arrays import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .integrate import MidpointVI, State, Trajectory
    from .model import Model

    Array = NDArray[np.float64]

app = typer.Typer(
    name="dalembert",
    help="Discrete mechanics: simulate, linearize, optimize and view mechanisms from model files.\n\n"
    "MODEL is a file (.sexp .toml .json .urdf .xml) or the name of a model that ships with the package.",
    epilog="Start with:  dalembert demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
gallery = typer.Typer(help="List, run and look at the examples.", no_args_is_help=True)
app.add_typer(gallery, name="examples", rich_help_panel=None)


def _complete_model(incomplete: str) -> list[str]:
    """Names of shipped models and files in reach, for the shell."""
    from . import models

    folder, start = os.path.split(incomplete)
    near = sorted(p for p in Path(folder or ".").glob(f"{start}*") if p.is_dir() or p.suffix in _FILES)
    files = [os.path.join(folder, p.name) + ("/" if p.is_dir() else "") for p in near]
    return [*(n for n in models.names() if n.startswith(incomplete)), *files]


def _complete_example(incomplete: str) -> list[str]:
    return [p.stem for p in example_files() if p.stem.startswith(incomplete)]


_FILES = (".sexp", ".lisp", ".toml", ".json", ".urdf", ".xml", ".mjcf", ".npz")
ModelFile = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Model file, or the name of a shipped model.", autocompletion=_complete_model),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
Dt = Annotated[float, typer.Option("--dt", help="Step length (s).")]
Alpha = Annotated[
    float, typer.Option("--alpha", help="Where the step evaluates L: 0 start, 1 end, 0.5 (second order) middle.")
]
Forcing = Annotated[str, typer.Option("--forcing", help="'split' (second order) or 'left' (as trep).")]
Start = Annotated[
    str | None, typer.Option("--start", help="Named configuration of the file (default: q0, if it has one).")
]
Q = Annotated[list[str] | None, typer.Option("--q", metavar="NAME=VALUE", help="Starting value of a variable; repeat.")]
V = Annotated[
    list[str] | None, typer.Option("--v", metavar="NAME=VALUE", help="Starting velocity of a variable; repeat.")
]
U = Annotated[list[str] | None, typer.Option("--u", metavar="NAME=VALUE", help="Constant value of an input; repeat.")]
Near = Annotated[
    list[str] | None,
    typer.Option("--near", metavar="NAME=VALUE", help="First guess of a variable that --satisfy moves; repeat."),
]
Satisfy = Annotated[
    bool, typer.Option("--satisfy", help="Move the variables that --q does not set until all constraints hold.")
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Write a figure (.png .pdf .svg).")]
Html = Annotated[Path | None, typer.Option("--html", help="Write one HTML page that plays the motion offline.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends with SystemExit.

    >>> main(["info", "pendulum", "--json"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    SystemExit: 0
    """
    args = list(sys.argv[1:] if argv is None else argv)
    from .errors import DalembertError

    try:
        app(args, prog_name="dalembert")
    except KeyboardInterrupt:
        _fail("interrupted", 130, args)
    except (DalembertError, ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        if os.environ.get("DALEMBERT_TRACEBACK"):
            raise
        _fail(str(error) or type(error).__name__, 1, args, type(error).__name__)


def _fail(message: str, code: int, args: Sequence[str], kind: str = "") -> NoReturn:
    if "--json" in args:
        print(json.dumps({"error": message, "kind": kind or message}))
    print(f"dalembert: {message}", file=sys.stderr)
    raise SystemExit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"dalembert {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# ---- first minutes -------------------------------------------------------------------------------------------------


@app.command()
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
    from . import MidpointVI, models

    file = models.path("closed_chain")
    model, start = _start_of(str(file), None, None, False)
    out.mkdir(parents=True, exist_ok=True)
    vi = MidpointVI(model, dt)
    motion, facts = _run(vi, vi.state(start), time, quiet=as_json)
    figure, page = out / "demo.png", out / "demo.html"
    _write(motion, html=page, title="Closed-chain device")
    _demo_figure(motion, figure)
    facts |= {"model file": str(file), "figure": str(figure), "page": str(page)}
    _print(facts, as_json, f"Closed-chain device, {model.nd} variables and {model.nc} constraints")
    if not as_json:
        print(
            "\nOpen the page in a browser: it plays offline. Next:  dalembert view pendulum,  dalembert examples list"
        )
    if browser:
        _open(page)


def _demo_figure(motion: Trajectory, path: Path) -> None:
    """The device, some of its motion, and its errors over the whole time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from .mechanics import kinetic_energy
    from .viewing import picture, style

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
        panels["c"].plot(motion.t, kinetic, color="0.75", lw=0.5, label="kinetic energy")
        panels["c"].plot(motion.t, energy - energy[0], lw=1, label="error of the total energy")
        panels["c"].set(ylabel="energy (J)", title=f"Energy over {motion.t[-1]:.0f} s")
        panels["c"].legend(ncols=2, loc="upper right")
        panels["c"].set_ylim(top=1.35 * float(kinetic.max()))
        # without the start, which is as exact as the digits of its file
        panels["d"].semilogy(motion.t[1:], np.maximum(violation[1:], 1e-17), lw=0.5)
        panels["d"].set(xlabel="time (s)", ylabel="|h(q)|", title="Constraint violation", ylim=(1e-17, 1e-9))
        figure.savefig(path)
        plt.close(figure)


@app.command()
def info(file: ModelFile, start: Start = None, q: Q = None, as_json: Json = False) -> None:
    """Show tree, sizes and first checks of a model.

    Example:  dalembert info closed_chain
    """
    from . import mechanics

    model, x = _start_of(file, start, q, False)
    masses = [e.frame.mass for e in model.frame_entries[1:] if e.frame is not None]
    facts: dict[str, Any] = {
        "name": model.name,
        "dynamic": list(model.dynamic),
        "kinematic": list(model.kinematic),
        "inputs": list(model.inputs),
        "constraints": list(model.constraints),
        "frames": len(model.frame_entries) - 1,
        "total mass (kg)": float(sum(masses)),
        "configuration": dict(zip(model.variables, x.tolist(), strict=True)),
    }
    m = mechanics.mass_matrix(model, x)[: model.nd, : model.nd]
    small, large = np.linalg.eigvalsh(m)[[0, -1]] if model.nd else (1.0, 1.0)
    notes = []
    facts["mass matrix condition"] = float(large / small) if small > 0 else math.inf
    if small <= 1e-12 * large:
        notes.append("the mass matrix is singular here: some variable moves no mass in this configuration")
    if model.nc:
        h = np.abs(mechanics.constraints(model, x))
        rank = int(np.linalg.matrix_rank(mechanics.constraint_jacobian(model, x)[:, : model.nd], tol=1e-9))
        facts["constraint violation"] = float(h.max())
        facts["degrees of freedom"] = model.nd - rank
        if h.max() > 1e-7:
            notes.append(
                f"the configuration violates {model.constraints[int(h.argmax())]}; try --satisfy in `simulate`"
            )
        if rank < model.nc:
            notes.append(f"only {rank} of {model.nc} constraints are independent here (redundant or singular)")
    else:
        facts["degrees of freedom"] = model.nd
    facts["potential energy (J)"] = mechanics.potential_energy(model, x)
    facts["notes"] = notes
    if as_json:
        _print(facts, True)
        return
    print(model)
    hidden = ("name", "constraints", "configuration", "notes")
    _print({k: v for k, v in facts.items() if k not in hidden}, False, " ")
    for note in notes:
        print(f"  note: {note}")


@app.command()
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
    order: Annotated[int, typer.Option("--order", help="2, 4 or 6: steps composed of 1, 5 or 9 midpoint steps.")] = 2,
    every: Annotated[int, typer.Option("--every", min=1, help="Keep only each n-th state of a long run.")] = 1,
    plot: Plot = None,
    html: Html = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the trajectory (.npz or .csv).")] = None,
    film: Annotated[Path | None, typer.Option("--film", help="Write a film (.gif or .mp4).")] = None,
    as_json: Json = False,
) -> None:
    """Simulate a model with the variational integrator.

    Examples:

      dalembert simulate closed_chain --dt 0.01 --time 120 --plot energy.png

      dalembert simulate my.toml --q theta=1.5 --time 20 --html swing.html --save swing.npz
    """
    from . import MidpointVI
    from .errors import ConvergenceError

    for target, allowed in ((save, (".npz", ".csv")), (film, (".gif", ".mp4"))):
        if target is not None and target.suffix not in allowed:
            raise typer.BadParameter(f"{target}: the suffix must be one of {', '.join(allowed)}")
    model, x = _start_of(file, start, q, satisfy, near)
    vi = MidpointVI(model, dt, alpha=alpha, forcing=forcing)
    velocity = _named(v, model.variables, "--v")
    state = vi.state(x, v=velocity or None)
    _check_duration(time)
    n = round(time / dt)
    forces, rho = _inputs_of(model, u, inputs, state, n, dt)
    failure = None
    try:
        motion, facts = _run(vi, state, time, quiet=as_json, u=forces, kinematic=rho, order=order, every=every)
    except ConvergenceError as error:
        if error.trajectory is None or len(error.trajectory) < 2:
            raise
        failure, motion = error, error.trajectory  # what was computed is written all the same
        facts = _facts(motion, math.nan)
    facts["files"] = _write(motion, plot=plot, html=html, save=save, film=film)
    if failure is not None:
        facts["error"] = str(failure)
    _print(facts, as_json, f"{model.name}: {motion.steps} steps")
    if failure is not None:
        print(f"dalembert: {failure}; the motion until then is kept", file=sys.stderr)
        raise SystemExit(1)
    if motion.interrupted:
        print("dalembert: interrupted; the motion until then is kept", file=sys.stderr)
        raise SystemExit(130)


# ---- analysis ------------------------------------------------------------------------------------------------------


@app.command()
def linearize(
    file: ModelFile,
    dt: Dt = 0.01,
    start: Start = None,
    q: Q = None,
    v: V = None,
    u: U = None,
    satisfy: Satisfy = False,
    near: Near = None,
    alpha: Alpha = 0.5,
    forcing: Forcing = "split",
    save: Annotated[Path | None, typer.Option("--save", help="Write A, B and the names (.npz).")] = None,
    as_json: Json = False,
) -> None:
    """Print exact A and B of one discrete step.

    The step is x' = f(x, u) with x = (q, p, rates of kinematic variables), u = (inputs, next kinematic values).

    Example:  dalembert linearize cart_pole --dt 0.02 --q theta=3.14159265
    """
    from . import MidpointVI, System
    from .control import controllable_rank

    model, x = _start_of(file, start, q, satisfy, near)
    vi = MidpointVI(model, dt, alpha=alpha, forcing=forcing)
    state = vi.state(x, v=_named(v, model.variables, "--v") or None)
    A, B = vi.linearize(state, u=_named(u, model.inputs, "--u") or None)
    system = System(vi, steps=1)
    modes = np.linalg.eigvals(A)
    modes = modes[np.argsort(-np.abs(modes))]
    if save is not None:
        np.savez(save, A=A, B=B, x_names=np.array(system.x_names), u_names=np.array(system.u_names), dt=dt)
    rank = controllable_rank(A, B) if B.shape[1] else 0
    if as_json:
        facts = {"x_names": system.x_names, "u_names": system.u_names, "dt": dt, "A": A.tolist(), "B": B.tolist()}
        both = [[float(m.real), float(m.imag)] for m in modes]
        _print(facts | {"eigenvalues": both, "controllable rank": rank, "file": save and str(save)}, True)
        return
    print(f"x = ({', '.join(system.x_names)})")
    print(f"u = ({', '.join(system.u_names)})")
    with np.printoptions(precision=6, suppress=True, linewidth=140, threshold=400):
        print(f"A {A.shape} =\n{A}\nB {B.shape} =\n{B}")
        print(f"eigenvalues of A (largest first):\n{modes[:12]}")
    print(f"largest |eigenvalue| {abs(modes[0]):.9g}, controllable rank {rank} of {len(A)}")


@app.command()
def equilibrium(
    file: ModelFile,
    start: Start = None,
    q: Q = None,
    u: U = None,
    fixed: Annotated[list[str] | None, typer.Option("--fixed", help="Hold a variable where it starts; repeat.")] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the model with this configuration, called 'equilibrium'.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find a static equilibrium near the start.

    Example:  dalembert equilibrium string_puppet
    """
    from . import equilibrium as rest
    from . import formats, mechanics

    model, x = _start_of(file, start, q, False)
    found = rest(model, x, fixed=fixed or (), u=_named(u, model.inputs, "--u") or None)
    facts: dict[str, Any] = {
        "configuration": dict(zip(model.variables, found.tolist(), strict=True)),
        "potential energy (J)": mechanics.potential_energy(model, found),
        "energy released (J)": mechanics.potential_energy(model, x) - mechanics.potential_energy(model, found),
    }
    if model.nc:
        facts["constraint violation"] = float(np.abs(mechanics.constraints(model, found)).max())
    if save is not None:
        formats.save(model, save, configurations={"equilibrium": found})
        facts["file"] = str(save)
    if as_json:
        _print(facts, True)
        return
    for name, value in facts.pop("configuration").items():
        print(f"  {name:<24} {value: .9g}")
    _print(facts, False)


@app.command()
def optimize(
    problem: Annotated[Path, typer.Argument(metavar="PROBLEM.toml", help="Problem file, see the documentation.")],
    plot: Plot = None,
    html: Html = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the trajectory (.npz or .csv).")] = None,
    gains: Annotated[
        Path | None, typer.Option("--gains", help="Write motion, feedback gains and history (.npz).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Optimize a motion as a problem file says.

    Example:  dalembert optimize swing_up.toml --html swing_up.html

    A problem file, all names by name:

    \b
      model = "cart_pole"
      dt = 0.02
      steps = 150
      start.q = {theta = 0.0}
      goal = {theta = 3.14159265}
    \b
      [weights]
      state = {theta = 1.0, "*" = 0.01}
      input = {"*" = 0.01}
      final = {theta = 100.0, "*" = 10.0}
    """
    system, cost, guess, options = read_problem(problem)
    from .optimization import optimize as run

    result = run(system, cost, guess, progress=sys.stderr.isatty() and not as_json, **options)
    motion = result.trajectory
    files = _write(motion, plot=plot, html=html, save=save, show=("variables", "inputs", "constraints"))
    if gains is not None:
        result.save(gains)
        files.append(str(gains))
    facts: dict[str, Any] = {
        "status": result.status,
        "reason": result.reason,
        "cost": float(result.cost),
        "iterations": result.iterations,
        "seconds": result.seconds,
        "final state": dict(zip(system.x_names, result.X[-1].tolist(), strict=True)),
        "files": files,
    }
    if as_json:
        _print(facts, True)
    else:
        print(result.summary())
        print("final state: " + ", ".join(f"{k} = {x:.6g}" for k, x in facts["final state"].items()))
        for name in files:
            print(f"  wrote {name}")
    if result.status == "interrupted":
        raise SystemExit(130)
    if result.status in ("stalled", "unbounded"):
        raise SystemExit(1)


# ---- looking at it -------------------------------------------------------------------------------------------------


@app.command()
def view(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Model (file or shipped name) or trajectory (.npz).")],
    others: Annotated[list[str] | None, typer.Argument(help="More trajectories, drawn over the first.")] = None,
    html: Html = None,
    port: Annotated[int, typer.Option("--port", help="Port on this machine (the next free one if taken).")] = 8080,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    as_json: Json = False,
) -> None:
    """Show a model or trajectories in the browser.

    Runs until Ctrl-C; a model gets sliders. With --html it writes a page instead.

    Examples:

      dalembert view marionette

      dalembert view open_loop.npz closed_loop.npz
    """
    from .viewing import export_html
    from .viewing import view as show

    names = [file, *(others or [])]
    shown = [_motion_or_model(name) for name in names]
    labels = [Path(n).stem for n in names]
    if html is not None:
        _parent(html)
        export_html(shown if len(shown) > 1 else shown[0], html, names=labels)
        _print({"page": str(html)}, as_json)
        return
    viewer = show(*shown, names=labels, port=port, open_browser=browser, block=False)
    if as_json:
        print(json.dumps({"url": viewer.url}), flush=True)
    else:
        print(f"{viewer.url}   (Ctrl-C ends it)", flush=True)
    viewer.wait()


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Model (.sexp .toml .json .urdf .xml) or trajectory (.npz).")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="Model file; for a trajectory .csv .html .gif .mp4 .png.")
    ],
    as_json: Json = False,
) -> None:
    """Convert models, or trajectories to tables and films.

    Named configurations travel along with a model.

    Examples:

      dalembert convert robot.urdf robot.toml

      dalembert convert swing.npz swing.csv
    """
    from . import formats

    _parent(target)
    if source.endswith(".npz"):
        motion = _motion_or_model(source)
        if target.suffix == ".html":
            _write(motion, html=target)
        elif target.suffix in (".gif", ".mp4"):
            _write(motion, film=target)
        elif target.suffix in (".png", ".pdf", ".svg"):
            _write(motion, plot=target)
        else:
            _write(motion, save=target)
        _print({"file": str(target), "steps": motion.steps}, as_json)
        return
    model, configurations = _load(source)
    formats.save(model, target, configurations=configurations or None)
    _print({"file": str(target), "variables": model.nq, "constraints": model.nc}, as_json)


# ---- examples and benchmarks ---------------------------------------------------------------------------------------


@gallery.command("list")
def examples_list(as_json: Json = False) -> None:
    """List the examples with a line on each."""
    rows = {p.stem: _headline(p) for p in example_files()}
    if as_json:
        _print(rows, True)
        return
    for name, line in rows.items():
        print(f"  {name:<26} {line}")
    print(f"\n{len(rows)} examples in {example_files()[0].parent}; run one with: dalembert examples run NAME")


@gallery.command("run")
def examples_run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Examples to run.", autocompletion=_complete_example)
    ] = None,
    every_one: Annotated[bool, typer.Option("--all", help="Run them all and write a gallery page.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for figures and the gallery.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Shorter studies, where an example offers that.")] = False,
    as_json: Json = False,
) -> None:
    """Run examples: each prints its numbers and saves its figure; the gallery is OUT/index.html.

    Examples:

      dalembert examples run single_pendulum

      dalembert examples run --all
    """
    files = {p.stem: p for p in example_files()}
    if not names and not every_one:
        raise typer.BadParameter("name an example or say --all")
    for name in names or []:
        if name not in files:
            raise ValueError(f"no example {name!r}{nearest(name, files)}; see: dalembert examples list")
    chosen = list(files) if every_one else list(names or [])
    out.mkdir(parents=True, exist_ok=True)
    results = {}
    with _bar("examples", len(chosen), as_json or len(chosen) < 2) as advance:
        for name in chosen:
            results[name] = _run_example(files[name], out, quick, as_json)
            advance(1)
    page = out / "index.html"
    known = _read_results(out) | results
    (out / "examples.json").write_text(json.dumps(known, indent=1), encoding="utf-8")
    page.write_text(_gallery_page(known, out, files), encoding="utf-8")
    failed = [n for n, r in results.items() if r["code"]]
    summary = {"ran": len(results), "failed": failed, "gallery": str(page)}
    _print(summary | ({"results": results} if as_json else {}), as_json)
    if failed:
        raise SystemExit(1)


@gallery.command("open")
def examples_open(
    out: Annotated[Path, typer.Option("--out", help="Folder of the gallery.")] = Path("out"), as_json: Json = False
) -> None:
    """Open the gallery page that `run` wrote."""
    page = out / "index.html"
    if not page.is_file():
        raise ValueError(f"there is no {page} yet; run: dalembert examples run --all")
    _print({"gallery": str(page)}, as_json)
    _open(page)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("out/bench"),
    as_json: Json = False,
) -> None:
    """Run the benchmarks of the source tree.

    Further arguments go to them (`python -m benchmarks --help` lists them).

    Example:  dalembert bench --quick
    """
    import subprocess

    # an installed command is usually run inside of the checkout it was installed from
    roots = [Path.cwd(), Path(__file__).resolve().parents[2]]
    root = next((r for r in roots if (r / "benchmarks/__main__.py").is_file() and (r / "src/dalembert").is_dir()), None)
    if root is None:
        raise ValueError("the benchmarks are in the source tree, not in the installed package: run this in a checkout")
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "benchmarks", "--out", str(out), *context.args]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL if as_json else None, check=False
    )
    if as_json and done.returncode == 0:
        print(json.dumps(json.loads((out / "results.json").read_text(encoding="utf-8"))))
    raise SystemExit(done.returncode)


def example_files() -> list[Path]:
    """The example scripts: beside the installed package, or in the source tree.

    >>> len(example_files()) > 5
    True
    """
    here = Path(__file__).resolve()
    for folder in (here.parent / "examples", here.parents[2] / "examples"):
        found = sorted(p for p in folder.glob("*.py") if not p.stem.startswith("_"))
        if found:
            return found
    raise ValueError("the examples are not installed")


def _headline(path: Path) -> str:
    """First line of a script's docstring, without executing it."""
    import ast

    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def _run_example(path: Path, out: Path, quick: bool, silent: bool) -> dict[str, Any]:
    """One example in its own process, so that neither a crash nor its settings reach the next one."""
    import subprocess

    text = path.read_text(encoding="utf-8")
    command = [sys.executable, str(path), "--out", str(out)]
    if quick and '"--quick"' in text:
        command.append("--quick")
    if not silent:
        print(f"--- {path.stem}: {_headline(path)}", flush=True)
    before = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    begun = clock.perf_counter()
    env = os.environ | {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:  # shown while it runs
            lines.append(line)
            if not silent:
                print("    " + line, end="", flush=True)
    new = [p.name for p in sorted(out.iterdir()) if p.is_file() and before.get(p) != p.stat().st_mtime_ns]
    return {
        "title": _headline(path),
        "code": process.returncode,
        "seconds": round(clock.perf_counter() - begun, 2),
        "output": "".join(lines),
        "files": [n for n in new if n not in ("index.html", "examples.json")],
    }


def _read_results(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / "examples.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _gallery_page(results: dict[str, Any], out: Path, files: dict[str, Path]) -> str:
    """One plain page: every example with its figures, its numbers and its source; refers to files beside it."""
    from html import escape

    cards = []
    for name in sorted(results):
        r = results[name]
        pictures = [f for f in r["files"] if Path(f).suffix in (".png", ".gif", ".svg") and (out / f).is_file()]
        links = [f for f in r["files"] if Path(f).suffix in (".html", ".mp4", ".csv", ".npz")]
        source = escape(files[name].read_text(encoding="utf-8")) if name in files else ""
        cards.append(
            f'<article id="{escape(name)}"><h2>{escape(name.replace("_", " "))}</h2><p>{escape(r["title"])}</p>'
            + "".join(
                f'<a href="{escape(f)}"><img src="{escape(f)}" alt="{escape(f)}" loading="lazy"></a>' for f in pictures
            )
            + "".join(f'<p><a href="{escape(f)}">{escape(f)}</a></p>' for f in links)
            + ("" if r["code"] == 0 else f'<p class="bad">failed with exit code {r["code"]}</p>')
            + f"<details><summary>numbers ({r['seconds']} s)</summary><pre>{escape(r['output'])}</pre></details>"
            + (f"<details><summary>source</summary><pre>{source}</pre></details>" if source else "")
            + "</article>"
        )
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1500px;padding:0 1rem;"
        "color:#1d2430;background:#f6f7f9}"
        "main{display:grid;grid-template-columns:repeat(auto-fill,minmax(430px,1fr));gap:1rem}"
        "article{background:#fff;border:1px solid #dfe3e8;border-radius:8px;padding:1rem;min-width:0}"
        "h1{margin:0}h2{margin:0;font-size:1.1rem}p{margin:.3rem 0}img{width:100%;height:auto}.bad{color:#b42318}"
        "pre{overflow:auto;font-size:12px;background:#f6f7f9;padding:.6rem;max-height:24rem}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>dalembert: gallery</title><style>{style}</style><h1>Gallery</h1>"
        f"<p>Each picture is made by a script of <code>examples/</code>; its numbers and its source are below it.</p>"
        f"<main>{''.join(cards)}</main></html>\n"
    )


# ---- problem files -------------------------------------------------------------------------------------------------

_PROBLEM = {
    "": {
        "model",
        "dt",
        "steps",
        "alpha",
        "forcing",
        "reference",
        "start",
        "goal",
        "weights",
        "bounds",
        "options",
        "guess",
    },
    "start": {"configuration", "q", "v", "p", "satisfy"},
    "weights": {"state", "input", "final"},
    "options": {"method", "tolerance", "max_iterations", "bound_method", "free_start"},
}


def read_problem(path: str | Path) -> tuple[Any, Any, Any, dict[str, Any]]:
    """(system, cost, starting motion, options of `optimize`) of a TOML problem file; unknown keys are errors.

    Top level: `model` (file beside the problem, or a shipped name), `dt`, `steps`, optional `alpha`, `forcing`,
    `reference` (CSV with a column t and columns named as states or inputs, or a trajectory .npz; interpolated),
    `guess` (trajectory .npz to start from). Tables: `start` (configuration, q, v or p, satisfy), `goal` (constant
    values by name; used where the reference has no column), `weights` (state, input, final; "*" = all others),
    `bounds` (name = [low, high]), `options` (method, tolerance, max_iterations, bound_method, free_start).

    >>> import tempfile
    >>> text = 'model = "pendulum"\\ndt = 0.1\\nsteps = 10\\ngoal = {theta = 1.0}\\n'
    >>> text += '[weights]\\nstate = {theta = 1}\\ninput = {"*" = 1}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "p.toml").write_text(text)
    ...     read_problem(Path(folder, "p.toml"))[0]
    System of 'pendulum': 2 states, 1 inputs, 10 steps
    """
    import tomllib

    from . import MidpointVI, System, TrackingCost, Trajectory
    from .errors import ModelError

    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"not TOML: {error}", file=str(path)) from None

    def table(name: str) -> dict[str, Any]:
        found = data.get(name, {})
        if not isinstance(found, dict):
            raise ModelError(f"'{name}' must be a table", file=str(path))
        return found

    for where, allowed in _PROBLEM.items():
        for key in data if where == "" else table(where):
            if key not in allowed:
                raise ModelError(
                    f"unknown key '{key}' in {where or 'the file'}; known: {', '.join(sorted(allowed))}", file=str(path)
                )
    for key in ("model", "dt", "steps", "weights"):
        if key not in data:
            raise ModelError(f"'{key}' is missing", file=str(path))

    def beside(name: str) -> str:
        near = path.parent / name
        return str(near) if near.exists() else name

    begin = table("start")
    model, configurations = _load(beside(str(data["model"])))
    x = _configuration(
        model, configurations, begin.get("configuration"), begin.get("q", {}), bool(begin.get("satisfy"))
    )
    vi = MidpointVI(model, float(data["dt"]), alpha=data.get("alpha", 0.5), forcing=data.get("forcing", "split"))
    system = System(vi, steps=data["steps"])
    first = system.x(x, v=begin.get("v"), p=begin.get("p"))

    goal: dict[str, Any] = dict(table("goal"))
    names = (*system.x_names, *system.u_names)
    for key in goal:
        if key not in names:
            raise ModelError(f"goal: unknown name {key!r}{nearest(key, names)}", file=str(path))
    if "reference" in data:
        goal |= _columns(Path(beside(str(data["reference"]))), system, model)
    for name in model.kinematic:  # a string keeps its length unless the problem says otherwise
        goal.setdefault(name, float(first[model.index(name)]))
    weights = table("weights")
    for part in ("state", "input"):
        if part not in weights:
            raise ModelError(f"weights: '{part}' is missing", file=str(path))
    cost = TrackingCost(goal, Q=weights["state"], R=weights["input"], Qf=weights.get("final"))

    if "guess" in data:
        guess: Any = system.from_trajectory(Trajectory.load(beside(str(data["guess"])), model))
    else:
        still = np.zeros((system.steps, system.nu))
        still[:, model.nu :] = first[model.nd : model.nq]
        guess = (system.simulate(first, still), still)
    options = dict(table("options"))
    if "bounds" in data:
        options["bounds"] = {k: (pair[0], pair[1]) for k, pair in table("bounds").items()}
    return system, cost, guess, options


def _columns(path: Path, system: Any, model: Model) -> dict[str, Array]:
    """Reference by name over the times of a system: states (N+1,), inputs (N,)."""
    if path.suffix == ".npz":
        from . import Trajectory

        motion = Trajectory.load(path, model)
        t = motion.t
        table = {n: motion.q[:, i] for i, n in enumerate(model.variables)}
        table |= {f"p.{n}": motion.p[:, i] for i, n in enumerate(model.dynamic)}
        table |= {n: np.append(motion.u[:, i], motion.u[-1:, i]) for i, n in enumerate(model.inputs)}
    else:
        t, table = _read_table(path)
    known = {*system.x_names, *system.u_names}
    unknown = [n for n in table if n not in known]
    if unknown:
        raise ValueError(f"{path}: column {unknown[0]!r} is no state or input; known: {', '.join(sorted(known))}")
    return {n: np.interp(system.t if n in system.x_names else system.t[:-1], t, y) for n, y in table.items()}


def _read_table(path: Path) -> tuple[Array, dict[str, Array]]:
    """A CSV with a header and a column t: (t, {name: column})."""
    import csv

    with path.open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.reader(file) if r]
    if len(rows) < 2 or "t" not in rows[0]:
        raise ValueError(f"{path}: a header with a column 't' and at least one row are needed")
    head = [n.strip() for n in rows[0]]
    try:
        numbers = np.array([[float(c) for c in r] for r in rows[1:]])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if numbers.ndim != 2 or numbers.shape[1] != len(head) or not np.isfinite(numbers).all():
        raise ValueError(f"{path}: every row needs {len(head)} finite numbers")
    table = {n: numbers[:, i] for i, n in enumerate(head)}
    t = table.pop("t")
    if (np.diff(t) <= 0).any():
        raise ValueError(f"{path}: the times must increase")
    return t, table


# ---- inside --------------------------------------------------------------------------------------------------------


def _load(name: str) -> tuple[Model, dict[str, Array]]:
    """A model file, or a shipped model by name."""
    from . import formats, models

    if not Path(name).exists() and Path(name).suffix == "" and Path(name).name == name:
        return models.load_with_configurations(name)
    return formats.load_with_configurations(name)


def _motion_or_model(name: str) -> Any:
    if name.endswith(".npz"):
        from . import Trajectory

        try:
            return Trajectory.load(name)
        except (KeyError, EOFError) as error:
            raise ValueError(f"{name} is not a trajectory of dalembert ({error})") from None
    from .viewing.quantities import Pose

    model, configurations = _load(name)
    return Pose(model, configurations["q0"][None]) if "q0" in configurations else model


def _start_of(
    file: str, start: str | None, q: list[str] | None, satisfy: bool, near: list[str] | None = None
) -> tuple[Model, Array]:
    model, configurations = _load(file)
    if near and not satisfy:
        raise typer.BadParameter("--near is a first guess for --satisfy")
    guess = _named(near, model.variables, "--near")
    return model, _configuration(model, configurations, start, _named(q, model.variables, "--q"), satisfy, guess)


def _configuration(
    model: Model,
    configurations: dict[str, Array],
    start: str | None,
    given: dict[str, float],
    satisfy: bool,
    guess: dict[str, float] | None = None,
) -> Array:
    """The named configuration (q0 by default) with single values changed."""
    from . import satisfy_constraints

    if start is not None and start not in configurations:
        known = ", ".join(configurations) or "none"
        raise ValueError(f"the file has no configuration {start!r} (it has: {known})")
    x = configurations.get(start or "q0", np.zeros(model.nq)).copy()
    for name, value in {**(guess or {}), **given}.items():
        x[model.index(name)] = value
    if satisfy and model.nc:
        x = satisfy_constraints(model, x, fixed=tuple(n for n in given if n in model.dynamic))
    return x


def _named(pairs: list[str] | None, names: Sequence[str], option: str) -> dict[str, float]:
    """NAME=VALUE texts as a dictionary."""
    out: dict[str, float] = {}
    for pair in pairs or []:
        name, equal, text = pair.rpartition("=")
        if not equal:
            raise typer.BadParameter(f"{option} {pair!r}: NAME=VALUE is needed")
        if name not in names:
            raise ValueError(f"{option}: unknown name {name!r}{nearest(name, names)}")
        try:
            out[name] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{option} {pair!r}: {text!r} is not a number") from None
    return out


def _inputs_of(
    model: Model, u: list[str] | None, table: Path | None, state: State, n: int, dt: float
) -> tuple[Array | None, Array | None]:
    """Inputs (n, nu) held over the steps and kinematic values (n, nk) at their ends; None where nothing is given."""
    constant = _named(u, model.inputs, "--u")
    if not constant and table is None:
        return None, None
    forces = np.tile([constant.get(name, 0.0) for name in model.inputs], (n, 1))
    rho = np.tile(state.q[model.nd :], (n, 1))
    if table is not None:
        t, columns = _read_table(table)
        for name, y in columns.items():
            if name in model.inputs:
                forces[:, model.input_index(name)] = np.interp(dt * np.arange(n), t, y)
            elif name in model.kinematic:
                rho[:, model.index(name) - model.nd] = np.interp(dt * np.arange(1, n + 1), t, y)
            else:
                known = ", ".join((*model.inputs, *model.kinematic)) or "none"
                raise ValueError(f"{table}: column {name!r} is no input and no kinematic variable (there are: {known})")
    return forces, rho


def _check_duration(time: float) -> None:
    if not (math.isfinite(time) and time > 0):
        raise ValueError(f"--time must be positive, not {time:g}")


def _run(
    vi: MidpointVI, state: State, time: float, *, quiet: bool, **options: Any
) -> tuple[Trajectory, dict[str, Any]]:
    """Simulate, with a progress bar on a terminal; returns the motion and its figures of merit."""
    _check_duration(time)
    begun = clock.perf_counter()
    motion = vi.simulate(state, time=time, progress=not quiet, **options)
    facts = _facts(motion, clock.perf_counter() - begun)
    return motion, facts | {"steps": motion.steps * options.get("every", 1)}


def _facts(motion: Trajectory, seconds: float) -> dict[str, Any]:
    """What tells a good simulation from a bad one."""
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
    if math.isnan(seconds):
        del facts["run time (s)"]
    facts["final configuration"] = dict(zip(model.variables, motion.q[-1].tolist(), strict=True))
    return facts


def _write(
    motion: Trajectory,
    *,
    plot: Path | None = None,
    html: Path | None = None,
    save: Path | None = None,
    film: Path | None = None,
    title: str | None = None,
    show: Sequence[str] | None = None,
) -> list[str]:
    """Write what was asked for; returns the names of the files."""
    if save is not None:
        _parent(save)
        motion.save(save)
    if plot is not None:
        import matplotlib

        matplotlib.use("Agg")
        from .viewing import plot_trajectory

        _parent(plot)
        plot_trajectory(motion, title=title, show=show).savefig(plot)
    if html is not None:
        from .viewing import export_html

        _parent(html)
        export_html(motion, html, title=title)
    if film is not None:
        from .viewing import export_gif, export_mp4

        _parent(film)
        (export_gif if film.suffix == ".gif" else export_mp4)(motion, film)
    return [str(p) for p in (save, plot, html, film) if p is not None]


def _parent(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)


def _open(page: Path) -> None:
    import webbrowser

    webbrowser.open(page.resolve().as_uri())


def _print(facts: dict[str, Any], as_json: bool, title: str = "") -> None:
    """A JSON object (NaN as null), or aligned lines."""
    if as_json:
        print(json.dumps(_plain(facts)))
        return
    if title:
        print(title)
    width = max((len(k) for k in facts), default=0)
    for key, value in facts.items():
        if isinstance(value, dict):
            text = ", ".join(f"{k} = {x:.6g}" for k, x in list(value.items())[:8]) + (" ..." if len(value) > 8 else "")
        elif isinstance(value, (list, tuple)):
            if not value:
                continue
            text = ", ".join(map(str, value))
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
        print(f"  {key:<{width}}  {text}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


@contextmanager
def _bar(label: str, total: int, hidden: bool) -> Iterator[Any]:
    """A progress bar on stderr, only where somebody sees it."""
    if hidden or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda n: progress.advance(task, n)


if __name__ == "__main__":
    main()
