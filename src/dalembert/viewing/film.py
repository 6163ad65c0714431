"""Films and still pictures without a browser: a small painter that draws a Scene with Pillow.

Triangles are shaded, sorted from far to near and filled at twice the size; a soft shadow lies on the ground. This is
made for a few thousand triangles and needs no graphics hardware.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import replacing
from .build import build_scene
from .export import arrow_scales, grid_cell, thread
from .geometry import between
from .meshes import simplified
from .quantities import Array, Motion, Shown, check_names, held_inputs, motions, on_the_way, quality
from .scene import FORCE, PALETTE, TORQUE, Camera, Scene, arrow_vectors, place, rgb, tinted
from .solids import Solid, solids_of, sphere, triangles

FOV = 0.56
SUPERSAMPLE = 2


def picture(
    trajectory: Shown | Sequence[Shown],
    time: float | None = None,
    *,
    size: tuple[int, int] = (960, 720),
    trail: float = 0.0,
    names: Sequence[str] | None = None,
) -> Any:
    """A Pillow image of trajectories (or a model) at a time (s; default: the start), `size` (width, height) in pixels.

    `trail` > 0 draws the paths of the masses over that many seconds before.

    >>> from dalembert import Model, rx, tz
    >>> picture(Model([rx("theta", tz(-1.0, name="bob", mass=1.0))]), size=(320, 240)).size
    (320, 240)
    """
    runs = motions(trajectory)
    stage = _Stage(runs, check_names(runs, names), size)
    return stage.draw(float(runs[0].t[0]) if time is None else float(time), trail)


def export_gif(
    trajectory: Shown | Sequence[Shown],
    path: str | PathLike[str],
    *,
    fps: float = 20.0,
    speed: float = 1.0,
    size: tuple[int, int] = (640, 480),
    plot: bool = True,
    trail: float = 0.0,
    max_frames: int = 400,
    names: Sequence[str] | None = None,
) -> Path:
    """Write an animated GIF of one or several trajectories; returns the path.

    `trajectory` is one or a list of them, called `names`; `fps` pictures per second;
    `speed` 2 plays twice as fast; `size` is in pixels; `plot` adds the energy with a cursor in time under the scene
    (if the film is at least 160 pixels high); `trail` (s) draws the recent paths of the masses. Motions that would need
    more than `max_frames` pictures are played with larger steps in time.

    >>> import tempfile
    >>> from dalembert import Model, rx, tz
    >>> from dalembert.viewing.quantities import Pose
    >>> still = Pose(Model([rx("theta", tz(-1.0, name="bob", mass=1.0))]), np.zeros((1, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_gif(still, folder + "/still.gif", size=(160, 120), plot=False).stat().st_size > 500
    True
    """
    runs = motions(trajectory)
    frames = list(_frames(runs, check_names(runs, names), fps, speed, size, plot, trail, max_frames))
    # one palette for all pictures, from samples of the whole film, keeps still parts still
    from PIL import Image

    chosen = frames[:: max(1, len(frames) // 6)][:6]
    sheet = Image.new("RGB", (size[0], size[1] * len(chosen)))
    for i, image in enumerate(chosen):
        sheet.paste(image, (0, i * size[1]))
    # every colour counts for a few pixels at most: counted fully, the background would take the palette for its shades, and small bodies be grey
    colors, count = np.unique(np.asarray(sheet).reshape(-1, 3), axis=0, return_counts=True)
    sample = Image.fromarray(np.repeat(colors, np.minimum(count, 4), axis=0)[None])
    palette = sample.quantize(colors=255, method=Image.Quantize.MEDIANCUT)
    indexed = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in frames]
    target = Path(path)
    duration = max(20, round(1000 / fps))
    with replacing(target) as file:
        indexed[0].save(
            file, format="GIF", save_all=True, append_images=indexed[1:], duration=duration, loop=0, optimize=False
        )
    return target


def export_mp4(
    trajectory: Shown | Sequence[Shown],
    path: str | PathLike[str],
    *,
    fps: float = 30.0,
    speed: float = 1.0,
    size: tuple[int, int] = (960, 720),
    plot: bool = True,
    trail: float = 0.0,
    max_frames: int = 3000,
    names: Sequence[str] | None = None,
) -> Path:
    """Write an MP4 film with ffmpeg (on the PATH, or from the package imageio-ffmpeg); options as for `export_gif`.

    `trajectory` goes to the file `path`; `fps`, `speed`, `size`, `plot`, `trail`, `max_frames`, `names` mean the same.
    Raises RuntimeError when there is no ffmpeg; `export_gif` needs none.
    """
    program = find_ffmpeg()
    if program is None:
        raise RuntimeError("export_mp4 needs ffmpeg: install it or the package imageio-ffmpeg, or use export_gif")
    runs = motions(trajectory)
    size = (size[0] // 2 * 2, size[1] // 2 * 2)  # the codec wants even sides
    target = Path(path)
    command = [program, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{size[0]}x{size[1]}", "-r", str(fps), "-i", "-", "-an", "-c:v", "libx264"]
    command += ["-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
    frames = _frames(runs, check_names(runs, names), fps, speed, size, plot, trail, max_frames)
    with replacing(target) as file:
        with subprocess.Popen([*command, str(file)], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            try:
                for image in frames:
                    process.stdin.write(image.tobytes())
                process.stdin.close()
            except BrokenPipeError:
                pass  # ffmpeg stopped; its message follows
            message = process.stderr.read().decode(errors="replace").strip()
        if process.returncode != 0:
            raise RuntimeError(f"ffmpeg failed: {message[-400:]}")
    return target


def find_ffmpeg() -> str | None:
    """Path of an ffmpeg program, or None."""
    found = shutil.which("ffmpeg")
    if found is None:
        try:
            import imageio_ffmpeg

            found = imageio_ffmpeg.get_ffmpeg_exe()
        except Exception:  # not installed, or installed without a binary
            return None
    return found


def _frames(
    runs: list[Motion],
    names: list[str],
    fps: float,
    speed: float,
    size: tuple[int, int],
    plot: bool,
    trail: float,
    max_frames: int,
) -> Iterator[Any]:
    if not (fps > 0 and speed > 0 and max_frames > 0):
        raise ValueError("fps, speed and max_frames must be positive")
    if min(size) < 64:
        raise ValueError(f"a film of {size[0]} x {size[1]} pixels is too small")
    start, end = min(float(r.t[0]) for r in runs), max(float(r.t[-1]) for r in runs)
    count = min(max(math.floor((end - start) * fps / speed + 1e-9) + 1, 1), max_frames)
    strip = _Strip(runs, (size[0], round(0.24 * size[1]))) if plot and end > start and size[1] >= 160 else None
    stage = _Stage(runs, names, (size[0], size[1] - (strip.size[1] if strip else 0)))
    for t in np.linspace(start, end, count):
        image = stage.draw(float(t), trail)
        yield image if strip is None else strip.under(image, float(t))


# ---- the painter ----------------------------------------------------------------------------------------------------


class _Stage:
    """Scenes, camera and light of a film."""

    def __init__(self, runs: list[Motion], names: list[str], size: tuple[int, int]) -> None:
        self.runs, self.names, self.size = runs, names, size
        self.scenes = [build_scene(run.model, run.q) for run in runs]
        self.scales = arrow_scales(self.scenes, runs)
        first = self.scenes[0]
        radius = max(s.camera.radius for s in self.scenes)
        self.eye = _Eye(first.camera, radius, (size[0] * SUPERSAMPLE, size[1] * SUPERSAMPLE))
        self.ground = min(s.ground for s in self.scenes)
        self.backdrop = self._backdrop(first)
        self.follow = first.camera.follow
        self.middle = self._middle(float(runs[0].t[0]))

    def _middle(self, t: float) -> Array:
        """Mean place of the masses at time t."""
        places = []
        for run, scene in zip(self.runs, self.scenes, strict=True):
            masses = [e.index for e in run.model.frame_entries[1:] if e.frame is not None and e.frame.mass > 0]
            places.append(place(scene, _sample(run, np.array([t]))[0]).frames[0, masses or [0], :3, 3])
        return np.concatenate(places).mean(axis=0)

    def draw(self, t: float, trail: float) -> Any:
        """One picture at time t."""
        from PIL import Image, ImageDraw, ImageFilter

        if self.follow:  # as the page does: a body that travels would leave the picture
            middle = self._middle(t)
            self.eye.move(middle - self.middle)
            self.middle, self.backdrop = middle, self._backdrop(self.scenes[0])
        corners, colors, solid = self._triangles(t, trail)
        eye, up = self.eye, self.eye.up
        image = self.backdrop.copy()
        # shadow: everything pressed onto the ground along the light, blurred a little
        height = (corners[solid] @ up - self.ground) / (eye.sun @ up)
        flat, _ = eye.project(corners[solid] - height[..., None] * eye.sun)
        mask = Image.new("L", (image.width // 2, image.height // 2), 0)
        brush = ImageDraw.Draw(mask)
        for triangle in (flat / 2).reshape(-1, 6).tolist():
            brush.polygon(triangle, fill=60)
        mask = mask.filter(ImageFilter.GaussianBlur(1.5 * SUPERSAMPLE)).resize(image.size)
        image.paste((70, 80, 96), (0, 0), mask)
        # parts, far to near
        points, depth = eye.project(corners)
        order = np.argsort(-depth.mean(axis=1))
        brush = ImageDraw.Draw(image)
        for triangle, color in zip(
            points.reshape(-1, 6)[order].tolist(), map(tuple, colors[order].tolist()), strict=True
        ):
            brush.polygon(triangle, fill=color)
        image = image.resize(self.size, Image.Resampling.LANCZOS)
        self._write(image, t)
        return image

    def _write(self, image: Any, t: float) -> None:
        from PIL import ImageDraw

        brush = ImageDraw.Draw(image)
        font = _font(max(11, round(self.size[1] / 36)))
        line = font.size * 1.45
        brush.text((12, 9), f"{t:6.2f} s", fill=(70, 80, 96), font=font)
        if len(self.runs) > 1:
            for i, name in enumerate(self.names):
                y = 9 + (i + 1) * line
                color = _bytes(rgb(PALETTE[i % len(PALETTE)]))
                brush.ellipse((14, y + 0.2 * font.size, 14 + 0.8 * font.size, y + font.size), fill=color)
                brush.text((14 + 1.3 * font.size, y), name, fill=(70, 80, 96), font=font)

    def _backdrop(self, scene: Scene) -> Any:
        """Sky and a ground grid that fades with distance."""
        from PIL import Image, ImageDraw

        eye = self.eye
        shade = np.linspace(0, 1, eye.size[1])[:, None, None]
        sky = np.array([252, 253, 254]) * (1 - shade) + np.array([226, 232, 240]) * shade
        image = Image.fromarray(np.broadcast_to(sky, (eye.size[1], eye.size[0], 3)).round().astype(np.uint8).copy())
        cell, reach = grid_cell(scene.extent), 7.0 * scene.extent
        rotation, _ = between(np.zeros(3), eye.up)
        e1, e2 = rotation[:, 0], rotation[:, 1]
        centre = eye.target - eye.up * (eye.up @ eye.target - self.ground)
        brush = ImageDraw.Draw(image, "RGBA")
        steps = np.linspace(-reach, reach, 60)
        for a, b in ((e1, e2), (e2, e1)):
            at, other = float(centre @ a), float(centre @ b)
            for k in range(math.ceil((at - reach) / cell), math.floor((at + reach) / cell) + 1):
                line = eye.up * self.ground + k * cell * a + (other + steps)[:, None] * b
                points, depth = eye.project(line)
                far = np.linalg.norm(line - centre, axis=1) / reach
                for i in range(len(line) - 1):
                    strength = (1 - min(1.0, float(far[i]))) ** 1.3 * (130 if k % 5 == 0 else 70)
                    if depth[i : i + 2].min() > eye.near and strength > 2:
                        ends = [tuple(points[i]), tuple(points[i + 1])]
                        brush.line(ends, fill=(120, 132, 150, int(strength)), width=SUPERSAMPLE)
        return image

    def _triangles(self, t: float, trail: float) -> tuple[Array, NDArray[np.uint8], NDArray[np.bool_]]:
        """Corners (T, 3, 3), shaded colours (T, 3), and which triangles cast a shadow (T,)."""
        found: dict[Solid, list[tuple[Array, Any]]] = {}

        def add(solid: Solid, pose: Array, color: Any) -> None:
            found.setdefault(solid, []).append((pose, color))

        for number, (run, scene) in enumerate(zip(self.runs, self.scenes, strict=True)):
            tint = rgb(PALETTE[number % len(PALETTE)])
            q, u = _sample(run, np.array([t]))
            placed = place(scene, q)
            overlay = len(self.runs) > 1
            for shape, pose in zip(scene.shapes, placed.shapes[0], strict=True):
                if shape.alpha < 1:
                    continue  # a painter without transparency leaves glass out
                for solid, local in solids_of(shape):
                    add(solid, pose @ local, tinted(shape, tint, overlay))
            poses = _stretch(placed.links[0, :, 0], placed.links[0, :, 1])
            for link, pose in zip(scene.links, poses, strict=True):
                for solid, local in solids_of(link):
                    add(solid, pose @ local, tinted(link, tint, overlay))
            vectors = arrow_vectors(scene, placed, u)[0]
            for arrow, vector in zip(scene.arrows, vectors, strict=True):
                length = float(np.linalg.norm(vector)) * self.scales[arrow.kind]
                if length > 1e-3 * scene.extent:
                    tail = placed.frames[0, arrow.frame, :3, 3]
                    tip = tail + vector / np.linalg.norm(vector) * length
                    neck = tip - (tip - tail) / length * min(4 * arrow.radius, 0.6 * length)
                    color = FORCE if arrow.kind == "force" else TORQUE
                    thin, wide = (np.diag([k * arrow.radius, k * arrow.radius, 1.0, 1.0]) for k in (1.0, 2.3))
                    add(("cylinder",), _stretch(tail, neck) @ thin, color)
                    add(("cone",), _stretch(neck, tip) @ wide, color)
            if trail > 0:
                self._paths(run, scene, t, trail, tint, add)
        corners, colors, casts = [], [], []
        for solid, members in found.items():
            vertices, faces = _coarse(solid)
            pose = np.array([m[0] for m in members])
            shell = (vertices @ pose[:, :3, :3].transpose(0, 2, 1) + pose[:, None, :3, 3])[:, faces]
            paint = np.repeat(np.array([m[1] for m in members])[:, None], len(faces), axis=1).reshape(-1, 3)
            shell = shell.reshape(-1, 3, 3)
            if solid[0] != "mesh":  # the far side of a closed solid is hidden; files may be open
                normals = np.cross(shell[:, 1] - shell[:, 0], shell[:, 2] - shell[:, 0])
                front = np.einsum("ij,ij->i", normals, self.eye.position - shell[:, 0]) > 0
                shell, paint = shell[front], paint[front]
            corners.append(shell)
            colors.append(paint)
            casts.append(np.full(len(paint), solid[0] != "tube"))
        if not corners:
            return np.zeros((0, 3, 3)), np.zeros((0, 3), dtype=np.uint8), np.zeros(0, dtype=bool)
        everything = np.concatenate(corners)
        return everything, self._shade(everything, np.concatenate(colors)), np.concatenate(casts)

    def _paths(self, run: Motion, scene: Scene, t: float, trail: float, tint: Any, add: Any) -> None:
        masses = [e.index for e in run.model.frame_entries[1:] if e.frame is not None and e.frame.mass > 0]
        times = np.linspace(max(float(run.t[0]), t - trail), t, 50)
        paths = place(scene, _sample(run, times)[0]).frames[..., :3, 3][:, masses]
        a, b = paths[:-1].reshape(-1, 3), paths[1:].reshape(-1, 3)
        radius = np.repeat(thread(scene) * (1 - (t - times[:-1]) / trail), len(masses))
        poses = _stretch(a, b)
        poses[:, :3, :2] *= radius[:, None, None]
        pale = 0.55 * np.array(tint) + 0.45
        for pose in poses[np.linalg.norm(b - a, axis=1) > 1e-5 * scene.extent]:
            add(("tube",), pose, pale)

    def _shade(self, corners: Array, colors: Array) -> NDArray[np.uint8]:
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
        towards = self.eye.position - corners[:, 0]
        normals *= np.where(np.einsum("ij,ij->i", normals, towards) < 0, -1.0, 1.0)[:, None]
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        sun = np.maximum(normals @ self.eye.sun, 0.0)
        half = towards + self.eye.sun
        gloss = np.maximum(np.einsum("ij,ij->i", normals, half) / np.linalg.norm(half, axis=1), 0.0) ** 40
        light = 0.48 + 0.10 * (normals @ self.eye.up) + 0.70 * sun
        linear = colors**2.2 * light[:, None] + 0.15 * gloss[:, None]
        return (255 * np.clip(linear, 0, 1) ** (1 / 2.2)).round().astype(np.uint8)


class _Eye:
    """A perspective camera."""

    def __init__(self, camera: Camera, radius: float, size: tuple[int, int]) -> None:
        self.size, self.up, self.target = size, np.array(camera.up), np.array(camera.target)
        direction = np.array(camera.direction)
        aspect = min(size[0] / size[1], 1.0)
        distance = radius / math.sin(FOV / 2) / max(aspect, 0.3)
        self.position = self.target + distance * direction
        self.near = 0.02 * distance
        right = np.cross(self.up, direction)
        self.right = right / np.linalg.norm(right)
        self.above = np.cross(direction, self.right)
        self.forward = -direction
        self.focal = size[1] / 2 / math.tan(FOV / 2)
        sun = self.up - 0.5 * self.right + 0.75 * np.cross(self.right, self.up)
        self.sun = sun / np.linalg.norm(sun)

    def move(self, by: Array) -> None:
        """Shift the camera and what it looks at."""
        self.target, self.position = self.target + by, self.position + by

    def project(self, points: Array) -> tuple[Array, Array]:
        """World points (..., 3) -> pixels (..., 2) and depths (...)."""
        d = points - self.position
        depth = d @ self.forward
        scale = self.focal / np.maximum(depth, self.near)
        x = self.size[0] / 2 + (d @ self.right) * scale
        y = self.size[1] / 2 - (d @ self.above) * scale
        return np.stack([x, y], axis=-1), depth


class _Strip:
    """The energy over time, drawn once; each picture only adds the cursor."""

    def __init__(self, runs: list[Motion], size: tuple[int, int]) -> None:
        import io

        from matplotlib.figure import Figure
        from PIL import Image

        from .figures import style

        self.size = size
        with style():
            figure = Figure(figsize=(size[0] / 100, size[1] / 100), dpi=100 * SUPERSAMPLE, layout="constrained")
            ax = figure.subplots()
            for i, run in enumerate(runs):
                curve = quality(run)[0]
                ax.plot(curve.t, curve.y, color=PALETTE[i % len(PALETTE)], linewidth=1.3)
            ax.set_ylabel("energy (J)", fontsize=8.5)
            ax.tick_params(labelsize=8)
            ax.set_xlim(min(float(r.t[0]) for r in runs), max(float(r.t[-1]) for r in runs))
            ax.locator_params(axis="y", nbins=4)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=100 * SUPERSAMPLE, bbox_inches=None)
            box = ax.get_window_extent()
        whole = Image.open(buffer).convert("RGB")
        self.image = whole.resize(size, Image.Resampling.LANCZOS)
        self.x = (box.x0 * size[0] / whole.width, box.x1 * size[0] / whole.width)
        self.y = (size[1] - box.y1 * size[1] / whole.height, size[1] - box.y0 * size[1] / whole.height)
        self.span = ax.get_xlim()

    def under(self, image: Any, t: float) -> Any:
        from PIL import Image, ImageDraw

        out = Image.new("RGB", (self.size[0], image.height + self.size[1]), "white")
        out.paste(image, (0, 0))
        out.paste(self.image, (0, image.height))
        x = self.x[0] + (self.x[1] - self.x[0]) * (t - self.span[0]) / (self.span[1] - self.span[0])
        brush = ImageDraw.Draw(out)
        brush.line([(x, image.height + self.y[0]), (x, image.height + self.y[1])], fill=(29, 36, 48), width=1)
        return out


# ---- small helpers --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _coarse(solid: Solid) -> tuple[Array, NDArray[np.int64]]:
    """Solids with fewer triangles; tubes are cut along their length, so that sorting by depth works."""
    if solid[0] == "cylinder":
        sides, rings = 14, 13
        ph, z = np.meshgrid(np.linspace(0, 2 * np.pi, sides + 1), np.linspace(0, 1, rings))
        tube = np.stack([np.cos(ph), np.sin(ph), z], axis=-1).reshape(-1, 3)
        i, j = np.meshgrid(np.arange(rings - 1), np.arange(sides), indexing="ij")
        a = (i * (sides + 1) + j).ravel()
        faces = np.concatenate(
            [np.stack([a, a + 1, a + sides + 2], axis=1), np.stack([a, a + sides + 2, a + sides + 1], axis=1)]
        )
        n = len(tube)
        tube = np.concatenate([tube, [[0, 0, 0], [0, 0, 1]]])
        k = np.arange(sides)
        top = (rings - 1) * (sides + 1)
        caps = [np.stack([k + 1, k, 0 * k + n], axis=1), np.stack([top + k, top + k + 1, 0 * k + n + 1], axis=1)]
        return tube, np.concatenate([faces, *caps])
    if solid[0] == "sphere":
        return sphere(11, 17)
    if solid[0] == "mesh":
        return simplified(*triangles(solid), 4000)
    return triangles(solid)


def _stretch(a: Array, b: Array) -> Array:
    """Poses (..., 4, 4) that lay the unit z axis from a to b (..., 3)."""
    rotation, length = between(a, b)
    m = np.zeros((*length.shape, 4, 4))
    m[..., :3, :3] = rotation
    m[..., :3, 2] *= length[..., None]
    m[..., :3, 3] = a
    m[..., 3, 3] = 1.0
    return m


def _sample(run: Motion, times: Array) -> tuple[Array, Array]:
    """Configurations (n, nq) between samples, and inputs (n, nu) of those steps."""
    t, q = np.asarray(run.t, dtype=float), np.asarray(run.q, dtype=float)
    k = np.clip(np.searchsorted(t, times, side="right") - 1, 0, max(len(t) - 2, 0))
    n = np.minimum(k + 1, len(t) - 1)
    h = t[n] - t[k]
    w = np.clip(np.where(h > 0, (times - t[k]) / np.where(h > 0, h, 1.0), 0.0), 0.0, 1.0)[:, None]
    return on_the_way(run.model, q[k], q[n], w), held_inputs(run, k)


def _bytes(color: Any) -> tuple[int, int, int]:
    r, g, b = (round(255 * c) for c in color)
    return (r, g, b)


@lru_cache(maxsize=16)
def _font(size: int) -> Any:
    """The font of the figures; it comes with matplotlib."""
    from matplotlib import font_manager
    from PIL import ImageFont

    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)


__all__ = ["export_gif", "export_mp4", "find_ffmpeg", "picture"]
