"""The browser viewer: a viser server that plays trajectories and poses models."""

from __future__ import annotations

import errno
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Named
from .build import build_scene
from .export import arrow_scales, export_html, grid_cell
from .geometry import between, quaternions
from .origin import only_own_pages
from .quantities import (
    Array,
    Motion,
    Series,
    Shown,
    check_names,
    check_variables,
    held_inputs,
    motions,
    on_the_way,
    quality,
    reading,
    thin,
    variable_unit,
)
from .scene import FORCE, PALETTE, TORQUE, Link, Scene, Shape, arrow_vectors, place, rgb, tinted
from .solids import Solid, solids_of, triangles

FRAMES_PER_SECOND = 30.0
PLOT_POINTS = 500


def view(
    trajectory: Shown | Sequence[Shown],
    *others: Shown,
    names: Sequence[str] | None = None,
    variables: Sequence[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    open_browser: bool = True,
    autoplay: bool = True,
    block: bool | None = None,
) -> Viewer:
    """Show trajectories or models in the browser; returns a handle: `.url`, `.time`, `.playing`, `.wait()`, `.close()`.

    The page plays, pauses, steps, scrubs and changes speed, and plots energy, constraint violation and the chosen
    `variables` with a cursor in time; with `autoplay` it begins by itself. `others` are drawn over the first `trajectory`
    in their own colours and called `names`. A bare Model gets sliders that pose it. The server listens on this machine only, unless `host` says more;
    when `port` is taken the next free one is used. With `block` the call returns when the page is closed or Ctrl-C is
    pressed; the default blocks only in a script that runs in a terminal, which would else end at once.

    >>> from dalembert import Model, rx, tz
    >>> viewer = view(Model([rx("theta", tz(-1.0, name="bob", mass=1.0))]), open_browser=False)
    >>> viewer.url.startswith("http://127.0.0.1:")
    True
    >>> viewer.close()
    """
    runs = motions(trajectory, others)
    viewer = Viewer(runs, check_names(runs, names), variables, host, port, autoplay)
    if open_browser:
        import webbrowser

        webbrowser.open(viewer.url)
    if block is None:
        block = open_browser and not hasattr(sys, "ps1") and not sys.flags.interactive and sys.stderr.isatty()
    if block:
        if sys.stderr.isatty():
            sys.stderr.write(f"dalembert viewer at {viewer.url} (close the page or press Ctrl-C to end)\n")
        viewer.wait()
    return viewer


class Viewer:
    """A running viewer page; made by `view`. Use as a context manager or call `close`."""

    def __init__(
        self,
        runs: list[Motion],
        names: list[str],
        variables: Sequence[str] | None,
        host: str,
        port: int,
        autoplay: bool,
    ) -> None:
        import viser

        port = _free_port(host, port)  # viser waits for ever where it cannot listen
        model = runs[0].model
        chosen = check_variables(model, variables, 3)  # before a server starts, so that a wrong name leaves nothing
        self._runs = runs
        self._names = names
        self._scenes = [build_scene(run.model, run.q) for run in runs]
        self._still = all(len(run.t) < 2 for run in runs)
        self._start = min(float(run.t[0]) for run in runs)
        self._end = max(float(run.t[-1]) for run in runs)
        self._time = self._start
        self._playing = autoplay and not self._still
        self._lock = threading.RLock()
        self._closed = threading.Event()
        with _silent(), only_own_pages(host):
            self._server = viser.ViserServer(host=host, port=port, label=f"dalembert · {model.name}", verbose=False)
        self._host = host
        with self._server.atomic():
            self._stage()
            scales = arrow_scales(self._scenes, runs)
            self._pictures = [
                _Picture(self._server, scene, i, len(runs) > 1, scales) for i, scene in enumerate(self._scenes)
            ]
            if self._still:
                self._pose_panel()
            else:
                self._transport(chosen)
            self._display_options()
        self._draw()
        self._thread = threading.Thread(target=self._play, name="dalembert-viewer", daemon=True)
        if not self._still:
            self._thread.start()

    # ---- for the user

    @property
    def url(self) -> str:
        """Address of the page."""
        shown = "127.0.0.1" if self._host in ("0.0.0.0", "") else self._host
        return f"http://{shown}:{self._server.get_port()}"

    @property
    def time(self) -> float:
        """Time that is shown (s); assign to jump."""
        return self._time

    @time.setter
    def time(self, value: float) -> None:
        self._go(float(value))

    @property
    def playing(self) -> bool:
        """Whether it plays; assign to start or pause."""
        return self._playing

    @playing.setter
    def playing(self, value: bool) -> None:
        self._set_playing(bool(value))

    def pose(self, q: Named) -> None:
        """Show the (first) model at a configuration q (nq,)."""
        table = self._runs[0].model.configuration.point(q)
        with self._lock, self._server.atomic():
            self._pictures[0].move(table, None)

    def wait(self, patience: float = 3.0) -> None:
        """Block until the page has been closed for `patience` seconds, `close` is called or Ctrl-C is pressed."""
        seen = left = 0.0
        try:
            while not self._closed.wait(0.25):
                now = time.monotonic()
                if self._server.get_clients():
                    seen, left = now, 0.0
                elif seen:
                    left = left or now
                    if now - left > patience:
                        break
        except KeyboardInterrupt:
            pass
        self.close()

    def close(self) -> None:
        """Stop the server; the page stops moving. Safe to call twice."""
        if not self._closed.is_set():
            self._closed.set()
            if self._thread.is_alive() and self._thread is not threading.current_thread():
                self._thread.join(timeout=2.0)
            with _silent():
                self._server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- building the page

    def _stage(self) -> None:
        """Ground, light and camera."""
        server, scene = self._server, self._scenes[0]
        camera, extent = scene.camera, scene.extent
        up, target = np.array(camera.up), np.array(camera.target)
        server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(47, 111, 183))
        server.gui.main_panel.dock_right()
        server.gui.main_panel.set_width(400)
        server.scene.set_up_direction(up)
        server.scene.world_axes.visible = False
        server.scene.configure_environment_map(
            "warehouse", environment_intensity=0.45
        )  # full strength bleaches colours
        rotation, _ = between(np.zeros(3), up)
        cell = grid_cell(extent)
        server.scene.add_grid(
            "/ground",
            position=target - up * (up @ target - min(s.ground for s in self._scenes)),
            wxyz=quaternions(rotation),
            width=12 * extent,
            height=12 * extent,
            plane="xy",
            infinite_grid=True,
            fade_distance=14 * extent,
            cell_size=cell,
            section_size=5 * cell,
            cell_color=(222, 226, 232),
            section_color=(196, 203, 212),
            shadow_opacity=0.2,
        )
        start = server.initial_camera
        start.up = up
        start.look_at = target
        fov = 0.6
        radius = max(s.camera.radius for s in self._scenes)
        start.position = target + np.array(camera.direction) * radius / np.sin(fov / 2) * 1.05
        start.fov = fov

    def _transport(self, chosen: list[str]) -> None:
        """Play, scrub, step and speed, then the plots."""
        gui = self._server.gui
        self._play_button = gui.add_button("Pause" if self._playing else "Play", color="blue")
        self._steps = gui.add_button_group("Step", ("|◀", "◀", "▶", "▶|"))
        span = self._end - self._start
        step = float(np.clip(np.median(np.diff(self._runs[0].t)), span / 5000, span / 50))
        self._slider: Any = gui.add_slider("Time (s)", self._start, self._end, float(f"{step:.3g}"), self._start)
        self._speed = gui.add_dropdown("Speed", ("0.1×", "0.25×", "0.5×", "1×", "2×", "5×", "10×"), initial_value="1×")
        self._loop = gui.add_checkbox("Loop", True)
        self._moving_slider = False

        @self._play_button.on_click
        def _(_: Any) -> None:
            self._set_playing(not self._playing)

        @self._slider.on_update
        def _(event: Any) -> None:
            if event.client is not None and not self._moving_slider:  # moved by a hand, not by the clock
                self._set_playing(False)
                self._go(float(self._slider.value), slider=False)

        @self._steps.on_click
        def _(event: Any) -> None:
            self._step(str(event.target.value))

        self._plots: list[_TimePlot] = []
        self._legend()
        colours = [PALETTE[i % len(PALETTE)] for i in range(len(self._runs))]
        qualities = [quality(run, PLOT_POINTS) for run in self._runs]
        with gui.add_folder("Energy and constraints"):
            for k, first in enumerate(qualities[0]):
                curves = [q[k] if k < len(q) else None for q in qualities]
                self._plots.append(_TimePlot(gui, first.title, first.unit, first.log, curves, self._names, colours))
        model = self._runs[0].model
        with gui.add_folder("Variables") as folder:
            self._chooser = gui.add_dropdown("Add plot", ("…", *model.configuration.readings), initial_value="…")
            clear = gui.add_button("Remove plots")
        self._variable_plots: list[_TimePlot] = []

        def show(variable: str) -> None:
            unit = variable_unit(model, variable)
            curves: list[Series | None] = []
            for run in self._runs:
                known = variable in run.model.configuration.readings or variable in run.model.variables
                y = reading(run, variable) if known else None
                curves.append(None if y is None else Series(variable, unit, False, *thin(run.t, y, PLOT_POINTS)))
            with folder:
                plot = _TimePlot(gui, variable, unit, False, curves, self._names, colours)
            plot.cursor(self._time)
            self._variable_plots.append(plot)

        for variable in chosen:
            show(variable)

        @self._chooser.on_update
        def _(_: Any) -> None:
            variable = self._chooser.value
            with self._lock:
                if variable != "…" and all(p.title != variable for p in self._variable_plots):
                    show(variable)

        @clear.on_click
        def _(_: Any) -> None:
            with self._lock:
                for plot in self._variable_plots:
                    plot.remove()
                self._variable_plots.clear()

    def _legend(self) -> None:
        """Whose colour is whose; one legend for the scene and all plots."""
        if len(self._runs) > 1:
            import html

            rows = [
                f'<span style="color:{PALETTE[i % len(PALETTE)]};font-size:1.3em">●</span> {html.escape(name)}'
                for i, name in enumerate(self._names)
            ]
            self._server.gui.add_html(f'<div style="padding:0.3em 0.9em">{"&emsp;".join(rows)}</div>')

    def _pose_panel(self) -> None:
        """One slider for each variable, three for the rotation vector of a ball."""
        gui, model = self._server.gui, self._runs[0].model
        q0 = model.configuration.read(np.asarray(self._runs[0].q[:1], dtype=float))[0]
        self._sliders: list[Any] = []
        with gui.add_folder("Pose"):
            for i, name in enumerate(model.configuration.readings):
                unit = variable_unit(model, name)
                half = 3.14 if unit == "rad" else float(f"{max(self._scenes[0].extent, 2 * abs(q0[i])):.2g}")
                start = float(np.clip(q0[i], -half, half))
                slider: Any = gui.add_slider(f"{name} ({unit})", -half, half, half / 314, start)
                slider.on_update(lambda _: self._from_sliders())
                self._sliders.append(slider)
            reset = gui.add_button("Reset")

        @reset.on_click
        def _(_: Any) -> None:
            for slider, value in zip(self._sliders, q0, strict=True):
                slider.value = float(value)
            self._from_sliders()

    def _display_options(self) -> None:
        gui = self._server.gui
        with gui.add_folder("Display"):
            axes = gui.add_checkbox("Frame axes", False)
            shown = [gui.add_checkbox(name, True) for name in self._names] if len(self._runs) > 1 else []
            save = gui.add_button("Save as HTML page")

        @axes.on_update
        def _(_: Any) -> None:
            with self._lock:
                for picture in self._pictures:
                    picture.show_axes(axes.value)
                self._draw()

        def link(picture: _Picture, box: Any) -> None:
            box.on_update(lambda _: picture.show(box.value))

        for picture, box in zip(self._pictures, shown, strict=False):
            link(picture, box)

        @save.on_click
        def _(event: Any) -> None:
            import tempfile
            from pathlib import Path

            with tempfile.TemporaryDirectory() as folder:
                page = export_html(list(self._runs), Path(folder) / "motion.html", names=self._names)
                if event.client is not None:
                    event.client.send_file_download(f"{self._runs[0].model.name}.html", page.read_bytes())

    # ---- moving

    def _from_sliders(self) -> None:
        sliders = np.array([s.value for s in self._sliders], dtype=float)
        model = self._runs[0].model
        q = model.integrate(model.neutral(), sliders)
        with self._lock, self._server.atomic():
            for run, picture in zip(self._runs, self._pictures, strict=True):
                if run.model.nq == len(q):
                    picture.move(q, None)

    def _set_playing(self, yes: bool) -> None:
        if self._still:
            return
        with self._lock:
            self._playing = yes
            self._play_button.label = "Pause" if yes else "Play"
            if yes and self._time >= self._end:
                self._go(self._start)

    def _step(self, which: str) -> None:
        self._set_playing(False)
        t = np.asarray(self._runs[0].t)
        if which in ("|◀", "▶|"):
            self._go(float(t[0] if which == "|◀" else t[-1]))
            return
        k = int(np.searchsorted(t, self._time + 1e-9, side="right")) - 1
        if which == "◀" and self._time > t[k] + 1e-9:
            k += 1
        self._go(float(t[np.clip(k + (1 if which == "▶" else -1), 0, len(t) - 1)]))

    def _go(self, t: float, *, slider: bool = True) -> None:
        with self._lock:
            self._time = float(np.clip(t, self._start, self._end))
            if slider and not self._still:
                self._moving_slider = True
                self._slider.value = self._time
                self._moving_slider = False
            self._draw()

    def _draw(self, plots: bool = True) -> None:
        with self._lock, self._server.atomic():
            for run, picture in zip(self._runs, self._pictures, strict=True):
                q, u = _at(run, self._time)
                picture.move(q, u)
            if plots and not self._still:
                for plot in (*self._plots, *self._variable_plots):
                    plot.cursor(self._time)

    def _play(self) -> None:
        """The clock. Plots are heavier than poses, so their cursors move at a third of the rate."""
        last, count = time.perf_counter(), 0
        while not self._closed.wait(1.0 / FRAMES_PER_SECOND):
            now = time.perf_counter()
            passed, last = min(now - last, 0.2), now
            if not self._playing:
                continue
            with self._lock:
                t = self._time + passed * float(self._speed.value[:-1])
                if t >= self._end:
                    if self._loop.value:
                        t = self._start
                    else:
                        t, self._playing = self._end, False
                        self._play_button.label = "Play"
                self._time = t
                count += 1
                if count % 3 == 0 or not self._playing:
                    self._go(t)
                else:
                    self._draw(plots=False)


