"""Shared pieces of the view tests: sample motions, and a real browser where there is one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for view_samples
matplotlib.use("Agg")

FLAGS = [
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium with software WebGL; the test is skipped, with the reason, where it cannot run."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("playwright is not installed: the page is not tested in a browser")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium on the PATH: the page is not tested in a browser")
    with sync_playwright() as playwright:
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}  # the browser does not start under a sanitizer
        running = playwright.chromium.launch(executable_path=program, args=FLAGS, env=env)
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page that remembers errors and requests in `page.troubles` and `page.requests_seen`."""
    context = browser.new_context(viewport={"width": 800, "height": 500})
    sheet = context.new_page()
    sheet.troubles = []
    sheet.requests_seen = []
    sheet.on("pageerror", lambda e: sheet.troubles.append(str(e)))
    sheet.on("console", lambda m: sheet.troubles.append(m.text) if m.type == "error" else None)
    sheet.on("request", lambda r: sheet.requests_seen.append(r.url))
    yield sheet
    context.close()
