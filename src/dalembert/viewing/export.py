"""A motion as a file: one HTML page that plays anywhere without a network, or a GIF or MP4 film."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array
from ..files import replacing
from ..model import Model
from ..model.frames import TURN
from .build import build_scene
from .quantities import (
    Motion,
    Shown,
    check_names,
    held_inputs,
    motions,
    quality,
    quantities_called,
    quantity_unit,
    samples,
    variable_unit,
)
from .scene import FORCE, PALETTE, TORQUE, Scene, arrow_vectors, place, rgb, tinted
from .solids import Solid, solids_of, triangles


def export_html(
    trajectory: Shown | Sequence[Shown],
    path: str | PathLike[str],
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    variables: Sequence[str] | None = None,
    max_samples: int = 4000,
    autoplay: bool = True,
) -> Path:
    """Write one self-contained HTML file that shows a motion; it opens from a disk and needs no network.

    The page has a 3-D scene (drag to turn, shift-drag to move, wheel to zoom), play, pause, step, scrub and speed, and
    plots of energy, constraint violation and variables with a cursor in time. `trajectory` may be a Trajectory, a list
    of them (drawn over each other, called `names`), or a bare Model (then the page has sliders that pose it).
    `variables` (any quantities that `trajectory[name]` takes) are plotted first (default: the first three variables and two inputs); the page
    offers all others. Long motions are thinned to `max_samples` configurations;
    the energy and constraint curves keep all their peaks. `title` heads the page; `autoplay` starts the motion at once.
    Returns the path.

    >>> import tempfile
    >>> from dalembert import Gravity, Model, rx, tz
    >>> pendulum = Model([rx("theta", tz(-1.0, name="bob", mass=1.0))], [Gravity()])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_html(pendulum, folder + "/pendulum.html").stat().st_size < 200_000
    True
    """
    _, page = page_of(
        trajectory, names=names, title=title, variables=variables, max_samples=max_samples, autoplay=autoplay
    )
    target = Path(path)
    with replacing(target) as file:
        file.write_text(page, encoding="utf-8")
    return target


def page_of(
    trajectory: Shown | Sequence[Shown],
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    variables: Sequence[str] | None = None,
    max_samples: int = 4000,
    autoplay: bool = True,
    embedded: bool = False,
) -> tuple[str, str]:
    """Title and text of the page of `export_html`; `embedded` in another page it is smaller and waits until it is seen."""
    runs = motions(trajectory)
    found = title or runs[0].model.name
    return found, _page(runs, check_names(runs, names), found, variables, max_samples, autoplay, embedded)


def _page(
    runs: list[Motion],
    names: list[str],
    title: str,
    variables: Sequence[str] | None,
    max_samples: int,
    autoplay: bool,
    embedded: bool,
) -> str:
    solids: dict[Solid, int] = {("cylinder",): 0, ("cone",): 1, ("tube",): 2}
    scenes = [build_scene(run.model, run.q) for run in runs]
    first = scenes[0]
    scales = arrow_scales(scenes, runs)
    data = {
        "runs": [
            _run(run, scene, name, i, len(runs) > 1, scales, solids, max_samples)
            for i, (run, scene, name) in enumerate(zip(runs, scenes, names, strict=True))
        ],
        "camera": {
            "direction": first.camera.direction,
            "target": first.camera.target,
            "up": first.camera.up,
            "radius": max(s.camera.radius for s in scenes),
            "follow": first.camera.follow,
        },
        "extent": first.extent,
        "ground": min(s.ground for s in scenes),
        "cell": grid_cell(first.extent),
        "trail": 1.5,
        "thread": thread(first),
        "chosen": _chosen(runs[0], variables),
        "autoplay": autoplay,
        "embedded": embedded,
        "keep": False,
        "cylinder": 0,
        "cone": 1,
        "tube": 2,
    }
    data["solids"] = [{"v": _pack(triangles(s)[0], "<f4"), "f": _pack(triangles(s)[1], "<u4")} for s in solids]
    # a "<" inside the data could end the script element
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    template = resources.files(__package__).joinpath("player.html").read_text(encoding="utf-8")
    return template.replace("@TITLE@", html.escape(title)).replace("@DATA@", text)


def _run(
    run: Motion,
    scene: Scene,
    name: str,
    number: int,
    overlay: bool,
    scales: dict[str, float],
    solids: dict[Solid, int],
    max_samples: int,
) -> dict[str, Any]:
    """One trajectory as plain data; `solids` collects the triangle meshes in use."""
    model = run.model
    css = PALETTE[number % len(PALETTE)]
    tint = rgb(css)
    keep = samples(len(run.t), max_samples)
    shapes, links = [], []
    for shape in scene.shapes:
        for solid, local in solids_of(shape):
            pose = np.array(shape.pose) @ local
            shapes.append(
                {
                    "solid": solids.setdefault(solid, len(solids)),
                    "frame": shape.frame,
                    "pose": _numbers(pose[:3].ravel()),
                    "color": _numbers(tinted(shape, tint, overlay)),
                    "alpha": shape.alpha,
                }
            )
    for link in scene.links:
        (solid, _), *_ = solids_of(link)
        links.append(
            {
                "solid": solids.setdefault(solid, len(solids)),
                "frames": link.frames,
                "radius": link.radius,
                "color": _numbers(tinted(link, tint, overlay)),
                "alpha": 1.0,
                "span": link.span,
            }
        )
    arrows = [
        {
            "frame": a.frame,
            "components": a.components,
            "is_input": a.is_input,
            "axes": a.axes,
            "radius": a.radius,
            "scale": scales[a.kind],
            "color": FORCE if a.kind == "force" else TORQUE,
        }
        for a in scene.arrows
    ]
    series = [
        {"title": s.title, "unit": s.unit, "log": s.log, "t": _pack(s.t, "<f8"), "y": _pack(s.y, "<f8")}
        for s in quality(run)
    ]
    return {
        "name": name,
        "css": css,
        "color": tint,
        "frames": _frames(model),
        "shapes": shapes,
        "links": links,
        "arrows": arrows,
        "named": scene.frames,
        "labels": [[e.index, e.name] for e in model.frame_entries[1:] if e.name is not None],
        "masses": [e.index for e in model.frame_entries[1:] if e.frame is not None and e.frame.mass > 0],
        "t": _pack(np.asarray(run.t)[keep], "<f8"),
        "q": _pack(np.asarray(run.q)[keep], "<f4"),
        "y": None if model.configuration.flat else _pack(model.configuration.read(np.asarray(run.q))[keep], "<f4"),
        "nq": model.nq,
        "u": _pack(held_inputs(run, keep), "<f4"),
        "nu": model.nu,
        "v": _pack(_sampled(run, "v", keep), "<f4"),
        "lam": _pack(_sampled(run, "lam", keep), "<f4"),
        "inputs": [{"name": n, "unit": ""} for n in model.input_columns],
        "velocities": [{"name": n, "unit": quantity_unit(model, f"v.{n}")} for n in model.velocities],
        "multipliers": [{"name": n, "unit": ""} for n in model.constraints],
        "variables": _variables(model),
        "series": series,
    }


def _sampled(run: Motion, name: str, keep: NDArray[np.int64]) -> Array:
    """Velocities or multipliers of a motion at the samples `keep`; nothing where it has none (a pose)."""
    rows = np.asarray(getattr(run, name, ()), dtype=float)
    return rows[np.minimum(keep, len(rows) - 1)] if rows.size else np.zeros(0)


def _variables(model: Model) -> list[dict[str, Any]]:
    """What the page plots and poses: name, unit, place in q, and for a ball's rotation vector which of its axes, else -1."""
    names = model.configuration.readings
    rows = [{"name": name, "unit": variable_unit(model, name), "q": 0, "axis": -1} for name in names]
    for q, v in zip(*model.configuration.numbers, strict=True):
        rows[v]["q"] = int(q)
    for ball in model.configuration.places:
        for axis, row in enumerate(rows[ball.v]):
            row.update(q=ball.q.start, axis=axis)
    return rows