def _free_port(host: str, port: int) -> int:
    """The first port from `port` on where a server can listen; what is wrong with host or port is an error."""
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ValueError(f"port must be a whole number from 0 (any free one) to 65535, not {port!r}")
    for attempt in range(port, min(port + 1000, 65536)):
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.create_server((host, attempt), family=family) as found:
                return int(found.getsockname()[1])
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ValueError(f"cannot listen at host {host!r}: {error}") from None
    raise ValueError(f"no free port from {port} on at host {host!r}")


def _silent() -> Any:
    """A library does not print; viser announces itself on standard output even when told not to."""
    import contextlib
    import io

    return contextlib.redirect_stdout(io.StringIO())


def _at(run: Motion, t: float) -> tuple[Array, Array]:
    """Configuration between two samples (nq,) and the input of that step (nu,)."""
    times = np.asarray(run.t, dtype=float)
    k = int(np.clip(np.searchsorted(times, t, side="right") - 1, 0, max(len(times) - 2, 0)))
    n = min(k + 1, len(times) - 1)
    h = times[n] - times[k]
    w = float(np.clip((t - times[k]) / h, 0.0, 1.0)) if h > 0 else 0.0
    q = on_the_way(run.model, np.asarray(run.q[k], dtype=float), np.asarray(run.q[n], dtype=float), np.array([w]))
    return q, held_inputs(run, np.array([k]))[0]


