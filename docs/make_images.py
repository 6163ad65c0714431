"""Makes the pictures of the documentation: real simulations, shown by the real pages in chromium.

Run: python docs/make_images.py   (needs playwright and a chromium on the PATH)
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert import models

IMAGES = Path(__file__).parent / "images"
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run"]


def closed_chain(seconds: float = 20.0) -> da.Trajectory:
    """The device of Scalable variational integrators, Listing 1, released from rest."""
    model, configurations = models.load_with_configurations("closed_chain")
    vi = da.MidpointVI(model, dt=0.01)
    return vi.simulate(vi.state(q=configurations["q0"]), time=seconds)


def marionette(seconds: float = 6.0) -> da.Trajectory:
    """The marionette: strings wound up and down in turn."""
    model, configurations = models.load_with_configurations("marionette")
    vi = da.MidpointVI(model, dt=0.01)
    q0 = np.asarray(configurations["q0"])
    base = q0[model.nd :]
    phase = {"left_leg": -1.0, "right_leg": 1.0, "left_arm": 1.0, "right_arm": -1.0}

    def winches(t: float) -> np.ndarray:
        length = base.copy()
        for i, name in enumerate(model.kinematic):
            for limb, sign in phase.items():
                if name.startswith(limb) and name.endswith("length"):
                    length[i] += 0.12 * sign * np.sin(0.6 * np.pi * t)
        return length

    return vi.simulate(vi.state(q=q0), time=seconds, kinematic=winches)


def cart_poles() -> tuple[list[da.Trajectory], list[str]]:
    """Cart and pole: upright balanced by LQR, and let go."""
    model, _ = models.load_with_configurations("cart_pole")
    vi = da.MidpointVI(model, dt=0.02)
    upright = vi.simulate(vi.state(q={"theta": np.pi}), time=6.0)
    regulator = da.lqr(vi, upright, Q=np.diag([1.0, 10.0, 1.0, 1.0]), R=np.eye(1))
    pushed = vi.state(q={"theta": np.pi - 0.35})
    closed = vi.simulate(pushed, time=6.0, u=regulator)
    free = vi.simulate(pushed, time=6.0)
    return [closed, free], ["closed loop (LQR)", "open loop"]


def shoot(browser: Any, motions: Any, target: str, time: float, size: tuple[int, int], **options: Any) -> None:
    """A screenshot of the self-contained page at a time."""
    click = options.pop("click", ())
    near, lower = options.pop("near", 1.0), options.pop("lower", 0.0)
    with tempfile.TemporaryDirectory() as folder:
        page_file = da.export_html(motions, Path(folder) / "page.html", autoplay=False, **options)
        page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        page.goto(page_file.as_uri())
        for selector in click:
            page.click(selector)
        page.evaluate(f"dalembert.cam.distance *= {near}; dalembert.cam.target[2] -= {lower}")
        page.evaluate(f"dalembert.go({time})")
        page.wait_for_timeout(1500)
        save(page.screenshot(), target)
        page.close()


def shoot_live(browser: Any, motions: Any, names: Any, target: str, time: float, size: tuple[int, int]) -> None:
    """A screenshot of the live viewer."""
    with da.view(*motions, names=names, open_browser=False, autoplay=False, port=8190) as viewer:
        page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        page.goto(viewer.url)
        page.locator(".uplot canvas").first.wait_for(timeout=60_000)
        # viser warns about software rendering, which is meant here
        page.add_style_tag(content=".mantine-Notifications-root, .mantine-Notification-root { display: none }")
        viewer.time = time
        page.wait_for_timeout(4000)
        save(page.screenshot(), target)
        page.close()


# film -> section of the page whose code makes the motion, its name there, playing speed
FILMS: dict[str, tuple[str, str, float]] = {
    "quadrotor": ("howto/rotations.md#a-loop", "plan", 0.7),
    "car": ("howto/rolling.md#a-car", "drive", 1.5),
    "arm": ("howto/urdf.md#an-arm-that-follows-a-path", "late", 1.0),
    "five-bar": ("howto/filters.md#a-five-bar", "truth", 1.0),
}


def films() -> None:
    """Small films of robots for the gallery, from the code of the pages that explain them."""
    for name, (page, motion, speed) in FILMS.items():
        names: dict[str, Any] = {}
        text = (IMAGES.parent / page.partition("#")[0]).read_text(encoding="utf-8")
        for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(code, names)
        run = names[motion]
        run = getattr(run, "trajectory", run)
        da.export_gif(run, IMAGES / f"{name}.gif", size=(240, 170), fps=8, speed=speed, plot=False)


def save(png: bytes, name: str) -> None:
    """A compact PNG: even colour values pack better, and nobody sees the difference."""
    import io

    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    Image.fromarray(pixels // 2 * 2 + (pixels == 255)).save(IMAGES / name, optimize=True)


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    films()
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    device, puppet, (carts, names) = closed_chain(), marionette(), cart_poles()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        shoot(browser, device, "hero.png", 7.3, (1200, 640), title="Closed-chain device", click=["#trails"], near=0.84)
        limbs = ["lknee_rx", "relbow_rx", "left_leg_string-length"]
        shoot(browser, puppet, "marionette.png", 3.2, (1200, 640), variables=limbs, near=0.62, lower=0.45)
        shoot_live(browser, carts, names, "viewer.png", 0.4, (1200, 640))
        browser.close()
    device.plot(title="Closed chain").savefig(IMAGES / "figure.png", dpi=110)


if __name__ == "__main__":
    main()