def _frames(model: Model) -> list[list[Any]]:
    """The tree for the page's own kinematics: parent, 0 shift / 1 turn / 2 fixed / 3 ball, axis, place in q, value, pitch."""
    rows: list[list[Any]] = [[-1, 2, 0, -1, _numbers(np.eye(4)[:3].ravel()), 0]]
    for entry in model.frame_entries[1:]:
        f = entry.frame
        assert f is not None
        if f.transform == "se3":
            rows.append([entry.parent, 2, 0, -1, _numbers(np.array(f.value)[:3].ravel()), 0])
            continue
        if f.transform == TURN:
            rows.append([entry.parent, 3, 0, model.index(f.coordinates[0]), 0, 0])
            continue
        variable = -1 if f.variable is None else model.index(f.variable)
        value = f.value if variable < 0 else 0
        rows.append([entry.parent, int(f.transform[0] == "r"), "xyz".index(f.transform[1]), variable, value, f.pitch])
    return rows


def _chosen(run: Motion, variables: Sequence[str] | None) -> list[str]:
    """What is plotted first: as given, or the first variables and inputs."""
    if variables is None:
        return [*run.model.configuration.readings[:3], *run.model.input_columns[:2]] if len(run.t) > 1 else []
    out: list[str] = []
    words = [variables] if isinstance(variables, str) else variables
    for name in (found for word in words for found in quantities_called(run, word)):
        is_frame = name in run.model.frame_names and name not in run.model.variables
        out += [f"{name}.{axis}" for axis in "xyz"] if is_frame else [name]
    return out


def arrow_scales(scenes: Sequence[Scene], runs: Sequence[Motion]) -> dict[str, float]:
    """Metres per newton and per newton metre: the largest arrow of each kind is less than half of the mechanism."""
    largest = {"force": 0.0, "torque": 0.0}
    for scene, run in zip(scenes, runs, strict=True):
        if not scene.arrows:
            continue
        keep = samples(len(run.t), 400)
        vectors = arrow_vectors(scene, place(scene, np.asarray(run.q)[keep]), held_inputs(run, keep))
        for k, arrow in enumerate(scene.arrows):
            largest[arrow.kind] = max(largest[arrow.kind], float(np.linalg.norm(vectors[:, k], axis=-1).max()))
    return {kind: 0.4 * scenes[0].extent / size if size > 0 else 0.0 for kind, size in largest.items()}


def thread(scene: Scene) -> float:
    """Radius of the drawn paths: half a rod's."""
    rods = [link.radius for link in scene.links if link.kind == "rod"]
    return 0.5 * max(rods, default=0.01 * scene.extent)


def grid_cell(extent: float) -> float:
    """Side of a ground cell: a round number, about a fifth of the mechanism.

    >>> grid_cell(3.0), grid_cell(0.12)
    (0.5, 0.02)
    """
    power = 10.0 ** math.floor(math.log10(extent / 5))
    step = max(s for s in (1.0, 2.0, 5.0) if s * power <= extent / 5 * (1 + 1e-9))
    return float(f"{step * power:.6g}")


def _pack(array: ArrayLike, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode("ascii")


def _numbers(values: Iterable[float]) -> list[float]:
    """Seven digits suffice for a picture."""
    return [float(f"{v:.7g}") for v in values]