class _Picture:
    """The drawn parts of one run: one batch of instances for each solid, so that a move is a handful of messages."""

    def __init__(self, server: Any, scene: Scene, number: int, overlay: bool, scales: dict[str, float]) -> None:
        self._server, self._scene, self._scales = server, scene, scales
        self._root = server.scene.add_frame(f"/run{number}", show_axes=False)
        self._axes: Any = None
        self._number = number
        tint = rgb(PALETTE[number % len(PALETTE)])
        grow = 1.0 + 0.006 * number  # where runs coincide the later one shows, without flicker
        groups: dict[tuple[Solid, float], list[tuple[Shape | Link, int, Array]]] = {}
        parts: list[tuple[int, Shape | Link]] = [*enumerate(scene.shapes), *enumerate(scene.links)]
        for i, part in parts:
            alpha = part.alpha if isinstance(part, Shape) else 1.0
            for solid, local in solids_of(part):
                groups.setdefault((solid, alpha), []).append((part, i, local @ np.diag([grow, grow, grow, 1.0])))
        self._batches = []
        for g, ((solid, alpha), members) in enumerate(groups.items()):
            vertices, faces = triangles(solid)
            n = len(members)
            colors = np.array([tinted(part, tint, overlay) for part, _, _ in members])
            handle = server.scene.add_batched_meshes_simple(
                f"/run{number}/part{g}",
                vertices.astype(np.float32),
                faces.astype(np.uint32),
                batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)),
                batched_positions=np.zeros((n, 3)),
                batched_scales=np.ones((n, 3)),
                batched_colors=(255 * colors).round().astype(np.uint8),
                opacity=None if alpha >= 1 else alpha,
                side="double",
                lod="off",
                cast_shadow=alpha >= 1,
                receive_shadow=False,
            )
            self._batches.append((handle, members))
        self._arrows = None
        if scene.arrows:
            colors = np.array([FORCE if a.kind == "force" else TORQUE for a in scene.arrows])
            radius = scene.arrows[0].radius
            self._arrows = server.scene.add_arrows(
                f"/run{number}/arrows",
                np.zeros((len(scene.arrows), 2, 3)),
                (255 * colors).round().astype(np.uint8),
                shaft_radius=radius,
                head_radius=2.3 * radius,
                head_length=4 * radius,
                visible=False,
            )

    def move(self, q: Array, u: Array | None) -> None:
        placed = place(self._scene, q)
        rotations, lengths = between(placed.links[0, :, 0], placed.links[0, :, 1])
        for handle, members in self._batches:
            poses = np.empty((len(members), 4, 4))
            for k, (part, i, local) in enumerate(members):
                if isinstance(part, Shape):
                    poses[k] = placed.shapes[0, i] @ local
                else:
                    stretched = np.eye(4)
                    stretched[:3, :3] = rotations[i] @ np.diag([1.0, 1.0, lengths[i]])
                    stretched[:3, 3] = placed.links[0, i, 0]
                    poses[k] = stretched @ local
            scales = np.linalg.norm(poses[:, :3, :3], axis=1)
            handle.batched_positions = poses[:, :3, 3].astype(np.float32)
            handle.batched_scales = scales.astype(np.float32)
            turn = poses[:, :3, :3] / np.maximum(scales, 1e-12)[:, None, :]
            handle.batched_wxyzs = quaternions(turn).astype(np.float32)
        if self._arrows is not None:
            inputs = np.zeros(self._scene.model.nu) if u is None else u
            vectors = arrow_vectors(self._scene, placed, inputs)[0]
            tails = placed.frames[0, [a.frame for a in self._scene.arrows], :3, 3]
            scaled = vectors * np.array([self._scales[a.kind] for a in self._scene.arrows])[:, None]
            self._arrows.points = np.stack([tails, tails + scaled], axis=1).astype(np.float32)
            self._arrows.visible = bool(np.linalg.norm(scaled, axis=1).max() > 1e-3 * self._scene.extent)
        if self._axes is not None:
            frames = placed.frames[0, list(self._scene.frames)]
            self._axes.batched_positions = frames[:, :3, 3].astype(np.float32)
            self._axes.batched_wxyzs = quaternions(frames[:, :3, :3]).astype(np.float32)

    def show(self, yes: bool) -> None:
        self._root.visible = yes

    def show_axes(self, yes: bool) -> None:
        if yes and self._axes is None:
            n, length = len(self._scene.frames), 0.12 * self._scene.extent
            self._axes = self._server.scene.add_batched_axes(
                f"/run{self._number}/axes",
                batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)),
                batched_positions=np.zeros((n, 3)),
                axes_length=length,
                axes_radius=0.035 * length,
            )
        elif not yes and self._axes is not None:
            self._axes.remove()
            self._axes = None


