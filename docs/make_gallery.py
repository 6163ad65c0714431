"""Makes docs/gallery.md and its pictures from what `dalembert examples run --all` wrote.

Run: dalembert examples run --all --out out && python docs/make_gallery.py out
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image

from dalembert.cli import example_files

DOCS = Path(__file__).parent
WIDTH = 1000  # pixels: enough for a page, a tenth of the bytes


def main(out: Path) -> None:
    """Copy the pictures, smaller, and write the page."""
    results = json.loads((out / "examples.json").read_text(encoding="utf-8"))
    pictures = DOCS / "images" / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    text = [
        "# Gallery",
        "",
        "Every picture is made by a script of `examples/`; run one with `dalembert examples run NAME`, or all of them",
        "with `dalembert examples run --all`, which writes this gallery with all numbers as a page on your disk.",
        "",
    ]
    for path in example_files():
        r = results.get(path.stem)
        if r is None or r["code"] != 0:
            print("left out:", path.stem)
            continue
        text += [f"## {path.stem}", "", r["title"], ""]
        for name in r["files"]:
            if not name.endswith(".png") or not (out / name).is_file():
                continue
            image = Image.open(out / name).convert("RGB")
            image.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
            image.quantize(128, dither=Image.Dither.NONE).save(pictures / name, optimize=True)
            text += [f"![{path.stem}](images/gallery/{name})", ""]
    (DOCS / "gallery.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
