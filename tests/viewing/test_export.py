"""The HTML page as a file, and films."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from PIL import Image
from view_samples import cart_pole, closed_chain, everything, pendulum, swinging

import dalembert as da
from dalembert.viewing import film
from dalembert.viewing.export import export_html, grid_cell
from dalembert.viewing.film import export_gif, export_mp4, find_ffmpeg, picture


def data_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1))


def numbers(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_the_page_holds_the_motion_and_needs_nothing_else(tmp_path) -> None:
    motion = swinging(closed_chain())
    path = export_html(motion, tmp_path / "page.html")
    assert path.stat().st_size < 250_000
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=|https?://|import\(|fetch\(|@import|url\(", text)
    run = data_of(path)["runs"][0]
    np.testing.assert_allclose(numbers(run["q"], "<f4").reshape(-1, 7), motion.q, atol=1e-6)
    np.testing.assert_allclose(numbers(run["t"], "<f8"), motion.t)
    assert [s["title"] for s in run["series"]] == ["Energy", "Constraint violation"]
    np.testing.assert_allclose(numbers(run["series"][0]["y"], "<f8"), motion.energy())


def test_long_motions_are_thinned_but_peaks_stay(tmp_path) -> None:
    motion = swinging(pendulum(), steps=30_000)
    peak = motion.energy()
    peak[12_345] = 99.0
    motion.energy = lambda: peak  # type: ignore[method-assign]
    run = data_of(export_html(motion, tmp_path / "long.html", max_samples=500))["runs"][0]
    assert len(numbers(run["t"], "<f8")) == 500
    assert numbers(run["series"][0]["y"], "<f8").max() == 99.0


def test_names_cannot_break_the_page(tmp_path) -> None:
    path = export_html(pendulum(), tmp_path / "odd.html", title="</script><b>&", names=["</script><script>alert(1)"])
    text = path.read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    assert "&lt;/script&gt;" in text
    assert data_of(path)["runs"][0]["name"] == "</script><script>alert(1)"


def test_bad_requests_write_nothing(tmp_path) -> None:
    motion = swinging(pendulum())
    motion.q[3] = np.inf
    with pytest.raises(ValueError, match="NaN or infinity"):
        export_html(motion, tmp_path / "bad.html")
    with pytest.raises(ValueError, match="names"):
        export_html([swinging(pendulum())] * 2, tmp_path / "bad.html", names=["one"])
    assert not (tmp_path / "bad.html").exists()


@pytest.mark.parametrize(("extent", "cell"), [(3.0, 0.5), (0.12, 0.02), (1.0, 0.2), (40.0, 5.0)])
def test_grid_cells_are_round(extent: float, cell: float) -> None:
    assert grid_cell(extent) == pytest.approx(cell)


def test_films_follow_what_travels(tmp_path):
    """The film of a car, or of a drone that loops, was a picture of the ground."""
    arms = [da.tx(x, mass=0.5) for x in (-0.3, 0.3)]
    vi = da.MidpointVI(da.Model([da.floating("base", *arms, mass=1.0, inertia=(0.1, 0.1, 0.1), name="body")]), dt=0.1)
    motion = vi.simulate(vi.state(v={"base.vx": 5.0, "base.vz": 1.0}), steps=50)
    with Image.open(export_gif(motion, tmp_path / "a.gif", fps=2, size=(160, 120), plot=False)) as film_:
        for k in range(film_.n_frames):
            film_.seek(k)
            r, _, b = np.moveaxis(np.asarray(film_.convert("RGB"), dtype=int), -1, 0)
            assert (b - r > 60).sum() > 8, f"picture {k} does not show the blue body"


def test_a_gif_plays_as_long_as_the_motion(tmp_path) -> None:
    motion = swinging(cart_pole(), seconds=1.0)
    with Image.open(export_gif(motion, tmp_path / "a.gif", fps=10, size=(200, 160))) as film_:
        assert film_.n_frames == 11
        assert film_.size == (200, 160)
        total = 0
        for i in range(film_.n_frames):
            film_.seek(i)
            total += film_.info["duration"]
        assert total == 1100
        film_.seek(0)
        first = np.asarray(film_.convert("RGB"), dtype=int)
        film_.seek(4)
        later = np.asarray(film_.convert("RGB"), dtype=int)
    assert np.abs(first - later).max(axis=2).mean() > 1.0  # it moves


def test_speed_and_frame_limits(tmp_path) -> None:
    motion = swinging(pendulum(), seconds=4.0)
    with Image.open(export_gif(motion, tmp_path / "a.gif", fps=5, speed=2, size=(120, 96), plot=False)) as film_:
        assert film_.n_frames == 11
    with Image.open(export_gif(motion, tmp_path / "b.gif", fps=5, max_frames=4, size=(120, 96))) as film_:
        assert film_.n_frames == 4
    with pytest.raises(ValueError, match="positive"):
        export_gif(motion, tmp_path / "c.gif", fps=0)


def test_a_picture_shows_the_bob_where_it_is() -> None:
    motion = swinging(pendulum())
    at = {}
    for time in (0.0, 0.8):
        image = np.asarray(picture(motion, time, size=(400, 300)), dtype=int)
        blue = (image[..., 2] - image[..., 0] > 60) & (image[..., 2] > 120)
        assert blue.sum() > 30
        at[time] = np.argwhere(blue).mean(axis=0)
    # y goes to the right when looking along -x at a pendulum that turns about x
    assert at[0.8][1] - at[0.0][1] > 20


def test_everything_can_be_painted() -> None:
    image = np.asarray(picture(swinging(everything()), 1.0, size=(200, 150), trail=0.5))
    assert image.std() > 5


def test_an_empty_world_and_a_single_instant_can_be_shown(tmp_path) -> None:
    empty = da.Model([])
    assert picture(empty, size=(100, 80)).size == (100, 80)
    export_html(empty, tmp_path / "empty.html")
    vi = da.MidpointVI(pendulum(), dt=0.01)
    first = vi.simulate(vi.state(q=[0.1]), steps=3)[0:1]
    export_html(first, tmp_path / "instant.html")
    picture(first, size=(100, 80))


def test_mp4_without_ffmpeg_says_what_to_do(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(film, "find_ffmpeg", lambda: None)
    with pytest.raises(RuntimeError, match="use export_gif"):
        export_mp4(swinging(pendulum()), tmp_path / "a.mp4")


@pytest.mark.skipif(find_ffmpeg() is None, reason="no ffmpeg on this machine: MP4 is not tested")
def test_mp4(tmp_path) -> None:
    path = export_mp4(swinging(pendulum(), seconds=0.5), tmp_path / "a.mp4", size=(160, 120))
    assert path.read_bytes()[4:8] == b"ftyp"