class _TimePlot:
    """Curves over time with a cursor: a vertical line made of two samples at the same instant."""

    def __init__(
        self,
        gui: Any,
        title: str,
        unit: str,
        log: bool,
        curves: Sequence[Series | None],
        names: Sequence[str],
        colours: Sequence[str],
    ) -> None:
        self.title = title
        known = [(c, n, k) for c, n, k in zip(curves, names, colours, strict=True) if c is not None]
        # one common time axis: uPlot aligns all curves
        self._t = np.unique(np.concatenate([c.t for c, _, _ in known]))
        if len(self._t) > 2 * PLOT_POINTS:
            self._t = self._t[np.linspace(0, len(self._t) - 1, 2 * PLOT_POINTS).round().astype(int)]
        self._y = [np.interp(self._t, c.t, np.log10(np.maximum(c.y, 1e-17)) if log else c.y) for c, _, _ in known]
        low, high = min(float(y.min()) for y in self._y), max(float(y.max()) for y in self._y)
        if log:
            low, high = np.floor(low - 0.05), np.ceil(high + 0.05)
        else:
            pad = 0.06 * (high - low) or 1e-9 * max(abs(high), 1.0)
            low, high = low - pad, high + pad
        self._range = (float(low), float(high))
        label = ("log₁₀ " if log else "") + title + (f" ({unit})" if unit else "")
        axis: dict[str, Any] = {
            "stroke": "#667085",
            "grid": {"stroke": "#e6e9ee", "width": 1},
            "size": 26,
            "font": "11px sans-serif",
        }
        several = len(known) > 1
        series: list[dict[str, Any]] = [{"label": "t (s)"}]
        series += [{"label": n if several else title, "stroke": k, "width": 2} for _, n, k in known]
        series += [{"label": "", "stroke": "#1d2430", "width": 1}]
        self._handle = gui.add_uplot(
            data=self._data(float(self._t[0])),
            series=tuple(series),
            title=label,
            scales={
                "x": {"time": False, "range": (float(self._t[0]), float(self._t[-1]))},
                "y": {"range": self._range},
            },
            axes=(axis, {**axis, "size": 58}),
            legend={"show": False},
            height=150,
        )

    def _data(self, t: float) -> tuple[NDArray[np.float64], ...]:
        at = int(np.searchsorted(self._t, t))
        x = np.insert(self._t, at, [t, t])
        curves = [np.insert(y, at, [np.interp(t, self._t, y)] * 2) for y in self._y]
        line = np.full(len(x), np.nan)
        line[at], line[at + 1] = self._range
        return (x, *curves, line)

    def cursor(self, t: float) -> None:
        self._handle.data = self._data(float(np.clip(t, self._t[0], self._t[-1])))

    def remove(self) -> None:
        self._handle.remove()
