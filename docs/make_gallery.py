"""Makes docs/gallery.md and its pictures from what `dalembert examples run --all` wrote.

Run: dalembert examples run --all --out out && python docs/make_gallery.py out
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from make_images import FILMS
from PIL import Image

from dalembert.cli import example_files

DOCS = Path(__file__).parent
WIDTH = 1000  # pixels: enough for a page, a tenth of the bytes


def few_colours(image: Image.Image) -> Image.Image:
    """At most 256 colours, white among them.

    Every colour counts for at most 20 pixels: counted fully, a background would take the palette for its shades, and
    thin lines of different colours would become one.
    """
    pixels = np.asarray(image)
    colours, index, count = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    sample = Image.fromarray(np.repeat(colours, np.minimum(count, 20), axis=0)[None])
    few = np.array(sample.quantize(255, kmeans=2).getpalette()).reshape(-1, 3)
    few = np.vstack([few[:255], [255, 255, 255]])
    # Pillow's own search of the nearest entry is coarse: white would become grey
    nearest = np.array([np.argmin(((few - c) ** 2).sum(axis=1)) for c in colours.astype(int)], dtype=np.uint8)
    result = Image.fromarray(nearest[index].reshape(pixels.shape[:2]), "P")
    result.putpalette(few.ravel().tolist())
    return result


# robots and machines come first
FIRST = (
    "arm_crane_drone",
    "bicycle",
    "cart_pole_mpc",
    "closed_chain",
    "falling_cat",
    "falling_quadruped",
    "identify_arm",
    "impacts",
    "learn_policy",
    "marionette_mocap",
    "marionette_walk",
    "pitcher",
    "quadrotor_load",
    "rotor_satellite",
    "scissor_lift",
    "string_robot",
)


def films() -> list[str]:
    """Robots in motion, each with a link to its code."""
    return [f"- [![{name}](images/{name}.gif){{ .thumb .film }} {name}]({page})" for name, (page, *_) in FILMS.items()]


def thumbnails(pictures: dict[str, str]) -> list[str]:
    """Small pictures (example -> file) with names that lead to their places on the page; docs/css lays them out."""
    return [f"- [![{name}](images/gallery/{file}){{ .thumb }} {name}](#{name})" for name, file in pictures.items()]


def main(out: Path) -> None:
    """Copy the pictures, smaller, and write the page."""
    results = json.loads((out / "examples.json").read_text(encoding="utf-8"))
    pictures = DOCS / "images" / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    text = [
        "# Gallery",
        "",
        "Robots of your own, from twenty lines to the film (`da.export_gif(motion, path)`); a picture leads to its code:",
        "",
        *films(),
        "",
        "Every other picture is made by a script of `examples/`; run one with `dalembert examples run NAME`, or all of them",
        "with `dalembert examples run --all`, which writes this gallery with all numbers as a page on your disk.",
        "",
    ]
    files = {path.stem: path for path in example_files()}
    sections: list[str] = []
    first: dict[str, str] = {}
    for name in sorted(files, key=lambda name: (name not in FIRST, name)):
        r = results.get(name)
        if r is None or r["code"] != 0:
            print("left out:", name)
            continue
        sections += [f"## {name}", "", r["title"], ""]
        for file in r["files"]:
            if not file.endswith(".png") or not (out / file).is_file():
                continue
            image = Image.open(out / file).convert("RGB")
            image.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
            few_colours(image).save(pictures / file, optimize=True)
            sections += [f"![{name}](images/gallery/{file})", ""]
            if name in FIRST:
                first.setdefault(name, file)
    text += [*thumbnails(first), "", *sections]
    (DOCS / "gallery.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
