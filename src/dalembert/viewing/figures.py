"""Figures of motions in one style: variables with names and units, energy, constraint violation, momentum, inputs.

Every function takes one Trajectory or several (drawn over each other) and returns a matplotlib Figure. The style is
applied only inside these functions; use `with style():` to give your own figures the same look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from .quantities import (
    Motion,
    Shown,
    check_names,
    check_variables,
    motions,
    quantities_called,
    quantity_of,
    quantity_unit,
    reading,
    thin,
    variable_unit,
    violation,
)
from .scene import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panel = Callable[[Axes], None]

POINTS = 4000  # more than a printed figure resolves
PARTS = ("variables", "energy", "constraints", "momentum", "p", "inputs")


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, as a context manager; nothing global changes.

    >>> import matplotlib
    >>> before = matplotlib.rcParams["axes.grid"]
    >>> with style():
    ...     matplotlib.rcParams["axes.grid"]
    True
    >>> matplotlib.rcParams["axes.grid"] == before
    True
    """
    import matplotlib
    from cycler import cycler

    ink, soft = "#1d2430", "#667085"
    settings: Any = {
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.edgecolor": "#aab2bf",
        "axes.labelcolor": ink,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.formatter.useoffset": False,
        "axes.formatter.limits": (-4, 5),
        "grid.color": "#e6e9ee",
        "grid.linewidth": 0.7,
        "lines.linewidth": 1.5,
        "font.size": 9.5,
        "text.color": ink,
        "xtick.color": soft,
        "ytick.color": soft,
        "xtick.major.size": 3,
        "ytick.major.size": 3,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "figure.dpi": 110,
        "savefig.dpi": 160,
        "savefig.bbox": "tight",
        "figure.constrained_layout.use": True,
    }
    with matplotlib.rc_context(settings):
        yield


