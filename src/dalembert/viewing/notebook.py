"""Pages inside of notebooks: what `show` and the `_repr_html_` of results return. Offline: a page carries all that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from tempfile import NamedTemporaryFile

from ..files import replacing
from ..text import table
from .export import page_of
from .quantities import Shown

HEIGHT = 420  # pixels
SAMPLES = 800  # of a motion in a notebook, which keeps every page that it shows


@dataclass(frozen=True)
class Page:
    """A page that plays a motion. A notebook shows it in place; `save` writes it, `open` shows it in the browser.

    >>> Page("<p>hello</p>", "greeting")
    Page 'greeting' (1 kB): the last line of a notebook's cell shows it, .open() the browser, .save("page.html") keeps it
    """

    text: str = field(repr=False)
    title: str
    height: int = HEIGHT

    def __repr__(self) -> str:
        size = max(1, round(len(self.text) / 1000))
        return (
            f"Page {self.title!r} ({size} kB): the last line of a notebook's cell shows it, "
            '.open() the browser, .save("page.html") keeps it'
        )

    def _repr_html_(self) -> str:
        return frame_of(self.text, self.title, self.height)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file; returns its path."""
        with replacing(path) as file:
            file.write_text(self.text, encoding="utf-8")
        return Path(path)

    def open(self) -> Path:
        """Show the page in the browser, from a temporary file; returns its path."""
        import webbrowser

        with NamedTemporaryFile("w", suffix=".html", prefix="dalembert-", delete=False, encoding="utf-8") as file:
            file.write(self.text)
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)


def show(
    trajectory: Shown | Sequence[Shown],
    *others: Shown,
    names: Sequence[str] | None = None,
    title: str | None = None,
    variables: Sequence[str] | None = None,
    height: int = HEIGHT,
    autoplay: bool = False,
    max_samples: int = SAMPLES,
) -> Page:
    """A motion (or several, or a bare Model) as a page that plays in place in a notebook; nothing is fetched from a network.

    `trajectory` is a Trajectory, a list of them or a Model; `others` are drawn over it, called `names`; `title` heads the page. `variables` are the
    quantities that are plotted first (patterns, too: "motor *"), `height` is that of the page in pixels, `autoplay` starts the motion at once,
    `max_samples` bounds its size in the notebook's file. Works in JupyterLab, VS Code and whatever shows HTML; returns the `Page`.

    >>> from dalembert import Gravity, Model, rx, tz
    >>> pendulum = Model([rx("theta", tz(-1.0, name="bob", mass=1.0))], [Gravity()], name="pendulum")
    >>> show(pendulum).title
    'pendulum'
    """
    runs = [*(trajectory if isinstance(trajectory, (list, tuple)) else [trajectory]), *others]
    found, text = page_of(
        runs, names=names, title=title, variables=variables, max_samples=max_samples, autoplay=autoplay, embedded=True
    )
    return Page(text, found, int(height))


MAX_KILOBYTES = 4000  # of a page that nobody asked for


def result_html(head: str, facts: Mapping[str, object], shown: Shown) -> str:
    """What a notebook shows of a model or a motion: a line, a table of facts, the page that plays it."""
    try:
        page = show(shown)
    except ModuleNotFoundError as missing:  # a mesh needs a package: say which, and show the rest
        return table(facts, head) + f"<p>{escape(str(missing))}</p>"
    if len(page.text) > 1000 * MAX_KILOBYTES:
        return table(facts, head) + f"<p>The page has {len(page.text) / 1e6:.0f} MB: .show() shows it.</p>"
    return table(facts, head) + page._repr_html_()


def frame_of(page: str, title: str, height: int) -> str:
    """A page as an element of another one."""
    style = f"width:100%;height:{height}px;border:1px solid #d8dde5;border-radius:8px;background:#fff"
    return (
        f'<iframe title="{escape(title, quote=True)}" style="{style}" loading="lazy" '
        f'sandbox="allow-scripts" srcdoc="{escape(page, quote=True)}"></iframe>'
    )