def plot_trajectory(
    trajectory: Shown | Sequence[Shown],
    *others: Shown | str,
    names: Sequence[str] | None = None,
    variables: Sequence[str] | None = None,
    show: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """A figure of one or several trajectories over time, one panel under the other. Returns the matplotlib Figure.

    `show` lists the parts: "variables", "energy" (its error against the start), "constraints", "momentum" (angular,
    about the world origin, and linear), "p" (generalized momenta), "inputs"; the default is the first three. Parts that
    a model does not have are left out. `variables` chooses by name (default: the first eight; with several trajectories
    the first four, each in its own panel). Names of parts and of any quantity that `trajectory[name]` takes (variables, inputs,
    "v.theta", "p.theta", "lam.Distance(a, b)", frames, "bob.x", patterns like "motor *") can also follow the trajectories directly.
    `names` labels the trajectories (the first and the `others`), `title` heads the figure.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> from dalembert import Model, tx
    >>> from dalembert.viewing.quantities import Pose
    >>> figure = plot_trajectory(Pose(Model([tx("x", mass=1.0)]), np.zeros((1, 1))), show=["variables"])
    >>> figure.axes[0].get_ylabel()
    'x (m)'
    """
    runs = motions(trajectory, [x for x in others if not isinstance(x, str)])
    labels = check_names(runs, names)
    words = [name for x in others if isinstance(x, str) for name in quantities_called(runs[0], x, PARTS)]
    if words:  # plot("theta", "energy")
        model = runs[0].model
        named = [w for w in words if w in model.variables or w in model.configuration.readings]
        variables = [*named, *(variables or ())] or None
        parts = [w for w in words if w not in named]
        show = [*(["variables"] if named else []), *parts, *(show or ())]
    show = ["variables", "energy", "constraints"] if show is None else [show] if isinstance(show, str) else show
    model = runs[0].model
    show = [name for part in show for name in quantities_called(runs[0], part, PARTS)]
    pushed = [part for part in show if part in model.inputs and part not in PARTS] if len(runs) == 1 else []
    panels: list[Panel] = []
    for part in show:
        if len(pushed) > 1 and part in pushed:  # inputs share a panel, where the first of them is named
            if part == pushed[0]:
                panels.append(lambda ax: _draw_inputs(ax, runs, labels, pushed))
            continue
        if part not in PARTS:
            panels.append(partial(_draw_quantity, runs=runs, names=labels, quantity=part))
        elif part == "variables":
            panels += _variable_panels(runs, labels, check_variables(model, variables, 8 if len(runs) == 1 else 4))
        elif part == "energy":
            panels.append(lambda ax: _draw_energy(ax, runs, labels))
        elif part == "constraints" and model.nh:
            panels.append(lambda ax: _draw_violation(ax, runs, labels))
        elif part == "momentum":
            panels += _spatial_panels(runs, labels)
        elif part == "p":
            panels += _momentum_panels(runs, labels, check_variables(model, variables, model.nd))
        elif part == "inputs" and model.nu:
            panels.append(lambda ax: _draw_inputs(ax, runs, labels))
    return _figure(panels, title)


def plot_variables(
    trajectory: Shown | Sequence[Shown],
    *others: Shown,
    names: Sequence[str] | None = None,
    variables: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Configuration variables over time; options as for `plot_trajectory`."""
    return plot_trajectory(trajectory, *others, names=names, variables=variables, show=["variables"], title=title)


def plot_energy(
    trajectory: Shown | Sequence[Shown],
    *others: Shown,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Error of the total energy against its value at the start (J); options as for `plot_trajectory`."""
    return plot_trajectory(trajectory, *others, names=names, show=["energy"], title=title)


def plot_constraints(
    trajectory: Shown | Sequence[Shown],
    *others: Shown,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Largest constraint violation over time, logarithmic; options as for `plot_trajectory`."""
    return plot_trajectory(trajectory, *others, names=names, show=["constraints"], title=title)


def plot_momentum(
    trajectory: Shown | Sequence[Shown],
    *others: Shown,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Angular momentum about the world origin and linear momentum; options as for `plot_trajectory`."""
    return plot_trajectory(trajectory, *others, names=names, show=["momentum"], title=title)


# ---- panels ---------------------------------------------------------------------------------------------------------


def _figure(panels: Sequence[Panel], title: str | None) -> Figure:
    import matplotlib
    import matplotlib.pyplot as plt

    if not panels:
        raise ValueError("nothing to plot: the model has none of the parts that were asked for")
    with style():
        figure, axes = plt.subplots(
            len(panels), 1, sharex=True, squeeze=False, figsize=(7.2, 0.6 + 1.75 * max(len(panels), 1.4))
        )
        for draw, ax in zip(panels, axes[:, 0], strict=True):
            draw(ax)
        _drop_repeated_legends(axes[:, 0])
        axes[-1, 0].set_xlabel("time (s)")
        figure.align_ylabels()
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        # draw while the style holds: layout and tick texts are settled lazily
        figure.canvas.draw()
    if "inline" in matplotlib.get_backend().lower():
        plt.close(figure)  # a notebook shows what a cell returns; an open figure it would show once more
    return figure


def _line(ax: Axes, t: ArrayLike, y: ArrayLike, **options: Any) -> None:
    ax.plot(*thin(np.asarray(t, dtype=float), np.asarray(y, dtype=float), POINTS), **options)


def _legend(ax: Axes) -> None:
    lines, _ = ax.get_legend_handles_labels()
    if len(lines) > 1:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), borderaxespad=0.2, ncols=1 + (len(lines) > 9))


def _drop_repeated_legends(axes: Iterable[Axes]) -> None:
    shown: list[str] = []
    for ax in axes:
        legend = ax.get_legend()
        if legend is not None:
            texts = [t.get_text() for t in legend.get_texts()]
            if texts == shown:
                legend.remove()
            shown = texts


def _each_run(ax: Axes, runs: Sequence[Motion], names: Sequence[str], value: Callable[[Motion], Array | None]) -> None:
    """One curve for each run; the first is drawn last, on top."""
    for i, (run, name) in enumerate(zip(runs, names, strict=True)):
        y = value(run)
        if y is not None:
            _line(ax, run.t[: len(y)], y, label=name, color=PALETTE[i % len(PALETTE)], zorder=3 - i / len(runs))
    _legend(ax)


def _variable_panels(runs: Sequence[Motion], names: Sequence[str], variables: Sequence[str]) -> list[Panel]:
    model = runs[0].model
    if len(runs) > 1 or len(variables) == 1:

        def single(ax: Axes, variable: str) -> None:
            def value(run: Motion) -> Array | None:
                known = variable in run.model.configuration.readings or variable in run.model.variables
                return reading(run, variable) if known else None

            _each_run(ax, runs, names, value)
            ax.set_ylabel(f"{variable} ({variable_unit(model, variable)})")

        return [partial(single, variable=v) for v in variables]

    def grouped(ax: Axes, unit: str) -> None:
        for v in variables:
            if variable_unit(model, v) == unit:
                dashed = "--" if v in model.kinematic else "-"
                _line(ax, runs[0].t, reading(runs[0], v), label=v, linestyle=dashed)
        alone = [v for v in variables if variable_unit(model, v) == unit]
        what = {"rad": "angles (rad)", "m": "lengths (m)", "": "quaternions"}[unit]
        ax.set_ylabel(f"{alone[0]} ({unit})" if len(alone) == 1 and unit else what)
        _legend(ax)

    units = list(dict.fromkeys(variable_unit(model, v) for v in variables))
    return [partial(grouped, unit=u) for u in units]


def _draw_energy(ax: Axes, runs: Sequence[Motion], names: Sequence[str]) -> None:
    def error(run: Motion) -> Array | None:
        e = np.asarray(run.energy(), dtype=float)
        return e - e[0] if len(e) else None

    _each_run(ax, runs, names, error)
    ax.set_ylabel("energy − start (J)")


def _draw_violation(ax: Axes, runs: Sequence[Motion], names: Sequence[str]) -> None:
    def value(run: Motion) -> Array | None:
        return np.maximum(violation(run), 1e-17) if run.model.nh else None  # exact zeros have no logarithm

    _each_run(ax, runs, names, value)
    ax.set_yscale("log")
    low, high = ax.dataLim.intervaly
    ax.set_ylim(10.0 ** np.floor(np.log10(low) - 0.1), 10.0 ** np.ceil(np.log10(high) + 0.1))  # whole decades
    ax.set_ylabel("constraint\nviolation")


def _spatial_panels(runs: Sequence[Motion], names: Sequence[str]) -> list[Panel]:
    def draw(ax: Axes, first: int, label: str) -> None:
        for i, (run, name) in enumerate(zip(runs, names, strict=True)):
            momentum = np.asarray(run.momentum(), dtype=float)
            for j, axis in enumerate("xyz"):
                text = axis if len(runs) == 1 else f"{axis}, {name}"
                color, dash = PALETTE[(j if len(runs) == 1 else i) % len(PALETTE)], ("-", "--", ":")[j]
                _line(ax, run.t, momentum[:, first + j], label=text, color=color, linestyle=dash)
        ax.set_ylabel(label)
        _legend(ax)

    return [
        lambda ax: draw(ax, 0, "angular momentum\n(kg m²/s)"),
        lambda ax: draw(ax, 3, "linear momentum\n(kg m/s)"),
    ]


def _momentum_panels(runs: Sequence[Motion], names: Sequence[str], variables: Sequence[str]) -> list[Panel]:
    model = runs[0].model
    place = {v: i for i, v in enumerate(model.configuration.readings[: model.nd])}
    chosen = [v for v in variables if v in place]
    meaning = {"rad": "kg m²/s", "m": "kg m/s"}

    def draw(ax: Axes, unit: str) -> None:
        for v in (v for v in chosen if variable_unit(model, v) == unit):
            for i, (run, name) in enumerate(zip(runs, names, strict=True)):
                p, label = run.p[:, place[v]], model.velocities[place[v]]
                color = {"color": PALETTE[i % len(PALETTE)]} if len(runs) > 1 else {}
                _line(ax, run.t, p, label=f"{label}, {name}" if len(runs) > 1 else label, **color)
        ax.set_ylabel(f"p ({meaning[unit]})")
        _legend(ax)

    units = list(dict.fromkeys(variable_unit(model, v) for v in chosen))
    return [partial(draw, unit=u) for u in units]


def _draw_quantity(ax: Axes, runs: Sequence[Motion], names: Sequence[str], quantity: str) -> None:
    """Any quantity by name; what holds over a step is drawn as stairs, a frame as its three coordinates."""
    for i, (run, name) in enumerate(zip(runs, names, strict=True)):
        y = quantity_of(run, quantity)
        if y is None:
            continue
        color = PALETTE[i % len(PALETTE)]
        if y.ndim == 2:
            for j, axis in enumerate("xyz"):
                text = axis if len(runs) == 1 else f"{axis}, {name}"
                shade, dash = (PALETTE[j], "-") if len(runs) == 1 else (color, ("-", "--", ":")[j])
                _line(ax, run.t, y[:, j], label=text, color=shade, linestyle=dash)
        elif len(y) < len(run.t):
            ax.stairs(y, run.t[: len(y) + 1], baseline=None, label=name, color=color, linewidth=1.3)
        else:
            _line(ax, run.t, y, label=name, color=color, zorder=3 - i / len(runs))
    unit = quantity_unit(runs[0].model, quantity)
    ax.set_ylabel(f"{quantity} ({unit})" if unit else quantity.replace(".", "\n", 1))
    _legend(ax)


def _draw_inputs(ax: Axes, runs: Sequence[Motion], names: Sequence[str], chosen: Sequence[str] | None = None) -> None:
    """Inputs hold over a step, so they are stairs; all of them, or the `chosen` ones."""
    for i, (run, name) in enumerate(zip(runs, names, strict=True)):
        u = np.asarray(run.u, dtype=float)
        shown = [i for i, label in enumerate(run.model.inputs) if chosen is None or label in chosen]
        for j, column in enumerate(shown):
            if u.size == 0:
                continue
            label = run.model.inputs[column]
            color = PALETTE[(i if len(runs) > 1 else j) % len(PALETTE)]
            text = f"{label}, {name}" if len(runs) > 1 else label
            ax.stairs(u[:, column], run.t[: len(u) + 1], baseline=None, label=text, color=color, linewidth=1.3)
    ax.set_ylabel("inputs (N, N m)" if runs[0].model.nu > 1 else f"{runs[0].model.inputs[0]} (N or N m)")
    _legend(ax)
